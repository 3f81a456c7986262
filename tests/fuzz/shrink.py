"""Cut a case down while it still finds the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from fuzz.cases import Case
from fuzz.predicates import COMPARISONS, Tree, columns_of, subtrees
from fuzz.questions import Question
from fuzz.sources import HOLDS
from fuzz.tables import Rows, Table
from fuzz.values import FLOATS, WHOLE, identity

_SIMPLEST = (
    {"kind": "arrow", "chunk": 0, "text": "string"},
    {
        "kind": "parquet",
        "writer": "pyarrow",
        "group": 100_000,
        "files": 1,
        "dictionary": False,
        "statistics": True,
        "pages": "1.0",
    },
    {"kind": "relation", "made": "query", "owner": "plain"},
    {"kind": "duckdb", "ghosts": 0, "view": False, "group": 122_880, "collated": False},
)
_PLAINER = {
    "files": 1,
    "ghosts": 0,
    "view": False,
    "collated": False,
    "chunk": 0,
    "owner": "plain",
    "quoting": "minimal",
}
_BOOLEAN = {
    *COMPARISONS,
    "and",
    "or",
    "not",
    "is null",
    "is not null",
    "in",
    "not in",
    "between",
    "not between",
    "like",
    "not like",
}


def shrink(case: Case, finds: Callable[[Case], bool], *, seconds: float) -> Case:
    """Return a smaller case that still finds the same.

    Parameters
    ----------
    finds : callable
        Tells whether a case still does.
    """
    end = time.monotonic() + seconds
    going = True
    while going and time.monotonic() < end:
        going = False
        for way in (_sources, _rows, _conditions, _questions, _columns, _values):
            better = _first(way, case, finds, end)
            while better is not None:
                case, going = better, True
                better = _first(way, case, finds, end)
    return case


def _first(
    way: Callable[[Case], Iterator[Case]], case: Case, finds: Callable[[Case], bool], end: float
) -> Case | None:
    for smaller in way(case):
        if time.monotonic() > end:
            return None
        if finds(smaller):
            return smaller
    return None


def _sources(case: Case) -> Iterator[Case]:
    if case.threads:
        yield case.change(threads=0)
    if case.place != "last":
        yield case.change(place="last")
    kind = case.source["kind"]
    alike = len({name.lower() for name in case.base.names}) < len(case.base.names)
    for spec in _SIMPLEST:
        if alike and spec["kind"] == "duckdb":
            continue  # it cannot have two such columns
        if spec == case.source:
            return
        if spec["kind"] in {"arrow", "relation"} and (case.release or {}).get("how") == "command":
            continue  # a command reads no table in memory
        if set(case.base.kinds) <= set(HOLDS[spec["kind"]]) or spec["kind"] == kind:
            yield case.change(source=dict(spec))
    for option, simple in _PLAINER.items():
        if case.source.get(option, simple) != simple:
            yield case.change(source=case.source | {option: simple})


def _rows(case: Case) -> Iterator[Case]:
    for fewer in _fewer(case.base.rows):
        yield case.change(base=case.base.with_rows(fewer))
    if case.question.unit is not None:  # a row that is a unit is one row
        for fewer in _fewer(case.added):
            if fewer:
                yield case.change(added=fewer)
        for fewer in _fewer(case.instead):
            if fewer:
                yield case.change(instead=fewer)
    if case.instead != case.added[:1] and case.question.unit is None and case.instead:
        yield case.change(instead=case.added[:1])


def _fewer(rows: Rows) -> Iterator[Rows]:
    """Yield rows without some of them: first without most, at last without one."""
    size = len(rows)
    if size > 1:
        yield ()
    piece = size
    while piece >= 1:
        piece = piece // 2 if piece > 1 else 0
        if not piece or size // piece > 64:
            break
        for at in range(0, size, piece):
            yield rows[:at] + rows[at + piece :]


def _conditions(case: Case) -> Iterator[Case]:
    where = case.question.where
    if where is None:
        return
    yield _asked(case, where=None)
    for part in subtrees(where):
        if part[0] in _BOOLEAN:
            yield _asked(case, where=part)
    for smaller in _smaller(where):
        yield _asked(case, where=smaller)


def _smaller(tree: Tree) -> Iterator[Tree]:
    """Yield trees with one part replaced by something smaller."""
    for place, part in enumerate(tree[1:], start=1):
        if not (isinstance(part, list) and part and isinstance(part[0], str)):
            continue
        if tree[0] in {"in", "not in"} and place == 2:
            if len(part) > 1:
                yield [*tree[:place], part[:1]]
            continue
        inner = [
            one for one in part[1:] if isinstance(one, list) and part[0] not in {"in", "not in"}
        ]
        for child in inner:
            if (child[0] in _BOOLEAN) == (part[0] in _BOOLEAN):
                yield [*tree[:place], child, *tree[place + 1 :]]
        if part[0] not in {"col", "const"} and part[0] not in _BOOLEAN:
            yield [*tree[:place], ["const", "1"], *tree[place + 1 :]]
        for smaller in _smaller(part):
            yield [*tree[:place], smaller, *tree[place + 1 :]]


def _asked(case: Case, **changes: Any) -> Case:
    return case.change(question=replace(case.question, **changes))


def _questions(case: Case) -> Iterator[Case]:
    question = case.question
    if question.by is not None:
        yield _asked(
            case,
            by=None,
            domain=None,
            groups_per_unit=None,
            ranges=(question.ranges or [])[:1] or None,
        )
    if question.max_rows not in {None, 1}:
        yield _asked(case, max_rows=1)
    if question.groups_per_unit not in {None, 1}:
        yield _asked(case, groups_per_unit=1)
    if question.adjacency != "add-remove":
        yield _asked(case, adjacency="add-remove")
    if question.salt != Question("rows").salt:
        yield _asked(case, salt=Question("rows").salt)
    labels = (question.domain or {}).get("list", [])
    for label in (
        labels if len(labels) > 1 and len({tuple(one) for one in question.ranges or []}) < 2 else ()
    ):
        ranges = question.ranges and question.ranges[:-1]
        yield _asked(case, domain={"list": [one for one in labels if one != label]}, ranges=ranges)
    edges = (question.grid or {}).get("edges", [])
    for edge in edges if len(edges) > 1 else ():
        yield _asked(case, grid={"edges": [one for one in edges if one != edge]})
    if question.grid and question.grid != {"lower": "0", "cap": "100", "growth": "2", "unit": "1"}:
        yield _asked(case, grid={"lower": "0", "cap": "100", "growth": "2", "unit": "1"})


def _columns(case: Case) -> Iterator[Case]:
    table, question = case.base, case.question
    used = question.columns() | (
        columns_of(question.where) if question.where is not None else set()
    )
    for place, name in enumerate(table.names):
        if name not in used and len(table.names) > 1:
            keep = [at for at in range(len(table.names)) if at != place]
            base, added, instead = (
                _kept(rows, keep) for rows in (table.rows, case.added, case.instead)
            )
            names, kinds = (tuple(one[at] for at in keep) for one in (table.names, table.kinds))
            yield case.change(base=Table(names, kinds, base), added=added, instead=instead)


def _kept(rows: Rows, keep: list[int]) -> Rows:
    return tuple(tuple(row[at] for at in keep) for row in rows)


def _values(case: Case) -> Iterator[Case]:
    """Make whole columns, and then single values, as simple as can be; never those that say whose a row is."""
    for place, (name, kind) in enumerate(zip(case.base.names, case.base.kinds, strict=True)):
        if name == case.question.unit:
            continue
        for value in _simple(kind):
            yield _with_column(case, place, value, everywhere=True)
    for place, (name, kind) in enumerate(zip(case.base.names, case.base.kinds, strict=True)):
        if name == case.question.unit:
            continue
        for value in _simple(kind):
            for part in ("base", "added", "instead"):
                rows = case.base.rows if part == "base" else getattr(case, part)
                for at in range(min(len(rows), 12)):
                    if identity(rows[at][place]) != identity(value) and rows[at][place] is not None:
                        row = (*rows[at][:place], value, *rows[at][place + 1 :])
                        changed = (*rows[:at], row, *rows[at + 1 :])
                        yield case.change(
                            **{part: case.base.with_rows(changed) if part == "base" else changed}
                        )


def _simple(kind: str) -> tuple[Any, ...]:
    if kind in WHOLE:
        return (None, 0, 1)
    if kind in FLOATS:
        return (None, 0.0, 1.0)
    return (None, "a") if kind == "VARCHAR" else (None,)


def _with_column(case: Case, place: int, value: Any, *, everywhere: bool) -> Case:
    def changed(rows: Rows) -> Rows:
        return tuple((*row[:place], value, *row[place + 1 :]) for row in rows)

    base = changed(case.base.rows)
    if base == case.base.rows:
        return (
            case.change(added=changed(case.added), instead=changed(case.instead))
            if everywhere
            else case
        )
    return case.change(base=case.base.with_rows(base))
