"""`sordino report` and `sordino ledger report`: what was released and what was spent, as a page."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import click

from sordino.cli.accounts import DECLARATION, TABLE, account_options, find_payer
from sordino.cli.once import Command
from sordino.cli.options import gather
from sordino.cli.output_file import OUTPUT, OutputFile
from sordino.cli.stderr import say
from sordino.cli.write import write_document
from sordino.constraints import shown
from sordino.errors import InvalidParameter, LedgerError
from sordino.ledger import Ledger
from sordino.record_text import make_document
from sordino.statements.document import PublicStatement
from sordino.statements.owner import read_small_text

_MOST_BYTES = 1 << 26
NOT_WRITTEN = (
    "The report could not be written. Nothing was charged: the same command writes it again."
)


@final
@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """What a page says beside what was released, and where it is written."""

    title: str | None
    about: str | None
    statement: str | None
    docs: str | None
    output: OutputFile | None


page_options = gather(
    "page",
    PageOptions,
    click.option("--title", metavar="TEXT", help="What stands above the page."),
    click.option(
        "--about",
        metavar="FILE",
        help="A text about the table, for readers who have never heard of it.",
    ),
    click.option(
        "--statement",
        metavar="FILE",
        help="The statement that `sordino ledger publish` has written.",
    ),
    click.option(
        "--docs",
        metavar="URL",
        help="Where the documentation of sordino is published, for links to the pages of proofs.",
    ),
    OUTPUT,
)


@click.command(cls=Command)
@click.argument("results", metavar="RESULT.json...", nargs=-1, required=True)
@click.option("--ledger", "url", metavar="URL", help="Show an account as well: its ledger.")
@click.option("--account", metavar="NAME", help="Show an account as well: its name.")
@TABLE
@DECLARATION
@page_options
def report(
    results: tuple[str, ...],
    *,
    url: str | None,
    account: str | None,
    table: str | None,
    declaration: str | None,
    page: PageOptions,
) -> None:
    """Write a page in HTML about releases, from the JSON that --format json has printed of them.

    The results.json of a run of a study will do as well.

    One file that loads nothing and runs nothing. It costs nothing, and reads no table. It needs the
    extra `report`.
    """
    if table is not None or declaration is not None:
        url, account = find_payer(table, declaration, url, account, named="--table")
    if (url is None) != (account is None):
        raise InvalidParameter("--ledger and --account go together: both or neither must be given.")
    opened = None if url is None or account is None else Ledger.open(url, account=account)
    releases = [release for path in results for release in read_results(path)]
    _refuse_repeated(releases)
    if opened is not None:
        check_kept(opened, releases)
    _write_page(opened, releases, page)


@click.command("report", cls=Command)
@account_options
@click.option(
    "--with-releases",
    is_flag=True,
    help="Show what was released with --keep as well, the newest 200.",
)
@page_options
def report_account(url: str, account: str, with_releases: bool, page: PageOptions) -> None:
    """Write a page in HTML about an account.

    It says who spent what on which day, what is left, and how long it lasts.

    It costs nothing. It needs the extra `report`.
    """
    # An account is shown without what makes pages.
    from sordino.report.read import MOST_RELEASES

    opened = Ledger.open(url, account=account)
    # The newest, where there are more than a page takes.
    releases = list_kept(opened)[-MOST_RELEASES:] if with_releases else []
    _write_page(opened, releases, page)


def list_kept(opened: Ledger) -> list[dict[str, Any]]:
    """Return the releases that the ledger has kept, oldest first, as `--format json` shows them."""
    kept = []
    for line in opened.statement().charges:
        for part in range(1, line.kept + 1):
            record = opened.read_release(line.id, part=part)
            kept.append({**record.facts, "rows": list(record.rows)})
    return kept


def check_kept(opened: Ledger, releases: Iterable[Mapping[str, Any]]) -> None:
    """Refuse a release that the ledger has kept with other figures.

    A file of it may have been edited.

    How many the ledger has not kept, so that nobody can compare them, is said on stderr.

    Raises
    ------
    LedgerError
        If there is one.
    """
    unknown = 0
    lines = {line.id: line for line in opened.statement().charges if line.kept}
    for release in releases:
        line = lines.get(str(release.get("id")))
        # What a program has made of a release has another form than what the command prints.
        if line is None or "schema" not in release:
            unknown += 1
            continue
        asked = line.detail.get("batch")
        # Of a batch a program may have kept some releases, and printed others.
        if release.get("kept") is not True and line.kept < (
            len(asked) if isinstance(asked, list) else 1
        ):
            unknown += 1
            continue
        records = (opened.read_release(line.id, part=part) for part in range(1, line.kept + 1))
        if _as_kept(release) not in [_as_kept(make_document(record)) for record in records]:
            raise LedgerError(
                f"A result of charge {line.id} must be what the ledger has kept of it; its file "
                "says something else, as if it had been edited. Print it again: sordino ledger "
                f"release {line.id}."
            )
    if unknown:
        say(
            f"{unknown} of the results could not be compared: the ledger has kept nothing of them "
            "(--keep). The page shows them as their files say."
        )


def _as_kept(release: Mapping[str, Any]) -> dict[str, Any]:
    """Return a release without the word on whether it was kept: it may have been kept later."""
    return {name: value for name, value in release.items() if name != "kept"}


def read_results(path: str) -> list[Mapping[str, Any]]:
    """Return the releases in a file: one JSON object, a list of them, or `results.json` of a run.

    Raises
    ------
    InvalidParameter
        If the file cannot be read, or holds something else.
    """
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
    # A name with a zero byte is no OSError.
    except (OSError, ValueError):
        raise InvalidParameter(
            f"RESULT must be a file that can be read; got {shown(path)}."
        ) from None
    if len(raw) > _MOST_BYTES:
        raise InvalidParameter(
            f"RESULT must have at most {_MOST_BYTES} bytes; {shown(path)} has more."
        )
    try:
        found = json.loads(
            raw.decode("utf-8-sig"), parse_constant=lambda _: math.nan, object_pairs_hook=_name_once
        )
    # What is no UTF-8, or a number that is too long, is a ValueError.
    except (ValueError, RecursionError):
        raise InvalidParameter(
            f"RESULT must be JSON, as --format json prints it; {shown(path)} is not."
        ) from None
    if isinstance(found, dict) and isinstance(found.get("releases"), list):
        # What a run of a study, or a figure of several columns, has written: all of its releases.
        found = found["releases"]
    listed = found if isinstance(found, list) else [found]
    if not listed or not all(isinstance(one, dict) for one in listed):
        raise InvalidParameter(
            "RESULT must hold a release, or a list of releases, as --format json prints it, or be "
            f"the results.json of a run; {shown(path)} holds something else."
        )
    return listed


def _name_once(listed: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON, in which no name stands twice.

    Readers would not agree on its value.
    """
    made = dict(listed)
    if len(made) < len(listed):
        raise ValueError
    return made


