"""Counting questions: prepared from public things alone, with the sensitivity they earn, and asked after the charge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import duckdb
import numpy as np
from numpy.typing import NDArray

from sordino.constraints import one_of, shown
from sordino.data._domain import Domain, Numbered
from sordino.data._engine import Progress, Scan, after_charge, engine, literal
from sordino.data._sensitivity import Kind, each_answer, together
from sordino.data._source import Source
from sordino.data._unit import PrivacyUnit
from sordino.errors import DataSourceError, InvalidParameter, UnknownDomain
from sordino.sensitivity import Sensitivity

SALT = 16
"""A salt has at least this many bytes."""


@final
@dataclass(frozen=True)
class Counts:
    """Private counts on their way to a mechanism; their `repr` shows none of them.

    With positions, only the counts that are not 0 are there, sorted by position; without, there is one for each label.
    """

    values: NDArray[np.int64] = field(repr=False)
    labels: Sequence[str] = field(repr=False)
    positions: NDArray[np.int64] | None = field(default=None, repr=False)

    def at(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the counts of some labels, by their places in the domain."""
        if self.positions is None:
            return self.values[indices]
        if not self.values.size:
            return np.zeros_like(indices)
        found = np.minimum(np.searchsorted(self.positions, indices), self.values.size - 1)
        return np.where(self.positions[found] == indices, self.values[found], 0)


@final
@dataclass(frozen=True)
class CountQuestion:
    """A question that is ready: everything public has been checked, and no row has been read.

    Parameters
    ----------
    kind : {"items", "rows", "units"}
        What is counted.
    unit : PrivacyUnit
        Who is protected.
    domain : Domain or None
        The items that are counted; its labels are known unless they are assumed public.
    sensitivity : Sensitivity
        How far any one answer moves between neighbours.
    """

    source: Source
    unit: PrivacyUnit
    kind: Kind
    domain: Domain | None
    sensitivity: Sensitivity
    indices: tuple[int, ...] = field(repr=False)
    sql: str = field(repr=False)
    labels_sql: str = field(repr=False)

    def joint(self, k: int) -> Sensitivity:
        """Return how far `k` answers released together move between neighbours, in L1.

        Parameters
        ----------
        k : int
            How many answers, at least 1.
        """
        return together(self.kind, self.unit, k)

    def run(self, *, progress: Progress | None = None) -> Counts:
        """Read the rows. Call it after the charge.

        Parameters
        ----------
        progress : callable, optional
            Called now and then with how much has been read, 0 to 100.

        Returns
        -------
        Counts
            int64 counts: one for each label in the order of the domain (of a range, those that are not 0), or a single one.

        Raises
        ------
        DataSourceError
            If anything fails, always with the same message.
        """
        return after_charge(self._work, progress)

    def _work(self, announce: Callable[[Scan], None]) -> Counts:
        numbered = None if self.domain is None else self.domain.numbered
        labels = () if self.domain is None or numbered is not None else self.domain.known
        if labels is None:
            labels = self._assumed_labels(announce)
        with self.source.backend.scan(self.indices) as scan:
            announce(scan)
            answer = scan.ask(self.sql, labels if self.kind == "items" and numbered is None else None)
        if self.kind != "items":
            return Counts(np.asarray(answer["n"], dtype=np.int64), ())
        if numbered is not None:
            order = np.argsort(answer["position"])
            found, counted = (np.asarray(answer[name], dtype=np.int64)[order] for name in ("position", "n"))
            return Counts(counted, numbered, found)
        values = np.zeros(len(labels), dtype=np.int64)
        values[answer["position"]] = answer["n"]
        return Counts(values, labels)

    def _assumed_labels(self, announce: Callable[[Scan], None]) -> tuple[str, ...]:
        with self.source.backend.scan(self.indices) as scan:
            announce(scan)
            return tuple(sorted(scan.ask(self.labels_sql)["item"].tolist()))


