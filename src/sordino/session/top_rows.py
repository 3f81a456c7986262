"""The rows of a top-k that was selected and then measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from sordino.cost import compose
from sordino.estimators.rows import estimate_rows, find_unclear
from sordino.mechanisms import GaussianMechanism
from sordino.releases import HybridTop, TopK, UnlistedTop, Values
from sordino.session.results import TopItem, TopItems


@final
@dataclass(frozen=True)
class TopBuild:
    """Makes the rows of a top k of what was selected and a measurement of it; nothing in it is private."""

    top: TopK | HybridTop | UnlistedTop
    crossed: bool | None
    labels: tuple[str, ...]
    simultaneous: bool
    capped: bool
    label_threshold: int | None = None
    why: str | None = None

    def __call__(self, fresh: Values, confidence: float) -> TopItems:
        """Return the rows of a measurement."""
        top = self.top
        said = estimate_rows(
            top, fresh, confidence=confidence, simultaneous=self.simultaneous, capped=self.capped
        )
        unclear = find_unclear(top, fresh, confidence=confidence)
        # Where every item of the domain is selected, the last one leads over none. Gumbel noise has no gaps.
        gaps = [*top.gaps.tolist(), *[None] * (len(self.labels) - top.gaps.size)]
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
            for rank, label in enumerate(self.labels)
        )
        # What a transcript spent is an epsilon of that transcript, and no rho: beside Gaussian noise what the
        # mechanism costs is said.
        paid = top.mechanism.cost if isinstance(fresh.mechanism, GaussianMechanism) else top.cost
        return TopItems(
            rows=rows,
            crossed=self.crossed,
            confidence=said.confidence,
            together=said.together,
            mechanism=(top.mechanism, fresh.mechanism),
            label_threshold=self.label_threshold,
            why=self.why,
            cost=compose(paid, fresh.cost),
            simulated=top.simulated,
        )
