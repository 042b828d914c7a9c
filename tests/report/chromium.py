"""A headless Chromium driven over the DevTools protocol through a pair of pipes: no driver, no port, no package."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections import deque
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WHERE = "RIDGEFILL_CHROMIUM"
PATIENCE = 60.0
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-sync",
    "--force-device-scale-factor=1", "--remote-debugging-pipe",
)  # fmt: skip


def find_chromium() -> str | None:
    """The browser named by ``RIDGEFILL_CHROMIUM``, else the first of the usual names on the path."""
    named = os.environ.get(WHERE)
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


class Chromium:
    """One browser with one page. ``events`` holds what it reported since the page was opened."""

    def __init__(self, binary: str, profile: Path) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()

        def wire() -> None:
            # The browser reads commands from descriptor 3 and writes answers to 4.
            kept = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_browser, from_browser)]
            os.dup2(kept[0], 3)
            os.dup2(kept[1], 4)

        self._process = subprocess.Popen(
            [binary, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            # No thread runs yet, and Popen has no other way to choose the numbers.
            preexec_fn=wire,  # noqa: PLW1509
            close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._buffer, self._waiting, self._number = b"", deque[dict[str, Any]](), 0
        self.events: list[dict[str, Any]] = []
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the browser that this object started."""
        self._process.terminate()
        self._process.wait(timeout=20)
        os.close(self._write)
        os.close(self._read)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command to the page; its result. RuntimeError for what the browser refuses."""
        return self._call(method, parameters, self._session)

    def open(self, page: Path, width: int, height: int, scheme: str = "light") -> None:
        """Open a local file at a size in CSS pixels and with a colour scheme of the system."""
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        self._until("Page.loadEventFired")

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression; RuntimeError when it throws."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"].get("exception", {}).get("description", "it threw"))
        return found["result"].get("value")

    def click(self, selector: str) -> None:
        """A mouse click in the middle of the first element that matches."""
        self.run(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center', behavior: 'instant'}})")
        x, y = self.run(
            f"(() => {{const r = document.querySelector({selector!r}).getBoundingClientRect();"
            "return [r.x + r.width / 2, r.y + r.height / 2]})()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str, modifiers: int = 0) -> None:
        """One key, down and up: ``Tab``, ``Enter``, ``Escape``, ``ArrowRight``. modifiers: 8 is Shift."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, modifiers=modifiers,
                      windowsVirtualKeyCode=codes[key])  # fmt: skip

    def screenshot(self, path: Path, whole: bool = False) -> None:
        """A PNG of what is on the screen, or of the whole page."""
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def _call(self, method: str, parameters: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _until(self, method: str) -> None:
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._next())

    def _next(self) -> dict[str, Any]:
        """The next message, waited for at most ``PATIENCE`` seconds."""
        end = time.monotonic() + PATIENCE
        while not self._waiting:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            data = os.read(self._read, 1 << 20) if ready else b""
            if not data:
                raise RuntimeError("the browser did not answer")
            *whole, self._buffer = (self._buffer + data).split(b"\0")
            self._waiting.extend(json.loads(one) for one in whole)
        return self._waiting.popleft()
