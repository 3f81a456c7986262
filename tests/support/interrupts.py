"""Interrupts at any line of the library, as a signal of the keyboard may bring them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from typing import Any

from support.remnants import LIBRARY


def interrupted(call: Callable[[], Any], at: int, inside: str = LIBRARY) -> BaseException | None:
    """Call, and interrupt before line number `at` that is run in the library; return the error, or None if there is no such line."""
    lines = count(1)

    def line(frame: Any, event: str, arg: Any) -> Any:
        # Three lines of a door are its step, before anything is tried: what it was handed stands in the frame of its caller, too. A signal
        # can be answered there only when the door is called.
        step = frame.f_lineno - frame.f_code.co_firstlineno
        doorstep = frame.f_code.co_qualname == "no_remnants.<locals>.door" and step in {2, 3, 4}
        if event == "line" and not doorstep and next(lines) == at:
            raise KeyboardInterrupt
        return line

    before = sys.gettrace()
    sys.settrace(lambda frame, event, arg: line if frame.f_code.co_filename.startswith(inside) else None)
    try:
        call()
    except BaseException as error:  # noqa: BLE001  (in a function that SQLite calls, an interrupt becomes an error of SQLite)
        return error
    finally:
        sys.settrace(before)
    return None


def lines_of(call: Callable[[], Any], inside: str = LIBRARY) -> int:
    """Return how many lines of the library a call runs."""
    seen: list[bool] = []

    def line(frame: Any, event: str, arg: Any) -> Any:
        seen.append(event == "line")
        return line

    before = sys.gettrace()
    sys.settrace(lambda frame, event, arg: line if frame.f_code.co_filename.startswith(inside) else None)
    try:
        call()
    finally:
        sys.settrace(before)
    return sum(seen)
