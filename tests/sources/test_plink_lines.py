"""Files as PLINK writes them: what stands behind the place of a marker decides its two counts, and nothing that is public.

A line is blanks, chromosome, marker and place with blanks between them, one blank, and private bytes.
"""

from __future__ import annotations

from itertools import product
from unittest import mock

import numpy as np
import pytest

from sordino.errors import DataSourceError, InvalidParameter
from sordino.questions import open_plink
from sordino.sources.csv import lines as lines_module, plink, private_fields

HEADER = (
    b" CHR         SNP           BP  A1  A2      T      U           OR        CHISQ            P \n"
)
PARENTS = HEADER.rstrip() + b"      A:U_PAR    CHISQ_PAR        P_PAR    CHISQ_COM        P_COM \n"
EXACT = b" CHR SNP           BP  A1  A2      T      U           OR          L95          U95            P \n"


def line(chromosome, name, place, t, u, more=b""):
    """Return a line with the widths that PLINK uses; wider fields move what stands behind them."""
    ratio = b"%12.4g" % (t / u) if u else b"%12s" % b"NA"
    chance = b"%12.4g" % ((t - u) ** 2 / (t + u)) if t + u else b"%12s" % b"NA"
    head = b"%4s %11s %12d %3s %3s %6d %6d " % (chromosome, name, place, b"A", b"G", t, u)
    return head + ratio + b" " + chance + b" %12.4g " % 0.04 + more + b"\n"


LINES = [
    line(b"1", b"rs1", 1_000, 103, 97),
    line(b"X", b"rs22", 2_000_000, 60, 75),
    line(b"22", b"kgp_3", 7, 0, 0),
]


def read(path, label="SNP", encoding="utf-8"):
    file = open_plink(path, label=label, encoding=encoding)
    counted = file.candidates()
    found = file.read()
    assert found.b.size == counted
    return found


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trios.tdt"


@pytest.mark.parametrize(
    "header", [HEADER, PARENTS, EXACT], ids=["plain", "parents", "exact, with an interval"]
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
def test_a_file_that_plink_wrote(path, header, end):
    path.write_bytes(b"".join([header, *LINES]).replace(b"\n", end))
    found = read(path)
    assert (found.b.tolist(), found.c.tolist()) == ([103, 60, 0], [97, 75, 0])
    assert found.labels == ("rs1", "rs22", "kgp_3")
    assert read(path, "CHR").labels == ("1", "X", "22")
    assert read(path, "BP").labels == ("1000", "2000000", "7")


def test_one_tab_for_each_run_of_blanks(path):
    """As `tr -s ' ' '\\t'` makes it."""
    path.write_bytes(b"".join(b"\t".join(text.split()) + b"\n" for text in (HEADER, *LINES)))
    assert read(path).b.tolist() == [103, 60, 0]
    path.write_bytes(
        b"".join(b"\t" + b"\t".join(text.split()) + b"\t\n" for text in (HEADER, *LINES))
    )
    assert read(path).b.tolist() == [103, 60, 0]


def test_counts_wider_than_their_fields(path):
    path.write_bytes(HEADER + line(b"1", b"a_long_name_of_a_marker", 10**13, 123_456_789, 5))
    found = read(path)
    assert (found.b.tolist(), found.c.tolist(), found.labels) == (
        [123_456_789],
        [5],
        ("a_long_name_of_a_marker",),
    )


# ---- nothing public depends on private bytes -------------------------------------------------------------------------------

ALPHABET = (b" ", b"\t", b"5", b"A", b"\r", b"\0", b'"', b"\xff", b"\x0b")
PRIVATE = [b"".join(word) for size in range(3) for word in product(ALPHABET, repeat=size)]
PRIVATE += [b"".join(word) for word in product((b" ", b"5", b"\r"), repeat=5)]
PRIVATE += [
    b"A G 103 97 1.06 .2 .5",
    b" A G 103 97 1.06",
    b"A G 7 9",
    b"A  G\t7 9 " * 30,
    b"A G 1 03 97",
    b"A 103 97 1.06",
    b"rs9 9 A G 1 2",
]
PUBLIC = [b"1 rs1 10 ", b"  1\trs1   10\t", b'"1 rs"1 10 ', b"1 \xff 10 ", b"1 rs1\x0b 10 "]


def told(path, content):
    """Return what is public about a file, before and after the charge, and the numbers of its first line."""
    path.write_bytes(content)
    try:
        file = open_plink(path, label="SNP", encoding="utf-8")
        counted, found = file.candidates(), file.read()
    except DataSourceError as error:
        return str(error), None
    assert (found.b[-1], found.c[-1]) == (3, 4), "a line moves no number of another"
    return (counted, found.b.size, found.labels), repr((found.b[0], found.c[0]))


@pytest.mark.parametrize("public", PUBLIC)
@pytest.mark.sample(4)
def test_nothing_public_depends_on_private_bytes(path, public):
    seen = {
        told(path, HEADER + public + odd + b"\n2 k 20 C T 3 4 .75 .1 .7\n")[0] for odd in PRIVATE
    }
    assert len(seen) == 1, sorted(map(repr, seen))


def test_the_counts_depend_on_the_private_bytes_alone(path):
    for odd in PRIVATE[::3]:
        found = {
            told(path, HEADER + public + odd + b"\n2 k 20 C T 3 4 .75 .1 .7\n")[1]
            for public in PUBLIC[:3]
        }
        assert len(found) == 1


@pytest.mark.parametrize("longest", [10, 16])
def test_how_long_private_bytes_are_decides_nothing_public(path, longest):
    """Lines about the places at which long ones are cut."""
    sizes = [0, 1, 3, 8, 9, 10, 11, 15, 16, 17, 20, 30, 39, 40, 41, 60, 64, 65, 100, 200]
    for public in (
        b"1 rs1 10 ",
        b"1 rs1 " + b"1" * 12 + b" ",
        b"1 " + b"r" * 70 + b" 3 ",
        b"1 rs1",
    ):
        for size in (1, 7, 1000):
            with (
                mock.patch.object(lines_module, "LONGEST", longest),
                mock.patch.object(plink, "LONGEST", longest),
                mock.patch.object(lines_module, "_LONGEST_WITH_MARK_AND_CR", longest + 4),
                mock.patch.object(private_fields, "BLOCK", size),
            ):
                odds = [letter * n for letter in (b"5", b" ", b"A ", b"\r") for n in sizes]
                # What is missing in the last case is a public mistake only as long as no blank follows.
                odds = odds if public.endswith(b" ") else [b"5" * n for n in sizes]
                seen = {
                    told(path, HEADER + public + odd + b"\n2 k 20 C T 3 4 .75 .1 .7\n")[0]
                    for odd in odds
                }
                assert len(seen) == 1, (public, sorted(map(repr, seen)))


def test_what_stands_behind_the_counts_in_the_header_decides_nothing(path):
    """PLINK writes the columns of parents only where some parent is affected and the other is not: one family decides that."""
    seen = set()
    for header in (
        HEADER,
        PARENTS,
        EXACT,
        HEADER.rstrip() + b" \xff more\n",
        HEADER[: HEADER.index(b"OR")] + b"\n",
    ):
        path.write_bytes(header + b"".join(LINES))
        found = read(path)
        seen.add((found.labels, tuple(found.b)))
    assert len(seen) == 1


class Twin(plink.PlinkLines):
    """Demands as many fields as the header has: what is wrong in a count decides whether the file is refused."""

    def _parts(self, line, place):
        if len(line.split()) != len(self.header.split()):
            raise DataSourceError(f"Line {place} has another number of fields.")
        return super()._parts(line, place)


def test_a_reader_that_counts_all_fields_is_convicted(path):
    with mock.patch.object(plink, "PlinkLines", Twin):
        with pytest.raises(AssertionError):
            test_nothing_public_depends_on_private_bytes(path, PUBLIC[0])
        with pytest.raises(DataSourceError):
            test_what_stands_behind_the_counts_in_the_header_decides_nothing(path)


# ---- public mistakes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "header"),
        (b"snp,T,U\n", "CHR SNP BP A1 A2 T U"),
        (b" CHR SNP A1:A2 T:U_PAT CHISQ_PAT\n", "CHR SNP BP A1 A2 T U"),
        (b" CHR SNP BP A1 A2 F_A F_U\n", "CHR SNP BP A1 A2 T U"),
        (HEADER, "one candidate or more"),
        (HEADER + b"\n\n", "one candidate or more"),
        (HEADER + b"1 rs1 10\n", "Line 2 of"),
        (HEADER + b"1 rs1 10 A G 1 2\n   \n", "Line 3 of"),
        (HEADER + b"1 \xff 10 A G 1 2\n", "must have a label in utf-8"),
    ],
)
def test_public_mistakes_are_found_before_the_charge(path, text, words):
    path.write_bytes(text)
    with pytest.raises(DataSourceError, match=words):
        open_plink(path, label="SNP", encoding="utf-8").candidates()


