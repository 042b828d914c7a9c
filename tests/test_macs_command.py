"""``ridgefill macs``: what is spent beside filling, ``--explain``, and the page that shows it."""

import json
import shlex
from itertools import takewhile
from pathlib import Path

import pytest

from ridgefill import cli, cost
from ridgefill.config import cost_geometry, load_model

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "cost.md").read_text(encoding="utf-8")
MACS = ["macs", "--root", str(ROOT), "--tail", "4096", "--tokens", "32768", "--split", "12"]
HYBRID = [*MACS, "--model", "qwen3.5-9b"]


def answer(capsys, *words):
    """Run a command with ``--json`` and parse what it prints."""
    assert cli.main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen3-8b", "gemma3-270m", "qwen3.5-9b"])
@pytest.mark.parametrize("fill", ["ridge", "identity", "none"])
def test_what_is_explained_sums_to_the_total(capsys, model, fill):
    """Exactly, with everything that an arm may spend."""
    words = [] if fill == "none" else ["--rows", "300", "--selection", "probe", "--rescale-rows", "512"]
    found = answer(capsys, *MACS, "--model", model, "--fill", fill, "--explain", *words)
    assert sum(part["macs"] for part in found["parts"]) == found["macs"]
    assert found["share"] == found["macs"] / found["exact_macs"]


def test_without_explain_nothing_but_the_total_changes(capsys):
    """The same keys, the same numbers."""
    plain, explained = answer(capsys, *HYBRID), answer(capsys, *HYBRID, "--explain")
    parts = explained.pop("parts")
    assert plain == explained
    assert "parts" not in plain
    assert {part["where"] for part in parts} >= {"lower layers", "late layers, exact rows", "late layers, filled rows"}


def test_every_part_of_a_hybrid_is_named(capsys):
    """For people: a line for each kind of work, then the table that there is without ``--explain``."""
    words = ["--rows", "3276", "--selection", "probe", "--rescale-rows", "512", "--state-correction", "--explain"]
    assert cli.main([*HYBRID, *words]) == 0
    out = capsys.readouterr().out
    named = ("maps", "recurrent inputs", "keys and values", "recurrent states", "probe", "rescale", "states", "total")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert [name for name in named if not any(line.startswith(name) for line in lines)] == []
    table, summary = out.split("\n\n")
    assert table.splitlines()[-1].split()[1] == summary.splitlines()[0].split()[1]


def test_rows_are_spread_evenly_and_run_in_full(capsys):
    """300 of 28,672 prefix rows, in the middle of 300 equal stretches."""
    rows = [int((row + 0.5) * 28672 / 300) for row in range(300)]
    g = cost_geometry(load_model("qwen3.5-9b", ROOT))
    expected = cost.fill_macs(g, tokens=32768, split=12, tail=4096, exact_rows=rows)
    assert answer(capsys, *HYBRID, "--rows", "300")["macs"] == expected


def test_a_second_sweep_and_a_selection_are_added(capsys):
    """A probe sweeps twice; attention below the split does not."""
    words = {"tokens": 32768, "split": 12, "tail": 4096, "exact_rows": range(28672)}
    g = cost_geometry(load_model("qwen3.5-9b", ROOT))
    full = [*HYBRID, "--rows", "28672"]
    assert answer(capsys, *full)["macs"] == cost.exact_macs(g, 32768)
    swept = answer(capsys, *full, "--sweeps", "2")["macs"]
    assert swept == cost.fill_macs(g, swept=True, **words)
    ranking = cost.ranking_macs(g, first=32704, end=32768, layers=(3, 7, 11))
    probe = cost.probe_macs(g, tokens=32768, prefix=28672, split=12)
    assert answer(capsys, *full, "--selection", "attention")["macs"] == cost.exact_macs(g, 32768) + ranking
    assert answer(capsys, *full, "--selection", "probe")["macs"] == swept + ranking + probe


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--rows", "28673"], "--rows is 28673; expected 0 to the 28672 rows before the tail"),
        (["--selection", "probe", "--sweeps", "1"], "expected --sweeps 2"),
        (["--fill", "none", "--rows", "5"], "fills no row"),
        (["--fill", "none", "--rescale-rows", "5"], "predicts no layer input"),
        (["--fill", "kva"], "without plain attention"),
        (["--split", "3", "--selection", "attention"], "no layer below split 3 of qwen3.5-9b ranks rows"),
        (["--split", "31", "--split-layer", "exact", "--rescale-rows", "5"], "no attention layer from split 31"),
        (["--split", "31", "--state-correction"], "no recurrent layer from split 31"),
    ],
)
def test_what_no_arm_can_be_is_one_sentence(capsys, words, message):
    """Exit code 2, nothing on standard output."""
    assert cli.main([*HYBRID, *words]) == 2
    streams = capsys.readouterr()
    assert (streams.out, streams.err.count("\n")) == ("", 1)
    assert message in streams.err


def examples():
    """Commands of the page and what it shows below them."""
    for block in PAGE.split("\n    $ ")[1:]:
        command, *lines = block.splitlines()
        shown = takewhile(lambda line: not line or line.startswith("    "), lines)
        yield command, "\n".join(line[4:] for line in shown).rstrip() + "\n"


@pytest.mark.parametrize(("command", "shown"), examples())
def test_the_page_shows_what_its_commands_print(capsys, command, shown):
    """Every number of the page."""
    program, *words = shlex.split(command)
    assert program == "ridgefill"
    assert cli.main([*words, "--root", str(ROOT)]) == 0
    assert capsys.readouterr().out == shown


def test_the_page_has_examples():
    """Else the test above would hold for a page that shows nothing."""
    assert len(list(examples())) >= 2
