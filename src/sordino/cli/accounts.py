"""`sordino ledger show`: what accounts have left, for people, for programs and for monitors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from sordino.cli.once import Command
from sordino.cli.options import FORMAT, REQUIRED_LEDGER, choose_format
from sordino.cli.output import write_lines, write_rows
from sordino.cli.stderr import say
from sordino.cost.conversion import write_percent
from sordino.errors import InvalidParameter
from sordino.ledger import Ledger, Statement, read_parts
from sordino.ledger.left import write_spent
from sordino.ledger.parts import CUTS
from sordino.unit_columns import find_cut

# Only for type checkers: who names a ledger needs no declaration.
if TYPE_CHECKING:
    from sordino.study.declaration import DeclaredTable

ALMOST_SPENT = 9
"""The exit code where less is left than `--fail-below` says."""
_BAR = 20

DETAILS = click.option(
    "--details", is_flag=True, help="Also show amounts as the account counts them."
)
SHOW_FORMAT = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "csv", "prometheus"]),
    help="How stdout is written [default: table on a terminal, json elsewhere].",
)


def _read_share(_ctx: click.Context, _param: click.Parameter, given: str | None) -> Fraction | None:
    if given is None:
        return None
    found = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)(\s?%)?", given, re.ASCII)
    share = Fraction(found[1]) / (100 if found[2] else 1) if found else Fraction(2)
    if share > 1:
        raise click.BadParameter(f"must be a share of the budget, such as 20%; got {given!r}.")
    return share


FAIL_BELOW = click.option(
    "--fail-below",
    "least",
    metavar="PERCENT",
    callback=_read_share,
    help=f"End with exit code {ALMOST_SPENT} if less of the budget is left, such as 20%.",
)


_LEDGER = click.option(
    "--ledger", "url", metavar="URL", help="File of the ledger, or postgresql://USER@HOST/DB."
)
_ACCOUNT = click.option("--account", metavar="NAME", help="Name of the account.")
TABLE = click.option("--table", metavar="NAME", help="Or a declared table, for which it pays.")
DECLARATION = click.option(
    "--declaration",
    metavar="FILE",
    help="Where that table is declared [default: sordino.toml here or above].",
)


def account_options(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command be told its `url` and `account`, or the declared table that says both."""

    @wraps(command)
    def run(
        url: str | None,
        account: str | None,
        table: str | None,
        declaration: str | None,
        **more: object,
    ) -> None:
        url, account = find_payer(table, declaration, url, account, named="--table")
        if account is None:
            raise InvalidParameter(f"Say which account of {url!r}: --account NAME.")
        command(url=url, account=account, **more)

    for option in (DECLARATION, TABLE, _ACCOUNT, _LEDGER):
        run = option(run)
    return run


