"""What several tests of screens start from."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from core.config import MLPConfig, ModelConfig, TrainConfig
from core.corpus import load_corpus
from core.preparing import fit_plan, prepare_run
from core.presets import DataConfig
from core.recording import work
from core.settings import Plan

TRAIN = TrainConfig(n_steps=60, n_epochs=None, batch_size=16, eval_interval=20, warmup_steps=5)
TrainRuns = Callable[[Path, dict[str, ModelConfig | MLPConfig]], Path]


@pytest.fixture(scope="session")
def train_runs() -> TrainRuns:
    """Train tiny models, one after the other, on names of one to four syllables."""

    def train(home: Path, models: dict[str, ModelConfig | MLPConfig]) -> Path:
        luck, names = random.Random(1), set[str]()
        while len(names) < 200:
            parts = range(luck.randint(1, 4))
            names.add("".join(luck.choice("bdklmr") + luck.choice("aeiou") for _ in parts))
        file = home / "names.txt"
        file.write_text("".join(f"{name}\n" for name in sorted(names)))
        for slug, model in models.items():
            plan = Plan(model=model, train=TRAIN, data=DataConfig(path=str(file)), seed=3)
            corpus = load_corpus(plan.data)
            fitted = fit_plan(plan, corpus)
            for _ in work(prepare_run(home / "runs", fitted, corpus, slug=slug, device="cpu")):
                pass
        return home

    return train
