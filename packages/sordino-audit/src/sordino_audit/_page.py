"""Writes audit reports as one HTML page that loads nothing: text, tables, and plots drawn as SVG.

Claim: none; the page says what the reports say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from html import escape

from sordino_audit.report import Bar, ClaimReport, ExactReport, StatisticalReport

Report = ExactReport | StatisticalReport | ClaimReport

_PAGE_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;\
color:#1b1b1f;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2.2rem}\
pre{background:#f4f4f6;padding:.8rem;overflow-x:auto;font-size:13px}
.ok{color:#17693a}.bad{color:#a3161f}svg{width:100%;height:auto;font:12px system-ui,sans-serif}
@media(prefers-color-scheme:dark){body{color:#e6e6ea;background:#16161a}pre{background:#222228}\
.ok{color:#6fcf97}.bad{color:#ff8a8f}
svg text{fill:#e6e6ea}}
"""
_PAGE_WIDTH, _LABEL_WIDTH, _ROW_HEIGHT = 960, 380, 18
_LARGEST_REACH, _SMALLEST_REACH = 12.0, 0.5


def page(*reports: Report, title: str = "Privacy audit") -> str:
    """Return reports as a self-contained HTML page: no script, nothing loaded from anywhere.

    Parameters
    ----------
    *reports : ExactReport, StatisticalReport or ClaimReport
        What to show, in this order.
    title : str
        Heading of the page.

    Returns
    -------
    str

    Examples
    --------
    >>> import sordino as sd
    >>> import sordino_audit as audit
    >>> laplace = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING)
    >>> text = audit.page(audit.exact(laplace, answers_a=0, answers_b=1))
    >>> text.startswith("<!doctype html>"), "not broken" in text, "<svg" in text
    (True, True, True)
    """
    broken = sum(report.broken for report in reports)
    verdict = f"{broken} of {len(reports)} broken" if broken else f"none of {len(reports)} broken"
    # A box of which every run raised was not compared with anything: "not broken" would read as an
    # acquittal.
    unseen = sum(getattr(report, "all_raised", False) for report in reports)
    verdict += f", {unseen} not audited because every run raised" if unseen else ""
    look = "bad" if broken or unseen else "ok"
    sections = "\n".join(section for report in reports for section in _write_sections(report))
    return (
        '<!doctype html>\n<html lang="en"><head><meta '
        f'charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_PAGE_STYLE}</style></head>\n'
        f"<body><h1>{escape(title)}: <span "
        f'class="{look}">{verdict}</span></h1>\n{sections}\n</body></html>\n'
    )


def _write_sections(report: Report) -> Iterator[str]:
    if isinstance(report, ClaimReport):
        yield (
            f"<h2>{escape(report.claim.name)}</h2><p>{escape(report.claim.statement)} "
            f"{escape('; '.join(report.claim.references))}</p>"
        )
        for each in report.reports:
            yield from _write_sections(each)
        return
    verdict = (
        '<span class="bad">BROKEN</span>' if report.broken else '<span class="ok">not broken</span>'
    )
    # Nothing was compared: neither verdict would be true.
    if getattr(report, "all_raised", False):
        verdict = '<span class="bad">EVERY RUN RAISED</span>'
    plot = _draw_loss_axis(report) if isinstance(report, ExactReport) else _draw_log_ratios(report)
    # Names and events come from whoever audits: escaped they are text, and no markup.
    yield f"<h2>{escape(report.name)}: {verdict}</h2>\n{plot}\n<pre>{escape(str(report))}</pre>"


