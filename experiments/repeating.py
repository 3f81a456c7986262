"""Means with their standard errors over repeated runs, and how they are written."""

from __future__ import annotations

import math

import numpy as np


def runs_of(run, runs):
    """Call `run(i)` so often; it returns a tuple of numbers. Return all of them, a row for each run."""
    return np.array([run(i) for i in range(runs)], dtype=float)


def averaged(rows):
    """Return means and standard errors of the columns, NaN left out."""
    known = (~np.isnan(rows)).sum(axis=0)
    sums = np.where(np.isnan(rows), 0.0, rows).sum(axis=0)
    means = np.where(known > 0, sums / np.maximum(known, 1), np.nan)
    squares = np.where(np.isnan(rows), 0.0, (rows - means) ** 2).sum(axis=0)
    return means, np.sqrt(squares / np.maximum(known - 1, 1) / np.maximum(known, 1))


def repeated(run, runs):
    """Return means and standard errors over so many runs."""
    return averaged(runs_of(run, runs))


def lead(ours, theirs):
    """Return how far ours lies above theirs, run by run on the same shuffled list, with the standard error of that difference."""
    return averaged((ours - theirs)[:, None])


def led(leads, errors):
    """Return the sentence that says how our method compares over all cells: mean, largest and worst, in standard errors."""
    leads, errors = np.concatenate(leads), np.concatenate(errors)
    surely = leads / np.maximum(errors, 1e-12)
    surely[leads == 0] = 0.0
    return (
        f"mean gain {leads.mean():+.4f}, largest {leads.max():+.4f}; worst of {leads.size} cells {leads[surely.argmin()]:+.4f}, "
        f"{surely.min():+.1f} standard errors of the difference (by chance alone the worst of so many lies near "
        f"{-math.sqrt(2 * math.log(max(leads.size, 2))):.1f}); more than two above in {int((surely > 2).sum())} cells, "
        f"more than two below in {int((surely < -2).sum())}."
    )


def shown(mean, error, digits=3):
    """Return 'mean ± error', the error being one standard error."""
    return "-" if math.isnan(mean) else f"{mean:.{digits}f} ± {error:.{digits}f}"


def table(header, rows):
    return [
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
        *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows),
    ]
