"""`sd.open` is a session that is ready: it makes its account or finds it, and says what does not fit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import date

import polars as pl
import pytest

import sordino as sd


@pytest.fixture
def shop(tmp_path, monkeypatch):
    rows = [f"c{n},{('tea', 'rice')[n % 2]},{n % 40}" for n in range(400)]
    text = "\n".join(["customer_id,product,amount", *rows])
    (tmp_path / "purchases.csv").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


FRAME = pl.DataFrame({"customer_id": ["a", "b", "c"], "product": ["tea", "tea", "rice"]})
SAID = {"person": "customer_id", "epsilon": 2, "save": "budget.db"}
ITEMS = ["coffee", "rice", "tea"]


def spent(account, file="budget.db"):
    return float(sd.Ledger.open(file, account=account).statement().spent)


def test_a_path_is_opened_with_its_account(shop):
    session = sd.open("purchases.csv", **SAID)
    assert isinstance(session, sd.Session)
    assert session.top_k("product", k=1, epsilon=0.5, domain=ITEMS)
    assert spent("purchases") == 0.5
    # Again, it is the same account, wherever the file lies now.
    (shop / "later").mkdir()
    (shop / "purchases.csv").rename(shop / "later" / "purchases.csv")
    again = sd.open("later/purchases.csv", name="purchases", **SAID)
    again.count_distinct_units(epsilon=0.5)
    assert spent("purchases") == 1


def test_words_of_people_are_methods_too(shop):
    """`top` and `median`, as they are called everywhere."""
    opened = sd.open("purchases.csv", person="customer_id", epsilon=9, save="budget.db")
    assert type(opened).top is type(opened).top_k
    asked = {"epsilon": 1, "lower": 0, "cap": 1000}
    assert type(opened.median("amount", **asked)) is type(opened.quantile("amount", q=0.5, **asked))
    assert opened.top("product", k=1, epsilon=1, domain=["tea", "rice"]).rows


def test_who_has_an_account_need_not_say_its_budget(shop):
    sd.open("purchases.csv", **SAID)
    # Where nobody says it, the ledger is where `sordino declare` makes it.
    more = sd.open("purchases.csv", person="customer_id")
    assert more.count_distinct_units(epsilon=0.5).receipt.id
    with pytest.raises(sd.InvalidParameter, match="epsilon must"):
        sd.open("purchases.csv", person="customer_id", save="new.db")
    assert not (shop / "new.db").exists()


def test_a_declared_table_is_opened_by_its_name(sordino, shop):
    made = sordino("declare", "purchases.csv", "--person", "customer_id", "--epsilon", 2)
    assert made.code == 0
    session = sd.open("purchases")
    session.count_distinct_units(epsilon=0.5)
    named = sd.open("purchases", declaration=shop / "sordino.toml")
    named.count_distinct_units(epsilon=0.5)
    # The path with the same words is the same account.
    sd.open("purchases.csv", **SAID).count_distinct_units(epsilon=0.5)
    assert spent("purchases") == 1.5
    with pytest.raises(sd.InvalidParameter, match="Did you mean 'purchases'"):
        sd.open("purchase")
    with pytest.raises(sd.InvalidParameter, match="declaration says"):
        sd.open("purchases", epsilon=3)


def test_labels_are_declared_once(sordino, shop):
    """Sessions, plans, figures of groups and studies take them; what is said by itself wins."""
    (shop / "items.csv").write_text("\n".join(["product", *ITEMS]), encoding="utf-8")
    whom = ("--person", "customer_id", "--epsilon", 9, "--labels", "product=items.csv")
    assert sordino("declare", "purchases.csv", *whom).code == 0
    opened = sd.open("purchases")
    listed = opened.histogram("product", epsilon=1)
    assert [row.item for row in listed] == ITEMS
    assert [row.item for row in opened.histogram("product", epsilon=1, domain=["tea"])] == ["tea"]
    asked = {"lower": 0, "cap": 40, "epsilon": 1, "per_person": "sum"}
    assert len(list(opened.sum("amount", by="product", **asked))) == 3
    with pytest.raises(sd.UnknownDomain):
        opened.histogram("amount", epsilon=1)
    # In a study the file is named without its folder, as those are that it names itself.
    release = '[[release]]\nkind = "histogram"\nname = "counts"\nitem = "product"\nshare = 1\n'
    (shop / "deep").mkdir()
    study = shop / "deep" / "study.toml"
    study.write_text('name = "s"\ntable = "purchases"\n[budget]\nepsilon = 1\n' + release)
    done = sd.Study.load(study).run(run_id="a", output=shop / "out")
    assert done.releases[0]["domain"].startswith("file items.csv, column product, 3 labels")


def test_a_frame_has_a_name(shop):
    session = sd.open(FRAME, name="orders", **SAID)
    session.count_distinct_units(epsilon=0.5)
    sd.open(FRAME, name="orders", **SAID).count_distinct_units(epsilon=0.5)
    assert spent("orders") == 1
    assert sd.Ledger.open("budget.db", account="orders").statement().source == "name:orders"


def test_a_frame_without_a_name_has_one_unless_it_would_be_ambiguous(shop):
    for _ in range(2):
        sd.open(FRAME, **SAID).count_distinct_units(epsilon=0.5)
    assert spent("table") == 1
    sd.open(FRAME, name="orders", **SAID)
    with pytest.raises(sd.InvalidParameter, match=r"name must say .*'orders'"):
        sd.open(FRAME, **SAID)


def test_two_files_of_one_name_are_not_taken_for_one_another(shop):
    sd.open("purchases.csv", **SAID)
    (shop / "more").mkdir()
    (shop / "more" / "purchases.csv").write_text("customer_id,product\na,tea\n", encoding="utf-8")
    with pytest.raises(sd.LedgerConflict, match="name='purchases'"):
        sd.open("more/purchases.csv", **SAID)
    sd.open("more/purchases.csv", name="more", **SAID)
    assert sd.Ledger.accounts("budget.db") == ("more", "purchases")


def test_one_table_has_one_account_unless_that_is_meant(shop):
    sd.open("purchases.csv", **SAID)
    with pytest.raises(sd.LedgerConflict, match=r"'purchases'.*second_budget=True"):
        sd.open("purchases.csv", name="again", **SAID)
    sd.open("purchases.csv", name="again", second_budget=True, **SAID)
    assert sd.Ledger.accounts("budget.db") == ("again", "purchases")


def test_many_may_open_a_new_table_at_once(shop):
    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(lambda _: sd.open("purchases.csv", **SAID), range(16)))
    assert sd.Ledger.accounts("budget.db") == ("purchases",)

    # Threads share one session: as many of their releases fit as fit one after the other.
    def ask(_):
        try:
            return opened[0].count_distinct_units(epsilon=0.5)
        except sd.BudgetExceeded:
            return None

    with ThreadPoolExecutor(4) as pool:
        released = [one for one in pool.map(ask, range(8)) if one is not None]
    assert len({one.receipt.id for one in released}) == 4
    assert spent("purchases") == 2


def test_what_differs_is_told_in_one_sentence(shop):
    sd.open("purchases.csv", **SAID)
    for change, words in {
        ("epsilon", 3): r"epsilon 2.*epsilon 3",
        ("person", "product"): r'column "customer_id".*column "product"',
        ("delta", 1e-6): r"delta 0.*delta 1e-06",
        ("adjacency", "replace-one"): r"add-remove.*replace-one",
    }.items():
        with pytest.raises(sd.LedgerConflict, match=words):
            sd.open("purchases.csv", **SAID | dict([change]))
    assert sd.Ledger.open("budget.db", account="purchases").statement().charges == ()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"person": None}, "person must"),
        ({"row": True}, "person"),
        ({"person": "custmer_id"}, "Did you mean 'customer_id'"),
        ({"name": "a/b"}, "name must be"),
        ({"epsilon": 0}, "epsilon"),
        ({"date": "today"}, r"date .*\{date\}"),
        ({"declaration": "sordino.toml"}, "declaration"),
    ],
)
def test_what_cannot_be_opened_leaves_nothing_behind(shop, said, words):
    with pytest.raises(sd.InvalidParameter, match=words):
        sd.open("purchases.csv", **SAID | said)
    assert [path.name for path in shop.iterdir()] == ["purchases.csv"]


def test_rows_and_days(shop):
    (shop / "purchases.csv").rename(shop / "of-2026-11-27.csv")
    session = sd.open(
        "of-{date}.csv", row=True, epsilon=1, save="b.db", name="rows", date="2026-11-27"
    )
    assert session.count(epsilon=0.5)
    assert spent("rows", "b.db") == 0.5


def test_a_frame_and_a_file_may_read_people_otherwise_and_one_account_takes_one_reading(shop):
    sd.open("purchases.csv", **SAID).count_distinct_units(epsilon=0.5)
    frame = sd.open(pl.read_csv("purchases.csv"), name="purchases", **SAID)
    with pytest.raises(sd.LedgerConflict, match="values in memory"):
        frame.count_distinct_units(epsilon=0.5)
    assert spent("purchases") == 0.5


def test_a_name_in_place_of_a_path_is_what_the_ledger_compares(shop):
    unit = sd.PrivacyUnit("customer_id")
    ledger = sd.Ledger.create(
        "b.db", account="a", budget=sd.Budget(epsilon=1), adjacency="add-remove", unit=unit,
        source="name:shop",
    )  # fmt: skip
    with pytest.raises(sd.LedgerConflict):
        sd.Session("purchases.csv", unit=unit, ledger=ledger).count_distinct_units(epsilon=0.5)
    named = sd.Session("purchases.csv", unit=unit, ledger=ledger, name="shop")
    # It is read as the file that it is: whose a row is does not depend on what it is called.
    assert named.unit_reading == "csv text"
    named.count_distinct_units(epsilon=0.5)
    assert ledger.remaining == 0.5


def test_who_has_no_labels_is_told_that_the_table_is_no_list_of_them(shop):
    session = sd.open("purchases.csv", **SAID)
    for ask in (
        lambda: session.top_k("product", k=1, epsilon=0.5, domain=None),
        lambda: session.mean("amount", lower=0, cap=40, epsilon=0.5, by="product"),
    ):
        with pytest.raises(sd.UnknownDomain, match=r"as by unique\(\), tells who is in it"):
            ask()
    assert spent("purchases") == 0


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"source": [1], "declaration": "zz.toml"}, "name of a table that the declaration has"),
        ({"source": "p.csv", "save": 3}, "open.save must be a text or a path; got int"),
        ({"source": "p", "date": date(2026, 11, 27)}, "open.date must be a text"),
        ({"source": "p", "declaration": 3}, "open.declaration must be a text or a path"),
    ],
)
def test_what_is_no_text_is_refused_in_words(asked, words):
    with pytest.raises(sd.InvalidParameter, match=words):
        sd.open(**asked)
