"""The base of mechanisms that release numbers of a public range: the range, its grid, and how one releases.

Claim: what is released has the law of the noise for the input that a value was rounded to.
Proof: docs/proofs/composite.md; docs/proofs/composite-table.md.
Floats: none before the release, which is one of a public list of floats.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from sordino.constraints import FINITE, Number, to_fraction
from sordino.cost import Pure
from sordino.declared import parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.mechanisms.base import Mechanism
from sordino.mechanisms.bounded.range_grid import CellNoise, RangeGrid
from sordino.releases import Value, Values
from sordino.remnants import no_remnants


class RangeMechanism(Mechanism):
    """A mechanism that releases one number from a public range; its noise works on the cells of a grid."""

    lower: Number = parameter(
        FINITE,
        "Every value that the query can take lies above it, whatever the data. Lower values are moved to it "
        "by rule.",
    )
    upper: Number = parameter(
        FINITE,
        "Every value that the query can take lies below it, whatever the data. Higher values are moved to "
        "it by rule.",
    )

    if TYPE_CHECKING:
        # Said to type checkers only: a subclass has them as fields, or makes them when they are asked for.
        @property
        def noise(self) -> CellNoise:
            """What happens to an input of the grid."""
            ...

        @property
        def cost(self) -> Pure:
            """What one release, or one report, spends."""
            ...

    @cached_property
    def grid(self) -> RangeGrid:
        """The range in cells: what releases and variances are computed with."""
        return RangeGrid(noise=self.noise, low=to_fraction(self.lower), high=to_fraction(self.upper))

    @property
    def output_range(self) -> tuple[float, float]:
        """The smallest and the largest release, in the unit of the values."""
        return self.grid.output_range

    def variance(self, *, at: Number) -> float:
        """Return the variance of a release whose value is `at`, in squared units of the values.

        It is exact, rounded once.

        Raises
        ------
        InvalidParameter
            If `at` does not lie between `lower` and `upper`.
        """
        return self.grid.variance(at, type(self).__name__)

    @no_remnants
    def release(self, value: Any, *, entropy: Entropy = SYSTEM) -> Value:
        """Release one private value, with fresh noise.

        Returns
        -------
        Value
            With the largest standard error over the range: the true one would tell where the value lies.

        Raises
        ------
        InvalidParameter
            If it is a list: `reports` releases one value for each person.
        """
        fresh_entropy(entropy, f"{type(self).__name__}.release")
        released, error = self.grid.one(value, entropy, type(self).__name__)
        return Value(
            value=released, standard_error=error, mechanism=self, cost=self.cost, simulated=entropy.simulated
        )

    @no_remnants
    def reports(self, values: Any, *, entropy: Entropy = SYSTEM) -> Values:
        """Release one report for each of the private `values`, shape (n,), each with its own noise.

        That is local privacy. Each report spends `cost`. A person whose values are in r rows spends r times
        as much. The number of reports and their order are public.

        Raises
        ------
        InvalidParameter
            If the values are not a list of at least one number.
        """
        fresh_entropy(entropy, f"{type(self).__name__}.reports")
        released, error = self.grid.many(values, entropy, type(self).__name__)
        return Values(
            values=released, standard_error=error, mechanism=self, cost=self.cost, simulated=entropy.simulated
        )
