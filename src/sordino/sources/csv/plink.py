"""Reads the report of a transmission disequilibrium test of PLINK 1.07 and 1.9: `plink --tdt`.

A line begins with blanks and has fields with blanks between them. Public are the first three:
chromosome (CHR), name of the marker (SNP) and place (BP). All that stands behind the first blank
after them is private: the alleles, because A1 is the rarer one in these very families; T and U, how
often heterozygous parents transmitted A1 and did not; and every figure that follows. Columns that
PLINK writes only for some families, such as A:U_PAR, stand behind those, so the header is not
looked at beyond U.

The public fields are found from the left, so what is private cannot move them: for lines of this
form nothing public depends on private bytes (docs/decisions/0011). T and U are the third and the
fourth private field; what is no decimal number there counts as none, in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sordino.constraints import shown
from sordino.errors import DataSourceError, InvalidParameter
from sordino.sources.csv.encodings import Encoding, line_encoding, open_lines
from sordino.sources.csv.header import check_one_line
from sordino.sources.csv.lines import LONGEST, CsvFormat, first_line
from sordino.sources.csv.private_fields import candidate_lines, decode_label

_COUNTS = ("T", "U")
_PUBLIC = ("CHR", "SNP", "BP")
PLINK_COLUMNS = (*_PUBLIC, "A1", "A2", *_COUNTS)
"""The first columns of such a file."""

_FIELDS = re.compile(rb"[ \t]*([^ \t]+)[ \t]+([^ \t]+)[ \t]+([^ \t]+)[ \t]")
"""The public fields of a line, and the one blank behind them."""


@dataclass(frozen=True)
class PlinkLines:
    """A file whose header was read; `label` is the place of the column of labels."""

    path: Path
    label: int
    encoding: Encoding
    header: bytes
    count: int = 2

    def lines(self) -> Iterator[tuple[str, list[bytes]]]:
        """Yield the label of each line, and its two counts as they stand there.

        Call it after the charge.

        Raises
        ------
        DataSourceError
            If a line breaks a rule about public things.
        """
        for place, line in self._candidate_lines():
            label, private = self._parts(line, place)
            yield label, _find_counts(private)

    def check_lines(self) -> int:
        """Return how many lines there are, after a look at what is public about each.

        Before the charge.

        Raises
        ------
        DataSourceError
            If a line breaks a rule about public things.
        """
        count = 0
        for place, line in self._candidate_lines():
            self._parts(line, place)
            count += 1
        return count

    def _candidate_lines(self) -> Iterator[tuple[int, bytes]]:
        return candidate_lines(self.path, self.header, self.encoding, every_line=False)

    def _parts(self, line: bytes, place: int) -> tuple[str, bytes]:
        """Return the label of a line, and what is private of it."""
        found = _FIELDS.match(line)
        # One sentence for both: a very long line is cut in the middle, and the cut must not decide
        # which is said.
        if found is None or found.end() > LONGEST:
            raise DataSourceError(
                f"Line {place} of {self.path} must begin with {', '.join(_PUBLIC)} and a blank, as "
                f"PLINK writes it, in at most {LONGEST} bytes."
            )
        return decode_label(found[1 + self.label], self.encoding, self.path, place), line[
            found.end() :
        ]


def _find_counts(private: bytes) -> list[bytes]:
    """Return the fields of the two counts.

    Empty ones where there are none, or more than 1 MiB is private.
    """
    # A line may have been cut in its middle. Such a text is never read, so the cut decides nothing.
    fields = (
        private.split(None, len(PLINK_COLUMNS) - len(_PUBLIC)) if len(private) <= LONGEST else []
    )
    alleles = PLINK_COLUMNS.index(_COUNTS[0]) - len(_PUBLIC)
    counts = fields[alleles : alleles + len(_COUNTS)]
    return counts if len(counts) == len(_COUNTS) else [b""] * len(_COUNTS)


def open_plink_lines(path: Path, *, label: str, encoding: Encoding) -> PlinkLines:
    """Read the header line, and nothing else, of a file that `plink --tdt` wrote.

    Raises
    ------
    DataSourceError
        If the file cannot be read, or has another header.
    InvalidParameter
        If the label is none of the public columns.
    """
    if label not in _PUBLIC:
        raise InvalidParameter(
            f"--snp must be one of the columns {', '.join(_PUBLIC[:-1])} and {_PUBLIC[-1]} of a "
            f"file that PLINK wrote, all others being private; got {shown(label)}."
        )
    if not path.is_file():
        raise DataSourceError(f"A file of markers must exist; got {shown(str(path))}.")
    try:
        with open_lines(path, encoding) as file:
            header = first_line(file, line_encoding(encoding))
    except OSError as error:
        raise DataSourceError(
            f"A file of markers must be readable; {path} is not ({error.strerror})."
        ) from None
    # One line, or what follows are rows (`header`).
    check_one_line(
        header, header.decode("ascii", "ignore"), CsvFormat(encoding=encoding), str(path)
    )
    # What else stands behind U depends on the families, and is neither looked at nor said.
    names = header.split(None, len(PLINK_COLUMNS))[: len(PLINK_COLUMNS)]
    if names != [name.encode() for name in PLINK_COLUMNS]:
        raise DataSourceError(
            f"The header line of {path} must begin with {' '.join(PLINK_COLUMNS)}, as `plink "
            "--tdt` writes it. Other files are read as CSV, with --no-plink, --b and --c."
        )
    return PlinkLines(path, _PUBLIC.index(label), encoding, header)
