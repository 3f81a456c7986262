"""Audits that bound the privacy loss of a mechanism, of this library or of anybody else.

Nobody has to believe a claim: an audit can refute it. The exact audit plays whole-number noise
through the mechanism's own decision, and encloses the densities of continuous laws. Its lower
bounds are proofs of a loss; what its upper bounds cover is said in each report.
"""

from __future__ import annotations

from sordino.claims import claims
from sordino_audit._exact import exact
from sordino_audit._page import page
from sordino_audit._smooth_bound import smooth_bound
from sordino_audit.black_boxes.black_box import black_box
from sordino_audit.black_boxes.runs import Command
from sordino_audit.black_boxes.statistical import statistical
from sordino_audit.continuous.crossings import Crossings
from sordino_audit.continuous.density import Density
from sordino_audit.continuous.laws import Law
from sordino_audit.continuous.races import Race
from sordino_audit.enumeration.laws import Finite
from sordino_audit.enumeration.subject import Subject
from sordino_audit.registry import Unaudited, run_claims, unaudited
from sordino_audit.report import (
    Bar,
    BoundWitness,
    ClaimReport,
    Delta,
    Divergence,
    Evidence,
    ExactReport,
    SmoothBoundReport,
    StatisticalReport,
    Witness,
)

__all__ = [
    "Bar",
    "BoundWitness",
    "ClaimReport",
    "Command",
    "Crossings",
    "Delta",
    "Density",
    "Divergence",
    "Evidence",
    "ExactReport",
    "Finite",
    "Law",
    "Race",
    "SmoothBoundReport",
    "StatisticalReport",
    "Subject",
    "Unaudited",
    "Witness",
    "black_box",
    "claims",
    "exact",
    "page",
    "run_claims",
    "smooth_bound",
    "statistical",
    "unaudited",
]
