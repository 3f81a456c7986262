"""Intervals after folded noise: they cover every answer of the range with at least their confidence, by enumeration of the law."""

from __future__ import annotations

import numpy as np
import pytest

from sordino import COUNTING, FoldedMechanism, Seeded, Sensitivity, Value, interval
from sordino.mechanisms.folded import _period_of, decide

PAIR = Sensitivity(bound=2, monotone=True, adjacency="add-remove", step=1)
STAIRS = Sensitivity(bound=3, monotone=False, adjacency="replace-one", step=1)
MECHANISMS = {
    "counts": FoldedMechanism(lower=0, upper=6, epsilon=0.8, sensitivity=COUNTING),
    "wide": FoldedMechanism(lower=-15, upper=25, epsilon=0.8, sensitivity=COUNTING),
    "two steps": FoldedMechanism(
        lower=0,
        upper=9,
        epsilon=2,
        sensitivity=Sensitivity(bound=2, monotone=True, adjacency="add-remove", step=1),
    ),
    "stairs": FoldedMechanism(lower=0, upper=9, epsilon=2, sensitivity=STAIRS, noise="staircase"),
}
REACH = 100


def told(m, output, confidence):
    """Return the interval of a release that was this folded output, in steps."""
    value = (
        m._moved(output) if output <= m.ends[0] or output >= m.ends[1] else float(output * m.step)
    )
    common = {"mechanism": m, "cost": m.cost, "simulated": True}
    return interval(Value(value=value, standard_error=1.0, **common), confidence=confidence)


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("confidence", [0.3, 0.8, 0.95, 0.999])
@pytest.mark.each_value
def test_every_answer_is_covered(name, confidence):
    m = MECHANISMS[name]
    low, high = m.ends
    noise = np.arange(-REACH, REACH + 1)
    mass = np.array([float(m.noise.pmf(z)) for z in noise.tolist()])
    inside = {x: decide(x + noise, low, high, _period_of(m.noise)) for x in range(low, high + 1)}
    spots = np.unique(np.concatenate(list(inside.values())))
    a, b = np.array([told(m, output, confidence) for output in spots.tolist()]).T
    assert ((low <= a) & (a <= b) & (b <= high)).all(), "within the range of the answers"
    least = 1.0
    for x, outputs in inside.items():
        place = np.searchsorted(spots, outputs)
        covered = mass[(a[place] <= x) & (x <= b[place])].sum()
        assert covered >= confidence - 1e-12
        least = min(least, covered)
    if name == "wide":
        plain = mass[abs(noise) <= -m.noise.quantile((1 - confidence) / 2)].sum()
        assert least == pytest.approx(plain), "no wider than without folding"


def test_the_ends_as_they_are_released_would_not_do():
    """The twin that adds the reach to what was released, moved out as it is, loses the answers next to the end."""
    m = MECHANISMS["counts"]
    reach = -m.noise.quantile(0.35)
    assert told(m, 0, 0.3)[1] == reach
    assert m._moved(0) + reach < reach


def test_lists_and_single_numbers():
    m = FoldedMechanism(lower=0, upper=6, epsilon=4, sensitivity=COUNTING.over(3))
    released = m.release([0, 3, 6], entropy=Seeded(2))
    low, high = interval(released)
    assert low.shape == high.shape == (3,)
    assert ((low >= 0) & (low <= high) & (high <= 6)).all()
    assert all(
        isinstance(end, float)
        for end in interval(MECHANISMS["counts"].release(3, entropy=Seeded(1)))
    )
