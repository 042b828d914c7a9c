"""The command line: what it prints, how it ends."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ledger.cli import main

CLAIM = "workflow/claims/demo.yaml"


@pytest.fixture(autouse=True)
def here(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Commands are typed in the project's folder."""
    monkeypatch.chdir(project)
    return project


def test_register_says_what_it_wrote_and_what_to_type_next(capsys) -> None:
    """One registration: entry, grade, pins, runs, predictions, next command; then it verifies."""
    assert main(["register", CLAIM]) == 0
    out = capsys.readouterr().out
    for part in (
        "registered demo: Ridge beats identity",
        "#1 of branch local",
        "confirmatory",
        "workflow/config/demo.yaml",
        "capture, ruler",
        "h1",
        "next: ledger run demo/capture -- COMMAND",
    ):
        assert part in out
    assert main(["register", CLAIM]) == 0
    assert "already registered" in capsys.readouterr().out
    assert main(["verify"]) == 0


def test_a_refused_claim_opens_no_ledger(here: Path, capsys, claim_text: str) -> None:
    """A claim that does not parse, or pins a missing file, writes nothing."""
    (here / CLAIM).write_text(claim_text.replace("missing: undecided", "missing: maybe"))
    assert main(["register", CLAIM]) == 3
    assert "workflow/claims/demo.yaml:18: predictions[0].missing" in capsys.readouterr().err
    (here / CLAIM).write_text(claim_text)
    (here / "workflow/config/demo.yaml").unlink()
    assert main(["register", CLAIM]) == 3
    assert not (here / "data").exists()


def test_log_is_a_table_and_json(capsys) -> None:
    """One line per entry with number, time, kind, grade, leaf and what it says."""
    main(["register", CLAIM])
    capsys.readouterr()
    assert main(["log"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["SEQ", "TIME", "KIND", "GRADE", "LEAF", "WHAT"]
    assert lines[3].endswith("demo: Ridge beats identity")
    assert main(["log", "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)["local"]
    assert [entry["header"]["kind"] for entry in entries] == ["genesis", "register"]


def test_show_prints_an_entry_in_full(capsys) -> None:
    """The claim with its rule in words, or the same as JSON."""
    main(["register", CLAIM])
    capsys.readouterr()
    assert main(["show", "1"]) == 0
    out = capsys.readouterr().out
    assert "ci_low of ruler_filled(ridgefill - identity, model m, split 19) > 0" in out
    assert main(["show", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["body"]["experiment"] == "demo"
    assert main(["show", "7"]) == 2
    assert "expected 0 to 1" in capsys.readouterr().err


def test_terminal_codes_in_a_claim_do_not_reach_the_terminal(here: Path, capsys, claim_text: str) -> None:
    """Escape sequences and direction marks in a title are blanked in tables and pages."""
    (here / CLAIM).write_text(claim_text.replace('title: "Ridge', 'title: "\\e[2J\\u202e Ridge'))
    assert main(["register", CLAIM]) == 0
    capsys.readouterr()
    main(["log"])
    main(["show", "1"])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_init_opens_a_branch_once(capsys) -> None:
    """main begins with a genesis, local then forks it, and a second init is refused."""
    assert main(["init", "--branch", "main", "--title", "ours"]) == 0
    assert "genesis" in capsys.readouterr().out
    assert main(["init"]) == 0
    assert "fork" in capsys.readouterr().out
    assert main(["init"]) == 2
    assert "already" in capsys.readouterr().err
    assert main(["register", CLAIM, "--branch", "main"]) == 0


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        (["verify"], 12, "ledger init"),
        (["log"], 12, "ledger init"),
        (["show", "0"], 12, "ledger init"),
        (["register", CLAIM, "--branch", "main"], 12, "ledger init --branch main"),
        (["register", CLAIM, "--branch", "No Name"], 2, "lower-case"),
        (["register", "absent.yaml"], 3, "absent.yaml"),
        (["init", "--origin", "a b"], 4, "origin"),
    ],
)
def test_refusals_are_one_sentence_with_their_own_code(command: list[str], code: int, says: str, capsys) -> None:
    """Each refusal: empty stdout, one line on stderr, its exit code."""
    assert main(command) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert says in err
    assert err.count("\n") == 1


def test_help_imports_nothing_heavy(here: Path) -> None:
    """`ledger --help` works without importing YAML, JSON Schema, numpy or torch."""
    code = (
        "import sys; from ledger.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([name for name in ('ruamel.yaml', 'jsonschema', 'numpy', 'torch', 'ridgefill') "
        "if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "exit codes:" in done.stdout
    assert done.stdout.endswith("[]\n")


def test_the_whole_package_imports_nothing_of_ridgefill(here: Path) -> None:
    """Everything in the ledger package loads without ridgefill, numpy and torch."""
    code = (
        "import importlib, pkgutil, sys, ledger\n"
        "for module in pkgutil.iter_modules(ledger.__path__):\n"
        "    if module.name != '__main__': importlib.import_module('ledger.' + module.name)\n"
        "print([name for name in ('ridgefill', 'numpy', 'torch', 'transformers') if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completions_name_every_command(here: Path, capsys: pytest.CaptureFixture[str], shell: str) -> None:
    """The script for a shell knows all commands, and bash itself accepts its own."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    commands = {"init", "register", "run", "start", "result", "amend", "void", "status", "log", "show", "verify"}
    commands |= {"verdicts", "key", "checkpoint", "cosign", "prove", "publish", "export", "import-check"}
    assert {name for name in commands if name not in script} == set()
    if shell == "bash" and shutil.which("bash"):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
