"""Permute-and-flip over runs of equal candidates: the first whose coin shows heads wins.

Candidates flip in random order.

Claim: the law of the winner is exactly that of the coins in random order. Proof:
docs/proofs/samplers.md, "First head". Noise: candidates ring by independent Poisson clocks of rate
1 and flip at their first ring; only rings that could show heads are drawn. Floats: they may only
propose; inside a certified band decimals of any precision decide.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import final

import numpy as np
from numpy.typing import NDArray

from sordino.entropy import Entropy
from sordino.noise.probability import Bounds, contexts, exp_bounds
from sordino.noise.samplers.powers import UNIT, chances, exponentials, exponents
from sordino.noise.samplers.uniform import LazyUniform, uniform_below


def first_head(
    depths: NDArray[np.int64], lengths: NDArray[np.int64], rate: Fraction, entropy: Entropy
) -> int:
    """Return the first candidate that shows heads when all flip coins in a uniformly random order.

    Parameters
    ----------
    depths : array of int, shape (m,)
        How far the candidates of run j lie below the best: their coins show heads with probability
        e^(-rate depths[j]). Depths are counted from the least one of a run that is not empty, so
        that some coin is certain.
    lengths : array of int, shape (m,)
        How many candidates run j has, at least 0, in all at least 1.
    rate : Fraction
        Above 0, in nats a step of depth.
    entropy : Entropy
        Where the noise comes from.

    Returns
    -------
    int
        0-based over all candidates of all runs, in their order.
    """
    # Counted from the best candidate that there is: its coin is then certain.
    depths = depths - depths[lengths > 0].min()
    runs = _Runs(depths, lengths, rate)
    waits: list[LazyUniform] = []
    out: set[tuple[int, int]] = set()
    while True:
        # One ring with heads: whose it is, how long it took, and whether tails came before.
        pick, wait, coin = (LazyUniform(word, entropy) for word in entropy.words(3).tolist())
        waits.append(wait)
        run = runs.picked(pick)
        candidate = run, int(uniform_below(int(lengths[run]), 1, entropy)[0])
        # It rang before and was not taken, so this is not its first ring.
        if candidate in out:
            continue
        # The coin of one at depth 0 is certain: it has no tails that could have rung before.
        if depths[run] <= 0 or runs.first_ring(run, waits, coin):
            return int(lengths[:run].sum()) + candidate[1]
        # It has shown tails, so none of its later rings is a first one.
        out.add(candidate)


@final
class _Runs:
    """The runs, the floats that propose, and the decimals that decide."""

    def __init__(
        self, depths: NDArray[np.int64], lengths: NDArray[np.int64], rate: Fraction
    ) -> None:
        self.depths, self.lengths, self.rate = depths, lengths, rate
        self.x = exponents(depths, rate)
        p, self.q = chances(self.x)
        weights = lengths * p
        self.sums = np.cumsum(weights)
        # What running sums of rounded terms may err by: "Sums" on the proof page.
        self.slack = UNIT * (4 * np.cumsum(weights * self.x) + (depths.size + 24) * self.sums)

    def picked(self, pick: LazyUniform) -> int:
        """Return a run, drawn in proportion to its number of candidates times their chance."""
        total, error = float(self.sums[-1]), float(self.slack[-1])
        # 2^-50 of the total covers the rounding of U, and what lies deeper than `DEEP`.
        place, margin = pick.word * 2.0**-64 * total, error + total * 2.0**-50
        run = int(self.sums.searchsorted(place, side="right"))
        # Floats decide only where the whole margin lies inside the run.
        past = run == 0 or place - margin >= self.sums[run - 1] + self.slack[run - 1]
        if past and run < self.sums.size and place + margin < self.sums[run] - self.slack[run]:
            return run
        while (found := self._picked(pick)) is None:
            pick.extend()
        return found

    def _picked(self, pick: LazyUniform) -> int | None:
        """Return the run where U times all weight falls, None if the known digits cannot tell."""
        digits = pick.digits + len(str(int(self.lengths.sum())))
        down, up = contexts(digits)
        sums = self._sums(digits)
        low, high = pick.bounds(digits)
        low, high = down.multiply(low, sums[-1][0]), up.multiply(high, sums[-1][1])
        run = next(j for j, (_, most) in enumerate(sums) if low < most)
        # Certain only if both ends of U fall into one run.
        return run if (not run or low >= sums[run - 1][1]) and high <= sums[run][0] else None

    def first_ring(self, run: int, waits: list[LazyUniform], coin: LazyUniform) -> bool:
        """Return whether the candidate has not rung with tails before.

        That is, whether -ln V > (1 - p) (sum of the waits) / (weight of all).
        """
        threshold, *known = exponentials([coin.first, *(wait.first for wait in waits)])
        total, error, chance = float(self.sums[-1]), float(self.slack[-1]), float(self.q[run])
        # Floats decide if their bounds do not overlap; otherwise decimals do, with as many digits
        # as needed.
        if threshold[0] * (total - error) > chance * (1 + 64 * UNIT) * sum(
            high for _, high in known
        ):
            return True
        if threshold[1] * (total + error) < chance * (1 - 64 * UNIT) * sum(low for low, _ in known):
            return False
        while (found := self._first_ring(run, waits, coin)) is None:
            # Each number keeps its digits and gets 64 more.
            for uniform in (*waits, coin):
                uniform.extend()
        return found

    def _first_ring(self, run: int, waits: list[LazyUniform], coin: LazyUniform) -> bool | None:
        """Return what `first_ring` returns, None if the known digits cannot tell."""
        digits = coin.digits + len(str(int(self.lengths.sum())))
        down, up = contexts(digits)
        total = self._sums(digits)[-1]
        low, high = exp_bounds(self.rate * int(self.depths[run]), digits)
        least = most = Decimal(0)
        for wait in waits:
            part = wait.exponential(digits)
            least, most = down.add(least, part[0]), up.add(most, part[1])
        coin_low, coin_high = coin.exponential(digits)
        # The lower bound of one side against the upper bound of the other: only that is certain.
        if down.multiply(coin_low, total[0]) > up.multiply(up.subtract(1, low), most):
            return True
        if up.multiply(coin_high, total[1]) < down.multiply(down.subtract(1, high), least):
            return False
        return None

    def _sums(self, digits: int) -> list[Bounds]:
        """Return enclosures of the cumulative weights of the runs."""
        down, up = contexts(digits)
        low = high = Decimal(0)
        sums = []
        for depth, length in zip(self.depths.tolist(), self.lengths.tolist(), strict=True):
            # An empty run may be better than all others: it counts as depth 0.
            chance_low, chance_high = exp_bounds(self.rate * max(depth, 0), digits)
            low, high = (
                down.fma(Decimal(length), chance_low, low),
                up.fma(Decimal(length), chance_high, high),
            )
            sums.append((low, high))
        return sums
