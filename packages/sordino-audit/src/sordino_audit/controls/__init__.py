"""Mechanisms with a known verdict, on which the auditor itself is audited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from sordino_audit._exact import exact
from sordino_audit.continuous.continuous import Continuous
from sordino_audit.enumeration.subject import Subject
from sordino_audit.report import ExactReport


@final
@dataclass(frozen=True, kw_only=True)
class Control:
    """A mechanism on the integer grid whose loss is known.

    Attributes
    ----------
    name : str
        What is done, in a few words.
    subject : Subject or Continuous
        The mechanism, with the cost that it is sold for.
    pair : tuple
        Two neighbors on which it loses most.
    loss : float
        The log ratio there, in nats; inf if some output is possible on one side only.
    source : str
        Where it was published or refuted, a key of docs/references.bib with the place; or why it
        breaks, in a few words.
    broken : bool
        Whether the claim is wrong, as it is for most controls.
    """

    name: str
    subject: Subject | Continuous
    pair: tuple[Any, Any]
    loss: float
    source: str
    broken: bool = True

    def audited(self) -> ExactReport:
        """Return the exact audit of the pair."""
        return exact(self.subject, answers_a=self.pair[0], answers_b=self.pair[1])
