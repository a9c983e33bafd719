"""Attention in a terminal: all heads as small maps, and one head in numbers with a cursor.

Colour only repeats what digits and shade characters say, and is left out where it can't.
"""

import sys
from collections.abc import Sequence
from functools import cache
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from core.render import Heads, Matrix, cell_width, cividis, shade, visible

LEVELS = 63
GAP, LABEL_WIDTH = 2, 5
CELL, EDGE = 6, 4
Place = tuple[int, int]


def is_ascii() -> bool:
    """Say whether the terminal may not be able to show more than ASCII."""
    return "utf" not in (getattr(sys.__stderr__, "encoding", None) or "utf-8").lower()


def has_colour(app: App[object]) -> bool:
    """Say whether cividis can be told apart: neither with 16 colours nor where none is wanted."""
    return not app.no_color and app.console.color_system in ("256", "truecolor")


@cache
def _colours(front: int | None, back: int | None) -> Style:
    def colour(level: int | None) -> str | None:
        return None if level is None else cividis(level / LEVELS)

    return Style(color=colour(front), bgcolor=colour(back))


@cache
def _behind(level: int) -> Style:
    """Put a colour behind digits that stay readable on it."""
    return Style(color="#ffffff" if level < LEVELS * 0.55 else "#000000") + _colours(None, level)


def _level(weight: float) -> int:
    return round(min(1.0, max(0.0, weight)) * LEVELS)


