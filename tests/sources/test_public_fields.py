"""Private bytes decide nothing public: no label, no place, no refusal and no unit, whatever bytes stand on either side of them.

A line is made of public fields and of bytes that are private. The public fields hold no delimiter and no line end (what they hold besides,
quotes that do not close among it, is anything); the private bytes hold no line end. All such lines over a tiny alphabet are read.
"""

from __future__ import annotations

import io
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

from sordino.errors import DataSourceError, InvalidParameter
from sordino.questions import PrivacyUnit, open_markers, open_scores
from sordino.questions.records import open_record_lines
from sordino.sources import CsvFormat, answer_lines
from sordino.sources.csv import (
    answer_lines as answer_lines_module,
    lines as lines_module,
    private_fields,
    record_lines,
)

ALPHABET = (b'"', b",", b"a", b"5", b"\r", b"\xef\xbb\xbf", b"\xff")
PLAIN = CsvFormat()
FORMATS = {
    "quotes": PLAIN,
    "no quotes": CsvFormat(quote=""),
    "latin-1": CsvFormat(encoding="latin-1"),
    "semicolon": CsvFormat(delimiter=";", quote="'"),
}


def texts(longest, without=()):
    """Return all texts over the alphabet with at most so many letters."""
    letters = [letter for letter in ALPHABET if letter not in without]
    return [b"".join(word) for size in range(longest + 1) for word in product(letters, repeat=size)]


def written(text, form):
    """Return a text as another format has it: its delimiter and its quote in the place of ours."""
    return text.replace(b",", form.delimiter.encode()).replace(b'"', (form.quote or '"').encode())


FIELDS, PRIVATE = texts(2, without=(b",",)), texts(2)
LONGER = {"fields": texts(3, without=(b",",)), "private": texts(4)}
OPEN = (
    b'"a""',
    b'x",5',
)  # the public field has an open quote; read as CSV, the field ends within what is private


def told(work):
    """Return what work returns, or the words of its refusal."""
    try:
        return work()
    except DataSourceError as error:
        return str(error)


# ---- files of scores and of markers ----------------------------------------------------------------------------------------

SHAPES = {  # the header; which columns are private; which one is the label
    "label left": ("n,s", "s", "n"),
    "label right": ("s,n", "s", "n"),
    "no label": ("n,s", "s", None),
    "no label, public field right": ("s,n", "s", None),
    "one column": ("s", "s", None),
    "two left": ("m,n,s", "s", "n"),
    "two right": ("s,m,n", "s", "m"),
    "both sides, label left": ("n,s,m", "s", "n"),
    "both sides, label right": ("m,s,n", "s", "n"),
    "two private, label left": ("n,s,t", "st", "n"),
    "two private, label right": ("s,t,n", "st", "n"),
    "two private, swapped, both sides": ("n,t,s,m", "st", "n"),
    "two private alone": ("s,t", "st", None),
}


class Content:
    """Stands where the path of a file stood: what it holds is in memory, which is faster by far."""

    suffix = ".csv"

    def __init__(self, content=b""):
        self.content = content

    def open(self, _mode):
        return io.BytesIO(self.content)

    def __str__(self):
        return "x.csv"


def reader(path, shape, form, memory=True):
    """Return a function from a line to what is public about a file that holds it and one more line, and to the numbers of the line."""
    header, private, label = SHAPES[shape]
    head = written(header.encode(), form) + b"\n"
    path.write_bytes(head)
    if private == "s":
        file = open_scores(path, score="s", label=label, form=form)
    else:
        file = open_markers(path, b="s", c="t", label=label, form=form)
    content = Content()
    if memory:
        file = replace(file, fields=replace(file.fields, path=content))
    more = written(b",".join([b"7"] * (header.count(",") + 1)), form)

    def read(line):
        content.content = head + line + b"\n" + more + b"\n"
        if not memory:
            path.write_bytes(content.content)

        def work():
            found = file.read()
            columns = (found.values,) if private == "s" else (found.b, found.c)
            assert all(column[-1] == 7 for column in columns)
            return found.labels, columns[0].size, repr([column[0] for column in columns])

        answer = told(work)
        return (answer, None) if isinstance(answer, str) else (answer[:2], answer[2])

    return read


def lines_of(shape, fields, private):
    """Yield, for all public fields, the lines that have them, each with other private bytes."""
    names = SHAPES[shape][0].split(",")
    places = [place for place, name in enumerate(names) if name in SHAPES[shape][1]]
    left, right = places[0], len(names) - places[-1] - 1
    for public in product(fields, repeat=left + right):
        before = b"".join(field + b"," for field in public[:left])
        after = b"".join(b"," + field for field in public[left:])
        yield public, [(before + odd + after, odd) for odd in private]


