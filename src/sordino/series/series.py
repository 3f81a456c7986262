"""`Series`: running figures of a declared table, by releases that are each made once.

A job that is killed, started twice, or forgotten for a week makes the same releases as one that was
not: which of them were paid is what the ledger remembers. Nothing private is kept between nights.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from fractions import Fraction
from functools import cached_property
from typing import Any, final

from sordino.cost.several import say_days_of
from sordino.entropy import SYSTEM
from sordino.errors import (
    InvalidParameter,
    LedgerConflict,
    LedgerError,
    RunTaken,
)
from sordino.ledger import ChargeLine, Ledger, PartRange, read_parts, show_parts
from sordino.ledger.amounts import exact_amounts
from sordino.ledger.renyi import Amounts
from sordino.ledger.store.store import NoLedgerError
from sordino.population import say_unit
from sordino.scrubbing import scrubbed
from sordino.series.declared import DeclaredSeries, read_series
from sordino.series.nodes import Node, check_levels, list_nodes, split_epsilon
from sordino.session import Session
from sordino.session.executor import ReleaseExecutor
from sordino.session.kept_again import read_kept_rows
from sordino.session.looks import Rows
from sordino.session.part import select_part
from sordino.sources import Source
from sordino.study.declaration import find_declaration, open_declaration, read_day

_TRIES = 100
"""So often a period can have been given up before anything of it was drawn."""


@final
@dataclass(frozen=True, kw_only=True)
class SeriesState:
    """What a series has, and lacks, until a day.

    Attributes
    ----------
    kept : mapping of Node to mapping
        The periods that were released, with their numbers and the law of their noise.
    lost : tuple of Node
        Those that were paid and not kept: they are never asked again.
    open : mapping of Node to str
        Those that somebody is paying for in this moment, or was when it was killed, with the id of
        the charge.
    due : tuple of Node
        Those that are to be asked.
    until : int
        The last part that has ended, with the days of grace behind it.
    """

    kept: Mapping[Node, Rows] = field(repr=False)
    lost: tuple[Node, ...]
    open: Mapping[Node, str]
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
        self.cut: str = told.cut
        said = self.declared.said
        self.levels = check_levels(self.cut, said.levels)
        self.first = read_parts(said.first, self.cut).low
        self.rates = split_epsilon(self.declared.epsilon, self.levels)

    def __repr__(self) -> str:
        return f"Series({self.name!r}, first={self.declared.said.first!r})"

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
            If it was started before.
        BudgetExceeded
            If a part that is not closed has not as much left.
        """
        if self.find_account() is not None:
            raise LedgerConflict(
                f"Series {self.name!r} was started before: account {self.account!r} is there. "
                "Nothing was granted."
            )
        main, pure, failing = (sum(one) for one in zip(*self._list_amounts(), strict=True))
        known = self.parent.find_price()
        share = {"pure": Fraction(pure, 10**9)} if known.meter.name == "renyi" else {}
        assert not failing  # noqa: S101  (noise of counts has no delta)
        return self.parent.grant(self.account, Fraction(main, 10**9), **share)

    def find_account(self) -> Ledger | None:
        """Return the account of the series; None if it was not started."""
        try:
            return Ledger.open(self.declared.table.ledger, account=self.account)
        except NoLedgerError:
            raise
        except LedgerError:
            if self.account in Ledger.accounts(self.declared.table.ledger):
                raise
            return None

    def _list_amounts(self) -> list[tuple[int, int, int]]:
        """Return what one period of each length is charged with, as the account counts it."""
        table, found = self.declared.table, []
        source = select_part(self.source, table.unit, self.parent, None)
        executor = ReleaseExecutor(source, table.unit, self.parent, SYSTEM, table.source.form)
        for epsilon in self.rates.values():
            parts = executor.start(self.declared.build(epsilon)).reservation.parts
            meter = self.parent.find_price().meter
            asked = sum((exact_amounts(one, meter) for one in parts), Amounts()).rounded_up()
            found.append((asked.main, asked.pure, asked.failing))
        return found

    # ---- nights ----------------------------------------------------------------------------------

    def find_until(self, today: str = "today") -> int:
        """Return the last part that has ended on a day, with the days of grace behind it."""
        ended = read_day(today, "series.today") - timedelta(days=1 + self.declared.said.grace)
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
            If it was not started, or the ledger cannot be read.
        """
        account = self._require_account()
        until = self.find_until(today)
        kept: dict[Node, Rows] = {}
        lost, opened, due = [], {}, []
        for node in list_nodes(self.first, until, self.cut, self.levels):
            _, line = self._find_charge(account, node)
            if line is None:
                due.append(node)
            elif line.kept:
                kept[node] = read_kept_rows(account.read_release(line.id))
            elif line.state == "reserved":
                opened[node] = line.id
            else:
                lost.append(node)
        return SeriesState(kept=kept, lost=tuple(lost), open=opened, due=tuple(due), until=until)

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
        """
        account = self._require_account()
        table = self.declared.table
        for node in self.read(today).due:
            run, line = self._find_charge(account, node)
            if line is not None:
                continue
            if tell is not None:
                tell(node.text)
            payer = account.for_run(run, {"series": self.name, "period": node.text})
            session = Session(
                self.source,
                unit=table.unit,
                ledger=payer,
                csv=table.source.form,
                part=node.text,
            )
            request = self.declared.build(self.rates[node.level])
            try:
                release = session._do(request)  # noqa: SLF001 - it was built from a file
            except RunTaken:
                # Another job of this series was faster.
                continue
            session.keep(release)
        return self.read(today)

    def describe(self, state: SeriesState) -> tuple[dict[str, Any], list[str]]:
        """Return what stands beside the figures, as facts and as sentences below a table."""
        unit, said = self.declared.table.unit, self.declared.said
        where = self.declared.asked.get("where")
        until = show_parts(PartRange(state.until, state.until), self.cut)
        facts = {
            "series": self.name,
            "release": said.release,
            "account": self.account,
            "unit": unit.identity,
            "adjacency": unit.adjacency,
            "max_rows": unit.max_rows,
            **({} if where is None else {"where": where}),
            "epsilon": float(self.declared.epsilon),
            "rates": {level: float(rate) for level, rate in self.rates.items()},
            "first": said.first,
            "until": until,
            "grace": said.grace,
            "kept": len(state.kept),
            "lost": [node.text for node in state.lost],
            "open": {node.text: key for node, key in state.open.items()},
            "due": [node.text for node in state.due],
            "confidence": 0.95,
        }
        whom = say_unit(unit.identity, unit.called)
        most = "" if unit.max_rows is None else f" At most {unit.max_rows} rows of each count."
        notes = [
            "low to high: holds what the periods counted, with 95%. revised: the same by what was "
            "released since.",
            *([] if where is None else [f"Only rows where {where}."]),
            f"Late rows count until {said.grace} days after their own; later ones are in the "
            f"longer periods that end after them, and in no shorter one.{most}",
            f"Each part has spent epsilon {float(self.declared.epsilon):g} when its longest period "
            f"has ended, and never more. Protects: {whom}, {unit.adjacency}.",
            *say_days_of(
                unit.identity, unit.adjacency, {"epsilon": self.declared.epsilon, "delta": 0}
            ),
        ]
        if state.lost:
            listed = ", ".join(node.text for node in state.lost)
            notes.append(f"Lost, paid and not kept, and never asked again: {listed}.")
        for node, key in state.open.items():
            notes.append(
                f"Being paid for, or killed before it read: {node.text}. If no job is running: "
                f"sordino ledger void {key}, then catch up."
            )
        return facts, notes

    def _find_charge(self, account: Ledger, node: Node) -> tuple[str, ChargeLine | None]:
        """Return under which name a period is asked, and its charge if there is one.

        One that was given up before anything was drawn has told nothing, and is asked again.
        """
        base = f"series/{self.name}-{self.declared.digest[:16]}/{node.level}/{node.text}"
        for number in range(1, _TRIES):
            run = base if number == 1 else f"{base}/{number}"
            line = account.find_run(run)
            given_up = line is not None and not line.drawn and line.settled is not None
            if not given_up:
                return run, line
        raise LedgerConflict(f"Period {node.text} of series {self.name!r} was given up too often.")

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
