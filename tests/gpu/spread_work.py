"""What a model of any family is made to do on one device and on several: everything that touches a layer."""

import copy
import runpy
from pathlib import Path

import torch

from ridgefill.amend import Amendments
from ridgefill.arms import Arm
from ridgefill.capture import capture
from ridgefill.corrections.deltas import fit_deltas
from ridgefill.corrections.rescale import Rescale
from ridgefill.corrections.state import StateCorrection, state_shape
from ridgefill.decode import decode_greedy
from ridgefill.evaluation.chunks import ChunkedFill, exact_chunks, filled_chunks
from ridgefill.fill import run_late
from ridgefill.maps import RidgeMaps
from ridgefill.models.base import LINEAR
from ridgefill.models.spread import spread_over
from ridgefill.passes import run_exact, run_lower
from ridgefill.ranking import received_attention
from ridgefill.rows import planned
from ridgefill.selectors.budget import ProbeBudget
from ridgefill.selectors.context import Context
from ridgefill.selectors.frequency import Frequencies
from ridgefill.selectors.probed import ProbedRows
from ridgefill.selectors.sweeps import two_sweeps
from ridgefill.splices import Splice, spliced

BUILT = runpy.run_path(str(Path(__file__).parents[1] / "families/builders.py"))
# A recurrent layer above the split in every hybrid.
SPLITS = BUILT["SPLITS"] | {"qwen4_exp": 3}
THREE = ("meta:0", "meta:1", "meta:2")
TOKENS, TAIL = 60, 16
PREFIX = TOKENS - TAIL
RARE = Frequencies((1,) * BUILT["VOCABULARY"])


def spread(model, devices=THREE):
    """A copy of a stock model with its layers on ``devices``, as accelerate would put them there."""
    there = copy.deepcopy(model)
    places = spread_over(there, devices)
    for name, module in there.named_modules():
        place = next((places[above] for above in (name, *_above(name)) if above in places), None)
        for store in (module._parameters, module._buffers):
            for key, tensor in store.items():
                if tensor is not None:
                    moved = tensor.data.to(place)
                    store[key] = torch.nn.Parameter(moved, False) if store is module._parameters else moved
    return there


def _above(name):
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(len(parts) - 1, 0, -1)]


def split_of(adapter):
    return SPLITS.get(str(adapter.fingerprint["family"]), 3)


def ids_of(tokens, seed=0):
    return torch.randint(0, BUILT["VOCABULARY"] - 1, (1, tokens), generator=torch.Generator().manual_seed(seed))


def maps_of(adapter):
    split = split_of(adapter)
    generator = torch.Generator().manual_seed(split)
    late, shape = range(split, adapter.layers), (adapter.hidden, adapter.width)
    weights = {layer: torch.randn(shape, generator=generator) * 1.5 * shape[1] ** -0.5 for layer in late}
    biases = {layer: torch.randn(shape[0], generator=generator) * 0.1 for layer in late}
    return RidgeMaps(split, weights, biases).to(adapter.dtype, adapter.device)


def arm_of(adapter, **options):
    return Arm("ridgefill", "ridge", split=split_of(adapter), tail=TAIL, **options)


def plan_of(adapter, chosen=()):
    return planned(TOKENS, PREFIX, chosen, adapter.device)


def stores(cache):
    """All that a cache holds."""
    found = {}
    for layer, state in enumerate(cache.states):
        for name in ("keys", "values", "indexed"):
            tensor = getattr(cache, name)[layer]
            if tensor is not None:
                found[f"{name}{layer}"] = tensor
        for kind in ("conv", "recurrent") if state is not None else ():
            for number, ready in getattr(state, f"is_{kind}_states_initialized").items():
                if ready:
                    found[f"{kind}{number} of {layer}"] = getattr(state, f"{kind}_states")[number]
    return found


def exact(adapter):
    done = run_exact(adapter, ids_of(TOKENS), keep=range(adapter.layers))
    return {
        "logits": adapter.logits(done.hidden),
        **{f"input{at}": x for at, x in done.inputs.items()},
        **stores(done.cache),
    }


def filled(adapter, chosen=(), amendments=None, **options):
    lower = run_lower(adapter, ids_of(TOKENS), split_of(adapter))
    given = {} if amendments is None else {"amendments": amendments}
    done = run_late(
        adapter, lower, plan_of(adapter, chosen), maps_of(adapter).predict, arm_of(adapter, **options), **given
    )
    return {"hidden": done.hidden, **stores(done.cache)}


