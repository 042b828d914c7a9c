"""A search's outcome in words, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ridgefill.cost import ceiling
from ridgefill.stats import Contrast
from ridgefill.tuning.candidates import ROW_SHARES, Candidate
from ridgefill.tuning.confirm import Confirmation
from ridgefill.tuning.front import pareto
from ridgefill.tuning.search import Found, Trial

HEADS = ("split", "tail", "rows", "maps", "lam", "work", "ceiling", "retrieval", "key loss")
GENERATE_ROWS = max(ROW_SHARES)
"""The share that ``ridgefill generate --rows attention`` runs."""


@dataclass(frozen=True)
class Outcome:
    """Everything that a finished search says. lam: by candidate. folder: where its files are."""

    model: str
    tokens: int
    budget: float
    seed: int
    found: Found
    checked: Confirmation
    lam: Mapping[str, float | None]
    folder: str

    @property
    def front(self) -> list[Trial]:
        """Finalists on the Pareto front, cheapest first."""
        keys = [one.key for one in pareto([trial.point for trial in self.found.finalists])]
        return [self.found.trials[key] for key in keys]

    @property
    def shown(self) -> list[Trial]:
        """The front and the recommendation, which need not be on it: loss decides where retrieval is alike."""
        listed = {one.candidate.key: one for one in (*self.front, self.found.chosen)}
        return sorted(listed.values(), key=lambda one: one.share)


def as_json(outcome: Outcome) -> dict[str, Any]:
    """What ``tune.json`` holds."""
    found = outcome.found
    return {
        "model": outcome.model,
        "prompt_tokens": outcome.tokens,
        "budget": outcome.budget,
        "seed": outcome.seed,
        "rounds": [{"candidates": candidates, "samples": samples} for candidates, samples in found.rounds],
        "exact_points": sum(found.exact) / len(found.exact),
        "recommended": _trial_json(found.chosen, outcome),
        "front": [_trial_json(one, outcome) for one in outcome.front],
        "finalists": [_trial_json(one, outcome) for one in found.finalists],
        "confirmation": outcome.checked.as_json(),
    }


def _trial_json(trial: Trial, outcome: Outcome) -> dict[str, Any]:
    return {
        **trial.candidate.described(),
        "lam": outcome.lam[trial.candidate.key],
        "share": trial.share,
        "ceiling": ceiling(trial.share),
        "samples": len(trial.points),
        "retrieval": trial.quality,
        "loss": trial.loss,
        "key_loss": trial.key_loss,
    }


def said(outcome: Outcome) -> str:
    """What the command prints."""
    found, chosen = outcome.found, outcome.found.chosen
    rounds = ", then ".join(f"{candidates} settings on {samples} samples" for candidates, samples in found.rounds)
    exact = sum(found.exact) / len(found.exact)
    documents = sum(row["suite"] == "documents" and row["candidate"] == chosen.candidate.key for row in found.rows)
    lines = [
        f"{outcome.model}, prompts of {outcome.tokens:,} tokens, at most {outcome.budget:.1%} of exact prefill's "
        "multiply-accumulates",
        f"searched {rounds}; seed {outcome.seed}",
        "",
        f"Front on development data, * recommended ({len(found.exact)} filled-region samples, {documents} documents; "
        f"exact retrieves {exact:.1f} points)",
        *_table(outcome.shown, outcome),
        "",
        f"recommended  {_words(chosen.candidate)}: {chosen.share:.1%} of the work, {ceiling(chosen.share):.2f} times "
        "faster at most",
        "             The rule: of settings within the budget whose retrieval is within one standard error of the "
        "best, the least loss on key tokens.",
        "",
        f"Held out: {outcome.checked.test.n} other samples, {outcome.checked.documents} other documents, the "
        "recommended setting alone",
        *confirmed(outcome.checked),
        "",
        *_next(outcome),
    ]
    return "\n".join(lines)


def confirmed(checked: Confirmation) -> list[str]:
    """The lines on held-out data: both measures, and the verdict on non-inferiority."""
    test = checked.test
    floor = -(test.floor or 0.0)
    lines = [
        f"  retrieval   {_points(checked.retrieval)} against exact's {_points(checked.exact)}; difference "
        f"{_points(checked.difference, signed=True)} points",
        f"  key loss    {_nats(checked.key_loss, 'no document has a key token')}",
        f"  all tokens  {_nats(checked.loss, 'no document was measured')}",
        f"  lower bound {test.bound:+.1f} points, the lower of the bootstrap's {test.bootstrap_bound:+.1f} and the "
        f"binomial floor {-floor:+.1f} of n = {test.n}; margin {test.margin:g}",
    ]
    if checked.shown:
        lines.append(f"  verdict     shown: retrieval is at most {test.margin:g} points below exact's (one-sided 95 %)")
    elif test.n < checked.needed:
        lines.append(
            f"  verdict     not shown: n = {test.n} does not allow it. Even without a single loss {floor:.1f} points "
            f"stay open; {checked.needed} samples are needed (--confirm {checked.needed})"
        )
    else:
        lines.append(f"  verdict     not shown: these samples do not exclude a loss of {test.margin:g} points or more")
    if checked.weak:
        lines.append(
            f"  note        exact itself retrieves {checked.exact.estimate:.1f} points, so there is little to lose and "
            "the comparison says little; try a shorter --length"
        )
    return lines


def _words(candidate: Candidate) -> str:
    rows = f", {candidate.rows:.0%} exact rows by attention" if candidate.rows else ""
    return f"split {candidate.split}, tail {candidate.tail}{rows}, {_maps(candidate)}"


def _maps(candidate: Candidate) -> str:
    rank = f" of rank {candidate.maps.rank}" if candidate.maps.rank else ""
    return f"maps towards {candidate.maps.towards}{rank}"


def _table(trials: Sequence[Trial], outcome: Outcome) -> list[str]:
    cells = [HEADS, *(_cells(one, outcome) for one in trials)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADS))]
    mark = [" ", *("*" if one is outcome.found.chosen else " " for one in trials)]
    return [
        f"{mark[number]} " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for number, row in enumerate(cells)
    ]


def _cells(trial: Trial, outcome: Outcome) -> tuple[str, ...]:
    one, lam = trial.candidate, outcome.lam[trial.candidate.key]
    rank = f" rank {one.maps.rank}" if one.maps.rank else ""
    return (
        str(one.split),
        str(one.tail),
        f"{one.rows:.0%}" if one.rows else "-",
        one.maps.towards + rank,
        "-" if lam is None else f"{lam:g}",
        f"{trial.share:.1%}",
        f"{ceiling(trial.share):.2f}x",
        f"{trial.quality:.1f}",
        "-" if trial.key_loss is None else f"{trial.key_loss:+.3f}",
    )


def _points(one: Contrast, *, signed: bool = False) -> str:
    return "{0:{3}} [{1:{3}}, {2:{3}}]".format(one.estimate, one.ci_low, one.ci_high, "+.1f" if signed else ".1f")


def _nats(one: Contrast | None, absent: str) -> str:
    if one is None:
        return f"none: {absent}"
    return f"{one.estimate:+.3f} [{one.ci_low:+.3f}, {one.ci_high:+.3f}] nats above exact, {one.n} documents"


def _next(outcome: Outcome) -> list[str]:
    one = outcome.found.chosen.candidate
    lines = [f"files  {outcome.folder} (candidates.parquet, tune.json, front.svg, front.png, maps)"]
    rows = " --rows attention" if one.rows == GENERATE_ROWS else ""
    words = f"ridgefill generate --model {outcome.model} --maps {outcome.folder}/maps --tail {one.tail}{rows}"
    lines.append(f"next   {words} --prompt-file prompt.txt --compare")
    if one.rows and not rows:
        lines.append(f"       In Python, rows can be positions: {one.rows:.0%} of the prompt is no option of generate.")
    if one.maps.rank:
        lines.append("       Files hold maps whole: read back, thin ones predict the same at the price of whole ones.")
    return lines
