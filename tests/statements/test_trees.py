"""A file of a stranger: what is no plain tree of values is refused in one sentence, quickly, and nothing is made of it."""

from __future__ import annotations

import json
import sys
import time

import pytest
from hypothesis import given, settings, strategies as st

from sordino.errors import InvalidParameter, UnsupportedBackend
from sordino.statements.trees import MOST_CHARACTERS, read_tree, write_yaml

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]" for n in range(12)
)
HOSTILE = {
    "aliases that multiply": LAUGHS,
    "an anchor alone": "a: &b 1",
    "an alias of nothing": "a: *b",
    "a merge": "a: {b: 1}\nc:\n  <<: *a",
    "a tag that runs something": "a: !!python/object/apply:os.system ['true']",
    "a tag of its own": "a: !secret 1",
    "a tag of the standard": "a: !!binary aGk=",
    "two documents": "a: 1\n---\nb: 2",
    "the same name twice": "a: 1\na: 2",
    "the same name twice below": "a:\n  b: 1\n  b: 2",
    "a name that is a list": "? [a, b]\n: 1",
    "a nest": "a: " + "[" * 5000 + "]" * 5000,
    "a nest of names": "{" * 3000,
    "a list": "- a\n- b",
    "a text": "hello",
    "nothing": "",
    "a tab": "a:\n\t- b",
    "a control character": "a: \x07",
    "half a file": 'a: "b',
    "too much": "a: " + "x" * MOST_CHARACTERS,
    "JSON: a nest": '{"a": ' + "[" * 100_000,
    "JSON: a nest that ends": '{"a": ' + "[" * 100 + "]" * 100 + "}",
    "JSON: the same name twice": '{"a": 1, "a": 2}',
    "JSON: a number of a million digits": '{"a": ' + "9" * 100_000 + "}",
    "JSON: no number": '{"a": NaN}',
    "JSON: an infinite one": '{"a": -Infinity}',
    "JSON: a large one": '{"a": 1e999}',
    "JSON: half of it": '{"a": ',
    "JSON: more behind it": '{"a": 1} {"b": 2}',
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.sample(3)
def test_a_hostile_file_is_refused_in_one_sentence(name):
    started = time.perf_counter()
    with pytest.raises(InvalidParameter) as caught:
        read_tree(HOSTILE[name], "The file")
    assert time.perf_counter() - started < 2
    assert str(caught.value).startswith("The file ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_what_is_no_json_number_is_a_text():
    words = [
        "no",
        "yes",
        "on",
        "1:30",
        "0x10",
        "0o7",
        "1_000",
        ".inf",
        ".nan",
        "2026-11-24",
        "1e5",
        "+1",
        "01",
    ]
    assert read_tree("a: [" + ", ".join(words) + "]", "x") == {"a": words}
    assert read_tree("a: [1, -2, 1.5, 1.0e-06, true, null, ~, '1', \"2\"]", "x") == {
        "a": [1, -2, 1.5, 1e-6, True, None, None, "1", "2"]
    }


def test_a_number_of_many_digits_is_a_text_and_costs_nothing():
    assert read_tree("a: " + "9" * 100_000, "x") == {"a": "9" * 100_000}
    assert read_tree("a: " + "9" * 50 + ".0", "x") == {"a": "9" * 50 + ".0"}


LEAVES = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.text(max_size=12)
LEAVES |= st.text(alphabet=" \n\tab:#'\"-,", max_size=200)
FLOATS = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15)
TREES = st.dictionaries(
    st.text(max_size=8),
    st.recursive(
        LEAVES | FLOATS,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        ),
        max_leaves=6,
    ),
    max_size=4,
)


@settings(max_examples=150, deadline=None)
@given(TREES)
def test_what_is_written_is_read_as_it_was(tree):
    assert read_tree(json.dumps(tree), "x") == tree
    # An empty mapping is written as JSON writes it.
    assert read_tree(write_yaml(tree, "x"), "x") == tree


def test_without_pyyaml_json_is_read_and_yaml_is_refused_in_words(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert read_tree('{"a": 1}', "x") == {"a": 1}
    with pytest.raises(UnsupportedBackend, match=r"sordino\[yaml\]"):
        read_tree("a: 1", "x")
