"""Two distributions, one version: the library works without its auditor, which is a package of its own."""

from __future__ import annotations

import ast
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import sordino

ROOT = Path(__file__).resolve().parents[2]


def described(path):
    return tomllib.loads((ROOT / path).read_text(encoding="utf-8"))["project"]


CORE, AUDITOR = described("pyproject.toml"), described("packages/sordino-audit/pyproject.toml")


def test_both_have_the_same_version_and_ask_for_each_other_in_that_version():
    """The auditor plays decisions of mechanisms, which are no public names."""
    version = sordino.__version__
    assert CORE["version"] == AUDITOR["version"] == version
    assert f"sordino=={version}" in AUDITOR["dependencies"]
    assert CORE["optional-dependencies"]["audit"] == [f"sordino-audit=={version}"]
    # Whoever cites, reports or upgrades reads these.
    texts = {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in ("CITATION.cff", "CHANGELOG.md", "SECURITY.md", "docs/reference/api.md")
    }
    assert f"\nversion: {version}\n" in texts["CITATION.cff"]
    assert re.search(r"^## (.*)$", texts["CHANGELOG.md"], re.MULTILINE)[1].startswith(version)
    minor = ".".join(version.split(".")[:2])
    assert f"{minor}.x" in texts["SECURITY.md"]
    assert f"{minor}.x" in texts["docs/reference/api.md"]
    for described in (CORE, AUDITOR):
        [status] = [one for one in described["classifiers"] if one.startswith("Development Status")]
        # Names may still change, and the reference says so.
        assert (status.endswith("Alpha")) == ("alpha" in texts["docs/reference/api.md"])
        assert described["requires-python"] == ">=3.11"


def test_an_older_python_is_told_first_what_is_needed():
    # Of a package that has no version for it an older pip would speak first.
    [engine] = [one for one in CORE["dependencies"] if one.startswith("duckdb")]
    assert engine.endswith("python_version >= '3.11'")
    start = [ROOT / "src/sordino" / name for name in ("__init__.py", "_lazy.py", "_version.py")]
    for path in start:
        ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 7))
    code = (
        "import sys; sys.version_info = (3, 10, 13, 'final', 0); sys.version = '3.10.13 (main)'\n"
        "import sordino"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "ImportError: sordino needs Python 3.11 or newer; this is Python 3.10.13."
    )


def test_the_documentation_is_built_with_what_it_asks_for():
    """A page is a notebook that runs with each build, on a clean clone as anywhere."""
    cells = re.findall(
        r"^```\{code-cell\} \w+\n(.*?)^```",
        (ROOT / "docs/tutorials/a-page-of-figures.md").read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    names = {
        *re.findall(r"^import (\w+)", "".join(cells), re.MULTILINE),
        *re.findall(r"\.to_(pandas|polars)\(", "".join(cells)),
    }
    asked = {re.match(r"[\w-]+", one)[0] for one in CORE["optional-dependencies"]["docs"]}
    assert {"pandas", "polars"} <= names
    assert names - asked == {"sordino"}


def test_both_have_the_license():
    assert (ROOT / "packages/sordino-audit/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_no_module_of_the_library_needs_the_auditor():
    modules = [one.name for one in pkgutil.walk_packages(sordino.__path__, "sordino.")]
    code = (
        "import sys; sys.modules['sordino_audit'] = None\n"
        "from importlib import import_module\n"
        "for name in sys.argv[1:]: import_module(name)\n"
        "from sordino.claims import claims\n"
        "print(len(claims()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *modules], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 40


def test_the_old_name_says_what_to_install():
    with pytest.raises(
        AttributeError, match=r"pip install 'sordino\[audit\]' and import sordino_audit\.$"
    ):
        _ = sordino.audit
    assert not hasattr(sordino, "audit")
    assert "audit" not in dir(sordino)
