"""Private selection of the most associated markers of a genome, from family-based (TDT) counts.

Neighbors are data of as many families of which one was replaced by any other. Counts are private;
how many markers and families there are is public.
"""

from __future__ import annotations

from sordino.genomics.choose import choose_method, find_epsilon
from sordino.genomics.method import Method, damped_tdt
from sordino.genomics.significance import most_significant

__all__ = ["Method", "choose_method", "damped_tdt", "find_epsilon", "most_significant"]
