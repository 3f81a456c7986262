"""Sums and means of clipped columns: where to clip, totals, noise, and values with intervals."""
