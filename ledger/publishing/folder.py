"""Check a published folder: its ledgers, its files, and that its index says what its entries say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ledger.artifacts import FILE_CODES
from ledger.branches import branch_path
from ledger.checkpoints import read_note
from ledger.custody import Trust
from ledger.errors import BrokenLedger, FormatError, OutputMismatch
from ledger.publishing.marker import INDEX, read_index
from ledger.publishing.pages import describe, without_words
from ledger.publishing.report import Checked, note_signatures, require_signer
from ledger.publishing.sums import SUMS, check_sums
from ledger.reports import Report
from ledger.verify import verify

if TYPE_CHECKING:
    from ledger.signing.notes import VerifierKey


def check_folder(folder: Path, keys: Sequence[str], known: Sequence[VerifierKey]) -> Checked:
    """Verify a published folder; BrokenLedger for its ledgers or index, OutputMismatch for its other files."""
    index = read_index(folder)
    if index is None:
        raise FormatError("bad_index", f"{folder} has no {INDEX}, so it is not a published ledger; give its folder")
    report = verify(folder, None, Trust(keys=tuple(keys)))
    _refuse_errors(folder, report, bool(index["results"]))
    if without_words(index) != without_words(describe(folder, bool(index["results"]))):
        raise FormatError("bad_index", f"{folder / INDEX} does not say what the entries say; ask for the folder again")
    count = check_sums(folder)
    signed, missing = _signatures(folder, index, known)
    require_signer("folder with a checkpoint", signed, known)
    return Checked(
        kind="published ledger",
        established=(
            *(f"{branch.name}: {branch.size} entries of {branch.origin}, {branch.state}" for branch in report.branches),
            f"{count} files are those of {SUMS}",
            f"{INDEX} says what the entries say",
        ),
        signed_by=signed,
        not_established=(*missing, *_withheld(index), *_absent(index)),
    )


def _refuse_errors(folder: Path, report: Report, results: bool) -> None:
    """The first error of the report as an exception; results that were never published are none."""
    errors = [item for item in report.errors if results or item.code != "output_missing"]
    if not errors:
        return
    kind = OutputMismatch if all(item.code in FILE_CODES for item in errors) else BrokenLedger
    raise kind(
        f"{folder} does not verify ({errors[0].line()}); type `ledger verify --root {folder}` for the whole list, "
        "and ask for the folder again"
    )


def _signatures(folder: Path, index: dict[str, Any], known: Sequence[VerifierKey]) -> tuple[tuple[str, ...], list[str]]:
    """Sentences about the newest signed checkpoint of every branch: by known keys, and the rest."""
    signed: list[str] = []
    missing: list[str] = []
    for branch in index["branches"]:
        name, sizes = branch["name"], branch["checkpoints"]
        if not sizes:
            missing.append(f"whose ledger {name} is and that its end was not cut off: it has no signed checkpoint")
            continue
        text = read_note(branch_path(folder, name), max(sizes)).note.encode().decode("utf-8")
        found = note_signatures(text, known)
        signed += [f"{who} over {name} at {max(sizes)} entries" for who in found.known]
        missing += [f"{name} at {max(sizes)} entries: {line}" for line in found.unknown]
        if max(sizes) < branch["size"]:
            missing.append(f"that {name} ends here: entries after #{max(sizes) - 1} are under no signed checkpoint")
    return tuple(signed), missing


def _withheld(index: dict[str, Any]) -> list[str]:
    lines = []
    for branch in index["branches"]:
        hidden = [f"#{entry['seq']}" for entry in branch["entries"] if entry["withheld"]]
        if hidden:
            lines.append(f"what the withheld bodies of {branch['name']} say: {', '.join(hidden)}")
    return lines


def _absent(index: dict[str, Any]) -> list[str]:
    gone = [item["path"] for item in index["files"] if not item["here"]]
    return [f"the bytes of {path}: the file is not here as it was recorded" for path in gone]