def attention_rows(adapter):
    done, first = run_exact(adapter, ids_of(TOKENS), keep=range(adapter.layers)), PREFIX
    inputs = {at: x[:, first:] for at, x in done.inputs.items() if adapter.attends(at) and at + 1 < adapter.layers}
    lower = done.lower(adapter.layers - 1)
    received = received_attention(adapter, done.cache, inputs, first, TOKENS)
    return {"rows": torch.tensor(lower.most_attended(adapter, inputs, first, TOKENS, PREFIX)), "received": received}


def probed(adapter):
    lower = run_lower(adapter, ids_of(TOKENS), split_of(adapter))
    context = Context((0,) * TOKENS, PREFIX, texts=("a",) * TOKENS, frequencies=RARE, adapter=adapter, lower=lower)
    selector = ProbedRows(ProbeBudget(8, 0.0, 0.0), probing=12, lexical=None, special=False)
    done = two_sweeps(adapter, context, maps_of(adapter).predict, selector, arm_of(adapter))
    return {"rows": done.plan.exact, "hidden": done.filled.hidden, **stores(done.filled.cache)}


def chunked(adapter):
    fill = ChunkedFill(arm_of(adapter), plan_of(adapter, range(0, PREFIX, 9)), maps_of(adapter).predict)
    done = [
        list(filled_chunks(adapter, ids_of(TOKENS), 32, fill))[-1],
        list(exact_chunks(adapter, ids_of(TOKENS), 32))[-1],
    ]
    return {
        f"{at}{name}": x
        for at, one in enumerate(done)
        for name, x in {"hidden": one.hidden, **stores(one.cache)}.items()
    }


def rescaled(adapter):
    return filled(adapter, amendments=Amendments(rescale=Rescale(("key", "value"), 9)), chosen=range(0, PREFIX, 6))


def splices(adapter):
    split, parts = split_of(adapter), {"keys", "values"} | ({"states"} if LINEAR in adapter.kinds else set())
    true = run_exact(adapter, ids_of(TOKENS), keep=range(adapter.layers))
    splice = Splice(frozenset(parts), true)
    lower = true.lower(split)
    plain = run_late(adapter, lower, plan_of(adapter), maps_of(adapter).predict, arm_of(adapter))
    after = spliced(adapter, plain.cache, plan_of(adapter).filled, split, splice)
    return filled(adapter, amendments=Amendments(splice=splice)) | {
        f"after {name}": x for name, x in stores(after).items()
    }


def corrected(adapter):
    if LINEAR not in adapter.kinds[split_of(adapter) + 1 :]:
        return {}
    shape, generator = state_shape(adapter), torch.Generator().manual_seed(1)
    late = [at for at in range(split_of(adapter) + 1, adapter.layers) if adapter.kinds[at] == LINEAR]
    deltas = {at: torch.randn(shape, generator=generator) for at in late}
    fitted = fit_deltas(adapter, maps_of(adapter), [ids_of(64)[0].tolist()], split_of(adapter), every=32)
    how = Amendments(correction=StateCorrection(deltas))
    return filled(adapter, amendments=how, chosen=(3, 30)) | {f"delta{at}": one for at, one in fitted.items()}


def decoded(adapter):
    """Prompts of two lengths together, of which one ends early and leaves the batch."""
    ids, lengths = (ids_of(40), ids_of(TOKENS, 1), ids_of(33, 2)), (40, TOKENS, 33)
    passes = [run_exact(adapter, one, capacity=one.shape[1] + 8) for one in ids]
    first = torch.cat([adapter.logits(one.hidden[:, -1:])[:, 0] for one in passes])
    tokens = decode_greedy(
        adapter, [one.cache for one in passes], first, prompt_tokens=lengths, new_tokens=8, stop_ids=(),
        finished=lambda entry, made: entry < 2 and len(made) > 2,
    )  # fmt: skip
    return {f"tokens{at}": torch.tensor(one) for at, one in enumerate(tokens)}


def captured(adapter):
    moments = capture(adapter, [ids_of(64, seed)[0].tolist() for seed in range(2)], [split_of(adapter)], stride=2)
    parts = ("mean", "scatter", "gram", "cross", "state_mean")
    return {f"{part} {at}": torch.as_tensor(one) for part in parts for at, one in getattr(moments, part).items()}


WORK = {
    "exact": exact,
    "filled": filled,
    "scattered": lambda adapter: filled(adapter, range(0, PREFIX, 5)),
    "mapped split layer": lambda adapter: filled(adapter, split_layer="mapped"),
    "rows by attention": attention_rows,
    "probed": probed,
    "chunked": chunked,
    "rescaled": rescaled,
    "spliced": splices,
    "corrected": corrected,
    "decoded": decoded,
    "captured": captured,
}
