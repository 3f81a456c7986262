"""Laws of the adaptive sparse vector: streams fold one step, tokens are never overdrawn and never left lying, what is refused."""

from __future__ import annotations

import math
import threading
from fractions import Fraction
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sordino import (
    COUNTING,
    AdaptiveSparseVector,
    Budget,
    InvalidParameter,
    Ledger,
    Seeded,
    Sensitivity,
    SparseVector,
    StreamClosed,
)
from sordino.cost import Pure
from sordino.mechanisms import Stream
from sordino.mechanisms.crossings import crossings
from sordino.mechanisms.crossings.branches import BRANCHES
from sordino.mechanisms.crossings.crossings import State, affordable, select_affordable, step
from support.adaptive import Rules, box, played
from support.sparse_vectors import Handed

HIGH, LOW = 10**9, -(10**9)
FAST = ("exponential", Fraction(1, 4))
GOOD = {"threshold": 0, "at_least": 2, "epsilon": 1, "sensitivity": COUNTING}


# --- lists and streams --------------------------------------------------------------------------------------------------------------


def streamed(q, rules, rho, xi):
    """The transcript that a stream makes of this noise, as `played` reports it for the list."""
    mechanism = SimpleNamespace(
        threshold=0,
        branch_corrections=tuple(map(Fraction, rules.boundaries)),
        tokens=rules.tokens,
        branch_tokens=rules.prices,
        branch_noise=tuple(Handed(noise) for noise in xi),
        threshold_noise=Handed([rho]),
        resample=False,
        step=Fraction(1),
        exact=True,
        spent=lambda tokens, thresholds: Pure(epsilon=10**6 * thresholds + tokens),
    )
    events, charged = [], Fraction(0)
    with Stream(mechanism, Seeded(1)) as stream:
        for answer in q:
            if stream.closed:
                break
            verdict = stream.ask(answer)
            charged += verdict.charged
            assert verdict.cost.pure() == verdict.charged
            # The gap is what lies above the threshold itself: the lift and the boundary of the branch.
            events.append(
                (verdict.branch, int(verdict.gap) - rules.boundaries[verdict.branch])
                if verdict.above
                else None
            )
        assert stream.spent.pure() == charged == 10**6 * bool(events) + rules.paid(events)
        assert stream.asked == len(events)
        assert stream.closed == (not rules.open(rules.tokens - rules.paid(events)))
    return tuple(events)


@pytest.mark.parametrize(
    ("q", "rules", "width"),
    [
        ((0, 0), Rules(FAST, FAST), 4),
        ((1, 0), Rules(("laplace", Fraction(1, 4)), ("laplace", Fraction(1, 4))), 2),
        ((1, 0, 1), Rules(FAST, FAST, prices=(2, 3), tokens=6), 2),
        ((0, 1), Rules(FAST, FAST, prices=(1, 2, 4), boundaries=(1, 0, 0), tokens=5), 2),
    ],
)
@pytest.mark.sample(4)
def test_a_stream_and_a_list_say_the_same_of_the_same_noise(q, rules, width):
    for rho, xi, _ in box(rules, len(q), width):
        assert streamed(q, rules, rho, xi) == played(q, rules, rho, xi)


@pytest.mark.parametrize("prices", [(1,), (1, 2), (3, 4), (2, 3, 7), (1, 2, 4, 8)])
@pytest.mark.parametrize("size", [1 << 16, 7, 1])
@pytest.mark.each_value
def test_long_streams_and_short_blocks_too(monkeypatch, prices, size):
    monkeypatch.setattr(crossings, "_QUESTION_BLOCK", size)
    generator = np.random.default_rng(5)
    m = len(prices)
    for tokens in (prices[-1], 40, 41, 10**30):
        for shift in (0, 60):
            rules = Rules(
                FAST, FAST, prices=prices, boundaries=tuple(range(5 * m - 5, -1, -5)), tokens=tokens
            )
            q, xi = (
                generator.integers(-40, 10, 150) + shift,
                generator.integers(0, 30, (m, 150)).tolist(),
            )
            events = streamed(q.tolist(), rules, 7, xi)
            assert events == played(q, rules, 7, xi)
            assert len(events) == 150 or not rules.open(tokens - rules.paid(events))


