"""A release of a session as a request.

Its public parameters, and its steps from there to the result.

Each kind of release is one class in a file of its own. `steps` is read from top to bottom: what is
asked, what may be spent, then the rows and the noise. It stops once, at the reservation: until
there it sees what is public alone, and whatever stands below it has been charged.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, cast, final

from sordino.constraints import COUNT, FINITE, OrNone, exact, shown, to_fraction
from sordino.cost import Pure
from sordino.declared import Declared, parameter
from sordino.entropy import Entropy
from sordino.errors import InvalidParameter, UnknownDomain
from sordino.grid import check_rates_from
from sordino.ledger import Price
from sordino.mechanisms import LaplaceMechanism, UnlistedHistogram
from sordino.population import ColumnNames, Population
from sordino.questions import CountQuestion, Counts, Domain, PrivacyUnit, prepare_counts
from sordino.questions.counts import to_domain
from sordino.questions.domain import SPAN, span
from sordino.questions.labels import name_columns
from sordino.receipt import Receipt, read_clock
from sordino.record import Record
from sordino.releases import UnlistedCounts, parameters
from sordino.scrubbing import scrubbed
from sordino.sources import Source
from sordino.sources.lookups import JoinedTable

CAP = 10**9
"""As far up as a column is looked at where nothing is said: a clip is searched for below it, at a
price that hardly grows with it."""
MOST_ROWS = 10**6
"""Of rows of a person at most so many count in all labels together, if nothing is said."""
CONFIDENCE = 0.95
SIMULTANEOUS_MEANS = "Wider intervals, which hold for all rows together."
LISTED = 1 << 20
"""A release about a range has at most this many rows."""
Progress = Callable[[float], None]


class Released(Protocol):
    """What a release of a session is: it takes the receipt of its charge."""

    def take_receipt(self, receipt: Receipt) -> None:
        """Take the receipt of the charge."""
        ...

    def take_population(self, population: Population) -> None:
        """Take what says of whom it is."""
        ...


R = TypeVar("R", bound=Released)


class Table(Protocol):
    """What a request may know before its charge: of the table what is public, and no row."""

    @property
    def source(self) -> Source:
        """Where the rows will be read."""
        ...

    @property
    def unit(self) -> PrivacyUnit:
        """Whom the guarantee protects."""
        ...

    @property
    def price(self) -> Price | None:
        """How the account that pays counts costs in this moment; None if nobody pays."""
        ...

    @property
    def asked(self) -> Any:
        """Which requests made the releases of this session (`RequestLog`)."""
        ...

    @property
    def searches(self) -> tuple[GroupSearch, ...]:
        """What finds groups that nobody listed, before it in its batch (`GroupSearch`)."""
        ...

    def recall(self, key: str, part: int) -> Any:
        """Return what is known of a release that the ledger has kept (`Known`)."""
        ...

    def salt(self) -> bytes:
        """Return a fresh secret: which rows of a unit count follows from it."""
        ...


@final
@dataclass(frozen=True)
class _ComputedTable:
    """A table with a column more for each call among the labels of a request."""

    table: Table
    source: Source

    @property
    def unit(self) -> PrivacyUnit:
        return self.table.unit

    @property
    def price(self) -> Price | None:
        return self.table.price

    @property
    def asked(self) -> Any:
        return self.table.asked

    @property
    def searches(self) -> tuple[GroupSearch, ...]:
        return self.table.searches

    def recall(self, key: str, part: int) -> Any:
        return self.table.recall(key, part)

    def salt(self) -> bytes:
        return self.table.salt()


def compute_labels(table: Table, request: object) -> Table:
    """Return the table with the calls that a request names as its labels, such as `month(day)`."""
    source = table.source.compute(list_label_names(request))
    return table if source is table.source else _ComputedTable(table, source)


def list_label_names(request: object) -> list[object]:
    """Return what a request names as its labels: columns, or calls in their place."""
    named: list[object] = []
    for name in ("item", "by"):
        said = getattr(request, name, None)
        named += said if isinstance(said, tuple) else [] if said is None else [said]
    return named


def find_lookups(source: Source, request: object) -> list[JoinedTable]:
    """Return which other tables a request reads."""
    if not source.lookups:
        return []
    column, where = (getattr(request, name, None) for name in ("column", "where"))
    return source.find_lookups(list_label_names(request), column, where)


def list_lent(lookups: Sequence[JoinedTable]) -> tuple[str, ...]:
    """Return the names of the private tables that lend a unit one of several rows."""
    return tuple(one.table.name for one in lookups if one.lends)


def counts_by_some_rows(table: Table, request: object, *, rows: bool = True) -> bool:
    """Tell whether a unit may count by some of its rows only, so that true counts may be higher.

    `rows` is False where a unit counts once, however many rows it has.
    """
    bounded = rows and table.unit.max_rows is not None
    return bounded or bool(list_lent(find_lookups(table.source, request)))


class Payer(Protocol):
    """What releases, and remembers it: a charge of a ledger, or nothing."""

    @property
    def receipt(self) -> Receipt:
        """What a release says of its charge."""
        ...

    def release(self, mechanism: Any, answers: Any, *, entropy: Entropy, **private: Any) -> Any:
        """Let a mechanism release."""
        ...

    def open(self, mechanism: Any, *, entropy: Entropy) -> Any:
        """Let a mechanism open a stream."""
        ...

    def keep(self, record: Record) -> None:
        """Keep what was released, once it is settled."""
        ...


@final
class Uncharged:
    """Stands in for a charge where no ledger was given: it releases, and remembers nothing.

    Parameters
    ----------
    simulated : bool
        Whether the noise comes from a seed. Such a release has no time: it can be repeated.
    """

    __slots__ = ("receipt",)

    def __init__(self, *, simulated: bool = False) -> None:
        # Now, before a row is read: how long that takes is private.
        self.receipt = Receipt(time=None if simulated else read_clock())

    def release(self, mechanism: Any, answers: Any, *, entropy: Entropy, **private: Any) -> Any:
        """Let a mechanism release."""
        return mechanism.release(answers, entropy=entropy, **private)

    def open(self, mechanism: Any, *, entropy: Entropy) -> Any:
        """Let a mechanism open a stream."""
        return mechanism.open(entropy=entropy)

    def keep(self, record: Record) -> None:  # noqa: ARG002
        """Refuse: there is no ledger to keep it in."""
        raise InvalidParameter(
            "A release can be kept in a ledger alone, and nobody was charged for this one."
        )


class Question(Protocol):
    """What the engine is asked."""

    @property
    def domain(self) -> Domain | None:
        """The labels that it is about."""
        ...

    def run(self, *, progress: Progress | None = None) -> Any:
        """Read the rows, after the charge; private."""
        ...


@final
class Callback:
    """A function of the caller's, such as `progress`.

    An error that it raises is the caller's, and leaves the library as it is.
    """

    __slots__ = ("_function", "raised")

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self.raised: BaseException | None = None

    def __call__(self, *given: Any) -> None:
        """Call the caller's function; an error that it raises is noted and goes on."""
        try:
            self._function(*given)
        except BaseException as error:  # whatever it is, and it goes on
            self.raised = error
            raise


