"""The Transformer block: attention, then a feed-forward network, each added to what came in.

Sources: Vaswani et al. 2017, section 3.3 (feed-forward); Xiong et al. 2020, "On Layer
Normalization in the Transformer Architecture" (norm before each part); Hendrycks and Gimpel
2016, "Gaussian Error Linear Units".
Shape letters: B batch, T positions, D d_model, F width inside the feed-forward.
"""

from torch import Tensor, nn

from core.attention import CausalSelfAttention
from core.cache import KeyValueCache
from core.config import ModelConfig
from core.dropout import Dropout
from core.taps import Tap, offer, scoped


class FeedForward(nn.Module):
    """Work on each position by itself: widen, bend with a GELU, narrow again."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.up = nn.Linear(config.d_model, config.d_hidden)
        self.down = nn.Linear(config.d_hidden, config.d_model)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, *, tap: Tap | None = None) -> Tensor:
        """Return GELU(x W_up + b_up) W_down + b_down, (B, T, D).

        The tap sees "hidden" and "activated", (B, T, F).
        """
        hidden = offer(tap, "hidden", self.up(x))  # (B, T, F)
        activated = offer(tap, "activated", nn.functional.gelu(hidden))
        return self.dropout(self.down(activated))


class Block(nn.Module):
    """One layer: positions exchange what they know, then each thinks it over."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(config.d_model)
        self.attn = CausalSelfAttention(config)
        self.ln2 = nn.LayerNorm(config.d_model)
        self.ff = FeedForward(config)

    def forward(
        self,
        x: Tensor,
        visible: Tensor,
        *,
        layer: int = 0,
        tap: Tap | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Return x with what attention and feed-forward add to it, (B, T, D).

        The tap sees "ln1", "attn", "after_attn", "ln2", "ff" and "out", (B, T, D), and all that
        the parts offer under "attn." and "ff.".
        """
        read = offer(tap, "ln1", self.ln1(x))
        found = self.attn(read, visible, layer=layer, tap=scoped(tap, "attn"), cache=cache)
        x = offer(tap, "after_attn", x + offer(tap, "attn", found))
        read = offer(tap, "ln2", self.ln2(x))
        thought = self.ff(read, tap=scoped(tap, "ff"))
        return offer(tap, "out", x + offer(tap, "ff", thought))
