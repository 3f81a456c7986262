"""Selections by step noise: shares of the budget, atoms, scales, decisions on all sizes of noise, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
import traceback
from bisect import bisect_left, bisect_right
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise, product
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from hypothesis import given, strategies as st

import sordino as sd
from sordino import (
    COUNTING,
    InvalidParameter,
    Seeded,
    Sensitivity,
    SmoothStepSelection,
    StepSelection,
)
from sordino.constraints import COUNT, NOT_NEGATIVE, POSITIVE
from sordino.grid import CLAMP
from sordino.mechanisms import step_selection as public
from sordino.mechanisms.smooth import smooth_step_selection as smooth
from sordino.mechanisms.smooth.clamped_bound import clamped_bound
from sordino.mechanisms.smooth.smooth_step_selection import losers_fit
from sordino.mechanisms.smooth.step_atoms import (
    DIGITS,
    FINE,
    ROOM,
    heights,
    least_counts,
    ratio_for,
)
from support.steps import law, losers

CANARY = 86753099173
COMMON = {"epsilon": 2, "beta": 0.25, "candidates": 4, "ceiling": 8, "floor": 0.5}


def made(**changes):
    return SmoothStepSelection(**(COMMON | changes))


# --- the shares of the budget


@pytest.mark.parametrize(
    ("rate", "m"), [("1", 5), ("0.5", 2), ("0.5", 12), ("0.1", 20), ("2", 1000), ("0.05", 1000)]
)
def test_what_all_losers_cost(rate, m):
    share = losers(math.exp(-float(rate)), m)
    assert losers_fit(
        Fraction(rate), Fraction(share * (1.001 if float(rate) >= 0.3 else 1.03)), m
    ), "groups of levels lose a little"
    assert not losers_fit(Fraction(rate), Fraction(share * 0.999), m)
    assert share <= math.log(m)


def test_losers_pay_less_than_was_known():
    """ln sum p_k ((1 - q^(k+2))/(1 - q^(k+1)))^(m-1) is what a loser's every crossing would cost."""
    for rate, m, known in ((1, 5, 0.9937), (0.5, 2, 0.2761)):
        q = math.exp(-rate)
        every = math.log(
            sum(
                (1 - q) * q**k * ((1 - q ** (k + 2)) / (1 - q ** (k + 1))) ** (m - 1)
                for k in range(200)
            )
        )
        assert every == pytest.approx(known, abs=1e-4)
        assert losers(q, m) < every / 2


def test_a_rate_is_affordable_for_certain():
    """At the very edge decimals decide: the share that is computed to 60 digits, and a hair less of it."""
    m, rate = 5, Fraction(2)
    with mpmath.workdps(60):
        q = mpmath.exp(-2)
        kept = mpmath.nsum(
            lambda k: (1 - q) * q**k * ((1 - q ** (k + 2)) / (1 - q ** (k + 3))) ** (m - 1),
            [0, mpmath.inf],
        )
        share = Fraction(str(-mpmath.log(kept)))
    assert losers_fit(rate, share + Fraction(1, 10**18), m)
    assert not losers_fit(rate, share - Fraction(1, 10**9), m)


@pytest.mark.parametrize(
    ("epsilon", "m"),
    [(1, 5), (0.3, 20), (12, 10**6), (5, 10**4), (40, 2), (Fraction(1, 3), 7), (0.05, 5)],
)
@pytest.mark.sample(4)
def test_the_budget_is_divided_and_used_up(epsilon, m):
    mechanism = made(epsilon=epsilon, candidates=m, beta=0.3)
    split, ratio = mechanism.split, ratio_for(*mechanism._numbers)
    assert sum(split) == (Fraction(str(epsilon)) if isinstance(epsilon, float) else epsilon)
    assert split.winner > 0
    assert losers_fit(*split, m, ratio)
    assert split.winner * (1 << 40) % 1 == 0
    more = split.winner * Fraction(101, 100)
    assert more >= sum(split) or not losers_fit(more, sum(split) - more, m, ratio), (
        "noise could be smaller"
    )


def by_halves(budget, m, ratio):
    """The proposal as it was made by 50 halvings, in units; what must be, of which rates and noise follow."""
    rates = [budget * (1 - i / 64) for i in range(1, 64)]
    while rates[-1] > 2.0**-30:
        rates.append(rates[-1] / 2)
    above = budget
    for rate in rates:
        if smooth._left_over(rate, budget - rate, m, ratio) >= 0:
            break
        above = rate
    else:
        return 0
    for _ in range(50):
        middle = (rate + above) / 2
        enough = smooth._left_over(middle, budget - middle, m, ratio) >= 0
        rate, above = (middle, above) if enough else (rate, middle)
    return math.floor(rate * 2**40)


