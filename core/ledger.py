"""Where the parameters live: one line for each tensor of a model. No torch here.

Source of the arithmetic: Vaswani et al. 2017, sections 3.2 and 3.3; the book, Chapter 7.
"""

from typing import NamedTuple

from core.config import AnyModelConfig, MLPConfig, ModelConfig


class Entry(NamedTuple):
    """One tensor of a model and the parameters in it."""

    name: str
    """Its name in the model's state, for example blocks.0.attn.qkv.weight."""
    shape: tuple[int, ...]
    """Its sizes."""

    @property
    def n_params(self) -> int:
        """How many numbers it holds."""
        product = 1
        for size in self.shape:
            product *= size
        return product


def ledger(config: AnyModelConfig) -> list[Entry]:
    """List every tensor that training changes, in the order a forward pass meets them."""
    return _mlp_ledger(config) if isinstance(config, MLPConfig) else _gpt_ledger(config)


def n_params(config: AnyModelConfig) -> int:
    """Count the parameters (204,827 for the book's Chapter 7 at 27 symbols)."""
    return sum(entry.n_params for entry in ledger(config))


def _gpt_ledger(config: ModelConfig) -> list[Entry]:
    V, D = config.vocab_size, config.d_model
    entries = [Entry("token_embedding.weight", (V, D))]
    if config.positions == "learned":
        entries.append(Entry("position.table.weight", (config.block_size, D)))
    for layer in range(config.n_layers):
        entries += [Entry(f"blocks.{layer}.{name}", shape) for name, shape in _block_ledger(config)]
    entries += [Entry("ln_f.weight", (D,)), Entry("ln_f.bias", (D,))]
    if not config.tied_head:
        entries.append(Entry("head.weight", (V, D)))
    return [*entries, Entry("head.bias", (V,))]


def _block_ledger(config: ModelConfig) -> list[tuple[str, tuple[int, ...]]]:
    D, F = config.d_model, config.d_hidden
    return [
        ("ln1.weight", (D,)),
        ("ln1.bias", (D,)),
        ("attn.qkv.weight", (3 * D, D)),
        *([("attn.qkv.bias", (3 * D,))] if config.qkv_bias else []),
        ("attn.proj.weight", (D, D)),
        ("attn.proj.bias", (D,)),
        ("ln2.weight", (D,)),
        ("ln2.bias", (D,)),
        ("ff.up.weight", (F, D)),
        ("ff.up.bias", (F,)),
        ("ff.down.weight", (D, F)),
        ("ff.down.bias", (D,)),
    ]


def _mlp_ledger(config: MLPConfig) -> list[Entry]:
    V, E, H = config.vocab_size, config.d_embedding, config.d_hidden
    return [
        Entry("embedding.weight", (V, E)),
        Entry("hidden.weight", (H, config.block_size * E)),
        Entry("hidden.bias", (H,)),
        Entry("output.weight", (V, H)),
        Entry("output.bias", (V,)),
    ]
