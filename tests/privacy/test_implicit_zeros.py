"""Implicit zeros, enumerated: over all of its own random choices, the route of large domains has the law of the dense computation.

The route is run on domains of a few items, with every possibility of every choice, and compared with formulas that share no code with it.
Two parts draw anew until something fits: each is enumerated alone, round by round, and stands as its law in the whole.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache, partial
from itertools import combinations, permutations, product
from types import MappingProxyType

import numpy as np
import pytest

from sordino import COUNTING, AdaptiveSparseVector, SparseVector
from sordino.entropy import SYSTEM
from sordino.mechanisms.crossings import implicit_zeros, transcripts
from sordino.noise import DiscreteLaplace, Geometric
from support.branches import (
    DIGITS,
    ENOUGH,
    Cut,
    binomial,
    exactly,
    law,
    noise,
    subset,
    tails,
    words_below,
)

ONE, HALF = Fraction(1), Fraction(1, 2)
LOW, HIGH = -2, 3  # noise from here to there is told apart; what is beyond counts as one value


@pytest.fixture
def enumerated(monkeypatch):
    """Return a function that gives the law of a program on implicit zeros, all of whose choices are played.

    Some parts may be replaced; `spans` says for some noise between which two values it is told apart.
    """
    now = None

    def run(ways, program):
        nonlocal now
        now = ways
        return program()

    def of(program, spans=MappingProxyType({}), **replaced):
        def sample(noise_law, n, _):
            return now.each(n, noise(noise_law, *spans.get(noise_law, (LOW, HIGH))))

        parts = chances(lambda: now) | {"DENSE": 0} | replaced
        for module, name in product((implicit_zeros, transcripts), parts):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, parts[name])
        monkeypatch.setattr(
            implicit_zeros, "_chance_between", until_too_low(implicit_zeros._chance_between)
        )
        monkeypatch.setattr(implicit_zeros, "_complement", cache(implicit_zeros._complement))
        for kind in (Geometric, DiscreteLaplace):
            monkeypatch.setattr(kind, "sample", sample)
            monkeypatch.setattr(kind, "at_least", cache(kind.at_least))
        return law(partial(run, program=program))

    return of


def until_too_low(between):
    """Return the chances of a level, for levels that matter: what lies deeper is not told apart."""

    @cache  # for speed
    def chance(law, level, above):
        if level < LOW - 4:
            raise Cut
        return between(law, level, above)

    return chance


def chances(now):
    """Return the parts of both modules that draw, with each draw a choice among the ways of the moment."""

    def between(law, level, above, n, _):
        assert level >= 0 or above <= 0, (
            "the noise of a band is drawn as if the law did not bend inside"
        )
        return now().each(n, noise(law, LOW, HIGH, level, math.inf if above is None else above))

    def coins(chance, n, _):
        p = exactly(chance._enclosure)
        return now().each(n, ((1, p), (0, 1 - p))).astype(bool)

    return {
        "binomial": lambda n, p, _: binomial(now(), n, exactly(p)),
        "bernoulli": coins,
        "_noise_between": between,
        "draw_fresh_ranks": lambda zeros, n, used, _: subset(
            now(), [x for x in range(zeros) if x not in used.tolist()], n
        ),
    }


def listed(answers):
    return np.array(list(answers.values()), dtype=np.int64), np.array(list(answers), dtype=np.int64)


# --- the largest of a domain --------------------------------------------------------------------------------------------------------


def largest(answers, size, noise_law, m):
    """Return the program: the m largest values of the domain with their places, in public order."""
    steps, places = listed(answers)

    def run():
        values, at = implicit_zeros.noisy_domain(steps, places, size, noise_law, m, SYSTEM)
        assert at.tolist() == sorted(set(at.tolist()))
        return tuple(sorted(zip((-values).tolist(), at.tolist(), strict=True))[:m])

    return run


def law_of_largest(answers, size, noise_law, m):
    """Return {m largest: probability} of the dense computation, where the noise of no item can be one of those that count as one."""
    q = [answers.get(i, 0) for i in range(size)]
    at_least = tails(noise_law)
    found = {}
    with localcontext() as context:
        context.prec = DIGITS
        for items in permutations(range(size), m):
            for values in product(range(LOW + max(q), HIGH + min(q) + 1), repeat=m):
                pairs = tuple((-value, i) for value, i in zip(values, items, strict=True))
                if list(pairs) != sorted(pairs):
                    continue
                mass = math.prod(
                    at_least(v - q[i]) - at_least(v - q[i] + 1)
                    for v, i in zip(values, items, strict=True)
                )
                for i in set(range(size)) - set(items):  # lower, or as high and later
                    mass *= 1 - at_least(values[-1] + (i > items[-1]) - q[i])
                found[pairs] = mass
    return found


def compared(found, expected):
    """Return how far two laws are apart where both are told apart."""
    with localcontext() as context:
        context.prec = DIGITS
        return max(abs(found.get(key, 0) - mass) for key, mass in expected.items()), sum(
            expected.values()
        )


CASES = {
    "one listed": ({1: 1}, 4, 2),
    "two listed": ({0: 1, 2: -1}, 4, 2),
    "none listed": ({}, 3, 2),
    "all but one": ({0: 0, 2: 1}, 3, 2),
    "all wanted": ({1: 1}, 2, 2),
}


@pytest.mark.parametrize(  # where it begins is a matter of speed only: from 3 it descends through several levels
    ("kind", "start"),
    [
        (Geometric, None),
        (Geometric, 3),
        (DiscreteLaplace, None),
        pytest.param(DiscreteLaplace, 3, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.sample(4)
def test_the_largest_have_the_law_of_the_dense_computation(enumerated, case, kind, start):
    answers, size, m = case
    noise_law = kind(ONE)
    replaced = {} if start is None else {"_first_level": lambda *_: start}
    found, cut = enumerated(largest(answers, size, noise_law, m), **replaced)
    distance, mass = compared(found, law_of_largest(answers, size, noise_law, m))
    assert distance < ENOUGH
    assert cut + mass <= 1
    assert mass > HALF


@pytest.mark.parametrize("rate", [HALF, ONE])  # levels two steps apart, and one
@pytest.mark.sample(4)
def test_items_that_are_looked_at_in_turn_have_the_law_of_the_dense_computation(enumerated, rate):
    for kind in (Geometric, DiscreteLaplace):
        parts = {
            "_first_level": lambda *_: 2,
            "_prefer_first_hits": lambda *_: True,
            "_hit_block": lambda *_: 2,
        }
        found, _ = enumerated(largest({1: 1}, 4, kind(rate), 2), **parts)
        distance, mass = compared(found, law_of_largest({1: 1}, 4, kind(rate), 2))
        assert distance < ENOUGH
        assert mass > 0.4


@pytest.mark.parametrize("kind", [Geometric, DiscreteLaplace])
def test_a_descent_in_wide_bands_stops_where_the_law_bends(enumerated, kind):
    found, _ = enumerated(
        largest({1: 1}, 3, kind(HALF), 2), _first_level=lambda *_: 3
    )  # levels 3, 1, 0 and, of two sides, -2
    distance, mass = compared(found, law_of_largest({1: 1}, 3, kind(HALF), 2))
    assert distance < ENOUGH
    assert mass > 0.4


def never_conditioned(law, level, _):
    return law.at_least(level)


def test_wrong_chances_are_convicted(enumerated):
    parts = {"_first_level": lambda *_: 3, "_chance_between": never_conditioned}
    found, _ = enumerated(largest({1: 1}, 3, Geometric(ONE), 2), **parts)
    assert compared(found, law_of_largest({1: 1}, 3, Geometric(ONE), 2))[0] > 0.01
    found, _ = enumerated(largest({1: 1}, 3, Geometric(ONE), 2))
    assert compared(found, law_of_largest({1: 1}, 3, Geometric(Fraction(101, 100)), 2))[0] > 1e-3, (
        "a rate of 1.01 is another law"
    )


# --- all that reach a threshold -----------------------------------------------------------------------------------------------------


def reaching(answers, size, noise_law, floor):
    """Return the program: which of a domain reach the floor, with their values; all beyond `HIGH` are alike."""
    steps, places = listed(answers)

    def run():
        values, at = implicit_zeros.noisy_domain(
            steps, places, size, noise_law, size, SYSTEM, floor=floor
        )
        pairs = zip(at.tolist(), values.tolist(), strict=True)
        return tuple((place, min(value, HIGH + 1)) for place, value in pairs if value >= floor)

    return run


def law_of_reaching(answers, size, noise_law, floor):
    """Return {who reaches it, with values: probability}, every item drawn."""
    at_least, found = tails(noise_law), {}
    with localcontext() as context:
        context.prec = DIGITS
        for values in product([None, *range(floor, HIGH + 2)], repeat=size):
            mass = Decimal(1)
            for place, value in enumerate(values):
                q = answers.get(place, 0)
                if value is None:
                    mass *= 1 - at_least(floor - q)
                else:
                    beyond = 0 if value > HIGH else at_least(value + 1 - q)
                    mass *= at_least(value - q) - beyond
            found[tuple((i, v) for i, v in enumerate(values) if v is not None)] = mass
    return found


@pytest.mark.parametrize(
    "cases",
    [
        [(3, None), (3, 5)],
        pytest.param([(1, None), (1, 3), (0, 2), (-1, 1)], marks=pytest.mark.slow),
    ],
    ids=["high", "low"],
)
def test_all_that_reach_a_threshold_have_the_law_of_drawing_all(enumerated, cases):
    """Four cells, of which one is not empty; thresholds above 0, at it and below, from several first levels."""
    answers, size = {1: 1}, 4
    for floor, start in cases:
        replaced = {} if start is None else {"_first_level": lambda *_, start=start: start}
        noise_law = DiscreteLaplace(ONE)
        found, cut = enumerated(reaching(answers, size, noise_law, floor), **replaced)
        expected = law_of_reaching(answers, size, noise_law, floor)
        assert not cut
        assert set(found) <= set(expected)
        distance, mass = compared(found, expected)
        assert distance < ENOUGH
        assert abs(mass - 1) < ENOUGH
    # Another number of empty cells above it, and another rate, are told apart.
    for wrong in (
        law_of_reaching(answers, size, DiscreteLaplace(Fraction(101, 100)), floor),
        law_of_reaching({1: 1, 2: 1}, size, noise_law, floor),
    ):
        assert compared(found, wrong)[0] > 1e-4


def shown_by_the_truth(answers, size, noise_law, floor):
    """The twin: cells are shown by their true counts, with noise on what is shown."""
    found = {}
    shown = [place for place in range(size) if answers.get(place, 0) >= floor]
    values = [noise(noise_law, LOW, HIGH) for _ in shown]
    for way in product(*values):
        pairs = zip(shown, way, strict=True)
        key = tuple((place, answers[place] + value) for place, (value, _) in pairs)
        found[key] = math.prod((mass for _, mass in way), start=Decimal(1))
    return found


def worst_loss(one, other):
    """The largest loss between two laws; infinite where only one of them can come out."""
    with localcontext() as context:
        context.prec = DIGITS
        return max(
            abs((one[key] / other[key]).ln()) if key in one and key in other else Decimal("inf")
            for key in {*one, *other}
        )


def test_what_reaches_a_threshold_loses_what_a_count_moves_and_shown_by_the_truth_is_convicted():
    for base, moved in [({1: 2}, {1: 3}), ({}, {0: 1}), ({1: 3, 2: 1}, {1: 3})]:
        laws = [law_of_reaching(one, 4, DiscreteLaplace(HALF), 3) for one in (base, moved)]
        loss = worst_loss(*laws)
        assert loss <= HALF + Fraction(1, 10**30)
        assert loss > HALF - Fraction(1, 10**30), "and it is attained"
    twins = [shown_by_the_truth(one, 4, DiscreteLaplace(HALF), 3) for one in ({1: 2}, {1: 3})]
    assert worst_loss(*twins) == math.inf


# --- the first that cross a threshold -----------------------------------------------------------------------------------------------


HIGHEST = 1  # lifts up to here are compared


def law_of_transcripts(q, mechanism, thresholds):
    """Return {(places, lifts, asked): probability} of the dense computation, for lifts up to `HIGHEST`; the threshold is 1 plus noise."""
    at_least, found = tails(mechanism.noise), {}

    def ask(i, mass, places, lifts, limit):
        if i == len(q) or len(places) == mechanism.positives:
            key = places, lifts, i
            found[key] = found.get(key, 0) + mass
            return
        for limit_now, chance in thresholds if limit is None else [(limit, Decimal(1))]:
            need = 1 + limit_now - q[i]
            ask(i + 1, mass * chance * (1 - at_least(need)), places, lifts, limit_now)
            for lift in range(HIGHEST + 1):
                reached = at_least(need + lift) - at_least(need + lift + 1)
                kept = None if mechanism.resample else limit_now
                ask(i + 1, mass * chance * reached, (*places, i), (*lifts, lift), kept)

    with localcontext() as context:
        context.prec = DIGITS
        ask(0, Decimal(1), (), (), None)
    return found


FEW, MANY = (
    0.7,
    0.3,
)  # share of the threshold: little of it leaves zeros with much noise, and most of them cross


@pytest.mark.parametrize("length", [None, 1, 2])  # runs of any length give the same law
@pytest.mark.parametrize("kind", ["exponential", "laplace"])
@pytest.mark.parametrize(
    ("positives", "resample", "share", "size"),
    [(1, False, MANY, 3), (2, False, MANY, 3), (2, True, MANY, 2), (2, False, FEW, 3)],
)
@pytest.mark.slow
def test_transcripts_have_the_law_of_the_dense_computation(
    enumerated, positives, resample, share, size, kind, length
):
    answers = {1: 1}
    mechanism = SparseVector(
        threshold=1,
        positives=positives,
        epsilon=3,
        sensitivity=COUNTING,
        noise=kind,
        split=share,
        resample=resample,
        domain_size=size,
    )

    def program():
        found = mechanism.release(list(answers.values()), positions=list(answers))
        return tuple(found.indices.tolist()), tuple(found.gaps.tolist()), found.asked

    spans = {mechanism.threshold_noise: (0, 0), mechanism.noise: (0, HIGHEST + 2)}
    parts = (
        {}
        if length is None
        else {"_choose_run_length": lambda law, level, rest, most: min(rest, length)}
    )
    found, cut = enumerated(program, spans, **parts)
    q = [answers.get(i, 0) for i in range(size)]
    expected = law_of_transcripts(q, mechanism, noise(mechanism.threshold_noise, 0, 0))
    distance, mass = compared(found, expected)
    assert distance < ENOUGH
    assert not cut
    assert mass > 0.1
    wrong = law_of_transcripts(q[::-1], mechanism, noise(mechanism.threshold_noise, 0, 1))
    assert compared(found, wrong)[0] > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "threshold", "answers", "least"),
    [
        ("exponential", 2, {1: 1}, 1),
        ("laplace", 2, {1: 1}, 1),
        ("exponential", 2, {}, 2),
        ("laplace", 2, {}, 1),
        ("laplace", 0, {}, 2),
    ],
)
def test_branches_over_a_domain_have_the_law_of_the_dense_computation(
    enumerated, kind, threshold, answers, least
):
    """Both routes are played; the noise of a branch counts as one value beyond what is compared."""
    mechanism = AdaptiveSparseVector(
        threshold=threshold,
        at_least=least,
        epsilon=4 * least,
        sensitivity=COUNTING,
        noise=kind,
        domain_size=2,
    )

    def program():
        found = mechanism.release(list(answers.values()), positions=list(answers))
        return (
            tuple(found.indices.tolist()),
            tuple(found.gaps.tolist()),
            found.asked,
            tuple(found.branches.tolist()),
        )

    spans = {mechanism.threshold_noise: (0, 0)} | dict.fromkeys(
        mechanism.branch_noise, (min(threshold, 1) - 1, threshold + 3)
    )
    sparse, _ = enumerated(program, spans)
    dense, _ = enumerated(program, spans, DENSE=2)
    added = [float(correction) for correction in mechanism.branch_corrections]
    seen = {
        key
        for key in {*sparse, *dense}
        if all(gap <= added[branch] for gap, branch in zip(key[1], key[3], strict=True))
    }
    assert {branch for key in seen for branch in key[3]} == {0, 1}
    assert max(abs(sparse.get(key, 0) - dense.get(key, 0)) for key in seen) < ENOUGH
    assert sum(dense[key] for key in seen) > 0.1


# --- what draws anew ----------------------------------------------------------------------------------------------------------------


def rounds(ways, most, choose):
    """Return a sampler that gives up after `most` calls."""
    calls = 0

    def sample(*arguments):
        nonlocal calls
        calls += 1
        if calls > most:
            raise Cut
        return choose(ways, *arguments)

    return sample


@pytest.mark.parametrize(
    ("zeros", "n", "used"),
    [
        (4, 1, [1]),
        (4, 2, []),
        (5, 2, [3]),
        (4, 2, [1]),
        (4, 3, []),
        (3, 2, [0]),
        (3, 3, []),
        (7, 1, [5, 0, 2, 6]),
    ],
)
@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.each_value
def test_fresh_ranks_are_a_uniform_set_after_any_number_of_rounds(
    monkeypatch, zeros, n, used, most
):
    def program(ways):
        sample = rounds(ways, most, lambda ways, bound, size, _: words_below(ways, bound, size))
        monkeypatch.setattr(implicit_zeros, "uniform_below", sample)
        ranks = implicit_zeros.draw_fresh_ranks(
            zeros, n, np.array(used, dtype=np.int64), SYSTEM
        ).tolist()
        return tuple(sorted(ranks))

    found, cut = law(program)
    sets = list(combinations([x for x in range(zeros) if x not in used], n))
    if found:  # one round may be too few
        assert set(found) == set(sets)
    assert (
        max(found.values(), default=Decimal(0)) - min(found.values(), default=Decimal(0)) < ENOUGH
    )
    assert cut < Decimal(3) / 4 ** (most - 1), "and the rounds end"


@pytest.mark.parametrize(
    ("kind", "level", "above"),
    [
        (Geometric, 1, 3),
        (DiscreteLaplace, 0, 2),
        (DiscreteLaplace, -3, -1),
        (DiscreteLaplace, -1, 0),
    ],
)
@pytest.mark.parametrize("most", [1, 3])
def test_noise_of_a_band_has_its_law_after_any_number_of_rounds(
    monkeypatch, kind, level, above, most
):
    noise_law, at_least, width = kind(HALF), tails(kind(HALF)), above - level

    def program(ways):
        handed = rounds(
            ways, most, lambda ways, self, n, _: ways.each(n, noise(self, 0, width - 1))
        )
        monkeypatch.setattr(Geometric, "sample", lambda *given: handed(*given))  # noqa: PLW0108 - a function, to be bound
        return tuple(implicit_zeros._noise_between(noise_law, level, above, 2, SYSTEM).tolist())

    found, _ = law(program)
    with localcontext() as context:
        context.prec = DIGITS
        fails = tails(Geometric(HALF))(width)
        within = 1 - fails**most  # that one of them fits in so many rounds
        masses = {
            x: (at_least(x) - at_least(x + 1)) / (at_least(level) - at_least(above)) * within
            for x in range(level, above)
        }
        for a, b in product(masses, repeat=2):
            assert abs(found.pop((a, b)) - masses[a] * masses[b]) < ENOUGH
    assert not found


def test_noise_above_a_level_is_the_level_and_more(monkeypatch):
    monkeypatch.setattr(Geometric, "sample", lambda self, n, _: np.arange(n))
    for kind in (Geometric, DiscreteLaplace):
        assert implicit_zeros._noise_between(kind(HALF), 4, None, 3, SYSTEM).tolist() == [4, 5, 6]
