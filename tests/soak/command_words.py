"""What may stand behind an option: values that are right for it, and values from the edges and beyond.

What an option takes is read off the command itself, so that a new option is tried without a word here; `RIGHT` says more about those whose
type alone says too little.
"""

from __future__ import annotations

import random

import click

TABLES = (
    "t.csv",
    "t.csv",
    "t.csv",
    "messy.csv",
    "crlf.csv",
    "mark.csv",
    "cut.csv",
    "part*.csv",
    "t.parquet",
    "odd.parquet",
    "duckdb:t.duckdb#t",
)
ODD_TABLES = (
    "missing.csv",
    "empty.csv",
    "header.csv",
    "twice.csv",
    "noise.csv",
    "long.csv",
    "semi.csv",
    "latin.csv",
    "t.csv.gz",
    "closed.csv",
    "folder",
    "cut-t.parquet",
    "rotten-t.parquet",
    "cut-t.duckdb",
    "duckdb:cut-t.duckdb#t",
    "duckdb:rotten-t.duckdb#t",
    "duckdb:t.duckdb#none",
    "duckdb:t.duckdb",
    "duckdb:t.duckdb#",
    "duckdb:none.duckdb#t",
    "none*.csv",
    "*.parquet",
    "s.csv",
    "m.csv",
    "m.tdt",
    "-",
    "",
    "postgresql://nobody@127.0.0.1:9/none#t",
    "gopher://x",
    "text.db",
)
DOMAINS = ("d.csv", "d.csv", "dodd.csv", "dcrlf.csv", "d.parquet")
ODD_DOMAINS = (
    "dtwice.csv",
    "dempty.csv",
    "dhead.csv",
    "dbytes.csv",
    "missing.csv",
    "folder",
    "text.db",
    "",
)
LEDGERS = (
    "l.db",
    "l.db",
    "l.db",
    "cut-l.db",
    "rotten-l.db",
    "readonly.db",
    "text.db",
    "zero.db",
    "new.db",
    "folder",
    "no/new.db",
    "",
    "t.csv",
)
LEDGERS = (*LEDGERS, "postgresql://nobody@127.0.0.1:9/none")
COLUMNS = ("user", "item", "price", "note")
WHERES = (
    "item = 'tea'",
    "price > 2",
    "TRY_CAST(price AS DOUBLE) > 2",
    "item IN ('tea', 'rice') AND note IS NOT NULL",
    "item LIKE 't%'",
    "TRY_CAST(price AS INTEGER) * 2147483647 + 2147483647 > 0",
)
ODD_WHERES = (
    "",
    "1",
    "error('x')",
    "(SELECT 1) > 0",
    "price > 1; DROP TABLE x",
    "nothing = 1",
    "item = 'tea",
    "CAST(price AS INTEGER) > 3",
    "random() < 0.5",
    "count(*) > 1",
    "(" * 300 + "1" + ")" * 300,
    "é = 'é'",
    "item SIMILAR TO '('",
    "regexp_matches(item, '(')",
    "NOT " * 200 + "item = 'tea'",
)
NUMBERS = ("0.1", "0.5", "1", "2", "3", "10", "100", "1e3", "0.25")
ODD_NUMBERS = (
    *(
        "0",
        "-0",
        "-1",
        "-0.5",
        "nan",
        "NaN",
        "inf",
        "-inf",
        "1e99",
        "1e-99",
        "1e400",
        "1e-400",
        "9" * 40,
        "9" * 41,
        "1/3",
        "0x10",
        "1_0",
    ),
    *(
        "",
        " ",
        " 1",
        "\u0661",
        ".5",
        "5.",
        "+2",
        ".",
        "1e",
        "e5",
        "1e5",
        "1000000000",
        "1e-9",
        "1e30",
        "1,5",
        "1e90",
        "0.999999999999",
        "-",
    ),
)
WHOLES = ("1", "1", "2", "3", "5", "10")
ODD_WHOLES = (
    *(
        "0",
        "-1",
        "4",
        "1000",
        "1048576",
        "1048577",
        "2147483648",
        "9223372036854775807",
        "9223372036854775808",
        "9" * 30,
        "1.5",
        "1e3",
    ),
    *("", " ", " 2 ", "nan", "0x2", "1_0", "\u0662", "+1", "-0", "True", "-9223372036854775809"),
)
TEXTS = ("user", "item", "label", "x", "shop", "note", "tea")
ODD_TEXTS = (
    *(
        "",
        " ",
        "é",
        "漢字",
        "a,b",
        '"',
        "'",
        "\n",
        "\r\n",
        "\t",
        "\x1b[31m",
        "\x07",
        "-",
        "--",
        "--help",
        "-h",
        "-k",
        "{}",
        "%s",
        "%n",
        "\u202e",
    ),
    *(
        "x" * 5000,
        "\udcff",
        "\ufeff",
        "$HOME",
        "~",
        "*",
        "a\x1fb",
        "ITEM",
        "User",
        "item ",
        "NULL",
        "None",
        "0",
        "\\",
        "a;b",
        "=",
        "\U0001f600",
    ),
)
RIGHT: dict[str, tuple[str, ...]] = {
    "source": TABLES,
    "scores": ("s.csv", "s.csv", "s2.csv", "refused.csv", "m.csv"),
    "user": ("user",),
    "unit": ("user",),
    "item": ("item",),
    "by": ("item",),
    "column": ("price",),
    "score": ("score",),
    "label": ("label",),
    "domain": DOMAINS,
    "domain_column": ("name", "name", "code"),
    "domain_range": ("0:5", "-3:3", "1:2", "0:1000"),
    "domain_sql": ("SELECT 'tea'", "SELECT x FROM (VALUES ('tea'), ('rice'), ('salt')) t(x)"),
    "where": WHERES,
    "q": ("0.5", "0.25,0.5", "0.5,0.99", "0.1,0.2,0.3"),
    "lower": ("0", "-10", "none"),
    "upper": ("100",),
    "cap": ("100", "1000", "1e6"),
    "growth": ("1.05", "1.1", "2"),
    "epsilon": ("0.1", "0.5", "1", "2", "3"),
    "positives": ("1", "2"),
    "step": ("1", "0.5"),
    "families": ("150", "80"),
    "delimiter": (",",),
    "quote": ('"', '"', "none"),
    "columns": ("user,item,price",),
    "skip_lines": ("0", "0", "1"),
    "encoding": ("utf-8",),
    "null": ("NA",),
    "types": ("price=double", "price=decimal(12,2)", "price=integer", "item=text", "user=text"),
    "decimal": (".", "."),
    "thousands": ("", "'", " "),
    "date_format": ("%Y-%m-%d",),
    "seed": ("1", "7"),
    "url": ("l.db",),
    "ledger_url": ("l.db",),
    "account": ("shop", "rows", "each", "families"),
    "child": ("team", "rows"),
    "charge": ("0123abcd",),
    "reason": ("lost",),
    "head": ("0" * 64,),
    "role": ("clerk",),
    "file": ("copy.db",),
    "html": ("page.html",),
    "output": ("new.json",),
    "samples": ("2", "10"),
    "timeout": ("2",),
    "command": ("true {}", "echo {}", "printf {}"),
    "input_a": ("1", "a"),
    "input_b": ("2", "b"),
    "confidence": ("0.9", "0.99"),
    "name": (
        "NoisyTopK",
        "PermuteAndFlip",
        "RandomizedResponse",
        "LaplaceMechanism",
        "StepSelection",
    ),
    "answers": ("10", "100"),
    "candidates": ("2", "20", "100"),
    "split": ("variance", "success", "0.5"),
    "correction": ("optimal", "2"),
    "selection_share": ("0.5", "0.1", "1"),
    "measure_share": ("0.5",),
    "tuned_for": ("center", "worst", "0.3"),
    "c": ("c",),
    "b": ("b",),
}
ODD: dict[str, tuple[str, ...]] = {
    "source": ODD_TABLES,
    "scores": (
        "missing.csv",
        "empty.csv",
        "folder",
        "t.csv",
        "t.parquet",
        "noise.csv",
        "header.csv",
        "-",
        "",
        "closed.csv",
        "long.csv",
    ),
    "domain": ODD_DOMAINS,
    "domain_sql_file": ("missing.csv", "folder", "t.csv", "part1.csv", "t.duckdb", "d.csv", ""),
    "domain_range": (
        "5:0",
        "0:0",
        "0:99999999999",
        ":",
        "a:b",
        "1:",
        "-9223372036854775808:9223372036854775807",
        "0:1048577",
        "1:2:3",
        "",
    ),
    "domain_sql": (
        "",
        "SELECT",
        "SELECT 1, 2",
        "SELECT * FROM t",
        "SELECT getenv('HOME')",
        "DROP TABLE x",
        "SELECT error('x')",
        "SELECT 'x' LIMIT 0",
    ),
    "where": ODD_WHERES,
    "url": LEDGERS,
    "ledger_url": LEDGERS,
    "account": ("poor", "rho", "pipe", "nobody", "", "é", "a\nb", "x" * 300),
    "delimiter": (
        ";",
        "\\t",
        "\t",
        "",
        "ab",
        "1",
        ".",
        "-",
        "e",
        "é",
        "\n",
        '"',
        " ",
        "|",
        "\0"[:0],
    ),
    "encoding": ("latin-1", "UTF8", "klingon", "", "utf-16", "ascii", "cp1252", "utf-16-le"),
    "types": (
        "item=integer",
        "user=date",
        "note=boolean",
        "nobody=double",
        "price=money",
        "price",
        "=",
        "",
        "item=timestamp",
        "price=decimal(99,1)",
    ),
    "decimal": (",", "", "x", ".,"),
    "thousands": (",", ".", "\u202f", "xx", "é"),
    "quote": ("", ",", "'", "xx", "\x1b"),
    "columns": ("", ",", "a,a", '"', '"a,b",c', "user"),
    "skip_lines": ("-1", "9", "1.5", "99999999999999999999", ""),
    "date_format": ("%d.%m.%Y", "", "%", "%Y", "%Y-%m-%d\n"),
    # Programs that are run: nothing else may ever stand here.
    "command": (
        "false {}",
        "true",
        "{",
        "'{}",
        "nothing-like-this {}",
        "cat {}",
        "echo '{}' \"{}\"",
        "sleep 9 {}",
    ),
    "samples": ("0", "-1", "1", "x", "30"),
    "timeout": ("0", "-1", "0.01", "nan", "x"),
    "html": ("folder", "no/page.html", "", "page.html"),
    "output": ("folder", "no/new.json", "", "t.csv"),
    "file": ("l.db", "folder", "no/copy.db", "", "t.csv"),
    "name": ("Nothing", "", "noisytopk", "\x1b[31m"),
    "q": ("0", "1", "0.5,0.5", "0.9,0.1", "", ",", "0.5,", "nan", "2", ",".join(["0.5"] * 3), "-1"),
    "charge": ("", "x", "'; DROP TABLE x"),
    "head": ("", "x", "0" * 63, "é"),
    "growth": ("1", "0.5", "0", "1.0000001", "1e30", "nan"),
    "answers": ("0", "-1", "1", "1000000", "9223372036854775808", "x"),
    "candidates": ("0", "-1", "1", "100000", "x", "9223372036854775808"),
    "families": ("0", "-1", "1", "268435456", "268435457", "x"),
}


