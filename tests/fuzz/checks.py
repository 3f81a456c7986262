"""What must hold between a table and its neighbors; whatever does not is a finding."""

from __future__ import annotations

import atexit
import random
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from fuzz import engines
from fuzz.cases import Case, shuffled
from fuzz.known import limit_of
from fuzz.looked_up import Tables, rename, with_public
from fuzz.oracle import Unsaid, expected, is_together
from fuzz.questions import Answers, Outcome, ask, list_clips, make_grid, make_search, step_ranges
from fuzz.releases import released
from fuzz.sources import effective, recut, write
from fuzz.tables import Row, Table
from fuzz.walk import Walk, find_wrong

ALONE = 3
"""So many units of a table are looked at in tables of their own; the rest of it together."""

STAYS_OPEN = 0.9
"""The share of tables of a walk that are not opened anew."""


@dataclass(frozen=True)
class Finding:
    """What does not hold: which law, and what was seen."""

    law: str
    seen: str

    def __str__(self) -> str:
        return f"{self.law}: {self.seen}"


class Unwritable(Exception):
    """The fuzzer could not make a table."""


_HOME: list[Path] = []


def use_home(folder: Path | None = None) -> Path:
    """Return the folder for tables, from now on this one; by default a new one.

    It is not one in memory: what lies below /dev is no list of labels.
    """
    if folder is not None:
        _HOME[:] = [folder]
    if not _HOME:
        _HOME.append(Path(tempfile.mkdtemp(prefix="sordino-fuzz-")))
        atexit.register(shutil.rmtree, _HOME[0], ignore_errors=True)
    return _HOME[0]


@dataclass(frozen=True)
class Seen:
    """What was seen of a case: a finding or none, how many tables were asked, and whether the first one answered.

    Of a walk (`walk`): how many tables were asked, how many pairs of neighbors among them compared, and the case of two that differ
    otherwise.
    """

    finding: Finding | None
    tables: int
    answered: bool
    walked: int = 0
    neighbors: int = 0
    case: Case | None = None


def check(case: Case, *, pool: bool = True) -> Finding | None:
    """Return the first finding of a case, None if everything holds."""
    return examine(case, pool=pool, thorough=True).finding


def examine(case: Case, *, pool: bool, thorough: bool, walks: bool = False) -> Seen:
    """Look at a case, up to its first finding.

    Parameters
    ----------
    pool : bool
        Whether engines may be shared by cases.
    thorough : bool
        Whether everything is looked at; otherwise some of it, which the case itself decides.
    walks : bool
        Whether units come and go after that.
    """
    with engines.opening(pool=pool, threads=case.threads, pieces=case.pieces):
        run = _Run(case, pool=pool, thorough=thorough, walks=walks)
        try:
            finding = next((one for one in run.findings() if limit_of(case) is None), None)
            return Seen(
                finding,
                run._asked,
                any(one.refused is None for one in run.outcomes.values()),
                run.walk.asked,
                run.walk.pairs,
                run.walk.broken,
            )
        finally:
            run.close()


