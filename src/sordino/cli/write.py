"""How a release leaves the command: kept in the ledger if that was asked for, then written.

It is kept first: whatever becomes of stdout, of the file or of the process then, it can be printed
again. With `--run-id` it is paid once, however often its command is started, by the rules of a run
of a study (docs/decisions/0029-studies.md): what was paid and not kept is lost, because a second
draw of noise for the price of one would tell more than was paid for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import click

from sordino.address import without_password
from sordino.cli.options import DECLARED, RunOptions, is_quiet
from sordino.cli.output import write_lines, write_records
from sordino.cli.output_file import NotKeptError, OutputFile
from sordino.cli.stderr import say
from sordino.errors import DataSourceError, RunLost, RunTaken
from sordino.ledger import ChargeLine, Ledger
from sordino.ledger.account.identity import canonical_source
from sordino.ledger.history import chained
from sordino.record import Record
from sordino.results.legend import Paid, say_short
from sordino.unit_columns import narrow_odds

KEPT = (
    "Kept in the ledger: sordino ledger release prints it again, and whoever may read the ledger "
    "may read it."
)
NOT_KEPT = (
    "The release was written, but the ledger did not say that it has kept it: take what was "
    "written for the only copy. Its charge stays; do not release it again for that."
)
KEPT_AND_LOST = (
    "The release could not be written, but the ledger has kept it: sordino ledger show has its id, "
    "and sordino ledger release prints it again."
)
_MOST_LOOKS = 100
"""Of more looks at one figure nobody is told what they took together."""


def write_release(record: Record, run: RunOptions, keep: Callable[[Record], None]) -> None:
    """Keep a release if that was asked for, then write it to stdout or to the file of `--output`.

    Parameters
    ----------
    record : Record
        The release.
    run : RunOptions
        Where it goes, and in which format.
    keep : callable
        Keeps a record in the ledger.

    Raises
    ------
    NotKeptError
        If it was written, and not kept.
    DataSourceError
        If it could not be written. The charge stays.
    """
    write_releases([(record, keep)], run)


def write_releases(
    releases: Sequence[tuple[Record, Callable[[Record], None]]], run: RunOptions
) -> None:
    """Keep and write releases of one charge, as `write_release` does one."""
    records = [record for record, _ in releases]
    _say_odds(records[0], run)
    # A second start of a run is answered from what is kept.
    if not run.keep and run.run_id is None:
        write_records(records, run.chosen_form, run.output, notes=_say_below(records, run))
        return
    # What is kept says so, too: it is printed again to the last letter.
    kept = [
        replace(record, facts={**record.facts, "kept": True}, notes=[*record.notes, KEPT])
        for record in records
    ]
    # Those behind one that cannot be kept could not be found by their number.
    if all(_was_kept(one, keep) for one, (_, keep) in zip(kept, releases, strict=True)):
        write_kept(kept, run.chosen_form, run.output, _say_below(kept, run))
        return
    lost = [replace(record, facts={**record.facts, "kept": False}) for record in records]
    write_records(lost, run.chosen_form, run.output, notes=_say_below(records, run))
    raise NotKeptError(NOT_KEPT)


def _say_below(records: Sequence[Record], run: RunOptions) -> list[list[str] | None]:
    """Return the lines below each table; None where all of its notes stand there."""
    if run.details or run.chosen_form != "table":
        return [None for _ in records]
    paid = _find_paid(records[0], run)
    lines = [say_short(record, paid) for record in records]
    last, facts = lines[-1], records[-1].facts
    # By its id it can be printed again.
    kept = f" Kept: {facts['id']}." if facts.get("kept") else ""
    # What all of them cost is said once.
    others = [one and one[:-1] for one in lines[:-1]]
    return [*others, last and [*last[:-1], f"{last[-1]}{kept} More: --details."]]


def _find_paid(record: Record, run: RunOptions) -> Paid | None:
    """Return what the account says of a release: its share of it, and how many more like it fit."""
    try:
        # Imported here: JSON and CSV do not say it.
        from sordino.ledger.left import write_spent

        ledger = open_account(run)
        if ledger is None:
            return None
        key = record.facts["id"]
        left, line = ledger.find_left(key), ledger.charge(key)
        budget, looks = float(ledger.statement(charges=False).epsilon), _add_looks(ledger, line)
        said = None if looks is None else write_spent(looks)
        return Paid(budget, write_spent(line.share), left.say_more(), said)
    # As with what is kept: the release was paid for, and is written whatever a ledger does now.
    except (Exception, KeyboardInterrupt):  # noqa: BLE001
        return None


def _add_looks(ledger: Ledger, line: ChargeLine) -> Fraction | None:
    """Return which share of the budget all looks took that end with this one.

    None where it is the only one, or one of them was charged together with something else.
    """
    looks = [line]
    while (before := looks[-1].detail.get("remeasures")) is not None:
        looks.append(ledger.charge(before))
        # Whoever may charge the account may have written a circle.
        if "batch" in looks[-1].detail or len(looks) > _MOST_LOOKS:
            return None
    return sum((one.share for one in looks), Fraction(0)) if len(looks) > 1 else None


def _say_odds(record: Record, run: RunOptions) -> None:
    """Say on stderr what the release may teach about somebody, where its cost has an epsilon."""
    # Of several looks, or figures, the reader sees what all of them say together.
    wholes = [whole for whole in ("charge_", "total_") if f"{whole}epsilon" in record.facts]
    whole = wholes[0] if wholes else ""
    epsilon, delta = (record.facts.get(f"{whole}{name}") for name in ("epsilon", "delta"))
    if epsilon and not is_quiet(run.quiet):
        # Imported here: most releases are made by a program, which is told nothing.
        from sordino.cost import Approximate
        from sordino.cost.odds import say_odds_of

        said = say_odds_of(Approximate(epsilon=epsilon, delta=delta or 0))
        say(narrow_odds(said, record.facts.get("unit"), record.facts.get("called")))


def _was_kept(record: Record, keep: Callable[[Record], None]) -> bool:
    """Keep a record; tell whether that was possible."""
    try:
        keep(record)
    # A ledger that is away, a release that is too long for it, a defect: none may lose what was
    # paid for. Nor may a signal that ends the wait for a ledger: the release is written first. One
    # more signal ends that.
    except (Exception, KeyboardInterrupt):  # noqa: BLE001
        return False
    return True


def write_document(text: str, output: OutputFile | None, *, lost: str) -> None:
    """Write a text that costs nothing to stdout, or to a file that was claimed.

    Raises
    ------
    DataSourceError
        With the sentence `lost`, if that is not possible.
    """
    try:
        if output is None:
            write_lines([text.removesuffix("\n")])
        else:
            output.add(text)
            output.finish()
    except DataSourceError:
        raise DataSourceError(lost) from None


def write_kept(
    records: Sequence[Record],
    form: str,
    output: OutputFile | None,
    notes: Sequence[Sequence[str] | None] = (None,),
) -> None:
    """Write what is kept already; where that fails nothing is lost, and the sentence says so."""
    try:
        write_records(records, form, output, notes=notes)
    except DataSourceError:
        raise DataSourceError(KEPT_AND_LOST) from None


def say_kept(record: Record, form: str, *, details: bool) -> list[str] | None:
    """Return the lines below a release that is printed again; None where all notes stand there."""
    if details or form != "table":
        return None
    try:
        said = say_short(record)
    # Whoever may charge the account may have written something else there.
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None
    return said and [*said[:-1], f"{said[-1]} More: --details."]


# ---- runs ----------------------------------------------------------------------------------------

_ASIDE = frozenset(
    {
        *("ledger_url", "account", "no_ledger", "declared", "date", "run_id", "consent"),
        *("form", "wide", "output", "keep", "quiet", "details", "memory_limit", "temp_limit"),
    }
)
"""Options that say nothing of what is released. Of a declared table its options stand beside."""
_PLACES = frozenset({"source", "domain", "domain_sql_file"})


def open_account(run: RunOptions) -> Ledger | None:
    """Open the account that the options name, if they name one; with --run-id it pays once."""
    # Both or none: `RunOptions` has looked at that.
    if run.ledger_url is None or run.account is None:
        return None
    opened = Ledger.open(run.ledger_url, account=run.account)
    return opened if run.run_id is None else opened.for_run(*_describe_run(run.run_id))


def write_again(run: RunOptions) -> bool:
    """Write what a run has released before; tell whether it was paid.

    Nothing is charged, and the rows are not needed any more.

    Raises
    ------
    RunTaken
        If it was paid for another request.
    RunLost
        If the ledger has not kept its release, or not yet.
    """
    ledger = None if run.run_id is None else open_account(run)
    if ledger is None or run.run_id is None:
        return False
    key, about = _describe_run(run.run_id)
    line = ledger.find_run(key)
    if line is None:
        return False
    # Whoever may charge the account may have written something else there.
    if line.detail.get("run") != about["run"]:
        raise RunTaken(
            f"Run {run.run_id!r} was paid for another request (charge {line.id}). Nothing was "
            "charged now: take another run id (--run-id), or ask the same."
        )
    # Whoever may charge the account may have written something else there.
    batch = line.detail.get("batch")
    parts = len(batch) if isinstance(batch, list) else 1
    if line.kept < parts:
        raise RunLost(
            f"Run {run.run_id!r} was paid before (charge {line.id}, {line.state}), and the ledger "
            "has not kept its release. Nothing was charged now. If a start of it is still running, "
            "wait for it; else the release is lost, and another run id (--run-id) pays for a new "
            f"one.{line.say_give_up(ledger.account)}"
        )
    run.claim_output()
    kept = [ledger.read_release(line.id, part=part) for part in range(1, parts + 1)]
    write_kept(kept, run.chosen_form, run.output, _say_below(kept, run))
    return True


def _describe_run(run_id: str) -> tuple[str, dict[str, dict[str, str]]]:
    """Return the name of a run in its account, and what the ledger records of it."""
    ctx = click.get_current_context()
    declared = ctx.meta.get(DECLARED)
    # A declared table is the same one on each machine, and for whoever starts from another folder.
    base = None if declared is None else Path(declared.document.path).absolute().parent
    usual = {one.name: one.default for one in ctx.command.params}
    # What is as usual is left out: a later version may have more options.
    asked = {
        name: _place_from(value, base) if name in _PLACES else value
        for name, value in ctx.params.items()
        if name not in _ASIDE and value not in (None, (), usual[name])
    }
    for name in ("date", "part"):
        # Tomorrow it is another day, and so another request. `remeasure` has numbers of parts.
        if isinstance(day := asked.get(name), str) and day.startswith("today"):
            # Imported here: most requests name no day.
            from sordino.study.declaration import read_day

            asked[name] = read_day(day, f"--{name}").isoformat()
    # What is looked up is asked for as well, though nobody types it.
    if declared is not None and declared.lookups:
        asked["lookup"] = {
            name: [_place_from(str(one.path), base), one.key, one.of, one.private]
            for name, one in declared.lookups.items()
        }
    # A shape, or a table. In a filter the signs of an address are a text like any other.
    if "like" in asked:
        asked["like"] = _hide(asked["like"])
    # Exact numbers are written as texts.
    said = json.dumps([ctx.command.name, asked], default=str, sort_keys=True)
    # No study has a name with a space: its runs have names of their own.
    return f"release {run_id}", {"run": {"id": run_id, "digest": chained(said)}}


def _place_from(value: object, base: Path | None) -> object:
    """Return a path, or several, as the same file has it from everywhere."""
    if isinstance(value, tuple):
        return [_place_from(one, base) for one in value]
    if not isinstance(value, str) or "://" in value:
        return _hide(value)
    place = canonical_source(value)
    return os.path.relpath(place, base) if base is not None and place.startswith("/") else place


def _hide(value: object) -> object:
    """Return an address without user and password; anything else as it is."""
    return without_password(value) if isinstance(value, str) and "://" in value else value
