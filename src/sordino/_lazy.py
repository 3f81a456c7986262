"""Loads the public names of a package when they are first used.

So a command that only selects items need not load the modules that add up numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy(
    module: str, homes: Mapping[str, Iterable[str]], *, package: str | None = None
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a `module` with names where `homes` says.

    They are in modules of the `package`: of the module itself, unless another one is given.

    The last two are asked for names that are not there yet (PEP 562).

    A name that is also the name of its module stands for the module itself.
    """
    home = {name: place for place, names in homes.items() for name in names}
    package = package or module

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        found = import_module(f"{package}.{home[name]}")
        value = found if name == home[name] else getattr(found, name)
        # From now on the module has the name itself, and `load` is not called for it again.
        setattr(sys.modules[module], name, value)
        return value

    def names() -> list[str]:
        # The public names and Python's own; modules that were loaded stand in the package as well.
        return sorted(
            {*home, *(name for name in vars(sys.modules[module]) if name.startswith("__"))}
        )

    return sorted(home), load, names