def test_noise_beyond_64_bits_is_compared_all_the_same():
    huge = 1 << 70
    rules = Rules(FAST, FAST, prices=(1, 2), boundaries=(3, 0), tokens=5)
    for rho, xi in (
        (huge, [[1, 2, 3], [4, huge, 6]]),
        (-huge, [[1, 2, 3], [4, 5, 6]]),
        (huge, [[huge, 2, huge + 3], [huge, huge - 1, huge]]),
    ):
        values = [np.array(noise, dtype=object) for noise in xi]
        a, b = streamed((0, 5, -7), rules, rho, values), played((0, 5, -7), rules, rho, values)
        assert [event and (event[0], float(event[1])) for event in a] == [
            event and (event[0], float(event[1])) for event in b
        ]


def test_a_stream_wipes_the_noise_of_a_branch_that_it_cannot_pay_for():
    m = AdaptiveSparseVector(threshold=0, at_least=1, epsilon=40, sensitivity=COUNTING)
    with m.open(entropy=Seeded(1)) as stream:
        assert not stream.ask(LOW).above
        assert all(noise._block for noise in stream._noise)
        assert stream.ask(HIGH).branch == 0
        assert [bool(noise._block) for noise in stream._noise] == [True, False]
        assert not stream.closed
        assert stream.ask(HIGH).branch == 0
        assert stream.closed
        with pytest.raises(StreamClosed):
            stream.ask(LOW)
        assert not any(noise._block for noise in (*stream._noise, stream._thresholds))
    assert stream.spent.pure() == m.cost.pure()


