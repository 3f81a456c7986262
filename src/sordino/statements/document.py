"""A statement as a document: what it says, its digest, and the same document as YAML or JSON.

Two of them are compared field by field, and what a check of one has found is told.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

from sordino.constraints import one_of, shown
from sordino.errors import InvalidParameter, LedgerError
from sordino.statements.owner import Owner
from sordino.statements.registry import build_record, list_missing
from sordino.statements.trees import MOST_CHARACTERS, choose_form, read_tree, write_yaml

_ABSENT = object()


def canonical(tree: Any) -> Any:
    """Return a tree of values in which numbers that are equal are the same: 1.0 is 1."""
    if isinstance(tree, dict):
        return {name: canonical(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [canonical(value) for value in tree]
    whole = isinstance(tree, float) and tree.is_integer() and abs(tree) < 2**53
    return int(tree) if whole else tree


def list_differences(true: Any, said: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield each field in which `said` is not `true`: its path, and what it should say and says.

    A field that only one of them has is one, too.
    """
    if isinstance(true, dict) and isinstance(said, dict):
        # In the order of what is read; what was taken away comes last.
        for name in [*said, *(name for name in true if name not in said)]:
            below = f"{path}.{_write_name(name)}" if path else _write_name(name)
            yield from list_differences(true.get(name, _ABSENT), said.get(name, _ABSENT), below)
    elif isinstance(true, list) and isinstance(said, list) and len(true) == len(said):
        for number, (one, other) in enumerate(zip(true, said, strict=True), 1):
            yield from list_differences(one, other, f"{path}[{number}]")
    elif _key(true) != _key(said):
        yield path, _shorten_value(true), _shorten_value(said)


def _write_name(name: str) -> str:
    # A file of a stranger must not steer the terminal.
    return name if name.isprintable() and 0 < len(name) <= 60 else _shorten_value(name)


def _key(value: Any) -> tuple[str, Any]:
    # Python takes True for 1.
    kind = (
        "truth"
        if isinstance(value, bool)
        else "number"
        if isinstance(value, int | float)
        else "other"
    )
    return kind, value


