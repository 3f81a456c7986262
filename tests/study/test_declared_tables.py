"""A study of a declared table says its name in place of source, unit and account."""

from __future__ import annotations

import pytest

import sordino as sd

STUDY = """
name = "shop"
table = "purchases"

[budget]
epsilon = 0.5

[[release]]
kind = "count_distinct_units"
name = "customers"
share = 1
"""


def write_day(folder, day, people):
    rows = "\n".join(f"c{n},tea" for n in range(people))
    (folder / f"p-{day}.csv").write_text(f"customer_id,product\n{rows}\n", encoding="utf-8")


@pytest.fixture
def shop(sordino, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for day, people in (("2026-11-26", 300), ("2026-11-27", 900)):
        write_day(tmp_path, day, people)
    made = sordino(
        "declare", "p-{date}.csv", "--date", "2026-11-27", "--person", "customer_id",
        "--epsilon", 2, "--name", "purchases",
    )  # fmt: skip
    assert made.code == 0, made.err
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    return tmp_path


def spent(shop):
    return float(sd.Ledger.open(shop / "budget.db", account="purchases").statement().spent)


def test_each_day_is_a_run_of_its_own(sordino, shop):
    counts = []
    for day in ("2026-11-26", "2026-11-27"):
        done = sordino("run", "study.toml", "--date", day, "--run-id", day, "--output", day)
        assert done.code == 0, done.err
        study = sd.Study.load("study.toml", date=day)
        run = study.run(run_id=day, output=f"{day}-again")
        assert not run.paid
        counts.append(run.releases[0]["rows"][0]["estimate"])
    assert counts[0] < 600 < counts[1]
    assert spent(shop) == 1
    # One run is of one day.
    taken = sordino("run", "study.toml", "--date", "2026-11-26", "--run-id", "2026-11-27")
    assert (taken.code, taken.out) == (8, "")


def test_what_is_declared_is_a_part_of_what_the_study_says(sordino, shop):
    loaded = sd.Study.load("study.toml", date="2026-11-27")
    before, text = loaded.digest, (shop / "sordino.toml").read_text(encoding="utf-8")
    (shop / "sordino.toml").write_text(
        text.replace('called = "', 'null = "NA"\ncalled = "'), encoding="utf-8"
    )
    assert sd.Study.load("study.toml", date="2026-11-27").digest != before


def test_it_is_declared_above_the_study_wherever_it_is_run(sordino, shop, tmp_path, monkeypatch):
    (shop / "below").mkdir()
    (shop / "study.toml").rename(shop / "below" / "study.toml")
    (shop / "elsewhere").mkdir()
    monkeypatch.chdir(shop / "elsewhere")
    done = sordino("run", shop / "below" / "study.toml", "--date", "2026-11-27", "--dry-run")
    assert (done.code, done.json["account"]) == (0, "purchases"), done.err


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('table = "purchases"', 'table = "purchase"', ("Did you mean 'purchases'?",)),
        ("[budget]", '[unit]\ncolumn = "customer_id"\n[budget]', ("[unit]", "declaration")),
        ("[budget]", '[source]\npath = "p.csv"\n[budget]', ("[source]", "declaration")),
        ('table = "', 'declaration = "none.toml"\ntable = "', ("none.toml",)),
        ("table = ", "table = 3 #", ("table",)),
        (
            'table = "purchases"',
            'declaration = "sordino.toml"',
            ("declaration belongs to a table",),
        ),
    ],
)
def test_what_is_wrong_is_said(sordino, shop, old, new, words):
    assert old in STUDY
    (shop / "study.toml").write_text(STUDY.replace(old, new, 1), encoding="utf-8")
    done = sordino("run", "study.toml", "--date", "2026-11-27")
    assert (done.code, done.out) == (2, "")
    for word in words:
        assert word in done.err
    assert spent(shop) == 0


def test_a_day_is_missing_or_not_wanted(sordino, shop):
    missing = sordino("run", "study.toml")
    assert (missing.code, "--date" in missing.err) == (2, True)
    (shop / "study.toml").write_text(
        STUDY.replace('table = "purchases"', "")
        + '[source]\npath = "p.csv"\n[unit]\nrow = true\n[account]\nledger = "b.db"\nname = "x"\n',
        encoding="utf-8",
    )
    unwanted = sordino("run", "study.toml", "--date", "today")
    assert (unwanted.code, "declared" in unwanted.err) == (2, True)