@pytest.mark.parametrize("label", ["A1", "T", "OR", "CHISQ", "snp"])
def test_a_label_is_one_of_the_public_columns(path, label):
    """A1 is the rarer allele of these families: which one that is, is private."""
    path.write_bytes(HEADER + LINES[0])
    with pytest.raises(InvalidParameter, match="must be one of the columns CHR, SNP and BP"):
        open_plink(path, label=label, encoding="utf-8")


def test_a_file_that_is_missing_or_changed(path):
    with pytest.raises(DataSourceError, match="must exist"):
        open_plink(path, label="SNP", encoding="utf-8")
    path.write_bytes(HEADER + LINES[0])
    file = open_plink(path, label="SNP", encoding="utf-8")
    path.write_bytes(PARENTS + LINES[0])
    with pytest.raises(DataSourceError, match="header line of .* changed"):
        file.read()


def test_another_encoding(path):
    path.write_bytes(HEADER + b"1 r\xe9 10 A G 3 4\n")
    assert read(path, encoding="latin-1").labels == ("r\xe9",)


def test_many_lines(path):
    counts = np.random.default_rng(2).integers(0, 400, (5_000, 2))
    path.write_bytes(
        HEADER
        + b"".join(line(b"7", b"rs%d" % i, i, *pair) for i, pair in enumerate(counts.tolist()))
    )
    found = read(path)
    assert np.array_equal(np.stack([found.b, found.c], axis=1), counts)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_file_in_utf_16(path, encoding):
    path.write_bytes(b"".join([HEADER, *LINES]).decode().encode(encoding))
    found = read(path, encoding=encoding)
    assert (found.b.tolist(), found.c.tolist()) == ([103, 60, 0], [97, 75, 0])
    assert found.labels == ("rs1", "rs22", "kgp_3")


def test_what_cannot_be_read_is_said(path):
    """The header line is public: a mark that is missing there is no refusal of the system."""
    path.write_bytes(b"".join([HEADER, *LINES]))
    with pytest.raises(
        DataSourceError, match="it has no byte order mark: write one, or name utf-16-le"
    ):
        open_plink(path, label="SNP", encoding="utf-16")
