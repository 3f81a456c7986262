"""A history that was forged and chained again: what cannot have happened is convicted without any noted head."""

from __future__ import annotations

import hashlib
import json
import sqlite3

import pytest

from ledger.fakes import REAL, Mechanism, make, raw
from ledger.test_roles import ROLE, as_role, owner  # noqa: F401  (one is a fixture)
from sordino.cost import ZCDP, Approximate, Pure
from sordino.errors import InvalidParameter, LedgerError
from sordino.ledger import Ledger
from sordino.ledger.account.changes import request
from sordino.ledger.amounts import amount_of, nano_up
from sordino.ledger.schema import RESERVE
from sordino.ledger.store.store import carry_out

NUMBER, KIND, CHARGE, AMOUNT, SPENT, LIMIT, BODY, SUMS = range(8)
# Of an account with a delta, in `sums`: what an event adds, and what is spent and allowed afterwards.
PURE, FAILING, IMPURE, PURE_SPENT, PURE_LIMIT, FAILING_SPENT, FAILING_LIMIT, FLAG = range(8)


def forged(url, account, change):
    """Let `change` edit the events of an account, then make the chain, the sums of the account and its charges fit again."""
    connection = sqlite3.connect(url, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    try:
        _forged(
            lambda sql, *parameters: connection.execute(sql, parameters).fetchall(), account, change
        )
    finally:
        connection.close()


def _forged(run, account, change):
    run("DROP TRIGGER event_update")
    run("DROP TRIGGER event_delete")
    columns = "number, kind, charge, amount, spent, allowance, body, sums"
    events = [
        list(row)
        for row in run(f"SELECT {columns} FROM event WHERE account = ? ORDER BY number", account)
    ]
    change(events)
    run("DELETE FROM event WHERE account = ?", account)
    head = ""
    for number, event in enumerate(events, 1):
        event[NUMBER] = number
        event.extend([""] * (SUMS + 1 - len(event)))
        *facts, body, sums = event
        covered = [head, *map(str, facts), *filter(None, [sums]), body]
        head = hashlib.sha256(" ".join(covered).encode()).hexdigest()
        run(
            "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            account,
            *facts,
            head,
            body,
            sums,
        )
    for key in {event[CHARGE] for event in events if event[KIND] == "reserve"}:
        mine = [event for event in events if event[CHARGE] == key]
        by_kind = {
            kind: [event for event in mine if event[KIND] == kind]
            for kind in ("reserve", "draw", "settle")
        }
        drawn, number = (
            sum(event[AMOUNT] for event in by_kind["draw"]),
            by_kind["reserve"][-1][NUMBER],
        )
        settled = by_kind["settle"][-1][AMOUNT] if by_kind["settle"] else None
        sql = "UPDATE charge SET number = ?, reserved = ?, drawn = ?, draws = ?, settled = ? WHERE id = ?"
        run(sql, number, by_kind["reserve"][-1][AMOUNT], drawn, len(by_kind["draw"]), settled, key)
        if events[0][SUMS]:
            (pure, failing, impure), drawn = parts(by_kind["reserve"][-1:]), parts(by_kind["draw"])
            more = (
                pure,
                drawn[PURE],
                parts(by_kind["settle"])[PURE],
                failing,
                drawn[FAILING],
                impure,
            )
            run(
                f"UPDATE charge SET {', '.join(f'{name} = ?' for name in MORE)} WHERE id = ?",
                *more,
                key,
            )
    total, limit = events[-1][SPENT], events[-1][LIMIT]
    sql = "UPDATE account SET number = ?, head = ?, spent = ?, allowance = ? WHERE name = ?"
    run(sql, len(events), head, total, limit, account)
    if events[0][SUMS] and (last := events[-1][SUMS]):
        names = ("pure_spent", "pure_limit", "failing_spent", "failing_limit", "impure")
        sql = f"UPDATE account SET {', '.join(f'{name} = ?' for name in names)} WHERE name = ?"
        run(sql, *map(int, last.split(",")[PURE_SPENT:]), account)


MORE = (
    "pure_reserved",
    "pure_drawn",
    "pure_settled",
    "failing_reserved",
    "failing_drawn",
    "impure",
)


def parts(events):
    """Return what events add to the sums that only an account with a delta has."""
    each = [[int(word) for word in event[SUMS].split(",")] for event in events if event[SUMS]]
    return [sum(one[name] for one in each) for name in (PURE, FAILING, IMPURE)]


@pytest.fixture(
    params=[
        "pure",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("zcdp", "renyi", "deltas")),
    ]
)
def used(request, tmp_path):
    """Return an account with create, reserve, draw, settle and one more reservation."""
    ledger = make(
        tmp_path / "budget.db", 1 if request.param == "pure" else 10, **FACTS[request.param]
    )
    with ledger.reserve(Pure(epsilon=0.6)) as charge:
        charge.release(Mechanism(0.6), [1], entropy=REAL)
    ledger.reserve(Pure(epsilon=0))
    assert ledger.statement().spent == amount_of(nano_up(charge.reserved))
    assert ledger.verify().sound
    return ledger


