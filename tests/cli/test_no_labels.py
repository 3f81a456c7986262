"""Labels that are assumed public may turn out to be none, or fewer than K: a release of what there is, and no error."""

from __future__ import annotations

import json

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd

QUESTIONS = {
    "histogram": ("histogram",),
    "histogram within a range": ("histogram", "--bounded", 0, 9),
    "top by gaps": ("top", "-k", 2, "--method", "gaps"),
    "top by histogram": ("top", "-k", 2, "--method", "histogram"),
    "top above": ("top", "-k", 2, "--threshold", 1),
    "top above by gaps": ("top", "-k", 2, "--threshold", 1, "--method", "gaps"),
    "a set": ("top", "-k", 2, "--set"),
    "a bare set": ("top", "-k", 2, "--set", "--selection-share", 1),
    "above": ("above", "--threshold", 5, "-c", 1, "--method", "gaps"),
    "above and measured": (
        "above",
        "--threshold",
        5,
        "-c",
        2,
        "--measure-share",
        0.5,
        "--method",
        "gaps",
    ),
    "above, adaptive": ("above", "--threshold", 5, "-c", 1, "--adaptive"),
    "above by histogram": ("above", "--threshold", 5, "-c", 1, "--method", "histogram"),
}
ACCOUNTS = {
    "pure": (),
    "delta": ("--delta", "1e-6"),
    "zcdp": ("--delta", "1e-6", "--meter", "zcdp"),
}
VALUES = {
    "no row": ([], pa.string()),
    "all NULL": ([None, None], pa.string()),
    "all NaN": ([float("nan")] * 2, pa.float64()),
}


@pytest.fixture
def ask(sordino, tmp_path):
    """Ask about a table, of which an account pays; also returns what the account has spent."""
    made = []

    def call(source, question, *flags, meter="pure"):
        own = ("--ledger", tmp_path / "b.db", "--account", f"a{len(made)}")
        made.append(own)
        about = ("--epsilon", 9, "--row-is-unit", "--source", source, *ACCOUNTS[meter])
        assert sordino("ledger", "create", *own, *about).code == 0
        name, *rest = QUESTIONS[question]
        asked = ("--item", "s", "--row-is-unit", "--assume-public", "--epsilon", 1, *own)
        done = sordino(name, source, *rest, *asked, *flags)
        return done, sordino("ledger", "show", *own).json["spent"], own

    return call


def parquet(folder, values, kind):
    path = folder / "t.parquet"
    pq.write_table(pa.table({"s": pa.array(values, kind)}), path)
    return path


def database(folder, values, kind):
    path = folder / "t.duckdb"
    rows = pa.table({"s": pa.array(values, kind)})
    with duckdb.connect(str(path)) as connection:
        connection.register("given", rows)
        connection.execute("CREATE TABLE t AS SELECT * FROM given")
    return f"duckdb:{path}#t"


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.sample(3)
def test_no_label_is_an_empty_release(ask, tmp_path, question):
    """A broken twin, which ends with 4 after the charge, is what stood here before."""
    path = tmp_path / "t.csv"
    for text in ("s\n", 's,t\n"",1\n,2\n'):
        path.write_text(text, encoding="utf-8")
        done, spent, _ = ask(path, question)
        assert (done.code, done.json["rows"], done.json["epsilon"], spent) == (0, [], 0, 0)
        assert done.json["warning"] == "s has no label in any row, so there is nothing to release."


@pytest.mark.parametrize("make", [parquet, database])
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("question", ["histogram", "top by gaps", "above"])
@pytest.mark.sample(12)
def test_in_every_kind_of_table(ask, tmp_path, make, values, question):
    done, spent, _ = ask(make(tmp_path, *VALUES[values]), question)
    assert (done.code, done.json["rows"], spent) == (0, [], 0)


@pytest.mark.parametrize("meter", ["delta", "zcdp"])
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.sample(12)
def test_nothing_is_spent_on_any_account(ask, tmp_path, question, meter):
    done, spent, _ = ask(parquet(tmp_path, *VALUES["no row"]), question, meter=meter)
    assert (done.code, done.json["rows"], spent) == (0, [], 0)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.sample(12)
