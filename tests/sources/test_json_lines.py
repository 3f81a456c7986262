"""The law of JSON lines: the multiset of rows is the union over lines of what a parser of one line finds, and nothing else.

`reference` is that parser, written a second time: one character after the other, without a parser of Python's or of the engine's.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sordino import CsvFormat, PrivacyUnit
from sordino.errors import DataSourceError, InvalidParameter
from sordino.questions import prepare_counts, prepare_records
from sordino.sources import open_source
from sordino.sources.csv import json_lines, lines as lines_module
from sordino.sources.csv.json_lines import DEEPEST_JSON, json_texts, parse_object
from sordino.sources.csv.lines import TextBatch
from support.text_files import HOSTILE, packed, rows_of

NAMES = ("user", "item", "a.b")
FORM = CsvFormat(types=dict.fromkeys(NAMES, "text"))
CONSTANT = "The data engine could not finish"


class Bad(Exception):
    pass


class Reference:
    """Reads one JSON text; numbers, truth values and null are what stands there, other values their kind."""

    def __init__(self, text):
        self.text, self.at = text, 0

    def peek(self):
        return self.text[self.at] if self.at < len(self.text) else ""

    def blanks(self):
        while self.peek() and self.peek() in " \t\n\r":
            self.at += 1

    def end(self):
        if self.at < len(self.text):
            raise Bad

    def take(self, word):
        if not self.text.startswith(word, self.at):
            raise Bad
        self.at += len(word)

    def value(self, depth):
        self.blanks()
        first = self.peek()
        if first in {"{", "["} and depth == DEEPEST_JSON:
            raise Bad
        if first == "{":
            return self.members(depth + 1)
        if first == "[":
            return self.elements(depth + 1)
        if first == '"':
            return self.string()
        for word, meaning in (
            ("true", ("word", "true")),
            ("false", ("word", "false")),
            ("null", None),
        ):
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return meaning
        return self.number()

    def members(self, depth):
        self.take("{")
        found, self_ends = {}, False
        self.blanks()
        if self.peek() == "}":
            self_ends = True
        while not self_ends:
            self.blanks()
            name = self.string()[1]
            self.blanks()
            self.take(":")
            value = self.value(depth)
            found.setdefault(name, value)
            self.blanks()
            if self.peek() != ",":
                self_ends = True
            else:
                self.at += 1
        self.take("}")
        return ("object", found)

    def elements(self, depth):
        self.take("[")
        self.blanks()
        if self.peek() != "]":
            self.value(depth)
            self.blanks()
            while self.peek() == ",":
                self.at += 1
                self.value(depth)
                self.blanks()
        self.take("]")
        return ("array", None)

    def string(self):
        self.take('"')
        units = []
        while self.peek() != '"':
            one = self.peek()
            if not one or ord(one) < 32:
                raise Bad
            self.at += 1
            if one != "\\":
                units += list(one.encode("utf-16-le"))
                continue
            code = self.peek()
            self.at += 1
            if code == "u":
                digits = self.text[self.at : self.at + 4]
                if len(digits) < 4 or any(
                    digit not in "0123456789abcdefABCDEF" for digit in digits
                ):
                    raise Bad
                self.at += 4
                units += list(int(digits, 16).to_bytes(2, "little"))
            elif code and code in '"\\/bfnrt':
                units += list(
                    {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}.get(code, code).encode(
                        "utf-16-le"
                    )
                )
            else:
                raise Bad
        self.at += 1
        return ("text", bytes(units).decode("utf-16-le", "surrogatepass"))

    def number(self):
        start = self.at
        if self.peek() == "-":
            self.at += 1
        if self.peek() == "0":
            self.at += 1
        else:
            self.digits()
        if self.peek() == ".":
            self.at += 1
            self.digits()
        if self.peek() and self.peek() in "eE":
            self.at += 1
            if self.peek() and self.peek() in "+-":
                self.at += 1
            self.digits()
        return ("number", self.text[start : self.at])

    def digits(self):
        start = self.at
        while self.peek() and self.peek() in "0123456789":
            self.at += 1
        if self.at == start:
            raise Bad


def record(line, null=""):
    """Return the row of one line (bytes without LF), or None if it is dropped."""
    line = line.removeprefix(b"\xef\xbb\xbf")
    line = line.removesuffix(b"\r")
    if not line or len(line) > lines_module.LONGEST or 0 in line:
        return None
    try:
        reader = Reference(line.decode())
        value = reader.value(0)
        reader.blanks()
        reader.end()
    except (UnicodeDecodeError, Bad):
        return None
    if value is None or value[0] != "object":
        return None
    row = []
    for name in NAMES:
        kind, text = value[1].get(name) or ("missing", None)
        if (
            kind in {"object", "array"}
            or text in {"", null}
            or (text and any(c == "\0" or "\ud800" <= c < "\ue000" for c in text))
        ):
            text = None
        row.append(text)
    return tuple(row)


def reference(content, null=""):
    kept = Counter(record(line, null) for line in content.split(b"\n"))
    del kept[None]
    return kept


def check(folder, content, form=FORM):
    path = folder / "t.jsonl"
    path.write_bytes(content)
    got = rows_of(open_source(path, csv=form))
    assert got == reference(content, form.null)
    return got


VALUES = st.sampled_from(
    [
        '"x"', '"ä€😀"', '""', '"\\ud83d\\ude00"', '"\\ud800"', '"\\ude00\\ud83d"', '"\\u0000"', '"\\n\\"\\\\\\/"', '"\\x"', '"\\u12g4"', '"a\tb"', '"NA"',
        "1", "-0", "1.50", "01", "1.", ".5", "+1", "1e5", "1E+400", "-1e-400", "9" * 400, "0x1", "NaN", "Infinity", "-Infinity", "1_0", "\u0661",
        "true", "false", "null", "True", "nul", "[]", "{}", "[1,2]", '{"user":"inner"}', "[1,]", "{,}", "", "'x'", '"\u2028"', "[" * 64 + "]" * 64, "[" * 63 + "]" * 63,
    ]
)  # fmt: skip
KEYS = st.sampled_from(
    [
        '"user"',
        '"item"',
        '"a.b"',
        '"us\\u0065r"',
        '"User"',
        '""',
        '"user "',
        "user",
        '"\\ud800"',
        '"a"',
    ]
)
PAIRS = st.tuples(KEYS, VALUES).map(":".join)
OBJECTS = st.lists(PAIRS, max_size=4).map(lambda pairs: "{" + ",".join(pairs) + "}")
LINES = (
    OBJECTS.map(str.encode)
    | OBJECTS.map(lambda text: f" {text}\t".encode())
    | OBJECTS.map(lambda text: text[:-1].encode())
    | VALUES.map(str.encode)
    | st.tuples(OBJECTS, VALUES).map("".join).map(str.encode)
    | st.lists(st.sampled_from(HOSTILE), max_size=8).map(b"".join)
    | st.tuples(OBJECTS.map(str.encode), st.sampled_from(HOSTILE), st.integers(0, 40)).map(
        lambda t: t[0][: t[2]] + t[1] + t[0][t[2] :]
    )
).map(lambda line: line.replace(b"\n", b""))


@given(
    lines=st.lists(LINES, max_size=12),
    end=st.sampled_from([b"\n", b"\r\n"]),
    null=st.sampled_from(["", "NA"]),
)
@settings(max_examples=12)
def test_rows_are_the_union_over_lines(tmp_path_factory, lines, end, null):
    check(tmp_path_factory.mktemp("law"), end.join(lines), CsvFormat(types=FORM.types, null=null))


@given(lines=st.lists(LINES, max_size=6), extra=LINES, place=st.integers(0, 6))
@settings(max_examples=8)
def test_one_more_line_changes_nothing_but_its_own_row(tmp_path_factory, lines, extra, place):
    folder = tmp_path_factory.mktemp("neighbor")
    before = check(folder, b"\n".join(lines))
    after = check(folder, b"\n".join([*lines[:place], extra, *lines[place:]]))
    assert after - before in ({}, Counter([record(extra)]))
    assert not before - after


@given(line=LINES)
@settings(max_examples=300)
def test_one_line_by_both_parsers(line):
    found = parse_object(line)
    wanted = (
        record(line)
        if line and b"\0" not in line and not line.startswith(b"\xef\xbb\xbf")
        else None
    )
    if wanted is not None:
        batch = json_texts(line + b"\n", range(3), names=NAMES)
        texts = [
            batch.data[batch.offsets[2 * i] : batch.offsets[2 * i + 1]].decode() or None
            for i in range(3)
        ]
        assert (batch.size, tuple(texts)) == (1, wanted)
    elif (
        line
        and b"\0" not in line
        and not line.endswith(b"\r")
        and not line.startswith(b"\xef\xbb\xbf")
    ):
        try:
            line.decode()
        except UnicodeDecodeError:
            return
        assert found is None


@pytest.mark.parametrize("block", [1, 7, 60, 1000])
@pytest.mark.sample(4)
def test_no_boundary_matters(tmp_path, block):
    rng = random.Random(block)
    lines = [
        json.dumps(
            {"user": f"u{rng.randrange(9)}", "item": "x" * rng.choice((1, 20, 21, 22, 23, 60))}
        ).encode()
        if rng.random() < 0.8
        else b"".join(rng.choices(HOSTILE, k=rng.randrange(9)))
        for _ in range(400)
    ]
    with (
        mock.patch.object(lines_module, "LONGEST", 50),
        mock.patch.object(lines_module, "BLOCK", block),
    ):
        assert check(tmp_path, b"\n".join(lines)).total() > 100


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_ones_and_folders_of_them(tmp_path, suffix):
    rng = random.Random(3)
    lines = [
        json.dumps({"user": i, "item": "ä"}).encode()
        if i % 3
        else b"".join(rng.choices(HOSTILE, k=6))
        for i in range(200)
    ]
    content = b"\n".join(lines) + b"\n"
    wanted = check(tmp_path, content)
    for place, ending in enumerate((".ndjson", f".ndjson{suffix}")):
        folder = tmp_path / "t" / f"day={place}"
        folder.mkdir(parents=True)
        (folder / f"a{ending}").write_bytes(packed(suffix, content, 3) if place else content)
    form = CsvFormat(types={**FORM.types, "day": "integer"})
    source = open_source(tmp_path / "t", csv=form)
    assert list(source.columns) == [*NAMES, "day"]
    assert rows_of(source) == {
        (*row, str(day)): count for row, count in wanted.items() for day in (0, 1)
    }
    (tmp_path / f"bad.jsonl{suffix}").write_bytes(packed(suffix, content)[:-1])
    question = prepare_counts(
        open_source(tmp_path / f"bad.jsonl{suffix}", csv=form), PrivacyUnit.row(), kind="rows"
    )
    with pytest.raises(DataSourceError, match=CONSTANT):
        question.run()
    (tmp_path / f"none.jsonl{suffix}").write_bytes(content)
    with pytest.raises(DataSourceError, match="as its name says"):
        open_source(tmp_path / f"none.jsonl{suffix}", csv=form)


# ---- what the rules say -------------------------------------------------------------------------------------------------


def test_values_by_declared_types(tmp_path):
    """Numbers keep all of their digits, and texts that are numbers are numbers."""
    kinds = {
        "a": "integer",
        "b": "decimal(20,2)",
        "c": "double",
        "d": "date",
        "e": "boolean",
        "f": "text",
    }
    rows = [
        (
            {"a": 7, "b": 1.5, "c": 1e5, "d": "2024-02-29", "e": True, "f": 1},
            ("7", "1.50", "100000.0", "2024-02-29", "true", "1"),
        ),
        (
            {"a": "7", "b": "1.5", "c": "x", "d": "2024-02-30", "e": "yes", "f": True},
            ("7", "1.50", None, None, "true", "true"),
        ),
        ({"a": 7.5, "b": 1.005, "c": [1], "d": 20240229, "e": None, "f": {"x": 1}}, (None,) * 6),
        (
            {"a": True, "b": False, "c": True, "e": 0, "f": ""},
            (None, None, None, None, "false", None),
        ),
    ]
    lines = [json.dumps(one) for one, _ in rows]
    lines.append('{"a": 9223372036854775808, "b": 123456789012345678.99, "c": 1e999}')
    wanted = [*(row for _, row in rows), (None, "123456789012345678.99", "inf", None, None, None)]
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    source = open_source(path, csv=CsvFormat(types=kinds))
    assert rows_of(source) == Counter(wanted)
    question = prepare_counts(
        source, PrivacyUnit.row(), kind="rows", where="b > 1 AND NOT (f IS NULL)"
    )
    assert question.run().values.tolist() == [2]


def test_a_nested_value_is_missing_and_a_dot_is_part_of_a_name(tmp_path):
    line = b'{"a": {"b": "inner"}, "a.b": "outer", "user": ["u"], "item": "x"}\n'
    assert check(tmp_path, line) == Counter([(None, "x", "outer")])


def test_the_first_of_equal_names_counts(tmp_path):
    assert check(tmp_path, b'{"user": 1, "us\\u0065r": 2, "user": 3}\n') == Counter(
        [("1", None, None)]
    )


HEAVY = {
    "brackets": b"[" * 900_000,
    "objects": b'{"user":' * 120_000,
    "closed": b'{"user":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "escaped quotes": b'{"user":"' + b'\\"' * 500_000,
    "quotes": b"[" * 65 + b'"' * 900_000,
    "digits": b'{"user":' + b"9" * 1_000_000 + b"}",
    "text": b'{"user":"' + b"[" * 1_000_000 + b'"}',
    "names": b"{" + b",".join(b'"k%d":1' % i for i in range(80_000)) + b"}",
    "the same name": b"{" + b",".join(b'"user":%d' % i for i in range(70_000)) + b"}",
    "too long": b'{"user":"' + b"x" * (1 << 20) + b'"}',
}  # fmt: skip


@pytest.mark.parametrize("name", HEAVY)
@pytest.mark.sample(4)
def test_one_heavy_line_ends_nothing_and_costs_little(tmp_path, name):
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"user":"u"}\n' * 30 + HEAVY[name] + b"\n" + b'{"user":"u"}\n' * 30)
    began = time.process_time()
    found = rows_of(open_source(path, csv=CsvFormat(types={"user": "text"})))
    assert found[("u",)] == 60
    assert found.total() == 60 + (name in {"digits", "text", "names", "the same name"})
    assert time.process_time() - began < 5


def test_the_depth_of_calls_decides_nothing():
    """A line of the largest depth is read also where Python has few calls left."""
    line = b'{"user":' + b"[" * (DEEPEST_JSON - 1) + b"]" * (DEEPEST_JSON - 1) + b"}"
    assert parse_object(line) is not None
    assert parse_object(line.replace(b"[" * 5, b"[" * 6, 1).replace(b"]" * 5, b"]" * 6, 1)) is None
    brackets = b'{"user":"' + b"[" * 500 + b'"}'
    assert parse_object(brackets) == {"user": "[" * 500}

    def below(left):
        return below(left - 1) if left else parse_object(line)

    assert below(sys.getrecursionlimit() - 400) is not None


# ---- what is refused before the charge ----------------------------------------------------------------------------------


def test_columns_are_declared(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"user": "u", "amount": 1}\n')
    with pytest.raises(InvalidParameter, match=r"--type COL=TYPE, or CsvFormat\(types=\.\.\.\)"):
        prepare_counts(open_source(path), PrivacyUnit("user"), kind="units")
    # Rows are counted without any name.
    assert prepare_counts(
        open_source(path), PrivacyUnit.row(), kind="rows"
    ).run().values.tolist() == [1]
    source = open_source(path, csv=CsvFormat(types={"user": "text"}))
    with pytest.raises(InvalidParameter, match="Did you mean 'user'") as caught:
        source.label_index("usr", "item")
    assert "--type" in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"delimiter": ";"},
        {"quote": "'"},
        {"header": False, "columns": ("user",)},
        {"encoding": "latin-1"},
        {"decimal": ",", "delimiter": ";"},
        {"thousands": "'"},
    ],
    ids=repr,
)
def test_what_json_has_not_is_refused(tmp_path, options):
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"{}\n")
    with pytest.raises(InvalidParameter, match="must be left out for JSON lines"):
        open_source(path, csv=CsvFormat(**options))


def test_a_column_that_is_also_a_folder_is_that_of_the_folder(tmp_path):
    (tmp_path / "t" / "user=7").mkdir(parents=True)
    (tmp_path / "t" / "user=7" / "a.jsonl").write_bytes(b'{"user": "inner", "item": "x"}\n')
    with pytest.raises(DataSourceError, match="name of a column of its files"):
        open_source(tmp_path / "t", csv=CsvFormat(types={"item": "text", "User": "text"}))
    source = open_source(tmp_path / "t", csv=CsvFormat(types={"item": "text", "user": "integer"}))
    assert rows_of(source) == Counter([("x", "7")])


def test_lines_that_may_be_dropped_are_not_randomized(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"x": 1}\n')
    source = open_source(path, csv=CsvFormat(types={"x": "double"}))
    with pytest.raises(InvalidParameter, match="every line is a row"):
        prepare_records(source, PrivacyUnit.row("replace-one"), column="x")


# ---- twins --------------------------------------------------------------------------------------------------------------


def test_a_parser_of_whole_blocks_is_convicted(tmp_path, monkeypatch):
    """One bad line ends the release."""
    path = tmp_path / "t.jsonl"

    def counted(content):
        path.write_bytes(content)
        question = prepare_counts(open_source(path, csv=FORM), PrivacyUnit.row(), kind="rows")
        return question.run().values.tolist()

    def parse_block(block, indices, *, names):
        rows = json.loads(b"[" + b",".join(block.split(b"\n")[:-1]) + b"]")
        return TextBatch(len(rows), np.zeros(len(rows) + 1, dtype=np.int32), b"")

    content = b'{"user":"u"}\n' * 20
    assert counted(content) == counted(content + b"{oops\n") == [20]
    monkeypatch.setattr(json_lines, "json_texts", parse_block)
    assert counted(content) == [20]
    with pytest.raises(DataSourceError, match=CONSTANT):
        counted(content + b"{oops\n")


def test_a_parser_without_a_bound_of_depth_is_convicted(tmp_path, monkeypatch):
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"user":"u"}\n' * 20)
    question = prepare_counts(open_source(path, csv=FORM), PrivacyUnit.row(), kind="rows")
    monkeypatch.setattr(json_lines, "_nests_too_deep", lambda line: False)
    assert question.run().values.tolist() == [20]
    path.write_bytes(b'{"user":"u"}\n' * 20 + b"[" * 500_000 + b"\n")
    with pytest.raises(DataSourceError, match=CONSTANT):
        question.run()


def test_numbers_of_python_are_convicted(tmp_path, monkeypatch):
    """A float rounds what is written, and a long whole number raises: one line would end the release."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"user": 1.50}\n{"user": ' + b"9" * 5000 + b"}\n")
    form = CsvFormat(types={"user": "text"})
    assert rows_of(open_source(path, csv=form)) == Counter([("1.50",), ("9" * 5000,)])
    monkeypatch.setattr(json_lines, "_DECODER", json.JSONDecoder())
    monkeypatch.setattr(json_lines, "_write_json_text", lambda value: str(value).encode())
    assert rows_of(open_source(path, csv=form)) != Counter([("1.50",), ("9" * 5000,)])
