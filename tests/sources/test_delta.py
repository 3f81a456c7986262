"""Tables of Delta: the log says which files count, and its partitions are columns of texts."""

from __future__ import annotations

import datetime as dt
import json
import urllib.parse
from collections import Counter

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sordino import Budget, Domain, Ledger, PrivacyUnit, Session
from sordino.errors import DataSourceError, UnsafePredicate, UnsupportedBackend
from sordino.questions import prepare_counts
from sordino.sources import delta, open_source
from support.text_files import rows_of

ROWS = {"user": ["u1", "u2", "u3"], "item": ["a", "b", "a"]}


def write(path, columns, **how):
    write_deltalake(str(path), pa.table(columns), **how)
    return path


def edit_log(path, change):
    """Change the first entries of the log, as another writer would have written them."""
    first = path / "_delta_log" / f"{0:020}.json"
    entries = [json.loads(line) for line in first.read_text().splitlines()]
    for entry in entries:
        change(entry)
    first.write_text("\n".join(map(json.dumps, entries)))


def test_rows_that_were_removed_do_not_count(tmp_path):
    table = write(tmp_path / "t", ROWS)
    write(table, {"user": ["u9"], "item": ["z"]}, mode="overwrite")
    source = open_source(table)
    assert rows_of(source) == {("u9", "z"): 1}
    assert (source.identity, source.computed, len(list(table.glob("*.parquet")))) == (
        str(table),
        False,
        2,
    )
    # The twin: all files that lie there are the rows.
    assert pl.read_parquet(table / "*.parquet").height == 4


def test_a_pattern_over_the_files_of_such_a_table_is_refused(tmp_path):
    table = write(tmp_path / "t", ROWS)
    for pattern in (table / "*.parquet", tmp_path / "**" / "*.parquet"):
        with pytest.raises(
            DataSourceError, match=r"must not reach into a table of Delta.*has _delta_log"
        ):
            open_source(pattern)


@pytest.mark.parametrize(
    "how", ["as it is called", "by a link", "a pattern by a link", "a link to a file"]
)
def test_a_folder_inside_such_a_table_is_refused(tmp_path, how):
    """The folder of a partition has no log, and files whose rows were removed."""
    table = write(tmp_path / "t", ROWS, partition_by=["item"])
    DeltaTable(str(table)).delete("user = 'u1'")
    inside, link = table / "item=a", tmp_path / "link"
    link.symlink_to(inside)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.parquet").symlink_to(next(inside.glob("*.parquet")))
    named = {
        "as it is called": inside,
        "by a link": link,
        "a pattern by a link": link / "*.parquet",
        "a link to a file": tmp_path / "files",
    }[how]
    with pytest.raises(
        DataSourceError, match=r"must not reach into a table of Delta.*has _delta_log"
    ):
        open_source(named)


@pytest.mark.parametrize("how", ["symlink_to", "hardlink_to"])
def test_a_file_that_the_log_names_twice_counts_once(tmp_path, how):
    """Under two names its rows would count twice: then one row would move a count by two."""
    table = write(tmp_path / "t", ROWS)
    file = next(table.glob("*.parquet"))
    getattr(table / "again.parquet", how)(file)
    first = table / "_delta_log" / f"{0:020}.json"
    entries = first.read_text().splitlines()
    added = next(line for line in entries if '"add"' in line)
    first.write_text("\n".join([*entries, added.replace(file.name, "again.parquet")]))
    with pytest.raises(DataSourceError, match="name each file once"):
        open_source(table)


def test_the_version_of_the_opening_is_read(tmp_path):
    table = write(tmp_path / "t", ROWS)
    question = prepare_counts(open_source(table), PrivacyUnit.row(), kind="rows")
    write(table, ROWS, mode="append")
    assert question.run().values.tolist() == [3]
    assert prepare_counts(
        open_source(table), PrivacyUnit.row(), kind="rows"
    ).run().values.tolist() == [6]


def test_a_log_with_checkpoints_and_without_its_first_entries(tmp_path):
    table = write(tmp_path / "t", ROWS)
    for n in range(12):
        write(table, {"user": [f"v{n}"], "item": ["c"]}, mode="append")
    kept = DeltaTable(str(table))
    kept.delete("item = 'b'")
    kept.create_checkpoint()
    wanted = Counter([("u1", "a"), ("u3", "a"), *((f"v{n}", "c") for n in range(12))])
    for entry in sorted((table / "_delta_log").glob("*.json"))[:-1]:
        entry.unlink()
    assert rows_of(open_source(table)) == wanted


