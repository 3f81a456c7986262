"""Reports in a real browser: nothing leaves the page, everything fits and can be read, in the light, in the dark, on paper and by keys."""

from __future__ import annotations

import re

import polars as pl
import pytest

import sordino as sd
from report.pages import ASK, WILD, account, document, released
from sordino.report import make_report
from support.browser import opened_browser

pytestmark = pytest.mark.slow

# Of every text that is seen: how far its color is from what lies behind it, by the rule of WCAG 2.
CONTRAST = """
(() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const read = (text) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const color = read(getComputedStyle(one).backgroundColor);
      if (color[3] === 1) return color;
    }
    return [255, 255, 255, 1];
  };
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const color = read(element.closest("svg") ? style.fill : style.color);
    const [a, b] = [light(color), light(behind(element))].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), walk.currentNode.data.trim().slice(0, 30)]);
  }
  return found;
})()
"""
# Pictures count from 3 on: marks that mean something, on what lies behind them.
MARKS = """
[...document.querySelectorAll("figure svg path, figure svg line")].map((e) => getComputedStyle(e))
  .flatMap((s) => [s.fill, s.stroke]).filter((c) => c !== "none" && !c.startsWith("rgba(0, 0, 0, 0)"))
"""
WIDE = "[document.documentElement.scrollWidth, innerWidth]"
FOCUS = "[document.activeElement.tagName, getComputedStyle(document.activeElement).outlineStyle, document.activeElement.textContent.slice(0, 40)]"


