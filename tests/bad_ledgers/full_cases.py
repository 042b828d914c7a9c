"""What can be wrong with keys, checkpoints, amendments, voids, results and verdicts: cases over ``full/``.

Main has 17 entries, listed in ``full.py``; forged ones follow as 17, 18 and so on.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from forging import (
    GONE,
    MAIN,
    entry,
    forge,
    forge_result,
    forge_start,
    forget,
    key_of_tests,
    put,
    reforge,
    replace,
    stored,
    write_table,
)
from full import ROOT_PEM, scores

from ledger.canonical import canonical
from ledger.checkpoint import Checkpoint
from ledger.checkpoints import add_signatures, note_path, range_path, token_path
from ledger.merkle import leaf_hash
from ledger.signing.notes import COSIGNATURE

Change = Callable[[Path], Any]
SIDE = "data/ledger/side"
NAN, INFINITY = float("nan"), float("inf")
ALICE, SUCCESSOR, BOB, CAROL = (key_of_tests(name) for name in ("alice", "alice-2", "bob", "carol"))
LATE = "2027-01-01T00:00:00Z"
DASH = "\N{EM DASH}".encode()


def pointer(root: Path, seq: int) -> dict[str, Any]:
    """How an entry of main names another."""
    return {"seq": seq, "leaf": leaf_hash(entry(root, seq).read_bytes()).hex()}


def note(root: Path, size: int) -> Path:
    """Stored checkpoint of main."""
    return note_path(root / MAIN, size)


def void(seq: int, at: int = 17, **fields: Any) -> Change:
    """Void entry ``seq``, whatever it is."""
    return lambda root: forge(
        root, at, {"registration": pointer(root, seq), "reason": "no more", **fields}, kind="void"
    )


def amend(seq: int, like: int, grade: str = "follow_up", **fields: Any) -> Change:
    """Amend entry ``seq``, whatever it is, with the claim and configs of entry ``like``."""

    def change(root: Path) -> None:
        said = {name: stored(root, like)[name] for name in ("experiment", "claim", "claim_file", "configs")}
        about = {"registration": pointer(root, seq), "reason": "better so"}
        forge(root, 17, {**said, **about, **fields}, kind="amend", grade=grade)

    return change


def key(name: str, **fields: Any) -> Change:
    """Record the test key ``name`` as one more signer."""
    body = {
        "public_key": key_of_tests(name).verifier().text(),
        "role": "signer", "replaces": None, "lost": False, "reason": "", **fields,
    }  # fmt: skip
    return lambda root: forge(root, 17, body, kind="key")


def other_entry_15(root: Path) -> None:
    """Another last entry under the newest checkpoint."""
    reforge(root, 15, {"reason": "another"})
    reforge(root, 16, {})


def other_origin(root: Path) -> None:
    """Sign a checkpoint of this size for another ledger."""
    note(root, 16).unlink()
    point = Checkpoint("else/main", 16, bytes(32))
    add_signatures(root / MAIN, point, [SUCCESSOR.sign(point.text())])


def flip_signature(size: int, line: int) -> Change:
    """Flip a bit in the payload of a signature line."""

    def change(root: Path) -> None:
        lines = note(root, size).read_text(encoding="utf-8").split("\n")
        start, _, encoded = lines[line].rpartition(" ")
        blob = bytearray(base64.b64decode(encoded))
        blob[-1] ^= 1
        lines[line] = f"{start} {base64.b64encode(blob).decode()}"
        note(root, size).write_bytes("\n".join(lines).encode())

    return change


def resigned(root: Path) -> None:
    """Give a signature of one checkpoint to another."""
    head = note(root, 8).read_bytes().partition(b"\n\n")[0]
    note(root, 8).write_bytes(head + b"\n\n" + note(root, 4).read_bytes().partition(b"\n\n")[2])


def rewritten(edit: Callable[[bytes], bytes]) -> Change:
    """Change the bytes of a checkpoint."""
    return lambda root: note(root, 8).write_bytes(edit(note(root, 8).read_bytes()))


def frontier(**fields: Any) -> Change:
    """Change the frontier beside the newest checkpoint."""

    def change(root: Path) -> None:
        path = range_path(root / MAIN, 16)
        path.write_bytes(canonical({**json.loads(path.read_bytes()), **fields}))

    return change


def link_note(root: Path) -> None:
    """Leave a link in the place of a checkpoint."""
    note(root, 16).rename(root / "moved")
    note(root, 16).symlink_to("../../../../moved")


def run(rows: Iterator[dict[str, Any]] | list[dict[str, Any]], **metadata: str) -> Change:
    """A run of the registration that was never run, with these results."""

    def change(root: Path) -> None:
        forge_start(root, 17, 16)
        path = root / "data/results/idle/scores.parquet"
        forge_result(root, 18, 17, {"scores.parquet": write_table(path, list(rows), metadata)})

    return change


def one(value: float) -> list[dict[str, Any]]:
    """One row with a value, one with a number."""
    row = {"metric": "score", "arm": "exact", "item": "q1"}
    return [{**row, "value": 1.0}, {**row, "item": "q2", "value": value}]


def verdicts(text: str) -> Change:
    """Publish other verdicts of demo."""
    return lambda root: put(root / "data/results/demo/verdicts.json", text)


def said(**names: str) -> Change:
    """Publish these verdicts of demo."""
    return verdicts(json.dumps([{"id": name, "verdict": verdict} for name, verdict in names.items()]))


def start_like(version: int, **fields: Any) -> Change:
    """Forge a start of main under a version of a registration."""
    return lambda root: forge_start(root, 17, version, **fields)


TOKEN_4 = "data/ledger/main/checkpoints/00000004.tsr"
OTHER_ROOT = Path(__file__).parents[1] / "ledger/golden/timestamps/root.pem"
NOWHERE = {"origin": "full/main", "seq": 7, "leaf": "0" * 64}
STAMPS = frozenset({"token_of_other_text", "token_byte", "token_of_other_root", "token_is_no_reply"})
GOOD_VERDICTS = {"h1": "supported", "h2": "refuted", "h3": "undecided"}
ALICE_ID = ALICE.verifier().key_id.hex()
BOB_ID = BOB.verifier(COSIGNATURE).key_id.hex()

CASES: dict[str, tuple[str, int, Change]] = {
    # checkpoints
    "truncated_end": ("truncated", 4, lambda r: forget(r, 16, 15)),
    "checkpoint_root_mismatch": ("checkpoint_mismatch", 4, other_entry_15),
    "checkpoint_other_origin": ("wrong_origin", 4, other_origin),
    "checkpoint_size_in_name": ("bad_checkpoint", 4, lambda r: note(r, 8).rename(note(r, 9))),
    "checkpoint_respelled": ("bad_checkpoint", 4, lambda r: replace(note(r, 8), b"\n8\n", b"\n08\n")),
    "checkpoint_stray_name": ("unexpected_file", 4, lambda r: shutil.copy(note(r, 8), f"{note(r, 8)}.orig")),
    "checkpoint_is_a_link": ("symlink", 4, link_note),
    "bad_signature": ("bad_signature", 4, flip_signature(8, 4)),
    "bad_second_signature": ("bad_signature", 4, flip_signature(15, 5)),
    "bad_cosignature": ("bad_signature", 4, flip_signature(16, 5)),
    "signature_of_other_checkpoint": ("bad_signature", 4, resigned),
    "note_line_endings": ("bad_note", 4, rewritten(lambda data: data.replace(b"\n", b"\r\n"))),
    "note_without_blank_line": ("bad_note", 4, lambda r: replace(note(r, 8), b"\n\n", b"\n")),
    "note_without_signature": ("bad_note", 4, rewritten(lambda data: data.partition(DASH)[0])),
    "note_final_newline": ("bad_note", 4, rewritten(lambda data: data[:-1])),
    "range_wrong": ("bad_range", 4, frontier(last="0" * 64)),
    "range_of_other_size": ("bad_range", 4, frontier(size=15)),
    "range_unknown_field": ("unknown_field", 4, frontier(note="x")),
    "range_respelled": ("not_canonical", 4, lambda r: replace(range_path(r / MAIN, 16), b'{"last"', b'{ "last"')),
    "token_of_other_text": ("bad_timestamp", 4, lambda r: shutil.copy(r / TOKEN_4, token_path(r / MAIN, 8))),
    "token_byte": ("bad_timestamp", 4, lambda r: replace(r / TOKEN_4, b"20261101", b"20251101")),
    "token_is_no_reply": ("bad_timestamp", 4, lambda r: (r / TOKEN_4).write_bytes(b"later")),
    "token_of_other_root": (
        "bad_timestamp", 4, lambda r: shutil.copy(OTHER_ROOT, r / ROOT_PEM),
    ),
    # keys
    "key_replaces_unknown": ("unknown_key", 4, key("carol", replaces="00000000")),
    "key_replaces_replaced": ("unknown_key", 4, key("carol", replaces=ALICE_ID)),
    "key_replaces_other_role": ("unknown_key", 4, key("carol", replaces=BOB_ID)),
    "key_lost_without_name": ("unknown_key", 4, key("carol", lost=True)),
    "key_twice": ("bad_key", 4, key("alice-2")),
    "key_wrong_role": ("bad_key", 4, key("carol", role="cosigner")),
    "key_other_id": ("bad_key", 4, key("x", public_key=f"carol+00000000+{CAROL.verifier().text().rpartition('+')[2]}")),
    "key_unknown_role": ("bad_value", 4, key("carol", role="owner")),
    "key_bad_old_id": ("bad_value", 4, key("carol", replaces=ALICE_ID.upper() + "0")),
    "key_unknown_field": ("unknown_field", 4, key("carol", email="x")),
    # amendments and voids
    "amend_other_experiment": ("bad_amendment", 4, amend(16, like=8)),
    "amend_of_voided": ("voided_registration", 4, amend(6, like=6, grade="confirmatory")),
    "amend_of_nothing": ("unknown_registration", 4, amend(8, like=8, registration={"seq": 8, "leaf": "0" * 64})),
    "amend_of_amendment": ("unknown_registration", 4, amend(11, like=11)),
    "amend_from_later": ("unknown_registration", 4, amend(8, like=8, registration={"seq": 99, "leaf": "0" * 64})),
    "amend_made_up_grade": ("wrong_grade", 4, amend(8, like=8, grade="confirmatory")),
    "amend_without_grade": ("bad_value", 4, amend(8, like=8, grade=None)),
    "amend_bad_claim": ("bad_claim", 4, amend(16, like=16, grade="confirmatory", claim={"title": "none"})),
    "amend_other_configs": ("bad_claim", 4, amend(16, like=16, grade="confirmatory", configs=[])),
    "amend_unknown_field": ("unknown_field", 4, amend(8, like=8, why="x")),
    "amend_without_reason": ("bad_value", 4, amend(8, like=8, reason=" ")),
    "void_twice": ("voided_registration", 4, void(6)),
    "void_of_nothing": ("unknown_registration", 4, void(6, registration={"seq": 6, "leaf": "0" * 64})),
    "void_of_amendment": ("unknown_registration", 4, void(11)),
    "void_unknown_field": ("unknown_field", 4, void(8, who="x")),
    "void_without_reason": ("bad_value", 4, void(8, reason="")),
    "void_missing_reason": ("missing_field", 4, void(8, reason=GONE)),
    # starts
    "start_after_void": ("voided_registration", 4, start_like(6)),
    "start_of_superseded": ("superseded_registration", 4, start_like(2)),
    "start_after_start_by": ("overdue_start", 4, start_like(16, time=LATE)),
    "start_under_void": ("unknown_registration", 4, start_like(16, registration=NOWHERE)),
    "fork_start_after_void": ("voided_registration", 4, lambda r: forge_start(r, 3, 6, SIDE)),
    "fork_start_of_superseded": ("superseded_registration", 4, lambda r: forge_start(r, 3, 2, SIDE)),
    # results and verdicts
    "nan_in_results": ("not_a_number", 5, run(one(NAN))),
    "infinity_in_results": ("not_a_number", 5, run(one(-INFINITY))),
    "wrong_output_seed": ("wrong_output_seed", 5, run(scores(), run_seed="7")),
    "verdict_differs": ("wrong_verdict", 5, said(**{**GOOD_VERDICTS, "h2": "supported"})),
    "verdict_missing": ("wrong_verdict", 5, said(h1="supported", h2="refuted")),
    "verdict_of_no_prediction": ("wrong_verdict", 5, said(**GOOD_VERDICTS, h4="supported")),
    "verdicts_are_no_list": ("wrong_verdict", 5, verdicts("{}\n")),
    "verdicts_are_no_json": ("wrong_verdict", 5, verdicts("supported\n")),
    "deviation_hidden": (
        "wrong_verdict", 5,
        lambda r: shutil.copy(r / "data/results/demo/verdicts.json", r / "data/results/later/verdicts.json"),
    ),
}  # fmt: skip
