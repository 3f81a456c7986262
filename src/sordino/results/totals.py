"""What figures that are made of totals are called, wherever people read them."""

from __future__ import annotations

from typing import NamedTuple


class TotalFigure(NamedTuple):
    """How a figure of a column is called.

    Attributes
    ----------
    heading : str
        Above a result, before "of" and the name of the column.
    question : str
        What it tells, before the name of the column.
    planned : str
        In a plan, such as "the sum".
    mechanism : str
        The class that releases it alone.
    """

    heading: str
    question: str
    planned: str
    mechanism: str


TOTALS = {
    "sum": TotalFigure("Sum", "The sum of the numbers in", "the sum", "ClippedSum"),
    "mean": TotalFigure("Mean", "The average of the numbers in", "the mean", "ClippedMean"),
    "variance": TotalFigure(
        "Variance", "How far apart lie the numbers in", "the variance", "ClippedVariance"
    ),
}
"""By the names of their methods of a session: whoever adds one puts it in here."""
