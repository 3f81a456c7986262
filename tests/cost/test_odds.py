"""The sentence about an epsilon: never less than what is true, and hardly more."""

from __future__ import annotations

import re
from fractions import Fraction

import mpmath
import pytest

from sordino import cost
from sordino.cost import odds
from sordino.cost.odds import say_odds, say_odds_of

SENTENCE = re.compile(
    r"At epsilon (\S+), someone who thought a fact about somebody had a 1-in-([0-9,]+) chance could come to think at "
    r"most ([0-9.,]+) in \2(?:, but for a chance of 1 in ([0-9,e]+))?\."
)
EPSILONS = [
    *(
        "0.001",
        "0.1",
        "1",
        "2",
        "3",
        "6.9",
        "10",
        "10.000001",
        "11",
        "12.5",
        "15",
        "20",
        "25",
        "27.3",
        "30",
    ),
    *("35", "40", "50", "100", "1000", "123456", "1e40"),
]
PRIORS = (2, 10, 1000, 10**6, 10**9)


def exact_posterior(epsilon, one_in):
    """The formula itself, with more digits than anything here needs."""
    with mpmath.workdps(120):
        p = mpmath.mpf(1) / one_in
        # Divided by e^epsilon, so that no epsilon is too large.
        fade = mpmath.exp(-mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        return p / ((1 - p) * fade + p)


def shown(sentence):
    """Return how many in so many a sentence says, and how many digits it has behind the point."""
    most = SENTENCE.fullmatch(sentence)[3].replace(",", "")
    return Fraction(most), len(most.partition(".")[2])


def understated(say):
    """Return what a way to say it understates."""
    found = []
    for epsilon in map(Fraction, EPSILONS):
        for one_in in PRIORS:
            most, _ = shown(say(epsilon, one_in))
            with mpmath.workdps(120):
                if mpmath.mpf(most.numerator) / most.denominator < one_in * exact_posterior(
                    epsilon, one_in
                ):
                    found.append((epsilon, one_in))
    return found


def test_the_sentence_never_understates():
    assert not understated(odds.say_odds)


def test_rounding_down_is_convicted(monkeypatch):
    """Broken twins: numbers that are rounded down, or to the nearest."""
    ceil = odds.math.ceil
    for twin in (lambda x: ceil(x) - 1 if x != int(x) else int(x), round):
        monkeypatch.setattr(odds.math, "ceil", twin)
        assert understated(odds.say_odds)
        monkeypatch.undo()


def test_the_odds_of_a_prior_that_is_left_out_are_convicted():
    """Broken twin: the prior odds alone grow, as if 1 - p were 1."""

    def twin(epsilon, one_in):
        # p e^eps / (1 + p e^eps): the reader's doubt is a little too large.
        odds_of = Fraction(1, one_in - 1)
        smaller = Fraction(1, one_in)
        true = odds.say_odds(epsilon, one_in)
        most = float(smaller / odds_of) * float(shown(true)[0])
        return SENTENCE.sub(lambda m: m[0].replace(f"most {m[3]} in", f"most {most:.10f} in"), true)

    assert understated(twin)


@pytest.mark.parametrize("one_in", PRIORS)
def test_the_bound_is_the_formula(one_in):
    for epsilon in map(Fraction, EPSILONS):
        with mpmath.workdps(120):
            bound, true = (
                odds.bound_posterior(epsilon, Fraction(1, one_in)),
                exact_posterior(epsilon, one_in),
            )
            value = mpmath.mpf(bound.numerator) / bound.denominator
            assert true <= value <= true * (1 + mpmath.mpf(10) ** -40)


def test_hardly_more_is_said_than_is_true():
    """Two digits of what is certain, or of the doubt that is left, whichever is smaller; ten behind the point at most."""
    for epsilon in map(Fraction, EPSILONS):
        most, places = shown(odds.say_odds(epsilon, 1000))
        true = 1000 * float(exact_posterior(epsilon, 1000))
        assert places <= 10
        assert float(most) - true <= max(0.1 * min(true, 1000 - true), 1e-10) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("epsilon", "most"),
    [
        *(
            ("0.3", "1.4"),
            ("1", "2.8"),
            ("10", "956.7"),
            ("11", "983.6"),
            ("20", "999.998"),
            ("100", "1,000"),
        ),
        ("1e90", "1,000"),
    ],
)
def test_what_is_said(epsilon, most):
    assert odds.say_odds(Fraction(epsilon)).endswith(
        f", someone who thought a fact about somebody had a 1-in-1,000 chance could come to think at most {most} in 1,000."
    )


