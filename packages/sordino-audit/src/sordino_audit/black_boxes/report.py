"""What a statistical audit found: frozen values that hold at a stated confidence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

from sordino.cost import Cost
from sordino.errors import ClaimBroken, InvalidParameter
from sordino.releases import plain
from sordino_audit.report import Delta

_HOW_TO_SEE_THE_ERROR = "Call one of the boxes by yourself to see it."


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
            f"{self.event}: {self.hits_more} of {self.runs} runs of {self.more} "
            f"(at least {self.at_least:.4g}), "
            f"{self.hits_fewer} of {fewer} (at most {self.at_most:.4g})"
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
            return math.inf * ((self.hits_a > 0) - (self.hits_b > 0)) if self.hits_a != self.hits_b else 0.0
        return math.log(self.hits_a / self.hits_b)


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class StatisticalReport:
    """Lower bounds of the privacy loss of a black box; all of them together hold with the stated confidence.

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
        With costs of single outcomes: by how much more is lost than is charged, at least (nats); -inf without
        them.
    beyond_evidence : Evidence or None
        The event behind it, if there is a single one.
    samples, tested : int
        Runs of each box, and how many of them were tested; what to look for was learned on the others.
    bars : tuple of Bar
        A partition of all outcomes around the witness, on the tested runs.
    all_raised : bool
        True if every run of both boxes raised an error: then nothing was audited, most likely because the
        boxes were not given what they take.

    Examples
    --------
    >>> import sordino as sd
    >>> import sordino_audit as audit
    >>> laplace = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING)
    >>> a, b = (audit.black_box(laplace, count, entropy=sd.Seeded(count), batch=1000) for count in (5, 6))
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
                "audit.statistical must see a run that ends; "
                f"of {self.name} every run raised an error. {_HOW_TO_SEE_THE_ERROR}"
            )
        if not self.broken:
            return
        found = (
            f"loses at least {self.epsilon_at_least:.6g} nats where {self.claimed_epsilon:.6g} are claimed"
        )
        if self.epsilon_at_least <= self.claimed_epsilon:
            found = f"an outcome loses at least {self.beyond_at_least:.6g} nats more than is charged for it"
        # Any delta that is exceeded refutes the claim; the last one is named.
        for each in self.deltas:
            if each.at_least > each.claimed:
                found = (
                    f"its delta at epsilon {each.epsilon:.6g} is at least {each.at_least:.6g}, "
                    f"not {each.claimed:.6g}"
                )
        raise ClaimBroken(
            f"{self.name} claims {self.claimed!r}, but {found} (confidence {self.confidence:.6g}). "
            "The report has the event."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready values; what is infinite is None."""
        # A box without a claim is only measured.
        claimed = None if self.claimed is None else self.claimed.to_dict()
        values: dict[str, Any] = plain({**vars(self), "claimed": claimed, "broken": self.broken})
        return values

    @property
    def _verdict(self) -> str:
        return "EVERY RUN RAISED" if self.all_raised else "BROKEN" if self.broken else "not broken"

    def __repr__(self) -> str:
        return (
            f"StatisticalReport({self._verdict}, epsilon_at_least={self.epsilon_at_least:.3g}, "
            f"confidence={self.confidence:.6g}, claimed={self.claimed!r})"
        )

    def __str__(self) -> str:
        beside = f" beside delta {self.delta:.3g}" if self.delta else ""
        said = "nothing is claimed" if self.claimed is None else f"claim {self.claimed!r} {self._verdict}"
        if self.all_raised:
            said = f"EVERY RUN RAISED an error; nothing was audited. {_HOW_TO_SEE_THE_ERROR}"
        lines = [
            f"{self.name}: {said}",
            f"  loss     at least {self.epsilon_at_least:.6g}{beside} (confidence {self.confidence:.6g})",
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
                f"  beyond   at least {self.beyond_at_least:.6g} more than is charged for an outcome{said}"
            )
        return "\n".join([*lines, f"  runs     {self.samples} of each, {self.tested} of them tested"])
