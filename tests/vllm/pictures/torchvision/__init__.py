"""Stands in for torchvision: vLLM imports it with every model that could see pictures, also to run one on text alone.

No build of it for processors is in the package registry, and nothing of it is called for text. Every module below this
one is there, and every name in it.
"""

import importlib.abc
import importlib.machinery
import sys
import types

__version__ = "0.28.0"


class Named(type):
    """The type of a class that has every name."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class Anything(types.ModuleType):
    """A module that has every class."""

    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Named(name, (), {})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module below this package."""

    def find_spec(self, name, path=None, target=None):
        found = name.startswith(f"{__name__}.")
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if found else None

    def create_module(self, spec):
        return Anything(spec.name)

    def exec_module(self, module):
        """Nothing is in it."""


sys.meta_path.append(Finder())
