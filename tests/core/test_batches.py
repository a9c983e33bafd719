from dataclasses import replace

import pytest
import torch
from torch import nn

from core.batches import (
    NO_TARGET,
    Batch,
    PackedRows,
    Rows,
    context,
    epochs,
    extend,
    steps_per_epoch,
)
from core.config import LAYOUTS, POSITIONS, ModelConfig
from core.evaluation import evaluate
from core.model import MiniGPT

LONGEST = 6
BLOCK_SIZE = LONGEST + 3
CONFIG = ModelConfig(
    vocab_size=7, block_size=BLOCK_SIZE, d_model=8, n_heads=2, n_layers=2, dropout=0.0
)


def random_names(n: int) -> list[list[int]]:
    """Make names of 1 to 6 letters."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, LONGEST + 1, (n,), generator=generator).tolist()
    return [torch.randint(1, 7, (length,), generator=generator).tolist() for length in lengths]


NAMES = random_names(60)


def random_model(positions: str) -> MiniGPT:
    model = MiniGPT(replace(CONFIG, positions=positions))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.5, generator=generator)
    return model


def rows_of(layout: str, names: list[list[int]] = NAMES) -> Rows:
    return context(names, layout, block_size=BLOCK_SIZE)


def packed() -> PackedRows:
    rows = rows_of("packed")
    assert isinstance(rows, PackedRows)
    return rows


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def predictions(rows: Rows) -> list[tuple[list[int], list[int], int]]:
    """List for every target what may be read for it, at which positions, and the target."""
    n_rows, T = rows.ids.shape
    counted = torch.arange(T).expand(n_rows, T)
    positions = counted if rows.positions is None else rows.positions
    past = torch.ones(T, T).tril().bool().expand(n_rows, T, T)
    visible = past if rows.visible is None else rows.visible
    asked = (rows.targets != NO_TARGET).nonzero().tolist()
    return [
        (
            rows.ids[row, visible[row, t]].tolist(),
            positions[row, visible[row, t]].tolist(),
            int(rows.targets[row, t]),
        )
        for row, t in asked
    ]


def expected_predictions() -> list[tuple[list[int], list[int], int]]:
    return [
        ([0, *name[:place]], list(range(place + 1)), [*name, 0][place])
        for name in NAMES
        for place in range(len(name) + 1)
    ]


def restarted(window: Rows) -> Rows:
    """Hide the filler of every window and let its name begin at position 0."""
    column = torch.arange(BLOCK_SIZE)
    n_filler = BLOCK_SIZE - 1 - window.places[:, -1:]  # (N, 1)
    is_read = column >= n_filler
    past = torch.ones(BLOCK_SIZE, BLOCK_SIZE).tril().bool()
    return Rows(
        ids=window.ids,
        positions=(column - n_filler).clamp(min=0),
        visible=past & is_read[:, None, :],
        targets=window.targets,
        places=window.places,
    )


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_each_letter_and_each_end_is_predicted_once_from_its_name_alone(layout: str):
    assert sorted(predictions(rows_of(layout))) == sorted(expected_predictions())


def test_each_letter_and_each_end_has_one_window_that_ends_before_it():
    rows = rows_of("window")

    read = [
        ([0] * (BLOCK_SIZE - 1 - place) + [0, *name[:place]], [*name, 0][place])
        for name in NAMES
        for place in range(len(name) + 1)
    ]
    assert rows.ids.tolist() == [ids for ids, _ in read]
    assert rows.targets[:, -1].tolist() == [target for _, target in read]


def test_a_window_has_its_one_target_at_the_last_position():
    targets = rows_of("window").targets

    assert (targets[:, :-1] == NO_TARGET).all()
    assert (targets[:, -1] != NO_TARGET).all()


def test_a_name_longer_than_the_window_loses_its_oldest_letters():
    rows = context([[1, 2, 3, 4]], "window", block_size=2)

    assert rows.ids.tolist() == [[0, 0], [0, 1], [1, 2], [2, 3], [3, 4]]
    assert rows.targets[:, -1].tolist() == [1, 2, 3, 4, 0]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_place_of_a_target_is_the_number_of_letters_before_it(layout: str):
    rows = rows_of(layout)

    places = rows.places[rows.targets != NO_TARGET].tolist()
    assert sorted(places) == sorted(p for name in NAMES for p in range(len(name) + 1))
    for place, (read, _, _) in zip(places, predictions(rows), strict=True):
        assert place == sum(token != 0 for token in read)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_there_are_as_many_targets_as_letters_and_ends(layout: str):
    n_targets = int((rows_of(layout).targets != NO_TARGET).sum())
    assert n_targets == sum(len(name) + 1 for name in NAMES)


def test_packed_names_take_fewer_rows_than_padded_ones():
    assert rows_of("padded").n_rows == len(NAMES)
    assert rows_of("packed").n_rows < 0.75 * len(NAMES)


@pytest.mark.parametrize("positions", POSITIONS)
def test_packed_padded_and_a_mended_window_give_the_same_loss(positions: str):
    model = random_model(positions)

    padded = evaluate(model, rows_of("padded")).loss
    packed = evaluate(model, rows_of("packed")).loss
    window = evaluate(model, restarted(rows_of("window"))).loss

    assert packed == pytest.approx(padded, abs=1e-6)
    assert window == pytest.approx(padded, abs=1e-6)


@pytest.mark.parametrize("positions", POSITIONS)
def test_the_books_window_gives_another_loss(positions: str):
    model = random_model(positions)

    padded = evaluate(model, rows_of("padded")).loss

    assert evaluate(model, rows_of("window")).loss != pytest.approx(padded, abs=0.01)


def test_hiding_the_filler_alone_does_not_mend_a_window_that_counts_positions():
    model, mended = random_model("learned"), restarted(rows_of("window"))

    hidden_only = evaluate(model, replace(mended, positions=None)).loss

    assert hidden_only != pytest.approx(evaluate(model, mended).loss, abs=0.01)


def test_the_books_loss_as_printed_crashes_on_one_target_per_row():
    B, T, C = 4, 8, 27
    logits, targets = torch.zeros(B, T, C), torch.zeros(B, dtype=torch.int64)

    with pytest.raises(RuntimeError, match="shape '\\[32\\]' is invalid for input of size 4"):
        nn.functional.cross_entropy(logits.view(B * T, C), targets.view(B * T))


def test_shuffling_packed_rows_keeps_every_name_whole():
    rows = packed()

    rows.shuffle(seeded(0))

    assert sorted(predictions(rows)) == sorted(expected_predictions())


def test_shuffling_packed_rows_keeps_their_layout():
    rows, before = packed(), packed()

    rows.shuffle(seeded(0))

    assert rows.positions is not None
    assert rows.visible is not None
    assert before.positions is not None
    assert before.visible is not None
    assert torch.equal(rows.positions, before.positions)
    assert torch.equal(rows.visible, before.visible)
    assert torch.equal(rows.places, before.places)


def test_shuffling_packed_rows_gives_names_other_neighbours():
    rows, before = packed(), packed()

    rows.shuffle(seeded(0))

    assert (rows.ids != before.ids).any(dim=1).float().mean() > 0.8


def test_the_generator_alone_decides_what_a_shuffle_gives():
    shuffled_before, fresh = packed(), packed()
    shuffled_before.shuffle(seeded(1))

    shuffled_before.shuffle(seeded(2))
    fresh.shuffle(seeded(2))

    assert torch.equal(shuffled_before.ids, fresh.ids)
    assert torch.equal(shuffled_before.targets, fresh.targets)


def test_shuffling_does_not_change_the_loss():
    model, rows = random_model("learned"), packed()
    before = evaluate(model, rows).loss

    rows.shuffle(seeded(0))

    assert evaluate(model, rows).loss == pytest.approx(before, abs=1e-6)


@pytest.mark.parametrize("layout", ["window", "padded"])
def test_where_a_row_is_one_name_shuffling_changes_and_draws_nothing(layout: str):
    rows, generator = rows_of(layout), seeded(0)

    rows.shuffle(generator)

    assert torch.equal(rows.ids, rows_of(layout).ids)
    assert torch.equal(generator.get_state(), seeded(0).get_state())


@pytest.mark.parametrize("batch_size", [1, 7, 59, 60, 61])
def test_an_epoch_takes_every_row_once_in_batches_of_nearly_one_size(batch_size: int):
    rows = rows_of("padded")

    _, batches = next(epochs(rows, batch_size, seeded(0)))

    sizes = [len(batch) for batch in batches]
    assert sorted(torch.cat(batches).tolist()) == list(range(60))
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= batch_size
    assert len(sizes) == steps_per_epoch(rows, batch_size) == -(-60 // batch_size)


def test_each_epoch_has_an_order_of_its_own():
    drawn = epochs(rows_of("padded"), 8, seeded(0))

    (_, first), (_, second) = next(drawn), next(drawn)

    assert torch.cat(first).tolist() != torch.cat(second).tolist()
    assert torch.cat(first).tolist() != list(range(60))


def test_each_epoch_gives_packed_names_other_neighbours():
    rows = packed()
    drawn = epochs(rows, 8, seeded(0))

    next(drawn)
    first = rows.ids.tolist()
    next(drawn)
    second = rows.ids.tolist()

    assert sorted(first) != sorted(second)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_state_of_an_epoch_draws_it_again(layout: str):
    def taken(rows: Rows, batches: list[torch.Tensor]) -> list[list[list[int]]]:
        return [rows.take(batch).ids.tolist() for batch in batches]

    rows = rows_of(layout)
    drawn = epochs(rows, 8, seeded(0))
    next(drawn)
    state, second = next(drawn)
    seen = taken(rows, second)
    next(drawn)

    again = rows_of(layout)
    generator = seeded(9)
    generator.set_state(state)
    _, batches = next(epochs(again, 8, generator))

    assert taken(again, batches) == seen


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_batch_is_the_rows_that_were_asked_for(layout: str):
    rows = rows_of(layout)

    batch, last = rows.take(torch.tensor([3, 0])), rows.take(slice(rows.n_rows - 1, None))

    for field in Batch._fields:
        whole = getattr(rows, field)
        if whole is None:
            assert getattr(batch, field) is None
        else:
            assert torch.equal(getattr(batch, field), whole[[3, 0]])
            assert torch.equal(getattr(last, field), whole[-1:])


@pytest.mark.parametrize(
    ("layout", "read"),
    [("window", [0, 0, 0, 3, 1]), ("padded", [0, 3, 1]), ("packed", [0, 3, 1])],
)
def test_the_last_row_of_a_name_is_what_is_read_before_its_next_letter(
    layout: str, read: list[int]
):
    assert context([[3, 1]], layout, block_size=5).ids[-1:].tolist() == [read]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_before_the_first_letter_only_boundaries_are_read(layout: str):
    ids = context([[]], layout, block_size=5).ids[-1:]

    assert ids.tolist() == [[0] * (5 if layout == "window" else 1)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_extending_a_name_is_laying_out_the_longer_one(layout: str):
    def read(name: list[int]) -> torch.Tensor:
        return context([name], layout, block_size=5).ids[-1:]

    ids = torch.cat((read([3, 1]), read([2, 6])))
    longer = extend(ids, torch.tensor([4, 5]), layout)

    assert torch.equal(longer, torch.cat((read([3, 1, 4]), read([2, 6, 5]))))


def test_a_window_that_is_full_slides():
    full = torch.tensor([[1, 2, 3]])

    assert extend(full, torch.tensor([4]), "window").tolist() == [[2, 3, 4]]
    assert extend(full, torch.tensor([4]), "packed").tolist() == [[1, 2, 3, 4]]


def test_rows_can_be_longer_than_the_longest_name():
    rows = context([[1, 2], [3]], "padded", block_size=9, row_length=4)

    assert rows.ids.tolist() == [[0, 1, 2, 0], [0, 3, 0, 0]]
    assert rows.targets.tolist() == [[1, 2, 0, -1], [3, 0, -1, -1]]


def test_two_names_packed_into_one_row_worked_by_hand():
    rows = context([[1, 2], [3]], "packed", block_size=9, row_length=6)

    assert rows.ids.tolist() == [[0, 1, 2, 0, 3, 0]]
    assert rows.targets.tolist() == [[1, 2, 0, 3, 0, -1]]
    assert rows.positions is not None
    assert rows.positions.tolist() == [[0, 1, 2, 0, 1, 0]]
    assert rows.visible is not None
    assert rows.visible.int().tolist() == [
        [
            [1, 0, 0, 0, 0, 0],
            [1, 1, 0, 0, 0, 0],
            [1, 1, 1, 0, 0, 0],
            [0, 0, 0, 1, 0, 0],
            [0, 0, 0, 1, 1, 0],
            [0, 0, 0, 0, 0, 1],
        ]
    ]
