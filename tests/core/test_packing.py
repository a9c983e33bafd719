import random

import pytest

from core.packing import pack

ROW_LENGTH = 16


def some_lengths(seed: int) -> list[int]:
    draw = random.Random(seed)
    return [draw.randint(1, ROW_LENGTH) for _ in range(draw.randint(1, 200))]


every_seed = pytest.mark.parametrize("seed", range(20))


@every_seed
def test_every_item_is_in_exactly_one_row(seed: int):
    lengths = some_lengths(seed)

    rows = pack(lengths, ROW_LENGTH)

    assert sorted(item for row in rows for item in row) == list(range(len(lengths)))


@every_seed
def test_no_row_is_overfull_or_empty(seed: int):
    lengths = some_lengths(seed)

    for row in pack(lengths, ROW_LENGTH):
        assert 0 < sum(lengths[item] for item in row) <= ROW_LENGTH


@every_seed
def test_the_first_item_of_a_row_fits_no_row_before_it(seed: int):
    lengths = some_lengths(seed)

    rows = pack(lengths, ROW_LENGTH)

    filled = [sum(lengths[item] for item in row) for row in rows]
    for number, row in enumerate(rows):
        assert all(before + lengths[row[0]] > ROW_LENGTH for before in filled[:number])


@every_seed
def test_at_most_one_row_is_half_empty(seed: int):
    # The first item of the later one, its longest, would have fitted into the earlier one.
    lengths = some_lengths(seed)

    rows = pack(lengths, ROW_LENGTH)

    filled = [sum(lengths[item] for item in row) for row in rows]
    assert sum(2 * length <= ROW_LENGTH for length in filled) <= 1


def test_the_longest_go_first():
    lengths = [2, 9, 4, 9]

    rows = pack(lengths, 10)

    assert [[lengths[item] for item in row] for row in rows] == [[9], [9], [4, 2]]


def test_an_item_goes_into_the_fullest_row_that_holds_it():
    assert pack([7, 5, 4, 1], 10) == [[0], [1, 2, 3]]


def test_items_that_fill_rows_to_the_end_leave_no_room():
    assert len(pack([8, 4, 4, 8, 2, 2, 2, 2, 8], 8)) == 5


def test_an_item_as_long_as_a_row_has_one_for_itself():
    assert pack([3, 3], 3) == [[0], [1]]


def test_no_items_need_no_rows():
    assert pack([], 5) == []


def test_an_item_longer_than_a_row_is_refused():
    with pytest.raises(ValueError, match="an item of length 6 does not fit a row of 5"):
        pack([2, 6, 1], 5)
