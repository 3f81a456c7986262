"""The common part of races and sparse vectors.

The probabilities of their outputs are integrals over one shared shift.

Claim: every probability and density lies between its bounds. Proof: docs/proofs/exact-audit.md,
"Races" and "Crossings".
Floats: outward, see `integrals`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sordino.constraints import TRUTH, shown
from sordino.errors import InvalidParameter
from sordino_audit.continuous import enclosures as floats
from sordino_audit.continuous.cells import Cells, Curve, Piece, atom, check_shape, compared, within
from sordino_audit.continuous.continuous import Asked, Compared, Continuous, classes, rest
from sordino_audit.continuous.enclosures import Bounds, Floats
from sordino_audit.continuous.integrals import CellBudget, Factor, Shifts, integrate
from sordino_audit.continuous.laws import PLACE, Law

_FINEST_SHARE = 1e-12
_SLACK_SHARE = 1 / 16
_FARTHEST_IN_SCALES = 2000
_MOST_SHIFT_CELLS = 4_000_000
_FIRST_CELLS = 16
_LARGEST_MISSING_MASS = 1e-6


class Outcome(NamedTuple):
    """A label, how many real numbers are released with it, and what a single number is at least.

    The latter is a float.
    """

    label: Any
    reals: int
    start: Fraction


class Products(NamedTuple):
    """Integrals of the same product of factors with different shifts."""

    factors: tuple[Factor, ...]
    shifts: Shifts


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SharedShift(Continuous):
    """The common part of `Crossings` and `Race`.

    The subclass says which outcomes there are, and of which integrals they are sums.
    """

    gap: bool = False
    outputs: Iterable[Any] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        TRUTH(f"{type(self).__name__}.gap", self.gap)
        object.__setattr__(self, "outputs", None if self.outputs is None else tuple(self.outputs))

    @abstractmethod
    def _outcomes(self, answers: Any) -> list[Outcome]:
        """Return all outcomes, for any answers of this length."""

    @abstractmethod
    def _density(self, answers: Any, label: Any, reals: Sequence[Fraction]) -> list[Products]:
        """Return the integrals of which the density at these real numbers is the sum.

        Without any real number it is the probability.
        """

    @abstractmethod
    def _beyond(self, answers: Any, label: Any, real: Fraction) -> Products:
        """Return the integral that is the probability of the label with a number above this one."""

    @abstractmethod
    def _split(self, output: Any) -> tuple[Any, tuple[Fraction, ...]]:
        """Return the label and the real numbers of an output."""

    def _gap(self, given: Any, least: Fraction) -> Fraction:
        """Return a gap of an output that is listed; refuse one that cannot come out."""
        name = f"{type(self).__name__}.outputs"
        gap: Fraction = PLACE(name, given)
        if gap < least:
            raise InvalidParameter(
                f"{name} must have gaps of at least {shown(least)}, as no others come out; "
                f"got {shown(given)}."
            )
        return gap

    @abstractmethod
    def _laws(self, answers: Any) -> list[Law]:
        """Return all laws."""

    @abstractmethod
    def _kinks(self, answers: Any) -> list[Fraction]:
        """Return where the density of the number may have kinks."""

    def log_probability(
        self, answers: Any, output: Any, *, slack: float = 1e-10
    ) -> tuple[float, float]:
        """Return bounds of the log probability of one output; with gaps, of its log density.

        Parameters
        ----------
        answers : array of numbers
            As in the audit.
        output : object
            As in a report.
        slack : float
            How far apart the bounds may be.

        Returns
        -------
        tuple of float
        """
        low, high = self._point(answers, self._split(output), slack, CellBudget(_MOST_SHIFT_CELLS))
        return float(low), float(high)

    def compared(self, a: Any, b: Any, asked: Asked) -> Compared:
        """Return the laws of two neighbors, cell by cell."""
        if asked.cuts is not None and (self.outputs is not None or not self.gap):
            raise InvalidParameter(
                "audit.exact.partition must be None unless gaps are released, and outputs are not "
                "listed."
            )
        if self.outputs is not None:
            return self._pointwise(a, b, asked)
        outcomes = self._outcomes(a)
        if [each.label for each in outcomes] != [each.label for each in self._outcomes(b)]:
            raise InvalidParameter("audit.exact needs the same number of answers on both sides.")
        if any(each.reals > 1 for each in outcomes):
            raise InvalidParameter(
                f"{type(self).__name__}.outputs must be a list of outputs, "
                "which are compared one by one, where some have several gaps."
            )
        cells: list[tuple[Any, Cells]] = []
        left = 0.0
        for outcome in outcomes:
            if outcome.reals == 0:
                sides = [
                    self._point(answers, (outcome.label, ()), asked.slack, asked.budget)
                    for answers in (a, b)
                ]
                cells.append(
                    (outcome.label, atom(*((float(low), float(high)) for low, high in sides)))
                )
            elif asked.cuts is not None:
                cells += self._classes(outcome, a, b, asked)
            else:
                found, lost = self._curves(outcome, a, b, asked, len(outcomes))
                cells.append((outcome.label, found))
                left += lost
        for side in (0, 1):
            masses = [each.mass((each.a, each.b)[side]) for _, each in cells]
            # Called for its check only: lower bounds that add up to more than 1 are refused.
            rest([mass[0] for mass in masses], repr(self))
            most = sum(float(mass[1].sum()) for mass in masses) + left
            if most < 1 - _LARGEST_MISSING_MASS:
                raise InvalidParameter(
                    f"{self!r} must have laws of probability 1; its outputs have {most:.9g} "
                    "together."
                )
        # Of the gaps beyond the last cell nothing is known.
        outside = (math.inf, math.inf) if left else (-math.inf, -math.inf)
        return Compared(cells=cells, unresolved=left, outside=outside, assumed=self._assumed(a))

    def _pointwise(self, a: Any, b: Any, asked: Asked) -> Compared:
        """Compare the outputs that are listed, and no others."""
        cells, plain = [], []
        for output in self.outputs or ():
            label, reals = self._split(output)
            sides = [
                self._point(answers, (label, reals), asked.slack, asked.budget)
                for answers in (a, b)
            ]
            found = atom(*((float(low), float(high)) for low, high in sides))
            if reals:
                found = found._replace(
                    width=np.zeros(1)
                )  # one point of a density has no probability
            else:
                plain.append(found)
            cells.append((output, found))
        if not cells:
            raise InvalidParameter(f"{type(self).__name__}.outputs must list at least one output.")
        left = max(
            rest([np.zeros(1), *(each.mass(side(each))[0] for each in plain)], repr(self))
            for side in (_select_lines_of_a, _select_lines_of_b)
        )
        return Compared(
            cells=cells, unresolved=left, outside=(math.inf, math.inf), assumed=self._assumed(a)
        )

    def _point(
        self, answers: Any, output: tuple[Any, Sequence[Fraction]], slack: float, budget: CellBudget
    ) -> tuple[Any, Any]:
        label, reals = output
        parts = [self._logs([part], slack, budget) for part in self._density(answers, label, reals)]
        # The sum is taken in logarithms: a term may be too small for a float.
        low, high = floats.log_total(
            (np.array([part[0] for part in parts]), np.array([part[1] for part in parts]))
        )
        return low[0], high[0]

    def _logs(self, products: Sequence[Products], slack: float, budget: CellBudget) -> Bounds:
        """Return bounds of the logarithms of integrals with the same factors."""
        smooth = all(factor.law.analytic is not None for factor in products[0].factors)
        # Smooth laws are integrated to many digits at little cost, others only as far as is needed.
        share = min(slack * _SLACK_SHARE, _FINEST_SHARE) if smooth else slack * _SLACK_SHARE * 4
        return floats.log(
            integrate(products[0].factors, [part.shifts for part in products], share, budget)
        )

    def _curves(
        self, outcome: Outcome, a: Any, b: Any, asked: Asked, count: int
    ) -> tuple[Cells, float]:
        """Return the cells of the number of one label, and the probability beyond the last one."""
        rough = [
            law
            for answers in (a, b)
            for law in self._laws(answers)
            if not law.log_concave or law.log_density is None
        ]
        if rough:
            raise InvalidParameter(
                "audit.exact needs laws with a log-concave density for gaps without a partition; "
                f"{rough[0]} is none. Give partition=, a list of numbers that cut the gaps into "
                "classes, or outputs= to compare single ones."
            )
        kinks = sorted({*self._kinks(a), *self._kinks(b)})
        start = float(outcome.start)
        end, left = self._end(outcome, a, b, asked, count)
        # Integrals of log-concave functions are log-concave in the gap ("Races" on the proof page).
        pieces = [Piece(start, end, "concave")]
        one, other = (
            Curve(pieces, partial(self._terms, answers, outcome.label, asked), first=_FIRST_CELLS)
            for answers in (a, b)
        )
        # A kink may be no float: both floats next to it are cuts.
        cuts = sorted({end for kink in kinks for end in floats.enclose(kink)})
        return compared(one, other, within(asked.slack), asked.budget, cuts), left

    def _terms(self, answers: Any, label: Any, asked: Asked, x: Floats) -> Bounds:
        """Return bounds of all terms of the log density of the number."""
        jobs = [self._density(answers, label, (Fraction(at),)) for at in x.tolist()]
        found = [self._logs(term, asked.slack, asked.budget) for term in zip(*jobs, strict=True)]
        for term in found:
            # The lines rest on the shape: values that contradict it are refused.
            check_shape(
                x,
                term,
                [Piece(float(x[0]), float(x[-1]), "concave")],
                f"{self}: the log density of the gap",
            )
        return np.array([low for low, _ in found]), np.array([high for _, high in found])

    def _end(
        self, outcome: Outcome, a: Any, b: Any, asked: Asked, count: int
    ) -> tuple[float, float]:
        """Return where the numbers of a label are cut off.

        With it comes an upper bound of the probability beyond.
        """
        laws = self._laws(a)
        reach = max(law.scale for law in laws) * 8
        spread = max(
            (abs(kink) for answers in (a, b) for kink in self._kinks(answers)), default=Fraction(0)
        )
        while True:
            # Ends of cells are floats.
            end = Fraction(float(max(outcome.start, spread) + reach))
            tails = [
                self._logs([self._beyond(answers, outcome.label, end)], 0.01, asked.budget)[1]
                for answers in (a, b)
            ]
            left = max(float(floats.exp((tail, tail))[1][0]) for tail in tails)
            # The tails of all labels share what may be left out.
            if left * count <= asked.tail or reach > _FARTHEST_IN_SCALES * max(
                law.scale for law in laws
            ):
                return float(end), left
            reach *= Fraction(5, 4)

    def _classes(self, outcome: Outcome, a: Any, b: Any, asked: Asked) -> list[tuple[Any, Cells]]:
        """Return the classes of one label.

        They are differences of the probabilities of more than each cut.
        """
        cuts = [Fraction(cut) for cut in asked.cuts or ()]
        sides = []
        for answers in (a, b):
            whole = self._density_of_all(answers, outcome, asked)
            # No number is below the start: what is above a lower cut is everything, and nothing is
            # between two of them.
            passed = sum(cut <= outcome.start for cut in cuts)
            beyond = [
                floats.exp(
                    self._logs(
                        [self._beyond(answers, outcome.label, cut)], asked.slack, asked.budget
                    )
                )
                for cut in cuts[passed:]
            ]
            levels = [whole, *((float(low[0]), float(high[0])) for low, high in beyond), (0.0, 0.0)]
            sides.append(
                [(0.0, 0.0)] * passed
                + [_subtract_probabilities(one, other) for one, other in pairwise(levels)]
            )
        return classes(outcome.label, asked.cuts or (), sides)

    def _density_of_all(self, answers: Any, outcome: Outcome, asked: Asked) -> tuple[float, float]:
        # All numbers of a label lie above its start.
        low, high = floats.exp(
            self._logs(
                [self._beyond(answers, outcome.label, outcome.start)], asked.slack, asked.budget
            )
        )
        return float(low[0]), float(high[0])

    def _assumed(self, answers: Any) -> str:
        own = sorted({f"{law}" for law in self._laws(answers) if law.analytic is None})
        return "the noise is independent and has the laws that are named" + (
            f"; what {', '.join(own)} says of itself" if own else ""
        )


def _subtract_probabilities(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    """Return bounds of the difference of two probabilities, the first being the larger one."""
    low, high = floats.widen(np.array([a[0] - b[1]]), np.array([a[1] - b[0]]))
    return max(0.0, float(low[0])), max(0.0, float(high[0]))


def _select_lines_of_a(cells: Cells) -> Any:
    return cells.a


def _select_lines_of_b(cells: Cells) -> Any:
    return cells.b


def laws_of(noise: Any, name: str) -> tuple[Law, ...]:
    """Return one law or several as a tuple, each with a distribution function."""
    found = (
        (noise,) if isinstance(noise, Law) else tuple(noise) if isinstance(noise, Iterable) else ()
    )
    if not found or not all(isinstance(law, Law) and law.log_cdf is not None for law in found):
        raise InvalidParameter(
            f"{name} must be a Law with a log_cdf, such as Law.laplace(1), or a list of them; "
            f"got {shown(noise)}."
        )
    return found
