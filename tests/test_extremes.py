"""Numbers at the ends of the floats, and beyond: whatever is asked with one is released, or refused before the charge."""

from __future__ import annotations

import copy
import math
import pickle
from fractions import Fraction

import pandas as pd
import pytest

import sordino as sd
from sordino.mechanisms import FoldedMechanism

ROWS = pd.DataFrame(
    {"u": [f"p{i}" for i in range(60)], "g": ["a", "b"] * 30, "x": [float(i) for i in range(60)]}
)
EXTREMES = (
    1.7976931348623157e308, 1e308, 1e200, 1e161, 1e154, 1e20, 1e-20, 1e-154, 1e-161, 1e-300, 5e-324,
    10**40, 10**400, 10**5000, Fraction(1, 10**400), Fraction(10**400, 3), -1e308, -1e161, -5e-324, 1 << 63,
)  # fmt: skip
_COLUMN = {"lower": 0, "cap": 50, "epsilon": 1}
_ITEMS = {"epsilon": 1, "domain": ["a", "b"]}
_ASSUMED = {"epsilon": 1, "domain": "assume-public"}
# Each figure, what it is asked with, and what of it is made extreme, alone or with others.
FIGURES = {
    **{
        name: (name, "x", _COLUMN, ("cap", "epsilon", "growth", "unit", "numbers_share", "lower", "lower cap"))
        for name in ("sum", "mean", "variance")
    },
    "sum within": ("sum", "x", _COLUMN | {"bounds": (0, 50)}, ("epsilon", "bounds", "cap bounds", "ends")),
    "mean within": ("mean", "x", _COLUMN | {"bounds": (0, 50)}, ("epsilon", "bounds", "cap bounds", "ends")),
    "gaussian sum": ("sum", "x", _COLUMN | {"noise": "gaussian"}, ("cap", "epsilon")),
    "sum of groups": ("sum", "x", _COLUMN | {"by": "g", "domain": ["a", "b"]}, ("cap", "unit")),
    "sum of groups within": (
        "sum", "x", _COLUMN | {"by": "g", "domain": ["a", "b"], "bounds": (0, 50)}, ("cap bounds", "ends"),
    ),
    "quantile": (
        "quantile", "x", _COLUMN | {"q": 0.5}, ("cap", "epsilon", "growth", "unit", "q", "interval_share", "size_hint"),
    ),
    "count": ("count", None, {"epsilon": 1}, ("epsilon", "bounds")),
    "histogram": ("histogram", "g", _ITEMS, ("epsilon", "bounds")),
    "histogram of labels assumed": ("histogram", "g", _ASSUMED, ("epsilon", "bounds")),
    "top": ("top_k", "g", _ITEMS | {"k": 1, "method": "gaps"}, ("epsilon", "threshold", "selection_share", "k")),
    "top of labels assumed": ("top_k", "g", _ASSUMED | {"k": 2, "method": "gaps"}, ("epsilon", "threshold", "k")),
    "top by histogram": ("top_k", "g", _ITEMS | {"k": 1}, ("epsilon", "threshold")),
    "set": ("top_set", "g", _ASSUMED | {"k": 2}, ("epsilon", "selection_share", "k")),
    "above": (
        "above", "g", _ITEMS | {"threshold": 5, "positives": 1}, ("epsilon", "threshold", "measure_share", "correction", "positives"),
    ),
}  # fmt: skip
CASES = [
    (name, changed, value) for name in FIGURES for changed in FIGURES[name][3] for value in EXTREMES
]


def change(asked, changed, value):
    """Return what is asked with, of which something is extreme."""
    changes = {}
    for one in changed.split():
        if one == "bounds":
            changes[one] = (min(0, value), abs(value))
        elif one == "ends":
            changes |= {
                "lower": -abs(value),
                "cap": abs(value),
                "bounds": (-abs(value), abs(value)),
            }
        else:
            changes[one] = value
    return asked | changes


def ask(session, name, changed, value):
    method, column, asked, _ = FIGURES[name]
    given = () if column is None else (column,)
    return getattr(session, method)(*given, **change(asked, changed, value))


@pytest.mark.parametrize(
    ("name", "changed", "value"), CASES, ids=[f"{n}-{c}-{EXTREMES.index(v)}" for n, c, v in CASES]
)
@pytest.mark.sample(72)
def test_it_is_released_or_refused_before_the_charge(name, changed, value):
    """An error after the charge is a `DataSourceError`, which nothing public may be the cause of."""
    for adjacency in ("add-remove", "replace-one"):
        session = sd.Session(ROWS, unit=sd.PrivacyUnit.row(adjacency=adjacency), ledger=None)
        try:
            release = ask(session, name, changed, value)
        except sd.InvalidParameter as error:
            assert len(str(error)) < 400
        else:
            assert release.to_dict()


