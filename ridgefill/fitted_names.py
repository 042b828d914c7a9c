"""What has to be fitted or counted for an experiment's arms before they run, and what its files are called."""

from __future__ import annotations

from collections.abc import Collection

from ridgefill.arms import Arm
from ridgefill.map_options import PLAIN, RidgeOptions

FREQUENCIES = "capture/frequencies.safetensors"
"""Token frequencies of the calibration documents, below a results folder."""


def needed_maps(arms: Collection[Arm], splits: Collection[int]) -> tuple[tuple[int, RidgeOptions], ...]:
    """Split and options of all maps: the paper's at every split, then those of single arms."""
    wanted = dict.fromkeys((split, PLAIN) for split in sorted(splits))
    wanted |= dict.fromkeys((arm.split, arm.maps) for arm in arms if arm.fill == "ridge" and arm.split is not None)
    return tuple(wanted)


def fit_lengths(arms: Collection[Arm], splits: Collection[int]) -> tuple[int, ...]:
    """Numbers of calibration tokens, fewer than all, that maps of single arms are fitted on."""
    return tuple(sorted({options.tokens for _, options in needed_maps(arms, splits) if options.tokens is not None}))


def maps_name(split: int, options: RidgeOptions) -> str:
    """Folder of one set of maps: ``split19``, ``split19-identity-rank64``."""
    return f"split{split}{options.suffix}"


def correction_name(arm: Arm) -> str:
    """File stem of an arm's state correction: its maps, and what else was filled than the paper's fill.

    ``split19-identity`` is of maps towards the identity, ``split19-identity-fill`` of the identity itself.
    """
    name = f"split{arm.split}{arm.maps.suffix}"
    return (
        name + ("" if arm.fill == "ridge" else f"-{arm.fill}-fill") + ("-mapped" if arm.split_layer == "mapped" else "")
    )


def needed_corrections(arms: Collection[Arm]) -> dict[str, Arm]:
    """By ``correction_name``, an arm of each state correction that is to be fitted."""
    return {correction_name(arm): arm for arm in arms if arm.state_correction}


def needs_frequencies(arms: Collection[Arm]) -> bool:
    """Whether some arm's selector ranks tokens by how rare they are."""
    return any("frequencies" in arm.needs for arm in arms)
