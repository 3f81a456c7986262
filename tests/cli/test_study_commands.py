"""`sordino init` writes a study without a row, and `sordino run` makes it: once, with the documented exit codes."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import subprocess
import sys
import tomllib
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

import sordino as sd
from sordino import cli
from sordino.cli import init, study as command
from sordino.cli.init import _read_asked_value
from sordino.ledger import Charge
from sordino.sources import CsvFormat
from sordino.study.kinds import find_kind, list_kinds, list_required
from sordino.study.template import _EXAMPLES, TO_COMPLETE, Draft, write_study, write_value
from study.shop import NAMES, STUDY, put_shop, spent

pytestmark = pytest.mark.usefixtures("no_progress")


@pytest.fixture
def shop(tmp_path, monkeypatch):
    put_shop(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---- run -----------------------------------------------------------------------------------------------------


def test_a_run_says_what_it_did_and_a_second_start_that_it_was_paid(sordino, shop):
    done = sordino("run", "study.toml", "--run-id", "monday", "--quiet")
    assert (done.code, done.err) == (0, "")
    said = done.json
    assert [row["name"] for row in said.pop("rows")] == list(NAMES)
    assert said == {
        "study": "shop",
        "run": "monday",
        "charge": said["charge"],
        "folder": "shop-monday",
        "paid": True,
        "kept": True,
    }
    results = json.loads((shop / "shop-monday" / "results.json").read_text(encoding="utf-8"))
    assert results["charge"] == said["charge"]
    again = sordino("run", "study.toml", "--run-id", "monday", "--quiet")
    assert (again.code, again.json["paid"]) == (0, False)
    assert spent(shop) == 2


def test_off_a_terminal_it_says_plain_lines_and_quiet_none(sordino, shop):
    done = sordino("run", "study.toml", "--run-id", "monday")
    lines = done.err.splitlines()
    assert lines[0] == "Run monday of study shop: 3 releases."
    assert (
        lines[1]
        == "  customers: count_distinct_units, epsilon 0.5; the number of people (any data): ± 6."
    )
    # How wide a sum will be depends on data: what a dry run assumes is not looked at here.
    assert lines[3] == "  turnover: sum, epsilon 1; --dry-run says how wide it will be."
    assert lines[4].startswith(
        "Together epsilon 2; account shop has 100% of its budget left, and 80% after this run. At epsilon 2"
    )
    assert [line for line in lines if line.startswith("Reading")] == [
        f"Reading for {name}." for name in NAMES
    ]
    assert "\x1b" not in done.err


@pytest.mark.parametrize(
    "asked",
    [
        {"kind": "table", "item": ["town", "sex"], "epsilon": 0.4},
        {"kind": "table", "item": ["town", "sex"], "epsilon": 0.4, "margins": "measured"},
        {"kind": "histogram", "item": "town", "epsilon": 0.4},
        {"kind": "histogram", "item": "town", "epsilon": 0.4, "simultaneous": True},
        {"kind": "top_k", "item": "town", "k": 1, "epsilon": 0.4},
        {"kind": "top_set", "item": "town", "k": 1, "epsilon": 0.4},
        {"kind": "above", "item": "town", "threshold": 30, "positives": 2, "epsilon": 0.4},
        {"kind": "count", "epsilon": 0.4},
    ],
    ids=lambda asked: "-".join(map(str, asked.values())),
)
def test_a_run_announces_no_other_width_than_its_dry_run(sordino, tmp_path, monkeypatch, asked):
    """Twin: a table was announced with the width of a cell alone, 7 for 19."""
    monkeypatch.chdir(tmp_path)
    put_shop(tmp_path)
    rows = [f"c{n},{'NS'[n % 2]},{'fm'[n % 3 == 0]}" for n in range(300)]
    (tmp_path / "orders.csv").write_text("\n".join(["customer,town,sex", *rows]) + "\n", "utf-8")
    (tmp_path / "towns.csv").write_text("town\nN\nS\n", "utf-8")
    (tmp_path / "sexes.csv").write_text("sex\nf\nm\n", "utf-8")
    lists = {name: {"file": f"{file}.csv"} for name, file in (("town", "towns"), ("sex", "sexes"))}
    domain = lists if asked["kind"] == "table" else lists["town"]
    own = asked if asked["kind"] == "count" else asked | {"domain": domain}
    lines = "\n".join(f"{key} = {write_value(value)}" for key, value in own.items())
    head = STUDY.split("[[release]]", maxsplit=1)[0].replace('types = {price = "decimal(9,2)"}', "")
    (tmp_path / "study.toml").write_text(f'{head}\n[[release]]\nname = "one"\n{lines}\n', "utf-8")
    planned = sordino("run", "study.toml", "--run-id", "monday", "--dry-run").json
    [told] = planned["rows"]
    widest = {row["figure"]: row["widest"] for row in told["figures"] if row["like"] == "any data"}
    done = sordino("run", "study.toml", "--run-id", "monday")
    assert done.code == 0
    [line] = [one for one in done.err.splitlines() if one.startswith("  one: ")]
    if "±" in line:
        [(figure, width)] = re.findall(r"; (.*) [(]any data[)]: ± ([0-9.,]+)[.]", line)
        assert float(width) == pytest.approx(widest[figure] / 2, rel=0.1, abs=0.5)
    else:
        assert line.endswith("; --dry-run says how wide it will be.")


def start_on_terminal(*arguments):
    """Start the command before a terminal of its own; return it, and our end of the terminal."""
    master, slave = pty.openpty()
    job = subprocess.Popen(
        [sys.executable, "-c", "from sordino.cli import main; main()", *arguments],
        stdin=slave,
        stdout=subprocess.DEVNULL,
        stderr=slave,
        close_fds=True,
    )
    os.close(slave)
    return job, master


@pytest.mark.slow
def test_on_a_terminal_it_says_how_wide_every_figure_will_be(shop):
    job, master = start_on_terminal("run", "study.toml", "--run-id", "monday")
    seen = b""
    while (more := _read_terminal(master)) != b"":
        seen += more
    os.close(master)
    assert job.wait(60) == 0
    told = seen.decode().split("Together epsilon 2", maxsplit=1)[0]
    assert (
        "customers: count_distinct_units, epsilon 0.5; the number of people (any data): ± 6."
        in told
    )
    assert "turnover: sum, epsilon 1; the sum (flat): ±" in told
    assert "\n    the sum (lognormal): ±" in told
    assert "--dry-run" not in told
    assert "Right items (" in told


def _read_terminal(master):
    try:
        return os.read(master, 4096)
    except OSError:
        # The other end is closed.
        return b""


def test_a_dry_run_reads_and_charges_nothing(sordino, shop, monkeypatch):
    monkeypatch.setattr("sordino.questions.CountQuestion.run", None)
    done = sordino("run", "study.toml", "--dry-run")
    assert done.code == 0
    said = done.json
    assert [(row["name"], row["budget"], row["epsilon"]) for row in said["rows"]] == [
        ("customers", 0.5, 0.5),
        ("best_sellers", 0.5, 0.5),
        ("turnover", 1, 1),
    ]
    assert (said["budget"], said["remaining"], said["refused"]) == (2, 10, None)
    assert said["left"]["left"] == 8
    table = sordino("run", "study.toml", "--dry-run", "--format", "table")
    assert "The account has 100% of its budget left, and 80% after this run." in table.out
    assert "Nothing was read or charged." in table.out
    assert spent(shop) == 0
    assert {one.name for one in shop.iterdir()} == {
        "orders.csv", "items.csv", "study.toml", "budget.db", "budget.db-journal",
    }  # fmt: skip


@pytest.mark.slow
def test_a_dry_run_says_what_to_expect_in_every_format(sordino, shop):
    text = STUDY.replace("share = 0.25", 'goal = "±20"', 1)
    (shop / "study.toml").write_text(text, encoding="utf-8")
    rows = sordino("run", "study.toml", "--dry-run").json["rows"]
    assert [row["goal"] for row in rows] == ["±20", None, None]
    assert [row["figures"][0]["like"] for row in rows] == ["any data", "any data", "flat"]
    assert rows[1]["choices"][0]["right"] > 0
    assert rows[2]["figures"][0]["sure"] == 0.95
    assert "10,000 rows, like flat" in rows[2]["assumed"]
    assert all(row["odds"] for row in rows)
    table = sordino("run", "study.toml", "--dry-run", "--format", "table").out
    for words in (
        "customers: the number of people (any data): ± 20.\n",
        "best_sellers: Right items (zipf:1.1): all of them with ",
        "turnover: Assumed: 10,000 rows, like flat, lognormal.\n",
        "turnover: Left out: rows of a person beyond 3; rows without a number in price; what lies "
        "below 0 (it counts as 0)",
        "Left out of all: lines that are empty",
        "could come to think at most",
    ):
        assert words in table
    assert table.count("rows without a value in customer") == 1
    lines = list(
        csv.DictReader(
            sordino("run", "study.toml", "--dry-run", "--format", "csv").out.splitlines()
        )
    )
    assert [(line["name"], line["figure"], line["like"]) for line in lines] == [
        ("customers", "the number of people", "any data"),
        ("best_sellers", "each count", "any data"),
        ("best_sellers", "right items", "zipf:1.1"),
        ("turnover", "the sum", "flat"),
        ("turnover", "the sum", "lognormal"),
    ]
    assert (lines[0]["widest"], lines[0]["goal"], lines[2]["right"] > "0") == ("40", "±20", True)
    assert spent(shop) == 0


def test_a_run_says_the_epsilon_of_its_goal(sordino, shop):
    text = STUDY.replace("share = 0.25", 'goal = "±20"', 1)
    (shop / "study.toml").write_text(text, encoding="utf-8")
    done = sordino("run", "study.toml", "--run-id", "monday")
    assert (
        "  customers: count_distinct_units, epsilon 0.147, found for ±20; the number of people (any data): ± 20.\n"
        in done.err
    )
    assert [row["budget"] for row in done.json["rows"]] == [0.147, 0.5, 1]
    again = sordino("run", "study.toml", "--run-id", "monday", "--quiet")
    assert [row["budget"] for row in again.json["rows"]] == [0.147, 0.5, 1]
    assert spent(shop) == Fraction("1.647")


def test_a_goal_that_costs_too_much_ends_as_what_does_not_fit(sordino, shop):
    (shop / "study.toml").write_text(
        STUDY.replace("share = 0.25", 'goal = "±2"', 1), encoding="utf-8"
    )
    for more in (("--dry-run",), ("--quiet",)):
        done = sordino("run", "study.toml", *more)
        assert (done.code, done.out, done.err.count("\n")) == (3, "", 1)
        assert (
            "study.toml, line 23: count_distinct_units.goal '±2' needs more than remains"
            in done.err
        )
    assert spent(shop) == 0
    assert not list(shop.glob("shop-*"))


def test_a_dry_run_of_what_does_not_fit_shows_it_and_ends_as_the_run_would(sordino, shop):
    (shop / "study.toml").write_text(STUDY.replace("epsilon = 2", "epsilon = 20").replace("epsilon = 1\n", "epsilon = 9.9\n"), encoding="utf-8")  # fmt: skip
    for more in (("--dry-run",), ()):
        done = sordino("run", "study.toml", *more)
        assert done.code == 3
        assert "100% of the budget of account shop is left; this needs" in done.err
        assert bool(done.out) == bool(more)
    assert spent(shop) == 0


def test_what_a_run_that_is_paid_before_would_do(sordino, shop):
    assert sordino("run", "study.toml", "--run-id", "monday", "--quiet").code == 0
    said = sordino("run", "study.toml", "--run-id", "monday", "--dry-run").json
    assert (said["kept"], said["charge"] is not None, said["refused"]) == (3, True, None)


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        (("k = 2", "kk = 2"), 2, "study.toml, line 29: A release of kind 'top_k' has no key 'kk'. Did you mean 'k'?"),
        (("epsilon = 2", "epsilon = 1"), 2, "study.toml, line 17: The releases of a study must fit"),
        (('kind = "sum"', 'kind = "summ"'), 2, "study.toml, line 34: kind must be what a session can release; got 'summ'."),
        (('"budget.db"', '"${NO_SUCH}"'), 2, "study.toml, line 14: The environment must have a variable NO_SUCH"),
        (("[account]", "[acount]"), 2, "study.toml, line 13: A study has no key 'acount'. Did you mean 'unit' or 'account'?"),
        (('"orders.csv"', '"nowhere.csv"'), 4, "nothing was found at"),
        (('name = "shop"\n\n[budget]', 'name = "shob"\n\n[budget]'), 5, "There is no account 'shob'"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_and_charges_nothing(sordino, shop, change, code, says):
    assert change[0] in STUDY
    (shop / "study.toml").write_text(STUDY.replace(*change), encoding="utf-8")
    done = sordino("run", "study.toml", "--run-id", "x", "--quiet")
    assert (done.code, done.out) == (code, "")
    assert says in done.err
    assert done.err.count("\n") == 1
    assert spent(shop) == 0
    assert not list(shop.glob("shop-x*"))


def test_a_folder_that_is_there_is_refused(sordino, shop):
    (shop / "out").mkdir()
    done = sordino("run", "study.toml", "--output", "out")
    assert (done.code, spent(shop)) == (2, 0)
    assert "must not be there yet" in done.err


def test_a_run_that_is_lost_has_a_code_of_its_own(sordino, shop, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("sordino.questions.CountQuestion.run", lambda *_, **__: 1 / 0)
        failed = sordino("run", "study.toml", "--run-id", "monday", "--quiet")
    assert (failed.code, failed.err) == (4, f"Error: {sd.DataSourceError.AFTER_CHARGE}\n")
    lost = sordino("run", "study.toml", "--run-id", "monday", "--quiet")
    assert (lost.code, lost.out) == (8, "")
    assert "was paid before" in lost.err
    assert "): epsilon 2. The ledger has kept 0 of its 3 releases." in lost.err
    assert spent(shop) == 2
    assert sordino("run", "study.toml", "--run-id", "monday-again", "--quiet").code == 0
    assert spent(shop) == 4


def test_a_ledger_that_keeps_nothing_ends_with_the_code_of_that(sordino, shop, monkeypatch):
    def fail(*_given):
        raise sd.LedgerError("away")

    monkeypatch.setattr(Charge, "keep", fail)
    done = sordino("run", "study.toml", "--run-id", "monday", "--quiet")
    assert (done.code, done.err) == (7, f"Error: {command.NOT_KEPT}\n")
    assert (shop / "shop-monday" / "results.json").exists()


def test_codes_are_those_of_the_errors():
    assert cli.code_of(sd.RunLost("x")) == cli.code_of(sd.RunTaken("x")) == 8
    assert cli.code_of(sd.LedgerConflict("x")) == 5


# ---- init ----------------------------------------------------------------------------------------------------


def test_without_a_terminal_it_writes_what_must_be_completed(sordino, shop):
    done = sordino("init", "orders.csv", "--output", "new.toml")
    assert (done.code, done.err) == (0, "")
    assert "Complete the 3 places" in done.out
    text = (shop / "new.toml").read_text(encoding="utf-8")
    tree = tomllib.loads(text)
    assert (tree["name"], tree["source"]) == ("orders", {"path": "orders.csv"})
    assert text.count(TO_COMPLETE) == 3
    for old, new in (
        ('column = ""', 'column = "customer"'),
        ('name = ""', 'name = "shop"'),
        ("epsilon = 0\n", "epsilon = 1\n"),
    ):
        refused = sordino("run", "new.toml", "--dry-run")
        assert refused.code == 2
        assert refused.err.startswith("Error: new.toml, line ")
        text = text.replace(old, new)
        (shop / "new.toml").write_text(text, encoding="utf-8")
    assert "at least one [[release]]" in sordino("run", "new.toml", "--dry-run").err
    # Each kind is there as a comment that becomes a release when its marks are taken off.
    marks = {"COLUMN": "product", "labels.csv": "items.csv"}
    at = text.index('# [[release]]\n# kind = "top_k"')
    block = text[at : text.index("\n\n", at)].replace("# ", "")
    for old, new in marks.items():
        block = block.replace(old, new)
    block = block.replace('"items.csv"', '"items.csv", column = "name"').replace("k = 10", "k = 2")
    (shop / "new.toml").write_text(text[:at] + block + "\n", encoding="utf-8")
    assert sordino("run", "new.toml", "--dry-run").code == 0


def test_a_declared_table_says_whom_it_protects_and_who_pays(sordino, shop):
    whom = ("--person", "customer", "--epsilon", "3", "--second-budget")
    assert sordino("declare", "orders.csv", *whom).code == 0
    done = sordino("init", "orders", "--output", "mine.toml")
    assert (done.code, done.err) == (0, "")
    assert "Complete the place in it that says so" in done.out
    text = (shop / "mine.toml").read_text(encoding="utf-8")
    tree = tomllib.loads(text)
    assert (tree["name"], tree["table"]) == ("orders", "orders")
    assert not {"source", "unit", "account", "declaration"} & set(tree)
    release = '[[release]]\nkind = "count_distinct_units"\nname = "customers"\nshare = 1\n'
    text = text.replace("epsilon = 0\n", "epsilon = 0.5\n\n" + release)
    (shop / "mine.toml").write_text(text, encoding="utf-8")
    assert sordino("run", "mine.toml", "--run-id", "monday").code == 0
    # From another folder the study names the file that declares it.
    (shop / "elsewhere").mkdir()
    (shop / "sordino.toml").rename(shop / "tables.toml")
    found = sordino(
        "init", "orders", "--declaration", "tables.toml", "--output", "elsewhere/s.toml"
    )
    assert found.code == 0
    named = tomllib.loads((shop / "elsewhere/s.toml").read_text(encoding="utf-8"))
    assert named["declaration"] == "../tables.toml"
    assert "'nothing' is no file" in sordino("init", "nothing").err


def test_the_template_shows_every_parameter_that_must_be_given():
    needed = {one for name in list_kinds() for one in list_required(find_kind(name))}
    assert needed - {"epsilon"} <= set(_EXAMPLES)


def test_no_row_decides_what_it_writes(sordino, shop):
    texts = []
    for rows in ("c1,tea,3\n", "", 'c1,"broken\n' * 3, "\xff\xfe\n"):
        (shop / "t.csv").write_bytes(b"customer,product,price\n" + rows.encode("latin-1"))
        done = sordino("init", "t.csv", "--output", "t.toml")
        assert done.code == 0
        texts.append((done.out, (shop / "t.toml").read_bytes()))
        (shop / "t.toml").unlink()
    assert len(set(texts)) == 1


def test_a_study_that_is_there_is_not_written_over(sordino, shop):
    before = (shop / "study.toml").read_bytes()
    done = sordino("init", "orders.csv")
    assert (done.code, (shop / "study.toml").read_bytes()) == (2, before)


def test_forms_and_names_that_are_hard_to_write_come_back(tmp_path):
    columns = {'a "b" # c': "VARCHAR", "d\\e": "VARCHAR", "ü\x7f": "VARCHAR", "x\ny = 3": "VARCHAR"}
    form = CsvFormat(
        delimiter="\t", quote="", null=("N/A", "-"), types={'a "b" # c': "integer"}, decimal=","
    )
    draft = Draft(name="x", source="o.csv", columns=columns, form=form, unit={"column": "ü\x7f"}, releases=[{"kind": "count", "name": "n", 'a "b"': [1, 0.5, True, {"x y": "z"}]}])  # fmt: skip
    tree = tomllib.loads(write_study(draft))
    said = tree["source"] | {"null": tuple(tree["source"]["null"])}
    assert CsvFormat(**{key: value for key, value in said.items() if key != "path"}) == form
    assert tree["unit"]["column"] == "ü\x7f"
    assert tree["release"][0]['a "b"'] == [1, 0.5, True, {"x y": "z"}]
    assert tomllib.loads(f"x = {write_value({'b': 1e-7})}")["x"]["b"] == 1e-7


def test_a_password_is_not_written_down(sordino, shop, monkeypatch):
    opened = init.open_source("orders.csv")
    monkeypatch.setattr(init, "open_source", lambda *_, **__: opened)
    done = sordino(
        "init", "postgresql://me:geheim@db.example.org/shop#orders", "--output", "new.toml"
    )
    assert done.code == 0
    text = (shop / "new.toml").read_text(encoding="utf-8")
    assert "geheim" not in text + done.out
    assert tomllib.loads(text)["source"]["path"] == "postgresql://db.example.org/shop#orders"
    assert tomllib.loads(text)["name"] == "orders"


@pytest.mark.parametrize(
    ("answer", "value"),
    [("10", 10), ("1e6", 1e6), ("0.25, 0.5", [0.25, 0.5]), ("none", "none"), ("[1, 2]", [1, 2]), ("x y", "x y")],
)  # fmt: skip
def test_answers_are_numbers_lists_or_texts(answer, value):
    assert _read_asked_value(answer) == value


ANSWERS = [
    ("Whom does a row belong to", "custmer"),
    ("Whom does a row belong to", "customer"),
    ("How many rows", "0"),
    ("How many rows", "2"),
    ("Epsilon", "much"),
    ("Epsilon", "1"),
    ("File of the ledger", "new.db"),
    ("Account", ""),
    ("Make it now", "5"),
    ("Kind", ""),
    ("Kind", "medain"),
    ("Kind", "top_k"),
    ("item", "product"),
    ("k)", "2"),
    ("domain", "tea, rice, salt"),
    ("goal", "soon"),
    ("goal", "top 3 right with 90%"),
    ("goal", "±20"),
    ("Kind", "sum"),
    ("column", "price"),
    # No release could begin with these: all of them are asked for again.
    ("cap", "[0.5, 0.9]"),
    ("lower", "0"),
    ("column", "price"),
    ("cap", "1000"),
    ("lower", "0"),
    ("goal", "no"),
    ("Kind", "end"),
]


def test_a_release_that_no_answer_could_make_is_not_asked_for_again(shop, monkeypatch, capsys):
    """A count needs no answer: refused once it would be refused for ever."""

    def refuse(*_given):
        raise sd.InvalidParameter("never")

    monkeypatch.setattr(init.ReleaseExecutor, "start", refuse)
    opened = init.open_source("orders.csv")
    assert (
        init._ask_release("count", opened, shop, sd.PrivacyUnit("customer", max_rows=1), []) is None
    )
    assert "never" in capsys.readouterr().err


@pytest.mark.slow
def test_on_a_terminal_it_asks_and_what_it_writes_runs(sordino, shop):
    """Through a real terminal: each question is answered when it is seen, some of them wrongly first."""
    job, master = start_on_terminal("init", "orders.csv", "--output", "new.toml")
    seen, all_of_it = "", ""
    for question, answer in ANSWERS:
        while question not in seen or not seen.rstrip(" ").endswith(":"):
            seen += os.read(master, 4096).decode()
        all_of_it += seen
        seen = ""
        os.write(master, f"{answer}\n".encode())
    assert job.wait(30) == 0
    os.close(master)
    text = (shop / "new.toml").read_text(encoding="utf-8")
    assert TO_COMPLETE not in text
    # A wish is written as it was said.
    assert 'goal = "±20"' in text
    # What an epsilon means is said wherever one is chosen.
    assert "At epsilon 1, someone" in all_of_it
    assert "All runs together: At epsilon 5, someone" in all_of_it
    study = sd.Study.load("new.toml")
    assert [(one.name, one.kind) for one in study.releases] == [
        ("top_k_product", "top_k"),
        ("sum_price", "sum"),
    ]
    # One has a goal, and the other its share of the budget.
    assert [one.epsilon for one in study.releases] == [None, Fraction(1, 2)]
    assert sd.Ledger.open("new.db", account="orders").remaining == 5
    done = sordino("run", "new.toml", "--run-id", "first", "--quiet")
    assert done.code == 0, done.err
    assert Path("orders-first", "top_k_product.csv").exists()


def test_a_type_that_no_question_can_use_is_called_by_its_name(sordino, tmp_path):
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE t (who INTEGER, twice INTEGER GENERATED ALWAYS AS (2 * who))"
        )
    done = sordino("init", f"duckdb:{tmp_path / 't.duckdb'}#t", "--output", tmp_path / "study.toml")
    assert done.code == 0, done.err
    written = (tmp_path / "study.toml").read_text(encoding="utf-8")
    assert "twice (INTEGER (computed when it is read))" in written
