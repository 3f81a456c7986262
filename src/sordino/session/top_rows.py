"""The rows of a top-k that was selected and then measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sordino.cost import compose
from sordino.estimators.rows import estimate_rows, find_unclear
from sordino.mechanisms import GaussianMechanism
from sordino.releases import HybridTop, TopK, UnlistedTop, Values
from sordino.session.request import CONFIDENCE
from sordino.session.results import TopItem, TopItems


def build_top(
    top: TopK | HybridTop | UnlistedTop,
    fresh: Values,
    labels: Sequence[str],
    *,
    crossed: bool | None,
    simultaneous: bool,
    capped: bool,
    label_threshold: int | None = None,
    why: str | None = None,
) -> TopItems:
    """Return the top k of what was selected and a measurement of it."""
    said = estimate_rows(top, fresh, confidence=CONFIDENCE, simultaneous=simultaneous, capped=capped)
    unclear = find_unclear(top, fresh, confidence=CONFIDENCE)
    # Where every item of the domain is selected, the last one leads over none. Gumbel noise has no gaps.
    gaps = [*top.gaps.tolist(), *[None] * (len(labels) - top.gaps.size)]
    rows = tuple(
        TopItem(
            rank=rank + 1,
            item=label,
            gap=gaps[rank],
            **said.describe(rank),
            measured=float(said.measured[rank]),
            combined=None if math.isnan(said.combined[rank]) else float(said.combined[rank]),
            order_unclear=unclear[rank],
        )
        for rank, label in enumerate(labels)
    )
    # What a transcript spent is an epsilon of that transcript, and no rho: beside Gaussian noise what the
    # mechanism costs is said.
    paid = top.mechanism.cost if isinstance(fresh.mechanism, GaussianMechanism) else top.cost
    return TopItems(
        rows=rows,
        crossed=crossed,
        confidence=said.confidence,
        together=said.together,
        mechanism=(top.mechanism, fresh.mechanism),
        label_threshold=label_threshold,
        why=why,
        cost=compose(paid, fresh.cost),
        simulated=top.simulated,
    )
