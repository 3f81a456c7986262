"""`sordino quantile`, `sum`, `mean` and `variance` of groups that nobody listed: what they print, refuse and charge, and what nobody sees."""

from __future__ import annotations

import csv
import io
import json
import re
from importlib.resources import files

import pytest

from support.json_schema import check

FIXED = ("--synthetic", "--seed", 7)
FORM = json.loads(files("sordino.cli").joinpath("release.schema.json").read_text(encoding="utf-8"))
CANARY = "kryptonite-86753099173"
FIGURES = {"quantile": ("--q", "0.5"), "sum": (), "mean": (), "variance": ()}

pytestmark = pytest.mark.usefixtures("no_progress")


def shops(folder, more=(), units=400):
    """Write visits: all units in the centre, half of them at the station, and each in a shop of its own."""
    folder.mkdir(exist_ok=True)
    rows = [f"u{u},centre,{5 + u % 9}" for u in range(units)]
    rows += [f"u{u},station,{20 + u % 5}" for u in range(0, units, 2)]
    rows += [f"u{u},{CANARY} {u},{u % 4}" for u in range(units)]
    path = folder / "x.csv"
    path.write_bytes(
        b"user,shop,spent\n" + "".join(f"{row}\n" for row in rows).encode() + b"".join(more)
    )
    return path


@pytest.fixture
def asked(sordino, tmp_path):
    """Ask for a figure of the shops, with changes; None takes an option away."""
    base = {
        "--column": "spent",
        "--lower": 0,
        "--cap": 1000,
        "--user": "user",
        "--max-rows": 1,
        "--by": "shop",
        "--delta": "1e-6",
        "--groups-per-unit": 2,
        "--most-groups": 5,
        "--epsilon": 4,
    }

    def call(kind, *flags, path=None, payer=FIXED, **changes):
        options = base | {"--" + name.replace("_", "-"): value for name, value in changes.items()}
        listed = [
            part for name, value in options.items() if value is not None for part in (name, value)
        ]
        # The whole of a release is a word that stands alone.
        unlisted = () if "listed" in flags else ("--unlisted",)
        rest = [flag for flag in flags if flag != "listed"]
        return sordino(
            kind, path or shops(tmp_path / "a"), *listed, *unlisted, *FIGURES[kind], *rest, *payer
        )

    return call


@pytest.mark.parametrize("kind", FIGURES)
@pytest.mark.sample(2)
def test_groups_that_are_found_are_printed_with_what_that_means(asked, kind):
    told = asked(kind, "--format", "json")
    assert told.code == 0, told.err
    found = told.json
    check(found, FORM)
    assert [row["item"] for row in found["rows"]] == ["centre", "station"]
    # The default share for the search, and a unit in two groups.
    assert (found["label_threshold"], found["groups_per_unit"]) == (30, 2)
    assert (found["epsilon"], found["delta"]) == (4, 1e-6)
    assert (found["item"], found["domain"]) == ("shop", "unlisted, delta 1/1000000, least 1")
    assert "rows of groups that were not found" in found["left_out"]
    assert "rows whose shop is missing, empty or longer than 4096 characters" in found["left_out"]
    # What found the groups has Laplace noise; figures without noise that has a name say nothing of it.
    measured = {"measure_noise": "laplace"} if kind in {"sum", "mean"} else {}
    said = {name: found[name] for name in ("noise", "measure_noise") if name in found}
    assert said == {"noise": "laplace"} | measured
    table = asked(kind, "--format", "table", "--details").out
    assert (
        "Found 2 of at most 5: nobody listed the labels. A label needs about 30 people to appear. A "
        "missing label tells you nothing." in table
    )
    assert "They were looked for with epsilon 1, delta 1e-06." in table
    assert "Each group got epsilon 1.425." in table
    assert "Spent: epsilon 4, delta 1e-06." in table
    lines = list(csv.DictReader(io.StringIO(asked(kind, "--format", "csv").out)))
    assert [line["item"] for line in lines] == ["centre", "station"]
    assert {(line["epsilon"], line["delta"], line["domain"]) for line in lines} == {
        ("4", "1e-06", "unlisted, delta 1/1000000, least 1")
    }
    assert CANARY not in told.out + table


