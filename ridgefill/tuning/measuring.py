"""One stage's items under candidates: rows for the search and the files, each item kept once it is finished."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ridgefill.arms import Arm
from ridgefill.cost import Geometry
from ridgefill.evaluation.documents import DocumentRun, Scored, evaluate_document
from ridgefill.evaluation.parts import Parts
from ridgefill.evaluation.ruler import RulerRun, evaluate_samples, item_name
from ridgefill.evaluation.runs import Fitted, Setup, require_arms
from ridgefill.models.load import Loaded
from ridgefill.suites.needles import RulerSample
from ridgefill.tuning.candidates import EXACT, Candidate
from ridgefill.tuning.material import Text
from ridgefill.tuning.settings import SCORED_TOKENS

Row = dict[str, Any]
WINDOW = 64
"""Last prompt tokens whose attention ranks the prefix."""
EXACT_ARM = Arm(EXACT, "exact")


@dataclass(frozen=True)
class Bench:
    """What stays the same throughout. tokens: of a prompt. tail: the longest, before which all needles lie and by which
    key tokens are told. seed_for: seed of a label."""

    loaded: Loaded
    geometry: Geometry
    tokens: int
    tail: int
    seed_for: Callable[[str], int]


@dataclass(frozen=True)
class StageScorer:
    """A ``Scorer`` for one stage, of candidates whose maps are in ``fitted``. lam: of each candidate's maps."""

    stage: str
    bench: Bench
    fitted: Fitted
    lam: Mapping[str, float | None]
    samples: Sequence[RulerSample]
    documents: Sequence[Text]
    parts: Parts

    def require(self, candidates: Sequence[Candidate]) -> None:
        """Refuse, before anything runs, what the model does not allow. Raises ``ConfigError`` or ``MapError``."""
        require_arms(self._setup(candidates))

    def retrieve(self, index: int, candidates: Sequence[Candidate], exact: bool) -> dict[str, Row]:
        """See ``Scorer``."""
        sample = self.samples[index]
        item = item_name(sample)

        def made() -> dict[str, Row]:
            setup = self._setup(candidates, exact)
            labels = {"experiment": "tune", "model": "", "source": "ruler-style"}
            run = RulerRun(**vars(setup), seed_for=self.bench.seed_for, labels=labels)
            (done,) = evaluate_samples(run, [sample])
            return {row["arm"]: _retrieval_row(row) for row in done.rows}

        return self._rows("ruler", item, sample.task, candidates, exact, made)

    def lose(self, index: int, candidates: Sequence[Candidate]) -> dict[str, Row]:
        """See ``Scorer``."""
        text = self.documents[index]

        def made() -> dict[str, Row]:
            run = DocumentRun(
                **vars(self._setup(candidates)),
                prompt_tokens=self.bench.tokens,
                scored_tokens=SCORED_TOKENS,
                labels={"experiment": "tune", "model": ""},
            )
            seed = self.bench.seed_for(f"rows/documents/{text.name}")
            return _loss_rows(evaluate_document(run, text.name, text.domain, text.text, seed))

        return self._rows("documents", text.name, text.domain, candidates, True, made)

    def _setup(self, candidates: Sequence[Candidate], exact: bool = True) -> Setup:
        arms = [EXACT_ARM] * exact + [one.arm for one in candidates]
        bench = self.bench
        return Setup(bench.loaded, arms, self.fitted, bench.geometry, bench.tail, WINDOW)

    def _rows(
        self,
        suite: str,
        item: str,
        stratum: str,
        candidates: Sequence[Candidate],
        exact: bool,
        made: Callable[[], dict[str, Row]],
    ) -> dict[str, Row]:
        """Rows of one item by key, from its part when it is finished."""
        asked = ",".join([EXACT] * exact + [one.key for one in candidates])
        part = hashlib.sha256(f"{self.stage}/{suite}/{item}/{asked}".encode()).hexdigest()[:24]
        found = self.parts.get(part)
        if found is None:
            found = made()
            self.parts.put(part, found)
        labels = {"stage": self.stage, "suite": suite, "item": item, "stratum": stratum}
        described = {one.key: {**one.described(), "lam": self.lam[one.key]} for one in candidates}
        described[EXACT] = dict.fromkeys(("split", "tail", "rows_share", "towards", "rank", "lam")) | {
            "candidate": EXACT
        }
        return {key: {**labels, **described[key], **row} for key, row in found.items()}


def prepared(
    scorer: StageScorer, candidates: Sequence[Candidate], fitted: Fitted, lam: Mapping[str, float | None]
) -> StageScorer:
    """The scorer for these candidates, checked."""
    made = replace(scorer, fitted=fitted, lam=lam)
    made.require(candidates)
    return made


def _retrieval_row(row: Mapping[str, Any]) -> Row:
    kept = ("score", "prompt_tokens", "filled_rows", "exact_rows", "macs", "exact_macs", "prediction", "prompt_sha256")
    return {name: row[name] for name in kept} | dict.fromkeys(("loss", "key_loss", "key_tokens"))


def _loss_rows(done: Scored) -> dict[str, Row]:
    """Loss above exact of every arm on one document, over all scored tokens and over its key tokens."""
    nats: dict[str, list[float]] = {}
    for token in done.tokens:
        nats.setdefault(token["arm"], []).append(token["nll"])
    key = [place for place, token in enumerate(token for token in done.tokens if token["arm"] == EXACT) if token["key"]]
    found = {}
    for row in done.rows:
        above = [own - base for own, base in zip(nats[row["arm"]], nats[EXACT], strict=True)]
        found[row["arm"]] = {
            "score": None,
            **{name: row[name] for name in ("prompt_tokens", "filled_rows", "exact_rows", "macs", "exact_macs")},
            "prediction": None,
            "prompt_sha256": None,
            "loss": math.fsum(above) / len(above),
            "key_loss": math.fsum(above[place] for place in key) / len(key) if key else None,
            "key_tokens": len(key),
        }
    return found
