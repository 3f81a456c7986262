"""Interrupts at any line of the library, as a signal of the keyboard may bring them."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

from support.remnants import LIBRARY


def interrupted(call: Callable[[], Any], at: int, inside: str = LIBRARY) -> BaseException | None:
    """Call, and interrupt before line number `at` that is run in the library; return the error, or None if there is no such line."""
    lines = count(1)
    entered: set[tuple[int, int]] = set()

    def line(frame: Any, event: str, arg: Any) -> Any:
        if event == "line" and _runs_nothing(frame, entered):
            return line
        # Three lines of a door are its step, before anything is tried: what it was handed stands in the frame of its caller, too. A signal
        # can be answered there only when the door is called.
        step = frame.f_lineno - frame.f_code.co_firstlineno
        doorstep = frame.f_code.co_qualname == "scrubbed.<locals>.door" and step in {2, 3, 4}
        if event == "line" and not doorstep and next(lines) == at:
            raise KeyboardInterrupt
        return line

    before = sys.gettrace()
    sys.settrace(
        lambda frame, event, arg: line if frame.f_code.co_filename.startswith(inside) else None
    )
    try:
        call()
    except BaseException as error:  # noqa: BLE001  (in a function that SQLite calls, an interrupt becomes an error of SQLite)
        return error
    finally:
        sys.settrace(before)
    return None


def _runs_nothing(frame: Any, entered: set[tuple[int, int]]) -> bool:
    """Tell whether nothing is run at a line of which Python tells all the same, so that no signal can be answered there.

    That is `try:`, and `with` when its block is left. An error there would keep a lock for ever, which no signal does.
    """
    text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip()
    if not text.startswith("with "):
        return text.startswith("try:")
    place = (id(frame), frame.f_lineno)
    known = place in entered
    entered.add(place)
    return known


def lines_of(call: Callable[[], Any], inside: str = LIBRARY) -> int:
    """Return how many lines of the library a call runs."""
    seen: list[bool] = []

    def line(frame: Any, event: str, arg: Any) -> Any:
        seen.append(event == "line")
        return line

    before = sys.gettrace()
    sys.settrace(
        lambda frame, event, arg: line if frame.f_code.co_filename.startswith(inside) else None
    )
    try:
        call()
    finally:
        sys.settrace(before)
    return sum(seen)
