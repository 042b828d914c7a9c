"""What the columns of each results file are to a comparison of two runs: names, answers, measurements, times.

A column that is in none of the lists must be equal: counts, texts and positions are drawn from the registered seed or
counted, so no rounding reaches them. A new column is thereby compared strictly until somebody says what it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Bound:
    """How far two measurements may lie apart: ``absolute`` plus ``relative`` times the larger magnitude.

    ``lean``, ``spread``: how large the mean and the root mean square of an arm's differences may be; None: not asked.
    """

    absolute: float = 0.0
    relative: float = 0.0
    lean: float | None = None
    spread: float | None = None

    def allows(self, first: float, second: float) -> bool:
        """Whether the two lie within the bound."""
        return abs(first - second) <= self.absolute + self.relative * max(abs(first), abs(second))


LOSS = Bound(absolute=5e-4, lean=1e-4, spread=5e-5)
"""Nats of one token in float32, without maps. Other orders of adding move a logit by some 1e-5: 5e-5 at most was seen
over 61,440 tokens of a run on other days and versions. Rounding has no direction, so over an arm it cancels."""
REFITTED_LOSS = Bound(absolute=3e-2, lean=1e-4, spread=3e-3)
"""The same of an arm that writes from maps which were fitted anew. Maps are stored in bfloat16: where a solve ends in
other last bits, a weight at the edge is stored as its neighbour. Seen: 1.1e-2 at most, 1.2e-3 root mean square."""
COSINE = Bound(absolute=1e-5)
FITTED = Bound(absolute=1e-9, relative=1e-3)
"""Numbers that a linear solve gave: its condition multiplies what rounding does to the Grams."""

FITS = ("fit/fit_layers.parquet", "lam/lam_curve.parquet", "lam/more_maps.parquet")
"""Files that show whether the maps were fitted to the same bits."""
WITHOUT_MAPS = ("exact", "no_fill", "identity", "pop_", "kva", "swiftkv")
"""How arms begin that read no fitted map."""

COUNTED = ("macs", "exact_macs", "selection_macs", "correction_macs", "target_macs")
"""Multiply-accumulates: not measured but reckoned, so a newer cost model may reckon them otherwise for equal rows."""
RECOUNT = 0.01
"""Share of a count by which another version may differ before it is another work and not another reckoning."""

MOST_SHARE = 0.02
"""Share of an arm's answers (one is always allowed) that near ties may turn."""


@dataclass(frozen=True)
class Columns:
    """One schema. ``keys`` name a row.

    ``answers``: what greedy decoding wrote -> columns that follow from it, as a score does. ``choices``: what an
    arg-max or a top-k picked. ``measures``: floats and their bound. ``own``: the machine's own, not compared.
    """

    keys: tuple[str, ...]
    answers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    choices: tuple[str, ...] = ()
    measures: Mapping[str, Bound] = field(default_factory=dict)
    own: tuple[str, ...] = ()


_SAMPLE = ("task", "length", "sample", "arm", "split")
_MACHINE = ("device", "threads")
COLUMNS: dict[str, Columns] = {
    "ruler_samples": Columns(_SAMPLE, {"prediction": ("score", "generated_tokens")}),
    "documents": Columns(("document", "arm", "split")),
    "document_tokens": Columns(("document", "arm", "split", "position"), measures={"nll": LOSS}),
    "timings": Columns(("suite", "item", "arm", "split"), own=("lower_seconds", "late_seconds", "exact_seconds")),
    "lam_curve": Columns(("split", "lam", "layer", "component"), measures={"cosine": COSINE}),
    "lam_curve_options": Columns(
        ("towards", "rank", "split", "lam", "layer", "component"), measures={"cosine": COSINE}
    ),
    "fit_layers": Columns(
        ("split", "layer"), measures={"alpha": FITTED, "condition": FITTED, "residual_share": FITTED}
    ),
    "arm_runs": Columns(("suite", "item", "arm", "split"), choices=("selected",)),
    "measured": Columns(("suite", "item", "arm", "split", "layer", "what", "head"), measures={"value": FITTED}),
    "speed": Columns(
        ("arm", "split", "length", "repeat"),
        own=(*_MACHINE, "exact_seconds", "seconds", "peak_bytes", "exact_peak_bytes"),
    ),
    "serving": Columns(
        ("pair", "arm", "split", "length", "repeat"),
        own=(
            *_MACHINE, "first_token_seconds", "tokens_per_second", "latency_mean", "latency_p50", "latency_p99",
            "latency_max", "latencies", "alone",
        ),
    ),
    "served_pairs": Columns(
        ("phase", "number", "place", "role", "arm", "split"),
        # Requests that share steps of a server are computed in batches that time puts together.
        choices=("tokens",),
        own=(*_MACHINE, "first_token_seconds", "decode_seconds", "gaps"),
    ),
    "agreement": Columns(("document", "prompt_tokens", "arm", "split")),
    "agreement_tokens": Columns(
        ("document", "variant", "prompt_tokens", "arm", "split", "position"),
        choices=("token", "top1", "copyable"),
        measures={"kl": LOSS},
    ),
    "turn_samples": Columns(
        _SAMPLE,
        {
            "first_prediction": ("first_score", "first_tokens", "second_prompt_tokens"),
            "second_prediction": ("second_score", "second_tokens"),
        },
    ),
    "longbench_v1_samples": Columns(
        ("dataset", "sample", "arm", "split"), {"prediction": ("score", "generated_tokens")}
    ),
    "longbench_v2_samples": Columns(
        ("item", "arm", "split"),
        {
            "reasoning": ("reasoning_tokens", "at_cap", "answer_prompt_tokens", "answer_filled_rows"),
            "response": ("response_tokens", "choice", "correct"),
        },
    ),
}  # fmt: skip
