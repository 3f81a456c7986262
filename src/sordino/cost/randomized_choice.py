"""Randomized response among many.

One outcome is likelier than all others, which are equally likely.

Claim: the law of the loss between any two such releases has three points, and every view is its
closed form. Proof: docs/proofs/randomized-response.md. Floats: only results, rounded up; every term
is positive where it is summed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import final

from sordino.constraints import DOMAIN_SIZE, NOT_NEGATIVE, Constraint, Number, accept_if
from sordino.cost.base import FirmCost
from sordino.cost.conversion import raise_delta, raise_divergence, round_up, solve_curve
from sordino.cost.range import Pure
from sordino.cost.rho import certify_rho, pure_rho, shorten_up

# Outside, the pure epsilon says what is said.
_SMALLEST_RATE, _LARGEST_RATE = 1e-7, 500.0
# Below it epsilon itself is said, and the logarithms of the formula would leave the floats.
_LEAST_RATE = 1e-290
# The formulas below err by a few 2^-53 of the logarithms that are summed.
_CHOICE_ROUNDING = 2.0**-48


CHOICES = Constraint(
    "a whole number from 2 to 2^52",
    accept_if(lambda number: number >= 2, DOMAIN_SIZE.convert),
    (2, 60),
    (1, 0, -1, 2.5, True, None),
)


@final
@dataclass(frozen=True, eq=False, repr=False)
class RandomizedChoice(FirmCost):
    """What randomized response among `choices` outcomes costs.

    One outcome has probability e^epsilon/(e^epsilon + choices - 1), all others are equally likely,
    and which one it is may change between neighbors. With two it is `Pure`; the more there are, the
    less the views but `pure` say.

    Parameters
    ----------
    epsilon : number
        At least 0, in nats: the log odds of that outcome against each other one.
    choices : int
        From 2 to 2^52: at least how many outcomes there are, which is public.

    Raises
    ------
    InvalidParameter
        If epsilon is negative or not finite, or `choices` is no such number.

    Examples
    --------
    >>> from sordino import cost
    >>> one = cost.RandomizedChoice(epsilon=1, choices=20)
    >>> one.pure(), round(float(one.zcdp()), 4), round(float(cost.Pure(epsilon=1).zcdp()), 4)
    (Fraction(1, 1), 0.102, 0.4621)
    """

    notion = "randomized-choice"
    epsilon_: Fraction
    choices: int

    def __init__(self, *, epsilon: Number, choices: int) -> None:
        self._set(
            epsilon_=NOT_NEGATIVE("RandomizedChoice.epsilon", epsilon),
            choices=CHOICES("RandomizedChoice.choices", choices),
        )

    @property
    def interval(self) -> Pure:
        """The interval of the loss."""
        return Pure(epsilon=self.epsilon_)

    def pure(self) -> Fraction:
        """Return epsilon, exactly."""
        return self.epsilon_

    def zcdp(self) -> Fraction:
        """Return the smallest rho of the three-point law, within 1e-5 of itself, rounded up."""
        return _choice_rho(*self.epsilon_.as_integer_ratio(), self.choices)

    # Epsilon is rounded up: the likely outcome stands out more.

    def _bound_divergence(self, order: float) -> float:
        return choice_rdp(round_up(self.epsilon_), self.choices, order)

    def _solve_epsilon(self, left: float, top: float) -> float:
        rate, choices = round_up(self.epsilon_), self.choices
        share = left * (1 + (choices - 1) * math.exp(-rate))
        return solve_curve(
            lambda epsilon: choice_delta(rate, choices, epsilon), left, top, rate, share
        )

    def _bound_delta(self, least: float) -> float:
        return choice_delta(round_up(self.epsilon_), self.choices, least)


def choice_masses(rate: float, choices: int) -> tuple[float, float, float]:
    """Return the probabilities of the losses -rate, 0 and rate under the first law.

    `rate` is epsilon.
    """
    # By negative exponents only, so that nothing overflows.
    low = math.exp(-rate)
    top = 1 / (1 + (choices - 1) * low)
    return low * top, (choices - 2) * low * top, top


def choice_delta(rate: float, choices: int, epsilon: float) -> float:
    """Return delta at `epsilon` >= 0.

    The one positive loss has the probability of the likely outcome.
    """
    if epsilon >= rate:
        return 0.0
    if math.isinf(rate):
        return 1.0
    return raise_delta(-math.expm1(epsilon - rate) * choice_masses(rate, choices)[2])


def choice_rdp(rate: float, choices: int, alpha: float) -> float:
    """Return the divergence of order `alpha` > 1, rounded up and never above `rate`."""
    if (
        rate <= _LEAST_RATE
        or math.isinf(rate)
        or math.isinf(alpha)
        or alpha * rate > 1 / _CHOICE_ROUNDING
    ):
        return rate
    order = alpha - 1
    # The moment less 1 is (1 - e^(-(a-1)e)) (e^(ae) - 1) / (e^e + n - 1), summed by logarithms.
    others = math.log(choices - 1)
    whole = max(rate, others) + math.log1p(math.exp(-abs(rate - others)))
    terms = (
        math.log(-math.expm1(-order * rate)),
        alpha * rate,
        math.log(-math.expm1(-alpha * rate)),
        -whole,
    )
    excess = math.fsum(terms) + _CHOICE_ROUNDING * math.fsum(map(abs, terms))
    total = max(excess, 0.0) + math.log1p(math.exp(-abs(excess)))
    return raise_divergence(min(rate, total / order * (1 + 1e-12)), rate)


@lru_cache(maxsize=1024)
def _choice_rho(numerator: int, denominator: int, choices: int) -> Fraction:
    """Return the smallest rho that is proved for randomized response among `choices`.

    Kept once found.
    """
    epsilon = Fraction(numerator, denominator)
    known, rate = pure_rho(epsilon), round_up(epsilon)
    if not _SMALLEST_RATE < rate < _LARGEST_RATE:
        return known
    # While the likely outcome weighs enough rho is the divergence at order 1 ("The smallest rho").
    if (choices - 2) / 2 * math.exp(-rate / 2) <= 1 - 1e-9:
        found = rate * choice_masses(rate, choices)[2] * -math.expm1(-rate)
        return min(known, shorten_up(found * (1 + 1e-12)))
    return min(known, shorten_up(certify_rho(lambda alpha: choice_rdp(rate, choices, alpha), rate)))
