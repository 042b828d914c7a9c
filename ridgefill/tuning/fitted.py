"""Maps for candidates: one capture for all splits, ``lam`` by what the layers write, solved when they are needed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from ridgefill.capture import capture
from ridgefill.errors import ConfigError, NumericsError
from ridgefill.evaluation.parts import Parts
from ridgefill.evaluation.runs import Fitted
from ridgefill.fill import Predict
from ridgefill.fitting import LAM_GRID
from ridgefill.lam import choose_lam, lam_curve, mean_write_cosine
from ridgefill.map_options import PLAIN, RidgeOptions
from ridgefill.models.load import Loaded
from ridgefill.moments import Moments, load_moments, save_moments
from ridgefill.pretrained import RidgeFillMaps
from ridgefill.progress import progress
from ridgefill.ridge import Factorised, factorise
from ridgefill.ridge_options import Maps, solve_with
from ridgefill.tuning.candidates import Candidate

LAM_BYTES = 2 * 2**30
"""Memory for the maps that are compared in one pass over held-out text."""
MOMENTS = "moments.safetensors"
Key = tuple[int, RidgeOptions]


class Source(Protocol):
    """Where a search gets its maps from."""

    def fitted(self, candidates: Sequence[Candidate]) -> Fitted:
        """Predictions for all of these."""

    def lam(self, candidate: Candidate) -> float | None:
        """The penalty of its maps, None when nobody recorded it."""

    def save(self, candidate: Candidate, folder: Path) -> None:
        """Write its maps as ``ridgefill generate`` reads them."""


@dataclass(frozen=True)
class FittedHere:
    """Maps fitted from pieces of token ids. parts: of an interrupted search; moments lie beside them until it is over.
    described: what goes into the files of maps."""

    loaded: Loaded
    splits: tuple[int, ...]
    pieces: Sequence[list[int]]
    heldout: Sequence[list[int]]
    parts: Parts
    described: Mapping[str, Any]

    @cached_property
    def moments(self) -> Moments:
        """Of all splits, from one pass; read back where an interrupted search has left them."""
        path = self.parts.folder / MOMENTS
        rows = sum(map(len, self.pieces))
        if rows <= self.loaded.adapter.width:
            raise NumericsError(
                f"the calibration texts give {rows} rows for maps of width {self.loaded.adapter.width}; a unique fit "
                "needs more rows than columns. Give more text, ten times the width or more"
            )
        if path.is_file() and self.parts.get("capture") is not None:
            return load_moments(path)
        with progress(rows, "capture", "tokens") as bar:
            made = capture(self.loaded.adapter, self.pieces, self.splits, progress=bar.update)
        save_moments(path, made, {})
        self.parts.put("capture", {"rows": made.rows})
        return made

    @cached_property
    def factors(self) -> dict[int, Factorised]:
        """By split."""
        return {split: factorise(self.moments, split) for split in self.splits}

    def fitted(self, candidates: Sequence[Candidate]) -> Fitted:
        """See ``Source``."""
        wanted = tuple(dict.fromkeys((one.split, one.maps) for one in candidates))
        for options in dict.fromkeys(options for _, options in wanted):
            self._choose([split for split, one in wanted if one == options], options)
        adapter = self.loaded.adapter
        return Fitted({key: self._solved(key).to(adapter.dtype, adapter.device).predict for key in wanted})

    def lam(self, candidate: Candidate) -> float:
        """See ``Source``."""
        return float(self._chosen((candidate.split, candidate.maps))["lam"])

    def save(self, candidate: Candidate, folder: Path) -> None:
        """See ``Source``. Thin maps are written whole, as their files have it."""
        key = (candidate.split, candidate.maps)
        chosen = self._chosen(key)
        fit = {**self.described, **self.factors[candidate.split].record(float(chosen["lam"]))}
        fit |= {"towards": candidate.maps.towards, "rank": candidate.maps.rank, "write_cosine": chosen["write_cosine"]}
        # `RidgeFillMaps` asks of maps only what both kinds have.
        maps: Any = self._solved(key)
        RidgeFillMaps(maps, self.loaded.architecture, fit).save_pretrained(folder, encoding="bf16")

    def _solved(self, key: Key) -> Maps:
        split, options = key
        return solve_with(self.factors[split], float(self._chosen(key)["lam"]), options)

    def _chosen(self, key: Key) -> dict[str, Any]:
        found = self.parts.get(_lam_part(key))
        if found is None:
            raise ConfigError(f"maps of split {key[0]}{key[1].suffix} were asked for before their lam was chosen")
        return found

    def _choose(self, splits: Sequence[int], options: RidgeOptions) -> None:
        """Choose ``lam`` of every split that has none yet."""
        missing = [split for split in splits if self.parts.get(_lam_part((split, options))) is None]
        groups = self._groups(missing)
        total = len(groups) * sum(map(len, self.heldout))
        with progress(total, "lam", "tokens", delay=2.0) as bar:
            for group in groups:

                def fed() -> Any:
                    for piece in self.heldout:
                        yield piece
                        bar.update(len(piece))

                factors = {split: self.factors[split] for split in group}
                curve = lam_curve(self.loaded.adapter, factors, LAM_GRID, fed(), options)
                for split in group:
                    lam = choose_lam(curve, split, LAM_GRID)
                    cosine = mean_write_cosine(curve, split, lam)
                    self.parts.put(_lam_part((split, options)), {"lam": lam, "write_cosine": cosine})

    def _groups(self, splits: Sequence[int]) -> list[list[int]]:
        """Splits whose maps for all penalties fit in memory together, at least one each."""
        adapter = self.loaded.adapter
        one = 4 * len(LAM_GRID) * adapter.width * adapter.hidden
        groups: list[list[int]] = []
        room = 0
        for split in splits:
            size = one * (adapter.layers - split)
            if not groups or size > room:
                groups.append([])
                room = LAM_BYTES
            groups[-1].append(split)
            room -= size
        return groups


@dataclass(frozen=True)
class Given:
    """Maps that were fitted before, by split and kind, and the folders they were read from."""

    maps: Mapping[Key, RidgeFillMaps]
    loaded: Loaded

    def fitted(self, candidates: Sequence[Candidate]) -> Fitted:
        """See ``Source``."""
        adapter = self.loaded.adapter
        wanted: Collection[Key] = {(one.split, one.maps): None for one in candidates}.keys()
        predictions: dict[Any, Predict] = {
            key: self.maps[key].maps.to(adapter.dtype, adapter.device).predict for key in wanted
        }
        return Fitted(predictions)

    def lam(self, candidate: Candidate) -> float | None:
        """See ``Source``."""
        found = self.maps[candidate.split, candidate.maps].fit.get("lam")
        return None if found is None else float(found)

    def save(self, candidate: Candidate, folder: Path) -> None:
        """See ``Source``."""
        self.maps[candidate.split, candidate.maps].save_pretrained(folder)


def read_maps(folders: Sequence[str], loaded: Loaded) -> Given:
    """Maps of these folders, checked against the model. Raises ``ConfigError`` when two of them are of one split."""
    found: dict[Key, RidgeFillMaps] = {}
    origin: dict[int, str] = {}
    for folder in folders:
        maps = RidgeFillMaps.from_pretrained(folder)
        maps.check(loaded.adapter, tokenizer_sha256=loaded.tokenizer_sha256)
        if maps.split in origin:
            raise ConfigError(
                f"the maps in {origin[maps.split]} and {folder} are both of split {maps.split}; give one of them"
            )
        origin[maps.split] = folder
        found[maps.split, PLAIN] = maps
    return Given(found, loaded)


def _lam_part(key: Key) -> str:
    return f"lam-split{key[0]}{key[1].suffix}"
