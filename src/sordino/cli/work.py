"""Turns the options of a command into what works: a unit, a domain, entropy, an account and a session."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sordino.cli._say import say
from sordino.cli.options import chosen_quiet, exactly_one
from sordino.constraints import shown
from sordino.data import CsvFormat, Domain, PrivacyUnit
from sordino.entropy import SYSTEM, Entropy, Seeded
from sordino.errors import InvalidParameter
from sordino.ledger import Ledger
from sordino.sensitivity import Sensitivity
from sordino.session import Payer, Progress, Session, Uncharged

DROPPED = (
    "By rule, lines that do not parse, rows without a unit and labels outside the domain are dropped; how "
    "many is private."
)
UNRECORDED = "No --ledger was given: nothing remembers what this release spends."
# A whole number of 64 bits has 19 digits at most: a longer text is refused before it is converted.
_LABEL_RANGE = re.compile(r"(-?[0-9]{1,19}):(-?[0-9]{1,19})", re.ASCII)
PATIENCE = 1.0  # seconds before a progress bar appears


def unit_of(*, user: str | None, row_is_unit: bool, max_rows: int | None, adjacency: Any) -> PrivacyUnit:
    """Return the privacy unit that the options name."""
    exactly_one({"--user": user, "--row-is-unit": row_is_unit}, "whom the guarantee protects")
    if user is None:
        if max_rows is not None:
            raise InvalidParameter("--max-rows needs --user: a unit that is a row has one row.")
        return PrivacyUnit.row(adjacency=adjacency)
    return PrivacyUnit(user, adjacency=adjacency, max_rows=max_rows)


def domain_of(
    *,
    domain: str | None,
    domain_column: str | None,
    domain_range: str | None,
    domain_sql: str | None,
    assume_public: bool,
) -> Domain:
    """Return the public domain that the options name."""
    given = {
        "--domain": domain,
        "--domain-range": domain_range,
        "--domain-sql": domain_sql,
        "--assume-public": assume_public,
    }
    which = exactly_one(given, "which labels may be released")
    if domain_column is not None and which != "--domain":
        raise InvalidParameter("--domain-column needs --domain FILE.")
    if which == "--assume-public":
        return Domain.assume_public()
    if domain_range is not None:
        ends = _LABEL_RANGE.fullmatch(domain_range)
        if ends is None:
            raise InvalidParameter(
                f"--domain-range must be two whole numbers A:B; got {shown(domain_range)}."
            )
        return Domain.range(int(ends[1]), int(ends[2]))
    return (
        # Exactly one option was given, so the query is there; the empty text is for the type checker.
        Domain.from_sql(domain_sql or "")
        if domain is None
        else Domain.from_file(domain, column=domain_column)
    )


def entropy_of(*, seed: int | None, synthetic: bool, ledger_url: str | None) -> Entropy:
    """Return the entropy that the options name; a seed is only for sources that are declared synthetic."""
    if seed is None:
        return SYSTEM
    if not synthetic:
        raise InvalidParameter(
            "--seed makes noise predictable and needs --synthetic, which declares that SOURCE holds no real "
            "data."
        )
    if ledger_url is not None:
        raise InvalidParameter(
            "--seed cannot be combined with --ledger: a ledger remembers real releases only."
        )
    return Seeded(seed)


def ledger_of(options: dict[str, Any]) -> Ledger | None:
    """Open the account that the options name."""
    url, account = options["ledger_url"], options["account"]
    if (url is None) != (account is None):
        raise InvalidParameter("--ledger and --account go together; got only one of them.")
    return None if url is None else Ledger.open(url, account=account)


def statement_of(options: dict[str, Any]) -> Sensitivity:
    """Return what the options say about answers that somebody else computed."""
    if options["sensitivity"] is None:
        raise InvalidParameter(
            "--sensitivity must say how far any one answer moves between neighbours; got none."
        )
    return Sensitivity(
        bound=options["sensitivity"],
        monotone=options["monotone"],
        adjacency=options["adjacency"],
        step=options["step"],
    )


@contextmanager
def payer_of(
    options: dict[str, Any],
    mechanism: Any,
    label: str,
    detail: dict[str, Any],
    *,
    unit: PrivacyUnit | None = None,
    allow_approximate: bool = False,
) -> Iterator[Payer]:
    """Charge a mechanism for what comes through a pipe or was computed by somebody else.

    Nothing was read so far.

    The account is the one that was named: whether it is about the people behind these answers cannot be seen
    from here, only whether it protects the `unit` of a release that has one.
    """
    ledger = ledger_of(options)
    if ledger is None:
        if not chosen_quiet(options["quiet"]):
            say(UNRECORDED)
        yield Uncharged()
        return
    # What was left out is not recorded.
    known = {name: value for name, value in detail.items() if value is not None}
    about: dict[str, Any] = {"unit": unit, "adjacency": options["adjacency"]}
    # A block that ends without an error settles the charge; an error leaves all of it charged.
    with ledger.reserve(
        mechanism, label=label, detail=known, allow_approximate=allow_approximate, **about
    ) as charge:
        yield charge


@contextmanager
def session_of(source: str, options: dict[str, Any], rule: str = DROPPED) -> Iterator[Session]:
    """Open the session that the common options describe, and tell the rule for rows that cannot be read."""
    unit = unit_of(**{name: options[name] for name in ("user", "row_is_unit", "max_rows", "adjacency")})
    entropy = entropy_of(**{name: options[name] for name in ("seed", "synthetic", "ledger_url")})
    csv = CsvFormat(delimiter=options["delimiter"], encoding=options["encoding"], null=options["null"])
    ledger = ledger_of(options)
    if not chosen_quiet(options["quiet"]):
        # The same words every time: whether the rule applied to any row is private.
        say(rule)
        if ledger is None:
            say(UNRECORDED)
    with Session(source, unit=unit, ledger=ledger, entropy=entropy, csv=csv) as session:
        yield session


@contextmanager
def shown_progress(quiet: bool | None) -> Iterator[Progress | None]:
    """Yield a callback that draws a bar on stderr once the work has taken a second.

    It is None when stderr stays silent.
    """
    if chosen_quiet(quiet):
        yield None
        return
    started = time.monotonic()
    bar: Any = None
    task: Any = None

    def advance(percent: float) -> None:
        nonlocal bar, task
        # Short work draws nothing.
        if bar is None and time.monotonic() - started < PATIENCE:
            return
        if bar is None:
            from rich.console import Console
            from rich.progress import Progress as Bar

            # The bar disappears at the end; only sentences stay on stderr.
            bar = Bar(console=Console(stderr=True), transient=True)
            task = bar.add_task("reading", total=100)
            bar.start()
        # An engine that does not know yet says a number below 0.
        bar.update(task, completed=max(percent, 0))

    try:
        yield advance
    finally:
        # After an error, too: the bar has hidden the cursor of the terminal.
        if bar is not None:
            bar.stop()
