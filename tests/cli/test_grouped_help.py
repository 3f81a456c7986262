"""The help of a command that releases shows every option once, under a heading, what most people need first."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections import Counter
from contextlib import redirect_stdout

import click
import pytest

from sordino.cli import group
from sordino.cli.grouped import HEADINGS, GroupedCommand

CONTEXT = click.Context(group)
RELEASING = (
    "top",
    "above",
    "count",
    "histogram",
    "table",
    "quantile",
    "sum",
    "mean",
    "variance",
    "remeasure",
    "randomize",
    "select",
)
# What somebody has to know to release anything at all.
NEEDED = [
    "--item",
    "--column",
    "--score",
    "--k",
    "--q",
    "--threshold",
    "--positives",
    "--domain",
    "--sensitivity",
    "--user",
    "--max-rows",
    "--epsilon",
    "--ledger",
    "--account",
]


def command(name):
    return group.get_command(CONTEXT, name)


def help_of(name, flag="--help-all"):
    """Return what the command writes when it is asked for help."""
    with redirect_stdout(io.StringIO()) as out:
        command(name).main([flag], prog_name=name, standalone_mode=False)
    return out.getvalue()


def options_of(name):
    """Return the long names of all options of a command, that of the help among them."""
    one = command(name)
    params = one.get_params(click.Context(one, help_option_names=["--help"]))
    # What is taken to be refused in words is hidden.
    options = [one for one in params if isinstance(one, click.Option) and not one.hidden]
    return [next(flag for flag in param.opts if flag.startswith("--")) for param in options]


def written(text):
    """Return the headings of a help, each with the long names of the options under it."""
    found, heading = {}, None
    for line in text.splitlines():
        if re.fullmatch(r"[A-Z][a-z ]+:", line):
            heading = line[:-1]
            found[heading] = []
        elif heading and (first := re.match(r"  (-\S.*?)(?:  |$)", line)):
            found[heading].append(re.findall(r"--[a-z][a-z-]*", first[1])[0])
    return found


def test_all_commands_that_release_are_grouped_and_no_others():
    grouped = [
        name for name in group.list_commands(CONTEXT) if isinstance(command(name), GroupedCommand)
    ]
    # A template is of a table, too.
    assert sorted(grouped) == sorted([*RELEASING, "init"])


def test_no_help_shows_more_than_fourteen_options():
    """Of all commands and their own, at 80 columns."""
    found = {}
    left = [((name,), command(name)) for name in group.list_commands(CONTEXT) if name != "audit"]
    while left:
        path, one = left.pop()
        if isinstance(one, click.Group):
            inside = [(name, one.get_command(CONTEXT, name)) for name in one.list_commands(CONTEXT)]
            left += [((*path, name), each) for name, each in inside]
        with redirect_stdout(io.StringIO()) as out:
            one.main(["--help"], prog_name=" ".join(path), standalone_mode=False)
        lines = out.getvalue().splitlines()
        assert max(map(len, lines)) <= 80
        found[path] = sum(line.startswith("  -") for line in lines)
    assert len(found) > 30
    assert {path: many for path, many in found.items() if many > 14} == {}


@pytest.mark.parametrize("name", [*RELEASING, "declare", "init"])
def test_every_option_has_one_heading(name):
    placed = Counter(flag for flags in HEADINGS.values() for flag in flags)
    assert {flag: placed[flag] for flag in options_of(name)} == dict.fromkeys(options_of(name), 1)


def test_every_option_of_the_table_is_one_of_a_command():
    known = {flag for name in (*RELEASING, "declare", "init") for flag in options_of(name)}
    for one in (command("ledger").commands["create"], command("plan").commands["accuracy"]):
        known |= {param.opts[-1] for param in one.params}
    assert [flag for flags in HEADINGS.values() for flag in flags if flag not in known] == []


@pytest.mark.parametrize("name", [*RELEASING, "declare", "init"])
def test_the_help_shows_every_option_once_under_its_heading(name):
    own = options_of(name)
    expected = {
        heading: [flag for flag in flags if flag in own] for heading, flags in HEADINGS.items()
    }
    assert written(help_of(name)) == {
        heading: flags for heading, flags in expected.items() if flags
    }


@pytest.mark.parametrize("name", RELEASING)
def test_the_short_help_shows_what_nine_of_ten_need(name):
    """At most 14 options, under their headings in the same order, and how many more there are."""
    text, own = help_of(name, "--help"), options_of(name)
    shown = written(text)
    flags = [flag for listed in shown.values() for flag in listed]
    assert len(flags) <= 14
    for heading, listed in shown.items():
        assert listed == [flag for flag in HEADINGS[heading] if flag in listed]
    required = {param.opts[-1] for param in command(name).params if param.required}
    always = {"--epsilon", "--ledger", "--account", "--where", "--user", "--details", "--help-all"}
    assert {flag for flag in required if flag.startswith("-")} | (always & {*own}) <= {*flags}
    assert f"--help-all shows {len(own) - len(flags)} more options" in " ".join(text.split())
    # One paragraph says what it does.
    assert text.index(":\n") < 600


def test_what_an_option_says_of_itself_is_shown_whole():
    shown = " ".join(help_of("top").split())
    for param in command("top").params:
        if isinstance(param, click.Option):
            assert " ".join(param.help.split()) in shown


@pytest.mark.parametrize("name", RELEASING)
def test_what_most_people_need_begins_the_first_headings(name):
    own = options_of(name)
    first = list(HEADINGS)[:3]
    assert first == ["What", "Who", "How much"]
    needed = [flag for flag in own if flag in NEEDED]
    assert len(needed) <= 10
    begun = []
    for heading in first:
        flags = [flag for flag in HEADINGS[heading] if flag in own]
        begun += flags[: sum(flag in NEEDED for flag in flags)]
    assert sorted(begun) == sorted(needed)


def test_the_help_of_the_command_loads_no_subcommand_and_no_engine():
    found = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from sordino.cli import run; run(['--help']);"
            "print([name for name in sys.modules if name.partition('.')[0] in"
            " {'duckdb', 'numpy', 'narwhals', 'rich'} or name in {'sordino.cli.grouped', 'sordino.cli.options'}])",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.splitlines()[-1] == "[]"
