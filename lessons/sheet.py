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

from core.attention import shares
from data.errors import UsageError

MOST_TERMS = 8
LARGEST_SHOWN = 3
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


@dataclass(frozen=True, slots=True)
class MatMul:
    """left @ right: each cell is a row of left against a column of right."""

    left: str
    right: str
    transposed: bool = False
    """Use right's rows as columns, as in Q Kᵀ."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Left, then right."""
        return self.left, self.right

    def apply(self, rounded: Rounding, *grids: Grid) -> Grid:
        """Multiply, (n, k) by (k, m), and keep the outer names."""
        left, right = grids
        columns = right.values if self.transposed else right.values.T  # (m, k)
        if rounded is exact:
            values = left.values @ columns.T
        else:  # by hand, each product is written down before they are added
            products = rounded(left.values[:, None, :] * columns[None, :, :])  # (n, m, k)
            values = rounded(products.sum(dim=-1))
        return Grid(values, left.rows, right.rows if self.transposed else right.cols)

    def explain(self, result: float, row: int, col: int, *grids: Grid) -> Explanation:
        """Write the dot product out; of many terms, the largest."""
        left, right = grids
        n_terms = left.values.shape[1]
        others = [
            Cell(self.right, col, k) if self.transposed else Cell(self.right, k, col)
            for k in range(n_terms)
        ]
        factors = [
            (left.values[row, k].item(), right.values[other.row, other.col].item())
            for k, other in enumerate(others)
        ]
        terms = [f"{_factor(a)}·{_factor(b)}" for a, b in factors]
        if n_terms > MOST_TERMS:
            by_size = sorted(range(n_terms), key=lambda k: -abs(factors[k][0] * factors[k][1]))
            kept = sorted(by_size[:LARGEST_SHOWN])
            terms = [terms[k] for k in kept] + [f"… {n_terms - LARGEST_SHOWN} more"]
        sources = [
            cell for k, other in enumerate(others) for cell in (Cell(self.left, row, k), other)
        ]
        return Explanation(f"{' + '.join(terms)} = {short(result)}", tuple(sources))


@dataclass(frozen=True, slots=True)
class Exp:
    """e to the power of each cell."""

    source: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The one grid it maps."""
        return (self.source,)

    def apply(self, rounded: Rounding, *grids: Grid) -> Grid:
        """Map every cell; names stay."""
        return replace(grids[0], values=rounded(grids[0].values.exp()))

    def explain(self, result: float, row: int, col: int, *grids: Grid) -> Explanation:
        """Show the power."""
        x = grids[0].values[row, col].item()
        return Explanation(f"e^{short(x)} = {short(result)}", (Cell(self.source, row, col),))


@dataclass(frozen=True, slots=True)
class Sums:
    """Each row added up, or each column."""

    source: str
    over_columns: bool = False
    """Add up each column instead of each row."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The one grid it adds up."""
        return (self.source,)

    def apply(self, rounded: Rounding, *grids: Grid) -> Grid:
        """Add up, (n, m) -> (n, 1), or (1, m) for columns."""
        grid = grids[0]
        if self.over_columns:
            return Grid(rounded(grid.values.sum(dim=0, keepdim=True)), ("sum",), grid.cols)
        return Grid(rounded(grid.values.sum(dim=1, keepdim=True)), grid.rows, ("sum",))

    def explain(self, result: float, row: int, col: int, *grids: Grid) -> Explanation:
        """Write the sum out."""
        values = grids[0].values
        cells = (
            [Cell(self.source, k, col) for k in range(values.shape[0])]
            if self.over_columns
            else [Cell(self.source, row, k) for k in range(values.shape[1])]
        )
        terms = " + ".join(short(values[cell.row, cell.col].item()) for cell in cells)
        return Explanation(f"{terms} = {short(result)}", tuple(cells))


@dataclass(frozen=True, slots=True)
class Softmax:
    """Each row turned into shares that add up to 1."""

    source: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The scores."""
        return (self.source,)

    def apply(self, rounded: Rounding, *grids: Grid) -> Grid:
        """Normalise row by row."""
        scores = grids[0].values
        if rounded is exact:
            return replace(grids[0], values=shares(scores))
        powers = rounded(scores.exp())
        return replace(grids[0], values=rounded(powers / powers.sum(dim=-1, keepdim=True)))

    def explain(self, result: float, row: int, col: int, *grids: Grid) -> Explanation:
        """Show the exponentials; the cell's own stands above the line."""
        scores = grids[0].values[row].tolist()
        below = " + ".join(f"e^{short(score)}" for score in scores)
        sources = tuple(Cell(self.source, row, k) for k in range(len(scores)))
        return Explanation(f"e^{short(scores[col])} / ({below}) = {short(result)}", sources)


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Every cell of a row plus the one number that belongs to the row."""

    source: str
    column: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The matrix, then the column."""
        return self.source, self.column

    def apply(self, rounded: Rounding, *grids: Grid) -> Grid:
        """Add, (n, m) + (n, 1)."""
        return replace(grids[0], values=rounded(grids[0].values + grids[1].values))

    def explain(self, result: float, row: int, col: int, *grids: Grid) -> Explanation:
        """Write the sum out."""
        a, b = grids[0].values[row, col].item(), grids[1].values[row, 0].item()
        sources = (Cell(self.source, row, col), Cell(self.column, row, 0))
        return Explanation(f"{short(a)} + {_factor(b)} = {short(result)}", sources)


@dataclass(frozen=True, slots=True)
class Reorder:
    """The rows of a grid in another order."""

    source: str
    order: tuple[int, ...]
    """For each new row, which old one it is."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The one grid it reorders."""
        return (self.source,)

    def apply(self, rounded: Rounding, *grids: Grid) -> Grid:
        """Pick the rows in their new order; names move along."""
        grid, order = grids[0], list(self.order)
        return Grid(rounded(grid.values[order]), tuple(grid.rows[i] for i in order), grid.cols)

    def explain(self, result: float, row: int, col: int, *grids: Grid) -> Explanation:
        """Say where the row stood."""
        name = grids[0].rows[self.order[row]]
        source = Cell(self.source, self.order[row], col)
        return Explanation(f"row {name} of {self.source} = {short(result)}", (source,))


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


def _factor(value: float) -> str:
    """Put a negative number in brackets, so that it can stand behind a sign."""
    return f"({short(value)})" if value < 0 else short(value)
