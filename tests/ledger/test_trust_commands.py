"""``ledger key``, ``checkpoint`` and ``cosign`` as they are typed."""

from __future__ import annotations

import importlib.util
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType

import pytest

from ledger.branches import branch_path, open_branch
from ledger.checkpoints import note_path, range_path, stored_sizes, token_path
from ledger.cli import main
from ledger.signing.notes import parse_note

CLAIM = "workflow/claims/demo.yaml"


def _authority() -> ModuleType:
    path = Path(__file__).parent / "authority.py"
    spec = importlib.util.spec_from_file_location("authority", path)
    if spec is None or spec.loader is None:
        raise ImportError(str(path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


authority = _authority()
OPENSSL = pytest.mark.skipif(not authority.HAS_OPENSSL, reason=authority.NO_OPENSSL)


@pytest.fixture
def root(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> Path:
    """A project with a registration and the keys ``me`` and ``you``; commands are typed in it."""
    monkeypatch.setenv("LEDGER_KEYS", str(tmp_path.with_name(f"{tmp_path.name}-keys")))
    monkeypatch.chdir(project)
    assert main(["register", CLAIM]) == 0
    for name in ("me", "you"):
        assert main(["key", "new", name]) == 0
    capsys.readouterr()
    return project


@pytest.fixture
def typed(root: Path, capsys):
    """Type a command that must end with a code; returns what it printed."""

    def type_it(*words: str, code: int = 0) -> str:
        assert main(list(words)) == code, capsys.readouterr()
        printed = capsys.readouterr()
        return printed.err if code else printed.out

    return type_it


def public(typed, name: str) -> str:
    """The public key of a name."""
    return typed("key", "show", name).strip()


def test_a_key_is_made_shown_recorded_and_signs(root: Path, typed) -> None:
    """From nothing to a pinned end in three commands, each of which names the next."""
    assert "next: ledger key add mine" in typed("key", "new", "mine")
    text = public(typed, "mine")
    assert "as #2 of branch local" in typed("key", "add", "mine")
    note = typed("checkpoint", "--key", "mine")
    assert note == note_path(branch_path(root, "local"), 3).read_text(encoding="utf-8")
    ident = "+".join(text.split("+")[:2])
    assert f"pinned up to entry 2 of 2 by {ident} (a key the ledger names)" in typed("verify")
    assert f"pinned up to entry 2 of 2 by {ident} (your key)" in typed("verify", "--key", text)
    assert f"checkpoint 3 signed by {ident}; 0 entries" in typed("verify", "--since", "3", "--key", text)


def test_a_key_that_is_no_key_is_a_wrong_command_line(root: Path, typed) -> None:
    """Whether or not there is a checkpoint to hold it against."""
    for _ in range(2):
        assert "NAME+ID+KEY" in typed("verify", "--key", "me", code=2)
        typed("checkpoint", "--key", "me")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["key", "new", "me"], "a key 'me'"),
        (["key", "show", "nobody"], "ledger key new nobody"),
        (["key", "add", "nobody"], "ledger key new nobody"),
        (["key", "add", "you", "--replaces", "00000000"], "no key '00000000' to replace"),
        (["key", "add", "you", "--lost"], "--lost without --replaces"),
        (["key", "add", "me"], "is recorded already"),
        (["checkpoint", "--key", "nobody"], "ledger key new nobody"),
        (["checkpoint", "--key", "me", "--size", "9"], "has 3 entries"),
        (["checkpoint", "--key", "me", "--size", "0"], "has 3 entries"),
        (["cosign", "--key", "you"], "no checkpoint 0 to cosign (there: none)"),
        (["cosign", "--key", "you", "--size", "2"], "no checkpoint 2 to cosign (there: none)"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(root: Path, typed, words: list[str], said: str) -> None:
    """Exit code 2; nothing is appended and no checkpoint is written."""
    typed("key", "add", "me")
    refusal = typed(*words, code=2)
    assert said in refusal
    assert refusal.count("\n") == 1
    assert len(open_branch(root, "local").entries()) == 3
    assert stored_sizes(branch_path(root, "local")) == ()


def test_the_public_key_of_a_co_author_can_be_recorded(root: Path, typed) -> None:
    """Its text says whether it signs or cosigns; only text that fits together is taken."""
    made = typed("key", "new", "bob", "--cosigner")
    text = next(line for line in made.splitlines() if line.startswith("bob+"))
    assert "next: ledger key add bob --cosigner" in made
    other = f"bob+00000000+{text.split('+', 2)[2]}"
    assert "NAME+ID+KEY" in typed("key", "add", other, code=2)
    typed("key", "add", text)
    body = open_branch(root, "local").entries()[2].body
    assert (body["role"], body["public_key"]) == ("cosigner", text)


def test_a_co_author_adds_a_dated_signature(root: Path, typed) -> None:
    """The first signature stays; the second names its time; both are reported."""
    typed("key", "add", "me")
    typed("key", "add", "you", "--cosigner")
    first = typed("checkpoint", "--key", "me")
    both = typed("cosign", "--key", "you")
    assert both.startswith(first)
    assert len(parse_note(both.encode()).signatures) == 2
    assert typed("cosign", "--key", "you", "--size", "4") == both
    report = json.loads(typed("verify", "--json"))["branches"][0]
    assert [name.partition("+")[0] for name in report["vouched"][0]["signers"]] == ["me", "you"]


def test_a_co_author_signs_no_checkpoint_of_other_entries(root: Path, typed) -> None:
    """Whoever cosigns has read the chain: another root under the same size is refused."""
    typed("checkpoint", "--key", "me")
    path = note_path(branch_path(root, "local"), 2)
    data = path.read_bytes()
    lines = data.split(b"\n")
    lines[2] = b"A" * 43 + b"="
    path.write_bytes(b"\n".join(lines))
    assert "over another root; type `ledger verify`" in typed("cosign", "--key", "you", code=2)
    assert path.read_bytes() != data


def test_a_rotated_key_hands_over_with_both_signatures(root: Path, typed) -> None:
    """Until then it is a warning, and the command says what is to be typed."""
    typed("key", "add", "me")
    old = public(typed, "me").split("+")[1]
    said = typed("key", "add", "you", "--replaces", old, "--reason", "new laptop")
    assert "next: ledger checkpoint --key OLD --key NEW" in said
    typed("checkpoint", "--key", "you")
    assert "warning rotation_unproven #3" in typed("verify")
    typed("checkpoint", "--key", "me")
    assert "rotation_unproven" not in typed("verify")


def test_a_lost_key_is_replaced_on_the_record(root: Path, typed) -> None:
    """With a warning for ever."""
    typed("key", "add", "me")
    old = public(typed, "me").split("+")[1]
    typed("key", "add", "you", "--replaces", old, "--lost", "--reason", "the disk died")
    assert "warning signing_break #3" in typed("verify")


def test_a_checkpoint_without_a_key_is_shown_and_not_stored(root: Path, typed) -> None:
    """Nobody would vouch for it."""
    said = typed("checkpoint")
    assert said.startswith(open_branch(root, "local").checkpoint().text())
    assert "pass --key NAME" in said
    assert stored_sizes(branch_path(root, "local")) == ()


def test_an_earlier_checkpoint_can_be_made_later(root: Path, typed) -> None:
    """With the frontier to go on from."""
    typed("checkpoint", "--key", "me", "--size", "1")
    assert stored_sizes(branch_path(root, "local")) == (1,)
    assert "1 entries since then" in typed("verify", "--since", "1")


@OPENSSL
def test_a_time_stamp_is_asked_for_kept_and_checked(root: Path, typed, tmp_path: Path) -> None:
    """Request and reply as files; entries appended meanwhile do not matter."""
    folder = tmp_path / "authority"
    folder.mkdir()
    now = datetime.now(UTC)
    one = authority.Authority(folder, start=now - timedelta(days=1), end=now + timedelta(days=1))
    request, reply = tmp_path / "request.tsq", tmp_path / "reply.tsr"
    said = typed("checkpoint", "--key", "me", "--timestamp-request", str(request))
    assert "then: ledger checkpoint --branch local --size 2 --timestamp REPLY" in said
    reply.write_bytes(one.answer(request.read_bytes()))
    typed("key", "add", "me")
    assert "found no signed checkpoint 3" in typed("checkpoint", "--timestamp", str(reply), code=2)
    typed("checkpoint", "--key", "me")
    assert "another text" in typed("checkpoint", "--timestamp", str(reply), code=4)
    assert "kept the time stamp of" in typed("checkpoint", "--size", "2", "--timestamp", str(reply))
    local = branch_path(root, "local")
    assert (token_path(local, 2).exists(), token_path(local, 3).exists()) == (True, False)
    options = ["--json", "--tsa-root", str(folder / "root.pem")]
    vouched = json.loads(typed("verify", *options))["branches"][0]["vouched"]
    assert [item["stamped"] is not None for item in vouched] == [True, False]
    assert "timestamp_unchecked" in typed("verify")


@pytest.mark.parametrize("data", [b"", b"no reply"])
def test_what_is_no_reply_is_not_kept(root: Path, typed, tmp_path: Path, data: bytes) -> None:
    """Neither bytes that are none nor a file that is not there."""
    typed("checkpoint", "--key", "me")
    (tmp_path / "reply.tsr").write_bytes(data)
    assert "not an RFC 3161 reply" in typed("checkpoint", "--timestamp", str(tmp_path / "reply.tsr"), code=4)
    assert "none.tsr" in typed("checkpoint", "--timestamp", str(tmp_path / "none.tsr"), code=1)
    assert not token_path(branch_path(root, "local"), 2).exists()
    assert range_path(branch_path(root, "local"), 2).exists()