@pytest.mark.parametrize(
    ("chance", "shown"),
    [
        ("1e-6", "1 in 1,000,000"),
        ("1.5e-5", "1 in 66,000"),
        ("0.9", "1 in 1"),
        ("1/3", "1 in 3"),
        ("1e-20", "1 in 1e20"),
    ],
)
def test_a_chance_is_said_as_one_in_so_many_and_never_less(chance, shown):
    said = odds.say_odds(Fraction(1), bound=odds.Bound(Fraction(1), Fraction(chance)))
    assert said.endswith(f" in 1,000, but for a chance of {shown}.")


def test_an_epsilon_beyond_a_limit_is_not_shown_as_the_limit():
    assert odds.say_odds(Fraction("10.000000000001")).startswith("At epsilon 10.01, ")
    assert odds.say_odds(Fraction(100)).startswith("At epsilon 100, ")


def test_the_bound_is_attained():
    """Randomized response on one bit: the reader who sees the answer that is likelier learns as much."""
    epsilon, p = 3, mpmath.mpf(1) / 1000
    true, false = mpmath.e**epsilon / (1 + mpmath.e**epsilon), 1 / (1 + mpmath.e**epsilon)
    learned = p * true / (p * true + (1 - p) * false)
    assert abs(learned - exact_posterior(Fraction(epsilon), 1000)) < 1e-12


def test_a_cost_says_the_odds_of_its_epsilon():
    assert say_odds_of(cost.Pure(epsilon=2)) == say_odds(Fraction(2))
    both = cost.compose(cost.Pure(epsilon=1), cost.Pure(epsilon=Fraction(1, 2)))
    assert say_odds_of(both) == say_odds(Fraction(3, 2))


def test_a_cost_without_an_epsilon_says_them_but_for_a_chance():
    rho = cost.ZCDP(rho=0.05)
    for delta, many in ((None, "1,000,000"), (Fraction(1, 1000), "1,000")):
        said = say_odds_of(rho, delta)
        assert said.endswith(f", but for a chance of 1 in {many}.")
        at = said_epsilon(said)
        least = Fraction(rho.epsilon(float(delta or Fraction(1, 10**6))))
        assert least < at < least * Fraction(3, 2)


def test_a_delta_of_its_own_is_no_chance_of_more_than_epsilon():
    """A loss above epsilon is as rare as twice delta only beyond twice the factor."""
    said = say_odds_of(cost.Approximate(epsilon=1, delta=1e-7))
    assert said == say_odds(Fraction(1), bound=odds.Bound(Fraction("1.7"), Fraction(2, 10**7)))
    assert said.endswith("at most 5.5 in 1,000, but for a chance of 1 in 5,000,000.")
    free = say_odds_of(cost.Approximate(epsilon=0, delta=1e-7))
    assert free.startswith("At epsilon 0, ")
    assert free.endswith("at most 2.1 in 1,000, but for a chance of 1 in 5,000,000.")


def said_epsilon(sentence):
    return Fraction(SENTENCE.fullmatch(sentence)[1])


def chance_of_more(rho, epsilon):
    """How likely a release with Gaussian noise, which attains rho, multiplies the odds by more than e^epsilon: its loss is normal."""
    with mpmath.workdps(40):
        far = (mpmath.mpf(epsilon.numerator) / epsilon.denominator - rho) / mpmath.sqrt(
            2 * mpmath.mpf(rho)
        )
        return mpmath.erfc(far / mpmath.sqrt(2)) / 2


@pytest.mark.parametrize("rho", [1e-6, 0.001, 0.01, 0.05, 0.5, 4.0, 50.0])
@pytest.mark.parametrize("delta", [0.01, 1e-6, 1e-12])
@pytest.mark.each_value
def test_who_learns_more_than_is_said_is_as_rare_as_is_said(rho, delta):
    """The epsilon of a conversion does not do that: more than delta of all releases have a larger loss, if their excess is small."""
    said = say_odds_of(cost.ZCDP(rho=rho), Fraction(repr(delta)))
    assert chance_of_more(rho, said_epsilon(said)) <= delta


def test_the_epsilon_of_the_conversion_is_convicted():
    """Broken twin: the epsilon that goes with delta, as if it bounded the loss of all releases but delta of them."""
    assert chance_of_more(0.01, Fraction(cost.ZCDP(rho=0.01).epsilon(1e-6))) > 3e-6


def test_nothing_spent_teaches_nothing():
    assert "a reader learns nothing" in say_odds_of(cost.Pure(epsilon=0))
