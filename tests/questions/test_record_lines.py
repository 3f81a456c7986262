"""Lines as records: as many as there are, each a function of its own line, whatever stands there and however it arrives."""

from __future__ import annotations

import io
import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sordino.errors import InvalidParameter
from sordino.sources import CsvFormat
from sordino.sources.csv import record_lines as module
from sordino.sources.csv.header import split_line
from sordino.sources.csv.lines import LONGEST, public_text, quoted_fields
from sordino.sources.csv.reader import field_texts
from sordino.sources.csv.record_lines import Fields, UnitRows, fields_of, record_blocks

FORM = CsvFormat(null="NA")
ODD = [
    b"",
    b"\r",
    b"u1",
    b"u1,",
    b"u1,7",
    b"u1,7,more,and more",
    b'"u1","7"',
    b'"u,1",7.5',
    b'"u1"",7',
    b'u1,"7',
    b'u"1,7',
    b"u1,\xff7",
    b"u\xe21,7",
    b"u1,7\0",
    b"u1,NA",
    b"NA,7",
    b",7",
    b"u1,nan",
    b"u1,inf",
    b"u1,-1e999",
    b"u1,1_0",
    b"u1, 7 ",
    b"u1,0x10",
    b"u1,\xd9\xa1",
    b"u1,7\r",
    b"\xef\xbb\xbfu1,7",
]
lines = st.lists(
    st.one_of(st.sampled_from(ODD), st.binary(max_size=12).map(lambda b: b.replace(b"\n", b","))),
    max_size=12,
)


def records(data, *, fields=(1, None), rows=None, size=None, form=FORM):
    file = io.BytesIO(data)
    read = file.read if size is None else lambda _most: file.read(size)
    blocks = list(record_blocks(read, form, Fields(*fields), rows))
    return np.concatenate([np.zeros(0), *blocks]).tolist()


def same(a, b):
    return np.array_equal(a, b, equal_nan=True)


@settings(max_examples=150)
@given(lines)
def test_every_line_is_one_record_that_depends_on_it_alone(rows):
    data = b"".join(row + b"\n" for row in rows)
    found = records(data)
    assert len(found) == len(rows)
    assert same(found, [records(row + b"\n")[0] for row in rows])


@settings(max_examples=60)
@given(lines, st.integers(1, 7))
def test_how_the_bytes_arrive_does_not_matter(rows, size):
    data = b"\n".join(rows)
    whole = records(data)
    assert len(whole) == data.count(b"\n") + bool(data and not data.endswith(b"\n"))
    assert same(whole, records(data, size=size))
    assert same(whole, records(data + b"\n" * bool(data and not data.endswith(b"\n"))))


@settings(max_examples=150)
@given(
    lines,
    st.sampled_from([FORM, CsvFormat(quote="", delimiter=";"), CsvFormat(encoding="latin-1")]),
)
def test_the_quick_way_is_the_way_of_the_rules(rows, form):
    data = b"".join(row.replace(b",", form.delimiter.encode()) + b"\n" for row in rows)
    for fields in (
        Fields(0, "first"),
        Fields(1, "first"),
        Fields(0, "last"),
        Fields(1, "last"),
        Fields(1, None),
        Fields(0, "first", 1),
        Fields(1, "first", 2),
        Fields(0, "last", 1),
        Fields(0, None, 1),
        Fields(1, None, 2),
    ):
        if data and (quick := module._read_unquoted_records(data, form, fields)) is not None:
            slow = module._read_records_by_rule(data, form, fields)
            assert same(quick[0], slow[0])
            assert quick[1] == slow[1]


@pytest.mark.parametrize("form", [CsvFormat(), CsvFormat(quote="")], ids=["quotes", "none"])
@pytest.mark.sample(2)
def test_what_a_session_takes_for_no_row_has_no_number(form):
    """One rule about lines: a line with too few or too many fields, or a quote out of place, holds nothing here either."""
    words = ["".join(word) for size in range(1, 7) for word in product('",1a', repeat=size)]
    for width, place in ((1, 0), (2, 0), (2, 1), (3, 1)):
        found = records(
            "".join(f"{word}\n" for word in words).encode(), fields=(place, None, width), form=form
        )
        for word, number in zip(words, found, strict=True):
            batch = field_texts(f"{word}\n".encode(), form, [place], width)
            text = b"" if not batch.size else batch.data[batch.offsets[0] : batch.offsets[1]]
            assert same([number], [float(text) if text.isdigit() else math.nan]), word


