"""Counting questions: prepared from public things alone, and asked after the charge."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast, final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import DOMAIN_SIZE, one_of, shown
from sordino.errors import InvalidParameter, UnboundedContribution, UnknownDomain
from sordino.questions.domain import Domain
from sordino.questions.labels import MOST_CELLS, Numbered, name_columns, write_listed, write_places
from sordino.questions.rank_law import Draw, choose_ranks, count_sets, fits_sets
from sordino.questions.unit import Kind, PrivacyUnit, VectorNorm, each_answer
from sordino.releases import Label
from sordino.sensitivity import Sensitivity
from sordino.sources.computed_columns import find_function
from sordino.sources.engine import Answer, Progress, Scan, after_charge
from sordino.sources.number_stream import count_places
from sordino.sources.source import ReaderBackend, Source
from sordino.sources.sql.sql_templates import LONGEST_LABEL, SqlTemplates

_BYTES_OF_COUNT = 24
"""As much as a row of an answer takes on its way: a position and a count, with room to spare."""
_BYTES_OF_CHARACTER = 5
"""At most 4 in UTF-8, and room to spare for what a task sends beside its rows."""
_DIGITS = 20
"""A number of a range has at most so many characters."""
_RANGE_COLUMN_TYPE = re.compile(
    r"VARCHAR|U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?|DECIMAL\(\d+,\s*0\)|FLOAT|DOUBLE|ENUM\(.*\)",
    re.DOTALL,
)
"""Declared types that may hold values written like whole numbers."""

MANY_PLACES = 1 << 14
"""From so many on places are counted as they are handed on, if there are at most `MOST_CELLS`."""

SALT = 16
"""A salt has at least this many bytes."""


@final
@dataclass(frozen=True)
class Counts:
    """Private counts on their way to a mechanism; their `repr` shows none of them.

    With positions there are only the counts that are not 0, sorted by position. Without, there is
    one for each label. Of a domain that nobody listed the labels are private as well; they are
    sorted by code point.
    """

    values: NDArray[np.int64] = field(repr=False)
    labels: Sequence[Label] = field(repr=False)
    positions: NDArray[np.int64] | None = field(default=None, repr=False)

    def at(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the counts of some labels, by their places in the domain."""
        if self.positions is None:
            return self.values[indices]
        if not self.values.size:
            return np.zeros_like(indices)
        # A position behind the last one that is there would
        # be out of range: it is compared with the last one.
        found = np.minimum(np.searchsorted(self.positions, indices), self.values.size - 1)
        return np.where(self.positions[found] == indices, self.values[found], 0)

    def of(self, labels: Sequence[Label]) -> NDArray[np.int64]:
        """Return the counts of some labels that a release has named; private."""
        places = {label: place for place, label in enumerate(self.labels)}
        return self.values[np.array([places[label] for label in labels], dtype=np.int64)]


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
        How far any one answer moves between neighbors.
    best : int or None
        Of a domain that nobody listed only the `best` + 1 largest counts leave the engine, of equal
        ones those of the first labels. None: all.
    places : int or None
        The engine hands on the place of each label that counts, and so many are counted here. None:
        it counts them itself.
    """

    source: Source
    unit: PrivacyUnit
    kind: Kind
    domain: Domain | None
    sensitivity: Sensitivity
    best: int | None
    places: int | None
    indices: tuple[int, ...] = field(repr=False)
    sql: str = field(repr=False)
    labels_sql: str = field(repr=False)

    def joint(self, k: int, norm: VectorNorm = "l1") -> Sensitivity:
        """Return how far `k` answers released together move between neighbors.

        Parameters
        ----------
        k : int
            How many answers, at least 1.
        norm : {"l1", "l2"}
            In which norm.
        """
        return self.sensitivity.over(k, norm)

    def run(self, *, progress: Progress | None = None) -> Counts:
        """Read the rows. Call it after the charge.

        Parameters
        ----------
        progress : callable, optional
            Called now and then with how much has been read, 0 to 100.

        Returns
        -------
        Counts
            int64 counts: one for each label, in the order of the domain (of a range only those that
            are not 0), or a single one. Of a domain that nobody listed: one for each label that at
            least `least` units have, perhaps none.

        Raises
        ------
        DataSourceError
            If anything fails, always with the same message.
        """
        return after_charge(self._work, progress)

    def _work(self, announce: Callable[[Scan], None]) -> Counts:
        labels: Sequence[Label] = ()
        sent: Sequence[str] | None = None
        domain = self.domain
        if domain is not None:
            if not domain.hidden:
                assumed = domain.kind == "assumed public" and domain.known is None
                labels = self._assumed_labels(announce) if assumed else domain.labels
            sent = domain.list_texts(labels)
        with self.source.backend.scan(self.indices) as scan:
            announce(scan)
            take = None if self.places is None else partial(count_places, places=self.places)
            answer = scan.ask(self.sql, sent, take=take)
        if self.kind != "items":
            return Counts(
                np.asarray(answer["n" if self.kind == "rows" else "units"], dtype=np.int64), ()
            )
        if domain is None or domain.hidden:
            return _sort_by_label(answer, len(domain.parts) if domain else 0)
        if domain.is_sparse:
            found, counted = (
                np.asarray(answer[name], dtype=np.int64) for name in ("position", "n")
            )
            if self.places is None:
                # The engine returns groups in any order, and `Counts.at` searches by position.
                order = np.argsort(found)
                found, counted = found[order], counted[order]
            return Counts(counted, labels, found)
        # Labels that no row has are not in the answer. Their count is 0, and they take part like
        # all others.
        values = np.zeros(len(labels), dtype=np.int64)
        values[answer["position"]] = answer["n"]
        return Counts(values, labels)

    def _assumed_labels(self, announce: Callable[[Scan], None]) -> tuple[str, ...]:
        with self.source.backend.scan(self.indices) as scan:
            announce(scan)
            return tuple(sorted(scan.ask(self.labels_sql)["item"].tolist()))


def _sort_by_label(answer: Answer, parts: int) -> Counts:
    """Return counts in the order of their labels, which no row and no engine decides.

    Each label is one text, or so many parts.
    """
    labels: list[Label] = [] if parts else answer["item"].tolist()
    if parts:
        columns = [answer[f"item{place}"].tolist() for place in range(parts)]
        labels = list(zip(*columns, strict=True))
    # Python compares texts by code points, which is how their bytes in UTF-8 compare, and tuples
    # of texts part by part.
    order = sorted(range(len(labels)), key=cast("list[Any]", labels).__getitem__)
    values = np.asarray(answer["n"], dtype=np.int64)
    return Counts(values[np.array(order, dtype=np.intp)], tuple(labels[place] for place in order))


def prepare_counts(
    source: Source,
    unit: PrivacyUnit,
    *,
    kind: Kind,
    item: str | Sequence[str] | None = None,
    domain: Domain | Iterable[object] | None = None,
    where: str | None = None,
    salt: Any = b"",
    best: int | None = None,
) -> CountQuestion:
    """Check a counting question against what is public about a source.

    Parameters
    ----------
    source : Source
        The opened table.
    unit : PrivacyUnit
        Who is protected. Rows without a unit are dropped.
    kind : {"items", "rows", "units"}
        "items": for each label of the domain, the number of distinct units that have it (rows, if
        the unit is the row). "rows": the number of rows, at most `max_rows` of a unit. "units": the
        number of distinct units.
    item : str or sequence of str, optional
        The column with the labels, for kind "items"; of several columns a label is a tuple.
    domain : Domain or iterable of labels, optional
        The labels to count, for kind "items". Other labels are dropped, absent ones count 0. With
        `Domain.unlisted` all labels of the column are counted, and those of at least `least` units
        returned; then a unit needs a bound on its items (`max_rows`), or `best`.
    where : str, optional
        A row predicate.
    salt : bytes
        At least 16 secret random bytes, needed if items of a unit are chosen (`max_rows` with kind
        "items").
    best : int, optional
        With `Domain.unlisted`: only the `best` + 1 largest counts leave the engine. From 1 to 2^52.

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
    >>> from sordino.questions import PrivacyUnit, prepare_counts
    >>> from sordino.sources import open_source
    >>> rows = open_source(polars.DataFrame({"item": ["a", "a", "b"], "user": [1, 1, 2]}))
    >>> question = prepare_counts(
    ...     rows, PrivacyUnit("user"), kind="items", item="item", domain=["a", "b", "c"]
    ... )
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
    source = source.take_unit(unit.columns, "PrivacyUnit.column")
    columns, one_item = {}, False
    if kind == "items":
        if item is None:
            raise InvalidParameter("item must name the column with the labels; got None.")
        names = name_columns("item", item)
        columns = list_label_columns(source, names, "item")
        one_item = source.is_of_unit(columns.values(), unit.key)
        # Public files and queries are read now, before the charge, where what is wrong may be
        # explained.
        domain = _require_domain(domain, item).over(names).resolve(source)
        check_ranges(source, names, domain)
        if (domain.kind == "assumed public" or domain.hidden) and not source.legible:
            raise InvalidParameter(
                f"Domain.{'unlisted' if domain.hidden else 'assume_public'} must not go with a "
                "database whose encoding has bytes that are no letters in Unicode, because one row "
                "with such a byte would end the release. List the labels."
            )
        best = _check_best(domain, unit, best)
        if unit.max_rows is not None and not (isinstance(salt, bytes) and len(salt) >= SALT):
            raise InvalidParameter(
                f"salt must be at least {SALT} secret random bytes when max_rows is given; got "
                f"{_describe_salt_length(salt)}."
            )
    elif item is not None or domain is not None or best is not None:
        raise InvalidParameter(
            f"item, domain and best belong to kind 'items'; got them with kind {kind!r}."
        )
    if unit.column is not None:
        # Units are compared as text, as items are (docs/proofs/counts.md).
        columns["unit"] = source.find_unit(unit.columns)
    sensitivity = each_answer(kind, unit, one_item=one_item)
    predicate = None if where is None else source.predicate(where)
    indices = set(columns.values()) | (predicate.indices if predicate is not None else frozenset())
    words = source.backend.dialect.words
    kinds = list(source.columns.values())
    draw = Draw.of(salt, words, kinds[columns["unit"]] if "unit" in columns else None)
    kept = ", ".join(words.name_columns(columns, kinds)) or "1"
    # `total` is true or false for every row, and never fails: a row decides about itself alone.
    kept = f"(SELECT {kept} FROM {source.write_rows(indices)}" + (
        f" WHERE {predicate.total})" if predicate is not None else ")"
    )
    known = domain if isinstance(domain, Domain) else None
    tuples = None if known is None else known.tuples
    if known is not None and known.numbered is not None:
        # Rows whose value is not in the range are dropped here: a rule of each row by itself.
        kept = placed(
            kept, known.numbered.start, known.numbered.size, words, unit=unit.column is not None
        )
    elif tuples is not None:
        more = [] if unit.column is None else ["unit"]
        kept = write_places(kept, tuples, words, carried=more, named="item")
    one = "item" in columns
    item_text = words.label(columns["item"], kinds[columns["item"]]) if one else "1"
    if known is not None and known.hidden:
        sql = labels_query(
            known, unit, kept, draw, {n: kinds[at] for n, at in columns.items()}, best
        )
    else:
        listed = known is None or (known.numbered is None and tuples is None)
        sql = count_query(
            kind,
            unit,
            kept,
            draw,
            listed=listed,
            size=_find_size(known),
            counts=_find_places(source, known) is None,
        )
    question = CountQuestion(
        source=source,
        unit=unit,
        kind=kind,
        domain=known,
        sensitivity=sensitivity,
        best=best,
        places=_find_places(source, known),
        indices=source.find_read(indices),
        sql=sql,
        # Over all rows, without the predicate: labels are
        # assumed public for the whole source, before any filter.
        labels_sql=(
            f"SELECT item FROM (SELECT {words.readable.format('item')} AS item"
            " FROM (SELECT DISTINCT item"
            f" FROM (SELECT {item_text} AS item FROM {source.write_rows(indices)}) AS texts)"
            " AS listed) AS found"
            " WHERE item IS NOT NULL"
        ),
    )
    _rehearse_counts(question)
    return question


