"""Where the numbers that decide a prediction come from: providers that other packages register.

The ledger reads no results format itself. A package that does declares an entry point in the group
``ledger.measures`` whose object is a callable::

    provider(folder: Path, files: Sequence[str]) -> Lookup | None

``folder`` is an experiment's results folder and ``files`` are the paths below it whose bytes agree with the
hashes that result entries record. A provider must rest its numbers on those bytes alone. It answers None for
a format that is not its own, else a :data:`ledger.rules.Lookup`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ledger.errors import LedgerError
from ledger.rules import Lookup

GROUP = "ledger.measures"


class MeasureError(LedgerError):
    """A provider of measures, or a results file, from which no number can be had."""


def find_lookup(folder: Path, files: Sequence[str]) -> tuple[str, Lookup] | None:
    """The first provider that knows the format, with its lookup; None when none does.

    Providers are asked in the order of their names, so that the same packages always decide alike. Raises
    :class:`MeasureError` when one cannot be loaded or fails; the lookup raises the same when asked.
    """
    if not files:
        return None
    for name, point in _providers():
        found = _ask(name, point, folder, tuple(files))
        if found is not None:
            return name, _guarded(name, found)
    return None


def _providers() -> list[tuple[str, Any]]:
    """(name, entry point) of every installed provider, by name."""
    from importlib.metadata import entry_points

    points = {(point.name, point.value): point for point in entry_points(group=GROUP)}
    names = [name for name, _ in points]
    for name, value in points:
        if names.count(name) > 1:
            others = " and ".join(sorted(other for one, other in points if one == name))
            raise MeasureError(
                f"two installed packages provide measures called {name} ({others}), expected one; "
                f"uninstall the package of {value} or of the other"
            )
    if not points:
        raise MeasureError(
            f"no installed package provides measures (entry point group {GROUP}), expected at least one; "
            "type `pip install .` in the checkout of this project"
        )
    return [(name, point) for (name, _), point in sorted(points.items())]


def _ask(name: str, point: Any, folder: Path, files: tuple[str, ...]) -> Lookup | None:
    try:
        provider = point.load()
    except Exception as failure:  # whatever somebody else's module raises while it is imported
        raise MeasureError(
            f"the provider of measures {name} ({point.value}) cannot be loaded ({_said(failure)}); "
            "install its package again or uninstall it"
        ) from failure
    try:
        found: Any = provider(folder, files)
    except Exception as failure:
        raise MeasureError(f"the provider of measures {name} refused {folder}: {_said(failure)}") from failure
    if found is not None and not callable(found):
        raise MeasureError(
            f"the provider of measures {name} answered {type(found).__name__}, expected a function or None; "
            "update its package or uninstall it"
        )
    lookup: Lookup | None = found
    return lookup


def _guarded(name: str, lookup: Lookup) -> Lookup:
    """The same lookup, whose failures name the provider."""

    def guarded(metric: str, arm: str, baseline: str | None, where: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            found: Any = lookup(metric, arm, baseline, where)
        except Exception as failure:
            raise MeasureError(
                f"the provider of measures {name} found no number for {metric} of {arm}: {_said(failure)}"
            ) from failure
        if not isinstance(found, Mapping):
            raise MeasureError(
                f"the provider of measures {name} answered {type(found).__name__} for {metric} of {arm}, "
                "expected a mapping; update its package or uninstall it"
            )
        return found

    return guarded


def _said(failure: Exception) -> str:
    """What an exception says, on one line."""
    return " ".join(str(failure).split()) or type(failure).__name__
