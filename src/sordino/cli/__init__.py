"""The command `sordino`.

Its stdout and its exit code are the release; stderr is for the data holder alone.

Exit codes: 0 released, 2 usage or invalid parameter, 3 budget exceeded, 4 data source, 5 ledger, 6
a claim is broken, 7 released but not kept, 8 a run was paid before and cannot be finished, 1 a bug,
130 interrupted.
"""

from __future__ import annotations

import atexit
import codecs
import gc
import io
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import click

from sordino import errors
from sordino.cli.once import SuggestingGroup
from sordino.cli.output_file import NotKeptError
from sordino.cli.stderr import say
from sordino.constraints import is_unicode
from sordino.scrubbing import scrub

BUG = (
    "sordino stopped because of a defect in itself. Nothing more is released; whatever was charged "
    "stays charged. Please report what you did, without data."
)
SYSTEM = (
    "The operating system refused a file or folder that sordino needs. Nothing more is released; "
    "whatever was charged stays charged."
)
INTERRUPTED = "Interrupted. Nothing more is released; whatever was charged stays charged."
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"
# Each name with its module (and its name there) and its help. Importing a module may load an
# engine, and `--help` must not. A command of another distribution has no module here; an extra of
# its name installs it.
_COMMANDS: dict[str, tuple[str | None, str]] = {
    "top": ("top", "Release the items that the most people have."),
    "above": (
        "above",
        "Release the items, or the answers of a stream, that lie above a threshold.",
    ),
    "count": ("counts", "Release the number of rows, or of people."),
    "histogram": ("counts", "Release the count of every item of a domain."),
    "table": (
        "cross_table:cross_table",
        "Release a table of several columns that adds up, with its margins.",
    ),
    "quantile": ("numbers", "Release quantiles of a column of numbers."),
    "sum": ("numbers:total", "Release the sum of a column of numbers."),
    "mean": ("numbers", "Release the mean of a column of numbers."),
    "variance": (
        "numbers",
        "Release the variance and the standard deviation of a column of numbers.",
    ),
    "remeasure": ("remeasure", "Measure a kept release again, and put both looks together."),
    "randomize": ("randomize", "Release a noisy report of every row of a column."),
    "select": ("select", "Release the best of some candidates with private scores."),
    "declare": ("declare", "Give a table a name, with whom it protects and who pays."),
    "init": ("init", "Write a template (study.toml) for several releases of a table."),
    "run": ("study", "Make all releases of a study, and write them into a folder."),
    "series": ("series", "Running figures of all days so far, every night, for ever."),
    "plan": ("plan", "Say what to expect of a release; nothing is read or charged."),
    "ledger": ("ledger", "Accounts with a budget."),
    "report": ("report", "Write a page about releases: pictures, how sure, what they cost."),
    "verify": ("statement:verify", "Check a statement of what was promised against its ledger."),
    "audit": (None, "Check claims of privacy, of sordino or of any program."),
}


@contextmanager
def _start_lightly() -> Iterator[None]:
    """Spare an import what no command needs; what was set before is set again afterwards."""
    # What is imported stays: to look for garbage among it would only make the start longer.
    collecting = gc.isenabled()
    gc.disable()
    # Nothing here multiplies matrices, and threads for that take a quarter of the start. The
    # library asks once, when it is loaded; programs that a command starts are left alone.
    spared = _BLAS_THREADS not in os.environ
    if spared:
        os.environ[_BLAS_THREADS] = "1"
    try:
        yield
    finally:
        if collecting:
            if _owns_process:
                # Nor later. At the end it is let go: the engine looks for what is left.
                gc.freeze()
                atexit.register(gc.unfreeze)
            gc.enable()
        if spared:
            del os.environ[_BLAS_THREADS]


def _load_own(command: str, home: str) -> click.Command:
    """Return a command of this package by its module, and its name there if it has another one."""
    # Imported here and below, so that the first line of help needs neither.
    from importlib import import_module

    module, _, name = home.partition(":")
    loaded: click.Command = getattr(import_module(f"sordino.cli.{module}"), name or command)
    return loaded


def _load_added(command: str) -> click.Command:
    """Return a command that another distribution adds, as its metadata say."""
    from importlib.metadata import entry_points

    for found in entry_points(group="sordino.commands", name=command):
        loaded: click.Command = found.load()
        return loaded
    raise errors.InvalidParameter(
        f"sordino {command} is a package of its own, which is not installed: "
        f"pip install 'sordino[{command}]'."
    )


