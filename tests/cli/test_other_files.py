"""The command over files that strangers have: what they hold, however they are handed over, is the same release."""

from __future__ import annotations

import gzip
import json

import pytest

import sordino as sd
from support.text_files import PACKERS
from support.workbooks import write_table

FREE = ("--epsilon", "1000", "--seed", "7", "--synthetic", "--yes-i-mean-it", "--format", "json")
LINES = [(f"c{n}", n % 7, "2024" if n % 3 else "2023") for n in range(200)]
CSV = "customer,price\n" + "".join(f"{customer},{price}\n" for customer, price, _ in LINES)
OBJECTS = "".join(
    json.dumps({"customer": customer, "price": price}) + "\n" for customer, price, _ in LINES
)


def sources(folder):
    """Write the same rows in every way, and return the name of each with the options that it needs."""
    typed = ("--type", "customer=text", "--type", "price=integer")
    (folder / "plain.csv").write_text(CSV)
    (folder / "lines.jsonl").write_text(OBJECTS)
    made = {"plain.csv": (), "lines.jsonl": typed}
    for suffix, pack in PACKERS.items():
        (folder / f"x.csv{suffix}").write_bytes(pack(CSV.encode()))
        (folder / f"x.ndjson{suffix}").write_bytes(pack(OBJECTS.encode()))
        made |= {f"x.csv{suffix}": (), f"x.ndjson{suffix}": typed}
    for year in ("2023", "2024"):
        part = folder / "parts" / f"year={year}"
        part.mkdir(parents=True)
        rows = "".join(f"{customer},{price}\n" for customer, price, when in LINES if when == year)
        (part / "0.csv.gz").write_bytes(gzip.compress(f"customer,price\n{rows}".encode()))
    (folder / "parts" / "_SUCCESS").write_bytes(b"")
    write_table(
        folder / "book.xlsx",
        [("customer", "price"), *((who, price) for who, price, _ in LINES)],
        sheet="Sales",
    )
    made[f"excel:{folder / 'book.xlsx'}#Sales"] = ()
    return made | {"parts": ()}


def test_the_same_rows_are_the_same_release(sordino, tmp_path):
    seen = {}
    for name, options in sources(tmp_path).items():
        done = sordino(
            "sum", name if name.startswith("excel:") else tmp_path / name, "--user", "customer", "--max-rows", 1, "--column", "price", "--lower", 0,
            "--cap", 100, *options, *FREE,
        )  # fmt: skip
        assert (done.code, done.err) == (0, "")
        seen[name] = done.json["rows"][0]["estimate"]
    wanted = sum(price for _, price, _ in LINES)
    assert all(abs(estimate - wanted) < 2 for estimate in seen.values()), seen


def test_folders_are_items_and_conditions(sordino, tmp_path):
    sources(tmp_path)
    done = sordino(
        "histogram",
        tmp_path / "parts",
        "--item",
        "year",
        "--user",
        "customer",
        "--domain-range",
        "2022:2025",
        *FREE,
    )
    counts = [sum(when == year for *_, when in LINES) for year in ("2022", "2023", "2024")]
    assert [round(row["estimate"]) for row in done.json["rows"]] == counts
    done = sordino(
        "count", tmp_path / "parts", "--row-is-unit", "--where", "year > 2023", "--type", "year=integer", *FREE
    )  # fmt: skip
    assert round(done.json["rows"][0]["estimate"]) == counts[2]


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("book.xlsx", 4, "excel:FILE#SHEET"),
        ("table.json", 4, "one object on each line"),
        ("plain.csv.gz", 4, "it is no gzip file, as its name says"),
        ("empty", 4, "hold at least one"),
        ("lines.jsonl", 2, "--type COL=TYPE"),
    ],
)
def test_what_is_not_read_costs_nothing(sordino, tmp_path, name, code, said):
    for file in ("book.xlsx", "table.json", "plain.csv.gz", "lines.jsonl"):
        (tmp_path / file).write_text(OBJECTS)
    (tmp_path / "empty").mkdir()
    ledger = ("--ledger", tmp_path / "b.db", "--account", "a")
    made = sordino(
        "ledger", "create", *ledger, "--epsilon", 3, "--adjacency", "add-remove", "--unit", "customer",
        "--source", tmp_path / name, "--not-yet",
    )  # fmt: skip
    assert made.code == 0
    done = sordino(
        "count", tmp_path / name, "--user", "customer", "--units", "--epsilon", 1, *ledger
    )
    assert (done.code, done.out) == (code, "")
    assert said in done.err
    assert sordino("ledger", "show", *ledger, "--format", "json").json["remaining"] == 3


