"""Who pays for the releases of a session: an account, nobody because that was written down, or nobody at all.

A session without a word about it would spend what nothing remembers, by accident.
"""

from __future__ import annotations

from enum import Enum
from typing import final

from sordino.constraints import shown
from sordino.entropy import Entropy
from sordino.errors import InvalidParameter, SimulatedRelease
from sordino.ledger import Ledger


@final
class Unsaid(Enum):
    """What a parameter is while nobody has said anything about it; None says something."""

    MUST_BE_GIVEN = "must be given"

    def __repr__(self) -> str:
        return f"<{self.value}>"


MUST_BE_GIVEN = Unsaid.MUST_BE_GIVEN
"""The default of `Session.ledger`."""


def choose_ledger(ledger: Ledger | Unsaid | None, entropy: Entropy) -> Ledger | None:
    """Return the account that pays, or None if it was said that nobody does or nothing real is released.

    Raises
    ------
    InvalidParameter
        If nothing was said and noise is real, or it is no ledger.
    SimulatedRelease
        If simulated noise would be charged.
    """
    if ledger is MUST_BE_GIVEN:
        if entropy.simulated:
            return None
        raise InvalidParameter(
            "Session.ledger must be given: the account to charge (Ledger.open or Ledger.create), or "
            "ledger=None to release without one, so that nothing remembers what is spent."
        )
    if ledger is not None and not isinstance(ledger, Ledger):
        raise InvalidParameter(
            f"Session.ledger must be what Ledger.open or Ledger.create returns; got {shown(ledger)}."
        )
    if ledger is not None and entropy.simulated:
        raise SimulatedRelease(
            "A ledger takes only real releases; use Seeded entropy in a session without a ledger."
        )
    return ledger