class HeadMaps(Widget):
    """Every head small: layers downwards, heads to the right; the chosen one is marked ‹ ›."""

    chosen: reactive[Place] = reactive((0, 0))
    silent: reactive[Place | None] = reactive(None)

    class Chosen(Message):
        """A head was pointed at with the mouse."""

        def __init__(self, head: Place) -> None:
            super().__init__()
            self.head = head

    def __init__(self) -> None:
        super().__init__()
        self._weights: Heads = ()

    def show(self, weights: Heads) -> None:
        """Draw other weights: n_layers x n_heads x T x T."""
        self._weights = weights
        self.refresh(layout=True)

    @property
    def _n(self) -> int:
        return len(self._weights[0][0])

    def best_width(self, most: int) -> int:
        """Return the cells that all maps take side by side, large or small, but not above most."""
        return min(most, self._wide(2 if self._fits(most) else 1)) if self._weights else 0

    def _wide(self, unit: int) -> int:
        return len(self._weights[0]) * (max(unit * self._n, LABEL_WIDTH) + GAP)

    def _fits(self, width: int) -> bool:
        return self._wide(2) <= width and len(self._weights) * (self._n + 1) <= self.size.height

    def _unit(self) -> int:
        """Return 2 where a weight may take two cells and a line of its own: a square."""
        return 2 if self._fits(self.size.width) else 1

    def _tile(self) -> tuple[int, int]:
        """Return width and height of a map with its label and the gap behind it."""
        unit = self._unit()
        half = unit == 1 and has_colour(self.app)
        lines = -(-self._n // 2) if half else self._n
        return max(unit * self._n, LABEL_WIDTH) + GAP, lines + 1

    def _offset(self) -> tuple[int, int]:
        """Return how far to scroll so that the chosen head is seen."""
        width, height = self._tile()
        layer, head = self.chosen
        right, below = (head + 1) * width - GAP, (layer + 1) * height
        return max(0, right - self.size.width), max(0, below - self.size.height)

    def render_line(self, y: int) -> Strip:
        """Draw one line through all heads of a layer."""
        if not self._weights:
            return Strip.blank(self.size.width, self.rich_style)
        width, height = self._tile()
        left, top = self._offset()
        layer, line = divmod(y + top, height)
        if layer >= len(self._weights):
            return Strip.blank(self.size.width, self.rich_style)
        segments: list[Segment] = []
        for head, weights in enumerate(self._weights[layer]):
            drawn = self._label((layer, head)) if line == 0 else self._map_line(weights, line - 1)
            segments.extend(Strip(drawn).adjust_cell_length(width))
        strip = Strip(segments).crop(left, left + self.size.width)
        return strip.adjust_cell_length(self.size.width).apply_style(self.rich_style)

    def _label(self, head: Place) -> list[Segment]:
        name = f"{head[0]}.{head[1]}"
        if head == self.silent:
            name += "x" if is_ascii() else "×"
        if head == self.chosen:
            marks = "<>" if is_ascii() else "‹›"
            return [Segment(f"{marks[0]}{name}{marks[1]}", Style(bold=True))]
        return [Segment(f" {name}", Style(dim=True))]

    def _map_line(self, weights: Matrix, line: int) -> list[Segment]:
        if self._unit() == 2 or not has_colour(self.app):
            return self._whole_line(weights[line], line)
        upper, lower = 2 * line, 2 * line + 1
        segments: list[Segment] = []
        for key in range(min(lower, self._n - 1) + 1):
            high = _level(weights[upper][key]) if key <= upper else None
            low = _level(weights[lower][key]) if lower < self._n else None
            block = "▄" if high is None else "▀"
            front, back = (low, None) if high is None else (high, low)
            segments.append(Segment(block, _colours(front, back)))
        return segments

    def _whole_line(self, row: Sequence[float], query: int) -> list[Segment]:
        unit = self._unit()
        if has_colour(self.app):
            return [Segment(" " * unit, _colours(None, _level(w))) for w in row[: query + 1]]
        shades = [shade(weight, ascii_only=is_ascii()) * unit for weight in row[: query + 1]]
        hidden = ("." if is_ascii() else "·") + " " * (unit - 1)
        return [Segment("".join(shades) + hidden * (len(row) - query - 1))]

    def on_click(self, event: events.Click) -> None:
        """Choose the head under the mouse."""
        if self._weights:
            width, height = self._tile()
            left, top = self._offset()
            layer, head = (event.y + top) // height, (event.x + left) // width
            if layer < len(self._weights) and head < len(self._weights[0]):
                self.post_message(self.Chosen((layer, head)))


class HeadGrid(Widget, can_focus=True):
    """One head in numbers: rows look, columns are looked at; arrow keys move over what is seen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1,0)", "cell", key_display="arrows"),
        Binding("down", "move(1,0)", show=False),
        Binding("left", "move(0,-1)", show=False),
        Binding("right", "move(0,1)", show=False),
        Binding("tab", "screen.next_head(1)", "head", priority=True),
        Binding("shift+tab", "screen.next_head(-1)", show=False, priority=True),
    ]
    cursor: reactive[Place] = reactive((0, 0))

    class Moved(Message):
        """The cursor points at another number."""

    def __init__(self) -> None:
        super().__init__()
        self._weights: Matrix = ()
        self._tokens: list[str] = []

    def show(self, weights: Matrix, tokens: Sequence[str]) -> None:
        """Draw another head: (T, T), with a letter for each position."""
        self._weights = weights
        self._tokens = [visible(token, ascii_only=is_ascii()) for token in tokens]
        query = min(self.cursor[0], len(weights) - 1)
        self.cursor = (query, min(self.cursor[1], query))
        self.refresh()

    def action_move(self, rows: int, columns: int) -> None:
        """Move over the cells that are not masked; every edge stops."""
        if self._weights:
            query = max(0, min(self.cursor[0] + rows, len(self._weights) - 1))
            self.cursor = (query, max(0, min(self.cursor[1] + columns, query)))
            self.post_message(self.Moved())

    def on_click(self, event: events.Click) -> None:
        """Point at the number under the mouse, if it is not masked."""
        first_row, first_column = self._first()
        query = event.y - 1 + first_row
        key = (event.x - EDGE) // CELL + first_column
        if event.y > 0 and event.x >= EDGE and query < len(self._weights) and key <= query:
            self.cursor = (query, key)
            self.post_message(self.Moved())

    def _shown(self) -> tuple[int, int]:
        return max(1, self.size.height - 1), max(1, (self.size.width - EDGE) // CELL)

    def _first(self) -> Place:
        """Return the first row and column to draw so that the cursor is seen."""
        rows, columns = self._shown()
        return max(0, self.cursor[0] - rows + 1), max(0, self.cursor[1] - columns + 1)

    def render_line(self, y: int) -> Strip:
        """Draw the letters above, or one row with its letter."""
        first_row, first_column = self._first()
        columns = range(first_column, min(first_column + self._shown()[1], len(self._tokens)))
        row = y - 1 + first_row
        if not self._tokens or row >= len(self._tokens):
            return Strip.blank(self.size.width, self.rich_style)
        if y == 0:
            segments = [Segment(" " * EDGE)]
            for key in columns:
                segments.append(self._edge(key, CELL, is_marked=key == self.cursor[1]))
        else:
            segments = [self._edge(row, EDGE, is_marked=row == self.cursor[0])]
            segments += [self._cell(row, key) for key in columns]
        strip = Strip(segments).adjust_cell_length(self.size.width)
        return strip.apply_style(self.rich_style)

    def _edge(self, place: int, width: int, *, is_marked: bool) -> Segment:
        name = self._tokens[place]
        padded = " " * (width - 2 - cell_width(name)) + name + "  "
        return Segment(padded, Style(bold=True, underline=False) if is_marked else Style(dim=True))

    def _cell(self, query: int, key: int) -> Segment:
        if key > query:
            return Segment(("." if is_ascii() else "·").center(CELL), Style(dim=True))
        weight = self._weights[query][key]
        is_here = (query, key) == self.cursor
        left, right = ("<>" if is_ascii() else "‹›") if is_here else "  "
        style = _behind(_level(weight)) if has_colour(self.app) else Style()
        return Segment(f"{left}{weight:.2f}{right}", style + Style(bold=is_here, reverse=is_here))
