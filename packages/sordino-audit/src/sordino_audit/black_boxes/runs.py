"""Runs two black boxes in turns, and takes apart what comes out, into shapes and numbers.

A command is a black box, too: one run is one process; its outcome is what it prints and its exit
code. A run that does not end in time ends the audit: how long a run takes depends on what else
the machine does.

Claim: none of its own. The confidence statement takes runs of one box to be independent and
alike; that is the user's word. Whatever is computed from an outcome is post-processing, so that
what is lost here can only hide a loss, never make one up.
Floats: whole numbers beyond 2^53 are seen rounded.
"""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import POSITIVE, TRUTH, text
from sordino.errors import InvalidParameter
from sordino.releases import Release

WHOLE, REAL = "whole", "real"
_NUMBER_IN_TEXT = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")
_MOST_NUMBERS_IN_TEXT = 400


class Mark(NamedTuple):
    """One leaf of an outcome.

    Where it is, and `WHOLE` or `REAL` for a number, else what it says.
    """

    path: str
    says: Any


Shape = tuple[Mark, ...]


class ShapedOutcome(NamedTuple):
    """One outcome: its shape, and its numbers in the order of their marks."""

    shape: Shape
    numbers: tuple[float, ...]


def read_outcome(outcome: Any) -> ShapedOutcome:
    """Return the shape and the numbers of an outcome, or refuse what cannot be compared."""
    marks: list[Mark] = []
    numbers: list[float] = []
    _walk_outcome(outcome, "", marks, numbers)
    return ShapedOutcome(tuple(marks), tuple(numbers))


def read_error(error: BaseException) -> ShapedOutcome:
    """Return the outcome of a run that raised: the type of the error and nothing else."""
    return ShapedOutcome((Mark("", ("raised", type(error).__name__)),), ())


def tells_an_error(shape: Shape) -> bool:
    """Tell whether a shape is that of a run that raised."""
    return len(shape) == 1 and isinstance(shape[0].says, tuple) and shape[0].says[0] == "raised"


def classed(group: Any) -> ShapedOutcome:
    """Return the outcome whose partition put it into `group`, a hashable value."""
    try:
        hash(group)
    except TypeError:
        raise InvalidParameter(
            "audit.statistical.partition must return hashable values "
            "such as numbers, texts and tuples of them."
        ) from None
    # A NaN is not equal to itself, its repr is: all of them are one class.
    return ShapedOutcome(
        (
            Mark(
                "class",
                # NaN.
                (type(group).__name__, repr(group) if group != group else group),  # noqa: PLR0124
            ),
        ),
        (),
    )


def _walk_outcome(value: Any, path: str, marks: list[Mark], numbers: list[float]) -> None:
    kind = type(value)
    # The exact types first: a bool is also an int.
    if kind is int or kind is float:
        _mark_number(value, path, marks, numbers)
    elif value is None or kind is bool or kind is bytes:
        marks.append(Mark(path, (kind.__name__, value)))
    elif kind is str:
        _mark_text(value, path, marks, numbers)
    elif kind in {list, tuple} or isinstance(value, np.ndarray):
        items = value.tolist() if isinstance(value, np.ndarray) else value
        # An array without dimensions gives a bare number: a list of one.
        _walk_items(items if isinstance(items, list | tuple) else [items], path, marks, numbers)
    else:
        _walk_rare_type(value, path, marks, numbers)


def _walk_rare_type(value: Any, path: str, marks: list[Mark], numbers: list[float]) -> None:
    """Walk what is met more rarely."""
    if isinstance(value, np.generic):
        _walk_outcome(value.item(), path, marks, numbers)
    elif isinstance(value, Enum):
        marks.append(Mark(path, (type(value).__name__, value.name)))
    elif isinstance(value, int | float | Fraction | Decimal):
        _mark_number(value, path, marks, numbers)
    elif isinstance(value, str):
        _mark_text(str(value), path, marks, numbers)
    # A named tuple says more than a plain one: its fields have names.
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for name, part in zip(value._fields, value, strict=True):
            _walk_outcome(part, _join_path(path, name), marks, numbers)
        marks.append(Mark(path, ("type", type(value).__name__)))
    elif isinstance(value, list | tuple):
        _walk_items(value, path, marks, numbers)
    else:
        _walk_structure(value, path, marks, numbers)


def _walk_structure(value: Any, path: str, marks: list[Mark], numbers: list[float]) -> None:
    """Walk mappings, sets and data classes; refuse anything else."""
    if isinstance(value, Mapping):
        # Keys of different types have no order; their reprs have.
        for key in sorted(value, key=repr):
            _walk_outcome(value[key], f"{path}[{key!r}]", marks, numbers)
        marks.append(Mark(path, ("mapping", tuple(sorted(map(repr, value))))))
    elif isinstance(value, Set):
        # Equal sets may come in different orders.
        _walk_items(sorted(value, key=repr), path, marks, numbers)
    elif is_dataclass(value) and not isinstance(value, type):
        marks.append(Mark(path, ("type", type(value).__name__)))
        for field in fields(value):
            # The public parameters are no outcome.
            if not (isinstance(value, Release) and field.name == "mechanism"):
                _walk_outcome(
                    getattr(value, field.name), _join_path(path, field.name), marks, numbers
                )
    else:
        raise InvalidParameter(
            "audit.statistical needs outcomes made of numbers, texts, arrays, lists, mappings and "
            f"data classes; got {type(value).__name__}. Give partition=, a function that puts each "
            "outcome into a class."
        )


