"""How names become rows of tokens: the layouts window, padded and packed.

- window: the book's Chapter 7. One row for each letter to predict: the block_size tokens before
  it, filled up on the left with the boundary; one target, at the last position.
- padded: one name a row from position 0, a target at every letter, filler to the right.
- packed: whole names side by side in a row; positions restart and attention stays inside each
  name. The same losses as padded with less than half the positions (Krell et al. 2021,
  "Efficient Sequence Packing without Cross-contamination", section 3).

Shape letters: N rows in all, B rows in a batch, T positions, L name length with its boundary.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from core.config import BOUNDARY_ID
from core.packing import pack

NO_TARGET = -1

Ids = Sequence[int]


class Batch(NamedTuple):
    """Some rows, ready for a model: `model(batch.ids, batch.positions, batch.visible)`."""

    ids: Tensor
    """Token ids, (B, T)."""
    positions: Tensor | None
    """Where each token stands in its name, (B, T); None for 0, 1, 2, ..."""
    visible: Tensor | None
    """Who may see whom, (B, T, T); None for everything up to itself."""
    targets: Tensor
    """The token to predict at each position, (B, T); -1 where none is asked for."""
    places: Tensor
    """How many letters of its name come before each target, (B, T)."""


@dataclass(kw_only=True)
class Rows:
    """All rows of a list of names, from which batches are taken."""

    ids: Tensor
    positions: Tensor | None = None
    visible: Tensor | None = None
    targets: Tensor
    places: Tensor

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.ids.shape[0]

    def take(self, rows: Tensor | slice) -> Batch:
        """Pick rows by number, (B,), or by slice."""
        return Batch(
            self.ids[rows],
            None if self.positions is None else self.positions[rows],
            None if self.visible is None else self.visible[rows],
            self.targets[rows],
            self.places[rows],
        )

    def shuffle(self, generator: torch.Generator) -> None:
        """Exchange what may be exchanged before an epoch: nothing, where a row is one name."""

    def to(self, device: torch.device) -> None:
        """Move every row to a device."""
        for name, value in list(vars(self).items()):
            if isinstance(value, Tensor):
                setattr(self, name, value.to(device))


@dataclass(kw_only=True)
class PackedRows(Rows):
    """Rows of several names; names of one length can trade places without changing the layout."""

    slots: dict[int, Tensor]
    """For each length L, where its names lie in the flattened rows: (n_names, L)."""

    def __post_init__(self) -> None:
        self._first_ids = self.ids.clone()
        self._first_targets = self.targets.clone()

    def shuffle(self, generator: torch.Generator) -> None:
        """Let all names of one length trade places, so that a row holds other neighbours.

        Each shuffle starts from the first layout: the generator alone decides what comes out.
        """
        for slots in self.slots.values():
            order = torch.randperm(len(slots), generator=generator).to(slots.device)
            self.ids.view(-1)[slots] = self._first_ids.view(-1)[slots[order]]
            self.targets.view(-1)[slots] = self._first_targets.view(-1)[slots[order]]

    def to(self, device: torch.device) -> None:
        """Move every row to a device."""
        super().to(device)
        self.slots = {length: slots.to(device) for length, slots in self.slots.items()}


def context(
    names: Sequence[Ids], layout: str, *, block_size: int, row_length: int | None = None
) -> Rows:
    """Lay names out so that each letter and each end is predicted exactly once.

    Training, evaluation, sampling, attention grids and traces all get their rows here. The last
    row of a single name is what a model reads before it predicts that name's next letter.

    Args:
        names: Token ids of each name, without boundaries.
        layout: window, padded or packed.
        block_size: Width of a window.
        row_length: Width of a padded or packed row; the longest name + 1 if left out.
    """
    if layout == "window":
        return _windows(names, block_size)
    if row_length is None:
        row_length = 1 + max(len(name) for name in names)
    longest = 1 + max(map(len, names), default=0)
    if longest > row_length:
        raise ValueError(f"a name takes {longest} positions, more than a row of {row_length}.")
    return _padded(names, row_length) if layout == "padded" else _packed(names, row_length)


def extend(ids: Tensor, letters: Tensor, layout: str) -> Tensor:
    """Add one drawn letter to each row: a window slides by one, other rows grow.

    Args:
        ids: What the model has read, (B, T).
        letters: The new token of each row, (B,).
        layout: The layout the model was trained in.
    """
    kept = ids[:, 1:] if layout == "window" else ids
    return torch.cat((kept, letters[:, None]), dim=1)


def epochs(
    rows: Rows, batch_size: int, generator: torch.Generator
) -> Iterator[tuple[Tensor, list[Tensor]]]:
    """Shuffle the rows again and again.

    Yields:
        The generator's state before the epoch was drawn, which draws it again, and the epoch's
        batches: lists of row numbers, as equal in size as can be and none above batch_size.
    """
    while True:
        state = generator.get_state()
        rows.shuffle(generator)
        order = torch.randperm(rows.n_rows, generator=generator)
        yield state, list(order.tensor_split(steps_per_epoch(rows, batch_size)))


def steps_per_epoch(rows: Rows, batch_size: int) -> int:
    """Count the steps in which every row is seen once."""
    return -(-rows.n_rows // batch_size)


def _windows(names: Sequence[Ids], block_size: int) -> Rows:
    stream: list[int] = []
    starts, targets, places = [], [], []
    for name in names:
        for place, target in enumerate([*name, BOUNDARY_ID]):
            starts.append(len(stream) + place)
            targets.append(target)
            places.append(place)
        stream += [BOUNDARY_ID] * block_size
        stream += name
    windows = torch.tensor(stream).unfold(0, block_size, 1)  # a view: (len(stream) - block + 1, T)
    last = torch.full((len(starts), block_size), NO_TARGET)
    last[:, -1] = torch.tensor(targets)
    return Rows(
        ids=windows[starts],
        targets=last,
        places=torch.tensor(places)[:, None].expand(-1, block_size),
    )


def _padded(names: Sequence[Ids], row_length: int) -> Rows:
    ids, targets, places, _ = _side_by_side([[name] for name in names], row_length)
    return Rows(ids=ids, targets=targets, places=places)


def _packed(names: Sequence[Ids], row_length: int) -> PackedRows:
    bins = pack([len(name) + 1 for name in names], row_length)
    rows = [[names[member] for member in members] for members in bins]
    ids, targets, places, owners = _side_by_side(rows, row_length)
    same_name = owners[:, :, None] == owners[:, None, :]
    starts = ((places == 0) & (targets != NO_TARGET)).flatten().nonzero().flatten()
    lengths = torch.tensor([len(name) + 1 for row in rows for name in row])
    return PackedRows(
        ids=ids,
        positions=places,
        visible=same_name.tril(),
        targets=targets,
        places=places,
        slots={
            length: starts[lengths == length, None] + torch.arange(length)
            for length in lengths.unique().tolist()
        },
    )


def _side_by_side(rows: list[list[Ids]], row_length: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Write names into rows: ids, targets, places and which name of its row owns a position."""
    ids, targets, places, owners = [], [], [], []
    for names in rows:
        for number, name in enumerate(names):
            ids += [BOUNDARY_ID, *name]  # ". a n n a" is read
            targets += [*name, BOUNDARY_ID]  # "a n n a ." is predicted
            places += range(len(name) + 1)
            owners += [number] * (len(name) + 1)
        filler = -len(ids) % row_length
        ids += [BOUNDARY_ID] * filler
        targets += [NO_TARGET] * filler
        places += [0] * filler
        owners += range(-filler, 0)  # each filler is alone
    ids, targets, places, owners = (
        torch.tensor(column).view(-1, row_length) for column in (ids, targets, places, owners)
    )
    return ids, targets, places, owners
