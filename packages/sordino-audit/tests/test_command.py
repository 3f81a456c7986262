"""`sordino audit`: claims of the library, programs of anybody, verdicts as exit codes, reports as text, JSON and a page."""

from __future__ import annotations

import dataclasses
import html.parser
import json
import re
import sys

import pytest

import sordino_audit as audit
from sordino.claims import Claim
from sordino.cost import Pure
from sordino_audit import Finite, Subject
from sordino_audit.controls.continuous import CONTINUOUS
from sordino_audit.controls.enumerated import CONTROLS

ECHO = "echo {}"
LIAR = f"{sys.executable} -I -S -c 'import os, sys; print(sys.argv[1] if os.urandom(1)[0] < 192 else 1 - int(sys.argv[1]))' {{}}"


def program(sordino, command, *more, a="1", b="2", samples=60):
    return sordino("audit", "--command", command, "--a", a, "--b", b, "--samples", samples, *more)


def test_a_claim_of_the_library_is_acquitted(sordino, few):
    few(LAPLACE)
    result = sordino("audit", "LaplaceMechanism", "--format", "table")
    assert result.code == 0
    assert "claim Pure(epsilon=1) not broken" in result.out
    assert result.err == ""


@pytest.mark.slow
def test_all_claims_and_all_controls(sordino):
    facts = sordino("audit", "--all").json
    assert {report["name"] for report in facts["reports"]} == {
        claim.name for claim in audit.claims()
    }
    assert [control["broken"] for control in facts["controls"]] == [
        control.broken for control in (*CONTROLS, *CONTINUOUS)
    ]


@pytest.fixture
def few(monkeypatch):
    """Return a function that leaves only some claims to the library, and one control."""

    def leave(*claims):
        for place in ("sordino_audit.claims", "sordino_audit.registry.claims"):
            monkeypatch.setattr(place, lambda: claims)
        monkeypatch.setattr("sordino_audit.command.CONTROLS", CONTROLS[-1:])
        monkeypatch.setattr("sordino_audit.command.CONTINUOUS", ())

    return leave


SILENT = Claim(name="NoisyTopK", statement="It is loved.", references=(), proof="noisy-top-k.md")
[LAPLACE] = [
    dataclasses.replace(claim, neighbours=claim.neighbours[:1])
    for claim in audit.claims()
    if claim.name == "LaplaceMechanism"
]


def test_all_also_lists_what_no_audit_looked_at_and_why(sordino, few):
    few(LAPLACE, SILENT)
    result = sordino("audit", "--all")
    assert result.code == 0
    assert result.json["unaudited"] == [dataclasses.asdict(each) for each in audit.unaudited()]
    assert [each["name"] for each in result.json["unaudited"]][:2] == ["NoisyTopK", "samplers"]
    assert [report["audited"] for report in result.json["reports"]] == [True, False]
    lines = sordino("audit", "--all", "--format", "table").out.splitlines()
    assert "1 of 1 controls judged as known, 0 of them convicted." in lines
    assert lines[-len(audit.unaudited()) :] == [str(each) for each in audit.unaudited()]


def test_a_name_without_an_audit_says_so(sordino, few):
    few(LAPLACE, SILENT)
    result = sordino("audit", "NoisyTopK", "--format", "table")
    assert result.code == 0
    assert (
        result.out
        == "NoisyTopK: It is loved. Not audited: the claim names no neighbours; it is proved. (noisy-top-k.md)\n"
    )
    assert "unaudited" not in sordino("audit", "LaplaceMechanism").json


@pytest.mark.parametrize("wrong", ["too much is lost", "what is said to be attained is not"])
def test_a_broken_claim_ends_with_its_exit_code_after_everything_was_written(sordino, few, wrong):
    liar = Subject(
        laws=[Finite([3, 1])],
        play=lambda bit, lie: bit ^ lie[:, 0],
        cost=Pure(epsilon=1 if wrong.startswith("too") else 2),
    )
    few(dataclasses.replace(LAPLACE, neighbours=((liar, 0, 1),), tight=not wrong.startswith("too")))
    result = sordino("audit", "--all")
    assert result.code == 6
    assert result.err.startswith("Error: ")
    assert [report["broken"] for report in result.json["reports"]] == [wrong.startswith("too")]
    assert result.json["unaudited"]


def test_a_control_that_is_misjudged_is_a_broken_claim(sordino, monkeypatch):
    wrong = dataclasses.replace(CONTROLS[0], broken=not CONTROLS[0].broken)
    monkeypatch.setattr("sordino_audit.command.CONTROLS", (wrong,))
    monkeypatch.setattr("sordino_audit.command.CONTINUOUS", ())
    monkeypatch.setattr("sordino_audit.claims", lambda: audit.registry.claims()[:1])
    result = sordino("audit", "--all")
    assert result.code == 6
    assert wrong.name in result.err