@pytest.mark.parametrize("kind", FIGURES)
@pytest.mark.sample(2)
def test_nothing_found_is_a_release_without_rows(asked, kind):
    told = asked(kind, "--format", "json", least=10_000)
    assert told.code == 0, told.err
    check(told.json, FORM)
    assert told.json["rows"] == []
    assert told.json["label_threshold"] == 10_029
    # The share of the figures was not drawn.
    assert (told.json["epsilon"], told.json["delta"]) == (1, 1e-6)
    assert told.json["measure_noise"] is None
    table = asked(kind, "--format", "table", "--details", least=10_000).out
    assert "Found 0 of at most 5" in table
    assert "Each group" not in table
    assert "clip_low and clip_high give" not in table
    [header] = asked(kind, "--format", "csv", least=10_000).out.splitlines()
    assert header.startswith("item,")


def test_the_share_of_the_search_can_be_said(asked):
    much, little = (
        asked("sum", search_share=share).json["label_threshold"] for share in ("0.5", "0.1")
    )
    assert much < 30 < little
    assert asked("sum", most_groups=1).json["rows"][0]["item"] == "centre"


def test_sums_within_a_declared_range(asked):
    told = asked("sum", "--bounded", 0, 20_000, "--format", "json", cap=30)
    check(told.json, FORM)
    assert [row["item"] for row in told.json["rows"]] == ["centre", "station"]
    assert told.json["range_low"] < 0
    assert not {"capped", "too_few"} & set(told.json["rows"][0])
    none = asked("sum", "--bounded", 0, 20_000, "--format", "json", cap=30, least=10_000)
    check(none.json, FORM)
    assert none.json["rows"] == []
    refused = asked("mean", "--bounded", 0, 30, cap=30)
    assert (refused.code, "rows are grouped" in refused.err or "add-remove" in refused.err) == (
        2,
        True,
    )


