"""Claims, proof pages, references and code hang together, and no proof outlives the code that it was written for."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
import pkgutil
import re
import sys
from functools import cache
from pathlib import Path

import pytest

import sordino
from architecture.source import library
from sordino.claims import Claim
from sordino.statements.proofs import read_digests

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PROOFS = DOCS / "proofs"
PAGES = sorted(path for path in PROOFS.glob("*.md") if path.name != "index.md")
SOURCES = {name: module.text for name, module in library().items()}
HOMES_OF_CLAIMS = ("sordino.noise", "sordino.mechanisms", "sordino.estimators", "sordino.cost")

sys.path.insert(0, str(DOCS))
import sign_proofs  # noqa: E402  (a script of docs/, not a package)


def collected():
    """Return the claims of all modules, with the module that makes them."""
    for home in HOMES_OF_CLAIMS:
        package = importlib.import_module(home)
        for module in pkgutil.walk_packages(package.__path__, f"{home}."):
            for claim in getattr(importlib.import_module(module.name), "CLAIMS", ()):
                yield module.name, claim


CLAIMS = list(collected())


@cache
def keys_of_references():
    return set(
        re.findall(
            r"^@\w+\{(\w+),", (DOCS / "references.bib").read_text(encoding="utf-8"), re.MULTILINE
        )
    )


def wrong_with(claim):
    """Yield what a claim names that is not there: a sentence, its proof, a public mechanism, its sources."""
    if not isinstance(claim, Claim) or not claim.statement.endswith("."):
        yield "no claim with a sentence"
    if not (PROOFS / claim.proof).is_file():
        yield f"docs/proofs/{claim.proof}"
    if claim.name not in sordino.__all__:
        yield claim.name
    yield from {
        reference.partition(",")[0] for reference in claim.references
    } - keys_of_references()


def test_a_claim_names_its_proof_its_sources_and_a_public_mechanism():
    found = {f"{module}:{claim.name}": list(wrong_with(claim)) for module, claim in CLAIMS}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_a_claim_that_names_what_is_not_there_is_found():
    _, claim = CLAIMS[0]
    for field, value in {
        "statement": "No sentence",
        "proof": "nosuch.md",
        "name": "NoSuch",
        "references": ("nosuch2020, section 1",),
    }.items():
        assert len(list(wrong_with(dataclasses.replace(claim, **{field: value})))) == 1, field


def test_there_are_claims():
    assert {"NoisyTopK", "LaplaceMechanism", "GaussianMechanism"} <= {
        claim.name for _, claim in CLAIMS
    }


def test_docstrings_name_pages_and_sources_that_exist():
    pages = {page for text in SOURCES.values() for page in re.findall(r"docs/[\w/-]+\.md", text)}
    assert {page for page in pages if not (ROOT / page).is_file()} == set()
    cited = {
        key
        for text in SOURCES.values()
        for key in re.findall(r"(?:\[|; )([a-z]+(?:19|20)\d\d)(?=[,;\]])", text)
    }
    assert cited
    assert cited <= keys_of_references()


def test_pages_cite_sources_that_exist():
    texts = {path: path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")}
    cited = {
        key
        for text in texts.values()
        for key in re.findall(r"\[([a-z]+(?:19|20)\d\d)(?=[,;\]])", text)
    }
    assert cited <= keys_of_references()


def is_used(page, texts):
    """Tell whether a proof page is named by the source, by another page, or by a claim."""
    in_text = any(
        page.name in text for path, text in texts.items() if path not in {page, PROOFS / "index.md"}
    )
    return in_text or page.name in {claim.proof for _, claim in CLAIMS}


def test_a_proof_page_is_used():
    texts = {**SOURCES, **{path: path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")}}
    assert [page.name for page in PAGES if not is_used(page, texts)] == []
    lonely = PROOFS / "nosuch.md"
    assert not is_used(lonely, {**texts, lonely: "This is nosuch.md."})


def test_a_proof_page_is_signed_for_the_code_as_it_is():
    texts = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
    unsigned = [page for page, text in texts.items() if not sign_proofs.signed(text)]
    assert unsigned == [], "a proof page ends with a fenced block that lists what it proves"
    stale = {
        page: wrong for page, text in texts.items() if (wrong := list(sign_proofs.stale(text)))
    }
    assert stale == {}, "read the page again, then run docs/sign_proofs.py --sign"
    # A block that cannot be read, as with a blank at the end of a line, signs nothing: that is told as well.
    broken = {page: text.removesuffix("```\n")[:-1] + " \n```\n" for page, text in texts.items()}
    assert [page for page, text in broken.items() if not list(sign_proofs.stale(text))] == []


NOT_PROVED = {
    "CLAIMS",
    "__all__",
    "_claim",
    "_SPARSE_REFERENCES",
    "_ADAPTIVE_REFERENCES",
    "_HYBRID_VECTOR_REFERENCES",
}
"""What modules say about themselves: claims, names and sources."""


def test_a_claim_is_proved_for_everything_in_its_own_module():
    for module, claim in CLAIMS:
        page = PROOFS / claim.proof
        listed = (
            {name for name, _ in sign_proofs.signed(page.read_text(encoding="utf-8"))}
            if page.is_file()
            else set()
        )
        source = ROOT / "src" / f"{module.replace('.', '/')}.py"
        defined = {name for name, _ in sign_proofs.digests(source.read_text(encoding="utf-8"))}
        assert defined - listed <= NOT_PROVED, claim.name


CODE = '"""Words."""\nSTEP = 2\n\n\ndef f(x):\n    """More words."""\n    return x + STEP  # a remark\n'


def digest_of(name, code):
    return dict(sign_proofs.digests(code))[name]


def test_the_digest_sees_formulas_and_no_words():
    reworded = (
        CODE.replace("words", "other words")
        .replace("a remark", "another")
        .replace("x + STEP", "(x\n        + STEP)")
    )
    assert digest_of("f", reworded) == digest_of("f", CODE)
    assert digest_of("f", CODE.replace("x + STEP", "x - STEP")) != digest_of("f", CODE)
    assert digest_of("STEP", CODE.replace("= 2", "= 3")) != digest_of("STEP", CODE)
    assert digest_of("f", CODE.replace("= 2", "= 3")) == digest_of("f", CODE), (
        "each definition has a digest of its own"
    )


def test_every_kind_of_definition_has_a_name():
    code = "import os\nA = B = 1\nC, (D, *E) = x\nF: int = 2\n@cache\ndef g(): pass\nclass H: pass\nI[0] = 3\nif A:\n    J = 4\n"
    assert [name for name, _ in sign_proofs.digests(code)] == [
        "A",
        "B",
        "C",
        "D",
        "E",
        "F",
        "g",
        "H",
        "I",
    ]
    decorated = dict(sign_proofs.digests(code))["g"]
    assert decorated != dict(sign_proofs.digests(code.replace("@cache\n", "")))["g"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a function that writes a file of a small project, whose definitions are then read again."""
    # With a memory of its own: to read this project again takes a second.
    monkeypatch.setattr(sign_proofs, "definitions", cache(sign_proofs.definitions.__wrapped__))

    def write(name, code):
        file = tmp_path / "src/sordino" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code, encoding="utf-8")
        sign_proofs.definitions.cache_clear()
        return tmp_path

    return write


