"""From what a person wrote to a checked plan: presets, files, `key=value`. No torch here."""

import json
import tomllib
import types
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from core.config import (
    MODEL_CONFIGS,
    AnyModelConfig,
    ConfigError,
    TrainConfig,
    check_choice,
    check_seed,
)
from core.presets import DEFAULT_PRESET, PRESETS, DataConfig
from data.errors import DataError

AnyConfig = TypeVar("AnyConfig", bound="AnyModelConfig | TrainConfig | DataConfig")


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Everything that decides a run but the names themselves."""

    preset: str = DEFAULT_PRESET
    model: AnyModelConfig = field(default_factory=lambda: PRESETS[DEFAULT_PRESET].model)
    train: TrainConfig = field(default_factory=TrainConfig)
    data: DataConfig = field(default_factory=DataConfig)
    seed: int = 1

    def __post_init__(self) -> None:
        check_seed(self.seed)

    @property
    def kind(self) -> str:
        """What is trained: gpt or mlp."""
        return kind_of(self.model)


def kind_of(model: AnyModelConfig) -> str:
    """Return the name of a model's family, as a run's config.json has it."""
    return next(kind for kind, config in MODEL_CONFIGS.items() if isinstance(model, config))


def make_plan(
    *,
    preset: str | None = None,
    config_file: Path | None = None,
    settings: Sequence[str] = (),
    data_path: Path | None = None,
    skip_bad_lines: bool = False,
    seed: int | None = None,
) -> Plan:
    """Put a plan together; what comes later wins: preset, file, settings, the other arguments.

    Args:
        preset: One of PRESETS; the file's, or `fast`, if left out.
        config_file: TOML with [model], [train], [data], or a run's config.json.
        settings: "model.d_model=128" and the like.
        data_path: A file with one name a line.
        skip_bad_lines: Whether to go on without lines that can't be used.
        seed: Decides all that is drawn.

    Raises:
        ConfigError: If a setting is unknown or can't be.
        DataError: If the file can't be read as one of the two kinds.
    """
    from_file = read_config_file(config_file) if config_file else {}
    plan = _of_preset(preset or DEFAULT_PRESET)
    try:
        if preset is None and "preset" in from_file:
            plan = _of_preset(str(from_file["preset"]))
        elif config_file and config_file.suffix == ".json" and preset != from_file.get("preset"):
            raise ConfigError("a run's config.json says all; leave --preset out.")
        plan = _apply(plan, {part: from_file.get(part, {}) for part in ("model", "train", "data")})
        if "seed" in from_file:
            plan = replace(plan, seed=_value("seed", str(from_file["seed"]), int))
    except ConfigError as error:
        raise DataError(f"{config_file}: {error}") from None
    plan = _apply(plan, _parse(settings, plan))
    path = data_path or (Path(plan.data.path) if plan.data.path else None)
    data = replace(
        plan.data,
        path=str(path.expanduser().absolute()) if path else None,
        skip_bad_lines=skip_bad_lines or plan.data.skip_bad_lines,
    )
    return replace(plan, data=data, seed=plan.seed if seed is None else seed)


def _of_preset(name: str) -> Plan:
    check_choice("preset", name, tuple(PRESETS))
    return Plan(preset=name, model=PRESETS[name].model, train=PRESETS[name].train)


def plan_from_json(config: Mapping[str, Any]) -> Plan:
    """Read back the plan that a run's config.json holds.

    Raises:
        DataError: If a field is missing, unknown or impossible.
    """
    try:
        data = {key: config["data"][key] for key in _types(DataConfig)}
        return Plan(
            preset=config["preset"],
            model=_replaced("model", MODEL_CONFIGS[config["kind"]](), config["model"]),
            train=_replaced("train", TrainConfig(), config["train"]),
            data=_replaced("data", DataConfig(), data),
            seed=_value("seed", str(config["seed"]), int),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DataError(f"this config.json is not one of ours: {error}.") from None


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """Return the plan as config.json holds it."""
    return {
        "kind": plan.kind,
        "preset": plan.preset,
        "model": asdict(plan.model),
        "train": asdict(plan.train),
        "data": asdict(plan.data),
        "seed": plan.seed,
    }


def read_config_file(path: Path) -> dict[str, Any]:
    """Read a TOML file with [model], [train], [data], or a run's config.json.

    Raises:
        ConfigError: If there is no such file.
        DataError: If it can't be read, or has other tables than these.
    """
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"--config {path} can't be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, not TOML, too deep
        raise DataError(f"{path} is neither TOML nor a run's config.json: {error}.") from None
    if not isinstance(found, dict) or not all(
        isinstance(found.get(part, {}), dict) for part in ("model", "train", "data")
    ):
        raise DataError(f"{path} must have tables [model], [train] and [data], or some of them.")
    known = {"preset", "model", "train", "data", "seed"}
    if path.suffix == ".json":  # a run records more of itself than its plan
        found.get("data", {}).pop("sha256", None)
        return {key: value for key, value in found.items() if key in known}
    if "vocab_size" in found.get("model", {}):
        raise DataError(f"{path}: model.vocab_size follows from the names and can't be set.")
    for key in found:
        if key not in known:
            raise DataError(f"{path} has {key!r}; it can have {', '.join(sorted(known))}.")
    return found


def setting_keys(plan: Plan) -> list[str]:
    """List all keys that `--set` takes for this kind of model."""
    parts = {"model": type(plan.model), "train": TrainConfig, "data": DataConfig}
    keys = [f"{part}.{f.name}" for part, config in parts.items() for f in fields(config)]
    return [key for key in keys if key != "model.vocab_size"]


def _parse(settings: Sequence[str], plan: Plan) -> dict[str, dict[str, Any]]:
    parsed: dict[str, dict[str, Any]] = {"model": {}, "train": {}, "data": {}}
    known = setting_keys(plan)
    for setting in settings:
        key, equals, text = (part.strip() for part in setting.partition("="))
        if not equals:
            raise ConfigError(f"--set {setting!r} has no '='; write --set train.n_steps=500.")
        if key == "model.vocab_size":
            raise ConfigError("model.vocab_size follows from the names and can't be set.")
        if key not in known:
            raise ConfigError(
                f"--set knows no {key!r}.{_nearest(key, known)} It knows {', '.join(known)}."
            )
        part, _, name = key.partition(".")
        parsed[part][name] = text
    return parsed


def _nearest(key: str, known: Sequence[str]) -> str:
    near = get_close_matches(key, known, n=1, cutoff=0.4)
    return f" Did you mean {near[0]!r}?" if near else ""


def _types(config: type) -> dict[str, Any]:
    return get_type_hints(config)


def _value(key: str, text: str, wanted: Any) -> Any:  # noqa: ANN401 (a type, and a value of it)
    choices = get_args(wanted) if isinstance(wanted, types.UnionType) else (wanted,)
    if type(None) in choices and _is_unset(text):
        return None
    kind = next(choice for choice in choices if choice is not type(None))
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        if kind is int:
            return int(text.replace("_", ""))
        if kind in (float, str):
            return kind(text)
        first, second = text.strip("()[]").split(",")
        return (float(first), float(second))
    except (ValueError, KeyError):
        wishes: dict[Any, str] = {
            bool: "true or false",
            int: "a whole number",
            float: "a number",
        }
        wish = wishes.get(kind, "two numbers with a comma between")
        raise ConfigError(f"{key} is {text!r}; it must be {wish}.") from None


def _apply(plan: Plan, changes: Mapping[str, Mapping[str, Any]]) -> Plan:
    train = dict(changes["train"])
    for one, other in (("n_steps", "n_epochs"), ("n_epochs", "n_steps")):
        if not _is_unset(train.get(one)) and other not in train:
            train[other] = None  # setting one of the two unsets the other
    return replace(
        plan,
        model=_replaced("model", plan.model, changes["model"]),
        train=_replaced("train", plan.train, train),
        data=_replaced("data", plan.data, changes["data"]),
    )


def _is_unset(value: object) -> bool:
    return str(value).lower() in ("none", "null", "")


def _replaced(part: str, config: AnyConfig, changes: Mapping[str, Any]) -> AnyConfig:
    known = _types(type(config))
    for name in changes:
        if name not in known:
            raise ConfigError(f"[{part}] has no {name!r}.{_nearest(name, list(known))}")
    values = {
        name: _value(f"{part}.{name}", str(value), known[name]) for name, value in changes.items()
    }
    return replace(config, **values)
