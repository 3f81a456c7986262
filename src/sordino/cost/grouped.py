"""What figures of groups cost together, of which one costs what it does by itself.

A unit has its rows in few groups, or few rows in any of them. It comes or goes in steps, each of
which is a part of it that joins a group or leaves one; a unit that takes the place of another is
the one's steps out and the other's steps in.

Claim: `cost_of_groups` bounds the loss of all groups together. Proof: docs/proofs/groups.md.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Literal

from sordino.cost.base import Cost
from sordino.cost.bounded_range import BoundedRange
from sordino.cost.composition import Composition, compose, repeat
from sordino.cost.gumbel_stage import GumbelStage
from sordino.cost.range import LARGER_FIRST, Pure, Range
from sordino.cost.rdp import RDP, ZCDP


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
