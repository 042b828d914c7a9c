"""From a suite's prompt to what selectors see: template, turn and question as positions, and no more than is read."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgefill.arms import ARM_NAMES, ArmSettings, arm_table
from ridgefill.errors import TextError
from ridgefill.evaluation.contexts import prompt_context
from ridgefill.evaluation.prompts import chat_text
from ridgefill.selectors.frequency import Frequencies
from ridgefill.selectors.tokens import SpecialIds

TABLE = arm_table(ArmSettings(layers=6, split=4, tail=30))
EVERY = tuple(TABLE.values())
TURN = "The Keeper of 7 keys sat down.\n\nIt costs 7up or 42 coins. What does it cost?"
QUESTION = TURN.index("What does")
ANSWER = " It costs"


def encoded(tokenizer, text=TURN, after=ANSWER):
    """The prompt around a turn: its text, ids, offsets and the turn's characters."""
    whole = chat_text(tokenizer, text) + after
    found = tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True)
    start = whole.index(text)
    offsets = [tuple(pair) for pair in found["offset_mapping"]]
    return whole, list(found["input_ids"]), offsets, (start, start + len(text))


def context_of(tokenizer, arms=EVERY, **changed):
    """The context of that prompt for some arms."""
    text, ids, offsets, turn = encoded(tokenizer)
    asked = (turn[0] + QUESTION, len(text))
    given = {"text": text, "offsets": offsets, "seed": 5, "turn": turn, "question": asked} | changed
    return prompt_context(arms, tokenizer, ids, **given)


def said(context, spans):
    """What the tokens of these positions say."""
    return ["".join(context.texts[first:end]) for first, end in spans]


def test_the_template_is_what_stands_around_the_turn(chatty):
    """Its opening, and its closing with everything after it: the answer's prefix is no content either."""
    context = context_of(chatty)
    before, after = context.template
    assert said(context, [before]) == ["<|im_start|>user\n"]
    assert said(context, [after]) == ["<|im_end|>\n<|im_start|>assistant\n" + ANSWER]
    assert said(context, [(before[1], after[0])]) == [TURN]
    assert (before[0], after[1]) == (0, context.tokens)


def test_the_question_goes_from_its_first_token_to_the_prompts_end(chatty):
    """With the template's close and the answer's prefix, which names what is asked for too."""
    context = context_of(chatty)
    first, end = context.question
    assert end == context.tokens
    assert said(context, [(first, end)])[0].lstrip().startswith("What does it cost?<|im_end|>")
    # A token that begins with the space before the question is the question's first.
    low, high = context.offsets[first]
    start = context.text.index("What does")
    assert low <= start < high


def test_a_prompt_that_asks_nothing_has_an_empty_question_at_its_end(chatty):
    """Known to be nowhere, so that rows may be blind to it; a text without a turn has no template."""
    context = context_of(chatty, turn=None, question=None)
    assert context.question == (context.tokens, context.tokens)
    assert context.template == ()


def test_texts_and_offsets_are_the_prompts_own(chatty):
    """One for each token, together the whole text; special tokens by kind, the ends of turns and what a user added."""
    context = context_of(chatty)
    assert "".join(context.texts) == context.text
    assert [context.text[low:high] for low, high in context.offsets] == list(context.texts)
    control = {chatty.convert_tokens_to_ids(token) for token in ("<|im_start|>", "<|im_end|>")}
    assert context.special.control == control
    assert context.special.user_defined == {chatty.convert_tokens_to_ids("7up")}
    assert (context.prefix, context.seed, context.frequencies) == (0, 5, None)


READS = {
    "ridgefill_random_rows": set(),
    "ridgefill_rows": set(),
    "ridgefill_digits": {"texts", "special"},
    "ridgefill_special": {"special"},
    "ridgefill_protected": {"texts", "special"},
    "ridgefill_lexical": {"text", "offsets", "special", "template"},
    "ridgefill_probe": {"texts", "text", "offsets", "special", "template"},
}


@pytest.mark.parametrize("name", READS)
def test_only_what_some_arm_reads_is_made(chatty, name):
    """A long prompt's texts are not decoded for nothing."""
    context = context_of(chatty, [TABLE["exact"], TABLE[name]])
    empty = {"texts": None, "text": None, "offsets": None, "special": SpecialIds(), "template": ()}
    assert {field for field, value in empty.items() if getattr(context, field) != value} == READS[name]


TEXTUAL = [name for name in ARM_NAMES if TABLE[name].rows is not None and not TABLE[name].needs & {"lower", "probe"}]


@pytest.mark.parametrize("name", TEXTUAL)
def test_an_arm_picks_the_same_rows_whoever_runs_beside_it(chatty, name):
    """What it reads does not depend on which other arms made the context; of all rules that read text."""
    arm = TABLE[name]
    counted = Frequencies(tuple(range(len(chatty))))
    alone, together = (context_of(chatty, arms, frequencies=counted) for arms in ([arm], EVERY))
    prefix = alone.tokens - 20
    found, expected = (arm.rows.rows(replace(one, prefix=prefix)) for one in (alone, together))
    assert found == expected


def test_the_name_of_a_special_token_is_no_digit(chatty):
    """A digit arm that runs alone passes it over, too."""
    digits = TABLE["ridgefill_digits"]
    context = context_of(chatty, [digits])
    context = replace(context, prefix=context.tokens)
    found = digits.rows.rows(context)
    assert "7up" in context.texts
    assert all(context.texts[row] != "7up" for row in found)
    assert "".join(context.texts[row] for row in found).replace(" ", "") == "742"


def test_a_matched_arm_has_what_its_target_reads(chatty):
    """Though it draws its own rows by seed alone."""
    matched = replace(TABLE["ridgefill_random_rows"], matched=TABLE["ridgefill_protected"])
    assert context_of(chatty, [matched]).texts is not None


def test_offsets_of_another_prompt_are_refused(chatty):
    """A question or a turn that no token holds."""
    far = len(encoded(chatty)[0]) + 9
    with pytest.raises(TextError, match=f"no token holds characters {far} to {far + 4}"):
        context_of(chatty, question=(far, far + 4))
    with pytest.raises(TextError, match="the offsets belong to another prompt"):
        context_of(chatty, turn=(far, far + 4))


pieces = st.text(st.sampled_from("abc é7.\n?ß世"), min_size=1, max_size=30)


@given(before=pieces, asked=pieces)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_spans_hold_exactly_the_tokens_of_their_characters(chatty, before, asked):
    """Property: of any turn and question, against every token tried by hand; several tokens may share a character."""
    turn_text = before + "|" + asked + "|"
    text, ids, offsets, turn = encoded(chatty, turn_text)
    start = turn[0] + len(before) + 1
    context = prompt_context(
        EVERY, chatty, ids, text=text, offsets=offsets, seed=1, turn=turn, question=(start, len(text)),
        frequencies=Frequencies((0,) * len(chatty)),
    )  # fmt: skip
    inside = [row for row, (low, high) in enumerate(offsets) if any(start <= at < len(text) for at in range(low, high))]
    assert list(range(*context.question)) == inside
    own = [row for row, (low, high) in enumerate(offsets) if any(turn[0] <= at < turn[1] for at in range(low, high))]
    around = [row for span in context.template for row in range(*span)]
    assert sorted([*own, *around]) == list(range(len(ids)))
