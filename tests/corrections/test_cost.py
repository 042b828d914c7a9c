"""What corrections cost, in the cost model's own terms and as an instrumented pass counts it."""

import torch
from torch.utils.flop_counter import FlopCounterMode

from ridgefill.corrections.cost import rescale_macs, state_correction_macs
from ridgefill.corrections.rescale import Rescale
from ridgefill.cost import Geometry


def test_a_measured_row_costs_its_map_and_twice_what_a_filled_row_writes():
    """Llama-3.1-8B, 512 rows of one layer, from maps and from the identity."""
    g = Geometry(layers=32, hidden=4096, q=4096, kv=1024, ff=14336)
    assert rescale_macs(512, g.hidden, g.kv, g.map_row()) == 512 * (g.map_row() + 2 * g.filled_row)
    assert rescale_macs(512, g.hidden, g.kv, 0) == 512 * 2 * g.filled_row == 8_589_934_592


def test_a_corrected_state_costs_two_weights_a_row_and_one_addition():
    """Flash-Next: 48 heads of 128 x 128, a prefix of 30,720 rows."""
    assert state_correction_macs(30_720, 48, 128, 128) == 2 * 30_720 * 48 + 48 * 128 * 128
    assert state_correction_macs(0, 48, 128, 128) == 48 * 128 * 128


def test_the_measurement_costs_what_an_instrumented_pass_counts(family, request_of):
    """Floating-point operations are twice the multiply-accumulates; a sparse layer's index keys come on top."""
    one = request_of(family, 60)
    layer = max(at for at in range(one.adapter.layers) if one.adapter.kinds[at] != "linear_attention")
    tail = torch.arange(one.prefix, one.tokens)
    true, guess = one.truth(layer, tail), one.predict(layer, tail)
    with FlopCounterMode(display=False) as counter:
        found = Rescale().measure(one.adapter, layer, true, guess, one.adapter.kv_heads, 7)
    index = 2 * 20 * 32 * 16 if family == "qwen4_exp" else 0
    assert found.macs - 20 * 7 + index == counter.get_total_flops() // 2
