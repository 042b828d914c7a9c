"""The overlap gate finds shared runs of 50 words, and only those."""

from hypothesis import given
from hypothesis import strategies as st

from ridgefill.suites.overlap import overlap


def naive(calibration, evaluation, run):
    """Ids that share a run, by comparing every pair of windows."""
    windows = {
        name: {tuple(text.split()[i : i + run]) for i in range(len(text.split()) - run + 1)}
        for name, text in (*calibration, *evaluation)
    }
    return {c for c, _ in calibration for e, _ in evaluation if windows[c] & windows[e]}


def test_fifty_shared_words_are_found_and_forty_nine_are_not(prose):
    """The gate's length is exact, and the finding says where and how long."""
    header = prose("licence", 50)
    evaluation = [("e", prose("e", 80) + " " + header + " " + prose("f", 20))]
    calibration = [("c", prose("c", 30) + " " + header + " " + prose("d", 30))]
    (finding,) = overlap(calibration, evaluation)
    assert (finding.calibration, finding.evaluation, finding.start, finding.words) == ("c", "e", 30, 50)
    shorter = [("c", " ".join(calibration[0][1].split()[31:]))]
    assert overlap(shorter, evaluation) == []


def test_case_and_punctuation_do_not_hide_a_shared_run(prose):
    """A rewrapped, capitalised comment block is still the same run."""
    text = prose("x", 60)
    (finding,) = overlap([("c", text.upper().replace(" ", ",\n# "))], [("e", text)])
    assert finding.words == 60


def test_two_separate_runs_are_two_findings(prose):
    """Runs interrupted by other words are reported one by one."""
    one, two = prose("one", 55), prose("two", 52)
    found = overlap([("c", f"{one} {prose('gap', 9)} {two}")], [("e", f"{two} {one}")])
    assert [(finding.start, finding.words) for finding in found] == [(0, 55), (64, 52)]


@given(st.lists(st.lists(st.sampled_from("ab"), max_size=12), min_size=2, max_size=4))
def test_the_gate_agrees_with_comparing_all_windows(texts):
    """Same guilty calibration texts as the naive comparison, at a run of 4."""
    named = [(str(i), " ".join(words)) for i, words in enumerate(texts)]
    found = overlap(named[1:], named[:1], run=4)
    assert {finding.calibration for finding in found} == naive(named[1:], named[:1], 4)
    assert all(finding.words >= 4 for finding in found)
