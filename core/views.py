"""What one gets from using a trained run: drawn names, attention, letters, traces."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from core.taps import Recorder

UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedSample:
    """A name that was drawn, as a person reads it."""

    name: str
    novelty: str
    """train, val or test if that part of the data has it, else new; unknown without the data."""
    log_prob: float
    """Natural log of the chance the model itself, at temperature 1, gives this name."""
    is_finished: bool
    """Whether the model ended it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Draw:
    """Names drawn together."""

    names: tuple[NamedSample, ...]
    notes: tuple[str, ...]
    """What a person should know about how they were drawn."""

    def to_json(self) -> list[dict[str, Any]]:
        """Return the names as JSON has them."""
        return [
            {"name": name.name, "novelty": name.novelty, "log_prob": name.log_prob}
            for name in self.names
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Attention:
    """Who looks at whom when a model reads a name."""

    tokens: tuple[str, ...]
    """What each position holds; "." is the boundary."""
    weights: Tensor
    """(n_layers, n_heads, T, T): row = the position that looks, column = what it looks at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Letter:
    """One letter of a name and all that could have stood there."""

    before: str
    """The letters before it."""
    chosen: str
    """The letter itself; "." is the end."""
    options: tuple[tuple[str, float, float], ...]
    """Each letter with its probability as it was drawn from and the model's own at temperature 1,
    the likeliest first."""

    @property
    def chances(self) -> tuple[float, float]:
        """The chosen letter's probability as it was drawn from, and the model's own."""
        return next((drawn, own) for letter, drawn, own in self.options if letter == self.chosen)


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """Everything that happened while a model read a name."""

    tokens: tuple[str, ...]
    """What each position holds; "." is the boundary."""
    n_letters: int
    """How many of them, at the end, are letters of the name or its end mark."""
    n_layers: int
    values: Recorder
    """Every named value, for a batch of one."""

    def heads(self, value: str) -> Tensor:
        """Stack what every head has of a value: (n_layers, n_heads, T, ...), on the CPU."""
        layers = [self.values[f"blocks.{i}.attn.{value}"][0] for i in range(self.n_layers)]
        return torch.stack(layers).cpu()
