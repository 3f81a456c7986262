"""The sentence about an account with a delta: held against exact laws of releases that the account takes on.

The sentence is read as a reader does: from the numbers in it follow a loss, and how often that may be exceeded.
An (epsilon, delta) account does not bound the chance of a loss above epsilon by delta. Sentences that say so
are the broken twins here.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import NamedTuple

import mpmath
import pytest

import sordino as sd
from sordino import cost
from sordino.cost.odds import Bound, bound_account, say_odds, say_odds_of
from sordino.report.spent import say_promise

ACCOUNTS = [(1, 1e-6), (3, 1e-6), (8, 1e-6), (1, 1e-9), (0.2, 1e-6), (20, 1e-4)]
SENTENCE = re.compile(
    r"At epsilon (\S+), someone who thought a fact about somebody had a 1-in-1,000 chance could come to think at most "
    r"([0-9.,]+) in 1,000(?:, but for a chance of 1 in ([0-9,]+))?\."
)


def read(sentence):
    """Return the loss that a sentence allows, from what a suspicion of 1 in 1,000 may become, and the chance of more."""
    _, most, many = SENTENCE.fullmatch(sentence).groups()
    after = mpmath.mpf(most.replace(",", "")) / 1000
    loss = mpmath.log(after / (1 - after)) - mpmath.log(mpmath.mpf(1) / 999)
    return loss, 0 if many is None else 1 / mpmath.mpf(many.replace(",", ""))


def open_account(tmp_path, epsilon, delta, **more):
    return sd.Ledger.create(
        tmp_path / "budget.db",
        account="shop",
        budget=sd.Budget(epsilon=epsilon, delta=delta, **more),
        adjacency="add-remove",
        unit="customer",
        source="name:orders",
    )


def say(ledger):
    return say_promise(ledger.statement().to_dict())


# ---- laws: pairs (probability where the suspicion is true, loss) ----------------------------------------------------------


def gaussian_count(rho):
    """The exact law of the loss of one count with discrete Gaussian noise of that rho, one person more or less."""
    weights = {}
    reach = int(40 / math.sqrt(float(rho))) + 10
    rate = mpmath.mpf(rho.numerator) / rho.denominator
    for place in range(-reach, reach + 1):
        weights[place] = mpmath.exp(-rate * place**2)
    total = mpmath.fsum(weights.values())
    return [(weight / total, rate * (2 * place + 1)) for place, weight in weights.items()]


def failing(epsilon, delta, more):
    """(epsilon, delta) exactly, with one outcome whose loss is epsilon + more: the leak is mixed with what holds."""
    likely = mpmath.mpf(delta) / (1 - mpmath.exp(-mpmath.mpf(more)))
    rare = (likely - delta) * mpmath.exp(-mpmath.mpf(epsilon))
    return [
        (likely, mpmath.log(likely / rare)),
        (1 - likely, mpmath.log((1 - likely) / (1 - rare))),
    ]


def both(one, two):
    return [(p * q, a + b) for p, a in one for q, b in two]


def chance_of_more(law, loss):
    return mpmath.fsum(p for p, lost in law if lost > loss)


def breaks(sentence, law):
    loss, chance = read(sentence)
    return chance_of_more(law, loss) > chance


def old(epsilon, delta):
    """Broken twin: the epsilon of the account, but for a chance of its delta."""
    return say_odds(
        Fraction(repr(epsilon)), bound=Bound(Fraction(repr(epsilon)), Fraction(repr(delta)))
    )


class TwoPoint(NamedTuple):
    """A release with one outcome of a ratio and of a probability in the world without the person."""

    ratio: mpmath.mpf
    mass: mpmath.mpf

    def divergence(self, order):
        """The larger one of both orders of the neighbors."""
        rest = (1 - self.ratio * self.mass) / (1 - self.mass)
        pairs = [(self.ratio, self.mass), (rest, 1 - self.mass)]
        there = mpmath.fsum(ratio**order * mass for ratio, mass in pairs)
        back = mpmath.fsum(ratio ** (1 - order) * mass for ratio, mass in pairs)
        return mpmath.log(max(there, back)) / (order - 1)

    def law(self):
        rest = (1 - self.ratio * self.mass) / (1 - self.mass)
        return [
            (self.ratio * self.mass, mpmath.log(self.ratio)),
            (1 - self.ratio * self.mass, mpmath.log(rest)),
        ]


class OneOrder:
    """What the two-point release costs, to the ledger: its divergence at one order, and no epsilon that it counts."""

    def __init__(self, release, order):
        self.release, self.order = release, order

    def pure(self):
        return math.inf

    def rdp(self, order):
        assert order >= self.order
        return float(
            self.release.divergence(mpmath.mpf(self.order.numerator) / self.order.denominator)
        )


def likeliest(ledger, loss):
    """Return the two-point release just above a loss with as much mass as the account takes on."""
    statement = ledger.statement()
    order = mpmath.mpf(statement.renyi.order.numerator) / statement.renyi.order.denominator
    limit = mpmath.mpf(statement.limit.numerator) / statement.limit.denominator
    ratio = mpmath.exp(loss) * (1 + mpmath.mpf(10) ** -12)
    low, high = mpmath.mpf(0), 1 / ratio
    for _ in range(120):
        middle = (low + high) / 2
        fits = (
            middle * ratio < 1
            and TwoPoint(ratio, middle).divergence(order) <= limit - mpmath.mpf(10) ** -12
        )
        low, high = (middle, high) if fits else (low, middle)
    return TwoPoint(ratio, low)


# ---- accounts that add up divergences -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta"), ACCOUNTS)
def test_a_gaussian_count_that_spends_all_keeps_the_sentence(tmp_path, epsilon, delta):
    ledger = open_account(tmp_path, epsilon, delta)
    said, rho = say(ledger), ledger.statement().limit / ledger.statement().renyi.order
    ledger.reserve(cost.ZCDP(rho=rho), label="count")
    assert not breaks(said, gaussian_count(rho))


def test_what_was_said_before_is_convicted_by_a_count(tmp_path):
    """The loss of one count exceeds the epsilon of the account nearly three times as often as delta says."""
    ledger = open_account(tmp_path, 1, 1e-6)
    law = gaussian_count(ledger.statement().limit / ledger.statement().renyi.order)
    assert 2.85e-6 < chance_of_more(law, 1) < 2.95e-6
    assert breaks(old(1, 1e-6), law)


@pytest.mark.parametrize(
    ("epsilon", "delta", "times"),
    [(1, 1e-6, 58.4), (3, 1e-6, 22.9), (8, 1e-6, 10.6), (1, 1e-9, 93)],
)
def test_the_likeliest_release_just_above_epsilon(tmp_path, epsilon, delta, times):
    """It is taken on, convicts the sentence that there was, and keeps the one that there is."""
    ledger = open_account(tmp_path, epsilon, delta)
    said, release = say(ledger), likeliest(ledger, epsilon)
    more = chance_of_more(release.law(), epsilon)
    assert abs(more / delta - times) < 0.01 * times
    assert not breaks(said, release.law())
    # What a sentence says is rounded up to two digits: a release just above that.
    before = old(epsilon, delta)
    assert breaks(before, likeliest(ledger, read(before)[0]).law())
    ledger.reserve(OneOrder(release, ledger.statement().renyi.order), label="adversary")


@pytest.mark.parametrize(("epsilon", "delta"), ACCOUNTS)
def test_no_release_at_any_loss_breaks_the_sentence_and_some_reach_it(tmp_path, epsilon, delta):
    ledger = open_account(tmp_path, epsilon, delta)
    bound = bound_account(
        Fraction(repr(epsilon)), Fraction(repr(delta)), order=ledger.statement().renyi.order
    )
    loss, said = mpmath.mpf(bound.loss.numerator) / bound.loss.denominator, say(ledger)
    for more in (0, 0.01, 0.05, 0.2, 0.5, 1, 2):
        law = likeliest(ledger, loss + more).law()
        assert chance_of_more(law, loss) <= delta
        assert not breaks(said, law)
    # A little below what is said the bound is passed: nothing is given away.
    assert chance_of_more(likeliest(ledger, loss - 0.01).law(), loss - 0.01) > delta


def test_an_epsilon_within_the_account_never_loses_more(tmp_path):
    """The other sum: a pure release of the whole epsilon, whose divergence is far above the limit."""
    ledger = open_account(tmp_path, 1, 1e-6)
    said = say(ledger)
    ledger.reserve(cost.Pure(epsilon=1), label="count")
    likely = 1 / (1 + mpmath.exp(-1))
    assert (
        chance_of_more([(likely, mpmath.mpf(1)), (1 - likely, mpmath.mpf(-1))], read(said)[0]) == 0
    )


# ---- accounts that keep a part of delta for releases that may fail --------------------------------------------------------


@pytest.mark.parametrize("meter", ["renyi", "zcdp"])
@pytest.mark.parametrize("more", [0.01, 0.2, 0.6, 0.7, 1, 3])
@pytest.mark.each_value
def test_a_release_that_fails_beside_a_count_keeps_the_sentence(tmp_path, meter, more):
    ledger = open_account(tmp_path, 3, 1e-5, failures=5e-6, meter=meter)
    said, statement = say(ledger), ledger.statement()
    own = cost.Approximate(epsilon=0.1, delta=5e-6)
    ledger.reserve(own, label="labels")
    left = ledger.statement().remaining / (statement.renyi.order if statement.renyi else 1)
    rho = Fraction(math.floor(left * 10**9), 10**9)
    ledger.reserve(cost.ZCDP(rho=rho), label="count")
    law = both(failing(0.1, 5e-6, more), gaussian_count(rho))
    assert not breaks(said, law)


def test_a_delta_that_is_only_added_is_convicted():
    """Broken twin: the loss of what may not fail, but for a chance of delta, as if every failure were seen as one."""
    assert chance_of_more(failing(1, 1e-6, 0.1938), 1.193) > 5e-6
    twin = say_odds(Fraction(1), bound=Bound(Fraction("1.1938"), Fraction(1, 10**6)))
    assert breaks(twin, failing(1, 1e-6, read(twin)[0] - 1 + 1e-9))
    said = say_odds_of(cost.Approximate(epsilon=1, delta=1e-6))
    for more in (0.01, 0.1938, 0.5, 0.69, 0.7, 0.71, 2, 10):
        assert not breaks(said, failing(1, 1e-6, more)), more


@pytest.mark.parametrize(("rho", "delta"), [(0.01, 1e-6), (0.5, 1e-6), (0.05, 1e-3)])
def test_a_rho_that_may_fail_keeps_its_sentence(rho, delta):
    said = say_odds_of(cost.ApproximateZCDP(rho=rho, delta=delta))
    for more in (0.1, 0.5, 0.7, 1.5):
        assert not breaks(
            said, both(failing(0, delta, more), gaussian_count(Fraction(repr(rho))))
        ), more


def test_an_account_that_keeps_deltas_says_so(tmp_path):
    kept = read(say(open_account(tmp_path, 3, 1e-5, failures=5e-6)))
    assert kept[1] >= 1.5e-5
    assert kept[0] > 3.7


# ---- accounts of rhos, shares, and what strangers write -------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta"), ACCOUNTS)
def test_a_count_that_spends_all_rhos_keeps_the_sentence(tmp_path, epsilon, delta):
    ledger = open_account(tmp_path, epsilon, delta, meter="zcdp")
    law = gaussian_count(ledger.statement().limit)
    assert not breaks(say(ledger), law)
    if (epsilon, delta) == (1, 1e-6):
        assert breaks(old(1, 1e-6), law)


@pytest.mark.parametrize("meter", ["renyi", "zcdp"])
def test_a_share_says_no_more_than_the_whole(tmp_path, meter):
    ledger = open_account(tmp_path, 3, 1e-5, failures=5e-6, meter=meter)
    limit = ledger.statement().limit / 2
    share = ledger.grant("team", limit, failures=Fraction(1, 10**6))
    loss, chance = read(say(share))
    rho = Fraction(math.floor(limit * 10**9), 10**9) / (
        share.statement().renyi.order if meter == "renyi" else 1
    )
    law = both(failing(0, 1e-6, 0.5), gaussian_count(rho))
    assert chance_of_more(law, loss) <= chance


def test_a_pure_account_says_what_it_said(tmp_path):
    ledger = open_account(tmp_path, 3, 0)
    assert say(ledger) == say_odds(Fraction(3))


@pytest.mark.parametrize(
    "changes",
    [
        {"renyi": None},
        {"renyi": {"order": 1.0}},
        {"renyi": {"order": "x"}},
        {"renyi": {"exact": {"order": "1/2"}}},
        {"meter": "else"},
        {"meter": "zcdp", "limit": 1e300},
        {},
    ],
)
def test_an_account_of_no_known_kind_says_what_every_delta_means(changes):
    """Whoever wrote it: nothing but that it is (epsilon, delta)-private."""
    said = say_promise({"epsilon": 1.0, "delta": 1e-6, "meter": "renyi"} | changes)
    for more in (0.1, 0.5, 0.7, 2):
        assert not breaks(said, failing(1, 1e-6, more))


@pytest.mark.parametrize(
    "changes",
    [{"delta": 2}, {"delta": "x"}, {"renyi": {"failures_limit": 1e-6}}, {"epsilon": None}],
)
def test_an_account_that_is_none_says_nothing(changes):
    assert say_promise({"epsilon": 1.0, "delta": 1e-6, "meter": "renyi"} | changes) == ""
