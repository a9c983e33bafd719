"""The worked numbers of Chapter 2: one pure function for each step and each question.

A step's function takes the learner's sheet, edited or not, and returns what the text quotes and
which grids to show; a question's function returns its right answer on that sheet.
"""

from dataclasses import replace

import torch

from lessons.lesson import Answer, Figure, StepResult
from lessons.operations import AddColumn, Exp, MatMul, Reorder, Softmax, Sums
from lessons.rules import Mistake, named, output_mistakes, weight_mistakes
from lessons.sheet import Cell, Grid, Sheet

TOKENS = ("the", "cat", "sat", "down")
FEATURES = ("0", "1")
X = ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.5, 0.5))
W_Q = ((1.0, 0.0), (0.0, 1.0))
W_K = ((0.0, 1.0), (1.0, 0.0))
W_V = ((1.0, 1.0), (0.0, 1.0))
NEW_ORDER = (2, 0, 3, 1)
ADDED = 100.0


def _grid(values: tuple[tuple[float, ...], ...], rows: tuple[str, ...]) -> Grid:
    return Grid(torch.tensor(values, dtype=torch.float64), rows, FEATURES)


def attention_sheet() -> Sheet:
    """Return the book's example: four tokens of two features, all the way to the output."""
    return Sheet(
        inputs={
            "X": _grid(X, TOKENS),
            "W_Q": _grid(W_Q, FEATURES),
            "W_K": _grid(W_K, FEATURES),
            "W_V": _grid(W_V, FEATURES),
        },
        ops={
            "Q": MatMul("X", "W_Q"),
            "K": MatMul("X", "W_K"),
            "V": MatMul("X", "W_V"),
            "scores": MatMul("Q", "K", transposed=True),
            "exp": Exp("scores"),
            "sums": Sums("exp"),
            "weights": Softmax("scores"),
            "row sums": Sums("weights"),
            "column sums": Sums("weights", over_columns=True),
            "output": MatMul("weights", "V"),
        },
    )


def shifted_sheet() -> Sheet:
    """Return scores to which a number a row is added before the softmax."""
    scores = attention_sheet().grids["scores"]
    added = Grid(torch.full((4, 1), ADDED, dtype=torch.float64), TOKENS, ("added",))
    return Sheet(
        inputs={"scores": scores, "added": added},
        ops={
            "weights": Softmax("scores"),
            "shifted": AddColumn("scores", "added"),
            "weights after": Softmax("shifted"),
        },
    )


def reordered_sheet() -> Sheet:
    """Return the example with its tokens in another order beside the first."""
    sheet = attention_sheet()
    return replace(
        sheet,
        ops={
            **sheet.ops,
            "X moved": Reorder("X", NEW_ORDER),
            "Q moved": MatMul("X moved", "W_Q"),
            "K moved": MatMul("X moved", "W_K"),
            "V moved": MatMul("X moved", "W_V"),
            "scores moved": MatMul("Q moved", "K moved", transposed=True),
            "weights moved": Softmax("scores moved"),
            "output moved": MatMul("weights moved", "V moved"),
        },
    )


def _show(*figures: tuple[str, str], **facts: float | str) -> StepResult:
    return StepResult(
        facts=facts,
        figures=tuple(Figure(grid=grid, title=grid, note=note) for grid, note in figures),
    )


def _at(sheet: Sheet, grid: str, row: str, col: str) -> float:
    return sheet.value(sheet.cell(grid, row, col))


def _cell(sheet: Sheet, grid: str, row: str, col: str, *mistakes: Mistake) -> Answer:
    cell = sheet.cell(grid, row, col)
    right = sheet.value(cell)
    return Answer(value=right, cell=cell, wrong=named(right, *mistakes))


def _weight(sheet: Sheet, row: str, col: str) -> Answer:
    cell = sheet.cell("weights", row, col)
    mistakes = weight_mistakes(sheet.grids["scores"].values, cell.row, cell.col)
    return _cell(sheet, "weights", row, col, *mistakes)


def _mixture(sheet: Sheet, row: str, col: str) -> Answer:
    cell = sheet.cell("output", row, col)
    weights, keys, values = (sheet.grids[name].values for name in ("weights", "K", "V"))
    mistakes = output_mistakes(weights, keys, values, cell.row, cell.col)
    return _cell(sheet, "output", row, col, *mistakes)


def tokens(sheet: Sheet) -> StepResult:
    """Show the four tokens as rows."""
    n_tokens, n_features = sheet.grids["X"].values.shape
    return _show(("X", "one row a token"), n_tokens=n_tokens, n_features=n_features)


