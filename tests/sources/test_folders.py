"""Folders of parts, and columns that folders are named by: which files are read is decided once, by names alone."""

from __future__ import annotations

import random

import duckdb
import polars as pl
import pytest

from sordino import Budget, CsvFormat, Ledger, PrivacyUnit, Session
from sordino.errors import DataSourceError, InvalidParameter, UnsupportedBackend
from sordino.questions import prepare_counts, prepare_records
from sordino.sources import open_source, tables
from sordino.sources.csv import text_rows
from sordino.sources.files import find_files
from sordino.sources.folders import NULL_FOLDER
from support.text_files import hostile_lines, packed, rows_of

HEADER = b"user,item,note\n"
CONSTANT = "The data engine could not finish"


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def put_table(path, columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(columns).write_parquet(path)
    return path


# ---- folders ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_a_folder_is_its_files_and_nothing_else(tmp_path, seed):
    rng = random.Random(seed)
    bodies = [b"".join(hostile_lines(rng, 60)) for _ in range(4)]
    wanted = rows_of(
        open_source(
            put(
                tmp_path / "plain.csv", HEADER + b"".join(b.rstrip(b"\r\n") + b"\n" for b in bodies)
            )
        )
    )
    folder = tmp_path / "parts"
    for place, (body, ending) in enumerate(
        zip(bodies, ("csv", "tsv", "csv.gz", "csv.zst"), strict=True)
    ):
        content = HEADER + body.rstrip(b"\r\n") + b"\n"
        put(
            folder / f"part-{place}.{ending}",
            packed(ending[3:], content) if "." in ending else content,
        )
    for name in ("_SUCCESS", ".part-0.csv.crc", "_temporary/0.csv", ".cache/x.parquet"):
        put(folder / name, b"not,a,header\nx,y,z\n")
    (folder / "latest.csv").symlink_to(folder / "part-0.csv")
    source = open_source(folder)
    assert rows_of(source) == wanted
    assert source.identity == str(folder) == open_source(f"{folder}/").identity
    assert (source.kind, len(source.files)) == ("csv", 4)
    assert [path.name for path in source.files] == sorted(path.name for path in source.files)


def test_a_folder_of_parquet_files(tmp_path):
    for place in range(3):
        put_table(tmp_path / "p" / f"{place}.parquet", {"user": [place], "item": ["a"]})
    assert rows_of(open_source(tmp_path / "p")) == {(str(place), "a"): 1 for place in range(3)}


def test_files_that_come_later_are_not_read(tmp_path):
    for ending in ("csv", "parquet"):
        folder = tmp_path / ending
        write = (
            (lambda path: put(path, b"user,item\nu,i\n"))
            if ending == "csv"
            else (lambda path: put_table(path, {"user": ["u"], "item": ["i"]}))
        )
        write(folder / f"a.{ending}")
        question = prepare_counts(open_source(folder), PrivacyUnit.row(), kind="rows")
        write(folder / f"b.{ending}")
        assert question.run().values.tolist() == [1]
        (folder / f"a.{ending}").unlink()
        with pytest.raises(DataSourceError, match=CONSTANT):
            question.run()


def test_a_part_that_changes_its_header_ends_with_the_constant_sentence(tmp_path):
    put(tmp_path / "t" / "a.csv", HEADER + b"u,i,n\n")
    put(tmp_path / "t" / "b.csv", HEADER + b"u,i,n\n")
    question = prepare_counts(open_source(tmp_path / "t"), PrivacyUnit.row(), kind="rows")
    put(tmp_path / "t" / "b.csv", b"item,user,note\nu,i,n\n")
    with pytest.raises(DataSourceError, match=CONSTANT):
        question.run()


REFUSED = {
    "nothing in it": (["_SUCCESS", ".x.csv"], DataSourceError, "hold at least one"),
    "two kinds": (["a.csv", "b.parquet"], UnsupportedBackend, r"got '\.csv', '\.parquet'\. Name files of one kind with a pattern"),
    "a note": (["a.csv", "README.md"], UnsupportedBackend, "README.md is not. Move it away"),
    "a packed Parquet file": (["a.parquet.gz"], UnsupportedBackend, "of one kind"),
    "two headers": (["a.csv", "b.csv:other,header\n"], DataSourceError, "same header line"),
    "a folder of another name": (["a.csv", "more/b.csv"], DataSourceError, "must be called KEY=VALUE"),
    "files at two depths": (["a.csv", "k=1/b.csv"], DataSourceError, "below the same KEY=VALUE folders"),
    "other keys": (["k=1/a.csv", "j=1/b.csv"], DataSourceError, "below the same KEY=VALUE folders"),
    "another order": (["k=1/j=1/a.csv", "j=1/k=1/b.csv"], DataSourceError, "below the same KEY=VALUE folders"),
    "a key twice": (["k=1/K=2/a.csv"], DataSourceError, "'K' more than once|'k' more than once"),
    "a key that is a column": (["Item=1/a.csv"], DataSourceError, "name of a column of its files; 'Item'"),
    "no key": (["=1/a.csv"], DataSourceError, "must be called KEY=VALUE"),
    "no UTF-8": (["k=%FF/a.csv"], DataSourceError, "text in UTF-8"),
    "NUL": (["k=a%00/a.csv"], DataSourceError, "text in UTF-8"),
    "a Delta table in it": (["a.parquet", "k=1/_delta_log/0.json"], DataSourceError, "table of Delta"),
    "a Hudi table": (["a.parquet", ".hoodie/0.json"], DataSourceError, "table of Hudi"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.sample(2)
def test_what_is_no_folder_of_parts_is_refused(tmp_path, name):
    inside, error, said = REFUSED[name]
    (tmp_path / "t").mkdir()
    for one in inside:
        path, _, content = one.partition(":")
        put(tmp_path / "t" / path, content.encode() or HEADER)
    with pytest.raises(error, match=said):
        open_source(tmp_path / "t")


def test_a_link_to_a_folder_is_refused_and_one_that_is_named_is_followed(tmp_path):
    put(tmp_path / "real" / "a.csv", HEADER + b"u,i,n\n")
    (tmp_path / "t").symlink_to(tmp_path / "real")
    source = open_source(tmp_path / "t")
    assert (rows_of(source).total(), source.identity) == (1, str(tmp_path / "t"))
    (tmp_path / "real" / "k=1").symlink_to(tmp_path)
    with pytest.raises(DataSourceError, match="links to files"):
        open_source(tmp_path / "t")


UNREAD = {
    "x.xlsx": "excel:FILE#SHEET",
    "x.json": r"one object on each line\. If it is written so: --format-in jsonl",
    "x.json.gz": "one object on each line",
    "x.feather": "Arrow table",
    "x.arrow": "Arrow table",
    "x.orc": "Write it as Parquet",
    "x.avro": "Write it as Parquet",
    "x.sav": "SPSS",
    "x.dta": "Stata",
    "x.sas7bdat": "SAS",
    "x.csv.zip": "compress it with gzip or zstandard",
    "x.csv.bz2": "compress it with gzip or zstandard",
    "x.duckdb": "duckdb:FILE#TABLE",
    "x.sqlite": "SQLite",
    "x.pkl": "not run",
    "x": r"no ending, such as \.csv\. If it is CSV: --format-in csv",
    "x.gz": r"If it is CSV: --format-in csv",
    "adult.data": r"I do not know the ending \.data\. If it is CSV: --format-in csv \(in Python CsvFormat\(",
    "x.dat.gz": r"I do not know the ending \.dat\. If it is CSV: --format-in csv",
    "x.tab": r"--format-in csv --delimiter",
    "x.parq": r"If it is Parquet: --format-in parquet",
    "x.vcf.bgz": r"a name that ends in \.gz, such as \.csv\.gz",
}


@pytest.mark.parametrize("name", UNREAD)
def test_what_is_not_read_is_refused_with_what_to_do(tmp_path, name):
    put(tmp_path / name, b"anything")
    with pytest.raises(UnsupportedBackend, match=UNREAD[name]) as caught:
        open_source(tmp_path / name)
    assert "I do not know" in str(caught.value)


def test_a_ledger_keeps_the_path_of_the_folder(tmp_path, monkeypatch):
    put(tmp_path / "parts" / "a.csv", HEADER + b"u,i,n\n")
    monkeypatch.chdir(tmp_path)
    ledger = Ledger.create(
        "b.db",
        account="x",
        budget=Budget(epsilon=1.0),
        adjacency="add-remove",
        unit=PrivacyUnit("user"),
        source="parts/",
    )
    with Session(tmp_path / "parts", unit=PrivacyUnit("user"), ledger=ledger) as session:
        session.count_distinct_units(epsilon=0.5)
    put(tmp_path / "parts" / "b.csv", HEADER + b"u,i,n\n")
    with Session("parts", unit=PrivacyUnit("user"), ledger=ledger) as session:
        session.count_distinct_units(epsilon=0.5)
    assert ledger.statement().to_dict()["remaining"] == 0


# ---- columns in the names of folders ------------------------------------------------------------------------------------


def sales(top, ending):
    """Write nine parts of three rows under two keys, and return the rows with their keys."""
    rows = []
    for place, (year, month) in enumerate(
        (year, month) for year in ("2023", "2024", NULL_FOLDER) for month in ("01", "2", "a%2Fb%20")
    ):
        folder = top / f"year={year}" / f"month={month}"
        users = [f"u{place}", f"u{place % 2}", "v"]
        if ending == "parquet":
            put_table(folder / "part-0.parquet", {"user": users, "amount": [place] * 3})
        else:
            content = b"user,amount\n" + "".join(f"{user},{place}\n" for user in users).encode()
            put(
                folder / f"part-0.{ending}",
                packed(ending[3:], content) if "." in ending else content,
            )
        known = None if year == NULL_FOLDER else year
        rows += [
            (user, str(place), known, month.replace("%2F", "/").replace("%20", " "))
            for user in users
        ]
    return rows


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "csv.zst", "parquet"])
@pytest.mark.sample(4)
def test_folders_are_columns_of_texts(tmp_path, ending):
    rows = sales(tmp_path / "t", ending)
    source = open_source(tmp_path / "t")
    assert list(source.columns) == ["user", "amount", "year", "month"]
    assert {source.columns["year"], source.columns["month"]} == {"VARCHAR"}
    assert dict(rows_of(source)) == {row: rows.count(row) for row in rows}
    # Any of the columns, in any order.
    for columns in ([3], [2, 0], [1], []):
        found = rows_of(source, columns) if columns else None
        if found is not None:
            assert found.total() == len(rows)
            assert set(found) == {tuple(row[index] for index in columns) for row in rows}

    def counted(kind="rows", **more):
        return prepare_counts(source, PrivacyUnit.row(), kind=kind, **more).run().values.tolist()

    assert counted(where="year = '2024'") == [9]
    assert counted(where="year IS NULL AND month = 'a/b '") == [3]
    assert counted(where="year < '2024' OR month = '2'") == [15]
    assert counted(kind="items", item="month", domain=["01", "1", "2", "a/b "]) == [9, 0, 9, 9]
    by_year = prepare_counts(source, PrivacyUnit("year"), kind="units").run().values.tolist()
    assert by_year == [2]


def test_types_are_never_found_out_from_names(tmp_path):
    sales(tmp_path / "t", "csv")
    form = CsvFormat(types={"year": "integer", "month": "integer", "amount": "integer"})
    source = open_source(tmp_path / "t", csv=form)
    assert (source.columns["year"], source.columns["month"]) == ("BIGINT", "BIGINT")
    assert {row[2:] for row in rows_of(source)} == {
        (year, month) for year in ("2023", "2024", None) for month in ("1", "2", None)
    }
    question = prepare_counts(
        source, PrivacyUnit.row(), kind="rows", where="year > 2023 AND month = 1"
    )
    assert question.run().values.tolist() == [3]
    sales(tmp_path / "p", "parquet")
    with pytest.raises(InvalidParameter, match="columns have types of their own"):
        open_source(tmp_path / "p", csv=form)


def test_a_pattern_leaves_folders_out(tmp_path):
    sales(tmp_path / "t", "csv")
    assert list(open_source(tmp_path / "t" / "*" / "*" / "*.csv").columns) == ["user", "amount"]
    assert list(open_source(tmp_path / "t" / "year=2024").columns) == ["user", "amount", "month"]


def test_many_folders_are_one_plan(tmp_path):
    for place in range(300):
        put(tmp_path / "c" / f"day={place}" / "a.csv", b"x\n1\n")
    source = open_source(tmp_path / "c")
    assert len(rows_of(source)) == 300
    question = prepare_counts(source, PrivacyUnit.row(), kind="rows", where="day = '299'")
    assert question.run().values.tolist() == [1]


def test_lines_that_are_randomized_stand_in_files(tmp_path):
    sales(tmp_path / "t", "csv")
    source = open_source(tmp_path / "t")
    unit = PrivacyUnit("user", adjacency="replace-one", max_rows=1)
    numbers = [
        number
        for block in prepare_records(source, unit, column="amount").run()
        for number in block.tolist()
    ]
    assert len(numbers) == 27
    for column, owner in (("year", "user"), ("amount", "month")):
        with pytest.raises(InvalidParameter, match="by which its folders are named"):
            prepare_records(
                source, PrivacyUnit(owner, adjacency="replace-one", max_rows=1), column=column
            )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.sample(4)
def test_one_row_more_changes_nothing_but_itself(tmp_path, ending):
    """Also an odd one, and one in a file that had none."""
    top = tmp_path / "t"

    def write(name, users):
        if ending == "csv":
            put(top / f"k={name}" / "a.csv", b"user\n" + b"".join(user + b"\n" for user in users))
        else:
            put_table(
                top / f"k={name}" / "a.parquet",
                {
                    "user": pl.Series(
                        [user.decode(errors="replace") for user in users], dtype=pl.String
                    )
                },
            )

    some = [b"u%d" % i for i in range(50)]
    write("1", some)
    write("x'y", [])
    before = rows_of(open_source(top))
    for extra in (b"v", b'"', b"k=2", b"\xff"):
        for name, rows in (("1", [*some[:20], extra, *some[20:]]), ("x'y", [extra])):
            write("1", some)
            write("x'y", [])
            write(name, rows)
            after = rows_of(open_source(top))
            assert not before - after
            assert (after - before).total() <= 1


def test_the_number_of_a_file_is_no_column_of_its_own(tmp_path):
    """Also where columns have the names that the engine has for it."""
    for place, day in enumerate(("b", "a")):
        put_table(
            tmp_path / "t" / f"day={day}" / "x.parquet",
            {"file_index": [7], "file": [8], "filename": [place]},
        )
    assert set(rows_of(open_source(tmp_path / "t"))) == {("7", "8", "0", "b"), ("7", "8", "1", "a")}


def test_a_reader_that_mixes_up_files_is_convicted(tmp_path, monkeypatch):
    for ending, module in (("csv", text_rows), ("parquet", tables)):
        rows = sales(tmp_path / ending, ending)
        source = open_source(tmp_path / ending)
        assert set(rows_of(source)) == set(rows)
        monkeypatch.setattr(module, "write_lookup", lambda values, number: f"'{values[0]}'")
        assert set(rows_of(source)) != set(rows)


def test_guessing_types_as_an_engine_does_is_convicted(tmp_path, monkeypatch):
    """One folder more, which may hold a single row, would make `01` and `1` two months instead of one."""
    names = ["01", "1"]
    for name in names:
        put(tmp_path / "t" / f"month={name}" / "a.csv", b"user\nu\n")

    def counted():
        question = prepare_counts(
            open_source(tmp_path / "t"), PrivacyUnit.row(), kind="items", item="month", domain=["1"]
        )
        return question.run().values.tolist()

    def guess(values, number):
        whole = all(value is None or value.isdigit() for value in values)
        listed = ", ".join(f"'{int(value) if whole else value}'" for value in values)
        return f"list_extract([{listed}], {number} + 1)"

    def one_folder_more():
        before = counted()
        put(tmp_path / "t" / "month=x" / "a.csv", b"user\nv\n")
        after = counted()
        (tmp_path / "t" / "month=x" / "a.csv").unlink()
        (tmp_path / "t" / "month=x").rmdir()
        return before, after

    assert one_folder_more() == ([1], [1])
    monkeypatch.setattr(text_rows, "write_lookup", guess)
    assert one_folder_more() == ([2], [1])


def test_files_of_a_folder_are_found_by_names(tmp_path):
    put(tmp_path / "t" / "b.ndjson.gz", b"whatever stands in it")
    put(tmp_path / "t" / "a.jsonl", b"")
    found = find_files(str(tmp_path / "t"))
    assert (found.kind, [path.name for path in found.files]) == (
        "jsonl",
        ["a.jsonl", "b.ndjson.gz"],
    )


@pytest.mark.parametrize("stray", ["Thumbs.db", "desktop.ini", "notes.docx", "list.json", "README"])
def test_a_stray_file_is_named_and_a_pattern_is_proposed(tmp_path, stray):
    """What lies among the parts is not what is meant: nothing is said about how to read it."""
    put(tmp_path / "t" / "a.csv", HEADER + b"u,i,n\n")
    put(tmp_path / "t" / stray, b"anything")
    with pytest.raises(
        UnsupportedBackend, match=rf"{stray} is not\. .*pattern, such as FOLDER/\*\.csv\."
    ):
        open_source(tmp_path / "t")


@pytest.mark.parametrize(
    ("types", "said"),
    [
        (
            {"a": "INTEGER", "b": "DOUBLE"},
            r"column 'b' is INTEGER and DOUBLE in .*1\.parquet and .*2\.parquet",
        ),
        ({"b": "INTEGER", "a": "INTEGER"}, "column 1 is 'a' and 'b' in"),
        ({"a": "INTEGER"}, "there are 2 and 1 columns, and 'b' is in one of them only"),
        (
            {"a": "INTEGER", "b": "INTEGER", "c": "DATE"},
            "there are 2 and 3 columns, and 'c' is in one of them only",
        ),
    ],
)
def test_parts_that_differ_are_told_by_column_and_types(tmp_path, types, said):
    with duckdb.connect() as con:
        for name, kinds in (("1", {"a": "INTEGER", "b": "INTEGER"}), ("2", types)):
            columns = ", ".join(
                f"CAST(NULL AS {kind}) AS {column}" for column, kind in kinds.items()
            )
            con.execute(f"COPY (SELECT {columns}) TO '{tmp_path}/{name}.parquet'")
    with pytest.raises(DataSourceError, match=said):
        open_source(tmp_path)
