"""Figures made of released figures: what their intervals cover, what twins miss, what is in them twice, refusals."""

from __future__ import annotations

import copy
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

import sordino as sd
from sordino.figures.mixed_noise import find_far
from sordino.session.looks import KeptLook, read_look

WRONG = Fraction(1, 20)


def mechanism(epsilon=1):
    return sd.LaplaceMechanism(epsilon=epsilon, sensitivity=sd.COUNTING)


def value(number, made=None):
    made = made or mechanism()
    return sd.Value(
        value=float(number), standard_error=1.0, mechanism=made, cost=made.cost, simulated=False
    )


def values(listed, made=None):
    made = made or sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING.over(len(listed)))
    shared = {"mechanism": made, "cost": made.cost, "simulated": False}
    return sd.Values(values=np.array(listed, dtype=float), standard_error=1.0, **shared)


def far(parts, wrong=WRONG):
    return float(find_far([(one.noise, times * one.step) for one, times in parts], wrong))


# ---- what is in a figure twice -----------------------------------------------------------------------------


def test_what_cancels_is_gone_exactly():
    a, b = value(520), value(480, mechanism(2))
    for nothing in (a - a, (a + b) - b - a, 2 * a - (a + a), a / 2 - a * Fraction(1, 2)):
        assert (nothing.value, nothing.low, nothing.high) == (0, 0, 0)
    alone, back = sd.derive(a), (a + b) - b
    assert (back.value, back.low, back.high) == (alone.value, alone.low, alone.high)


def test_a_figure_that_is_added_to_itself_has_one_noise():
    """The twin that takes it for two noises misses far more often than it says."""
    a = value(100)
    twice = a + a
    assert twice.high - twice.value == 2 * far([(a.mechanism, 1)])
    twin = far([(a.mechanism, 1), (a.mechanism, 1)])
    xs = np.arange(-80, 81)
    missed = a.mechanism.noise.pmf(xs)[np.abs(2 * xs) > twin].sum()
    assert missed > 1.4 * WRONG
    assert a.mechanism.noise.pmf(xs)[np.abs(2 * xs) > twice.high - twice.value].sum() <= WRONG


def test_copies_of_a_release_are_never_taken_for_independent():
    a = value(100)
    shallow, far_away = copy.copy(a), pickle.loads(pickle.dumps(a))
    _ = a + 0  # from here on it has its origin, which a copy takes along
    assert (a - copy.copy(a)).high == 0
    apart = 2 * far([(a.mechanism, 1)], WRONG / 2)
    for other in (shallow, far_away):
        both = a + other
        assert both.high - both.value == apart
        # Not even where the caller says that all was settled before.
        stated = sd.derive(both, planned=True)
        assert stated.high - stated.value == apart
    kept = pickle.loads(pickle.dumps(a + value(7, mechanism(2))))
    assert (kept - kept).high == 0
    assert kept.interval_at(confidence=0.95) == (kept.low, kept.high)


def test_figures_of_groups(session):
    groups = session.sum(
        "paid", epsilon=3, lower=0, cap=100, by="item", domain=["a", "b", "c"], groups_per_unit=1
    )
    a, b = sd.derive(groups, "a"), sd.derive(groups, "b")
    assert a.value == groups.rows[0].release.value
    assert (a - sd.derive(groups, "a")).high == 0
    assert (a + b).high > a.high
    with pytest.raises(sd.InvalidParameter, match="row"):
        sd.derive(groups, "d")


# ---- sums of several releases ------------------------------------------------------------------------------


def test_several_releases_share_what_may_go_wrong():
    a, b = value(520), value(480, mechanism(2))
    both = a + b
    assert both.value == 1000
    assert both.high - both.value == far([(a.mechanism, 1)], WRONG / 2) + far(
        [(b.mechanism, 1)], WRONG / 2
    )
    settled = sd.derive(both, planned=True)
    assert settled.high - settled.value == far([(a.mechanism, 1), (b.mechanism, 1)])
    # Rows of one release are one sum of noises in any case.
    rows = values([10, 20, 30])
    some = sd.derive(rows, 0) + sd.derive(rows, 1) - sd.derive(rows, 2)
    assert some.high - some.value == far([(rows.mechanism, 1)] * 3)


