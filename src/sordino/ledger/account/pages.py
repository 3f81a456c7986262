"""Reads one account.

Its row, its charges, its events, whether they agree, and why something did not fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, final

from sordino.address import covers_tables
from sordino.constraints import text
from sordino.cost import Pure
from sordino.cost.conversion import cut_digits, find_largest, write_percent
from sordino.errors import BudgetExceeded, InvalidParameter, LedgerConflict, LedgerError
from sordino.ledger import schema
from sordino.ledger.amounts import MEASURES, amount_of, decimal, exact_amounts
from sordino.ledger.history import (
    Account,
    ChargeRow,
    Row,
    Verification,
    budget_of,
    chained,
    json_of,
    linked,
)
from sordino.ledger.left import find_left, find_share
from sordino.ledger.parts import PartRange, show_parts
from sordino.ledger.played_parts import NOWHERE, Touched
from sordino.ledger.renyi import ATTO, LARGEST, Sums
from sordino.ledger.replay import Replay, add_shares, find_inherited
from sordino.ledger.store.store import Rows, Store, patiently
from sordino.record import FORM, Record

_EVENTS_AT_ONCE = 5_000  # events that are held in memory
RELEASE = "This release"
# Each charge is rounded up to a billionth: what lacks to so many of them was taken by that.
_ROUNDED = 1_000


@final
class Pages:
    """One account of a store."""

    __slots__ = ("_seen", "_sound", "name", "store")

    def __init__(self, store: Store, name: str) -> None:
        self.store = store
        self.name = name
        self._seen: Account | None = None
        self._sound = False

    @contextmanager
    def reading(self) -> Iterator[tuple[Account, Rows]]:
        """Let the block ask about the account as of one moment."""
        with self.store.reading() as rows:
            found = rows(schema.ACCOUNT, account=self.name)
            if not found:
                listed = ", ".join(map(repr, names(rows))) or "none"
                raise LedgerError(
                    f"There is no account {self.name!r} in the ledger "
                    f"at {self.store.url!r}; its accounts: {listed}."
                )
            account = Account(*found[0])
            self._seen = self._seen or account
            yield account, rows

    def account(self) -> Account:
        """Return the account as it is now."""
        with self.reading() as (row, _):
            return row

    @property
    def facts(self) -> Account:
        """The account as it was first seen, for what never changes.

        A charge checks that it still holds.
        """
        seen = self._seen or patiently(self.account)
        if seen.meter == "renyi" and not self._sound:
            patiently(self._check_order)
        return seen

    def _check_order(self) -> None:
        """Refuse an account whose order is not the one that it was made with.

        Its sums would mean nothing.
        """
        with self.reading() as (row, rows):
            first = rows(schema.EVENTS, account=self.name, after=0, until=1)
        try:
            [event] = [Row(*found) for found in first]
            made = json_of(event.body)
            # A place may have been given a name since; a name stays that, with more tables at most.
            was = str(made["source"])
            named = row.source.startswith("name:") and not was.startswith("name:")
            moved = named or covers_tables(row.source, was)
            facts = row.facts | ({"source": made["source"]} if moved else {})
            if "parts" not in made:
                # It may have been given them since.
                facts.pop("parts", None)
            known = all(made[name] == fact for name, fact in facts.items())
            known = known and linked("", event) == event.head
            fits = row.parent is not None or budget_of(row).limits == row.limits
        except (InvalidParameter, KeyError, ValueError, TypeError, ArithmeticError):
            known = fits = False
        if not (known and fits):
            raise LedgerError(
                f"The order or a limit of account {self.name!r} is not the one that it was made "
                "with: it was changed. Do not charge it; compare it with a backup or an export."
            )
        self._sound = True

    def made_for(self) -> dict[str, str]:
        """Return what the first event says that the account was made for."""
        with self.reading() as (_, rows):
            first = rows(schema.EVENTS, account=self.name, after=0, until=1)
        said = json_of(Row(*first[0]).body).get("made_for") if first else None
        return dict(said) if isinstance(said, dict) else {}

    def find_charge(self, key: str) -> ChargeRow | None:
        """Return one charge; None if there is none."""
        with self.reading() as (_, rows):
            found = rows(schema.ONE_CHARGE, account=self.name, charge=text(key, "key"))
        return ChargeRow(*found[0]) if found else None

    def find_run(self, run: str) -> tuple[str, ChargeRow | None]:
        """Return the id of the one charge of a run, and that charge if it was made.

        A charge that was given up before anything was drawn has told nothing, and nothing can be
        drawn from it any more: only then the run has a next id. So whoever looks finds the same
        one, and the database takes each once.
        """
        # Of 128 bits, as every id has. Two lines, so that no two pairs of names make one text.
        key = chained(f"run\n{self.name}\n{text(run, 'run')}")[:32]
        while (row := self.find_charge(key)) is not None and row.state == "void" and not row.draws:
            key = chained(f"again\n{key}")[:32]
        return key, row

    def charge(self, key: str) -> ChargeRow:
        """Return one charge."""
        found = self.find_charge(key)
        if found is None:
            raise LedgerError(
                f"There is no charge {key!r} in account {self.name!r}; `sordino ledger show` lists "
                "them."
            )
        return found

    def record(self, key: str, part: int) -> Record:
        """Return what is kept of a charge.

        Part 0 is the first release, and of most charges the only one.
        """
        row = self.charge(key)
        if not row.kept:
            raise LedgerError(
                f"The ledger has not kept the release of charge {key!r}: it does so for one made "
                "with --keep, or that Session.keep is called for. What was printed is the only "
                "copy."
            )
        if not 0 <= part < row.kept:
            raise InvalidParameter(
                f"part must be from 1 to {row.kept}, the number of releases that are kept of "
                f"charge {key!r}; got {part + 1}."
            )
        return _read_record(key, self._record_rows(key, part))

    def records(self) -> dict[str, Record]:
        """Return the first release that is kept of each charge, all of one moment."""
        with self.reading() as (_, rows):
            found = rows(schema.SHEETS, account=self.name)
        return {key: _read_record(key, [tuple(rest)]) for key, *rest in found}

    def _record_rows(self, key: str, part: int) -> Sequence[tuple[Any, ...]]:
        with self.reading() as (_, rows):
            return rows(schema.SHEET, account=self.name, charge=key, part=part)

    def _changed(self, kept: Sequence[tuple[str, int, str]]) -> Iterator[tuple[str, int]]:
        """Return the releases that are kept with another text than their hash says."""
        for key, part, digest in kept:
            # One at a time, so that nobody has to wait, and memory holds one of them.
            found = self._record_rows(key, part)
            if not _is_unchanged(found) or found[0][1] != digest:
                yield key, part

    def events(self, newest: int | None) -> Iterator[Row]:
        """Return the events, or the newest of them.

        Nothing is held open while somebody looks at one.
        """
        # Events that come later are left out: otherwise a busy account would never end.
        end = self.account().number
        number = 0 if newest is None else max(0, end - newest)
        while number < end:
            with self.reading() as (_, rows):
                page = list(pages(rows, self.name, number, min(number + _EVENTS_AT_ONCE, end)))
            yield from page
            # In a damaged file nothing may be found: then this ends the loop.
            number += len(page) or end

    def verify(self, head: str | None) -> Verification:
        """Replay the whole history and compare it with the account.

        `head` is one that was noted before.
        """
        replay = Replay(self.account(), head)
        for row in self.events(None):  # a page at a time, so that nobody has to wait
            replay.play(row)
        # What was charged meanwhile is played in the same moment as what it is compared with.
        with self.reading() as (account, rows):
            for row in pages(rows, account.name, replay.number, account.number):
                replay.play(row)
            [(events,)] = rows(schema.HOW_MANY, account=self.name)
            gifts = (
                rows(schema.GRANTS, account=account.parent) if account.parent is not None else None
            )
            charges = rows(schema.STATES, account=self.name)
            children = rows(schema.CHILDREN, account=self.name)
            parts = rows(schema.PARTS, account=self.name)
            spans = rows(schema.SPANS, account=self.name)
            kept = [
                (key, part, digest) for key, part, digest in rows(schema.KEPT, account=self.name)
            ]
        # Records never change, so their texts may be looked at afterwards.
        return replay.finish(
            account,
            events=events,
            charges=charges,
            children=children,
            given=None if gifts is None else add_shares(gifts, self.name),
            kept=kept,
            changed=self._changed(kept),
            parts=parts,
            spans=[(key, low, high) for key, low, high in spans],
            inherited=None if gifts is None else find_inherited(gifts, self.name),
        )

    def check_reading(self, reading: str | None, *, then: str) -> None:
        """Refuse another reading of the column of the unit than the one that the account keeps."""
        # Once there is one it never changes, so that only another one has to be looked for.
        if not reading or self.facts.reading == reading:
            return
        known = patiently(self.account).reading
        if known and known != reading:
            raise LedgerConflict(
                f"Account {self.name!r} adds up releases that read whose a row is "
                f"({self.facts.unit}) as {known}, but this release reads it as {reading}: "
                "by these, two rows may be of one person or of two. Declare it as before, or make "
                f"another account, whose budget adds to this one's. {then}"
            )
        self._seen = self.facts._replace(reading=known)

    def find_fullest(self, touched: Touched, asked: Sums) -> tuple[Account, int | None]:
        """Return the account as that part of it has it which has least left, and which it is.

        None is any part that nothing was charged to by itself; an account without parts is
        returned as it is.
        """
        with self.reading() as (row, rows):
            return fullest_of(row, rows, touched, asked)

    def refuse(self, needed: Sums, touched: Touched = NOWHERE, *, what: str, then: str) -> None:
        """Say why an amount was refused.

        Return if it would fit by now because others gave something back.
        """
        known = self.facts
        row, part = patiently(lambda: self.find_fullest(touched, needed))
        if known.facts != row.facts:
            raise LedgerConflict(
                f"Account {self.name!r} at {self.store.url!r} is not the one that was opened; open "
                f"it again. {then}"
            )
        if row.successor:
            raise LedgerConflict(
                f"Account {self.name!r} was converted into {row.successor!r}, which goes on for "
                f"it. {then}"
            )
        if is_closed(row, touched):
            upto = show_parts(PartRange(row.closed, row.closed), row.cut)
            raise LedgerConflict(
                f"The parts of account {self.name!r} up to {upto} are closed: nothing that reads "
                f"them is charged any more. Name later ones. {then}"
            )
        # What the next charge says of them.
        self._seen = known._replace(closed=row.closed)
        of = "" if part is None else f" for {show_parts(PartRange(part, part), row.cut)}"
        if not row.limits.admits(row.sums, needed):
            raise BudgetExceeded(
                _say_lack(row, needed, what, of),
                fitting=_find_fitting(row, needed) if what == RELEASE else "",
                # Beside a delta some releases cost less than pure noise: of them more would fit.
                largest=row.meter_name == "pure",
                then=then,
                details=f"{what} needs {_write_lack(row, needed)} in account {self.name!r}{of}.",
            )


def _say_lack(row: Account, needed: Sums, what: str, of: str) -> str:
    """Return what is left and what is needed, in percent."""
    limits, spent = row.limits, row.sums
    asks = "this" if what == RELEASE else f"{what[0].lower()}{what[1:]}"
    budget = "budget"
    if spent.failing > limits.failing - needed.failing:
        budget = "delta for labels that nobody listed (failures)"
        if not limits.failing:
            return (
                f"Account {row.name} keeps no {budget}; {asks} needs delta "
                f"{needed.failing / ATTO:.6g}."
            )
        share = Fraction(limits.failing - spent.failing, limits.failing)
        more = Fraction(needed.failing, limits.failing)
    else:
        left = find_left(limits, spent, needed)
        share, more = left.share, left.needed
    return (
        f"{write_percent(share, -1) if share else 'Nothing'} of the {budget} of account "
        f"{row.name}{of} is left; {asks} needs {write_percent(more, 1)}."
    )


def _write_lack(row: Account, needed: Sums) -> str:
    """Return what is needed and what remains, as a part of a sentence."""
    limits, spent = row.limits, row.sums
    if spent.failing > limits.failing - needed.failing:
        return (
            f"delta {needed.failing / ATTO:.6g} of its own but "
            f"{(limits.failing - spent.failing) / ATTO:.6g} remains for releases that may fail"
        )
    rest = decimal(max(0, limits.main - spent.main))
    if row.meter_name != "renyi":
        return f"{MEASURES[row.meter_name]} {decimal(needed.main)} but {rest} remains"
    pure = "no epsilon" if needed.impure else f"epsilon {decimal(needed.pure)}"
    left = "no epsilon" if spent.impure else f"epsilon {decimal(max(0, limits.pure - spent.pure))}"
    order = f"{float(Fraction(row.alpha)):.6g}"
    asked = f"divergence {decimal(needed.main)} at order {order} ({pure})"
    return f"{asked} but divergence {rest} and {left} remain"


def _find_fitting(row: Account, needed: Sums) -> str:
    """Return which epsilon would fit, whatever noise its release gets; nothing where none does."""
    limits, spent, meter = row.limits, row.sums, row.meter_at_order
    if spent.failing > limits.failing - needed.failing:
        return ""

    def fits(epsilon: int) -> bool:
        asked = exact_amounts(Pure(epsilon=amount_of(epsilon)), meter).rounded_up()
        # Where something else was asked for than pure noise, epsilons may count no more.
        return limits.admits(
            spent, asked._replace(failing=needed.failing, impure=asked.impure | needed.impure)
        )

    # A release of an epsilon adds no more than a pure one, whatever noise it gets.
    low = find_largest(fits, LARGEST)
    if not low:
        return ""
    # Three digits are enough, but where only the rounding of charges was in the way.
    close = meter.name == "pure" and needed.main - low <= _ROUNDED
    return decimal(low if close else cut_digits(low))


def is_closed(row: Account, touched: Touched) -> bool:
    """Tell whether a part that is touched takes nothing more."""
    return any(one.low <= row.closed for one in touched.ranges)


def fullest_of(
    row: Account, rows: Rows, touched: Touched, asked: Sums
) -> tuple[Account, int | None]:
    """Return the account as that part has it which has least left for what is asked."""
    if not row.parts:
        return row, None
    limits = row.limits
    if touched.whole and row.meter != "renyi":
        # There is one sum, and an index for it.
        found = _base_and(row, rows(schema.FULLEST_PART, account=row.name, low=row.closed))
    else:
        found = part_sums(row, rows, touched)
    part, sums = max(
        found, key=lambda one: (not limits.admits(one[1], asked), find_share(limits, one[1]))
    )
    return row.at(sums), part


def part_sums(row: Account, rows: Rows, touched: Touched) -> list[tuple[int | None, Sums]]:
    """Return what parts have, base and all, those that are touched; the base alone is None's.

    What several have is there once, with the first of them: jobs that charge each day the same
    leave years of equal parts.
    """
    ranges = touched.ranges or (PartRange(row.closed + 1, 2**63 - 1),)
    first: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for one in ranges:
        for found in rows(schema.SOME_PARTS, account=row.name, low=one.low, high=one.high):
            first.setdefault(found[1:], found)
    return _base_and(row, [*first.values()])


def _base_and(row: Account, found: Sequence[tuple[Any, ...]]) -> list[tuple[int | None, Sums]]:
    base = row.base_sums
    return [(None, base), *((key, base.plus(Sums(*sums))) for key, *sums in found)]


def _read_record(key: str, found: Sequence[tuple[Any, ...]]) -> Record:
    """Return what a row of the table of kept releases says."""
    if not _is_unchanged(found):
        raise LedgerError(
            f"The release that is kept of charge {key!r} was changed since; `sordino ledger "
            "verify` looks at the whole account."
        )
    [(form, _, text)] = found
    if form > FORM:
        raise LedgerError(
            f"The release of charge {key!r} is kept in form {form} but this version of sordino "
            f"knows forms up to {FORM}; use a newer sordino."
        )
    return Record.from_text(text)


def _is_unchanged(found: Sequence[tuple[Any, ...]]) -> bool:
    """Tell whether a record is there, with the text of its hash."""
    # In a damaged file a text may be anything.
    return len(found) == 1 and isinstance(found[0][2], str) and chained(found[0][2]) == found[0][1]


def pages(rows: Rows, account: str, number: int, end: int) -> Iterator[Row]:
    """Return the events after `number` and up to `end`, asking for some at a time."""
    while number < end and (
        page := rows(
            schema.EVENTS, account=account, after=number, until=min(number + _EVENTS_AT_ONCE, end)
        )
    ):
        for found in page:
            yield Row(*found)
        if page[-1][0] <= number:
            return  # the index of a damaged file leads back; `verify` misses the rest
        number = page[-1][0]


def names(rows: Rows) -> tuple[str, ...]:
    """Return the names of all accounts, sorted."""
    # In a damaged file a name may be no text.
    return tuple(sorted(str(row[0]) for row in rows(schema.ACCOUNTS)))
