"""The command `sordino select`: the best of some candidates whose private scores somebody computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from sordino.cli._say import say
from sordino.cli.options import (
    ADJACENCY,
    EPSILON,
    NUMBER,
    chosen_format,
    chosen_quiet,
    csv_format,
    release_options,
    stacked,
    statement_options,
)
from sordino.cli.output import facts_of, warnings_of, write_rows
from sordino.cli.work import entropy_of, payer_of, statement_of
from sordino.constraints import COUNT, POSITIVE
from sordino.cost import Pure
from sordino.data import CsvFormat, open_markers, open_scores
from sordino.errors import DataSourceError, InvalidParameter
from sordino.estimators import p_value
from sordino.mechanisms import ExponentialMechanism, NoisyTopK, PermuteAndFlip

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

_REQUIRED_FLAGS = {"b": "--b", "c": "--c", "families": "--families"}
_FORBIDDEN_FLAGS = {
    "score": "--score",
    "sensitivity": "--sensitivity",
    "monotone": "--monotone",
    "step": "--step",
    "method": "--method",
}
_STATISTIC_FLAGS = {
    **_REQUIRED_FLAGS,
    "scale": "--scale",
    "damping": "--damping",
    "allow_approximate": "--allow-approximate",
}

statistic_options = stacked(
    click.option(
        "--statistic",
        type=click.Choice(["tdt"]),
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


def check_no_statistic(options: dict[str, Any]) -> None:
    """Refuse options that go with a statistic where there is none."""
    for name, flag in _STATISTIC_FLAGS.items():
        if _is_option_given(options[name]):
            raise InvalidParameter(f"{flag} needs --statistic tdt.")
    if options["score"] is None:
        raise InvalidParameter(
            "--score must name the column of private scores, unless --statistic computes them; got none."
        )


def _is_option_given(value: Any) -> bool:
    """Tell whether an option was given: 0 is a value, too."""
    return value is not None and value is not False


def _check_statistic_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a release about families, of which one is replaced."""
    for name, flag in _FORBIDDEN_FLAGS.items():
        if _is_option_given(options[name]):
            raise InvalidParameter(
                f"{flag} does not go with --statistic: the score, how far it moves and the method follow "
                "from it."
            )
    for name, flag in _REQUIRED_FLAGS.items():
        if options[name] is None:
            raise InvalidParameter(f"{flag} must be given with --statistic {options['statistic']}.")
    # The default is add-remove: only an adjacency that was asked for is refused.
    given = click.get_current_context().get_parameter_source("adjacency") is not ParameterSource.DEFAULT
    if given and options["adjacency"] != "replace-one":
        raise InvalidParameter(
            "--adjacency must be replace-one with --statistic: one family is replaced by another."
        )
    # Checked by the names of the options, because epsilon is divided by k before a mechanism sees it.
    POSITIVE("--epsilon", options["epsilon"])
    COUNT("-k", options["k"])
    # The default stands here: one of click would look as if --scale had been given.
    return options | {"adjacency": "replace-one", "scale": options["scale"] or "sqrt"}


def select_markers(path: Path, given: dict[str, Any]) -> None:
    """Release the most significant markers of a file."""
    from sordino.genomics.damped import FAMILIES

    options = _check_statistic_options(given)
    FAMILIES("--families", options["families"])
    entropy = entropy_of(**{name: options[name] for name in ("seed", "synthetic", "ledger_url")})
    form = CsvFormat(delimiter=options["delimiter"], encoding=options["encoding"])
    file = open_markers(path, b=options["b"], c=options["c"], label=options["label"], form=form)
    if not chosen_quiet(options["quiet"]):
        say(NO_COUNT)
    # Options that no number of markers allows are refused before the charge.
    method_of(options, markers=2)
    public = ("statistic", "b", "c", "label", "families", "scale", "damping", "k", "allow_approximate")
    detail = {name: options[name] for name in public} | {"source": str(path.absolute())}
    # The method follows from the number of markers, which is counted after the charge.
    # So the budget is reserved, and not a mechanism.
    cost, approximate = Pure(epsilon=options["epsilon"]), options["allow_approximate"]
    with payer_of(options, cost, "select", detail, allow_approximate=approximate) as payer:
        method, release, labels = _release_markers(file, options, payer, entropy)
    indices = [release.index] if options["k"] == 1 else release.indices.tolist()
    rows = [
        {"rank": rank, "row": index + 1} | ({} if labels is None else {"label": labels[index]})
        for rank, index in enumerate(indices, start=1)
    ]
    chosen = {
        name: float(value) for name in ("damping", "beta") if (value := getattr(method, name)) is not None
    }
    facts = facts_of(
        "select",
        release,
        options["adjacency"],
        **{name: options[name] for name in ("statistic", "b", "c", "families", "scale")},
        method=method.name,
        **chosen,
        why=method.why,
        candidates=method.markers,
    )
    notes = [
        method.why,
        f"Spent: epsilon {facts['epsilon']:.12g}. Protects: each family, {options['adjacency']}.",
        MARKERS,
    ]
    write_rows(
        options["form"],
        tuple(rows[0]),
        rows,
        facts,
        [*notes, *([] if release.exact else [APPROXIMATE]), *warnings_of(release)],
    )


