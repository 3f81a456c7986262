"""The laws of the exponential mechanism in closed form: with the lead, and drawn without replacement.

Claim: each listed probability lies between its two decimals. Proof: docs/proofs/exponential-mechanism.md (1),
"Top k".
Floats: none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import permutations
from typing import Any, final

from sordino.noise.probability import Bounds, contexts, exp_bounds

_SOFTMAX_DIGITS = 60
_NEGLIGIBLE_LEAD = Decimal("1e-30")  # leads are listed until each place has less than about this left
_LEAD_NATS = 70  # ln 1e30, and a bit


@final
@dataclass(frozen=True, eq=False)
class Counted:
    """Outputs with the bounds of their probabilities, computed as they are asked for.

    `size` is about how many there are, at most.
    """

    size: int
    outputs: Iterable[tuple[Any, Bounds]]

    def __iter__(self) -> Iterator[tuple[Any, Bounds]]:
        return iter(self.outputs)


def leads(q: list[int], rate: Fraction) -> Counted:
    """Return every place with every lead that matters, (place, lead), with the bounds of its probability."""
    # How far each answer leads all others: so many leads are likely, before their probabilities fall.
    above = [max(0, x - max(q[:i] + q[i + 1 :])) for i, x in enumerate(q)]
    return Counted(sum(far + math.ceil(_LEAD_NATS / rate) for far in above), _list_leads(q, rate))


def peeled(q: list[int], k: int, rate: Fraction) -> Counted:
    """Return every ordered choice of `k` places.

    Each place has a probability proportional to its weight among those that are left.
    """
    return Counted(math.perm(len(q), k), _list_choices(q, k, rate))


def _list_leads(q: list[int], rate: Fraction) -> Iterator[tuple[Any, Bounds]]:
    """Yield the law of place and lead.

    With w the weight of the place and R that of all others, P(lead = m) = w e^(-rate m) R (1 - e^-rate) /
    (A(m) A(m + 1)), where A(m) = w e^(-rate m) + R.
    """
    down, up = contexts(_SOFTMAX_DIGITS)
    weights = _enclose_weights(q, rate)
    one = exp_bounds(rate, _SOFTMAX_DIGITS)
    fall = down.subtract(1, one[1]), up.subtract(1, one[0])
    for i, x in enumerate(q):
        others = _add_weight_bounds(weight for j, weight in enumerate(weights) if j != i)
        m, after = 0, weights[i]
        # What is left of a place, relative to the others, falls with the lead: the list ends where that is
        # negligible.
        while m == 0 or after[1] > up.multiply(others[0], _NEGLIGIBLE_LEAD):
            here, after = after, exp_bounds(rate * (max(q) - x + m + 1), _SOFTMAX_DIGITS)
            # All factors are positive, so that bounds of them multiply to bounds of the formula above.
            above = _multiply_weight_bounds([here, others, fall])
            below = _multiply_weight_bounds(
                [_add_weight_bounds([here, others]), _add_weight_bounds([after, others])]
            )
            yield (i, m), (down.divide(above[0], below[1]), up.divide(above[1], below[0]))
            m += 1


def _list_choices(q: list[int], k: int, rate: Fraction) -> Iterator[tuple[Any, Bounds]]:
    down, up = contexts(_SOFTMAX_DIGITS)
    weights = _enclose_weights(q, rate)
    for chosen in permutations(range(len(q)), k):
        turns = []
        for turn, i in enumerate(chosen):
            # What was chosen before takes no part any more.
            left = _add_weight_bounds(weight for j, weight in enumerate(weights) if j not in chosen[:turn])
            turns.append((down.divide(weights[i][0], left[1]), up.divide(weights[i][1], left[0])))
        yield chosen, _multiply_weight_bounds(turns)


def _enclose_weights(q: list[int], rate: Fraction) -> list[Bounds]:
    # Relative to the largest answer: no weight is above 1, and only differences count.
    return [exp_bounds(rate * (max(q) - x), _SOFTMAX_DIGITS) for x in q]


def _add_weight_bounds(parts: Iterable[Bounds]) -> Bounds:
    down, up = contexts(_SOFTMAX_DIGITS)
    low = high = Decimal(0)
    for part in parts:
        low, high = down.add(low, part[0]), up.add(high, part[1])
    return low, high


def _multiply_weight_bounds(parts: Iterable[Bounds]) -> Bounds:
    down, up = contexts(_SOFTMAX_DIGITS)
    low = high = Decimal(1)
    for part in parts:
        low, high = down.multiply(low, part[0]), up.multiply(high, part[1])
    return low, high
