"""Local privacy: one report per record, each with its own noise, in blocks and charged as a whole.

Claim: replacing the numbers of one unit, M of whose records count, changes the law of M reports by
a factor of at most e^epsilon each, and nothing else. Proof: docs/proofs/reports.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import FINITE, Number
from sordino.cost import Pure
from sordino.declared import parameter
from sordino.entropy import Entropy, fresh_entropy
from sordino.errors import StreamClosed
from sordino.mechanisms import CompositeMechanism
from sordino.process import Process
from sordino.questions import PrivacyUnit, prepare_records
from sordino.releases import Release, Values, parameters, short_repr
from sordino.scrubbing import scrubbed
from sordino.sensitivity import Adjacency
from sordino.session.request import Request, Reservation, Steps, Table, checked_later

Block = NDArray[np.float64]
Write = Callable[[Block], None]

TOGETHER = 1 << 14
"""Records that are reported at once."""


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Reported(Release):
    """Reports that were handed over block by block.

    Attributes
    ----------
    reports : int
        How many; public, as their order is.
    standard_error : float
        The largest standard deviation of a report over the range, in the unit of the values.
    """

    reports: int
    standard_error: float


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class LocalReports:
    """One report for each record.

    Parameters
    ----------
    mechanism : CompositeMechanism
        What makes a report.
    rows_per_unit : int
        How many records of a unit count at most.
    """

    mechanism: CompositeMechanism
    rows_per_unit: int = 1

    def __repr__(self) -> str:
        return short_repr(self, parameters(self))

    @property
    def cost(self) -> Pure:
        """What all reports together cost one unit."""
        # At most that many reports can change, each by a factor of e^epsilon:
        # docs/proofs/reports.md.
        return Pure(epsilon=self.rows_per_unit * Fraction(self.mechanism.cost.pure()))

    @property
    def adjacency(self) -> Adjacency:
        """Neighbors have equally many records."""
        return "replace-one"

    @property
    def exact(self) -> bool:
        """True if the law that is proved is the law that is sampled."""
        return self.mechanism.exact

    @scrubbed
    def release(
        self, blocks: Iterable[Block], *, entropy: Entropy, write: Write | None = None
    ) -> Values | Reported:
        """Report private records, block by block; NaN stands for the middle of the range.

        Parameters
        ----------
        blocks : iterable of arrays of float
            Private; records in their public order.
        entropy : Entropy
            Where the noise comes from.
        write : callable, optional
            Handed the reports of each block, which are not kept then.
        """
        fresh_entropy(entropy, "LocalReports.release")
        kept: list[Block] = []
        use, count = write or kept.append, 0
        home = Process()
        for block in _regroup_blocks(blocks):
            count += block.size
            reports = self._reports(block, entropy)
            # `write` or a signal handler may have forked: a record has one report, and not one in
            # each.
            if not home.is_here():
                raise StreamClosed(
                    "This process was forked in the middle of a release, which belongs to the "
                    "other one. Nothing more is reported here."
                )
            use(reports)
        # The largest over the range: that of one record would tell its number.
        error = self.mechanism.grid.standard_error
        common: dict[str, Any] = {
            "mechanism": self.mechanism,
            "cost": self.cost,
            "simulated": entropy.simulated,
        }
        if write is not None:
            return Reported(reports=count, standard_error=error, **common)
        # The empty array makes this right for no records, too.
        return Values(values=np.concatenate([np.zeros(0), *kept]), standard_error=error, **common)

    def _reports(self, block: Block, entropy: Entropy) -> Block:
        mechanism = self.mechanism
        # NaN is a record without a number, and one that does not count: docs/proofs/reports.md.
        middle = float((FINITE("lower", mechanism.lower) + FINITE("upper", mechanism.upper)) / 2)
        return mechanism.reports(np.where(np.isnan(block), middle, block), entropy=entropy).values


def _regroup_blocks(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the same records in blocks of one size.

    With seeded noise a report depends on its record and on how many records come before it, not on
    the blocks in which they were read.
    """
    held: list[Block] = []
    missing = TOGETHER
    for block in blocks:
        rest = block
        while rest.size:
            held.append(rest[:missing])
            rest, missing = rest[missing:], missing - held[-1].size
            if not missing:
                yield np.concatenate(held)
                held, missing = [], TOGETHER
    if held:
        yield np.concatenate(held)


