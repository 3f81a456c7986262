"""Measured again from what a ledger has kept: in another process the same law; and what somebody may have written there."""

from __future__ import annotations

import json
import math
import sqlite3
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import sordino as sd
from sordino.ledger.history import chained
from sordino.record import Record
from sordino.report import make_report
from sordino.session import kept_again
from sordino.session.looks import Joined, KeptLook, read_look

ENDS = {"lower": 0, "cap": 1e6}
GROUPS = {"by": "g", "domain": ["b", "a"], "groups_per_unit": 1}
UNIT = sd.PrivacyUnit("u", max_rows=1)
LOOKS = {
    "count": lambda s, e: s.count(epsilon=e, where="x > 10"),
    "count_distinct_units": lambda s, e: s.count_distinct_units(epsilon=e),
    "histogram": lambda s, e: s.histogram("g", epsilon=e, domain=["b", "a"], simultaneous=True),
    "bins": lambda s, e: s.value_histogram("x", epsilon=e, bins=[10, 20, 40], per_person="sum"),
    "gaussian": lambda s, e: s.histogram("g", epsilon=e, domain=["b", "a"], noise="gaussian"),
    "top_k": lambda s, e: s.top_k("g", k=2, epsilon=2 * e, domain=["b", "a"], method="gaps"),
    "sum": lambda s, e: s.sum("x", epsilon=e, **ENDS),
    "sum of groups": lambda s, e: s.sum("x", epsilon=e, **ENDS, **GROUPS),
    "sum in all groups": lambda s, e: s.sum(
        "x", epsilon=e, by="g", domain=["b", "a"], per_person="sum", **ENDS
    ),
    "mean": lambda s, e: s.mean("x", epsilon=e, lower=None, cap=1e6, growth=1.1, where="x > 1"),
    "mean of groups": lambda s, e: s.mean("x", epsilon=e, **ENDS, **GROUPS),
    "mean of weighed rows": lambda s, e: s.mean("x", epsilon=e, weight_cap="auto", **ENDS),
    "means of weighed rows": lambda s, e: s.mean(
        "x", epsilon=e, by="g", domain=["b", "a"], weight_cap=1, **ENDS
    ),
    "variance": lambda s, e: s.variance("x", epsilon=e, **ENDS),
    "variance of weighed rows": lambda s, e: s.variance("x", epsilon=e, weight_cap="auto", **ENDS),
    "variances of weighed rows": lambda s, e: s.variance(
        "x", epsilon=e, by="g", domain=["b", "a"], weight_cap=1, **ENDS
    ),
}
every = pytest.mark.parametrize("kind", LOOKS)


def rows(n=1200):
    x = np.random.default_rng(2).lognormal(3, 0.5, n)
    return pl.DataFrame({"u": range(n), "g": [["a", "b"][i % 2] for i in range(n)], "x": x})


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("kept") / "rows.parquet"
    rows().write_parquet(path)
    return path


def make(tmp_path, table, name="a.db", unit=UNIT, account="rows", **budget):
    about = {"adjacency": unit.adjacency, "unit": unit, "source": str(table)}
    return sd.Ledger.create(
        tmp_path / name,
        account=account,
        budget=sd.Budget(**(budget or {"epsilon": 60, "delta": 1e-6})),
        **about,
    )


@pytest.fixture
def ledger(tmp_path, table):
    return make(tmp_path, table)


def opened(ledger, table, unit=UNIT, **more):
    """Return a session that knows nothing of any other one."""
    other = sd.Ledger.open(ledger.url, account=ledger.account)
    return sd.Session(table, unit=unit, ledger=other, **more)


def keep(ledger, table, kind, unit=UNIT):
    session = opened(ledger, table, unit)
    release = LOOKS[kind](session, 1)
    session.keep(release)
    return release


