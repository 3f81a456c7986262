"""What costs add to an account, in exact billionths and without any code of the library.

On most accounts that is one number. An account with a delta adds up three: divergences at its order, pure epsilons, and deltas in units
of 1e-18; and it notes for good that something had no epsilon. What is said here of a divergence is a lower bound, 1e-9 billionths below.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import mpmath

NANO, ATTO = 10**9, 10**18
ORDER = 8
"""Of every account with a delta here."""
SLACK = Fraction(1, 1000)
"""Billionths that a divergence may be charged above its lower bound, before it is rounded up."""


class Sums(NamedTuple):
    """Billionths of the measure of the meter and of pure epsilons, units of 1e-18 of deltas; 1: there was no epsilon."""

    main: Fraction = Fraction(0)
    pure: Fraction = Fraction(0)
    failing: Fraction = Fraction(0)
    impure: int = 0

    def plus(self, other: Sums) -> Sums:
        impure = self.impure | other.impure
        return Sums(
            self.main + other.main, self.pure + other.pure, self.failing + other.failing, impure
        )

    def less(self, other: Sums) -> Sums:
        """Take something away; that there was no epsilon stays."""
        return Sums(
            self.main - other.main,
            self.pure - other.pure,
            self.failing - other.failing,
            self.impure,
        )

    def without_pure(self) -> Sums:
        return self._replace(pure=Fraction(0), impure=1)

    def up(self) -> Sums:
        """Return what is charged for it: at least that, in whole units."""
        pure = 0 if self.impure else math.ceil(self.pure)
        return Sums(
            Fraction(math.ceil(self.main)),
            Fraction(pure),
            Fraction(math.ceil(self.failing)),
            self.impure,
        )

    def covers(self, other: Sums) -> bool:
        """Tell whether each of its three sums is at least the other's."""
        return all(mine >= its for mine, its in zip(self[:3], other[:3], strict=True))

    def charges(self, said: Sums) -> bool:
        """Tell whether these whole sums are what is charged for what was said."""
        more = said._replace(main=said.main + SLACK) if said != Sums(said.main) else said
        return any(self[:3] == each.up()[:3] for each in (said, more))

    def __str__(self) -> str:
        """Write it as one word; what has a main part alone is a number."""
        return ",".join(map(str, self if any(self[1:]) else self[:1]))


def read(word: str) -> Sums:
    """Read what `Sums` writes."""
    main, *rest = map(Fraction, word.split(","))
    return Sums(main, *rest[:2], int(rest[2])) if rest else Sums(main)


def total(parts: list[Sums]) -> Sums:
    found = Sums()
    for part in parts:
        found = found.plus(part)
    return found


def excess(spent: Sums, limits: Sums, *, either: bool) -> Fraction:
    """Return by how much an account is overspent; nothing or less if it is not.

    Deltas always count. In an account with a delta one of the two other sums within its limit is enough; a share of one keeps to both.
    Where the limit says that there is none for epsilons they do not count. Everywhere else the second sum and its limit are 0.
    """
    main, pure = spent.main - limits.main, spent.pure - limits.pure
    if limits.impure:
        return max(main, spent.failing - limits.failing, -min(spent[:3]))
    one = main if spent.impure else min(main, pure)
    both = max(main, pure, Fraction(spent.impure))
    return max(one if either else both, spent.failing - limits.failing, -min(spent[:3]))


# ---- what each cost adds --------------------------------------------------------------------------------------------------


def of_pure(epsilon: Fraction) -> Sums:
    """Return what a pure epsilon adds: its divergence is that of randomized response."""
    with mpmath.workdps(40):
        e = _number(epsilon)
        moment = (mpmath.exp(ORDER * e) + mpmath.exp((1 - ORDER) * e)) / (1 + mpmath.exp(e))
        divergence = mpmath.log(moment) / (ORDER - 1)
    return Sums(_below(divergence), epsilon * NANO)


def of_rho(rho: Fraction) -> Sums:
    """Return what a rho adds: it has no epsilon, unless nothing is lost at all."""
    return Sums(ORDER * rho * NANO, impure=int(rho > 0))


def of_rhos(rho: Fraction, delta: Fraction = Fraction(0)) -> Sums:
    """Return what a rho and a delta add where no epsilons count."""
    return Sums(rho * NANO, Fraction(0), delta * ATTO, 1)


def of_firm_epsilon(epsilon: Fraction, delta: Fraction = Fraction(0)) -> Sums:
    """Return what an epsilon adds there, unless it fails: the rho of randomized response."""
    with mpmath.workdps(40):
        rho = _number(epsilon) * mpmath.tanh(_number(epsilon) / 2)
    return Sums(_below(rho), Fraction(0), delta * ATTO, 1)


def of_approximate(epsilon: Fraction, delta: Fraction) -> Sums:
    return of_pure(epsilon)._replace(failing=delta * ATTO)


@cache
def of_stage(rate: Fraction, *, monotone: bool) -> Sums:
    """Return what a stage of the Gumbel sparse vector adds (docs/proofs/gumbel-stage.md)."""
    with mpmath.workdps(60):
        e = _number(rate)
        b, start = (
            (mpmath.exp(e), mpmath.mpf(1)) if monotone else (mpmath.exp(2 * e), mpmath.exp(e))
        )
        moments = [
            _largest_moment(k, b, start) * (1 if monotone else mpmath.exp(-k * e))
            for k in (ORDER - 1, -ORDER)
        ]
        divergence = mpmath.log(max(moments)) / (ORDER - 1)
    return Sums(_below(divergence), (2 if monotone else 3) * rate * NANO)


def _largest_moment(k: int, b: mpmath.mpf, start: mpmath.mpf) -> mpmath.mpf:
    beta = (1 - b**-k) / (b - 1)
    turn = k * (1 + beta) / (beta * (1 + k))
    there = turn ** (2 * k) * (1 - beta * (turn - 1))
    between = (turn ** (2 * k + 1) - start ** (2 * k + 1)) / (2 * k + 1)
    if start <= turn:
        return ((b - turn) * there + b**-k * between) / (b - start)
    return ((turn - 1) * there - between) / (start - 1)


def _number(fraction: Fraction) -> mpmath.mpf:
    return mpmath.mpf(fraction.numerator) / fraction.denominator


def _below(divergence: mpmath.mpf) -> Fraction:
    return Fraction(int(mpmath.floor(divergence * NANO * NANO)), NANO)
