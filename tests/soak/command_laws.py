"""What must be true of every run, whatever its line, its files and its streams are."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from fractions import Fraction

from soak.command_files import NUMBER, TEXT
from soak.command_lines import Case
from soak.command_runs import MEMORY, Outcome
from soak.command_words import DOMAINS, ODD_DOMAINS

DOCUMENTED = {0, 2, 3, 4, 5, 6, 130}
MARKS = (TEXT.encode(), NUMBER.encode(), TEXT.encode("utf-16-le"))
QUIET = 10_000
"""Above this epsilon a released number may come close to a private one: that is what it is for."""

BROKEN = re.compile(
    rb"Traceback|Exception ignored|Warning:|Fatal Python|Segmentation|core dumped|\bFile \""
)
SAID_SO = (b"sordino stopped because of a defect in itself",)
JOURNAL = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
"""How a journal begins that undoes a write of SQLite."""


def breaches(case: Case, seen: Outcome) -> Iterator[str]:
    """Yield what is wrong with a run: the name of the law, then what was seen. Nothing here shows a mark."""
    for law in (
        _ended,
        _code,
        _silence,
        _no_mark,
        _refused,
        _stderr,
        _bounded,
        _nothing_left,
        _shape,
        _ledger,
        _paid,
    ):
        for what in law(case, seen):
            yield f"{law.__name__[1:]}: {what}"


def _ended(case: Case, seen: Outcome) -> Iterator[str]:
    if seen.code is None:
        yield f"no end after {seen.seconds:.0f} s"


def _code(case: Case, seen: Outcome) -> Iterator[str]:
    if seen.code is None:
        return
    if seen.code not in DOCUMENTED:
        yield f"exit code {seen.code}"
    elif seen.code == 130 and not seen.signalled:
        yield "interrupted, and nobody did"
    elif seen.code == 6 and "audit" not in case.arguments:
        yield "a broken claim without an audit"
    elif seen.code in {3, 5} and not any(word.startswith("--ledger") for word in case.arguments):
        yield f"exit code {seen.code} without a ledger"


def _silence(case: Case, seen: Outcome) -> Iterator[str]:
    if BROKEN.search(seen.err) or BROKEN.search(seen.out):
        yield "a traceback or a warning"
    if any(sentence in seen.err for sentence in SAID_SO):
        yield "a defect in itself"


def declared(case: Case) -> bool:
    """Tell whether the line declares texts of the table public, or asks for what somebody else's program says."""
    words = case.arguments
    if case.path[0] == "audit" or "--assume-public" in words:
        return True
    given = [value for word, value in itertools.pairwise(words) if word == "--domain"]
    given += [word.split("=", 1)[1] for word in words if word.startswith("--domain=")]
    if any(name not in {*DOMAINS, *ODD_DOMAINS} for name in given):
        return True
    if (
        case.path[0] == "select"
    ):  # its labels are public: a table of another kind is declared to hold such
        return not any(
            word in {"s.csv", "s2.csv", "refused.csv", "m.csv", "m.tdt"} for word in words
        ) or (bool({"m.csv", "m.tdt"} & set(words)) and "--score" in words)
    return case.path[0] == "above" and "-" in words and not case.stdin.startswith("a")


def _no_mark(case: Case, seen: Outcome) -> Iterator[str]:
    if any(mark in seen.err for mark in MARKS):
        yield "a private value on stderr"
    if not declared(case) or (seen.code not in {0, 6, 130} and not _streams(case)):
        loud = epsilon_of(case) > QUIET
        if any(mark in seen.out for mark in MARKS if not (loud and mark == NUMBER.encode())):
            yield "a private value on stdout"
    for name, data in seen.left.items():
        # The file of `--output` is what stdout would have been.
        if name == "case/new.json" and declared(case):
            continue
        if (
            name not in _inputs(case)
            and any(mark in data for mark in MARKS)
            and case.path[0] != "audit"
        ):
            yield f"a private value in the file {name}"


def _inputs(case: Case) -> set[str]:
    return {f"case/{word}" for word in ("rotten-t.duckdb",)}


def epsilon_of(case: Case) -> Fraction:
    """Return the largest epsilon that the line may mean."""
    found = Fraction(0)
    for word in (part for one in case.arguments for part in one.split("=")):
        try:
            found = max(found, Fraction(word)) if len(word) < 12 else found
        except (ValueError, ZeroDivisionError):
            continue
    return found


def _streams(case: Case) -> bool:
    return case.path[0] in {"above", "randomize"}


def _refused(case: Case, seen: Outcome) -> Iterator[str]:
    if seen.code in {0, None} or not seen.out or case.stdout == "terminal":
        return
    if (case.path[0] == "audit" and seen.code == 6) or (
        case.path[-1] == "verify" and seen.code == 5
    ):
        return
    # An export of a damaged ledger ends where the damage begins: what was written before are whole records.
    if case.path[-1] == "export" and seen.code == 5 and _whole(seen.out):
        return
    if not _streams(case) or seen.code in {2, 3, 5}:
        if not (seen.code == 130 and seen.signalled and _whole(seen.out)):
            yield f"{len(seen.out)} bytes on stdout of a run that ended with {seen.code}"
    elif not seen.out.endswith(b"\n") and case.stdout == "file" and not seen.signalled:
        yield "half a record on stdout"


def _whole(out: bytes) -> bool:
    """Tell whether a release was written as a whole before the interrupt came."""
    return out.endswith(b"\n")