@pytest.mark.parametrize("value", [1e161, 1e200, 10**400], ids=["1e161", "1e200", "10^400"])
@pytest.mark.parametrize("name", ["sum within", "sum of groups within", "sum", "count"])
@pytest.mark.each_value
def test_an_account_is_not_charged_for_nothing(tmp_path, name, value):
    unit = sd.PrivacyUnit.row()
    about = {"unit": unit, "source": "name:rows", "adjacency": "add-remove"}
    ledger = sd.Ledger.create(tmp_path / "b.db", account="a", budget=sd.Budget(epsilon=5), **about)
    session = sd.Session(ROWS, unit=unit, ledger=ledger, name="rows")
    try:
        ask(
            session,
            name,
            "bounds" if name == "count" else "cap bounds" if "within" in name else "cap",
            value,
        )
    except sd.InvalidParameter:
        assert ledger.statement().spent == 0
    else:
        assert ledger.statement().spent == 1


@pytest.mark.parametrize("unit", [1e-200, 1e-161, 1e-154, 1.0, 1e154, 1e161, 1e200])
def test_the_error_of_a_bounded_sum_has_its_unit(unit):
    """The twin squares the step first: the error of a small unit is 0, and a large one is an overflow."""
    session = sd.Session(ROWS, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(1))
    found = session.sum("x", epsilon=1, lower=0, cap=50 * unit, bounds=(0, 6000 * unit))
    assert found.standard_error / unit == pytest.approx(74.43, rel=0.01)
    law = FoldedMechanism(lower=0, upper=8, epsilon=1, sensitivity=sd.COUNTING.over(1))
    assert law._largest_deviation**2 == pytest.approx(law.variance(at=4))


# ---- what is made of releases ------------------------------------------------------------------------------


@pytest.fixture
def figure():
    return sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING).release(
        520, entropy=sd.Seeded(7)
    )


@pytest.mark.parametrize("number", [1e308, -1e308, 10**400, Fraction(10**400, 3)], ids="abcd")
@pytest.mark.parametrize(
    "make",
    [
        lambda f, n: f * n,
        lambda f, n: n * f,
        lambda f, n: f / Fraction(1, int(abs(n))),
        lambda f, n: f * 1e300 * 1e300 + n,
        lambda f, n: (f / (f + 1)) * n * 1e9,
    ],
)
@pytest.mark.each_value
def test_a_figure_beyond_the_floats_is_refused_in_words(figure, number, make):
    with pytest.raises(sd.InvalidParameter, match="must have an interval that floats can hold"):
        make(figure, number)


@pytest.mark.parametrize("number", [5e-324, 1e-300, Fraction(1, 10**400), 1e300])
def test_a_figure_that_floats_can_hold_is_made(figure, number):
    made = figure * number
    assert made.low <= made.value <= made.high
    assert math.isfinite(made.high)


# ---- what cannot be copied ---------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_session_is_not_copied(make):
    session = sd.Session(ROWS, unit=sd.PrivacyUnit.row(), ledger=None)
    with pytest.raises(TypeError, match="A Session belongs to the process that opened it"):
        make(session)


def test_copies_of_a_seed_repeat_the_noise_as_its_words_say():
    seed = sd.Seeded(7)
    first = seed.words(3).tolist()
    assert (
        pickle.loads(pickle.dumps(seed)).words(3).tolist()
        == copy.deepcopy(seed).words(3).tolist()
        == first
    )
    assert "repeat the same noise" in sd.Seeded.__doc__


# ---- answers that are none ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    ("answer", "side"),
    [(math.nan, -1), (-math.inf, -1), (None, -1), (math.inf, 1), (1e308, 1), (10**400, 1)],
)
@pytest.mark.each_value
def test_answers_that_are_no_numbers_go_where_the_words_say(mechanism, answer, side):
    m = (
        sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING)
        if mechanism == "laplace"
        else sd.GaussianMechanism(rho=1, sensitivity=sd.COUNTING)
    )
    for given in (answer, [answer]):
        released = m.release(given, entropy=sd.Seeded(1))
        value = released.value if given is answer else released.values[0]
        assert value / float(m.step) == pytest.approx(side * 2.0**52)
    assert "-2^52 steps" in m.release.__doc__


@pytest.mark.parametrize(
    "rows", [1 << 63, 10**308, 10**400, 10**5000], ids=["64 bits", "308", "400", "5000"]
)
def test_a_bound_on_rows_that_no_table_reaches_is_refused_in_words(rows):
    """Twin: it met floats, and texts of whole numbers, that there are none of."""
    with pytest.raises(sd.InvalidParameter, match="max_rows must be at most 9223372036854775807"):
        sd.PrivacyUnit("u", max_rows=rows)


@pytest.mark.parametrize("method", ["auto", "gaps", "histogram"])
def test_the_largest_bound_on_rows_is_taken_or_refused_before_the_charge(method):
    session = sd.Session(
        ROWS, unit=sd.PrivacyUnit("u", max_rows=(1 << 63) - 1), entropy=sd.Seeded(1)
    )
    for asked in (
        lambda: session.top_k("g", k=1, epsilon=1, domain=["a", "b"], method=method),
        lambda: session.above(
            "g", threshold=5, positives=1, epsilon=1, domain=["a", "b"], method=method
        ),
        lambda: session.count(epsilon=1),
        lambda: session.count(epsilon=10**12),
        lambda: session.histogram("g", epsilon=1, domain=["a", "b"]),
        lambda: session.sum("x", **_COLUMN),
        lambda: session.quantile("x", q=0.5, **_COLUMN),
    ):
        try:
            asked()
        except sd.InvalidParameter as error:
            assert "after the charge" not in str(error)
