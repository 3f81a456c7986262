"""Pages for tests: releases of every kind on made-up orders, and a strict look at HTML."""

from __future__ import annotations

import json
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import polars as pl

import sordino as sd

LABELS = ["corn", "rice", "tea"]
WILD = "<script>alert(1)</script>\"'&\u202egnp\u2066\n\x1b[31m</svg></style>" + "x" * 10_000
EMPTY = {"meta", "br", "hr", "link", "img", "input", "base"}
ROWS = pl.DataFrame(
    {
        "who": [f"u{i}" for i in range(400)],
        "what": ["tea", "rice", "corn", "tea"] * 100,
        "x": [float(i % 50) for i in range(400)],
    }
)
COLUMN = {"epsilon": 8, "lower": 0, "cap": 1000}
GROUPS = {"by": "what", "domain": LABELS, "groups_per_unit": 1}
ASK = {
    "top": lambda s: s.top_k("what", k=2, epsilon=2, domain=LABELS),
    "gaps": lambda s: s.top_k("what", k=2, epsilon=2, domain=LABELS, method="gaps"),
    "set": lambda s: s.top_set("what", k=2, epsilon=2, domain=LABELS),
    "names": lambda s: s.top_set("what", k=2, epsilon=2, domain=LABELS, selection_share=1),
    "above": lambda s: s.above("what", threshold=50, positives=2, epsilon=2, domain=LABELS),
    "nothing above": lambda s: s.above(
        "what", threshold=390, positives=1, epsilon=8, domain=LABELS
    ),
    "histogram": lambda s: s.histogram("what", epsilon=2, domain=LABELS),
    "count": lambda s: s.count(epsilon=1),
    "bounded count": lambda s: s.count(epsilon=1, bounds=(0, 1000)),
    "quantile": lambda s: s.quantile("x", q=0.5, **COLUMN),
    "quantiles": lambda s: s.quantile("x", q=(0.25, 0.5), **COLUMN),
    "sum": lambda s: s.sum("x", **COLUMN),
    "mean": lambda s: s.mean("x", **COLUMN),
    "variance": lambda s: s.variance("x", **COLUMN),
    "grouped mean": lambda s: s.mean("x", **COLUMN, **GROUPS),
    "grouped quantile": lambda s: s.quantile("x", q=0.5, **COLUMN, **GROUPS),
    "grouped quantiles": lambda s: s.quantile("x", q=(0.25, 0.5), **COLUMN, **GROUPS),
    "looked again": lambda s: s.remeasure(s.sum("x", **COLUMN), epsilon=2),
    "groups again": lambda s: s.remeasure(s.mean("x", **COLUMN, **GROUPS), epsilon=2),
    "gaussian count": lambda s: s.count(epsilon=1, noise="gaussian"),
}


@cache
def released(kind):
    """A release of a session, with predictable noise."""
    unit = sd.PrivacyUnit("who", max_rows=1)
    return ASK[kind](sd.Session(ROWS, unit=unit, entropy=sd.Seeded(7)))


def document(kind="top", **changes):
    """What `--format json` writes of a top k, with changes: real noise, paid by an account."""
    rows = [
        {
            "rank": 1,
            "item": "tea",
            "estimate": 200.0,
            "low": 190.0,
            "high": 210.0,
            "gap": 99.0,
            "tie": False,
        },
        {
            "rank": 2,
            "item": "rice",
            "estimate": 101.0,
            "low": 91.0,
            "high": 111.0,
            "gap": None,
            "tie": True,
        },
    ]
    facts = {
        "release": kind,
        "id": "0" * 32,
        "account": "shop",
        "time": "2026-11-24",
        "epsilon": 0.5,
        "delta": 0,
        "mechanisms": ["NoisyTopK", "LaplaceMechanism"],
        "adjacency": "add-remove",
        "unit": "column customer",
        "max_rows": None,
        "item": "product",
        "domain": "file products.csv",
        "confidence": 0.95,
        "confidence_together": 0.9,
        "left_out": ["rows without a value in customer"],
        "method": "gaps",
        "simulated": False,
        "exact": True,
        "cost": {"notion": "pure", "epsilon": 0.5, "exact": "1/2"},
        "version": "0.1",
        "schema": 1,
        "rows": rows,
    }
    return facts | changes


