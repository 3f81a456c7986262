"""Domains: the public labels that a question about items ranges over.

They never come from the private rows, unless the data holder declares these labels to be public. A domain
that nobody lists knows no label: it says what a release may spend on finding some.
"""

from __future__ import annotations

import csv
import datetime as dt
import glob
import json
import numbers
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, TextIO, final, overload

import duckdb

from sordino.constraints import DOMAIN_SIZE, SHARE, Number, did_you_mean, is_unicode, shown, text
from sordino.data.csv.lines import LONGEST
from sordino.data.sources.engine import Engine, engine, literal, quoted
from sordino.data.sources.source import AS_LABELS, Source, describe_columns
from sordino.data.sources.words import FLOATS
from sordino.errors import DataSourceError, InvalidParameter, UnknownDomain, UnsafePredicate

_LARGEST_RANGE_END = 1 << 62  # whole numbers of a column have 64 bits


@final
@dataclass(frozen=True)
class Numbered(Sequence[str]):
    """The labels of a range, each made when it is asked for.

    They are the whole numbers from `start` on, or what `name` calls their positions.
    """

    start: int
    size: int
    name: Callable[[int], str] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, position: int) -> str: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[str, ...]: ...
    def __getitem__(self, position: int | slice) -> str | tuple[str, ...]:
        if isinstance(position, slice):
            return tuple(self[place] for place in range(*position.indices(self.size)))
        place = int(position) + (self.size if position < 0 else 0)
        if not 0 <= place < self.size:
            raise IndexError(position)
        if self.name is None:
            return str(self.start + place)
        # The function is the caller's: what it returns is checked each time.
        label = self.name(place)
        if not is_unicode(label) or "\0" in label:
            raise InvalidParameter(
                f"Domain.indexed.label must return Unicode text without NUL for {place}; got {shown(label)}."
            )
        return label


