"""Maps as a product: from a path or the hub's cache, checked against a model, saved with a card."""

import json
import os
import shutil
import subprocess
import sys
import warnings
from dataclasses import replace

import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import save_file

import ridgefill
from ridgefill.errors import MapError, ModelError, ResultsError
from ridgefill.mapfiles.int8 import dequantise, quantise
from ridgefill.maps import RidgeMaps
from ridgefill.models.llama import LlamaAdapter
from ridgefill.pretrained import RidgeFillMaps

SPLIT, LAYERS = 3, 6
FIT = {"lam": 0.03, "rows": 1234, "sources": ["one", "two"], "model": "owner/tiny-model", "lam_by_layer": {"4": 0.1}}


@pytest.fixture
def maps(random_maps, adapter):
    """Maps of the tiny model."""
    return RidgeFillMaps(random_maps(SPLIT), adapter.fingerprint, FIT)


def wide(split=SPLIT):
    """Maps of a width that int8 can have."""
    generator = torch.Generator().manual_seed(1)
    late = range(split, LAYERS)
    weights = {layer: torch.randn(128, 128, generator=generator) for layer in late}
    plain = RidgeMaps(split, weights, {layer: torch.zeros(128) for layer in late})
    return RidgeFillMaps(plain, {"family": "llama", "layers": LAYERS, "hidden": 128}, FIT)


def same_files(one, other):
    names = sorted(path.name for path in one.iterdir())
    return names == sorted(path.name for path in other.iterdir()) and all(
        (one / name).read_bytes() == (other / name).read_bytes() for name in names
    )


def test_what_is_saved_is_what_is_loaded(maps, tmp_path):
    """bf16 values, architecture and fit; saving again gives every byte again, the card too."""
    sums = maps.save_pretrained(tmp_path / "maps")
    loaded = RidgeFillMaps.from_pretrained(tmp_path / "maps")
    assert (loaded.split, loaded.encoding) == (SPLIT, "bf16")
    assert (dict(loaded.architecture), dict(loaded.fit)) == (dict(maps.architecture), FIT)
    for layer in range(SPLIT, LAYERS):
        assert torch.equal(loaded.maps.weights[layer], maps.maps.weights[layer].bfloat16())
    loaded.save_pretrained(str(tmp_path / "again"))
    assert same_files(tmp_path / "maps", tmp_path / "again")
    assert sorted([*sums, "README.md"]) == sorted(path.name for path in (tmp_path / "maps").iterdir())


def test_int8_maps_stay_int8_until_asked_otherwise(tmp_path):
    """Saved as int8, loaded as int8, saved again to the same bytes; as bf16 they are the rounded values."""
    wide().save_pretrained(tmp_path / "int8", encoding="int8")
    loaded = RidgeFillMaps.from_pretrained(tmp_path / "int8")
    assert loaded.encoding == "int8"
    loaded.save_pretrained(tmp_path / "again")
    assert same_files(tmp_path / "int8", tmp_path / "again")
    loaded.save_pretrained(tmp_path / "bf16", encoding="bf16")
    back = RidgeFillMaps.from_pretrained(tmp_path / "bf16").maps
    values = dequantise(*quantise(wide().maps.weights[4]))
    assert torch.equal(back.weights[4], values.bfloat16())


@pytest.mark.parametrize("encoding", ["fp8", "", "BF16"])
def test_another_encoding_is_refused(maps, tmp_path, encoding):
    """The two there are stand in the message."""
    with pytest.raises(MapError, match="expected one of bf16, int8"):
        maps.save_pretrained(tmp_path / "maps", encoding=encoding)


def test_a_width_that_int8_cannot_have_leaves_nothing_behind(maps, tmp_path):
    """Refused while the first layer is written; no folder, no temporary one."""
    with pytest.raises(MapError, match="these have 32, which is not a multiple of 128"):
        maps.save_pretrained(tmp_path / "maps", encoding="int8")
    assert not list(tmp_path.iterdir())


def test_maps_without_a_late_layer_are_not_saved(maps, tmp_path):
    """Nobody could load them."""
    weights = {layer: weight for layer, weight in maps.maps.weights.items() if layer != 4}
    with pytest.raises(MapError, match="missing or extra maps for layers 4;"):
        replace(maps, maps=replace(maps.maps, weights=weights)).save_pretrained(tmp_path / "maps")


def test_a_folder_with_something_in_it_is_not_overwritten(maps, tmp_path):
    """One sentence, and the file stays; an empty folder is fine."""
    (tmp_path / "maps").mkdir()
    maps.save_pretrained(tmp_path / "maps")
    before = {path: path.read_bytes() for path in (tmp_path / "maps").iterdir()}
    with pytest.raises(ResultsError, match="exists already"):
        maps.save_pretrained(tmp_path / "maps")
    assert {path: path.read_bytes() for path in (tmp_path / "maps").iterdir()} == before


