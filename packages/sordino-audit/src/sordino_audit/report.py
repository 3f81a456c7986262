"""The reports of all audits: frozen values, each bound with what it covers.

An exact audit finds bounds from both sides, runs of a black box bounds from below at a stated
confidence, pairs of data what a smooth bound misses; the report of a claim has one for each of its
neighbors. Bounds are rounded outward where they are written, and long values are cut.

Claim: what is written of a bound from below is never more, of one from above never less. Floats:
converted exactly.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, final

import numpy as np

from sordino.claims import Claim
from sordino.cost import Approximate, Cost
from sordino.errors import ClaimBroken, InvalidParameter
from sordino.releases import plain

_BOUND_SLACK = 2.0**-40
_TIGHT_TOLERANCE = 1e-6
_HOW_TO_SEE_THE_ERROR = "Call one of the boxes by yourself to see it."

# ---- written -------------------------------------------------------------------------------------


def at_least(x: float, digits: int = 9) -> str:
    """Return a lower bound in words: never more than the bound itself."""
    return _write_rounded(x, digits, ROUND_FLOOR)


def at_most(x: float, digits: int = 9) -> str:
    """Return an upper bound in words: never less than the bound itself."""
    return _write_rounded(x, digits, ROUND_CEILING)


def _write_rounded(x: float, digits: int, rounding: str) -> str:
    return (
        # The decimal of a float is exact before it is rounded to the wanted side.
        f"{Context(prec=digits, rounding=rounding).create_decimal_from_float(x):g}"
        if x and math.isfinite(x)
        else f"{x:g}"
    )


def write_interval(low: float, high: float) -> str:
    """Return a range in words, rounded outward."""
    return (
        f"{at_least(low)} to {at_most(high)}"
        if math.isfinite(high)
        else f"at least {at_least(low)}"
    )


def ready(value: Any) -> Any:
    """Return an output or a list of answers as JSON-ready values.

    What has no JSON form becomes its `repr`.
    """
    if isinstance(value, Mapping):
        return {
            # JSON knows no numbers of numpy.
            int(place) if isinstance(place, np.integer) else place: ready(answer)
            for place, answer in value.items()
        }
    if isinstance(value, list | tuple | np.ndarray):
        return [ready(each) for each in value]
    if isinstance(value, bool | int | float | str | Fraction | Decimal | np.generic | type(None)):
        return plain(value)
    return repr(value)


def short(value: Any) -> str:
    """Return the `repr` of an output or of answers, cut to fit on a line."""
    text = repr(value.tolist() if hasattr(value, "tolist") else value)
    return text if len(text) <= 60 else text[:57] + "..."


class Report(ABC):
    """What all reports have: a verdict, an error for a broken claim, and a form for JSON."""

    @property
    @abstractmethod
    def broken(self) -> bool:
        """True if what was claimed is refuted."""

    @abstractmethod
    def _complaint(self) -> str:
        """Return the sentence about a claim that is refuted."""

    @property
    def _verdict(self) -> str:
        return "BROKEN" if self.broken else "not broken"

    def raise_if_broken(self) -> None:
        """Raise `ClaimBroken` if what was claimed is refuted."""
        if self.broken:
            raise ClaimBroken(self._complaint())

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready values; what is infinite is None."""
        values: dict[str, Any] = plain({**vars(self), "broken": self.broken, **self._written()})
        return values

    def _written(self) -> dict[str, Any]:
        """Return what JSON has beside the fields, or instead of them."""
        return {}


@final
@dataclass(frozen=True, kw_only=True)
class Witness:
    """Where the loss was found to be largest, with all that is needed to compute it again.

    Attributes
    ----------
    output : object
        The output, or its class under the partition.
    answers_a, answers_b : object
        The neighbors, in this order: the output is more likely under `answers_a`.
    at_least, at_most : float
        Bounds of the log ratio of the probabilities of this output, in nats.
    claimed : float
        What is claimed for this output; inf if no pure epsilon is claimed.

    Examples
    --------
    >>> import sordino as sd
    >>> import sordino_audit as audit
    >>> report = audit.exact(
    ...     sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING), answers_a=0, answers_b=1
    ... )
    >>> print(report.witness)
    output (0,) between 0 and 1: log ratio 0.999999999 to 1.00000001
    """

    output: Any
    answers_a: Any
    answers_b: Any
    at_least: float
    at_most: float
    claimed: float

    def __str__(self) -> str:
        return (
            f"output {short(self.output)} between {short(self.answers_a)} and "
            f"{short(self.answers_b)}: log ratio {write_interval(self.at_least, self.at_most)}"
        )


