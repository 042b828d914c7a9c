"""Devices that are not there and what is done on them, by the names tests import them by; tests are no package."""

import importlib.util
import sys
from pathlib import Path

for _name in ("pretend", "spread_work"):
    _spec = importlib.util.spec_from_file_location(_name, Path(__file__).with_name(f"{_name}.py"))
    sys.modules[_name] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules[_name])