FACTS = {
    "pure": {},
    "zcdp": {"delta": 1e-6, "meter": "zcdp"},
    "renyi": {"delta": 1e-6},
    "deltas": {"delta": 1e-6, "meter": "zcdp", "failures": 5e-7},
}


def nothing(events):
    """Only chain again."""


def limit(events):
    for event in events:
        event[LIMIT] += 1
    events[0][AMOUNT] += 1


def overspent(events):
    events[1][AMOUNT] += 2 * events[0][LIMIT]
    for event in events[1:3]:
        event[SPENT] += 2 * events[0][LIMIT]


def middle_sum(events):
    events[2][SPENT] -= 1


def last_sum(events):
    events[-1][SPENT] -= 1


def slot(events):
    events[2][BODY] = json.dumps({**json.loads(events[2][BODY]), "slot": 1})


def no_slot(events):
    events[2][BODY] = "{}"


def label(events):
    events[1][BODY] = json.dumps({**json.loads(events[1][BODY]), "label": "another"})


def detail(events):
    events[1][BODY] = json.dumps({**json.loads(events[1][BODY]), "detail": {"k": 1}})


def twice_reserved(events):
    events.insert(2, list(events[1]))
    for event in events[2:]:
        event[SPENT] += events[1][AMOUNT]


def twice_settled(events):
    events.insert(4, list(events[3]))


def drawn_after_the_end(events):
    events.insert(4, list(events[2]))


def drawn_too_much(events):
    events[2][AMOUNT] += 1


def settled_above_what_was_drawn(events):
    events[2][AMOUNT] -= 1


def settled_below_nothing(events):
    events[3][AMOUNT] = -1
    for event in events[3:]:
        event[SPENT] -= events[1][AMOUNT] + 1


def made_twice(events):
    events.insert(1, list(events[0]))


def received_without_a_parent(events):
    events.append([0, "receive", "", 1, events[-1][SPENT], events[-1][LIMIT] + 1, "{}"])


def granted_to_nobody(events):
    events.append([0, "grant", "", 0, events[-1][SPENT], events[-1][LIMIT], '{"child": "nobody"}'])


def of_an_unknown_kind(events):
    events.append([0, "forgive", events[1][CHARGE], 0, events[-1][SPENT], events[-1][LIMIT], "{}"])


def of_an_unknown_charge(events):
    events.append([0, "draw", "9f", 0, events[-1][SPENT], events[-1][LIMIT], '{"slot": 0}'])


def cheaper(events):
    """Reserve, draw and settle half of what the charge is described as, and say so everywhere."""
    for event in events[1:4]:
        event[AMOUNT] //= 2
    for event in events[1:]:
        event[SPENT] //= 2


def drawn_cheaper(events):
    """Draw and settle half of it: then the rest of the reservation returns."""
    for event in events[2:4]:
        event[AMOUNT] //= 2
    for event in events[3:]:
        event[SPENT] = events[3][AMOUNT]


