"""The training loop: batches in, events out. It knows no files, prints nothing, has no globals.

Step n means after n updates; step 0 is the untrained model. What is drawn comes from generators
that belong to the training, and evaluation draws nothing, so how often one looks changes nothing
in what is learned.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from core.baselines import MLP
from core.batches import NO_TARGET, Batch, Ids, Rows, context, epochs, steps_per_epoch
from core.config import TrainConfig
from core.dropout import use_generator
from core.evaluation import batch_losses, evaluate
from core.initialisation import initialise
from core.model import MiniGPT
from core.optim import AdamW, gradient_norm, shorten_gradients
from core.randomness import generator
from core.sampling import Taste, make_sampler
from core.schedule import learning_rate_at
from data.errors import UserError

N_SAMPLES = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Stepped:
    """One update was made, or would have been had loss and gradient been finite."""

    step: int
    loss: float
    """Mean loss of the batch before the update, in nats per letter."""
    learning_rate: float
    grad_norm: float
    """Length of the gradient before any clipping."""
    n_chars: int
    """Letters predicted in this step."""
    chars_per_s: float
    """Letters predicted per second of late."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluated:
    """The exact losses after a step."""

    step: int
    train_loss: float
    """Over a fixed part of the training names as large as the validation set."""
    val_loss: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampled:
    """Names drawn after a step: the same draws each time, so that change is learning."""

    step: int
    temperature: float
    names: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SafePoint:
    """All of a step has been said: what is saved now resumes as if nothing had happened."""

    step: int
    is_evaluation: bool
    """Whether this step was evaluated."""


Event = Stepped | Evaluated | Sampled | SafePoint


class DivergedError(UserError):
    """The loss or the gradient is no longer a number; the weights are still the last good ones."""


class Training:
    """A training in progress: everything that a resumed run must find again."""

    def __init__(
        self,
        model: MiniGPT | MLP,
        config: TrainConfig,
        *,
        train: Sequence[Ids],
        val: Sequence[Ids],
        seed: int,
        device: torch.device | None = None,
    ) -> None:
        """Lay the names out and draw the first weights.

        Args:
            model: A MiniGPT or an MLP; its weights are drawn anew.
            config: How to train it.
            train: Token ids of the training names, without boundaries.
            val: Token ids of the validation names.
            seed: Decides the first weights, the order of batches, dropout and samples.
            device: Where to compute; the CPU if left out.
        """
        device = device or torch.device("cpu")
        self.model, self.config, self.seed = model, config, seed
        self.row_length = config.row_length or 1 + max(map(len, [*train, *val]))
        self.sampler = make_sampler(model, config.layout, self.row_length)
        self.device = device
        self.train_rows, self.val_rows = self.lay_out(train), self.lay_out(val)
        self.probe_rows = self.lay_out(train[: len(val)])
        self.n_steps = config.n_steps or max(1, round((config.n_epochs or 0) * self._epoch_steps))
        initialise(model, config.init, generator(seed, "weights"))
        model.to(device)
        self.dropout_generator = generator(seed, "dropout", device)
        use_generator(model, self.dropout_generator)
        self.optimizer = AdamW(
            list(model.parameters()), betas=config.betas, weight_decay=config.weight_decay
        )
        self.step = 0
        self.is_new = True
        self.elapsed_s = 0.0
        self.cpu_s = 0.0
        self._order_generator = generator(seed, "order")
        self._epoch_state = self._order_generator.get_state()

    def lay_out(self, names: Sequence[Ids]) -> Rows:
        """Lay names out as this training does, where it computes."""
        rows = context(
            names,
            self.config.layout,
            block_size=self.model.config.block_size,
            row_length=self.row_length,
        )
        rows.to(self.device)
        return rows

    def is_evaluated(self, step: int) -> bool:
        """Say whether losses are measured after this step."""
        return step % self.config.eval_interval == 0 or step == self.n_steps

    @property
    def _epoch_steps(self) -> int:
        return steps_per_epoch(self.train_rows, self.config.batch_size)

    def batches(self) -> Iterator[Batch]:
        """Yield the batches that are left, beginning inside an epoch after a resume."""
        # At the very end of an epoch all of it is done: the generator stands before it still.
        done = (self.step - 1) % self._epoch_steps + 1 if self.step else 0
        for state, rows in epochs(self.train_rows, self.config.batch_size, self._order_generator):
            self._epoch_state = state
            for chosen in islice(rows, done, None):
                yield self.train_rows.take(chosen.to(self.train_rows.ids.device))
            done = 0

    def state(self) -> tuple[dict[str, Tensor], dict[str, float]]:
        """Return all but the weights that a resumed run needs: tensors, and plain numbers."""
        tensors = {f"optimizer.{name}": value for name, value in self.optimizer.state().items()}
        tensors["generator.order"] = self._epoch_state
        tensors["generator.dropout"] = self.dropout_generator.get_state()
        numbers = {"step": self.step, "elapsed_s": self.elapsed_s, "cpu_s": self.cpu_s}
        return tensors, numbers

    def restore(self, tensors: dict[str, Tensor], numbers: dict[str, float]) -> None:
        """Go on from what `state` returned; the weights are loaded by the caller."""
        prefix = "optimizer."
        self.optimizer.load(
            {n.removeprefix(prefix): v for n, v in tensors.items() if n.startswith(prefix)}
        )
        self._epoch_state = tensors["generator.order"]
        self._order_generator.set_state(self._epoch_state)
        if self.dropout_generator.get_state().shape == tensors["generator.dropout"].shape:
            self.dropout_generator.set_state(tensors["generator.dropout"])
        else:  # another kind of device has another kind of generator
            self.dropout_generator.manual_seed(self.seed + int(numbers["step"]))
        self.step = int(numbers["step"])
        self.elapsed_s, self.cpu_s = numbers["elapsed_s"], numbers["cpu_s"]
        self.is_new = False