@pytest.mark.slow
def test_a_kept_mean_of_weighed_rows_is_measured_with_its_weight_and_its_search(table, ledger):
    """Twin: the other process said no weight, and a page told of sums where rows were weighed."""
    session = sd.Session(table, unit=UNIT, ledger=ledger)
    asked = {"by": "g", "domain": ["b", "a"], "weight_cap": "auto", **ENDS}
    first = session.mean("x", epsilon=1, **asked)
    session.keep(first)
    other = opened(ledger, table)
    again = other.remeasure(first.receipt.id, epsilon=1)
    one, two = (first.rows[0].release, again.looks[-1].rows[0].release)
    assert two.weights == one.weights
    assert two.found.ends == one.found.ends
    assert again.population.weight_cap == one.weights.cap
    assert again.population.units_beyond == one.weights.beyond
    said = f"counts as {one.weights.cap}"
    assert any(said in note for note in again.population.list_notes())
    page = make_report([again])
    assert f"counts as more than {one.weights.cap}" in page
    assert "none counts for more than" not in page


def test_a_weight_of_somebody_else_is_refused_before_the_charge(table, ledger, monkeypatch):
    """Whoever writes the record: another weight, none, or the figure of sums."""
    session = sd.Session(table, unit=UNIT, ledger=ledger)
    asked = {"by": "g", "domain": ["b", "a"], "weight_cap": 1, **ENDS}
    real = kept_again.add_again

    def forge(change):
        def add(*given):
            record = real(*given)
            change(record.again)
            return record

        monkeypatch.setattr(kept_again, "add_again", add)
        release = session.mean("x", epsilon=1, **asked)
        session.keep(release)
        return release.receipt.id

    for change in (
        lambda again: again["request"].update(weight_cap=2),
        lambda again: again["request"].update(weight_cap="<b>"),
        lambda again: again["request"].update(weight_cap={"a": 1}),
        lambda again: again["clips"]["parameters"].update(weight_cap=None),
        lambda again: again["clips"].update(tail=10**18),
        lambda again: again["clips"].update(tail="7"),
    ):
        kept = forge(change)
        spent = ledger.remaining
        with pytest.raises((sd.InvalidParameter, sd.LedgerError)):
            opened(ledger, table).remeasure(kept, epsilon=1)
        assert ledger.remaining == spent


@every
@pytest.mark.sample(12)
def test_what_was_kept_is_measured_again_as_it_would_be_in_its_session(ledger, table, kind):
    release = keep(ledger, table, kind)
    key, spent = release.receipt.id, ledger.statement().spent
    again = opened(ledger, table).remeasure(key, epsilon=2)
    line = ledger.statement().charges[-1]
    assert (line.label, line.detail["remeasures"]) == ("remeasure", key)
    assert ledger.statement().spent > spent
    assert ledger.verify().sound
    # What is kept says exactly what the release says.
    kept, fresh = again.looks
    assert isinstance(kept, KeptLook)
    wanted = read_look(release)
    for name, row in read_look(kept).items():
        told = [(term.value, term.law, term.step, term.rounded) for term in row.terms]
        assert told == [
            (term.value, term.law, term.step, term.rounded) for term in wanted[name].terms
        ]
        assert row.records == wanted[name].records
    assert list(read_look(kept)) == list(wanted)
    # Of groups each has a clip of its own.
    assert kept.clipped == (again.base.clips is not None)
    if getattr(release, "clip", None) is not None:
        assert kept.clipped
        assert fresh.clip == release.clip
        assert fresh.found.mechanism == release.found.mechanism
    rows = [(row.item, row.low, row.high) for row in again]
    said = getattr(fresh, "rows", [fresh])
    of = {getattr(one, "item", None): getattr(one, "release", one) for one in said}
    assert rows == [(item, of[item].low, of[item].high) for item, _, _ in rows]
    assert again.total is not None
    for row in again:
        assert row.low <= row.estimate <= row.high
    # It is released as any other: kept, and measured a third time.
    session = opened(ledger, table)
    second = session.remeasure(key, epsilon=1)
    session.keep(second)
    third = opened(ledger, table).remeasure(second.receipt.id, epsilon=1)
    assert [type(look).__name__ for look in third.looks[:2]] == ["KeptLook", "KeptLook"]
    assert third.rows[0].standard_error < second.rows[0].standard_error
    assert session.remeasure(second, epsilon=1).looks[0].charge == key
    json.dumps(third.to_dict(), allow_nan=False)


