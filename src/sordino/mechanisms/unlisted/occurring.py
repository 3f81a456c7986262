"""Counts of labels that occur, with the labels: what the mechanisms for unlisted labels take.

Labels with fewer than the least count are no items: they get no noise and no place, so that whoever
hands them in and whoever leaves them out get the same release. Among equals the label that comes
first in the order of its code points wins, which is a public order of all labels; a position in the
list would be private. A label of several columns is a tuple of texts, and these are ordered part by
part: joined in one text, of whatever kind, they would have another order.

Claim: what is kept is a set of labels with their counts, each decided by what was given for that
label alone, in a public order; a count that is kept moves no further than those that were given.
Proof: docs/proofs/unlisted.md, "Setting". Floats: none after the counts are whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import shown, to_fraction
from sordino.entropy import Entropy
from sordino.errors import InvalidParameter
from sordino.grid import CLAMP, Steps, to_steps
from sordino.releases import Label, split_label
from sordino.sensitivity import Sensitivity

_ONE = Fraction(1)

# What the parameters mean that mechanisms for unlisted labels have in common.
COUNTS_OF_UNITS_MEANS = (
    "Counts of units, each of which counts for at most M labels: bound=1, step=1, and l1=M under "
    "add-remove, l1=2M under replace-one."
)
DELTA_MEANS = "How likely a label may be released that only one unit has. Always spent in full."
LEAST_MEANS = "The least count that takes part: labels with fewer units are left out."
ABOVE_MEANS = "A public threshold of your own, in counts, rounded up. The larger one counts."
COUNT_STEP_MEANS = "Width of the grid: 1, counts are whole."
SPENT_FOR_FOUND_MEANS = (
    "What a release spends at most, exactly. `UnlistedTop.cost` is what it did spend: less epsilon "
    "where the list is shorter than k, the same delta."
)


class Occurring(NamedTuple):
    """The counts that take part, shape (m,), and their labels in the order of code points.

    There may be none: m = 0.
    """

    counts: NDArray[np.int64]
    labels: list[Label]


def read_counts(answers: Any, owner: str) -> NDArray[np.int64]:
    """Return private answers as whole numbers, shape (n,); n may be 0.

    Raises
    ------
    InvalidParameter
        If they are not a list.
    """
    if _length(answers) == 0:
        return np.zeros(0, dtype=np.int64)
    return np.atleast_1d(to_steps(answers, _ONE, owner))


def read_occurring(answers: Any, labels: Any, least: int, owner: str) -> Occurring:
    """Return the counts of at least `least`, with their labels.

    What is no text is no label, and of a label that is given twice the largest count counts:
    nothing here raises by what the rows hold.

    Raises
    ------
    InvalidParameter
        If both are not lists of one length.
    """
    length = _length(answers)
    if length < 0 or length != _length(labels):
        raise InvalidParameter(
            f"{owner}.release needs two lists of one length: answers, and their labels."
        )
    counts = read_counts(answers, owner)
    # Only what is kept is looked at: most of a long list may lie below the least count.
    places = np.flatnonzero(counts >= least)
    named = list(labels)
    texts = [_read_label(named[place]) for place in places.tolist()]
    # In order already, which is how tables hand them in: without a second look at a million labels.
    if all(text is not None for text in texts) and all(
        split_label(one) < split_label(other)
        for one, other in pairwise(texts)
        if one is not None and other is not None
    ):
        return Occurring(counts[places], [text for text in texts if text is not None])
    # The largest of counts that move by a step moves by a step, and what lies below the least count
    # is never it. The first one of those that occur would jump, where one unit more lets another
    # one occur.
    largest: dict[Label, int] = {}
    for text, count in zip(texts, counts[places].tolist(), strict=True):
        if text is not None:
            largest[text] = max(count, largest.get(text, count))
    ordered = sorted(largest, key=split_label)
    return Occurring(np.array([largest[text] for text in ordered], dtype=np.int64), ordered)


def play_labels(
    mechanism: Any, answers: Any, labels: Any, entropy: Entropy
) -> tuple[tuple[Label, ...], Steps]:
    """Let a mechanism play private counts.

    Return the labels that it told, and what of each, in steps.

    An output of its rules lists positions of labels, -1 from where there are no more, and then the
    rest.
    """
    occurring = read_occurring(answers, labels, mechanism.least, type(mechanism).__name__)
    items, told = mechanism.rules.play(occurring.counts, occurring.counts.size, entropy)
    found = int(np.count_nonzero(items >= 0))
    return tuple(occurring.labels[item] for item in items[:found].tolist()), told[:found]


def _length(values: Any) -> int:
    """Return how many values a list has, or -1 for what is no list."""
    listed = hasattr(values, "__len__") and getattr(values, "ndim", 1) == 1
    return len(values) if listed and not isinstance(values, str | bytes | dict) else -1


def _read_label(value: Any) -> Label | None:
    """Return a label as a plain text, or as two or more of them; None if it is none.

    No method of the value is called.
    """
    if not issubclass(type(value), tuple):
        return _read_text(value)
    parts = [_read_text(part) for part in tuple.__iter__(value)]
    texts = tuple(part for part in parts if part is not None)
    return texts if 1 < len(texts) == len(parts) else None


def _read_text(value: Any) -> str | None:
    return str.__str__(value) if issubclass(type(value), str) else None


# ---- what one unit can do ------------------------------------------------------------------------


@dataclass(frozen=True)
class Reach:
    """How far one unit reaches: what follows from a statement about counts.

    Attributes
    ----------
    labels : int
        How many labels a unit counts for at most: so many may be in one of two neighbors alone.
    spread : int
        1 under add-remove, where all counts move one way, 2 under replace-one.
    """

    labels: int
    spread: int

    @property
    def together(self) -> int:
        """How far all counts move together."""
        return self.spread * self.labels

    def selection_steps(self, found: int, k: int) -> int:
        """Return how many noise steps pay for `found` items before a noisy threshold, or `k`."""
        return self.spread * k if found >= k else self.spread * found + 1


def read_reach(sensitivity: Sensitivity, owner: str, *, bounded: bool = True) -> Reach | None:
    """Return how far one unit reaches by a statement about counts; None if it is not bounded.

    Parameters
    ----------
    sensitivity : Sensitivity
        About each count, and with `l1` about all of them: M under add-remove, 2M under replace-one.
    owner : str
        Who asks, for the message.
    bounded : bool
        Whether a bound of all counts is needed.

    Raises
    ------
    InvalidParameter
        If it is not about counts, or has no bound that is needed.
    """
    either = sensitivity.adjacency == "replace-one"
    if (sensitivity.bound, sensitivity.step, sensitivity.monotone) != (1, 1, not either):
        raise InvalidParameter(
            f"{owner}.sensitivity must be about counts of units: bound=1, step=1, monotone under "
            f"add-remove and not under replace-one; got bound={shown(sensitivity.bound)}, "
            f"step={shown(sensitivity.step)}, monotone={sensitivity.monotone}, "
            f"{sensitivity.adjacency}."
        )
    if sensitivity.l1 is None:
        if bounded:
            raise InvalidParameter(
                f"{owner}.sensitivity must bound all counts together, l1=M under add-remove and 2M "
                "under replace-one for units that count for M labels at most; got none. Give "
                "max_rows, or use LimitedTopK, which needs no such bound."
            )
        return None
    # Counts move by whole steps. Under replace-one a unit leaves and another one comes, each with M
    # labels.
    moved = floor(to_fraction(sensitivity.l1))
    labels = ceil(Fraction(moved, 2)) if either else moved
    if labels < 1:
        raise InvalidParameter(
            f"{owner}.sensitivity must let a unit count for at least one label, l1 at least 1; "
            f"got l1={shown(sensitivity.l1)}."
        )
    return Reach(labels, 2 if either else 1)


def counting(labels: int, *, either: bool = False) -> Sensitivity:
    """Return the statement about counts of units that count for at most so many labels."""
    return Sensitivity(
        bound=1,
        monotone=not either,
        adjacency="replace-one" if either else "add-remove",
        step=1,
        l1=(2 if either else 1) * labels,
    )


def find_threshold(least: int, offset: int, above: Any, owner: str) -> int:
    """Return the threshold: the least count and the offset, or the caller's own if that is larger.

    Raises
    ------
    InvalidParameter
        If it, or that of the caller, is beyond 2^52.
    """
    # Counts are whole: one is at or above a number if it is at or above the next whole one.
    own = least if above is None else ceil(to_fraction(above))
    threshold = max(least + offset, own)
    # Far below there is no float, and whoever says how far a count lies above it needs one.
    if own < -CLAMP:
        raise InvalidParameter(f"{owner}.above must be at least -2^52; got {shown(above)}.")
    if threshold > CLAMP:
        raise InvalidParameter(
            f"{owner} must have a threshold of at most 2^52; got one beyond. Raise epsilon (rho) "
            "or delta, lower `least` or `above`, or let a unit count for fewer labels."
        )
    return threshold
