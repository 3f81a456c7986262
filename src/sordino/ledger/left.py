"""What an account has left, as people read it: in percent, and in releases like one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from sordino.cost import Approximate, Pure
from sordino.cost.conversion import write_percent
from sordino.ledger.amounts import exact_amounts
from sordino.ledger.history import Account
from sordino.ledger.renyi import ATTO, NOTHING, Limits, Sums

_MANY = 1_000_000
"""More releases than that are not counted for a reader."""
_EACH = Fraction(1, 20)
"""The epsilon of a release by which an account is told; a tenth of what it has, if that is less."""


@final
@dataclass(frozen=True, kw_only=True)
class Left:
    """What an account has left, as people read it: in percent, and in releases like one.

    All of it is public: what an account may spend and has spent, and what one release costs at
    most. As many more fit as its own rule takes, one after the other.

    Attributes
    ----------
    spent : Fraction
        The share of the budget that is spent, from 0 to 1. Deltas of releases are not in it.
    needed : Fraction
        The share that one more release adds.
    more : int or None
        How many more like that one fit; None if there is no end.

    Examples
    --------
    >>> import tempfile
    >>> import sordino as sd
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = sd.Ledger.create(folder.name + "/budget.db", account="orders",
    ...                           budget=sd.Budget(epsilon=2.0), adjacency="add-remove",
    ...                           unit="customer_id", source="name:orders")
    >>> with ledger.reserve(sd.cost.Pure(epsilon=0.3)) as charge:
    ...     slot = charge.draw(sd.cost.Pure(epsilon=0.3))
    >>> left = ledger.find_left(charge.id)
    >>> left.say_spent(), left.say_more()
    ('15%', 'About 5 more like this one.')
    >>> folder.cleanup()
    """

    spent: Fraction
    needed: Fraction
    more: int | None

    @property
    def share(self) -> Fraction:
        """The share of the budget that is left."""
        return 1 - self.spent

    def say_spent(self) -> str:
        """Return what is spent, in percent."""
        return write_spent(self.spent)

    def say_more(self, like: str = "like this one") -> str:
        """Return how many more fit, as a sentence."""
        return say_more(self.more, like)


@final
@dataclass(frozen=True, kw_only=True)
class Examples:
    """What an account is good for: how many releases of one size still fit.

    Attributes
    ----------
    epsilon : Fraction
        Of each of them: 0.05, or a tenth of the budget where that is less.
    releases : int or None
        How many fit; None if there is no end.
    delta : Fraction or None
        What a release with labels that nobody listed may spend of a delta, for example; None where
        the account keeps nothing for such releases (`failures`).
    unlisted : int or None
        How many of them may be such releases; None where the account has no delta at all.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from sordino.ledger import Examples
    >>> Examples(epsilon=Fraction(1, 20), releases=40, delta=Fraction(1, 10**7), unlisted=5).say()
    'about 40 releases at 0.05, 5 of them with labels that nobody listed (--delta 1e-07)'
    """

    epsilon: Fraction
    releases: int | None
    delta: Fraction | None
    unlisted: int | None

    def say(self) -> str:
        """Return it in words, as a part of a sentence."""
        at = f"at {float(self.epsilon):g}"
        if self.releases == 0:
            return f"no release {at}"
        many = _say_many(self.releases).lower()
        said = f"{many} release{'' if self.releases == 1 else 's'} {at}"
        if self.unlisted is None:
            return said
        how = "failures" if self.delta is None else f"--delta {float(self.delta):g}"
        return f"{said}, {self.unlisted or 'none'} of them with labels that nobody listed ({how})"

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready values."""
        return {
            "epsilon": float(self.epsilon),
            "releases": self.releases,
            "delta": None if self.delta is None else float(self.delta),
            "unlisted": self.unlisted,
        }


def find_examples(account: Account) -> Examples:
    """Return how many releases of one size an account still takes on, by its own rule."""
    limits, spent, meter = account.limits, account.sums, account.meter_at_order
    epsilon = min(_EACH, Fraction(account.epsilon) / 10)

    def count(cost: Any) -> int | None:
        asked = exact_amounts(cost, meter).rounded_up()
        return 0 if account.successor else limits.count_more(spent, asked)

    releases = count(Pure(epsilon=epsilon))
    if not limits.failing:
        none = None if account.delta == "0" else 0
        return Examples(epsilon=epsilon, releases=releases, delta=None, unlisted=none)
    # The largest power of ten that fits into all of it.
    whole = Fraction(limits.failing, ATTO)
    delta = Fraction(1, 10 ** (len(str(math.ceil(1 / whole) - 1))))
    unlisted = count(Approximate(epsilon=epsilon, delta=delta))
    return Examples(epsilon=epsilon, releases=releases, delta=delta, unlisted=unlisted)


def say_more(count: int | None, like: str = "like this one") -> str:
    """Return how many more releases fit, as a sentence; None is any number of them."""
    return f"No more {like} fits." if count == 0 else f"{_say_many(count)} more {like}."


def _say_many(count: int | None) -> str:
    if count is None:
        return "Any number of"
    return f"More than {_MANY:,}" if count > _MANY else f"About {count:,}"


def find_share(limits: Limits, spent: Sums) -> Fraction:
    """Return which share of the budget is spent; above 1 that is more than there was.

    Of two sums of which one is enough it is the smaller share, of sums that both count the larger
    one. Deltas of releases have a budget of their own.
    """
    # A sum that may hold nothing is no way to spend anything; below 0 there is no such limit.
    main = Fraction(spent.main, limits.main) if limits.main > 0 else Fraction(1 + spent.main)
    if limits.either:
        return main if spent.impure else min(main, Fraction(spent.pure, limits.pure))
    if limits.pure < 0 or not spent.pure:
        return main
    return max(main, Fraction(spent.pure, limits.pure) if limits.pure else Fraction(1 + spent.pure))


def find_left(limits: Limits, spent: Sums, asked: Sums) -> Left:
    """Return what is left of an account that may spend `limits` and has spent `spent`.

    Parameters
    ----------
    limits, spent : Limits, Sums
        Of the account (`Account.limits`, `Account.sums`).
    asked : Sums
        What one release reserves.
    """
    used = find_share(limits, spent)
    return Left(
        spent=min(used, Fraction(1)),
        needed=max(find_share(limits, spent.plus(asked)) - used, Fraction(0)),
        more=limits.count_more(spent, asked),
    )


def find_left_of(account: Account, asked: Sums = NOTHING) -> Left:
    """Return what is left of an account; nothing where another one goes on for it."""
    if account.successor:
        return Left(spent=Fraction(1), needed=Fraction(0), more=0)
    return find_left(account.limits, account.sums, asked)


def write_spent(share: Fraction) -> str:
    """Return which share is spent, in percent: only all of it is called all."""
    return write_percent(share, -1 if Fraction(99, 100) < share < 1 else 0)
