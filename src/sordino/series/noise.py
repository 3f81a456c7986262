"""Which noise the periods of a series have, chosen once, when it is started.

Claim: Gaussian noise is chosen by public numbers alone, costs no more than the Laplace noise in
whose place it is, and has the smaller mean squared error. Proof: docs/proofs/running-totals.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, final

from sordino.cost import Cost, compose
from sordino.errors import InvalidParameter
from sordino.ledger import Price
from sordino.ledger.account.price import RHO
from sordino.ledger.amounts import exact_amounts
from sordino.ledger.renyi import NANO, Sums
from sordino.mechanisms import GaussianMechanism, LaplaceMechanism
from sordino.sensitivity import Sensitivity
from sordino.series.nodes import split_epsilon, weigh_levels
from sordino.session.noise_choice import Additive, MeasureNoise, Terms, choose_rho


@final
@dataclass(frozen=True, kw_only=True)
class SeriesNoise:
    """The noise of a series, as its account keeps it.

    Attributes
    ----------
    noise : {"laplace", "gaussian"}
    rates : mapping of str to Fraction
        The epsilon of each period; of Gaussian noise it costs what Laplace noise of it does.
    epsilon : Fraction
        All of them.
    rho : Fraction
        Of Gaussian noise what all periods of a part lose together; else 0.
    """

    noise: MeasureNoise
    rates: Mapping[str, Fraction]
    epsilon: Fraction
    rho: Fraction = Fraction(0)

    @classmethod
    def of(
        cls,
        noise: MeasureNoise,
        epsilon: Fraction,
        levels: Sequence[str],
        rho: Fraction = Fraction(0),
    ) -> SeriesNoise:
        """Return it with the epsilons of all periods."""
        rates = split_epsilon(epsilon, levels, noise)
        return cls(noise=noise, rates=rates, epsilon=epsilon, rho=rho)

    def to_detail(self) -> dict[str, str]:
        """Return what an account keeps of it."""
        return {"noise": self.noise, "epsilon": str(self.epsilon), "rho": str(self.rho)}

    @classmethod
    def read(cls, said: Mapping[str, Any], levels: Sequence[str]) -> SeriesNoise:
        """Return what an account has kept."""
        return cls.of(said["noise"], Fraction(said["epsilon"]), levels, Fraction(said["rho"]))


@final
@dataclass(frozen=True, kw_only=True)
class Measured:
    """How far the numbers of one period move between neighbors, and how the account counts.

    Attributes
    ----------
    sum_moves, square_moves : Sensitivity
        In the L1 norm, for which Laplace noise is, and in the L2 norm.
    price : Price
        Of the account that gives the share.
    """

    sum_moves: Sensitivity
    square_moves: Sensitivity
    price: Price

    def build(self, noise: MeasureNoise, epsilon: Fraction) -> Additive:
        """Return what measures a period, as a session will choose it on the share.

        Raises
        ------
        InvalidParameter
            If there is no such noise.
        """
        pure = LaplaceMechanism(epsilon=epsilon, sensitivity=self.sum_moves)
        if noise == "laplace":
            return pure
        # A share for Gaussian noise has no limit of epsilon.
        terms, paid = Terms(Price(self.price.meter)), pure.cost
        rho = choose_rho(terms, noise, pure, self.square_moves, paid=paid, confidence=0.95)
        return GaussianMechanism(rho=rho or 0, sensitivity=self.square_moves)

    def list_periods(self, found: SeriesNoise) -> dict[str, Additive]:
        """Return what measures the periods of each level."""
        return {level: self.build(found.noise, rate) for level, rate in found.rates.items()}

    def add_up(self, found: SeriesNoise) -> Sums:
        """Return what one period of each level is charged with, all of them together."""
        total = Sums()
        for one in self.list_periods(found).values():
            total = total.plus(exact_amounts(one, self.price.meter).rounded_up())
        return total


def choose_noise(
    measured: Measured,
    epsilon: Fraction,
    levels: Sequence[str],
    wanted: MeasureNoise | None = None,
) -> SeriesNoise:
    """Return the noise of a series that is about to start.

    Parameters
    ----------
    measured : Measured
        What a period is.
    epsilon : Fraction
        What the series may spend of a part: as much as Laplace noise of it costs.
    levels : sequence of str
        Which periods are asked.
    wanted : {"laplace", "gaussian"}, optional
        The noise that is asked for by name; else the one with the smaller error.

    Raises
    ------
    InvalidParameter
        If Gaussian noise is asked for where there is none.
    """
    price, plain = measured.price, SeriesNoise.of("laplace", epsilon, levels)
    if wanted == "gaussian" and price.is_pure:
        raise InvalidParameter(
            "series.noise must be laplace on an account of epsilons; got 'gaussian'. Nothing was "
            "granted."
        )
    if wanted == "laplace" or price.is_pure:
        return plain
    pure = measured.list_periods(plain)
    whole = compose(*(one.cost for one in pure.values()))
    if wanted is None and price.find_stance(whole) == "pure":
        return plain
    try:
        other = _match_price(measured, whole, plain)
        found = measured.list_periods(other)
    except InvalidParameter:
        if wanted is not None:
            raise
        # No such noise of that price: by public numbers alone.
        return plain
    rho = sum((RHO.find(one) for one in found.values()), Fraction(0))
    often = weigh_levels(levels)
    errors = [
        sum(often[level] * one.noise.variance for level, one in each.items())
        for each in (pure, found)
    ]
    chosen = wanted is not None or errors[1] < errors[0]
    return replace(other, rho=rho) if chosen else plain


def _match_price(measured: Measured, whole: Cost, plain: SeriesNoise) -> SeriesNoise:
    """Return Gaussian noise that costs no more than Laplace noise is worth, and hardly less.

    Raises
    ------
    InvalidParameter
        If there is none.
    """
    most, levels = measured.add_up(plain).main, [*plain.rates]
    if measured.price.meter.order is not None:
        # No larger a share of the divergences than Laplace noise is of the epsilons.
        most = min(most, int(measured.price.find_worth(whole) * NANO))
    for percent in range(100, 0, -1):
        found = SeriesNoise.of("gaussian", plain.epsilon * percent / 100, levels)
        if measured.add_up(found).main <= most:
            return found
    raise InvalidParameter(
        "series.noise must be laplace: Gaussian noise of a hundredth of its epsilon costs more. "
        "Nothing was granted."
    )
