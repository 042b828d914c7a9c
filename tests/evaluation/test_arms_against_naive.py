"""Corrected and spliced arms, and the rows that arms pick, against the naive references on the same prompts."""

import runpy
from functools import cache
from pathlib import Path

import pytest
import torch

from ridgefill.evaluation.records import measured_rows
from ridgefill.fitted_names import correction_name
from ridgefill.map_options import PLAIN
from ridgefill.passes import run_exact, selector_layers

CASES = runpy.run_path(str(Path(__file__).with_name("arm_cases.py")))
SPLITS, TOKENS, TAIL, WINDOW, case_of, dense = (
    CASES[name] for name in ("SPLITS", "TOKENS", "TAIL", "WINDOW", "case_of", "dense")
)
TESTS = Path(__file__).parents[1]
SLOW = runpy.run_path(str(TESTS / "naive" / "selectors.py"))
CORRECTIONS = runpy.run_path(str(TESTS / "naive" / "corrections.py"))
# fp32 against fp64 through the late layers, of the largest value: METHOD's own bound.
TOLERANCE = 1e-5


@cache
def naive_of(family):
    """The family's naive model behind the words of ``naive/corrections.py``."""
    model = case_of(family).model
    if family == "llama":
        plain = runpy.run_path(str(TESTS / "naive" / "prefill.py"))["NaiveLlama"](model)
        plain.width = model.config.head_dim
        return CORRECTIONS["Llama"](plain)
    return CORRECTIONS["Hybrid"](runpy.run_path(str(TESTS / "naive" / "hybrid.py"))["NaiveHybrid"](model))


@cache
def all_inputs(family):
    """Every layer's true inputs on every row, fp64."""
    case = case_of(family)
    with torch.inference_mode():
        done = run_exact(case.adapter, torch.tensor([case.context.ids]), keep=range(case.adapter.layers))
    return {layer: list(x[0].double()) for layer, x in done.inputs.items()}


AMENDED = {
    "llama": ["ridgefill", "identity", "scale_keys_tail", "scale_values_tail", "both_scales", "copied_scales"],
    "qwen3_5": [
        "ridgefill", "scale_keys_tail", "scale_values_tail", "both_scales", "ridgefill_state_correction",
        "states_and_rows", "copied_states", "splice_exact_states", "splice_exact_values", "splice_exact_all",
    ],
}  # fmt: skip
naive_cases = pytest.mark.parametrize(("family", "name"), [(one, name) for one in AMENDED for name in AMENDED[one]])


@naive_cases
def test_amended_arms_are_the_naive_ones(error, family, name):
    """Last output, and every scale and share, against one row and one head at a time in fp64."""
    case, model = case_of(family), naive_of(family)
    done = case.runs[name]
    arm, inputs = done.arm, all_inputs(family)
    maps = dense(case.adapter, arm.split, list(case.setup.fitted.maps).index((arm.split, PLAIN)))

    def predict(layer, state):
        return state if arm.fill == "identity" else maps.weights[layer].double() @ state + maps.biases[layer].double()

    deltas = case.setup.fitted.deltas.get(correction_name(arm)) if arm.state_correction else None
    exact = [*done.selected, *range(TOKENS - done.tail, TOKENS)]
    outputs, measured = CORRECTIONS["run_filled"](
        model, inputs, arm.split, exact, predict, TOKENS - done.tail, true_split_layer=arm.split_layer == "exact",
        rescale=arm.rescale, measured=arm.rescale_rows, deltas=deltas, splice=arm.splice,
    )  # fmt: skip
    assert error(done.hidden[0, -1], outputs[TOKENS - 1]) <= TOLERANCE
    found = {(one.layer, one.what): one.heads for one in done.measured}
    expected = {}
    for layer, one in measured.items():
        if isinstance(one, dict):
            expected |= {(layer, f"{part}_scale"): heads for part, heads in one.items()}
        elif one is not None:
            expected[layer, "rho"] = one
    assert set(found) == set(expected)
    assert all(error(found[key], expected[key]) <= TOLERANCE for key in expected)
    assert bool(expected) == bool(arm.rescale or arm.state_correction)
    rows = measured_rows("documents", "one", [done])
    assert {(row["layer"], row["what"]) for row in rows} == set(found)
    for row in rows:
        assert row["value"] == found[row["layer"], row["what"]][row["head"]]
    assert len(rows) == sum(map(len, found.values()))


