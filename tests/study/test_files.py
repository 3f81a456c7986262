"""The file of a study: what is wrong with it is said in one sentence with its line, and nothing is charged."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from fractions import Fraction
from pathlib import Path

import pytest

import sordino as sd
from sordino import session
from sordino.session import releases
from sordino.session.request import Request
from sordino.study.document import Document
from sordino.study.kinds import find_kind, list_kinds, list_known
from study.shop import HEAD, RELEASES, STUDY, put_shop, spent


def refused(tmp_path, text, error=sd.InvalidParameter):
    """Load and run a study that is wrong; return the sentence."""
    path = put_shop(tmp_path, text)
    with pytest.raises(error) as caught:
        sd.Study.load(path).run(output=tmp_path / "out", run_id="x")
    assert spent(tmp_path) == 0
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "out.part").exists()
    said = str(caught.value)
    assert caught.value.__cause__ is None
    assert "\n" not in said
    return said.replace(f"{path}, ", "").replace(str(path), "FILE")


def line_of(text, part):
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


def test_every_request_is_what_a_session_releases_under_its_name_and_a_kind_or_has_a_reason_not_to_be():
    def leaves(one):
        return (
            {one} if not one.__subclasses__() else set().union(*map(leaves, one.__subclasses__()))
        )

    # One that nobody listed would be loaded by nothing.
    for module in pkgutil.iter_modules(session.__path__):
        importlib.import_module(f"sordino.session.{module.name}")
    for name, release in releases.RELEASES.items():
        assert release.request.name == name
    known = {one.name for one in leaves(Request) if one.__module__.startswith("sordino.")}
    assert known == {*releases.RELEASES}
    assert {*releases.RELEASES} - {*list_kinds()} == {"randomize", "remeasure"}
    assert all(find_kind(name).name == name for name in list_kinds())


def test_parameters_are_those_that_the_requests_declare():
    assert "k" in list_known(find_kind("top_k"))
    text = STUDY.replace("k = 2", "k = 2\nsimultaneous = true\nnoise = 'laplace'")
    assert 'noise="laplace"' not in text


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("k = 2", "kk = 2", "has no key 'kk'. Did you mean 'k'"),
        ('share = 0.25\n\n[[release]]\nkind = "top_k"', 'shre = 0.25\n\n[[release]]\nkind = "top_k"', "Did you mean 'share'"),
        ('path = "orders.csv"', 'path = "orders.csv"\nmemory_limit = "1MB"', "source.memory_limit must be a size of at least 512 MiB"),
        ("epsilon = 2", "epsilom = 2", "[budget] has no key 'epsilom'. Did you mean 'epsilon'"),
        ("max_rows = 3", "max_row = 3", "[unit] has no key 'max_row'. Did you mean 'row' or 'max_rows'"),
        ("path = ", "paht = ", "Did you mean 'path'"),
        ("title = ", "titel = ", "A study has no key 'titel'. Did you mean 'title'"),
        ('column = "customer"', 'columm = "customer"', "Did you mean 'column'"),
        ('kind = "top_k"', 'kind = "topk"', "kind must be what a session can release; got 'topk'. Did you mean 'top_k'"),
        ('kind = "top_k"', 'kind = "median"', 'A median is kind = "quantile" with q = [0.5]'),
        ('kind = "top_k"', 'kind = "top"', 'It is kind = "top_k"'),
        ('kind = "top_k"', 'kind = "randomize"', "randomize is as long as the table"),
        ("k = 2", "k = 0", "top_k.k must be a whole number, at least 1; got 0"),
        ("cap = 1e6", "cap = 1e6\nnoise = 3", "sum.noise must be one of"),
        ("epsilon = 1\n", "epsilon = -1\n", "sum.epsilon must be a number in (0, inf); got -1"),
        ('share = 0.25\n\n[[release]]\nkind = "sum"', 'share = 1.5\n\n[[release]]\nkind = "sum"', "release.share must be a number in (0, 1]"),
        ("epsilon = 1\n", "epsilon = 1\nshare = 0.5\n", "must say its epsilon, its share of the budget or a goal; got epsilon and share"),
        ('name = "turnover"', 'name = "Customers"', "Every release must have its own name"),
        ('name = "turnover"', 'name = "../x"', "release.name must be 1 to 100 letters"),
        ('item = "product"\n', "", "top_k.item must be given; got none"),
        ('{price = "decimal(9,2)"}', '{price = "money"}', "money"),
        ('domain = {file = "items.csv", column = "name"}', 'domain = {filed = "items.csv"}', "domain has no key 'filed'. Did you mean 'file'"),
        ('domain = {file = "items.csv", column = "name"}', 'domain = {file = "items.csv", range = [1, 2]}', "domain must be a list of labels"),
        ('domain = {file = "items.csv", column = "name"}', 'domain = {file = "items.csv", files = ["x.csv"]}', "domain must be a list of labels"),
        ('domain = {file = "items.csv", column = "name"}', 'domain = {sql = "SELECT 1", header = false}', "domain must be a list of labels"),
        ('domain = {file = "items.csv", column = "name"}', 'domain = {sql = "SELECT 1", files = "x.csv"}', "files must be a list of paths"),
        ('domain = {file = "items.csv", column = "name"}', 'domain = {sql = "SELECT 1", files = [3]}', "files must be"),
        ('domain = {file = "items.csv", column = "name"}', 'domain = {file = "items.csv", header = "no"}', "header must be True or False"),
        ('domain = {file = "items.csv", column = "name"}', "domain = {unlisted = {dleta = 1e-6}}", "domain.unlisted has no key 'dleta'. Did you mean 'delta'"),
        ('title = "A shop"', 'title = "A shop"\ndocs = "javascript:1"', "The place of the documentation must be an address"),
        ('domain = {file = "items.csv", column = "name"}', "domain = {range = [3]}", "domain.range must be"),
        ("max_rows = 3", "max_rows = 0", "PrivacyUnit.max_rows must be"),
        ("max_rows = 3", "row = true", "[unit] must say whom"),
    ],
)  # fmt: skip
@pytest.mark.sample(2)
def test_what_is_wrong_in_the_file_is_said_with_its_line(tmp_path, old, new, says):
    assert old in STUDY
    text = STUDY.replace(old, new, 1)
    said = refused(tmp_path, text)
    assert says in said
    assert said.startswith("line "), said


@pytest.mark.parametrize(
    ("key", "part"),
    [(("release", 1, "kk"), "kk"), (("unit", "colunm"), "colunm"), (("source", "types", "x"), "x ="), (("titel",), "titel")],
)  # fmt: skip
def test_the_line_is_that_of_the_key(tmp_path, key, part):
    text = (
        STUDY.replace("k = 2", "k = 2\nkk = '''\nkk\ncolunm = 1\n'''")
        .replace("max_rows = 3", "# colunm\ncolunm = [\n  1,\n  2]")
        .replace('types = {price = "decimal(9,2)"}', '[source.types]\nprice = "text"\nx = 3')
        .replace("title", "titel")
    )
    path = tmp_path / "study.toml"
    path.write_text(text, encoding="utf-8")
    line = Document(path).find_line(key)
    wanted = [number for number, one in enumerate(text.splitlines(), 1) if one.startswith(part)]
    assert line in wanted
    assert Document(path).find_line((*key, "nothing")) is None


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ('{file = "items.csv"', '{fil = "items.csv"', "domain ="),
        ('title = "A shop"', "title = 3", "title"),
        ('title = "A shop"', 'title = "A shop"\ndocs = "javascript:1"', "docs"),
    ],
)
def test_it_is_also_that_of_what_stands_in_a_table_in_a_line(tmp_path, old, new, part):
    text = STUDY.replace(old, new, 1)
    assert refused(tmp_path, text).startswith(f"line {line_of(text, part)}: ")


@pytest.mark.parametrize(
    ("old", "new", "part", "says"),
    [
        (
            'column = "customer"',
            'column = "custmer"',
            'column = "custmer"',
            "Did you mean 'customer'",
        ),
        ('{price = "decimal(9,2)"}', '{prise = "decimal(9,2)"}', "[source]", "CsvFormat.types"),
    ],
)
def test_what_the_table_lacks_has_the_line_where_it_was_named(tmp_path, old, new, part, says):
    text = STUDY.replace(old, new, 1)
    study = sd.Study.load(put_shop(tmp_path, text))
    with pytest.raises(sd.InvalidParameter, match=re.escape(says)) as error:
        study.plan()
    assert f", line {line_of(text, part)}: " in str(error.value)


def test_a_study_that_spends_more_than_it_says_is_refused(tmp_path):
    said = refused(tmp_path, STUDY.replace("epsilon = 2", "epsilon = 1.5"))
    assert "together they spend epsilon 1.75, and it has 1.5" in said
    assert said.startswith(f"line {line_of(STUDY, '[budget]')}")


def test_so_is_one_that_spends_more_of_a_rho_or_a_delta(tmp_path):
    rho = refused(tmp_path, STUDY.replace("epsilon = 2", "rho = 0.6"))
    # Two shares of a quarter, and 1/2 for epsilon 1.
    assert "they spend rho 0.79" in rho
    (tmp_path / "budget.db").unlink()
    unlisted = STUDY.replace('{file = "items.csv", column = "name"}', "{unlisted = {delta = 1e-5}}")
    delta = refused(tmp_path, unlisted.replace("epsilon = 2", "epsilon = 2\ndelta = 1e-6"))
    assert "they spend delta 1e-05, and it has 1e-06" in delta


def test_shares_of_a_rho_add_up_to_it(tmp_path):
    release = '[[release]]\nkind = "count_distinct_units"\nname = "n{}"\nshare = 0.2\n'
    text = HEAD.replace("epsilon = 2", "rho = 0.3") + "".join(release.format(n) for n in range(5))
    study = sd.Study.load(put_shop(tmp_path, text))
    total = sum((one.epsilon**2 / 2 for one in study.releases), Fraction(0))
    assert Fraction(3, 10) * (1 - Fraction(1, 10**8)) < total <= Fraction(3, 10)


def test_a_study_that_spends_more_than_the_account_has_reads_nothing(tmp_path, monkeypatch):
    path = put_shop(tmp_path, epsilon=1.5)
    monkeypatch.setattr("sordino.questions.CountQuestion.run", None)
    study = sd.Study.load(path)
    with pytest.raises(
        sd.BudgetExceeded, match=r"100% of the budget of account shop is left; this needs 134%"
    ):
        study.run(output=tmp_path / "out")
    assert study.plan().refused is not None
    assert spent(tmp_path) == 0
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith("out")] == []


def test_secrets_come_from_the_environment_and_are_never_shown(tmp_path, monkeypatch):
    text = STUDY.replace(
        'path = "orders.csv"', 'path = "postgresql://me:${SHOP_SECRET}@nowhere.invalid/x#t"'
    )
    monkeypatch.delenv("SHOP_SECRET", raising=False)
    said = refused(tmp_path, text)
    assert said.startswith(
        f"line {line_of(text, 'path =')}: The environment must have a variable SHOP_SECRET"
    )
    monkeypatch.setenv("SHOP_SECRET", "geheim")
    digest = sd.Study.load(tmp_path / "study.toml").digest
    (tmp_path / "budget.db").unlink()
    said = refused(tmp_path, text, sd.DataSourceError)
    assert "geheim" not in said
    monkeypatch.setenv("SHOP_SECRET", "anders")
    assert sd.Study.load(tmp_path / "study.toml").digest == digest


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name = 3\n" + HEAD.replace('name = "shop"\ntitle', "title") + RELEASES, "study.name must be"),
        (STUDY.replace('name = "shop"\ntitle', "title"), "study.name must be given"),
        (STUDY.replace("[budget]\nepsilon = 2", ""), "A study must have a table [budget]; got none"),
        ("# " + "a" * (1 << 21), "characters"),
        (STUDY.replace("epsilon = 2", ""), "budget must have epsilon or rho"),
        (STUDY.replace('ledger = "budget.db"', ""), "account.ledger must be given"),
        (STUDY.replace('[account]\nledger = "budget.db"\nname = "shop"', ""), "must have a table [account]"),
        (HEAD, "at least one [[release]]"),
        (STUDY + "\n[owner.basic]\nnmae = 'x'", "The owner of the data fills in no field 'basic.nmae'"),
        ("name = \n", "must be written in TOML; FILE is not; line 1"),
    ],
)  # fmt: skip
def test_what_is_missing_is_said(tmp_path, text, says):
    assert says in refused(tmp_path, text)


def test_what_the_table_does_not_have_is_said_with_the_line_of_the_release(tmp_path):
    text = STUDY.replace('item = "product"', 'item = "produkt"')
    said = refused(tmp_path, text)
    assert said.startswith(f"line {line_of(text, 'top_k') - 1}: ")
    assert "Did you mean 'product'" in said
    assert said.endswith("?")


def test_a_source_or_an_account_that_is_not_there(tmp_path):
    assert "nothing was found" in refused(
        tmp_path, STUDY.replace("orders.csv", "orders.csw"), sd.DataSourceError
    )
    (tmp_path / "budget.db").unlink()
    text = STUDY.replace('name = "shop"\n\n[budget]', 'name = "shob"\n\n[budget]')
    assert "There is no account 'shob'" in refused(tmp_path, text, sd.LedgerError)


def test_the_digest_is_that_of_what_is_said_and_not_of_how(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(STUDY, encoding="utf-8")
    first = sd.Study.load(path).digest
    path.write_text(STUDY.replace("k = 2", "# a remark\nk   = 2"), encoding="utf-8")
    assert sd.Study.load(path).digest == first
    path.write_text(STUDY.replace("k = 2", "k = 3"), encoding="utf-8")
    assert sd.Study.load(path).digest != first


def test_files_are_named_from_the_folder_of_the_study(tmp_path, monkeypatch):
    path = put_shop(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    plan = sd.Study.load(path).plan(run_id="x")
    assert json.loads(json.dumps(plan.to_dict()))["releases"][0]["name"] == "customers"
    assert (plan.remaining, plan.epsilon, plan.refused) == (10, 2, None)


def test_none_is_written_as_a_word_where_a_parameter_may_be_none(tmp_path):
    study = sd.Study.load(put_shop(tmp_path, STUDY.replace("lower = 0", 'lower = "none"')))
    assert study.releases[2].request.lower is None
    assert "top_k.item" not in str(study.releases[1].said)


@pytest.mark.parametrize(
    "url", ["postgresql:me:geheim@db/shop", "host=db password=geheim", "me:geheim@db/shop"]
)
def test_an_address_that_is_written_wrongly_is_not_shown(tmp_path, url):
    said = refused(tmp_path, STUDY.replace('"budget.db"', f'"{url}"'), sd.LedgerError)
    assert "may hold a password" in said
    assert "geheim" not in said


def test_a_limit_of_memory_is_that_of_the_engine(tmp_path):
    path = put_shop(tmp_path, STUDY.replace("[source]\n", '[source]\nmemory_limit = "1 GB"\n'))
    assert sd.Study.load(path)._source.memory_limit == 10**9


def test_the_manual_lists_every_kind():
    manual = (Path(__file__).parents[2] / "docs/how-to/run-a-study.md").read_text(encoding="utf-8")
    [line] = [line for line in manual.splitlines() if line.startswith("- Kinds are ")]
    assert sorted(re.findall(r"`(\w+)`", line)) == sorted(list_kinds())
