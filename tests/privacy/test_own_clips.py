"""Means of weighed rows with a clip of each group: the loss of all groups together, their twins, and groups of different scale."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np
import polars as pl
import pytest

import sordino as sd
from sordino import ClippedMeans, PrivacyUnit, Seeded, Session
from sordino.cost import ZCDP, Pure
from sordino.errors import InvalidParameter
from sordino.estimators.clipped.total_noise import TotalNoise
from support.clipped_laws import noise_of, scan_law
from support.weighed_units import (
    CAP,
    LINES,
    OPTIONS,
    in_its_group,
    neighbours,
    to_nearest,
    without_a_limit,
)

SLACK = 1e-9


def made(adjacency, lower, **options):
    given = OPTIONS | {"groups": 2, "own_clips": True} | options
    return ClippedMeans(adjacency=adjacency, lower=lower, **given)


def laws_of(subject, values):
    """Of each group: each clip with its probability, and the totals that get noise, in its steps."""
    scan, found = subject.search.scan, []
    for group, counts in enumerate(subject.count_each(list(values), CAP)):
        laws = [
            scan_law(
                scan.threshold,
                float(scan.threshold_noise.rate),
                float(scan.noise.rate),
                tuple(np.repeat(answers, lengths).tolist()),
            )
            for answers, lengths in subject.search.runs(counts)
        ]
        each = {}
        for places in np.ndindex(*map(len, laws)):
            tests = tuple(
                None if at == len(law) - 1 else at + 1 for at, law in zip(places, laws, strict=True)
            )
            clip = subject.search.clip(tests, simulated=True)
            _, noise = noise_of(subject, tests)
            total = subject.weigh_totals(list(values), clip, CAP)[group]
            steps = tuple(one >> noise.shift for one in subject.list_totals(clip, *total))
            each[tests] = (math.prod(law[at] for at, law in zip(places, laws, strict=True)), steps)
        found.append(each)
    return found


def worst_loss(subject, pairs):
    """The largest loss of clips and totals of all groups, and of the clips alone: noises are apart."""
    known = cache(lambda values: laws_of(subject, values))
    worst = clips_only = 0.0
    for one, other in pairs:
        whole = clips = 0.0
        for here, there in zip(known(one), known(other), strict=True):
            ratios = {tests: math.log(here[tests][0] / there[tests][0]) for tests in here}
            clips += max(ratios.values())
            whole += max(
                ratio
                + noise_of(subject, tests)[0]
                * sum(abs(a - b) for a, b in zip(here[tests][1], there[tests][1], strict=True))
                for tests, ratio in ratios.items()
            )
        worst, clips_only = max(worst, whole), max(clips_only, clips)
    return worst, clips_only


@pytest.mark.parametrize(("adjacency", "lower"), LINES)
@pytest.mark.sample(2)
def test_clips_and_totals_of_all_groups_lose_at_most_epsilon(adjacency, lower):
    subject = made(adjacency, lower)
    worst, clips = worst_loss(subject, neighbours(adjacency, lower))
    assert worst <= float(subject.cost.pure()) + SLACK
    assert clips <= float(subject.search.cost.pure()) + SLACK
    assert worst > 0.9 * float(subject.cost.pure())


@pytest.mark.parametrize("twin", [in_its_group, to_nearest, without_a_limit])
def test_weights_that_add_up_to_more_than_a_unit_are_convicted(twin, monkeypatch):
    monkeypatch.setattr(ClippedMeans, "weigh_rows", twin)
    near = 8 - 2**-40
    units = [([near] * 2, [near] * 2), ([near] * 3, []), ([near] * 5, [3.0])]
    subject = made("add-remove", 0)
    worst, _ = worst_loss(subject, neighbours("add-remove", 0, units))
    assert worst > float(subject.cost.pure()) + 0.1


def test_the_price_of_one_search_is_convicted_where_a_unit_moves_to_another_group():
    """Twin: under replace-one searches in all groups are paid like one (e1 + e2, and not e1 + 2 e2)."""
    near = 2.0**12 - 1
    subject = made("replace-one", 0, epsilon=4, clip_share=0.35, cap=2**12)
    scan, whole = subject.search.scan, subject.records_of_unit
    base = (((5.0, 5.0), ()), ((), (5.0, 5.0)))
    sides = [(((near, near), ()), *base), (((), (near, near)), *base)]
    _, clips = worst_loss(subject, [tuple(sides), tuple(reversed(sides))])
    assert clips == pytest.approx(float(subject.search.cost.pure()), rel=1e-4)
    assert clips <= float(subject.search.cost.pure()) + SLACK
    assert clips > 1.15 * float(scan.threshold_noise.rate + scan.noise.rate) * whole


BOUNDS = (5, 1000, 1 << 20, (1 << 35) + 1, (1 << 40) + 7, (1 << 41) - 1, (1 << 60) + 12345)


def noises_of(adjacency, budget, totals, **options):
    """Noise of totals whose bounds need no rounding, and of others."""
    found = [
        TotalNoise(
            budget=budget,
            bound=bound,
            totals=totals,
            record_step=Fraction(1),
            adjacency=adjacency,
            **options,
        )
        for bound in BOUNDS
    ]
    assert {noise.shift > 0 for noise in found} == {True, False}
    return found


def count_room(noise):
    return int(noise.mechanism.sensitivity.bound / noise.step)


def move(noises, which, steps):
    """What is moved of what there is room for, each total rounded as unluckily as it may be."""
    norm = 0.0
    for place, each in zip(which, steps, strict=True):
        noise = noises[place]
        # From just below a step of the noise.
        rounded = [-((-one) >> noise.shift) if one else 0 for one in each]
        share = [one / count_room(noise) for one in rounded]
        norm += sum(share) if isinstance(noise.budget, Pure) else sum(one**2 for one in share)
    return norm


@pytest.mark.parametrize("budget", [Pure(epsilon=0.01), Pure(epsilon=3), ZCDP(rho=0.5)], ids=str)
@pytest.mark.parametrize("totals", [4, 30, 400])
@pytest.mark.sample(2)
def test_rounding_in_many_groups_stays_within_what_noise_has_room_for(budget, totals):
    """A unit that has a little in each of many groups, and much in one: all shares add up to 1 at most."""
    draw = np.random.default_rng(3)
    noises = noises_of("add-remove", budget, totals, apart=True)
    for _ in range(200):
        which = draw.integers(0, len(noises), totals // 2)
        shares = draw.dirichlet(np.full(which.size, draw.choice([0.01, 1, 100])))
        steps = []
        for place, share in zip(which.tolist(), shares.tolist(), strict=True):
            away = int(share * noises[place].bound)
            first = int(away * draw.random())
            steps.append((first, away - first))
        # What is left of the unit is spread, a step in each total that has none.
        left = 1 - sum(
            Fraction(sum(each), noises[place].bound)
            for place, each in zip(which.tolist(), steps, strict=True)
        )
        for group, place in enumerate(which.tolist()):
            one = Fraction(1, noises[place].bound)
            if not any(steps[group]) and one <= left:
                steps[group], left = (1, 0), left - one
        assert left >= 0
        assert move(noises, which.tolist(), steps) <= 1


def test_room_for_the_rounding_of_one_group_is_convicted():
    """Twin: each group has the noise of a single group with its clip."""
    budget, totals, loss = Pure(epsilon=0.01), 400, {}
    for apart in (True, False):
        options = {"apart": True} if apart else {}
        noises = noises_of("add-remove", budget, totals if apart else 2, **options)
        which = [5, *[4] * (totals // 2 - 1)]
        rest = [(1, 1)] * (totals // 2 - 1)
        most = noises[5].bound - sum(math.ceil(2 * noises[5].bound / noises[4].bound) for _ in rest)
        loss[apart] = move(noises, which, [(most // 2, most - most // 2), *rest])
    assert loss[True] <= 1
    assert loss[False] > 1


# ---- of a session -------------------------------------------------------------------------------------------------------


def shops(people=6000, seed=5):
    """Three countries whose prices differ a thousandfold, and of which people are in several."""
    draw = np.random.default_rng(seed)
    rows = np.minimum(draw.geometric(0.2, people), 60)
    who = np.repeat(np.arange(people), rows)
    country = draw.choice(["cheap", "dear", "dearest"], who.size, p=[0.5, 0.3, 0.2])
    scale = {"cheap": 1.0, "dear": 30.0, "dearest": 1000.0}
    price = draw.lognormal(2, 0.6, who.size) * np.array([scale[one] for one in country])
    return pl.DataFrame({"who": who, "price": price, "country": country})


GROUPS = ["cheap", "dear", "dearest"]


def weighed_mean(frame, country, cap, high):
    who = frame["who"].to_numpy()
    weight = 1 / np.maximum(np.bincount(who)[who], cap)
    here = frame["country"].to_numpy() == country
    values = np.minimum(frame["price"].to_numpy(), high)
    return (weight * values)[here].sum() / weight[here].sum()


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.slow
def test_groups_of_different_scale_have_clips_of_their_own(adjacency):
    frame = shops()
    unit = PrivacyUnit("who", adjacency=adjacency)
    asked = {"epsilon": 2, "lower": 0, "cap": 1e7, "by": "country", "domain": GROUPS}
    held = total = 0
    off = {"each": [], "shared": []}
    for seed in range(10):
        for clip, errors in off.items():
            session = Session(frame, unit=unit, entropy=Seeded(seed))
            found = session.mean("price", **asked, clip=clip)
            assert float(found.cost.pure()) == pytest.approx(2)
            cheap = found.rows[0].release
            truth = weighed_mean(frame, "cheap", cheap.weights.cap, np.inf)
            errors.append(abs(cheap.value / truth - 1))
            if clip == "shared":
                continue
            assert len({row.release.clip for row in found}) == 3
            for row in found:
                one = row.release
                truth = weighed_mean(frame, row.item, one.weights.cap, one.clip[1])
                held += one.low <= truth <= one.high
                total += 1
    assert held >= 0.85 * total
    assert np.median(off["each"]) < 0.1
    assert np.median(off["shared"]) > 2 * np.median(off["each"])


def test_it_is_told_and_kept_and_not_measured_again(tmp_path):
    frame = shops(400)
    frame.write_csv(tmp_path / "t.csv")
    ledger = sd.Ledger.create(
        tmp_path / "a.db",
        account="shop",
        budget=sd.Budget(epsilon=5),
        adjacency="add-remove",
        unit=PrivacyUnit("who"),
        source=str(tmp_path / "t.csv"),
    )
    session = Session(str(tmp_path / "t.csv"), unit=PrivacyUnit("who"), ledger=ledger)
    asked = {"epsilon": 1, "lower": 0, "cap": 1e7, "by": "country", "domain": GROUPS}
    found = session.mean("price", **asked, clip="each")
    session.keep(found)
    assert ledger.statement().charges[-1].detail["clip"] == "each"
    assert any("clip of each group" in one for one in found.population.say_about())
    assert "clipped_together" not in found.population.to_dict()
    with pytest.raises(InvalidParameter, match="not measured again|Ask for the same again"):
        session.remeasure(found, epsilon=1)


@pytest.mark.parametrize(
    "more",
    [{"by": None, "domain": None}, {"groups_per_unit": 1, "per_person": "sum"}, {"upper": True}],
)
def test_a_clip_of_each_group_without_groups_or_weights_is_refused(more):
    session = Session(shops(50), unit=PrivacyUnit("who"), entropy=Seeded(1))
    asked = {
        "epsilon": 1,
        "lower": 0,
        "cap": 1e7,
        "by": "country",
        "domain": GROUPS,
        "clip": "each",
    }
    with pytest.raises(InvalidParameter, match=r"--clip each|--upper"):
        session.mean("price", **asked | more)
