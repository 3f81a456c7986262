"""Chooses between a list and a set of the k largest counts, from public guesses, and says why.

Claim: none about privacy: whichever is chosen is private by its own proof, and the choice looks at
nothing private. Proof: docs/proofs/choosing-a-selector.md, "A list or a set". Floats: figures are
compared; equal inputs give equal choices.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from sordino.constraints import (
    COUNT,
    DOMAIN_SIZE,
    NOT_NEGATIVE,
    POSITIVE,
    TRUTH,
    Number,
    to_fraction,
)
from sordino.errors import InvalidParameter
from sordino.mechanisms import JointTopK, NoisyTopK
from sordino.sensitivity import COUNTING, Sensitivity

_SHARES_TRIED = 64
"""So many shares of wrong items are looked at."""


@final
@dataclass(frozen=True, kw_only=True)
class TopKChoice:
    """What `choose_top_k` chose.

    Attributes
    ----------
    mechanism : NoisyTopK or JointTopK
        The mechanism, ready to release.
    kth : float or None
        The guess of the k-th count, in units of k times spread over epsilon; None without a guess.
    needed : float
        From so many of these units on a set has hardly a wrong item.
    why : str
        The reason; public.

    Examples
    --------
    >>> import sordino as sd
    >>> found = sd.plan.choose_top_k(k=100, m=3000, epsilon=1, kth_count=800)
    >>> type(found.mechanism).__name__, found.kth, round(found.needed, 1)
    ('JointTopK', 8.0, 3.7)
    """

    mechanism: NoisyTopK | JointTopK
    kth: float | None
    needed: float
    why: str


def choose_top_k(
    *,
    k: int,
    m: int,
    epsilon: Number,
    sensitivity: Sensitivity = COUNTING,
    kth_count: Number | None = None,
    decay: Number = 0.5,
    ordered: bool = False,
) -> TopKChoice:
    """Choose between `NoisyTopK` and `JointTopK` for the k largest of m counts, from public facts.

    A set has next to no wrong item where the k-th count is large next to k/epsilon, and worse than
    a list below that. Nothing private is looked at, so the choice costs nothing; made from the data
    it would be another release. If the guess is wrong, the choice may be a bad one, and no less
    private.

    Parameters
    ----------
    k : int
        How many are selected: public, less than m.
    m : int
        How many counts there are, zeros of the domain among them: public, at most 2^52.
    epsilon : number
        Budget of the selection, in (0, inf).
    sensitivity : Sensitivity
        How far any one count moves between neighbors (norm "each").
    kth_count : number, optional
        About how large the k-th count is, in the unit of the counts: a public guess, such as last
        year's release. None: a list is chosen.
    decay : number
        How fast counts fall from the first to the k-th: as 1/rank^decay; 1 for Zipf's law, 0 for
        counts that are about equal. At least 0; smaller is more careful.
    ordered : bool
        Whether the order, or gaps, are wanted: a set has none.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> import sordino as sd
    >>> print(sd.plan.choose_top_k(k=100, m=3000, epsilon=1, kth_count=200).why)
    NoisyTopK: the count of rank 100 is about 2 times k/epsilon, and a set needs 3.7 times; ...
    """
    owner = "plan.choose_top_k"
    several, count = COUNT(f"{owner}.k", k), DOMAIN_SIZE(f"{owner}.m", m)
    if several >= count:
        raise InvalidParameter(f"{owner}.k must be less than m, {count}; got {several}.")
    budget, slope = (
        POSITIVE(f"{owner}.epsilon", epsilon),
        float(NOT_NEGATIVE(f"{owner}.decay", decay)),
    )
    wants_order = TRUTH(f"{owner}.ordered", ordered)
    guess = None if kth_count is None else NOT_NEGATIVE(f"{owner}.kth_count", kth_count)
    listed = NoisyTopK(k=k, epsilon=epsilon, sensitivity=sensitivity)
    needed = find_needed(several, count, slope)
    spread = to_fraction(sensitivity.bound) * (1 if sensitivity.monotone else 2)
    units = None if guess is None else float(guess * budget / (several * spread))
    if wants_order:
        return TopKChoice(
            mechanism=listed, kth=units, needed=needed, why="NoisyTopK: a set has no order."
        )
    if units is None:
        why = (
            f"NoisyTopK: nothing is known about the count of rank {several}; a set has hardly a "
            f"wrong item where it is at least {needed:.2g} times k/epsilon."
        )
        return TopKChoice(mechanism=listed, kth=None, needed=needed, why=why)
    about = f"the count of rank {several} is about {units:.3g} times k/epsilon"
    said = f"{about}, and a set needs {needed:.2g} times"
    if units < needed:
        why = f"NoisyTopK: {said}; below that it may find half of what a list finds."
        return TopKChoice(mechanism=listed, kth=units, needed=needed, why=why)
    joint = JointTopK(k=k, epsilon=epsilon, sensitivity=sensitivity)
    why = (
        f"JointTopK: {said}; a list would have more wrong items, a tenth to a quarter of k near "
        "that point."
    )
    return TopKChoice(mechanism=joint, kth=units, needed=needed, why=why)


def find_needed(k: int, m: int, decay: float) -> float:
    """Return the least k-th of m counts, in k/epsilon, at which no wrong sets outweigh the best.

    It is the maximum over shares f in (0, 1) of 2 f (1 - f)^decay (1 + ln(m / (f k))).
    """
    shares = ((step + 0.5) / _SHARES_TRIED for step in range(_SHARES_TRIED))
    return max(float(2 * f * (1 - f) ** decay * (1 + math.log(m / (f * k)))) for f in shares)
