"""Questions about a table, asked through the code under test: exact answers that a mechanism would be handed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fuzz.predicates import Tree, render
from sordino.columns import BucketGrid, StepRange
from sordino.columns.bucket_sums import BucketSums
from sordino.errors import DataSourceError, SordinoError
from sordino.estimators.clipped.clip import Clip, ClipSearch
from sordino.questions import (
    Domain,
    PrivacyUnit,
    RecordQuestion,
    prepare_counts,
    prepare_numbers,
    prepare_records,
)
from sordino.questions.number_question import _rehearse_numbers
from sordino.questions.totals import Weight
from sordino.sources import open_source
from sordino.sources.engine import after_charge
from sordino.sources.open import share_readings

ROW_CAP = 10**9
"""From which on rows of a unit that are added up may count as less."""

ROWS = BucketGrid(edges=[1.0, 2.0, 3.0, 5.0, 9.0])
"""In which numbers of rows are counted, where rows are weighed."""

Answers = dict[tuple[Any, ...], int]


@dataclass(frozen=True)
class Question:
    """What is asked: a kind, whom it protects, and its public parameters.

    Parameters
    ----------
    kind : {"rows", "units", "items", "buckets", "totals", "records"}
        What is counted or added up: "buckets" are rows in the buckets of a grid, "totals" clipped steps, "records" how often a local
        release reads each number.
    domain : dict or None
        {"list": labels}, {"range": [start, stop]}, {"indexed": size}, {"public": True} or {"unlisted": True}; with "found" beside a
        list its labels are groups that nobody listed and a release has found.
    grid : dict or None
        {"edges": numbers} or the parameters of a geometric grid, as texts.
    ranges : list of [low, high, exponent]
        For totals: one, or one for each group.
    other : [column, domain] or None
        Another column of labels, for items: of both together, of which nobody lists one or both.
    weighed : [cap, bits] or None
        Rows of a unit count with weights: at most as `cap` rows, of 2^bits steps in all.
    unit_too : str or None
        Another column of the unit; then rows are of one unit if they agree in both.
    call : str or None
        What is asked of the labels: a call, with {} in place of their column.
    """

    kind: str
    unit: str | None = None
    max_rows: int | None = None
    adjacency: str = "add-remove"
    where: Tree | None = None
    item: str | None = None
    domain: dict[str, Any] | None = None
    column: str | None = None
    grid: dict[str, Any] | None = None
    ranges: list[list[int]] | None = None
    by: str | None = None
    groups_per_unit: int | None = None
    per_person: str | None = None
    shared: bool = False
    weighed: list[int] | None = None
    other: list[Any] | None = None
    unit_too: str | None = None
    call: str | None = None
    salt: str = "00" * 16

    @property
    def most_rows(self) -> int:
        """So many rows of a unit count, in each of its groups."""
        return 1 if self.per_person is not None else self.max_rows or 1

    @property
    def numeric(self) -> bool:
        """Whether it is about a column of numbers."""
        return self.kind in {"buckets", "totals"}

    @property
    def in_all(self) -> bool:
        """Whether it is of what units have in all groups together."""
        return self.shared or self.weighed is not None

    def columns(self) -> set[str]:
        """Return the columns that it names, those of its predicate left out."""
        named = (
            self.unit,
            self.unit_too,
            self.item,
            self.column,
            self.by,
            *(self.other or ())[:1],
        )
        return {name for name in named if name is not None}

    def whose(self) -> PrivacyUnit:
        """Return whom it protects."""
        column: Any = self.unit if self.unit_too is None else [self.unit, self.unit_too]
        return PrivacyUnit(column, adjacency=self.adjacency, max_rows=self.max_rows)

    def labels(self) -> list[str] | None:
        """Return the labels of its domain in their order; None if they are assumed public or there are none."""
        made = make_domain(self.domain)
        known = made is not None and made.kind not in {"assumed public", "unlisted"}
        return list(made.labels) if made is not None and known else None


@dataclass(frozen=True)
class Outcome:
    """What came of a question: answers, a refusal before the charge, a failure after it, or an error that is not ours; of a whole
    release what is public about it."""

    answers: Answers | None = None
    refused: str | None = None
    failed: str | None = None
    broken: str | None = None
    public: str | None = None
    claims: dict[str, int] = field(default_factory=dict)
    asked: Any = None

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the columns that were found; None if nothing was prepared."""
        return None if self.asked is None else tuple(self.asked.source.columns)

    @property
    def shape(self) -> str:
        """Return what a reader of the release would see of it."""
        return self.refused or self.failed or self.broken or self.public or "answered"