STRANGE = ["plain", "a b", "50%", "x=y", "u/v", "é🎻", "a#b?", None]


def test_partitions_are_columns_of_texts(tmp_path):
    """Whatever their values hold, and whatever folders are called for them."""
    days = [dt.date(2024, 2, 29), None]
    rows = [(name, n, day) for n, name in enumerate(STRANGE) for day in days]
    names, numbers, dates = zip(*rows, strict=True)
    table = write(
        tmp_path / "t",
        {"item": names, "year": numbers, "day": pa.array(dates, pa.date32()), "user": [f"u{n}" for n in range(len(rows))]},
        partition_by=["item", "year", "day"],
    )  # fmt: skip
    source = open_source(table)
    assert source.columns == {
        "user": "VARCHAR",
        "item": "VARCHAR",
        "year": "VARCHAR",
        "day": "VARCHAR",
    }
    expected = Counter(
        (f"u{n}", name, str(number), None if day is None else str(day))
        for n, (name, number, day) in enumerate(rows)
    )
    assert rows_of(source) == expected
    for column, label, count in (("year", "3", 2), ("day", "2024-02-29", 8)):
        question = prepare_counts(
            source, PrivacyUnit.row(), kind="items", item=column, domain=[label]
        )
        assert question.run().values.tolist() == [count]


@pytest.mark.parametrize("folder", ["a b", "50%25", "#x", "é", "x=1"])
def test_the_folder_may_be_called_anything(tmp_path, folder):
    table = write(tmp_path / urllib.parse.unquote(folder), ROWS)
    assert rows_of(open_source(table)).total() == 3


UNKNOWN = "of a version that the installed deltalake knows"
FEATURES = {
    "vectors that mark single rows as removed": ("deletionVectors", {}, "deletionVectors"),
    "columns under other names": ("columnMapping", {}, "columnMapping"),
    "columns under other names, made use of": (
        "columnMapping",
        {"delta.columnMapping.mode": "name"},
        UNKNOWN,
    ),
    "types that were widened": ("typeWidening", {}, "typeWidening"),
    "a feature of tomorrow": ("somethingNew", {}, UNKNOWN),
}


@pytest.mark.parametrize("name", FEATURES)
def test_what_only_the_log_can_tell_of_rows_is_refused_by_its_name(tmp_path, name):
    """By what the table is allowed to have, and not by whether a row made use of it."""
    feature, configuration, said = FEATURES[name]
    table = write(tmp_path / "t", ROWS)

    def change(entry):
        if "protocol" in entry:
            entry["protocol"] = {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": [feature],
                "writerFeatures": [feature],
            }
        if "metaData" in entry:
            entry["metaData"]["configuration"] = configuration

    edit_log(table, change)
    with pytest.raises(DataSourceError, match=said):
        open_source(table)


