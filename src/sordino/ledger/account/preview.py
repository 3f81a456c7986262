"""What an account has left, and would have after a charge: nothing is charged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from sordino.ledger.account.changes import request
from sordino.ledger.account.pages import RELEASE, Pages
from sordino.ledger.amounts import amount_of
from sordino.ledger.history import Account
from sordino.ledger.renyi import ATTO, NOTHING, Limits, Sums

_MANY = 1_000
"""More releases than that are not counted for a reader."""


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
        # Only what is all is called all.
        return write_percent(min(self.spent, Fraction(99, 100)) if self.spent < 1 else self.spent)

    def say_more(self, like: str = "like this one") -> str:
        """Return how many more fit, as a sentence."""
        if self.more is None:
            return f"Any number more {like}."
        if self.more == 0:
            return f"No more {like} fits."
        many = f"More than {_MANY:,}" if self.more > _MANY else f"About {self.more:,}"
        return f"{many} more {like}."


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


def write_percent(share: Fraction, towards: int = 0) -> str:
    """Return a share in percent, with two digits.

    It is rounded up with 1 for `towards`, down with -1, else to the nearest.
    """
    percent = 100 * share
    if percent <= 0:
        return "0%"
    step = Fraction(1)
    while percent < 10 * step and step > Fraction(1, 10**9):
        step /= 10
    steps = percent / step
    whole = math.ceil(steps) if towards > 0 else math.floor(steps) if towards < 0 else round(steps)
    return f"{float(whole * step):,.9g}%" if whole * step < 1000 else f"{int(whole * step):,}%"


@final
@dataclass(frozen=True, kw_only=True)
class Preview:
    """A charge that was not made, and what it would leave.

    Attributes
    ----------
    account : str
        The name of the account.
    measure : str
        What its amounts are: "epsilon", "rho" or "divergence".
    delta : Fraction
        Of the guarantee of the account; 0 where it adds pure epsilons.
    needs : Fraction
        What would be reserved.
    remaining : Fraction
        What remains now.
    left : Fraction
        What would remain.
    epsilon_left : Fraction or None
        On an account that counts epsilons beside divergences: what would remain of them; else None.
    failures_left : Fraction or None
        On an account that keeps a part of its delta for releases that may fail: what would remain
        of that.
    more : int or None
        How many more like it would fit after it; None if there is no end.

    Examples
    --------
    >>> import tempfile
    >>> import sordino as sd
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = sd.Ledger.create(folder.name + "/budget.db", account="orders",
    ...                           budget=sd.Budget(epsilon=3.0), adjacency="add-remove",
    ...                           unit="customer_id", source="name:orders")
    >>> seen = ledger.preview(sd.cost.Pure(epsilon=0.5))
    >>> seen.left, seen.more, ledger.remaining
    (Fraction(5, 2), 5, Fraction(3, 1))
    >>> folder.cleanup()
    """

    account: str
    measure: str
    delta: Fraction
    needs: Fraction
    remaining: Fraction
    left: Fraction
    epsilon_left: Fraction | None
    failures_left: Fraction | None
    more: int | None

    def say_left(self) -> str:
        """Return what would remain, in words."""
        left = f"{self.measure} {float(self.left):.9g}"
        # It is enough if one of the two sums stays within its limit.
        return f"{left}, or epsilon {float(self.epsilon_left):.9g}," if self.epsilon_left else left

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready values, amounts as floats."""
        amounts = ("delta", "needs", "remaining", "left", "epsilon_left", "failures_left")
        found = {name: getattr(self, name) for name in amounts}
        return {
            "account": self.account,
            "measure": self.measure,
            **{name: None if amount is None else float(amount) for name, amount in found.items()},
            "more": self.more,
        }


def preview_charge(pages: Pages, parts: Sequence[Any], **stated: Any) -> Preview:
    """Return what an account would say of a charge.

    Raises
    ------
    BudgetExceeded, LedgerConflict, InvalidParameter
        Where the charge itself would be refused, in the same words.
    """
    # What is refused without the database is refused by the very function that a charge goes
    # through.
    _, worst, _, _ = request(pages.facts, parts, **stated)
    pages.check_reading(stated["reading"], then="Nothing was read or released.")
    asked = worst.rounded_up()
    row = pages.account()
    limits, spent = row.limits, row.sums
    if row.successor or not limits.admits(spent, asked):
        pages.refuse(asked, what=RELEASE, then="Nothing was read or released.")
    after = spent.plus(asked)
    counts_epsilons = row.meter_name == "renyi" and limits.pure >= 0
    return Preview(
        account=row.name,
        measure=row.meter_at_order.measure,
        delta=Fraction(row.delta),
        needs=amount_of(asked.main),
        remaining=amount_of(max(0, limits.main - spent.main)),
        left=amount_of(max(0, limits.main - after.main)),
        # Once something without an epsilon is charged, epsilons count no more.
        epsilon_left=(
            amount_of(0 if after.impure else max(0, limits.pure - after.pure))
            if counts_epsilons
            else None
        ),
        failures_left=Fraction(limits.failing - after.failing, ATTO) if limits.failing else None,
        more=limits.count_more(after, asked),
    )
