"""The smallest epsilon with which the right markers are selected as often as somebody wishes.

Claim: none about privacy: nothing private is looked at. Proof: docs/proofs/most-significant.md,
"The public design", says what success is. Floats: figures of public numbers are compared; equal
inputs give equal answers.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from sordino.constraints import COUNT, Number
from sordino.genomics.choose import Name, choose_for_goal
from sordino.genomics.method import Scale
from sordino.plan.goals import seek_right


def find_epsilon(
    *,
    goal: str,
    markers: int,
    families: int,
    k: int = 1,
    scale: Scale = "sqrt",
    method: Name | None = None,
    beta: Number | None = None,
    damping: Number | None = None,
    exact: bool = False,
    fits: Callable[[Fraction], object] | None = None,
) -> Fraction:
    """Return the smallest epsilon that selects the best markers of made-up families as wished.

    What is asked is `choose_method(...).success`, epsilon by epsilon; no count is looked at.

    Parameters
    ----------
    goal : str
        "right with 90%" or, of three, "top 3 right with 90%": how likely all k are the best ones,
        in their order.
    markers, families, k, scale, method, beta, damping, exact
        As for `choose_method`.
    fits : callable, optional
        Is handed an epsilon and raises `BudgetExceeded` where there is not so much, such as
        `lambda epsilon: ledger.preview(sd.Pure(epsilon=epsilon), adjacency="replace-one")`.

    Returns
    -------
    Fraction
        Of three digits, from 0.0001 to 9990: the epsilon of all k selections together, as
        `most_significant` takes it.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, or no epsilon reaches the goal.
    BudgetExceeded
        If it takes more than fits; the message says what is reached with the most that does.

    Examples
    --------
    >>> import sordino as sd
    >>> public = {"markers": 40, "families": 150, "exact": True}
    >>> epsilon = sd.genomics.find_epsilon(goal="right with 90%", **public)
    >>> float(epsilon)
    3.41
    >>> sd.genomics.choose_method(epsilon=epsilon, **public).success >= 0.9
    True
    """
    owner = "genomics.find_epsilon"
    several = COUNT(f"{owner}.k", k)

    def succeed(epsilon: Fraction, enough: float) -> float:
        found = choose_for_goal(
            enough,
            markers=markers,
            families=families,
            epsilon=epsilon / several,
            k=several,
            scale=scale,
            method=method,
            beta=beta,
            damping=damping,
            exact=exact,
            alone=True,
        )
        return found.success

    return seek_right(owner, goal, several, succeed, fits, exact=True)
