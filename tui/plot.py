"""Series of numbers as curves in text. The only file that imports plotext; no torch here.

plotext stops at inf, goes blank at 1e300 and labels steps 378.8, so it only sees the unit square:
cleaning, scales, ticks and names are made here.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, repeat
from statistics import median
from typing import Any, Literal, NamedTuple, cast

from core.render import cell_width, visible

Kind = Literal["line", "points", "level"]
Point = tuple[float, float]
Figure = Any  # plotext has no types

LEAST_WIDTH, LEAST_HEIGHT, LEAST_CANVAS = 20, 6, 3
LARGEST = 8e307  # larger values are drawn here, so that the span of an axis stays finite
NICE = (1.0, 2.0, 2.5, 5.0)
COLORS, LEVEL_COLOR = (33, 208, 36, 175, 142, 99), 245  # blue orange green pink olive violet; grey
MARKERS = {"line": ["braille"], "points": "●○◆◇▲△", "level": "┄╌┈"}
ASCII_MARKERS = {"line": ".*+~:", "points": "ox#@%&", "level": "-_="}
LETTERS, N_LETTERS = "abcdefghijklmnopqrstuvwxyz", 4  # a letter stands four times on its line
TO_ASCII = str.maketrans("┤│├┼─└┬┴", "||++-+++")
ESCAPES, TRAILING = re.compile(r"\x1b\[[0-9;]*m"), re.compile(r" +\x1b\[0m$")
NAME_GAP = "   "


@dataclass(frozen=True, slots=True)
class Series:
    """A curve to draw."""

    label: str
    xs: Sequence[float]
    ys: Sequence[float]
    kind: Kind = "line"
    """line; points for what is measured now and then; level for one height all along, ys[-1]."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing, and sentences about what was left out of it and where."""

    text: str
    notes: tuple[str, ...] = ()


class _Curve(NamedTuple):
    """A series with what can be drawn of it and how it looks."""

    series: Series
    points: list[Point]
    marker: str
    letter: str  # on the line, where there are several
    sample: str  # beside the name
    color: int


class _Axis(NamedTuple):
    """Puts the values from low to high between 0 and 1."""

    low: float
    high: float
    is_log: bool = False

    def place(self, value: float) -> float:
        ends = self.low, self.high, value
        low, high, value = map(math.log10, ends) if self.is_log else ends
        return (value - low) / (high - low) if high > low else 0.5


def curves_text(
    series: Sequence[Series],
    *,
    width: int,
    height: int,
    log_y: bool = False,
    color: bool = True,
    utf8: bool = True,
    x_label: str = "step",
    y_label: str = "loss",
    title: str = "",
) -> Plot:
    """Draw series into a rectangle of text, with names and last values in the lines above.

    What can't be drawn is left out and told in the notes. The curves differ without colour too, and
    without utf8 only ASCII is used. x_label names what xs count; title and y_label stand first.
    """
    if width < LEAST_WIDTH or height < LEAST_HEIGHT:
        return Plot(f"Enlarge to {LEAST_WIDTH} by {LEAST_HEIGHT} to see the curves.")
    notes: list[str] = []
    curves = list(_curves(series, x_label, notes, log_y=log_y, utf8=utf8))
    if not any(curve.points for curve in curves):
        text = "There is nothing to draw yet."
    else:
        most = height - LEAST_CANVAS - 2  # ticks and axis take two lines
        names = _name_lines(f"{title} {y_label}".strip(), curves, width, most, utf8=utf8)
        if len(names) > most:
            notes.append("Not every curve is named: there is no room; enlarge.")
        drawn = _draw(curves, width, height - len(names[:most]), x_label, log_y=log_y)
        text = "\n".join([*names[:most], drawn])
        text = text if color else ESCAPES.sub("", text)
        text = text if utf8 else text.translate(TO_ASCII)
    return Plot(text, tuple(visible(note, ascii_only=not utf8) for note in notes))


def thin(points: list[Point], width: int) -> list[Point]:
    """Keep the first, the last and each column's lowest and highest: at most 2 x width points."""
    if len(points) <= 2 * width:
        return points
    (start, _), (end, _) = points[0], points[-1]
    columns: dict[int, list[Point]] = {}
    for point in points[1:-1]:
        column = int((point[0] - start) / ((end - start) or 1.0) * (width - 1))
        columns.setdefault(min(column, width - 2), []).append(point)
    kept = [points[0]]
    for column in columns.values():
        ys = [(y, x) for x, y in column]
        kept.extend(sorted((x, y) for y, x in {min(ys), max(ys)}))
    return [*kept, points[-1]]


