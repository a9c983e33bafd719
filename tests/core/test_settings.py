import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.config import ConfigError, MLPConfig, ModelConfig, TrainConfig
from core.presets import PRESETS, DataConfig
from core.settings import Plan, make_plan, plan_from_json, plan_to_json, setting_keys
from data.errors import DataError

PLANS = {name: Plan(preset=name, model=p.model, train=p.train) for name, p in PRESETS.items()}


def refusal(*settings: str, preset: str | None = None) -> str:
    """Return the sentence with which --set refuses these."""
    with pytest.raises(ConfigError) as caught:
        make_plan(preset=preset, settings=settings)
    assert caught.value.exit_code == 2
    return str(caught.value)


def file_refusal(path: Path) -> str:
    """Return the sentence with which a file is refused; it names the file."""
    with pytest.raises(DataError) as caught:
        make_plan(config_file=path)
    assert caught.value.exit_code == 3
    assert str(path) in str(caught.value)
    return str(caught.value)


def toml(folder: Path, text: str) -> Path:
    """Write a settings file."""
    path = folder / "settings.toml"
    path.write_text(text, encoding="utf-8")
    return path


def recorded(plan: Plan) -> dict[str, Any]:
    """Return what a run's config.json holds: the plan, and what the run says of itself."""
    config = json.loads(json.dumps(plan_to_json(plan)))
    config["data"]["sha256"] = "0" * 64
    return config | {
        "format": 1,
        "created_at": "2026-11-30T14:15:03+00:00",
        "device": "auto",
        "threads": 1,
        "versions": {"qkv": "0.1.0"},
    }


def test_without_a_word_it_is_the_preset_fast():
    assert make_plan() == PLANS["fast"]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_is_taken_as_it_is(preset: str):
    assert make_plan(preset=preset) == PLANS[preset]


def test_an_unknown_preset_names_the_nearest():
    with pytest.raises(ConfigError) as caught:
        make_plan(preset="bok")

    assert str(caught.value) == ("preset is 'bok'; it can be fast, book, mlp. Did you mean 'book'?")


@pytest.mark.parametrize(
    ("setting", "part", "field", "value"),
    [
        ("model.d_model=128", "model", "d_model", 128),
        ("model.d_model=1_024", "model", "d_model", 1024),
        (" model.d_model = 128 ", "model", "d_model", 128),
        ("model.d_ff=100", "model", "d_ff", 100),
        ("model.d_ff=none", "model", "d_ff", None),
        ("model.d_ff=null", "model", "d_ff", None),
        ("model.d_ff=", "model", "d_ff", None),
        ("model.dropout=0.25", "model", "dropout", 0.25),
        ("model.dropout=0", "model", "dropout", 0.0),
        ("model.qkv_bias=true", "model", "qkv_bias", True),
        ("model.tied_head=True", "model", "tied_head", True),
        ("model.tied_head=FALSE", "model", "tied_head", False),
        ("model.positions=none", "model", "positions", "none"),
        ("train.layout=padded", "train", "layout", "padded"),
        ("train.learning_rate=1e-4", "train", "learning_rate", 1e-4),
        ("train.clip_norm=1", "train", "clip_norm", 1.0),
        ("train.betas=0.8,0.95", "train", "betas", (0.8, 0.95)),
        ("train.betas=(0.8, 0.95)", "train", "betas", (0.8, 0.95)),
        ("train.betas=[0.8, 0.95]", "train", "betas", (0.8, 0.95)),
        ("data.split=book", "data", "split", "book"),
        ("data.skip_bad_lines=true", "data", "skip_bad_lines", True),
        ("data.path=/names/a=b.txt", "data", "path", "/names/a=b.txt"),
    ],
)
def test_a_setting_becomes_a_value_of_its_fields_type(
    setting: str, part: str, field: str, value: object
):
    found = getattr(getattr(make_plan(settings=[setting]), part), field)

    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("model.d_model=wide", "model.d_model is 'wide'; it must be a whole number."),
        ("model.d_model=64.0", "model.d_model is '64.0'; it must be a whole number."),
        ("model.d_model=", "model.d_model is ''; it must be a whole number."),
        ("model.d_ff=some", "model.d_ff is 'some'; it must be a whole number."),
        ("model.dropout=few", "model.dropout is 'few'; it must be a number."),
        ("model.qkv_bias=yes", "model.qkv_bias is 'yes'; it must be true or false."),
        ("model.qkv_bias=1", "model.qkv_bias is '1'; it must be true or false."),
        (
            "train.betas=0.9",
            "train.betas is '0.9'; it must be two numbers with a comma between.",
        ),
        (
            "train.betas=0.9,0.99,1",
            "train.betas is '0.9,0.99,1'; it must be two numbers with a comma between.",
        ),
        (
            "train.betas=a,b",
            "train.betas is 'a,b'; it must be two numbers with a comma between.",
        ),
        ("data.split=boook", "split is 'boook'; it can be clean, book. Did you mean 'book'?"),
        ("train.learning_rate=nan", "learning_rate must be a positive number, got nan."),
        ("train.n_steps", "--set 'train.n_steps' has no '='; write --set train.n_steps=500."),
        ("", "--set '' has no '='; write --set train.n_steps=500."),
        ("model.vocab_size=30", "model.vocab_size follows from the names and can't be set."),
    ],
)
def test_a_setting_that_cannot_be_is_a_sentence(setting: str, sentence: str):
    assert refusal(setting) == sentence