def test_the_clip_costs_nothing_the_second_time(tmp_path, table):
    # An account of epsilons alone has Laplace noise.
    ledger = make(tmp_path, table, epsilon=60)
    release = keep(ledger, table, "sum")
    again = opened(ledger, table).remeasure(release.receipt.id, epsilon=Fraction(13, 20))
    assert again.looks[1].standard_error == pytest.approx(release.standard_error, rel=1e-6)
    assert again.cost.pure() == Fraction(13, 20)


@pytest.mark.parametrize("kind", ["gaussian", "sum of groups"])
def test_figures_of_kept_rows_are_those_of_the_release(ledger, table, kind):
    """The rows of a kept look are different numbers: a difference of two is not 0 with certainty."""
    release = keep(ledger, table, kind)
    look = opened(ledger, table).remeasure(release.receipt.id, epsilon=1).looks[0]
    figures = []
    for one in (look, release):
        a, b = sd.derive(one, "a"), sd.derive(one, "b")
        made = [a - b, a / b, *([sd.add_rows(one, ["a", "b"])] if kind == "gaussian" else [])]
        figures.append([(figure.value, figure.low, figure.high) for figure in made])
    for (value, low, high), first in zip(*figures, strict=True):
        # By chance the noise may make it 0; its interval is wide all the same.
        assert value == first[0]
        # Noises of one look are independent; those of groups, each with a clip of its own, are taken apart.
        assert first[1] <= low < value < high <= first[2]
        assert kind == "sum of groups" or (low, high) == first[1:]


@pytest.mark.parametrize("kind", ["count_distinct_units", "gaussian", "sum of groups"])
@pytest.mark.sample(3)
def test_a_kept_look_is_no_second_look_beside_its_release(ledger, table, kind):
    """Not even a planned interval takes both for independent: the mean would seem finer than it is."""
    session = opened(ledger, table)
    release = LOOKS[kind](session, 1)
    session.keep(release)
    item = 0 if kind == "count_distinct_units" else "a"
    one = sd.derive(release, None if item == 0 else item)
    kept = [session.remeasure(release.receipt.id, epsilon=1).looks[0] for _ in range(2)]
    for twin in kept:
        mean = sd.derive((one + sd.derive(twin, item)) / 2, planned=True)
        assert mean.high - mean.low >= one.high - one.low
    mean = sd.derive((sd.derive(kept[0], item) + sd.derive(kept[1], item)) / 2, planned=True)
    assert mean.high - mean.low >= one.high - one.low


@pytest.mark.slow
def test_in_another_process(ledger, table):
    release = keep(ledger, table, "sum of groups")
    program = (
        "import sys, sordino as sd\n"
        "url, table, key = sys.argv[1:]\n"
        "session = sd.Session(table, unit=sd.PrivacyUnit('u', max_rows=1), ledger=sd.Ledger.open(url, account='rows'))\n"
        "print([row.item for row in session.remeasure(key, epsilon=1)])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(ledger.url), str(table), release.receipt.id],
        capture_output=True,
        text=True,
        check=True,
    )
    # In the order in which they were given.
    assert done.stdout.strip() == "['b', 'a']"


@pytest.mark.slow
def test_parts_of_a_batch(ledger, table):
    session = opened(ledger, table)
    with session.batch():
        one, two = session.count(epsilon=1), session.sum("x", epsilon=1, **ENDS)
    session.keep(one)
    session.keep(two)
    key = one.receipt.id
    assert opened(ledger, table).remeasure(key, epsilon=1).rows[0].measured < 2000
    assert opened(ledger, table).remeasure(key, part=2, epsilon=1).rows[0].measured > 10_000
    with pytest.raises(sd.InvalidParameter, match="part must be from 1 to 2"):
        opened(ledger, table).remeasure(key, part=3, epsilon=1)
    with opened(ledger, table).batch() as batch:
        pass
    assert not batch.asked
    with session.batch() as batch:
        again = session.remeasure(key, epsilon=1)
    assert again.looks[0].charge == key


def test_what_is_printed_says_nothing_of_it(ledger, table):
    """Labels, clips and totals are for another look: whoever reads a release sees what was printed."""
    from sordino.record_text import write_csv, write_json

    release = keep(ledger, table, "mean of groups")
    record = ledger.read_release(release.receipt.id)
    assert record.again is not None
    bare = replace(record, again=None)
    assert write_json(record) == write_json(bare)
    assert write_csv(record) == write_csv(bare)
    assert "again" not in write_json(record)
    assert record == bare, "two records that print the same are the same"


