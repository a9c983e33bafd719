"""Matrices and attention as plain text, a table or a picture: no colour codes, no terminal.

Takes nested sequences of numbers, so neither torch nor numpy is needed here. Widths are counted in
the cells of a terminal, not in characters: wide letters take two. T: positions.
"""

import math
import unicodedata
from collections.abc import Callable, Sequence
from html import escape
from textwrap import wrap

Matrix = Sequence[Sequence[float]]
Heads = Sequence[Sequence[Matrix]]
"""Weights of a whole model: n_layers x n_heads x T x T."""

BLOCKS, ASCII_RAMP = " ░▒▓█", " .:-=+*#%@"
BLANK_BELOW = 0.05
HEADING = ("layers ↓ heads →, rows look at columns", "5% ░ 25% ▒ 50% ▓ 75% █ 100%")
ASCII_HEADING = ("layers down, heads right; rows look at columns", f"5 to 100%: {ASCII_RAMP[1:]}")
MAP_GAP, SVG_CELL = 2, 14
CIVIDIS = bytes.fromhex("00224e1235703b496c575d6d7071738a8678a59c74c3b369e1cc55fee838")
"""Ten of its colours, equally spaced. Source: Nuñez, Anderton and Renslow 2018."""


def cell_width(text: str) -> int:
    """Count the terminal cells that a text takes; a control character counts as its `·`."""
    if text.isascii():
        return len(text)
    return sum(
        1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
        if unicodedata.category(char) not in ("Mn", "Me", "Cf")
    )


def visible(text: str, *, ascii_only: bool = False) -> str:
    """Return a token, name or title that can be seen and can't disturb a grid.

    It is composed (NFC); a control or format character becomes `·`, a lone space `␣`, and a lone
    combining mark stands on `◌`. With ascii_only, what isn't ASCII becomes Python's escape.
    """
    if text.isascii() and text.isprintable() and not text.isspace():
        return text
    text = unicodedata.normalize("NFC", text)
    if text.strip(" ") == "":
        return text.replace(" ", "_" if ascii_only else "␣")
    if ascii_only:
        return ascii(text)[1:-1]
    unseen = ("Cc", "Cf", "Cs", "Zl", "Zp")
    text = "".join("·" if unicodedata.category(char) in unseen else char for char in text)
    return "◌" + text if unicodedata.category(text[0]) in ("Mn", "Me") else text


def shade(value: float, *, ascii_only: bool = False) -> str:
    """Return one character for a share: blank below 5%, then equal parts of what is left of 1.

    The parts are quarters with blocks and ninths in ASCII. More than 1 counts as 1; nan is `?`.
    """
    ramp = ASCII_RAMP if ascii_only else BLOCKS
    if math.isnan(value):
        return "?"
    return " " if value < BLANK_BELOW else ramp[math.ceil(min(1.0, value) * (len(ramp) - 1))]


