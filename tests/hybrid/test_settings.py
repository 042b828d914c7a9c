"""Settings of checkpoints: what is in the repository is valid, and what is wrong is refused in a sentence."""

import runpy
from pathlib import Path

import pytest

from ridgefill.errors import ConfigError
from ridgefill.hybrid.network import untrained
from ridgefill.hybrid.settings import FOLDER, hybrid_from, known_hybrids, load_hybrid

ROOT = Path(__file__).parents[2]
TOY = runpy.run_path(str(Path(__file__).with_name("toy.py")))["toy"]()


@pytest.mark.parametrize("name", known_hybrids(ROOT))
def test_every_configured_checkpoint_is_small_and_forced_through_its_late_half(name):
    """One to three million weights; what forcing leaves is in the second half of the layers."""
    hybrid = load_hybrid(name, ROOT)
    weights = sum(weight.numel() for weight in untrained(hybrid).parameters())
    assert 1e6 < weights < 3e6
    left = {*hybrid.network.attention, *hybrid.network.states} - {*hybrid.forcing.attention, *hybrid.forcing.states}
    assert left
    assert min(left) >= hybrid.network.split


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"forcing": {"attention": [2], "states": []}}, "forcing.attention"),
        ({"forcing": {"attention": [], "states": [3]}}, "forcing.states"),
        ({"stages": [{"steps": 1, "lengths": [512], "tokens": 64, "keys": [1, 2], "forced": 1}]}, "network.context"),
        ({"stages": []}, "stages"),
        ({"seed": -1}, "seed"),
        ({"more": 1}, "more"),
    ],
)
def test_wrong_settings_are_refused(change, message):
    """Layers of the wrong kind, lengths above the context, unknown keys."""
    with pytest.raises(ConfigError, match=message):
        hybrid_from({**TOY.model_dump(mode="json"), **change}, "toy")


def test_files_that_cannot_be_are_refused(tmp_path):
    """An unknown name, another name inside, and no YAML."""
    folder = tmp_path / FOLDER
    folder.mkdir(parents=True)
    with pytest.raises(ConfigError, match="unknown hybrid"):
        load_hybrid("one", tmp_path)
    (folder / "one.yaml").write_text("a: [")
    with pytest.raises(ConfigError, match="not readable"):
        load_hybrid("one", tmp_path)
    (folder / "one.yaml").write_text(TOY.model_dump_json())
    with pytest.raises(ConfigError, match="expected 'one'"):
        load_hybrid("one", tmp_path)
