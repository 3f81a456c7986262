"""The exponential mechanism and its lead: exact laws, exact losses, twins that are convicted, releases that fit."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest
from scipy import stats

import sordino_audit as audit
from sordino import (
    COUNTING,
    Choice,
    ExponentialMechanism,
    InvalidParameter,
    NoisyTopK,
    Seeded,
    Sensitivity,
    p_value,
)
from sordino.cost import BoundedRange, Pure
from sordino.mechanisms import exponential_mechanism
from sordino.mechanisms.exponential_mechanism import _handicap, decide, with_lead
from sordino.mechanisms.race import Gumbel, ScoreRace, draw_places
from sordino.noise import Geometric
from sordino_audit.enumeration.selection import leads, peeled
from support.choices import lead, lead_at_least, run, softmax
from support.enumeration import float_log, neighbours
from support.fit import LEVEL

HALF = Fraction(1, 2)
EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
BASES = [(0, 0), (3, 0), (0, 7), (0, 0, 0), (2, 0, 1), (-12, 0, 0), (9, 0, 0)]


def nats(p, q):
    """The log ratio in units of ln 2."""
    return float_log(p / q) / math.log(2)


def frequencies_fit(counts, expected):
    """Chi-square of counts against expected counts, the rare ones together."""
    counts, expected = np.asarray(counts, dtype=float), np.asarray(expected, dtype=float)
    rare = expected < 5
    if rare.any():
        counts, expected = (
            np.append(counts[~rare], counts[rare].sum()),
            np.append(expected[~rare], expected[rare].sum()),
        )
    if expected[-1] < 1e-9:
        assert counts[-1] == 0
        counts, expected = counts[:-1], expected[:-1]
    return stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), expected.size - 1)


# --- the law ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("q", BASES)
def test_the_largest_excess_of_a_run_is_the_lead(q):
    for i in range(len(q)):
        assert [run(HALF, q, i, m) for m in range(30)] == [lead(HALF, q, i, m) for m in range(30)]
    total = sum(lead(HALF, q, i, m) for i in range(len(q)) for m in range(80))
    assert float(total) == pytest.approx(1, abs=1e-12)


def test_decide_takes_the_largest_excess_before_another_place():
    block = np.array
    assert decide([(block([2, 2, 0, 2]), block([1, 4, 9, 9]))]) == (2, 4)
    assert decide(
        [
            (block([], dtype=int), block([])),
            (block([1]), block([3])),
            (block([1, 0]), block([0, 9])),
        ]
    ) == (1, 3)
    assert decide([(block([1]), block([3])), (block([0]), block([8]))]) == (1, 3)
    assert decide([(block([0, 1]), block([0, 8]))]) == (0, 0)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_one_try_that_arrives_has_the_law(n):
    from sordino.mechanisms.race import decide as arrives

    for q in [base[:n] for base in BASES if len(base) >= n]:
        steps, levels = np.array(q), np.arange(60)
        mass = [
            sum(HALF ** (int(g) + 1) for g in levels[arrives(steps, np.full(60, i), levels) >= 0])
            for i in range(n)
        ]
        for i in range(n):
            assert float(mass[i] / sum(mass)) == pytest.approx(
                float(softmax(HALF, q, i)), abs=1e-12
            )


# rate, scores: every way through `with_lead` is taken with a probability of some percent in one of them
LEADS = {
    "no handicap": (Fraction(1, 4), (0, 1, 0, -3)),
    "short lead": (Fraction(1, 5), (8, 0, 0)),
    "two": (Fraction(1, 5), (3, 0)),
    "long lead": (Fraction(1, 10), (0, 40, 3)),
    "steep": (Fraction(2), (0, 0, 2)),
    "steeper": (Fraction(3), (1, 0)),
    "many others": (Fraction(1, 2), (4, *[0] * 9)),
    "equals": (Fraction(1, 3), (0, 0, -40)),
    "others apart": (Fraction(1), (3, 2, -2)),
}


@pytest.mark.parametrize("name", LEADS)
@pytest.mark.parametrize("draws", [600, pytest.param(15_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("patience", [0, 9])  # both ways to a short lead
@pytest.mark.sample(4)
def test_index_and_lead_have_their_joint_law(monkeypatch, name, draws, patience):
    monkeypatch.setattr(exponential_mechanism, "_SHORT_LEADS", (patience, patience))
    rate, q = LEADS[name]
    law, seen = Fraction(math.exp(-rate)), {}
    steps, entropy = np.array(q), Seeded(5)
    for _ in range(draws):
        found = with_lead(steps, rate, entropy)
        seen[found] = seen.get(found, 0) + 1
    r = float(law)
    longest = 60 + math.ceil(40 / float(rate))
    cells = [(i, m) for i in range(len(q)) for m in range(longest)]
    expected = [draws * float(lead(r, q, i, m)) for i, m in cells]
    assert set(seen) <= set(cells)
    counts = [seen.get(cell, 0) for cell in cells]
    assert frequencies_fit(counts, expected) > LEVEL
    wrong = [draws * float(lead(r**1.15, q, i, m)) for i, m in cells]
    assert draws < 10_000 or frequencies_fit(counts, wrong) < LEVEL, (
        "the test sees a rate that is off by 15%"
    )


def test_the_ways_through_with_lead_are_taken():
    handicaps = {
        name: _handicap(np.array(q), int(np.argmax(q)), rate) for name, (rate, q) in LEADS.items()
    }
    assert (
        handicaps["no handicap"]
        <= 0
        < min(handicaps[name] for name in ("short lead", "two", "long lead", "steep", "steeper"))
    )


@pytest.mark.parametrize(
    ("rate", "n", "depth"), [(1.0, 2000, 9), (0.25, 300, 24), (0.05, 500, 130)]
)
@pytest.mark.slow
def test_a_long_list_is_raced_in_two_groups(rate, n, depth):
    steps = np.full(n, -depth)
    steps[7], steps[8] = 0, -1
    race, entropy, draws = ScoreRace(steps, Fraction(str(rate))), Seeded(3), 4000
    assert race._far.size == n - 2, "the far group is tried by turns"
    counts = np.zeros(3)
    for _ in range(draws):
        place, excess = race.first(entropy)
        assert excess >= 0
        counts[{7: 0, 8: 1}.get(place, 2)] += 1
    weights = np.array([1, math.exp(-rate), (n - 2) * math.exp(-rate * depth)])
    assert frequencies_fit(counts, draws * weights / weights.sum()) > LEVEL
    assert frequencies_fit(counts, draws / 3 * np.ones(3)) < LEVEL


def test_every_place_is_in_one_group():
    steps = -np.arange(200)
    race = ScoreRace(steps, Fraction(1, 10))
    assert race._edge == math.ceil(10 * math.log(200))
    assert np.concatenate([race._near, race._far]).tolist() == list(range(200))
    assert race._near.size == race._edge + 1


def test_the_excess_of_an_arrival_is_geometric_whatever_the_place():
    steps = np.full(400, -56)
    steps[0] = 0
    race = ScoreRace(steps, Fraction(1, 8))
    assert race._far.size == 399
    arrived = list(islice(race.arrivals(Seeded(4)), 6))
    places, excess = (
        np.concatenate([a for a, _ in arrived]),
        np.concatenate([b for _, b in arrived]),
    )
    law = Geometric(Fraction(1, 8))
    for part in (excess[places == 0], excess[places != 0]):
        assert part.size > 500
        bins = np.bincount(np.minimum(part, 40), minlength=41)
        expected = part.size * np.append(law.pmf(np.arange(40)), law.sf(39))
        assert frequencies_fit(bins, expected) > LEVEL


# --- the loss --------------------------------------------------------------------------------------------------------------------


def losses(q, other, outputs):
    return {output: nats(mass(q, *output), mass(other, *output)) for output in outputs}


def mass(q, i, m):
    return softmax(HALF, q, i) if m is None else lead(HALF, q, i, m)


@pytest.mark.parametrize(("monotone", "spread"), [(True, 1), (False, 2)])
def test_the_index_has_bounded_range_and_reaches_it(monotone, spread):
    widest = worst = 0.0
    for q in BASES:
        for move in neighbours(len(q), monotone=monotone):
            other = tuple(a + b for a, b in zip(q, move, strict=True))
            found = losses(q, other, [(i, None) for i in range(len(q))]).values()
            widest, worst = max(widest, max(found) - min(found)), max(worst, *map(abs, found))
    assert widest == pytest.approx(spread, abs=1e-9), (
        "the width of the interval is the spread times the rate"
    )
    assert spread * 0.99 < worst <= spread + 1e-9


@pytest.mark.parametrize(("monotone", "spread"), [(True, 1), (False, 2)])
@pytest.mark.slow
def test_index_and_lead_lose_epsilon_and_no_more(monotone, spread):
    worst, widest = 0.0, 0.0
    for q in BASES:
        for move in neighbours(len(q), monotone=monotone):
            other = tuple(a + b for a, b in zip(q, move, strict=True))
            found = losses(
                q, other, [(i, m) for i in range(len(q)) for m in (0, 1, 2, 5, 12, 40)]
            ).values()
            worst, widest = max(worst, *map(abs, found)), max(widest, max(found) - min(found))
    assert worst == pytest.approx(spread, abs=1e-9)
    assert worst <= spread + 1e-12
    assert widest > 1.5 * spread, "with the lead there is no bounded range: its cost is pure"


def test_the_costs_say_so():
    assert ExponentialMechanism(epsilon=1, sensitivity=COUNTING).cost == Pure(epsilon=1)
    assert ExponentialMechanism(epsilon=1, sensitivity=EITHER, gap=False).cost == BoundedRange(
        epsilon=1
    )
    assert ExponentialMechanism(epsilon=1, sensitivity=EITHER).rate == HALF
    assert ExponentialMechanism(epsilon=1, sensitivity=COUNTING).rate == 1
    gumbel = NoisyTopK(k=4, epsilon=1, sensitivity=COUNTING, noise="gumbel")
    assert gumbel.cost.pure() == 1
    assert gumbel.cost.zcdp() == 4 * BoundedRange(epsilon=Fraction(1, 4)).zcdp()
    assert gumbel.cost.zcdp() < Fraction(1, 8 * 4)
    assert gumbel.noise == Gumbel(Fraction(1, 4))


def twin(play, claimed, laws):
    return audit.Subject(
        laws=laws, play=play, again=-1, cost=Pure(epsilon=claimed), sensitivity=EITHER
    )


def test_the_auditor_convicts_the_rate_for_monotone_answers_where_they_move_both_ways():
    subject = audit.exact(
        twin(_raced, 1, [audit.Finite([1] * 3), Geometric(Fraction(1))]),
        answers_a=(-14, 0, 0),
        answers_b=(-13, -1, -1),
    )
    assert subject.broken
    assert subject.epsilon_at_least == pytest.approx(2, abs=1e-5)
    right = twin(_raced, 2, [audit.Finite([1] * 3), Geometric(Fraction(1))])
    assert not audit.exact(right, answers_a=(-14, 0, 0), answers_b=(-13, -1, -1)).broken


def _raced(answers, noise):
    q = np.array(answers)
    return np.where(noise[:, 1] >= q.max() - q[noise[:, 0]], noise[:, 0], -1)


def test_the_auditor_convicts_a_level_that_is_reached_only_from_above():
    def strict(answers, noise):  # ">" for ">=", and the best one is let in all the same
        q = np.array(answers)
        depth = q.max() - q[noise[:, 0]]
        return np.where((noise[:, 1] > depth) | (depth == 0), noise[:, 0], -1)

    report = audit.exact(
        twin(strict, 2, [audit.Finite([1] * 2), Geometric(Fraction(1))]),
        answers_a=(0, 0),
        answers_b=(1, -1),
    )
    assert report.broken


def test_a_drawn_again_output_of_all_noise_is_refused():
    nothing = twin(lambda _, noise: np.full(len(noise), -1), 1, [audit.Finite([1, 1])])
    with pytest.raises(InvalidParameter, match="must not be the output of all noise"):
        audit.exact(nothing, answers_a=(0,), answers_b=(1,))


@pytest.mark.parametrize(
    ("a", "b"), [((0, 0), (1, -1)), ((-3, 0, 1), (-2, -1, 0)), ((2, 2, 0), (1, 3, 1))]
)
def test_the_audit_finds_the_loss_of_the_closed_form(a, b):
    r = Fraction(math.exp(-0.5))  # epsilon 1 over a spread of 2
    report = audit.exact(
        ExponentialMechanism(epsilon=1, sensitivity=EITHER, gap=False), answers_a=a, answers_b=b
    )
    closed = max(abs(float_log(softmax(r, a, i) / softmax(r, b, i))) for i in range(len(a)))
    assert report.epsilon_at_least == pytest.approx(closed, abs=1e-9)
    assert report.epsilon_at_least <= closed + 1e-9
    assert report.epsilon_at_most == pytest.approx(closed, abs=1e-6)
    assert not report.broken


@pytest.mark.parametrize("q", BASES)
@pytest.mark.slow
def test_the_audit_is_told_the_law(q):
    rate = Fraction(1, 2)
    r = Fraction(math.exp(-0.5))
    told = dict(leads(list(q), rate))
    assert sum(high for _, high in told.values()) - 1 < Decimal("1e-40")
    assert 1 - sum(low for low, _ in told.values()) < Decimal("1e-25")
    for (i, m), (low, high) in told.items():
        assert low <= high
        assert float(low) == pytest.approx(float(lead(r, q, i, m)), rel=1e-12)
    top = dict(peeled(list(q), 2, rate))
    for (i, j), (low, high) in top.items():
        left = [x for at, x in enumerate(q) if at != i]
        assert low <= high
        assert float(low) == pytest.approx(
            float(softmax(r, q, i) * softmax(r, left, j - (j > i))), rel=1e-12
        )


def test_a_stated_law_is_audited_and_what_it_leaves_out_counts_against_it():
    def told(bit, left_out=0):
        p = [Decimal("0.75"), Decimal("0.25")]
        return [(i, (p[i ^ bit], p[i ^ bit])) for i in range(2 - left_out)]

    honest = audit.Subject(laws=[], stated=told, cost=Pure(epsilon=Fraction("1.0986122886682")))
    report = audit.exact(honest, answers_a=0, answers_b=1)
    assert report.epsilon_at_least == pytest.approx(math.log(3), abs=1e-12)
    assert not report.broken
    assert audit.exact(
        audit.Subject(laws=[], stated=told, cost=Pure(epsilon=1)), answers_a=0, answers_b=1
    ).broken
    silent = audit.Subject(laws=[], stated=lambda bit: told(bit, 1), cost=Pure(epsilon=1))
    report = audit.exact(silent, answers_a=0, answers_b=1)
    assert report.epsilon_at_least <= 0, "what is not listed may be the same output"
    assert report.epsilon_at_most >= math.log(4) - 1e-9, "on either side"
    together = audit.exact(honest, answers_a=0, answers_b=1, partition=lambda _: 0)
    assert together.epsilon_at_most == pytest.approx(0, abs=1e-9)
    with pytest.raises(InvalidParameter, match="must have no laws, and neither decide nor play"):
        audit.Subject(laws=[Geometric(HALF)], stated=told, cost=Pure(epsilon=1))


@pytest.mark.slow
def test_every_claim_is_audited_and_attained():
    for name in ("ExponentialMechanism", "PermuteAndFlip", "RandomizedResponse"):
        for report in audit.run_claims(name):
            assert report.reports
            assert report.tight
            report.raise_if_broken()


# --- oracles, top k, the p-value -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_oracles_of_the_exponential_mechanism():
    mu = (1, 0.3, -0.5, 2)  # E1 to E3, on a grid of a thousandth
    step = 1000
    q, r = tuple(round(x * step) for x in mu), math.exp(-1 / step)
    assert softmax(r, q, 3) == pytest.approx(0.612501912319, abs=1e-12)
    odds = softmax(r, q, 3)
    theta = math.log(odds / (1 - odds))
    assert theta == pytest.approx(0.457841150801, abs=1e-11)
    mean = sum(lead_at_least(r, q, 3, m) for m in range(1, 40_000)) / odds / step
    assert mean == pytest.approx(1.54782270251, abs=1e-3)  # whole steps lose half a step on average
    assert (1 + math.exp(-theta)) * math.log1p(math.exp(theta)) == pytest.approx(
        1.54782270251, abs=1e-10
    )


@pytest.mark.slow
def test_gumbel_top_k_peels():
    q, rate, draws = (3, 0, 1, 3), Fraction(1, 2), 3000
    entropy, r = Seeded(8), math.exp(-0.5)
    seen = {}
    for _ in range(draws):
        found = tuple(draw_places(np.array(q), 2, rate, entropy).tolist())
        seen[found] = seen.get(found, 0) + 1
    cells = [(i, j) for i in range(4) for j in range(4) if i != j]
    left = {i: [x for j, x in enumerate(q) if j != i] for i in range(4)}
    expected = [draws * softmax(r, q, i) * softmax(r, left[i], j - (j > i)) for i, j in cells]
    assert frequencies_fit([seen.get(cell, 0) for cell in cells], expected) > LEVEL
    once = [draws * softmax(r, q, i) * softmax(r, q, j) / (1 - softmax(r, q, j)) for i, j in cells]
    assert frequencies_fit([seen.get(cell, 0) for cell in cells], once) < LEVEL


def test_gumbel_top_k_is_the_top_k_of_gumbel_noise():
    q, draws, rate = np.array([2, 0, 1]), 200_000, 0.5
    noise = -np.log(-np.log(np.random.default_rng(1).random((draws, 3)))) / rate
    order = np.argsort(-(q + noise), axis=1)[:, :2]
    counts = [
        np.count_nonzero((order == cell).all(axis=1))
        for cell in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    ]
    r, expected = math.exp(-rate), []
    for i, j in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]:
        left = [x for at, x in enumerate(q.tolist()) if at != i]
        expected.append(draws * softmax(r, q.tolist(), i) * softmax(r, left, j - (j > i)))
    assert frequencies_fit(counts, expected) > LEVEL


def test_a_gumbel_release_has_indices_and_nothing_else():
    top = NoisyTopK(k=3, epsilon=40, sensitivity=COUNTING, noise="gumbel").release(
        [5, 90, 60, 7, 30], entropy=Seeded(1)
    )
    assert top.indices.tolist() == [1, 2, 4]
    assert top.gaps.shape == (0,)
    everything = NoisyTopK(k=3, epsilon=1, sensitivity=COUNTING, noise="gumbel").release(
        [5, 9, 6], entropy=Seeded(1)
    )
    assert sorted(everything.indices.tolist()) == [0, 1, 2]
    law = Gumbel(HALF)
    assert (law.mean, law.variance) == pytest.approx(
        (stats.gumbel_r.mean(scale=2), stats.gumbel_r.var(scale=2))
    )
    x = np.linspace(-5, 40, 7)
    assert law.cdf(x) == pytest.approx(stats.gumbel_r.cdf(x, scale=2))
    assert law.sf(x) == pytest.approx(stats.gumbel_r.sf(x, scale=2))
    assert law.quantile(0.3) == pytest.approx(stats.gumbel_r.ppf(0.3, scale=2))


@pytest.mark.parametrize("alpha", [0.5, 0.05, 0.01, 1e-6])
def test_the_p_value_is_valid_given_the_selection(alpha):
    step, r = 50, math.exp(-1 / 50)
    critical = math.ceil(math.log(2 / alpha - 1) * step)  # E5: 3.66356164613 nats for 0.05
    worst = 0.0
    for q in [(0, 0), (0, 1), (0, 40), (0, 0, 0), (5, 5, -99)]:
        i = 0  # another one is at least as large
        worst = max(worst, lead_at_least(r, q, i, critical) / softmax(r, q, i))
    assert worst <= alpha * (1 + 1e-9)
    two = lead_at_least(r, (0, 0), 0, critical) / softmax(r, (0, 0), 0)
    assert two == pytest.approx(alpha, rel=2 / step), "two equals reach it, up to one step"


def test_the_p_value_of_a_release():
    mechanism = ExponentialMechanism(
        epsilon=1,
        sensitivity=Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=0.25),
    )
    choice = mechanism.release([90, 0, 3], entropy=Seeded(2))
    g = choice.gap / 2  # rate 1/2 a unit
    assert p_value(choice) == pytest.approx(2 / (1 + math.exp(g)), rel=1e-9)
    assert p_value(choice) >= 2 / (1 + math.exp(g)) * (1 - 1e-12)
    assert math.log(2 / 0.05 - 1) == pytest.approx(3.66356164613, abs=1e-11)


@pytest.mark.parametrize("lead", [0, 1, 37, 600, 700, 720, 740, 744, 745, 746, 2000, 2**52])
def test_the_p_value_is_rounded_up_however_long_the_lead(lead):
    mechanism = ExponentialMechanism(epsilon=1, sensitivity=COUNTING)
    found = p_value(
        Choice(index=0, gap=float(lead), mechanism=mechanism, cost=mechanism.cost, simulated=True)
    )
    with localcontext() as context:
        context.prec = 50
        exact = 2 / (1 + Decimal(lead).exp()) if lead < 10_000 else Decimal(0)
        assert min(exact, 1) <= Decimal(found) <= exact * (1 + Decimal("1e-10")) + Decimal("1e-322")
    assert found > 0


def test_a_choice_without_a_gap_has_no_p_value():
    for released in (
        ExponentialMechanism(epsilon=1, sensitivity=COUNTING, gap=False).release([3, 2]),
        ExponentialMechanism(epsilon=1, sensitivity=COUNTING).release([3]),
        NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING).release([3, 2]),
    ):
        with pytest.raises(InvalidParameter, match="p_value needs a Choice with a gap"):
            p_value(released)
