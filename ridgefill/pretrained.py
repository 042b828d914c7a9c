"""Maps as people use them: loaded by path or repository, checked against a model, filling its prompts, saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ridgefill.errors import MapError
from ridgefill.mapfiles.folder import Carried, read_folder
from ridgefill.mapfiles.hub import locate
from ridgefill.mapfiles.int8 import Int8Weights
from ridgefill.mapfiles.manifest import Manifest
from ridgefill.mapfiles.match import require_match
from ridgefill.mapfiles.names import Encoding
from ridgefill.mapfiles.research import read_research
from ridgefill.maps import RidgeMaps, save_maps
from ridgefill.modelcard import model_card
from ridgefill.models.base import Adapter
from ridgefill.models.wrap import adapter_for

if TYPE_CHECKING:
    from transformers import Cache

    from ridgefill.generation.prefill import Prefilled

ENCODINGS = ("bf16", "int8")


@dataclass(frozen=True)
class RidgeFillMaps:
    """Maps with the model they fit and how they were fitted.

    maps: one map per late layer. architecture: the model's fingerprint (``Adapter.fingerprint``, and where known
    ``tokenizer_sha256``, ``model`` and ``encoding`` of its weights). fit: how they were fitted, as JSON.
    carried: what else their files held, saved again with them.
    """

    maps: RidgeMaps
    architecture: Mapping[str, Any]
    fit: Mapping[str, Any]
    carried: Carried = field(default_factory=Carried)

    @property
    def split(self) -> int:
        """First late layer, counted from 0."""
        return self.maps.split

    @property
    def encoding(self) -> Encoding:
        """How the weights are held now: ``int8`` when they were loaded so, else ``bf16`` (what they are saved as)."""
        return "int8" if isinstance(self.maps.weights, Int8Weights) else "bf16"

    @classmethod
    def from_pretrained(
        cls, path_or_repo: str | Path, *, revision: str | None = None, local_files_only: bool = False
    ) -> RidgeFillMaps:
        """Load maps from a folder, one research-format safetensors file, or a hub repository; every file checked.

        A local path never asks the hub. ``HF_HOME`` and ``HF_HUB_OFFLINE`` are honoured. int8 maps stay int8 in
        memory. Raises ``MapError`` for maps that are missing, damaged or of another format.
        """
        path = locate(path_or_repo, revision=revision, local_files_only=local_files_only)
        if path.is_file():
            found = read_research(path)
            return cls(RidgeMaps(found.split, found.weights, found.biases), found.architecture, {})
        stored = read_folder(path)
        maps = RidgeMaps(stored.manifest.split, stored.weights, stored.biases)
        return cls(maps, stored.manifest.architecture, stored.manifest.fit, stored.carried)

    def save_pretrained(self, folder: str | Path, *, encoding: Encoding | None = None) -> dict[str, str]:
        """Write the maps, their manifest, checksums and a model card; return the SHA-256 of every file by name.

        encoding: ``bf16`` or ``int8``; None keeps ``self.encoding``. The folder must not exist yet and appears
        complete or not at all. Raises ``MapError`` for another encoding, a missing layer, or a width that int8 cannot
        have (not a multiple of 128).
        """
        chosen = self.encoding if encoding is None else encoding
        if chosen not in ENCODINGS:
            raise MapError(f"maps cannot be saved as {encoding!r}; expected one of {', '.join(ENCODINGS)}")
        self._require_whole()
        return save_maps(
            Path(folder).expanduser(),
            self.maps,
            architecture=self.architecture,
            fit=self.fit,
            encoding=chosen,
            carried=self.carried,
            readme=model_card(self._manifest(), chosen),
        )

    def check(self, model: Any, *, tokenizer_sha256: str | None = None) -> None:
        """Refuse a model (or its ``Adapter``) that the maps do not fit: ``MapError`` names both sides.

        tokenizer_sha256: of the tokenizer.json in use, to be refused too where the maps know another. Another name of
        the model or encoding of its weights only warns. A model is frozen and put in evaluation mode.
        """
        adapter = model if isinstance(model, Adapter) else adapter_for(model)
        stored = dict(self.architecture)
        if "model" in self.fit:
            stored.setdefault("model", self.fit["model"])
        running = {**adapter.fingerprint, **_weights_of(adapter)}
        if tokenizer_sha256 is not None:
            running["tokenizer_sha256"] = tokenizer_sha256
        require_match(stored, running)
        self._require_whole()
        weight = next(iter(self.maps.weights.values()))
        if tuple(weight.shape) != (adapter.hidden, adapter.width):
            raise MapError(
                f"the maps have shape {list(weight.shape)}, but the model needs [{adapter.hidden}, {adapter.width}]; "
                "use maps fitted for this model"
            )

    def fill(
        self,
        model: Any,
        *,
        tail: int = 4096,
        rows: str | Sequence[int] | None = None,
        fill: bool = True,
        split_layer: str = "exact",
        min_filled: int = 1,
    ) -> AbstractContextManager[list[Prefilled]]:
        """Within the block, ``model`` (and its ``generate``) prefills prompts from the maps; see ``filling``."""
        from ridgefill.generation.context import filling

        return filling(self, model, tail=tail, rows=rows, fill=fill, split_layer=split_layer, min_filled=min_filled)

    def prefill(
        self,
        model: Any,
        input_ids: Tensor,
        *,
        tail: int = 4096,
        rows: str | Sequence[int] | None = None,
        attention_mask: Tensor | None = None,
        fill: bool = True,
        split_layer: str = "exact",
        min_filled: int = 1,
        cache: Cache | None = None,
    ) -> Prefilled:
        """Prefill ``input_ids`` (int64 ``[B, N]``) and return a cache that the stock model continues; see ``prefill``
        of ``ridgefill.generation.prefill``.
        """
        from ridgefill.generation.prefill import prefill

        return prefill(
            self,
            model,
            input_ids,
            tail=tail,
            rows=rows,
            attention_mask=attention_mask,
            fill=fill,
            split_layer=split_layer,
            min_filled=min_filled,
            cache=cache,
        )

    def _manifest(self) -> Manifest:
        return Manifest(self.split, self.architecture, self.fit, {}, self.carried.extra)

    def _require_whole(self) -> None:
        """One map for every late layer, the split layer's included, as every reader expects."""
        late = set(range(self.split, int(self.architecture["layers"])))
        if odd := sorted(late ^ set(self.maps.weights)):
            layers = ", ".join(map(str, odd))
            raise MapError(f"missing or extra maps for layers {layers}; expected one per layer from {self.split}")


def _weights_of(adapter: Adapter) -> dict[str, str]:
    """Name of the adapter's model and how its weights are encoded, as far as its configuration tells."""
    config = getattr(getattr(adapter, "model", None), "config", None)
    name = str(getattr(config, "_name_or_path", "") or "")
    quantised = getattr(config, "quantization_config", None)
    method = (
        quantised.get("quant_method") if isinstance(quantised, Mapping) else getattr(quantised, "quant_method", None)
    )
    encoding = str(method or adapter.dtype).removeprefix("torch.")
    return {"encoding": encoding, **({"model": name} if name else {})}
