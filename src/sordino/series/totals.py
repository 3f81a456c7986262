"""Running figures of a series: sums of released periods, each with an exact interval.

Claim: each interval contains the figure that its periods counted with at least `confidence`; those
of `find_largest` all at once. Proof: docs/proofs/running-totals.md. Floats: figures and laws are
exact; ends are those of `figures.mixed_noise`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any, final

from sordino.figures.mixed_noise import Part, find_far
from sordino.ledger import PartRange, show_parts
from sordino.series.nodes import Node, cover, find_node, index_nodes
from sordino.session.looks import Rows

_WRONG = Fraction(1, 20)


@final
@dataclass(frozen=True, kw_only=True)
class RunningFigure:
    """A figure of all parts from the first one to another.

    Attributes
    ----------
    part : str
        The last part that it is of.
    item : object
        Its label; 0 of a count.
    total, low, high : Fraction or None
        The figure and its interval, as it was when that part had ended; None where a period of that
        is missing.
    periods : int or None
        Of how many releases it is the sum.
    revised, revised_low, revised_high : Fraction
        The best that is known of it by now: the shorter one of two intervals, from before and from
        the end of a longer period.
    at_least, at_most : Fraction or None
        If rows are only ever added: so many are there by now, and no more came in time, of all
        parts at once; None where that was not asked for, or nothing is known.
    """

    part: str
    item: Any
    total: Fraction | None
    low: Fraction | None
    high: Fraction | None
    periods: int | None
    revised: Fraction
    revised_low: Fraction
    revised_high: Fraction
    at_least: Fraction | None = None
    at_most: Fraction | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready values."""
        names = ("total", "low", "high", "revised", "revised_low", "revised_high")
        own = {} if self.item == 0 else {"item": self.item}
        found = ((name, getattr(self, name)) for name in names)
        numbers = {name: None if value is None else float(value) for name, value in found}
        return {"part": self.part, **own, **numbers, "periods": self.periods}

    def list_rising(self) -> dict[str, float | None]:
        """Return as JSON-ready values what holds where rows are only ever added."""
        ends = {"at_least": self.at_least, "at_most": self.at_most}
        return {name: None if end is None else float(end) for name, end in ends.items()}


@final
@dataclass(frozen=True, kw_only=True)
class RunningTotals:
    """What a series says, from its released periods.

    Parameters
    ----------
    first : int
        The first part of the series.
    cut : str
        Of its account.
    levels : sequence of str
        Which periods are asked, the shortest first.
    kept : mapping of Node to mapping
        Those that were released.
    """

    first: int
    cut: str
    levels: Sequence[str]
    kept: Mapping[Node, Rows]

    @cached_property
    def _known(self) -> dict[int, list[Node]]:
        return index_nodes(self.kept)

    @cached_property
    def items(self) -> list[Any]:
        """The labels of its figures, those that all its periods have; 0 alone for a count."""
        first, *others = self.kept.values() or [{}]
        known = {frozenset(one) for one in others}
        return [item for item in first if all(item in one for one in known)]

    def find_at(
        self, part: int, items: Iterable[Any] | None = None, wrong: Fraction = _WRONG
    ) -> list[RunningFigure]:
        """Return the figures until a part; none where the periods that are there make up none.

        Parameters
        ----------
        part : int
            The last part.
        items : iterable, optional
            Of which labels; of all unless said.
        wrong : Fraction
            With which chance an interval may not contain its figure.
        """
        plain = self._cover(self.first, part)
        ways = list(self.list_ways(part))
        if not ways:
            return []
        found = []
        for item in self.items if items is None else items:
            sums = [self.add_up(way, item, wrong) for way in ways]
            best = min(sums, key=lambda one: one[1])
            first = None if plain is None else sums[0]
            # Nothing is counted below 0.
            low, high = (None, None) if first is None else _cut_at_0(*first)
            revised_low, revised_high = _cut_at_0(*best)
            found.append(
                RunningFigure(
                    part=show_parts(PartRange(part, part), self.cut),
                    item=item,
                    total=None if first is None else first[0],
                    low=low,
                    high=high,
                    periods=None if plain is None else len(plain),
                    revised=best[0],
                    revised_low=revised_low,
                    revised_high=revised_high,
                )
            )
        return found

    def find_rising(self, until: int) -> list[RunningFigure]:
        """Return the figures of all parts up to one, where rows are only ever added.

        A low end holds of each later part as well, and a high end of each earlier one. All of these
        ends hold at once, with the chance that one interval has else.

        Parameters
        ----------
        until : int
            The last part.
        """
        parts = range(self.first, until + 1)
        ways = {part: way for part in parts if (way := self._cover(self.first, part)) is not None}
        wrong = _WRONG / max(1, len(ways))
        ends = {
            part: _cut_at_0(*self.add_up([(node, 1) for node in way], 0, wrong))
            for part, way in ways.items()
        }
        known = [(part, ends.get(part, (None, None))) for part in parts]
        lows = accumulate((low for _, (low, _) in known), _of_those_known(max))
        highs = accumulate((high for _, (_, high) in reversed(known)), _of_those_known(min))
        found = zip(parts, lows, reversed([*highs]), strict=True)
        return [
            replace(one, at_least=least, at_most=most)
            for part, least, most in found
            for one in self.find_at(part)
        ]

    def find_largest(self, part: int, k: int) -> list[RunningFigure]:
        """Return the labels with the largest figures; their intervals hold all at once.

        Which labels these are follows from what was released, so that the intervals are those of
        all labels together.
        """
        items = self.items
        found = self.find_at(part, items, _WRONG / max(1, len(items)))
        # Equal ones stand in the order of the labels.
        known = [(one.revised if one.total is None else one.total, one) for one in found]
        ordered = sorted(known, key=lambda pair: (-pair[0], str(pair[1].item)))
        return [one for _, one in ordered[:k]]

    def list_ways(self, part: int) -> Iterator[list[tuple[Node, int]]]:
        """Yield how the figure until a part can be added up, each period with its sign.

        First as it was when that part had ended, where the periods of that are there.
        """
        plain = self._cover(self.first, part)
        if plain is not None:
            yield [(node, 1) for node in plain]
        for level in self.levels[1:]:
            end = find_node(part, self.first, self.cut, level).parts.high
            whole, after = self._cover(self.first, end), self._cover(part + 1, end)
            if whole is not None and after is not None and end > part:
                # What is in both is left out: it says nothing of the difference.
                both = set(whole) & set(after)
                yield [(node, 1) for node in whole if node not in both] + [
                    (node, -1) for node in after if node not in both
                ]

    def add_up(
        self, signed: Iterable[tuple[Node, int]], item: Any, wrong: Fraction = _WRONG
    ) -> tuple[Fraction, Fraction]:
        """Return a sum of periods with signs, and how far its noise reaches but for a chance."""
        total, noises = Fraction(0), list[Part]()
        for node, sign in signed:
            for term in self.kept[node][item].terms:
                total += sign * term.value
                noises.append((term.law, term.step))
        return total, find_far(noises, wrong)

    def _cover(self, low: int, high: int) -> list[Node] | None:
        return cover(low, high, self._known)


def _of_those_known(of: Callable[..., Fraction]) -> Callable[..., Fraction | None]:
    """Return what finds the largest or the smallest one of those that are known."""
    return lambda one, other: one if other is None else other if one is None else of(one, other)


def _cut_at_0(total: Fraction, far: Fraction) -> tuple[Fraction, Fraction]:
    """Return the ends of an interval of a number that is not below 0."""
    return max(total - far, Fraction(0)), max(total + far, Fraction(0))
