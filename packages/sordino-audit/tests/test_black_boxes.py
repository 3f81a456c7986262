"""Black boxes: what is run, what is refused, and programs that are cut off."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest

import sordino_audit as audit
from sordino import (
    COUNTING,
    AdaptiveSparseVector,
    ExponentialMechanism,
    HybridTopK,
    InvalidParameter,
    LaplaceMechanism,
    NoisyTopK,
    RandomizedResponse,
    Seeded,
    SparseVector,
)
from sordino.cost import ZCDP, Pure
from sordino_audit import Command, Finite, Subject

LAPLACE = LaplaceMechanism(epsilon=1, sensitivity=COUNTING)


def audited(a, b, **options):
    return audit.statistical(a, b, **{"samples": 100, "confidence": 0.99} | options)


def test_others_are_run_as_they_want_to_be():
    class Randomiser:
        def randomise(self, value):
            return value + 1

    assert audit.black_box(Randomiser(), 3)() == 4
    assert audit.black_box(lambda x: x * 2, 3)() == 6
    assert audit.black_box(LAPLACE, 3, entropy=Seeded(1))().simulated
    with pytest.raises(InvalidParameter, match="release or randomise"):
        audit.black_box(object(), 3)
    with pytest.raises(InvalidParameter, match="needs entropy"):
        audit.black_box(LAPLACE, 3, entropy=7)


@pytest.mark.slow
def test_a_batch_has_the_law_of_the_release():
    top = NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING)
    alone = audit.black_box(top, [0, 1, 0], entropy=Seeded(1))
    together = audit.black_box(top, [0, 1, 0], entropy=Seeded(2), batch=20_000)()
    ones = np.array([(run.indices[0], run.gaps[0]) for run in (alone() for _ in range(4000))])
    for column in (0, 1):
        assert (
            abs(ones[:, column].mean() - together[:, column].mean())
            < 5 * together[:, column].std() / 4000**0.5
        )


RACES = [
    (RandomizedResponse(epsilon=1), [5, 0, 0]),
    (ExponentialMechanism(epsilon=2, sensitivity=COUNTING, gap=False), [0, 2, 1]),
    (NoisyTopK(k=1, epsilon=2, sensitivity=COUNTING, noise="gumbel"), [0, 2, 1]),
]


@pytest.mark.parametrize(("mechanism", "answers"), RACES, ids=lambda given: type(given).__name__)
def test_a_batch_of_races_has_only_what_arrives_with_the_law_of_the_release(mechanism, answers):
    places = audit.black_box(mechanism, answers, entropy=Seeded(1), batch=20_000)()
    weights = np.exp(
        float(mechanism.cost.pure()) * np.array([1, 0, 0] if len({*answers}) == 2 else answers)
    )
    assert places.shape == (20_000,)
    shares = np.bincount(places, minlength=3) / 20_000
    assert np.abs(shares - weights / weights.sum()).max() < 5 * 0.5 / 20_000**0.5


@pytest.mark.parametrize(
    ("mechanism", "pair"),
    [
        (RACES[0][0], ([5, 0, 0], [0, 0, 5])),
        (RACES[1][0], ([0, 2, 1], [1, 2, 2])),
        (RACES[2][0], ([0, 2, 1], [1, 2, 2])),
        (ExponentialMechanism(epsilon=2, sensitivity=COUNTING, gap=False), ([0, 0, 0], [0, 1, 1])),
    ],
    ids=repr,
)
def test_a_batch_of_races_is_acquitted_and_shows_half_of_its_loss(mechanism, pair):
    boxes = [
        audit.black_box(mechanism, answers, entropy=Seeded(i), batch=5000)
        for i, answers in enumerate(pair)
    ]
    report = audit.statistical(
        *boxes, samples=20_000, confidence=1 - 1e-8, claimed=mechanism.cost, batch=5000
    )
    assert not report.broken, "what is drawn again is no outcome"
    exact = audit.exact(mechanism, answers_a=pair[0], answers_b=pair[1])
    assert 0.5 * exact.epsilon_at_least < report.epsilon_at_least <= exact.epsilon_at_most


def test_what_is_never_released_is_drawn_again_whatever_it_is():
    for outputs, again in (
        (["no", "a", None], "no"),
        ([(0, 1), (1, 0), (1, 1)], (1, 0)),
        ([1.5, "x", 2], "x"),
        ([1, True, 2], True),
    ):
        subject = Subject(
            laws=[Finite([1, 1, 1])],
            play=lambda _, noise, outputs=outputs: [outputs[i] for i in noise[:, 0]],
            cost=Pure(epsilon=1),
            again=again,
        )
        drawn = audit.black_box(subject, 0, entropy=Seeded(3), batch=500)()
        assert len(drawn) == 500
        assert {(type(x), x) for x in drawn} == {(type(x), x) for x in outputs} - {
            (type(again), again)
        }
    rows = Subject(
        laws=[Finite([1] * 3)],
        play=lambda _, noise: np.column_stack([noise, noise]),
        cost=Pure(epsilon=1),
        again=(1, 1),
    )
    assert set(audit.black_box(rows, 0, entropy=Seeded(3), batch=500)()[:, 0].tolist()) == {0, 2}


def test_a_stated_law_is_run_by_its_releases_or_not_at_all():
    lead = ExponentialMechanism(epsilon=1, sensitivity=COUNTING)
    drawn = audit.black_box(lead, [5, 0], entropy=Seeded(3), batch=50)()
    assert len(drawn) == 50
    assert len({choice.gap for choice in drawn}) > 5
    stated = Subject(laws=[], stated=lambda _: [], cost=Pure(epsilon=1))
    with pytest.raises(InvalidParameter, match="a stated law has no runs"):
        audit.black_box(stated, 0, batch=5)


OVER_A_DOMAIN = [
    NoisyTopK(k=1, epsilon=2, sensitivity=COUNTING, domain_size=6),
    SparseVector(threshold=5, positives=1, epsilon=2, sensitivity=COUNTING, domain_size=6),
    HybridTopK(k=1, threshold=3, epsilon=2, sensitivity=COUNTING, domain_size=6),
    AdaptiveSparseVector(threshold=5, at_least=1, epsilon=4, sensitivity=COUNTING, domain_size=6),
]


@pytest.mark.parametrize("mechanism", OVER_A_DOMAIN, ids=lambda mechanism: type(mechanism).__name__)
@pytest.mark.slow
def test_a_mechanism_over_a_domain_is_given_positions(mechanism):
    listed, mapped, empty = [0, 0, 0, 9, 0, 0], {3: 9}, {}
    one, other = (audit.black_box(mechanism, data, entropy=Seeded(1)) for data in (listed, mapped))
    assert [one().to_dict() for _ in range(20)] == [other().to_dict() for _ in range(20)]
    boxes = [
        audit.black_box(mechanism, data, entropy=Seeded(2 + i))
        for i, data in enumerate((mapped, empty))
    ]
    report = audited(*boxes, samples=400, claimed=mechanism.cost)
    assert report.epsilon_at_least > 0, "nine more make a difference"
    assert "raised" not in str(report)


@pytest.mark.parametrize(
    "mechanism", OVER_A_DOMAIN[:2], ids=lambda mechanism: type(mechanism).__name__
)
def test_a_batch_over_a_domain_plays_all_of_it(mechanism):
    for data in ([0, 0, 0, 9, 0, 0], {3: 9}, {}):
        played = audit.black_box(mechanism, data, entropy=Seeded(1), batch=80)()
        assert len(played) == 80
        places = [
            row[0] if isinstance(mechanism, NoisyTopK) else row[3]
            for row in played
            if isinstance(mechanism, NoisyTopK) or row[2]
        ]
        assert set(places) <= set(range(6))
        assert (places.count(3) > 40) == bool(data)


def test_runs_that_all_raise_are_no_acquittal():
    def broken():
        raise ValueError

    report = audited(broken, broken, claimed=Pure(epsilon=1))
    assert report.all_raised
    assert "not broken" not in repr(report) + str(report)
    assert "EVERY RUN RAISED" in repr(report)
    assert "EVERY RUN RAISED" in str(report)
    assert report.to_dict()["all_raised"] is True
    assert "not broken" not in audit.page(report)
    assert "EVERY RUN RAISED" in audit.page(report)
    with pytest.raises(InvalidParameter, match="every run raised an error"):
        report.raise_if_broken()
    one = audited(broken, lambda: 1, claimed=Pure(epsilon=1))
    assert not one.all_raised
    assert one.broken, "that one of them raises tells them apart"
    late = iter(range(1000))
    assert not audited(lambda: 1 // min(next(late), 1), broken).all_raised


def test_a_finite_law_is_sampled_by_its_weights():
    subject = Subject(
        laws=[Finite([1, 0, 2, 5], low=-1)], play=lambda _, noise: noise[:, 0], cost=Pure(epsilon=1)
    )
    drawn = audit.black_box(subject, 0, entropy=Seeded(3), batch=80_000)()
    counts = np.bincount(drawn + 1, minlength=4)
    assert counts[1] == 0
    assert np.abs(counts / 80_000 - np.array([1, 0, 2, 5]) / 8).max() < 5 * 0.5 / 80_000**0.5


def test_a_partition_takes_outcomes_of_any_type():
    class Thing:
        def __init__(self, label):
            self.label = label

    report = audited(
        lambda: Thing("a"),
        lambda: Thing("b"),
        partition=lambda thing: thing.label,
        claimed=Pure(epsilon=1),
    )
    assert report.broken
    with pytest.raises(InvalidParameter, match="got Thing. Give partition="):
        audited(lambda: Thing("a"), lambda: Thing("b"))
    with pytest.raises(InvalidParameter, match="hashable"):
        audited(lambda: 1, lambda: 2, partition=lambda _: [])


REFUSED = [
    ({"samples": 39}, "from 40 to 10"),
    ({"samples": 10**9}, "from 40 to 10"),
    ({"confidence": 1}, "confidence"),
    ({"confidence": 0}, "confidence"),
    ({"delta": 1}, "delta must be"),
    ({"delta": -0.1}, "delta"),
    ({"epsilons": [501]}, "from 0 to 500"),
    ({"epsilons": [-1]}, "epsilons"),
    ({"claimed": 1.0}, "must be a cost"),
    ({"batch": 0}, "batch"),
    ({"batch": 3}, "no list"),
    ({"cost_of": lambda _: Pure(epsilon=1)}, "needs claimed"),
    ({"cost_of": lambda _: Pure(epsilon=2), "claimed": Pure(epsilon=1)}, "never be above"),
    ({"cost_of": lambda _: ZCDP(rho=1), "claimed": Pure(epsilon=1)}, "must return pure costs"),
    ({"name": ""}, "name"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED)
def test_mistakes_are_refused(options, words):
    with pytest.raises(InvalidParameter, match=words):
        audited(lambda: 1, lambda: 2, **options)


def test_callables_are_asked_for():
    with pytest.raises(InvalidParameter, match="two callables"):
        audited(3, lambda: 1)


def test_batches_have_the_size_that_was_said_and_do_not_raise():
    with pytest.raises(InvalidParameter, match="it is 3, and a call returned 2"):
        audited(lambda: [1, 2], lambda: [1, 2], batch=3)
    with pytest.raises(ZeroDivisionError):
        audited(lambda: [1 // 0], lambda: [1], batch=1)


def test_a_batch_of_objects_and_a_batch_as_an_array_say_the_same():
    values = np.array([[0, 3], [1, 4]] * 50)
    one = audited(lambda: values, lambda: values + 5, batch=100)
    other = audited(values.tolist, (values + 5).tolist, batch=100)
    assert one.epsilon_at_least == other.epsilon_at_least > 0


def test_progress_reaches_the_end():
    told = []
    audited(lambda: 1, lambda: 1, progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 100


def test_an_interrupt_is_no_outcome():
    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        audited(stop, lambda: 1)


def test_a_command_says_its_exit_code_and_stdout():
    said = Command(arguments=["sh", "-c", "echo out; echo err >&2; exit 3"])()
    assert (said.exit_code, said.stdout, said.stderr) == (3, "out\n", "")
    assert Command(arguments=["sh", "-c", "echo err >&2"], with_stderr=True)().stderr == "err\n"
    assert Command(arguments=["sh", "-c", "kill -9 $$"])().exit_code == -9
    assert Command(arguments=["cat"])().stdout == "", "nothing on stdin"


def test_long_output_is_cut_and_its_length_kept():
    said = Command(arguments=[sys.executable, "-I", "-S", "-c", "print('x' * 3_000_000)"])()
    assert len(said.stdout) == 1 << 20
    assert said.length == 3_000_001


@pytest.mark.parametrize("arguments", ["echo 1", [], [1], ["a\0b"], [""]])
def test_arguments_are_a_list_of_texts(arguments):
    with pytest.raises(InvalidParameter, match=r"audit\.Command\.arguments"):
        Command(arguments=arguments)


@pytest.mark.parametrize("end", ["wait", "exit 0"])
@pytest.mark.slow
def test_a_command_that_hangs_ends_the_audit_and_leaves_nothing_behind(tmp_path, end):
    mark = tmp_path / "child"
    hanging = Command(arguments=["sh", "-c", f"sleep 30 & echo $! > {mark}; {end}"], timeout=0.3)
    started = time.monotonic()
    with pytest.raises(InvalidParameter, match=r"took more than 0\.3 s"):
        audited(hanging, hanging)
    assert time.monotonic() - started < 25
    child = mark.read_text(encoding="utf-8").strip()
    state = subprocess.run(
        ["ps", "-o", "stat=", "-p", child], capture_output=True, text=True, check=False
    ).stdout.strip()
    assert state[:1] in {"", "Z"}, "gone, or waiting to be asked how it ended"