# ---- what is refused ---------------------------------------------------------------------------------------


def refused(ledger, ask, words=None, error=sd.InvalidParameter):
    spent = ledger.statement().spent
    with pytest.raises(error, match=words):
        ask()
    assert ledger.statement().spent == spent, "nothing was charged"


@pytest.mark.slow
def test_another_unit_source_type_or_account_is_refused_before_the_charge(ledger, table, tmp_path):
    key = keep(ledger, table, "sum").receipt.id
    for unit in (
        sd.PrivacyUnit("u", max_rows=2),
        sd.PrivacyUnit("u", max_rows=1, adjacency="replace-one"),
        sd.PrivacyUnit("g", max_rows=1),
        sd.PrivacyUnit.row(),
    ):
        refused(
            ledger,
            lambda unit=unit: opened(ledger, table, unit).remeasure(key, epsilon=1),
            "about whom this session protects",
        )
    other = tmp_path / "other.parquet"
    rows().write_parquet(other)
    refused(
        ledger,
        lambda: opened(ledger, other).remeasure(key, epsilon=1),
        "is for source",
        sd.LedgerConflict,
    )
    # The same file with another type, and without the column.
    shape = tmp_path / "shape.parquet"
    rows().write_parquet(shape)
    own = make(tmp_path, shape, "shape.db")
    mine = keep(own, shape, "sum").receipt.id
    rows().with_columns(pl.col("x").cast(pl.Float32)).write_parquet(shape)
    refused(own, lambda: opened(own, shape).remeasure(mine, epsilon=1), "types that they have now")
    rows().drop("x").write_parquet(shape)
    refused(own, lambda: opened(own, shape).remeasure(mine, epsilon=1), "types that they have now")
    # An id of another account is none of this one, and one of nobody neither.
    refused(own, lambda: opened(own, shape).remeasure(key, epsilon=1), "no charge", sd.LedgerError)
    refused(
        ledger,
        lambda: opened(ledger, table).remeasure("0" * 32, epsilon=1),
        "no charge",
        sd.LedgerError,
    )
    refused(
        ledger, lambda: opened(ledger, table).remeasure(key, epsilon=500), None, sd.BudgetExceeded
    )


def test_a_session_without_a_ledger_knows_none(ledger, table):
    key = keep(ledger, table, "sum").receipt.id
    for more in ({"ledger": None}, {"entropy": sd.Seeded(1)}):
        with pytest.raises(sd.InvalidParameter, match="without a ledger none is kept"):
            sd.Session(table, unit=UNIT, **more).remeasure(key, epsilon=1)


