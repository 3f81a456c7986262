"""The density of noise that is added to an answer, and may be multiplied by a scale of the same data.

Claim: what is returned encloses the true log density, its breaks, and its log ratio outside the window.
Proof: docs/proofs/exact-audit.md, "Densities".
Floats: outward, see `enclosures`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.constraints import shown
from sordino.errors import InvalidParameter
from sordino_audit.continuous import enclosures as floats
from sordino_audit.continuous.enclosures import Bounds, Floats, enclose
from sordino_audit.continuous.integrals import enclosed
from sordino_audit.continuous.laws import PLACE, SPAN, Law


def added(law: Any, window: Any, *, scaled: bool) -> dict[str, Any]:
    """Return the arguments of `Density` for noise of this law.

    `scaled`: answers may be pairs of a number and a scale.
    """
    if not isinstance(law, Law) or law.log_density is None:
        raise InvalidParameter(f"Density.added.law must be a Law with a log density; got {shown(law)}.")

    def placed(answers: Any) -> tuple[Fraction, Fraction]:
        at, scale = _split_answer(answers)
        if scale is not None and not scaled:
            raise InvalidParameter(
                "Density.sensitivity must not be given where answers have a scale: "
                "a statement says nothing about scales."
            )
        # The scale of an answer multiplies that of the law.
        return at, law.scale if scale is None else scale * law.scale

    def log_density(low: Floats, high: Floats, answers: Any) -> Bounds:
        at, scale = placed(answers)
        # The log density of x + s Z at o is ln f((o - x)/s) - ln s.
        place, stretch = enclose(at), enclose(1 / scale)
        z = floats.scaled(floats.minus((low, high), (np.array(place[0]), np.array(place[1]))), 1 / scale)
        return floats.plus(
            enclosed(law, "log_density", *z), floats.log((np.array(stretch[0]), np.array(stretch[1])))
        )

    def breaks(answers: Any) -> list[tuple[float, float]]:
        at, scale = placed(answers)
        return [
            # Breaks move and stretch with the noise; each is known between two floats only.
            (enclose(at + Fraction(low) * scale)[0], enclose(at + Fraction(high) * scale)[1])
            for low, high in law.bends
        ]

    def tail(a: Any, b: Any) -> float:
        ends = Fraction(float(window[0])), Fraction(float(window[1]))  # the floats that are looked at
        return math.inf if law.outside is None else law.outside(ends, placed(a), placed(b))

    shown_shape = {"log_density": log_density, "shape": law.shapes, "breaks": breaks}
    return shown_shape if law.outside is None else shown_shape | {"tail": tail}


def _split_answer(answers: Any) -> tuple[Fraction, Fraction | None]:
    """Return the answer, and the scale if there is one."""
    listed = list(answers) if isinstance(answers, tuple | list | np.ndarray) else [answers]
    if len(listed) not in {1, 2}:
        raise InvalidParameter(
            "audit.exact needs one number on each side, or a pair of a number and a scale; "
            f"got {len(listed)} numbers."
        )
    scale = SPAN("the scale in audit.exact.answers", listed[1]) if len(listed) == 2 else None
    return PLACE("audit.exact.answers", listed[0]), scale
