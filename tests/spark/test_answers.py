"""Spark answers what every other source does: the same whole numbers, extremes among them, and the same choice of rows."""

from __future__ import annotations

import decimal
import random
from decimal import Decimal
from fractions import Fraction

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import sordino as sd
from sordino.columns import BucketGrid, StepRange
from sordino.errors import DataSourceError
from sordino.questions import Domain, PrivacyUnit, prepare_counts, prepare_numbers
from sordino.sources import open_source
from sordino.sources.spark import sql as spark_sql, steps as spark_steps
from sordino.sources.sql.number_kind import number_kind
from support.counted import SALT, counts_as_the_oracle, table
from support.number_states import GRIDS, agrees, asked, floats, ladder_of, wholes
from support.spark import session
from support.tables import columns, made

DECIMALS = decimal.Context(prec=60)


def spark(arrow):
    return made(None, "spark", arrow)


def of_column(values, kind):
    return spark(pa.table({"x": pa.array(values, kind)}))


def test_every_kind_of_count_is_that_of_the_rows():
    rows = table(5)
    kinds = {"user": pl.Int64, "item": pl.String, "price": pl.Int64}
    counts_as_the_oracle(
        open_source(spark(pl.DataFrame(rows, schema=kinds, orient="row").to_arrow())), rows
    )


@pytest.mark.parametrize(
    "grid",
    [
        "signed",
        "made up",
        "cut, 19.99",
        *(
            pytest.param(n, marks=pytest.mark.slow)
            for n in ("from 0", "cut", "cut, whole", "cut, signed", "cut, up to 0")
        ),
    ],
)
def test_floats_have_the_states_of_their_arrays(grid):
    values = floats(GRIDS[grid])
    agrees(of_column(values, pa.float64()), values, GRIDS[grid])


