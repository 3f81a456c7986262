"""Goals in studies: the epsilon that the planner of a session finds, before the charge, from public things, and paid once."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from fractions import Fraction

import pytest

import sordino as sd
from sordino.cost import Pure
from sordino.session.plans import planner
from sordino.session.plans.assumed import Assumption
from sordino.session.plans.dry_run import DryRun, PublicRows
from sordino.sources import open_source
from sordino.study import study as module
from sordino.study.planning import Starter
from sordino.study.tables import BudgetTable
from study.shop import HEAD, STUDY, open_account, put_shop, spent

FIXED = """
[[release]]
kind = "histogram"
name = "products"
item = "product"
domain = {file = "items.csv", column = "name"}
epsilon = 1
"""
SUM = """
[[release]]
kind = "sum"
name = "turnover"
column = "price"
lower = 0
cap = 1e6
goal = "±1e-9"
like = "flat"
"""
COUNT = """
[[release]]
kind = "count_distinct_units"
name = "customers"
goal = "±20"
"""
TOP = """
[[release]]
kind = "top_k"
name = "best_sellers"
item = "product"
k = 2
domain = {file = "items.csv", column = "name"}
goal = "top 2 right with 90%"
like = "zipf:0.5"
rows = 500
"""
GOALS = HEAD + COUNT + TOP + FIXED


def put(folder, text=GOALS, **budget):
    return sd.Study.load(put_shop(folder, text, **budget))


def open_session(folder, ledger=None):
    """Return a session about the same as the study."""
    return sd.Session(
        folder / "orders.csv",
        unit=sd.PrivacyUnit("customer", max_rows=3),
        ledger=ledger,
        csv=sd.CsvFormat(types={"price": "decimal(9,2)"}),
    )


def rows_of(folder, more):
    """Write a table with the columns of the shop, and other rows."""
    lines = [f"c{c},{('tea', 'salt')[c % 2]},{c % (3 + more)}" for c in range(20 + 300 * more)]
    (folder / "orders.csv").write_text(
        "\n".join(["customer,product,price", *lines]) + "\n", encoding="utf-8"
    )


def test_a_list_has_as_many_items_as_its_goal_names(tmp_path):
    study = put(tmp_path, GOALS.replace("k = 2\n", ""))
    [top] = [one.request for one in study.releases if one.name == "best_sellers"]
    assert top.k == 2


def put_public(folder, **counts):
    """Write orders that are no secret: so many of each product."""
    lines = [f"{item}{n},{item},1" for item, count in counts.items() for n in range(count)]
    (folder / "old.csv").write_text(
        "\n".join(["customer,product,price", *lines]) + "\n", encoding="utf-8"
    )


def line_of(text, part):
    return next(number for number, line in enumerate(text.splitlines(), 1) if line.startswith(part))


def said_by(plan):
    return json.dumps({name: value for name, value in plan.to_dict().items() if name != "run"})


# ---- what is found -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [{}, {"delta": 1e-6}])
def test_it_is_what_a_session_finds_behind_the_same_releases(tmp_path, budget):
    # The account is all there is, in both.
    text = HEAD.replace("epsilon = 2", "epsilon = 50\ndelta = 1e-6") + FIXED + COUNT + TOP
    study = put(tmp_path, text, epsilon=5, **budget)
    plan = study.plan(run_id="x")
    session = open_session(tmp_path, open_account(tmp_path))
    labels = sd.Domain.from_file(tmp_path / "items.csv", column="name")
    alone = []
    with pytest.raises(RuntimeError, match="stop"), session.batch():  # noqa: PT012 - the batch is left by an error
        alone.append(session.plan.histogram("product", epsilon=1, domain=labels))
        session.histogram("product", epsilon=1, domain=labels)
        alone.append(session.plan.count_distinct_units(goal="±20"))
        session.count_distinct_units(epsilon=alone[-1].epsilon)
        asked = {"goal": "top 2 right with 90%", "like": "zipf:0.5", "rows": 500}
        alone.append(session.plan.top_k("product", k=2, domain=labels, **asked))
        raise RuntimeError("stop")
    assert [float(one.epsilon) for one in plan.releases] == [one.epsilon for one in alone]
    assert [one.goal for one in plan.releases] == [None, "±20", "top 2 right with 90%"]
    assert [one.plan.to_dict() for one in plan.releases] == [one.to_dict() for one in alone]
    assert spent(tmp_path) == 0


def test_the_run_has_the_epsilon_of_the_plan_and_says_so_everywhere(tmp_path):
    study = put(tmp_path)
    planned = study.plan(run_id="monday")
    shown = []
    run = study.run(run_id="monday", output=tmp_path / "out", show=shown.append)
    found = [one.epsilon for one in planned.releases]
    assert spent(tmp_path) == sum(found)
    assert [one.epsilon for one in shown[0].releases] == found
    # What a run shows has no widths: they would take their time.
    assert [one.plan for one in shown[0].releases] == [None] * 3
    top = {"goal": "top 2 right with 90%", "epsilon": float(found[1])}
    reached = {
        "customers": {"goal": "±20", "epsilon": float(found[0]), "assumed": ""},
        "best_sellers": top | {"assumed": "500 pairs of a person and an item, like zipf:0.5"},
    }
    results = json.loads((run.folder / "results.json").read_text(encoding="utf-8"))["releases"]
    assert [one.get("reached") for one in results] == [*reached.values(), None]
    assert results[0]["asked"] == {"goal": "±20"}
    assert results[1]["asked"] == {
        "item": "product",
        "k": 2,
        "domain": {"file": "items.csv", "column": "name"},
        "goal": "top 2 right with 90%",
        "like": "zipf:0.5",
        "rows": 500,
    }
    assert (
        json.loads((run.folder / "metrics.json").read_text(encoding="utf-8"))["reached"] == reached
    )
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert f"Epsilon {found[1]} was found for the goal" in page.replace(
        str(float(found[1])), str(found[1])
    )
    assert "top 2 right with 90%" in page
    ledger = open_account(tmp_path)
    assert ledger.charge(run.charge).detail["study"]["reached"] == reached
    assert "top 2 right with 90%" in ledger.publish(run.charge, part=2).to_text("json")
    # And the release is as good as it was to be.
    assert results[0]["rows"][0]["high"] - results[0]["rows"][0]["low"] <= 40


def test_widths_are_those_of_a_session(tmp_path):
    study = put(tmp_path, STUDY)
    seen = []
    plan = study.plan(progress=lambda name, done: seen.append((name, done)))
    assert [name for name, _ in seen] == [one.name for one in study.releases]
    assert [done for _, done in seen] == sorted(done for _, done in seen)
    session = open_session(tmp_path)
    alone = session.plan.sum("price", epsilon=1, lower=0, cap=1e6)
    assert plan.releases[2].plan.rows == alone.rows
    assert plan.releases[0].plan.rows == session.plan.count_distinct_units(epsilon=0.5).rows
    # A plan says what it would leave behind those before it.
    assert [one.plan.account.left for one in plan.releases] == [Fraction("9.5"), 9, 8]


def test_a_study_that_does_not_fit_shows_its_widths_all_the_same(tmp_path):
    plan = put(tmp_path, STUDY, epsilon=1.5).plan()
    assert "100% of the budget of account shop is left; this needs 134%" in plan.refused
    assert all(one.plan.rows and one.plan.account is None for one in plan.releases)


# ---- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "where", "says"),
    [
        ('"±20"', '"soon"', "goal", "count_distinct_units.goal must be a goal such as"),
        ('"±20"', '"right with 90%"', "goal", "must be about a figure"),
        ('"±20"', '"5%"', "goal", "must come with a public size"),
        ('"±20"', '"±20"\nshare = 0.1', "[[release]]", "must say its epsilon, its share of the budget or a goal; got share and goal"),
        ('goal = "±20"', "", "[[release]]", "or a goal; got none of them"),
        ('goal = "±20"', 'gaol = "±20"', "gaol", "has no key 'gaol'. Did you mean 'goal'"),
        ("top 2 right", "top 3 right", 'goal = "top', "must be about the same items: k is 2"),
        ('"zipf:0.5"', '"zipf:-1"', "like", "like must be flat"),
        ('"zipf:0.5"', "3", "like", "top_k.like must be a shape or public data; got 3"),
        ('"zipf:0.5"', '"items.csv"', "rows", "rows must not be given with public data"),
        ("rows = 500", "rows = 0", "rows", "top_k.rows must be a whole number, at least 1; got 0"),
        ("rows = 500", "runs = 0.5", "runs", "top_k.runs must be a whole number"),
        ('"zipf:0.5"', '"postgresql://me:geheim@x:y@z/d#t"', "like", "may hold a password"),
        ('"zipf:0.5"', '"postgresql://${NO_SUCH}@z/d#t"', "like", "must have a variable NO_SUCH"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line_when_the_file_is_read(tmp_path, old, new, where, says):
    assert old in GOALS
    text = GOALS.replace(old, new, 1)
    with pytest.raises(sd.InvalidParameter) as refused:
        put(tmp_path, text)
    said = str(refused.value)
    assert says in said
    assert "geheim" not in said
    assert f", line {line_of(text, where)}: " in said


@pytest.mark.parametrize(
    ("text", "account", "best"),
    [
        # What the others leave of [budget]: the histogram behind it has 1 of 1.5, and the top before it 0.2.
        (HEAD.replace("epsilon = 2", "epsilon = 1.5") + TOP + COUNT.replace("±20", "±2") + FIXED, 10, "[budget] leaves it epsilon 0.279."),
        # And of the account.
        (HEAD + COUNT.replace("±20", "±2") + FIXED, 1.5, "with epsilon 0.5, the most that fits, it is ± 6."),
        (HEAD + FIXED + COUNT.replace("±20", "±2"), 1.5, "with epsilon 0.5, the most that fits, it is ± 6."),
        # Of nothing that is left no goal is known to be reached.
        (HEAD + COUNT + FIXED.replace("epsilon = 1", "share = 1"), 10, "[budget] leaves it epsilon 0."),
        (HEAD.replace("epsilon = 2", "rho = 0.6") + COUNT.replace("±20", "±2") + FIXED, 10, "[budget] leaves it rho 0.1."),
    ],
)  # fmt: skip
@pytest.mark.sample(2)
def test_a_goal_that_takes_more_than_the_others_leave_is_refused(tmp_path, text, account, best):
    study = put(tmp_path, text, epsilon=account)
    before = list(open_account(tmp_path).export())
    for job in (study.plan, lambda: study.run(run_id="x", output=tmp_path / "out")):
        with pytest.raises(sd.BudgetExceeded) as refused:
            job()
        assert best in str(refused.value)
        line = line_of(text, 'goal = "±')
        assert f"study.toml, line {line}: " in str(refused.value)
        assert refused.value.__cause__ is None
    assert list(open_account(tmp_path).export()) == before
    assert not list(tmp_path.glob("out*"))


def test_what_does_not_fit_by_itself_is_not_blamed_on_a_goal(tmp_path):
    """Two releases with an epsilon of their own take more than the account has: no goal before them is wrong."""
    study = put(
        tmp_path,
        HEAD.replace("epsilon = 2", "epsilon = 20")
        + COUNT
        + FIXED.replace("epsilon = 1", "epsilon = 15"),
    )
    for make in (study.plan, study.run):
        with pytest.raises(sd.BudgetExceeded) as refused:
            make()
        assert "goal" not in str(refused.value)
        assert "100% of the budget of account shop is left; this needs" in str(refused.value)
    assert spent(tmp_path) == 0


def test_what_no_epsilon_reaches_is_refused(tmp_path):
    study = put(tmp_path, HEAD + SUM)
    # Not that of the account: no other one would help.
    with pytest.raises(
        sd.InvalidParameter, match=r"line \d+: sum.goal must be one that some epsilon reaches"
    ):
        study.plan()


@pytest.mark.slow
def test_public_data_are_named_from_the_folder_of_the_study(tmp_path, monkeypatch):
    put_public(tmp_path, tea=300, rice=120)
    text = GOALS.replace('"zipf:0.5"\nrows = 500', '"old.csv"')
    study = put(tmp_path, text)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    plan = study.plan(run_id="x")
    assert plan.releases[1].plan.assumed == "data like old.csv, which is taken as public"
    assert str(tmp_path) not in said_by(plan)
    (tmp_path / "link.csv").symlink_to(tmp_path / "orders.csv")
    os.link(tmp_path / "orders.csv", tmp_path / "hard.csv")
    for name in ("orders.csv", "link.csv", "hard.csv", "./elsewhere/../orders.csv"):
        (tmp_path / "study.toml").write_text(text.replace("old.csv", name), encoding="utf-8")
        with pytest.raises(
            sd.InvalidParameter, match="must be synthetic or public data"
        ) as refused:
            sd.Study.load(tmp_path / "study.toml").run(run_id="x", output=tmp_path / "out")
        line = line_of(text, 'goal = "top')
        assert f"line {line}: " in str(refused.value)
    assert spent(tmp_path) == 0


def test_the_private_source_is_refused_as_public_data_beside_a_release_without_a_goal(tmp_path):
    """Its run looks at no plan; what it says of itself would be false all the same."""
    text = HEAD + FIXED + 'like = "orders.csv"\n'
    study = put(tmp_path, text)
    with pytest.raises(sd.InvalidParameter, match="must be synthetic or public data") as refused:
        study.run(run_id="x", output=tmp_path / "out")
    assert f"line {line_of(text, 'like')}: " in str(refused.value)
    assert spent(tmp_path) == 0
    put_public(tmp_path, tea=30)
    (tmp_path / "study.toml").write_text(
        text.replace('like = "orders', 'like = "old'), encoding="utf-8"
    )
    sd.Study.load(tmp_path / "study.toml").run(run_id="x", output=tmp_path / "out")


# ---- nothing is read, nothing is charged -------------------------------------------------------------------


def plan_and_search(folder, more):
    """Return what a plan and a run, up to its charge, say of a table with other rows."""

    class Stop(Exception):
        pass

    said = []

    def stop(plan):
        said.append(said_by(plan))
        raise Stop

    rows_of(folder, more)
    study = sd.Study.load(folder / "study.toml")
    said.append(said_by(study.plan(run_id="x")))
    with pytest.raises(Stop):
        study.run(run_id="x", output=folder / "out", show=stop)
    return said


def compare(folder):
    """The plan and the search are the same for other rows."""
    assert plan_and_search(folder, 0) == plan_and_search(folder, 1)


def test_it_is_the_same_for_other_rows(tmp_path):
    put(tmp_path)
    compare(tmp_path)


@pytest.mark.slow
def test_a_search_that_peeks_at_the_rows_is_convicted(tmp_path, monkeypatch):
    """Broken twin: what is assumed are the private rows."""
    put(tmp_path)
    monkeypatch.setattr(
        planner.Planner,
        "_assume",
        lambda self, *_: Assumption((PublicRows("these", self._executor.source),), "these"),
    )
    with pytest.raises(AssertionError):
        compare(tmp_path)


def test_behind_the_schema_the_table_is_not_even_opened(tmp_path, monkeypatch):
    """Whoever opens a pipe that nobody writes waits for ever."""
    put(tmp_path)
    path = tmp_path / "orders.csv"
    opened = open_source(path, csv=sd.CsvFormat(types={"price": "decimal(9,2)"}))
    monkeypatch.setattr(module, "open_source", lambda *_, **__: opened)
    monkeypatch.setattr(f"{__name__}.rows_of", lambda *_: None)
    path.unlink()
    os.mkfifo(path)
    seen = []
    asked = threading.Thread(target=lambda: seen.extend(plan_and_search(tmp_path, 0)), daemon=True)
    asked.start()
    asked.join(60)
    # Lets a plan go on that has opened it.
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    assert len(seen) == 2


def look_at_the_account(folder):
    """A dry run and a refused goal leave the ledger as it is."""
    study = put(folder)
    before = list(open_account(folder).export())
    study.plan()
    (folder / "study.toml").write_text(GOALS.replace("±20", "±2"), encoding="utf-8")
    with pytest.raises(sd.BudgetExceeded):
        sd.Study.load(folder / "study.toml").run(run_id="x", output=folder / "out")
    assert list(open_account(folder).export()) == before


def test_the_ledger_stays_as_it_is(tmp_path):
    look_at_the_account(tmp_path)


def test_a_study_that_charges_what_is_known_before_the_search_is_convicted(tmp_path, monkeypatch):
    whole = Starter.start

    def hasty(self, releases, *given):
        known = sum(one.epsilon for one in releases if one.epsilon is not None)
        self.executor.ledger.reserve(Pure(epsilon=known))
        return whole(self, releases, *given)

    monkeypatch.setattr(Starter, "start", hasty)
    with pytest.raises(AssertionError):
        look_at_the_account(tmp_path)


def test_a_search_that_forgets_the_others_is_convicted(tmp_path, monkeypatch):
    """Broken twin: a goal takes all that is left, whatever stands behind it."""
    asked = DryRun.preview
    monkeypatch.setattr(DryRun, "preview", lambda self, *_: asked(self))
    monkeypatch.setattr(BudgetTable, "refuse_beyond", lambda *_: None)
    text = HEAD + COUNT.replace("±20", "±4") + FIXED
    study = put(tmp_path, text, epsilon=1.5)
    # It finds what the account has, and only the charge refuses all of it.
    assert study.plan().refused is not None
    monkeypatch.undo()
    with pytest.raises(sd.BudgetExceeded, match="the most that fits, it is ± 6"):
        study.plan()


# ---- a run is paid once ------------------------------------------------------------------------------------


def forbid_search(monkeypatch):
    monkeypatch.setattr(
        planner.Planner, "seek", lambda *_, **__: pytest.fail("an epsilon was looked for")
    )


def test_a_second_start_looks_for_nothing_and_pays_nothing(tmp_path, monkeypatch):
    study = put(tmp_path)
    first = study.run(run_id="monday", output=tmp_path / "out")
    paid = spent(tmp_path)
    forbid_search(monkeypatch)
    (tmp_path / "orders.csv").unlink()
    assert study.run(run_id="monday", output=tmp_path / "out").paid is False
    copy = study.run(run_id="monday", output=tmp_path / "copy")
    assert (copy.paid, copy.releases) == (False, first.releases)
    for one in first.folder.iterdir():
        assert (copy.folder / one.name).read_bytes() == one.read_bytes()
    assert spent(tmp_path) == paid


def test_a_plan_of_a_run_that_was_paid_has_the_epsilons_that_it_had(tmp_path, monkeypatch):
    study = put(tmp_path, epsilon=1.5)
    before = study.plan(run_id="monday")
    study.run(run_id="monday", output=tmp_path / "out")
    forbid_search(monkeypatch)
    after = study.plan(run_id="monday")
    assert (after.kept, after.charge is not None, after.refused) == (3, True, None)
    assert [(one.epsilon, one.goal) for one in after.releases] == [
        (one.epsilon, one.goal) for one in before.releases
    ]
    assert [one.plan.rows for one in after.releases] == [one.plan.rows for one in before.releases]


@pytest.mark.slow
def test_another_goal_is_another_study_and_other_public_data_are_not(tmp_path):
    put_public(tmp_path, tea=200, rice=150)
    text = GOALS.replace('"zipf:0.5"\nrows = 500', '"old.csv"').replace(
        "top 2 right with 90%", "top 2 right with 50%"
    )
    study = put(tmp_path, text)
    first = study.run(run_id="monday", output=tmp_path / "out")
    # The digest is of what was asked, and what was found is in the ledger.
    put_public(tmp_path, tea=20, rice=9)
    again = sd.Study.load(tmp_path / "study.toml").run(run_id="monday", output=tmp_path / "copy")
    assert (again.paid, again.releases) == (False, first.releases)
    (tmp_path / "study.toml").write_text(text.replace("±20", "±21"), encoding="utf-8")
    for job in (lambda one: one.run(run_id="monday", output=tmp_path / "x"), lambda one: one.plan(run_id="monday")):  # fmt: skip
        with pytest.raises(sd.RunTaken):
            job(sd.Study.load(tmp_path / "study.toml"))


def test_of_two_starts_one_pays_also_where_the_other_has_nothing_left_to_search_in(
    tmp_path, monkeypatch
):
    study = put(tmp_path, epsilon=1.5)
    whole = Starter.start

    def overtaken(self, *given):
        monkeypatch.undo()
        study.run(run_id="monday", output=tmp_path / "first")
        return whole(self, *given)

    monkeypatch.setattr(Starter, "start", overtaken)
    with pytest.raises(sd.RunTaken, match="was paid by another start"):
        study.run(run_id="monday", output=tmp_path / "second")
    assert spent(tmp_path) == sum(
        Fraction(repr(one["reached"]["epsilon"])) if "reached" in one else 1
        for one in json.loads((tmp_path / "first" / "results.json").read_text(encoding="utf-8"))[
            "releases"
        ]
    )


@pytest.mark.parametrize(
    "epsilon",
    [None, 10**400, -1, 0, 1e300, 0.12345],
    ids=["none", "beyond floats", "below 0", "0", "1e300", "five digits"],
)
def test_a_charge_that_does_not_say_what_was_found_is_refused(tmp_path, epsilon):
    """What somebody else may have written there is no epsilon that a search finds."""
    study = put(tmp_path)
    about = {"study": {"name": "shop", "run": "x", "digest": study.digest}}
    if epsilon is not None:
        found = {"goal": "±20", "epsilon": epsilon, "assumed": ""}
        about["study"]["reached"] = dict.fromkeys(("customers", "best_sellers"), found)
    open_account(tmp_path).reserve(Pure(epsilon=1), detail=about, run="shop:x")
    with pytest.raises(sd.LedgerError, match="must say which epsilon release 'customers' had"):
        study.plan(run_id="x")


# ---- what stands in the file -------------------------------------------------------------------------------


def test_a_password_of_public_data_is_not_shown(tmp_path):
    text = GOALS.replace(
        '"zipf:0.5"\nrows = 500', '"postgresql://me:geheim@nowhere.invalid/shop#old"'
    )
    study = put(tmp_path, text)
    assert study.releases[1].said["like"] == "postgresql://nowhere.invalid/shop#old"
    with pytest.raises(sd.DataSourceError) as refused:
        study.plan()
    assert "geheim" not in str(refused.value)
    assert "geheim" not in repr(study.releases)


@pytest.mark.slow
def test_a_run_without_goals_makes_no_plans(tmp_path):
    """What makes them need not even be loaded."""
    put_shop(tmp_path, STUDY)
    code = (
        "import sys\nfrom sordino import Study\nStudy.load('study.toml').run(run_id='x', output='out')\n"
        "print('sordino.session.plans.planner' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_what_a_release_chooses_for_the_user_is_planned_as_well(tmp_path):
    """Rows of a person are counted up to a cap that nobody says, and all of them with weights."""
    chosen = """
[[release]]
kind = "top_sums"
name = "most_rows"
item = "product"
k = 1
epsilon = 0.5
domain = ["tea", "rice"]

[[release]]
kind = "quantile"
name = "median"
column = "price"
q = 0.5
lower = 0
cap = 100
epsilon = 0.5
"""
    head = HEAD.replace("max_rows = 3\n", "")
    plan = sd.Study.load(put_shop(tmp_path, head + chosen)).plan(run_id="x")
    assert [one.name for one in plan.releases] == ["most_rows", "median"]


def test_a_goal_of_the_largest_sums_is_looked_for(tmp_path):
    """With a shape of what people add up to, and of how that falls from label to label."""
    asked = """
[[release]]
kind = "top_sums"
name = "most_rows"
item = "product"
k = 1
goal = "top 1 right with 90%"
like = "lognormal:5,1 by zipf:1.1"
domain = ["tea", "rice"]
"""
    head = HEAD.replace("max_rows = 3\n", "")
    plan = sd.Study.load(put_shop(tmp_path, head + asked)).plan(run_id="x")
    [one] = plan.releases
    assert one.plan.choices[0].right > 0.9
    assert one.plan.choices[0].like == "lognormal:5,1 by zipf:1.1"
