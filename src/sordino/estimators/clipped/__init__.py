"""Sums and means of clipped columns: where to clip, totals, their noise, and a value with its interval."""
