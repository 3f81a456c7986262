"""JSON Schema 2020-12, as far as `release.schema.json` uses it; a word of a schema that is not known here is refused."""

from __future__ import annotations

import re

TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "number": (int, float),
    "integer": int,
}
TOLD = {"$schema", "$defs", "title", "description"}


class Invalid(Exception):
    """What is wrong, and where."""


def check(value, schema, root=None, where="$"):
    """Raise `Invalid` unless `value` is as `schema` says; returns the names of the properties that it spoke about."""
    root = schema if root is None else root
    seen = set()
    for word, rule in schema.items():
        if word not in TOLD | {"unevaluatedProperties"}:
            seen |= RULES[word](value, rule, schema, root, where) or set()
    if "unevaluatedProperties" in schema:
        assert schema["unevaluatedProperties"] is False
        _require(set(value) <= seen, where, f"unknown names {sorted(set(value) - seen)}")
        seen |= set(value)
    return seen


def _require(holds, where, words):
    if not holds:
        raise Invalid(f"{where}: {words}")


def _is(value, name):
    # A truth value is no number here, as it is none in JSON.
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def _type(value, rule, schema, root, where):
    names = [rule] if isinstance(rule, str) else rule
    _require(any(_is(value, name) for name in names), where, f"{value!r} is no {names}")


def _same(value, other):
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _ref(value, rule, schema, root, where):
    part = root
    for step in rule.removeprefix("#/").split("/"):
        part = part[step]
    return check(value, part, root, where)


def _one_of(value, rule, schema, root, where):
    held, refused = [], []
    for option in rule:
        try:
            held.append(check(value, option, root, where))
        except Invalid as error:
            refused.append(f"{option}: {error}")
    _require(len(held) == 1, where, f"{len(held)} of the forms hold; {refused}")
    return held[0]


def _all_of(value, rule, schema, root, where):
    return set().union(*(check(value, option, root, where) for option in rule))


def _properties(value, rule, schema, root, where):
    if not isinstance(value, dict):
        return set()
    for name in value.keys() & rule.keys():
        check(value[name], rule[name], root, f"{where}.{name}")
    return set(value) & set(rule)


def _additional(value, rule, schema, root, where):
    assert rule is False
    # Of what is no object it says nothing.
    unknown = set(value) - set(schema["properties"]) if isinstance(value, dict) else set()
    _require(not unknown, where, f"unknown names {sorted(unknown)}")


def _items(value, rule, schema, root, where):
    if isinstance(value, list):
        for place, one in enumerate(value):
            check(one, rule, root, f"{where}[{place}]")


def _if(kind, holds):
    """A rule about values of one kind; it says nothing about others."""

    def look(value, rule, schema, root, where):
        if any(_is(value, name) for name in kind):
            _require(holds(value, rule), where, f"{value!r} breaks {rule!r}")

    return look


RULES = {
    "type": _type,
    "const": lambda value, rule, schema, root, where: _require(
        _same(value, rule), where, f"{value!r} is not {rule!r}"
    ),
    "enum": lambda value, rule, schema, root, where: _require(
        any(_same(value, one) for one in rule), where, f"{value!r} is none of {rule}"
    ),
    "$ref": _ref,
    "oneOf": _one_of,
    "allOf": _all_of,
    "properties": _properties,
    "additionalProperties": _additional,
    "items": _items,
    "required": _if(("object",), lambda value, rule: set(rule) <= set(value)),
    "minimum": _if(("number",), lambda value, rule: value >= rule),
    "maximum": _if(("number",), lambda value, rule: value <= rule),
    "exclusiveMinimum": _if(("number",), lambda value, rule: value > rule),
    "exclusiveMaximum": _if(("number",), lambda value, rule: value < rule),
    "minItems": _if(("array",), lambda value, rule: len(value) >= rule),
    "maxItems": _if(("array",), lambda value, rule: len(value) <= rule),
    "pattern": _if(("string",), lambda value, rule: re.search(rule, value) is not None),
}
