"""Draw docs/how-to/a-year-of-nightly-releases.svg: what nights of top-10 add up to, for a customer and for one on one day.

python docs/year_picture.py    # a test compares the picture with what the accounts count
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from sordino import COUNTING, LaplaceMechanism, NoisyTopK
from sordino.cost import ZCDP
from sordino.ledger import Budget
from sordino.ledger.amounts import Meter, exact_amounts
from sordino.ledger.renyi import NANO, NOTHING, Amounts, Sums, spent_epsilon

PICTURE = Path(__file__).with_name("how-to") / "a-year-of-nightly-releases.svg"

EPSILON, DELTA, NIGHT, YEAR = 3, 1e-6, 0.02, 365
# What `sordino top -k 10 --epsilon 0.02` charges: half of it chooses, half measures.
MECHANISMS = (
    NoisyTopK(k=10, epsilon=NIGHT / 2, sensitivity=COUNTING),
    LaplaceMechanism(epsilon=NIGHT / 2, sensitivity=COUNTING.over(10)),
)
BUDGETS = {
    "pure": Budget(epsilon=EPSILON),
    "zCDP": Budget(epsilon=EPSILON, delta=DELTA, meter="zcdp"),
    "(epsilon, delta)": Budget(epsilon=EPSILON, delta=DELTA),
}
COLORS = {"pure": "#c1440e", "zCDP": "#7a9e3f", "(epsilon, delta)": "#1b4965"}
ON_DAYS, COLOR_ON_DAYS = (30, 1), "#7b2d8b"
"""Of an account for a customer on one day: on how many nights somebody is there."""

LEFT, TOP, WIDTH, HEIGHT, RIGHT, BOTTOM = 56, 70, 600, 300, 40, 56
"""Sizes in pixels: left of the axis, above it, of the field, and what is free right of it and below."""
NIGHTS, STEP = 2000, 5


def asked(budget: Budget) -> Sums:
    """Return what one night adds to an account."""
    meter = Meter(str(budget.meter), budget.order)
    return sum((exact_amounts(one, meter) for one in MECHANISMS), Amounts()).rounded_up()


def fitting(name: str) -> int:
    """Return how many nights an account takes on."""
    found = BUDGETS[name].limits.count_more(NOTHING, asked(BUDGETS[name]))
    assert found is not None
    return found


def spent(name: str, nights: int) -> float:
    """Return the epsilon that an account has spent after so many nights, at its delta."""
    budget = BUDGETS[name]
    sums = Sums(*(nights * units for units in asked(budget)))
    if name == "(epsilon, delta)":
        return spent_epsilon(sums, budget.conversion, budget.order)  # as `ledger show` says it
    amount = Fraction(sums.main, NANO)
    return float(amount) if name == "pure" else ZCDP(rho=amount).epsilon(DELTA)


def place(nights: float, epsilon: float) -> tuple[float, float]:
    """Return where a point of the field lies."""
    return LEFT + nights / NIGHTS * WIDTH, TOP + HEIGHT * (1 - epsilon / (EPSILON * 1.1))


def line(name: str) -> str:
    """Return the curve of an account up to the last night that fits."""
    last = fitting(name)
    points = [place(nights, spent(name, nights)) for nights in [*range(0, last, STEP), last]]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{COLORS[name]}" stroke-width="2.5"/>'


def picture() -> str:
    """Return the picture as SVG."""
    width, height = LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM
    right, bottom = LEFT + WIDTH, TOP + HEIGHT
    (_, limit), (year, _) = place(0, EPSILON), place(YEAR, 0)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'font-family="sans-serif" font-size="13">',
        f"<title>What nights of a top 10 with epsilon {NIGHT} add up to</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        '<text x="16" y="26" font-size="16" fill="#222">What has a customer spent after so many nights?</text>',
        f'<text x="16" y="46" font-size="12" fill="#555">a top 10 with epsilon {NIGHT} each night; delta 1e-6 where there is one</text>',
        f'<path d="M{LEFT} {TOP} V{bottom} H{right}" fill="none" stroke="#888"/>',
        f'<line x1="{LEFT}" y1="{limit:.1f}" x2="{right}" y2="{limit:.1f}" stroke="#888" stroke-dasharray="5 4"/>',
        f'<text x="{right}" y="{limit - 7:.1f}" text-anchor="end" fill="#555">limit of the accounts for customers</text>',
        f'<line x1="{year:.1f}" y1="{place(YEAR, 2)[1]:.1f}" x2="{year:.1f}" y2="{bottom}" stroke="#888" stroke-dasharray="2 4"/>',
        f'<text x="{year + 6:.1f}" y="{bottom - 8}" fill="#555">one year</text>',
    ]
    for nights in range(0, NIGHTS + 1, 500):
        x, _ = place(nights, 0)
        lines.append(
            f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle" fill="#555">{nights:,}</text>'
        )
    for epsilon in range(EPSILON + 1):
        _, y = place(0, epsilon)
        lines.append(
            f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#555">{epsilon}</text>'
        )
    lines += [
        f'<text x="{right}" y="{bottom + 40}" text-anchor="end" fill="#222">nights</text>',
        f'<text x="16" y="{TOP - 4}" fill="#222">epsilon</text>',
        *(line(name) for name in BUDGETS),
    ]
    for days in ON_DAYS:
        (x, y), times = place(NIGHTS, days * NIGHT), "1 night" if days == 1 else f"{days} nights"
        lines += [
            f'<path d="M{LEFT} {bottom} L{place(days, 0)[0]:.1f} {y:.1f} H{x:.1f}" fill="none" '
            f'stroke="{COLOR_ON_DAYS}" stroke-width="2.5"/>',
            f'<text x="{x:.1f}" y="{y - 7:.1f}" text-anchor="end" fill="{COLOR_ON_DAYS}">'
            f"a customer on one day, there on {times}: {days * NIGHT:g}, for ever</text>",
        ]
    for name, (nights, epsilon, anchor) in LABELS.items():
        x, y = place(nights, epsilon)
        lines.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{COLORS[name]}">'
            f"{name}: {fitting(name):,} nights</text>"
        )
    return "\n".join([*lines, "</svg>"]) + "\n"


LABELS = {
    "pure": (175, 2.75, "start"),
    "zCDP": (1100, 1.75, "start"),
    "(epsilon, delta)": (400, 2.25, "start"),
}
"""Where the name of a curve stands: a night, an epsilon, and which end of the text lies there."""


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    print(PICTURE)
