"""Top-k of units with few items: when the histogram is taken, what it costs, and what its rows say."""

from __future__ import annotations

import dataclasses
import itertools
import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import sordino as sd
from sordino.ledger import Price
from sordino.ledger.amounts import Meter
from sordino.questions import prepare_counts
from sordino.session.above import prefer_histogram_above
from sordino.session.noise_choice import RHO
from sordino.session.noisy_histogram import find_histogram_rho
from sordino.session.selection_noise import match_finder
from sordino.session.top_k import prefer_histogram
from sordino.sources import open_source

LABELS = [f"item {number:03d}" for number in range(300)]


def table(seed=1, *, units=20_000, rows=1):
    """Units with so many rows each, whose items follow Zipf's law."""
    chances = 1 / np.arange(1, len(LABELS) + 1) ** 0.8
    drawn = np.random.default_rng(seed).choice(len(LABELS), units * rows, p=chances / chances.sum())
    return pl.DataFrame(
        {"user": np.repeat(np.arange(units), rows), "item": np.array(LABELS)[drawn]}
    )


def session(frame=None, *, most=1, adjacency="add-remove", **options):
    unit = sd.PrivacyUnit("user", adjacency=adjacency, max_rows=most)
    return sd.Session(table() if frame is None else frame, unit=unit, **{"ledger": None} | options)


def best(frame, k):
    counted = (
        frame.group_by("item").agg(pl.col("user").n_unique().alias("n")).sort("n", descending=True)
    )
    return dict(counted.head(k).iter_rows())


# ---- the rule ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("depth", "factor"), [(2, 1.448), (4, 1.323), (7, 1.239), (10, 1.194)])
def test_the_rule_turns_where_it_was_computed(depth, factor):
    """Values computed apart from the code: k over share and items a unit."""
    size, most = round(100 * math.exp(depth)), 1000
    share = 100 / (factor * most)
    size_of_rule = {"size": size, "replaced": False, "of_rho": None, "most": most}
    assert prefer_histogram(100, share=share * 0.995, **size_of_rule)
    assert not prefer_histogram(100, share=share * 1.005, **size_of_rule)


@pytest.mark.parametrize(("replaced", "most"), [(False, 20), (True, 40)])
def test_the_rule_on_accounts_with_gaussian_noise(replaced, most):
    """Half of the epsilon is a fourth of the rho: k = 20, four e-folds of items a place."""
    options = {"size": round(20 * math.exp(4)), "share": 0.5, "of_rho": 0.25, "replaced": replaced}
    assert prefer_histogram(20, most=most, **options)
    assert not prefer_histogram(20, most=most + 1, **options)
    # Where the rule turns, both kinds of noise confuse an item as often that lies so far below.
    rho, moves = 0.01, 2 if replaced else 1
    gumbel = math.sqrt(8 * 0.25 * rho / 20) / moves
    gap = 4 / gumbel
    variance = moves * most / (2 * rho)
    assert gumbel * gap == pytest.approx(gap**2 / (4 * variance)) == 4


@pytest.mark.sample(6)
@pytest.mark.parametrize("shape", [1.0, 0.6])
@pytest.mark.parametrize("k", [10, 20, 100])
def test_where_the_rule_turns_the_histogram_finds_as_many_as_gumbel_noise(k, shape):
    """Simulated apart from the code, with noise of numpy: half of the epsilon selects, or all of it counts."""
    size, rho, rng = 3000, 0.01, np.random.default_rng(4)
    counts = 8000 * np.arange(1, size + 1) ** -shape
    most = math.floor(math.log(size / k) * k / (16 * 0.25))

    def find(draw):
        found = [np.argpartition(-(counts + draw()), k)[:k] for _ in range(60)]
        return np.mean([(places < k).mean() for places in found])

    by_histogram = find(lambda: rng.normal(0, math.sqrt(most / (2 * rho)), size))
    by_gumbel = find(lambda: rng.gumbel(0, 1 / math.sqrt(8 * 0.25 * rho / k), size))
    assert by_histogram > by_gumbel - 0.02


def accounts(tmp_path, *, meter=None, epsilon=3, adjacency="add-remove"):
    """An account that pays for Gaussian noise."""
    return sd.Ledger.create(
        tmp_path / f"{meter}.db",
        account="a",
        budget=sd.Budget(
            epsilon=epsilon, delta=1e-6, **({} if meter is None else {"meter": meter})
        ),
        adjacency=adjacency,
        unit=sd.PrivacyUnit("user"),
        source="name:t",
    )


