"""`sordino ledger publish` and `sordino verify`: a statement in a file, made and checked, and what is said when it does not hold."""

from __future__ import annotations

import os
import sys

import pytest

from sordino.cli.statement import NOT_WRITTEN
from sordino.ledger import Ledger
from sordino.statements import PublicStatement
from sordino.statements.owner import OWNER_MUST_ADD
from statements.registry import OWNER, RECORD
from support.json_schema import check

OWNER_FILE = """
url_slug = "orders"
[basic]
name = "Orders of a shop"
data_curators = ["The shop"]
publication_date = 2026-11-24
"""


@pytest.fixture
def url(sordino, top, orders, tmp_path):
    place = tmp_path / "b.db"
    about = ("--epsilon", 9, "--unit", "customer", "--source", orders)
    assert sordino("ledger", "create", "--ledger", place, "--account", "shop", *about).code == 0
    return place


@pytest.fixture
def key(top, url):
    return top("--keep", ledger=url, account="shop").json["id"]


@pytest.fixture
def publish(sordino, url):
    def call(*arguments, account="shop"):
        return sordino("ledger", "publish", *arguments, "--ledger", url, "--account", account)

    return call


@pytest.fixture
def verify(sordino, url):
    def call(file, account="shop", place=None):
        options = ("--ledger", place or url, "--account", account, "--format", "json")
        return sordino("verify", file, *options)

    return call


def test_a_statement_is_written_and_verified(publish, verify, key, tmp_path):
    file = tmp_path / "statement.yaml"
    made = publish(key, "--output", file)
    assert (made.code, made.out, made.err) == (0, "", "")
    found = verify(file)
    assert (found.code, found.json["sound"], found.json["rows"]) == (0, True, [])
    printed = publish(key)
    assert printed.out == file.read_text(encoding="utf-8")
    assert printed.out.startswith("# What is promised here")
    as_json = publish(key, "--as", "json")
    assert PublicStatement.from_text(as_json.out) == PublicStatement.from_text(printed.out)
    assert not list(tmp_path.glob("*.part"))


def test_the_account_is_stated_without_an_id(publish, verify, key, tmp_path):
    (tmp_path / "s.yaml").write_text(publish().out, encoding="utf-8")
    assert verify(tmp_path / "s.yaml").code == 0
    assert "about: account" in publish().out


def test_an_edit_is_named_in_one_sentence_and_nothing_is_charged(
    publish, verify, key, tmp_path, url
):
    text = publish(key).out
    before = Ledger.open(url, account="shop").statement(charges=False)
    (tmp_path / "s.yaml").write_text(text.replace("epsilon: 4.0", "epsilon: 0.4"), encoding="utf-8")
    found = verify(tmp_path / "s.yaml")
    assert found.code == 5
    assert found.err == (
        "Error: The statement does not hold: record.deployment.privacy_loss.privacy_parameters.epsilon was "
        "edited: the ledger has 4.0, and the statement says 0.4. Do not rely on it.\n"
    )
    assert [row["problem"] for row in found.json["rows"]] == [
        "record.deployment.privacy_loss.privacy_parameters.epsilon was edited: the ledger has 4.0, and the "
        "statement says 0.4."
    ]
    assert Ledger.open(url, account="shop").statement(charges=False) == before
    # Comments and layout are no part of what is said.
    (tmp_path / "t.yaml").write_text(f"# mine\n{text}\n", encoding="utf-8")
    assert verify(tmp_path / "t.yaml").code == 0


def test_what_the_owner_fills_in_by_hand_is_told_where_it_belongs(publish, verify, key, tmp_path):
    text = publish(key).out
    assert OWNER_MUST_ADD in text
    (tmp_path / "s.yaml").write_text(text.replace(OWNER_MUST_ADD, "A shop", 1), encoding="utf-8")
    found = verify(tmp_path / "s.yaml")
    assert found.code == 5
    [row] = found.json["rows"]
    assert "was edited: the ledger has " in row["problem"]
    assert row["problem"].endswith("sordino ledger publish --owner FILE.")


