"""Fields of whole blocks are those of each line alone, and memory is bounded whatever lines hold."""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import product

import numpy as np
import pytest

from sordino.questions import PrivacyUnit, prepare_counts
from sordino.sources import CsvFormat, open_source
from sordino.sources.csv import lines as csv_lines, reader, text_rows
from sordino.sources.csv.header import split_line
from sordino.sources.csv.lines import LONGEST
from sordino.sources.csv.reader import field_texts

FORM = CsvFormat()
WORDS = ["".join(word) for size in range(1, 8) for word in product('",a', repeat=size)]
INDICES = ([0], [1], [0, 2], [1, 2, 5], [0, 1, 2, 3, 4, 5, 6, 7])


def found(lines, form, indices):
    """Return the fields of the lines as the block has them, a tuple for each line that is left."""
    batch = field_texts(b"".join(line.encode() + b"\n" for line in lines), form, indices)
    assert batch.offsets.dtype == np.int32
    assert (np.diff(batch.offsets) >= 0).all()
    assert batch.offsets[-1] <= len(batch.data)
    edges = batch.offsets.reshape(-1)[:-1].reshape(batch.size, len(indices), 2)
    return [tuple(batch.data[start:stop].decode() for start, stop in row) for row in edges.tolist()]


def wanted(lines, form, indices):
    split = [split_line(line, form) for line in lines]
    return [
        tuple(fields[index] if index < len(fields) else "" for index in indices)
        for fields in split
        if fields is not None
    ]


@pytest.mark.parametrize("indices", INDICES, ids=str)
@pytest.mark.parametrize(
    "form", [FORM, CsvFormat(quote=""), CsvFormat(delimiter="a", quote=",")], ids=repr
)
@pytest.mark.sample(4)
def test_a_block_of_all_short_lines_is_split_as_each_line_alone(form, indices):
    assert found(WORDS, form, indices) == wanted(WORDS, form, indices)


@pytest.mark.parametrize(
    "lines",
    [
        ["a"],
        ['"'],
        [",,"],
        ['a"', '"a', '"a"b'],
        ['"a""b"', '""""'],
        ["a,é", '"é,""é"""'],
        ["a,b"] * 9,
    ],
)
def test_small_blocks(lines):
    for indices in INDICES:
        assert found(lines, FORM, indices) == wanted(lines, FORM, indices)
    assert field_texts("".join(line + "\n" for line in lines).encode(), FORM, []).size == len(
        wanted(lines, FORM, [0])
    )


@pytest.mark.parametrize("seed", range(6))
def test_blocks_of_random_lines(seed):
    """Also blocks of lines with as many fields each, which are looked up in a quicker way, and with one line that has more or fewer."""
    rng = random.Random(seed)
    for _ in range(60):
        alphabet = rng.choice(['",ab', ",ab", '",aé"', "ab"])
        lines = [
            "".join(rng.choices(alphabet, k=rng.randrange(1, 12)))
            for _ in range(rng.randrange(1, 30))
        ]
        even = [
            ",".join(rng.choices(["", "a", "bé", '"a,b"', '""""'], k=3)) or "a" for _ in range(9)
        ]
        for some in (lines, even, [*even, rng.choice(lines), *even]):
            indices = sorted(rng.sample(range(6), rng.randrange(1, 4)))
            assert found(some, FORM, indices) == wanted(some, FORM, indices)


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
@pytest.mark.parametrize("quote", ['"', "'", ""])
@pytest.mark.each_value
def test_fields_of_a_long_line_are_looked_at_together_as_one_by_one(monkeypatch, encoding, quote):
    """Of random lines, with quotes out of place and bytes that are no text in the encoding."""
    form, rng = CsvFormat(quote=quote, encoding=encoding), random.Random(5)
    parts = [
        b",",
        b"a",
        b'"',
        b"'",
        b'""',
        b'"a,"',
        b'","',
        b"\xff",
        b"\x81",
        b"\xe2\x82",
        b"\xe2\x82\xac",
        b"\xed\xb2\x80",
    ]
    answers = set()
    for _ in range(4000):
        line = b"".join(rng.choices(parts, weights=[8, 4, *[1] * 10], k=rng.randrange(1, 16)))
        said = []
        for most in (0, len(line)):
            monkeypatch.setattr(csv_lines, "_LOOKED_AT_ONCE", most)
            said.append(csv_lines.empty_unreadable_fields(line, form))
        assert said[0] == said[1], line
        answers.add("dropped" if said[0] is None else "emptied" if said[0] != line else "kept")
    assert answers == {"emptied", "kept", *(["dropped"] if quote else [])}


