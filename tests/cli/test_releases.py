"""What the command prints, in all three forms, and that the figures are right."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest


def test_top_as_json(top, account):
    result = top(*account)
    assert (result.code, result.err) == (0, "")
    rows = result.json["rows"]
    assert [row["item"] for row in rows] == ["tea", "rice"]
    assert [row["rank"] for row in rows] == [1, 2]
    assert abs(rows[0]["estimate"] - 300) < 40
    assert abs(rows[1]["estimate"] - 100) < 40
    assert all(row["low"] < row["high"] for row in rows)
    assert rows[0]["gap"] > 100
    facts = {
        key: result.json[key]
        for key in ("release", "epsilon", "adjacency", "unit", "item", "simulated", "exact")
    }
    assert facts == {
        "release": "top",
        "epsilon": 4.0,
        "adjacency": "add-remove",
        "unit": "column customer",
        "item": "product",
        "simulated": False,
        "exact": True,
    }


def test_top_as_csv_and_table(top):
    rows = list(csv.DictReader(io.StringIO(top("--format", "csv", "--synthetic", "--seed", 3).out)))
    assert [row["item"] for row in rows] == ["tea", "rice"]
    assert list(rows[0]) == [
        "rank",
        "item",
        "estimate",
        "low",
        "high",
        "gap",
        "tie",
        "too_few",
        "measured",
        "combined",
        "left_out",
        "confidence",
        "adjacency",
        "unit",
        "max_rows",
        "domain",
        "noise",
        "measure_noise",
        "simulated",
        "epsilon",
        "delta",
        "id",
        "time",
        "account",
        "version",
        "schema",
    ]
    assert {(row["adjacency"], row["simulated"]) for row in rows} == {("add-remove", "yes")}
    table = top("--format", "table", "--details", "--synthetic", "--seed", 3).out
    assert table.splitlines()[0].split() == list(rows[0])[:7]
    assert "Spent: epsilon 4. Protects: column customer, add-remove." in table
    assert "SIMULATED" in table


def test_the_order_is_that_of_what_is_counted(sordino, tmp_path):
    """Tea leads in what is counted, and rice in true counts: that is called clear, so it is said what it is about."""
    lines = [f"t{number},tea" for number in range(300)]
    lines += [
        f"r{number},{item}"
        for number in range(600)
        for item in ("rice", "salt", "oil", "figs", "dill")
    ]
    (tmp_path / "orders.csv").write_text("\n".join(["customer,product", *lines, ""]))
    (tmp_path / "names.csv").write_text("name\ntea\nrice\nsalt\noil\nfigs\ndill\n")
    ask = (
        "--user",
        "customer",
        "--item",
        "product",
        "--domain",
        tmp_path / "names.csv",
        "--epsilon",
        10,
    )
    ask = (tmp_path / "orders.csv", *ask, "--synthetic", "--seed", 3, "--format")
    first, second, *_ = sordino("top", *ask, "json", "-k", 2, "--max-rows", 1).json["rows"]
    assert (first["item"], first["tie"]) == ("tea", False)
    assert second["item"] != "tea"
    about = "low, high and tie are about what is counted so"
    assert about in sordino("top", *ask, "table", "--details", "-k", 2, "--max-rows", 1).out
    assert "counted so" not in sordino("top", *ask, "table", "--details", "-k", 2).out
    assert "low and high are about what is counted so" in (
        sordino("histogram", *ask, "table", "--details", "--max-rows", 1).out
    )


def test_more_k_than_the_data_have_items(top):
    result = top(k=4)
    assert sorted(row["item"] for row in result.json["rows"]) == ["rice", "saffron", "salt", "tea"]
    assert result.json["rows"][-1]["gap"] is None


def test_counts_and_histogram(sordino, orders, tmp_path):
    common = (orders, "--epsilon", 5, "--no-ledger")
    rows = sordino("count", *common, "--row-is-unit")
    assert abs(rows.json["rows"][0]["estimate"] - 544) < 20
    units = sordino("count", *common, "--user", "customer", "--units")
    assert abs(units.json["rows"][0]["estimate"] - 300) < 20
    bounded = sordino("count", *common, "--user", "customer", "--max-rows", 1)
    assert abs(bounded.json["rows"][0]["estimate"] - 300) < 20
    unbounded = sordino("count", *common, "--user", "customer")
    assert unbounded.code == 2
    assert "max" in unbounded.err
    histogram = sordino(
        "histogram",
        *common,
        "--row-is-unit",
        "--item",
        "product",
        "--domain",
        tmp_path / "items.csv",
        "--domain-column",
        "name",
    )
    found = {row["item"]: row["estimate"] for row in histogram.json["rows"]}
    # In the order of the file.
    assert list(found) == ["tea", "rice", "salt", "saffron"]
    assert abs(found["rice"] - 200) < 20
    assert abs(found["saffron"]) < 20


def test_where_keeps_rows(top, sordino, orders):
    result = top(where="TRY_CAST(price AS DOUBLE) > 3.5")
    rows = {row["item"]: row["estimate"] for row in result.json["rows"]}
    assert abs(rows["rice"] - 100) < 40
    assert result.json["where"] == "TRY_CAST(price AS DOUBLE) > 3.5"
    count = sordino(
        "count",
        orders,
        "--epsilon",
        5,
        "--no-ledger",
        "--row-is-unit",
        "--where",
        "product = 'rice' AND NOT price = '3'",
    )
    assert abs(count.json["rows"][0]["estimate"] - 100) < 20


def test_other_domains(top, sordino, tmp_path):
    sql = top(domain=None, domain_column=None, domain_sql="SELECT unnest(['tea', 'salt', 'tea'])")
    assert sorted(row["item"] for row in sql.json["rows"]) == ["salt", "tea"]
    assert "sql" in sql.json["domain"]
    public = top("--assume-public", domain=None, domain_column=None, k=4)
    assert {row["item"] for row in public.json["rows"]} == {"tea", "rice", "salt", "unlisted"}
    assert public.json["domain"] == "assumed public"
    table = ("--assume-public", "--format", "table")
    assert "declared public" in top(*table, domain=None, domain_column=None).out
    long = top(*table, "--details", domain=None, domain_column=None).out
    assert "Labels: assumed public." in long


def test_seeded_runs_repeat_and_real_ones_do_not(top):
    seeded = [top("--synthetic", "--seed", 5).out for _ in range(2)]
    assert seeded[0] == seeded[1]
    assert '"simulated": true' in seeded[0]
    real = {top().out for _ in range(4)}
    assert len(real) > 1


def test_notices_are_constant(top, account):
    loud = top("--no-quiet", *account).err
    other = top("--no-quiet", *account, domain_column="code", k=1).err
    # The column of labels is public, too.
    assert loud == other.replace("column code", "column name")
    # What is spent is public, and said in odds.
    assert "At epsilon 4, someone" in loud
    assert "At epsilon 1, someone" in top("--no-quiet", *account, epsilon=1).err
    assert "how many is private" in loud
    assert "--no-ledger: nothing remembers" in top("--no-quiet").err
    assert top().err == ""


# ---- files of labels ---------------------------------------------------------------------------------------


@pytest.fixture
def bare(top, tmp_path):
    """`sordino top` with a list of labels that has no header line."""
    (tmp_path / "bare.csv").write_text("tea\nrice\nsalt\n", encoding="utf-8")

    def call(*flags, **changes):
        return top(*flags, **{"domain": tmp_path / "bare.csv", "domain_column": None} | changes)

    return call


def test_a_list_says_how_many_labels_it_has_and_which_line_named_them(bare, account):
    taken = "column tea, 2 labels; its first line was taken for the header: 'tea'"
    table = bare("--no-quiet", "--format", "table", "--details", *account)
    # Before the charge, and with the figures.
    assert taken in table.err.partition("At epsilon")[0]
    assert taken in table.out
    assert taken in bare().json["domain"]
    assert taken in bare("--dry-run", "--format", "table", "--details").out
    assert taken in bare("--dry-run").json["domain"]
    assert "tea" not in [row["item"] for row in bare().json["rows"]]


def test_a_list_without_a_header_keeps_its_first_label(bare, top, tmp_path):
    said = bare("--domain-no-header").json
    assert said["domain"].endswith("bare.csv, column 1, 3 labels")
    assert said["rows"][0]["item"] == "tea"
    # The columns are numbered.
    (tmp_path / "wide.csv").write_text("1,tea\n2,rice\n", encoding="utf-8")
    wide = {"domain": tmp_path / "wide.csv"}
    assert bare("--domain-no-header", **wide, domain_column=2).json["rows"][0]["item"] == "tea"
    for column in (None, "tea", 3, 0):
        refused = bare("--domain-no-header", **wide, domain_column=column)
        assert (refused.code, refused.out) == (2, "")
        assert "'1', '2'" in refused.err


def test_a_header_that_is_no_line_of_a_file_is_refused(bare, tmp_path):
    import duckdb

    duckdb.sql(f"COPY (SELECT 'tea' AS name) TO '{tmp_path / 'list.parquet'}'")
    refused = bare("--domain-no-header", domain=tmp_path / "list.parquet")
    assert refused.code == 2
    assert "Parquet file names its columns" in refused.err
    other = bare("--domain-no-header", domain=None, domain_range="0:3")
    assert other.code == 2
    assert "--domain-no-header needs --domain" in other.err


def test_a_query_opens_the_files_that_were_named(top, tmp_path):
    query = f"SELECT name FROM '{tmp_path / 'items.csv'}' WHERE code < 3"
    asked = {"domain": None, "domain_column": None, "domain_sql": query}
    refused = top(**asked)
    assert (refused.code, refused.out) == (2, "")
    assert "--domain-sql-file FILE" in refused.err
    named = top("--domain-sql-file", tmp_path / "items.csv", **asked)
    assert [row["item"] for row in named.json["rows"]] == ["tea", "rice"]
    assert named.json["domain"].startswith(f"sql over {tmp_path / 'items.csv'}, column ")
    (tmp_path / "more.csv").write_text("name\nsalt\n", encoding="utf-8")
    both = f"{query} UNION ALL SELECT name FROM '{tmp_path / 'more.csv'}'"
    files = (
        "--domain-sql-file",
        tmp_path / "items.csv",
        "--domain-sql-file",
        tmp_path / "more.csv",
    )
    assert top(*files, **asked | {"domain_sql": both}, k=3).json["rows"][2]["item"] == "salt"
    # What lies beside the source under its name is none of them, also in a dry run.
    (tmp_path / "orders.csv.bak").write_text("name\nsecret\n", encoding="utf-8")
    for flags in ((), ("--dry-run",)):
        for changes in (
            asked | {"domain_sql_file": tmp_path / "orders.csv.bak"},
            {"domain": tmp_path / "orders.csv.bak", "domain_column": None},
        ):
            refused = top(*flags, **changes)
            assert (refused.code, refused.out) == (2, "")
            assert "must not be made of the rows of the source" in refused.err
    alone = top("--domain-sql-file", tmp_path / "items.csv")
    assert alone.code == 2
    assert "--domain-sql-file needs --domain-sql" in alone.err


def test_sources_of_every_kind(top, orders, tmp_path):
    import duckdb

    connection = duckdb.connect(str(tmp_path / "shop.duckdb"))
    connection.sql(f"CREATE TABLE orders AS SELECT * FROM read_csv('{orders}', all_varchar=true)")
    connection.sql(f"COPY orders TO '{tmp_path / 'orders.parquet'}'")
    connection.close()
    for source in (
        tmp_path / "orders.parquet",
        f"duckdb:{tmp_path / 'shop.duckdb'}#orders",
        tmp_path / "ord*.csv",
    ):
        result = top(source=source)
        assert [row["item"] for row in result.json["rows"]] == ["tea", "rice"], source


def test_the_installed_command(orders, tmp_path):
    command = Path(sys.executable).with_name("sordino")
    done = subprocess.run(
        [command, "count", orders, "--row-is-unit", "--epsilon", "1", "--no-ledger"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0
    assert done.stderr == ""
    for line in ([command], [sys.executable, "-m", "sordino"]):
        assert subprocess.run(
            [*line, "--help"], capture_output=True, text=True, check=True
        ).stdout.startswith("Usage: sordino")


def test_a_reader_that_leaves_is_no_error(orders):
    command = Path(sys.executable).with_name("sordino")
    line = f"'{command}' count '{orders}' --row-is-unit --epsilon 1 --no-ledger | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == ""
    assert done.stdout.strip() == "0"


def test_a_full_disk_at_stdout_is_said(orders):
    command = Path(sys.executable).with_name("sordino")
    with Path("/dev/full").open("w") as full:
        line = [command, "count", orders, "--row-is-unit", "--epsilon", "1", "--no-ledger"]
        done = subprocess.run(
            line, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60
        )
    assert done.returncode == 4
    assert "could not be written to stdout" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["top", "above", "count", "histogram", "select", "ledger"])
def test_help_of_every_command(sordino, command):
    result = sordino(command, "--help")
    assert result.code == 0
    assert result.out.startswith(f"Usage: sordino {command}")


def test_labels_do_not_steer_the_terminal(sordino, orders, tmp_path):
    (tmp_path / "odd.csv").write_text("name\n\x1b[31mred\ntea\n", encoding="utf-8")
    line = (
        "histogram",
        orders,
        "--item",
        "product",
        "--row-is-unit",
        "--epsilon",
        5,
        "--no-ledger",
        "--domain",
        tmp_path / "odd.csv",
    )
    table = sordino(*line, "--format", "table", "--details").out
    assert "\x1b" not in table
    assert "\\x1b[31mred" in table
    assert [row["item"] for row in sordino(*line).json["rows"]] == ["\x1b[31mred", "tea"]


def test_of_an_assumed_domain_that_is_too_small_all_labels_are_listed(top):
    """More of it: tests/cli/test_no_labels.py."""
    result = top("--assume-public", domain=None, domain_column=None, k=5)
    assert (result.code, {row["item"] for row in result.json["rows"]}) == (
        0,
        {"tea", "rice", "salt", "unlisted"},
    )


@pytest.mark.parametrize("warnings", ["default", "error"])
@pytest.mark.sample(4)
def test_a_closed_stdout_is_refused_before_anything(orders, warnings, monkeypatch):
    monkeypatch.setenv("PYTHONWARNINGS", warnings)
    command = Path(sys.executable).with_name("sordino")
    line = f"'{command}' count '{orders}' --row-is-unit --epsilon 1 --no-ledger >&-"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (
        2,
        "Error: stdout must be open: it takes the release.\n",
    )
    silent = subprocess.run(
        ["bash", "-c", f"'{command}' count none.csv --row-is-unit --epsilon 1 --no-ledger 2>&-"],
        check=False,
        timeout=60,
    )
    assert silent.returncode == 4


def test_arguments_that_are_no_text(orders):
    command = str(Path(sys.executable).with_name("sordino"))
    for option in (b"--where", b"--null"):
        line = [
            command.encode(),
            b"count",
            bytes(orders),
            b"--row-is-unit",
            b"--epsilon",
            b"1",
            option,
            b"v = '\xff'",
        ]
        done = subprocess.run(line, capture_output=True, check=False, timeout=60)
        assert done.returncode == 2
        assert b"Arguments must be text" in done.stderr


def test_the_demo_shows_what_the_command_prints(top, account):
    page = Path(__file__).parents[2] / "docs" / "tutorials" / "flights-from-new-york.md"
    blocks = page.read_text(encoding="utf-8").split("```")
    block = next(part for part in blocks if part.startswith("text\nrank"))
    shown = block.removeprefix("text\n").splitlines()
    printed = top("--format", "table", *account, k=3).out.splitlines()
    # Of so few people some have nothing that is told from 0.
    assert [*shown[0].split(), "too_few"] == printed[0].split()

    # What a line is about stands before its colon; how many rows there are differs.
    def begin(lines):
        return [re.split(":| with |, by ", line)[0] for line in lines]

    assert len(printed) == 1 + 3 + 3
    assert begin(shown[-3:]) == begin(printed[-3:])
    assert len(shown[1].split()) + 1 == len(printed[1].split())
