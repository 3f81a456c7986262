"""Files that labels come from: only those that were named, and none that was made of the source's rows."""

from __future__ import annotations

import contextlib
import os
import re
import unicodedata
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sordino.errors import DataSourceError, InvalidParameter, SordinoError, UnsafePredicate
from sordino.questions import Domain, PrivacyUnit
from sordino.session import Session
from sordino.sources import open_source
from sordino.sources.engine import make_folder

TIED = "must not be made of the rows of the source"
UNNAMED = "--domain-sql-file"


def write_dataset(folder):
    """Write two parts and, as many writers do, the statistics of all rows beside them."""
    folder.mkdir(parents=True)
    table = pa.table({"item": ["a", "b"], "x": [1, 987654]})
    kept = []
    for number in range(2):
        pq.write_table(table, folder / f"part-{number}.parquet", metadata_collector=kept)
        kept[-1].set_file_path(f"part-{number}.parquet")
    pq.write_metadata(table.schema, folder / "_metadata", metadata_collector=kept)
    pq.write_metadata(table.schema, folder / "_common_metadata")
    return folder


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_dataset(tmp_path / "D")
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "items.csv").write_text("item\na\nc\n")
    return tmp_path


SOURCES = ["D", "D/", "D/part-0.parquet", "D/*.parquet", "D/part-*.parquet", "**/part-0.parquet"]
STATISTICS = "SELECT 'tea' FROM parquet_metadata('D/_metadata') WHERE stats_max_value = '987654'"


@pytest.mark.parametrize("path", SOURCES)
def test_statistics_beside_the_source_decide_nothing(place, path):
    source = open_source(path)
    with pytest.raises(UnsafePredicate, match=UNNAMED):
        Domain.from_sql(STATISTICS).resolve(source)
    with pytest.raises(UnsafePredicate, match=TIED):
        Domain.from_sql(STATISTICS, files=["D/_metadata"]).resolve(source)
    # Behind a link, through another folder, and as the path of the link.
    (place / "lists" / "link.parquet").symlink_to(place / "D" / "_metadata")
    for name in ("lists/link.parquet", "lists/../D/_metadata", str(place / "D" / "_metadata")):
        with pytest.raises(UnsafePredicate, match=TIED):
            Domain.from_sql("SELECT 'tea'", files=[name]).resolve(source)
    with pytest.raises(UnsafePredicate, match=TIED):
        Domain.from_file("lists/link.parquet", "item").resolve(source)


@pytest.mark.parametrize("path", SOURCES)
def test_lists_elsewhere_and_plain_lists_beside_go_on_working(place, path):
    source = open_source(path)
    assert Domain.from_file("lists/items.csv").resolve(source).labels == ("a", "c")
    query = Domain.from_sql("SELECT item FROM 'lists/items.csv'", files=["lists/items.csv"])
    assert query.resolve(source).labels == ("a", "c")
    if path not in {"D", "D/"}:
        (place / "D" / "products.csv").write_text("item\nq\n")
        assert Domain.from_file("D/products.csv").resolve(source).labels == ("q",)


BESIDE = [
    "_metadata",
    "_common_metadata",
    "_SUCCESS",
    "_delta_log/00000000000000000000.json",
    "_temporary/0/task/part.csv",
    "_started_123",
    ".orders.csv.crc",
    ".orders.csv.swp",
    ".orders.csv",
    ".#orders.csv",
    "#orders.csv#",
    "~$orders.csv",
    ".~lock.orders.csv#",
    ".snapshot/hourly.0/orders.csv",
    ".zfs/snapshot/monday/items.csv",
    ".ipynb_checkpoints/orders-checkpoint.csv",
    ".git/objects/ab/cdef",
    "@eaDir/items.csv",
    "orders.csv~",
    "orders.csv.bak",
    "orders.csv.gz",
    "orders.csv.tmp",
    "orders.csv.1",
    "orders.csv-journal",
    "orders.bak",
    "orders.idx",
    "orders.parquet",
    "orders.delta/part-0.parquet",
    "orders_1.csv",
    "orders-2.csv",
    "orders (1).csv",
    "Copy of orders.csv",
    "tmp_orders.csv",
    "ORDERS.CSV.BAK",
    "backup/orders.csv",
    "backup/orders.csv.7z",
]