@final
@dataclass(frozen=True)
class Reservation:
    """What a request asks for before it may read a row, made from what is public alone.

    Attributes
    ----------
    parts : tuple
        Mechanisms and costs that it may spend.
    detail : dict
        What the ledger keeps about it; what is None is left out.
    domain : Domain or None
        The labels that it is about.
    search : GroupSearch or None
        What finds groups that nobody listed, for this request and those behind it in its batch.
    """

    parts: tuple[Any, ...]
    detail: dict[str, Any]
    domain: Domain | None
    search: GroupSearch | None = None


@final
class Charged:
    """What a request holds once its reservation is charged: it may read rows, and release.

    What it reads is private, and goes nowhere but into `release`.
    """

    __slots__ = ("_callbacks", "_entropy", "_found", "_payer", "_progress")

    def __init__(
        self,
        payer: Payer,
        entropy: Entropy,
        progress: Progress | None,
        found: dict[GroupSearch, UnlistedCounts] | None = None,
    ) -> None:
        self._payer, self._entropy = payer, entropy
        # What searches of the same batch have released; it is public.
        self._found = {} if found is None else found
        self._callbacks: list[Callback] = []
        self._progress = None if progress is None else self.watch(progress)

    def read(self, question: Question) -> Any:
        """Read the rows that a question is about; private."""
        return question.run(progress=self._progress)

    @scrubbed
    def release(self, mechanism: Any, answers: Any, **private: Any) -> Any:
        """Let a mechanism release private answers, with fresh noise."""
        return self._payer.release(mechanism, answers, entropy=self._entropy, **private)

    def find_once(self, search: GroupSearch) -> UnlistedCounts:
        """Return what a search releases, which the first request of a batch runs for all."""
        if search not in self._found:
            self._found[search] = search.run(self)
        return self._found[search]

    @property
    def nothing(self) -> dict[str, Any]:
        """What a release says that had no label to release.

        Nothing was drawn, so nothing is spent.
        """
        return {"cost": Pure(epsilon=0), "simulated": self._entropy.simulated}

    def watch(self, function: Callable[..., object]) -> Callback:
        """Return a function of the caller's that may be called meanwhile.

        Its errors are the caller's.
        """
        callback = Callback(function)
        self._callbacks.append(callback)
        return callback

    def is_callers(self, error: BaseException) -> bool:
        """Tell whether an error was raised by a function of the caller's."""
        return any(callback.raised is error for callback in self._callbacks)


