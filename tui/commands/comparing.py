"""The command that sets models side by side."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tui.commands.options import RUN_HELP, AsJson, Device, Threads, complete_run, find, open_model

if TYPE_CHECKING:
    from core.corpus import Corpus
    from core.presets import DataConfig


def compare(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            help=f"{RUN_HELP} The newest finished GPT if left out.",
            autocompletion=complete_run,
        ),
    ] = None,
    device: Device = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs with uniform, unigram, bigram and the book's MLP: one split, one metric.

    The MLP is trained once for each names file and split, as an ordinary run; that takes some
    seconds, and `qkv runs` shows it afterwards.
    """
    from dataclasses import asdict

    from core.comparison import baseline_rows, newest_of_kind, run_rows
    from tui.output import emit, note, table
    from tui.paths import runs_root

    newest = None if runs else newest_of_kind(runs_root(), "gpt")
    chosen = [find(run) for run in runs or []] or ([newest] if newest else [])
    if not chosen:
        note("No finished GPT yet, so only what it has to beat. `qkv train` makes one.")
    _check_same_names(chosen)
    corpus, data = _names_of(chosen)
    mlp = _trained_mlp(corpus, data, device, threads)
    opened = [open_model(run, device, threads) for run in dict.fromkeys([mlp, *chosen])]
    rows = baseline_rows(corpus) + run_rows(opened)
    if as_json:
        emit({"split": data.split, "rows": [asdict(row) for row in rows]})
        return
    table(
        ("model", "parameters", "val loss", "test loss"),
        [
            (row.model, f"{row.n_params:,}", f"{row.val_loss:.4f}", f"{row.test_loss:.4f}")
            for row in rows
        ],
        title=f"nats a letter, {data.split} split, exact",
    )


def _names_of(chosen: list[Path]) -> tuple["Corpus", "DataConfig"]:
    """Read the names of the chosen runs, unchanged since; the program's own if there is none."""
    from core.corpus import load_corpus, reload_corpus
    from core.presets import DataConfig
    from core.runs import read_characters, read_config
    from core.settings import plan_from_json

    if not chosen:
        return load_corpus(DataConfig()), DataConfig()
    config = read_config(chosen[0])
    data = plan_from_json(config).data
    characters = read_characters(chosen[0])
    return reload_corpus(data, config["data"]["sha256"], characters), data


def _check_same_names(chosen: list[Path]) -> None:
    from core.config import ConfigError
    from core.using import same_names

    for other in chosen[1:]:
        if not same_names(chosen[0], other):
            raise ConfigError(
                f"{chosen[0].name} and {other.name} were trained on different names or splits, "
                "so their losses can't be compared. Compare each by itself."
            )


def _trained_mlp(
    corpus: "Corpus", data: "DataConfig", device: str | None, threads: int | None
) -> Path:
    """Return the comparison's MLP; train it, or go on with it, if it isn't done yet."""
    from core.comparison import mlp_plan, mlp_run
    from core.preparing import fit_plan, prepare_run
    from tui.commands.training import train_to_end
    from tui.output import note
    from tui.paths import runs_root

    found = mlp_run(runs_root(), corpus, data)
    if found and found[1] == "done":
        return found[0]
    note("Training the book's MLP for the comparison; once for these names.")
    run = found[0] if found else None
    if run is None:
        run = prepare_run(
            runs_root(),
            fit_plan(mlp_plan(data), corpus),
            corpus,
            device=device or "auto",
            n_threads=1 if threads is None else threads,
        )
    train_to_end(run, device=device, threads=threads)
    return run
