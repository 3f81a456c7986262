"""Domains: the public labels that a question about items ranges over.

They never come from the private rows, unless the data holder declares these labels to be public. A
domain that nobody lists knows no label: it says what a release may spend on finding some. Calls in
place of a column, such as `weekday(day)`, may have few values whatever the rows are, and those of a
part of a date are all that lie between two: both are public by their words alone.
"""

from __future__ import annotations

import datetime as dt
import numbers
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, cast, final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import (
    DOMAIN_SIZE,
    SHARE,
    TRUTH,
    Number,
    is_unicode,
    path_text,
    shown,
    text,
)
from sordino.errors import InvalidParameter, UnknownDomain
from sordino.questions.label_files import read_file_labels, read_query_labels, read_tuples
from sordino.questions.labels import (
    DENSE,
    Numbered,
    Tuples,
    check_product,
    list_tuples,
    name_columns,
    send_parts,
)
from sordino.releases import Label
from sordino.sources.source import Source

_LARGEST_RANGE_END = 1 << 62  # whole numbers of a column have 64 bits


@final
@dataclass(frozen=True)
class Domain:
    """A public domain: a sorted list of text labels.

    NULL and duplicates are removed, and labels are sorted by code point. The position of a label is
    its priority in ties. Rows of a release stand in the `order` in which labels were given.

    Make one with `Domain.of`, `Domain.from_file`, `Domain.from_sql` or `Domain.assume_public`. If
    there are too many labels to list them, use `Domain.range` or `Domain.indexed`, up to 2^52
    labels: these are in the order of their numbers. If nobody knows the labels, `Domain.unlisted`
    lets a release find those that many units have. Labels of several columns are tuples: those of
    `Domain.product`, of which some columns may be unlisted, or of a list of tuples.

    Examples
    --------
    >>> from sordino.questions import Domain
    >>> Domain.of(["b", 10, None, "a", "b"]).labels
    ('10', 'a', 'b')
    >>> Domain.range(1, 10**12 + 1).size
    1000000000000
    """

    kind: Literal["list", "file", "sql", "assumed public", "range", "unlisted", "product"]
    origin: str
    known: Sequence[Label] | None = field(default=None, repr=False)
    path: Path | None = field(default=None, repr=False)
    column: str | None = field(default=None, repr=False)
    query: str | None = field(default=None, repr=False)
    numbered: Numbered | None = field(default=None, repr=False)
    delta: Fraction | None = field(default=None, repr=False)
    least: int = field(default=1, repr=False)
    header: bool = field(default=True, repr=False)
    files: tuple[Path, ...] = field(default=(), repr=False)
    parts: tuple[Domain, ...] = field(default=(), repr=False)
    columns: tuple[str, ...] = field(default=(), repr=False)
    order: NDArray[np.int64] | None = field(default=None, repr=False, compare=False)
    """The places of the labels in the order in which they were given; None: in their own."""
    yields: bool = field(default=False, repr=False, compare=False)
    """Of a column that nobody listed: whether labels that are declared of it come first."""

    @classmethod
    def of(cls, labels: Any) -> Domain:
        """Return the domain of some labels: texts, whole numbers, truth values, dates.

        Labels of several columns are tuples, or lists, of such.

        Raises
        ------
        InvalidParameter
            If a label has no exact text or none is left.
        """
        if isinstance(labels, str | bytes | Mapping) or not isinstance(labels, Iterable):
            raise InvalidParameter(
                f"A domain must be a list of labels, or a file, sd.Domain.from_file(...); got "
                f"{shown(labels)}."
            )
        listed = sorted(labels, key=str) if isinstance(labels, Set) else [*labels]
        if listed and isinstance(listed[0], tuple | list):
            return _know_tuples(cls("list", "list"), listed)
        known, given = _sort_labels(map(label_text, listed), "The list")
        # A set has no order of its own.
        return cls("list", "list", known=known, order=None if isinstance(labels, Set) else given)

    @classmethod
    def product(cls, parts: Any) -> Domain:
        """Return the domain of all combinations of the labels of several columns.

        Parameters
        ----------
        parts : mapping of str to Domain or list of labels
            What is listed for each column. At most 2^52 combinations. Columns that nobody listed
            have a `Domain.unlisted`, all of them the same one: a release finds the combinations
            that many units have, with what is listed for the others, and spends its delta once.

        Raises
        ------
        InvalidParameter, UnknownDomain
            If there is no such mapping, or the labels of a part are assumed public: which
            combinations occur would tell of people.

        Examples
        --------
        >>> from sordino.questions import Domain
        >>> Domain.product({"region": ["North", "South"], "age": ["18-64", "65+"]}).labels[1]
        ('North', '65+')
        >>> found = Domain.unlisted(delta=1e-6)
        >>> Domain.product({"region": ["North", "South"], "page": found}).origin
        'region: list; page: unlisted, delta 1/1000000, least 1'
        """
        if not isinstance(parts, Mapping) or not parts:
            raise InvalidParameter(
                "Domain.product.parts must be a mapping of columns to their labels; got "
                f"{shown(parts)}."
            )
        columns = name_columns("Domain.product.parts", list(parts))
        domains = tuple(_as_part(name, parts[name]) for name in columns)
        delta, least = _find_search(domains)
        return _join_parts(
            cls("product", "", parts=domains, columns=columns, delta=delta, least=least)
        )

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
        where = Path(path_text(path, "Domain.from_file.path"))
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
        named = tuple(Path(path_text(one, "Each of Domain.from_sql.files")) for one in files)
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
        """Whether its labels are private: nobody listed them, and no release found them.

        Labels of several columns are, if those of one or more are not listed.
        """
        return self.known is None and self.delta is not None

    def found(self, labels: Iterable[Label]) -> Domain:
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
        if not self.parts:
            return replace(self, known=_sort_labels(cast("Any", labels), "What was found")[0])
        # As they are, one by one: of combinations nothing but those that were found is listed.
        known = sorted({tuple(one) for one in labels})
        for part in zip(*known, strict=True) if known else [()]:
            _ = _sort_labels(part, "What was found")
        return replace(self, known=tuple(known))

    @property
    def tuples(self) -> Tuples | None:
        """Its tuples, if its labels are those of several columns; else None."""
        return self.known if isinstance(self.known, Tuples) else None

    def list_texts(self, labels: Sequence[Label]) -> Sequence[str] | None:
        """Return the texts that an engine is sent to count these labels; None where there are none.

        Of labels that nobody listed: those of the columns that are listed.
        """
        if self.hidden:
            return send_parts(self.listed_parts) or None
        if self.numbered is not None:
            return None
        if self.tuples is not None:
            return self.tuples.sent
        # Of what was found of several columns the parts of each one behind the other.
        return [*chain(*labels)] if self.parts else cast("Sequence[str]", labels)

    @property
    def listed_parts(self) -> tuple[Sequence[str] | None, ...]:
        """What is listed for each of several columns, once it is read; None where nothing is."""
        return tuple(
            None if part.hidden else cast("Sequence[str]", part.labels) for part in self.parts
        )

    @property
    def is_sparse(self) -> bool:
        """Whether only counts that are not 0 are kept, because there may be too many labels."""
        return self.numbered is not None or (self.tuples is not None and self.size > DENSE)

    def sort_as_given(self, places: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return in which order labels at some places were given, as indices into these."""
        order = self.order
        if order is None and self.parts and self.tuples is not None:
            order = self.tuples.order(part.order for part in self.parts)
        if order is None:
            return np.argsort(places)
        ranks = np.empty_like(order)
        ranks[order] = np.arange(order.size)
        return np.argsort(ranks[places])

    def over(self, columns: tuple[str, ...], name: str = "item") -> Domain:
        """Return this domain as one of the labels of some columns.

        Raises
        ------
        InvalidParameter, UnknownDomain
            If it is one of other columns.
        """
        if self.kind == "product" and self.known is not None and self.tuples is None:
            # What was found is a list of tuples.
            return Domain.of(self.known).over(columns, name)
        if self.kind == "product":
            return _pick_parts(self, columns, name)
        many = len(columns)
        width = len(self.tuples.parts) if self.tuples is not None else 1
        if self.tuples is not None and width != many:
            raise InvalidParameter(
                f"Labels of {many} column{'s' * (many > 1)} must be tuples of {many}; got tuples "
                f"of {width}."
            )
        if many == 1 and self.tuples is not None:
            return Domain.of([one for (one,) in self.tuples])
        if many == 1 or self.tuples is not None:
            return self
        if self.kind == "file" and self.known is None and self.column is None:
            return replace(self, columns=columns)
        if self.hidden:
            # Said of all of them: what is declared of one comes first.
            return Domain.product(dict.fromkeys(columns, replace(self, yields=True)))
        if self.kind == "assumed public":
            raise UnknownDomain(_COMBINATIONS)
        raise InvalidParameter(
            "Labels of several columns must be listed for each, or as tuples; got one list for "
            f'{", ".join(columns)}. Give domain={{"{columns[0]}": [...], ...}} (--domain '
            f"{columns[0]}=FILE)."
        )

    @property
    def labels(self) -> Sequence[Label]:
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
        if self.kind == "product":
            parts = tuple(part.resolve(source) for part in self.parts)
            return _join_parts(replace(self, parts=parts))
        # All that follows happens before the charge, and may be explained: it reads public things
        # only.
        if self.query is not None:
            listed = read_query_labels(self.query, self.files, source)
            origin, what = self.origin, "The domain query"
        else:
            path = self.path or Path()
            if self.columns:
                rows = read_tuples(path, self.columns, source, header=self.header)
                known = _know_tuples(self, rows)
                named = ", ".join(self.columns)
                return replace(
                    known, origin=f"file {path}, columns {named}, {known.size} combinations"
                )
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
        known, given = _sort_labels(labels, what)
        # What a query lists comes in any order.
        return replace(self, origin=origin, known=known, order=None if self.query else given)


def _join_parts(domain: Domain) -> Domain:
    """Return a product with its combinations, once the labels of all parts are known."""
    named = zip(domain.columns, domain.parts, strict=True)
    origin = "; ".join(f"{name}: {part.origin}" for name, part in named)
    if any(part.known is None and part.numbered is None for part in domain.parts):
        return replace(domain, origin=origin)
    listed = tuple(cast("Sequence[str]", part.labels) for part in domain.parts)
    check_product(listed)
    known = Tuples(listed)
    # Of more nothing is kept that is not asked for.
    order = known.order(part.order for part in domain.parts) if len(known) <= DENSE else None
    return replace(domain, origin=origin, known=known, order=order)


def _pick_parts(domain: Domain, columns: tuple[str, ...], name: str) -> Domain:
    """Return a product in the order of some columns, which must be all of its own."""
    own = dict(zip(domain.columns, domain.parts, strict=True))
    for column in columns:
        if column not in own:
            raise UnknownDomain(
                f'{name} "{column}": no labels. Give the labels of each column: '
                f'domain={{"{column}": [...], ...}} (--domain {column}=FILE), or declare '
                f"them (labels.{column})."
            )
    for column in own:
        if column not in columns:
            raise InvalidParameter(
                f"domain must list the labels of {', '.join(columns)}; got some of "
                f"{shown(column)}, too."
            )
    if len(columns) == 1:
        return own[columns[0]]
    parts = tuple(own[column] for column in columns)
    return _join_parts(replace(domain, parts=parts, columns=columns))


def _know_tuples(domain: Domain, listed: Sequence[Sequence[Any]]) -> Domain:
    """Return a domain with the tuples of a list."""
    for one in listed:
        if not isinstance(one, tuple | list):
            raise InvalidParameter(
                f"Labels of several columns must be tuples, all of them; got {shown(one)}."
            )
    texts = [tuple(map(label_text, one)) for one in listed]
    known, given = list_tuples(texts, len(listed[0]) if listed else 0)
    for part in known.parts:
        _ = _sort_labels(part, "The list")
    return replace(domain, known=known, order=given)


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


def _is_whole_number(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _as_part(name: str, given: Any) -> Domain:
    """Return the labels of one column of several."""
    part = given if isinstance(given, Domain) else None
    if part is None and given != "assume-public":
        part = Domain.of(given)
    if part is None or part.kind == "assumed public":
        raise UnknownDomain(_COMBINATIONS)
    if part.parts or part.tuples is not None:
        raise InvalidParameter(
            f"Domain.product must have the labels of one column for each; got those of several for "
            f"{name!r}."
        )
    return part


def _find_search(parts: Sequence[Domain]) -> tuple[Fraction | None, int]:
    """Return the delta and the least count with which combinations are found; None: all listed."""
    said = {(part.delta, part.least): part for part in parts if part.hidden}
    if said and any(part.numbered is not None and part.numbered.name for part in parts):
        raise InvalidParameter(
            "Domain.indexed must not go with columns that nobody listed, because its function is "
            "called for what is released alone. Give Domain.range, and name what was released."
        )
    if len(said) > 1:
        told = " and ".join(part.origin for part in said.values())
        raise InvalidParameter(
            "Columns that nobody listed must have one and the same delta and least: combinations "
            f"are found, and the delta is spent once; got {told}."
        )
    return next(iter(said), (None, 1))


_COMBINATIONS = (
    "Labels of several columns must be listed: which combinations occur tells of people. Give the "
    "labels of each column, or the tuples; columns that nobody can list may be Domain.unlisted "
    "(--unlisted)."
)


def _sort_labels(
    labels: Iterable[str | None], what: str
) -> tuple[tuple[str, ...], NDArray[np.int64] | None]:
    """Return labels, each once, by code point, and where each was given; None: in that order."""
    given = [label for label in dict.fromkeys(labels) if label is not None]
    # Sorted, so that ties do not depend on the order in which the labels were given.
    found = sorted(given)
    if not found:
        raise InvalidParameter(f"{what} must have one label or more; got none.")
    # What is no Unicode cannot be sent to an engine, and no text of PostgreSQL holds NUL.
    for label in found:
        if "\0" in label or not is_unicode(label):
            raise InvalidParameter(f"A label must be Unicode text without NUL; got {shown(label)}.")
    if found == given:
        return tuple(found), None
    places = {label: place for place, label in enumerate(found)}
    return tuple(found), np.array([places[label] for label in given], dtype=np.int64)


SPAN = re.compile(r"([0-9QW-]{4,10})\.\.([0-9QW-]{4,10})", re.ASCII)
"""The labels from one to another, such as 2024-01..2025-12."""

_DAY = re.compile("([0-9]{4})-([0-9]{2})-([0-9]{2})", re.ASCII)
_PART = re.compile("([0-9]{4})(?:-(Q|W)?([0-9]{1,2}))?", re.ASCII)
_MOST = 1 << 17


def list_call_domains(source: Source) -> dict[str, Domain]:
    """Return the domains of computed columns all of whose values are public, as they are shown."""
    names = list(source.columns)[len(source.columns) - len(source.calls) :]
    return {
        name: Domain("list", f"all values of {name}", known=column.image)
        for name, column in zip(names, source.calls, strict=True)
        if column.image is not None
    }


def span(text: str) -> Domain:
    """Return the domain of all years, quarters, months, weeks or days from one to another.

    Parameters
    ----------
    text : str
        Both ends, which are in it, as calls write them: 2023..2025, 2024-Q1..2025-Q4,
        2024-01..2025-12, 2024-W01..2025-W52, 2024-01-01..2024-12-31.

    Raises
    ------
    InvalidParameter
        If they are no such ends, or too far apart.

    Examples
    --------
    >>> from sordino.questions.domain import span
    >>> span("2024-Q3..2025-Q2").labels
    ('2024-Q3', '2024-Q4', '2025-Q1', '2025-Q2')
    """
    found = SPAN.fullmatch(text)
    ends = () if found is None else (found[1], found[2])
    labels: tuple[str, ...] = ()
    if ends and len({_find_shape(end) for end in ends}) == 1:
        labels = tuple(islice(_list_between(*ends), _MOST))
    if not labels or (labels[0], labels[-1]) != ends:
        raise InvalidParameter(
            "A span of dates must be written as 2023..2025, 2024-Q1..2025-Q4, 2024-01..2025-12, "
            "2024-W01..2025-W52 or 2024-01-01..2024-12-31, the earlier first and at most "
            f"{_MOST:,} of them; got {shown(text)}."
        )
    return Domain("list", text, known=labels)


def _find_shape(end: str) -> str:
    return re.sub("[0-9]", "0", end)


def _list_between(first: str, last: str) -> Iterator[str]:
    """Yield the labels from the first to the last; others, or none, if they are no such labels."""
    if _DAY.fullmatch(first):
        yield from _yield_days(first, last)
        return
    start, end = _PART.fullmatch(first), _PART.fullmatch(last)
    if start is None or end is None:
        return
    kind = start[2] or ("" if start[3] else "Y")
    for year in range(max(1, int(start[1])), int(end[1]) + 1):
        if kind == "Y":
            yield f"{year:04}"
            continue
        most = {"": 12, "Q": 4}.get(kind) or dt.date(year, 12, 28).isocalendar().week
        for part in range(1, most + 1):
            label = f"{year:04}-Q{part}" if kind == "Q" else f"{year:04}-{kind}{part:02}"
            if first <= label <= last:
                yield label


def _yield_days(first: str, last: str) -> Iterator[str]:
    try:
        low, high = dt.date.fromisoformat(first), dt.date.fromisoformat(last)
    except ValueError:
        return
    for place in range((high - low).days + 1):
        yield (low + dt.timedelta(place)).isoformat()
