"""A model whose layers are on several devices does what it does on one, to the bit, and no operation mixes devices."""

import pytest
import torch
from accelerate.hooks import AlignDevicesHook, add_hook_to_module
from accelerate.utils import check_device_map
from pretend import MixedError, held, pretending
from spread_work import BUILT, THREE, TOKENS, WORK, exact, filled, ids_of, spread, stores
from torch.nn.attention import SDPBackend, sdpa_kernel

from ridgefill.errors import ConfigError, ModelError
from ridgefill.models.spread import SpreadAdapter, spread_over
from ridgefill.models.wrap import adapter_for
from ridgefill.passes import run_exact


@pytest.fixture(autouse=True)
def _pretending():
    # The processor's own kernels know no other device; this one is made of plain products.
    with torch.inference_mode(), sdpa_kernel(SDPBackend.MATH), pretending():
        yield


@pytest.fixture(scope="module", params=BUILT["FAMILIES"])
def both(request):
    """A family's adapter with the whole model on one device, and one with it on three."""
    model = BUILT["FAMILIES"][request.param]()
    with torch.inference_mode(), pretending():
        return adapter_for(spread(model, THREE[:1])), adapter_for(spread(model))


@pytest.mark.parametrize("work", WORK)
def test_on_three_devices_everything_is_as_on_one_to_the_bit(both, work):
    one, three = (WORK[work](adapter) for adapter in both)
    if not one:
        pytest.skip("no recurrent layer above the split, so there is no state to correct")
    assert list(one) == list(three)
    for name, expected in one.items():
        assert torch.equal(held(three[name]).nan_to_num(7e7), held(expected).nan_to_num(7e7)), name


def test_three_devices_are_those_of_the_layers_in_order(both):
    """Layers in runs of about equal length, and what they wrote beside them."""
    three = both[1]
    assert isinstance(three, SpreadAdapter)
    assert [str(one) for one in three.devices] == list(THREE)
    numbers = [place.index for place in three.places]
    assert numbers == sorted(numbers)
    counts = [numbers.count(number) for number in range(3)]
    assert max(counts) - min(counts) <= 1
    for name, tensor in stores(run_exact(three, ids_of(9)).cache).items():
        layer = int(name.split()[-1].removeprefix("keys").removeprefix("values").removeprefix("indexed"))
        assert tensor.device == three.places[layer]


def test_without_the_moving_the_devices_are_mixed(both):
    """The tests above can fail: what they run, run by the plain adapter of the same model, is refused."""
    with pytest.raises(MixedError, match=r"meta:0, meta:1|meta:1, meta:0"):
        exact(both[1].inner)


def test_one_device_is_the_processors_result_but_for_rounding():
    model = BUILT["FAMILIES"]["gemma3"]()
    there, here = adapter_for(spread(model, THREE[:1])), adapter_for(model)
    for work in (exact, filled):
        found, expected = work(there), work(here)
        for name, tensor in expected.items():
            torch.testing.assert_close(held(found[name]), tensor, rtol=1e-4, atol=1e-4, equal_nan=True)


def test_the_models_own_forward_may_have_its_layers_elsewhere_too():
    """Hooks, as accelerate puts them on a loaded model, move what the layers of stock transformers are given."""
    model = BUILT["FAMILIES"]["llama"]()
    there = spread(model)
    for layer in there.model.layers:
        place = next(layer.parameters()).device
        add_hook_to_module(layer, AlignDevicesHook(execution_device=place, io_same_device=True))
    ids = ids_of(TOKENS)
    expected = adapter_for(spread(model, THREE[:1])).model(ids.to(THREE[0])).logits
    assert torch.equal(held(there(ids.to(THREE[0])).logits), held(expected))
    assert torch.equal(held(exact(adapter_for(there))["logits"]), held(expected))


def test_a_layer_in_two_places_is_refused():
    there = spread(BUILT["FAMILIES"]["llama"]())
    there.model.layers[2].mlp = spread(BUILT["FAMILIES"]["llama"](), ("meta:5",)).model.layers[2].mlp
    with pytest.raises(ModelError, match="layer 2 are on meta:1, meta:5"):
        adapter_for(there)


def test_heads_that_write_for_all_layers_need_one_device(both):
    with pytest.raises(ConfigError, match="KVA heads"):
        both[1].filling("kva")
    assert both[1].filling("ridge") is both[1]
    with pytest.raises(ConfigError, match="no SwiftKV projections"):
        both[1].filling("swiftkv")


def test_more_devices_than_layers_leave_the_last_ones_empty():
    model = BUILT["FAMILIES"]["llama"]()
    places = spread_over(model, [f"cuda:{number}" for number in range(8)])
    assert places["model.embed_tokens"] == places["lm_head"] == places["model.norm"] == "cuda:0"
    assert len({place for name, place in places.items() if ".layers." in name}) == model.config.num_hidden_layers


@pytest.mark.parametrize("family", BUILT["FAMILIES"])
def test_no_tensor_is_forgotten(family):
    """What accelerate is told covers the whole model, whatever a family has beside its layers."""
    model = BUILT["FAMILIES"][family]()
    places = spread_over(model, ["cuda:0", "cuda:1"])
    check_device_map(model, places)
    buffers = {name.rpartition(".")[0] for name, _ in model.named_buffers()}
    assert all(any(name == known or name.startswith(f"{known}.") for known in places) for name in buffers)
