"""What is charged for an outcome is what `cost_of` says, whatever the outcome calls its own numbers."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, make_dataclass

import pytest

import sordino_audit as audit
from sordino import Seeded
from sordino.cost import Pure
from sordino.noise.samplers.uniform import uniform_below
from sordino_audit.black_boxes.features import columns
from sordino_audit.black_boxes.runs import CHARGED, RunPart, read_outcome


@dataclass(frozen=True)
class Billed:
    bit: int
    charged: float  # cents, nothing to do with privacy


Fields = namedtuple("Fields", ["bit", "charged"])


class Odd(tuple):
    """A named tuple by its looks, whose second name is the very path of the charge."""

    __slots__ = ()
    _fields = ("bit", CHARGED)


MAKERS = {
    "data class": Billed,
    "named tuple": Fields,
    "mapping": lambda bit, cents: {"bit": bit, "charged": cents},
    "odd names": lambda bit, cents: Odd((bit, cents)),
}


def judged(make, cents, charge, claimed):
    """Randomized response, truthful three times out of four: its loss is ln 3 = 1.0986."""

    def box(bit):
        entropy = Seeded(bit)
        return lambda: [make(bit ^ int(lie == 0), cents) for lie in uniform_below(4, 500, entropy)]

    cost_of = lambda _: Pure(epsilon=charge)  # noqa: E731
    return audit.statistical(
        box(0),
        box(1),
        samples=4000,
        confidence=0.999,
        claimed=Pure(epsilon=claimed),
        cost_of=cost_of,
        batch=500,
    )


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.slow
def test_a_number_of_the_outcome_is_no_charge(make):
    right = judged(make, 0.0, 1.2, 1.2)
    assert not right.broken, "an outcome that calls its price 0 is still charged 1.2"
    assert right.beyond_at_least < 0
    wrong = judged(make, 5.0, 0.1, 6)
    assert wrong.broken, "an outcome that calls its price 5 is still charged 0.1"
    assert 0.5 < wrong.beyond_at_least < 1.0986 - 0.1
    assert wrong.beyond_evidence.event.startswith("charged 0.1,")


@pytest.mark.parametrize("name", ["sum", "largest", "smallest"])
def test_a_number_of_the_outcome_is_not_hidden_by_one_that_is_computed(name):
    part = RunPart()
    part.add(read_outcome(make_dataclass("Made", ["first", name])(7, 5)))
    assert columns(part, ("first", name)).numbers[name].tolist() == [5]