def described_as_too_long_a_number(events):
    events[1][BODY] = events[1][BODY].replace('"3/5"', '"1e999999999"')


FORGERIES = (
    cheaper,
    drawn_cheaper,
    described_as_too_long_a_number,
    limit,
    overspent,
    middle_sum,
    last_sum,
    slot,
    no_slot,
    label,
    detail,
    twice_reserved,
    twice_settled,
    drawn_after_the_end,
    drawn_too_much,
    settled_above_what_was_drawn,
    settled_below_nothing,
    made_twice,
    received_without_a_parent,
    granted_to_nobody,
    of_an_unknown_kind,
    of_an_unknown_charge,
)


def test_chaining_again_alone_changes_nothing(used):
    forged(used.url, "orders", nothing)
    assert used.verify().problems == ()


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda forgery: forgery.__name__)
def test_what_cannot_have_happened_is_convicted(used, forgery):
    try:
        forged(used.url, "orders", forgery)
    except sqlite3.IntegrityError:  # the tables do not even hold it
        return
    found = used.verify()
    assert not found.sound
    assert not [problem for problem in found.problems if "hash" in problem]


@pytest.mark.parametrize("used", FACTS, indirect=True)
def test_a_refund_of_what_was_drawn_is_convicted_but_on_the_pure_meter(used):
    def refund(events):
        events[3][AMOUNT] -= 1
        for event in events[3:]:
            event[SPENT] -= 1

    forged(used.url, "orders", refund)
    assert used.verify().sound == (used.statement().meter == "pure")


def test_a_child_that_gave_itself_more_is_convicted(tmp_path):
    ledger = make(tmp_path / "budget.db", 1)
    team = ledger.grant("team", 0.25)
    ledger.grant("team", 0.25)
    forged(team.url, "team", nothing)
    assert team.verify().sound

    def more(events):
        events[0][AMOUNT] += 1
        for event in events:
            event[LIMIT] += 1

    raw(team.url, "CREATE TRIGGER event_update BEFORE UPDATE ON event BEGIN SELECT 1; END")
    raw(team.url, "CREATE TRIGGER event_delete BEFORE DELETE ON event BEGIN SELECT 1; END")
    forged(team.url, "team", more)
    assert team.verify().problems == (
        "The limit of the account is not the share that its parent granted.",
    )
    assert not Ledger.open(ledger.url, account="orders").verify().sound


# ---- accounts with a delta -------------------------------------------------------------------------------------


@pytest.fixture
def with_delta(tmp_path):
    """Return an account whose charge may fail, whose next one has no epsilon, and whose last one is pure.

    Events: create, reserve, draw, settle, reserve without an epsilon, reserve.
    """
    ledger = make(tmp_path / "budget.db", 3, delta=1e-6, failures=5e-7)
    with ledger.reserve(Approximate(epsilon=0.2, delta=1e-7)) as charge:
        charge.draw(Approximate(epsilon=0.2, delta=1e-7))
    ledger.reserve(ZCDP(rho=0.01))
    ledger.reserve(Pure(epsilon=0.1))
    assert ledger.verify().sound
    return ledger


def add(events, places, **facts):
    """Add to sums of some events; a name stands for its place in `sums`."""
    for event in [events[place] for place in places]:
        sums = [int(word) for word in event[SUMS].split(",")]
        for name, more in facts.items():
            sums[globals()[name.upper()]] += more
        event[SUMS] = ",".join(map(str, sums))


def flag_taken_away(events):
    """The charge without an epsilon is one of epsilon 0: then the pure sum has room for ever."""
    add(events, [4], impure=-1)
    add(events, [4, 5], flag=-1)


def flag_that_falls(events):
    add(events, [5], flag=-1)


def flag_of_a_pure_charge(events):
    """The epsilon of a charge is called none, so that it adds nothing to the pure sum."""
    more = int(events[5][SUMS].split(",")[PURE])
    add(events, [5], pure=-more, impure=1, pure_spent=-more)