def value_for(rng: random.Random, param: click.Parameter, *, right: bool) -> str:
    """Return a value for an option or argument."""
    name = param.name or ""
    if right and name in RIGHT:
        return rng.choice(RIGHT[name])
    if isinstance(param.type, click.Choice):
        words = [str(word) for word in param.type.choices]
        return rng.choice(
            words if right else [*(word.upper() for word in words), "", "x", words[0][:-1], "-1"]
        )
    if (
        not right
        and name in ODD
        and (name in {"command", "samples", "html", "file", "output"} or rng.random() < 0.7)
    ):
        return rng.choice(ODD[name])
    kind = param.type.name
    if kind in {"integer", "integer range"}:
        return rng.choice(WHOLES if right else ODD_WHOLES)
    if "number" in kind:
        return rng.choice(NUMBERS if right else ODD_NUMBERS)
    return rng.choice(TEXTS if right else (*ODD_TEXTS, *ODD_NUMBERS[:6]))


def flag_of(rng: random.Random, option: click.Option) -> str:
    """Return one of the names of an option."""
    return rng.choice([*option.opts, *option.secondary_opts])


def words_of(rng: random.Random, option: click.Option, *, right: bool) -> list[str]:
    """Return an option with its values as it stands in a command line."""
    name = flag_of(rng, option)
    if option.is_flag or option.count:
        return [name]
    values = [value_for(rng, option, right=right) for _ in range(max(1, option.nargs))]
    if len(values) == 1 and name.startswith("--") and rng.random() < 0.2:
        return [f"{name}={values[0]}"]
    return [name, *values]