def test_a_program_that_shows_its_input_is_convicted(sordino):
    result = program(sordino, ECHO, "--epsilon", 1, "--format", "table")
    assert result.code == 6
    assert "BROKEN" in result.out
    assert result.err.startswith(f"Error: {ECHO} claims Pure(epsilon=1), but loses at least 1.2")
    assert result.err.count("\n") == 1


def test_without_a_claim_there_is_a_bound_and_no_verdict(sordino):
    result = program(sordino, ECHO)
    assert result.code == 0
    [report] = result.json["reports"]
    assert report["claimed"] is None
    assert report["epsilon_at_least"] > 1


def test_randomized_response_as_a_program(sordino):
    result = program(sordino, LIAR, "--epsilon", "1.1", a="0", b="1", samples=40)
    assert result.code == 0, result.err
    assert 0 <= result.json["reports"][0]["epsilon_at_least"] < 1.0986


def test_exit_codes_and_if_asked_stderr_are_what_is_released(sordino):
    assert program(sordino, "sh -c 'exit {}'", "--epsilon", 1).code == 6
    assert program(sordino, "sh -c 'echo {} >&2'", "--epsilon", 1).code == 0
    assert program(sordino, "sh -c 'echo {} >&2'", "--epsilon", 1, "--stderr").code == 6


def test_a_delta_is_part_of_the_claim(sordino):
    assert program(sordino, ECHO, "--epsilon", 1, "--delta", "0.99").code == 0
    assert program(sordino, ECHO, "--epsilon", 1, "--delta", "0.1").code == 6


def test_no_shell_looks_at_the_input(sordino, tmp_path):
    target = tmp_path / "made"
    result = program(sordino, ECHO, a=f"$(touch {target}); `touch {target}`", b="x y")
    assert result.code == 0
    assert not target.exists()


class Page(html.parser.HTMLParser):
    """Collects the names of elements and what they load."""

    def __init__(self):
        super().__init__()
        self.tags, self.loads = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loads += [
            value for name, value in attrs if name in {"src", "href", "xlink:href", "data"}
        ]


def test_a_page_needs_nothing_else_and_escapes_what_programs_say(sordino, tmp_path):
    path = tmp_path / "report.html"
    result = program(
        sordino, ECHO, "--epsilon", 1, "--html", path, a="<script>alert(1)</script>", b="ok"
    )
    assert result.code == 6
    text = path.read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    assert "script" not in page.tags
    assert page.loads == []
    assert {"svg", "rect", "line"} <= set(page.tags)
    assert not re.search(r"https?://|url\(|@import", text)
    assert "BROKEN" in text
    exact = audit.page(audit.exact(CONTROLS[-1].subject, answers_a=0, answers_b=1), title="<b>")
    assert '&lt;b&gt;: <span class="ok">none of 1 broken' in exact


REFUSED = {
    "nothing": ((), "Give exactly one of NAME"),
    "two things": (("LaplaceMechanism", "--all"), "Give exactly one of NAME"),
    "no such claim": (("Nobody",), "must be one of"),
    "options of programs": (("LaplaceMechanism", "--samples", 10), "--samples needs --command"),
    "stderr of a claim": (("--all", "--stderr"), "--stderr needs --command"),
    "no inputs": (("--command", ECHO, "--a", 1), "--command needs --a and --b"),
    "no place": (("--command", "echo", "--a", 1, "--b", 2), "must have {} where the input goes"),
    "half a quote": (("--command", "echo '{}", "--a", 1, "--b", 2), "can be split into words"),
    "no program": (("--command", "", "--a", 1, "--b", 2), "--command must name a program"),
    "a missing program": (
        ("--command", "./no-such-program {}", "--a", 1, "--b", 2),
        "a program that can be started",
    ),
    "delta alone": (
        ("--command", ECHO, "--a", 1, "--b", 2, "--delta", "0.1"),
        "--delta needs --epsilon",
    ),
    "few samples": (
        ("--command", ECHO, "--a", 1, "--b", 2, "--samples", 3),
        "samples must be a whole number from 40",
    ),
    "confidence one": (
        ("--command", ECHO, "--a", 1, "--b", 2, "--confidence", 1),
        "a number in (0, 1)",
    ),
    "no patience": (
        ("--command", "sleep 9{}", "--a", 1, "--b", 2, "--timeout", "0.05"),
        "took more than 0.05 s",
    ),
}


@pytest.mark.parametrize(("arguments", "words"), REFUSED.values(), ids=REFUSED)
def test_mistakes_are_one_sentence_and_exit_code_two(sordino, arguments, words):
    result = sordino("audit", *arguments)
    assert result.code == 2
    assert result.out == ""
    assert words in result.err
    assert "Traceback" not in result.err


def test_json_is_json_whatever_the_outcomes_are(sordino):
    facts = json.loads(program(sordino, "printf '\\377\\000%s' {}").out)
    assert facts["reports"][0]["samples"] == 60