def test_a_text_with_line_breaks_brings_no_number_of_its_own():
    """Twin: lines may be ragged."""
    data = "".join(f'p{i},1,"a\nz{i},1000\n{i}\nb"\n' for i in range(100)).encode()
    assert all(map(math.isnan, records(data, fields=(0, "first", 2))))
    assert sum(records(data, fields=(0, "first"))[1::4]) == 100_000


def test_where_unit_and_number_stand():
    assert fields_of(["u", "a", "x"], "x", "u") == Fields(1, "first", 2)
    assert fields_of(["x", "a", "u"], "x", "u") == Fields(0, "last", 2)
    assert fields_of(["a", "x", "u"], "x", None) == Fields(1, None, 3)
    assert fields_of(["a", "x", "u"], "x", None, ragged=True) == Fields(1, None)
    with pytest.raises(InvalidParameter, match="first or its last column"):
        fields_of(["a", "u", "x"], "x", "u")


@settings(max_examples=200)
@given(st.text(alphabet='",ab;\n', max_size=14))
def test_quoted_lines_are_split_as_everywhere(line):
    for form in (CsvFormat(), CsvFormat(delimiter=";")):
        found = list(quoted_fields(line.encode(), form.delimiter.encode(), b'"'))
        wanted = split_line(line, form) if '"' in line else line.split(form.delimiter)
        fields = [part.decode() for part in found if part is not None]
        assert None not in found[:-1]
        if wanted is not None:
            assert fields == wanted
            assert len(fields) == len(found)
        else:
            assert found[-1] is None
            assert (
                any(fields == split_line(line[:end], form) for end in range(len(line)))
                or not fields
            ), "the fields before"


@given(st.text(alphabet='"a', max_size=8))
def test_what_a_public_field_says_is_what_it_says_everywhere(field):
    wanted = split_line(field, FORM)
    assert public_text(field.encode(), b'"') == (None if wanted is None else wanted[0].encode())


def test_a_line_of_nothing_but_quotes_takes_no_time_to_speak_of():
    assert list(quoted_fields(b'"' * (LONGEST - 1), b",", b'"')) == [None], (
        "an odd number of quotes"
    )
    assert list(quoted_fields(b'""' * 9, b",", b'"')) == [b'"' * 8]


NUMBERS = {
    b"7": 7,
    b" -7.5\t": -7.5,
    b"+.5e1": 5,
    b"1e999": math.inf,
    b"-1e999": -math.inf,
    b'"7"': 7,
    b"NA": math.nan,
    b"": math.nan,
    b"nan": math.nan,
    b"inf": math.nan,
    b"1_0": math.nan,
    b"0x10": math.nan,
    b"seven": math.nan,
    b"7\0": math.nan,
    b"7\xff": math.nan,
    b'7"': math.nan,
    b'"7': math.nan,
    b"7,\xff\0": 7,
    b'7,"': 7,
}


@pytest.mark.parametrize("text", NUMBERS)
@pytest.mark.sample(2)
def test_what_is_a_number(text):
    assert same(records(b"u," + text + b"\n"), [NUMBERS[text]])
    assert same(records(b"u," + text + b"\r\n" + b'"a",1\n'), [NUMBERS[text], 1.0])


def test_a_null_text_may_be_a_number():
    form = CsvFormat(null="-999")
    for more in (b"", b'"u",3\n'):
        assert same(records(b"u,-999\nu,-99\n" + more, form=form)[:2], [math.nan, -99])


def test_there_may_be_several_null_texts():
    form = CsvFormat(null=("-999", "NA", "\u20ac"), encoding="latin-1")
    for more in (b"", b'"u",3\n'):
        assert same(
            records(b"u,-999\nNA,7\nu,NA\nu,-99\n" + more, form=form)[:4],
            [math.nan, 7.0, math.nan, -99],
        )


