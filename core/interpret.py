"""What a head does: where a number of its grid comes from, its habit, and what is lost without it.

Sources: Vaswani et al. 2017, section 3.2.1 (the arithmetic); Kobayashi et al. 2020, "Attention is
Not Only a Weight: Analyzing Transformers with Vector Norms" (weight times size of the value);
Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits" (heads that look at the
previous token, ablation).
Shape letters: L n_layers, H n_heads, T positions, Dh d_head.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from core.evaluation import evaluate
from core.taps import AblateHead, Tap
from core.using import OpenRun
from core.views import Trace


class Cell(NamedTuple):
    """One number of a head's grid and how it came to be."""

    dot: float
    """The query's product with the key."""
    d_head: int
    score: float
    """The product over √d_head: what goes into the softmax."""
    n_visible: int
    """Over how many positions the softmax runs."""
    weight: float
    share: float
    """Weight times size of the value, over the row's sum of the same."""


class Habit(NamedTuple):
    """How much a head looks at the letter before."""

    score: float
    """Mean weight on the previous position; nan without letters."""
    chance: float
    """What a head that looks everywhere alike would have."""


class Silenced(NamedTuple):
    """What became of the loss without one head."""

    loss: float
    """Of the whole model, nats per letter."""
    loss_without: float
    n_names: int
    """On how many validation names both were measured."""


def value_shares(weights: Tensor, v: Tensor) -> Tensor:
    """Say how much of what a head adds comes from where.

    Args:
        weights: (..., T, T), rows that sum to 1.
        v: Values, (..., T, Dh).

    Returns:
        Weight times length of the value, each row over its sum: (..., T, T).
    """
    carried = weights * v.norm(dim=-1)[..., None, :]
    return carried / carried.sum(dim=-1, keepdim=True)


def previous_letter(weights: Tensor, n_letters: int) -> Habit:
    """Measure how much a head looks at the position before, against chance.

    Args:
        weights: Of one head, (T, T).
        n_letters: How many rows, at the end, are letters: the others are not counted.
    """
    rows = range(len(weights) - n_letters, len(weights))
    if not rows:
        return Habit(math.nan, math.nan)
    score = weights.diagonal(-1)[-n_letters:].mean().item()
    return Habit(score, sum(1 / (row + 1) for row in rows) / n_letters)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """A name as every head of a model read it."""

    tokens: tuple[str, ...]
    n_letters: int
    weights: list[list[list[list[float]]]]
    """L x H x T x T."""
    _q: Tensor
    _k: Tensor
    _scores: Tensor
    _shares: Tensor

    @classmethod
    def of(cls, trace: Trace) -> "Reading":
        """Take what a reading needs from a recorded pass."""
        weights = trace.heads("weights")
        return cls(
            tokens=trace.tokens,
            n_letters=trace.n_letters,
            weights=weights.tolist(),
            _q=trace.heads("q"),
            _k=trace.heads("k"),
            _scores=trace.heads("scores"),
            _shares=value_shares(weights, trace.heads("v")),
        )

    def cell(self, layer: int, head: int, query: int, key: int) -> Cell:
        """Work one weight out: where `query` looks at `key`."""
        q, k = self._q[layer, head, query], self._k[layer, head, key]
        return Cell(
            dot=(q @ k).item(),
            d_head=len(q),
            score=self._scores[layer, head, query, key].item(),
            n_visible=int(self._scores[layer, head, query].isfinite().sum()),
            weight=self.weights[layer][head][query][key],
            share=self._shares[layer, head, query, key].item(),
        )

    def habit(self, layer: int, head: int) -> Habit:
        """Measure how much one head looks at the letter before."""
        return previous_letter(torch.tensor(self.weights[layer][head]), self.n_letters)


def read(opened: OpenRun, name: str, *, silent: tuple[int, int] | None = None) -> Reading:
    """Let a model read a name, with one head (layer, head) silenced or none.

    Raises:
        UserError: If the model has no attention or can't read this name.
    """
    change = AblateHead(*silent) if silent else None
    return Reading.of(opened.trace(name, change=change))


def silence(opened: OpenRun, layer: int, head: int, *, n_names: int) -> Silenced:
    """Measure the loss over the first validation names with and without one head.

    Raises:
        UserError: If the names are gone.
    """
    rows = opened.rows("val", n_names)
    model = opened.trained.model
    return Silenced(
        loss=evaluate(model, rows).loss,
        loss_without=evaluate(_Tapped(model, AblateHead(layer, head)), rows).loss,
        n_names=min(n_names, len(opened.corpus.splits.val)),
    )


class _Tapped(nn.Module):
    """A model that always runs with a tap."""

    def __init__(self, model: nn.Module, tap: Tap) -> None:
        super().__init__()
        self.model = model
        self.tap = tap

    def forward(
        self, ids: Tensor, positions: Tensor | None = None, visible: Tensor | None = None
    ) -> Tensor:
        """Run the model: the same call as MiniGPT."""
        return self.model(ids, positions, visible, tap=self.tap)
