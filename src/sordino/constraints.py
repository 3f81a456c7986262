"""Constraints on public parameters.

Each checks a value, words the error and lists values for the tests.
"""

from __future__ import annotations

import math
import numbers
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol

from sordino.errors import InvalidParameter

Number = int | float | Fraction | Decimal
"""What a numeric parameter may be; a float means its shortest decimal."""


# Of a decimal, in powers of ten: with a larger exponent its exact fraction could fill the memory.
_LARGEST_EXPONENT = 4000


def exact(value: Any) -> Fraction | None:
    """Return the exact number that `value` stands for, or None when it is not a finite real number.

    A decimal with an exponent beyond +-4000 counts as none.

    A float means its shortest decimal (`Fraction(repr(x))`), so that ten times 0.1 is exactly 1.
    """
    # For Python a bool is a whole number; for a numeric parameter it is a mistake.
    if isinstance(value, bool):
        return None
    if isinstance(value, Fraction):
        return value
    if isinstance(value, numbers.Integral):
        return Fraction(int(value))
    if isinstance(value, Decimal):
        # Written out, it has as many digits as its exponent says.
        usual = value.is_finite() and (not value or abs(value.adjusted()) <= _LARGEST_EXPONENT)
        return Fraction(value) if usual else None
    if isinstance(value, float | numbers.Real) and math.isfinite(value):
        # NumPy's narrow floats have a shortest decimal of their own, which is not that of their
        # double.
        return Fraction(repr(float(value)) if isinstance(value, float) else str(value))
    return None


class Check(Protocol):
    """A rule for one parameter.

    It takes the full name and the value, and returns the value to keep or raises
    `InvalidParameter`.
    """

    def __call__(self, name: str, value: Any, /) -> Any:
        """Return the value to keep."""


def to_fraction(number: Number) -> Fraction:
    """Return the exact number that a checked parameter stands for."""
    value = exact(number)
    if value is None:
        raise TypeError("this is no finite number: it should have been checked before")
    return value


@dataclass(frozen=True, slots=True)
class Constraint:
    """A rule for one parameter: `says` completes the sentence "X must be ..."."""

    says: str
    convert: Callable[[Any], Any]
    valid: tuple[Any, ...]
    invalid: tuple[Any, ...]

    def __call__(self, name: str, value: Any) -> Any:
        """Return the converted value, or raise `InvalidParameter` with name, rule and value."""
        converted = self.convert(value)
        # None always means refused: where None is allowed, `OrNone` stands before the rule.
        if converted is None:
            meant = _suggest_share(value) if self.says == PROPORTION.says else ""
            raise InvalidParameter(f"{name} must be {self.says}; got {shown(value)}.{meant}")
        return converted


def _suggest_share(value: Any) -> str:
    """Return how a percentage is written as a share; empty if it seems to be none."""
    percent = isinstance(value, int | float | Fraction) and 2 <= value <= 100
    return f" For {shown(value)}% write {shown(Fraction(value) / 100)}." if percent else ""


def shown(value: Any) -> str:
    """Return a short picture of a public parameter for an error message."""
    # Python refuses to write out very long whole numbers.
    if isinstance(value, int) and value.bit_length() > 1000:
        return f"a whole number of {value.bit_length()} bits"
    if isinstance(value, Fraction):
        # `float` raises for a fraction beyond its range, and makes 0 of one that is too small.
        if value and abs(value) < Fraction(1, 10**300):
            return "a number nearer to 0 than 1e-300"
        return f"{float(value):.12g}" if abs(value) < 10**300 else "a number beyond 1e300"
    # Anything else is named by its type alone: its own text may hold what is private.
    text = (
        repr(value)
        if isinstance(value, str | int | float | Fraction | Decimal | type(None))
        else type(value).__name__
    )
    return text if len(text) <= 60 else text[:57] + "..."


