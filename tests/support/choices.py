"""Exact laws of the selections of one answer, in fractions of r = e^-rate, by routes that share no code with the library."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations


def softmax(r, q, i):
    """P(i), proportional to r^(highest - q_i)."""
    top = max(q)
    return r ** (top - q[i]) / sum(r ** (top - x) for x in q)


def lead_at_least(r, q, i, m):
    """P(i is selected with a lead of m steps or more): i would win with a score lower by m."""
    lowered = tuple(x - m * (j == i) for j, x in enumerate(q))
    return softmax(r, lowered, i)


def lead(r, q, i, m):
    """P(i is selected with a lead of exactly m steps)."""
    return lead_at_least(r, q, i, m) - lead_at_least(r, q, i, m + 1)


def run(r, q, i, m):
    """P(the first arrival is i, and the largest excess before another one arrives is m), added up over the length of the run.

    Arrivals are i with probability p; an excess is at most m with probability 1 - r^(m+1).
    """
    p = softmax(r, q, i)

    def all_at_most(bound):  # sum over N >= 1 of p^N (1 - p) F^N
        share = p * (1 - r ** (bound + 1))
        return (1 - p) * share / (1 - share)

    return all_at_most(m) - all_at_most(m - 1)


def permute_and_flip(r, q, i):
    """P(i) by the algorithm as published: all orders; the first that its coin of r^depth accepts."""
    depths = [max(q) - x for x in q]
    total, orders = Fraction(0), 0
    for order in permutations(range(len(q))):
        orders += 1
        missed = Fraction(1)
        for j in order:
            if j == i:
                total += missed * r ** depths[j]
                break
            missed *= 1 - r ** depths[j]
    return total / orders


def response(r, n, best, i):
    """P(i) of randomized response: the odds of the largest against each other one are 1/r."""
    return (Fraction(1) if i == best else r) / (1 + (n - 1) * r)
