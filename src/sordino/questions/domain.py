"""Domains: the public labels that a question about items ranges over.

They never come from the private rows, unless the data holder declares these labels to be public. A
domain that nobody lists knows no label: it says what a release may spend on finding some.
"""

from __future__ import annotations

import datetime as dt
import numbers
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, final, overload

from sordino.constraints import DOMAIN_SIZE, SHARE, TRUTH, Number, is_unicode, shown, text
from sordino.errors import InvalidParameter, UnknownDomain
from sordino.questions.label_files import read_file_labels, read_query_labels
from sordino.sources.source import Source

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
                f"Domain.indexed.label must return Unicode text without NUL for {place}; got "
                f"{shown(label)}."
            )
        return label


@final
@dataclass(frozen=True)
class Domain:
    """A public domain: a sorted list of text labels.

    NULL and duplicates are removed, and labels are sorted by code point. The position of a label is
    its priority in ties.

    Make one with `Domain.of`, `Domain.from_file`, `Domain.from_sql` or `Domain.assume_public`. If
    there are too many labels to list them, use `Domain.range` or `Domain.indexed`, up to 2^52
    labels: these are in the order of their numbers. If nobody knows the labels, `Domain.unlisted`
    lets a release find those that many units have.

    Examples
    --------
    >>> from sordino.questions import Domain
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
    header: bool = field(default=True, repr=False)
    files: tuple[Path, ...] = field(default=(), repr=False)

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

        The labels are never listed. A value of the column counts if it is such a number as it is
        usually written: no leading zeros, no plus sign, no spaces.

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
                    f"Domain.range.{name} must be a whole number between -2^62 and 2^62; got "
                    f"{shown(value)}."
                )
        size = DOMAIN_SIZE("Domain.range: stop - start", int(stop) - int(start))
        return cls("range", f"range {start}:{stop}", numbered=Numbered(int(start), size))

    @classmethod
    def indexed(cls, size: int, *, label: Callable[[int], str]) -> Domain:
        """Return the domain of the positions 0 to size - 1, which a public function names.

        The column holds positions, as whole numbers. The function is called for what is released
        and for nothing else. So it needs no inverse, and it never meets a private row.

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
                "Domain.indexed.label must be a function from a position to a text; got "
                f"{shown(label)}."
            )
        return cls("range", f"indexed {count}", numbered=Numbered(0, count, label))

    @classmethod
    def from_file(
        cls, path: str | Path, column: str | None = None, *, header: bool = True
    ) -> Domain:
        """Return the domain in a column of a CSV file (comma, header line, UTF-8) or Parquet file.

        Parameters
        ----------
        path : path
            A public file; it is read when a source is there to compare it with. What lies in a
            folder of the source, or is called after it beside it, is refused.
        column : str, optional
            May be left out if the file has one column. Without a header line its number, from "1"
            on.
        header : bool
            Whether the first line of a CSV file names the columns; without it that line holds
            labels, too.
        """
        where = Path(text(str(path), "Domain.from_file.path"))
        if column is not None:
            text(column, "Domain.from_file.column")
        TRUTH("Domain.from_file.header", header)
        origin = f"file {where}" + (f", column {column}" if column is not None else "")
        return cls("file", origin, path=where, column=column, header=header)

    @classmethod
    def from_sql(cls, query: Any, *, files: Sequence[str | Path] = ()) -> Domain:
        """Return the domain that a query lists.

        It opens the public files that are named, and nothing else.

        Parameters
        ----------
        query : str
            One SELECT statement with one column. It names files in full, as plain texts.
        files : sequence of paths
            The files that it may open. What lies in a folder of the source, or is called after it
            beside it, is refused.

        Examples
        --------
        >>> from sordino.questions import Domain
        >>> Domain.from_sql("SELECT name FROM 'shops.csv' WHERE open", files=["shops.csv"]).origin
        'sql over shops.csv'
        """
        if not isinstance(query, str) or not query.strip():
            raise InvalidParameter(
                f"Domain.from_sql.query must be a SELECT statement; got {shown(query)}."
            )
        if isinstance(files, str | bytes | Path) or not isinstance(files, Iterable):
            raise InvalidParameter(
                f"Domain.from_sql.files must be a list of paths; got {shown(files)}."
            )
        named = tuple(Path(_path_text(one)) for one in files)
        origin = "sql" + (f" over {', '.join(map(str, named))}" if named else "")
        return cls("sql", origin, query=query, files=named)

    @classmethod
    def assume_public(cls) -> Domain:
        """Declare that the labels of the whole source, before any filter, are public knowledge.

        This is an assumption of the data holder, not a protection. The privacy claim does not cover
        which labels occur.
        """
        return cls("assumed public", "assumed public")

    @classmethod
    def unlisted(cls, *, delta: Number, least: int = 1) -> Domain:
        """Return the domain of all labels of a column, none of which is public.

        Which of them a table holds is private, and a release finds only labels that many units
        have. With a probability of at most `delta` it may say of a label that a single unit has it.

        A label is the text of a value, as it is written: names that differ in a capital, a blank at
        the end or a form of Unicode are different labels, and so are `1` and `1.0`. Never labels
        are what is missing, empty text, NaN, and texts with NUL or of more than 4096 characters.

        Parameters
        ----------
        delta : number in (0, 1)
            What a release may spend of an account's delta on labels, all of it, whatever it finds.
            Well below one over the number of units, such as 1e-6.
        least : int
            Labels that fewer units have never leave the engine. From 1 to 2^52.

        Raises
        ------
        InvalidParameter
            If they are no such numbers.

        Examples
        --------
        >>> from sordino.questions import Domain
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
                "Domain.found belongs to Domain.unlisted; the labels of this domain "
                f"({self.origin}) are known without a release."
            )
        return replace(self, known=_sort_labels(labels, "What was found"))

    @property
    def labels(self) -> Sequence[str]:
        """The labels; those of a range are made when they are asked for.

        Raises
        ------
        UnknownDomain
            If they are not known yet: `resolve` reads files and queries; assumed labels are read
            after the charge; those of an unlisted domain are private.
        """
        if self.numbered is not None:
            return self.numbered
        if self.hidden:
            raise UnknownDomain(
                f"The labels of this domain ({self.origin}) are private: only a release may find "
                "some."
            )
        if self.known is None:
            raise UnknownDomain(
                f"The labels of this domain ({self.origin}) are not known before it is resolved "
                "for a source."
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
            If a file may have been made of the private rows, or a query opens one that was not
            named.
        InvalidParameter, DataSourceError
            If the file or the query cannot be used.
        """
        # A range is known by its ends. Assumed labels stand in private rows: they are read after
        # the charge. Labels that nobody listed are private, before and after.
        if self.known is not None or self.kind in {"assumed public", "range", "unlisted"}:
            return self
        # All that follows happens before the charge, and may be explained: it reads public things
        # only.
        if self.query is not None:
            listed = read_query_labels(self.query, self.files, source)
            origin, what = self.origin, "The domain query"
        else:
            path = self.path or Path()
            listed = read_file_labels(path, self.column, source, header=self.header)
            origin, what = f"file {path}", f"The file {path}"
        known = self._know(f"{origin}, column {listed.column}", listed.labels, what)
        # Where there was no header line, nobody else would see that a label is missing.
        told = (
            ""
            if listed.first is None
            else f"; its first line was taken for the header: {listed.first}"
        )
        many = f"{known.size} label{'s' if known.size > 1 else ''}"
        return replace(known, origin=f"{known.origin}, {many}{told}")

    def _know(self, origin: str, labels: Iterable[str | None], what: str) -> Domain:
        return replace(self, origin=origin, known=_sort_labels(labels, what))


def label_text(value: Any) -> str | None:
    """Return the text of a public label as the engine writes it, or None for a missing one."""
    if value is None or isinstance(value, str):
        return value
    # Truth values before whole numbers: in Python True is an Integral.
    if isinstance(value, bool) or type(value).__name__ in {"bool_", "bool"}:
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    # As the engine writes a time stamp: a blank in the middle, and no zeros at the end of the
    # fraction.
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return (
            value.isoformat(sep=" ").rstrip("0") if value.microsecond else value.isoformat(sep=" ")
        )
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value.isoformat()
    raise InvalidParameter(
        f"A label must be a text, a whole number, a truth value or a date; got {shown(value)}."
    )


def _path_text(value: Any) -> str:
    return text(str(value) if isinstance(value, Path) else value, "Each of Domain.from_sql.files")


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
