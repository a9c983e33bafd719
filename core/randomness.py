"""Separate generators for separate purposes, so that drawing for one never disturbs another."""

from typing import Literal

import torch

from core.config import check_seed

Purpose = Literal["weights", "order", "dropout", "samples"]
PURPOSES: tuple[Purpose, ...] = ("weights", "order", "dropout", "samples")


def generator(seed: int, purpose: Purpose, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a fresh generator; the same seed and purpose always give the same draws.

    Raises:
        ConfigError: If the seed isn't between 0 and 2³² - 1.
    """
    check_seed(seed)
    stream = len(PURPOSES) * seed + PURPOSES.index(purpose)
    return torch.Generator(device).manual_seed(stream)
