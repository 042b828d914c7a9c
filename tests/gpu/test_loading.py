"""Where a model's configuration says that it goes, and by which kernel, is where and how jobs load it."""

from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from ridgefill.config import known_models, load_model
from ridgefill.loading import Loading
from ridgefill.models import load

ROOT = Path(__file__).parents[2]


@pytest.fixture
def kernels():
    kinds = ("flash", "mem_efficient", "math", "cudnn")
    before = {kind: getattr(torch.backends.cuda, f"{kind}_sdp_enabled")() for kind in kinds}
    yield
    for kind, enabled in before.items():
        getattr(torch.backends.cuda, f"enable_{kind}_sdp")(enabled)


@pytest.mark.parametrize("name", known_models(ROOT))
def test_a_model_without_it_is_resolved_as_before(name):
    assert "loading" not in load_model(name, ROOT).model_dump(mode="json")


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:100", "cuda:-1", "meta", "auto:1", ""])
def test_other_devices_are_no_configuration(device):
    with pytest.raises(ValidationError):
        Loading(device=device)


def test_only_what_was_given_is_written():
    assert Loading(device="auto").model_dump(mode="json") == {"device": "auto"}
    assert Loading().model_dump(mode="json") == {}


def test_one_kernel_is_left_to_torch(kernels):
    load._choose_kernel("math")
    assert torch.backends.cuda.math_sdp_enabled()
    assert not torch.backends.cuda.flash_sdp_enabled()
    load._choose_kernel(None)
    assert not torch.backends.cuda.flash_sdp_enabled()


def test_the_kernel_changes_what_computes_and_not_what_is_computed(kernels):
    query, key, value = torch.randn(3, 1, 2, 40, 16, generator=torch.Generator().manual_seed(0))
    attended = {}
    for kernel in ("flash", "math"):
        load._choose_kernel(kernel)
        attended[kernel] = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    torch.testing.assert_close(attended["flash"], attended["math"], atol=1e-5, rtol=1e-5)
