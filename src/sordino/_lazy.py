"""Loads the public names of a package when they are first used.

So a command that only selects items need not load the modules that add up numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a module that imports its names `if TYPE_CHECKING:`.

    Both are asked for names that are not there yet (PEP 562), `__all__` among them. Where each name
    is, stands in those imports and nowhere else: they are read at the first use of any.
    """
    homes: dict[str, tuple[str, str]] = {}

    def load(name: str) -> Any:
        homes.update({} if homes else read_imports(module))
        if name == "__all__":
            value: Any = sorted(homes)
        elif name in homes:
            home, original = homes[name]
            # A name that the module imports from itself is that of a module in it.
            inside = home == module
            value = import_module(f"{home}.{name}" if inside else home)
            value = value if inside else getattr(value, original)
        else:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        # From now on the module has the name itself, and `load` is not called for it again.
        setattr(sys.modules[module], name, value)
        return value

    def names() -> list[str]:
        # The public names and Python's own; modules that were loaded stand in the package as well.
        # A list: another thread may load one of them meanwhile.
        own = [name for name in [*vars(sys.modules[module])] if name.startswith("__")]
        return sorted({*load("__all__"), *own})

    return load, names


def read_imports(module: str) -> dict[str, tuple[str, str]]:
    """Return of each name that a module imports `if TYPE_CHECKING:` from where, and what it is."""
    # Loaded here: `import sordino` needs none of it.
    import ast  # noqa: PLC0415

    spec: Any = sys.modules[module].__spec__
    return {
        one.asname or one.name: (line.module or module, one.name)
        for block in ast.parse(spec.loader.get_source(module)).body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for one in line.names
    }
