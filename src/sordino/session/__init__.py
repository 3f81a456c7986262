"""Sessions: the only place where data, entropy and budget meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino._lazy import lazy

if TYPE_CHECKING:
    from sordino.session.batch import Pending as Pending
    from sordino.session.bounded_total import BoundedValue as BoundedValue
    from sordino.session.local import LocalReports as LocalReports, Reported as Reported
    from sordino.session.looks import KeptLook as KeptLook, KeptNumber as KeptNumber
    from sordino.session.plans.plan import Plan as Plan, PlannedChoice as PlannedChoice
    from sordino.session.plans.releases import Plans as Plans
    from sordino.session.plans.widths import PlannedFigure as PlannedFigure
    from sordino.session.remeasure import Remeasured as Remeasured, RemeasuredRow as RemeasuredRow
    from sordino.session.request import Payer as Payer, Progress as Progress, Uncharged as Uncharged
    from sordino.session.results import (
        AboveItem as AboveItem,
        AboveItems as AboveItems,
        Count as Count,
        CountedItem as CountedItem,
        Histogram as Histogram,
        TopItem as TopItem,
        TopItems as TopItems,
        TopSetItem as TopSetItem,
        TopSetItems as TopSetItems,
    )
    from sordino.session.session import Session as Session
    from sordino.session.table_numbers import GroupRow as GroupRow, Groups as Groups
else:
    __getattr__, __dir__ = lazy(__name__)
