"""What is read from a column of numbers.

Counts of grid buckets, totals of steps, and records of a list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino._lazy import lazy

if TYPE_CHECKING:
    from sordino.columns.bucket_counts import BucketCounts as BucketCounts
    from sordino.columns.bucket_grid import BucketGrid as BucketGrid
    from sordino.columns.clipped_steps import StepRange as StepRange, Total as Total
else:
    __getattr__, __dir__ = lazy(__name__)