def _refuse_repeated(releases: Iterable[Mapping[str, Any]]) -> None:
    """Refuse a release that is handed over twice: the page would add up its cost twice.

    Raises
    ------
    InvalidParameter
        If one that was charged is.
    """
    seen: list[Mapping[str, Any]] = []
    for release in releases:
        # Without a charge two releases may well say the same.
        if release.get("id") is None:
            continue
        plain = _as_kept(release)
        if plain in seen:
            raise InvalidParameter(
                "RESULT must hold each release once; got a release of charge "
                f"{shown(release['id'])} twice. Leave out one of the files."
            )
        seen.append(plain)


def _write_page(opened: Ledger | None, releases: list[Any], page: PageOptions) -> None:
    from sordino.report import make_report

    said = None
    if page.statement is not None:
        said = PublicStatement.from_text(read_small_text(page.statement, "The file of --statement"))
        if opened is not None:
            # An edited one would stand beside the digest of what was promised.
            opened.check_statement(said).raise_if_broken()
    written = make_report(
        releases,
        account=None if opened is None else opened.statement().to_dict(),
        title=page.title,
        about=None if page.about is None else read_small_text(page.about, "The file of --about"),
        statement=said,
        docs=page.docs,
    )
    if page.output is not None:
        page.output.claim()
    write_document(written, page.output, lost=NOT_WRITTEN)