def _join_path(path: str, name: Any) -> str:
    """Return the path of a named part."""
    said = name if isinstance(name, str) and name.isidentifier() else repr(name)
    return f"{path}.{said}" if path else said


def _mark_number(value: Any, path: str, marks: list[Mark], numbers: list[float]) -> None:
    whole = isinstance(value, int)
    try:
        number = float(value)
    except OverflowError:
        # A whole number beyond all floats counts as infinite.
        number = math.inf if value > 0 else -math.inf
    marks.append(Mark(path, WHOLE if whole else REAL))
    numbers.append(number)
    # -0.0 equals 0.0, but a reader can tell them apart.
    if number == 0 and not whole and math.copysign(1, number) < 0:
        marks.append(Mark(path, "minus zero"))


def _mark_text(value: str, path: str, marks: list[Mark], numbers: list[float]) -> None:
    """Take the numbers out of a text.

    They differ from run to run, the words around them less so.
    """
    # Beyond the first ones numbers stay part of the words.
    found = list(_NUMBER_IN_TEXT.finditer(value))[:_MOST_NUMBERS_IN_TEXT]
    if not found:
        marks.append(Mark(path, ("text", value)))
        return
    at, words = 0, []
    # The words between the numbers are kept, so that nothing of the text is lost.
    for i, match in enumerate(found):
        words.append(value[at : match.start()])
        at = match.end()
        text = match.group()
        marks.append(Mark(f"{path}#{i + 1}", WHOLE if text.lstrip("+-").isdigit() else REAL))
        numbers.append(float(text))
    marks.append(Mark(path, ("text", (*words, value[at:]))))


def _walk_items(items: Any, path: str, marks: list[Mark], numbers: list[float]) -> None:
    for i, item in enumerate(items):
        _walk_outcome(item, f"{path}[{i}]", marks, numbers)
    # Also an empty list leaves a mark, and lists of different lengths have different shapes.
    marks.append(Mark(path, ("length", len(items))))


# ---- runs ----------------------------------------------------------------------------------------


BlackBox = Callable[[], Any]
Progress = Callable[[float], None]
Table = NDArray[np.float64]

CHARGED = (
    "the charge"  # no path of an outcome: names that are not identifiers stand in quotes there
)
_RUNS_PER_TURN = 64


class NoOutcomeError(InvalidParameter):
    """A run was cut off from outside, so that the audit cannot go on: this is no outcome."""


@final
@dataclass(eq=False)
class RunPart:
    """Some runs of one box.

    Their numbers as rows, one table for each shape, in the order of appearance.
    """

    rows: dict[Shape, list[tuple[float, ...]]] = field(default_factory=dict)
    blocks: dict[Shape, list[Table]] = field(default_factory=dict)
    size: int = 0

    def add(self, outcome: ShapedOutcome) -> None:
        """Keep one outcome."""
        self.rows.setdefault(outcome.shape, []).append(outcome.numbers)
        self.size += 1

    def add_block(self, outcomes: NDArray[Any]) -> None:
        """Keep outcomes that came as an array of numbers, shape (m,) or (m, w)."""
        # All rows of an array have one shape: they are kept as one table.
        kind = REAL if outcomes.dtype.kind == "f" else WHOLE
        shape = (
            (Mark("", kind),)
            if outcomes.ndim == 1
            else tuple(Mark(f"[{i}]", kind) for i in range(outcomes.shape[1]))
        )
        self.blocks.setdefault(shape, []).append(
            outcomes.reshape(outcomes.shape[0], -1).astype(np.float64)
        )
        self.size += outcomes.shape[0]

    @property
    def all_raised(self) -> bool:
        """Whether no run came to an end."""
        return not self.blocks and all(map(tells_an_error, self.rows))

    def tables(self) -> Iterator[tuple[Shape, Table]]:
        """Yield each shape with its rows, shape (m, numbers)."""
        # A shape may have come both ways: outcome by outcome, and in arrays.
        for shape in dict.fromkeys([*self.rows, *self.blocks]):
            listed = self.rows.get(shape, [])
            width = sum(mark.says in {WHOLE, REAL} for mark in shape if isinstance(mark.says, str))
            yield (
                shape,
                np.concatenate(
                    [
                        np.array(listed, dtype=np.float64).reshape(len(listed), width),
                        *self.blocks.get(shape, []),
                    ]
                ),
            )


