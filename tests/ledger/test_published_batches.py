"""A statement about several releases: those of a study, or that a program asked for together and kept."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

import sordino as sd
from ledger.fakes import refused
from ledger.test_published import (
    ITEMS,
    SUBJECT,
    UNIT,
    edited,
    forged,
    judged,
    leaves,
    opened,
    other,
    released,
    shop,
    text_of,
    written,
)
from sordino.cost import Pure
from sordino.errors import InvalidParameter
from sordino.ledger import Ledger
from sordino.statements import Owner, PublicStatement
from sordino.statements.document import check_room, digest_of_statement
from statements.registry import OWNER, RECORD
from support.json_schema import check


@pytest.fixture
def account(place):
    return opened(place, epsilon=3)


@pytest.fixture
def session(account):
    return sd.Session(shop(), unit=UNIT, ledger=account, name="orders")


def asked(session):
    """Ask for two releases together, and keep none of them."""
    with session.batch():
        top = session.top_k("item", k=2, epsilon=0.5, domain=ITEMS)
        units = session.count_distinct_units(epsilon=0.25)
    return top.result, units.result


def kept(session):
    top, units = asked(session)
    session.keep(top)
    session.keep(units)
    return top.receipt.id


def test_it_promises_what_was_reserved_for_all_of_them(account, session):
    key = kept(session)
    statement = account.publish(key)
    promise, line = statement.promise, account.charge(key)
    assert (promise["about"], promise["charge"]) == ("batch", key)
    assert promise["guarantee"] == {"variant": "Pure DP", "epsilon": "3/4", "delta": "0"}
    assert Fraction(promise["guarantee"]["epsilon"]) == line.reserved
    assert promise["spent"] == {"epsilon": str(line.settled)}
    assert [one["release"] for one in promise["asked"]] == ["top_k", "count_distinct_units"]
    assert [(one["part"], one["release"]) for one in promise["releases"]] == [
        (1, "top"),
        (2, "count"),
    ]
    digests = [event.detail["digest"] for event in account.history() if event.kind == "keep"]
    assert [one["published"] for one in promise["releases"]] == digests
    # Each mechanism is there as often as it was charged, with what is proved of it.
    parts = [account.publish(key, part=part).promise for part in (1, 2)]
    names = sorted(one["name"] for one in parts[0]["mechanisms"])
    assert (
        sorted(one["name"] for one in promise["mechanisms"] for _ in range(one["times"])) == names
    )
    assert all(one["proofs"] for one in promise["mechanisms"])
    assert promise["exact"] is True
    last = [event for event in account.history() if event.kind == "keep"][-1]
    assert promise["history"] == {"event": last.number, "head": last.head}
    # A part says that it was paid together with others.
    assert all((one["about"], one["batch"]) == ("release", True) for one in parts)
    deployment = statement.record["deployment"]
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 0.75, "delta": 0.0}
    assert deployment["deployment_model"]["release_type_details"].startswith(
        "2 releases that were charged"
    )
    check(account.publish(key, owner=Owner(OWNER)).record, RECORD)


def test_one_release_by_itself_is_no_batch(account):
    key = released(account)
    assert account.publish(key) == account.publish(key, part=1)
    assert account.publish(key).promise["about"] == "release"


def test_what_is_kept_later_makes_another_statement_and_the_first_holds(account, session, place):
    top, units = asked(session)
    key = top.receipt.id
    refused(lambda: account.publish(key), "has not kept the release")
    session.keep(top)
    first = account.publish(key)
    assert [one["part"] for one in first.promise["releases"]] == [1]
    assert first.promise["charged"] == 2
    session.keep(units)
    assert account.check_statement(first).sound
    assert not account.check_statement(first).newer
    both = Ledger.open(place, account="orders").publish(key)
    assert [one["part"] for one in both.promise["releases"]] == [1, 2]
    for statement in (first, both):
        assert account.check_statement(statement.to_text()).sound
    assert account.check_statement(first).newer
    # What comes after it changes nothing.
    released(account)
    account.publish()
    assert account.publish(key) == both
    assert account.check_statement(both).sound
    assert not account.check_statement(both).newer


def test_the_number_of_rows_that_count_is_the_highest_or_none(account):
    session = sd.Session(
        shop(), unit=sd.PrivacyUnit("customer", max_rows=2), ledger=account, name="orders"
    )
    assert account.publish(kept(session)).promise["max_rows"] == 2
    everything = sd.Session(shop(), unit=sd.PrivacyUnit("customer"), ledger=account, name="orders")
    with everything.batch():
        one = everything.count_distinct_units(epsilon=0.25)
        two = everything.count_distinct_units(epsilon=0.25)
    everything.keep(one.result)
    everything.keep(two.result)
    assert "max_rows" not in account.publish(one.result.receipt.id).promise


def test_a_look_in_it_promises_for_the_earlier_ones_too(account, session):
    first = session.count_distinct_units(epsilon=0.25)
    session.keep(first)
    with session.batch():
        again = session.remeasure(first, epsilon=0.5)
        units = session.count_distinct_units(epsilon=0.25)
    session.keep(again.result)
    session.keep(units.result)
    promise = account.publish(again.result.receipt.id).promise
    assert promise["looks"] == 2
    assert promise["guarantee"]["epsilon"] == "1"


# ---- checking --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_every_field_that_is_edited_is_named(account, session, stride):
    key = kept(session)
    statement = account.publish(key, owner=Owner(OWNER))
    account.publish()
    account.publish(key, part=1)
    tree = statement.to_dict()
    paths = [path for path in leaves(tree) if path != ("promise", "form")]
    assert len(paths) > 50
    for path in [*paths[::stride], ("digest",)]:
        wrong = edited(tree, path, other)
        [problem] = judged(account, wrong)
        assert problem.startswith(f"{written(path)} was edited: ")
        if path[0] != "digest" and written(path) not in SUBJECT:
            wrong["digest"] = digest_of_statement(wrong)
            assert any(
                one.startswith(f"{written(path)} was edited: ") for one in judged(account, wrong)
            )


def test_a_false_one_in_the_history_is_convicted_by_the_rest_of_it(account, session):
    true = account.publish(kept(session)).to_dict()
    for path, change in (
        (("promise", "guarantee", "epsilon"), lambda _: "1/100"),
        (("promise", "releases"), lambda listed: listed[:1]),
        (("promise", "releases", 1, "published"), lambda _: "0" * 64),
        (("promise", "mechanisms", 0, "times"), lambda number: number + 1),
        (("promise", "asked"), lambda listed: listed[:1]),
        (("promise", "max_rows"), lambda _: 1),
        (("promise", "history", "head"), lambda _: "0" * 64),
    ):
        false = edited(true, path, change)
        false["digest"] = digest_of_statement(false)
        forged(account, false)
        problems = judged(account, false)
        assert any(one.startswith(f"{written(path)}") for one in problems), (path, problems)
    assert account.check_statement(text_of(true)).sound


@pytest.mark.parametrize("event", [1, -3, 10**9, "7", None])
@pytest.mark.sample(2)
def test_one_about_another_event_is_a_problem_and_no_error(account, session, event):
    false = account.publish(kept(session)).to_dict()
    false["promise"]["history"]["event"] = event
    false["digest"] = digest_of_statement(false)
    forged(account, false)
    assert judged(account, false)


def test_one_about_a_charge_of_a_stranger_is_a_problem_and_no_error(account, session):
    true = account.publish(kept(session)).to_dict()
    with account.reserve(Pure(epsilon=0.1), detail={"batch": [3, {"remeasures": ["x"]}]}) as charge:
        pass
    refused(lambda: account.publish(charge.id), "has not kept the release")
    false = edited(true, ("promise", "charge"), lambda _: charge.id)
    false["digest"] = digest_of_statement(false)
    forged(account, false)
    assert judged(account, false)


# ---- its length ------------------------------------------------------------------------------------------------------


def test_what_could_be_too_long_is_refused_before_anything_is_charged():
    check_room(Owner(), [{"kind": "sum"}] * 200)
    with pytest.raises(
        InvalidParameter, match=r"262144 characters; got 900 releases.*make two studies"
    ):
        check_room(Owner(), [{"kind": "sum"}] * 900)
    # A ledger spells what is not ASCII in six letters or twelve.
    with pytest.raises(InvalidParameter, match="must fit into a statement"):
        check_room(Owner(), [{"where": "😀" * 40_000}])


def test_a_long_one_is_read_again(account, session):
    statement = account.publish(kept(session))
    listed = statement.promise["releases"] * 150
    asked = [{"release": "sum", "where": "x = 'é'" * 10}] * len(listed)
    check_room(Owner(), asked)
    long = PublicStatement.build(statement.promise | {"releases": listed, "asked": asked}, Owner())
    for form in ("yaml", "json"):
        assert PublicStatement.from_text(long.to_text(form)) == long
    assert json.loads(long.to_text("json"))["promise"]["about"] == "batch"
