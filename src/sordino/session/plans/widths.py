"""How wide the intervals of a release will be.

From its law where that is public, else from dry runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast, final

import numpy as np

from sordino.constraints import exact, to_fraction
from sordino.estimators.intervals import find_reach
from sordino.mechanisms import GaussianMechanism, LaplaceMechanism
from sordino.population import say_columns
from sordino.results.sentences import TOTALS
from sordino.session.local import LocalReports

ANY_DATA = "any data"
"""What is assumed where a width follows from the noise alone."""


@final
@dataclass(frozen=True, kw_only=True)
class PlannedFigure:
    """How sure one kind of figure of a release will be.

    Attributes
    ----------
    figure : str
        Which figure, such as "each count" or "q 0.5".
    like : str
        What is assumed of the data; "any data" where nothing is.
    narrowest, typical, widest : float or None
        The narrowest, the median and the widest interval, in the unit of the figure. None: it has
        no end, or none is released. Where nothing is assumed all three are the width that noise
        alone makes; an interval that is cut at 0 is narrower.
    sure : float
        How likely no interval of the release is wider than `widest`, if the data are as assumed: 1
        where nothing is, else n/(n + 1) after n runs.
    confidence : float or None
        With which an interval covers the true figure.
    standard_error : float or None
        Of the noise, where it is the same for all data.
    off : float or None
        Of a sum, mean or variance: how far the figure of a run lay at most from the one without
        noise, of the rows that count and between the public ends; `sure` is about that as well. Its
        interval may be far from there: it is about rows clipped to what was found.
    held : float or None
        Of the same: the share of the intervals of all runs that held the figure without noise.
    """

    figure: str
    like: str
    narrowest: float | None
    typical: float | None
    widest: float | None
    sure: float
    confidence: float | None
    standard_error: float | None = None
    off: float | None = None
    held: float | None = None


def describe_law(mechanism: Any, figure: str, confidence: float) -> PlannedFigure | None:
    """Return the width that a measurement has on any data; None where that depends on the data."""
    if isinstance(mechanism, LocalReports):
        return _describe_reports(mechanism, figure)
    if not isinstance(mechanism, LaplaceMechanism | GaussianMechanism):
        return None
    width = 2 * find_reach(mechanism, to_fraction(confidence))
    error = math.sqrt(mechanism.noise.variance) * float(mechanism.step)
    return PlannedFigure(
        figure=figure,
        like=ANY_DATA,
        narrowest=width,
        typical=width,
        widest=width,
        sure=1.0,
        confidence=confidence,
        standard_error=error,
    )


def describe_table(release: Any) -> list[PlannedFigure]:
    """Return the widths of a cross table on any data: of its cells, each margin and the total.

    Parameters
    ----------
    release : CrossTable
        Of a dry run.
    """
    found = []
    for axes, (width, error) in release.find_widths().items():
        names = [name for axis, name in enumerate(release.columns) if axis not in axes]
        figure = f"each {say_columns(names)}" if names and axes else "each cell"
        found.append(
            PlannedFigure(
                figure=figure if names else "the total",
                like=ANY_DATA,
                narrowest=width,
                typical=width,
                widest=width,
                sure=1.0,
                # All hold together with that.
                confidence=release.together,
                standard_error=error,
            )
        )
    return found


def _describe_reports(mechanism: LocalReports, figure: str) -> PlannedFigure:
    """Return what is known of a record's report: the largest error over the range, on any data."""
    return PlannedFigure(
        figure=figure,
        like=ANY_DATA,
        narrowest=None,
        typical=None,
        widest=None,
        sure=1.0,
        confidence=None,
        standard_error=mechanism.mechanism.grid.standard_error,
    )