def test_in_every_form(ask, sordino, tmp_path, question):
    source = parquet(tmp_path, *VALUES["no row"])
    table, _, _ = ask(source, question, "--format", "table", "--details")
    assert (
        "s has no label in any row, so there is nothing to release. Nothing was spent." in table.out
    )
    assert "Spent: epsilon 0." in table.out
    csv, _, _ = ask(source, question, "--format", "csv")
    assert (csv.code, csv.out.count("\n")) == (0, 1)
    kept, _, own = ask(source, question, "--keep")
    again = sordino("ledger", "release", kept.json["id"], *own, "--format", "json")
    assert (again.code, again.json) == (0, kept.json)
    file = tmp_path / "r.json"
    file.write_text(kept.out, encoding="utf-8")
    page = sordino("report", file)
    assert (page.code, "no label in any row" in page.out) == (0, True)


@pytest.mark.parametrize("meter", ACCOUNTS)
@pytest.mark.parametrize("question", [name for name in QUESTIONS if name.startswith(("top", "a "))])
@pytest.mark.sample(12)
def test_fewer_labels_than_asked_for(ask, tmp_path, question, meter):
    """All of them are listed, and it costs no more than was reserved."""
    path = parquet(tmp_path, ["tea"] * 400, pa.string())
    done, spent, _ = ask(path, question, meter=meter)
    assert (done.code, [row["item"] for row in done.json["rows"]]) == (0, ["tea"])
    assert spent > 0
    gumbel = ("--noise", "gumbel", "--measure-noise", "gaussian")
    if meter != "pure" and question == "top by gaps":
        done, _, _ = ask(path, question, *gumbel, meter=meter)
        assert (done.code, len(done.json["rows"])) == (0, 1)


def test_a_rate_that_a_single_label_cannot_have_is_refused_before_the_charge(sordino, tmp_path):
    """Ten labels could have it; how many there are is known only after the charge."""
    path = parquet(tmp_path, ["tea"] * 4, pa.string())
    large = ("--epsilon", "6e12", "--yes-i-mean-it", "--no-ledger")
    for more in (("--method", "gaps"), ("--set",)):
        done = sordino(
            "top", path, "-k", 10, "--item", "s", "--row-is-unit", "--assume-public", *large, *more
        )
        assert (done.code, done.out) == (2, "")
        assert "a rate of at most 2^40" in done.err


FRAMES = {
    "pandas": pd.DataFrame({"s": pd.Series([], dtype="object")}),
    "pandas NaN": pd.DataFrame({"s": [float("nan")] * 3}),
    "arrow": pa.table({"s": pa.array([None, None], pa.string())}),
}


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.sample(3)
def test_from_python(tmp_path, frame):
    unit = sd.PrivacyUnit.row()
    about = {
        "account": "a",
        "budget": sd.Budget(epsilon=9),
        "unit": unit,
        "source": "name:shop",
        "adjacency": "add-remove",
    }
    ledger = sd.Ledger.create(tmp_path / "b.db", **about)
    session = sd.Session(FRAMES[frame], unit=unit, ledger=ledger, name="shop")
    public = {"epsilon": 1, "domain": sd.Domain.assume_public()}
    made = [
        session.histogram("s", **public),
        session.top_k("s", k=3, **public),
        session.above("s", threshold=3, positives=1, **public),
    ]
    for release in made:
        assert (len(release), list(release), release.cost.pure()) == (0, [], 0)
        assert release.to_dict()["rows"] == []
        assert release.to_pandas().empty
        assert repr(release)
        assert release._repr_html_()
        session.keep(release)
    with session.batch():
        several = [session.histogram("s", **public), session.count(epsilon=1)]
    assert len(several[0].result) == 0
    assert ledger.statement().spent == 1


def test_in_a_study(sordino, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parquet(tmp_path, *VALUES["no row"])
    own = ("--ledger", "b.db", "--account", "a")
    assert (
        sordino(
            "ledger", "create", *own, "--epsilon", 9, "--row-is-unit", "--source", "t.parquet"
        ).code
        == 0
    )
    releases = "".join(
        f'[[release]]\nkind = "{kind}"\nname = "{kind}"\nitem = "s"\ndomain = {{assume_public = true}}\nepsilon = 1\n{more}\n'
        for kind, more in (
            ("histogram", ""),
            ("top_k", "k = 2"),
            ("above", "threshold = 5\npositives = 1"),
        )
    )
    study = f"""name = "x"\n[source]\npath = "t.parquet"\n[unit]\nrow = true\n
[account]\nledger = "b.db"\nname = "a"\n[budget]\nepsilon = 3\n{releases}"""
    (tmp_path / "s.toml").write_text(study, encoding="utf-8")
    done = sordino("run", "s.toml", "--run-id", "one", "--output", "out", "--quiet")
    assert (done.code, done.err) == (0, "")
    told = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert [release["rows"] for release in told["releases"]] == [[], [], []]
    assert sordino("ledger", "show", *own).json["spent"] == 0
