"""What the exact audit of all claims looks at, and what it does not look at, and why.

Claim: every proof page of the library belongs to a claim that is audited or is listed here; a test
holds it to that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from sordino.claims import claims
from sordino.constraints import shown
from sordino.errors import InvalidParameter
from sordino_audit._exact import exact
from sordino_audit.report import ClaimReport


def run_claims(name: str | None = None) -> tuple[ClaimReport, ...]:
    """Audit every claim exactly, on the neighbors that it names: what `make audit` runs.

    Parameters
    ----------
    name : str, optional
        Only the claims about this public name.

    Returns
    -------
    tuple of ClaimReport

    Raises
    ------
    InvalidParameter
        If nothing of that name has a claim.

    Examples
    --------
    >>> import sordino_audit as audit
    >>> [report] = audit.run_claims("PermuteAndFlip")
    >>> report.broken, report.tight
    (False, True)
    """
    chosen = [claim for claim in claims() if name is None or claim.name == name]
    if not chosen:
        # A name with a typing error must not pass as a name without claims.
        known = ", ".join(sorted({claim.name for claim in claims()}))
        raise InvalidParameter(f"audit.run_claims.name must be one of {known}; got {shown(name)}.")
    return tuple(
        ClaimReport(
            claim=claim, reports=tuple(exact(m, answers_a=a, answers_b=b) for m, a, b in claim.neighbours)
        )
        for claim in chosen
    )


# ---- what is not audited -----------------------------------------------------------------------------------


@final
@dataclass(frozen=True, kw_only=True)
class Unaudited:
    """A guarantee that `run_claims` does not audit.

    Attributes
    ----------
    name : str
        What it is about.
    statement : str
        The guarantee, in one sentence.
    proof : str
        File name of the page in docs/proofs/ that proves it.
    why : str
        Why it is not audited, and what there is instead.

    Examples
    --------
    >>> import sordino_audit as audit
    >>> [one.proof for one in audit.unaudited() if one.name == "samplers"]
    ['samplers.md']
    """

    name: str
    statement: str
    proof: str
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.statement} Not audited: {self.why} ({self.proof})"


# Reasons that several guarantees have in common.
_WHY_NO_NEIGHBOURS = "the claim names no neighbours; it is proved."
_WHY_POST_PROCESSING = (
    "it works on what was released, so there is no loss to look for; "
    "what it says of the answers is proved and tested."
)
_WHY_NO_DATA = "it sees no data, so there is no loss to look for; its figures are tested against releases."
_WHY_COMPOSITION = (
    "it is about lists of releases, each audited alone; "
    "that costs add up like this is proved, and tested against other routes."
)
_WHY_ITSELF = (
    "an auditor cannot acquit itself; its bounds are proved, and it judges mechanisms with known verdicts."
)
# By hand: these guarantees are not about what a mechanism loses.
_UNAUDITED_GUARANTEES = (
    Unaudited(
        name="samplers",
        statement="Noise has exactly its stated law.",
        proof="samplers.md",
        why=(
            "the audit plays laws, not draws; "
            "that draws have these laws is proved, and tested on words that are handed in."
        ),
    ),
    Unaudited(
        name="domain_size",
        statement="Releases over more than 65536 items have the law of the computation item by item.",
        proof="noisy-top-k.md",
        why=(
            "the audit goes item by item; "
            "that large domains have this law is proved, and the tests enumerate it on small ones."
        ),
    ),
    Unaudited(
        name="grid and sensitivity",
        statement=(
            "Answers become whole steps that move by no more than the statement of their sensitivity says."
        ),
        proof="grid.md",
        why=(
            "the audit believes the statement of sensitivity and begins on the grid; "
            "both are proved and tested."
        ),
    ),
    Unaudited(
        name="Sensitivity",
        statement="The spread and `over` follow from what a statement says of each answer.",
        proof="sensitivity.md",
        why="it is arithmetic on statements; it is proved and tested.",
    ),
    Unaudited(
        name="Session",
        statement="Counts of a table move between neighbouring tables by what the session states.",
        proof="counts.md",
        why="there is no noise in it; it is proved, and tested on tables and their neighbours.",
    ),
    Unaudited(
        name="Session",
        statement="Whether a predicate keeps a row is a function of the values of that row alone.",
        proof="predicates.md",
        why=(
            "there is no noise in it; "
            "it is proved, and each row is asked about in a table of its own and in company."
        ),
    ),
    Unaudited(
        name="Session",
        statement=(
            "Bucket counts and clipped sums of a column are sums over units "
            "of what the rows of each unit alone determine."
        ),
        proof="numbers.md",
        why="there is no noise in it; it is proved, and tested on tables of every kind and their neighbours.",
    ),
    Unaudited(
        name="Session",
        statement="A unit that counts in at most G groups pays for G releases, replaced for twice as many.",
        proof="groups.md",
        why=(
            "it composes audited claims; "
            "its proof is tested on small tables, every view, with all noise added up."
        ),
    ),
    Unaudited(
        name="ClippedAgain",
        statement="Another look within a clip that was found costs its budget, whatever was released before.",
        proof="clipped-again.md",
        why=(
            "its noise is that of audited claims, for the bounds that these prove; "
            "how far the totals move is enumerated on small tables."
        ),
    ),
    Unaudited(
        name="Session",
        statement="Counts of rows with a number and without move by as many rows as one unit has.",
        proof="numbers-share.md",
        why="its noise is that of audited claims; what it is made for is enumerated on small tables.",
    ),
    Unaudited(
        name="Session",
        statement=(
            "Figures within a declared range move by what their folded noise is made for, and are unbiased."
        ),
        proof="bounded-figures.md",
        why=(
            "its noise is that of FoldedMechanism, which is audited; "
            "what moves figures is proved, and tested on small tables."
        ),
    ),
    Unaudited(
        name="derive",
        statement="Sums, differences and ratios of released figures have intervals that hold.",
        proof="derived-figures.md",
        why=_WHY_POST_PROCESSING,
    ),
    Unaudited(
        name="most_significant",
        statement=(
            "Statistics of a genome move between neighbouring families "
            "by what the mechanism that selects was told."
        ),
        proof="most-significant.md",
        why=(
            "the audit judges the mechanisms; "
            "that statistics and bounds move so is proved, and enumerated over tables of few families."
        ),
    ),
    Unaudited(
        name="choose_selector",
        statement="Which mechanism is chosen depends on public numbers alone.",
        proof="choosing-a-selector.md",
        why=_WHY_NO_DATA,
    ),
    Unaudited(
        name="choose_top_k",
        statement="Whether a list or a set is chosen depends on public numbers alone.",
        proof="choosing-a-selector.md",
        why=_WHY_NO_DATA,
    ),
    Unaudited(
        name="Session.randomize and mean_of_reports",
        statement=(
            "Reports of the records of one unit are M epsilon-private; "
            "the interval covers the mean of the numbers."
        ),
        proof="reports.md",
        why=(
            "each report is one of CompositeMechanism, which is audited; "
            "that no other one changes is proved, and tested line by line."
        ),
    ),
    Unaudited(
        name="BucketCounts",
        statement=(
            "Each record adds to the counts of buckets, and to sums of clipped steps, "
            "what depends on this record alone."
        ),
        proof="bucket-counts.md",
        why="there is no noise in it; it is proved, and tested on columns of every kind.",
    ),
    Unaudited(
        name="smooth",
        statement=(
            "Bounds are at least what one unit can change, "
            "and change by a factor of e^beta at most with one unit."
        ),
        proof="smooth-bounds.md",
        why=(
            "there is no noise in it; "
            "it is proved, tested on all small data sets, and `audit.smooth_bound` tries any bound."
        ),
    ),
    Unaudited(
        name="interval",
        statement="An interval covers its answer with at least the stated confidence.",
        proof="intervals.md",
        why=_WHY_POST_PROCESSING,
    ),
    Unaudited(
        name="estimate_rows",
        statement="A row has one number inside its interval; intervals, clear order and true bounds "
        "hold with the stated confidence.",
        proof="selected-rows.md",
        why=_WHY_POST_PROCESSING,
    ),
    Unaudited(
        name="add_rows, divide_rows, rank_rows and combine_looks",
        statement="Intervals of figures that are made of rows hold with the stated confidence.",
        proof="derived-figures.md",
        why=_WHY_POST_PROCESSING,
    ),
    Unaudited(
        name="combine_gaps",
        statement="Estimates are unbiased for fixed items and have the least variance of all linear ones.",
        proof="combine-gaps.md",
        why=_WHY_POST_PROCESSING,
    ),
    Unaudited(
        name="p_value",
        statement="The p-value of a lead is valid, also given what was selected.",
        proof="exponential-mechanism.md",
        why=_WHY_POST_PROCESSING,
    ),
    Unaudited(
        name="lower_bound",
        statement="A lower bound of what a sparse vector found holds with at least the stated confidence.",
        proof="lower-bounds.md",
        why=_WHY_POST_PROCESSING,
    ),
    Unaudited(
        name="plan",
        statement="Forecasts of noise and of success hold for the laws that are sampled.",
        proof="accuracy.md",
        why=(
            "they are computed from public parameters before anything is released; "
            "they are proved and tested."
        ),
    ),
    Unaudited(
        name="cost.compose",
        statement="Costs of a list of releases add up in each of their views.",
        proof="composition.md",
        why=_WHY_COMPOSITION,
    ),
    Unaudited(
        name="cost",
        statement="The rho of a cost is at least its Rényi divergence over the order, at every order.",
        proof="smallest-rho.md",
        why="it is about curves, each audited with its mechanism; it is proved, and tested in many digits.",
    ),
    Unaudited(
        name="GumbelStage",
        statement="No list makes a stage with Gumbel noise lose more than its closed forms.",
        proof="gumbel-stage.md",
        why=(
            "a claim of GumbelSparseVector audits it on lists of twelve; "
            "that it holds for all lists is proved, and lists of thousands come within 1 %."
        ),
    ),
    Unaudited(
        name="accounting.pld",
        statement="Dominating pairs bound the loss of what they stand for, and of all of it together.",
        proof="dominating-pairs.md",
        why=_WHY_COMPOSITION,
    ),
    Unaudited(
        name="PureFilter and the other filters",
        statement="Releases that a filter lets through keep its limits together, however they are chosen.",
        proof="filters.md",
        why=_WHY_COMPOSITION,
    ),
    Unaudited(
        name="Budget(epsilon=, delta=)",
        statement=(
            "All that an account at one Rényi order, or one of rhos that keeps deltas, lets through is "
            "(epsilon, delta)-private together."
        ),
        proof="renyi-accounts.md",
        why=_WHY_COMPOSITION,
    ),
    Unaudited(
        name="Session",
        statement=(
            "Which noise a release gets follows from public numbers. It costs at most what pure noise of its "
            "epsilon is worth."
        ),
        proof="noise-choice.md",
        why="it chooses among mechanisms, each audited alone; the rule is proved, and tested over lists.",
    ),
    Unaudited(
        name="audit.exact",
        statement="What a report says holds for certain.",
        proof="exact-audit.md",
        why=_WHY_ITSELF,
    ),
    Unaudited(
        name="audit.statistical",
        statement="What a report says holds with the stated confidence.",
        proof="statistical-audit.md",
        why=_WHY_ITSELF,
    ),
)


def unaudited() -> tuple[Unaudited, ...]:
    """Return what `run_claims` does not audit, and why.

    Returns
    -------
    tuple of Unaudited
        Claims that name no neighbors, and guarantees that are not about what a mechanism loses.

    Examples
    --------
    >>> import sordino_audit as audit
    >>> print(audit.unaudited()[0])
    samplers: Noise has exactly its stated law. Not audited: the audit plays laws, ... (samplers.md)
    """
    # Claims without neighbors are found in the registry, so that none is forgotten.
    silent = [
        Unaudited(name=claim.name, statement=claim.statement, proof=claim.proof, why=_WHY_NO_NEIGHBOURS)
        for claim in claims()
        if not claim.neighbours
    ]
    return (*silent, *_UNAUDITED_GUARANTEES)