@pytest.mark.parametrize("m", [2, 5, 169, 200, 500_000])
@pytest.mark.parametrize(
    ("budget", "beta"),
    [(0.5, 0.5), (1.0, 0.02), (3.125, 0.0218), (9.21875, 0.0218), (40.0, 0.3), (1e4, 1)],
)
@pytest.mark.each_value
def test_a_rate_is_proposed_in_few_looks_and_is_that_of_fifty_halvings(
    budget, beta, m, monkeypatch
):
    ratio = ratio_for(Fraction(beta), Fraction("0.231"), Fraction(2))
    wanted, looks, look = by_halves(budget, m, ratio), [], smooth._left_over
    monkeypatch.setattr(smooth, "_left_over", lambda *given: looks.append(given) or look(*given))
    assert math.floor(smooth._propose_rate(budget, m, ratio) * 2**40) == wanted
    if budget > math.log(m) / 2 + 2 and budget < 1000:
        assert len(looks) <= 10
    # A twin that keeps to the 64ths of the budget wastes what 50 halvings find.
    if wanted:
        assert wanted not in {math.floor(budget * (1 - i / 64) * 2**40) for i in range(1, 64)}


@given(
    st.integers(1, 10**6),
    st.integers(0, 10**6),
    st.sampled_from(["line", "steps", "bend", "far", "no"]),
)
def test_the_last_number_that_is_enough_is_found(size, last, kind):
    last = min(last, size - 1)
    values = {
        "line": lambda x: float(last - x),
        "steps": lambda x: 1.0 if x <= last else -1.0,
        "bend": lambda x: math.expm1((last - x) / 1e4) if x >= last - 10**6 else 1.0,
        "far": lambda x: math.inf if x <= last else -math.inf,
        "no": lambda x: 0.0 if x <= last else math.nan,
    }
    looks = []
    found = smooth._find_last(lambda x: looks.append(x) or values[kind](x), 0, size)
    assert found == last
    assert len(looks) <= 40
    if kind == "line":
        assert len(looks) <= 6


@pytest.mark.parametrize(
    ("rate", "m", "beta", "before", "share"),
    [
        ("0.1", 20, "0.01", 0.2605, 0.2122),
        ("0.1", 20, "0.05", 0.2605, 0.2258496115167),
        ("0.3", 5, "0.2", 0.2969, 0.2874),
        ("0.5", 2, "0.01", 0.1135, 0.1103),
        ("0.3", 5, "0.01", 0.2969, 0.2572),
    ],
)
@pytest.mark.sample(4)
def test_losers_pay_less_where_the_bound_moves_little(rate, m, beta, before, share):
    """Values of two other programs, on ideal heights; how far a scale moves decides which losers it can reach."""
    ratio = ratio_for(Fraction(beta), Fraction(1), Fraction(10**9))
    rough = 1.0005 if len(str(share)) < 8 else 1 + 1e-7
    assert losers_fit(Fraction(rate), Fraction(share * rough), m, ratio)
    assert not losers_fit(Fraction(rate), Fraction(share / rough), m, ratio)
    assert losers_fit(Fraction(rate), Fraction(before * 1.0005), m)
    assert not losers_fit(Fraction(rate), Fraction(share * rough), m), (
        "without the heights it is not known"
    )
    assert not losers_fit(
        Fraction(rate),
        Fraction(share / rough),
        m,
        ratio_for(Fraction(40), Fraction(1), Fraction(10**9)),
    )