@final
@dataclass(frozen=True, eq=False)
class GroupSearch:
    """What finds groups that nobody listed, once for all figures of a batch that are of them.

    Attributes
    ----------
    groups : tuple
        What says which groups these are.
    units : CountQuestion
        How many units each label has.
    finder : UnlistedHistogram
        What releases the labels of many.
    """

    groups: tuple[object, ...]
    units: CountQuestion
    finder: UnlistedHistogram

    def run(self, charged: Charged) -> UnlistedCounts:
        """Read the labels, and release those that are found."""
        counts: Counts = charged.read(self.units)
        found: UnlistedCounts = charged.release(self.finder, counts.values, labels=counts.labels)
        return found


_LARGEST = 10**300
"""No number that is asked with is larger, so that what is computed with it stays within the
floats."""
T = TypeVar("T")
Steps = Generator[Reservation, Charged, T]
"""A thread that yields a reservation, goes on once that is charged, and returns something."""


def checked_later(_name: str, value: Any) -> Any:
    """Keep a parameter that is checked against the columns of the table, or by a mechanism."""
    return value


def checked_columns(name: str, value: Any) -> Any:
    """Return the name of a column of labels as a text, or those of several as a tuple."""
    if isinstance(value, tuple | list):
        names = name_columns(name, value)
        return names if len(names) > 1 else names[0]
    # What is no text is refused with the columns of the table at hand.
    return value


def accept_domain(name: str, domain: object) -> object:
    """Keep a domain that is checked later.

    A text says that the labels of the table are public, or between which dates all are.
    """
    if isinstance(domain, Mapping):
        # A copy: what was checked must not change afterwards.
        return Domain.product({one: accept_domain(name, domain[one]) for one in domain})
    if not isinstance(domain, str):
        return domain
    if SPAN.fullmatch(domain):
        return span(domain)
    return Domain.assume_public() if domain == "assume-public" else domain


def _checked_callback(name: str, value: object) -> object:
    """Keep a function of the caller's, or None."""
    if value is None or callable(value):
        return value
    raise InvalidParameter(f"{name} must be a function, or None; got {shown(value)}.")


