"""Draw line charts and grouped bar charts as inline SVG for the HTML report.

They are not drawn by matplotlib, because a page needs colours that follow the reader's light or dark theme, text
that stays text, and only a few kilobytes per chart. It also avoids the import of matplotlib. Series differ in colour,
marker, dash and hatching, so that they can be distinguished without colours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

import numpy as np

_CHART_WIDTH, _CHART_HEIGHT, _LEFT, _RIGHT, _BOTTOM, _LINE = 440, 300, 68, 20, 46, 18
_DASHES = ("", "6 3", "2 3", "8 3 2 3", "4 2", "1 2", "10 4", "8 2 2 2 2 2")
_MARKERS = 8
_PLUS = (
    *((-0.35, -1), (0.35, -1), (0.35, -0.35), (1, -0.35), (1, 0.35), (0.35, 0.35)),
    *((0.35, 1), (-0.35, 1), (-0.35, 0.35), (-1, 0.35), (-1, -0.35), (-0.35, -0.35)),
)  # corners of a plus sign
N_STYLES = 8  # colours and hatchings that the style sheet defines


@dataclass(frozen=True)
class Series:
    """One line, or the bars of one colour: name, points (x, y), and perhaps a point to mark with a star."""

    name: str
    points: list[tuple[float, float]]
    star: tuple[float, float] | None = None


@dataclass(frozen=True)
class Axis:
    """One axis: title, unit after each number, whether it is logarithmic, and values that must be visible."""

    title: str
    unit: str = ""
    log: bool = False
    shown: tuple[float, ...] = ()


def line_chart(series: list[Series], x: Axis, y: Axis, *, diagonal: bool = False) -> str:
    """Draw a chart of lines with markers, and return it as SVG.

    Parameters
    ----------
    series : list of Series
        Lines. Those without points appear only in the legend.
    x, y : Axis
    diagonal : bool
        Draw the line x = y.
    """
    stars = [line.star for line in series if line.star is not None]
    points = [point for line in series for point in line.points] + stars
    frame = _Frame(len(series), _Scale.of([p[0] for p in points], x), _Scale.of([p[1] for p in points], y))
    parts = frame.axes(x, y)
    if diagonal:
        low, high = max(frame.x.low, frame.y.low), min(frame.x.high, frame.y.high)
        parts.append(_svg_line(frame.at(low, low), frame.at(high, high), "diagonal"))
    for i, line in enumerate(series):
        style = f"s{i % N_STYLES}"
        pixels = [frame.at(*point) for point in line.points]
        path = " ".join(f"{u:.1f},{v:.1f}" for u, v in pixels)
        dash = f' stroke-dasharray="{_DASHES[i % len(_DASHES)]}"' if _DASHES[i % len(_DASHES)] else ""
        parts.append(f'<polyline class="line {style}" points="{path}"{dash}/>')
        parts += [_marker(i, *point, style) for point in pixels] if len(pixels) <= 40 else []
        if line.star is not None:
            parts.append(_star(*frame.at(*line.star), style))
        parts.append(frame.legend(i, line.name, style))
    return frame.svg(parts, f"{y.title} against {x.title} of {', '.join(line.name for line in series)}")


def bar_chart(groups: list[str], series: list[Series], x: Axis, y: Axis) -> str:
    """Draw a chart of grouped bars, and return it as SVG.

    Parameters
    ----------
    groups : list of str
        Names below the groups. They may have two lines, separated by a line break.
    series : list of Series
        One colour of bars each. The y of point i is the height of the bar in group i.
    x, y : Axis
    """
    values = [value for bars in series for _, value in bars.points]
    frame = _Frame(len(series), _Scale(-0.5, len(groups) - 0.5, False), _Scale.of([0.0, *values], y))
    parts = frame.axes(x, y, ticks=False)
    width = 0.8 * (frame.at(1, 0)[0] - frame.at(0, 0)[0]) / max(len(series), 1)
    for i, bars in enumerate(series):
        style = f"s{i % N_STYLES}"
        for group, (_, value) in enumerate(bars.points):
            u, v = frame.at(group, value)
            zero = frame.at(group, 0)[1]
            u += (i - len(series) / 2) * width
            box = f'x="{u:.1f}" y="{min(v, zero):.1f}" width="{0.94 * width:.1f}" height="{abs(zero - v):.1f}"'
            parts.append(f'<rect class="bar {style}" {box}/><rect class="hatch h{i % N_STYLES}" {box}/>')
            if len(series) * len(groups) <= 12:
                parts.append(f'<text class="value" x="{u + width / 2:.1f}" y="{v - 4:.1f}">{value:.1f}</text>')
        parts.append(frame.legend(i, bars.name, style, bar=True))
    for group, name in enumerate(groups):
        u = frame.at(group, 0)[0]
        for row, line in enumerate(name.split("\n")):
            parts.append(
                f'<text class="tick x group" x="{u:.1f}" y="{frame.bottom + 13 + 12 * row:.1f}">{escape(line)}</text>'
            )
    return frame.svg(parts, f"{y.title} by {x.title} of {', '.join(bars.name for bars in series)}")


@dataclass(frozen=True)
class _Scale:
    low: float
    high: float
    log: bool

    @classmethod
    def of(cls, values: list[float], axis: Axis) -> _Scale:
        """Choose bounds that include all values, with a small margin."""
        known = [value for value in [*values, *axis.shown] if math.isfinite(value) and (value > 0 or not axis.log)]
        low, high = (min(known), max(known)) if known else (0.1, 1.0)
        if axis.log:
            return cls(low / 1.1, max(high * 1.1, low * 2), True)
        margin = 0.05 * (high - low) or max(abs(high), 1.0) * 0.05
        low = low if low in (0.0, *axis.shown) else low - margin
        return cls(low, high if high in axis.shown else high + margin, False)

    def share(self, value: float) -> float:
        """Return the position of a value between the bounds, from 0 to 1."""
        if self.log:
            return math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Return about five round numbers between the bounds."""
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            every = max(1, len(powers) // 6)
            marks = [10.0**power for power in powers][::every]
            inside = [mark for mark in marks if self.low <= mark <= self.high]
            if len(inside) > 1:
                return inside
            finer = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
            inside = [mark for mark in finer if self.low <= mark <= self.high]
            return inside if len(inside) > 1 else np.geomspace(self.low * 1.1, self.high / 1.1, 3).tolist()
        step = 10 ** math.floor(math.log10((self.high - self.low) / 4))
        step *= next(factor for factor in (1, 2, 2.5, 5, 10) if (self.high - self.low) / (step * factor) <= 6)
        first = math.ceil(self.low / step - 1e-9)
        return [step * i for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


class _Frame:
    """The frame of a chart: it maps values to pixels, and draws the axes, and the legend above them."""

    def __init__(self, n_series: int, x: _Scale, y: _Scale) -> None:
        self.x, self.y = x, y
        self.top = 10 + _LINE * n_series
        self.bottom = self.top + _CHART_HEIGHT - _BOTTOM - 10
        self.height = self.bottom + _BOTTOM

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the position of a point in pixels."""
        across = _LEFT + (_CHART_WIDTH - _LEFT - _RIGHT) * self.x.share(x)
        return across, self.bottom - (self.bottom - self.top) * self.y.share(y)

    def axes(self, x: Axis, y: Axis, ticks: bool = True) -> list[str]:
        """Return the grid, the ticks and the titles of both axes."""
        parts = []
        for tick in self.y.ticks():
            v = self.at(self.x.low, tick)[1]
            parts.append(_svg_line((_LEFT, v), (_CHART_WIDTH - _RIGHT, v), "grid"))
            parts.append(f'<text class="tick y" x="{_LEFT - 5}" y="{v + 4:.1f}">{_number(tick)}{escape(y.unit)}</text>')
        for tick in self.x.ticks() if ticks else ():
            u = self.at(tick, self.y.low)[0]
            parts.append(_svg_line((u, self.top), (u, self.bottom), "grid"))
            label = f"{_number(tick)}{escape(x.unit)}"
            parts.append(f'<text class="tick x" x="{u:.1f}" y="{self.bottom + 15:.1f}">{label}</text>')
        parts.append(_svg_line((_LEFT, self.bottom), (_CHART_WIDTH - _RIGHT, self.bottom), "axis"))
        middle = (self.top + self.bottom) / 2
        centre = (_LEFT + _CHART_WIDTH) / 2
        parts.append(f'<text class="title" x="{centre:.0f}" y="{self.height - 6:.0f}">{escape(x.title)}</text>')
        turned = f'transform="rotate(-90 12 {middle:.0f})"'
        parts.append(f'<text class="title" x="12" y="{middle:.0f}" {turned}>{escape(y.title)}</text>')
        return parts

    def legend(self, i: int, name: str, style: str, bar: bool = False) -> str:
        """Return the line of the legend for one series."""
        y = 8 + _LINE * i
        short = name if len(name) <= 52 else f"{name[:51]}…"
        if bar:
            box = f'x="{_LEFT}" y="{y - 5}" width="24" height="10"'
            key = f'<rect class="bar {style}" {box}/><rect class="hatch h{i % N_STYLES}" {box}/>'
        else:
            dash = f' stroke-dasharray="{_DASHES[i % len(_DASHES)]}"' if _DASHES[i % len(_DASHES)] else ""
            key = f'<line class="line {style}" x1="{_LEFT}" y1="{y}" x2="{_LEFT + 24}" y2="{y}"{dash}/>'
            key += _marker(i, _LEFT + 12, y, style)
        return f'{key}<text class="name" x="{_LEFT + 30}" y="{y + 4}">{escape(short)}</text>'

    def svg(self, parts: list[str], description: str) -> str:
        """Return the SVG element of the whole chart."""
        label = escape(description, quote=True)
        head = f'<svg viewBox="0 0 {_CHART_WIDTH} {self.height:.0f}" role="img" aria-label="{label}">'
        return head + "".join(parts) + "</svg>"


def _svg_line(start: tuple[float, float], end: tuple[float, float], kind: str) -> str:
    (a, b), (c, d) = start, end
    return f'<line class="{kind}" x1="{a:.1f}" y1="{b:.1f}" x2="{c:.1f}" y2="{d:.1f}"/>'


def _marker(i: int, u: float, v: float, style: str) -> str:
    """Return the marker of series i: circle, square, triangle, diamond, triangle down, bar, plus or bow tie."""
    shape, kind = i % _MARKERS, f'class="mark {style}"'
    if shape == 0:
        return f'<circle {kind} cx="{u:.1f}" cy="{v:.1f}" r="3.5"/>'
    corners = {
        1: ((-3.2, -3.2), (3.2, -3.2), (3.2, 3.2), (-3.2, 3.2)),
        2: ((0, -4.5), (4.2, 3.2), (-4.2, 3.2)),
        3: ((0, -4.8), (4.8, 0), (0, 4.8), (-4.8, 0)),
        4: ((0, 4.5), (4.2, -3.2), (-4.2, -3.2)),
        5: ((-4, -1.5), (4, -1.5), (4, 1.5), (-4, 1.5)),
        6: tuple((4.2 * a, 4.2 * b) for a, b in _PLUS),
        7: ((-3.8, -4), (3.8, -4), (-3.8, 4), (3.8, 4)),
    }[shape]
    return _polygon([(u + a, v + b) for a, b in corners], kind)


def _star(u: float, v: float, style: str) -> str:
    corners = []
    for i in range(10):
        radius, angle = (9.0, 4.0)[i % 2], math.pi * (i / 5 - 0.5)
        corners.append((u + radius * math.cos(angle), v + radius * math.sin(angle)))
    return _polygon(corners, f'class="star {style}"')


def _polygon(corners: list[tuple[float, float]], kind: str) -> str:
    return f'<polygon {kind} points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in corners)}"/>'


def _number(value: float) -> str:
    """Format a tick in a few characters: 0.25, 40, 12k."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
