"""Rows by attention below the split, the question seen and hidden, and the probe's budget, against slow references.

Numbers of fp32 and of the fp64 references differ by rounding, so equal rows are asked of models whose attention has no
ties; ties are asked of scripted numbers.
"""

import runpy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ridgefill.cost import Geometry
from ridgefill.errors import ConfigError
from ridgefill.passes import LowerPass, run_exact, run_lower
from ridgefill.ranking import ranked
from ridgefill.selectors.attention import AttentionRows
from ridgefill.selectors.budget import ProbeBudget
from ridgefill.selectors.context import Context, Window, Work
from ridgefill.selectors.frequency import Frequencies
from ridgefill.selectors.question import QuestionBlindRows

HERE = Path(__file__)
SLOW = runpy.run_path(str(HERE.parents[1] / "naive" / "selectors.py"))
LLAMA = runpy.run_path(str(HERE.parents[1] / "naive" / "prefill.py"))
MATERIAL = runpy.run_path(str(HERE.with_name("material.py")))
IDS, made = MATERIAL["IDS"], MATERIAL["made"]
# A split above a layer that ranks rows, by family.
SPLITS = {"llama": 5, "qwen3": 5, "gemma3": 3, "qwen3_5": 5, "qwen3_next": 5, "qwen4_exp": 4}
families = pytest.mark.parametrize("family", SPLITS)


def seen(adapter, ids, split, prefix, window=64, **more):
    """A context around one lower pass."""
    lower = run_lower(adapter, ids, split, window=window)
    return Context(tuple(ids[0].tolist()), prefix, adapter=adapter, lower=lower, **more)


def naive_rows(adapter, ids, first, end, prefix, count):
    slow = LLAMA["NaiveLlama"](adapter.model)
    received = SLOW["attention_received"](slow, slow.run_exact(ids[0].tolist()), [3], first, end)
    return sorted(SLOW["top"](received, prefix, count))


@pytest.fixture(scope="module")
def square():
    """A llama whose heads together are as wide as the model, as the naive one has them."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from ridgefill.models.wrap import adapter_for

    torch.manual_seed(6)
    config = LlamaConfig(
        num_hidden_layers=6, hidden_size=32, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=97, initializer_range=0.2, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    return adapter_for(LlamaForCausalLM(config).eval())


@pytest.mark.parametrize("tokens", [1, 21, 65, 130])
@pytest.mark.parametrize("window", [1, 24, 64])
def test_attended_rows_equal_the_naive_ones(square, prompt, tokens, window):
    """A tenth of the prompt, by attention from its last tokens, one query and one head at a time."""
    ids, prefix = prompt(tokens), max(0, tokens - 20)
    expected = naive_rows(square, ids, max(0, tokens - window), tokens, prefix, round(tokens / 10))
    assert list(AttentionRows(window=window).rows(seen(square, ids, 5, prefix))) == expected


@pytest.mark.parametrize("tokens", [21, 65, 130])
@pytest.mark.parametrize("window", [1, 24, 64])
def test_rows_blind_to_the_question_equal_the_naive_ones(square, prompt, tokens, window):
    """The same from the tokens before the tail, where the lower pass kept them; nothing after them has a say."""
    ids, prefix = prompt(tokens), tokens - 20
    context = seen(square, ids, 5, prefix, window=20 + window, question=(tokens - 5, tokens))
    expected = naive_rows(square, ids, max(0, prefix - window), prefix, prefix, round(tokens / 10))
    assert list(QuestionBlindRows(window=window).rows(context)) == expected
    other = torch.cat([ids[:, :prefix], prompt(20, seed=5)], dim=1)
    again = seen(square, other, 5, prefix, window=20 + window, question=(tokens - 5, tokens))
    assert list(QuestionBlindRows(window=window).rows(again)) == expected


@families
@pytest.mark.parametrize("step", [1, 7, 64])
def test_a_prompt_in_chunks_has_the_rows_of_one_pass(adapters, prompt, in_chunks, family, step):
    """Attended rows, blind rows and the probe's budget, whatever the chunks the lower layers ran in."""
    adapter, split, ids = adapters(family), SPLITS[family], prompt(130)
    more = {"question": (120, 130), "texts": ("Beta",) * 130, "frequencies": Frequencies((0,) * 97)}
    whole = seen(adapter, ids, split, 90, window=104, **more)
    parts = replace(whole, lower=in_chunks(adapter, ids, split, step, window=104))
    for selector in (AttentionRows(), QuestionBlindRows()):
        assert selector.rows(parts) == selector.rows(whole)
    budget = ProbeBudget()
    assert budget.union(parts) == budget.union(whole)


def test_a_continuation_after_the_prompt_has_no_say(square, prompt):
    """Scored tokens may lie in the same pass: rows are those of the prompt alone."""
    ids = prompt(120)
    more = run_exact(square, ids, keep=(5,), window=(36, 100)).lower(5, 100)
    context = Context(tuple(ids[0, :100].tolist()), 80, adapter=square, lower=more)
    assert AttentionRows().rows(context) == AttentionRows().rows(seen(square, ids[:, :100], 5, 80))


