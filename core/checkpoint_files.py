"""Which checkpoints a run has, which stay, and what goes when it goes back. No torch here."""

import json
import math
from collections.abc import Callable
from pathlib import Path

from core.files import replace_file

KEPT_STATES = 2


def weights_path(run: Path, step: int) -> Path:
    """Return where the weights of a step are."""
    return run / "checkpoints" / f"step-{step:06d}.safetensors"


def state_path(run: Path, step: int) -> Path:
    """Return where the training state of a step is."""
    return run / "checkpoints" / f"step-{step:06d}.state.safetensors"


def checkpoint_steps(run: Path) -> list[int]:
    """List the steps whose weights are on disk, in order."""
    files = (run / "checkpoints").glob("step-*.safetensors")
    texts = [file.name.removeprefix("step-").removesuffix(".safetensors") for file in files]
    return sorted(int(text) for text in texts if text.isdecimal())


def tidy(run: Path, is_evaluated: Callable[[int], bool]) -> None:
    """Keep the weights of evaluated steps, and of the last two all that a resume needs."""
    for step in checkpoint_steps(run)[:-KEPT_STATES]:
        state_path(run, step).unlink(missing_ok=True)
        if not is_evaluated(step):
            weights_path(run, step).unlink(missing_ok=True)


def forget_after(run: Path, step: int) -> None:
    """Remove what a run that went on from this step would write again, and half-written files."""
    for path in (run / "checkpoints").glob("*step-*"):
        number = path.name.removeprefix("step-").partition(".")[0]
        if path.name.startswith(".") or (number.isdecimal() and int(number) > step):
            path.unlink()


def cut_after(run: Path, step: int) -> None:
    """Drop every line of metrics and samples beyond a step, and a torn last line."""
    for name in ("metrics.jsonl", "samples.jsonl"):
        kept = []
        for line in (run / name).read_bytes().splitlines(keepends=True):
            if not line.endswith(b"\n") or _step_of(line) > step:
                break
            kept.append(line)
        replace_file(run / name, b"".join(kept))


def _step_of(line: bytes) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return math.inf  # damaged: nothing from here on is kept
