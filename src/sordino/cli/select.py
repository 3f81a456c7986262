"""`sordino select`: the best of some candidates whose private scores somebody computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, final

import click

from sordino.cli.grouped import GroupedCommand
from sordino.cli.markers import (
    StatisticOptions,
    check_no_statistic,
    make_marker_test,
    select_markers,
    statistic_options,
)
from sordino.cli.options import (
    ADJACENCY,
    EPSILON,
    RunOptions,
    StatementOptions,
    gather,
    is_quiet,
    list_given,
    run_options,
    spell_flags,
    statement_options,
)
from sordino.cli.stderr import say
from sordino.cli.table import confirm_epsilon, plan_alone
from sordino.cli.text_options import CsvOptions, bare_csv_options
from sordino.cli.work import choose_entropy, make_csv_format, make_sensitivity, open_payer
from sordino.cli.write import open_account, write_again, write_release
from sordino.errors import DataSourceError, InvalidParameter
from sordino.estimators import p_value
from sordino.mechanisms import ExponentialMechanism, NoisyTopK, PermuteAndFlip
from sordino.questions import open_scores
from sordino.record import Record, describe_receipt, list_facts, list_warnings
from sordino.sensitivity import Adjacency, Sensitivity
from sordino.sources import CsvFormat

# ---- scores --------------------------------------------------------------------------------------

METHODS = ("permute-and-flip", "exponential", "noisy-top-k")
NOTES = {
    "permute-and-flip": [],
    "exponential": [
        "p_value: of the statement that another candidate is at least as good; from the gap."
    ],
    "noisy-top-k": [
        "gap: lead over the next one, noise included; the last one is the margin over the best "
        "left out."
    ],
}
LOWEST = (
    "By rule, all that stands between the public fields of a line is its score, and what is no "
    "decimal number (1,5 with a comma is none) counts as the lowest; how many do is private."
)
NO_SUCCESS = (
    "How likely the best one is selected (success) is not said: how far apart scores lie is not "
    "known. sordino plan accuracy says which margin is kept."
)
LABELS = (
    "Candidates, their number and their labels are taken as public; only the scores are private."
)


@final
@dataclass(frozen=True, kw_only=True)
class ChoiceOptions:
    """What is chosen, how many, and how."""

    score: str | None
    label: str | None
    k: int
    method: str | None
    # None where a goal stands for it, until that has found it.
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


@click.command(cls=GroupedCommand)
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
    """Release the best of the candidates in SCORES.csv.

    Each line is one, and only its score is private.

    A score that is no finite number counts as the lowest. Any score moves by at most --sensitivity
    S between neighbors.

    With --statistic tdt each line is a marker of a genome, and only the counts in the columns --b
    and --c are private: how often heterozygous parents transmitted each allele. Neighbors are data
    of as many families of which one was replaced. What is no count becomes one by rule. Nothing is
    said about how far scores move: that is known. A report of plink --tdt is read as PLINK writes
    it. How likely the best marker is selected is said; where that is below 0.2 nothing is charged,
    unless --force is given.
    """
    if write_again(run):
        return
    if asked.statistic is not None:
        _check_no_score(choice, statement)
        test = make_marker_test(
            scores, asked, adjacency, label=choice.label, k=choice.k, epsilon=choice.epsilon
        )
        select_markers(scores, test, csv, run)
        return
    check_no_statistic(asked)
    if choice.score is None:
        raise InvalidParameter(
            "--score must name the column of private scores, unless --statistic computes them; got "
            "none."
        )
    score = choice.score
    method = choice.method or (METHODS[0] if choice.k == 1 else METHODS[2])
    if choice.k != 1 and method != METHODS[2]:
        raise InvalidParameter(
            f"--method must be {METHODS[2]} for several candidates; got {method}."
        )
    # All parameters of the mechanism are checked here, before a file is opened.
    stated = make_sensitivity(statement, adjacency)
    if run.goal is not None:
        found = _find_epsilon(scores, score, choice, stated, method, csv, run)
        choice = replace(choice, epsilon=found)
    mechanism = _build_selector(method, choice, stated)
    entropy = choose_entropy(run)
    form = make_csv_format(csv)
    file = open_scores(scores, score=score, label=choice.label, form=form)
    if run.dry_run:
        _write_selection_plan(scores, choice, mechanism, method, form, run, adjacency)
        return
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
        payer.receipt,
        unit="as --sensitivity says",
        adjacency=adjacency,
        method=method,
        score=choice.score,
        sensitivity=float(stated.bound),
        monotone=stated.monotone,
        step=None if stated.step is None else float(stated.step),
        candidates=int(read.values.size),
    )
    notes = [
        f"Spent: epsilon {facts['epsilon']:.12g}. Protects: {facts['unit']}, {adjacency}.",
        *describe_receipt(payer.receipt),
        LABELS,
        NO_SUCCESS,
    ]
    record = Record(
        columns=tuple(rows[0]),
        rows=rows,
        facts=facts,
        notes=[*NOTES[method], *notes, *list_warnings(release)],
    )
    write_release(record, run, payer.keep)


def _find_epsilon(
    scores: Path,
    score: str,
    choice: ChoiceOptions,
    stated: Sensitivity,
    method: str,
    csv: CsvOptions,
    run: RunOptions,
) -> Fraction:
    """Return the smallest epsilon that chooses scores like those of --like as well as wished."""
    from sordino.session.plans.scores import seek_epsilon

    def build(epsilon: Fraction) -> Any:
        return _build_selector(method, replace(choice, epsilon=epsilon), stated)

    form, ledger = make_csv_format(csv), open_account(run)
    assumed = (scores, run.like, run.like_rows, score, form)
    return confirm_epsilon(seek_epsilon(str(run.goal), build, ledger, choice.k, assumed), run)


def _write_selection_plan(
    scores: Path,
    choice: ChoiceOptions,
    mechanism: NoisyTopK | PermuteAndFlip | ExponentialMechanism,
    method: str,
    form: CsvFormat,
    run: RunOptions,
    adjacency: Adjacency,
) -> None:
    """Write what a selection would cost.

    With --like, how often it would be right about such scores.
    """
    from sordino.session.plans.scores import plan_scores

    planned, assumed = plan_scores(
        mechanism, scores, run.like, run.like_rows, str(choice.score), form
    )
    plan_alone(
        "select",
        mechanism,
        run,
        epsilon=choice.epsilon,
        adjacency=adjacency,
        choices=planned,
        assumed=assumed,
        method=method,
    )


def _check_no_score(choice: ChoiceOptions, statement: StatementOptions) -> None:
    """Refuse options that go with scores where a statistic computes them."""
    named = {"score": choice.score, **vars(statement), "method": choice.method}
    given = list_given(spell_flags(named))
    if given:
        raise InvalidParameter(
            f"{given[0]} does not go with --statistic: the score, how far it moves and the method "
            "follow from it."
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
        (
            release.index,
            {"gap": release.gap, "p_value": None if release.gap is None else p_value(release)},
        )
    ]
