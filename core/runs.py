"""A training run on disk: all that a trainer and its viewers share. No torch here.

runs/20261130-141503-fast-3f9a/
    config.json                  written once, before the first step
    vocabulary.json              the characters, in id order
    metrics.jsonl                one object a line, appended
    samples.jsonl                likewise: names the model invented, with their step
    status.json                  replaced whole: queued, running, done, stopped or failed
    checkpoints/                 step-000500.safetensors and step-000500.state.safetensors
    run.lock                     held by the one trainer, gone with it
    stop                         an empty file; anyone may create it, the trainer obeys it
"""

import json
import math
import os
import re
import secrets
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict, cast

from core.files import Json, read_json, read_object, write_json
from core.locks import is_held
from data.errors import DataError, UsageError

FORMAT = 1


class Metric(TypedDict, total=False):
    """One line of metrics.jsonl."""

    step: int
    """Optimizer steps done so far."""
    split: str
    """batch (the step's own rows), train (a fixed part, exact) or val (whole, exact)."""
    loss: float | None
    """Mean cross-entropy in nats per letter; null where it wasn't a number."""
    nonfinite: str
    """What the loss, or else the gradient's norm, was instead: nan, inf or -inf."""
    learning_rate: float
    grad_norm: float | None
    chars_per_s: float
    elapsed_s: float
    """Seconds of training so far, continued by a resume."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSummary:
    """How a run stands."""

    path: Path
    state: str
    """queued, running, done, stopped, failed, lost (gone without a word) or damaged."""
    config: Json
    status: Json

    @property
    def name(self) -> str:
        """The directory's name."""
        return self.path.name

    @property
    def step(self) -> int:
        """Updates done, as last written down."""
        return self.status.get("step", 0)

    @property
    def val_loss(self) -> float | None:
        """The latest exact validation loss."""
        return self.status.get("val_loss")


def create_run(root: Path, slug: str, config: Json, characters: tuple[str, ...]) -> Path:
    """Prepare a run for whoever will train it: whoever wants a run makes its directory.

    Args:
        root: Where all runs are.
        slug: A word for the run's name: small letters, digits, hyphens.
        config: What decides the run; written once.
        characters: The vocabulary, in id order.

    Raises:
        UsageError: If the slug can't be part of a name.
    """
    check_slug(slug)
    now = datetime.now(UTC)
    root.mkdir(parents=True, exist_ok=True)
    run = _new_directory(root, f"{now.astimezone():%Y%m%d-%H%M%S}-{slug}")
    (run / "checkpoints").mkdir()
    write_json(run / "vocabulary.json", list(characters))
    (run / "metrics.jsonl").touch()
    (run / "samples.jsonl").touch()
    write_json(run / "status.json", {"state": "queued"})
    write_json(run / "config.json", {"format": FORMAT, "created_at": now.isoformat(), **config})
    return run


def check_slug(slug: str) -> None:
    """Refuse a word that can't be part of a run's name.

    Raises:
        UsageError: If it has other than small letters, digits and single hyphens.
    """
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", slug):
        raise UsageError(
            f"{slug!r} can't be a run's name; use small letters, digits and single hyphens, "
            "for example wide-2."
        )


def _new_directory(root: Path, beginning: str) -> Path:
    while True:
        run = root / f"{beginning}-{secrets.token_hex(2)}"
        try:
            run.mkdir()
        except FileExistsError:
            continue  # a run is never written over
        return run


def read_run(run: Path) -> RunSummary:
    """Say how a run stands; what can't be read makes it damaged, not an error."""
    try:
        config, status = read_object(run / "config.json"), read_object(run / "status.json")
    except DataError:
        return RunSummary(path=run, state="damaged", config={}, status={})
    state = str(status.get("state", "damaged"))
    if not isinstance(status.get("step", 0), int):
        return RunSummary(path=run, state="damaged", config=config, status={})
    if is_alive(run):
        state = "running"
    elif state == "running":
        state = "lost"
    return RunSummary(path=run, state=state, config=config, status=status)


def is_alive(run: Path) -> bool:
    """Say whether a trainer is at work on the run."""
    return is_held(run / "run.lock")


def list_runs(root: Path) -> list[RunSummary]:
    """List all runs, the one created last at the end."""
    runs = [read_run(path) for path in root.glob("*") if _may_be_run(path)]
    return sorted(runs, key=lambda run: (str(run.config.get("created_at", "")), run.name))


def _may_be_run(path: Path) -> bool:
    try:
        return (path / "config.json").is_file()
    except OSError:
        return True  # it can't even be looked into: shown as damaged