class Request(Declared, Generic[R]):
    """One release of a session: its public parameters, checked when it is made, and its steps."""

    name: ClassVar[str]
    """What users and the ledger call it; messages about a parameter begin with it."""
    chooses: ClassVar[bool] = False
    """Whether items are chosen, so that the choice can be right or wrong."""
    not_in_studies: ClassVar[str] = ""
    """Why no study can make it; empty where one can."""
    kept: ClassVar[tuple[str, ...]] = ()
    """Parameters that are kept with a release so that it can be measured again; none where it
    cannot."""

    progress: Progress | None = parameter(
        _checked_callback,
        "Called with percentages while the engine works.",
        default=None,
        beside=True,
    )

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # An error about the arguments names the method that was called.
        cls.__init__.__qualname__ = f"Session.{getattr(cls, 'name', cls.__name__)}"

    def __post_init__(self) -> None:
        # Before anything is made of them: what a figure is computed with are floats, sooner or
        # later.
        for name, given in parameters(self).items():
            for one in given if isinstance(given, tuple | list) else (given,):
                number = exact(one)
                if number and (abs(number) > _LARGEST or not float(number)):
                    raise InvalidParameter(
                        f"{self.name}.{name} must be a number that floats can hold, up to 1e300; "
                        f"got {shown(one)}."
                    )
        super().__post_init__()

    @property
    def spoken(self) -> str:
        """How messages name the request."""
        return self.name

    def without_callbacks(self) -> Self:
        """Return the same request without functions of the caller's.

        What is remembered, and goes along with a release, must not hold what such a function holds.
        """
        return self if self.progress is None else replace(self, progress=None)

    @property
    def weighs(self) -> bool:
        """Whether all rows of a unit count, with weights."""
        return False

    def take_labels(self, declared: Mapping[str, object]) -> Self:
        """Return this request with the labels that are declared of its column, if it says none."""
        named = getattr(self, "item", None) or getattr(self, "by", None) or ()
        columns = name_columns("item", named) if named else ()
        given: Any = getattr(self, "domain", declared)
        several = len(columns) > 1
        if several and is_unlisted(given):
            given = given.over(columns) if not given.parts else given
        parts = dict(zip(given.columns, given.parts, strict=True)) if _is_product(given) else {}
        known = {
            name: declared[name]
            for name in columns
            if name in declared and (name not in parts or parts[name].yields)
        }
        found = {name for name, part in parts.items() if part.yields}
        if found and found <= known.keys():
            # Of labels that are declared, too, some are looked for: else nothing would be.
            known = {name: known[name] for name in known.keys() - found}
        if not known or (given is not None and not parts):
            return self
        domain = Domain.product(parts | known) if several else known[columns[0]]
        changed: dict[str, Any] = {"domain": domain}
        return replace(self, **changed)

    def settle(self, unit: PrivacyUnit) -> Self:  # noqa: ARG002
        """Return the request with what it chooses for the user, by whom the guarantee protects."""
        return self

    def fit(self, table: Table) -> Self:  # noqa: ARG002
        """Return the request with what it chooses for the user, by what is public of the table."""
        return self

    @abstractmethod
    def steps(self, table: Table) -> Steps[R]:
        """Ask, reserve, read, release: yields its reservation once, and returns the result.

        Parameters
        ----------
        table : Table
            What is public about the table.

        Yields
        ------
        Reservation
            What may be spent. It goes on with a `Charged`, once that is charged.
        """


class ListRequest(Request[R]):
    """The largest of some labels, as many as are asked for."""

    k: int | None = parameter(
        OrNone(COUNT),
        "How many items; 10 unless said or named by a goal, or all where fewer are listed.",
        more="At most the size of the domain, and of a range at most 2^20.",
        default=None,
    )

    @property
    def many(self) -> int:
        """How many items, once that is settled."""
        return cast("int", self.k)

    def fit(self, table: Table) -> Self:
        """Choose how many items, where nothing is said; where labels are found, ten."""
        asked = cast("Any", self)
        if self.k is not None:
            return self
        size, changed = None, {}
        # That a domain is missing is said later.
        if asked.domain is not None and not is_unlisted(asked.domain):
            domain = to_domain(asked.domain).over(name_columns("item", asked.item))
            domain = domain.resolve(table.source)
            # It is not read again.
            size, changed = size_of(domain), {"domain": domain}
        k = _USUAL if size is None else min(_USUAL, max(size, 1))
        return cast("Self", replace(asked, k=k, **changed))


_USUAL = 10


# ---- rules of parameters -------------------------------------------------------------------------


def checked_bounds(name: str, bounds: Any) -> Any:
    """Return a declared range as two exact numbers, or None without one; refuse what is none."""
    if bounds is None:
        return None
    if not isinstance(bounds, tuple | list) or len(bounds) != 2:
        raise InvalidParameter(f"{name} must be two numbers (low, high); got {shown(bounds)}.")
    low, high = (FINITE(name, end) for end in bounds)
    if high <= low:
        raise InvalidParameter(
            f"{name} must be two numbers, the second one larger; got {shown(low)} and "
            f"{shown(high)}."
        )
    return low, high


