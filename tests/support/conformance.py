"""One table of extremes, everything that is asked of it, and what each engine makes of it: the same whole numbers."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from fractions import Fraction
from functools import partial

import pyarrow as pa

from sordino.columns import StepRange
from sordino.questions import Domain, PrivacyUnit, prepare_counts
from sordino.sources import open_source
from sordino.sources.engine import quoted
from support.number_states import GRIDS, SALT, asked, ladder_of, state

COLUMNS = {
    "who": (pa.string(), "text"),
    # Another column: names that differ in nothing but case are two.
    "WHO": (pa.int16(), "smallint"),
    "n": (pa.int64(), "bigint"),
    "g": (pa.string(), "text"),
    "x": (pa.float64(), "double precision"),
    "f": (pa.float32(), "real"),
    "b": (pa.int64(), "bigint"),
    "s": (pa.int16(), "smallint"),
    "d": (pa.decimal128(18, 2), "numeric(18,2)"),
    "w": (pa.decimal128(38, 10), "numeric(38,10)"),
    "h": (pa.decimal128(38, 0), "numeric(38,0)"),
    # No digit stands before the point.
    "p": (pa.decimal128(9, 9), "numeric(9,9)"),
    "day": (pa.date32(), "date"),
    "flag": (pa.bool_(), "boolean"),
}
NAN, INF = float("nan"), float("inf")
TEXTS = ["tea", "Tea", "TEA", "é", "e\u0301", "\U0001f600", "\ufffd", "", " tea", "tea ", "7", "07", "+7", "-0", "7.0", "%", "a\\b", "it's",
         "9223372036854775807", "9223372036854775808", "-9223372036854775808", "\U0010ffff", "ß", "ss", "İ", "i"]  # fmt: skip
VALUES = {
    "who": [*TEXTS[:8], "u1", "U1", "u2"],
    "WHO": [5, 6, 7],
    "n": [0, 1, -1, 7, (1 << 63) - 1, -(1 << 63), (1 << 53) + 1, 1 << 53],
    "g": TEXTS,
    "x": [0.0, -0.0, NAN, INF, -INF, 5e-324, -5e-324, 1.7976931348623157e308, -1.7976931348623157e308, 0.1, 3.0, -3.5, 9007199254740993.0],
    "f": [0.0, -0.0, NAN, INF, -INF, 1e-45, 3.4028234663852886e38, 1.5],
    "b": [0, 1, -1, (1 << 63) - 1, -(1 << 63), (1 << 53) + 1, -(1 << 53) - 1, 12345],
    "s": [0, 1, -1, 32767, -32768, 3],
    "d": [Decimal(n) / 100 for n in (0, 1, -1, 10**18 - 1, 1 - 10**18, 350)],
    "w": [Decimal(n).scaleb(-10) for n in (0, 1, -1, 35 * 10**9, 10**20 + 1)] + [Decimal("9" * 28 + "." + "9" * 10), Decimal("-" + "9" * 28 + "." + "9" * 10)],
    "h": [Decimal(n) for n in (0, 1, -1, "9" * 38, "-" + "9" * 38, 1 << 64)],
    "p": [Decimal(n).scaleb(-9) for n in (0, 1, -1, 10**9 - 1, 1 - 10**9, 170528812, -5 * 10**8)],
    "day": [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(9999, 12, 31)],
    "flag": [True, False],
}  # fmt: skip
NUMBERS = [name for name in COLUMNS if name in "xfbsdwhp"]
LABELS = ["who", "WHO", "n", "g", "b", "d", "h", "day", "flag"]
GROUPS = ["tea", "Tea", "é", "e\u0301", "\U0001f600", "", "absent"]
STEPS = [
    StepRange(low=-(1 << 52), high=1 << 52, step=Fraction(1)),
    StepRange(low=-(1 << 52), high=1 << 52, step=Fraction(1 << 70)),
    StepRange(low=-3, high=9, step=Fraction(1, 4)),
]
NARROW = StepRange(low=-(1 << 31), high=(1 << 31) - 1, step=Fraction(1, 1 << 20))


def rows(seed, most=150):
    """Return rows at random, every extreme among them, and some that hold nothing."""
    chance = random.Random(seed)
    made = [tuple(chance.choice([None, *VALUES[name]]) for name in COLUMNS) for _ in range(most)]
    longest = max(map(len, VALUES.values()))
    made += [
        tuple(VALUES[name][place % len(VALUES[name])] for name in COLUMNS)
        for place in range(longest)
    ]
    return [*made, (None,) * len(COLUMNS)]


def arrow(table):
    """Return rows as an Arrow table."""
    kinds = [(name, kind) for name, (kind, _) in COLUMNS.items()]
    return pa.table(
        {name: pa.array([row[n] for row in table], kind) for n, (name, kind) in enumerate(kinds)}
    )


def served(connection, table, name):
    """Make a table of PostgreSQL of rows, in the schema `conformance`."""
    listed = ", ".join(f"{quoted(column)} {kind}" for column, (_, kind) in COLUMNS.items())
    connection.execute(f"DROP TABLE IF EXISTS conformance.{name}")
    connection.execute(f"CREATE TABLE conformance.{name} ({listed})")
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO conformance.{name} VALUES ({', '.join(['%s'] * len(COLUMNS))})", table
        )


def counted(source, unit, **options):
    """Return the counts of a question by label or place, without zeros; labels and zeros are no answer of an engine."""
    found = prepare_counts(open_source(source), unit, salt=SALT, **options).run()
    if found.positions is not None:
        return dict(zip(found.positions.tolist(), found.values.tolist(), strict=True))
    named = found.labels or range(len(found.values))
    return {
        label: count for label, count in zip(named, found.values.tolist(), strict=True) if count
    }


def counts(source, unit):
    return {kind: counted(source, unit, kind=kind) for kind in ("rows", "units")}


def labels(source, unit, item):
    """Return the counts of the labels of a column, listed or not, and of whole numbers of a range.

    Labels that nobody listed are among them from one unit on, so these counts add up, too.
    """
    domains = {"listed": GROUPS, "unlisted": Domain.unlisted(delta=1e-6, least=1)}
    if item in {"who", "n", "g", "b", "h"}:
        domains["in a range"] = Domain.range(-3, 10)
    return {
        name: counted(source, unit, kind="items", item=item, domain=domain)
        for name, domain in domains.items()
    }


def tuples(source, unit):
    """Return the counts of labels of several columns, and rows grouped by them."""
    pairs = {"g": GROUPS, "flag": ["true", "false", "absent"]}
    asked_of = {
        "pairs": (("g", "flag"), pairs),
        "the other way round": (("flag", "g"), pairs),
        "in a range": (("n", "g"), {"n": Domain.range(-3, 10), "g": GROUPS}),
        "listed": (("day", "flag"), [("2024-02-29", "true"), ("0001-01-01", "false"), ("x", "y")]),
        "of three": (("b", "s", "flag"), {"b": Domain.range(0, 1 << 14), "s": Domain.range(-9, 1 << 7), "flag": ["true"]}),
    }  # fmt: skip
    found = {
        name: counted(source, unit, kind="items", item=item, domain=domain)
        for name, (item, domain) in asked_of.items()
    }
    bound = {"groups_per_unit": 2} if unit.column is not None else {}
    question = asked(
        source, GRIDS["made up"], unit=unit, column="x", by=("g", "flag"), domain=pairs, **bound
    )
    totals = question.totals([STEPS[2]] * len(question.groups))
    for label, one, total in zip(question.groups, question.run(), totals, strict=True):
        found[f"buckets in {label!r}"] = dict(enumerate(one.counts.tolist()))
        found[f"totals in {label!r}"] = dict(enumerate(total))
    return found


def groups(source, unit, column):
    """Return what is asked about a column of numbers in groups, each group with a range of its own."""
    bound = {"groups_per_unit": 2} if unit.column is not None else {}
    options = {"unit": unit, "column": column, "by": "g", "domain": GROUPS, **bound}
    question = asked(source, GRIDS["made up"], **options)
    found = {
        f"buckets in {label!r}": dict(enumerate(one.counts.tolist()))
        for label, one in zip(GROUPS, question.run(), strict=True)
    }
    ranges = [STEPS[0], *STEPS, STEPS[0], STEPS[2], STEPS[1]]
    totals = zip(GROUPS, question.totals(ranges), strict=True)
    return found | {f"totals in {label!r}": dict(enumerate(one)) for label, one in totals}


def numbers(source, unit, column):
    """Return what is asked about a column of numbers without groups."""
    [one] = asked(source, GRIDS["made up"], column=column, unit=unit).run()
    found = {"buckets": dict(enumerate(one.counts.tolist()))}
    question = asked(source, GRIDS["one edge"], column=column, unit=unit, squares=True)
    for place, ends in enumerate(STEPS):
        found[f"totals {place}"] = dict(enumerate(question.totals([ends])[0]))
    found["squares"] = dict(enumerate(question.square_totals([NARROW])[0]))
    for name in ("one edge", "signed"):
        sums = asked(
            source, GRIDS[name], column=column, unit=unit, ladder=ladder_of(GRIDS[name])
        ).sums()
        group, bucket, count, missing, total = state(sums)
        assert not any(group)
        found[f"counts, {name}"] = dict(zip(bucket, count, strict=True))
        found[f"sums, {name}"] = dict(zip(bucket, total, strict=True))
        found[f"missing, {name}"] = dict(enumerate(missing))
    return found


def people(source, unit, column):
    """Return what is asked about one number of each unit, made of its numbers in a column."""
    found = {}
    every = ("sum", "count", "mean", "min", "max", "any")
    for aggregate in every if column == "x" else ("sum", "mean"):
        options = {"unit": unit, "per_person": aggregate, "row_cap": 10**6, "column": column}
        if unit.column is None:
            # Each row has one already.
            found[aggregate] = {}
            continue
        [one] = asked(source, GRIDS["made up"], **options).run()
        found[aggregate] = dict(enumerate(one.counts.tolist()))
        question = asked(source, GRIDS["one edge"], **options)
        found[f"total of {aggregate}"] = dict(enumerate(question.totals([STEPS[2]])[0]))
        if aggregate != "sum" or column not in "xw":
            continue
        grouped = asked(
            source, GRIDS["made up"], by="g", domain=GROUPS, groups_per_unit=2, **options
        )
        for label, one in zip(GROUPS, grouped.run(), strict=True):
            found[f"{aggregate} in {label!r}"] = dict(enumerate(one.counts.tolist()))
        ends = (Fraction(-(10**6)), Fraction(10**6))
        shared = asked(source, GRIDS["made up"], by="g", domain=GROUPS, shared_ends=ends, **options)
        [one] = shared.run()
        found["sums in all groups"] = dict(enumerate(one.counts.tolist()))
        totals = shared.totals([STEPS[2]] * len(GROUPS))
        for label, total in zip(GROUPS, totals, strict=True):
            found[f"{aggregate} in {label!r}, clipped"] = dict(enumerate(total))
    return found


def without_zeros(found):
    return {name: {key: n for key, n in one.items() if n} for name, one in found.items()}


def add(one, other):
    """Return the sums of two answers, each by its label or place, without zeros."""
    together = {}
    for name in one:
        keys = {*one[name], *other[name]}
        together[name] = {key: one[name].get(key, 0) + other[name].get(key, 0) for key in keys}
    return without_zeros(together)


def differences(one, other):
    """Return the names of the questions to which two answers differ."""
    one, other = without_zeros(one), without_zeros(other)
    assert one.keys() == other.keys()
    return [name for name in one if one[name] != other[name]]


def largest(found):
    """Return the largest magnitude in an answer."""
    return max(abs(n) for one in found.values() for n in one.values())


def many(value, kind, count):
    """Return a table of a number many times, beside one that is missing: its sum takes more than 64 bits."""
    return pa.table({"x": pa.array([value] * count + [None], kind)})


UNITS = {
    "rows": PrivacyUnit.row(),
    "texts": PrivacyUnit("who", max_rows=2),
    "whole numbers": PrivacyUnit("n", max_rows=3),
    "dates": PrivacyUnit("day", max_rows=5),
    "truth values": PrivacyUnit("flag", max_rows=1),
    "decimals": PrivacyUnit("h", max_rows=2),
}
PARTS = {"counts": counts, "tuples": tuples}
PARTS |= {f"labels of {item}": partial(labels, item=item) for item in LABELS}
PARTS |= {f"numbers of {column}": partial(numbers, column=column) for column in NUMBERS}
PARTS |= {f"groups of {column}": partial(groups, column=column) for column in ("x", "b", "w")}
PARTS |= {f"people by {column}": partial(people, column=column) for column in "xfbsdwp"}
"""What is asked of a source about a unit: each part returns counts that add up over units, by the name of a question."""
