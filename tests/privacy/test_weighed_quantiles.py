"""Quantiles of people with any number of rows: the loss of all groups together, and broken twins that are convicted."""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache
from itertools import product

import numpy as np
import pytest

from sordino import PrivacyUnit, Quantile, QuantileValues, Seeded, Session
from sordino.columns.bucket_counts import BucketCounts
from sordino.cost import Range
from sordino.errors import InvalidParameter, UnboundedContribution
from sordino.estimators.quantiles.weighed_quantiles import WeighedQuantiles
from sordino.estimators.quantiles.weigher import WeighedRows, take_rows, weigh_rows
from support.quantiles import law_of, losses

SLACK = 1e-9
BITS, CAP = 2, 2
GROUPS = 2
# What a unit may have in one group: one number for each bucket of the edges 1, 3, 7, or several.
ROWS = (
    [],
    [0.5] * 2,
    [2.0],
    [9.0] * 2,
    [0.5, 9.0],
    [9.0] * 5,
    [0.5] * 5,
    [0.5, 2.0, 2.0, 5.0, 9.0],
)
BASES = (
    (),
    (([0.5, 2.0], [9.0]), ([], [5.0])),
    (([2.0, 2.0], [2.0]), ([9.0], [0.5, 0.5]), ([5.0], [])),
)
CASES = [
    (q, adjacency, method)
    for q in (0.25, 0.5, 1)
    for adjacency in ("add-remove", "replace-one")
    for method in ("above-threshold", "permute-and-flip")
]


def made(adjacency, *, q=0.5, grouped=True, epsilon=2, cap=7, **options):
    """Weights of a few steps, so that sums over all noise are short; all of epsilon is for searches."""
    own = {"epsilon": epsilon, "adjacency": adjacency, "rows_per_unit": 1 << BITS}
    if grouped:
        times = 1 if adjacency == "add-remove" else 2
        own = {"epsilon": epsilon / (times << BITS), "adjacency": "add-remove"}
    return WeighedQuantiles(
        searches=Quantile(q=q, lower=0, cap=cap, growth=2, **own, **options),
        bits=BITS,
        adjacency=adjacency,
        grouped=grouped,
        weigher=None,
        weight_cap=CAP,
    )


def weigh(units, rule):
    """The numbers of each group, each as often as it weighs."""
    rows = take_rows([list(map(list, unit)) for unit in units], GROUPS, "test")
    found = [[] for _ in range(GROUPS)]
    weights = rule(rows, CAP, 1 << BITS)
    for number, group, weight in zip(rows.numbers, rows.group, weights, strict=True):
        found[group] += [float(number)] * int(weight)
    return [tuple(sorted(one)) for one in found]


