"""Conditions on one row: the little language they are written in, and what each engine is asked instead."""