@pytest.mark.parametrize(
    ("setting", "nearest"),
    [
        ("model.d_modle=1", "model.d_model"),
        ("train.learn_rate=1", "train.learning_rate"),
        ("n_steps=5", "train.n_steps"),
        ("data.splits=book", "data.split"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(setting: str, nearest: str):
    key = setting.partition("=")[0]

    sentence = refusal(setting)

    assert sentence.startswith(f"--set knows no {key!r}. Did you mean {nearest!r}? It knows ")
    assert all(known in sentence for known in setting_keys(Plan()))
    assert "vocab_size" not in sentence


def test_the_keys_of_an_mlp_are_those_of_its_own_model():
    assert make_plan(preset="mlp", settings=["model.d_hidden=32"]).model == MLPConfig(d_hidden=32)
    assert "--set knows no 'model.n_heads'." in refusal("model.n_heads=2", preset="mlp")


def test_every_key_that_is_listed_can_be_set_to_what_it_is():
    for plan in PLANS.values():
        now = plan_to_json(plan)
        for key in setting_keys(plan):
            part, _, field = key.partition(".")
            if field in ("n_steps", "n_epochs"):  # each unsets the other
                continue
            same = make_plan(preset=plan.preset, settings=[f"{key}={now[part][field]}"])
            assert same == plan, key


def test_the_last_of_two_equal_keys_wins():
    plan = make_plan(settings=["model.d_model=32", "model.d_model=128"])

    assert plan.model == replace(PRESETS["fast"].model, d_model=128)


def test_setting_steps_unsets_epochs():
    train = make_plan(preset="fast", settings=["train.n_steps=500"]).train

    assert (train.n_steps, train.n_epochs) == (500, None)


def test_setting_epochs_unsets_steps():
    train = make_plan(preset="book", settings=["train.n_epochs=1.5"]).train

    assert (train.n_steps, train.n_epochs) == (None, 1.5)


def test_setting_both_steps_and_epochs_is_refused():
    assert refusal("train.n_steps=5", "train.n_epochs=2").startswith("n_steps is 5 and n_epochs")


def test_unsetting_the_only_length_is_refused():
    assert refusal("train.n_epochs=none").startswith("n_steps is None and n_epochs is None;")


@pytest.mark.parametrize(
    ("preset", "setting"), [("fast", "train.n_steps=none"), ("book", "train.n_epochs=none")]
)
def test_unsetting_what_is_not_set_changes_nothing(preset: str, setting: str):
    assert make_plan(preset=preset, settings=[setting]) == PLANS[preset]


def test_steps_in_a_setting_beat_epochs_in_a_file(tmp_path: Path):
    file = toml(tmp_path, "[train]\nn_epochs = 2")

    train = make_plan(config_file=file, settings=["train.n_steps=7"]).train

    assert (train.n_steps, train.n_epochs) == (7, None)


def test_what_comes_later_wins(tmp_path: Path):
    file = toml(
        tmp_path,
        """
        preset = "book"
        seed = 5
        [model]
        n_layers = 2
        d_model = 32
        [train]
        batch_size = 8
        betas = [0.5, 0.6]
        [data]
        path = "/from/the/file.txt"
        split = "book"
        """,
    )

    from_file = make_plan(config_file=file)
    with_settings = make_plan(
        config_file=file, settings=["model.n_layers=3", "data.path=/from/set.txt"]
    )
    with_all = make_plan(
        preset="fast",
        config_file=file,
        settings=["data.path=/from/set.txt"],
        data_path=tmp_path / "names.txt",
        skip_bad_lines=True,
        seed=0,
    )

    assert from_file == Plan(
        preset="book",
        model=replace(PRESETS["book"].model, n_layers=2, d_model=32),
        train=replace(PRESETS["book"].train, batch_size=8, betas=(0.5, 0.6)),
        data=DataConfig(path="/from/the/file.txt", split="book"),
        seed=5,
    )
    assert with_settings == replace(
        from_file,
        model=replace(from_file.model, n_layers=3),
        data=DataConfig(path="/from/set.txt", split="book"),
    )
    assert with_all == Plan(
        preset="fast",
        model=replace(PRESETS["fast"].model, n_layers=2, d_model=32),
        train=replace(PRESETS["fast"].train, batch_size=8, betas=(0.5, 0.6)),
        data=DataConfig(
            path=str((tmp_path / "names.txt").resolve()), split="book", skip_bad_lines=True
        ),
        seed=0,
    )


def test_bad_lines_skipped_by_the_file_stay_skipped(tmp_path: Path):
    file = toml(tmp_path, "[data]\nskip_bad_lines = true")

    assert make_plan(config_file=file, skip_bad_lines=False).data.skip_bad_lines


def test_an_argument_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    plan = make_plan(data_path=Path("names.txt"))

    assert plan.data.path == str(tmp_path.resolve() / "names.txt")


@pytest.mark.parametrize("way", ["file", "set"])
def test_every_relative_path_is_made_absolute(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    file = toml(tmp_path, '[data]\npath = "names.txt"' if way == "file" else "")

    plan = make_plan(config_file=file, settings=["data.path=names.txt"] if way == "set" else [])

    assert plan.data.path == str(tmp_path.resolve() / "names.txt")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[modle]\nd_model = 5", "has 'modle'; it can have data, model, preset, seed, train."),
        ("[model]\nd_modle = 5", "[model] has no 'd_modle'. Did you mean 'd_model'?"),
        ("[train]\nlearnin_rate = 5", "has no 'learnin_rate'. Did you mean 'learning_rate'?"),
        ("[data]\nsplits = 'book'", "[data] has no 'splits'. Did you mean 'split'?"),
        ("model = 5", "must have tables [model], [train] and [data], or some of them."),
        ("train = [1, 2]", "must have tables [model], [train] and [data], or some of them."),
        ("[model]\nd_model = 'wide'", "model.d_model is 'wide'; it must be a whole number."),
        ("[model]\nd_model = 64.5", "model.d_model is '64.5'; it must be a whole number."),
        ("[model]\nd_model = [64]", "model.d_model is '[64]'; it must be a whole number."),
        ("[model]\nqkv_bias = 1", "model.qkv_bias is '1'; it must be true or false."),
        ("[model]\ndropout = true", "model.dropout is 'True'; it must be a number."),
        ("[model]\nn_heads = 5", "d_model (64) cannot be shared equally by n_heads (5)."),
        ("[train]\nbetas = 0.9", "train.betas is '0.9'; it must be two numbers with a comma"),
        ("[train]\nn_steps = 5\nn_epochs = 2", "n_steps is 5 and n_epochs is 2.0; give one"),
        ("[train]\nlearning_rate = nan", "learning_rate must be a positive number, got nan."),
        ("[train]\nlearning_rate = ", "is neither TOML nor a run's config.json: "),
    ],
)
def test_a_settings_file_that_cannot_be_is_bad_data_and_named(
    text: str, sentence: str, tmp_path: Path
):
    assert sentence in file_refusal(toml(tmp_path, text))


@pytest.mark.parametrize(
    "text", ["preset = 'fst'", "preset = 5", "seed = 'x'", "seed = 1.5", "seed = -1"]
)
def test_a_preset_or_seed_of_a_file_that_cannot_be_is_bad_data_and_named(text: str, tmp_path: Path):
    file_refusal(toml(tmp_path, text))


def test_a_settings_file_cannot_set_the_vocabulary(tmp_path: Path):
    assert "vocab_size" in file_refusal(toml(tmp_path, "[model]\nvocab_size = 5"))


def test_a_settings_file_that_is_missing_is_wrong_usage(tmp_path: Path):
    path = tmp_path / "gone.toml"

    with pytest.raises(ConfigError) as caught:
        make_plan(config_file=path)

    assert caught.value.exit_code == 2
    assert str(caught.value) == f"--config {path} can't be read: No such file or directory."


def test_a_directory_is_no_settings_file(tmp_path: Path):
    with pytest.raises(ConfigError, match="can't be read: Is a directory"):
        make_plan(config_file=tmp_path)


@pytest.mark.parametrize("name", ["settings.toml", "config.json"])
def test_a_settings_file_that_is_not_utf_8_is_bad_data(name: str, tmp_path: Path):
    path = tmp_path / name
    path.write_bytes('preset = "caf\u00e9"'.encode("latin-1"))

    assert "is neither TOML nor a run's config.json: " in file_refusal(path)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_a_plan_survives_json_text(plan: Plan):
    changed = replace(
        plan, seed=2**32 - 1, data=DataConfig(path="/n.txt", split="book", skip_bad_lines=True)
    )

    for one in (plan, changed):
        assert plan_from_json(json.loads(json.dumps(plan_to_json(one)))) == one


def test_a_plan_in_which_nothing_is_default_survives_json_text():
    model = ModelConfig(
        vocab_size=5,
        block_size=9,
        d_model=6,
        n_heads=3,
        n_layers=2,
        d_ff=7,
        dropout=1 / 3,
        positions="sinusoidal",
        qkv_bias=True,
        tied_head=True,
    )
    train = TrainConfig(
        layout="padded",
        row_length=9,
        batch_size=3,
        n_steps=11,
        n_epochs=None,
        eval_interval=4,
        learning_rate=1e-3 / 3,
        betas=(1 / 3, 2 / 3),
        weight_decay=0.0,
        init="torch",
        schedule="cosine",
        warmup_steps=0,
        final_share=1 / 7,
        clip_norm=1 / 9,
    )
    plan = Plan(preset="book", model=model, train=train, seed=0)

    assert plan_from_json(json.loads(json.dumps(plan_to_json(plan)))) == plan


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_the_config_of_a_run_gives_the_same_plan_back(plan: Plan, tmp_path: Path):
    fitted = replace(
        plan,
        model=replace(plan.model, vocab_size=12),
        train=replace(plan.train, row_length=9),
        data=DataConfig(path="/n.txt", split="book"),
        seed=77,
    )
    path = tmp_path / "config.json"
    path.write_text(json.dumps(recorded(fitted)))

    assert make_plan(config_file=path) == fitted


def test_settings_beat_the_config_of_a_run(tmp_path: Path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(recorded(replace(PLANS["book"], seed=77))))

    plan = make_plan(config_file=path, settings=["train.n_epochs=1"], seed=3)

    assert plan.train == replace(PLANS["book"].train, n_steps=None, n_epochs=1.0)
    assert plan.seed == 3


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "5", '{"model": []}', '{"data": null}'])
def test_a_json_file_that_is_no_runs_config_is_bad_data_and_named(text: str, tmp_path: Path):
    path = tmp_path / "config.json"
    path.write_text(text)

    file_refusal(path)