HOSTILE = {
    "delimiters": b"%d,a" + b"," * (LONGEST - 20),
    "quoted, then delimiters": b'%d,"a"' + b"," * (LONGEST - 20),
    "doubled quotes": b'%d,a,"' + b'""' * ((LONGEST - 40) // 2) + b'"',
    "empty quotes": b"%d,a" + b',""' * ((LONGEST - 40) // 3),
    "quoted fields": b"%d,a" + b',"x"' * ((LONGEST - 40) // 4),
    "open quotes": b"%d,a" + b',"' * ((LONGEST - 40) // 2),
    "quotes": b"%d,a," + b'"' * (LONGEST - 20),
    "one long field": b"%d,a," + b"x" * (LONGEST - 20),
    "no fields": b"%d" + b"x" * (LONGEST - 20),
    "too long": b"%d,a" + b"," * (5 * LONGEST),
    "not UTF-8": b"%d,a" + b",\xff" * ((LONGEST - 40) // 2),
}
"""Lines of a megabyte; the engine's own split needed up to forty times as much for each of them."""

ASK = """
import resource, sys
from sordino.cli import run
path = sys.argv[1]
ask = {
    "count": ["count", path, "--row-is-unit"],
    "mean": ["mean", path, "--column", "item", "--lower", "0", "--cap", "5", "--user", "user", "--max-rows", "3"],
    "typed": ["mean", path, "--column", "item", "--lower", "0", "--cap", "5", "--row-is-unit", "--type", "item=decimal(12,2)", "--thousands", " "],
    "top": ["top", path, "--item", "item", "--user", "user", "-k", "1", "--domain-sql", "SELECT 'a'"],
    "randomize": ["randomize", path, "--column", "item", "--lower", "0", "--upper", "1", "--user", "user", "--max-rows", "2"],
    "wide": ["count", path, "--row-is-unit", "--where", " OR ".join(f"c{i} = ''" for i in range(300))],
    "select": ["select", path, "--score", "item", "--sensitivity", "1", "--delimiter", ";"],
}
codes = [run([*ask[name], "--epsilon", "1", "--no-ledger"]) for name in sys.argv[2:]]
try:  # the peak of this program alone; what getrusage tells begins with that of the process that started it
    with open("/proc/self/status") as file:
        most = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
except OSError:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(*codes, most, file=sys.stderr)
"""
MEGABYTES = 420


def peak(path, *names):
    """Return the exit codes of commands about a file, and how many megabytes one process needed for all of them."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(path), *names],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=True,
    )
    *codes, kilobytes = map(int, done.stderr.split()[-len(names) - 1 :])
    return codes, kilobytes / (1 if sys.platform != "darwin" else 1024) / 1024


@pytest.mark.parametrize(
    "what",
    [
        what if what == "delimiters" else pytest.param(what, marks=pytest.mark.slow)
        for what in HOSTILE
    ],
)
@pytest.mark.sample(4)
def test_memory_is_bounded_whatever_lines_hold(tmp_path, what):
    path = tmp_path / "x.csv"
    with path.open("wb") as file:
        file.write(b"user,item\n")
        # A field that cannot be read is looked at by itself, which takes the longest.
        for number in range(12 if what == "not UTF-8" else 60):
            file.write(HOSTILE[what].replace(b"%d", b"%d" % (number % 20), 1) + b"\n")
    codes, megabytes = peak(path, "count", "mean", "top", "randomize", "typed")
    assert codes == [0] * 5
    assert megabytes < MEGABYTES


@pytest.mark.parametrize("most", [1, 7, 90, 10**6])
@pytest.mark.parametrize("lines", [0, 1, 3, 500])
@pytest.mark.sample(4)
def test_lines_of_many_fields_come_in_pieces(tmp_path, monkeypatch, most, lines):
    """Each piece holds places of so many fields at most, or those of one line, and the pieces are all of the block."""
    columns, batches = 20, []

    def watched(block, form, indices, width):
        batch = field_texts(block, form, indices, width)
        batches.append(batch.size * len(indices))
        return batch

    monkeypatch.setattr(text_rows, "MOST_FIELDS", most)
    monkeypatch.setattr(reader, "field_texts", watched)
    path = tmp_path / "x.csv"
    rows = [",".join(f'"{place}"' for place in range(number % 7)) or "x" for number in range(lines)]
    path.write_text(
        "".join(f"{line}\n" for line in [",".join(f"c{i}" for i in range(columns)), *rows])
    )
    any_of_them = " OR ".join(f"c{i} = '3'" for i in range(columns))
    ragged = open_source(path, csv=CsvFormat(ragged=True))
    question = prepare_counts(ragged, PrivacyUnit.row(), kind="rows", where=any_of_them)
    assert question.run().values.tolist() == [sum(number % 7 > 3 for number in range(lines))]
    assert max(batches, default=0) <= max(most, columns)


@pytest.mark.slow
def test_a_predicate_over_many_columns_takes_no_more_memory(tmp_path):
    """Less than 1 MB of lines of two bytes, asked about 300 columns: all of their places at once were 1 GB."""
    path, names = tmp_path / "x.csv", [f"c{i}" for i in range(300)]
    path.write_text(",".join(["user", "item", *names]) + "\n" + "x\n" * 400_000)
    codes, megabytes = peak(path, "wide")
    assert codes == [0]
    assert megabytes < MEGABYTES


def one_long_line(path, header, line):
    """Write a line of 500 MB, of which the disk holds next to nothing, between two others."""
    with path.open("wb") as file:
        file.write(header + b"\n" + line + b"\n1")
        file.write(line[1:2])
        file.truncate(500 << 20)
        file.seek(0, 2)
        file.write(line[1:] + b"\n" + line + b"\n")


@pytest.mark.slow
def test_a_score_of_any_length_takes_no_more_memory(tmp_path):
    one_long_line(tmp_path / "x.csv", b"user;item", b"1;1")
    codes, megabytes = peak(tmp_path / "x.csv", "select")
    assert codes == [0]
    assert megabytes < MEGABYTES


@pytest.mark.slow
@pytest.mark.parametrize("header", [b"user,item", b"item,user"])
def test_a_line_of_any_length_takes_no_more_memory(tmp_path, header):
    one_long_line(tmp_path / "x.csv", header, b"1,1")
    codes, megabytes = peak(tmp_path / "x.csv", "count", "randomize", "mean")
    assert codes == [0] * 3
    assert megabytes < MEGABYTES