@pytest.fixture(scope="module")
def browser():
    with opened_browser() as page:
        yield page


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A page with every kind of release, an account, and labels as long and strange as they come."""
    row = {"rank": 1, "item": WILD, "estimate": 1e14, "low": 1.0, "high": 1e15, "gap": None}
    wild = document(rows=[row], item=WILD, where=WILD, domain=WILD)
    rtl = document(
        rows=[{"item": "שלום עולם", "estimate": 3.0}, {"item": "東京都" * 20, "estimate": 2.0}],
        id="2" * 32,
    )
    many = document(
        "histogram",
        rows=[
            {"item": f"label {n}", "estimate": n, "low": n - 1, "high": n + 1} for n in range(60)
        ],
    )
    regions, ages = [f"region {n} {WILD}"[:60] for n in range(9)], [f"{n}0-{n}9" for n in range(9)]
    people = pl.DataFrame(
        {"region": regions * 900, "age": [one for one in ages for _ in range(900)]}
    )
    table = sd.Session(people, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(7)).table(
        ["region", "age"], epsilon=1, domain={"region": regions, "age": ages}, not_negative=True
    )
    page = make_report(
        [document(), wild, rtl, many, table, *map(released, ASK)],
        account=account(),
        about="Made-up orders.",
        docs="docs",
    )
    place = tmp_path_factory.mktemp("report") / "report.html"
    place.write_text(page, encoding="utf-8")
    return place


def show(browser, report, width=1280, *, media="screen", dark=False):
    browser.resize(width)
    browser.pretend(media=media, dark=dark)
    browser.open(report)


def test_nothing_is_asked_for_but_the_page(browser, report):
    show(browser, report)
    assert browser.requests == [report.as_uri()]
    assert browser.ask("document.scripts.length") == 0
    assert browser.ask("performance.getEntriesByType('resource').length") == 0


def test_the_browser_would_have_noticed(browser, report, tmp_path):
    # The policy is taken out, and a picture put in.
    page = (
        report.read_text(encoding="utf-8")
        .replace("default-src", "x-src")
        .replace("</main>", '<img src="http://x.test/a.png"></main>')
    )
    broken = tmp_path / "broken.html"
    broken.write_text(page, encoding="utf-8")
    show(browser, broken)
    assert "http://x.test/a.png" in browser.requests


@pytest.mark.parametrize("width", [320, 360, 768, 1280, 1920])
def test_nothing_is_wider_than_the_screen(browser, report, width):
    show(browser, report, width)
    seen, wide = browser.ask(WIDE)
    assert wide == width
    assert seen <= width
    # Each picture is as wide as there is room for, and not taller than a screen.
    for box in browser.ask(
        "[...document.querySelectorAll('figure:not(.heat) svg, figure.heat')].map((e) => e.getBoundingClientRect().toJSON())"
    ):
        assert 200 < box["width"] <= width
        assert box["left"] >= 0
        assert box["right"] <= width
    # A table keeps the size of its letters, and is moved within its frame.
    [heat] = browser.ask(
        "[...document.querySelectorAll('.heat svg')].map((e) => [e.getBoundingClientRect().width, e.viewBox.baseVal.width])"
    )
    assert heat[0] == heat[1] > 360


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("media", ["screen", "print"])
def test_every_text_can_be_read(browser, report, media, dark):
    show(browser, report, media=media, dark=dark)
    found = browser.ask(CONTRAST)
    assert len(found) > 300
    assert [one for one in found if one[0] < 4.5] == []


def test_a_text_that_cannot_be_read_is_noticed(browser, report, tmp_path):
    pale = tmp_path / "pale.html"
    pale.write_text(
        report.read_text(encoding="utf-8").replace("--quiet: #4a5868", "--quiet: #9aa8b8"),
        encoding="utf-8",
    )
    show(browser, pale)
    assert [one for one in browser.ask(CONTRAST) if one[0] < 4.5]


def contrast(one, other):
    """How far two colors are from each other, by the rule of WCAG 2."""

    def light(color):
        parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(p * weight for p, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    ("media", "dark"), [("screen", False), ("screen", True), ("print", False), ("print", True)]
)
def test_marks_have_colors_of_the_page(browser, report, media, dark):
    show(browser, report, media=media, dark=dark)
    colors = set(browser.ask(MARKS))
    card = browser.ask("getComputedStyle(document.querySelector('article')).backgroundColor")
    paper = browser.ask("getComputedStyle(document.body).backgroundColor")
    named = ("--mark", "--fill", "--grid", "--quiet", "--line")
    script = "(n) => { const e = document.createElement('i'); document.body.append(e); e.style.color = `var(${n})`; const c = getComputedStyle(e).color; e.remove(); return c; }"
    ours = {name: browser.ask(f"({script})('{name}')") for name in named}
    assert colors == set(ours.values())
    # The grid says nothing by itself. Whatever does is told from what lies behind it.
    for name in set(ours) - {"--grid"}:
        assert min(contrast(ours[name], card), contrast(ours[name], paper)) >= 3, name
    # A whisker begins within its bar.
    assert contrast(ours["--mark"], ours["--fill"]) >= 2.5


def test_labels_of_pictures_are_where_they_can_be_seen(browser, report):
    for width in (360, 1280):
        show(browser, report, width)
        script = """[...document.querySelectorAll("figure svg")].flatMap((svg) => {
          const box = svg.getBoundingClientRect();
          return [...svg.querySelectorAll("text")].map((t) => t.getBoundingClientRect())
            .filter((r) => r.left < box.left - 6 || r.right > box.right + 12 || r.width > 0 && r.height < 5).map((r) => [r.left - box.left, r.right - box.right]);
        })"""
        assert browser.ask(script) == []


def test_keys_lead_to_every_link_and_it_is_seen_where_one_is(browser, report):
    show(browser, report)
    wanted = browser.ask("document.querySelectorAll('a, summary, [tabindex]').length")
    reached = set()
    for _ in range(wanted + 2):
        browser.press("Tab")
        tag, outline, text = browser.ask(FOCUS)
        if tag == "BODY":
            break
        assert outline == "solid", (tag, text)
        reached.add(
            browser.ask(
                "[...document.querySelectorAll('a, summary, [tabindex]')].indexOf(document.activeElement)"
            )
        )
    # What is folded up is not on the way.
    hidden = browser.ask(
        "[...document.querySelectorAll('details:not([open]) [tabindex], details:not([open]) a')].length"
    )
    assert len(reached) >= wanted - hidden


def test_a_link_leads_to_its_result(browser, report):
    show(browser, report)
    browser.press("Tab")
    browser.press("Enter")
    assert browser.ask("location.hash") == "#result-1"
    assert abs(browser.ask("document.querySelector('#result-1').getBoundingClientRect().top")) < 800


def test_a_reader_that_speaks_meets_names_and_tables(browser, report):
    show(browser, report)
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    roles = {}
    for node in nodes:
        role = node.get("role", {}).get("value")
        roles.setdefault(role, []).append(node.get("name", {}).get("value", ""))
    pictures = browser.ask("document.querySelectorAll('figure svg').length")
    # Whatever is drawn is one picture with a name, and not a heap of letters.
    images = roles.get("image", []) + roles.get("img", [])
    assert len(images) == pictures
    assert all(name.startswith("Picture: ") for name in images)
    assert {"main", "heading", "table", "columnheader", "rowheader", "figure"} <= set(roles)
    assert browser.ask("document.documentElement.lang") == "en"


def test_paper_shows_what_is_folded_up(browser, report):
    show(browser, report, media="print")
    heights = browser.ask(
        "[...document.querySelectorAll('details table')].map((e) => e.getBoundingClientRect().height)"
    )
    assert heights
    assert min(heights) > 100
    assert browser.paper().startswith(b"%PDF")
