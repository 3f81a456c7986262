"""The owner's part of a statement: what nobody but the owner of the data can say.

The names of fields, the words that one may have and the tiers are those of the schema of the public
registry of July 2026 (opendp/deployments-registry-data). A statement has every field but those that
the owner may leave out.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any, NamedTuple, final

from sordino.constraints import did_you_mean, shown
from sordino.errors import InvalidParameter
from sordino.statements.trees import MOST_CHARACTERS, read_tree


class Field(NamedTuple):
    """One field below `deployment`, or the short name of the record itself."""

    path: str
    tier: int
    """The least tier of a record that has to say it."""
    kind: str = "text"
    """"text", "texts" (a list of them) or "day"; of what sordino fills in also "parameters"."""
    words: tuple[str, ...] = ()
    """The only texts that the registry takes; empty where any text will do."""
    owner: bool = True
    """Whether the owner of the data fills it in; sordino fills in the others."""
    needed: bool = True
    """Whether a record of its tier must have it; else the owner may leave it out."""


PRODUCTS = (
    "Summary statistics",
    "Machine learning model",
    "Dataset",
    "Synthetic data",
    "Interactive API",
    "SQL queries",
)
SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
VARIANTS = ("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom")

FIELDS = (
    Field("url_slug", 1),
    Field("basic.name", 1),
    Field("basic.data_curators", 1, "texts"),
    Field("basic.description", 1),
    Field("basic.intended_use", 1),
    Field("basic.data_product_type", 1, words=PRODUCTS),
    Field("basic.data_product_region", 1),
    Field("basic.data_product_sector", 1, words=SECTORS, needed=False),
    Field("basic.publication_date", 1, "day"),
    Field("dp_variant.variant_name", 2, words=VARIANTS, owner=False),
    Field("dp_variant.data_domain", 3),
    Field("dp_variant.unprotected_quantities", 3),
    Field("privacy_loss.privacy_unit", 2, owner=False),
    Field("privacy_loss.privacy_unit_details", 3, owner=False),
    Field("privacy_loss.privacy_parameters", 2, "parameters", owner=False),
    Field("privacy_loss.privacy_parameters_details", 3, owner=False),
    Field("deployment_model.model_name", 2, words=("Central",), owner=False),
    Field("deployment_model.actors", 3),
    Field("deployment_model.release_type", 2, words=("One release", "Many releases"), owner=False),
    Field("deployment_model.release_type_details", 3, owner=False),
    Field("deployment_model.data_source_type", 2, words=("Static", "Dynamic")),
    Field("deployment_model.access_type", 2, words=("Interactive", "Non-interactive")),
    Field("accounting.post_processing", 3),
    Field("accounting.composition", 3, owner=False),
    Field("implementation.preprocessing_and_hyperparameter_tuning", 3),
    Field("implementation.mechanisms", 3, owner=False),
    Field("implementation.justification", 3),
    Field("administrative.sources", 1, needed=False),
    Field("administrative.notes", 1, needed=False),
    Field("administrative.registry_authors", 1, "texts"),
)
OWNERS = {field.path: field for field in FIELDS if field.owner}
"""What the owner of the data fills in, by the path of the field."""


OWNER_MUST_ADD = "(the owner must add this)"
"""What stands in a statement where the owner of the data has said nothing yet."""
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_MOST_LETTERS = 8_000
_SLUG = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}", re.ASCII)


@final
@dataclass(frozen=True)
class Owner:
    """What the owner of the data adds to a statement.

    Parameters
    ----------
    said : mapping of str to object
        The names of the registry below `deployment`, nested or as paths, and `url_slug`: texts, for
        `data_curators` and `registry_authors` lists of texts, for `publication_date` a day
        (YYYY-MM-DD). What is left out is marked in the statement as missing. All of it is public.

    Raises
    ------
    InvalidParameter
        If a name is none that the owner fills in, or a value is none that the registry takes.

    Examples
    --------
    >>> import sordino as sd
    >>> basic = {"name": "Orders of a shop", "data_curators": ["The shop"]}
    >>> sd.statements.Owner({"basic": basic}).said
    {'basic.name': 'Orders of a shop', 'basic.data_curators': ['The shop']}
    >>> sd.statements.Owner({"basic": {"nmae": "Orders"}})
    Traceback (most recent call last):
        ...
    sordino.errors.InvalidParameter: The owner of the data fills in no field 'basic.nmae'. ...
    """

    said: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.said, Mapping):
            raise InvalidParameter(
                f"Owner takes names with values; got a {type(self.said).__name__}."
            )
        # What a statement marks as missing was not said.
        missing = (OWNER_MUST_ADD, [OWNER_MUST_ADD])
        given = {
            path: value for path, value in _flatten_owner(self.said, "") if value not in missing
        }
        unknown = [path for path in given if path not in OWNERS]
        if unknown:
            raise InvalidParameter(
                f"The owner of the data fills in no field {shown(unknown[0])}."
                f"{did_you_mean(unknown[0], OWNERS)}"
            )
        # In the order of the registry, so that the same words make the same statement.
        checked = {
            path: _check_owner(OWNERS[path], given[path]) for path in OWNERS if path in given
        }
        object.__setattr__(self, "said", checked)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Owner:
        """Return what a small file says, in TOML (its name ends with .toml), YAML or JSON.

        Parameters
        ----------
        path : str or path
            At most 2^19 characters, in UTF-8.

        Raises
        ------
        InvalidParameter
            If it cannot be read, or says what the owner does not fill in.
        UnsupportedBackend
            If it is YAML, and PyYAML is not installed.
        """
        text, name = read_small_text(path, "The file of the owner"), "The file of the owner"
        if not os.fspath(path).lower().endswith(".toml"):
            return cls(read_tree(text, name))
        if len(text) > MOST_CHARACTERS:
            raise InvalidParameter(
                f"{name} must have at most {MOST_CHARACTERS} characters; got {len(text)}."
            )
        try:
            tree = tomllib.loads(text)
        # What is no TOML is a ValueError, and so is a number of very many digits.
        except (ValueError, RecursionError):
            raise InvalidParameter(
                f"{name} must be TOML, as its name says; it cannot be read."
            ) from None
        return cls(tree)


def read_small_text(path: str | os.PathLike[str], name: str) -> str:
    """Return the text of a small file in UTF-8; `name` is what it is called in a message."""
    try:
        with Path(path).open("rb") as file:
            # A character has four bytes at most.
            raw = file.read(4 * MOST_CHARACTERS + 1)
        if len(raw) > 4 * MOST_CHARACTERS:
            raise InvalidParameter(
                f"{name} must have at most {MOST_CHARACTERS} characters; it has more."
            )
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidParameter(f"{name} must be text in UTF-8.") from None
    # A name with a zero byte is no OSError.
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidParameter):
            raise
        raise InvalidParameter(
            f"{name} must be a file that can be read; got {shown(str(path))}."
        ) from None


def _flatten_owner(tree: Mapping[Any, Any], above: str) -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        path = f"{above}.{name}" if above else str(name)
        # No field has more than two names; what is nested deeper is refused by its path.
        if isinstance(value, Mapping) and path.count(".") < 2:
            yield from _flatten_owner(value, path)
        else:
            yield path, value


def _check_owner(known: Field, value: Any) -> Any:
    """Return what the owner says in a field, or raise `InvalidParameter`."""
    if known.kind == "texts":
        listed = value if isinstance(value, list | tuple) else ()
        if not 1 <= len(listed) <= 50 or not all(map(_is_owner_text, listed)):
            raise InvalidParameter(
                f"{known.path} must be a list of 1 to 50 texts; got {shown(value)}."
            )
        return list(listed)
    if known.kind == "day":
        return _check_day(known.path, value)
    if known.words and value not in known.words:
        raise InvalidParameter(
            f"{known.path} must be one of {', '.join(map(repr, known.words))}; got {shown(value)}."
        )
    if not _is_owner_text(value):
        raise InvalidParameter(
            f"{known.path} must be a printable text of 1 to {_MOST_LETTERS} characters; got "
            f"{shown(value)}."
        )
    if known.path == "url_slug" and not _SLUG.fullmatch(value):
        raise InvalidParameter(
            "url_slug must be small letters, digits, - and _, as in an address; got "
            f"{shown(value)}."
        )
    return value


def _check_day(path: str, value: Any) -> str:
    # TOML has days of its own.
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    try:
        if isinstance(value, str) and _DAY.fullmatch(value):
            return date.fromisoformat(value).isoformat()
    except ValueError:
        pass
    raise InvalidParameter(f"{path} must be a day such as 2026-11-24; got {shown(value)}.")


def _is_owner_text(value: Any) -> bool:
    # Lines may end: what is said may have paragraphs.
    return (
        isinstance(value, str)
        and 0 < len(value) <= _MOST_LETTERS
        and bool(value.strip())
        and value.replace("\n", " ").isprintable()
    )