def _find_places(source: Source, domain: Domain | None) -> int | None:
    """Return how many places are counted as they are handed on; None where the engine counts."""
    placed = domain is not None and (domain.numbered is not None or domain.tuples is not None)
    if domain is None or not placed or not isinstance(source.backend, ReaderBackend):
        return None
    return domain.size if MANY_PLACES <= domain.size <= MOST_CELLS else None


def list_label_columns(source: Source, names: Sequence[str], role: str) -> dict[str, int]:
    """Return where the columns of labels stand: as `item`, or of several as item0, item1 and so on.

    Raises
    ------
    InvalidParameter
        If there is no such column, or its declared type has no exact text.
    """
    called = ["item"] if len(names) == 1 else [f"item{place}" for place in range(len(names))]
    indices = [source.label_index(name, role) for name in names]
    return dict(zip(called, indices, strict=True))


def check_ranges(source: Source, names: Sequence[str], domain: Domain) -> None:
    """Refuse columns of which no value could belong to their range."""
    for name, part in zip(names, domain.parts or (domain,), strict=False):
        if part.numbered is not None:
            _check_range_column(source, name)


def _describe_salt_length(salt: Any) -> str:
    # Never the salt itself: it is secret.
    return f"{len(salt)} bytes" if isinstance(salt, bytes) else type(salt).__name__