def cividis(share: float) -> str:
    """Return the colour `#rrggbb` for a share: from dark blue to yellow, always lighter."""
    place = min(1.0, max(0.0, share)) * (len(CIVIDIS) // 3 - 1)
    below = min(int(place), len(CIVIDIS) // 3 - 2)
    low, high = CIVIDIS[3 * below : 3 * below + 3], CIVIDIS[3 * below + 3 : 3 * below + 6]
    mixed = [round(a + (place - below) * (b - a)) for a, b in zip(low, high, strict=True)]
    return f"#{bytes(mixed).hex()}"


def number_text(value: float, *, digits: int = 3, ascii_only: bool = False) -> str:
    """Write a number as the grids do: fixed digits, −∞ for -inf, no negative zero."""
    text = f"{value:.{digits}{'f' if abs(value) < 1e6 else 'e'}}"
    text = text.lstrip("-") if float(text) == 0 else text
    return text if ascii_only else text.replace("-", "−").replace("inf", "∞")


def matrix_text(
    values: Matrix,
    row_names: Sequence[str],
    column_names: Sequence[str],
    *,
    title: str | None = None,
    digits: int = 3,
    hidden: Callable[[int, int], bool] | None = None,
    ascii_only: bool = False,
    max_width: int | None = None,
) -> str:
    """Set a matrix with names on both edges, its numbers aligned on the decimal point.

    The title gets the shape, as in `weights (4×4)`. `hidden` says for (row, column) whether to show
    `·` instead, as for masked cells. Columns that don't fit into max_width follow below, beside the
    same row names.
    """
    dot, times = (".", "x") if ascii_only else ("·", "×")
    texts = [
        [
            dot if hidden and hidden(i, j) else number_text(v, digits=digits, ascii_only=ascii_only)
            for j, v in enumerate(row)
        ]
        for i, row in enumerate(values)
    ]
    rows = [visible(name, ascii_only=ascii_only) for name in row_names]
    columns = [visible(name, ascii_only=ascii_only) for name in column_names]
    text = "\n\n".join(_column_blocks(_align_points(texts), rows, columns, max_width))
    if title is None:
        return text
    shape = f"({len(rows)}{times}{len(columns)})"
    return f"{visible(title, ascii_only=ascii_only)} {shape}\n{text}".rstrip()


def attention_text(
    weights: Matrix,
    tokens: Sequence[str],
    *,
    ascii_only: bool = False,
    digits: int = 2,
    title: str | None = None,
    max_width: int | None = None,
) -> str:
    """Set one head, (T, T), in numbers: rows look, columns are looked at, masked cells are `·`."""
    return matrix_text(
        weights,
        tokens,
        tokens,
        title=title,
        digits=digits,
        hidden=lambda query, key: _is_masked(weights, query, key),
        ascii_only=ascii_only,
        max_width=max_width,
    )


def attention_overview(
    weights: Heads, tokens: Sequence[str], *, ascii_only: bool = False, max_width: int = 80
) -> str:
    """Draw a small shaded map of every head: layers downwards, heads to the right.

    Heads that don't fit into max_width go into another row. Where not even one whole map fits,
    its last positions are shown, and a sentence says so.
    """
    letters = [_letter(token, ascii_only=ascii_only) for token in tokens]
    n_heads, n = len(weights[0]), len(tokens)
    unit, n_shown, per_row = _fit(letters, f"{len(weights) - 1}.{n_heads - 1}", n_heads, max_width)
    lines: list[str] = list(ASCII_HEADING if ascii_only else HEADING)
    if n_shown < n:
        needed = unit * (n + 1) + 1
        lines.append(f"The last {n_shown} of {n} positions fit; a width of {needed} shows all.")
    parts = ["\n".join(part for line in lines for part in wrap(line, max(max_width, 1)))]
    for i, layer in enumerate(weights):
        for first in range(0, n_heads, per_row):
            maps = [
                _small_map(f"{i}.{j}", layer[j], letters, unit, n_shown, ascii_only=ascii_only)
                for j in range(first, min(first + per_row, n_heads))
            ]
            side_by_side = zip(*maps, strict=True)
            parts.append("\n".join((" " * MAP_GAP).join(row).rstrip() for row in side_by_side))
    return "\n\n".join(parts)


def attention_tsv(weights: Heads, tokens: Sequence[str]) -> str:
    """Write every weight on a line of its own, exactly, for another program to read."""
    lines = ["layer\thead\tquery_position\tquery\tkey_position\tkey\tweight"]
    lines.extend(
        f"{i}\t{j}\t{q}\t{tokens[q]}\t{k}\t{tokens[k]}\t{float(weight)!r}"
        for i, layer in enumerate(weights)
        for j, head in enumerate(layer)
        for q, row in enumerate(head)
        for k, weight in enumerate(row)
    )
    return "\n".join(lines) + "\n"


def attention_svg(weights: Heads, tokens: Sequence[str], *, title: str = "Attention") -> str:
    """Draw every head as one picture; pointing at a cell tells its query, key and weight."""
    names = [escape(visible(token)) for token in tokens]
    side = SVG_CELL * len(names) + 46  # of one panel, with its letters and the space around it
    width, height = max(400, side * len(weights[0]) + 20), side * len(weights) + 70
    heading = escape(visible(title))
    steps = [(44 + 8 * i, cividis(i / 15)) for i in range(16)]
    scale = "".join(f'<rect x="{x}" y="34" width="8" height="8" fill="{c}"/>' for x, c in steps)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="monospace" font-size="10" role="img">',
        f'<title>{heading}</title><rect width="100%" height="100%" fill="white"/>',
        f'<text x="20" y="22" font-size="14">{heading}</text><text x="20" y="42">0.0</text>{scale}',
        '<text x="178" y="42">1.0  layer.head; rows look at columns</text>',
    ]
    for i, layer in enumerate(weights):
        for j, head in enumerate(layer):
            parts.extend(_svg_panel(f"{i}.{j}", head, names, 20 + side * j, 60 + side * i))
    return "\n".join([*parts, "</svg>\n"])


def _is_masked(weights: Matrix, query: int, key: int) -> bool:
    return key > query and weights[query][key] == 0


def _letter(token: str, *, ascii_only: bool) -> str:
    text = visible(token)[:1] or " "
    return text if text.isascii() or not ascii_only else "?"


def _pad(text: str, width: int) -> str:
    return " " * (width - cell_width(text)) + text


def _align_points(texts: list[list[str]]) -> list[list[str]]:
    """Pad numbers to one width with their points below each other; other marks stand right."""
    numbers = [t.partition(".") for row in texts for t in row if any(map(str.isdigit, t))]
    before = max((len(whole) for whole, _, _ in numbers), default=0)
    after = max((len(point + rest) for _, point, rest in numbers), default=0)
    width = max((len(text) for row in texts for text in row), default=0)

    def pad(text: str) -> str:
        if any(map(str.isdigit, text)):
            whole, point, rest = text.partition(".")
            text = whole.rjust(before) + (point + rest).ljust(after)
        return text.rjust(max(width, before + after))

    return [[pad(text) for text in row] for row in texts]


def _column_blocks(
    texts: list[list[str]], rows: list[str], columns: list[str], max_width: int | None
) -> list[str]:
    """Put names around cells, with as many columns in a block as fit."""
    edge = max(map(cell_width, rows), default=0)
    cell = max((len(text) for row in texts for text in row), default=0)
    widths = [max(cell, cell_width(name)) for name in columns]
    per_block = max(1, len(columns))
    if max_width is not None:
        per_block = max(1, (max_width - edge) // (1 + max(widths, default=0)))
    blocks: list[str] = []
    for first in range(0, len(columns), per_block):
        block = slice(first, first + per_block)
        lines = [
            " ".join([_pad(name, edge), *map(_pad, cells[block], widths[block])]).rstrip()
            for name, cells in zip(["", *rows], [columns, *texts], strict=True)
        ]
        blocks.append("\n".join(lines))
    return blocks


def _fit(letters: list[str], label: str, n_heads: int, max_width: int) -> tuple[int, int, int]:
    """Choose the cells of one weight, the positions to show and the maps side by side."""
    unit, n = max(map(cell_width, letters), default=1), len(letters)
    if n_heads * (3 + max(2 * n, len(label)) + MAP_GAP) - MAP_GAP <= max_width:
        unit = 2  # a terminal's cell is about twice as high as wide
    n_shown = max(1, min(n, (max_width - unit - 1) // unit))
    map_width = unit + 1 + max(unit * n_shown, len(label))
    return unit, n_shown, max(1, min(n_heads, (max_width + MAP_GAP) // (map_width + MAP_GAP)))


def _small_map(
    label: str, head: Matrix, letters: list[str], unit: int, n_shown: int, *, ascii_only: bool
) -> list[str]:
    """Draw one head as lines of equal width."""
    first, edge = len(letters) - n_shown, " " * (unit + 1)
    lines = [edge + label, edge + "".join(_pad(letter, unit) for letter in letters[first:])]
    for name, row in zip(letters[first:], head[first:], strict=True):
        cells = "".join(shade(weight, ascii_only=ascii_only) * unit for weight in row[first:])
        lines.append(f"{_pad(name, unit)} {cells}")
    width = max(map(cell_width, lines))
    return [line + " " * (width - cell_width(line)) for line in lines]


def _svg_panel(label: str, head: Matrix, names: list[str], x: int, y: int) -> list[str]:
    """Draw one head: letters above and at the left, a square with a tooltip for each weight."""
    size = SVG_CELL * len(names)
    parts = [
        f'<g transform="translate({x},{y})"><text x="16" y="8" font-weight="bold">{label}</text>',
        f'<rect x="16" y="24" width="{size}" height="{size}" fill="#e4e4e4"/>',
    ]
    for i, name in enumerate(names):
        middle = SVG_CELL * i + SVG_CELL // 2
        parts.append(f'<text x="{16 + middle}" y="20" text-anchor="middle">{name}</text>')
        parts.append(f'<text x="12" y="{28 + middle}" text-anchor="end">{name}</text>')
    for q, row in enumerate(head):
        for k, weight in enumerate(row):
            color = "#d03030" if math.isnan(weight) else cividis(weight)
            if not _is_masked(head, q, k):
                parts.append(
                    f'<rect x="{16 + SVG_CELL * k}" y="{24 + SVG_CELL * q}" width="{SVG_CELL}" '
                    f'height="{SVG_CELL}" fill="{color}"><title>{names[q]} ({q}) → {names[k]} '
                    f"({k}): {weight:.4f}</title></rect>"
                )
    return [*parts, "</g>"]
