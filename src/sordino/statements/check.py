"""What a check of a statement found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from sordino.errors import LedgerError


@final
@dataclass(frozen=True, kw_only=True)
class StatementCheck:
    """What `Ledger.check_statement` found.

    Attributes
    ----------
    account : str
        The account whose history was looked at.
    digest : str
        What the statement says that its digest is.
    problems : tuple of str
        One sentence each, with the name of the field; empty if all agrees.
    newer : bool
        Whether the ledger has a later statement about the same release, or the same account.

    Examples
    --------
    >>> import sordino as sd
    >>> sd.statements.StatementCheck(account="orders", digest="9f", problems=(), newer=False).sound
    True
    """

    account: str
    digest: str
    problems: tuple[str, ...]
    newer: bool

    @property
    def sound(self) -> bool:
        """Whether the statement is what the ledger says."""
        return not self.problems

    def raise_if_broken(self) -> None:
        """Raise `LedgerError` with the first problem unless everything agrees."""
        if self.problems:
            more = f" ({len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
            raise LedgerError(
                f"The statement does not hold: {self.problems[0]}{more} Do not rely on it."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as JSON-ready values."""
        return {
            "account": self.account,
            "sound": self.sound,
            "digest": self.digest,
            "newer": self.newer,
            "problems": list(self.problems),
        }
