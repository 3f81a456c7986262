"""Options that several commands share, written once."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from fractions import Fraction
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, final

import click

from sordino.cli.consent import CONSENT, check_delta, check_epsilon
from sordino.cli.output_file import KEEP, OUTPUT, OutputFile
from sordino.cli.planned import check_assumption, plan_options
from sordino.constraints import (
    COUNT,
    FINITE,
    NAME,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    TRUTH,
    Constraint,
    OrNone,
    shown,
)
from sordino.declared import Declared, list_parameters
from sordino.errors import InvalidParameter

# Only for type checkers: not every command needs what a sensitivity needs.
if TYPE_CHECKING:
    from sordino.study.declaration import DeclaredTable

F = TypeVar("F", bound=Callable[..., Any])
Values = dict[str, Any]
"""Values of options, by their names."""


@final
class Decimals(click.ParamType[Fraction]):
    """A finite decimal number, kept exact: 0.1 means one tenth."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Fraction:
        """Return the number as a fraction, or fail with the usage error of click."""
        if isinstance(value, Fraction):
            return value
        if not _DECIMAL_PATTERN.fullmatch(str(value)):
            self.fail(
                f"{value!r} is not a finite decimal number (of at most 40 digits, and two after an "
                "e).",
                param,
                ctx,
            )
        return Fraction(str(value))


@final
class DecimalsOr(click.ParamType[Any]):
    """A finite decimal number, or one of some words."""

    def __init__(self, *words: str) -> None:
        self._words = words
        # What the help shows as the kind of the value.
        self.name = "|".join((*words, "number"))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the word, or the number as a fraction."""
        return value if value in self._words else NUMBER.convert(value, param, ctx)


def read_whole_or_auto(text: str) -> int | str:
    """Return a whole number, or the word auto as it is."""
    if text == "auto":
        return text
    # Of another text Python would name a line of its own.
    if not re.fullmatch("[0-9]{1,9}", text, re.ASCII):
        raise click.BadParameter(f"must be a whole number, or auto; got {text!r}.")
    return int(text)


# Longer numbers and larger exponents could fill the memory as exact fractions.
_DECIMAL_PATTERN = re.compile(
    r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,2})?", re.ASCII
)
NUMBER = Decimals()
# What an option takes, by the rule of its parameter.
_KINDS: dict[int, dict[str, Any]] = {
    **{id(rule): {"type": NUMBER} for rule in (POSITIVE, NOT_NEGATIVE, FINITE, SHARE)},
    id(COUNT): {"type": int},
    id(TRUTH): {"is_flag": True},
}
# Else by its type.
_TYPES: dict[str, dict[str, Any]] = {
    "Number": {"type": NUMBER},
    "int": {"type": int},
    "bool": {"is_flag": True},
}


# ---- decorators ----------------------------------------------------------------------------------


def stack(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return one decorator that applies the options in the order in which the help shows them."""

    def decorate(function: F) -> F:
        # Decorators apply from the bottom up.
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def gather(name: str, kind: type[Any], *options: Callable[[F], F]) -> Callable[[F], F]:
    """Return one decorator that applies the options and hands their values on as one argument.

    The argument is called `name` and is a `kind`: a dataclass whose fields have the names of the
    options, or of what was gathered among them. A field keeps its default in a command that lacks
    its option.
    """
    names = [one.name for one in fields(kind)]

    def decorate(function: F) -> F:
        # With `wraps` the options that were applied to the function so far are those of its
        # wrapper.
        @wraps(function)
        def call(**values: Any) -> Any:
            own = {one: values.pop(one) for one in names if one in values}
            # What is left are the values of other options.
            return function(**values, **{name: kind(**own)})

        return stack(*options)(cast("F", call))

    return decorate


@final
class Shares(click.ParamType[tuple[Fraction, ...]]):
    """Decimal numbers with commas in between, each kept exact."""

    name = "numbers"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Fraction, ...]:
        """Return the numbers as fractions."""
        return (
            value
            # Click may hand over what was converted already.
            if isinstance(value, tuple)
            else tuple(NUMBER.convert(one.strip(), param, ctx) for one in value.split(","))
        )


