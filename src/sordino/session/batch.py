"""Several releases that are charged together: all of them fit, or nothing is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

from sordino.cost import Cost, compose
from sordino.errors import InvalidParameter
from sordino.session.desk import Started
from sordino.session.request import Progress


@final
class Pending:
    """A release of a batch: when the batch is left it stands for the release itself.

    Attributes
    ----------
    result : object
        The release, such as `TopItems`; every attribute of it can be had from here too.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> orders = pl.DataFrame({"customer": ["a", "b", "c", "a"], "product": ["tea", "tea", "tea", "rice"]})
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
        """The release; raises `InvalidParameter` while the batch is open or if it ended by an error."""
        if not self._held:
            raise InvalidParameter(
                "A release of a batch can be used after its `with` block has ended without an error."
            )
        return self._held[0]

    def __getattr__(self, name: str) -> Any:
        # Python asks for such names by itself, to copy or to pickle: they are not those of the release.
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.result, name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.result)

    def __len__(self) -> int:
        return len(self.result)

    def fill(self, release: Any) -> None:
        """Take the release."""
        self._held.append(release)


@final
class Batch:
    """What `Session.batch` plans.

    Attributes
    ----------
    cost : Cost
        What all of it costs together. Its list is fixed, so the tight views hold: `batch.cost.epsilon(1e-6)`.
    """

    __slots__ = ("asked",)

    def __init__(self) -> None:
        self.asked: list[tuple[Started[Any], Progress | None, Pending]] = []

    def __repr__(self) -> str:
        return f"Batch({', '.join(started.name for started, _, _ in self.asked)})"

    @property
    def cost(self) -> Cost:
        """What all of it costs together."""
        return compose(
            *(
                # Mechanisms are reserved, or a cost where the mechanism is known only after the charge.
                part if isinstance(part, Cost) else part.cost
                for started, _, _ in self.asked
                for part in started.reservation.parts
            )
        )

    def add(self, started: Started[Any], progress: Progress | None) -> Pending:
        """Take one more release."""
        pending = Pending()
        self.asked.append((started, progress, pending))
        return pending
