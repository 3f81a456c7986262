"""Audits of continuous noise: the logarithms of its densities are enclosed, cell by cell."""
