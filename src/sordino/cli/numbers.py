"""`sordino quantile`, `sum`, `mean`, `variance`: figures of a column without a known range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from fractions import Fraction
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from sordino.cli.consent import require_small_delta
from sordino.cli.grouped import GroupedCommand
from sordino.cli.options import (
    NUMBER,
    SEVERAL,
    DecimalsOr,
    LabelOptions,
    RunOptions,
    Shares,
    Values,
    list_given,
    read_whole_or_auto,
    spell_flags,
    stack,
    take,
    take_all,
)
from sordino.cli.table import (
    TableOptions,
    confirm_epsilon,
    plan_release,
    release_from_table,
    table_options,
    take_epsilon,
    write_plan,
)
from sordino.constraints import COUNT, SHARE
from sordino.errors import InvalidParameter
from sordino.results import add_parts, describe
from sordino.session.column_request import SEARCH_SHARE, ColumnRequest
from sordino.session.numbers import MeanRequest, SumRequest, VarianceRequest
from sordino.session.quantile_request import QuantileRequest

# Only for type checkers: a release needs no plan.
if TYPE_CHECKING:
    from sordino.session import Progress, Session
    from sordino.session.plans.plan import Plan


def _join_shares(
    _ctx: click.Context, _param: click.Parameter, given: tuple[tuple[Fraction, ...], ...]
) -> tuple[Fraction, ...]:
    return tuple(chain.from_iterable(given))


def _take_column(request: type[ColumnRequest[Any]], **own: Any) -> Callable[[Any], Any]:
    """Return the options of a figure of a column, and of its table."""
    options = {
        # None to count all rows of each person.
        "column": take(
            request,
            "column",
            help="Column of numbers; may be given for several, which share --epsilon equally.",
            required=False,
            **SEVERAL,
        ),
        # The command says "none" where Python says None, which is right for numbers of any sign.
        "lower": take(request, "lower", type=DecimalsOr("none"), metavar="L"),
        "cap": take(request, "cap", type=NUMBER, metavar="U"),
        # On the command line a unit is whom the guarantee protects, so this one is called --scale.
        "unit": take(request, "unit", "--scale", default="1"),
        "groups_per_unit": take(request, "groups_per_unit", metavar="G"),
        "most_groups": take(request, "most_groups", metavar="N"),
        "search_share": take(request, "search_share", metavar="SHARE"),
        "numbers_share": take(request, "numbers_share", metavar="SHARE"),
    }
    return stack(take_all(request, **options | own), table_options)


@click.command(cls=GroupedCommand)
@_take_column(
    QuantileRequest,
    q=take(
        QuantileRequest,
        "q",
        type=Shares(),
        metavar="Q[,Q...]",
        multiple=True,
        callback=_join_shares,
    ),
    size_hint=take(QuantileRequest, "size_hint", metavar="N"),
    weight_cap=take(QuantileRequest, "weight_cap", type=read_whole_or_auto, metavar="N"),
    interval_share=take(
        QuantileRequest, "interval_share", type=DecimalsOr("none"), metavar="SHARE"
    ),
)
def quantile(table: TableOptions, *, q: tuple[Fraction, ...], **asked: object) -> None:
    """Release quantiles of a column of numbers.

    With --user all rows of a person count, with weights (--weight-cap), and with --by one weight is
    for all groups. With --max-rows M a person counts for at most M rows instead, with --by COL in
    all groups together, and no group has more noise than one in which all of these are. With
    --groups-per-unit G a person counts in at most G groups with at most M rows in each, and every
    group gets an equal part of --epsilon.
    """
    if asked["interval_share"] == "none":
        asked["interval_share"] = None
    # A single q asks for `Quantile`, several for `Quantiles`.
    _release_figure("quantile", table, asked | {"q": q[0] if len(q) == 1 else q})


_take_beside = partial(click.option, "--with", "beside", multiple=True)
"""The option that names what else is released."""


@click.command("sum", cls=GroupedCommand)
@_take_column(SumRequest)
@_take_beside(
    type=click.Choice(["count", "mean", "median"]),
    help="Also release this, with an interval: count and mean cost what a mean does, which has all "
    "three; where its rows have weights (--weight-cap) so have this sum and count. A median costs "
    "an equal part of epsilon. --noise and --growth say nothing of the median.",
)
def total(table: TableOptions, *, beside: tuple[str, ...], **asked: object) -> None:
    """Release the sum of a column of numbers.

    Where to clip is found privately; with --bounded it is --lower and --cap. --lower must be at
    most 0. With --user and --by as for quantile.
    """
    # The two totals that a mean is made of tell its sum and its count.
    of_mean = not {"count", "mean"}.isdisjoint(beside)
    more = tuple(one for one in ("sum", *beside) if one != "mean") if of_mean else beside
    _release_figure("mean" if of_mean else "sum", table, asked, more)


@click.command(cls=GroupedCommand)
@_take_column(
    VarianceRequest,
    weight_cap=take(VarianceRequest, "weight_cap", type=read_whole_or_auto, metavar="N"),
)
def variance(table: TableOptions, **asked: object) -> None:
    """Release the variance and the standard deviation of a column of numbers.

    Where to clip is found privately. With --user and --by as for mean.
    """
    _release_figure("variance", table, asked)


@click.command(cls=GroupedCommand)
@_take_column(
    MeanRequest,
    weight_cap=take(MeanRequest, "weight_cap", type=read_whole_or_auto, metavar="N"),
)
@_take_beside(
    type=click.Choice(["count", "sum", "median"]),
    help="Also release this, with an interval: count and sum cost nothing, a median an equal part "
    "of epsilon. --noise, --clip, --upper and --growth say nothing of the median.",
)
def mean(table: TableOptions, *, beside: tuple[str, ...], **asked: object) -> None:
    """Release the mean of a column of numbers.

    Where to clip is found privately; with --bounded it is --lower and --cap, and how many rows have
    a number must be public: --row-is-unit, --adjacency replace-one, no --where, no --by, and a
    column that a table of PostgreSQL or DuckDB declares NOT NULL. With --user all rows of a person
    count, with weights (--weight-cap), and with --by one clip is for all groups, unless --max-rows
    or --groups-per-unit bounds them.
    """
    _release_figure("mean", table, asked, beside)


def _release_figure(
    name: str, table: TableOptions, asked: Values, beside: tuple[str, ...] = ()
) -> None:
    """Write a figure of a column, of all rows or of groups, with what stands `beside` each."""
    if beside and asked["bounds"] is not None:
        raise InvalidParameter(
            "--with must not be given with --bounded: within a range a figure has no noisy totals."
        )
    asked["unit"] = asked.pop("scale")
    if asked["lower"] == "none":
        asked["lower"] = None
    if asked["by"] is None:
        _check_no_groups(asked)
    elif asked["labels"].unlisted and asked.get("size_hint") is not None:
        _check_hint(asked["labels"], table, asked["size_hint"])
    figures = (name, "median") if "median" in beside else (name,)
    columns = asked["column"] if isinstance(asked["column"], tuple) else (asked["column"],)
    several = len(columns) * len(figures) > 1
    make = partial(_release_columns, columns=columns, figures=figures) if several else None
    parts = [one for one in dict.fromkeys(beside) if one != "median"]
    tell = partial(add_parts, names=parts) if parts else describe
    release_from_table(name, table, asked, make, tell)


def _check_no_groups(asked: Values) -> None:
    """Refuse what is about groups where there are none."""
    labels = asked.pop("labels")
    of_groups = {one.name: getattr(labels, one.name) for one in fields(labels)}
    of_groups |= {name: asked[name] for name in ("groups_per_unit", "most_groups", "search_share")}
    given = list_given(spell_flags(of_groups))
    if given:
        raise InvalidParameter(f"{given[0]} needs --by, the column of the groups.")


def _check_hint(labels: LabelOptions, table: TableOptions, size_hint: int) -> None:
    """Refuse a delta at which so many rows release somebody's label, unless that is meant."""
    # The hint is of rows, of which a unit has at most so many.
    units = -(-COUNT("--size-hint", size_hint) // max(1, table.unit.max_rows or 1))
    require_small_delta(labels.delta or Fraction(0), units, given=table.run.consent)


# ---- several columns -----------------------------------------------------------------------------


def _release_columns(
    session: Session,
    _name: str,
    run: RunOptions,
    progress: Progress | None,
    asked: Values,
    *,
    columns: Sequence[str],
    figures: Sequence[str],
) -> list[Any]:
    """Return these figures of each column, of one charge and one reading; or write their plan."""
    plans: list[tuple[str, Plan]] = []
    parts = _split_columns(asked, columns, figures)
    if run.dry_run and run.goal is None:
        # Whether all fit is said of all together.
        with session.batch() as batch:
            for name, own in parts:
                getattr(session, name)(**own)
            batch.preview()
            batch.asked.clear()
    with session.batch() as batch:
        pending = []
        for name, own in parts:
            if run.dry_run or run.goal is not None:
                plan = plan_release(session, name, run, own)
                plans.append((own["column"], plan))
                if run.goal is not None:
                    own["epsilon"] = take_epsilon(plan)
            pending.append(getattr(session, name)(**own, progress=progress))
        if run.goal is not None:
            confirm_epsilon(sum(own["epsilon"] for _, own in parts), run)
        if run.dry_run:
            batch.asked.clear()
    if run.dry_run:
        # Imported here: a release needs no plan.
        from sordino.session.plans.plan import join_plans

        whom = batch.executor.unit
        write_plan(join_plans(plans, whom.identity, whom.called), run, asked.get("domain"))
        return []
    return [one.result for one in pending]


def _split_columns(
    asked: Values, columns: Sequence[str], figures: Sequence[str]
) -> list[tuple[str, Values]]:
    """Return what is asked of each column: with an equal part of epsilon, all parts together it.

    Groups that nobody listed are found for the first one, with their share of the whole.
    """
    parts = [_ask_figure(one, asked | {"column": column}) for column in columns for one in figures]
    # Each finds its own for a goal.
    if asked.get("epsilon") is None:
        return parts
    epsilon, share, domain = asked["epsilon"], asked["search_share"], asked.get("domain")
    hidden = domain is not None and domain.hidden
    share = SHARE("--search-share", SEARCH_SHARE if share is None else share)
    search = epsilon * share if hidden else Fraction(0)
    each = (epsilon - search) / len(parts)
    for _, own in parts:
        own["epsilon"] = each
        if hidden:
            own["search_share"] = 0
    if hidden:
        parts[0][1].update(epsilon=search + each, search_share=search / (search + each))
    return parts


def _ask_figure(name: str, asked: Values) -> tuple[str, Values]:
    """Return the method of a session that makes a figure, and what it is asked."""
    if name != "median":
        return name, asked
    # Other figures have options that a quantile lacks, and a growth of their own.
    known = {one.name for one in fields(QuantileRequest)}
    known.remove("growth")
    own = {one: value for one, value in asked.items() if one in known}
    own["q"] = Fraction(1, 2)
    return "quantile", own
