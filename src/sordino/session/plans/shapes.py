"""Public shapes of made-up data.

How counts fall from rank to rank, and how the numbers of a column lie.

A shape is written as a text, such as `zipf:1.1`. It is an assumption about data that nobody looks
at, so everything that is said with one names it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import shown
from sordino.entropy import Seeded
from sordino.errors import InvalidParameter

Floats = NDArray[np.float64]

OF_LABELS = ("zipf:1.1",)
"""What is assumed of labels where nobody says anything: few are frequent, and many are rare."""
OF_COLUMNS = ("flat", "lognormal")
"""What is assumed of numbers where nobody says anything: two columns that have little in common."""

_NUMBER = r"[+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,2})?"
_STEP = re.compile(rf"([0-9]{{1,9}})x({_NUMBER})", re.ASCII)
_WRITTEN = re.compile(rf"([a-z]+)(?::({_NUMBER})(?:,({_NUMBER}))?)?", re.ASCII)
_HOW = (
    "flat, zipf:S, geometric:R, steps:HOWMANYxHOWMUCH,... (such as steps:10x500,90x20), "
    "normal:MEAN,SD or lognormal:MEDIAN,SIGMA"
)
_MOST_STEPS = 1 << 20
_OF_DATA = 1 << 40
# The spread of a lognormal column, in logarithms, where none is given.
_SIGMA = 1.0


@final
@dataclass(frozen=True)
class Ends:
    """What is public about where numbers lie.

    Attributes
    ----------
    lower : float or None
        None: they have both signs.
    cap : float
        As far up as anything goes.
    unit : float
        The scale below which edges are evenly spaced.
    """

    lower: float | None
    cap: float
    unit: float

    @property
    def low(self) -> float:
        """The lowest number of a made-up column."""
        return -self.cap if self.lower is None else self.lower


@final
@dataclass(frozen=True)
class Shape:
    """A family of made-up data.

    Attributes
    ----------
    text : str
        As it was written.
    kind : str
        "flat", "zipf", "geometric", "steps", "normal" or "lognormal".
    numbers : tuple of float
        Its parameters.
    steps : tuple of (int, float)
        Of "steps": how many there are, and how much each is.
    """

    text: str
    kind: str
    numbers: tuple[float, ...] = ()
    steps: tuple[tuple[int, float], ...] = ()

    def list_counts(self, labels: int, total: int) -> NDArray[np.int64]:
        """Return falling counts of so many labels, which add up to about `total`.

        Those beyond are 0.

        Raises
        ------
        InvalidParameter
            If the shape says nothing about labels.
        """
        ranks = np.arange(1, labels + 1, dtype=np.float64)
        if self.kind == "flat":
            weights = np.ones(labels)
        elif self.kind == "zipf":
            weights = ranks ** -self.numbers[0]
        elif self.kind == "geometric":
            # By logarithms: far down the weight is 0, and not an underflow.
            weights = np.exp(np.maximum(ranks * math.log(self.numbers[0]), -700.0))
        elif self.kind == "steps":
            listed = np.repeat([much for _, much in self.steps], [many for many, _ in self.steps])
            weights = np.zeros(labels)
            weights[: listed.size] = np.sort(np.maximum(listed, 0.0))[::-1][:labels]
        else:
            raise InvalidParameter(
                f"like must be flat, zipf:S, geometric:R or steps:... for counts of labels; got "
                f"{shown(self.text)}, which is about the numbers of a column."
            )
        whole = weights.sum()
        return np.rint(total * weights / (whole or 1.0)).astype(np.int64)

    def draw_numbers(self, ends: Ends, rows: int, seed: int) -> Floats:
        """Return the numbers of a column of so many rows, drawn at random between the ends."""
        # Not the seed of the noise of that run: data must have nothing to do with it.
        words = Seeded(_OF_DATA + seed).words(rows) >> np.uint64(12)
        places = (words.astype(np.float64) + 0.5) / (1 << 52)
        if self.kind == "steps":
            many = np.array([many for many, _ in self.steps], dtype=np.float64)
            much = np.array([much for _, much in self.steps])
            found = much[np.searchsorted(np.cumsum(many) / many.sum(), places)]
        else:
            found = self._invert(ends, places)
        within: Floats = np.clip(found, ends.low, ends.cap)
        return within

    def _invert(self, ends: Ends, places: Floats) -> Floats:
        """Return the numbers that stand at these quantiles of the column."""
        low, span, start = ends.low, ends.cap - ends.low, ends.lower or 0.0
        if self.kind == "flat":
            return low + span * places
        if self.kind == "zipf":
            return start + ends.unit * ((1 - places) ** (-1 / self.numbers[0]) - 1)
        if self.kind == "geometric":
            return start + ends.unit * np.floor(np.log1p(-places) / math.log(self.numbers[0]))
        normal = np.interp(places, _FINE, _invert_normal())
        if self.kind == "normal":
            mean, deviation = self.numbers or (low + span / 2, span / 6)
            return mean + deviation * normal
        # Where nothing is said, halfway up in logarithms: between the unit and the cap.
        middle = start + math.sqrt(ends.unit * max(ends.cap - start, ends.unit))
        median, sigma = self.numbers or (middle, _SIGMA)
        found: Floats = median * np.exp(sigma * normal)
        return found


# Places at which a normal law is inverted; between them it is nearly straight.
_FINE: Floats = np.concatenate(
    [
        np.geomspace(1e-7, 0.02, 64),
        np.linspace(0.02, 0.98, 512)[1:-1],
        1 - np.geomspace(0.02, 1e-7, 64),
    ]
)


@cache
def _invert_normal() -> list[float]:
    """Return the quantiles of a normal law at those places."""
    return [NormalDist().inv_cdf(place) for place in _FINE]


def parse_shape(text: str) -> Shape:
    """Return the shape that a text writes down.

    Raises
    ------
    InvalidParameter
        If it writes none.
    """
    kind, _, rest = text.partition(":")
    if kind == "steps":
        return Shape(text, kind, steps=_read_steps(text, rest))
    found = _WRITTEN.fullmatch(text)
    numbers = (
        () if found is None else tuple(float(one) for one in found.groups()[1:] if one is not None)
    )
    if found is None or not _fits_shape(kind, numbers):
        raise InvalidParameter(f"like must be {_HOW}, or public data; got {shown(text)}.")
    return Shape(text, kind, numbers)


def parse_spread(text: str) -> tuple[Shape, Shape | None]:
    """Return the shape of what people add up to, and that of how it falls from label to label.

    They are written as "lognormal:200,1 by zipf:1.1"; without the second one it is None.

    Raises
    ------
    InvalidParameter
        If a text writes no shape, or the second one says nothing about labels.
    """
    numbers, by, labels = text.partition(" by ")
    spread = parse_shape(labels.strip()) if by else None
    if spread is not None:
        spread.list_counts(1, 1)
    return parse_shape(numbers.strip()), spread


def is_shape(text: Any) -> bool:
    """Tell whether a text means a shape, and not a file: by the word that it begins with."""
    return isinstance(text, str) and text.partition(" by ")[0].partition(":")[0] in _KINDS


def check_rows(owner: str, like: Any, rows: Any) -> None:
    """Refuse a number of rows beside public data.

    Raises
    ------
    InvalidParameter
        If both are given.
    """
    if rows is not None and like is not None and not is_shape(like):
        raise InvalidParameter(
            f"{owner}.rows must not be given with public data, which have rows of their own."
        )


def _fits_shape(kind: str, numbers: tuple[float, ...]) -> bool:
    """Tell whether a kind has these parameters."""
    return kind in _KINDS and kind != "steps" and _KINDS[kind](numbers)


_KINDS: dict[str, Callable[[tuple[float, ...]], bool]] = {
    "flat": lambda numbers: not numbers,
    "zipf": lambda numbers: len(numbers) == 1 and 0 < numbers[0] <= 100,
    "geometric": lambda numbers: len(numbers) == 1 and 0 < numbers[0] < 1,
    "steps": lambda _: True,
    "normal": lambda numbers: not numbers or (len(numbers) == 2 and numbers[1] > 0),
    "lognormal": lambda numbers: not numbers or (len(numbers) == 2 and min(numbers) > 0),
}


def _read_steps(text: str, rest: str) -> tuple[tuple[int, float], ...]:
    parts = [_STEP.fullmatch(part) for part in rest.split(",")]
    steps = tuple((int(part[1]), float(part[2])) for part in parts if part is not None)
    together = sum(many for many, _ in steps)
    if len(steps) < len(parts) or not 1 <= together <= _MOST_STEPS:
        raise InvalidParameter(
            f"like must be steps:HOWMANYxHOWMUCH,... of at most {_MOST_STEPS} together, such as "
            f"steps:10x500,90x20; got {shown(text)}."
        )
    return steps