REFUSED = {
    "no delta": ("sum", {"delta": None}, (), "--unlisted needs --delta D, the probability"),
    "a list beside it": ("sum", {"domain": "x.csv"}, (), "Give exactly one of --domain"),
    "no bound on groups of a unit": ("mean", {"groups_per_unit": None}, (), "--groups-per-unit"),
    "no bound on groups": (
        "variance",
        {"most_groups": None},
        (),
        "Give most_groups (--most-groups).",
    ),
    "no groups": (
        "quantile",
        {"most_groups": 0},
        (),
        "quantile.most_groups must be a whole number, at least 1",
    ),
    "too many groups": (
        "sum",
        {"most_groups": 300_000},
        (),
        "most_groups must be at most 262144 groups",
    ),
    "all of epsilon": (
        "sum",
        {"search_share": 1},
        (),
        "sum.search_share must be a number in (0, 1); got 1.",
    ),
    "a large delta": (
        "sum",
        {"delta": "0.01"},
        (),
        "--delta must be at most 0.001 unless --yes-i-mean-it",
    ),
    "a delta above one over the units": (
        "quantile",
        {"delta": "1e-4", "size_hint": 20_000},
        (),
        "--delta must be at most 1/20000 unless --yes-i-mean-it is given.",
    ),
    "no column of groups": (
        "sum",
        {"by": None},
        (),
        "--unlisted needs --by, the column of the groups.",
    ),
    "a bound without groups": (
        "sum",
        {"by": None, "delta": None, "groups_per_unit": None},
        ("listed",),
        "--most-groups needs --by",
    ),
    "a share without groups": (
        "sum",
        {
            "by": None,
            "delta": None,
            "groups_per_unit": None,
            "most_groups": None,
            "search_share": "0.5",
        },
        ("listed",),
        "--search-share needs --by",
    ),
    "a bound on groups of a list": (
        "sum",
        {"delta": None, "domain_range": "0:3"},
        ("listed",),
        "most_groups belongs to Domain.unlisted (--unlisted); got 5 with labels that are known",
    ),
    "a share of a list": (
        "sum",
        {"delta": None, "domain_range": "0:3", "most_groups": None, "search_share": "0.5"},
        ("listed",),
        "sum.search_share belongs to Domain.unlisted (--unlisted); got 0.5",
    ),
    "an edge of zero": (
        "sum",
        {"least": 0},
        (),
        "Domain.unlisted.least must be a whole number from 1",
    ),
    "a pure account": (
        "sum",
        {"user": "user"},
        (),
        "sum.domain must list its labels on an account of pure epsilons, because labels that nobody listed take a "
        "part of a delta; an account with a delta has one (sordino ledger create --epsilon E --delta D "
        "--failures F).",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.sample(3)
def test_what_is_wrong_is_one_sentence_before_the_charge(asked, sordino, tmp_path, name):
    kind, changes, flags, words = REFUSED[name]
    path, url = shops(tmp_path / "a"), tmp_path / "budget.db"
    account = ("--ledger", url, "--account", "shop")
    about = ("--epsilon", 10, "--unit", "user", "--source", path)
    assert sordino("ledger", "create", *account, *about).code == 0
    told = asked(kind, *flags, payer=account, **changes)
    assert (told.code, told.out) == (2, "")
    said = " ".join(told.err.split())
    assert words in said
    assert said.count("Error:") == 1
    assert sordino("ledger", "show", *account, "--format", "json").json["spent"] == 0


def test_a_hint_is_of_rows_of_which_a_unit_has_several(asked):
    assert asked("quantile", delta="1e-4", size_hint=20_000, max_rows=2, epsilon=4).code == 0
    assert asked("quantile", "--yes-i-mean-it", delta="1e-4", size_hint=20_000).code == 0


def test_an_account_pays_and_keeps_the_release(asked, sordino, tmp_path):
    path, url = shops(tmp_path / "a"), tmp_path / "budget.db"
    account = ("--ledger", url, "--account", "shop")
    about = (
        "--epsilon",
        10,
        "--delta",
        "1e-5",
        "--failures",
        "2e-6",
        "--unit",
        "user",
        "--source",
        path,
    )
    assert sordino("ledger", "create", *account, *about).code == 0
    first = asked("sum", "--keep", "--format", "json", payer=account)
    assert first.code == 0, first.err
    assert first.json["simulated"] is False
    again = sordino("ledger", "release", first.json["id"], *account, "--format", "json")
    assert again.out == first.out
    # Nothing is found, and delta is spent all the same.
    assert asked("mean", payer=account, least=10_000).json["rows"] == []
    shown = sordino("ledger", "show", *account, "--format", "json").json
    assert shown["renyi"]["failures_spent"] == 2e-6
    last = asked("mean", payer=account)
    assert (last.code, last.out) == (3, "")
    assert "Nothing of the delta for labels that nobody listed" in last.err


ODD = {
    "a label that was not there": b"u9999,%s own,1" % CANARY.encode(),
    "bad UTF-8": b"u9999,\xff\xfe,1",
    "no label": b"u9999,,1",
    "an open quote": b'u9999,"centre,1',
    "a NUL byte": b"u9999,n\0l,1",
    "a long label": b"u9999,%s,1" % (b"x" * 5000),
    "no number": b"u9999,centre,not a number",
    "nobody": b",centre,1",
}


def words_of(outcome):
    return [
        [word for word in line.split() if not re.fullmatch(r"-?[0-9.,]+", word)]
        for line in outcome.out.splitlines()
        # Of these the numbers are released.
        if not line.startswith("Rows that count and held a number")
    ]


@pytest.mark.parametrize("name", ODD)
@pytest.mark.sample(4)
def test_one_unit_changes_neither_words_nor_shape(asked, tmp_path, name):
    """Rows of one unit more, whatever they hold: the same groups, the same form, and no word of them."""
    usual = asked("sum", "--format", "table", "--details", "--no-quiet")
    path = shops(tmp_path / "b", [ODD[name] + b"\n"])
    told = asked("sum", "--format", "table", "--details", "--no-quiet", path=path)
    assert (told.code, told.err) == (usual.code, usual.err)
    assert words_of(told) == words_of(usual)
    assert CANARY not in told.out + told.err
