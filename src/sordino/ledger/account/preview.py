"""What an account would say of a charge, and what would be left of it: nothing is charged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from sordino.cost.conversion import write_percent
from sordino.ledger.account.changes import request
from sordino.ledger.account.pages import RELEASE, Pages, is_closed
from sordino.ledger.amounts import amount_of
from sordino.ledger.left import find_share
from sordino.ledger.played_parts import Touched
from sordino.ledger.renyi import ATTO


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
        What remains now; of several parts of the one that has least.
    left : Fraction
        What would remain.
    share_left : Fraction
        Which share of the budget that is: of two sums of which one is enough the larger one.
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
    share_left: Fraction
    epsilon_left: Fraction | None
    failures_left: Fraction | None
    more: int | None

    def say_left(self) -> str:
        """Return what would remain, in words."""
        return f"{write_percent(self.share_left, -1)} of its budget"

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready values, amounts as floats."""
        amounts = (
            *("delta", "needs", "remaining", "left", "share_left"),
            *("epsilon_left", "failures_left"),
        )
        found = {name: getattr(self, name) for name in amounts}
        return {
            "account": self.account,
            "measure": self.measure,
            **{name: None if amount is None else float(amount) for name, amount in found.items()},
            "more": self.more,
        }


def preview_charge(pages: Pages, parts: Sequence[Any], touched: Touched, **stated: Any) -> Preview:
    """Return what an account would say of a charge.

    Raises
    ------
    BudgetExceeded, LedgerConflict, InvalidParameter
        Where the charge itself would be refused, in the same words.
    """
    # What is refused without the database is refused by the very function that a charge goes
    # through.
    _, worst, _, _ = request(pages.facts, parts, touched=touched, **stated)
    pages.check_reading(stated["reading"], then="Nothing was read or released.")
    asked = worst.rounded_up()
    row, _ = pages.find_fullest(touched, asked)
    limits, spent = row.limits, row.sums
    if row.successor or not limits.admits(spent, asked) or is_closed(row, touched):
        pages.refuse(asked, touched, what=RELEASE, then="Nothing was read or released.")
    after = spent.plus(asked)
    counts_epsilons = row.meter_name == "renyi" and limits.pure >= 0
    return Preview(
        account=row.name,
        measure=row.meter_at_order.measure,
        delta=Fraction(row.delta),
        needs=amount_of(asked.main),
        remaining=amount_of(max(0, limits.main - spent.main)),
        left=amount_of(max(0, limits.main - after.main)),
        share_left=max(Fraction(0), 1 - find_share(limits, after)),
        # Once something without an epsilon is charged, epsilons count no more.
        epsilon_left=(
            amount_of(0 if after.impure else max(0, limits.pure - after.pure))
            if counts_epsilons
            else None
        ),
        failures_left=Fraction(limits.failing - after.failing, ATTO) if limits.failing else None,
        more=limits.count_more(after, asked),
    )
