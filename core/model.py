"""MiniGPT: a decoder-only Transformer, and the only forward pass there is.

Sources: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners" (pre-norm
decoder); the book, Chapter 7. Defaults of `ModelConfig`: 204,827 parameters at 27 symbols.
Shape letters: B batch, T new positions, S positions seen, D d_model, V vocab_size.
"""

import torch
from torch import Tensor, nn

from core.attention import causal
from core.blocks import Block
from core.cache import KeyValueCache
from core.config import ModelConfig
from core.positions import position_scheme
from core.taps import Tap, offer, scoped


class MiniGPT(nn.Module):
    """Tokens in, for each position the logits of the token that follows out."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.position = position_scheme(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.ln_f = nn.LayerNorm(config.d_model)
        self.head = nn.Linear(config.d_model, config.vocab_size)
        if config.tied_head:
            self.head.weight = self.token_embedding.weight

    def forward(
        self,
        ids: Tensor,
        positions: Tensor | None = None,
        visible: Tensor | None = None,
        *,
        tap: Tap | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Predict the token after each position.

        Args:
            ids: Token ids, (B, T).
            positions: Where each token stands in its text, (B, T); 0, 1, 2, ... if left out.
            visible: Who may see whom, (B, T, T), for rows that hold several texts or filler;
                everything up to itself if left out. Every position always sees itself.
            tap: Sees every named value on its way and may change it: "tokens", "positions",
                "x", then "blocks.0.attn.weights" and all the others, "ln_f", "logits".
            cache: Keys and values of the tokens before these; it grows by T.

        Returns:
            Logits, (B, T, V).

        Raises:
            ValueError: If more positions are asked for than block_size, or if a cache meets
                positions or visible of its own.
        """
        n_seen = ids.shape[1] + (cache.n_positions if cache is not None else 0)
        self._check_context(n_seen, cache, positions, visible)
        if positions is None:
            positions = torch.arange(n_seen - ids.shape[1], n_seen, device=ids.device)
        tokens = offer(tap, "tokens", self.token_embedding(ids))  # (B, T, D)
        places = offer(tap, "positions", self.position(positions))  # (T, D) or (B, T, D)
        x = offer(tap, "x", tokens + places)  # (B, T, D)
        mask = self._mask(ids, n_seen, visible)
        for layer, block in enumerate(self.blocks):
            x = block(x, mask, layer=layer, tap=scoped(tap, f"blocks.{layer}"), cache=cache)
        return offer(tap, "logits", self.head(offer(tap, "ln_f", self.ln_f(x))))

    def _mask(self, ids: Tensor, n_seen: int, visible: Tensor | None) -> Tensor:
        if visible is None:
            return causal(ids.shape[1], n_seen, ids.device)  # (T, S)
        itself = torch.eye(ids.shape[1], dtype=torch.bool, device=ids.device)
        return (visible | itself)[:, None]  # (B, 1, T, T): the same for every head

    def _check_context(
        self,
        n_seen: int,
        cache: KeyValueCache | None,
        positions: Tensor | None,
        visible: Tensor | None,
    ) -> None:
        if cache is not None and (positions is not None or visible is not None):
            raise ValueError(
                "a cache was given together with positions or visible; a cache is for one text a "
                "row, read from its start. Leave positions and visible out, or the cache."
            )
        if n_seen > self.config.block_size:
            advice = (
                "A window that slides moves every letter, so cached keys no longer hold: "
                "compute it without a cache."
                if cache is not None
                else f"Keep the last {self.config.block_size} tokens before calling the model."
            )
            raise ValueError(
                f"got {n_seen} positions, but block_size is {self.config.block_size}. {advice}"
            )
