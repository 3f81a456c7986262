"""What quantiles lose between neighbours, in every view of a cost."""

from __future__ import annotations

import math

import numpy as np
import pytest

from support.rank_laws import law

ROUNDING = 1e-9
ORDERS = (1.5, 2, 8)
RARE = 1e-13


def _align(one, other):
    """Two laws as arrays over the outcomes of either: what a law does not list is too rare to be listed."""
    outcomes = {**one, **other}
    return (np.array([law.get(outcome, 0.0) for outcome in outcomes]) for law in (one, other))


class Losses:
    """The worst over all pairs: log ratios in the order of the pair and back, hockey sticks and divergences of either order."""

    def __init__(self, m, pairs):
        known, self.forth, self.back = {}, 0.0, 0.0
        self.epsilons = [share * float(m.cost.pure()) for share in (0.25, 0.5, 0.8)]
        self.deltas, self.renyi = np.zeros(3), np.zeros(3)
        for pair in pairs:
            for one in pair:
                if one not in known:
                    known[one] = law(m, one)
                    assert sum(known[one].values()) == pytest.approx(1, abs=1e-12)
            p, q = _align(*(known[one] for one in pair))
            seen = (p > RARE) & (q > RARE)  # sums in floats say nothing of the others
            ratios = np.log(p[seen] / q[seen])
            self.forth, self.back = max(self.forth, ratios.max()), max(self.back, -ratios.min())
            for one, other in ((p, q), (q, p)):
                self.deltas = np.maximum(
                    self.deltas,
                    [np.maximum(one - math.exp(e) * other, 0).sum() for e in self.epsilons],
                )
                self.renyi = np.maximum(
                    self.renyi,
                    [
                        math.log((one[seen] ** a * other[seen] ** (1 - a)).sum()) / (a - 1)
                        for a in ORDERS
                    ],
                )

    @property
    def worst(self):
        return max(self.forth, self.back)

    def no_view_is_broken(self, cost):
        assert self.worst <= cost.pure() + ROUNDING
        assert (
            self.deltas <= np.array([cost.delta(epsilon) for epsilon in self.epsilons]) + ROUNDING
        ).all()
        assert (self.renyi <= np.array([cost.rdp(alpha) for alpha in ORDERS]) + ROUNDING).all()
        assert (
            self.renyi <= np.array([float(cost.zcdp()) * alpha for alpha in ORDERS]) + ROUNDING
        ).all()
