"""A number with a density: the auditor looks at the density itself.

Claim: lines and probabilities enclose the true ones if the functions of the caller do what they
say; of noise that is added to an answer, and may be multiplied by a scale of the same data, they
do. Proof: docs/proofs/exact-audit.md, "Densities".
Floats: outward, see `enclosures`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any, final

import numpy as np

from sordino.constraints import FINITE, NOT_NEGATIVE, Number, exact, shown
from sordino.errors import InvalidParameter
from sordino_audit.continuous import enclosures as floats
from sordino_audit.continuous.cells import (
    SHAPES,
    Cells,
    Curve,
    Piece,
    Shape,
    atom,
    check_shape,
    compared,
    either,
    weighed,
    within,
)
from sordino_audit.continuous.continuous import Asked, Compared, Continuous, classes, rest
from sordino_audit.continuous.enclosures import Bounds, Floats, bound_total, enclose
from sordino_audit.continuous.integrals import enclosed
from sordino_audit.continuous.laws import PLACE, SPAN, Law


def added(law: Any, window: Any, *, scaled: bool) -> dict[str, Any]:
    """Return the arguments of `Density` for noise of this law.

    `scaled`: answers may be pairs of a number and a scale.
    """
    if not isinstance(law, Law) or law.log_density is None:
        raise InvalidParameter(
            f"Density.added.law must be a Law with a log density; got {shown(law)}."
        )

    def placed(answers: Any) -> tuple[Fraction, Fraction]:
        at, scale = _split_answer(answers)
        if scale is not None and not scaled:
            raise InvalidParameter(
                "Density.sensitivity must not be given where answers have a scale: "
                "a statement says nothing about scales."
            )
        # The scale of an answer multiplies that of the law.
        return at, law.scale if scale is None else scale * law.scale

    def log_density(low: Floats, high: Floats, answers: Any) -> Bounds:
        at, scale = placed(answers)
        # The log density of x + s Z at o is ln f((o - x)/s) - ln s.
        place, stretch = enclose(at), enclose(1 / scale)
        z = floats.scaled(
            floats.minus((low, high), (np.array(place[0]), np.array(place[1]))), 1 / scale
        )
        return floats.plus(
            enclosed(law, "log_density", *z),
            floats.log((np.array(stretch[0]), np.array(stretch[1]))),
        )

    def breaks(answers: Any) -> list[tuple[float, float]]:
        at, scale = placed(answers)
        return [
            # Breaks move and stretch with the noise; each is known between two floats only.
            (enclose(at + Fraction(low) * scale)[0], enclose(at + Fraction(high) * scale)[1])
            for low, high in law.bends
        ]

    def tail(a: Any, b: Any) -> float:
        ends = (
            Fraction(float(window[0])),
            Fraction(float(window[1])),
        )  # the floats that are looked at
        return math.inf if law.outside is None else law.outside(ends, placed(a), placed(b))

    shown_shape = {"log_density": log_density, "shape": law.shapes, "breaks": breaks}
    return shown_shape if law.outside is None else shown_shape | {"tail": tail}


def _split_answer(answers: Any) -> tuple[Fraction, Fraction | None]:
    """Return the answer, and the scale if there is one."""
    listed = list(answers) if isinstance(answers, tuple | list | np.ndarray) else [answers]
    if len(listed) not in {1, 2}:
        raise InvalidParameter(
            "audit.exact needs one number on each side, or a pair of a number and a scale; "
            f"got {len(listed)} numbers."
        )
    scale = SPAN("the scale in audit.exact.answers", listed[1]) if len(listed) == 2 else None
    return PLACE("audit.exact.answers", listed[0]), scale


# ---- density -------------------------------------------------------------------------------------


_LOG_ROUNDING = 1e-9
_LARGEST_LOG = 1e290
_FINE_MASS_GAP, _COARSE_MASS_GAP = 1e-6, 1e-3
"""How far apart the bounds of the probability of the window may be.

