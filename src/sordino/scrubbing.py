"""Clears local variables out of errors that leave the library, because exact answers stand in them.

Error reporters print the local variables of every frame that an error came through, of its causes,
and of what was being handled when it arose. Exact answers stand in the library's frames. So each
function that is handed something private is a *door*: the frames of an error that leaves through it
are emptied. The error keeps its sentence and the lines it came through. The frames of the caller
are left as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def scrubbed(function: F) -> F:
    """Make a function a door: an error that leaves it carries no local variable of the library.

    It keeps its type, its words and its lines.

    Examples
    --------
    >>> @scrubbed
    ... def add_up(answers):
    ...     return sum(answers)
    >>> try:
    ...     add_up([86753099, "no number"])
    ... except TypeError as error:
    ...     inside = error.__traceback__.tb_next.tb_next.tb_frame
    >>> inside.f_code.co_name, inside.f_locals
    ('add_up', {})
    """

    @wraps(function)
    def door(*given: Any, **named: Any) -> Any:
        outer, swept = None, False
        try:
            try:
                # What the caller was handling before stays with the error.
                outer = sys.exception()
                return function(*given, **named)
            except BaseException as error:  # whatever it is, and it goes on
                given, named = (
                    (),
                    {},
                )  # a frame that is running cannot be cleared: this one forgets by itself
                scrub(error, outer)
                swept = True
                raise
        except BaseException as error:
            if not swept:
                # An interrupt came meanwhile, or the stack is too deep for one more call.
                # So this makes no call, and gives up the lines.
                given, named = (), {}
                error.__traceback__ = error.__cause__ = None
                error.__context__ = outer if outer is not error else None
            raise

    return cast("F", door)


def scrub(error: BaseException, outer: BaseException | None = None) -> None:
    """Clear the frames that an error came through so far, and cut off what was handled as it arose.

    Parameters
    ----------
    error : BaseException
        On its way out.
    outer : BaseException, optional
        What the caller was handling before: it is the caller's, and stays.
    """
    # The same error may be raised again while the caller handles it: then it came through here this
    # time.
    waiting, seen = [error], set() if error is outer else {id(outer)}
    while waiting:
        one = waiting.pop()
        # Causes may lead back to an error that was swept already.
        if id(one) in seen:
            continue
        seen.add(id(one))
        step = one.__traceback__
        while step is not None:
            # A frame that is still running cannot be cleared: the door itself, which forgets by
            # itself, or a caller of the door.
            with suppress(RuntimeError):
                step.tb_frame.clear()
            step = step.tb_next
        if isinstance(one, AttributeError):  # some errors keep values beside their words
            one.obj = None
        elif isinstance(one, UnicodeDecodeError):
            one.object = b""
        elif isinstance(one, UnicodeEncodeError | UnicodeTranslateError):
            one.object = ""
        if one.__context__ is not None:
            one.__context__ = outer if outer is not one else None
        if one.__cause__ is not None:
            waiting.append(one.__cause__)
        if isinstance(one, BaseExceptionGroup):
            waiting.extend(one.exceptions)
