"""What leaves the building: results that know their mechanism, their cost and whether they are real."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.cost import Cost


def plain(value: Any) -> Any:
    """Return `value` as JSON-ready Python: arrays as lists, fractions as floats, NaN as None."""
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value.tolist()]
    if isinstance(value, Fraction):
        return float(value) if value.denominator > 1 else int(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value.to_dict() if hasattr(value, "to_dict") else value


def parameters(mechanism: Any) -> dict[str, Any]:
    """Return the public parameters of a mechanism, by name."""
    return {field.name: getattr(mechanism, field.name) for field in fields(mechanism)}


def pictured(thing: Any, shown: dict[str, Any]) -> str:
    """Return the one-line picture `Name(field=value, ...)` of public values."""
    return f"{type(thing).__name__}({', '.join(f'{name}={_short(value)}' for name, value in shown.items())})"


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        listed = [f"{x:g}" if isinstance(x, float) else str(x) for x in value[:6].tolist()]
        return "[" + ", ".join([*listed, *(["..."] if value.size > 6 else [])]) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value) if isinstance(value, Fraction) else repr(value)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Release:
    """What every release says of itself.

    Attributes
    ----------
    mechanism : object
        The mechanism with its public parameters.
    cost : Cost
        What was really spent.
    simulated : bool
        True if the noise came from a seed: such a result protects nobody and no ledger settles it.
    exact : bool
        False for the few continuous laws whose guarantee holds in ideal arithmetic only.
    """

    mechanism: Any
    cost: Cost
    simulated: bool
    exact: bool = True

    def __repr__(self) -> str:
        return pictured(self, {"simulated": True} | self._own() if self.simulated else self._own() | {"cost": self.cost})

    def _own(self) -> dict[str, Any]:
        common = {field.name for field in fields(Release)}
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in common}

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready values."""
        mechanism = {"name": type(self.mechanism).__name__} | plain(parameters(self.mechanism))
        return {
            "type": type(self).__name__,
            **plain(self._own()),
            "mechanism": mechanism,
            "cost": self.cost.to_dict(),
            "simulated": self.simulated,
            "exact": self.exact,
        }


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Value(Release):
    """One released number.

    Attributes
    ----------
    value : float
        In the unit of the answer.
    standard_error : float
        Standard deviation of the noise, in the unit of the answer.
    """

    value: float
    standard_error: float


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Values(Release):
    """Several numbers released together.

    Attributes
    ----------
    values : array of float, shape (n,)
        In the unit of the answers.
    standard_error : float
        Standard deviation of the noise of each, in the unit of the answers.
    """

    values: NDArray[np.float64]
    standard_error: float


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TopK(Release):
    """The items with the largest noisy answers, best first.

    Attributes
    ----------
    indices : array of int, shape (k,)
        Positions in the list of answers (in the domain, where a domain size was given).
    gaps : array of float, shape (min(k, n - 1),)
        How far each item lies above the next one, noise included, in the unit of the answers; all at least 0. The last one is the
        margin over the best item that was not selected.
    """

    indices: NDArray[np.int64]
    gaps: NDArray[np.float64]