def build_reports(
    unit: PrivacyUnit,
    *,
    lower: Number,
    upper: Number,
    epsilon: Number,
    activation: Any,
    tuned_for: Any,
) -> LocalReports:
    """Return what reports the records of these units."""
    shape: dict[str, Any] = {"activation": activation, "tuned_for": tuned_for}
    mechanism = CompositeMechanism(lower=lower, upper=upper, epsilon=epsilon, **shape)
    # A unit that is a row has one record; for a unit column `check_unit` asks for a bound.
    return LocalReports(mechanism=mechanism, rows_per_unit=unit.max_rows or 1)


@final
class RandomizeRequest(Request[Values | Reported]):
    """Release one report for every record of a column, each with noise of its own: local privacy.

    The number of records and their order are public, and with a unit column which of them are of
    one unit; the unit's adjacency must be "replace-one". No record is dropped. One without a number
    counts as the middle of the range, and so do those of a unit after its first `max_rows`, and
    those without a unit. Numbers beyond the range count as its nearer end. `mean_of_reports`
    averages reports.

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
    >>> unit = sd.PrivacyUnit.row(adjacency="replace-one")
    >>> session = sd.Session(ages, unit=unit, entropy=sd.Seeded(7))
    >>> reports = session.randomize("age", lower=0, upper=100, epsilon=2)
    >>> reports.values.shape, reports.cost
    ((1000,), Pure(epsilon=2))
    """

    name: ClassVar[str] = "randomize"
    not_in_studies: ClassVar[str] = (
        "is as long as the table and cannot be kept: use `sordino randomize`"
    )

    # `CompositeMechanism` checks these, as it does for everybody.
    column: str = parameter(
        checked_later,
        "Column of numbers.",
        more="Of a CSV source the texts are read as numbers, and every line is a record.",
        kw_only=False,
    )
    lower: Number = parameter(checked_later, "Public lower end of the numbers.")
    upper: Number = parameter(checked_later, "Public upper end of the numbers.")
    epsilon: Number = parameter(
        checked_later,
        "Budget of each report.",
        more="In (0, 20]. The release costs a person with M records M times as much.",
    )
    activation: str = parameter(
        checked_later,
        "Shape of the noise.",
        more='As for `CompositeMechanism`; "mixture" has the least variance at the worst value.',
        default="mixture",
    )
    tuned_for: str | Number = parameter(
        checked_later,
        "Where the variance is least; a number is a mean of t², t from -1 to 1 over the range.",
        default="worst",
    )
    write: Write | None = parameter(
        checked_later,
        "Handed the reports of each block, which are not kept then.",
        more="Memory stays constant then, but for a count for each person.",
        default=None,
    )

    def without_callbacks(self) -> RandomizeRequest:
        """Return the same request without functions of the caller's."""
        return replace(super().without_callbacks(), write=None)

    def steps(self, table: Table) -> Steps[Values | Reported]:
        """Report every record, in the order of the records."""
        question = prepare_records(table.source, table.unit, column=self.column)
        reports = build_reports(
            table.unit,
            lower=self.lower,
            upper=self.upper,
            epsilon=self.epsilon,
            activation=self.activation,
            tuned_for=self.tuned_for,
        )
        mechanism = reports.mechanism
        detail = {
            "column": self.column,
            "lower": float(mechanism.lower),
            "upper": float(mechanism.upper),
            "activation": mechanism.activation,
            "public": "the number of records and their order",
        }

        charged = yield Reservation((reports,), detail, question.domain)
        # Records are read block by block, while they are reported.
        blocks = charged.read(question)
        # An error of the caller's `write` is the caller's, and is not turned into the constant one.
        write = None if self.write is None else charged.watch(self.write)
        released: Values | Reported = charged.release(reports, blocks, write=write)
        return released
