"""What an epsilon means for one person.

How sure somebody may become who suspected something before.

A reader thinks with probability p that something is true of somebody, and sees a release. By the
rule of Bayes the odds p / (1 - p) are multiplied by how many times likelier the release is if it is
true; the logarithm of that factor is the loss. So what was p is at most p e^x / (1 - p + p e^x)
afterwards, if the loss is at most x, whatever the reader knows of all others. Randomized response
on one bit attains it.

Claim: a pure epsilon bounds the loss always. Beside a delta no epsilon does, and the loss exceeds
it more often than with probability delta: `Bound` says what it exceeds how seldom. Proof:
docs/proofs/renyi-accounts.md, "What a reader may learn".
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from sordino.cost.conversion import digits
from sordino.cost.rdp import ZCDP

# More than the sentence shows by far: what is rounded up along the way is not seen.
_PRECISION = 60
# Beyond this no prior above 1e-400 leaves a doubt that a sentence could show, and the bound is 1.
_LARGEST_EPSILON = 1000
# Digits behind the point of what is shown: one doubt in a million million is none.
_MOST_PLACES = 10
_SHOWN_DIGITS = 4
# By how much a loss is allowed to exceed the epsilon of a conversion.
_SLACKS = tuple(Fraction(1, 2**power) for power in range(1, 9))
# A release with a delta of its own loses more than so much beside its epsilon with a probability of
# at most twice that delta: 1 - e^-0.7 is above a half.
_FAILING_SLACK = Fraction(7, 10)
# How rare a failure is that is passed over where nobody says it.
_RARE = Fraction(1, 10**6)
# One in so many is written with all its digits up to here.
_MOST_WRITTEN = 10**15


class Bound(NamedTuple):
    """A loss, and the largest probability with which it is exceeded: 0 if it never is."""

    loss: Fraction
    chance: Fraction = Fraction(0)

    def may_fail(self, failing: Fraction) -> Bound:
        """Return what holds if releases may fail, with deltas that add up to so much."""
        if not failing:
            return self
        return Bound(self.loss + _FAILING_SLACK, min(Fraction(1), self.chance + 2 * failing))


def bound_posterior(epsilon: Fraction, prior: Fraction) -> Fraction:
    """Return how likely something may seem afterwards to a reader who gave it probability `prior`.

    Parameters
    ----------
    epsilon : Fraction
        Above 0.
    prior : Fraction
        In (0, 1).

    Returns
    -------
    Fraction
        p e^epsilon / (1 - p + p e^epsilon), rounded up beyond its 40th digit.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from sordino.cost.odds import bound_posterior
    >>> round(float(bound_posterior(Fraction(10), Fraction(1, 1000))), 4)
    0.9566
    """
    if epsilon > _LARGEST_EPSILON:
        return Fraction(1)
    # Rounded up at each step: the bound grows with the factor, and the factor with epsilon. `exp`
    # rounds to the nearest whatever the context says, so the next decimal is above the true value.
    context = _make_context(_PRECISION)
    factor = Fraction(context.next_plus(context.exp(_round_up(epsilon, _PRECISION))))
    return min(prior * factor / (1 - prior + prior * factor), Fraction(1))


def say_odds(epsilon: Fraction, one_in: int = 1000, *, bound: Bound | None = None) -> str:
    """Return one sentence about what a reader may learn of somebody.

    It never says less than is true.

    Parameters
    ----------
    epsilon : Fraction
        Above 0: of one release, or of a whole account.
    one_in : int
        At least 2: the reader took it for true with a probability of one in so many.
    bound : Bound, optional
        What bounds the loss, where that is not epsilon alone.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from sordino.cost.odds import say_odds
    >>> print(say_odds(Fraction("0.3")).partition(" could ")[2])
    come to think at most 1.4 in 1,000.
    >>> print(say_odds(Fraction(20)).partition(" could ")[2])
    come to think at most 999.998 in 1,000.
    """
    loss, chance = bound or Bound(epsilon)
    sure = one_in * bound_posterior(loss, Fraction(1, one_in))
    rare = f", but for a chance of {_say_one_in(chance)}" if chance else ""
    shown = _write_shown(epsilon)
    return (
        f"At epsilon {shown}, someone who thought a fact about somebody had a 1-in-{one_in:,} "
        f"chance could come to think at most {_round_share_up(sure, one_in)} in {one_in:,}{rare}."
    )


def say_odds_of(cost: Any, delta: Fraction | None = None, one_in: int = 1000) -> str:
    """Return the sentence of `say_odds` about a cost.

    What has no pure epsilon has it but for a chance.

    Parameters
    ----------
    cost : Cost
        Of a release, a study or an account.
    delta : Fraction, optional
        How rare; a millionth unless said. What has a pure epsilon fails only where it says so
        itself.
    one_in : int
        As for `say_odds`.

    Examples
    --------
    >>> from sordino.cost import ZCDP, Pure
    >>> from sordino.cost.odds import say_odds, say_odds_of
    >>> say_odds_of(Pure(epsilon=1)) == say_odds(Fraction(1))
    True
    >>> print(say_odds_of(ZCDP(rho=0.01)).partition(" could ")[2])
    come to think at most 2.2 in 1,000, but for a chance of 1 in 1,000,000.
    """
    bound, failing = _bound_cost(cost, delta)
    if bound is None:
        return "Nothing is known of what a reader may learn: this cost has no epsilon."
    if not bound.loss and not failing:
        return "Nothing is spent, so a reader learns nothing of anybody."
    return say_odds(bound.loss, one_in, bound=bound.may_fail(failing))


def write_guarantee(cost: Any, delta: Fraction | None = None) -> str | None:
    """Return the epsilon of the sentence of `say_odds_of`, and the delta that it has with it.

    Neither is less than is true. None where a cost has no epsilon.

    A loss that exceeds epsilon with a probability of at most delta is (epsilon, delta)-privacy, and
    what fails with a probability of its own adds that.

    Parameters
    ----------
    cost, delta
        As for `say_odds_of`.

    Examples
    --------
    >>> from sordino.cost import ZCDP, Pure
    >>> from sordino.cost.odds import write_guarantee
    >>> print(write_guarantee(Pure(epsilon=1)))
    epsilon 1
    >>> print(write_guarantee(ZCDP(rho=0.01)))
    epsilon 0.766 and delta 1e-06
    """
    bound, failing = _bound_cost(cost, delta)
    if bound is None:
        return None
    epsilon, delta = f"epsilon {_write_shown(bound.loss)}", bound.chance + failing
    return f"{epsilon} and delta {_write_shown(delta)}" if delta else epsilon


def _bound_cost(cost: Any, delta: Fraction | None) -> tuple[Bound | None, Fraction]:
    """Return what bounds the loss of a cost that does not fail, if anything, and its failure."""
    split = getattr(cost, "split_failure", None)
    failing, firm = (Fraction(0), cost) if split is None else split()
    pure, chance = firm.pure(), Fraction(0)
    if pure == math.inf:
        chance = delta or _RARE
        pure = bound_loss(firm, chance)
    return (None if pure == math.inf else Bound(Fraction(pure), chance)), failing


def bound_account(
    epsilon: Fraction,
    delta: Fraction,
    *,
    order: Fraction | None = None,
    rho: Fraction | None = None,
    failing: Fraction = Fraction(0),
) -> Bound:
    """Return what all releases of an account may lose together, at any time of its life.

    Parameters
    ----------
    epsilon, delta : Fraction
        Its guarantee; for a share of an account that of the whole.
    order : Fraction, optional
        Of an account that adds up divergences, beside epsilons.
    rho : Fraction, optional
        What the rhos may add up to, of an account of rhos.
    failing : Fraction
        The part of delta that is kept for releases that may fail.

    Returns
    -------
    Bound
        Of an account whose kind is not said, what every (epsilon, delta) has.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from sordino.cost.odds import bound_account
    >>> bound = bound_account(Fraction(1), Fraction(1, 10**6), order=Fraction("21.9845"))
    >>> round(float(bound.loss), 4), float(bound.chance)
    (1.1938, 1e-06)
    """
    if not delta:
        return Bound(epsilon)
    chance = delta - failing
    if order is not None:
        return Bound(epsilon + _bound_excess(order), chance).may_fail(failing)
    if rho is not None:
        loss = bound_loss(ZCDP(rho=rho), chance)
        if loss != math.inf:
            return Bound(loss, chance).may_fail(failing)
    return Bound(epsilon).may_fail(delta)


def _bound_excess(order: Fraction) -> Fraction:
    """Return by how much a loss exceeds epsilon with a probability of delta.

    It is ln(a/(a-1)) + ln(a)/(a-1).
    """
    context = _make_context(_PRECISION)

    def log(number: Fraction) -> Decimal:
        # `ln` rounds to the nearest whatever the context says, so the next decimal is above the
        # true value.
        return context.next_plus(context.ln(_round_up(number, _PRECISION)))

    above = order - 1
    return Fraction(log(order / above)) + Fraction(log(order)) / above


def bound_loss(cost: Any, rare: Fraction) -> Any:
    """Return an epsilon that the loss of a release exceeds with a probability of at most `rare`.

    It is inf if there is none.

    The epsilon of (epsilon, delta)-privacy at delta = rare is too small for that: of a larger loss
    it counts the excess alone. Let S be the releases whose loss exceeds epsilon + t. By their loss
    Q(S) <= e^-(epsilon + t) P(S), and by privacy P(S) <= e^epsilon Q(S) + delta. So
    P(S) (1 - e^-t) <= delta, and P(S) is at most `rare` if delta = rare (1 - e^-t).

    Parameters
    ----------
    cost : Cost
        Of a release.
    rare : Fraction
        In (0, 1).
    """
    # Each t holds. Small ones are better where epsilon grows slowly as delta shrinks.
    return min(_bound_loss_with(cost, rare, slack) for slack in _SLACKS)


def _bound_loss_with(cost: Any, rare: Fraction, slack: Fraction) -> Any:
    # 1 - e^-t is at least t - t^2 / 2.
    epsilon = cost.epsilon(float(rare * (slack - slack**2 / 2)))
    return epsilon if epsilon == math.inf else Fraction(epsilon) + slack


def _make_context(precision: int) -> Context:
    # Decimals of any size, whatever the context of the caller's thread is.
    return Context(prec=precision, rounding=ROUND_CEILING, Emax=MAX_EMAX, Emin=MIN_EMIN)


def _round_up(number: Fraction, precision: int) -> Decimal:
    return _make_context(precision).divide(Decimal(number.numerator), Decimal(number.denominator))


def _write_shown(number: Fraction) -> str:
    """Return a number with the digits that are shown: none beyond a limit is shown as the limit."""
    return digits(Fraction(_round_up(number, _SHOWN_DIGITS)), _SHOWN_DIGITS)


def _say_one_in(chance: Fraction) -> str:
    """Return a probability as one in so many, of two digits, rounded up."""
    many = math.floor(1 / chance)
    if many > _MOST_WRITTEN:
        # Enough for what nobody meets.
        return f"1 in 1e{len(str(many)) - 1}"
    scale = 10 ** max(0, len(str(many)) - 2)
    return f"1 in {many // scale * scale:,}"


def _round_share_up(share: Fraction, whole: int) -> str:
    """Return so many of a whole with two digits of them or of what is left, rounded up."""
    told = min(share, whole - share)
    places = 1
    # Two digits are there once the first one stands before the last place.
    while places < _MOST_PLACES and told * 10**places < 10:
        places += 1
    whole, rest = divmod(math.ceil(share * 10**places), 10**places)
    return f"{whole:,}.{rest:0{places}d}".rstrip("0").rstrip(".")