def find_run(root: Path, text: str) -> Path:
    """Find the run that a person means.

    Args:
        root: Where all runs are.
        text: A name, any unique part of one, a path, or "last".

    Raises:
        UsageError: If no run fits, or several do.
    """
    if os.sep in text and (Path(text) / "config.json").is_file():
        return Path(text).resolve()
    runs = list_runs(root)
    if not runs:
        raise UsageError(f"no run fits {text!r}: there is none yet. `qkv train` makes one.")
    if text == "last":
        return runs[-1].path
    fits = [run.path for run in runs if run.name == text]
    fits = fits or [run.path for run in runs if text and text in run.name]
    if len(fits) == 1:
        return fits[0]
    names = ", ".join(path.name for path in fits[-5:] or [run.path for run in runs[-5:]])
    if fits:
        raise UsageError(f"{text!r} fits {len(fits)} runs: {names}. Give a longer part.")
    raise UsageError(
        f"no run fits {text!r}. The newest are {names}; `qkv runs` lists all, `last` is the newest."
    )


def request_stop(run: Path) -> None:
    """Ask the trainer to end after the step it is in."""
    (run / "stop").touch()


def stop_requested(run: Path) -> bool:
    """Return whether someone asked the trainer to end."""
    return (run / "stop").exists()


class RunWriter:
    """The trainer's side: the only code that writes into a prepared run."""

    def __init__(self, run: Path) -> None:
        self.run = run
        (run / "stop").unlink(missing_ok=True)
        self._metrics = (run / "metrics.jsonl").open("a", encoding="utf-8", buffering=1)
        self._samples = (run / "samples.jsonl").open("a", encoding="utf-8", buffering=1)

    def metric(self, metric: Metric) -> None:
        """Append one line and hand it to the viewers at once."""
        self._metrics.write(json.dumps(_strict(metric), allow_nan=False) + "\n")

    def samples(self, step: int, temperature: float, names: list[str]) -> None:
        """Append the names that were drawn after a step."""
        line = {"step": step, "temperature": temperature, "names": names}
        self._samples.write(json.dumps(line, ensure_ascii=False) + "\n")

    def status(self, state: str, **details: Any) -> None:  # noqa: ANN401 (any JSON value)
        """Say how the run stands."""
        who = {"pid": os.getpid(), "host": socket.gethostname()}
        write_json(self.run / "status.json", {"state": state, **who, **details})

    def flush(self) -> None:
        """Make sure that what was appended is on the disk, before a checkpoint relies on it."""
        for file in (self._metrics, self._samples):
            file.flush()
            os.fsync(file.fileno())

    def close(self) -> None:
        """Close the files."""
        self._metrics.close()
        self._samples.close()


class MetricsTail:
    """A viewer's side: reads what was appended since it last looked."""

    def __init__(self, run: Path) -> None:
        self._path = run / "metrics.jsonl"
        self._offset = 0
        self._inode: int | None = None

    def read_new(self) -> Iterator[Metric]:
        """Yield the complete new lines; a line still being written waits for the next call.

        When a resumed trainer has cut the file, reading begins again from its start.
        """
        with self._path.open("rb") as file:
            found = os.fstat(file.fileno())
            if found.st_ino != self._inode or found.st_size < self._offset:
                self._inode, self._offset = found.st_ino, 0
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                try:
                    yield json.loads(line)
                except ValueError:
                    continue  # damaged: the lines after it still tell


def read_config(run: Path) -> Json:
    """Read a run's config.json and see that what every reader needs is there.

    Raises:
        DataError: If it is missing or damaged.
    """
    path = run / "config.json"
    config = read_object(path)
    data = config.get("data")
    needed = {
        "threads": isinstance(config.get("threads"), int),
        "device": isinstance(config.get("device"), str),
        "data.sha256": isinstance(data, dict) and isinstance(cast("Json", data).get("sha256"), str),
    }
    for name, is_there in needed.items():
        if not is_there:
            raise DataError(f"{path} is damaged: {name} is missing. Train anew.")
    return config


def read_characters(run: Path) -> list[str]:
    """Read a run's vocabulary.json: its characters in id order.

    Raises:
        DataError: If it is missing or damaged.
    """
    path = run / "vocabulary.json"
    found = read_json(path)
    if not isinstance(found, list) or not all(isinstance(c, str) for c in cast("list[Any]", found)):
        raise DataError(f"{path} is damaged: it is no list of characters. Train anew.")
    return cast("list[str]", found)


def _strict(metric: Metric) -> Json:
    """Replace what strict JSON has no word for by null, and say what the loss was."""
    lost = {k: v for k, v in metric.items() if isinstance(v, float) and not math.isfinite(v)}
    line: Json = {key: None if key in lost else value for key, value in metric.items()}
    for key in ("loss", "grad_norm"):
        if key in lost:
            line.setdefault("nonfinite", str(lost[key]))
    return line