def calibration_counts(case):
    """Documents with the counts that the setup's frequencies have."""
    counts = case.context.frequencies.counts
    return [[token] * count for token, count in enumerate(counts) if count]


def slow_rows(case, family):
    """What each selector picks, by the naive rules on this very prompt."""
    context, inputs, prefix = case.context, all_inputs(family), TOKENS - TAIL
    special, documents = context.special.all, calibration_counts(case)
    spans = [row for first, end in context.template for row in range(first, end)]
    hidden = {row for row in range(TOKENS) if context.ids[row] in context.special.control} | set(spans)
    digits = SLOW["digits"](context.texts, context.ids, special, prefix)
    lexical = SLOW["lexical"](context.text, context.offsets, hidden, prefix)
    found = {
        "ridgefill_digits": digits,
        "ridgefill_special": [row for row in range(prefix) if context.ids[row] in special],
        "ridgefill_protected": SLOW["protected"](context.ids, context.texts, special, prefix, documents, 0.25),
        "ridgefill_lexical": lexical,
    }
    naive, split = naive_of(family).naive, SPLITS[family]
    maps = dense(case.adapter, split, list(case.setup.fitted.maps).index((split, PLAIN)))

    def predict(layer, state):
        return maps.weights[layer].double() @ state + maps.biases[layer].double()

    layers = [layer for layer in selector_layers(case.adapter) if layer < split]

    def attended(first, end, count):
        if family == "llama":
            received = SLOW["attention_received"](naive, inputs, layers, first, end)
        else:
            received = hybrid_received(naive, inputs, layers, first, end)
        return SLOW["top"](received, prefix, count)

    found["ridgefill_rows"] = found["identity_rows"] = sorted(attended(TOKENS - WINDOW, TOKENS, 15))
    blind = sorted(attended(prefix - WINDOW, prefix, 15))
    found["ridgefill_question_blind_rows"] = found["identity_question_blind_rows"] = blind
    probe = SLOW["probe_llama" if family == "llama" else "probe_hybrid"]
    received = probe(naive, inputs[split], split, prefix, 256, predict, true_split_layer=True)
    rarer = SLOW["protected"](context.ids, context.texts, special, prefix, documents, 0.5)
    budget = len({*rarer, *digits, *attended(TOKENS - 64, TOKENS, SLOW["half_even"](prefix / 5))})
    control = set(found["ridgefill_special"])
    ranked = [*lexical, *(row for row in SLOW["top"](received, prefix, prefix) if row not in lexical)]
    kept = [row for row in ranked if row not in control][:budget]
    found["ridgefill_probe"] = sorted(control.union(kept))
    return found


def hybrid_received(naive, inputs, layers, first, end):
    """What each position receives from these rows in a naive hybrid's layers of attention."""
    received = [0.0] * end
    for layer in layers:
        memory = {}
        for row in range(end):
            naive.step(layer, memory, inputs[layer][row], row, wanted=row >= first)
        for row in range(first, end):
            for position in range(row + 1):
                received[position] += float(memory["weights"][row][:, position].sum())
    return received


@pytest.mark.parametrize("family", ["llama", "qwen3_5"])
def test_selected_rows_are_the_naive_ones(family):
    """Every rule on the prompt that the arms ran on: texts, template, question, frequencies, the pass's own inputs."""
    case = case_of(family)
    for name, expected in slow_rows(case, family).items():
        assert list(case.runs[name].selected) == expected, name
        assert expected, name
