"""The ``ridgefill`` command line."""

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ridgefill import cli

ROOT = Path(__file__).resolve().parent.parent
MACS = ["macs", "--root", str(ROOT), "--tail", "4096", "--tokens", "32768"]


def answer(capsys, *words):
    """Run ``macs`` with ``--json`` and parse what it prints."""
    assert cli.main([*MACS, *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_macs_prints_the_documented_keys(capsys):
    """Counts are integers, share is their quotient, ceiling its inverse."""
    found = answer(capsys, "--model", "llama-3.1-8b", "--split", "16")
    assert {"macs", "exact_macs", "share", "ceiling"} <= set(found)
    assert "ratio" not in found
    assert found["share"] == found["macs"] / found["exact_macs"]
    assert found["ceiling"] == 1 / found["share"]


@pytest.mark.parametrize(("split", "ratio"), [("13", 0.759), ("22", 1.042)])
def test_macs_gives_the_published_ratio_to_pop(capsys, split, ratio):
    """Qwen3-8B at 32K against POP, as the paper counts it."""
    found = answer(capsys, "--model", "qwen3-8b", "--split", split, "--against", "pop")
    assert round(found["ratio"], 3) == ratio


def test_macs_against_exact_is_the_share(capsys):
    """The other side of the comparison can be exact prefill."""
    found = answer(capsys, "--model", "llama-3.1-8b", "--split", "16", "--against", "exact")
    assert found["ratio"] == found["share"]


def test_map_of_the_split_layer_can_be_left_out(capsys):
    """``--split-layer exact`` saves one map per filled row."""
    words = ["--model", "llama-3.1-8b", "--split", "16", "--split-layer"]
    saved = answer(capsys, *words, "mapped")["macs"] - answer(capsys, *words, "exact")["macs"]
    assert saved == (32768 - 4096) * 4096 * 4096


def test_low_rank_maps_cost_their_two_factors(capsys):
    """2 d k for every filled row and late layer instead of d squared."""
    words = ["--model", "llama-3.1-8b", "--split", "16"]
    saved = answer(capsys, *words)["macs"] - answer(capsys, *words, "--rank", "256")["macs"]
    assert saved == 16 * (32768 - 4096) * (4096 * 4096 - 2 * 4096 * 256)


def test_macs_without_json_is_a_table(capsys):
    """People get one aligned line per number."""
    assert cli.main([*MACS, "--model", "llama-3.1-8b", "--split", "16"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("macs")
    assert lines[0].endswith("227,051,567,054,848")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "llama-3", "--split", "16"], "unknown model 'llama-3'; known: gemma3-270m, hybrid-attention"),
        (["--model", "llama-3.1-8b", "--split", "32"], "split 32 is outside the model"),
        (["--model", "qwen3.5-9b", "--split", "12", "--rank", "4097"], "rank is 4097; expected 1 to 4096"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_code_2(capsys, words, message):
    """No traceback, nothing on standard output."""
    assert cli.main([*MACS, *words]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.startswith("error: ")
    assert message in streams.err
    assert streams.err.count("\n") == 1


@pytest.mark.parametrize("words", [["--help"], [*MACS, "--model", "qwen3-8b", "--split", "13"]])
def test_help_and_macs_do_not_import_torch(words):
    """A fresh interpreter answers without the libraries that take seconds to load."""
    code = (
        "import sys\nfrom ridgefill import cli\n"
        f"try: cli.main({words!r})\nexcept SystemExit: pass\n"
        "print({'torch', 'transformers', 'pyarrow', 'duckdb', 'matplotlib', 'scipy'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout.splitlines()[-1] == "set()"


@pytest.mark.parametrize("words", [["recompute", "results/x"], [*MACS, "--model", "qwen3-8b", "--split", "13"]])
def test_without_the_pipeline_extra_one_sentence_says_what_to_type(monkeypatch, capsys, words):
    """The base installation has no yaml; what needs it is refused, with the command that installs it."""
    for name in [name for name in sys.modules if name.partition(".")[0] in {"yaml", "ridgefill"}]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert cli.main(words) == 1
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.startswith(f"error: the Python package yaml is not installed, which `ridgefill {words[0]}`")
    assert streams.err.endswith("pip install '.[pipeline]'\n")


def test_a_part_of_its_own_that_is_missing_is_not_blamed_on_an_extra(monkeypatch):
    """A broken checkout is a bug, with its traceback."""
    monkeypatch.setitem(sys.modules, "ridgefill.recompute", None)
    with pytest.raises(ModuleNotFoundError):
        cli.main(["recompute", "results/x"])


def test_recompute_passes_its_words_on(monkeypatch):
    """``ridgefill recompute DIR`` is ridgefill.recompute.main([DIR]), exit code included."""
    seen = []
    stand_in = ModuleType("ridgefill.recompute")
    stand_in.main = lambda words: seen.extend(words) or 1
    monkeypatch.setitem(sys.modules, "ridgefill.recompute", stand_in)
    assert cli.main(["recompute", "results/x"]) == 1
    assert seen == ["results/x"]


def test_unknown_command_is_refused():
    """argparse names the commands and exits with 2."""
    with pytest.raises(SystemExit) as caught:
        cli.main(["recomptue"])
    assert caught.value.code == 2


def test_a_reader_that_has_seen_enough_ends_the_command_quietly():
    """As in ``ridgefill paper | head -1``: no traceback."""
    command = [sys.executable, "-m", "ridgefill.cli", "paper", "--table", "A.1"]
    running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    running.stdout.close()
    said = running.stderr.read()
    assert running.wait() == 1
    assert said == ""
    running.stderr.close()
