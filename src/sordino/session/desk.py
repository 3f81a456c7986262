"""Charges, reads and releases, in this order: with a session's source, unit, account and entropy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, final

from sordino.data import PrivacyUnit, Source
from sordino.entropy import Entropy, renew
from sordino.errors import DataSourceError, SordinoError
from sordino.ledger import Ledger
from sordino.remnants import no_remnants
from sordino.session.plan import Callback, Payer, Plan, Progress, R, Uncharged, size_of


@final
class Desk:
    """Charges before it reads, and reads before it releases."""

    __slots__ = ("entropy", "ledger", "source", "unit")

    def __init__(self, source: Source, unit: PrivacyUnit, ledger: Ledger | None, entropy: Entropy) -> None:
        self.source, self.unit, self.ledger, self.entropy = source, unit, ledger, entropy

    def salt(self) -> bytes:
        """Return a fresh secret: which rows of a unit count follows from it."""
        # A copy of this memory that was made before must not know the secret: docs/decisions/0002-entropy.md.
        renew(self.entropy)
        return self.entropy.words(4).tobytes()

    @no_remnants
    def run(self, asked: Sequence[tuple[Plan[Any], Progress | None]]) -> list[Any]:
        """Charge everything, then read and release one after the other."""
        plans = [plan for plan, _ in asked]
        details, names = [self._detail(plan) for plan in plans], [plan.name for plan in plans]
        detail = (
            # One release keeps its own detail, a batch that of each with its name.
            details[0]
            if len(plans) == 1
            else {"batch": [{"release": name, **detail} for name, detail in zip(names, details, strict=True)]}
        )
        # The charge is durable before any row is read.
        with self._charge(
            tuple(part for plan in plans for part in plan.spent), " + ".join(names), detail
        ) as payer:
            return [self._released(plan, payer, progress) for plan, progress in asked]

    def _released(self, plan: Plan[R], payer: Payer, progress: Progress | None) -> R:
        """Read and release.

        The text of an error that is neither ours nor the caller's may hold what was read. A constant one is
        raised instead.

        Raises
        ------
        DataSourceError
            If anything fails.
        """
        heard = None if progress is None else Callback(progress)
        # Outside of the `try`: a question turns its own failures into the constant sentence,
        # and lets an error of the caller's `progress` leave as it is.
        found = plan.question.run(progress=heard)
        try:
            return plan.finish(payer, found, self.entropy)
        except SordinoError:
            raise
        except Exception as error:
            # Private rows never raise, and what went wrong with them is said to nobody.
            if any(called is not None and called.raised is error for called in (heard, plan.callback)):
                raise
        # Raised outside of the handler, so that it does not carry the error of the engine along.
        raise DataSourceError.after_charge()

    @contextmanager
    def stream(self, mechanism: Any, detail: dict[str, Any]) -> Iterator[Any]:
        """Charge the worst case, then open a stream.

        What it did not spend returns if the block is left without an error.
        """
        with (
            self._charge((mechanism,), "watch", _drop_none(detail)) as payer,
            payer.open(mechanism, entropy=self.entropy) as stream,
        ):
            yield stream

    def _charge(
        self, parts: tuple[Any, ...], label: str, detail: dict[str, Any]
    ) -> AbstractContextManager[Payer]:
        """Reserve, durably, before any row is read; the ledger keeps what is public."""
        if self.ledger is None:
            return nullcontext(Uncharged())
        about: dict[str, Any] = {
            "unit": self.unit,
            "source": self.source.identity,
            "adjacency": self.unit.adjacency,
        }
        return self.ledger.reserve(parts, label=label, detail=detail, **about)

    def _detail(self, plan: Plan[Any]) -> dict[str, Any]:
        detail = _drop_none(plan.public)
        if self.unit.max_rows is not None:
            detail["max_rows"] = self.unit.max_rows
        if plan.question.domain is not None:
            detail |= {"domain": plan.question.domain.origin, "domain_size": size_of(plan.question)}
        return detail


def _drop_none(public: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in public.items() if value is not None}