def did_you_mean(name: Any, names: Iterable[str]) -> str:
    """Return the end of a message about a public name not among `names`: the nearest, if any.

    Examples
    --------
    >>> from sordino.constraints import did_you_mean
    >>> did_you_mean("Custmer", ["customer", "product"]), did_you_mean("x", ["customer"])
    (" Did you mean 'customer'?", '')
    """
    # What was given may be anything; only a text is like another one.
    if not isinstance(name, str):
        return ""
    # Only a mistake needs it.
    import difflib  # noqa: PLC0415

    known = list(names)
    # Capitals are what is mistaken most often.
    near = difflib.get_close_matches(name.lower(), [one.lower() for one in known], n=3)
    meant = [one for one in known if one.lower() in near]
    return f" Did you mean {' or '.join(map(repr, meant))}?" if meant else ""


def say_unknown_key(what: str, key: Any, known: Sequence[str]) -> str:
    """Return the message about an unknown key of a public table: with the nearest ones, or all."""
    hint = did_you_mean(key, known) or f" Known: {', '.join(known)}."
    return f"{what} has no key {shown(key)}.{hint}"


def accept_if(
    holds: Callable[[Any], bool], read: Callable[[Any], Any] = exact
) -> Callable[[Any], Any]:
    """Return a function from a value to what `read` makes of it, or to None unless that holds.

    None refuses the value.
    """

    def accept(value: Any) -> Any:
        number = read(value)
        return number if number is not None and holds(number) else None

    return accept


def _read_whole(value: Any) -> int | None:
    # A float is refused even where its value is whole: a count is given as a whole number.
    return (
        None if isinstance(value, bool) or not isinstance(value, numbers.Integral) else int(value)
    )


def _is_power_of_two(number: Fraction) -> bool:
    # In lowest terms a power of two is one bit over 1, or 1 over one bit.
    top, bottom = number.as_integer_ratio()
    return top > 0 and 1 in {top, bottom} and max(top, bottom).bit_count() == 1


# Each rule brings values that satisfy it and values that do not: the tests try them on every
# parameter.
POSITIVE = Constraint(
    "a number in (0, inf)",
    accept_if(lambda number: number > 0),
    (1, 0.5, Fraction(1, 3)),
    (0, -1, math.nan, math.inf, "1", None, True),
)
NOT_NEGATIVE = Constraint(
    "a number in [0, inf)",
    accept_if(lambda number: number >= 0),
    (0, 0.5, Fraction(1, 3)),
    (-1, math.nan, math.inf, "1", None, True),
)
SHARE = Constraint(
    "a number in (0, 1)",
    accept_if(lambda number: 0 < number < 1),
    (0.5, Fraction(1, 3)),
    (0, 1, -0.5, math.nan, None, "half"),
)
WHOLE_SHARE = Constraint(
    "a number in (0, 1]",
    accept_if(lambda number: 0 < number <= 1),
    (0.5, 1, Fraction(1, 3)),
    (0, 1.5, -0.5, math.nan, None, "half"),
)
GROWTH = Constraint(
    "a number in (1, inf)",
    accept_if(lambda number: number > 1),
    (2, 1.01, Fraction(4, 3)),
    (1, 0.5, -2, math.nan, math.inf, "2", None, True),
)
PROPORTION = Constraint(
    "a number in [0, 1]",
    accept_if(lambda number: 0 <= number <= 1),
    (0, 1, 0.5, Fraction(1, 3)),
    (-0.5, 1.5, math.nan, None, "half", True),
)
FINITE = Constraint("a finite number", exact, (0, -1.5, 3), (math.nan, math.inf, None, "1"))
COUNT = Constraint(
    "a whole number, at least 1",
    accept_if(lambda number: number >= 1, _read_whole),
    (1, 20),
    (0, -1, 1.5, True, None, math.nan),
)
DOMAIN_SIZE = Constraint(
    "a whole number from 1 to 2^52",
    accept_if(lambda number: 1 <= number <= 1 << 52, _read_whole),
    (1, 10**12),
    (0, -1, 1.5, True, None, 1 << 60),
)
WHOLE = Constraint(
    "a whole number, at least 0",
    accept_if(lambda number: number >= 0, _read_whole),
    (0, 1, 20),
    (-1, 1.5, True, None, math.nan),
)
TRUTH = Constraint(
    "True or False",
    lambda value: value if isinstance(value, bool) else None,
    (True, False),
    (1, None, "yes"),
)
POWER_OF_TWO = Constraint(
    "a power of two", accept_if(_is_power_of_two), (1, 2, 0.25), (0, 3, -2, 0.3, math.inf, None)
)
CUTS = Constraint(
    "a whole number from 1 to 65536",
    accept_if(lambda number: 1 <= number <= 1 << 16, _read_whole),
    (1, 2, 7),
    (0, -2, 1 << 17, 0.5, None, True),
)


