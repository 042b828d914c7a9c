"""A model whose layers lie on several devices, for models that are too large for one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from ridgefill.errors import ConfigError, ModelError
from ridgefill.models.base import Adapter, Rows
from ridgefill.models.cache import RowCache
from ridgefill.models.kva import KvaHeads
from ridgefill.models.recurrent import Recurrent


class SpreadAdapter(Adapter):
    """``inner`` with layer ``l`` on ``places[l]``; rows, states, predictions and logits are on ``inner.device``.

    Whatever a layer is given is brought to its device, and what it returns is brought back, so that all that is done
    between layers knows one device. What a layer writes to a cache stays with the layer. Each layer elsewhere moves its
    rows twice, ``[B, R, width]``: little beside its own products.
    """

    def __init__(self, inner: Adapter, places: Sequence[torch.device]) -> None:
        if not inner.spreads:
            raise ModelError(
                f"the layers of a {inner.fingerprint['family']} model write each other's keys and values, so they have "
                f"to be on one device; found {', '.join(sorted({str(place) for place in places}))}"
            )
        self.inner, self.places = inner, tuple(places)
        for name in ("layers", "width", "hidden", "kinds", "windows", "first_split", "split_reason", "position_axes"):
            setattr(self, name, getattr(inner, name))
        self.groups, self.device, self.dtype = inner.groups, inner.device, inner.dtype
        self.fingerprint = inner.fingerprint
        self.model = getattr(inner, "model", None)

    @property
    def devices(self) -> tuple[torch.device, ...]:
        """See ``Adapter.devices``."""
        return tuple(dict.fromkeys((self.device, *self.places)))

    def embed(self, ids: Tensor) -> Tensor:
        """See ``Adapter.embed``."""
        return self._home(self.inner.embed(ids))

    def rotary(self, positions: Tensor) -> Mapping[str, tuple[Tensor, Tensor]]:
        """See ``Adapter.rotary``."""
        return self._home(self.inner.rotary(positions))

    def rows(self, positions: Tensor, *, start: int = 0, attend: bool = True, ids: Tensor | None = None) -> Rows:
        """See ``Adapter.rows``."""
        return self._home(self.inner.rows(positions, start=start, attend=attend, ids=ids))

    def logits(self, x: Tensor) -> Tensor:
        """See ``Adapter.logits``."""
        return self._home(self.inner.logits(x))

    def run_layer(self, layer: int, x: Tensor, rows: Rows, cache: RowCache) -> Tensor:
        """See ``Adapter.run_layer``."""
        return self._at(layer, self.inner.run_layer, x, rows, cache)

    def run_late(
        self,
        layer: int,
        x: Tensor,
        exact: Sequence[Rows],
        predicted: Tensor | None,
        filled: Rows | None,
        cache: RowCache,
    ) -> Tensor:
        """See ``Adapter.run_late``."""
        return self._at(layer, self.inner.run_late, x, exact, predicted, filled, cache)

    def write_filled(self, layer: int, block_input: Tensor, rows: Rows, cache: RowCache) -> None:
        """See ``Adapter.write_filled``."""
        self._at(layer, self.inner.write_filled, block_input, rows, cache)

    def writes(self, layer: int, block_input: Tensor) -> dict[str, Tensor]:
        """See ``Adapter.writes``."""
        return self._at(layer, self.inner.writes, block_input)

    def block_input(self, layer: int, x: Tensor) -> Tensor:
        """See ``Adapter.block_input``."""
        return self._at(layer, self.inner.block_input, x)

    def attention_received(self, layer: int, x: Tensor, rows: Rows, cache: RowCache) -> Tensor:
        """See ``Adapter.attention_received``."""
        return self._at(layer, self.inner.attention_received, x, rows, cache)

    def run_noting(
        self, layer: int, x: Tensor, exact: Sequence[Rows], predicted: Tensor, filled: Rows, cache: RowCache
    ) -> tuple[Tensor, Tensor]:
        """See ``HybridAdapter.run_noting``."""
        return self._at(layer, cast(Recurrent, self.inner).run_noting, x, exact, predicted, filled, cache)

    def advance(self, layer: int, block_input: Tensor, rows: Rows, cache: RowCache) -> None:
        """See ``HybridAdapter.advance``."""
        self._at(layer, cast(Recurrent, self.inner).advance, block_input, rows, cache)

    def filling(self, fill: str, exact_rows: str = "original", heads: KvaHeads | None = None) -> Adapter:
        """See ``Adapter.filling``. Trained heads are refused: one layer would write what others elsewhere read."""
        if fill == "kva":
            raise ConfigError(
                "KVA heads were asked for, and this model's layers are on several devices "
                f"({', '.join(map(str, self.devices))}); load it on one"
            )
        self.inner.filling(fill, exact_rows, heads)
        return self

    def _at(self, layer: int, method: Callable[..., Any], *given: Any) -> Any:
        return self._home(method(layer, *_moved(given, self.places[layer])))

    def _home(self, made: Any) -> Any:
        return _moved(made, self.device)


def _moved(value: Any, device: torch.device) -> Any:
    """Tensors and rows within a value, on ``device``; caches and all else as they are."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, Rows):
        return value.on(device)
    if isinstance(value, tuple | list):
        return type(value)(_moved(one, device) for one in value)
    if isinstance(value, dict):
        return {key: _moved(one, device) for key, one in value.items()}
    return value


def layer_devices(model: Any) -> tuple[torch.device, ...]:
    """Where each layer of a stock causal model is. ``ModelError`` for a layer in two places."""
    places = []
    for number, layer in enumerate(model.get_decoder().layers):
        found = sorted({str(parameter.device) for parameter in layer.parameters()})
        if len(found) != 1:
            raise ModelError(
                f"the weights of layer {number} are on {', '.join(found)}; expected each layer on one device"
            )
        places.append(torch.device(found[0]))
    return tuple(places)


def spread_over(model: Any, devices: Sequence[str]) -> dict[str, str]:
    """A ``device_map`` for accelerate: layers in as many runs of about equal length, all else on the first device."""
    layers = model.get_decoder().layers
    above = next(name for name, module in model.named_modules() if module is layers)
    held = dict(model.named_parameters()) | dict(model.named_buffers())
    places = {name.rpartition(".")[0]: devices[0] for name in held if not name.startswith(f"{above}.")}
    runs = {f"{above}.{number}": devices[number * len(devices) // len(layers)] for number in range(len(layers))}
    return places | runs