@pytest.mark.parametrize(("one", "other"), [("NFC", "NFD"), ("NFD", "NFC"), ("NFKC", "NFC")])
def test_a_name_is_one_in_all_forms_of_unicode(place, one, other):
    (place / "data").mkdir()
    called = unicodedata.normalize(one, "Gr\u00f6\u00dfen\ufb01le.csv")
    (place / "data" / called).write_text("item\na\n")
    file = place / "data" / (unicodedata.normalize(other, "GR\u00d6SSEN\ufb01le.csv") + ".bak")
    file.write_text("item\nsecret\n")
    with pytest.raises(UnsafePredicate, match="after a file of the source that lies beside it"):
        Domain.from_file(file).resolve(open_source(f"data/{called}"))


@pytest.mark.parametrize("path", ["data/orders.csv", "data/or*.csv", "data/orders.cs?"])
def test_what_programs_write_beside_a_file_is_no_list(place, path):
    (place / "data").mkdir()
    (place / "data" / "orders.csv").write_text("item\na\n")
    source = open_source(path)
    for name in BESIDE:
        file = place / "data" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("item\nsecret\n")
        for domain in (
            Domain.from_file(file),
            Domain.from_sql("SELECT 'a'", files=[file]),
            Domain.from_file(f"data/../data/{name}"),
        ):
            with pytest.raises(UnsafePredicate, match=TIED):
                domain.resolve(source)


@pytest.mark.parametrize(
    "name",
    [
        "airports.csv",
        "preorders.csv",
        "orders2.csv",
        "ordersheet.csv",
        "lists/items.csv",
        "2024/items.csv",
        "a.orderset/x.csv",
    ],
)
def test_what_is_called_otherwise_is_a_list(place, name):
    (place / "data").mkdir()
    (place / "data" / "orders.csv").write_text("item\na\n")
    (place / "data" / name).parent.mkdir(parents=True, exist_ok=True)
    (place / "data" / name).write_text("item\nq\n")
    assert Domain.from_file(f"data/{name}").resolve(open_source("data/orders.csv")).labels == ("q",)


@pytest.mark.parametrize(
    ("source", "file"),
    [
        # Snapshots of a disk stand at its top.
        ("vol/shop/orders.csv", "vol/.snapshot/daily/shop/items.csv"),
        ("vol/shop/orders.csv", "vol/#snapshot/items.csv"),
        # One folder of a table by keys, and what stands for all of them.
        ("T/year=2024/part-0.csv", "T/_metadata"),
        ("T/year=2024/part-0.csv", "T/year=2023/items.csv"),
        ("T/year=2024/part-0.csv", "T/items.csv"),
        ("T/year=2024/month=1/*.csv", "T/year=2023/month=1/items.csv"),
        ("T/*/part-0.csv", "T/_metadata"),
        ("T/*/*/part-0.csv", "T/_temporary/items.csv"),
        ("T/2024/01/part-0.csv", "T/_common_metadata"),
        # Iceberg keeps statistics of all rows in a folder of its own.
        ("T/data/part-0.csv", "T/metadata/snap-1.avro"),
        ("T/data", "T/metadata/snap-1.avro"),
        ("T/data/year=2024/part-0.csv", "T/metadata/snap-1.avro"),
        # A folder has a name, too.
        ("sales", "sales.crc"),
        ("sales", "sales_old/items.csv"),
        ("lake.ducklake.files", "lake.ducklake"),
        ("sales", "sales/lists/items.csv"),
        ("sales", "sales/items.txt"),
        # What comes later.
        ("in/day-*.csv", "in/day-9.csv"),
        ("in/*.csv", "in/later.csv"),
        ("in/day-*.csv", "in/day-9.csv.crc"),
    ],
)
@pytest.mark.sample(10)
def test_a_source_is_more_than_its_files(place, source, file):
    private = place / source
    if "*" in source:
        private = place / source.replace("*", "1" if "day" in source else "k=1")
    elif "." not in source.replace("lake.ducklake.files", "lake"):
        private = private / "part-0.csv"
    private.parent.mkdir(parents=True)
    private.write_text("item\na\n")
    opened = open_source(source)
    (place / file).parent.mkdir(parents=True, exist_ok=True)
    (place / file).write_text("item\nsecret\n")
    with pytest.raises(UnsafePredicate, match=TIED):
        Domain.from_file(file).resolve(opened)


