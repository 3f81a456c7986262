"""Figures that run on: of all days so far, from releases that are made once each.

A day, a month and a year are each asked when they have ended, and never again. What is there until
a day is the sum of a few of them (docs/proofs/running-totals.md).
"""

from sordino.series.series import Series as Series
