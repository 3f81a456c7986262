"""How many of the rows that count held a number: a noisy count of those, and one of all others.

Claim: between neighbors the two counts move by at most as many rows as one unit has, in all,
replaced by twice as many; `low` and `high` contain the share with at least its confidence. Proof:
docs/proofs/numbers-share.md. Noise: discrete Laplace, from `LaplaceMechanism`. Floats:
post-processing of two released whole numbers.
"""

from __future__ import annotations

from fractions import Fraction

from sordino.constraints import Number, to_fraction
from sordino.estimators.column_release import NumbersShare
from sordino.estimators.intervals import interval
from sordino.mechanisms import LaplaceMechanism
from sordino.releases import Values
from sordino.sensitivity import Adjacency, Sensitivity

CONFIDENCE = Fraction(95, 100)


def count_numbers(epsilon: Fraction, *, adjacency: Adjacency, rows: int) -> LaplaceMechanism:
    """Return what releases the two counts: of rows with a number, and of rows without.

    Parameters
    ----------
    epsilon : Fraction
        Budget of both together.
    adjacency : {"add-remove", "replace-one"}
        What neighbors are.
    rows : int
        How many rows of one unit count at most, in all groups together.
    """
    # Each row is in one of the two counts. A replaced unit takes its rows away and brings others.
    bound = rows if adjacency == "add-remove" else 2 * rows
    statement = Sensitivity(
        bound=bound,
        monotone=adjacency == "add-remove",
        adjacency=adjacency,
        norm="l1",
        step=1,
        size=2,
    )
    return LaplaceMechanism(epsilon=epsilon, sensitivity=statement)


def estimate_share(counts: Values, *, confidence: Number = CONFIDENCE) -> NumbersShare:
    """Return the share that two released counts tell, and an interval of it.

    Parameters
    ----------
    counts : Values
        What `count_numbers` released: rows with a number, and rows without.
    confidence : number
        In (0, 1): least probability with which the interval holds.
    """
    # Each of the two intervals may be wrong with half of what is left.
    each = 1 - (1 - to_fraction(confidence)) / 2
    lows, highs = (ends.clip(min=0).tolist() for ends in interval(counts, confidence=each))
    (fewest_known, fewest_missing), (most_known, most_missing) = lows, highs
    # Few numbers among many rows without is the least share; 0 of 0 rows tell nothing.
    low = fewest_known / (fewest_known + most_missing) if fewest_known else 0.0
    high = most_known / (most_known + fewest_missing) if fewest_missing else 1.0
    known, missing = counts.values.clip(min=0).tolist()
    share = known / (known + missing) if known + missing > 0 else None
    # Ends of 0 and 1 say that nothing is known: then no number in between is worth more than any
    # other.
    if (low, high) == (0.0, 1.0):
        share = None
    return NumbersShare(
        estimate=share,
        low=low,
        high=high,
        mechanism=counts.mechanism,
        cost=counts.cost,
        simulated=counts.simulated,
    )