def one_of(*names: str) -> Constraint:
    """Return the constraint that a value is one of `names`."""
    listed = ", ".join(repr(name) for name in names)
    return Constraint(
        f"one of {listed}",
        # Only a text is compared with the names: an array, for one, has no single answer to `==`.
        lambda value: value if isinstance(value, str) and value in names else None,
        names,
        ("", None, 3),
    )


@dataclass(frozen=True, slots=True)
class OrNone:
    """A rule for a parameter that may be left out."""

    rule: Check

    @property
    def says(self) -> str:
        """What the value must be if there is one."""
        # A rule may be any callable, and not every one says what it asks for.
        return str(getattr(self.rule, "says", ""))

    def __call__(self, name: str, value: Any, /) -> Any:
        """Return None, or what the rule makes of the value."""
        return None if value is None else self.rule(name, value)


@dataclass(frozen=True, slots=True)
class WordOr:
    """A rule for a parameter that is given itself, or by one of some words that choose it."""

    words: tuple[str, ...]
    rule: Constraint

    @property
    def says(self) -> str:
        """What the value must be."""
        return f"{self.rule.says}, or {', '.join(repr(word) for word in self.words)}"

    def __call__(self, name: str, value: Any, /) -> Any:
        """Return the word, or what the rule makes of the value."""
        # No number is given as a text, so a text can only be meant as one of the words.
        return (
            one_of(*self.words)(name, value) if isinstance(value, str) else self.rule(name, value)
        )


def is_unicode(value: object) -> bool:
    """Tell whether `value` can be encoded: a Python text may hold halves of characters."""
    if not isinstance(value, str):
        return False
    # Nearly every text is ASCII, which is seen without a copy of it.
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def text(value: Any, name: str) -> str:
    """Return `value` if it is a non-empty printable text, else raise `InvalidParameter`."""
    if isinstance(value, str) and value and value.isprintable():
        return value
    raise InvalidParameter(f"{name} must be a non-empty printable text; got {shown(value)}.")


def path_text(value: Any, name: str) -> str:
    """Return a path as a text, else raise `InvalidParameter`: a table in its place is not shown."""
    return text(os.fspath(value) if isinstance(value, os.PathLike) else value, name)


_TABLE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}", re.ASCII)
TABLE_NAME = Constraint(
    "1 to 100 letters, digits, '_' and '-', the first one no '-'",
    lambda value: value if isinstance(value, str) and _TABLE_NAME.fullmatch(value) else None,
    ("purchases", "visits-2026"),
    ("", "a.csv", "a/b", "-", "größe", None, 3),
)
"""A name that a table is declared by: no path of a file with an ending, and no pattern, is one."""
_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", re.ASCII)
NAME = Constraint(
    "1 to 100 letters, digits, '_', '-' and '.', the first one a letter or a digit",
    lambda value: value if isinstance(value, str) and _SLUG.fullmatch(value) else None,
    ("orders", "2026-11-24"),
    ("", "a b", "../x", None, 3),
)
"""A name that a file may have on every system."""
ADJACENCY = one_of("add-remove", "replace-one")
NORM = one_of("each", "l1", "l2")
