"""All arms of a prompt from one exact pass: the same as running each arm by itself, and the same loss as
stock.
"""

from dataclasses import replace

import pytest
import torch

from ridgefill.arms import make_arm
from ridgefill.cost import exact_macs, fill_macs
from ridgefill.errors import TextError
from ridgefill.evaluation.documents import DocumentRun, evaluate_document
from ridgefill.evaluation.prompts import chat_text, opening
from ridgefill.evaluation.runs import Fitted, Setup, kept_layers, log_likelihood, run_arms
from ridgefill.fill import predictor, run_late
from ridgefill.map_options import PLAIN
from ridgefill.models.load import Loaded
from ridgefill.passes import run_exact, run_lower
from ridgefill.rows import plan_rows
from ridgefill.selectors.context import Context

TOKENS, AFTER, TAIL, SPLIT = 100, 12, 30, 4
ARMS = (
    "exact", "no_fill", "identity", "ridgefill", "pop_native", "identity_rows", "identity_random_rows",
    "identity_longer_tail", "identity_question_blind_rows", "ridgefill_rows", "ridgefill_random_rows",
    "ridgefill_longer_tail", "ridgefill_question_blind_rows", "no_fill_longer_tail",
)  # fmt: skip


@pytest.fixture
def arms():
    return [make_arm(name, layers=6, split=SPLIT, tail=TAIL, rows_share=0.1) for name in ARMS]


@pytest.fixture
def maps(adapter, random_maps):
    return {(SPLIT, PLAIN): random_maps(SPLIT).predict}


def run_all(adapter, arms, maps, geometry, ids, tokens, seed=3):
    setup = Setup(Loaded(adapter, None, ""), arms, Fitted(maps), geometry, TAIL, 64)
    context = Context(tuple(ids[0, :tokens].tolist()), 0, question=(tokens, tokens), seed=seed)
    exact = run_exact(adapter, ids, keep=kept_layers(setup), window=(0, tokens))
    return list(run_arms(setup, exact, context, arms))


def test_arms_from_one_exact_pass_equal_arms_by_themselves(adapter, arms, maps, geometry, prompt):
    """Every arm: last output, rows and cost as when only its own lower layers are run on the prompt."""
    ids = prompt(TOKENS)
    for done in run_all(adapter, arms, maps, geometry, ids, TOKENS):
        arm = done.arm
        if arm.split is None:
            assert (done.filled_rows, done.selected, done.macs.total) == (0, (), exact_macs(geometry, TOKENS))
            continue
        lower = run_lower(adapter, ids, arm.split, window=TOKENS)
        plan = plan_rows(arm, replace(Context.around(adapter, lower, 3), question=(TOKENS, TOKENS)), geometry)
        alone = run_late(adapter, lower, plan, predictor(arm, maps, adapter), arm)
        assert torch.equal(done.hidden, alone.hidden[:, -1:])
        assert (done.filled_rows, done.selected, done.tail) == (len(plan.filled), plan.selected, plan.tail)
        assert done.filled_rows + len(done.selected) == (0 if arm.fill == "none" else TOKENS - plan.tail)
        assert done.macs.rows == fill_macs(
            geometry, tokens=TOKENS, split=arm.split, tail=plan.tail, fill=arm.fill,
            exact_rows=plan.selected, mapped_split_layer=False,
        )  # fmt: skip


def test_arms_with_the_same_seed_share_their_random_rows(adapter, arms, maps, geometry, prompt):
    """Identity and ridgefill draw the same rows of a sample, so their contrast is about the fill alone."""
    runs = {done.arm.name: done for done in run_all(adapter, arms, maps, geometry, prompt(TOKENS), TOKENS)}
    assert runs["identity_random_rows"].selected == runs["ridgefill_random_rows"].selected
    assert runs["identity_random_rows"].macs.total < runs["ridgefill_random_rows"].macs.total
    assert {len(runs[name].selected) for name in runs if name.endswith("rows")} == {10}
    assert runs["ridgefill_longer_tail"].tail == TAIL + 10


def test_the_exact_arms_loss_is_the_stock_models(tiny, adapter, arms, maps, geometry, prompt):
    """Continuation tokens score as in one stock forward pass, and arms with a fill score otherwise."""
    ids = prompt(TOKENS + AFTER)
    stock = tiny()(ids).logits[0, TOKENS - 1 : -1].double().log_softmax(-1)
    expected = -stock[torch.arange(AFTER), ids[0, TOKENS:]]
    for done in run_all(adapter, arms, maps, geometry, ids, TOKENS):
        assert done.hidden.shape[1] == AFTER + 1
        loss = log_likelihood(adapter, done.hidden[:, :-1], ids[0, TOKENS:]).double()
        same = torch.allclose(loss, expected, rtol=1e-5, atol=1e-5)
        assert same == (done.arm.split is None)
        assert bool(loss.isfinite().all())


