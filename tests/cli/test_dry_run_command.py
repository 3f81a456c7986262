"""`--dry-run`: every releasing command says what it would cost and give, and does nothing else."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from cli.test_release_schema import LINES
from sordino.cli import table as tables
from support.json_schema import Invalid, check
from support.release_lines import RELEASE_LINES, write_files

FORM = json.loads(files("sordino.cli").joinpath("plan.schema.json").read_text(encoding="utf-8"))
ALL = LINES | {name: line for name, line in RELEASE_LINES.items() if name.startswith("randomize")}
OF_PIPES = ("above on stdin", "randomize on stdin")


@pytest.fixture
def shop(tmp_path, monkeypatch):
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def planned(sordino, shop):
    """Plan a line, without a word about who pays."""

    def call(name, *flags, epsilon=1):
        more = ("--like-rows", 9) if "tdt" in ALL[name] else ()
        return sordino(*ALL[name], "--epsilon", epsilon, "--dry-run", *more, *flags)

    return call


@pytest.mark.parametrize("name", ALL)
@pytest.mark.sample(4)
def test_every_command_has_a_plan_of_the_form_that_the_file_says(planned, name):
    done = planned(name, "--format", "json")
    assert (done.code, done.err) == (0, "")
    check(done.json, FORM)
    assert done.json["account"] is None


def spoiled(told):
    """Broken twins of a plan: each has one thing that the file does not know, or lacks one."""
    yield told | {"rows_read": 3}
    yield told | {"rows": [{**told["rows"][0], "estimate": 2}]}
    yield told | {"choices": [{**told["choices"][0], "items": ["tea"]}]}
    for name in told:
        yield {key: value for key, value in told.items() if key != name}
    for part in ("rows", "choices"):
        for name in told[part][0]:
            yield told | {
                part: [{key: value for key, value in told[part][0].items() if key != name}]
            }


def test_what_is_unknown_or_missing_is_refused(planned):
    twins = list(spoiled(planned("top").json))
    assert len(twins) > 20
    for twin in twins:
        with pytest.raises(Invalid):
            check(twin, FORM)


@pytest.fixture
def account(sordino, shop):
    url = shop / "budget.db"
    made = sordino(
        *("ledger", "create", "--ledger", url, "--account", "shop"),
        *("--epsilon", 3, "--unit", "u", "--source", "orders.csv"),
    )
    assert made.code == 0
    return ("--ledger", url, "--account", "shop")


def export(sordino, account):
    return sordino("ledger", "export", *account).out


@pytest.mark.parametrize("name", ["top", "count", "quantile", "above on stdin"])
def test_an_account_is_looked_at_and_stays_as_it_is(planned, sordino, account, name):
    before = export(sordino, account)
    assert before
    done = planned(name, *account)
    assert done.code == 0, done.err
    assert done.json["left"]["left"] == pytest.approx(2, abs=1e-5)
    assert done.json["left"]["more"] == 2
    assert export(sordino, account) == before
    table = planned(name, *account, "--format", "table").out
    assert "would be left. About 2 more like this one." in table
    assert tables.NOT_READ in table


def test_it_ends_as_the_release_would(planned, sordino, account, shop):
    before = export(sordino, account)
    over = planned("top", *account, epsilon=4)
    assert (over.code, over.out) == (3, "")
    assert "this needs" in over.err
    release = sordino(*ALL["top"], "--epsilon", 4, *account)
    assert (release.code, release.err) == (over.code, over.err)
    wrong = planned("top", "--where", "nothing = 1")
    assert (wrong.code, wrong.out) == (2, "")
    (shop / "orders.csv").unlink()
    assert planned("top").code == 4
    assert export(sordino, account) == before


def test_behind_the_header_line_no_byte_counts(planned, shop):
    said = [planned(name).out for name in ("top", "quantile", "above, measured")]
    header = (shop / "orders.csv").read_text(encoding="utf-8").splitlines()[0]
    (shop / "orders.csv").write_text(f"{header}\n\0\0,not a row\n" * 3, encoding="utf-8")
    assert [planned(name).out for name in ("top", "quantile", "above, measured")] == said


@pytest.mark.parametrize("name", OF_PIPES)
def test_nothing_is_read_of_a_pipe(told, shop, name):
    done = told("x\n1\n2\n", *ALL[name], "--epsilon", 1, "--dry-run")
    assert (done.code, done.left) == (0, len("x\n1\n2\n"))


def test_what_is_assumed_can_be_said(planned, shop):
    flat = planned("top", "--like", "flat", "--like-rows", 6).json
    zipf = planned("top", "--like", "steps:1x900,1x1").json
    assert flat["choices"][0]["like"] == "flat"
    assert "6 pairs" in flat["assumed"]
    assert zipf["choices"][0]["right"] > 0.99
    (shop / "public.csv").write_text("u,item,x\n" + "a,tea,1\n" * 3, encoding="utf-8")
    assert planned("top", "--like", "public.csv").json["choices"][0]["like"] == "public.csv"
    twin = planned("top", "--like", shop / "orders.csv")
    assert (twin.code, twin.out) == (2, "")
    assert "must be synthetic or public data" in twin.err


def test_scores_can_be_assumed(planned, shop):
    seen = planned("select", "--like", "steps:1x50,9x1").json
    assert seen["choices"][0]["right"] > 0.99
    assert planned("select").json["choices"] == []
    (shop / "public.csv").write_text("x\n1\n50\n", encoding="utf-8")
    assert planned("select", "--like", "public.csv").json["choices"][0]["right"] > 0.99
    assert planned("select", "--like", "scores.csv").code == 2
    assert planned("select", "--like", "zipf:1").code == 2


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--like", "flat"), "--like needs --dry-run"),
        (("--like-rows", 9), "--like-rows needs --dry-run"),
        (("--dry-run", "--keep"), "--keep"),
    ],
)
def test_what_does_not_go_together_is_refused(sordino, shop, flags, words):
    done = sordino(*ALL["top"], "--epsilon", 1, *flags)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


def test_a_plan_goes_to_a_file(planned, shop):
    done = planned("top", "--output", "plan.json")
    assert (done.code, done.out) == (0, "")
    check(json.loads((shop / "plan.json").read_text(encoding="utf-8")), FORM)


# ---- goals -------------------------------------------------------------------------------------------------

GOALS = {
    "top": "±20",
    "above, measured": "±90",
    "histogram": "±20",
    "count": "±20",
    "quantile": "±2",
    "sum": "±200",
    "mean": "±2",
    "select": "right with 90%",
    "randomize": "±20",
}
LIKE = {"select": ("--like", "steps:1x9,4x1")}


def epsilon_of(done):
    return done.json["epsilon"]


@pytest.mark.parametrize("name", GOALS)
@pytest.mark.slow
def test_a_goal_takes_the_place_of_epsilon(sordino, shop, name):
    line = (*ALL[name], "--goal", GOALS[name], *LIKE.get(name, ()), "--no-ledger")
    planned = sordino(*line, "--dry-run", "--format", "json")
    assert planned.code == 0, planned.err
    check(planned.json, FORM)
    released = sordino(*line, "--no-quiet")
    assert released.code == 0, released.err
    found = float(released.err.partition(f"Goal {GOALS[name]}: epsilon ")[2].partition(".\n")[0])
    assert epsilon_of(planned) == pytest.approx(found, rel=1e-5)
    if name != "randomize":
        assert epsilon_of(released) == pytest.approx(found, rel=1e-5)


def test_a_goal_that_costs_too_much_charges_nothing(sordino, account):
    before = export(sordino, account)
    done = sordino(*ALL["count"], "--goal", "±0.1", *account)
    assert (done.code, done.out) == (3, "")
    assert "the most that fits, it is ± 1" in done.err
    assert export(sordino, account) == before


def test_a_large_epsilon_of_a_goal_has_to_be_meant(sordino, shop):
    # Of more labels each one costs.
    (shop / "items.csv").write_text(
        "item\n" + "".join(f"i{place}\n" for place in range(9)), encoding="utf-8"
    )
    line = (*ALL["histogram"], "--goal", "±1", "--no-ledger")
    refused = sordino(*line)
    assert (refused.code, refused.out) == (2, "")
    assert "unless --yes-i-mean-it is given" in refused.err
    assert sordino(*line, "--yes-i-mean-it").code == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ((*RELEASE_LINES["top"], "--goal", "±20", "--epsilon", 1), "takes the place of --epsilon"),
        ((*RELEASE_LINES["top"], "--goal", "soon"), "must be a goal such as"),
        ((*RELEASE_LINES["above on stdin"], "--goal", "±20"), "--goal is for a table"),
        ((*RELEASE_LINES["randomize on stdin"], "--goal", "±20"), "--goal is for a table"),
        ((*RELEASE_LINES["select"], "--goal", "right with 90%"), "must come with --like"),
        (
            (*RELEASE_LINES["select"], "--goal", "±20", "--like", "steps:1x9,4x1"),
            "must be about its choice",
        ),
        (
            (
                *RELEASE_LINES["select by a statistic"],
                "--goal",
                "right with 90%",
                "--like",
                "flat",
            ),
            "--like must not be given with --statistic",
        ),
        (
            (
                *RELEASE_LINES["select by a statistic"],
                "--goal",
                "right with 90%",
                "--like-rows",
                9,
            ),
            "--like-rows needs --dry-run",
        ),
        (RELEASE_LINES["top"], "Missing option '--epsilon'"),
    ],
)
def test_goals_that_are_refused(sordino, shop, line, words):
    done = sordino(*line, "--no-ledger")
    assert (done.code, done.out) == (2, "")
    assert words in done.err
