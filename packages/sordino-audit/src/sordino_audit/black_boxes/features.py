"""Features of outcomes, learned on the first runs.

Each puts an outcome into one of at most 255 bins.

Claim: none. A feature is a function of the outcome that is fixed before the runs on which it is
tested are looked at; a bad one costs power and nothing else.

Turns outcomes into columns: numbers, numbers computed from them, shapes, and a word for each
outcome.

Claim: none. All of it is post-processing of single outcomes.
Floats: computed as they come; a sum or difference that is rounded is still a function of the
outcome.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from sordino_audit.black_boxes.runs import CHARGED, REAL, WHOLE, Mark, RunPart, Shape, Table

# ---- columns -------------------------------------------------------------------------------------


_MOST_PAIRED, _MOST_IN_A_ROW, _MOST_FINEST_BITS = 5, 16, 4
# An odd number with mixed bits: multiplying by it loses nothing and moves low bits up.
_HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HASH_SHIFT = np.uint64(29)


class Columns(NamedTuple):
    """Some outcomes, in the order of their shapes.

    Attributes
    ----------
    numbers : dict of array, shape (n,)
        By name; NaN where an outcome has no such number.
    shapes : tuple of Shape
        The different ones.
    which : array of int, shape (n,)
        The position of each outcome's shape.
    words : array of uint64, shape (n,)
        The same for equal outcomes. Different ones share a word once in 2^64 or so, which merges
        two events and is harmless.
    tables : tuple of array
        The rows of each shape.
    """

    numbers: dict[str, Table]
    shapes: tuple[Shape, ...]
    which: NDArray[np.int64]
    words: NDArray[np.uint64]
    tables: tuple[Table, ...]


def is_number(mark: Mark) -> bool:
    """Tell whether a mark stands for a number."""
    return isinstance(mark.says, str) and mark.says in {WHOLE, REAL}


def columns(part: RunPart, paths: tuple[str, ...]) -> Columns:
    """Return the outcomes of a part, with the numbers at `paths` and those computed from them."""
    numbers = {path: np.full(part.size, np.nan) for path in paths}
    shapes, tables, which, words = [], [], [], []
    start = 0
    for i, (shape, table) in enumerate(part.tables()):
        rows = slice(start, start + table.shape[0])
        for at, mark in enumerate(filter(is_number, shape)):
            if mark.path in numbers:
                numbers[mark.path][rows] = table[:, at]
        shapes.append(shape)
        tables.append(table)
        which.append(np.full(table.shape[0], i, dtype=np.int64))
        words.append(_hash_rows(shape, table))
        start = rows.stop
    # Outcomes may be infinite: a difference that is NaN counts as a missing number.
    with np.errstate(invalid="ignore", over="ignore"):
        computed = {
            name: column for name, column in _compute_columns(numbers) if name not in numbers
        }
    return Columns(
        numbers | computed,
        tuple(shapes),
        np.concatenate(which),
        np.concatenate(words),
        tuple(tables),
    )


def _hash_rows(shape: Shape, table: Table) -> NDArray[np.uint64]:
    """Return one word for each row, made of what its shape says and of its numbers."""
    start = np.frombuffer(
        repr(shape).encode().ljust(-(-len(repr(shape).encode()) // 8) * 8), dtype="<u8"
    )
    word = np.zeros(table.shape[0], dtype=np.uint64)
    # Numbers enter by their bits; multiplying and shifting spreads every bit over the word.
    for piece in [*start, *np.ascontiguousarray(table.T).view(np.uint64)]:
        word = (word ^ piece) * _HASH_MULTIPLIER  # wraps on purpose
        word ^= word >> _HASH_SHIFT
    return word


def _compute_columns(numbers: dict[str, Table]) -> Iterable[tuple[str, Table]]:
    """Yield numbers computed from several ones, and how fine the bits of single ones are."""
    names = list(numbers)
    # Of a single number the sum and the largest one are that number.
    if len(names) > 1:
        stacked = np.column_stack([numbers[name] for name in names])
        known = ~np.isnan(stacked)
        some = known.any(axis=1)
        yield "sum", np.where(some, np.where(known, stacked, 0).sum(axis=1), np.nan)
        for name, empty, function in (
            ("largest", -np.inf, np.argmax),
            ("smallest", np.inf, np.argmin),
        ):
            filled = np.where(known, stacked, empty)
            where = function(filled, axis=1)
            yield (
                name,
                np.where(some, np.take_along_axis(filled, where[:, None], axis=1)[:, 0], np.nan),
            )
            yield f"place of the {name}", np.where(some, where, np.nan)
    # There are too many pairs of many numbers: then neighbors only.
    near = (
        list(combinations(names, 2))
        if len(names) <= _MOST_PAIRED
        else list(pairwise(names[:_MOST_IN_A_ROW]))
    )
    for one, other in near:
        yield f"{one} - {other}", numbers[one] - numbers[other]
    for name in names[:_MOST_FINEST_BITS]:
        yield f"finest bit of {name or 'value'}", _finest_bit(numbers[name])


def _finest_bit(column: Table) -> Table:
    """Return the exponent of the lowest bit that is set: -1 for 2.5, 3 for 8.

    A sum in floats is never finer than its parts are.
    """
    mantissa, exponent = np.frexp(np.where(np.isfinite(column), column, 0.0))
    # A float has 53 bits, so that this is a whole number.
    scaled = (np.abs(mantissa) * 2.0**53).astype(np.int64)
    # x & -x keeps the lowest bit of x alone.
    lowest = np.frexp((scaled & -scaled).astype(np.float64))[1] - 54
    return np.where(np.isfinite(column) & (scaled != 0), lowest + exponent, np.nan)


Codes = NDArray[np.uint8]

# How many of each are looked at, the most frequent ones: this bounds time and memory.
_MOST_NUMBERS, _MOST_PLACES, _MOST_WORDS, _MOST_SHAPES, _MOST_CUTS = 32, 32, 200, 5000, 64
# Frequent values are found in about so many outcomes of each box: those above this share of the
# sample.
_SAMPLE_SIZE, _ATOM_SHARE = 40_000, 1 / 400
_TAIL_SHARES = (1e-4, 3e-4, 1e-3, 3e-3)
_FEWEST_OF_A_WORD, _OUTCOMES_PER_BIN = 5, 4000
_LABEL_LENGTH = 60


@final
@dataclass(frozen=True, eq=False)
class Numeric:
    """A number of the outcome, or one computed from its numbers, in bins.

    Bin 0 is for outcomes that have no such number.
    """

    name: str
    cuts: Table
    missing: bool

    @property
    def size(self) -> int:
        """How many bins there are."""
        return self.cuts.size + 2

    def codes(self, found: Columns) -> Codes:
        """Return the bins of all outcomes."""
        # A value at a cut belongs to the bin above it.
        column = found.numbers[self.name]
        return np.where(
            np.isnan(column), 0, np.searchsorted(self.cuts, column, side="right") + 1
        ).astype(np.uint8)

    def says(self, low: int, high: int) -> str:
        """Return what it means to be in bins `low` to `high`."""
        name = self.name or "value"
        if high == 0:
            return f"no {name}"
        left = -np.inf if low <= 1 else float(self.cuts[low - 2])
        right = np.inf if high > self.cuts.size else float(self.cuts[high - 1])
        # A bin from a float to the next one has this value alone.
        if right == np.nextafter(left, np.inf):
            return f"{name} = {left:.12g}"
        text = (
            (f"{left:.6g} <= " if left > -np.inf else "")
            + name
            + (f" < {right:.6g}" if right < np.inf else "")
        )
        return f"{text}, or none" if self.missing and not low else text


@final
@dataclass(frozen=True, eq=False)
class Named:
    """What an outcome says at one place, ordered by how much it spoke for the first box.

    At no place (None) that is all of it. Bin 0 is for anything else.
    """

    name: str
    place: str | None
    order: dict[Hashable, int]
    labels: tuple[str, ...]

    @property
    def size(self) -> int:
        """How many bins there are."""
        return len(self.order) + 1

    def codes(self, found: Columns) -> Codes:
        """Return the bins of all outcomes."""
        if self.place is not None:
            return np.array(
                [self.order.get(_read_place(shape, self.place), 0) for shape in found.shapes],
                dtype=np.uint8,
            )[found.which]
        known = np.array(list(self.order), dtype=np.uint64)
        if not known.size:
            return np.zeros(found.words.size, dtype=np.uint8)
        bins = np.array(list(self.order.values()), dtype=np.uint8)[np.argsort(known)]
        known.sort()
        # An unknown word is put somewhere, too: the comparison below sorts it out.
        at = np.minimum(np.searchsorted(known, found.words), known.size - 1)
        return np.where(known[at] == found.words, bins[at], 0).astype(np.uint8)

    def says(self, low: int, high: int) -> str:
        """Return what it means to be in bins `low` to `high`."""
        listed = ["anything else" if i == 0 else self.labels[i - 1] for i in range(low, high + 1)]
        few = listed if len(listed) <= 3 else [*listed[:2], f"{len(listed) - 2} more"]
        return f"{self.name} {' or '.join(few)}"


Feature = Numeric | Named


def learned(a: RunPart, b: RunPart) -> tuple[tuple[str, ...], list[Feature]]:
    """Return the paths of numbers to look at, and features that may tell the two parts apart."""
    shapes: Counter[Shape] = Counter()
    for part in (a, b):
        shapes.update({shape: table.shape[0] for shape, table in part.tables()})
    frequent: Counter[str] = Counter()
    for shape, count in shapes.most_common(_MOST_SHAPES):
        frequent.update({mark.path: count for mark in shape if is_number(mark)})
    # The charge is always kept: costs of outcomes are read from it.
    kept = {path for path, _ in frequent.most_common(_MOST_NUMBERS)} | (frequent.keys() & {CHARGED})
    paths = tuple(path for path in frequent if path in kept)
    found = columns(a, paths), columns(b, paths)
    features: list[Feature] = []
    for name in found[0].numbers:
        cuts = _choose_bin_cuts(found[0].numbers[name], found[1].numbers[name])
        if cuts.size:
            features.append(
                Numeric(name, cuts, any(np.isnan(one.numbers[name]).any() for one in found))
            )
    features += [_name_place(place, found) for place in _find_telling_places(shapes)]
    features.append(_name_whole_outcomes(found))
    return paths, features


def _choose_bin_cuts(a: Table, b: Table) -> Table:
    """Return the ends of bins.

    Few values have one bin each. Else there are quantiles, far tails, and bins of their own for
    frequent values.
    """
    # Frequent values show in a sample, too; all runs would take longer.
    sample = np.concatenate(
        [a[:: max(1, a.size // _SAMPLE_SIZE)], b[:: max(1, b.size // _SAMPLE_SIZE)]]
    )
    known = np.sort(np.concatenate([a, b]))
    known = known[: np.searchsorted(known, np.nan)]  # NaN is sorted to the end
    if not known.size:
        return np.zeros(0)
    values, counts = np.unique(sample[~np.isnan(sample)], return_counts=True)
    if values.size <= _MOST_CUTS and np.unique(known).size <= _MOST_CUTS:
        return np.unique(known)
    shares = np.concatenate(
        [np.linspace(0, 1, _MOST_CUTS + 1)[1:-1], _TAIL_SHARES, 1 - np.array(_TAIL_SHARES)]
    )
    quantiles = known[np.minimum((shares * known.size).astype(np.int64), known.size - 1)]
    atoms = values[counts > _ATOM_SHARE * counts.sum()]
    largest = known[[0, -1]]  # an end of the range that only one box reaches
    # A cut at a frequent value and one just above it make a bin for this value alone.
    cuts = np.unique(
        np.concatenate([quantiles, atoms, np.nextafter(atoms, np.inf), largest[:1], largest[1:]])
    )
    # Codes are bytes: there are two more bins than cuts.
    return cuts if cuts.size <= 250 else cuts[np.linspace(0, cuts.size - 1, 250).astype(np.int64)]


def _read_place(shape: Shape, place: str) -> Hashable:
    """Return what a shape says at a place, a number's kind included.

    All of it for the place "shape".
    """
    if place == "shape":
        return shape
    return tuple(mark.says for mark in shape if mark.path == place)


def _find_telling_places(shapes: Counter[Shape]) -> list[str]:
    """Return the places at which outcomes say different things, in the order of first appearance.

    "shape" is one of them if shapes differ.
    """
    said: dict[str, set[Hashable]] = {}
    often: Counter[str] = Counter()
    for shape, count in shapes.most_common(_MOST_SHAPES):
        for path in dict.fromkeys(mark.path for mark in shape):
            said.setdefault(path, set()).add(_read_place(shape, path))
            often[path] += count
    total = shapes.total()
    # A place that some outcomes do not have tells them apart, too.
    several = {path for path, words in said.items() if len(words) > 1 or often[path] < total}
    kept = {path for path, _ in often.most_common() if path in several}
    first = [path for path in said if path in kept][:_MOST_PLACES]
    return [*first, "shape"] if len(shapes) > 1 else []


def _order_words(counts: tuple[Counter[Any], Counter[Any]]) -> list[Any]:
    """Return the most frequent words, those that spoke most for the second box first."""
    frequent = [word for word, _ in (counts[0] + counts[1]).most_common(_MOST_WORDS)]
    # Half a count more on both sides: no ratio is infinite.
    return sorted(frequent, key=lambda word: (counts[0][word] + 0.5) / (counts[1][word] + 0.5))


def _name_place(place: str, found: tuple[Columns, Columns]) -> Named:
    counts: tuple[Counter[Hashable], Counter[Hashable]] = (Counter(), Counter())
    for counter, one in zip(counts, found, strict=True):
        for shape, count in zip(
            one.shapes, np.bincount(one.which, minlength=len(one.shapes)).tolist(), strict=True
        ):
            counter[_read_place(shape, place)] += count
    order = _order_words(counts)
    return Named(
        f"{place or 'outcome'}:",
        place,
        {word: i + 1 for i, word in enumerate(order)},
        tuple(map(_show_word, order)),
    )


def _name_whole_outcomes(found: tuple[Columns, Columns]) -> Named:
    """Return the feature of the most frequent whole outcomes."""
    counts: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
    examples: dict[int, str] = {}
    for counter, one in zip(counts, found, strict=True):
        words, first, often = np.unique(one.words, return_index=True, return_counts=True)
        top = np.argsort(-often, kind="stable")[: 4 * _MOST_WORDS]
        # A rare outcome came more often from one box by chance: it gets no bin.
        top = top[often[top] >= max(_FEWEST_OF_A_WORD, found[0].words.size / _OUTCOMES_PER_BIN)]
        # Each box counts its own words; a label is taken from the first outcome with that word.
        counter.update(dict(zip(words[top].tolist(), often[top].tolist(), strict=True)))
        for word, at in zip(words[top].tolist(), first[top].tolist(), strict=True):
            examples.setdefault(word, _show_outcome(one, at))
    order = _order_words(counts)
    return Named(
        "outcome",
        None,
        {word: i + 1 for i, word in enumerate(order)},
        tuple(examples[word] for word in order),
    )


def _show_word(word: Any) -> str:
    parts = word if isinstance(word, tuple) else (word,)
    text = ", ".join(_describe_mark(part) for part in parts) or "nothing"
    return text if len(text) <= _LABEL_LENGTH else text[: _LABEL_LENGTH - 3] + "..."


def _describe_mark(part: Any) -> str:
    """Return one mark in words."""
    says = getattr(part, "says", part)
    if isinstance(says, tuple) and len(says) == 2:
        said = "#".join(says[1]) if says[0] == "text" and isinstance(says[1], tuple) else says[1]
        return repr(said) if says[0] == "text" else f"{says[0]} {said}"
    return str(says)


def _show_outcome(one: Columns, at: int) -> str:
    """Return the numbers and words of the outcome at a position."""
    which = int(one.which[at])
    # Outcomes stand in the order of their shapes: the row is counted from the first one of its
    # shape.
    row = one.tables[which][at - int(np.searchsorted(one.which, which))].tolist()
    # A row has its numbers in the order of their marks.
    numbers = iter(row)
    parts = [
        f"{next(numbers):.6g}" if is_number(mark) else _describe_mark(mark)
        for mark in one.shapes[which]
        if _is_more_than_length(mark)
    ]
    text = ", ".join(parts)
    return text if len(text) <= _LABEL_LENGTH else text[: _LABEL_LENGTH - 3] + "..."


def _is_more_than_length(mark: Any) -> bool:
    """Tell whether a mark says more than how long a list is."""
    return is_number(mark) or not (
        isinstance(mark.says, tuple) and mark.says[0] in {"length", "mapping"}
    )
