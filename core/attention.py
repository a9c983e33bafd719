"""Causal multi-head self-attention that shows its work.

Source: Vaswani et al. 2017, "Attention Is All You Need", sections 3.2.1 and 3.2.2.
Shape letters in this file: B batch, T new positions, S positions seen, D d_model, H n_heads,
Dh d_head = D / H. Without a cache S = T.
"""

import math

import torch
from torch import Tensor, nn

from core.cache import KeyValueCache
from core.config import ModelConfig
from core.dropout import Dropout
from core.taps import Tap


def causal(n_new: int, n_seen: int | None = None, device: torch.device | None = None) -> Tensor:
    """Say who may see whom when nobody sees the future.

    Returns:
        Visible, (T, S): the newest T of S positions; each row is true up to its own column.
    """
    n_seen = n_new if n_seen is None else n_seen
    return torch.ones(n_new, n_seen, dtype=torch.bool, device=device).tril(n_seen - n_new)


def attention_scores(q: Tensor, k: Tensor, visible: Tensor) -> Tensor:
    """Compare every query with every key it may see.

    Args:
        q: Queries, (..., T, Dh).
        k: Keys, (..., S, Dh).
        visible: Who may see whom, broadcastable to (..., T, S).

    Returns:
        Scores, (..., T, S): q·k / sqrt(Dh) where visible, -inf elsewhere.
    """
    # Dividing by sqrt(Dh) keeps the variance of a score near 1 for any head size; without it
    # the softmax saturates as heads grow and its gradient vanishes (footnote 4 of the paper).
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    return scores.masked_fill(~visible, -math.inf)


def shares(scores: Tensor) -> Tensor:
    """Turn each row of scores into shares that add up to 1: e^score over the row's sum of them.

    Args:
        scores: (..., T, S); -inf becomes 0, and no row may be -inf throughout.

    Returns:
        Weights, (..., T, S).
    """
    return scores.softmax(dim=-1)


def scaled_dot_product_attention(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
    """Mix the values by how well their keys match each query: softmax(q·kᵀ / sqrt(Dh)) v.

    Args:
        q: Queries, (..., T, Dh).
        k: Keys, (..., S, Dh).
        v: Values, (..., S, Dh).
        visible: Who may see whom, broadcastable to (..., T, S); no row may be empty.

    Returns:
        One mixture of values for each query, (..., T, Dh).
    """
    return shares(attention_scores(q, k, visible)) @ v


class CausalSelfAttention(nn.Module):
    """Let each position read from itself and the positions before it."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.n_heads = config.n_heads
        self.qkv = nn.Linear(config.d_model, 3 * config.d_model, bias=config.qkv_bias)
        self.proj = nn.Linear(config.d_model, config.d_model)
        self.weights_dropout = Dropout(config.dropout)
        self.out_dropout = Dropout(config.dropout)

    def forward(
        self,
        x: Tensor,
        visible: Tensor,
        *,
        layer: int = 0,
        tap: Tap | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Mix the positions of x.

        Args:
            x: What the block hands in, (B, T, D).
            visible: Who may see whom, (T, S) or (B, 1, T, S).
            layer: Which block this is; its place in the cache.
            tap: Sees "q", "k", "v", "mixed" (B, H, T, Dh), "scores" and "weights" (B, H, T, S).
            cache: Remembers the keys and values of earlier positions.

        Returns:
            What the heads found, joined and projected, (B, T, D).
        """
        B, T, D = x.shape
        q, k, v = (
            part.view(B, T, self.n_heads, -1).transpose(1, 2)  # (B, T, D) -> (B, H, T, Dh)
            for part in self.qkv(x).split(D, dim=-1)
        )
        if tap is not None:
            q, k, v = tap("q", q), tap("k", k), tap("v", v)
        if cache is not None:
            k, v = cache.extend(layer, k, v)  # (B, H, S, Dh)
        if tap is None and not self.weights_dropout.is_active:  # the same formula in one kernel
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=visible)
        else:
            mixed = self._mix_step_by_step(q, k, v, visible, tap)
        joined = mixed.transpose(1, 2).reshape(B, T, D)  # heads side by side again
        return self.out_dropout(self.proj(joined))

    def _mix_step_by_step(
        self, q: Tensor, k: Tensor, v: Tensor, visible: Tensor, tap: Tap | None
    ) -> Tensor:
        scores = attention_scores(q, k, visible)  # (B, H, T, S)
        scores = scores if tap is None else tap("scores", scores)
        weights = shares(scores)
        weights = weights if tap is None else tap("weights", weights)
        mixed = self.weights_dropout(weights) @ v  # (B, H, T, Dh)
        return mixed if tap is None else tap("mixed", mixed)
