"""The least largest variance of any private unbiased mechanism on [-1, 1], by a linear program on a grid of inputs and outputs.

Fewer inputs than there are make it too small, fewer outputs too large; by symmetry only inputs 0..1 are variables.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

INPUTS, OUTPUTS, FARTHEST = (
    17,
    193,
    1.5,
)  # the farthest output in units of the least that is possible


def least_worst_variance(epsilon, inputs=INPUTS, outputs=OUTPUTS):
    """Return the largest variance over the inputs, as small as it can be made.

    Variables: a row of probabilities for each input, the least of each output over all inputs, and the largest variance.
    """
    rows, half = inputs // 2 + 1, outputs // 2
    t = np.linspace(0, 1, rows)
    places = np.arange(-half, half + 1)
    o = places * FARTHEST / math.tanh(epsilon / 2) / half
    least = sparse.csr_matrix(
        (np.ones(outputs), (np.arange(outputs), np.abs(places)))
    )  # the same for -o: mirrored inputs
    each, free = sparse.identity(rows), rows * outputs
    column, ones = sparse.csr_matrix((free, 1)), np.ones((rows, 1))
    above = sparse.hstack(
        [sparse.identity(free), sparse.kron(ones, -math.exp(epsilon) * least), column]
    )
    below = sparse.hstack([-sparse.identity(free), sparse.kron(ones, least), column])
    square = sparse.hstack(
        [sparse.kron(each, o[None, :] ** 2), sparse.csr_matrix((rows, half + 1)), -ones]
    )
    nothing = sparse.csr_matrix((rows, half + 2))
    sums = sparse.hstack([sparse.kron(each, np.ones((1, outputs))), nothing])
    means = sparse.hstack([sparse.kron(each, o[None, :]), nothing])
    found = linprog(
        np.append(np.zeros(free + half + 1), 1),
        A_ub=sparse.vstack([above, below, square]).tocsr(),
        b_ub=np.concatenate([np.zeros(2 * free), t**2]),
        A_eq=sparse.vstack([sums, means]).tocsr(),
        b_eq=np.concatenate([np.ones(rows), t]),
    )
    if found.status:
        raise RuntimeError(found.message)
    return found.fun
