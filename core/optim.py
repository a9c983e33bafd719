"""AdamW, written so that a step can be read, saved and resumed.

Constructing any `torch.optim` class imports a compiler for most of a second; this one does not.
Source: Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization", algorithm 2.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

EPS = 1e-8


class AdamW:
    """Move each weight by its averaged gradient over the root of its averaged square."""

    def __init__(
        self, params: Sequence[Tensor], *, betas: tuple[float, float], weight_decay: float
    ) -> None:
        self.params = list(params)
        self.betas = betas
        self.weight_decay = weight_decay
        self.averages = [torch.zeros_like(p) for p in self.params]
        self.squares = [torch.zeros_like(p) for p in self.params]
        self.counts = [torch.zeros((), device=p.device) for p in self.params]

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Update every parameter from its gradient, in place."""
        grads = _grads(self.params)
        assert len(grads) == len(self.params), "every parameter takes part in every step"
        for count in self.counts:
            count += 1
        # One kernel for all parameters, three times as fast as the formula below, but private
        # to torch: where it is missing, the formula does the same.
        fused = getattr(torch, "_fused_adamw_", None)
        if fused is None or self.params[0].device.type not in ("cpu", "cuda"):
            self._step_by_formula(grads, learning_rate)
            return
        fused(
            self.params,
            grads,
            self.averages,
            self.squares,
            [],
            self.counts,
            lr=learning_rate,
            beta1=self.betas[0],
            beta2=self.betas[1],
            weight_decay=self.weight_decay,
            eps=EPS,
            amsgrad=False,
            maximize=False,
        )

    def _step_by_formula(self, grads: list[Tensor], learning_rate: float) -> None:
        beta1, beta2 = self.betas
        for p, g, average, square, count in zip(
            self.params, grads, self.averages, self.squares, self.counts, strict=True
        ):
            p.mul_(1 - learning_rate * self.weight_decay)
            average.lerp_(g, 1 - beta1)
            square.mul_(beta2).addcmul_(g, g, value=1 - beta2)
            unbiased_average = average / (1 - beta1**count)  # both began at 0
            unbiased_square = square / (1 - beta2**count)
            p.sub_(learning_rate * unbiased_average / (unbiased_square.sqrt() + EPS))

    def state(self) -> dict[str, Tensor]:
        """Return all that a resumed run needs, by name."""
        return {
            f"{name}.{index}": value
            for name, values in self._buffers()
            for index, value in enumerate(values)
        }

    @torch.no_grad()
    def load(self, state: dict[str, Tensor]) -> None:
        """Take over what `state` returned."""
        for name, values in self._buffers():
            for index, value in enumerate(values):
                value.copy_(state[f"{name}.{index}"])

    def _buffers(self) -> list[tuple[str, list[Tensor]]]:
        return [("averages", self.averages), ("squares", self.squares), ("counts", self.counts)]


def gradient_norm(params: Sequence[Tensor]) -> Tensor:
    """Return the length of all gradients taken as one vector, ()."""
    return get_total_norm(_grads(params))


def shorten_gradients(params: Sequence[Tensor], norm: Tensor, longest: float) -> None:
    """Scale all gradients so that their common length, `norm` now, is at most `longest`.

    Source: Pascanu et al. 2013, "On the difficulty of training recurrent neural networks",
    algorithm 1.
    """
    clip_grads_with_norm_(params, longest, norm)


def _grads(params: Sequence[Tensor]) -> list[Tensor]:
    return [p.grad for p in params if p.grad is not None]
