"""Intervals of answers that their own noisy values selected: the best of a noisy histogram.

Claim: each upper end is wrong with at most its share of 1 - confidence, given that the row was
selected. Of the lower ends the one from the entry is so as well, and of those for all answers the
expected number of wrong ones is at most its share of k: docs/proofs/histogram-top-k.md. Floats:
chances are compared with a margin, so that an end may lie a step further out, never further in.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import Number, to_fraction
from sordino.estimators.rows import SelectedRows, share_confidence
from sordino.noise.law import Law
from sordino.releases import HistogramTop

Floats = NDArray[np.float64]
# Which share of the chance to be wrong a lower end has that counts on the number of all answers. It
# is for rows that were barely selected. The rest is for the ends that hold for each row.
_FOR_ALL = Fraction(1, 5)
# A chance is taken as smaller by this share than it was computed.
_MARGIN = 1 - 1e-9
# Below this a tail has no digits left to divide by.
_LEAST_TAIL = 1e-280


def estimate_histogram_rows(
    top: HistogramTop,
    *,
    size: int | None,
    confidence: Number,
    simultaneous: bool = False,
    capped: bool = False,
) -> SelectedRows:
    """Return one number and an interval for each row of a noisy histogram that selected itself.

    Parameters
    ----------
    top : HistogramTop
        What was selected, with its noisy answers.
    size : int or None
        Public number of all answers; None where it is not known.
    confidence : number
        In (0, 1). Of k rows the expected share whose interval is wrong is at most 1 - confidence.
    simultaneous : bool
        Whether all intervals hold together with that confidence.
    capped : bool
        Public: whether each unit counts for some of its items only. Then the true count may be
        higher.
    """
    rows = top.values.size
    wrong = 1 - to_fraction(confidence)
    # Together: every row gets its part of the chance, by adding up.
    each = wrong / max(rows, 1) if simultaneous else wrong
    low, high = find_ends(top, size=size, wrong=each)
    true_low, true_high = low, high
    if capped:
        # The true count has no upper end, and the whole chance to be wrong is that of the lower
        # one.
        true_low, true_high = find_ends(top, size=size, wrong=each, upper=False)
    _, together = share_confidence(confidence, rows, simultaneous=simultaneous)
    return SelectedRows(
        # No count lies below 0.
        estimate=np.maximum(top.values, 0.0),
        low=low,
        high=high,
        true_low=true_low,
        true_high=true_high,
        measured=top.values,
        combined=np.full(rows, np.nan),
        confidence=float(1 - each),
        # Chances to be wrong add up where the noise has selected.
        together=together
        if simultaneous
        else max(0.0, math.floor(1000 * float(1 - rows * wrong)) / 1000),
    )


def find_ends(
    top: HistogramTop, *, size: int | None, wrong: Fraction, upper: bool = True
) -> tuple[Floats, Floats]:
    """Return the ends of an interval of each row, wrong with a chance of `wrong`.

    Without an upper one if so.

    Parameters
    ----------
    top : HistogramTop
        What was selected.
    size : int or None
        Public number of all answers.
    wrong : Fraction
        The chance, on average over the rows if the size is known and the list is full.
    upper : bool
        Whether there are upper ends.
    """
    law, step = top.mechanism.noise, float(top.mechanism.step)
    values = np.rint(top.values / step)
    # Exactly k rows of a public number: then k/size of a chance may go to each answer, selected or
    # not.
    ranked = size is not None and top.crossed is not True and values.size > 0
    for_all = wrong * _FOR_ALL if ranked else Fraction(0)
    each = (wrong - for_all) / (2 if upper else 1)
    low = _bound_by_entry(law, values, np.rint(top.entries / step), each)
    if for_all and size is not None:
        low = np.maximum(low, values - _reach(law, for_all * values.size / size))
    high = np.maximum(values + _reach(law, each), 0.0) if upper else np.full(values.size, math.inf)
    # Answers of this mechanism in a session are counts: none lies below 0.
    return np.maximum(low, 0.0) * step, high * step


def _reach(law: Law, chance: Fraction) -> int:
    """Return the least R for which the noise exceeds it, to one side, with at most this chance."""
    return -law.quantile(float(chance) * _MARGIN)


def _bound_by_entry(law: Law, values: Floats, entries: Floats, chance: Fraction) -> Floats:
    """Return lower ends that hold given that a row was selected, in steps; 0 where there is none.

    A row wins with values from its entry c on. If its answer were at most t, a value of Y or more
    had, given that it won, at most the chance P(noise >= Y - t)/P(noise >= c - t). The end is the
    least t for which that is more than `chance`; the quotient rises with t.
    """
    free = np.isinf(entries)
    whole, entry = values.astype(np.int64), np.where(free, 0, entries).astype(np.int64)

    def winning(answer: NDArray[np.int64]) -> Floats:
        # Where any value wins, winning says nothing.
        return np.where(free, 1.0, law.sf(entry - answer - 1))

    below = np.full(values.size, -1)  # an answer of that is found to be too small,
    above = np.maximum(whole, 0)  # and this one is not: noise of 0 or more is no wonder.
    while (above - below > 1).any():
        middle = (below + above) // 2
        tail, won = np.asarray(law.sf(whole - middle - 1)), winning(middle)
        # Where no digits are left nothing is known of the answer. It is small, so look at larger
        # ones.
        wonder = (won <= _LEAST_TAIL) | (tail <= float(chance) * _MARGIN * won)
        below, above = np.where(wonder, middle, below), np.where(wonder, above, middle)
    # What is too small says so of all that are smaller. Without digits it does not, and nothing is
    # concluded.
    above = np.where(winning(below) > _LEAST_TAIL, above, 0)
    return above.astype(np.float64)
