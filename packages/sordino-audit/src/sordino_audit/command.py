"""The command `sordino audit`, which checks claims of privacy.

Claims of this library are checked exactly, those of any program by many runs.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, final

import click

import sordino_audit as audits
from sordino.cli.once import Command
from sordino.cli.options import (
    NUMBER,
    QUIET,
    choose_format,
    gather,
    is_quiet,
    list_given,
    require_one,
)
from sordino.cli.output import write_lines
from sordino.cli.stderr import say
from sordino.cli.work import show_progress
from sordino.constraints import shown
from sordino.cost import Approximate, Pure
from sordino.errors import ClaimBroken, InvalidParameter
from sordino.record import escape_controls
from sordino_audit.controls.continuous import CONTINUOUS
from sordino_audit.controls.enumerated import CONTROLS

SAMPLES = 2000
PLACE = "{}"


@final
@dataclass(frozen=True, kw_only=True)
class ProgramOptions:
    """How a program is audited, and what it claims."""

    input_a: str | None
    input_b: str | None
    epsilon: Fraction | None
    delta: Fraction | None
    samples: int | None
    confidence: Fraction | None
    timeout: Fraction | None
    with_stderr: bool


program_options = gather(
    "program",
    ProgramOptions,
    click.option("--a", "input_a", metavar="TEXT", help="What {} stands for in runs of a."),
    click.option(
        "--b", "input_b", metavar="TEXT", help="What {} stands for in runs of b, a neighbour of a."
    ),
    click.option(
        "--epsilon",
        type=NUMBER,
        help="What the program claims; without it the loss is only bounded from below.",
    ),
    click.option("--delta", type=NUMBER, help="The delta of that claim [default: 0]."),
    click.option(
        "--samples", type=int, metavar="N", help=f"Runs for each input [default: {SAMPLES}]."
    ),
    click.option(
        "--confidence",
        type=NUMBER,
        help="Probability that what is said of the program is true [default: 0.999].",
    ),
    click.option(
        "--timeout",
        type=NUMBER,
        metavar="SECONDS",
        help="Longest that a run may take [default: 60].",
    ),
    click.option(
        "--stderr",
        "with_stderr",
        is_flag=True,
        help="What the program writes on stderr is part of what it releases.",
    ),
)


@click.command(cls=Command)
@click.argument("name", required=False)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Audit every claim, and check that every broken control is convicted.",
)
@click.option(
    "--command",
    metavar="TEXT",
    help="Audit a program: its command line, split like a shell would, with {} for the input.",
)
@program_options
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write a self-contained page.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    help="Text for people or JSON [default: as elsewhere].",
)
@QUIET
def audit(
    name: str | None,
    everything: bool,
    command: str | None,
    program: ProgramOptions,
    html: Path | None,
    form: str | None,
    quiet: bool | None,
) -> None:
    """Check claims of privacy: NAME of this library, --all of them, or a program's with --command.

    Ends with exit code 6 if a claim is broken, and with 0 if none was found to be: --all also lists
    what no audit looked at, and why. What is audited is run on inputs that you make up: never on
    real data.
    """
    which = require_one(
        {"NAME": name, "--all": everything or None, "--command": command}, "what is audited"
    )
    # These options are about a program; with claims of this library they would do nothing.
    given = list_given(
        {
            "--a": program.input_a,
            "--b": program.input_b,
            "--epsilon": program.epsilon,
            "--delta": program.delta,
            "--samples": program.samples,
            "--confidence": program.confidence,
            "--timeout": program.timeout,
            "--stderr": program.with_stderr,
        }
    )
    if which != "--command" and given:
        raise InvalidParameter(
            f"{given[0]} needs --command: claims of this library are audited exactly, on "
            "neighbours that they name."
        )
    reports = (
        _audit_claims(name, quiet) if command is None else [_audit_program(command, program, quiet)]
    )
    controls = _judge_controls(quiet) if everything else []
    left_out = [each for each in audits.unaudited() if everything or each.name == name]
    if html is not None:
        # Before stdout: a page that cannot be written ends the command with nothing on stdout.
        html.write_text(audits.page(*reports), encoding="utf-8")
    _write_audit(reports, controls, left_out, form)
    # The report stands on stdout before a broken claim ends the command.
    for report in reports:
        report.raise_if_broken()
    # One control that is judged wrongly means that no verdict of this auditor can be trusted.
    missed = [
        control["name"] for control in controls if control["broken"] != control["known_broken"]
    ]
    if missed:
        raise ClaimBroken(
            f"The auditor must judge every control as known, but did not: {'; '.join(missed)}."
        )


def _audit_claims(name: str | None, quiet: bool | None) -> list[Any]:
    """Audit the claims of one name, or all of them."""
    # A name may have several claims, and is listed once.
    known = list(dict.fromkeys(claim.name for claim in audits.claims()))
    if name is not None and name not in known:
        raise InvalidParameter(
            f"NAME must be one of {', '.join(sorted(known))}; got {shown(name)}."
        )
    names = known if name is None else [name]
    reports: list[Any] = []
    with show_progress(quiet) as progress:
        for i, each in enumerate(names):
            reports += audits.run_claims(each)
            if progress is not None:
                progress(100 * (i + 1) / len(names))
    return reports


def _judge_controls(quiet: bool | None) -> list[dict[str, Any]]:
    """Let the auditor judge the mechanisms whose verdict is known."""
    controls = (*CONTROLS, *CONTINUOUS)
    judged = []
    with show_progress(quiet) as progress:
        for i, control in enumerate(controls):
            report = control.audited()
            judged.append(
                {
                    "name": control.name,
                    "source": control.source,
                    "known_broken": control.broken,
                    "broken": report.broken,
                }
            )
            if progress is not None:
                progress(100 * (i + 1) / len(controls))
    return judged


def _audit_program(command: str, program: ProgramOptions, quiet: bool | None) -> Any:
    """Run a program on both inputs and compare what it says."""
    words = _split_command_line(command)
    if program.input_a is None or program.input_b is None:
        raise InvalidParameter(
            "--command needs --a and --b, what {} stands for: two inputs that differ in one unit."
        )
    # Without a place for the input both runs would be the same, and no loss could be seen.
    if not any(PLACE in word for word in words):
        raise InvalidParameter(
            '--command must have {} where the input goes, such as --command "python3 count.py {}".'
        )
    epsilon, delta = program.epsilon, program.delta or Fraction(0)
    if epsilon is None and program.delta is not None:
        raise InvalidParameter("--delta needs --epsilon: together they are the claim.")
    claimed = (
        None
        if epsilon is None
        else Approximate(epsilon=epsilon, delta=delta)
        if delta
        else Pure(epsilon=epsilon)
    )
    timeout = float(60 if program.timeout is None else program.timeout)
    a, b = (
        audits.Command(
            # Put in after the split: blanks and quotes of an input cannot make words of their own.
            arguments=[word.replace(PLACE, given) for word in words],
            timeout=timeout,
            with_stderr=program.with_stderr,
        )
        for given in (program.input_a, program.input_b)
    )
    if not is_quiet(quiet):
        say(
            "Runs must be independent, each with fresh noise, and the inputs made up: their "
            "releases are not charged."
        )
    with show_progress(quiet) as progress:
        return audits.statistical(
            a,
            b,
            samples=SAMPLES if program.samples is None else program.samples,
            confidence=float(
                Fraction("0.999") if program.confidence is None else program.confidence
            ),
            claimed=claimed,
            delta=float(delta),
            epsilons=None if epsilon is None or not delta else [epsilon],
            name=escape_controls(command),
            progress=progress,
        )


def _split_command_line(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InvalidParameter(
            f"--command must be a command line that can be split into words: {error}."
        ) from None
    if not words:
        raise InvalidParameter("--command must name a program.")
    return words


def _write_audit(
    reports: list[Any],
    controls: list[dict[str, Any]],
    left_out: list[audits.Unaudited],
    form: str | None,
) -> None:
    """Write the report on stdout."""
    if choose_format(form) == "json":
        facts: dict[str, Any] = {"reports": [report.to_dict() for report in reports]}
        facts |= {"controls": controls} if controls else {}
        facts |= {"unaudited": [vars(each) for each in left_out]} if left_out else {}
        # What JSON lacks, such as a fraction, is written as its text.
        write_lines([json.dumps(facts, ensure_ascii=False, indent=2, default=str)])
        return
    lines = [line for report in reports for line in _list_audit_lines(report)]
    if controls:
        right = sum(control["broken"] == control["known_broken"] for control in controls)
        lines.append(
            f"{right} of {len(controls)} controls judged as known, "
            f"{sum(c['broken'] for c in controls)} of them convicted."
        )
    write_lines([*lines, *(escape_controls(str(each)) for each in left_out)])


def _list_audit_lines(report: Any) -> list[str]:
    # The report of a claim holds one for each of its pairs of neighbors.
    parts = getattr(report, "reports", (report,))
    # What a program wrote may stand in its report, and must not steer the terminal.
    return [escape_controls(line) for part in parts for line in str(part).splitlines()]
