"""Claims, proof pages, references and code hang together, and no proof outlives the code that it was written for."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from pathlib import Path

import pytest

import sordino
from sordino.claims import Claim

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PROOFS = DOCS / "proofs"
PAGES = sorted(path for path in PROOFS.glob("*.md") if path.name != "index.md")
SOURCES = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py"))}
HOMES_OF_CLAIMS = ("sordino.noise", "sordino.mechanisms", "sordino.estimators", "sordino.cost")

sys.path.insert(0, str(DOCS))
import sign_proofs  # noqa: E402  (a script of docs/, not a package)


def collected():
    """Return the claims of all modules, with the module that makes them."""
    for home in HOMES_OF_CLAIMS:
        package = importlib.import_module(home)
        for module in pkgutil.iter_modules(package.__path__, f"{home}."):
            for claim in getattr(importlib.import_module(module.name), "CLAIMS", ()):
                yield module.name, claim


CLAIMS = list(collected())


def keys_of_references():
    return set(re.findall(r"^@\w+\{(\w+),", (DOCS / "references.bib").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize(("module", "claim"), CLAIMS, ids=[f"{module}:{claim.name}" for module, claim in CLAIMS])
def test_a_claim_names_its_proof_its_sources_and_a_public_mechanism(module, claim):
    assert isinstance(claim, Claim)
    assert claim.statement.endswith(".")
    assert (PROOFS / claim.proof).is_file(), f"{claim.name} of {module}: docs/proofs/{claim.proof} does not exist"
    assert claim.name in sordino.__all__
    assert {reference.partition(",")[0] for reference in claim.references} <= keys_of_references()


def test_there_are_claims():
    assert {"NoisyTopK", "LaplaceMechanism", "GaussianMechanism"} <= {claim.name for _, claim in CLAIMS}


def test_docstrings_name_pages_and_sources_that_exist():
    pages = {page for text in SOURCES.values() for page in re.findall(r"docs/[\w/-]+\.md", text)}
    assert {page for page in pages if not (ROOT / page).is_file()} == set()
    cited = {key for text in SOURCES.values() for key in re.findall(r"(?:\[|; )([a-z]+(?:19|20)\d\d)(?=[,;\]])", text)}
    assert cited
    assert cited <= keys_of_references()


def test_pages_cite_sources_that_exist():
    texts = {path: path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")}
    cited = {key for text in texts.values() for key in re.findall(r"\[([a-z]+(?:19|20)\d\d)(?=[,;\]])", text)}
    assert cited <= keys_of_references()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_proof_page_is_used(page):
    elsewhere = [path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md") if path not in {page, PROOFS / "index.md"}]
    in_text = any(page.name in text for text in [*SOURCES.values(), *elsewhere])
    assert in_text or page.name in {claim.proof for _, claim in CLAIMS}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_proof_page_is_signed_for_the_code_as_it_is(page):
    text = page.read_text(encoding="utf-8")
    assert sign_proofs.signed(text), "a proof page ends with a fenced block that lists the modules it proves"
    assert list(sign_proofs.stale(text)) == [], "read the page again, then run docs/sign_proofs.py --sign"


def test_a_claim_is_proved_for_its_own_module():
    for module, claim in CLAIMS:
        page = PROOFS / claim.proof
        listed = sign_proofs.signed(page.read_text(encoding="utf-8")) if page.is_file() else {}
        assert f"src/{module.replace('.', '/')}.py" in listed, claim.name


CODE = '"""Words."""\nSTEP = 2\n\n\ndef f(x):\n    """More words."""\n    return x + STEP  # a remark\n'


def test_the_digest_sees_formulas_and_no_words():
    reworded = CODE.replace("words", "other words").replace("a remark", "another").replace("x + STEP", "(x\n        + STEP)")
    assert sign_proofs.digest(reworded) == sign_proofs.digest(CODE)
    assert sign_proofs.digest(CODE.replace("x + STEP", "x - STEP")) != sign_proofs.digest(CODE)
    assert sign_proofs.digest(CODE.replace("= 2", "= 3")) != sign_proofs.digest(CODE)


def test_signing_refreshes_only_the_last_block(tmp_path):
    (tmp_path / "src/sordino").mkdir(parents=True)
    (tmp_path / "src/sordino/f.py").write_text(CODE, encoding="utf-8")
    page = "# A page\n\n```python\nx = 1\n```\n\nWhat follows is proved.\n\n```text\nsrc/sordino/f.py 0000\n```\n"
    assert list(sign_proofs.stale(page, tmp_path)) == ["src/sordino/f.py changed since the page was signed"]
    again = sign_proofs.sign(page, tmp_path)
    assert again == page.replace("0000", sign_proofs.digest(CODE))
    assert list(sign_proofs.stale(again, tmp_path)) == []
    (tmp_path / "src/sordino/f.py").unlink()
    assert list(sign_proofs.stale(again, tmp_path)) == ["src/sordino/f.py does not exist"]
