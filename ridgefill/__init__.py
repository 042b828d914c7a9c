"""RidgeFill: shorter prefill by predicting late-layer inputs with a ridge regression."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ridgefill.fitting import fit_maps
    from ridgefill.pretrained import RidgeFillMaps

__version__ = "0.1.0"
__all__ = ["RidgeFillMaps", "__version__", "fit_maps"]

# Named, not imported: most of this package and its command line start without torch.
_LAZY = {"RidgeFillMaps": "ridgefill.pretrained", "fit_maps": "ridgefill.fitting"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
