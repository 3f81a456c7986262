"""What the answers must be, computed in plain Python: exactly, or between two ends where a keyed hash chooses rows."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

from fuzz.predicates import COMPARISONS, Tree
from fuzz.questions import (
    ROWS,
    Answers,
    Question,
    has_squares,
    make_domain,
    make_grid,
    make_search,
    step_ranges,
)
from fuzz.tables import Row, Table
from fuzz.values import WHOLE, exact_number, is_missing, text_of
from sordino.columns.bucket_sums import SumSteps

_WHOLE_TEXT = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


class Unsaid(Exception):
    """The oracle does not say what the answer is."""


@dataclass
class Expected:
    """Between which ends each answer must be, and what all of a kind must add up to."""

    low: dict[tuple[Any, ...], int] = field(default_factory=lambda: defaultdict(int))
    high: dict[tuple[Any, ...], int] = field(default_factory=lambda: defaultdict(int))
    sums: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    unsummed: set[str] = field(default_factory=set)

    def add(self, key: tuple[Any, ...], low: int, high: int) -> None:
        """Add what one unit adds to an answer."""
        self.low[key] += low
        self.high[key] += high

    def wrong(self, answers: Answers) -> str | None:
        """Return what is wrong with some answers."""
        for key in {*self.low, *self.high, *answers}:
            # Rounded down once: what it may be is said of neighbors (`checks`).
            if key[0] == "within":
                continue
            low, high, found = self.low.get(key, 0), self.high.get(key, 0), answers.get(key, 0)
            if not low <= found <= high:
                wanted = str(low) if low == high else f"{low} to {high}"
                return f"{_name(key)} is {found}, must be {wanted}"
        for kind, wanted_sum in self.sums.items():
            found = sum(n for key, n in answers.items() if key[0] == kind)
            if found != wanted_sum and kind not in self.unsummed:
                return f"all of {kind} add up to {found}, must be {wanted_sum}"
        return None


def _name(key: tuple[Any, ...]) -> str:
    return " ".join(
        str(part) if isinstance(part, int) else ascii(part)[:40] for part in key if part is not None
    )


def expected(table: Table, question: Question, *, source: str) -> Expected:
    """Return what the answers must be.

    Raises
    ------
    Unsaid
        If that is not easily said.
    """
    if question.kind == "records":
        raise Unsaid  # numbers are rounded to floats there
    if question.unit_too is not None or question.call is not None:
        raise Unsaid
    reading = _read_in_frame if source in FRAMES else _read
    kept = [
        row
        for row in table.rows
        if question.where is None or _holds(question.where, table, row, reading) is True
    ]
    units: dict[Any, list[Row]] = defaultdict(list)
    for place, row in enumerate(kept):
        unit: Any = place
        if question.unit is not None:
            unit = _label(table, row, question.unit, source)
        if unit is not None:
            units[unit].append(row)
    found = Expected()
    for rows in units.values():
        if question.kind == "rows":
            n = len(rows) if question.max_rows is None else min(len(rows), question.max_rows)
            found.add(("rows",), n, n)
        elif question.kind == "units":
            found.add(("units",), 1, 1)
        elif question.kind == "items":
            _add_items(found, table, question, rows, source=source)
        else:
            _add_numbers(found, table, question, rows, source=source)
    return found


def _label(table: Table, row: Row, name: str, source: str) -> str | None:
    place = table.names.index(name)
    return text_of(row[place], table.kinds[place], server=source in {"postgres", "spark"})


def _item(
    table: Table, row: Row, name: str, domain: dict[str, Any] | None, source: str
) -> str | None:
    """Return the label of the domain that a row has, None if it has none."""
    text, domain = _label(table, row, name, source), domain or {}
    if "unlisted" in domain:  # by a rule of the text alone
        return text if text and "\0" not in text and len(text) <= 4096 else None
    if text is None or "public" in domain or ("list" in domain and text in domain["list"]):
        return text
    if "list" in domain:
        return None
    start, stop = domain["range"] if "range" in domain else (0, domain["indexed"])
    if not _WHOLE_TEXT.fullmatch(text) or not start <= int(text) < stop:
        return None
    made = make_domain(domain)
    return str(made.labels[int(text) - start]) if made is not None else None


def _add_items(
    found: Expected, table: Table, question: Question, rows: list[Row], *, source: str
) -> None:
    items: set[Any] = {
        _item(table, row, str(question.item), question.domain, source) for row in rows
    }
    if question.other is not None:
        parts = [(str(question.item), question.domain), question.other]
        pairs = [tuple(_item(table, row, *part, source) for part in parts) for row in rows]
        items = {pair for pair in pairs if None not in pair}
    items -= {None}
    most = (
        len(items)
        if question.max_rows is None or question.unit is None
        else min(len(items), question.max_rows)
    )
    for item in items:
        found.add(("item", item), int(most == len(items)), 1)
    found.sums["item"] += most


# ---- numbers ------------------------------------------------------------------------------------------------------------


def _add_numbers(
    found: Expected, table: Table, question: Question, rows: list[Row], *, source: str
) -> None:
    if question.shared:
        raise Unsaid  # tests/questions/test_shared_clip.py says what a unit counts as
    groups: dict[Any, list[Any]] = defaultdict(list)
    place = table.names.index(str(question.column))
    for row in rows:
        group = (
            None if question.by is None else _item(table, row, question.by, question.domain, source)
        )
        if question.by is None or group is not None:
            groups[group].append(_number(row[place], source=source))
    if question.per_person is not None:
        kind = table.kinds[place]
        groups = defaultdict(
            list,
            {
                group: [_value_of_unit(numbers, question.per_person, kind)]
                for group, numbers in groups.items()
            },
        )
    rows_in_all, allowed = sum(map(len, groups.values())), question.max_rows or 1
    if is_together(question):
        chosen = rows_in_all <= allowed
        if question.kind == "buckets":
            _add_sum(
                found,
                [number for numbers in groups.values() for number in numbers],
                min(rows_in_all, allowed),
            )
    else:
        chosen = (
            question.groups_per_unit is None
            or question.unit is None
            or len(groups) <= question.groups_per_unit
        )
    if question.weighed is not None:
        _add_weights(found, question, groups)
        return
    edges, ladder = _read_grid(json.dumps(question.grid or {}))
    # Over a grid whose steps are cut, numbers are compared as floats.
    exact = (question.grid or {}).get("cuts", 1) == 1
    ladder = ladder if question.kind == "buckets" else None
    labels = question.labels() if question.by is not None else [None]
    ranges = step_ranges(question)
    for group, numbers in groups.items():
        most = len(numbers) if question.unit is None else min(len(numbers), question.max_rows or 1)
        # How many rows are in a bucket for certain, and how many more may be.
        buckets: dict[int, int] = defaultdict(int)
        maybe: dict[int, int] = defaultdict(int)
        for number in numbers:
            # A row without a number is in no bucket, though it may take the place of another one.
            if number is not None:
                first, last = _bucket_ends(number, edges, exact=exact)
                for bucket in range(first, last + 1):
                    buckets[bucket] += first == last
                    maybe[bucket] += first != last
        if question.kind == "buckets":
            for bucket, sure in buckets.items():
                n = sure + maybe[bucket]
                fewest = max(0, most - (len(numbers) - sure)) if chosen else 0
                found.add(("bucket", group, bucket), fewest, min(n, most))
                if ladder is not None:
                    found.add(("counted", group, bucket), fewest, min(n, most))
                    here = [
                        one for one in numbers if one is not None and _bucket(one, edges) == bucket
                    ]
                    found.add(
                        ("sum", group, bucket),
                        *_sum_ends(here, bucket, ladder, fewest, min(n, most)),
                    )
            if not is_together(question):
                _add_sum(found, numbers, most)
            continue
        ends = ranges[(labels or [None]).index(group)] if len(ranges) > 1 else ranges[0]
        steps = sorted(0 if number is None else _steps(number, ends) for number in numbers)
        known = sum(number is not None for number in numbers)
        missing = len(numbers) - known
        # Of a unit of which some rows count, or none, here or in other groups.
        counts = [most] if chosen else range(most + 1) if is_together(question) else [0, most]
        found.add(
            ("steps", group),
            min(sum(steps[:n]) for n in counts),
            max(sum(steps[len(steps) - n :]) for n in counts),
        )
        found.add(("known", group), max(0, most - missing) if chosen else 0, min(known, most))
        if has_squares(question):
            squares = sorted(
                0 if number is None else (_steps(number, ends) - ends.low) ** 2
                for number in numbers
            )
            smallest, largest = sum(squares[:most]), sum(squares[len(squares) - most :])
            found.add(("squares", group), smallest if chosen else 0, largest)
    if not chosen and not is_together(
        question
    ):  # which groups count is decided by a hash: only their ends are known
        found.unsummed.add("bucket")


def _add_weights(found: Expected, question: Question, groups: dict[Any, list[Any]]) -> None:
    """Add what the rows of a unit weigh: 2^bits over how many numbers it has, or over the cap."""
    cap, bits = question.weighed or (1, 0)
    numbers = [
        (group, number)
        for group, all_of_it in groups.items()
        for number in all_of_it
        if number is not None
    ]
    if not numbers:
        return
    weight = (1 << bits) // max(cap, len(numbers))
    edges, _ = _read_grid(json.dumps(question.grid or {}))
    exact = (question.grid or {}).get("cuts", 1) == 1
    ends = step_ranges(question)[0]
    if question.kind == "buckets":
        rows = [Fraction(edge) for edge in ROWS.edges.tolist()]
        found.add(("bucket", None, bisect_right(rows, len(numbers))), 1, 1)
    for group, number in numbers:
        if question.kind == "buckets":
            first, last = _bucket_ends(number, edges, exact=exact)
            for bucket in range(first, last + 1):
                found.add(("weight", group, bucket), weight if first == last else 0, weight)
        else:
            steps = weight * _steps(number, ends)
            found.add(("steps", group), steps, steps)
            found.add(("known", group), weight, weight)
            if has_squares(question):
                square = weight * (_steps(number, ends) - ends.low) ** 2
                found.add(("squares", group), square, square)


def _value_of_unit(numbers: list[Any], aggregate: str, kind: str) -> Fraction | None:
    """Return the one number of a unit; only where no rule of rounding is needed to say it."""
    known = [number for number in numbers if number is not None]
    if aggregate == "count":
        return Fraction(len(known))
    if not known:
        return None
    if aggregate == "any":
        return Fraction(any(known))
    # Floats are counted in steps of 2^-32 here, up to 2^30.
    if any(
        isinstance(one, float) or abs(one) >= 1 << 30 or (one * (1 << 32)).denominator > 1
        for one in known
    ):
        raise Unsaid
    total = sum(known, Fraction(0))
    if aggregate == "mean":
        if kind.startswith(("DECIMAL", "NUMERIC")) or abs(total) >= 1 << 20:
            raise Unsaid  # rounded twice, or of more digits than a float has
        return Fraction(float(total / len(known)))
    chosen = {"sum": total, "min": min(known), "max": max(known)}[aggregate]
    return Fraction(float(chosen))


@lru_cache(maxsize=16)
def _read_grid(grid: str) -> tuple[list[Fraction], SumSteps | None]:
    """Return the edges of a grid, and the steps of a search on it; once for all units of a case."""
    made = make_grid(json.loads(grid))
    search = make_search(made)
    return [
        Fraction(edge) for edge in made.edges.tolist()
    ], None if search is None else search.ladder


def is_together(question: Question) -> bool:
    """Tell whether rows of a unit are bounded in all groups together."""
    return (
        question.by is not None and question.unit is not None and question.groups_per_unit is None
    )


def _sum_ends(
    numbers: list[Any], bucket: int, ladder: SumSteps, fewest: int, most: int
) -> tuple[int, int]:
    """Return between which ends the steps of some of these numbers of one bucket add up."""
    rung = [one for one in ladder.rungs if one.start <= bucket][-1]
    steps = sorted(0 if number is None else _steps(number, rung) for number in numbers)
    counts = range(fewest, most + 1)
    return min(sum(steps[:n]) for n in counts), max(sum(steps[len(steps) - n :]) for n in counts)


def _number(value: Any, *, source: str) -> Fraction | float | None:
    if source == "pandas" and type(value) is int:
        return exact_number(float(value))  # there whole numbers are read as floats, each by itself
    if not isinstance(value, str):
        return exact_number(value)
    if source == "pandas" and value in {"true", "false", "True", "False"}:
        return Fraction(value in {"true", "True"})
    if value in {"inf", "-inf", "nan"}:
        # A rule: no text says an infinite number. Only pandas has infinite floats among the values of a column
        # of objects, and they are texts by then.
        return exact_number(float(value)) if source == "pandas" else None
    if not re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?", str(value), re.ASCII):
        raise Unsaid
    return exact_number(float(value))


def _add_sum(found: Expected, numbers: list[Any], most: int) -> None:
    """Add how many of the rows of a unit are in a bucket, if so many of them count."""
    known = sum(number is not None for number in numbers)
    found.sums["bucket"] += min(known, most)
    # Which of them count is not known: with or without a number.
    if known < len(numbers) and most < len(numbers):
        found.unsummed.add("bucket")


def _bucket(number: Fraction | float, edges: list[Fraction]) -> int:
    if number == -math.inf:
        return 0
    return len(edges) if number == math.inf else bisect_right(edges, number)


def _bucket_ends(
    number: Fraction | float, edges: list[Fraction], *, exact: bool
) -> tuple[int, int]:
    """Return the first and the last bucket where a number may be.

    Unless it is compared `exact`, that is the float next to it, or one of the floats near that one:
    engines divide two rounded numbers to get it.
    """
    if exact or isinstance(number, float) or _is_float(number):
        bucket = _bucket(number, edges)
        return bucket, bucket
    off = abs(number) / (1 << 50)
    return _bucket(number - off, edges), _bucket(number + off, edges)


def _is_float(number: Fraction) -> bool:
    try:
        return Fraction(float(number)) == number
    except OverflowError:
        return False


def _steps(number: Fraction | float, ends: Any) -> int:
    if isinstance(number, float):
        return ends.high if number > 0 else ends.low
    return max(ends.low, min(ends.high, math.floor(number / ends.step)))


# ---- simple predicates --------------------------------------------------------------------------------------------------


FRAMES = ("pandas", "polars", "lazy", "arrow")
Reading = Callable[[Tree, Tree, Table, Row], tuple[tuple[Any, str], tuple[Any, str]]]


def _holds(tree: Tree, table: Table, row: Row, reading: Reading) -> bool | None:
    """Return whether a predicate holds, None for neither; only where nothing is computed that could fail."""
    op, *parts = tree
    if op in {"and", "or"}:
        one, two = (_holds(part, table, row, reading) for part in parts)
        decided = op == "or"
        if decided in (one, two):
            return decided
        return None if None in (one, two) else not decided
    if op == "not":
        inner = _holds(parts[0], table, row, reading)
        return None if inner is None else not inner
    if op in {"is null", "is not null"} and parts[0][0] == "col":
        value = row[table.names.index(parts[0][1])]
        if value is not None and is_missing(value):
            raise Unsaid
        return (value is None) == (op == "is null")
    if op in COMPARISONS:
        if _narrowed(parts, table):
            raise Unsaid
        return _compare(op, *reading(*parts, table, row))
    if op in {"in", "not in"}:
        if any(_narrowed((parts[0], ["const", text]), table) for text in parts[1]):
            raise Unsaid
        found = [
            _compare("=", *reading(parts[0], ["const", text], table, row)) for text in parts[1]
        ]
        inside = True if True in found else None if None in found else False
        return inside if op == "in" or inside is None else not inside
    raise Unsaid


def _narrowed(parts: Any, table: Table) -> bool:
    """Tell whether the engine makes a UHUGEINT a signed number first, into which not all of its values fit (docs/known-limits.md)."""
    kinds = {
        table.kinds[table.names.index(part[1])]
        for part in parts
        if part[0] == "col" and part[1] in table.names
    }
    # A negative constant is a signed number, too.
    signed = any(part[0] == "const" and part[1].startswith("-") for part in parts)
    return "UHUGEINT" in kinds and (
        signed or bool(kinds & {"TINYINT", "SMALLINT", "INTEGER", "BIGINT"})
    )


def _read(one: Tree, two: Tree, table: Table, row: Row) -> tuple[tuple[Any, str], tuple[Any, str]]:
    return _value(one, table, row), _value(two, table, row)


def _read_in_frame(
    one: Tree, two: Tree, table: Table, row: Row
) -> tuple[tuple[Any, str], tuple[Any, str]]:
    """Return two sides as a frame has them: numbers are floats, and what is no plain word may be anything."""
    sides = _read(one, two, table, row)
    if any(
        kind == "text" and (value is None or not value.isalpha() or len(value) > 2)
        for value, kind in sides
    ):
        raise Unsaid
    if one[0] == two[0] == "col" and any(kind == "whole" for _, kind in sides):
        raise Unsaid  # two columns are compared as texts
    left, right = (
        (float(value), kind) if kind == "whole" and value is not None else (value, kind)
        for value, kind in sides
    )
    return left, right


def _value(tree: Tree, table: Table, row: Row) -> tuple[Any, str]:
    """Return the value and kind of a column or a constant."""
    if tree[0] == "col" and tree[1] in table.names:
        place = table.names.index(tree[1])
        kind = table.kinds[place]
        if isinstance(row[place], str) and kind in WHOLE:
            raise Unsaid  # a stray text: the column is one of texts, as a whole
        if kind in WHOLE or kind == "VARCHAR":
            return row[place], "whole" if kind in WHOLE else "text"
    if tree[0] == "const" and re.fullmatch("-?[0-9]{1,18}", tree[1]):
        return int(tree[1]), "whole"
    if tree[0] == "const" and tree[1].startswith("'"):
        return tree[1][1:-1].replace("''", "'"), "text"
    raise Unsaid


def _compare(op: str, one: tuple[Any, str], two: tuple[Any, str]) -> bool | None:
    (a, kind), (b, other) = one, two
    if kind != other:
        raise Unsaid
    if a is None or b is None:
        return None
    if kind == "text":  # by bytes, as engines compare
        a, b = a.encode("utf-8", "surrogatepass"), b.encode("utf-8", "surrogatepass")
    results = {"=": a == b, "<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b}
    return bool(results.get(op, a != b))
