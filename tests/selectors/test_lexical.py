"""The lexical net against every sentence compared with every stretch of the window, word by word."""

import runpy
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgefill.errors import ConfigError
from ridgefill.selectors.context import Context, Work
from ridgefill.selectors.lexical import LexicalNet

HERE = Path(__file__)
NAIVE = runpy.run_path(str(HERE.parents[1] / "naive" / "selectors.py"))
MATERIAL = runpy.run_path(str(HERE.with_name("material.py")))
made, prompts, VOCABULARY = MATERIAL["made"], MATERIAL["prompts"], MATERIAL["VOCABULARY"]


def hidden(context):
    control = {row for row, token in enumerate(context.ids) if token in (0, 1)}
    return control | {row for first, end in context.template for row in range(first, end)}


@st.composite
def nets(draw):
    """A net, and the same settings for the naive one."""
    small = st.integers(1, 3)
    run, times, first = draw(small), draw(small), draw(st.integers(1, 6))
    window, percent = draw(st.integers(1, 30)), draw(st.sampled_from([0, 5, 25, 50, 100]))
    slow = {"run": run, "times": times, "first": first, "window": window, "percent": percent}
    return LexicalNet(run, window, times, first, percent / 100), slow


@settings(max_examples=400)
@given(prompts(), nets())
def test_caught_rows_equal_the_naive_ones(context, net):
    """Property: words cut by token ends, hidden tokens in between, sentences across the tail, every cap."""
    found, expected = net
    slow = NAIVE["lexical"](context.text, context.offsets, hidden(context), context.prefix, **expected)
    assert list(found.rows(context)) == slow


def spoken(*sentences, tail="", template=()):
    """A prompt of one token per character run: words with the space before them, and punctuation."""
    text = "".join(sentences) + tail
    parts, start = [], 0
    for place in range(1, len(text) + 1):
        if place == len(text) or not (text[place - 1].isalnum() and text[place].isalnum()):
            parts.append((start, place))
            start = place
    prefix = sum(end <= len("".join(sentences)) for _, end in parts)
    return Context(
        tuple(range(100, 100 + len(parts))), prefix, text=text, offsets=tuple(parts), template=tuple(template)
    )


def caught(context, net=None):
    """Text of the caught rows; without a net, of one that looks at the whole tail and nothing else."""
    net = net or LexicalNet(window=max(1, context.tail), share=1.0)
    return "".join(context.text[slice(*context.offsets[row])] for row in net.rows(context))


def test_a_sentence_that_the_question_quotes_is_caught_whole():
    """Four words in a row, one of them rare in the prefix; case does not count, the sentence's own full stop does."""
    context = spoken(
        "It was late. ", "The lock of Bolding Manor is blue. ", "We left. ", tail="the LOCK of bolding gate"
    )
    assert caught(context) == "The lock of Bolding Manor is blue."


@pytest.mark.parametrize(
    ("tail", "why"),
    [
        ("the lock of a gate", "three words in a row"),
        ("the lock, so they say, of Bolding", "the four words are not in a row"),
        ("", "nothing is asked"),
    ],
)
def test_a_sentence_is_not_caught_by_less_than_a_run(tail, why):
    """Fewer than four words in a row share nothing."""
    assert caught(spoken("It was late. ", "The lock of Bolding Manor is blue. ", tail=tail)) == "", why


@pytest.mark.parametrize(("copies", "found"), [(1, True), (2, True), (3, False)])
def test_a_run_needs_a_word_that_is_rare_in_the_prefix(copies, found):
    """Twice is rare, three times is not."""
    context = spoken(*["The lock of Bolding. "] * copies, tail="the lock of Bolding")
    assert bool(caught(context)) is found


def cut(sentences, tail, inside):
    """A prompt of one token per character whose prefix ends with the first ``inside`` characters."""
    text = sentences + tail
    offsets = tuple((place, place + 1) for place in range(len(text)))
    return Context(tuple(range(len(text))), inside, text=text, offsets=offsets)