@final
@dataclass(frozen=True)
class Domain:
    """A public domain: a sorted list of text labels.

    NULL and duplicates are removed, and labels are sorted by code point. The position of a label is its
    priority in ties.

    Make one with `Domain.of`, `Domain.from_file`, `Domain.from_sql` or `Domain.assume_public`. If there are
    too many labels to list them, use `Domain.range` or `Domain.indexed`, up to 2^52 labels: these are in the
    order of their numbers. If nobody knows the labels, `Domain.unlisted` lets a release find those that many
    units have.

    Examples
    --------
    >>> from sordino.data import Domain
    >>> Domain.of(["b", 10, None, "a", "b"]).labels
    ('10', 'a', 'b')
    >>> Domain.range(1, 10**12 + 1).size
    1000000000000
    """

    kind: Literal["list", "file", "sql", "assumed public", "range", "unlisted"]
    origin: str
    known: tuple[str, ...] | None = field(default=None, repr=False)
    path: Path | None = field(default=None, repr=False)
    column: str | None = field(default=None, repr=False)
    query: str | None = field(default=None, repr=False)
    numbered: Numbered | None = field(default=None, repr=False)
    delta: Fraction | None = field(default=None, repr=False)
    least: int = field(default=1, repr=False)

    @classmethod
    def of(cls, labels: Any) -> Domain:
        """Return the domain of some labels: texts, whole numbers, truth values, dates.

        Raises
        ------
        InvalidParameter
            If a label has no exact text or none is left.
        """
        if isinstance(labels, str | bytes) or not isinstance(labels, Iterable):
            raise InvalidParameter(f"A domain must be a list of labels; got {shown(labels)}.")
        return cls("list", "list", known=_sort_labels(map(label_text, labels), "The list"))

    @classmethod
    def range(cls, start: int, stop: int) -> Domain:
        """Return the domain of the whole numbers from `start` up to, but without, `stop`.

        The labels are never listed. A value of the column counts if it is such a number as it is usually
        written: no leading zeros, no plus sign, no spaces.

        Parameters
        ----------
        start, stop : int
            Between -2^62 and 2^62, at least one and at most 2^52 numbers.

        Raises
        ------
        InvalidParameter
            If they are no such numbers.
        """
        for name, value in (("start", start), ("stop", stop)):
            if not _is_whole_number(value) or abs(value) > _LARGEST_RANGE_END:
                raise InvalidParameter(
                    f"Domain.range.{name} must be a whole number between -2^62 and 2^62; got {shown(value)}."
                )
        size = DOMAIN_SIZE("Domain.range: stop - start", int(stop) - int(start))
        return cls("range", f"range {start}:{stop}", numbered=Numbered(int(start), size))

    @classmethod
    def indexed(cls, size: int, *, label: Callable[[int], str]) -> Domain:
        """Return the domain of the positions 0 to size - 1, which a public function names.

        The column holds positions, as whole numbers. The function is called for what is released and for
        nothing else. So it needs no inverse, and it never meets a private row.

        Parameters
        ----------
        size : int
            From 1 to 2^52.
        label : callable
            From a position to its label, a text.

        Raises
        ------
        InvalidParameter
            If the size is no such number or the label cannot be called.
        """
        count = DOMAIN_SIZE("Domain.indexed.size", size)
        if not callable(label):
            raise InvalidParameter(
                f"Domain.indexed.label must be a function from a position to a text; got {shown(label)}."
            )
        return cls("range", f"indexed {count}", numbered=Numbered(0, count, label))

    @classmethod
    def from_file(cls, path: str | Path, column: str | None = None) -> Domain:
        """Return the domain that one column of a CSV file (comma, header line, UTF-8) or Parquet file lists.

        Parameters
        ----------
        path : path
            A public file; it is read when a source is there to compare it with.
        column : str, optional
            May be left out if the file has one column.
        """
        where = Path(text(str(path), "Domain.from_file.path"))
        if column is not None:
            text(column, "Domain.from_file.column")
        origin = f"file {where}" + (f", column {column}" if column is not None else "")
        return cls("file", origin, path=where, column=column)

    @classmethod
    def from_sql(cls, query: Any) -> Domain:
        """Return the domain that a query over public files lists; it runs where the source cannot be seen.

        Parameters
        ----------
        query : str
            One SELECT statement with one column. Files are named in full: patterns are refused.
        """
        if not isinstance(query, str) or not query.strip():
            raise InvalidParameter(f"Domain.from_sql.query must be a SELECT statement; got {shown(query)}.")
        return cls("sql", "sql", query=query)

    @classmethod
    def assume_public(cls) -> Domain:
        """Declare that the labels of the whole source, before any filter, are public knowledge.

        This is an assumption of the data holder, not a protection. The privacy claim does not cover which
        labels occur.
        """
        return cls("assumed public", "assumed public")

    @classmethod
    def unlisted(cls, *, delta: Number, least: int = 1) -> Domain:
        """Return the domain of all labels of a column, none of which is public.

        Which of them a table holds is private, and a release finds only labels that many units have. With a
        probability of at most `delta` it may say of a label that a single unit has it.

        A label is the text of a value, as it is written: names that differ in a capital, a blank at the end
        or a form of Unicode are different labels, and so are `1` and `1.0`. Never labels are what is missing,
        empty text, NaN, and texts with NUL or of more than 4096 characters.

        Parameters
        ----------
        delta : number in (0, 1)
            What a release may spend of an account's delta on labels, all of it, whatever it finds. Well below
            one over the number of units, such as 1e-6.
        least : int
            Labels that fewer units have never leave the engine. From 1 to 2^52.

        Raises
        ------
        InvalidParameter
            If they are no such numbers.

        Examples
        --------
        >>> from sordino.data import Domain
        >>> Domain.unlisted(delta=1e-6, least=3)
        Domain(kind='unlisted', origin='unlisted, delta 1/1000000, least 3')
        """
        chance = SHARE("Domain.unlisted.delta", delta)
        edge = DOMAIN_SIZE("Domain.unlisted.least", least)
        # The exact number, because a ledger keeps this text.
        return cls("unlisted", f"unlisted, delta {chance}, least {edge}", delta=chance, least=edge)

    @property
    def hidden(self) -> bool:
        """Whether its labels are private: nobody listed them, and no release found them."""
        return self.kind == "unlisted" and self.known is None

    def found(self, labels: Iterable[str]) -> Domain:
        """Return the domain of labels that a release found: they are public now, and only they.

        Raises
        ------
        InvalidParameter
            If this domain is not hidden, or there is none.
        """
        if not self.hidden:
            raise InvalidParameter(
                f"Domain.found belongs to Domain.unlisted; the labels of this domain ({self.origin}) are "
                "known without a release."
            )
        return replace(self, known=_sort_labels(labels, "What was found"))

    @property
    def labels(self) -> Sequence[str]:
        """The labels; those of a range are made when they are asked for.

        Raises
        ------
        UnknownDomain
            If they are not known yet: `resolve` reads files and queries; assumed labels are read after the
            charge; those of an unlisted domain are private.
        """
        if self.numbered is not None:
            return self.numbered
        if self.hidden:
            raise UnknownDomain(
                f"The labels of this domain ({self.origin}) are private: only a release may find some."
            )
        if self.known is None:
            raise UnknownDomain(
                f"The labels of this domain ({self.origin}) are not known before it is resolved for a source."
            )
        return self.known

    @property
    def size(self) -> int:
        """The number of labels."""
        return len(self.labels)

    def resolve(self, source: Source) -> Domain:
        """Return this domain with its labels read; assumed labels stay unknown until the charge.

        Raises
        ------
        UnsafePredicate
            If it would be read from the private source itself.
        InvalidParameter, DataSourceError
            If the file or the query cannot be used.
        """
        # A range is known by its ends. Assumed labels stand in private rows: they are read after the charge.
        # Labels that nobody listed are private, before and after.
        if self.known is not None or self.kind in {"assumed public", "range", "unlisted"}:
            return self
        # All that follows happens before the charge, and may be explained: it reads public things only.
        if self.query is not None:
            return replace(self, known=_sort_labels(labels_of_query(self.query, source), "The domain query"))
        path = self.path or Path()
        if not path.is_file():
            raise DataSourceError(f"The domain file must exist; got {path}.")
        # Labels from the private rows would say which of them occur.
        if source.holds(path):
            raise UnsafePredicate(
                "A domain must not be read from the private source "
                f"itself; got {path}. Use a public list of labels."
            )
        column, labels = self._file_labels(path)
        return replace(
            self, origin=f"file {path}, column {column}", known=_sort_labels(labels, f"The file {path}")
        )

    def _file_labels(self, path: Path) -> tuple[str, Iterable[str | None]]:
        if path.suffix.lower() in {".parquet", ".pq"}:
            return labels_of_parquet(path, self.column)
        try:
            # "-sig": a byte order mark in front is no part of the name of the first column.
            with path.open(encoding="utf-8-sig", newline="") as file:
                rows = csv.reader(_read_bounded_lines(file), strict=True)
                # The file is public, so this reader may be stricter
                # than the one for private rows: it refuses bad quotes.
                names = next(rows, [])
                name = one_column(names, self.column, path)
                position = names.index(name)
                # An empty field is no label, as it is NULL in a CSV source. Nor is a field that a line lacks.
                return name, [row[position] or None for row in rows if len(row) > position]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise DataSourceError(
                f"The domain file must be UTF-8 CSV with a header line, or Parquet; {path} is not "
                f"({type(error).__name__})."
            ) from None