def test_what_cannot_be_checked_says_why(publish, verify, key, tmp_path, sordino, orders):
    file = tmp_path / "s.yaml"
    file.write_text(publish(key).out, encoding="utf-8")
    unknown = verify(file, account="nobody")
    assert unknown.code == 5
    assert "There is no account 'nobody'" in unknown.err
    other = tmp_path / "other.db"
    about = ("--epsilon", 9, "--unit", "customer", "--source", orders)
    assert sordino("ledger", "create", "--ledger", other, "--account", "shop", *about).code == 0
    elsewhere = verify(file, place=other)
    assert elsewhere.code == 5
    assert "has no statement with it" in elsewhere.err
    for name, content in {
        "hello": b"hello",
        "bytes": b"\xff\xfe",
        "large": b"a: " + b"x" * 2**19,
    }.items():
        (tmp_path / name).write_bytes(content)
        refused = verify(tmp_path / name)
        assert (refused.code, refused.out) == (2, "")
        assert refused.err.count("\n") == 1
        assert len(refused.err) < 300
    assert verify(tmp_path / "missing").code == 2


def test_the_owner_says_the_rest(publish, verify, key, tmp_path):
    (tmp_path / "owner.toml").write_text(OWNER_FILE, encoding="utf-8")
    made = publish(key, "--owner", tmp_path / "owner.toml")
    statement = PublicStatement.from_text(made.out)
    assert statement.record["url_slug"] == "orders"
    assert statement.record["deployment"]["basic"]["publication_date"] == "2026-11-24"
    assert "basic.description" in statement.missing
    # All of it, as the how-to page has it, and as another statement has it: blanks count as nothing.
    import yaml

    (tmp_path / "owner.yaml").write_text(
        yaml.safe_dump(OWNER, allow_unicode=True), encoding="utf-8"
    )
    whole = PublicStatement.from_text(publish(key, "--owner", tmp_path / "owner.yaml").out)
    assert whole.missing == []
    check(whole.record, RECORD)
    file = tmp_path / "s.yaml"
    file.write_text(made.out, encoding="utf-8")
    assert verify(file).json["newer"] is True


@pytest.mark.parametrize(
    ("said", "wrong"),
    {
        '[basic]\nnmae = "x"': "'basic.nmae'. Did you mean 'basic.name'?",
        '[privacy_loss]\nprivacy_unit = "x"': "'privacy_loss.privacy_unit'",
        '[basic]\ndata_curators = "x"': "basic.data_curators must be a list",
        '[basic]\ndata_product_type = "x"': "basic.data_product_type must be one of",
        '[basic]\npublication_date = "soon"': "basic.publication_date must be a day",
        "[basic]\npublication_date = 2026-11-24T10:00:00": "basic.publication_date must be a day",
        '[basic]\nname = ""': "basic.name must be a printable text",
        '[basic]\nname = "a\\u0007"': "basic.name must be a printable text",
        "[basic]\nname = 3": "basic.name must be a printable text",
        'url_slug = "A b"': "url_slug must be small letters",
        "basic = 3": "'basic'",
        "a = ": "must be TOML",
    }.items(),
)
def test_an_owner_who_says_what_is_none_of_theirs_is_told_the_field(
    publish, key, tmp_path, url, said, wrong
):
    (tmp_path / "owner.toml").write_text(said, encoding="utf-8")
    events = Ledger.open(url, account="shop").verify().events
    refused = publish(key, "--owner", tmp_path / "owner.toml")
    assert (refused.code, refused.out) == (2, "")
    assert wrong in refused.err
    assert refused.err.count("\n") == 1
    assert Ledger.open(url, account="shop").verify().events == events


