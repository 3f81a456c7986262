"""Means with their standard errors over repeated runs, and how they are written."""

from __future__ import annotations

import math

import numpy as np


def repeated(run, runs):
    """Call `run(i)` so often; it returns a tuple of numbers. Return means and standard errors, NaN left out."""
    table = np.array([run(i) for i in range(runs)], dtype=float)
    known = np.maximum((~np.isnan(table)).sum(axis=0), 1)
    return np.nanmean(table, axis=0), np.nanstd(table, axis=0) / np.sqrt(known)


def shown(mean, error, digits=3):
    """Return 'mean ± error', the error being one standard error."""
    return "-" if math.isnan(mean) else f"{mean:.{digits}f} ± {error:.{digits}f}"


def table(header, rows):
    return [
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
        *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows),
    ]
