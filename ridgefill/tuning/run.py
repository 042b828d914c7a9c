"""A whole search: texts and a model in, maps tried on development data, the choice tested on other data, files out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

from ridgefill.cost import geometry_of
from ridgefill.errors import ConfigError
from ridgefill.evaluation.parts import Parts
from ridgefill.evaluation.runs import Fitted
from ridgefill.map_options import PLAIN
from ridgefill.models.load import Loaded
from ridgefill.models.sizes import sizes_of
from ridgefill.passes import selector_layers
from ridgefill.progress import progress
from ridgefill.results import write_json
from ridgefill.sizes import ModelGeometry
from ridgefill.tuning.candidates import (
    ROW_SHARES,
    Candidate,
    Grid,
    default_maps,
    default_splits,
    default_tails,
    within_reach,
)
from ridgefill.tuning.confirm import confirm
from ridgefill.tuning.figure import draw_search
from ridgefill.tuning.fitted import MOMENTS, FittedHere, Source, read_maps
from ridgefill.tuning.identity import identity
from ridgefill.tuning.material import Material, stage_seed
from ridgefill.tuning.measuring import Bench, StageScorer, prepared
from ridgefill.tuning.report import Outcome, as_json
from ridgefill.tuning.samples import long_documents, retrieval_samples, token_pieces
from ridgefill.tuning.search import REACH, Plan, Row, search
from ridgefill.tuning.settings import NEW_TOKENS, Settings
from ridgefill.tuning.store import CANDIDATES, MAPS, OUTCOME, PARTS, claim_folder, write_rows

HELDOUT_TOKENS = 2048
"""Tokens that ``lam`` is chosen on."""


def tune(settings: Settings, material: Material, loaded: Loaded, folder: Path) -> Outcome:
    """Search, recommend, confirm; files go to ``folder``, where an interrupted search carries on.

    Raises ``ConfigError`` for settings that the model or the budget does not allow, ``TextError`` for texts that are
    too short, and what fitting and evaluation raise.
    """
    loaded = replace(loaded, adapter=loaded.adapter.filling("exact"))
    sizes = sizes_of(loaded.network.config.get_text_config())
    _require_context(settings, sizes)
    geometry = geometry_of(sizes, str(loaded.adapter.fingerprint["family"]))
    given = read_maps(settings.maps, loaded) if settings.maps else None
    grid = make_grid(settings, loaded, () if given is None else tuple(sorted(split for split, _ in given.maps)))
    share_of = partial(Candidate.share, geometry=geometry, tokens=settings.tokens)
    # Refused before anything is captured or written.
    within_reach(grid.coarse(), share_of, settings.budget, REACH)
    tail = grid.longest_tail()
    tokenizer = loaded.tokenizer
    development, confirmation = (
        _Items(
            retrieval_samples(tokenizer, stage, wanted, settings.tokens, tail),
            long_documents(tokenizer, stage, _documents(wanted), settings.document_tokens),
        )
        for stage, wanted in ((material.development, settings.samples), (material.confirmation, settings.confirm))
    )
    require_other_samples(development.samples, confirmation.samples)
    parts = Parts(folder / PARTS, claim_folder(folder, identity(settings, material, loaded)))
    source: Source = given or _fitting(settings, material, loaded, grid, parts)
    bench = Bench(loaded, geometry, settings.tokens, tail, partial(_item_seed, settings.seed))
    scorer = StageScorer("development", bench, Fitted(), {}, development.samples, development.documents, parts)
    found = search(
        partial(_prepare, scorer, source), grid, share_of, settings.budget,
        Plan(settings.samples, len(development.documents)),
    )  # fmt: skip
    held = replace(scorer, stage="confirmation", samples=confirmation.samples, documents=confirmation.documents)
    rows = held_out(_prepare(held, source, [found.chosen.candidate]), found.chosen.candidate)
    checked = confirm(rows, found.chosen.candidate.key, stage_seed(settings.seed, "resamples") % 2**32)
    lam = {key: source.lam(trial.candidate) for key, trial in found.trials.items()}
    outcome = Outcome(settings.model, settings.tokens, settings.budget, settings.seed, found, checked, lam, str(folder))
    _write(folder, outcome, [*found.rows, *rows], source, parts)
    return outcome


def make_grid(settings: Settings, loaded: Loaded, given: tuple[int, ...]) -> Grid:
    """What is combined; ``given``: splits of maps fitted before. Raises ``ConfigError`` for what cannot be."""
    adapter = loaded.adapter
    if given and settings.splits:
        raise ConfigError("--maps says at which splits to search, and --splits was given too; leave one of them out")
    splits = (
        given
        or settings.splits
        or default_splits(adapter.layers, adapter.first_split, adapter.attends, bool(adapter.windows))
    )
    for split in splits:
        adapter.require_split(split)
    tails = settings.tails or default_tails(settings.tokens)
    if max(tails) >= settings.tokens or min(tails) < 1:
        raise ConfigError(
            f"tails are {', '.join(map(str, tails))}; expected 1 to {settings.tokens - 1}, below --length"
        )
    ranking = selector_layers(adapter)
    maps = (PLAIN,) if given else default_maps(adapter.width, adapter.hidden)
    return Grid(
        tuple(sorted(set(splits))), tuple(sorted(set(tails))), ROW_SHARES, maps,
        lambda split: any(layer < split for layer in ranking),
    )  # fmt: skip


def require_other_samples(development: Sequence[Any], confirmation: Sequence[Any]) -> None:
    """Raise ``ConfigError`` when a prompt is in both; texts, keys and seeds are apart already (``Material``)."""
    shared = {one.question_prompt for one in development} & {one.question_prompt for one in confirmation}
    if shared:
        raise ConfigError(f"{len(shared)} prompts are in development and in confirmation; give another --seed")


def held_out(scorer: StageScorer, candidate: Candidate) -> list[Row]:
    """Rows of exact and of the one setting on every held-out sample and document."""
    rows: list[Row] = []
    with progress(len(scorer.samples) + len(scorer.documents), "held out", "items") as bar:
        for index in range(len(scorer.samples)):
            rows += scorer.retrieve(index, [candidate], True).values()
            bar.update(1)
        for index in range(len(scorer.documents)):
            rows += scorer.lose(index, [candidate]).values()
            bar.update(1)
    return rows


@dataclass(frozen=True)
class _Items:
    samples: Sequence[Any]
    documents: Sequence[Any]


def _prepare(scorer: StageScorer, source: Source, candidates: Sequence[Candidate]) -> StageScorer:
    fitted = source.fitted(candidates)
    return prepared(scorer, candidates, fitted, {one.key: source.lam(one) for one in candidates})


def _fitting(settings: Settings, material: Material, loaded: Loaded, grid: Grid, parts: Parts) -> FittedHere:
    tokenizer = loaded.tokenizer
    return FittedHere(
        loaded,
        grid.splits,
        token_pieces(tokenizer, material.calibration, settings.chunk, settings.fit_tokens),
        token_pieces(tokenizer, material.heldout, settings.chunk, HELDOUT_TOKENS),
        parts,
        {"model": Path(settings.model).name, "chunk": settings.chunk, "files": len(material.calibration)},
    )


def _documents(samples: int) -> int:
    """A document for every four samples, at least two: what a document's loss varies by is far less than a needle."""
    return max(2, samples // 4)


def _require_context(settings: Settings, sizes: ModelGeometry) -> None:
    needed = max(settings.tokens + NEW_TOKENS, settings.document_tokens)
    if needed > sizes.context:
        raise ConfigError(
            f"prompts of {settings.tokens} tokens and what follows them need {needed}, and the model was made for "
            f"{sizes.context}; give a --length of at most {sizes.context - needed + settings.tokens}"
        )


def _item_seed(seed: int, label: str) -> int:
    return stage_seed(seed, label)


def _write(folder: Path, outcome: Outcome, rows: Sequence[Mapping[str, Any]], source: Source, parts: Parts) -> None:
    """All files of a finished search; its moments go, which only an unfinished one needs."""
    chosen = outcome.found.chosen.candidate
    write_rows(folder / CANDIDATES, rows, {"model": outcome.model, "recommended": chosen.key})
    draw_search(folder, outcome.found, outcome.checked, outcome.budget)
    rmtree(folder / MAPS, ignore_errors=True)
    source.save(chosen, folder / MAPS)
    write_json(folder / OUTCOME, as_json(outcome))
    (parts.folder / MOMENTS).unlink(missing_ok=True)
