"""Figures that are made of several released rows, with intervals from the exact law of their noise.

They are the sum and the difference of rows, their ratio, their ranks, and several looks at the same
rows. All of it is post-processing, at no cost.

Claim: each interval covers the figure of the answers with at least the stated confidence, ranks all
together. Proof: docs/proofs/derived-figures.md. Floats: released values are whole numbers of steps
again; ends are rounded to the nearest float.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np

from sordino.constraints import SHARE, Number, shown, to_fraction
from sordino.errors import InvalidParameter
from sordino.figures import Combination, DerivedValue, Ratio, Term, find_far, read_terms, state

_LEAST_VARIANCE = 1e-300
_LARGEST_WEIGHT = 1000


@final
@dataclass(frozen=True, kw_only=True)
class RowRanks:
    """Which ranks a row may have among the released rows, by the answers behind them.

    Attributes
    ----------
    item : object
        The row: its label, or its position.
    best, worst : int
        1 is the rank of the largest answer. Rows with equal answers may have either rank.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.LaplaceMechanism(epsilon=2, sensitivity=sd.COUNTING.over(2))
    >>> [first, second] = sd.rank_rows(m.release([900, 300], entropy=sd.Seeded(7)))
    >>> first
    RowRanks(item=0, best=1, worst=1)
    """

    item: Any
    best: int
    worst: int


def add_rows(
    release: Any,
    items: Iterable[Any] | None = None,
    *,
    minus: Iterable[Any] = (),
    confidence: Number = 0.95,
) -> DerivedValue:
    """Return the sum of some rows of a release, less others, with an interval from its exact law.

    The ends of intervals of rows can be added up as well, but their noise hardly ever is at its end
    in all rows at once: for five counts with noise of rate 0.2 this interval reaches 32 to each
    side, and that of the added ends 75.

    Parameters
    ----------
    release : Histogram, TopItems, Count, Value or Values
        With Laplace or Gaussian noise. Rows of a session have labels, those of a mechanism
        positions.
    items : iterable, optional
        The rows to be added; all if not given.
    minus : iterable, optional
        Rows that are subtracted.
    confidence : number
        In (0, 1), if the rows are chosen before anything is seen of them, or by other noise, such
        as that of a selection. Who looks at several sums, and then chooses one, must ask for more.

    Raises
    ------
    InvalidParameter
        If a row is not one of the release or is named twice, if there is none, if the release has
        other noise, or the confidence is not in (0, 1).

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING.over(5))
    >>> counts = m.release([100, 200, 300, 400, 500], entropy=sd.Seeded(7))
    >>> total, lead = sd.add_rows(counts), sd.add_rows(counts, [4], minus=[0])
    >>> total.high - total.value, lead.high - lead.value
    (32.0, 21.0)
    """
    wrong = 1 - SHARE("add_rows.confidence", confidence)
    rows = read_terms(release, "add_rows")
    taken = (
        list(rows.values())
        if items is None
        else [_find(rows, item, "add_rows.items") for item in items]
    )
    given = [_find(rows, item, "add_rows.minus") for item in minus]
    weights: dict[Any, Fraction] = dict.fromkeys(taken, Fraction(1)) | dict.fromkeys(
        given, Fraction(-1)
    )
    # Two mentions of one row are a slip: where a row is to count twice, operators say so.
    if len(weights) < len(taken) + len(given) or not weights:
        raise InvalidParameter("add_rows needs at least one row, and each of them once.")
    return state(Combination(weights), confidence=1 - wrong, planned=False, parts=(release,))


def divide_rows(
    release: Any, first: Any, second: Any, *, confidence: Number = 0.95
) -> DerivedValue:
    """Return the ratio of two rows of a release, with an interval by the exact law of their noise.

    It has an upper end only where the divisor is surely above 0. Counts, which the rows of a
    session are, are not negative; then the lower end is at least 0.

    Parameters
    ----------
    release : Histogram, TopItems or Values
        As for `add_rows`.
    first, second : object
        Two rows: first / second.
    confidence : number
        In (0, 1).

    Raises
    ------
    InvalidParameter
        As for `add_rows`.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.LaplaceMechanism(epsilon=2, sensitivity=sd.COUNTING.over(2))
    >>> ratio = sd.divide_rows(m.release([900, 300], entropy=sd.Seeded(7)), 0, 1)
    >>> 2.8 < ratio.low < 3 < ratio.high < 3.2
    True
    """
    share = SHARE("divide_rows.confidence", confidence)
    rows = read_terms(release, "divide_rows")
    over, under = _find(rows, first, "divide_rows.first"), _find(rows, second, "divide_rows.second")
    if over == under:
        raise InvalidParameter(f"divide_rows needs two different rows; got {shown(first)} twice.")
    ratio = Ratio(*(Combination({row: Fraction(1)}) for row in (over, under)))
    return state(ratio, confidence=to_fraction(share), planned=False, parts=(release,))


def rank_rows(release: Any, *, confidence: Number = 0.95) -> tuple[RowRanks, ...]:
    """Return which ranks each row may have among the released ones; all of them hold together.

    One row is surely above another one if its value leads by more than the noise of both would, for
    any of the pairs. Rows that were not released have no rank here.

    Parameters
    ----------
    release : Histogram, TopItems or Values
        As for `add_rows`.
    confidence : number
        In (0, 1): of all ranks together.

    Returns
    -------
    tuple of RowRanks
        In the order of the rows.

    Raises
    ------
    InvalidParameter
        As for `add_rows`; if the rows have noise of different laws or steps.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.LaplaceMechanism(epsilon=3, sensitivity=sd.COUNTING.over(3))
    >>> counts = m.release([900, 301, 300], entropy=sd.Seeded(7))
    >>> [(row.best, row.worst) for row in sd.rank_rows(counts)]
    [(1, 1), (2, 3), (2, 3)]
    """
    wrong = 1 - SHARE("rank_rows.confidence", confidence)
    rows = read_terms(release, "rank_rows")
    k, [any_row, *_] = len(rows), rows.values()
    if k == 1:
        return (RowRanks(item=next(iter(rows)), best=1, worst=1),)
    # Groups that were clipped at their own ends have noise of their own.
    if any((row.law, row.step) != (any_row.law, any_row.step) for row in rows.values()):
        raise InvalidParameter(
            "rank_rows needs rows whose noise is the same; got a release in which it is not. "
            "Compare two of them by their difference: derive(release, first) - derive(release, "
            "second)."
        )
    # For each pair only one of the two directions can be wrong, so that one tail is enough.
    far = find_far([(any_row.law, Fraction(1))] * 2, 2 * wrong / math.comb(k, 2))
    lead = math.floor(far) + 1
    # Released values are whole numbers of steps.
    steps = {name: round(row.value / row.step) for name, row in rows.items()}
    ordered = np.sort(np.array(list(steps.values()), dtype=object).astype(np.float64))
    ranks = []
    for name, value in steps.items():
        above = k - int(np.searchsorted(ordered, value + lead))
        below = int(np.searchsorted(ordered, value - lead, side="right"))
        ranks.append(RowRanks(item=name, best=1 + above, worst=k - below))
    return tuple(ranks)


def combine_looks(
    releases: Iterable[Any], *, confidence: Number = 0.95
) -> tuple[DerivedValue, ...]:
    """Return each row from several independent looks at it, with an interval from the exact law.

    The values are weighted by one over their variances, rounded to whole numbers.

    Parameters
    ----------
    releases : iterable of Histogram, TopItems, Count, Value or Values
        At least two, with Laplace or Gaussian noise of their own, about the same rows.
    confidence : number
        In (0, 1), if it does not depend on released values how often and how finely was looked. If
        it does, take the last look alone.

    Returns
    -------
    tuple of DerivedValue
        One for each row, in the order of the first release.

    Raises
    ------
    InvalidParameter
        If there are fewer than two looks, they have different rows or other noise, one is there
        twice, or the confidence is not in (0, 1).

    Examples
    --------
    >>> import sordino as sd
    >>> noise, m = sd.Seeded(7), sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING)
    >>> looks = [m.release(1000, entropy=noise), m.release(1000, entropy=noise)]
    >>> [both] = sd.combine_looks(looks)
    >>> both.high - both.low, sd.interval(looks[0])[1] - sd.interval(looks[0])[0]
    (4.0, 6.0)
    """
    wrong = 1 - SHARE("combine_looks.confidence", confidence)
    listed = tuple(releases)
    looks = [read_terms(release, "combine_looks") for release in listed]
    if len(looks) < 2 or any(look.keys() != looks[0].keys() for look in looks):
        raise InvalidParameter("combine_looks needs at least two releases about the same rows.")
    firsts = [next(iter(look.values())) for look in looks]
    _check_independent(firsts)
    weights = weigh_looks(firsts)
    return tuple(
        state(
            Combination({look[name]: weight for look, weight in zip(looks, weights, strict=True)}),
            confidence=1 - wrong,
            # That is what its interval asks for.
            planned=True,
            parts=listed,
            item=name,
        )
        for name in looks[0]
    )


def weigh_looks(looks: Sequence[Term]) -> list[Fraction]:
    """Return the weights of independent looks at one answer, 1 in all.

    They are proportional to one over the variances of the looks, rounded.
    """
    # Exact squares: those of floats may be 0, or infinite, where the steps are neither. Noise that
    # is hardly ever there has a variance that is no float, and still one.
    precisions = [
        1 / (Fraction(max(look.law.variance, _LEAST_VARIANCE)) * look.step**2) for look in looks
    ]
    weights = [max(1, round(_LARGEST_WEIGHT * one / max(precisions))) for one in precisions]
    return [Fraction(weight, sum(weights)) for weight in weights]


def _find(rows: Mapping[Any, Term], name: Any, caller: str) -> Term:
    """Return a row of a release."""
    if not isinstance(name, Hashable) or name not in rows:
        raise InvalidParameter(f"{caller} needs a row of the release; got {shown(name)}.")
    return rows[name]


def _check_independent(looks: Sequence[Term]) -> None:
    """Refuse looks of which one is another one."""
    if len({id(look.origin) for look in looks}) < len(looks):
        raise InvalidParameter("combine_looks needs independent looks; got one twice.")
