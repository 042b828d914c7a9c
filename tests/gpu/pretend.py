"""Several devices on a machine that has none: tensors that say where they are, and operations that refuse to mix them.

A ``Placed`` tensor holds a tensor of the processor and names a device of kind ``meta``, the only one beside the
processor that every build of torch knows. Every operation runs on the processor; before it does, its tensors must all
name one device, as kernels of GPUs demand. What torch lets through there is let through here: numbers without
dimensions, and positions on the processor that index a tensor elsewhere.
"""

from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

aten = torch.ops.aten
COPIES = (aten.copy_.default, aten._to_copy.default)
INDEXING = (aten.index.Tensor, aten.index_put_.default, aten.index_put.default)
PROCESSOR = torch.device("cpu")


class MixedError(RuntimeError):
    """An operation was given tensors of several devices."""


class Placed(torch.Tensor):
    """A tensor of the processor that says it is on another device."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held, device):
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=device,
        )
        made.held = held
        return made

    def tolist(self):
        """The numbers; torch itself gives those of no kind of tensor but its own."""
        return self.held.tolist()

    def item(self):
        return self.held.item()

    def __repr__(self):
        return f"Placed({self.held!r}, {self.device})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return run(func, args, kwargs or {})


@contextmanager
def pretending():
    """Meanwhile tensors that are made on another device, or sent to one, are ``Placed`` there."""
    # What is made from Python's numbers is made on the processor and then sent, as torch's own pretended tensors are.
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        with _Pretending():
            yield
    finally:
        torch._C._set_only_lift_cpu_tensors(before)


class _Pretending(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return run(func, args, kwargs or {})


def run(func, args, kwargs):
    """The operation on the processor; its result is where its tensors are, or where it was asked to be made."""
    flat = tree_flatten((args, kwargs))[0]
    tensors = [one for one in flat if isinstance(one, torch.Tensor)]
    wanted = next((one for one in flat if isinstance(one, torch.device)), None)
    device = common(func, args, tensors) if wanted is None else wanted
    if func is aten.histc.default:  # of integers only GPUs can make one
        return place(func(held(args[0]).float(), *args[1:], **kwargs).to(args[0].dtype), device)
    made = func(*tree_map(held, args), **tree_map(held, kwargs))
    if func._schema.is_mutable:  # it has changed its first tensor, which is where it was
        return args[0]
    return tree_map(lambda one: place(one, device), made)


def common(func, args, tensors):
    """The one device of an operation's tensors. MixedError when there are several."""
    counted = [one for one in tensors if one.dim() or len(tensors) == 1]
    if func in INDEXING:
        counted = [args[0], *(one for one in tensors if one.device.type != "cpu")]
    found = dict.fromkeys(one.device for one in counted or tensors[:1])
    if func in COPIES:
        return tensors[0].device
    if len(found) > 1:
        raise MixedError(f"{func} was given tensors on {', '.join(map(str, found))}")
    return next(iter(found), PROCESSOR)


def held(value):
    """What an operation on the processor takes for a value."""
    if isinstance(value, torch.device):
        return PROCESSOR
    return value.held if isinstance(value, Placed) else value


def place(value, device):
    """A tensor as one of ``device``; the processor's stay as they are."""
    if not isinstance(value, torch.Tensor) or isinstance(value, Placed) or torch.device(device).type == "cpu":
        return value
    return Placed(value, device)