def test_a_file_with_a_second_name_is_no_list(place):
    """A hard link to a file beside the source has a harmless name, and every one of its names is the same."""
    os.link("D/_metadata", "lists/link.parquet")
    for path in ("D", "D/part-0.parquet"):
        with pytest.raises(UnsafePredicate, match="several names"):
            Domain.from_file("lists/link.parquet").resolve(open_source(path))
    with pytest.raises(UnsafePredicate, match="several names"):
        Domain.from_sql("SELECT 'a'", files=["lists/link.parquet"]).resolve(
            open_source(pl.DataFrame({"a": [1]}))
        )


def test_a_source_that_is_a_link_is_two_places(place):
    (place / "data").mkdir()
    (place / "kept").mkdir()
    (place / "kept" / "blob-77.csv").write_text("item\na\n")
    (place / "data" / "orders.csv").symlink_to(place / "kept" / "blob-77.csv")
    source = open_source("data/orders.csv")
    for name in ("kept/blob-77.csv", "kept/blob-77.csv.bak", "data/orders.bak", "kept/_metadata"):
        (place / name).exists() or (place / name).write_text("item\nsecret\n")
        with pytest.raises(UnsafePredicate, match=TIED):
            Domain.from_file(name).resolve(source)


@pytest.mark.parametrize(
    "name", ["/proc/self/environ", "/proc/self/cmdline", "/dev/stdin", "/dev/fd/0", "/dev/null"]
)
@pytest.mark.parametrize("kind", ["frame", "file"])
@pytest.mark.each_value
def test_the_process_and_its_machine_are_no_list(place, name, kind):
    source = open_source(pl.DataFrame({"item": ["a"]}) if kind == "frame" else "D")
    for named in (name, f"/./{name}", f"/usr/..{name}"):
        with pytest.raises((UnsafePredicate, DataSourceError)):
            Domain.from_file(named).resolve(source)
        query = f"SELECT content FROM read_text('{named}')"
        with pytest.raises((UnsafePredicate, DataSourceError)):
            Domain.from_sql(query, files=[named]).resolve(source)
        with pytest.raises(UnsafePredicate, match=UNNAMED):
            Domain.from_sql(query).resolve(source)
    (place / "lists" / "link.csv").symlink_to(name)
    with pytest.raises((UnsafePredicate, DataSourceError)):
        Domain.from_file("lists/link.csv").resolve(source)


def test_a_file_that_is_open_and_gone_is_no_list(place):
    with Path("gone.csv").open("w+") as file:
        file.write("item\nsecret\n")
        file.flush()
        Path("gone.csv").unlink()
        (place / "lists" / "link.csv").symlink_to(f"/proc/self/fd/{file.fileno()}")
        with pytest.raises((UnsafePredicate, DataSourceError)):
            Domain.from_file("lists/link.csv").resolve(open_source("D"))


