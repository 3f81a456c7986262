"""`Ledger`: an account with a budget, in a file or a database, and all that can be asked of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, final

from sordino.constraints import (
    ADJACENCY,
    COUNT,
    NOT_NEGATIVE,
    POSITIVE,
    TABLE_NAME,
    TRUTH,
    Number,
    shown,
    text,
)
from sordino.errors import BudgetExceeded, InvalidParameter, LedgerConflict, RunTaken
from sordino.ledger import schema as schema_module
from sordino.ledger.account.changes import (
    call_by_name,
    find_touched,
    give_up,
    grant_share,
    parameters_of,
    request,
)
from sordino.ledger.account.charge import Charge
from sordino.ledger.account.convert import convert_account
from sordino.ledger.account.identity import canonical_unit, known_source
from sordino.ledger.account.pages import RELEASE, Pages, names
from sordino.ledger.account.parted import (
    build_part_statement,
    close_parts,
    find_left_of_parts,
    give_parts,
    read_charged,
)
from sordino.ledger.account.preview import Preview, preview_charge
from sordino.ledger.account.price import Price
from sordino.ledger.account.records import body_of, recorded
from sordino.ledger.account.statement import (
    ChargeLine,
    Statement,
    build_statement,
    dp_events,
    json_lines,
    line_of,
)
from sordino.ledger.amounts import Budget, amount_of, things
from sordino.ledger.history import (
    FACTS,
    ChargeRow,
    Event,
    Verification,
    event_of,
    facts_of,
    json_of,
)
from sordino.ledger.left import Left, find_left_of
from sordino.ledger.parts import PartRange, find_key
from sordino.ledger.renyi import NOTHING, Sums
from sordino.ledger.store.store import carry_out
from sordino.ledger.store.urls import store_at
from sordino.record import Record

if TYPE_CHECKING:
    from sordino.statements import Owner, PublicStatement, StatementCheck


@final
class Ledger:
    """An account in a ledger; made by `Ledger.create`, `Ledger.open` or `Ledger.grant`.

    A charge is durable before `reserve` returns, and a crash at any moment leaves at least what was
    reserved. A ledger in a file may be shared by threads and processes on one machine (not over a
    network file system); one in PostgreSQL by many machines. One `Ledger` object may be used by all
    threads of a process. A charge that was under way when the connection was lost is looked up and
    completed, never made twice.

    Attributes
    ----------
    url : str
        The absolute path of the file, or the address of the database without user, password and
        options.
    account : str
        The name of the account.

    Examples
    --------
    >>> import tempfile
    >>> import sordino as sd
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = sd.Ledger.create(folder.name + "/budget.db", account="orders",
    ...                           budget=sd.Budget(epsilon=3.0), adjacency="add-remove",
    ...                           unit="customer_id", source="orders.parquet")
    >>> count = sd.LaplaceMechanism(epsilon=0.5, sensitivity=sd.COUNTING)
    >>> with ledger.reserve(count) as charge:  # charged before its noise is drawn
    ...     noisy = charge.release(count, 1234)
    >>> ledger.remaining
    Fraction(5, 2)
    >>> with ledger.reserve(count):  # what is never drawn comes back
    ...     ledger.remaining
    Fraction(2, 1)
    >>> ledger.remaining
    Fraction(5, 2)
    >>> folder.cleanup()
    """

    __slots__ = ("_pages", "_run", "_store", "account")

    def __init__(self, url: str, account: str) -> None:
        self._store = store_at(url)
        self.account = text(account, "account")
        self._pages = Pages(self._store, self.account)
        # What all of its charges are for (`for_run`): the run, and what is recorded of it.
        self._run: tuple[str, dict[str, Any]] | None = None

    def __repr__(self) -> str:
        return f"Ledger({self.url!r}, account={self.account!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # A pickled ledger opens itself anew: connections and locks stay in the process that has
        # them.
        return Ledger, (self._store.address, self.account), (None, {"_run": self._run})

    @property
    def url(self) -> str:
        """Where the ledger is; nothing secret."""
        return self._store.url

    @property
    def source(self) -> str:
        """The rows that the account is about, as the ledger writes them; see `canonical_source`."""
        return self._pages.facts.source

    @classmethod
    def create(
        cls,
        url: str | os.PathLike[str],
        *,
        account: str,
        budget: Budget,
        adjacency: str,
        unit: Any,
        source: str | os.PathLike[str],
        reading: str = "",
        place: str = "",
        parts: str = "",
    ) -> Ledger:
        """Make a new account, and the file or the tables if there are none.

        Parameters
        ----------
        url : str or path
            The path of a file, or "postgresql://USER@HOST/DATABASE" (the tables are made in its
            schema `sordino`).
        account : str
            Its name.
        budget : Budget
            What it may spend over its whole life.
        adjacency : {"add-remove", "replace-one"}
            Which data sets are neighbors.
        unit : str or PrivacyUnit
            Whom it protects: the name of a column, or a unit.
        source : str or path
            The rows it is about; see `canonical_source`. A PostgreSQL server is asked which table
            it is. Nothing is opened here: that it is there and has the column of the unit shows
            with the first session (the command `sordino ledger create` looks).
        reading : str
            How the column of the unit is read, as `Session.unit_reading` says it. Left out, the
            first charge of a session says it. Either way no later one may read it otherwise.
        place : str
            Where a source that is called by a name lies now. The history keeps it, so that
            `sordino declare` and `sordino.open` can tell a second account for it; no charge is
            compared with it.
        parts : {"", "hour", "day", "month", "year"}
            The cut of the one component of the unit whose values are parts of the account: what is
            released of one part counts in that part alone, and the budget is that of each part. It
            takes the adjacency "add-remove" and a unit of several columns, such as
            ``columns "customer_id", day("ordered_at")``. Left out, the account has no parts.

        Raises
        ------
        LedgerConflict
            If the account exists already.
        LedgerError
            If the ledger cannot be written, is on a network file system, or belongs to another
            application.
        InvalidParameter
            If a parameter does not satisfy its constraint.
        DataSourceError
            If the source is a table of a server that cannot be reached.
        """
        made = cls(_ledger_url(url), account)
        if not isinstance(budget, Budget):
            raise InvalidParameter(
                f"budget must be a Budget such as Budget(epsilon=3.0); got {shown(budget)}."
            )
        facts = {
            **facts_of(budget),
            "adjacency": ADJACENCY("adjacency", adjacency),
            "unit": canonical_unit(unit),
            "source": str(known_source(source)),
        }
        key = find_key(facts["unit"], facts["adjacency"], parts) if parts else ""
        said = {"reading": text(reading, "reading")} if reading else {}
        said |= {"place": text(place, "place")} if place else {}
        said |= {"parts": key} if key else {}
        limits = budget.limits
        first = Sums(limits.main, max(0, limits.pure), limits.failing, int(limits.pure < 0))
        # Only now, so that a parameter that is refused leaves no file behind.
        made._store.build()
        # The history of an account that keeps no deltas says nothing of an order.
        known = facts if facts["alpha"] else {fact: facts[fact] for fact in facts if fact in FACTS}
        parameters = {
            "account": made.account,
            **facts,
            **parameters_of(first),
            "reading": reading,
            "parts": key,
            "body": body_of(name=made.account, parent=None, **known, **said),
        }
        # If the first try was made and its answer lost, the event is found, and this is no
        # conflict.
        if not carry_out(made._store, schema_module.CREATE, parameters, account=made.account):
            raise LedgerConflict(
                f"Account {made.account!r} exists already in the ledger at {made.url!r}; open it "
                "instead."
            )
        return made

    @classmethod
    def open(cls, url: str | os.PathLike[str], *, account: str) -> Ledger:
        """Open an account that exists.

        Parameters
        ----------
        url : str or path
            The file or database.
        account : str
            Its name.

        Raises
        ------
        LedgerError
            If there is no such ledger or account, or it is not one that this version can read.
        """
        opened = cls(_ledger_url(url), account)
        # Asked at once, so that a wrong name is reported here and not at the first charge.
        opened._pages.account()
        return opened

    @classmethod
    def accounts(cls, url: str | os.PathLike[str]) -> tuple[str, ...]:
        """Return the names of all accounts of a ledger, sorted.

        Parameters
        ----------
        url : str or path
            The file or database.

        Raises
        ------
        LedgerError
            If there is no such ledger, or it is not one that this version can read.
        """
        with store_at(_ledger_url(url)).reading() as rows:
            return names(rows)

    @property
    def remaining(self) -> Fraction:
        """What can still be charged, in epsilon or, on the zCDP meter, in rho.

        On the Rényi meter it is the divergence at the order of the account, and 0 where only the
        pure sum has room; `Statement.renyi` has both. Of an account with parts it is what a release
        of the whole table may still cost; `find_left` tells of a part.
        """
        # Asked anew each time: other processes charge the same account.
        row = self._pages.account()
        return amount_of(max(0, row.allowance - row.spent))

    def find_price(self, *, parts: PartRange | Sequence[PartRange] | None = None) -> Price:
        """Return how the account counts costs in this moment; sessions choose their noise by it.

        Parameters
        ----------
        parts : PartRange or sequence of those, optional
            Of an account with parts: those that a release is about. The one that has least left
            tells the sums.
        """
        known = self._pages.facts
        touched = find_touched(known, parts)
        # Where no delta is kept no sum is looked at, so nothing has to be asked.
        row = self._pages.find_fullest(touched, NOTHING)[0] if known.meter == "renyi" else known
        return Price(known.meter_at_order, row.limits, row.sums)

    def preview(
        self,
        chargeable: Any,
        *,
        label: str | None = None,
        unit: Any = None,
        source: str | os.PathLike[str] | None = None,
        adjacency: str | None = None,
        reading: str | None = None,
        detail: dict[str, Any] | None = None,
        allow_approximate: bool = False,
        parts: PartRange | Sequence[PartRange] | None = None,
    ) -> Preview:
        """Return what would be left if this were reserved.

        Nothing is charged, and nothing is recorded.

        Parameters are those of `reserve`, which refuses the same in the same words.

        Raises
        ------
        BudgetExceeded, LedgerConflict, LedgerError, InvalidParameter
            As `reserve`.
        """
        try:
            return preview_charge(
                self._pages,
                things(chargeable),
                find_touched(self._pages.facts, parts),
                label=label,
                unit=unit,
                source=source,
                adjacency=adjacency,
                reading=reading,
                detail=detail,
                allow_approximate=TRUTH("allow_approximate", allow_approximate),
            )
        except BudgetExceeded:
            # Another start of the run may have paid what there was.
            self._refuse_taken(None if self._run is None else self._run[0])
            raise

    def statement(self, *, charges: bool = True) -> Statement:
        """Return the account as of one moment.

        Parameters
        ----------
        charges : bool
            Whether with all its charges; without them it takes no longer after a million charges
            than after one.
        """
        with self._pages.reading() as (account, rows):
            # Account, charges and shares are read at one moment, so that their sums agree.
            listed = rows(schema_module.CHARGES, account=self.account) if charges else ()
            shares = rows(schema_module.CHILDREN, account=self.account)
            found = [ChargeRow(*charge) for charge in listed]
            # A statement is recorded as a charge of nothing: no more of these could be counted.
            last = next((charge for charge in reversed(found) if any(charge.asked)), None)
            parts = build_part_statement(account, rows, NOTHING if last is None else last.asked)
        return build_statement(account, shares, found, last, parts)

    def charge(self, key: str) -> ChargeLine:
        """Return one charge by its id, as the ledger has it.

        It is for looking only: what was reserved elsewhere cannot be drawn from here.

        Parameters
        ----------
        key : str
            `Charge.id`.

        Raises
        ------
        LedgerError
            If the account has no such charge.
        """
        return line_of(self._pages.charge(key), self._pages.facts)

    def find_left(
        self, key: str | None = None, *, parts: PartRange | Sequence[PartRange] | None = None
    ) -> Left:
        """Return what the account has left, in percent and in releases like one of its charges.

        Parameters
        ----------
        key : str, optional
            `Charge.id`; without one no release is counted (`Left.more` is None).
        parts : PartRange or sequence of those, optional
            On an account with parts: what is left of these, which is what the one has that has
            least. Left out, it is what is left of those of the charge, or of the whole table;
            `Statement.parts` tells of the fullest part and of those to come.

        Raises
        ------
        LedgerError
            If the account has no such charge.
        InvalidParameter
            If the account has no parts and some are given.
        """
        row = None if key is None else self._pages.charge(key)
        asked = NOTHING if row is None else row.asked
        if row is not None and parts is None:
            parts = read_charged(json_of(row.body).get("parts")) or None
        touched = find_touched(self._pages.facts, parts)
        if touched.ranges or touched.whole:
            return find_left_of_parts(self._pages, touched, asked)
        return find_left_of(self._pages.account(), asked)

    def read_release(self, key: str, *, part: int = 1) -> Record:
        """Return a release that the ledger has kept, as it can be printed again.

        `Session.keep` and the command with ``--keep`` keep releases; ``sordino ledger release``
        prints one.

        Parameters
        ----------
        key : str
            `Charge.id`; a release has it as `receipt.id`.
        part : int
            Which release of a batch that was kept under this id, from 1.

        Raises
        ------
        LedgerError
            If the account has no such charge, its release was not kept, or what is kept was
            changed.
        InvalidParameter
            If fewer releases are kept than `part` says.
        """
        return self._pages.record(key, COUNT("release.part", part) - 1)

    def read_releases(self) -> dict[str, Record]:
        """Return of each charge that has kept one its first release, by `Charge.id`.

        Raises
        ------
        LedgerError
            If the ledger cannot be read, or what is kept was changed.
        """
        return self._pages.records()

    def publish(
        self, key: str | None = None, *, part: int | None = None, owner: Owner | None = None
    ) -> PublicStatement:
        """Return what kept releases or this account promise, and put the statement in the history.

        It is written for people who have neither the data nor the ledger: guarantee, unit,
        neighbors, mechanisms with the digests of their proofs, how costs add up, and where the
        history has it, in the fields of the public registry of deployments. It costs nothing, and
        made again it is the same, to the last letter. Everything in it is public, or was released.

        Parameters
        ----------
        key : str, optional
            `Charge.id` of a release that the ledger has kept; without one it is the statement of
            the account, as it is after its last event.
        part : int, optional
            Which release of a batch or a study that was kept under this id, from 1; without it the
            statement is about all of them together.
        owner : Owner, optional
            What nobody but the owner of the data can say. What is left out is marked as missing.

        Raises
        ------
        LedgerError
            If there is no such charge, its release was not kept, or the ledger cannot be written.
        LedgerConflict
            If another account has taken this one over.
        InvalidParameter
            If fewer releases are kept than `part` says, or the owner says too much.
        """
        # A release need not load it.
        from sordino.ledger.account.publishing import publish  # noqa: PLC0415
        from sordino.statements import Owner  # noqa: PLC0415 - as above

        if owner is not None and not isinstance(owner, Owner):
            raise InvalidParameter(f"publish.owner must be an Owner; got a {type(owner).__name__}.")
        named = None if key is None else text(key, "key")
        one = None if part is None else COUNT("publish.part", part)
        return publish(self._store, self._pages, named, one, Owner() if owner is None else owner)

    def note(self, label: str, detail: dict[str, Any]) -> None:
        """Put something into the history of the account, as a charge of nothing.

        Parameters
        ----------
        label : str
            What it is called.
        detail : dict
            Public, as JSON has it.

        Raises
        ------
        LedgerConflict
            If another account has taken this one over, or was changed in this moment.
        LedgerError
            If the ledger cannot be written.
        """
        from sordino.ledger.account.publishing import note  # noqa: PLC0415 - as above

        note(self._store, self._pages, text(label, "label"), recorded(detail))

    def check_statement(self, statement: str | PublicStatement) -> StatementCheck:
        """Compare a statement with the history of this account, field by field.

        The history is replayed (`verify`), must have this very statement, and what sordino says
        there is made anew from the rest of it. The digests of the proofs are compared with those of
        this version.

        Parameters
        ----------
        statement : str or PublicStatement
            The text of a file, YAML or JSON, or what was made of it.

        Raises
        ------
        InvalidParameter
            If it is no statement.
        UnsupportedBackend
            If it is YAML, and PyYAML is not installed.
        """
        from sordino.ledger.account.publishing import check_statement  # noqa: PLC0415 - as above
        from sordino.statements import PublicStatement  # noqa: PLC0415 - as above

        read = (
            statement
            if isinstance(statement, PublicStatement)
            else PublicStatement.from_text(statement)
        )
        return check_statement(self._pages, read)

    def history(self, *, last: int | None = None) -> Iterator[Event]:
        """Return the events of the account, oldest first, one after the other.

        Parameters
        ----------
        last : int, optional
            Only that many of the newest events.
        """
        newest = None if last is None else COUNT("history.last", last)
        return map(event_of, self._pages.events(newest))

    def export(self) -> Iterator[str]:
        """Return the account and its history as lines of JSON, with all that the hashes cover.

        Amounts are in billionths. Each `head` is the SHA-256 of the previous head, number, kind,
        charge, amount, spent, allowance and body, with a space between two of them, so that the
        lines can be checked without sordino. Of a release that is kept they have the hash, and not
        the release: whoever gets the export does not get the results.
        """
        return json_lines(self._pages.account(), self._pages.events(None))

    def dp_events(self) -> list[Any]:
        """Return what the account was charged with as events of dp_accounting.

        There is one for each charge that cost something.

        Raises
        ------
        UnsupportedBackend
            If the extra `sordino[dp-accounting]` is not installed.
        """
        return dp_events(self.statement())

    def verify(self, *, head: str | None = None) -> Verification:
        """Replay the whole history.

        Hashes, sums, limits, charges and shares must all agree with each other.

        What is reserved and drawn must be what the mechanisms and costs in the history are
        described as. That they were the ones that ran is up to whoever charged.

        Parameters
        ----------
        head : str, optional
            A head that was noted before (`Statement.head`, `Event.head`): shows that nothing up to
            it was rewritten since.
        """
        return self._pages.verify(None if head is None else text(head, "head"))

    def grant(
        self,
        child: str,
        amount: Number,
        *,
        pure: Number | None = None,
        failures: Number = 0,
        once: bool = False,
        made_for: Mapping[str, str] | None = None,
    ) -> Ledger:
        """Give a share of what remains to a child account, which is made if there is none.

        The share counts as spent here at once, so parent and children together never pass the
        parent's limit. The child is for the same adjacency, unit, source and meter.

        Parameters
        ----------
        child : str
            Name of the child account.
        amount : number
            In epsilon or, on the zCDP meter, in rho; rounded down to a billionth. On the Rényi
            meter it is a divergence at the order of the account.
        pure : number, optional
            On the Rényi meter the share of the pure sum. The child then keeps to both: its
            divergences *and* its epsilons. Without one it may take on costs without a pure epsilon,
            and so counts as one here: from then on only the divergences of this account decide.
        failures : number
            Of an account that keeps a part of delta for failures: the share of it for releases of
            the child that may fail.
        once : bool
            Whether there must be no such child yet: of several who grant it at once one does.
        made_for : mapping of str to str, optional
            What is recorded of a child that is made, for good (`Ledger.made_for`); public.

        Returns
        -------
        Ledger
            The child.

        Raises
        ------
        BudgetExceeded
            If that much does not remain.
        LedgerConflict
            If there is an account of that name that is not a child of this one, or one at all and
            the share may be given only once.
        LedgerError
            If the ledger cannot be written. Where a connection was lost, look into the history
            before granting again.
        InvalidParameter
            If the amount is not a number in (0, inf) or less than a billionth; if `pure` is given
            on another meter, or `failures` where no delta is kept.
        """
        # Made first, which checks the name; the child itself comes into being with its share.
        made = Ledger(self._store.address, child)
        grant_share(
            self._store,
            self._pages,
            made.account,
            POSITIVE("grant.amount", amount),
            pure=None if pure is None else POSITIVE("grant.pure", pure),
            failures=NOT_NEGATIVE("grant.failures", failures),
            once=TRUTH("grant.once", once),
            made_for=None if made_for is None else dict(made_for),
        )
        return made

    @property
    def made_for(self) -> dict[str, str]:
        """What was recorded of this account when it was made as a share (`grant`); public."""
        return self._pages.made_for()

    def convert(self, into: str, budget: Budget) -> Ledger:
        """Close this pure or zCDP account for good, and make one with a delta that goes on for it.

        The new account is about the same people and rows. It begins with all that was spent here,
        open reservations and shares in full: what they give back later comes back here alone.
        Choose the budget without looking at what was released; when to convert is free.

        Parameters
        ----------
        into : str
            Name of the new account.
        budget : Budget
            With a delta. Of a pure account the epsilon is at least the old one; of a zCDP account
            epsilon and delta are the old ones.

        Returns
        -------
        Ledger
            The new account.

        Raises
        ------
        LedgerConflict
            If there is an account of that name, or this one is a share, keeps deltas, was converted
            before, or was charged in this moment.
        BudgetExceeded
            If what was spent does not fit into the new budget.
        InvalidParameter
            If the budget is none that this account can go on with.
        LedgerError
            If the ledger cannot be written.
        """
        made = Ledger(self._store.address, into)
        if not isinstance(budget, Budget):
            raise InvalidParameter(f"budget must be a Budget; got {shown(budget)}.")
        convert_account(self._store, self._pages, made.account, budget)
        return made

    def call_by_name(
        self,
        name: str,
        *,
        place: str | os.PathLike[str],
        others: Sequence[str] = (),
        second_budget: bool = False,
    ) -> Ledger:
        """Return this account as one about a name, where it was about the place of its table.

        Or as one about more private tables, where it was about that name.

        From then on its charges say the name. The history has both, and the charges before it hold
        as they were made.

        Parameters
        ----------
        name : str
            What the owner calls the table; no account of this ledger is about that name.
        place : str or path
            Where that table lies: it must be what the account is about.
        others : sequence of str
            The names of private tables that it looks up.
        second_budget : bool
            Whether another account that is about one of these is meant beside this one. Both may
            then be spent on the same people.

        Raises
        ------
        LedgerConflict
            If it is about something else, or about a name already, is a share or has shares, was
            converted, or another account is about that name.
        LedgerError
            If the ledger cannot be written.
        """
        named: str = TABLE_NAME("call_by_name.name", name)
        known = [TABLE_NAME("call_by_name.others", one) for one in others]
        call_by_name(
            self._store,
            self._pages,
            named,
            str(known_source(place)),
            known,
            second=TRUTH("call_by_name.second_budget", second_budget),
        )
        return Ledger(self._store.address, self.account)

    def close_parts(self, until: int) -> dict[str, str]:
        """Close the parts up to one, that included, of all accounts of this ledger that have parts.

        What is closed takes nothing more, for good: no charge of these parts, and charges of the
        whole table leave them out (`Charge.closed`). It is for the end of late rows, and for a
        backup that was put back, which has forgotten the charges made since. If since the copy no
        release has read the whole table, or a part after `until`, and no share was given, all that
        was forgotten lies in parts that are closed, and what is released of later ones is about
        units that nothing was released of. Otherwise charge what is missing first. Accounts
        without parts are left as they are: charge them as before.

        Shares are closed before what gave them. If this was interrupted, do it again: what is
        closed stays so. In accounts of another cut all parts are closed that have any of the time
        up to the end of `until`.

        Parameters
        ----------
        until : int
            The last part that is closed, as in `PartRange`.

        Returns
        -------
        dict of str to str
            The last closed part of each account that has parts.

        Raises
        ------
        InvalidParameter
            If this account has no parts, or there is no such part.
        LedgerError
            If the ledger cannot be written, or does not belong to the user of this connection.
        """
        return close_parts(self._store, self._pages, until)

    def add_parts(self, parts: str) -> None:
        """Let this account have parts from now on, which had none.

        What was charged before counts in each part, as of the whole table: what is spent of the
        account now every part has spent, future ones too. Shares of it are given parts before it,
        each account in a transaction of its own; if this was interrupted, do it again. Whoever has
        the account open opens it again.

        Parameters
        ----------
        parts : {"hour", "day", "month", "year"}
            As for `create`: the cut of one of the columns that the account protects by.

        Raises
        ------
        InvalidParameter
            If an account of this unit or adjacency can have no such parts.
        LedgerConflict
            If it has parts, was converted, is a share, or was changed by others meanwhile.
        LedgerError
            If the ledger cannot be written, or does not belong to the user of this connection.

        Examples
        --------
        >>> import sordino as sd
        >>> import tempfile
        >>> import sordino as sd
        >>> folder = tempfile.TemporaryDirectory()
        >>> file = folder.name + "/budget.db"
        >>> ledger = sd.Ledger.create(file, account="orders", source="name:orders",
        ...                           unit=sd.PrivacyUnit(["customer", "day(ordered_at)"]),
        ...                           budget=sd.Budget(epsilon=1), adjacency="add-remove")
        >>> _ = ledger.reserve(sd.cost.Pure(epsilon=0.25))
        >>> ledger.add_parts("day")
        >>> parts = sd.Ledger.open(file, account="orders").statement().parts
        >>> parts.cut, float(parts.base)
        ('day', 0.25)
        >>> folder.cleanup()
        """
        give_parts(self._store, self._pages, parts)

    def void(self, key: str, *, reason: str) -> ChargeLine:
        """Give up a charge that was never settled.

        What was never drawn from it returns to the account.

        This is for reservations whose process has died. What was drawn stays charged, and a process
        that still holds the charge can draw no more. That it was given up, when and why is kept in
        the history. Whether a charge was left open must not have depended on the rows: do not void
        what was left by an error of the data source (docs/explanation/reserve-and-settle.md).

        Parameters
        ----------
        key : str
            `Charge.id`.
        reason : str
            Kept in the history.

        Raises
        ------
        LedgerConflict
            If the charge is closed already, or was used in this moment.
        LedgerError
            If the account has no such charge, or the ledger cannot be written.
        """
        give_up(self._store, self._pages, key, reason=text(reason, "reason"))
        return self.charge(key)

    def backup(self, path: str | os.PathLike[str]) -> dict[str, str]:
        """Copy the whole ledger, all accounts, to a new file, while others go on charging it.

        The copy is a ledger. It holds every charge that was made before, and knows nothing of those
        that are made later: before it takes the place of this one, reserve in it what was released
        since. Charges wait while the file is read, for about a second for each hundred thousand
        charges that it has.

        Parameters
        ----------
        path : str or path
            A file that does not exist yet. A copy that is not whole never gets this name.

        Returns
        -------
        dict of str to str
            The head of every account in the copy (`Statement.head`), for `Ledger.verify`.

        Raises
        ------
        InvalidParameter
            If there is a file already, or the ledger is in PostgreSQL, whose tools make copies
            (``pg_dump``).
        LedgerError
            If the file cannot be written, or the ledger is damaged.
        """
        return self._store.backup(text(_ledger_url(path), "path"))

    def permit(self, role: str) -> None:
        """Let a role of the database charge any account of the ledger, but not grant, void or edit.

        It may read all of the ledger, the releases that are kept there among it.

        Parameters
        ----------
        role : str
            An existing role of the PostgreSQL server.

        Raises
        ------
        InvalidParameter
            If the ledger is a file, which has no roles.
        LedgerError
            If there is no such role, or the ledger does not belong to the user of this connection.
        """
        self._store.permit(text(role, "role"))

    def reserve(
        self,
        chargeable: Any,
        *,
        label: str | None = None,
        unit: Any = None,
        source: str | os.PathLike[str] | None = None,
        adjacency: str | None = None,
        reading: str | None = None,
        detail: dict[str, Any] | None = None,
        allow_approximate: bool = False,
        run: str | None = None,
        parts: PartRange | Sequence[PartRange] | None = None,
    ) -> Charge:
        """Charge the worst case of what is about to be released; durable when this returns.

        Parameters
        ----------
        chargeable : mechanism, cost, or tuple of those
            Their costs are added on the meter of the account.
        label : str, optional
            What the statement calls it; the names of the mechanisms if not given.
        unit, source, adjacency : optional
            What the release is about. Each one that is given must be the account's own.
        reading : str, optional
            How the release reads the column of the unit. The first one that an account is charged
            with stays its own and that of its shares.
        detail : dict, optional
            Public parameters to record: JSON-ready values, exact numbers (kept as text) and things
            with `to_dict`.
        allow_approximate : bool
            Whether mechanisms with `exact = False` may draw from this charge.
        run : str, optional
            Names what the charge is for, such as the job of one night. The account is charged at
            most once under one name, by whichever process is first: `find_run` finds that charge.
            One that was given up (`void`) before anything was drawn from it does not count.
        parts : PartRange or sequence of those, optional
            On an account with parts: which of them the release reads, and nothing else. Several
            ranges are one charge. Left out, it is the whole table, which is charged to all parts
            above those that are closed (`Charge.closed`), future ones too.

        Raises
        ------
        BudgetExceeded
            If it does not fit in what remains.
        RunTaken
            If the account was charged for this run before. Nothing is charged now.
        LedgerConflict
            If a unit, source, adjacency or reading is not the account's, or a part is closed.
        LedgerError
            If the ledger cannot be written.
        InvalidParameter
            If something has no cost on the meter, is not exact and that was not allowed, or cannot
            be recorded; if the account has no parts, or a charge of parts costs nothing.
        """
        account = self._pages.facts
        touched = find_touched(account, parts)
        if self._run is not None:
            if run not in {None, self._run[0]}:
                raise InvalidParameter(
                    f"reserve.run must be left out of an account for run {self._run[0]!r}; got "
                    f"{shown(run)}. Nothing was charged."
                )
            run, about = self._run
            detail = {**(detail or {}), **about}
        asked = partial(
            request,
            parts=things(chargeable),
            label=label,
            unit=unit,
            source=source,
            adjacency=adjacency,
            reading=reading,
            detail=detail,
            allow_approximate=TRUTH("allow_approximate", allow_approximate),
            touched=touched,
            charge=None if run is None else self._pages.find_run(run)[0],
        )
        label, worst, key, parameters = asked(account)
        operation = schema_module.of_account(schema_module.RESERVE, account.parts)
        try:
            # Somebody may have given something back between the refusal and this look: then it is
            # tried again.
            while not carry_out(self._store, operation, parameters, account=self.account):
                self._refuse_taken(run)
                self._pages.check_reading(reading, then=NOTHING_READ)
                needed = worst.rounded_up()
                self._pages.refuse(needed, touched, what=RELEASE, then=NOTHING_READ)
                # Or has closed parts, which the charge must know.
                if account.parts:
                    account = self._pages.facts
                    label, worst, key, parameters = asked(account)
        except LedgerConflict:
            # No two charges have one id, and that of a run follows from its name.
            self._refuse_taken(run)
            # Somebody else has said it in this moment.
            self._pages.check_reading(reading, then=NOTHING_READ)
            raise
        # From here on the charge is in the ledger, and stays there whatever becomes of this object.
        return Charge(
            store=self._store,
            account=self.account,
            meter=account.meter_at_order,
            adjacency=account.adjacency,
            charge=parameters["charge"],
            key=key,
            label=label,
            reserved=worst,
            # The time that the ledger has, and no other one.
            time=json_of(parameters["body"])["time"],
            allow_approximate=allow_approximate,
            parts=touched.ranges,
            closed=account.closed if account.parts else None,
        )

    def for_run(self, run: str, detail: dict[str, Any] | None = None) -> Ledger:
        """Return this account for one run: it is charged once for it, by whoever is first.

        A session with this account makes one charge. `find_run` finds it, and `read_release` what
        `Session.keep` has kept of it.

        Parameters
        ----------
        run : str
            As for `reserve`, which takes it from here.
        detail : dict, optional
            What is recorded with the charge beside its own detail; public.
        """
        made = Ledger(self._store.address, self.account)
        made._run = text(run, "run"), detail or {}
        return made

    def find_run(self, run: str) -> ChargeLine | None:
        """Return the charge that was made for a run; None if there is none.

        One that was given up (`void`) before anything was drawn from it is none: the run may be
        charged again.

        Parameters
        ----------
        run : str
            As it was named to `reserve`.

        Raises
        ------
        LedgerError
            If the ledger cannot be read.
        """
        row = self._pages.find_run(run)[1]
        return None if row is None else line_of(row, self._pages.facts)

    def _refuse_taken(self, run: str | None) -> None:
        """Raise if the account was charged for a run before."""
        if run is not None and self.find_run(run) is not None:
            raise RunTaken(
                f"Account {self.account!r} was charged for run {run!r} before, and no run is "
                f"charged twice. {NOTHING_READ}"
            )


NOTHING_READ = "Nothing was read or released."


def _ledger_url(url: str | os.PathLike[str]) -> str:
    return os.fspath(url) if isinstance(url, os.PathLike) else url
