"""Epsilon is the only money that people see: rhos and divergences stand behind --details, whatever account pays."""

from __future__ import annotations

import json
import re

import polars as pl
import pytest

import sordino as sd
from report.pages import assert_whole
from sordino.report import make_report
from support.release_lines import RELEASE_LINES, write_files

ACCOUNT = ("--ledger", "budget.db", "--account", "shop")
ACCOUNTS = {"a delta": (), "rho": ("--meter", "zcdp"), "rho that may fail": ("--meter", "zcdp")}
MONEY = re.compile(r"\brhos?\b|divergence|no epsilon at delta 0", re.IGNORECASE)
LINES = {
    name: line
    for name, line in RELEASE_LINES.items()
    if "orders.csv" in line and name != "randomize"
}
LINES["unlisted"] = ("histogram", "orders.csv", "--item", "item", "--unlisted", "--user", "u")
pytestmark = pytest.mark.usefixtures("no_progress")


@pytest.fixture
def account(sordino, tmp_path, monkeypatch):
    """Make an account that adds up no epsilons alone; each table of its folder has 400 rows."""
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    rows = "".join(f"c{n},{('tea', 'rice')[n % 3 > 1]},{n % 9}\n" for n in range(400))
    (tmp_path / "orders.csv").write_text("u,item,x\n" + rows, encoding="utf-8")

    def make(kind):
        more = ("--failures", 1e-6) if kind != "rho" else ()
        about = ("--epsilon", 6, "--delta", 1e-4, "--unit", "u", "--source", "orders.csv")
        made = sordino("ledger", "create", *ACCOUNT, *about, *ACCOUNTS[kind], *more)
        assert made.code == 0, made.err

    return make


def ask(name, *more, epsilon=0.5):
    delta = ("--delta", 1e-7, "--max-rows", 1) if name == "unlisted" else ()
    return (*LINES[name], "--epsilon", epsilon, *delta, *ACCOUNT, "--format", "table", *more)


@pytest.mark.parametrize("kind", ["a delta", "rho"])
@pytest.mark.parametrize("name", [one for one in LINES if one != "unlisted"])
@pytest.mark.sample(3)
def test_neither_a_release_nor_its_plan_says_rho(sordino, account, kind, name):
    account(kind)
    for more in (("--dry-run",), ()):
        done = sordino(*ask(name, *more))
        assert done.code == 0, done.err
        assert not MONEY.search(done.out + done.err), done.out
        assert "psilon 0.5" in done.out


@pytest.mark.parametrize("kind", ["a delta", "rho that may fail"])
def test_what_may_fail_says_its_delta(sordino, account, kind):
    account(kind)
    for more in (("--dry-run",), ()):
        done = sordino(*ask("unlisted", *more))
        assert done.code == 0, done.err
        assert not MONEY.search(done.out), done.out
        assert "delta 1e-07" in done.out


def test_details_say_it(sordino, account):
    account("a delta")
    for more in (("--dry-run",), ()):
        done = sordino(*ask("histogram", "--details", "--noise", "gaussian", *more))
        assert "By itself: rho " in done.out, done.out


def test_a_plan_says_how_many_more_fit_as_a_release_does(sordino, account):
    account("a delta")
    planned, made = sordino(*ask("count", "--dry-run")).out, sordino(*ask("count")).out
    [more] = re.findall(r"About \d+ more like this one\.", planned)
    assert more in made
    assert re.search(r"Account shop: \d+% of its budget would be left\.", planned)


def test_the_last_plan_says_that_no_more_fits(sordino, account):
    account("a delta")
    assert "No more like this one fits." in sordino(*ask("count", "--dry-run", epsilon=4)).out


def test_another_look_tells_what_all_looks_take_in_percent(sordino, account):
    account("a delta")
    line = ask("histogram", "--noise", "gaussian", "--keep")
    key = re.search(r"Kept: (\w+)\.", sordino(*line).out)[1]
    again = ("remeasure", "orders.csv", "--release", key, "--epsilon", 0.5, *ACCOUNT)
    done = sordino(*again, "--noise", "gaussian", "--format", "table", "--keep")
    assert not MONEY.search(done.out), done.out
    shares = [one.share for one in sd.Ledger.open("budget.db", account="shop").statement().charges]
    assert f"All looks together: {round(100 * float(sum(shares)))}%." in done.out
    third = sordino(
        *("remeasure", "orders.csv", "--release", re.search(r"Kept: (\w+)\.", done.out)[1]),
        *("--epsilon", 0.5, *ACCOUNT, "--noise", "gaussian", "--format", "table", "--details"),
    )
    assert "All looks together: rho " in third.out, third.out


def test_a_plan_in_python_says_no_rho(tmp_path):
    orders = pl.DataFrame(
        {"u": [n % 300 for n in range(900)], "item": ["tea", "rice", "corn"] * 300}
    )
    unit = sd.PrivacyUnit("u")
    for meter in ("renyi", "zcdp"):
        ledger = sd.Ledger.create(
            tmp_path / f"{meter}.db",
            account="shop",
            budget=sd.Budget(epsilon=9, delta=1e-6, meter=meter),
            adjacency="add-remove",
            unit=unit,
            source="name:orders",
        )
        session = sd.Session(orders, unit=unit, ledger=ledger, name="orders")
        plan = session.plan.histogram("item", epsilon=0.5, domain=["tea", "rice"], noise="gaussian")
        assert not MONEY.search(str(plan)), str(plan)
        assert "Cost: epsilon 0.5." in str(plan)
        assert plan.to_dict()["spent"]["rho"] > 0


@pytest.mark.parametrize("kind", ["a delta", "rho"])
def test_a_report_says_rho_to_auditors_alone(sordino, account, kind, tmp_path):
    account(kind)
    line = ("histogram", "orders.csv", *LINES["histogram"][2:], "--epsilon", 0.5, *ACCOUNT)
    done = sordino(*line, "--noise", "gaussian", "--format", "json")
    (tmp_path / "made.json").write_text(json.dumps(done.json), encoding="utf-8")
    statement = sd.Ledger.open("budget.db", account="shop").statement().to_dict()
    page = make_report([done.json], account=statement)
    assert_whole(page)
    plain, auditors = [], []
    for part in re.split(r"(?=<section|<details|<dt)", page):
        (auditors if "For auditors" in part[:200] else plain).append(part)
    seen = re.sub("<[^>]*>", " ", re.sub(r"(?s)<style>.*?</style>", "", " ".join(plain)))
    assert not MONEY.search(seen), MONEY.search(seen)
    assert MONEY.search(" ".join(auditors))
    percent = statement["spent_share"] * 100
    assert f"{percent:.3g}% of its budget" in seen