@pytest.mark.parametrize(
    "marker", ["pg/PG_VERSION", "pg_tblspc/PG_17_202406281/5/16390", "spark-warehouse/t/part-0.csv"]
)
def test_files_of_a_server_are_no_list(place, marker):
    (place / marker).parent.mkdir(parents=True, exist_ok=True)
    (place / marker).write_text("item\n17\n")
    file = place / marker
    if marker == "pg/PG_VERSION":
        file = place / "pg" / "base" / "5" / "16384"
        file.parent.mkdir(parents=True)
        file.write_text("item\nsecret\n")
    (place / "lists" / "link").symlink_to(file)
    for source in (open_source("D"), open_source(pl.DataFrame({"item": ["a"]}))):
        for path in (file, place / "lists" / "link"):
            with pytest.raises(UnsafePredicate, match="server"):
                Domain.from_file(path).resolve(source)
            with pytest.raises(UnsafePredicate, match="server"):
                Domain.from_sql("SELECT 'a'", files=[path]).resolve(source)
    with pytest.raises(UnsafePredicate, match=UNNAMED):
        Domain.from_sql(f"SELECT content FROM read_text('{file}')").resolve(open_source("D"))


def test_a_database_file_is_more_than_itself(place):
    con = duckdb.connect("shop.db")
    con.execute("CREATE TABLE orders AS SELECT 'a' AS item")
    con.close()
    source = open_source("duckdb:shop.db#orders")
    for name in (
        "shop.db",
        "shop.db.wal",
        "shop.db.tmp/x.csv",
        "shop.duckdb.wal",
        "shop.csv",
        "tmp_shop.db",
    ):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).exists() or Path(name).write_text("item\nsecret\n")
        for domain in (Domain.from_file(name), Domain.from_sql(f"FROM '{name}'", files=[name])):
            with pytest.raises(UnsafePredicate, match=TIED):
                domain.resolve(source)


def test_a_relation_holds_the_files_that_it_names(place):
    con = duckdb.connect("shop.db")
    con.execute("CREATE VIEW seen AS SELECT * FROM 'D/part-0.parquet'")
    con.execute("CREATE TABLE t AS SELECT 'a' AS item")
    con.execute("CREATE MACRO listed() AS TABLE SELECT * FROM read_parquet('D/*.parquet')")
    for relation in (
        con.sql("SELECT * FROM 'D/part-0.parquet'"),
        con.sql("SELECT * FROM read_parquet('D/*.parquet') WHERE x > 1"),
        con.read_parquet("D/part-0.parquet").filter("x > 1"),
        con.table("seen"),
        con.sql("FROM listed()"),
    ):
        source = open_source(relation)
        for name in (
            "D/part-0.parquet",
            "D/_metadata",
            "D/part-0.parquet.bak",
            "shop.db",
            "shop.db.wal",
        ):
            Path(name).exists() or Path(name).write_text("item\nsecret\n")
            with pytest.raises(UnsafePredicate, match=TIED):
                Domain.from_file(name, "item").resolve(source)
        assert Domain.from_file("lists/items.csv").resolve(source).labels == ("a", "c")
        query = Domain.from_sql("FROM 'lists/items.csv'", files=["lists/items.csv"])
        assert query.resolve(source).labels == ("a", "c")
    con.close()


def test_a_lazy_frame_holds_the_files_that_it_scans(place):
    (place / "E").mkdir()
    for number in range(3):
        (place / "E" / f"part-{number}.parquet").write_bytes(
            (place / "D" / "part-0.parquet").read_bytes()
        )
    for frame in (
        pl.scan_parquet("E/part-0.parquet"),
        pl.scan_parquet("E/*.parquet"),
        pl.scan_parquet("E"),
    ):
        source = open_source(frame.filter(pl.col("x") > 1))
        (place / "E" / "_metadata").write_text("item\nsecret\n")
        for name in ("E/part-0.parquet", "E/_metadata"):
            with pytest.raises(UnsafePredicate, match=TIED):
                Domain.from_file(name, "item").resolve(source)
        assert Domain.from_file("lists/items.csv").resolve(source).labels == ("a", "c")
        (place / "E" / "_metadata").unlink()
    # Of several files a plan names the first one.
    for many in (2, 3):
        several = open_source(
            pl.scan_parquet([f"E/part-{number}.parquet" for number in range(many)])
        )
        with pytest.raises(UnsafePredicate, match=TIED):
            Domain.from_file("E/part-1.parquet", "item").resolve(several)


