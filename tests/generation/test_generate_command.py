"""``ridgefill generate`` prints what the library gives, and one sentence for what it cannot use."""

import json
import math

import pytest
import torch

from ridgefill.cli import main
from ridgefill.generation.timing import Clock
from ridgefill.pretrained import RidgeFillMaps

WORDS = 50
TEXT = " ".join(f"w{(7 * number) % 90}" for number in range(WORDS))


@pytest.fixture
def run(saved, tmp_path, capsys):
    """``run(*options, text=..., ...)``: exit code, standard output and standard error."""

    def call(*options, text=TEXT, model=saved[0], maps=saved[1]):
        prompt = tmp_path / "prompt.txt"
        prompt.write_text(text, "utf-8")
        words = ["generate", "--model", str(model), "--maps", str(maps), "--prompt-file", str(prompt), *options]
        code = main([*words, "--dtype", "float32"])
        return code, *capsys.readouterr()

    return call


def test_it_prints_the_filled_text(run, saved, model_of, tiny_tokenizer, own_decoding):
    """The text of our own decoding with the same maps, how much was filled, and when the first token came."""
    code, out, _ = run("--tail", "20", "--max-new-tokens", "8", "--json")
    found = json.loads(out)
    ids = tiny_tokenizer(TEXT, return_tensors="pt")["input_ids"]
    maps = RidgeFillMaps.from_pretrained(saved[1])
    maps = RidgeFillMaps(maps.maps.to(model_of().dtype, model_of().device), maps.architecture, maps.fit)
    expected = tiny_tokenizer.decode(own_decoding(model_of(), maps, ids, new=8), skip_special_tokens=True)
    assert code == 0
    assert found["text"] == expected
    assert (found["prompt_tokens"], found["filled"], found["filled_share"]) == (WORDS, 30, 0.6)
    assert found["first_token_seconds"] > 0
    assert "ratio" not in found


def test_compare_runs_both_in_turn(run, model_of, tiny_tokenizer, greedy):
    """Exact text beside the filled one, a ratio of times from this process, and each round told on stderr."""
    code, out, err = run("--tail", "20", "--max-new-tokens", "8", "--compare", "--rounds", "2", "--json")
    found = json.loads(out)
    ids = tiny_tokenizer(TEXT, return_tensors="pt")["input_ids"]
    exact = greedy(model_of(), new=8, input_ids=ids)[0]
    assert code == 0
    assert found["exact_text"] == tiny_tokenizer.decode(exact, skip_special_tokens=True) != found["text"]
    assert len(found["rounds"]) == 2
    assert found["ratio"] == pytest.approx(found["exact_first_token_seconds"] / found["first_token_seconds"])
    told = [line.partition(":")[0] for line in err.splitlines() if line.startswith("round")]
    assert told == [
        f"round {number} of 2, {kind}" for number, kind in ((1, "exact"), (1, "filled"), (2, "filled"), (2, "exact"))
    ]


def test_the_printed_form_names_the_same_numbers(run):
    """For people: tokens, share, time, both texts; a prompt shorter than the tail says that nothing was filled."""
    code, out, _ = run("--tail", "20", "--max-new-tokens", "4", "--compare", "--rounds", "1")
    assert code == 0
    assert "50 tokens, 30 filled (60.0%), split 3, tail 20" in out
    assert "times as long" in out
    assert "--- filled" in out
    assert "--- exact" in out
    assert "none filled, as the tail alone has 4,096" in run("--max-new-tokens", "4")[1]


def test_the_clock_waits_for_the_first_new_token():
    """The prompt comes first and does not count; later tokens do not move it."""
    clock, token = Clock(), torch.tensor([3])
    clock.put(torch.tensor([[1, 2]]))
    assert math.isnan(clock.first_token)
    clock.put(token)
    noted = clock.first_token
    clock.put(token)
    assert noted == clock.first_token > 0


@pytest.mark.parametrize(
    ("options", "changed", "exit_code", "message"),
    [
        (["--tail", "0"], {}, 2, "tail is 0"),
        (["--rounds", "0"], {}, 2, "--rounds is 0; expected at least 1"),
        (["--max-new-tokens", "-1"], {}, 2, "--max-new-tokens is -1"),
        ([], {"text": " \n"}, 5, "prompt.txt is empty"),
        ([], {"text": TEXT * 12}, 5, "but the model takes 512; shorten the prompt"),
        (["--chat"], {}, 5, "has no chat template; leave out --chat"),
        (["--rows", "attention", "--tail", "20"], {}, 2, "no layer below split 3 ranks rows by attention"),
        ([], {"model": "nowhere"}, 3, "nowhere could not be loaded as a model"),
        ([], {"maps": "nowhere"}, 4, "nowhere"),
    ],
)
def test_one_sentence_for_what_cannot_be_used(run, options, changed, exit_code, message):
    """Exit code of the error's kind, nothing on standard output."""
    code, out, err = run(*options, **changed)
    assert (code, out) == (exit_code, "")
    last = err.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert message in last


def test_a_prompt_file_that_is_missing_or_no_text(saved, tmp_path, capsys):
    """Both are said before a model is loaded."""
    for name, content in (("absent.txt", None), ("binary.txt", b"\xff\xfe\x00")):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        words = ["generate", "--model", str(saved[0]), "--maps", str(saved[1]), "--prompt-file", str(path)]
        assert main(words) == 5
        err = capsys.readouterr().err
        assert err.startswith(f"error: {path}")
        assert "loading" not in err
