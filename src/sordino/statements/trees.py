"""Reads only plain trees from a YAML or JSON file that anybody may have written; writes YAML.

What a hostile file may ask of a reader is refused before anything is made of it: aliases that
multiply, tags that make objects, names that stand twice, nests that are too deep, numbers that are
too long.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, Literal, NoReturn

from sordino.errors import InvalidParameter, UnsupportedBackend

MOST_CHARACTERS = 1 << 19
"""Of a file; a statement of a release has some five thousand."""
MOST_LEVELS = 24
_NO_YAML = (
    "{} is YAML, which needs PyYAML: pip install 'sordino[yaml]'. JSON is read and written without "
    "it (--as json)."
)
# Plain words that are no text. All else is one: a date, `no`, `1:30`, `0x10` and `.inf` as well.
_PLAIN = {"": None, "~": None, "null": None, "true": True, "false": False}
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,29})", re.ASCII)
_FLOAT = re.compile(r"-?[0-9]{1,30}\.[0-9]{0,30}(?:e[+-]?[0-9]{1,3})?", re.ASCII | re.IGNORECASE)


def read_tree(text: str, name: str) -> dict[str, Any]:
    """Return what YAML or JSON holds: names with texts, numbers, lists and names of their own.

    Parameters
    ----------
    text : str
        JSON if it begins with a brace, else YAML.
    name : str
        What it is called in a message.

    Raises
    ------
    InvalidParameter
        If it is neither, or holds what no statement holds.
    UnsupportedBackend
        If it is YAML, and PyYAML is not installed.
    """
    if len(text) > MOST_CHARACTERS:
        raise InvalidParameter(
            f"{name} must have at most {MOST_CHARACTERS} characters; got {len(text)}."
        )
    tree = _read_json(text, name) if text.lstrip().startswith("{") else _read_yaml(text, name)
    if not isinstance(tree, dict):
        _refuse(name, "holds no names with values")
    return tree


def choose_form() -> Literal["yaml", "json"]:
    """Return YAML, which the registry takes, else JSON, which needs no library and is YAML, too."""
    return "json" if find_spec("yaml") is None else "yaml"


def load_yaml(name: str) -> Any:
    """Return PyYAML; `name` is what needs it."""
    try:
        # Only who reads or writes YAML needs it.
        import yaml  # noqa: PLC0415
    except ImportError:
        raise UnsupportedBackend(_NO_YAML.format(name)) from None
    return yaml


def write_yaml(tree: dict[str, Any], name: str) -> str:
    """Return a tree as YAML, the same letters each time.

    `name` is what it is called in a message.
    """
    yaml = load_yaml(name)

    class Dumper(yaml.SafeDumper):  # type: ignore[misc, name-defined]
        pass

    def represent(dumper: Any, text: str) -> Any:
        # Between other quotes PyYAML would not read a line separator, or a control character, as it
        # was.
        plain = text.replace("\n", "").isprintable()
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')

    Dumper.add_representer(str, represent)
    # The same object in two places would be written as an alias.
    Dumper.ignore_aliases = lambda *_: True
    written: str = yaml.dump(tree, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=100)
    return written


def _refuse(name: str, what: str) -> NoReturn:
    raise InvalidParameter(f"{name} must be plain YAML or JSON, as sordino writes it; it {what}.")


def _read_json(text: str, name: str) -> Any:
    def pairs(listed: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(listed)
        if len(made) < len(listed):
            _refuse(name, "says one name twice")
        return made

    def constant(_: str) -> NoReturn:
        _refuse(name, "holds a number that is none")

    try:
        tree = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
        if not is_plain(tree):
            _refuse(name, "is nested too deeply, or holds a number that is too large")
    except InvalidParameter:
        raise
    # A long number is a ValueError, and a deep nest a RecursionError.
    except (ValueError, RecursionError):
        _refuse(name, "cannot be read")
    return tree


def is_plain(tree: Any, levels: int = MOST_LEVELS) -> bool:
    """Tell whether a tree of JSON may be a statement: not nested deeply, and its numbers finite."""
    if isinstance(tree, float) and not math.isfinite(tree):
        return False
    inside = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return levels > 0 and all(is_plain(one, levels - 1) for one in inside)


def _read_yaml(text: str, name: str) -> Any:
    yaml = load_yaml(name)
    try:
        # Events and not a loader: nothing is made of the file but what is made here.
        return _build(_list_events(yaml, text, name), name)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, InvalidParameter):
            raise
        _refuse(name, "cannot be read")


def _list_events(yaml: Any, text: str, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the beginnings and ends of mappings and lists, and values.

    Refuse what a plain tree has not.
    """
    documents = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            _refuse(name, "refers to itself (anchors and aliases are not read)")
        if getattr(event, "tag", None) is not None:
            _refuse(name, "has tags, which are not read")
        if isinstance(event, yaml.ScalarEvent):
            yield "value", event.value if event.style is not None else _Plain(event.value)
        elif isinstance(event, yaml.MappingStartEvent):
            yield "begin", {}
        elif isinstance(event, yaml.SequenceStartEvent):
            yield "begin", []
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            yield "end", None
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                _refuse(name, "holds several documents")


class _Plain(str):
    """A value without quotes, which may be a number."""

    __slots__ = ()


_NO_KEY = object()


def _build(events: Iterator[tuple[str, Any]], name: str) -> Any:
    """Return the tree of events."""
    # Where each open mapping or list stands: itself, and the name that waits for its value.
    stack: list[tuple[Any, Any]] = []
    done: Any = None
    for kind, thing in events:
        if kind == "begin":
            stack.append((thing, _NO_KEY))
            if len(stack) > MOST_LEVELS:
                _refuse(name, "is nested too deeply")
            continue
        finished = stack.pop()[0] if kind == "end" else thing
        if not stack:
            done = _read_plain(finished)
            continue
        within, key = stack[-1]
        if isinstance(within, list):
            within.append(_read_plain(finished))
        elif key is _NO_KEY:
            if not isinstance(finished, str) or str(finished) in within:
                _refuse(name, "says one name twice, or has a name that is none")
            stack[-1] = within, str(finished)
        else:
            within[key] = _read_plain(finished)
            stack[-1] = within, _NO_KEY
    return done


def _read_plain(value: Any) -> Any:
    if not isinstance(value, _Plain):
        return value
    text = str(value)
    if text in _PLAIN:
        return _PLAIN[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return text
