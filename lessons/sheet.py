"""Worksheets: labelled grids, the operations between them, and why each number is what it is.

A sheet is a small spreadsheet. Its inputs may be edited; every other grid is one operation on grids
above it. A sheet never changes: an edit returns a new one, so undo is keeping the old one. It knows
no screen. All values are float64.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol

from torch import Tensor

from data.errors import UsageError

BOOK_DIGITS = 3

Rounding = Callable[[Tensor], Tensor]


class SheetError(UsageError):
    """An edit that no sheet can take; the message names what fits."""


class Cell(NamedTuple):
    """One number's address."""

    grid: str
    row: int
    col: int


class Explanation(NamedTuple):
    """How a cell got its value."""

    arithmetic: str
    """The calculation in numbers, with its result."""
    sources: tuple[Cell, ...]
    """The cells it was made from, in the order they appear in the arithmetic."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A matrix with names along its edges, (rows, cols)."""

    values: Tensor
    rows: tuple[str, ...]
    cols: tuple[str, ...]


def exact(values: Tensor) -> Tensor:
    """Round nothing."""
    return values


def book_rounding(values: Tensor) -> Tensor:
    """Round half up to three decimals, as the book does after every operation."""
    scale = 10.0**BOOK_DIGITS
    # The tiny amount undoes what binary fractions lose: 0.1075 is stored a little below itself.
    return (values * scale + 0.5 + 1e-9).floor() / scale


def short(value: float) -> str:
    """Write a number as briefly as three decimals allow: 1, 0.5, 0.336, −∞."""
    if math.isinf(value):
        return "−∞" if value < 0 else "∞"
    text = f"{value:.3f}".rstrip("0").rstrip(".")
    return text.replace("-", "−") if float(text or 0) else "0"


class Op(Protocol):
    """One operation: which grids it reads, what it makes of them, and how it tells."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the grids it needs, in order."""
        ...

    def apply(self, rounded: Rounding, *grids: Grid) -> Grid:
        """Compute the whole grid, rounding what a person would write down on the way."""
        ...

    def explain(self, result: float, row: int, col: int, *grids: Grid) -> Explanation:
        """Tell one cell of what `apply` returned."""
        ...


@dataclass(frozen=True)
class Sheet:
    """Inputs by name, and operations by the name of the grid they make, in reading order."""

    inputs: Mapping[str, Grid]
    ops: Mapping[str, Op]
    rounded: Rounding = exact
    """exact, or book_rounding to reproduce the book's printed chain."""

    @cached_property
    def grids(self) -> Mapping[str, Grid]:
        """Every grid, computed once."""
        grids = dict(self.inputs)
        for name, op in self.ops.items():
            grids[name] = op.apply(self.rounded, *(grids[parent] for parent in op.reads))
        return grids

    def value(self, cell: Cell) -> float:
        """Return the number in a cell."""
        return self.grids[cell.grid].values[cell.row, cell.col].item()

    def cell(self, grid: str, row: str, col: str) -> Cell:
        """Find a cell by its names, for example ("weights", "sat", "the")."""
        found = self.grids[grid]
        return Cell(grid, found.rows.index(row), found.cols.index(col))

    def explain(self, cell: Cell) -> Explanation:
        """Say where a number comes from; an input comes from the learner."""
        value = self.value(cell)
        op = self.ops.get(cell.grid)
        if op is None:
            return Explanation(f"{short(value)}, given; you can change it", ())
        parents = (self.grids[name] for name in op.reads)
        return op.explain(value, cell.row, cell.col, *parents)

    def edit(self, cell: Cell, value: float) -> "Sheet":
        """Return the sheet with one input changed.

        Raises:
            SheetError: If the cell is computed, or the value isn't a finite number.
        """
        grid = self.inputs.get(cell.grid)
        if grid is None:
            raise SheetError(
                f"{cell.grid} is computed; what you can change: {', '.join(self.inputs)}."
            )
        if not math.isfinite(value) or abs(value) > 1e6:
            raise SheetError(f"{value} can't stand here; give a number between −10⁶ and 10⁶.")
        values = grid.values.clone()
        values[cell.row, cell.col] = value
        return replace(self, inputs={**self.inputs, cell.grid: replace(grid, values=values)})
