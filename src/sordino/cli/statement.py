"""`sordino ledger publish` and `sordino verify`.

Statements of what is promised, made and checked.
"""

from __future__ import annotations

from typing import Literal

import click

from sordino.cli.accounts import account_options
from sordino.cli.once import Command
from sordino.cli.options import FORMAT, choose_format
from sordino.cli.output import write_rows
from sordino.cli.output_file import OUTPUT, OutputFile
from sordino.cli.write import write_document
from sordino.constraints import COUNT
from sordino.ledger import Ledger
from sordino.statements.document import PublicStatement
from sordino.statements.owner import Owner, read_small_text
from sordino.statements.trees import load_yaml

NOT_WRITTEN = (
    "The statement could not be written, but the history of the account has it: the same command "
    "writes it again, and costs nothing."
)


@click.command(cls=Command)
@click.argument("charge", metavar="[ID]", required=False)
@account_options
@click.option(
    "--part",
    type=int,
    metavar="N",
    help=(
        "One release of a study, or of what a program asked for together; all of them unless said."
    ),
)
@click.option(
    "--owner",
    metavar="FILE",
    help=(
        "What nobody but the owner of the data can say, in TOML, YAML or JSON; what is left out "
        "is marked."
    ),
)
@click.option(
    "--as",
    "form",
    type=click.Choice(["yaml", "json"]),
    help="Unless said JSON for a FILE that ends with .json and where PyYAML is missing, which "
    "readers of YAML take too; else YAML.",
)
@OUTPUT
def publish(
    charge: str | None,
    url: str,
    account: str,
    part: int | None,
    owner: str | None,
    form: Literal["yaml", "json"] | None,
    output: OutputFile | None,
) -> None:
    """Write what an account promises, or by its ID a study, or a release that was made with --keep.

    The statement costs nothing, stands in the history from then on, and is the same when it is made
    again. `sordino verify` checks it.
    """
    if part is not None:
        COUNT("--part", part)
    if form is None and output is not None and output.path.suffix.lower() == ".json":
        # Readers of YAML take JSON, and not the other way round.
        form = "json"
    # All that can be wrong is found before the history gets the statement.
    said = Owner() if owner is None else Owner.read(owner)
    if form == "yaml":
        load_yaml("A statement")
    opened = Ledger.open(url, account=account)
    if output is not None:
        output.claim()
    text = opened.publish(charge, part=part, owner=said).to_text(form)
    write_document(text, output, lost=NOT_WRITTEN)


@click.command(cls=Command)
@click.argument("file")
@account_options
@FORMAT
def verify(file: str, url: str, account: str, form: str | None) -> None:
    """Check the statement in FILE against the history of its account.

    Exit code 5 if it does not hold.

    Every field that was edited is named. Nothing is charged.
    """
    statement = PublicStatement.from_text(read_small_text(file, "The file of a statement"))
    found = Ledger.open(url, account=account).check_statement(statement)
    facts = found.to_dict()
    # The problems are the rows, and all else that was found are facts about them.
    rows = [{"problem": problem} for problem in facts.pop("problems")]
    notes = [
        f"The statement, of account {account}: "
        f"{'all of it is what the ledger has' if found.sound else 'it does not hold'}."
    ]
    if found.newer:
        notes.append("The ledger has a later statement about the same.")
    # Of what holds a table would be a lone header.
    columns = ("problem",) if rows or choose_format(form) != "table" else ()
    write_rows(form, columns, rows, facts, notes)
    # What does not hold stands on stdout before the exit code says so.
    found.raise_if_broken()
