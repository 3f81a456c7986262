"""Runs a sparse vector over a list or a public domain of mostly zeros, and packs what it found.

Claim: a release is a public function of the transcript. Proof: docs/proofs/sparse-vector.md;
docs/proofs/adaptive-sparse-vector.md.
Floats: gaps and estimates are rounded to one after the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sordino.cost import Pure
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.grid import add, to_steps
from sordino.mechanisms.base import Draws, Mechanism, Rules
from sordino.mechanisms.crossings.branches import Branching, Cut, centers, cuts_at, cuts_of
from sordino.mechanisms.crossings.crossings import (
    Ahead,
    Part,
    Transcript,
    affordable,
    crossings,
    decide,
    lifted,
    select_affordable,
)
from sordino.mechanisms.crossings.implicit_zeros import DENSE, distinct, draw_fresh_ranks, listed
from sordino.noise import DiscreteLaplace, Geometric, Sampler, binomial
from sordino.releases import Positives
from sordino.scrubbing import scrubbed

Cuts = tuple[Cut, ...]


class BranchingMechanism(Mechanism):
    """A mechanism that tests each answer in branches.

    What a release spends depends on its transcript.
    """

    per_transcript: ClassVar[bool] = True

    @property
    def rules(self: Branching) -> Rules:
        """How a release is made of answers that are compared with the mechanism's threshold."""
        return rules_of(self)

    @scrubbed
    def release(
        self: Branching,
        answers: Any,
        thresholds: Any = None,
        *,
        positions: Any = None,
        entropy: Entropy = SYSTEM,
    ) -> Positives:
        """Find positives until no further one can be paid for, with fresh noise.

        Parameters
        ----------
        answers : array of numbers, shape (n,)
            Private. NaN and what is no number count as the lowest value, which is not found; +inf
            is found, and what is released of it is a number that no real answer has.
            With a domain size: the answers that are not 0.
        thresholds : array of numbers, shape (n,), optional
            Public: a threshold for each answer, instead of the one of the mechanism; what the
            mechanism adds to its own, boundaries and corrections, is added to each.
        positions : array of int, shape (n,)
            Private; only with a domain size, where it is required: the position of each answer in
            the domain. Positions outside the domain and repeated ones are dropped.
        entropy : Entropy
            Where the noise comes from.

        Raises
        ------
        InvalidParameter
            If the answers are not a list of at least one number, or thresholds or positions do not
            go with them.
        """
        fresh_entropy(entropy, f"{type(self).__name__}.release")
        return released(self, answers, thresholds, positions, entropy)


def prepared(
    mechanism: Branching, answers: Any, thresholds: Any, positions: Any
) -> tuple[Callable[..., Transcript], Callable[[int], Cuts]]:
    """Return a function that makes the transcript, and one that gives the thresholds of each place.

    The first only waits for noise: `thresholds` and `queries` (laws), and `entropy`.

    Raises
    ------
    InvalidParameter
        If the answers are not a list of at least one number, or thresholds or positions do not go
        with them.
    """
    name = type(mechanism).__name__
    common = cuts_of(mechanism, mechanism.threshold)
    rules: dict[str, Any] = {
        "prices": mechanism.branch_tokens,
        "tokens": mechanism.tokens,
        "resample": mechanism.resample,
    }
    if mechanism.domain_size is not None:
        if thresholds is not None:
            raise InvalidParameter(f"{name}.release takes thresholds only without a domain size.")
        steps, at = listed(answers, positions, mechanism.step, name)
        levels = [cut.steps for cut in common]
        return partial(
            domain_crossings, steps, at, mechanism.domain_size, levels, **rules
        ), lambda _: common
    if positions is not None:
        raise InvalidParameter(f"{name}.release takes positions only when domain_size was given.")
    steps = np.atleast_1d(to_steps(answers, mechanism.step, name))
    rules["passes"] = mechanism.passes
    if thresholds is None:
        return partial(crossings, [steps - cut.steps for cut in common], **rules), lambda _: common
    what = "release.thresholds"
    cuts = cuts_at(
        f"{name}.{what}", thresholds, steps.size, lambda value: cuts_of(mechanism, value, what)
    )
    heights = [
        steps - np.array([cut.steps for cut in branch], dtype=np.int64)
        for branch in zip(*cuts, strict=True)
    ]
    return partial(crossings, heights, **rules), cuts.__getitem__


def ask_all(
    run: Callable[..., Transcript], entropy: Entropy, threshold: Sampler, *branches: Sampler
) -> Transcript:
    """Ask prepared questions, with noise of these laws."""
    return run(thresholds=threshold, queries=branches, entropy=entropy)