PAGE = (
    "# A page\n\n```python\nx = 1\n```\n\nWhat follows is proved.\n\n```text\nf={} STEP={}\n```\n"
)


def test_signing_refreshes_only_the_last_block(project):
    root = project("f.py", CODE)
    page = PAGE.format("0" * sign_proofs.DIGITS, digest_of("STEP", CODE))
    assert list(sign_proofs.stale(page, root)) == ["f changed since the page was signed"]
    again = sign_proofs.sign(page, root)
    assert again == PAGE.format(digest_of("f", CODE), digest_of("STEP", CODE))
    assert list(sign_proofs.stale(again, root)) == []
    assert list(sign_proofs.stale(page.replace("f=" + "0" * sign_proofs.DIGITS, "f"), root)) == [
        "f was never signed"
    ]
    project("f.py", "")
    assert list(sign_proofs.stale(again, root)) == ["f does not exist", "STEP does not exist"]


def test_a_move_needs_no_signature_and_a_changed_formula_one(project):
    root = project("f.py", CODE)
    page = PAGE.format(digest_of("f", CODE), digest_of("STEP", CODE))
    project("f.py", '"""Nothing is left here."""\n')
    project("room/other.py", f"import os\n\n{CODE}\n\ndef more():\n    return os.name\n")
    assert list(sign_proofs.stale(page, root)) == []
    project("room/other.py", CODE.replace("x + STEP", "x - STEP"))
    assert list(sign_proofs.stale(page, root)) == ["f changed since the page was signed"]


