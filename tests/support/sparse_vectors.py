"""Exact laws of sparse vectors by two routes that share no code: a sum over thresholds, and all noise of a box played through the product.

Noise has ratio r (geometric on 0, 1, ... or two-sided). A transcript is a tuple of (place, lift) in the order asked; lift None is below.
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


@dataclass(frozen=True)
class Rules:
    """What is public: noise (kind, ratio) of thresholds and of questions, and when it stops."""

    threshold: tuple[str, Fraction]
    query: tuple[str, Fraction]
    positives: int = 1
    passes: int = 1
    resample: bool = False


def transcripts(n, rules, highest):
    """All transcripts of n answers with lifts of at most `highest`."""

    def after(events, place, number, fired):
        found = sum(lift is not None for _, lift in events)
        if found == rules.positives or number > rules.passes:
            yield tuple(events)
            return
        if place == n:
            yield from (
                after(events, 0, number + 1, fired)
                if number < rules.passes
                else iter([tuple(events)])
            )
            return
        if place in fired:
            yield from after(events, place + 1, number, fired)
            return
        yield from after([*events, (place, None)], place + 1, number, fired)
        for lift in range(highest + 1):
            yield from after([*events, (place, lift)], place + 1, number, fired | {place})

    return after([], 0, 1, frozenset())


def stages(transcript, rules):
    """The questions that met each threshold."""
    parts = [[]]
    for event in transcript:
        parts[-1].append(event)
        if rules.resample and event[1] is not None:
            parts.append([])
    return [part for part in parts if part]


def by_formula(q, rules, transcript, reach=60):
    """P(transcript) for answers q less their public thresholds."""
    total = Fraction(1)
    for part in stages(transcript, rules):
        low = -reach if rules.threshold[0] == "laplace" else 0
        mass = Fraction(0)
        for rho in range(low, reach):
            term = pmf(*rules.threshold, rho)
            for place, lift in part:
                below = rho - q[place]
                term *= (
                    cdf(*rules.query, below - 1)
                    if lift is None
                    else pmf(*rules.query, below + lift)
                )
            mass += term
        total *= mass
    return total


class Handed:
    """A law whose draws are played from a list; beyond its end there is noise that no test may ever see."""

    mean = 0.0

    def __init__(self, noise):
        self.left = list(noise)

    def sample(self, n, entropy):
        drawn, self.left = self.left[:n], self.left[n:]
        drawn += [1 << 40] * (n - len(drawn))
        return np.array(
            drawn, dtype=object if max(map(abs, drawn), default=0) >= 1 << 61 else np.int64
        )


def played(q, rules, rho, xi):
    """The transcript (positives only), asked and stages that the product makes of this noise."""
    found = crossings.crossings(
        [np.array(q, dtype=np.int64)],
        thresholds=Handed(rho),
        queries=[Handed(xi)],
        prices=[1],
        tokens=rules.positives,
        resample=rules.resample,
        passes=rules.passes,
        entropy=SYSTEM,
    )
    return (
        tuple(zip(found.places.tolist(), found.lifts.tolist(), found.passes.tolist(), strict=True)),
        found.asked,
        found.stages,
    )


def box(rules, n, width):
    """All noise of a box with its probability: thresholds, questions."""
    thresholds = min(rules.positives, n * rules.passes) if rules.resample else 1
    kinds = [rules.threshold] * thresholds + [rules.query] * (n * rules.passes)
    supports = [range(-width if kind == "laplace" else 0, width) for kind, _ in kinds]
    for row in product(*supports):
        yield (
            row[:thresholds],
            row[thresholds:],
            math.prod(pmf(*kind, x) for kind, x in zip(kinds, row, strict=True)),
        )


def by_play(q, rules, width):
    """P of each outcome of the product, from below: the rest of the box is missing."""
    law = defaultdict(Fraction)
    for rho, xi, mass in box(rules, len(q), width):
        law[played(q, rules, rho, xi)] += mass
    return law


def outcome(transcript, n, rules):
    """What a release says of a transcript: positives with their passes, asked, stages."""
    number, last, found = 1, -1, []
    for place, lift in transcript:
        number += place <= last
        last = place
        if lift is not None:
            found.append((place, lift, number))
    return tuple(found), len(transcript), len(stages(transcript, rules))


def worst(pairs, rules, costs, highest=2, reach=60, found=None):
    """The largest ln(P/P') - cost over transcripts (with so many found) and pairs, both orders; `costs` of a threshold, of a positive."""
    best = (-math.inf, None)
    for a, b in [*pairs, *((b, a) for a, b in pairs)]:
        for transcript in transcripts(len(a), rules, highest):
            positives = sum(lift is not None for _, lift in transcript)
            if found not in {None, positives}:
                continue
            p, other = (
                by_formula(a, rules, transcript, reach),
                by_formula(b, rules, transcript, reach),
            )
            if not p:
                continue
            spent = costs[0] * len(stages(transcript, rules)) + costs[1] * positives
            loss = math.inf if not other else float_log(p / other) - spent
            best = max(best, (loss, (a, b, transcript)), key=lambda pair: pair[0])
    return best