@pytest.mark.parametrize("epsilons", [(1, 1), (1, 2), (2, 0.5)])
def test_an_interval_of_a_sum_covers_and_ends_that_are_added_are_too_wide(epsilons):
    """By all noise of two releases: no more misses than stated, and naive ends miss hardly ever."""
    made = [mechanism(epsilon) for epsilon in epsilons]
    a, b = (value(100 + place, one) for place, one in enumerate(made))
    xs = np.arange(-120, 121)
    size = np.abs(np.add.outer(xs, xs))
    weights = np.multiply.outer(*(one.noise.pmf(xs) for one in made))
    naive = sum(sd.interval(one, confidence=0.95)[1] - one.value for one in (a, b))
    settled = sd.derive(a + b, planned=True)
    reached = settled.high - settled.value
    assert weights[size > reached].sum() <= WRONG < weights[size > reached - 1].sum()
    assert weights[size > (a + b).high - (a + b).value].sum() <= WRONG
    assert weights[size > naive].sum() < 0.6 * WRONG
    assert naive >= 7 / 6 * reached


def test_noise_that_was_chosen_by_what_was_seen_breaks_the_twin_alone():
    """Both answers are 0. Who saw a small figure asks roughly, else finely: the law of the sum is another one."""
    first, fine, rough = mechanism(1), mechanism(50), mechanism(0.05)
    xs = np.arange(-600, 601)
    missed = {True: 0.0, False: 0.0}
    for planned in missed:
        reached = {}
        for one in (fine, rough):
            whole = sd.derive(value(0, first) + value(0, one), planned=planned)
            reached[one] = whole.high
        for noise in range(-40, 41):
            # Beyond what the sum with the finer one reaches it misses surely.
            second = fine if abs(noise) > reached[fine] else rough
            total = float(second.noise.pmf(xs)[np.abs(xs + noise) > reached[second]].sum())
            missed[planned] += float(first.noise.pmf(noise)) * total
    assert missed[False] <= WRONG
    assert missed[True] > 1.4 * WRONG


# ---- ratios and shares -------------------------------------------------------------------------------------


def cover(truth, make, noises, *, least=1e-9):
    """Return the chance that an interval misses, over all noise of some released numbers."""
    tables = [(range(-span, span + 1), law) for law, span in noises]
    missed = reached = 0.0
    for place in np.ndindex(*(len(xs) for xs, _ in tables)):
        drawn = [xs[at] for (xs, _), at in zip(tables, place, strict=True)]
        weight = math.prod(float(law.pmf(x)) for (_, law), x in zip(tables, drawn, strict=True))
        if weight < least:
            continue
        found = make(drawn)
        reached += weight
        missed += weight * (not found.low <= truth <= found.high)
    assert reached > 0.999
    return missed


@pytest.mark.sample(3)
@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize(("over", "under"), [(30, 60), (3, 40), (60, 12)])
def test_a_ratio_covers(over, under, planned):
    made = mechanism(2)

    def make(drawn):
        a, b = value(over + drawn[0], made), value(under + drawn[1], made)
        return sd.derive(sd.derive(a / b, confidence=0.9), planned=planned)

    missed = cover(over / under, make, [(made.noise, 5)] * 2, least=1e-4)
    assert missed <= 0.1
    if planned:
        assert missed > 0.05  # narrow: of whole numbers no level is met exactly


@pytest.mark.slow
def test_a_share_knows_what_both_sums_have_in_common():
    made = sd.LaplaceMechanism(epsilon=6, sensitivity=sd.COUNTING.over(2))

    def share(drawn):
        rows = values([30 + drawn[0], 50 + drawn[1]], made)
        a, b = sd.derive(rows, 0), sd.derive(rows, 1)
        return sd.derive(a / (a + b), confidence=0.9)

    assert cover(30 / 80, share, [(made.noise, 3)] * 2, least=1e-5) <= 0.1
    # The box of both sums, whose ends are taken apart, is wider.
    rows = values([300, 500], made)
    a, b = sd.derive(rows, 0), sd.derive(rows, 1)
    found, whole = a / (a + b), a + b
    box = a.high / whole.low - a.low / whole.high
    assert found.low < 0.375 < found.high
    assert found.high - found.low < 0.7 * box