@final
@dataclass(frozen=True, eq=False)
class Runner:
    """Calls a black box and keeps its outcomes.

    Attributes
    ----------
    batch : int or None
        How many outcomes one call returns; None: a call returns one outcome.
    partition : callable or None
        Puts each outcome into a class.
    charge : callable or None
        What is charged for an outcome, as a number.
    """

    batch: int | None
    partition: Callable[[Any], Any] | None
    charge: Callable[[Any], float] | None = None

    def run(self, box: BlackBox, part: RunPart, wanted: int) -> None:
        """Add `wanted` outcomes of `box` to `part`."""
        done = 0
        while done < wanted:
            if self.batch is None:
                part.add(self._one(box))
                done += 1
            else:
                done += self._many(box, part, min(self.batch, wanted - done))

    def _one(self, box: BlackBox) -> ShapedOutcome:
        try:
            outcome = box()
        # This error says that the run was cut off: that is no outcome of the mechanism.
        except NoOutcomeError:
            raise
        # An interrupt is not caught: it ends the audit.
        except (Exception, SystemExit) as error:  # noqa: BLE001  (that it raised is what came out)
            return read_error(error)
        return self._seen(outcome)

    def _seen(self, outcome: Any) -> ShapedOutcome:
        found = (
            read_outcome(outcome) if self.partition is None else classed(self.partition(outcome))
        )
        if self.charge is None:
            return found
        # The charge is one more number of the outcome, at a path that no outcome can have.
        return ShapedOutcome(
            (Mark(CHARGED, REAL), *found.shape), (self.charge(outcome), *found.numbers)
        )

    def _many(self, box: BlackBox, part: RunPart, kept: int) -> int:
        """Call once and keep the first `kept` outcomes of the batch.

        A call that raises ends the audit: the runs of its batch would share that outcome, and they
        must be independent.
        """
        outcomes = box()
        size = len(outcomes) if hasattr(outcomes, "__len__") else -1
        if size != self.batch:
            raise InvalidParameter(
                "audit.statistical.batch must be the number of outcomes that a call returns in a "
                f"list or an array; it is {self.batch}, "
                + ("and a call returned no list." if size < 0 else f"and a call returned {size}.")
            )
        numbers = (
            isinstance(outcomes, np.ndarray)
            and outcomes.dtype.kind in "biuf"
            and outcomes.ndim in {1, 2}
        )
        # Arrays of numbers are kept as they are, which is fast; anything else goes outcome by
        # outcome.
        if numbers and self.partition is None and self.charge is None:
            part.add_block(outcomes[:kept])
        else:
            # A row becomes a tuple: unlike a list it has a hash.
            listed = (
                [tuple(row) if isinstance(row, list) else row for row in outcomes[:kept].tolist()]
                if numbers
                else outcomes
            )
            for outcome in listed[:kept]:
                part.add(self._seen(outcome))
        return kept

    def both(
        self, boxes: tuple[BlackBox, BlackBox], sizes: tuple[int, ...], progress: Progress | None
    ) -> list[tuple[RunPart, RunPart]]:
        """Return one pair of parts for each size.

        The boxes take turns, so that a slow drift of a machine meets both alike.
        """
        turn = _RUNS_PER_TURN if self.batch is None else self.batch
        parts, done = [], 0
        for size in sizes:
            pair = RunPart(), RunPart()
            while pair[0].size < size:
                # The last turn of a part may be shorter: parts have exactly the sizes that were
                # asked for.
                wanted = min(turn, size - pair[0].size)
                for box, part in zip(boxes, pair, strict=True):
                    self.run(box, part, wanted)
                if progress is not None:
                    progress(100 * (done + pair[0].size) / sum(sizes))
            parts.append(pair)
            done += size
        return parts


# ---- command -------------------------------------------------------------------------------------


_KEPT_CHARACTERS = 1 << 20


class Said(NamedTuple):
    """What one run of a command left behind.

    `stderr` is empty unless it was asked for. Texts are cut after 2^20 characters; `length` counts
    both uncut.
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
        If the arguments are no texts, or, when it is called, the program cannot be started or does
        not end in time.

    Examples
    --------
    >>> import sys
    >>> import sordino_audit as audit
    >>> audit.Command(arguments=[sys.executable, "-c", "print(3)"])().stdout
    '3\n'
    """

    arguments: tuple[str, ...]
    timeout: float = 60.0
    with_stderr: bool = False

    def __init__(
        self, *, arguments: Iterable[str], timeout: float = 60.0, with_stderr: bool = False
    ) -> None:
        # A single text would fall apart into letters: it is refused below.
        listed: tuple[object, ...] = (
            (arguments,) if isinstance(arguments, str) else tuple(arguments)
        )
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
                "audit.Command.timeout must be long enough for every run; one of "
                f"{self.arguments[0]!a} took more than {self.timeout:g} s. Time is no outcome of "
                "an audit: give it more, or mend what hangs."
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
