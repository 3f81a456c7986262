"""Numbers with a density: losses known in closed form, tails that are stated or left out, atoms, labels, classes, and refusals."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import sordino_audit as audit
from sordino import COUNTING, ClaimBroken, InvalidParameter
from sordino.cost import ZCDP, Approximate, Pure
from sordino_audit import Density, Law
from sordino_audit.continuous import enclosures as floats

ONE = Pure(epsilon=1)
WINDOW = (-60, 60)


def added(law, **options):
    return Density.added(law, **({"cost": ONE, "window": WINDOW} | options))


def laplace(**options):
    """Laplace noise of scale 1 with functions of one's own."""

    def log_density(low, high, answer):
        z = np.abs(low - answer), np.abs(high - answer)
        near = np.where((low - answer) * (high - answer) <= 0, 0.0, np.minimum(*z))
        return -np.maximum(*z) - math.log(2) - 1e-12, -near - math.log(2) + 1e-12

    given = {"log_density": log_density, "window": WINDOW, "cost": ONE, "tail": 1}
    return Density(**(given | options))


@pytest.mark.parametrize("shape", ["linear", "concave", "convex", "any"])
def test_laplace_noise_by_functions_of_ones_own(shape):
    options = {} if shape in {"any", "concave"} else {"breaks": lambda answer: [answer]}
    rough = {"slack": 1e-2, "vectors": 20_000} if shape == "any" else {}
    report = audit.exact(laplace(shape=shape, **options), answers_a=0, answers_b=1, **rough)
    assert not report.broken
    assert report.complete
    assert report.epsilon_at_least <= 1 <= report.epsilon_at_most
    assert report.epsilon_at_most - report.epsilon_at_least < (2e-2 if shape == "any" else 1e-9)


