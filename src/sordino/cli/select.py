"""The command `sordino select`: the best of some candidates whose private scores somebody computed."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, final

import click
from click.core import ParameterSource

from sordino.cli._say import say
from sordino.cli.options import (
    ADJACENCY,
    EPSILON,
    NUMBER,
    CsvOptions,
    RunOptions,
    StatementOptions,
    bare_csv_options,
    choose_format,
    gather,
    is_quiet,
    list_given,
    run_options,
    statement_options,
)
from sordino.cli.output import list_facts, list_warnings, write_rows
from sordino.cli.work import choose_entropy, make_csv_format, make_sensitivity, open_payer
from sordino.constraints import COUNT, POSITIVE
from sordino.cost import Pure
from sordino.data import MarkerFile, open_markers, open_scores
from sordino.entropy import Entropy
from sordino.errors import DataSourceError, InvalidParameter
from sordino.estimators import p_value
from sordino.mechanisms import ExponentialMechanism, NoisyTopK, PermuteAndFlip
from sordino.sensitivity import Adjacency, Sensitivity
from sordino.session import Payer

# Only for type checkers: a selection from scores needs no genomics.
if TYPE_CHECKING:
    from sordino.genomics import Method

# ---- markers -----------------------------------------------------------------------------------------------
# `sordino select --statistic tdt`: the most significant markers of a genome, from private counts in families.

MARKERS = (
    "Markers, their number and their labels, and the number of families are taken as public; only the "
    "counts are private."
)
NO_COUNT = (
    "By rule, all that stands between the public fields of a line are its two counts, and what is no "
    "decimal number (1,5 with a comma is none) counts as 0; how many do is private."
)
APPROXIMATE = (
    "NOT EXACT: the guarantee of this noise holds in ideal arithmetic only, as --allow-approximate accepts."
)
TDT = "tdt"
"""The one statistic that there is."""


@final
@dataclass(frozen=True, kw_only=True)
class StatisticOptions:
    """Which statistic computes the scores, and from what."""

    statistic: str | None
    b: str | None
    c: str | None
    families: int | None
    scale: Literal["sqrt", "raw"] | None
    damping: Fraction | None
    allow_approximate: bool


statistic_options = gather(
    "asked",
    StatisticOptions,
    click.option(
        "--statistic",
        type=click.Choice([TDT]),
        help=(
            "Compute the score: tdt, of a transmission disequilibrium test; then --b, --c and --families "
            "are needed."
        ),
    ),
    click.option("--b", metavar="COL", help="With tdt: column of private counts of one allele."),
    click.option("--c", metavar="COL", help="With tdt: column of those of the other one, beside it."),
    click.option("--families", type=int, metavar="N", help="With tdt: how many families there are."),
    click.option(
        "--scale",
        type=click.Choice(["sqrt", "raw"]),
        help="With tdt: |b - c|/sqrt(b + c), or its square [default: sqrt].",
    ),
    click.option(
        "--damping",
        type=NUMBER,
        metavar="D",
        help=(
            "With tdt: hold back markers with fewer than D transmissions, which needs less noise [default: "
            "compare the test itself]."
        ),
    ),
    click.option(
        "--allow-approximate",
        is_flag=True,
        help=(
            "With tdt: also consider noise whose guarantee holds in ideal arithmetic only; without it all "
            "noise is exact."
        ),
    ),
)


@final
@dataclass(frozen=True, kw_only=True)
class MarkerTest:
    """The test of all markers, about families of which one is replaced, and how many are chosen."""

    label: str | None
    k: int
    epsilon: Fraction
    b: str
    c: str
    families: int
    scale: Literal["sqrt", "raw"]
    damping: Fraction | None
    allow_approximate: bool
    adjacency: Literal["replace-one"] = "replace-one"


def check_no_statistic(asked: StatisticOptions) -> None:
    """Refuse options that go with a statistic where there is none."""
    given = list_given(
        {
            "--b": asked.b,
            "--c": asked.c,
            "--families": asked.families,
            "--scale": asked.scale,
            "--damping": asked.damping,
            "--allow-approximate": asked.allow_approximate,
        }
    )
    if given:
        raise InvalidParameter(f"{given[0]} needs --statistic tdt.")


def make_marker_test(
    asked: StatisticOptions, adjacency: str, *, label: str | None, k: int, epsilon: Fraction
) -> MarkerTest:
    """Return the test that the options describe, if nothing is missing."""
    if asked.b is None or asked.c is None or asked.families is None:
        needed = {"--b": asked.b, "--c": asked.c, "--families": asked.families}
        missing = next(flag for flag, value in needed.items() if value is None)
        raise InvalidParameter(f"{missing} must be given with --statistic {asked.statistic}.")
    # The default is add-remove: only an adjacency that was asked for is refused.
    source = click.get_current_context().get_parameter_source("adjacency")
    if source is not ParameterSource.DEFAULT and adjacency != "replace-one":
        raise InvalidParameter(
            "--adjacency must be replace-one with --statistic: one family is replaced by another."
        )
    # Checked by the names of the options, because epsilon is divided by k before a mechanism sees it.
    POSITIVE("--epsilon", epsilon)
    COUNT("-k", k)
    return MarkerTest(
        label=label,
        k=k,
        epsilon=epsilon,
        b=asked.b,
        c=asked.c,
        families=asked.families,
        # The default stands here: one of click would look as if --scale had been given.
        scale=asked.scale or "sqrt",
        damping=asked.damping,
        allow_approximate=asked.allow_approximate,
    )


def select_markers(path: Path, test: MarkerTest, csv: CsvOptions, run: RunOptions) -> None:
    """Release the most significant markers of a file."""
    from sordino.genomics.method import FAMILIES

    FAMILIES("--families", test.families)
    entropy = choose_entropy(run)
    form = make_csv_format(csv)
    file = open_markers(path, b=test.b, c=test.c, label=test.label, form=form)
    if not is_quiet(run.quiet):
        say(NO_COUNT)
    # Options that no number of markers allows are refused before the charge.
    choose_marker_method(test, markers=2)
    detail = {
        "statistic": TDT,
        "b": test.b,
        "c": test.c,
        "label": test.label,
        "families": test.families,
        "scale": test.scale,
        "damping": test.damping,
        "k": test.k,
        "allow_approximate": test.allow_approximate,
        "source": str(path.absolute()),
    }
    # The method follows from the number of markers, which is counted after the charge.
    # So the budget is reserved, and not a mechanism.
    cost = Pure(epsilon=test.epsilon)
    with open_payer(
        run,
        cost,
        "select",
        detail,
        adjacency=test.adjacency,
        allow_approximate=test.allow_approximate,
    ) as payer:
        method, release, labels = _release_markers(file, test, payer, entropy)
    indices = [release.index] if test.k == 1 else release.indices.tolist()
    rows = [
        {"rank": rank, "row": index + 1} | ({} if labels is None else {"label": labels[index]})
        for rank, index in enumerate(indices, start=1)
    ]
    chosen = {
        name: float(value) for name in ("damping", "beta") if (value := getattr(method, name)) is not None
    }
    facts = list_facts(
        "select",
        release,
        test.adjacency,
        statistic=TDT,
        b=test.b,
        c=test.c,
        families=test.families,
        scale=test.scale,
        method=method.name,
        **chosen,
        why=method.why,
        candidates=method.markers,
    )
    notes = [
        method.why,
        f"Spent: epsilon {facts['epsilon']:.12g}. Protects: each family, {test.adjacency}.",
        MARKERS,
    ]
    write_rows(
        run.form,
        tuple(rows[0]),
        rows,
        facts,
        [*notes, *([] if release.exact else [APPROXIMATE]), *list_warnings(release)],
    )


def choose_marker_method(test: MarkerTest, markers: int) -> Method:
    """Return how one of so many markers is selected."""
    from sordino.genomics import choose_method

    return choose_method(
        markers=markers,
        families=test.families,
        epsilon=test.epsilon / test.k,
        scale=test.scale,
        damping=test.damping,
        exact=not test.allow_approximate,
    )


def _release_markers(
    file: MarkerFile, test: MarkerTest, payer: Payer, entropy: Entropy
) -> tuple[Method, Any, tuple[str, ...] | None]:
    """Read the counts, and return the method, the release and the labels."""
    from sordino.genomics.significance import select, together

    # The counts are read only after the charge.
    counts = file.read()
    # How many markers there are is public, so this may be said after the charge.
    if test.k > counts.b.size:
        raise DataSourceError(f"-k must be at most the number of candidates, {counts.b.size}; got {test.k}.")
    method = choose_marker_method(test, counts.b.size)
    picked = select(
        method,
        counts.b,
        counts.c,
        test.k,
        lambda mechanism, scores, **more: payer.release(mechanism, scores, entropy=entropy, **more),
    )
    return method, together(picked), counts.labels


# ---- scores ------------------------------------------------------------------------------------------------

METHODS = ("permute-and-flip", "exponential", "noisy-top-k")
NOTES = {
    "permute-and-flip": [],
    "exponential": ["p_value: of the statement that another candidate is at least as good; from the gap."],
    "noisy-top-k": [
        "gap: lead over the next one, noise included; the last one is the margin over the best left out."
    ],
}
LOWEST = (
    "By rule, all that stands between the public fields of a line is its score, and what is no decimal "
    "number (1,5 with a comma is none) counts as the lowest; how many do is private."
)
LABELS = "Candidates, their number and their labels are taken as public; only the scores are private."


@final
@dataclass(frozen=True, kw_only=True)
class ChoiceOptions:
    """What is chosen, how many, and how."""

    score: str | None
    label: str | None
    k: int
    method: str | None
    epsilon: Fraction


choice_options = gather(
    "choice",
    ChoiceOptions,
    click.option("--score", metavar="COL", help="Column of private scores."),
    click.option("--label", "--snp", "label", metavar="COL", help="Column of public labels."),
    click.option("-k", "--k", type=int, default=1, show_default=True, help="How many candidates."),
    click.option(
        "--method",
        type=click.Choice(METHODS),
        help="How one is chosen [default: permute-and-flip; noisy-top-k for several, with gaps].",
    ),
    EPSILON,
)


@click.command()
@click.argument("scores", metavar="SCORES.csv", type=click.Path(path_type=Path))
@choice_options
@statement_options
@statistic_options
@ADJACENCY
@bare_csv_options
@run_options
def select(
    scores: Path,
    choice: ChoiceOptions,
    statement: StatementOptions,
    asked: StatisticOptions,
    adjacency: Adjacency,
    csv: CsvOptions,
    run: RunOptions,
) -> None:
    """Release the best of the candidates in SCORES.csv: each line is one, and only its score is private.

    A score that is no finite number counts as the lowest. Any score moves by at most --sensitivity S between
    neighbours.

    With --statistic tdt each line is a marker of a genome, and only the counts in the columns --b and --c are
    private: how often heterozygous parents transmitted each allele. Neighbours are data of as many families
    of which one was replaced. What is no count becomes one by rule. Nothing is said about how far scores
    move: that is known.
    """
    if asked.statistic is not None:
        _check_no_score(choice, statement)
        test = make_marker_test(asked, adjacency, label=choice.label, k=choice.k, epsilon=choice.epsilon)
        select_markers(scores, test, csv, run)
        return
    check_no_statistic(asked)
    if choice.score is None:
        raise InvalidParameter(
            "--score must name the column of private scores, unless --statistic computes them; got none."
        )
    method = choice.method or (METHODS[0] if choice.k == 1 else METHODS[2])
    if choice.k != 1 and method != METHODS[2]:
        raise InvalidParameter(f"--method must be {METHODS[2]} for several candidates; got {method}.")
    # All parameters of the mechanism are checked here, before a file is opened.
    stated = make_sensitivity(statement, adjacency)
    mechanism = _build_selector(method, choice, stated)
    entropy = choose_entropy(run)
    form = make_csv_format(csv)
    file = open_scores(scores, score=choice.score, label=choice.label, form=form)
    if not is_quiet(run.quiet):
        say(LOWEST)
    detail = {
        "score": choice.score,
        "label": choice.label,
        "k": choice.k,
        "sensitivity": stated.bound,
        "monotone": stated.monotone,
        "step": stated.step,
        "method": method,
        "source": str(scores.absolute()),
    }
    with open_payer(run, mechanism, "select", detail, adjacency=adjacency) as payer:
        # The scores are read only after the charge.
        read = file.read()
        # How many candidates there are is public, so this may be said after the charge.
        if choice.k > read.values.size:
            raise DataSourceError(
                f"-k must be at most the number of candidates, {read.values.size}; got {choice.k}."
            )
        release = payer.release(mechanism, read.values, entropy=entropy)
    rows = [
        {"rank": rank + 1, "row": index + 1}
        | ({} if read.labels is None else {"label": read.labels[index]})
        | more
        for rank, (index, more) in enumerate(_list_selected(method, release))
    ]
    facts = list_facts(
        "select",
        release,
        adjacency,
        method=method,
        score=choice.score,
        sensitivity=float(stated.bound),
        monotone=stated.monotone,
        step=None if stated.step is None else float(stated.step),
        candidates=int(read.values.size),
    )
    notes = [
        f"Spent: epsilon {facts['epsilon']:.12g}. Protects: as --sensitivity says, {adjacency}.",
        LABELS,
    ]
    # Two digits are enough for people; programs get all of them.
    if choose_format(run.form) == "table" and rows[0].get("p_value") is not None:
        rows[0]["p_value"] = f"{rows[0]['p_value']:.2g}"
    write_rows(run.form, tuple(rows[0]), rows, facts, [*NOTES[method], *notes, *list_warnings(release)])


def _check_no_score(choice: ChoiceOptions, statement: StatementOptions) -> None:
    """Refuse options that go with scores where a statistic computes them."""
    given = list_given(
        {
            "--score": choice.score,
            "--sensitivity": statement.sensitivity,
            "--monotone": statement.monotone,
            "--step": statement.step,
            "--method": choice.method,
        }
    )
    if given:
        raise InvalidParameter(
            f"{given[0]} does not go with --statistic: the score, how far it moves and the method follow "
            "from it."
        )


def _build_selector(
    method: str, choice: ChoiceOptions, stated: Sensitivity
) -> NoisyTopK | PermuteAndFlip | ExponentialMechanism:
    if method == "noisy-top-k":
        return NoisyTopK(k=choice.k, epsilon=choice.epsilon, sensitivity=stated)
    chosen = PermuteAndFlip if method == "permute-and-flip" else ExponentialMechanism
    return chosen(epsilon=choice.epsilon, sensitivity=stated)


def _list_selected(method: str, release: Any) -> list[tuple[int, dict[str, Any]]]:
    """Return the places of what was chosen, best first, and what is known about each."""
    if method == "noisy-top-k":
        # Where every candidate is selected, the last one leads over none.
        gaps = [*release.gaps.tolist(), None]
        return [(index, {"gap": gaps[rank]}) for rank, index in enumerate(release.indices.tolist())]
    if method == "permute-and-flip":
        return [(release.index, {})]
    return [
        (release.index, {"gap": release.gap, "p_value": None if release.gap is None else p_value(release)})
    ]
