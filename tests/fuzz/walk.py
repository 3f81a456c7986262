"""Many neighbors of one database: its units leave and come, one at a time, and all others must stay as they were.

Asked is mostly for the rows that a question is about (`questions.ask`), of which the whole must be the sum of its units, row by row and
bit by bit: whatever stands behind them reads nothing else. Some neighbors are asked the question itself.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fuzz.cases import Case
from fuzz.questions import Answers, Outcome
from fuzz.tables import Row

UNITS = 12
"""So many units of a table leave, one after the other."""
TOGETHER = 7
"""And then so many of them leave and come in all combinations."""
FEW = 3
"""As many of both where there are many rows."""
MANY_ROWS = 60
WHOLE = 0.08
"""The share of neighbors of which the question itself is asked."""


@dataclass
class Walk:
    """The units of a table, and how many tables were asked, and pairs of neighbors among them compared."""

    case: Case
    ask: Callable[..., Outcome]
    rng: random.Random
    asked: int = 0
    pairs: int = 0
    broken: Case | None = field(default=None)

    def steps(self, whole: Outcome) -> Iterator[tuple[str, str]]:
        """Yield what does not hold, a law and what was seen; of the whole table the answers are known."""
        seen = self.ask_rows(self.case.joined(self.case.added).rows)
        if seen is None:
            return
        units = self.list_units()
        few = sum(map(len, units.values())) > MANY_ROWS
        names = self.rng.sample(list(units), min(len(units), FEW if few else UNITS))
        added: dict[Any, Counter[Any]] = {}
        for name in names:
            rest = self.without(units, {name})
            left = self.ask_rows(rest)
            if left is None:
                return
            added[name] = seen - left
            self.pairs += 1
            if (wrong := find_wrong(seen, left)) is not None:
                self.broken = self.between(units, name)
                yield "rows of others change", wrong
                return
            if self.rng.random() < WHOLE:
                yield from self.compare(rest, units[name], whole)
        yield from self.wander(units, added, seen, FEW if few else TOGETHER)

    def wander(
        self,
        units: dict[Any, list[Row]],
        added: dict[Any, Counter[Any]],
        seen: Counter[Any],
        most: int,
    ) -> Iterator[tuple[str, str]]:
        """Ask all tables that lack some of a few units: two that differ in one of them differ in what it adds alone."""
        names = self.rng.sample(list(added), min(len(added), most))
        known = {frozenset[Any](): seen} | {frozenset([name]): seen - added[name] for name in names}
        for place in range(1, 1 << len(names)):
            # In an order in which one unit comes or goes each time.
            gone = frozenset(
                name for at, name in enumerate(names) if (place ^ place >> 1) >> at & 1
            )
            if gone in known:
                continue
            found = self.ask_rows(self.without(units, {*gone}))
            if found is None:
                return
            known[gone] = found
            for name in names:
                other = known.get(gone ^ {name})
                if other is None:
                    continue
                self.pairs += 1
                fewer, more = (found, other) if name in gone else (other, found)
                if more - fewer != added[name] or fewer - more:
                    self.broken = self.case
                    wrong = _tell(more, fewer + added[name])
                    yield "rows of others change", f"where {len(gone)} units are gone: {wrong}"
                    return

    def list_units(self) -> dict[Any, list[Row]]:
        """Return the rows of each unit; a row that is a unit by itself."""
        units: dict[Any, list[Row]] = {}
        for place, row in enumerate(self.case.joined(self.case.added).rows):
            name = place if self.case.question.unit is None else self.case.unit_of(row)
            units.setdefault(name, []).append(row)
        return units

    def without(self, units: dict[Any, list[Row]], gone: set[Any]) -> list[Row]:
        return [row for name, rows in units.items() if name not in gone for row in rows]

    def between(self, units: dict[Any, list[Row]], name: Any) -> Case:
        """Return the case in which this unit is the one that is added."""
        base = self.case.base.with_rows(self.without(units, {name}))
        return self.case.change(
            base=base, added=tuple(units[name]), place="last", seed=self.case.seed
        )

    def ask_rows(self, rows: Any) -> Counter[Any] | None:
        """Return the rows that a question is asked of; None if it is refused."""
        self.asked += 1
        outcome = self.ask("a neighbor", self.case.base.with_rows(rows), rows=True)
        return None if outcome.answers is None else Counter(outcome.answers)

    def compare(
        self, rest: list[Row], unit: list[Row], whole: Outcome
    ) -> Iterator[tuple[str, str]]:
        """Ask the question itself of a table, and of the unit that it lacks."""
        self.asked += 1
        parts = [
            self.ask(name, self.case.base.with_rows(rows)).answers
            for name, rows in (("without a unit", rest), ("this unit alone", unit))
        ]
        if None in parts or whole.answers is None:
            return
        total: Counter[Any] = Counter()
        for part in parts:
            total.update(_counted(part or {}))
        wanted = {key: n for key, n in total.items() if n}
        if wanted != _counted(whole.answers):
            yield (
                "the whole is not what its units add up to",
                _tell(_counted(whole.answers), wanted),
            )


def _counted(answers: Answers) -> dict[Any, int]:
    """Return what adds up: sums within a clip are rounded once."""
    return {key: n for key, n in answers.items() if key[0] != "within"}


def find_wrong(seen: Counter[Any], left: Counter[Any]) -> str | None:
    """Return what is wrong if these are left when one unit goes: rows that were not there, or of others, or of it."""
    fresh, lost = left - seen, seen - left
    if fresh:
        return f"there come {_tell(fresh, {})}"
    units = {key[1] for key in lost}
    if len(units) > 1:
        return f"of several units there go {_tell(lost, {})}"
    stay = [key for key in left if key[1] is not None and key[1] in units]
    return f"of one unit there stay {_tell(Counter(stay), {})}" if stay else None


def _tell(one: Any, other: Any) -> str:
    apart = [key for key in {*one, *other} if one.get(key, 0) != other.get(key, 0)]
    told = (
        f"{ascii(key)[:80]} {one.get(key, 0)} and {other.get(key, 0)}"
        for key in sorted(apart, key=repr)
    )
    return ", ".join(told)[:300]
