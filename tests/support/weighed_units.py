"""Small units with rows in two groups and their neighbors, and weights that add up to more than a unit."""

from __future__ import annotations

from itertools import product

import numpy as np

NEAR = 8 - 2**-40
CAP = 2
# What a unit may have in one group: any number of rows, below and beyond the weight.
ROWS = ([], [NEAR], [2.0], [NEAR, NEAR], [3.0, 0.5], [1.0, 1.0, NEAR], [NEAR] * 5)
SIGNED = ([], [-NEAR], [2.0], [NEAR, -NEAR], [-3.0, 0.5, 0.5], [-NEAR] * 3)
LINES = [(adjacency, lower) for adjacency in ("add-remove", "replace-one") for lower in (0, None)]
OPTIONS = {"epsilon": 2, "weight_cap": CAP, "weight_bits": 2, "cap": 8, "growth": 2}
"""Weights of a few steps, so that sums over all noise are short."""


def frozen(unit):
    return tuple(tuple(group) for group in unit)


def neighbours(adjacency, lower, units=None):
    """All pairs of data sets that differ in one unit, in both orders."""
    listed = ROWS if lower == 0 else SIGNED
    units = [frozen(unit) for unit in units or product(listed, repeat=2)]
    bases = [(), (((1.0,), ()),), (((2.0, 3.0), (1.0,)), ((), (NEAR, 3.0, 0.5)))]
    for base in bases:
        for one in units:
            for other in [None] if adjacency == "add-remove" else units:
                if one is not other:
                    there = () if other is None else (other,)
                    yield (*base, one), base + there
                    yield base + there, (*base, one)


def in_its_group(self, rows, weight):
    """Twin: a row is weighed by the rows of its unit in its group alone."""
    many = np.zeros(rows.unit.size, dtype=np.int64)
    for place, (unit, group) in enumerate(zip(rows.unit, rows.group, strict=True)):
        many[place] = np.count_nonzero((rows.unit == unit) & (rows.group == group))
    return np.floor_divide(self.records_of_unit, np.maximum(many, weight))


def to_nearest(self, rows, weight):
    """Twin: weights are rounded to the nearest step."""
    many = np.maximum(np.bincount(rows.unit, minlength=1)[rows.unit], weight)
    return np.rint(self.records_of_unit / many).astype(np.int64)


def without_a_limit(self, rows, weight):
    """Twin: all rows have the weight of one of `weight_cap`, however many a unit has."""
    return np.full(rows.unit.size, self.records_of_unit // weight, dtype=np.int64)
