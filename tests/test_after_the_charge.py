"""Nothing is refused once rows are read: what no number of items and no clip could be released with, is refused before."""

from __future__ import annotations

from fractions import Fraction
from itertools import count

import polars as pl
import pytest

import sordino as sd
from sordino.grid import RATE_DENOMINATOR, check_rates_from, fit_rate


def table(tmp_path, counts):
    rows = [item for item, count in counts.items() for _ in range(count)]
    file = tmp_path / "rows.parquet"
    pl.DataFrame({"item": rows, "user": list(range(len(rows)))}).write_parquet(file)
    return file


LABELS = [f"i{place}" for place in range(9)]
# What is left for the measurement: of nine items its rate is 127/2^40, which is kept although it is small, because
# it is a whole multiple of 2^-40; of four items it is none, and would lose more than a thousandth.
SHARE = Fraction(1, 1 << 20)
EPSILON = Fraction(9 * 127, 1 << 20)
ASKED = {
    "top_k": lambda s: s.top_k(
        "item", k=9, epsilon=EPSILON, domain=LABELS, threshold=10**5, selection_share=1 - SHARE
    ),
    "above": lambda s: s.above(
        "item", threshold=10**5, positives=9, epsilon=EPSILON, domain=LABELS, measure_share=SHARE
    ),
}


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("found", [0, 3, 4, 9])
@pytest.mark.sample(4)
def test_what_is_measured_exists_for_every_number_of_items(tmp_path, name, found):
    """Whether a measurement can be made must not follow from how many items are found."""
    file = table(tmp_path, dict.fromkeys(LABELS[:found], 200_000) | {"other": 1})
    with sd.Session(file, unit=sd.PrivacyUnit("user"), entropy=sd.Seeded(1)) as session:
        assert refusal(lambda: ASKED[name](session)) == "InvalidParameter"


def refusal(run):
    try:
        run()
    except sd.SordinoError as error:
        return type(error).__name__
    return "released"


def test_a_rate_that_is_kept_says_nothing_of_a_larger_one():
    kept = Fraction(1, RATE_DENOMINATOR)
    assert fit_rate(kept, "x") == kept
    with pytest.raises(sd.InvalidParameter):
        fit_rate(Fraction(3, 2) * kept, "x")
    with pytest.raises(sd.InvalidParameter, match="x must ask for noise with a rate of at least"):
        check_rates_from(kept, "x")
    check_rates_from(1000 * kept, "x")
    for part in range(1, 400):
        fit_rate(1000 * kept * Fraction(400 + part, 400), "x")


CLIPPED = [
    (
        sd.ClippedVariance,
        {
            "epsilon": Fraction(237, 10**10),
            "cap": 8,
            "lower": 0,
            "growth": 2,
            "adjacency": "replace-one",
        },
    ),
    (
        sd.ClippedMean,
        {
            "epsilon": Fraction(483, 10**11),
            "cap": 1000,
            "lower": 0,
            "growth": 2,
            "adjacency": "add-remove",
        },
    ),
    (
        sd.ClippedSum,
        {
            "epsilon": Fraction(337, 10**11),
            "cap": 100,
            "lower": 0,
            "growth": 1.2,
            "adjacency": "add-remove",
        },
    ),
    (
        sd.ClippedSum,
        {
            "epsilon": Fraction(2051, 10**12),
            "cap": 8,
            "lower": 0,
            "growth": 1.5,
            "adjacency": "add-remove",
        },
    ),
]


@pytest.mark.parametrize(("kind", "options"), CLIPPED, ids=[kind.__name__ for kind, _ in CLIPPED])
def test_the_noise_of_every_clip_exists_or_the_estimator_is_refused(kind, options):
    with pytest.raises(sd.InvalidParameter, match="must ask for noise with a rate of at least"):
        kind(**options)


@pytest.mark.parametrize("kind", [sd.ClippedSum, sd.ClippedMean, sd.ClippedVariance])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("lower", [0, None, -3])
@pytest.mark.each_value
def test_where_an_estimator_is_made_each_clip_has_noise(kind, adjacency, lower):
    made = 0
    for power in range(24, 34):
        for part in (5, 6, 7):
            try:
                estimator = kind(
                    epsilon=Fraction(part, 1 << power),
                    cap=50,
                    growth=1.7,
                    lower=lower,
                    adjacency=adjacency,
                )
            except sd.InvalidParameter:
                continue
            made += 1
            searches = len(estimator.search.runs(sd.BucketCounts.of([1], grid=estimator.grid)))
            for tests in count(1):
                try:
                    clip = estimator.search.clip((tests,) * searches, simulated=True)
                except IndexError:  # the search has no further test
                    break
                noise = estimator.noise_for(clip)
                assert noise.mechanism.noise.rate >= Fraction(999, 1000) * noise.least_rate
            assert tests > 3
    assert made


def test_a_parameter_that_is_refused_after_the_charge_is_one_sentence(tmp_path, monkeypatch):
    """Whatever refuses it then followed from what was found: it is said to nobody."""
    from sordino.mechanisms import LaplaceMechanism

    def refuses(self, answers, *, entropy):
        raise sd.InvalidParameter("7 items are too many")

    file = table(tmp_path, {"i1": 5})
    monkeypatch.setattr(LaplaceMechanism, "release", refuses)
    with (
        sd.Session(file, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(1)) as session,
        pytest.raises(sd.DataSourceError) as caught,
    ):
        session.histogram("item", epsilon=1, domain=LABELS)
    assert str(caught.value) == str(sd.DataSourceError.after_charge())
