"""`ledger import-check`: what a receiver can and cannot conclude, and that bad bytes are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger.branches import branch_path
from ledger.canonical import canonical
from ledger.checkpoint import checkpoint_of
from ledger.cli import main
from ledger.errors import LedgerError
from ledger.publishing.imports import Held, check_received
from ledger.publishing.standing import sound_chain
from ledger.signing.keys import create_key, load_key

HANDED = ("inclusion.json", "bare.json", "consistency.json", "export.json", "checkpoint.note")
FLIPS = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
PLACE, MASK = st.floats(0, 1, exclude_max=True), st.integers(1, 255)


def _flipped(data: bytes, place: float, mask: int) -> bytes:
    changed = bytearray(data)
    changed[int(place * len(data))] ^= mask
    return bytes(changed)


@pytest.fixture
def got(shared_ledger: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one thing of every kind, from a ledger signed by the key ``ours``; commands are typed in it."""
    folder = tmp_path_factory.mktemp("got")
    monkeypatch.setenv("LEDGER_KEYS", str(tmp_path_factory.mktemp("keys")))
    monkeypatch.chdir(folder)
    root = ["--root", str(shared_ledger), "--branch", "main"]
    assert main(["prove", "2", "--out", "bare.json", *root]) == 0
    assert main(["key", "new", "ours", "--root", str(shared_ledger)]) == 0
    assert main(["checkpoint", "--key", "ours", *root]) == 0
    assert main(["prove", "2", "--out", "inclusion.json", *root]) == 0
    assert main(["prove", "--since", "3", "--out", "consistency.json", *root]) == 0
    assert main(["export", "1", "--key", "ours", "--out", "export.json", *root]) == 0
    assert main(["publish", "index", "--results", "--withhold", "4", *root]) == 0
    ledger = branch_path(shared_ledger, "main")
    Path("checkpoint.note").write_bytes((ledger / "checkpoints/00000006.note").read_bytes())
    for place in ("entries", "bodies", "salts"):
        name = next(path for path in (ledger / place).iterdir() if path.name.startswith("00000002"))
        Path(place).write_bytes(name.read_bytes())
    for size in (2, 3):
        text = checkpoint_of("test/main", sound_chain(shared_ledger, "main").leaves[:size]).text()
        Path(f"old{size}.txt").write_text(text)
    return folder


@pytest.fixture
def ours(got: Path) -> str:
    """The verifier key of the signer."""
    return load_key("ours", got).verifier().text()


@pytest.fixture
def stranger(got: Path) -> str:
    """A verifier key that signed nothing."""
    return create_key("stranger", got).verifier().text()


