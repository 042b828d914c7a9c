"""LongBench answers are earned a second time as the suites earned them, whatever was written."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgefill.recompute.longbench import two_sided, wrong_answers
from ridgefill.stats import sign_test
from ridgefill.suites.longbench.files import V2Item
from ridgefill.suites.longbench.scores import score
from ridgefill.suites.longbench.v2 import judge

WORDS = [
    "the ",
    "The",
    "an",
    " a ",
    "red",
    "red.",
    " blue",
    "\n",
    "12",
    " 1",
    "12,",
    "Paragraph ",
    "段落",
    "!",
    "É",
    "",
]
REFERENCES = {
    "hotpotqa": ["the red Blue", "red", "."],
    "triviaqa": ["a red 12"],
    "passage_count": ["12"],
    "passage_retrieval_en": ["Paragraph 12", "Paragraph 1"],
    "passage_retrieval_zh": ["段落12"],
}
METRICS = {"hotpotqa": "f1", "triviaqa": "f1", "passage_count": "count"}
V1, V2 = "longbench_v1/samples.parquet", "longbench_v2/samples.parquet"
PIECES = ["The correct answer is ", "(", ")", "A", "B", "E", "*", "\n", "the ", "(C)"]


def found_in(name, row):
    """Mismatches of a file with this one row."""
    known = {"arm": "exact", "split": None, "sample": 0, "item": "one"}
    return [place for place, *_ in wrong_answers(SimpleNamespace(rows={name: [known | row]}))]


@pytest.mark.parametrize("dataset", REFERENCES)
@settings(max_examples=60, deadline=None)
@given(pieces=st.lists(st.sampled_from(WORDS), max_size=8))
def test_scores_are_those_of_the_suite_and_no_others(dataset, pieces):
    """No mismatch for what the suite scores, one for anything else, whatever was written."""
    row = {
        "dataset": dataset, "metric": METRICS.get(dataset, "retrieval"), "prediction": "".join(pieces),
        "references": REFERENCES[dataset], "status": "ok",
    }  # fmt: skip
    earned = score(dataset, row["prediction"], row["references"])
    assert not found_in(V1, row | {"score": earned})
    assert len(found_in(V1, row | {"score": earned / 2 + 0.25 if earned != 0.5 else 0.4})) == 1


@settings(max_examples=60, deadline=None)
@given(reasoning=st.sampled_from(["", "so"]), pieces=st.lists(st.sampled_from(PIECES), max_size=8))
def test_verdicts_are_those_of_the_suite_and_no_others(reasoning, pieces):
    """Status, letter and correctness of any response; another answer key is another verdict, unless nothing counts."""
    item = V2Item("one", "d", "s", "easy", "short", "?", ("a", "b", "c", "d"), "B", "text")
    outcome = judge(item, reasoning, "".join(pieces))
    row = {
        "reasoning": reasoning, "response": "".join(pieces), "answer": "B", "status": outcome.status,
        "choice": outcome.choice, "correct": outcome.correct,
    }  # fmt: skip
    assert not found_in(V2, row)
    assert len(found_in(V2, row | {"choice": "D"})) == 1
    assert len(found_in(V2, row | {"correct": not outcome.correct})) == 1


@settings(max_examples=60, deadline=None)
@given(one=st.integers(0, 80), other=st.integers(0, 80))
def test_the_second_sign_test_is_the_first(one, other):
    """Counted from the other side of the distribution: every split at least as uneven."""
    assert two_sided(one, other) == pytest.approx(sign_test(one, other), rel=1e-12)
    assert two_sided(48, 41) == pytest.approx(0.525, abs=5e-4)
