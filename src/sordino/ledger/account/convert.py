"""Turns a pure or a zCDP account into one that keeps two sums; what was spent goes along, for good.

Claim: all that was released on both accounts is private to the budget of the new one.
Proof: docs/proofs/renyi-accounts.md.
"""

from __future__ import annotations

import math
from fractions import Fraction

from sordino.constraints import shown
from sordino.cost import Pure
from sordino.errors import BudgetExceeded, InvalidParameter, LedgerConflict
from sordino.ledger import schema
from sordino.ledger.account.pages import Pages
from sordino.ledger.account.records import body_of, find_alone, nonce
from sordino.ledger.amounts import Budget, nano_up
from sordino.ledger.history import Account, ChargeRow, digest_of, facts_of, json_of
from sordino.ledger.renyi import NANO, NOTHING, Sums, amounts_at
from sordino.ledger.store.store import Store, carry_out


def convert_account(store: Store, pages: Pages, into: str, budget: Budget) -> None:
    """Close an account, and make another one that begins with what was spent here."""
    with pages.reading() as (old, rows):
        charges = [ChargeRow(*found) for found in rows(schema.CHARGES, account=old.name)]
        shares = [share for _, share, *_ in rows(schema.CHILDREN, account=old.name)]
        taken = bool(rows(schema.ACCOUNT, account=into))
    _check_possible(old, into, budget, taken=taken)
    spent = _carried_over(old, charges, shares, Fraction(budget.order or 0))
    limits = budget.limits
    if not limits.admits(NOTHING, spent):
        raise BudgetExceeded(
            f"What account {old.name!r} has spent does not fit into the new budget. Nothing was "
            "converted."
        )
    made = Account(**{**old._asdict(), "name": into, "parent": None, **facts_of(budget)})
    facts = {
        "label": f"all that account {old.name} has spent",
        "detail": {"account": old.name, "head": old.head},
        "charges": [],
        "reading": old.reading,
    }
    digest = digest_of(facts, made)
    parameters = {
        "account": old.name,
        "last": old.head,
        "child": into,
        **facts_of(budget),
        "most": limits.main,
        "mostpure": limits.pure,
        "mostfailing": limits.failing,
        "charge": nonce(),
        "digest": digest,
        "amount": spent.main,
        "pure": spent.pure,
        "failing": spent.failing,
        "impure": spent.impure,
        # One body for all events of both accounts: each finds in it what it is about.
        "body": body_of(into=into, slot=0, digest=digest, **facts, **made.facts),
    }
    if not carry_out(store, schema.CONVERT, parameters, account=old.name):
        raise LedgerConflict(
            f"Account {old.name!r} was changed by others at the same time. Nothing was converted; "
            "try again."
        )


def _check_possible(old: Account, into: str, budget: Budget, *, taken: bool) -> None:
    if old.parts:
        raise LedgerConflict(
            f"Account {old.name!r} has parts, and an account with parts is not converted: make "
            "another one, whose budget adds to this one's. Nothing was converted."
        )
    if old.successor or old.parent is not None or old.meter == "renyi":
        why = (
            f"was converted into {old.successor!r} already"
            if old.successor
            else f"{'keeps deltas' if old.adds_rhos else 'adds divergences'} already"
            if old.meter == "renyi"
            else f"is a share of {old.parent!r}"
        )
        raise LedgerConflict(f"Account {old.name!r} {why}. Nothing was converted.")
    if taken:
        raise LedgerConflict(
            f"Account {into!r} exists already; give another name. Nothing was converted."
        )
    if budget.meter != "renyi":
        raise InvalidParameter(
            "An account is converted into one with a delta and the meter renyi, such as "
            f"Budget(epsilon=3.0, delta=1e-6); got {shown(budget)}."
        )
    if old.meter == "pure" and Fraction(budget.epsilon) < Fraction(old.epsilon):
        raise InvalidParameter(
            "A pure account keeps its epsilon or gets a larger one: at least "
            f"{float(Fraction(old.epsilon)):g}; got {float(budget.epsilon):g}. Nothing was "
            "converted."
        )
    if old.meter == "zcdp":
        same = (budget.epsilon, budget.delta) == (Fraction(old.epsilon), Fraction(old.delta))
        # Whenever it is converted, and why: what the old limit allowed the new one allows
        # (renyi-accounts).
        holds = Fraction(budget.order or 0) * old.allowance <= budget.limits.main
        if not (same and holds):
            raise InvalidParameter(
                "A zCDP account keeps its epsilon and its delta, with nothing set aside for "
                "failures and the order that is chosen for it: epsilon "
                f"{float(Fraction(old.epsilon)):g}, delta {float(Fraction(old.delta)):g}. Nothing "
                "was converted."
            )


def _carried_over(
    old: Account, charges: list[ChargeRow], shares: list[int], order: Fraction
) -> Sums:
    """Return what was spent, in the sums of the new account."""
    if old.meter == "zcdp":
        # A rho has no pure epsilon.
        return Sums(math.ceil(order * old.spent), 0, 0, 1) if old.spent else NOTHING
    # What may still be drawn counts as drawn. Refunds are kept in the pure sum alone: the
    # divergence of a transcript's epsilon bounds nothing (renyi-accounts).
    worst = [_count_worst(row) for row in charges] + shares
    divergences = [amounts_at(Pure(epsilon=Fraction(nano, NANO)), order) for nano in worst if nano]
    main = sum(one.rounded_up().main for one in divergences if one is not None)
    return Sums(main, old.spent, 0, 0)


def _count_worst(row: ChargeRow) -> int:
    """Return the pure epsilon that a charge is private to by itself, in billionths."""
    worst = row.reserved if row.settled is None else row.drawn
    # What refined another release added less to the pure sum than it loses by itself
    # (renyi-accounts).
    return worst + nano_up(find_alone(json_of(row.body))) if worst else 0