def ledger_options(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command be told its `url`, or the declared table that says which ledger pays for it."""

    @wraps(command)
    def run(url: str | None, table: str | None, declaration: str | None, **more: object) -> None:
        url, _ = find_payer(table, declaration, url, None, named="--table")
        command(url=url, **more)

    for option in (DECLARATION, TABLE, _LEDGER):
        run = option(run)
    return run


def find_payer(
    name: str | None,
    declaration: str | None,
    url: str | None,
    account: str | None,
    *,
    named: str = "NAME",
) -> tuple[str, str | None]:
    """Return a ledger, and which of its accounts is meant; None for all of them.

    Parameters
    ----------
    name, declaration, url, account
        The declared table that was named, where it is declared, and what was typed.
    named
        How a table is named, for messages.

    Raises
    ------
    InvalidParameter
        If nothing or two things are named, or no such table is declared.
    """
    if name is None:
        if declaration is not None:
            raise InvalidParameter(f"--declaration needs {named}, a table that it declares.")
        if url is None:
            said = "NAME" if named == "NAME" else f"{named} NAME"
            raise InvalidParameter(
                f"Say which ledger: --ledger URL, or {said} of a declared table."
            )
        return url, account
    if url is not None or account is not None:
        raise InvalidParameter(
            f"{named} says ledger and account, and goes with no --ledger or --account; got "
            f"{name!r}."
        )
    table = find_declared(name, declaration)
    return table.ledger, table.account


def find_declared(name: str, declaration: str | None) -> DeclaredTable:
    """Return a declared table, whatever the day.

    Raises
    ------
    InvalidParameter
        If there is none.
    """
    # Imported here: who names a ledger needs no declaration.
    from sordino.study.declaration import DAY, find_declaration, find_table, open_declaration

    path = find_declaration() if declaration is None else declaration
    if path is None:
        raise InvalidParameter(
            f"{name!r} must be declared in sordino.toml, here or above; there is none."
        )
    return find_table(open_declaration(path), name, DAY)


def draw_bar(share: Fraction) -> str:
    """Return a share as a bar of text, which only all of it fills."""
    filled = round(share * _BAR)
    filled = min(max(filled, int(share > 0)), _BAR - int(share < 1))
    return f"[{'#' * filled}{'.' * (_BAR - filled)}]"


def say_left(statement: Statement) -> list[str]:
    """Return what is spent of an account, and what it is still good for."""
    spent = statement.spent_share
    told = "all" if spent == 1 else write_spent(spent)
    parts = statement.parts
    if parts is not None and statement.successor is None:
        open_one = "" if parts.closed is None else " that is open"
        first = f"{told} of the budget of its fullest {parts.cut}{open_one} is spent."
        notes = [f"Account {statement.account}: {draw_bar(spent)} {first}", *parts.say_spent()]
        known = statement.meter == "pure" and find_cut(statement.unit) is not None
        return [*notes, *([parts.say_lost()] if known else [])]
    notes = [f"Account {statement.account}: {draw_bar(spent)} {told} of its budget is spent."]
    if statement.successor is not None or statement.examples is None:
        return notes
    like = (
        ""
        if statement.more is None
        else f"; {statement.more:,} more like the last release"
        if statement.more
        else "; no more like the last release"
    )
    return [*notes, f"Left: {statement.examples.say()}{like}."]


def say_details(statement: dict[str, Any]) -> list[str]:
    """Return what an account says of its sums, as it counts them."""
    failures = statement.get("failures")
    return [
        f"Account {statement['account']}: {statement['measure']} {statement['limit']:.12g}, spent "
        f"{statement['spent']:.12g}, remaining {statement['remaining']:.12g}.",
        *(
            [f"The column of the person is read as {statement['reading']}."]
            if "reading" in statement
            else []
        ),
        *_say_renyi(statement),
        *([_say_failures(failures["limit"], failures["spent"])] if failures else []),
        *(f"Granted to {name}: {share:.12g}." for name, share in statement["shares"].items()),
    ]


def _say_renyi(statement: dict[str, Any]) -> list[str]:
    """Return what the account says of its other sums, if it has any."""
    sums = statement.get("renyi")
    if sums is None:
        return []
    share = statement["parent"] is not None
    if sums["epsilon_limit"] is None:
        pure = "It has no share of the epsilons, and may hold costs without one."
    elif sums["epsilon_spent"] is None:
        pure = "Something without an epsilon was charged: only the divergences count."
    else:
        pure = (
            f"Epsilons {sums['epsilon_spent']:.12g} of {sums['epsilon_limit']:.12g}; "
            f"{'both sums count' if share else 'one of the two sums within its limit is enough'}."
        )
    notes = [f"Divergences at order {sums['order']:.6g}. {pure}"]
    if not share:
        notes.append(
            f"Spent so far: epsilon {sums['spent_epsilon']:.6g} of {statement['epsilon']:.12g} at "
            f"delta {statement['delta']:.12g}."
        )
    if sums["failures_limit"]:
        notes.append(_say_failures(sums["failures_limit"], sums["failures_spent"]))
    return notes


def _say_failures(limit: float, spent: float) -> str:
    return f"Delta for labels that nobody listed (failures): {spent:.6g} of {limit:.6g} is spent."


def say_night(detail: Mapping[str, object]) -> dict[str, str]:
    """Return which part and which run a charge is of, as it is recorded; empty where it is not."""
    run = detail.get("run") or detail.get("study")
    # Whoever may charge the account may have written something else there.
    named = run.get("id", run.get("run")) if type(run) is dict else None
    return {"part": str(detail.get("part") or ""), "run": str(named or "")}


_COLUMNS = (
    *("account", "parent", "adjacency", "unit", "source", "measure"),
    *("limit", "spent", "remaining"),
)


def list_accounts(url: str, account: str | None = None) -> list[Statement]:
    """Return all accounts of a ledger, or one of them, without their charges."""
    names = Ledger.accounts(url) if account is None else [account]
    return [Ledger.open(url, account=name).statement(charges=False) for name in names]


def write_amounts(statements: Sequence[Statement], form: str | None) -> None:
    """Write accounts with what remains in each, as it counts it."""
    told = [statement.to_dict() for statement in statements]
    write_rows(form, _COLUMNS, [{name: one[name] for name in _COLUMNS} for one in told], {}, [])


def write_accounts(statements: Sequence[Statement], form: str | None) -> None:
    """Write what is left in each account, in a line each."""
    if choose_format(form) != "table":
        names = (*_COLUMNS, "epsilon", "delta", "spent_share", "releases_left", "example_epsilon")
        rows = []
        for one in statements:
            told = one.to_dict()
            told["releases_left"] = told["examples"]["releases"]
            told["example_epsilon"] = told["examples"]["epsilon"]
            rows.append({name: told[name] for name in names})
        write_rows(form, names, rows, {}, [])
        return
    lines = [
        {
            "account": one.account,
            "spent": f"{draw_bar(one.spent_share)} {write_spent(one.spent_share)}",
            "left": (
                f"converted into {one.successor}"
                if one.successor is not None or one.examples is None
                else one.examples.say() + _say_part_to_come(one)
            ),
            "table": one.source,
        }
        for one in statements
    ]
    write_rows(form, ("account", "spent", "left", "table"), lines, {}, [])


def _say_part_to_come(one: Statement) -> str:
    return "" if one.parts is None else f" for each {one.parts.cut} to come"


def find_watched(url: str, statements: Sequence[Statement]) -> list[Statement]:
    """Return the accounts without the shares of series, which are spent as they were meant."""
    return [
        one
        for one in statements
        if one.parent is None or "series" not in Ledger.open(url, account=one.account).made_for
    ]


def find_spent_share(one: Statement) -> Fraction:
    """Return which share is spent; of an account with parts that of a part to come."""
    return one.spent_share if one.parts is None else one.parts.untouched.spent


def find_paying(url: str, statements: Sequence[Statement]) -> list[Statement]:
    """Return the accounts that pay, once each: of a converted one that which goes on for it."""
    # What goes on for another one has a delta, and is never converted itself.
    found = [
        one if one.successor is None else list_accounts(url, one.successor)[0] for one in statements
    ]
    return list({one.account: one for one in found}.values())


def refuse_below(least: Fraction | None, url: str, statements: Sequence[Statement]) -> None:
    """End the command with an exit code of its own where less is left than a share.

    Raises
    ------
    click.exceptions.Exit
        If it is. Of an account that was converted, the one that goes on for it is judged.
    """
    if least is None:
        return
    before = {one.successor: one.account for one in statements if one.successor is not None}
    low = [
        one.account + (f" (goes on for {before[one.account]})" if one.account in before else "")
        for one in find_paying(url, statements)
        if 1 - find_spent_share(one) < least
    ]
    if low:
        say(f"Less than {write_percent(least)} of the budget is left: {', '.join(low)}.")
        raise click.exceptions.Exit(ALMOST_SPENT)


# ---- metrics -------------------------------------------------------------------------------------

_METRICS = {
    "sordino_account_budget_spent_ratio": "Share of the budget that is spent, from 0 to 1; "
    "with parts, of a part to come.",
    "sordino_account_epsilon_limit": "Epsilon of the guarantee of the account.",
    "sordino_account_delta_limit": "Delta of the guarantee of the account.",
    "sordino_account_spent": "What is spent, in the measure of the account.",
    "sordino_account_limit": "What may be spent, in the measure of the account.",
    "sordino_account_unlisted_spent_ratio": "Share of the delta for labels that nobody listed "
    "(failures) that is spent.",
    "sordino_account_releases_left": "How many more releases of this epsilon fit; with parts, "
    "for a part to come.",
    "sordino_account_converted": "1: the successor goes on for this account.",
}
"""What each metric means, in the order in which they are written."""


def write_metrics(url: str, statements: Sequence[Statement]) -> None:
    """Write accounts in the text format that Prometheus reads.

    Of one that was converted its successor is named, and told of in its place.
    """
    lines = []
    paying = find_paying(url, statements)
    # What the ledger calls itself: an address may hold a password.
    shown = Ledger.open(url, account=paying[0].account).url if paying else ""
    samples = [
        sample
        for one in paying
        for sample in _list_samples({"ledger": shown, "account": one.account}, one)
    ]
    for one in statements:
        if one.successor is not None:
            labels = {"ledger": shown, "account": one.account, "successor": one.successor}
            samples.append(("sordino_account_converted", labels, "1"))
    for name, meaning in _METRICS.items():
        own = [(labels, value) for metric, labels, value in samples if metric == name]
        if own:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge"]
        lines += [f"{name}{{{_join_labels(labels)}}} {value}" for labels, value in own]
    write_lines(lines)


def _list_samples(
    labels: dict[str, str], statement: Statement
) -> list[tuple[str, dict[str, str], str]]:
    told = statement.to_dict()
    measured = labels | {"measure": statement.measure}
    found = [
        ("budget_spent_ratio", labels, float(find_spent_share(statement))),
        ("epsilon_limit", labels, told["epsilon"]),
        ("delta_limit", labels, told["delta"]),
        ("spent", measured, told["spent"]),
        ("limit", measured, told["limit"]),
    ]
    sums, ends = told.get("failures"), ("limit", "spent")
    if "renyi" in told:
        sums, ends = told["renyi"], ("failures_limit", "failures_spent")
    if sums and sums[ends[0]]:
        found.append(("unlisted_spent_ratio", labels, sums[ends[1]] / sums[ends[0]]))
    examples = told["examples"]
    at = labels | {"epsilon": f"{examples['epsilon']:g}"}
    many = examples["releases"]
    found.append(("releases_left", at, float("inf") if many is None else many))
    return [(f"sordino_account_{name}", own, _write_value(value)) for name, own, value in found]


def _write_value(value: float) -> str:
    return "+Inf" if value == float("inf") else repr(value)


def _join_labels(labels: dict[str, str]) -> str:
    escaped = {
        name: value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
        for name, value in labels.items()
    }
    return ",".join(f'{name}="{value}"' for name, value in escaped.items())


@click.command("add-parts", cls=Command)
@account_options
@click.option(
    "--parts",
    type=click.Choice([*CUTS]),
    required=True,
    help="The cut of one of the columns that the account protects by.",
)
def give_account_parts(url: str, account: str, parts: str) -> None:
    """Give an account a budget for each day (hour, month, year) from now on, which had one for all.

    What was spent counts in each of them, those to come too. Its shares are given parts as well.
    """
    opened = Ledger.open(url, account=account)
    opened.add_parts(parts)
    say(
        f"Account {account} has a budget for each {parts} from now on. What it has spent counts in "
        "each of them. Jobs that have it open must open it again."
    )


@click.command("close", cls=Command)
@account_options
@click.option(
    "--until", metavar="DAY", required=True, help="The last day (or hour, month, year) that closes."
)
@FORMAT
def close(url: str, account: str, until: str, form: str | None) -> None:
    """Close the parts of all accounts of a ledger up to a day, for good.

    They take nothing more, and what is read of the whole table leaves their rows out. It is for the
    end of late rows, and for a copy of the ledger that was put back: what it has forgotten lies in
    parts that are closed then, if since the copy nothing read the whole table or a later part, and
    no share was given.
    """
    opened = Ledger.open(url, account=account)
    told = opened.statement(charges=False).parts
    if told is None:
        raise InvalidParameter(
            f"Account {account!r} must have parts (ledger create --parts); it has none."
        )
    closed = opened.close_parts(read_parts(until, told.cut).high)
    rows = [{"account": name, "closed": last} for name, last in closed.items()]
    write_rows(form, ("account", "closed"), rows, {}, [])


@click.command(cls=Command)
@REQUIRED_LEDGER
@DETAILS
@FORMAT
def accounts(url: str, details: bool, form: str | None) -> None:
    """List the accounts of a ledger with what remains in each."""
    (write_amounts if details else write_accounts)(list_accounts(url), form)
