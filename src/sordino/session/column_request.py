"""What figures of a column of numbers ask for: whose rows, which groups, and what each may spend.

`numbers` has the figures themselves.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, Self, cast, get_args

from sordino.columns import BucketGrid
from sordino.columns.bucket_sums import SumSteps
from sordino.constraints import (
    COUNT,
    FINITE,
    POSITIVE,
    SHARE,
    TRUTH,
    Number,
    OrNone,
    exact,
    one_of,
    shown,
    to_fraction,
)
from sordino.cost import Pure, compose
from sordino.declared import Converted, parameter
from sordino.errors import InvalidParameter
from sordino.estimators.column_release import count_numbers
from sordino.mechanisms import LaplaceMechanism, UnlistedHistogram
from sordino.population import ColumnNames
from sordino.questions import Domain, NumberQuestion, prepare_groups, prepare_numbers
from sordino.questions.groups import GROUPS, resolve_groups
from sordino.releases import Label, UnlistedCounts
from sordino.sensitivity import Adjacency
from sordino.session.column_figures import Estimator, Searching, adapt
from sordino.session.request import (
    CAP,
    GroupSearch,
    R,
    Request,
    Reservation,
    Steps,
    Table,
    accept_domain,
    check_account,
    checked_columns,
    checked_later,
    is_unlisted,
)
from sordino.session.table_numbers import Groups, TableNumbers
from sordino.sources.sql.person_query import Aggregate

_LOWER_MEANS = "Public bound; unless said none: values of both signs."
GROWTH_MEANS = "Factor between edges of the grid."
SEARCH_SHARE = Fraction(1, 4)
"""Share of epsilon that finds groups that nobody listed, where nothing is said."""
NUMBERS_SHARE = Fraction(1, 20)
"""Share of epsilon for how many rows held a number, where texts are read as numbers and nothing is
said."""


def _accept_share_or_none_of_it(name: str, value: Any) -> Any:
    """Keep None, 0 and what is in (0, 1)."""
    return value if value is None or exact(value) == 0 else SHARE(name, value)


class ColumnRequest(Request[R]):
    """Figures of a column of numbers: of all rows, or of each group with noise of its own."""

    kept: ClassVar[tuple[str, ...]] = (
        "column",
        "where",
        "by",
        "groups_per_unit",
        "per_person",
        "strict_types",
    )
    squares: ClassVar[bool] = False
    """Whether squares are added up as well."""

    column: str | None = parameter(
        checked_later,
        "Column of numbers.",
        more="Whole numbers, decimals or floats; of a CSV source the texts are read as numbers. "
        "None with `per_person='count'`: then all rows of a person are counted.",
        kw_only=False,
    )
    epsilon: Number = parameter(POSITIVE, "Budget of this release.")
    cap: Converted[Number | None, Number] = parameter(
        OrNone(FINITE),
        "Public: as far up as anything goes, or what a person adds up to in all groups; it can be "
        "generous. A billion, if nothing is said.",
        more="Where the clip is, is found privately, and a cap that is far too large costs hardly "
        "anything; `capped` says that the search ended there.",
        default=None,
    )
    # The estimator checks these, as it does for everybody.
    lower: Number | None = parameter(
        checked_later,
        _LOWER_MEANS,
        more="Of a mean or a variance a bound makes the interval shorter, because no lower end has "
        "to be found. Of what is counted of each person it is 0.",
        default=None,
    )
    growth: Number | None = parameter(checked_later, GROWTH_MEANS, default=1.05)
    unit: Number = parameter(checked_later, "Below it edges are evenly spaced.", default=1.0)
    where: str | None = parameter(checked_later, "A row predicate.", default=None)
    by: ColumnNames | None = parameter(
        OrNone(checked_columns),
        "Column of labels, or several: one release for each label of the domain.",
        default=None,
    )
    domain: Any = parameter(
        accept_domain,
        "The labels of the groups.",
        more="A `Domain` or a list of labels; rows with other labels are dropped.",
        default=None,
    )
    groups_per_unit: int | None = parameter(
        checked_later,
        "Let a person count in at most so many groups, with max_rows rows in each; unless said, it "
        "may be in any, and max_rows is about all of them together.",
        more="With `by`. The groups G of a person are chosen by a secret salt, "
        "and each group has epsilon / G of the budget. Not given, each group has the noise of one "
        "in which all rows of a person are, and none is divided by the number of groups. That is "
        "better wherever rows of a person lie in several groups. Under replace-one a person pays "
        "for leaving a group and for joining one. Labels that nobody listed need a number here. A "
        "sum of what each person adds up to has one clip for all groups unless a number is given.",
        default=None,
    )
    most_groups: int | None = parameter(
        OrNone(COUNT),
        "Where nobody listed the groups: find at most so many.",
        more=(
            "With `Domain.unlisted`, on an account with a delta: those with the most people by "
            "noisy counts."
        ),
        default=None,
    )
    search_share: Number | None = parameter(
        _accept_share_or_none_of_it,
        "Share of epsilon that finds groups that nobody listed; 1/4 unless said.",
        more="In [0, 1). In a batch figures of the same groups (by, domain, where, groups_per_unit "
        "and most_groups) have those that the first of them finds, which alone pays for that: of "
        "all others it is 0 unless said.",
        default=None,
    )
    numbers_share: Number | None = parameter(
        _accept_share_or_none_of_it,
        "Share of epsilon for how many rows held a number; where texts are read as numbers it is "
        "1/20 unless said, else 0.",
        more="In [0, 1); `numbers_share` of the release. Texts are those of a CSV column without "
        "a declared type, and of every column of a pandas frame, in which one more row may turn "
        "numbers into texts.",
        default=None,
    )
    per_person: Aggregate | None = parameter(
        OrNone(one_of(*get_args(Aggregate))),
        "One number for each person in place of its rows: the sum, mean, smallest or "
        "largest of its numbers, how many it has, or whether any is not 0.",
        more="Of people, whose rows are then bounded by nothing (`max_rows` does not "
        "count). Whoever has no number has no value, or 0 of them with 'count'. With `by` a person "
        "has one number in each group, and `groups_per_unit` says in how many it counts. Rows are "
        "added up exactly, in steps of the last digit of whole numbers and decimals; a float is "
        "rounded down to a step of about the cap / 2^62, and counts as the cap beyond about it.",
        default=None,
    )
    strict_types: bool = parameter(
        TRUTH, "Refuse a column of texts, instead of reading them as numbers.", default=False
    )

    def derive(self) -> None:
        """Choose a generous cap, and the lower end of what is counted, where nothing is said."""
        super().derive()
        given: Number | None = getattr(self, "cap")  # noqa: B009 - it is kept as a number
        self._set(cap=CAP if given is None else given)
        # Nobody has fewer than no rows: no end is looked for below 0.
        if self.per_person in {"count", "any"} and self.lower is None:
            self._set(lower=0)

    @abstractmethod
    def build_estimator(self, table: Table, more: Fraction = Fraction(1)) -> Searching:
        """Return what releases the figures of a group, with so many times its share of epsilon."""

    def fill_epsilon(self, table: Table) -> Searching:
        """Return the estimator of a group, with all of epsilon where pure epsilons are counted.

        A search in a group that a unit leaves, and in one that it joins, loses the two ends of its
        interval, which is less than twice the larger one. On an account with a delta the noise
        stays what it is, and the release costs less.
        """
        estimator = self.build_estimator(table)
        pure = table.price is None or table.price.is_pure
        if not self.moves_between_groups or table.unit.adjacency == "add-remove" or not pure:
            return estimator
        whole = self.epsilon_of_figures * (1 - self.share_for_numbers(table))
        spent = Fraction(self.wrap(table, estimator, ()).cost_of_figures().pure())
        # Rates follow the budget, but which search is the best one may change with it.
        filled = self.build_estimator(table, whole / spent)
        fits = Fraction(self.wrap(table, filled, ()).cost_of_figures().pure()) <= whole
        return filled if fits else estimator

    def steps(self, table: Table) -> Steps[Any]:
        """Count the rows in buckets, and let an estimator release from that."""
        request = self.read_labels(table).join_search(table)
        estimator = request.fill_epsilon(table)
        question = request.ask_for(table, estimator)
        return (yield from request.release_figures(table, question, estimator, request.detail()))

    def ask_for(self, table: Table, estimator: Searching) -> NumberQuestion:
        """Return what an estimator asks about the column."""
        return self.ask(table, estimator.grid, adapt(estimator).ladder)

    def release_figures(
        self, table: Table, question: NumberQuestion, estimator: Estimator, detail: dict[str, Any]
    ) -> Steps[Any]:
        """Release the figure of all rows, or of each group; `detail` is what the ledger keeps."""
        if is_unlisted(self.domain):
            return (yield from find_and_release(self, table, question, estimator, detail))
        mechanism = self.build_mechanism(table, question, estimator)

        charged = yield Reservation((mechanism,), detail, question.domain)
        return charged.release(mechanism, charged.read(mechanism.read(question)))

    def options(self, table: Table, more: Fraction = Fraction(1)) -> dict[str, Any]:
        """Return what every estimator of a column takes, with so many times its epsilon."""
        epsilon, adjacency = self.share_of_group(table)
        return {
            "epsilon": epsilon * more,
            "adjacency": adjacency,
            "rows_per_unit": self.count_rows_of_part(table),
            "lower": self.lower,
            "cap": self.cap,
            "growth": self.growth,
            "unit": self.unit,
        }

    def count_groups(self) -> int:
        """Return how many groups there are at most; 1 where all rows are one."""
        if self.by is None:
            return 1
        # Labels that cannot be groups, or too many, are refused when they are asked about.
        kind = getattr(self.domain, "kind", "assumed public")
        listed = kind != "assumed public" and not is_unlisted(self.domain)
        groups = min(self.domain.size, GROUPS) if listed else self.most_groups
        return groups or 1

    def read_labels(self, table: Table) -> Self:
        """Return the request with the labels of its groups read, where they are listed.

        How many there are may say how they are read, and what an estimator is of; which ones, who
        finds the same.
        """
        if self.by is None or self.domain is None:
            return self
        return replace(self, domain=resolve_groups(self.domain, self.by, table.source))

    def join_search(self, table: Table) -> Self:
        """Return the request without a search of its own, where its batch finds these groups."""
        joins = self.search_share is None and self.find_search(table) is not None
        return replace(self, search_share=0) if joins else self

    def find_search(self, table: Table) -> GroupSearch | None:
        """Return what finds these groups for an earlier figure of the same batch, if one does."""
        if not is_unlisted(self.domain):
            return None
        return next((one for one in table.searches if one.groups == self.looked_for), None)

    def prepare_search(self, table: Table, domain: Domain) -> GroupSearch:
        """Return what finds the groups, for their share of epsilon."""
        units = prepare_groups(
            table.source,
            table.unit,
            by=cast("ColumnNames", self.by),
            domain=domain,
            groups_per_unit=self.groups_per_unit,
            where=self.where,
            # Of its own: in which groups a unit counts is chosen anew among those that are found.
            salt=table.salt(),
        )
        finder = UnlistedHistogram(
            epsilon=self.epsilon_to_find,
            delta=cast("Fraction", domain.delta),
            sensitivity=units.sensitivity,
            least=domain.least,
            k=self.most_groups,
        )
        return GroupSearch(self.looked_for, units, finder)

    @property
    def looked_for(self) -> tuple[object, ...]:
        """What says which groups are found; figures of a batch with the same have the same ones."""
        # With it what is listed for other columns of the groups.
        return (self.by, self.where, self.groups_per_unit, self.most_groups, self.domain)

    @property
    def epsilon_to_find(self) -> Fraction:
        """The part of epsilon that finds groups; 0 where they are listed."""
        if not is_unlisted(self.domain):
            return Fraction(0)
        share = SEARCH_SHARE if self.search_share is None else to_fraction(self.search_share)
        return to_fraction(self.epsilon) * share

    @property
    def epsilon_of_figures(self) -> Fraction:
        """What is left of epsilon for the figures, and for how many rows held a number."""
        return to_fraction(self.epsilon) - self.epsilon_to_find

    @property
    def clips_together(self) -> bool:
        """Whether one clip is of what a person has in all groups."""
        return False

    @property
    def moves_between_groups(self) -> bool:
        """Whether a unit may pay for a group that it leaves, and for one that it joins."""
        return self.by is not None and not self.clips_together

    def counts_together(self, table: Table) -> bool:
        """Tell whether the bound on rows of a unit is about all groups together, not about each."""
        together = self.by is not None and self.groups_per_unit is None
        return together and table.unit.column is not None and not self.clips_together

    def count_parts(self, table: Table) -> int:
        """Return among how many parts of groups the budget is divided.

        Those that one unit has at most.
        """
        # Each row is a part of its own: they may all be in one group, or each in another one.
        if self.counts_together(table):
            return table.unit.max_rows or 1
        # One release is of all groups.
        if self.clips_together:
            return 1
        # Where each row is a unit it has one group.
        if self.by is None or self.groups_per_unit is None:
            return 1
        count: int = COUNT(f"{self.name}.groups_per_unit", self.groups_per_unit)
        return count

    def count_rows_of_part(self, table: Table) -> int:
        """Return how many rows one unit has at most in such a part."""
        # A person has one number, or rows with weights.
        if self.per_person is not None or self.weighs or self.counts_together(table):
            return 1
        return table.unit.max_rows or 1

    def share_of_group(self, table: Table) -> tuple[Fraction, Adjacency]:
        """Return the budget of one group, and what its neighbors are."""
        adjacency = table.unit.adjacency
        epsilon = self.epsilon_of_figures * (1 - self.share_for_numbers(table))
        if self.by is None or self.clips_together:
            return epsilon, adjacency
        # Under replace-one the unit that leaves and the one that joins may have a part in different
        # groups.
        parts = self.count_parts(table) * (1 if adjacency == "add-remove" else 2)
        # A unit that moves from one group to another leaves the one and joins the other: within a
        # group nobody is replaced.
        return epsilon / parts, "add-remove"

    def share_for_numbers(self, table: Table) -> Fraction:
        """Return the share of epsilon that says how many rows held a number."""
        if self.numbers_share is not None:
            return to_fraction(self.numbers_share)
        # Everybody has a number of rows.
        if self.per_person == "count":
            return Fraction(0)
        return NUMBERS_SHARE if _reads_texts(table, self.column) else Fraction(0)

    def build_count(self, table: Table) -> LaplaceMechanism | None:
        """Return what counts rows with a number and rows without.

        None where nothing is spent on that.
        """
        share = self.share_for_numbers(table)
        if not share:
            return None
        return count_numbers(
            self.epsilon_of_figures * share,
            adjacency=table.unit.adjacency,
            rows=self.count_rows_of_part(table) * self.count_parts(table),
        )

    def has_public_size(self, table: Table) -> bool:
        """Tell whether neighbors have equally many rows with a number.

        They do if nothing filters, groups or computes them, no rule of the format drops any, and no
        row can be without a number.
        """
        return not self.list_private_sizes(table)

    def list_private_sizes(self, table: Table) -> list[str]:
        """Return why the number of rows that count is private; nothing if it is public."""
        source, unit = table.source, table.unit
        reasons = {
            "the adjacency is add-remove": unit.adjacency == "add-remove",
            "people have any number of rows": unit.column is not None,
            "a predicate drops rows": self.where is not None,
            "rows are grouped": self.by is not None,
            # Lines of text that do not parse are dropped, and so may be rows of a view.
            "rows of CSV, JSON lines or Excel are dropped if they do not parse": bool(
                source.dropped
            ),
            "a view, a relation or a lazy frame may drop rows": source.computed,
            f"a row may be without a number in {shown(self.column)}": self.column is None
            or not source.always_has_number(self.column),
        }
        return [reason for reason, holds in reasons.items() if holds]

    def ask(
        self,
        table: Table,
        grid: BucketGrid,
        ladder: SumSteps | None = None,
        weigh_grid: BucketGrid | None = None,
        *,
        weigh_each: bool = False,
    ) -> NumberQuestion:
        """Return the question about the column."""
        self._check_search()
        if self.strict_types and self.column is not None and _reads_texts(table, self.column):
            raise InvalidParameter(
                f"{self.name}.column must have a type of numbers, by strict_types; got "
                f"{shown(self.column)}, whose values are texts or may be. Declare its type "
                "(--type, CsvFormat.types), or make it numbers at its source (of a pandas frame: "
                "an Arrow table with a schema)."
            )
        return prepare_numbers(
            table.source,
            table.unit,
            column=self.column,
            grid=grid,
            where=self.where,
            # A fresh salt for each release: which rows of a unit count follows from it.
            salt=table.salt(),
            by=self.by,
            domain=self.domain,
            groups_per_unit=self.groups_per_unit,
            most_groups=self.most_groups,
            squares=self.squares,
            ladder=ladder,
            per_person=self.per_person,
            # As far as numbers go in either direction.
            row_cap=max(abs(to_fraction(end)) for end in (self.cap, self.lower or 0)),
            shared_ends=self._find_shared_ends(),
            weigh_grid=weigh_grid,
            weigh_each=weigh_each,
        )

    def _find_shared_ends(self) -> tuple[Fraction, Fraction] | None:
        """Return between which ends lies what a person adds up to in a group, with one clip."""
        if not self.clips_together or self.weighs:
            return None
        cap = to_fraction(self.cap)
        return -cap if self.lower is None else to_fraction(self.lower), cap

    def _check_search(self) -> None:
        """Refuse a share for a search where nothing is looked for."""
        if self.search_share is not None and not is_unlisted(self.domain):
            raise InvalidParameter(
                f"{self.name}.search_share belongs to Domain.unlisted (--unlisted); got "
                f"{shown(self.search_share)} with groups that are listed, or none."
            )

    def build_mechanism(
        self, table: Table, question: NumberQuestion, estimator: Estimator
    ) -> TableNumbers:
        """Return what releases the figures of all groups."""
        if question.domain is None:
            return self.wrap(table, estimator, None)
        whole = self.wrap(table, estimator, tuple(question.groups))
        return replace(whole, order=question.domain.order)

    def wrap(
        self, table: Table, estimator: Estimator, labels: tuple[Label, ...] | None
    ) -> TableNumbers:
        """Return what releases the figures of groups; what it costs does not depend on labels."""
        return TableNumbers(
            estimator=estimator,
            adjacency=table.unit.adjacency,
            labels=labels,
            groups_per_unit=self.count_parts(table),
            together=self.counts_together(table),
            shared=self.build_count(table),
        )

    def detail(self) -> dict[str, Any]:
        """Return what the ledger keeps."""
        return {
            "column": self.column,
            "where": self.where,
            "by": self.by,
            "groups_per_unit": self.groups_per_unit,
            "most_groups": self.most_groups,
            "per_person": self.per_person,
        }


def _reads_texts(table: Table, column: str | None) -> bool:
    """Tell whether values of a column are texts, or may be: by what is public about the source."""
    # Rows are counted whatever stands in them.
    if column is None:
        return False
    # In a frame whose types were found out from values any column may turn into texts by one more
    # value. So there it is said of all columns alike, whatever type this one has.
    return table.source.inferred or table.source.number_column(column, "column")[1].text


# ---- groups that nobody listed -------------------------------------------------------------------
# Figures of groups that nobody listed: they are found first, then each is released as if it were
# listed.
# Claim: epsilon of the search and that of the figures add up, and the failure of the search is
# the delta that the domain states (docs/proofs/groups.md).


def find_and_release(
    request: ColumnRequest[Any],
    table: Table,
    question: NumberQuestion,
    estimator: Estimator,
    detail: dict[str, Any],
) -> Steps[Groups]:
    """Find groups, at most `most_groups`, and release the figures of those.

    Parameters
    ----------
    request : ColumnRequest
        What is asked for.
    table : Table
        What is public about the table.
    question : NumberQuestion
        About groups that nobody listed.
    estimator : Estimator
        What releases the figure of a group.
    detail : dict
        What the ledger keeps.
    """
    check_account(request.name, table)
    domain = cast("Domain", question.domain)
    joins = request.search_share is not None and not request.epsilon_to_find
    search = request.find_search(table) if joins else request.prepare_search(table, domain)
    if search is None:
        raise InvalidParameter(
            f"{request.name}.search_share must be above 0, because no figure before it in a batch "
            "finds the same groups; got 0."
        )
    finder = search.finder
    # What the figures cost hangs on the groups of a unit, not on which ones or how many are found.
    figures = request.wrap(table, estimator, ())

    parts = (figures,) if joins else (finder, figures)
    charged = yield Reservation(parts, detail, domain, search)
    found: UnlistedCounts = charged.find_once(search)
    # Whoever asked first has paid for the search.
    paid = [] if joins else [found.cost]
    # Nothing is asked about no groups, so the rest of epsilon returns: what was found is public by
    # now.
    if not found.labels:
        return Groups(
            rows=(),
            budgets=figures.budgets,
            label_threshold=finder.threshold,
            found_before=joins,
            mechanism=(finder,),
            cost=Pure(epsilon=0) if joins else found.cost,
            simulated=found.simulated,
        )
    among = question.among(found.labels)
    numbers = charged.read(figures.read(among))
    released: Groups = charged.release(replace(figures, labels=tuple(among.groups)), numbers)
    measuring = released.mechanism
    return replace(
        released,
        label_threshold=finder.threshold,
        found_before=joins,
        mechanism=(finder, *(measuring if isinstance(measuring, tuple) else (measuring,))),
        cost=compose(*paid, released.cost),
    )
