"""Runs a release up to its charge on the real schema, and from there with answers that nobody read.

Up to the reservation it is the release itself: the same requests, the same refusals, the same cost.
Behind it stands an object with the interface of `Charged` that has no engine: it hands out made-up
answers, or those of public data, and draws noise from a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Protocol, cast, final

from sordino.entropy import Entropy, Seeded
from sordino.errors import BudgetExceeded, DataSourceError
from sordino.ledger import Preview
from sordino.plan.goals import name_largest
from sordino.releases import UnlistedCounts
from sordino.session.executor import ReleaseExecutor, Started
from sordino.session.request import Charged, GroupSearch, Request
from sordino.sources.source import Asked, Source
from sordino.sources.sql.dialect import Dialect

SEED = 1
"""Of all noise in a plan: a plan made again is the same."""


class Answers(Protocol):
    """Where the answers of a dry run come from: anything but the private source."""

    @property
    def text(self) -> str:
        """What they are, in words."""
        ...

    def answer(self, question: Any) -> Any:
        """Return the answer to a question."""
        ...

    def vary(self, seed: int) -> Answers:
        """Return others like them, for another run; the same ones where there are no others."""
        ...


@final
@dataclass(frozen=True)
class PublicRows:
    """Answers of public or synthetic data: its rows are read as a release would read them.

    Attributes
    ----------
    text : str
        What the user called it.
    source : Source
        That data, opened.
    """

    text: str
    source: Source
    _read: list[tuple[Any, Any]] = field(default_factory=list, repr=False)

    def vary(self, seed: int) -> PublicRows:  # noqa: ARG002 - there are no others
        """Return the same rows."""
        return self

    def answer(self, question: Any) -> Any:
        """Read the public rows, once for each question."""
        for asked, answer in self._read:
            if asked is question:
                return answer
        answer = question.run()
        self._read.append((question, answer))
        return answer


class SimulatedDraw(NamedTuple):
    """A mechanism that has released in a dry run: what it was handed, and what came of it."""

    mechanism: Any
    answers: Any
    more: dict[str, Any]
    released: Any


class EnoughSeen(Exception):
    """What is looked for was seen."""


@final
class SimulatedCharge:
    """What a request holds in place of a `Charged` in a dry run; it has no engine and no payer.

    Attributes
    ----------
    asked : list
        Each question.
    drawn : list of SimulatedDraw
        Each mechanism that has released.
    """

    __slots__ = ("_answers", "_noise", "_only_first", "asked", "drawn")

    def __init__(self, answers: Answers, noise: Entropy, *, only_first: bool = False) -> None:
        self._answers, self._noise, self._only_first = answers, noise, only_first
        self.asked: list[Any] = []
        self.drawn: list[SimulatedDraw] = []

    def read(self, question: Any) -> Any:
        """Return answers that nobody read from the private source."""
        self.asked.append(question)
        return self._answers.answer(question)

    def release(self, mechanism: Any, answers: Any, **more: Any) -> Any:
        """Let a mechanism release them, with noise from a seed."""
        if self._only_first:
            self.drawn.append(SimulatedDraw(mechanism, answers, more, None))
            raise EnoughSeen
        released = mechanism.release(answers, entropy=self._noise, **more)
        self.drawn.append(SimulatedDraw(mechanism, answers, more, released))
        return released

    def find_once(self, search: GroupSearch) -> UnlistedCounts:
        """Return what a search releases in this run, of which nothing outlasts it."""
        return search.run(cast("Charged", self))

    # Never called.
    def watch(self, function: Callable[..., object]) -> Callable[..., None]:  # noqa: ARG002
        """Return a function that does nothing, in place of one of the caller's."""
        return _do_nothing


def _do_nothing(*_given: Any, **_named: Any) -> None:
    pass


@final
@dataclass(frozen=True)
class SchemaOnly:
    """The dialect of a source, and no way to its rows.

    What was rehearsed once is not rehearsed again.
    """

    dialect: Dialect
    limit: ClassVar[None] = None

    def look_up(self, joined: object) -> SchemaOnly:  # noqa: ARG002
        """Return the same: there are no rows to join."""
        return self

    def scan(self, indices: Sequence[int]) -> AbstractContextManager[Any]:  # noqa: ARG002
        """Refuse: a dry run reads no row."""
        raise DataSourceError.after_charge()

    def rehearse(self, columns: Any, asked: Asked) -> None:
        """Ask nothing: the first start of the release has."""


@final
@dataclass(frozen=True)
class Outcome:
    """What came of a dry run.

    Attributes
    ----------
    release : object
        What would have been released, of answers that nobody read.
    asked, drawn : list
        As of `SimulatedCharge`.
    """

    release: Any = field(repr=False)
    asked: list[Any] = field(repr=False)
    drawn: list[SimulatedDraw] = field(repr=False)

    @property
    def is_one_draw(self) -> bool:
        """Whether it is what a single mechanism has released of a single question."""
        return len(self.asked) == len(self.drawn) == 1 and self.drawn[0].released is self.release

    def repeat(self, answers: Answers, seed: int) -> Outcome:
        """Return what comes of other answers to that question, released by that mechanism."""
        draw = self.drawn[0]
        release = draw.mechanism.release(answers.answer(self.asked[0]), entropy=Seeded(seed))
        return Outcome(release, self.asked, [draw._replace(released=release)])


