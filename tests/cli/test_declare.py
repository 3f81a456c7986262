"""A table is declared once, from the names of its columns alone, and then it is asked by its name."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from datetime import date, timedelta
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import duckdb
import psycopg
import pytest

import sordino as sd
from support.postgres import own_server
from support.workbooks import write_table

HEADER = "customer_id,product,amount"


def write_purchases(folder, *, header=HEADER, people=600, name="purchases.csv"):
    folder.mkdir(exist_ok=True)
    rows = [f"c{n},{('tea', 'rice', 'salt')[n % 3]},{n % 40}.5" for n in range(people)]
    (folder / name).write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    (folder / "products.csv").write_text("product\ntea\nrice\nsalt\nsaffron\n", encoding="utf-8")
    return folder


@pytest.fixture
def shop(tmp_path, monkeypatch):
    folder = write_purchases(tmp_path / "shop")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def declare(sordino, shop):
    def call(*options, source="purchases.csv", person="customer_id", epsilon=2):
        whom = ("--person", person) if person else ()
        money = ("--epsilon", epsilon) if epsilon else ()
        return sordino("declare", source, *whom, *money, *options)

    return call


LABELS = ("--labels", "product=products.csv")
TOP = ("--item", "product", "-k", 2, "--epsilon", 0.5)


def spent(folder, account="purchases", file="budget.db"):
    return float(sd.Ledger.open(folder / file, account=account).statement().spent)


def assert_refused(done, *words, code=2):
    assert (done.code, done.out) == (code, ""), (done.code, done.out, done.err)
    assert done.err.count("\n") == 1, done.err
    for word in words:
        assert word in done.err


# ---- the way of somebody new ---------------------------------------------------------------------


def test_two_commands_lead_from_a_table_to_a_release(declare, sordino, shop):
    made = declare(*LABELS)
    assert (made.code, made.err) == (0, "")
    assert len(made.out.splitlines()) <= 4
    assert "about 40 releases at 0.05" in made.out
    top = sordino("top", "purchases", *TOP)
    assert (top.code, top.err) == (0, ""), top.err
    assert {row["item"] for row in top.json["rows"]} <= {"tea", "rice", "salt", "saffron"}
    assert (top.json["account"], top.json["epsilon"]) == ("purchases", 0.5)
    assert spent(shop) == 0.5
    # People are called as the declaration calls them; its account says what is left of it.
    assert top.json["called"] == "customer"
    lines = sordino("top", "purchases", *TOP, "--format", "table").out.splitlines()[-2:]
    assert lines[0].startswith("Counts customers, by product. Not counted: ")
    share = "Spent: epsilon 0.5 of 2 (25% of account purchases). About 2 more like this one."
    assert lines[1] == f"{share} More: --details."


@pytest.mark.parametrize("options", [(), LABELS])
def test_the_command_that_it_says_is_next_runs_as_it_stands(declare, sordino, shop, options):
    for place in ((), ("--to", "tables/here.toml", "--ledger", "tables/b.db")):
        if place:
            (shop / "tables").mkdir()
        said = declare(*options, *place, *(("--name", "other", "--second-budget") if place else ()))
        assert said.code == 0, said.err
        following = shlex.split(said.out.splitlines()[-1].partition("sordino ")[2])
        done = sordino(*following)
        assert done.code == 0, (following, done.err)


def test_the_next_command_names_the_declaration_where_it_would_not_be_found(
    sordino, tmp_path, monkeypatch
):
    write_purchases(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    said = sordino("declare", "data/purchases.csv", "--person", "customer_id", "--epsilon", 1)
    assert said.code == 0, said.err
    assert (tmp_path / "data" / "sordino.toml").exists()
    done = sordino(*shlex.split(said.out.splitlines()[-1].partition("sordino ")[2]))
    assert (done.code, done.json["account"]) == (0, "purchases")


def test_a_declaration_is_found_from_a_folder_below(declare, sordino, shop, monkeypatch):
    assert declare(*LABELS).code == 0
    (shop / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(shop / "a" / "b")
    assert sordino("top", "purchases", *TOP).code == 0
    assert spent(shop) == 0.5
    assert not (shop / "a" / "b" / "budget.db").exists()


def test_rows_can_be_who_is_protected(declare, sordino, shop):
    assert declare("--row-is-unit", person=None).code == 0
    done = sordino("count", "purchases", "--epsilon", 0.5)
    assert (done.code, done.json["unit"]) == (0, "each row"), done.err


# ---- what the file holds -------------------------------------------------------------------------


def test_the_file_follows_from_names_of_columns_alone(sordino, tmp_path, monkeypatch):
    texts, printed = [], []
    for number, (people, cell) in enumerate([(600, ""), (3, "\x00 ; secret ; 31.12.2024")]):
        folder = write_purchases(tmp_path / f"of {number}", people=people)
        with (folder / "purchases.csv").open("a", encoding="utf-8") as file:
            file.write(cell)
        monkeypatch.chdir(folder)
        done = sordino("declare", "purchases.csv", "--person", "customer_id", "--epsilon", 2)
        assert (done.code, done.err) == (0, "")
        texts.append((folder / "sordino.toml").read_bytes())
        printed.append(done.out)
    assert texts[0] == texts[1]
    assert printed[0] == printed[1]


def test_what_the_file_says(declare, shop):
    assert declare("--delta", "1e-6", "--delimiter", ",", *LABELS).code == 0
    text = (shop / "sordino.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)["table"]["purchases"]
    assert table == {
        "source": "purchases.csv",
        "person": "customer_id",
        "called": "customer",
        "adjacency": "add-remove",
        "account": {"ledger": "budget.db", "name": "purchases"},
        "labels": {"product": "products.csv"},
    }
    for comment in ("# delimiter =", "# null =", "# types.amount =", "# labels.amount ="):
        assert comment in text
    # Twin: a column of countries was offered as "decimal(9,2)".
    assert '# types.amount = "text"' in text
    # A person is no label, and the marks can be taken off.
    assert "labels.customer_id" not in text
    bare = re.sub(r"^# (?=[\w.]+ = )", "", text, flags=re.MULTILINE)
    assert tomllib.loads(bare)["table"]["purchases"]["types"].keys() == {"product", "amount"}


def test_names_of_columns_are_quoted(sordino, tmp_path, monkeypatch):
    folder = write_purchases(tmp_path / "x", header='id,"a ""b"" = [c]\\",größe.x')
    monkeypatch.chdir(folder)
    done = sordino("declare", "purchases.csv", "--person", "id", "--epsilon", 2)
    assert done.code == 0, done.err
    text = (folder / "sordino.toml").read_text(encoding="utf-8")
    bare = tomllib.loads(re.sub(r"^# (?=types)", "", text, flags=re.MULTILINE))
    assert set(bare["table"]["purchases"]["types"]) == {'a "b" = [c]\\', "größe.x"}


def test_a_header_behind_skipped_lines_may_be_a_row_and_is_not_shown(declare, shop):
    table = shop / "purchases.csv"
    table.write_text("note\n" + table.read_text(encoding="utf-8"), encoding="utf-8")
    done = declare("--skip-lines", 1)
    assert done.code == 0, done.err
    text = (shop / "sordino.toml").read_text(encoding="utf-8")
    assert "skip_lines = 1" in text
    assert "amount" not in text + done.out
    assert "product" not in text + done.out


def test_how_the_table_is_written_goes_along(sordino, shop):
    (shop / "eu.csv").write_text("kunde;betrag\na;1,5\nb;2,5\nc;NA\n", encoding="utf-8")
    form = ("--delimiter", ";", "--decimal", ",", "--type", "betrag=double", "--null", "NA")
    made = sordino("declare", "eu.csv", "--person", "kunde", "--epsilon", 20, *form)
    assert made.code == 0, made.err
    table = tomllib.loads((shop / "sordino.toml").read_text(encoding="utf-8"))["table"]["eu"]
    assert (table["delimiter"], table["decimal"]) == (";", ",")
    assert (table["types"], table["null"]) == ({"betrag": "double"}, "NA")
    figure = ("--column", "betrag", "--lower", 0, "--cap", 10, "--max-rows", 1)
    assert sordino("sum", "eu", *figure, "--epsilon", 9).code == 0


def test_a_second_table_is_appended(declare, sordino, shop):
    assert declare().code == 0
    before = (shop / "sordino.toml").read_text(encoding="utf-8")
    (shop / "visits.csv").write_text("guest_id,room\na,1\n", encoding="utf-8")
    made = sordino("declare", "visits.csv", "--person", "guest_id", "--epsilon", 1)
    assert made.code == 0, made.err
    after = (shop / "sordino.toml").read_text(encoding="utf-8")
    assert after.startswith(before)
    assert set(tomllib.loads(after)["table"]) == {"purchases", "visits"}
    assert sd.Ledger.accounts(shop / "budget.db") == ("purchases", "visits")


# ---- the account ---------------------------------------------------------------------------------


def test_an_account_that_fits_is_found(declare, sordino, shop):
    assert declare().code == 0
    assert sordino("count", "purchases", "--units", "--epsilon", 0.5).code == 0
    (shop / "sordino.toml").unlink()
    again = declare()
    assert again.code == 0, again.err
    assert "about 30 releases at 0.05" in again.out
    assert spent(shop) == 0.5
    (shop / "sordino.toml").unlink()
    # Who has the account need not say its budget once more.
    assert declare(epsilon=None).code == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": 3}, ("epsilon 2", "epsilon 3")),
        ({"person": "product"}, ('column "customer_id"', 'column "product"')),
        ({"options": ("--delta", "1e-6")}, ("delta 0", "delta 1e-06")),
        ({"options": ("--adjacency", "replace-one")}, ("add-remove", "replace-one")),
    ],
)
def test_an_account_that_does_not_fit_is_told_before_anything_is_written(
    declare, shop, change, words
):
    assert declare().code == 0
    (shop / "sordino.toml").unlink()
    options = change.pop("options", ())
    assert_refused(declare(*options, **change), "purchases", *words, code=5)
    there = {path.name for path in shop.iterdir() if not path.name.startswith("budget.db")}
    assert there == {"products.csv", "purchases.csv"}
    assert sd.Ledger.accounts(shop / "budget.db") == ("purchases",)


def test_one_table_has_one_account_unless_that_is_meant(declare, sordino, shop):
    assert declare().code == 0
    (shop / "link.csv").symlink_to(shop / "purchases.csv")
    for source in ("purchases.csv", "link.csv", str(shop / "purchases.csv")):
        refused = declare("--name", "again", source=source)
        assert_refused(refused, "purchases", "--second-budget")
    assert sd.Ledger.accounts(shop / "budget.db") == ("purchases",)
    # Also in another file of declarations, which knows nothing of the first one.
    assert_refused(declare("--name", "again", "--to", "other.toml"), "--account purchases", code=5)
    assert not (shop / "other.toml").exists()
    assert declare("--name", "again", "--second-budget").code == 0
    assert sd.Ledger.accounts(shop / "budget.db") == ("again", "purchases")


def test_an_account_that_was_made_for_the_path_goes_on_paying(declare, sordino, shop):
    ledger = ("--ledger", "budget.db", "--account", "shop")
    made = sordino(
        "ledger", "create", *ledger, "--epsilon", 2, "--unit", "customer_id",
        "--source", "purchases.csv",
    )  # fmt: skip
    assert made.code == 0
    assert_refused(declare(), "'shop'", "--account shop", code=5)
    assert declare("--account", "shop").code == 0
    done = sordino("count", "purchases", "--units", "--epsilon", 0.5)
    assert (done.code, spent(shop, "shop")) == (0, 0.5), done.err


def test_an_account_of_another_table_does_not_pay(declare, sordino, shop):
    assert declare().code == 0
    (shop / "visits.csv").write_text("customer_id,room\na,1\n", encoding="utf-8")
    refused = sordino("declare", "visits.csv", "--person", "customer_id", "--account", "purchases")
    assert_refused(refused, "name:purchases", "name:visits", code=5)
    assert sordino(
        "declare", "visits.csv", "--person", "customer_id", "--epsilon", 1
    ).code == 0  # fmt: skip
    for source in ("visits", "visits.csv", "purchases.csv"):
        ledger = ("--ledger", "budget.db", "--account", "purchases")
        done = sordino("count", source, "--units", "--user", "customer_id", "--epsilon", 1, *ledger)
        assert_refused(done, "name:purchases", code=5)
    assert spent(shop) == 0


def test_the_account_travels_with_the_table(declare, sordino, shop, tmp_path, monkeypatch):
    assert declare(*LABELS).code == 0
    assert sordino("top", "purchases", *TOP).code == 0
    moved = tmp_path / "elsewhere"
    shop.rename(moved)
    monkeypatch.chdir(moved)
    assert sordino("top", "purchases", *TOP).code == 0
    # Nor does the name of the file decide.
    (moved / "purchases.csv").rename(moved / "new.csv")
    text = (moved / "sordino.toml").read_text(encoding="utf-8")
    (moved / "sordino.toml").write_text(
        text.replace('source = "purchases.csv"', 'source = "new.csv"'), encoding="utf-8"
    )
    assert sordino("top", "purchases", *TOP).code == 0
    assert spent(moved) == 1.5
    assert sd.Ledger.open(moved / "budget.db", account="purchases").verify().sound


# ---- days ----------------------------------------------------------------------------------------


def test_the_file_of_a_day_is_the_same_account(sordino, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yesterday = date.today() - timedelta(days=1)  # noqa: DTZ011
    for day in ("2026-11-27", yesterday.isoformat()):
        write_purchases(tmp_path, name=f"sales-{day}.csv")
    whom = ("--person", "customer_id", "--epsilon", 2, "--name", "sales")
    assert_refused(sordino("declare", "sales-{date}.csv", *whom), "--date")
    made = sordino("declare", "sales-{date}.csv", *whom, "--date", "2026-11-27")
    assert made.code == 0, made.err
    count = ("count", "sales", "--units", "--epsilon", 0.5)
    for day in ("2026-11-27", "today-1"):
        done = sordino(*count, "--date", day)
        assert (done.code, done.json["account"]) == (0, "sales"), done.err
    assert spent(tmp_path, "sales") == 1
    assert_refused(sordino(*count), "--date", "{date}")
    assert_refused(sordino(*count, "--date", "27.11.2026"), "--date must be", "27.11.2026")
    assert_refused(sordino(*count, "--date", "2026-02-30"), "--date must be")
    assert_refused(sordino(*count, "--date", "2020-01-01"), "sales-2020-01-01.csv", code=4)
    assert spent(tmp_path, "sales") == 1


def test_a_day_is_for_a_path_that_has_one(declare, sordino, shop):
    assert declare().code == 0
    count = ("--units", "--epsilon", 0.5, "--date", "today")
    assert_refused(sordino("count", "purchases", *count), "--date", "{date}")
    assert_refused(sordino("count", "purchases.csv", *count), "--date", "declared")


# ---- what is said on the command line wins -------------------------------------------------------


def test_what_is_said_on_the_command_line_wins(declare, sordino, shop):
    assert declare("--delta", "1e-6", *LABELS).code == 0
    done = sordino("top", "purchases", *TOP, "--row-is-unit", "--no-ledger")
    assert (done.code, done.json["unit"], done.json["account"]) == (0, "each row", None)
    (shop / "few.csv").write_text("product\ntea\nrice\n", encoding="utf-8")
    done = sordino("top", "purchases", *TOP, "--domain", "few.csv", "--no-ledger")
    assert {row["item"] for row in done.json["rows"]} == {"tea", "rice"}
    done = sordino("top", "purchases", *TOP, "--synthetic", "--seed", 3)
    assert (done.code, done.json["simulated"]) == (0, True), done.err
    done = sordino("top", "purchases", *TOP, "--dry-run")
    assert (done.code, done.json["account"]) == (0, "purchases"), done.err
    assert spent(shop) == 0


def test_the_old_way_is_unchanged(declare, sordino, shop):
    assert declare(*LABELS).code == 0
    asked = ("top", "purchases.csv", *TOP)
    assert_refused(sordino(*asked), "Say who pays")
    done = sordino(*asked, "--user", "customer_id", "--domain", "products.csv", "--no-ledger")
    assert (done.code, done.json["account"]) == (0, None)


def test_a_release_can_be_measured_again_by_its_name(declare, sordino, shop):
    assert declare(*LABELS).code == 0
    kept = sordino("count", "purchases", "--units", "--epsilon", 0.5, "--keep")
    table = ("--epsilon", 0.5, "--format", "table")
    done = sordino("remeasure", "purchases", "--release", kept.json["id"], *table)
    assert done.code == 0, done.err
    assert "Counts customers." in done.out
    assert spent(shop) == 1


def test_all_that_a_file_can_say_of_a_csv_file(sordino, shop):
    text = "made 1999\na\t'x\t1,5\textra\nb\t'y\t2,5\nc\t'x\tNA\n"
    (shop / "odd.tsv").write_text(text, encoding="cp1252")
    form = ("--delimiter", "\\t", "--quote", "none", "--no-header", "--columns", 'who,"a,b",v')
    more = ("--skip-lines", 1, "--ragged", "--encoding", "cp1252", "--decimal", ",", "--null", "NA")
    made = sordino(
        "declare", "odd.tsv", "--person", "who", "--epsilon", 50, *form, *more,
        "--type", "v=decimal(9,2)", "--max-rows", 3,
    )  # fmt: skip
    assert made.code == 0, made.err
    text = (shop / "sordino.toml").read_text(encoding="utf-8")
    limits = 'memory_limit = "1GB"\ntemp_limit = 600000000\ncalled ='
    (shop / "sordino.toml").write_text(text.replace("called =", limits), encoding="utf-8")
    figure = ("--column", "v", "--lower", 0, "--cap", 10, "--epsilon", 9)
    done = sordino("sum", "odd", *figure, "--dry-run")
    assert done.code == 0, done.err
    done = sordino("sum", "odd", *figure, "--synthetic", "--seed", 1)
    typed = ("--user", "who", *form, *more, "--type", "v=decimal(9,2)", "--max-rows", 3)
    plain = sordino("sum", "odd.tsv", *figure, *typed, "--synthetic", "--seed", 1)
    assert done.json["rows"] == plain.json["rows"]
    # A bound that was declared does not stand against what has no use for one.
    person = ("--per-person", "sum", "--no-ledger")
    assert sordino("mean", "odd", *figure, *person).code == 0


def test_reports_of_rows_by_a_name(sordino, shop):
    report = ("--column", "amount", "--lower", 0, "--upper", 40, "--epsilon", 0.5)
    for name, adjacency, code in (("a", "add-remove", 5), ("b", "replace-one", 0)):
        made = sordino(
            "declare", "purchases.csv", "--person", "customer_id", "--epsilon", 2, "--max-rows", 1,
            "--adjacency", adjacency, "--name", name, "--second-budget",
        )  # fmt: skip
        assert made.code == 0, made.err
        done = sordino("randomize", name, *report)
        assert done.code == code, done.err
        assert ("'replace-one'" in done.err) == bool(code)
    assert done.out.count("\n") == 601


@pytest.mark.parametrize("kind", ["parquet", "duckdb", "excel"])
def test_tables_of_other_kinds(sordino, shop, monkeypatch, kind):
    (shop / "data").mkdir()
    table = "SELECT * FROM read_csv('purchases.csv')"
    if kind == "parquet":
        source, beside = "data/purchases.parquet", "purchases.parquet"
        duckdb.sql(f"COPY ({table}) TO '{source}'")
    elif kind == "duckdb":
        source, beside = "duckdb:data/shop.duckdb#purchases", "duckdb:shop.duckdb#purchases"
        with duckdb.connect("data/shop.duckdb") as database:
            database.sql(f"CREATE TABLE purchases AS {table}")
    else:
        source, beside = "excel:data/shop.xlsx#purchases", "excel:shop.xlsx#purchases"
        rows = [
            HEADER.split(","),
            *([str(one) for one in row] for row in duckdb.sql(table).fetchall()),
        ]
        write_table("data/shop.xlsx", rows, sheet="purchases")
    made = sordino("declare", source, "--person", "customer_id", "--epsilon", 2)
    assert made.code == 0, made.err
    text = (shop / "data" / "sordino.toml").read_text(encoding="utf-8")
    assert tomllib.loads(text)["table"]["purchases"]["source"] == beside
    assert ("# types." in text) == (kind == "excel")
    again = sordino("declare", source, "--person", "customer_id", "--epsilon", 2, "--name", "x")
    assert_refused(again, "--second-budget")
    monkeypatch.chdir(shop / "data")
    done = sordino("count", "purchases", "--units", "--epsilon", 1)
    assert (done.code, done.json["account"]) == (0, "purchases"), done.err


@pytest.fixture
def server():
    cluster = own_server()
    with psycopg.connect(cluster.url(), autocommit=True) as connection:
        # What a run that was killed has left behind.
        connection.execute("DROP TABLE IF EXISTS public.declared")
        connection.execute("DROP DATABASE IF EXISTS declared_ledgers WITH (FORCE)")
        connection.execute("CREATE TABLE public.declared (customer_id text, product text)")
        connection.execute(
            "INSERT INTO public.declared SELECT n, 'tea' FROM generate_series(1, 300) n"
        )
        connection.execute("CREATE DATABASE declared_ledgers")
        yield cluster.url()
        connection.execute("DROP TABLE public.declared")
        connection.execute("DROP DATABASE declared_ledgers WITH (FORCE)")


def test_a_table_and_a_ledger_of_a_server(sordino, shop, server, monkeypatch):
    there = urlsplit(server)
    ledger = urlunsplit(there._replace(path="/declared_ledgers"))
    whom = ("--person", "customer_id", "--epsilon", 2, "--name", "orders", "--ledger", ledger)
    made = sordino("declare", f"{server}#declared", *whom)
    assert (made.code, made.err) == (0, ""), made.err
    text = (shop / "sordino.toml").read_text(encoding="utf-8")
    # Neither a user nor a password is written down: the environment has them.
    assert "@" not in re.sub(r"^#.*", "", text, flags=re.MULTILINE)
    assert "${PASSWORD}" in text
    assert "Say in the file who asks." in made.out
    monkeypatch.setenv("WHO", there.netloc.rpartition("@")[0])
    (shop / "sordino.toml").write_text(
        re.sub("postgresql://", "postgresql://${WHO}@", text), encoding="utf-8"
    )
    done = sordino("count", "orders", "--units", "--epsilon", 0.5)
    assert (done.code, done.json["account"]) == (0, "orders"), done.err
    # Monitors are told no password; and which one opened the table says nothing of what was asked.
    user = there.netloc.rpartition("@")[0].partition(":")[0]
    asked = ("count", "orders", "--units", "--epsilon", 0.5, "--run-id", "monday")
    monkeypatch.setenv("WHO", f"{user}:s3cr3t-one")
    first = sordino(*asked)
    metrics = sordino("ledger", "show", "orders", "--format", "prometheus").out
    assert 'account="orders"' in metrics
    assert "s3cr3t" not in metrics
    monkeypatch.setenv("WHO", f"{user}:s3cr3t-two")
    assert (first.code, sordino(*asked).out) == (0, first.out), first.err
    # The server says which table it is, however it is called.
    again = sordino(
        "declare", f"{server}#public.declared", *whom[:4], "--name", "x", "--ledger", ledger,
        "--to", "other.toml",
    )  # fmt: skip
    assert_refused(again, "'orders'", "--second-budget", code=5)
    monkeypatch.delenv("WHO")
    assert_refused(sordino("count", "orders", "--units", "--epsilon", 0.5), "WHO", "line ")


# ---- bad input -----------------------------------------------------------------------------------


def edit(shop, old, new):
    file = shop / "sordino.toml"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


BROKEN = {
    "an unknown key": ('person = "', 'preson = "', ("preson", "Did you mean 'person'?", "line ")),
    "nobody is protected": ('person = "customer_id"\n', "", ("person", "row = true")),
    "no account": ("account = {", "# account = {", ("account",)),
    "an account without a name": (', name = "purchases"}', "}", ("account.name",)),
    "an unknown key of the account": (', name = "purch', ', nmae = "purch', ("'name'",)),
    "no source": ('source = "purchases.csv"', "", ("source",)),
    "two tables of one name": ("[table.purchases]", "[table.purchases]\n[table.purchases]", ("twice",)),
    "an unknown table": ("[table.purchases]", "[tabel.purchases]", ("tabel", "Did you mean 'table'?")),
    "a name that is a path": ("[table.purchases]", '[table.purchases]\n[table."a/b"]', ("a/b",)),
    "no toml": ("[table.purchases]", "[table.purchases", ("TOML", "line ")),
    "a format that is none": ("# delimiter", 'delimiter = "ab"\n# x', ("delimiter", "line ")),
    "labels that are no file": ("# labels.", "labels.product = 3\n# labels.", ("labels.product",)),
    "a bound that is none": ('called = "', 'max_rows = 0\ncalled = "', ("max_rows",)),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_is_wrong_is_refused_with_its_line(declare, sordino, shop, name):
    assert declare().code == 0
    old, new, words = BROKEN[name]
    edit(shop, old, new)
    done = sordino("count", "purchases", "--units", "--epsilon", 0.5)
    assert_refused(done, "sordino.toml", *words)
    assert spent(shop) == 0
    # Nor is anything appended to it.
    before = (shop / "sordino.toml").read_bytes()
    (shop / "visits.csv").write_text("customer_id,room\na,1\n", encoding="utf-8")
    assert_refused(declare(source="visits.csv", epsilon=1), "sordino.toml", *words)
    assert (shop / "sordino.toml").read_bytes() == before
    assert sd.Ledger.accounts(shop / "budget.db") == ("purchases",)


def test_a_column_that_the_table_has_lost(declare, sordino, shop):
    assert declare(*LABELS).code == 0
    write_purchases(shop, header="customer,product,amount")
    done = sordino("top", "purchases", *TOP)
    assert_refused(done, "sordino.toml, line ", "'customer_id'", "Did you mean 'customer'?")
    write_purchases(shop, header="customer_id,produkt,amount")
    done = sordino("count", "purchases", "--units", "--epsilon", 0.5)
    assert_refused(done, "sordino.toml, line ", "'product'", "Did you mean 'produkt'?")
    write_purchases(shop)
    edit(shop, "# types.amount", 'types.amuont = "integer"\n# types.amount')
    done = sordino("count", "purchases", "--units", "--epsilon", 0.5)
    assert_refused(done, "'amuont'")
    assert spent(shop) == 0


def test_a_table_that_has_left(declare, sordino, shop):
    assert declare().code == 0
    (shop / "purchases.csv").rename(shop / "gone.csv")
    done = sordino("count", "purchases", "--units", "--epsilon", 0.5)
    assert_refused(done, "sordino.toml, line ", "purchases.csv", code=4)
    assert spent(shop) == 0


def test_a_ledger_of_somebody_else(declare, sordino, shop):
    assert declare().code == 0
    (shop / "budget.db").unlink()
    done = sordino("count", "purchases", "--units", "--epsilon", 0.5)
    assert_refused(done, "budget.db", code=5)
    assert not (shop / "budget.db").exists()
    theirs = {"unit": "guest", "source": "name:purchases", "adjacency": "add-remove"}
    sd.Ledger.create(shop / "budget.db", account="purchases", budget=sd.Budget(epsilon=9), **theirs)
    done = sordino("count", "purchases", "--units", "--epsilon", 0.5)
    assert_refused(done, 'column "guest"', 'column "customer_id"', code=5)
    assert spent(shop) == 0


def test_a_name_that_is_not_declared(declare, sordino, shop):
    assert declare().code == 0
    count = ("--units", "--epsilon", 0.5)
    assert_refused(
        sordino("count", "purchase", *count), "Did you mean 'purchases'?", "sordino.toml"
    )
    done = sordino("count", "zebra", *count)
    assert_refused(done, "'zebra'", "'purchases'")
    done = sordino("count", "purchases", *count, "--declaration", "none.toml")
    assert_refused(done, "none.toml")
    done = sordino("count", "purchases.csv", *count, "--declaration", "sordino.toml")
    assert_refused(done, "'purchases.csv'", "'purchases'")


def test_a_name_without_any_declaration_is_told_to_be_none(sordino, shop):
    done = sordino("count", "purchases", "--units", "--user", "u", "--epsilon", 1, "--no-ledger")
    assert_refused(done, "there is no sordino.toml here or above. Make one: sordino declare FILE")


def test_labels_that_left_are_told_with_their_line(declare, sordino, shop):
    assert declare(*LABELS).code == 0
    (shop / "products.csv").rename(shop / "gone.csv")
    # Also where nobody asks about that column: what the file says must be so.
    done = sordino("count", "purchases", "--units", "--epsilon", 0.5)
    assert_refused(done, "sordino.toml, line", "labels.product must be a file that is there")
    assert spent(shop) == 0


def test_what_is_a_file_and_a_declared_name_is_refused(declare, sordino, shop):
    assert declare().code == 0
    write_purchases(shop / "purchases", name="part.csv")
    (shop / "purchases" / "products.csv").unlink()
    count = ("--units", "--epsilon", 0.5)
    assert_refused(
        sordino("count", "purchases", *count), "./purchases", "--declaration sordino.toml"
    )
    assert sordino("count", "purchases", *count, "--declaration", "sordino.toml").code == 0
    path = ("count", "./purchases", *count, "--user", "customer_id", "--no-ledger")
    assert sordino(*path).code == 0
    assert spent(shop) == 0.5


def test_a_declaration_that_anybody_could_have_put_there_is_not_used(
    declare, sordino, shop, monkeypatch
):
    assert declare().code == 0
    below = shop / "mine"
    below.mkdir()
    monkeypatch.chdir(below)
    count = ("count", "purchases", "--units", "--epsilon", 0.5)
    shop.chmod(0o1777)
    # What belongs to the root of the machine is as good as one's own.
    if os.getuid() == 0:
        os.chown(shop / "sordino.toml", 12345, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: shop.stat().st_uid + 1)
    assert_refused(sordino(*count), "--declaration", str(shop / "sordino.toml"))
    named = ("--declaration", str(shop / "sordino.toml"))
    assert sordino(*count, *named).code == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"person": "custmer_id"}, ("--person", "Did you mean 'customer_id'?")),
        ({"person": None}, ("--person", "--row-is-unit")),
        ({"epsilon": None}, ("--epsilon",)),
        ({"epsilon": 0}, ()),
        ({"epsilon": 200}, ("--yes-i-mean-it",)),
        ({"more": ("--name", "a/b")}, ("--name",)),
        ({"more": ("--name", "a.csv")}, ("--name",)),
        ({"more": ("--labels", "product")}, ("--labels", "COL=FILE")),
        ({"more": ("--labels", "produkt=products.csv")}, ("--labels", "Did you mean 'product'?")),
        ({"more": ("--labels", "product=none.csv")}, ("--labels", "none.csv")),
        ({"more": ("--to", "none/sordino.toml")}, ("none",)),
        ({"more": ("--called", "")}, ("--called",)),
    ],
)
def test_what_cannot_be_declared(declare, shop, options, words):
    more = options.pop("more", ())
    done = declare(*more, **options)
    assert (done.code, done.out) == (2, ""), (done.out, done.err)
    for word in words:
        assert word in done.err
    assert sorted(path.name for path in shop.iterdir()) == ["products.csv", "purchases.csv"]


def test_the_same_name_twice(declare, shop):
    assert declare().code == 0
    before = (shop / "sordino.toml").read_bytes()
    assert_refused(declare(), "purchases", "--name", "sordino.toml")
    (shop / "visits.csv").write_text("customer_id,room\na,1\n", encoding="utf-8")
    assert_refused(declare("--name", "purchases", source="visits.csv"), "--name")
    assert (shop / "sordino.toml").read_bytes() == before


def test_two_at_once_do_not_lose_a_table(declare, shop):
    (shop / "sordino.toml.part").write_text("", encoding="utf-8")
    assert_refused(declare(), "sordino.toml.part")
    assert not (shop / "budget.db").exists()


def test_lines_of_somebody_else_stay_as_they_are(declare, shop):
    mine = b'\xef\xbb\xbf# mine\r\n[table.old]\r\nsource = "o.csv"\r\nrow = true\r\naccount = '
    mine += b'{ledger = "b.db", name = "o"} # no line end'
    (shop / "sordino.toml").write_bytes(mine)
    (shop / "sordino.toml").chmod(0o640)
    assert declare().code == 0
    assert (shop / "sordino.toml").read_bytes().startswith(mine + b"\n")
    assert (shop / "sordino.toml").stat().st_mode & 0o777 == 0o640
    assert not (shop / "sordino.toml.part").exists()


def test_any_text_can_be_written(declare, sordino, shop):
    odd = 'a\x7f"\\ \u2028 \x9b[2J ä'
    assert declare("--null", odd, "--called", "Käufer'").code == 0
    text = (shop / "sordino.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)["table"]["purchases"]
    assert (table["null"], table["called"]) == (odd, "Käufer'")
    assert sordino("count", "purchases", "--units", "--epsilon", 0.5).code == 0


def test_a_ledger_that_cannot_be_read_gets_no_account(declare, shop):
    (shop / "budget.db").write_text("no ledger", encoding="utf-8")
    assert declare().code == 5
    assert (shop / "budget.db").read_text(encoding="utf-8") == "no ledger"
    assert not (shop / "sordino.toml").exists()


def test_an_account_that_was_converted_is_found_by_what_goes_on_for_it(declare, sordino, shop):
    assert declare().code == 0
    ledger = ("--ledger", "budget.db", "--account", "purchases")
    into = ("--to", "more", "--epsilon", 2, "--delta", "1e-6")
    assert sordino("ledger", "convert", *ledger, *into).code == 0
    refused = declare("--name", "again", "--to", "b.toml")
    assert_refused(refused, "'more'", "--account more", code=5)
    assert_refused(declare("--to", "b.toml"), "'more'", "--account more", code=5)
    made = declare("--to", "b.toml", "--account", "more", epsilon=None)
    assert made.code == 0, made.err
    count = ("--units", "--epsilon", 0.5, "--declaration", "b.toml")
    assert sordino("count", "purchases", *count).code == 0


def test_a_share_of_an_account_pays_too(declare, sordino, shop):
    assert declare().code == 0
    ledger = ("--ledger", "budget.db", "--account", "purchases")
    assert sordino("ledger", "grant", *ledger, "--to", "team", "--epsilon", 1).code == 0
    made = declare("--to", "b.toml", "--account", "team", epsilon=None)
    assert (made.code, "about 20 releases" in made.out) == (0, True), made


def test_a_table_that_is_not_there(declare, shop):
    done = declare(source="none.csv")
    assert_refused(done, "nothing was found", code=4)
    assert not (shop / "sordino.toml").exists()


def test_a_password_is_not_written(declare, sordino, shop):
    done = declare("--ledger", "postgresql://me:hunter2@127.0.0.1:1/x")
    assert done.code == 5
    assert "hunter2" not in done.err
    assert not (shop / "sordino.toml").exists()


def test_a_shop_in_a_folder_that_is_a_link(declare, sordino, shop, tmp_path, monkeypatch):
    assert declare().code == 0
    (tmp_path / "here").symlink_to(shop)
    monkeypatch.chdir(tmp_path / "here")
    again = sordino(
        "declare", str(tmp_path / "here" / "purchases.csv"), "--person", "customer_id",
        "--epsilon", 2, "--name", "more",
    )  # fmt: skip
    assert_refused(again, "--second-budget")


def test_a_table_is_declared_in_the_folder_of_its_files(sordino, tmp_path, monkeypatch):
    write_purchases(tmp_path / "parts", name="a.csv")
    (tmp_path / "parts" / "products.csv").unlink()
    monkeypatch.chdir(tmp_path)
    done = sordino("declare", "parts", "--person", "customer_id", "--epsilon", 1)
    assert done.code == 0, done.err
    assert Path("sordino.toml").exists()
    assert [path.name for path in Path("parts").iterdir()] == ["a.csv"]


# ---- what an attack has found ---------------------------------------------------------------------


def test_a_place_of_any_day_is_that_of_each(declare, shop):
    """Twin: the place with {date} in it, which is the text of no file."""
    (shop / "sales-2026-11-27.csv").write_text("customer_id\nc1\n", encoding="utf-8")
    dated = ("--date", "2026-11-27", "--name", "sales")
    made = declare(*dated, source="sales-{date}.csv")
    assert made.code == 0, made.err
    again = declare("--name", "extra", source="sales-2026-11-27.csv")
    assert_refused(again, "Account 'sales'", "--second-budget", code=5)


def test_a_table_does_not_move_onto_the_place_of_another_account(declare, shop):
    """Twin: an account that is there is not compared with the others."""
    write_purchases(shop, name="visits.csv")
    assert declare().code == 0
    assert declare(source="visits.csv").code == 0
    other = declare("--name", "visits", "--to", "z.toml")
    assert_refused(other, "Account 'purchases'", "--second-budget", code=5)
    assert not (shop / "z.toml").exists()
    # One that has nobody else's place may be declared again.
    assert declare("--name", "visits", "--to", "y.toml", source="visits.csv").code == 0


def test_no_message_about_a_day_shows_a_password(sordino, shop, monkeypatch):
    monkeypatch.setenv("PW", "s3cr3t")
    text = '[table.p]\nsource = "postgresql://u:${PW}@127.0.0.1:9/db#t"\nperson = "u"\n'
    (shop / "sordino.toml").write_text(text, encoding="utf-8")
    asked = ("--units", "--epsilon", 0.1, "--no-ledger", "--date", "today")
    for source in ("p", "postgresql://u:s3cr3t@127.0.0.1:9/db#t"):
        done = sordino("count", source, *asked)
        assert_refused(done, "postgresql://127.0.0.1:9/db#t")
        assert "s3cr3t" not in done.err
    with pytest.raises(sd.InvalidParameter) as error:
        sd.open("p", date="today")
    assert "s3cr3t" not in str(error.value)


def test_an_emptied_declaration_takes_the_next_table(declare, shop):
    (shop / "sordino.toml").write_text("# nothing yet\n", encoding="utf-8")
    made = declare()
    assert made.code == 0, made.err
    assert (shop / "sordino.toml").read_text(encoding="utf-8").startswith("# nothing yet\n")


def test_an_account_of_a_path_moves_to_the_declared_name(sordino, declare, shop):
    """With what it has spent, and only where the declaration says that it pays."""
    old = ("--ledger", "budget.db", "--account", "old")
    made = ("--epsilon", 2, "--unit", "customer_id", "--source", "purchases.csv")
    assert sordino("ledger", "create", *old, *made).code == 0
    count = ("--units", "--epsilon", 0.25)
    path = ("count", "purchases.csv", "--user", "customer_id", *count, *old)
    assert sordino(*path).code == 0
    move = ("ledger", "resource", *old, "--to", "purchases")
    assert_refused(sordino(*move), "must be declared in sordino.toml")
    assert declare("--account", "old", "--name", "purchases", epsilon=None).code == 0
    assert sordino("ledger", "create", *old[:3], "other", *made).code == 0
    assert_refused(sordino(*move[:5], "other", *move[6:]), "a table for which this account pays")
    assert sordino("count", "purchases", *count).code == 0
    moved = sordino(*move)
    assert (moved.json["source"], moved.json["spent"]) == ("name:purchases", 0.5)
    assert_refused(sordino(*move), "and not about a place", code=5)
    # The name goes on, wherever the table lies; the path does not.
    (shop / "purchases.csv").rename(shop / "moved.csv")
    text = (shop / "sordino.toml").read_text(encoding="utf-8").replace("purchases.csv", "moved.csv")
    (shop / "sordino.toml").write_text(text, encoding="utf-8")
    assert sordino("count", "purchases", *count).code == 0
    (shop / "moved.csv").rename(shop / "purchases.csv")
    assert_refused(sordino(*path), "ask it by that name", code=5)
    assert_refused(declare("--name", "again"), "about that table already", code=5)
    assert sordino("ledger", "verify", *old).json["sound"]
    assert spent(shop, "old") == 0.75


def test_a_part_of_the_delta_is_kept_for_labels_that_nobody_listed(sordino, declare, shop):
    made = declare("--delta", "1e-6", "--failures", "5e-7")
    assert ", 5 of them with labels that nobody listed (--delta 1e-07)." in made.out
    found = ("top", "purchases", "--item", "product", "-k", 1, "--epsilon", 1, "--unlisted")
    assert sordino(*found, "--delta", "1e-7").code == 0
    # What is there keeps what it has.
    other = ("--delta", "1e-6", "--failures", "1e-7", "--to", "other.toml")
    assert_refused(declare(*other), "it has failures 5e-07", code=5)
    assert_refused(declare("--failures", "1e-7", epsilon=None), "--failures needs --epsilon")


OF_ONE_ACCOUNT = [
    ["history"],
    ["verify"],
    ["export"],
    ["publish", "--as", "json"],
    ["release", "ID", "--format", "csv"],
]


@pytest.mark.parametrize("words", OF_ONE_ACCOUNT, ids=lambda words: words[0])
def test_an_account_is_named_by_its_table(declare, sordino, shop, words):
    declare(*LABELS)
    charge = sordino("top", "purchases", *TOP, "--keep").json["id"]
    said = ["ledger", *(charge if word == "ID" else word for word in words)]
    by_name = sordino(*said, "--table", "purchases")
    named = sordino(*said, "--ledger", "budget.db", "--account", "purchases")
    assert (by_name.code, by_name.err, by_name.out) == (0, "", named.out)
    assert by_name.out.strip()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "--ledger URL, or --table NAME"),
        (["--ledger", "budget.db"], "--account NAME"),
        (["--account", "purchases"], "--ledger URL, or --table NAME"),
        (["--table", "purchases", "--ledger", "budget.db"], "goes with no --ledger"),
        (["--table", "purchases", "--account", "purchases"], "goes with no --ledger"),
        (["--table", "sales"], "must declare the table 'sales'"),
        (["--declaration", "sordino.toml"], "--declaration needs --table"),
    ],
)
def test_which_account_is_meant_is_said_once(declare, sordino, shop, options, words):
    declare(*LABELS)
    assert_refused(sordino("ledger", "verify", *options), words)


def test_a_row_is_called_nothing_else(sordino, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.csv").write_text("item\ntea\n", encoding="utf-8")
    refused = sordino(
        "declare", "orders.csv", "--row-is-unit", "--called", "person", "--epsilon", 2
    )
    assert (refused.code, refused.out) == (2, "")
    assert "--called must go with --person" in refused.err
    assert not (tmp_path / "sordino.toml").exists()
