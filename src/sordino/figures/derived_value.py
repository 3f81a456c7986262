"""Figures made of released ones, by operators: sum, difference, multiple, ratio, with an interval.

Claim: the interval contains the same figure of the answers with at least `confidence`. Proof:
docs/proofs/derived-figures.md. Floats: values are exact fractions, rounded once; ends of an
interval are rounded to the nearest float.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NoReturn, cast, final

from sordino.constraints import SHARE, TRUTH, Number, exact, shown, to_fraction
from sordino.errors import InvalidParameter
from sordino.figures.ratio import Ratio
from sordino.figures.terms import Combination, Opaque, read_one, read_terms
from sordino.tabular import Row, Tabular

Made = Combination | Ratio
_USUAL = 0.95
CLIPPED = (
    "Where it says clipped, an interval is about values after capping, or counted for less, as "
    "their release tells. The figure of the values as they are may lie outside: how far is not "
    "known."
)
"""What is said below figures that were made of clipped ones."""


class Derivable:
    """Gives a released figure its operators.

    `a + b`, `a - b`, `2 * a`, `a / b` are a `DerivedValue`.

    Each has an interval that knows the noise of all that is in it, and what is in it twice: `a - a`
    is 0.
    """

    __slots__ = ()
    # An operator with a number of numpy is that of the figure, and no array.
    __array_ufunc__ = None

    def __add__(self, other: Any) -> DerivedValue:
        return _combine(self, other, 1, 1)

    def __radd__(self, other: Any) -> DerivedValue:
        return _combine(self, other, 1, 1)

    def __sub__(self, other: Any) -> DerivedValue:
        return _combine(self, other, 1, -1)

    def __rsub__(self, other: Any) -> DerivedValue:
        return _combine(self, other, -1, 1)

    def __neg__(self) -> DerivedValue:
        return _combine(self, 0, -1, 1)

    def __mul__(self, other: Any) -> DerivedValue:
        factor = exact(other)
        # The product of two figures is left to those who need it.
        if factor is None:
            return NotImplemented if isinstance(other, Derivable) else _reject(other)
        return _combine(self, 0, factor, 1)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> DerivedValue:
        return _divide_figures(self, other)

    def __rtruediv__(self, other: Any) -> DerivedValue:
        return _divide_figures(other, self)

    def __float__(self) -> float:
        """Return the figure alone: whoever goes on with it loses its noise out of sight."""
        released: Any = self
        return float(released.estimate)


@final
@dataclass(frozen=True, kw_only=True)
class DerivedValue(Derivable, Tabular):
    """A figure that was made of released ones.

    Attributes
    ----------
    value : float
        In the unit that follows; of a ratio NaN if the released divisor says nothing. `estimate` is
        the same.
    low, high : float
        Its interval; infinite where there is no end.
    confidence : float
        Of the interval: the highest of what it is made of, unless another one was asked for.
    item : object
        Of several looks at rows the row that it is about; else None.
    planned : bool
        Whether the interval rests on your word that noises were settled before any of it was seen
        (`derive`).
    clipped : bool
        Whether any of what it is made of is about clipped records: then so are this figure and its
        interval, and nothing is known of the same figure without clipping.
    simulated : bool
        Whether any of what it is made of was.
    charges : tuple of str
        The ids of the charges that paid for what it is made of.
    about : tuple of str
        Which rows count in what it is made of, where not all do, in sentences.

    Examples
    --------
    >>> import sordino as sd
    >>> m, noise = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING), sd.Seeded(7)
    >>> women, men = m.release(520, entropy=noise), m.release(480, entropy=noise)
    >>> both = women + men
    >>> both.low <= 1000 <= both.high, (both - men - women).high
    (True, 0.0)
    >>> share = women / both
    >>> 0.5 < share.low < 0.52 < share.high < 0.53
    True
    """

    value: float
    low: float
    high: float
    confidence: float
    item: Any = None
    planned: bool = field(default=False, repr=False)
    clipped: bool = False
    simulated: bool = field(default=False, repr=False)
    charges: tuple[str, ...] = field(default=(), repr=False)
    about: tuple[str, ...] = field(default=(), repr=False)
    made: Made | None = field(default=None, repr=False, compare=False)

    @property
    def estimate(self) -> float:
        """The figure: `value`, by the name that it has in every release."""
        return self.value

    def interval_at(self, *, confidence: Number) -> tuple[float, float]:
        """Return the interval at another confidence.

        Raises
        ------
        InvalidParameter
            If the confidence is not in (0, 1), or nothing is known of what the figure is made of.
        """
        wrong = 1 - SHARE("DerivedValue.interval_at.confidence", confidence)
        if self.made is None:
            raise InvalidParameter(
                "DerivedValue.interval_at needs a figure that was made of releases; got one made "
                "by hand."
            )
        return _bound_figure(self.made, wrong, planned=self.planned)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready values; what is infinite, or no number, as None."""
        numbers = {name: getattr(self, name) for name in ("value", "low", "high", "confidence")}
        return {
            "type": "DerivedValue",
            **{name: number if math.isfinite(number) else None for name, number in numbers.items()},
            "item": self.item,
            "planned": self.planned,
            "clipped": self.clipped,
            "simulated": self.simulated,
            "charges": list(self.charges),
            "about": list(self.about),
        }

    def list_rows(self) -> list[Row]:
        """Return the figure as one row."""
        named = {} if self.item is None else {"item": self.item}
        ends = {
            "estimate": self.value,
            "low": self.low,
            "high": self.high,
            "confidence": self.confidence,
        }
        return [named | ends | {"clipped": self.clipped}]

    def _list_notes(self, rows: int) -> list[str]:
        return [*super()._list_notes(rows), *self.about, *([CLIPPED] if self.clipped else [])]


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class DerivedValues(Tabular):
    """Several figures made of released ones, each with its name: one row each as a frame.

    Attributes
    ----------
    rows : dict of str to DerivedValue
    together : float
        Least probability with which all intervals hold.

    Examples
    --------
    >>> import sordino as sd
    >>> m, noise = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING), sd.Seeded(7)
    >>> women, men = m.release(520, entropy=noise), m.release(480, entropy=noise)
    >>> page = sd.derive_all({"all": women + men, "women": women / (women + men)})
    >>> page.to_polars().columns
    ['name', 'estimate', 'low', 'high', 'confidence', 'clipped']
    >>> page["all"].value
    999.0
    """

    rows: dict[str, DerivedValue]
    together: float

    def __repr__(self) -> str:
        return f"DerivedValues({', '.join(self.rows)})"

    def __getitem__(self, name: str) -> DerivedValue:
        return self.rows[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self.rows)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.rows)

    @property
    def simulated(self) -> bool:
        """Whether any of them is."""
        return any(row.simulated for row in self.rows.values())

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready values."""
        return {
            "type": "DerivedValues",
            "rows": {name: row.to_dict() for name, row in self.rows.items()},
            "together": self.together,
        }

    def _list_notes(self, rows: int) -> list[str]:
        clipped = any(row.clipped for row in self.rows.values())
        about = dict.fromkeys(said for row in self.rows.values() for said in row.about)
        return [*super()._list_notes(rows), *about, *([CLIPPED] if clipped else [])]

    def list_rows(self) -> list[Row]:
        """Return the figures, each with its name."""
        return [{"name": name} | row.list_rows()[0] for name, row in self.rows.items()]


def derive(
    release: Any, item: Any = None, *, confidence: Number | None = None, planned: bool = False
) -> DerivedValue:
    """Return a released figure, a row of a release, or a derived figure, as a figure to go on with.

    Operators make figures of figures: `a + b`, `a - b`, `2 * a`, `a / b`, also of different
    releases. Their intervals hold where the noise of a later release was chosen by what an earlier
    one said: each release gets its share of what may go wrong. If nothing was chosen so,
    `planned=True` takes the noise of all as one sum, and the interval is the narrower, the more
    releases there are.

    Parameters
    ----------
    release : release, DerivedValue or number
        A count, a histogram, a top k that was measured, a sum, a mean, a variance, what the Laplace
        or the Gaussian mechanism released, or a figure made of such.
    item : object, optional
        Which row of a release with rows: its label, or its position in what a mechanism released.
    confidence : number, optional
        In (0, 1): of the interval. By default that of the release, 95% of most; of several the
        highest. Who looks at several figures, and then chooses one, must ask for more.
    planned : bool
        Say True only if it was settled before the first of these releases was seen which releases
        there would be, and how much is spent on each.

    Returns
    -------
    DerivedValue
        About what the releases are about: of clipped records a figure of clipped records, of units
        that count for so many rows at most a figure of these.

    Raises
    ------
    InvalidParameter
        If nothing is known of the noise of the release by itself (what was selected by its own
        noise, a quantile), if it has no such row, or needs one to be named; if the confidence is
        not in (0, 1).

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> visits = pl.DataFrame({"guest": range(900), "town": ["Arles", "Bern", "Como"] * 300})
    >>> session = sd.Session(visits, unit=sd.PrivacyUnit("guest", max_rows=1), entropy=sd.Seeded(7))
    >>> towns = session.histogram("town", epsilon=1, domain=["Arles", "Bern", "Como"])
    >>> guests = session.count_distinct_units(epsilon=1)
    >>> share = sd.derive(towns, "Arles") / guests
    >>> sd.derive(share, confidence=0.99).low < share.low < 1 / 3 < share.high
    True
    >>> settled = sd.derive(share, planned=True)
    >>> round(share.high - share.low, 3), round(settled.high - settled.low, 3)
    (0.012, 0.007)
    """
    TRUTH("derive.planned", planned)
    level = None if confidence is None else to_fraction(SHARE("derive.confidence", confidence))
    if item is None:
        figure = _find_figure(release)
        if figure is None:
            figure = _refuse_figure(release)
        return _state(figure, confidence=level, planned=planned)
    whole = getattr(release, "result", release)
    grouped = {
        row.item: row.release for row in getattr(whole, "rows", ()) if hasattr(row, "release")
    }
    terms = grouped or read_terms(whole, "derive", only=item)
    if not isinstance(item, Hashable) or item not in terms:
        raise InvalidParameter(f"derive.item needs a row of the release; got {shown(item)}.")
    if grouped:
        # Each group has a figure of its own.
        return derive(grouped[item], confidence=confidence, planned=planned)
    usual = to_fraction(getattr(release, "confidence", None) or _USUAL)
    made = Combination({terms[item]: Fraction(1)})
    return state(made, confidence=level or usual, planned=planned, parts=(release,))


def derive_all(
    figures: Mapping[str, Any],
    *,
    confidence: Number = _USUAL,
    simultaneous: bool = False,
    planned: bool = False,
) -> DerivedValues:
    """Return several figures with their names, for a frame or a page.

    Parameters
    ----------
    figures : mapping of str to figure
        What `derive` takes.
    confidence : number
        In (0, 1): of each interval, or of all of them together.
    simultaneous : bool
        Whether all intervals hold together with that confidence.
    planned : bool
        As for `derive`.

    Raises
    ------
    InvalidParameter
        As for `derive`; if there is no figure.

    Examples
    --------
    >>> import sordino as sd
    >>> m, noise = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING), sd.Seeded(7)
    >>> old, new = m.release(520, entropy=noise), m.release(480, entropy=noise)
    >>> figures = {"change": new - old, "in percent": 100 * (new / old)}
    >>> page = sd.derive_all(figures, simultaneous=True)
    >>> page.together, [row.confidence for row in page.rows.values()]
    (0.95, [0.975, 0.975])
    """
    TRUTH("derive_all.simultaneous", simultaneous)
    wrong = 1 - to_fraction(SHARE("derive_all.confidence", confidence))
    given: Any = figures
    if (
        not isinstance(given, Mapping)
        or not given
        or not all(isinstance(name, str) for name in given)
    ):
        raise InvalidParameter(
            "derive_all.figures must be a mapping of names to figures, at least one."
        )
    # Nothing is known of how the intervals depend on each other: what may go wrong is shared out.
    each = wrong / len(figures) if simultaneous else wrong
    rows = {
        name: derive(figure, confidence=1 - each, planned=planned)
        for name, figure in figures.items()
    }
    return DerivedValues(rows=rows, together=float(max(Fraction(0), 1 - each * len(figures))))


def state(
    made: Made,
    *,
    confidence: Fraction,
    planned: bool,
    parts: tuple[Any, ...],
    item: Any = None,
) -> DerivedValue:
    """Return a figure with its interval.

    `parts` are the releases and figures that it is made of.
    """
    low, high = _bound_figure(made, 1 - confidence, planned=planned)
    charges: dict[str, None] = {}
    for part in parts:
        receipt = getattr(part, "receipt", None)
        # A look that a ledger has kept names its charge itself.
        paid = (
            part.charges
            if isinstance(part, DerivedValue)
            else [getattr(receipt, "id", getattr(part, "charge", None))]
        )
        charges |= {one: None for one in paid if one is not None}
    return DerivedValue(
        value=_find_value(made),
        low=low,
        high=high,
        confidence=float(confidence),
        item=item,
        planned=planned,
        # A release that has found ends says them.
        clipped=any(
            getattr(part, "clipped", getattr(part, "clip", None) is not None) for part in parts
        ),
        simulated=any(getattr(part, "simulated", False) for part in parts),
        charges=tuple(charges),
        about=tuple(dict.fromkeys(said for part in parts for said in _list_about(part))),
        made=made,
    )


def _list_about(part: Any) -> tuple[str, ...]:
    """Return which rows count in a release or a figure, where not all of them do."""
    if isinstance(part, DerivedValue):
        return part.about
    some = getattr(part, "population", None)
    # Of a mechanism, and of what an older version has kept, nothing is known.
    return () if some is None or not some.list_bounds() else (*some.say_about(), *some.say_bound())


# ---- operators -----------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class _Figure:
    """What an operator takes: a sum of terms, or a ratio itself, and the confidence it had."""

    sum: Combination
    made: Made
    confidence: Fraction | None
    planned: bool
    part: Any


def _bound_figure(made: Made, wrong: Fraction, *, planned: bool) -> tuple[float, float]:
    """Return the ends of the interval of a figure as floats.

    Refuse a figure for which there are none.
    """
    try:
        low, high = made.bound(wrong, planned=planned)
        return float(low), float(high)
    # Of noise that is multiplied with a very large, or a very small, number.
    except (OverflowError, ZeroDivisionError):
        _refuse_size()


def _find_value(made: Made) -> float:
    try:
        return float(made.value)
    except OverflowError:
        _refuse_size()


def _refuse_size() -> NoReturn:
    raise InvalidParameter(
        "A figure made of others must have an interval that floats can hold, so nothing beyond "
        "1e308; this one has none. Multiply by a number nearer to 1."
    ) from None


def _find_figure(thing: Any) -> _Figure | None:
    """Return a figure or a number; None if it is neither."""
    number = None if isinstance(thing, Derivable) else exact(thing)
    if number is not None:
        constant = Combination({}, number)
        return _Figure(constant, constant, None, planned=True, part=None)
    release = getattr(thing, "result", thing)
    if isinstance(release, DerivedValue):
        if release.made is None:
            return None
        whole = (
            Fraction(release.value)
            if math.isfinite(release.value)
            else cast("Fraction", release.value)
        )
        made = release.made
        own = (
            made
            if isinstance(made, Combination)
            else Combination({Opaque(release, whole): Fraction(1)})
        )
        level = to_fraction(release.confidence)
        return _Figure(own, made, level, planned=release.planned, part=release)
    read = read_one(release)
    if read is None:
        return None
    level = to_fraction(getattr(release, "confidence", None) or _USUAL)
    return _Figure(read, read, level, planned=False, part=release)


def _refuse_figure(thing: Any) -> _Figure:
    rows = hasattr(getattr(thing, "result", thing), "rows")
    raise InvalidParameter(
        "derive.item must name one row of this release."
        if rows
        else "derive.release must be a single figure of which the law of its noise is known, such "
        "as a count, a sum, a mean, or a figure made of such; this one is not."
    )


def _state(figure: _Figure, *, confidence: Fraction | None, planned: bool) -> DerivedValue:
    level = confidence or figure.confidence or to_fraction(_USUAL)
    parts = () if figure.part is None else (figure.part,)
    return state(figure.made, confidence=level, planned=planned or figure.planned, parts=parts)


def _combine(first: Any, second: Any, times: Fraction | int, more: Fraction | int) -> DerivedValue:
    """Return `times` the first figure plus `more` of the second one."""
    one, other = _find_figure(first), _find_figure(second)
    if one is None or other is None:
        refused: DerivedValue = _reject(first if one is None else second)
        return refused
    times, more = Fraction(times), Fraction(more)
    for ratio, own, number, beside in ((one, times, other, more), (other, more, one, times)):
        if isinstance(ratio.made, Ratio) and not number.sum.weights:
            # A multiple of a ratio, and a number more, is a ratio again:
            # (own over + number under) / under.
            over, under = ratio.made.over, ratio.made.under
            return _join(
                Ratio(over.times(own).plus(under, beside * number.sum.constant), under), one, other
            )
    return _join(one.sum.times(times).plus(other.sum, more), one, other)


def _divide_figures(over: Any, under: Any) -> DerivedValue:
    one, other = _find_figure(over), _find_figure(under)
    if one is None or other is None:
        refused: DerivedValue = _reject(over if one is None else under)
        return refused
    if not other.sum.weights:
        if not other.sum.constant:
            raise InvalidParameter("A figure cannot be divided by 0.")
        return _combine(over, 0, 1 / other.sum.constant, 1)
    if isinstance(other.made, Ratio) and not one.sum.weights:
        return _join(Ratio(other.made.under.times(one.sum.constant), other.made.over), one, other)
    return _join(Ratio(one.sum, other.sum), one, other)


def _join(made: Made, one: _Figure, other: _Figure) -> DerivedValue:
    levels = [figure.confidence for figure in (one, other) if figure.confidence is not None]
    parts = tuple(figure.part for figure in (one, other) if figure.part is not None)
    return state(
        made,
        # Who asked for more of a part needs it of the whole.
        confidence=max(levels, default=to_fraction(_USUAL)),
        planned=one.planned and other.planned,
        parts=parts,
    )


def _reject(thing: Any) -> Any:
    """Leave the operator to the other side, but say what is wrong with a release."""
    if isinstance(thing, Derivable):
        return _refuse_figure(thing)
    if isinstance(thing, float):
        raise InvalidParameter(f"A number beside a figure must be finite; got {shown(thing)}.")
    return NotImplemented
