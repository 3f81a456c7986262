"""Every error that sordino raises on purpose.

Each message is one sentence or two: what must hold, what was given, what to do. A message never
holds a private value: whatever depends on rows is said by one constant sentence
(`DataSourceError.after_charge`).
"""

from __future__ import annotations


class SordinoError(Exception):
    """The root of every error that sordino raises on purpose."""


class InvalidParameter(SordinoError, ValueError):
    """A public parameter does not satisfy its constraint."""


class BudgetExceeded(SordinoError):
    """A charge does not fit in what remains of an account; nothing was read or released.

    Parameters
    ----------
    lack : str
        What is left and what is needed.
    fitting : str
        An epsilon that would fit; empty where none does, or nobody knows one.
    largest : bool
        Whether it is the largest one.
    then : str
        What was not done.
    details : str
        What is needed and what remains, as the account counts it; empty where no account said it.
    """

    def __init__(
        self,
        lack: str,
        *,
        fitting: str = "",
        largest: bool = True,
        then: str = "",
        details: str = "",
    ) -> None:
        fits = (
            f"The largest epsilon that fits is {fitting}."
            if largest
            else f"Epsilon {fitting} fits."
        )
        super().__init__(" ".join(part for part in (lack, fitting and fits, then) if part))
        self.lack, self.fitting, self.largest = lack, fitting, largest
        self.then, self.details = then, details

    def name_fitting(self, epsilon: str, *, largest: bool = True) -> BudgetExceeded:
        """Return the same refusal, with an epsilon that would fit."""
        return BudgetExceeded(
            self.lack, fitting=epsilon, largest=largest, then=self.then, details=self.details
        )


class SimulatedRelease(SordinoError):
    """A seeded (predictable) release was about to be charged or published as a real one."""


class StreamClosed(SordinoError):
    """A stream was asked after it had ended, or by a copy of its process; nothing was answered."""


class UnboundedContribution(SordinoError):
    """The answer has no finite sensitivity until the contribution of one unit is bounded."""


class UnknownDomain(SordinoError):
    """A release over labels needs a public domain and none was given."""


class UnsafePredicate(SordinoError):
    """A row predicate or a domain query leaves the allow-list."""


class DataSourceError(SordinoError):
    """The data source cannot be used.

    Before the charge it says why, after it a constant sentence.
    """

    # One constant for every cause: that a read failed, and why, may depend on private rows.
    AFTER_CHARGE = (
        "The data engine could not finish this release. The charge stays; "
        "the cause is not reported because it may depend on private rows."
    )

    @classmethod
    def after_charge(cls) -> DataSourceError:
        """Build the one constant error for any failure after rows may have been read."""
        return cls(cls.AFTER_CHARGE)


class UnsupportedBackend(SordinoError):
    """The kind of table that was handed in cannot be read."""


class LedgerError(SordinoError):
    """The ledger cannot be opened or written."""


class LedgerConflict(LedgerError):
    """The account, charge or slot is not what the caller says it is."""


class RunTaken(LedgerConflict):
    """An account was charged for this run before; it is charged for a run once."""


class RunLost(RunTaken):
    """A run was charged before, and what it released is not there, or not yet.

    Nothing was charged now.
    """


class ClaimBroken(SordinoError):
    """An audit refuted a privacy claim for certain: more is lost than the mechanism declares."""


class HeavyTailWarning(UserWarning):
    """Noise with neither mean nor variance was chosen.

    ``warnings.simplefilter("ignore", sd.HeavyTailWarning)`` silences it.
    """
