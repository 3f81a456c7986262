"""What a command does only if it is meant: to spend so much that a release hides nobody any more.

Everything here is decided by public parameters, before a file is opened. It is the command that
asks: who calls the library writes the number down in a program.
"""

from __future__ import annotations

from fractions import Fraction

import click

from sordino.errors import InvalidParameter

MOST_EPSILON = 10
"""What one release may spend unasked."""
MOST_BUDGET = 100
"""What an account, or a share of one, may hold unasked."""
MOST_DELTA = Fraction(1, 1000)
"""The largest delta that an account may have unasked; of N units, where that is less, 1/N."""

CONSENT = click.option(
    "--yes-i-mean-it",
    "consent",
    is_flag=True,
    # Read before the options that need it, wherever it stands.
    is_eager=True,
    help="Allow an amount so large that it may tell nearly everything about somebody.",
)


def require_consent(what: str, epsilon: Fraction, most: int, *, given: bool) -> None:
    """Refuse an epsilon above `most` unless it is meant; the message says what a reader may learn.

    Raises
    ------
    InvalidParameter
        If it is larger and consent was not given.
    """
    if given or epsilon <= most:
        return
    # Imported here: hardly any release needs it.
    from sordino.cost.odds import say_odds

    raise InvalidParameter(
        f"{what} must be at most {most} unless --yes-i-mean-it is given. {say_odds(epsilon)}"
    )


def require_small_delta(delta: Fraction, units: int | None, *, given: bool) -> None:
    """Refuse a delta at which somebody may be published as they are, unless that is meant.

    Publishing each unit with probability delta is (0, delta)-private: of N units N times delta.

    Raises
    ------
    InvalidParameter
        If it is above 1/1000 or, of N units, above 1/N, and consent was not given.
    """
    limit = MOST_DELTA if units is None else min(MOST_DELTA, Fraction(1, units))
    if given or delta <= limit:
        return
    from sordino.cost.conversion import digits

    most = digits(MOST_DELTA) if limit == MOST_DELTA else f"1/{units}"
    among = "" if units is None else f": of {units:,} people {digits(units * delta)} on average"
    raise InvalidParameter(
        f"--delta must be at most {most} unless --yes-i-mean-it is given. Who publishes the rows "
        f"of each person with a probability of {digits(delta)} keeps that promise, too{among}."
    )


def check_epsilon(
    ctx: click.Context, param: click.Parameter, epsilon: Fraction | None
) -> Fraction | None:
    """Ask whether the epsilon of a release is meant: before anything else of the command is done.

    None where a goal says what it shall reach.
    """
    wished = ctx.params.get("goal")
    if epsilon is None:
        if wished is None:
            raise click.MissingParameter(ctx=ctx, param=param)
        return None
    if wished is not None:
        raise InvalidParameter(
            "--goal takes the place of --epsilon, which is looked for; got both. Leave one of them "
            "out."
        )
    require_consent("--epsilon", epsilon, MOST_EPSILON, given=ctx.params["consent"])
    return epsilon


def check_delta(
    ctx: click.Context, _param: click.Parameter, delta: Fraction | None
) -> Fraction | None:
    """Ask whether the delta of a release is meant, as `check_epsilon` does.

    None where none is given.
    """
    if delta is not None:
        require_small_delta(delta, None, given=ctx.params["consent"])
    return delta
