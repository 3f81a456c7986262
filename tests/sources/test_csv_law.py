"""The law of CSV: the multiset of kept records is the union over lines of the rule of one line, and nothing else.

`reference` is a slow reader of the same rules, written a second time: one line, one character after the other.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace
from unittest import mock

import pytest
from hypothesis import given, settings, strategies as st

from sordino.sources import CsvFormat, open_source
from sordino.sources.csv import lines as lines_module
from sordino.sources.csv.lines import null_texts
from sordino.sources.engine import after_charge

NAMES = ("user", "item", "note")


def record(line, form):
    """Return the record of one line (bytes without LF), or None if it is dropped."""
    line = line.removesuffix(b"\r")
    if not line or len(line) > lines_module.LONGEST or 0 in line:
        return None
    # Byte by byte: delimiter and quote are no part of another character. Fields are decoded at the end.
    fields, field, state = [], "", "start"
    for character in line.decode("latin-1"):
        if state == "start" and character == form.quote:
            state = "inside"
        elif state == "inside":
            if character == form.quote:
                state = "closing"
            else:
                field += character
        elif state == "closing" and character == form.quote:
            field, state = field + character, "inside"
        elif character == form.delimiter:
            fields, field, state = [*fields, field], "", "start"
        elif state == "closing" or (form.quote and character == form.quote):
            return None
        else:
            field, state = field + character, "bare"
    if state == "inside":
        return None
    fields = [*fields, field]
    # A delimiter at the end begins a field of which nothing comes, or nothing that is text.
    if len(fields) == len(NAMES) + 1 and (state == "start" or decoded(field, form) is None):
        fields.pop()
    if not form.ragged and len(fields) != len(NAMES):
        return None
    fields = [decoded(value, form) for value in [*fields, *[""] * len(NAMES)][: len(NAMES)]]
    return tuple(None if value in {"", *null_texts(form)} else value for value in fields)


def decoded(field, form):
    """Return the text of a field, None if its bytes are not in the encoding."""
    try:
        return field.encode("latin-1").decode(form.encoding)
    except UnicodeDecodeError:
        return None


def reference(files, form):
    kept = Counter()
    for content in files:
        lines = content.split(b"\n")
        if form.encoding == "utf-8":
            lines = [line[3:] if line.startswith(b"\xef\xbb\xbf") else line for line in lines]
        kept.update(record(line, form) for line in (lines[1:] if form.header else lines))
    del kept[None]
    return kept


def engine_reads(source):
    def work(announce):
        with source.backend.scan(range(len(NAMES))) as scan:
            announce(scan)
            names = [f"c{index}" for index in range(len(NAMES))]
            answer = scan.ask(f"SELECT {', '.join(names)}, count(*) AS n FROM rows GROUP BY ALL")
            columns = [
                [None if value is None else str(value) for value in answer[name].tolist()]
                for name in names
            ]
            masks = [getattr(answer[name], "mask", False) for name in names]
            assert all(mask is False or mask.shape for mask in masks)
            return Counter(dict(zip(zip(*columns, strict=True), answer["n"].tolist(), strict=True)))

    return after_charge(work)


def check(folder, contents, form=None):
    """Both rules about the number of fields are tried; what is returned is of lines that may be ragged."""
    form = form or CsvFormat()
    check_one(folder, contents, form)
    return check_one(folder, contents, replace(form, ragged=True))


def check_one(folder, contents, form):
    paths = []
    for number, content in enumerate(contents):
        paths.append(folder / f"part{number}.csv")
        paths[-1].write_bytes(content)
    source = open_source(folder / "part*.csv", csv=form)
    assert tuple(source.columns) == NAMES
    got, wanted = engine_reads(source), reference(contents, form)
    for path in paths:
        path.unlink()
    assert got == wanted
    return got


PIECES = [
    b"a", b"b", b"1", b",", b",", b";", b'"', b'""', b'"x,y"', b'"q""q"', b" ", b"\r", b"\x1f", b"\0", b"\xff", b"\xc3\xa9",
    "€".encode(), "😀".encode(), b"\xe2\x82", b"\xed\xa0\x80", b"\xc0\x80", b"NA", b"NULL", b"\\", b"'", b"#", b"\xef\xbb\xbf", b"\xc2\x85",
    "\u2028".encode(), b"\x0b", b"\x0c", b"\x1a", b"\t",
]  # fmt: skip
pieces = st.lists(st.sampled_from(PIECES), max_size=8).map(b"".join)
lines = (
    pieces
    | st.binary(max_size=12).map(lambda b: b.replace(b"\n", b""))
    # As many fields as there are columns, or one more or less.
    | st.lists(pieces, min_size=2, max_size=4).map(b",".join)
)
ends = st.sampled_from([b"\n", b"\r\n", b"\n"])


@st.composite
def files(draw):
    body = b"".join(line + draw(ends) for line in draw(st.lists(lines, max_size=12)))
    if draw(st.booleans()):
        body += draw(lines)
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + b"user,item,note" + draw(ends) + body


@given(content=files(), null=st.sampled_from(["", "NA", ("NA", "rice")]))
@settings(max_examples=30)
@pytest.mark.slow
def test_kept_records_are_the_union_over_lines(tmp_path_factory, content, null):
    check(tmp_path_factory.mktemp("law"), [content], CsvFormat(null=null))


@given(body=st.lists(lines, max_size=6), extra=lines, place=st.integers(0, 6))
@settings(max_examples=15)
def test_one_more_line_changes_nothing_but_its_own_record(tmp_path_factory, body, extra, place):
    folder = tmp_path_factory.mktemp("neighbour")
    before = check(folder, [b"user,item,note\n" + b"\n".join(body)])
    longer = [*body[:place], extra, *body[place:]]
    after = check(folder, [b"user,item,note\n" + b"\n".join(longer)])
    own = record(extra, CsvFormat(ragged=True))
    last = record(body[-1], CsvFormat(ragged=True)) if body else None
    assert after - before in ({}, Counter([own]))
    assert before - after == Counter(), last


CASES = {
    "quoted": b'u,"a,b","say ""hi"""\n',
    "doubled only": b'u,"""",""\n',
    "open quote": b'u,"a,b\nv,x,y\nw,z"\n',
    "stray quote": b'u,5" pipe,n\nv,x,y\n',
    "text after quote": b'u,"a"b,n\nv,x,y\n',
    "field with a line break": b'u,"first\nsecond",n\nv,x,y\n',
    "few fields": b"u\nv,x\n",
    "many fields": b"u,i,n,more,fields\n",
    "only delimiters": b",,\n,,,,,\n",
    "bad utf-8": b"u,\xff,n\nv,x,y\n",
    "nul": b"u,a\0b,n\nv,x,y\n",
    "lone cr": b"u,a\rb,n\nv,x,y\n",
    "cr before crlf": b"u,i,n\r\r\nv,x,y\r\n",
    "blank lines": b"\n\r\n\nu,i,n\n\n",
    "unit separator": b"u,a\x1fb,n\n",
    "no last newline": b"u,i,n",
    "no last newline cr": b"u,i,n\r",
    "spaces": b" u , i,n \n",
    "only header": b"",
    "mixed ends": b"u,i,n\r\nv,x,y\nw,z,q\r\n",
    "null text": b'u,NULL,"NULL"\n',
    "backslash": b'u,"a\\",n\n',
    "mark inside": b"\xef\xbb\xbfu,i,n\n",
    "next line characters": "u,a\u2028b\x85c,n\n".encode(),
}


