"""`sordino top --set`: the set of the k largest in all three forms, with and without a measurement."""

from __future__ import annotations

import csv
import io

import pytest

DOMAIN = [f"i{place:02}" for place in range(40)]
# The largest counts are not the first labels.
BEST = DOMAIN[3::4]


@pytest.fixture
def shop(tmp_path):
    lines = [f"g{guest},{item}" for item in BEST for guest in range(300)]
    (tmp_path / "visits.csv").write_text("\n".join(["guest,item", *lines, ""]))
    (tmp_path / "items.csv").write_text("\n".join(["item", *DOMAIN, ""]))
    return tmp_path


@pytest.fixture
def ask(told, shop):
    def call(*flags, k=10):
        line = (
            "top",
            shop / "visits.csv",
            "--item",
            "item",
            "--user",
            "guest",
            "--domain",
            shop / "items.csv",
        )
        return told("", *line, "-k", k, "--epsilon", 4, *flags)

    return call


SEED = ("--synthetic", "--seed", 3)


def test_the_command_writes_a_set_as_one(ask):
    done = ask("--set", *SEED, "--format", "json")
    assert done.code == 0, done.err
    assert done.json["set"] is True
    assert "noise" not in done.json
    assert done.json["measure_noise"] == "laplace"
    assert [row["item"] for row in done.json["rows"]] == BEST
    assert list(done.json["rows"][0]) == ["item", "estimate", "low", "high", "too_few", "measured"]
    lines = list(csv.DictReader(io.StringIO(ask("--set", *SEED, "--format", "csv").out)))
    assert list(lines[0])[:5] == ["item", "estimate", "low", "high", "too_few"]
    table = ask("--set", *SEED, "--format", "table", "--details").out
    assert table.splitlines()[0].split() == ["item", "estimate", "low", "high"]
    assert (
        "A set: the rows stand in the order of the domain; nothing says which count is larger."
        in table
    )
    assert "tie" not in table
    assert "gaps" not in table


def test_the_command_writes_names_alone(ask):
    done = ask("--set", "--selection-share", 1, *SEED, "--format", "json")
    assert done.json["rows"] == [{"item": label} for label in BEST]
    assert "confidence" not in done.json
    assert "measure_noise" not in done.json
    table = ask("--set", "--selection-share", 1, *SEED, "--format", "table", "--details").out
    assert table.splitlines()[0].split() == ["item"]
    assert "interval" not in table


def test_the_command_refuses_what_a_set_has_not(ask):
    for flags in (
        ("--threshold", 5),
        ("--noise", "gumbel"),
        ("--method", "gaps"),
        ("--kth-count", 9),
    ):
        done = ask("--set", *flags, *SEED)
        assert (done.code, done.out) == (2, "")
        assert f"{flags[0]} belongs to a list, and a set (--set) is chosen at once" in done.err
