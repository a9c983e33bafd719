"""Dropout whose mask comes from a generator it is given, so that a run can be resumed to the bit.

Source: Srivastava et al. 2014, "Dropout: A Simple Way to Prevent Neural Networks from Overfitting".
"""

import torch
from torch import Tensor, nn


class Dropout(nn.Module):
    """Set a share of the values to zero while training, and enlarge the rest to make up for it."""

    generator: torch.Generator | None = None
    """Where the masks are drawn from; torch's global generator if None."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    @property
    def is_active(self) -> bool:
        """Whether a forward pass would change anything now."""
        return self.training and self.share > 0

    def forward(self, x: Tensor) -> Tensor:
        """Return x of any shape, with values dropped while training; unchanged otherwise."""
        if not self.is_active:
            return x
        keep = torch.empty_like(x).bernoulli_(1.0 - self.share, generator=self.generator)
        return x * keep / (1.0 - self.share)


def use_generator(model: nn.Module, generator: torch.Generator) -> None:
    """Let every dropout inside the model draw its masks from this generator."""
    for module in model.modules():
        if isinstance(module, Dropout):
            module.generator = generator
