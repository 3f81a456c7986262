"""Accounts with a budget in one file."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, final

from sordino.constraints import ADJACENCY, TRUTH, shown, text
from sordino.errors import BudgetExceeded, InvalidParameter, LedgerConflict, LedgerError
from sordino.ledger import _records
from sordino.ledger._amounts import LARGEST, Budget, check_claims, decimal, epsilon_of, exact_cost, nano_up, things
from sordino.ledger._charge import Charge
from sordino.ledger._identity import canonical_source, canonical_unit
from sordino.ledger._sqlite import transaction
from sordino.ledger._statement import Statement, statement_of


@final
class Ledger:
    """An account in a ledger; made by `Ledger.create` or `Ledger.open`.

    A charge is durable before `reserve` returns, and a crash at any moment leaves at least what was reserved. A ledger may be shared
    by threads and processes on one machine (not over a network file system) and holds no open file between two calls.

    Attributes
    ----------
    url : str
        The absolute path of the file.
    account : str
        The name of the account.

    Examples
    --------
    >>> import tempfile
    >>> import sordino as sd
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = sd.Ledger.create(folder.name + "/budget.db", account="orders", budget=sd.Budget(epsilon=3.0),
    ...                           adjacency="add-remove", unit="customer_id", source="orders.parquet")
    >>> with ledger.reserve(sd.cost.Pure(epsilon=0.5), label="not used"):
    ...     ledger.remaining
    Fraction(5, 2)
    >>> ledger.remaining
    Fraction(3, 1)
    >>> folder.cleanup()
    """

    __slots__ = ("account", "url")

    def __init__(self, url: str, account: str) -> None:
        self.url = _located(url)
        self.account = text(account, "account")

    def __repr__(self) -> str:
        return f"Ledger({self.url!r}, account={self.account!r})"

    def __reduce__(self) -> tuple[type[Ledger], tuple[str, str]]:
        return Ledger, (self.url, self.account)

    @classmethod
    def create(
        cls, url: str | os.PathLike[str], *, account: str, budget: Budget, adjacency: str, unit: Any, source: str | os.PathLike[str]
    ) -> Ledger:
        """Make a new account, and the file if there is none.

        Parameters
        ----------
        url : str or path
            The file.
        account : str
            Its name.
        budget : Budget
            What it may spend over its whole life.
        adjacency : {"add-remove", "replace-one"}
            Which data sets are neighbours.
        unit : str or PrivacyUnit
            Whom it protects: the name of a column, or a unit.
        source : str or path
            The rows it is about; see `canonical_source`.

        Raises
        ------
        LedgerConflict
            If the account exists already.
        LedgerError
            If the file cannot be written or belongs to another application.
        InvalidParameter
            If a parameter does not satisfy its constraint.
        """
        made = cls(os.fspath(url) if isinstance(url, os.PathLike) else url, account)
        if not isinstance(budget, Budget):
            raise InvalidParameter(f"budget must be a Budget such as Budget(epsilon=3.0); got {shown(budget)}.")
        row = _records.Account(
            name=made.account,
            meter=budget.meter,
            adjacency=ADJACENCY("adjacency", adjacency),
            unit=canonical_unit(unit),
            source=canonical_source(source),
            allowance=budget.nano,
            spent=0,
        )
        with transaction(made.url, "create") as connection:
            if _records.find_account(connection, made.account) is not None:
                raise LedgerConflict(f"Account {made.account!r} exists already in the ledger at {made.url!r}; open it instead.")
            _records.add_account(connection, row, epsilon=str(budget.epsilon), delta=str(budget.delta))
        return made

    @classmethod
    def open(cls, url: str | os.PathLike[str], *, account: str) -> Ledger:
        """Open an account that exists.

        Parameters
        ----------
        url : str or path
            The file.
        account : str
            Its name.

        Raises
        ------
        LedgerError
            If there is no such file or account, or the file is not a ledger that this version can read.
        """
        opened = cls(os.fspath(url) if isinstance(url, os.PathLike) else url, account)
        with transaction(opened.url, "read") as connection:
            opened._row(connection)
        return opened

    @classmethod
    def accounts(cls, url: str | os.PathLike[str]) -> tuple[str, ...]:
        """Return the names of all accounts in a file, sorted.

        Parameters
        ----------
        url : str or path
            The file.

        Raises
        ------
        LedgerError
            If there is no such file, or it is not a ledger that this version can read.
        """
        with transaction(_located(os.fspath(url) if isinstance(url, os.PathLike) else url), "read") as connection:
            return _records.account_names(connection)

    @property
    def remaining(self) -> Fraction:
        """What can still be charged, in epsilon."""
        with transaction(self.url, "read") as connection:
            row = self._row(connection)
        return epsilon_of(row.allowance - row.spent)

    def statement(self) -> Statement:
        """Return the account with all its charges, as of one moment."""
        with transaction(self.url, "read") as connection:
            return statement_of(self._row(connection), _records.charge_rows(connection, self.account))

    def reserve(
        self,
        chargeable: Any,
        *,
        label: str | None = None,
        unit: Any = None,
        source: str | os.PathLike[str] | None = None,
        adjacency: str | None = None,
        detail: dict[str, Any] | None = None,
        allow_approximate: bool = False,
    ) -> Charge:
        """Charge the worst case of what is about to be released; durable when this returns.

        Parameters
        ----------
        chargeable : mechanism, cost, or tuple of those
            Their costs are added.
        label : str, optional
            What the statement calls it; the names of the mechanisms if not given.
        unit, source, adjacency : optional
            What the release is about. Each one that is given must be the account's own.
        detail : dict, optional
            Public parameters to record: JSON-ready values, exact numbers (kept as text) and things with `to_dict`.
        allow_approximate : bool
            Whether mechanisms with `exact = False` may draw from this charge.

        Raises
        ------
        BudgetExceeded
            If it does not fit in what remains.
        LedgerConflict
            If a unit, source or adjacency is not the account's.
        LedgerError
            If the ledger cannot be written.
        InvalidParameter
            If something has no pure cost, is not exact and that was not allowed, or cannot be recorded.
        """
        parts = things(chargeable)
        exact = sum((exact_cost(part) for part in parts), Fraction(0))
        needed = nano_up(exact)
        label = text(" + ".join(type(part).__name__ for part in parts) if label is None else label, "label")
        recorded = _recorded(detail)
        TRUTH("allow_approximate", allow_approximate)
        stated = {
            "unit": None if unit is None else canonical_unit(unit),
            "source": None if source is None else canonical_source(source),
            "adjacency": None if adjacency is None else ADJACENCY("adjacency", adjacency),
        }
        key = os.urandom(16).hex()
        with transaction(self.url, "write") as connection:
            row = self._row(connection)
            _compare(row, stated)
            for part in parts:
                check_claims(part, adjacency=row.adjacency, allow_approximate=allow_approximate)
            # An amount beyond every account must not overflow the column on its way to being refused.
            amount = min(needed, LARGEST + 1)
            if not _records.reserve(connection, self.account, key, amount=amount, label=label, detail=recorded):
                raise BudgetExceeded(
                    f"This release needs epsilon {decimal(needed)} but {decimal(row.allowance - row.spent)} remains in account "
                    f"{self.account!r}. Nothing was read or released."
                )
        return Charge(
            path=self.url,
            account=self.account,
            adjacency=row.adjacency,
            key=key,
            label=label,
            reserved=exact,
            allow_approximate=allow_approximate,
        )

    def _row(self, connection: _records.Connection) -> _records.Account:
        row = _records.find_account(connection, self.account)
        if row is None:
            names = ", ".join(repr(name) for name in _records.account_names(connection)) or "none"
            raise LedgerError(f"There is no account {self.account!r} in the ledger at {self.url!r}; its accounts: {names}.")
        return row


def _located(url: str) -> str:
    """Return the absolute path that a url means: the folder of the process may change later."""
    named = text(url, "url")
    scheme, mark, _ = named.partition("://")
    if mark:
        # Only the scheme is named: an address may hold a password.
        raise LedgerError(f"A ledger at {scheme}:// is not supported by this version; give the path of a file.")
    if named == ":memory:":
        raise LedgerError("A ledger must outlive the process; give the path of a file instead of ':memory:'.")
    return str(Path(named).absolute())


def _recorded(detail: dict[str, Any] | None) -> str:
    if detail is not None and not isinstance(detail, dict):
        raise InvalidParameter(f"detail must be a dict of public, JSON-ready values; got a {type(detail).__name__}.")
    try:
        return json.dumps(detail or {}, allow_nan=False, sort_keys=True, default=_plain)
    except (TypeError, ValueError):
        raise InvalidParameter(
            "detail must be a dict of public, JSON-ready values; it holds one that JSON cannot express."
        ) from None


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction | Decimal):
        return str(value)
    if hasattr(value, "to_dict") and not isinstance(value, type):
        return value.to_dict()
    raise TypeError


def _compare(row: _records.Account, stated: dict[str, str | None]) -> None:
    for name, given in stated.items():
        own = getattr(row, name)
        if given is not None and given != own:
            raise LedgerConflict(
                f"Account {row.name!r} is for {name} {own!r} but this release is for {name} {given!r}. Nothing was charged or read."
            )