def make_domain(domain: dict[str, Any] | None) -> Domain | None:
    """Return a public domain."""
    if domain is None:
        return None
    if "list" in domain:
        return Domain.of(domain["list"])
    if "range" in domain:
        return Domain.range(*domain["range"])
    if "indexed" in domain:
        return Domain.indexed(domain["indexed"], label=lambda place: f"place {place}")
    return Domain.assume_public() if "public" in domain else Domain.unlisted(delta=0.001)


def make_grid(grid: dict[str, Any]) -> BucketGrid:
    """Return the grid of a question."""
    if "edges" in grid:
        return BucketGrid(edges=[float.fromhex(edge) for edge in grid["edges"]])
    cuts = grid.get("cuts", 1)
    made = {name: value for name, value in grid.items() if name != "cuts"}
    numbers = {name: None if value is None else Fraction(value) for name, value in made.items()}
    return BucketGrid.geometric(
        lower=numbers["lower"],
        cap=numbers["cap"],
        growth=numbers["growth"],
        unit=numbers["unit"],
        cuts=cuts,
    )


def make_search(grid: BucketGrid) -> ClipSearch | None:
    """Return what looks for a clip among these buckets, within limits that lie between edges; None for edges that no rule made."""
    made = dict(grid.recipe)
    if not made:
        return None
    lower, cap = made["lower"], Fraction(made["cap"] or 0)
    if not Fraction(1, 1 << 800) < cap - (lower or 0) < 1 << 800:
        return None
    return ClipSearch(
        epsilon=Fraction(1),
        grid=grid,
        sides="both" if lower is None else "above",
        lower=-cap * 3 / 4 if lower is None else lower,
        cap=cap,
        tail=1,
        rows_per_unit=1,
        adjacency="add-remove",
    )


