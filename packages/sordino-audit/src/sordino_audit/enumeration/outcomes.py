"""The law of the outputs for one list of answers: which are the same, and their masses.

Claim: two outputs share a key only if they have the same type, shape and value; floats never do
so without a partition, and with one only if their bits are the same. For every output, low <=
(mass of the played noise with that output) <= high. Proof: docs/proofs/exact-audit.md, "Outputs"
and "Counts".
Floats: as outputs compared by their bits; as masses sums of positive terms, widened by more than
their rounding; `certified` repeats one of them in decimals.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.errors import InvalidParameter
from sordino.noise.probability import Bounds, contexts
from sordino_audit.enumeration.laws import DIGITS, TOO_MANY, Region
from sordino_audit.enumeration.selection import Counted
from sordino_audit.enumeration.subject import Stated, Subject

Partition = Callable[[Any], Hashable]

_RADIX_LIMIT = 1 << 62
_OUTPUTS_MUST_BE = "audit.exact needs outputs that are"
_CLASSES_MUST_BE = "audit.exact.partition must return"
_PLAIN_TYPES = (bool, str, bytes, type(None), Fraction)


def key(value: Any, owner: str = _OUTPUTS_MUST_BE, *, floats: bool = False) -> Hashable:
    """Return what stands for a value when outputs are compared.

    Whole numbers and tuples of them stand as they are, others with their type.

    `==` would not do: it calls 1, True and 1.0 the same, also inside of tuples, and 0.0 the same as
    -0.0.
    """
    kind = type(value)
    if kind is int:
        return int(value)
    if kind is tuple:
        return tuple(key(part, owner, floats=floats) for part in value)
    # The elements are compared by their keys: a set of True is no set of 1.
    if kind is frozenset:
        return kind, frozenset(key(part, owner, floats=floats) for part in value)
    if kind in _PLAIN_TYPES:
        return kind, value
    # A number of numpy keeps its type, by which a reader can tell it from a whole number of Python.
    if isinstance(value, np.bool_ | np.integer):
        return kind, int(value)
    # The bits tell -0.0 from 0.0, and let a NaN be the same as itself.
    if floats and kind is float:
        return kind, struct.pack("<d", value)
    advice = (
        ""
        if owner is _CLASSES_MUST_BE
        else " For others give partition=, a function that puts each output into a class."
    )
    raise InvalidParameter(
        f"{owner} whole numbers, truth values, texts, bytes, None, fractions, or tuples and "
        f"frozensets of these; got a value of type {kind.__name__}.{advice}"
    )


@final
@dataclass(frozen=True, eq=False)
class Seen:
    """The different outputs of rows, what is shown of them, their keys, and which each row has."""

    values: list[Any]
    shown: list[Any]
    keys: list[Hashable]
    which: NDArray[np.int64]

    def rows(self, places: Any) -> list[Hashable]:
        """Return the keys of the rows at `places`."""
        return [self.keys[i] for i in self.which[places].tolist()]

    def same(self, other: Seen) -> bool:
        """Return whether all rows have the same outputs on both sides."""
        return self.keys == other.keys and np.array_equal(self.which, other.which)


def seen(played: Any, n: int, partition: Partition | None) -> Seen:
    """Return the outputs of `n` rows, the same ones together.

    With a partition their classes are what is shown and compared.

    Raises
    ------
    InvalidParameter
        If there is not one output for each row, or outputs or classes are nothing that can be told
        apart for certain.
    """
    if (
        isinstance(played, np.ma.MaskedArray)
        or not isinstance(played, np.ndarray | list)
        or getattr(played, "ndim", 1) < 1
    ):
        raise InvalidParameter(
            "audit.exact needs one output for each noise vector, in an array or a list; "
            f"got a value of type {type(played).__name__}."
        )
    if len(played) != n:
        raise InvalidParameter(
            f"audit.exact needs one output for each of {n} noise vectors; got {len(played)}."
        )
    values, keys, which = _find_distinct(played, partition is not None)
    if partition is None:
        return Seen(values, values, keys, which)
    classes = [partition(value) for value in values]
    return Seen(values, classes, [key(each, _CLASSES_MUST_BE) for each in classes], which)


def _find_distinct(
    played: Any, partitioned: bool
) -> tuple[list[Any], list[Hashable], NDArray[np.int64]]:
    """Return the different outputs as Python values, their keys, and which of them each row has."""
    kind = played.dtype.kind if isinstance(played, np.ndarray) else "O"
    # Without a partition floats go on to `key`, which refuses them.
    if kind in "biu" or (kind == "f" and partitioned and played.dtype.itemsize <= 8):
        first, which = unique_rows(
            _view_bits(played).reshape(played.shape[0], math.prod(played.shape[1:]))
        )
        values = _nest_tuples(played[first].tolist(), played.ndim)
        if kind == "i" and played.size:  # whole numbers and tuples of them stand for themselves
            return values, values, which
        # An array without elements has no values: only its shape can tell it from another one.
        empty = () if played.size else (played.shape[1:],)
        return (
            values,
            [
                (played.dtype.kind, *empty, value) if kind != "b" else (*empty, key(value))
                for value in values
            ],
            which,
        )
    listed = (
        _nest_tuples(played.tolist(), played.ndim) if isinstance(played, np.ndarray) else played
    )
    try:
        keys = [key(value, floats=partitioned) for value in listed]
    except InvalidParameter:
        if not partitioned:
            raise
        return list(listed), [], np.arange(len(listed))  # the partition looks at each of them
    order: dict[Hashable, int] = {}
    firsts: list[Any] = []
    which = np.empty(len(listed), dtype=np.int64)
    for i, (value, one) in enumerate(zip(listed, keys, strict=True)):
        which[i] = order.setdefault(one, len(order))
        if len(firsts) < len(order):
            firsts.append(value)
    return firsts, list(order), which


def _view_bits(played: NDArray[Any]) -> NDArray[Any]:
    """Return floats as the whole numbers that their bits are, everything else as it is."""
    return (
        np.ascontiguousarray(played).view(f"u{played.dtype.itemsize}")
        if played.dtype.kind == "f"
        else played
    )


def _nest_tuples(listed: list[Any], ndim: int) -> list[Any]:
    """Return nested lists of an array with its rows as nested tuples."""
    return listed if ndim == 1 else [tuple(_nest_tuples(row, ndim - 1)) for row in listed]


def unique_rows(rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the different rows first stand and which of them each row is.

    Rows are packed into one word where they fit.
    """
    # Rows without columns are all the same.
    if not rows.shape[1]:
        return np.zeros(1, dtype=np.int64), np.zeros(rows.shape[0], dtype=np.int64)
    if rows.dtype.kind in "iu" and rows.shape[1] > 1:
        # 64 bits of the same sign: what is narrower would wrap, and unsigned with signed numbers
        # would become floats.
        wide: NDArray[Any] = rows.astype(np.uint64 if rows.dtype.kind == "u" else np.int64)
        low = wide.min(axis=0)
        span = [
            int(most) - int(least) + 1 for most, least in zip(wide.max(axis=0), low, strict=True)
        ]
        if math.prod(span) < _RADIX_LIMIT:
            # One whole number for each row, in mixed radix: sorting words is much faster than
            # sorting rows.
            packed = np.zeros(rows.shape[0], dtype=np.int64)
            for i, width in enumerate(span):
                packed = packed * width + (wide[:, i] - low[i]).astype(np.int64)
            rows = packed[:, None]
    _, first, which = np.unique(
        rows, axis=None if rows.shape[1] == 1 else 0, return_index=True, return_inverse=True
    )
    return first, which.reshape(-1)


