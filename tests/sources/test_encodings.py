"""Encodings of CSV files: a line that is not in the declared one is dropped, by itself; UTF-16 is read by units, whoever writes them."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections import Counter
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings, strategies as st

from sordino import CsvFormat, PrivacyUnit
from sordino.errors import DataSourceError, InvalidParameter
from sordino.questions import open_record_lines, open_scores, prepare_counts, prepare_records
from sordino.sources import answer_lines, open_source
from sordino.sources.csv import encodings, lines as lines_module
from sordino.sources.engine import after_charge

MARK, LF, CR = 0xFEFF, 10, 13
UNITS = st.sampled_from(
    [97, 98, 44, 44, 34, 32, CR, 0, MARK, 0xE9, 0x20AC, 0xD83D, 0xDE00, 0xDFFF, 0xD800, 0x0A0A, 0x2028, 0x0A00, 0x000D, 0x0D0A]
)  # fmt: skip
UNIT_LINES = st.lists(st.lists(UNITS, max_size=7), max_size=8)


def text_of(units):
    """Return the text of a line, None if it is none: written without a codec of Python."""
    text, at = "", 0
    while at < len(units):
        unit, behind = units[at], units[at + 1] if at + 1 < len(units) else 0
        if 0xD800 <= unit < 0xDC00 and 0xDC00 <= behind < 0xE000:
            text, at = text + chr(0x10000 + ((unit - 0xD800) << 10) + behind - 0xDC00), at + 2
        elif 0xD800 <= unit < 0xE000:
            return None
        else:
            text, at = text + chr(unit), at + 1
    return text


def record(units):
    """Return the record of one line of units, None if it is dropped; without quotes.

    A field with half of a character is missing.
    """
    units = units[1:] if units[:1] == [MARK] else units
    units = units[:-1] if units[-1:] == [CR] else units
    # Halves of characters take three bytes each, as the reader writes them.
    written = packed(units).decode("utf-16-le", "surrogatepass").encode("utf-8", "surrogatepass")
    if not units or 0 in units or len(written) > lines_module.LONGEST:
        return None
    fields = [[]]
    for unit in units:
        if unit == ord(","):
            fields.append([])
        else:
            fields[-1].append(unit)
    return tuple(text_of(field) or None for field in [*fields, [], []][:2])


def packed(units, order="<"):
    return struct.pack(f"{order}{len(units)}H", *units)


def joined(rows, *, ended=True):
    units = [unit for row in rows for unit in [*row, LF]]
    return units if ended or not units else units[:-1]


def read(path, form):
    source = open_source(path, csv=form)

    def work(announce):
        with source.backend.scan(range(2)) as scan:
            announce(scan)
            answer = scan.ask("SELECT c0, c1, count(*) AS n FROM rows GROUP BY ALL")
            columns = [
                [None if one is None else str(one) for one in answer[name].tolist()]
                for name in ("c0", "c1")
            ]
            return Counter(dict(zip(zip(*columns, strict=True), answer["n"].tolist(), strict=True)))

    return after_charge(work)  # fmt: skip


def kept(rows):
    found = Counter(map(record, rows))
    del found[None]
    return found


FORMS = {"<": "utf-16-le", ">": "utf-16-be"}


@given(
    rows=UNIT_LINES,
    order=st.sampled_from("<>"),
    ended=st.booleans(),
    odd=st.booleans(),
    header=st.booleans(),
)
@settings(max_examples=25)
def test_kept_records_are_the_union_over_lines(tmp_path_factory, rows, order, ended, odd, header):
    path = tmp_path_factory.mktemp("law") / "t.csv"
    last = bytes([97]) if odd else b""
    wanted = kept(rows[:-1] if odd and not ended else rows)
    if odd:
        # One byte at the end is part of the last field of the last line, which is missing then.
        units = rows[-1] if rows and not ended else []
        units = units[1:] if units[:1] == [MARK] else units
        found = record([*units, 0xD800])
        wanted.update([found] if found else [])
    body = packed(joined(rows, ended=ended), order) + last
    form = CsvFormat(quote="", ragged=True, header=False, columns=("a", "b"), encoding=FORMS[order])
    if header:
        form = CsvFormat(quote="", ragged=True, encoding="utf-16")
        body = packed([MARK, *map(ord, "a,b"), CR, LF], order) + body
    path.write_bytes(body)
    assert read(path, form) == wanted


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.sample(4)
def test_no_boundary_matters(tmp_path, seed):
    """Blocks and limits are made small, so that every unit lies at some boundary, and halves of characters are apart."""
    rng = random.Random(seed)
    path, order = tmp_path / "t.csv", rng.choice("<>")
    units = [97, 98, 44, CR, 0xE9, 0x20AC, MARK]
    pair = [0xD83D, 0xDE00]
    rows = []
    for _ in range(700):
        row = [
            unit
            for _ in range(rng.randrange(12))
            for unit in rng.choice([pair, pair, [rng.choice(units)]])
        ]
        if rng.random() < 0.2:
            row.insert(rng.randrange(len(row) + 1), rng.choice([0xD83D, 0xDE00, 0, 0xDBFF]))
        rows.append(row * rng.choice([1, 1, 1, 1, 9]))
    path.write_bytes(packed(joined(rows), order))
    form = CsvFormat(quote="", ragged=True, header=False, columns=("a", "b"), encoding=FORMS[order])
    for longest, block in [(60, 1), (60, 2), (60, 7), (60, 61), (100, 1000)]:
        with (
            mock.patch.object(lines_module, "LONGEST", longest),
            mock.patch.object(lines_module, "BLOCK", block),
        ):
            assert read(path, form) == kept(rows)


@given(rows=UNIT_LINES, extra=st.lists(UNITS, max_size=9), place=st.integers(0, 8))
@settings(max_examples=15)
def test_one_more_line_changes_nothing_but_its_own_record(tmp_path_factory, rows, extra, place):
    path = tmp_path_factory.mktemp("neighbor") / "t.csv"
    form = CsvFormat(quote="", ragged=True, encoding="utf-16")
    answers = []
    for some in (rows, [*rows[:place], extra, *rows[place:]]):
        path.write_bytes(packed([MARK, *map(ord, "a,b"), LF, *joined(some)]))
        answers.append(read(path, form))
    before, after = answers
    assert after - before in ({}, Counter([record(extra)]))
    assert not before - after


TEXT = "u,i\nä,€\nЖ,😀\nplain,a\n"


@pytest.mark.parametrize("order", ["utf-16-le", "utf-16-be"])
def test_utf_16_says_its_order_in_its_first_line(tmp_path, order):
    """Of each file by itself: the mark is part of the header line, which is public."""
    (tmp_path / "t1.csv").write_bytes(("\ufeff" + TEXT).encode(order))
    (tmp_path / "t2.csv").write_bytes(("\ufeff" + TEXT.replace("\n", "\r\n")).encode("utf-16-be"))
    found = read(tmp_path / "t*.csv", CsvFormat(encoding="utf-16"))
    assert found == Counter({("ä", "€"): 2, ("Ж", "😀"): 2, ("plain", "a"): 2})
    # With the order in its name a mark is no part of a line, and need not be there.
    for text in (TEXT, "\ufeff" + TEXT, TEXT.replace("plain", "\ufeffplain")):
        (tmp_path / "u.csv").write_bytes(text.encode(order))
        assert read(tmp_path / "u.csv", CsvFormat(encoding=order)) == Counter(
            [("ä", "€"), ("Ж", "😀"), ("plain", "a")]
        )


def test_a_file_without_a_mark_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    for content in (TEXT.encode("utf-16-le"), b"", b"\xff", TEXT.encode()):
        path.write_bytes(content)
        with pytest.raises(DataSourceError, match="no byte order mark"):
            open_source(path, csv=CsvFormat(encoding="utf-16"))
    path.write_bytes(TEXT.encode("utf-32"))
    with pytest.raises(DataSourceError, match="without control characters"):
        open_source(path, csv=CsvFormat(encoding="utf-16"))
    path.write_bytes(b"\xff\xfeu\0\x00\xd8,\0i\0\n\0")
    with pytest.raises(DataSourceError, match="without control characters"):
        open_source(path, csv=CsvFormat(encoding="utf-16"))


def test_the_first_bytes_of_a_file_without_a_header_are_private():
    with pytest.raises(InvalidParameter, match="utf-16-le or utf-16-be"):
        CsvFormat(encoding="utf-16", header=False, columns=("a",))
    with pytest.raises(InvalidParameter, match="must be one of 'utf-8'"):
        CsvFormat(encoding="utf-32")


def test_a_file_that_changes_its_order_ends_with_the_constant_sentence(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(("\ufeff" + TEXT).encode("utf-16-le"))
    question = prepare_counts(
        open_source(path, csv=CsvFormat(encoding="utf-16")), PrivacyUnit.row(), kind="rows"
    )
    path.write_bytes(TEXT.encode("utf-16-le"))
    with pytest.raises(DataSourceError, match="The data engine could not finish") as caught:
        question.run()
    assert "mark" not in str(caught.value)


def test_cp1252_has_bytes_that_are_none(tmp_path):
    """Such a field is missing, and no other one."""
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n\x80,1\n\x81,2\nx,\x9d\n\xe4,\x93\n")
    wanted = Counter([("€", "1"), (None, "2"), ("x", None), ("ä", "“")])
    assert read(path, CsvFormat(encoding="cp1252")) == wanted
    assert read(path, CsvFormat(encoding="latin-1")).total() == 4
    assert read(path, CsvFormat()) == Counter([(None, "1"), (None, "2"), ("x", None), (None, None)])
    assert read(path, CsvFormat(encoding="cp1252", null="€")) == wanted - Counter(
        [("€", "1")]
    ) + Counter([(None, "1")])


@given(body=st.lists(st.binary(max_size=6).map(lambda line: line.replace(b"\n", b"")), max_size=8))
@settings(max_examples=15)
def test_lines_of_cp1252_are_read_one_by_one(tmp_path_factory, body):
    path = tmp_path_factory.mktemp("law") / "t.csv"
    path.write_bytes(b"a,b\n" + b"\n".join(body))
    wanted = Counter()
    for line in body:
        text = line.removesuffix(b"\r").decode("cp1252", "replace")
        if text and 0 not in line:
            fields = text.split(",")
            if len(fields) != 2 and not (len(fields) == 3 and text.endswith(",")):
                continue
            fields = fields[:2]
            wanted[tuple(None if "\ufffd" in field else field or None for field in fields)] += 1
    assert read(path, CsvFormat(encoding="cp1252", quote="")) == wanted


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be"])
def test_other_readers_of_files(tmp_path, encoding):
    """Records that are randomized, and candidates, in the same encodings."""
    mark = "\ufeff" if encoding == "utf-16" else ""
    codec = "utf-16-be" if encoding == "utf-16" else encoding
    (tmp_path / "r.csv").write_bytes(
        (mark + "ü;x\nä;1\u00a0234,5\nä;1.5\n\nö; 2,5 \r\n").encode(codec)
    )
    form = CsvFormat(encoding=encoding, delimiter=";", decimal=",", thousands="\u00a0")
    unit = PrivacyUnit("ü", adjacency="replace-one", max_rows=2)
    blocks = prepare_records(open_source(tmp_path / "r.csv", csv=form), unit, column="x").run()
    numbers = [
        number if number == number else None for block in blocks for number in block.tolist()
    ]
    assert numbers == [1234.5, None, None, 2.5]
    (tmp_path / "s.csv").write_bytes((mark + "name,score\nä,1.5\nö,\nü,x\n").encode(codec))
    scores = open_scores(
        tmp_path / "s.csv", score="score", label="name", form=CsvFormat(encoding=encoding)
    ).read()
    assert scores.labels == ("ä", "ö", "ü")


def test_half_a_character_is_no_label_and_no_number(tmp_path):
    path = tmp_path / "s.csv"
    form = CsvFormat(encoding="utf-16-le")
    for label, score, fine in (
        ("a", "\ud800", True),
        ("a", "1\ud83d", True),
        ("\ud800", "1", False),
    ):
        path.write_bytes(f"name,score\n{label},{score}\nb,2\n".encode("utf-16-le", "surrogatepass"))
        file = open_scores(path, score="score", label="name", form=form)
        if fine:
            assert file.read().labels == ("a", "b")
            assert [value == value for value in file.read().values.tolist()] == [False, True]
        else:
            with pytest.raises(DataSourceError, match="Line 2"):
                file.read()


def test_standard_input_is_no_utf_16():
    for encoding in ("utf-16", "utf-16-le"):
        with pytest.raises(InvalidParameter, match="The encoding of standard input"):
            answer_lines(lambda size: b"", encoding=encoding)
        with pytest.raises(InvalidParameter, match="The encoding of standard input"):
            open_record_lines(
                None, CsvFormat(encoding=encoding), PrivacyUnit.row("replace-one"), column="x"
            )


@pytest.mark.slow
def test_memory_is_bounded_whatever_a_line_holds(tmp_path):
    """A line of 24 MB, in which a third is nothing but halves of characters."""
    path = tmp_path / "t.csv"
    with path.open("wb") as file:
        file.write(packed([MARK, *map(ord, "a,b"), LF]))
        for unit in (97, 0x20AC, 0xD800):
            for _ in range(16):
                file.write(packed([unit]) * (1 << 18))
        file.write(packed([LF, 120, 44, 120, LF]))
    tracemalloc.start()
    blocks = list(
        lines_module.kept_blocks([path], CsvFormat(encoding="utf-16"), b"a,b", lambda size: None)
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert b"".join(blocks) == b"x,x\n"
    assert peak < 20 * lines_module.LONGEST


def test_reading_a_file_as_a_whole_is_convicted(tmp_path, monkeypatch):
    """A decoder that raises ends the release by one line; one that skips takes the end of a line away."""
    rows = [[97, 44, 98]] * 50
    path = tmp_path / "t.csv"
    form = CsvFormat(quote="", ragged=True, encoding="utf-16-le", header=False, columns=("a", "b"))

    def counted(some):
        path.write_bytes(packed(joined(some)))
        question = prepare_counts(open_source(path, csv=form), PrivacyUnit.row(), kind="rows")
        return int(question.run().values[0])

    bad = [97, 0xD800]
    assert (counted(rows), counted([*rows, bad])) == (50, 51)
    monkeypatch.setattr(
        encodings._Utf16Lines,
        "_write_in_utf8",
        lambda self, fresh: fresh.decode(self._order).encode(),
    )
    assert counted(rows) == 50
    with pytest.raises(DataSourceError):
        counted([*rows, bad])


def test_progress_counts_the_bytes_of_the_file(tmp_path):
    path = Path(tmp_path / "t.csv")
    path.write_bytes(("\ufeff" + TEXT * 50).encode("utf-16-le"))
    seen = []
    list(
        lines_module.kept_blocks(
            [path], CsvFormat(encoding="utf-16-le", header=False, columns=("a",)), None, seen.append
        )
    )
    assert sum(seen) == path.stat().st_size
