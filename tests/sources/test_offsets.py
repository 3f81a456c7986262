"""What shifts the ranks of units that are whole numbers: every offset is as likely as any other, and owners do not share theirs."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product

import duckdb
import pytest
from scipy.stats import chi2

from sordino.questions import rank_law
from sordino.questions.rank_law import Draw
from sordino.sources.sql.sql_templates import EMBEDDED
from support.rank_law import PRIME, factors_of, find_key, find_offset

SALT = b"0123456789abcdef"
MOST = (1 << 63) - 1
BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
RANGES = {
    f"{sign}{name}": bits
    for sign in ("", "U")
    for name, bits in BITS.items()
    if sign + name != "UBIGINT"
}


def write(*, grouped=False, whole=True):
    draw = Draw(salt=SALT, words=EMBEDDED, whole=whole)
    return draw.write_offset(f"({draw.write_key()})", grouped=grouped)


def offsets(expression, kind, units, places=(0,)):
    """What the engine computes, for all units with all places."""
    rows = ", ".join(
        f"(CAST('{unit}' AS {kind}), CAST({place} AS BIGINT))" for unit in units for place in places
    )
    question = f"SELECT unit, grp, {expression} FROM (VALUES {rows}) AS made(unit, grp)"
    return {(unit, place): offset for unit, place, offset in duckdb.sql(question).fetchall()}


def extremes(kind):
    bits = RANGES[kind]
    least, most = (
        (0, (1 << bits) - 1) if kind.startswith("U") else (-(1 << bits - 1), (1 << bits - 1) - 1)
    )
    pieces = [
        near
        for place in (22, 44)
        for at in (1 << place, -1 << place)
        for near in (at - 1, at, at + 1)
    ]
    return sorted(
        {
            one
            for one in (least, least + 1, *pieces, -1, 0, 1, most - 1, most)
            if least <= one <= most
        }
    )


@pytest.mark.parametrize("kind", RANGES)
def test_an_engine_computes_what_the_law_says(kind):
    units, places = extremes(kind), (0, 1, (1 << 18) - 1)
    assert offsets(write(), kind, units) == {
        (one, 0): find_offset([str(one)], SALT) for one in units
    }
    found = offsets(write(grouped=True), kind, units, places)
    assert found == {
        (one, place): find_offset([str(one), place], SALT) for one in units for place in places
    }


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
    expression = write(grouped=True, whole=False)
    rows = ", ".join(f"(CAST('{one}' AS {kind}))" for one in HELD[kind])
    question = (
        f"SELECT CAST(unit AS VARCHAR), {expression}"
        f" FROM (SELECT {unit} AS unit, 3 AS grp FROM (VALUES {rows}) AS made(c0))"
    )
    found = dict(duckdb.sql(question).fetchall())
    assert len(found) == len(HELD[kind])
    assert found == {text: find_offset([text, 3], SALT) for text in found}


def test_the_largest_factors_leave_no_64_bits(monkeypatch):
    monkeypatch.setattr(Draw, "_list_factors", lambda _, count, name: [PRIME - 1] * count)
    units, places = extremes("BIGINT"), (0, (1 << 18) - 1)
    found = offsets(write(grouped=True), "BIGINT", units, places)
    pieces = {one: one % 2**22 + one // 2**22 % 2**22 + one // 2**44 for one in units}
    # All factors are -1.
    keys = {
        (one, place): (1 + pieces[one] - place - 1) % PRIME for one in units for place in places
    }
    assert found == {at: -(key**3 + key**2 + key + 1) % PRIME for at, key in keys.items()}
    # Before a remainder is taken: whatever the engine adds first.
    assert (1 << 19) * (PRIME - 1) < rank_law._LIFT
    assert 3 * (1 << 22) * (PRIME - 1) + rank_law._LIFT + PRIME < 1 << 63
    assert (PRIME - 1) ** 2 + ((1 << 18) - 1) * (PRIME - 1) + PRIME < 1 << 63
    assert rank_law._LIFT % PRIME == 0


def test_the_modulus_is_a_prime_above_every_difference_of_pieces():
    assert all(PRIME % one for one in range(2, 1 << 16))
    assert PRIME > 1 << 22


# ---- exactly, with small numbers --------------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch):
    """The same law with numbers that can be enumerated; its factors are columns."""
    monkeypatch.setattr(rank_law, "_PRIME", 5)
    monkeypatch.setattr(rank_law, "_LIFT", 5 * 4)
    monkeypatch.setattr(rank_law, "_LIMB", 1)
    monkeypatch.setattr(
        Draw,
        "_list_factors",
        lambda _, count, name: [f"{chr(name[0])}{place}" for place in range(count)],
    )


def enumerate_values(expression, columns, count):
    """The values of an expression for each of the columns, for all values of so many factors."""
    [name] = {letter for letter in "kgo" if f"{letter}0" in expression}
    factors = " CROSS JOIN ".join(f"range(5) AS t{place}({name}{place})" for place in range(count))
    row = ", ".join(f"(SELECT {expression} FROM (SELECT {column} AS unit))" for column in columns)
    draws = duckdb.sql(f"SELECT {row} FROM {factors}").fetchall()
    assert len(draws) == 5**count
    return draws


def are_independent(draws, together):
    """Whether so many columns at a time take all values equally often."""
    for chosen in combinations(range(len(draws[0])), together):
        found = Counter(tuple(draw[place] for place in chosen) for draw in draws)
        if len(found) != 5**together or len(set(found.values())) != 1:
            return False
    return True


def write_key():
    return Draw(salt=SALT, words=EMBEDDED, whole=True).write_key()


@pytest.mark.usefixtures("small")
def test_keys_of_two_units_are_uniform_and_independent():
    assert are_independent(enumerate_values(write_key(), range(-4, 8), 4), 2)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("twin", [("* k2", "* k1"), ("& 1) * k2", "& 0) * k2"), (" * k1", " * 1")])
def test_twins_in_which_units_share_their_keys_are_convicted(twin):
    assert write_key().replace(*twin) != write_key()
    assert not are_independent(enumerate_values(write_key().replace(*twin), range(-4, 8), 4), 2)


@pytest.mark.usefixtures("small")
def test_offsets_of_any_four_keys_are_uniform_and_independent():
    polynomial = Draw(salt=SALT, words=EMBEDDED, whole=True).write_offset("unit", grouped=False)
    assert are_independent(enumerate_values(polynomial, range(5), 4), 4)


@pytest.mark.usefixtures("small")
def test_the_twin_with_a_line_is_convicted():
    """Two offsets are independent then, and three are not: of ids in a row all may be alike."""
    line = "((o0 * unit + o1) % 5)"
    assert are_independent(enumerate_values(line, range(5), 2), 2)
    assert not are_independent(enumerate_values(line + " + 0 * (o2 + o3)", range(5), 4), 3)


# ---- over salts -------------------------------------------------------------------------------------------------------------


def names_of(owner):
    unit, *places = owner
    return [str(unit), *places]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([7], [8]),
        ([7], [-7]),
        ([-MOST - 1], [MOST]),
        ([3], [3 + (1 << 44)]),
        ([7, 2], [7, 3]),
        ([7, 2], [9, 2]),
        ([7], [7, 0]),
        ([7], [7, 3]),
        (["x"], ["y"]),
        (["x"], [7]),
    ],
)
@pytest.mark.sample(3)
def test_over_salts_two_owners_are_independent(one, other):
    """The factors are made of the salt: a chi-square over 6,000 salts, with units that have 5 and 7 rows."""
    salts = [f"{place:016}".encode() for place in range(6000)]
    found = Counter(
        (find_offset(names_of(one), salt) % 5, find_offset(names_of(other), salt) % 7)
        for salt in salts
    )
    expected = len(salts) / 35
    off = sum((found[at] - expected) ** 2 / expected for at in product(range(5), range(7)))
    assert chi2.sf(off, 34) > 1e-4


def spread(find, salts):
    """The kurtosis of how many of 200 units with ids in a row, and twelve rows each, count with their first one."""
    # Whoever has an offset below one counts with rank 0.
    counts = [sum(find(unit, salt) % 12 < 1 for unit in range(200)) for salt in salts]
    mean, variance = 200 / 12, 200 / 12 * 11 / 12
    return sum((count - mean) ** 4 for count in counts) / len(counts) / variance**2


@pytest.mark.slow
def test_sums_over_ids_in_a_row_have_no_long_tails():
    """Of independent choices the fourth moment is about 3 variances squared; lines have many times that."""
    salts = [f"{place:016}".encode() for place in range(1500)]
    assert 2.4 < spread(lambda unit, salt: find_offset([str(unit)], salt), salts) < 3.8
    assert spread(lambda unit, salt: find_key(str(unit), salt), salts) > 6, (
        "the key alone is convicted"
    )


def test_factors_are_those_of_the_salt():
    draw = Draw(salt=SALT, words=EMBEDDED, whole=True)
    assert draw._list_factors(4, b"key") == factors_of(SALT, 4, "key")
    kinds = [(4, "key"), (3, "group"), (4, "offset"), (4, "offset in groups")]
    assert len({one for kind in kinds for one in factors_of(SALT, *kind)}) == 15
    assert not {*factors_of(SALT, 4, "key")} & {*factors_of(SALT[::-1], 4, "key")}
    assert SALT.decode() not in repr(draw)
