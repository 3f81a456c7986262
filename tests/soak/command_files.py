"""The files and streams that command lines are pointed at: good, odd, cut and broken, with marks in every private field.

Whatever is private holds `TEXT` or `NUMBER`: neither may ever be seen outside of the files that were planted. What is public (header lines,
labels of domains, labels of candidates and of answers) holds neither.
"""

from __future__ import annotations

import gzip
import random
import shutil
from collections.abc import Callable
from pathlib import Path

TEXT = "zqjx"
"""Stands in every private text."""

NUMBER = "8675309917"
"""Stands in every private number, behind the point: what is released is too noisy to meet it."""

LABELS = ("tea", "rice", "salt", "saffron")
ACCOUNTS = ("shop", "rows", "poor", "families")
VARIANTS = ("plain", "added", "replaced")
"""A file, one with a row of one more unit, and one where a row is replaced."""

ODD_ROWS = (
    f"{TEXT}9,{TEXT}label,1",
    f"{TEXT}9",
    f"{TEXT}9,tea,1.{NUMBER},{TEXT},{TEXT},{TEXT}",
    f'{TEXT}9,"tea,{TEXT}',
    f'"{TEXT}9,tea,1.{NUMBER}',
    f'{TEXT}9,te"a{TEXT},1',
    f"{TEXT}9,{TEXT}label,{'9' * 40}.{NUMBER}",
    f"{TEXT}9,{TEXT}label,{TEXT}",
    f"{TEXT}9,tea,inf,{TEXT}",
    f"{TEXT}9,tea,nan,{TEXT}",
    f"{TEXT}9,tea,-1e308,{TEXT}",
    f",tea,1.{NUMBER},{TEXT}",
    f"{TEXT}9,,1.{NUMBER},{TEXT}",
    f"{TEXT}9,{TEXT}\0,1",
    f"{TEXT}9,te\ra,1,{TEXT}",
    f"{TEXT}9,{TEXT}\x1b[31m,1",
    "\r",
    "",
    f"\ufeff{TEXT}9,tea,1",
    f"{TEXT}9,{TEXT}\u202e\u0661,\u0661",
    f"{TEXT}9,tea,=1+{NUMBER}",
)
ODD_BYTES = (
    f"{TEXT}9,t".encode() + b"\xff\xfea,1",
    f"{TEXT}9,t".encode() + b"\xe2\x82,1",
    TEXT.encode() + b"\xf0\x28\x8c\x28",
)

Maker = Callable[[random.Random, str], bytes]


def odd_row(rng: random.Random) -> bytes:
    """Return a row of one unit as nobody wants to see it."""
    return rng.choice(ODD_BYTES) if rng.random() < 0.15 else rng.choice(ODD_ROWS).encode()


def plain_row(rng: random.Random) -> bytes:
    """Return an ordinary row; not all labels are in the domain."""
    label = rng.choice(LABELS[:3]) if rng.random() < 0.8 else f"{TEXT}label{rng.randrange(3)}"
    return f"{TEXT}u{rng.randrange(12)},{label},{rng.randrange(100)}.{NUMBER},{TEXT}note".encode()


def rows_of(rng: random.Random, variant: str, *, odd: float = 0.0) -> list[bytes]:
    """Return the rows of a table: the variants of one seed differ in one row."""
    rows = [
        odd_row(rng) if rng.random() < odd else plain_row(rng) for _ in range(rng.randrange(1, 60))
    ]
    place, other = rng.randrange(len(rows)), odd_row(rng) if rng.random() < 0.7 else plain_row(rng)
    if variant == "added":
        rows.insert(place, other)
    elif variant == "replaced":
        rows[place] = other
    return rows


HEADER = b"user,item,price,note"


def _table(odd: float = 0.0, end: bytes = b"\n", mark: bytes = b"") -> Maker:
    def make(rng: random.Random, variant: str) -> bytes:
        return mark + b"".join(line + end for line in (HEADER, *rows_of(rng, variant, odd=odd)))

    return make


