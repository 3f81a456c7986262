"""The commands that the documents show, over tables of a server of Spark: how to release from Spark, and the first act of the demo."""

from __future__ import annotations

import random
import re
import shlex
import textwrap
from pathlib import Path

import pyarrow as pa
import pytest

import sordino as sd
from sordino.cli import run
from support.spark import own_server, session

ROOT = Path(__file__).parents[2]
SHOWN = "sc://spark.example.org:15002"
TOP = [f"product {n}" for n in range(10)]
AIRPORTS = [f"A{n:02}" for n in range(60)]


def written(document):
    return (ROOT / document).read_text(encoding="utf-8")


def commands(text):
    """Return the commands that a document shows, each as its arguments, without the name of the program."""
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line[2:])[1:] for line in lines if line.startswith("$ sordino ")]


def run_each(capfd, shown, changed):
    """Run commands one after the other, and return what each says."""
    said = []
    for arguments in shown:
        code = run([changed(one) for one in arguments])
        out, err = capfd.readouterr()
        assert code == 0, (arguments, err)
        said.append(out)
    return said


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """Work in a folder with the file that the documents name, beside a table of the name that they name."""
    monkeypatch.chdir(tmp_path)
    Path("products.csv").write_text(
        "product\n" + "\n".join([*TOP, "never sold"]) + "\n", encoding="utf-8"
    )
    orders = {
        "customer": [f"c{i % 400}" for i in range(4000)],
        # Every customer has had each of them, so that no noise brings one that nobody has had.
        "product": [TOP[(7 * (i % 400) + i // 400) % 10] for i in range(4000)],
        "price": [i % 50 + 0.5 for i in range(4000)],
    }
    session().sql("CREATE SCHEMA IF NOT EXISTS shop")
    session().createDataFrame(pa.table(orders)).write.saveAsTable("shop.orders", mode="overwrite")


@pytest.mark.usefixtures("shop")
def test_the_commands_of_the_how_to(capfd):
    shown = commands(written("docs/how-to/release-from-spark.md"))
    assert [one[0] for one in shown] == ["ledger", "top"]
    said = run_each(capfd, shown, lambda one: one.replace(SHOWN, own_server().address))
    assert len(re.findall(r"product \d", said[1])) == 10
    assert "never sold" not in said[1]


@pytest.mark.usefixtures("shop")
def test_the_session_of_the_how_to():
    [shown] = re.findall(
        r"```python\n(.*?)```", written("docs/how-to/release-from-spark.md"), re.DOTALL
    )
    ledger = sd.Ledger.create(
        "budget.db",
        account="orders",
        budget=sd.Budget(epsilon=3),
        adjacency="add-remove",
        unit="customer",
        source="name:orders",
    )
    known = {"spark": session(), "ledger": ledger}
    exec(textwrap.dedent(shown), known)
    assert {row.item for row in known["top"]} == set(TOP)
    assert known["spent"].value == pytest.approx(25, abs=8)
    assert ledger.remaining == 1.5


def fly():
    """Return a table like that of the demo: airplanes that fly to some airports much more than to others."""
    chance = random.Random(5)
    planes = [None if n == 0 else f"N{n}" for n in range(900)]
    rows = [
        (chance.choice(planes), AIRPORTS[int(40 * chance.random() ** 3)]) for _ in range(30_000)
    ]
    return pa.table({"tailnum": [plane for plane, _ in rows], "dest": [dest for _, dest in rows]})


def test_the_first_act_of_the_demo(tmp_path, monkeypatch, capfd):
    """What the demo shows over a file: the same commands over a table of Spark, where a missing value is NULL already."""
    monkeypatch.chdir(tmp_path)
    Path("demo").mkdir()
    Path("demo/airports.csv").write_text("faa\n" + "\n".join(AIRPORTS) + "\n", encoding="utf-8")
    session().sql("CREATE SCHEMA IF NOT EXISTS demo")
    flights = fly()
    session().createDataFrame(flights).write.saveAsTable("demo.flights", mode="overwrite")
    shown = [
        [one for one in line if one not in {"--null", "NA"}]
        for line in commands(written("docs/tutorials/flights-from-new-york.md"))
    ]
    shown = [one for one in shown if one[0] in {"ledger", "top"} and "flights" in one][:2]
    shown.append(
        [
            "ledger",
            "show",
            "--ledger",
            "demo/budget.db",
            "--account",
            "flights",
            "--format",
            "table",
        ]
    )
    assert [one[:2] for one in shown] == [
        ["ledger", "create"],
        ["top", "demo/flights.csv"],
        ["ledger", "show"],
    ]
    address = f"{own_server().address}#spark_catalog.demo.flights"
    _, top, ledger = run_each(
        capfd, shown, lambda one: address if one == "demo/flights.csv" else one
    )
    served = {}
    for plane, dest in zip(
        flights["tailnum"].to_pylist(), flights["dest"].to_pylist(), strict=True
    ):
        served.setdefault(dest, set()).add(plane)
    best = sorted(served, key=lambda dest: -len(served[dest] - {None}))[:15]
    found = re.findall(r"\bA\d\d\b", top)
    assert len(found) == 10
    assert set(found) <= set(best)
    assert "spark:spark_catalog.demo.flights" in ledger