def test_the_card_is_written_from_the_fit_and_names_the_base_model(maps, tmp_path):
    """Read back by the hub's own library: metadata, and every number of the fit in words."""
    maps.save_pretrained(tmp_path / "maps")
    card = ModelCard.load(tmp_path / "maps/README.md")
    assert card.data.base_model == "owner/tiny-model"
    assert card.data.library_name == "ridgefill"
    assert "# RidgeFill maps for owner/tiny-model: split 3 of 6, bf16" in card.text
    assert "They are 3 linear maps" in card.text
    for row in ("| ridge penalty (scale-free) | 0.03 |", "| calibration rows | 1,234 |", "| lam_by_layer: 4 | 0.1 |"):
        assert row in card.text
    assert "| calibration text | one, two |" in card.text


def test_a_card_claims_no_more_than_is_known(maps, tmp_path):
    """No fit data: no base model, and it says so."""
    replace(maps, fit={}).save_pretrained(tmp_path / "maps")
    card = ModelCard.load(tmp_path / "maps/README.md")
    assert card.data.base_model is None
    assert "The files say nothing about it." in card.text


def test_a_card_rewritten_by_a_hub_does_not_matter(maps, tmp_path):
    """Documentation is never hashed."""
    maps.save_pretrained(tmp_path / "maps")
    (tmp_path / "maps/README.md").write_text("rewritten")
    assert "README" not in (tmp_path / "maps/SHA256SUMS").read_text()
    assert RidgeFillMaps.from_pretrained(tmp_path / "maps").split == SPLIT


def test_research_files_load(tmp_path):
    """One file, the bias in the last column; other tensors are left alone."""
    joined = {f"layer.{layer}": torch.randn(8, 33).bfloat16() for layer in (2, 3, 4)}
    save_file({**joined, "final": torch.zeros(32, 33)}, tmp_path / "maps.safetensors")
    found = RidgeFillMaps.from_pretrained(tmp_path / "maps.safetensors")
    assert found.split == 2
    assert found.architecture == {"layers": 5, "hidden": 8, "width": 32}
    assert torch.equal(found.maps.weights[3], joined["layer.3"][:, :-1])
    assert torch.equal(found.maps.biases[3], joined["layer.3"][:, -1])


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"other": torch.zeros(1)}, r"holds other \[1\]; expected layer.<l> \[d_out, d_in \+ 1\]"),
        ({"layer.2": torch.zeros(2, 3), "layer.4": torch.zeros(2, 3)}, "has no map for layers 3"),
        ({"layer.2": torch.zeros(2, 3), "layer.3": torch.zeros(2, 4)}, "of one shape"),
        ({"layer.2": torch.zeros(2)}, "of one shape"),
    ],
)
def test_other_safetensors_files_are_refused(tmp_path, tensors, words):
    """What it holds, what was expected."""
    save_file(tensors, tmp_path / "x.safetensors")
    with pytest.raises(MapError, match=words):
        RidgeFillMaps.from_pretrained(tmp_path / "x.safetensors")


def test_a_file_that_is_no_safetensors_is_refused(tmp_path):
    """One sentence, no traceback."""
    (tmp_path / "x.safetensors").write_text("hello")
    with pytest.raises(MapError, match="is not a safetensors file of maps"):
        RidgeFillMaps.from_pretrained(tmp_path / "x.safetensors")


def test_a_local_path_never_asks_the_hub(maps, tmp_path, monkeypatch):
    """Nor does a path that does not exist, unless it could be a repository's name."""
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: pytest.fail("asked the hub"))
    maps.save_pretrained(tmp_path / "maps")
    RidgeFillMaps.from_pretrained(tmp_path / "maps")
    for missing in (tmp_path / "no", str(tmp_path / "no"), "./no", "a/b/c", "~/no/where"):
        with pytest.raises(MapError, match="does not exist; give a folder of maps"):
            RidgeFillMaps.from_pretrained(missing)


LOCATE = """
import sys
from ridgefill.errors import MapError
from ridgefill.mapfiles.hub import locate
try:
    print(locate("owner/maps", revision=sys.argv[1] or None, local_files_only=bool(sys.argv[2])))
except MapError as error:
    print("error:", error)
print("torch" in sys.modules)
"""