def account(**changes):
    """What `ledger.statement().to_dict()` returns of an account with three charges on three days."""
    days = ("2026-11-01", "2026-11-10", "2026-11-20")
    charges = [
        {
            "id": f"{place:032x}",
            "label": f"charge {place}",
            "state": "settled",
            "reserved": 0.5,
            "drawn": 0.5,
            "settled": 0.25,
            "time": f"{day}T11:22:33+00:00",
            "detail": {"source": "a secret place"},
            "kept": 0,
        }
        for place, day in enumerate(days)
    ]
    made = {
        "account": "shop",
        "parent": None,
        "adjacency": "add-remove",
        "unit": 'column "customer"',
        "source": "a secret place",
        "meter": "pure",
        "measure": "epsilon",
        "epsilon": 2.0,
        "delta": 0.0,
        "limit": 2.0,
        "spent": 0.75,
        "remaining": 1.25,
        "head": "ab" * 32,
        "shares": {},
        "more_like_the_last": 5,
        "charges": charges,
    }
    return made | changes


class Seen(HTMLParser):
    """Reads a page strictly: every element is closed where it has to be, and every id is there once."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.links, self.headings = [], [], [], []
        self.elements, self.attributes, self.texts = [], [], []
        assert page.startswith('<!DOCTYPE html>\n<html lang="en">')
        self.feed(page)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, names)
        named = dict(attrs)
        if "id" in named:
            self.ids.append(named["id"])
        if tag == "a":
            self.links.append(named["href"])
        if tag in {"h1", "h2", "h3", "h4", "h5", "h6"}:
            self.headings.append(int(tag[1]))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in EMPTY:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self):
        return " ".join("".join(self.texts).split())


def assert_whole(page):
    """A page is well formed, runs nothing and loads nothing, and a reader of any kind finds through it; returns what is seen."""
    seen = Seen(page)
    assert len(seen.ids) == len(set(seen.ids)), "an id is there twice"
    assert seen.headings[0] == 1
    assert seen.headings.count(1) == 1
    steps = zip(seen.headings, seen.headings[1:], strict=False)
    assert all(after <= before + 1 for before, after in steps), "a heading is left out"
    assert not {
        "script",
        "iframe",
        "object",
        "embed",
        "link",
        "img",
        "image",
        "base",
        "form",
        "use",
    } & set(seen.elements)
    for tag, name, value in seen.attributes:
        assert not name.startswith("on"), (tag, name)
        assert name not in {
            "src",
            "srcset",
            "xlink:href",
            "background",
            "formaction",
            "ping",
            "srcdoc",
        }, (
            tag,
            name,
        )
        assert "url(" not in (value or ""), (tag, name)
        if name in {"aria-labelledby", "aria-describedby"}:
            assert value in seen.ids, value
        if name == "href":
            assert tag == "a"
    for place in seen.links:
        assert (
            place.removeprefix("#") in seen.ids
            if place.startswith("#")
            else place.endswith(".html")
        ), place
    style = page[page.index("<style>") : page.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    # Every picture is named, and has a table or a sentence beside it.
    assert page.count("<svg ") == page.count('<svg role="img" aria-labelledby="')
    assert page.count("<svg ") == page.count("<figcaption")
    return seen


def write_documents(folder: Path, *documents):
    """Write documents as files; returns their paths."""
    paths = []
    for place, one in enumerate(documents):
        path = folder / f"r{place}.json"
        path.write_text(json.dumps(one), encoding="utf-8")
        paths.append(path)
    return paths
