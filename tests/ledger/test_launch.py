"""The launch gate: what may run, what is written, and what happens when it goes wrong."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ledger import folders
from ledger.branches import create_branch, open_for_writing
from ledger.errors import (
    BrokenLedger,
    Busy,
    ClaimError,
    Drifted,
    LedgerError,
    NotInClaim,
    Unregistered,
    UsageError,
)
from ledger.launch import find_registration, launch
from ledger.registration import register
from ledger.seeds import run_seed
from ledger.store import Ledger

CLAIM = Path("workflow/claims/demo.yaml")
RUNNER = """
import sys, time
from pathlib import Path
from ledger.launch import find_registration, launch
root, claim = Path(sys.argv[1]), Path("workflow/claims/demo.yaml")
with launch(root, "local", find_registration(root, ["local"], claim), "ruler", "a"):
    print("running", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def registered(project: Path) -> Ledger:
    """The project's local ledger with its claim registered."""
    ledger = open_for_writing(project, "local")
    register(project, ledger, CLAIM)
    return ledger


def background(project: Path) -> subprocess.Popen[str]:
    """An attempt in another process, once it runs."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(project)], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    return process


def test_an_unregistered_claim_names_the_command(project: Path) -> None:
    """Without a ledger, and with an empty one, the message says what to type."""
    for _ in range(2):
        with pytest.raises(Unregistered, match=r"`ledger register workflow/claims/demo\.yaml`"):
            find_registration(project, ["local", "main"], CLAIM)
        open_for_writing(project, "local")


def test_a_registration_is_found_with_its_hashes(project: Path, registered: Ledger) -> None:
    """Branch, number, leaf, claim and config hashes come back; an absolute path does as well."""
    found = find_registration(project, ["local", "main"], project / CLAIM)
    assert (found.branch, found.seq, found.leaf) == ("local", 1, registered.entries()[1].leaf)
    assert found.claim.experiment == "demo"
    assert found.configs["workflow/config/demo.yaml"] == hashlib.sha256(b"title: demo\n").hexdigest()
    assert found == find_registration(project, ["local"], CLAIM)


@pytest.mark.parametrize("path", ["workflow/config/demo.yaml", "workflow/config/model.yaml", str(CLAIM)])
def test_an_edit_after_registration_is_drift(project: Path, registered: Ledger, path: str) -> None:
    """A changed claim or config stops the run, is named, and undoing the edit is enough to go on."""
    text = (project / path).read_text()
    (project / path).write_text(text + "# later\n")
    with pytest.raises(Drifted, match=f"{path} changed .* since registration #1 of branch local"):
        find_registration(project, ["local"], CLAIM)
    (project / path).write_text(text)
    find_registration(project, ["local"], CLAIM)


def test_a_removed_config_is_drift_and_an_invalid_claim_is_named(project: Path, registered: Ledger) -> None:
    """A pinned file that is gone is drift; a claim that no longer parses is a claim error."""
    (project / "workflow/config/demo.yaml").unlink()
    with pytest.raises(Drifted, match=r"demo\.yaml is gone"):
        find_registration(project, ["local"], CLAIM)
    (project / CLAIM).write_text("who: [")
    with pytest.raises(ClaimError, match=r"workflow/claims/demo\.yaml:1"):
        find_registration(project, ["local"], CLAIM)


def test_registering_again_covers_the_new_state(project: Path, registered: Ledger) -> None:
    """After an edit, a second registration is appended and found; the first one stays."""
    (project / "workflow/config/demo.yaml").write_text("title: other\n")
    register(project, registered, CLAIM)
    assert find_registration(project, ["local"], CLAIM).seq == 2
    assert len(registered.entries()) == 3


def test_registering_the_same_twice_appends_nothing(project: Path, registered: Ledger) -> None:
    """Registration is idempotent while nothing changed."""
    entry, new = register(project, registered, CLAIM)
    assert (entry.seq, new) == (1, False)


def test_a_finished_run_leaves_start_and_result(project: Path, registered: Ledger) -> None:
    """start pins all that goes in; result embeds start and hashes what came out."""
    base = project / "results" / "demo"
    base.mkdir(parents=True)
    (base / "a.parquet").write_bytes(b"abc")
    (project / "input.bin").write_bytes(b"in")
    registration = find_registration(project, ["local"], CLAIM)
    options = {"overrides": {"dtype": "bfloat16"}, "inputs": [Path("input.bin")]}
    with launch(project, "local", registration, "ruler", "split 19", **options) as attempt:
        assert len(registered.entries()) == 3
        attempt.finish([base / "a.parquet"], base, published=["a.parquet"])
    start, result = registered.entries()[2:]
    assert start.body is not None
    assert result.body is not None
    assert start.body["registration"] == {"origin": registered.origin, "seq": 1, "leaf": registration.leaf}
    assert (start.body["run"], start.body["label"]) == ("ruler", "split 19")
    assert {item["path"]: item["sha256"] for item in start.body["configs"]} == dict(registration.configs)
    assert start.body["overrides"] == {"dtype": "bfloat16"}
    assert start.body["inputs"][0]["path"] == "input.bin"
    assert attempt.seed == run_seed(registration.leaf, "ruler/split 19") == int(start.body["seed"])
    assert result.body["start"] == {"seq": 2, "leaf": start.leaf}
    digest = hashlib.sha256(b"abc").hexdigest()
    wanted = {"path": "a.parquet", "sha256": digest, "bytes": 3, "published": True}
    assert result.body["outputs"] == [wanted]
    assert list((project / "data/ledger/.leases").glob("*.lock")) == []


@pytest.mark.parametrize("failure", [ValueError("two\nlines"), KeyboardInterrupt(), SystemExit(3)])
def test_a_failed_run_is_recorded_and_raised_again(project: Path, registered: Ledger, failure: BaseException) -> None:
    """Errors, Ctrl-C and exits inside the block append a failed result and go on unchanged."""
    registration = find_registration(project, ["local"], CLAIM)
    with pytest.raises(type(failure)), launch(project, "local", registration, "capture"):
        raise failure
    last = registered.entries()[-1]
    assert last.body is not None
    assert (last.kind, last.body["status"], last.body["outputs"]) == ("result", "failed", [])
    assert type(failure).__name__ in last.body["message"]


def test_a_run_that_names_no_outputs_has_failed(project: Path, registered: Ledger) -> None:
    """Leaving the block without finish() is an error, and recorded as one."""
    registration = find_registration(project, ["local"], CLAIM)
    with (
        pytest.raises(LedgerError, match=r"call finish\(\)"),
        launch(project, "local", registration, "capture"),
    ):
        pass
    assert (registered.entries()[-1].body or {})["status"] == "failed"


@pytest.mark.parametrize(
    ("outputs", "says"),
    [
        (["absent.parquet"], "cannot be read"),
        (["../outside"], "below"),
        (["a", "a"], "twice"),
        (["."], "below"),
    ],
)
def test_outputs_that_cannot_be_recorded_fail_the_run(
    project: Path, registered: Ledger, outputs: list[str], says: str
) -> None:
    """Missing, outside and doubled outputs are refused; no ok result is written."""
    (project / "out").mkdir()
    (project / "out" / "a").write_text("x")
    (project / "outside").write_text("x")
    registration = find_registration(project, ["local"], CLAIM)
    with (
        pytest.raises(UsageError, match=says),
        launch(project, "local", registration, "capture") as attempt,
    ):
        attempt.finish(outputs, project / "out")
    assert (registered.entries()[-1].body or {})["status"] == "failed"


@pytest.mark.parametrize(
    ("run", "overrides", "says"),
    [
        ("other", {}, "no run 'other', expected one of capture, ruler"),
        ("ruler", {"dtype": "float16"}, "allows bfloat16 for dtype"),
        ("ruler", {"lam": "3"}, "allows no override for lam"),
    ],
)
def test_runs_and_overrides_outside_the_claim_are_refused(
    project: Path, registered: Ledger, run: str, overrides: dict[str, str], says: str
) -> None:
    """Nothing is appended for a run or setting the claim does not name."""
    registration = find_registration(project, ["local"], CLAIM)
    with (
        pytest.raises(NotInClaim, match=says),
        launch(project, "local", registration, run, overrides=overrides),
    ):
        pass
    assert len(registered.entries()) == 2


def test_drift_between_finding_and_launching_is_caught(project: Path, registered: Ledger) -> None:
    """The registration is checked once more at launch, before start is appended."""
    registration = find_registration(project, ["local"], CLAIM)
    (project / "workflow/config/model.yaml").write_text("name: other\n")
    with pytest.raises(Drifted), launch(project, "local", registration, "ruler"):
        pass
    assert len(registered.entries()) == 2


def test_nothing_is_launched_from_a_broken_ledger(project: Path, registered: Ledger) -> None:
    """One changed byte in any entry refuses both finding and launching, and appends nothing."""
    registration = find_registration(project, ["local"], CLAIM)
    path = folders.body_path(registered.path, 0)
    path.write_bytes(path.read_bytes().replace(b"title", b"tit1e"))
    with pytest.raises(BrokenLedger, match="ledger verify"):
        find_registration(project, ["local"], CLAIM)
    with pytest.raises(BrokenLedger), launch(project, "local", registration, "ruler"):
        pass
    assert len(list((registered.path / "entries").iterdir())) == 2


def test_a_registration_on_main_covers_a_run_on_local(project: Path) -> None:
    """A user's run goes to an own branch, forked from main by itself, and main stays untouched."""
    main = create_branch(project, "main", "demo/main")
    register(project, main, CLAIM)
    registration = find_registration(project, ["local", "main"], CLAIM)
    with launch(project, "local", registration, "ruler") as attempt:
        attempt.finish([], project)
    kinds = [entry.kind for entry in open_for_writing(project, "local").entries()]
    assert kinds == ["fork", "start", "result"]
    assert len(main.entries()) == 2


def test_a_second_attempt_at_once_is_refused(project: Path, registered: Ledger) -> None:
    """The same run is refused meanwhile, another label is not, and a dead holder holds nothing."""
    process = background(project)
    registration = find_registration(project, ["local"], CLAIM)
    try:
        with (
            pytest.raises(Busy, match=f"process {process.pid}"),
            launch(project, "local", registration, "ruler", "a"),
        ):
            pass
        with launch(project, "local", registration, "ruler", "b") as attempt:
            attempt.finish([], project)
    finally:
        process.kill()
        process.wait()
    with launch(project, "local", registration, "ruler", "a") as attempt:
        attempt.finish([], project)
    starts = [entry for entry in registered.entries() if entry.kind == "start"]
    assert len(starts) == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_process_still_records_its_result(project: Path, registered: Ledger, number: signal.Signals) -> None:
    """SIGTERM and SIGINT end the block like an exception: the result says failed."""
    # Tests started in the background ignore SIGINT, and what they start would inherit that.
    before = signal.signal(number, signal.default_int_handler)
    process = background(project)
    signal.signal(number, before)
    time.sleep(0.1)
    process.send_signal(number)
    assert process.wait() != 0
    last = registered.entries()[-1]
    assert (last.kind, (last.body or {})["status"]) == ("result", "failed")


def test_forking_by_several_processes_at_once_gives_one_branch(project: Path) -> None:
    """open_for_writing may race with itself: one branch, one fork entry."""
    create_branch(project, "main", "demo/main")
    code = (
        "import sys; from pathlib import Path; from ledger.branches import open_for_writing; "
        "print(open_for_writing(Path(sys.argv[1]), 'local').origin)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", code, str(project)]
    processes = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    origins = {process.communicate()[0] for process in processes}
    assert len(origins) == 1
    assert all(process.returncode == 0 for process in processes)
