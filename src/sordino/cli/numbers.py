"""The commands `sordino quantile`, `sum`, `mean`, `variance`: figures of a column without a known range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import chain
from typing import Any, Literal, final

import click

from sordino.cli.consent import require_small_delta
from sordino.cli.dry_run import release_or_plan
from sordino.cli.grouped import GroupedCommand
from sordino.cli.options import (
    BOUNDED,
    EPSILON,
    NUMBER,
    SOURCE,
    WHERE,
    DecimalsOr,
    LabelOptions,
    RunOptions,
    UnitOptions,
    gather,
    label_options,
    list_given,
    run_options,
    stack,
    take,
    unit_options,
)
from sordino.cli.text_options import CsvOptions, csv_options
from sordino.cli.work import make_domain, open_session, read_labels, show_progress
from sordino.cli.write import write_release
from sordino.constraints import COUNT
from sordino.data import Domain
from sordino.errors import InvalidParameter
from sordino.results import describe
from sordino.session.numbers import ColumnRequest, QuantileRequest, SumRequest


@final
@dataclass(frozen=True, kw_only=True)
class FigureOptions:
    """What every figure of a column is asked with."""

    column: str
    epsilon: Fraction | None
    lower: Fraction | Literal["none"]
    cap: Fraction
    growth: Fraction
    scale: Fraction
    by: str | None
    labels: LabelOptions
    groups_per_unit: int | None
    most_groups: int | None
    search_share: Fraction | None
    bounded: tuple[Fraction, Fraction] | None = None
    noise: Literal["laplace", "gaussian"] | None = None
    unit: UnitOptions
    where: str | None
    numbers_share: Fraction | None
    strict_types: bool
    csv: CsvOptions
    run: RunOptions


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


def _join_shares(
    _ctx: click.Context, _param: click.Parameter, given: tuple[tuple[Fraction, ...], ...]
) -> tuple[Fraction, ...]:
    return tuple(chain.from_iterable(given))


def _stack_column_options(request: type[ColumnRequest[Any]]) -> Callable[[Any], Any]:
    """Return the options that say which numbers are looked at."""
    # The command says "none" where Python says None. It is asked for: of numbers below a bound that nobody
    # thought of some would count as more than they are. Only quantiles of both signs are right by default.
    asked: dict[str, Any] = {"default": "none", "show_default": True, "required": False}
    return stack(
        take(
            request,
            "lower",
            type=DecimalsOr("none"),
            metavar="L",
            **(asked if request is QuantileRequest else {}),
        ),
        # On the command line a unit is whom the guarantee protects, so this one is called --scale.
        take(request, "cap", type=NUMBER, metavar="U"),
        take(request, "growth", type=NUMBER),
        take(request, "unit", "--scale", type=NUMBER, default="1"),
        take(request, "by", metavar="COL"),
        label_options,
        take(request, "groups_per_unit", type=int, metavar="G"),
        take(request, "most_groups", metavar="N"),
        take(request, "search_share", metavar="SHARE"),
    )


_COLUMN = take(ColumnRequest, "column", metavar="COL")
_TABLE = stack(
    unit_options,
    WHERE,
    take(ColumnRequest, "numbers_share", type=NUMBER, metavar="SHARE"),
    take(ColumnRequest, "strict_types", is_flag=True),
    csv_options,
    run_options,
)


def _gather_figure_options(*more: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the options of every figure but quantiles, and `more` behind those of the column."""
    return gather("asked", FigureOptions, _COLUMN, EPSILON, _stack_column_options(SumRequest), *more, _TABLE)


@click.command(cls=GroupedCommand)
@SOURCE
@gather(
    "asked",
    FigureOptions,
    _COLUMN,
    take(QuantileRequest, "q", type=Shares(), metavar="Q[,Q...]", multiple=True, callback=_join_shares),
    EPSILON,
    _stack_column_options(QuantileRequest),
    take(QuantileRequest, "size_hint", type=int, metavar="N"),
    take(QuantileRequest, "interval_share", type=DecimalsOr("none"), metavar="SHARE"),
    take(QuantileRequest, "integer", is_flag=True),
    _TABLE,
)
def quantile(
    source: str,
    q: tuple[Fraction, ...],
    size_hint: int | None,
    interval_share: Fraction | Literal["none"],
    integer: bool,
    asked: FigureOptions,
) -> None:
    """Release quantiles of a column of numbers.

    With --user each unit counts for at most --max-rows M rows, with --by COL in all groups together, and no
    group has more noise than one in which all of these are. With --groups-per-unit G a unit counts in at most
    G groups with at most M rows in each, and every group gets an equal part of --epsilon.
    """
    share = None if interval_share == "none" else interval_share
    _release_figure(
        "quantile", source, asked, q=q, size_hint=size_hint, integer=integer, interval_share=share
    )