def test_ratios_are_what_they_are_in_every_form():
    a, b = value(300), value(600, mechanism(2))
    half = a / b
    assert half.value == 0.5
    percent, rest, again = 100 * half, 1 - half, 1 / half
    assert (percent.low, percent.high) == pytest.approx((100 * half.low, 100 * half.high))
    assert (rest.low, rest.high) == pytest.approx((1 - half.high, 1 - half.low), rel=1e-4)
    assert (again.low, again.high) == pytest.approx((1 / half.high, 1 / half.low), rel=1e-3)
    assert (half - half).high == 0
    both = half + b / a
    assert both.low < 2.5 < both.high
    assert (a / a).low == (a / a).high == 1


def test_a_divisor_that_says_nothing_has_no_end():
    open_ended = value(900) / value(1)
    assert (open_ended.low, open_ended.high) == (-math.inf, math.inf)
    assert json.loads(json.dumps(open_ended.to_dict(), allow_nan=False))["high"] is None
    turned = value(900) / value(-400)
    assert turned.value == -2.25
    assert turned.low < -2.25 < turned.high < 0
    [item] = sd.derive_all({"x": open_ended + 1}).list_rows()
    assert item["high"] == math.inf


def test_shares_of_counts_stay_within_0_and_1():
    frame = pl.DataFrame({"u": range(60), "item": ["a"] * 58 + ["b"] * 2})
    session = sd.Session(frame, unit=sd.PrivacyUnit("u", max_rows=1), entropy=sd.Seeded(2))
    counts = session.histogram("item", epsilon=0.3, domain=["a", "b"])
    a, b = sd.derive(counts, "a"), sd.derive(counts, "b")
    for share in (a / (a + b), b / (a + b)):
        assert 0 <= share.low <= share.value <= share.high <= 1


# ---- what sessions release ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def session():
    frame = pl.DataFrame(
        {
            "u": [f"u{i}" for i in range(600)],
            "item": ["a", "b", "c"] * 200,
            "paid": [float(i % 40) for i in range(600)],
        }
    )
    return sd.Session(frame, unit=sd.PrivacyUnit("u", max_rows=1), entropy=sd.Seeded(5))


TRUTHS = {"sum": 11700.0, "mean": 19.5}


def test_counts_sums_and_means_go_together(session):
    rows, paid = session.count(epsilon=1), session.sum("paid", epsilon=1, lower=0, cap=1000)
    each = paid / rows
    assert each.low < each.value < each.high
    mean = session.mean("paid", epsilon=1, lower=0, cap=1000)
    other = session.mean("paid", epsilon=1, lower=0, cap=1000)
    change = mean - other
    assert change.low < 0 < change.high
    assert change.high - change.low == pytest.approx(
        sum(np.ptp(one.interval_at(confidence=0.975)) for one in (mean, other)), rel=1e-9
    )
    assert (mean - mean).high == 0
    bounded = session.count(epsilon=1, bounds=(0, 2000))
    assert (rows - bounded).low < 0 < (rows - bounded).high
    total = session.sum("paid", epsilon=1, lower=0, cap=50, bounds=(0, 30000))
    assert (total / 2).high == pytest.approx(total.interval_at(confidence=0.95)[1] / 2)


def test_a_ratio_without_a_law_divides_ends_that_share_what_may_be_wrong(session):
    mean, rows = session.mean("paid", epsilon=1, lower=0, cap=1000), session.count(epsilon=1)
    each = mean / rows
    over, under = (sd.derive(one, confidence=0.975) for one in (mean, rows))
    assert min(over.low, under.low) > 0
    assert (each.low, each.high) == pytest.approx(
        (over.low / under.high, over.high / under.low), rel=1e-9
    )