def shape_of_x(sheet: Sheet) -> Answer:
    """The shape of X."""
    return Answer(value=tuple(sheet.grids["X"].values.shape))


def queries(sheet: Sheet) -> StepResult:
    """Multiply by W_Q."""
    return _show(("X", ""), ("W_Q", ""), ("Q", "X W_Q"))


def query_of_the(sheet: Sheet) -> Answer:
    """The first number of the query of "the"."""
    return _cell(sheet, "Q", "the", "0")


def keys(sheet: Sheet) -> StepResult:
    """Multiply by W_K."""
    return _show(("X", ""), ("W_K", ""), ("K", "X W_K"))


def key_of_cat(sheet: Sheet) -> Answer:
    """The first number of the key of "cat"."""
    own = _at(sheet, "X", "cat", "0")
    message = "that is the number in X; the key is X times W_K"
    return _cell(sheet, "K", "cat", "0", (own, message))


def values(sheet: Sheet) -> StepResult:
    """Multiply by W_V."""
    return _show(("X", ""), ("W_V", ""), ("V", "X W_V"))


def value_of_sat(sheet: Sheet) -> Answer:
    """The second number of the value of "sat"."""
    pairwise = _at(sheet, "X", "sat", "1") * _at(sheet, "W_V", "1", "1")
    message = "that multiplies number by number; a matrix product adds the products up"
    return _cell(sheet, "V", "sat", "1", (pairwise, message))


def shapes(sheet: Sheet) -> StepResult:
    """Set the shapes side by side."""
    return _show(("Q", ""), ("K", ""), ("V", ""))


def shape_of_keys_turned(sheet: Sheet) -> Answer:
    """The shape of Kᵀ."""
    return Answer(value=tuple(sheet.grids["K"].values.T.shape))


def scores(sheet: Sheet) -> StepResult:
    """Compare every query with every key."""
    return _show(
        ("Q", ""),
        ("K", ""),
        ("scores", "row: who asks; column: who answers"),
        the_cat=_at(sheet, "scores", "the", "cat"),
        the_sat=_at(sheet, "scores", "the", "sat"),
        sat_the=_at(sheet, "scores", "sat", "the"),
    )


def score_of_the_cat(sheet: Sheet) -> Answer:
    """How well the query of "the" matches the key of "cat"."""
    own = _at(sheet, "scores", "the", "the")
    embeddings = sheet.grids["X"].values
    similarity = (embeddings[0] @ embeddings[1]).item()
    return _cell(
        sheet,
        "scores",
        "the",
        "cat",
        (own, "that is the score of the token with itself"),
        (similarity, "that compares the embeddings; a score compares a query with a key"),
    )


def is_symmetric(sheet: Sheet) -> Answer:
    """Whether the score of (the, sat) equals that of (sat, the)."""
    is_equal = abs(_at(sheet, "scores", "the", "sat") - _at(sheet, "scores", "sat", "the")) < 1e-9
    return Answer(value="equal" if is_equal else "different")


def best_match(sheet: Sheet) -> StepResult:
    """Look for the largest score of each row."""
    return _show(
        ("scores", "the largest of each row is its best match"),
        sat_sat=_at(sheet, "scores", "sat", "sat"),
        the_the=_at(sheet, "scores", "the", "the"),
    )


def largest_of_sat(sheet: Sheet) -> Answer:
    """The largest score in the row of "sat"."""
    row = sheet.grids["scores"].values[2]
    return Answer(value=row.max().item(), cell=Cell("scores", 2, int(row.argmax())))


def always_itself(sheet: Sheet) -> Answer:
    """Whether every token's best match is itself."""
    values = sheet.grids["scores"].values
    return Answer(value="yes" if bool((values.diagonal() >= values.amax(dim=1)).all()) else "no")


def softmax(sheet: Sheet) -> StepResult:
    """Turn the row of "the" into shares."""
    return _show(
        ("scores", ""),
        ("exp", "e^score"),
        ("sums", "of each row"),
        ("weights", "e^score over the row's sum"),
        score=_at(sheet, "scores", "the", "the"),
        power=_at(sheet, "exp", "the", "the"),
        total=_at(sheet, "sums", "the", "sum"),
        weight=_at(sheet, "weights", "the", "the"),
    )


def sum_of_the(sheet: Sheet) -> Answer:
    """The sum of the powers in the row of "the"."""
    plain = sheet.grids["scores"].values[0].sum().item()
    message = "that adds the scores up; what is added are the powers e^score"
    return _cell(sheet, "sums", "the", "sum", (plain, message))


def weight_of_the_on_itself(sheet: Sheet) -> Answer:
    """The weight of "the" on itself."""
    return _weight(sheet, "the", "the")