def test_a_name_that_tells_nothing_is_told_once(sordino, tmp_path, monkeypatch):
    """In a command, a declaration and a study; the account takes the file as CSV, and as no other."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "adult.data").write_text("customer,item\n" + "a,tea\nb,rice\n" * 50)
    new = ("declare", "adult.data", "--person", "customer", "--epsilon", "2")
    refused = sordino(*new)
    assert (refused.code, sordino(*new, "--format-in", "csv").code) == (4, 0)
    assert "I do not know the ending .data. If it is CSV: --format-in csv" in refused.err
    ask = ("count", "adult", "--units", "--epsilon", "1", "--format", "json")
    assert sordino(*ask).code == 0
    other = sordino(*ask, "--format-in", "jsonl", "--type", "customer=text")
    assert (other.code, other.out) == (5, "")
    assert sordino("init", "adult.data", "--format-in", "csv").code == 0
    assert 'format_in = "csv"' in (tmp_path / "study.toml").read_text()
    with sd.open("adult") as shop:
        assert shop.count_distinct_units(epsilon=0.5).estimate


def test_an_account_about_lines_of_json_looks_for_no_names(sordino, tmp_path):
    (tmp_path / "x.jsonl").write_text(OBJECTS)
    rest = (
        "--epsilon",
        3,
        "--adjacency",
        "add-remove",
        "--unit",
        "customer",
        "--source",
        tmp_path / "x.jsonl",
    )
    assert (
        sordino("ledger", "create", "--ledger", tmp_path / "b.db", "--account", "a", *rest).code
        == 0
    )
    gone = (
        "--epsilon",
        3,
        "--adjacency",
        "add-remove",
        "--unit",
        "customer",
        "--source",
        tmp_path / "y.jsonl",
    )
    assert (
        sordino("ledger", "create", "--ledger", tmp_path / "b.db", "--account", "c", *gone).code
        == 4
    )


def test_a_damaged_file_says_one_sentence_and_keeps_the_charge(sordino, tmp_path):
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(CSV.encode())[:-3])
    ledger = ("--ledger", tmp_path / "b.db", "--account", "a")
    rest = (
        "--epsilon",
        3,
        "--adjacency",
        "add-remove",
        "--unit",
        "customer",
        "--source",
        tmp_path / "x.csv.gz",
    )
    assert sordino("ledger", "create", *ledger, *rest).code == 0
    done = sordino(
        "count", tmp_path / "x.csv.gz", "--user", "customer", "--units", "--epsilon", 1, *ledger
    )
    assert (done.code, done.out) == (4, "")
    assert done.err.startswith(
        "Error: The data engine could not finish this release. The charge stays;"
    )
    assert sordino("ledger", "show", *ledger, "--format", "json").json["remaining"] == 2


def test_reports_of_plink_may_be_compressed(sordino, tmp_path):
    lines = " CHR SNP BP A1 A2 T U OR\n" + "".join(
        f" 1 rs{n} {n} A C {20 + n} {40 - n} 1\n" for n in range(20)
    )
    (tmp_path / "x.tdt.gz").write_bytes(gzip.compress(lines.encode()))
    done = sordino(
        "select", tmp_path / "x.tdt.gz", "--statistic", "tdt", "--families", 100, "--force", *FREE
    )
    assert done.code == 0, done.err
    assert done.json["rows"][0]["label"].startswith("rs")


def test_an_account_about_a_sheet_knows_its_columns(sordino, tmp_path):
    source = sources(tmp_path) and f"excel:{tmp_path / 'book.xlsx'}#Sales"
    ledger = ("--ledger", tmp_path / "b.db", "--account", "a")
    rest = ("--epsilon", 3, "--adjacency", "add-remove", "--source", source)
    assert sordino("ledger", "create", *ledger, *rest, "--unit", "custmer").code == 2
    assert sordino("ledger", "create", *ledger, *rest, "--unit", "customer").code == 0
    done = sordino("count", source, "--user", "customer", "--units", "--epsilon", 1, *ledger)
    assert done.code == 0
    other = sordino("count", f"excel:{tmp_path / 'book.xlsx'}#Sale", "--user", "customer", "--units", "--epsilon", 1, *ledger)  # fmt: skip
    assert (other.code, other.out) == (4, "")
    assert "Did you mean 'Sales'" in other.err