The first is for lines that follow the density, the second for those that do not.
"""


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Density(Continuous):
    """A mechanism that releases a number, or a label and a number, with a density you can enclose.

    Parameters
    ----------
    cost : Cost
        What the mechanism claims to spend.
    log_density : callable
        Takes arrays of floats `low` and `high`, and the answers; with `labels` also the label.
        Returns two arrays between which the logarithm of the density lies, at all outputs from low
        to high; -inf where it is 0. With labels: the density of the number together with the label,
        which integrates to the probability of the label.
    window : tuple of number
        The interval of outputs that is looked at, the same for all answers.
    shape : str or sequence of str
        What the logarithm of the density is between its breaks: "linear", "concave", "convex" or
        "monotone"; one word, or one for each piece. Then `log_density` is asked for single points
        only (low == high), and for the tiny intervals around breaks. "any": nothing is said, and
        `log_density` is asked for intervals.
    breaks : callable, optional
        Takes the answers (and the label), returns where the pieces end: rising numbers, or pairs of
        floats between which the place lies.
    labels : iterable of hashable, optional
        What is released beside the number.
    atoms : callable, optional
        Takes the answers; returns a mapping from single outputs that have a probability to bounds
        of its logarithm.
    tail : number or callable, optional
        An upper bound of the log ratio of the densities outside the window, for either order; or a
        function of both answers that returns the one of the first to the second. math.inf: nothing
        is said of those outputs. It must be given unless a partition puts outputs into classes.
    cost_of, sensitivity, name
        As for `Subject`; `cost_of` takes a label, or an atom, and is not there for a single number.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    Laplace noise of scale 1 on a number that moves by 3/2, sold as 1:

    >>> import sordino as sd
    >>> import sordino_audit as audit
    >>> law = audit.Law.laplace(1)
    >>> mechanism = audit.Density.added(law, cost=sd.cost.Pure(epsilon=1), window=(-40, 40))
    >>> report = audit.exact(mechanism, answers_a=0, answers_b=1.5)
    >>> report.broken, round(report.epsilon_at_least, 6), round(report.epsilon_at_most, 6)
    (True, 1.5, 1.5)
    """

    log_density: Callable[..., Bounds]
    window: tuple[Number, Number]
    shape: str | Sequence[str] = "any"
    breaks: Callable[..., Sequence[Any]] | None = None
    labels: Iterable[Hashable] | None = None
    atoms: Callable[[Any], Mapping[Any, tuple[float, float]]] | None = None
    tail: Number | Callable[[Any, Any], Number] | None = None
    _ends: tuple[float, float] = field(init=False)
    _shapes: tuple[Shape, ...] = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        for what in ("log_density", "breaks", "atoms"):
            given = getattr(self, what)
            if not callable(given) and not (given is None and what != "log_density"):
                raise InvalidParameter(f"Density.{what} must be a function; got {shown(given)}.")
        window: Any = self.window
        numbers = (
            [PLACE("Density.window", x) for x in window if exact(x) is not None]
            if isinstance(window, tuple | list)
            else []
        )
        if len(numbers) != 2 or len(window) != 2 or float(numbers[0]) >= float(numbers[1]):
            raise InvalidParameter(
                "Density.window must be two finite numbers, the smaller one first; got "
                f"{shown(self.window)}."
            )
        words = (self.shape,) if isinstance(self.shape, str) else tuple(self.shape)
        if not words or not all(word in SHAPES for word in words):
            raise InvalidParameter(
                f"Density.shape must be made of {', '.join(SHAPES)}; got {shown(self.shape)}."
            )
        if self.tail is not None and not callable(self.tail) and self.tail != math.inf:
            NOT_NEGATIVE("Density.tail", self.tail)
        set_field = object.__setattr__
        set_field(self, "_ends", (float(numbers[0]), float(numbers[1])))
        set_field(self, "_shapes", words)
        set_field(self, "labels", None if self.labels is None else tuple(self.labels))
        if self.labels is None and self.atoms is None and self.cost_of is not None:
            raise InvalidParameter(
                "Density.cost_of must be None where outputs have neither labels nor atoms."
            )

    @classmethod
    def added(
        cls, law: Law, *, window: tuple[Number, Number], tail: Any = None, **options: Any
    ) -> Density:
        """Return the mechanism that releases answer + scale * noise.

        Answers are numbers, or pairs (number, scale).

        Shape and breaks are known of laws made by `Law`; of Laplace, exponential, logistic and
        Cauchy noise also what happens in the tail.

        Parameters
        ----------
        law : Law
            The noise; it needs a log density.
        window : tuple of number
            As for `Density`.
        tail : number or callable, optional
            As for `Density`. None: what is known of the law.
        **options
            `cost`, `sensitivity` and `name`, as for `Density`. There is no sensitivity where
            answers are pairs: it says nothing about scales.

        Returns
        -------
        Density
        """
        given: dict[str, Any] = {"name": f"{law!r} added", "tail": tail} | added(
            law, window, scaled="sensitivity" not in options
        )
        if tail is not None:
            # What the caller says of the tail goes before what is known of the law.
            given["tail"] = tail
        return cls(window=window, **(given | options))

    def compared(self, a: Any, b: Any, asked: Asked) -> Compared:
        """Return the laws of two neighbors, cell by cell."""
        if self.tail is None and asked.cuts is None:
            raise InvalidParameter(
                f"audit.exact needs Density.tail for {self!r}, because its outputs have no end: an "
                "upper bound of the log ratio outside the window, or math.inf to leave them out; "
                "or give partition=, a list of numbers that cut the outputs into classes."
            )
        found: list[tuple[Any, Cells]] = []
        # Constant bounds close in slowly: less is asked where nothing better than monotone is
        # known.
        coarse = not {"any", "monotone"}.isdisjoint(self._shapes)
        for label in self.labels or (None,):
            one, other = (self._curve(answers, label) for answers in (a, b))
            rule = weighed(_COARSE_MASS_GAP if coarse else _FINE_MASS_GAP)
            # Of classes only the probabilities count; else the log ratio has to be known, too.
            if asked.cuts is None:
                rule = either(within(asked.slack), rule)
            found.append((label, compared(one, other, rule, asked.budget, asked.cuts or ())))
        atoms = self._atoms(a, b)
        every = [cells for _, cells in (*found, *atoms)]
        sides = (
            [cells.mass(cells.a)[0] for cells in every],
            [cells.mass(cells.b)[0] for cells in every],
        )
        # The bound is for either law: the one of which less is known decides.
        left = max(rest(masses, f"{self!r}: log_density") for masses in sides)
        if asked.cuts is not None:
            # What is outside the window goes to the first and the last class, so that nothing is
            # left over.
            parts = [
                each
                for label, cells in found
                for each in self._classes(label, cells, asked.cuts, left)
            ]
            return Compared(
                cells=[*parts, *atoms],
                unresolved=0.0,
                outside=(0.0, 0.0),
                assumed=self._assumed(tailed=False),
            )
        outside = self._outside(a, b), self._outside(b, a)
        return Compared(
            cells=[*found, *atoms],
            unresolved=left,
            outside=outside,
            assumed=self._assumed(tailed=max(outside) < math.inf),
        )

    def _curve(self, answers: Any, label: Any) -> Curve:
        given = (answers,) if self.labels is None else (answers, label)

        def over(low: Floats, high: Floats) -> Bounds:
            found: Any = self.log_density(low, high, *given)
            if not isinstance(found, tuple | list) or len(found) != 2:
                raise InvalidParameter(
                    "Density.log_density must return two arrays, a lower and an upper bound."
                )
            least, most = (
                np.broadcast_to(np.asarray(side, dtype=np.float64), low.shape) for side in found
            )
            wrong = np.isnan(least) | np.isnan(most) | (least > most)
            if wrong.any():
                i = int(wrong.argmax())
                raise InvalidParameter(
                    "Density.log_density must return a lower and an upper bound; "
                    f"got {least[i]:.6g} and {most[i]:.6g} at {low[i]:.6g}."
                )
            # So far out that a sum of a few overflows: known to be there, and no more.
            least = np.where(least < -_LARGEST_LOG, -math.inf, np.minimum(least, _LARGEST_LOG))
            return least, np.where(
                most > _LARGEST_LOG,
                math.inf,
                np.where(np.isneginf(most), most, np.maximum(most, -_LARGEST_LOG)),
            )

        pieces = self._pieces(given)

        def at(x: Floats) -> Bounds:
            low, high = over(x, x)
            # Values that contradict the declared shape are refused. That others agree is no proof.
            check_shape(x, (low, high), pieces, "Density.log_density")
            return low[None, :], high[None, :]

        return Curve(pieces=pieces, at=at, over=over)

    def _pieces(self, given: tuple[Any, ...]) -> list[Piece]:
        """Return the pieces inside the window, with a tiny one of any shape around each break."""
        first, last = self._ends
        places = [
            _enclose_break(x) for x in (self.breaks(*given) if self.breaks is not None else ())
        ]
        shapes = self._shapes * (len(places) + 1) if len(self._shapes) == 1 else self._shapes
        if len(shapes) != len(places) + 1 or any(x[1] >= y[0] for x, y in pairwise(places)):
            raise InvalidParameter(
                "Density.shape must have one word more than there are breaks, and Density.breaks "
                "must rise."
            )
        found = []
        start = -math.inf
        for shape, (low, high) in zip(shapes, [*places, (math.inf, math.inf)], strict=True):
            # Around a break nothing is said of the shape: there `log_density` bounds an interval.
            found += [Piece(start, low, shape), Piece(low, high, "any")]
            start = high
        # The window cuts pieces, and some away.
        inside = (
            Piece(max(first, piece.start), min(last, piece.end), piece.shape) for piece in found
        )
        return [piece for piece in inside if piece.start < piece.end]

    def _atoms(self, a: Any, b: Any) -> list[tuple[Any, Cells]]:
        if self.atoms is None:
            return []
        sides = [dict(self.atoms(answers)) for answers in (a, b)]
        never = -math.inf, -math.inf
        found = []
        for output in dict.fromkeys([*sides[0], *sides[1]]):
            # An atom that one side does not name has the probability 0 there.
            bounds = [side.get(output, never) for side in sides]
            # A logarithm may be a little above 0 by rounding.
            if any(len(each) != 2 or not each[0] <= each[1] <= _LOG_ROUNDING for each in bounds):
                raise InvalidParameter(
                    "Density.atoms must return a lower and an upper bound of each log probability."
                )
            found.append((output, atom(*((float(low), float(high)) for low, high in bounds))))
        return found

    def _classes(
        self, label: Any, cells: Cells, cuts: Sequence[float], left: float
    ) -> list[tuple[Any, Cells]]:
        """Return the classes of one label.

        What is outside the window may belong to the first or to the last one.
        """
        inner = [cut for cut in cuts if self._ends[0] < cut < self._ends[1]]
        if len(inner) < len(cuts):
            raise InvalidParameter("audit.exact.partition must have cuts inside Density.window.")
        # A tiny cell around a break may have a cut inside: what is in it may belong to either side.
        first, last = (
            np.searchsorted(inner, cells.start, side="right"),
            np.searchsorted(inner, cells.end, side="left"),
        )
        sides = []
        for side in (cells.a, cells.b):
            low, high = cells.mass(side)
            bounds = [
                (
                    bound_total(low[(first == i) & (last == i)], up=False),
                    bound_total(high[(first <= i) & (i <= last)], up=True),
                )
                for i in range(len(inner) + 1)
            ]
            # What is outside the window may belong to either outer class: only their upper bounds
            # grow.
            for i in (0, -1):
                bounds[i] = bounds[i][0], min(1.0, bounds[i][1] + left)
            sides.append([(one, min(1.0, other)) for one, other in bounds])
        return classes(label, cuts, sides)

    def _outside(self, a: Any, b: Any) -> float:
        if not callable(self.tail):
            return math.inf if self.tail is None else floats_above(self.tail)
        found = self.tail(a, b)
        return math.inf if found == math.inf else floats_above(NOT_NEGATIVE("Density.tail", found))

    def _assumed(self, *, tailed: bool) -> str:
        said = "log_density encloses the log density"
        if self._shapes != ("any",):
            said += f", which is {' or '.join(dict.fromkeys(self._shapes))} between its breaks"
        return said + (", and the tail statement holds outside the window" if tailed else "")


def floats_above(x: Any) -> float:
    """Return a float that is at least this number."""
    return math.inf if x == math.inf else enclose(FINITE("Density.tail", x))[1]


def _enclose_break(x: Any) -> tuple[float, float]:
    """Return floats strictly on both sides of a break."""
    if isinstance(x, tuple | list) and len(x) == 2:
        low, high = float(x[0]), float(x[1])
    else:
        low, high = enclose(PLACE("Density.breaks", x))
    if not low <= high:
        raise InvalidParameter(
            "Density.breaks must be numbers, or pairs of floats with the place between them."
        )
    return math.nextafter(low, -math.inf), math.nextafter(high, math.inf)