def _read_bounded_lines(file: TextIO) -> Iterator[str]:
    """Yield the lines of a file, and stop at one that is too long before it is in memory."""
    # One character more than allowed is enough to see that a line is too long.
    while line := file.readline(LONGEST + 1):
        if len(line) > LONGEST:
            raise csv.Error
        yield line


def one_column(names: list[str], wanted: str | None, path: Path) -> str:
    """Return the column of a domain file that was asked for, or its only one."""
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted is None or wanted not in names:
        if not names:
            raise DataSourceError(f"The domain file must have a header line; {path} has none.")
        raise InvalidParameter(
            f"Domain.column must be one of {', '.join(map(repr, names))} in {path}; got {shown(wanted)}."
            f"{did_you_mean(wanted, names)}"
        )
    return wanted


def label_text(value: Any) -> str | None:
    """Return the text of a public label as the engine writes it, or None for a missing one."""
    if value is None or isinstance(value, str):
        return value
    # Truth values before whole numbers: in Python True is an Integral.
    if isinstance(value, bool) or type(value).__name__ in {"bool_", "bool"}:
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    # As the engine writes a time stamp: a blank in the middle, and no zeros at the end of the fraction.
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return value.isoformat(sep=" ").rstrip("0") if value.microsecond else value.isoformat(sep=" ")
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value.isoformat()
    raise InvalidParameter(
        f"A label must be a text, a whole number, a truth value or a date; got {shown(value)}."
    )


