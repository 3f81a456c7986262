"""What a kept release says beside its record, so that another process can measure the same again.

It is in no format that is printed: numbers as exact texts, the request, the clips and the laws of
the noise. All of it was released, or is public. Others may have written it, so everything is
checked before it is used, and nothing in it decides what a look costs, or how far answers move: the
session says that.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn

from sordino.constraints import exact, shown
from sordino.cost import ZCDP, Cost, Pure
from sordino.errors import InvalidParameter, LedgerError, SordinoError
from sordino.estimators import (
    ClippedMean,
    ClippedMeans,
    ClippedSum,
    ClippedSums,
    ClippedVariance,
    ClippedVariances,
)
from sordino.figures import Origin
from sordino.noise import DiscreteGaussian, DiscreteLaplace
from sordino.questions import PrivacyUnit
from sordino.record import Record
from sordino.releases import Label, parameters
from sordino.session.again import Base, Clips, Known, is_named
from sordino.session.counts import HistogramRequest
from sordino.session.cross_table import TableRequest
from sordino.session.looks import KeptLook, Rows, build_row
from sordino.session.releases import RELEASES
from sordino.session.request import find_lookups, list_label_names
from sordino.sources import CsvFormat, Source

FORM = 1
"""The number of the form of what is said here; one of a higher number is refused, not guessed
at."""
_FIGURES: dict[str, Any] = {
    one.__name__: one
    for one in (
        ClippedSum,
        ClippedSums,
        ClippedMean,
        ClippedMeans,
        ClippedVariance,
        ClippedVariances,
    )
}
_LAWS: dict[str, Any] = {"laplace": DiscreteLaplace, "gaussian": DiscreteGaussian}
_FRACTION = re.compile(r"-?[0-9]{1,700}(/[0-9]{1,700})?", re.ASCII)
# Noise of other laws is released by nothing here; beyond these numbers floats have no digits for
# it.
_LEAST_RATE, _LEAST_STEP = Fraction(1, 1 << 90), Fraction(1, 1 << 900)
_LATER = frozenset({"weight_cap"})
_OF_FIGURE = ("cap", "lower", "growth", "unit")
NOT_KEPT = (
    "remeasure.release must be the id of a release that was kept with what measures it again: a "
    "count, a histogram, a cross table whose margins are sums, a measured top k, the largest sums, "
    "a sum, a mean or a variance, kept by this version or a later one. Ask for the same again."
)
_UNREADABLE = (
    "What the ledger has kept to measure this release again is nothing that sordino has written. "
    "`sordino ledger verify` tells whether it was changed. Nothing was read or charged."
)


# ---- writing -------------------------------------------------------------------------------------


def add_again(
    record: Record, known: Known, source: Source, unit: PrivacyUnit, form: CsvFormat
) -> Record:
    """Return the record with what measures its release again.

    Where labels stand for numbers that a function of the caller's names, it stays as it is.
    """
    request = known.base.request
    if is_named(getattr(request, "domain", None)):
        return record
    said = {
        "form": FORM,
        "unit": {"column": unit.column, "adjacency": unit.adjacency, "max_rows": unit.max_rows},
        "text": _write_form(form),
        "types": _list_types(source, request, unit),
        "request": {"name": request.name} | {name: getattr(request, name) for name in request.kept},
        "labels": None if set(known.names) == {0} else known.names,
        "clips": _write_clips(known.base.clips, known.names),
        "looks": [_write_look(rows) for rows in known.rows],
        "total": _write_total(known.total),
    }
    # Of a session without parts it says nothing, as before there were any.
    if source.part is not None and source.part.kept_as is not None:
        said["part"] = source.part.kept_as
    return replace(record, again=said)


def _list_types(source: Source, request: Any, unit: PrivacyUnit) -> dict[str, str]:
    """Return the declared types of the columns that are asked about, or that calls are of."""
    labels = list_label_names(request)
    seen, own = source.compute(labels), list(source.columns)
    read = seen.find_read(seen.index(name, "item") for name in labels if name in seen.columns)
    named = [getattr(request, "column", None), *(own[index] for index in read)]
    types = {}
    for name in dict.fromkeys([*named, *unit.names]):
        if name is not None and name in source.columns:
            types[name] = source.columns[name]
    # Another version of a table says something else.
    for joined in find_lookups(source, request):
        types[joined.table.origin] = "looked up"
    return types


def _write_form(form: CsvFormat) -> dict[str, Any]:
    """Return how a source of texts is written."""
    said = {field.name: getattr(form, field.name) for field in fields(form)}
    # As before there was one.
    if form.format_in is None:
        del said["format_in"]
    # Tuples are lists in JSON.
    lists = {name: list(value) for name, value in said.items() if isinstance(value, tuple)}
    return {**said, **lists, "types": dict(form.types)}


def _write_clips(clips: Clips | None, names: list[Any]) -> dict[str, Any] | None:
    """Return what has found the clips, and after how many tests each was found."""
    if clips is None:
        return None
    said = {
        # Whole numbers are those of JSON; no float would be the exact number.
        name: str(exact(value)) if isinstance(value, float | Fraction | Decimal) else value
        for name, value in parameters(clips.figure).items()
    }
    found = (
        {0: clips.found[0]}
        if clips.labels is None
        else dict(zip(clips.labels, clips.found, strict=True))
    )
    # How many records were meant to lie beyond, where that followed from a noisy number of units.
    tail = clips.found[0].mechanism.tail
    more = {} if tail == clips.figure.search.tail else {"tail": tail}
    return {
        "figure": type(clips.figure).__name__,
        **more,
        "parameters": said,
        # In the order of the labels.
        "tests": [list(found[name].tests) for name in names],
    }


def _write_look(rows: Rows) -> dict[str, Any]:
    """Return the laws of a look, each once, and its numbers in steps."""
    laws: dict[tuple[Any, ...], int] = {}
    listed = []
    for row in rows.values():
        first = row.terms[0]
        each = 1 if row.records is None else max(1, row.records)
        law = (
            first.law.name,
            str(first.law.rate),
            str(first.step * each),
            str(first.rounded * each),
            row.records,
            first.counts,
        )
        place = laws.setdefault(law, len(laws))
        listed.append([place, *(int(term.value / term.step) for term in row.terms)])
    return {"laws": [list(law) for law in laws], "rows": listed}


def _write_total(total: Cost | None) -> dict[str, str] | None:
    """Return what all looks cost, as an epsilon or else as a rho; None if it is neither."""
    if total is None:
        return None
    for name, amount in (("epsilon", total.pure()), ("rho", total.zcdp())):
        if isinstance(amount, Fraction | int) or math.isfinite(amount):
            return {name: str(Fraction(amount))}
    return None


# ---- reading -------------------------------------------------------------------------------------


def read_again(
    record: Record, source: Source, unit: PrivacyUnit, form: CsvFormat, charge: str
) -> Known:
    """Return what is known of a kept release, for a session about the same.

    Raises
    ------
    InvalidParameter
        If it was kept without, or the session differs in its unit, its types or how its texts are
        written.
    LedgerError
        If somebody else has written it.
    """
    said = check_again(record)
    own = PrivacyUnit(**_guarded(lambda: dict(said["unit"])))
    if own != unit:
        raise InvalidParameter(
            "remeasure.release must be about whom this session protects; it has "
            f"{own.identity}, {own.adjacency}, max_rows {own.max_rows}, and the session "
            f"{unit.identity}, {unit.adjacency}, max_rows {unit.max_rows}."
        )
    here = None if source.part is None else source.part.kept_as
    if said.get("part") != here:
        raise InvalidParameter(
            "remeasure.release must be of the rows that this session reads; it is of "
            f"{shown(said.get('part') or 'the whole table')}, and the session of "
            f"{shown(here or 'the whole table')}."
        )
    base, labels = _guarded(lambda: _read_base(said))
    if said["types"] != _list_types(source, base.request, unit) or said["text"] != _write_form(
        form
    ):
        raise InvalidParameter(
            "remeasure.release must be a release of columns with the types that they have now, in "
            "files that are written as they were (CsvFormat); they differ. Ask for the same again."
        )
    rows = _guarded(lambda: [_read_look(look, labels) for look in said["looks"]])
    total = _guarded(lambda: _read_total(said["total"]))
    clipped = base.clips is not None
    looks = _guarded(lambda: tuple(KeptLook.of(one, charge, clipped=clipped) for one in rows))
    # The first look at the largest sums, which have one clip, has selected, and measured nothing.
    shared = base.clips is not None and base.clips.figure.in_all
    if not looks or not all(rows if not shared else rows[1:]):
        _refuse_kept()
    return Known(base=base, looks=looks, rows=rows, total=total, charge=charge)


def check_again(record: Record) -> dict[str, Any]:
    """Return what a record says beside; refuse one that says nothing, or in a newer form."""
    if record.again is None:
        raise InvalidParameter(NOT_KEPT)
    said = dict(record.again)
    form = said.get("form")
    if isinstance(form, int) and form > FORM:
        raise LedgerError(
            f"The release is kept to be measured again in form {form}, and this version of sordino "
            f"knows forms up to {FORM}; use a newer sordino."
        )
    if form != FORM or not {
        "unit",
        "text",
        "types",
        "request",
        "labels",
        "clips",
        "looks",
        "total",
    } <= set(said):
        _refuse_kept()
    return said


def read_kept_unit(record: Record) -> tuple[PrivacyUnit, CsvFormat, str | None]:
    """Return the unit of a kept release, how its source is written, and of which part it is.

    Raises
    ------
    InvalidParameter, LedgerError
        As `read_again` does.
    """
    said = check_again(record)
    unit, form = _guarded(lambda: (PrivacyUnit(**said["unit"]), _read_form(said["text"])))
    part = said.get("part")
    # What was closed since is read by no session.
    named = isinstance(part, str) and not part.endswith("..")
    return unit, form, part if named else None


def read_kept_rows(record: Record) -> Rows:
    """Return the released numbers of a kept release of one look, with the law of their noise.

    Raises
    ------
    InvalidParameter, LedgerError
        As `read_again` does.
    """
    said = check_again(record)

    def read() -> Rows:
        _, labels = _read_base(said)
        [look] = said["looks"]
        return _read_look(look, labels)

    rows: Rows = _guarded(read)
    return rows


def _refuse_kept() -> NoReturn:
    raise LedgerError(_UNREADABLE)


def _guarded(read: Callable[[], Any]) -> Any:
    """Read what others may have written: whatever is wrong with it is one sentence."""
    try:
        return read()
    except LedgerError:
        raise
    except (SordinoError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError):
        pass
    return _refuse_kept()


def _read_form(said: Mapping[str, Any]) -> CsvFormat:
    tuples: dict[str, Any] = {
        name: tuple(value) for name, value in said.items() if isinstance(value, list)
    }
    return CsvFormat(**{**said, **tuples})


def _read_base(said: Mapping[str, Any]) -> tuple[Base, list[Any]]:
    """Return what asks again, and the labels of the rows."""
    asked = dict(said["request"])
    # A label of several columns is a list there.
    labels = _read_labels(said["labels"])
    kind: Any = RELEASES[asked.pop("name")].request
    # What requests have said since the first version is None where it was not said.
    asked = dict.fromkeys(_LATER.intersection(kind.kept)) | asked
    if not kind.kept or set(asked) != set(kind.kept):
        _refuse_kept()
    listed = labels is None or (
        isinstance(labels, list)
        and all(isinstance(one, str | tuple) for one in labels)
        and 0 < len(set(labels)) == len(labels)
    )
    if not listed:
        _refuse_kept()
    clips, more = _read_clips(said["clips"], labels)
    # Labels are those of a histogram, or of groups; clips those of a column that is added up.
    binned = "bins" in kind.kept
    counted = binned or kind in {HistogramRequest, TableRequest}
    labelled = asked["by"] is not None if "by" in asked else counted
    summed = "column" in kind.kept and not binned
    if (clips is not None) != summed or (labels is not None) != labelled:
        _refuse_kept()
    if clips is not None:
        more |= {"numbers_share": 0}
    # What bins are called follows from their edges, and is compared before the charge.
    if labels is not None and not binned:
        more["domain"] = _read_sides(asked["item"], labels) if kind is TableRequest else labels
    # Another budget takes its place.
    request = kind(**asked, **more, epsilon=1)
    return Base(request=request, clips=clips), [0] if labels is None else labels


def _read_sides(item: Any, labels: list[Any]) -> Any:
    """Return the labels of each column of a table, of which its cells have all combinations."""
    names = item if isinstance(item, list) else [item]
    sides = [list(dict.fromkeys(label[place] for label in labels)) for place in range(len(names))]
    if list(itertools.product(*sides)) != labels:
        _refuse_kept()
    return dict(zip(names, sides, strict=True)) if isinstance(item, list) else sides[0]


def _read_labels(said: Any) -> Any:
    """Return labels as they are compared; those of several columns are tuples."""
    if not isinstance(said, list):
        return said
    return [
        tuple(one) if isinstance(one, list) and all(isinstance(part, str) for part in one) else one
        for one in said
    ]


def _read_clips(said: Any, labels: list[Label] | None) -> tuple[Clips | None, dict[str, Any]]:
    """Return the clips, and what they say of a request: each is one that its search can find."""
    if said is None:
        return None, {}
    kind = _FIGURES[said["figure"]]
    given = {
        name: _read_kept_number(value) if isinstance(value, str) and name != "adjacency" else value
        for name, value in said["parameters"].items()
    }
    figure = kind(**given)
    searches = {"both": 2}.get(figure.search.sides, 1)
    edges = figure.grid.size if figure.search.sides == "above" else figure.grid.size // 2
    found, search = [], figure.search
    if "tail" in said:
        tail = said["tail"]
        fits = type(tail) is int and 1 <= tail <= search.tail and figure.in_all
        search = replace(search, tail=tail) if fits else _refuse_kept()
    for tests in said["tests"]:
        fits = all(one is None or (type(one) is int and 1 <= one <= edges) for one in tests)
        if len(tests) != searches or not fits:
            _refuse_kept()
        found.append(search.clip(tuple(tests), simulated=False))
    if len(found) != (1 if labels is None else len(labels)):
        _refuse_kept()
    clips = Clips(
        figure=figure, labels=None if labels is None else tuple(labels), found=tuple(found)
    )
    return clips, {name: given[name] for name in _OF_FIGURE}


def _read_look(said: Mapping[str, Any], labels: list[Any]) -> Rows:
    """Return the rows of a look."""
    laws = [_read_noise_law(*one) for one in said["laws"]]
    origin, rows = Origin(), dict[Any, Any]()
    if not said["rows"]:
        return rows
    for label, (place, *numbers) in zip(labels, said["rows"], strict=True):
        if not all(type(one) is int for one in (place, *numbers)) or place < 0:
            _refuse_kept()
        rows[label] = build_row(numbers, origin=origin, **laws[place])
    return rows


def _read_noise_law(
    name: Any, rate: Any, step: Any, rounded: Any, records: Any, counts: Any
) -> dict[str, Any]:
    """Return what is known of the noise of some rows."""
    found = {
        "law": _LAWS[name](_read_kept_number(rate)),
        "step": _read_kept_number(step),
        "rounded": _read_kept_number(rounded),
        "records": records,
        "counts": counts,
    }
    fits = (
        _LEAST_RATE <= found["law"].rate <= 1 / _LEAST_RATE
        and _LEAST_STEP <= found["step"] <= 1 / _LEAST_STEP
        # An answer was rounded by a step at most, if at all.
        and found["rounded"] in {0, found["step"]}
        and (records is None or (type(records) is int and records >= 0))
        and isinstance(counts, bool)
    )
    return found if fits else _refuse_kept()


def _read_kept_number(text: Any) -> Fraction:
    """Return a number that is written as a fraction.

    Short enough that it cannot fill the memory.
    """
    return Fraction(text) if isinstance(text, str) and _FRACTION.fullmatch(text) else _refuse_kept()


def _read_total(said: Any) -> Cost | None:
    if said is None:
        return None
    [(name, amount)] = said.items()
    if name == "epsilon":
        return Pure(epsilon=_read_kept_number(amount))
    return ZCDP(rho=_read_kept_number(amount)) if name == "rho" else _refuse_kept()
