"""Every request of a session, each loaded when it is first used.

Counts need not load what adds up numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino._lazy import lazy

if TYPE_CHECKING:
    from sordino.session.above import AboveRequest as AboveRequest
    from sordino.session.counts import (
        CountRequest as CountRequest,
        CountUnitsRequest as CountUnitsRequest,
        HistogramRequest as HistogramRequest,
    )
    from sordino.session.cross_table import TableRequest as TableRequest
    from sordino.session.local import RandomizeRequest as RandomizeRequest
    from sordino.session.numbers import (
        MeanRequest as MeanRequest,
        SumRequest as SumRequest,
        VarianceRequest as VarianceRequest,
    )
    from sordino.session.quantile_request import QuantileRequest as QuantileRequest
    from sordino.session.remeasure import RemeasureRequest as RemeasureRequest
    from sordino.session.top_k import TopKRequest as TopKRequest
    from sordino.session.top_set import TopSetRequest as TopSetRequest
    from sordino.session.top_sums import TopSumsRequest as TopSumsRequest
    from sordino.session.value_histogram import ValueHistogramRequest as ValueHistogramRequest
else:
    __getattr__, __dir__ = lazy(__name__)