def _require_domain(domain: Any, item: str | Sequence[str]) -> Domain:
    # Labels from the private rows would tell which of them occur. So there is no default.
    if domain is None:
        raise UnknownDomain(
            f"The labels of this release {say_lacking(item)}: for that say "
            'domain="assume-public" (--assume-public), which is printed and recorded.'
        )
    return to_domain(domain)


_SPANS = {
    "year": "2024..2025",
    "quarter": "2025-Q1..2025-Q4",
    "month": "2025-01..2025-12",
    "week": "2025-W01..2025-W52",
    "day": "2025-01-01..2025-12-31",
}
"""Which dates a call writes."""


def say_lacking(named: str | Sequence[str]) -> str:
    """Return that labels of a column must be listed, and how, as the rest of a sentence."""
    span = _SPANS.get(find_function(named) or "")
    listed = (
        'domain=["tea", "rice"] or a file (Domain.from_file, --domain FILE)'
        if span is None
        else f'the dates from one to another, such as domain="{span}" (--domain {span})'
    )
    return (
        f"must have a public domain; got none. Give {listed}, or declare it once: labels.COLUMN = "
        f'"{span or "FILE"}" in sordino.toml. A list that was made of the table itself, as by '
        "unique(), tells who is in it"
    )


def to_domain(given: Any) -> Domain:
    """Return the domain that a list of labels, or a mapping of columns to their labels, is."""
    if isinstance(given, Domain):
        return given
    return Domain.product(given) if isinstance(given, Mapping) else Domain.of(given)


