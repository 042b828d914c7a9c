"""Two turns: a second question to every arm's own cache and answer, as the stock model has it in one text."""

import runpy
import string
from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tokenizers import Regex, Tokenizer
from tokenizers.decoders import Fuse
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import PreTrainedTokenizerFast

from ridgefill.arms import make_arm
from ridgefill.cost import Geometry
from ridgefill.errors import TextError
from ridgefill.evaluation.continuing import Reached, answers
from ridgefill.evaluation.prompts import chat_text, ruler_prompt
from ridgefill.evaluation.ruler import RulerRun
from ridgefill.evaluation.runs import Fitted
from ridgefill.evaluation.turns import evaluate_turns, turn_ids, turn_text
from ridgefill.fill import oracle
from ridgefill.map_options import PLAIN
from ridgefill.models.load import Loaded
from ridgefill.models.wrap import adapter_for
from ridgefill.passes import run_exact
from ridgefill.results import write_table
from ridgefill.suites.needles import Needle, RulerSample
from ridgefill.suites.turns import TurnSample, second_turn

TESTS = Path(__file__).parents[1]
BUILT = runpy.run_path(str(TESTS / "families" / "builders.py"))
SLOW = runpy.run_path(str(TESTS / "naive" / "turns.py"))
NEW, SPLIT, SHORT = 8, 3, 30
TEMPLATE = (
    "{% for turn in messages %}[{{ turn.role[0] }}]{{ turn.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}[a]{% endif %}"
)
TURN = "<|end|>\n[u]{}<|end|>\n[a]"


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.inference_mode():
        yield


@pytest.fixture
def tokenizer():
    """One token for each character, and one that ends a turn; as many as the tiny models have."""
    letters = ["\n", *string.ascii_lowercase, *string.ascii_uppercase, *string.digits, *" .:?[]"]
    words = {"<|eos|>": 0, "<|end|>": 1} | {letter: place for place, letter in enumerate(letters, 2)}
    words |= {chr(0x3B1 + place): place for place in range(len(words), BUILT["VOCABULARY"])}
    plain = Tokenizer(WordLevel(words, unk_token="?"))
    plain.pre_tokenizer = Split(Regex(r"[\s\S]"), "isolated")
    plain.decoder = Fuse()
    made = PreTrainedTokenizerFast(tokenizer_object=plain, eos_token="<|eos|>")
    made.add_special_tokens({"additional_special_tokens": ["<|end|>"]})
    made.chat_template = TEMPLATE
    return made


def sample():
    """Three keys in a short text, one of them asked for."""
    context = "Once. A special magic number for ab is: 12. On. A special magic number for cd is: 34. "
    context += "A special magic number for ef is: 56. So it went on and on and on"
    found = []
    for key, value in (("ab", 12), ("cd", 34), ("ef", 56)):
        text = f"A special magic number for {key} is: {value}."
        found.append(Needle(text, key == "cd", context.index(text), context.index(text) + len(text)))
    question = "What is the special magic number that the text gives for cd?"
    return RulerSample(
        "niah_multikey_1", 512, 0, f"{context}\n{question}", " It is", ("34",), tuple(found), NEW,
        (len(context) + 1, len(context) + 1 + len(question)),
    )  # fmt: skip


def run_of(model, tokenizer, names, maps=None, split=SPLIT, tail=100):
    adapter = adapter_for(model)
    arms = [make_arm(name, layers=adapter.layers, split=split, tail=tail, rows_share=0.1, window=16) for name in names]
    return RulerRun(
        Loaded(adapter, tokenizer, ""), arms, Fitted({(split, PLAIN): maps} if maps else {}),
        Geometry(layers=adapter.layers, hidden=32, q=32, kv=16, ff=64), tail, 16, len,
        {"experiment": "e", "model": "m", "source": "ruler-style"},
    )  # fmt: skip


def said(rows, arm):
    row = next(row for row in rows if row["arm"] == arm)
    return row["first_prediction"], row["second_prediction"]


