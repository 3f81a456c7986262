"""Compares two statements field by field, and names what differs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_ABSENT = object()


def canonical(tree: Any) -> Any:
    """Return a tree of values in which numbers that are equal are the same: 1.0 is 1."""
    if isinstance(tree, dict):
        return {name: canonical(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [canonical(value) for value in tree]
    whole = isinstance(tree, float) and tree.is_integer() and abs(tree) < 2**53
    return int(tree) if whole else tree


def list_differences(true: Any, said: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield each field in which `said` is not `true`: its path, and what it should say and says.

    A field that only one of them has is one, too.
    """
    if isinstance(true, dict) and isinstance(said, dict):
        # In the order of what is read; what was taken away comes last.
        for name in [*said, *(name for name in true if name not in said)]:
            below = f"{path}.{_write_name(name)}" if path else _write_name(name)
            yield from list_differences(true.get(name, _ABSENT), said.get(name, _ABSENT), below)
    elif isinstance(true, list) and isinstance(said, list) and len(true) == len(said):
        for number, (one, other) in enumerate(zip(true, said, strict=True), 1):
            yield from list_differences(one, other, f"{path}[{number}]")
    elif _key(true) != _key(said):
        yield path, _shorten_value(true), _shorten_value(said)


def _write_name(name: str) -> str:
    # A file of a stranger must not steer the terminal.
    return name if name.isprintable() and 0 < len(name) <= 60 else _shorten_value(name)


def _key(value: Any) -> tuple[str, Any]:
    # Python takes True for 1.
    kind = (
        "truth"
        if isinstance(value, bool)
        else "number"
        if isinstance(value, int | float)
        else "other"
    )
    return kind, value


def _shorten_value(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
