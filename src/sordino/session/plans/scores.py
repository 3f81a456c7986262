"""How often the best of some scores is selected, of scores that are public or made up."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from sordino.constraints import shown
from sordino.entropy import Seeded
from sordino.errors import InvalidParameter
from sordino.ledger import Ledger
from sordino.plan.chosen import Chances
from sordino.plan.goals import seek_right
from sordino.questions import open_scores
from sordino.session.plans.plan import PlannedChoice
from sordino.session.plans.shapes import is_shape, parse_shape
from sordino.sources import CsvFormat
from sordino.sources.nearby import find_origin, find_tie

_RUNS = 400
# With very many candidates it is selected less often: so many candidates together.
_TOGETHER, _LEAST_RUNS = 1 << 22, 20


def plan_scores(
    mechanism: Any, private: Path, like: str | None, number: int | None, score: str, form: CsvFormat
) -> tuple[list[PlannedChoice], str]:
    """Return how often the best are selected, and what is assumed.

    Nothing where nobody says what to assume.

    Parameters
    ----------
    mechanism : object
        That selects.
    private : Path
        The file of the private scores, which is not looked at.
    like : str or None
        "steps:HOWMANYxSCORE,...", or a file of public scores with that column.
    number : int or None
        Belongs to shapes that say nothing of how many there are, of which there is none for scores.
    score : str
        The column of the scores.
    form : CsvFormat
        How the file is written.
    """
    if number is not None:
        raise InvalidParameter(
            "--like-rows is for a table: steps and public scores say how many there are."
        )
    if like is None:
        return [], ""
    scores = _read_scores(private, like, score, form)
    k = getattr(mechanism, "k", 1)
    if k > scores.size:
        raise InvalidParameter(
            f"-k must be at most the number of scores of --like, {scores.size}; got {k}."
        )
    least = float(np.sort(scores)[-k])
    times = int(max(_LEAST_RUNS, min(_RUNS, _TOGETHER // scores.size)))
    noise, hits = Seeded(2), []
    for _ in range(times):
        found = mechanism.release(scores, entropy=noise)
        named = [found.index] if hasattr(found, "index") else found.indices.tolist()
        hits.append(sum(scores[place] >= least for place in named))
    chances = Chances(
        right=sum(hit == k for hit in hits) / times,
        share=float(sum(hits)) / times / k,
        wrong=k - float(sum(hits)) / times,
        runs=times,
    )
    choice = PlannedChoice(
        like=like,
        right=chances.right,
        share=chances.share,
        wrong=chances.wrong,
        error=chances.error,
        runs=times,
    )
    return [choice], f"{scores.size:,} scores like {like}"


def seek_epsilon(
    goal: str,
    build: Callable[[Fraction], Any],
    ledger: Ledger | None,
    k: int,
    assumed: tuple[Path, str | None, int | None, str, CsvFormat],
) -> Fraction:
    """Return the smallest epsilon that chooses the best of assumed scores as often as wished.

    Parameters
    ----------
    goal : str
        Such as "right with 90%".
    build : function
        Makes the selection of an epsilon.
    ledger : Ledger or None
        The account, of which no more is taken than it has.
    k : int
        How many are chosen.
    assumed : tuple
        What `plan_scores` is handed behind the mechanism.

    Raises
    ------
    InvalidParameter, BudgetExceeded
        If the goal is none of a choice, nobody says what to assume, or it cannot be reached.
    """
    if assumed[1] is None:
        raise InvalidParameter(
            "select.goal must come with --like, which says how far scores lie apart; got none."
        )

    def succeed(epsilon: Fraction, _enough: float) -> float:
        [choice], _ = plan_scores(build(epsilon), *assumed)
        # An estimate is as likely too high as too low.
        return choice.right - choice.error

    def fits(epsilon: Fraction) -> None:
        if ledger is not None:
            ledger.preview(build(epsilon))

    return seek_right("select", goal, k, succeed, fits, exact=False)


def describe_success(like: str, success: float) -> PlannedChoice:
    """Return a success that is computed, and not simulated."""
    return PlannedChoice(
        like=like, right=success, share=success, wrong=1 - success, error=0.0, runs=0
    )


def _read_scores(private: Path, like: str, score: str, form: CsvFormat) -> Any:
    """Return made-up or public scores."""
    if is_shape(like):
        shape = parse_shape(like)
        if shape.kind != "steps":
            raise InvalidParameter(
                "--like must be steps:HOWMANYxSCORE,... or a file of public scores; got "
                f"{shown(like)}."
            )
        return np.repeat([much for _, much in shape.steps], [many for many, _ in shape.steps])
    path = Path(like)
    # What is no file is refused where it is opened.
    if path.is_file() and (reason := find_tie(path, [private]) or find_origin(path)):
        raise InvalidParameter(
            f"--like must name public scores; got {shown(like)}, which {reason}. A plan of private "
            "scores would be a release that nobody pays for."
        )
    return open_scores(path, score=score, form=form).read().values
