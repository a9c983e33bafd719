"""The only bridge from training to files: work on a prepared run and write down what happens."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import torch

from core import baselines
from core.checkpoint import (
    Header,
    build,
    latest_resumable,
    load_state,
    load_weights,
    read_weights,
    save_checkpoint,
)
from core.checkpoint_files import checkpoint_steps, cut_after, forget_after, tidy, weights_path
from core.corpus import Corpus, reload_corpus
from core.devices import pick_device, use_threads
from core.evaluation import counting_loss, evaluate
from core.files import Json, read_object
from core.ledger import n_params
from core.locks import holding
from core.runs import Metric, RunWriter, read_characters, read_config, read_run, stop_requested
from core.settings import plan_from_json
from core.training import DivergedError, Evaluated, Event, Sampled, Stepped, Training, train
from data.errors import DataError, UserError

SAVE_EVERY_S = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Started:
    """The trainer has taken the run up."""

    run: Path
    step: int
    """0 for a new run; the checkpoint's step after a resume."""
    n_steps: int
    n_params: int
    notes: tuple[str, ...]
    """What a person should know, for example that bits will differ."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """The trainer has left the run."""

    state: str
    """done or stopped."""
    status: Json
    """What status.json says now."""


class RunError(UserError):
    """A run can't be taken up, or ended badly."""


def work(
    run: Path,
    *,
    device: str | None = None,
    n_threads: int | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Started | Event | Finished]:
    """Take a prepared or interrupted run up and train it to its end.

    Args:
        run: From `create_run`; queued, stopped, failed or lost.
        device: Other than the run's own.
        n_threads: Other than the run's own.
        should_stop: Asked after each step, besides the run's stop file.

    Yields:
        `Started`, every event of the training once it is written down, then `Finished`.

    Raises:
        LockedError: If another trainer is at work on it.
        DivergedError: If the loss is no longer a number.
        DataError: If the run's files or its names are damaged or changed.
    """
    with holding(run / "run.lock", f"{run.name} is being trained by another process right now."):
        if read_object(run / "status.json").get("state") == "done":
            raise RunError(f"{run.name} is done; there is nothing left to train.")
        desk = _Desk(run, device, n_threads)
        try:
            yield desk.started()
            stop = lambda: should_stop() or stop_requested(run)  # noqa: E731
            for event in train(desk.training, should_stop=stop):
                desk.write(event)
                yield event
            yield desk.finish()
        except DivergedError as error:
            message = f"{error} The last good checkpoint is that of step {desk.saved_step}."
            desk.fail(message)
            raise DivergedError(message) from None
        except OSError as error:
            desk.fail(f"{type(error).__name__}: {error}")
            raise RunError(_unwritable(run, error)) from None
        except Exception as error:
            desk.fail(f"{type(error).__name__}: {error}")
            raise
        finally:
            desk.writer.close()


