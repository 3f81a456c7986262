"""The commands `sordino quantile`, `sum`, `mean`, `variance`: figures of a column without a known range."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, final

import click

from sordino.cli.options import (
    BOUNDED,
    DOMAINS,
    EPSILON,
    NUMBER,
    SOURCE,
    DecimalsOr,
    csv_options,
    public_labels,
    release_options,
    stacked,
    unit_options,
)
from sordino.cli.output import about, declared, write_rows
from sordino.cli.work import domain_of, session_of, shown_progress
from sordino.data import Domain
from sordino.errors import InvalidParameter
from sordino.releases import plain
from sordino.session import Groups

RANK = (
    "rank_error: with 95 % the rank of the value is that far from the target at most, in rows; rows in a "
    "bucket with it count as at it."
)
CAPPED = "capped: no edge was found before the end of the grid; the quantile may lie beyond it."
CLIPPED = (
    "low and high: 95 % interval of what rows clipped to clip_low and clip_high give; what lies beyond is "
    "not known."
)
QUANTILE = ("q", "value", "rank_error_low", "rank_error_high", "capped")
MOVED = (
    "low and high: 95 % interval of what rows between clip_low and clip_high give, each moved there, if it "
    "lies in the declared range."
)
TOTAL = ("low", "high", "standard_error", "clip_low", "clip_high", "capped")
DEVIATION = "standard_deviation"
BY = ("by", "groups_per_unit")


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


def _column_options(lower: str, growth: str) -> Callable[[Any], Any]:
    """Return the options that say which numbers are looked at."""
    return stacked(
        click.option(
            "--lower",
            type=DecimalsOr("none"),
            metavar="L",
            default=lower,
            show_default=True,
            help='Public bound, or "none": both signs.',
        ),
        click.option(
            "--cap",
            type=NUMBER,
            metavar="U",
            required=True,
            help="Public: as far up as anything goes; it can be generous.",
        ),
        click.option(
            "--growth",
            type=NUMBER,
            default=growth,
            show_default=True,
            help="Factor between edges of the grid.",
        ),
        click.option(
            "--scale", type=NUMBER, default="1", show_default=True, help="Below it edges are evenly spaced."
        ),
        click.option(
            "--by", metavar="COL", help="Column of labels: one release for each label of the domain."
        ),
        public_labels,
        click.option(
            "--groups-per-unit", type=int, metavar="G", help="Let a unit count in at most G groups."
        ),
    )


_COLUMN = click.option("--column", metavar="COL", required=True, help="Column of numbers.")


def _figure_options(*more: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the options of every figure but quantiles, and `more` behind those of the column."""
    column = _column_options("0", "1.05")
    return stacked(SOURCE, _COLUMN, EPSILON, column, *more, unit_options, csv_options, release_options)


@click.command()
@SOURCE
@_COLUMN
@click.option(
    "--q", type=Shares(), metavar="Q[,Q...]", required=True, help="Which quantiles, rising, such as 0.5,0.99."
)
@EPSILON
@_column_options("none", "1.01")
@click.option(
    "--size-hint", type=int, metavar="N", help="About how many rows count, as far as that is public."
)
@unit_options
@csv_options
@release_options
def quantile(source: str, **options: Any) -> None:
    """Release quantiles of a column of numbers.

    With --user each unit counts for at most --max-rows M rows. With --by COL every group gets an equal part
    of --epsilon: the part of one of G groups (2 G under replace-one) that a unit may be in.
    """
    q = options["q"]
    # A single q asks for `Quantile`, several for `Quantiles`.
    _release_figure("quantile", source, options, q=q[0] if len(q) == 1 else q, size_hint=options["size_hint"])


@click.command("sum")
@_figure_options(BOUNDED)
def total(source: str, **options: Any) -> None:
    """Release the sum of a column of numbers.

    Where to clip is found privately; with --bounded it is --lower and --cap. --lower must be at most 0. With
    --user and --by as for quantile.
    """
    _release_figure("sum", source, options)


@click.command()
@_figure_options()
def variance(source: str, **options: Any) -> None:
    """Release the variance and the standard deviation of a column of numbers.

    Where to clip is found privately. With --user and --by as for quantile.
    """
    _release_figure("variance", source, options | {"bounded": None})


