"""Arguments and options that several commands share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from core.using import OpenRun


def complete_run(incomplete: str) -> list[str]:
    """Complete the name of a run, the newest first."""
    from core.runs import list_runs
    from tui.paths import runs_root

    names = [run.name for run in reversed(list_runs(runs_root()))]
    return [name for name in ["last", *names] if name.startswith(incomplete)]


def complete_preset(incomplete: str) -> list[str]:
    """Complete the name of a preset."""
    from core.presets import PRESETS

    return [name for name in PRESETS if name.startswith(incomplete)]


def complete_device(incomplete: str) -> list[str]:
    """Complete the name of a device."""
    from core.devices import DEVICES

    return [name for name in DEVICES if name.startswith(incomplete)]


RUN_HELP = "A run's name, any unique part of it, a path, or last."

Run = Annotated[str, typer.Argument(metavar="RUN", help=RUN_HELP, autocompletion=complete_run)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Device = Annotated[
    str | None,
    typer.Option(
        metavar="auto|cpu|cuda|mps",
        help="Where to compute; auto takes a GPU if there is one.",
        autocompletion=complete_device,
    ),
]
Threads = Annotated[
    int | None, typer.Option(metavar="N", help="CPU threads; another number gives other bits.")
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Decides all that is drawn.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="TOML with the tables model, train and data, or a run's config.json.",
    ),
]


def open_model(path: Path, device: str | None, threads: int | None) -> "OpenRun":
    """Load a run's weights, and say so if the newest ones are damaged."""
    from core.using import open_run
    from tui.output import note

    opened = open_run(path, device=device, n_threads=threads)
    if opened.damage:
        note(opened.damage)
    return opened


def find(text: str) -> Path:
    """Return the directory of the run a person means."""
    from core.runs import find_run
    from tui.paths import runs_root

    return find_run(runs_root(), text)