class _Desk:
    """One sitting of a trainer at a run: the training, and what is written down about it."""

    def __init__(self, run: Path, device: str | None, n_threads: int | None) -> None:
        self.run = run
        config = read_config(run)
        self.plan = plan_from_json(config)
        characters = read_characters(run)
        self.corpus = reload_corpus(self.plan.data, config["data"]["sha256"], characters)
        self.n_threads = config["threads"] if n_threads is None else n_threads
        use_threads(self.n_threads)
        self.device = pick_device(device or config["device"])
        self.notes = _differences(config, self.n_threads, self.device)
        self.training = self._training()
        self.header = Header(
            model=self.plan.model,
            layout=self.plan.train.layout,
            row_length=self.training.row_length,
            vocabulary=self.corpus.vocabulary,
        )
        self.facts: Json = {
            "n_steps": self.training.n_steps,
            "n_params": n_params(self.plan.model),
            "device": str(self.device),
            "threads": self.n_threads,
            "bigram": bigram_losses(self.corpus),
            "started_at": datetime.now(UTC).isoformat(),
        }
        self.saved_step = self._resume()
        self.writer = RunWriter(run)
        self._saved_s = time.monotonic()
        self._say("running")

    def _training(self) -> Training:
        return Training(
            build(self.plan.model),
            self.plan.train,
            train=self.corpus.ids("train"),
            val=self.corpus.ids("val"),
            seed=self.plan.seed,
            device=self.device,
        )

    def _resume(self) -> int:
        """Go back to the newest whole checkpoint, and forget what was written after it."""
        step = latest_resumable(self.run)
        newest = max(checkpoint_steps(self.run), default=None)
        if newest != step:
            self.notes += (
                f"the checkpoint of step {newest} is damaged: back to step {step or 0}.",
            )
        cut_after(self.run, -1 if step is None else step)
        forget_after(self.run, -1 if step is None else step)
        if step is None:
            return 0
        path = weights_path(self.run, step)
        header, tensors = read_weights(path)
        if header.model != self.plan.model:
            raise DataError(
                f"{self.run.name}: config.json describes another model than {path.name}. "
                "Put its old content back, or train anew."
            )
        load_weights(self.training.model, tensors, path)
        self.training.restore(*load_state(self.run, step))
        status = read_run(self.run).status
        self.facts |= {key: status[key] for key in ("train_loss", "val_loss") if key in status}
        return step

    def started(self) -> Started:
        """Say what was taken up."""
        return Started(
            run=self.run,
            step=self.training.step,
            n_steps=self.training.n_steps,
            n_params=self.facts["n_params"],
            notes=self.notes,
        )

    def write(self, event: Event) -> None:
        """Write one event down; at a safe point, save where it is time."""
        if isinstance(event, Stepped):
            self._metric(event, "batch", event.loss)
        elif isinstance(event, Evaluated):
            self.facts |= {"train_loss": event.train_loss, "val_loss": event.val_loss}
            self._metric(event, "train", event.train_loss)
            self._metric(event, "val", event.val_loss)
        elif isinstance(event, Sampled):
            names = [self.corpus.vocabulary.decode(ids) for ids in event.names]
            self.writer.samples(event.step, event.temperature, names)
        elif event.is_evaluation or time.monotonic() - self._saved_s >= SAVE_EVERY_S:
            self.save()

    def _metric(self, event: Stepped | Evaluated, split: str, loss: float) -> None:
        metric: Metric = {"step": event.step, "split": split, "loss": loss}
        if isinstance(event, Stepped):
            metric["learning_rate"] = event.learning_rate
            metric["grad_norm"] = event.grad_norm
            metric["chars_per_s"] = round(event.chars_per_s)
        metric["elapsed_s"] = round(self.training.elapsed_s, 3)
        self.writer.metric(metric)

    def save(self) -> None:
        """Write a checkpoint of the step the training rests at.

        Raises:
            DivergedError: If a weight is no longer a number; then nothing is saved.
        """
        if not all(torch.isfinite(p).all() for p in self.training.model.parameters()):
            raise DivergedError(f"after step {self.training.step} a weight is no longer a number.")
        self.writer.flush()
        header = replace(self.header, step=self.training.step)
        save_checkpoint(self.run, self.training.model, header, *self.training.state())
        tidy(self.run, self.training.is_evaluated)
        self.saved_step, self._saved_s = self.training.step, time.monotonic()
        self._say("running")

    def finish(self) -> Finished:
        """Save the last step, measure the test names if all is done, and say so."""
        if self.saved_step != self.training.step or self.training.step == 0:
            self.save()
        state = "done" if self.training.step == self.training.n_steps else "stopped"
        if state == "done":
            rows = self.training.lay_out(self.corpus.ids("test"))
            self.facts["test_loss"] = evaluate(self.training.model, rows).loss
        return Finished(state=state, status=self._say(state))

    def fail(self, message: str) -> None:
        """Say why the run ended, if there is still a disk to say it on."""
        with suppress(OSError):
            self._say("failed", error=message)

    def _say(self, state: str, **more: str) -> Json:
        status: Json = {
            "step": self.saved_step,
            "elapsed_s": round(self.training.elapsed_s, 3),
            "cpu_s": round(self.training.cpu_s, 3),
            **{k: v for k, v in self.facts.items() if not _is_lost_number(v)},
            **more,
        }
        self.writer.status(state, **status)
        return {"state": state, **status}


def bigram_losses(corpus: Corpus) -> dict[str, float]:
    """Return the counting bigram's loss on val and test, the line a model has to get under."""
    model = baselines.bigram(corpus.ids("train"), len(corpus.vocabulary))
    return {part: counting_loss(model, corpus.ids(part)) for part in ("val", "test")}


def _differences(config: Json, n_threads: int, device: torch.device) -> tuple[str, ...]:
    notes: list[str] = []
    if n_threads != config["threads"]:
        notes.append(f"{n_threads} threads instead of {config['threads']}: bits will differ.")
    if config["device"] not in ("auto", device.type):
        notes.append(f"{device.type} instead of {config['device']}: bits will differ.")
    return tuple(notes)


def _unwritable(run: Path, error: OSError) -> str:
    if not run.is_dir():
        return f"{run} was removed while it was trained, so the training ended."
    return (
        f"{run.name} can't be written: {error.strerror or error}. What was saved before is whole. "
        f"Make room, then go on with: qkv resume {run.name}"
    )


def _is_lost_number(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