@final
@dataclass(frozen=True, kw_only=True)
class Delta:
    """The largest P_a(S) - e^epsilon P_b(S) over all sets of outputs: bounds, and what is claimed.

    Examples
    --------
    >>> import sordino as sd
    >>> import sordino_audit as audit
    >>> laplace = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING)
    >>> [delta] = audit.exact(laplace, answers_a=0, answers_b=1, epsilons=[0.5]).deltas
    >>> round(delta.at_least, 6), round(delta.at_most, 6), round(delta.claimed, 6)
    (0.287649, 0.287649, 0.287649)
    """

    epsilon: float
    at_least: float
    at_most: float
    claimed: float


@final
@dataclass(frozen=True, kw_only=True)
class Divergence:
    """The Rényi divergence of one order.

    Bounds, what the claim allows, and by how much it is broken.

    `at_most` is inf where the noise alone proves nothing. `beyond_at_least` is by how much the
    claim is broken at least, if each output is counted with what is claimed for it.

    Examples
    --------
    >>> import sordino as sd
    >>> import sordino_audit as audit
    >>> gaussian = sd.GaussianMechanism(rho=0.5, sensitivity=sd.COUNTING)
    >>> [order] = audit.exact(gaussian, answers_a=0, answers_b=1, orders=[2]).divergences
    >>> round(order.at_least, 6), order.claimed
    (1.0, 1.0)
    """

    alpha: float
    at_least: float
    at_most: float
    claimed: float
    beyond_at_least: float


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class ExactReport(Report):
    """Bounds of the privacy loss, over all audited pairs in both orders.

    Attributes
    ----------
    name : str
        What was audited.
    claimed : Cost
        What it claims to spend.
    epsilon_at_least : float
        The loss is at least this, for certain: the lower end at the witness, and never below 0. In
        nats.
    epsilon_at_most : float
        The loss of no audited output is more than this, for certain. Audited are the outputs that
        are likely enough for the noise that was not played to change their ratio by at most a share
        `slack`. If `declared`, it is `epsilon_everywhere` that says so.
    epsilon_everywhere : float
        The loss of no output at all is more than this: proved by the noise alone, if outputs depend
        on the answers only through their sums with the noise, and if `shifts` is true where the
        subject says so. inf where that proves nothing.
    beyond_at_least, beyond_at_most : float
        The same two bounds for the loss less what is claimed for each output; -inf if no pure
        epsilon is claimed.
    interval_beyond_at_least : float
        By how much the loss leaves the interval that a `Range` or a `BoundedRange` claims, at
        least; -inf if no interval is claimed.
    at_claim : Delta or None
        The hockey stick at the pure epsilon that is claimed (with costs of outputs at the cost of
        each), over all outputs.
    deltas : tuple of Delta
        At the epsilons that were asked for, over all outputs, those never played included.
    divergences : tuple of Divergence
        Rényi divergences, where more is claimed than a pure epsilon, or none.
    witness : Witness
        The output with the largest loss: `epsilon_at_least` is reached there.
    overrun : Witness or None
        The output whose loss exceeds what is claimed for it by most: `beyond_at_least` is reached
        there.
    audited, outputs : int
        How many outputs are audited, and how many were seen (the smallest numbers over the pairs).
    unresolved : float
        Upper bound of the probability of all outputs that are not audited.
    tail : float
        Upper bound of the probability of the noise that was not played.
    pairs, vectors : int
        How many pairs and noise vectors were played.
    partitioned : bool
        Whether "output" means a class of a partition: then bounds from above hold for who sees the
        class only.
    declared : bool
        Whether `epsilon_at_most` rests on what the subject declares of itself, see
        `epsilon_everywhere`.
    checked : bool
        Whether a sensitivity statement says that the pairs are neighbors; else it is your word.
    stated : bool
        Whether no noise was played and the law of the outputs is the one that the subject states.
    assumed : str
        What the bounds of a continuous law rest on, in words. Its outputs are then cells: intervals
        of numbers, and single outputs.

    Examples
    --------
    >>> import sordino as sd
    >>> import sordino_audit as audit
    >>> laplace = sd.LaplaceMechanism(epsilon=2, sensitivity=sd.COUNTING)
    >>> audit.exact(laplace, answers_a=0, answers_b=1)
    ExactReport(not broken, epsilon_at_least=1.99999999, epsilon_at_most=2, claimed=Pure(epsilon=2))
    """

    name: str
    claimed: Cost
    epsilon_at_least: float
    epsilon_at_most: float
    epsilon_everywhere: float
    beyond_at_least: float
    beyond_at_most: float
    interval_beyond_at_least: float
    at_claim: Delta | None
    deltas: tuple[Delta, ...]
    divergences: tuple[Divergence, ...]
    witness: Witness
    overrun: Witness | None
    audited: int
    outputs: int
    unresolved: float
    tail: float
    pairs: int
    vectors: int
    partitioned: bool
    declared: bool
    checked: bool
    stated: bool
    assumed: str = ""

    @property
    def broken(self) -> bool:
        """True if the claim is refuted for certain."""
        return (
            # Each view of the claim can refute it by itself.
            self.beyond_at_least > 0
            or self.interval_beyond_at_least > 0
            or (self.at_claim is not None and self.at_claim.at_least > self.at_claim.claimed)
            or any(delta.at_least > delta.claimed for delta in self.deltas)
            or any(divergence.beyond_at_least > 0 for divergence in self.divergences)
        )

    @property
    def complete(self) -> bool:
        """True if `epsilon_at_most` holds for every output (or class), not only for audited ones.

        It may rest on what the subject declares: see `declared`.
        """
        return self.epsilon_everywhere <= self.epsilon_at_most or self.unresolved == 0

    @property
    def delta_at_claim(self) -> float | None:
        """Upper bound of the hockey stick at the claimed epsilon: the claim holds up to this delta.

        None if no pure epsilon is claimed.
        """
        return None if self.at_claim is None else self.at_claim.at_most

    def _complaint(self) -> str:
        return (
            f"{self.name} claims {self.claimed!r}, but {self._found()}. The report has the witness."
        )

    def _found(self) -> str:
        if self.beyond_at_least > 0 and self.overrun is not None:
            return (
                f"loses at least {at_least(self.overrun.at_least)} nats "
                f"where {self.overrun.claimed:.9g} are claimed"
            )
        if self.interval_beyond_at_least > 0:
            return (
                "its loss leaves the claimed interval by at least "
                f"{at_least(self.interval_beyond_at_least)} nats"
            )
        for delta in (*self.deltas, *([] if self.at_claim is None else [self.at_claim])):
            if delta.at_least > delta.claimed:
                return (
                    f"its delta at epsilon {delta.epsilon:.9g} is at least "
                    f"{at_least(delta.at_least)}, not {delta.claimed:.9g}"
                )
        # This is called for a broken claim, and nothing above refuted it: so a divergence does.
        worst = max(self.divergences, key=lambda divergence: divergence.beyond_at_least)
        return (
            f"its Rényi divergence of order {worst.alpha:g} is at least "
            f"{at_least(worst.at_least)}, at least {at_least(worst.beyond_at_least)} beyond what "
            "is claimed for its outputs"
        )

    def _written(self) -> dict[str, Any]:
        # Answers and outputs may be anything: what JSON does not know becomes its `repr`.
        witnesses = {
            "witness": _convert_witness(self.witness),
            "overrun": _convert_witness(self.overrun),
        }
        derived = {"complete": self.complete, "delta_at_claim": self.delta_at_claim}
        return {"claimed": self.claimed.to_dict(), **derived, **witnesses}

    def __repr__(self) -> str:
        return (
            f"ExactReport({self._verdict}, epsilon_at_least={at_least(self.epsilon_at_least)}, "
            f"epsilon_at_most={at_most(self.epsilon_at_most)}, claimed={self.claimed!r})"
        )

    def __str__(self) -> str:
        every, some = (
            ("every class", "classes")
            if self.partitioned
            else ("every output", "cells" if self.assumed else "outputs")
        )
        # A bound from above is never shown without what it covers.
        covered = (
            every
            if self.complete
            else (
                f"{self.audited} {some}; the others have probability "
                f"{at_most(self.unresolved, 2)} at most"
            )
        )
        lines = [
            f"{self.name}: claim {self.claimed!r} {self._verdict}",
            f"  loss     {write_interval(self.epsilon_at_least, self.epsilon_at_most)} ({covered})",
            f"  worst    {self.witness}",
        ]
        lines += [
            f"  delta    {write_interval(each.at_least, each.at_most)} at epsilon "
            f"{each.epsilon:.6g}, claimed {each.claimed:.3g} ({every})"
            for each in self.deltas
        ]
        lines += [
            f"  Rényi    {write_interval(each.at_least, each.at_most)} at order {each.alpha:g}, "
            f"claimed {each.claimed:.9g}"
            for each in self.divergences
        ]
        word = "" if self.checked else ", neighbours on your word"
        what = (
            f"bounded  {self.outputs} cells"
            if self.assumed
            else f"played   {self.vectors} noise vectors"
        )
        lines.append(f"  {what}, {self.pairs} pairs{word}, tail {at_most(self.tail, 2)}")
        # What the bounds rest on is part of what they say.
        if self.stated:
            lines.append(
                "  if       releases have the law that the subject states: no noise was played"
            )
        if self.assumed:
            lines.append(f"  and      {self.assumed}")
        if self.declared:
            lines.append(
                "  if       outputs depend on the answers only through their sums with the noise, "
                "and `shifts` is true where it is said"
            )
        return "\n".join(lines)


