"""How a model is told where a token stands: small classes with one interface.

Each turns positions, (T,) or (B, T), into vectors to add to the token embeddings,
(T, D) or (B, T, D).
Sources: Vaswani et al. 2017, section 3.5 (sinusoidal); Gehring et al. 2017, section 3.1 (learned).
"""

import math

import torch
from torch import Tensor, nn

from core.config import ModelConfig


def sinusoids(n_positions: int, d_model: int) -> Tensor:
    """Compute the sinusoidal table: each pair of columns turns at its own speed.

    Returns:
        Encodings, (n_positions, d_model): column 2i is sin(p / 10000^(2i / d_model)), column
        2i + 1 the cosine of the same angle. An odd d_model ends on a sine.
    """
    position = torch.arange(n_positions)[:, None]  # (T, 1)
    speed = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    table = torch.empty(n_positions, d_model)
    table[:, 0::2] = torch.sin(position * speed)
    table[:, 1::2] = torch.cos(position * speed[: d_model // 2])
    return table


class LearnedPosition(nn.Module):
    """One trained vector for each position."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.table = nn.Embedding(config.block_size, config.d_model)

    def forward(self, positions: Tensor) -> Tensor:
        """Look the vectors up: (..., T) -> (..., T, D)."""
        return self.table(positions)


class SinusoidalPosition(nn.Module):
    """Fixed waves, one pair of columns per frequency; nothing to train."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        table = sinusoids(config.block_size, config.d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, positions: Tensor) -> Tensor:
        """Look the waves up: (..., T) -> (..., T, D)."""
        return self.get_buffer("table")[positions]


class NoPosition(nn.Module):
    """Nothing: only the causal mask tells the order."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.d_model = config.d_model

    def forward(self, positions: Tensor) -> Tensor:
        """Return zeros: (..., T) -> (..., T, D)."""
        return torch.zeros(*positions.shape, self.d_model, device=positions.device)


def position_scheme(config: ModelConfig) -> nn.Module:
    """Build the scheme that the configuration names."""
    schemes = {
        "learned": LearnedPosition,
        "sinusoidal": SinusoidalPosition,
        "none": NoPosition,
    }
    return schemes[config.positions](config)
