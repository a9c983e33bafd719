import hashlib
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import core.runs
from core.config import ConfigError, MLPConfig, ModelConfig, TrainConfig
from core.corpus import load_corpus
from core.preparing import fit_plan, prepare_run
from core.presets import DataConfig
from core.runs import list_runs, read_run
from core.settings import Plan, make_plan, plan_from_json
from data.errors import UsageError
from data.names import NAMES_FILE

TEN_NAMES = ["ann", "bob", "cid", "dan", "eva", "fay", "guy", "hal", "ida", "bartholomew"]
LONGEST = "bartholomew"  # 11 letters, so 12 positions with the boundary


def plan_for(folder: Path, names: Sequence[str] = TEN_NAMES, **train: Any) -> Plan:
    """Return a plan for a file with these names."""
    file = folder / "names.txt"
    file.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    return Plan(
        model=ModelConfig(d_model=8, n_heads=2, n_layers=1, block_size=16),
        train=TrainConfig(**train),
        data=DataConfig(path=str(file)),
    )


def fitted(plan: Plan) -> Plan:
    """Return the plan as its own names need it."""
    return fit_plan(plan, load_corpus(plan.data))


def prepared(root: Path, plan: Plan, **wishes: Any) -> Path:
    """Prepare a run of a fitted plan."""
    return prepare_run(root, plan, load_corpus(plan.data), **wishes)


def refusal(plan: Plan) -> str:
    """Return the sentence with which a plan is refused that does not fit its names."""
    with pytest.raises(ConfigError) as caught:
        fitted(plan)
    return str(caught.value)


def content(run: Path, name: str) -> Any:
    """Read a JSON file of a run."""
    return json.loads((run / name).read_text(encoding="utf-8"))


def test_the_vocabulary_and_the_rows_follow_from_the_names(tmp_path: Path):
    plan = fitted(plan_for(tmp_path))

    assert plan.model.vocab_size == 1 + len(set("".join(TEN_NAMES)))
    assert plan.train.row_length == 12


def test_an_odd_alphabet_is_counted_by_its_characters(tmp_path: Path):
    names = ["zoé", "o'neil", "αθηνά", "mary ann", *TEN_NAMES]

    plan = fitted(plan_for(tmp_path, names))

    assert plan.model.vocab_size == 1 + len(set("".join(names)))


def test_fitting_changes_nothing_else(tmp_path: Path):
    plan = plan_for(tmp_path)

    after = fitted(plan)

    assert replace(after, model=plan.model, train=plan.train) == plan
    assert replace(after.model, vocab_size=plan.model.vocab_size) == plan.model
    assert replace(after.train, row_length=None) == plan.train
    assert fitted(after) == after


@pytest.mark.parametrize("layout", ["packed", "padded"])
def test_a_block_shorter_than_a_row_is_refused_with_both_numbers(layout: str, tmp_path: Path):
    plan = plan_for(tmp_path, layout=layout)

    sentence = refusal(replace(plan, model=replace(plan.model, block_size=11)))

    assert sentence == (
        "block_size is 11, but a row of whole names takes 12 positions (the longest name is "
        "'bartholomew'). Use --set model.block_size=12 or --set train.layout=window."
    )


@pytest.mark.parametrize("setting", ["model.block_size=12", "train.layout=window"])
def test_what_the_refusal_of_a_block_advises_works(setting: str, tmp_path: Path):
    data_path = Path(plan_for(tmp_path).data.path or "")
    short = ["model.block_size=11"]

    with pytest.raises(ConfigError, match=setting):
        fitted(make_plan(settings=short, data_path=data_path))
    plan = fitted(make_plan(settings=[*short, setting], data_path=data_path))

    assert plan.train.row_length == 12


def test_a_window_may_be_shorter_than_the_longest_name(tmp_path: Path):
    plan = plan_for(tmp_path, layout="window")

    assert fitted(replace(plan, model=replace(plan.model, block_size=3))).model.block_size == 3


