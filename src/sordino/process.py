"""Tells a process from its copies: what may happen once must not happen in a fork as well."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from typing import Protocol, final


class _Birth:
    """Stands for one process; a fork gets another one."""

    __slots__ = ("process",)

    def __init__(self) -> None:
        self.process = os.getpid()


_birth = _Birth()


def _note_fork() -> None:
    global _birth  # noqa: PLW0603 - a process has one birth
    _birth = _Birth()


# The number of a process is not enough: in a namespace of its own a copy may have the same one, and
# numbers are given out again.
os.register_at_fork(after_in_child=_note_fork)


class _Lock(Protocol):
    def acquire(self) -> bool:
        """Wait for it."""

    def release(self) -> None:
        """Let go of it."""


def close_before_fork(lock: _Lock, close: Callable[[], None]) -> None:
    """Have what a process keeps open closed before forks, which could not use it, and at the end.

    Parameters
    ----------
    lock : lock
        Held until the fork is done on both sides, so that no other thread opens anything meanwhile.
        The thread that forks holds it on both, so each lets go of its own copy.
    close : callable
        Closes what is open.
    """

    def close_for_fork() -> None:
        lock.acquire()
        close()

    os.register_at_fork(
        before=close_for_fork, after_in_parent=lock.release, after_in_child=lock.release
    )
    atexit.register(close)


@final
class Process:
    """The process in which this object was made.

    Examples
    --------
    >>> home = Process()
    >>> home.is_here()
    True
    """

    __slots__ = ("_birth",)

    def __init__(self) -> None:
        self._birth = _birth

    def is_here(self) -> bool:
        """Tell whether this is still that process, and no fork of it."""
        # The number is asked as well: whoever forks outside of Python tells nobody.
        return self._birth is _birth and self._birth.process == os.getpid()