def test_threads_share_its_tokens():
    m = AdaptiveSparseVector(threshold=0, at_least=200, epsilon=9, sensitivity=COUNTING)
    found = []

    def work(stream):
        try:
            while True:
                found.append(stream.ask(10**9).branch)
        except StreamClosed:
            return

    with m.open() as stream:
        workers = [threading.Thread(target=work, args=(stream,)) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert found == [0] * 400
    assert stream.spent.pure() == m.cost.pure()


# --- tokens -------------------------------------------------------------------------------------------------------------------------

price_lists = st.lists(st.integers(1, 9), min_size=1, max_size=5, unique=True).map(sorted)


def one_by_one(branches, prices, left):
    """What the hits of a run are worth, by the fold of `step`: the first branch that reaches is known, the ones before it fail."""
    state, kept = State(left, 0), []
    for i, branch in enumerate(branches):
        open_ = affordable(prices, state.left)
        if not open_:
            break
        noisy = [0 if j == branch else -1 for j in range(open_)]
        state, fired = step(state, noisy, prices, resample=False)
        if fired is not None:
            kept.append(i)
    return kept, state.left


@given(price_lists, st.lists(st.integers(0, 4), max_size=40), st.integers(0, 60))
@settings(max_examples=300)
@pytest.mark.slow
def test_a_run_of_hits_is_paid_for_as_one_after_the_other(prices, branches, left):
    branches = [branch % len(prices) for branch in branches]
    open_ = affordable(prices, left)
    hits = [
        branch for branch in branches if branch < open_
    ]  # what is decided with the open branches
    kept, rest = select_affordable(np.array(hits, dtype=np.intp), prices, left)
    assert (kept.tolist(), rest) == one_by_one(hits, prices, left)
    assert rest == left - sum(prices[hits[i]] for i in kept) >= 0


def test_running_out_in_the_middle_of_a_run():
    hits = np.array(
        [1, 0, 1, 0, 1, 0, 0, 1]
    )  # 2 + 1 + 2 of 7 leave 2, then 1 leaves 1: the dear ones are dropped from there
    kept, left = select_affordable(hits, (1, 2), 7)
    assert kept.tolist() == [0, 1, 2, 3, 5]
    assert left == 0
    assert select_affordable(hits, (1, 2), 10**40)[0].tolist() == list(range(8))
    assert select_affordable(hits[:0], (1, 2), 7)[1] == 7


mechanisms = st.builds(
    lambda k, epsilon, split, branches, monotone: AdaptiveSparseVector(
        threshold=0,
        at_least=k,
        epsilon=epsilon,
        sensitivity=Sensitivity(bound=1, monotone=monotone, adjacency="add-remove", step=1),
        split=split,
        branches=branches,
    ),
    st.integers(1, 12),
    st.sampled_from([0.1, 0.3, 0.7, 1, 3, Fraction(22, 7)]),
    st.one_of(st.just("variance"), st.floats(0.01, 0.99)),
    st.one_of(st.integers(1, 5), price_lists.map(tuple)),
    st.booleans(),
)


@given(mechanisms, st.lists(st.integers(-80, 300), min_size=1, max_size=60), st.integers(0, 9))
def test_never_above_epsilon_and_never_done_while_something_can_be_paid_for(m, values, seed):
    asked = Fraction(str(m.epsilon))
    assert m.cost.pure() <= asked
    assert m.cost.pure() >= asked * Fraction(999, 1000)
    release = m.release(values, entropy=Seeded(seed))
    tokens = sum(m.branch_tokens[branch] for branch in release.branches.tolist())
    left = m.tokens - tokens
    assert release.cost.pure() == m.threshold_epsilon + tokens * m.token_epsilon <= m.cost.pure()
    assert release.asked == len(values) or 0 <= left < m.branch_tokens[0]
    if left < m.branch_tokens[0]:
        assert release.indices.size >= m.at_least
        assert release.indices[-1] == release.asked - 1, "it ends with a positive"
    assert release.cost.pure() > m.cost.pure() - m.branch_epsilons[0] or release.asked == len(
        values
    )


@pytest.mark.parametrize(("branches", "each"), [(1, 1), (2, 2), (3, 4), ((2, 3), 1), (5, 16)])
def test_how_many_are_found_if_all_are_far_above_and_if_none_is(branches, each):
    near = (HIGH, *[HIGH] * (len(BRANCHES("x", branches)) - 2), 0) if branches != 1 else (0,)
    for k in (1, 3):
        options = GOOD | {"at_least": k, "branches": branches}
        far_above = AdaptiveSparseVector(**options).release([HIGH] * 200)
        assert far_above.branches.tolist() == [0] * far_above.indices.size
        assert far_above.indices.size == (k * each if each > 1 or branches == 1 else k * 3 // 2)
        m = AdaptiveSparseVector(**options, boundaries=near)
        just_above = m.release([HIGH // 2] * 200)
        assert just_above.branches.tolist() == [len(near) - 1] * k
        assert just_above.cost.pure() == m.cost.pure()


def printed(epsilon, theta, k, fired, number):
    """Algorithm 1 as it is printed, in numbers of this type: how many positives it gives if branch `fired` answers every question."""
    first = number(theta) * number(epsilon)
    dear = (number(epsilon) - first) / number(k)
    cost, found = first, 0
    while True:
        cost += dear / number(2) if fired == 0 else dear
        found += 1
        if cost > number(epsilon) - dear:
            return found


def test_the_printed_rule_in_floats_stops_one_answer_early_and_tokens_do_not():
    """It compares sums of rounded numbers; no privacy is lost by it, answers are."""
    early = settings = 0
    for epsilon, theta, k in product(
        (0.1, 0.3, 0.7, 1.0, 2.0), (0.1, 0.2, 0.25, 0.3, 0.5), range(1, 25)
    ):
        settings += 1
        exactly = printed(Fraction(str(epsilon)), Fraction(str(theta)), k, 1, Fraction)
        assert exactly == k
        early += printed(epsilon, theta, k, 1, float) < k
        if printed(epsilon, theta, k, 1, float) < k and k in {6, 7, 10, 23}:
            m = AdaptiveSparseVector(
                threshold=0,
                at_least=k,
                epsilon=epsilon,
                sensitivity=COUNTING,
                split=theta,
                boundaries=(HIGH, 0),
            )
            assert m.release([10**6] * (k + 2)).indices.size == k
    assert early > settings / 4


def test_what_the_printed_rule_leaves_is_spent():
    """Even exactly it ends when the dear branch cannot be paid for; the cheap one still can."""
    assert printed(Fraction(1), Fraction(1, 2), 1, 0, Fraction) == 1
    assert AdaptiveSparseVector(**(GOOD | {"at_least": 1})).release([HIGH] * 9).indices.size == 2


def test_one_branch_is_a_sparse_vector():
    m = AdaptiveSparseVector(threshold=90, at_least=3, epsilon=1, sensitivity=COUNTING, branches=1)
    same = SparseVector(threshold=90, positives=3, epsilon=1, sensitivity=COUNTING)
    assert (m.branch_noise, m.threshold_noise, m.cost, m.step) == (
        same.branch_noise,
        same.threshold_noise,
        same.cost,
        same.step,
    )
    values = np.random.default_rng(2).integers(0, 100, 500)
    a, b = m.release(values, entropy=Seeded(3)), same.release(values, entropy=Seeded(3))
    assert a.indices.tolist() == b.indices.tolist()
    assert a.gaps.tolist() == b.gaps.tolist()
    assert a.estimates.tolist() == b.estimates.tolist()


# --- gaps, estimates, choices -------------------------------------------------------------------------------------------------------


def test_gaps_are_raw_and_at_least_what_the_branch_adds():
    m = AdaptiveSparseVector(
        threshold=0.25,
        at_least=400,
        epsilon=400,
        sensitivity=COUNTING,
        boundaries=(4.5, 0),
        correction=1,
        split=0.3,
    )
    assert m.branch_corrections == (Fraction(11, 2), 1)
    release = m.release([5] * 300, entropy=Seeded(4))
    assert set(release.branches.tolist()) == {0, 1}
    for branch in (0, 1):
        here = release.branches == branch
        assert (release.gaps[here] >= float(m.branch_corrections[branch])).all()
        center = m.branch_noise[branch].mean - m.threshold_noise.mean
        np.testing.assert_allclose(release.estimates[here], release.gaps[here] + 0.25 - center)
    np.testing.assert_allclose((release.gaps + 0.25) % 1, 0, atol=1e-12)


@pytest.mark.parametrize("noise", ["exponential", "laplace"])
@pytest.mark.slow
def test_estimates_are_centered_for_a_fixed_answer(noise):
    entropy, estimates = Seeded(6), {0: [], 1: []}
    for at in (1000, 10):  # far above the boundary, and between threshold and boundary
        m = AdaptiveSparseVector(
            threshold=0,
            at_least=1,
            epsilon=2,
            sensitivity=COUNTING,
            boundaries=(500, -500),
            noise=noise,
        )
        for _ in range(1000):
            release = m.release([at], entropy=entropy)
            estimates[int(release.branches[0])].append(release.estimates[0] - at)
    for branch, errors in estimates.items():
        assert len(errors) == 1000
        variance = m.branch_noise[branch].variance + m.threshold_noise.variance
        assert abs(np.mean(errors)) < 6 * math.sqrt(variance / 1000)
        assert abs(np.var(errors) / variance - 1) < 0.35


def test_the_default_boundaries_are_two_deviations_counted_from_the_means():
    m = AdaptiveSparseVector(threshold=0, at_least=5, epsilon=0.5, sensitivity=COUNTING, branches=3)
    for law, correction in zip(m.branch_noise, m.branch_corrections, strict=True):
        expected = (
            2 * math.sqrt(law.variance) + law.mean - m.branch_noise[-1].mean
            if law != m.branch_noise[-1]
            else 0
        )
        assert expected <= correction < expected + 1
    laplace = AdaptiveSparseVector(
        threshold=0, at_least=5, epsilon=0.5, sensitivity=COUNTING, noise="laplace", correction=7
    )
    assert (
        0 <= laplace.branch_corrections[0] - 7 - 2 * math.sqrt(laplace.branch_noise[0].variance) < 1
    )
    assert laplace.branch_corrections[1] == 7


def test_the_share_of_the_threshold_is_the_closed_form():
    """1/(1 + (kappa k/phi)^(2/3)) for noise of one kind, with phi the price of the first branch over that of the last."""
    for monotone, kappa in ((True, 1), (False, 2)):
        for branches, over in ((2, 2), (3, 4), ((2, 3), 1.5)):
            statement = Sensitivity(bound=1, monotone=monotone, adjacency="add-remove", step=1)
            m = AdaptiveSparseVector(
                threshold=0, at_least=10, epsilon=1, sensitivity=statement, branches=branches
            )
            assert float(m.threshold_epsilon) == pytest.approx(
                1 / (1 + (kappa * 10 * over) ** (2 / 3)), rel=1e-5
            )
    mixed = AdaptiveSparseVector(
        threshold=0, at_least=10, epsilon=1, sensitivity=COUNTING, threshold_noise="laplace"
    )
    assert float(mixed.threshold_epsilon) == pytest.approx(1 / (1 + (400 / 2) ** (1 / 3)), rel=1e-5)


def test_an_optimal_correction_is_that_of_a_sparse_vector_with_the_noise_of_the_branch():
    m = AdaptiveSparseVector(
        threshold=0,
        at_least=6,
        epsilon=1,
        sensitivity=COUNTING,
        branches=3,
        correction="optimal",
        correction_run=50,
    )
    for law, correction in zip(m.branch_noise, m.branch_corrections, strict=True):
        s, b = float(1 / law.rate), float(1 / m.threshold_noise.rate)
        assert float(correction) == pytest.approx(s * math.log(51 * s / (s + b)), rel=1e-6)
    assert sorted(m.branch_corrections, reverse=True) == list(m.branch_corrections)
    added = AdaptiveSparseVector(
        threshold=0,
        at_least=6,
        epsilon=1,
        sensitivity=COUNTING,
        correction="optimal",
        correction_run=50,
        boundaries=(3, 1),
    )
    plain = AdaptiveSparseVector(
        threshold=0,
        at_least=6,
        epsilon=1,
        sensitivity=COUNTING,
        correction="optimal",
        correction_run=50,
    )
    assert [
        a - b for a, b in zip(added.branch_corrections, plain.branch_corrections, strict=True)
    ] == [3, 1]


def test_each_answer_may_have_its_threshold():
    m = AdaptiveSparseVector(
        threshold=10**12,
        at_least=3,
        epsilon=60,
        sensitivity=COUNTING,
        boundaries=(150, 0),
        correction=0.5,
    )
    release = m.release([5, 500, 50, 5000], [1000, 100, 100, 4900.25])
    assert release.indices.tolist() == [1, 3]
    assert release.branches.tolist() == [0, 1]
    assert np.allclose(release.gaps, [400, 99.75], atol=20)
    assert m.release([5, 500, 50, 5000]).indices.tolist() == []
    with m.open() as stream:
        assert not stream.ask(500).above
        assert stream.ask(5000, threshold=4900.25).branch == 1


# --- what is refused ----------------------------------------------------------------------------------------------------------------

BAD = {
    "threshold": [None, math.nan, "3"],
    "at_least": [0, -1, 1.5, None, True],
    "epsilon": [0, -0.5, math.inf, None, "0.5"],
    "sensitivity": [None, 1, COUNTING.over(3)],
    "noise": ["gauss", None, 3],
    "threshold_noise": ["gumbel", 3],
    "branches": BRANCHES.invalid,
    "split": [0, 1, "success", "even", None],
    "correction": ["best", math.nan],
    "domain_size": [0, -1, 1.5, True, 1 << 60],
}


@pytest.mark.parametrize(
    ("name", "bad"), [(name, bad) for name, values in BAD.items() for bad in values]
)
@pytest.mark.sample(4)
def test_bad_parameters(name, bad):
    with pytest.raises(InvalidParameter, match=rf"^AdaptiveSparseVector\.{name} must be .*; got "):
        AdaptiveSparseVector(**(GOOD | {name: bad}))


@pytest.mark.parametrize("good", BRANCHES.valid)
def test_good_branches(good):
    assert AdaptiveSparseVector(**GOOD, branches=good).branch_tokens == BRANCHES("x", good)


@pytest.mark.parametrize(
    "bad", [(), (1,), (1, 2), (3, 2, 1), (math.nan, 0), (1, None), "12", 3, (math.inf, 0)]
)
def test_boundaries_are_one_number_for_each_branch_and_do_not_rise(bad):
    with pytest.raises(
        InvalidParameter, match=r"boundaries must be 2 finite numbers, one for each branch"
    ):
        AdaptiveSparseVector(**GOOD, boundaries=bad)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"correction": "optimal"}, "correction_run must be given"),
        ({"correction_run": 5}, "must only be given with"),
        ({"threshold": 2**53}, "within 2\\^52 steps"),
        ({"boundaries": (2**53, 0)}, "within 2\\^52 steps"),
        ({"epsilon": 10**13, "branches": 5}, "rate of at most"),
        ({"epsilon": 1e-7, "branches": 20}, "rate of at least"),
    ],
)
def test_parameters_that_exclude_each_other_or_the_grid_are_refused(options, says):
    with pytest.raises(InvalidParameter, match=says):
        AdaptiveSparseVector(**(GOOD | options))