def prepare_counts(
    source: Source,
    unit: PrivacyUnit,
    *,
    kind: Kind,
    item: str | None = None,
    domain: Domain | Iterable[object] | None = None,
    where: str | None = None,
    salt: Any = b"",
) -> CountQuestion:
    """Check a counting question against what is public about a source.

    Parameters
    ----------
    source : Source
        The opened table.
    unit : PrivacyUnit
        Who is protected. Rows without a unit are dropped.
    kind : {"items", "rows", "units"}
        "items": for each label of the domain, the number of distinct units that have it (rows, if the unit is the row). "rows": the
        number of rows, at most `max_rows` of a unit. "units": the number of distinct units.
    item : str, optional
        The column with the labels, for kind "items".
    domain : Domain or iterable of labels, optional
        The labels to count, for kind "items". Other labels are dropped, absent ones count 0.
    where : str, optional
        A row predicate.
    salt : bytes
        At least 16 secret random bytes, needed if items of a unit are chosen (`max_rows` with kind "items").

    Returns
    -------
    CountQuestion
        Its `sensitivity` and `joint(k)` are known now; `run` reads the rows after the charge.

    Raises
    ------
    InvalidParameter, UnknownDomain, UnboundedContribution, UnsafePredicate, DataSourceError
        If the question cannot be asked; nothing has been read.

    Examples
    --------
    >>> import polars
    >>> from sordino.data import PrivacyUnit, open_source, prepare_counts
    >>> rows = open_source(polars.DataFrame({"item": ["a", "a", "b"], "user": [1, 1, 2]}))
    >>> question = prepare_counts(rows, PrivacyUnit("user"), kind="items", item="item", domain=["a", "b", "c"])
    >>> question.sensitivity.spread
    Fraction(1, 1)
    >>> question.run().values  # private: only a mechanism may see them
    array([1, 1, 0])
    """
    one_of("items", "rows", "units")("kind", kind)
    if not isinstance(source, Source):
        raise InvalidParameter(f"source must be what open_source returns; got {shown(source)}.")
    if not isinstance(unit, PrivacyUnit):
        raise InvalidParameter(f"unit must be a PrivacyUnit; got {shown(unit)}.")
    sensitivity = each_answer(kind, unit)
    columns = {}
    if kind == "items":
        if item is None:
            raise InvalidParameter("item must name the column with the labels; got None.")
        columns["item"] = source.label_index(item, "item")
        domain = _domain(domain).resolve(source)
        if unit.max_rows is not None and not (isinstance(salt, bytes) and len(salt) >= SALT):
            raise InvalidParameter(f"salt must be at least {SALT} secret random bytes when max_rows is given; got {_length(salt)}.")
    elif item is not None or domain is not None:
        raise InvalidParameter(f"item and domain belong to kind 'items'; got them with kind {kind!r}.")
    if unit.column is not None:
        columns["unit"] = source.label_index(unit.column, "PrivacyUnit.column")
    predicate = None if where is None else source.predicate(where)
    indices = set(columns.values()) | (predicate.indices if predicate is not None else frozenset())
    kept = ", ".join(f"{_text(index)} AS {name}" for name, index in columns.items()) or "1"
    kept = f"(SELECT {kept} FROM rows" + (f" WHERE {predicate.total})" if predicate is not None else ")")
    known = domain if isinstance(domain, Domain) else None
    if known is not None and known.numbered is not None:
        kept = _placed(kept, known.numbered)
    question = CountQuestion(
        source=source,
        unit=unit,
        kind=kind,
        domain=known,
        sensitivity=sensitivity,
        indices=tuple(sorted(indices)),
        sql=_sql(kind, unit, kept, salt, listed=known is None or known.numbered is None),
        labels_sql=f"SELECT DISTINCT item FROM (SELECT {_text(columns.get('item', 0))} AS item FROM rows) WHERE item IS NOT NULL",
    )
    _rehearse(question)
    return question


def _text(index: int) -> str:
    """Return a column as text that is compared byte by byte; a value that has no text is NULL.

    A column of a database can carry a collation under which different texts are equal: one unit would then answer for another.
    """
    return f"(TRY(CAST(c{index} AS VARCHAR)) COLLATE C)"


def _length(salt: Any) -> str:
    return f"{len(salt)} bytes" if isinstance(salt, bytes) else type(salt).__name__  # never the salt itself


