"""What the page on fitting and generating shows is what happens."""

import re
import runpy
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from ridgefill import RidgeFillMaps, cli

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/fit-and-generate.md").read_text("utf-8")
BLOCKS = runpy.run_path(str(ROOT / "tests/test_docs.py"))["blocks"](PAGE)
TOKENIZER = runpy.run_path(str(ROOT / "tests/core/test_load.py"))["tokenizer"]
WORDS = 90


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The page's ``my-model``, ``texts`` and ``prompt.txt``: 24 random layers, ten texts, a prompt of 400 tokens."""
    torch.manual_seed(3)
    config = LlamaConfig(
        num_hidden_layers=24,
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=97,
        pad_token_id=0,
        eos_token_id=None,
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path / "my-model")
    tokenizer = TOKENIZER(WORDS)
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    tokenizer.save_pretrained(tmp_path / "my-model")
    (tmp_path / "texts").mkdir()

    def words(count, seed):
        drawn = torch.randint(0, WORDS - 1, (count,), generator=torch.Generator().manual_seed(seed))
        return " ".join(f"w{number}" for number in drawn.tolist())

    for number in range(10):
        (tmp_path / f"texts/{number}.txt").write_text(words(60, number))
    (tmp_path / "prompt.txt").write_text(words(400, 99))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_python_example_runs_as_written(folder, capsys):
    """It fits, saves, loads, generates with a fill, and prefills."""
    (example,) = [block for block in BLOCKS if "import" in block]
    exec(compile(example, "docs/fit-and-generate.md", "exec"), {})
    assert "144 of 400 rows were filled" in capsys.readouterr().out
    assert RidgeFillMaps.from_pretrained("maps").split == 19


def test_the_commands_run_as_written(folder, capsys):
    """``fit`` writes maps, and ``generate`` uses them."""
    commands = BLOCKS[0].strip().splitlines()
    assert [line.split()[:2] for line in commands] == [["ridgefill", "fit"], ["ridgefill", "generate"]]
    for line in commands:
        assert cli.main(line.split()[1:]) == 0
    assert "cosine" in capsys.readouterr().out


def test_every_option_of_the_page_exists(capsys):
    """No option is shown that ``ridgefill fit`` does not have, and none it has is left out."""
    with pytest.raises(SystemExit):
        cli.main(["fit", "--help"])
    known = set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out)) - {"--help"}
    shown = set(re.findall(r"--[a-z][a-z-]*", PAGE)) - {"--compare", "--prompt-file", "--maps", "--tail"}
    assert shown == known
