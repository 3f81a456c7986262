"""What selects in place of pure noise at no higher price: Gumbel noise or a set of a larger budget.

The rule is that of `noise_choice`; counts, which select nothing, need not load this. Proof:
docs/proofs/noise-choice.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeVar

from sordino.constraints import Number, to_fraction
from sordino.cost import BoundedRange, Cost, Pure, repeat
from sordino.errors import InvalidParameter
from sordino.ledger import Price
from sordino.ledger.amounts import Meter
from sordino.mechanisms import (
    GumbelSparseVector,
    HistogramTopK,
    HybridTopK,
    JointTopK,
    NoisyTopK,
    SparseVector,
)
from sordino.sensitivity import Sensitivity
from sordino.session.noise_choice import Terms, match_budget, shorten_down

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
    """Return the same selection from so few items that all of them are selected.

    It costs no more.
    """
    if size >= choose.k:
        return choose
    fewer: dict[str, Any] = {"k": size}
    if isinstance(choose, NoisyTopK) and choose.noise.name == "gumbel":
        # With Gumbel noise each item has an equal part of the budget.
        fewer["epsilon"] = to_fraction(choose.epsilon) * size / choose.k
    return replace(choose, **fewer)


def match_gumbel(price: Price, paid: Cost, k: int, build: Callable[..., Any]) -> NoisyTopK:
    """Return a selection of `k` by Gumbel noise that costs at most what `paid` is worth.

    It costs hardly less.
    """
    selection: NoisyTopK = build(noise="gumbel", epsilon=_match_ranges(price, paid, k))
    return selection


def _match_ranges(price: Price, paid: Cost, k: int) -> Fraction:
    """Return the epsilon of `k` bounded ranges together that add at most what `paid` is worth."""
    worth = price.find_worth(paid)
    # Each of k parts of a range has a rho of about an eighth of its square.
    guess = _guess_budget(worth / price.order, parts=k, factor=0.125, width=1)
    return match_budget(
        price.meter, worth, guess, lambda epsilon: repeat(BoundedRange(epsilon=epsilon / k), k)
    )


def match_finder(price: Price, pure: SparseVector) -> GumbelSparseVector:
    """Return a sparse vector with Gumbel noise that costs at most what `pure` is worth.

    It costs hardly less.
    """
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
    return build(match_budget(meter, worth, guess, lambda epsilon: build(epsilon).cost))


def _guess_budget(rho: Fraction, *, parts: int, factor: float, width: int) -> Fraction:
    """Estimate the epsilon of equal parts, each `width` times what counts, with a rho together."""
    each = math.sqrt(shorten_down(rho) / parts / factor)
    return shorten_down(to_fraction(parts * width * each))


def _deviation(selection: NoisyTopK | Finder) -> float:
    """Return the standard deviation of the noise on an answer, in the unit of the answers."""
    return math.sqrt(selection.noise.variance) * float(selection.step)