def _domain(domain: Any) -> Domain:
    if domain is None:
        raise UnknownDomain(
            "A question about items must have a public domain: a list of labels, Domain.from_file, Domain.from_sql or "
            "Domain.assume_public (--domain, --domain-sql, --assume-public); got none."
        )
    return domain if isinstance(domain, Domain) else Domain.of(domain)


def _placed(kept: str, labels: Numbered) -> str:
    """Return the rows whose item is the usual text of a number of the range, with its position as the item, as text."""
    number = "TRY_CAST(item AS BIGINT)"
    position = f"CASE WHEN CAST({number} AS VARCHAR) = item THEN CAST({number} AS HUGEINT) - ({labels.start}) END"
    return (
        f"(SELECT CAST(position AS VARCHAR) AS item, * EXCLUDE (item, position) FROM (SELECT *, {position} AS position FROM {kept}) "
        f"WHERE position >= 0 AND position < {labels.size})"
    )


def _sql(kind: Kind, unit: PrivacyUnit, kept: str, salt: bytes, *, listed: bool) -> str:
    """Return the one query; `kept` has the columns item and unit, as texts or NULL. A domain that is not listed has positions as items.

    Missing values are left out by the counts themselves (`count(unit)`, a join on `item`), which costs nothing.
    """
    if kind == "rows":
        if unit.max_rows is None:
            return f"SELECT count(*) AS n FROM {kept}"
        bounded = f"(SELECT least(count(unit), {unit.max_rows}) AS n FROM {kept} GROUP BY unit)"
        return f"SELECT CAST(coalesce(sum(n), 0) AS BIGINT) AS n FROM {bounded}"
    if kind == "units":
        return f"SELECT count({'*' if unit.column is None else 'DISTINCT unit'}) AS n FROM {kept}"
    if unit.column is None:
        counted = f"SELECT item, count(*) AS n FROM {kept} GROUP BY item"
    elif unit.max_rows is None:
        counted = f"SELECT item, count(unit) AS n FROM (SELECT DISTINCT item, unit FROM {kept}) GROUP BY item"
    else:
        counted = f"SELECT item, count(*) AS n FROM ({_chosen(kept, unit.max_rows, salt, listed=listed)}) GROUP BY item"
    if not listed:
        return f"SELECT CAST(item AS BIGINT) AS position, n FROM ({counted}) WHERE n > 0"
    return f"SELECT position, n FROM ({counted}) JOIN labels ON item = label"


def _chosen(kept: str, most: int, salt: bytes, *, listed: bool) -> str:
    """Return at most `most` distinct items of each unit.

    The order depends on the salt, the unit and the item alone: not on where a row stands, and not on any other unit, so adding or
    removing one unit changes no other unit's choice. Items outside the domain are not chosen: they would waste the bound.
    """
    key = f"sha256({literal(salt.hex())} || length(unit) || ':' || unit || item)"
    inside = " AND item IN (SELECT label FROM labels)" if listed else ""
    pairs = f"SELECT DISTINCT item, unit FROM {kept} WHERE unit IS NOT NULL{inside}"
    return f"SELECT item FROM ({pairs}) QUALIFY row_number() OVER (PARTITION BY unit ORDER BY {key}, item) <= {most}"


def _rehearse(question: CountQuestion) -> None:
    """Ask the question of an empty table of the declared types: what fails here would fail on any rows."""
    kinds = list(question.source.columns.values())
    columns = ", ".join(f"CAST(NULL AS {kinds[index]}) AS c{index}" for index in question.indices) or "1"
    labels = ("",) if question.kind == "items" and (question.domain is None or question.domain.numbered is None) else None
    with engine() as opened:
        opened.rows = f"SELECT {columns} WHERE FALSE"
        opened.close_doors(())
        try:
            opened.ask(question.sql, labels)
            if labels is not None:
                opened.ask(question.labels_sql)
        except duckdb.Error:
            raise DataSourceError(
                "The engine cannot plan this question for the declared column types; convert the columns to text at their source."
            ) from None