def take(request: type[Declared], name: str, *flags: str, **given: Any) -> Callable[[F], F]:
    """Return the option of a declared parameter.

    Its help, its default and what it takes stand there.

    Parameters
    ----------
    request : class
        Declares the parameter.
    name : str
        Of the parameter.
    *flags : str
        How the option is written; "--NAME" if nothing is given.
    **given : object
        What is different on the command line.
    """
    [declared] = [one for one in fields(cast("Any", request)) if one.name == name]
    rule, default = declared.metadata["check"], declared.default
    rule = rule.rule if isinstance(rule, OrNone) else rule
    kind = _KINDS.get(id(rule)) or _TYPES.get(declared.type.removesuffix(" | None"))
    if kind is None and isinstance(rule, Constraint):
        # A word out of some.
        kind = {"type": click.Choice(list(rule.valid))}
    # A default of False or None is what an option means that nobody gives.
    silent = default is None or default is False
    known = {} if silent else {"default": f"{default}", "show_default": True}
    said = {
        "help": declared.metadata["meaning"],
        **({"required": True} if default is MISSING else known),
    }
    return click.option(
        *(flags or (f"--{name.replace('_', '-')}",)), **{**said, **(kind or {}), **given}
    )


# ---- single options ------------------------------------------------------------------------------


def _take_place(ctx: click.Context, _param: click.Parameter, source: str) -> str:
    # Where a declared table lies; any other source is what was typed.
    found = ctx.meta.get(DECLARED)
    return source if found is None else str(found.source.path)


def _take_declared(
    ctx: click.Context, _param: click.Parameter, _file: str | None
) -> DeclaredTable | None:
    found: DeclaredTable | None = ctx.meta.get(DECLARED)
    return found


DECLARED = "sordino.declared"
"""Under this name a command knows the declared table that its SOURCE is (`cli/declared.py`)."""
SOURCE = click.argument("source", callback=_take_place)
DECLARATION = click.option(
    "--declaration",
    "declared",
    metavar="FILE",
    callback=_take_declared,
    help="SOURCE is the name of a table that this file declares [default: sordino.toml here or "
    "above].",
)
DATE = click.option(
    "--date", metavar="DAY", help="Day for {date} in a declared path: 2026-11-27, today, today-1."
)
# What is spent has to be meant, and what is planned spends nothing.
PART = click.option(
    "--part",
    type=int,
    default=1,
    show_default=True,
    metavar="N",
    help="Which release, where a program has kept several of one batch.",
)
EPSILON = click.option(
    "--epsilon", type=NUMBER, callback=check_epsilon, help="Budget of this release; or --goal."
)
PLANNED_EPSILON = click.option(
    "--epsilon", type=NUMBER, required=True, help="Budget of the release."
)
LEDGER_URL = click.option("--ledger", "ledger_url", metavar="URL", help="File of the ledger.")
ACCOUNT = click.option("--account", metavar="NAME", help="Account of the ledger to charge.")
NO_LEDGER = click.option(
    "--no-ledger", is_flag=True, help="Release without an account: nothing remembers what is spent."
)
REQUIRED_LEDGER = click.option(
    "--ledger",
    "url",
    metavar="URL",
    required=True,
    help="File of the ledger, or postgresql://USER@HOST/DATABASE.",
)
REQUIRED_ACCOUNT = click.option(
    "--account", metavar="NAME", required=True, help="Name of the account."
)
FORMAT = click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "csv"]),
    help="How stdout is written [default: table on a terminal, json elsewhere].",
)
DETAILS = click.option(
    "--details", is_flag=True, help="Say all that is known of the figures below a table."
)
WIDE = click.option(
    "--wide",
    is_flag=True,
    help="Write CSV as a table is printed: a column for each label of the last --item, and Total.",
)
QUIET = click.option(
    "--quiet/--no-quiet",
    default=None,
    help="Say nothing on stderr but errors [default: quiet when stderr is no terminal].",
)
BOUNDED = click.option(
    "--bounded",
    "bounds",
    type=NUMBER,
    nargs=2,
    metavar="LOW HIGH",
    help="Public range of the figure: it is published within a slightly wider one, without bias.",
)
ADJACENCY = click.option(
    "--adjacency",
    type=click.Choice(["add-remove", "replace-one"]),
    default="add-remove",
    show_default=True,
    help="Which data sets are neighbors.",
)


