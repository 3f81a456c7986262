"""No form of a release says an epsilon of its guarantee that is smaller than what the release lost."""

from __future__ import annotations

import html
import math
import re
from fractions import Fraction

import polars as pl
import pytest

import sordino as sd
from sordino.report import make_report
from sordino.results import describe
from sordino.results.legend import Paid, say_short

DELTA = Fraction(1, 10**6)
ACCOUNTS = {
    "pure": {"epsilon": 50},
    "zcdp": {"epsilon": 50, "delta": 1e-6, "meter": "zcdp", "failures": 5e-7},
    "renyi": {"epsilon": 50, "delta": 1e-6, "failures": 5e-7},
}
LABELS = ["corn", "rice", "tea"]
ROWS = pl.DataFrame(
    {
        "who": [f"u{place}" for place in range(4000)],
        "what": LABELS * 1333 + ["tea"],
        "x": [float(place % 50) for place in range(4000)],
    }
)
TOP = {"k": 1, "domain": LABELS}
RELEASES = {
    "count": lambda s: s.count_distinct_units(epsilon=0.5),
    "gaussian count": lambda s: s.count_distinct_units(epsilon=0.5, noise="gaussian"),
    "top": lambda s: s.top_k("what", epsilon=0.2, **TOP),
    "gumbel top": lambda s: s.top_k(
        "what", epsilon=0.2, noise="gumbel", measure_noise="gaussian", **TOP
    ),
    "quantile": lambda s: s.quantile("x", q=0.5, epsilon=0.5),
    "sum": lambda s: s.sum("x", epsilon=0.5),
    "gaussian mean": lambda s: s.mean("x", epsilon=0.5, noise="gaussian"),
    "gaussian or not, of labels nobody listed": lambda s: s.histogram(
        "what", epsilon=0.5, domain=sd.Domain.unlisted(delta=5e-8)
    ),
    "gaussian, of labels nobody listed": lambda s: s.histogram(
        "what", epsilon=0.5, domain=sd.Domain.unlisted(delta=5e-8), noise="gaussian"
    ),
    "again": lambda s: s.remeasure(s.count_distinct_units(epsilon=1), epsilon=0.1),
    "gaussian again": lambda s: s.remeasure(
        s.count_distinct_units(epsilon=1, noise="gaussian"), epsilon=0.1, noise="gaussian"
    ),
}
# What a release costs on its account is a price, and what a part of it got is a share.
EPSILON = re.compile(r"(?<!what )\bepsilon (\d+(?:\.\d+)?(?:e-?\d+)?)(?!\.?\d| of it)")


def read_epsilons(text):
    return [float(one) for one in EPSILON.findall(text)]


def read_page(page):
    """Return what a page says, without the words that it explains, and what is to paste."""
    text = html.unescape(re.sub("<[^>]*>", "", page.partition("</head>")[2]))
    pasted = html.unescape(re.sub("<[^>]*>", "", re.findall(r'class="paste">(.*?)</dd>', page)[0]))
    return text.partition("Words")[0], pasted


def find_least(cost):
    """Return the epsilon that a cost truly has at the delta of its account; never less than it is."""
    pure = cost.pure()
    return pure if math.isfinite(pure) else float(cost.epsilon(DELTA))


CASES = [
    (kind, account)
    for kind in RELEASES
    for account in ACCOUNTS
    # An account of epsilons refuses other noise.
    if account != "pure" or not kind.startswith(("gaussian", "gumbel"))
]


@pytest.mark.parametrize(("kind", "account"), CASES)
@pytest.mark.sample(3)
def test_no_form_says_less_than_a_release_has_lost(kind, account, tmp_path):
    """Twin: what was asked for, a price, stood behind the words by differential privacy with."""
    unit = sd.PrivacyUnit("who", max_rows=1)
    ledger = sd.Ledger.create(
        tmp_path / "l.db",
        account="a",
        budget=sd.Budget(**ACCOUNTS[account]),
        adjacency="add-remove",
        unit=unit,
        source="name:t",
    )
    with sd.Session(ROWS, unit=unit, ledger=ledger, name="t") as session:
        release = RELEASES[kind](session)
    record, own = describe(release), find_least(release.cost)
    paid = Paid(50.0, "1%", "About 2 more like this one.")
    for said in (record.facts, release.to_dict()):
        whole, alone = said.get("total_epsilon"), said.get("epsilon")
        assert alone is None or alone >= release.cost.pure() * (1 - 1e-12)
        assert whole is None or whole >= release.total.pure() * (1 - 1e-12)
    lines = [say_short(record), say_short(record, paid), record.notes]
    for text in ("\n".join(told) for told in lines):
        assert "Spent: " in text
        assert all(one >= own * (1 - 1e-3) for one in read_epsilons(text)), text
    lost = find_least(getattr(release, "total", None) or release.cost)
    for given in (release, record.facts | {"rows": record.rows}):
        text, pasted = read_page(make_report([given]))
        assert read_epsilons(pasted), pasted
        # What is told on the page is the same everywhere, and rounded up.
        for told in (text, pasted):
            assert set(read_epsilons(told)) == set(read_epsilons(pasted))
            assert min(read_epsilons(told)) >= lost, told
        pure = (getattr(release, "total", None) or release.cost).pure()
        assert math.isfinite(pure) or re.search(r"epsilon [0-9.]+ and delta ", pasted), pasted
