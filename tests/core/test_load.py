"""A model folder becomes an adapter, or one sentence about what is wrong with it."""

import json

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from ridgefill.errors import ModelError
from ridgefill.files import sha256_file
from ridgefill.models.load import RECORD, convert_gguf, load_model_folder
from ridgefill.passes import run_exact
from ridgefill.settings import HubSource, ModelConfig
from ridgefill.sizes import ModelGeometry, WindowGeometry


def tokenizer(words):
    known = {f"w{number}": number for number in range(words - 1)} | {"<unk>": words - 1}
    core = Tokenizer(models.WordLevel(known, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>")


@pytest.fixture
def config():
    """What the folder is expected to hold."""
    geometry = ModelGeometry(
        layers=6, hidden=32, heads=4, kv_heads=2, head_dim=8, intermediate=64, vocab=97, context=512
    )
    hub = HubSource(kind="hub", repo="some/tiny")
    return ModelConfig(name="tiny", family="llama", geometry=geometry, qk_norm=False, source=hub)


@pytest.fixture
def folder(tmp_path, tiny):
    """A model folder as ``convert_gguf`` leaves it, with the record of its files."""
    path = tmp_path / "tiny"
    tiny().save_pretrained(path)
    tokenizer(90).save_pretrained(path)
    files = {one.name: sha256_file(one) for one in sorted(path.iterdir())}
    (path / RECORD).write_text(json.dumps({"from": "tiny.gguf", "files": files}))
    return path


def test_a_loaded_folder_is_the_saved_model_bit_for_bit(folder, config, tiny, prompt):
    """fp32 logits equal the original's; the fingerprint carries geometry and the tokenizer's hash."""
    loaded = load_model_folder(folder, config, "float32")
    done = run_exact(loaded.adapter, prompt(30))
    assert torch.equal(loaded.adapter.logits(done.hidden), tiny()(prompt(30)).logits)
    assert loaded.tokenizer_sha256 == sha256_file(folder / "tokenizer.json")
    assert loaded.architecture["tokenizer_sha256"] == loaded.tokenizer_sha256
    assert (loaded.architecture["layers"], loaded.architecture["kv_heads"]) == (6, 2)
    assert load_model_folder(folder, config, "bfloat16").adapter.dtype == torch.bfloat16


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
@pytest.mark.parametrize("damage", ["missing", "flipped byte"])
def test_a_damaged_file_is_refused_by_name(folder, config, name, damage):
    """A recorded folder is checked file by file before anything is loaded."""
    if damage == "missing":
        (folder / name).unlink()
    else:
        data = bytearray((folder / name).read_bytes())
        data[-2] ^= 1
        (folder / name).write_bytes(bytes(data))
    with pytest.raises(ModelError, match=name.replace(".", r"\.") + " has SHA-256"):
        load_model_folder(folder, config, "float32")


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_folder_without_a_record_is_refused_when_it_does_not_load(folder, config, name):
    """A user's own folder has no record; a file that is not there is a sentence all the same."""
    (folder / RECORD).unlink()
    (folder / name).unlink()
    with pytest.raises(ModelError):
        load_model_folder(folder, config, "float32")


def test_weights_that_lack_a_tensor_are_refused(folder, config, tiny):
    """The stock loader would fill it with random numbers and only warn."""
    (folder / RECORD).unlink()
    state = {name: value.clone() for name, value in tiny().state_dict().items()}
    del state["model.layers.4.mlp.up_proj.weight"]
    tiny().save_pretrained(folder, state_dict=state)
    with pytest.raises(ModelError, match=r"lack 1 tensors, among them model\.layers\.4\.mlp\.up_proj\.weight"):
        load_model_folder(folder, config, "float32")


def test_a_damaged_record_and_a_missing_folder_are_refused(folder, config):
    """Both are named, with what to do."""
    (folder / RECORD).write_text('{"from": ')
    with pytest.raises(ModelError, match=f"{RECORD} is damaged"):
        load_model_folder(folder, config, "float32")
    with pytest.raises(ModelError, match="elsewhere does not exist"):
        load_model_folder(folder.with_name("elsewhere"), config, "float32")


@pytest.mark.parametrize(("field", "value"), [("layers", 5), ("hidden", 64), ("kv_heads", 4), ("vocab", 96)])
def test_another_geometry_is_refused_with_both_sides(folder, config, field, value):
    """The folder must hold the model that the configuration describes."""
    other = config.model_copy(update={"geometry": config.geometry.model_copy(update={field: value})})
    with pytest.raises(ModelError, match=f"has {field} .* expects {value}"):
        load_model_folder(folder, other, "float32")


def test_windows_that_the_model_has_not_are_refused(folder, config):
    """Which layers see all rows is geometry too."""
    windowed = WindowGeometry(size=24, full_layers=(1, 4))
    other = config.model_copy(update={"geometry": config.geometry.model_copy(update={"windowed": windowed})})
    with pytest.raises(ModelError, match=r"has windows \(\); tiny expects \(24, None, 24, 24, None, 24\)"):
        load_model_folder(folder, other, "float32")


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(folder, config):
    """Its ids would run off the embedding."""
    (folder / RECORD).unlink()
    tokenizer(98).save_pretrained(folder)
    with pytest.raises(ModelError, match="has 98 tokens, more than the model's 97"):
        load_model_folder(folder, config, "float32")


def test_a_family_without_an_adapter_is_refused(folder, config):
    """The known families are named."""
    with pytest.raises(ModelError, match="mamba, which has no adapter yet; adapters: llama"):
        load_model_folder(folder, config.model_copy(update={"family": "mamba"}), "float32")


def test_a_corrupt_gguf_is_refused_and_leaves_nothing(tmp_path):
    """No half-written folder that a later step would read."""
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ModelError, match=r"tiny\.gguf could not be read"):
        convert_gguf(tmp_path / "tiny.gguf", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.gguf"]