def _long(rng: random.Random, variant: str) -> bytes:
    rows = rows_of(rng, variant)
    size = rng.choice((70_000, 1_048_570, 1_048_577, 2_200_000))
    rows.insert(
        rng.randrange(len(rows)), f"{TEXT}9,".encode() + TEXT.encode() * (size // 4) + b",1"
    )
    return b"".join(line + b"\n" for line in (HEADER, *rows))


def _with_delimiter(rng: random.Random, variant: str) -> bytes:
    return _table()(rng, variant).replace(b",", b";")


def _latin(rng: random.Random, variant: str) -> bytes:
    return _table()(rng, variant).replace(b"note\n", b"n\xf6te\n").replace(b"rice", b"r\xefce")


def _cut(rng: random.Random, variant: str) -> bytes:
    whole = _table(0.3)(rng, variant)
    return whole[: rng.randrange(len(HEADER) + 1, len(whole))]


def _noise(rng: random.Random, variant: str) -> bytes:
    return HEADER + b"\n" + rng.randbytes(rng.randrange(2000)) + TEXT.encode() + rng.randbytes(50)


def _gzip(rng: random.Random, variant: str) -> bytes:
    return gzip.compress(_table()(rng, variant), mtime=0)


def _scores(kind: str) -> Maker:
    def make(rng: random.Random, variant: str) -> bytes:
        lines = ["label,score,note" if kind != "two" else "label,score"]
        behind = "" if kind == "two" else ",n"
        scores = [_answer(rng) for _ in range(rng.randrange(1, 12))]
        other, place = _answer(rng), rng.randrange(len(scores))
        if variant != "plain":
            scores[place] = other
        lines += [
            f"c{i}{rng.choice(('', ' x', 'é', '漢'))},{score}{behind}"
            for i, score in enumerate(scores)
        ]
        if (
            kind == "refused"
        ):  # what is refused is public: the place of the line and its public fields
            lines.insert(
                rng.randrange(1, len(lines) + 1),
                rng.choice((f"{TEXT}", f'c"x,{_answer(rng)},n', f"a,{_answer(rng)}")),
            )
        return "\n".join(lines).encode() + rng.choice((b"", b"\n"))

    return make


def _answer(rng: random.Random) -> str:
    return rng.choice(
        (
            f"{rng.randrange(20)}.{NUMBER}",
            f"-{rng.randrange(9)}.{NUMBER}",
            f" 3.{NUMBER} ",
            f'"4.{NUMBER}"',
            f"{TEXT}",
            f"1,{TEXT}",
            f'"{TEXT}',
            f'{TEXT}",""{TEXT}',
            f"inf{TEXT}",
            f"nan {TEXT}",
            f"1e999{TEXT}",
            f"{'9' * 400}",
            "",
            f"1\r{TEXT}",
        )
    )


def _markers(rng: random.Random, variant: str) -> bytes:
    rows = _marker_counts(rng, variant)
    return ("snp,b,c,note\n" + "".join(f"rs{i},{row},n\n" for i, row in enumerate(rows))).encode()


def _plink(rng: random.Random, variant: str) -> bytes:
    rows = [row.replace(",", "  ") for row in _marker_counts(rng, variant)]
    lines = [
        f"   1   rs{i}  {1000 + i}   A   G  {row}  1.{NUMBER}  {TEXT} \n"
        for i, row in enumerate(rows)
    ]
    return (" CHR  SNP   BP  A1  A2   T   U   OR   P \n" + "".join(lines)).encode()


def _marker_counts(rng: random.Random, variant: str) -> list[str]:
    def counts() -> str:
        kind = rng.random()
        if kind < 0.7:
            return f"{rng.randrange(160)}.{NUMBER},{rng.randrange(160)}.{NUMBER}"
        return rng.choice(
            (
                f"{TEXT},1",
                f"1,{TEXT},2",
                f"-1.{NUMBER},1e308",
                f"nan,inf{TEXT}",
                f'"3{TEXT}',
                ",",
                f"1{TEXT}",
            )
        )

    rows = [counts() for _ in range(rng.randrange(1, 8))]
    other, place = counts(), rng.randrange(len(rows))
    if variant != "plain":
        rows[place] = other
    return rows


def _answers(kind: str) -> Maker:
    def make(rng: random.Random, variant: str) -> bytes:
        answers = [_answer(rng) for _ in range(rng.randrange(0, 30))]
        other = _answer(rng)
        if variant != "plain" and answers:
            answers[rng.randrange(len(answers))] = other
        lines = [
            b"first,0",
            *(f"{rng.choice(LABELS)}{i},{answer}".encode() for i, answer in enumerate(answers)),
        ]
        if kind == "refused":
            wrong = rng.choice(
                (f'"a,{TEXT}', f'a"b,5.{NUMBER}', f'"a"b,{TEXT}', f'"" ,{TEXT}')
            ).encode()
            lines.insert(rng.randrange(1, len(lines) + 1), wrong)
        if kind == "long":
            lines.insert(
                rng.randrange(1, len(lines) + 1),
                b"long," + TEXT.encode() * rng.choice((300, 262_144, 500_000)),
            )
        return b"\n".join(lines) + (b"" if rng.random() < 0.3 else b"\n")

    return make


def _domain(labels: tuple[str, ...], end: str = "\n") -> Maker:
    def make(rng: random.Random, variant: str) -> bytes:
        return (
            "name,code" + end + "".join(f"{label},{i}{end}" for i, label in enumerate(labels))
        ).encode()

    return make


def _fixed(data: bytes) -> Maker:
    return lambda rng, variant: data


PRIVATE: dict[str, Maker] = {
    "t.csv": _table(),
    "messy.csv": _table(0.4),
    "crlf.csv": _table(0.1, b"\r\n"),
    "mark.csv": _table(0.1, mark=b"\xef\xbb\xbf"),
    "part1.csv": _table(0.1),
    "part2.csv": _table(),
    "semi.csv": _with_delimiter,
    "latin.csv": _latin,
    "long.csv": _long,
    "cut.csv": _cut,
    "noise.csv": _noise,
    "t.csv.gz": _gzip,
    "s.csv": _scores("three"),
    "s2.csv": _scores("two"),
    "refused.csv": _scores("refused"),
    "m.csv": _markers,
    "m.tdt": _plink,
    "a.txt": _answers("good"),
    "arefused.txt": _answers("refused"),
    "along.txt": _answers("long"),
}
PUBLIC: dict[str, Maker] = {
    "d.csv": _domain(LABELS),
    "dodd.csv": _domain(("tea", "é", "漢字", "\x1b[31mred", "a b", "'", "\u202e")),
    "dtwice.csv": _domain(("tea", "tea", "rice")),
    "dcrlf.csv": _domain(LABELS, "\r\n"),
    "dempty.csv": _fixed(b""),
    "dhead.csv": _fixed(b"name\n"),
    "dbytes.csv": _fixed(b"name\n\xff\xfe\0\n"),
    "empty.csv": _fixed(b""),
    "header.csv": _fixed(HEADER + b"\n"),
    "twice.csv": _fixed(b"user,user,item\n"),
    "text.db": _fixed(b"not a database"),
    "zero.db": _fixed(b""),
}
BINARY = ("t.parquet", "odd.parquet", "d.parquet", "t.duckdb")
"""Made by an engine, once for all cases: `command_library`."""

LEDGERS = ("l.db",)


def write(name: str, folder: Path, library: Path, seed: int, variant: str) -> bool:
    """Write the file of that name; False if there is none."""
    rng = random.Random(f"{seed} {name}")
    path = folder / name
    if name in PRIVATE or name in PUBLIC:
        path.write_bytes((PRIVATE.get(name) or PUBLIC[name])(rng, variant))
    elif name in BINARY:
        shutil.copyfile(library / variant / name, path)
    elif name in LEDGERS:
        shutil.copyfile(library / name, path)
    elif name.startswith(("cut-", "rotten-")):
        original = name.split("-", 1)[1]
        source = library / original if original in LEDGERS else library / variant / original
        data = bytearray(source.read_bytes())
        if name.startswith("cut-"):
            del data[rng.randrange(len(data)) :]
        else:
            for _ in range(rng.randrange(1, 40)):
                data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(bytes(data))
    elif name == "closed.csv":
        path.write_bytes(PRIVATE["t.csv"](rng, variant))
        path.chmod(0)
    elif name == "readonly.db":
        shutil.copyfile(library / "l.db", path)
        path.chmod(0o444)
    elif name == "folder":
        path.mkdir()
    else:
        return False
    return True


OTHERS = (
    "cut-t.parquet",
    "rotten-t.parquet",
    "cut-t.duckdb",
    "rotten-t.duckdb",
    "cut-l.db",
    "rotten-l.db",
    "closed.csv",
    "readonly.db",
    "folder",
)
NAMES = (*PRIVATE, *PUBLIC, *BINARY, *LEDGERS, *OTHERS)


def named(arguments: list[str]) -> list[str]:
    """Return which of the files these arguments may mean."""
    text = "\0".join(arguments)
    found = [name for name in NAMES if name in text]
    return [*found, *(("part1.csv", "part2.csv") if "part*" in text or "*" in text else ())]
