"""A training as it is followed in a terminal: a bar with what is left, or lines for a log."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

from core.recording import Finished, Started
from core.training import Evaluated, Event, Stepped
from tui.output import emit, note

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


def follow(
    events: Iterable[Started | Event | Finished],
    *,
    as_json: bool,
    unheard: Callable[[], None] = lambda: None,
) -> Finished:
    """Consume a training to its end and show how it goes.

    Args:
        events: From `core.recording.work`.
        as_json: Print evaluations as JSON lines on stdout; otherwise all goes to stderr.
        unheard: Called when whoever read the output has gone; it should end the training.

    Returns:
        How it ended.
    """
    if as_json:
        view: _View = _JsonView()
    elif sys.stderr.isatty():
        view = _BarView()
    else:
        view = _LogView()
    with view:
        for event in events:
            if isinstance(event, Finished):
                return event
            try:
                view.show(event)
            except BrokenPipeError:
                unheard()
    raise AssertionError("work always ends with Finished or an error")


class _View:
    """Shows one event after the other."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def show(self, event: Started | Event) -> None:
        """Show what has happened."""
        raise NotImplementedError


class _LogView(_View):
    """One line for each evaluation."""

    def show(self, event: Started | Event) -> None:
        if isinstance(event, Started):
            for line in describe(event):
                note(line)
            self._n_steps = event.n_steps
        elif isinstance(event, Evaluated):
            note(
                f"step {event.step}/{self._n_steps}: "
                f"train {event.train_loss:.4f}, val {event.val_loss:.4f}"
            )


class _JsonView(_View):
    """One object for each evaluation, for the start and for samples."""

    def show(self, event: Started | Event) -> None:
        if isinstance(event, Started):
            emit(
                {
                    "event": "started",
                    "run": event.run.name,
                    "step": event.step,
                    "n_steps": event.n_steps,
                    "n_params": event.n_params,
                }
            )
            for line in event.notes:
                note(line)
        elif isinstance(event, Evaluated):
            emit({"event": "evaluation", **asdict(event)})


class _BarView(_View):
    """A bar with the share done, the losses so far, speed and the time that is left."""

    def __init__(self) -> None:
        self._losses = ""
        self._task: TaskID | None = None
        self._bar = _bar()

    def __enter__(self) -> None:
        self._bar.start()

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, event: Started | Event) -> None:
        if isinstance(event, Started):
            for line in describe(event):
                self._bar.console.print(line, markup=False, highlight=False)
            self._task = self._bar.add_task(
                "", total=event.n_steps, completed=event.step, losses="", speed=""
            )
        elif isinstance(event, Evaluated):
            self._losses = f"train {event.train_loss:.3f}  val {event.val_loss:.3f}"
        elif isinstance(event, Stepped) and self._task is not None:
            self._bar.update(
                self._task,
                completed=event.step,
                losses=self._losses or f"batch {event.loss:.3f}",
                speed=f"{event.chars_per_s:,.0f} letters/s",
            )


def _bar() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    return Progress(
        TaskProgressColumn(),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[losses]}", markup=False),
        TextColumn("{task.fields[speed]}", markup=False),
        TimeLeft(compact=True),
        TextColumn("left"),
        console=Console(stderr=True),
        transient=True,
    )


def describe(started: Started) -> list[str]:
    """Say in a line or more what is being trained."""
    verb = f"going on at step {started.step} of" if started.step else "training for"
    return [
        f"{started.run.name}: {started.n_params:,} parameters, {verb} {started.n_steps:,} steps. "
        "Ctrl-C saves and stops.",
        *started.notes,
    ]
