"""What is printed of a search."""

from dataclasses import replace

from ridgefill.tuning.candidates import Candidate
from ridgefill.tuning.report import Outcome
from ridgefill.tuning.search import Found, Trial


def test_the_recommendation_is_listed_also_when_it_is_not_on_the_front():
    """A dearer setting that retrieves as much, with less loss; the front itself does not change."""
    thin = Trial(Candidate(19, 128), 0.70, (100.0, 50.0), 0.1, 1.0)
    whole = Trial(Candidate(20, 128), 0.72, (100.0, 50.0), 0.1, 0.7)
    trials = {one.candidate.key: one for one in (thin, whole)}
    found = Found(trials, (thin, whole), whole, (100.0, 100.0), ((2, 2),), ())
    outcome = Outcome("m", 512, 0.75, 0, found, None, {}, "out")
    assert (outcome.front, outcome.shown) == ([thin], [thin, whole])
    on_front = replace(outcome, found=replace(found, chosen=thin))
    assert on_front.shown == [thin]
