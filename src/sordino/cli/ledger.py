"""`sordino ledger`: make accounts, look at them, check them, share them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, final

import click

from sordino.cli.accounts import (
    DETAILS,
    FAIL_BELOW,
    SHOW_FORMAT,
    account_options,
    accounts,
    close,
    find_declared,
    find_payer,
    find_watched,
    give_account_parts,
    ledger_options,
    list_accounts,
    refuse_below,
    say_details,
    say_left,
    say_night,
    write_accounts,
    write_amounts,
    write_metrics,
)
from sordino.cli.consent import CONSENT, MOST_BUDGET, require_consent, require_small_delta
from sordino.cli.grouped import FIRST_OF_ACCOUNTS, ShortHelpCommand
from sordino.cli.once import SuggestingGroup
from sordino.cli.options import (
    ADJACENCY,
    DETAILS as DETAILS_OF_FIGURES,
    FORMAT,
    NUMBER,
    PART,
    REQUIRED_ACCOUNT as ACCOUNT,
    REQUIRED_LEDGER as URL,
    WIDE,
    choose_format,
    gather,
    require_one,
)
from sordino.cli.output import write_lines, write_rows
from sordino.cli.output_file import OUTPUT, OutputFile
from sordino.cli.report import report_account
from sordino.cli.statement import publish
from sordino.cli.text_options import CsvOptions, header_options
from sordino.cli.whom import PARTS
from sordino.cli.write import say_kept, write_kept
from sordino.constraints import COUNT, POSITIVE
from sordino.cost import ZCDP
from sordino.cost.conversion import write_percent
from sordino.errors import DataSourceError, InvalidParameter, LedgerError, UnsupportedBackend
from sordino.ledger import Budget, Ledger, Statement
from sordino.ledger.account.identity import has_no_place
from sordino.ledger.left import write_spent
from sordino.population import say_unit
from sordino.unit_columns import split_unit_columns

# Only for type checkers: see `_create_account`.
if TYPE_CHECKING:
    from sordino.questions import PrivacyUnit
    from sordino.sensitivity import Adjacency

LAST = click.option("--last", type=int, metavar="N", help="Only the newest N events.")


@final
@dataclass(frozen=True, kw_only=True)
class AccountOptions:
    """An account that is to be made."""

    url: str
    account: str
    epsilon: Fraction
    delta: Fraction
    failures: Fraction
    parts: str | None
    meter: Literal["pure", "zcdp", "renyi"] | None
    adjacency: Adjacency
    unit: str | None
    row_is_unit: bool
    source: str
    csv: CsvOptions
    not_yet: bool
    size_hint: int | None
    consent: bool
    form: str | None


_account_options = gather(
    "wanted",
    AccountOptions,
    URL,
    ACCOUNT,
    click.option(
        "--epsilon", type=NUMBER, required=True, help="Budget of the account, for its whole life."
    ),
    click.option(
        "--delta",
        type=NUMBER,
        default="0",
        show_default=True,
        help="Its delta. Above 0 many more small releases fit, and as many counts, histograms, "
        "selections of top from a list, quantiles, sums, means and variances as without it; of "
        "other kinds it may be fewer.",
    ),
    click.option(
        "--failures",
        type=NUMBER,
        default="0",
        show_default=True,
        help="The part of --delta for releases that may fail with a delta of their own.",
    ),
    click.option(
        "--meter",
        type=click.Choice(["pure", "zcdp", "renyi"]),
        help="How charges add up: epsilons (the default without --delta), Renyi divergences with "
        "epsilons beside them (the default with it), or rhos, of which fewer large releases fit.",
    ),
    PARTS,
    ADJACENCY,
    click.option("--unit", metavar="COL", help="Column that says whom a row belongs to."),
    click.option("--row-is-unit", is_flag=True, help="The account protects single rows."),
    click.option("--source", required=True, help="The SOURCE that the account is about."),
    header_options,
    click.option(
        "--not-yet",
        is_flag=True,
        help="Do not look whether the source is there and has the column.",
    ),
    click.option(
        "--size-hint",
        type=int,
        metavar="N",
        help="About how many people there are, public: a delta above 1/N is asked about.",
    ),
    CONSENT,
    FORMAT,
)


@click.group(cls=SuggestingGroup)
def ledger() -> None:
    """Accounts with a budget: every release is charged before a row is read."""


for command in (accounts, give_account_parts, close, publish, report_account):
    ledger.add_command(command)


@ledger.command(cls=ShortHelpCommand, first=FIRST_OF_ACCOUNTS)
@_account_options
def create(wanted: AccountOptions) -> None:
    """Make an account, and the ledger if there is none.

    Its adjacency, unit and source never change.
    """
    _create_account(wanted)


@ledger.command(cls=ShortHelpCommand, first=FIRST_OF_ACCOUNTS)
@_account_options
def init(wanted: AccountOptions) -> None:
    """Make a ledger with its first account; another name of `create`."""
    _create_account(wanted)


@ledger.command()
@click.argument("name", required=False)
@click.option("--ledger", "url", metavar="URL", help="File of the ledger, or its database.")
@click.option("--account", metavar="NAME", help="One account; else all of the ledger.")
@click.option(
    "--declaration",
    metavar="FILE",
    help="NAME is declared in this file [default: sordino.toml here or above].",
)
@DETAILS
@FAIL_BELOW
@SHOW_FORMAT
def show(
    name: str | None,
    url: str | None,
    account: str | None,
    declaration: str | None,
    details: bool,
    least: Fraction | None,
    form: str | None,
) -> None:
    """Show what accounts may still spend, and what one account was spent on.

    NAME is a declared table, whose account is shown. With --ledger alone each account has a line.
    """
    url, account = find_payer(name, declaration, url, account)
    if form == "prometheus":
        found = list_accounts(url, account)
        found = found if account else find_watched(url, found)
        write_metrics(url, found)
    elif account is None:
        listed = list_accounts(url)
        (write_amounts if details else write_accounts)(listed, form)
        found = listed if least is None else find_watched(url, listed)
    else:
        found = [_write_account_lines(Ledger.open(url, account=account), form, details=details)]
    # What is left stands on stdout before the exit code says that it is little.
    refuse_below(least, url, found)


@ledger.command()
@click.argument("charge", metavar="ID")
@account_options
@PART
@FORMAT
@WIDE
@OUTPUT
@DETAILS_OF_FIGURES
def release(
    charge: str,
    url: str,
    account: str,
    part: int,
    form: str | None,
    wide: bool,
    output: OutputFile | None,
    details: bool,
) -> None:
    """Print a release again that was made with --keep, by the ID of its charge.

    Its figures are the same, to the last digit. It costs nothing: it was released before.
    """
    COUNT("--part", part)
    # A file is for a program, as it is for the release itself.
    chosen = choose_format(form or (None if output is None or wide else "json"), wide=wide)
    # Asked first, so that what is not there leaves no file.
    record = Ledger.open(url, account=account).read_release(charge, part=part)
    if output is not None:
        output.claim()
    write_kept([record], chosen, output, [say_kept(record, chosen, details=details)])


@ledger.command()
@account_options
@LAST
@FORMAT
def history(url: str, account: str, last: int | None, form: str | None) -> None:
    """Show every event of an account, and when it happened.

    Each says what was reserved, drawn, settled, granted or voided.
    """
    columns = ("number", "time", "kind", "amount", "spent", "limit", "charge", "head")
    events = [event.to_dict() for event in Ledger.open(url, account=account).history(last=last)]
    write_rows(
        form,
        columns,
        events,
        {"account": account},
        ["head: hash over the event and everything before it."],
    )


@ledger.command()
@account_options
@click.option(
    "--head",
    metavar="HASH",
    help="A head that was noted before: shows that nothing up to it was rewritten.",
)
@FORMAT
def verify(url: str, account: str, head: str | None, form: str | None) -> None:
    """Replay the history of an account: hashes, sums and limits must agree.

    Exit code 5 if they do not.
    """
    found = Ledger.open(url, account=account).verify(head=head)
    facts = found.to_dict()
    # The problems are the rows, and all else that was found are facts about them.
    rows = [{"problem": problem} for problem in facts.pop("problems")]
    notes = [
        (
            f"Account {account}: {found.events} events, "
            f"{'all agree' if found.sound else 'they do not agree'}. Head {found.head}."
        )
    ]
    write_rows(form, ("problem",), rows, facts, notes)
    # What does not agree stands on stdout before the exit code says so.
    found.raise_if_broken()


@ledger.command()
@account_options
@click.option(
    "--as",
    "form",
    type=click.Choice(["jsonl", "dp-accounting"]),
    default="jsonl",
    show_default=True,
    help="Every event as a line of JSON, or every charge as an event of dp_accounting.",
)
def export(url: str, account: str, form: str) -> None:
    """Write an account for other programs."""
    opened = Ledger.open(url, account=account)
    write_lines(opened.export() if form == "jsonl" else map(repr, opened.dp_events()))


@ledger.command()
@account_options
@click.option(
    "--to",
    "child",
    metavar="NAME",
    required=True,
    help="Account that gets the share; made if there is none.",
)
@click.option(
    "--epsilon",
    type=NUMBER,
    help=(
        "The share, from an account with the pure meter; beside --divergence that of the pure sum."
    ),
)
@click.option("--rho", type=NUMBER, help="The share, from an account with the zCDP meter.")
@click.option(
    "--divergence",
    type=NUMBER,
    help="The share, from an account with the Renyi meter, at its order.",
)
@click.option("--failures", type=NUMBER, help="Beside these the share of the deltas of releases.")
@CONSENT
@FORMAT
def grant(
    url: str,
    account: str,
    child: str,
    epsilon: Fraction | None,
    rho: Fraction | None,
    divergence: Fraction | None,
    failures: Fraction | None,
    consent: bool,
    form: str | None,
) -> None:
    """Give a share of what remains in an account to another one, for a team.

    It counts as spent here at once.
    """
    opened = Ledger.open(url, account=account)
    # A statement without its charges takes no longer for an account that has many.
    parent = opened.statement(charges=False)
    of_renyi = parent.renyi is not None
    given = {"--rho": rho, "--divergence": divergence} | (
        {} if of_renyi else {"--epsilon": epsilon}
    )
    # The flag must name the measure, so that nobody gives a rho and means an epsilon.
    if require_one(given, "how much is granted") != f"--{parent.measure}":
        raise InvalidParameter(
            f"Account {account!r} counts {parent.measure}; give the share with --{parent.measure}."
        )
    amount = given[f"--{parent.measure}"]
    assert amount is not None  # noqa: S101  (exactly one was given)
    POSITIVE(f"--{parent.measure}", amount)
    if failures is not None and not of_renyi and parent.failures is None:
        raise InvalidParameter(
            "--failures needs an account that keeps a part of its delta for failures; "
            f"{account!r} with the meter {parent.meter} keeps none."
        )
    # A rho is judged by the epsilon that it means at the delta of the account, and a divergence is
    # below it.
    worth = amount if rho is None else Fraction(ZCDP(rho=rho).epsilon(parent.delta))
    require_consent("The epsilon of a share", worth, MOST_BUDGET, given=consent)
    pure = epsilon if of_renyi else None
    made = opened.grant(
        child, amount, pure=pure, failures=Fraction(0) if failures is None else failures
    )
    _write_account_lines(made, form, charges=False)


@ledger.command()
@account_options
@click.option("--to", "into", metavar="NAME", required=True, help="Name of the new account.")
@click.option(
    "--epsilon",
    type=NUMBER,
    required=True,
    help="Its budget, of a pure account at least the old one.",
)
@click.option("--delta", type=NUMBER, required=True, help="Its delta.")
@click.option("--failures", type=NUMBER, default="0", show_default=True, help="As for `create`.")
@CONSENT
@FORMAT
def convert(
    url: str,
    account: str,
    into: str,
    epsilon: Fraction,
    delta: Fraction,
    failures: Fraction,
    consent: bool,
    form: str | None,
) -> None:
    """Make an account with a delta that continues a pure or zCDP one, and close that one for good.

    Choose its budget without looking at what was released.
    """
    budget = Budget(epsilon=epsilon, delta=delta, failures=failures)
    require_consent("--epsilon", epsilon, MOST_BUDGET, given=consent)
    require_small_delta(delta, None, given=consent)
    _write_account_lines(
        Ledger.open(url, account=account).convert(into, budget), form, charges=False
    )


@ledger.command()
@URL
@ACCOUNT
@click.option("--to", "name", metavar="NAME", required=True, help="A declared table.")
@click.option(
    "--declaration",
    metavar="FILE",
    help="Where NAME is declared [default: sordino.toml here or above].",
)
@click.option(
    "--second-budget",
    is_flag=True,
    help="Another account is about a table that NAME looks up, and is meant beside this one.",
)
@FORMAT
def resource(
    url: str,
    account: str,
    name: str,
    declaration: str | None,
    second_budget: bool,
    form: str | None,
) -> None:
    """Let an account be about NAME from now on, where it was about the path of that table.

    Or about the private tables that NAME looks up, too. The declaration says where the table lies,
    what it looks up, and that this account pays for it.
    """
    table = find_declared(name, declaration)
    opened = Ledger.open(url, account=account)
    payer = Ledger.open(table.ledger, account=table.account)
    if (payer.url, payer.account) != (opened.url, opened.account):
        raise InvalidParameter(
            f"--to must name a table for which this account pays; {table.name!r} is declared with "
            f"account {table.account!r} of {payer.url!r}. Nothing was moved."
        )
    others = [name for name, one in table.lookups.items() if one.private]
    moved = opened.call_by_name(
        table.name, place=table.source.path, others=others, second_budget=second_budget
    )
    _write_account_lines(moved, form, charges=False)


@ledger.command("void-reservation")
@account_options
@click.option(
    "--charge", metavar="ID", required=True, help="Id of the charge, as `ledger show` lists it."
)
@click.option("--reason", required=True, help="Why; kept in the history.")
@FORMAT
def void_reservation(url: str, account: str, charge: str, reason: str, form: str | None) -> None:
    """Give up a charge whose process has died: what was never drawn from it returns.

    What was drawn stays charged.

    Not for charges that an error of the data source left open: whether there was one may depend on
    the rows.
    """
    line = Ledger.open(url, account=account).void(charge, reason=reason).to_dict()
    columns = ("time", "label", "state", "reserved", "drawn", "settled", "id")
    write_rows(form, columns, [line], {"account": account}, [])


@ledger.command()
@ledger_options
@click.argument("file")
@FORMAT
def backup(url: str, file: str, form: str | None) -> None:
    """Copy the whole ledger to a new FILE while others charge it.

    Prints the head of every account in the copy.
    """
    heads = _open_any_account(url).backup(file)
    rows = [{"account": account, "head": head} for account, head in heads.items()]
    # Not resolved, so that a link stays a link.
    write_rows(form, ("account", "head"), rows, {"file": os.path.abspath(file)}, [])  # noqa: PTH100


@ledger.command()
@URL
@click.option("--role", metavar="NAME", required=True, help="Role of the PostgreSQL server.")
def permit(url: str, role: str) -> None:
    """Let a role of the database see and charge every account, and nothing else."""
    _open_any_account(url).permit(role)


def _open_any_account(url: str) -> Ledger:
    """Return an account, for what is about the whole ledger."""
    # A ledger is opened through one of its accounts, and any of them will do.
    names = Ledger.accounts(url)
    if not names:
        raise LedgerError(
            "The ledger has no account yet; make one first (`sordino ledger create`)."
        )
    return Ledger.open(url, account=names[0])


def _create_account(wanted: AccountOptions) -> None:
    # Only a new account needs it; the other commands of a ledger load no engine.
    from sordino.questions import PrivacyUnit

    require_one(
        {"--unit": wanted.unit, "--row-is-unit": wanted.row_is_unit}, "whom the account protects"
    )
    budget = Budget(
        epsilon=wanted.epsilon, delta=wanted.delta, meter=wanted.meter, failures=wanted.failures
    )
    unit = PrivacyUnit(None if wanted.unit is None else split_unit_columns(wanted.unit))
    _check_consent(wanted)
    _check_source(wanted, unit)
    made = Ledger.create(
        wanted.url,
        account=wanted.account,
        unit=unit,
        parts=wanted.parts or "",
        budget=budget,
        adjacency=wanted.adjacency,
        source=wanted.source,
    )
    _write_account_lines(made, wanted.form, charges=False)


def _check_consent(wanted: AccountOptions) -> None:
    """Refuse amounts that hide nobody, unless they are meant."""
    if wanted.size_hint is not None:
        if not wanted.delta:
            raise InvalidParameter(
                "--size-hint needs --delta: without one there is nothing that it is about."
            )
        COUNT("--size-hint", wanted.size_hint)
    require_consent("--epsilon", wanted.epsilon, MOST_BUDGET, given=wanted.consent)
    require_small_delta(wanted.delta, wanted.size_hint, given=wanted.consent)


def _check_source(wanted: AccountOptions, unit: PrivacyUnit) -> None:
    """Refuse a source that cannot be opened or lacks the column of the unit; no row is read.

    An account keeps both for its whole life, so a slip of the pen would make it one that nothing
    can charge.
    """
    if wanted.not_yet or has_no_place(wanted.source):
        return
    # Only a new account needs it; the other commands of a ledger load no engine.
    from sordino.cli.work import make_csv_format
    from sordino.sources import open_source

    try:
        source = open_source(wanted.source, csv=make_csv_format(wanted.csv))
    except (DataSourceError, UnsupportedBackend) as error:
        raise type(error)(
            f"{error} Give --not-yet for a source that is not there yet, and --source name:NAME "
            "for what is no file."
        ) from None
    # No line of JSON names all columns: there the unit is declared with each release.
    if not source.declared:
        # In a file of texts the types of columns are declared with each release.
        whole = (replace(one, cut=None, offset=None) for one in unit.columns)
        source.take_unit([*whole] if source.texts else unit.columns, "--unit")


def _write_account_lines(
    opened: Ledger, form: str | None, *, charges: bool = True, details: bool = False
) -> Statement:
    """Write an account with its charges, and return what was written."""
    # Only who looks at an account needs its words.
    from sordino.report.spent import say_account_days, say_promise

    said = opened.statement(charges=charges)
    statement = said.to_dict()
    # The charges are the rows, and the rest of the statement are facts about them.
    listed = statement.pop("charges")
    delta = f", delta {statement['delta']:.12g}" if statement["delta"] else ""
    notes = [
        *say_left(said),
        (
            f"Protects: {say_unit(statement['unit'])}, {statement['adjacency']}, epsilon "
            f"{statement['epsilon']:.12g}{delta}. Source: {statement['source']}."
        ),
        *say_account_days(statement),
        # What all of it may teach a reader, once it is spent.
        *([f"All of it together: {promise}"] if (promise := say_promise(statement)) else []),
        *([f"A share of account {said.parent}."] if said.parent else []),
        *(
            f"Granted to {name}: {write_percent(share / said.limit if said.limit else share)}."
            for name, share in said.shares.items()
        ),
        *(
            [f"Converted into account {said.successor}, which goes on for it."]
            * bool(said.successor)
        ),
        *(say_details(statement) if details else []),
    ]
    # Beside its divergence or rho what a charge takes from the other sums.
    more = (
        ("epsilon", "delta")
        if "renyi" in statement
        else ("delta",)
        if "failures" in statement
        else ()
    )
    amounts = ("reserved", "drawn", "settled", *more)
    chosen = choose_format(form)
    if chosen == "csv":
        # On a line of a charge they would be read as those of the charge.
        statement |= {f"account_{name}": statement.pop(name) for name in ("epsilon", "delta")}
    if chosen == "table":
        listed = [
            one | {"share": write_spent(line.share)} | say_night(line.detail)
            for one, line in zip(listed, said.charges, strict=True)
        ]
    columns: tuple[str, ...] = ("time", "label", "state", *amounts, "kept", "id", "share")
    if chosen == "table":
        # Which night a charge is of, where some are of one.
        about = [name for name in ("part", "run") if any(one[name] for one in listed)]
        more = (*about, "state", "share", *(amounts if details else ()))
        columns = ("time", "label", *more, "kept", "id")
    write_rows(form, columns, listed, statement, notes)
    return said
