"""Nothing said is dropped: an option that is given twice is refused before anything is read, or it is a list."""

from __future__ import annotations

import json
from contextlib import nullcontext
from itertools import product
from types import SimpleNamespace

import click
import pytest

from sordino.cli import group
from sordino.cli.once import Command
from sordino.errors import InvalidParameter
from sordino.sources.predicates import predicate
from support.release_lines import RELEASE_LINES, write_files


def walk(command, path=()):
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from walk(command.get_command(context, name), (*path, name))


OPTIONS = [
    (path, option)
    for path, command in walk(group)
    for option in command.params
    if isinstance(option, click.Option) and option.expose_value
]
LISTS = {"--where", "--null", "--q", "--type", "--domain-sql-file", "--labels"}
LISTS |= {"--item", "--by", "--domain", "--with"}
# Any text will do: it is refused before a value is looked at.
VALUES = ("1", "2", "3", "4")


def written(option, spelling, values):
    return [spelling, *([] if option.is_flag else values[: option.nargs])]


def test_every_command_is_walked():
    paths = {path for path, _ in OPTIONS}
    assert {
        ("top",),
        ("ledger", "create"),
        ("plan", "top-k"),
        ("audit",),
        ("run",),
        ("init",),
    } <= paths
    assert len(OPTIONS) > 300


