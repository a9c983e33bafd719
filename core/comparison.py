"""Models side by side on one split, measured the same way, so that the comparison is fair."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from core import baselines
from core.corpus import Corpus
from core.evaluation import counting_loss
from core.ledger import n_params
from core.presets import PRESETS, DataConfig
from core.runs import list_runs
from core.settings import Plan, plan_from_json
from core.using import OpenRun
from data.errors import DataError


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One model of a comparison."""

    model: str
    n_params: int
    val_loss: float
    """Exact, in nats per letter."""
    test_loss: float


def mlp_plan(data: DataConfig) -> Plan:
    """Return the plan of the MLP that others are compared with, on the same names."""
    preset = PRESETS["mlp"]
    return Plan(preset="mlp", model=preset.model, train=preset.train, data=data)


def newest_of_kind(root: Path, kind: str) -> Path | None:
    """Find the newest finished run of a kind."""
    for run in reversed(list_runs(root)):
        if run.state == "done" and run.config.get("kind") == kind:
            return run.path
    return None


def mlp_run(root: Path, corpus: Corpus, data: DataConfig) -> tuple[Path, str] | None:
    """Find the run, finished or not, that trains the comparison's MLP on these names."""
    wanted = mlp_plan(data)
    for run in reversed(list_runs(root)):
        if run.config.get("preset") != "mlp" or run.state == "damaged":
            continue
        try:
            found = plan_from_json(run.config)
        except DataError:
            continue
        is_same = run.config["data"].get("sha256") == corpus.names.sha256
        recipe = (found.train.n_steps, found.train.learning_rate, found.train.batch_size)
        usual = (wanted.train.n_steps, wanted.train.learning_rate, wanted.train.batch_size)
        if is_same and found.data.split == data.split and recipe == usual:
            return run.path, run.state
    return None


def baseline_rows(corpus: Corpus) -> list[Row]:
    """Measure what needs no training: uniform, unigram and bigram."""
    train, V = corpus.ids("train"), len(corpus.vocabulary)
    counting = {
        "uniform": baselines.uniform(V),
        "unigram": baselines.unigram(train, V),
        "bigram": baselines.bigram(train, V),
    }
    return [
        Row(
            model=name,
            n_params=model.n_params,
            val_loss=counting_loss(model, corpus.ids("val")),
            test_loss=counting_loss(model, corpus.ids("test")),
        )
        for name, model in counting.items()
    ]


def run_rows(opened: Sequence[OpenRun]) -> list[Row]:
    """Measure trained runs, each in the layout it was trained in."""
    return [
        Row(
            model=_label(run),
            n_params=n_params(run.trained.header.model),
            val_loss=run.evaluate("val").loss,
            test_loss=run.evaluate("test").loss,
        )
        for run in opened
    ]


def _label(run: OpenRun) -> str:
    kind = "MLP" if isinstance(run.trained.model, baselines.MLP) else "GPT"
    return f"{kind} {run.run.name}"