def test_what_is_made_of_figures_of_some_rows_says_of_which(session):
    """A figure of rows that a filter chose, or a bound, is never taken for one of all rows."""
    some = session.count(epsilon=1, where="paid > 3")
    every = session.count_distinct_units(epsilon=1)
    bound = "Counts at most 1 row of each person; true counts may be higher."
    assert (some + every).about == ("Only rows where paid > 3.", bound)
    assert (2 * (some / every) - 1).about == (some + every).about
    assert (every + every).about == ()
    items = session.histogram("item", epsilon=1, domain=["a"], where="paid > 5")
    assert "About item, only rows where paid > 5." in sd.derive(items, "a").about
    groups = session.sum(
        "paid", epsilon=1, lower=0, cap=99, by="item", domain=["a"], groups_per_unit=1
    )
    [_, told] = sd.derive(groups, "a").about
    assert "in each of at most 1 group" in told
    share = some / every
    assert share.to_dict()["about"] == list(share.about)
    for page in (share, sd.derive_all({"share": share, "both": some + some})):
        assert page._repr_html_().count("Only rows where paid &gt; 3.") == 1
    again = pickle.loads(pickle.dumps(share))
    assert again.about == share.about


@pytest.mark.slow
def test_what_is_made_of_clipped_figures_says_so(session):
    """An interval about clipped rows is never taken for one about all of them."""
    about = {"epsilon": 1, "lower": 0, "cap": 1000}
    rows = session.count(epsilon=1)
    figures = {
        "of sums": session.sum("paid", **about) / rows,
        "of means": 2 * session.mean("paid", **about) + 1,
        "of variances": session.variance("paid", **about) - 1,
        "of figures": rows + (session.sum("paid", **about) - rows),
        "again": sd.derive(session.remeasure(session.sum("paid", **about), epsilon=1).looks[-1]),
        "of groups": sd.derive(
            session.sum("paid", by="item", domain=["a", "b"], groups_per_unit=1, **about), "a"
        ),
    }
    plain = {
        "of counts": rows + rows,
        "of items": sd.derive(session.histogram("item", epsilon=1, domain=["a"]), "a"),
    }
    assert all(figure.clipped for figure in figures.values())
    assert not any(sd.derive(figure).clipped for figure in plain.values())
    page = sd.derive_all(figures | plain)
    assert [row["clipped"] for row in page.list_rows()] == [True] * len(figures) + [False] * len(
        plain
    )
    assert "values after capping" in page._repr_html_()
    assert "values after capping" in figures["of sums"]._repr_html_()
    assert "after capping" not in sd.derive_all(plain)._repr_html_()
    assert figures["of sums"].to_dict()["clipped"] is True


def test_rows_with_noise_of_their_own_are_not_ranked_by_that_of_the_first():
    """Sums of groups are clipped at their own ends: whole numbers of different steps say nothing of each other."""
    frame = pl.DataFrame({"g": ["big", "small"] * 400, "x": [1e5, 4.0] * 400})
    own = sd.Session(frame, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(5))
    groups = own.sum("x", by="g", domain=["big", "small"], epsilon=1, lower=0, cap=1e6)
    kept = KeptLook.of(read_look(groups), "0" * 32, clipped=True)
    big, small = sd.derive(kept, "big"), sd.derive(kept, "small")
    assert (big - small).low > 0
    assert (big - small).clipped
    # It was paid by the charge that the ledger has kept it with.
    assert (big - small).charges == ("0" * 32,)
    with pytest.raises(sd.InvalidParameter, match="noise is the same"):
        sd.rank_rows(kept)


def test_gaussian_noise_is_known(session):
    made = sd.GaussianMechanism(rho=Fraction(1, 2), sensitivity=sd.COUNTING.over(3, "l2"))
    rows = made.release([100, 200, 300], entropy=sd.Seeded(3))
    total = sd.add_rows(rows)
    assert total.high - total.value == far([(made, 1)] * 3)
    assert sd.rank_rows(rows)[2].best == 1
    [both] = sd.combine_looks(
        [
            made_one.release(50, entropy=sd.Seeded(4))
            for made_one in (sd.GaussianMechanism(rho=1, sensitivity=sd.COUNTING), mechanism(1))
        ]
    )
    assert both.low < both.value < both.high


