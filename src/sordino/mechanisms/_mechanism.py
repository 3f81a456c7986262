"""What every mechanism is: public parameters that are declared once, and a cost that follows from them."""

from __future__ import annotations

from typing import ClassVar

from sordino.declared import Declared


class Mechanism(Declared):
    """A private algorithm with public parameters.

    Attributes
    ----------
    exact : bool
        True if the law that the audit enumerates is the law that is sampled; False where the guarantee holds in ideal
        arithmetic only.
    """

    exact: ClassVar[bool] = True