def _convert_witness(witness: Any) -> dict[str, Any] | None:
    return (
        None if witness is None else {name: ready(value) for name, value in vars(witness).items()}
    )


# ---- of black boxes ------------------------------------------------------------------------------


@final
@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One event, how often each box hit it, and what that says about its probabilities.

    The hits are those of runs that nothing was learned from.

    Attributes
    ----------
    event : str
        The event, in words.
    more : str
        "a" or "b": the box for which it is more likely.
    hits_more, hits_fewer : int
        How often that box, and the other one, hit it.
    runs : int
        How many runs of each box were tested.
    at_least, at_most : float
        Clopper-Pearson: at least the probability under that box, at most the one under the other.

    Examples
    --------
    >>> import sordino as sd
    >>> import sordino_audit as audit
    >>> coins = [
    ...     audit.black_box(
    ...         audit.Subject(
    ...             laws=[audit.Finite(w)], play=lambda _, z: z, cost=sd.cost.Pure(epsilon=1)
    ...         ),
    ...         0,
    ...         entropy=sd.Seeded(7),
    ...         batch=500,
    ...     )
    ...     for w in ([3, 1], [1, 3])
    ... ]
    >>> audit.statistical(*coins, samples=4000, confidence=0.999, batch=500).witness.more
    'b'
    """

    event: str
    more: str
    hits_more: int
    hits_fewer: int
    runs: int
    at_least: float
    at_most: float

    def __str__(self) -> str:
        fewer = "b" if self.more == "a" else "a"
        return (
            f"{self.event}: {self.hits_more} of {self.runs} runs of {self.more} (at least "
            f"{self.at_least:.4g}), {self.hits_fewer} of {fewer} (at most {self.at_most:.4g})"
        )


@final
@dataclass(frozen=True, kw_only=True)
class Bar:
    """One part of a partition of the outcomes with its hits in the tested runs of both boxes.

    Plots are drawn from these.

    Examples
    --------
    >>> import sordino_audit as audit
    >>> audit.Bar(event="[0] < 3", hits_a=20, hits_b=10).log_ratio
    0.6931471805599453
    """

    event: str
    hits_a: int
    hits_b: int

    @property
    def log_ratio(self) -> float:
        """Natural logarithm of hits_a / hits_b: an estimate, and no bound.

        inf or -inf where one of them is 0, and 0 if both are.
        """
        if not self.hits_a or not self.hits_b:
            return (
                math.inf * ((self.hits_a > 0) - (self.hits_b > 0))
                if self.hits_a != self.hits_b
                else 0.0
            )
        return math.log(self.hits_a / self.hits_b)


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class StatisticalReport(Report):
    """Lower bounds of the privacy loss of a black box.

    All of them together hold with the stated confidence.

    Attributes
    ----------
    name : str
        What was audited.
    claimed : Cost or None
        What it claims to spend.
    confidence : float
        Probability, over the runs, that every lower bound of this report is below the truth.
    epsilon_at_least : float
        The box is not (epsilon, `delta`)-private for a smaller epsilon. In nats, at least 0.
    epsilon_at_most : float
        inf: runs of a black box never bound its loss from above.
    delta : float
        The delta beside `epsilon_at_least`.
    claimed_epsilon : float
        What is claimed for that delta; inf if nothing is.
    deltas : tuple of Delta
        Lower bounds of delta at given epsilons; `at_most` is 1.
    witness : Evidence
        The event behind `epsilon_at_least`.
    evidence : tuple of Evidence
        Those behind `deltas`, in their order.
    beyond_at_least : float
        With costs of single outcomes: by how much more is lost than is charged, at least (nats);
        -inf without them.
    beyond_evidence : Evidence or None
        The event behind it, if there is a single one.
    samples, tested : int
        Runs of each box, and how many of them were tested; what to look for was learned on the
        others.
    bars : tuple of Bar
        A partition of all outcomes around the witness, on the tested runs.
    all_raised : bool
        True if every run of both boxes raised an error: then nothing was audited, most likely
        because the boxes were not given what they take.

    Examples
    --------
    >>> import sordino as sd
    >>> import sordino_audit as audit
    >>> laplace = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING)
    >>> a, b = (
    ...     audit.black_box(laplace, count, entropy=sd.Seeded(count), batch=1000)
    ...     for count in (5, 6)
    ... )
    >>> report = audit.statistical(
    ...     a, b, samples=40_000, confidence=0.999, claimed=laplace.cost, batch=1000
    ... )
    >>> report.broken, 0.9 < report.epsilon_at_least < 1
    (False, True)
    """

    name: str
    claimed: Cost | None
    confidence: float
    epsilon_at_least: float
    epsilon_at_most: float
    delta: float
    claimed_epsilon: float
    deltas: tuple[Delta, ...]
    witness: Evidence
    evidence: tuple[Evidence, ...]
    beyond_at_least: float
    beyond_evidence: Evidence | None
    samples: int
    tested: int
    bars: tuple[Bar, ...]
    all_raised: bool = False

    @property
    def broken(self) -> bool:
        """True if the claim is refuted, at the stated confidence; False if nothing is claimed."""
        return self.claimed is not None and (
            self.epsilon_at_least > self.claimed_epsilon
            or self.beyond_at_least > 0
            or any(each.at_least > each.claimed for each in self.deltas)
        )

    def raise_if_broken(self) -> None:
        """Raise `ClaimBroken` if the claim is refuted at the stated confidence.

        Raise `InvalidParameter` if every run raised an error.
        """
        # Nothing was compared, so that silence would read as an acquittal.
        if self.all_raised:
            raise InvalidParameter(
                f"audit.statistical must see a run that ends; of {self.name} every run raised an "
                f"error. {_HOW_TO_SEE_THE_ERROR}"
            )
        super().raise_if_broken()

    def _complaint(self) -> str:
        found = (
            f"loses at least {self.epsilon_at_least:.6g} nats where {self.claimed_epsilon:.6g} "
            "are claimed"
        )
        if self.epsilon_at_least <= self.claimed_epsilon:
            found = (
                f"an outcome loses at least {self.beyond_at_least:.6g} nats more than is charged "
                "for it"
            )
        # Any delta that is exceeded refutes the claim; the last one is named.
        for each in self.deltas:
            if each.at_least > each.claimed:
                found = (
                    f"its delta at epsilon {each.epsilon:.6g} is at least {each.at_least:.6g}, "
                    f"not {each.claimed:.6g}"
                )
        return (
            f"{self.name} claims {self.claimed!r}, but {found} (confidence {self.confidence:.6g}). "
            "The report has the event."
        )

    def _written(self) -> dict[str, Any]:
        # A box without a claim is only measured.
        return {"claimed": None if self.claimed is None else self.claimed.to_dict()}

    @property
    def _verdict(self) -> str:
        return "EVERY RUN RAISED" if self.all_raised else super()._verdict

    def __repr__(self) -> str:
        return (
            f"StatisticalReport({self._verdict}, epsilon_at_least={self.epsilon_at_least:.3g}, "
            f"confidence={self.confidence:.6g}, claimed={self.claimed!r})"
        )

    def __str__(self) -> str:
        beside = f" beside delta {self.delta:.3g}" if self.delta else ""
        said = (
            "nothing is claimed"
            if self.claimed is None
            else f"claim {self.claimed!r} {self._verdict}"
        )
        if self.all_raised:
            said = f"EVERY RUN RAISED an error; nothing was audited. {_HOW_TO_SEE_THE_ERROR}"
        lines = [
            f"{self.name}: {said}",
            f"  loss     at least {self.epsilon_at_least:.6g}{beside} (confidence "
            f"{self.confidence:.6g})",
            f"  event    {self.witness}",
        ]
        for each, evidence in zip(self.deltas, self.evidence, strict=True):
            lines.append(
                f"  delta    at least {each.at_least:.6g} at epsilon {each.epsilon:.6g}, "
                f"allowed {each.claimed:.3g}"
            )
            lines.append(f"           {evidence}")
        # Without costs of outcomes there is nothing to say about them.
        if self.beyond_at_least > -math.inf:
            said = "" if self.beyond_evidence is None else f" ({self.beyond_evidence})"
            lines.append(
                f"  beyond   at least {self.beyond_at_least:.6g} more than is charged for an "
                f"outcome{said}"
            )
        return "\n".join(
            [*lines, f"  runs     {self.samples} of each, {self.tested} of them tested"]
        )


# ---- of smooth bounds ----------------------------------------------------------------------------


@final
@dataclass(frozen=True, kw_only=True)
class BoundWitness:
    """Where a condition fails, or comes closest to it, with all that is needed to compute it again.

    Attributes
    ----------
    condition : str
        What must not be the case.
    x, y : object
        The neighbors, in this order.
    distance : int
        The distance at which the sensitivity of `x` was asked for; 0 for bounds.
    found, allowed : float
        What must be at most what: the change and the bound of `x`; the bound of `x` and e^beta
        times that of `y`; the sensitivity of `x` at the distance and that of `y` one farther.

    Examples
    --------
    >>> import sordino_audit as audit
    >>> report = audit.smooth_bound(lambda x: 1.0, sum, neighbours=[([1, 2], [1, 5])], beta=0.1)
    >>> print(report.witness)
    the bound is below the change of the statistic: 3 of 1 between [1, 2] and [1, 5]
    """

    condition: str
    x: Any
    y: Any
    distance: int
    found: float
    allowed: float

    @property
    def excess(self) -> float:
        """The logarithm of found/allowed: above 0 where the condition fails."""
        # A change of 0 is allowed by every bound, also by a bound of 0.
        if self.found <= 0:
            return -math.inf
        return math.log(self.found) - math.log(self.allowed) if self.allowed > 0 else math.inf

    def __str__(self) -> str:
        at = f" at distance {self.distance}" if self.distance else ""
        return (
            f"{self.condition}: {self.found:.9g} of {self.allowed:.9g}{at} "
            f"between {short(self.x)} and {short(self.y)}"
        )


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class SmoothBoundReport(Report):
    """What was found out about a smooth bound.

    Attributes
    ----------
    name : str
        What was tried.
    beta : float
        How fast the bound may change, in nats.
    pairs : int
        How many pairs were looked at, in both orders.
    witness : BoundWitness
        The worst case: the condition that fails by most, or holds most narrowly.

    Examples
    --------
    >>> import sordino_audit as audit
    >>> audit.smooth_bound(lambda x: 4.0, sum, neighbours=[([1, 2], [1, 5])], beta=0.1)
    SmoothBoundReport(not broken, pairs=1, excess=-0.1)
    """

    name: str
    beta: float
    pairs: int
    witness: BoundWitness

    @property
    def broken(self) -> bool:
        """True if a condition fails for certain."""
        return self.witness.excess > _BOUND_SLACK

    def _complaint(self) -> str:
        return (
            f"{self.name} is not a {self.beta:g}-smooth bound: {self.witness.condition}. "
            "The report has the witness."
        )

    def _written(self) -> dict[str, Any]:
        return {"witness": _convert_witness(self.witness)}

    def __repr__(self) -> str:
        return (
            f"SmoothBoundReport({self._verdict}, pairs={self.pairs}, "
            f"excess={self.witness.excess:.3g})"
        )

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.beta:g}-smooth bound {self._verdict} on {self.pairs} pairs\n"
            f"  worst    {self.witness}"
        )


# ---- of claims -----------------------------------------------------------------------------------


@final
@dataclass(frozen=True, kw_only=True)
class ClaimReport:
    """One claim with the audits of the neighbors that it names.

    Attributes
    ----------
    claim : Claim
        Guarantee, theorem, proof page, neighbors.
    reports : tuple of ExactReport
        One for each of its neighbors, in their order.

    Examples
    --------
    >>> import sordino_audit as audit
    >>> [report] = audit.run_claims("RandomizedResponse")
    >>> report.claim.proof, report.broken
    ('randomized-response.md', False)
    """

    claim: Claim
    reports: tuple[ExactReport, ...]

    @property
    def broken(self) -> bool:
        """True if any audit refutes the claim."""
        return any(report.broken for report in self.reports)

    @property
    def audited(self) -> bool:
        """True if the claim names neighbors.

        A claim that names none was not audited: its proof page and tests have to do.
        """
        return bool(self.reports)

    @property
    def tight(self) -> bool:
        """True if there are audits, and every one finds a loss within 1e-6 of what is declared."""
        return self.audited and all(_attains_claim(report) for report in self.reports)

    def raise_if_broken(self) -> None:
        """Raise `ClaimBroken` if an audit refutes the claim, or it is called attained and is not.

        A claim without audits raises nothing unless it is said to be attained: see `audited`.
        """
        for report in self.reports:
            report.raise_if_broken()
        # "Attained" is part of the claim: an audit that finds less refutes it.
        if self.claim.tight and not self.tight:
            raise ClaimBroken(
                f"{self.claim.name} claims that its loss is attained, "
                "but it is not on the neighbours that it names."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready values."""
        claim = {
            "name": self.claim.name,
            "statement": self.claim.statement,
            "proof": self.claim.proof,
        }
        values: dict[str, Any] = plain(
            claim
            | {"references": self.claim.references, "broken": self.broken, "tight": self.tight}
        )
        return values | {
            "audited": self.audited,
            "reports": [report.to_dict() for report in self.reports],
        }


def _attains_claim(report: ExactReport) -> bool:
    """Return whether the loss comes within 1e-6 of the claim.

    The loss is the log ratio, the delta of a claim that may fail, or a Rényi divergence.
    """
    if isinstance(report.claimed, Approximate) and report.at_claim is not None:
        # Of a claim that may fail: the delta at its epsilon, each output at its own.
        return report.at_claim.at_least >= report.at_claim.claimed - _TIGHT_TOLERANCE
    if report.at_claim is None:
        return any(each.at_least >= each.claimed - _TIGHT_TOLERANCE for each in report.divergences)
    return report.beyond_at_least >= -_TIGHT_TOLERANCE
