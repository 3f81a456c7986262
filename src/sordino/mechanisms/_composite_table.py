"""One number that may lie anywhere in a range, released within a wider range and without bias: the table that a linear program finds.

Claim: epsilon-differentially private between any two values of [lower, upper]; the mean of a release is the value, exactly.
Proof: docs/proofs/composite-table.md.
Noise: one uniform number rounds the value to one of a few inputs; one below the total weight chooses the output.
Floats: none before the release, which is one of a public list of floats; the program that proposes the table is solved in floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from importlib.util import find_spec
from numbers import Integral
from typing import Any, Literal, final

from sordino.claims import Claim
from sordino.constraints import FINITE, Constraint, Number, exact
from sordino.cost import Pure
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.mechanisms._range_grid import RangeGrid, checked_range
from sordino.mechanisms._statements import set_fields
from sordino.mechanisms._table_noise import TableNoise, designed_table
from sordino.releases import Value, Values, parameters, pictured
from sordino.remnants import no_remnants


def _budget(value: Any) -> Fraction | None:
    number = exact(value)
    return number if number is not None and Fraction(1, 10) <= number <= 5 else None


BUDGET = Constraint("a number in [0.1, 5]", _budget, (1, 0.1, 5), (0, 0.05, 6, -1, "1", None))
INPUTS = Constraint(
    "5 or 9", lambda value: int(value) if isinstance(value, Integral) and value in (5, 9) else None, (5, 9), (4, 7, "5", 5.0)
)


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class CompositeTable:
    """Release one number that may be anything between two public ends, with nearly the least variance that is possible at the worst value.

    It is used as `CompositeMechanism`, and private in the same cases. Values are rounded at random to a few inputs first. Its law has no
    formula: a linear program proposes whole weights, which are checked in whole numbers. That takes some tenths of a second at the first
    use of each epsilon, and scipy (`pip install 'sordino[tables]'`).

    Parameters
    ----------
    lower, upper : number
        Every value that the query can take lies between them, whatever the data. Values beyond are moved to the nearer one by rule.
    epsilon : number
        Budget, in [0.1, 5].
    inputs : {5, 9}
        To how many values of the range a value is rounded at random, the ends among them. With 5, and an epsilon above 3.3, a mixture
        (`CompositeMechanism(activation="mixture")`) has less variance.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, or `upper` is not above `lower`.

    Examples
    --------
    >>> import sordino as sd
    >>> table = sd.CompositeTable(lower=0, upper=100, epsilon=1)
    >>> round(table.release(37, entropy=sd.Seeded(7)).standard_error / 50, 2)
    2.0
    """

    lower: Number
    upper: Number
    epsilon: Number
    inputs: Literal[5, 9] = 9

    def __post_init__(self) -> None:
        checked_range(self.lower, self.upper, None, "CompositeTable")
        BUDGET("CompositeTable.epsilon", self.epsilon)
        set_fields(self, inputs=INPUTS("CompositeTable.inputs", self.inputs))

    def __repr__(self) -> str:
        return pictured(self, parameters(self))

    @cached_property
    def noise(self) -> TableNoise:
        """The whole weights, on the grid."""
        return designed_table(BUDGET("epsilon", self.epsilon), self.inputs // 2)

    @cached_property
    def cost(self) -> Pure:
        """What one release, or one report, spends. Whoever asks for it waits for the table, so that no charge is made without one."""
        _ = self.noise
        return Pure(epsilon=BUDGET("epsilon", self.epsilon))

    @property
    def exact(self) -> bool:
        """True: the law enumerated in the audit is the law that is sampled."""
        return True

    @cached_property
    def grid(self) -> RangeGrid:
        """The range in cells: what releases and variances are computed with."""
        return RangeGrid(noise=self.noise, low=FINITE("lower", self.lower), high=FINITE("upper", self.upper))

    @property
    def output_range(self) -> tuple[float, float]:
        """The smallest and the largest release, in the unit of the values."""
        return self.grid.output_range

    @property
    def parameters(self) -> dict[str, float]:
        """How far outputs reach in halves of the range, and the largest variance over all values in squares of these."""
        inputs = self.noise.inputs
        return {"reach": float(self.noise.farthest / inputs), "largest_variance": float(self.noise.largest_variance / inputs**2)}

    def variance(self, *, at: Number) -> float:
        """Return the variance of a release whose value is `at`, in squared units of the values: exact, rounded once.

        Raises
        ------
        InvalidParameter
            If `at` does not lie between `lower` and `upper`.
        """
        return self.grid.variance(at, "CompositeTable")

    @no_remnants
    def release(self, value: Any, *, entropy: Entropy = SYSTEM) -> Value:
        """Release one private value, with fresh noise; its standard error is the largest over the range.

        Raises
        ------
        InvalidParameter
            If it is a list: `reports` releases one value for each person.
        """
        fresh_entropy(entropy, "CompositeTable.release")
        released, error = self.grid.one(value, entropy, "CompositeTable")
        return Value(value=released, standard_error=error, mechanism=self, cost=self.cost, simulated=entropy.simulated)

    @no_remnants
    def reports(self, values: Any, *, entropy: Entropy = SYSTEM) -> Values:
        """Release one report for each of the private `values`, shape (n,), as `CompositeMechanism.reports` does.

        Raises
        ------
        InvalidParameter
            If the values are not a list of at least one number.
        """
        fresh_entropy(entropy, "CompositeTable.reports")
        released, error = self.grid.many(values, entropy, "CompositeTable")
        return Values(values=released, standard_error=error, mechanism=self, cost=self.cost, simulated=entropy.simulated)


_SMALL = (
    (CompositeTable(lower=-1, upper=1, epsilon=1, inputs=5), (-1,), (1,)),
    (CompositeTable(lower=0, upper=10, epsilon=2), (0,), (10,)),
)
CLAIMS = (
    Claim(
        name="CompositeTable",
        statement="A release is epsilon-private between any two values that the query can take.",
        references=("duchi2018",),
        proof="composite-table.md",
        neighbours=_SMALL if find_spec("scipy") else (),  # without it there are no tables, and the audit says that it saw none
    ),
)
