"""Adaptive composition: a multiset of costs with the best view that is proved for it.

Pure epsilons, rhos and Rényi divergences add, whatever the order and however each query was chosen
from earlier outputs [bun2016, Lemma 2.3; mironov2017, Prop. 1]; a fixed list of dominating laws of
the loss is summed exactly [zhu2022, Thm 10]. Proof: docs/proofs/composition.md,
docs/proofs/dominating-pairs.md.

Of figures of groups one costs what it does by itself. A unit has its rows in few groups, or few
rows in any of them; it comes or goes in steps, each a part of it that joins a group or leaves one,
and one unit in the place of another is the one's steps out and the other's in. `cost_of_groups`
bounds the loss of all groups together: docs/proofs/groups.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Literal, final

from sordino.constraints import COUNT, WHOLE, shown
from sordino.cost.approximate import (
    Approximate,
    ApproximateZCDP,
    MayFail,
    failure,
    kept_epsilon,
    raised_delta,
)
from sordino.cost.base import Cost, ExactCost, order_parts
from sordino.cost.conversion import (
    checked_alpha,
    checked_delta,
    checked_epsilon,
    digits,
    pure_delta,
    pure_epsilon,
    rdp_delta,
    rdp_epsilon,
    round_down,
    round_up,
    stated,
)
from sordino.cost.gumbel_stage import GumbelStage
from sordino.cost.loss_law import loss_laws
from sordino.cost.randomized_choice import RandomizedChoice
from sordino.cost.range import LARGER_FIRST, BoundedRange, Pure, Range
from sordino.cost.rdp import RDP, ZCDP
from sordino.cost.rdp_sum import summed_rdp
from sordino.errors import InvalidParameter

Parts = frozenset[tuple[Cost, int]]
# All final: what is made of them is counted and summed by their class.
_SINGLE = frozenset(
    {
        RDP,
        ZCDP,
        Approximate,
        ApproximateZCDP,
        BoundedRange,
        GumbelStage,
        Pure,
        RandomizedChoice,
        Range,
    }
)


@final
@dataclass(frozen=True)
class Composition:
    """Several costs paid one after the other; build it with `compose` or `repeat`.

    It is a statement about a fixed list: how many parts there are and their parameters are decided
    in advance, while queries, the order of the parts and where to stop may depend on earlier
    answers. The sums `pure`, `zcdp` and `rdp` also hold as limits of a filter
    (`sordino.accounting`); an epsilon at delta read off in the middle of a sequence does not tell
    when to stop.

    Raises
    ------
    InvalidParameter
        If an entry is not a pair of a single cost and a count of at least 1.

    Examples
    --------
    >>> from sordino import cost
    >>> round(float(cost.compose(cost.Pure(epsilon=1), cost.ZCDP(rho=0.5)).zcdp()), 6)
    0.962117
    >>> round(cost.repeat(cost.Pure(epsilon=0.1), 20).epsilon(1e-6), 4)
    1.7886
    """

    parts: Parts

    def __post_init__(self) -> None:
        # The class is public, so this is checked however it is made: a wrong count would cost too
        # little.
        if not isinstance(self.parts, frozenset):
            raise InvalidParameter(
                f"Composition.parts must be a frozenset; got {shown(self.parts)}. Use compose or "
                "repeat."
            )
        entries: frozenset[Any] = self.parts
        for entry in entries:
            if not isinstance(entry, tuple) or len(entry) != 2:
                raise InvalidParameter(
                    "Composition.parts must hold pairs (cost, count); "
                    f"got {shown(entry)}. Use compose or repeat."
                )
            _check_countable(entry[0], "Composition")
            if type(entry[1]) is not int or entry[1] < 1:
                raise InvalidParameter(
                    f"A count of Composition must be {COUNT.says}, as an int; got "
                    f"{shown(entry[1])}."
                )
            if isinstance(entry[0], Composition):
                # One inside of another would hide its parts from the views that look at classes.
                raise InvalidParameter(
                    "Composition.parts must hold single costs; got a Composition. Use compose or "
                    "repeat."
                )

    def __repr__(self) -> str:
        texts = [(repr(part), count) for part, count in order_parts(self.parts)]
        return (
            "compose("
            + ", ".join(
                text if n == 1 else f"repeat({text}, {_write_count(n)})" for text, n in texts
            )
            + ")"
        )

    def pure(self) -> Fraction | float:
        """Return the sum of the pure epsilons."""
        return summed((part.pure(), count) for part, count in self.parts)

    def zcdp(self) -> Fraction | float:
        """Return the sum of the rhos."""
        return summed((part.zcdp(), count) for part, count in self.parts)

    def split_failure(self) -> tuple[Fraction, Composition]:
        """Return the probability that any part fails, and what all cost otherwise."""
        failing, firm = split_failures(self.parts)
        return failing, Composition(firm)

    def rdp(self, alpha: float) -> float:
        """Return the sum of the Rényi divergences of order `alpha`, in nats."""
        return summed_rdp(self.parts)(checked_alpha(alpha))

    def epsilon(self, delta: float) -> float:
        """Return the smallest proven epsilon at `delta`.

        It comes from summed epsilons, summed Rényi divergences, or the exact law.
        """
        # What may fail is set aside first, and the routes are asked for what is left of delta.
        failing, firm = split_failures(self.parts)
        return kept_epsilon(
            failing,
            checked_delta(delta),
            lambda left: min(route(left) for route in _epsilon_routes(firm)),
        )

    def delta(self, epsilon: float) -> float:
        """Return the smallest proven delta at `epsilon`."""
        least = checked_epsilon(epsilon)
        failing, firm = split_failures(self.parts)
        pure = Composition(firm).pure()
        if least >= pure:
            # Beyond the sum of pure epsilons only a failure is left to lose.
            return raised_delta(failing, 0.0)
        # Delta falls as epsilon rises, so the epsilon that is asked for is rounded down.
        at, only = round_down(least), _find_lone_interval(firm)
        # Each route is a bound of its own, so the smallest one holds (composition).
        routes = [pure_delta(round_up(pure), at), rdp_delta(summed_rdp(firm), at)]
        routes += [only.delta(at)] if only else []
        # The laws of one way are the orders of the neighbors: all must hold, so the larger delta
        # counts.
        ways = () if only else loss_laws(firm)
        routes += [max(law.delta(at) for law in laws) for laws in ways]
        return raised_delta(failing, min(routes))

    def to_dict(self) -> dict[str, Any]:
        """Return the parts with how often each was paid."""
        return {
            "notion": "composition",
            "parts": [
                {**part.to_dict(), "count": count} for part, count in order_parts(self.parts)
            ],
        }


def summed(amounts: Iterable[tuple[Fraction | float, int]]) -> Fraction | float:
    """Return the sum of count * amount: inf if one is, a fraction if all are.

    Else it is a float rounded up, which no filter takes.
    """
    total, fractions = Fraction(0), True
    for amount, count in amounts:
        # Written so that NaN counts as inf, too.
        if not amount < math.inf:
            return math.inf
        total += count * (amount if isinstance(amount, Fraction) else Fraction(amount))
        fractions = fractions and isinstance(amount, Fraction | int)
    # Somebody's own cost may give floats: their sum is rounded up, and said to be a float.
    return total if fractions else round_up(total)


def _write_count(count: int) -> str:
    # Python refuses to write out very long whole numbers.
    return str(count) if count < 10**15 else digits(Fraction(count))


def _find_lone_interval(parts: Parts) -> Cost | None:
    """Return the only part if it is paid once and is an interval of losses.

    Its own view is exact.
    """
    if len(parts) != 1:
        return None
    ((only, count),) = parts
    own = isinstance(only, Pure | Range | BoundedRange | GumbelStage | RandomizedChoice)
    return only if count == 1 and own else None


def split_failures(parts: Parts) -> tuple[Fraction, Parts]:
    """Split off the probability that any part fails.

    The rest are the parts as they are without failure.
    """
    failing = failure((part.delta_, count) for part, count in parts if isinstance(part, MayFail))
    if not any(isinstance(part, MayFail) for part, _ in parts):
        return failing, parts
    firm: Counter[Cost] = Counter()
    # Given that nothing fails, an (epsilon, delta) part is randomized response ("Guarantees that
    # fail").
    for part, count in parts:
        firm[part.firm if isinstance(part, MayFail) else part] += count
    return failing, frozenset(
        (part, count) for part, count in firm.items() if not _costs_nothing(part)
    )


def exact_epsilon(parts: Parts, delta: float) -> float:
    """Return the epsilon at `delta` of the sum of dominating laws of parts that do not fail.

    It is inf if there is no such law.
    """
    if not parts:
        return 0.0
    # At delta 0 the epsilon is the largest loss, which is the sum of the pure epsilons.
    if delta == 0:
        return stated(Composition(parts).pure())
    only = _find_lone_interval(parts)
    if only:
        return only.epsilon(delta)
    # Every order of the neighbors must hold, so the larger epsilon counts; each way is a bound of
    # its own.
    ways = loss_laws(parts)
    return min((max(law.epsilon(delta) for law in laws) for laws in ways), default=math.inf)


def _epsilon_routes(parts: Parts) -> Iterable[Callable[[float], float]]:
    """Yield the routes to an epsilon at delta for parts that do not fail."""
    pure = stated(Composition(parts).pure())
    # A list with this sum of epsilons is as private as one mechanism of that epsilon.
    yield lambda delta: pure_epsilon(pure, delta)
    yield lambda delta: math.inf if delta == 0 else rdp_epsilon(summed_rdp(parts), delta)
    yield lambda delta: exact_epsilon(parts, delta)


def _check_countable(cost: Any, caller: str) -> None:
    """Raise `InvalidParameter` unless `cost` is a cost that can be counted."""
    # The quick way for our own classes; subclasses are refused below.
    if type(cost) in _SINGLE or type(cost) is Composition:
        return
    if isinstance(cost, type) or not isinstance(cost, Cost):
        raise InvalidParameter(
            f"{caller} takes costs such as Pure(epsilon=0.1); got {shown(cost)}."
        )
    # A subclass may have other views than those by which its class is counted and summed.
    if isinstance(cost, ExactCost | Composition):
        raise InvalidParameter(
            f"{caller} takes costs of your own or of sordino's final classes; "
            f"got {type(cost).__name__}, a subclass."
        )
    try:
        hash(cost)
    except TypeError as error:
        raise InvalidParameter(
            f"{caller} takes costs that can be hashed; got {type(cost).__name__}."
        ) from error


def _costs_nothing(part: Cost) -> bool:
    """Tell whether a part costs nothing.

    One of somebody else's class is kept for its other views.
    """
    return type(part) in _SINGLE and part.pure() == 0


def compose(*costs: Cost) -> Cost:
    """Return the cost of paying all of `costs`, adaptively and in any order.

    The order may even be chosen on the way. The costs are a fixed list: which they are and how many
    is decided before the first answer. Not all of them need to be paid. If answers decide what is
    paid, use a filter (`sordino.accounting`).

    Raises
    ------
    InvalidParameter
        If an argument is not a cost, or one that cannot be counted.

    Examples
    --------
    >>> from sordino import cost
    >>> cost.compose(cost.Pure(epsilon=0.1), cost.Pure(epsilon=0.2)).pure()
    Fraction(3, 10)
    """
    # By identity first, which asks no cost for its hash: a list may hold one object many times.
    repeated = Counter(map(id, costs))
    waiting = set(repeated)
    times: dict[Any, int] = {}
    first: dict[Any, Cost] = {}
    each: Any
    for each in costs:
        # All that follow were met before.
        if not waiting:
            break
        place = id(each)
        if place in waiting:
            waiting.remove(place)
            name: Any = each
            if type(each) in _SINGLE:
                # The numbers of our own costs are compared faster than the costs.
                name = type(each), each.key
            else:
                _check_countable(each, "compose")
            first.setdefault(name, each)
            times[name] = times.get(name, 0) + repeated[place]
    counts: Counter[Cost] = Counter()
    for name, cost in first.items():
        # Parts of a composition are taken out, so that equal ones are counted together.
        for part, count in cost.parts if isinstance(cost, Composition) else ((cost, 1),):
            counts[part] += count * times[name]
    return _simplify_composition(
        (part, count) for part, count in counts.items() if not _costs_nothing(part)
    )


def repeat(cost: Cost, n: int) -> Cost:
    """Return the cost of paying `cost` `n` times, `n` >= 0 and fixed before the first answer.

    Raises
    ------
    InvalidParameter
        If `n` is not a whole number of at least 0 or `cost` is not a cost.

    Examples
    --------
    >>> from sordino import cost
    >>> cost.repeat(cost.Pure(epsilon=0.1), 10).pure()
    Fraction(1, 1)
    """
    times = WHOLE("repeat.n", n)
    one = compose(cost)
    # Only the counts grow: a million repetitions take no longer than one.
    parts = one.parts if isinstance(one, Composition) else ((one, 1),)
    return _simplify_composition((part, count * times) for part, count in parts if count * times)


def _simplify_composition(parts: Iterable[tuple[Cost, int]]) -> Cost:
    listed = frozenset(parts)
    # One cost paid once is that cost, with all its own views.
    if len(listed) == 1:
        ((only, count),) = listed
        if count == 1:
            return only
    return Composition(listed)


def cost_of_groups(
    each: Cost, *, most: int, anywhere: bool, exchanged: bool, growing: bool
) -> Cost:
    """Return what a figure of every group costs, for units with a part in few of them.

    Parameters
    ----------
    each : Cost
        Of the figure of one group, for neighbors of which one has one part of a unit more.
    most : int
        How many parts a unit has: groups, each with a part of it, or rows.
    anywhere : bool
        Whether all parts may be in one group, as rows may. Else each is in a group of its own.
    exchanged : bool
        Whether a unit may take the place of another one.
    growing : bool
        Whether a record can only raise the totals that get noise.
    """
    if not anywhere and not exchanged:
        # In all other groups neighbors have the same rows that count.
        return repeat(each, most)
    parts = each.parts if isinstance(each, Composition) else frozenset({(each, 1)})
    steps = most if anywhere else 1
    spent = [
        repeat(_cost_of_steps(part, steps, exchanged=exchanged, growing=growing), times)
        for part, times in parts
    ]
    # A part that leaves a group is paired with one that joins a group, the same or another one.
    return compose(*spent) if anywhere else repeat(compose(*spent), most)


def _cost_of_steps(cost: Cost, steps: int, *, exchanged: bool, growing: bool) -> Cost:
    """Return what so many steps in a row cost, or so many out and as many in if `exchanged`."""
    ways = 2 if exchanged else 1
    if isinstance(cost, GumbelStage) and exchanged and steps == 1:
        # What leaves one group and joins another one is two stages. If it is the same group, the
        # answers there move within one interval, wherever in it no move lies.
        return repeat(GumbelStage(epsilon=cost.epsilon_), ways)
    if isinstance(cost, Range) and cost.orientation == LARGER_FIRST:
        # All steps of one way lie in one interval, and those of the other way in its mirror image.
        if exchanged:
            return Pure(epsilon=steps * (cost.low + cost.high))
        return Range(low=steps * cost.low, high=steps * cost.high, orientation=LARGER_FIRST)
    # Laplace noise, and nothing beside it.
    if isinstance(cost, RDP) and cost.laplace is not None and cost.pure() == cost.laplace:
        # One number that moves by all of them. What only rises is two numbers: what goes out and
        # what comes in, since totals differ by the larger one of both at most.
        moved = partial(_move_farther, cost.laplace, cost.laplace_steps)
        return repeat(moved(steps), ways) if growing else moved(ways * steps)
    if isinstance(cost, ZCDP):
        # The moves of Gaussian totals count squared.
        return ZCDP(rho=cost.rho * steps**2 * (ways if growing else ways**2))
    # Losses of steps in a row add up, and so do the widths of their intervals.
    kind = BoundedRange if isinstance(cost, BoundedRange) else Pure
    return kind(epsilon=ways * steps * Fraction(cost.pure()))


def _move_farther(
    rate: Fraction, grid_steps: int | Literal["continuous"] | None, times: int
) -> RDP:
    """Return what Laplace noise costs on a number that moves so many times as far."""
    # On the line there are no steps to count.
    steps = times * grid_steps if isinstance(grid_steps, int) else grid_steps
    return RDP(laplace=times * rate, laplace_steps=steps)
