"""Cases: a table with its neighbors, a question and a source; how files keep them."""

from __future__ import annotations

import json
import random
import re
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from fuzz.declared import kind_of, read_field
from fuzz.predicates import render
from fuzz.questions import Question
from fuzz.tables import Row, Rows, Table, pack, unpack
from fuzz.values import identity, text_of

PLACES = ("last", "last", "first", "middle", "scattered")


@dataclass(frozen=True)
class Case:
    """A table with its neighbors, and what is asked of them.

    Parameters
    ----------
    base : Table
        The rows of everybody else.
    added : rows
        All rows of one unit: D is the base with them.
    instead : rows
        All rows of another unit, which takes its place.
    place : str
        Where the rows of the one unit stand among the others.
    threads : int
        0: as many as the engine likes; otherwise forced.
    pieces : int
        0: rows that an engine hands on arrive as it sends them; otherwise so many at once, and a unit of more rows than
        twice as many is one that is not kept in memory.
    release : dict or None
        What is asked of a command or a session instead of the question itself; None: the exact answers are compared.
    """

    base: Table
    added: Rows
    instead: Rows
    question: Question
    source: dict[str, Any]
    place: str = "last"
    threads: int = 0
    pieces: int = 0
    release: dict[str, Any] | None = None
    seed: int | None = field(default=None, compare=False)

    def joined(self, rows: Rows) -> Table:
        """Return the base with the rows of a unit among its own."""
        base = self.base.rows
        if self.place == "first":
            return self.base.with_rows(rows + base)
        if self.place == "middle":
            half = len(base) // 2
            return self.base.with_rows(base[:half] + rows + base[half:])
        if self.place == "scattered":
            return self.base.with_rows(_shuffled(base + rows, len(base)))
        return self.base.with_rows(base + rows)

    def unit_of(self, row: Row) -> Any:
        """Return what tells the unit of a row from others; None if it has none. Equal rows that are units count as one here."""
        if self.question.unit is None:
            return tuple(map(identity, row))
        own = self._text_of(self.question.unit, row)
        if self.question.unit_too is None:
            return own
        cut, _, name = self.question.unit_too.rpartition("(")
        other = self._text_of(name.rstrip(")"), row) if cut else self._text_of(name, row)
        if cut and other is not None:
            other = cut_text(cut, other)
        return None if own is None or other is None else (own, other)

    def _text_of(self, name: str, row: Row) -> str | None:
        place = self.base.names.index(name)
        return unit_text(self.source, name, self.base.kinds[place], row[place])

    def other_labels(self) -> bool:
        """Tell whether labels are assumed public, and one unit may have some that no other has."""
        if self.question.item is None or "public" not in (self.question.domain or {}):
            return False
        place = self.base.names.index(self.question.item)
        labels = [
            {identity(row[place]) for row in rows}
            for rows in (self.base.rows, self.added, self.instead)
        ]
        return not labels[1] | labels[2] <= labels[0]

    def change(self, **parts: Any) -> Case:
        """Return another case."""
        return replace(self, **parts)


def cut_text(cut: str, text: str) -> str | None:
    """Return the day or the month of a date that is written as ISO 8601 has it; None beyond the calendar."""
    return text[: {"day": 10, "month": 7}[cut]] if re.match(r"\d{4}-", text) else None


def unit_text(source: dict[str, Any], name: str, kind: str, value: Any) -> str | None:
    """Return the text under which a value is a unit in a source: by the declared type, where a file has one."""
    if name in source.get("types", {}):
        return text_of(read_field(source, name, value), kind_of(source, name))
    return text_of(value, kind)


def shuffled(rows: Rows, case: Case) -> Rows:
    """Return rows in another order, the same one each time."""
    return _shuffled(rows, len(rows) + len(case.added))


def _shuffled(rows: Rows, seed: int) -> Rows:
    listed = list(rows)
    random.Random(seed).shuffle(listed)
    return tuple(listed)


def to_text(case: Case, finding: str | None = None) -> str:
    """Return the file that keeps a case."""
    question = {name: value for name, value in asdict(case.question).items() if value is not None}
    kept: dict[str, Any] = {} if finding is None else {"finding": finding}
    if case.question.where is not None:
        kept["where"] = render(case.question.where)  # for people: the tree below is what counts
    kept |= {"source": case.source, "question": question, "place": case.place}
    kept |= {
        name: value
        for name, value in (
            ("threads", case.threads),
            ("pieces", case.pieces),
            ("release", case.release),
            ("seed", case.seed),
        )
        if value
    }
    kept["columns"] = [
        [name, kind] for name, kind in zip(case.base.names, case.base.kinds, strict=True)
    ]
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in kept.items()]
    for name, rows in (("base", case.base.rows), ("added", case.added), ("instead", case.instead)):
        runs = [json.dumps(run) for run in pack(rows)]
        lines.append(
            f'  "{name}": [' + ("\n    " + ",\n    ".join(runs) + "\n  ]" if runs else "]")
        )
    return "{\n" + ",\n".join(lines) + "\n}\n"


def from_text(text: str) -> Case:
    """Return the case that a file keeps."""
    kept = json.loads(text)
    names, kinds = (tuple(one) for one in zip(*kept["columns"], strict=True))
    return Case(
        base=Table(names, kinds, unpack(kept["base"])),
        added=unpack(kept["added"]),
        instead=unpack(kept["instead"]),
        question=Question(**kept["question"]),
        source=kept["source"],
        place=kept["place"],
        threads=kept.get("threads", 0),
        pieces=kept.get("pieces", 0),
        release=kept.get("release"),
        seed=kept.get("seed"),
    )
