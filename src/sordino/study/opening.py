"""`sordino.open`: a session that is ready, with an account that is made or found."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from types import UnionType
from typing import Any, Literal

from sordino.constraints import TABLE_NAME, Number
from sordino.entropy import SYSTEM
from sordino.errors import InvalidParameter
from sordino.ledger import Budget, Ledger
from sordino.ledger.account.identity import known_source
from sordino.ledger.account.named import WantedAccount, list_account_names, make_or_find
from sordino.questions import Lookup, PrivacyUnit
from sordino.questions.lookups import check_lookups, look_up
from sordino.scrubbing import scrubbed
from sordino.sensitivity import Adjacency
from sordino.session import Session
from sordino.sources import CsvFormat, open_source
from sordino.study.declaration import (
    LEDGER,
    find_declaration,
    find_table,
    name_for,
    open_declaration,
    put_day,
    read_part,
)
from sordino.study.template import name_after

UNNAMED = "table"
"""What a table in memory is called that nobody names."""


@scrubbed
def open(  # noqa: A001 - the name that a reader expects: sd.open
    source: Any,
    *,
    person: str | Sequence[str] | None = None,
    row: bool = False,
    epsilon: Number | None = None,
    delta: Number | None = None,
    save: str | os.PathLike[str] | None = None,
    name: str | None = None,
    adjacency: Adjacency | None = None,
    max_rows: int | None = None,
    csv: CsvFormat | None = None,
    date: str | None = None,
    declaration: str | os.PathLike[str] | None = None,
    lookup: Mapping[str, Lookup] | None = None,
    second_budget: bool = False,
    parts: Literal["hour", "day", "month", "year"] | None = None,
    part: str | None = None,
) -> Session:
    """Open a table for releases, with an account that remembers what they spend.

    The account is made if it is not there, else it is found, and must fit. It is about what the
    table is called, and not about where it lies: a copy in another folder, the file of yesterday
    and a frame of the same rows are one account.

    Parameters
    ----------
    source : str, path, DuckDB relation or frame
        The name of a table that is declared in `sordino.toml` (`sordino declare` writes it): then
        nothing else need be said. Else as for `Session`, and all of it is said here.
    person : str or sequence of str
        The column that says whom a row belongs to. The guarantee protects all rows of a person.
        Several protect the rows that agree in each of them, such as ["customer_id",
        "day(ordered_at)"]: a customer on one day (`PrivacyUnit`).
    row : bool
        In place of `person`: each row is somebody else.
    epsilon : number
        What all releases together may spend, for ever. It may be left out where the account is
        there.
    delta : number, optional
        The delta of the account; 0 unless said.
    save : str or path
        The ledger: a file, which is made if there is none, or "postgresql://USER@HOST/DATABASE";
        "budget.db" unless said.
    name : str, optional
        What you call the table, and its account. Unless said it is the name of the file without its
        ending; of a table in memory "table", if its ledger has no other account.
    adjacency : {"add-remove", "replace-one"}
        Which data sets are neighbors; "add-remove" unless said.
    max_rows : int, optional
        A person counts for at most so many rows.
    csv : CsvFormat, optional
        How a CSV source is written.
    date : str, optional
        What stands for {date} in the path: "2026-11-27", "today" or "today-1".
    declaration : str or path, optional
        The file that declares the table; unless said `sordino.toml` in this folder, or in the
        nearest one above it.
    lookup : mapping of str to Lookup, optional
        Other tables that say more about the rows, public or by the person: {"products":
        Lookup("products.csv", key="product")} makes "products.category" a column.
    second_budget : bool
        Whether an account is meant beside one that the ledger has for the same table already. Both
        together may then be spent on the same people.
    parts : {"hour", "day", "month", "year"}, optional
        Of an account that is made here: which column of the person, a time that is cut so, its
        parts are. Each part then has the whole budget for itself, because nobody is in two.
    part : str, optional
        Of an account with parts: which rows are read, and what is charged: "2026-11-27", "2026-11",
        "2026-11-01..2026-11-15", "today", "today-1". Without it the whole table is read, and all
        parts are charged, future ones too.

    Returns
    -------
    Session
        That releases, and charges the account.

    Raises
    ------
    InvalidParameter
        If something is missing, or said twice, or the table has no such column.
    LedgerConflict
        If the account is there and does not fit, or the table has another one.
    DataSourceError, UnsupportedBackend, LedgerError
        If table or ledger cannot be opened. Nothing is made then.

    Notes
    -----
    The labels of a release must be public, so they must not come from the table itself:
    ``df["product"].unique()`` tells who is in it. List them, name a file that does
    (`Domain.from_file`), or say ``domain="assume-public"``, which is printed and recorded.

    Examples
    --------
    >>> import tempfile
    >>> import polars as pl
    >>> import sordino as sd
    >>> folder = tempfile.TemporaryDirectory()
    >>> purchases = pl.DataFrame({"customer_id": [n % 900 for n in range(4000)],
    ...                           "product": [("tea", "rice")[n % 7 > 4] for n in range(4000)]})
    >>> shop = sd.open(purchases, name="purchases", person="customer_id", epsilon=2,
    ...                save=folder.name + "/budget.db")
    >>> top = shop.top_k("product", k=1, epsilon=0.5, domain=["coffee", "rice", "tea"])
    >>> sd.Ledger.open(folder.name + "/budget.db", account="purchases").remaining
    Fraction(3, 2)
    >>> folder.cleanup()
    """
    said = {
        "person": person,
        "row": row or None,
        "epsilon": epsilon,
        "delta": delta,
        "save": save,
        "name": name,
        "adjacency": adjacency,
        "max_rows": max_rows,
        "csv": csv,
        "lookup": lookup,
        "second_budget": second_budget or None,
        "parts": parts,
    }
    given = [one for one, value in said.items() if value is not None]
    _check_texts(source, declaration, save, date, part)
    if declaration is not None or _is_declared_name(source):
        if given:
            raise InvalidParameter(
                f"open.{given[0]} must be left out where the declaration says it; got it, and the "
                "name of a declared table. Change the declaration, or name the table by its path."
            )
        return _open_declared(source, declaration, date, read_part(part, date, "open.part"))
    if (person is None) != bool(row):
        raise InvalidParameter(
            "open.person must say whom a row belongs to, or row=True that each row is somebody "
            f"else; got {'both' if row else 'neither'}."
        )
    unit = PrivacyUnit(person, adjacency=adjacency or "add-remove", max_rows=max_rows)
    budget = None if epsilon is None else Budget(epsilon=epsilon, delta=delta or 0)
    url, read = os.fspath(LEDGER if save is None else save), read_part(part, date, "open.part")
    lies = os.fspath(source) if isinstance(source, str | os.PathLike) else None
    if lies is None and date is not None:
        put_day("a table in memory", date, "open.date")
    here = source if lies is None else put_day(lies, date, "open.date")
    called = name_table(lies, url) if name is None else name
    TABLE_NAME("open.name", called)
    opened = look_up(open_source(here, csv=csv, name=called), lookup)
    opened.take_unit(unit.columns, "open.person")
    check_lookups(opened, unit, charged=True)
    wanted = WantedAccount(
        account=called,
        name=called,
        place="" if lies is None else known_source(lies),
        unit=unit,
        epsilon=None if budget is None else Fraction(budget.epsilon),
        delta=None if delta is None or budget is None else Fraction(budget.delta),
        second=second_budget,
        parts=parts or "",
        named=name is not None,
        say_account="name={!r}",
        say_second="second_budget=True",
        say_epsilon="open.epsilon",
        others=tuple(one.name for one in opened.private_tables),
    )
    ledger = make_or_find(url, wanted, budget)
    if name_for(called, ledger) is None:
        # The account was made for the path, by `Ledger.create`.
        opened = look_up(open_source(here, csv=csv), lookup)
    return Session(opened, unit=unit, ledger=ledger, entropy=SYSTEM, csv=csv, part=read)


def _check_texts(
    source: object, declaration: object, save: object, day: object, part: object
) -> None:
    """Refuse what is no text where one must be said."""
    path = (str | os.PathLike, "a text or a path")
    wanted: dict[str, tuple[object, tuple[type | UnionType, str]]] = {
        "source": (
            None if declaration is None else source,
            (str, "the name of a table that the declaration has"),
        ),
        "part": (part, (str, "a text such as '2026-11-27' or 'today'")),
        "declaration": (declaration, path),
        "save": (save, path),
        "date": (day, (str, "a text such as '2026-11-27' or 'today'")),
    }
    for name, (value, (kind, what)) in wanted.items():
        if value is not None and not isinstance(value, kind):
            raise InvalidParameter(f"open.{name} must be {what}; got {type(value).__name__}.")


def _is_declared_name(source: Any) -> bool:
    """Tell whether a source can only be the name of a declared table, or surely is one."""
    if not isinstance(source, str) or TABLE_NAME.convert(source) is None:
        return False
    if not Path(source).exists():
        return True
    path = find_declaration()
    if path is not None and source in open_declaration(path).take_table("table"):
        raise InvalidParameter(say_ambiguous(source, path, f"declaration={path!r}"))
    return False


def say_ambiguous(name: str, path: str, option: str) -> str:
    """Return the sentence about a name that is that of a table and of a path."""
    return (
        f"{name!r} must be one table, but {path} declares one of that name, and a file or folder "
        f"has it, too. Write ./{name} for the path, or give {option} for the declared table."
    )


def _open_declared(
    source: Any, declaration: str | os.PathLike[str] | None, day: str | None, part: str | None
) -> Session:
    path = find_declaration() if declaration is None else os.fspath(declaration)
    if path is None:
        raise InvalidParameter(
            f"open.source must be a path, or a table that is declared; {source!r} is no path, and "
            "there is no sordino.toml here or above. Make one: sordino declare FILE."
        )
    table = find_table(open_declaration(path), source, day)
    ledger = Ledger.open(table.ledger, account=table.account)
    _, form, memory, temp = table.source
    opened = table.open_source(form, ledger, unit=table.unit, memory_limit=memory, temp_limit=temp)
    return Session(opened, unit=table.unit, ledger=ledger, entropy=SYSTEM, csv=form, part=part)


def name_table(source: str | None, url: str) -> str:
    """Return what a table is called that nobody names.

    Raises
    ------
    InvalidParameter
        If that could mean another one.
    """
    if source is not None:
        return name_after(source.replace("{date}", ""))
    others = [one for one in list_account_names(url) if one != UNNAMED]
    if others:
        raise InvalidParameter(
            "open.name must say what you call this table, because its ledger has accounts of "
            f"others: {', '.join(map(repr, others))}; got None."
        )
    return UNNAMED