def test_lists_become_tuples_so_that_a_mechanism_is_a_value():
    m = AdaptiveSparseVector(**GOOD, branches=[1, 3], boundaries=[5, 0])
    assert m == AdaptiveSparseVector(**GOOD, branches=(1, 3), boundaries=(5, 0))
    assert hash(m) == hash(AdaptiveSparseVector(**GOOD, branches=(1, 3), boundaries=(5, 0)))


def test_a_stream_needs_no_domain():
    with pytest.raises(InvalidParameter, match="without a domain size"):
        AdaptiveSparseVector(**GOOD, domain_size=10).open()
    with pytest.raises(InvalidParameter, match=r"AdaptiveSparseVector.open needs entropy"):
        AdaptiveSparseVector(**GOOD).open(entropy=3)


# --- the ledger ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "tokens"),
    [([LOW] * 9, 0), ([LOW, HIGH, LOW], 1), ([50, LOW], 2), ([HIGH, 50, LOW], 3), ([HIGH] * 9, 6)],
)
def test_a_ledger_gets_back_what_the_branches_did_not_spend(tmp_path, values, tokens):
    account = {"adjacency": "add-remove", "unit": "user", "source": "orders"}
    ledger = Ledger.create(
        str(tmp_path / "budget.db"), account="a", budget=Budget(epsilon=2), **account
    )
    m = AdaptiveSparseVector(
        threshold=0,
        at_least=3,
        epsilon=1,
        sensitivity=COUNTING,
        split=0.25,
        boundaries=(1000, -1000),
    )
    with ledger.reserve(m, label="above") as charge:
        assert ledger.remaining == 1
        release = charge.release(m, values)
    assert release.cost.pure() == Fraction(1, 4) + tokens * Fraction(1, 8)
    assert ledger.remaining == 2 - release.cost.pure()
