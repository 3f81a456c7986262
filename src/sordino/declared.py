"""Declares public parameters once.

The check and the meaning of each stand beside its name, nowhere else.

A class that derives from `Declared` lists its parameters as fields. From that list come the
constructor and its signature, the checks and their messages, the picture (`repr`), equality,
`dataclasses.replace`, and the section "Parameters" of its documentation.
"""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
from fractions import Fraction
from typing import Any, Literal, Protocol, TypeVar, cast, dataclass_transform

from sordino.constraints import Check
from sordino.releases import parameters, short_repr

Given_contra = TypeVar("Given_contra", contravariant=True)
Kept_co = TypeVar("Kept_co", covariant=True)


class Converted(Protocol[Given_contra, Kept_co]):
    """The type of a parameter given as one type and kept as another: `Converted[given, kept]`.

    It tells type checkers what the constructor takes and what the attribute is. It does nothing
    when a program runs.
    """

    def __get__(self, owner: object, kind: object = None) -> Kept_co:
        """Tell what the attribute is."""
        ...

    def __set__(self, owner: object, value: Given_contra) -> None:
        """Tell what the constructor takes."""


def parameter(
    check: Check,
    meaning: str,
    *,
    more: str = "",
    default: Any = dataclasses.MISSING,
    kw_only: bool = True,
    beside: bool = False,
) -> Any:
    """Declare a public parameter.

    Parameters
    ----------
    check : callable
        Called with the full name (`Class.parameter`) and the value: returns the value to keep, or
        raises `InvalidParameter`. A `Constraint` is one.
    meaning : str
        What it means, for the documentation and the help of an option; what it must satisfy is said
        by the check.
    more : str
        What the documentation says beside that.
    default : object, optional
        Without one the parameter must be given.
    kw_only : bool
        False where it may be given without its name.
    beside : bool
        Whether it is no part of what is asked: it stands behind all others where they are listed,
        and objects that differ in nothing else are equal.
    """
    about = {"check": check, "meaning": meaning, "more": more, "beside": beside}
    return dataclasses.field(default=default, kw_only=kw_only, compare=not beside, metadata=about)


def derived(meaning: str, *, init: Literal[False] = False) -> Any:
    """Declare a public attribute that follows from the parameters; `derive` sets it."""
    return dataclasses.field(init=init, metadata={"meaning": meaning})


@dataclass_transform(
    kw_only_default=True, frozen_default=True, field_specifiers=(parameter, derived)
)
class Declared:
    """A frozen object with public parameters, all of them checked when it is made."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclasses.dataclass(frozen=True, kw_only=True, repr=False)(cls)
        # The fields hold what each parameter means; the documentation repeats it from there.
        cls.__doc__ = documented(cls)

    def __post_init__(self) -> None:
        # Each subclass is a dataclass, which mypy cannot see.
        for one in dataclasses.fields(cast("Any", self)):
            if one.init:
                given = getattr(self, one.name)
                checked = one.metadata["check"](f"{self.spoken}.{one.name}", given)
                # A number stays as it was given: 0.1 is shown as 0.1.
                # Code that computes with it asks `exact` what it means.
                self._set(**{one.name: given if isinstance(checked, Fraction) else checked})
        # Only now is each parameter known to satisfy its own rule.
        self.derive()

    @property
    def spoken(self) -> str:
        """How messages name the object."""
        return type(self).__name__

    def derive(self) -> None:
        """Check what several parameters must satisfy together, and set what follows from them."""

    def _set(self, **values: Any) -> None:
        """Set fields while the object is made."""
        for name, value in values.items():
            # The class is frozen, so the usual assignment would raise.
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return short_repr(self, parameters(self))


def list_parameters(cls: type) -> list[dataclasses.Field[Any]]:
    """Return the public parameters of a class in the order in which they are listed.

    What may be given without its name stands first, then what must be given.
    """
    return sorted(
        (one for one in dataclasses.fields(cls) if one.init),
        key=lambda one: (
            one.kw_only,
            one.default is not dataclasses.MISSING,
            one.metadata.get("beside", False),
        ),
    )


def documented(cls: type) -> str:
    """Return the documentation of a class with the sections about its parameters and attributes.

    They stand before the first section that the class wrote itself.
    """
    listed = dataclasses.fields(cls)
    sections = [
        _write_section("Parameters", list_parameters(cls)),
        _write_section("Attributes", [one for one in listed if not one.init]),
    ]
    text = inspect.cleandoc(cls.__doc__ or "")
    lines = text.splitlines()
    # A section begins one line above its row of dashes.
    rules = [number for number, line in enumerate(lines) if line and set(line) == {"-"}]
    place = rules[0] - 1 if rules else len(lines)
    parts = ["\n".join(lines[:place]).rstrip(), *filter(None, sections), "\n".join(lines[place:])]
    return "\n\n".join(filter(None, parts)) + "\n"


def _write_section(title: str, listed: list[dataclasses.Field[Any]]) -> str:
    """Return a section of documentation, one entry a field; nothing if there is none."""
    if not listed:
        return ""
    lines = [title, "-" * len(title)]
    for one in listed:
        says = getattr(one.metadata.get("check"), "says", None)
        kind = str(one.type) if says is None else says.removeprefix("a ").removeprefix("an ")
        optional = ", optional" if one.default is not dataclasses.MISSING else ""
        lines.append(f"{one.name} : {kind.replace('Number', 'number')}{optional}")
        about = f"{one.metadata['meaning']} {one.metadata.get('more', '')}"
        lines += textwrap.wrap(
            about, width=96, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False
        )
    return "\n".join(lines)
