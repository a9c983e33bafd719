"""The operations of a worksheet: each computes a grid and tells how each of its cells came to be.

They call the functions the model itself uses.
"""

from dataclasses import dataclass, replace

from core.attention import shares
from lessons.sheet import Cell, Explanation, Grid, Rounding, exact, short

MOST_TERMS = 8
LARGEST_SHOWN = 3


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


def _factor(value: float) -> str:
    """Put a negative number in brackets, so that it can stand behind a sign."""
    return f"({short(value)})" if value < 0 else short(value)
