"""A slice of the soak in the default tests: it finds nothing, it does what it says, and it convicts whoever breaks a promise."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from soak import tables, twins, witness
from soak.amounts import ATTO, NANO, ORDER, Sums, excess, total
from soak.referee import Verdict, judge, judge_copy
from soak.tables import Tables
from soak.witness import Said, Witness
from soak.writers import KINDS, Noise, Real, cost, left, piece
from sordino.errors import BudgetExceeded
from sordino.ledger import Budget, Ledger
from sordino.ledger.amounts import Meter, exact_amounts
from sordino.ledger.renyi import amounts_at
from sordino.ledger.store import sqlite

ROOT = Path(__file__).resolve().parents[2]
ABOUT = {"adjacency": "add-remove", "unit": "customer", "source": "name:orders"}
QUICK = ("generous", "forgiving", "noise-first", "forgotten-flag", "returned-delta")


def soak(folder: Path, *options: str) -> tuple[int, list[dict], str]:
    """Run the soak as its users do; return how it ended, what it counted in each round, and what it said."""
    paths = os.pathsep.join(
        [str(ROOT / "tests"), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    )
    command = [
        sys.executable,
        "-m",
        "soak",
        "charges",
        "--folder",
        str(folder),
        "--pause",
        "0.1",
        *options,
    ]
    done = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    results = folder / "charges.jsonl"
    assert results.exists(), done.stderr
    return (
        done.returncode,
        [json.loads(line) for line in results.read_text().splitlines()],
        done.stdout,
    )


@pytest.mark.parametrize(
    ("place", "kinds"),
    [
        ("memory", ("kill", "full disk", "copied back", "clock")),
        pytest.param("disk", ("kill all", "moved alone", "stop", "backup"), marks=pytest.mark.slow),
        pytest.param("server", ("kill", "restart", "void"), marks=pytest.mark.slow),
    ],
)
@pytest.mark.sample(4)
def test_a_slice_finds_nothing(tmp_path, place, kinds):
    options = (
        "--charges",
        "300",
        "--rounds",
        "1",
        "--seconds",
        "60",
        "--minutes",
        "5",
        "--seed",
        "1",
        "--everything",
    )
    code, rounds, said = soak(tmp_path, *options, "--places", place, "--kinds", *kinds)
    assert code == 0, said
    [counts] = [line["counts"] for line in rounds]
    assert counts["charges"] > 100
    assert counts["kills"] > 0
    happened = {
        "full disk": "full disks",
        "copied back": "moves",
        "moved alone": "moves alone",
        "backup": "backups",
    }
    happened |= {"restart": "restarts", "clock": "clocks", "stop": "stops"}
    if not hasattr(
        resource, "prlimit"
    ):  # a full disk needs a system that can limit one, or the files of a process
        happened.pop("full disk")
    assert all(counts[happened[kind]] for kind in kinds if kind in happened)
    assert (counts["overspent"], counts["lost"], counts["unsound"], counts["findings"]) == (
        0,
        0,
        0,
        0,
    )
    assert counts["verified"] == counts["accounts"] == 10
    assert "0 overspent, 0 drawn charges lost, verify sound 10 of 10, 0 findings" in said


@pytest.mark.slow
def test_slices_add_up_and_end_by_themselves(tmp_path):
    for seed in ("1", "2"):
        code, rounds, said = soak(
            tmp_path, "--minutes", "0.1", "--seconds", "3", "--seed", seed, "--places", "memory"
        )
        assert code == 0, said
    total = sum(line["counts"]["charges"] for line in rounds)
    assert {line["seed"] for line in rounds} == {1, 2}
    assert f"all slices: {total} charges, " in said


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in twins.TWINS],
)
@pytest.mark.sample(8)
def test_every_twin_is_convicted(tmp_path, name):
    charges = "300" if name in QUICK else "2000"
    code, rounds, said = soak(
        tmp_path,
        "--broken",
        name,
        "--charges",
        charges,
        "--seconds",
        "4",
        "--minutes",
        "8",
        "--seed",
        "1",
    )
    assert code == 1, said
    assert rounds[-1]["found"]
    assert rounds[-1]["broken"] == name


# ---- the referee ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """Return the tables of a small ledger, what was said about it, and its budgets."""
    folder = tmp_path_factory.mktemp("round")
    (folder / "witness").mkdir()
    told = Witness(folder / "witness" / "0")
    ledger = Ledger.create(
        folder / "budget.db", account="orders", budget=Budget(epsilon=Fraction(1000, NANO)), **ABOUT
    )

    def reserve(label, amount):
        told.say("A", label, "orders", amount)
        try:
            charge = ledger.reserve(cost(Fraction(amount), "pure"), label=label)
        except BudgetExceeded:
            told.say("F", label, ledger.remaining * NANO)
            return None
        told.say("R", label, charge.id)
        return charge

    def draw(charge, slot, amount):
        told.say("D", charge.label, slot, amount)
        charge.draw(cost(Fraction(amount), "pure"))
        told.say("N", charge.label, slot, amount)

    first, second, third = reserve("0.0.0", 300), reserve("0.0.1", 200), reserve("0.0.2", 100)
    for slot, amount in enumerate((100, 50)):
        draw(first, slot, amount)
    draw(second, 0, 200)
    assert reserve("0.0.3", 500) is None
    told.say("S", "0.0.0")
    first.settle()
    told.say("s", "0.0.0")
    told.say("K", "0.0.1")
    told.say("V", third.id)
    ledger.void(third.id, reason="test")
    told.say("v", third.id)
    told.say("A", "0.0.4", "orders", 10)
    told.close()
    sqlite.close_all()
    return tables.of(ledger.url), folder / "witness", {"orders": Sums(Fraction(1000))}


def judged(held: Tables, said: Said, budgets: dict[str, Sums]) -> set[str]:
    verdict = Verdict()
    judge(held, said, budgets, verdict=verdict, full=False, server=False)
    return set(verdict.counts)


def change(held: Tables, label: str, **facts: object) -> Tables:
    """Return tables in which a charge is another one."""
    key = next(key for key, name in held.labels.items() if name == label)
    return replace(held, charges=held.charges | {key: held.charges[key]._replace(**facts)})


def without(held: Tables, label: str) -> Tables:
    key = next(key for key, name in held.labels.items() if name == label)
    return replace(
        held,
        charges={other: charge for other, charge in held.charges.items() if other != key},
        labels={other: name for other, name in held.labels.items() if other != key},
    )


def shortened(held: Tables) -> Tables:
    return replace(held, events={name: events[:-1] for name, events in held.events.items()})


def edited(held: Tables) -> Tables:
    [events] = held.events.values()
    return replace(
        held,
        events={
            "orders": [*events[:2], events[2]._replace(body=events[2].body + " "), *events[3:]]
        },
    )


def test_the_referee_finds_nothing_where_there_is_nothing(seen):
    held, folder, budgets = seen
    said = witness.read(folder)
    assert judged(held, said, budgets) == set()
    assert said.attempts == 5
    assert [refusal.left for refusal in said.refusals] == ["400"]


@pytest.mark.parametrize(
    ("broken", "kind"),
    [
        (lambda held: without(held, "0.0.0"), "lost"),
        (lambda held: without(held, "0.0.2"), "forgotten"),
        (lambda held: change(held, "0.0.0", draws=1, drawn=100, settled=100), "lost"),
        (lambda held: change(held, "0.0.0", settled=149), "lost"),
        (lambda held: change(held, "0.0.0", settled=151), "settled"),
        (lambda held: change(held, "0.0.0", state="drawn", settled=None), "still open"),
        (lambda held: change(held, "0.0.1", state="settled", settled=200), "settled by nobody"),
        (lambda held: change(held, "0.0.1", reserved=201), "amount"),
        (lambda held: change(held, "0.0.1", drawn=201), "draws"),
        (lambda held: change(held, "0.0.2", settled=1), "void"),
        (
            lambda held: replace(held, labels=dict.fromkeys(held.labels, "0.0.9")),
            "charge of nobody",
        ),
        (shortened, "history"),
        (edited, "history"),
        (
            lambda held: replace(
                held, accounts={"orders": held.accounts["orders"]._replace(spent=0)}
            ),
            "sums",
        ),
        (
            lambda held: replace(
                held, accounts={"orders": held.accounts["orders"]._replace(allowance=300)}
            ),
            "overspent",
        ),
        (lambda held: replace(held, damaged="page 7"), "damaged file"),
    ],
)
def test_the_referee_convicts_a_ledger(seen, broken: Callable[[Tables], Tables], kind):
    held, folder, budgets = seen
    assert kind in judged(broken(held), witness.read(folder), budgets)


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (["D 0.0.2 0 60", "N 0.0.2 0 60"], "lost"),
        (["A 0.0.7 orders 10", "R 0.0.7 ff", "D 0.0.7 0 10", "N 0.0.7 0 10"], "lost"),
        (["A 0.0.7 orders 10", "R 0.0.7 ff"], "forgotten"),
        (["A 0.0.7 orders 10", "F 0.0.7 10"], "refused"),
        (["A 0.0.7 orders 10", "F 0.0.7 9"], "refused"),
        (["A 0.0.7 orders 701", "F 0.0.7 700"], "refused"),
        (["E 0.0.4 reserve 0.1 LedgerError: the disk is full"], "error"),
        (["E 0.0.4 reserve 0.1 LedgerError: cannot be reached"], "error"),
        (["B Traceback"], "bug"),
        (["D 0.0.1 1 900", "N 0.0.1 1 900"], "overspent"),
        (["G orders 5", "g orders 5"], None),
    ],
)
def test_the_referee_convicts_what_does_not_fit_what_was_said(seen, tmp_path, lines, kind):
    """A grant to what is no child changes nothing: `orders` may still not spend more than it was made with."""
    held, folder, budgets = seen
    (tmp_path / "0").write_text((folder / "0").read_text() + "\n".join(lines) + "\nA 0.0.8 ord")
    found = judged(held, witness.read(tmp_path), budgets)
    assert found == set() if kind is None else kind in found


def test_errors_of_a_full_disk_and_of_a_server_that_stayed_away_are_no_findings(seen, tmp_path):
    held, folder, budgets = seen
    said = "E 0.0.4 reserve 0.1 LedgerError: the disk is full\nE 0.0.4 reserve 20.1 LedgerError: cannot be reached\n"
    (tmp_path / "0").write_text((folder / "0").read_text() + said)
    for full, server, count in ((True, True, 0), (True, False, 1), (False, True, 1)):
        verdict = Verdict()
        judge(held, witness.read(tmp_path), budgets, verdict=verdict, full=full, server=server)
        assert verdict.counts["error"] == count


def test_a_copy_holds_what_was_said_before_it_was_begun(seen):
    held, folder, _ = seen
    for copied, kinds in (
        (held, set()),
        (without(held, "0.0.1"), {"lost"}),
        (without(held, "0.0.2"), {"forgotten"}),
    ):
        verdict = Verdict()
        judge_copy(copied, witness.read(folder), verdict)
        assert set(verdict.counts) == kinds
    verdict = Verdict()
    judge_copy(
        Tables({}, {}), witness.read(folder, {"0": (folder / "0").read_text().index("R ")}), verdict
    )
    assert verdict.clean


# ---- accounts with a delta --------------------------------------------------------------------------------------------------

TWO_THIRDS = Fraction(2, 3)


@pytest.fixture(scope="module")
def with_delta(tmp_path_factory):
    """Return the tables of a ledger with such an account and a share of it, what was said about both, and their budgets."""
    folder = tmp_path_factory.mktemp("delta")
    (folder / "witness").mkdir()
    told = Witness(folder / "witness" / "0")
    budget = Budget(epsilon=2, delta=1e-6, order=ORDER, failures=Fraction(1000, ATTO))
    ledger = Ledger.create(folder / "budget.db", account="mixed", budget=budget, **ABOUT)
    share = Sums(Fraction(10**6), Fraction(10**8), Fraction(500))
    crew = ledger.grant(
        "crew", share.main / NANO, pure=share.pure / NANO, failures=share.failing / ATTO
    )

    def charge(to, label, *parts, drawn):
        adds = total([part.adds for part in parts])
        told.say("A", label, to.account, adds)
        try:
            made = to.reserve(tuple(part.cost for part in parts), label=label)
        except BudgetExceeded as refused:
            return told.say("F", label, left(refused.details))
        told.say("R", label, made.id)
        for slot, part in enumerate(parts[:drawn]):
            told.say("D", label, slot, part.adds)
            made.release(Noise(part.cost, part.spends, lambda: None), [1], entropy=Real())
            told.say("N", label, slot, part.leaves)
        told.say("S", label)
        made.settle()
        return told.say("s", label)

    def of(kind, size=300):
        return piece("mixed", size, TWO_THIRDS, kind)

    charge(ledger, "0.0.0", of("pure"), of("approximate"), of("stage"), drawn=2)
    charge(crew, "0.0.1", of("pure"), drawn=1)
    charge(crew, "0.0.2", of("rho"), drawn=0)
    charge(ledger, "0.0.3", of("approximate", 2999), drawn=0)
    charge(ledger, "0.0.4", of("rho"), drawn=1)
    charge(ledger, "0.0.5", of("pure", 10**9), drawn=0)
    told.close()
    sqlite.close_all()
    limits = budget.limits
    budgets = {"mixed": Sums(*map(Fraction, limits[:3])), "crew": share}
    return tables.of(ledger.url), folder / "witness", budgets


def test_an_account_with_a_delta_is_what_was_said_of_it(with_delta):
    held, folder, budgets = with_delta
    said = witness.read(folder)
    assert judged(held, said, budgets) == set()
    assert [refusal.account for refusal in said.refusals] == ["crew", "mixed", "mixed"]
    refused = [refusal.left for refusal in said.refusals]
    assert "/" in refused[0]
    assert (refused[1], refused[2][-1]) == (f"/{400 / ATTO:.6g}", "/")
    account = held.accounts["mixed"]
    assert (account.impure, account.failing_spent) == (1, 600)


def widened(held, **facts):
    return replace(
        held, accounts=held.accounts | {"mixed": held.accounts["mixed"]._replace(**facts)}
    )


@pytest.mark.parametrize(
    ("broken", "kind"),
    [
        (lambda held: change(held, "0.0.0", pure_settled=0), "lost"),
        (lambda held: change(held, "0.0.0", failing_drawn=0), "lost"),
        (lambda held: change(held, "0.0.0", settled=0), "lost"),
        (lambda held: change(held, "0.0.0", pure_reserved=0), "amount"),
        (lambda held: change(held, "0.0.0", pure_drawn=10**9), "draws"),
        (lambda held: change(held, "0.0.4", impure=0), "amount"),
        (lambda held: widened(held, impure=0), "sums"),
        (lambda held: widened(held, pure_spent=0), "sums"),
        (lambda held: widened(held, failing_spent=0), "sums"),
        (lambda held: widened(held, failing_limit=300), "overspent"),
        (lambda held: widened(held, pure_limit=10**12), "allowance"),
        # One sum within its limit is enough, but no longer once something had no epsilon.
        (lambda held: widened(held, pure_limit=1), "allowance"),
        (lambda held: widened(held, allowance=1), "overspent"),
    ],
)
def test_the_referee_convicts_an_account_with_a_delta(with_delta, broken, kind):
    held, folder, budgets = with_delta
    assert kind in judged(broken(held), witness.read(folder), budgets)


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (["A 0.0.7 mixed 5,5,5,0", "F 0.0.7 9/"], "refused"),
        (["A 0.0.7 crew 1,1,0,0", "F 0.0.7 1/1"], "refused"),
        (["D 0.0.1 1 1,100000000,0,0", "N 0.0.1 1 1,100000000,0,0"], "overspent"),
        (["D 0.0.1 1 1,0,501,0", "N 0.0.1 1 1,0,501,0"], "overspent"),
        (["D 0.0.1 1 1,0,0,1", "N 0.0.1 1 1,0,0,1"], "overspent"),
        (["D 0.0.4 1 1,0,901,1", "N 0.0.4 1 1,0,901,1"], "overspent"),
        (["D 0.0.4 1 900000000,0,0,1", "N 0.0.4 1 900000000,0,0,1"], "overspent"),
    ],
)
def test_the_referee_knows_what_noise_may_spend_in_each_sum(with_delta, tmp_path, lines, kind):
    held, folder, budgets = with_delta
    (tmp_path / "0").write_text((folder / "0").read_text() + "\n".join(lines) + "\n")
    assert kind in judged(held, witness.read(tmp_path), budgets)


@pytest.mark.parametrize(
    ("spent", "limits", "either", "over"),
    [
        (Sums(Fraction(5), Fraction(9)), Sums(Fraction(5), Fraction(5)), True, 0),
        (Sums(Fraction(9), Fraction(5)), Sums(Fraction(5), Fraction(5)), True, 0),
        (Sums(Fraction(9), Fraction(5), Fraction(0), 1), Sums(Fraction(5), Fraction(5)), True, 4),
        (Sums(Fraction(9), Fraction(7)), Sums(Fraction(5), Fraction(5)), True, 2),
        (Sums(Fraction(5), Fraction(9)), Sums(Fraction(5), Fraction(5)), False, 4),
        (Sums(Fraction(1), Fraction(1), Fraction(3)), Sums(Fraction(5), Fraction(5)), True, 3),
        (Sums(Fraction(1), Fraction(-1)), Sums(Fraction(5), Fraction(5)), True, 1),
    ],
)
def test_what_is_too_much(spent, limits, either, over):
    assert max(0, excess(spent, limits, either=either)) == over


def test_amounts_are_those_that_a_ledger_charges():
    """The soak computes them by itself; a size for each kind, compared with what a charge adds."""
    for name in ("mixed", "either"):
        for size in (0, 1, 2, 3, 4, 500, 2999):
            for kind in KINDS:
                one = piece(name, size, TWO_THIRDS, kind)
                found = amounts_at(one.cost, Fraction(ORDER)).rounded_up()
                assert Sums(*map(Fraction, found[:3])).charges(one.adds), one
                assert found.impure == one.adds.impure
    for size in (0, 1, 2, 3, 4, 500, 2999):
        for kind in KINDS:
            one = piece("deltas", size, TWO_THIRDS, kind)
            found = exact_amounts(one.cost, Meter("zcdp", Fraction(1))).rounded_up()
            assert Sums(*map(Fraction, found[:3])).charges(one.adds), one
            assert found.impure == one.adds.impure == 1


def test_an_account_of_rhos_has_no_limit_for_epsilons():
    limits = Sums(Fraction(5), Fraction(0), Fraction(5), 1)
    for spent, over in (
        ((5, 0, 5, 1), 0),
        ((6, 0, 5, 1), 1),
        ((5, 0, 7, 1), 2),
        ((-3, 0, 0, 1), 3),
    ):
        found = excess(Sums(*map(Fraction, spent[:3]), spent[3]), limits, either=False)
        assert max(0, found) == over