@pytest.mark.parametrize("family", BUILT["FAMILIES"])
def test_the_exact_arm_answers_as_stock_generate_on_the_whole_conversation(family, tokenizer):
    """Prompt, own answer and second question as one text, for recurrent and windowed layers too; and an arm that is
    fed the truth answers as exact does.
    """
    model, turn, split = BUILT["FAMILIES"][family](), second_turn(sample(), 1), BUILT["SPLITS"].get(family, SPLIT)
    ids, asked = ruler_prompt(tokenizer, turn.first).ids, turn_ids(tokenizer, turn)
    expected = SLOW["conversation"](model, ids, asked, NEW, [0, 1])
    adapter = adapter_for(model)
    inputs = run_exact(adapter, torch.tensor([ids]), keep=range(adapter.layers)).inputs
    truth = oracle(adapter, inputs, torch.arange(len(ids) - 100))
    rows = evaluate_turns(run_of(model, tokenizer, ["exact", "ridgefill"], truth, split), turn)
    texts = tuple(tokenizer.decode(one, skip_special_tokens=True) for one in expected)
    assert said(rows, "exact") == said(rows, "ridgefill") == texts
    assert [row["first_tokens"] for row in rows] == [len(expected[0])] * 2
    assert [row["second_tokens"] for row in rows] == [len(expected[1])] * 2
    assert rows[0]["second_prompt_tokens"] == len(ids) + len(expected[0]) + len(asked)
    assert texts[0] != texts[1]


def test_every_arm_goes_on_from_its_own_cache_and_answer(tokenizer):
    """Arms that write nothing or the split state, alone and in one batch, each against rows fed one at a time in fp64
    to what it left.
    """
    naive = runpy.run_path(str(TESTS / "naive" / "prefill.py"))["NaiveLlama"](BUILT["llama"]())
    turn = second_turn(sample(), 1)
    ids, asked = ruler_prompt(tokenizer, turn.first).ids, turn_ids(tokenizer, turn)
    inputs, tokens = naive.run_exact(ids), len(ids)
    names = ["exact", "no_fill", "identity"]
    together = evaluate_turns(run_of(BUILT["llama"](), tokenizer, names, tail=SHORT), turn)
    for name, predict in (("no_fill", None), ("identity", lambda layer, state: state)):
        outputs, caches = naive.run_filled(
            inputs, SPLIT, list(range(tokens - SHORT, tokens)), predict, true_split_layer=True
        )
        first = naive.decode(outputs[tokens - 1], caches, tokens, NEW)
        last = None
        for position, token in enumerate([*first, *asked], tokens):
            (last,) = naive.embed([token])
            for layer in range(naive.layers):
                caches[layer][position] = naive.key_value(layer, last, position)
                last = naive.finish(layer, last, position, [caches[layer][row] for row in sorted(caches[layer])])
        second = naive.decode(last, caches, tokens + NEW + len(asked), NEW)
        expected = tuple(tokenizer.decode(one, skip_special_tokens=True) for one in (first, second))
        assert said(together, name) == expected
        alone = run_of(BUILT["llama"](), tokenizer, [name], tail=SHORT)
        assert said(evaluate_turns(alone, turn), name) == expected
    assert len({said(together, name) for name in names}) == 3


def test_answers_of_several_adapters_keep_their_numbers(tokenizer):
    """Entries of two adapters by turns: each ends where it is said to, and the tokens are those of one adapter."""
    adapter = adapter_for(BUILT["llama"]())
    ids = ruler_prompt(tokenizer, sample()).ids
    exact = run_exact(adapter, torch.tensor([ids]))
    reached = [Reached(one, exact.cache, exact.hidden[:, -1:], len(ids)) for one in (adapter, copy(adapter)) * 2]
    (full,) = answers(reached[:1], NEW, (), lambda *_: False)
    assert answers(reached, NEW, (), lambda entry, made: len(made) > entry) == [full[: n + 1] for n in range(4)]


def test_an_answer_ends_with_the_turn(tokenizer):
    """At the end of text, and at the mark with which the template ends a turn; that mark then opens the second turn."""
    model, turn = BUILT["llama"](), second_turn(sample(), 1)
    ids, asked = ruler_prompt(tokenizer, turn.first).ids, turn_ids(tokenizer, turn)
    assert asked[0] == 1
    full = SLOW["conversation"](model, ids, asked, NEW, [0, 1])[0]
    letter = tokenizer.convert_ids_to_tokens(full[2])
    tokenizer.eos_token = letter
    rows = evaluate_turns(run_of(model, tokenizer, ["exact"]), turn)
    cut = full[: full.index(full[2])]
    expected = SLOW["conversation"](model, ids, asked, NEW, [tokenizer.eos_token_id, 1])
    assert expected[0] == cut
    assert said(rows, "exact") == tuple(tokenizer.decode(one, skip_special_tokens=True) for one in expected)


