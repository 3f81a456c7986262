"""The command `sordino select`: the best of some candidates whose private scores somebody computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sordino.cli._options import ADJACENCY, EPSILON, chosen_format, chosen_quiet, csv_format, release_options, statement_options
from sordino.cli._output import facts_of, warnings_of, write_rows
from sordino.cli._say import say
from sordino.cli._select_markers import check_no_statistic, select_markers, statistic_options
from sordino.cli._work import entropy_of, payer_of, statement_of
from sordino.data import CsvFormat, open_scores
from sordino.errors import DataSourceError, InvalidParameter
from sordino.estimators import p_value
from sordino.mechanisms import ExponentialMechanism, NoisyTopK, PermuteAndFlip

METHODS = ("permute-and-flip", "exponential", "noisy-top-k")
NOTES = {
    "permute-and-flip": [],
    "exponential": ["p_value: of the statement that another candidate is at least as good; from the gap."],
    "noisy-top-k": ["gap: lead over the next one, noise included; the last one is the margin over the best left out."],
}
LOWEST = (
    "By rule, all that stands between the public fields of a line is its score, and what is no decimal number (1,5 with a comma is none) "
    "counts as the lowest; how many do is private."
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

    A score that is no finite number counts as the lowest. Any score moves by at most --sensitivity S between neighbours.

    With --statistic tdt each line is a marker of a genome, and only the counts in the columns --b and --c are private: how often
    heterozygous parents transmitted each allele. Neighbours are data of as many families of which one was replaced. What is no count
    becomes one by rule. Nothing is said about how far scores move: that is known.
    """
    if options["statistic"] is not None:
        select_markers(scores, options)
        return
    check_no_statistic(options)
    method = options["method"] or (METHODS[0] if options["k"] == 1 else METHODS[2])
    if options["k"] != 1 and method != METHODS[2]:
        raise InvalidParameter(f"--method must be {METHODS[2]} for several candidates; got {method}.")
    mechanism = _mechanism(method, options)
    entropy = entropy_of(**{name: options[name] for name in ("seed", "synthetic", "ledger_url")})
    form = CsvFormat(delimiter=options["delimiter"], encoding=options["encoding"])
    file = open_scores(scores, score=options["score"], label=options["label"], form=form)
    if not chosen_quiet(options["quiet"]):
        say(LOWEST)
    public = ("score", "label", "k", "sensitivity", "monotone", "step")
    detail = {name: options[name] for name in public} | {"method": method, "source": str(scores.absolute())}
    with payer_of(options, mechanism, "select", detail) as payer:
        read = file.read()
        if options["k"] > read.values.size:
            raise DataSourceError(f"-k must be at most the number of candidates, {read.values.size}; got {options['k']}.")
        release = payer.release(mechanism, read.values, entropy=entropy)
    rows = [
        {"rank": rank + 1, "row": index + 1} | ({} if read.labels is None else {"label": read.labels[index]}) | more
        for rank, (index, more) in enumerate(_chosen(method, release))
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
    notes = [f"Spent: epsilon {facts['epsilon']:.12g}. Protects: as --sensitivity says, {options['adjacency']}.", LABELS]
    if chosen_format(options["form"]) == "table" and rows[0].get("p_value") is not None:
        rows[0]["p_value"] = f"{rows[0]['p_value']:.2g}"
    write_rows(options["form"], tuple(rows[0]), rows, facts, [*NOTES[method], *notes, *warnings_of(release)])


def _mechanism(method: str, options: dict[str, Any]) -> Any:
    common: dict[str, Any] = {"epsilon": options["epsilon"], "sensitivity": statement_of(options)}
    if method == "noisy-top-k":
        return NoisyTopK(k=options["k"], **common)
    return PermuteAndFlip(**common) if method == "permute-and-flip" else ExponentialMechanism(**common)


def _chosen(method: str, release: Any) -> list[tuple[int, dict[str, Any]]]:
    """Return the places of what was chosen, best first, and what is known about each."""
    if method == "noisy-top-k":
        gaps = [*release.gaps.tolist(), None]
        return [(index, {"gap": gaps[rank]}) for rank, index in enumerate(release.indices.tolist())]
    if method == "permute-and-flip":
        return [(release.index, {})]
    return [(release.index, {"gap": release.gap, "p_value": None if release.gap is None else p_value(release)})]
