"""Weights on disk, and what is needed to go on training from them.

A checkpoint is two files: step-000500.state.safetensors (optimizer, generators, place in the
data), written first, and step-000500.safetensors (the weights). It counts only if both load and
name the same step. Each is written beside its place, flushed and moved there.
"""

import errno
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from core.baselines import MLP
from core.checkpoint_files import checkpoint_steps, state_path, weights_path
from core.config import MODEL_CONFIGS, AnyModelConfig, ConfigError, MLPConfig
from core.files import replacing
from core.model import MiniGPT
from core.sampling import Sampler, make_sampler
from core.settings import kind_of
from data.errors import DataError
from data.vocabulary import Vocabulary

FORMAT = 1


def build(config: AnyModelConfig) -> MiniGPT | MLP:
    """Make the model that a configuration describes; its weights are yet to be drawn."""
    return MLP(config) if isinstance(config, MLPConfig) else MiniGPT(config)


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """What a weights file says of itself."""

    model: AnyModelConfig
    layout: str
    row_length: int
    vocabulary: Vocabulary
    step: int = 0

    def to_metadata(self) -> dict[str, str]:
        """Return it as text by name, as safetensors wants it."""
        fields = {
            "format": FORMAT,
            "kind": kind_of(self.model),
            "model": asdict(self.model),
            "layout": self.layout,
            "row_length": self.row_length,
            "vocabulary": list(self.vocabulary.characters),
            "step": self.step,
        }
        return {name: json.dumps(value) for name, value in fields.items()}

    @classmethod
    def from_metadata(cls, path: Path, metadata: Mapping[str, str]) -> "Header":
        """Read it back.

        Raises:
            DataError: If something is missing or of a newer format.
        """
        try:
            found: dict[str, Any] = {name: json.loads(text) for name, text in metadata.items()}
            if found["format"] > FORMAT:
                raise DataError(
                    f"{path} was written by a newer qkv (format {found['format']}; this one "
                    f"reads up to {FORMAT}). Update qkv."
                )
            return cls(
                model=MODEL_CONFIGS[found["kind"]](**found["model"]),
                layout=found["layout"],
                row_length=found["row_length"],
                vocabulary=Vocabulary(tuple(found["vocabulary"])),
                step=found["step"],
            )
        except (KeyError, TypeError, json.JSONDecodeError, ConfigError) as error:
            raise DataError(f"{path} is no weights file of ours: {error!r}.") from None


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainedModel:
    """A model read from a checkpoint, with what it needs to be used."""

    model: MiniGPT | MLP
    header: Header
    damaged: tuple[int, ...] = ()
    """Newer steps whose weights could not be read, so that these were taken."""

    def sampler(self) -> Sampler:
        """Return it ready to draw names."""
        return make_sampler(self.model, self.header.layout, self.header.row_length)


def save_checkpoint(
    run: Path,
    model: nn.Module,
    header: Header,
    tensors: dict[str, Tensor],
    numbers: dict[str, float],
) -> None:
    """Write state and weights of one step.

    Raises:
        OSError: If the disk is full or gone; the checkpoints before it stay whole.
    """
    state = {name: value.cpu().contiguous() for name, value in tensors.items()}
    _write(state_path(run, header.step), state, {"numbers": json.dumps(numbers)})
    # named_parameters lists a matrix that two layers share once.
    weights = {name: p.detach().cpu().contiguous() for name, p in model.named_parameters()}
    _write(weights_path(run, header.step), weights, header.to_metadata())


def load_state(run: Path, step: int) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Read tensors and numbers of a training state.

    Raises:
        DataError: If the file is damaged or missing.
    """
    tensors, metadata = _read(state_path(run, step))
    try:
        return tensors, json.loads(metadata["numbers"])
    except (KeyError, json.JSONDecodeError):
        raise DataError(f"{state_path(run, step)} is no training state of ours.") from None


def latest_resumable(run: Path) -> int | None:
    """Find the newest step whose state and weights both load and agree, if there is one."""
    for step in reversed(checkpoint_steps(run)):
        try:
            header, _ = read_weights(weights_path(run, step))
            _, numbers = load_state(run, step)
        except DataError:
            continue
        if header.step == numbers.get("step") == step:
            return step
    return None


def load_model(run: Path, device: torch.device, step: int | None = None) -> TrainedModel:
    """Build a run's model with the weights of a step, or of the newest one that loads.

    Raises:
        DataError: If there is none, or it is damaged.
    """
    steps = checkpoint_steps(run)
    if not steps:
        raise DataError(
            f"{run.name} has no weights. If it is being trained, wait for its first checkpoint; "
            "otherwise train anew."
        )
    if step is not None:
        return open_weights(weights_path(run, step), device)
    damaged: tuple[int, ...] = ()  # cut short by a full disk or a crash: older ones are whole
    for newest in reversed(steps[1:]):
        try:
            return replace(open_weights(weights_path(run, newest), device), damaged=damaged)
        except DataError:
            damaged += (newest,)
    return replace(open_weights(weights_path(run, steps[0]), device), damaged=damaged)


def open_weights(path: Path, device: torch.device) -> TrainedModel:
    """Build the model that a weights file describes and load it.

    Raises:
        DataError: If the file is damaged, missing or doesn't fit its own description.
    """
    header, tensors = read_weights(path)
    model = build(header.model)
    load_weights(model, tensors, path)
    return TrainedModel(model=model.to(device).eval(), header=header)


@torch.no_grad()
def load_weights(model: nn.Module, tensors: Mapping[str, Tensor], path: Path) -> None:
    """Copy tensors into a model.

    Raises:
        DataError: If names or shapes don't fit.
    """
    wanted = dict(model.named_parameters())
    if wanted.keys() != tensors.keys():
        odd = sorted(wanted.keys() ^ tensors.keys())[0]
        raise DataError(f"{path} does not fit the model it describes: {odd} is on one side only.")
    for name, parameter in wanted.items():
        if parameter.shape != tensors[name].shape:
            raise DataError(
                f"{path} has {name} of shape {tuple(tensors[name].shape)}, "
                f"but its model needs {tuple(parameter.shape)}."
            )
        if not torch.isfinite(tensors[name]).all():
            raise DataError(f"{path} is damaged: {name} holds what is no number.")
        parameter.copy_(tensors[name])


def read_weights(path: Path) -> tuple[Header, dict[str, Tensor]]:
    """Read a weights file.

    Raises:
        DataError: If it is damaged or missing.
    """
    tensors, metadata = _read(path)
    return Header.from_metadata(path, metadata), tensors


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, file.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path} is damaged or missing: {error}.") from None


def _write(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    with replacing(path) as draft:
        try:
            save_file(tensors, draft, metadata)
        except SafetensorError as error:  # safetensors' own word for a full or missing disk
            raise OSError(errno.EIO, str(error), str(path)) from None