def method_of(options: dict[str, Any], markers: int) -> Any:
    """Return how one of so many markers is selected."""
    from sordino.genomics import choose_method

    return choose_method(
        markers=markers,
        families=options["families"],
        epsilon=options["epsilon"] / options["k"],
        scale=options["scale"],
        damping=options["damping"],
        exact=not options["allow_approximate"],
    )


def _release_markers(
    file: Any, options: dict[str, Any], payer: Any, entropy: Any
) -> tuple[Any, Any, tuple[str, ...] | None]:
    """Read the counts, and return the method, the release and the labels."""
    from sordino.genomics.significance import select, together

    # The counts are read only after the charge.
    counts = file.read()
    # How many markers there are is public, so this may be said after the charge.
    if options["k"] > counts.b.size:
        raise DataSourceError(
            f"-k must be at most the number of candidates, {counts.b.size}; got {options['k']}."
        )
    method = method_of(options, counts.b.size)
    picked = select(
        method,
        counts.b,
        counts.c,
        options["k"],
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


@click.command()
@click.argument("scores", metavar="SCORES.csv", type=click.Path(path_type=Path))
@click.option("--score", metavar="COL", help="Column of private scores.")
@click.option("--label", "--snp", "label", metavar="COL", help="Column of public labels.")
@click.option("-k", "--k", type=int, default=1, show_default=True, help="How many candidates.")
@click.option(
    "--method",
    type=click.Choice(METHODS),
    help="How one is chosen [default: permute-and-flip; noisy-top-k for several, with gaps].",
)
@EPSILON
@statement_options
@statistic_options
@ADJACENCY
@csv_format
@release_options
def select(scores: Path, **options: Any) -> None:
    """Release the best of the candidates in SCORES.csv: each line is one, and only its score is private.

    A score that is no finite number counts as the lowest. Any score moves by at most --sensitivity S between
    neighbours.

    With --statistic tdt each line is a marker of a genome, and only the counts in the columns --b and --c are
    private: how often heterozygous parents transmitted each allele. Neighbours are data of as many families
    of which one was replaced. What is no count becomes one by rule. Nothing is said about how far scores
    move: that is known.
    """
    if options["statistic"] is not None:
        select_markers(scores, options)
        return
    check_no_statistic(options)
    method = options["method"] or (METHODS[0] if options["k"] == 1 else METHODS[2])
    if options["k"] != 1 and method != METHODS[2]:
        raise InvalidParameter(f"--method must be {METHODS[2]} for several candidates; got {method}.")
    # All parameters of the mechanism are checked here, before a file is opened.
    mechanism = _build_selector(method, options)
    entropy = entropy_of(**{name: options[name] for name in ("seed", "synthetic", "ledger_url")})
    form = CsvFormat(delimiter=options["delimiter"], encoding=options["encoding"])
    file = open_scores(scores, score=options["score"], label=options["label"], form=form)
    if not chosen_quiet(options["quiet"]):
        say(LOWEST)
    public = ("score", "label", "k", "sensitivity", "monotone", "step")
    detail = {name: options[name] for name in public} | {"method": method, "source": str(scores.absolute())}
    with payer_of(options, mechanism, "select", detail) as payer:
        # The scores are read only after the charge.
        read = file.read()
        # How many candidates there are is public, so this may be said after the charge.
        if options["k"] > read.values.size:
            raise DataSourceError(
                f"-k must be at most the number of candidates, {read.values.size}; got {options['k']}."
            )
        release = payer.release(mechanism, read.values, entropy=entropy)
    rows = [
        {"rank": rank + 1, "row": index + 1}
        | ({} if read.labels is None else {"label": read.labels[index]})
        | more
        for rank, (index, more) in enumerate(_list_selected(method, release))
    ]
    facts = facts_of(
        "select",
        release,
        options["adjacency"],
        method=method,
        score=options["score"],
        sensitivity=float(options["sensitivity"]),
        monotone=options["monotone"],
        step=None if options["step"] is None else float(options["step"]),
        candidates=int(read.values.size),
    )
    notes = [
        f"Spent: epsilon {facts['epsilon']:.12g}. Protects: as --sensitivity says, {options['adjacency']}.",
        LABELS,
    ]
    # Two digits are enough for people; programs get all of them.
    if chosen_format(options["form"]) == "table" and rows[0].get("p_value") is not None:
        rows[0]["p_value"] = f"{rows[0]['p_value']:.2g}"
    write_rows(options["form"], tuple(rows[0]), rows, facts, [*NOTES[method], *notes, *warnings_of(release)])


def _build_selector(method: str, options: dict[str, Any]) -> Any:
    common: dict[str, Any] = {"epsilon": options["epsilon"], "sensitivity": statement_of(options)}
    if method == "noisy-top-k":
        return NoisyTopK(k=options["k"], **common)
    return PermuteAndFlip(**common) if method == "permute-and-flip" else ExponentialMechanism(**common)


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
