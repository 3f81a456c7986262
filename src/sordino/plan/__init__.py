"""What to expect of a mechanism before any data is seen.

How accurate it is, and which one to take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino._lazy import lazy

if TYPE_CHECKING:
    from sordino.plan._accuracy import Accuracy as Accuracy, accuracy as accuracy
    from sordino.plan.selector import (
        Alternative as Alternative,
        Selector as Selector,
        choose_selector as choose_selector,
    )
    from sordino.plan.top_k import TopKChoice as TopKChoice, choose_top_k as choose_top_k
    from sordino.plan.unlisted import (
        UnlistedChoice as UnlistedChoice,
        UnlistedWay as UnlistedWay,
        choose_unlisted as choose_unlisted,
    )
else:
    __getattr__, __dir__ = lazy(__name__)
