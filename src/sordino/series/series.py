"""`Series`: running figures of a declared table, by releases that are each made once.

A job that is killed, started twice, or forgotten for a week makes the same releases as one that was
not: which of them were paid is what the ledger remembers. Nothing private is kept between nights.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from fractions import Fraction
from functools import cached_property
from typing import Any, NoReturn, final

from sordino.constraints import shown
from sordino.cost import ZCDP
from sordino.cost.several import say_days_of
from sordino.entropy import SYSTEM
from sordino.errors import BudgetExceeded, InvalidParameter, LedgerConflict, RunTaken
from sordino.ledger import ChargeLine, Ledger, PartRange, read_parts, show_parts
from sordino.ledger.parts import OPEN
from sordino.ledger.renyi import NANO
from sordino.population import say_columns, say_unit
from sordino.questions.labels import DENSE
from sordino.scrubbing import scrubbed
from sordino.series.declared import DeclaredSeries, read_series
from sordino.series.nodes import Node, check_levels, list_nodes, split_epsilon
from sordino.series.noise import Measured, SeriesNoise, choose_noise
from sordino.session import Session
from sordino.session.executor import ReleaseExecutor
from sordino.session.kept_again import read_kept_rows
from sordino.session.looks import Rows
from sordino.session.part import select_part
from sordino.session.request import size_of
from sordino.sources import Source
from sordino.study.declaration import find_declaration, open_declaration, read_day
from sordino.study.tables import guard
from sordino.unit_columns import read_offset

_LOST = ("", "")
"""Where the periods stand that were given up for lost."""


@final
@dataclass(frozen=True, kw_only=True)
class SeriesState:
    """What a series has, and lacks, until a day.

    Attributes
    ----------
    kept : mapping of Node to mapping
        The periods that were released, with their numbers and the law of their noise.
    lost : tuple of Node
        Those that were paid and not kept, or given up for lost: they are never asked again.
    open : mapping of Node to str
        Those that somebody is paying for in this moment, or was when it was killed, with the id of
        the charge.
    closed : tuple of Node
        Those that were not asked before a part of them was closed: they never are.
    due : tuple of Node
        Those that are to be asked.
    until : int
        The last part that has ended, with the days of grace behind it.
    """

    kept: Mapping[Node, Rows] = field(repr=False)
    lost: tuple[Node, ...]
    open: Mapping[Node, str]
    closed: tuple[Node, ...]
    due: tuple[Node, ...]
    until: int


@final
class Series:
    """Running figures of a table that is declared, day after day.

    Parameters
    ----------
    name : str
        Of the series, in the declaration.
    declaration : str or path, optional
        The file; `sordino.toml` here or above unless said.

    Raises
    ------
    InvalidParameter, LedgerError
        If there is no such series, what is said of it is wrong, or its account has no parts.
    """

    def __init__(self, name: str, declaration: str | os.PathLike[str] | None = None) -> None:
        path = find_declaration() if declaration is None else os.fspath(declaration)
        if path is None:
            raise InvalidParameter(
                "A series must be declared in a file; there is no sordino.toml here or above."
            )
        self.declared: DeclaredSeries = read_series(open_declaration(path), name)
        self.name = name
        self.account = f"series-{name}"
        self.parent = Ledger.open(self.declared.table.ledger, account=self.declared.table.account)
        told = self.parent.statement(charges=False).parts
        if told is None:
            raise InvalidParameter(
                f"A series must be of a table whose account has parts; {self.parent.account!r} has "
                "none. Make one with --parts day."
            )
        parts = self.declared.table.unit.parts
        offsets = [one.offset for one in parts if one.text == told.component and one.offset]
        self.offset = read_offset(offsets[0]) if offsets else None
        self.cut: str = told.cut
        said = self.declared.said
        self.levels: tuple[str, ...] = self._guard(
            "levels", lambda: check_levels(self.cut, said.levels)
        )
        self.first: int = self._guard("first", lambda: read_parts(said.first, self.cut).low)
        self._guard("epsilon", lambda: split_epsilon(self.declared.epsilon, self.levels))

    def __repr__(self) -> str:
        return f"Series({self.name!r}, first={self.declared.said.first!r})"

    def _guard(self, key: str, build: Callable[[], Any]) -> Any:
        """Return what is built; what is refused is refused with its line."""
        return guard(self.declared.table.document, (*self.declared.place, key), build)

    # ---- the account -----------------------------------------------------------------------------

    @cached_property
    def source(self) -> Source:
        """The table; its columns are looked at, and no row."""
        table = self.declared.table
        _, form, memory, temp = table.source
        return table.open_source(
            form, self.parent, unit=table.unit, memory_limit=memory, temp_limit=temp
        )

    @scrubbed
    def start(self) -> Ledger:
        """Give the series its share of the account; do it once, before the first night.

        Raises
        ------
        LedgerConflict
            If it was started before, or begins with a part that is closed.
        BudgetExceeded
            If a part that is not closed has not as much left.
        """
        self._refuse_second()
        if self.first <= _read_closed(self.parent, self.cut):
            raise LedgerConflict(
                f"series.first must be after what is closed, of which no period is asked; "
                f"{self.declared.said.first} is closed. Nothing was granted."
            )
        measured = self._measure()
        chosen = self._guard(
            "noise",
            lambda: choose_noise(
                measured, self.declared.epsilon, self.levels, self.declared.wanted
            ),
        )
        asked = measured.add_up(chosen)
        both = self.parent.find_price().meter.name == "renyi" and not asked.impure
        share = {"pure": Fraction(asked.pure, NANO)} if both else {}
        made_for = {"series": self.name, "definition": self.declared.digest}
        made_for |= chosen.to_detail()
        try:
            return self.parent.grant(
                self.account, Fraction(asked.main, NANO), once=True, made_for=made_for, **share
            )
        except LedgerConflict:
            # Somebody else may have started it in this moment.
            self._refuse_second()
            raise

    def find_account(self) -> Ledger | None:
        """Return the account of the series, a share of its table's; None if it was not started."""
        if self.account not in self.parent.statement(charges=False).shares:
            return None
        return Ledger.open(self.declared.table.ledger, account=self.account)

    def _refuse_second(self) -> None:
        if self.find_account() is not None:
            raise LedgerConflict(
                f"Series {self.name!r} was started before: account {self.account!r} is there. "
                "Nothing was granted."
            )

    @cached_property
    def noise(self) -> SeriesNoise:
        """Which noise its periods have, from its start on.

        Raises
        ------
        LedgerError
            If it was not started, or was declared otherwise then.
        """
        said = self._require_account().made_for
        if not said:
            # It was started by a version that knew Laplace noise alone.
            return SeriesNoise.of("laplace", self.declared.epsilon, self.levels)
        if (said.get("series"), said.get("definition")) != (self.name, self.declared.digest):
            self._refuse_changed()
        return SeriesNoise.read(said, self.levels)

    @property
    def rates(self) -> Mapping[str, Fraction]:
        """The epsilon of each period, what Laplace noise of it costs."""
        return self.noise.rates

    def _measure(self) -> Measured:
        """Return how far the numbers of a period move; columns are looked at, and no row."""
        table, price = self.declared.table, self.parent.find_price()
        source = select_part(self.source, table.unit, self.parent, None)
        # Nobody pays for what is only looked at.
        executor = ReleaseExecutor(source, table.unit, None, SYSTEM, table.source.form)
        moves = []
        for noise in ("laplace", "gaussian"):
            reserved = executor.start(self.declared.build(Fraction(1), noise)).reservation
            many = size_of(reserved.domain) or 0
            if many > DENSE:
                raise InvalidParameter(
                    f"series.{self.name}.domain must have at most {DENSE:,} labels, all of which "
                    f"are shown; it has {many:,}. Nothing was granted."
                )
            [mechanism] = reserved.parts
            moves.append(mechanism.sensitivity)
        return Measured(sum_moves=moves[0], square_moves=moves[1], price=price)

    # ---- nights ----------------------------------------------------------------------------------

    def find_until(self, today: str = "today") -> int:
        """Return the last part that has ended on a day, with the days of grace behind it."""
        # A day that is cut at an offset ends there, wherever this machine stands.
        day = read_day(today, "series.today", offset=self.offset)
        ended = day - timedelta(days=1 + self.declared.said.grace)
        return _last_ended(ended, self.cut)

    def read(self, today: str = "today") -> SeriesState:
        """Return what the series has until a day.

        Parameters
        ----------
        today : str
            "2026-11-27", "today" or "today-1": what has not ended before is not there yet.

        Raises
        ------
        LedgerError
            If it was not started, was declared otherwise before, or the ledger cannot be read.
        """
        return self._read(self._require_account(), self.find_until(today))

    def _read(self, account: Ledger, until: int) -> SeriesState:
        charges, records = self._list_charges(account), account.read_releases()
        given_up = {one.detail["lost"] for one in charges.pop(_LOST, ())}
        last_closed = _read_closed(account, self.cut)
        kept: dict[Node, Rows] = {}
        opened: dict[Node, str] = {}
        lost, closed, due = list[Node](), list[Node](), list[Node]()
        for node in list_nodes(self.first, until, self.cut, self.levels):
            line = charges.get((node.level, node.text), [None])[-1]
            if line is None or (_is_given_up(line) and line.id not in given_up):
                (closed if node.parts.low <= last_closed else due).append(node)
            elif line.kept:
                kept[node] = read_kept_rows(records[line.id])
            elif line.state == "reserved" and line.id not in given_up:
                opened[node] = line.id
            else:
                lost.append(node)
        return SeriesState(
            kept=kept,
            lost=tuple(lost),
            open=opened,
            closed=tuple(closed),
            due=tuple(due),
            until=until,
        )

    @scrubbed
    def catch_up(
        self, today: str = "today", *, tell: Callable[[str], None] | None = None
    ) -> SeriesState:
        """Release all periods that have ended and were not asked, and return what there is then.

        Parameters
        ----------
        today : str
            As for `read`.
        tell : callable, optional
            Called with the text of each period before it is asked.

        Raises
        ------
        LedgerError, DataSourceError
            If the ledger or the table cannot be read.
        LedgerConflict
            If it was not started, or was declared otherwise before.
        BudgetExceeded
            If somebody else has charged its share; all periods that fit were released.
        """
        account, table = self._require_account(), self.declared.table
        until = self.find_until(today)
        if until > self.find_until():
            raise InvalidParameter(
                "series.today must not be a day to come, whose periods would be asked before they "
                f"have ended, and never again; got {today!r}."
            )
        charges = self._list_charges(account)
        if not charges:
            self._check_share(account)
        state, lacks = self._read(account, until), None
        for node in state.due:
            if tell is not None:
                tell(node.text)
            # One that was given up before anything was drawn has told nothing, and is asked again.
            tries = 1 + len(charges.get((node.level, node.text), ()))
            run = f"series/{self.name}-{self.declared.digest}/{node.level}/{node.text}/{tries}"
            about = {"level": node.level, "period": node.text, "definition": self.declared.digest}
            payer = account.for_run(run, {"series": self.name, **about})
            session = Session(
                self.source,
                unit=table.unit,
                ledger=payer,
                csv=table.source.form,
                part=node.text,
            )
            request = self.declared.build(self.rates[node.level], self.noise.noise)
            try:
                release = session._do(request)  # noqa: SLF001 - it was built from a file
            except RunTaken:
                # Another job of this series was faster.
                continue
            except BudgetExceeded as error:
                # Somebody else has charged the share. The other periods need not wait for that.
                lacks = lacks or error
                continue
            session.keep(release)
        if lacks is not None:
            raise lacks
        return self._read(account, until) if state.due else state

    @scrubbed
    def lose(self, period: str, *, reason: str) -> SeriesState:
        """Give a period up for lost that stays open, whatever has happened to it.

        It stays charged, and is never asked again. That is right of each period that somebody was
        paying for: also where an error of the table has ended a job, which may depend on rows.

        Parameters
        ----------
        period : str
            As `SeriesState.open` has it: "2026-11-27".
        reason : str
            Kept in the history.

        Raises
        ------
        InvalidParameter
            If it is not open.
        LedgerError
            If the series was not started, or the ledger cannot be written.
        """
        account = self._require_account()
        state = self._read(account, self.find_until())
        found = {node: key for node, key in state.open.items() if node.text == period}
        if not found:
            listed = ", ".join(node.text for node in state.open) or "none"
            raise InvalidParameter(
                f"A period that is lost must be one that is open, of which there are: {listed}; "
                f"got {shown(period)}. Nothing was changed."
            )
        about = {"series": self.name, "definition": self.declared.digest}
        for node, key in found.items():
            said = {"level": node.level, "period": node.text, "lost": key, "reason": reason}
            account.note("lost", about | said)
        return self._read(account, state.until)

    def describe(self, state: SeriesState) -> tuple[dict[str, Any], list[str]]:
        """Return what stands beside the figures, as facts and as sentences below a table."""
        unit, said = self.declared.table.unit, self.declared.said
        where, item = (self.declared.asked.get(name) for name in ("where", "item"))
        left_out, promise = list(self._list_left_out()), self._find_promise()
        until = show_parts(PartRange(state.until, state.until), self.cut)
        facts = {
            "series": self.name,
            "release": said.release,
            "figure": said.release,
            "account": self.account,
            "unit": unit.identity,
            "called": unit.called,
            "adjacency": unit.adjacency,
            "max_rows": unit.max_rows,
            "where": where,
            **({} if item is None else {"item": item, "domain": self._say_labels()}),
            "left_out": left_out,
            "noise": self.noise.noise,
            **self._list_spent(promise),
            "rates": {level: float(rate) for level, rate in self.rates.items()},
            "first": said.first,
            "until": until,
            "grace": said.grace,
            "kept": len(state.kept),
            "lost": [node.text for node in state.lost],
            "open": {node.text: key for node, key in state.open.items()},
            "closed": [node.text for node in state.closed],
            "due": [node.text for node in state.due],
            "confidence": 0.95,
            **({"only_added": True} if said.only_added else {}),
        }
        whom = say_unit(unit.identity, unit.called)
        what = "row" if item is None else "label"
        rows = f"1 {what} counts" if unit.max_rows == 1 else f"{unit.max_rows} {what}s count"
        bound = unit.max_rows is not None and said.release != "count_distinct_units"
        wait = "1 day" if said.grace == 1 else f"{said.grace} days"
        notes = [
            "low to high: holds what the periods counted, with 95%. revised: the same by what was "
            "released since, late rows of later days of its month among it.",
            *(
                [
                    "at_least, at_most: if no row is ever deleted or changed, so many are there by "
                    f"now, and no more were when their own {self.cut} was first asked; of all of "
                    "them at once, with 95%."
                ]
                if said.only_added
                else []
            ),
            *([] if where is None else [f"Only rows where {where}."]),
            f"Late rows count until {wait} after their own {self.cut} ends; later ones are in the "
            "longer periods that end after them, and in no shorter one.",
            *([f"Of {whom} at most {rows}."] if bound else []),
            *(
                [f"Whoever comes on two {self.cut}s counts twice."]
                if said.release == "count_distinct_units"
                else []
            ),
            f"Not counted: {'; '.join(left_out)}.",
            f"Each part has spent {self._say_spent()} when its longest period "
            f"has ended, and never more. Protects: {whom}, {unit.adjacency}.",
            *say_days_of(
                unit.identity,
                unit.adjacency,
                promise or {"epsilon": self.declared.epsilon, "delta": 0},
            ),
        ]
        if state.lost:
            listed = ", ".join(node.text for node in state.lost)
            notes.append(f"Lost, paid and not kept, and never asked again: {listed}.")
        if state.closed:
            listed = ", ".join(node.text for node in state.closed)
            notes.append(f"Closed before they were asked, and never asked: {listed}.")
        for node, key in state.open.items():
            given_up = (
                f"sordino ledger void-reservation --ledger {self.declared.table.ledger} --account "
                f"{self.account} --charge {key} --reason killed"
            )
            notes.append(
                f"Being paid for, or left by a job that has ended: {node.text}. If that job was "
                f"killed, and did not end by an error of the table: {given_up}; then catch up. "
                f"Otherwise: sordino series lose {self.name} {node.text} --reason error"
            )
        return facts, notes

    def _find_promise(self) -> dict[str, Fraction] | None:
        """Return what Gaussian noise promises; None where an epsilon says it all."""
        if self.noise.noise == "laplace":
            return None
        # Whatever else the account pays, this is of the series alone, at the delta of the account.
        delta = Fraction(self.parent.statement(charges=False).delta)
        epsilon = Fraction(ZCDP(rho=self.noise.rho).epsilon(delta))
        return {"epsilon": epsilon, "delta": delta, "rho": self.noise.rho}

    def _list_spent(self, promise: Mapping[str, Fraction] | None) -> dict[str, float | None]:
        """Return what a part has spent: an epsilon, or a rho where what was asked is its price."""
        asked = float(self.declared.epsilon)
        if promise is None:
            return {"epsilon": asked}
        return {"epsilon": None, "epsilon_asked": asked, "rho": float(promise["rho"])}

    def _say_spent(self) -> str:
        if self.noise.noise == "laplace":
            return f"epsilon {float(self.noise.epsilon):g}"
        return f"what epsilon {float(self.noise.epsilon):g} costs on its account (Gaussian noise)"

    def _list_left_out(self) -> Iterator[str]:
        """Yield which rows count in no period, by rules that look at one row alone."""
        unit, item = self.declared.table.unit, self.declared.asked.get("item")
        if self.source.dropped:
            yield self.source.dropped
        yield f"rows without a value in {say_columns([one.short for one in unit.columns], 'or')}"
        if item is not None:
            yield f"rows whose {say_columns(item, 'or')} is no label of the list"

    def _say_labels(self) -> str:
        """Return where the labels of a histogram come from."""
        domain: Any = getattr(self.declared.build(self.declared.epsilon), "domain", None)
        return "declared with the table" if domain is None else str(domain.origin)

    def _list_charges(self, account: Ledger) -> dict[tuple[str, str], list[ChargeLine]]:
        """Return the charges of each period, by its level and its text, and what is lost.

        Raises
        ------
        LedgerConflict
            If they are of what was declared otherwise.
        """
        found: dict[tuple[str, str], list[ChargeLine]] = {}
        for line in account.statement().charges:
            said = line.detail
            if said.get("series") != self.name:
                continue
            if said.get("definition") != self.declared.digest:
                self._refuse_changed()
            place = _LOST if "lost" in said else (said["level"], said["period"])
            found.setdefault(place, []).append(line)
        return found

    def _check_share(self, account: Ledger) -> None:
        """Refuse a share that is less than its periods need: it was given for something else."""
        needed = self._measure().add_up(self.noise)
        if account.statement(charges=False).limit < Fraction(needed.main, NANO):
            self._refuse_changed()

    def _refuse_changed(self) -> NoReturn:
        raise LedgerConflict(
            f"Series {self.name!r} was declared otherwise when it was started or first asked. "
            "Declare it as it was, or start another one under another name. Nothing was read or "
            "released."
        )

    def _require_account(self) -> Ledger:
        found = self.find_account()
        if found is None:
            raise LedgerConflict(
                f"Series {self.name!r} must be started first: sordino series start {self.name}. "
                "Nothing was read or released."
            )
        return found


def _last_ended(day: date, cut: str) -> int:
    """Return the last part that has ended with a day."""
    if cut in {"hour", "day"}:
        return read_parts(day.isoformat(), cut).high
    # A month has ended with its last day.
    text = day.isoformat()[: 7 if cut == "month" else 4]
    number = read_parts(text, cut).low
    ends = read_parts(text, "day").high == read_parts(day.isoformat(), "day").high
    return number if ends else number - 1


def _read_closed(account: Ledger, cut: str) -> int:
    """Return the last part that is closed, or one before all."""
    told = account.statement(charges=False).parts
    closed = None if told is None else told.closed
    return OPEN if closed is None else read_parts(closed, cut).low


def _is_given_up(line: ChargeLine) -> bool:
    """Tell whether a charge was closed before anything was drawn from it."""
    return not line.drawn and line.settled is not None