@pytest.mark.parametrize("beta", ["0.01", "0.05", "0.2", "0.7"])
def test_a_loser_that_loses_a_height_stayed_behind_many(beta):
    """Every lead and every move of the scale on a fine grid. The broken twin counts one height more."""
    ratio = ratio_for(Fraction(beta), Fraction(1), Fraction(10**9))
    atoms = [Fraction(z, 1 << DIGITS) for z in heights(ratio)(range(400))]
    counts = least_counts(ratio)
    assert list(counts) == sorted(counts)
    reached = []
    for k in (0, 1, 2, 5, 12, 30):
        [fewest] = smooth._fewest_allowed([k], ratio)
        # Heights beyond those are so far apart that a level decides alone.
        if fewest + 6 > len(counts):
            continue
        assert fewest == max(k + 3, sum(z <= (1 + ratio) * atoms[k] + 2 for z in atoms))
        scales = [1 + (ratio - 1) * Fraction(i, 8) for i in range(1, 9)]
        for height, scale, tiny in product(atoms[: fewest + 6], scales, (0, Fraction(1, 10**6))):
            lead = height - atoms[k] + tiny
            if lead <= 0:
                continue
            before, after = atoms[k] + lead, atoms[k + 1] + (lead - 2) / scale
            for behind in (bisect_left, bisect_right):
                lost = behind(atoms, before) - behind(atoms, after)
                assert lost <= 1
                if lost > 0:
                    assert behind(atoms, before) >= fewest
                    reached.append((k, behind(atoms, before) - fewest))
    assert min(over for _, over in reached) == 0, "one height more is lost by somebody"


def test_a_single_candidate_and_a_public_scale_leave_all_to_the_winner():
    assert made(candidates=1).split == (2, 0)
    assert made(candidates=10**6, ceiling=1, floor=1).split == (2, 0)
    assert made(candidates=1).release([3], smooth_bound=1, entropy=Seeded(1)).index == 0


# --- atoms and scales


def test_the_first_atoms():
    found = made(beta=0.1).atoms(5)
    assert found == pytest.approx(
        [0, 2, 4.210341836151295, 6.653147352471636, 9.352864967623642], abs=1e-9
    )
    assert made(ceiling=3, floor=3).atoms(4) == (0, 2, 4, 6)


@given(
    beta=st.fractions(min_value=Fraction(1, 1000), max_value=30, max_denominator=1000),
    widest=st.fractions(min_value=Fraction(1001, 1000), max_value=10**12, max_denominator=1000),
)
def test_atoms_rise_by_more_than_the_ratio_and_two_windows(beta, widest):
    ratio = ratio_for(beta, Fraction(3), 3 * widest)
    with mpmath.workdps(40):
        ideal = min(
            mpmath.exp(mpmath.mpf(beta.numerator) / beta.denominator),
            mpmath.mpf(widest.numerator) / widest.denominator,
        )
        assert (
            ideal * (1 + mpmath.mpf(ROOM.numerator) / ROOM.denominator)
            <= mpmath.mpf(ratio.numerator) / ratio.denominator
        )
        assert mpmath.mpf(ratio.numerator) / ratio.denominator <= ideal * (1 + mpmath.mpf(2) ** -37)
    found = heights(ratio)(range(12))
    assert found[0] == 0
    for low, high in pairwise(found):
        decides = high - low > (2 * CLAMP // FINE) << DIGITS
        assert decides or high >= ratio * low + (2 << DIGITS)
        assert decides or high <= ratio * low + (2 << DIGITS) + 1


def test_a_public_scale_has_no_ratio():
    assert ratio_for(Fraction(0), Fraction(2), Fraction(2)) == 1
    assert ratio_for(Fraction(7), Fraction(2), Fraction(2)) == 1
    assert ratio_for(Fraction(10**9), Fraction(1), Fraction(4)) < Fraction(41, 10), (
        "a bound moves by no more than its range"
    )


def test_atoms_that_are_not_computed_decide_alike():
    """Beyond the last computed atom a higher level wins, whatever the scores: so it does with the atoms as they would be."""
    ratio = ratio_for(Fraction(3), Fraction(1), Fraction(10**9))
    true = [0]
    while len(true) < 40:
        true.append(math.ceil(true[-1] * ratio) + (2 << DIGITS))
    rng = np.random.Generator(np.random.PCG64(3))
    for _ in range(100):
        steps = rng.integers(-CLAMP, CLAMP + 1, 5)
        levels = rng.integers(0, 40, (1, 5))
        scale = int(rng.integers(FINE, 4 * FINE)) << 24
        kept = [
            smooth.decide(steps, levels, scale, each)
            for each in (heights(ratio), lambda levels: [true[x] for x in levels])
        ]
        assert kept[0].tolist() == kept[1].tolist()


def test_the_scale_is_the_bound_and_two_steps_rounded_up():
    m = made(ceiling=8, floor=0.5)
    assert m.step == Fraction(1, 1 << 21)
    for bound in (0.5, 0.7, 3, Fraction(22, 7), Decimal("7.9")):
        steps, scale = m.on_grids([1, 2, 3, 4], bound)
        ideal = Fraction(bound) / m.step + 2
        assert ideal <= Fraction(scale, 1 << 24) <= ideal * (1 + ROOM) - ideal / 2**41
        assert steps.tolist() == [x << 21 for x in (1, 2, 3, 4)]


# --- private bounds of any kind


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        *[
            (0.7, 0.7),
            (3, 3),
            (0.1, 0.5),
            (0, 0.5),
            (-3, 0.5),
            (-math.inf, 0.5),
            (99, 8),
            (math.inf, 8),
            (math.nan, 8),
            (None, 8),
        ],
        *[
            (Decimal("NaN"), 8),
            (Decimal("sNaN"), 8),
            (Decimal("1e999999"), 8),
            (Decimal("-1e999999"), 0.5),
        ],
        *[
            (Decimal("1e-999999"), 0.5),
            (Fraction(3, 2), 1.5),
            (10**400, 8),
            (np.float32(2), 2),
            (np.int64(2), 2),
        ],
        *[
            ([1, 2, 7, 3], 7),
            ([1, None, 2, 3], 8),
            (np.array([1, 2, np.nan, 3]), 8),
            (["5", 1, 1, 1], 8),
            ([2.5], 2.5),
        ],
        (np.array([1, 2, 3, 4], dtype=np.uint8), 4),
    ],
    ids=repr,
)
@pytest.mark.sample(2)
def test_bounds_are_total(given, meant):
    assert clamped_bound(given, 4, Fraction(1, 2), Fraction(8), "It") == Fraction(meant)