def test_the_confidence_of_a_part_is_asked_of_the_whole():
    sure = sd.derive(value(5), confidence=0.975)
    assert sure.confidence == 0.975
    assert (sure + 1).confidence == (sure - value(7)).confidence == 0.975
    assert sd.derive(sure, confidence=0.5).confidence == 0.5


def test_what_stands_for_a_release_of_a_batch(session):
    with session.batch():
        a, b = session.count(epsilon=1), session.count_distinct_units(epsilon=1)
    assert (a - a).high == (a - a.result).high == 0
    assert (a / b).low < 1 < (a / b).high
    assert float(a) == a.estimate


def test_charges_are_named_and_frames_made(tmp_path, session):
    frame = pl.DataFrame({"u": range(100)})
    unit = sd.PrivacyUnit("u")
    ledger = sd.Ledger.create(
        tmp_path / "b.db",
        account="a",
        budget=sd.Budget(epsilon=4),
        adjacency="add-remove",
        unit=unit,
        source="name:u",
    )
    own = sd.Session(frame, unit=unit, ledger=ledger, name="u")
    first, second = own.count_distinct_units(epsilon=1), own.count_distinct_units(epsilon=1)
    both = first + second
    assert both.charges == (first.receipt.id, second.receipt.id)
    assert (both - first).charges == both.charges
    assert not both.simulated
    page = sd.derive_all({"both": both, "share": first / both}, simultaneous=True)
    assert page.to_polars().rows()[0][:2] == ("both", both.value)
    assert page.to_pandas().shape == page.to_arrow().shape == (2, 6)
    assert "<td>share</td>" in page._repr_html_()
    assert "nothing more" in both._repr_html_()
    assert page["both"].confidence == 0.975
    json.dumps(page.to_dict(), allow_nan=False)
    assert sd.derive(session.count(epsilon=1)).simulated


def test_numbers_of_numpy_and_sums_of_python():
    a, b = value(5), value(6)
    assert sum([a, b]).value == 11
    assert (np.float64(2) * a).value == 10
    assert (a - np.int64(2)).value == 3
    assert (+(-a)).value == -5 if hasattr(a, "__pos__") else (-a).value == -5


# ---- refusals ----------------------------------------------------------------------------------------------

REFUSED = {
    "a list": lambda: sd.derive([1, 2]),
    "rows without a name": lambda: sd.derive(values([1, 2])),
    "an unknown row": lambda: sd.derive(values([1, 2]), 7),
    "a row that has no hash": lambda: sd.derive(values([1, 2]), []),
    "a selection": lambda: sd.derive(
        sd.NoisyTopK(k=1, epsilon=1, sensitivity=sd.COUNTING).release([3, 4]), 0
    ),
    "a noisy histogram": lambda: sd.derive(
        sd.HistogramTopK(k=1, epsilon=1, sensitivity=sd.COUNTING.over(2)).release([3, 400]), 1
    ),
    "a composite": lambda: sd.CompositeMechanism(lower=0, upper=9, epsilon=1).release(3) + 1,
    "zero": lambda: value(5) / 0,
    "confidence": lambda: sd.derive(value(5), confidence=1),
    "planned": lambda: sd.derive(value(5), planned="yes"),
    "no figures": lambda: sd.derive_all({}),
    "a list of figures": lambda: sd.derive_all([value(5)]),
    "by hand": lambda: sd.DerivedValue(value=1, low=0, high=2, confidence=0.95) + 1,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_nothing_is_known_of_is_refused(name):
    with pytest.raises(sd.InvalidParameter):
        REFUSED[name]()


def test_a_noisy_top_k_of_a_session_is_refused(session):
    top = session.top_k("item", k=1, epsilon=1, domain=["a", "b", "c"])
    if top.method == "histogram":
        with pytest.raises(sd.InvalidParameter):
            sd.derive(top, top.rows[0].item)


def test_products_and_words_are_no_figures():
    for wrong in (lambda: value(5) * value(6), lambda: value(5) + "6", lambda: value(5) / None):
        with pytest.raises(TypeError):
            wrong()