def test_how_texts_are_written_must_be_the_same(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("u;x\n" + "".join(f"u{i};{i % 50}\n" for i in range(900)))
    form = sd.CsvFormat(delimiter=";", types={"x": "integer"}, null=("NA", "-"))
    ledger = make(tmp_path, path)
    session = opened(ledger, path, csv=form)
    release = session.sum("x", epsilon=1, **ENDS)
    session.keep(release)
    assert (
        opened(ledger, path, csv=form).remeasure(release.receipt.id, epsilon=1).rows[0].measured
        > 10_000
    )
    for other in (
        replace(form, null="7"),
        replace(form, types={"x": "double"}),
        replace(form, types={}),
    ):
        refused(
            ledger,
            lambda other=other: opened(ledger, path, csv=other).remeasure(
                release.receipt.id, epsilon=1
            ),
            "CsvFormat",
        )


def test_a_view_in_the_place_of_a_table_is_no_longer_of_public_size(tmp_path):
    """The number of rows was public, and is not any more: noise made for the one would not hide the other."""
    import duckdb

    unit = sd.PrivacyUnit.row(adjacency="replace-one")
    file = tmp_path / "rows.duckdb"
    with duckdb.connect(str(file)) as made:
        made.execute(
            "CREATE TABLE kept (x BIGINT NOT NULL); INSERT INTO kept SELECT range FROM range(900)"
        )
    source = f"duckdb:{file}#kept"
    ledger = make(tmp_path, source, unit=unit)
    session = opened(ledger, source, unit)
    release = session.mean("x", epsilon=1, **ENDS)
    assert release.mechanism.size_is_public
    session.keep(release)
    with duckdb.connect(str(file)) as made:
        made.execute(
            "ALTER TABLE kept RENAME TO whole; CREATE VIEW kept AS SELECT * FROM whole WHERE x > 3"
        )
    refused(
        ledger,
        lambda: opened(ledger, source, unit).remeasure(release.receipt.id, epsilon=1),
        "size_is_public is True, and here it is False",
    )


def test_what_was_kept_without_is_refused_in_a_sentence(ledger, table):
    session = opened(ledger, table)
    release = session.quantile("x", q=0.5, epsilon=1, **ENDS)
    session.keep(release)
    ask = lambda: opened(ledger, table).remeasure(release.receipt.id, epsilon=1)  # noqa: E731
    refused(ledger, ask, "kept with what measures it again")
    # A record of an earlier version has nothing beside its rows.
    with ledger.reserve(sd.cost.Pure(epsilon=1), label="old") as charge:
        charge.draw(sd.cost.Pure(epsilon=1))
    charge.keep(Record(facts={"release": "sum"}, columns=("estimate",), rows=[{"estimate": 1}]))
    refused(
        ledger,
        lambda: opened(ledger, table).remeasure(charge.id, epsilon=1),
        "kept with what measures",
    )
    assert list(ledger.history())[-1].detail["form"] == 1


def test_a_release_whose_labels_would_not_fit_is_kept_without(ledger, table, monkeypatch):
    from sordino import record as record_module

    session = opened(ledger, table)
    release = LOOKS["histogram"](session, 1)
    least = len(
        session._executor._add_again(release, Record(facts={}, columns=(), rows=[])).to_text()
    )
    monkeypatch.setattr(record_module, "MOST_CHARACTERS", least - 1)
    session.keep(release, Record(facts={}, columns=(), rows=[]))
    refused(
        ledger,
        lambda: opened(ledger, table).remeasure(release.receipt.id, epsilon=1),
        "kept with what measures",
    )


def test_labels_that_a_function_names_are_not_kept(ledger, table):
    session = opened(ledger, table)
    named = sd.Domain.indexed(5, label=lambda place: f"place {place}")
    release = session.histogram("u", epsilon=1, domain=named)
    assert session.remeasure(release, epsilon=1).rows[0].item == "place 0"
    session.keep(release)
    refused(
        ledger,
        lambda: opened(ledger, table).remeasure(release.receipt.id, epsilon=1),
        "kept with what measures",
    )


# ---- what somebody may have written ------------------------------------------------------------------------


def forge(ledger, charge, change):
    """Write another text under a charge, with the digest that belongs to it in the table of what is kept."""
    with sqlite3.connect(ledger.url) as file:
        [(text,)] = file.execute("SELECT sheet FROM kept WHERE charge = ?", (charge,)).fetchall()
        said = json.loads(text)
        change(said["again"])
        text = json.dumps(said)
        # Nothing but `verify` compares it with the history.
        for (trigger,) in file.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            file.execute(f"DROP TRIGGER {trigger}")
        file.execute(
            "UPDATE kept SET sheet = ?, digest = ? WHERE charge = ?", (text, chained(text), charge)
        )
    file.close()


def test_a_sheet_that_was_changed_is_not_believed(ledger, table):
    release = keep(ledger, table, "sum")
    forge(ledger, release.receipt.id, lambda again: again["looks"][0]["rows"][0].__setitem__(1, 7))
    assert json.loads(ledger.read_release(release.receipt.id).to_text())["again"]["looks"][0][
        "rows"
    ] == [[0, 7]]
    refused(
        ledger,
        lambda: opened(ledger, table).remeasure(release.receipt.id, epsilon=1),
        "does not hold",
        sd.LedgerError,
    )


def trust(monkeypatch):
    """Let a history hold whatever was written: as if all of it had been written anew."""

    class Sound:
        sound = True

    monkeypatch.setattr(sd.Ledger, "verify", lambda self, head=None: Sound())


# Whoever writes the whole ledger anew may say anything there: it is refused, or the new look is what it would be.
FORGED = {
    "another form": lambda again: again.update(form="1"),
    "a newer form": lambda again: again.update(form=2),
    "no looks": lambda again: again.update(looks=[]),
    "no unit": lambda again: again.update(unit=None),
    "a unit of more rows": lambda again: again["unit"].update(max_rows=3),
    "fewer rows of a unit": lambda again: again["clips"]["parameters"].update(rows_per_unit=7),
    "other neighbors": lambda again: again["clips"]["parameters"].update(adjacency="replace-one"),
    "a sum as a mean": lambda again: again["clips"].update(figure="ClippedMean"),
    "a request of nobody": lambda again: again["request"].update(name="top_k"),
    "a request of rows": lambda again: again["request"].update(name="count"),
    "a parameter more": lambda again: again["request"].update(bounds=[0, 1]),
    "a number as a predicate": lambda again: again["request"].update(where=7),
    "another column": lambda again: again["request"].update(column="u"),
    "text that is no number": lambda again: again["clips"]["parameters"].update(cap="1e9"),
    "a number that fills the memory": lambda again: again["clips"]["parameters"].update(
        cap="9" * 5000
    ),
    "tests beyond the grid": lambda again: again["clips"].update(tests=[[10**6]]),
    "tests below it": lambda again: again["clips"].update(tests=[[0]]),
    "tests of two searches": lambda again: again["clips"].update(tests=[[3, 3]]),
    "clips of nobody": lambda again: again.update(clips=None),
    "labels of nobody": lambda again: again.update(labels=["a"]),
    "labels twice": lambda again: again.update(labels=["a", "a"]),
    "another law": lambda again: again["looks"][0]["laws"][0].__setitem__(0, "none"),
    "a rate of 0": lambda again: again["looks"][0]["laws"][0].__setitem__(1, "0"),
    "a rate that is tiny": lambda again: again["looks"][0]["laws"][0].__setitem__(1, f"1/{10**60}"),
    "a step that is huge": lambda again: again["looks"][0]["laws"][0].__setitem__(2, str(10**400)),
    "a step of a float": lambda again: again["looks"][0]["laws"][0].__setitem__(2, 0.5),
    "rounded by more": lambda again: again["looks"][0]["laws"][0].__setitem__(3, "77"),
    "a number of records": lambda again: again["looks"][0]["laws"][0].__setitem__(4, 5),
    "another row": lambda again: again["looks"][0]["rows"].append([0, 1]),
    "two numbers": lambda again: again["looks"][0]["rows"][0].append(1),
    "no number": lambda again: again["looks"][0]["rows"].__setitem__(0, [0]),
    "a number beyond floats": lambda again: again["looks"][0]["rows"].__setitem__(0, [0, 10**600]),
    "a law of nobody": lambda again: again["looks"][0]["rows"][0].__setitem__(0, 5),
    "a cost below 0": lambda again: again.update(total={"epsilon": "-1"}),
    "a cost of nobody": lambda again: again.update(total={"delta": "1"}),
}


@pytest.mark.parametrize("name", FORGED)
@pytest.mark.sample(6)
def test_what_was_forged_is_refused_before_the_charge(ledger, table, monkeypatch, name):
    release = keep(ledger, table, "sum")
    forge(ledger, release.receipt.id, FORGED[name])
    trust(monkeypatch)
    refused(
        ledger,
        lambda: opened(ledger, table).remeasure(release.receipt.id, epsilon=1),
        None,
        (sd.InvalidParameter, sd.LedgerError, sd.DataSourceError),
    )


def in_each(again):
    again["clips"].update(figure="ClippedSum")
    again["clips"]["parameters"].pop("groups")
    again["clips"]["parameters"].update(clip_share="1/4")


FORGED_TOGETHER = {
    "clips that differ": lambda again: again["clips"].update(tests=[[3], [4]]),
    "a clip in each group": in_each,
    "fewer groups": lambda again: again["clips"]["parameters"].update(groups=1),
    "a number of groups": lambda again: again["request"].update(groups_per_unit=1),
    "another number of each": lambda again: again["request"].update(per_person="max"),
    "rows": lambda again: again["request"].update(per_person=None),
}


@pytest.mark.parametrize("name", FORGED_TOGETHER)
def test_one_clip_of_all_groups_stays_one(ledger, table, monkeypatch, name):
    """Each of them would let a unit count in several groups for what its noise hides in one."""
    release = keep(ledger, table, "sum in all groups")
    forge(ledger, release.receipt.id, FORGED_TOGETHER[name])
    trust(monkeypatch)
    refused(
        ledger,
        lambda: opened(ledger, table).remeasure(release.receipt.id, epsilon=1),
        None,
        (sd.SordinoError,),
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda again: again["request"].update(bins=[10, 20, 50]),
        lambda again: again["request"].update(bins=[10, 20]),
        lambda again: again["request"].update(bins=[20, 10, 40]),
        lambda again: again.update(labels=["below 10", "10 to below 20", "20 or more"]),
        lambda again: again.update(labels=None),
    ],
)
def test_bins_are_those_that_were_kept(ledger, table, monkeypatch, change):
    release = keep(ledger, table, "bins")
    forge(ledger, release.receipt.id, change)
    trust(monkeypatch)
    refused(
        ledger,
        lambda: opened(ledger, table).remeasure(release.receipt.id, epsilon=1),
        None,
        (sd.SordinoError,),
    )


