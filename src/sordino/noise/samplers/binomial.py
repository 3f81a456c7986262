"""The exact number of successes among n independent trials, for a probability with certified digits.

Claim: `binomial` returns j with probability exactly C(n, j) p^j (1-p)^(n-j). Proof: docs/proofs/samplers.md.
Noise: one uniform number, extended without end; it is compared with an enclosure of the cumulative sum.
Floats: none.
"""

from __future__ import annotations

from decimal import Context, Decimal

from sordino.entropy import Entropy
from sordino.noise.probability import Enclosure, contexts

# Binary digits of U that are drawn together.
_BITS_AT_ONCE = 192


def binomial(n: int, p: Enclosure, entropy: Entropy) -> int:
    """Return the number of successes of `n` >= 0 trials of probability `p` < 1.

    The work grows with the result, not with `n`.
    """
    word, length = 0, 0
    while True:
        for extra in entropy.words(_BITS_AT_ONCE // 64).tolist():
            word, length = (word << 64) | extra, length + 64
        # All digits so far stay: a longer start of the same U is tried, so the comparison is exact when it is
        # made.
        found = _invert_cdf(n, p, word, length)
        if found is not None:
            return found


def _invert_cdf(n: int, p: Enclosure, word: int, length: int) -> int | None:
    """Return the j with C(j-1) <= U < C(j) for every U that begins with these digits.

    None if they are too few to tell.
    """
    # What the binary digits are worth in decimal ones, and some for the roundings of a sum of up to n terms.
    digits = length * 31 // 100 + len(str(n)) + 20
    down, up = contexts(digits)
    p_low, p_high = p(digits)
    if p_high >= 1:  # closer to 1 than these digits can tell
        return None
    p_low = max(p_low, Decimal(0))
    at_least = down.divide(Decimal(word), Decimal(1 << length))
    at_most = up.divide(Decimal(word + 1), Decimal(1 << length))
    # (1 - p)^n falls with p, while the odds p/(1 - p) rise: each bound takes the end of p that moves it
    # outward.
    low, high = _chance_of_none(n, p_high, down), _chance_of_none(n, p_low, up)
    odds_low = down.divide(p_low, up.subtract(1, p_low))
    odds_high = up.divide(p_high, down.subtract(1, p_high))
    sum_low, sum_high = low, high
    for j in range(n):
        # Certainly below this sum, and, as the loop came here, certainly not below the one before.
        if at_most <= sum_low:
            return j
        # Neither certainly below this sum nor certainly at or above it.
        if at_least < sum_high:
            return None
        # From P(j) to P(j + 1): times (n - j)/(j + 1) and the odds.
        low = down.multiply(low, down.multiply(odds_low, down.divide(Decimal(n - j), Decimal(j + 1))))
        high = up.multiply(high, up.multiply(odds_high, up.divide(Decimal(n - j), Decimal(j + 1))))
        sum_low, sum_high = down.add(sum_low, low), up.add(sum_high, high)
    # The sum of all probabilities is 1, which U stays below.
    return n


def _chance_of_none(n: int, p: Decimal, context: Context) -> Decimal:
    """Return (1-p)^n rounded the way `context` rounds.

    ln and exp are correct to the last digit, so one step beyond is safe.
    """
    beyond = context.next_minus if context.rounding == "ROUND_FLOOR" else context.next_plus
    log = beyond(context.ln(context.subtract(1, p)))
    return min(beyond(context.exp(context.multiply(Decimal(n), log))), Decimal(1))