def test_an_mlp_may_see_fewer_letters_than_the_longest_name(tmp_path: Path):
    plan = replace(plan_for(tmp_path, layout="packed"), model=MLPConfig(block_size=3))

    assert fitted(plan).model == MLPConfig(block_size=3, vocab_size=fitted(plan).model.vocab_size)


def test_a_row_shorter_than_the_longest_name_is_refused_with_both_numbers(tmp_path: Path):
    assert refusal(plan_for(tmp_path, row_length=11)) == (
        "row_length is 11, but the longest name, 'bartholomew', takes 12 positions with its "
        "boundary. Use --set train.row_length=12."
    )


def test_a_row_longer_than_the_longest_name_is_kept(tmp_path: Path):
    assert fitted(plan_for(tmp_path, row_length=15)).train.row_length == 15


def test_a_row_longer_than_the_block_is_refused_with_both_numbers(tmp_path: Path):
    sentence = refusal(plan_for(tmp_path, row_length=17))

    assert "block_size is 16" in sentence
    assert "takes 17 positions" in sentence
    assert "--set model.block_size=17" in sentence


def test_a_model_that_needs_more_memory_than_there_is_is_refused(tmp_path: Path):
    plan = plan_for(tmp_path)
    giant = replace(plan.model, d_model=65_536, n_layers=1_024)

    sentence = refusal(replace(plan, model=giant))

    assert "parameters; training it on these names takes at least" in sentence
    assert "GB, and this machine has" in sentence
    assert "Use a smaller model.d_model" in sentence


@pytest.mark.parametrize("slug", ["", "Fast", "a b", "a--b", "-a", "a-", "a/b", "..", "é", "a\n"])
def test_a_bad_slug_is_refused_and_nothing_created(slug: str, tmp_path: Path):
    plan = fitted(plan_for(tmp_path))
    root = tmp_path / "runs"

    with pytest.raises(UsageError) as caught:
        prepared(root, replace(plan, preset=slug), slug=slug or None)

    assert str(caught.value) == (
        f"{slug!r} can't be a run's name; use small letters, digits and single hyphens, "
        "for example wide-2."
    )
    assert not root.exists()


@pytest.mark.parametrize(
    ("wishes", "sentence"),
    [
        ({"device": "vulkan"}, "device is 'vulkan'; it can be auto, cpu, cuda, mps."),
        (
            {"device": "cud"},
            "device is 'cud'; it can be auto, cpu, cuda, mps. Did you mean 'cuda'?",
        ),
        ({"n_threads": 0}, "threads must be at least 1, got 0."),
        ({"n_threads": -3}, "threads must be at least 1, got -3."),
    ],
)
def test_a_bad_device_or_thread_count_is_refused_and_nothing_created(
    wishes: dict[str, Any], sentence: str, tmp_path: Path
):
    plan = fitted(plan_for(tmp_path))
    root = tmp_path / "runs"

    with pytest.raises(UsageError) as caught:
        prepared(root, plan, **wishes)

    assert str(caught.value) == sentence
    assert not root.exists()


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_bad_seed_is_refused_and_nothing_created(seed: int, tmp_path: Path):
    root = tmp_path / "runs"

    with pytest.raises(UsageError, match="seed"):
        prepared(root, fitted(replace(plan_for(tmp_path), seed=seed)))

    assert not root.exists()


def test_a_prepared_run_holds_what_a_trainer_needs(tmp_path: Path):
    plan = replace(fitted(plan_for(tmp_path)), seed=9)

    run = prepared(tmp_path / "runs", plan, slug="wide-2", device="cpu", n_threads=2)

    assert {path.name for path in run.iterdir()} == {
        "config.json",
        "vocabulary.json",
        "metrics.jsonl",
        "samples.jsonl",
        "status.json",
        "checkpoints",
    }
    assert list((run / "checkpoints").iterdir()) == []
    assert (run / "metrics.jsonl").read_bytes() == b""
    assert (run / "samples.jsonl").read_bytes() == b""
    assert content(run, "status.json") == {"state": "queued"}
    assert content(run, "vocabulary.json") == [".", *sorted(set("".join(TEN_NAMES)))]
    assert read_run(run).state == "queued"


