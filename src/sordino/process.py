"""Tells a process from its copies: what may happen once must not happen in a fork as well."""

from __future__ import annotations

import os
from typing import final


class _Birth:
    """Stands for one process; a fork gets another one."""

    __slots__ = ("process",)

    def __init__(self) -> None:
        self.process = os.getpid()


_birth = _Birth()


def _note_fork() -> None:
    global _birth  # noqa: PLW0603 - a process has one birth
    _birth = _Birth()


# The number of a process is not enough: in a namespace of its own a copy may have the same one, and numbers
# are given out again.
os.register_at_fork(after_in_child=_note_fork)


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
