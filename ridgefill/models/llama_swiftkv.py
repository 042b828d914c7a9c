"""SwiftKV checkpoints: in late layers every row's keys and values are projected from the split state.

**Filled rows** (both of the paper's arms, Table 6): ``norm_swiftkv`` of the split state, the late layer's
``k_proj_swiftkv`` and ``v_proj_swiftkv``, rotary at the row's own position. What the layers predict is therefore always
the split state itself, and the identity fill on this adapter **is** SwiftKV's fill: ``swiftkv_released`` is an
identity-filled arm with a tail of 1, ``swiftkv_tail`` one with a tail of 4,096. Ridge maps have nothing to predict
here; fit them on the original model. Only the checkpoint's own split can be filled. Arms ask for the fill by its own
name, ``swiftkv`` (``filling``); ``identity`` and ``ridge`` are refused, as either would be reported as what it is not.

**Exact rows** differ between the two arms, hence ``exact_rows``:

* ``swiftkv`` (``swiftkv_released``): the model's own rule, as above for the keys and values of every row, with
  ``q_proj_swiftkv`` for the queries. Which rows are filled then changes nothing: the fill is the model.
* ``original`` (``swiftkv_tail``): the original Llama layer in full, from the true layer input, with its own query, key
  and value projections, which checkpoints keep beside the trained ones. The paper says that an exact row "runs every
  layer normally, like the tail" (section 2.4) and that SwiftKV's projections take the place of the ridge map inside
  RidgeFill's pipeline (section 1). Its numbers say the same: the longer tail takes key-token loss from 0.568 to 0.115
  nats (Table 19), while under the model's own rule the length of the tail cannot matter. An exact pass is then the
  original model's, the one both arms are compared with.
"""

from __future__ import annotations

import copy
from typing import Any, Literal

from torch import Tensor

from ridgefill.errors import ConfigError, ModelError
from ridgefill.models.base import Adapter, Rows
from ridgefill.models.cache import RowCache
from ridgefill.models.kva import KvaHeads
from ridgefill.models.llama import LlamaAdapter

REFUSED = {
    "identity": "on a SwiftKV checkpoint the identity fill is SwiftKV's own and would be reported as POP; ask for the "
    "swiftkv arms, or load the original model",
    "ridge": "a SwiftKV checkpoint's filled rows are projected from the split state itself, so maps have nothing to "
    "predict; load the original model, or ask for the swiftkv arms",
    "kva": "KVA heads were trained for the original model's layers, and this is a SwiftKV checkpoint; load the "
    "original model",
}
"""Fills that this adapter refuses, and why."""


class LlamaSwiftKVAdapter(LlamaAdapter):
    """Wraps a ``LlamaSwiftKVForCausalLM``. exact_rows: what exact rows compute in late layers, see the module."""

    spreads = False
    family = "llama_swiftkv"

    def __init__(self, model: Any, exact_rows: Literal["swiftkv", "original"] = "swiftkv") -> None:
        super().__init__(model)
        self.split = int(self.decoder.split)
        self._follow(exact_rows)
        self.fingerprint = {
            **self.fingerprint,
            "num_key_value_layers": self.split,
            "key_value_group_size": int(model.config.key_value_group_size),
        }

    def _follow(self, exact_rows: str) -> None:
        if exact_rows == "original" and self.decoder.layers[self.split].self_attn.q_proj is None:
            raise ModelError(
                "the checkpoint keeps only SwiftKV's own projections in its late layers; exact rows need the original "
                "q_proj, k_proj and v_proj there too: use the released checkpoint"
            )
        self.exact_rows = exact_rows

    @property
    def predicts_inputs(self) -> bool:
        """See ``Adapter.predicts_inputs``: filled rows are projected from the split state."""
        return False

    def filling(self, fill: str, exact_rows: str = "original", heads: KvaHeads | None = None) -> Adapter:
        """See ``Adapter.filling``. The exact arm is the original model, which the swiftkv arms are compared with.

        Raises ``ModelError`` for original exact rows on a checkpoint that does not keep the original projections.
        """
        if fill in REFUSED:
            raise ConfigError(f"a fill of {fill!r} was asked for: {REFUSED[fill]}")
        allowed = {"swiftkv": ("swiftkv", "original"), "exact": ("original",), "none": ("original",)}.get(fill, ())
        if exact_rows not in allowed:
            raise ConfigError(
                f"a fill of {fill!r} with {exact_rows!r} exact rows was asked for; expected swiftkv with swiftkv or "
                "original exact rows, or exact or none, whose exact rows are the original model's"
            )
        if exact_rows == self.exact_rows:
            return self
        twin = copy.copy(self)
        twin._follow(exact_rows)
        return twin

    def require_split(self, split: int) -> None:
        """See ``Adapter.require_split``: the projections were trained to read one layer's input."""
        if split != self.split:
            raise ConfigError(f"split {split} was asked for; this SwiftKV checkpoint can only be split at {self.split}")

    def run_layer(self, layer: int, x: Tensor, rows: Rows, cache: RowCache) -> Tensor:
        """See ``Adapter.run_layer``.

        Under SwiftKV's rule the first late layer writes the rows of all late layers, as it alone meets the split
        state; the others only read.
        """
        if layer < self.split or self.exact_rows == "original":
            return super().run_layer(layer, x, rows, cache)
        if layer == self.split:
            for late in range(layer, self.layers):
                self.write_filled(late, x, rows, cache)
        kind = self.kinds[layer]
        out: Tensor = self.decoder.layers[layer](
            x,
            attention_mask=rows.mask[kind],
            position_embeddings=rows.rotary[kind],
            shared={layer: cache.visible(layer, rows.begin[kind], rows.stop)},
        )
        return out

    def writes(self, layer: int, block_input: Tensor) -> dict[str, Tensor]:
        """See ``Adapter.writes``; in late layers ``block_input`` is the split state."""
        if layer < self.split:
            return super().writes(layer, block_input)
        key, value = self.decoder.shared_writes(layer, block_input)
        return {"key": key, "value": value}

    def query(self, layer: int, x: Tensor) -> Tensor:
        """See ``AttentionAdapter.query``."""
        if layer < self.split or self.exact_rows == "original":
            return super().query(layer, x)
        return self._heads(self.decoder.layers[layer].self_attn.q_proj_swiftkv(self.normed(layer, x)))