def test_a_null_text_that_the_encoding_lacks_stands_nowhere():
    form = CsvFormat(encoding="latin-1", null="\u20ac")
    assert same(records(b"u,7\nu,\x80\nu,\n", form=form), [7, math.nan, math.nan])


@pytest.mark.parametrize("length", [LONGEST - 3, LONGEST + 1, 3 * LONGEST + 17])
@pytest.mark.parametrize("size", [None, 1 << 16])
@pytest.mark.each_value
def test_of_a_line_that_is_too_long_the_beginning_is_read(length, size):
    for line, wanted in (
        (b"u,7," + b"x" * length, 7),
        (b"u," + b"x" * length + b",7", math.nan),
        (b"u," + b"7" * length, math.inf),
    ):
        for data in (b"u,1\n" + line + b"\nu,2\n", b"u,1\n" + line + b"\r\nu,2"):
            assert same(records(data, size=size), [1, wanted, 2])
        assert same(records(line, size=size), [wanted])
    assert same(
        records(
            b"u,v" + b"x" * length + b"\nu,7\n", rows=UnitRows(1), fields=(0, "first"), size=size
        ),
        [math.nan] * 2,
    )
    assert same(records(b"x" * (LONGEST - 2) + b",7\r\n"), [7]), "as long as a line may be"
    assert same(records(b"x" * (LONGEST - 1) + b",7\n"), [math.nan])


def test_a_byte_order_mark_that_begins_a_line_is_no_part_of_it_wherever_the_line_stands():
    data = b"\xef\xbb\xbf7,u\n8,v\n"
    for size in (None, 8):  # where a block begins decides nothing
        assert same(records(data + data, fields=(0, None), size=size), [7, 8, 7, 8])
    assert same(records(b"7,uvwxyz\n" + data, fields=(0, None), size=9), [7, 7, 8])
    assert same(records(b"\xef\xbb\xbf" + data, fields=(0, None)), [math.nan, 8]), "a second one is"
    assert same(
        records(data, fields=(0, None), form=CsvFormat(encoding="latin-1")), [math.nan, 8]
    ), "in Latin-1 these are letters"


def test_the_first_rows_of_each_unit_count():
    data = b"a,1\nb,2\na,3\n,4\na,5\nNA,6\nb,7\nb,8\n"
    assert same(
        records(data, fields=(0, "first"), rows=UnitRows(2)),
        [1, 2, 3, math.nan, math.nan, math.nan, 7, math.nan],
    )


def moved(owners, most, other, rows):
    """Return which records change when all rows of unit a hold something else."""
    plain = [f"{owner},{i}".encode() for i, owner in enumerate(owners)]
    changed = [b"a," + other[i] if owner == "a" else plain[i] for i, owner in enumerate(owners)]
    found = [
        records(b"".join(line + b"\n" for line in lines), fields=(0, "first"), rows=rows(most))
        for lines in (plain, changed)
    ]
    return [i for i, (x, y) in enumerate(zip(*found, strict=True)) if not same([x], [y])]


class OnlyNumbers:
    """A broken twin: what is no number does not count towards the bound, so what a row holds decides about later ones."""

    def __init__(self, most):
        self.rows = UnitRows(most)

    def kept(self, values, units):
        return self.rows.kept(
            values, [None if math.isnan(v) else unit for v, unit in zip(values, units, strict=True)]
        )


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=12),
    st.integers(1, 3),
    st.lists(st.binary(max_size=6).map(lambda b: b.replace(b"\n", b"")), min_size=12, max_size=12),
)
def test_changing_all_rows_of_one_unit_changes_nothing_about_the_others_and_at_most_m_of_its_own(
    owners, most, other
):
    found = moved(owners, most, other, UnitRows)
    assert {owners[i] for i in found} <= {"a"}
    assert len(found) <= most


def test_a_bound_that_looks_at_what_rows_hold_is_convicted():
    other = [b"x", b"8", b"9"]
    assert len(moved("aaa", 2, other, UnitRows)) == 2
    assert len(moved("aaa", 2, other, OnlyNumbers)) == 3
