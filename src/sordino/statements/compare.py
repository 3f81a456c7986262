"""Compares two statements field by field: what differs, and what a check of one has found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

from sordino.errors import LedgerError

_ABSENT = object()


def canonical(tree: Any) -> Any:
    """Return a tree of values in which numbers that are equal are the same: 1.0 is 1."""
    if isinstance(tree, dict):
        return {name: canonical(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [canonical(value) for value in tree]
    whole = isinstance(tree, float) and tree.is_integer() and abs(tree) < 2**53
    return int(tree) if whole else tree


def list_differences(true: Any, said: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield each field in which `said` is not `true`: its path, and what it should say and says.

    A field that only one of them has is one, too.
    """
    if isinstance(true, dict) and isinstance(said, dict):
        # In the order of what is read; what was taken away comes last.
        for name in [*said, *(name for name in true if name not in said)]:
            below = f"{path}.{_write_name(name)}" if path else _write_name(name)
            yield from list_differences(true.get(name, _ABSENT), said.get(name, _ABSENT), below)
    elif isinstance(true, list) and isinstance(said, list) and len(true) == len(said):
        for number, (one, other) in enumerate(zip(true, said, strict=True), 1):
            yield from list_differences(one, other, f"{path}[{number}]")
    elif _key(true) != _key(said):
        yield path, _shorten_value(true), _shorten_value(said)


def _write_name(name: str) -> str:
    # A file of a stranger must not steer the terminal.
    return name if name.isprintable() and 0 < len(name) <= 60 else _shorten_value(name)


def _key(value: Any) -> tuple[str, Any]:
    # Python takes True for 1.
    kind = (
        "truth"
        if isinstance(value, bool)
        else "number"
        if isinstance(value, int | float)
        else "other"
    )
    return kind, value


def _shorten_value(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


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