def train(
    training: Training, *, should_stop: Callable[[], bool] = lambda: False
) -> Iterator[Event]:
    """Train until the last step, or until asked to stop.

    Args:
        training: Changed in place; between two events it is at rest and may be read or saved.
        should_stop: Asked after each step.

    Yields:
        For each step `Stepped`, then, where one is due, `Evaluated` and `Sampled`, then
        `SafePoint`. A new training begins with the untrained model at step 0.

    Raises:
        DivergedError: If loss or gradient stop being finite; that step is not taken.
    """
    clock = _Clock(training)
    if training.is_new:
        training.is_new = False
        yield from _look(training)
        clock.update()
        yield SafePoint(step=0, is_evaluation=True)
    batches = training.batches()
    while training.step < training.n_steps and not should_stop():
        stepped = _step(training, next(batches), clock)
        yield stepped
        if not math.isfinite(stepped.loss + stepped.grad_norm):
            raise DivergedError(_diverged(stepped))
        is_evaluation = training.is_evaluated(training.step)
        if is_evaluation:
            yield from _look(training)
        clock.update()
        yield SafePoint(step=training.step, is_evaluation=is_evaluation)


def _step(training: Training, batch: Batch, clock: "_Clock") -> Stepped:
    """Compute the gradient and, if it is finite, update the weights."""
    started_s = time.perf_counter()
    config, params = training.config, training.optimizer.params
    rate = learning_rate_at(training.step, training.n_steps, config)
    training.model.train()
    for param in params:
        param.grad = None
    n_chars = (batch.targets != NO_TARGET).sum()
    loss = batch_losses(training.model, batch).sum() / n_chars
    loss.backward()
    norm = gradient_norm(params)
    step = training.step + 1
    if torch.isfinite(norm + loss):
        if config.clip_norm is not None:
            shorten_gradients(params, norm, config.clip_norm)
        training.optimizer.step(rate)
        training.step = step
    n = int(n_chars)
    return Stepped(
        step=step,
        loss=loss.item(),
        learning_rate=rate,
        grad_norm=norm.item(),
        n_chars=n,
        chars_per_s=clock.rate(n, time.perf_counter() - started_s),
    )


def _look(training: Training) -> Iterator[Event]:
    """Evaluate and sample without disturbing the training."""
    val = evaluate(training.model, training.val_rows)
    train_part = evaluate(training.model, training.probe_rows)
    if not math.isfinite(val.loss + train_part.loss):
        raise DivergedError(
            f"after step {training.step} the validation loss is {val.loss}. "
            "Try a lower learning rate (--set train.learning_rate=...)."
        )
    yield Evaluated(step=training.step, train_loss=train_part.loss, val_loss=val.loss)
    taste = Taste()
    drawn = training.sampler.draw(N_SAMPLES, taste, generator(training.seed, "samples"))
    yield Sampled(
        step=training.step,
        temperature=taste.temperature,
        names=tuple(sample.ids for sample in drawn),
    )


def _diverged(stepped: Stepped) -> str:
    return (
        f"step {stepped.step} gave a loss of {stepped.loss} with a gradient norm of "
        f"{stepped.grad_norm:.3g} at learning rate {stepped.learning_rate:.3g}, so it was not "
        f"taken. Try a lower learning rate (--set train.learning_rate=...) or clipping "
        "(--set train.clip_norm=1)."
    )


class _Clock:
    """Adds the time that passes to what earlier sittings took."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self._elapsed_from = time.perf_counter() - training.elapsed_s
        self._cpu_from = time.process_time() - training.cpu_s
        self._chars_per_s = 0.0

    def update(self) -> None:
        """Write the time so far into the training."""
        self._training.elapsed_s = time.perf_counter() - self._elapsed_from
        self._training.cpu_s = time.process_time() - self._cpu_from

    def rate(self, n_chars: int, seconds: float) -> float:
        """Return letters per second, smoothed over some ten steps."""
        now = n_chars / max(seconds, 1e-9)
        before = self._chars_per_s or now
        self._chars_per_s = 0.9 * before + 0.1 * now
        return self._chars_per_s
