"""`sordino select --statistic tdt`: the most significant markers, from counts in families.

Before the charge it is known how many markers there are, and so how likely the best one is
selected. Where it would be little better than a random one, nothing is charged, unless somebody
insists.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, final

import click
from click.core import ParameterSource

from sordino.cli.options import NUMBER, RunOptions, gather, is_quiet, list_given, spell_flags
from sordino.cli.stderr import say
from sordino.cli.table import confirm_epsilon, plan_alone
from sordino.cli.text_options import CsvOptions
from sordino.cli.work import choose_entropy, make_csv_format, open_payer
from sordino.cli.write import open_account, write_release
from sordino.constraints import COUNT, POSITIVE
from sordino.cost import Pure
from sordino.entropy import Entropy
from sordino.errors import DataSourceError, InvalidParameter
from sordino.questions import MarkerFile, open_markers, open_plink
from sordino.record import Record, describe_receipt, list_facts, list_warnings
from sordino.session import Payer
from sordino.sources.csv.packed import unpacked_suffix

# Only for type checkers: a selection from scores needs no genomics.
if TYPE_CHECKING:
    from sordino.genomics import Method

MARKERS = (
    "Markers, their number and their labels, and the number of families are taken as public; only "
    "the counts are private."
)
NO_COUNT = (
    "By rule, all that stands between the public fields of a line are its two counts, and what is "
    "no decimal number (1,5 with a comma is none) counts as 0; how many do is private."
)
NO_PLINK_COUNT = (
    "By rule, all that stands behind CHR, SNP and BP is private, and what is no decimal number in "
    "the place of T or U counts as 0; how many do is private."
)
APPROXIMATE = (
    "NOT EXACT: the guarantee of this noise holds in ideal arithmetic only, as "
    "--allow-approximate accepts."
)
TDT = "tdt"
"""The one statistic that there is."""
PLINK_SUFFIX = ".tdt"
"""What PLINK calls its reports."""
ANY_EPSILON = Fraction(1)
"""Stands for the epsilon of a test for which one is looked for."""
LEAST_SUCCESS = 0.2
"""Where success is smaller, what is selected says little about the families, and has to be insisted
on."""
MODEL = "made-up families without any effect, whose scores are like magnitudes of normal numbers"
"""What success is about (docs/proofs/most-significant.md, "The public design")."""


@final
@dataclass(frozen=True, kw_only=True)
class StatisticOptions:
    """Which statistic computes the scores, and from what."""

    statistic: str | None
    b: str | None
    c: str | None
    families: int | None
    scale: Literal["sqrt", "raw"] | None
    damping: Fraction | None
    allow_approximate: bool
    plink: bool | None
    force: bool


statistic_options = gather(
    "asked",
    StatisticOptions,
    click.option(
        "--statistic",
        type=click.Choice([TDT]),
        help=(
            "Compute the score: tdt, of a transmission disequilibrium test; then --families is "
            "needed."
        ),
    ),
    click.option(
        "--b", metavar="COL", help="With tdt: column of private counts of one allele [default: T]."
    ),
    click.option(
        "--c",
        metavar="COL",
        help="With tdt: column of those of the other one, beside it [default: U].",
    ),
    click.option(
        "--families", type=int, metavar="N", help="With tdt: how many families there are."
    ),
    click.option(
        "--scale",
        type=click.Choice(["sqrt", "raw"]),
        help="With tdt: |b - c|/sqrt(b + c), or its square [default: sqrt].",
    ),
    click.option(
        "--damping",
        type=NUMBER,
        metavar="D",
        help=(
            "With tdt: hold back markers with fewer than D transmissions, which needs less noise "
            "[default: compare the test itself]."
        ),
    ),
    click.option(
        "--allow-approximate",
        is_flag=True,
        help=(
            "With tdt: also consider noise whose guarantee holds in ideal arithmetic only; without "
            "it all noise is exact."
        ),
    ),
    click.option(
        "--plink/--no-plink",
        default=None,
        help="With tdt: the file is a report of plink --tdt [default: if it is called so, .tdt].",
    ),
    click.option(
        "--force",
        is_flag=True,
        help="With tdt: release even where it would hardly be the best marker (success below 0.2).",
    ),
)


@final
@dataclass(frozen=True, kw_only=True)
class MarkerTest:
    """The test of all markers, about families of which one is replaced, and how many are chosen."""

    label: str | None
    k: int
    epsilon: Fraction
    b: str
    c: str
    families: int
    scale: Literal["sqrt", "raw"]
    damping: Fraction | None
    allow_approximate: bool
    plink: bool
    told: bool
    """Whether somebody said that PLINK wrote the file, or that it did not."""
    force: bool
    adjacency: Literal["replace-one"] = "replace-one"


_RECORDED = ("b", "c", "label", "families", "scale", "damping", "k", "allow_approximate")
"""What of a test the ledger keeps."""


def check_no_statistic(asked: StatisticOptions) -> None:
    """Refuse options that go with a statistic where there is none."""
    given = list_given(spell_flags(vars(asked)))
    if given:
        raise InvalidParameter(f"{given[0]} needs --statistic tdt.")


def make_marker_test(
    path: Path,
    asked: StatisticOptions,
    adjacency: str,
    *,
    label: str | None,
    k: int,
    epsilon: Fraction | None,
) -> MarkerTest:
    """Return the test that the options describe, if nothing is missing; a goal has any epsilon."""
    epsilon = ANY_EPSILON if epsilon is None else epsilon
    if asked.families is None:
        raise InvalidParameter(f"--families must be given with --statistic {asked.statistic}.")
    # The name of a file is public.
    plink = unpacked_suffix(path) == PLINK_SUFFIX if asked.plink is None else asked.plink
    if plink:
        _check_no_columns(asked)
    # The default is add-remove: only an adjacency that was asked for is refused.
    if _is_given("adjacency") and adjacency != "replace-one":
        raise InvalidParameter(
            "--adjacency must be replace-one with --statistic: one family is replaced by another."
        )
    # Checked by the names of the options, because epsilon is divided by k before a mechanism sees
    # it.
    POSITIVE("--epsilon", epsilon)
    COUNT("-k", k)
    return MarkerTest(
        label="SNP" if plink and label is None else label,
        k=k,
        epsilon=epsilon,
        # As PLINK calls them, also in other files.
        b="T" if asked.b is None else asked.b,
        c="U" if asked.c is None else asked.c,
        families=asked.families,
        # The default stands here: one of click would look as if --scale had been given.
        scale=asked.scale or "sqrt",
        damping=asked.damping,
        allow_approximate=asked.allow_approximate,
        plink=plink,
        told=asked.plink is not None,
        force=asked.force,
    )


def _is_given(name: str) -> bool:
    """Tell whether somebody gave an option that has a default."""
    source = click.get_current_context().get_parameter_source(name)
    return source is not ParameterSource.DEFAULT


def _check_no_columns(asked: StatisticOptions) -> None:
    """Refuse options about columns of a file that is known to have others."""
    others = ("delimiter", "quote", "no_header", "columns", "skip_lines")
    named = {name: _is_given(name) for name in others}
    given = list_given(spell_flags({"b": asked.b, "c": asked.c} | named))
    if given:
        raise InvalidParameter(
            f"{given[0]} does not go with a file that PLINK wrote, whose columns are known; "
            "--no-plink reads the file as CSV."
        )


def select_markers(path: Path, test: MarkerTest, csv: CsvOptions, run: RunOptions) -> None:
    """Release the most significant markers of a file."""
    from sordino.genomics.method import FAMILIES

    FAMILIES("--families", test.families)
    _check_assumption(run)
    entropy = choose_entropy(run)
    file = _open_marker_file(path, test, csv)
    if run.dry_run:
        _write_panel_plan(test, run)
        return
    if not is_quiet(run.quiet):
        say(NO_PLINK_COUNT if test.plink else NO_COUNT)
    # Options that no number of markers allows are refused before any line is looked at.
    choose_marker_method(test, 2, 1)
    # How many markers there are is public: it is counted, and with it all is known that can be said
    # about the release. Nothing private was looked at.
    candidates = file.candidates()
    if test.k > candidates:
        raise DataSourceError(
            f"-k must be at most the number of candidates, {candidates}; got {test.k}."
        )
    test = _reach_goal(test, candidates, run)
    method = choose_marker_method(test, candidates, test.k)
    if method.success < LEAST_SUCCESS and not test.force:
        raise InvalidParameter(_refuse_markers(test, method))
    detail = {
        "statistic": TDT,
        **{name: getattr(test, name) for name in _RECORDED},
        # What is None is not recorded.
        "plink": test.plink or None,
        "force": test.force or None,
        "source": str(path.absolute()),
    }
    # Several selections have a mechanism each: so the budget is reserved, and not a mechanism.
    cost = Pure(epsilon=test.epsilon)
    with open_payer(
        run,
        cost,
        "select",
        detail,
        adjacency=test.adjacency,
        allow_approximate=test.allow_approximate,
    ) as payer:
        release, labels = _release_markers(file, test, method, payer, entropy)
    indices = [release.index] if test.k == 1 else release.indices.tolist()
    rows = [
        {"rank": rank, "row": index + 1} | ({} if labels is None else {"label": labels[index]})
        for rank, index in enumerate(indices, start=1)
    ]
    chosen: dict[str, Any] = {
        name: float(value)
        for name in ("damping", "beta")
        if (value := getattr(method, name)) is not None
    }
    facts = list_facts(
        "select",
        release,
        payer.receipt,
        unit="each family",
        adjacency=test.adjacency,
        statistic=TDT,
        b=test.b,
        c=test.c,
        families=test.families,
        scale=test.scale,
        method=method.name,
        **chosen,
        why=method.why,
        success=method.success,
        model=MODEL,
        alternatives=[
            {"method": other.name, "success": other.success} for other in method.alternatives
        ],
        candidates=method.markers,
        warning=_warn(method),
    )
    notes = [
        *([facts["warning"]] if "warning" in facts else []),
        method.why,
        f"success {_write_success(method)}: the probability that {_say_what(test, method)}, "
        f"for {MODEL}. A marker with an effect leads by more, and is selected more often.",
        f"Spent: epsilon {facts['epsilon']:.12g}. Protects: {facts['unit']}, {test.adjacency}.",
        *describe_receipt(payer.receipt),
        MARKERS,
    ]
    record = Record(
        columns=tuple(rows[0]),
        rows=rows,
        facts=facts,
        notes=[*notes, *([] if release.exact else [APPROXIMATE]), *list_warnings(release)],
    )
    write_release(record, run, payer.keep)


def _check_assumption(run: RunOptions) -> None:
    """Refuse an assumption about scores, which have a model, or a counted number of markers."""
    if run.like is not None:
        raise InvalidParameter(
            "--like must not be given with --statistic, whose scores have a public model; "
            "--like-rows says how many markers there are."
        )
    if run.dry_run and run.like_rows is None:
        raise InvalidParameter(
            "--like-rows must say how many markers there are: a dry run does not count those of "
            "the file."
        )
    if run.like_rows is not None and not run.dry_run:
        raise InvalidParameter(
            "--like-rows needs --dry-run: a release counts the markers of the file."
        )


def _reach_goal(test: MarkerTest, markers: int, run: RunOptions) -> MarkerTest:
    """Return the test with the smallest epsilon whose success is what --goal says.

    Without one as it is.
    """
    if run.goal is None:
        return test
    # Here, because a release without a goal needs no search.
    from sordino.plan.goals import seek_right

    ledger = open_account(run)

    def succeed(epsilon: Fraction, enough: float) -> float:
        return choose_marker_method(
            replace(test, epsilon=epsilon), markers, test.k, enough, alone=True
        ).success

    def fits(epsilon: Fraction) -> None:
        if ledger is not None:
            ledger.preview(
                Pure(epsilon=epsilon),
                adjacency=test.adjacency,
                allow_approximate=test.allow_approximate,
            )

    found = seek_right("select", run.goal, test.k, succeed, fits, exact=True)
    return replace(test, epsilon=confirm_epsilon(found, run))


def _write_panel_plan(test: MarkerTest, run: RunOptions) -> None:
    """Write what a selection of --like-rows markers would cost, and how often it is right."""
    from sordino.session.plans.scores import describe_success

    number = COUNT("--like-rows", run.like_rows)
    test = _reach_goal(test, number, run)
    method = choose_marker_method(test, number, test.k, alone=True)
    plan_alone(
        "select",
        Pure(epsilon=test.epsilon),
        run,
        epsilon=test.epsilon,
        adjacency=test.adjacency,
        choices=[describe_success(MODEL, method.success)],
        assumed=f"{number:,} markers of {MODEL}",
        method=method.name,
        allow_approximate=test.allow_approximate,
    )


def _open_marker_file(path: Path, test: MarkerTest, csv: CsvOptions) -> MarkerFile:
    """Read the header line, and nothing else."""
    form = make_csv_format(csv)
    if test.plink and test.label is not None:
        return open_plink(path, label=test.label, encoding=form.encoding)
    file = open_markers(path, b=test.b, c=test.c, label=test.label, form=form)
    # A table that was made of such a report has the same header, which is public.
    if file.of_plink and not test.told:
        raise InvalidParameter(
            "--plink must be given for a file with the header line of a report of PLINK: read as "
            "CSV, what stands behind T and U would be taken as public. --no-plink does so."
        )
    return file


def choose_marker_method(
    test: MarkerTest, markers: int, k: int, enough: float = 0.0, *, alone: bool = False
) -> Method:
    """Return how k of so many markers are selected, one after the other.

    For a goal, what is `enough`.

    `alone`: how likely the alternatives are is not asked.
    """
    from sordino.genomics.choose import choose_for_goal

    return choose_for_goal(
        enough,
        markers=markers,
        families=test.families,
        epsilon=test.epsilon / test.k,
        k=k,
        scale=test.scale,
        method=None,
        beta=None,
        damping=test.damping,
        exact=not test.allow_approximate,
        alone=alone,
    )


def _write_success(method: Method) -> str:
    """Return success as people read it."""
    # Here, because a selection from scores needs no plan.
    from sordino.plan.selector import write_success

    return write_success(method.success)


def _say_what(test: MarkerTest, method: Method) -> str:
    """Return what success is the probability of."""
    # Here, because a selection from scores needs no genomics.
    from sordino.genomics.choose import MOST_COMPARED

    if test.k == 1:
        return f"the marker is the best of {method.markers}"
    first, some = ("first ", MOST_COMPARED) if test.k > MOST_COMPARED else ("", test.k)
    return f"the {first}{some} markers are the {some} best of {method.markers}, in their order"


def _refuse_markers(test: MarkerTest, method: Method) -> str:
    """Return the sentences that refuse a release which would hardly be right."""
    smaller = ["a smaller -k"] if test.k > 1 else []
    helps = ["A larger epsilon", *smaller, "fewer candidates by a preselection that is public"]
    return (
        f"success must be at least {LEAST_SUCCESS}, or --force be given: with epsilon "
        f"{float(test.epsilon):.12g} and {test.families} families {_say_what(test, method)} only "
        f"with probability {method.success:.3g}, for {MODEL}. {' or '.join(helps)} would help. "
        "Nothing was charged."
    )


def _warn(method: Method) -> str | None:
    """Return the warning that goes with a release that was forced, or None."""
    if method.success >= LEAST_SUCCESS:
        return None
    # Three digits, so that .1996 is no .20.
    return (
        f"LIKELY NOT THE BEST: success is {method.success:.3g}, below {LEAST_SUCCESS}, and "
        "--force was given."
    )


def _release_markers(
    file: MarkerFile, test: MarkerTest, method: Method, payer: Payer, entropy: Entropy
) -> tuple[Any, tuple[str, ...] | None]:
    """Read the counts, and return the release and the labels."""
    from sordino.genomics.significance import select, together

    # The counts are read only after the charge.
    counts = file.read()
    # How many markers there are is public, so this may be said after the charge.
    if counts.b.size != method.markers:
        raise DataSourceError(f"The lines of {file.fields.path} changed after they were counted.")
    picked = select(
        method,
        counts.b,
        counts.c,
        test.k,
        lambda mechanism, scores, **more: payer.release(mechanism, scores, entropy=entropy, **more),
    )
    return together(picked), counts.labels
