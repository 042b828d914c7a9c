"""Protected, digit and special tokens, token frequencies, and controls of the same count, against slow references."""

import runpy
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgefill.errors import ConfigError, TextError
from ridgefill.selectors.classes import ELIGIBLE, token_class
from ridgefill.selectors.context import Context, Work, rounded_share, whole_share
from ridgefill.selectors.controls import LastRows, RandomRows
from ridgefill.selectors.digits import DigitTokens
from ridgefill.selectors.frequency import Frequencies
from ridgefill.selectors.protected import ProtectedTokens, protected_matches
from ridgefill.selectors.special import SpecialTokens

HERE = Path(__file__)
NAIVE = runpy.run_path(str(HERE.parents[1] / "naive" / "selectors.py"))
MATERIAL = runpy.run_path(str(HERE.with_name("material.py")))
IDS, VOCABULARY, made, prompts = (MATERIAL[name] for name in ("IDS", "VOCABULARY", "made", "prompts"))
documents = st.lists(st.lists(st.integers(0, len(VOCABULARY) - 1), max_size=20), max_size=4)


@given(prompts(), documents, st.sampled_from([0.0, 0.25, 0.5, 1.0]))
def test_protected_rows_equal_the_naive_ones(context, calibration, share):
    """Property: the rarest of the matches one by one, with many equally rare."""
    context = replace(context, frequencies=Frequencies.of(calibration, len(VOCABULARY)))
    found = ProtectedTokens(share).rows(context)
    expected = NAIVE["protected"](context.ids, context.texts, IDS.all, context.prefix, calibration, share)
    assert list(found) == expected


@given(prompts(), documents)
def test_protected_rows_are_eligible_and_never_special(context, calibration):
    """Property: a quarter of the matches, whatever the question: the tail's tokens change nothing."""
    table = Frequencies.of(calibration, len(VOCABULARY))
    selector, context = ProtectedTokens(), replace(context, frequencies=table)
    rows, matches = selector.rows(context), protected_matches(context)
    assert set(rows) <= set(matches)
    assert len(rows) == round(len(matches) / 4)
    assert all(token_class(context.texts[row]) in ELIGIBLE and context.ids[row] not in IDS.all for row in matches)
    other = made([*context.ids[: context.prefix], 4, 9], context.prefix, frequencies=table)
    assert selector.rows(other) == rows


@pytest.mark.parametrize(("matches", "rows"), [(0, 0), (1, 0), (2, 0), (3, 1), (6, 2), (10, 2), (14, 4)])
def test_a_quarter_rounds_halves_to_the_even_number(matches, rows):
    """2 and 10 matches leave a half below, 6 and 14 one above; equally rare tokens go by position."""
    token = VOCABULARY.index("Beta")
    context = made([token] * (matches + 2), matches, frequencies=Frequencies((0,) * len(VOCABULARY)))
    found = ProtectedTokens().rows(context)
    assert found == tuple(range(rows))


@given(prompts())
def test_digit_rows_equal_the_naive_ones(context):
    """Property: every prefix token with a digit, alone or inside a word."""
    expected = NAIVE["digits"](context.texts, context.ids, IDS.all, context.prefix)
    assert list(DigitTokens().rows(context)) == expected


@given(prompts())
def test_special_rows_are_all_special_tokens_of_the_prefix(context):
    """Property: control, unknown and user-defined ones, without a cap."""
    expected = [row for row, token in enumerate(context.ids) if token < 4 and row < context.prefix]
    assert list(SpecialTokens().rows(context)) == expected


@given(prompts(), st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_controls_pick_as_many_rows_as_what_they_are_compared_with(context, share):
    """Property: of a share of the prompt, or of another selector; random rows are those of the sample's seed."""
    for like in (None, DigitTokens()):
        count = len(like.rows(context)) if like else min(context.prefix, round(share * context.tokens))
        drawn, last = RandomRows(share, like).rows(context), LastRows(share, like).rows(context)
        assert len(drawn) == count
        assert drawn == RandomRows(count / context.tokens).rows(context)
        assert last == tuple(range(context.prefix - count, context.prefix))


@given(documents)
def test_frequencies_are_add_one_and_ordered_as_counts(calibration):
    """Property: positive, summing to one over the vocabulary, and larger exactly where the count is."""
    table = Frequencies.of(calibration, len(VOCABULARY))
    flat = [token for document in calibration for token in document]
    shares = [table.frequency(token) for token in range(len(VOCABULARY))]
    assert shares == [(flat.count(token) + 1) / (len(flat) + len(VOCABULARY)) for token in range(len(VOCABULARY))]
    assert sum(shares) == pytest.approx(1.0)


def test_tokens_outside_the_vocabulary_are_refused():
    """In a document and in a prompt, above and below."""
    for token in (5, -1):
        with pytest.raises(TextError, match="expected ids from 0 to 4"):
            Frequencies.of([[1, token]], 5)
        with pytest.raises(TextError, match="frequencies are known of 5"):
            Frequencies((0,) * 5).count(token)


@given(st.integers(0, 5000), st.integers(0, 100))
def test_shares_are_those_that_are_written(count, percent):
    """Property: a share in hundredths counts as exactly that, whatever it is in binary."""
    share = percent / 100
    assert whole_share(share, count) == percent * count // 100
    assert rounded_share(share, count) == round(percent * count / 100)


def test_a_context_refuses_what_does_not_fit_its_tokens():
    """Texts or offsets of another length, offsets outside the text, a prefix longer than the prompt."""
    for wrong in ({"texts": ("a",)}, {"offsets": ((0, 1),)}, {"text": "ab", "offsets": ((0, 1), (1, 3))}):
        with pytest.raises(TextError):
            Context((1, 2), 1, **wrong)
    with pytest.raises(ConfigError, match="prefix of 3 rows"):
        Context((1, 2), 3)


def test_selectors_name_what_the_context_lacks():
    """Token texts, and everything else that is read."""
    bare = Context((1, 2, 3), 2)
    with pytest.raises(ConfigError, match="the texts of the tokens"):
        DigitTokens().rows(bare)
    with pytest.raises(ConfigError, match="the texts of the tokens"):
        ProtectedTokens().rows(bare)
    with pytest.raises(ConfigError, match="the frequencies of tokens"):
        ProtectedTokens().rows(replace(bare, texts=("a", "b", "c")))
    with pytest.raises(ConfigError, match="the lower layers' pass"):
        bare.inputs(0, 1)


def test_rules_that_read_text_cost_nothing():
    """No multiply-accumulate is charged for them."""
    work = Work(None, 100, 80, 3)
    for selector in (ProtectedTokens(), DigitTokens(), SpecialTokens(), RandomRows(), LastRows()):
        assert selector.macs(work) == 0


def test_selectors_are_values():
    """Equal by their settings, hashable, and the same rows every time."""
    assert ProtectedTokens() == replace(ProtectedTokens(0.5), share=0.25)
    assert len({RandomRows(0.1), RandomRows(0.1), RandomRows(0.2)}) == 2
