"""What a file is, where its name does not tell: `--format-in`, `CsvFormat.format_in`."""

from __future__ import annotations

import gzip
import json

import polars as pl
import pytest

import sordino as sd
from sordino.errors import DataSourceError, UnsupportedBackend
from sordino.questions.reading import describe_unit_reading
from sordino.sources import open_source

WHO = sd.PrivacyUnit("who")
ROWS = [{"who": f"p{n % 40}", "item": "tea"} for n in range(90)]


def put(path, kind, *, packed=False):
    """Write the rows as a kind of file, whatever its name is."""
    if kind == "parquet":
        pl.DataFrame(ROWS).write_parquet(path)
        return path
    if kind == "csv":
        lines = ["who,item", *(f"{row['who']},{row['item']}" for row in ROWS)]
    else:
        lines = list(map(json.dumps, ROWS))
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    return path


def form_of(kind, **more):
    types = {"who": "text", "item": "text"} if kind == "jsonl" else {}
    return sd.CsvFormat(types=types, **more)


def count(path, form):
    with sd.Session(path, unit=WHO, ledger=None, csv=form, entropy=sd.Seeded(1)) as session:
        return session.count_distinct_units(epsilon=1).estimate, session.unit_reading


NAMES = {
    "csv": ("x.data", "x", "x.txt", "x.csv", "x.tab", "x.data.gz", "x.gz"),
    "jsonl": ("x.data", "x", "x.txt", "x.json", "x.ndjson", "x.log.gz"),
    "parquet": ("x.data", "x", "x.parq", "x.pq"),
}


@pytest.mark.parametrize(("kind", "name"), [(k, n) for k, names in NAMES.items() for n in names])
def test_a_file_is_read_as_one_with_the_usual_ending(tmp_path, kind, name):
    """Also whose a row is, so that an account may go on after a file was renamed."""
    usual = put(tmp_path / f"usual.{kind}", kind)
    other = put(tmp_path / name, kind, packed=name.endswith(".gz"))
    assert count(other, form_of(kind, format_in=kind)) == count(usual, form_of(kind))


def test_files_of_a_folder_or_a_pattern_are_all_of_that_kind(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    put(folder / "part-0", "csv")
    put(folder / "part-1.csv", "csv")
    for source in (folder, folder / "part-*"):
        opened = open_source(source, csv=sd.CsvFormat(format_in="csv"))
        assert len(opened.files) == 2
    put(folder / "part-2.parquet", "parquet")
    with pytest.raises(sd.InvalidParameter, match=r"or be 'parquet', for files that end in \.parq"):
        open_source(folder, csv=sd.CsvFormat(format_in="csv"))


# The header line of CSV is public: JSON lines that pass for CSV would show somebody's row.
OTHERS = {
    ("x.jsonl", "csv"): (sd.InvalidParameter, r"must be left out, or be 'jsonl'.*got 'csv'\."),
    ("x.csv", "jsonl"): (sd.InvalidParameter, r"must be left out, or be 'csv'"),
    ("x.csv.gz", "parquet"): (sd.InvalidParameter, r"must be left out, or be 'csv'"),
    ("x.parquet", "csv"): (sd.InvalidParameter, r"must be left out, or be 'parquet'"),
    ("x.data.gz", "parquet"): (UnsupportedBackend, r"may also end in"),
    ("x.json", "csv"): (UnsupportedBackend, r"must fit the ending \.json; got 'csv'\."),
    ("x.zip", "csv"): (UnsupportedBackend, "This packing is not read"),
    ("x.xlsx", "csv"): (UnsupportedBackend, "excel:FILE#SHEET"),
    ("x.data", "parquet"): (DataSourceError, "must be readable"),
}


@pytest.mark.parametrize(("name", "kind"), OTHERS)
def test_a_name_that_tells_something_else_is_not_overruled(tmp_path, name, kind):
    (tmp_path / name).write_bytes(b'{"who": "Ann"}\n')
    error, words = OTHERS[name, kind]
    with pytest.raises(error, match=words) as caught:
        open_source(tmp_path / name, csv=sd.CsvFormat(format_in=kind))
    assert "Ann" not in str(caught.value)


def test_it_is_for_files_alone(tmp_path):
    with pytest.raises(sd.InvalidParameter, match=r"--format-in\) is for files of CSV"):
        open_source(pl.DataFrame(ROWS), csv=sd.CsvFormat(format_in="csv"))
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    with pytest.raises(sd.InvalidParameter, match=r"left out for a table of Delta; got 'csv'"):
        open_source(tmp_path / "t", csv=sd.CsvFormat(format_in="csv"))
    with pytest.raises(sd.InvalidParameter, match=r"CsvFormat\.format_in must be"):
        sd.CsvFormat(format_in="xml")


def test_one_account_adds_up_one_kind_of_lines(tmp_path):
    """By one kind two lines may be one person, and by the other two."""
    path = put(tmp_path / "x.txt", "jsonl")
    ledger = sd.Ledger.create(
        tmp_path / "b.db",
        account="a",
        budget=sd.Budget(epsilon=2),
        adjacency="add-remove",
        unit=WHO,
        source=str(path),
    )
    ways = {
        "jsonl": form_of("jsonl", format_in="jsonl"),
        "csv": sd.CsvFormat(header=False, columns=("who", "item"), format_in="csv"),
        "by its name": sd.CsvFormat(header=False, columns=("who", "item")),
    }

    def ask(form):
        with sd.Session(path, unit=WHO, ledger=ledger, csv=form) as session:
            return session.count_distinct_units(epsilon=0.5)

    ask(ways["jsonl"])
    for name in ("csv", "by its name"):
        with pytest.raises(sd.LedgerConflict, match="jsonl text, but this release reads it as csv"):
            ask(ways[name])
    ask(ways["jsonl"])
    assert ledger.remaining == 1
    readings = {
        describe_unit_reading(open_source(path, csv=ways[name]), WHO, ways[name])
        for name in ("csv", "by its name")
    }
    assert len(readings) == 1
