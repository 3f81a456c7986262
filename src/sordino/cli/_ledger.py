"""`sordino ledger`: make an account, look at it, list accounts."""

from __future__ import annotations

from fractions import Fraction

import click

from sordino.cli._options import ADJACENCY, FORMAT, NUMBER, exactly_one
from sordino.cli._output import write_rows
from sordino.ledger import Budget, Ledger

URL = click.option("--ledger", "url", metavar="URL", required=True, help="File of the ledger.")
ACCOUNT = click.option("--account", metavar="NAME", required=True, help="Name of the account.")


@click.group()
def ledger() -> None:
    """Accounts with a budget: every release is charged before a row is read."""


@ledger.command()
@URL
@ACCOUNT
@click.option("--epsilon", type=NUMBER, required=True, help="Budget of the account, for its whole life.")
@ADJACENCY
@click.option("--unit", metavar="COL", help="Column that says whom a row belongs to.")
@click.option("--row-is-unit", is_flag=True, help="The account protects single rows.")
@click.option("--source", required=True, help="The SOURCE that the account is about.")
@FORMAT
def create(
    url: str, account: str, epsilon: Fraction, adjacency: str, unit: str | None, row_is_unit: bool, source: str, form: str | None
) -> None:
    """Make an account, and the file if there is none. Its adjacency, unit and source never change."""
    from sordino.data import PrivacyUnit

    exactly_one({"--unit": unit, "--row-is-unit": row_is_unit}, "whom the account protects")
    whom = PrivacyUnit.row() if unit is None else PrivacyUnit(unit)
    made = Ledger.create(url, account=account, budget=Budget(epsilon=epsilon), adjacency=adjacency, unit=whom, source=source)
    _write_account(made, form, charges=False)


@ledger.command()
@URL
@ACCOUNT
@FORMAT
def show(url: str, account: str, form: str | None) -> None:
    """Show what an account may spend, what it spent, and on what."""
    _write_account(Ledger.open(url, account=account), form, charges=True)


@ledger.command()
@URL
@FORMAT
def accounts(url: str, form: str | None) -> None:
    """List the accounts of a ledger with what remains in each."""
    columns = ("account", "adjacency", "unit", "source", "limit", "spent", "remaining")
    statements = [Ledger.open(url, account=name).statement().to_dict() for name in Ledger.accounts(url)]
    write_rows(form, columns, [{name: statement[name] for name in columns} for statement in statements], {}, [])


def _write_account(opened: Ledger, form: str | None, *, charges: bool) -> None:
    statement = opened.statement().to_dict()
    listed = statement.pop("charges")
    notes = [
        f"Account {statement['account']}: epsilon {statement['limit']:.12g}, spent {statement['spent']:.12g}, "
        f"remaining {statement['remaining']:.12g}.",
        f"Protects: {statement['unit']}, {statement['adjacency']}. Source: {statement['source']}.",
    ]
    columns = ("time", "label", "state", "reserved", "drawn", "settled", "id")
    write_rows(form, columns, listed if charges else [], statement, notes)