def _curves(
    series: Sequence[Series], x_label: str, notes: list[str], *, log_y: bool, utf8: bool
) -> Iterator[_Curve]:
    """Clean each series and give it looks of its own; an empty one keeps them for later."""
    markers = {k: cycle(choice) for k, choice in (MARKERS if utf8 else ASCII_MARKERS).items()}
    n_lines = [one.kind for one in series].count("line")
    letters = cycle(LETTERS) if utf8 and n_lines > 1 else repeat("")
    colors = cycle(COLORS)
    for one in series:
        points = _clean(one, x_label, notes, log_y=log_y)
        marker, letter = next(markers[one.kind]), next(letters) if one.kind == "line" else ""
        stroke = marker.replace("braille", "⠤")
        sample = marker if one.kind == "points" else stroke + letter + stroke
        color = LEVEL_COLOR if one.kind == "level" else next(colors)
        yield _Curve(one, points, marker, letter, sample, color)


def _clean(series: Series, x_label: str, notes: list[str], *, log_y: bool) -> list[Point]:
    """Return what can be drawn, by rising x, and note what can't."""
    both = list(zip(series.xs, series.ys, strict=False))  # a file may be read while it grows
    points = sorted((p for p in both if abs(p[0]) <= LARGEST), key=lambda p: p[0])
    finite = [p for p in points if math.isfinite(p[1])]
    good = [p for p in finite if p[1] > 1 / LARGEST or not log_y]
    if len(points) < len(both):
        notes.append(f"{series.label}: {len(both) - len(points)} without a {x_label}, left out.")
    if len(finite) < len(points):
        notes.append(f"{series.label} {_missing(points, x_label)}")
    if len(good) < len(finite):
        notes.append(f"{series.label}: {len(finite) - len(good)} at 0 or below, not on a log axis.")
    x, y = max(good, key=lambda p: p[1], default=(0.0, 0.0))
    if not log_y and y > 1000 * median(abs(y) for _, y in good or [(x, y)]) > 0:
        notes.append(f"{series.label} reaches {y:.3g} at {x_label} {x:.12g}; the rest lies flat.")
    return [(x, max(-LARGEST, min(LARGEST, y))) for x, y in good]


def _missing(points: list[Point], x_label: str) -> str:
    """Say where a curve isn't a number, and whether it is one again later."""
    bad = [i for i, (_, y) in enumerate(points) if not math.isfinite(y)]
    x, y = points[bad[0]]
    if len(bad) == len(points) - bad[0]:
        return f"is {y} since {x_label} {x:.12g}."
    again = "" if len(bad) == 1 else f" and {len(bad) - 1} more"
    return f"was {y} at {x_label} {x:.12g}{again}, left out."


def _name_lines(
    heading: str, curves: list[_Curve], width: int, most: int, *, utf8: bool
) -> list[str]:
    """Set the heading, if there is room, and each curve's sample, name and last value in lines."""
    lines = [_cut(heading, width, utf8=utf8)]
    for curve in curves:
        ys = curve.series.ys[-1:]
        last = "".join(f" {y:{'.3f' if 1e-3 < abs(y) < 1e5 else '.3g'}}" for y in ys)
        label = _cut(curve.series.label, width - len(curve.sample) - 1 - len(last), utf8=utf8)
        entry = f"\x1b[38;5;{curve.color}m{curve.sample}\x1b[0m {label}{last}"
        longer = lines[-1] + NAME_GAP + entry if lines[-1] else entry
        if cell_width(ESCAPES.sub("", longer)) <= width:
            lines[-1] = longer
        else:
            lines.append(entry)
    if heading and len(lines) > most:
        return _name_lines("", curves, width, most, utf8=utf8)
    return lines


def _cut(text: str, width: int, *, utf8: bool) -> str:
    text = visible(text, ascii_only=not utf8)
    if cell_width(text) <= width:
        return text
    while text and cell_width(text) >= width:
        text = text[:-1]
    return text + ("…" if utf8 else "~")


