"""How a release leaves the command: kept in the ledger if that was asked for, then written.

It is kept first: whatever becomes of stdout, of the file or of the process then, it can be printed again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sordino.cli.options import RunOptions, is_quiet
from sordino.cli.output import write_lines, write_sheet
from sordino.cli.output_file import NotKeptError, OutputFile
from sordino.cli.stderr import say
from sordino.errors import DataSourceError
from sordino.sheet import Sheet

KEPT = (
    "Kept in the ledger: sordino ledger release prints it again, and whoever may read the ledger may read it."
)
NOT_KEPT = (
    "The release was written, but the ledger did not say that it has kept it: take what was written for the "
    "only copy. Its charge stays; do not release it again for that."
)
KEPT_AND_LOST = (
    "The release could not be written, but the ledger has kept it: sordino ledger show has its id, and "
    "sordino ledger release prints it again."
)


def write_release(sheet: Sheet, run: RunOptions, keep: Callable[[Sheet], None]) -> None:
    """Keep a release if `--keep` asks for it, then write it to stdout or to the file of `--output`.

    Parameters
    ----------
    sheet : Sheet
        The release.
    run : RunOptions
        Where it goes, and in which format.
    keep : callable
        Keeps a sheet in the ledger.

    Raises
    ------
    NotKeptError
        If it was written, and not kept.
    DataSourceError
        If it could not be written. The charge stays.
    """
    _say_odds(sheet, run)
    if not run.keep:
        write_sheet(sheet, run.chosen_form, run.output)
        return
    # What is kept says so, too: it is printed again to the last letter.
    kept = replace(sheet, facts={**sheet.facts, "kept": True}, notes=[*sheet.notes, KEPT])
    if _was_kept(kept, keep):
        write_kept(kept, run.chosen_form, run.output)
        return
    write_sheet(replace(sheet, facts={**sheet.facts, "kept": False}), run.chosen_form, run.output)
    raise NotKeptError(NOT_KEPT)


def _say_odds(sheet: Sheet, run: RunOptions) -> None:
    """Say on stderr what the release may teach a reader about somebody, where its cost has an epsilon."""
    # Of several looks the reader sees what all of them say together.
    all_looks = "total_" if "total_epsilon" in sheet.facts else ""
    epsilon, delta = (sheet.facts.get(f"{all_looks}{name}") for name in ("epsilon", "delta"))
    if epsilon and not is_quiet(run.quiet):
        # Imported here: most releases are made by a program, which is told nothing.
        from sordino.cost import Approximate
        from sordino.cost.odds import say_odds_of

        say(say_odds_of(Approximate(epsilon=epsilon, delta=delta or 0)))


def _was_kept(sheet: Sheet, keep: Callable[[Sheet], None]) -> bool:
    """Keep a sheet; tell whether that was possible."""
    try:
        keep(sheet)
    # A ledger that is away, a release that is too long for it, a defect: none may lose what was paid for. Nor
    # may a signal that ends the wait for a ledger: the release is written first. One more signal ends that.
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


def write_kept(sheet: Sheet, form: str, output: OutputFile | None) -> None:
    """Write what is kept already; where that fails nothing is lost, and the sentence says so."""
    try:
        write_sheet(sheet, form, output)
    except DataSourceError:
        raise DataSourceError(KEPT_AND_LOST) from None