def test_a_json_file_without_data_is_not_a_crash(tmp_path: Path):
    path = tmp_path / "config.json"
    path.write_text('{"model": {"d_model": 32}}')

    make_plan(config_file=path)


DAMAGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no kind": lambda config: config.pop("kind"),
    "no preset": lambda config: config.pop("preset"),
    "no model": lambda config: config.pop("model"),
    "no train": lambda config: config.pop("train"),
    "no data": lambda config: config.pop("data"),
    "no seed": lambda config: config.pop("seed"),
    "no split": lambda config: config["data"].pop("split"),
    "another kind": lambda config: config.update(kind="rnn"),
    "kind a list": lambda config: config.update(kind=["gpt"]),
    "model null": lambda config: config.update(model=None),
    "train a list": lambda config: config.update(train=["n_steps"]),
    "data a text": lambda config: config.update(data="names.txt"),
    "seed a word": lambda config: config.update(seed="one"),
    "seed null": lambda config: config.update(seed=None),
    "unknown field": lambda config: config["model"].update(n_experts=8),
    "impossible heads": lambda config: config["model"].update(n_heads=5),
    "a width in words": lambda config: config["model"].update(d_model="wide"),
    "no length": lambda config: config["train"].update(n_epochs=None),
    "unknown layout": lambda config: config["train"].update(layout="heap"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_config_of_a_run_is_bad_data(damage: Callable[[dict[str, Any]], Any]):
    config = recorded(PLANS["fast"])
    damage(config)

    with pytest.raises(DataError, match=r"^this config\.json is not one of ours: "):
        plan_from_json(config)


def test_a_config_that_is_no_object_is_bad_data():
    damaged: list[Any] = [None, [], "config", 5]

    for config in damaged:
        with pytest.raises(DataError, match=r"^this config\.json is not one of ours: "):
            plan_from_json(config)


@pytest.mark.parametrize("seed", ["-5", "1.5", "true", "1e999", "4294967296"])
def test_a_config_of_a_run_with_an_impossible_seed_is_bad_data(seed: str):
    config = recorded(PLANS["fast"]) | {"seed": json.loads(seed)}

    with pytest.raises(DataError):
        plan_from_json(config)
