"""The commands that train: train and resume."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tui.commands.options import (
    AsJson,
    ConfigFile,
    Device,
    Run,
    Seed,
    Threads,
    complete_preset,
    find,
    open_model,
)

if TYPE_CHECKING:
    from core.corpus import Corpus
    from core.recording import Finished

N_SHOWN_NAMES = 20
PARTS = ("train", "val", "test")
RESULT_KEYS = (
    "n_params",
    "n_steps",
    "train_loss",
    "val_loss",
    "test_loss",
    "elapsed_s",
    "cpu_s",
)


def train(
    preset: Annotated[
        str | None,
        typer.Option(metavar="P", help="fast, book or mlp.", autocompletion=complete_preset),
    ] = None,
    config: ConfigFile = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="One setting, e.g. train.n_steps=500."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A UTF-8 file with one name a line.")
    ] = None,
    skip_bad_lines: Annotated[
        bool, typer.Option("--skip-bad-lines", help="Leave out lines that can't be used.")
    ] = False,
    seed: Seed = None,
    device: Device = None,
    threads: Threads = None,
    name: Annotated[
        str | None, typer.Option(metavar="SLUG", help="A word for the run's name.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a model on names and watch how it learns.

    Without options: the book's mini GPT on 29,693 names, in about a quarter of a minute. Ctrl-C
    saves and stops; `qkv resume last` goes on as if nothing had happened.
    """
    from core.corpus import load_corpus
    from core.preparing import fit_plan, prepare_run
    from core.settings import make_plan
    from tui.output import note
    from tui.paths import runs_root

    plan = make_plan(
        preset=preset,
        config_file=config,
        settings=settings or [],
        data_path=data,
        skip_bad_lines=skip_bad_lines,
        seed=seed,
    )
    corpus = load_corpus(plan.data)
    for sentence in corpus.names.report.sentences():
        note(sentence)
    note_repeats(corpus)
    plan = fit_plan(plan, corpus)
    if device not in (None, "auto", "cpu"):
        from core.devices import pick_device

        pick_device(device)  # a wish that can't be met is refused before anything is made
    run = prepare_run(
        runs_root(),
        plan,
        corpus,
        slug=name,
        device=device or "auto",
        n_threads=1 if threads is None else threads,
    )
    finish(run, as_json=as_json)


def note_repeats(corpus: "Corpus") -> None:
    """Say what became of repeated names."""
    from tui.output import note

    splits = corpus.splits
    if splits.n_duplicates:
        note(f"{splits.n_duplicates:,} names repeat another and are left out.")
    if splits.n_leaked:
        share = splits.n_leaked / len(splits.val)
        note(f"{splits.n_leaked:,} validation names ({share:.1%}) are also learned from.")


def resume(
    run: Run, device: Device = None, threads: Threads = None, as_json: AsJson = False
) -> None:
    """Go on with a run that was stopped, failed or lost; show the result of one that is done."""
    from core.runs import read_run

    path = find(run)
    if read_run(path).state == "done":
        tell(path, as_json=as_json)
    else:
        finish(path, device=device, threads=threads, as_json=as_json)


def finish(
    run: Path, *, device: str | None = None, threads: int | None = None, as_json: bool = False
) -> None:
    """Train a prepared run to its end and tell how it went."""
    train_to_end(run, device=device, threads=threads, as_json=as_json)
    tell(run, as_json=as_json)


def train_to_end(
    run: Path, *, device: str | None = None, threads: int | None = None, as_json: bool = False
) -> None:
    """Train a prepared run to its end.

    Raises:
        typer.Exit: With code 130, if somebody asked it to stop before.
    """
    from tui.interrupt import interruptible

    with interruptible() as interrupt:  # before torch is imported: that takes a second
        from core.recording import work
        from tui.progress import follow

        events = work(run, device=device, n_threads=threads, should_stop=interrupt.is_requested)
        finished = follow(events, as_json=as_json, unheard=interrupt.request)
    if finished.state == "stopped":
        _tell_stopped(run, finished, as_json=as_json)
        raise typer.Exit(130)


def _tell_stopped(run: Path, finished: "Finished", *, as_json: bool) -> None:
    from tui.output import emit, note

    step, n_steps = finished.status["step"], finished.status["n_steps"]
    if as_json:
        emit({"event": "stopped", "run": run.name, "step": step, "n_steps": n_steps})
    note(f"Stopped and saved at step {step} of {n_steps}. Go on with: qkv resume {run.name}")


def tell(run: Path, *, as_json: bool) -> None:
    """Show the result of a run that is done: losses beside the bigram's, and new names."""
    from core.runs import read_run
    from data.errors import DataError
    from tui.commands.looking import show_names
    from tui.output import emit, say, table

    summary = read_run(run)
    status = summary.status
    missing = [key for key in (*RESULT_KEYS, "bigram") if key not in status]
    if missing:
        raise DataError(f"{run.name} is done, but its status.json has no {missing[0]}. Train anew.")
    names = open_model(run, "cpu", None).sample(N_SHOWN_NAMES, seed=summary.config["seed"])
    if as_json:
        emit(
            {"event": "done", "run": run.name}
            | {key: status[key] for key in RESULT_KEYS}
            | {"bigram": status["bigram"], "names": names.to_json()}
        )
        return
    losses = [f"{status[f'{part}_loss']:.4f}" for part in PARTS]
    bigram = ["", *(f"{status['bigram'][part]:.4f}" for part in PARTS[1:])]
    table(("nats a letter", *PARTS), [(summary.config["preset"], *losses), ("bigram", *bigram)])
    say("")
    show_names(names)
    say("")
    say(f"{run.name}: {status['n_steps']:,} steps in {status['elapsed_s']:.1f} s.")