def _check_best(domain: Domain, unit: PrivacyUnit, best: Any) -> int | None:
    """Return how many counts are wanted, if not all.

    See that labels which nobody listed are bounded.
    """
    if best is not None:
        if not domain.hidden:
            raise InvalidParameter(
                f"best belongs to Domain.unlisted; got {shown(best)} with labels that are "
                f"{domain.kind}."
            )
        count: int = DOMAIN_SIZE("best", best)
        return count
    # How surely a label of one unit stays unknown depends on how many a unit can have.
    if domain.hidden and unit.column is not None and unit.max_rows is None:
        raise UnboundedContribution(
            "Domain.unlisted must have a bound on the labels of each person; got none. Say it "
            "where the table is opened, such as max_rows=5 (--max-rows 5), which may be generous."
        )
    return None


def _check_range_column(source: Source, item: str) -> None:
    """Refuse a column of which no value could belong to a range; its declared type is public."""
    kind = source.columns[item]
    # In pandas a column of truth values becomes one of texts if one value is something else. Texts
    # are not refused, so truth values are not refused either.
    if not _RANGE_COLUMN_TYPE.fullmatch(kind) and not (source.inferred and kind == "BOOLEAN"):
        raise InvalidParameter(
            "Domain.range and Domain.indexed must go with a column of whole numbers, "
            f"or of texts that are such numbers; got {item!r} of type "
            f"{shown(kind)[1:-1]}. Convert the column at its source, or list its labels."
        )


def _rehearse_counts(question: CountQuestion) -> None:
    """Ask the question of an empty table of the declared types.

    What fails here would fail on any rows.
    """
    labels, domain = None, question.domain
    if question.kind == "items" and (domain is None or domain.list_texts(()) is not None):
        read = domain is None or domain.kind == "assumed public"
        # An engine that lacks some characters refuses labels with them. So each character is sent
        # once now, and a failure comes before the charge.
        sent = (
            set().union(*(domain.list_texts(() if domain.hidden else domain.labels) or ()))
            if domain and not read and not question.source.backend.dialect.every_character
            else ()
        )
        labels = ("".join(sorted(sent)),)
    asked = [(question.sql, labels)] + (
        [(question.labels_sql, labels)] if labels is not None else []
    )
    question.source.rehearse(question.indices, asked, largest=_find_largest(question))


