"""Which of our measures stands beside which of the paper's, and what is different about it.

An explicit table: a measure of the paper that no line names has no counterpart here. Arms carry the same names on
both sides; ``ARMS`` lists those that do not.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

FOUR = frozenset({"niah_single_1", "niah_multikey_1", "niah_multivalue", "niah_multiquery"})
EIGHT = FOUR | {"cwe", "fwe", "qa_1", "vt"}
THIRTEEN = EIGHT | {"niah_single_2", "niah_single_3", "niah_multikey_2", "niah_multikey_3", "qa_2"}
ARMS = {
    "stock": "exact",
    "exact_digit_rows": "ridgefill_digits",
    "ridgefill_terminal_correction": "ridgefill_state_correction",
}
"""Names of the paper's arms that ours have another word for."""
ARMS_DIFFER = {
    "stock": "ours is this project's own exact pass, which is bit for bit the library's model",
    "exact_digit_rows": "ours makes every token with a digit exact, at the experiment's split",
    "ridgefill_terminal_correction": "ours measures the offsets on its own calibration documents",
}


@dataclass(frozen=True)
class Match:
    """One of our measures (``metric`` of ``ridgefill.measures``) and how it differs from the paper's.

    against_exact: the paper prints it as a difference to exact. tasks: an experiment has to have run just these.
    """

    metric: str
    differs: str
    against_exact: bool = False
    tasks: frozenset[str] | None = None


_SAMPLES = "lengths and samples are the experiment's, its wording is official or ruler-style as it says"
_TOKENS = "documents, their length and the tail are the experiment's"
_ITEMS = "items and how many of them are the experiment's"
MATCHES: tuple[tuple[str, Match], ...] = (
    (r"ruler_filled_(8k_32k|8k_64k|all)", Match("ruler_filled", f"{_SAMPLES}; its own tail bounds the region")),
    (r"ruler_(four_needle_tasks_8k_32k|needles_all)", Match("ruler_all", _SAMPLES, tasks=FOUR)),
    (r"ruler_eight_tasks_8k_32k", Match("ruler_all", _SAMPLES, tasks=EIGHT)),
    (r"ruler13_(16k|32k)", Match("ruler_all", _SAMPLES, tasks=THIRTEEN)),
    (r"(?P<task>ruler_(niah|cwe|fwe|vt|qa)\w*?)_(16k|32k)", Match(r"\g<task>", _SAMPLES)),
    (r"turn2", Match("turn2", f"{_SAMPLES}; only where every needle lies before the tail")),
    (r"decode_agreement", Match("agreement_top1", f"{_TOKENS}; so are the tokens that are followed")),
    (r"decode_kl", Match("agreement_kl", f"{_TOKENS}; so are the tokens that are followed")),
    (r"longbench_v1_avg", Match("longbench_v1", f"{_ITEMS}; ours weighs items alike, the paper's average datasets")),
    (r"longbench_v2_overall", Match("longbench_v2", _ITEMS)),
    (r"nll_novel", Match("nll_novel", _TOKENS, against_exact=True)),
    (r"nll_key", Match("nll_key", f"{_TOKENS}; the context is cut to that tail", against_exact=True)),
)


def match(metric: str) -> Match | None:
    """Our counterpart of the paper's ``metric``; None when there is none."""
    for pattern, found in MATCHES:
        hit = re.fullmatch(pattern, metric)
        if hit is not None:
            return Match(hit.expand(found.metric), found.differs, found.against_exact, found.tasks)
    return None


def arm(name: str) -> str:
    """Our name of the paper's arm ``name``."""
    return ARMS.get(name, name)


def differences(metrics: Collection[str], arms: Collection[str]) -> list[str]:
    """One line for each of our measures that stand for ``metrics`` and each renamed arm among ``arms``."""
    lines: dict[str, list[str]] = {}
    for metric in dict.fromkeys(metrics):
        found = match(metric)
        if found is not None:
            only = "" if found.tasks is None else f"; only of experiments that ran just these {len(found.tasks)} tasks"
            lines.setdefault(f"ours is {found.metric}; {found.differs}{only}", []).append(metric)
    for name in dict.fromkeys(arms):
        if name in ARMS:
            lines.setdefault(f"ours is {ARMS[name]}; {ARMS_DIFFER[name]}", []).append(name)
    return [f"{', '.join(names)}: {text}" for text, names in lines.items()]
