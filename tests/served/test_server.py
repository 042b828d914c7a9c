"""Starting and ending a server, with a small program in vLLM's place."""

import json
import os
import sys
import time

import pytest

from ridgefill.served.server import Served, ServerError, require_engine, running

ENGINE = f"""#!{sys.executable}
import json, os, subprocess, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
words = dict(zip(sys.argv[4::2], sys.argv[5::2]))
settings = os.environ["RIDGEFILL_VLLM"]
if "refuse" in settings:
    sys.exit("noise\\nridgefill.errors.MapError: these maps do not fit; fit others")
if settings and "silent" not in settings:
    print("RidgeFill is ready: maps m", flush=True)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(json.dumps({{"child": child.pid, "words": words, "environment": dict(os.environ)}}), flush=True)
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
HTTPServer((words["--host"], int(words["--port"])), Handler).serve_forever()
"""


@pytest.fixture
def served(tmp_path):
    """``served(**filling)``: a server that is none of vLLM's, None for the stock one."""
    python = tmp_path / ".venv-vllm" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(ENGINE)
    python.chmod(0o755)
    log = tmp_path / "logs" / "server.log"
    return lambda filling=None: Served(tmp_path, tmp_path / "model", "bfloat16", 8208, 2048, 7, 2, log, filling)


def started(server):
    """What the program says of how it was started."""
    line = next(line for line in server.served.log.read_text().splitlines() if line.startswith("{"))
    return json.loads(line)


def ended(pid):
    """Whether a process is gone within ten seconds, or a corpse that nobody has buried."""
    for _ in range(100):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.1)
    return False


def test_a_server_runs_on_named_cores_with_this_checkouts_plugin_and_ends_with_all_its_processes(served, tmp_path):
    """Two threads of this process's cores; the settings as JSON."""
    with running(served({"maps": "m", "tail": 5})) as server:
        found = started(server)
        cores = sorted(os.sched_getaffinity(0))[:2]
        assert found["environment"]["VLLM_CPU_OMP_THREADS_BIND"] == ",".join(map(str, cores))
        assert found["environment"]["PYTHONPATH"] == str(tmp_path)
        assert found["environment"]["RIDGEFILL_VLLM"] == '{"maps": "m", "tail": 5}'
        assert found["words"]["--max-num-batched-tokens"] == "2048"
        assert found["words"]["--dtype"] == "bfloat16"
    assert server.process.poll() is not None
    assert ended(found["child"])


def test_a_stock_server_has_no_settings_whatever_this_process_has(served, monkeypatch):
    """Nor any of vLLM's own variables."""
    monkeypatch.setenv("RIDGEFILL_VLLM", "maps")
    monkeypatch.setenv("VLLM_PLUGINS", "none")
    with running(served()) as server:
        environment = started(server)["environment"]
    assert environment["RIDGEFILL_VLLM"] == ""
    assert "VLLM_PLUGINS" not in environment


@pytest.mark.parametrize(
    ("maps", "about"),
    [
        ("refuse", r"stopped with exit status 1 \(these maps do not fit; fit others\); its log is"),
        ("silent", "started without the plugin; install this checkout in .venv-vllm again"),
    ],
)
def test_a_server_that_does_not_fill_is_refused(served, maps, about):
    """With its own sentence, where it has one."""
    with pytest.raises(ServerError, match=about), running(served({"maps": maps})):
        pytest.fail("it was used")


def test_without_the_engine_the_command_that_installs_it_is_named(tmp_path):
    """Where it was looked for, too."""
    with pytest.raises(ServerError, match=r"vLLM is not installed \(looked for .*\.venv-vllm/bin/python\)"):
        require_engine(tmp_path)