def _stderr(case: Case, seen: Outcome) -> Iterator[str]:
    if case.stderr != "file" or seen.code is None:
        return
    talks = {"--no-quiet", "--seed"} & set(case.arguments)
    if seen.code == 0 and seen.err and not talks and not seen.signalled:
        yield f"{len(seen.err)} bytes on stderr of a quiet release"
    if seen.code not in {0, 6} and not seen.err and not seen.signalled:
        yield f"nothing on stderr of a run that ended with {seen.code}"
    if sum(line.startswith(b"Error: ") for line in seen.err.splitlines()) > 1:
        yield "more than one error"


def _bounded(case: Case, seen: Outcome) -> Iterator[str]:
    if seen.memory > MEMORY:
        yield f"{seen.memory >> 20} MiB of memory"


def _nothing_left(case: Case, seen: Outcome) -> Iterator[str]:
    for name in seen.left:
        folder, _, rest = name.partition("/")
        asked = any(rest in word for word in case.arguments)
        # The study that is written unless another file is named.
        asked = asked or (case.path == ("init",) and rest == "study.toml")
        if rest.endswith(
            "-journal"
        ):  # it is kept, but what it begins with says that there is nothing to undo
            asked = seen.after is not None or seen.before is None
            asked = asked and (seen.code is None or not seen.left[name].startswith(JOURNAL))
        if (
            seen.signalled
            and folder == "tmp"
            and rest.endswith("/")
            and not any(other.startswith(name) for other in seen.left if other != name)
        ):
            continue  # an empty folder, made at the instant of an interrupt
        if folder == "tmp" or not asked:
            yield f"left behind: {folder}/{'...' if folder == 'tmp' else rest}"
            break


def _shape(case: Case, seen: Outcome) -> Iterator[str]:
    if (
        seen.code != 0
        or case.stdout != "file"
        or not seen.out
        or "--help" in case.arguments
        or "-h" in case.arguments
    ):
        return
    forms = [
        value
        for word, value in zip(case.arguments, case.arguments[1:], strict=False)
        if word == "--format"
    ]
    given = any(word.startswith(("--format=", "--as", "--version")) for word in case.arguments)
    if (
        given
        or (forms and set(forms) != {"json"})
        or case.path[0] in {"randomize", "init"}
        or case.path[-1] == "export"
    ):
        return
    try:
        encoding = case.environment.get("PYTHONIOENCODING", "utf-8")
        out = seen.out.decode(
            "utf-8" if encoding == "ascii" else encoding
        )  # click takes ASCII for a mistake, and writes UTF-8
        lines = out.splitlines() if case.path[0] == "above" and "-" in case.arguments else [out]
        for line in lines:
            json.loads(line)
    except ValueError:
        yield "no JSON where JSON is the default"


def _ledger(case: Case, seen: Outcome) -> Iterator[str]:
    before, after = seen.before, seen.after
    if before is None:
        return
    if after is None:
        yield "an account cannot be read any more"
        return
    rising = {name for name, spent in after.items() if spent > before.get(name, 0)}
    if any(spent < 0 for spent in after.values()):
        yield "more is spent than allowed"
    if (
        any(after.get(name, -1) < spent for name, spent in before.items())
        and case.path[-1] != "void-reservation"
    ):
        yield "less is spent than before"
    if seen.code in {2, 3} and rising:
        yield f"a charge of a run that ended with {seen.code}"
    free = {"--help", "-h", "--version", "--dry-run"}
    charging = case.path[0] not in {"ledger", "plan", "audit"} and free.isdisjoint(case.arguments)
    # A stream that nobody asks anything costs nothing; it may have printed the names of its columns, and that.
    answered = seen.out.count(b"\n") > 1 if "-" in case.arguments else bool(seen.out)
    answered = answered and b"\nAsked: 0. Spent: " not in seen.out
    if seen.code == 0 and charging and _charged(case) == "l.db" and not rising and answered:
        yield "a release without a charge"


def _paid(case: Case, seen: Outcome) -> Iterator[str]:
    words = {word.partition("=")[0] for word in case.arguments}
    releases = case.path[0] not in {"ledger", "plan", "audit", "init"} and not words & {
        "--help",
        "-h",
        "--version",
    }
    if seen.code == 0 and releases and not words & {"--ledger", "--no-ledger", "--seed"}:
        yield "a release of which nobody said who pays"


def _charged(case: Case) -> str | None:
    """Return the ledger that a line names last, which is the one that is charged."""
    named = None
    for word, value in zip(case.arguments, [*case.arguments[1:], ""], strict=True):
        if word == "--ledger":
            named = value
        elif word.startswith("--ledger="):
            named = word.removeprefix("--ledger=")
    return named


def differences(case: Case, one: Outcome, other: Outcome) -> Iterator[str]:
    """Yield what is public and differs between runs of one line on two neighbors; what noise decides is no part of it."""
    if _chance(case, one) or _chance(case, other):
        return
    if one.code != other.code:
        yield f"neighbors: exit codes {one.code} and {other.code}"
    elif (
        one.err != other.err and "--no-quiet" not in case.arguments
    ):  # how far it is by now, is time
        yield "neighbors: other words on stderr"
    elif case.path != ("above",) and _form(one.out) != _form(
        other.out
    ):  # how many answers are asked for is noisy
        yield "neighbors: another shape of stdout"


def _chance(case: Case, seen: Outcome) -> bool:
    """Tell whether noise decides how far a stream comes, and so whether it meets a line that is refused.

    The first field of a line of a stream is public. In a table it is that of the row in which neighbors differ.
    """
    return seen.code is None or (_streams(case) and "-" in case.arguments and case.stdin != "a.txt")


def _form(out: bytes) -> object:
    """Return which facts a JSON object has, without their values."""
    try:
        found = json.loads(out)
    except ValueError:
        return None
    # A warning follows from noisy numbers that are released beside it.
    return sorted(set(found) - {"warning"}) if isinstance(found, dict) else None
