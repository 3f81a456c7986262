"""A finer look at the answers of an earlier release, drawn given its noise."""

from __future__ import annotations

from typing import Any, ClassVar, final

from sordino.constraints import POSITIVE, Number
from sordino.declared import parameter
from sordino.errors import InvalidParameter
from sordino.session.desk import Pending
from sordino.session.memory import Look, Memory, build_refined
from sordino.session.request import CONFIDENCE, Request, Reservation, Steps, Table, checked_later

_NO_LADDER = (
    "Session.ladder must be given when the session is made, before the first look, for releases that are to "
    "be refined: then their exact answers are kept in memory. Without it measure again, which is independent."
)
_NO_EPSILONS = (
    "refine.release must be charged to an account that adds up epsilons; this one adds rhos, where both "
    "looks together cost more than two measurements. Measure again: with Gaussian noise nothing is lost."
)


@final
class RefineRequest(Request[Any]):
    """A finer release of the same answers."""

    name: ClassVar[str] = "refine"

    release: Any = parameter(checked_later, "A release of this session.")
    epsilon: Number = parameter(POSITIVE, "What this look may add to what was spent.")

    def steps(self, table: Table) -> Steps[Any]:
        """Charge what is added, then draw the finer noise given the first one."""
        memory = _find_memory(table)
        # A release of a batch is held by what stands for it.
        release = self.release.result if isinstance(self.release, Pending) else self.release
        look = memory.take(release)
        charged = None
        try:
            mechanism, place = look.plan(self.epsilon)
            charged = yield Reservation(
                (mechanism,), {"refines": _name_charge(release), "look": place + 1}, None
            )
        finally:
            # Nothing was charged, so that nothing was drawn: it may still be refined.
            if charged is None:
                memory.keep(release, look)
        answers = charged.read(look)
        fresh = charged.release(mechanism, answers, values=look.fresh)
        finer = build_refined(look, fresh, memory.ladder.find_confidence(place + 1, CONFIDENCE))
        # From here on the finer look is the one to be refined.
        memory.keep(finer, Look(fresh, answers, look.build, look.rates, place))
        return finer


def _find_memory(table: Table) -> Memory:
    """Return what keeps the answers; refuse a session without it, and an account that adds up rhos."""
    if table.memory is None:
        raise InvalidParameter(_NO_LADDER)
    if table.price is not None and not table.price.adds_epsilons:
        raise InvalidParameter(_NO_EPSILONS)
    return table.memory


def _name_charge(release: Any) -> str | None:
    """Return the id of the charge of a release, None where nobody paid."""
    receipt = release.receipt
    return None if receipt is None else receipt.id
