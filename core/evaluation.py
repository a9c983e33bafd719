"""The exact loss of a model over a whole split: every letter once, nothing drawn.

Shape letters: B rows in a batch, T positions, V vocab_size.
"""

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from core.baselines import CountingModel
from core.batches import NO_TARGET, Batch, Ids, Rows, context

ROWS_AT_ONCE = 256


class PositionLoss(NamedTuple):
    """The mean loss at one place in the names."""

    position: int
    """How many letters come before the one predicted."""
    loss: float
    """Nats per letter."""
    n_chars: int
    """How many letters the mean is taken over."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """How well a model predicts a split."""

    loss: float
    """Mean cross-entropy in nats per letter, the end of a name counted as a letter."""
    n_chars: int
    """How many letters were predicted."""
    by_position: tuple[PositionLoss, ...]
    """The same by place in the name."""

    @property
    def bits_per_char(self) -> float:
        """The loss in bits per letter."""
        return self.loss / math.log(2)

    @property
    def perplexity(self) -> float:
        """How many equally likely letters would be as hard to guess; inf when beyond a float."""
        return math.exp(self.loss) if self.loss < 700 else math.inf


@contextmanager
def evaluating(model: nn.Module) -> Generator[None]:
    """Switch dropout and gradients off for a while."""
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(was_training)


def token_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the cross-entropy at each position, (B, T) in nats; 0 where there is no target."""
    losses = nn.functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=NO_TARGET, reduction="none"
    )
    return losses.view_as(targets)


def batch_losses(model: nn.Module, batch: Batch) -> Tensor:
    """Run the model on a batch and return the loss at each position, (B, T)."""
    return token_losses(model(batch.ids, batch.positions, batch.visible), batch.targets)


def counting_loss(model: CountingModel, names: Sequence[Ids]) -> float:
    """Return the exact loss of a model that looks at one letter only, in nats per letter."""
    return evaluate(model, context(names, "padded", block_size=1)).loss


def evaluate(model: nn.Module, rows: Rows) -> Evaluation:
    """Predict every target of the rows once.

    Args:
        model: Anything called like MiniGPT, on the same device as the rows.
        rows: From `context`, in the layout the model was trained in.

    Returns:
        Sums are taken in float64, so the order of the rows does not matter.
    """
    n_places = int(rows.places.max()) + 1
    sums = torch.zeros(n_places, dtype=torch.float64)
    counts = torch.zeros(n_places, dtype=torch.float64)
    with evaluating(model):
        for start in range(0, rows.n_rows, ROWS_AT_ONCE):
            batch = rows.take(slice(start, start + ROWS_AT_ONCE))
            asked = batch.targets != NO_TARGET
            losses = batch_losses(model, batch)[asked].cpu().double()
            places = batch.places[asked].cpu()
            sums.index_add_(0, places, losses)
            counts.index_add_(0, places, torch.ones_like(losses))
    n_chars = int(counts.sum())
    return Evaluation(
        loss=sums.sum().item() / n_chars,
        n_chars=n_chars,
        by_position=tuple(
            PositionLoss(place, (sums[place] / counts[place]).item(), int(counts[place]))
            for place in range(n_places)
            if counts[place]
        ),
    )