def test_a_table_of_version_two_may_rename_columns(tmp_path):
    table = write(tmp_path / "t", ROWS)

    def change(entry):
        if "protocol" in entry:
            entry["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
        if "metaData" in entry:
            entry["metaData"]["configuration"] = {"delta.columnMapping.mode": "id"}

    edit_log(table, change)
    with pytest.raises(DataSourceError, match=f"columnMapping|{UNKNOWN}"):
        open_source(table)


def test_a_log_that_names_files_of_somewhere_else_is_refused(tmp_path):
    other = write(tmp_path / "other", ROWS)
    for n, path in enumerate(
        ("../other/{}", "/{}", "file://" + str(other) + "/{}", "a/../../other/{}")
    ):
        table = write(tmp_path / f"t{n}", ROWS)
        to = path.format(next(other.glob("*.parquet")).name)

        def change(entry, to=to):
            if "add" in entry:
                entry["add"]["path"] = to

        edit_log(table, change)
        with pytest.raises(DataSourceError, match="files of its own folder"):
            open_source(table)


def test_a_file_that_is_not_there_is_said_before_the_charge(tmp_path):
    table = write(tmp_path / "t", ROWS)
    next(table.glob("*.parquet")).unlink()
    with pytest.raises(DataSourceError, match="is not there"):
        open_source(table)


@pytest.mark.parametrize("what", ["no log entry", "a damaged entry", "no file left"])
def test_what_is_no_such_table(tmp_path, what):
    table = write(tmp_path / "t", ROWS)
    entries = sorted((table / "_delta_log").glob("*.json"))
    if what == "no log entry":
        entries[0].unlink()
    elif what == "a damaged entry":
        entries[0].write_text('{"add": {"path": "secret-4711')
    else:
        DeltaTable(str(table)).delete()
    with pytest.raises(DataSourceError) as caught:
        open_source(table)
    assert "4711" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_partitions_of_other_types_are_refused(tmp_path):
    table = write(
        tmp_path / "t",
        {"user": ["u"], "x": pa.array([1.5])},
        partition_by=["x"],
    )
    with pytest.raises(DataSourceError, match=r"partition column.*'x' of type double"):
        open_source(table)


def test_statistics_of_the_log_decide_nothing(tmp_path):
    """They are of rows: of one that is extreme they hold what no type can."""
    table = write(tmp_path / "t", {"user": ["u1", "u2"], "n": [1, 2]})

    def change(entry):
        if "add" in entry:
            entry["add"]["stats"] = (
                '{"numRecords": 0, "minValues": {"n": 99}, "maxValues": {"n": "not a number"}, "nullCount": {"n": -1}}'
            )

    edit_log(table, change)
    question = prepare_counts(open_source(table), PrivacyUnit.row(), kind="rows", where="n < 3")
    assert question.run().values.tolist() == [2]
    edit_log(table, lambda entry: "add" in entry and entry["add"].update(stats="no JSON at all"))
    assert prepare_counts(
        open_source(table), PrivacyUnit.row(), kind="rows"
    ).run().values.tolist() == [2]


def test_without_the_package_it_is_said_what_to_install(tmp_path, monkeypatch):
    table = write(tmp_path / "t", ROWS)
    monkeypatch.setattr(delta, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedBackend, match=r"pip install 'sordino\[delta\]'"):
        open_source(table)


def test_an_account_is_about_the_folder(tmp_path):
    table = write(tmp_path / "t", ROWS)
    unit = PrivacyUnit("user")
    ledger = Ledger.create(
        tmp_path / "b.db", account="x", budget=Budget(epsilon=1.0), adjacency="add-remove", unit=unit, source=str(table)
    )  # fmt: skip
    for _ in range(2):
        with Session(table, unit=unit, ledger=ledger) as session:
            session.count_distinct_units(epsilon=0.5)
        write(table, {"user": ["u9"], "item": ["z"]}, mode="append")
    assert ledger.statement().to_dict()["remaining"] == 0


def test_files_that_come_later_are_private_too(tmp_path):
    """Another writer may put the rows of this version into new files (OPTIMIZE) while a session is open."""
    table = write(tmp_path / "t", ROWS)
    (tmp_path / "link").symlink_to(table)
    (tmp_path / "t2").mkdir()
    sources = [open_source(table), open_source(tmp_path / "link")]
    known = set(table.rglob("*"))
    write(table, ROWS, mode="overwrite")
    [new] = set(table.glob("*.parquet")) - known
    for source in sources:
        assert source.find_tie(new)
        assert source.find_tie(tmp_path / "link" / new.name)
        assert not source.find_tie(tmp_path / "t2" / new.name)
    with pytest.raises(UnsafePredicate, match="rows of the source"):
        Domain.from_file(new, column="item").resolve(sources[0])


def test_removed_files_are_private_too(tmp_path):
    """No domain is read from them, and no plan takes them for public data."""
    table = write(tmp_path / "t", ROWS)
    old = next(table.glob("*.parquet"))
    write(table, ROWS, mode="overwrite")
    assert open_source(table).find_tie(old)


@pytest.mark.parametrize("written", ['{"numRecords": 2}', "[1]", '"\\ud800"', b'"\xff"'], ids=str)
def test_statistics_that_are_no_text_close_the_table_and_are_not_quoted(tmp_path, written):
    """The package that reads logs reads them, too: what they are decides there, and no value of theirs (known limits)."""
    table = tmp_path / "t"
    write_deltalake(table, pa.table({"x": [4711, 5]}))
    [log] = (table / "_delta_log").glob("*.json")
    entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    for entry in entries:
        if "add" in entry:
            entry["add"]["stats"] = "HERE"
    lines = "".join(json.dumps(entry) + "\n" for entry in entries).encode()
    log.write_bytes(
        lines.replace(b'"HERE"', written if isinstance(written, bytes) else written.encode())
    )
    with pytest.raises(
        DataSourceError, match="The log of a table of Delta must be readable"
    ) as refused:
        open_source(table)
    assert "4711" not in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None
