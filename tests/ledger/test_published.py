"""A statement says what the ledger has, is in its history, and whoever edits a field of it is told which one."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from fractions import Fraction

import polars as pl
import pytest

import sordino as sd
from ledger.fakes import REAL, Mechanism, in_child, make, raw, refused, spent
from ledger.faults import Counter
from ledger.test_crashes import KILLED, boundaries_of
from ledger.test_roles import charger, owner  # noqa: F401  (fixtures)
from sordino.cost import ZCDP, Approximate, ApproximateZCDP, Pure
from sordino.errors import InvalidParameter, LedgerConflict, LedgerError
from sordino.ledger import Budget, Ledger
from sordino.ledger.account import promises, publishing
from sordino.ledger.renyi import Sums, spent_epsilon
from sordino.ledger.store import sqlite
from sordino.record import Record
from sordino.statements import Owner, PublicStatement, proofs
from sordino.statements.document import digest_of_statement, list_differences
from sordino.statements.owner import OWNER_MUST_ADD
from sordino.statements.registry import FIELDS
from statements.registry import OWNER, RECORD
from support.json_schema import Invalid, check
from test_keep import RELEASES

ITEMS = ["coffee", "rice", "tea"]
UNIT = sd.PrivacyUnit("customer", max_rows=2)


def shop(rows=60):
    return pl.DataFrame(
        {
            "customer": [f"u{n}" for n in range(rows)],
            "item": [ITEMS[n % 7 % 3] for n in range(rows)],
        }
    )


def opened(place, **budget):
    about = {"adjacency": "add-remove", "unit": "customer", "source": "name:orders"}
    return Ledger.create(place, account="orders", budget=Budget(**budget), **about)


def released(ledger, rows=60, **asked):
    """Release the best items and keep that; return the id of the charge."""
    session = sd.Session(shop(rows), unit=UNIT, ledger=ledger, name="orders")
    top = session.top_k("item", domain=ITEMS, **{"k": 2, "epsilon": 0.5} | asked)
    session.keep(top)
    return top.receipt.id


@pytest.fixture
def account(place):
    return opened(place, epsilon=3)


def leaves(tree, path=()):
    """Yield the path of every value in a tree."""
    items = (
        tree.items()
        if isinstance(tree, dict)
        else enumerate(tree)
        if isinstance(tree, list)
        else ()
    )
    for name, value in items:
        yield from leaves(value, (*path, name))
    if not isinstance(tree, dict | list):
        yield path


def written(path):
    return "".join(
        f"[{one + 1}]" if isinstance(one, int) else f".{one}" for one in path
    ).removeprefix(".")


def edited(tree, path, change):
    """Return a copy in which one value is another one."""
    made = copy.deepcopy(tree)
    *way, last = path
    within = made
    for step in way:
        within = within[step]
    within[last] = change(within[last])
    return made


def other(value):
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int | float) else f"{value}0"


def text_of(tree):
    return json.dumps(tree)


# ---- what it says ----------------------------------------------------------------------------------------------------


def test_a_statement_of_a_release_says_what_was_reserved_for_it(account):
    key = released(account)
    statement = account.publish(key)
    promise, line = statement.promise, account.charge(key)
    assert promise["guarantee"] == {"variant": "Pure DP", "epsilon": "1/2", "delta": "0"}
    assert Fraction(promise["guarantee"]["epsilon"]) == line.reserved
    assert (promise["unit"], promise["adjacency"], promise["max_rows"]) == (
        'column "customer"',
        "add-remove",
        2,
    )
    assert promise["spent"] == {"epsilon": str(line.settled)}
    assert promise["asked"]["item"] == "item"
    assert [one["name"] for one in promise["mechanisms"]] == ["HistogramTopK"] or promise[
        "mechanisms"
    ]
    assert all(one["proofs"] for one in promise["mechanisms"])
    assert promise["exact"] is True
    event = {event.number: event for event in account.history()}[promise["history"]["event"]]
    assert (event.kind, event.charge, event.head) == ("keep", key, promise["history"]["head"])
    assert promise["published"] == event.detail["digest"]
    deployment = statement.record["deployment"]
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 0.5, "delta": 0.0}
    assert deployment["dp_variant"]["variant_name"] == "Pure DP"


@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.sample(4)
def test_every_release_of_a_session_names_its_proofs(tmp_path, name):
    people = pl.DataFrame(
        {
            "u": [f"u{n}" for n in range(60)],
            "item": [ITEMS[n % 7 % 3] for n in range(60)],
            "x": [float(n % 13) for n in range(60)],
        }
    )
    about = {"adjacency": "add-remove", "unit": sd.PrivacyUnit("u"), "source": "name:people"}
    ledger = Ledger.create(tmp_path / "a.db", account="people", budget=Budget(epsilon=9), **about)
    session = sd.Session(people, unit=sd.PrivacyUnit("u", max_rows=1), ledger=ledger, name="people")
    release = RELEASES[name](session)
    session.keep(release)
    for statement in (ledger.publish(release.receipt.id), ledger.publish()):
        promise = statement.promise
        assert promise["mechanisms"]
        for one in promise["mechanisms"]:
            assert one["proofs"], one
            assert set(one["proofs"]) <= set(promise["proofs"]["pages"])
        assert promise["exact"] is True
        assert "no proof page" not in statement.record["deployment"]["implementation"]["mechanisms"]
        for form in ("yaml", "json"):
            assert ledger.check_statement(statement.to_text(form)).problems == ()


@dataclass(frozen=True)
class GaussianMechanism(Mechanism):
    """Of somebody else, with the name of one of ours."""


def test_a_mechanism_of_somebody_else_has_no_proof_of_ours(tmp_path):
    ledger = make(tmp_path / "a.db")
    with ledger.reserve(GaussianMechanism(0.5)):
        pass
    [one] = ledger.publish().promise["mechanisms"]
    assert (one["name"], one["proofs"]) == ("GaussianMechanism", [])
    assert ledger.publish().promise["exact"] is False
    ours = sd.SmoothMechanism(epsilon=1, beta=0.1, ceiling=8, floor=0.125, law="quartic")
    assert proofs.find_proofs({"name": "x", "parameters": repr(ours)}).pages == (
        "smooth-mechanism.md",
    )
    assert not proofs.are_exact([proofs.find_proofs({"parameters": repr(ours)})]), (
        "in ideal arithmetic only"
    )
    # A name within quotes is a text.
    assert (
        proofs.find_proofs({"parameters": "Thing(a='LaplaceMechanism(', b=\"NoisyTopK(\")"}).pages
        == ()
    )
    assert {page for pages in proofs.COMPOSED.values() for page in pages} <= set(
        proofs.read_digests()
    )


def test_a_statement_of_an_account_says_what_all_of_it_may_lose(account):
    released(account)
    released(account, epsilon=0.25)
    statement = account.publish()
    now = account.statement(charges=False)
    promise = statement.promise
    assert promise["guarantee"] == {"variant": "Pure DP", "epsilon": "3", "delta": "0"}
    assert promise["spent"] == {"epsilon": str(now.spent)}
    assert (promise["charges"], promise["kept"]) == (2, 2)
    assert statement.record["deployment"]["deployment_model"]["release_type"] == "Many releases"


def test_a_delta_a_rho_and_a_share(tmp_path):
    renyi = opened(tmp_path / "a.db", epsilon=2, delta=1e-5, failures=5e-6)
    with renyi.reserve(Approximate(epsilon=Fraction(1, 2), delta=Fraction(1, 10**6))) as charge:
        pass
    charge.keep(Record(facts={"release": "x"}, columns=(), rows=[]))
    promise = renyi.publish(charge.id).promise
    assert promise["guarantee"] == {
        "variant": "Approximate DP",
        "epsilon": "1/2",
        "delta": "1/1000000",
        "divergence": str(charge.reserved + 0)
        if charge.reserved.denominator == 1
        else promise["guarantee"]["divergence"],
        "order": str(renyi.statement().renyi.order),
    }
    assert Fraction(promise["guarantee"]["divergence"]) >= charge.reserved
    assert promise["exact"] is False, "nobody knows what a bare cost was for"
    whole = renyi.publish().promise["guarantee"]
    assert (whole["variant"], whole["epsilon"], Fraction(whole["delta"])) == (
        "Approximate DP",
        "2",
        Fraction(1, 10**5),
    )

    zcdp = opened(tmp_path / "z.db", epsilon=2, delta=1e-6, meter="zcdp")
    key = released(zcdp, measure_noise="gaussian", noise="gumbel")
    assert zcdp.publish(key).promise["guarantee"] == {
        "variant": "Zero-concentrated DP",
        "rho": str(zcdp.charge(key).reserved),
    }
    said = zcdp.publish().record["deployment"]["privacy_loss"]["privacy_parameters"]
    assert Fraction(said["rho"]) >= zcdp.statement().limit
    assert (said["epsilon"], said["delta"]) == (2.0, 1e-6)

    share = opened(tmp_path / "p.db", epsilon=2).grant("team", Fraction(1, 3))
    statement = share.publish()
    assert statement.promise["parent"] == "orders"
    assert Fraction(statement.promise["guarantee"]["epsilon"]) == Fraction(333333333, 10**9)
    assert (
        "share of account orders"
        in statement.record["deployment"]["privacy_loss"]["privacy_parameters_details"]
    )


def test_rhos_beside_deltas(tmp_path):
    ledger = opened(tmp_path / "a.db", epsilon=3, delta=1e-6, meter="zcdp", failures=5e-7)
    keys = []
    for cost in (
        ApproximateZCDP(rho=Fraction(1, 100), delta=Fraction(1, 10**7)),
        ZCDP(rho=Fraction(1, 50)),
    ):
        with ledger.reserve(cost) as charge:
            pass
        charge.keep(Record(facts={"release": "x"}, columns=(), rows=[]))
        keys.append(charge.id)
    fails, firm = (ledger.publish(key) for key in keys)
    assert firm.promise["guarantee"] == {"variant": "Zero-concentrated DP", "rho": "1/50"}
    said = fails.promise["guarantee"]
    assert (said["variant"], said["rho"], said["failures"]) == (
        "Approximate DP",
        "1/100",
        "1/10000000",
    )
    # By another route: the cost itself, at the delta that is said.
    bound = ApproximateZCDP(rho=Fraction(1, 100), delta=Fraction(1, 10**7)).epsilon(
        Fraction(said["delta"])
    )
    assert float(Fraction(said["epsilon"])) >= float(bound) - 1e-12
    assert Fraction(said["delta"]) == Fraction(6, 10**7)
    assert set(fails.record["deployment"]["privacy_loss"]["privacy_parameters"]) == {
        "epsilon",
        "delta",
    }
    whole = ledger.publish()
    assert whole.promise["guarantee"] == {
        "variant": "Approximate DP",
        "epsilon": "3",
        "delta": "1/1000000",
        "rho": str(ledger.statement().limit),
        "failures": "1/2000000",
    }
    assert whole.promise["spent"].keys() == {"rho", "delta"}
    assert ledger.verify().sound
    for statement in (fails, firm, whole):
        assert ledger.check_statement(statement).sound
    assert ledger.statement().more is not None


def test_noise_without_an_epsilon_promises_its_rho(tmp_path):
    ledger = opened(tmp_path / "a.db", epsilon=2, delta=1e-5)
    session = sd.Session(shop(), unit=UNIT, ledger=ledger, name="orders")
    count = session.count(epsilon=0.5, noise="gaussian")
    session.keep(count)
    guarantee = ledger.publish(count.receipt.id).promise["guarantee"]
    assert (guarantee["variant"], Fraction(guarantee["rho"])) == (
        "Zero-concentrated DP",
        count.cost.zcdp(),
    )
    with ledger.reserve((ZCDP(rho=Fraction(1, 100)), Pure(epsilon=Fraction(1, 10)))) as charge:
        pass
    charge.keep(Record(facts={"release": "x"}, columns=(), rows=[]))
    both = ledger.publish(charge.id).promise["guarantee"]
    assert Fraction(both["rho"]) == Fraction(1, 100) + Fraction(1, 10) ** 2 / 2


def test_a_charge_by_a_cost_names_what_was_drawn_from_it(tmp_path):
    ledger = opened(tmp_path / "a.db", epsilon=3)
    with ledger.reserve(Pure(epsilon=1)) as charge:
        for _ in range(2):
            charge.release(
                sd.LaplaceMechanism(epsilon=Fraction(1, 4), sensitivity=sd.COUNTING), [5]
            )
    charge.keep(Record(facts={"release": "x"}, columns=(), rows=[]))
    with ledger.reserve(Pure(epsilon=1)):
        pass
    one, whole = ledger.publish(charge.id), ledger.publish()
    assert [(thing["name"], thing["proofs"]) for thing in one.promise["mechanisms"]] == [
        ("LaplaceMechanism", ["additive.md"])
    ]
    assert one.promise["guarantee"]["epsilon"] == "1", "what was reserved, not what was drawn"
    assert [(thing["name"], thing["charges"]) for thing in whole.promise["mechanisms"]] == [
        ("LaplaceMechanism", 1),
        ("Pure", 1),
    ]
    assert one.promise["exact"] is True
    assert whole.promise["exact"] is False
    assert ledger.check_statement(one).sound
    assert ledger.check_statement(whole).sound


def test_noise_without_a_rho_is_turned_by_the_conversion_of_the_account(tmp_path, monkeypatch):
    monkeypatch.setattr(promises, "find_rho", lambda _: None)
    ledger = opened(tmp_path / "a.db", epsilon=2, delta=1e-5)
    session = sd.Session(shop(), unit=UNIT, ledger=ledger, name="orders")
    count = session.count(epsilon=0.5, noise="gaussian")
    session.keep(count)
    guarantee = ledger.publish(count.receipt.id).promise["guarantee"]
    assert guarantee["variant"] == "Renyi DP"
    order = Fraction(guarantee["order"])
    nano = Fraction(guarantee["divergence"]) * 10**9
    bound = spent_epsilon(Sums(int(nano), 0, 0, 1), Fraction(1, 10**5), order)
    assert nano.denominator == 1
    assert float(Fraction(guarantee["epsilon"])) == bound
    # By another route: rho and delta of the mechanism alone promise less than this epsilon says at its delta.
    assert count.cost.epsilon(1e-5) <= bound + 1e-9


@pytest.mark.parametrize("delta", [0, 1e-5])
def test_what_was_measured_again_says_what_all_looks_lose(tmp_path, delta):
    """Its estimate is made of all of them, so the new look alone would be too little."""
    ledger = opened(tmp_path / "a.db", epsilon=5, **({"delta": delta} if delta else {}))
    session = sd.Session(shop(), unit=UNIT, ledger=ledger, name="orders")
    first = session.count(epsilon=0.5, **({"noise": "gaussian"} if delta else {}))
    second = session.remeasure(first, epsilon=0.25, noise="laplace")
    with session.batch():
        third = session.remeasure(second, epsilon=0.125, noise="laplace")
    session.keep(third)
    statement = ledger.publish(third.receipt.id)
    assert ledger.check_statement(statement).problems == ()
    promise, told = statement.promise, json.dumps(statement.record)
    assert promise["looks"] == 3
    assert "what all 3 looks may lose" in told
    if delta:
        reserved = sum(ledger.charge(one.receipt.id).reserved for one in (first, second, third))
        assert promise["guarantee"]["variant"] == "Renyi DP"
        assert promise["guarantee"]["divergence"] == promise["spent"]["divergence"] == str(reserved)
    else:
        assert promise["guarantee"]["epsilon"] == promise["spent"]["epsilon"] == "7/8"
    # By itself the first one is what it was.
    session.keep(first)
    assert "looks" not in ledger.publish(first.receipt.id).promise


def test_a_refund_changes_what_was_spent_and_not_what_was_promised(account):
    mechanism = Mechanism(0.5, spends=Fraction(1, 8))
    with account.reserve(mechanism) as charge:
        charge.release(mechanism, [1], entropy=REAL)
    charge.keep(Record(facts={"release": "x"}, columns=(), rows=[]))
    promise = account.publish(charge.id).promise
    assert (promise["guarantee"]["epsilon"], promise["spent"]) == ("1/2", {"epsilon": "1/8"})


def test_the_owner_fills_in_the_rest_and_the_registry_takes_it(account):
    statement = account.publish(released(account), owner=Owner(OWNER))
    assert statement.missing == []
    assert statement.record["tier"] == 3
    check(statement.record, RECORD)
    # What nobody has said stands there as missing, and is the only thing that the registry would refuse.
    blank = account.publish()
    assert set(blank.missing) == {field.path for field in FIELDS if field.owner and field.needed}
    with pytest.raises(Invalid, match="the owner must add"):
        check(blank.record, RECORD)
    assert blank.record["tier"] == 1
    assert sum(written(path).startswith("record") for path in leaves(blank.to_dict())) < 40
    found = [
        path for path in leaves(blank.record) if edited_value(blank.record, path) == OWNER_MUST_ADD
    ]
    assert len(found) == len(blank.missing)


def edited_value(tree, path):
    for step in path:
        tree = tree[step]
    return tree


def test_yaml_and_json_are_the_same_statement(account):
    statement = account.publish(released(account), owner=Owner(OWNER))
    for form in ("yaml", "json"):
        again = PublicStatement.from_text(statement.to_text(form))
        assert again == statement
        assert again.to_text("yaml") == statement.to_text("yaml")
        assert account.check_statement(statement.to_text(form)).problems == ()
        assert again.owner == Owner(OWNER)
    assert digest_of_statement(statement.to_dict()) == statement.digest


def test_the_day_is_that_of_the_charge_whenever_the_release_was_done(tmp_path, monkeypatch):
    from sordino.ledger.account import records

    days = {"now": "2026-11-24T23:59:59+00:00"}
    monkeypatch.setattr(records, "read_clock", lambda: days["now"])
    ledger = opened(tmp_path / "a.db", epsilon=3)
    mechanism = Mechanism(0.5)
    with ledger.reserve(mechanism) as charge:
        days["now"] = "2026-11-25T00:00:01+00:00"
        charge.release(mechanism, [1], entropy=REAL)
    charge.keep(Record(facts={"release": "x", "time": "2026-11-25"}, columns=(), rows=[]))
    for statement in (ledger.publish(charge.id), ledger.publish()):
        assert statement.promise["day"] == "2026-11-24"
        assert "2026-11-25" not in statement.to_text()


@pytest.mark.parametrize("letter", ["x", "é", "😀"])
def test_an_owner_who_says_very_much_is_refused_or_read_again(account, letter):
    words = dict.fromkeys(("basic.name", "basic.description", "basic.intended_use"), letter * 7_999)
    more = {field.path: letter * 8_000 for field in FIELDS if field.owner and field.tier == 3}
    for said in (words, words | more):
        try:
            statement = account.publish(owner=Owner(said))
        except InvalidParameter as refusal:
            assert "Say less in the owner's part" in str(refusal)
            assert said is not words
        else:
            assert account.check_statement(statement.to_text()).sound
            assert account.check_statement(statement.to_text("json")).sound


# ---- in the history --------------------------------------------------------------------------------------------------


def test_it_costs_nothing_and_made_again_is_the_same(account, place):
    key = released(account)
    before = account.statement()
    one, whole = account.publish(key), account.publish()
    events = len(list(account.history()))
    again = Ledger.open(place, account="orders")
    assert again.publish(key).to_text() == one.to_text()
    assert again.publish().to_text() == whole.to_text()
    assert len(list(account.history())) == events, "once in the history is enough"
    now = account.statement()
    assert (now.spent, now.more) == (before.spent, before.more)
    assert [line.state for line in now.charges[-2:]] == ["settled", "settled"]
    assert now.charges[-1].detail["statement"] == whole.to_dict()
    assert any(one.digest in line for line in account.export())
    assert sum(map(Fraction, (line.charged for line in now.charges))) == now.spent
    assert account.verify().sound
    assert len(account.dp_events()) == 1


def test_a_later_release_changes_the_account_and_not_what_was_stated(account):
    key = released(account)
    one, whole = account.publish(key), account.publish()
    released(account)
    assert account.publish(key) == one
    assert account.publish() != whole
    for statement in (one, whole):
        assert account.check_statement(statement).sound
    assert account.check_statement(whole).newer
    assert not account.check_statement(one).newer
    account.publish(key, owner=Owner({"url_slug": "x"}))
    assert account.check_statement(one).newer


def test_a_backup_has_it(tmp_path):
    ledger = opened(tmp_path / "a.db", epsilon=3)
    statement = ledger.publish(released(ledger))
    ledger.backup(tmp_path / "copy.db")
    assert Ledger.open(tmp_path / "copy.db", account="orders").check_statement(statement).sound


def test_a_role_that_may_charge_may_publish_and_check(owner, charger):  # noqa: F811
    ledger = Ledger.open(charger, account="orders")
    statement = ledger.publish()
    assert Ledger.open(owner, account="orders").check_statement(statement).sound


def test_what_was_not_kept_or_is_not_there_is_refused(account):
    with account.reserve(Pure(epsilon=0.1)) as charge:
        pass
    refused(lambda: account.publish(charge.id), "has not kept the release")
    refused(lambda: account.publish("0" * 32), "There is no charge")
    key = released(account)
    for part in (2, 0):
        with pytest.raises(InvalidParameter):
            account.publish(key, part=part)
    for wrong in ({"url_slug": "x"}, "owner.toml"):
        with pytest.raises(InvalidParameter, match="owner"):
            account.publish(owner=wrong)
    assert account.statement().charges[-1].id == key, "nothing was recorded"
    account.publish()
    refused(lambda: account.publish(account.statement().charges[-1].id), "has not kept the release")


def test_an_account_that_was_taken_over_publishes_nothing_more(account):
    key = released(account)
    one = account.publish(key)
    account.convert("later", Budget(epsilon=3, delta=1e-6))
    refused(
        account.publish, "which goes on for it. The statement was not published", LedgerConflict
    )
    assert account.check_statement(one).sound
    assert account.publish(key) == one, "it is in the history already"


def test_nothing_is_promised_about_a_history_that_does_not_hold(tmp_path):
    ledger = opened(tmp_path / "a.db", epsilon=3)
    key = released(ledger)
    statement = ledger.publish(key)
    url = ledger._store.address
    sqlite.close_all()
    raw(url, "DROP TRIGGER event_update")
    raw(
        url,
        "UPDATE event SET body = replace(body, 'item', 'itum') WHERE kind = 'reserve' AND number = 2",
    )
    refused(lambda: ledger.publish(key), "does not hold")
    assert any(
        "history of the account" in one for one in ledger.check_statement(statement).problems
    )


@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_a_kill_at_any_boundary_leaves_the_statement_in_the_history_or_not(tmp_path, stride):
    def prepared(name):
        ledger = make(tmp_path / f"{name}.db")
        with ledger.reserve(Pure(epsilon=0.25)):
            pass
        return ledger

    dry = prepared("dry")
    names = boundaries_of(dry.publish)
    seen = set()
    for fatal in range(0, len(names), stride):
        ledger = prepared(f"{fatal}")

        def killed(fatal=fatal, ledger=ledger):
            Counter(fatal).install()
            ledger.publish()
            sqlite.close_all()

        assert in_child(killed) == KILLED, names[fatal]
        assert ledger.verify().sound
        spent(ledger)
        found = [line for line in ledger.statement().charges if line.label == "statement"]
        seen.add(len(found))
        again = ledger.publish()
        assert ledger.check_statement(again).sound
        found = [line for line in ledger.statement().charges if line.label == "statement"]
        assert len(found) == 1
    assert seen == {0, 1}


# ---- checking --------------------------------------------------------------------------------------------------------


def judged(ledger, tree):
    found = ledger.check_statement(text_of(tree))
    assert not found.sound
    with pytest.raises(LedgerError) as caught:
        found.raise_if_broken()
    assert "\n" not in str(caught.value)
    return found.problems


@pytest.mark.parametrize("about", ["release", "account"])
@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_every_field_that_is_edited_is_named(place, about, stride):
    ledger = opened(place, epsilon=3)
    key = released(ledger)
    statement = ledger.publish(key if about == "release" else None, owner=Owner(OWNER))
    ledger.publish(None if about == "release" else key)
    tree = statement.to_dict()
    before = ledger.verify().events
    paths = list(leaves(tree))
    assert len(paths) > 50
    for path in [*paths[::stride], ("digest",)]:
        if path == ("promise", "form"):
            continue  # a newer form is refused before anything is compared
        wrong = edited(tree, path, other)
        problems = judged(ledger, wrong)
        assert any(one.startswith(f"{written(path)} was edited: ") for one in problems), (
            path,
            problems,
        )
        assert len(problems) == 1, problems
        # Who edits the digest as well, so that it fits, is found by what the statement is about.
        if path[0] != "digest" and written(path) not in SUBJECT:
            wrong["digest"] = digest_of_statement(wrong)
            both = judged(ledger, wrong)
            assert any(one.startswith(f"{written(path)} was edited: ") for one in both), (
                path,
                both,
            )
            assert any(one.startswith("digest was edited: ") for one in both)
    assert ledger.verify().events == before, "a check records nothing and charges nothing"


SUBJECT = {"promise.account", "promise.about", "promise.charge", "promise.part"}


def test_a_field_that_is_taken_away_or_added_is_named(account):
    tree = account.publish(released(account)).to_dict()
    wrong = copy.deepcopy(tree)
    del wrong["record"]["deployment"]["accounting"]["composition"]
    wrong["promise"]["audited"] = True
    problems = judged(account, wrong)
    assert [one.partition(" ")[0] for one in problems] == [
        "record.deployment.accounting.composition",
        "promise.audited",
    ]
    assert "the statement says nothing" in problems[0]
    assert "the ledger has nothing" in problems[1]
    for part in ("record", "promise", "digest"):
        with pytest.raises(InvalidParameter, match=part):
            account.check_statement(text_of({name: tree[name] for name in tree if name != part}))
    with pytest.raises(InvalidParameter, match="more"):
        account.check_statement(text_of(tree | {"more": 1}))
    with pytest.raises(InvalidParameter, match="promise.form must be at most 2"):
        account.check_statement(text_of(edited(tree, ("promise", "form"), lambda _: 3)))


def test_a_statement_of_another_account_or_ledger_is_not_in_this_one(tmp_path):
    mine, others = opened(tmp_path / "a.db", epsilon=3), opened(tmp_path / "b.db", epsilon=3)
    statement = others.publish(released(others))
    assert judged(mine, statement.to_dict())[0].startswith(
        "digest: the history of account 'orders' has no"
    )
    child = mine.grant("team", 1)
    statement = mine.publish()
    assert judged(child, statement.to_dict())[0].startswith(
        "digest: the history of account 'team' has no"
    )


def forged(ledger, document):
    """Put a statement into the history as whoever may charge can."""
    statement = PublicStatement(**document)
    publishing.note(
        ledger._store, ledger._pages, publishing.LABEL, {"statement": statement.to_dict()}
    )


def test_a_false_statement_in_the_history_is_convicted_by_the_rest_of_it(account):
    key = released(account)
    true = account.publish(key).to_dict()
    for path, value in (
        (("promise", "guarantee", "epsilon"), "1/100"),
        (("promise", "unit"), "each row"),
        (("promise", "published"), "0" * 64),
        (("promise", "mechanisms", 0, "name"), "GaussianMechanism"),
        (("record", "deployment", "privacy_loss", "privacy_parameters", "epsilon"), 0.01),
    ):
        false = edited(true, path, lambda _, value=value: value)
        false["digest"] = digest_of_statement(false)
        forged(account, false)
        assert account.verify().sound, "the chain has what was put there"
        problems = judged(account, false)
        assert any(
            one.startswith(f"{written(path)} is not what the ledger says") for one in problems
        ), problems
    assert account.check_statement(text_of(true)).sound


@pytest.mark.parametrize(
    "spoiled",
    [
        {"record": {}, "promise": {}, "digest": "0"},
        {"record": {}, "promise": {"history": 3, "proofs": []}, "digest": "0"},
        {
            "record": {},
            "promise": {"history": {"event": -3}, "proofs": {"pages": {}, "version": 1}},
            "digest": "0",
        },
        {
            "record": {},
            "promise": {"history": {"event": "1"}, "proofs": {"pages": []}},
            "digest": "0",
        },
        {
            "record": {},
            "promise": {"a": {"b": [{"c": [[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]}]}},
            "digest": "0",
        },
        {
            "record": [],
            "promise": {"charge": "0" * 32, "history": {"event": 1}, "proofs": {"pages": {}}},
            "digest": 3,
        },
    ],
)
def test_rubbish_in_the_history_is_a_problem_and_no_error(tmp_path, spoiled):
    ledger = opened(tmp_path / "a.db", epsilon=3)
    forged(ledger, spoiled)
    asked = {
        "record": {},
        "promise": {},
        "digest": spoiled["digest"] if isinstance(spoiled["digest"], str) else "0",
    }
    assert not ledger.check_statement(text_of(asked)).sound
    assert ledger.publish().promise["about"] == "account"


def test_a_proof_that_was_signed_for_other_code_is_named(account, monkeypatch):
    statement = account.publish(released(account))
    [page, *_] = statement.promise["proofs"]["pages"]
    known = dict(proofs.read_digests())
    monkeypatch.setattr(publishing, "read_digests", lambda: known | {page: "f" * 64})
    [problem] = account.check_statement(statement).problems
    assert problem.startswith(
        f"promise.proofs.pages.{page}: the proof page was signed for other code."
    )
    # Whoever puts another digest into the history is found as well.
    monkeypatch.undo()
    false = edited(statement.to_dict(), ("promise", "proofs", "pages", page), lambda _: "0" * 64)
    mechanisms = ("record", "deployment", "implementation", "mechanisms")
    false = edited(false, mechanisms, lambda text: text.replace(known[page][:12], "0" * 12))
    false["digest"] = digest_of_statement(false)
    forged(account, false)
    [problem] = judged(account, false)
    assert page in problem


def test_a_name_or_a_value_of_a_stranger_does_not_steer_the_terminal(tmp_path):
    ledger = opened(tmp_path / "a.db", epsilon=3)
    tree = ledger.publish().to_dict()
    tree["promise"]["a\x1b[31m"] = "\x1b[2J\u202e"
    tree["promise"]["version"] = "\x1b[2J"
    tree["promise"]["x" * 5000] = "y" * 5000
    for problem in judged(ledger, tree):
        assert problem.isprintable()
        assert len(problem) < 400


# ---- neighbours ------------------------------------------------------------------------------------------------------

FIGURES = {
    "digest",
    "promise.charge",
    "promise.spent.epsilon",
    "promise.published",
    "promise.history.head",
    "record.deployment.implementation.mechanisms",
}
"""What stands there of a release: its random id, what came back by its transcript, and hashes over what was released."""


@pytest.mark.parametrize("rows", [0, 1, 59, 5000])
@pytest.mark.sample(2)
def test_statements_of_neighbours_differ_in_released_figures_alone(tmp_path, rows):
    said = []
    for number, more in enumerate((0, 1)):
        ledger = opened(tmp_path / f"{number}.db", epsilon=3)
        session = sd.Session(shop(rows + more), unit=UNIT, ledger=ledger, name="orders")
        above = session.above("item", threshold=5, positives=1, epsilon=0.5, domain=ITEMS)
        session.keep(above)
        said.append(ledger.publish(above.receipt.id).to_dict())
        said.append(ledger.publish().to_dict())
    for one, two in ((said[0], said[2]), (said[1], said[3])):
        found = {path for path, *_ in list_differences(one, two)}
        assert found <= FIGURES, found
        texts = [
            tree["record"]["deployment"]["implementation"]["mechanisms"] for tree in (one, two)
        ]
        heads = [tree["promise"]["history"]["head"] for tree in (one, two)]
        assert texts[0].replace(heads[0], "") == texts[1].replace(heads[1], "")