def in_its_group(rows, weight, whole):
    """Twin: a row is weighed by the rows of its unit in its group alone."""
    pairs = list(zip(rows.unit.tolist(), rows.group.tolist(), strict=True))
    many = Counter(pairs)
    return np.array([whole // max(many[pair], weight) for pair in pairs], dtype=np.int64)


def to_nearest(rows, weight, whole):
    """Twin: weights are rounded to the nearest step."""
    many = np.maximum(np.bincount(rows.unit, minlength=1)[rows.unit], weight)
    return np.rint(whole / many).astype(np.int64)


def without_a_limit(rows, weight, whole):
    """Twin: all rows have the weight of one of `weight_cap`, however many a unit has."""
    return np.full(rows.unit.size, whole // weight, dtype=np.int64)


def neighbors(adjacency):
    """Pairs of tables that differ in one unit; under add-remove the first one has it."""
    units = list(product(ROWS, repeat=GROUPS))
    for base in BASES:
        for one in units:
            for other in [None] if adjacency == "add-remove" else units[::5]:
                yield (*base, one), base + (() if other is None else (other,))


def worst(subject, adjacency, rule=weigh_rows, grouped=True):
    """Smallest and largest loss of the quantiles of all groups together, over all neighbors."""
    law = lru_cache(None)(lambda numbers: law_of(subject.searches, numbers))
    lows, highs = [], []
    for one, other in neighbors(adjacency):
        first, second = weigh(one, rule), weigh(other, rule)
        if not grouped:
            first, second = ([tuple(sorted(sum(side, ())))] for side in (first, second))
        each = [losses(law(a), law(b)) for a, b in zip(first, second, strict=True)]
        # Groups have noise of their own: what they lose adds up.
        lows.append(sum(low for low, _ in each))
        highs.append(sum(high for _, high in each))
    return min(lows), max(highs)


@pytest.mark.parametrize("grouped", [True, False], ids=["groups", "all rows"])
@pytest.mark.parametrize(("q", "adjacency", "method"), CASES)
@pytest.mark.sample(3)
def test_all_groups_together_lose_no_more_than_the_cost(q, adjacency, method, grouped):
    subject = made(adjacency, q=q, method=method, grouped=grouped)
    low, high = worst(subject, adjacency, grouped=grouped)
    cost = subject.cost
    if isinstance(cost, Range) and cost.orientation is not None:
        assert -cost.low - SLACK <= low
        assert high <= cost.high + SLACK
    most = max(-low, high)
    # Tables are large enough to see something.
    assert 0.2 * float(cost.pure()) < most <= float(cost.pure()) + SLACK


@pytest.mark.parametrize("twin", [in_its_group, to_nearest, without_a_limit])
def test_weights_that_add_up_to_more_than_a_unit_are_convicted(twin):
    subject = made("add-remove")
    honest, _ = worst(subject, "add-remove")
    assert honest == pytest.approx(-subject.cost.low)
    low, _ = worst(subject, "add-remove", twin)
    assert low < -1.2 * subject.cost.low


def test_the_price_of_a_unit_that_leaves_is_convicted_where_one_takes_its_place():
    """Twin: groups are charged as under add-remove. A unit leaves one group, and one joins another."""
    far = 2.0**20
    base = [([far], [])] * 6 + [([], [far])] * 6
    sides = [[*base, ([0.0] * 2, [])], [*base, ([], [0.0] * 2)]]
    found = {}
    for adjacency in ("add-remove", "replace-one"):
        subject = made(adjacency, q=0.25, cap=2**12)
        laws = [
            [law_of(subject.searches, one) for one in weigh(side, weigh_rows)] for side in sides
        ]
        lost = sum(losses(one, other)[1] for one, other in zip(*laws, strict=True))
        found[adjacency] = lost / float(subject.cost.pure())
    assert found["add-remove"] > 1.1
    assert 0.6 < found["replace-one"] <= 1


@pytest.mark.slow
def test_what_is_released_has_the_law_of_the_weights():
    subject = made("add-remove", epsilon=4)
    units = BASES[2]
    numbers = weigh(units, weigh_rows)
    grid = subject.grid
    counts = [BucketCounts.of(np.array(one), grid=grid) for one in numbers]
    entropy, edges, drawn = Seeded(3), grid.edges.tolist(), ([], [])
    for _ in range(4000):
        for place, one in enumerate(subject.release_each(counts, CAP, entropy=entropy)):
            drawn[place].append(bisect_place(one.value, edges))
    for place, sample in enumerate(drawn):
        law, seen = Counter(), Counter(sample)
        for edge, chance in law_of(subject.searches, numbers[place]).items():
            law[min(edge, len(edges) - 1)] += chance  # the end of the grid, where none was found
        assert seen.keys() <= law.keys()
        for edge, chance in law.items():
            spread = math.sqrt(4000 * chance * (1 - chance))
            assert abs(seen[edge] - 4000 * chance) < 5 * spread + 1


def bisect_place(value, edges):
    return edges.index(value) if value in edges else -1


# ---- of a session ---------------------------------------------------------------------------------------------------------


def shop(people=4000, seed=5):
    """Purchases: numbers of rows that fall geometrically, prices that go with the number of rows."""
    import polars as pl

    draw = np.random.default_rng(seed)
    rows = np.minimum(draw.geometric(0.1, people), 200)
    who = np.repeat(np.arange(people), rows)
    price = draw.lognormal(3 + 0.2 * np.log(rows[who]), 1)
    country = draw.choice(["fr", "de", "at"], who.size, p=[0.6, 0.3, 0.1])
    return pl.DataFrame({"who": who, "price": price, "country": country})


def weighed_share(frame, value, cap, country=None):
    """The share of weight at or below a value, by the rule of the page."""
    who = frame["who"].to_numpy()
    weight = 1 / np.maximum(np.bincount(who)[who], cap)
    here = np.full(who.size, True) if country is None else frame["country"].to_numpy() == country
    return weight[here & (frame["price"].to_numpy() <= value)].sum() / weight[here].sum()


def of_people(frame, seed, adjacency="add-remove"):
    return Session(frame, unit=PrivacyUnit("who", adjacency=adjacency), entropy=Seeded(seed))


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.slow
def test_the_quantile_of_all_rows_is_that_of_their_weights(adjacency):
    frame = shop()
    held = ranks = 0
    for seed in range(12):
        found = of_people(frame, seed, adjacency).quantile(
            "price", q=0.5, epsilon=1, lower=0, cap=1e5
        )
        cap = found.weights.cap
        assert 15 < cap < 32  # about nine of ten people have fewer rows
        assert found.population.weight_cap == cap
        share = weighed_share(frame, found.value, cap)
        assert abs(share - 0.5) < 0.03
        low, high = (weighed_share(frame, end, cap) for end in (found.low, found.high))
        held += low <= 0.5 <= high
        total = found.records
        assert (
            abs(total - np.minimum(np.bincount(frame["who"].to_numpy()), cap).sum()) < 0.1 * total
        )
        ranks += found.rank_error_low <= (share - 0.5) * total <= found.rank_error_high
        assert found.searched_grid.size > 1
    assert held >= 11
    assert ranks >= 11


def test_quantiles_by_group_have_one_weight_for_all_of_them():
    frame = shop()
    groups = ["fr", "de", "at"]
    for q in (0.5, [0.25, 0.75]):
        found = of_people(frame, 2).quantile(
            "price", q=q, epsilon=2, lower=0, cap=1e5, by="country", domain=groups
        )
        assert found.budgets == 1
        for row in found:
            listed = row.release if isinstance(row.release, QuantileValues) else [row.release]
            for one, share in zip(listed, q if isinstance(q, list) else [q], strict=True):
                cap = one.weights.cap
                assert abs(weighed_share(frame, one.value, cap, row.item) - share) < 0.08
                assert one.cost == found.cost
    assert float(found.cost.pure()) == pytest.approx(2)


def test_a_declared_weight_costs_nothing_and_takes_a_size_hint():
    frame = shop()
    session = of_people(frame, 4)
    found = session.quantile(
        "price", q=0.5, epsilon=1, lower=0, cap=1e5, weight_cap=20, size_hint=35_000
    )
    assert found.weights.cap == 20
    assert found.records is None
    assert [type(one).__name__ for one in found.mechanism] == ["SizedQuantile", "QuantileInterval"]
    assert abs(weighed_share(frame, found.value, 20) - 0.5) < 0.02
    with pytest.raises(InvalidParameter, match=r"--weight-cap N"):
        session.quantile("price", q=0.5, epsilon=1, lower=0, cap=1e5, size_hint=35_000)


def test_one_number_of_each_person_in_each_group_is_weighed_by_its_groups():
    found = of_people(shop(), 6).quantile(
        "price",
        q=0.5,
        epsilon=2,
        lower=0,
        cap=1e6,
        per_person="sum",
        by="country",
        domain=["fr", "de", "at"],
    )
    assert {row.release.weights.cap for row in found} <= {2, 3}
    assert all("groups" in " ".join(row.release.population.say_about()) for row in found)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"weight_cap": 0}, InvalidParameter, "weight_cap"),
        ({"weight_cap": 1 << 21}, InvalidParameter, "so that a row weighs something"),
        ({"weight_cap": 3, "per_person": "sum"}, InvalidParameter, "counts once"),
        ({"q": 1.5}, InvalidParameter, "q must"),
        (
            {"by": "country", "domain": ["fr"], "groups_per_unit": 2},
            UnboundedContribution,
            "groups_per_unit",
        ),
    ],
)
def test_what_cannot_be_weighed_is_refused_before_the_charge(options, error, match):
    session = of_people(shop(50), 1)
    with pytest.raises(error, match=match):
        session.quantile("price", **{"q": 0.5, "epsilon": 1, "lower": 0, "cap": 100} | options)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1, 10])
