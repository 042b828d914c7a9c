"""Questions longer than the tail: arms that may not see them are refused before any runs, all prompts having been read.

The reference is the evaluation itself, which stops at the first such prompt: what passes here runs there, and what is
refused here would have stopped there.
"""

import runpy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from ridgefill.arm_specs import ArmSpec, arm_from
from ridgefill.arms import ArmSettings, arm_table
from ridgefill.errors import ConfigError
from ridgefill.evaluation.longbench import LongBenchRun, evaluate_v1
from ridgefill.evaluation.questions import Asked, require_hidden, ruler_questions, v1_questions, v2_questions
from ridgefill.evaluation.ruler import RulerRun, evaluate_samples
from ridgefill.evaluation.runs import Fitted
from ridgefill.models.load import Loaded
from ridgefill.suites.longbench import prompts, v2
from ridgefill.suites.longbench.files import read_v1, read_v2
from ridgefill.suites.needles import Needle, RulerSample
from workflow.jobs import longbench

HERE = Path(__file__).parent
CASES = runpy.run_path(str(HERE / "arm_cases.py"))
DATA = HERE.parent / "suites" / "longbench" / "data"
TAIL, case_of = CASES["TAIL"], CASES["case_of"]
SETTINGS = ArmSettings(6, 4, TAIL)
TABLE = arm_table(SETTINGS)
BLIND = TABLE["ridgefill_question_blind_rows"]
QUESTIONS = ("Ann?", "Ann's code?", "What is Ann's code?", "What may the code of our dear Ann be?")
REFUSED = "may not see the question, and at"


