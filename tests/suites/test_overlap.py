"""The overlap gate finds shared runs of 50 words, and only those."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from ridgefill.suites.overlap import overlap, words_of
from ridgefill.suites.overlap_report import Compared, counts, overlap_markdown


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
    assert finding.evaluation_start == 80
    assert finding.sha256 == hashlib.sha256(" ".join(words_of(header)).encode()).hexdigest()
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


@given(st.lists(st.lists(st.sampled_from("ab"), max_size=12), min_size=2, max_size=4))
def test_a_finding_points_at_the_same_words_on_both_sides(texts):
    """From its two places, a finding's first run is word for word the same, and its hash is of those words."""
    named = {str(i): " ".join(words) for i, words in enumerate(texts)}
    for finding in overlap([*named.items()][1:], [*named.items()][:1], run=4):
        mine = named[finding.calibration].split()[finding.start :][:4]
        assert mine == named[finding.evaluation].split()[finding.evaluation_start :][:4]
        assert finding.sha256 == hashlib.sha256(" ".join(mine).encode()).hexdigest()
        assert finding.start + finding.words <= len(named[finding.calibration].split())


def test_the_report_counts_by_role_and_domain_and_shows_runs_without_their_words(prose):
    """Rows in the order of the roles; a run is a hash and two places, and none of its words is in the Markdown."""
    text = prose("shared", 60)
    compared = [
        Compared("haystack", "essays", "h", "one two"),
        Compared("calibration", "legal", "c", text),
        Compared("evaluation", "code", "e", text),
        Compared("evaluation", "code", "f", "three"),
    ]
    rows = counts(compared)
    assert [(row["role"], row["domain"], row["texts"], row["words"]) for row in rows] == [
        ("evaluation", "code", 2, 61),
        ("calibration", "legal", 1, 60),
        ("haystack", "essays", 1, 2),
    ]
    found = overlap([("c", text)], [("e", text)])
    totals = {"calibration_texts": 1, "calibration_words": 60, "evaluation_texts": 3, "evaluation_words": 63}
    shown = overlap_markdown({"run_words": 50, **totals, "counts": rows, "findings": [one.as_json() for one in found]})
    assert f"| c | 0 | e | 0 | 60 | {found[0].sha256[:16]} |" in shown
    assert "| calibration | legal | 1 |" in shown
    assert "wsharedx" not in shown
    assert overlap_markdown({"run_words": 50, **totals, "findings": []}).startswith("No shared run of 50 words")