@pytest.mark.parametrize("name", [*HANDED, "index"])
def test_a_known_key_is_named_and_an_unknown_one_is_ignored(
    got: Path, ours: str, stranger: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the signer's key the signature is established, without it ignored and said; with another key refused."""
    signed = name != "bare.json"
    capsys.readouterr()
    assert main(["import-check", name, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["signed_by"] == []
    says = "signature by unknown key ours+" if signed else "not signed"
    assert any(says in line for line in report["not_established"])
    assert main(["import-check", name, "--key", ours, "--json"]) == (0 if signed else 4)
    if signed:
        report = json.loads(capsys.readouterr().out)
        assert [line.partition("+")[0] for line in report["signed_by"]] == ["ours"]
        assert not any("unknown key" in line for line in report["not_established"])
    assert main(["import-check", name, "--key", stranger]) == 4
    assert main(["import-check", name, "--key", stranger, "--key", ours]) == (0 if signed else 4)


def test_what_the_receiver_holds_is_compared(got: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The entry of a proof and the older or newer checkpoint, byte for byte; any other is refused."""
    assert main(["import-check", "inclusion.json", "--entry", "entries", "--checkpoint", "checkpoint.note"]) == 0
    assert "byte for byte" in capsys.readouterr().out
    assert main(["import-check", "export.json", "--entry", "entries"]) == 4
    for checkpoint, code in (("old3.txt", 0), ("checkpoint.note", 0), ("old2.txt", 4)):
        assert main(["import-check", "consistency.json", "--checkpoint", checkpoint]) == code
    assert main(["import-check", "old2.txt", "--checkpoint", "old3.txt"]) == 4
    assert "ask for a proof since 3" in capsys.readouterr().err


def test_a_revealed_body_is_bound_to_its_header_only(got: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Body, salt and header fit; that a ledger holds the header is said not to be shown."""
    triple = ["import-check", "bodies", "--header", "entries", "--salt", "salts"]
    assert main(triple) == 0
    out = capsys.readouterr().out
    assert "start #2 of test/main, of demo" in out
    assert "that a ledger holds this entry" in out
    Path("salts").write_text("0" * 64)
    assert main(triple) == 4


@pytest.mark.parametrize(
    "arguments",
    [
        ["absent"],
        ["inclusion.json", "--key", "nonsense"],
        ["inclusion.json", "--entry", "absent"],
        ["bodies", "--header", "entries"],
        ["bodies", "--header", "entries", "--salt", "salts", "--entry", "entries"],
        ["checkpoint.note", "--entry", "entries"],
        ["consistency.json", "--entry", "entries"],
        ["index", "--entry", "entries"],
    ],
)
def test_options_that_do_not_fit_are_refused(got: Path, arguments: list[str]) -> None:
    """Missing files, keys that are none, and what says nothing about the thing given: exit 2."""
    assert main(["import-check", *arguments]) == 2


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"{", b"[]", b"\xff", b"{" * 9000, b'{"payloadType":1}', b"a\n1\n!\n", b"\n\n"]
)
def test_other_bytes_are_refused_in_one_sentence(got: Path, data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is given: exit 4 and one line, never a traceback."""
    Path("odd").write_bytes(data)
    capsys.readouterr()
    assert main(["import-check", "odd"]) == 4
    assert capsys.readouterr().err.count("\n") == 1


def test_names_chosen_by_a_sender_cannot_steer_the_terminal(got: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A key id with an escape sequence is shown without it."""
    value = json.loads((got / "export.json").read_bytes())
    value["signatures"][0]["keyid"] = "\x1b[2Jours"
    Path("export.json").write_bytes(canonical(value))
    capsys.readouterr()
    assert main(["import-check", "export.json"]) == 0
    out = capsys.readouterr().out
    assert "[2Jours" in out
    assert "\x1b" not in out


@FLIPS
@given(name=st.sampled_from([name for name in HANDED if name != "bare.json"]), place=PLACE, mask=MASK)
def test_no_byte_of_something_signed_can_change(got: Path, ours: str, name: str, place: float, mask: int) -> None:
    """With the signer's key, every changed byte of a proof, an export or a checkpoint is refused."""
    path = got / "changed"
    path.write_bytes(_flipped((got / name).read_bytes(), place, mask))
    with pytest.raises(LedgerError):
        check_received(path, Held((ours,)))


@FLIPS
@given(name=st.sampled_from(HANDED), place=PLACE, mask=MASK)
def test_without_a_key_a_changed_byte_is_refused_or_only_in_what_is_ignored(
    got: Path, name: str, place: float, mask: int
) -> None:
    """Without keys a change in a signature may pass, since nothing is claimed by it; what holds is the same."""
    whole, path = check_received(got / name, Held()), got / "changed"
    path.write_bytes(_flipped((got / name).read_bytes(), place, mask))
    try:
        changed = check_received(path, Held())
    except LedgerError:
        return
    assert changed.signed_by == ()
    if name != "checkpoint.note":  # whose text nothing but its signature protects
        assert changed.established == whole.established


@FLIPS
@given(name=st.sampled_from(["entries", "bodies", "salts"]), place=PLACE, mask=MASK)
def test_a_changed_byte_beside_a_revealed_body_is_never_claimed_for_the_same_leaf(
    got: Path, name: str, place: float, mask: int
) -> None:
    """A changed body or salt is refused; a header that still fits them has another leaf."""
    parts = {part: (got / part).read_bytes() for part in ("entries", "bodies", "salts")}
    whole = check_received(got / "bodies", Held(header=parts["entries"], salt=parts["salts"]))
    parts[name] = _flipped(parts[name], place, mask)
    (got / "changed").write_bytes(parts["bodies"])
    try:
        changed = check_received(got / "changed", Held(header=parts["entries"], salt=parts["salts"]))
    except LedgerError:
        return
    assert name == "entries"
    assert changed.not_established != whole.not_established


@settings(FLIPS, max_examples=60)
@given(data=st.data(), place=PLACE, mask=MASK)
def test_no_byte_of_a_published_folder_can_change(got: Path, data: st.DataObject, place: float, mask: int) -> None:
    """Any file of the folder, the list of hashes included, changed in any byte."""
    names = sorted(path.relative_to(got).as_posix() for path in (got / "index").rglob("*") if path.is_file())
    path = got / data.draw(st.sampled_from(names))
    whole = path.read_bytes()
    path.write_bytes(_flipped(whole, place, mask))
    try:
        with pytest.raises(LedgerError):
            check_received(got / "index", Held())
    finally:
        path.write_bytes(whole)
    check_received(got / "index", Held())


def _claims_open(folder: Path) -> None:
    path = folder / "index.json"
    path.write_text(path.read_text().replace('"open"', '"closed"', 1))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda folder: (folder / "extra").write_text("x"), 5),
        (lambda folder: (folder / "link").symlink_to("INDEX.md"), 4),
        (lambda folder: (folder / "workflow/config/model.yaml").write_text("x"), 5),
        (lambda folder: (folder / "data/results/demo/ruler/summary.json").unlink(), 5),
        (lambda folder: (folder / "SHA256SUMS").unlink(), 4),
        (lambda folder: (folder / "index.json").unlink(), 4),
        (lambda folder: (folder / "data/ledger/main/entries/00000005.json").unlink(), 4),
        (_claims_open, 4),
    ],
)
def test_a_published_folder_with_anything_wrong_is_refused(
    got: Path, change: Callable[[Path], object], code: int
) -> None:
    """More, fewer or other files end with 5, a broken ledger or an index that says otherwise with 4."""
    assert main(["import-check", "index"]) == 0
    change(got / "index")
    assert main(["import-check", "index"]) == code
