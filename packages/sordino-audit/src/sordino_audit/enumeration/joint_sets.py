"""The law of the joint top-k, over all sets: the auditor's own, set by set and without classes.

Claim: each listed probability lies between its two decimals. Proof: docs/proofs/joint-top-k.md.
Floats: none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.errors import InvalidParameter
from sordino.mechanisms import JointTopK
from sordino.noise.probability import Bounds, contexts, exp_bounds
from sordino_audit.enumeration.played import check_domain, check_size, nonzero
from sordino_audit.enumeration.selection import Counted
from sordino_audit.enumeration.subject import Subject

_DIGITS = 60


def joint_top_k(mechanism: JointTopK, n: int) -> Subject:
    """Return the stated law of the set; with a domain, over all of its items."""
    domain = mechanism.domain_size
    check_domain(domain)
    size = n if domain is None else domain
    if mechanism.k > size:
        raise InvalidParameter(
            f"JointTopK.k must be at most the number of answers {size}; got {mechanism.k}."
        )

    def steps(answers: Any) -> NDArray[np.int64]:
        given = (answers,) if domain is None else nonzero(answers)
        # The rounding and the positions are those of the library.
        found, at, _ = mechanism.on_grid(*given)
        if domain is None:
            check_size(found, n)
        dense = np.zeros(size, dtype=np.int64)
        dense[at] = found
        return dense

    return Subject(
        laws=[],
        steps=steps,
        stated=lambda found: joint_sets(found.tolist(), mechanism.k, mechanism.rate),
        cost=mechanism.cost,
        sensitivity=mechanism.sensitivity,
        name=repr(mechanism),
    )


def joint_sets(q: list[int], k: int, rate: Fraction) -> Counted:
    """Return every set of `k` places with bounds of its probability, proportional to e^(-rate/2 regret)."""
    return Counted(math.comb(len(q), k), _list_sets(q, k, rate))


def _list_sets(q: list[int], k: int, rate: Fraction) -> Iterator[tuple[Any, Bounds]]:
    down, up = contexts(_DIGITS)
    regrets = {}
    for chosen in combinations(range(len(q)), k):
        outside = [x for i, x in enumerate(q) if i not in chosen]
        # If nothing is outside, there is one set, and no regret.
        regrets[chosen] = max(outside) - min(q[i] for i in chosen) if outside else 0
    least = min(regrets.values())
    # Relative to the best set: no weight is above 1.
    weights = {d: exp_bounds(rate * (d - least) / 2, _DIGITS) for d in set(regrets.values())}
    low = high = Decimal(0)
    for d, times in Counter(regrets.values()).items():
        low = down.add(low, down.multiply(times, weights[d][0]))
        high = up.add(high, up.multiply(times, weights[d][1]))
    for chosen, d in regrets.items():
        yield chosen, (down.divide(weights[d][0], high), up.divide(weights[d][1], low))
