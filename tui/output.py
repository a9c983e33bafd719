"""How commands speak: results on stdout, everything else on stderr.

A table for a terminal, aligned text for a pipe, JSON for a program. Text that a person or a file
gave is never read as markup.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any

from core.render import cell_width


def say(text: str) -> None:
    """Print a result."""
    print(text)


def note(text: str) -> None:
    """Print something beside the results: a hint, a repair, a step on the way."""
    print(text, file=sys.stderr, flush=True)


def speaks_utf8() -> bool:
    """Say whether results may hold characters beyond ASCII."""
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf8")


def emit(content: dict[str, Any]) -> None:
    """Print one JSON object on a line of its own, at once."""
    print(json.dumps(content, ensure_ascii=False, allow_nan=False), flush=True)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "") -> None:
    """Print rows under their columns; a column whose cells look like numbers stands right.

    Args:
        columns: Headings.
        rows: One text for each column.
        title: What the table shows, for a terminal.
    """
    right = [
        all(_is_number(row[column]) for row in rows if row[column]) and bool(rows)
        for column in range(len(columns))
    ]
    if sys.stdout.isatty():
        _rich_table(columns, rows, right, title)
    else:
        _plain_table(columns, rows, right)


def _plain_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]
) -> None:
    cells = [columns, *rows]
    widths = [max(cell_width(row[i]) for row in cells) for i in range(len(columns))]
    for row in cells:
        padded: list[str] = []
        for text, width, is_right in zip(row, widths, right, strict=True):
            gap = " " * (width - cell_width(text))
            padded.append(gap + text if is_right else text + gap)
        say("  ".join(padded).rstrip())


def _rich_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool], title: str
) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(
        box=SIMPLE_HEAD,
        title=title or None,
        title_justify="left",
        pad_edge=False,
        padding=(0, 1, 0, 0),
        collapse_padding=True,
    )
    for column, is_right in zip(columns, right, strict=True):
        drawn.add_column(column, justify="right" if is_right else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(cell) for cell in row))
    Console().print(drawn)


def _is_number(text: str) -> bool:
    return bool(text) and text.lstrip("-−+").replace(",", "").replace(".", "").isdigit()