def list_clips(search: ClipSearch) -> list[Clip]:
    """Return some of the clips that it may find."""
    sides = 2 if search.sides == "both" else 1
    longest = search.grid.size // sides
    tests = (1, (longest + 1) // 2, None) if longest else (None,)
    return [search.clip((one,) * sides, simulated=True) for one in tests]


def step_ranges(question: Question) -> list[StepRange]:
    """Return the ranges of a question's totals."""
    return [
        StepRange(low=low, high=high, step=Fraction(2) ** exponent)
        for low, high, exponent in question.ranges or []
    ]


def ask(
    target: Any,
    question: Question,
    *,
    csv: Any = None,
    as_before: Outcome | None = None,
    hidden: str = "",
    batch: bool = False,
    lend: Callable[[Any], Any] = lambda source: source,
    rows: bool = False,
    opened: Any = None,
) -> Outcome:
    """Ask a source a question.

    Parameters
    ----------
    as_before : Outcome, optional
        Of a table with the same columns: what was prepared for it is asked again, of these rows.
    hidden : str
        Where the table stands, which is left out of messages.
    batch : bool
        Whether others are asked beside it, of the same readings: the same question with other ends, and with another bound.
    lend : callable
        From the source to the one with a second table, if there is one.
    rows : bool
        Whether the rows that it is asked of are wanted, and not what they come to.
    opened : Source, optional
        The source, where it is open already.
    """
    try:
        source = lend(open_source(target, csv=csv)) if opened is None else opened
        source = source.compute(name for name in (question.item, question.by) if name is not None)
        source = source.take_unit(question.whose().columns, "PrivacyUnit.column")
        if batch:
            return _ask_together(source, question)
        # Rows are asked for by what is public about their own table (`_list_rows`).
        if as_before is not None and (
            rows or dict(source.columns) == dict(as_before.asked.source.columns)
        ):
            asked = replace(as_before.asked, source=source)
        else:
            asked = prepare(source, question)
    except SordinoError as error:
        said = f"{type(error).__name__}: {error}"
        return Outcome(refused=said.replace(hidden, "HERE") if hidden else said)
    except Exception as error:  # noqa: BLE001 - whatever else is raised is a finding
        return Outcome(broken=f"before the charge: {type(error).__name__}: {error}")
    read = _list_rows if rows else _answers
    return _answered(lambda: read(asked, question), asked)


def _list_rows(asked: Any, question: Question) -> Answers:
    """Return the rows that a question is asked of, behind look-ups, calls and the filter, and before anything is bounded.

    Numbers as they stand there: their bits are in their texts.
    """
    source = asked.source
    words, kinds = source.backend.dialect.words, list(source.columns.values())
    named = [question.item, question.by, *(question.other or ())[:1]]
    columns = {
        f"label{place}": list(source.columns).index(name)
        for place, name in enumerate(named)
        if name is not None
    }
    if asked.unit.columns:
        columns["unit"] = source.find_unit(asked.unit.columns)
    told = words.name_columns(columns, kinds)
    read = set(columns.values())
    if question.column is not None:
        place, kind = source.number_column(question.column, "column")
        read.add(place)
        written = "text" if source.kind == "postgres" else "VARCHAR"
        told.append(f"CAST({source.backend.dialect.number(place, kind)} AS {written}) AS x")
    condition = []
    if question.where is not None:
        predicate = source.predicate(render(question.where))
        read |= predicate.indices
        condition = [predicate.total]
    kept = f"SELECT {', '.join(told) or '1 AS one'} FROM {source.write_rows(read)}"
    kept += f" WHERE {' AND '.join(condition)}" if condition else ""

    def work(announce: Callable[[Any], None]) -> Answers:
        with source.backend.scan(source.find_read(read)) as scan:
            announce(scan)
            answer = scan.ask(kept)
        columns = {name: values.tolist() for name, values in answer.items()}
        if "unit" in columns:
            # Whether it is compared as a number or as a text, rows decide in a frame.
            columns["unit"] = [None if one is None else str(one) for one in columns["unit"]]
        if source.inferred and "x" in columns:
            # Whether 1 or 1.0 is written there, rows decide.
            columns["x"] = [None if one is None else float(one).hex() for one in columns["x"]]
        found = Counter(zip(*(columns[name] for name in sorted(columns)), strict=True))
        # In the order of names: labels, their unit, a number.
        place = sorted(answer).index("unit") if "unit" in answer else None
        return {
            ("row", None if place is None else row[place], row): n
            for row, n in found.items()
            if place is None or row[place] is not None
        }

    return after_charge(work)


def _ask_together(source: Any, question: Question) -> Outcome:
    """Ask a question among others of one batch."""
    shared, readings = share_readings(source)
    others = list(_list_neighbors(question))
    asked = [prepare(shared, one) for one in (*others[:1], question, *others[1:])]
    try:
        outcomes = [
            _answered(lambda one=one, its=its: _answers(one, its), one)
            for one, its in zip(asked, (*others[:1], question, *others[1:]), strict=True)
        ]
    finally:
        if readings is not None:
            readings.close()
    return outcomes[len(others[:1])]


def _list_neighbors(question: Question) -> Iterator[Question]:
    """Yield questions that a batch might answer together with this one, and must not mistake for it."""
    if question.kind == "records":
        return
    if question.ranges is not None:
        yield replace(
            question, ranges=[[low, high + 1, exponent] for low, high, exponent in question.ranges]
        )
    if question.grid is not None and "cap" in question.grid:
        yield replace(question, grid=question.grid | {"cap": "77"})
    if question.per_person is not None:
        other = "max" if not question.shared else "sum"
        yield replace(question, per_person="count" if question.per_person == other else other)
    if question.max_rows is not None:
        yield replace(question, max_rows=question.max_rows + 1)
    if question.unit is not None and question.max_rows is not None and question.numeric:
        yield replace(question, kind="rows", item=None, by=None, domain=None, groups_per_unit=None)
    yield question


def prepare(source: Any, question: Question) -> Any:
    """Check a question against what is public about a source."""
    unit = question.whose()
    where = None if question.where is None else render(question.where)
    salt, domain = bytes.fromhex(question.salt), make_domain(question.domain)
    if question.kind == "records":
        return prepare_records(source, unit, column=question.column or "")
    if not question.numeric:
        item: Any = question.item
        asked_of: Any = domain
        if question.other is not None:
            item = (question.item, question.other[0])
            asked_of = dict(zip(item, (domain, make_domain(question.other[1])), strict=True))
        return prepare_counts(
            source,
            unit,
            kind=question.kind,
            item=item,
            domain=asked_of,
            where=where,
            salt=salt,
        )
    found = question.labels() if "found" in (question.domain or {}) else None
    asked = prepare_numbers(
        source,
        unit,
        column=question.column,
        grid=ROWS if question.weighed else make_grid(question.grid or {}),
        where=where,
        salt=salt,
        by=question.by,
        domain=domain if found is None else Domain.unlisted(delta=0.001),
        # What has found groups has counted a unit in some of them.
        groups_per_unit=3 if question.in_all and found is not None else question.groups_per_unit,
        most_groups=None if found is None else len(found),
        squares=has_squares(question),
        per_person=question.per_person,
        row_cap=ROW_CAP,
        shared_ends=_find_ends(question),
        weigh_grid=make_grid(question.grid or {}) if question.weighed else None,
        weigh_each=True,
    )
    searches = question.kind == "buckets" and not question.weighed
    search = make_search(asked.grid) if searches else None
    # The same question is asked for counts and for sums, one after the other.
    asked = replace(asked, ladder=None if search is None else search.ladder)
    if search is not None:
        _rehearse_numbers(asked, squares=False)
    return asked if found is None else asked.among(found)


def _find_ends(question: Question) -> tuple[Fraction, Fraction] | None:
    """Return between which ends lies what a unit adds up to in a group, where one clip is of all groups."""
    if not question.shared:
        return None
    low = -ROW_CAP if any(low < 0 for low, _, _ in question.ranges or []) else 0
    return Fraction(low), Fraction(ROW_CAP)


def has_squares(question: Question) -> bool:
    """Tell whether squares are asked for, too: where every clip is as narrow as those of a variance are."""
    return (
        question.kind == "totals"
        and not question.shared
        and all(high - low < 1 << 32 for low, high, _ in question.ranges or [])
    )


def _answered(run: Callable[[], Answers], asked: Any) -> Outcome:
    try:
        return Outcome(answers=run(), asked=asked, claims=_claims(asked))
    except DataSourceError as error:
        return Outcome(failed=f"after the charge: {error}")
    except Exception as error:  # noqa: BLE001 - whatever else is raised is a finding
        return Outcome(broken=f"after the charge: {type(error).__name__}: {error}")


def _claims(asked: Any) -> dict[str, int]:
    """Return what the code itself claims about the answers."""
    if isinstance(asked, RecordQuestion):
        return {
            "each": 1,
            "joint": 2,
            "size": 1,
        }  # of numbers that are read, one takes the place of another
    if not hasattr(asked, "sensitivity"):
        return {}
    size = 1 if asked.domain is None or asked.domain.kind == "assumed public" else None
    if size is None:  # of labels that nobody listed any number may move, as far as is claimed
        size = 1 << 20 if asked.domain.hidden else asked.domain.size
    return {
        "each": int(asked.sensitivity.bound),
        "joint": int(asked.joint(size).bound),
        "size": size,
    }


def _sums(asked: Any, groups: list[Any]) -> Answers:
    """Return the sums of buckets, and those within some clips."""
    search = make_search(asked.grid)
    if search is None:
        return {}
    sums: BucketSums = asked.sums()
    found: Answers = {}
    for group, bucket, count, total in zip(
        sums.group.tolist(), sums.bucket.tolist(), sums.count.tolist(), sums.total, strict=True
    ):
        found |= {("sum", groups[group], bucket): total, ("counted", groups[group], bucket): count}
    for place, clip in enumerate(list_clips(search)):
        within = sums.add_up([clip] * sums.groups)
        found |= {("within", label, place): n for label, n in zip(groups, within, strict=True)}
    return found


def _answers(asked: Any, question: Question) -> Answers:
    found: Answers = {}
    groups = list(asked.groups) or [None] if question.numeric else []
    weight = None if question.weighed is None else Weight(*question.weighed)
    if question.kind == "buckets" and question.in_all:
        [counts] = asked.run()
        found |= {("bucket", None, place): int(n) for place, n in enumerate(counts.counts.tolist())}
        if weight is not None:
            for label, one in zip(groups, asked.weigh(weight), strict=True):
                weights = enumerate(one.counts.tolist())
                found |= {("weight", label, place): int(n) for place, n in weights}
    elif question.kind == "buckets":
        for label, counts in zip(groups, asked.run(), strict=True):
            found |= {
                ("bucket", label, place): int(n)
                for place, n in enumerate(counts.counts.tolist())
                if n
            }
        found |= _sums(asked, groups)
    elif question.kind == "records":
        for number in np.concatenate([np.empty(0), *asked.run()]).tolist():
            key = ("record", repr(number))
            found[key] = found.get(key, 0) + 1
    elif question.kind == "totals":
        squares, ranges = has_squares(question), step_ranges(question)
        totals = (
            (asked.square_totals if squares else asked.totals)(ranges)
            if weight is None
            else asked.weighed_totals(ranges[:1], weight, squares=squares)
        )
        for label, total in zip(groups, totals, strict=True):
            found |= {("steps", label): int(total.steps), ("known", label): int(total.known)}
            found |= {("squares", label): int(total.squares)} if squares else {}
    else:
        counts = asked.run()
        if question.kind != "items":
            found = {(question.kind,): int(counts.values.sum())}
        elif counts.positions is not None:
            found = {
                ("item", counts.labels[place]): int(n)
                for place, n in zip(counts.positions, counts.values, strict=True)
            }
        else:
            found = {
                ("item", label): int(n)
                for label, n in zip(counts.labels, counts.values, strict=True)
            }
    return {key: n for key, n in found.items() if n}