def _find_largest(question: CountQuestion) -> int | None:
    """Return how many bytes an answer has at most, whatever the rows are.

    None if no public number says.
    """
    if question.best is not None:
        # Of labels that nobody listed nothing is known but how long they may be.
        parts = (question.domain.listed_parts if question.domain else ()) or (None,)
        longest = sum(map(_find_longest, parts))
        return (question.best + 1) * (_BYTES_OF_COUNT + _BYTES_OF_CHARACTER * longest)
    size = _find_size(question.domain)
    return None if size is None else size * _BYTES_OF_COUNT


def _find_longest(part: Sequence[str] | None) -> int:
    """Return how many characters a label has at most, by what is public about its column."""
    if part is None:
        return LONGEST_LABEL
    return _DIGITS if isinstance(part, Numbered) else max(map(len, part))


# ---- query ---------------------------------------------------------------------------------------
# Writes the one SQL query of a counting question; every engine is asked the same, in its own words.


def placed(kept: str, start: int, size: int, words: SqlTemplates, *, unit: bool) -> str:
    """Return the rows whose item is a number of a range, written as usual.

    Their item is now its position in the range, as text.
    """
    more = ", unit" if unit else ""
    position = f"{words.whole.format('item')} - ({start})"
    # Other values have no place (NULL), or one outside the range: the comparisons leave all such
    # rows out.
    return (
        f"(SELECT {words.shown.format('place')} AS item{more} FROM "
        f"(SELECT {position} AS place{more} FROM {kept} AS kept) AS found "
        f"WHERE place >= 0 AND place < {size})"
    )


def _find_size(domain: Domain | None) -> int | None:
    """Return how many labels there are, if that is known before rows are read."""
    if domain is None or domain.hidden:
        return None
    assumed = domain.known is None and domain.numbered is None
    return None if assumed else domain.size


def count_query(
    kind: Kind,
    unit: PrivacyUnit,
    kept: str,
    draw: Draw,
    *,
    listed: bool,
    size: int | None = None,
    counts: bool = True,
) -> str:
    """Return the query; `kept` has the columns item and unit, as texts or NULL.

    If the domain is not listed, the items are positions. The counts themselves leave out missing
    values (a filter, a join on `item`), which costs nothing. `size` is the number of labels,
    if it is known. Rows have an answer `n`, units one that is called `units`, items `position` and
    `n`. Where it shall not count, a position for each unit that has it is all.
    """
    if kind != "items":
        if unit.column is None:
            return f"SELECT count(*) AS n, count(*) AS units FROM {kept} AS kept"
        # Rows without a unit are dropped: `count(DISTINCT unit)` leaves NULL out.
        if unit.max_rows is None:
            return f"SELECT count(DISTINCT unit) AS units FROM {kept} AS kept"
        # The cap is on the count of each unit, not on which rows
        # count: rows are interchangeable here, so no salt is used.
        bounded = (
            f"(SELECT least(count(*), {unit.max_rows}) AS n FROM {kept} AS kept"
            " WHERE unit IS NOT NULL"
            " GROUP BY unit)"
        )
        # One query for both kinds, which is asked once if a batch counts rows and units. The sum
        # over no rows is NULL, and engines widen the type of sums: the answer has 64 bits anyway.
        return (
            "SELECT CAST(coalesce(sum(n), 0) AS BIGINT) AS n, count(*) AS units"
            f" FROM {bounded} AS bounded"
        )
    return _write_items_query(unit, kept, draw, listed=listed, size=size, counts=counts)


