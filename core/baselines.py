"""What MiniGPT has to beat: uniform, unigram, bigram and the book's MLP, behind the same call.

Sources: Bengio et al. 2003, "A Neural Probabilistic Language Model" (MLP); Laplace's rule of
adding one to each count. Shape letters: B batch, T positions, V vocab_size, E features per letter.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from core.cache import KeyValueCache
from core.config import BOUNDARY_ID, MLPConfig
from core.taps import Tap, offer


class CountingModel(nn.Module):
    """A model without training: the log-probability of a token given the one before it."""

    def __init__(self, log_probs: Tensor, n_params: int) -> None:
        super().__init__()
        self.register_buffer("log_probs", log_probs)  # (V, V): row = the token before
        self.n_params = n_params

    def forward(
        self,
        ids: Tensor,
        positions: Tensor | None = None,  # noqa: ARG002 (same call as MiniGPT)
        visible: Tensor | None = None,  # noqa: ARG002
        *,
        tap: Tap | None = None,
        cache: KeyValueCache | None = None,  # noqa: ARG002
    ) -> Tensor:
        """Look up what follows each token: ids (B, T) -> logits (B, T, V)."""
        return offer(tap, "logits", self.get_buffer("log_probs")[ids])


def uniform(vocab_size: int) -> CountingModel:
    """Give every token the same chance: a loss of ln V."""
    even = torch.zeros(vocab_size, vocab_size, dtype=torch.float64)
    return CountingModel(even.log_softmax(dim=-1), 0)


def unigram(names: Sequence[Sequence[int]], vocab_size: int) -> CountingModel:
    """Give every token its share of all tokens seen, whatever stands before it; counts + 1."""
    counts = _pair_counts(names, vocab_size).sum(dim=0) + 1  # (V,)
    log_probs = (counts / counts.sum()).log()
    return CountingModel(log_probs.expand(vocab_size, vocab_size).clone(), vocab_size)


def bigram(names: Sequence[Sequence[int]], vocab_size: int) -> CountingModel:
    """Give every token its share of what was seen after the token before it; counts + 1."""
    counts = _pair_counts(names, vocab_size) + 1  # (V, V)
    log_probs = (counts / counts.sum(dim=-1, keepdim=True)).log()
    return CountingModel(log_probs, vocab_size * vocab_size)


def _pair_counts(names: Sequence[Sequence[int]], vocab_size: int) -> Tensor:
    stream = [BOUNDARY_ID]  # one boundary ends a name and begins the next
    for name in names:
        stream += name
        stream.append(BOUNDARY_ID)
    tokens = torch.tensor(stream)
    pairs = tokens[:-1] * vocab_size + tokens[1:]
    counts = torch.bincount(pairs, minlength=vocab_size * vocab_size)
    return counts.view(vocab_size, vocab_size).double()


class MLP(nn.Module):
    """The book's Chapter 9: the last block_size letters, side by side, into one hidden layer."""

    def __init__(self, config: MLPConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_embedding)
        self.hidden = nn.Linear(config.block_size * config.d_embedding, config.d_hidden)
        self.output = nn.Linear(config.d_hidden, config.vocab_size)

    def forward(
        self,
        ids: Tensor,
        positions: Tensor | None = None,
        visible: Tensor | None = None,  # noqa: ARG002 (same call as MiniGPT)
        *,
        tap: Tap | None = None,
        cache: KeyValueCache | None = None,  # noqa: ARG002
    ) -> Tensor:
        """Predict the token after each position from the block_size tokens up to it.

        Args:
            ids: Token ids, (B, T).
            positions: Where each token stands in its own name, (B, T); tokens of the name before
                are replaced by the boundary. 0, 1, 2, ... if left out.
            visible: Not needed: positions say where a name begins.
            tap: Sees "hidden" (B, T, d_hidden) and "logits".
            cache: Not needed: there are no keys.

        Returns:
            Logits, (B, T, V).
        """
        windows = self._windows(ids, positions)  # (B, T, block_size)
        side_by_side = self.embedding(windows).flatten(start_dim=2)  # (B, T, block_size * E)
        hidden = offer(tap, "hidden", self.hidden(side_by_side).tanh())
        return offer(tap, "logits", self.output(hidden))

    def _windows(self, ids: Tensor, positions: Tensor | None) -> Tensor:
        size, T = self.config.block_size, ids.shape[1]
        if positions is None:
            positions = torch.arange(T, device=ids.device).expand_as(ids)
        filled = nn.functional.pad(ids, (size - 1, 0), value=BOUNDARY_ID)
        windows = filled.unfold(1, size, 1)  # (B, T, block_size), the oldest token first
        age = torch.arange(size - 1, -1, -1, device=ids.device)
        return windows.masked_fill(age > positions[..., None], BOUNDARY_ID)
