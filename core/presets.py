"""Named ways to train: a model and a recipe that fit each other. No torch here."""

from dataclasses import dataclass

from core.config import AnyModelConfig, MLPConfig, ModelConfig, TrainConfig, check_choice
from data.splits import SPLIT_WAYS

DEFAULT_PRESET = "fast"


@dataclass(frozen=True, kw_only=True, slots=True)
class DataConfig:
    """Which names, and how they are divided."""

    path: str | None = None
    """A file with one name a line; the names that come with the program if left out."""
    split: str = "clean"
    """clean removes repeated names before splitting; book keeps them, as the book does."""
    skip_bad_lines: bool = False
    """Whether to go on without the lines that can't be used."""

    def __post_init__(self) -> None:
        check_choice("split", self.split, SPLIT_WAYS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Preset:
    """A named way to train: a model and a recipe that fit each other."""

    purpose: str
    """What it is for, in a sentence."""
    model: AnyModelConfig
    train: TrainConfig


PRESETS = {
    "fast": Preset(
        purpose="The default: the book's model on packed names, in a quarter of a minute.",
        model=ModelConfig(dropout=0.0),
        train=TrainConfig(),
    ),
    "book": Preset(
        purpose="The book's Chapters 7 and 8 to the number, with its loss repaired; minutes.",
        model=ModelConfig(),
        train=TrainConfig(
            layout="window",
            batch_size=64,
            n_steps=10_000,
            n_epochs=None,
            eval_interval=500,
            learning_rate=3e-4,
            betas=(0.9, 0.999),
            init="book",
            schedule="cosine",
            warmup_steps=500,
            final_share=0.1,
            clip_norm=1.0,
        ),
    ),
    "mlp": Preset(
        purpose="The book's Chapter 9 baseline: an MLP that sees eight letters.",
        model=MLPConfig(),
        train=TrainConfig(
            batch_size=4,  # about 60 letters, as the book's 64 windows, at a third of their cost
            n_steps=10_000,
            n_epochs=None,
            eval_interval=1000,
            learning_rate=1e-3,
            betas=(0.9, 0.999),
            init="torch",
            schedule="constant",
            warmup_steps=0,
        ),
    ),
}