def name_largest_of(
    refused: BudgetExceeded, executor: ReleaseExecutor, started: Started[Any]
) -> BudgetExceeded:
    """Return the refusal of a release with the largest epsilon of it that fits.

    No row is read for that.
    """
    request = cast("Any", started.request)
    find = getattr(request, "find", None)
    known = {"release": find(executor)} if find is not None else {}
    if started.reservation.domain is not None and getattr(request, "domain", None) is not None:
        known["domain"] = started.reservation.domain

    def fits(epsilon: Fraction) -> None:
        asked = replace(request, epsilon=epsilon, **known)
        DryRun(executor, asked, rehearsed=True).preview()

    return name_largest(refused, fits) if hasattr(request, "epsilon") else refused


@final
class DryRun:
    """One request: started once on the real schema, and run as often as wanted on other answers.

    Parameters
    ----------
    executor : ReleaseExecutor
        Of the session.
    request : Request
        What is planned.
    before : sequence of Started
        What stands before it in its batch.
    rehearsed : bool
        Whether its question was put to the engine for another epsilon, and need not be once more.

    Raises
    ------
    SordinoError
        Where the release itself would be refused before its charge.
    """

    def __init__(
        self,
        executor: ReleaseExecutor,
        request: Request[Any],
        before: Sequence[Started[Any]] = (),
        *,
        rehearsed: bool = False,
    ) -> None:
        # One of its own, whose salts come from a seed: those of the session draw what they would
        # anyway.
        self._executor = ReleaseExecutor(
            executor.source, executor.unit, executor.ledger, Seeded(SEED), executor.form
        )
        self._executor.asked = executor.asked
        self._before = tuple(before)
        self.request = request
        self._reads_in_order = request.name == "randomize"
        start = self._without_rows() if rehearsed and not self._reads_in_order else self._executor
        self._started = start.start(request, before)
        self.reservation = self._started.reservation

    def preview(self, behind: Sequence[DryRun] = ()) -> Preview | None:
        """Return what the account would say of the charge; None if nobody pays.

        `behind` are others that shall be charged together with it, behind it.

        Raises
        ------
        BudgetExceeded, LedgerConflict
            If it would refuse it.
        """
        asked = [*self._before, self._started]
        for one in behind:
            # Which noise they choose depends on what stands before them.
            asked.append(one.start_behind(asked))
        return self._executor.preview(asked)

    def start_behind(self, before: Sequence[Started[Any]]) -> Started[Any]:
        """Return the release at its charge, with others before it in its batch.

        Its source has no rows.
        """
        return self._without_rows().start(self._know_labels(), before)

    def run(self, answers: Answers, seed: int) -> Outcome:
        """Let the release go on with these answers, as if it had been charged.

        Parameters
        ----------
        answers : Answers
            Anything but the private rows.
        seed : int
            Of its noise.
        """
        charged = SimulatedCharge(answers, Seeded(seed))
        try:
            self._start_again(answers).steps.send(cast("Any", charged))
        except StopIteration as end:
            return Outcome(end.value, charged.asked, charged.drawn)
        raise DataSourceError.after_charge()

    def find_first_draw(self, answers: Answers) -> SimulatedDraw:
        """Return what would release first of these answers, without letting it."""
        charged = SimulatedCharge(answers, Seeded(SEED), only_first=True)
        with suppress(EnoughSeen):
            self._start_again(answers).steps.send(cast("Any", charged))
        return charged.drawn[0]

    def _start_again(self, answers: Answers) -> Started[Any]:
        """Return the release at its charge, on a source without rows, or on that of public data."""
        if isinstance(answers, PublicRows):
            executor = self._over(answers.source)
        elif self._reads_in_order:
            # It asks for the order of its rows, which a source without rows has not.
            executor = self._executor
        else:
            executor = self._without_rows()
        return executor.start(self._know_labels(), self._before)

    def _know_labels(self) -> Request[Any]:
        """Return the request with its labels, which were read, and sorted, at the first start."""
        domain = self.reservation.domain
        if domain is None or getattr(self.request, "domain", None) is None:
            return self.request
        return cast("Request[Any]", replace(cast("Any", self.request), domain=domain))

    def _without_rows(self) -> ReleaseExecutor:
        """Return an executor whose source has the schema, and no way to its rows."""
        source = self._executor.source
        return self._over(replace(source, backend=SchemaOnly(source.backend.dialect)))

    def _over(self, source: Source) -> ReleaseExecutor:
        known = self._executor
        executor = ReleaseExecutor(source, known.unit, known.ledger, Seeded(SEED), known.form)
        executor.asked = known.asked
        return executor
