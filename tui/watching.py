"""Loss curves of runs in the terminal, drawn anew as their files grow. No torch here."""

import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from core.runs import Metric, MetricsTail, RunSummary, read_run
from tui.output import emit, note, say
from tui.plot import Series, curves_text

LOOK_EVERY_S = 0.5
AWAITED_S = 5.0
SMOOTHING = 0.95


class Watched:
    """One run, as far as it has been read."""

    def __init__(self, run: Path) -> None:
        self.tail = MetricsTail(run)
        self.summary = read_run(run)
        self.forget()

    def forget(self) -> None:
        """Begin anew: a resumed trainer has cut the file."""
        self.curves: dict[str, tuple[list[float], list[float]]] = {
            split: ([], []) for split in ("batch", "train", "val")
        }
        self.last: Metric = {}
        self._smooth: float | None = None

    def look(self, most: int | None = None) -> list[Metric]:
        """Read what is new, at most so many lines of it, and return it."""
        self.summary = read_run(self.summary.path)
        new = list(islice(self.tail.read_new(), most))
        if new and self.last and new[0].get("step", 0) < self.last.get("step", 0):
            self.forget()
        for metric in new:
            self._add(metric)
        return new

    def _add(self, metric: Metric) -> None:
        split, loss, step = metric.get("split", ""), metric.get("loss"), metric.get("step", 0)
        if split not in self.curves:
            return
        value = float(metric.get("nonfinite", "nan")) if loss is None else loss
        if split == "batch":
            self.last = metric
            before = value if self._smooth is None else self._smooth
            self._smooth = value = SMOOTHING * before + (1 - SMOOTHING) * value
        xs, ys = self.curves[split]
        xs.append(step)
        ys.append(value)

    @property
    def is_live(self) -> bool:
        """Whether more may come."""
        return self.summary.state == "running" or self._is_awaited()

    def _is_awaited(self) -> bool:
        """Whether a trainer may be about to take the run up."""
        try:
            created = datetime.fromisoformat(str(self.summary.config.get("created_at")))
            age = datetime.now(UTC) - created
        except (ValueError, TypeError):
            return False
        return self.summary.state == "queued" and age.total_seconds() < AWAITED_S


def watch_runs(paths: Sequence[Path], *, log_y: bool = False, as_json: bool = False) -> None:
    """Show runs until none of them goes on.

    Args:
        paths: The runs.
        log_y: Draw the loss on a logarithmic axis.
        as_json: Print each metric as a JSON line instead.
    """
    watched = [Watched(path) for path in paths]
    if as_json:
        _print_lines(watched, as_json=True)
    elif sys.stdout.isatty():
        _draw_live(watched, log_y=log_y)
    else:
        _print_lines(watched, as_json=False)


def _print_lines(watched: Sequence[Watched], *, as_json: bool) -> None:
    is_first = True
    while is_first or any(run.is_live for run in watched):
        if not is_first:
            time.sleep(LOOK_EVERY_S)
        for run in watched:
            for metric in run.look():
                _print_metric(run.summary, metric, as_json=as_json)
        is_first = False
    for run in watched:
        content: dict[str, Any] = {"run": run.summary.name, "state": run.summary.state}
        if as_json:
            emit({"event": "done" if run is watched[-1] else "ended", **content})
        else:
            note(f"{run.summary.name}: {run.summary.state}.")


def _print_metric(summary: RunSummary, metric: Metric, *, as_json: bool) -> None:
    if as_json:
        emit({"event": "metric", "run": summary.name, **metric})
    elif metric.get("split") in ("train", "val"):
        loss = metric.get("loss")
        text = metric.get("nonfinite") if loss is None else f"{loss:.4f}"
        say(f"{summary.name}  step {metric.get('step')}  {metric.get('split')} {text}")


def _draw_live(watched: Sequence[Watched], *, log_y: bool) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console()
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        try:
            while True:
                for run in watched:
                    run.look()
                live.update(_picture(watched, console, log_y=log_y), refresh=True)
                if not any(run.is_live for run in watched):
                    return
                time.sleep(LOOK_EVERY_S)
        except KeyboardInterrupt:
            live.stop()
            note("Left; what was running goes on.")


def _picture(watched: Sequence[Watched], console: Any, *, log_y: bool) -> Any:  # noqa: ANN401
    """Put curves and a line about each run together, to the size of the terminal."""
    from rich.text import Text

    lines = "\n".join(_state_line(run) for run in watched).splitlines()
    width, height = console.size
    plot = curves_text(
        series_of(watched),
        width=width,
        height=max(6, min(30, height - len(lines) - 3)),
        log_y=log_y,
        color=console.color_system is not None and not console.no_color,
        utf8=console.encoding.lower().startswith("utf"),
    )
    picture = Text.from_ansi(plot.text, no_wrap=True, overflow="crop")
    for line in (*plot.notes, *lines):
        picture.append("\n" + line)
    return picture


def series_of(watched: Sequence[Watched]) -> list[Series]:
    """Choose the curves of one run, or the validation losses of several, above the bigram."""
    if len(watched) > 1:
        series = [Series(run.summary.name, *run.curves["val"], "line") for run in watched]
    else:
        curves = watched[0].curves
        series = [
            Series("batch, smoothed", *curves["batch"], "line"),
            Series("train", *curves["train"], "points"),
            Series("val", *curves["val"], "points"),
        ]
    bigram = watched[0].summary.status.get("bigram", {}).get("val")
    last = max((xs[-1] for run in watched for xs, _ in run.curves.values() if xs), default=0)
    if bigram is not None and last > 0:
        series.append(Series("bigram", [0, last], [bigram, bigram], "level"))
    return series


def _state_line(run: Watched) -> str:
    """Say where a run is and how long still, and on a second line how it learns."""
    status, last = run.summary.status, run.last
    step, n_steps = last.get("step", run.summary.step), status.get("n_steps", 0)
    told = [f"{run.summary.name}  {run.summary.state}", f"step {step:,}/{n_steps:,}"]
    elapsed = last.get("elapsed_s", 0.0)
    if run.is_live and step and elapsed:
        told.append(f"{elapsed * (n_steps - step) / step:.0f} s left")
    lines = ["  ".join(told)]
    if last:
        lines.append(
            f"  rate {last.get('learning_rate', 0):.2g}  "
            f"norm {last.get('grad_norm') or float('nan'):.2f}  "
            f"{last.get('chars_per_s', 0):,.0f} letters/s"
        )
    return "\n".join(lines)
