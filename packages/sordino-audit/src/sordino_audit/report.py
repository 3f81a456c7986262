"""The report of an exact audit: frozen values, each bound with what it covers.

How reports write bounds, outputs and answers: bounds are rounded outward, long values are cut.

Claim: what is written of a bound from below is never more, of one from above never less. Floats: converted
exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, final

import numpy as np

from sordino.cost import Cost
from sordino.errors import ClaimBroken
from sordino.releases import plain

# ---- written -----------------------------------------------------------------------------------------------


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
    return f"{at_least(low)} to {at_most(high)}" if math.isfinite(high) else f"at least {at_least(low)}"


def ready(value: Any) -> Any:
    """Return an output or a list of answers as JSON-ready values, or the `repr` of what has no JSON form."""
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
            f"output {short(self.output)} between {short(self.answers_a)} and {short(self.answers_b)}: "
            f"log ratio {write_interval(self.at_least, self.at_most)}"
        )


@final
@dataclass(frozen=True, kw_only=True)
class Delta:
    """The largest P_a(S) - e^epsilon P_b(S) over all sets of outputs: bounds, and what the claim allows.

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
    """The Rényi divergence of one order: bounds, what the claim allows, and by how much it is broken.

    `at_most` is inf where the noise alone proves nothing. `beyond_at_least` is by how much the claim is
    broken at least, if each output is counted with what is claimed for it.

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
class ExactReport:
    """Bounds of the privacy loss, over all audited pairs in both orders.

    Attributes
    ----------
    name : str
        What was audited.
    claimed : Cost
        What it claims to spend.
    epsilon_at_least : float
        The loss is at least this, for certain: the lower end at the witness, and never below 0. In nats.
    epsilon_at_most : float
        The loss of no audited output is more than this, for certain. Audited are the outputs that are likely
        enough for the noise that was not played to change their ratio by at most a share `slack`. If
        `declared`, it is `epsilon_everywhere` that says so.
    epsilon_everywhere : float
        The loss of no output at all is more than this: proved by the noise alone, if outputs depend on the
        answers only through their sums with the noise, and if `shifts` is true where the subject says so. inf
        where that proves nothing.
    beyond_at_least, beyond_at_most : float
        The same two bounds for the loss less what is claimed for each output; -inf if no pure epsilon is
        claimed.
    interval_beyond_at_least : float
        By how much the loss leaves the interval that a `Range` or a `BoundedRange` claims, at least; -inf if
        no interval is claimed.
    at_claim : Delta or None
        The hockey stick at the pure epsilon that is claimed (with costs of outputs at the cost of each), over
        all outputs.
    deltas : tuple of Delta
        At the epsilons that were asked for, over all outputs, those never played included.
    divergences : tuple of Divergence
        Rényi divergences, where more is claimed than a pure epsilon, or none.
    witness : Witness
        The output with the largest loss: `epsilon_at_least` is reached there.
    overrun : Witness or None
        The output whose loss exceeds what is claimed for it by most: `beyond_at_least` is reached there.
    audited, outputs : int
        How many outputs are audited, and how many were seen (the smallest numbers over the pairs).
    unresolved : float
        Upper bound of the probability of all outputs that are not audited.
    tail : float
        Upper bound of the probability of the noise that was not played.
    pairs, vectors : int
        How many pairs and noise vectors were played.
    partitioned : bool
        Whether "output" means a class of a partition: then bounds from above hold for who sees the class
        only.
    declared : bool
        Whether `epsilon_at_most` rests on what the subject declares of itself, see `epsilon_everywhere`.
    checked : bool
        Whether a sensitivity statement says that the pairs are neighbors; else it is your word.
    stated : bool
        Whether no noise was played and the law of the outputs is the one that the subject states.
    assumed : str
        What the bounds of a continuous law rest on, in words. Its outputs are then cells: intervals of
        numbers, and single outputs.

    Examples
    --------
    >>> import sordino as sd
    >>> import sordino_audit as audit
    >>> audit.exact(sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING), answers_a=0, answers_b=1)
    ExactReport(not broken, epsilon_at_least=0.999999999, epsilon_at_most=1, claimed=Pure(epsilon=1))
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
        """True if `epsilon_at_most` holds for every output (or class), and not only for the audited ones.

        It may rest on what the subject declares: see `declared`.
        """
        return self.epsilon_everywhere <= self.epsilon_at_most or self.unresolved == 0

    @property
    def delta_at_claim(self) -> float | None:
        """Upper bound of the hockey stick at the claimed epsilon: the claim holds up to this delta.

        None if no pure epsilon is claimed.
        """
        return None if self.at_claim is None else self.at_claim.at_most

    def raise_if_broken(self) -> None:
        """Raise `ClaimBroken` if the claim is refuted for certain."""
        if self.broken:
            raise ClaimBroken(
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
                    f"its delta at epsilon {delta.epsilon:.9g} is at least {at_least(delta.at_least)}, "
                    f"not {delta.claimed:.9g}"
                )
        # This is called for a broken claim, and nothing above refuted it: so a divergence does.
        worst = max(self.divergences, key=lambda divergence: divergence.beyond_at_least)
        return (
            f"its Rényi divergence of order {worst.alpha:g} is at least {at_least(worst.at_least)}, at least "
            f"{at_least(worst.beyond_at_least)} beyond what is claimed for its outputs"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready values; what is infinite is None."""
        derived = {"broken": self.broken, "complete": self.complete, "delta_at_claim": self.delta_at_claim}
        # Answers and outputs may be anything: what JSON does not know becomes its `repr`.
        witnesses = {
            "witness": _convert_witness(self.witness),
            "overrun": None if self.overrun is None else _convert_witness(self.overrun),
        }
        values: dict[str, Any] = plain(
            {**vars(self), "claimed": self.claimed.to_dict(), **derived, **witnesses}
        )
        return values

    def __repr__(self) -> str:
        return (
            f"ExactReport({'BROKEN' if self.broken else 'not broken'}, "
            f"epsilon_at_least={at_least(self.epsilon_at_least)}, "
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
            else f"{self.audited} {some}; the others have probability {at_most(self.unresolved, 2)} at most"
        )
        lines = [
            f"{self.name}: claim {self.claimed!r} {'BROKEN' if self.broken else 'not broken'}",
            f"  loss     {write_interval(self.epsilon_at_least, self.epsilon_at_most)} ({covered})",
            f"  worst    {self.witness}",
        ]
        lines += [
            f"  delta    {write_interval(each.at_least, each.at_most)} at epsilon {each.epsilon:.6g}, "
            f"claimed {each.claimed:.3g} ({every})"
            for each in self.deltas
        ]
        lines += [
            f"  Rényi    {write_interval(each.at_least, each.at_most)} at order {each.alpha:g}, "
            f"claimed {each.claimed:.9g}"
            for each in self.divergences
        ]
        word = "" if self.checked else ", neighbours on your word"
        what = f"bounded  {self.outputs} cells" if self.assumed else f"played   {self.vectors} noise vectors"
        lines.append(f"  {what}, {self.pairs} pairs{word}, tail {at_most(self.tail, 2)}")
        # What the bounds rest on is part of what they say.
        if self.stated:
            lines.append("  if       releases have the law that the subject states: no noise was played")
        if self.assumed:
            lines.append(f"  and      {self.assumed}")
        if self.declared:
            lines.append(
                "  if       outputs depend on the answers only through their sums with the noise, "
                "and `shifts` is true where it is said"
            )
        return "\n".join(lines)


def _convert_witness(witness: Witness) -> dict[str, Any]:
    return {name: ready(value) for name, value in vars(witness).items()}
