"""What an epsilon means for one person: how sure somebody may become who suspected something before.

A reader takes it for likely with probability p that something is true of somebody, and sees a release. By the
rule of Bayes the odds p / (1 - p) are multiplied by how many times likelier the release is if it is true.
Privacy with epsilon bounds that factor by e^epsilon, whatever the reader knows of all others. So what was p
is at most p e^epsilon / (1 - p + p e^epsilon) afterwards. Randomized response on one bit attains it.
"""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

from sordino.cost.conversion import digits

# More than the sentence shows by far: what is rounded up along the way is not seen.
_PRECISION = 60
# Beyond this no prior above 1e-400 leaves a doubt that a sentence could show, and the bound is 1.
_LARGEST_EPSILON = 1000
# Digits behind the point of a percentage: one doubt in a million million is none.
_MOST_PLACES = 10
_SHOWN_DIGITS = 12
# By how much a loss is allowed to exceed the epsilon of a conversion.
_SLACKS = tuple(Fraction(1, 2**power) for power in range(1, 9))
# How rare a failure is that is passed over where nobody says it.
_RARE = Fraction(1, 10**6)


def bound_posterior(epsilon: Fraction, prior: Fraction) -> Fraction:
    """Return how likely a reader may take afterwards what they took for likely with probability `prior`.

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
    # Rounded up at each step: the bound grows with the factor, and the factor with epsilon.
    # `exp` rounds to the nearest whatever the context says, so the next decimal is above the true value.
    context = _make_context(_PRECISION)
    factor = Fraction(context.next_plus(context.exp(_round_up(epsilon, _PRECISION))))
    return min(prior * factor / (1 - prior + prior * factor), Fraction(1))


def say_odds(epsilon: Fraction, one_in: int = 1000, *, failing: Fraction | float = 0) -> str:
    """Return one sentence about what a reader may learn of somebody; it never says less than is true.

    Parameters
    ----------
    epsilon : Fraction
        Above 0: of one release, or of a whole account.
    one_in : int
        At least 2: the reader took it for true with a probability of one in so many.
    failing : Fraction or float
        With which probability it does not hold.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from sordino.cost.odds import say_odds
    >>> print(say_odds(Fraction(1)).partition(" may ")[2])
    become certain of it to 0.28 %.
    >>> print(say_odds(Fraction(20)).partition(" may ")[2])
    become certain of it to 99.9998 %.
    """
    sure = 100 * bound_posterior(epsilon, Fraction(1, one_in))
    # Rounded up, too: an epsilon beyond a limit is not shown as the limit.
    shown = digits(Fraction(_round_up(epsilon, _SHOWN_DIGITS)), _SHOWN_DIGITS)
    rare = f", but for a failure with a probability of {float(failing):.3g}" if failing else ""
    return (
        f"At epsilon = {shown} a reader who suspects something of somebody with odds of 1 in "
        f"{one_in:,} may become certain of it to {_round_percent_up(sure)} %{rare}."
    )


def say_odds_of(cost: Any, delta: Fraction | None = None, one_in: int = 1000) -> str:
    """Return the sentence of `say_odds` about a cost; where it has no pure epsilon, but for a rare failure.

    Two kinds of failure are told alike. A cost that states a delta of its own, such as that of labels that
    nobody listed, can be made, for two neighbors, from a randomized response to which of them it is, of its
    epsilon, that fails with probability delta [kairouz2015]: the odds are those of it. A cost without a pure
    epsilon has no such event; the odds are those that all releases keep but a share delta of them.

    Parameters
    ----------
    cost : Cost
        Of a release, a study or an account.
    delta : Fraction, optional
        How rare; a millionth unless said. What has a pure epsilon fails only where it says so itself.
    one_in : int
        As for `say_odds`.

    Examples
    --------
    >>> from sordino.cost import ZCDP, Pure
    >>> from sordino.cost.odds import say_odds, say_odds_of
    >>> say_odds_of(Pure(epsilon=1)) == say_odds(Fraction(1))
    True
    >>> print(say_odds_of(ZCDP(rho=0.01)).partition(" may ")[2])
    become certain of it to 0.22 %, but for a failure with a probability of 1e-06.
    """
    split = getattr(cost, "split_failure", None)
    failing, firm = (Fraction(0), cost) if split is None else split()
    pure = firm.pure()
    if pure == math.inf:
        rare = delta or _RARE
        failing, pure = failing + rare, bound_loss(firm, rare)
        if pure == math.inf:
            return "Nothing is known of what a reader may learn: this cost has no epsilon."
    if not pure:
        return "Nothing is spent, so a reader learns nothing of anybody."
    return say_odds(Fraction(pure), one_in, failing=failing)


def bound_loss(cost: Any, rare: Fraction) -> Any:
    """Return an epsilon that the loss of a release exceeds with a probability of at most `rare`; inf if none.

    The epsilon of (epsilon, delta)-privacy at delta = rare is too small for that: of a larger loss it counts
    the excess alone. Let S be the releases whose loss exceeds epsilon + t. By their loss
    Q(S) <= e^-(epsilon + t) P(S), and by privacy P(S) <= e^epsilon Q(S) + delta. So P(S) (1 - e^-t) <= delta,
    and P(S) is at most `rare` if delta = rare (1 - e^-t).

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


def _round_percent_up(percent: Fraction) -> str:
    """Return a percentage with two digits of itself or of what is left to 100, rounded up."""
    told = min(percent, 100 - percent)
    places = 1
    # Two digits are there once the first one stands before the last place.
    while places < _MOST_PLACES and told * 10**places < 10:
        places += 1
    whole, rest = divmod(math.ceil(percent * 10**places), 10**places)
    return f"{whole}.{rest:0{places}d}".rstrip("0").rstrip(".")
