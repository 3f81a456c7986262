"""Pictures as SVG, by hand: panels with axes, lines, stems and boxes. Numbers are rounded, so that a file changes only with its data."""

from __future__ import annotations

import math
from html import escape

COLORS = (
    "#1b6ca8",
    "#d1495b",
    "#2e933c",
    "#8e5ea2",
    "#e08e1b",
    "#00798c",
    "#6b6b6b",
    "#a15c38",
    "#c2185b",
    "#5d737e",
    "#000000",
)
_STYLE = "text{font:11px sans-serif;fill:#222}.a{stroke:#888;fill:none}.g{stroke:#ddd}"


def ticks(low, high, about=4):
    """Return round numbers between two ends."""
    rough = (high - low) / about
    power = 10 ** math.floor(math.log10(rough))
    step = power * min((1, 2, 5, 10), key=lambda times: abs(times * power - rough))
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


class Panel:
    """A rectangle with two linear axes; `logarithmic` makes the vertical one a power scale."""

    def __init__(self, picture, place, x, y, title, *, logarithmic=False, x_ticks=True):
        self.picture, (self.left, self.top, self.width, self.height) = picture, place
        self.x, self.log = x, logarithmic
        self.y = tuple(map(math.log10, y)) if logarithmic else y
        picture.text(self.left + self.width / 2, self.top - 6, title, "middle")
        marks = (
            [(10.0**i, i) for i in range(math.ceil(self.y[0]), math.floor(self.y[1]) + 1)]
            if logarithmic
            else []
        )
        for value, at in marks or [(value, value) for value in ticks(*self.y)]:
            across = self.top + self.height * (1 - (at - self.y[0]) / (self.y[1] - self.y[0]))
            picture.path([(self.left, across), (self.left + self.width, across)], kind="g")
            picture.text(self.left - 4, across + 4, f"{value:g}", "end")
        for value in ticks(*x) if x_ticks else []:
            picture.text(
                self.at(value, y[0])[0], self.top + self.height + 14, f"{value:g}", "middle"
            )
        corner = [(0, 0), (0, 1), (1, 1), (1, 0), (0, 0)]
        picture.path(
            [(self.left + self.width * u, self.top + self.height * v) for u, v in corner], kind="a"
        )

    def at(self, x, y):
        """Return where a point is, moved to the edge of the panel if it lies beyond."""
        y = math.log10(max(y, 1e-300)) if self.log else y
        shares = (
            (x - self.x[0]) / (self.x[1] - self.x[0]),
            (y - self.y[0]) / (self.y[1] - self.y[0]),
        )
        across, up = (min(max(share, 0), 1) for share in shares)
        return self.left + self.width * across, self.top + self.height * (1 - up)

    def line(self, xs, ys, color, dash=""):
        self.picture.path([self.at(x, y) for x, y in zip(xs, ys, strict=True)], color, dash)

    def stems(self, xs, ys, color):
        for x, y in zip(xs, ys, strict=True):
            self.picture.path([self.at(x, self.y[0]), self.at(x, y)], color)

    def box(self, x, five, color, half=0.3, fill="#fff"):
        """Draw the whiskers from the first to the last of five numbers, the box between, and the middle one."""
        low, first, middle, third, high = five
        left, right = x - half, x + half
        self.picture.path([self.at(x, low), self.at(x, first)], color)
        self.picture.path([self.at(x, third), self.at(x, high)], color)
        self.picture.path([self.at(left, high), self.at(right, high)], color)
        corners = [(left, first), (right, first), (right, third), (left, third), (left, first)]
        self.picture.path([self.at(*corner) for corner in corners], color, fill=fill)
        self.picture.path([self.at(left, middle), self.at(right, middle)], color, width=2.5)


class Picture:
    """What is written to a file; its background is white, so that it can be read on a dark page."""

    def __init__(self, width, height):
        self.size, self.parts = (width, height), []

    def text(self, x, y, words, anchor="start"):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def path(self, points, color="", dash="", *, kind="", fill="none", width=1.5):
        drawn = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        style = (
            f'class="{kind}"' if kind else f'stroke="{color}" stroke-width="{width}" fill="{fill}"'
        )
        self.parts.append(
            f'<path d="{drawn}" {style}' + (f' stroke-dasharray="{dash}"' if dash else "") + "/>"
        )

    def legend(self, x, y, names, colors=COLORS, wide=130, columns=99):
        """Write names beside short lines in their colors, from left to right."""
        for i, (name, color) in enumerate(zip(names, colors, strict=False)):
            left, top = x + wide * (i % columns), y + 16 * (i // columns)
            self.path([(left, top - 4), (left + 18, top - 4)], color, width=3)
            self.text(left + 23, top, name)

    def write(self, path):
        width, height = self.size
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        body = [
            head,
            f"<style>{_STYLE}</style>",
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
            *self.parts,
            "</svg>",
        ]
        path.write_text("\n".join(body) + "\n", encoding="utf-8")
