"""``ledger run``: what the command is given, what is recorded of it, and when it is not started."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

import pytest

from ledger.branches import create_branch, open_branch, open_for_writing
from ledger.cli import main
from ledger.errors import Drifted
from ledger.frozen import frozen
from ledger.launch import find_registration
from ledger.outputs import matching
from ledger.registration import register
from ledger.seeds import run_seed
from ledger.store import Ledger
from ledger.verify import verify

CLAIM = Path("workflow/claims/demo.yaml")
CONFIG = "workflow/config/demo.yaml"
MODEL = "workflow/config/model.yaml"


@pytest.fixture
def registered(project: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """The project's local ledger with its claim registered; commands are typed in its folder."""
    monkeypatch.chdir(project)
    ledger = open_for_writing(project, "local")
    register(project, ledger, CLAIM)
    return ledger


def run(code: str, *options: str, words: tuple[str, ...] = ()) -> int:
    """``ledger run demo/ruler`` of a Python program."""
    return main(["run", "demo/ruler", *options, "--", sys.executable, "-c", code, *words])


def last(ledger: Ledger) -> dict:
    """The body of the last entry, which must be a result."""
    entry = ledger.entries()[-1]
    assert entry.kind == "result"
    return dict(entry.body or {})


def test_a_run_leaves_start_and_result_with_what_it_wrote(project: Path, registered: Ledger, capfd) -> None:
    """New and changed files are outputs, by hash; older ones and links are not; the streams stay the command's."""
    folder = project / "results/demo"
    folder.mkdir(parents=True)
    (folder / "old.txt").write_text("old")
    (folder / "touched.txt").write_text("before")
    (folder / "link.txt").symlink_to(project / CLAIM)
    code = "open('results/demo/touched.txt', 'w').write('after!'); open('results/demo/new', 'w').write('n'); print(7)"
    assert run(code, "--label", "a", "--input", CONFIG) == 0
    start, result = registered.entries()[2:]
    assert start.body is not None
    assert [item["path"] for item in start.body["inputs"]] == [CONFIG]
    outputs = [
        {"path": path, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data), "published": False}
        for path, data in (("new", b"n"), ("touched.txt", b"after!"))
    ]
    said = last(registered)
    assert said["start"] == {"seq": 2, "leaf": start.leaf}
    assert (said["status"], said["message"], said["outputs"]) == ("ok", "", outputs)
    out, err = capfd.readouterr()
    assert out == "7\n"
    for part in ("registered as #1 of branch local", "start #2", "result #3: ok, 2 outputs", "next: ledger verify"):
        assert part in err
    assert verify(project).ok
    assert result.seq == 3


def test_the_command_is_told_its_attempt_in_its_environment(
    registered: Ledger, capfd, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    """Seed, run, label, folders and settings; settings of a run around this one are not passed on."""
    monkeypatch.setenv("LEDGER_SET_OUTER", "1")
    code = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if k.startswith('LEDGER_')}))"
    assert run(code, "--label", "split 19", "--set", "dtype=bfloat16") == 0
    told = json.loads(capfd.readouterr().out)
    assert Path(told.pop("LEDGER_CONFIGS")).name.startswith("ledger-run-")
    assert told == {
        "LEDGER_EXPERIMENT": "demo",
        "LEDGER_LABEL": "split 19",
        "LEDGER_OUTPUTS": str(project.resolve() / "results/demo"),
        "LEDGER_RUN": "ruler",
        "LEDGER_SEED": str(run_seed(registered.entries()[1].leaf, "ruler/split 19")),
        "LEDGER_SET_DTYPE": "bfloat16",
        "LEDGER_START": "2",
    }


def test_words_that_name_pinned_files_name_private_copies(project: Path, registered: Ledger, capfd) -> None:
    """Exactly, behind =, and spelled otherwise; other words stay; the copies are read-only, and gone afterwards."""
    words = (CONFIG, f"--config={MODEL}", f"./{CONFIG}", str(project / MODEL), "workflow/config", "-x=1", "--", "a=b")
    code = (
        "import json, os, sys; from pathlib import Path; home = Path(os.environ['LEDGER_CONFIGS']); "
        "places = [home, *sorted(home.rglob('*'))]; "
        "print(json.dumps([sys.argv[1:], str(home), [oct(p.stat().st_mode & 0o777) for p in places if p.is_dir()], "
        "{p.relative_to(home).as_posix(): [oct(p.stat().st_mode & 0o777), p.read_text()] "
        "for p in places if p.is_file()}]))"
    )
    assert run(code, words=words) == 0
    argv, home, folders, files = json.loads(capfd.readouterr().out)
    kept = ["workflow/config", "-x=1", "--", "a=b"]
    assert argv == [f"{home}/{CONFIG}", f"--config={home}/{MODEL}", f"{home}/{CONFIG}", f"{home}/{MODEL}", *kept]
    assert set(folders) == {"0o500"}
    assert files == {path: ["0o400", (project / path).read_text()] for path in (CONFIG, MODEL, str(CLAIM))}
    assert not Path(home).exists()


def test_a_config_edited_meanwhile_changes_nothing_for_the_command(project: Path, registered: Ledger, capfd) -> None:
    """The command reads the registered bytes; afterwards ``verify`` says that the file changed."""
    code = f"import sys; open({CONFIG!r}, 'w').write('title: late'); print(open(sys.argv[1]).read(), end='')"
    assert run(code, words=(CONFIG,)) == 0
    assert capfd.readouterr().out == "title: demo\n"
    assert last(registered)["status"] == "ok"
    assert "config_changed" in {finding.code for finding in verify(project).branches[0].findings}


