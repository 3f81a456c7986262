"""Steps of one number: floor(x / step) between public ends, in whole numbers of 64 bits or of 128, whichever the ends allow."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction

import duckdb
import pytest

from sordino.columns.clipped_steps import StepRange
from sordino.sources.sql import step_query as module
from sordino.sources.sql.number_kind import number_kind
from sordino.sources.sql.step_query import Addends, step_query

KINDS = [
    *("TINYINT", "UTINYINT", "INTEGER", "BIGINT", "UBIGINT", "HUGEINT"),
    *(
        "DECIMAL(4,2)",
        "DECIMAL(12,2)",
        "DECIMAL(9,9)",
        "DECIMAL(17,3)",
        "DECIMAL(18,0)",
        "DECIMAL(18,9)",
    ),
    *("DECIMAL(18,18)", "DECIMAL(19,2)", "DECIMAL(38,18)"),
]
# Ends in steps, and steps: small and large ones, up to what a range may have.
RANGES = [
    StepRange(low=low, high=high, step=Fraction(2) ** power)
    for low, high in ((0, 1 << 52), (-(1 << 52), 1 << 52), (-7, 1000), (0, 0), (3, 5), (-5, -3))
    for power in (-60, -36, -10, -1, 0, 1, 10, 40, 62, 63, 64, 130)
]


def list_values(kind):
    """Return numbers of a kind, without their point: its ends, those next to them, and around 0 and powers of 2."""
    near = {0, kind.smallest, kind.largest}
    near |= {sign << power for power in range(0, 127, 7) for sign in (1, -1)}
    near |= {sign * 10**power for power in range(38) for sign in (1, -1)}
    close = {one + more for one in near for more in (-1, 0, 1)}
    return sorted(one for one in close if kind.smallest <= one <= kind.largest)


def add_up(kind, whole):
    """Return what finds, for a range, the total of each number alone; None if the engine fails."""
    texts = [format(Decimal(one).scaleb(-kind.scale, Context(prec=60)), "f") for one in whole]
    engine = duckdb.connect()
    engine.execute(
        f"CREATE TABLE listed AS SELECT CAST(unnest(?) AS {kind.name}) AS x, unnest(?) AS grp",
        [texts, list(range(len(texts)))],
    )

    def find(ends):
        try:
            found = engine.execute(
                step_query(kind, Addends([ends], "listed", grouped=True))
            ).fetchall()
        except duckdb.Error:
            return None
        return {place: int(total) for place, total, _, _ in found}

    return find


def expect(kind, ends, whole):
    steps = (math.floor(Fraction(one, 10**kind.scale) / ends.step) for one in whole)
    return {place: max(ends.low, min(ends.high, one)) for place, one in enumerate(steps)}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.sample(5)
def test_each_number_has_its_steps(name):
    kind = number_kind(name, text=False)
    whole = list_values(kind)
    find = add_up(kind, whole)
    for ends in RANGES:
        assert find(ends) == expect(kind, ends, whole), ends


@pytest.mark.parametrize("name", ["BIGINT", "DECIMAL(18,2)"])
def test_the_twin_that_computes_all_of_them_in_64_bits_is_convicted(name, monkeypatch):
    monkeypatch.setattr(module, "_BEYOND_BIGINT", 1 << 200)
    kind = number_kind(name, text=False)
    whole = list_values(kind)
    find = add_up(kind, whole)
    assert any(find(ends) != expect(kind, ends, whole) for ends in RANGES)


@pytest.mark.parametrize("name", ["INTEGER", "DECIMAL(12,2)"])
def test_what_fits_into_64_bits_is_computed_in_them(name):
    kind = number_kind(name, text=False)
    ends = StepRange(low=0, high=1_000_000 << 30, step=Fraction(1, 1 << 30))
    query = step_query(kind, Addends([ends], "listed", grouped=False))
    assert "HUGEINT" not in query
    assert "VARCHAR)" not in query.replace("AS VARCHAR) AS total", "")
