"""Text files in every way in which they may be handed over, and the multiset of the rows that are read of them."""

from __future__ import annotations

import gzip
import sys
from collections import Counter

from sordino.sources.engine import after_charge

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

HOSTILE = [
    *(
        b"a",
        b"b",
        b"1",
        b",",
        b",",
        b";",
        b'"',
        b'""',
        b'"x,y"',
        b'"q""q"',
        b" ",
        b"\r",
        b"\x1f",
        b"\0",
        b"\xff",
    ),
    *(
        "é".encode(),
        "€".encode(),
        "😀".encode(),
        b"\xe2\x82",
        b"\xed\xa0\x80",
        b"\xc0\x80",
        b"NA",
        b"\\",
        b"'",
    ),
    *(
        b"\xef\xbb\xbf",
        b"\xc2\x85",
        "\u2028".encode(),
        b"\x0b",
        b"\x1a",
        b"\t",
        b"{",
        b"}",
        b"[",
        b":",
        b"null",
    ),
]
"""Pieces of lines that something or other stumbles over."""


def hostile_lines(rng, count):
    """Return lines, with their ends, of which most are none."""
    return [
        (b"u%d,i%d,n" % (rng.randrange(9), rng.randrange(9)) if rng.random() < 0.4 else b"".join(rng.choices(HOSTILE, k=rng.randrange(8))))
        + rng.choice([b"\n", b"\n", b"\r\n"])
        for _ in range(count)
    ]  # fmt: skip


def cut(content, pieces):
    """Return a content in so many pieces, of which some may be empty."""
    size = -(-len(content) // pieces)
    return [content[i * size : (i + 1) * size] for i in range(pieces)]


PACKERS = {".gz": gzip.compress, ".zst": zstd.compress}


def packed(suffix, content, pieces=1):
    """Return a compressed file of so many pieces, one behind the other."""
    return b"".join(PACKERS[suffix](piece) for piece in cut(content, pieces))


def rows_of(source, columns=None):
    """Return the multiset of the rows of a source, each value as a text."""
    places = range(len(source.columns)) if columns is None else columns

    def work(announce):
        with source.backend.scan(places) as scan:
            announce(scan)
            names = ", ".join(f"CAST(c{index} AS VARCHAR) AS v{index}" for index in places)
            listed = ", ".join(f"v{index}" for index in places)
            answer = scan.ask(
                f"SELECT {listed}, count(*) AS n FROM (SELECT {names} FROM rows) GROUP BY ALL"
            )
            values = [
                [None if value is None else str(value) for value in answer[f"v{index}"].tolist()]
                for index in places
            ]
            return Counter(dict(zip(zip(*values, strict=True), answer["n"].tolist(), strict=True)))

    return after_charge(work)
