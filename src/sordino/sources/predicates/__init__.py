"""Conditions on one row.

The little language they are written in, and what each engine is asked instead.
"""