@pytest.mark.parametrize(
    ("grid", "bits"),
    [
        ("far away", 64),
        ("made up", 8),
        ("cut", 64),
        *(pytest.param(g, 64, marks=pytest.mark.slow) for g in ("signed", "fine")),
    ],
)
def test_whole_numbers_have_the_states_of_their_arrays(grid, bits):
    values = wholes(GRIDS[grid], -(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    agrees(of_column(values, {64: pa.int64(), 8: pa.int8()}[bits]), values, GRIDS[grid])


BILLION = BucketGrid.geometric(lower=-7, cap=1e9, growth=1.3)


@pytest.mark.parametrize("grid", [GRIDS["from 0"], BILLION], ids=["one sum", "three sums"])
@pytest.mark.parametrize("kind", [pa.int64(), pa.int8(), pa.decimal128(18, 0)], ids=str)
def test_whole_numbers_that_are_added_up_as_they_are(grid, kind):
    """Whatever lies beyond the ends of the clip, it fits: 2,000 numbers at either end of 64 bits."""
    declared = {pa.int64(): "BIGINT", pa.int8(): "TINYINT"}.get(kind, "DECIMAL(18,0)")
    numbers = number_kind(declared, text=False)
    [query] = spark_sql.SPARK.buckets(numbers, grid, ladder_of(grid))
    assert query.plain is not None
    values = wholes(grid, numbers.smallest, numbers.largest)
    values += [numbers.smallest, numbers.largest, None] * 2000
    agrees(of_column(values, kind), values, grid)


def test_numbers_that_are_not_moved_into_the_ends_are_convicted(monkeypatch):
    grid, far = GRIDS["from 0"], [1 << 62] * 5
    monkeypatch.setattr(
        spark_sql, "_write_plain_sum", lambda plain: ("x", "coalesce(sum(steps), 0)")
    )
    with pytest.raises(DataSourceError):
        agrees(of_column(far, pa.int64()), far, grid)


def decimals(grid, width, scale):
    """Decimals at the ends of their type, beside 0 and beside edges."""
    last, top = Decimal(1).scaleb(-scale), Decimal(10) ** (width - scale)
    near = [
        Decimal(edge)
        for edge in grid.edges[:: max(1, grid.size // 20)].tolist()
        if abs(edge) < top / 2
    ]
    with decimal.localcontext(DECIMALS):
        top -= last
        beside = [edge.quantize(last) + n * last for edge in near for n in (-1, 0, 1)]
        half = (top / 2).quantize(last)
        quarter = Decimal("0.25").quantize(last)
        return [
            *beside,
            top,
            -top,
            last,
            -last,
            0 * last,
            123 * last,
            -123 * last,
            half,
            -half,
            quarter,
            None,
        ]


@pytest.mark.parametrize(
    ("width", "scale"),
    [
        (18, 18),
        (38, 0),
        (38, 18),
        (10, 2),
        *(pytest.param(38, n, marks=pytest.mark.slow) for n in (5, 10)),
    ],
)
def test_decimals_have_the_states_of_their_arrays(width, scale):
    grid = GRIDS["signed"]
    values = decimals(grid, width, scale)
    agrees(of_column(values, pa.decimal128(width, scale)), values, grid)


def test_a_division_that_wraps_is_convicted(monkeypatch):
    """`div` of Spark is exact on whole numbers of 64 bits, and wraps in silence on decimals, under ANSI rules too."""

    def divide(whole, divisor):
        return f"(({whole}) div CAST('{divisor}' AS {spark_steps.WIDE}))"

    values = decimals(GRIDS["signed"], 38, 0)
    monkeypatch.setattr(spark_steps, "_divide_wide", divide)
    monkeypatch.setattr(
        "support.number_states.STEPS", [StepRange(low=-(1 << 52), high=1 << 52, step=1 << 62)]
    )
    with pytest.raises(AssertionError):
        agrees(of_column(values, pa.decimal128(38, 0)), values, GRIDS["signed"])


def test_sums_beyond_64_bits_are_exact():
    """2,048 rows of 2^52 steps are more than 64 bits hold."""
    rows = [float(1 << 52)] * 5000
    question = asked(of_column(rows, pa.float64()), GRIDS["one edge"])
    [total] = question.totals([StepRange(low=-(1 << 52), high=1 << 52, step=1)])
    assert (total.steps, total.known, total.missing) == (5000 << 52, 5000, 0)


@pytest.mark.parametrize("lower", [10**17, -(10**17)])
def test_sums_of_buckets_beyond_64_bits_are_exact(lower):
    """A row has more than 2^51 steps of the ladder there, and 5,000 of them more than 64 bits hold."""
    grid = BucketGrid.geometric(lower=lower, cap=lower + 5000, growth=1.1)
    values = [float(lower + 4000)] * 5000 + [float(lower)] * 3 + [None]
    agrees(of_column(values, pa.float64()), values, grid)


def test_a_sum_in_64_bits_is_convicted(monkeypatch):
    monkeypatch.setattr(spark_sql, "write_sum", lambda steps: f"coalesce(sum({steps}), 0)")
    with pytest.raises(DataSourceError):
        test_sums_of_buckets_beyond_64_bits_are_exact(10**17)


PROPOSALS = ["NULL", "0", "1", "9000", "-3", "floor(least(5D, greatest(0D, x)))"]


@pytest.mark.parametrize("proposed", PROPOSALS)
def test_a_wrong_logarithm_moves_no_number(monkeypatch, proposed):
    """A logarithm proposes a bucket, and comparisons decide."""
    values = floats(GRIDS["from 0"])
    monkeypatch.setattr(spark_sql, "_propose", lambda *_: proposed)
    agrees(of_column(values, pa.float64()), values, GRIDS["from 0"])


def test_a_proposal_that_nobody_checks_is_convicted(monkeypatch):
    monkeypatch.setattr(spark_sql, "_is_near", lambda _: "near IS NOT NULL")
    with pytest.raises(AssertionError):
        test_a_wrong_logarithm_moves_no_number(monkeypatch, "1")


@pytest.mark.parametrize("kind", [pa.float64(), pa.decimal128(10, 2), pa.decimal128(38, 4)])
def test_logarithms_propose_the_right_bucket(monkeypatch, kind):
    """Which is fast; the search would find the same. Here it finds bucket 0, which none of these is in."""
    monkeypatch.setattr(spark_sql, "_write_search", lambda _: "0")
    values = np.geomspace(0.5, 9000, 500).tolist()
    if kind != pa.float64():
        values = [round(Decimal(value), 2) for value in values]
    [counts] = asked(of_column(values, kind), GRIDS["from 0"]).run()
    assert counts.counts[0] <= 5


@pytest.mark.parametrize(
    ("width", "scale"), [(14, 14), (14, 2), (15, 2), (18, 18), (18, 0), (1, 0)]
)
def test_decimals_become_their_digits(width, scale):
    """Up to 14 digits they are read from the nearest float: each of them comes out as it went in."""
    chance, top = random.Random(width), 10**width - 1
    digits = [chance.randint(-top, top) >> chance.randrange(50) for _ in range(4000)] + [
        top,
        -top,
        0,
        1,
        -1,
    ]
    digits += [None]
    with decimal.localcontext(DECIMALS):
        values = [None if one is None else Decimal(one).scaleb(-scale) for one in digits]
    question = asked(of_column(values, pa.decimal128(width, scale)), GRIDS["one edge"])
    with question.source.backend.scan(question.indices) as scan:
        x = question.dialect.number(0, question.kind)
        found = scan.ask(f"SELECT CAST({x} AS STRING) AS x FROM rows")["x"].tolist()
    assert sorted(map(str, found)) == sorted(map(str, digits))


def grouped_rows(seed):
    chance = random.Random(seed)
    values = [0.0, -0.0, 1.25, 1.25, 3.0, 100.0, float("nan"), float("inf"), None]
    return [
        (f"u{chance.randrange(12)}", chance.choice("abcz"), chance.choice(values))
        for _ in range(400)
    ] + [(None, "a", 1.0), ("u\U0001f600", "b", 2.0)]


def states(source, **options):
    question = asked(
        source,
        GRIDS["from 0"],
        unit=PrivacyUnit("u", max_rows=3),
        by="g",
        domain=["a", "b", "c"],
        **options,
    )
    totals = question.totals([StepRange(low=0, high=1 << 40, step=1)] * 3)
    return [
        [*counts.counts.tolist(), *total]
        for counts, total in zip(question.run(), totals, strict=True)
    ]


@pytest.mark.parametrize(
    "kinds", [{"u": pa.string()}, {"u": pa.int64()}], ids=["texts", "whole numbers"]
)
def test_the_same_rows_of_a_unit_count_as_elsewhere(kinds):
    """Which rows count, in which groups, follows from one hash of the salt and the unit, on every engine."""
    rows = grouped_rows(3)
    if kinds["u"] == pa.int64():
        rows = [(None if u is None else sum(map(ord, u)), g, x) for u, g, x in rows]
    arrow = columns(rows, **kinds, g=pa.string(), x=pa.float64())
    assert states(spark(arrow), groups_per_unit=2) == states(arrow, groups_per_unit=2)


def test_one_unit_more_moves_no_other():
    rows = grouped_rows(4)
    kinds = {"u": pa.string(), "g": pa.string(), "x": pa.float64()}
    own = [("new", g, x) for _, g, x in grouped_rows(5)[:60]]

    def found(rows):
        return np.array(states(spark(columns(rows, **kinds)), groups_per_unit=2))

    mine = found(own)
    assert (found([*rows[:200], *own, *rows[200:]]) == found(rows) + mine).all()
    assert (mine[:, :-3].sum(axis=1) <= 3).all()
    assert (mine[:, :-3].sum(axis=1) > 0).sum() <= 2


def test_labels_that_nobody_listed_and_ranges():
    rows = [
        (i % 40, ["tea", "", "a\0b", "x" * 5000, "x" * 4096, "\U0001f600", None, "7"][i % 8], i % 9)
        for i in range(400)
    ]
    arrow = columns(rows, u=pa.int64(), item=pa.string(), n=pa.int64())
    unit = PrivacyUnit("u", max_rows=2)
    for options in (
        {"item": "item", "domain": Domain.unlisted(delta=1e-6, least=2)},
        {"item": "item", "domain": Domain.unlisted(delta=1e-6, least=2), "best": 2},
        {
            "item": ("item", "n"),
            "domain": {"item": Domain.unlisted(delta=0.1), "n": Domain.range(1, 7)},
        },
        {
            "item": ("n", "item"),
            "domain": {"n": ["1", "3", "8"], "item": Domain.unlisted(delta=0.1)},
        },
        {"item": ("n", "item"), "domain": Domain.unlisted(delta=0.1), "best": 3},
        {"item": "item", "domain": Domain.assume_public()},
        {"item": "n", "domain": Domain.range(2, 9)},
        {"item": "item", "domain": Domain.range(-3, 20)},
    ):
        one, other = (
            prepare_counts(open_source(source), unit, kind="items", salt=SALT, **options).run()
            for source in (spark(arrow), arrow)
        )
        assert one.values.tolist() == other.values.tolist(), options
        if getattr(options["domain"], "kind", "found") != "range":
            assert one.labels == other.labels


def test_groups_of_several_columns_that_were_found():
    rows = [
        (i % 40, ["tea", "a/", "a"][i % 3], ["x", "/x", "z"][i % 4 % 3], i % 9) for i in range(400)
    ]
    kinds = {"u": pa.int64(), "one": pa.string(), "two": pa.string(), "n": pa.int64()}
    arrow, found = columns(rows, **kinds), []
    for source in (spark(arrow), arrow):
        question = prepare_numbers(
            open_source(source),
            PrivacyUnit("u", max_rows=2),
            column="n",
            grid=BucketGrid(edges=np.arange(9.0)),
            by=("one", "two"),
            domain={"one": ["a", "a/"], "two": Domain.unlisted(delta=0.1)},
            groups_per_unit=1,
            most_groups=5,
            salt=SALT,
        ).among([("a", "/x"), ("a/", "x"), ("a/", "z")])
        found.append([one.counts.tolist() for one in question.run()])
    assert found[0] == found[1]
    assert all(map(sum, found[0]))


def test_texts_that_tempt_a_query_are_only_texts():
    odd = [
        "{a}",
        "${spark.app.name}",
        "it's",
        "a\\b",
        'say "x"',
        "`q`",
        "%",
        "\u2028",
        "a\nb",
        "--",
        "*/",
        ":p",
        "?",
    ]
    arrow = columns([(label,) for label in odd * 2], **{"x.y`z{q}": pa.string()})
    source = open_source(spark(arrow))
    counts = prepare_counts(
        source, PrivacyUnit.row(), kind="items", item="x.y`z{q}", domain=odd
    ).run()
    assert counts.values.tolist() == [2] * len(odd)
    for label in ("${spark.app.name}", "{a}", "a\\b", "it's", "%"):
        where = f"""\"x.y`z{{q}}" = '{label.replace("'", "''")}'"""
        assert prepare_counts(
            source, PrivacyUnit.row(), kind="rows", where=where
        ).run().values.tolist() == [2]


def test_sessions_release_everything():
    rows = [
        (f"u{i % 50}", ["tea", "rice", "salt", None][i % 4], i % 7, Decimal(i % 7) / 4)
        for i in range(200)
    ]
    frame = spark(
        columns(rows, u=pa.string(), item=pa.string(), n=pa.int16(), d=pa.decimal128(9, 2))
    )
    with sd.Session(
        frame, unit=PrivacyUnit("u", max_rows=2), ledger=None, entropy=sd.Seeded(1)
    ) as s:
        assert s.count_distinct_units(epsilon=200).estimate == pytest.approx(50, abs=1)
        assert s.count(epsilon=200).estimate == pytest.approx(100, abs=2)
        top = s.top_k("item", k=2, epsilon=50, domain=["tea", "rice", "salt", "gold"])
        assert {row.item for row in top} <= {"tea", "rice", "salt"}
        assert s.quantile("n", q=0.5, epsilon=20, lower=0, cap=100).value == pytest.approx(
            3, abs=1.5
        )
        assert s.sum("d", epsilon=100, lower=0, cap=100).value == pytest.approx(75, rel=0.3)
        by_item = s.mean(
            "n", epsilon=300, lower=0, cap=100, by="item", domain=["tea", "rice"], groups_per_unit=2
        )
        assert [row.release.value for row in by_item] == [pytest.approx(3, abs=1)] * 2
        assert s.variance("n", epsilon=300, lower=0, cap=10).value == pytest.approx(4, abs=2)
        with s.batch() as batch:
            above = s.above("item", threshold=5, positives=1, epsilon=20, domain=["tea", "rice"])
            wanted = s.histogram(
                "item", epsilon=20, domain=["tea", "rice"], where="n BETWEEN 1 AND 5"
            )
        assert batch.cost.pure() == 40
        assert above.result
        assert len(wanted.result) == 2


KINDS = [
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DOUBLE"),
    *(
        f"DECIMAL({p},{s})"
        for p, s in (
            (1, 0),
            (1, 1),
            (18, 2),
            (18, 18),
            (19, 0),
            (19, 19),
            (38, 0),
            (38, 10),
            (38, 38),
        )
    ),
]
EXTREMES = [
    -1.7e308,
    -(2.0**63),
    -9.99,
    -5e-324,
    -0.0,
    1e-320,
    1e-5,
    0.1,
    1 / 3,
    7,
    127.5,
    2.0**53,
    1e18,
    2.0**63,
    1e22,
    1e38,
    1.7e308,
]


@pytest.mark.parametrize("name", KINDS)
def test_every_cut_that_is_written_is_read_as_itself(name):
    """A rehearsal over no row evaluates none of them: one that could not be read would end a release after its charge."""
    kind = number_kind(name, text=False)
    cuts = [spark_steps.hold(kind, cut) for cut in map(kind.cut, EXTREMES) if cut is not None]
    written = f"CAST(split('{','.join(cuts)}', ',') AS ARRAY<{spark_steps.held_type(kind)}>)"
    [read] = session().sql(f"SELECT {written} AS cuts").toArrow().column("cuts").to_pylist()
    if kind.scale is None:
        assert read == EXTREMES
    else:
        assert list(map(Fraction, read)) == list(map(Fraction, cuts))
