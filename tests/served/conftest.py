"""Servers that speak the OpenAI protocol from a thread of this process: what they are asked, they say in ``asked``."""

import json
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from ridgefill.served.server import Running, Served


def events(prompt, new, each):
    """What vLLM sends of a completion, ``each`` tokens in one event, and its last words."""
    tokens = [(sum(prompt) + place) % 97 for place in range(new)]
    for begin in range(0, new, each):
        part = tokens[begin : begin + each]
        yield {"choices": [{"index": 0, "text": "x" * len(part), "token_ids": part}]}
    yield {"choices": [], "usage": {"completion_tokens": new}}


class Handler(BaseHTTPRequestHandler):
    """Answers completions; ``server.script`` may take the answer over."""

    def log_message(self, *_):
        """Say nothing."""

    def do_POST(self):
        """A streamed completion, the first token after ``wait(prompt, filled)`` seconds, others after ``step``."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        server.asked.append(body)
        if server.status != 200:
            self.send_error(server.status, "no room")
            return
        self.send_response(200)
        self.end_headers()
        filled = bool(body.get("vllm_xargs", {}).get("ridgefill", server.default))
        time.sleep(server.wait(body["prompt"], filled))
        for place, event in enumerate(events(body["prompt"], body["max_tokens"] + server.more, server.each)):
            if place:
                time.sleep(server.step)
            self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\n\n")


@pytest.fixture
def fake(tmp_path):
    """``fake(**how)``: a running server that is none of vLLM's."""
    started = []

    def make(wait=lambda prompt, filled: 0.0, step=0.0, each=1, more=0, status=200, log="", default=True):
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        how = {"wait": wait, "step": step, "each": each, "more": more, "status": status, "default": default}
        vars(server).update(how, asked=[], daemon_threads=True)
        Thread(target=server.serve_forever, daemon=True).start()
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        started.append((server, process))
        file = tmp_path / f"{len(started)}.log"
        file.write_text(log)
        served = Served(tmp_path, tmp_path, "bfloat16", 8208, 2048, 9, 2, file)
        running = Running(served, server.server_address[1], process)
        return running, server

    yield make
    for server, process in started:
        server.shutdown()
        server.server_close()
        process.kill()
        process.wait()
        process.stdin.close()