def test_of_several_definitions_of_one_name_the_page_keeps_its_own(project):
    root = project("f.py", CODE)
    project("stranger.py", "def f(x):\n    return 0\n")
    page = PAGE.format(digest_of("f", CODE), digest_of("STEP", CODE))
    assert list(sign_proofs.stale(page, root)) == []
    assert sign_proofs.sign(page, root) == page
    changed = CODE.replace("x + STEP", "x - STEP")
    project("f.py", changed)
    assert list(sign_proofs.stale(page, root)) == ["f changed since the page was signed"]
    assert sign_proofs.sign(page, root) == PAGE.format(
        digest_of("f", changed), digest_of("STEP", CODE)
    ), "the file that has STEP"
    project("other.py", changed.replace("STEP = 2", "STEP = 3").replace("x - STEP", "x * STEP"))
    project("f.py", changed.replace("STEP = 2", "STEP = 4"))
    with pytest.raises(SystemExit, match="several files define f"):
        sign_proofs.sign(page, root)
    chosen = (root / "src/sordino/other.py").read_text(encoding="utf-8")
    named = PAGE.format("src/sordino/other.py", "src/sordino/other.py")
    assert sign_proofs.sign(named, root) == PAGE.format(
        digest_of("f", chosen), digest_of("STEP", chosen)
    )


def test_the_package_has_what_the_pages_are_signed_with():
    told = json.loads(sign_proofs.TABLE.read_text(encoding="utf-8"))
    assert sign_proofs.TABLE.read_text(encoding="utf-8") == sign_proofs.table(), (
        "python docs/sign_proofs.py --table"
    )
    assert read_digests() == told
    # Every page of a claim has one, so that no statement is without.
    assert {claim.proof for _, claim in CLAIMS} <= set(told)
    # Another digest of one definition makes another one of the page, and of no other page; wording does not.
    page = PROOFS / "noisy-top-k.md"
    text = page.read_text(encoding="utf-8")
    assert (
        told[page.name]
        == hashlib.sha256(
            " ".join(f"{one}={written}" for one, written in sign_proofs.signed(text)).encode()
        ).hexdigest()
    )


def test_a_page_that_is_signed_anew_has_another_digest(tmp_path):
    for path in PAGES[:3]:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    before = json.loads(sign_proofs.table(tmp_path))
    first = tmp_path / PAGES[0].name
    text = first.read_text(encoding="utf-8")
    first.write_text(f"More words.\n\n{text}", encoding="utf-8")
    assert json.loads(sign_proofs.table(tmp_path)) == before
    _, digest = sign_proofs.signed(text)[0]
    first.write_text(text.replace(digest, "0" * len(digest)), encoding="utf-8")
    after = json.loads(sign_proofs.table(tmp_path))
    assert {name for name in before if before[name] != after[name]} == {first.name}