# ---- questions about labels ----------------------------------------------------------------------


def refuse_unlisted(name: str, domain: Any) -> None:
    """Refuse a domain that nobody listed where a release cannot find labels: before the charge.

    Raises
    ------
    UnknownDomain
        If it is one.
    """
    if is_unlisted(domain):
        raise UnknownDomain(
            f"{name}.domain must list its labels, because this release cannot find labels that "
            "nobody listed (--unlisted); got Domain.unlisted. Give a list of labels, "
            "Domain.from_file or Domain.from_sql (--domain, --domain-sql)."
        )


def check_account(name: str, table: Table) -> None:
    """Refuse labels that nobody listed on an account that keeps no deltas: before the charge.

    Raises
    ------
    InvalidParameter
        If it is one.
    """
    if table.price is not None and table.price.meter.order is None:
        what, meter = (
            ("pure epsilons", "") if table.price.is_pure else ("rhos alone", " --meter zcdp")
        )
        raise InvalidParameter(
            f"{name}.domain must list its labels on an account of {what}, because labels that "
            "nobody listed take a part of a delta; an account with a delta has one (sordino ledger "
            f"create --epsilon E --delta D --failures F{meter})."
        )


def find_items(
    table: Table, item: ColumnNames, domain: Any, where: str | None, *, best: int | None = None
) -> CountQuestion:
    """Return the question how many units each label has, of labels that nobody listed."""
    return prepare_counts(
        table.source,
        table.unit,
        kind="items",
        item=item,
        domain=domain,
        where=where,
        salt=table.salt(),
        best=best,
    )


def is_unlisted(domain: Any) -> bool:
    """Tell whether nobody listed the labels of a domain, so that a release must find them."""
    return isinstance(domain, Domain) and domain.hidden


def ask_items(
    table: Table,
    name: str,
    item: ColumnNames,
    domain: Any,
    where: str | None,
    unit: PrivacyUnit | None = None,
) -> CountQuestion:
    """Return the question how many units each label of a domain has.

    With a `unit` that has another bound than that of the session.
    """
    refuse_unlisted(name, domain)
    # A fresh salt for each release: which rows of a unit count follows from it.
    return prepare_counts(
        table.source,
        unit or table.unit,
        kind="items",
        item=item,
        domain=domain,
        where=where,
        salt=table.salt(),
    )


def _is_product(domain: object) -> bool:
    return isinstance(domain, Domain) and domain.kind == "product"


def size_of(domain: Domain | None) -> int | None:
    """Return the size of a domain, or None where none is public: of assumed and hidden labels."""
    return (
        None if domain is None or domain.hidden or domain.kind == "assumed public" else domain.size
    )


def not_listed(domain: Domain | None) -> int | None:
    """Return the size of a domain of which not all counts are kept, such as a range, else None.

    Mechanisms are then handed only the counts that are not 0.
    """
    return domain.size if domain is not None and domain.is_sparse else None


def check_listable(name: str, most: int, domain: Domain | None) -> None:
    """Refuse a release of more rows than memory may hold.

    A domain that is listed is held there anyway.
    """
    if not_listed(domain) is not None and most > LISTED:
        raise InvalidParameter(
            f"{name} must be at most {LISTED} where the domain is a range; got {most}."
        )


def check_measurable(name: str, question: CountQuestion, epsilon: Fraction, most: int) -> None:
    """Refuse a budget with which some number of counts, up to `most`, could not be measured.

    How many there are is known only after the charge, and then nothing is refused any more.
    """
    # The more counts, the smaller the rate of the noise: a single one has the largest.
    for count in (1, most):
        _ = LaplaceMechanism(epsilon=epsilon, sensitivity=question.joint(count))
    check_rates_from(epsilon / to_fraction(question.joint(most).bound), name)


def places(counts: Counts) -> dict[str, Any]:
    """Return the positions of counts for a mechanism, if only those that are not 0 are listed."""
    return {} if counts.positions is None else {"positions": counts.positions}