def check_files(read, shape, form, fields, private):
    values = {}
    for public, lines in lines_of(shape, fields, private):
        seen = set()
        for line, odd in lines:
            answer, numbers = read(written(line, form))
            seen.add(answer)
            if numbers is not None:
                assert values.setdefault(odd, numbers) == numbers, (
                    "the number is a function of the private bytes alone"
                )
        assert len(seen) == 1, f"{shape}, {public}: {sorted(map(repr, seen))}"


FEW = [
    b"",
    b'"',
    b"a",
    b'"a""',
    b'""',
    b'"a"',
    b"\xff",
    b"\r",
]  # fields where there are two of them or more


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.sample(4)
def test_of_a_file_nothing_public_depends_on_private_bytes(tmp_path, shape, form):
    one = SHAPES[shape][0].count(",") + 1 - len(SHAPES[shape][1]) == 1
    check_files(
        reader(tmp_path / "x.csv", shape, form),
        shape,
        form,
        [*(FIELDS if one else FEW), OPEN[0]],
        [*(PRIVATE if one else texts(1)), OPEN[1]],
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_of_a_real_file_nothing_public_depends_on_private_bytes(tmp_path, shape):
    read = reader(tmp_path / "x.csv", shape, PLAIN, memory=False)
    check_files(read, shape, PLAIN, [b"a", b'"a', OPEN[0]], [b"", b"5", b",", b'"', OPEN[1]])


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_of_a_file_nothing_public_depends_on_longer_private_bytes(tmp_path, shape):
    two = SHAPES[shape][0].count(",") + 1 - len(SHAPES[shape][1]) > 1
    fields, private = (FEW, texts(3)) if two else (FIELDS, LONGER["private"])
    read = reader(tmp_path / "x.csv", shape, PLAIN)
    check_files(read, shape, PLAIN, fields, private)
    check_files(read, shape, PLAIN, [*FEW, OPEN[0]] if two else LONGER["fields"], texts(2))


@contextmanager
def cut(longest):
    """Make the longest line short, so that every line lies about the places at which long ones are cut."""
    with ExitStack() as stack:
        for module in (lines_module, private_fields, record_lines):
            stack.enter_context(mock.patch.object(module, "LONGEST", longest))
        stack.enter_context(
            mock.patch.object(lines_module, "_LONGEST_WITH_MARK_AND_CR", longest + 4)
        )
        yield


SIZES = [0, 1, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17, 18, 24, 25, 30, 60, 61, 80]


@pytest.mark.parametrize(
    "shape", ["label left", "label right", "both sides, label right", "two private, label left"]
)
@pytest.mark.parametrize("longest", [4, 8])
@pytest.mark.sample(4)
def test_of_a_file_nothing_public_depends_on_how_long_the_private_bytes_are(
    tmp_path, shape, longest
):
    texts = [letter * size for letter in (b"a", b'"') for size in SIZES[:-6]]
    long = [letter * size for letter in (b"5", b",", b'"', b"\r") for size in SIZES]
    read = reader(tmp_path / "x.csv", shape, PLAIN)
    for size in (1, 7, 1000):
        with cut(longest), mock.patch.object(private_fields, "BLOCK", size):
            check_files(read, shape, PLAIN, texts if "both" not in shape else texts[::5], long)


# ---- answers on standard input ---------------------------------------------------------------------------------------------


def asked(data, sizes=(), **options):
    """Return the labels that come out, the refusal if there is one, and the answers; pieces have these sizes, the last one the rest."""
    source, sizes = io.BytesIO(data), iter(sizes)
    found, refused = [], None
    try:
        for some in answer_lines(lambda _most: source.read(next(sizes, -1)), **options):
            found += some
    except DataSourceError as error:
        refused = str(error)
    return (
        tuple(answer.label for answer in found),
        refused,
        [repr(answer.value) for answer in found],
    )


@pytest.mark.parametrize("options", [{}, {"encoding": "latin-1"}, {"delimiter": ";"}], ids=repr)
def test_of_a_stream_nothing_public_depends_on_private_bytes(options):
    values = {}
    for label in [*FIELDS, OPEN[0]]:
        seen = set()
        for odd in [*PRIVATE, OPEN[1], b"x" * 30]:
            line = (label + b"," + odd).replace(b",", options.get("delimiter", ",").encode())
            data = line + b"\nz" + options.get("delimiter", ",").encode() + b"7\n"
            labels, refused, found = asked(data, **options)
            seen.add((labels, refused))
            assert len(labels) == (0 if refused else 2)
            if found:
                assert values.setdefault(odd, found[0]) == found[0]
                assert found[1] == "7.0"
        assert len(seen) == 1, f"{label}: {sorted(map(repr, seen))}"


def test_of_a_stream_it_does_not_matter_where_pieces_are_cut():
    for label, odd in product(
        [b"", b"a", b'"', b'"a"', b'""', b'a"', *OPEN[:1]],
        [*texts(1), b",,", b'x",5', b"\r\r", b"55555"],
    ):
        data = label + b"," + odd + b"\r\nz,7\n"
        whole = asked(data)
        for first, second in product(range(1, len(data)), range(1, len(data))):
            assert asked(data, [first, second]) == whole


@pytest.mark.parametrize("longest", [4, 9])
def test_of_a_stream_nothing_public_depends_on_how_long_the_private_bytes_are(longest):
    with mock.patch.object(answer_lines_module, "LONGEST", longest):
        for label in texts(2, without=(b",",)) + [b"a" * size for size in range(3, 16)]:
            seen = set()
            for odd, size in product(
                [b"5", b",", b'"', b"\r"], [0, 1, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15, 40]
            ):
                for sizes in ((), [3] * 30, [1] * 80):
                    seen.add(asked(label + b"," + odd * size + b"\nz,7\n", sizes)[:2])
            assert len(seen) == 1, f"{label}: {sorted(map(repr, seen))}"


# ---- records of units ------------------------------------------------------------------------------------------------------


class Units:
    """Stands where records are counted, and keeps whose they are."""

    def __init__(self):
        self.seen = []

    def kept(self, values, units):
        self.seen += list(units)
        return values


def records(data, header, form=PLAIN, sizes=()):
    """Return the unit of each record, and its number; pieces have these sizes, the last one the rest."""
    head, body, sizes = io.BytesIO(written(header, form) + b"\n"), io.BytesIO(data), iter(sizes)
    units = Units()
    source = SimpleNamespace(
        readline=head.readline, read1=lambda _most: body.read(next(sizes, -1)), read=None
    )
    with mock.patch("sordino.questions.records.UnitRows", return_value=units):
        blocks = list(
            open_record_lines(
                source, form, PrivacyUnit("u", max_rows=1, adjacency="replace-one"), column="x"
            )
        )
    return tuple(units.seen), [repr(number) for number in np.concatenate([np.zeros(0), *blocks])]


HEADERS = {
    "unit first": b"u,x",
    "unit last": b"x,u",
    "unit first of three": b"u,z,x",
    "unit last of three": b"z,x,u",
}


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
@pytest.mark.sample(16)
def test_whose_a_record_is_does_not_depend_on_private_bytes(header, form):
    values = {}
    for unit in [*FIELDS, OPEN[0]]:
        seen = set()
        for odd in [*PRIVATE, OPEN[1], b"5,5", b'"5,5",5', b"5," * 9]:
            line = unit + b"," + odd if header.startswith(b"u") else odd + b"," + unit
            units, numbers = records(
                written(line, form) + b"\n" + written(b"5,5,5", form) + b"\n", header, form
            )
            assert len(units) == 2
            seen.add(units)
            if units[0] is not None:
                assert values.setdefault(odd, numbers[0]) == numbers[0]
        assert len(seen) == 1, f"{unit}: {sorted(map(repr, seen))}"


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
@pytest.mark.sample(4)
def test_how_long_private_bytes_are_and_how_they_arrive_decides_no_unit(header):
    with cut(5):
        for unit in [b"", b"a", b'"', b'"a"', b"aaaa", b"aaaaa", b"aaaaaa", b"a" * 14, b"a" * 40]:
            seen, values = set(), {}
            for letter, size, pieces in product(
                [b"5", b",", b'"', b"\r"], SIZES, [(), [1] * 200, [7] * 30]
            ):
                odd = letter * size
                line = unit + b"," + odd if header.startswith(b"u") else odd + b"," + unit
                units, numbers = records(line + b"\n5,5,5\n", header, sizes=pieces)
                seen.add(units)
                if units[0] is not None:
                    assert values.setdefault(odd, numbers) == numbers
            assert len(seen) == 1, f"{unit}: {sorted(map(repr, seen))}"


def test_a_file_of_candidates_without_a_header_is_refused_before_the_charge(tmp_path):
    """It was opened, and its first row was missed as the header after the charge."""
    path = tmp_path / "scores.csv"
    path.write_text("a,1\nb,2\n")
    form = CsvFormat(header=False, columns=("label", "s"))
    with pytest.raises(InvalidParameter, match="must be True for a file of candidates"):
        open_scores(path, score="s", label="label", form=form)
    with pytest.raises(InvalidParameter, match="must be True for a file of candidates"):
        open_markers(path, b="label", c="s", form=form)
