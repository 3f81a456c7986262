"""Turns the options of a command into what works: unit, domain, entropy, account and session."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from sordino.cli.options import (
    LabelOptions,
    RunOptions,
    StatementOptions,
    is_quiet,
    list_given,
    require_one,
)
from sordino.cli.stderr import PatientStream, say
from sordino.cli.text_options import CsvOptions
from sordino.cli.whom import UnitOptions
from sordino.cli.write import open_account
from sordino.constraints import shown
from sordino.entropy import SYSTEM, Entropy, Seeded
from sordino.errors import InvalidParameter
from sordino.ledger import Ledger
from sordino.population import ColumnNames
from sordino.questions import Domain, PrivacyUnit
from sordino.questions.domain import SPAN, span
from sordino.questions.labels import name_columns
from sordino.record import SIMULATED
from sordino.sensitivity import Adjacency, Sensitivity
from sordino.session import Payer, Progress, Uncharged
from sordino.sources import CsvFormat
from sordino.unit_columns import split_unit_columns

if TYPE_CHECKING:
    from sordino.session import Session
    from sordino.sources import Source
    from sordino.study.declaration import DeclaredTable

DROPPED = (
    "By rule, lines that do not parse, rows without a person or without a number that is asked "
    "for, and labels outside the domain are not counted; how many is private."
)
DRY = "--dry-run: nothing is read but the schema, and nothing is charged."
UNRECORDED = "--no-ledger: nothing remembers what this release spends."
# A whole number of 64 bits has 19 digits at most: a longer text is refused before it is converted.
_LABEL_RANGE = re.compile(r"(-?[0-9]{1,19}):(-?[0-9]{1,19})", re.ASCII)
PATIENCE = 1.0  # seconds before a progress bar appears


def make_unit(unit: UnitOptions) -> PrivacyUnit:
    """Return the privacy unit that the options name."""
    require_one(
        {"--user": unit.user, "--row-is-unit": unit.row_is_unit}, "whom the guarantee protects"
    )
    if unit.user is None:
        if unit.max_rows is not None:
            raise InvalidParameter(
                "--max-rows needs --user: with --row-is-unit each person has one row."
            )
        return PrivacyUnit.row(adjacency=unit.adjacency)
    return PrivacyUnit(
        split_unit_columns(unit.user), adjacency=unit.adjacency, max_rows=unit.max_rows
    )


def call_as_declared(unit: PrivacyUnit, declared: DeclaredTable | None) -> PrivacyUnit:
    """Return a unit that is called what its declaration says, where that is about its column."""
    if declared is None or declared.unit.column != unit.column:
        return unit
    return replace(unit, called=declared.unit.called)


def make_domain(labels: LabelOptions, named: ColumnNames | None = None) -> Domain | None:
    """Return the public domain that the options name.

    Of several columns a declaration may list the labels: None where no option does.
    """
    columns = () if named is None else name_columns("--item", named)
    more = list_given({"--delta": labels.delta, "--least": labels.least})
    if more and not labels.unlisted:
        raise InvalidParameter(f"{more[0]} needs --unlisted: it is about labels that nobody lists.")
    given = {
        "--domain": labels.domain,
        "--domain-range": labels.domain_range,
        "--domain-sql": labels.domain_sql,
        "--assume-public": labels.assume_public,
        "--unlisted": labels.unlisted,
    }
    if len(columns) > 1:
        return _make_product(labels, columns, list_given(given))
    which = _find_given(given)
    of_file = _list_of_file(labels)
    if of_file and which != "--domain":
        raise InvalidParameter(f"{of_file[0]} needs --domain FILE.")
    if labels.domain_sql_file and which != "--domain-sql":
        raise InvalidParameter(
            "--domain-sql-file needs --domain-sql SQL, the query that may open that file."
        )
    if which == "--unlisted":
        return _make_unlisted(labels)
    if which == "--assume-public":
        return Domain.assume_public()
    if labels.domain_range is not None:
        return _read_range("--domain-range", labels.domain_range)
    if labels.domain_sql is not None:
        return Domain.from_sql(labels.domain_sql, files=labels.domain_sql_file)
    return _read_label_file(labels, columns)


def _read_label_file(labels: LabelOptions, columns: tuple[str, ...]) -> Domain:
    """Return the labels of one column that --domain names: a file, or a span of dates."""
    if len(labels.domain) > 1:
        raise InvalidParameter(
            "--domain must be given once for one column of labels; got "
            f"{' and '.join(map(shown, labels.domain))}."
        )
    [file] = labels.domain
    for column in columns:
        file = file.removeprefix(f"{column}=")
    if "=" in file and columns and file == labels.domain[0] and not Path(file).exists():
        raise InvalidParameter(
            f"--domain must be FILE or COL=FILE, where COL is the column as it was asked for, "
            f"{columns[0]}; got {shown(file)}."
        )
    if SPAN.fullmatch(file) and not _list_of_file(labels):
        return span(file)
    return Domain.from_file(file, labels.domain_column, header=not labels.domain_no_header)


def _find_given(given: dict[str, Any]) -> str:
    """Return the one option that says which labels may be released."""
    if not list_given(given):
        raise InvalidParameter(
            f"Give exactly one of {', '.join(given)} to say which labels may be released, or "
            'declare them once: labels.COLUMN = "FILE" in sordino.toml. --assume-public declares '
            "those of the table public, which is printed and recorded."
        )
    return require_one(given, "which labels may be released")


def _list_of_file(labels: LabelOptions) -> list[str]:
    """Return the options that were given about the file of a single column of labels."""
    return list_given(
        {"--domain-column": labels.domain_column, "--domain-no-header": labels.domain_no_header}
    )


def _make_unlisted(labels: LabelOptions) -> Domain:
    if labels.delta is None:
        raise InvalidParameter(
            "--unlisted needs --delta D, the probability with which a label of a single person "
            "may be released: well below one over the number of people, such as 1e-6."
        )
    return Domain.unlisted(delta=labels.delta, least=1 if labels.least is None else labels.least)


def _read_range(option: str, said: str) -> Domain:
    ends = _LABEL_RANGE.fullmatch(said)
    if ends is None:
        raise InvalidParameter(f"{option} must be two whole numbers A:B; got {shown(said)}.")
    return Domain.range(int(ends[1]), int(ends[2]))


def _make_product(
    labels: LabelOptions, columns: tuple[str, ...], given: list[str]
) -> Domain | None:
    """Return the domain of several columns: a list for each of them, or a file of tuples.

    With --unlisted those of which nothing lists the labels are found.
    """
    others = [flag for flag in given if flag not in {"--domain", "--unlisted"}]
    others += _list_of_file(labels)
    if others:
        raise InvalidParameter(
            f"{others[0]} is for one column of labels; of {len(columns)} columns the labels of "
            "each must be listed, because which combinations occur tells of people. Give --domain "
            f"{columns[0]}=FILE for each, or --domain FILE with the columns {', '.join(columns)}; "
            "columns that nobody can list go with --unlisted --delta D."
        )
    parts: dict[str, Domain] = {}
    for one in labels.domain:
        known = [name for name in columns if one.startswith(f"{name}=")]
        if not known and len(labels.domain) == 1 and not labels.unlisted:
            return Domain.from_file(one).over(columns)
        # The longest name: a column may be called like the beginning of another one.
        name = max(known, key=len, default=None)
        if name is None or name in parts:
            raise InvalidParameter(
                f"--domain must be COL=FILE, once for each of {', '.join(columns)}; got "
                f"{shown(one)}."
            )
        said = one[len(name) + 1 :]
        if SPAN.fullmatch(said):
            parts[name] = span(said)
        elif _LABEL_RANGE.fullmatch(said):
            parts[name] = _read_range("--domain", said)
        else:
            parts[name] = Domain.from_file(said)
    if labels.unlisted:
        if len(parts) == len(columns):
            raise InvalidParameter(
                "--unlisted must leave a column without labels; got --domain for each of "
                f"{', '.join(columns)}. Leave one of both out."
            )
        # What is declared of a column, or follows from its words, comes first.
        found = replace(_make_unlisted(labels), yields=True)
        parts = {name: parts.get(name, found) for name in columns}
    return Domain.product(parts) if parts else None


def make_csv_format(csv: CsvOptions) -> CsvFormat:
    """Return the form of a CSV source that the options describe."""
    # The options are called as the fields, but for the one that takes the header line away.
    named = {one.name for one in fields(CsvFormat)}
    said = {name: value for name, value in vars(csv).items() if name in named}
    return CsvFormat(**said, header=not csv.no_header)


def make_sensitivity(statement: StatementOptions, adjacency: Adjacency) -> Sensitivity:
    """Return what the options say about answers that somebody else computed."""
    if statement.sensitivity is None:
        raise InvalidParameter(
            "--sensitivity must say how far any one answer moves between neighbours; got none."
        )
    return Sensitivity(
        bound=statement.sensitivity,
        monotone=statement.monotone,
        adjacency=adjacency,
        step=statement.step,
    )


def choose_entropy(run: RunOptions) -> Entropy:
    """Return the entropy that the options name.

    `RunOptions` has looked at what goes with a seed.
    """
    return SYSTEM if run.seed is None else Seeded(run.seed)


def _say_that_nobody_pays(run: RunOptions) -> None:
    if not is_quiet(run.quiet):
        say(UNRECORDED if run.seed is None else SIMULATED)


@contextmanager
def open_payer(
    run: RunOptions,
    mechanism: Any,
    label: str,
    detail: dict[str, Any],
    *,
    adjacency: Adjacency,
    unit: PrivacyUnit | None = None,
    reading: str = "",
    allow_approximate: bool = False,
) -> Iterator[Payer]:
    """Charge a mechanism for what comes through a pipe or was computed by somebody else.

    Nothing was read so far.

    The account is the one that was named: whether it is about the people behind these answers
    cannot be seen from here, only whether it protects the `unit` of a release that has one, by the
    same `reading`.
    """
    ledger = open_account(run)
    run.claim_output()
    if ledger is None:
        _say_that_nobody_pays(run)
        yield Uncharged(simulated=run.seed is not None)
        return
    # What was left out is not recorded.
    known = {name: value for name, value in detail.items() if value is not None}
    # A block that ends without an error settles the charge; an error leaves all of it charged.
    with ledger.reserve(
        mechanism,
        label=label,
        detail=known,
        allow_approximate=allow_approximate,
        unit=unit,
        adjacency=adjacency,
        reading=reading,
    ) as charge:
        yield charge


@contextmanager
def open_session(
    source: str,
    unit: UnitOptions,
    csv: CsvOptions,
    run: RunOptions,
    declared: DeclaredTable | None = None,
    *,
    rule: str = DROPPED,
) -> Iterator[Session]:
    """Open the session that the options describe, and say the rule for rows that cannot be read."""
    # In the order in which what is wrong with them is said.
    whom = call_as_declared(make_unit(unit), declared)
    entropy = choose_entropy(run)
    form = make_csv_format(csv)
    ledger = open_account(run)
    run.claim_output()
    if not is_quiet(run.quiet):
        # The same words every time: whether the rule applied to any row is private.
        say(DRY if run.dry_run else rule)
    if ledger is None and not run.dry_run:
        _say_that_nobody_pays(run)
    # Here, because a selection from scores or markers needs none, and they take long to load.
    from sordino.session import Session

    limits: dict[str, Any] = {"memory_limit": csv.memory_limit, "temp_limit": csv.temp_limit}
    opened = find_source(source, declared, form, ledger, whom, **limits)
    limits["part"] = unit.part
    with Session(opened, unit=whom, ledger=ledger, entropy=entropy, csv=form, **limits) as session:
        yield session


def find_source(
    source: str,
    declared: DeclaredTable | None,
    form: CsvFormat,
    ledger: Ledger | None,
    unit: PrivacyUnit | None,
    *,
    memory_limit: int | None = None,
    temp_limit: int | None = None,
) -> str | Source:
    """Return what a session opens: a path, or a declared table, compared with what is declared."""
    if declared is None:
        return source
    # Who named another column has not asked for the declared one.
    own = declared.unit
    asked = own if unit is None or unit.column == own.column else None
    return declared.open_source(
        form, ledger, unit=asked, memory_limit=memory_limit, temp_limit=temp_limit
    )


def read_labels(session: Session, domain: Domain, run: RunOptions) -> Domain:
    """Return the domain with its labels read; say before the charge what a file lists."""
    known = session.read_labels(domain)
    # Whether the first line is a label or a name is seen by people only.
    files = known.kind == "file" or any(part.kind == "file" for part in known.parts)
    if files and not is_quiet(run.quiet):
        say(f"Labels: {known.origin}.")
    return known


@contextmanager
def show_progress(quiet: bool | None, what: str = "reading") -> Iterator[Progress | None]:
    """Yield a callback that draws a bar on stderr once the work has taken a second.

    `what` stands beside it.

    It is None when stderr stays silent.
    """
    if is_quiet(quiet):
        yield None
        return
    started = time.monotonic()
    bar: Any = None
    task: Any = None

    def advance(percent: float) -> None:
        nonlocal bar, task
        # Short work draws nothing.
        if bar is None and time.monotonic() - started < PATIENCE:
            return
        if bar is None:
            from rich.console import Console
            from rich.progress import Progress as Bar

            # The bar disappears at the end; only sentences stay on stderr.
            bar = Bar(
                console=Console(file=cast("IO[str]", PatientStream(sys.stderr))), transient=True
            )
            task = bar.add_task(what, total=100)
            bar.start()
        # An engine that does not know yet says a number below 0.
        bar.update(task, completed=max(percent, 0))

    try:
        yield advance
    finally:
        # After an error, too: the bar has hidden the cursor of the terminal.
        if bar is not None:
            bar.stop()
