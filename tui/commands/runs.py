"""The commands that look after runs: list, watch, stop, rename, delete. None computes."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from tui.commands.options import RUN_HELP, AsJson, Run, complete_run, find

STOP_PATIENCE_S = 60.0


def runs(as_json: AsJson = False) -> None:
    """List all runs, the newest last."""
    from core.runs import RunSummary, list_runs
    from core.upkeep import size_of
    from tui.output import emit, note, table
    from tui.paths import runs_root

    found = list_runs(runs_root())
    if as_json:
        keys = ("state", "step", "val_loss")
        emit(
            {
                "runs": [
                    {"run": run.name, **{key: getattr(run, key) for key in keys}}
                    | {"preset": run.config.get("preset")}
                    for run in found
                ]
            }
        )
        return
    if not found:
        note("No run yet. `qkv train` makes one in about a quarter of a minute.")
        return

    def row(run: RunSummary) -> tuple[str, ...]:
        loss = "" if run.val_loss is None else f"{run.val_loss:.4f}"
        n_steps = run.status.get("n_steps", "?")
        preset = run.config.get("preset", "")
        return (
            run.name,
            run.state,
            f"{run.step}/{n_steps}",
            loss,
            preset,
            f"{size_of(run.path) / 1e6:.1f} MB",
        )

    table(("run", "state", "step", "val loss", "preset", "size"), [row(run) for run in found])


def stop(run: Run, as_json: AsJson = False) -> None:
    """Ask a training to save and end after the step it is in, and wait until it has."""
    from core.runs import is_alive, read_run, request_stop
    from data.errors import UserError
    from tui.output import emit, note, say

    path = find(run)
    if not is_alive(path):
        raise UserError(f"{path.name} is not running: it is {read_run(path).state}.")
    request_stop(path)
    note(f"{path.name}: asked to stop.")
    deadline = time.monotonic() + STOP_PATIENCE_S
    while is_alive(path):
        if time.monotonic() > deadline:
            raise UserError(
                f"{path.name} has not ended after {STOP_PATIENCE_S:.0f} s; it will after its step. "
                "`qkv runs` tells when."
            )
        time.sleep(0.05)
    summary = read_run(path)
    if as_json:
        emit({"run": path.name, "state": summary.state, "step": summary.step})
    else:
        say(f"{path.name}: {summary.state} at step {summary.step}.")


def rename(
    run: Run,
    slug: Annotated[str, typer.Argument(metavar="SLUG", help="The new word in its name.")],
    as_json: AsJson = False,
) -> None:
    """Put another word into a run's name; date and last digits stay."""
    from core.upkeep import rename_run
    from tui.output import emit, say

    path = find(run)
    renamed = rename_run(path, slug)
    if as_json:
        emit({"run": renamed.name, "was": path.name})
    else:
        say(f"{path.name} is now {renamed.name}.")


def delete(
    run: Run,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a run with all its files, after a question."""
    from core.upkeep import delete_run, size_of
    from data.errors import UsageError
    from tui.output import emit, note, say

    path = find(run)
    size = f"{size_of(path) / 1e6:.1f} MB"
    if not yes and not sys.stdin.isatty():
        raise UsageError(f"deleting {path.name} needs an answer; give --yes to delete it unasked.")
    if not yes and not typer.confirm(f"Delete {path.name} ({size}) for good?", err=True):
        note("Nothing was deleted.")
        raise typer.Exit(1)
    delete_run(path)
    if as_json:
        emit({"run": path.name, "deleted": True})
    else:
        say(f"Deleted {path.name} ({size}).")


def watch(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help=RUN_HELP, autocompletion=complete_run)
    ],
    log: Annotated[bool, typer.Option("--log", help="Logarithmic loss axis.")] = False,
    as_json: AsJson = False,
) -> None:
    """Draw the loss curves of one or several runs while they train, wherever they were started.

    Ctrl-C leaves the picture; the runs go on.
    """
    from tui.watching import watch_runs

    paths: list[Path] = list(dict.fromkeys(find(run) for run in runs))
    watch_runs(paths, log_y=log, as_json=as_json)