@click.command()
@_figure_options(BOUNDED)
def mean(source: str, **options: Any) -> None:
    """Release the mean of a column of numbers.

    Where to clip is found privately; with --bounded it is --lower and --cap, and the number of rows must be
    public: --row-is-unit, --adjacency replace-one, no --where, no --by, no CSV file. With --user and --by as
    for quantile.
    """
    _release_figure("mean", source, options)


def _release_figure(kind: str, source: str, options: dict[str, Any], **own: Any) -> None:
    domain = _choose_group_domain(options)
    asked = own | {name: options[name] for name in ("epsilon", "cap", "growth", "where", *BY)}
    # Only sums and means can be asked for within a declared range.
    asked |= {"bounds": options["bounded"]} if kind in {"sum", "mean"} else {}
    asked |= {
        "lower": None if options["lower"] == "none" else options["lower"],
        # On the command line a unit is whom the guarantee protects, so this one is called --scale.
        "unit": options["scale"],
        "domain": domain,
    }
    with session_of(source, options) as session, shown_progress(options["quiet"]) as progress:
        release = getattr(session, kind)(options["column"], progress=progress, **asked)
    # `about` describes a column of labels as the item; here it is the column of the groups.
    facts, notes = about(kind, release, options | {"item": options["by"]}, domain)
    facts |= {"column": options["column"]}
    grouped, bounds = isinstance(release, Groups), asked.get("bounds")
    columns: tuple[str, ...] = QUANTILE if kind == "quantile" else (kind, *TOTAL)
    if kind == "variance":
        columns = (kind, *TOTAL[:3], DEVIATION, *TOTAL[3:])
    said = [RANK, CAPPED] if kind == "quantile" else [CLIPPED]
    if bounds is not None:
        # All groups have the same range, so the first one speaks for all.
        ranged, told = declared(bounds, release.rows[0].release if isinstance(release, Groups) else release)
        # Within bounds no clip is searched for, so nothing can be capped.
        columns, said, facts = (kind, *TOTAL[:-1]), [MOVED, *told], facts | ranged
    pairs = [(row.item, row.release) for row in release] if grouped else [(None, release)]
    rows = [
        {"item": item} | row if grouped else row
        for item, one in pairs
        for row in _figure_rows(kind, one, options)
    ]
    if grouped:
        facts |= {"groups_per_unit": options["groups_per_unit"] or 1}
        notes.append(
            f"Each group was released with epsilon {float(Fraction(release.mechanism.cost.pure())):.12g}."
        )
    write_rows(
        options["form"],
        ("item", *columns) if grouped else columns,
        rows,
        facts,
        [*said, *notes],
        # Figures have any size, so their digits are counted from the first one that is not 0.
        counts=False,
    )


def _choose_group_domain(options: dict[str, Any]) -> Domain | None:
    given = [
        name
        for name in (*DOMAINS, "groups_per_unit")
        # 0 is a value, too: only None, and a flag that is off, were not given.
        if options[name] is not None and options[name] is not False
    ]
    if options["by"] is not None:
        return domain_of(**{name: options[name] for name in DOMAINS})
    if given:
        raise InvalidParameter(f"--{given[0].replace('_', '-')} needs --by, the column of the groups.")
    return None


def _figure_rows(kind: str, release: Any, options: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what was released as rows: one for each quantile, or the one of another figure."""
    if kind == "quantile":
        # Several quantiles come as a tuple of values, a single one as itself.
        found = release if isinstance(release, tuple) else (release,)
        pairs = zip(options["q"], found, strict=True)
        return [
            {"q": float(q)} | {name: plain(getattr(one, name)) for name in QUANTILE[1:]} for q, one in pairs
        ]
    (low, high), (clip_low, clip_high) = release.interval, release.clip
    ends = {
        "low": low,
        "high": high,
        "standard_error": release.standard_error,
        "clip_low": clip_low,
        "clip_high": clip_high,
    }
    if kind == "variance":
        ends[DEVIATION] = release.standard_deviation
    capped = {} if options["bounded"] is not None else {"capped": release.capped}
    return [plain({kind: release.value, **ends, **capped})]
