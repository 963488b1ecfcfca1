"""Optional dependencies: a missing one is one ImportError that names the extra."""

from __future__ import annotations

import importlib
from types import ModuleType


def need(module: str, extra: str) -> ModuleType:
    """The module, or an ImportError that says which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"plimsoll needs {module.split('.')[0]} here ({error}); pip install 'plimsoll-planner[{extra}]'"
        ) from error
