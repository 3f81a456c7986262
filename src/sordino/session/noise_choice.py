"""Which noise a release of a session gets: pure, or one with a smaller error for the same price.

`epsilon` says what is paid: as much as pure noise of that epsilon costs on the account. On an account with a
delta, discrete Gaussian noise of that price may be smaller, and Gumbel noise selects better. It is chosen
where that is so.

The rule knows the numbers of the account and the parameters of the release, all public, and never a row.
Proof: docs/proofs/noise-choice.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, TypeVar, final

from sordino.constraints import Number, to_fraction
from sordino.cost import BoundedRange, Cost, Pure, repeat
from sordino.data import CountQuestion
from sordino.errors import InvalidParameter
from sordino.estimators.intervals import find_reach
from sordino.grid import RATE_DENOMINATOR, check_rates_from
from sordino.ledger import Price
from sordino.ledger.account.price import RHO
from sordino.ledger.amounts import Meter
from sordino.mechanisms import (
    GaussianMechanism,
    GumbelSparseVector,
    HistogramTopK,
    HybridTopK,
    JointTopK,
    LaplaceMechanism,
    NoisyTopK,
    SparseVector,
)
from sordino.sensitivity import Sensitivity

Additive = LaplaceMechanism | GaussianMechanism
MeasureNoise = Literal["laplace", "gaussian"]
NOISE_MEANS = "Pure (laplace) or not (gaussian); if nothing is said, what the account gets more from."
# Digits that a matched rho or budget keeps; how near a budget comes to its price, and after how many tries
# nearly is good enough.
_DIGITS, _NEAR, _TRIES = 6, Fraction(999, 1000), 12
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
        Whether the account takes on no more epsilons once it does: then it is for shorter intervals alone.
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
        """Return the rho that other noise may have in place of a pure cost; None where there is none."""
        try:
            return match_rho(self.price, self.find_worth(paid))
        except InvalidParameter:
            return None

    def keeps(self, paid: Cost) -> bool:
        """Tell whether pure noise may stay: where it costs no more than noise of another kind would."""
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
                f"{name} must be noise with a pure epsilon, because the account adds up pure epsilons; an "
                "account with a delta takes Gaussian and Gumbel noise as well (sordino ledger create "
                "--epsilon E --delta D)."
            )
        return Terms(price or RHO)
    if price is None:
        return None
    stance = price.find_stance(whole)
    return None if stance == "pure" else Terms(price, open=stance == "open")


# ---- measurements ------------------------------------------------------------------------------------------


def match_rho(price: Price, worth: Fraction) -> Fraction:
    """Return the rho that adds at most so much, and hardly less."""
    # A rho adds its order times that to a divergence; rounded down, so that it is never more.
    return _shorten_down(worth / price.order)


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


def measure(question: CountQuestion, epsilon: Fraction, rho: Fraction | None, size: int) -> Additive:
    """Return what measures so many counts of a question: with pure noise, or Gaussian noise of a rho."""
    if rho is None:
        return LaplaceMechanism(epsilon=epsilon, sensitivity=question.joint(size))
    return GaussianMechanism(rho=rho, sensitivity=question.joint(size, "l2"))


# ---- selections --------------------------------------------------------------------------------------------

Finder = SparseVector | GumbelSparseVector
S = TypeVar("S", bound=NoisyTopK | Finder)
K = TypeVar("K", bound=NoisyTopK | HybridTopK | JointTopK | HistogramTopK)


def choose_selection(
    terms: Terms | None, noise: str | None, pure: NoisyTopK, build: Callable[..., Any]
) -> NoisyTopK:
    """Return what selects: the pure noise, or Gumbel noise of the same price if it is smaller.

    Parameters
    ----------
    terms : Terms or None
        What `find_terms` returned.
    noise : str or None
        What the user asks for; None leaves it to the rule.
    pure : NoisyTopK
        The selection with pure noise.
    build : function
        Makes the selection of a `noise` and an `epsilon`.
    """

    def match(price: Price) -> NoisyTopK:
        return match_gumbel(price, pure.cost, pure.k, build)

    return _choose(terms, noise, pure, match)


def choose_set(
    terms: Terms | None, paid: Pure, pure: JointTopK, build: Callable[[Fraction], JointTopK]
) -> JointTopK:
    """Return what selects a set: with the epsilon that was said, or a larger one of the same price.

    Parameters
    ----------
    terms : Terms or None
        What `find_terms` returned.
    paid : Pure
        What pure noise of the epsilon that was said would cost.
    pure : JointTopK
        The selection with that epsilon. Its loss lies in an interval, so that it may cost less.
    build : function
        Makes the selection of an epsilon.
    """
    if terms is None:
        return pure
    try:
        other = build(_match_ranges(terms.price, paid, 1))
    except InvalidParameter:
        return pure
    fits = terms.open or terms.price.find(pure.cost) <= terms.price.find_worth(paid)
    return other if other.cost.pure() > pure.cost.pure() or not fits else pure


def choose_finder(terms: Terms | None, noise: str | None, pure: SparseVector) -> Finder:
    """Return what finds answers above a threshold; parameters as for `choose_selection`."""

    def match(price: Price) -> Any:
        return match_finder(price, pure)

    found: Finder = _choose(terms, noise, pure, match)
    return found


def _choose(terms: Terms | None, noise: str | None, pure: S, match: Callable[[Price], S]) -> S:
    if terms is None or noise in {"exponential", "laplace"}:
        return pure
    if noise == "gumbel":
        return match(terms.price)
    try:
        other = match(terms.price)
    except InvalidParameter:
        return pure
    smaller = _deviation(other) < _deviation(pure)
    return other if smaller or not terms.keeps(pure.cost) else pure


def select_fewer(choose: K, size: int) -> K:
    """Return the same selection from so few items that all of them are selected; it costs no more."""
    if size >= choose.k:
        return choose
    fewer: dict[str, Any] = {"k": size}
    if isinstance(choose, NoisyTopK) and choose.noise.name == "gumbel":
        # With Gumbel noise each item has an equal part of the budget.
        fewer["epsilon"] = to_fraction(choose.epsilon) * size / choose.k
    return replace(choose, **fewer)


def match_gumbel(price: Price, paid: Cost, k: int, build: Callable[..., Any]) -> NoisyTopK:
    """Return a selection of `k` by Gumbel noise that costs at most what `paid` is worth, and hardly less."""
    selection: NoisyTopK = build(noise="gumbel", epsilon=_match_ranges(price, paid, k))
    return selection


def _match_ranges(price: Price, paid: Cost, k: int) -> Fraction:
    """Return the epsilon of `k` bounded ranges together that add at most what `paid` is worth."""
    worth = price.find_worth(paid)
    # Each of k parts of a range has a rho of about an eighth of its square.
    guess = _guess_budget(worth / price.order, parts=k, factor=0.125, width=1)
    return _match_budget(
        price.meter, worth, guess, lambda epsilon: repeat(BoundedRange(epsilon=epsilon / k), k)
    )


def match_finder(price: Price, pure: SparseVector) -> GumbelSparseVector:
    """Return a sparse vector with Gumbel noise that costs at most what `pure` is worth, and hardly less."""
    shape = (pure.threshold, pure.positives, pure.sensitivity)
    return _match_finder(price.meter, price.find_worth(pure.cost), *shape)


# A stage takes milliseconds to price the first time; the same release comes back night after night.
@lru_cache(maxsize=64)
def _match_finder(
    meter: Meter, worth: Fraction, threshold: Number, positives: int, sensitivity: Sensitivity
) -> GumbelSparseVector:
    def build(epsilon: Fraction) -> GumbelSparseVector:
        return GumbelSparseVector(
            threshold=threshold, positives=positives, epsilon=epsilon, sensitivity=sensitivity
        )

    # What a stage costs, over the square of what its threshold costs: docs/proofs/gumbel-stage.md.
    factor, width = (0.228, 2) if sensitivity.monotone else (0.514, 3)
    guess = _guess_budget(worth / (meter.order or 1), parts=positives, factor=factor, width=width)
    return build(_match_budget(meter, worth, guess, lambda epsilon: build(epsilon).cost))


def _guess_budget(rho: Fraction, *, parts: int, factor: float, width: int) -> Fraction:
    """Return about the epsilon of equal parts, each `width` times what counts, that have a rho together."""
    each = math.sqrt(_shorten_down(rho) / parts / factor)
    return _shorten_down(to_fraction(parts * width * each))


def _match_budget(
    meter: Meter, worth: Fraction, guess: Fraction, find_cost: Callable[[Fraction], Cost]
) -> Fraction:
    """Return the epsilon of a family of costs that adds at most so much, and hardly less."""
    price, epsilon = Price(meter), guess
    for _ in range(_TRIES):
        found = price.find(find_cost(epsilon))
        if worth * _NEAR <= found <= worth:
            return epsilon
        # A price grows about as the square of epsilon, so that few steps come near. Aimed a little below, so
        # that it is met from below.
        epsilon = _shorten_down(epsilon * to_fraction(math.sqrt(worth * (1 + _NEAR) / 2 / found)))
    while price.find(find_cost(epsilon)) > worth:
        epsilon = _shorten_down(epsilon * _NEAR)
    return epsilon


def _deviation(selection: NoisyTopK | Finder) -> float:
    """Return the standard deviation of the noise on an answer, in the unit of the answers."""
    return math.sqrt(selection.noise.variance) * float(selection.step)


def _shorten_down(number: Fraction) -> Fraction:
    """Return a decimal of a few digits at or just below a positive number; refuse a price of nothing."""
    if not _LEAST <= number <= 1 / _LEAST:
        raise InvalidParameter(
            "epsilon must be worth something on the account, for noise of another kind than pure noise: "
            "more than 1e-300 and less than 1e300 of what it adds up. Change epsilon, or ask for pure noise."
        )
    # Short numbers keep the fractions of costs and rates short; what is lost is a millionth of the price.
    scale = Fraction(10) ** (_DIGITS - math.floor(math.log10(number)))
    return math.floor(number * scale) / scale