def _draw(curves: list[_Curve], width: int, height: int, x_label: str, *, log_y: bool) -> str:
    """Let plotext draw the curves between 0 and 1, with our own ticks."""
    xs, ys = zip(*(point for curve in curves for point in curve.points), strict=True)
    x_axis, y_axis = _axis(min(xs), max(xs)), _axis(min(ys), max(ys), is_log=log_y)
    y_ticks = _ticks(y_axis, max(3, (height - 2) // 3))
    y_names = _tick_names(y_ticks)
    n_columns = width - 1 - max(map(len, y_names), default=0)
    most = max(2, n_columns // 12)
    x_ticks = _nice(min(xs), max(xs), most, is_whole=all(x == int(x) for x in xs))
    before = [x for x in x_ticks if x_axis.place(x) <= 1 - (len(x_label) + 3) / n_columns]
    x_ticks = before if len(before) > 1 else x_ticks
    figure = _figure(width, height)
    figure.yticks([y_axis.place(y) for y in y_ticks], y_names)
    figure.xticks([x_axis.place(x) for x in x_ticks], [_step_name(x) for x in x_ticks])
    _add(figure, [curve for curve in curves if curve.points], x_axis, y_axis, n_columns)
    lines = [TRAILING.sub("", line) for line in figure.build().rstrip("\n").split("\n")]
    if len(lines[-1]) + 2 + len(x_label) <= width:
        lines[-1] += x_label.rjust(width - len(lines[-1]))
    return "\n".join(lines)


def _figure(width: int, height: int) -> Figure:
    """Make an empty figure of our own: plotext's is shared by the whole process."""
    import plotext._figure

    figure = cast("Figure", plotext._figure)._figure_class()
    figure.plotsize(width, height)
    figure._set_size(width, height)  # plotsize alone is cut to the terminal
    figure.theme("clear")
    for set_axes in (figure.xaxes, figure.yaxes):
        set_axes(True, False)
    for set_limits in (figure.xlim, figure.ylim):
        set_limits(0, 1)
    return figure


def _add(figure: Figure, curves: list[_Curve], x_axis: _Axis, y_axis: _Axis, width: int) -> None:
    """Draw the curves, what matters more above the rest."""
    letters: list[tuple[float, float, str, int]] = []
    for curve in sorted(curves, key=lambda c: ("level", "line", "points").index(c.series.kind)):
        points = [(x_axis.place(x), y_axis.place(y)) for x, y in thin(curve.points, width)]
        if curve.series.kind == "level":
            points = [(i / width, points[-1][1]) for i in range(width + 1)]
        draw = figure.plot if curve.series.kind == "line" else figure.scatter
        draw(*map(list, zip(*points, strict=True)), marker=curve.marker, color=curve.color)
        for i in range(N_LETTERS if curve.letter else 0):
            share = (i + ord(curve.letter) * 0.37 % 1) / N_LETTERS  # apart on lines that touch
            letters.append((*points[int(share * len(points))], curve.letter, curve.color))
    for x, y, letter, color in letters:
        figure.scatter([x], [y], marker=letter, color=color)


def _axis(low: float, high: float, *, is_log: bool = False) -> _Axis:
    """Give values that are all alike some room around them."""
    is_flat = high - low <= 1e-9 * max(abs(low), abs(high))
    room = (0.05 * abs(high) or 1.0) if is_flat else 0.0
    return _Axis(low - room, high + room, is_log)


def _nice(low: float, high: float, most: int, *, is_whole: bool = False) -> list[float]:
    """Return round numbers between low and high, as many as there may be."""
    if not (high - low) / most > 0:
        return [low]
    power = math.floor(math.log10((high - low) / most))
    for step in (nice * 10.0**p for p in range(power, power + 20) for nice in NICE):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < most and (step == int(step) or not is_whole):
            return [i * step for i in range(first, last + 1)]
    return [low, high]


def _ticks(axis: _Axis, most: int) -> list[float]:
    """Return powers of ten where the axis is logarithmic and spans some, else round numbers."""
    if not axis.is_log or math.log10(axis.high) - math.log10(axis.low) < 1.3:
        return _nice(axis.low, axis.high, most)
    first, last = math.ceil(math.log10(axis.low)), math.floor(math.log10(axis.high))
    return [10.0**p for p in range(first, last + 1, math.ceil((last - first + 1) / most))]


def _tick_names(ticks: list[float]) -> list[str]:
    """Write ticks alike, with two decimals or as many more as they need."""
    for digits in range(2, 7):
        names = [f"{tick:.{digits}f}" for tick in ticks if abs(tick) < 1e6]
        if len(names) == len(ticks) and all(map(math.isclose, map(float, names), ticks)):
            return names
    return [f"{tick:.4g}" for tick in ticks]


def _step_name(step: float) -> str:
    for size, suffix in ((1e6, "M"), (1e3, "k")):
        if size <= abs(step) < 1000 * size:
            return f"{step / size:g}{suffix}"
    return f"{step:g}"