@pytest.mark.slow
def test_a_monotone_shape_closes_in_where_the_loss_is_largest():
    """Logistic noise as somebody who knows no more of it than that it rises and falls: the supremum is at the ends."""
    law = Law.logistic(1)

    def log_density(low, high, answer):
        return law.log_density(low - answer, high - answer)

    rough = Density(
        log_density=log_density,
        breaks=lambda answer: [answer],
        shape="monotone",
        window=(-12, 12),
        tail=math.inf,
        cost=ONE,
    )
    report = audit.exact(rough, answers_a=0, answers_b=2, slack=1e-3, vectors=20_000)
    smooth = audit.exact(added(law, window=(-12, 12), tail=math.inf), answers_a=0, answers_b=2)
    assert report.epsilon_at_least <= smooth.epsilon_at_most
    assert smooth.epsilon_at_least <= report.epsilon_at_most < report.epsilon_at_least + 1e-2


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((0, 1), (1, 1)),
        ((0, 1), (Fraction(1, 2), Fraction(13, 10))),
        ((3, Fraction(1, 10)), (3, 2)),
    ],
)
@pytest.mark.slow
def test_cauchy_noise_with_a_scale_of_the_data_loses_the_hyperbolic_distance(a, b):
    """cosh of the loss is 1 + ((x - x')^2 + (s - s')^2)/(2 s s'), exactly."""
    report = audit.exact(
        added(Law.cauchy(2), window=(-10_000, 10_000)), answers_a=a, answers_b=b, vectors=50_000
    )
    truth = float(
        mp.acosh(1 + ((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2) / mp.mpf(float(2 * a[1] * b[1])))
    )
    assert report.epsilon_at_least <= truth + 1e-12
    assert truth - 1e-12 <= report.epsilon_at_most
    assert report.epsilon_at_most - report.epsilon_at_least < 1e-4
    assert report.complete


@pytest.mark.slow
def test_a_tight_calibration_of_heavy_tails_is_acquitted_and_a_looser_one_convicted():
    """alpha = 2 sinh(epsilon/2) for neighbours of one scale: 1.0421906 at epsilon 1."""
    right, wrong = Fraction("1.04219061098"), Fraction("1.0422")
    mechanism = added(Law.cauchy(2), window=(-1000, 1000))
    for alpha, broken in ((right, False), (wrong, True)):
        report = audit.exact(
            mechanism, answers_a=(0, 1 / alpha), answers_b=(1, 1 / alpha), vectors=20_000
        )
        assert report.broken == broken
        assert report.epsilon_at_least == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("gamma", [Fraction(3, 2), 4])
@pytest.mark.parametrize("scales", [(1, 1), (1, Fraction(6, 5)), (Fraction(6, 5), 1)])
@pytest.mark.slow
def test_heavy_tails_of_any_order_against_a_grid(gamma, scales):
    law = Law.cauchy(gamma)
    a, b = (0, scales[0]), (Fraction(1, 3), scales[1])
    report = audit.exact(added(law, window=(-500, 500)), answers_a=a, answers_b=b, vectors=50_000)
    x = np.concatenate([np.linspace(-500, 500, 20_001), np.linspace(-5, 5, 20_001)])
    logs = [
        -np.log1p(np.abs((x - float(at)) / float(s)) ** float(gamma)) - math.log(s)
        for at, s in (a, b)
    ]
    assert report.epsilon_at_least >= np.abs(logs[0] - logs[1]).max() - 1e-5
    outside = [(float(gamma) - 1) * abs(math.log(float(scales[1]) / float(scales[0])))]
    assert report.epsilon_at_most <= max(np.abs(logs[0] - logs[1]).max(), *outside) + 1e-2


@pytest.mark.slow
def test_gaussian_noise_is_held_to_all_its_views():
    report = audit.exact(
        added(Law.gaussian(1), cost=ZCDP(rho=0.5), window=(-12, 13), tail=math.inf),
        answers_a=0,
        answers_b=1,
    )
    assert not report.broken
    assert [each.alpha for each in report.divergences] == [1.5, 2, 8, 32]
    for each, truth in zip(report.divergences, (0.75, 1, 4, 16), strict=True):
        assert each.at_least <= truth
        assert each.at_most == math.inf, "nothing is said of what is outside"
    assert report.divergences[1].at_least == pytest.approx(1, abs=1e-5)
    for delta in report.deltas:
        e = delta.epsilon
        truth = float(mp.ncdf(0.5 - e) - mp.exp(e) * mp.ncdf(-0.5 - e))
        assert delta.at_least <= truth <= delta.at_most
        assert delta.at_most - delta.at_least < 1e-6
    weak = audit.exact(
        added(Law.gaussian(Fraction(9, 10)), cost=ZCDP(rho=0.5), window=(-12, 13), tail=math.inf),
        answers_a=0,
        answers_b=1,
    )
    assert weak.broken
    with pytest.raises(ClaimBroken, match="delta at epsilon|Rényi"):
        weak.raise_if_broken()


@pytest.mark.slow
def test_gaussian_noise_is_not_pure_at_any_price():
    """The loss at the end of the window is certain, and grows with the window."""
    for end, loss in ((10, 9.5), (20, 19.5)):
        report = audit.exact(
            added(Law.gaussian(1), window=(0, end), tail=math.inf, cost=Pure(epsilon=5)),
            answers_a=1,
            answers_b=0,
        )
        assert report.broken
        assert report.epsilon_at_least == pytest.approx(loss, abs=1e-6)
        assert not report.complete


def laplace_divergence(alpha):
    """The divergence of order alpha of Laplace noise of scale 1, answers 1 apart [mironov2017, Prop. 6]."""
    share = alpha / (2 * alpha - 1)
    return math.log(share * math.exp(alpha - 1) + (1 - share) * math.exp(-alpha)) / (alpha - 1)


def test_renyi_divergences_are_bounded_from_above_where_the_tail_is():
    report = audit.exact(
        added(Law.laplace(1), cost=Approximate(epsilon=2, delta=0)),
        answers_a=0,
        answers_b=1,
        orders=[2, 5],
    )
    for each in report.divergences:
        assert each.at_least <= laplace_divergence(each.alpha) <= each.at_most
        assert each.at_most - each.at_least < 1e-6


@pytest.mark.parametrize("cells", [1, 500, 3000])
@pytest.mark.parametrize("shape", ["any", "monotone", "concave"])
@pytest.mark.each_value
def test_all_views_hold_however_coarse_the_cells_are(shape, cells):
    """Laplace noise by functions of one's own, and a budget that ends at once."""
    options = {"breaks": lambda answer: [answer]} if shape == "monotone" else {}
    mechanism = laplace(shape=shape, cost=Approximate(epsilon=2, delta=0), **options)
    report = audit.exact(
        mechanism, answers_a=0, answers_b=1, orders=[2, 5], epsilons=[0.25], vectors=cells
    )
    assert report.epsilon_at_least <= 1 <= report.epsilon_at_most
    for each in report.divergences:
        assert each.at_least <= laplace_divergence(each.alpha) <= each.at_most
    assert report.deltas[0].at_least <= 1 - math.exp(-0.375) <= report.deltas[0].at_most
    if shape != "concave":  # chords are exact where the logarithm is straight
        assert report.deltas[0].at_most - report.deltas[0].at_least > 1e-3, "coarse"


@pytest.mark.parametrize("epsilon", [0, 0.5, 1])
def test_hockey_sticks_are_enclosed(epsilon):
    """Laplace noise, answers 3/2 apart: 1 - e^((epsilon - 3/2)/2)."""
    report = audit.exact(added(Law.laplace(1)), answers_a=0, answers_b=1.5, epsilons=[epsilon])
    truth = 1 - math.exp((epsilon - 1.5) / 2)
    assert report.deltas[0].at_least <= truth <= report.deltas[0].at_most
    assert report.deltas[0].at_most - report.deltas[0].at_least < 1e-6
    assert report.broken


def folded(epsilon, low=0, high=3):
    """Laplace noise, everything outside the range published as its conditional mean: two atoms and a density."""
    scale = Fraction(1) / epsilon

    def atoms(answer):
        ends = {}
        for output, away in ((low - scale, answer - low), (high + scale, high - answer)):
            bounds = floats.minus(
                (np.array(-float(Fraction(away) / scale)),) * 2, floats.log((np.array(2.0),) * 2)
            )
            ends[f"at {float(output)}"] = float(bounds[0]), float(bounds[1])
        return ends

    inner = added(Law.laplace(scale), tail=math.inf)
    return Density(
        log_density=inner.log_density,
        shape="linear",
        breaks=inner.breaks,
        window=(low, high),
        atoms=atoms,
        tail=0,
        cost=Pure(epsilon=1),
        name="folded Laplace",
    )


def test_folded_laplace_noise_has_atoms_and_a_density():
    report = audit.exact(folded(Fraction(1)), answers_a=1, answers_b=2)
    assert not report.broken
    assert report.epsilon_at_least == pytest.approx(1, abs=1e-9)
    assert report.epsilon_at_most <= 1 + 1e-9
    assert report.delta_at_claim < 1e-8
    assert audit.exact(folded(Fraction(11, 10)), answers_a=1, answers_b=2).broken
    wider = audit.exact(folded(Fraction(11, 10)), answers_a=1, answers_b=2)
    assert wider.epsilon_at_least == pytest.approx(1.1, abs=1e-9)


def test_labels_have_a_density_each_and_their_own_cost():
    law = Law.exponential(1)

    def log_density(low, high, answers, label):
        found = law.log_density(low, high)
        share = math.log(answers[label == "tails"])
        return found[0] + share - 1e-13, found[1] + share + 1e-13

    options = {
        "log_density": log_density,
        "labels": ["heads", "tails"],
        "shape": "linear",
        "window": (0, 50),
        "tail": 2,
    }
    report = audit.exact(
        Density(cost=Pure(epsilon=2), **options), answers_a=(0.6, 0.4), answers_b=(0.9, 0.1)
    )
    assert report.witness.output[0] == "tails"
    assert report.epsilon_at_least == pytest.approx(math.log(4), abs=1e-9)
    assert not report.broken
    cheap = Density(
        cost=Pure(epsilon=2),
        cost_of=lambda label: Pure(epsilon=2 if label == "heads" else 1),
        **(options | {"tail": 0}),
    )
    convicted = audit.exact(cheap, answers_a=(0.6, 0.4), answers_b=(0.9, 0.1))
    assert convicted.broken
    assert convicted.beyond_at_least == pytest.approx(math.log(4) - 1, abs=1e-9)


@pytest.mark.parametrize(
    ("window", "tail"),
    [((-60, 60), 3), ((-2, 2), 1.5), ((-2, 2), lambda a, b: 1.5 if a > b else 1)],
)
def test_what_is_stated_of_the_tail_counts(window, tail):
    report = audit.exact(
        laplace(shape="concave", window=window, tail=tail), answers_a=0, answers_b=1
    )
    stated = 1.5 if callable(tail) else tail
    assert report.epsilon_at_most == report.epsilon_everywhere == stated
    assert report.beyond_at_most == pytest.approx(stated - 1, abs=1e-12)
    assert report.epsilon_at_least == pytest.approx(1, abs=1e-9)
    assert report.complete
    assert not report.broken
    outside = 0.0 if window[1] > 2 else math.exp(-1) / 2 + math.exp(-3) / 2
    assert report.delta_at_claim == pytest.approx(outside * (1 - math.exp(1 - stated)), abs=1e-5)


@pytest.mark.slow
def test_classes_instead_of_a_tail_statement():
    """What is outside the window may belong to the first or the last class."""
    mechanism = added(Law.gaussian(1), window=(-4, 4))
    report = audit.exact(mechanism, answers_a=0, answers_b=1, partition=[-1, 0, 1])
    assert report.partitioned
    assert report.unresolved == 0
    assert report.outputs == 4
    truth = [float(mp.ncdf(x)) for x in (-1, 0, 1)], [float(mp.ncdf(x - 1)) for x in (-1, 0, 1)]
    masses = [np.diff([0, *side, 1]) for side in truth]
    loss = np.abs(np.log(masses[0] / masses[1])).max()
    assert report.epsilon_at_least <= loss <= report.epsilon_at_most
    assert report.epsilon_at_most - report.epsilon_at_least < 0.2, (
        "P(outside) is 1e-3, of a class with probability 0.02"
    )
    assert report.witness.output == "(-inf, -1]"


def test_a_report_says_what_it_rests_on():
    report = audit.exact(added(Law.laplace(1), sensitivity=COUNTING), answers_a=0, answers_b=1)
    text = str(report)
    assert "no noise was played" in text
    assert "linear between its breaks, and the tail statement holds outside the window" in text
    assert re.search(r"bounded  \d+ cells, 1 pairs, tail", text)
    assert "on your word" not in text
    again = json.loads(json.dumps(report.to_dict()))
    assert again["broken"] is False
    assert again["assumed"] == report.assumed
    assert again["stated"] is True
    page = audit.page(report)
    assert "not broken" in page
    assert "tail statement" in page
    with pytest.raises(InvalidParameter, match="neighbouring|distance|bound"):
        audit.exact(added(Law.laplace(1), sensitivity=COUNTING), answers_a=0, answers_b=2)


@pytest.mark.slow
def test_both_orders_and_all_pairs_count():
    mechanism = added(Law.exponential(1), cost=Pure(epsilon=1))
    for pair in ((0, 1), (1, 0)):
        report = audit.exact(mechanism, neighbours=[pair])
        assert report.epsilon_at_least == math.inf
        assert report.witness.answers_a == 0, "outputs below 1 are possible for 0 only"
    both = audit.exact(added(Law.laplace(1)), neighbours=[(0, 0.5), (0, 2), (0, 1)])
    assert both.epsilon_at_least == pytest.approx(2, abs=1e-9)
    assert both.pairs == 3


def test_a_search_climbs_densities_too():
    report = audit.exact(added(Law.laplace(1), sensitivity=COUNTING), search=True, n=1, limit=6)
    assert report.epsilon_at_least == pytest.approx(1, abs=1e-9)
