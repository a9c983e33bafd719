"""The sentences and tables of the Train screen, made from what was read of a run. No torch here."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.render import cell_width, visible
from tui.screens.choose_run import short_name
from tui.watching import Watched

NAME_WIDTH, STEP_GAP = 12, 2
GOING_ON = ("stopped", "failed", "lost", "queued")
Samples = list[tuple[int, list[str]]]


def title_line(run: Watched, stopping_s: float | None, *, is_ours: bool) -> str:
    """Say which run this is, how far it is, and how long still."""
    state, status = run.summary.state, run.summary.status
    step, n_steps = run.last.get("step", run.summary.step), status.get("n_steps", 0)
    if stopping_s is not None and run.is_live:
        state = f"stopping, {stopping_s:.0f} s; s again kills"
    elif not run.is_live and is_ours:
        state = "starting: loading torch"
    told = [f"Train · {short_name(run.summary.path)}", state]
    if n_steps:
        told.append(f"{step:,}/{n_steps:,}  {step / n_steps:.0%}")
    elapsed = run.last.get("elapsed_s") or status.get("elapsed_s", 0.0)
    if elapsed:
        left = f", {_seconds(elapsed * (n_steps - step) / step)} to go" if step else ""
        told.append(_seconds(elapsed) + (left if run.is_live else ""))
    return "   ".join(told)


def _seconds(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def facts(run: Watched) -> list[tuple[str, str]]:
    """List what the run is made of and how it does just now."""
    config, status, last = run.summary.config, run.summary.status, run.last
    train: dict[str, Any] = config.get("train", {})
    n_threads = status.get("threads", config.get("threads", 1))
    device = f"{status.get('device', config.get('device', '?'))}, {n_threads} thread"
    found = [
        ("preset", str(config.get("preset", "?"))),
        ("params", f"{status['n_params']:,}" if "n_params" in status else "–"),
        ("layout", str(train.get("layout", "?"))),
        ("device", device + ("s" if n_threads != 1 else "")),
    ]
    if last:
        norm = last.get("grad_norm")
        found += [
            ("rate", f"{last.get('learning_rate', 0):.4f}  {train.get('schedule', '')}"),
            ("letters", f"{last.get('chars_per_s', 0):,.0f} / s"),
            ("norm", "not a number" if norm is None else f"{norm:.2f}"),
        ]
    best = best_val(run)
    if best:
        found.append(("best", f"{best[0]:.3f} at {best[1]:,}"))
    if "test_loss" in status:
        found.append(("test", f"{status['test_loss']:.3f}"))
    return found


def best_val(run: Watched) -> tuple[float, int] | None:
    """Return the lowest validation loss and its step."""
    steps, losses = run.curves["val"]
    both = [(y, int(x)) for x, y in zip(steps, losses, strict=True) if math.isfinite(y)]
    return min(both, default=None)


def because_lines(run: Watched, others: Sequence[Watched], words: str) -> str:
    """Say what the latest loss means, and under it what the person should know.

    Args:
        run: The run that is shown.
        others: Runs laid over it.
        words: The last words of its trainer, if it died.
    """
    lines = [_loss_line(run)]
    error = words or run.summary.status.get("error", "")
    if error and run.summary.state in ("failed", "lost", "queued"):
        lines.append(str(error).splitlines()[-1])
    elif run.summary.state == "lost":
        lines.append("its trainer is gone without a word; r resumes from the last checkpoint")
    elif run.summary.state == "damaged":
        lines.append("its config.json or status.json can't be read")
    elif others:
        lines.append(_comparison(run, others))
    elif run.summary.state == "stopped":
        lines.append("stopped and saved; r goes on as if nothing had happened")
    else:
        lines.append(_gap_line(run))
    return "\n".join(lines)


def _loss_line(run: Watched) -> str:
    losses = run.curves["val"][1]
    bigram = run.summary.status.get("bigram", {}).get("val")
    if not losses:
        return "no loss measured yet"
    loss = losses[-1]
    if not math.isfinite(loss):
        return f"the validation loss is {loss}: the training has come apart; try a lower rate"
    perplexity = f"{math.exp(loss):.1f}" if loss < 100 else "beyond telling"
    told = f"{loss:.3f} nats a letter = {loss / math.log(2):.3f} bits = perplexity {perplexity}"
    return told + (f"; bigram {bigram:.3f}" if bigram is not None else "")


def _gap_line(run: Watched) -> str:
    train, val = run.curves["train"][1], run.curves["val"][1]
    if not train or not val:
        return ""
    bigram = run.summary.status.get("bigram", {}).get("val", math.inf)
    if val[-1] > bigram:
        return "so far counting pairs of letters does better"
    return (
        f"{bigram - val[-1]:.3f} under the bigram; "
        f"{val[-1] - train[-1]:+.3f} against names it has trained on"
    )


def _comparison(run: Watched, others: Sequence[Watched]) -> str:
    ends: list[str] = []
    for one in (run, *others):
        best = best_val(one)
        ends.append(f"{short_name(one.summary.path)} {best[0]:.3f}" if best else "")
    return "best: " + ", ".join(end for end in ends if end)


def read_samples(run: Path) -> Samples:
    """Read the names that were drawn so far; a line that is still being written waits."""
    try:
        text = (run / "samples.jsonl").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    found: Samples = []
    for line in text.splitlines():
        try:
            content = json.loads(line)
            found.append((int(content["step"]), [str(name) for name in content["names"]]))
        except (ValueError, KeyError, TypeError):
            continue
    return found


def samples_table(samples: Samples, width: int, height: int, *, ascii_only: bool) -> str:
    """Set the same draws at the first and the latest steps side by side.

    Args:
        samples: From `read_samples`.
        width: Cells to fill at most.
        height: Lines to fill at most, the heading among them.
        ascii_only: Write other letters as question marks.
    """
    n_columns = max(1, (width - 10) // (NAME_WIDTH + STEP_GAP))
    if not samples or height < 2:
        return "samples: none yet"
    n_gaps = max(1, min(n_columns, len(samples)) - 1)
    chosen = {round(i * (len(samples) - 1) / n_gaps) for i in range(n_gaps + 1)}
    shown = [samples[i] for i in sorted(chosen)][-n_columns:]
    rows = [["same draws", *(f"step {step:,}" for step, _ in shown)]]
    for draw in range(min(height - 1, *(len(names) for _, names in shown))):
        names = [visible(names[draw], ascii_only=ascii_only) or "(empty)" for _, names in shown]
        rows.append([f"draw {draw + 1}", *names])
    return "\n".join("".join(_cell(cell) for cell in row).rstrip()[:width] for row in rows)


def _cell(text: str) -> str:
    while cell_width(text) > NAME_WIDTH:
        text = text[:-1]
    return text + " " * (NAME_WIDTH + STEP_GAP - cell_width(text))