def epsilon_too_small(events):
    add(events, [1, 2, 3], pure=-(10**8))
    add(events, [1, 2, 3, 4, 5], pure_spent=-(10**8))


def epsilon_back_above_what_was_drawn(events):
    add(events, [3], pure=1)
    add(events, [3, 4, 5], pure_spent=1)


def delta_too_small(events):
    add(events, [1, 2, 3], failing=-(10**10))
    add(events, [1, 2, 3, 4, 5], failing_spent=-(10**10))


def delta_that_comes_back(events):
    add(events, [3], failing=-(10**11))
    add(events, [3, 4, 5], failing_spent=-(10**11))


def delta_of_its_own(events):
    """More is allowed to fail than the account was made for."""
    add(events, [0], failing=10**11)
    add(events, range(6), failing_limit=10**11)


def larger_epsilon(events):
    add(events, [0], pure=1)
    add(events, range(6), pure_limit=1)


def no_limit_for_epsilons(events):
    """It says to be a share without one."""
    add(events, range(6), pure_limit=-1 - 3 * 10**9)


def divergence_too_small(events):
    events[5][AMOUNT] -= 1
    events[5][SPENT] -= 1


def described_without_a_divergence(events):
    """What it describes has no amounts; then the digest of the charge is another one."""
    body = json.loads(events[5][BODY])
    body["charges"] = [{"name": "Pure"}]
    events[5][BODY] = json.dumps(body, sort_keys=True)


def sums_of_another_meter(events):
    events[5][SUMS] = ""


DELTA_FORGERIES = (
    flag_taken_away,
    flag_that_falls,
    flag_of_a_pure_charge,
    epsilon_too_small,
    epsilon_back_above_what_was_drawn,
    delta_too_small,
    delta_that_comes_back,
    delta_of_its_own,
    larger_epsilon,
    no_limit_for_epsilons,
    divergence_too_small,
    described_without_a_divergence,
    sums_of_another_meter,
)


def test_chaining_an_account_with_a_delta_again_changes_nothing(with_delta):
    forged(with_delta.url, "orders", nothing)
    assert with_delta.verify().problems == ()


@pytest.mark.parametrize("forgery", DELTA_FORGERIES, ids=lambda forgery: forgery.__name__)
def test_what_cannot_have_happened_in_three_sums_is_convicted(with_delta, forgery):
    try:
        forged(with_delta.url, "orders", forgery)
    except sqlite3.IntegrityError:  # the tables do not even hold it
        return
    found = with_delta.verify()
    assert not found.sound
    assert not [problem for problem in found.problems if "hash" in problem]


@pytest.mark.parametrize("order", ["9", "8.93", "25", "1"])
def test_another_order_is_convicted_whoever_says_it(with_delta, order):
    """At another order the divergences are others; the row and the first event both say the new one."""

    def changed(events):
        body = json.loads(events[0][BODY])
        events[0][BODY] = json.dumps({**body, "alpha": order})

    forged(with_delta.url, "orders", changed)
    raw(with_delta.url, "UPDATE account SET alpha = ?", order)
    assert not Ledger.open(with_delta.url, account="orders").verify().sound


@pytest.fixture
def of_rhos(tmp_path):
    """Return an account of rhos that keeps deltas, with the events of `with_delta`; all say: no epsilon."""
    ledger = make(tmp_path / "budget.db", 3, delta=1e-6, meter="zcdp", failures=5e-7)
    with ledger.reserve(Approximate(epsilon=0.2, delta=1e-7)) as charge:
        charge.draw(Approximate(epsilon=0.2, delta=1e-7))
    ledger.reserve(ZCDP(rho=0.01))
    ledger.reserve(Pure(epsilon=0.1))
    assert ledger.verify().sound
    forged(ledger.url, "orders", nothing)
    assert ledger.verify().problems == ()
    for verb in ("update", "delete"):
        raw(ledger.url, f"CREATE TRIGGER event_{verb} BEFORE {verb} ON event BEGIN SELECT 1; END")
    return ledger


