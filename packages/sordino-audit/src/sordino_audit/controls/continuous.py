"""Controls: continuous mechanisms easy to get wrong, and right ones that attain what they claim.

Claim: the verdict and the loss that each control carries. Never a mechanism of this library. Noise:
continuous laws in ideal arithmetic. A float implementation of any of them is another mechanism, see
`controls.enumerated.float_laplace`.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from sordino.cost import Pure
from sordino.noise.probability import contexts, exp_bounds
from sordino_audit.continuous import enclosures as floats
from sordino_audit.continuous.crossings import Crossings
from sordino_audit.continuous.density import Density
from sordino_audit.continuous.enclosures import NEVER, Bounds, Floats
from sordino_audit.continuous.heavy_tail import HeavyTail
from sordino_audit.continuous.laws import Law
from sordino_audit.continuous.races import Race
from sordino_audit.controls import Control

_PURE_ONE = Pure(epsilon=1)
_NOISE_WINDOW = (-60, 60)
_CUT_OFF_SCALES = 8

BELOW = Law.exponential(2).mirrored()
"""Exponential noise with the other sign."""

_CAUCHY_LAW = HeavyTail(Fraction(4), one_sided=False)


def cut_off(low: Floats, high: Floats, answer: Any) -> Bounds:
    """Return the log density of heavy-tailed noise that was cut off at eight scales."""
    beyond = floats.plus(
        _CAUCHY_LAW.log_survival(np.array([_CUT_OFF_SCALES])), floats.log((np.array([2.0]),) * 2)
    )
    # The law is conditioned on what was not cut off: its density is divided by that probability.
    kept = floats.log1mexp((-beyond[1], -beyond[0]))
    z = floats.minus((low, high), (np.full(1, float(answer)),) * 2)
    # The density falls with the distance: lower bounds are taken at the far end, upper ones at the
    # near.
    far, near = (
        np.maximum(np.abs(z[0]), np.abs(z[1])),
        np.where(z[0] * z[1] <= 0, 0.0, np.minimum(np.abs(z[0]), np.abs(z[1]))),
    )
    found = floats.minus((_CAUCHY_LAW.log_density(far)[0], _CAUCHY_LAW.log_density(near)[1]), kept)
    return np.where(far <= _CUT_OFF_SCALES, found[0], NEVER), np.where(
        near <= _CUT_OFF_SCALES, found[1], NEVER
    )


@lru_cache
def log_odds(answers: tuple[Any, ...], rate: Fraction, winner: int) -> tuple[float, float]:
    """Return bounds of ln(w / the sum of all other weights), each weight being e^(rate answer)."""
    down, up = contexts(40)
    others = [rate * (max(answers) - x) for i, x in enumerate(answers) if i != winner]
    low, high = Decimal(0), Decimal(0)
    for exponent in others:
        bounds = exp_bounds(Fraction(exponent), 40)
        low, high = down.add(low, bounds[0]), up.add(high, bounds[1])
    own = rate * (max(answers) - answers[winner])
    # The decimals are correct to the last digit; one step outward makes them bounds.
    logs = down.next_minus(down.ln(low)), up.next_plus(up.ln(high))
    # Moved out by more than the conversion to floats may round.
    return float(-Decimal(own.numerator) / own.denominator - logs[1]) - 1e-13, float(
        -Decimal(own.numerator) / own.denominator - logs[0]
    ) + 1e-13


def lead(rate: Fraction) -> Density:
    """Return the exponential mechanism with its continuous lead, in units of 1/rate.

    The density of (winner, lead) is logistic.

    `rate` 1/2 serves answers that move both ways, 1 those that move together [ding2022, Alg. 6].
    """
    law = Law.logistic(1)

    def log_density(low: Floats, high: Floats, answers: Any, winner: int) -> Bounds:
        odds = log_odds(tuple(Fraction(x) for x in answers), rate, winner)
        z = floats.minus((low, high), (np.array(odds[0]), np.array(odds[1])))
        return law.log_density(*z) if law.log_density is not None else z

    return Density(
        log_density=log_density,
        labels=range(3),
        window=(0, 60),
        shape="concave",
        # The logistic log density has slopes of at most 1: a shift changes it by at most the shift.
        tail=lambda a, b: max(
            abs(x - y)
            for i in range(3)
            for x in log_odds(tuple(map(Fraction, a)), rate, i)
            for y in log_odds(tuple(map(Fraction, b)), rate, i)
        ),
        cost=_PURE_ONE,
        name=f"the continuous lead of an exponential mechanism of rate {rate}",
    )


CONTINUOUS = (
    # Wrong ones: each loses more than it is sold for.
    Control(
        name="continuous: threshold minus exponential noise",
        subject=Crossings(threshold=BELOW, queries=Law.exponential(4), positives=1, cost=_PURE_ONE),
        pair=((-1,), (0,)),
        loss=math.inf,
        source="an answer at the threshold is never below",
    ),
    Control(
        name="continuous: noise for answers that move together where one rises and one falls",
        subject=Crossings(
            threshold=Law.exponential(2), queries=Law.exponential(2), positives=1, cost=_PURE_ONE
        ),
        pair=((0, 0), (1, -1)),
        loss=1.5,
        source="ding2022, Section 5: replacing a row moves counts both ways",
    ),
    Control(
        name="continuous: the largest with half the noise that it needs",
        subject=Race(noise=Law.exponential(1), cost=_PURE_ONE, gap=True),
        pair=((1, 0), (0, 1)),
        loss=2,
        source="two answers move apart by two",
    ),
    Control(
        name="continuous: a heavy tail cut off",
        subject=Density(
            log_density=cut_off,
            breaks=lambda answer: [
                answer - _CUT_OFF_SCALES,
                *((answer + low, answer + high) for low, high in _CAUCHY_LAW.bends),
                answer + _CUT_OFF_SCALES,
            ],
            shape=("linear", "convex", "concave", "convex", "linear"),
            window=(-20, 20),
            tail=0,
            cost=_PURE_ONE,
            name="heavy-tailed noise cut off at eight scales",
        ),
        pair=(0, 1),
        loss=math.inf,
        source="outputs at the end are possible on one side only",
    ),
    Control(
        name="continuous: normal noise sold as pure",
        subject=Density.added(Law.gaussian(2), window=(-20, 20), tail=math.inf, cost=_PURE_ONE),
        pair=(0, 1),
        loss=5.125,  # at the end of the window: (20 + 1/2) / 4
        source="dwork2014, Section 3.5: its loss has no bound",
    ),
    Control(
        name="continuous: Laplace noise for half the move",
        subject=Density.added(Law.laplace(1), window=_NOISE_WINDOW, cost=_PURE_ONE),
        pair=(0, 2),
        loss=2,
        source="dwork2014, Theorem 3.6: the scale is the move over epsilon",
    ),
    # Right ones, at the edge of their claims.
    Control(
        name="continuous: Laplace noise",
        subject=Density.added(Law.laplace(1), window=_NOISE_WINDOW, cost=Pure(epsilon=Fraction(1))),
        pair=(0, 1),
        loss=1,
        broken=False,
        source="dwork2014, Theorem 3.6",
    ),
    Control(
        name="continuous: the lead of an exponential mechanism, answers that move both ways",
        subject=lead(Fraction(1, 2)),
        pair=((-40, 40, 40), (-39, 39, 39)),
        loss=1,
        broken=False,
        source="ding2022, Alg. 6",
    ),
    Control(
        name="continuous: the lead of an exponential mechanism, answers that move together",
        subject=lead(Fraction(1)),
        pair=((-40, 40, 40), (-40, 41, 41)),
        loss=1,
        broken=False,
        source="ding2022, Alg. 6",
    ),
    Control(
        name="continuous: the largest and its lead with exponential noise",
        subject=Race(noise=Law.exponential(2), cost=_PURE_ONE, gap=True),
        pair=((1, 0), (0, 1)),
        loss=1,
        broken=False,
        source="ding2022, Thm 3; a continuous lead has no ties",
    ),
    Control(
        name="continuous: a sparse vector with gaps and exponential noise",
        subject=Crossings(
            threshold=Law.exponential(2),
            queries=Law.exponential(4),
            positives=1,
            gap=True,
            cost=_PURE_ONE,
        ),
        pair=((0, 0), (1, -1)),
        loss=1,
        broken=False,
        source="ding2022, Thm 2",
    ),
)
