"""Loads the public names of a package when they are first used.

So a command that only selects items need not load the modules that add up numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy(
    package: str, homes: Mapping[str, Iterable[str]]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of the `package` whose modules `homes` hold these names.

    The last two are asked for names that are not there yet (PEP 562).

    A name that is also the name of its module stands for the module itself.
    """
    home = {name: module for module, names in homes.items() for name in names}

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{home[name]}")
        value = module if name == home[name] else getattr(module, name)
        # From now on the package has the name itself, and `load` is not called for it again.
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        # The public names and Python's own; modules that were loaded stand in the package as well.
        return sorted({*home, *(name for name in vars(sys.modules[package]) if name.startswith("__"))})

    return sorted(home), load, names