# ---- what a query may open ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Return a folder of public and private files and the source in it; it is made once, and no query may change it."""
    folder = tmp_path_factory.mktemp("filled")
    write_dataset(folder / "D")
    (folder / "lists").mkdir()
    (folder / "lists" / "items.csv").write_text("item\na\nc\n")
    (folder / "items.csv").write_text("item\na\nc\n")
    (folder / "secret.csv").write_text("item\nsecret\n")
    (folder / "ITEMS.CSV").write_text("item\nsecret\n")
    (folder / "pub.db").write_text("item\nq\n")
    (folder / "soft.csv").symlink_to("secret.csv")
    (folder / "also.csv").symlink_to("items.csv")
    pl.DataFrame({"item": ["p"]}).write_parquet(folder / "pub.parquet")
    # A folder behind a link: its parent is not the one that the words of a path name.
    (folder / "deep" / "inside").mkdir(parents=True)
    (folder / "deep" / "items.csv").write_text("item\nsecret\n")
    (folder / "sub").symlink_to("deep/inside")
    with contextlib.chdir(folder):
        source = open_source("D")
    return folder, source


@pytest.fixture
def query(filled, monkeypatch):
    """Return a function that resolves a query which may open `items.csv` and `pub.parquet` only."""
    folder, source = filled
    monkeypatch.chdir(folder)

    def resolve(text, files=("items.csv", "pub.parquet")):
        return (
            Domain.from_sql(text.replace("{here}", str(folder)), files=files).resolve(source).labels
        )

    return resolve


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("FROM 'items.csv'", ("a", "c")),
        ("FROM items.csv", ("a", "c")),
        ("FROM './items.csv'", ("a", "c")),
        ("FROM 'also.csv'", ("a", "c")),
        ("FROM '{here}/items.csv'", ("a", "c")),
        ("FROM '{here}/lists/../items.csv'", ("a", "c")),
        ("SELECT item FROM read_csv('items.csv', delim = ';', header = true)", ("a", "c")),
        ("SELECT column0 FROM read_csv(['items.csv'], header = false)", ("a", "c", "item")),
        ("SELECT item FROM read_parquet('pub.parquet') UNION ALL FROM \"items.csv\"", ("a", "c", "p")),
        ("WITH t AS (FROM 'items.csv'), u AS (FROM t) SELECT item FROM u WHERE item > 'a'", ("c",)),
        ("SELECT i.item FROM 'items.csv' i JOIN 'pub.parquet' p ON i.item <> p.item", ("a", "c")),
        ("SELECT upper(item) FROM (FROM 'items.csv') WHERE item IN (SELECT item FROM 'items.csv')", ("A", "C")),
        ("VALUES ('x'), ('y')", ("x", "y")),
        ("SELECT 'r' || r FROM range(2) t(r)", ("r0", "r1")),
        ("SELECT unnest(['u', 'v'])", ("u", "v")),
        ("SELECT CAST(g AS DATE) FROM generate_series(DATE '2024-01-01', DATE '2024-01-02', INTERVAL 1 DAY) t(g)",
         ("2024-01-01", "2024-01-02")),
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT i FROM n", ("1", "2", "3")),
    ],
)  # fmt: skip
def test_a_query_opens_what_was_named(query, text, labels):
    assert query(text) == labels


