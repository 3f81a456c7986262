"""`Study`: releases that are written down in a file, and its runs, each of which is paid once."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, cast, final

from sordino.constraints import NAME
from sordino.cost.odds import say_odds_of
from sordino.entropy import SYSTEM
from sordino.errors import BudgetExceeded, InvalidParameter, RunLost, RunTaken
from sordino.ledger import ChargeLine, Ledger
from sordino.record import Record
from sordino.record_text import make_document
from sordino.scrubbing import scrubbed
from sordino.session.executor import ReleaseExecutor, RunKey, add_costs
from sordino.session.part import find_charged_parts, select_part
from sordino.session.request import Progress
from sordino.sources import open_source
from sordino.statements import Owner
from sordino.statements.document import check_room
from sordino.study.declaration import (
    DeclaredTable,
    find_declaration,
    find_table,
    open_declaration,
    read_part,
)
from sordino.study.document import Document, digest_tree
from sordino.study.folder import RunFolder
from sordino.study.kinds import join_path
from sordino.study.planning import (
    PlannedRelease,
    ReadyRelease,
    Starter,
    StudyPlan,
    list_reached,
    recall_reached,
)
from sordino.study.releases import read_releases
from sordino.study.results import (
    Papers,
    build_results,
    make_study_record,
    refuse_changed,
    write_folder,
)
from sordino.study.tables import (
    AccountTable,
    BudgetTable,
    StudyTable,
    guard,
    list_names,
    locate_ledger,
    read_declared,
    read_source,
    read_unit,
)
from sordino.unit_columns import narrow_odds

StudyProgress = Callable[[str, float], object]
"""Called with the name of the release that is made, and how much of the run is done, in percent."""

_TABLES = ("source", "unit", "account", "budget", "owner", "release")


@final
@dataclass(frozen=True, kw_only=True)
class StudyRun:
    """What a run of a study has made.

    Attributes
    ----------
    run : str
        Its id.
    charge : str
        The id of its one charge.
    folder : Path
        Where all of it is.
    paid : bool
        Whether it was paid now; a second start pays nothing.
    kept : bool
        Whether the ledger has all of its releases. If not, the folder is the only copy.
    releases : tuple of dict
        The releases, as `results.json` has them.
    """

    run: str
    charge: str
    folder: Path
    paid: bool
    kept: bool
    releases: tuple[dict[str, Any], ...]


@final
class Study:
    r"""Many releases about one table, written down in a file: `Study.load` reads it.

    What is wrong with the file is said when it is loaded, with the line. A run charges all of its
    releases in one step, or none, and reads the table only then. It has an id, and is paid once,
    however often it is started: `docs/how-to/run-a-study.md`.

    Attributes
    ----------
    name : str
        Of the study.
    title : str or None
        For readers.
    unit : PrivacyUnit
        Whom it protects.
    budget : BudgetTable
        What one run may spend.
    releases : tuple of StudyRelease
        In the order of the file.
    digest : str
        A hash of what the file says.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import sordino as sd
    >>> folder = tempfile.TemporaryDirectory()
    >>> here = Path(folder.name)
    >>> lines = ["customer,product"] + [f"c{i},{('tea', 'rice')[i % 3 > 1]}" for i in range(900)]
    >>> _ = (here / "orders.csv").write_text("\n".join(lines), encoding="utf-8")
    >>> _ = (here / "study.toml").write_text('''
    ... name = "orders"
    ... [source]
    ... path = "orders.csv"
    ... [unit]
    ... column = "customer"
    ... [account]
    ... ledger = "budget.db"
    ... name = "orders"
    ... [budget]
    ... epsilon = 1
    ... [[release]]
    ... kind = "count_distinct_units"
    ... name = "customers"
    ... share = 0.25
    ... [[release]]
    ... kind = "top_k"
    ... name = "best_seller"
    ... item = "product"
    ... k = 1
    ... domain = ["rice", "tea"]
    ... share = 0.75
    ... ''', encoding="utf-8")
    >>> account = {"account": "orders", "budget": sd.Budget(epsilon=3), "adjacency": "add-remove"}
    >>> ledger = sd.Ledger.create(here / "budget.db", unit="customer",
    ...                           source=here / "orders.csv", **account)
    >>> study = sd.Study.load(here / "study.toml")
    >>> [(one.name, float(one.epsilon)) for one in study.plan().releases]
    [('customers', 0.25), ('best_seller', 0.75)]
    >>> run = study.run(run_id="monday", output=here / "monday")
    >>> sorted(path.name for path in run.folder.iterdir() if path.suffix == ".csv")
    ['best_seller.csv', 'customers.csv']
    >>> study.run(run_id="monday", output=here / "again").paid, ledger.remaining
    (False, Fraction(2, 1))
    >>> folder.cleanup()
    """

    def __init__(self, document: Document, day: str | None = None, part: str | None = None) -> None:
        known = (*list_names(StudyTable), *_TABLES)
        document.check_keys(document.tree, (), known, "A study")
        folder = str(Path(document.path).parent)
        top = {
            name: document.tree[name] for name in list_names(StudyTable) if name in document.tree
        }
        if "name" not in top:
            document.refuse((), "study.name must be given; got none.")
        # Each key by itself first, so that what is wrong with it has its own line.
        for name, value in top.items():
            guard(
                document,
                (name,),
                lambda said={"name": top["name"], name: value}: StudyTable(**said),
            )
        head = StudyTable(**top)
        self.name, self.title, self.digest = head.name, head.title, document.digest
        self._docs = head.docs
        self._declared = _find_declared_table(document, head, folder, day)
        self.budget: BudgetTable = read_declared(document, "budget", BudgetTable)
        if self._declared is None:
            self.unit = read_unit(document)
            account: AccountTable = read_declared(document, "account", AccountTable)
            self._source = read_source(document, folder)
            url = document.expand(account.ledger, ("account", "ledger"))
            self._ledger, self._account = locate_ledger(folder, url), account.name
        else:
            table = self._declared
            self.unit, self._source = table.unit, table.source
            self._ledger, self._account = table.ledger, table.account
            # What it says is a part of what the study says, and so is the day.
            self.digest = table.digest_with(document, day)
        self._part = part
        if part is not None:
            # A run of another part is another run.
            self.digest = digest_tree({"study": self.digest, "part": part})
        self._owner: Owner = guard(
            document, ("owner",), lambda: Owner(document.tree.get("owner", {}))
        )
        self.releases = read_releases(document, self.budget, folder)
        said = [{"name": one.name, **one.said} for one in self.releases]
        guard(document, (), lambda: check_room(self._owner, said))
        self._document = document

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, date: str | None = None, part: str | None = None
    ) -> Study:
        """Read the file of a study, and check all that can be seen from it alone.

        Parameters
        ----------
        path : str or path
            A file in TOML of at most 2^19 characters. Files that it names are named from its
            folder.
        date : str, optional
            Where the study is about a declared table with {date} in its path: the day,
            "2026-11-27", "today" or "today-1".
        part : str, optional
            Of an account with parts: which rows are read, and what is charged, as for
            `sordino.open`. Runs of other parts are other runs.

        Raises
        ------
        InvalidParameter
            If it cannot be read, or anything in it is wrong: an unknown key, a parameter that does
            not satisfy its rule, a variable that the environment lacks, releases that spend more
            than the budget.
        LedgerError
            If the address of the ledger is none.
        """
        return cls(Document(path), date, read_part(part, date, "Study.part"))

    def __repr__(self) -> str:
        return f"Study({self.name!r}, releases={len(self.releases)})"

    def plan(
        self, *, run_id: str | None = None, progress: StudyProgress | None = None
    ) -> StudyPlan:
        """Return what a run would spend and give.

        Account and schema are looked at, and nothing is read.

        Parameters
        ----------
        run_id : str, optional
            As for `run`.
        progress : callable, optional
            Called with the name of the release that is planned and how much of the plan is done, in
            percent.

        Raises
        ------
        BudgetExceeded
            If a goal takes more than the others leave. Where there is none, the plan says so
            (`refused`).
        RunTaken, InvalidParameter, DataSourceError, LedgerError
            As `run` would, before it charges.
        """
        run, ledger = self._name_run(run_id), self._open_account()
        line = self._find_run(ledger, run)
        starter = self._open_starter(ledger)
        # What was found for a run that was paid is what it had.
        known = {} if line is None else recall_reached(line, self.releases)
        with starter.executor.open_batch() as executor:
            ready = starter.start(self.releases, executor, known)
            return self._plan(run, ledger, starter, ready, line, tell=progress or _tell_nobody)

    @scrubbed
    def run(
        self,
        *,
        output: str | os.PathLike[str] | None = None,
        run_id: str | None = None,
        progress: StudyProgress | None = None,
        show: Callable[[StudyPlan], object] | None = None,
        expect: bool = False,
    ) -> StudyRun:
        """Charge all releases in one step, make them, keep them in the ledger, and write a folder.

        A run that was paid before is not paid again: its folder is written from what the ledger has
        kept. If the folder is there, its releases and its statement are compared with that.

        Parameters
        ----------
        output : str or path, optional
            A folder that is not there yet; NAME-RUN in the folder of the process unless said.
        run_id : str, optional
            Names the run: 1 to 100 letters, digits, '_', '-' and '.'. Unless said it is the day
            (UTC) and the first letters of the digest: one run of a study a day.
        progress : callable, optional
            Called with the name of a release and how much of the run is done, in percent.
        show : callable, optional
            Called with the plan, right before the charge. A run that was paid before has none.
        expect : bool
            Whether that plan also says what to expect of each release whose widths depend on the
            data, as `plan` does: it takes a moment for each.

        Raises
        ------
        BudgetExceeded
            If all releases together do not fit; nothing was read.
        RunLost
            If the run was paid before, and the ledger does not have all of its releases, or not
            yet.
        RunTaken
            If the run was paid before for a study of this name that said something else.
        InvalidParameter, DataSourceError, LedgerError
            If the study, its table or its account cannot be used, the folder is there, or it is
            that of this run and a file of it was changed.
        """
        run, ledger = self._name_run(run_id), self._open_account()
        folder = RunFolder(Path(f"{self.name}-{run}" if output is None else output))
        line = self._find_run(ledger, run)
        # The second start of a run that is finished.
        there = {} if line is None else folder.find_results()
        if line is not None and there.get("charge") == line.id:
            # Where the ledger has kept less, the folder is the only copy.
            if line.kept == len(self.releases):
                records = self._recall(ledger, line, run)
                results = build_results(self.name, self.title, run, records)
                refuse_changed(folder, results, records, Papers(ledger, self._owner, self._docs))
            return StudyRun(
                run=run,
                charge=line.id,
                folder=folder.path,
                paid=False,
                kept=line.kept == len(self.releases),
                releases=tuple(there.get("releases", ())),
            )
        with folder:
            # Once more: until the folder was claimed another process may have written it, and
            # ended.
            line = self._find_run(ledger, run)
            if line is None:
                records, kept = self._release(ledger, run, progress, show, expect=expect)
            else:
                records, kept = self._recall(ledger, line, run), True
            results = build_results(self.name, self.title, run, records)
            papers = Papers(ledger, self._owner, self._docs) if kept else None
            write_folder(folder, results, records, papers)
        return StudyRun(
            run=run,
            charge=results["charge"],
            folder=folder.path,
            paid=line is None,
            kept=kept,
            releases=tuple(map(make_document, records)),
        )

    def _name_run(self, run_id: str | None) -> str:
        if run_id is not None:
            checked: str = NAME("run_id", run_id)
            return checked
        # Of the day on which it starts: a second start on the same day is the same run.
        return f"{datetime.now(UTC).date().isoformat()}-{self.digest[:8]}"

    def _key(self, run: str) -> str:
        """Return the name of a run in its account, where other studies may have one of that id."""
        return f"{self.name}:{run}"

    def _open_account(self) -> Ledger:
        return Ledger.open(self._ledger, account=self._account)

    def _open_starter(self, ledger: Ledger) -> Starter:
        path, form, memory, temp = self._source
        if self._declared is not None:
            source = self._declared.open_source(
                form, ledger, unit=self.unit, memory_limit=memory, temp_limit=temp
            )
            source = select_part(source, self.unit, ledger, self._part)
            executor = ReleaseExecutor(source, self.unit, ledger, SYSTEM, form=form)
            return Starter(self._document, self.budget, form, executor)
        source = guard(
            self._document,
            ("source",),
            lambda: open_source(path, csv=form, memory_limit=memory, temp_limit=temp),
        )
        guard(
            self._document,
            ("unit", "column"),
            lambda: source.take_unit(self.unit.columns, "The column of the person"),
        )
        source = select_part(source, self.unit, ledger, self._part)
        executor = ReleaseExecutor(source, self.unit, ledger, SYSTEM, form=form)
        return Starter(self._document, self.budget, form, executor)

    def _plan(
        self,
        run: str,
        ledger: Ledger,
        starter: Starter,
        ready: Sequence[ReadyRelease],
        line: ChargeLine | None = None,
        *,
        tell: StudyProgress | None = None,
    ) -> StudyPlan:
        """Return the plan.

        With `tell`, which is called meanwhile, also what to expect of each release.
        """
        started, preview, refused = [one.started for one in ready], None, None
        if line is None:
            try:
                preview = starter.executor.preview(started)
            except BudgetExceeded as error:
                refused = str(error)
        if tell is not None:
            ready = starter.describe(ready, tell, fits=preview is not None)
        planned = tuple(
            PlannedRelease(
                name=one.release.name,
                kind=one.release.kind,
                epsilon=cast("Fraction", one.release.epsilon),
                cost=add_costs([one.started]),
                goal=None if one.reached is None else one.reached.goal,
                plan=None if tell is None else one.plan,
                figures=() if tell is not None else one.list_known_figures(),
            )
            for one in ready
        )
        statement, cost = ledger.statement(charges=False), add_costs(started)
        left = ledger.find_left(parts=find_charged_parts(starter.executor.source))
        return StudyPlan(
            study=self.name,
            run=run,
            account=self._account,
            releases=planned,
            epsilon=sum((one.epsilon for one in planned), Fraction(0)),
            cost=cost,
            measure=statement.measure,
            remaining=statement.remaining
            if statement.parts is None
            else left.share * statement.limit,
            share_left=left.share,
            odds=narrow_odds(
                say_odds_of(cost, None if preview is None else preview.delta),
                self.unit.identity,
                self.unit.called,
            ),
            refused=refused,
            charge=None if line is None else line.id,
            kept=0 if line is None else line.kept,
            account_after=preview,
        )

    def _find_run(self, ledger: Ledger, run: str) -> ChargeLine | None:
        """Return the charge of a run, if it was paid, and for this very study."""
        line = ledger.find_run(self._key(run))
        # Whoever may charge the account may have written something else there.
        about = None if line is None else line.detail.get("study")
        if line is not None and not (
            isinstance(about, dict) and about.get("digest") == self.digest
        ):
            raise RunTaken(
                f"Run {run!r} of study {self.name!r} was paid for a file that said something else "
                f"(charge {line.id}). Nothing was charged now: take another run id (--run-id), or "
                "that file."
            )
        return line

    def _recall(self, ledger: Ledger, line: ChargeLine, run: str) -> list[Record]:
        """Return what the ledger has kept of a run that was paid before."""
        wanted = len(self.releases)
        if line.kept < wanted:
            measure = ledger.statement(charges=False).measure
            raise RunLost(
                f"Run {run!r} of study {self.name!r} was paid before (charge {line.id}, "
                f"{line.state}): {measure} {float(line.charged):.9g}. The ledger has kept "
                f"{line.kept} of its {wanted} releases. Nothing was charged now. If a start of it "
                "is still running, wait for it; else the others are lost, and another run id "
                f"(--run-id) pays for new ones.{line.say_give_up(ledger.account)}"
            )
        return [ledger.read_release(line.id, part=part) for part in range(1, wanted + 1)]

    def _start_unpaid(
        self, run: str, ledger: Ledger, starter: Starter, executor: ReleaseExecutor
    ) -> list[ReadyRelease]:
        """Take all releases up to reservation, unless another start pays for the run meanwhile."""
        try:
            return starter.start(self.releases, executor, {})
        except BudgetExceeded:
            # It may have left too little for a goal.
            if self._find_run(ledger, run) is None:
                raise
        raise RunTaken(
            f"Run {run!r} of study {self.name!r} was paid by another start while this one looked "
            "for an epsilon. Nothing was charged now."
        )

    def _release(
        self,
        ledger: Ledger,
        run: str,
        progress: StudyProgress | None,
        show: Callable[[StudyPlan], object] | None,
        *,
        expect: bool,
    ) -> tuple[list[Record], bool]:
        """Charge the run and make its releases.

        Return them, and whether the ledger has kept them all.
        """
        starter = self._open_starter(ledger)
        with starter.executor.open_batch() as executor:
            ready = self._start_unpaid(run, ledger, starter, executor)
            if show is not None:
                show(self._plan(run, ledger, starter, ready, tell=_tell_nobody if expect else None))
            reached = list_reached(ready)
            about = {
                "name": self.name,
                "run": run,
                "digest": self.digest,
                "releases": [one.name for one in self.releases],
            }
            run_key = RunKey(
                f"study {self.name}",
                self._key(run),
                {"study": about | ({"reached": reached} if reached else {})},
            )
            asked = [
                replace(one.started, progress=self._watch(number, progress))
                for number, one in enumerate(ready)
            ]
            made = executor.run(asked, run_key)
        records = [
            make_study_record(
                release,
                one.said,
                one.kind,
                {"name": one.name, "study": self.name, "run": run}
                | ({"reached": reached[one.name]} if one.name in reached else {}),
            )
            for one, release in zip(self.releases, made, strict=True)
        ]
        # All were paid for together. Those behind one that cannot be kept could not be found by
        # their number.
        for release, record in zip(made, records, strict=True):
            if not _keep_in_ledger(executor, release, record):
                return [replace(one, facts={**one.facts, "kept": False}) for one in records], False
        return records, True

    def _watch(self, number: int, progress: StudyProgress | None) -> Progress | None:
        if progress is None:
            return None
        name, count = self.releases[number].name, len(self.releases)

        def advance(percent: float) -> None:
            # An engine that does not know yet says a number below 0.
            progress(name, (100 * number + max(percent, 0.0)) / count)

        return advance


def _find_declared_table(
    document: Document, head: StudyTable, folder: str, day: str | None
) -> DeclaredTable | None:
    """Return the declared table that a study names in place of what it would say itself."""
    if head.table is None:
        if head.declaration is not None:
            document.refuse(
                ("declaration",),
                "declaration belongs to a table that it declares (table = NAME); got none. Leave "
                "it out.",
            )
        if day is not None:
            raise InvalidParameter(
                f"Study.date is for a study of a declared table (table = NAME); {document.path} "
                "names none. Leave it out."
            )
        return None
    for name in ("source", "unit", "account"):
        if name in document.tree:
            document.refuse(
                (name,), f"[{name}] must not stand beside table: the declaration says it."
            )
    path = find_declaration(folder) if head.declaration is None else None
    if head.declaration is not None:
        path = join_path(folder, head.declaration)
    if path is None:
        document.refuse(
            ("table",),
            "table must be declared in sordino.toml, in the folder of the study or above; there is "
            "none. Make one: sordino declare FILE.",
        )
    return find_table(open_declaration(path), head.table, day, option="Study.date (--date)")


def _tell_nobody(_name: str, _percent: float) -> None:
    pass


def _keep_in_ledger(executor: ReleaseExecutor, release: Any, record: Record) -> bool:
    """Keep a release; tell whether that was possible."""
    try:
        executor.keep(release, record)
    # A ledger that is away, a release that is too long for it, a defect: none may lose what was
    # paid for.
    except (Exception, KeyboardInterrupt):  # noqa: BLE001
        return False
    return True