@pytest.mark.parametrize("body", CASES.values(), ids=CASES.keys())
@pytest.mark.sample(4)
def test_named_cases(tmp_path, body):
    check(tmp_path, [b"user,item,note\n" + body, b"user,item,note\r\n" + body])
    for null in ("NULL", ("x", "NULL", "u")):
        check(tmp_path, [b"\xef\xbb\xbfuser,item,note\n" + body], CsvFormat(null=null))


def test_what_the_rules_say(tmp_path):
    body = b'u,"a,b","say ""hi"""\nv,"open\nw,5" pipe,n\nx\ny,i,n,extra\n\n z , i ,"NA"\n'
    got = check(tmp_path, [b"user,item,note\n" + body], CsvFormat(null="NA"))
    assert got == Counter(
        [("u", "a,b", 'say "hi"'), ("x", None, None), ("y", "i", "n"), (" z ", " i ", None)]
    )


@pytest.mark.parametrize(
    "form",
    [
        CsvFormat(delimiter=";"),
        CsvFormat(delimiter="\t", quote=""),
        CsvFormat(delimiter="|", quote="'"),
        CsvFormat(delimiter=".", quote="^"),
        CsvFormat(delimiter="\\", quote="]"),
        CsvFormat(delimiter="'", quote="-"),
        CsvFormat(encoding="latin-1"),
    ],
    ids=repr,
)
def test_other_formats(tmp_path, form):
    rng = random.Random(3)
    special = [
        form.delimiter.encode() * 1,
        form.delimiter.encode(),
        form.quote.encode(),
        form.quote.encode() * 2,
        b"]",
        b"^",
    ]
    body = b"\n".join(
        b"".join(rng.choices(PIECES + special * 5, k=rng.randrange(9))).replace(b"\n", b"")
        for _ in range(400)
    )
    header = form.delimiter.join(NAMES).encode() + b"\n"
    check(tmp_path, [header + body], form)


