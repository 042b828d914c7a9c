"""Agreement with the exact arm: its own greedy tokens and the real ones, under every arm, as slow code has them."""

import runpy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ridgefill.arms import make_arm
from ridgefill.cost import Geometry, exact_macs
from ridgefill.errors import TextError
from ridgefill.evaluation.agreement import divergence, evaluate_agreement
from ridgefill.evaluation.documents import DocumentRun
from ridgefill.evaluation.runs import Fitted
from ridgefill.fill import oracle
from ridgefill.map_options import PLAIN
from ridgefill.maps import RidgeMaps
from ridgefill.models.load import Loaded
from ridgefill.models.wrap import adapter_for
from ridgefill.passes import run_exact
from ridgefill.results import SCHEMAS, write_table

TESTS = Path(__file__).parents[1]
BUILT = runpy.run_path(str(TESTS / "families" / "builders.py"))
SLOW = runpy.run_path(str(TESTS / "naive" / "agreement.py"))
LLAMA = runpy.run_path(str(TESTS / "naive" / "prefill.py"))["NaiveLlama"]
PROMPT, NEW, TAIL, SPLIT = 60, 10, 20, 3
# A KL of two nearly equal distributions is quadratic in their logits' rounding, 1e-5 of METHOD's bound at most.
NOTHING = 1e-9


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.inference_mode():
        yield


class Numbers:
    """A tokenizer for texts of numbers."""

    def __call__(self, text, **_):
        ids = [int(word) for word in text.split()]
        return {"input_ids": ids, "offset_mapping": [(place, place + 1) for place in range(len(ids))]}