@pytest.mark.parametrize(
    "bad",
    [[], [1, 2], [1, 2, 3, 4, 5], "7", b"7", {1}, {1: 2}, np.ones((2, 2)), object()],
    ids=lambda bad: type(bad).__name__,
)
def test_bounds_of_another_shape_are_refused(bad):
    with pytest.raises(
        InvalidParameter,
        match=r"^SmoothStepSelection\.release\.smooth_bound must be a number, or a list of one for each of the 4",
    ):
        made().release([1, 2, 3, 4], smooth_bound=bad)


# --- decisions


rows = st.lists(st.tuples(st.integers(-6, 6), st.integers(0, 5)), min_size=1, max_size=12)


@given(rows=rows, scale=st.integers(1, 4), huge=st.booleans())
def test_only_the_best_of_each_level_can_win(rows, scale, huge):
    m = made(beta=0.3)
    steps, levels = (np.array(column) for column in zip(*rows, strict=True))
    if huge:
        levels = levels.astype(object) + (1 << 70)
    ahead = smooth.champions(steps, levels)
    assert ahead.tolist() == sorted(ahead.tolist())
    assert len(ahead) == len(set(levels.tolist()))
    everyone = smooth.decide(steps, levels[None, :], scale << 24, m.heights)[0]
    assert (
        ahead[smooth.decide(steps[ahead], levels[ahead][None, :], scale << 24, m.heights)[0]]
        == everyone
    )
    sums = [
        (int(step) << DIGITS + 24) + (scale << 24) * m.heights([int(level)])[0]
        for step, level in zip(steps, levels, strict=True)
    ]
    assert everyone == sums.index(max(sums)), "of equals the first"


@pytest.mark.parametrize("windows", [[3, 0, 2], [3 << 60, 0, 2], [1 << 62, 1 << 62, 5]])
def test_windows_of_any_size(windows):
    steps, width = np.array([0, 9, 4]), 4
    drawn = np.array(windows, dtype=object if max(windows) > 1 << 62 else np.int64)
    sums = [step + width * level for step, level in zip(steps.tolist(), windows, strict=True)]
    assert int(public.decide(steps, drawn, width)) == sums.index(max(sums))
    wide = public.decide(steps, np.array([[0, 1, 0], [1, 0, 0]]), 1 << 100)
    assert wide.tolist() == [1, 0]


def test_noise_beyond_64_bits_is_released():
    for m in (made(), StepSelection(epsilon=2, sensitivity=COUNTING)):
        object.__setattr__(
            m,
            "noise",
            SimpleNamespace(sample=lambda n, entropy: np.array([0, 1 << 80, 5, 5], dtype=object)),
        )
        extra = {"smooth_bound": 1} if isinstance(m, SmoothStepSelection) else {}
        assert m.release([9, 0, 9, 9], entropy=Seeded(1), **extra).index == 1