def test_windows_kept_beside_the_lower_pass_serve_too(square, prompt):
    """Blind rows from inputs that were kept on their own are those from one wide window."""
    ids = prompt(130)
    wide = seen(square, ids, 5, 90, window=130, question=(130, 130))
    window = Window(20, 95, {layer: x[:, 20:95] for layer, x in wide.lower.window_inputs.items()})
    context = seen(square, ids, 5, 90, question=(130, 130), windows=(window,))
    assert QuestionBlindRows().rows(context) == QuestionBlindRows().rows(wide)


class Scripted:
    """An adapter that only knows how much attention each position received."""

    device = torch.device("cpu")

    def __init__(self, received):
        self.received = torch.tensor(received)

    def rows(self, positions):
        return positions

    def attention_received(self, layer, x, rows, cache):
        return self.received[: int(rows[-1]) + 1]


def scripted(context, received):
    """The context with a lower pass of one layer in which every position received that much."""
    tokens = context.tokens
    lower = LowerPass(5, tokens, None, None, (0, tokens), {3: torch.zeros(1, tokens, 1)}, 0.0)
    return replace(context, adapter=Scripted(received), lower=lower)


amounts = st.sampled_from([0.0, 0.25, 0.5])


@given(st.data())
def test_ties_go_to_the_lower_position(data):
    """Property: attended and blind rows, and rankings, with many equal numbers."""
    received = data.draw(st.lists(amounts, min_size=2, max_size=60))
    tokens, share = len(received), data.draw(st.sampled_from([0.1, 0.3, 1.0]))
    prefix = data.draw(st.integers(0, tokens))
    expected = SLOW["top"](received, prefix, round(share * tokens))
    context = scripted(Context(tuple(range(tokens)), prefix, question=(tokens, tokens)), received)
    assert list(AttentionRows(share).rows(context)) == sorted(expected)
    assert list(QuestionBlindRows(share).rows(context)) == sorted(expected)
    assert list(ranked(torch.tensor(received), prefix)) == SLOW["top"](received, prefix, prefix)


@given(MATERIAL["prompts"](), st.sampled_from([0.0, 0.5, 1.0, 3.0]), st.data())
def test_the_budget_is_the_size_of_the_union_times_a_factor(context, factor, data):
    """Property: the rarer half of the matches, digits, a fifth of the prefix by attention, each rule naive."""
    vocabulary = len(MATERIAL["VOCABULARY"])
    documents = data.draw(st.lists(st.lists(st.integers(0, vocabulary - 1), max_size=20), max_size=3))
    received = data.draw(st.lists(amounts, min_size=context.tokens, max_size=context.tokens))
    context = scripted(context, received)
    parts = (
        SLOW["protected"](context.ids, context.texts, IDS.all, context.prefix, documents, 0.5),
        SLOW["digits"](context.texts, context.ids, IDS.all, context.prefix),
        SLOW["top"](received, context.prefix, SLOW["half_even"](context.prefix / 5)),
    )
    budget = ProbeBudget(factor)
    context = replace(context, frequencies=Frequencies.of(documents, vocabulary))
    union = set().union(*parts)
    assert budget.union(context) == union
    assert budget.size(context) == min(context.prefix, SLOW["half_even"](factor * len(union)))


@pytest.mark.parametrize("factor", [-1.0, float("nan"), float("inf")])
def test_a_budget_factor_that_is_no_share_is_refused(factor):
    """Below zero, and what is no number."""
    with pytest.raises(ConfigError, match="budget factor"):
        ProbeBudget(factor)


def test_blind_rows_need_to_know_where_the_question_is():
    """Nobody said; or it begins before the tail, where the selector would read it."""
    context = scripted(Context(tuple(range(30)), 20), [0.0] * 30)
    with pytest.raises(ConfigError, match="nobody said where the question is"):
        QuestionBlindRows().rows(context)
    with pytest.raises(ConfigError, match="the question begins at row 19, in the prefix of 20 rows"):
        QuestionBlindRows().rows(replace(context, question=(19, 25)))
    for known in ((20, 25), (0, 0), (30, 30)):
        assert len(QuestionBlindRows().rows(replace(context, question=known))) == 3


def test_what_the_lower_pass_did_not_keep_is_refused_by_name(square, prompt):
    """Rows outside every window, and a split with no layer below it that ranks rows."""
    context = seen(square, prompt(130), 5, 90, question=(130, 130))
    with pytest.raises(ConfigError, match="kept layer inputs of rows 66 to 129; rows 26 to 89 rank the prefix"):
        QuestionBlindRows().rows(context)
    with pytest.raises(ConfigError, match="no layer below split 3 ranks rows"):
        AttentionRows().rows(seen(square, prompt(130), 3, 90))


@pytest.mark.parametrize("selector", [AttentionRows(), QuestionBlindRows(), ProbeBudget()])
def test_ranking_costs_the_windows_queries_and_their_scores_in_every_ranking_layer(selector):
    """A query's projection and its scores with all rows it sees; a window is no longer than its rows, and no prefix
    costs nothing.
    """
    geometry = Geometry(layers=9, hidden=32, q=40, kv=16, ff=64)

    def expected(first, end):
        return 2 * sum(32 * 40 + 40 * (row + 1) for row in range(first, end))

    blind = isinstance(selector, QuestionBlindRows)
    assert selector.macs(Work(geometry, 300, 200, 8)) == (expected(136, 200) if blind else expected(236, 300))
    assert selector.macs(Work(geometry, 300, 0, 8)) == 0
    assert selector.macs(Work(geometry, 50, 30, 8)) == (expected(0, 30) if blind else expected(0, 50))