class _Run:
    """One case: tables that were asked, by their names."""

    def __init__(self, case: Case, *, pool: bool, thorough: bool, walks: bool) -> None:
        self.case, self.pool, self.thorough, self.walks = case, pool, thorough, walks
        self.walk = Walk(case, self.ask, random.Random(f"walk {case.seed}"))
        self.folder = Path(tempfile.mkdtemp(dir=use_home()))
        self.outcomes: dict[str, Outcome] = {}
        self._prepared: Outcome | None = None
        self._asked = 0
        self._open: dict[str, tuple[Any, Any]] = {}
        self._rng = random.Random(case.seed)

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(
        self,
        name: str,
        table: Table,
        *,
        spec: dict[str, Any] | None = None,
        anew: bool = False,
        batch: bool = False,
        rows: bool = False,
    ) -> Outcome:
        """Write a table, ask it, and remember what came of it; of tables of one name the last one."""
        self._asked += 1
        folder = self.folder / (name if rows else str(self._asked))
        # Making and removing folders takes longer than a question.
        for path in folder.rglob("*") if rows and folder.exists() else ():
            if (not path.is_dir() or path.is_symlink()) and path.parent.name != "public":
                path.unlink()
        folder.mkdir(exist_ok=rows)
        source, asked = self.case.source, self.case.question
        tables = Tables(source, asked, self.case.unit_of)
        try:
            written = write(spec or source, tables.number(table), folder)
        # A fault of the fuzzer, not of what it looks at. A panic of Polars is no `Exception`.
        except (Exception, pl.exceptions.PanicException) as error:
            raise Unwritable(f"{name}: {type(error).__name__}: {error}") from error
        if self.case.release is not None:
            self.outcomes[name] = released(
                written, self.case.question, self.case.release, folder, written.hidden(folder)
            )
            written.close()
            return self.outcomes[name]
        before = None if anew or batch else self._prepared
        closing = [written.close]

        lookups, close, types = tables.write(written.target, table, folder)
        closing.append(close)
        # Most rows of a walk take the place of others in files that are known: opening them takes as long as reading them.
        opened, known = self._open.get(name, (None, None))
        if not (tables.may_stay_open() and known == types and self._rng.random() < STAYS_OPEN):
            opened = None

        def lend(source: Any) -> Any:
            return tables.lend(source, lookups) if tables.several else source

        outcome = ask(
            written.target,
            rename(asked, source),
            csv=written.csv,
            as_before=before,
            hidden=written.hidden(folder),
            batch=batch,
            lend=lend,
            rows=rows,
            opened=opened if rows else None,
        )
        if rows and outcome.asked is not None:
            self._open[name] = (outcome.asked.source, types)
        for close in closing:
            close()
        if outcome.answers is not None and self._prepared is None:
            self._prepared = outcome
        self.outcomes[name] = outcome
        return outcome

    def _looks(self, share: float) -> bool:
        return self.thorough or self._rng.random() < share

    def findings(self) -> Iterator[Finding]:
        """Yield what does not hold, the plainest first."""
        case, anew = self.case, self._looks(0.05)
        without, whole = case.base, case.joined(case.added)
        if case.release is not None and case.other_labels():
            return  # declared public, and different: these are no neighbors
        d, s = self.ask("D", whole), self.ask("D without the unit", without, anew=anew)
        yield from self._alike()
        if case.release is not None:
            self.ask("D with another unit", case.joined(case.instead))
            yield from self._alike()
            return
        if d.answers is None or s.answers is None:
            return  # refused alike
        yield from self._true("D", whole)
        yield from self._true("D without the unit", without)
        yield from self._moved("added", s, d)
        u = self.ask("the unit alone", case.base.with_rows(case.added))
        yield from self._adds_up("D", d, [(1, s), (1, u)])
        if self._looks(0.5):
            r = self.ask("D with another unit", case.joined(case.instead), anew=anew)
            v = self.ask("the other unit alone", case.base.with_rows(case.instead))
            yield from self._alike()
            yield from self._true("D with another unit", case.joined(case.instead))
            yield from self._moved("added", s, r)
            yield from self._moved("replaced", d, r)
            yield from self._adds_up("D with another unit", r, [(1, s), (1, v)])
        if self._looks(0.5):
            parts = [(times, self.ask(name, table)) for name, times, table in self._parts()]
            yield from self._adds_up("D without the unit", s, parts)
        chosen = case.question.unit is not None and (
            case.question.max_rows is not None or case.question.per_person is not None
        )  # which rows count is where order may matter
        if self._looks(0.8 if chosen else 0.3):
            other = self.ask("D shuffled", whole.with_rows(shuffled(whole.rows, case)))
            yield from self._same("shuffled", d, other)
        spec = recut(random.Random(len(whole.rows)), case.source)
        # Below an odd header line each file may have one row more.
        if spec != case.source and not case.source.get("odd") and self._looks(0.3):
            other = self.ask("D cut otherwise", whole, spec=spec)
            yield from self._same("cut otherwise", d, other)
        if case.source["kind"] not in {"relation", "postgres", "spark"} and self._looks(0.1):
            pieces = 0 if case.pieces else 3
            threads = 0 if case.threads else 1 + len(whole.rows) % 8
            with engines.opening(pool=self.pool, threads=threads, pieces=pieces):
                other = self.ask("D with other threads", whole)
            yield from self._same("other threads and pieces", d, other)
        if self._looks(0.1):
            yield from self._same("in a batch", d, self.ask("D in a batch", whole, batch=True))
        yield from self._alike()
        if self.thorough:
            seen = [
                self.ask(f"rows of {name}", one, rows=True)
                for name, one in (("D", whole), ("D without the unit", without))
            ]
            wrong = find_wrong(*(Counter(one.answers or {}) for one in seen))
            if wrong is not None:
                yield Finding("rows of others change", wrong)
        # Below an odd header line the real one may be a row, of every table once.
        if self.walks and not case.source.get("odd"):
            yield from (Finding(*one) for one in self.walk.steps(d))
            yield from self._alike()

    def _parts(self) -> Iterator[tuple[str, int, Table]]:
        """Yield some units of the base alone, and the rest of it."""
        case = self.case
        units: dict[Any, list[Row]] = defaultdict(list)
        for row in case.base.rows:
            units[case.unit_of(row)].append(row)
        alone = list(units)[:ALONE]
        for place, unit in enumerate(alone):
            rows = units.pop(unit)
            if (
                case.question.unit is None and unit is not None
            ):  # rows that are units, some of them alike
                yield f"row {place} alone", len(rows), case.base.with_rows(rows[:1])
            else:
                yield f"unit {place} alone", 1, case.base.with_rows(rows)
        if units:
            yield "the rest", 1, case.base.with_rows(row for rows in units.values() for row in rows)

    # ---- laws -----------------------------------------------------------------------------------------------------------

    def _alike(self) -> Iterator[Finding]:
        shapes = {name: outcome.shape for name, outcome in self.outcomes.items()}
        for name, outcome in self.outcomes.items():
            if outcome.broken is not None:
                yield Finding(_name_law(outcome.broken), f"{name}: {outcome.broken}")
            if outcome.failed is not None:
                yield Finding("a row ends the release", f"{name}: {outcome.failed}")
        schemas = {
            name: outcome.names
            for name, outcome in self.outcomes.items()
            if outcome.names is not None
        }
        if len(set(schemas.values())) > 1:
            yield Finding(
                "names of columns follow from rows", str(sorted(set(schemas.values())))[:300]
            )
        if len(set(shapes.values())) > 1:
            (one, a), (two, b) = next(
                (x, y) for x in shapes.items() for y in shapes.items() if x[1] != y[1]
            )
            at = max(
                0, next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), 0) - 60
            )
            yield Finding(
                "public for one, not for its neighbor",
                f"{one}: {a[at : at + 250]}; {two}: {b[at : at + 250]}",
            )

    def _true(self, name: str, table: Table) -> Iterator[Finding]:
        values = effective(self.case.source, table, self.case.question)
        if values is None or (
            self.case.source.get("collated") and self.case.question.where is not None
        ):
            return  # under a collation other texts are equal
        if (public := self.case.source.get("public")) is not None:
            values = with_public(values, public, server=self.case.source["kind"] == "postgres")
        with suppress(Unsaid):
            wanted = expected(values, self.case.question, source=self.case.source["kind"])
            wrong = wanted.wrong(self.outcomes[name].answers or {})
            if wrong is not None:
                yield Finding("not the true answer", f"{name}: {wrong}")

    def _moved(self, how: str, one: Outcome, two: Outcome) -> Iterator[Finding]:
        a, b, question = one.answers or {}, two.answers or {}, self.case.question
        moved = {key: b.get(key, 0) - a.get(key, 0) for key in {*a, *b}}
        moved = {key: n for key, n in moved.items() if n}
        if how == "added" and any(
            n < 0 for key, n in moved.items() if key[0] not in {"steps", "sum", "within"}
        ):
            yield Finding("not monotone", f"{how}: {_shown(moved)}")
        yield from (self._numbers_moved if question.numeric else self._counts_moved)(
            how, moved, one.claims
        )

    def _counts_moved(self, how: str, moved: Answers, claims: dict[str, int]) -> Iterator[Finding]:
        question = self.case.question
        if any(abs(n) > claims["each"] for n in moved.values()):
            yield Finding(
                "sensitivity of an answer", f"{how}: {_shown(moved)}, claimed {claims['each']}"
            )
        # What is claimed of all answers together is for one adjacency, and for labels that are known.
        stated = (how == "added") == (question.adjacency == "add-remove") and "public" not in (
            question.domain or {}
        )
        if stated and sum(map(abs, moved.values())) > claims["joint"]:
            yield Finding(
                "sensitivity of all answers", f"{how}: {_shown(moved)}, claimed {claims['joint']}"
            )

    def _numbers_moved(
        self, how: str, moved: Answers, _claims: dict[str, int]
    ) -> Iterator[Finding]:
        question, times = self.case.question, 1 if how == "added" else 2
        if question.shared:
            yield from self._shares_moved(how, moved, times)
            return
        if question.weighed is not None:
            yield from self._weights_moved(how, moved, times << question.weighed[1])
            return
        most, groups = question.most_rows, {key[1] for key in moved}
        allowed = 1 if question.unit is None else question.groups_per_unit or most
        everywhere = sum(abs(n) for key, n in moved.items() if key[0] == "bucket")
        if is_together(question) and everywhere > times * most:
            yield Finding(
                "rows of a unit in all groups", f"{how}: {_shown(moved)}, at most {times * most}"
            )
        if question.by is not None and len(groups) > times * allowed:
            yield Finding("groups of a unit", f"{how}: {_shown(moved)}")
        yield from self._sums_moved(how, moved)
        ranges, labels = (
            step_ranges(question),
            (question.labels() if question.by else None) or [None],
        )
        for group in groups:
            ends = ranges[labels.index(group)]
            buckets = sum(abs(n) for key, n in moved.items() if key[:2] == ("bucket", group))
            steps, known = moved.get(("steps", group), 0), moved.get(("known", group), 0)
            widest = (
                max(abs(ends.low), abs(ends.high))
                if how == "added"
                else max(0, ends.high) - min(0, ends.low)
            )
            if buckets > times * most or abs(known) > most or abs(steps) > most * widest:
                claimed = f"at most {most} rows of {ends.low} to {ends.high} steps"
                yield Finding("sensitivity of numbers", f"{how}: {_shown(moved)}, {claimed}")
            square = most * (ends.high - ends.low) ** 2
            if abs(moved.get(("squares", group), 0)) > square:
                yield Finding("sensitivity of squares", f"{how}: {_shown(moved)}, at most {square}")

    def _shares_moved(self, how: str, moved: Answers, times: int) -> Iterator[Finding]:
        """All groups together move by no more than the one clip."""
        steps = sum(abs(n) for key, n in moved.items() if key[0] == "steps")
        others = max((abs(n) for key, n in moved.items() if key[0] != "steps"), default=0)
        wholes = sum(abs(n) for key, n in moved.items() if key[0] == "bucket")
        most = step_ranges(self.case.question)[0].high
        if steps > times * most or others > times or wholes > times:
            claimed = f"at most {times * most} steps of one number a unit"
            yield Finding("sensitivity within one clip", f"{how}: {_shown(moved)}, {claimed}")

    def _weights_moved(self, how: str, moved: Answers, most: int) -> Iterator[Finding]:
        """Weights in buckets, and distances from both ends, move by what a unit weighs at most."""
        ends = step_ranges(self.case.question)[0]
        units = sum(abs(n) for key, n in moved.items() if key[0] == "bucket")
        weights = sum(abs(n) for key, n in moved.items() if key[0] == "weight")
        distances = 0
        for group in {key[1] for key in moved if key[0] in {"steps", "known"}}:
            steps, known = moved.get(("steps", group), 0), moved.get(("known", group), 0)
            away = (steps - known * ends.low, known * ends.high - steps)
            distances += sum(map(abs, away))
            if how == "added" and min(away) < 0:
                yield Finding("not monotone", f"{how}: {_shown(moved)}")
        times = most >> (self.case.question.weighed or [0, 0])[1]
        width = ends.high - ends.low
        if units > times or weights > most or distances > most * width:
            claimed = f"at most {most} steps of weight"
            yield Finding("sensitivity of weights", f"{how}: {_shown(moved)}, {claimed}")

    def _sums_moved(self, how: str, moved: Answers) -> Iterator[Finding]:
        """Sums within a clip move by whole numbers between those of the rows of a unit."""
        question, times = self.case.question, 1 if how == "added" else 2
        search = make_search(make_grid(question.grid)) if question.kind == "buckets" else None
        for place, clip in enumerate([] if search is None else list_clips(search)):
            for key, n in moved.items():
                most = times * question.most_rows
                low, high = (most * min(0, clip.bottom), most * max(0, clip.top))
                if how != "added":
                    low, high = low - high // 2, high - low // 2
                if key[0] == "within" and key[2] == place and not low <= n <= high:
                    claimed = f"from {low} to {high} steps"
                    yield Finding("sensitivity of sums", f"{how}: {_shown({key: n})}, {claimed}")

    def _adds_up(
        self, name: str, whole: Outcome, parts: list[tuple[int, Outcome]]
    ) -> Iterator[Finding]:
        if any(part.answers is None for _, part in parts):
            return  # said by another law
        if self.case.source.get("odd"):
            return  # below an odd header line the real one may be a row, of every table once
        total: Answers = defaultdict(int)
        for times, part in parts:
            for key, n in (part.answers or {}).items():
                total[key] += times * n
        total = {key: n for key, n in total.items() if n and key[0] != "within"}
        if total != {key: n for key, n in (whole.answers or {}).items() if key[0] != "within"}:
            yield Finding(
                "the whole is not what its units add up to",
                f"{name}: {_shown(whole.answers or {}, total)}",
            )

    def _same(self, how: str, one: Outcome, two: Outcome) -> Iterator[Finding]:
        if two.answers is not None and one.answers != two.answers:
            yield Finding(
                "order and cut decide", f"{how}: {_shown(one.answers or {}, two.answers)}"
            )


_LAWS = {
    "Admitted: an option": "an option that is dropped",
    "Admitted: units": "two readings of one unit",
    "Disagreement": "forms of a release disagree",
}
"""What a release with more than one command breaks, by how the error begins that says so."""


def _name_law(broken: str) -> str:
    found = (law for start, law in _LAWS.items() if broken.startswith(start))
    return next(found, "an error that is not ours")


def _shown(answers: Answers, other: Answers | None = None) -> str:
    """Return some answers, or where they differ from others."""
    keys = sorted({*answers, *(other or {})}, key=repr)
    if other is None:
        return ", ".join(f"{_name(key)} by {answers[key]}" for key in keys[:6])
    apart = [key for key in keys if answers.get(key) != other.get(key)]
    return ", ".join(
        f"{_name(key)} {answers.get(key, 0)} and {other.get(key, 0)}" for key in apart
    )[:400]


def _name(key: tuple[Any, ...]) -> str:
    return " ".join(
        str(part) if isinstance(part, int) else ascii(part).strip("'")[:30]
        for part in key
        if part is not None
    )