def row_and_column_sums(sheet: Sheet) -> StepResult:
    """Add the weights up along rows and down columns."""
    return _show(
        ("weights", ""),
        ("row sums", "each is 1"),
        ("column sums", "what a token receives in all"),
        row_sum=_at(sheet, "row sums", "cat", "sum"),
        column_sum=_at(sheet, "column sums", "sum", "sat"),
    )


def sum_of_a_row(sheet: Sheet) -> Answer:
    """The sum of the weights of a row."""
    return _cell(sheet, "row sums", "cat", "sum")


def sum_of_the_column_sat(sheet: Sheet) -> Answer:
    """The sum of the weights on "sat"."""
    message = "that would be a row; nothing makes a column add up to 1"
    return _cell(sheet, "column sums", "sum", "sat", (1.0, message))


def row_of_sat(sheet: Sheet) -> StepResult:
    """Work the row of "sat" out."""
    return _show(
        ("exp", ""),
        ("sums", ""),
        ("weights", ""),
        total=_at(sheet, "sums", "sat", "sum"),
        weight=_at(sheet, "weights", "sat", "sat"),
    )


def weight_of_sat_on_itself(sheet: Sheet) -> Answer:
    """The weight of "sat" on itself."""
    return _weight(sheet, "sat", "sat")


def row_of_down(sheet: Sheet) -> StepResult:
    """Work the row of "down" out."""
    weight = _at(sheet, "weights", "down", "sat")
    return _show(
        ("scores", ""),
        ("weights", ""),
        weight=weight,
        percent=100 * weight,
        total=_at(sheet, "sums", "down", "sum"),
    )


def weight_of_down_on_sat(sheet: Sheet) -> Answer:
    """The weight of "down" on "sat"."""
    return _weight(sheet, "down", "sat")


def output_of_the(sheet: Sheet) -> StepResult:
    """Mix the values with the weights of "the"."""
    return _show(
        ("weights", ""),
        ("V", ""),
        ("output", "weights V"),
        first=_at(sheet, "output", "the", "0"),
        second=_at(sheet, "output", "the", "1"),
    )


def output_of_the_first(sheet: Sheet) -> Answer:
    """The first number of the output of "the"."""
    return _mixture(sheet, "the", "0")


def output_of_the_second(sheet: Sheet) -> Answer:
    """The second number of the output of "the"."""
    return _mixture(sheet, "the", "1")


def output_of_down(sheet: Sheet) -> StepResult:
    """Mix the values with the weights of "down", where the book's rounding shows."""
    return _show(
        ("weights", ""), ("V", ""), ("output", ""), first=_at(sheet, "output", "down", "0")
    )


def output_of_down_first(sheet: Sheet) -> Answer:
    """The first number of the output of "down"."""
    return _mixture(sheet, "down", "0")


def changing_values(sheet: Sheet) -> StepResult:
    """Show that values take no part in the weights."""
    return _show(("W_V", "change it"), ("V", ""), ("weights", ""), ("output", ""))


def do_weights_change(sheet: Sheet) -> Answer:
    """Whether the weights depend on W_V."""
    other = sheet.edit(Cell("W_V", 0, 0), sheet.value(Cell("W_V", 0, 0)) + 1)
    same = torch.equal(sheet.grids["weights"].values, other.grids["weights"].values)
    return Answer(value="no" if same else "yes")


def adding_to_a_row(sheet: Sheet) -> StepResult:
    """Add a number to a whole row of scores."""
    return _show(
        ("scores", ""),
        ("added", "change it"),
        ("shifted", "scores + added"),
        ("weights after", "softmax of shifted"),
        added=_at(sheet, "added", "the", "added"),
        before=_at(sheet, "weights", "the", "cat"),
        after=_at(sheet, "weights after", "the", "cat"),
    )


def weight_after_adding(sheet: Sheet) -> Answer:
    """The weight of "the" on "cat" after the addition."""
    message = "a large score is no large weight: the others grew too"
    return _cell(sheet, "weights after", "the", "cat", (1.0, message))


def other_order(sheet: Sheet) -> StepResult:
    """Put the tokens in another order."""
    return _show(
        ("X moved", "the same rows, moved"),
        ("output", "in the first order"),
        ("output moved", "in the new order"),
        first=_at(sheet, "output", "sat", "0"),
        moved=_at(sheet, "output moved", "sat", "0"),
    )


def output_moved_of_sat(sheet: Sheet) -> Answer:
    """The first number of the output of "sat", now the first token."""
    own = _at(sheet, "output", "the", "0")
    message = "that is the output of the token that stood there before; outputs move with tokens"
    return _cell(sheet, "output moved", "sat", "0", (own, message))