@pytest.mark.parametrize(
    ("k", "most", "expected"),
    [
        (10, 1, "histogram"),
        (1, 1, "histogram"),
        (10, 10, "histogram"),
        (10, 20, "gaps"),
        (10, None, "gaps"),
    ],
)
def test_a_session_follows_the_rule(k, most, expected):
    release = session(most=most).top_k("item", k=k, epsilon=1, domain=LABELS)
    assert release.method == expected


def test_what_was_asked_for_by_name_is_taken():
    few = session()
    assert few.top_k("item", k=3, epsilon=1, domain=LABELS, method="gaps").method == "gaps"
    assert few.top_k("item", k=3, epsilon=1, domain=LABELS, noise="exponential").method == "gaps"
    assert few.top_k("item", k=3, epsilon=1, domain=LABELS, noise="laplace").method == "gaps"
    many = session(most=50).top_k("item", k=3, epsilon=1, domain=LABELS, method="histogram")
    assert many.method == "histogram"
    assert many.mechanism[0].noise.rate == Fraction(1, 50)
    unbounded = session(most=None).top_k("item", k=3, epsilon=1, domain=LABELS, method="histogram")
    assert unbounded.mechanism[0].noise.rate == Fraction(1, 300)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": "laplace"}, "top_k.noise must not be given with method 'histogram'"),
        ({"method": "list"}, "top_k.method must be"),
        (
            {"domain": sd.Domain.assume_public(), "most": None},
            "top_k.method must be 'gaps' where neither",
        ),
        (
            {"domain": sd.Domain.range(0, 99), "measure_noise": "gaussian"},
            "must be laplace for what is selected of",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_the_charge(tmp_path, options, message):
    frame = table().with_columns(pl.lit(5).alias("number"))
    item = "number" if "range" in str(options.get("domain")) else "item"
    ledger = sd.Ledger.create(
        tmp_path / "l.db",
        account="a",
        budget=sd.Budget(epsilon=3, delta=1e-6),
        adjacency="add-remove",
        unit=sd.PrivacyUnit("user"),
        source="name:t",
    )
    asked = session(frame, most=options.pop("most", 1), ledger=ledger, name="t")
    with pytest.raises(sd.InvalidParameter, match=message):
        asked.top_k(
            item, **{"k": 3, "epsilon": 1, "domain": LABELS, "method": "histogram"} | options
        )
    assert len(list(ledger.history())) == 1, "the account was made, and nothing else"


@pytest.mark.parametrize("name", ["top_k.measure_noise", "above.measure_noise", "histogram.noise"])
def test_what_is_refused_is_called_by_the_name_of_the_parameter(name):
    pure = SimpleNamespace(price=Price(Meter("pure")), salt=lambda: b"0" * 16)
    unit = sd.PrivacyUnit("user", max_rows=1)
    ask = {"kind": "items", "item": "item", "where": None, "salt": b"0" * 16}
    question = prepare_counts(open_source(table()), unit, domain=LABELS, **ask)
    with pytest.raises(sd.InvalidParameter, match=f"^{name} must be noise with a pure epsilon"):
        find_histogram_rho(name, "gaussian", Fraction(1), pure, question)


# ---- what is released --------------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.each_value
def test_noise_is_for_as_many_items_as_a_unit_has(adjacency, most):
    release = session(most=most, adjacency=adjacency).top_k("item", k=40, epsilon=1, domain=LABELS)
    moving = most if adjacency == "add-remove" else 2 * most
    assert release.mechanism[0].noise.rate == Fraction(1, moving)
    assert release.cost.pure() == 1


def test_far_more_is_found_and_intervals_are_shorter_at_the_same_price():
    frame, k = table(), 30
    truth, found, widths = best(frame, k), {}, {}
    for method in ("gaps", "histogram"):
        release = session(frame).top_k("item", k=k, epsilon=0.2, domain=LABELS, method=method)
        found[method] = len(truth.keys() & {row.item for row in release}) / k
        widths[method] = np.median([row.high - row.low for row in release])
    assert found["histogram"] > found["gaps"] + 0.2
    assert widths["histogram"] <= 0.7 * widths["gaps"]


def test_rows_hold_together():
    release = session().top_k("item", k=10, epsilon=1, domain=LABELS)
    assert [row.rank for row in release] == list(range(1, 11))
    for row, other in itertools.pairwise(release):
        assert row.measured >= other.measured
        assert row.gap == row.measured - other.measured
        assert row.low <= row.estimate <= row.high
        assert row.combined is None
        assert row.tie == (row.low <= other.high)
    assert release.rows[-1].tie is None
    assert release.rows[-1].gap >= 0
    # Each unit counts for one item, of which it may have more.
    assert all(row.true_high == math.inf and row.true_low >= row.low for row in release)


def test_a_domain_of_k_labels_leaves_nobody_out():
    release = session().top_k("item", k=3, epsilon=1, domain=LABELS[:3])
    assert release.rows[-1].gap is None


@pytest.mark.parametrize("threshold", [200, 10**9])
def test_a_threshold_ends_the_list(threshold):
    frame = table()
    release = session(frame).top_k("item", k=50, epsilon=2, domain=LABELS, threshold=threshold)
    assert release.crossed is True
    assert release.method == "histogram"
    assert release.cost.pure() == 2, "nothing returns: all values were paid for"
    assert all(row.measured >= threshold for row in release)
    many = frame.group_by("item").len().filter(pl.col("len") >= threshold).height
    assert abs(len(release) - many) <= 2


def test_labels_of_a_range_and_labels_that_are_assumed_public():
    frame = table().with_columns(pl.col("item").str.slice(5).cast(pl.Int64).alias("number"))
    release = session(frame).top_k("number", k=5, epsilon=3, domain=sd.Domain.range(0, 10**9))
    assert {row.item for row in release} <= {str(number) for number in range(10)}
    assert release.method == "histogram"
    assumed = session(frame).top_k("item", k=5, epsilon=3, domain=sd.Domain.assume_public())
    assert assumed.method == "histogram"
    assert {row.item for row in assumed} <= set(LABELS[:10])


def test_an_account_with_a_delta_gets_gaussian_noise_where_that_is_smaller(tmp_path):
    ledger = sd.Ledger.create(
        tmp_path / "l.db",
        account="a",
        budget=sd.Budget(epsilon=3, delta=1e-6),
        adjacency="add-remove",
        unit=sd.PrivacyUnit("user"),
        source="name:t",
    )
    few = session(most=5, ledger=ledger, name="t")
    release = few.top_k("item", k=60, epsilon=0.1, domain=LABELS)
    assert release.method == "histogram"
    assert release.mechanism[0].rho is not None
    forced = few.top_k(
        "item", k=60, epsilon=0.1, domain=LABELS, measure_noise="laplace", method="histogram"
    )
    assert forced.mechanism[0].epsilon == Fraction(1, 10)
    assert ledger.verify().raise_if_broken() is None


@pytest.mark.parametrize("simultaneous", [False, True])
@pytest.mark.parametrize("measure_noise", ["laplace", "gaussian"])
@pytest.mark.slow
def test_intervals_hold_as_often_as_promised(simultaneous, measure_noise):
    """Real releases of a real table; every count is known."""
    frame, k = table(units=4000), 20
    counts = dict(frame.group_by("item").len().iter_rows())
    missed, all_hold = [], 0
    for seed in range(60):
        asked = session(frame, entropy=sd.Seeded(seed))
        release = asked.top_k(
            "item",
            k=k,
            epsilon=0.3,
            domain=LABELS,
            simultaneous=simultaneous,
            method="histogram",
            measure_noise=measure_noise,
        )
        wrong = [not row.low <= counts.get(row.item, 0) <= row.high for row in release]
        missed.append(np.mean(wrong))
        all_hold += not any(wrong)
    assert np.mean(missed) <= 0.05 + 3 * np.std(missed) / math.sqrt(60)
    if simultaneous:
        assert all_hold >= 60 * 0.95 - 3 * math.sqrt(60 * 0.0475)


# ---- items above a threshold -------------------------------------------------------------------------------


@pytest.mark.parametrize(("positives", "most"), [(1, 1), (5, 5), (10, 9), (50, 39)])
def test_the_rule_for_thresholds_turns_where_it_was_computed(positives, most):
    whole = {"share": Fraction(1), "replaced": False}
    assert prefer_histogram_above(positives, most=most, **whole)
    assert not prefer_histogram_above(positives, most=most + 1, **whole)


@pytest.mark.parametrize("replaced", [False, True])
def test_the_rule_for_thresholds_turns_at_the_noise_of_a_gumbel_test(replaced):
    """Ten found by Gumbel noise of a fourth of the rho, measured with the rest: the mechanisms themselves tell."""
    epsilon, share, moves = Fraction(1, 100), Fraction(1, 2), 2 if replaced else 1
    statement = sd.Sensitivity(
        bound=1,
        monotone=not replaced,
        adjacency="replace-one" if replaced else "add-remove",
        step=1,
    )
    rho = epsilon**2 / 2
    finder = match_finder(
        RHO,
        sd.SparseVector(threshold=5, positives=10, epsilon=share * epsilon, sensitivity=statement),
    )
    found = finder.cost.zcdp()
    test = 2 * finder.noise.variance * float(finder.step) ** 2

    def count(most):
        mechanism = sd.HistogramTopK(
            k=9,
            rho=rho,
            sensitivity=dataclasses.replace(
                statement, l1=moves * most, l2=math.sqrt(moves * most)
            ).over(9999, "l2"),
        )
        return mechanism.noise.variance * float(mechanism.step) ** 2

    turning = next(most for most in range(1, 999) if count(most) >= test)
    known = {
        "share": share,
        "replaced": replaced,
        "rho": rho / epsilon**2,
        "found": Fraction(found) / epsilon**2,
    }
    turns = next(m for m in range(1, 999) if not prefer_histogram_above(10, most=m, **known))
    assert abs(turns - turning) <= 1


@pytest.mark.parametrize("meter", [None, "zcdp"])
@pytest.mark.parametrize("options", [{}, {"measure_share": 0.5}])
@pytest.mark.parametrize(("most", "positives"), [(30, 10), (30, 30), (400, 10), (5, 10), (1, 1)])
@pytest.mark.sample(12)
def test_on_accounts_with_gaussian_noise_thresholds_get_the_smaller_noise(
    tmp_path, meter, options, most, positives
):
    """Gaussian noise at M beside the sparse vector with its own noise, at one price."""
    asked = session(most=most, ledger=accounts(tmp_path, meter=meter), name="t")
    noise, taken = {}, None
    for method in (None, "gaps", "histogram"):
        release = asked.above(
            "item",
            threshold=150,
            positives=positives,
            epsilon=0.02,
            domain=LABELS,
            method=method,
            **options,
        )
        mechanism = release.mechanism[0]
        draws = [
            mechanism.noise,
            *([] if release.method == "histogram" else [mechanism.threshold_noise]),
        ]
        deviation = math.sqrt(sum(law.variance for law in draws)) * float(mechanism.step)
        if method is None:
            taken = release.method
        noise[release.method] = deviation
    assert noise[taken] <= 1.05 * min(noise.values())


def test_where_there_is_no_histogram_the_rule_takes_none(tmp_path):
    """Without a method, an error about the histogram's noise ended releases that selections were there for."""
    frame = table(units=500).with_columns(
        pl.col("item").str.slice(5).cast(pl.Int64).alias("number")
    )
    ledger = accounts(tmp_path)
    few = session(frame, ledger=ledger, name="t")
    options = {"k": 3, "epsilon": 1, "domain": sd.Domain.range(0, 999), "measure_noise": "gaussian"}
    release = few.top_k("number", **options)
    assert (release.method, release.mechanism[1].noise.name) == ("gaps", "gaussian")
    # Noise for so many items would have too small a rate.
    many = session(frame, most=10**8, ledger=ledger, name="t")
    domain = sd.Domain.assume_public()
    assert many.top_k("item", k=1, epsilon=0.01, domain=domain).method == "gaps"
    assert (
        many.above("item", threshold=5, positives=1, epsilon=0.01, domain=domain).method == "gaps"
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize("meter", [None, "zcdp"])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_gaussian_noise_is_for_as_many_items_as_a_unit_has(tmp_path, meter, adjacency):
    """All three that count every label, at one rho: rate rho/M, and rho/2M where a unit is replaced."""
    frame = table(units=500)
    for most in (4, 9):
        ledger = accounts(tmp_path, meter=meter, adjacency=adjacency)
        asked = session(frame, most=most, adjacency=adjacency, ledger=ledger, name="t")
        released = [
            asked.top_k("item", k=60, epsilon=0.01, domain=LABELS).mechanism[0],
            asked.above("item", threshold=50, positives=60, epsilon=0.01, domain=LABELS).mechanism[
                0
            ],
            asked.histogram("item", epsilon=0.01, domain=LABELS).mechanism,
        ]
        moving = most if adjacency == "add-remove" else 2 * most
        for mechanism in released:
            assert mechanism.noise.name == "gaussian"
            assert float(mechanism.noise.rate) == pytest.approx(
                float(mechanism.rho) / moving, rel=1e-6
            )
        # A root that is not whole is rounded up, so the rho may be smaller by that.
        assert len({round(float(mechanism.cost.zcdp()), 9) for mechanism in released}) == 1
        (tmp_path / f"{meter}.db").unlink()


def test_a_histogram_for_thresholds_takes_gaussian_noise_where_an_account_pays_for_it(tmp_path):
    """It was asked of pure noise alone: M = 30 and ten to be found gave a sparse vector, of twice the noise."""
    asked = session(most=30, ledger=accounts(tmp_path), name="t")
    options = {"threshold": 150, "positives": 10, "epsilon": 0.1, "domain": LABELS}
    assert asked.above("item", **options).mechanism[0].rho is not None
    # Pure noise at M is too much.
    assert (
        asked.above("item", measure_share=0.5, measure_noise="laplace", **options).method == "gaps"
    )
    assert session(most=30).above("item", **options).method == "gaps"


def test_all_items_above_a_threshold_are_found_at_once():
    frame = table()
    truth = {label for label, n in frame.group_by("item").len().iter_rows() if n > 150}
    release = session(frame).above("item", threshold=150, positives=3, epsilon=2, domain=LABELS)
    assert release.method == "histogram"
    assert len({row.item for row in release} ^ truth) <= 2
    assert [row.item for row in release] == sorted(row.item for row in release)
    assert release.complete
    assert release.asked == len(LABELS)
    assert release.cost.pure() == 2
    for row in release:
        assert row.gap >= 0
        assert row.low <= row.estimate <= row.high
        assert row.true_high == math.inf


def test_nothing_above_a_threshold_is_an_answer():
    release = session().above("item", threshold=10**6, positives=3, epsilon=2, domain=LABELS)
    assert len(release) == 0
    assert release.complete


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"method": "gaps"}, "gaps"),
        ({"noise": "laplace"}, "gaps"),
        ({"adaptive": True}, "gaps"),
        ({"split": 0.5}, "gaps"),
        ({"correction": "optimal"}, "gaps"),
        ({"domain": sd.Domain.assume_public()}, "histogram"),
        ({"measure_share": 0.5}, "histogram"),
    ],
)
def test_thresholds_by_name(options, expected):
    release = session().above(
        "item", **{"threshold": 150, "positives": 3, "epsilon": 2, "domain": LABELS} | options
    )
    assert release.method == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"adaptive": True}, "above.adaptive must not be given with method 'histogram'"),
        ({"noise": "laplace"}, "above.noise must not be given"),
    ],
)
def test_histograms_that_cannot_be_are_refused(options, message):
    frame = table().with_columns(pl.lit(5).alias("number"))
    with pytest.raises(sd.InvalidParameter, match=message):
        session(frame).above(
            "number" if "domain" in options else "item",
            **{
                "threshold": 150,
                "positives": 3,
                "epsilon": 2,
                "domain": LABELS,
                "method": "histogram",
            }
            | options,
        )


@pytest.mark.parametrize("measure_noise", ["laplace", "gaussian"])
@pytest.mark.slow
def test_intervals_of_items_above_a_threshold_hold_given_that_they_were_found(measure_noise):
    frame = table(units=4000)
    counts = dict(frame.group_by("item").len().iter_rows())
    wrong = found = 0
    for seed in range(60):
        release = session(frame, entropy=sd.Seeded(seed)).above(
            "item",
            threshold=30,
            positives=3,
            epsilon=0.3,
            domain=LABELS,
            method="histogram",
            measure_noise=measure_noise,
        )
        found += len(release)
        wrong += sum(not row.low <= counts.get(row.item, 0) <= row.high for row in release)
    assert wrong <= 0.05 * found + 3 * math.sqrt(0.05 * found)
