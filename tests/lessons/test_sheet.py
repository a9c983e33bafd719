from dataclasses import replace

import pytest
import torch

from core.attention import causal, scaled_dot_product_attention
from lessons.chapters.ch02_attention.steps import TOKENS, attention_sheet
from lessons.operations import MatMul
from lessons.sheet import Cell, Grid, Sheet, SheetError, book_rounding


def test_the_sheet_computes_what_pytorch_computes():
    grids = attention_sheet().grids
    q, k, v = (grids[name].values for name in ("Q", "K", "V"))
    unscaled = q * 2**0.5  # the chapter does not divide by the root of d_k = 2 yet
    everyone = torch.ones(4, 4, dtype=torch.bool)

    expected = torch.nn.functional.scaled_dot_product_attention(unscaled, k, v)

    torch.testing.assert_close(grids["output"].values, expected)
    torch.testing.assert_close(scaled_dot_product_attention(unscaled, k, v, everyone), expected)
    assert not torch.allclose(scaled_dot_product_attention(unscaled, k, v, causal(4)), expected)


def test_rows_of_weights_add_up_to_one_and_columns_need_not():
    grids = attention_sheet().grids

    torch.testing.assert_close(grids["row sums"].values, torch.ones(4, 1, dtype=torch.float64))
    assert grids["column sums"].values[0, 2].item() == pytest.approx(1.502, abs=5e-4)


def test_a_cell_tells_its_arithmetic_and_its_sources():
    sheet = attention_sheet()

    told = sheet.explain(sheet.cell("output", "the", "0"))

    assert told.arithmetic == "0.124·1 + 0.336·0 + 0.336·1 + 0.204·0.5 = 0.562"
    assert told.sources[:2] == (Cell("weights", 0, 0), Cell("V", 0, 0))
    assert len(told.sources) == 8


def test_every_cell_of_every_grid_can_be_explained_by_cells_that_exist():
    sheet = attention_sheet()

    for name, grid in sheet.grids.items():
        for row in range(len(grid.rows)):
            for col in range(len(grid.cols)):
                told = sheet.explain(Cell(name, row, col))
                assert told.arithmetic
                for source in told.sources:
                    sheet.value(source)


def test_following_sources_ends_at_the_inputs():
    sheet = attention_sheet()
    seen: set[str] = set()
    waiting = [Cell("output", 3, 0)]

    while waiting:
        cell = waiting.pop()
        seen.add(cell.grid)
        waiting += sheet.explain(cell).sources

    assert seen == {"output", "weights", "scores", "Q", "K", "V", "X", "W_Q", "W_K", "W_V"}


def test_many_terms_are_told_by_the_three_largest():
    left = Grid(torch.arange(12.0, dtype=torch.float64)[None], ("a",), tuple("abcdefghijkl"))
    right = Grid(torch.ones(12, 1, dtype=torch.float64), tuple("abcdefghijkl"), ("b",))
    sheet = Sheet({"left": left, "right": right}, {"product": MatMul("left", "right")})

    told = sheet.explain(Cell("product", 0, 0))

    assert told.arithmetic == "9·1 + 10·1 + 11·1 + … 9 more = 66"
    assert len(told.sources) == 24


def test_an_edit_reaches_everything_downstream_and_leaves_the_old_sheet_alone():
    sheet = attention_sheet()
    before = sheet.grids["scores"].values.clone()

    edited = sheet.edit(Cell("W_Q", 1, 1), 2.0)

    assert edited.value(edited.cell("scores", "the", "cat")) == 1.0
    assert edited.value(edited.cell("scores", "cat", "the")) == 2.0
    assert not torch.equal(edited.grids["output"].values, sheet.grids["output"].values)
    assert torch.equal(sheet.grids["scores"].values, before)


def test_values_play_no_part_in_the_weights():
    sheet = attention_sheet()

    edited = sheet.edit(Cell("W_V", 0, 0), 7.0)

    assert torch.equal(edited.grids["weights"].values, sheet.grids["weights"].values)
    assert not torch.equal(edited.grids["output"].values, sheet.grids["output"].values)


def test_a_computed_cell_cannot_be_edited():
    with pytest.raises(SheetError, match="weights is computed; what you can change: X, W_Q"):
        attention_sheet().edit(Cell("weights", 0, 0), 1.0)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e7])
def test_only_numbers_that_fit_can_be_put_in(value: float):
    with pytest.raises(SheetError, match="can't stand here"):
        attention_sheet().edit(Cell("X", 0, 0), value)


def test_moved_tokens_keep_their_outputs():
    from lessons.chapters.ch02_attention.steps import NEW_ORDER, reordered_sheet

    grids = reordered_sheet().grids

    torch.testing.assert_close(
        grids["output moved"].values, grids["output"].values[list(NEW_ORDER)]
    )
    assert grids["output moved"].rows == tuple(TOKENS[i] for i in NEW_ORDER)


def test_book_rounding_reproduces_the_printed_chain():
    sheet = replace(attention_sheet(), rounded=book_rounding)

    assert sheet.grids["sums"].values.flatten().tolist() == [8.085, 8.085, 15.543, 7.665]
    assert sheet.grids["weights"].values[3].tolist() == [0.215, 0.215, 0.355, 0.215]
    assert sheet.grids["output"].values.tolist() == [
        [0.562, 1.336],
        [0.774, 1.336],
        [0.738, 1.475],
        [0.678, 1.355],
    ]
