"""Reads files of scores, or of counts, that somebody else computed.

Every line of such a CSV file is a candidate (an empty one only where all columns are private), and only some
of its fields are private. A private field is a decimal number, quoted or not; anything else counts as no
number, in silence. A line with fewer delimiters than its public fields need is refused by its line number.
What else stands in it is private.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import shown
from sordino.data.csv.answer_lines import read_number
from sordino.data.csv.csv_format import CsvFormat
from sordino.data.csv.private_fields import PrivateFields, open_private
from sordino.errors import DataSourceError, InvalidParameter
from sordino.remnants import no_remnants


@final
@dataclass(frozen=True)
class Scores:
    """Private scores with the public labels of their candidates."""

    # Not in the `repr`: private values are never printed.
    values: NDArray[np.float64] = field(repr=False)
    labels: tuple[str, ...] | None = field(repr=False)


@final
@dataclass(frozen=True)
class ScoreFile:
    """A file of candidates whose header was read; `open_scores` makes it."""

    fields: PrivateFields

    @no_remnants
    def read(self) -> Scores:
        """Read the rows. Call it after the charge.

        Raises
        ------
        DataSourceError
            If a line breaks a rule about public things, or there is no candidate.
        """
        # `no_remnants`: exact scores stand in this frame when an error leaves it.
        labels, [values] = _read_labels_and_columns(self.fields)
        return Scores(values, labels)


@final
@dataclass(frozen=True)
class MarkerCounts:
    """Private counts of two alleles for each marker, with the public labels of the markers.

    NaN stands where there was no number.
    """

    # Private, so not in the `repr`, as with scores.
    b: NDArray[np.float64] = field(repr=False)
    c: NDArray[np.float64] = field(repr=False)
    labels: tuple[str, ...] | None = field(repr=False)


@final
@dataclass(frozen=True)
class MarkerFile:
    """A file of markers whose header was read; `open_markers` makes it."""

    fields: PrivateFields
    swapped: bool

    @no_remnants
    def read(self) -> MarkerCounts:
        """Read the rows. Call it after the charge.

        Raises
        ------
        DataSourceError
            If a line breaks a rule about public things, or there is no marker.
        """
        labels, [first, second] = _read_labels_and_columns(self.fields)
        # The file has its columns in one order, and `b` and `c` may have been named in the other one.
        return MarkerCounts(*((second, first) if self.swapped else (first, second)), labels)


def _read_labels_and_columns(
    fields: PrivateFields,
) -> tuple[tuple[str, ...] | None, list[NDArray[np.float64]]]:
    """Return the labels, and the numbers of each private column."""
    columns: list[list[float]] = [[] for _ in range(fields.count)]
    labels: list[str] = []
    # Every line is a candidate, whatever its private fields hold: what is no number becomes NaN.
    for label, found in fields.lines():
        for column, raw in zip(columns, found, strict=True):
            column.append(read_number(raw))
        if label is not None:
            labels.append(label)
    # How many candidates there are is public, so it may be said that there are none.
    if not columns[0]:
        raise DataSourceError(f"A file of scores must have one candidate or more; {fields.path} has none.")
    return tuple(labels) if fields.label is not None else None, [
        np.array(column, dtype=np.float64) for column in columns
    ]


def open_scores(path: Path, *, score: str, label: str | None = None, form: CsvFormat) -> ScoreFile:
    """Read the header line, and nothing else, of a CSV file of candidates.

    Raises
    ------
    DataSourceError
        If the file or its header cannot be read.
    InvalidParameter
        If there is no such column, both are one, or the delimiter could stand in a score.
    """
    return ScoreFile(open_private(path, private={"--score": score}, label=("--label", label), form=form))


def open_markers(path: Path, *, b: str, c: str, label: str | None = None, form: CsvFormat) -> MarkerFile:
    """Read the header line, and nothing else, of a CSV file of markers with the counts of their two alleles.

    Raises
    ------
    DataSourceError
        If the file or its header cannot be read.
    InvalidParameter
        If there is no such column, two are one, `b` and `c` do not stand side by side, or the delimiter could
        stand in a number.
    """
    # One column cannot be both counts: each marker would have as many of the one allele as of the other.
    if b == c:
        raise InvalidParameter(f"--c must be another column than --b; got {shown(c)} for both.")
    fields = open_private(path, private={"--b": b, "--c": c}, label=("--snp", label), form=form)
    return MarkerFile(fields, swapped=fields.columns[fields.first] == c)