def test_no_sheet_makes_a_look_cheaper_or_less_noisy(tmp_path, table, monkeypatch):
    """A first look that says of itself that it is exact moves the estimate to an end, and no end of the interval."""
    ledger = make(tmp_path, table, epsilon=60)
    release = keep(ledger, table, "sum")

    def boast(again):
        again["looks"][0]["laws"][0][1] = str(1 << 80)
        again["looks"][0]["rows"][0][1] = 1

    forge(ledger, release.receipt.id, boast)
    trust(monkeypatch)
    spent = ledger.statement().spent
    again = opened(ledger, table).remeasure(release.receipt.id, epsilon=1)
    assert ledger.statement().charges[-1].settled is not None
    assert ledger.statement().spent > spent
    assert again.cost.pure() == 1
    [row] = again.rows
    fresh = again.looks[1]
    assert (row.low, row.high) == (fresh.low, fresh.high)
    assert row.estimate == row.low
    # The noise is that of the clip, whatever was said of the first look.
    assert fresh.noise.budget.pure() == 1
    assert fresh.noise.bound == fresh.found.top


def test_the_twin_that_believes_a_sheet_is_convicted(ledger, table, monkeypatch):
    """Without the check of neighbors a record of one row makes noise for one row, where a unit has three."""
    from sordino.session import again as again_module

    unit = sd.PrivacyUnit("u", max_rows=3)
    about = {"adjacency": "add-remove", "unit": unit, "source": str(table)}
    other = sd.Ledger.create(ledger.url, account="three", budget=sd.Budget(epsilon=60), **about)
    release = keep(other, table, "sum", unit)
    forge(
        other,
        release.receipt.id,
        lambda again: again["clips"]["parameters"].update(rows_per_unit=1),
    )
    trust(monkeypatch)
    ask = lambda: opened(other, table, unit).remeasure(release.receipt.id, epsilon=1)  # noqa: E731
    refused(other, ask, "rows_per_unit is 1, and here it is 3")
    monkeypatch.setattr(again_module, "_check_figure", lambda *given: None)
    believed = ask().looks[1]
    assert believed.noise.bound == believed.found.top
    # Three rows of a unit move the sum by three times that: the loss is three times what is charged.
    assert 3 * believed.found.high > believed.noise.bound


def test_everything_that_is_read_was_written_by_this_version(ledger, table):
    """Each name that is written is one that is read: nothing is kept that nobody needs."""
    release = keep(ledger, table, "mean of groups")
    said = ledger.read_release(release.receipt.id).again
    assert set(said) == {
        "form",
        "unit",
        "text",
        "types",
        "request",
        "labels",
        "clips",
        "looks",
        "total",
    }
    assert said["form"] == kept_again.FORM
    assert said["labels"] == ["b", "a"], "in the order that was given"
    assert said["request"] == {
        "name": "mean",
        "per_person": None,
        "column": "x",
        "where": None,
        "by": "g",
        "groups_per_unit": 1,
        "strict_types": False,
        "weight_cap": None,
    }
    assert math.isfinite(Joined.of([read_look(release)["a"]] * 2).deviation)