def name_labels(
    _ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]
) -> str | tuple[str, ...] | None:
    """Return the name of a column of labels, or those of several; None where none was given."""
    return given if len(given) > 1 else given[0] if given else None


SEVERAL: Values = {"metavar": "COL", "multiple": True, "callback": name_labels}
ITEM = click.option(
    "--item", required=True, help="Column of labels; may be given for several columns.", **SEVERAL
)
BY = click.option(
    "--by",
    help="Column of labels: one release for each label of the domain; may be given for several.",
    **SEVERAL,
)
OPTIONAL_ITEM = click.option(
    "--item", help="Column of labels; may be given for several columns.", **SEVERAL
)


def _join_predicates(
    _ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]
) -> str | None:
    """Return the predicate that holds where all of them do; each must be one by itself."""
    if len(given) < 2:
        return given[0] if given else None
    # Imported here: most releases have one predicate or none, and the session parses it.
    from sordino.sources.predicates.predicate import parse

    for one in given:
        # Columns are not known yet. Parentheses that fit only together would give the parts another
        # meaning.
        parse(one, lambda _name: 0)
    return " AND ".join(f"({one})" for one in given)


WHERE = click.option(
    "--where",
    metavar="PREDICATE",
    multiple=True,
    callback=_join_predicates,
    help="Only rows for which this holds, such as \"state = 'NY'\"; of several all must hold.",
)
RUN_ID = click.option(
    "--run-id",
    metavar="ID",
    help="Names this release, which is kept, and paid once however often it is started.",
)
# It needs --synthetic beside it, so that nobody gets predictable noise for real data by accident.
SEED = click.option(
    "--seed",
    type=int,
    metavar="N",
    help="Predictable noise, only with --synthetic and without a ledger.",
)
SYNTHETIC = click.option(
    "--synthetic", is_flag=True, help="Declare that SOURCE holds no real person's data."
)

# ---- options that belong together ----------------------------------------------------------------


@final
@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """Which labels may be released."""

    domain: tuple[str, ...]
    domain_column: str | None
    domain_no_header: bool
    domain_range: str | None
    domain_sql: str | None
    domain_sql_file: tuple[str, ...]
    assume_public: bool = False
    unlisted: bool = False
    delta: Fraction | None = None
    least: int | None = None


_LISTS = (
    click.option(
        "--domain",
        metavar="[COL=]FILE",
        multiple=True,
        help="CSV or Parquet file that lists the public labels; of several columns one for each, "
        "as COL=FILE or COL=A:B, or one that has them all.",
    ),
    click.option("--domain-column", metavar="C", help="Column of that file."),
    click.option(
        "--domain-no-header",
        is_flag=True,
        help="The first line of that CSV file holds labels, and names no column.",
    ),
    click.option(
        "--domain-range",
        metavar="A:B",
        help="The labels are the whole numbers from A up to B, which is left out.",
    ),
    click.option("--domain-sql", metavar="SQL", help="Query that lists the public labels."),
    click.option(
        "--domain-sql-file",
        metavar="FILE",
        multiple=True,
        help="Public file that this query may open; several may be named. It opens nothing else.",
    ),
)
listed_labels = gather("labels", LabelOptions, *_LISTS)
label_options = gather(
    "labels",
    LabelOptions,
    *_LISTS,
    click.option(
        "--assume-public",
        is_flag=True,
        help="Declare the labels of SOURCE public. This is printed and recorded.",
    ),
    click.option(
        "--unlisted",
        is_flag=True,
        help="Nobody lists the labels: find those that many people have. --delta.",
    ),
    click.option(
        "--delta",
        type=NUMBER,
        metavar="D",
        callback=check_delta,
        help="With --unlisted: what may be spent of a delta on labels, such as 1e-6.",
    ),
    click.option(
        "--least",
        type=int,
        metavar="L",
        help="With --unlisted: labels of fewer than L people are never looked at [default: 1].",
    ),
)