@click.command("sum", cls=GroupedCommand)
@SOURCE
@_gather_figure_options(BOUNDED, take(SumRequest, "noise"))
def total(source: str, asked: FigureOptions) -> None:
    """Release the sum of a column of numbers.

    Where to clip is found privately; with --bounded it is --lower and --cap. --lower must be at most 0. With
    --user and --by as for quantile.
    """
    _release_figure("sum", source, asked)


@click.command(cls=GroupedCommand)
@SOURCE
@_gather_figure_options()
def variance(source: str, asked: FigureOptions) -> None:
    """Release the variance and the standard deviation of a column of numbers.

    Where to clip is found privately. With --user and --by as for quantile.
    """
    _release_figure("variance", source, asked)


@click.command(cls=GroupedCommand)
@SOURCE
@_gather_figure_options(BOUNDED, take(SumRequest, "noise"))
def mean(source: str, asked: FigureOptions) -> None:
    """Release the mean of a column of numbers.

    Where to clip is found privately; with --bounded it is --lower and --cap, and how many rows have a number
    must be public: --row-is-unit, --adjacency replace-one, no --where, no --by, and a column that a table of
    PostgreSQL or DuckDB declares NOT NULL. With --user and --by as for quantile.
    """
    _release_figure("mean", source, asked)


def _release_figure(
    kind: Literal["quantile", "sum", "mean", "variance"],
    source: str,
    asked: FigureOptions,
    *,
    q: tuple[Fraction, ...] = (),
    size_hint: int | None = None,
    integer: bool = False,
    interval_share: Fraction | None = None,
) -> None:
    """Ask for a figure and write it; only quantiles have the last four parameters."""
    run = asked.run
    domain = _choose_group_domain(asked)
    if domain is not None and domain.hidden and size_hint is not None:
        _check_hint(asked, size_hint)
    own = {"size_hint": size_hint, "integer": integer, "interval_share": interval_share}
    own = _list_own(kind, q, own, asked)
    with open_session(source, asked.unit, asked.csv, run) as session, show_progress(run.quiet) as progress:
        domain = None if domain is None else read_labels(session, domain, run)
        release = release_or_plan(
            session,
            kind,
            run,
            asked.column,
            epsilon=asked.epsilon,
            cap=asked.cap,
            growth=asked.growth,
            where=asked.where,
            by=asked.by,
            groups_per_unit=asked.groups_per_unit,
            most_groups=asked.most_groups,
            search_share=asked.search_share,
            lower=None if asked.lower == "none" else asked.lower,
            # On the command line a unit is whom the guarantee protects, so this one is called --scale.
            unit=asked.scale,
            domain=domain,
            numbers_share=asked.numbers_share,
            strict_types=asked.strict_types,
            progress=progress,
            **own,
        )
    if release is None:
        return
    write_release(describe(release), run, partial(session.keep, release))


def _list_own(
    kind: str, q: tuple[Fraction, ...], of_quantiles: dict[str, Any], asked: FigureOptions
) -> dict[str, Any]:
    """Return the parameters that one kind of figure has and others lack."""
    if kind == "quantile":
        # A single q asks for `Quantile`, several for `Quantiles`.
        return {"q": q[0] if len(q) == 1 else q, **of_quantiles}
    # Only sums and means can be asked for within a declared range.
    return {} if kind == "variance" else {"bounds": asked.bounded, "noise": asked.noise}


def _choose_group_domain(asked: FigureOptions) -> Domain | None:
    """Return the labels of the groups, if there are groups."""
    if asked.by is not None:
        return make_domain(asked.labels)
    given = list_given(
        {
            "--domain": asked.labels.domain,
            "--domain-column": asked.labels.domain_column,
            "--domain-no-header": asked.labels.domain_no_header,
            "--domain-range": asked.labels.domain_range,
            "--domain-sql": asked.labels.domain_sql,
            "--domain-sql-file": asked.labels.domain_sql_file,
            "--assume-public": asked.labels.assume_public,
            "--unlisted": asked.labels.unlisted,
            "--delta": asked.labels.delta,
            "--least": asked.labels.least,
            "--groups-per-unit": asked.groups_per_unit,
            "--most-groups": asked.most_groups,
            "--search-share": asked.search_share,
        }
    )
    if given:
        raise InvalidParameter(f"{given[0]} needs --by, the column of the groups.")
    return None


def _check_hint(asked: FigureOptions, size_hint: int) -> None:
    """Refuse a delta at which of so many rows somebody's label would be released, unless that is meant."""
    # The hint is of rows, of which a unit has at most so many.
    units = -(-COUNT("--size-hint", size_hint) // max(1, asked.unit.max_rows or 1))
    require_small_delta(asked.labels.delta or Fraction(0), units, given=asked.run.consent)