def _write_items_query(
    unit: PrivacyUnit, kept: str, draw: Draw, *, listed: bool, size: int | None, counts: bool
) -> str:
    """Return the query for items of a domain, each by its position in it."""
    # No unit has more items than there are labels: where all of them may count, nothing is chosen.
    if (
        unit.column is not None
        and size is not None
        and unit.max_rows is not None
        and size <= unit.max_rows
    ):
        unit = replace(unit, max_rows=None)
    if listed and unit.column is not None:
        # From here on an item is the place of its label: a domain is sorted, so places have the
        # order of the labels, and they take less room. Labels that are not listed take no place of
        # a unit.
        kept = (
            "(SELECT CAST(position AS INTEGER) AS item, unit"
            f" FROM {kept} AS kept JOIN labels ON item = label)"
        )
        if fits_sets(size, draw.words):
            return count_sets(kept, most=unit.max_rows, draw=draw)
        counted = _count_items(unit, kept, draw, "TRUE")
        return f"SELECT item AS position, n FROM ({counted}) AS counted"
    if not counts:
        # A place is within the domain, so it fits.
        had = _list_items(unit, kept, draw, "TRUE")
        return f"SELECT CAST(item AS UINTEGER) AS place FROM ({had}) AS had"
    counted = _count_items(unit, kept, draw, "TRUE")
    if listed:
        return f"SELECT position, n FROM ({counted}) AS counted JOIN labels ON item = label"
    return f"SELECT CAST(item AS BIGINT) AS position, n FROM ({counted}) AS counted"


def labels_query(
    domain: Domain,
    unit: PrivacyUnit,
    kept: str,
    draw: Draw,
    kinds: Mapping[str, str],
    best: int | None,
) -> str:
    """Return the query for labels that nobody listed, each with its count.

    `kept` is that of `count_query`, with a column for each part of a label: they are never joined.
    `kinds` are the declared types. Only what at least `least` units have leaves the engine.
    """
    items = [name for name in kinds if name != "unit"]
    # Which texts can be such labels: by the declared type, which is public, and the text.
    plain = " AND ".join(
        draw.words.is_plain(name, kinds[name])
        for name, part in zip(items, domain.parts or (domain,), strict=True)
        if part.hidden
    )
    if domain.parts:
        # What is not listed for the other columns is dropped before a unit chooses.
        more = [] if unit.column is None else ["unit"]
        kept = write_listed(kept, domain.listed_parts, draw.words, carried=more)
    counted = _count_items(unit, kept, draw, plain, items)
    # Asked of labels with their counts, and not of each row, which would take longer: it sees
    # nothing but the label, so the answer is the same. The edge is one on what is counted: units
    # have chosen their items.
    query = (
        f"SELECT {', '.join(items)}, n FROM ({counted}) AS counted"
        f" WHERE CASE WHEN n >= {domain.least} THEN {plain} ELSE FALSE END"
    )
    if best is None:
        return query
    # Equal counts are ordered by their labels, and never by a row, a hash or time: part by part, as
    # the mechanism orders them.
    ties = ", ".join(map(draw.words.code_points.format, items))
    return f"{query} ORDER BY n DESC, {ties} LIMIT {best + 1}"


def _count_items(
    unit: PrivacyUnit, kept: str, draw: Draw, inside: str, items: Sequence[str] = ("item",)
) -> str:
    """Return each item with its number of units.

    Items that are not `inside` take no place of a unit.
    """
    item = ", ".join(items)
    had = _list_items(unit, kept, draw, inside, items)
    return f"SELECT {item}, count(*) AS n FROM ({had}) AS had GROUP BY {item}"


def _list_items(
    unit: PrivacyUnit, kept: str, draw: Draw, inside: str, items: Sequence[str] = ("item",)
) -> str:
    """Return an item for each unit that counts for it; parameters as above."""
    item = ", ".join(items)
    if unit.column is None:
        # A row is a unit here, and has one item.
        return f"SELECT {item} FROM {kept} AS kept"
    if unit.max_rows is None:
        # DISTINCT, so that an item counts a unit once, however many of its rows have the item.
        return f"SELECT DISTINCT {item}, unit FROM {kept} AS kept WHERE unit IS NOT NULL"
    return _choose_items(kept, unit.max_rows, draw, inside, items)


def _choose_items(
    kept: str, most: int, draw: Draw, inside: str, items: Sequence[str] = ("item",)
) -> str:
    """Return at most `most` distinct items of each unit, by the law of ranks.

    No other unit takes part.

    Items that are not `inside` are not chosen: they would waste the bound.
    """
    pairs = (
        f"(SELECT DISTINCT {', '.join(items)}, unit FROM {kept} AS kept"
        f" WHERE unit IS NOT NULL AND {inside})"
    )
    return choose_ranks(pairs, taken=items, owner=["unit"], order=items, most=most, draw=draw)