def test_a_hundred_thousand_candidates():
    m = made(epsilon=14, candidates=100_000)
    scores = np.arange(100_000) / 1000.0
    assert m.release(scores, smooth_bound=0.5, entropy=Seeded(5)).index > 90_000
    assert m.success(scores + 99 * (scores == scores.max()), smooth_bound=0.5) == pytest.approx(
        1, abs=1e-6
    )


def test_success_is_the_law_of_the_best():
    m, scores, bound = made(beta=0.3), [0.0, 5.0, 4.0, 5.0], 1.5
    steps, scale = m.on_grids(scores, bound)
    exact = law(steps.tolist(), scale, m.heights(range(120)), math.exp(-m.rate), DIGITS + 24)
    assert m.success(scores, smooth_bound=bound) == pytest.approx(exact[1], abs=1e-9)
    either = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
    windows = StepSelection(epsilon=0.7, sensitivity=either)
    for answers in ([3, 9, 4, 9], [9, 1, 5, 7], [1, 3], [4]):
        exact = law(answers, 1, [2 * j for j in range(140)], math.exp(-0.7), 0)
        assert windows.success(answers) == pytest.approx(
            exact[answers.index(max(answers))], abs=1e-9
        )


@given(
    scores=st.lists(st.integers(-1000, 1000), min_size=4, max_size=4),
    shift=st.integers(-500, 500),
    power=st.integers(-8, 8),
    seed=st.integers(0, 99),
)
def test_shift_and_unit(scores, shift, power, seed):
    plain = made().release(scores, smooth_bound=0.75, entropy=Seeded(seed)).index
    assert (
        made().release([x + shift for x in scores], smooth_bound=0.75, entropy=Seeded(seed)).index
        == plain
    )
    unit = 2.0**power
    other = made(ceiling=8 * unit, floor=unit / 2)
    assert (
        other.release(
            [x * unit for x in scores], smooth_bound=0.75 * unit, entropy=Seeded(seed)
        ).index
        == plain
    )
    assert other.cost == made().cost


# --- what is refused, and what nothing shows


@pytest.mark.parametrize(
    ("name", "bad"),
    [(name, bad) for name in ("epsilon", "ceiling", "floor") for bad in POSITIVE.invalid],
)
@pytest.mark.sample(3)
def test_numbers_that_are_not_positive(name, bad):
    with pytest.raises(
        InvalidParameter,
        match=rf"^SmoothStepSelection\.{name} must be a number in \(0, inf\); got ",
    ):
        made(**{name: bad})


@pytest.mark.parametrize("bad", NOT_NEGATIVE.invalid)
def test_smoothness_that_is_none(bad):
    with pytest.raises(
        InvalidParameter, match=r"^SmoothStepSelection\.beta must be a number in \[0, inf\); got "
    ):
        made(beta=bad)


@pytest.mark.parametrize("bad", COUNT.invalid)
def test_numbers_of_candidates_that_are_none(bad):
    with pytest.raises(
        InvalidParameter,
        match=r"^SmoothStepSelection\.candidates must be a whole number, at least 1; got ",
    ):
        made(candidates=bad)


def test_parameters_that_do_not_go_together():
    with pytest.raises(
        InvalidParameter, match=r"^SmoothStepSelection\.floor must be at most ceiling, 8; got 9"
    ):
        made(floor=9)
    with pytest.raises(
        InvalidParameter,
        match=r"^SmoothStepSelection\.beta must be above 0 unless floor and ceiling are the same; got 0: ",
    ):
        made(beta=0)
    assert made(beta=0, floor=8).cost.pure() == 2


@pytest.mark.parametrize(
    "changes", [{"epsilon": 1e-9}, {"epsilon": 5e-5, "beta": 1e-6}, {"epsilon": 1e13}]
)
def test_budgets_for_which_there_is_no_useful_noise(changes):
    with pytest.raises(
        InvalidParameter, match=r"^SmoothStepSelection\.epsilon must be (larger for|at most 2\^40)"
    ):
        made(**changes)


def test_scores_that_are_not_as_many():
    for scores in ([1, 2, 3], 5, [1, 2, 3, 4, 5]):
        with pytest.raises(
            InvalidParameter,
            match=r"^SmoothStepSelection\.release needs as many scores as candidates, 4; got \d\.$",
        ):
            made().release(scores, smooth_bound=1)
    with pytest.raises(
        InvalidParameter,
        match=r"^SmoothStepSelection\.release needs a number or a one-dimensional array",
    ):
        made().release([], smooth_bound=1)
    with pytest.raises(TypeError):
        made().release([1, 2, 3, 4])
    with pytest.raises(InvalidParameter, match="release needs entropy"):
        made().release([1, 2, 3, 4], smooth_bound=1, entropy=7)
    with pytest.raises(InvalidParameter, match=r"atoms\.n must be a whole number"):
        made().atoms(0)


