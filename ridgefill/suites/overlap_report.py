"""What the overlap gate compared, as counts for its JSON report and as Markdown for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ridgefill.suites.manifest import ROLES, Document


@dataclass(frozen=True)
class Compared:
    """One text that took part. ``role`` is one of the manifests' roles or ``haystack``."""

    role: str
    domain: str
    id: str
    text: str

    @classmethod
    def of(cls, document: Document, text: str) -> Compared:
        """A frozen document and its text."""
        return cls(document.role, document.domain, document.id, text)

    @property
    def named(self) -> tuple[str, str]:
        """The pair (id, text)."""
        return self.id, self.text

    @cached_property
    def words(self) -> int:
        """Words, separated by white space."""
        return len(self.text.split())


def counts(compared: Iterable[Compared]) -> list[dict[str, str | int]]:
    """Texts, characters and words by role and domain: roles in the manifests' order, domains in name order."""
    groups: dict[tuple[str, str], list[Compared]] = {}
    for one in compared:
        groups.setdefault((one.role, one.domain), []).append(one)
    order = [*ROLES, "haystack"]
    return [
        {
            "role": role,
            "domain": domain,
            "texts": len(texts),
            "characters": sum(len(one.text) for one in texts),
            "words": sum(one.words for one in texts),
        }
        for (role, domain), texts in sorted(groups.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
    ]


def overlap_markdown(report: Mapping[str, Any]) -> str:
    """The gate's report as Markdown: one sentence, what was compared, and every shared run by hash and place."""
    found = report["findings"]
    says = f"{len(found)} shared runs of" if found else "No shared run of"
    lines = [
        f"{says} {report['run_words']} words between {report['calibration_texts']} calibration texts "
        f"({report['calibration_words']:,} words) and {report['evaluation_texts']} evaluation texts "
        f"({report['evaluation_words']:,} words).",
        "",
        "| role | domain | texts | characters | words |",
        "|---|---|--:|--:|--:|",
        *(
            f"| {row['role']} | {row['domain']} | {row['texts']} | {row['characters']:,} | {row['words']:,} |"
            for row in report.get("counts", ())
        ),
    ]
    if found:
        lines += [
            "",
            "| calibration text | word | evaluation text | word | words shared | SHA-256 |",
            "|---|--:|---|--:|--:|---|",
        ]
        lines += [
            f"| {run['calibration']} | {run['start']} | {run['evaluation']} | {run['evaluation_start']} "
            f"| {run['words']} | {run['sha256'][:16]} |"
            for run in found
        ]
    return "\n".join(lines) + "\n"