def test_a_runs_config_says_what_decides_it(tmp_path: Path):
    plan = replace(fitted(plan_for(tmp_path)), seed=9)

    config = content(prepared(tmp_path / "runs", plan, device="cpu", n_threads=2), "config.json")

    assert config.keys() == {
        "format",
        "created_at",
        "kind",
        "preset",
        "model",
        "train",
        "data",
        "seed",
        "device",
        "threads",
        "versions",
    }
    assert plan_from_json(config) == plan
    assert (config["format"], config["kind"], config["preset"]) == (1, "gpt", "fast")
    assert (config["seed"], config["device"], config["threads"]) == (9, "cpu", 2)
    assert config["versions"]["torch"] == version("torch")
    assert config["data"] == {
        "path": str(tmp_path / "names.txt"),
        "split": "clean",
        "skip_bad_lines": False,
        "sha256": hashlib.sha256((tmp_path / "names.txt").read_bytes()).hexdigest(),
    }


def test_the_programs_own_names_are_recorded_without_a_path(tmp_path: Path):
    plan = fitted(make_plan())

    data = content(prepared(tmp_path, plan), "config.json")["data"]

    assert data["path"] is None
    assert data["sha256"] == hashlib.sha256(NAMES_FILE.read_bytes()).hexdigest()


def test_a_runs_name_is_date_time_slug_and_four_hex_digits(tmp_path: Path):
    plan = fitted(plan_for(tmp_path))

    by_preset = prepared(tmp_path / "runs", plan)
    by_slug = prepared(tmp_path / "runs", plan, slug="wide-2")

    assert by_preset.parent == tmp_path / "runs"
    for run, slug in ((by_preset, "fast"), (by_slug, "wide-2")):
        day, moment, *words = run.name.split("-")
        assert (len(day), len(moment)) == (8, 6)
        assert (day + moment).isdecimal()
        assert "-".join(words[:-1]) == slug
        assert len(words[-1]) == 4
        assert int(words[-1], 16) >= 0


def test_an_mlps_run_says_its_kind(tmp_path: Path):
    plan = replace(plan_for(tmp_path, layout="window"), preset="mlp", model=MLPConfig())

    config = content(prepared(tmp_path / "runs", fitted(plan)), "config.json")

    assert config["kind"] == "mlp"
    assert config["model"]["d_embedding"] == 24


def test_runs_made_in_one_second_do_not_collide(tmp_path: Path):
    plan = fitted(plan_for(tmp_path))
    corpus = load_corpus(plan.data)

    runs = [prepare_run(tmp_path / "runs", plan, corpus) for _ in range(5)]

    assert len(set(runs)) == 5
    assert [run.path for run in list_runs(tmp_path / "runs")] == runs


class NoonAlways(datetime):
    """A clock that stands still."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> "NoonAlways":
        return cls(2026, 11, 30, 12, 0, 0, tzinfo=tz)


def draws_of(digits: Sequence[str]) -> Callable[[int], str]:
    """Return what draws these instead of by chance."""
    left = iter(digits)

    def draw(n_bytes: int) -> str:
        return next(left)

    return draw


def test_equal_hex_digits_in_one_second_do_not_collide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    plan = fitted(plan_for(tmp_path))
    monkeypatch.setattr(core.runs, "datetime", NoonAlways)
    monkeypatch.setattr(secrets, "token_hex", draws_of(["3f9a", "3f9a", "77b0"]))

    runs = [prepared(tmp_path / "runs", plan) for _ in range(2)]

    assert [run.name[-4:] for run in runs] == ["3f9a", "77b0"]