def test_a_plain_installation_publishes_json_and_records_nothing_where_yaml_is_asked(
    publish, verify, key, tmp_path, url, monkeypatch
):
    monkeypatch.setitem(sys.modules, "yaml", None)
    events = Ledger.open(url, account="shop").verify().events
    refused = publish(key, "--as", "yaml")
    assert (refused.code, refused.out, refused.err.count("\n")) == (4, "", 1)
    assert "pip install 'sordino[yaml]'" in refused.err
    assert "--as json" in refused.err
    assert Ledger.open(url, account="shop").verify().events == events
    for about in ((key,), ()):
        file = tmp_path / f"{len(about)}.yaml"
        assert publish(*about, "--output", file).code == 0
        assert verify(file).code == 0
        assert file.read_text(encoding="utf-8") == publish(*about, "--as", "json").out


def test_a_file_that_is_there_is_not_written_over(publish, key, tmp_path, url):
    events = Ledger.open(url, account="shop").verify().events
    (tmp_path / "s.yaml").write_text("mine", encoding="utf-8")
    assert publish(key, "--output", tmp_path / "s.yaml").code == 2
    assert (tmp_path / "s.yaml").read_text(encoding="utf-8") == "mine"
    assert Ledger.open(url, account="shop").verify().events == events


def test_what_cannot_be_written_is_in_the_history_and_can_be_written_again(
    publish, key, url, monkeypatch
):
    class Full:
        def write(self, _):
            raise OSError(28, "full")

        def flush(self):
            pass

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Full())
        lost = publish(key)
    assert lost.code == 4
    assert NOT_WRITTEN in lost.err
    events = Ledger.open(url, account="shop").verify().events
    assert publish(key).code == 0
    assert Ledger.open(url, account="shop").verify().events == events


def test_no_path_and_no_address_stands_in_a_statement(publish, key, url, orders):
    text = publish(key).out + publish().out
    # What was asked is said in the words of whoever asked, and nothing else names a place.
    assert orders.name not in text
    assert os.fspath(url) not in text
    assert url.name not in text


def test_an_owner_with_a_number_of_very_many_digits_is_told_in_words(sordino, account, tmp_path):
    path = tmp_path / "owner.toml"
    path.write_text(f"[basic]\nname = {'9' * 5000}\n", encoding="utf-8")
    done = sordino("ledger", "publish", *account, "--owner", path)
    assert (done.code, done.out) == (2, "")
    assert "must be TOML" in done.err


def test_a_file_is_what_its_name_says(publish, key, tmp_path, sordino, account):
    for ending, form in ((".json", "json"), (".JSON", "json"), (".yml", "yaml")):
        file = tmp_path / f"statement{ending}"
        assert publish(key, "--output", file).code == 0
        assert file.read_text(encoding="utf-8") == publish(key, "--as", form).out
    # What is said counts more than a name.
    assert publish(key, "--output", tmp_path / "other.json", "--as", "yaml").code == 0
    said = (tmp_path / "other.json").read_text(encoding="utf-8")
    assert said == publish(key, "--as", "yaml").out


def test_a_release_is_no_statement_and_what_holds_has_no_header(
    sordino, publish, verify, key, url, tmp_path
):
    release = sordino("ledger", "release", key, "--ledger", url, "--account", "shop")
    (tmp_path / "release.json").write_text(release.out, encoding="utf-8")
    refused = verify(tmp_path / "release.json")
    assert (refused.code, refused.out) == (2, "")
    assert (
        f"This is a release, and no statement. Print it again and compare both: sordino ledger release '{key}'."
        in refused.err
    )
    assert publish(key, "--output", tmp_path / "s.yaml").code == 0
    table = sordino(
        "verify", tmp_path / "s.yaml", "--ledger", url, "--account", "shop", "--format", "table"
    )
    assert table.code == 0
    assert table.out.strip().startswith(
        "The statement, of account shop: all of it is what the ledger has."
    )
