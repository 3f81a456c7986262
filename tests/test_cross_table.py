"""Cross tables: they add up, their intervals hold together, and a person is in one cell of them."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import sordino as sd
from sordino.cli import run
from sordino.errors import InvalidParameter, UnknownDomain
from sordino.record import pivot_table
from sordino.record_text import write_csv, write_json
from sordino.results import describe
from sordino.session import cross_table

TOWNS, AGES, SEXES = ["Zug", "Aarau", "Bern"], ["0-17", "18-64", "65+"], ["f", "m"]
DOMAIN = {"town": TOWNS, "age": AGES}
CELLS = list(itertools.product(TOWNS, AGES))
THREE = DOMAIN | {"sex": SEXES}


@pytest.fixture(scope="module")
def people():
    draw = np.random.default_rng(2)
    rows = [
        (
            f"p{draw.integers(0, 400)}",
            TOWNS[draw.integers(0, 2)],
            AGES[draw.integers(0, 3)],
            SEXES[n % 2],
        )
        for n in range(1200)
    ]
    return pl.DataFrame(rows, schema=["id", "town", "age", "sex"], orient="row")


def ask(people, seed=1, unit="id", epsilon=1, item=("town", "age"), domain=DOMAIN, **more):
    whom = sd.PrivacyUnit(unit) if unit else sd.PrivacyUnit.row()
    session = sd.Session(people, unit=whom, entropy=sd.Seeded(seed))
    return session.table(item, epsilon=epsilon, domain=domain, **more)


def adds_up(table, value):
    """Tell whether every margin is the sum of its cells."""
    cells = {row.item: getattr(row, value) for row in table.cells}
    return all(
        getattr(row, value)
        == sum(
            one
            for item, one in cells.items()
            if all(b in {None, a} for a, b in zip(item, row.item, strict=True))
        )
        for row in table
    )


@pytest.mark.parametrize("item", [("town", "age"), ("town", "age", "sex"), ("town",)])
@pytest.mark.sample(3)
def test_every_margin_is_there_and_adds_up(people, item):
    domain = {name: THREE[name] for name in item}
    for seed in range(20):
        table = ask(people, seed, item=list(item), domain=domain, epsilon=0.3, not_negative=True)
        assert adds_up(table, "estimate")
        sides = [[*domain[name], None] for name in item]
        assert {row.item for row in table} == set(itertools.product(*sides))
        assert table.whole.item == (None,) * len(item)
        if table.whole.published is not None:
            assert adds_up(table, "published")
            assert all(row.published >= 0 for row in table)
            assert all(row.low <= row.published <= row.high for row in table)


def test_cells_stand_in_the_order_given(people):
    table = ask(people)
    assert [row.item for row in table.cells] == list(itertools.product(TOWNS, AGES))
    assert [row.item[0] for row in table if row.item[1] is None and row.item[0]] == TOWNS


def test_a_person_is_in_one_cell(people):
    """So the total of an exact table is the number of persons, and not of their rows."""
    exact = ask(people, epsilon=1000)
    assert exact.whole.estimate == people["id"].n_unique()
    rows = ask(people, epsilon=1000, unit=None)
    assert rows.whole.estimate == people.height
    assert {row.item: row.estimate for row in rows.cells} == {
        (town, age): float(n) for town, age, n in _count(people).rows()
    } | {cell: 0.0 for cell in itertools.product(TOWNS, AGES) if cell not in _seen(people)}
    several = ask(people, epsilon=1000, max_cells=9)
    assert several.whole.estimate == people.unique(["id", "town", "age"]).height
    assert math.isinf(several.whole.true_high)
    assert exact.whole.true_high == exact.whole.high


def _count(people):
    return people.group_by("town", "age").len()


def _seen(people):
    return set(people.select("town", "age").unique().rows())


@pytest.mark.parametrize(
    ("shape", "reach"),
    [
        ((5, 5), (7, 10, 10, 17)),
        ((10, 10), (9, 15, 15, 34)),
        ((20, 12), (10, 17, 21, 53)),
        ((100, 100), (13, 53, 53, 339)),
    ],
)
@pytest.mark.sample(4)
def test_reaches_are_those_of_another_computation(shape, reach):
    """By exact convolution, computed elsewhere: cells, rows, columns, total."""
    parts = {"a": [f"a{n}" for n in range(shape[0])], "b": [f"b{n}" for n in range(shape[1])]}
    frame = pl.DataFrame({"id": ["x"], "a": ["a0"], "b": ["b0"]})
    table = ask(frame, item=["a", "b"], domain=parts)
    half = {row.item: (row.high - row.low) / 2 for row in table}
    found = (half["a0", "b0"], half["a0", None], half[None, "b0"], half[None, None])
    assert found == reach


def test_all_intervals_hold_together():
    """Of 2,000 tables of 2 x 2 at least 95 in 100 hold all nine numbers; each number alone, nearly all."""
    truth = np.array([[40, 0], [3, 1]])
    rng, p = np.random.default_rng(4), 1 - math.exp(-1)
    frame = pl.DataFrame({"id": ["x"], "a": ["0"], "b": ["0"]})
    table = ask(frame, item=["a", "b"], domain={"a": ["0", "1"], "b": ["0", "1"]})
    half = {row.item: (row.high - row.low) / 2 for row in table}
    held = 0
    for _ in range(2000):
        noise = rng.geometric(p, truth.shape) - rng.geometric(p, truth.shape)
        held += (
            np.all(np.abs(noise) <= half["0", "0"])
            and np.all(np.abs(noise.sum(1)) <= half["0", None])
            and np.all(np.abs(noise.sum(0)) <= half[None, "0"])
            and abs(noise.sum()) <= half[None, None]
        )
    assert 0.96 < held / 2000 < 0.995, "the exact chance is .9786"


def test_empty_cells_lift_no_margin():
    """Clamped at 0, each of 240 empty cells would add .425 people to the total: 102, which no interval holds."""
    parts = {"a": [f"a{n}" for n in range(20)], "b": [f"b{n}" for n in range(12)]}
    nobody = pl.DataFrame({"id": ["x"], "a": ["a0"], "b": ["b0"]})
    tables = [ask(nobody, seed, item=["a", "b"], domain=parts) for seed in range(4)]
    assert any(row.estimate < 0 for table in tables for row in table.cells)
    assert abs(sum(table.whole.estimate for table in tables) / len(tables)) < 45, "4 deviations"


def test_gaussian_noise_reaches_as_far_as_its_law(people, tmp_path):
    ledger = sd.Ledger.create(
        tmp_path / "b.db",
        account="a",
        budget=sd.Budget(epsilon=8, delta=1e-6),
        adjacency="add-remove",
        unit=sd.PrivacyUnit("id"),
        source="name:people",
    )
    with sd.Session(people, unit=sd.PrivacyUnit("id"), ledger=ledger, name="people") as session:
        table = session.table(["town", "age"], epsilon=1, domain=DOMAIN, noise="gaussian")
    cell, total = table["Zug", "65+"], table.whole
    ratio = (total.high - total.low) / (cell.high - cell.low)
    assert 2 < ratio < 3, "nine cells: noise of three times the deviation, at a level for one sum"


def test_figures_of_a_margin_are_sums_of_cells(people):
    table = ask(people, epsilon=8)
    with pytest.raises(InvalidParameter):
        sd.derive(table, ("Zug", None))
    share = table.share(("Zug", "65+"), of=("Zug", None))
    exact = ask(people, epsilon=1000)
    assert share.low <= exact["Zug", "65+"].estimate / exact["Zug", None].estimate <= share.high
    assert 0 < table.share(("Zug", None)).value < 1
    with pytest.raises(KeyError):
        table["nowhere", None]


def test_what_is_wrong_is_said_before(people):
    with pytest.raises(UnknownDomain, match="labels"):
        ask(people, domain=None)
    with pytest.raises(UnknownDomain, match="list the labels of each column"):
        ask(people, domain=[("Zug", "65+"), ("Bern", "0-17")])
    with pytest.raises(InvalidParameter, match="max_cells must be 1 where each row is a person"):
        ask(people, unit=None, max_cells=2)
    wide = sd.Domain.range(0, 2000)
    with pytest.raises(UnknownDomain, match="1,048,576 cells"):
        ask(people, item=["town", "age"], domain={"town": wide, "age": wide})


def test_every_form_tells_the_same(people):
    table = ask(people, not_negative=True)
    record = describe(table)
    said = json.loads(write_json(record))
    assert (said["release"], said["figure"], said["item"]) == (
        "table",
        "table",
        ["town", "age"],
    )
    assert {tuple(row["item"]): row["published"] for row in said["rows"]} == {
        row.item: row.published for row in table
    }
    lines = list(csv.DictReader(io.StringIO(write_csv(record))))
    assert [line["town"] for line in lines[-3:]] == ["Aarau", "Bern", ""]
    assert table.to_polars().columns[:2] == ["town", "age"]
    first, *rest = str(table).splitlines()
    assert first.split() == ["town", "/", "age", *AGES, "Total"]
    assert [line.split()[0] for line in rest[:4]] == [*TOWNS, "Total"]
    whole = [int(number.replace(",", "")) for number in rest[3].split()[1:]]
    assert whole == [table[None, age].published for age in AGES] + [table.whole.published]
    assert "each inside its interval" in rest[4]
    # Three columns are a list, in which a word stands for all labels as well.
    three = str(ask(people, item=list(THREE), domain=THREE)).splitlines()
    assert three[1].split()[:3] == ["Zug", "0-17", "f"]
    assert three[48].split()[:3] == ["Total", "Total", "Total"]


def test_a_table_that_does_not_fit_is_shown_as_it_is(people, monkeypatch):
    monkeypatch.setattr(cross_table, "fit_within", lambda *_: None)
    table = ask(people, not_negative=True)
    assert Counter(row.published for row in table) == {None: len(table)}
    said = json.loads(write_json(describe(table)))
    # A program finds the same columns whether a table was found or not.
    assert said["not_negative"] is False
    assert {row["published"] for row in said["rows"]} == {None}
    assert "published" in write_csv(describe(table)).splitlines()[0].split(",")
    assert "No table without negative numbers fits" in str(table)
    monkeypatch.undo()
    # An interval below 0, whose end is moved up to 0: no whole number lies in it.
    layout = cross_table.Layout(
        sides=(("a", "b"), ("c", "d")), is_row=True, max_cells=1, not_negative=True
    )
    cells = np.array([[-50.0, 60.0], [60.0, 60.0]])
    reach = {(): 5, (0,): 90, (1,): 90, (0, 1): 90}
    rows = layout.list_numbers(cells, cross_table.place_ends(cells, reach), whole=True)
    assert {row.published for row in rows} == {None}
    assert (rows[0].low, rows[0].high, rows[0].estimate) == (0, 0, -50)


def test_the_command(tmp_path, monkeypatch, capsys, people):
    monkeypatch.chdir(tmp_path)
    people.write_csv("people.csv")
    for name, labels in DOMAIN.items():
        (tmp_path / f"{name}.csv").write_text("\n".join([name, *labels]) + "\n", encoding="utf-8")
    line = [
        "table",
        "people.csv",
        "--user",
        "id",
        "--item",
        "town",
        "--item",
        "age",
        "--epsilon",
        "1",
        "--no-ledger",
    ]
    lists = ["--domain", "town=town.csv", "--domain", "age=age.csv"]
    assert run([*line, *lists, "--format", "json", "--no-negative"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["confidence_together"] == 0.95
    assert len(said["rows"]) == 16
    assert run([*line, *lists, "--max-rows", "2"]) == 2
    assert "--max-cells" in capsys.readouterr().err
    assert run([*line, "--domain", "town=town.csv"]) == 2
    assert 'item "age": no labels' in capsys.readouterr().err
    assert Fraction(1) == said["epsilon"]
    assert run([*line, *lists, "--wide", "--output", "wide.csv"]) == 0
    capsys.readouterr()
    wide = list(csv.DictReader((tmp_path / "wide.csv").read_text(encoding="utf-8").splitlines()))
    assert [line["town"] for line in wide[:4]] == [*TOWNS, "Total"]
    assert [*wide[0]][:6] == ["town", "figure", *AGES, "Total"]
    assert run([*line, *lists, "--wide", "--format", "json"]) == 2
    assert "--wide is for --format csv" in capsys.readouterr().err
    for given in (["--help"], ["--help-all"]):
        assert run(["table", *given]) == 0
        told = capsys.readouterr().out
        # What a table refuses is not offered.
        assert not [
            one for one in ("--unlisted", "--assume-public", "--least", "--max-rows") if one in told
        ]
        assert "--no-negative" in told


def test_a_declared_table_needs_the_columns_alone(tmp_path, monkeypatch, capsys, people):
    monkeypatch.chdir(tmp_path)
    people.write_csv("people.csv")
    for name, labels in DOMAIN.items():
        (tmp_path / f"{name}.csv").write_text("\n".join([name, *labels]) + "\n", encoding="utf-8")
    declared = ["declare", "people.csv", "--person", "id", "--epsilon", "9"]
    declared += ["--labels", "town=town.csv", "--labels", "age=age.csv", "--max-rows", "3"]
    assert run(declared) == 0
    line = [
        "table",
        "people",
        "--item",
        "town",
        "--item",
        "age",
        "--epsilon",
        "1",
        "--format",
        "json",
    ]
    capsys.readouterr()
    assert run(line) == 0
    said = json.loads(capsys.readouterr().out)
    # A declared bound is one on rows; a table has its own.
    assert (said["max_rows"], len(said["rows"])) == (1, 16)
    histogram = ["histogram", "people", "--item", "town", "--item", "age", "--epsilon", "1"]
    assert run([*histogram, "--format", "json", "--domain", "age=age.csv"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 9
    with sd.open("people") as shop:
        assert len(shop.table(["town", "age"], epsilon=1).cells) == 9


def test_a_call_brings_its_own_labels(people):
    days = pl.DataFrame(
        {
            "id": range(60),
            "town": ["Zug"] * 60,
            "day": pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 2, 29), eager=True),
        }
    )
    table = ask(days, item=["town", "weekday(day)"], domain={"town": TOWNS}, epsilon=1000)
    assert [row.item[1] for row in table.cells][:7] == list("1234567")
    assert table["Zug", None].estimate == 60
    months = ask(
        days,
        item=["town", "month(day)"],
        domain={"town": TOWNS, "month(day)": "2024-01..2024-03"},
        epsilon=1000,
    )
    assert [months["Zug", f"2024-0{n}"].estimate for n in (1, 2, 3)] == [31, 29, 0]


# ---- a column for each label ------------------------------------------------------------------------------------


def read_wide(names, word, lines, last):
    """Return every number of a wide form by its figure and its labels, as the long form has them."""
    found = {}
    for line in lines:
        own = tuple(None if line[name] == word else line[name] for name in names)
        for label in [*last, word]:
            value = line[label]
            value = None if value in {"", None} else float(value)
            found[line["figure"], (*own, None if label == word else label)] = value
    return found


def test_a_wide_form_has_every_number_of_the_long_one_and_says_of_whom_it_is(people):
    """In CSV and frames, of one column, two and three: nothing is lost, and nothing is another number."""
    for item, negative in itertools.product((("town",), ("town", "age"), tuple(THREE)), (0, 1)):
        domain = {name: THREE[name] for name in item}
        more = {"where": "sex = 'f'", "not_negative": not negative}
        table = ask(people, 3, item=list(item), domain=domain, epsilon=0.2, **more)
        record = describe(table)
        long = {
            (name, tuple(row["item"])): row[name]
            for row in record.rows
            for name in record.columns
            if name != "item"
        }
        told = write_csv(pivot_table(record))
        lines = list(csv.DictReader(io.StringIO(told)))
        assert read_wide(item[:-1], "Total", lines, THREE[item[-1]]) == long
        # The first lines are the table that is shown, its labels in their order, the total last.
        shown = "estimate" if negative else "published"
        sides = [[*THREE[name], "Total"] for name in item[:-1]]
        first = lines[: math.prod(map(len, sides))]
        assert {line["figure"] for line in first} == {shown}
        assert [tuple(line[name] for name in item[:-1]) for line in first] == list(
            itertools.product(*sides)
        )
        # Lines are taken out of their file: each says of whom it is.
        for line in lines:
            assert (line["where"], line["unit"], line["max_rows"]) == (
                "sex = 'f'",
                "column id",
                "1",
            )
            assert "rows without a value in id" in line["left_out"]
            assert (line["epsilon"], line["simulated"]) == ("0.2", "yes")
        for frame in (table.pivot().to_polars(), pl.from_pandas(table.pivot().to_pandas())):
            found = read_wide(item[:-1], "Total", frame.to_dicts(), THREE[item[-1]])
            assert {
                key: None if value == math.inf else value for key, value in found.items()
            } == long
            assert set(frame["where"]) == {"sex = 'f'"}
            assert set(frame["max_rows"]) == {1}


def test_labels_called_as_what_is_said_beside_them_hide_nothing():
    """A label `where`, a column `figure`: each form keeps the filter, and what a line is."""
    rows = pl.DataFrame(
        {"where": ["unit", "where"] * 50, "b": ["where", "max_rows"] * 50, "id": range(100)}
    )
    session = sd.Session(rows, unit=sd.PrivacyUnit("id"), entropy=sd.Seeded(1))
    domain = {"where": ["unit", "where"], "b": ["where", "max_rows", "figure", "low"]}
    table = session.table(["where", "b"], epsilon=1, domain=domain, where="id < 90")
    lines = list(csv.DictReader(io.StringIO(write_csv(pivot_table(describe(table))))))
    assert {line["where"] for line in lines} == {"id < 90"}
    assert {line["max_rows"] for line in lines} == {"1"}
    assert {line["figure"] for line in lines} == {
        "estimate",
        "low",
        "high",
        "true_low",
        "true_high",
    }
    assert float(lines[1]["item.max_rows"]) == table["where", "max_rows"].estimate
    for frame in (table.to_polars(), table.pivot().to_polars()):
        assert set(frame["where"]) == {"id < 90"}
        assert set(frame["max_rows"]) == {1}
        assert set(frame["item.where"]) >= {"unit", "where"}


# ---- what a hostile reviewer has found --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names", [("item", "b"), ("b", "item"), ("low", "item.low"), ("item.low", "low")]
)
@pytest.mark.sample(4)
def test_columns_of_any_name_are_printed(names):
    rows = pl.DataFrame({names[0]: ["x", "y"] * 50, names[1]: ["p", "q"] * 50})
    session = sd.Session(rows, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(1))
    domain = {names[0]: ["x", "y"], names[1]: ["p", "q"]}
    for release in (
        session.histogram(list(names), epsilon=1, domain=domain),
        session.table(list(names), epsilon=1, domain=domain),
        session.top_k(list(names), k=2, epsilon=1, domain=domain),
    ):
        assert "x" in str(release)
        assert "<table>" in release._repr_html_()
        first, second = (
            release.to_polars().columns[:2]
            if not hasattr(release.rows[0], "rank")
            else release.to_polars().columns[1:3]
        )
        assert first != second
        for form in (release.to_polars(), pl.read_csv(write_csv(describe(release)).encode())):
            assert set(form[first].drop_nulls()) == {"x", "y"}
            assert set(form[second].drop_nulls()) == {"p", "q"}


def test_whatever_is_refused_costs_nothing(people, tmp_path):
    ledger = sd.Ledger.create(
        tmp_path / "b.db",
        account="a",
        budget=sd.Budget(epsilon=8),
        adjacency="add-remove",
        unit=sd.PrivacyUnit("id"),
        source="name:people",
    )
    twice = sd.Domain.indexed(3, label=lambda place: "p" if place < 2 else "q")
    with sd.Session(people, unit=sd.PrivacyUnit("id"), ledger=ledger, name="people") as session:
        for domain in (
            [("Zug", "65+"), ("Bern", "0-17")],
            DOMAIN | {"age": ["", "65+"]},
            {"town": TOWNS, "age": twice},
        ):
            with pytest.raises((InvalidParameter, UnknownDomain)):
                session.table(["town", "age"], epsilon=1, domain=domain)
        with pytest.raises(InvalidParameter, match="must be tuples"):
            session.histogram(["town", "age"], epsilon=1, domain=[("Zug", "65+"), "ab"])
    assert ledger.remaining == 8


def test_appearances_are_not_people():
    """A thousand persons, each in two cells: no lower bound of people is above a thousand."""
    rows = pl.DataFrame(
        {"id": [*range(1000)] * 2, "a": ["x"] * 1000 + ["y"] * 1000, "b": ["f"] * 2000}
    )
    table = ask(rows, item=["a", "b"], domain={"a": ["x", "y"], "b": ["f", "g"]}, max_cells=2)
    assert table.whole.low > 1900
    assert table.whole.true_low <= 1000
    assert table[None, "f"].true_low <= 1000
    # A row of one column has one cell with label f.
    assert 900 < table["x", "f"].true_low <= 1000
    assert "margins count appearances" in str(table)
    assert "appearances" in table.to_text(details=True)


def test_a_label_called_total_is_no_margin():
    total = ["Total", "(Total)"]
    rows = pl.DataFrame({"a": ["Total", "x"] * 300, "b": total * 300})
    table = sd.Session(rows, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(1)).table(
        ["a", "b"], epsilon=1, domain={"a": ["Total", "x"], "b": total}
    )
    lines = str(table).splitlines()
    assert lines[0].split() == ["a", "/", "b", *total, "((Total))"]
    assert [line.split()[0] for line in lines[1:4]] == ["Total", "x", "((Total))"]
    assert table.pivot().to_polars().columns == ["a", "figure", *total, "((Total))"]


def test_confidence_is_true_of_every_row(people):
    table = ask(people)
    record = describe(table)
    assert record.facts["confidence"] == record.facts["confidence_together"] == 0.95
    assert table.share(("Zug", "65+")).confidence == 0.95


def test_reports_show_what_the_table_shows(people):
    table = ask(people, epsilon=0.1, not_negative=True)
    assert table.whole.published is not None
    from sordino.report import make_report

    page = make_report([table])
    assert "\u2212" not in page.split("<table", 2)[1].split("</table>")[0]


def test_options_of_one_column_are_refused_with_several(tmp_path, monkeypatch, capsys, people):
    monkeypatch.chdir(tmp_path)
    people.write_csv("people.csv")
    line = [
        "table",
        "people.csv",
        "--user",
        "id",
        "--item",
        "town",
        "--item",
        "age",
        "--epsilon",
        "1",
        "--no-ledger",
    ]
    for option in (["--least", "3"], ["--delta", "1e-6"]):
        assert run([*line, *option, "--domain", "town=t.csv"]) == 2
        assert option[0] in capsys.readouterr().err


@pytest.mark.parametrize("of", [None, ("Zug", None), (None, "65+")])
@pytest.mark.sample(3)
def test_a_share_is_the_ratio_of_sums_of_derived_cells(people, of):
    table = ask(people, epsilon=4)
    whole = (None, None) if of is None else of
    cells = [one for one in CELLS if all(b in {None, a} for a, b in zip(one, whole, strict=True))]
    total = sum(sd.derive(table, one, confidence=0.95) for one in cells)
    expected = sd.derive(table, ("Zug", "65+"), confidence=0.95) / total
    found = table.share(("Zug", "65+"), of=of)
    assert (found.value, found.low, found.high) == (expected.value, expected.low, expected.high)
    with pytest.raises(KeyError):
        table.share(("Zug",))


def test_a_picture_shows_what_the_table_shows(people):
    table = ask(people, epsilon=0.1, not_negative=True)
    shown = {row.item: row.published for row in table}
    assert any(row.estimate != row.published for row in table)
    chart = table.plot().to_dict()
    points = [one for layer in chart["layer"] for one in layer["data"]["values"]]
    drawn = {(one["line"], one["head"]): one["value"] for one in points}
    assert drawn == {
        tuple("Total" if part is None else part for part in item): float(n)
        for item, n in shown.items()
    }
    # What colors mean is said above.
    assert "the stronger its color" in " ".join(chart["title"]["text"])
