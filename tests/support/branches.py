"""Every way that a program with chance in it can go, each with its probability: the law of what it returns, and no sample of it.

A program is run again and again; wherever it asks for chance it is handed the next possibility that has not been played. Probabilities are
decimals of 60 digits. Loops that may draw anew without end are cut after some rounds, and what was cut is known.
"""

from __future__ import annotations

import math
from collections import defaultdict
from decimal import Decimal, localcontext
from functools import cache
from itertools import combinations, product

import numpy as np

DIGITS = 60
ENOUGH = Decimal(10) ** -40


class Cut(Exception):
    """This way is not followed further."""


class Ways:
    """The choices of one run: those of `script` again, then the first possibility of every new one."""

    def __init__(self, script):
        self.script, self.sizes, self.mass = script, [], Decimal(1)

    def choose(self, options):
        """Return one of the `options`, pairs of a value and its probability."""
        at = len(self.sizes)
        if at == len(self.script):
            self.script.append(0)
        self.sizes.append(len(options))
        value, mass = options[self.script[at]]
        self.mass *= mass
        return value

    def each(self, n, options):
        """Return an array of `n` independent choices among whole numbers."""
        return np.array([self.choose(options) for _ in range(n)], dtype=np.int64)


def law(program):
    """Return {what program(ways) returns: probability}, and the probability of the ways that were cut.

    The program must do nothing else that depends on what it did before.
    """
    found, cut, script = defaultdict(Decimal), Decimal(0), []
    with localcontext() as context:
        context.prec = DIGITS
        while True:
            ways = Ways(script)
            try:
                found[program(ways)] += ways.mass
            except Cut:
                cut += ways.mass
            while script and script[-1] == ways.sizes[len(script) - 1] - 1:
                script.pop()
            if not script:
                assert abs(sum(found.values()) + cut - 1) < ENOUGH, "probabilities add up"
                return dict(found), cut
            script[-1] += 1


@cache
def exactly(enclosure):
    """Return the probability that an enclosure stands for, to 50 digits."""
    low, high = enclosure(DIGITS)
    assert 0 <= low <= high <= 1
    with localcontext() as context:
        context.prec = DIGITS
        assert high - low < Decimal(10) ** -50
        return (low + high) / 2


@cache
def tails(law):
    """Return P(X >= x) of geometric and discrete Laplace noise as a function, from the formula, to 60 digits whoever asks first."""
    with localcontext() as context:
        context.prec = DIGITS
        r = (-Decimal(law.rate.numerator) / Decimal(law.rate.denominator)).exp()

    @cache
    def at_least(x):
        if x in {-math.inf, math.inf}:
            return Decimal(int(x < 0))
        with localcontext() as context:
            context.prec = DIGITS
            if law.name == "exponential":
                return r ** max(x, 0)
            return r**x / (1 + r) if x > 0 else 1 - r ** (1 - x) / (1 + r)

    return at_least


@cache
def noise(law, low, high, level=-math.inf, above=math.inf):
    """Return the noise X with level <= X < above as pairs of a value and its probability; told apart are the values `low` to `high`.

    All that is smaller counts as one value, `low` - 1 or `level`; and so does all that is larger.
    """
    at_least = tails(law)
    cells = [(-math.inf, low), *((x, x + 1) for x in range(low, high + 1)), (high + 1, math.inf)]
    inside = [(max(start, level), min(end, above)) for start, end in cells]
    with localcontext() as context:
        context.prec = DIGITS
        total = at_least(level) - at_least(above)
        masses = [
            (low - 1 if start == -math.inf else start, (at_least(start) - at_least(end)) / total)
            for start, end in inside
            if start < end
        ]
    return [(value, mass) for value, mass in masses if mass]


def binomial(ways, n, p):
    """Choose how many of `n` trials succeed."""
    masses = [(j, math.comb(n, j) * p**j * (1 - p) ** (n - j)) for j in range(n + 1)]
    return ways.choose([(j, mass) for j, mass in masses if mass])


def subset(ways, free, n):
    """Choose `n` of the numbers `free`, in order."""
    chosen = list(combinations(free, n))
    return np.array(
        ways.choose([(each, 1 / Decimal(len(chosen))) for each in chosen]), dtype=np.int64
    )


def words_below(ways, bound, n):
    """Choose `n` independent uniform numbers below `bound`."""
    return np.array(
        ways.choose([(each, 1 / Decimal(bound**n)) for each in product(range(bound), repeat=n)]),
        dtype=np.int64,
    )
