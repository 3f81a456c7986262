"""A planted private number, searched for everywhere a reporter of local variables could look, and farther.

The search starts at an error: its attributes, the errors behind it, and the local variables of every frame of the library. From there it
follows containers, arrays, closures, generators, bound methods, partial functions, iterators and the attributes of objects. The frames
of other code, such as the test that plants the number, are not searched: what is the caller's is the caller's.
"""

from __future__ import annotations

import gc
import itertools
import re
import sys
import traceback
import types
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import sordino
from sordino.entropy import System

LIBRARY = str(Path(sordino.__file__).parent)
# The entropy of the process holds random words and how many of them are used: a number of those may be any number, by chance.
_SKIPPED = (types.ModuleType, type, types.CodeType, property, System)


def odd_part(number: Any) -> int | None:
    """Return what is left of a number without its factors of two: on every grid of the library a number has the same odd part."""
    if isinstance(number, bool | np.bool_):
        return None
    if isinstance(number, int | np.integer):
        whole = abs(int(number))
    elif isinstance(number, float | np.floating):
        if not np.isfinite(number):
            return None
        whole = abs(Fraction(float(number)).numerator)
    elif isinstance(number, Fraction):
        whole = abs(number.numerator)
    else:
        return None
    return whole >> ((whole & -whole).bit_length() - 1) if whole else 0


def without_random_digits(text: str) -> str:
    """Return a text without salts and addresses, whose digits are those of a secret now and then.

    The factors and summands of a polynomial in a query follow from a salt, too.
    """
    return re.sub(r"0x[0-9a-f]+|[0-9a-f]{16,}|(?<=[*+] )\d{5,}|\d{5,}(?= [*+])", "...", text)


def holds(thing: Any, planted: int) -> bool:
    """Tell whether a single thing is the planted number, or an array or text that has it."""
    wanted = odd_part(planted)
    if isinstance(thing, np.ndarray):
        return thing.dtype.kind in "iuf" and any(
            odd_part(one) == wanted for one in thing.reshape(-1).tolist()
        )
    if isinstance(thing, memoryview):
        return thing.format in set("bBhHiIlLqQdf") and any(
            odd_part(one) == wanted for one in thing.tolist()
        )
    if isinstance(thing, str):
        return str(planted) in without_random_digits(thing)
    if isinstance(thing, bytes | bytearray):
        return (
            str(planted).encode() in thing
            or planted.to_bytes(8, "little") in thing
            or np.float64(planted).tobytes() in thing
        )
    return odd_part(thing) == wanted


def frames_of(error: BaseException) -> list[types.FrameType]:
    """Return the frames of the library that an error came through, and those that called them, as far as they are reachable."""
    found: list[types.FrameType] = []
    step = error.__traceback__
    while step is not None:
        frame: types.FrameType | None = step.tb_frame
        while frame is not None and not any(frame is known for known in found):
            found.append(frame)
            frame = frame.f_back
        step = step.tb_next
    return [frame for frame in found if frame.f_code.co_filename.startswith(LIBRARY)]


def _inside(thing: Any) -> Iterable[tuple[str, Any]]:
    """Return what one thing leads to, with words for the way."""
    if isinstance(thing, BaseException):
        yield from (
            (f".{name}", getattr(thing, name, None))
            for name in ("__cause__", "__context__", "args", "__dict__", "__notes__")
        )
        yield from (
            (f".{name}", getattr(thing, name))
            for name in ("obj", "object", "exceptions", "value")
            if hasattr(thing, name)
        )
        for frame in frames_of(thing):
            yield from (
                (f" {frame.f_code.co_qualname}: {name}", value)
                for name, value in frame.f_locals.items()
            )
    elif isinstance(thing, dict | types.MappingProxyType):
        yield from itertools.chain.from_iterable(
            ((f"[{key!r}] key", key), (f"[{key!r}]", value)) for key, value in thing.items()
        )
    elif isinstance(thing, list | tuple | set | frozenset):
        yield from ((f"[{place}]", value) for place, value in enumerate(thing))
    elif isinstance(thing, np.ndarray):
        yield ".base", thing.base
        if thing.dtype == object:
            yield from (
                (f"[{place}]", value) for place, value in enumerate(thing.reshape(-1).tolist())
            )
    elif isinstance(thing, types.FunctionType):
        yield from ((".cell", cell) for cell in thing.__closure__ or ())
        yield from (
            (".default", value)
            for value in (*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values())
        )
        yield ".__dict__", thing.__dict__
    elif isinstance(thing, types.CellType):
        if thing != types.CellType():
            yield "", thing.cell_contents
    elif isinstance(thing, types.GeneratorType):
        if thing.gi_frame is not None:
            yield from (
                (f" generator: {name}", value) for name, value in thing.gi_frame.f_locals.items()
            )
    elif isinstance(thing, types.FrameType | types.TracebackType):
        return  # those of the library are looked at where the error is
    else:  # attributes, with or without slots; iterators; partial functions; bound methods
        yield from (("->", value) for value in gc.get_referents(thing))


def remnants(error: BaseException, planted: int) -> Iterator[str]:
    """Yield the ways from an error to a planted number."""
    waiting: list[tuple[str, Any]] = [(type(error).__name__, error)]
    seen: set[int] = set()
    kept: list[Any] = []  # so that no number of an object is used again
    modules = {
        id(vars(module)) for module in list(sys.modules.values()) if hasattr(module, "__dict__")
    }
    while waiting:
        way, thing = waiting.pop()
        if (
            id(thing) in seen
            or id(thing) in modules
            or isinstance(thing, _SKIPPED)
            or thing is sys.modules
        ):
            continue
        seen.add(id(thing))
        kept.append(thing)
        if holds(thing, planted):
            yield way
        waiting.extend((way + step, value) for step, value in _inside(thing))


def printed(error: BaseException) -> str:
    """Return what reporters of local variables print about the frames of the library: each variable as its `repr`."""
    texts = []
    for one in (error, error.__cause__, error.__context__):
        if one is not None:
            texts += [shown(value) for frame in frames_of(one) for value in frame.f_locals.values()]
            texts += traceback.format_exception_only(one)
    return without_random_digits("\n".join(texts))


def shown(value: Any) -> str:
    """Return the `repr` of a variable, of which a half-made object may have none."""
    try:
        return repr(value)
    except AttributeError:
        return ""
