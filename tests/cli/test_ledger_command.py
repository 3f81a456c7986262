"""`sordino ledger`: everything that a ledger can do, for people and for programs."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3

import pytest

from sordino.cost import Approximate, ApproximateZCDP, Pure
from sordino.ledger import Ledger
from support.release_lines import RELEASE_LINES, write_files

NEW = ("--epsilon", 3, "--unit", "customer", "--source", "name:orders")


@pytest.fixture
def url(sordino, tmp_path):
    made = sordino("ledger", "init", "--ledger", tmp_path / "b.db", "--account", "shop", *NEW)
    assert (made.code, made.err) == (0, "")
    return tmp_path / "b.db"


@pytest.fixture
def ledger(sordino, url):
    def call(command, *arguments, account="shop"):
        return sordino(
            "ledger",
            command,
            "--ledger",
            url,
            *(("--account", account) if account else ()),
            *arguments,
        )

    return call


def test_init_and_create_make_the_same(sordino, tmp_path):
    said = [
        sordino("ledger", name, "--ledger", tmp_path / f"{name}.db", "--account", "shop", *NEW).json
        for name in ("init", "create")
    ]
    for statement in said:
        assert len(statement.pop("head")) == 64
    assert said[0] == said[1]
    assert (said[0]["measure"], said[0]["limit"], said[0]["rows"]) == ("epsilon", 3, [])


def test_a_zcdp_account(sordino, tmp_path):
    made = sordino(
        "ledger",
        "init",
        "--ledger",
        tmp_path / "z.db",
        "--account",
        "z",
        *NEW,
        "--meter",
        "zcdp",
        "--delta",
        "1e-6",
    )
    assert (made.json["measure"], made.json["delta"]) == ("rho", 1e-6)
    assert 0.18 < made.json["limit"] < 0.19
    table = sordino(
        "ledger", "show", "--ledger", tmp_path / "z.db", "--account", "z", "--format", "table"
    ).out
    assert "Account z: [....................] 0% of its budget is spent." in table
    assert "epsilon 3, delta 1e-06" in table
    assert "rho" not in table
    z = ("--ledger", tmp_path / "z.db", "--account", "z", "--details")
    assert "Account z: rho 0.185" in sordino("ledger", "show", *z, "--format", "table").out


NO_BUDGETS = [
    (("--meter", "zcdp"), "must be in (0, 1) on the zCDP meter"),
    (("--delta", "1e-6", "--meter", "pure"), "must be 0 on the pure meter"),
    (("--delta", "1e-6", "--failures", "1e-6"), "needs a part of delta for itself"),
    (
        ("--delta", "1e-6", "--meter", "zcdp", "--failures", "2e-6"),
        "needs a part of delta for itself",
    ),
    (("--failures", "1e-6"), "must be 0 on the pure meter, which has no delta"),
    (("--delta", "1"), "must be a number in [0, 1)"),
    (("--delta", "-0.1"), "must be a number in [0, 1)"),
    (("--delta", "nan"), "not a finite decimal number"),
    (("--meter", "rdp"), "'rdp' is not one of"),
]


def test_budgets_that_are_none(sordino, tmp_path):
    new = ("ledger", "init", "--ledger", tmp_path / "b.db", "--account", "shop", *NEW)
    for options, says in NO_BUDGETS:
        made = sordino(*new, *options)
        assert (made.code, made.out) == (2, ""), options
        assert says in made.err
        assert not (tmp_path / "b.db").exists()


def test_an_account_with_a_delta(sordino, tmp_path):
    def run(name, *options, account="many"):
        return sordino(
            "ledger", name, "--ledger", tmp_path / "m.db", "--account", account, *options
        )

    made = run("create", *NEW, "--delta", "1e-6", "--failures", "1e-7").json
    assert (made["measure"], made["meter"], made["delta"]) == ("divergence", "renyi", 1e-6)
    assert made["renyi"]["order"] == pytest.approx(8.99, abs=0.01)
    assert (made["renyi"]["epsilon_limit"], made["renyi"]["failures_limit"]) == (3, 1e-7)
    assert "more_like_the_last" not in made
    said = made["examples"]
    assert (said["epsilon"], said["delta"], said["unlisted"]) == (0.05, 1e-7, 1)
    table = run("show", "--format", "table", "--details").out
    assert f"Left: about {said['releases']} releases at 0.05, 1 of them with labels that" in table
    assert "nobody listed (--delta 1e-07).\n" in table
    assert "Divergences at order 8.99" in table
    assert "Epsilons 0 of 3; one of the two sums within its limit is enough." in table
    assert "Spent so far: epsilon 0 of 3 at delta 1e-06." in table
    assert "Delta for labels that nobody listed (failures): 0 of 1e-07 is spent." in table
    ledger = Ledger.open(tmp_path / "m.db", account="many")
    ledger.reserve(Pure(epsilon=0.5))
    table = run("show", "--format", "table").out
    assert "; 5 more like the last release." in table
    # Of a person's words none is about rho or divergences.
    assert not any(word in table for word in ("ivergence", "rho", "remaining"))
    seen = run("show").json
    assert seen["more_like_the_last"] == 5
    # The smaller share of the two sums is what is spent.
    assert seen["spent_share"] == pytest.approx(0.5 / 3)
    assert " 17% " in table
    # A share has a divergence, and an epsilon or none.
    share = run("grant", "--to", "team", "--divergence", "0.1", "--epsilon", "0.2").json
    assert (share["limit"], share["renyi"]["epsilon_limit"]) == (0.1, 0.2)
    assert "both sums count" in run("show", "--format", "table", "--details", account="team").out
    for wrong in (("--epsilon", 1), ("--rho", 1), ("--divergence", 1, "--rho", 1)):
        assert run("grant", "--to", "other", *wrong).code == 2
    assert (
        run("grant", "--to", "gauss", "--divergence", "0.1").json["renyi"]["epsilon_limit"] is None
    )
    assert (
        "may hold costs without one"
        in run("show", "--format", "table", "--details", account="gauss").out
    )
    assert "only the divergences count" in run("show", "--format", "table", "--details").out
    assert run("verify").json["sound"] is True


def test_an_account_of_rhos_that_keeps_deltas(sordino, tmp_path):
    def run(name, *options, account="many"):
        return sordino(
            "ledger", name, "--ledger", tmp_path / "m.db", "--account", account, *options
        )

    made = run("create", *NEW, "--delta", "1e-6", "--meter", "zcdp", "--failures", "5e-7").json
    assert (made["measure"], made["meter"], made["delta"]) == ("rho", "zcdp", 1e-6)
    assert (made["failures"]["limit"], made["failures"]["spent"]) == (5e-7, 0)
    assert 0.17 < made["limit"] < 0.18
    assert "renyi" not in made
    Ledger.open(tmp_path / "m.db", account="many").reserve(ApproximateZCDP(rho=0.01, delta=1e-7))
    table = run("show", "--format", "table", "--details").out
    assert "Delta for labels that nobody listed (failures): 1e-07 of 5e-07 is spent." in table
    assert ", 4 of them with labels that nobody listed (--delta 1e-07); 4 more like the" in table
    # Each charge with its delta, and no epsilon.
    assert " delta " in table
    assert " epsilon " not in table.splitlines()[0]
    share = run("grant", "--to", "team", "--rho", "0.01", "--failures", "1e-7").json
    assert (share["limit"], share["failures"]["limit"], share["parent"]) == (0.01, 1e-7, "many")
    for wrong in (("--epsilon", 1), ("--divergence", 1), ("--rho", 0.01, "--failures", "1e-6")):
        assert run("grant", "--to", "other", *wrong).code != 0
    refused = run("convert", "--to", "more", "--epsilon", 3, "--delta", "1e-6")
    assert (refused.code, "keeps deltas already" in refused.err) == (5, True)
    assert run("verify").json["sound"] is True
    plain = run("create", *NEW, "--delta", "1e-6", "--meter", "zcdp", account="plain").json
    assert "failures" not in plain
    said = run("grant", "--to", "x", "--rho", "0.01", "--failures", "1e-9", account="plain")
    assert (
        said.code,
        "--failures needs an account that keeps a part of its delta" in said.err,
    ) == (2, True)


def test_an_account_goes_on_with_a_delta(ledger):
    ledger("grant", "--to", "web", "--epsilon", 1)
    assert ledger("grant", "--to", "web", "--epsilon", 1, "--failures", "1e-9").code == 2
    small = ledger("convert", "--to", "many", "--epsilon", 2, "--delta", "1e-6")
    assert (small.code, small.out) == (2, "")
    assert "at least 3" in small.err
    assert ledger("convert", "--to", "many", "--epsilon", 3, "--delta", "0.01").code == 2
    made = ledger("convert", "--to", "many", "--epsilon", 3, "--delta", "1e-6").json
    assert (made["renyi"]["epsilon_spent"], made["renyi"]["spent_epsilon"]) == (1, 1)
    again = ledger("convert", "--to", "more", "--epsilon", 3, "--delta", "1e-6")
    assert (again.code, again.out) == (5, "")
    assert "was converted into 'many'" in again.err
    assert ledger("show").json["successor"] == "many"
    assert (
        "Converted into account many, which goes on for it."
        in ledger("show", "--format", "table").out
    )


def test_shares(ledger):
    assert ledger("grant", "--to", "web", "--epsilon", 1).json["parent"] == "shop"
    assert ledger("grant", "--to", "web", "--epsilon", "0.5").json["limit"] == 1.5
    assert ledger("show").json["shares"] == {"web": 1.5}
    assert "Granted to web: 50%." in ledger("show", "--format", "table").out
    assert "A share of account shop." in ledger("show", "--format", "table", account="web").out
    listed = {
        row["account"]: (row["parent"], row["remaining"])
        for row in ledger("accounts", account=None).json["rows"]
    }
    assert listed == {"shop": (None, 1.5), "web": ("shop", 1.5)}
    too_much = ledger("grant", "--to", "late", "--epsilon", 2)
    assert (too_much.code, too_much.out) == (3, "")
    assert ledger("grant", "--to", "web", "--rho", 1).code == 2
    assert ledger("grant", "--to", "web").code == 2
    assert ledger("grant", "--to", "shop", "--epsilon", 1).code == 5


def test_history_and_verify(ledger, url):
    ledger("grant", "--to", "web", "--epsilon", 1)
    rows = ledger("history").json["rows"]
    assert [(row["number"], row["kind"], row["spent"]) for row in rows] == [
        (1, "create", 0),
        (2, "grant", 1),
    ]
    assert [row["kind"] for row in ledger("history", "--last", 1).json["rows"]] == ["grant"]
    assert "create" in ledger("history", "--format", "table").out
    sound = ledger("verify", "--head", rows[0]["head"])
    assert (sound.code, sound.json["sound"], sound.json["events"], sound.json["head"]) == (
        0,
        True,
        2,
        rows[1]["head"],
    )
    assert "2 events, all agree" in ledger("verify", "--format", "table").out
    connection = sqlite3.connect(url)
    connection.execute("UPDATE account SET spent = 0 WHERE name = 'shop'")
    connection.commit()
    connection.close()
    broken = ledger("verify")
    assert (broken.code, broken.json["sound"]) == (5, False)
    assert "another sum" in broken.json["rows"][0]["problem"]
    assert "does not hold" in broken.err


def test_an_export_can_be_checked_without_sordino(ledger):
    ledger("grant", "--to", "web", "--epsilon", 1)
    account, *events = [json.loads(line) for line in ledger("export").out.splitlines()]
    assert (account["type"], account["name"], len(events)) == ("account", "shop", 2)
    head = ""
    for e in events:
        covered = (
            head,
            e["number"],
            e["kind"],
            e["charge"],
            e["amount"],
            e["spent"],
            e["allowance"],
            e["body"],
        )
        head = hashlib.sha256(" ".join(map(str, covered)).encode()).hexdigest()
        assert head == e["head"]


def test_what_was_charged_is_exported_for_dp_accounting(top, ledger, sordino, account):
    assert top(*account).code == 0
    lines = sordino("ledger", "export", *account, "--as", "dp-accounting").out.splitlines()
    assert len(lines) == 1
    assert "DpEvent(" in lines[0]


def test_a_reservation_is_given_up(sordino, account):
    from sordino import Ledger, cost

    charge = Ledger.open(account[1], account="shop").reserve(cost.Pure(epsilon=4), label="lost")
    assert sordino("ledger", "show", *account).json["remaining"] == 6
    given_up = sordino(
        "ledger", "void-reservation", *account, "--charge", charge.id, "--reason", "power failure"
    )
    assert [(row["state"], row["settled"]) for row in given_up.json["rows"]] == [("void", 0)]
    assert sordino("ledger", "show", *account).json["remaining"] == 10
    (event,) = sordino("ledger", "history", *account, "--last", 1).json["rows"]
    assert (event["kind"], event["detail"]["reason"]) == ("void", "power failure")
    for key, code in ((charge.id, 5), ("0" * 32, 5), ("", 2)):
        assert (
            sordino(
                "ledger", "void-reservation", *account, "--charge", key, "--reason", "again"
            ).code
            == code
        )


def test_roles_need_a_database(ledger):
    refused = ledger("permit", "--role", "analyst", account=None)
    assert refused.code == 2
    assert "has no roles" in refused.err


@pytest.mark.parametrize(
    "place",
    ["mysql://me:secret@host/db", "postgresql://me:sec@ret@host/db", "postgresql://me:secret@/"],
)
def test_addresses_keep_their_secrets(sordino, place, monkeypatch):
    said = sordino("ledger", "show", "--ledger", place, "--account", "shop")
    assert said.code in {2, 5}
    assert "sec" not in said.out + said.err


def test_backup_copies_every_account_and_prints_their_heads(sordino, url, ledger, tmp_path):
    ledger("grant", "--to", "team", "--epsilon", "1")
    made = sordino("ledger", "backup", "--ledger", url, tmp_path / "copy.db")
    assert (made.code, made.err) == (0, "")
    assert made.json["file"] == str(tmp_path / "copy.db")
    assert [row["account"] for row in made.json["rows"]] == ["shop", "team"]
    for row in made.json["rows"]:
        for place in (url, tmp_path / "copy.db"):
            found = sordino(
                "ledger",
                "verify",
                "--ledger",
                place,
                "--account",
                row["account"],
                "--head",
                row["head"],
            )
            assert (found.code, found.json["sound"]) == (0, True)
    again = sordino("ledger", "backup", "--ledger", url, tmp_path / "copy.db")
    assert (again.code, again.out) == (2, "")
    assert "exists already" in again.err
    nowhere = sordino("ledger", "backup", "--ledger", url, tmp_path / "none" / "copy.db")
    assert (nowhere.code, nowhere.out) == (5, "")


@pytest.mark.parametrize("which", RELEASE_LINES)
def test_no_command_charges_a_ledger_for_predictable_noise(
    sordino, url, tmp_path, monkeypatch, which
):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    before = sordino("ledger", "history", "--ledger", url, "--account", "shop").json["rows"]
    for synthetic in ((), ("--synthetic",)):
        seeded = ("--epsilon", 1, "--seed", 7, *synthetic, "--ledger", url, "--account", "shop")
        made = sordino(*RELEASE_LINES[which], *seeded)
        assert (made.code, made.out) == (2, "")
        assert "--seed" in made.err
    assert sordino("ledger", "history", "--ledger", url, "--account", "shop").json["rows"] == before


def test_small_amounts_are_shown_as_they_are(ledger, url):
    # A column of counts has one digit after the point, with which a night of .02 looked like nothing.
    Ledger.open(url, account="shop").reserve(Pure(epsilon=0.02))
    shown = {
        "show": ledger("show", "--format", "table", "--details").out,
        "history": ledger("history", "--format", "table").out,
    }
    shown["accounts"] = ledger("accounts", "--format", "table", "--details", account=None).out
    for name, table in shown.items():
        assert " 0.02 " in table, name
        assert " 0.0 " not in table, name
    assert " 2.98" in shown["accounts"]


# ---- what accounts have left -----------------------------------------------------------------------------------


def test_all_accounts_have_a_line_and_one_has_its_charges(
    sordino, url, ledger, tmp_path, monkeypatch
):
    ledger("grant", "--to", "web", "--epsilon", "0.9")
    made = ("--ledger", url, "--account", "big", *NEW, "--delta", "1e-6")
    assert sordino("ledger", "create", *made).code == 0
    lines = ledger("show", "--format", "table", account=None).out.splitlines()
    assert [line.split()[0] for line in lines] == ["account", "big", "shop", "web"]
    assert "[######..............] 30%" in lines[2]
    assert "about 42 releases at 0.05" in lines[2]
    assert ", none of them with labels that nobody listed (failures)" in lines[1]
    rows = {row["account"]: row for row in ledger("show", account=None).json["rows"]}
    assert (rows["shop"]["spent_share"], rows["shop"]["releases_left"]) == (0.3, 42)
    assert (rows["big"]["delta"], rows["web"]["epsilon"]) == (1e-6, 3)
    # A declared table says which account is meant, with a day in its path or without.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders-2026-01-01.csv").write_text("customer,price\na,1\n", encoding="utf-8")
    declared = ("--person", "customer", "--epsilon", 2, "--date", "2026-01-01")
    said = sordino("declare", "orders-{date}.csv", *declared, "--name", "orders")
    assert "epsilon 2, about 40 releases at 0.05." in said.out
    shown = sordino("ledger", "show", "orders")
    assert (shown.json["account"], shown.json["examples"]["releases"]) == ("orders", 40)
    assert sordino("ledger", "show", "orders", "--declaration", "sordino.toml").out == shown.out
    for wrong, why in (
        ((), "Say which ledger"),
        (("nothing",), "must declare the table"),
        (("orders", "--ledger", url), "goes with no --ledger"),
        (("--ledger", url, "--declaration", "sordino.toml"), "--declaration needs NAME"),
        (("orders", "--fail-below", "20"), "must be a share of the budget"),
    ):
        refused = sordino("ledger", "show", *wrong)
        assert (refused.code, refused.out) == (2, "")
        assert why in refused.err


def test_an_exit_code_of_its_own_says_that_little_is_left(sordino, url, ledger):
    ledger("grant", "--to", "web", "--epsilon", "2.4")
    for least, code in (("20%", 0), ("0.2", 0), ("20.1 %", 9), ("100%", 9)):
        seen = ledger("show", "--fail-below", least)
        assert (seen.code, seen.json["spent_share"]) == (code, 0.8)
        assert seen.err == ("" if code == 0 else f"{seen.err.split(':')[0]}: shop.\n")
    assert ledger("show", "--fail-below", "25%", "--format", "prometheus", account=None).code == 9
    # What was closed for good is passed over, and its heir is not.
    ledger("convert", "--to", "heir", "--epsilon", 30, "--delta", "1e-6")
    assert ledger("show", "--fail-below", "25%", account=None).code == 0


@pytest.mark.parametrize("form", ["prometheus", "json", "table"])
def test_a_monitor_of_an_account_that_was_converted_judges_its_heir(ledger, url, form):
    ledger("convert", "--to", "heir", "--epsilon", 3, "--delta", "1e-6")
    watch = ("show", "--fail-below", "25%", "--format", form)
    assert ledger(*watch).code == 0
    Ledger.open(url, account="heir").reserve(Pure(epsilon=2.5))
    for account in ("shop", "heir", None):
        seen = ledger(*watch, account=account)
        assert (seen.code, seen.err.count("heir")) == (9, 1), seen.err
    assert ledger(*watch).err.endswith(": heir (goes on for shop).\n")


def test_metrics_say_who_goes_on_for_an_account(ledger, url):
    ledger("convert", "--to", "heir", "--epsilon", 3, "--delta", "1e-6")
    Ledger.open(url, account="heir").reserve(Pure(epsilon=1.5))
    where = ("ledger", str(url))
    found = read_metrics(ledger("show", "--format", "prometheus").out)
    assert found["converted", "shop", where, ("successor", "heir")] == 1
    assert found["budget_spent_ratio", "heir", where] == 0.5
    assert {account for name, account, *_ in found if name != "converted"} == {"heir"}
    # Of the whole ledger each account is there once.
    assert read_metrics(ledger("show", "--format", "prometheus", account=None).out) == found


def read_metrics(text):
    """Read the text format of Prometheus by its grammar: names, labels with escapes, one value."""
    label = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\[\\"n])*)"(,|\})')
    kinds, found = {}, {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            kinds[line.split()[2]] = line.split()[3]
        if line.startswith("#"):
            assert re.match(r"# (HELP|TYPE) [a-z_]+ \S", line)
            continue
        name, rest = line.split("{", 1)
        labels, place = {}, 0
        while not rest[:place].endswith("}") or place == 0:
            match = label.match(rest, place)
            value = re.sub(r"\\(.)", lambda one: {"n": "\n"}.get(one[1], one[1]), match[2])
            labels[match[1]], place = value, match.end()
            if match[3] == "}":
                break
        assert kinds[name] == "gauge"
        key = (
            name.removeprefix("sordino_account_"),
            labels.pop("account"),
            *sorted(labels.items()),
        )
        assert key not in found
        found[key] = float(rest[place:])
    return found


def test_monitors_read_every_account(sordino, tmp_path):
    url, strange = tmp_path / 'b "1"\\x.db', 'shop "a\\b"'
    at = ("--ledger", url, "--account")
    sordino("ledger", "create", *at, strange, *NEW)
    sordino("ledger", "create", *at, "big", *NEW, "--delta", "1e-6", "--failures", "4e-7")
    Ledger.open(url, account=strange).reserve(Pure(epsilon=0.6))
    Ledger.open(url, account="big").reserve(Approximate(epsilon=0.3, delta=1e-7))
    found = read_metrics(sordino("ledger", "show", "--ledger", url, "--format", "prometheus").out)
    where = ("ledger", str(url))
    assert found["budget_spent_ratio", strange, where] == 0.2
    assert found["spent", strange, where, ("measure", "epsilon")] == 0.6
    assert found["limit", strange, where, ("measure", "epsilon")] == 3
    assert found["epsilon_limit", "big", where] == 3
    assert found["delta_limit", "big", where] == 1e-6
    assert found["unlisted_spent_ratio", "big", where] == 0.25
    assert found["releases_left", strange, ("epsilon", "0.05"), where] == 48
    assert ("unlisted_spent_ratio", strange, where) not in found
    one = sordino("ledger", "show", *at, "big", "--format", "prometheus").out
    assert {account for _, account, *_ in read_metrics(one)} == {"big"}


def test_a_declared_table_names_its_ledger_for_copies_and_pages(sordino, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.csv").write_text("customer_id,item\n1,tea\n", encoding="utf-8")
    declared = sordino("declare", "orders.csv", "--person", "customer_id", "--epsilon", 2)
    assert declared.code == 0, declared.err
    made = sordino("ledger", "backup", "copy.db", "--table", "orders")
    assert (made.code, [row["account"] for row in made.json["rows"]]) == (0, ["orders"])
    count = ("count", "orders", "--units", "--epsilon", 1, "--format", "json")
    assert sordino(*count, "--output", "night.json", "--run-id", "night-1").code == 0
    page = sordino("report", "night.json", "--table", "orders")
    named = sordino("report", "night.json", "--ledger", "budget.db", "--account", "orders")
    assert (page.code, page.out) == (0, named.out)
    for wrong in (("backup", "other.db"), ("backup", "other.db", "--table", "nothing")):
        refused = sordino("ledger", *wrong)
        assert (refused.code, refused.out) == (2, "")
    refused = sordino("report", "night.json", "--table", "orders", "--account", "orders")
    assert "--table says ledger and account" in refused.err


def test_a_table_of_charges_says_which_run_each_one_was(sordino, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.csv").write_text(
        "customer_id,at\n1,2026-10-27 10:00:00\n", encoding="utf-8"
    )
    types = ("--type", "at=timestamp")
    person = ("--person", "customer_id,day(at)", "--parts", "day", "--epsilon", 2)
    assert sordino("declare", "orders.csv", *person, *types).code == 0
    show = ("ledger", "show", "orders", "--format", "table")
    count = ("count", "orders", "--units", "--epsilon", 1, "--part")
    assert sordino(*count, "2026-10-28").code == 0
    head = sordino(*show).out.splitlines()[0].split()
    assert head == ["time", "label", "part", "state", "share", "kept", "id"]
    assert sordino(*count, "2026-10-27", "--run-id", "night-1").code == 0
    head, *rows = sordino(*show).out.splitlines()
    assert head.split() == ["time", "label", "part", "run", "state", "share", "kept", "id"]
    assert "2026-10-27  night-1" in rows[1]
    assert "2026-10-28" in rows[0]
    # What somebody else has written there breaks nothing.
    odd = Ledger.open("budget.db", account="orders")
    odd.reserve(Pure(epsilon=0.1), detail={"run": ["x"], "part": 3})
    assert sordino(*show).code == 0