class Numbers:
    """A tokenizer for texts of numbers."""

    def __call__(self, text, **_):
        ids = [int(word) for word in text.split()]
        return {"input_ids": ids, "offset_mapping": [(place, place + 1) for place in range(len(ids))]}


@pytest.fixture
def document_run(adapter, arms, maps, geometry):
    return DocumentRun(
        Loaded(adapter, Numbers(), ""), arms, Fitted(maps), geometry, TAIL, 20, TOKENS, AFTER,
        {"experiment": "e", "model": "m"},
    )  # fmt: skip


def test_a_document_is_scored_once_per_arm_and_token(tiny, document_run, prompt):
    """Positions, tokens and masks are the same for every arm; exact's loss and the key mask are those of
    stock.
    """
    ids = prompt(TOKENS + AFTER + 7, 8)[0].tolist()  # a seed with three key tokens
    scored = evaluate_document(document_run, "d", "essays", " ".join(map(str, ids)), seed=1)
    assert [row["arm"] for row in scored.rows] == list(ARMS)
    assert len(scored.timings) == len(ARMS)
    by_arm = {name: [row for row in scored.tokens if row["arm"] == name] for name in ARMS}
    ids = ids[: TOKENS + AFTER]
    targets = torch.tensor(ids[TOKENS:])

    def loss(begin):
        logits = tiny()(torch.tensor([ids[begin:]])).logits[0, TOKENS - 1 - begin : -1].double()
        return -logits.log_softmax(-1)[torch.arange(AFTER), targets]

    full, cut = loss(0), loss(TOKENS - TAIL)
    exact = by_arm["exact"]
    assert [row["nll"] for row in exact] == pytest.approx(full.tolist(), rel=1e-5, abs=1e-5)
    assert [row["key"] for row in exact] == (cut - full > 2.0).tolist()
    assert sum(row["key"] for row in exact) == 3
    for rows in by_arm.values():
        assert [row["position"] for row in rows] == list(range(TOKENS, TOKENS + AFTER))
        assert [row["token"] for row in rows] == ids[TOKENS:]
        assert [(row["key"], row["novel"]) for row in rows] == [(row["key"], row["novel"]) for row in exact]


class Marked(Numbers):
    """As ``Numbers``, opening every text with the mark 7 unless told not to."""

    bos_token_id, bos_token, chat_template = 7, "7 ", None

    def __call__(self, text, add_special_tokens=True, **_):
        ids = super().__call__(text)["input_ids"]
        encoded = super().__call__(text)
        return {**encoded, "input_ids": [7, *ids] if add_special_tokens else ids}


def test_a_model_that_knows_text_only_after_a_mark_gets_it(tiny, document_run, prompt):
    """The mark opens the prompt and the cut that finds key tokens; a question without a template follows it too."""
    words = prompt(TOKENS + AFTER, 8)[0].tolist()
    run = replace(document_run, loaded=replace(document_run.loaded, tokenizer=Marked()))
    scored = evaluate_document(run, "d", "essays", " ".join(map(str, words)), seed=1)
    ids = [7, *words[:-1]]
    targets = torch.tensor(ids[TOKENS:])

    def loss(given):
        logits = tiny()(torch.tensor([given])).logits[0, -AFTER - 1 : -1].double()
        return -logits.log_softmax(-1)[torch.arange(AFTER), targets]

    full, cut = loss(ids), loss([7, *ids[TOKENS - TAIL :]])
    exact = [row for row in scored.tokens if row["arm"] == "exact"]
    assert [row["nll"] for row in exact] == pytest.approx(full.tolist(), rel=1e-5, abs=1e-5)
    assert [row["key"] for row in exact] == (cut - full > 2.0).tolist()
    assert opening(Marked()) == [7]
    assert opening(Numbers()) == []
    assert chat_text(Marked(), "1 2") == "7 1 2"


@pytest.mark.parametrize("words", [0, TAIL - 1, TOKENS + AFTER - 1])
def test_an_empty_or_short_document_is_refused_by_name(document_run, words):
    """Empty, shorter than the tail, or one token short: the counts and the document are named."""
    with pytest.raises(TextError, match=f"document d has {words} tokens; {TOKENS + AFTER} are needed"):
        evaluate_document(document_run, "d", "essays", " ".join(["1"] * words), seed=1)