def is_refused(done, option):
    """Tell whether a command that was given an option twice said so, in one line, and nothing else."""
    name = "/".join([*option.opts, *option.secondary_opts])
    rule = "each value once" if option.multiple else "at most once"
    quiet = (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    return quiet and name in done.err and rule in done.err


@pytest.mark.parametrize("path", sorted({path for path, _ in OPTIONS}), ids=" ".join)
@pytest.mark.sample(2)
def test_an_option_that_is_given_twice_is_refused(sordino, path):
    """Also where the spellings differ, and whatever the values are."""
    taken = []
    for option in (option for owner, option in OPTIONS if owner == path):
        for first, second in product([*option.opts, *option.secondary_opts], repeat=2):
            done = sordino(*path, *written(option, first, VALUES), *written(option, second, VALUES))
            if not is_refused(done, option):
                taken.append((first, second, done.code, done.err))
    assert taken == []


def test_options_that_are_lists_are_known():
    others = [
        (path, option) for path, option in OPTIONS if option.multiple != (option.opts[0] in LISTS)
    ]
    # Figures of several columns share a charge; every other command is about one.
    figures = {(name,) for name in ("quantile", "sum", "mean", "variance")}
    columns = {path for path, option in others if option.opts[0] == "--column"}
    assert columns == figures
    assert {path for path, _ in others} == {("randomize",)} | figures


def test_an_option_that_is_taken_twice_is_seen():
    [epsilon] = (
        option for path, option in OPTIONS if (path, option.opts[0]) == (("top",), "--epsilon")
    )
    said = "--epsilon must be given at most once; got it 2 times.\n"
    assert is_refused(SimpleNamespace(code=2, out="", err=said), epsilon)
    for field, value in {
        "code": 0,
        "out": "a release",
        "err": "--epsilon must be above 0.\n",
    }.items():
        assert not is_refused(
            SimpleNamespace(**{"code": 2, "out": "", "err": said, field: value}), epsilon
        )


def test_an_equals_sign_is_another_spelling(sordino):
    done = sordino("count", "nowhere.csv", "--user=a", "--user", "b")
    assert (done.code, done.err.count("--user")) == (2, 1)
    assert "Keep one of them, or run the command once for each value." in done.err
    assert "or run" not in sordino("count", "nowhere.csv", "--units", "--units").err


def test_help_is_shown_whatever_else_was_typed(sordino):
    done = sordino("count", "--user", "a", "--user", "b", "--help")
    assert done.code == 0
    assert "Usage:" in done.out


def test_an_option_that_comes_tomorrow_is_refused_too():
    """And the command as click makes it drops the first value: that is what this rule is about."""
    option = click.Option(["--skip-lines", "-s"], type=int)
    for kind, refuses in ((Command, True), (click.Command, False)):
        told = []
        command = kind(
            "x", params=[option], callback=lambda skip_lines, told=told: told.append(skip_lines)
        )
        said = "--skip-lines/-s must be given at most once; got it 2 times."
        with pytest.raises(InvalidParameter, match=said) if refuses else nullcontext():
            command.main(["--skip-lines", "1", "-s2"], standalone_mode=False)
        assert told == ([] if refuses else [2])


@pytest.mark.parametrize("name", ["count", "sum", "quantile", "top", "histogram", "randomize"])
@pytest.mark.parametrize("flags", [("--epsilon", 1), ("--user", "u"), ("--user", "item")], ids=str)
@pytest.mark.each_value
def test_nothing_is_charged(sordino, tmp_path, monkeypatch, name, flags):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    made = ("--epsilon", 5, "--unit", "u", "--source", "orders.csv")
    own = ("--ledger", "b.db", "--account", "a")
    assert sordino("ledger", "create", *own, *made).code == 0
    done = sordino(*RELEASE_LINES[name], "--epsilon", 0.5, *own, *flags)
    assert (done.code, done.out) == (2, "")
    assert sordino("ledger", "show", *own).json["spent"] == 0


# ---- lists -------------------------------------------------------------------------------------------------


@pytest.fixture
def people(tmp_path):
    """100 rows of each of two labels, with numbers up to 100, and 50 that hold a word in place of a person."""
    rows = [f"{label}{n},{label},{n}" for label in "ab" for n in range(1, 101)]
    rows += [f"{word},c,7" for word in ("NA", "-", "none") for _ in range(50)]
    path = tmp_path / "people.csv"
    path.write_text("u,g,v\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


SURE = ("--epsilon", 100_000, "--yes-i-mean-it", "--no-ledger", "--format", "json")
OLD = ("--where", "TRY_CAST(v AS INTEGER) > 90")
OF_A = ("--where", "g = 'a'")


def count(sordino, people, *flags):
    return sordino("count", people, "--row-is-unit", *SURE, *flags)


def test_predicates_hold_together(sordino, people):
    done = count(sordino, people, *OF_A, *OLD)
    assert round(done.json["rows"][0]["estimate"]) == 10
    assert done.json["where"] == "(g = 'a') AND (TRY_CAST(v AS INTEGER) > 90)"
    assert count(sordino, people, *OLD).json["where"] == OLD[1]
    # Without parentheses AND would take the second half of the first one only.
    either = count(sordino, people, "--where", "g = 'a' OR g = 'b'", *OLD, "--where", "g <> 'b'")
    assert round(either.json["rows"][0]["estimate"]) == 10


@pytest.mark.parametrize(
    "parts",
    [
        ("g = 'a') OR (g = 'b'", "TRUE"),
        ("(g = 'a'", "g = 'b')"),
        ("g = 'a' --", "TRUE"),
        ("", "TRUE"),
    ],
)
def test_each_predicate_is_one_by_itself(sordino, people, parts):
    done = count(sordino, people, *(word for one in parts for word in ("--where", one)))
    assert (done.code, done.out) == (2, "")
    assert "A predicate may use" in done.err
    joined = " AND ".join(f"({one})" for one in parts)
    if parts[0].startswith("g = 'a')"):
        # Joined as texts they would be a predicate, with another meaning.
        predicate.parse(joined, lambda _: 0)


def test_several_texts_mean_missing(sordino, people):
    asked = ("count", people, "--user", "u", "--units", *SURE)
    assert [
        round(
            sordino(*asked, *(word for one in texts for word in ("--null", one))).json["rows"][0][
                "estimate"
            ]
        )
        for texts in ((), ("NA",), ("NA", "-", "none"), ("none", "", "NA"))
    ] == [203, 202, 200, 201]


def test_quantiles_join(sordino, people):
    asked = (
        "quantile",
        people,
        "--column",
        "v",
        "--row-is-unit",
        "--lower",
        0,
        "--cap",
        100,
        *SURE,
    )
    done = sordino(*asked, "--q", "0.1", "--q", "0.5,0.9")
    assert [row["q"] for row in done.json["rows"]] == [0.1, 0.5, 0.9]
    for twice in (("--q", "0.5,0.5"), ("--q", "0.5", "--q", "0.50")):
        assert sordino(*asked, *twice).code == 2


@pytest.mark.parametrize(
    ("twice", "said"),
    [
        (("--null", "NA", "--null", "NA"), "--null must be given each value once"),
        ((*OLD, *OF_A, *OLD), "--where must be given each value once"),
        (("--type", "v=integer", "--type", "v=text"), "must name each column once; got 'v' twice"),
    ],
)
def test_a_list_has_no_value_twice(sordino, people, twice, said):
    done = count(sordino, people, *twice)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


# ---- files -------------------------------------------------------------------------------------------------


def test_a_page_has_each_release_once(sordino, tmp_path):
    """By another name, too; a release that nobody paid for has no charge that could be added up twice."""
    release = {"schema": "sordino.release/1", "release": "count", "id": "1" * 32, "rows": []}
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    one.write_text(json.dumps(release), encoding="utf-8")
    two.write_text(
        json.dumps([{**release, "id": "2" * 32}, {**release, "kept": True}]), encoding="utf-8"
    )
    for given, said in (((one, one), "each value once"), ((one, two), "each release once")):
        done = sordino("report", *given)
        assert (done.code, done.out) == (2, "")
        assert said in done.err


def test_a_name_stands_once_in_a_file_of_results(sordino, tmp_path):
    path = tmp_path / "one.json"
    path.write_text('{"schema": "x", "rows": [{"estimate": 1, "estimate": 2}]}', encoding="utf-8")
    done = sordino("report", path)
    assert (done.code, done.out) == (2, "")
    assert "RESULT must be JSON" in done.err
