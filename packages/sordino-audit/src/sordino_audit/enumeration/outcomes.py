"""The law of the outputs for one list of answers: masses counted exactly, and bounds of their sums.

Claim: for every output, low <= (mass of the played noise with that output) <= high. Proof:
docs/proofs/exact-audit.md, "Counts".
Floats: sums of positive terms, widened by more than their rounding; `certified` repeats one of them in
decimals.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.errors import InvalidParameter
from sordino.noise.probability import Bounds, contexts
from sordino_audit.enumeration.output_keys import Partition, Seen, key, seen
from sordino_audit.enumeration.region import DIGITS, TOO_MANY, Region
from sordino_audit.enumeration.selection import Counted
from sordino_audit.enumeration.subject import Stated, Subject

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

    Where some outputs are drawn again, all masses are those of the others times `scale`: together they are
    the whole again. `rest` bounds from above what the noise that was not played may add to any output.
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
            each.nbytes for each in (self.ids, self.low, self.high, self.starts, self.powers, self.counts)
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
        for power, count in zip(self.powers[part].tolist(), self.counts[part].tolist(), strict=True):
            least, most = self.region.powers[power]
            low, high = down.add(low, down.multiply(count, least)), up.add(high, up.multiply(count, most))
        return down.multiply(low, self.scale[0]), up.multiply(high, self.scale[1])


@final
@dataclass(eq=False)
class Book:
    """Plays a subject and numbers its outputs, the same output by the same number whatever the answers."""

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
        # What the subject declares is tried on all noise that is played, which is evidence and no proof.
        if self.subject.shifts and not found.same(self._played(private + 1, self.region.noise)):
            raise InvalidParameter(
                "Subject.shifts must be False: outputs change when all noisy answers move together."
            )
        self._replayed(private, found)
        numbers = np.array(
            [self._number(*each) for each in zip(found.values, found.shown, found.keys, strict=True)],
            dtype=np.int64,
        )[found.which]
        if self.subject.again is None:
            return _sum_weights(numbers, self.region, slice(None))
        # -1 stands for the output that is drawn again.
        kept = np.flatnonzero(numbers >= 0)
        if not kept.size:
            raise InvalidParameter("Subject.again must not be the output of all noise that is played.")
        return _condition_on_kept(_sum_weights(numbers[kept], self.region, kept))

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
                "Subject.stated must return probabilities whose lower bounds are together at most 1."
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
        """Raise `InvalidParameter` if rows have other outputs alone, or in another company and order.

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
                    "audit.exact needs each output to be a function of the answers and its own noise: "
                    "some rows, played alone or in "
                    "another order, gave other outputs."
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
                    "because there are more than "
                    f"{OUTPUTS} different outputs."
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
        low, high = down.add(low, down.multiply(count, least)), up.add(high, up.multiply(count, most))
    # What is not drawn again has a mass from `low` to `high`, which counts the noise that was not played.
    scale = down.divide(region.total[0], high), up.divide(region.total[1], low)
    below, above = (math.nextafter(float(scale[0]), 0.0), math.nextafter(float(scale[1]), math.inf))
    return replace(
        outcomes,
        low=outcomes.low * (below * (1 - 2.0**-51)),
        high=outcomes.high * (above * (1 + 2.0**-51)),
        rest=up.multiply(outcomes.rest, scale[1]),
        scale=scale,
    )


def _sum_weights(output: NDArray[np.int64], region: Region, kept: Any) -> Outcomes:
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
    # Each term errs by less than three roundings (power, its nearest float, product), a sum of m terms by
    # m - 1 more.
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