def limit_for_epsilons(events):
    """Epsilons, which would then be enough: the account of another meter."""
    add(events, [0], pure=3 * 10**9, impure=-1)
    add(events, range(6), pure_limit=3 * 10**9 + 1)


def rho_that_comes_back(events):
    events[3][AMOUNT] -= 1
    for event in events[3:]:
        event[SPENT] -= 1


RHO_FORGERIES = (
    flag_taken_away,
    flag_that_falls,
    delta_too_small,
    delta_that_comes_back,
    delta_of_its_own,
    divergence_too_small,
    sums_of_another_meter,
    limit_for_epsilons,
    rho_that_comes_back,
)


@pytest.mark.parametrize("forgery", RHO_FORGERIES, ids=lambda forgery: forgery.__name__)
def test_what_cannot_have_happened_beside_rhos_is_convicted(of_rhos, forgery):
    try:
        forged(of_rhos.url, "orders", forgery)
    except sqlite3.IntegrityError:  # the tables do not even hold it
        return
    found = of_rhos.verify()
    assert not found.sound
    assert not [problem for problem in found.problems if "hash" in problem]


@pytest.mark.parametrize(
    ("facts", "meter"),
    [
        ({"failures": "1/10000000"}, "zcdp"),
        ({"failures": "1/1000000"}, "zcdp"),
        ({"delta": "1/1000"}, "zcdp"),
        ({"alpha": "8"}, "renyi"),
        ({"meter": "zcdp"}, "zcdp"),
    ],
)
def test_other_facts_are_convicted_whoever_says_them(of_rhos, facts, meter):
    """The row and the first event both say another delta, another part of it, or another meter."""

    def changed(events):
        events[0][BODY] = json.dumps({**json.loads(events[0][BODY]), **facts})

    forged(of_rhos.url, "orders", changed)
    for name, fact in facts.items():
        raw(of_rhos.url, f"UPDATE account SET {name} = ?", fact)
    opened = Ledger.open(of_rhos.url, account="orders")
    assert opened.statement().meter == meter
    assert not opened.verify().sound
    with pytest.raises((LedgerError, InvalidParameter)):
        opened.reserve(Approximate(epsilon=0.1, delta=1e-9))


def asked_for(ledger, cost):
    """Return what a client tells the ledger when it reserves a cost."""
    given = dict.fromkeys(("label", "unit", "source", "adjacency", "reading", "detail"))
    *_, parameters = request(ledger._pages.facts, [cost], **given, allow_approximate=False)
    return parameters


@pytest.mark.parametrize(
    ("cost", "lie", "written"),
    [
        (Pure(epsilon=0.5), {"amount": 1}, True),
        (Pure(epsilon=0.5), {"pure": 1}, True),
        (Pure(epsilon=0.5), {"pure": 0, "impure": 1}, True),
        (ZCDP(rho=0.05), {"impure": 0}, True),
        (Approximate(epsilon=0.5, delta=1e-7), {"failing": 10**11 - 1}, True),
        (
            Pure(epsilon=0.5),
            {"failing": 6 * 10**11},
            False,
        ),  # a delta of its own, of more than there is
        (Pure(epsilon=0.5), {"alpha": "9"}, False),
        (Pure(epsilon=0.5), {"meter": "pure"}, False),
    ],
)
def test_a_client_that_lies_about_its_amounts_is_refused_or_convicted(owner, cost, lie, written):  # noqa: F811
    """A role that may charge calls the functions as it likes: amounts that are not those of its description are seen."""
    ledger = make(owner, 3, delta=1e-6, failures=5e-7)
    ledger.permit(ROLE)
    mine = Ledger.open(as_role(owner, ROLE), account="orders")
    assert carry_out(mine._store, RESERVE, asked_for(mine, cost), account="orders")
    assert ledger.verify().sound
    assert carry_out(mine._store, RESERVE, asked_for(mine, cost) | lie, account="orders") == written
    assert ledger.verify().problems == (
        ("Event 3 does not reserve what it describes.",) if written else ()
    )
