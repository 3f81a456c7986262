"""What shifts the ranks of units that are whole numbers: every offset is as likely as any other, and two units do not share theirs."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import duckdb
import pytest
from scipy.stats import chi2

from sordino.data.questions import rank_law
from sordino.data.questions.rank_law import Draw
from sordino.data.sources.words import EMBEDDED
from support.rank_law import PRIME, factors_of, find_offset, whole_offset

SALT = b"0123456789abcdef"
MOST = (1 << 63) - 1
BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
RANGES = {
    f"{sign}{name}": bits for sign in ("", "U") for name, bits in BITS.items() if sign + name != "UBIGINT"
}


def write(owner=("unit",), salt=SALT):
    return Draw(salt=salt, words=EMBEDDED, whole=True).write_offset(owner, ())


def offsets(expression, kind, units, places=(0,)):
    """What the engine computes, for all units with all places."""
    rows = ", ".join(
        f"(CAST('{unit}' AS {kind}), CAST({place} AS BIGINT))" for unit in units for place in places
    )
    question = f"SELECT unit, grp, {expression} FROM (VALUES {rows}) AS made(unit, grp)"
    return {(unit, place): offset for unit, place, offset in duckdb.sql(question).fetchall()}


def extremes(kind):
    bits = RANGES[kind]
    least, most = (0, (1 << bits) - 1) if kind.startswith("U") else (-(1 << bits - 1), (1 << bits - 1) - 1)
    moduli = [near for modulus in rank_law._MODULI for near in (modulus - 1, modulus, -modulus, 1 - modulus)]
    return sorted(
        {one for one in (least, least + 1, *moduli, -1, 0, 1, most - 1, most) if least <= one <= most}
    )


@pytest.mark.parametrize("kind", RANGES)
def test_an_engine_computes_what_the_law_says(kind):
    units, places = extremes(kind), (0, 1, (1 << 18) - 1)
    assert offsets(write(), kind, units) == {(one, 0): whole_offset([one], SALT) for one in units}
    found = offsets(write(("unit", "grp")), kind, units, places)
    assert found == {(one, place): whole_offset([one, place], SALT) for one in units for place in places}


TEXTS = ["0", "7", "-7", "07", "+7", "-0", " 7", "7.0", "7e0", "", "x", "é", "9" * 40]
ENDS = [str(place) for end in (-(1 << 63), 1 << 63, 1 << 64) for place in (end - 1, end, end + 1)]
HELD = {
    "VARCHAR": [*TEXTS, *ENDS],
    "UBIGINT": ["0", "7", *(one for one in ENDS if 0 <= int(one) < 1 << 64)],
    "HUGEINT": ["0", "7", "-7", *ENDS],
    "DECIMAL(20,0)": ["0", "7", "-7", *ENDS],
    "DOUBLE": ["0", "7", "-7", "7.5", "1e300"],
}


@pytest.mark.parametrize("kind", HELD)
def test_a_unit_goes_by_its_text_whatever_type_holds_it(kind):
    """Of a whole number of 64 bits it is the offset of that number, of everything else a hash."""
    unit = EMBEDDED.label(0, kind) if kind in {"VARCHAR", "DOUBLE"} else "c0"
    expression = Draw(salt=SALT, words=EMBEDDED, whole=False).write_offset(("unit", "grp"), ("unit", "item"))
    rows = ", ".join(f"(CAST('{one}' AS {kind}))" for one in HELD[kind])
    question = (
        f"SELECT CAST(unit AS VARCHAR), {expression}"
        f" FROM (SELECT {unit} AS unit, 3 AS grp, 'tea' AS item FROM (VALUES {rows}) AS made(c0))"
    )
    found = dict(duckdb.sql(question).fetchall())
    assert len(found) == len(HELD[kind])
    assert found == {text: find_offset([text, (3, "tea")], SALT) for text in found}


def test_the_largest_factors_leave_no_64_bits(monkeypatch):
    monkeypatch.setattr(Draw, "_list_factors", lambda _, count: [PRIME - 1] * count)
    units, places = extremes("BIGINT"), (0, (1 << 18) - 1)
    found = offsets(write(("unit", "grp")), "BIGINT", units, places)
    remainders = {one: sum(abs(one) % q * (1 if one > 0 else -1) for q in rank_law._MODULI) for one in units}
    assert found == {
        (one, place): -(1 + remainders[one] + place) % PRIME for one in units for place in places
    }
    # Before the remainder is taken: whatever the engine adds first.
    product = (max(rank_law._MODULI) - 1) * (PRIME - 1)
    assert 3 * product < rank_law._LIFT
    assert 3 * product + ((1 << 18) - 1) * (PRIME - 1) + rank_law._LIFT + PRIME < 1 << 63
    assert rank_law._LIFT % PRIME == 0


def test_whole_numbers_differ_in_a_remainder():
    product = 1
    for modulus in rank_law._MODULI:
        assert all(modulus % one for one in range(2, 2049))
        product *= modulus
    assert all(PRIME % one for one in range(2, 1 << 19))
    # Two of 64 bits are less than 2^64 apart, and remainders, whatever their signs, less than twice a modulus.
    assert product > 1 << 64
    assert 2 * max(rank_law._MODULI) < PRIME


@pytest.fixture
def small(monkeypatch):
    """The same law with numbers that can be enumerated; its factors are columns."""
    monkeypatch.setattr(rank_law, "_PRIME", 5)
    monkeypatch.setattr(rank_law, "_LIFT", 5 * 4)
    monkeypatch.setattr(rank_law, "_MODULI", (2, 3))
    monkeypatch.setattr(Draw, "_list_factors", lambda _, count: [f"f{place}" for place in range(count)])


def enumerate_pairs(expression):
    """How often each pair of offsets occurs, over all factors, for each two of six units."""
    factors = " CROSS JOIN ".join(f"range(5) AS t{place}(f{place})" for place in range(3))
    row = ", ".join(f"(SELECT {expression} FROM (SELECT {unit} AS unit))" for unit in range(6))
    draws = duckdb.sql(f"SELECT {row} FROM {factors}").fetchall()
    assert len(draws) == 125
    return {
        pair: Counter((draw[pair[0]], draw[pair[1]]) for draw in draws) for pair in combinations(range(6), 2)
    }


def is_independent(found):
    return all(set(pairs.values()) == {5} and len(pairs) == 25 for pairs in found.values())


def test_offsets_of_two_units_are_uniform_and_independent_exactly(small):
    assert is_independent(enumerate_pairs(write()))


@pytest.mark.parametrize("twin", [("* f2", "* f1"), ("(unit % 3", "(unit % 2"), (" * f1", " * 1")])
def test_twins_in_which_units_share_their_offsets_are_convicted(small, twin):
    assert write().replace(*twin) != write()
    assert not is_independent(enumerate_pairs(write().replace(*twin)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([7], [8]),
        ([7], [-7]),
        ([-MOST - 1], [MOST]),
        ([3], [3 + 4194301 * 4194287]),
        ([7, 2], [7, 3]),
        ([7, 2], [9, 2]),
        ([7], [7, 0]),
        ([7], [7, 3]),
    ],
)
def test_over_salts_two_owners_are_independent(one, other):
    """The factors are made of the salt: a chi-square over 6,000 salts, with units that have 5 and 7 rows."""
    salts = [f"{place:016}".encode() for place in range(6000)]
    found = Counter((whole_offset(one, salt) % 5, whole_offset(other, salt) % 7) for salt in salts)
    expected = len(salts) / 35
    off = sum((found[left, right] - expected) ** 2 / expected for left in range(5) for right in range(7))
    assert chi2.sf(off, 34) > 1e-4


def test_factors_are_those_of_the_salt():
    draw = Draw(salt=SALT, words=EMBEDDED, whole=True)
    assert draw._list_factors(5) == factors_of(SALT, 5)
    assert len({*factors_of(SALT, 4), *factors_of(SALT, 5), *factors_of(SALT[::-1], 5)}) == 14
    assert SALT.decode() not in repr(draw)
