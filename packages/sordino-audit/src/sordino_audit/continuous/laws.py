"""Continuous noise: enclosures of its density, distribution and survival function.

Claim: the laws made here enclose the true values; of a law that a caller makes, that is the
caller's word, checked where it shows. Arguments of laws stay below 1e141, and their squares below
1e282.
Proof: docs/proofs/exact-audit.md, "Laws with a density".
Floats: outward, see `enclosures` and `balls`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
from flint import acb, arb

from sordino.constraints import TRUTH, Constraint, Number, exact, shown
from sordino.errors import InvalidParameter
from sordino_audit.continuous import enclosures as floats
from sordino_audit.continuous.balls import NOTHING, ONE, Analytic
from sordino_audit.continuous.enclosures import NEVER, Bounds, Floats
from sordino_audit.continuous.heavy_tail import HeavyTail

OfPoint = Callable[[Floats], Bounds]
OfInterval = Callable[[Floats, Floats], Bounds]

LN_2 = floats.log((np.array(2.0), np.array(2.0)))
# The logarithm and pi err by a few units in the last place; much more is taken off.
LN_2_PI = floats.widen(*(np.array(math.log(2 * math.pi)),) * 2)


def unimodal(at: OfPoint, *, rises: bool = True) -> OfInterval:
    """Return the enclosure over intervals of a log density that rises up to 0 and falls after it.

    With `rises` False the density is 0 before 0.
    """

    def enclosed(low: Floats, high: Floats) -> Bounds:
        # The largest value is at 0, or at the end that is nearest to it.
        left, right, top = at(low), at(high), at(np.clip(0.0, low, high))
        least = np.minimum(left[0], right[0])
        if rises:
            return least, top[1]
        return np.where(low < 0, NEVER, least), np.where(high < 0, NEVER, top[1])

    return enclosed


exponential = unimodal(lambda z: (-np.maximum(z, 0.0),) * 2, rises=False)


def negative(a: Bounds) -> Bounds:
    """Return bounds of the negative number."""
    return -a[1], -a[0]


def decay(x: Floats) -> Bounds:
    """Return e^-x."""
    return floats.exp((-x, -x))


def laplace_cdf(x: Floats) -> Bounds:
    """Return the logarithm of the distribution function of the Laplace law."""
    # Each formula is for its own side of 0, computed everywhere at arguments that suit it.
    below = floats.minus((np.minimum(x, 0.0),) * 2, LN_2)
    half = tuple(side / 2 for side in floats.exp((-np.maximum(x, 0.0),) * 2))
    above = floats.widen(np.log1p(-half[1]), np.log1p(-half[0]))
    return np.where(x < 0, below[0], above[0]), np.where(x < 0, below[1], above[1])


def gumbel(z: Floats) -> Bounds:
    """Return -z - e^-z; at either end of the line the density is 0."""
    low, high = negative(floats.plus((z, z), decay(z)))
    return np.where(np.isinf(z), NEVER, low), np.where(np.isinf(z), NEVER, high)


def logistic(z: Floats) -> Bounds:
    """Return -|z| - 2 log(1 + e^-|z|)."""
    # By symmetry in terms of |z|: no exponential overflows.
    low, high = floats.log1pexp((-np.abs(z),) * 2)
    return negative(floats.plus((np.abs(z),) * 2, (2 * low, 2 * high)))


def gaussian(z: Floats) -> Bounds:
    """Return -z^2/2 - log(2 pi)/2."""
    with np.errstate(over="ignore", under="ignore"):
        power = -z * z / 2
    # What is finite is not 0: a square that overflows must not become a density of 0.
    least, most = (
        power - floats.TINY,
        np.where(np.isinf(z), NEVER, np.maximum(power, -1e308)),
    )
    return floats.minus((least, most), (LN_2_PI[0] / 2, LN_2_PI[1] / 2))


EXPONENTIAL = Analytic(
    density=lambda z, side, _: (-z).exp() if side > 0 else NOTHING,
    cdf=lambda z, side, _: -(-z).expm1() if side > 0 else NOTHING,
    survival=lambda z, side, _: (-z).exp() if side > 0 else ONE,
)
LAPLACE = Analytic(
    density=lambda z, side, _: (-z * side).exp() / 2,
    cdf=lambda z, side, _: 1 - (-z).exp() / 2 if side > 0 else z.exp() / 2,
    survival=lambda z, side, _: (-z).exp() / 2 if side > 0 else 1 - z.exp() / 2,
)
# Written with exponentials that are at most 1 on their side of 0.
LOGISTIC = Analytic(
    density=lambda z, side, _: (-z * side).exp() / (1 + (-z * side).exp()) ** 2,
    cdf=lambda z, side, _: 1 / (1 + (-z).exp()) if side > 0 else z.exp() / (1 + z.exp()),
    survival=lambda z, side, _: (-z).exp() / (1 + (-z).exp()) if side > 0 else 1 / (1 + z.exp()),
)


# From a depth of 1000 down density and probability are at most e^(1000 - e^1000), far less than
# 2^-(10^9), over balls of any width: the exponential of a wide ball would say nothing.
_GUMBEL_DEPTH = 1000
_DEEP_GUMBEL = acb(arb(0, arb((1, -(10**9)))))


def _is_deep(z: acb) -> bool:
    return bool(z.imag.is_zero() and z.real < -_GUMBEL_DEPTH)


GUMBEL = Analytic(
    density=lambda z, _, __: _DEEP_GUMBEL if _is_deep(z) else (-z - (-z).exp()).exp(),
    cdf=lambda z, _, __: _DEEP_GUMBEL if _is_deep(z) else (-(-z).exp()).exp(),
    survival=lambda z, _, __: 1 - _DEEP_GUMBEL if _is_deep(z) else -(-(-z).exp()).expm1(),
)


# ---- laws ----------------------------------------------------------------------------------------


# ---- measures ------------------------------------------------------------------------------------


# Answers, windows and breaks are places, scales are spans ("Floats" on docs/proofs/exact-audit.md).
_LARGEST_PLACE, _LARGEST_SPAN = Fraction(10) ** 60, Fraction(10) ** 40


def _read_law_place(value: Any) -> Fraction | None:
    number = exact(value)
    return number if number is not None and abs(number) <= _LARGEST_PLACE else None


def _read_law_span(value: Any) -> Fraction | None:
    number = exact(value)
    return number if number is not None and 1 / _LARGEST_SPAN <= number <= _LARGEST_SPAN else None


PLACE = Constraint(
    "a finite number from -1e60 to 1e60",
    _read_law_place,
    (0, -1.5, 3),
    (float("nan"), float("inf"), 1e61, None, "1"),
)
SPAN = Constraint(
    "a number from 1e-40 to 1e40",
    _read_law_span,
    (1, 0.5, Fraction(1, 3)),
    (0, -1, 1e41, 1e-41, None, "1"),
)


Placed = tuple[Fraction, Fraction]
Outside = Callable[[tuple[Fraction, Fraction], Placed, Placed], float]
"""Bounds the log ratio of two densities outside a window from above.