def test_the_second_turn_is_what_the_template_writes_between_two_answers(tokenizer):
    """From the end of one answer to the start of the next; together with both turns, the whole conversation."""
    assert turn_text(tokenizer, "Who?") == TURN.format("Who?")
    turns = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}, {"role": "user", "content": "R"}]
    whole = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    assert chat_text(tokenizer, "Q") + "A" + turn_text(tokenizer, "R") == whole
    tokenizer.chat_template = None
    assert turn_text(tokenizer, "Who?") == "\nWho?"


def test_templates_that_cannot_hold_a_second_turn_are_refused(tokenizer):
    """One that leaves the answer out, and one whose turn takes more tokens than the suite counts with."""
    turn = second_turn(sample(), 1)
    with pytest.raises(TextError, match=r"has 150 tokens; expected at most 128"):
        turn_ids(tokenizer, replace(turn, question="x" * (150 - len(turn_ids(tokenizer, replace(turn, question=""))))))
    tokenizer.chat_template = "{% for turn in messages if turn.role == 'user' %}{{ turn.content }}{% endfor %}"
    with pytest.raises(TextError, match="leaves out what was answered"):
        turn_text(tokenizer, "Who?")


def test_a_second_question_asks_for_another_key_of_the_text():
    """Never the first key; every other key under some seed, the same under the same; worded as the first question."""
    turns = [second_turn(sample(), seed) for seed in range(20)]
    assert {turn.references for turn in turns} == {("12",), ("56",)}
    assert turns[3] == second_turn(sample(), 3)
    for turn in turns:
        key = {"12": "ab", "56": "ef"}[turn.references[0]]
        assert turn.question == sample().question_prompt[slice(*sample().question)].replace("cd", key)
        assert turn.answer_prefix == f" The special magic number that the text gives for {key} is"
        asked = {needle.text.split()[5] for needle in turn.first.needles if needle.queried}
        assert asked == {"cd", key}
        assert turn.first.question_prompt == sample().question_prompt
    alone = replace(sample(), needles=sample().needles[1:2])
    with pytest.raises(TextError, match="has nothing else to ask for"):
        second_turn(alone, 1)


def test_the_filled_region_holds_every_needle_or_the_two_that_are_asked_for(tokenizer):
    """A tail that reaches into the last needle: outside, unless neither question is about it."""
    model, base = BUILT["llama"](), sample()
    turn = next(turn for turn in (second_turn(base, seed) for seed in range(20)) if turn.references == ("12",))
    prompt = ruler_prompt(tokenizer, turn.first)
    last = prompt.text.index("56.")
    for tail, expected in ((len(prompt.ids) - last - 30, (True, True)), (len(prompt.ids) - last, (False, True))):
        (row,) = evaluate_turns(run_of(model, tokenizer, ["exact"], tail=tail), turn)
        assert (row["in_filled_region"], row["in_filled_region_queried"]) == expected


def test_scores_are_those_of_what_was_said(tokenizer, tmp_path):
    """Each answer against its own reference, and rows that the published schema takes."""
    turn = second_turn(sample(), 1)
    run = run_of(BUILT["llama"](), tokenizer, ["exact", "identity_rows"], split=4)
    plain = evaluate_turns(run, turn)
    assert [(row["first_score"], row["second_score"]) for row in plain] == [(0.0, 0.0)] * 2
    first, second = said(plain, "exact")
    known = TurnSample(replace(turn.first, references=(first,)), turn.question, turn.answer_prefix, (second,))
    exact = evaluate_turns(run, known)[0]
    assert (exact["first_score"], exact["second_score"]) == (1.0, 1.0)
    assert exact["first_references"] == [first]
    assert (plain[1]["filled_rows"] + plain[1]["exact_rows"], plain[1]["exact_rows"]) == (
        plain[1]["prompt_tokens"] - 100, round(0.1 * plain[1]["prompt_tokens"]),
    )  # fmt: skip
    marks = {"git_commit": "0", "config_sha256": "0", "ledger_entry": "main/1"}
    write_table(tmp_path / "samples.parquet", "turn_samples", plain, marks)
