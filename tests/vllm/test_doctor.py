"""``ridgefill doctor``: its first line says whether filling is active and, if not, why and what to do."""

import json
import shutil

import pytest

from ridgefill import cli

READY = (
    "INFO 11-30 08:00:00 [logs.py:40] RidgeFill is ready: maps m, model s, split 3 of 6 layers, tail 40, at least 16 "
    "rows before it, requests are filled unless they say otherwise, 0.1 MiB of memory\n"
)
FILLED = "INFO 11-30 08:00:01 [logs.py:60] RidgeFill filled 60 of 100 rows of request r, from position 0; it is ...\n"


@pytest.fixture
def ask(capsys, monkeypatch):
    """``ask(*words, **environment)``: exit code and printed lines."""
    monkeypatch.delenv("RIDGEFILL_VLLM", raising=False)
    monkeypatch.delenv("VLLM_PLUGINS", raising=False)

    def run(*words, **environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        code = cli.main(["doctor", *map(str, words)])
        said = capsys.readouterr()
        return code, (said.out or said.err).splitlines()

    return run


def test_nothing_is_set(ask):
    """What to set."""
    code, lines = ask()
    assert code == 1
    assert lines[0] == (
        "filling is not active: RIDGEFILL_VLLM is not set; set it to a folder of maps and start the server"
    )


def test_everything_fits(ask, folders):
    """Without a log nobody knows what a server did, and the line says so."""
    model, maps = folders
    code, lines = ask("--maps", maps, "--model", model)
    assert code == 0
    assert lines[0].startswith("filling will be active in a server started so")
    assert any("split 3 of 6" in line for line in lines)


def test_the_environments_setting_is_read(ask, folders):
    """As the server reads it."""
    model, maps = folders
    code, lines = ask("--model", model, RIDGEFILL_VLLM=json.dumps({"maps": str(maps), "tail": 100}))
    assert code == 0
    assert any("tail 100, prompts of 612 tokens or more" in line for line in lines)
    said = json.dumps({"maps": str(maps), "tail": 100, "rows": ["special", "digits"]})
    _, lines = ask("--model", model, RIDGEFILL_VLLM=said)
    assert any("tail 100, special and digits tokens exact before it, prompts" in line for line in lines)


def test_maps_of_another_model(ask, folders, tmp_path):
    """Both sides are named."""
    model, maps = folders
    shutil.copytree(model, tmp_path / "other")
    config = json.loads((model / "config.json").read_text())
    (tmp_path / "other" / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 7}))
    code, lines = ask("--maps", maps, "--model", tmp_path / "other")
    assert code == 1
    assert lines[0].startswith("filling is not active: the maps in")
    assert "were fitted for layers 6, but the model has 7; use maps fitted for this model" in lines[0]


def test_a_damaged_map_file(ask, folders, tmp_path):
    """Every file is hashed."""
    model, maps = folders
    shutil.copytree(maps, tmp_path / "maps")
    file = tmp_path / "maps" / "proj.L4.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    code, lines = ask("--maps", tmp_path / "maps", "--model", model)
    assert code == 1
    assert "proj.L4.safetensors has SHA-256" in lines[0]
    assert "Fetch or fit the maps again" in lines[0]


def test_another_architecture(ask, folders, tmp_path):
    """Gemma is not served."""
    (tmp_path / "config.json").write_text('{"architectures": ["Gemma3ForCausalLM"]}')
    code, lines = ask("--maps", folders[1], "--model", tmp_path)
    assert code == 1
    assert "the model is a Gemma3ForCausalLM, and RidgeFill serves LlamaForCausalLM, Qwen3ForCausalLM, " in lines[0]


@pytest.mark.parametrize(
    ("log", "code", "first"),
    [
        (READY + FILLED * 2, 0, "filling is active: 120 rows of 2 chunks were filled"),
        (READY + FILLED + READY, 1, "filling is ready, and nothing was filled: every prompt was shorter"),
        ("INFO nothing\n", 1, "filling is not active: the log has no line 'RidgeFill is ready'"),
        (
            READY + "ridgefill.errors.MapError: the maps in m were fitted for layers 6\n",
            1,
            "filling is not active: the maps in m were fitted for layers 6",
        ),
    ],
)
def test_a_log_says_what_a_server_did(ask, folders, tmp_path, log, code, first):
    """Active, ready but idle (the last start counts), not loaded, refused."""
    (tmp_path / "log").write_text(log)
    found, lines = ask("--maps", folders[1], "--log", tmp_path / "log")
    assert found == code
    assert lines[0].startswith(first)


def test_files_that_are_not_there(ask, folders, tmp_path):
    """A log, an interpreter, a model."""
    code, lines = ask("--log", tmp_path / "none")
    assert code == 2
    assert lines == [
        f"error: {tmp_path / 'none'} could not be read (No such file or directory); give the file with the server's "
        "output"
    ]
    assert "could not be asked for its packages" in ask("--maps", folders[1], "--python", tmp_path / "none")[1][0]
    assert "config.json could not be read" in ask("--maps", folders[1], "--model", tmp_path / "none")[1][0]


def test_json(ask, folders):
    """The same, for programs."""
    code, lines = ask("--maps", folders[1], "--json")
    found = json.loads(lines[0])
    assert (code, found["active"]) == (0, True)
    assert {one["what"] for one in found["findings"]} == {"setting", "maps", "model", "engine"}
