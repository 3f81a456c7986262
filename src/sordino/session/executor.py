"""Charges, reads and releases, in this order: with a session's source, unit, account and entropy.

Several releases that are charged together: all of them fit, or nothing is read. It is remembered
which request made each release, and which charge has paid for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Generic, final
from weakref import WeakKeyDictionary

from sordino.constraints import to_fraction
from sordino.cost import Cost, compose
from sordino.entropy import Entropy, renew
from sordino.errors import DataSourceError, InvalidParameter, LedgerError, SordinoError
from sordino.ledger import Ledger, Preview, Price
from sordino.population import Population, say_columns
from sordino.questions import PrivacyUnit
from sordino.questions.domain import list_call_domains
from sordino.questions.reading import describe_unit_reading
from sordino.receipt import Receipt
from sordino.record import Record
from sordino.releases import Release, UnlistedCounts, Values
from sordino.results import describe, describe_alone
from sordino.scrubbing import scrubbed
from sordino.session.batch import Pending
from sordino.session.part import check_closed, find_charged_parts, settle_if_closed
from sordino.session.request import (
    Charged,
    GroupSearch,
    Payer,
    Progress,
    R,
    Request,
    Reservation,
    Steps,
    Table,
    Uncharged,
    compute_labels,
    find_lookups,
    list_label_names,
    size_of,
)
from sordino.session.whom import find_population, name_unit
from sordino.sources import CsvFormat, Source
from sordino.sources.lookups import JoinedTable
from sordino.sources.open import share_readings

_NOT_OURS = (
    "Session.keep takes a release that this session has made and charged to its ledger, not one of "
    "another session, of a stream, of a mechanism alone, or of a session without a ledger."
)


@final
class RequestLog:
    """Which request made a release; nothing of it is private, and no answer is kept."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Release, Request[Any]] = WeakKeyDictionary()

    def note(self, release: Any, request: Request[Any]) -> None:
        """Remember what made a release; what repeats another one has the request of that one."""
        if not isinstance(release, Release):
            return
        # A release of a batch is held by what stands for it. What comes from a ledger was asked
        # elsewhere.
        before = getattr(request, "release", None)
        first = None if before is None else self.find(getattr(before, "result", before))
        self._known[release] = first or request

    def find(self, release: Any) -> Request[Any] | None:
        """Return what made a release of this session, else None."""
        return self._known.get(release) if isinstance(release, Release) else None


@final
class ChargeRegistry:
    """Which charge paid for a release, as long as somebody holds the release.

    Only the process that made a charge can keep something with it. So the charge is remembered
    here, by the receipt that its releases share, and forgotten with the last of them.
    """

    __slots__ = ("_payers",)

    def __init__(self) -> None:
        self._payers: WeakKeyDictionary[Receipt, Payer] = WeakKeyDictionary()

    def note(self, receipt: Receipt, payer: Payer) -> None:
        """Remember who paid."""
        # Without an account there is nothing to keep a release in.
        if receipt.id is not None:
            self._payers[receipt] = payer

    def payer_of(self, release: Any) -> Payer:
        """Return who paid for a release, or raise `InvalidParameter`."""
        receipt = getattr(release, "receipt", None)
        payer = self._payers.get(receipt) if isinstance(receipt, Receipt) else None
        if payer is None:
            raise InvalidParameter(_NOT_OURS)
        return payer


@final
@dataclass(frozen=True)
class Started(Generic[R]):
    """A release up to its charge.

    Its parameters and the schema are looked at, and nothing is charged.

    Attributes
    ----------
    name : str
        What the ledger calls it.
    reservation : Reservation
        What it may spend.
    steps : generator
        It goes on once it is charged.
    request : Request
        What it is a release of.
    progress : callable or None
        Called with percentages while the engine works.
    """

    name: str
    reservation: Reservation
    steps: Steps[R]
    request: Request[R]
    progress: Progress | None


