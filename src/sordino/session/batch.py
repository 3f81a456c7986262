"""A release of a batch, before and after the batch has ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

from sordino.errors import InvalidParameter
from sordino.figures import Derivable


@final
class Pending(Derivable):
    """A release of a batch: when the batch is left it stands for the release itself.

    Attributes
    ----------
    result : object
        The release, such as `TopItems`; every attribute of it can be had from here too.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> orders = pl.DataFrame({"customer": ["a", "b", "c", "a"],
    ...                        "product": ["tea", "tea", "tea", "rice"]})
    >>> session = sd.Session(orders, unit=sd.PrivacyUnit("customer"), entropy=sd.Seeded(7))
    >>> with session.batch() as batch:
    ...     top = session.top_k("product", k=1, epsilon=8, domain=["coffee", "rice", "tea"])
    ...     customers = session.count_distinct_units(epsilon=4)
    >>> batch.cost.pure(), [row.item for row in top]
    (Fraction(12, 1), ['tea'])
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        # Empty until the batch has ended; a release may be any object, so none can mean "not yet".
        self._held: list[Any] = []

    def __repr__(self) -> str:
        return repr(self._held[0]) if self._held else "Pending()"

    @property
    def result(self) -> Any:
        """The release; raises `InvalidParameter` while the batch is open or if it failed."""
        if not self._held:
            raise InvalidParameter(
                "A release of a batch can be used after its `with` block has ended without an "
                "error."
            )
        return self._held[0]

    def __getattr__(self, name: str) -> Any:
        # Python asks for such names by itself, to copy or to pickle: they are not those of the
        # release.
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.result, name)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        # By its own name: Python looks for it on the class.
        return self.result.__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.result)

    def __len__(self) -> int:
        return len(self.result)

    def fill(self, release: Any) -> None:
        """Take the release."""
        self._held.append(release)
