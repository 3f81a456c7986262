"""Commands with one thing broken each: the laws must convict every one of them, in seconds."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import sordino.cli as cli
from sordino.errors import DataSourceError, InvalidParameter, LedgerError


def _message_quotes_a_field() -> None:
    """A line that is refused is shown."""
    from sordino.sources.csv import answer_lines as lines

    split = lines._AnswerLines._split

    def shown(self: Any, line: bytes) -> tuple[str, bytes]:
        try:
            return split(self, line)
        except DataSourceError as error:
            raise DataSourceError(f"{error} It was {line!r}.") from None

    lines._AnswerLines._split = shown  # type: ignore[method-assign]


def _header_before_the_charge() -> None:
    """The first line of CSV is written as soon as the options are known."""
    from sordino.cli import table

    opened = table.open_session

    @contextmanager
    def early(source: str, unit: Any, csv: Any, run: Any) -> Iterator[Any]:
        if run.form == "csv":
            print("rank,item,estimate,low,high,gap")
        with opened(source, unit, csv, run) as session:
            yield session

    table.open_session = early


def _exit_code_seven() -> None:
    """An error of the ledger has a code of its own that nobody wrote down."""
    known = cli.code_of
    cli.code_of = lambda error: 7 if isinstance(error, LedgerError) else known(error)


def _uncaught() -> None:
    """Errors of the system are left to the interpreter."""
    ended = cli._report_error

    def leave(error: BaseException) -> int:
        if isinstance(error, DataSourceError | OSError):
            raise error
        return ended(error)

    cli._report_error = leave


def _rows_left_in_a_file() -> None:
    """Lines are spilled to a file that nobody removes."""
    from sordino.sources.csv import text_rows

    read = text_rows.kept_blocks

    def spilled(*given: Any) -> Iterator[bytes]:
        descriptor, _ = tempfile.mkstemp()
        for block in read(*given):
            os.write(descriptor, block)
            yield block

    text_rows.kept_blocks = spilled  # type: ignore[assignment]


def _charged_and_refused() -> None:
    """A public option is looked at when the charge is made."""
    from sordino.session import Session

    asked = Session.top_k

    def late(self: Any, item: str, **options: Any) -> Any:
        release = asked(self, item, **options)
        if options["threshold"] is None:
            raise InvalidParameter("--threshold must be given.")
        return release

    Session.top_k = late  # type: ignore[method-assign, assignment]


def _ledger_keeps_a_row() -> None:
    """The detail of a charge holds the beginning of a file."""
    from sordino.cli import markers, select

    pay = select.open_payer

    @contextmanager
    def telling(
        run: Any, mechanism: Any, label: str, detail: dict[str, Any], **more: Any
    ) -> Iterator[Any]:
        with open(detail["source"], "rb") as file:  # noqa: PTH123
            detail["peek"] = file.read(4000).decode("utf-8", "replace")
        with pay(run, mechanism, label, detail, **more) as payer:
            yield payer

    select.open_payer = markers.open_payer = telling


def _a_bad_line_refuses() -> None:
    """A line that does not parse ends the release: its exit code tells one row."""
    from sordino.sources.csv import lines as lines_module

    good = lines_module.kept

    def strict(line: bytes, encoding: Any) -> bool:
        if not good(line, encoding):
            raise DataSourceError("A line does not parse.")
        return True

    lines_module.kept = strict


def _warning() -> None:
    """A library warns about the numbers that it was given."""
    from sordino.sources.csv import answer_lines as lines

    number = lines.read_number

    def warned(text: bytes) -> float:
        value = number(text)
        if value != value:
            warnings.warn(f"no number: {len(text)} bytes", stacklevel=2)
        return value

    lines.read_number = warned


def _nobody_asks_who_pays() -> None:
    """A release without a word about an account goes on without one."""
    from sordino.cli.options import RunOptions
    from sordino.errors import InvalidParameter

    check = RunOptions.__post_init__

    def unasked(self: Any) -> None:
        try:
            check(self)
        except InvalidParameter as error:
            # All other rules about who pays stay.
            if not str(error).startswith("Say who pays"):
                raise

    RunOptions.__post_init__ = unasked  # type: ignore[method-assign]


_INSTALLED: dict[str, Callable[[], None]] = {
    "message-quotes-a-field": _message_quotes_a_field,
    "header-before-the-charge": _header_before_the_charge,
    "exit-code-seven": _exit_code_seven,
    "uncaught": _uncaught,
    "rows-left-in-a-file": _rows_left_in_a_file,
    "charged-and-refused": _charged_and_refused,
    "ledger-keeps-a-row": _ledger_keeps_a_row,
    "a-bad-line-refuses": _a_bad_line_refuses,
    "warning": _warning,
    "nobody-asks-who-pays": _nobody_asks_who_pays,
}


def install(name: str) -> None:
    """Break one thing in this process and those that it forks."""
    _INSTALLED[name]()
