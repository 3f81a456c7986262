"""Quantiles of a column without bounds: one, or several under one charge; the search over ranks."""
