"""What a plan assumes: made-up data of public shapes, or public data, never the private data."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, final

from sordino.address import without_password
from sordino.constraints import COUNT, shown
from sordino.errors import InvalidParameter
from sordino.session.plans.dry_run import Answers, PublicRows
from sordino.session.plans.shapes import (
    OF_COLUMNS,
    OF_LABELS,
    Shape,
    check_rows,
    is_shape,
    parse_shape,
    parse_spread,
)
from sordino.session.plans.synthetic import ASSUMED, SyntheticData
from sordino.session.request import CAP, Request
from sordino.sources import CsvFormat, Source, open_source
from sordino.sources.sharing import find_shared_rows

ROWS = 10_000
"""About how many rows made-up data have where nobody says anything."""
_MOST_ROWS = 10**7


class Assumption(NamedTuple):
    """What is assumed of the data, and what is said of that.

    Attributes
    ----------
    answers : tuple of Answers
        Where they come from: several where several shapes are assumed.
    said : str
        In words.
    turn : int
        Which runs of them: those of another turn have other data and other noise.
    """

    answers: tuple[Answers, ...]
    said: str
    turn: int = 0


@final
@dataclass(frozen=True)
class NamedData:
    """Public or synthetic data that whoever wrote them down has another name for.

    Attributes
    ----------
    text : str
        What they are called.
    source : str
        Where they are from here.
    """

    text: str
    source: str


def assume(
    request: Request[Any], private: Source, form: CsvFormat, *, like: Any, rows: Any
) -> Assumption:
    """Return where answers come from: made-up data of shapes, or public data.

    Parameters
    ----------
    request : Request
        What is planned.
    private : Source
        Which public data must not be.
    form : CsvFormat
        How its CSV files are written, and so public ones that are taken in their place.
    like : str, path or table, or None
        A shape, or public data; None: the shapes that are assumed unless somebody says something.
    rows : int or None
        About how many rows a shape has.

    Raises
    ------
    InvalidParameter, DataSourceError
        If it is no public shape and no public data.
    """
    number = COUNT(f"{request.name}.rows", _guess_rows(request) if rows is None else rows)
    if number > _MOST_ROWS:
        raise InvalidParameter(f"{request.name}.rows must be at most {_MOST_ROWS}; got {number}.")
    of_column = hasattr(request, "cap") or getattr(request, "of_column", False)
    if like is None or is_shape(like):
        written = (like,) if like is not None else OF_COLUMNS if of_column else OF_LABELS
        ranks = getattr(request, "ranks_sums", False)
        spreads: list[tuple[Shape, Shape | None]] = [
            parse_spread(text) if ranks else (parse_shape(text), None) for text in written
        ]
        if ranks:
            # Who adds up to much has more of every label.
            spreads = [(one, by or parse_shape(OF_LABELS[0])) for one, by in spreads]
        for shape, _ in spreads:
            if not of_column and request.name != "randomize":
                # What says nothing about labels is refused before anything is started.
                shape.list_counts(1, 1)
        together = ranks or adds_up_together(request)
        what = "rows" if of_column else "pairs of a person and an item"
        what = "people" if together else what
        data = [
            SyntheticData(shape, number, of_column=of_column, spread=by) for shape, by in spreads
        ]
        listed = ", ".join(one.text for one in data)
        if like is None and getattr(request, "cap", None) == CAP:
            # Made-up numbers lie as far up as anything goes.
            listed += f", with numbers up to {CAP:,} (--cap and --like say how they are)"
        if getattr(getattr(request, "domain", None), "kind", None) == "assumed public":
            # How many there are decides how large the noise is.
            listed += f", {ASSUMED:,} labels"
        adds = ", by what they add up to" if together else ""
        return Assumption(tuple(data), f"{number:,} {what}{adds}, like {listed}")
    check_rows(request.name, like, rows)
    text, source = _open_public(request, private, form, like)
    return Assumption((PublicRows(text, source),), f"data like {text}, which is taken as public")


def adds_up_together(request: Any) -> bool:
    """Tell whether one clip is of what a person adds up to in all groups."""
    # Weights are of rows.
    return getattr(request, "clips_together", False) and not getattr(request, "weighs", False)


def _open_public(
    request: Request[Any], private: Source, form: CsvFormat, like: Any
) -> tuple[str, Source]:
    """Open public or synthetic data, and say what they are called; refuse the private source."""
    place = like.source if isinstance(like, NamedData) else like
    named = isinstance(place, str | os.PathLike)
    text = like.text if isinstance(like, NamedData) else str(like)
    # A text that is no shape and no file is more likely a shape that was mistyped.
    if isinstance(place, str) and not _may_be_table(text, place):
        parse_shape(text)
    source = open_source(place, csv=form if named else CsvFormat())
    if named and "://" in text:
        text = without_password(text)
    if reason := find_shared_rows(private, source):
        text = text if named else f"a {source.kind}"
        raise InvalidParameter(
            f"{request.name}.like must be synthetic or public data, and no rows of the private "
            f"source; got {shown(text)}, which {reason}. A plan of them would be a release that "
            "nobody pays for."
        )
    # What is looked up for private rows is looked up for public ones.
    known = [one.table for one in private.lookups if one.table.of in source.columns]
    return text if named else f"a public {source.kind}", source.look_up(known)


def _may_be_table(text: str, place: str) -> bool:
    """Tell whether a text looks like a source.

    An address, or a path that is there, or a pattern.
    """
    return "://" in text or "#" in text or "*" in text or "." in text or Path(place).exists()


def _guess_rows(request: Request[Any]) -> int:
    """Return about how many rows there are, as far as anybody said."""
    hint = getattr(request, "size_hint", None)
    return hint if isinstance(hint, int) and hint > 0 else ROWS