class _LazyGroup(SuggestingGroup):
    """A group whose commands are imported when they are called: `--help` costs no engine."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002
        cmd_name: str,
    ) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        home = _COMMANDS[cmd_name][0]
        with _start_lightly():
            return _load_added(cmd_name) if home is None else _load_own(cmd_name, home)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002
        formatter: click.HelpFormatter,
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, short) for name, (_, short) in _COMMANDS.items()])


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(package_name="sordino", message="%(version)s")
def group() -> None:
    """Differentially private answers to "which ones?" and "how big?" about a table.

    Every release says what it cost and how sure it is; a ledger remembers it.
    """


def code_of(error: errors.SordinoError) -> int:
    """Return the exit code that an error of sordino means."""
    if isinstance(error, errors.BudgetExceeded):
        return 3
    if isinstance(error, errors.DataSourceError | errors.UnsupportedBackend):
        return 4
    if isinstance(error, errors.ClaimBroken):
        return 6
    # Neither would a job that tries again be told anything else, nor is the ledger away.
    if isinstance(error, errors.RunTaken):
        return 8
    # A job that takes it for "the ledger is away" would release again, and pay again.
    if isinstance(error, NotKeptError):
        return 7
    return 5 if isinstance(error, errors.LedgerError) else 2


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; says one sentence on stderr if that is not 0."""
    try:
        _prepare_run(sys.argv[1:] if arguments is None else arguments)
        ended = group.main(
            args=None if arguments is None else list(arguments),
            prog_name="sordino",
            standalone_mode=False,
        )
        sys.stdout.flush()
    # Whatever the error is, it may hold private rows. It ends as one fixed sentence.
    except BaseException as error:  # noqa: BLE001
        # What may still fail on the way out must not bring the private rows along.
        scrub(error)
        return _report_error(error)
    # What a command ended with by itself (`click.exceptions.Exit`); most of them return nothing.
    return ended or 0


def _prepare_run(arguments: Sequence[str]) -> None:
    """Refuse what would only fail after the charge, and let stdout take every label.

    Refused are a closed stdout, and arguments that are no text.
    """
    # Python sets a stream to None that was closed when the process began.
    if sys.stderr is None:
        sys.stderr = _open_null_stream()
    if sys.stdout is None:
        sys.stdout = _open_null_stream()
        raise errors.InvalidParameter("stdout must be open: it takes the release.")
    for argument in arguments:
        if not is_unicode(argument):
            raise errors.InvalidParameter(
                f"Arguments must be text in the encoding of this terminal; got {argument!a}."
            )
    if isinstance(sys.stdout, io.TextIOWrapper):
        codecs.register_error("sordino.spelled", _spell_unencodable)
        sys.stdout.reconfigure(errors="sordino.spelled")


def _open_null_stream() -> Any:
    """Return a stream that keeps nothing.

    It stays open for the rest of the process. Nobody closes its descriptor, and so nobody warns of
    that.
    """
    return open(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8", closefd=False)


def _spell_unencodable(error: UnicodeError) -> tuple[str, int]:
    """Spell characters that the encoding of stdout lacks as JSON does.

    A release is not lost because of a label.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{text[i]:02x}{text[i + 1]:02x}" for i in range(0, len(text), 2)), error.end


def _report_error(error: BaseException) -> int:
    """Say the one sentence that an error deserves and return its exit code."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    # An engine that is interrupted raises errors of its own. But if a signal came while a release
    # was to be kept, the release was written: the job must know.
    written = isinstance(error, NotKeptError)
    if (_received_signals and not written) or isinstance(error, click.Abort | KeyboardInterrupt):
        say(INTERRUPTED)
        return 130
    # Click leaves this way when the reader of stdout has gone.
    if isinstance(error, BrokenPipeError | SystemExit):
        # What is still buffered must not fail once more while the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    if isinstance(error, click.ClickException):
        with suppress(OSError):  # nothing about stderr decides an exit code
            error.show()
        return 2
    if isinstance(error, errors.SordinoError):
        say(f"Error: {error}")
        return code_of(error)
    say(SYSTEM if isinstance(error, OSError) else BUG)
    return 4 if isinstance(error, OSError) else 1


_owns_process: list[bool] = []
"""Not empty where the command is the whole program, and is not called by another one."""

_received_signals: list[int] = []
"""The signals that came."""

_final_exit_code: list[int] = []
"""The exit code, once it is known. No signal changes it then."""


def _receive_signal(number: int, _frame: Any) -> None:
    _received_signals.append(number)
    if not _final_exit_code:
        raise KeyboardInterrupt


def _flush_or_drop(place: int, stream: Any) -> None:
    """Flush a stream; where that fails, as on a full disk, drop what it holds.

    Otherwise it would fail once more while the interpreter ends, and decide the exit code.
    """
    try:
        stream.flush()
    except (OSError, ValueError):  # full, gone, or closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), place)


def main() -> None:
    """Run the command and leave with its exit code."""
    # What is raised where nobody can catch it (in a callback of an engine, in a finalizer) Python
    # would print with all that stands there.
    sys.unraisablehook = lambda _: None
    _owns_process.append(True)
    try:
        _install_signal_handlers()
        code = run()
        for place, stream in ((1, sys.stdout), (2, sys.stderr)):
            _flush_or_drop(place, stream)
        _final_exit_code.append(code)
    except KeyboardInterrupt:
        # A signal before anything was done, or one more while the first was answered.
        _final_exit_code.append(130)
    if _final_exit_code[0] == 130:
        os._exit(130)  # a second interrupt must not find a half closed interpreter
    sys.exit(_final_exit_code[0])


def _install_signal_handlers() -> None:
    """Treat all signals alike: private folders are removed on the way out."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # nohup, and shells for what runs in the background, ask that a signal stays ignored.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _receive_signal)