def test_a_word_that_the_tail_begins_in_is_not_of_the_prefix():
    """It makes no run with the words before it, and is no third occurrence."""
    said, net = "The lock of Bolding", LexicalNet(window=19, share=1.0)
    for inside, found in ((16, 0), (18, 0), (19, 19)):
        assert len(net.rows(cut(said + " ", said, inside))) == found
    twice = "The lock of. The lock of. A Bolding. " + said + ". Bolding "
    assert len(net.rows(cut(twice, said, len(twice) - 4))) == 20
    assert len(net.rows(cut(twice, said, len(twice)))) == 0


def test_a_word_that_the_window_begins_in_is_not_asked():
    """The window may cut a word in two, and its second half says nothing."""
    context = cut("The lock of Bolding ", "The lock of Bolding", 19)
    assert [len(LexicalNet(window=window, share=1.0).rows(context)) for window in (18, 19)] == [0, 19]


def test_tokens_that_share_a_character_are_all_of_a_sentence():
    """A letter outside ASCII may be two tokens with the same offsets."""
    text = "é lock of Bolding. é lock of Bolding"
    offsets = [(0, 1), *((start, start + 1) for start in range(len(text)))]
    context = Context(tuple(range(len(offsets))), 20, text=text, offsets=tuple(offsets))
    assert LexicalNet(window=17, share=1.0).rows(context) == tuple(range(19))


def test_words_are_compared_without_case_in_every_script():
    """A sharp s is two in capitals."""
    context = spoken("Die lange Straße endet. ", tail="DIE LANGE STRASSE ENDET")
    assert caught(context) == "Die lange Straße endet."


def test_tokens_without_characters_are_not_of_a_sentence():
    """Some tokenizers mark a place with a token that covers no text."""
    text = "The lock of Bolding. the lock of Bolding"
    offsets = [(start, start + 1) for start in range(len(text))]
    offsets.insert(5, (0, 0))
    context = Context(tuple(range(len(offsets))), 22, text=text, offsets=tuple(offsets))
    assert LexicalNet(window=19, share=1.0).rows(context) == tuple(row for row in range(21) if row != 5)


def test_a_run_does_not_reach_across_template_tokens():
    """What the template wrote between two words ends a run, and its own words share nothing."""
    context = spoken("The lock of Bolding. ", tail="the lock|of Bolding")
    bar = next(row for row, (low, _) in enumerate(context.offsets) if context.text[low] == "|")
    assert caught(context) == "The lock of Bolding."
    split = spoken("The lock of Bolding. ", tail="the lock|of Bolding", template=[(bar, bar + 1)])
    assert caught(split) == ""
    own = spoken("The lock of Bolding. ", tail="the lock of Bolding.", template=[(0, 2)])
    assert caught(own) == ""


def test_the_window_counts_content_tokens_only():
    """Template tokens at the end do not push the question out of the window."""
    plain = spoken("The lock of Bolding. ", tail="the lock of Bolding ending here now")
    first = next(row for row, (low, _) in enumerate(plain.offsets) if plain.text[low:].startswith("ending"))
    net = LexicalNet(window=8, share=1.0)
    assert caught(plain, net) == ""
    closed = spoken(
        "The lock of Bolding. ", tail="the lock of Bolding ending here now", template=[(first, plain.tokens)]
    )
    assert caught(closed, net) == "The lock of Bolding."


def test_caps_of_a_sentence_and_of_the_prefix():
    """The first 80 rows of a sentence, and a twentieth of the prefix, earlier sentences first."""
    long = "The lock of Bolding " + "x " * 100 + ". "
    context = spoken(long, tail="the lock of Bolding")
    assert LexicalNet(window=7, share=1.0).rows(context) == tuple(range(80))
    assert LexicalNet(window=7).rows(context) == tuple(range(context.prefix * 5 // 100))


def test_a_prompt_without_text_is_refused_and_the_net_costs_nothing():
    """The context must have the prompt's text and offsets."""
    with pytest.raises(ConfigError, match="the prompt's text"):
        LexicalNet().rows(Context((1, 2), 1))
    assert LexicalNet().macs(Work(None, 10, 5, 1)) == 0
