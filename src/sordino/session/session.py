"""Sessions: the only place where data, entropy and budget meet.

Order of work of every release: public parameters, then the public schema, then the charge, then the rows
(docs/explanation/reserve-and-settle.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, final, overload

from sordino.constraints import Number
from sordino.remnants import no_remnants
from sordino.session.counts import CountRequest, CountUnitsRequest, HistogramRequest
from sordino.session.request import Progress
from sordino.session.results import AboveItems, Count, Histogram, TopItems, TopSetItems
from sordino.session.session_base import SessionBase

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sordino.estimators import ClippedValue, QuantileValue, QuantileValues, VarianceValue
    from sordino.releases import Values
    from sordino.session.bounded_total import BoundedValue
    from sordino.session.local import Reported
    from sordino.session.noise_choice import MeasureNoise
    from sordino.session.table_numbers import Groups


@final
class Session(SessionBase):
    """Private releases about one table, each charged to a ledger before a row is read.

    Parameters
    ----------
    source : str, path, DuckDB relation or frame
        A path, a glob or a folder of CSV, JSON lines or Parquet, a folder of Delta, "duckdb:FILE#TABLE",
        "excel:FILE#SHEET", "postgresql://USER@HOST/DATABASE#TABLE", "sc://HOST:PORT#CATALOG.SCHEMA.TABLE", a
        DuckDB relation, or a pandas, Polars, Spark or Arrow frame.
    unit : PrivacyUnit
        Whom the guarantee protects.
    ledger : Ledger or None
        The account to charge; its unit, source and adjacency must be those of the session. None, if that is
        written: nothing is remembered. It must be given unless the entropy is simulated, when nothing real is
        released.
    entropy : Entropy
        `SYSTEM`, or `Seeded(n)` for synthetic sources: such results say `simulated=True` and no ledger takes
        them.
    csv : CsvFormat, optional
        How a CSV source is written, and which columns JSON lines have; nothing is ever guessed from rows.
    name : str, optional
        What the ledger calls a source that has no path (frames and relations); its account is made with
        source="name:NAME".
    memory_limit : int or str, optional
        How many bytes of memory the engine may use, at least 512 MiB, such as "2GB"; what is beyond goes to a
        private folder of the system's temporary folder. 4 GiB for each of two engines unless said. Not for
        servers.
    temp_limit : int or str, optional
        How many bytes it may write there, at least 512 MiB, such as "50GB". What is not free there is refused
        before each charge; a release that needs more than it was given ends after its charge. Not for
        servers.

    Raises
    ------
    DataSourceError, UnsupportedBackend
        If the source cannot be opened.
    SimulatedRelease
        If seeded entropy is combined with a ledger.
    InvalidParameter
        If the unit, the ledger or the entropy is none, nothing is said about the ledger and noise is real, or
        a table in memory that is charged has no name.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> orders = pl.DataFrame({"customer": ["a", "b", "c", "a"], "product": ["tea", "tea", "tea", "rice"]})
    >>> with sd.Session(orders, unit=sd.PrivacyUnit("customer"), entropy=sd.Seeded(7)) as session:
    ...     top = session.top_k("product", k=1, epsilon=8, domain=["coffee", "rice", "tea"])
    >>> [row.item for row in top]
    ['tea']
    """

    @overload
    def top_k(
        self,
        item: str,
        *,
        k: int,
        epsilon: Number,
        domain: Any,
        threshold: Number | None = ...,
        where: str | None = ...,
        selection_share: Number | None = ...,
        noise: Literal["exponential", "laplace", "gumbel"] | None = ...,
        measure_noise: MeasureNoise | None = ...,
        simultaneous: bool = ...,
        as_set: Literal[False] = ...,
        method: Literal["gaps", "histogram"] | None = ...,
        kth_count: Number | None = ...,
        progress: Progress | None = ...,
    ) -> TopItems: ...

    @overload
    def top_k(
        self,
        item: str,
        *,
        k: int,
        epsilon: Number,
        domain: Any,
        where: str | None = ...,
        selection_share: Number | None = ...,
        measure_noise: MeasureNoise | None = ...,
        simultaneous: bool = ...,
        as_set: Literal[True],
        progress: Progress | None = ...,
    ) -> TopSetItems: ...

    @no_remnants
    def top_k(
        self,
        item: str,
        *,
        k: int,
        epsilon: Number,
        domain: Any,
        threshold: Number | None = None,
        where: str | None = None,
        selection_share: Number | None = None,
        noise: Literal["exponential", "laplace", "gumbel"] | None = None,
        measure_noise: MeasureNoise | None = None,
        simultaneous: bool = False,
        as_set: bool = False,
        method: Literal["gaps", "histogram"] | None = None,
        kth_count: Number | None = None,
        progress: Progress | None = None,
    ) -> TopItems | TopSetItems:
        """Release the `k` items of a public domain that the most units touch, with estimates and intervals.

        With a threshold only items that lie above it are released, at most `k`; of what selects them the
        unspent part returns to a pure ledger. If there is none, nothing is measured, and that part returns as
        well.

        Parameters
        ----------
        item : str
            Column of labels.
        k : int
            How many, at most the size of the domain (of a range 2^20).
        epsilon : number
            Budget of the whole release: `selection_share` of it chooses the items, the rest measures them.
        domain : Domain or list of labels
            Which labels can be released. Items of the domain that the data lack take part with count 0; other
            labels are dropped.
        threshold : number, optional
            Public threshold of the counts.
        where : str, optional
            A row predicate (docs/decisions/0005-predicates.md).
        selection_share : number, optional
            In (0, 1); of a set, and where nobody listed the labels, it may be 1, and then nothing is
            measured. None: 0.5, or 0.7 where nobody listed the labels.
        noise : {"exponential", "laplace", "gumbel"}, optional
            Noise of the selection. The first two have a pure epsilon, and gaps at no extra cost. Gumbel noise
            has no gaps; on an account with a delta, and on a zCDP account, it selects better for what is
            paid. None: "exponential", or "gumbel" where the account gets more from it.
        measure_noise : {"laplace", "gaussian"}, optional
            Noise of the measurement, as `noise` of `count`.
        simultaneous : bool
            Whether the intervals of all rows hold together with 95 %, instead of each by itself.
        as_set : bool
            Whether to choose the set of the k largest at once (`JointTopK`), without order and gaps: k is at
            most 4096, and there is no threshold and no `noise`. It finds more of the k largest where the k-th
            is at least about 4k over the epsilon that chooses, and can be far worse below:
            docs/how-to/choose-a-selection.md.
        method : {"gaps", "histogram"}, optional
            "gaps" selects with one-sided or Gumbel noise, whose size grows with k, and then measures.
            "histogram" counts all items with noise whose size grows with how many items a unit counts for,
            and releases the best with these counts: all of epsilon does both. None: the one that confuses
            items less, by k, `max_rows` (1 where each row is a unit), the size of the domain and the
            selection share.
        kth_count : number, optional
            Where nobody listed the labels: about how large the k-th count is, a public guess, such as that of
            last year's release. Of the ways that would find it the one with the least noise is taken; without
            a guess, the one with the least threshold and noise together. `why` of the release tells.
        progress : callable, optional
            Called with percentages while the engine works.

        Returns
        -------
        TopItems or TopSetItems
            Rows with rank, item, estimate, low, high, gap, true_low, true_high, measured, combined,
            order_unclear. Of a set, in the order of the domain: item, estimate, low, high, true_low,
            true_high, measured.

        Raises
        ------
        InvalidParameter, UnsafePredicate, UnknownDomain
            Before the charge, about public parameters.
        BudgetExceeded, LedgerConflict
            Before any row is read.
        DataSourceError
            One constant sentence if the engine fails after the charge.
        """
        from sordino.session.top_k import TopKRequest  # noqa: PLC0415 - counts need not load it

        return self._do(
            TopKRequest(
                item=item,
                k=k,
                epsilon=epsilon,
                domain=domain,
                threshold=threshold,
                where=where,
                selection_share=selection_share,
                noise=noise,
                measure_noise=measure_noise,
                simultaneous=simultaneous,
                as_set=as_set,
                method=method,
                kth_count=kth_count,
            ),
            progress,
        )

    @no_remnants
    def above(
        self,
        item: str,
        *,
        threshold: Number,
        positives: int,
        epsilon: Number,
        domain: Any,
        where: str | None = None,
        adaptive: bool = False,
        measure_share: Number | None = None,
        noise: Literal["exponential", "laplace", "gumbel"] | None = None,
        measure_noise: MeasureNoise | None = None,
        split: Number | Literal["variance", "success"] | None = None,
        correction: Number | Literal["optimal"] | None = None,
        correction_run: int | None = None,
        correction_margin: Number | None = None,
        simultaneous: bool = False,
        method: Literal["gaps", "histogram"] | None = None,
        progress: Progress | None = None,
    ) -> AboveItems:
        """Release which items of a public domain more than `threshold` units touch.

        Where a unit has few items all of them are counted with noise, and those that reach the threshold are
        released with these counts; that costs epsilon, whatever is found. Else they are asked one after the
        other, in the order of the domain.

        Then an item that is not found costs nothing, and what was not found returns to a pure ledger. It ends
        when enough was found: items further back in the domain are then not asked (`asked`, `complete`). If
        the largest ones matter most, use `top_k`.

        Parameters
        ----------
        item : str
            Column of labels.
        threshold : number
            Public threshold of the counts.
        positives : int
            After so many it stops (in a range at most 2^20); with `adaptive` it finds at least so many before
            it stops, if they are there.
        epsilon : number
            Budget of the whole release.
        domain : Domain or list of labels
            Which labels can be released, as for `top_k`.
        where : str, optional
            A row predicate.
        adaptive : bool
            Whether items far above the threshold may be found by a cheaper test, so that more can be.
        measure_share : number, optional
            In (0, 1): share of epsilon for a fresh measurement of what was found, with intervals; unspent if
            nothing was. None: the gaps alone give estimates and lower bounds, at no extra cost.
        noise : {"exponential", "laplace", "gumbel"}, optional
            As for `top_k`. Gumbel noise needs `measure_share`: it has no gaps.
        measure_noise : {"laplace", "gaussian"}, optional
            Noise of the measurement, as `noise` of `count`.
        split, correction, correction_margin : optional
            As for `SparseVector` and `AdaptiveSparseVector`. Without a correction each item below the
            threshold has its own chance of being found by noise: for a domain of many items of which few lie
            above, ask for correction="optimal".
        correction_run : int, optional
            How many items below come before one above; the size of the domain over `positives` if it is not
            given but needed, unless the domain is only assumed to be public.
        simultaneous : bool
            As for `top_k`.
        method : {"gaps", "histogram"}, optional
            "gaps" asks one item after the other, by a sparse vector that stops after `positives`. "histogram"
            counts all of them with noise whose size grows with how many items a unit counts for, and releases
            all that reach the threshold. None: the one with less noise, by `positives`, `max_rows` (1 where
            each row is a unit) and the share for the search.
        progress : callable, optional
            Called with percentages while the engine works.

        Returns
        -------
        AboveItems
            Rows with item, gap, branch, estimate, low, high, true_low, true_high, in the order of the domain.

        Raises
        ------
        InvalidParameter, UnsafePredicate, UnknownDomain, BudgetExceeded, LedgerConflict, DataSourceError
            As for `top_k`.
        """
        from sordino.session.above import AboveRequest  # noqa: PLC0415 - counts need not load it

        return self._do(
            AboveRequest(
                item=item,
                threshold=threshold,
                positives=positives,
                epsilon=epsilon,
                domain=domain,
                where=where,
                adaptive=adaptive,
                measure_share=measure_share,
                noise=noise,
                measure_noise=measure_noise,
                split=split,
                correction=correction,
                correction_run=correction_run,
                correction_margin=correction_margin,
                simultaneous=simultaneous,
                method=method,
            ),
            progress,
        )

    @no_remnants
    def histogram(
        self,
        item: str,
        *,
        epsilon: Number,
        domain: Any,
        where: str | None = None,
        bounds: tuple[Number, Number] | None = None,
        noise: MeasureNoise | None = None,
        simultaneous: bool = False,
        progress: Progress | None = None,
    ) -> Histogram:
        """Release the count of distinct units of every item of a public domain.

        One unit can touch every item of the domain, so the noise grows with its size, unless the unit is a
        row or `max_rows` bounds how many items a unit counts for. Parameters and errors as for `top_k`.

        Parameters
        ----------
        bounds : tuple of number, optional
            A declared range (low, high) of every count, as for `count`.
        noise : {"laplace", "gaussian"}, optional
            As for `count`. With many counts Gaussian noise is far smaller.
        """
        return self._do(
            HistogramRequest(
                item=item,
                epsilon=epsilon,
                domain=domain,
                where=where,
                bounds=bounds,
                noise=noise,
                simultaneous=simultaneous,
            ),
            progress,
        )

    @no_remnants
    def count(
        self,
        *,
        epsilon: Number,
        where: str | None = None,
        bounds: tuple[Number, Number] | None = None,
        noise: MeasureNoise | None = None,
        progress: Progress | None = None,
    ) -> Count:
        """Release the number of rows.

        With a unit column this needs `PrivacyUnit(..., max_rows=M)`: each unit counts for at most M.

        Parameters
        ----------
        epsilon : number
            Budget of the release.
        where : str, optional
            A row predicate.
        bounds : tuple of number, optional
            A declared range (low, high), public: the count is published within a slightly wider one,
            `output_range`, and unbiased wherever it lies in the declared range. A count beyond is moved to
            its nearer end by rule (`FoldedMechanism`).
        noise : {"laplace", "gaussian"}, optional
            Laplace noise has a pure epsilon, Gaussian noise has none. On an account with a delta, and on a
            zCDP account, it costs as much as Laplace noise of this `epsilon` is worth there. None: Gaussian
            where its interval is shorter; on a pure account, and without one, Laplace.
        progress : callable, optional
            Called with percentages while the engine works.

        Raises
        ------
        UnboundedContribution
            If nothing bounds the rows of one unit.
        InvalidParameter
            Before the charge, also if the bounds are less apart than one unit can move the count.

        Examples
        --------
        >>> import polars as pl
        >>> import sordino as sd
        >>> frame = pl.DataFrame({"x": [1] * 40})
        >>> session = sd.Session(frame, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(7))
        >>> rows = session.count(epsilon=1, bounds=(0, 100))
        >>> [round(end, 2) for end in rows.output_range], 30 < rows.estimate < 50
        ([-0.58, 100.58], True)
        """
        return self._do(CountRequest(epsilon=epsilon, where=where, bounds=bounds, noise=noise), progress)

    @no_remnants
    def count_distinct_units(
        self,
        *,
        epsilon: Number,
        where: str | None = None,
        bounds: tuple[Number, Number] | None = None,
        noise: MeasureNoise | None = None,
        progress: Progress | None = None,
    ) -> Count:
        """Release the number of distinct units. Parameters as for `count`."""
        return self._do(CountUnitsRequest(epsilon=epsilon, where=where, bounds=bounds, noise=noise), progress)

    @no_remnants
    def quantile(
        self,
        column: str,
        *,
        q: Number | Sequence[Number],
        epsilon: Number,
        lower: Number | None,
        cap: Number,
        growth: Number = 1.01,
        unit: Number = 1.0,
        size_hint: int | None = None,
        interval_share: Number | None = 0.5,
        integer: bool = False,
        where: str | None = None,
        by: str | None = None,
        domain: Any = None,
        groups_per_unit: int | None = None,
        most_groups: int | None = None,
        search_share: Number | None = None,
        numbers_share: Number | None = None,
        strict_types: bool = False,
        progress: Progress | None = None,
    ) -> QuantileValue | QuantileValues | Groups:
        """Release a quantile of a column of numbers, or several, without a range to guess.

        With a unit column this needs `PrivacyUnit(..., max_rows=M)`: at most M rows of each unit count (see
        `groups_per_unit`), chosen by their ranks and a secret salt.

        Rows without a number (NULL and NaN alike) do not count, and how many do is private. With `max_rows`
        they are chosen like any other: one without a number takes a place of its unit.

        Parameters
        ----------
        column : str
            A column of whole numbers, decimals or floats; of a CSV source the texts are read as numbers.
        q : number, or list of numbers
            In [0, 1]; several are released together, strictly rising (`Quantiles`).
        epsilon : number
            Budget of the whole release.
        lower : number or None
            Public lower bound; None: values have both signs.
        cap : number
            Public: the largest value that is released. It can be generous.
        interval_share : number or None
            In (0, 1): share of epsilon for an interval of each quantile, in the unit of the column: `low` and
            `high` contain it with 95 %. None: all of epsilon goes to the value, and only its rank error is
            known.
        growth, unit, size_hint, integer : optional
            As for `Quantile`: how fine the edges are, and about how many rows count, as far as that is
            public.
        where : str, optional
            A row predicate.
        by : str, optional
            A column of labels: one release for each label of `domain`.
        domain : Domain or list of labels, optional
            The groups; rows with other labels are dropped.
        groups_per_unit : int, optional
            With `by` and a unit column: each unit counts in at most so many groups G, chosen by a secret
            salt, with at most `max_rows` rows in each, and each group has epsilon / G of the budget. Not
            given: `max_rows` rows of a unit count in all groups together, whichever they are in. Each group
            has the noise of one in which all of these rows are, and none is divided by the number of groups.
            That is better wherever rows of a unit lie in several groups. Under replace-one both take half of
            epsilon. Labels that nobody listed need a number here.
        most_groups : int, optional
            With `Domain.unlisted`, on an account with a delta: at most so many groups are found, those with
            the most units by noisy counts.
        search_share : number, optional
            With `Domain.unlisted`, in (0, 1): share of epsilon that finds the groups; 1/4 unless said.
        numbers_share : number, optional
            In [0, 1): share of epsilon that says how many of the rows that count held a number
            (`numbers_share` of the release). Unless said it is 1/20 where texts are read as numbers, as those
            of a CSV column without a declared type are, and of every column of a pandas frame, in which one
            more row may turn numbers into texts; else 0.
        strict_types : bool
            Refuse such a column instead.
        progress : callable, optional
            Called with percentages while the engine works.

        Returns
        -------
        QuantileValue, QuantileValues or Groups
            For one q, for several, or with `by`: rows with item and release.

        Raises
        ------
        UnboundedContribution
            Before the charge, if nothing bounds the rows of one unit, or its groups.
        InvalidParameter, UnsafePredicate, UnknownDomain, BudgetExceeded, LedgerConflict, DataSourceError
            As for `top_k`.

        Examples
        --------
        >>> import polars as pl
        >>> import sordino as sd
        >>> incomes = pl.DataFrame({"income": [21_000, 34_000, 28_500, 90_000, 45_000] * 400})
        >>> session = sd.Session(incomes, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(7))
        >>> 30_000 < session.quantile("income", q=0.5, epsilon=1, lower=0, cap=1e9).value < 40_000
        True
        """
        from sordino.session.numbers import QuantileRequest  # noqa: PLC0415 - counts need not load it

        return self._do(
            QuantileRequest(
                column=column,
                q=q,
                epsilon=epsilon,
                lower=lower,
                cap=cap,
                growth=growth,
                unit=unit,
                size_hint=size_hint,
                interval_share=interval_share,
                integer=integer,
                where=where,
                by=by,
                domain=domain,
                groups_per_unit=groups_per_unit,
                most_groups=most_groups,
                search_share=search_share,
                numbers_share=numbers_share,
                strict_types=strict_types,
            ),
            progress,
        )

    @no_remnants
    def sum(
        self,
        column: str,
        *,
        epsilon: Number,
        cap: Number,
        lower: Number | None,
        growth: Number = 1.05,
        unit: Number = 1.0,
        where: str | None = None,
        by: str | None = None,
        domain: Any = None,
        groups_per_unit: int | None = None,
        most_groups: int | None = None,
        search_share: Number | None = None,
        numbers_share: Number | None = None,
        strict_types: bool = False,
        bounds: tuple[Number, Number] | None = None,
        noise: MeasureNoise | None = None,
        progress: Progress | None = None,
    ) -> ClippedValue | BoundedValue | Groups:
        """Release the sum of a column of numbers without a bound to guess.

        Where to clip is found privately, then the clipped rows are added.

        Rows without a number do not count. The rows are read once. Rows of a unit, groups and errors as for
        `quantile`.

        Parameters
        ----------
        column : str
            A column of whole numbers, decimals or floats.
        epsilon : number
            Budget of the whole release.
        cap : number
            Public: the largest clip. It can be generous.
        lower : number or None
            Public, at most 0: smaller numbers count as this. None: minus the cap.
        growth, unit : number
            As for `ClippedSum`: how fine the edges are that the clip is taken from.
        where, by, domain, groups_per_unit, most_groups, search_share : optional
            As for `quantile`.
        numbers_share, strict_types, progress : optional
            As for `quantile`.
        bounds : tuple of number, optional
            A declared range (low, high) of the sum, public: then no clip is looked for, each row is moved
            into `lower` and `cap`, which had better be close to the values, and rows are read once. The sum
            is published within a slightly wider range, `output_range`, and unbiased wherever it lies in the
            declared range; a sum beyond is moved to its nearer end by rule.
        noise : {"laplace", "gaussian"}, optional
            Of the sum of clipped rows, as for `count`; the clip is found with pure noise always.

        Returns
        -------
        ClippedValue, BoundedValue (with `bounds`) or Groups
            With `by`: rows with item and release.
        """
        from sordino.session.numbers import SumRequest  # noqa: PLC0415 - counts need not load it

        return self._do(
            SumRequest(
                column=column,
                epsilon=epsilon,
                lower=lower,
                cap=cap,
                growth=growth,
                unit=unit,
                where=where,
                by=by,
                domain=domain,
                groups_per_unit=groups_per_unit,
                most_groups=most_groups,
                search_share=search_share,
                numbers_share=numbers_share,
                strict_types=strict_types,
                bounds=bounds,
                noise=noise,
            ),
            progress,
        )

    @no_remnants
    def mean(
        self,
        column: str,
        *,
        epsilon: Number,
        cap: Number,
        lower: Number | None,
        growth: Number = 1.05,
        unit: Number = 1.0,
        where: str | None = None,
        by: str | None = None,
        domain: Any = None,
        groups_per_unit: int | None = None,
        most_groups: int | None = None,
        search_share: Number | None = None,
        numbers_share: Number | None = None,
        strict_types: bool = False,
        bounds: tuple[Number, Number] | None = None,
        noise: MeasureNoise | None = None,
        progress: Progress | None = None,
    ) -> ClippedValue | BoundedValue | Groups:
        """Release the mean of a column of numbers without a bound to guess.

        It is found as for `sum`, together with the number of rows with a number where that is private.

        Rows without a number do not count, and how many do is private, under replace-one as well. Only where
        no row can be without one it is public, and there is less noise: replace-one, each row a unit, no
        `where`, no `by`, and a column of whole numbers that a table of PostgreSQL or DuckDB declares NOT
        NULL. `lower` may be any number below the cap: the closer to the values, the less noise. Parameters
        and errors as for `sum`.

        With `bounds` the number of rows with a number must be public; anything else is refused. The output
        range tells that number.

        Returns
        -------
        ClippedValue, BoundedValue (with `bounds`) or Groups
            With `by`: rows with item and release.
        """
        from sordino.session.numbers import MeanRequest  # noqa: PLC0415 - counts need not load it

        return self._do(
            MeanRequest(
                column=column,
                epsilon=epsilon,
                lower=lower,
                cap=cap,
                growth=growth,
                unit=unit,
                where=where,
                by=by,
                domain=domain,
                groups_per_unit=groups_per_unit,
                most_groups=most_groups,
                search_share=search_share,
                numbers_share=numbers_share,
                strict_types=strict_types,
                bounds=bounds,
                noise=noise,
            ),
            progress,
        )

    @no_remnants
    def variance(
        self,
        column: str,
        *,
        epsilon: Number,
        cap: Number,
        lower: Number | None,
        growth: Number = 1.05,
        unit: Number = 1.0,
        where: str | None = None,
        by: str | None = None,
        domain: Any = None,
        groups_per_unit: int | None = None,
        most_groups: int | None = None,
        search_share: Number | None = None,
        numbers_share: Number | None = None,
        strict_types: bool = False,
        progress: Progress | None = None,
    ) -> VarianceValue | Groups:
        """Release the variance and the standard deviation of a column without a bound to guess.

        It is found as for `mean`, from totals of squares under one charge. Rows without a number
        do not count. Parameters and errors as for `mean`.

        Returns
        -------
        VarianceValue or Groups
            With `by`: rows with item and release.

        Examples
        --------
        >>> import polars as pl
        >>> import sordino as sd
        >>> ages = pl.DataFrame({"age": [20, 35, 50, 65, 80] * 400})
        >>> session = sd.Session(ages, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(7))
        >>> spread = session.variance("age", epsilon=1, lower=0, cap=1000)
        >>> 15 < spread.standard_deviation < 27
        True
        """
        from sordino.session.numbers import VarianceRequest  # noqa: PLC0415 - counts need not load it

        return self._do(
            VarianceRequest(
                column=column,
                epsilon=epsilon,
                lower=lower,
                cap=cap,
                growth=growth,
                unit=unit,
                where=where,
                by=by,
                domain=domain,
                groups_per_unit=groups_per_unit,
                most_groups=most_groups,
                search_share=search_share,
                numbers_share=numbers_share,
                strict_types=strict_types,
            ),
            progress,
        )

    @no_remnants
    def randomize(
        self,
        column: str,
        *,
        lower: Number,
        upper: Number,
        epsilon: Number,
        activation: str = "mixture",
        tuned_for: str | Number = "worst",
        write: Callable[[NDArray[np.float64]], None] | None = None,
        progress: Progress | None = None,
    ) -> Values | Reported:
        """Release one report for every record of a column, each with noise of its own: local privacy.

        The number of records and their order are public, and with a unit column which of them are of one
        unit; the unit's adjacency must be "replace-one". No record is dropped. One without a number counts as
        the middle of the range, and so do those of a unit after its first `max_rows`, and those without a
        unit. Numbers beyond the range count as its nearer end. `mean_of_reports` averages reports.

        Parameters
        ----------
        column : str
            A column of whole numbers, decimals or floats; of a CSV source the texts are read as numbers, and
            every line is a record.
        lower, upper : number
            Public range of the numbers.
        epsilon : number
            Budget of each report, in (0, 20]. The release costs a unit with M records M times as much.
        activation, tuned_for : optional
            As for `CompositeMechanism`; "mixture" has the least variance at the worst value.
        write : callable, optional
            Handed the reports of each block of records as an array; then they are not kept, and memory stays
            constant (but for a count for each unit of a column).
        progress : callable, optional
            Called with percentages while records are read.

        Returns
        -------
        Values, or Reported with `write`
            The reports, in the order of the records.

        Raises
        ------
        InvalidParameter, UnboundedContribution
            Before the charge, also for sources without an order (a server, a relation).
        BudgetExceeded, LedgerConflict, DataSourceError
            As for `top_k`.

        Examples
        --------
        >>> import polars as pl
        >>> import sordino as sd
        >>> ages = pl.DataFrame({"age": [20 + i % 60 for i in range(1000)]})
        >>> session = sd.Session(ages, unit=sd.PrivacyUnit.row(adjacency="replace-one"), entropy=sd.Seeded(7))
        >>> reports = session.randomize("age", lower=0, upper=100, epsilon=2)
        >>> reports.values.shape, reports.cost
        ((1000,), Pure(epsilon=2))
        """
        from sordino.session.local import RandomizeRequest  # noqa: PLC0415 - counts need not load it

        return self._do(
            RandomizeRequest(
                column=column,
                lower=lower,
                upper=upper,
                epsilon=epsilon,
                activation=activation,
                tuned_for=tuned_for,
                write=write,
            ),
            progress,
        )