@given(
    scores=st.lists(st.one_of(st.floats(), st.none(), st.text(max_size=2)), min_size=4, max_size=4),
    bound=st.one_of(st.floats(), st.none()),
)
@pytest.mark.slow
def test_total_on_anything(scores, bound):
    release = made().release(scores, smooth_bound=bound, entropy=Seeded(1))
    assert json.dumps(release.to_dict())
    assert release.cost == made().cost


def test_what_is_no_number_is_the_lowest_score():
    for nothing in (None, math.nan, "7", Decimal("NaN"), 1j, np.datetime64("NaT")):
        a, b = (
            made().release([1, x, 3, x], smooth_bound=1, entropy=Seeded(2)).index
            for x in (nothing, -math.inf)
        )
        assert a == b


def test_frozen_public_and_silent():
    m = made()
    assert m == made()
    assert hash(m) == hash(made())
    assert pickle.loads(pickle.dumps(m)) == m
    assert dataclasses.replace(m) == m
    assert m.exact
    assert m.cost.pure() == 2
    release = m.release([CANARY, 1, 2, 3], smooth_bound=CANARY, entropy=Seeded(3))
    assert release.simulated
    kept = pickle.dumps(m) + pickle.dumps(release) + (repr(m) + repr(release)).encode()
    assert str(CANARY).encode() not in kept
    assert CANARY.to_bytes(8, "little") not in kept
    with pytest.raises(InvalidParameter) as caught:
        m.release([CANARY, 1, 2, 3], smooth_bound=[CANARY, CANARY])
    assert str(CANARY) not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(dataclasses.FrozenInstanceError):
        m.epsilon = 3


def test_a_ledger_hands_the_bound_on(tmp_path):
    url, m = str(tmp_path / "budget.db"), made()
    ledger = sd.Ledger.create(
        url,
        account="a",
        budget=sd.Budget(epsilon=3),
        adjacency="replace-one",
        unit="person",
        source="made up",
    )
    with ledger.reserve(m, label="best") as charge:
        assert charge.release(m, [1, 2, 3, 4], smooth_bound=1).index in range(4)
    assert ledger.remaining == 1


def test_a_bound_for_replaced_units_is_not_charged_where_units_are_added(tmp_path):
    common = {"account": "a", "budget": sd.Budget(epsilon=3), "unit": "person", "source": "made up"}
    ledger = sd.Ledger.create(str(tmp_path / "budget.db"), adjacency="add-remove", **common)
    with pytest.raises(sd.LedgerConflict, match="is for 'replace-one'"):
        ledger.reserve(made(), label="best")
    assert ledger.remaining == 3


@pytest.mark.parametrize("bound", [0.5, 0.7, 3, 8])
def test_a_scale_pays_for_a_bound_that_is_too_small_by_a_share(bound):
    _, scale = made().on_grids([1, 2, 3, 4], bound)
    steps = Fraction(bound) / made().step
    assert (
        steps * (1 + Fraction(1, 1 << 40))
        <= Fraction(scale, 1 << 24) - 2
        < steps * (1 + Fraction(1, 1 << 39))
    )


def test_what_is_kept_in_memory_does_not_follow_from_the_noise():
    """A list of atoms as long as the largest level that was drawn would tell of the losers' noise."""
    from sordino.mechanisms.smooth import step_atoms

    ratio, kept = Fraction(1 << 48, (1 << 48) - 3), []
    for level in (0, 1, 3, 700, step_atoms._KEPT_ATOMS, 3 * step_atoms._KEPT_ATOMS):
        step_atoms._kept_atoms.cache_clear()
        found = heights(ratio)([level])
        assert found == [heights(ratio)(range(level + 1))[level]]
        info = step_atoms._kept_atoms.cache_info()
        kept.append(info.currsize)
    assert set(kept) <= {0, 1}
    assert len(step_atoms._kept_atoms(int(ratio * (1 << 48)))) == step_atoms._KEPT_ATOMS
    assert not hasattr(step_atoms._first_atoms, "cache_info")