@pytest.mark.parametrize("q", [0.5, 0.999, [k / 20 for k in range(1, 20)]], ids=str)
@pytest.mark.sample(3)
def test_whatever_epsilon_and_quantile_rates_fit(epsilon, q):
    """As fine as rates allow, and never finer; what is spent is epsilon and no more."""
    found = of_people(shop(200), 1).quantile("price", q=q, epsilon=epsilon, lower=0, cap=1e6)
    one = found[0] if isinstance(found, QuantileValues) else found
    assert 6 <= one.weights.bits <= 24
    assert float(one.cost.pure()) <= epsilon * (1 + 1e-12)


def test_a_coarse_grid_makes_no_weights_that_floats_cannot_hold():
    found = of_people(shop(200), 1).quantile("price", q=0.5, epsilon=9, lower=0, cap=9, growth=2)
    assert found.weights.bits == 24


def test_people_without_a_number_and_no_people_at_all_say_nothing():
    import polars as pl

    for values in ([], [None, None], [math.nan] * 3):
        frame = pl.DataFrame(
            {
                "who": [f"u{n}" for n in range(len(values))],
                "price": pl.Series(values, dtype=pl.Float64),
            }
        )
        found = of_people(frame, 3).quantile("price", q=0.5, epsilon=1, lower=0, cap=100)
        assert found.too_few


def test_rows_of_the_rule_are_those_that_are_weighed():
    """`take_rows` and `weigh_rows` are what the twins above replace."""
    rows = take_rows([[[1.0, 2.0], [3.0]], [[], [math.nan, None, 4.0]]], GROUPS, "test")
    assert isinstance(rows, WeighedRows)
    assert weigh_rows(rows, 2, 4).tolist() == [1, 1, 1, 2]