@pytest.mark.parametrize(
    "text",
    [
        "FROM 'secret.csv'",
        "FROM secret.csv",
        "SELECT item FROM 'secret.csv' WHERE 1 = (WITH \"secret.csv\" AS (SELECT 1) SELECT 1)",
        "SELECT item FROM 'soft.csv' WHERE 1 = (WITH \"soft.csv\" AS (SELECT 1) SELECT 1)",
        "FROM read_csv(path := 'secret.csv')",
        "FROM read_csv(delim = ',', 'secret.csv')",
        "FROM 'ITEMS.CSV'",
        "FROM 'soft.csv'",
        "FROM 'nowhere.csv'",
        "FROM 'sub/../items.csv'",
        "FROM '{here}/sub/../items.csv'",
        "SELECT item FROM read_csv('sub/../items.csv')",
        "SELECT content FROM read_text('sub/../items.csv')",
        "WITH \"sub/../items.csv\" AS (SELECT 1 AS item) SELECT item FROM 'sub/../items.csv'",
        "SELECT item FROM 'sub/../items.csv' WHERE 1 = (WITH \"sub/../items.csv\" AS (SELECT 1) SELECT 1)",
        "FROM 'items.csv/../secret.csv'",
        "FROM '~/items.csv'",
        "FROM 'file:items.csv'",
        "FROM 'file://{here}/secret.csv'",
        "FROM '*.csv'",
        "FROM 'item?.csv'",
        "FROM 'ite[m]s.csv'",
        "FROM '{here}'",
        "FROM read_csv(['items.csv', 'secret.csv'])",
        "FROM read_csv(list_value('items.csv', 'secret.csv'))",
        "FROM read_csv('sec' || 'ret.csv')",
        "FROM read_csv(concat('sub/.', './items.csv'))",
        "FROM read_csv((SELECT 'secret.csv'))",
        "SELECT content FROM read_text('secret.csv')",
        "SELECT CAST(content AS VARCHAR) FROM read_blob('secret.csv')",
        "SELECT file FROM glob('*')",
        "SELECT file FROM glob('secret.csv')",
        "SELECT Delimiter FROM sniff_csv('secret.csv')",
        "SELECT item FROM read_json('secret.csv')",
        "SELECT item FROM parquet_scan('D/part-0.parquet')",
        "SELECT stats_max_value FROM parquet_metadata('D/_metadata')",
        "SELECT file_name FROM parquet_schema('D/_metadata')",
        "SELECT item FROM (SELECT item FROM (SELECT 1 AS x), LATERAL (SELECT item FROM 'secret.csv'))",
        "SELECT 'tea' WHERE EXISTS (FROM 'secret.csv')",
        "SELECT (SELECT any_value(item) FROM 'secret.csv')",
        "SELECT item FROM 'https://127.0.0.1/items.csv'",
        "SELECT item FROM 's3://bucket/items.csv'",
        "SELECT content FROM read_text('/proc/self/environ')",
        "SELECT content FROM read_text('/dev/stdin')",
        "FROM nowhere",
        "FROM main.nowhere",
        "FROM D",
    ],
)  # fmt: skip
@pytest.mark.sample(2)
def test_a_query_opens_nothing_else(query, text):
    with pytest.raises(UnsafePredicate, match=UNNAMED):
        query(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT current_setting('memory_limit')",
        "SELECT CURRENT_SETTING('threads')",
        "SELECT \"current_setting\"('threads')",
        "SELECT getenv('HOME')",
        "SELECT value FROM duckdb_settings()",
        "SELECT value FROM system.main.duckdb_settings()",
        "SELECT setting FROM pg_settings",
        "SELECT setting FROM pg_catalog.pg_settings",
        "SELECT setting FROM pg_settings WHERE 1 = (WITH pg_settings AS (SELECT 1) SELECT 1)",
        "FROM (SHOW memory_limit)",
        "FROM (SHOW databases)",
        "SELECT memory_usage_bytes FROM duckdb_memory()",
        "SELECT path FROM duckdb_temporary_files()",
        "SELECT path FROM duckdb_databases()",
        "SELECT install_path FROM duckdb_extensions()",
        "SELECT name FROM duckdb_secrets()",
        "SELECT secret_string FROM which_secret('s3://x', 's3')",
        "SELECT database_size FROM pragma_database_size()",
        "SELECT platform FROM pragma_platform()",
        "SELECT name FROM sqlite_master",
        "SELECT table_name FROM information_schema.tables",
        "FROM query('SELECT current_setting(''threads'')')",
        "FROM query_table('items.csv')",
        "SELECT item FROM read_duckdb('pub.db')",
        "FROM 'pub.db'",
        "WITH d AS (DELETE FROM 'items.csv' RETURNING 1) FROM d",
        "SELECT 1" + " + 1" * 5000,
        "SELECT " + "(" * 900 + "1.5e0" + ")" * 900,
        "SELECT 1 WHERE " + "1 IN (SELECT " * 300 + "2" + ")" * 300,
        "FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
        "PRAGMA version",
        "CALL duckdb_settings()",
        "ATTACH 'secret.csv'",
        "COPY (SELECT 1) TO 'out.csv'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "LOAD httpfs",
        "EXPORT DATABASE 'out'",
        "SELECT 1; SELECT 2",
        "DESCRIBE SELECT 1",
        "SUMMARIZE 'items.csv'",
    ],
)
@pytest.mark.sample(2)
def test_a_query_learns_nothing_of_the_machine(query, filled, text):
    before = sorted(filled[0].rglob("*"))
    with pytest.raises((UnsafePredicate, InvalidParameter)):
        query(text)
    assert sorted(filled[0].rglob("*")) == before


