"""A command as a black box: one run is one process; its outcome is what it prints and its exit code.

Claim: none of its own. A run that does not end in time ends the audit: how long a run takes depends on what
else the machine does.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, final

from sordino.audit.black_boxes.runs import NoOutcomeError
from sordino.constraints import POSITIVE, TRUTH, text
from sordino.errors import InvalidParameter

_KEPT_CHARACTERS = 1 << 20


class Said(NamedTuple):
    """What one run of a command left behind.

    `stderr` is empty unless it was asked for. Texts are cut after 2^20 characters; `length` counts both
    uncut.
    """

    exit_code: int
    stdout: str
    stderr: str
    length: int


@final
@dataclass(frozen=True, kw_only=True)
class Command:
    r"""A program that is started anew for every run, without a shell and with nothing on stdin.

    Parameters
    ----------
    arguments : iterable of str
        The program and its arguments.
    timeout : float
        Seconds, > 0, after which a run is killed with all it started, and the audit ends.
    with_stderr : bool
        Whether what it writes on stderr is part of the outcome; else it is thrown away.

    Raises
    ------
    InvalidParameter
        If the arguments are no texts, or, when it is called, the program cannot be started or does not end in
        time.

    Examples
    --------
    >>> import sys
    >>> import sordino as sd
    >>> sd.audit.Command(arguments=[sys.executable, "-c", "print(3)"])().stdout
    '3\n'
    """

    arguments: tuple[str, ...]
    timeout: float = 60.0
    with_stderr: bool = False

    def __init__(self, *, arguments: Iterable[str], timeout: float = 60.0, with_stderr: bool = False) -> None:
        # A single text would fall apart into letters: it is refused below.
        listed: tuple[object, ...] = (arguments,) if isinstance(arguments, str) else tuple(arguments)
        words = tuple(word for word in listed if isinstance(word, str) and "\0" not in word)
        if isinstance(arguments, str) or not words or len(words) < len(listed):
            raise InvalidParameter(
                "audit.Command.arguments must be a list of texts: the program and its arguments."
            )
        text(words[0], "audit.Command.arguments[0]")
        object.__setattr__(self, "arguments", words)
        object.__setattr__(self, "timeout", float(POSITIVE("audit.Command.timeout", timeout)))
        object.__setattr__(self, "with_stderr", TRUTH("audit.Command.with_stderr", with_stderr))

    def __call__(self) -> Said:
        """Run the command once."""
        try:
            # There is no shell, and running what the caller names is what this is for.
            child = subprocess.Popen(  # noqa: S603
                self.arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if self.with_stderr else subprocess.DEVNULL,
                # A session of its own, so that a run can be killed with all that it started.
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise NoOutcomeError(
                "audit.Command.arguments must name a program that can be started; "
                f"{self.arguments[0]!a} cannot "
                f"({getattr(error, 'strerror', None) or type(error).__name__})."
            ) from None
        ended = False
        try:
            out, err = child.communicate(timeout=self.timeout)
            ended = True
        except subprocess.TimeoutExpired:
            raise NoOutcomeError(
                "audit.Command.timeout must be long enough for every run; "
                f"one of {self.arguments[0]!a} took more than "
                f"{self.timeout:g} s. Time is no outcome of an audit: give it more, or mend what hangs."
            ) from None
        finally:
            # Whatever cut the run off, an interrupt included, its processes are killed.
            if not ended:
                _kill_command(child)
        # Bytes that are no text are an outcome like any other.
        texts = [(written or b"").decode(errors="backslashreplace") for written in (out, err)]
        return Said(
            child.returncode,
            texts[0][:_KEPT_CHARACTERS],
            texts[1][:_KEPT_CHARACTERS],
            len(texts[0]) + len(texts[1]),
        )


def _kill_command(child: subprocess.Popen[bytes]) -> None:
    """Kill the process and what it started.

    The process may have gone and left others behind that hold its stdout.
    """
    with suppress(ProcessLookupError):
        # The group of a session has the number of its first process, also after that one has gone.
        os.killpg(child.pid, signal.SIGKILL)
    # Without this a process that was killed stays in the table of the system.
    child.wait()
    for stream in (child.stdout, child.stderr):
        if stream is not None:
            stream.close()
