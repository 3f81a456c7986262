"""One line for every way in which the command releases, without who pays for it."""

from __future__ import annotations

_UNIT = ("--user", "u")
_ROWS = (*_UNIT, "--max-rows", 1)
_ITEMS = ("--item", "item", "--domain", "items.csv")
_FIGURE = ("--column", "x", "--lower", 0, "--cap", 9, *_ROWS)
_REPORT = ("--column", "x", "--lower", 0, "--upper", 9)

RELEASE_LINES = {
    "top": ("top", "orders.csv", *_ITEMS, *_UNIT, "-k", 1),
    "above": ("above", "orders.csv", *_ITEMS, *_UNIT, "--threshold", -50, "-c", 1),
    "above on stdin": ("above", "-", "--threshold", 5, "-c", 1, "--sensitivity", 1),
    "histogram": ("histogram", "orders.csv", *_ITEMS, *_UNIT),
    "table": ("table", "orders.csv", *_ITEMS, *_UNIT),
    "count": ("count", "orders.csv", *_UNIT, "--units"),
    "quantile": ("quantile", "orders.csv", "--q", "0.5", *_FIGURE),
    "sum": ("sum", "orders.csv", *_FIGURE),
    "mean": ("mean", "orders.csv", *_FIGURE),
    "variance": ("variance", "orders.csv", *_FIGURE),
    "randomize": ("randomize", "orders.csv", *_REPORT, *_ROWS),
    "randomize on stdin": ("randomize", "-", *_REPORT),
    "select": ("select", "scores.csv", "--score", "x", "--sensitivity", 1),
    "select by a statistic": (
        "select",
        "snps.csv",
        "--statistic",
        "tdt",
        "--b",
        "b",
        "--c",
        "c",
        "--families",
        9,
    ),
}
"""They lack `--epsilon` too. Files are named from the folder of `write_files`."""

GIVEN = {"above on stdin": "tea,7\nrice,1\n", "randomize on stdin": "x\n1\n2\n"}
"""What comes on standard input."""


PAPERS = (
    "id",
    "time",
    "account",
    "epsilon",
    "delta",
    "adjacency",
    "unit",
    "max_rows",
    "version",
    "schema",
)
"""What every release says of itself, whatever it is about: `tests/cli/test_papers.py` looks at it."""


def without(facts, *names):
    """Return what a release says, without some of it."""
    return {name: value for name, value in facts.items() if name not in names}


def paid(*flags):
    """Return flags that say who pays: as they stand if they do, else with `--no-ledger`."""
    said = {"--ledger", "--account", "--no-ledger", "--seed"}.intersection(map(str, flags))
    return flags if said else (*flags, "--no-ledger")


def write_files(folder):
    """Make what the lines read."""
    for name, text in {
        "orders.csv": "u,item,x\na,tea,1\nb,rice,2\n",
        "items.csv": "item\ntea\nrice\n",
        "scores.csv": "x\n1\n2\n",
        "snps.csv": "snp,b,c\nrs1,4,1\nrs2,2,2\n",
    }.items():
        (folder / name).write_text(text, encoding="utf-8")


LISTS = {"--type", "--null", "--where"}


def latest(*words):
    """Return arguments of which the last value of each option stands alone: a test changes what is given."""
    parts = []
    for word in words:
        option = str(word).startswith("--") or str(word) in {"-k", "-c"}
        if option:
            parts = [part for part in parts if part[0] != word or len(part) == 1 or word in LISTS]
        if option or not parts:
            parts.append([word])
        else:
            parts[-1].append(word)
    return tuple(word for part in parts for word in part)
