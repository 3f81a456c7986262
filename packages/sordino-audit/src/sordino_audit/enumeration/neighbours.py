"""Tells which pairs of answers are neighbors, and yields neighbors to try.

Claim: `checked_pair` accepts a pair only if the sensitivity statement covers it. Floats: none; a
float answer means its shortest decimal.

Looks for the worst pair of neighbors: small answers with all extreme moves, then single steps
uphill.

Claim: none; every pair that is tried is a pair of neighbors, so what is found is a lower bound.
Deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np

from sordino.constraints import POSITIVE, exact, shown, to_fraction
from sordino.errors import InvalidParameter
from sordino.sensitivity import Sensitivity
from sordino_audit.continuous.continuous import Continuous
from sordino_audit.enumeration.subject import Subject

Answers = tuple[int | Fraction, ...]


def list_answers(answers: Any, n: int | None = None) -> list[Fraction]:
    """Return answers as exact numbers.

    They are one number, a list, or, with `n`, a mapping from positions to the answers that are not
    0.
    """
    # A mapping names positions, which mean nothing without the size of the domain.
    if isinstance(answers, Mapping):
        if n is None:
            raise InvalidParameter(
                "audit.exact needs a list of answers: a mapping from positions goes with a domain "
                "size only."
            )
        known = _map_answers(answers, n)
        # What is not listed is 0.
        return [known.get(i, Fraction(0)) for i in range(n)]
    return [
        _read_answer(value)
        for value in np.atleast_1d(np.asarray(answers, dtype=object)).ravel().tolist()
    ]


def _read_answer(value: Any) -> Fraction:
    number = exact(value)
    if number is None:
        raise InvalidParameter(
            "audit.exact needs answers that are finite numbers, because neighbours are told by "
            "their distance."
        )
    return number


def _map_answers(answers: Any, size: int | None) -> dict[int, Fraction]:
    """Return answers by their positions.

    Whole numbers in the domain of this `size` (None: of any size).
    """
    if not isinstance(answers, Mapping):
        answers = dict(enumerate(list_answers(answers)))
    for place in answers:
        if (
            isinstance(place, bool)
            or not isinstance(place, int | np.integer)
            or place < 0
            or (size is not None and place >= size)
        ):
            where = "at least 0" if size is None else f"from 0 to {size - 1}"
            raise InvalidParameter(
                f"audit.exact needs positions that are whole numbers {where}; got {shown(place)}."
            )
    return {int(place): _read_answer(value) for place, value in answers.items()}


def checked_pair(a: Any, b: Any, sensitivity: Sensitivity, size: int | None = None) -> bool:
    """Raise `InvalidParameter` unless `a` and `b` are neighbors under the statement.

    The message names the distance. Return whether they differ at all. A norm must also cover what
    is left of the answers on the grid of the statement: rounding down can move every answer by a
    step. `size` is that of the domain, if there is one.
    """
    left: Any
    right: Any
    if (
        size is not None or isinstance(a, Mapping) or isinstance(b, Mapping)
    ):  # what is not listed is 0
        known = _map_answers(a, size), _map_answers(b, size)
        # Only the listed positions can differ; two empty mappings are compared at one place, as 0
        # and 0.
        places = sorted({*known[0], *known[1]}) or [0]
        left, right = ([each.get(place, Fraction(0)) for place in places] for each in known)
    else:
        left, right = list_answers(a), list_answers(b)
    if len(left) != len(right):
        raise InvalidParameter(
            f"audit.exact needs the same number of answers on both sides; got {len(left)} and "
            f"{len(right)}."
        )
    if not left:
        raise InvalidParameter("audit.exact needs at least one answer on each side; got none.")
    step = (
        None
        if sensitivity.step is None or _is_about_each(sensitivity)
        else Fraction(POSITIVE("step", sensitivity.step))
    )
    asked, bound = (
        [y - x for x, y in zip(left, right, strict=True)],
        POSITIVE("Sensitivity.bound", sensitivity.bound),
    )
    rounded = (
        asked
        if step is None
        else [y // step * step - x // step * step for x, y in zip(left, right, strict=True)]
    )
    # The answers must be neighbors as they are given, and as the mechanism will see them.
    for found, after in (
        (asked, ""),
        (rounded, " once they are rounded down to the step of the statement"),
    ):
        # One answer may move by a step more once it is rounded: mechanisms count on that.
        if not (covered if found is asked else _covered_together)(found, sensitivity):
            raise InvalidParameter(
                f"audit.exact needs neighbours, {_describe_rule(sensitivity, bound)}; "
                f"got answers at {_describe_distance(found, sensitivity)}{after}."
            )
    return any(asked)


def covered(moves: Sequence[int | Fraction], sensitivity: Sensitivity) -> bool:
    """Return whether answers may move so between neighbors."""
    bound = Fraction(POSITIVE("Sensitivity.bound", sensitivity.bound))
    # Monotone answers move all up or all down.
    if sensitivity.monotone and min(moves) < 0 < max(moves):
        return False
    if sensitivity.size is not None and len(moves) > sensitivity.size:
        return False
    if sensitivity.norm == "each" and max(abs(Fraction(move)) for move in moves) > bound:
        return False
    return _covered_together(moves, sensitivity)


def _is_about_each(sensitivity: Sensitivity) -> bool:
    """Return whether a statement says nothing about all answers together."""
    return sensitivity.norm == "each" and sensitivity.l1 is None and sensitivity.l2 is None


def _covered_together(moves: Sequence[int | Fraction], sensitivity: Sensitivity) -> bool:
    """Return whether answers may move so together, as far as the statement says anything of it."""
    sizes = [abs(Fraction(move)) for move in moves]
    # A statement in one norm, or a second one beside that about each answer.
    l1, l2 = (
        sensitivity.bound if sensitivity.norm == norm else second
        for norm, second in (("l1", sensitivity.l1), ("l2", sensitivity.l2))
    )
    # Squares are exact, roots are not.
    if l2 is not None and sum(size**2 for size in sizes) > to_fraction(l2) ** 2:
        return False
    # Under replace-one a unit that leaves and one that comes have half of it each, but of amounts
    # of both signs all of it may be in one answer, as a fall: from the one end to the other.
    return l1 is None or sum(sizes) <= to_fraction(l1)


def _describe_rule(sensitivity: Sensitivity, bound: Fraction) -> str:
    what = (
        "each answer"
        if sensitivity.norm == "each"
        else f"the {sensitivity.norm.upper()} norm of all"
    )
    together = ", in one direction" if sensitivity.monotone else ""
    size = f", at most {sensitivity.size} answers" if sensitivity.size is not None else ""
    second = "".join(
        f", the {norm.upper()} norm of all by at most {float(to_fraction(most)):g}"
        for norm, most in (("l1", sensitivity.l1), ("l2", sensitivity.l2))
        if most is not None
    )
    return f"{what} moving by at most {float(bound):g}{together}{size}{second}"


def _describe_distance(moves: Sequence[Fraction], sensitivity: Sensitivity) -> str:
    if sensitivity.monotone and min(moves) < 0 < max(moves):
        return f"distances {float(min(moves)):g} and {float(max(moves)):+g}"
    sizes = [abs(move) for move in moves]
    if not _is_about_each(sensitivity) and sensitivity.norm == "each":
        return f"distances {', '.join(f'{float(size):g}' for size in sizes)}"
    if sensitivity.norm == "l2":
        return f"distance {float(sum(size**2 for size in sizes)) ** 0.5:.9g}"
    return f"distance {float(sum(sizes) if sensitivity.norm == 'l1' else max(sizes)):.9g}"


def moves(n: int, sensitivity: Sensitivity, step: Fraction) -> Iterator[tuple[Fraction, ...]]:
    """Yield the ways in which n answers may move, the largest first.

    Each answer moves by 0, by one step, or as far as the statement allows.

    They are made when they are asked for: there are up to 5^n of them.
    """
    most = Fraction(POSITIVE("Sensitivity.bound", sensitivity.bound) // step * step)
    # Where a single step is all that is allowed, it is not counted twice.
    numbers = [
        (far, near)
        for far in range(n + 1 if most > step else 1)
        for near in range(n + 1 - far if most >= step else 1)
    ]
    # The largest moves come first: a search that stops early has tried the extreme ones.
    for far, near in sorted(
        numbers, key=lambda counts: (-(counts[0] * most + counts[1] * step), counts)
    ):
        if far + near and covered(
            [most] * far + [step] * near + [Fraction(0)] * (n - far - near), sensitivity
        ):
            yield from _arrange_sizes(
                # The largest move may be a single step: both are named together only where they
                # differ.
                {Fraction(0): n - far - near, step: near, most: far}
                if far
                else {Fraction(0): n - near, step: near},
                signed=not sensitivity.monotone,
            )


def _arrange_sizes(left: dict[Fraction, int], *, signed: bool) -> Iterator[tuple[Fraction, ...]]:
    """Yield all lists with so many entries of each size, in the order of tuples.

    Entries have either sign if `signed`.
    """
    if not any(left.values()):
        yield ()
        return
    sizes = [size for size, count in left.items() if count]
    for value in sorted({*sizes, *(-size for size in sizes if signed)}):
        for rest in _arrange_sizes(left | {abs(value): left[abs(value)] - 1}, signed=signed):
            yield (value, *rest)


# ---- search --------------------------------------------------------------------------------------


_SMALLEST_CLIMB = 1e-9  # a smaller step may be a matter of what was not played

Loss = Callable[[Any, Any], float]
Trial = tuple[float, Answers, Answers]


def worst_pairs(
    loss: Loss, subject: Subject | Continuous, n: int, start: list[tuple[Any, Any]], limit: int
) -> list[tuple[Answers, Answers]]:
    """Return the worst pair found within `limit` trials of `loss`, in a list.

    Half of the trials go to the lattice: answers in {0, step, 2 step}, nearest to all equal first,
    with every extreme move. The rest climb from the best pair: one answer of both sides, or of one
    side, goes up or down by a step, as long as that makes it worse.
    """
    if subject.sensitivity is None:
        raise InvalidParameter(
            "audit.exact with search needs to know the neighbours: give Subject(sensitivity=)."
        )
    sensitivity = subject.sensitivity
    step = _search_step(sensitivity)
    tried: dict[tuple[Answers, Answers], float] = {}

    def value(a: Answers, b: Answers) -> float:
        # To audit a pair is dear: none is audited twice.
        if (a, b) not in tried:
            tried[a, b] = loss(a, b)
        return tried[a, b]

    lattice = list(islice(_propose_pairs(start, n, sensitivity, step), max(1, limit // 2)))
    if not lattice:
        raise InvalidParameter(
            "audit.exact with search found no pair of neighbours on the grid; "
            "give a bound of at least one step."
        )
    best = max(((value(a, b), a, b) for a, b in lattice), key=_loss_of_trial)
    while True:
        # Pairs that were tried are known; only new ones count against the limit.
        around = (
            pair
            for pair in _list_steps_from(best[1], best[2], sensitivity, step)
            if pair not in tried
        )
        trials = [(value(a, b), a, b) for a, b in islice(around, max(0, limit - len(tried)))]
        climbed = max([best, *trials], key=_loss_of_trial)
        # The climb ends at the first round that gains nothing, so also where the limit is used up.
        if climbed[0] <= best[0] + _SMALLEST_CLIMB:
            return [(best[1], best[2])]
        best = climbed


def _loss_of_trial(trial: Trial) -> float:
    return trial[0]


def _search_step(sensitivity: Sensitivity) -> Fraction:
    # Without a step the only grid is that of the bound itself.
    return Fraction(
        POSITIVE(
            "Sensitivity.step", sensitivity.bound if sensitivity.step is None else sensitivity.step
        )
    )


def _propose_pairs(
    start: list[tuple[Any, Any]], n: int, sensitivity: Sensitivity, step: Fraction
) -> Iterator[tuple[Answers, Answers]]:
    # The pairs of the caller come first, so that the climb may start from them.
    for a, b in start:
        left, right = list_answers(a, n), list_answers(b, n)
        if len(left) != n:
            raise InvalidParameter(
                "audit.exact.n must be the number of answers of the pairs that are given, "
                f"{len(left)}; got {n}."
            )
        if left != right:
            yield _simplify_answers(left), _simplify_answers(right)
    for base in _list_bases(n):
        for move in moves(n, sensitivity, step):
            a = [step * x for x in base]
            yield (
                _simplify_answers(a),
                _simplify_answers([x + y for x, y in zip(a, move, strict=True)]),
            )


def _list_bases(n: int) -> Iterator[tuple[int, ...]]:
    """Yield lists of 0, 1 and 2, the flattest first.

    All answers shifted together are tried by the climb, so that some entry is 0.
    """
    yield (0,) * n
    for top in (1, 2):
        for total in range(top, top * n - top + 1):
            yield from (
                base
                for base in _list_with_sum(n, total, top)
                if max(base) == top and min(base) == 0
            )


def _list_with_sum(n: int, total: int, top: int) -> Iterator[tuple[int, ...]]:
    """Yield all lists of n whole numbers from 0 to `top` with this sum, in the order of tuples."""
    if n == 0:
        yield ()
        return
    # What the other entries cannot hold together must be in the first one.
    for first in range(max(0, total - top * (n - 1)), min(top, total) + 1):
        for rest in _list_with_sum(n - 1, total - first, top):
            yield (first, *rest)


def _list_steps_from(
    a: Answers, b: Answers, sensitivity: Sensitivity, step: Fraction
) -> Iterator[tuple[Answers, Answers]]:
    for i in range(len(a)):
        # One answer goes up or down by a step: on both sides, on the second one, or on the first
        # one.
        for up_a, up_b in ((1, 1), (-1, -1), (0, 1), (0, -1), (1, 0), (-1, 0)):
            left = [*a[:i], a[i] + up_a * step, *a[i + 1 :]]
            right = [*b[:i], b[i] + up_b * step, *b[i + 1 :]]
            if left != right and covered(
                [y - x for x, y in zip(left, right, strict=True)], sensitivity
            ):
                yield _simplify_answers(left), _simplify_answers(right)


def _simplify_answers(answers: Any) -> Answers:
    """Return the answers, those that are whole numbers as int."""
    return tuple(int(x) if x == int(x) else x for x in answers)
