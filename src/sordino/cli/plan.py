"""`sordino plan`: what to expect of a release before any data is read and anything is charged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from fractions import Fraction
from typing import Any

import click

from sordino.cli.grouped import ShortHelpCommand
from sordino.cli.once import SuggestingGroup
from sordino.cli.options import (
    ADJACENCY,
    FORMAT,
    NUMBER,
    PLANNED_EPSILON,
    StatementOptions,
    Values,
    choose_format,
    stack,
    statement_options,
)
from sordino.cli.output import write_lines
from sordino.cli.work import make_sensitivity
from sordino.errors import InvalidParameter
from sordino.mechanisms import (
    AdaptiveSparseVector,
    ExponentialMechanism,
    GumbelSparseVector,
    HybridSparseVector,
    HybridTopK,
    NoisyTopK,
    PermuteAndFlip,
    SparseVector,
)
from sordino.plan import accuracy as accuracy_of
from sordino.record_text import encode_json
from sordino.releases import parameters, plain
from sordino.sensitivity import Adjacency, Sensitivity

# Each name with its constructor, the options that it needs and those that it takes.
_PLANNED_MECHANISMS: dict[str, tuple[Callable[..., Any], tuple[str, ...], tuple[str, ...]]] = {
    "sparse-vector": (
        SparseVector,
        ("threshold", "positives"),
        (
            "noise",
            "threshold_noise",
            "split",
            "correction",
            "correction_run",
            "correction_margin",
            "resample",
        ),
    ),
    "adaptive-sparse-vector": (
        AdaptiveSparseVector,
        ("threshold", "at_least"),
        ("noise", "threshold_noise", "split", "correction", "correction_run", "correction_margin"),
    ),
    "gumbel-sparse-vector": (GumbelSparseVector, ("threshold", "positives"), ()),
    "noisy-top-k": (NoisyTopK, ("k",), ("noise",)),
    "hybrid-top-k": (HybridTopK, ("k", "threshold"), ("noise",)),
    "hybrid-sparse-vector": (
        HybridSparseVector,
        ("k", "threshold"),
        ("noise", "threshold_noise", "split"),
    ),
    "exponential": (ExponentialMechanism, (), ()),
    "permute-and-flip": (PermuteAndFlip, (), ()),
}
# A message names an option as people write it.
_SHORT_FLAGS = {"k": "-k"}


# The parameters of all mechanisms by their names there; what was not given is None.
parameter_options = stack(
    click.option(
        "--threshold",
        type=NUMBER,
        metavar="T",
        help="Public threshold of a sparse vector or hybrid.",
    ),
    click.option(
        "-c", "--positives", type=int, metavar="C", help="How many a sparse vector finds."
    ),
    click.option(
        "--at-least",
        type=int,
        metavar="C",
        help="How many an adaptive sparse vector finds in any case.",
    ),
    click.option("-k", "--k", type=int, help="How many noisy-top-k or a hybrid selects."),
    click.option(
        "--noise",
        type=click.Choice(["exponential", "laplace", "gumbel"]),
        help="Of the questions, or of the selection.",
    ),
    click.option(
        "--threshold-noise", type=click.Choice(["exponential", "laplace"]), help="Of the threshold."
    ),
    click.option(
        "--split",
        metavar="SHARE",
        help="variance, success or the share of epsilon for the threshold.",
    ),
    click.option(
        "--correction", metavar="NUMBER", help='Public number added to the threshold, or "optimal".'
    ),
    click.option(
        "--correction-run",
        type=int,
        metavar="N",
        help="With those: how many answers below come before one above.",
    ),
    click.option(
        "--correction-margin",
        type=NUMBER,
        metavar="M",
        help="How far they keep from the threshold.",
    ),
    # None and not False, so that a flag that nobody gave does not count as given.
    click.option(
        "--resample", is_flag=True, default=None, help="A new threshold after each positive."
    ),
)


@click.group(cls=SuggestingGroup)
def plan() -> None:
    """Say what to expect of a release: nothing is read, nothing is charged."""


@plan.command(
    cls=ShortHelpCommand,
    first=(
        *("--answers", "--alpha", "--beta", "--epsilon", "--sensitivity", "--monotone"),
        *("--adjacency", "--threshold", "--positives", "--k", "--noise", "--split", "--format"),
    ),
)
@click.argument("mechanism", type=click.Choice(list(_PLANNED_MECHANISMS)))
@click.option(
    "--answers",
    type=int,
    metavar="N",
    required=True,
    help="How many; below, before each positive, of a sparse vector.",
)
@click.option("--alpha", type=NUMBER, help="Margin: how likely is an error by more?")
@click.option("--beta", type=NUMBER, help="Probability of failure: which margin is kept?")
@PLANNED_EPSILON
@statement_options
@ADJACENCY
@parameter_options
@FORMAT
def accuracy(
    mechanism: str,
    answers: int,
    alpha: Fraction | None,
    beta: Fraction | None,
    epsilon: Fraction,
    statement: StatementOptions,
    adjacency: Adjacency,
    form: str | None,
    **given: Any,
) -> None:
    """Say how likely MECHANISM errs by a margin, or what margin it keeps, whatever the answers are.

    From its exact law: give --alpha or --beta, and its parameters as for a release.
    """
    made, needed, taken = _PLANNED_MECHANISMS[mechanism]
    # The command has the options of all mechanisms: what this one lacks or does not take is
    # refused.
    for name, value in given.items():
        if name in needed and value is None:
            raise InvalidParameter(f"{_spell_flag(name)} must be given for {mechanism}.")
        if value is not None and name not in needed + taken:
            raise InvalidParameter(f"{_spell_flag(name)} is no option of {mechanism}.")
    own = {
        name: _read_word_or_number(name, value)
        for name, value in given.items()
        if value is not None
    }
    if made is HybridTopK and answers >= (given["k"] or 0):
        # How many answers there are is public here: where they are just k, there is less noise.
        own["candidates"] = answers
    planned = made(epsilon=epsilon, sensitivity=make_sensitivity(statement, adjacency), **own)
    found = accuracy_of(planned, answers=answers, alpha=alpha, beta=beta)
    said = {"plan": "accuracy", "mechanism": mechanism} | plain(asdict(found))
    # The `repr` of a float is its shortest decimal, which is read back as the same number.
    row = f"{float(found.alpha)!r},{found.beta!r},{found.answers}"
    _write_finding(form, said, ["alpha,beta,answers", row], found.statement)


@plan.command()
@click.option(
    "-m",
    "--candidates",
    type=int,
    metavar="M",
    required=True,
    help="How many candidates there are.",
)
@PLANNED_EPSILON
@statement_options
@ADJACENCY
@click.option(
    "--beta",
    type=NUMBER,
    help="There is a smooth bound: how smooth it is, in nats a record. With --floor and --typical.",
)
@click.option("--floor", type=NUMBER, help="Smaller smooth bounds are raised to it.")
@click.option(
    "--typical", type=NUMBER, help="About how large the smooth bound will be, a public guess."
)
@click.option(
    "--exact", is_flag=True, help="Leave out noise whose guarantee holds in ideal arithmetic only."
)
@FORMAT
def selector(
    candidates: int,
    epsilon: Fraction,
    statement: StatementOptions,
    adjacency: Adjacency,
    beta: Fraction | None,
    floor: Fraction | None,
    typical: Fraction | None,
    exact: bool,
    form: str | None,
) -> None:
    """Say which mechanism selects the best of M private scores most often, and why.

    The scores that are tried are magnitudes of normal numbers: scores like |z| without any effect.
    Without --sensitivity nothing is known about how far scores move.
    """
    from sordino.plan import choose_selector

    found = choose_selector(
        m=candidates,
        epsilon=epsilon,
        sensitivity=None
        if statement.sensitivity is None
        else make_sensitivity(statement, adjacency),
        beta=beta,
        floor=floor,
        typical=typical,
        exact=exact,
    )
    rows = [(type(one.mechanism).__name__, one.success) for one in found.alternatives]
    said = {
        "plan": "selector",
        "mechanism": _describe_mechanism(found.mechanism),
        "success": found.success,
        "why": found.why,
        "alternatives": [{"mechanism": name, "success": success} for name, success in rows],
    }
    table = ["mechanism,success", *(f"{name},{success!r}" for name, success in rows)]
    _write_finding(form, said, table, found.why)


@plan.command(name="top-k")
@click.option("-k", "--k", type=int, required=True, help="How many counts are selected.")
@click.option(
    "-m",
    "--candidates",
    type=int,
    metavar="M",
    required=True,
    help="How many counts there are, with zeros.",
)
@PLANNED_EPSILON
@statement_options
@ADJACENCY
@click.option(
    "--kth-count",
    type=NUMBER,
    metavar="N",
    help="About how large the K-th count is, a public guess.",
)
@click.option(
    "--decay",
    type=NUMBER,
    default="0.5",
    show_default=True,
    help=(
        "How fast counts fall down to the K-th, as 1/rank^DECAY: 1 for Zipf's law, 0 for equal "
        "ones."
    ),
)
@click.option("--ordered", is_flag=True, help="The order or gaps are wanted, which a set has not.")
@FORMAT
def top_k(
    k: int,
    candidates: int,
    epsilon: Fraction,
    statement: StatementOptions,
    adjacency: Adjacency,
    kth_count: Fraction | None,
    decay: Fraction,
    ordered: bool,
    form: str | None,
) -> None:
    """Say whether a list or a set finds more of the K largest of M counts, and why.

    --epsilon is what chooses: of `sordino top` its --selection-share. Without --sensitivity they
    are counts of units.
    """
    from sordino.plan import choose_top_k

    counted = Sensitivity(bound=1, monotone=adjacency == "add-remove", adjacency=adjacency, step=1)
    found = choose_top_k(
        k=k,
        m=candidates,
        epsilon=epsilon,
        sensitivity=counted
        if statement.sensitivity is None
        else make_sensitivity(statement, adjacency),
        kth_count=kth_count,
        decay=decay,
        ordered=ordered,
    )
    said = {
        "plan": "top-k",
        "mechanism": _describe_mechanism(found.mechanism),
        "kth": found.kth,
        "needed": found.needed,
        "why": found.why,
    }
    kth = "" if found.kth is None else repr(found.kth)
    row = f"{type(found.mechanism).__name__},{kth},{found.needed!r}"
    _write_finding(form, said, ["mechanism,kth,needed", row], found.why)


def _describe_mechanism(mechanism: object) -> Values:
    """Return the name and the parameters of a mechanism, as JSON has them."""
    return {"name": type(mechanism).__name__, **plain(parameters(mechanism))}


def _write_finding(form: str | None, said: Values, table: list[str], sentence: str) -> None:
    """Write a plan: as JSON, as CSV, or as the sentence that says it."""
    chosen = choose_format(form)
    if chosen == "csv":
        write_lines(table)
    else:
        write_lines([encode_json(said, indent=2) if chosen == "json" else sentence])


def _spell_flag(name: str) -> str:
    return _SHORT_FLAGS.get(name, "--" + name.replace("_", "-"))


def _read_word_or_number(name: str, value: Any) -> Any:
    """Return an option that may be a word or a number."""
    # These two come as texts; click has converted all others already.
    words = {"split": ("variance", "success"), "correction": ("optimal",)}
    if name not in words or value in words[name]:
        return value
    try:
        number: Fraction = NUMBER.convert(value, None, None)
    except click.BadParameter:
        listed = " or ".join(repr(word) for word in words[name])
        raise InvalidParameter(
            f"{_spell_flag(name)} must be {listed} or a number; got {value!r}."
        ) from None
    return number
