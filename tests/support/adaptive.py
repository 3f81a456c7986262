"""Exact laws of adaptive sparse vectors by two routes that share no code: a sum over thresholds, and all noise of a box played.

A token costs a noise ratio r: a branch of `price` tokens has the ratio r^price. A transcript is a tuple of (branch, lift) for each question
in the order asked; None is below. Nothing here comes from the library but what is tested.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

from sordino.entropy import SYSTEM
from sordino.mechanisms.crossings import crossings
from support.enumeration import cdf, float_log, pmf
from support.sparse_vectors import Handed


@dataclass(frozen=True)
class Rules:
    """What is public: noise (kind, ratio) of the threshold and of a token, prices and boundaries of the branches, and what there is."""

    threshold: tuple[str, Fraction]
    token: tuple[str, Fraction]
    prices: tuple[int, ...] = (1, 2)
    boundaries: tuple[int, ...] = (1, 0)
    tokens: int = 2

    def noise(self, branch):
        kind, ratio = self.token
        return kind, ratio ** self.prices[branch]

    def open(self, left):
        """The branches that can be paid for."""
        return [branch for branch, price in enumerate(self.prices) if price <= left]

    def paid(self, transcript):
        return sum(self.prices[event[0]] for event in transcript if event is not None)


def transcripts(n, rules, highest):
    """All transcripts of n answers with lifts of at most `highest`."""

    def after(events, left):
        if len(events) == n or not rules.open(left):
            yield tuple(events)
            return
        yield from after([*events, None], left)
        for branch in rules.open(left):
            for lift in range(highest + 1):
                yield from after([*events, (branch, lift)], left - rules.prices[branch])

    return after([], rules.tokens)


def by_formula(q, rules, transcript, reach=60):
    """P(transcript) for answers q less their public threshold."""
    total = Fraction(0)
    for rho in range(-reach if rules.threshold[0] == "laplace" else 0, reach):
        mass, left = pmf(*rules.threshold, rho), rules.tokens
        for answer, event in zip(q, transcript, strict=False):
            fired = len(rules.prices) if event is None else event[0]
            for branch in rules.open(left):
                need = rho + rules.boundaries[branch] - answer
                if branch < fired:
                    mass *= cdf(*rules.noise(branch), need - 1)
                elif branch == fired:
                    mass *= pmf(*rules.noise(branch), need + event[1])
            if event is not None:
                left -= rules.prices[fired]
        total += mass
    return total


def played(q, rules, rho, xi):
    """The transcript, the number asked and the tokens spent that the product makes of this noise: xi[branch][question]."""
    found = crossings.crossings(
        [np.array(q, dtype=np.int64) - boundary for boundary in rules.boundaries],
        thresholds=Handed([rho]),
        queries=[Handed(noise) for noise in xi],
        prices=rules.prices,
        tokens=rules.tokens,
        resample=False,
        passes=1,
        entropy=SYSTEM,
    )
    assert found.stages == bool(found.asked)
    events = dict(
        zip(
            found.places.tolist(),
            zip(found.branches.tolist(), found.lifts.tolist(), strict=True),
            strict=True,
        )
    )
    assert sorted(events) == found.places.tolist(), "in order, each once"
    return tuple(events.get(i) for i in range(found.asked))


def box(rules, n, width):
    """All noise of a box with its probability: the threshold, then xi[branch][question]."""
    laws = [
        rules.threshold,
        *(rules.noise(branch) for branch in range(len(rules.prices)) for _ in range(n)),
    ]
    for row in product(*(range(-width if kind == "laplace" else 0, width) for kind, _ in laws)):
        xi = [row[1 + n * branch : 1 + n * (branch + 1)] for branch in range(len(rules.prices))]
        yield row[0], xi, math.prod(pmf(*law, x) for law, x in zip(laws, row, strict=True))


def by_play(q, rules, width, play=played):
    """P of each transcript of the product, from below: the rest of the box is missing."""
    law = defaultdict(Fraction)
    for rho, xi, mass in box(rules, len(q), width):
        law[play(q, rules, rho, xi)] += mass
    return law


def worst(pairs, rules, spread, highest=2, reach=60, price=None, only=None):
    """The largest ln(P/P') less what a transcript costs, over transcripts and pairs, both orders, with the transcript.

    `spread` is how far two answers move apart; `price` may say what a branch costs in tokens; `only` which transcripts count.
    """
    unit = -float_log(rules.token[1])
    price = price or (lambda branch: rules.prices[branch])
    best = (-math.inf, None)
    for a, b in [*pairs, *((b, a) for a, b in pairs)]:
        for transcript in transcripts(len(a), rules, highest):
            if only is not None and not only(transcript):
                continue
            p, other = (
                by_formula(a, rules, transcript, reach),
                by_formula(b, rules, transcript, reach),
            )
            if not p:
                continue
            tokens = sum(price(event[0]) for event in transcript if event is not None)
            spent = -float_log(rules.threshold[1]) + spread * unit * tokens
            loss = math.inf if not other else float_log(p / other) - spent
            best = max(best, (loss, (a, b, transcript)), key=lambda pair: pair[0])
    return best
