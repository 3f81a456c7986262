"""Which noise a release of a session gets: pure, or one with a smaller error for the same price.

`epsilon` says what is paid: as much as pure noise of that epsilon costs on the account. On an
account with a delta, discrete Gaussian noise of that price may be smaller, and Gumbel noise selects
better. It is chosen where that is so.

The rule knows the numbers of the account and the parameters of the release, all public, and never a
row. Proof: docs/proofs/noise-choice.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, final

from sordino.constraints import to_fraction
from sordino.cost import Cost
from sordino.errors import InvalidParameter
from sordino.estimators.intervals import find_reach
from sordino.grid import RATE_DENOMINATOR, check_rates_from
from sordino.ledger import Price
from sordino.ledger.account.price import RHO
from sordino.ledger.amounts import Meter
from sordino.mechanisms import GaussianMechanism, LaplaceMechanism
from sordino.questions import CountQuestion
from sordino.sensitivity import Sensitivity

Additive = LaplaceMechanism | GaussianMechanism
MeasureNoise = Literal["laplace", "gaussian"]
NOISE_MEANS = (
    "Pure (laplace) or not (gaussian); if nothing is said, what the account gets more from."
)
# How near a budget comes to its price, and after how many tries nearly is good enough.
_NEAR, _TRIES = Fraction(999, 1000), 12
# Digits that a matched rho or budget keeps.
_DIGITS = 6
# Beyond these a price is no float, or nothing.
_LEAST = Fraction(1, 10**300)


@final
@dataclass(frozen=True)
class Terms:
    """On which terms a release may leave pure noise.

    Attributes
    ----------
    price : Price
        How the account counts costs.
    open : bool
        Whether the account takes on no more epsilons once it does: then it is for shorter intervals
        alone.
    """

    price: Price
    open: bool = False

    def find_worth(self, paid: Cost, beside: Cost | None = None) -> Fraction:
        """Return what other noise may add in place of a pure cost; 0 where nothing is left.

        `beside` is the part of it that stays pure: it takes what it adds.
        """
        worth = self.price.find_worth(paid)
        return worth if beside is None else max(Fraction(0), worth - self.price.find(beside))

    def find_rho(self, paid: Cost) -> Fraction | None:
        """Return the rho that other noise may have in place of a pure cost.

        None where there is none.
        """
        try:
            return match_rho(self.price, self.find_worth(paid))
        except InvalidParameter:
            return None

    def keeps(self, paid: Cost) -> bool:
        """Tell whether pure noise may stay.

        Where it costs no more than noise of another kind would.
        """
        return self.open or self.price.find(paid) <= self.price.find_worth(paid)


def find_terms(name: str, price: Price | None, whole: Cost, *, forced: bool) -> Terms | None:
    """Return the terms on which a release may leave pure noise; None where it stays pure.

    Parameters
    ----------
    name : str
        Of the parameter, for the message.
    price : Price or None
        How the account counts; None where nobody pays.
    whole : Cost
        Of the whole release with pure noise.
    forced : bool
        Whether the user asks for noise without a pure epsilon.

    Raises
    ------
    InvalidParameter
        If that is asked for on an account of pure epsilons.
    """
    if forced:
        if price is not None and price.is_pure:
            raise InvalidParameter(
                f"{name} must be noise with a pure epsilon, because the account adds up pure "
                "epsilons; an account with a delta takes Gaussian and Gumbel noise as well "
                "(sordino ledger create --epsilon E --delta D)."
            )
        return Terms(price or RHO)
    if price is None:
        return None
    stance = price.find_stance(whole)
    return None if stance == "pure" else Terms(price, open=stance == "open")


# ---- measurements --------------------------------------------------------------------------------


def match_rho(price: Price, worth: Fraction) -> Fraction:
    """Return the rho that adds at most so much, and hardly less."""
    # A rho adds its order times that to a divergence; rounded down, so that it is never more.
    return shorten_down(worth / price.order)


def choose_rho(
    terms: Terms | None,
    noise: MeasureNoise | None,
    pure: Additive,
    moved: Sensitivity,
    *,
    paid: Cost,
    beside: Cost | None = None,
    confidence: float,
) -> Fraction | None:
    """Return the rho of Gaussian noise that measures in place of pure noise; None where that stays.

    Parameters
    ----------
    terms : Terms or None
        What `find_terms` returned.
    noise : {"laplace", "gaussian"} or None
        What the user asks for; None leaves it to the rule.
    pure : LaplaceMechanism
        The pure noise.
    moved : Sensitivity
        How far the answers move together, in L2.
    paid : Cost
        What may be spent, with what stays pure beside the measurement.
    beside : Cost, optional
        That part of it.
    confidence : float
        Of the interval of each answer.
    """
    if terms is None or noise == "laplace":
        return None
    worth = terms.find_worth(paid, beside)
    if noise == "gaussian":
        # Asked for by name it costs what pure noise does where there is nothing else to go by.
        spare = terms.price.find(paid) - (0 if beside is None else terms.price.find(beside))
        rho = match_rho(terms.price, worth or spare)
        least = GaussianMechanism(rho=rho, sensitivity=moved).noise.rate
        check_rates_from(least, "GaussianMechanism", RATE_DENOMINATOR**2)
        return rho
    try:
        rho = match_rho(terms.price, worth)
        other = GaussianMechanism(rho=rho, sensitivity=moved)
        # Of fewer answers the rate is larger. So none of them is refused after the charge.
        check_rates_from(other.noise.rate, "GaussianMechanism", RATE_DENOMINATOR**2)
    except InvalidParameter:
        # So small or large a price that there is no such noise: by public numbers alone.
        return None
    share = to_fraction(confidence)
    shorter = find_reach(other, share) < find_reach(pure, share)
    return rho if shorter or not terms.keeps(paid) else None


def measure(
    question: CountQuestion, epsilon: Fraction, rho: Fraction | None, size: int
) -> Additive:
    """Return what measures so many counts of a question: with pure noise, or Gaussian of a rho."""
    if rho is None:
        return LaplaceMechanism(epsilon=epsilon, sensitivity=question.joint(size))
    return GaussianMechanism(rho=rho, sensitivity=question.joint(size, "l2"))


def shorten_down(number: Fraction) -> Fraction:
    """Return a decimal of a few digits at or just below a positive number.

    Refuse a price of nothing.
    """
    if not _LEAST <= number <= 1 / _LEAST:
        raise InvalidParameter(
            "epsilon must be worth something on the account, for noise of another kind than pure "
            "noise: more than 1e-300 and less than 1e300 of what it adds up. Change epsilon, or "
            "ask for pure noise."
        )
    # Short numbers keep the fractions of costs and rates short; what is lost is a millionth of the
    # price.
    scale = Fraction(10) ** (_DIGITS - math.floor(math.log10(number)))
    return math.floor(number * scale) / scale


def match_budget(
    meter: Meter, worth: Fraction, guess: Fraction, find_cost: Callable[[Fraction], Cost]
) -> Fraction:
    """Return the epsilon of a family of costs that adds at most so much, and hardly less."""
    price, epsilon = Price(meter), guess
    for _ in range(_TRIES):
        found = price.find(find_cost(epsilon))
        if worth * _NEAR <= found <= worth:
            return epsilon
        # A price grows about as the square of epsilon, so that few steps come near. Aimed a little
        # below, so that it is met from below.
        epsilon = shorten_down(epsilon * to_fraction(math.sqrt(worth * (1 + _NEAR) / 2 / found)))
    while price.find(find_cost(epsilon)) > worth:
        epsilon = shorten_down(epsilon * _NEAR)
    return epsilon
