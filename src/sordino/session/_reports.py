"""The method of a session that reports every record."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sordino.constraints import Number
from sordino.session._desk import Asks
from sordino.session._plan import Progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sordino.releases import Values
    from sordino.session._randomize import Reported


def randomize(
    self: Asks,
    column: str,
    *,
    lower: Number,
    upper: Number,
    epsilon: Number,
    activation: str = "mixture",
    tuned_for: str | Number = "worst",
    write: Callable[[NDArray[np.float64]], None] | None = None,
    progress: Progress | None = None,
) -> Values | Reported:
    """Release one report for every record of a column, each with noise of its own: local privacy.

    The number of records and their order are public, and with a unit column which of them are of one unit; the unit's adjacency must be
    "replace-one". No record is dropped. One without a number counts as the middle of the range, and so do those of a unit after its
    first `max_rows`, and those without a unit. Numbers beyond the range count as its nearer end. `mean_of_reports` averages reports.

    Parameters
    ----------
    column : str
        A column of whole numbers, decimals or floats; of a CSV source the texts are read as numbers, and every line is a record.
    lower, upper : number
        Public range of the numbers.
    epsilon : number
        Budget of each report, in (0, 20]. The release costs a unit with M records M times as much.
    activation, tuned_for : optional
        As for `CompositeMechanism`; "mixture" has the least variance at the worst value.
    write : callable, optional
        Handed the reports of each block of records as an array; then they are not kept, and memory stays constant (but for a count for
        each unit of a column).
    progress : callable, optional
        Called with percentages while records are read.

    Returns
    -------
    Values, or Reported with `write`
        The reports, in the order of the records.

    Raises
    ------
    InvalidParameter, UnboundedContribution
        Before the charge, also for sources without an order (a server, a relation).
    BudgetExceeded, LedgerConflict, DataSourceError
        As for `top_k`.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> ages = pl.DataFrame({"age": [20 + i % 60 for i in range(1000)]})
    >>> session = sd.Session(ages, unit=sd.PrivacyUnit.row(adjacency="replace-one"), entropy=sd.Seeded(7))
    >>> reports = session.randomize("age", lower=0, upper=100, epsilon=2)
    >>> reports.values.shape, reports.cost
    ((1000,), Pure(epsilon=2))
    """
    from sordino.data import prepare_records  # noqa: PLC0415 - a release of counts need not load it
    from sordino.session._randomize import local_reports, plan_randomize  # noqa: PLC0415

    unit = self._desk.unit
    question = prepare_records(self._desk.source, unit, column=column)
    reports = local_reports(unit, lower=lower, upper=upper, epsilon=epsilon, activation=activation, tuned_for=tuned_for)
    released: Values | Reported = self._do(plan_randomize(question, reports, column=column, write=write), progress)
    return released