# ---- masses --------------------------------------------------------------------------------------


OUTPUTS = 1 << 20
_ROWS_ALONE, _ROWS_TOGETHER = (
    16,
    64,
)  # how many rows are played again, each alone, and about how many in one batch


@final
@dataclass(frozen=True, eq=False)
class Outcomes:
    """Masses of outputs: `ids` says which, sorted, and `low` and `high` bound each.

    The counts are kept for `certified`.

    Where some outputs are drawn again, all masses are those of the others times `scale`: together
    they are the whole again. `rest` bounds from above what the noise that was not played may add to
    any output.
    """

    ids: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    starts: NDArray[np.int64]
    powers: NDArray[np.int64]
    counts: NDArray[np.int64]
    region: Region
    rest: Decimal
    scale: Bounds = (Decimal(1), Decimal(1))

    @property
    def size(self) -> int:
        """Return the memory that it takes, in bytes."""
        return sum(
            each.nbytes
            for each in (self.ids, self.low, self.high, self.starts, self.powers, self.counts)
        )

    def certified(self, output: int) -> Bounds:
        """Return decimal bounds of the mass of one output, given by its id."""
        low = high = Decimal(0)
        k = int(np.searchsorted(self.ids, output))
        # An output that was not seen has no mass in the noise that was played.
        if k == self.ids.size or self.ids[k] != output:
            return low, high
        down, up = contexts(DIGITS)
        part = slice(int(self.starts[k]), int(self.starts[k + 1]))
        for power, count in zip(
            self.powers[part].tolist(), self.counts[part].tolist(), strict=True
        ):
            least, most = self.region.powers[power]
            low, high = (
                down.add(low, down.multiply(count, least)),
                up.add(high, up.multiply(count, most)),
            )
        return down.multiply(low, self.scale[0]), up.multiply(high, self.scale[1])