def _shorten_value(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@final
@dataclass(frozen=True, kw_only=True)
class StatementCheck:
    """What `Ledger.check_statement` found.

    Attributes
    ----------
    account : str
        The account whose history was looked at.
    digest : str
        What the statement says that its digest is.
    problems : tuple of str
        One sentence each, with the name of the field; empty if all agrees.
    newer : bool
        Whether the ledger has a later statement about the same release, or the same account.

    Examples
    --------
    >>> import sordino as sd
    >>> sd.statements.StatementCheck(account="orders", digest="9f", problems=(), newer=False).sound
    True
    """

    account: str
    digest: str
    problems: tuple[str, ...]
    newer: bool

    @property
    def sound(self) -> bool:
        """Whether the statement is what the ledger says."""
        return not self.problems

    def raise_if_broken(self) -> None:
        """Raise `LedgerError` with the first problem unless everything agrees."""
        if self.problems:
            more = f" ({len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
            raise LedgerError(
                f"The statement does not hold: {self.problems[0]}{more} Do not rely on it."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as JSON-ready values."""
        return {
            "account": self.account,
            "sound": self.sound,
            "digest": self.digest,
            "newer": self.newer,
            "problems": list(self.problems),
        }


FORMS = {"account": 1, "release": 1, "batch": 2}
"""The form of a statement by what it is about; whoever changes a word that sordino writes there
raises it."""
AS = one_of("yaml", "json")
_HEAD = (
    "# What is promised here stands in the history of a ledger; check it there:\n"
    "#     sordino verify FILE --ledger URL --account NAME\n"
    "# `record` is made for the public registry of deployments of differential privacy.\n"
)
_NAME = "A statement"
_MOST_LETTERS = MOST_CHARACTERS // 2
# A ledger spells what is not ASCII, and a server takes events of a million characters.
_MOST_SPELLED = 900_000
# Of a statement about several releases: what it says at most of all of them, and of one beside its
# words.
_LETTERS_ABOUT_ALL = 40_000
_LETTERS_ABOUT_ONE = 500


@final
@dataclass(frozen=True, kw_only=True)
class PublicStatement:
    """What a release, all releases of a study, or an account promises; `Ledger.publish` makes it.

    Attributes
    ----------
    record : dict
        For the public registry of deployments, in its own fields: the owner's words and ours.
    promise : dict
        The same and more for programs: guarantee, unit, adjacency, mechanisms with the digests of
        their proofs, and the place in the history of the account.
    digest : str
        SHA-256 of both, which the history has.

    Examples
    --------
    >>> import tempfile
    >>> import sordino as sd
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = sd.Ledger.create(folder.name + "/budget.db", account="orders",
    ...                           budget=sd.Budget(epsilon=1.0), adjacency="add-remove",
    ...                           unit="customer_id", source="name:orders")
    >>> statement = ledger.publish()
    >>> statement.record["deployment"]["privacy_loss"]["privacy_parameters"]
    {'epsilon': 1.0, 'delta': 0.0}
    >>> statement.missing[:2]
    ['url_slug', 'basic.name']
    >>> ledger.check_statement(statement.to_text("json")).sound
    True
    >>> folder.cleanup()
    """

    record: dict[str, Any]
    promise: dict[str, Any]
    digest: str

    @classmethod
    def build(cls, promise: Mapping[str, Any], owner: Owner) -> PublicStatement:
        """Return the statement of what the ledger has and the owner says."""
        # Through JSON, so that it is the same whether it was made here or read from a file.
        made: dict[str, Any] = json.loads(
            json.dumps(
                {"record": build_record(promise, owner), "promise": dict(promise)}, allow_nan=False
            )
        )
        return cls(**made, digest=digest_of_statement(made))

    @classmethod
    def from_text(cls, text: str) -> PublicStatement:
        """Return the statement that a text of YAML or JSON holds.

        Whether it is true is not looked at.

        Parameters
        ----------
        text : str
            As `to_text` makes it.

        Raises
        ------
        InvalidParameter
            If it holds none, or one of a newer form.
        UnsupportedBackend
            If it is YAML, and PyYAML is not installed.
        """
        if not isinstance(text, str):
            raise InvalidParameter(f"A statement is read from a text; got a {type(text).__name__}.")
        tree = read_tree(text, _NAME)
        if {"rows", "schema"} <= tree.keys():
            raise InvalidParameter(
                "This is a release, and no statement. Print it again and compare both: sordino "
                f"ledger release {shown(tree.get('id'))}. A statement about it is made by sordino "
                "ledger publish."
            )
        for name, kind in (("record", dict), ("promise", dict), ("digest", str)):
            if not isinstance(tree.get(name), kind):
                raise InvalidParameter(
                    "A statement must have record, promise and digest, as sordino writes them; "
                    f"{name} is missing or something else."
                )
        unknown = [name for name in tree if name not in {"record", "promise", "digest"}]
        if unknown:
            raise InvalidParameter(
                f"A statement has record, promise and digest alone; got {unknown[0][:60]!r} as "
                "well."
            )
        form = tree["promise"].get("form")
        newest = max(FORMS.values())
        if isinstance(form, int) and form > newest:
            raise InvalidParameter(
                f"promise.form must be at most {newest}, which this version of sordino knows; got "
                f"{str(form)[:20]}. Use a newer sordino."
            )
        return cls(**tree)

    @property
    def missing(self) -> list[str]:
        """The fields of the registry that the owner of the data has still to fill in."""
        return list_missing(self.owner)

    @property
    def owner(self) -> Owner:
        """What the owner has said."""
        said = {path: value for path, value in _list_owners(self.record) if value is not None}
        return Owner(said)

    def to_dict(self) -> dict[str, Any]:
        """Return the whole statement as JSON-ready values."""
        return {"record": self.record, "promise": self.promise, "digest": self.digest}

    def to_text(self, form: Literal["yaml", "json"] | None = None) -> str:
        """Return the statement as text: the same letters each time.

        Parameters
        ----------
        form : {"yaml", "json"}, optional
            YAML is what the registry takes. Left out, it is YAML where PyYAML is installed, else
            JSON, which readers of YAML take as well.

        Raises
        ------
        UnsupportedBackend
            If it is YAML, and PyYAML is not installed.
        """
        if (choose_form() if form is None else AS("form", form)) == "json":
            return json.dumps(self.to_dict(), ensure_ascii=False, indent=2) + "\n"
        return _HEAD + write_yaml(self.to_dict(), _NAME)


def _list_owners(record: Mapping[str, Any]) -> list[tuple[str, Any]]:
    from sordino.statements.owner import OWNERS  # noqa: PLC0415

    deployment = record.get("deployment")
    found: list[tuple[str, Any]] = []
    for path in OWNERS:
        group, dot, name = path.partition(".")
        within = deployment.get(group) if dot and isinstance(deployment, dict) else record
        found.append(
            (path, within.get(name if dot else group) if isinstance(within, dict) else None)
        )
    return found


def check_size(statement: PublicStatement) -> None:
    """Refuse a statement that is too long to be read again, or to be recorded."""
    if (
        len(json.dumps(statement.to_dict())) > _MOST_SPELLED
        or len(statement.to_text("json")) > _MOST_LETTERS
    ):
        raise InvalidParameter(
            f"A statement must have at most {_MOST_LETTERS} characters; this one has more. Say "
            "less in the owner's part."
        )


def check_room(owner: Owner, asked: Sequence[Mapping[str, Any]]) -> None:
    """Refuse, before any charge, releases whose statement could be too long for `check_size`.

    Parameters
    ----------
    owner : Owner
        What the owner of the data says.
    asked : sequence of mapping of str to object
        What each of the releases asks for, JSON-ready.
    """
    said: list[Any] = [dict(owner.said), *asked]
    # What is said is laid out line by line, and may stand there twice; the rest has a length that
    # is known.
    fixed = _LETTERS_ABOUT_ALL + _LETTERS_ABOUT_ONE * len(asked)
    letters = fixed + 2 * len(json.dumps(said, ensure_ascii=False))
    if letters > _MOST_LETTERS or fixed + 2 * len(json.dumps(said)) > _MOST_SPELLED:
        raise InvalidParameter(
            "What a study asks for and its owner says must fit into a statement of "
            f"{_MOST_LETTERS} characters; got {len(asked)} releases that may need {letters}. Say "
            "less, or make two studies of it."
        )


def digest_of_statement(tree: Mapping[str, Any]) -> str:
    """Return the hash of what a statement says, whatever it is written in."""
    covered = {name: canonical(tree[name]) for name in ("record", "promise")}
    return hashlib.sha256(
        json.dumps(covered, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    ).hexdigest()
