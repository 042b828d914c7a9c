"""``ridgefill fit``: a folder of texts and a model become a folder of maps, or one sentence."""

import json
import random
import shutil
from itertools import pairwise

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from ridgefill import RidgeFillMaps, cli
from ridgefill.commands.fit import read_texts, share_out
from ridgefill.errors import TextError
from ridgefill.fitting import fit_maps
from ridgefill.models.load import load_any

WORDS, WIDTH = 90, 32


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Six random layers with a tokenizer of ninety words, as a folder."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    torch.manual_seed(1)
    config = LlamaConfig(
        num_hidden_layers=6,
        hidden_size=WIDTH,
        intermediate_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=97,
        initializer_range=0.2,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    known = {f"w{number}": number for number in range(WORDS)} | {"<unk>": WORDS}
    core = Tokenizer(models.WordLevel(known, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>").save_pretrained(folder)
    return folder


@pytest.fixture
def texts(tmp_path):
    """Ten files of 80 words each, one of them in a folder of its own, and one that is no text."""
    folder = tmp_path / "texts"
    (folder / "more").mkdir(parents=True)
    for number in range(10):
        drawn = random.Random(number)
        words = " ".join(f"w{drawn.randrange(WORDS)}" for _ in range(80))
        (folder / ("more/j.md" if number == 9 else f"{'abcdefghi'[number]}.txt")).write_text(words)
    (folder / "picture.png").write_bytes(b"\x89PNG")
    return folder


@pytest.fixture
def fit(model, texts, tmp_path):
    """``fit(words)``: run the command with these words too; returns its exit code."""

    def run(*words):
        given = ["--model", str(model), "--split", "3", "--texts", str(texts), "--out", str(tmp_path / "maps")]
        return cli.main(["fit", *given, *words])

    return run


def test_it_fits_nine_files_tests_on_the_tenth_and_says_what_to_type(fit, model, tmp_path, capsys):
    """Rows, penalty, conditioning and the write cosine are printed, and the maps are those that Python fits."""
    assert fit() == 0
    said = capsys.readouterr().out.splitlines()
    made = RidgeFillMaps.from_pretrained(tmp_path / "maps")
    assert said[0] == "fitted  3 layers from 3 on, 720 rows of 9 files"
    assert said[1] == f"lam     0.03; condition number {made.fit['condition']:.3g}"
    assert said[2].startswith(f"cosine  {made.fit['write_cosine']:.4f} ")
    assert said[2].endswith("80 held-out rows of 1 file")
    assert said[3] == f"maps    {tmp_path / 'maps'} (bf16)"
    assert said[4].startswith(f"next    ridgefill generate --model {model} --maps {tmp_path / 'maps'} ")
    loaded = load_any(str(model))
    files, tests = share_out(read_texts(tmp_path / "texts"), 0.1)
    ids = [loaded.tokenizer(text, return_tensors="pt")["input_ids"] for _, text in files]
    expected = fit_maps(loaded.network, ids, split=3).maps
    assert all(torch.equal(made.maps.weights[layer], expected.weights[layer].bfloat16()) for layer in range(3, 6))
    assert made.architecture == loaded.architecture
    assert made.fit["model"] == "tiny"
    assert [name for name, _ in tests] == ["f.txt"]


def test_a_grid_picks_lam_on_held_out_files(fit, tmp_path, capsys):
    """The picked one is in the record and is printed; per layer, every layer's."""
    assert fit("--lam-grid", "0.0001,0.01,1", "--heldout-share", "0.3") == 0
    made = RidgeFillMaps.from_pretrained(tmp_path / "maps")
    assert made.fit["lam"] in (0.0001, 0.01, 1.0)
    assert (made.fit["files"], made.fit["heldout_files"]) == (7, 3)
    assert f"lam     {made.fit['lam']:g};" in capsys.readouterr().out
    assert fit("--lam-grid", "default", "--per-layer", "--out", str(tmp_path / "own")) == 0
    lams = RidgeFillMaps.from_pretrained(tmp_path / "own").fit["lam_by_layer"]
    assert ", ".join(f"{lam:g} at {layer}" for layer, lam in lams.items()) in capsys.readouterr().out


def test_a_budget_of_tokens_is_dealt_over_the_files(fit, tmp_path):
    """400 tokens in pieces of 40 come from all nine files, and a share as large is tested on."""
    assert fit("--tokens", "400", "--chunk", "40") == 0
    made = RidgeFillMaps.from_pretrained(tmp_path / "maps")
    assert made.fit["rows"] == 400
    assert made.fit["heldout_rows"] == 44


def test_every_piece_begins_with_the_models_opening_mark(fit, model, texts, tmp_path):
    """A tokenizer that opens texts with one does so here too: 80 words in pieces of 21 are four with 20 words each."""
    marked = tmp_path / "marked"
    shutil.copytree(model, marked)
    state = json.loads((marked / "tokenizer.json").read_text())
    opened = [{"SpecialToken": {"id": "w0", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    state["post_processor"] = {
        "type": "TemplateProcessing",
        "single": opened,
        "pair": [*opened, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"w0": {"id": "w0", "ids": [0], "tokens": ["w0"]}},
    }
    (marked / "tokenizer.json").write_text(json.dumps(state))
    settings = json.loads((marked / "tokenizer_config.json").read_text())
    (marked / "tokenizer_config.json").write_text(json.dumps({**settings, "bos_token": "w0"}))
    assert fit("--model", str(marked), "--chunk", "21") == 0
    made = RidgeFillMaps.from_pretrained(tmp_path / "maps")
    assert made.fit["rows"] == 9 * 4 * 21
    loaded = load_any(str(marked))
    files, _ = share_out(read_texts(texts), 0.1)
    whole = [loaded.tokenizer(text)["input_ids"] for _, text in files]
    cut = [[0, *ids[begin : begin + 20]] for ids in whole for begin in range(1, 81, 20)]
    expected = fit_maps(loaded.network, cut, split=3).maps
    for layer in (4, 5):
        # Stored as bf16, 8 bits, and merged in another order.
        off = (made.maps.weights[layer].float() - expected.weights[layer]).abs().max()
        assert float(off) <= 2**-8 * float(expected.weights[layer].abs().max())
    loaded.network.config.bos_token_id = 0
    assert fit_maps(loaded.network, whole, split=3, chunk=21).fit["rows"] == 9 * 4 * 21


def test_options_and_encoding_reach_the_maps(fit, tmp_path):
    """Towards the identity, of rank 8; nothing held out, so nothing measured."""
    assert fit("--towards", "identity", "--rank", "8", "--heldout-share", "0", "--threads", "1") == 0
    made = RidgeFillMaps.from_pretrained(tmp_path / "maps")
    assert (made.fit["towards"], made.fit["rank"], made.fit["heldout_files"]) == ("identity", 8, 0)
    assert "write_cosine" not in made.fit
    # bf16 rounding keeps all but the eight leading directions of A - I below its own size.
    values = torch.linalg.svdvals(made.maps.weights[5].float() - torch.eye(WIDTH))
    assert float(values[8]) < 0.05 * float(values[0])
    assert json.loads((tmp_path / "maps/ridgefill.json").read_text())["fit"]["encoding"] == "bf16"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--split", "6"], 2, "split 6 is outside the model; expected 1 to 5"),
        (["--split", "0"], 2, "split 0 is outside the model; expected 1 to 5"),
        (["--lam-grid", "a,b"], 2, "the grid of penalties is 'a,b'; expected numbers such as 0.01,0.03,0.1"),
        (["--lam-grid", "0.1,1", "--heldout-share", "0"], 2, "choosing lam needs held-out documents"),
        (["--heldout-share", "1"], 2, "the held-out share is 1.0; expected at least 0 and less than 1"),
        (["--per-layer"], 2, "a lam for each layer is chosen from a grid"),
        (["--rank", "40"], 2, "rank is 40; expected 1 to 32"),
        (["--chunk", "0"], 2, "chunk is 0 and tokens None; expected at least 1 and 1"),
        (["--tokens", "0"], 2, "tokens 0; expected at least 1 and 1"),
        (["--encoding", "int8"], 2, "the model is 32 wide, no multiple of 128; use --encoding bf16"),
        (["--model", "/nowhere/model"], 3, "/nowhere/model could not be loaded as a model"),
        (["--device", "tpu9"], 3, "could not be loaded as a model"),
        (["--tokens", "100000"], 5, "the texts hold 720 usable tokens; 100000 were asked for"),
        (["--tokens", "32"], 6, "the documents give 32 rows for maps of width 32"),
    ],
)
def test_what_cannot_be_fitted_is_one_sentence_and_leaves_nothing(fit, tmp_path, capsys, words, code, message):
    """No traceback, nothing on standard output, no folder."""
    assert fit(*words) == code
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.startswith("error: ")
    assert message in streams.err
    assert streams.err.count("\n") == 1
    assert not list(tmp_path.glob("maps*"))


def test_a_folder_that_exists_is_refused_before_anything_is_loaded(fit, tmp_path, capsys):
    """Maps that are there already are not overwritten."""
    (tmp_path / "maps").mkdir()
    assert fit("--model", "/nowhere/model") == 2
    assert "maps exists already; give a new folder, or delete it first" in capsys.readouterr().err


def test_texts_that_cannot_be_used_are_refused_by_name(texts, tmp_path):
    """None at all, not UTF-8, the same twice, empty."""
    with pytest.raises(TextError, match=r"holds no \*\.md or \*\.txt files"):
        read_texts(tmp_path / "elsewhere")
    (texts / "copy.txt").write_text((texts / "b.txt").read_text())
    with pytest.raises(TextError, match=r"copy\.txt and b\.txt in .* hold the same text"):
        read_texts(texts)
    (texts / "copy.txt").write_bytes(b"caf\xe9")
    with pytest.raises(TextError, match=r"copy\.txt is not UTF-8 text"):
        read_texts(texts)


def test_an_empty_text_is_refused_by_name(fit, texts, capsys):
    """It would be a document without a row."""
    (texts / "empty.txt").write_text("")
    assert fit() == 5
    assert "text empty.txt is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("count", "share", "held"), [(1, 0.1, 0), (2, 0.1, 1), (10, 0.1, 1), (10, 0.3, 3), (3, 0.9, 2)]
)
def test_held_out_files_are_spread_and_disjoint(count, share, held):
    """At least one is tested on when there are two, at least one is always fitted on, and none does both."""
    documents = [(f"{number:02}", f"text {number}") for number in range(count)]
    fitted, tests = share_out(documents, share)
    assert len(tests) == held
    assert sorted(fitted + tests) == documents
    assert tests == [] or share_out(documents, share) == (fitted, tests)
    places = [documents.index(document) for document in tests]
    gaps = [later - earlier for earlier, later in pairwise(places)]
    assert not gaps or max(gaps) - min(gaps) <= 1
