"""Noise with a density: logarithms are enclosed, cell by cell."""
