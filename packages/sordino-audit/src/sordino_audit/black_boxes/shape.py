"""Takes the outcomes of black boxes apart: into a shape (structure and words) and the numbers in it.

Claim: none. Whatever is computed from an outcome is post-processing, so that what is lost here can only hide
a loss, never make one up.
Floats: whole numbers beyond 2^53 are seen rounded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from sordino.errors import InvalidParameter
from sordino.releases import Release

WHOLE, REAL = "whole", "real"
_NUMBER_IN_TEXT = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_MOST_NUMBERS_IN_TEXT = 400


class Mark(NamedTuple):
    """One leaf of an outcome: where it is, and `WHOLE` or `REAL` for a number, else what it says."""

    path: str
    says: Any


Shape = tuple[Mark, ...]


class ShapedOutcome(NamedTuple):
    """One outcome: its shape, and its numbers in the order of their marks."""

    shape: Shape
    numbers: tuple[float, ...]


def read_outcome(outcome: Any) -> ShapedOutcome:
    """Return the shape and the numbers of an outcome, or refuse what cannot be compared."""
    marks: list[Mark] = []
    numbers: list[float] = []
    _walk_outcome(outcome, "", marks, numbers)
    return ShapedOutcome(tuple(marks), tuple(numbers))


def read_error(error: BaseException) -> ShapedOutcome:
    """Return the outcome of a run that raised: the type of the error and nothing else."""
    return ShapedOutcome((Mark("", ("raised", type(error).__name__)),), ())


def tells_an_error(shape: Shape) -> bool:
    """Tell whether a shape is that of a run that raised."""
    return len(shape) == 1 and isinstance(shape[0].says, tuple) and shape[0].says[0] == "raised"


def classed(group: Any) -> ShapedOutcome:
    """Return the outcome whose partition put it into `group`, a hashable value."""
    try:
        hash(group)
    except TypeError:
        raise InvalidParameter(
            "audit.statistical.partition must return hashable values "
            "such as numbers, texts and tuples of them."
        ) from None
    # A NaN is not equal to itself, its repr is: all of them are one class.
    return ShapedOutcome(
        (
            Mark(
                "class",
                (type(group).__name__, repr(group) if group != group else group),  # noqa: PLR0124 - NaN
            ),
        ),
        (),
    )


def _walk_outcome(value: Any, path: str, marks: list[Mark], numbers: list[float]) -> None:
    kind = type(value)
    # The exact types first: a bool is also an int.
    if kind is int or kind is float:
        _mark_number(value, path, marks, numbers)
    elif value is None or kind is bool or kind is bytes:
        marks.append(Mark(path, (kind.__name__, value)))
    elif kind is str:
        _mark_text(value, path, marks, numbers)
    elif kind in {list, tuple} or isinstance(value, np.ndarray):
        items = value.tolist() if isinstance(value, np.ndarray) else value
        # An array without dimensions gives a bare number: a list of one.
        _walk_items(items if isinstance(items, list | tuple) else [items], path, marks, numbers)
    else:
        _walk_rare_type(value, path, marks, numbers)


def _walk_rare_type(value: Any, path: str, marks: list[Mark], numbers: list[float]) -> None:
    """Walk what is met more rarely."""
    if isinstance(value, np.generic):
        _walk_outcome(value.item(), path, marks, numbers)
    elif isinstance(value, Enum):
        marks.append(Mark(path, (type(value).__name__, value.name)))
    elif isinstance(value, int | float | Fraction | Decimal):
        _mark_number(value, path, marks, numbers)
    elif isinstance(value, str):
        _mark_text(str(value), path, marks, numbers)
    # A named tuple says more than a plain one: its fields have names.
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for name, part in zip(value._fields, value, strict=True):
            _walk_outcome(part, _join_path(path, name), marks, numbers)
        marks.append(Mark(path, ("type", type(value).__name__)))
    elif isinstance(value, list | tuple):
        _walk_items(value, path, marks, numbers)
    else:
        _walk_structure(value, path, marks, numbers)


def _walk_structure(value: Any, path: str, marks: list[Mark], numbers: list[float]) -> None:
    """Walk mappings, sets and data classes; refuse anything else."""
    if isinstance(value, Mapping):
        # Keys of different types have no order; their reprs have.
        for key in sorted(value, key=repr):
            _walk_outcome(value[key], f"{path}[{key!r}]", marks, numbers)
        marks.append(Mark(path, ("mapping", tuple(sorted(map(repr, value))))))
    elif isinstance(value, Set):
        # Equal sets may come in different orders.
        _walk_items(sorted(value, key=repr), path, marks, numbers)
    elif is_dataclass(value) and not isinstance(value, type):
        marks.append(Mark(path, ("type", type(value).__name__)))
        for field in fields(value):
            # The public parameters are no outcome.
            if not (isinstance(value, Release) and field.name == "mechanism"):
                _walk_outcome(getattr(value, field.name), _join_path(path, field.name), marks, numbers)
    else:
        raise InvalidParameter(
            "audit.statistical needs outcomes made of numbers, texts, arrays, lists, mappings "
            "and data classes; got "
            f"{type(value).__name__}. Give partition=, a function that puts each outcome into a class."
        )


def _join_path(path: str, name: Any) -> str:
    """Return the path of a named part."""
    said = name if isinstance(name, str) and name.isidentifier() else repr(name)
    return f"{path}.{said}" if path else said


def _mark_number(value: Any, path: str, marks: list[Mark], numbers: list[float]) -> None:
    whole = isinstance(value, int)
    try:
        number = float(value)
    except OverflowError:
        # A whole number beyond all floats counts as infinite.
        number = math.inf if value > 0 else -math.inf
    marks.append(Mark(path, WHOLE if whole else REAL))
    numbers.append(number)
    # -0.0 equals 0.0, but a reader can tell them apart.
    if number == 0 and not whole and math.copysign(1, number) < 0:
        marks.append(Mark(path, "minus zero"))


def _mark_text(value: str, path: str, marks: list[Mark], numbers: list[float]) -> None:
    """Take the numbers out of a text: they differ from run to run, the words around them less so."""
    # Beyond the first ones numbers stay part of the words.
    found = list(_NUMBER_IN_TEXT.finditer(value))[:_MOST_NUMBERS_IN_TEXT]
    if not found:
        marks.append(Mark(path, ("text", value)))
        return
    at, words = 0, []
    # The words between the numbers are kept, so that nothing of the text is lost.
    for i, match in enumerate(found):
        words.append(value[at : match.start()])
        at = match.end()
        text = match.group()
        marks.append(Mark(f"{path}#{i + 1}", WHOLE if text.lstrip("+-").isdigit() else REAL))
        numbers.append(float(text))
    marks.append(Mark(path, ("text", (*words, value[at:]))))


def _walk_items(items: Any, path: str, marks: list[Mark], numbers: list[float]) -> None:
    for i, item in enumerate(items):
        _walk_outcome(item, f"{path}[{i}]", marks, numbers)
    # Also an empty list leaves a mark, and lists of different lengths have different shapes.
    marks.append(Mark(path, ("length", len(items))))