@pytest.mark.parametrize("quote", ['"', ""])
def test_a_line_is_a_record_if_it_has_as_many_fields_as_there_are_columns(tmp_path, quote):
    """Every short line, one by one and all together: the number of its own fields decides about it, and no other line."""
    words = [bytes(word) for size in range(7) for word in itertools.product(b',a"', repeat=size)]
    body = b"\n".join(words)
    form = CsvFormat(quote=quote)
    got = check_one(tmp_path, [b"user,item,note\n" + body], form)
    assert got.total() == sum(record(word, form) is not None for word in words) > 30
    assert got < check_one(tmp_path, [b"user,item,note\n" + body], replace(form, ragged=True))


def test_without_a_header_every_line_is_a_record(tmp_path):
    check(tmp_path, [b"\xef\xbb\xbfu,i,n\nv,x,y"], CsvFormat(header=False, columns=NAMES))


def test_what_a_marked_line_says_does_not_depend_on_its_place(tmp_path):
    """A row that is put before a line must not change it: both orders, in one file and in two."""
    marked, plain = b"\xef\xbb\xbfu,i,n\n", b"v,x,y\n"
    form = CsvFormat(header=False, columns=NAMES)
    answers = [
        check(tmp_path, contents, form)
        for contents in ([marked + plain], [plain + marked], [plain, marked])
    ]
    assert answers == [Counter([("u", "i", "n"), ("v", "x", "y")])] * 3


@pytest.mark.slow
def test_a_mark_does_not_count_for_the_longest_line(tmp_path):
    plain, form = b"v,x,y\n", CsvFormat(header=False, columns=NAMES)
    longest = (
        b"a" * (lines_module.LONGEST - 4) + b",i,n"
    )  # a mark, and the CR of a line end, do not count
    assert check(tmp_path, [plain + b"\xef\xbb\xbf" + longest + b"\r\n"], form).total() == 2
    assert check(tmp_path, [plain + b"\xef\xbb\xbf" + b"a" + longest + b"\r\n"], form).total() == 1


def blocks(rng, size, longest):
    """Yield nasty lines of about `size` bytes in all."""
    total = 0
    while total < size:
        if rng.random() < 0.002:
            line = rng.choice([b"a", "é".encode(), b"\xff", b'"']) * rng.choice(
                [longest - 1, longest, longest + 1, 2 * longest]
            )
            line = rng.choice(
                [line, line[:longest], b"u," + line[: longest - 2], line[: longest + 1]]
            )
        elif rng.random() < 0.9:
            line = b"u%d,i%d,n" % (rng.randrange(99), rng.randrange(99))
        else:
            line = b"".join(rng.choices(PIECES, k=rng.randrange(8)))
        line += rng.choice([b"\n", b"\n", b"\r\n"])
        total += len(line)
        yield line


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.sample(4)
def test_no_boundary_matters(tmp_path, seed):
    """Blocks and limits are made small, so that every line lies at some boundary."""
    rng = random.Random(seed)
    longest, block = rng.choice([(60, 16), (60, 61), (60, 64), (60, 1000), (200, 150)])
    with (
        mock.patch.object(lines_module, "LONGEST", longest),
        mock.patch.object(lines_module, "BLOCK", block),
    ):
        contents = [b"user,item,note\n" + b"".join(blocks(rng, 20_000, longest)) for _ in range(2)]
        check(tmp_path, [contents[0], contents[1].rstrip(b"\r\n")])


@pytest.mark.slow
def test_a_large_file_with_bad_lines_spread(tmp_path):
    rng = random.Random(1)
    some = b"".join(blocks(rng, 1 << 20, 500))
    long = (
        b"u,"
        + b"x" * (lines_module.LONGEST - 2)
        + b"\n"
        + b"u,x"
        + b"x" * (lines_module.LONGEST - 2)
        + b"\n"
        + b"y" * (5 << 20)
        + b"\nu,i,n\n"
    )
    parts = [some] * 40
    parts[7] = parts[30] = long
    content = b"user,item,note\n" + b"".join(parts)
    assert len(content) > 36 << 20
    check(tmp_path, [content])


@pytest.mark.parametrize("block", [1, 2, 7, 16, 49, 50, 51, 52, 53, 101, 5000])
def test_lines_are_cut_from_the_whole_file(tmp_path, block):
    """The pieces that are yielded, put together, are the file without what is too long."""
    with (
        mock.patch.object(lines_module, "LONGEST", 50),
        mock.patch.object(lines_module, "BLOCK", block),
    ):
        lines = [bytes([97 + size % 26]) * size for size in range(1, 70)]
        path = tmp_path / "x.csv"
        path.write_bytes(b"\r\n".join(lines))
        read = []
        got = []
        for block in lines_module.kept_blocks([path], CsvFormat(), None, read.append):
            got += block.split(b"\n")[:-1]
        assert got == lines[:50]
        assert sum(read) == path.stat().st_size
