"""What figures are called wherever people read them, and the sentences that stand below a table.

What each column is, and what an interval is about.
"""

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


INTERVAL = "low and high: interval of each count, from the fresh measurement alone."
BEFORE_SELECTION = (
    "estimate: from gaps and measurement, inside the interval; unbiased before selection."
)
ONLY_MEASURED = "estimate: the fresh measurement, unbiased; Gumbel noise selects without gaps."
FROM_GAPS = (
    "estimate: down to the threshold where that ended the list, too high after selection; else "
    "nothing."
)
FROM_HISTOGRAM = "estimate: the best of a noisy histogram; too high on average for the last rows."
INTERVAL_OF_SELECTED = (
    "low and high: interval of each count; allows for the selection, so that the low end of a row "
    "that was barely selected lies far down."
)
MEASURED_SET = "estimate: the fresh measurement as a whole number inside the interval."
ADDS_UP = "A table: margins and the total are sums of cells. All intervals hold together with 95%."
OF_TABLES = (
    "true_low: lower bound of the true number, as sure as the interval. Cells and margins have no "
    "upper one; that of the total is true_high."
)
APPEARANCES = (
    "Margins and the total count appearances: a person is in them as often as it has cells there. "
    "true_low: lower bound of the number of people, as sure as the interval; it has no upper one."
)
NOT_NEGATIVE = (
    "published: whole numbers, none below 0, that add up and lie inside of all intervals; they are "
    "made of the estimates, which are unbiased."
)
NEGATIVE = (
    "No table without negative numbers was found inside of all intervals, so the estimates are "
    "shown as they are."
)
MEASURED_MARGINS = (
    "A table: each figure is the best mean of all that was measured, so that margins and the total "
    "are sums of cells; estimates are not whole. All intervals hold together with 95%."
)
WHOLE = (
    "published: whole numbers that add up and lie inside of all intervals; they are made of the "
    "estimates, which are unbiased."
)
NOT_WHOLE = (
    "No whole numbers were found inside of all intervals, so the estimates are shown as they are."
)
TABLE_AGAIN = (
    "estimate: all looks together, each weighted by its precision; where that lies outside of any "
    "interval, the new look alone. Margins and the total are sums of cells."
)
A_SET = "A set: the rows stand in the order of the domain; nothing says which count is larger."
UNCLEAR = "tie: yes where the item may be no larger than the next one."
ABOVE_ESTIMATE = "estimate: unbiased before selection, too high after it."
ABOVE_LOW = (
    "low: 95% lower bound of each count, valid after selection; 0 where the gap bounds nothing, "
    "empty with --adaptive."
)
ABOVE_MEASURED = "low and high: 95% interval of each count, from the fresh measurement alone."
RANK = (
    "rank_error: with 95% the rank of the value is that far from the target at most, in "
    "numbers; those in a bucket with it count as at it."
)
VALUES = (
    "low and high: 95% interval of each quantile, from a share of epsilon of its own; "
    "empty: no end is known."
)
RANK_WEIGHED = (
    "rank_error: with 95% the rank of the value is that far from the target at most, in rows with "
    "these weights; those in a bucket with it count as at it."
)
VALUES_WEIGHED = (
    "low and high: 95% interval of each quantile of rows with these weights, from a share of "
    "epsilon of its own; empty: no end is known."
)
VALUES_OF_SOME = (
    "low and high: 95% interval of each quantile of the rows that count, from a share of epsilon "
    "of its own; true_low and true_high: of all rows. Empty: no end is known."
)
TOO_FEW = (
    "too_few: not enough people, or epsilon, to say anything; the interval leaves nothing out."
)
TOO_FEW_OF_QUANTILE = (
    "too_few: not enough people, or epsilon, to say anything; the interval leaves out less than a "
    "tenth of the edges of the grid."
)
NO_ERROR = "Where too_few is yes there is no standard_error."
PARTS = (
    "count and sum are of the same noisy totals as the mean, and cost nothing: of the rows and "
    "weights that count for it, the sum after capping; their ends hold with 95% each."
)
TOO_FEW_OF_SUM = "too_few: not enough people, or epsilon, to tell the sum from 0."
TOO_FEW_OF_LIST = (
    "too_few: yes where the interval reaches down to 0, as that of an item that nobody has does."
)
CAPPED = "capped: no edge was found before the end of the grid; the quantile may lie beyond it."
CAPPED_CLIP = (
    "capped: whether the search for the clip ended at the cap itself; then more may lie beyond. "
    "Numbers are moved to the clip in any case."
)
TRUE = (
    "true_low and true_high: 95% interval of the figure of all numbers as they are, if none lies "
    "below --lower; empty: no end is known."
)
CLIPPED = (
    "low and high: 95% interval of what numbers clipped to clip_low and clip_high give; what lies "
    "beyond is not known."
)
LARGEST_SUMS = "estimate: the largest of noisy sums; too high on average for the last rows."
CLIPPED_RANKS = (
    "Ranked by clipped sums: an item that gets much from few people may rank too low or be missing."
)
INTERVAL_OF_SUMS = (
    "low and high: interval of what people give that count for at most clip_high in all items "
    "together; who has more counts as that, with the same share of it in each item. It allows for "
    "the selection, so that the low end of a row that was barely selected lies far down."
)
LEAST_OF_SUMS = "What a person adds up to below 0 counts as 0."
UNKNOWN_NUMBERS = "How many rows held a number is not known: nothing was spent on it."
TRUE_SUMS = (
    "true_low: low end of the sum as it is, if no person adds up to less than 0 in an item; how "
    "far it lies above is not known."
)
UNCLEAR_SUMS = (
    "tie: yes where the item may be no larger than the next one, as people count within the clip."
)
CLIPPED_TOGETHER = (
    "low and high: 95% interval of what people give that count for at most clip_high in all groups "
    "together; who has more counts as that, with the same share of it in each group."
)
CLIPPED_WEIGHED = (
    "low and high: 95% interval of the mean with these weights of numbers clipped to clip_low and "
    "clip_high; what lies beyond is not known."
)
TRUE_WEIGHED = (
    "true_low and true_high: 95% interval of the mean with these weights of all numbers as they "
    "are, if none lies below --lower, or of true_high above --cap; empty: no end is known."
)
TOO_FEW_WEIGHED = (
    "too_few: not enough people, or epsilon, to say anything; the interval leaves nothing out, or "
    "rows weigh too little to be told from none."
)
WEIGHED = (CLIPPED_WEIGHED, TRUE_WEIGHED, TOO_FEW_WEIGHED, NO_ERROR)
"""What is said of intervals of a mean whose rows have weights."""
WEIGHED_VARIANCE = (
    CLIPPED_WEIGHED.replace("the mean", "the variance"),
    "true_low: lower end of the variance with these weights of all numbers as they are, with 95%; "
    "how far it lies above is not known.",
    TOO_FEW_WEIGHED,
)
"""The same of a variance, which clipping only makes smaller."""
MOVED = (
    "low and high: 95% interval of what rows between clip_low and clip_high give, each moved "
    "there, if it lies in the declared range."
)
AGAIN = "estimate: all looks together, each weighted by its precision, moved into the interval."
AGAIN_BUT_FIRST = (
    "estimate: all looks together but the first, each weighted by its precision, moved into the "
    "interval. The noise of the first look has selected these items: it counts for nothing here."
)
ALONE = "low and high: interval of the new look alone, which holds whatever was seen before."
ALL = (
    "low and high: interval of all looks together; it holds if they were settled before the first "
    "was seen."
)
CLIPPED_AGAIN = (
    "They are about rows clipped as the first look clipped them; true_low and true_high about all "
    "rows."
)