@pytest.mark.parametrize(("revision", "local", "offline"), [("", "yes", ""), ("", "", "1"), ("v1", "", "1")])
def test_the_hub_cache_serves_without_the_hub(maps, tmp_path, revision, local, offline):
    """HF_HOME says where, HF_HUB_OFFLINE or local_files_only that nobody is asked; what is not there is a sentence."""
    repo = tmp_path / "home/hub/models--owner--maps"
    (repo / "refs").mkdir(parents=True)
    commit = "5" * 40
    (repo / "refs" / (revision or "main")).write_text(commit)
    maps.save_pretrained(repo / "snapshots" / commit)
    set_ = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": offline}
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    command = [sys.executable, "-c", LOCATE, revision, local]

    def located():
        done = subprocess.run(command, env={**kept, **set_}, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    found, torch_loaded = located()
    assert found == str(repo / "snapshots" / commit)
    assert torch_loaded == "False"
    assert RidgeFillMaps.from_pretrained(found).split == SPLIT
    shutil.rmtree(repo)
    missing, _ = located()
    assert missing.startswith(
        "error: owner/maps is no local path, and the hub repository of that name could not be had"
    )
    if revision:
        assert "at revision v1" in missing


def test_maps_fit_the_model_they_were_made_for(maps, tiny):
    """An adapter or a model, without a warning when the names agree but for their owner."""
    model = tiny()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        maps.check(LlamaAdapter(model))
        maps.check(model)


def test_another_model_is_refused_by_name(maps, adapt, tiny):
    """Depth, shapes, tokenizer, and an architecture without an adapter."""
    with pytest.raises(MapError, match="these maps were fitted for layers 6, but the model has 4"):
        maps.check(adapt(4))
    wrong = replace(maps, maps=wide().maps)
    with pytest.raises(MapError, match=r"the maps have shape \[128, 128\], but the model needs \[32, 32\]"):
        wrong.check(tiny())
    known = replace(maps, architecture={**maps.architecture, "tokenizer_sha256": "aa"})
    known.check(tiny(), tokenizer_sha256="aa")
    with pytest.raises(MapError, match="for tokenizer_sha256 'aa', but the model has 'bb'"):
        known.check(tiny(), tokenizer_sha256="bb")
    with pytest.raises(ModelError, match="found a model of type 'Linear'"):
        maps.check(torch.nn.Linear(1, 1))


def test_another_name_or_encoding_of_the_weights_warns(maps, adapter, monkeypatch):
    """They run; the fit's own name for its model counts."""
    monkeypatch.setattr(adapter.model.config, "_name_or_path", "elsewhere/TINY-model/")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        maps.check(adapter)
    monkeypatch.setattr(adapter.model.config, "_name_or_path", "owner/another")
    with pytest.warns(UserWarning, match="for model 'owner/tiny-model', and the model has 'owner/another'"):
        maps.check(adapter)
    monkeypatch.setattr(adapter.model.config, "_name_or_path", "")
    with pytest.warns(UserWarning, match="for encoding 'gptq', and the model has 'float32'"):
        replace(maps, architecture={**maps.architecture, "encoding": "gptq"}).check(adapter)


def test_fill_and_prefill_pass_on_what_they_are_given(maps, monkeypatch):
    """Every keyword reaches the function that does the work, under its own name."""
    seen = {}
    monkeypatch.setattr(
        "ridgefill.generation.context.filling", lambda *given, **named: seen.update(fill=(given, named))
    )
    monkeypatch.setattr("ridgefill.generation.prefill.prefill", lambda *given, **named: seen.update(pre=(given, named)))
    named = {"tail": 7, "rows": [1], "fill": False, "split_layer": "mapped", "min_filled": 3}
    maps.fill("model", **named)
    assert seen["fill"] == ((maps, "model"), named)
    more = {**named, "attention_mask": "mask", "cache": "cache"}
    maps.prefill("model", "ids", **more)
    assert seen["pre"] == ((maps, "model", "ids"), more)


def test_the_package_exports_lazily():
    """The names are there, and others are not."""
    assert ridgefill.RidgeFillMaps is RidgeFillMaps
    assert {"RidgeFillMaps", "fit_maps"} <= set(dir(ridgefill))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ridgefill.nothing  # noqa: B018
    code = "import sys, ridgefill\nprint('torch' in sys.modules)\nfrom ridgefill import fit_maps, RidgeFillMaps"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr


def test_the_manifest_says_how_the_weights_are_written_now(tmp_path):
    """Whatever the fit data said."""
    replace(wide(), fit={**FIT, "encoding": "bf16"}).save_pretrained(tmp_path / "maps", encoding="int8")
    manifest = json.loads((tmp_path / "maps/ridgefill.json").read_text())
    assert manifest["fit"]["encoding"] == "int8"
    assert set(manifest["files"]) == {"proj8.L3.safetensors", "proj8.L4.safetensors", "proj8.L5.safetensors"}