@final
@dataclass(frozen=True)
class RunKey:
    """By which key a run is charged once: what the ledger has of it.

    Attributes
    ----------
    label : str
        What the ledger calls the charge.
    run : str
        The account is charged at most once for it.
    detail : dict
        What is recorded beside the releases; public.
    """

    label: str
    run: str
    detail: dict[str, Any]


@final
class ReleaseExecutor:
    """Charges before it reads, and reads before it releases."""

    __slots__ = (
        "_salt",
        "asked",
        "entropy",
        "form",
        "ledger",
        "payments",
        "source",
        "unit",
    )

    def __init__(
        self,
        source: Source,
        unit: PrivacyUnit,
        ledger: Ledger | None,
        entropy: Entropy,
        form: CsvFormat | None = None,
    ) -> None:
        # How a source of texts is written: what is kept says it to whoever reads it again.
        self.form = form or CsvFormat()
        self.source, self.unit, self.ledger, self.entropy = source, unit, ledger, entropy
        self.payments, self.asked = ChargeRegistry(), RequestLog()
        self._salt: bytes | None = None
        if any(one.lends and not one.salt for one in source.lookups):
            # Which rows people are lent is one choice for all releases, batches among them: for
            # each choice all of them together are private (docs/proofs/look-ups.md).
            self.source = source.draw_rows(self.salt())

    @contextmanager
    def open_batch(self) -> Iterator[ReleaseExecutor]:
        """Open an executor like this for the releases of a batch, which read the source together.

        What they share is dropped at the end, whether they ran or not.
        """
        source, readings = share_readings(self.source)
        executor = ReleaseExecutor(source, self.unit, self.ledger, self.entropy, self.form)
        executor.payments, executor.asked = self.payments, self.asked
        executor._salt = None if readings is None else self.salt()
        with nullcontext() if readings is None else closing(readings):
            yield executor

    @property
    def searches(self) -> tuple[GroupSearch, ...]:
        """Nothing stands before a release that is asked for alone."""
        return ()

    @property
    def price(self) -> Price | None:
        """How the account that pays counts costs in this moment; None if nobody pays."""
        parts = find_charged_parts(self.source)
        return None if self.ledger is None else self.ledger.find_price(parts=parts)

    def salt(self) -> bytes:
        """Return a fresh secret: which rows of a unit count follows from it."""
        # Releases of one batch choose the same rows of a unit, so that these are chosen once. For
        # each salt every one of them is private, and so all of them together are
        # (docs/proofs/numbers.md).
        if self._salt is not None:
            return self._salt
        # A copy of this memory that was made before must not know the secret:
        # docs/decisions/0002-entropy.md.
        renew(self.entropy)
        return self.entropy.words(4).tobytes()

    def list_left_out(self) -> tuple[str, ...]:
        """Return which rows count in no release, by rules that look at one row alone, in words."""
        names = [one.short if self.unit.parts else one.name for one in self.unit.columns]
        units = f"rows without a value in {say_columns(names, 'or')}" if names else ""
        closed = [] if self.source.part is None else self.source.part.list_rules()
        return tuple(rule for rule in (self.source.dropped, units, *closed) if rule)

    def start(self, request: Request[R], before: Sequence[Started[Any]] = ()) -> Started[R]:
        """Take a request as far as its reservation: no row is read, nothing is charged.

        `before` is what stands before it in its batch.
        """
        request, seen = self.settle(request, before)
        steps = request.steps(seen)
        plain = request.without_callbacks()
        return Started(request.name, next(steps), steps, plain, request.progress)

    def settle(
        self, request: Request[R], before: Sequence[Started[Any]] = ()
    ) -> tuple[Request[R], Table]:
        """Return a request with all that it chooses for the user, and the table that it sees."""
        seen = compute_labels(_InBatch(self, tuple(before)) if before else self, request)
        known = self.source.labels
        # Labels that are declared come before those that follow from a call or a look-up.
        if seen.source.calls:
            known = {**list_call_domains(seen.source), **known}
        if seen.source.lookups:
            # Imported here: most tables look nothing up.
            from sordino.questions.lookups import list_lookup_domains  # noqa: PLC0415

            known = {**list_lookup_domains(seen.source, list_label_names(request)), **known}
        return request.take_labels(known).settle(self.unit).fit(seen), seen

    @scrubbed
    def run(self, asked: Sequence[Started[Any]], run_key: RunKey | None = None) -> list[Any]:
        """Charge everything, then let one after the other read and release.

        With a `run_key` the ledger has its label and its run, and takes each run once.
        """
        parts, label, detail = self._describe(asked)
        run = None
        if run_key is not None:
            label, run, detail = run_key.label, run_key.run, run_key.detail | detail
        # The charge is durable before any row is read.
        with self._charge(parts, label, detail, run) as payer:
            # One for all: what was kept of a batch is found under one id.
            receipt = payer.receipt
            self.payments.note(receipt, payer)
            found: dict[GroupSearch, UnlistedCounts] = {}
            return [self._finish(started, payer, receipt, found) for started in asked]

    def preview(self, asked: Sequence[Started[Any]]) -> Preview | None:
        """Return what the account would say of these charged together; None if nobody pays.

        Raises
        ------
        BudgetExceeded, LedgerConflict
            If it would refuse them.
        """
        if self.ledger is None:
            return None
        parts, label, detail = self._describe(asked)
        return self.ledger.preview(parts, label=label, detail=detail, **self._about)

    def keep(self, release: Any, record: Record | None) -> None:
        """Keep a release in the ledger that paid for it."""
        # Imported here, because most sessions keep nothing, and make no reports.
        from sordino.session.local import Reported  # noqa: PLC0415

        # A release of a batch is held by what stands for it.
        made = release.result if isinstance(release, Pending) else release
        if isinstance(made, Reported | Values):
            raise InvalidParameter(
                "Session.keep does not take what randomize released: it is as long as the table. "
                "Write it to a file."
            )
        payer = self.payments.payer_of(made)
        plain = self._describe_kept(made) if record is None else record
        whole = self._add_again(made, plain)
        try:
            payer.keep(whole)
        except InvalidParameter:
            # By its length alone, which is public: it is kept without what measures it again.
            if whole is plain:
                raise
            payer.keep(plain)

    def _describe_kept(self, release: Any) -> Record:
        """Return what a release says of itself.

        Of a mechanism alone only the session knows the unit.
        """
        unit = self.unit
        if release.population is not None:
            record = describe(release)
        else:
            record = describe_alone(
                release, unit=name_unit(unit), adjacency=unit.adjacency, max_rows=unit.max_rows
            )
        # Whoever keeps it may want to know all that its mechanism was asked with.
        return replace(record, facts={**record.facts, "mechanism": release.to_dict()["mechanism"]})

    def _add_again(self, release: Any, record: Record) -> Record:
        """Return a record with what measures its release again, where that is possible."""
        from sordino.session.kept_again import add_again  # noqa: PLC0415 - as above
        from sordino.session.remeasure import recognize  # noqa: PLC0415

        try:
            known = recognize(release, self.asked)
        except InvalidParameter:
            # By its kind alone: a quantile, for one, is asked anew.
            return record
        return add_again(record, known, self.source, self.unit, self.form)

    def recall(self, key: str, part: int) -> Any:
        """Return what is known of a release that the ledger kept, so that it can be measured again.

        Raises
        ------
        InvalidParameter
            If there is no ledger, it was kept without, or this session is about something else.
        LedgerError
            If the account has no such release, or its history does not hold.
        """
        from sordino.session.kept_again import read_again  # noqa: PLC0415 - few sessions need it

        if self.ledger is None:
            raise InvalidParameter(
                "remeasure.release must be a release of this session: without a ledger none is "
                "kept. Give Session a ledger, or the release itself."
            )
        record = self.ledger.read_release(key, part=part)
        # What was kept would be believed: so all of the history is looked at first.
        if not self.ledger.verify().sound:
            raise LedgerError(
                f"The history of account {self.ledger.account!r} does not hold, so what it has "
                "kept is not believed; `sordino ledger verify` says where. Nothing was read or "
                "charged."
            )
        return read_again(record, self.source, self.unit, self.form, key)

    def _finish(
        self,
        started: Started[R],
        payer: Payer,
        receipt: Receipt,
        found: dict[GroupSearch, UnlistedCounts],
    ) -> R:
        """Let a release that is charged read and release.

        The text of an error that is neither ours nor the caller's may hold what was read. A
        constant one is raised instead.

        Raises
        ------
        DataSourceError
            If anything fails.
        """
        charged = Charged(payer, self.entropy, started.progress, found)
        try:
            started.steps.send(charged)
        except StopIteration as end:
            # How a generator returns.
            result: R = end.value
            # Its place in the ledger was fixed before a row was read.
            result.take_receipt(receipt)
            self.asked.note(result, started.request)
            result.take_population(self._find_population(result, started))
            return result
        except Exception as error:
            # Private rows never raise, and what went wrong with them is said to nobody. A parameter
            # that is refused only now was made by what was found.
            ours = isinstance(error, SordinoError) and not isinstance(error, InvalidParameter)
            if ours or charged.is_callers(error):
                raise
        # Raised outside of the handler, so that it does not carry the error of the engine along.
        raise DataSourceError.after_charge()

    def _find_population(self, release: Any, started: Started[Any]) -> Population:
        """Return which rows count in a release; another look counts those of the first one."""
        before = getattr(started.request, "release", None)
        known = getattr(before, "population", None)
        if isinstance(known, Population):
            # What this look was asked to spend is another epsilon.
            asked = getattr(started.request, "epsilon", None)
            return replace(known, epsilon=None if asked is None else float(to_fraction(asked)))
        # What comes from a ledger says what is asked again.
        base = getattr(release, "base", None)
        return find_population(
            started.request if base is None else base.request,
            self.unit,
            started.reservation.domain,
            self.list_left_out(),
            getattr(started.request, "epsilon", None),
            find_lookups(self.source, started.request if base is None else base.request),
            self.source.part,
        )

    @contextmanager
    def stream(self, mechanism: Any, detail: dict[str, Any]) -> Iterator[Any]:
        """Charge the worst case, then open a stream.

        What it did not spend returns if the block is left without an error.
        """
        with (
            self._charge((mechanism,), "watch", _drop_none(detail)) as payer,
            payer.open(mechanism, entropy=self.entropy) as stream,
        ):
            yield stream

    def _charge(
        self, parts: tuple[Any, ...], label: str, detail: dict[str, Any], run: str | None = None
    ) -> AbstractContextManager[Payer]:
        """Reserve, durably, before any row is read; the ledger keeps what is public."""
        if self.ledger is None:
            return nullcontext(Uncharged(simulated=self.entropy.simulated))
        # Asked before, so that no run is used up by a session that reads too much.
        check_closed(self.source, self.ledger)
        charge = self.ledger.reserve(parts, label=label, detail=detail, run=run, **self._about)
        return settle_if_closed(charge, self.source)

    @property
    def reading(self) -> str:
        """How the source reads whose a row is."""
        return describe_unit_reading(self.source, self.unit, self.form)

    @property
    def _about(self) -> dict[str, Any]:
        """What a charge is about: the account is compared with it."""
        return {
            "unit": self.unit,
            "source": self.source.known_as,
            "adjacency": self.unit.adjacency,
            "reading": self.reading,
            "parts": find_charged_parts(self.source),
        }

    def _describe(
        self, asked: Sequence[Started[Any]]
    ) -> tuple[tuple[Any, ...], str, dict[str, Any]]:
        """Return what makes a charge: what may be spent, its label, and what the ledger keeps."""
        details = [
            self._detail(started.reservation, find_lookups(self.source, started.request))
            for started in asked
        ]
        names = [started.name for started in asked]
        detail = (
            # One release keeps its own detail, a batch that of each with its name.
            details[0]
            if len(asked) == 1
            else {
                "batch": [
                    {"release": name, **detail} for name, detail in zip(names, details, strict=True)
                ]
            }
        )
        return _list_parts(asked), " + ".join(names), detail

    def _detail(self, reservation: Reservation, lookups: Sequence[JoinedTable]) -> dict[str, Any]:
        detail, domain = _drop_none(reservation.detail), reservation.domain
        if self.source.part is not None and self.source.part.text is not None:
            detail["part"] = self.source.part.text
        if lookups:
            detail["lookups"] = [one.table.origin for one in lookups]
        # One number for each person is of all of its rows.
        if self.unit.max_rows is not None and detail.get("per_person") is None:
            detail["max_rows"] = self.unit.max_rows
        if domain is not None:
            detail |= {"domain": domain.origin, "domain_size": size_of(domain)}
        return detail


