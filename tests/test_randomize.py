"""A report of every record: in order, one for each, charged M times, and private for the numbers of one unit."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction

import duckdb
import numpy as np
import polars as pl
import pytest

import sordino as sd
from sordino.questions import prepare_records, records as records_module
from sordino.session import LocalReports, Reported, local as randomize_module
from sordino.sources import open_source

ROW = sd.PrivacyUnit.row(adjacency="replace-one")
USER = sd.PrivacyUnit("u", adjacency="replace-one", max_rows=2)
RANGE = {"lower": 0, "upper": 100, "epsilon": 1}
CANARY = 86753099173.25


def read(source, unit=ROW, column="x"):
    return np.concatenate(
        [np.zeros(0), *prepare_records(open_source(source), unit, column=column).run()]
    )


@pytest.fixture(scope="module")
def frame():
    values = [float(i % 90) if i % 7 else None for i in range(700)]
    return pl.DataFrame({"u": [f"u{i % 40}" for i in range(700)], "x": values, "text": ["a"] * 700})


def session(source, unit=ROW, seed=7, **options):
    return sd.Session(source, unit=unit, entropy=sd.Seeded(seed), **options)


@pytest.mark.parametrize(
    "kind",
    [
        "csv",
        "parquet",
        "duckdb",
        "polars",
        *(pytest.param(k, marks=pytest.mark.slow) for k in ("pandas", "arrow")),
    ],
)
@pytest.mark.sample(4)
def test_every_source_is_read_in_its_order(frame, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(records_module, "ROWS", 64)
    column = frame["x"].fill_null(math.nan).to_numpy()
    frame.write_csv(tmp_path / "x.csv", null_value="")
    frame.write_parquet(tmp_path / "x.parquet", row_group_size=50)
    if kind == "duckdb":
        with duckdb.connect(str(tmp_path / "x.db")) as con:
            con.execute(f"CREATE TABLE t AS SELECT * FROM read_parquet('{tmp_path / 'x.parquet'}')")
    source = {
        "csv": lambda: tmp_path / "x.csv",
        "parquet": lambda: tmp_path / "x.parquet",
        "duckdb": lambda: f"duckdb:{tmp_path / 'x.db'}#t",
        "polars": lambda: frame,
        "pandas": frame.to_pandas,
        "arrow": frame.to_arrow,
    }[kind]()
    assert np.array_equal(read(source), column, equal_nan=True)
    place = np.array([i // 40 for i in range(700)])
    assert np.array_equal(read(source, USER), np.where(place < 2, column, math.nan), equal_nan=True)


@pytest.mark.slow
def test_many_row_groups_on_all_threads_come_in_their_order(tmp_path):
    duckdb.sql(
        f"COPY (SELECT i AS x FROM range(3000000) t(i)) TO '{tmp_path / 'x.parquet'}' (ROW_GROUP_SIZE 20000)"
    )
    for _ in range(3):
        assert np.array_equal(read(tmp_path / "x.parquet"), np.arange(3_000_000))


def test_several_files_follow_each_other(tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n\n2", encoding="utf-8")
    (tmp_path / "b.csv").write_text("x\n3\n", encoding="utf-8")
    assert np.array_equal(read(tmp_path / "*.csv"), [1, math.nan, 2, 3], equal_nan=True)


def test_progress_over_several_files_never_falls(tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text("x\n1\n2\n", encoding="utf-8")
    told = []
    list(
        prepare_records(open_source(tmp_path / "*.csv"), ROW, column="x").run(progress=told.append)
    )
    assert told == sorted(told)
    assert told == pytest.approx([100 / 3, 200 / 3, 100, 100])


def test_a_header_that_changed_is_a_failure_after_the_charge(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n", encoding="utf-8")
    question = prepare_records(open_source(tmp_path / "a.csv"), ROW, column="x")
    (tmp_path / "a.csv").write_text("y,x\n1,2\n", encoding="utf-8")
    with pytest.raises(sd.DataSourceError) as caught:
        list(question.run())
    assert str(caught.value) == sd.DataSourceError.AFTER_CHARGE


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (pl.Series([1, None, 3], dtype=pl.Int32), [1, math.nan, 3]),
        (pl.Series([1.5, float("nan"), float("-inf")]), [1.5, math.nan, -math.inf]),
        (pl.Series(["1.25", None, "-3.5"]).cast(pl.Decimal(10, 2)), [1.25, math.nan, -3.5]),
        (pl.Series([2**63, 0, 2**64 - 1], dtype=pl.UInt64), [2.0**63, 0, 2.0**64]),
    ],
    ids=["whole", "floats", "decimals", "unsigned"],
)
def test_columns_of_every_kind(values, wanted):
    assert np.array_equal(read(pl.DataFrame({"x": values})), wanted, equal_nan=True)


@pytest.mark.parametrize("activation", ["mixture", "rectangle", "sine", "triangle"])
def test_reports_are_those_of_the_mechanism_about_numbers_moved_to_the_middle(frame, activation):
    mechanism = sd.CompositeMechanism(**RANGE, activation=activation)
    released = session(frame).randomize("x", **RANGE, activation=activation)
    wanted = mechanism.reports(frame["x"].fill_null(50.0).to_numpy(), entropy=sd.Seeded(7))
    assert np.array_equal(released.values, wanted.values)
    assert set(released.values.tolist()) <= set(mechanism.grid.outputs.tolist()), (
        "nothing but the public list"
    )
    assert (released.mechanism, released.cost, released.simulated) == (
        mechanism,
        mechanism.cost,
        True,
    )
    assert released.standard_error == wanted.standard_error
    json.dumps(released.to_dict(), allow_nan=False)


def test_what_is_written_is_not_kept(frame):
    pieces = []
    released = session(frame).randomize("x", **RANGE, write=pieces.append)
    assert isinstance(released, Reported)
    assert released.reports == sum(map(len, pieces)) == 700
    assert np.array_equal(np.concatenate(pieces), session(frame).randomize("x", **RANGE).values)


@pytest.mark.parametrize("sizes", [[13], [3, 1, 9], [4, 4, 5], [0, 9, 0, 4], [1] * 13], ids=str)
def test_blocks_of_one_size_whatever_comes(monkeypatch, sizes):
    monkeypatch.setattr(randomize_module, "TOGETHER", 4)
    found = list(randomize_module._regroup_blocks(np.split(np.arange(13.0), np.cumsum(sizes)[:-1])))
    assert [block.size for block in found] == [4, 4, 4, 1]
    assert np.array_equal(np.concatenate(found), np.arange(13))


@pytest.mark.parametrize("rows", [0, 1])
def test_few_records(rows):
    table = pl.DataFrame({"x": [CANARY] * rows}, schema={"x": pl.Float64})
    released = session(table).randomize("x", **RANGE)
    assert released.values.shape == (rows,)
    assert str(CANARY) not in repr(released)


def log_ratio(mechanism, x, y):
    """Return the largest log ratio of the law of a report about x to that about y."""
    grid = mechanism.grid
    laws = [grid.law((Fraction(v) - grid.low) / grid.step) for v in (x, y)]
    return max(math.log(p / q) for p, q in zip(*laws, strict=True) if p)


def test_the_charge_is_what_changing_all_rows_of_a_unit_can_show():
    """The ratios of independent reports multiply: M rows at opposite ends attain the charge; the twin that charges once is convicted."""
    small = sd.CompositeMechanism(lower=0, upper=1, epsilon=1, activation="mixture")
    claimed = LocalReports(mechanism=small, rows_per_unit=2).cost.pure()
    each = {pair: log_ratio(small, *pair) for pair in itertools.product((0, 1), repeat=2)}
    worst = max(each[a] + each[b] for a, b in itertools.product(each, repeat=2))
    assert worst <= claimed * (1 + 1e-12)
    assert worst > 0.999 * claimed
    assert worst > 1.9 * LocalReports(mechanism=small, rows_per_unit=1).cost.pure()


def account(path, unit="u", source="name:t", adjacency="replace-one", epsilon=5):
    budget = sd.Budget(epsilon=epsilon)
    return sd.Ledger.create(
        path, account="t", budget=budget, adjacency=adjacency, unit=unit, source=source
    )


def test_charges_come_before_rows_and_refusals_are_free(frame, tmp_path):
    ledger = account(tmp_path / "b.db")
    s = sd.Session(frame, unit=USER, ledger=ledger, name="t")
    relation = duckdb.connect().sql("SELECT 1 AS x")
    refused = [
        (
            sd.InvalidParameter,
            "adjacency 'replace-one'",
            lambda: session(frame, sd.PrivacyUnit.row()).randomize("x", **RANGE),
        ),
        (
            sd.InvalidParameter,
            "number of rows is public",
            lambda: session(relation).randomize("x", **RANGE),
        ),
        (
            sd.UnboundedContribution,
            "max-rows",
            lambda: session(frame, sd.PrivacyUnit("u", adjacency="replace-one")).randomize(
                "x", **RANGE
            ),
        ),
        (
            sd.InvalidParameter,
            "must be a column of whole numbers",
            lambda: s.randomize("text", **RANGE),
        ),
        (sd.InvalidParameter, "must be a column of", lambda: s.randomize("none", **RANGE)),
        (
            sd.InvalidParameter,
            "upper must be above",
            lambda: s.randomize("x", lower=5, upper=5, epsilon=1),
        ),
        (
            sd.InvalidParameter,
            "epsilon must be",
            lambda: s.randomize("x", lower=0, upper=5, epsilon=0),
        ),
        (
            sd.InvalidParameter,
            "activation must be",
            lambda: s.randomize("x", **RANGE, activation="square"),
        ),
        (
            sd.BudgetExceeded,
            "Nothing was read",
            lambda: s.randomize("x", lower=0, upper=5, epsilon=3),
        ),
    ]
    for error, words, call in refused:
        with pytest.raises(error, match=words):
            call()
    assert ledger.remaining == 5
    released = s.randomize("x", **RANGE)
    assert released.simulated is False
    assert released.cost.pure() == 2
    assert ledger.remaining == 3
    with s.batch() as batch:
        reports = s.randomize("x", lower=0, upper=100, epsilon=0.5)
        assert batch.cost.pure() == 1
    assert reports.values.shape == (700,)
    [first, second] = ledger.statement().charges
    assert {first.label, second.label} == {"randomize"}
    assert str(CANARY) not in repr(first)


def test_an_account_of_another_adjacency_is_not_charged(frame, tmp_path):
    ledger = account(tmp_path / "b.db", adjacency="add-remove")
    with pytest.raises(sd.LedgerConflict):
        sd.Session(frame, unit=USER, ledger=ledger, name="t").randomize("x", **RANGE)
    assert ledger.remaining == 5


def test_a_failure_after_the_charge_is_one_sentence_and_keeps_it(frame, tmp_path):
    for kind in ("csv", "parquet"):
        path = tmp_path / f"x.{kind}"
        frame.write_csv(path) if kind == "csv" else frame.write_parquet(path)
        ledger = account(tmp_path / f"{kind}.db", unit=sd.PrivacyUnit.row(), source=str(path))
        s = sd.Session(path, unit=ROW, ledger=ledger)

        def late(path=path, s=s):
            with s.batch():
                s.randomize("x", **RANGE)
                path.unlink()

        with pytest.raises(sd.DataSourceError) as caught:
            late()
        assert str(caught.value) == sd.DataSourceError.AFTER_CHARGE
        assert ledger.remaining == 4


def test_a_writer_that_fails_keeps_the_charge(frame, tmp_path):
    ledger = account(tmp_path / "b.db")

    def broken(_reports):
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        sd.Session(frame, unit=USER, ledger=ledger, name="t").randomize("x", **RANGE, write=broken)
    assert ledger.remaining == 3