def sample(question, index):
    """A sample whose question comes last; one token a character."""
    needle = "Ann's code is 731."
    text = f"{'The 3 Keepers sat. ' * 6}{needle}{' Nobody saw them go.' * 4}"
    place, end = text.index(needle), len(text) + 1 + len(question)
    return RulerSample(
        "niah_single_1", 300, index, f"{text}\n{question}", " Code:", ("731",),
        (Needle(needle, True, place, place + len(needle)),), 2, (len(text) + 1, end),
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(characters):
    """Exact and one blind arm of a tiny Llama."""
    setup = case_of("llama").setup
    arms = [arm for arm in setup.arms if arm.name in ("exact", BLIND.name)]
    loaded = Loaded(setup.loaded.adapter, characters, None)
    labels = {"experiment": "e", "model": "m", "source": "s"}
    return RulerRun(loaded, arms, setup.fitted, setup.geometry, TAIL, 16, len, labels)


def stops(call):
    """Whether a call is refused for its configuration."""
    try:
        call()
    except ConfigError:
        return True
    return False


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_is_refused_is_what_the_evaluation_would_stop_at(run, question):
    """Question by question, from one that lies in the tail to one that does not."""
    one = sample(question, 0)
    tokenizer = run.loaded.tokenizer
    before = stops(lambda: require_hidden(run.arms, ruler_questions(tokenizer, [one])))
    with torch.inference_mode():
        assert before == stops(lambda: evaluate_samples(run, [one]))
    assert before == (len(question + " Code:") > TAIL)


def test_one_sentence_tells_the_tail_that_would_do(run):
    """All samples are read: two of four are too long, and the farthest question is named with its length."""
    samples = [sample(question, index) for index, question in enumerate(QUESTIONS * 2)]
    farthest = len(QUESTIONS[-1] + " Code:")
    with pytest.raises(ConfigError) as refused:
        require_hidden(run.arms, ruler_questions(run.loaded.tokenizer, samples))
    many = 2 * sum(len(question + " Code:") > TAIL for question in QUESTIONS)
    assert many
    assert f"{BLIND.key} {REFUSED} {many} prompts" in str(refused.value)
    assert f"the farthest {farthest} tokens from the end of niah_single_1-300-" in str(refused.value)
    longer = replace(BLIND, tail=farthest)
    require_hidden([longer], ruler_questions(run.loaded.tokenizer, samples))
    shorter = replace(BLIND, tail=farthest - 1)
    assert stops(lambda: require_hidden([shorter], ruler_questions(run.loaded.tokenizer, samples)))


def test_without_such_an_arm_no_prompt_is_made():
    """Arms that may see the question, or read none, cost no look at the prompts."""

    def never():
        raise AssertionError("a prompt was made")
        yield

    require_hidden([arm for name, arm in TABLE.items() if "blind" not in name], never())


def test_arms_that_count_or_match_blind_rows_are_asked_too():
    """A control of as many rows, a matched arm, and a tail that grows with the prompt."""
    made = [
        arm_from(ArmSpec(name=name, like="ridgefill_random_rows", **given), SETTINGS)
        for name, given in (
            ("counts", {"rows": {"kind": "random", "like": {"kind": "question_blind"}}}),
            ("matches", {"match": "ridgefill_question_blind_rows"}),
        )
    ]
    far = Asked("far", 1000, 1000 - TAIL - 1)
    for arm in made:
        with pytest.raises(ConfigError, match=f"{arm.key} {REFUSED} 1 prompts"):
            require_hidden([arm], [far])
        require_hidden([arm], [replace(far, first=1000 - TAIL)])
    grown = arm_from(ArmSpec(name="grown", like="ridgefill_question_blind_rows", longer=0.1), SETTINGS)
    require_hidden([grown], [far, Asked("nothing asked", 50, 50), Asked("all in the tail", 20, 0)])
    assert stops(lambda: require_hidden([grown], [replace(far, first=1000 - TAIL - 101)]))


@pytest.fixture
def long_run(characters):
    """LongBench under exact and the blind arm, a token for each character, prompts cut to 300."""
    setup = case_of("llama").setup
    arms = [arm for arm in setup.arms if arm.name in ("exact", BLIND.name)]
    return LongBenchRun(
        Loaded(setup.loaded.adapter, characters, None), arms, setup.fitted, setup.geometry, TAIL, 16,
        budget=300, context=2000, seed_for=len, labels={"experiment": "e", "model": "m", "source": "s"},
    )  # fmt: skip


@pytest.mark.parametrize("tail", [TAIL, 60, 250])
def test_longbench_v1_is_refused_where_an_item_would_stop(long_run, tail):
    """Item by item, as the evaluation would; without a question nothing is refused."""
    run = replace(long_run, arms=[replace(arm, tail=tail if arm.split else 0) for arm in long_run.arms])
    for dataset in ("trec", "passage_count"):
        item = read_v1(DATA / "v1", dataset).items[0]
        before = stops(lambda item=item: require_hidden(run.given, v1_questions(run, [item], prompts.OWN)))
        with torch.inference_mode():
            assert before == stops(lambda item=item: evaluate_v1(run, item, prompts.OWN))
        assert before == (dataset == "trec" and tail < 50)


def test_longbench_v2_counts_the_longest_reasoning(long_run, monkeypatch):
    """A tail that holds the question of both prompts, had the arm not reasoned, is too short once it did."""
    run = replace(long_run, budget=2000, context=4000)
    items = read_v2(DATA / "v2.json").items[:2]
    monkeypatch.setattr("ridgefill.evaluation.questions.REASONING_TOKENS", 0)
    silent = list(v2_questions(run, items, v2.OWN))
    monkeypatch.setattr("ridgefill.evaluation.questions.REASONING_TOKENS", 200)
    asked = list(v2_questions(run, items, v2.OWN))
    assert [one.item for one in asked[:2]] == ["own-0", "the second prompt of own-0"]
    tail = max(one.tokens - one.first for one in silent)
    enough = max(one.tokens - one.first for one in asked)
    assert tail < enough
    require_hidden([replace(BLIND, tail=enough)], asked)
    require_hidden([replace(BLIND, tail=tail)], silent)
    assert stops(lambda: require_hidden([replace(BLIND, tail=tail)], asked))


def test_a_job_refuses_before_it_names_its_items(characters, monkeypatch):
    """Nothing is evaluated: the sentence comes while the suite is prepared."""
    setup, ran = case_of("llama").setup, []
    arms = [TABLE["exact"], BLIND]
    bench = SimpleNamespace(
        loaded=Loaded(setup.loaded.adapter, characters, None), arms=arms, fitted=Fitted(), geometry=setup.geometry,
        seed_for=len, labels={"experiment": "e", "model": "m"},
    )  # fmt: skip
    monkeypatch.setattr("workflow.jobs.evaluate.load_bench", lambda _: bench)
    monkeypatch.setattr("ridgefill.evaluation.runs.require_arms", lambda _: None)
    suites = SimpleNamespace(longbench_v1=SimpleNamespace(arms=None))
    experiment = SimpleNamespace(suites=suites, tail=TAIL, window=16, arms_together=None)
    job = SimpleNamespace(experiment=experiment, model=SimpleNamespace(geometry=SimpleNamespace(context=2000)))
    given = longbench.Given(
        [], {}, {"budget": 300, "labels": {"source": "s"}}, [("item", ran.append)],
        lambda run: [Asked("item", len(run.given) * 100, 10)],
    )  # fmt: skip
    suite = longbench.longbench_suite("longbench_v1", lambda _: given)
    with pytest.raises(ConfigError, match=r"190 tokens from the end of item; expected a tail of as many"):
        suite.prepare(job)
    assert not ran
    suites.longbench_v1.arms = ["exact"]
    assert len(suite.prepare(job).items) == 1