@final
@dataclass(frozen=True, kw_only=True)
class StatementOptions:
    """What is said about answers that somebody else computed."""

    sensitivity: Fraction | None
    monotone: bool
    step: Fraction | None


statement_options = gather(
    "statement",
    StatementOptions,
    click.option(
        "--sensitivity",
        type=NUMBER,
        metavar="S",
        help="How far any one answer moves between neighbors.",
    ),
    click.option(
        "--monotone",
        is_flag=True,
        help="All answers move in the same direction between neighbors.",
    ),
    click.option(
        "--step",
        type=NUMBER,
        help="Power of two that all answers are multiples of, such as 1 for counts.",
    ),
)


@final
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a release is made: who pays, where its noise comes from, and what is written and said."""

    ledger_url: str | None
    account: str | None
    no_ledger: bool
    consent: bool
    form: str | None = None
    output: OutputFile | None = None
    keep: bool = False
    run_id: str | None = None
    details: bool = False
    wide: bool = False
    seed: int | None
    synthetic: bool
    quiet: bool | None
    dry_run: bool = False
    like: str | None = None
    like_rows: int | None = None
    goal: str | None = None

    @property
    def chosen_form(self) -> str:
        """The format asked for, else the one of where the release is written to."""
        # A file is for a program.
        usual = None if self.output is None or self.wide else "json"
        return choose_format(self.form or usual, wide=self.wide)

    def claim_output(self) -> None:
        """Make sure, before the charge, that a release can be written to its file, if it has one.

        Raises
        ------
        InvalidParameter
            If it cannot, or its name is one that the database puts beside the file of the ledger.
        """
        if self.output is None:
            return
        # A file of that name would be taken for a part of the database, which then opens no more.
        beside = {
            Path(f"{self.ledger_url}{end}").absolute() for end in ("-journal", "-wal", "-shm")
        }
        if self.output.path.absolute() in beside:
            raise InvalidParameter(
                "--output must name no file that belongs to the ledger; got "
                f"{shown(str(self.output.path))}. Choose another name."
            )
        self.output.claim()

    def __post_init__(self) -> None:
        """Refuse to go on until it is said who pays.

        Options are gathered before the command does anything.

        Raises
        ------
        InvalidParameter
            If noise is predictable and its source is not synthetic or would be charged, if an
            account is half named or named and declined, if it is neither named nor declined, or if
            a release is to be kept and no ledger is named.
        """
        if self.seed is not None and not self.synthetic:
            raise InvalidParameter(
                "--seed makes noise predictable and needs --synthetic, which declares that SOURCE "
                "holds no real data."
            )
        if self.seed is not None and self.ledger_url is not None:
            raise InvalidParameter(
                "--seed cannot be combined with --ledger: a ledger remembers real releases only."
            )
        given = list_given({"--ledger": self.ledger_url, "--account": self.account})
        if self.no_ledger and given:
            raise InvalidParameter(
                f"--no-ledger cannot be combined with {given[0]}: either an account pays or nobody "
                "does."
            )
        if len(given) == 1:
            raise InvalidParameter("--ledger and --account go together; got only one of them.")
        if self.keep and not given:
            raise InvalidParameter(
                "--keep keeps a release in the ledger that pays for it: give --ledger URL and "
                "--account NAME, or leave it out. Nothing was read."
            )
        if self.run_id is not None:
            NAME("--run-id", self.run_id)
            if not given:
                raise InvalidParameter(
                    "--run-id names what an account pays for once: give --ledger URL and --account "
                    "NAME, or leave it out. Nothing was read."
                )
        if self.dry_run and (self.keep or self.run_id is not None):
            raise InvalidParameter(
                f"{'--keep' if self.keep else '--run-id'} cannot be combined with --dry-run, which "
                "releases nothing."
            )
        choose_format(self.form, wide=self.wide)
        check_assumption(self.like, self.like_rows, planned=self.dry_run or self.goal is not None)
        # With predictable noise, and in a dry run, nothing real is released, and so nothing has to
        # be paid.
        if not given and not self.no_ledger and self.seed is None and not self.dry_run:
            raise InvalidParameter(
                "Say who pays for this release: --ledger URL and --account NAME, which remember "
                "what is spent, or --no-ledger to release without an account. Nothing was read."
                f"{_say_declared_name()}"
            )


def _say_declared_name() -> str:
    """Return the name by which the table that was typed as a path is declared; empty if none is."""
    # Imported here: most releases name who pays.
    from sordino.study.declaration import find_declaration, open_declaration

    ctx = click.get_current_context()
    source, path = ctx.params.get("source"), find_declaration()
    if source is None or path is None:
        return ""
    try:
        tables = open_declaration(path).take_table("table")
    except InvalidParameter:
        # The message is not about a file that nobody has named.
        return ""
    here = Path(path).absolute().parent
    for name, said in tables.items():
        if here / str(said.get("source")) == Path(source).absolute():
            return f" It is declared as {name}, whose account pays: {ctx.command_path} {name}"
    return ""


run_options = gather(
    "run",
    RunOptions,
    LEDGER_URL,
    ACCOUNT,
    NO_LEDGER,
    CONSENT,
    plan_options,
    FORMAT,
    OUTPUT,
    KEEP,
    RUN_ID,
    SEED,
    SYNTHETIC,
    QUIET,
)


def take_all(request: type[Declared], **own: Callable[[Any], Any] | None) -> Callable[[F], F]:
    """Return the options of all parameters of a release, under the names of these parameters.

    Parameters
    ----------
    request : class
        Declares them.
    **own : option or None
        What stands in the place of the option that follows from a declaration; None where there is
        none.
    """
    shared: Values = {
        "item": ITEM,
        "by": BY,
        "domain": label_options,
        "epsilon": EPSILON,
        "where": WHERE,
        "bounds": BOUNDED,
        # The command shows a bar of its own.
        "progress": None,
    }
    written = shared | own
    names = [one.name for one in list_parameters(request)]
    options = [written[name] if name in written else take(request, name) for name in names]
    return stack(*(one for one in options if one is not None))


# ---- what the values mean ------------------------------------------------------------------------


WIDE_CSV = "wide"
"""The format of a cross table with a column for each label of its last column."""


def choose_format(form: str | None, *, wide: bool = False) -> str:
    """Return the format asked for, else a table on a terminal and JSON elsewhere.

    Raises
    ------
    InvalidParameter
        If it is to be wide, and is no CSV.
    """
    if wide:
        if form not in {None, "csv"}:
            raise InvalidParameter(f"--wide is for --format csv; got --format {form}.")
        return WIDE_CSV
    # A person reads a terminal, and a program whatever else stdout is.
    return form or ("table" if sys.stdout.isatty() else "json")


def is_quiet(quiet: bool | None) -> bool:
    """Tell whether stderr stays silent: as asked, else when it is no terminal."""
    return not sys.stderr.isatty() if quiet is None else quiet


def list_given(values: Values) -> list[str]:
    """Return the flags that were given, of flags with their values."""
    # 0 is a value, too: only None, and a flag that is off, were not given.
    # Nor is an option that may be repeated, where it stands nowhere.
    return [
        flag
        for flag, value in values.items()
        if value is not None and value is not False and value != ()
    ]


def spell_flags(values: Values) -> Values:
    """Return values of parameters by their flags."""
    return {f"--{name.replace('_', '-')}": value for name, value in values.items()}


def require_one(values: Values, what: str) -> str:
    """Return the one flag that was given, of flags with values, or raise `InvalidParameter`."""
    named = list_given(values)
    if len(named) != 1:
        listed = ", ".join(values)
        raise InvalidParameter(
            f"Give exactly one of {listed} to say {what}; got {' and '.join(named) or 'none'}."
        )
    return named[0]