def _draw_loss_axis(report: ExactReport) -> str:
    """Draw the loss that was found and what is claimed on one axis."""
    claimed = report.witness.claimed if math.isfinite(report.witness.claimed) else None
    # The loss may be infinite; the bar must end somewhere on the page.
    found = min(max(report.epsilon_at_least, 0.0), _LARGEST_REACH * 4)
    reach = max(found, claimed or 0.0, 1e-9) * 1.15
    width = _PAGE_WIDTH - 80

    def at(x: float) -> float:
        return round(40 + width * x / reach, 1)

    color = "#c1272d" if report.broken else "#2f7d4f"
    parts = [
        f'<rect x="40" y="8" width="{at(found) - 40:.1f}" height="20" fill="{color}">'
        "<title>loss found</title></rect>"
    ]
    parts.append(
        f'<text x="40" y="46">loss found: at least {report.epsilon_at_least:.6g} nats</text>'
    )
    if claimed is not None:
        parts.append(
            f'<line x1="{at(claimed)}" x2="{at(claimed)}" y1="2" y2="34" stroke="#3355aa" '
            'stroke-width="2"/>'
        )
        parts.append(
            f'<text x="{at(claimed)}" y="46" text-anchor="end">claimed {claimed:.6g}</text>'
        )
    return (
        f'<svg viewBox="0 0 {_PAGE_WIDTH} 54" role="img" aria-label="loss found and claimed">'
        f"{''.join(parts)}</svg>"
    )


def _draw_log_ratios(report: StatisticalReport) -> str:
    """Draw the log ratio of the hits over a partition of the outcomes.

    Lines on both sides show the claim.
    """
    claimed = report.claimed_epsilon if math.isfinite(report.claimed_epsilon) else None
    sizes = [abs(bar.log_ratio) for bar in report.bars if math.isfinite(bar.log_ratio)]
    reach = min(_LARGEST_REACH, max([*sizes, claimed or 0.0, _SMALLEST_REACH]) * 1.1)
    middle, half = (_LABEL_WIDTH + _PAGE_WIDTH) / 2, (_PAGE_WIDTH - _LABEL_WIDTH) / 2 - 10

    def at(x: float) -> float:
        # What is beyond the axis is drawn at its end.
        return round(middle + half * max(-1.0, min(1.0, x / reach)), 1)

    height = _ROW_HEIGHT * (len(report.bars) + 2)
    parts = [_draw_bar(bar, at, 14 + _ROW_HEIGHT * (i + 1)) for i, bar in enumerate(report.bars)]
    for x, color in [
        (0.0, "#888"),
        *([(claimed, "#3355aa"), (-claimed, "#3355aa")] if claimed is not None else []),
    ]:
        parts.append(f'<line x1="{at(x)}" x2="{at(x)}" y1="14" y2="{height}" stroke="{color}"/>')
    ends = (
        f'<text x="{at(-reach)}" y="11">more likely for b</text><text x="{at(reach)}" y="11" '
        'text-anchor="end">more likely for a</text>'
    )
    label = "log ratio of the hits of a and b over events; lines: what is claimed"
    return (
        f'<svg viewBox="0 0 {_PAGE_WIDTH} {height + 6}" role="img" aria-label="{label}">'
        f"{ends}{''.join(parts)}</svg>"
    )


def _draw_bar(bar: Bar, at: Callable[[float], float], y: int) -> str:
    # The log ratio may be infinite, which has no place on the page.
    ratio = max(-1e9, min(1e9, bar.log_ratio))
    low, high = sorted((at(0.0), at(ratio)))
    # The label is cut to its room; the tooltip says all of it.
    text = bar.event if len(bar.event) <= 56 else bar.event[:53] + "..."
    said = f"{bar.event}: {bar.hits_a} of a, {bar.hits_b} of b, log ratio {bar.log_ratio:.3g}"
    return (
        f'<g><title>{escape(said)}</title><text x="{_LABEL_WIDTH - 12}" y="{y + 12}" '
        'text-anchor="end">'
        # A bar of no width would not be seen.
        f'{escape(text)}</text><rect x="{low}" y="{y + 2}" width="{max(high - low, 1):.1f}" '
        f'height="{_ROW_HEIGHT - 5}" fill="#7a8fc4"/></g>'
    )
