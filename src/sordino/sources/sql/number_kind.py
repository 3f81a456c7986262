"""Columns that hold numbers.

What their declared types can hold, and the least value that reaches an edge.

Every value is a real number, or missing, or one of NaN and the infinities of floats. It is compared
with edges exactly. For that an edge is rounded up, publicly, to the next number that the type of
the column can hold. So the two sides of a comparison have one type.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, Context, Decimal
from fractions import Fraction
from typing import final

from sordino.sources.csv.column_types import Marks

# Without UHUGEINT, which is beyond the type in which sums are added up.
WHOLE_NUMBER_TYPE = re.compile(r"(U?)(TINY|SMALL|BIG)?INT(?:EGER)?|()(HUGE)INT")
_DECIMAL_TYPE = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_FLOAT_TYPES = {"FLOAT": 24, "DOUBLE": 53}
_BITS_OF_TYPE = {"TINY": 8, "SMALL": 16, None: 32, "BIG": 64, "HUGE": 128}
_EXACT_DECIMALS = Context(prec=MAX_PREC, Emax=MAX_EMAX)


@final
@dataclass(frozen=True)
class NumberKind:
    """The numbers that a column may hold.

    Parameters
    ----------
    name : str
        The type in which its values are compared, in the words of the embedded engine.
    text : bool
        Whether the column holds texts, of which each is read as a number or is missing.
    scale : int or None
        Digits after the point; 0 for whole numbers, None for floats.
    smallest, largest : int
        Ends of the range, times 10^scale; 0 for floats and for NUMERIC, which have none.
    truth : bool
        Whether texts may be truth values; true counts as 1 and false as 0.
    marks : Marks or None
        By which marks numbers are written as texts; None: with a decimal point.
    """

    name: str
    text: bool
    scale: int | None
    smallest: int = 0
    largest: int = 0
    truth: bool = False
    marks: Marks | None = None

    def cut(self, edge: float | Fraction) -> str | None:
        """Return the least number of the kind that is at or above an edge, as text.

        None if there is none.

        Parameters
        ----------
        edge : float or Fraction
            Public; for floats a number that a float can hold.
        """
        if self.scale is None:
            return repr(float(edge))
        # Rounded up: a value of the type is at or above the
        # edge exactly if it is at or above the rounded one.
        whole = math.ceil(Fraction(edge) * 10**self.scale)
        if whole > self.largest:
            return None
        # An edge below the type becomes its smallest value,
        # which every value reaches. `_EXACT_DECIMALS` drops no digit.
        return format(Decimal(max(whole, self.smallest)).scaleb(-self.scale, _EXACT_DECIMALS), "f")


def number_kind(
    declared: str, *, text: bool, inferred: bool = False, marks: Marks | None = None
) -> NumberKind | None:
    """Return the kind of a declared type, or None if its values are no numbers.

    Parameters
    ----------
    declared : str
        In the words of the engine.
    text : bool
        Whether texts are read as numbers, as those of a CSV file are: there is no other type.
    inferred : bool
        Whether other values may have decided the type, as in pandas. Then truth values are numbers,
        because one missing value makes texts of them. And whole numbers of 64 bits are floats,
        because one text makes texts of all of them, and texts are read as floats.
    marks : Marks or None
        By which marks numbers are written as texts; None: with a decimal point.
    """
    # Whole numbers of 64 bits of pandas are read as floats (docs/explanation/frames.md).
    if declared in _FLOAT_TYPES or (inferred and declared in {"BIGINT", "UBIGINT"}):
        return NumberKind("DOUBLE", text=False, scale=None)
    # A type of a server that takes any number of digits, and computes with all of them. It has no
    # ends, and nobody asks for them: the server is sent edges with all their digits, and not what
    # `cut` returns.
    if declared == "NUMERIC":
        return NumberKind(declared, text=False, scale=0)
    if declared == "VARCHAR" and text:
        return NumberKind("DOUBLE", text=True, scale=None, truth=inferred, marks=marks)
    if declared == "BOOLEAN" and inferred:
        declared = "TINYINT"
    if whole := WHOLE_NUMBER_TYPE.fullmatch(declared):
        unsigned, bits = bool(whole[1]), _BITS_OF_TYPE[whole[2] or whole[4]]
        # Two's complement: there is one negative number more than there are positive ones.
        ends = (0, (1 << bits) - 1) if unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        return NumberKind(declared, False, 0, *ends)
    if decimal := _DECIMAL_TYPE.fullmatch(declared):
        # All digits are nines. The ends are counted without the point, as `scale` says.
        most = 10 ** int(decimal[1]) - 1
        return NumberKind(
            f"DECIMAL({decimal[1]},{decimal[2]})", False, int(decimal[2]), -most, most
        )
    return None
