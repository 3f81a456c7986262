"""Two distributions, one version: the library works without its auditor, which is a package of its own."""

from __future__ import annotations

import pkgutil
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