def test_what_an_engine_puts_aside_is_no_list(place):
    with make_folder() as folder:
        for name in ("x.csv", "duckdb_temp_storage_DEFAULT-0.tmp"):
            Path(folder, name).write_text("item\nsecret\n")
            for source in ("D", pl.DataFrame({"item": ["a"]})):
                with pytest.raises(UnsafePredicate, match="does not fit in memory"):
                    Domain.from_file(Path(folder, name)).resolve(open_source(source))


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ("items.csv", "a list of paths"),
        (["nowhere.csv"], "must exist"),
        (["lists"], "must exist"),
        (["*.csv"], "must exist"),
        (["pub.db"], "no database"),
        ([""], "files"),
        ([3], "files"),
        (["a\0b"], "files"),
    ],
)
def test_files_of_a_query_are_checked_before_it_runs(query, files, words):
    with pytest.raises(SordinoError, match=words):
        query("SELECT 'a'", files)


def test_a_file_that_looks_like_a_pattern_is_not_opened(place):
    (place / "i*.csv").write_text("item\nq\n")
    with pytest.raises(SordinoError, match="must not hold"):
        Domain.from_sql("FROM 'i*.csv'", files=["i*.csv"]).resolve(open_source("D"))


def test_the_words_of_a_refusal_name_the_file_and_the_remedy(query):
    with pytest.raises(UnsafePredicate, match=re.escape("'secret.csv'")) as told:
        query("FROM 'secret.csv'")
    assert len(str(told.value).split(". ")) <= 2


# ---- plans --------------------------------------------------------------------------------------------------


def test_public_data_in_place_of_private_data_are_no_part_of_it(place):
    """A plan of data that were made of the private rows would be a release that nobody pays for."""

    kept = place / "D" / "_temporary"
    kept.mkdir()
    pl.DataFrame({"item": ["a", "b"], "x": [1, 2]}).write_parquet(kept / "x.parquet")
    for source in ("D", "D/*.parquet", "D/part-0.parquet"):
        session = Session(source, unit=PrivacyUnit.row(), ledger=None)
        with pytest.raises(InvalidParameter, match="private source"):
            session.plan.top_k("item", k=1, epsilon=1, domain=["a"], like=kept / "x.parquet")


@pytest.mark.slow
def test_another_database_may_stand_for_a_private_one(place):
    """It need not have a log of writes beside it, as one that was closed has none."""
    for name in ("kept.duckdb", "synthetic.duckdb"):
        with duckdb.connect(name) as con:
            con.execute("CREATE TABLE t AS SELECT 'a' AS item")
        assert not (place / f"{name}.wal").exists()
    session = Session("duckdb:kept.duckdb#t", unit=PrivacyUnit.row(), ledger=None)
    about = {"k": 1, "epsilon": 1, "domain": ["a"]}
    assert session.plan.top_k("item", like="duckdb:synthetic.duckdb#t", **about).rows
    with pytest.raises(InvalidParameter, match="private source"):
        session.plan.top_k("item", like="duckdb:kept.duckdb#t", **about)
