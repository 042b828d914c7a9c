"""Arms that a model cannot have, refused while an experiment is read rather than after its maps were fitted."""

from __future__ import annotations

from collections.abc import Sequence

from ridgefill.arms import Arm
from ridgefill.cost import Geometry, ranking_layers
from ridgefill.errors import ConfigError, RidgeFillError
from ridgefill.settings import ModelConfig


def check_arms(arms: Sequence[Arm], model: ModelConfig, geometry: Geometry, where: str) -> None:
    """Raise ``ConfigError``, naming the arm and ``where`` it was asked for, for one that makes no sense here."""
    for arm in arms:
        try:
            _check(arm, model, geometry)
        except RidgeFillError as error:
            raise ConfigError(f"{where}: arm {arm.key}: {error}") from None


def _check(arm: Arm, model: ModelConfig, geometry: Geometry) -> None:
    if arm.split is None:
        return
    if not 1 <= arm.split < geometry.layers:
        raise ConfigError(f"split {arm.split} is outside {model.name}, expected 1 to {geometry.layers - 1}")
    if (arm.fill == "swiftkv") != (model.family == "llama_swiftkv") and arm.fill != "none":
        raise ConfigError(
            f"a {arm.fill} fill on a {model.family} model; SwiftKV's projections fill a llama_swiftkv checkpoint and "
            "nothing else does, so expected the other kind of arm or of model"
        )
    recurrent = [layer for layer in range(arm.split, geometry.layers) if geometry.layer(layer).scan is not None]
    attention = geometry.layers - arm.split - len(recurrent)
    if arm.state_correction and not [layer for layer in recurrent if layer > arm.split or arm.split_layer == "mapped"]:
        raise ConfigError("no late layer whose recurrent state is predicted, so there is none to correct; leave it out")
    if "states" in arm.splice and not recurrent:
        raise ConfigError("no recurrent layer from its split on, so no state to splice; expected keys, values or both")
    if (arm.rescale or {"keys", "values"} & set(arm.splice)) and not attention:
        raise ConfigError("no attention layer from its split on, so no keys or values; take a lower split")
    if "lower" in arm.needs and not ranking_layers(geometry, arm.split):
        known = ", ".join(map(str, ranking_layers(geometry, geometry.layers)))
        raise ConfigError(
            f"rows ranked by attention, and no layer below the split ranks them; expected a split above one of the "
            f"layers {known or 'that see all rows, of which there are none'}, or other rows"
        )
    if arm.maps.rank is not None and arm.maps.rank > geometry.hidden:
        raise ConfigError(f"maps of rank {arm.maps.rank} in a model {geometry.hidden} wide; expected less")