def _list_parts(started: Iterable[Started[Any]]) -> tuple[Any, ...]:
    """Return what all of them may spend, one after the other."""
    return tuple(part for one in started for part in one.reservation.parts)


def add_costs(started: Iterable[Started[Any]]) -> Cost:
    """Return what releases may spend together; their list is fixed."""
    # Mechanisms are reserved, or a cost where the mechanism is known only after the charge.
    return compose(
        *(part if isinstance(part, Cost) else part.cost for part in _list_parts(started))
    )


@final
@dataclass(frozen=True)
class _InBatch:
    """A table as a later release of a batch sees it: its account has taken on the earlier ones."""

    executor: ReleaseExecutor
    before: tuple[Started[Any], ...]

    @property
    def source(self) -> Source:
        return self.executor.source

    @property
    def unit(self) -> PrivacyUnit:
        return self.executor.unit

    @property
    def price(self) -> Price | None:
        price = self.executor.price
        return None if price is None else price.after(_list_parts(self.before))

    @property
    def asked(self) -> RequestLog:
        return self.executor.asked

    @property
    def searches(self) -> tuple[GroupSearch, ...]:
        found = (one.reservation.search for one in self.before)
        return tuple(search for search in found if search is not None)

    def recall(self, key: str, part: int) -> Any:
        return self.executor.recall(key, part)

    def salt(self) -> bytes:
        return self.executor.salt()


def _drop_none(public: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in public.items() if value is not None}


# ---- batch ---------------------------------------------------------------------------------------


@final
class Batch:
    """What `Session.batch` plans.

    Attributes
    ----------
    cost : Cost
        What all of it costs together. Its list is fixed, so the tight views hold:
        `batch.cost.epsilon(1e-6)`.
    """

    __slots__ = ("asked", "executor")

    def __init__(self, executor: ReleaseExecutor) -> None:
        self.executor = executor
        self.asked: list[tuple[Started[Any], Pending]] = []

    def __repr__(self) -> str:
        return f"Batch({', '.join(started.name for started, _ in self.asked)})"

    @property
    def cost(self) -> Cost:
        """What all of it costs together."""
        return add_costs(started for started, _ in self.asked)

    def preview(self) -> Preview | None:
        """Return what the account would say of all of it; None if nobody pays.

        Raises
        ------
        BudgetExceeded, LedgerConflict
            If it would refuse it.
        """
        return self.executor.preview([started for started, _ in self.asked])

    def add(self, started: Started[Any]) -> Pending:
        """Take one more release."""
        pending = Pending()
        self.asked.append((started, pending))
        return pending