def document(seed=0):
    """Token ids of a document that repeats itself: the second half begins as the first does."""
    generator = torch.Generator().manual_seed(seed)
    half = torch.randint(0, BUILT["VOCABULARY"], (PROMPT // 2 + 3,), generator=generator).tolist()
    return [*half, *half, *half][: PROMPT + NEW]


def random_maps(adapter, split):
    generator = torch.Generator().manual_seed(split)
    late, shape = range(split, adapter.layers), (adapter.hidden, adapter.width)
    return RidgeMaps(
        split,
        {layer: torch.randn(shape, generator=generator) * shape[1] ** -0.5 for layer in late},
        {layer: torch.randn(shape[0], generator=generator) * 0.1 for layer in late},
    )


def truth(adapter, ids, tail=TAIL):
    """Predictions that are true for the prompt in ``ids``."""
    prompt = torch.tensor([ids[:PROMPT]])
    inputs = run_exact(adapter, prompt, keep=range(adapter.layers)).inputs
    return oracle(adapter, inputs, torch.arange(PROMPT - tail))


def run_of(model, names, maps=None, split=SPLIT):
    """A run of the named arms; maps: made from the adapter."""
    adapter = adapter_for(model)
    arms = [make_arm(name, layers=adapter.layers, split=split, tail=TAIL, rows_share=0.1) for name in names]
    made = (maps or (lambda adapter: random_maps(adapter, split).predict))(adapter)
    return DocumentRun(
        Loaded(adapter, Numbers(), ""), arms, Fitted({(split, PLAIN): made}),
        Geometry(layers=adapter.layers, hidden=32, q=32, kv=16, ff=64), TAIL, 16, PROMPT, NEW,
        {"experiment": "e", "model": "m"},
    )  # fmt: skip


def agreed(run, ids):
    return evaluate_agreement(run, "d", "essays", " ".join(map(str, ids)), seed=5)


def tokens_of(made, arm, variant):
    return [row for row in made.tokens if (row["arm"], row["variant"]) == (arm, variant)]


@pytest.mark.parametrize("family", BUILT["FAMILIES"])
def test_both_continuations_are_the_stock_models(family):
    """The greedy tokens of passes from scratch, and the document's own; exact itself agrees and diverges by nothing."""
    model, ids = BUILT["FAMILIES"][family](), document()
    made = agreed(run_of(model, ["exact"], split=BUILT["SPLITS"].get(family, SPLIT)), ids)
    expected = {"greedy": SLOW["greedy"](model, ids[:PROMPT], NEW)[0], "text": ids[PROMPT:]}
    for variant, tokens in expected.items():
        rows = tokens_of(made, "exact", variant)
        assert [row["token"] for row in rows] == tokens
        assert [row["position"] for row in rows] == list(range(PROMPT, PROMPT + NEW))
        assert {(row["top1"], row["kl"], row["status"]) for row in rows} == {(True, 0.0, "ok")}


@pytest.mark.parametrize("family", BUILT["FAMILIES"])
def test_an_arm_that_is_fed_the_truth_follows_exactly(family):
    """A fill with true layer inputs: top-1 always, KL within rounding, on recurrent and windowed layers too; a wrong
    fill is far from that.
    """
    model, ids, split = BUILT["FAMILIES"][family](), document(), BUILT["SPLITS"].get(family, SPLIT)
    made = agreed(run_of(model, ["ridgefill"], lambda adapter: truth(adapter, ids), split), ids)
    wrong = agreed(run_of(model, ["ridgefill"], split=split), ids)
    for variant in ("greedy", "text"):
        rows = tokens_of(made, "ridgefill", variant)
        assert all(row["top1"] for row in rows)
        assert max(row["kl"] for row in rows) < NOTHING
        assert max(row["kl"] for row in tokens_of(wrong, "ridgefill", variant)) > 1000 * NOTHING


def naive_steps(model, ids, name, given):
    """What an arm says before each of ``given``, row by row in fp64."""
    naive, maps = LLAMA(model), random_maps(adapter_for(model), SPLIT)
    predict = {
        "no_fill": None,
        "identity": lambda layer, state: state,
        "ridgefill": lambda layer, state: maps.weights[layer].double() @ state + maps.biases[layer].double(),
    }[name]
    inputs, exact = naive.run_exact(ids[:PROMPT]), list(range(PROMPT - TAIL, PROMPT))
    outputs, caches = naive.run_filled(inputs, SPLIT, exact, predict, true_split_layer=True)
    return SLOW["fed"](naive, outputs[PROMPT - 1], caches, PROMPT, given)


def test_every_arm_diverges_as_it_does_row_by_row():
    """Arms that write nothing, the split state or a map, in one batch: KL and top-1 of naive passes in fp64."""
    model, ids = BUILT["llama"](), document()
    made = agreed(run_of(model, ["exact", "no_fill", "identity", "ridgefill"]), ids)
    own, steps = SLOW["greedy"](model, ids[:PROMPT], NEW)
    exact = {"greedy": (own, steps), "text": (ids[PROMPT:], SLOW["along"](model, ids[:PROMPT], ids[PROMPT:]))}
    for name in ("no_fill", "identity", "ridgefill"):
        for variant, (given, said) in exact.items():
            expected = naive_steps(model, ids, name, given)
            rows = tokens_of(made, name, variant)
            kl = [SLOW["divergence"](p.tolist(), q.tolist()) for p, q in zip(said, expected, strict=True)]
            assert [row["kl"] for row in rows] == pytest.approx(kl, rel=1e-3, abs=1e-7)
            assert [row["top1"] for row in rows] == [
                int(p.argmax()) == int(q.argmax()) for p, q in zip(said, expected, strict=True)
            ]
            assert max(kl) > 0.01


def test_arms_that_do_not_fit_one_batch_say_the_same(monkeypatch):
    """Batches of one: the same tokens, top-1 and KL, in the same order of arms."""
    ids, names = document(), ["exact", "no_fill", "identity", "ridgefill_random_rows", "ridgefill"]
    run = run_of(BUILT["llama"](), names)
    together = agreed(run, ids)
    monkeypatch.setattr("ridgefill.evaluation.agreement.DECODE_BYTES", 1)
    alone = agreed(run, ids)
    assert [row["arm"] for row in alone.rows] == names
    assert alone.rows == together.rows
    for one, other in zip(alone.tokens, together.tokens, strict=True):
        assert one["kl"] == pytest.approx(other["kl"], rel=1e-3, abs=NOTHING)
        assert {**one, "kl": 0} == {**other, "kl": 0}


def test_rows_say_what_each_arm_did(tmp_path):
    """One row for each arm with its rows and its work, and token rows that the published schemas take."""
    run = run_of(BUILT["llama"](), ["exact", "ridgefill", "ridgefill_rows_question_first"])
    made = agreed(run, document())
    assert [row["arm"] for row in made.rows] == ["exact", "ridgefill"], "a document has no question to move"
    exact, filled = made.rows
    assert exact["macs"] == exact["exact_macs"] == filled["exact_macs"] == exact_macs(run.geometry, PROMPT)
    assert (filled["filled_rows"], filled["exact_rows"], filled["tail"]) == (PROMPT - TAIL, 0, TAIL)
    assert filled["macs"] < filled["exact_macs"]
    assert (filled["new_tokens"], filled["seed"]) == (NEW, 5)
    marks = {"git_commit": "0", "config_sha256": "0", "ledger_entry": "main/1"}
    write_table(tmp_path / "rows.parquet", "agreement", made.rows, marks)
    write_table(tmp_path / "tokens.parquet", "agreement_tokens", made.tokens, marks)
    assert len(made.tokens) == 2 * 2 * NEW
    assert set(made.tokens[0]) == set(SCHEMAS["agreement_tokens"].names)


def test_copyable_tokens_are_those_that_end_a_repeated_run():
    """The document repeats its first 33 tokens, so all that follows the prompt was there before, nine tokens long."""
    run = run_of(BUILT["llama"](), ["exact"])
    flags = [row["copyable"] for row in tokens_of(agreed(run, document()), "exact", "text")]
    assert flags == [True] * NEW
    fresh = torch.randperm(BUILT["VOCABULARY"], generator=torch.Generator().manual_seed(1))[: PROMPT + NEW].tolist()
    assert not any(row["copyable"] for row in tokens_of(agreed(run, fresh), "exact", "text"))


def test_a_divergence_is_that_of_the_definition():
    """Against one term at a time; never below zero; nothing from what exact rules out."""
    generator = torch.Generator().manual_seed(2)
    p, q = torch.randn(7, 40, generator=generator) * 5, torch.randn(7, 40, generator=generator) * 5
    found = divergence(p, q)
    assert found.dtype == torch.float64
    assert found.tolist() == pytest.approx(
        [SLOW["divergence"](*pair) for pair in zip(p.tolist(), q.tolist(), strict=True)]
    )
    assert divergence(p, p + 3.0).tolist() == pytest.approx([0.0] * 7, abs=1e-12)
    assert float(divergence(p, p + 3.0).min()) >= 0.0
    p[:, 3] = -torch.inf
    assert divergence(p, q).isfinite().all()
    assert divergence(q, p).isinf().all()


def test_a_divergence_that_is_no_number_is_null_and_says_so(monkeypatch):
    """An arm that rules out what exact does not: NULL with a status, never an infinity in a results file."""
    run = run_of(BUILT["llama"](), ["exact", "identity"])
    monkeypatch.setattr(
        "ridgefill.evaluation.agreement.divergence", lambda exact, other: torch.full(other.shape[:-1], torch.inf)
    )
    made = agreed(run, document())
    assert {(row["kl"], row["status"]) for row in tokens_of(made, "identity", "greedy")} == {(None, "not finite")}
    assert {(row["kl"], row["status"]) for row in tokens_of(made, "identity", "text")} == {(None, "not finite")}


def test_a_short_document_is_refused_by_name():
    """One token short of prompt and continuation."""
    run = run_of(BUILT["llama"](), ["exact"])
    with pytest.raises(TextError, match=f"document d has {PROMPT + NEW - 1} tokens; {PROMPT + NEW} are needed"):
        agreed(run, document()[:-1])
    one = replace(run, scored_tokens=1)
    assert len(agreed(one, document()).tokens) == 2