@pytest.mark.parametrize("path", [CONFIG, str(CLAIM)])
def test_bytes_that_are_not_the_registered_ones_are_never_copied(project: Path, registered: Ledger, path: str) -> None:
    """What is compared is what was read: a change after the registration was found is drift."""
    registration = find_registration(project, ["local"], CLAIM)
    (project / path).write_text("other: bytes\n")
    with pytest.raises(Drifted, match=f"{path} changed"), frozen(project, registration):
        pass
    (project / path).unlink()
    with pytest.raises(Drifted, match=f"{path} cannot be read"), frozen(project, registration):
        pass


def test_a_pinned_program_runs_from_its_copy(project: Path, write, capfd, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command's own word may be pinned as well; its copy may be executed."""
    monkeypatch.chdir(project)
    write(project / MODEL, "#!/bin/sh\necho $0\n").chmod(0o755)
    register(project, open_for_writing(project, "local"), CLAIM)
    assert main(["run", "ruler", "--", MODEL]) == 0
    ran = Path(capfd.readouterr().out.strip())
    assert ran.name == "model.yaml"
    assert ran != project / MODEL


@pytest.mark.parametrize(
    ("code", "exit_code", "message"),
    [
        ("import sys; sys.exit(3)", 3, "the command ended with exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", 137, "the command was stopped by signal 9 (SIGKILL)"),
    ],
)
def test_a_failed_command_is_recorded_with_its_outputs(
    project: Path, registered: Ledger, code: str, exit_code: int, message: str
) -> None:
    """Its exit code is passed on, a signal is named, and what it wrote until then is hashed."""
    assert run(f"open('results/demo/half', 'w').write('h'); {code}") == exit_code
    said = last(registered)
    assert (said["status"], said["message"]) == ("failed", message)
    assert [item["sha256"] for item in said["outputs"]] == [hashlib.sha256(b"h").hexdigest()]


def test_patterns_choose_the_outputs(project: Path, registered: Ledger, capfd) -> None:
    """Files that match, new or not; one that matches nothing makes the run a failed one, with exit code 1."""
    folder = project / "results/demo/fit"
    folder.mkdir(parents=True)
    (folder / "old.csv").write_text("old")
    code = "[open(f'results/demo/fit/{name}', 'w') for name in ('a.csv', 'b.txt')]"
    assert run(code, "--output", "fit/*.csv") == 0
    assert [item["path"] for item in last(registered)["outputs"]] == ["fit/a.csv", "fit/old.csv"]
    assert "2 outputs (1 of them as before the run)" in capfd.readouterr().err
    assert run("", "--output", "**/*.txt", "--output", "*.csv") == 1
    said = last(registered)
    assert (said["status"], [item["path"] for item in said["outputs"]]) == ("failed", ["fit/b.txt"])
    assert said["message"] == "the output pattern '*.csv' matches no file in the results folder"


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*", ["a"]),
        ("**", ["a", "f/b.csv", "f/g/c.csv"]),
        ("f/**", ["f/b.csv", "f/g/c.csv"]),
        ("**/*.csv", ["f/b.csv", "f/g/c.csv"]),
        ("f/*.csv", ["f/b.csv"]),
        ("*/?/[a-c].csv", ["f/g/c.csv"]),
        ("f", []),
        ("F/B.CSV", []),
    ],
)
def test_patterns_read_like_those_of_a_shell(pattern: str, found: list[str]) -> None:
    """``*`` stays within a folder, ``**`` does not, upper case matters, a folder is no file."""
    assert matching([pattern], ["f/g/c.csv", "a", "f/b.csv"]) == (tuple(found), () if found else (pattern,))


def test_a_file_name_no_entry_can_hold_fails_the_run_on_the_record(registered: Ledger, project: Path) -> None:
    """Line breaks and bytes that are not UTF-8: the run has its result, which names the file and keeps the others."""
    code = "import os; [open(os.path.join(b'results/demo', name), 'w') for name in (b'good', b'a\\nb', b'\\xff')]"
    assert run(code) == 1
    said = last(registered)
    assert [item["path"] for item in said["outputs"]] == ["good"]
    assert said["message"].count("has a name that no entry can hold") == 2


def test_a_run_on_main_is_published_from_data(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its results folder is data/results, and a run that writes nothing leaves no empty folder there."""
    monkeypatch.chdir(project)
    main_ledger = create_branch(project, "main", "demo/main")
    register(project, main_ledger, CLAIM)
    assert run("pass", "--branch", "main") == 0
    assert not (project / "data/results/demo").exists()
    assert run("import os; open(os.environ['LEDGER_OUTPUTS'] + '/x', 'w')", "--branch", "main") == 0
    assert [(item["path"], item["published"]) for item in last(main_ledger)["outputs"]] == [("x", True)]
    assert verify(project).ok
    assert run("pass") == 0
    assert [entry.kind for entry in open_branch(project, "local").entries()] == ["fork", "start", "result"]


def test_a_command_without_an_interpreter_line_fails_on_the_record(project: Path, registered: Ledger, write) -> None:
    """What only the system finds out, after start, is a failed result and exit code 126."""
    write(project / "tool", "\x00\x01").chmod(0o755)
    assert main(["run", "ruler", "--", "./tool"]) == 126
    assert "could not be executed (Exec format error)" in last(registered)["message"]
    assert os.listdir(project / "data/ledger/.leases") == [".gitignore"]
