"""From a plan and its names to a prepared run that any trainer can take up. No torch here."""

import os
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from core.config import ConfigError, MLPConfig, check_least
from core.corpus import Corpus
from core.devices import check_device
from core.ledger import n_params
from core.runs import create_run
from core.settings import Plan, plan_to_json

BYTES_PER_PARAM = 16  # the weight, its gradient and two averages of the optimizer, in float32


def fit_plan(plan: Plan, corpus: Corpus) -> Plan:
    """Give the model its vocabulary and the rows their length, and see that all fits.

    Raises:
        ConfigError: If the longest name doesn't fit, or the model doesn't fit this machine.
    """
    model = replace(plan.model, vocab_size=len(corpus.vocabulary))
    needed = len(corpus.longest) + 1
    row_length = plan.train.row_length or needed
    if row_length < needed:
        raise ConfigError(
            f"row_length is {row_length}, but the longest name, {corpus.longest!r}, takes "
            f"{needed} positions with its boundary. Use --set train.row_length={needed}."
        )
    is_window = plan.train.layout == "window" or isinstance(model, MLPConfig)
    if not is_window and row_length > model.block_size:
        raise ConfigError(
            f"block_size is {model.block_size}, but a row of whole names takes {row_length} "
            f"positions (the longest name is {corpus.longest!r}). "
            f"Use --set model.block_size={row_length} or --set train.layout=window."
        )
    fitted = replace(plan, model=model, train=replace(plan.train, row_length=row_length))
    _check_memory(fitted, corpus)
    return fitted


def prepare_run(
    root: Path,
    plan: Plan,
    corpus: Corpus,
    *,
    slug: str | None = None,
    device: str = "auto",
    n_threads: int = 1,
) -> Path:
    """Make the directory of a run, with all that its trainer needs to know.

    Args:
        root: Where all runs are.
        plan: From `fit_plan`.
        corpus: The names.
        slug: A word for the run's name; the preset's name if left out.
        device: auto, cpu, cuda or mps.
        n_threads: CPU threads; another number gives other bits, so the run keeps to it.

    Raises:
        UsageError: If slug, device or threads can't be.
    """
    check_device(device)
    check_least(1, threads=n_threads)
    config = plan_to_json(plan)
    config["data"]["sha256"] = corpus.names.sha256
    config |= {
        "device": device,
        "threads": n_threads,
        "versions": {name: version(name) for name in ("qkv", "torch", "numpy", "safetensors")},
    }
    return create_run(root, slug or plan.preset, config, corpus.vocabulary.characters)


def _check_memory(plan: Plan, corpus: Corpus) -> None:
    length = plan.train.row_length or 1
    width = plan.model.block_size if plan.train.layout == "window" else length
    n_chars = sum(len(name) + 1 for name in corpus.splits.train + corpus.splits.val * 2)
    # ids and targets of every window, or who sees whom in every packed row
    rows = n_chars * width * (16 if plan.train.layout == "window" else 1)
    needed = n_params(plan.model) * BYTES_PER_PARAM + rows
    there = _memory_bytes()
    if there is not None and needed > there:
        raise ConfigError(
            f"this model has {n_params(plan.model):,} parameters; training it on these names takes "
            f"at least {needed / 1e9:,.1f} GB, and this machine has {there / 1e9:,.1f} GB. Use a "
            "smaller model.d_model, model.n_layers or row."
        )


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None  # a system that doesn't say