Takes the window, and (answer, scale) of the first and of the second density.
"""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Law:
    """Continuous noise, known by functions that enclose the logarithms of what it is made of.

    All functions take arrays of floats, in units of the scale, and return two arrays: a lower and
    an upper bound. The logarithm of 0 is -inf.

    Parameters
    ----------
    log_cdf : callable, optional
        Takes points x, -inf and inf among them; encloses log P(Z <= x).
    log_survival : callable, optional
        The same of log P(Z > x). None: one minus the other, which is inexact far up.
    log_density : callable, optional
        Takes arrays `low` and `high`, -inf and inf among them; encloses the log density at all
        points from low to high.
    scale : number
        What the noise is multiplied by, > 0.
    log_concave : bool
        Whether the logarithm of the density is concave, which the audit of gaps needs.
    breaks : iterable of number
        Where the density jumps or has a kink, in units of the scale.
    name : str
        What reports call it.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Notes
    -----
    The laws made by `exponential`, `laplace`, `gumbel`, `logistic`, `cauchy` and `gaussian` are
    certified, under what is assumed of floats. Integrals of their products (but for the normal law)
    are enclosed to a dozen digits in ball arithmetic; those of other laws to six.

    Examples
    --------
    >>> import sordino_audit as audit
    >>> audit.Law.laplace(2)
    Law.laplace(scale=2)
    """

    log_cdf: OfPoint | None
    log_survival: OfPoint | None
    log_density: OfInterval | None
    scale: Fraction
    log_concave: bool
    breaks: tuple[Fraction, ...]
    name: str
    analytic: Analytic | None
    bends: tuple[tuple[float, float], ...]
    shapes: tuple[str, ...]
    outside: Outside | None

    def __init__(
        self,
        *,
        log_cdf: OfPoint | None = None,
        log_survival: OfPoint | None = None,
        log_density: OfInterval | None = None,
        scale: Number = 1,
        log_concave: bool = False,
        breaks: Iterable[Number] = (),
        name: str = "Law",
    ) -> None:
        given = {"log_cdf": log_cdf, "log_survival": log_survival, "log_density": log_density}
        for what, function in given.items():
            if function is not None and not callable(function):
                raise InvalidParameter(f"Law.{what} must be a function; got {shown(function)}.")
        if log_cdf is None and log_density is None:
            raise InvalidParameter("audit.Law must have log_cdf or log_density.")
        TRUTH("Law.log_concave", log_concave)
        given_breaks: Any = breaks
        if not isinstance(given_breaks, Iterable):
            raise InvalidParameter(
                f"Law.breaks must be a list of numbers; got {shown(given_breaks)}."
            )
        listed = sorted(PLACE("Law.breaks", x) for x in given_breaks)
        shapes = ("concave",) if log_concave else ("any",)
        common = {"scale": SPAN("Law.scale", scale), "log_concave": log_concave, "shapes": shapes}
        # A law of a caller is known by its enclosures only, and nothing is known of its tail.
        self._set(given | common | {"breaks": tuple(listed), "name": name})

    def _set(self, values: dict[str, Any]) -> None:
        for field, value in ({"analytic": None, "bends": (), "outside": None} | values).items():
            object.__setattr__(self, field, value)

    def __repr__(self) -> str:
        return f"{self.name}(scale={shown(self.scale)})"

    @classmethod
    def _made(cls, scale: Number, **values: Any) -> Law:
        # These laws are known: they go past the checks of what a caller gives.
        law = object.__new__(cls)
        law._set(
            {"log_cdf": None, "log_survival": None, "log_concave": True, "breaks": ()} | values
        )
        object.__setattr__(law, "scale", SPAN(f"{law.name}.scale", scale))
        return law

    def mirrored(self) -> Law:
        """Return the law of the noise with the other sign.

        Examples
        --------
        >>> import sordino_audit as audit
        >>> audit.Law.exponential(2).mirrored()
        mirrored Law.exponential(scale=2)
        """
        # The law is continuous: P(-Z <= x) = P(Z > -x).
        density, below, above = self.log_density, self.log_cdf, self.log_survival
        return Law._made(
            self.scale,
            name=f"mirrored {self.name}",
            log_density=None if density is None else lambda low, high: density(-high, -low),
            log_cdf=None if above is None else lambda x: above(-x),
            log_survival=None if below is None else lambda x: below(-x),
            log_concave=self.log_concave,
            breaks=tuple(-x for x in reversed(self.breaks)),
            bends=tuple((-high, -low) for low, high in reversed(self.bends)),
            shapes=self.shapes[::-1],
            analytic=None if self.analytic is None else self.analytic.mirrored(),
        )

    @staticmethod
    def exponential(scale: Number = 1) -> Law:
        """Return the law of density e^-z on z >= 0, times the scale."""
        return Law._made(
            scale,
            name="Law.exponential",
            outside=_bound_one_sided_shift,
            log_density=exponential,
            log_cdf=lambda x: floats.log1mexp((x, x)),
            # Nothing is rounded: both bounds are the same.
            log_survival=lambda x: (-np.maximum(x, 0.0),) * 2,
            breaks=(Fraction(0),),
            bends=((0.0, 0.0),),
            shapes=("linear", "linear"),
            analytic=EXPONENTIAL,
        )

    @staticmethod
    def laplace(scale: Number = 1) -> Law:
        """Return the law of density ``e^-|z| / 2``, times the scale."""
        return Law._made(
            scale,
            name="Law.laplace",
            outside=_bound_shift,
            log_density=unimodal(lambda z: floats.minus((-np.abs(z),) * 2, LN_2)),
            log_cdf=laplace_cdf,
            log_survival=lambda x: laplace_cdf(-x),
            breaks=(Fraction(0),),
            bends=((0.0, 0.0),),
            shapes=("linear", "linear"),
            analytic=LAPLACE,
        )

    @staticmethod
    def gumbel(scale: Number = 1) -> Law:
        """Return the law of the distribution function exp(-e^-z), times the scale."""
        return Law._made(
            scale,
            # The log ratio of two such densities has no bound, so that nothing is said of the tail.
            name="Law.gumbel",
            log_density=unimodal(gumbel),
            log_cdf=lambda x: negative(decay(x)),
            log_survival=lambda x: floats.log1mexp(decay(x)),
            shapes=("concave",),
            analytic=GUMBEL,
        )

    @staticmethod
    def logistic(scale: Number = 1) -> Law:
        """Return the law of the distribution function 1/(1 + e^-z), times the scale."""
        return Law._made(
            scale,
            name="Law.logistic",
            outside=_bound_shift,
            log_density=unimodal(logistic),
            log_cdf=lambda x: negative(floats.log1pexp((-x, -x))),
            log_survival=lambda x: negative(floats.log1pexp((x, x))),
            shapes=("concave",),
            analytic=LOGISTIC,
        )

    @staticmethod
    def gaussian(scale: Number = 1) -> Law:
        """Return the normal law of this standard deviation.

        Only its density is known, so that it serves scalar outputs and no race.
        """
        return Law._made(
            scale,
            # No bound in the tail, as for Gumbel noise.
            name="Law.gaussian",
            log_density=unimodal(gaussian),
            shapes=("concave",),
        )

    @staticmethod
    def cauchy(gamma: Number, scale: Number = 1, *, one_sided: bool = False) -> Law:
        """Return the law of density proportional to ``1/(1 + |z|^gamma)``, times the scale.

        Here gamma > 1, and the law is on all z or on z >= 0.
        """
        power = exact(gamma)
        if power is None or not 1 < power <= 100:
            raise InvalidParameter(
                f"Law.cauchy.gamma must be a number in (1, 100]; got {shown(gamma)}."
            )
        TRUTH("Law.cauchy.one_sided", one_sided)
        heavy = HeavyTail(power, one_sided=one_sided)
        side = "one_sided=True, " if one_sided else ""
        return Law._made(
            scale,
            name=f"Law.cauchy({side}gamma={shown(power)})",
            log_density=unimodal(heavy.log_density, rises=not one_sided),
            log_cdf=heavy.log_cdf,
            log_survival=heavy.log_survival,
            log_concave=False,
            breaks=heavy.breaks,
            outside=heavy.outside,
            bends=heavy.bends,
            shapes=("linear" if one_sided else "convex", "concave", "convex"),
            analytic=heavy.analytic,
        )

    def __str__(self) -> str:
        return repr(self)


# `window` is there for the signature of `Outside`.
def _bound_shift(window: tuple[Fraction, Fraction], a: Placed, b: Placed) -> float:  # noqa: ARG001
    """Bound the log ratio by the move over the scale.

    The slopes of the log density are at most one over the scale.
    """
    # With two scales the log ratio may grow without end.
    return floats.enclose(abs(a[0] - b[0]) / a[1])[1] if a[1] == b[1] else math.inf


def _bound_one_sided_shift(window: tuple[Fraction, Fraction], a: Placed, b: Placed) -> float:
    """Bound the log ratio of one-sided laws by the move over the scale.

    Below the window both densities are 0, if it reaches down to both answers.
    """
    return (
        _bound_shift(window, a, b)
        if window[0] <= min(a[0], b[0]) and max(a[0], b[0]) <= window[1]
        else math.inf
    )
