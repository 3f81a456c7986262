"""The mean of many numbers from one noisy report of each: post-processing of local releases.

Claim: unbiased for the mean of the numbers, each moved into the range; `interval` covers that mean
with at least its confidence, for any number of reports and whatever the numbers are. Proof:
docs/proofs/reports.md. Floats: post-processing in doubles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import FINITE, SHARE, Number
from sordino.errors import InvalidParameter
from sordino.mechanisms import CompositeMechanism, CompositeTable
from sordino.releases import Values, plain, short_repr
from sordino.tabular import Row, Tabular

Reporter = CompositeMechanism | CompositeTable

_REPORTS_FOR_SPREAD = 100  # reports, whose spread says something
_UNWRITTEN_SHARE = 1e-6  # of the output range: outputs are some 500 times as far apart


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ReportsMean(Tabular):
    """The mean of what reports are about.

    Attributes
    ----------
    value : float
        The mean of the reports, in the unit of the numbers: unbiased, and perhaps beyond the range.
    standard_error : float
        For fewer than 100 reports, the largest standard deviation that the mean can have. For more,
        an estimate from their spread, if that is less. The spread also counts how the numbers
        themselves differ, as if they were a sample: for their own mean the estimate is on the large
        side.
    interval : tuple of float
        Covers the mean of the numbers with at least the confidence, for every number of reports and
        whatever the numbers are; within the range. It is some 40% wider than 1.96 standard errors,
        because nothing in it is an approximation.
    reports : int
        How many.

    Examples
    --------
    >>> import sordino as sd
    >>> age = sd.CompositeMechanism(lower=0, upper=100, epsilon=2, activation="mixture")
    >>> found = sd.mean_of_reports(age.reports([30] * 5000, entropy=sd.Seeded(7)))
    >>> found.interval[0] < 30 < found.interval[1]
    True
    """

    value: float
    standard_error: float
    interval: tuple[float, float]
    reports: int

    def __repr__(self) -> str:
        return short_repr(self, vars(self))

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready values."""
        return dict(plain(vars(self)))

    def list_rows(self) -> list[Row]:
        """Return the mean as one row."""
        low, high = self.interval
        named = {"estimate": self.value, "low": low, "high": high}
        return [named | {"standard_error": self.standard_error, "reports": self.reports}]


def mean_of_reports(
    reports: Any, *, mechanism: Reporter | None = None, confidence: Number = 0.95
) -> ReportsMean:
    """Estimate the mean of many numbers from one noisy report of each.

    Parameters
    ----------
    reports : Values, or array of numbers of shape (n,)
        What `reports` of a `CompositeMechanism` or `CompositeTable`, or `Session.randomize`,
        released; or these numbers alone, such as the column that `sordino randomize` wrote.
    mechanism : CompositeMechanism or CompositeTable, optional
        What made them, if they are numbers alone.
    confidence : number
        In (0, 1).

    Raises
    ------
    InvalidParameter
        If there is no report or no mechanism, or a number is none that the mechanism can release.

    Notes
    -----
    The noise of different reports must be independent, as it is in these releases. Records without
    a number, and those of a unit beyond its bound, were reported as the middle of the range, and
    count as that.

    Examples
    --------
    >>> import sordino as sd
    >>> age = sd.CompositeMechanism(lower=0, upper=100, epsilon=2, activation="mixture")
    >>> reports = age.reports([20 + i % 60 for i in range(20_000)], entropy=sd.Seeded(7))
    >>> found = sd.mean_of_reports(reports)
    >>> abs(found.value - 49.5) < 3 * found.standard_error, round(found.standard_error, 2)
    (True, 0.35)
    """
    share = float(1 - SHARE("mean_of_reports.confidence", confidence))
    numbers, made = _read_local_reports(reports, mechanism)
    low, high = float(FINITE("lower", made.lower)), float(FINITE("upper", made.upper))
    least, most = made.output_range
    n, value, largest = numbers.size, float(numbers.mean()), made.grid.standard_error
    spread = float(numbers.std(ddof=1)) if n >= _REPORTS_FOR_SPREAD else math.inf
    reach = _bound_mean_error(
        n, variance=largest**2, beyond=most - low, width=most - least, wrong=share
    )
    return ReportsMean(
        value=value,
        standard_error=min(spread, largest) / math.sqrt(n),
        # Cut to the range, in which the mean of the numbers lies.
        interval=(max(low, min(high, value - reach)), min(high, max(low, value + reach))),
        reports=n,
    )


def _read_local_reports(reports: Any, mechanism: Any) -> tuple[NDArray[np.float64], Reporter]:
    """Return the reports as numbers, and what made them."""
    if isinstance(reports, Values):
        if mechanism is not None and mechanism != reports.mechanism:
            raise InvalidParameter(
                "mean_of_reports.mechanism must be the one that made the reports, or left out."
            )
        reports, mechanism = reports.values, reports.mechanism
    if not isinstance(mechanism, Reporter):
        raise InvalidParameter(
            "mean_of_reports.mechanism must be the CompositeMechanism or CompositeTable that made "
            "the reports."
        )
    # Reports are released numbers, so an error may depend on them.
    numbers = np.asarray(reports)
    if numbers.ndim != 1 or not numbers.size or numbers.dtype.kind not in "fiu":
        raise InvalidParameter(
            "mean_of_reports.reports must be what `reports` released, or a list of at least one "
            "number."
        )
    numbers = numbers.astype(np.float64)
    # Reports of another mechanism would give a figure that means nothing.
    if not _are_possible_outputs(numbers, mechanism):
        least, most = mechanism.output_range
        raise InvalidParameter(
            "mean_of_reports.reports must be numbers that the mechanism can release, from "
            f"{least:.12g} to {most:.12g}; some are not, so another mechanism made them."
        )
    return numbers, mechanism


def _are_possible_outputs(numbers: NDArray[np.float64], mechanism: Reporter) -> bool:
    """Tell whether all numbers are outputs of the mechanism, apart from digits not written.

    NaN is no output.
    """
    (least, most), outputs = mechanism.output_range, np.sort(mechanism.grid.outputs)
    outputs = outputs[(outputs >= least) & (outputs <= most)]
    # The nearest output is the one before or the one after the place of the report.
    above = np.searchsorted(outputs, numbers).clip(1, outputs.size - 1)
    away = np.minimum(abs(numbers - outputs[above]), abs(numbers - outputs[above - 1]))
    return bool((away <= _UNWRITTEN_SHARE * (most - least)).all())


def _bound_mean_error(
    n: int, *, variance: float, beyond: float, width: float, wrong: float
) -> float:
    """Return how far the mean of n reports may be from that of the numbers.

    This holds but for a probability of `wrong`. It is the smaller one of what the inequalities of
    Bennett [bennett1962] and Hoeffding [hoeffding1963] say.
    """
    # Each of the two tails gets half of the probability (docs/proofs/reports.md, "Interval").
    each = math.log(2 / wrong) / n
    plainly = width * math.sqrt(each / 2)

    def bits(reach: float) -> float:
        u = beyond * reach / variance
        return variance / beyond**2 * ((1 + u) * math.log1p(u) - u)

    low, high = 0.0, plainly
    # At this distance the inequality of Bennett does not say enough yet. That of Hoeffding gives
    # the smaller one.
    if bits(high) <= each:
        return plainly
    # The upper end is returned, at which the inequality holds.
    while high - low > 1e-12 * plainly:
        middle = (low + high) / 2
        low, high = (low, middle) if bits(middle) >= each else (middle, high)
    return high