def describe_runs(releases: Sequence[Any], like: str, names: Sequence[str]) -> list[PlannedFigure]:
    """Return how wide the intervals of some releases were, of data assumed to be like that.

    Parameters
    ----------
    releases : sequence
        Of dry runs, all of one request.
    like : str
        What they assume.
    names : sequence of str
        What the figures of one release are called, one after the other; the last one stands for all
        others.
    """
    found: dict[str, list[tuple[float | None, Any]]] = {}
    for release in releases:
        for place, one in enumerate(_list_intervals(release)):
            name = names[min(place % _period(release, names), len(names) - 1)]
            found.setdefault(name, []).append(one)
    sure = float(Fraction(len(releases), len(releases) + 1))
    return [_summarize(name, like, sure, seen) for name, seen in found.items()]


def _period(release: Any, names: Sequence[str]) -> int:
    """Return after how many figures the names begin anew: each group has all of them."""
    return len(names) if hasattr(release, "budgets") else 1 << 62


def _summarize(
    name: str, like: str, sure: float, seen: list[tuple[float | None, Any]]
) -> PlannedFigure:
    known = [width for width, _ in seen if width is not None]
    # Where some interval has no end, nothing is promised of the widest one.
    whole = len(known) == len(seen) and all(map(math.isfinite, known))
    finite = sorted(width for width in known if math.isfinite(width))
    return PlannedFigure(
        figure=name,
        like=like,
        narrowest=finite[0] if finite else None,
        typical=float(np.median(known)) if whole else _median_or_none(seen),
        widest=finite[-1] if whole else None,
        sure=sure,
        confidence=next((confidence for _, confidence in seen if confidence is not None), None),
    )


def _median_or_none(seen: list[tuple[float | None, Any]]) -> float | None:
    """Return the median width, an interval without an end counting as the widest.

    None where it has none.
    """
    ordered = sorted(math.inf if width is None else width for width, _ in seen)
    middle = ordered[len(ordered) // 2]
    return middle if math.isfinite(middle) else None


def _list_intervals(release: Any) -> Iterator[tuple[float | None, float | None]]:
    """Yield width and confidence of each interval of a release, in the order of its figures."""
    confidence = getattr(release, "confidence", None)
    for one in _list_measuring_parts(release):
        low, high = getattr(one, "low", None), getattr(one, "high", None)
        own = getattr(one, "confidence", confidence)
        yield (None if low is None or high is None else float(high) - float(low)), own


def _list_measuring_parts(release: Any) -> Iterable[Any]:
    """Return the parts of a release that have an interval each."""
    if hasattr(release, "budgets"):
        # Of groups: each has a release of its own, of several quantiles perhaps.
        return [part for row in release.rows for part in _list_measuring_parts(row.release)]
    if hasattr(release, "cells"):
        # Of a table it is the cells that a goal is about.
        return cast("Iterable[Any]", release.cells)
    if hasattr(release, "rows"):
        return cast("Iterable[Any]", release.rows)
    # Several quantiles come together.
    return release if isinstance(release, Iterable) else (release,)


def find_sizes(release: Any, names: Sequence[str]) -> dict[str, float]:
    """Return the median size of each kind of figure of a dry run."""
    found: dict[str, list[float]] = {}
    for place, one in enumerate(_list_measuring_parts(release)):
        estimate = getattr(one, "estimate", getattr(one, "value", None))
        if estimate is not None:
            name = names[min(place % _period(release, names), len(names) - 1)]
            found.setdefault(name, []).append(abs(float(estimate)))
    return {name: float(np.median(sizes)) for name, sizes in found.items()}


def name_figures(request: Any) -> tuple[str, ...]:
    """Return what the figures of a release are called, in the order in which it has them."""
    if request.name == "quantile":
        wanted = request.q if isinstance(request.q, tuple) else (request.q,)
        names = tuple(f"q {float(cast('Fraction', exact(one))):g}" for one in wanted)
    else:
        names = (
            {
                "count": "the number of rows",
                "count_distinct_units": "the number of people",
                "randomize": "each report",
                "remeasure": "each figure",
                **{name: one.planned for name, one in TOTALS.items()},
                "top_sums": "each sum",
                "table": "each cell",
            }.get(request.name, "each count"),
        )
    grouped = getattr(request, "by", None) is not None
    return tuple(f"{name} of each group" for name in names) if grouped else names
