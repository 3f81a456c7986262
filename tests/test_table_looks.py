"""Cross tables that are measured again, and tables whose margins are measured: what was released counts, never what is shown."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction
from importlib.resources import files

import numpy as np
import polars as pl
import pytest

import sordino as sd
from sordino.errors import InvalidParameter, LedgerError
from sordino.figures import table_sums
from sordino.figures.table_fit import list_margins
from sordino.record_text import write_csv, write_json
from sordino.results import describe
from sordino.session import cross_table, kept_again
from sordino.session.looks import read_look
from support.json_schema import check

FORM = json.loads(files("sordino.cli").joinpath("release.schema.json").read_text(encoding="utf-8"))
TOWNS, AGES = ["Zug", "Aarau", "Bern"], ["0-17", "18-64", "65+"]
DOMAIN = {"town": TOWNS, "age": AGES}
ITEM, UNIT = ["town", "age"], sd.PrivacyUnit("id")


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    draw = np.random.default_rng(2)
    frame = pl.DataFrame(
        {
            "id": [f"p{n}" for n in range(400)],
            "town": [TOWNS[n] for n in draw.integers(0, 2, 400)],
            "age": [AGES[n] for n in draw.integers(0, 3, 400)],
        }
    )
    path = tmp_path_factory.mktemp("people") / "people.parquet"
    frame.write_parquet(path)
    return path


def account(path, people, **budget):
    return sd.Ledger.create(
        path,
        account="a",
        budget=sd.Budget(**(budget or {"epsilon": 60})),
        adjacency="add-remove",
        unit=UNIT,
        source=str(people),
    )


def is_sum(rows, value):
    """Tell whether every margin is the sum of its cells, exactly."""
    cells = {row.item: getattr(row, value) for row in rows if None not in row.item}
    return all(
        getattr(row, value)
        == sum(
            one
            for item, one in cells.items()
            if all(b in {None, a} for a, b in zip(item, row.item, strict=True))
        )
        for row in rows
    )


# ---- measured again ---------------------------------------------------------------------------------------------


def test_a_table_is_measured_again_from_what_was_released(people, tmp_path):
    """Twin: whole numbers that are not below 0 were taken for the estimates, which raises every empty cell."""
    ledger = account(tmp_path / "a.db", people)
    with sd.Session(people, unit=UNIT, ledger=ledger) as session:
        for _ in range(50):
            first = session.table(ITEM, epsilon=Fraction(1, 10), domain=DOMAIN, not_negative=True)
            shown = {row.item: row.published for row in first.cells}
            if any(row.estimate < 0 == shown[row.item] for row in first.cells):
                break
        session.keep(first)
        key, spent = first.receipt.id, ledger.statement().spent
        again = session.remeasure(first, epsilon=Fraction(3, 10), planned=True)
        assert ledger.statement().spent - spent == Fraction(3, 10)
        assert again.population.epsilon == 0.3
    raw = {row.item: row.estimate for row in first.cells}
    assert raw != shown
    # Another process knows the same numbers, and no others.
    with sd.Session(people, unit=UNIT, ledger=sd.Ledger.open(ledger.url, account="a")) as session:
        kept = session.remeasure(key, epsilon=Fraction(3, 10), planned=True)
    for made in (again, kept):
        check(json.loads(write_json(describe(made))), FORM)
        before, fresh = made.looks
        assert {item: float(row.terms[0].value) for item, row in read_look(before).items()} == raw
        for item, number in raw.items():
            assert sd.derive(before, item).value == number
        # One tenth of the precision against nine: the variances of the laws say it.
        variances = [
            1 / look.terms[0].law.variance
            for look in (read_look(before)["Zug", "65+"], read_look(fresh)["Zug", "65+"])
        ]
        weights = [one / sum(variances) for one in variances]
        new = {row.item: row.estimate for row in fresh}
        for row in made:
            old = first[row.item].estimate
            # Weights are whole thousandths of the larger one, and cells are rounded to a grid.
            rounded = abs(old - new[row.item]) / 2000 + len(first.cells) / 2**20
            assert row.estimate == pytest.approx(
                weights[0] * old + weights[1] * new[row.item], abs=rounded
            )
            assert row.measured == new[row.item]
        assert [row.item for row in made] == [row.item for row in first]
        assert is_sum(made, "estimate")
        assert made.together == made.confidence == 0.95
        published = [row.published for row in made]
        if None not in published:
            assert is_sum(made, "published")
            assert min(published) >= 0
            assert all(max(row.low, 0) <= row.published <= row.high for row in made)


def test_another_look_alone_has_its_own_intervals_and_adds_up(people):
    """Also where the first look lies far off: then it counts for nothing, and nothing is moved by itself."""
    for seed in range(4):
        session = sd.Session(people, unit=UNIT, entropy=sd.Seeded(seed))
        first = session.table(ITEM, epsilon=0.5, domain=DOMAIN, not_negative=seed % 2 == 0)
        again = session.remeasure(first, epsilon=0.4)
        fresh = again.looks[-1]
        assert [(row.low, row.high) for row in again] == [(row.low, row.high) for row in fresh]
        assert is_sum(again, "estimate")
        known = [row for row in again if row.published is not None]
        assert known in ([], list(again))
        assert all(row.low <= row.published <= row.high for row in known)
        assert not known or is_sum(again, "published")
        # A third look knows both before it.
        third = session.remeasure(again, epsilon=2)
        assert third.rows[0].standard_error < again.rows[0].standard_error
        assert len(third.looks) == 3
        if first.not_negative is False:
            far = replace(
                first, rows=tuple(replace(row, estimate=row.estimate + 500) for row in first.rows)
            )
            from sordino.session.looks import join_table_looks

            cell = first.cells[0].item
            told = read_look(first)
            moved = {
                item: replace(row, terms=(replace(row.terms[0], value=row.terms[0].value + 500),))
                for item, row in told.items()
            }
            joined = join_table_looks(fresh, [moved, read_look(fresh)], planned=False)
            assert [row.estimate for row in joined.rows] == [row.estimate for row in fresh]
            assert far[cell].estimate - told[cell].terms[0].value == 500
    check_forms(people)


@pytest.mark.slow
def test_planned_looks_hold_together():
    """Of 2,000 pairs of looks at a table of 3 x 3, at least 95 in 100 hold all sixteen numbers."""
    frame = pl.DataFrame({"id": ["x"], "town": ["Zug"], "age": ["65+"]})
    session = sd.Session(frame, unit=UNIT, entropy=sd.Seeded(1))
    first = session.table(ITEM, epsilon=Fraction(1, 2), domain=DOMAIN)
    again = session.remeasure(first, epsilon=1, planned=True)
    width = {tuple(part is None for part in row.item): row.high - row.low for row in again}
    draw, held = np.random.default_rng(4), 0
    variances = [2 * math.exp(-e) / (1 - math.exp(-e)) ** 2 for e in (0.5, 1)]
    share = variances[1] / sum(variances)
    for _ in range(2000):
        old, new = (
            draw.geometric(1 - math.exp(-e), (3, 3)) - draw.geometric(1 - math.exp(-e), (3, 3))
            for e in (0.5, 1)
        )
        noise = share * old + (1 - share) * new
        held += all(
            # Ends are whole numbers, so the true count lies between them at up to half a width.
            np.all(
                np.abs(noise.sum(axis=axes)) <= width[tuple(a in axes for a in (0, 1))] / 2 + 0.5
            )
            for axes in list_margins(2)
        )
    assert 0.95 <= held / 2000 < 0.995


def test_a_kept_table_that_somebody_else_has_written_is_refused(people, tmp_path, monkeypatch):
    ledger, real = account(tmp_path / "a.db", people), kept_again.add_again

    def forge(change, item=ITEM, domain=DOMAIN):
        def add(*given):
            record = real(*given)
            change(record.again)
            return record

        monkeypatch.setattr(kept_again, "add_again", add)
        with sd.Session(people, unit=UNIT, ledger=ledger) as session:
            release = session.table(item, epsilon=1, domain=domain)
            session.keep(release)
        return release.receipt.id

    for change in (
        lambda again: again["labels"].pop(),
        lambda again: again["labels"].insert(0, again["labels"].pop()),
        lambda again: again.update(labels=["Zug"] * 9),
        lambda again: again["request"].update(max_cells=0),
        lambda again: again["request"].update(item="town"),
        lambda again: again["looks"][0]["rows"].pop(),
    ):
        key, spent = forge(change), ledger.remaining
        with (
            sd.Session(people, unit=UNIT, ledger=ledger) as session,
            pytest.raises((InvalidParameter, LedgerError)),
        ):
            session.remeasure(key, epsilon=1)
        assert ledger.remaining == spent - 0
    # As it was written, of one column as well.
    key = forge(lambda again: None, item="town", domain=TOWNS)
    with sd.Session(people, unit=UNIT, ledger=ledger) as session:
        again = session.remeasure(key, epsilon=1)
        assert [row.item for row in again] == [("Zug",), ("Aarau",), ("Bern",), (None,)]
        assert again.to_polars()["item"].to_list() == [*TOWNS, None]


def check_forms(people):
    """Every form of another look says what it is."""
    session = sd.Session(people, unit=UNIT, entropy=sd.Seeded(5))
    first = session.table(ITEM, epsilon=0.5, domain=DOMAIN, not_negative=True)
    for planned in (False, True):
        again = session.remeasure(first, epsilon=0.75, planned=planned)
        lines = str(again).splitlines()
        assert lines[0].split() == ["town", "/", "age", *AGES, "Total"]
        around = "estimate" if planned else "new look alone"
        assert f"each inside its interval ({around}, cells ±" in lines[5]
        assert "Spent: epsilon 0.75. All looks together: epsilon 1.25." in lines[-1]
        said = json.loads(write_json(describe(again)))
        assert (said["release"], said["figure"], said["looks"]) == ("remeasure", "table", 2)
        assert len(said["rows"]) == 16
        told = list(csv.DictReader(io.StringIO(write_csv(describe(again)))))
        assert [line["town"] for line in told[-3:]] == ["Aarau", "Bern", ""]


# ---- measured margins -------------------------------------------------------------------------------------------


def wide(rows, columns):
    return {
        "r": [f"r{n}" for n in range(rows)],
        "c": [f"c{n}" for n in range(columns)],
    }


def ask_measured(shape=(10, 10), epsilon=1, seed=1, adjacency="add-remove", **more):
    frame = pl.DataFrame({"id": range(300), "r": ["r0", "r1", "r2"] * 100, "c": ["c0", "c1"] * 150})
    session = sd.Session(
        frame, unit=sd.PrivacyUnit("id", adjacency=adjacency), entropy=sd.Seeded(seed)
    )
    return session.table(
        ["r", "c"], epsilon=epsilon, domain=wide(*shape), margins="measured", **more
    )


def test_measured_margins_add_up_and_cost_what_was_asked(monkeypatch):
    for epsilon, more in itertools.product((0.1, 2), ({}, {"not_negative": True})):
        table = ask_measured(epsilon=epsilon, **more)
        assert table.measured == ((), (0, 1))
        assert table.cost.pure() == Fraction(str(epsilon))
        assert is_sum(table, "estimate")
        shown = [row.published for row in table]
        if None not in shown:
            assert is_sum(table, "published")
            assert all(row.low <= row.published <= row.high for row in table)
        record = describe(table)
        assert record.facts["margins"] == ["total"]
        assert record.facts["not_negative" if more else "whole"] is (None not in shown)
        assert record.facts["noise"] == "laplace"
        assert "measure_noise" not in record.facts
    # The total is that of a count with 19% of epsilon, and better: without it, ± 34.
    assert (table.whole.high - table.whole.low) / 2 < 12
    small = ask_measured((7, 7))
    assert small.measured == ()
    assert describe(small).facts.get("margins") is None
    with pytest.raises(InvalidParameter, match="margins must be sums where a person counts in sev"):
        ask_measured(max_cells=2)
    monkeypatch.setattr(cross_table, "MOST_MEASURED", 99)
    with pytest.raises(InvalidParameter, match="more than 99 cells"):
        ask_measured()
    monkeypatch.undo()
    frame = pl.DataFrame({"id": [1], "r": ["r0"], "c": ["c0"]})
    session = sd.Session(frame, unit=UNIT, entropy=sd.Seeded(1))
    unkept = session.table(["r", "c"], epsilon=1, domain=wide(10, 10), margins="measured")
    with pytest.raises(InvalidParameter, match="whose margins are sums"):
        session.remeasure(unkept, epsilon=1)
    with pytest.raises(InvalidParameter):
        sd.derive(table, ("r0", "c0"))
    share = table.share(("r0", None))
    assert share.low < 1 / 3 < share.high
    assert share.value == pytest.approx(table["r0", None].estimate / table.whole.estimate, rel=1e-4)


def test_an_account_with_a_delta_measures_all_margins_with_gaussian_noise(people, tmp_path):
    """One charge, of the price of what was asked; all figures come nearly as near as a cell alone."""
    ledger = account(tmp_path / "a.db", people, epsilon=8, delta=1e-6)
    domain = {"town": [*TOWNS, "x", "y"], "age": [*AGES, "x", "y"]}
    costs = {}
    with sd.Session(people, unit=UNIT, ledger=ledger) as session:
        for margins in ("sums", "measured"):
            before = ledger.statement().spent
            table = session.table(ITEM, epsilon=Fraction(1, 10), domain=domain, margins=margins)
            costs[margins] = ledger.statement().spent - before
            assert describe(table).facts["noise"] == "gaussian"
            half = (table.whole.high - table.whole.low) / 2
            costs[margins, "total"], costs[margins, "error"] = half, table.standard_error
    assert describe(table).facts["margins"] == ["age", "town", "total"]
    check(json.loads(write_json(describe(table))), FORM)
    assert costs["measured"] <= costs["sums"] <= costs["measured"] * Fraction(1001, 1000)
    # Five by five: 1.67 of a cell alone in place of five.
    assert costs["measured", "error"] / costs["sums", "error"] == pytest.approx(1.67, abs=0.02)
    assert costs["measured", "total"] < costs["sums", "total"] / 2


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "gaussian"), [((10, 10), False), ((5, 5), True), ((6, 5), True)])
def test_all_intervals_of_measured_margins_hold_together(shape, gaussian):
    """Of 2,000 tables at least 95 in 100 hold cells, rows, columns and total at once."""
    shares = table_sums.share_margins(shape, gaussian=gaussian)
    mechanisms = {
        axes: sd.GaussianMechanism(rho=share / 8, sensitivity=sd.COUNTING)
        if gaussian
        else sd.LaplaceMechanism(epsilon=share, sensitivity=sd.COUNTING)
        for axes, share in shares.items()
    }
    mix = cross_table.find_mix(shape, mechanisms)
    reach = cross_table.find_table_reach(mechanisms, shape)
    truth, draw, held, many = np.zeros(shape), np.random.default_rng(4), 0, 2000
    truth[0, 0] = 40
    noises = {
        axes: draw_noise(one, draw, [many, *(1 if a in axes else n for a, n in enumerate(shape))])
        for axes, one in mechanisms.items()
    }
    sums = {axes: truth.sum(axis=axes, keepdims=True) for axes in list_margins(2)}
    for number in range(many):
        cells = table_sums.round_cells(
            mix.estimate({axes: sums[axes] + noise[number] for axes, noise in noises.items()})
        )
        ends = cross_table.place_ends(cells, reach, rounded=True)
        held += all(
            np.all((low <= sums[axes]) & (sums[axes] <= high)) for axes, (low, high) in ends.items()
        )
    assert held / many >= 0.95


def draw_noise(mechanism, draw, shape):
    """Draw by another way than the samplers: from the tails of the law."""
    tails = np.asarray(mechanism.noise.sf(np.arange(-1, 400)), dtype=float)
    half = tails[:-1] - tails[1:]
    mass = np.concatenate([half[:0:-1], half])
    return draw.choice(np.arange(-399, 400), size=shape, p=mass / mass.sum())


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.sample(2)
def test_the_loss_of_measured_margins_is_what_is_charged(adjacency, monkeypatch):
    """Enumerated: cells and total of a table of two, every outcome, every pair of neighbors.

    Twin: each measurement with all of epsilon.
    """
    monkeypatch.setattr(table_sums, "TOTAL_FROM", 2)
    epsilon = Fraction(1)
    table = ask_measured((2, 1), epsilon=epsilon, adjacency=adjacency)
    assert table.measured == ((), (0, 1))
    cell, total = (table.mechanisms[axes].noise for axes in table.measured)
    support = range(-6, 12)

    def chance(law, distance):
        rate = float(law.rate)
        return math.log(math.tanh(rate / 2)) - rate * abs(distance)

    def log_law(truth):
        """Return the logarithm of the chance of every outcome, of two cells and their total."""
        return {
            out: chance(cell, out[0] - truth[0])
            + chance(cell, out[1] - truth[1])
            + chance(total, out[2] - sum(truth))
            for out in itertools.product(support, repeat=3)
        }

    base = (2, 3)
    moves = [(1, 0), (0, 1)] if adjacency == "add-remove" else [(1, 0), (0, 1), (1, -1), (-1, 1)]
    worst = 0.0
    known = log_law(base)
    for move in moves:
        other = log_law((base[0] + move[0], base[1] + move[1]))
        worst = max(worst, *(abs(known[out] - other[out]) for out in known))
    assert worst <= float(epsilon) + 1e-9
    # It is used up, where a person comes or goes.
    assert adjacency == "replace-one" or worst > float(epsilon) - 1e-9
    assert table.cost.pure() == epsilon


def test_a_plan_says_how_far_each_margin_reaches(people):
    session = sd.Session(people, unit=UNIT, entropy=sd.Seeded(1))
    table = session.table(ITEM, epsilon=1, domain=DOMAIN)
    plan = session.plan.table(ITEM, epsilon=1, domain=DOMAIN)
    assert [row.figure for row in plan] == ["each cell", "each age", "each town", "the total"]
    for row, item in zip(
        plan, (("Zug", "65+"), (None, "65+"), ("Zug", None), (None, None)), strict=True
    ):
        assert row.widest == table[item].high - table[item].low
    # What is assumed changes nothing, and that is said; a share is one of what was assumed.
    assert plan.assumed == ""
    assert (
        "nothing of the data"
        in session.plan.table(ITEM, epsilon=1, domain=DOMAIN, like="flat").assumed
    )
    assert (
        "nothing of the data"
        in session.plan.histogram("town", epsilon=1, domain=TOWNS, like="flat").assumed
    )
    aimed = session.plan.table(ITEM, goal="±8", domain=DOMAIN)
    assert aimed.rows[0].widest <= 16 < aimed.rows[3].widest
    share = session.plan.table(ITEM, goal="5%", domain=DOMAIN, like="flat", rows=9000)
    assert share.assumed.startswith("9,000 pairs")
    measured = session.plan.table(ITEM, epsilon=1, margins="measured", domain=DOMAIN)
    assert [row.widest for row in measured] == [row.widest for row in plan]
    frame = pl.DataFrame({"id": [1], "r": ["r0"], "c": ["c0"]})
    large = sd.Session(frame, unit=UNIT, entropy=sd.Seeded(1))
    asked = {"epsilon": 1, "domain": wide(10, 10)}
    sums, better = (
        large.plan.table(["r", "c"], margins=margins, **asked) for margins in ("sums", "measured")
    )
    assert better.rows[3].standard_error < sums.rows[3].standard_error / 1.9
    assert better.rows[0].standard_error == pytest.approx(1.69, abs=0.01)