@final
@dataclass(eq=False)
class Book:
    """Plays a subject and numbers its outputs.

    The same output has the same number whatever the answers.
    """

    subject: Subject
    region: Region
    partition: Partition | None
    vectors: int = 4_000_000
    outputs: list[Any] = field(default_factory=list)
    _numbers: dict[Any, int] = field(default_factory=dict)

    def outcomes(self, private: Any) -> Outcomes:
        """Return the masses of all outputs for these answers."""
        if self.subject.stated is not None:
            return self._listed(self.subject.stated(private))
        found = self._played(private, self.region.noise)
        # What the subject declares is tried on all noise that is played, which is evidence and no
        # proof.
        if self.subject.shifts and not found.same(self._played(private + 1, self.region.noise)):
            raise InvalidParameter(
                "Subject.shifts must be False: outputs change when all noisy answers move together."
            )
        self._replayed(private, found)
        numbers = np.array(
            [
                self._number(*each)
                for each in zip(found.values, found.shown, found.keys, strict=True)
            ],
            dtype=np.int64,
        )[found.which]
        if self.subject.again is None:
            return _sum_by_output(numbers, self.region, slice(None))
        # -1 stands for the output that is drawn again.
        kept = np.flatnonzero(numbers >= 0)
        if not kept.size:
            raise InvalidParameter(
                "Subject.again must not be the output of all noise that is played."
            )
        return _condition_on_kept(_sum_by_output(numbers[kept], self.region, kept))

    def _listed(self, law: Stated) -> Outcomes:
        """Return outputs whose probabilities are stated; what is missing to 1 may be any output."""
        # Refused before any probability is computed.
        if isinstance(law, Counted) and law.size > self.vectors:
            raise InvalidParameter(TOO_MANY.format(limit=self.vectors, what="outputs"))
        below, above = contexts(DIGITS)
        masses: dict[int, Bounds] = {}
        rest = Decimal(1)
        for output, (least, most) in law:
            shown = output if self.partition is None else self.partition(output)
            number = self._number(output, shown, key(shown))
            low, high = masses.get(number, (Decimal(0), Decimal(0)))
            masses[number] = below.add(low, least), above.add(high, most)
            # Rounded up: what the lower bounds leave to 1 may be any output.
            rest = above.subtract(rest, least)
        if rest < 0:
            raise InvalidParameter(
                "Subject.stated must return probabilities whose lower bounds are together at most "
                "1."
            )
        # Each output gets a power of its own, counted once, so that `certified` works here, too.
        places = np.arange(len(masses) + 1)
        ids = sorted(masses)
        return Outcomes(
            ids=np.array(ids, dtype=np.int64),
            low=np.nextafter(np.array([float(masses[number][0]) for number in ids]), 0.0),
            high=np.nextafter(np.array([float(masses[number][1]) for number in ids]), np.inf),
            starts=places,
            powers=places[:-1],
            counts=np.ones(len(ids), dtype=np.int64),
            region=replace(self.region, powers=tuple(masses[number] for number in ids)),
            rest=max(Decimal(0), rest),
        )

    def _played(self, private: Any, noise: NDArray[np.int64]) -> Seen:
        return seen(self.subject.played(private, noise), noise.shape[0], self.partition)

    def _replayed(self, private: Any, found: Seen) -> None:
        """Raise `InvalidParameter` if rows have other outputs alone, or in other company and order.

        The rows are from all over the region.
        """
        noise = self.region.noise
        alone = np.unique(np.linspace(0, noise.shape[0] - 1, _ROWS_ALONE).astype(np.int64))
        back = np.arange(noise.shape[0])[:: -max(1, noise.shape[0] // _ROWS_TOGETHER)]
        for places in [*alone[:, None], back]:
            some = noise[places]
            # A function that wrote into its noise would change what it is compared with.
            some.flags.writeable = False
            if self._played(private, some).rows(slice(None)) != found.rows(places):
                raise InvalidParameter(
                    "audit.exact needs each output to be a function of the answers and its own "
                    "noise: some rows, played alone or in another order, gave other outputs."
                )

    def _redrawn(self, value: Any) -> bool:
        try:
            return key(value) == key(self.subject.again)
        except InvalidParameter:  # what has no key is none of the outputs that can be named
            return False

    def _number(self, value: Any, shown: Any, name: Hashable) -> int:
        """Return the number of an output, -1 for the one that is drawn again."""
        if self.subject.again is not None and self._redrawn(value):
            return -1
        # Outputs are numbered as they come, so that both sides of a pair have the same numbers.
        found = self._numbers.setdefault(name, len(self.outputs))
        if found == len(self.outputs):
            if found == OUTPUTS:
                raise InvalidParameter(
                    "audit.exact needs partition=, a function that puts each output into a class, "
                    f"because there are more than {OUTPUTS} different outputs."
                )
            self.outputs.append(shown)
        return found


def _condition_on_kept(outcomes: Outcomes) -> Outcomes:
    """Return the law of the outputs that are not drawn again.

    It is each mass times the whole over the mass of all of them.
    """
    down, up = contexts(DIGITS)
    region, low, high = outcomes.region, Decimal(0), outcomes.rest
    for power, count in zip(outcomes.powers.tolist(), outcomes.counts.tolist(), strict=True):
        least, most = region.powers[power]
        low, high = (
            down.add(low, down.multiply(count, least)),
            up.add(high, up.multiply(count, most)),
        )
    # What is not drawn again has a mass from `low` to `high`, which counts the noise that was not
    # played.
    scale = down.divide(region.total[0], high), up.divide(region.total[1], low)
    below, above = (math.nextafter(float(scale[0]), 0.0), math.nextafter(float(scale[1]), math.inf))
    return replace(
        outcomes,
        low=outcomes.low * (below * (1 - 2.0**-51)),
        high=outcomes.high * (above * (1 + 2.0**-51)),
        rest=up.multiply(outcomes.rest, scale[1]),
        scale=scale,
    )


def _sum_by_output(output: NDArray[np.int64], region: Region, kept: Any) -> Outcomes:
    """Add the weights of each output and power exactly, then the powers of each output as floats.

    The floats come with their error.
    """
    width = len(region.powers)
    # One number for output and power, so that a single sort puts equal ones together.
    key = output * width + region.exponent[kept]
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    # Whole numbers up to 2^52 are added exactly.
    counts = np.add.reduceat(region.weight[kept][order], starts)
    ids, powers = np.divmod(key[starts], width)
    first = np.flatnonzero(np.diff(ids, prepend=-1))
    nearest = np.array([float(low) for low, _ in region.powers])
    sums = np.add.reduceat(counts * nearest[powers], first)
    bounds = np.append(first, ids.size)
    # Each term errs by less than three roundings (power, its nearest float, product), a sum of m
    # terms by m - 1 more.
    error = (int(np.diff(bounds).max()) + 8) * 2.0**-52
    return Outcomes(
        ids=ids[first],
        low=sums * (1 - error),
        high=sums * (1 + error),
        starts=bounds,
        powers=powers,
        counts=counts,
        region=region,
        rest=region.rest,
    )
