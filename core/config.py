"""What a model is made of and how it is trained. Plain values: no torch here."""

import math
from dataclasses import dataclass
from difflib import get_close_matches

from data.errors import UsageError

BOUNDARY_ID = 0
"""The token that begins and ends a name."""

LAYOUTS = ("window", "padded", "packed")
POSITIONS = ("learned", "sinusoidal", "none")
PLANNED_POSITIONS = ("rotary", "alibi")
OPTIMIZERS = ("adamw",)
INITS = ("book", "fan_in", "torch")
HIGHEST_SEED = 2**32 - 1
MOST_STEPS = 1_000_000_000
MOST_FEATURES, MOST_LAYERS, MOST_POSITIONS = 65_536, 1_024, 8_192
SCHEDULES = ("constant", "cosine", "linear")


class ConfigError(UsageError):
    """A setting that no model can be built from or trained with; the message names what fits."""


def check_choice(field: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a value that isn't one of the choices, naming the nearest.

    Raises:
        ConfigError: If the value isn't among the choices.
    """
    if value in choices:
        return
    near = get_close_matches(str(value), choices, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ConfigError(f"{field} is {value!r}; it can be {', '.join(choices)}.{hint}")


def check_least(least: float, **fields: float | None) -> None:
    """Refuse numbers below `least`; a field that is None is not set and passes.

    Raises:
        ConfigError: If a number is too small or isn't a number.
    """
    for name, value in fields.items():
        if value is not None and not value >= least:
            raise ConfigError(f"{name} must be at least {least}, got {value}.")
        if value == math.inf:
            raise ConfigError(f"{name} must be finite, got {value}.")


def check_most(most: float, **fields: float | None) -> None:
    """Refuse numbers above `most`; a field that is None is not set and passes.

    Raises:
        ConfigError: If a number is too large.
    """
    for name, value in fields.items():
        if value is not None and value > most:
            raise ConfigError(f"{name} can be at most {most:,}, got {value:,}.")


def check_seed(seed: int) -> None:
    """Refuse a seed that no generator takes.

    Raises:
        ConfigError: If the seed isn't between 0 and 2³² - 1.
    """
    if not 0 <= seed <= HIGHEST_SEED:
        raise ConfigError(f"seed is {seed}; it can be any whole number from 0 to {HIGHEST_SEED}.")


def check_share(*, below_one: bool = True, **fields: float) -> None:
    """Refuse shares outside [0, 1), or [0, 1] when one itself is possible.

    Raises:
        ConfigError: If a share is out of range.
    """
    for name, value in fields.items():
        if not (0 <= value < 1 or (value == 1 and not below_one)):
            last = "below 1" if below_one else "at most 1"
            raise ConfigError(f"{name} must be at least 0 and {last}, got {value}.")


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig:
    """The shape of a MiniGPT. The defaults are the book's Chapter 7."""

    vocab_size: int = 27
    """Number of distinct tokens (27 for the names: a-z and the boundary); set by the data."""
    block_size: int = 32
    """Longest context, in tokens."""
    d_model: int = 64
    """Width of the residual stream: features per position."""
    n_heads: int = 4
    """Attention heads per layer; each sees d_model / n_heads features."""
    n_layers: int = 4
    """Number of Transformer blocks."""
    d_ff: int | None = None
    """Width inside the feed-forward; 4 * d_model if left out."""
    dropout: float = 0.1
    """Share of activations set to zero while training, in [0, 1)."""
    positions: str = "learned"
    """How a position is told: learned, sinusoidal or none."""
    qkv_bias: bool = False
    """Whether queries, keys and values have a bias."""
    tied_head: bool = False
    """Whether the output head shares the token embedding's matrix."""

    def __post_init__(self) -> None:
        check_least(
            1,
            vocab_size=self.vocab_size,
            block_size=self.block_size,
            d_model=self.d_model,
            n_heads=self.n_heads,
            n_layers=self.n_layers,
            d_ff=self.d_ff,
        )
        check_most(MOST_FEATURES, d_model=self.d_model, d_ff=self.d_ff)
        check_most(MOST_LAYERS, n_layers=self.n_layers)
        check_most(MOST_POSITIONS, block_size=self.block_size)
        check_share(dropout=self.dropout)
        if self.positions in PLANNED_POSITIONS:
            raise ConfigError(
                f"positions is {self.positions!r}, which this version does not build yet; "
                f"it can be {', '.join(POSITIONS)}."
            )
        check_choice("positions", self.positions, POSITIONS)
        if self.d_model % self.n_heads:
            fits = [str(n) for n in range(1, self.d_model + 1) if self.d_model % n == 0]
            raise ConfigError(
                f"d_model ({self.d_model}) cannot be shared equally by n_heads ({self.n_heads}). "
                f"Head counts that fit: {', '.join(fits)}."
            )

    @property
    def d_head(self) -> int:
        """Features per head."""
        return self.d_model // self.n_heads

    @property
    def d_hidden(self) -> int:
        """Width inside the feed-forward, worked out."""
        return self.d_ff or 4 * self.d_model


@dataclass(frozen=True, kw_only=True, slots=True)
class MLPConfig:
    """The shape of the book's Chapter 9 baseline: a window of letters into one hidden layer."""

    vocab_size: int = 27
    """Number of distinct tokens; set by the data."""
    block_size: int = 8
    """Letters the model sees before the one it predicts."""
    d_embedding: int = 24
    """Features per letter."""
    d_hidden: int = 256
    """Width of the hidden layer."""

    def __post_init__(self) -> None:
        check_least(
            1,
            vocab_size=self.vocab_size,
            block_size=self.block_size,
            d_embedding=self.d_embedding,
            d_hidden=self.d_hidden,
        )
        check_most(MOST_FEATURES, d_embedding=self.d_embedding, d_hidden=self.d_hidden)
        check_most(MOST_POSITIONS, block_size=self.block_size)


AnyModelConfig = ModelConfig | MLPConfig
MODEL_CONFIGS: dict[str, type[AnyModelConfig]] = {"gpt": ModelConfig, "mlp": MLPConfig}


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    """How a model is trained. The defaults are the preset `fast`."""

    layout: str = "packed"
    """How names become rows: window, padded or packed."""
    row_length: int | None = None
    """Positions per padded or packed row; the longest name + 1 if left out."""
    batch_size: int = 28
    """Rows per step."""
    n_steps: int | None = None
    """Updates in all; give this or n_epochs."""
    n_epochs: float | None = 4.0
    """Times each training name is seen; give this or n_steps."""
    eval_interval: int = 200
    """Steps between two exact evaluations."""
    optimizer: str = "adamw"
    """Which optimizer updates the weights."""
    learning_rate: float = 3e-3
    """The highest learning rate, reached after the warm-up."""
    betas: tuple[float, float] = (0.9, 0.99)
    """How slowly the optimizer forgets the gradients and their squares."""
    weight_decay: float = 0.01
    """Share of each weight taken away per step and unit of learning rate."""
    init: str = "fan_in"
    """How the first weights are drawn: book, fan_in or torch."""
    schedule: str = "linear"
    """How the learning rate falls after the warm-up: constant, cosine or linear."""
    warmup_steps: int = 20
    """Steps in which the learning rate climbs from near 0."""
    final_share: float = 0.0
    """Share of the learning rate left at the end of the schedule."""
    clip_norm: float | None = None
    """Longest gradient that is used as it is; longer ones are shortened to this."""

    def __post_init__(self) -> None:
        check_choice("layout", self.layout, LAYOUTS)
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("init", self.init, INITS)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_least(1, batch_size=self.batch_size, eval_interval=self.eval_interval)
        check_least(1, n_steps=self.n_steps)
        check_least(2, row_length=self.row_length)
        check_most(MOST_POSITIONS, row_length=self.row_length)
        check_least(0, warmup_steps=self.warmup_steps, weight_decay=self.weight_decay)
        check_share(final_share=self.final_share, below_one=False)
        check_share(beta1=self.betas[0], beta2=self.betas[1])
        for name in ("learning_rate", "clip_norm", "n_epochs"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(f"{name} must be a positive number, got {value}.")
        check_most(MOST_STEPS, n_steps=self.n_steps, warmup_steps=self.warmup_steps)
        check_most(MOST_STEPS, eval_interval=self.eval_interval, n_epochs=self.n_epochs)
        if (self.n_steps is None) == (self.n_epochs is None):
            raise ConfigError(
                f"n_steps is {self.n_steps} and n_epochs is {self.n_epochs}; "
                "give one of the two, and the other is worked out."
            )
