"""How much memory an engine may use before it needs its private folder, and how much room there."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from typing import Any, final

from sordino.constraints import shown
from sordino.errors import InvalidParameter

MEMORY = 4 << 30
"""How many bytes each engine may use unless somebody says, or 60% of the machine's if that is
less."""

LEAST = 512 << 20
"""The smallest limit: with less, whether an engine gets along would depend on how long texts
are."""


@final
@dataclass(frozen=True)
class Limits:
    """What somebody allows the engines of one question.

    Parameters
    ----------
    memory : int or None
        How many bytes of memory all of them may use together; None: the default for each.
    temp : int or None
        How many bytes each may write to its private folder; None: most of what is free there.
    """

    memory: int | None = None
    temp: int | None = None

    def check_room(self) -> None:
        """Refuse, before anything is charged, what the disk has no room for.

        Both numbers that are compared are public: the limit, and what anybody sees of the machine.
        How much room a question takes follows from the rows, and is not looked at.

        Raises
        ------
        InvalidParameter
            If less is free than `temp`.
        """
        folder = tempfile.gettempdir()
        if self.temp is not None and shutil.disk_usage(folder).free < self.temp:
            raise InvalidParameter(
                f"temp_limit (--temp-limit) must be at most what is free in {folder}, where the "
                "engine writes what is beyond its memory; less is free. Set TMPDIR to a folder "
                "with more room, or give less."
            )


NO_LIMITS = Limits()

_UNITS = {
    "": 1,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "KI": 2**10,
    "MI": 2**20,
    "GI": 2**30,
    "TI": 2**40,
}
_SIZE = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,3}))?\s*([KMGT]I?)?B?", re.ASCII | re.IGNORECASE)


def read_limit(name: str, value: Any) -> int:
    """Return a size in bytes: a whole number, or a text such as "2GB", "1.5 GiB" or "800MB".

    Raises
    ------
    InvalidParameter
        If it is none, or below 512 MiB.
    """
    size = value if isinstance(value, int) and not isinstance(value, bool) else None
    if isinstance(value, str) and (found := _SIZE.fullmatch(value.strip())):
        parts = int(f"{found[1]}{(found[2] or '').ljust(3, '0')}")
        size = parts * _UNITS[(found[3] or "").upper()] // 1000
    if size is None or not LEAST <= size < 1 << 60:
        raise InvalidParameter(
            f'{name} must be a size of at least 512 MiB, such as "2GB", or a number of bytes; got '
            f"{shown(value)}."
        )
    return size


def choose_memory(limit: int | None, *, evaluates: bool) -> int:
    """Return how many bytes an engine may use.

    A limit is one of all engines together: one evaluates, and another one beside it reads files for
    it, which takes a fifth.
    """
    if limit is None:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return min(MEMORY, machine * 6 // 10)
    return limit - limit // 5 if evaluates else limit // 5
