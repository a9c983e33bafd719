"""Keys and values of the letters already read, so that sampling computes only the newest.

Source: Pope et al. 2022, "Efficiently Scaling Transformer Inference", section 3.3.
Shape letters: B batch, H heads, T positions, Dh features per head.
"""

import torch
from torch import Tensor


class KeyValueCache:
    """What every layer remembers of the positions it has seen."""

    def __init__(self) -> None:
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}

    @property
    def n_positions(self) -> int:
        """How many positions have been seen by every layer."""
        return self._layers[0][0].shape[2] if self._layers else 0

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add the newest keys and values of one layer.

        Args:
            layer: Which block they belong to, counted from 0.
            k: Newest keys, (B, H, T_new, Dh).
            v: Newest values, (B, H, T_new, Dh).

        Returns:
            All keys and all values seen so far, (B, H, T_all, Dh) each.
        """
        if layer in self._layers:
            old_k, old_v = self._layers[layer]
            k, v = torch.cat((old_k, k), dim=2), torch.cat((old_v, v), dim=2)
        self._layers[layer] = (k, v)
        return k, v

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows of the batch only: finished names leave."""
        self._layers = {layer: (k[rows], v[rows]) for layer, (k, v) in self._layers.items()}
