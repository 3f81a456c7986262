"""How a release is made: noise is drawn, then something is decided about answers and noise.

A mechanism says both once, as its `rules`. A release draws the noise and decides. The audit hands in all noise there is, and looks at
what is decided: by the same functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from sordino.cost import Cost
from sordino.entropy import Entropy
from sordino.mechanisms._ahead import Sampler

Draws = tuple[tuple[Sampler, int], ...]
"""Independent laws, each with how many draws of it a release takes at most."""


def join_arrays(outcome: Any) -> Any:
    """Return what was decided, one array or several, as one array with a row for each release."""
    return np.concatenate(outcome, axis=-1) if isinstance(outcome, tuple) else outcome


@final
@dataclass(frozen=True, kw_only=True)
class Rules:
    """How one mechanism makes a release of private answers.

    Attributes
    ----------
    draws : callable
        Takes the public number of answers (of items, with a domain); returns what is drawn. It refuses a number that is not covered.
    steps : callable
        Takes the answers, and where there is a domain their positions; returns what the noise meets, in whole steps.
    decide : callable
        Takes what `steps` returned and an array of noise for each of `draws`: shape (times,) for one release, (N, times) for N of
        them. Returns what is decided, an array or a tuple of arrays, with one row for each release.
    walks : bool
        Whether later draws depend on earlier ones. Then `decide` takes what `steps` returned, the entropy, and the laws: it draws as it
        goes, and returns what is decided of one release.
    written : callable
        Turns what was decided into whole numbers, from which everything that is released follows.
    added : bool
        Whether the noise is only added to what `steps` returned, number by number.
    shifts : bool
        Whether nothing changes in the outcome when all noisy answers move together.
    spent_by : callable or None
        What one outcome spends, as `written` returns it; None: each spends `cost`.
    """

    draws: Callable[[int], Draws]
    steps: Callable[..., Any]
    decide: Callable[..., Any]
    walks: bool = False
    written: Callable[[Any], Any] = join_arrays
    added: bool = False
    shifts: bool = False
    spent_by: Callable[[Any], Cost] | None = None

    def play(self, steps: Any, n: int, entropy: Entropy) -> Any:
        """Return what is decided about `n` answers, given as `steps` returned them, with fresh noise."""
        draws = self.draws(n)
        if self.walks:
            return self.decide(steps, entropy, *(law for law, _ in draws))
        return self.decide(steps, *(law.sample(times, entropy) for law, times in draws))