def _is_whole_number(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _sort_labels(labels: Iterable[str | None], what: str) -> tuple[str, ...]:
    # Sorted, so that ties do not depend on the order in which the labels were given.
    found = sorted({label for label in labels if label is not None})
    if not found:
        raise InvalidParameter(f"{what} must have one label or more; got none.")
    # What is no Unicode cannot be sent to an engine, and no text of PostgreSQL holds NUL.
    for label in found:
        if "\0" in label or not is_unicode(label):
            raise InvalidParameter(f"A label must be Unicode text without NUL; got {shown(label)}.")
    return tuple(found)


# ---- labels of a query -------------------------------------------------------------------------------------
# Runs domain queries: SQL over public files that lists the labels of a domain.
#
# They run in an engine of their own. It can open the files that the query names, never those of the source.


def labels_of_query(query: str, source: Source) -> list[str | None]:
    """Return the labels that a query lists.

    Raises
    ------
    UnsafePredicate
        If it is not one SELECT statement, or can see the source.
    InvalidParameter
        If it fails, or does not list one column of texts, whole numbers, dates or truth values.
    """
    # Such a source may read any file, so no query can be shown to stay away from it.
    if not source.files_known:
        raise UnsafePredicate(
            f"A domain query must not see the source, and which files a {source.kind} reads cannot be known. "
            "Write the labels to a file and use Domain.from_file, or open the source by its path."
        )
    with engine() as opened:
        # Before the query runs, and before the engine may open anything: which files could it mean?
        files = _find_named_files(opened, query)
        for path in files:
            if source.holds(path):
                raise UnsafePredicate(
                    f"A domain query must not see the source; it names {path}. Use a public list of labels."
                )
        opened.close_doors([path.absolute() for path in files])
        try:
            # Into a table, so that the query runs once: its type and its labels are both read from there.
            opened.connection.execute(f"CREATE TEMP TABLE domain AS {query}")
        except duckdb.PermissionException:
            raise UnsafePredicate(
                "A domain query may open the files whose names it holds as plain texts, without patterns or "
                "calculations; got another one."
            ) from None
        # The query sees public things only, so the engine may say what is wrong with it.
        except duckdb.Error as error:
            raise InvalidParameter(
                f"The domain query must run; the engine says: {str(error).splitlines()[0]}"
            ) from None
        return _fetch_labels(opened, "SELECT * FROM domain", "the domain query")


def labels_of_parquet(path: Path, column: str | None) -> tuple[str, list[str | None]]:
    """Return the column that was read and its labels."""
    with engine() as opened:
        opened.close_doors([path.absolute()])
        rows = f"SELECT * FROM read_parquet({literal(str(path.absolute()))}, hive_partitioning = false)"
        name = one_column(list(describe_columns(opened, rows, str(path))), column, path)
        return name, _fetch_labels(
            opened, f"SELECT {quoted(name)} FROM ({rows})", f"column {name!r} of {path}"
        )


def _fetch_labels(opened: Engine, select: str, what: str) -> list[str | None]:
    schema = describe_columns(opened, select, what)
    kind = next(iter(schema.values()))
    # The same types as those of items, whose values have one text each, without floats.
    if len(schema) != 1 or not AS_LABELS.fullmatch(kind) or kind in FLOATS:
        kinds = ", ".join(schema.values())
        raise InvalidParameter(
            "A domain must be one column of texts, whole numbers, "
            f"dates or truth values; {what} has {shown(kinds)}."
        )
    rows = opened.connection.execute(
        f"SELECT DISTINCT CAST(label AS VARCHAR) FROM ({select}) AS listed(label)"
    ).fetchall()
    return [row[0] for row in rows]


def _find_named_files(opened: Engine, query: str) -> list[Path]:
    """Return every file that a text in the query could mean."""
    try:
        statements = opened.connection.extract_statements(query)
    except duckdb.Error:
        raise UnsafePredicate(f"A domain query must be one SELECT statement; got {shown(query)}.") from None
    # More than one statement, or another kind of one, could do something else than list labels.
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise UnsafePredicate(f"A domain query must be one SELECT statement; got {shown(query)}.")
    # The engine's own parser, so that no other reading of the query decides which texts it holds.
    row = opened.connection.execute(f"SELECT json_serialize_sql({literal(query)})").fetchone()
    tree = json.loads(row[0]) if row else {"error": True}
    if tree.get("error"):
        raise UnsafePredicate(f"A domain query must be a plain SELECT statement; got {shown(query)}.")
    found: dict[Path, None] = {}
    for word in _walk_texts(tree):
        # Other texts are names of no file: paths hold no NUL, and are no longer than that.
        if "\0" not in word and len(word) < 4096:
            # A pattern counts as all files that it matches: one of them could be the source. It may be
            # absolute, which `Path.glob` refuses.
            matches = glob.glob(word, recursive=True) if set(word) & set("*?[") else []  # noqa: PTH207
            for name in [word, *matches]:
                if _is_file(name):
                    found[Path(name)] = None
    return list(found)


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except OSError:
        return False


def _walk_texts(tree: Any) -> Iterator[str]:
    """Yield every string of a parsed query."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict):
        yield from _walk_texts_of_parts(tree.values())
    elif isinstance(tree, list):
        yield from _walk_texts_of_parts(tree)


def _walk_texts_of_parts(parts: Iterable[Any]) -> Iterator[str]:
    for part in parts:
        yield from _walk_texts(part)
