"""A run of a study is paid once, whatever kills it and however often it is started; its folder is whole or not there."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import yaml

import sordino as sd
from sordino.errors import InvalidParameter
from sordino.ledger import Charge
from sordino.ledger.account.pages import Pages
from sordino.session.executor import ReleaseExecutor
from sordino.statements.registry import FIELDS
from study.shop import NAMES, STUDY, open_account, put_shop, spent

FILES = {
    "results.json",
    "metrics.json",
    "report.html",
    "statement.yaml",
    *(f"{name}.csv" for name in NAMES),
}
RUNS = """
import os, signal, sys
from sordino import Study
from sordino.questions import CountQuestion
from sordino.ledger import Ledger
from sordino.session.executor import ReleaseExecutor
from sordino.session.plans.planner import Planner
from sordino.study import folder, results, study
from sordino.study.folder import RunFolder

def strike(owner, name, after=0, late=False):
    whole = getattr(owner, name)
    seen = []
    def struck(*given, **named):
        seen.append(1)
        if len(seen) > after and not late:
            os.kill(os.getpid(), signal.SIGKILL)
        done = whole(*given, **named)
        if len(seen) > after and late:
            os.kill(os.getpid(), signal.SIGKILL)
        return done
    setattr(owner, name, struck)

{point}
Study.load("study.toml").run(run_id="monday", output="out")
"""
# Where a process is killed, and what becomes of the run.
POINTS = {
    "before the charge": ("strike(Ledger, 'reserve')", "nothing"),
    "after the charge": ("strike(Ledger, 'reserve', late=True)", "lost"),
    "before the rows are read": ("strike(CountQuestion, 'run')", "lost"),
    "after some were read": ("strike(CountQuestion, 'run', after=1)", "lost"),
    "before anything is kept": ("strike(ReleaseExecutor, 'keep')", "lost"),
    "after some were kept": ("strike(ReleaseExecutor, 'keep', after=1, late=True)", "lost"),
    "after all were kept": ("strike(ReleaseExecutor, 'keep', after=2, late=True)", "kept"),
    "before the first file": ("strike(RunFolder, 'write')", "kept"),
    "in the middle of a file": ("strike(os, 'fsync')", "kept"),
    "in the middle of writing": ("strike(RunFolder, 'write', after=3)", "kept"),
    "after the statement": ("strike(Ledger, 'publish', late=True)", "kept"),
    "before the folder has its name": ("strike(RunFolder, 'finish')", "kept"),
    "after it has its name": ("strike(RunFolder, 'finish', late=True)", "done"),
}

# The same of a run that looks for an epsilon before its charge.
GOAL = STUDY.replace("share = 0.25", 'goal = "±20"', 1)
assert GOAL != STUDY
POINTS_OF_GOALS = {
    "before the search": ("strike(Planner, 'seek')", "nothing"),
    "in the search": ("strike(Ledger, 'preview', after=2)", "nothing"),
    "after the search": ("strike(Planner, 'seek', late=True)", "nothing"),
    "after the charge": POINTS["after the charge"],
    "after some were kept": POINTS["after some were kept"],
    "after all were kept": POINTS["after all were kept"],
    "before the folder has its name": POINTS["before the folder has its name"],
}
KILLS = [(STUDY, point) for point in POINTS.values()] + [
    (GOAL, point) for point in POINTS_OF_GOALS.values()
]
NAMES_OF_KILLS = [*POINTS, *(f"{where}, with a goal" for where in POINTS_OF_GOALS)]


def start(folder, point):
    command = [sys.executable, "-c", RUNS.replace("{point}", textwrap.dedent(point))]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def look_whole(folder: Path):
    """Look at a folder: it has all of its files, they agree, and nothing lies beside it."""
    assert {one.name for one in folder.iterdir()} == FILES
    assert not folder.with_name(folder.name + ".part").exists()
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert [one["name"] for one in results["releases"]] == list(NAMES)
    for one in results["releases"]:
        text = (folder / f"{one['name']}.csv").read_text(encoding="utf-8")
        lines = list(csv.DictReader(text.splitlines()))
        assert len(lines) == len(one["rows"])
        assert {line["id"] for line in lines} == {results["charge"]}
    return results


def test_a_run_is_one_charge_and_one_folder(tmp_path):
    study = sd.Study.load(put_shop(tmp_path))
    seen, planned = [], []
    run = study.run(
        run_id="monday",
        output=tmp_path / "out",
        progress=lambda name, done: seen.append((name, done)),
        show=planned.append,
    )
    results = look_whole(tmp_path / "out")
    assert (run.paid, run.kept, run.charge) == (True, True, results["charge"])
    assert list(run.releases) == results["releases"]
    assert dict.fromkeys(name for name, _ in seen) == dict.fromkeys(NAMES)
    assert [done for _, done in seen] == sorted(done for _, done in seen)
    assert seen[-1][1] == 100
    [plan] = planned
    assert (plan.epsilon, plan.remaining, plan.cost.pure()) == (2, 10, 2)
    assert spent(tmp_path) == 2
    [line] = [one for one in open_account(tmp_path).statement().charges if one.reserved]
    assert (line.label, line.kept, line.state) == ("study shop", 3, "settled")
    assert line.detail["study"] == {
        "name": "shop",
        "run": "monday",
        "digest": study.digest,
        "releases": list(NAMES),
    }
    assert [one["release"] for one in line.detail["batch"]] == [
        "count_distinct_units",
        "top_k",
        "sum",
    ]


def test_the_folder_says_public_things_and_releases_alone(tmp_path):
    sd.Study.load(put_shop(tmp_path)).run(run_id="monday", output=tmp_path / "out")
    results = look_whole(tmp_path / "out")
    assert set(results) == {
        "study", "title", "run", "charge", "day", "releases", "version", "schema",
    }  # fmt: skip
    top = results["releases"][1]
    assert (top["release"], top["study"], top["run"], top["kept"]) == (
        "top_k",
        "shop",
        "monday",
        True,
    )
    assert top["asked"] == {
        "item": "product",
        "k": 2,
        "domain": {"file": "items.csv", "column": "name"},
    }
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text(encoding="utf-8"))
    # No time and no number of rows: both are private.
    assert set(metrics) == {
        "study", "run", "day", "account", "charge", "releases", "measure", "reserved", "charged", "remaining",
        "reached",
    }  # fmt: skip
    assert (metrics["reserved"], metrics["remaining"], metrics["releases"]) == (2, 8, 3)
    written = "".join(one.read_text(encoding="utf-8") for one in (tmp_path / "out").iterdir())
    assert str(tmp_path) not in written


def test_the_statement_of_the_folder_holds(tmp_path):
    text = STUDY + '\n[owner]\nurl_slug = "shop"\n[owner.basic]\nname = "A shop"\n'
    sd.Study.load(put_shop(tmp_path, text)).run(run_id="monday", output=tmp_path / "out")
    statement = (tmp_path / "out" / "statement.yaml").read_text(encoding="utf-8")
    assert open_account(tmp_path).check_statement(statement).sound
    assert "A shop" in statement
    # It is about the study, with its own epsilon and all of its releases, and not about the account.
    promise = yaml.safe_load(statement)["promise"]
    assert (promise["about"], promise["study"], promise["run"]) == ("batch", "shop", "monday")
    assert promise["guarantee"]["epsilon"] == "2"
    results = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert promise["charge"] == results["charge"]
    assert [one["name"] for one in promise["releases"]] == list(NAMES)


def test_an_owner_who_says_too_much_is_refused_before_the_charge(tmp_path):
    texts = [
        field.path for field in FIELDS if field.owner and field.kind == "text" and not field.words
    ]
    fields = [path for path in texts if "." in path]
    words = "".join(f'{path} = "{"😀" * 8_000}"\n' for path in fields[:6])
    text = f"{STUDY}\n[owner]\n{words}"
    with pytest.raises(InvalidParameter, match="must fit into a statement of"):
        sd.Study.load(put_shop(tmp_path, text))


def test_a_second_start_pays_nothing_and_writes_the_same(tmp_path):
    study = sd.Study.load(put_shop(tmp_path))
    first = study.run(run_id="monday", output=tmp_path / "out")
    again = study.run(run_id="monday", output=tmp_path / "out")
    assert (again.paid, again.kept, again.charge, again.folder) == (
        False,
        True,
        first.charge,
        first.folder,
    )
    assert again.releases == first.releases
    # The rows are not needed any more.
    (tmp_path / "orders.csv").unlink()
    copy = study.run(run_id="monday", output=tmp_path / "copy")
    assert (copy.paid, copy.kept, copy.releases) == (False, True, first.releases)
    for name in FILES:
        assert (tmp_path / "copy" / name).read_bytes() == (tmp_path / "out" / name).read_bytes(), (
            name
        )
    assert spent(tmp_path) == 2


COMPARED = (
    "results.json",
    *("customers.csv", "best_sellers.csv", "turnover.csv"),
    *("statement.yaml", "report.html"),
)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        *((name, "edited") for name in COMPARED),
        *(("results.json", "cut"), ("customers.csv", "gone"), ("statement.yaml", "gone")),
        *(("customers.csv", "unreadable"), ("statement.yaml", "unreadable")),
    ],
)
@pytest.mark.sample(3)
def test_an_edited_folder_of_a_finished_run_is_not_believed(tmp_path, name, change):
    study = sd.Study.load(put_shop(tmp_path))
    first = study.run(run_id="monday", output=tmp_path / "out")
    file = tmp_path / "out" / name
    written = file.read_text(encoding="utf-8")
    if change == "gone":
        file.unlink()
    elif change == "unreadable":
        file.write_bytes(b"\xff" + written.encode())
    elif change == "cut":
        file.write_text(written[: len(written) // 2], encoding="utf-8")
    else:
        # One digit of a figure; what says whose run it is stays.
        place = max(written.rfind(digit) for digit in "12345678")
        place = written.index('"rows"') if name == "results.json" else place
        place = written.index('<td class="number">') if name == "report.html" else place
        place = next(at for at in range(place, len(written)) if written[at] in "12345678")
        file.write_text(written[:place] + "9" + written[place + 1 :], encoding="utf-8")
    says = (
        "The folder of a run must not be there yet"
        if name == "results.json" and change != "edited"
        else name
    )
    with pytest.raises(sd.InvalidParameter, match=re.escape(says)):
        study.run(run_id="monday", output=tmp_path / "out")
    assert spent(tmp_path) == 2
    (tmp_path / "out").rename(tmp_path / "moved")
    again = study.run(run_id="monday", output=tmp_path / "out")
    assert (again.paid, again.releases) == (False, first.releases)
    assert study.run(run_id="monday", output=tmp_path / "out").releases == first.releases


@pytest.mark.parametrize(
    ("where", "put"),
    [
        ("</h1>", "<svg><text>Epsilon 0.001 only</text></svg></h1>"),
        ("</body>", "<style>main{display:none}</style></body>"),
        ("</body>", "<section><h2>Results</h2>9,999 customers</section></body>"),
        ("</svg>", '<foreignObject style="position:fixed">9,999</foreignObject></svg>'),
        ('id="the-account">The account</h2>', 'style="inset:0">9,999</h2>'),
    ],
)
@pytest.mark.sample(2)
def test_nothing_is_put_into_the_page_of_a_finished_run(tmp_path, where, put):
    """Not into its pictures either, nor into what it says of the account, which are not compared."""
    study = sd.Study.load(put_shop(tmp_path))
    study.run(run_id="monday", output=tmp_path / "out")
    file = tmp_path / "out" / "report.html"
    written = file.read_text(encoding="utf-8")
    assert where in written
    # The account goes on, and the page stays as it was.
    study.run(run_id="tuesday", output=tmp_path / "later")
    assert not study.run(run_id="monday", output=tmp_path / "out").paid
    file.write_text(written.replace(where, put, 1), encoding="utf-8")
    with pytest.raises(sd.InvalidParameter, match=r"report\.html"):
        study.run(run_id="monday", output=tmp_path / "out")


def test_a_folder_of_another_version_is_compared_by_its_results(tmp_path):
    """That version may have written the tables otherwise."""
    study = sd.Study.load(put_shop(tmp_path))
    study.run(run_id="monday", output=tmp_path / "out")
    results = tmp_path / "out" / "results.json"
    ours = f'"version": "{sd.__version__}"'
    head, mark, tail = results.read_text(encoding="utf-8").rpartition(ours)
    assert mark
    results.write_text(f'{head}"version": "0.0.1"{tail}', encoding="utf-8")
    (tmp_path / "out" / "turnover.csv").write_text("value\n1.0\n", encoding="utf-8")
    assert not study.run(run_id="monday", output=tmp_path / "out").paid
    written = results.read_text(encoding="utf-8")
    # The noise decides which digit comes first: another one is put in its place.
    edited = re.sub(
        r'("estimate": -?)(\d)',
        lambda found: found[1] + str(1 + int(found[2]) % 9),
        written,
        count=1,
    )
    assert edited != written
    results.write_text(edited, encoding="utf-8")
    with pytest.raises(sd.InvalidParameter, match=r"results\.json in"):
        study.run(run_id="monday", output=tmp_path / "out")


def test_each_day_is_another_run_and_each_study_has_its_own(tmp_path, monkeypatch):
    path = put_shop(tmp_path)
    monkeypatch.chdir(tmp_path)
    study = sd.Study.load(path)
    run = study.run()
    assert run.folder == Path(f"shop-{run.run}")
    assert run.run.endswith(study.digest[:8])
    assert study.run().paid is False
    path.write_text(STUDY.replace('"shop"\ntitle', '"other"\ntitle'), encoding="utf-8")
    assert sd.Study.load(path).run(run_id=run.run).paid is True
    assert spent(tmp_path) == 4


def test_the_run_of_another_text_is_refused(tmp_path):
    path = put_shop(tmp_path)
    sd.Study.load(path).run(run_id="monday", output=tmp_path / "out")
    path.write_text(STUDY.replace("k = 2", "k = 1"), encoding="utf-8")
    with pytest.raises(sd.RunTaken, match="was paid for a file that said something else"):
        sd.Study.load(path).run(run_id="monday", output=tmp_path / "other")
    assert spent(tmp_path) == 2


def test_a_folder_that_is_there_is_refused(tmp_path):
    study = sd.Study.load(put_shop(tmp_path))
    (tmp_path / "out").mkdir()
    (tmp_path / "part.part").mkdir()
    (tmp_path / "part.part" / "mine").touch()
    for name, says in (("out", "must not be there yet"), ("part", "other things"), ("no/where", "exists and can be written"), ("", "there yet")):  # fmt: skip
        with pytest.raises(sd.InvalidParameter, match=says):
            study.run(run_id="monday", output=tmp_path / name if name else "")
    assert (tmp_path / "part.part" / "mine").exists()
    assert spent(tmp_path) == 0


@pytest.mark.parametrize("run_id", ["", "a b", "../x", "x" * 101])
def test_a_run_id_is_a_name(tmp_path, run_id):
    with pytest.raises(sd.InvalidParameter, match="run_id must be 1 to 100 letters"):
        sd.Study.load(put_shop(tmp_path)).run(run_id=run_id, output=tmp_path / "out")


# ---- what goes wrong after the charge ----------------------------------------------------------------------


def test_a_ledger_that_keeps_nothing_loses_no_release(tmp_path, monkeypatch):
    study = sd.Study.load(put_shop(tmp_path))

    def fail(*_given):
        raise sd.LedgerError("away")

    with monkeypatch.context() as patch:
        patch.setattr(Charge, "keep", fail)
        patch.setattr(sd.Ledger, "publish", fail)
        run = study.run(run_id="monday", output=tmp_path / "out")
    assert (run.paid, run.kept) == (True, False)
    results = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert [one["kept"] for one in results["releases"]] == [False] * 3
    assert not (tmp_path / "out.part").exists()
    # The folder is there: the run is over, and there is nothing else of it.
    assert study.run(run_id="monday", output=tmp_path / "out").kept is False
    with pytest.raises(sd.RunLost):
        study.run(run_id="monday", output=tmp_path / "other")
    assert spent(tmp_path) == 2


def test_a_reading_that_fails_says_nothing_and_keeps_the_charge(tmp_path, monkeypatch):
    study = sd.Study.load(put_shop(tmp_path))
    (tmp_path / "orders.csv").rename(tmp_path / "kept.csv")
    whole = ReleaseExecutor.run

    def take_away(self, *given):
        (tmp_path / "orders.csv").unlink()
        return whole(self, *given)

    (tmp_path / "orders.csv").write_bytes((tmp_path / "kept.csv").read_bytes())
    with monkeypatch.context() as patch:
        patch.setattr(ReleaseExecutor, "run", take_away)
        with pytest.raises(sd.DataSourceError) as caught:
            study.run(run_id="monday", output=tmp_path / "out")
    assert str(caught.value) == sd.DataSourceError.AFTER_CHARGE
    assert spent(tmp_path) == 2
    assert not [one for one in tmp_path.iterdir() if one.name.startswith("out")]
    with pytest.raises(sd.RunLost, match="has kept 0 of its 3 releases"):
        study.run(run_id="monday", output=tmp_path / "out")
    assert spent(tmp_path) == 2


# ---- kills -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "where"), KILLS, ids=NAMES_OF_KILLS)
@pytest.mark.sample(9)
def test_a_run_that_is_killed_is_paid_once(tmp_path, text, where):
    point, becomes = where
    path = put_shop(tmp_path, text)
    study = sd.Study.load(path)
    cost = 2 if text == STUDY else study.plan(run_id="none").epsilon
    struck = start(tmp_path, point)
    assert struck.returncode == -signal.SIGKILL, struck.stderr
    assert spent(tmp_path) == (0 if becomes == "nothing" else cost)
    assert (tmp_path / "out").exists() == (becomes == "done")
    if becomes == "lost":
        with pytest.raises(sd.RunLost, match=r"was paid before .* Nothing was charged now"):
            study.run(run_id="monday", output=tmp_path / "out")
        assert spent(tmp_path) == cost
        assert not (tmp_path / "out.part").exists()
        # Only another run pays again.
        assert study.run(run_id="tuesday", output=tmp_path / "out").paid
        assert spent(tmp_path) == 2 * cost
    else:
        run = study.run(run_id="monday", output=tmp_path / "out")
        assert (run.paid, run.kept) == (becomes == "nothing", True)
        assert spent(tmp_path) == cost
    look_whole(tmp_path / "out")


def test_a_run_without_an_id_of_its_own_is_convicted(tmp_path, monkeypatch):
    """Broken twin: every charge has an id by chance, as a batch has."""
    study = sd.Study.load(put_shop(tmp_path))
    monkeypatch.setattr(Pages, "find_run", lambda *_: (os.urandom(16).hex(), None))
    for name in ("one", "two"):
        study.run(run_id="monday", output=tmp_path / name)
    assert spent(tmp_path) == 4


@pytest.mark.parametrize("outputs", [("out", "out"), ("out", "other")])
@pytest.mark.slow
def test_of_two_starts_at_once_one_pays(tmp_path, outputs):
    path = put_shop(tmp_path)
    # Both have looked for the run before either charges.
    point = """
    import time
    whole = ReleaseExecutor.run
    def wait(self, *given):
        print("ready", flush=True)
        sys.stdin.readline()
        return whole(self, *given)
    ReleaseExecutor.run = wait
    """
    code = RUNS.replace("{point}", textwrap.dedent(point))
    jobs = [
        subprocess.Popen(
            [sys.executable, "-c", code.replace('output="out"', f'output="{name}"')],
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in outputs
    ]
    # Of two that write one folder one comes no further than to its name.
    ready = [job.stdout.readline() for job in jobs]
    assert ready.count("ready\n") == len(set(outputs))
    said = [job.communicate("go\n", timeout=60) for job in jobs]
    assert sorted(job.returncode for job in jobs) == [0, 1], said
    lost = next(err for job, (_, err) in zip(jobs, said, strict=True) if job.returncode)
    if len(set(outputs)) == 2:
        assert "RunTaken: Account 'shop' was charged for run 'shop:monday' before" in lost
    else:
        assert "another process writes" in lost
    assert spent(tmp_path) == 2
    done = [name for name in set(outputs) if (tmp_path / name).exists()]
    look_whole(tmp_path / done[0])
    assert len(done) == 1
    assert not sd.Study.load(path).run(run_id="monday", output=tmp_path / "more").paid


def test_of_two_starts_one_pays_also_where_the_account_has_room_for_one(tmp_path):
    study = sd.Study.load(put_shop(tmp_path, epsilon=2))
    with pytest.MonkeyPatch.context() as patch:
        whole = sd.Study._release

        def overtaken(self, *given, **named):
            patch.undo()
            study.run(run_id="monday", output=tmp_path / "first")
            return whole(self, *given, **named)

        patch.setattr(sd.Study, "_release", overtaken)
        with pytest.raises(sd.RunTaken):
            study.run(run_id="monday", output=tmp_path / "second")
    assert spent(tmp_path) == 2


# ---- the report --------------------------------------------------------------------------------------------


def test_the_page_for_readers_shows_what_was_released_and_not_where_it_was_read(tmp_path):
    run = sd.Study.load(put_shop(tmp_path)).run(run_id="monday", output=tmp_path / "out")
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "A shop" in page
    for words in (
        "customers: How many people",
        "best_sellers: The 2 most common values of product",
        "turnover: Sum of price",
    ):
        assert words in re.sub("<[^>]*>", "", page)
    for word in (str(tmp_path), "orders.csv", "budget.db"):
        assert word not in page
    digest = yaml.safe_load((run.folder / "statement.yaml").read_text(encoding="utf-8"))["digest"]
    assert digest in page


def test_the_page_links_proofs_where_the_study_says_that_they_are(tmp_path):
    text = STUDY.replace('title = "A shop"', 'title = "A shop"\ndocs = "https://x.example/docs"')
    run = sd.Study.load(put_shop(tmp_path, text)).run(run_id="monday", output=tmp_path / "out")
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert 'href="https://x.example/docs/proofs/' in page


def test_without_it_and_without_yaml_the_rest_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    monkeypatch.setattr("sordino.study.results.can_draw", lambda: False)
    run = sd.Study.load(put_shop(tmp_path)).run(run_id="monday", output=tmp_path / "out")
    assert not (run.folder / "report.html").exists()
    statement = (run.folder / "statement.json").read_text(encoding="utf-8")
    assert open_account(tmp_path).check_statement(statement).sound


@pytest.mark.parametrize(
    "number",
    [
        "9" * 5000,
        "0x" + "f" * 5000,
        "-" + "9" * 4301,
        "1" + "0" * 30,
        "9_9" * 3000,
        "[[1], [" + "9" * 5000 + "]]",
    ],
)
@pytest.mark.parametrize("key", ["epsilon = {}\nshare = 1", "domain = [{}]", "unknown = {}"])
@pytest.mark.each_value
def test_a_number_with_very_many_digits_is_refused_with_its_line(tmp_path, number, key):
    path = tmp_path / "s.toml"
    path.write_text(f'name = "x"\n\n[budget]\n{key.format(number)}\n', encoding="utf-8")
    with pytest.raises(
        InvalidParameter,
        match=r"s\.toml, line 4: Whole numbers in a study must have at most 64 bits",
    ):
        sd.Study.load(path)