def rules_of(mechanism: Branching) -> Rules:
    """Return how a sparse vector makes a release.

    There is noise of the threshold, and for each question noise in every branch.
    """

    def draws(n: int) -> Draws:
        asked = n * mechanism.passes
        # A new threshold follows each positive, and each positive costs at least the cheapest
        # branch.
        thresholds = (
            min(mechanism.tokens // mechanism.branch_tokens[0], asked) if mechanism.resample else 1
        )
        return (
            (mechanism.threshold_noise, thresholds),
            *((law, asked) for law in mechanism.branch_noise),
        )

    def spent_by(output: Sequence[int]) -> Pure:
        # The layout of `_write_transcript`: three counts, then three columns of so many positives
        # before the branches.
        branches = output[3 + 3 * output[2] :]
        return mechanism.spent(
            sum(mechanism.branch_tokens[branch] for branch in branches), output[1]
        )

    return Rules(
        draws=draws,
        steps=lambda answers, positions=None: prepared(mechanism, answers, None, positions)[0],
        decide=ask_all,
        walks=True,
        written=_write_transcript,
        spent_by=spent_by,
    )


def _write_transcript(found: Transcript) -> tuple[int, ...]:
    """Return a transcript as whole numbers.

    They are how many questions were asked, thresholds met and positives found, then the places,
    lifts, passes and branches of the positives.
    """
    columns = (found.places, found.lifts, found.passes, found.branches)
    return (found.asked, found.stages, found.places.size, *np.concatenate(columns).tolist())


def released(
    mechanism: Branching, answers: Any, thresholds: Any, positions: Any, entropy: Entropy
) -> Positives:
    """Ask all answers with fresh noise, and return what was found in the unit of the answers.

    Raises
    ------
    InvalidParameter
        As in `prepared`.
    """
    run, cuts_at_place = prepared(mechanism, answers, thresholds, positions)
    found = ask_all(run, entropy, mechanism.threshold_noise, *mechanism.branch_noise)
    step, prices = mechanism.step, mechanism.branch_tokens
    means = centers(mechanism)
    branches = found.branches.tolist()
    cuts = [
        cuts_at_place(place)[branch]
        for place, branch in zip(found.places.tolist(), branches, strict=True)
    ]
    lifts = found.lifts.tolist()
    gaps = [cut.gap(lift, step) for lift, cut in zip(lifts, cuts, strict=True)]
    values = [
        cut.value(lift, step) - means[branch]
        for lift, cut, branch in zip(lifts, cuts, branches, strict=True)
    ]
    # A gap of a later pass says nothing about its answer: it would mislead, though it costs
    # nothing.
    first = found.passes == 1
    return Positives(
        indices=found.places,
        gaps=np.where(first, np.array(gaps, dtype=np.float64), np.nan),
        branches=found.branches,
        passes=found.passes,
        asked=found.asked,
        estimates=np.where(first, np.array(values, dtype=np.float64), np.nan),
        mechanism=mechanism,
        cost=mechanism.spent(sum(prices[branch] for branch in branches), found.stages),
        simulated=entropy.simulated,
    )


# ---- runs of zeros -------------------------------------------------------------------------------
# The crossings of a public domain in which all but a few answers are 0, without asking every item.
#
# Claim: the transcript has the law of the dense computation. Proof:
# docs/proofs/adaptive-sparse-vector.md, "Implicit zeros". Noise: in each branch the number of zero
# items of a run that cross is binomial; which ones, a uniform subset of those that crossed in none
# before; their noise above the level, memoryless. Floats: only the length of a run (any length is
# right, a good one is fast).


_MOST_LISTED = (
    1 << 16
)  # at most so many listed items in a run, which a new threshold may make draw again
# How many thresholds are drawn ahead, at most.
_DOMAIN_THRESHOLDS_AHEAD = 1 << 12
_WANTED_HITS = 64  # about so many crossings in a run

Law = Geometric | DiscreteLaplace


def domain_crossings(
    steps: NDArray[np.int64],
    positions: NDArray[np.int64],
    size: int,
    cuts: Sequence[int],
    *,
    thresholds: Sampler,
    queries: Sequence[Law],
    prices: Sequence[int],
    tokens: int,
    resample: bool,
    entropy: Entropy,
) -> Transcript:
    """Ask all items of the domain in order until no branch can be paid for.

    Parameters
    ----------
    steps, positions : arrays of int, shape (n,)
        The answers that are not 0 and where they stand in the domain. Positions outside 0..size-1
        and repeated ones are dropped.
    size : int
        Public number of items of the domain.
    cuts : int for each branch
        The public threshold in that branch, in steps.
    thresholds, queries, prices, tokens, resample
        As in `crossings`.
    """
    rules: dict[str, Any] = {"prices": prices, "tokens": tokens, "resample": resample}
    steps, positions = distinct(steps, positions, size)
    if size <= DENSE:
        dense = np.zeros(size, dtype=np.int64)
        dense[positions] = steps
        heights = [dense - cut for cut in cuts]
        return crossings(
            heights, thresholds=thresholds, queries=queries, passes=1, entropy=entropy, **rules
        )
    found: list[Part] = []
    left, start, stages = tokens, 0, 0
    drawn, threshold = Ahead(thresholds, entropy, 1, min(tokens, _DOMAIN_THRESHOLDS_AHEAD)), None
    while start < size and (open_ := affordable(prices, left)):
        if threshold is None:
            threshold, stages = drawn.take(), stages + 1
        branches = list(zip(cuts[:open_], queries[:open_], strict=True))
        # The run ends where the branch that crosses most often is expected to have given enough.
        # Its length is chosen before its noise is drawn, so that the law does not depend on it.
        end = start + min(
            _choose_run_length(law, cut + threshold, size - start, 1 if resample else left)
            for cut, law in branches
        )
        # The listed items of the run are those between its ends.
        low, high = (int(x) for x in np.searchsorted(positions, [start, end]))
        if high - low > _MOST_LISTED:
            high, end = low + _MOST_LISTED, int(positions[low + _MOST_LISTED])
        listed = positions[low:high]
        noisy = [
            add(steps[low:high] - cut, law.sample(high - low, entropy)) for cut, law in branches
        ]
        hits, fired = decide(noisy, threshold)
        zeros = _draw_zero_hits(end - start - listed.size, threshold, branches, entropy)
        # The r-th zero item of the run stands r places after its start, and one more for every
        # listed item before it.
        ahead = np.searchsorted(listed - start - np.arange(listed.size), zeros.places, side="right")
        places = np.concatenate([listed[hits], start + zeros.places + ahead])
        lifts = np.concatenate([lifted(noisy, fired, hits, threshold), zeros.lifts])
        # A positive ends the threshold with `resample`: what comes after it is dropped and asked
        # anew.
        order = np.argsort(places)[: 1 if resample else None]
        which = np.concatenate([fired, zeros.branches])[order]
        kept, left = select_affordable(which, prices, left)
        order, which = order[kept], which[kept]
        found.append(Part(places[order], which, lifts[order]))
        # Where a positive ended the threshold or the tokens, the items after it were not asked.
        over = order.size and (resample or not affordable(prices, left))
        start = int(places[order[-1]]) + 1 if over else end
        threshold = None if resample and order.size else threshold
    drawn.wipe()
    return Transcript.of(found, start, stages)


def _choose_run_length(law: Law, level: int, rest: int, most: int) -> int:
    """Return how many items to ask together: about twice as many as give what is still wanted."""
    # Any length gives the same law, so floats may choose it. The cap keeps the divisor above 0.
    wanted = min(2 * most + 8, _WANTED_HITS)
    chance = math.exp(-min(float(law.rate) * max(level, 0), 700.0))
    return min(rest, math.ceil(wanted / chance) if wanted / chance < rest else rest)


def _draw_zero_hits(
    n: int, threshold: int, branches: Sequence[tuple[int, Law]], entropy: Entropy
) -> Part:
    """Return which of `n` zero items in a row reach the noisy threshold, as ranks below n.

    With them come the first branch that each reaches it in, and the lifts.
    """
    used = np.zeros(0, dtype=np.int64)
    parts: list[Part] = []
    for branch, (cut, law) in enumerate(branches):
        # Only items that crossed in no earlier branch are tested in this one.
        level, free = cut + threshold, n - used.size
        # Where most of them may cross, their noise is drawn item by item.
        if float(law.rate) * level < math.log(2):
            noise = [law.sample(free, entropy)]
            hits, only = decide(noise, level)
            ranks, lifts = (
                np.setdiff1d(np.arange(n), used, assume_unique=True)[hits],
                lifted(noise, only, hits, level),
            )
        else:
            count = binomial(free, law.at_least(level), entropy) if free else 0
            ranks = (
                np.sort(draw_fresh_ranks(n, count, used, entropy))
                if count
                else np.zeros(0, dtype=np.int64)
            )
            # The level is at least 1 here: above it both laws are the level plus a geometric
            # variable.
            lifts = Geometric(law.rate).sample(count, entropy)
        used = np.concatenate([used, ranks])
        parts.append(Part(ranks, np.full(ranks.size, branch), lifts))
    fired, above = (
        np.concatenate(column)
        for column in ([part.branches for part in parts], [part.lifts for part in parts])
    )
    return Part(used, fired, above)
