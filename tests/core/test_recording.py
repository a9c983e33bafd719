import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from core.checkpoint import latest_resumable, load_model, load_state, read_weights
from core.checkpoint_files import checkpoint_steps, state_path, weights_path
from core.config import MLPConfig, ModelConfig, TrainConfig
from core.corpus import load_corpus
from core.locks import LockedError
from core.preparing import fit_plan, prepare_run
from core.presets import DataConfig
from core.recording import Finished, RunError, Started, work
from core.runs import read_run, request_stop
from core.schedule import learning_rate_at
from core.settings import Plan
from core.training import DivergedError, Evaluated, SafePoint, Sampled, Stepped
from core.using import open_run
from data.errors import DataError, UsageError

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60
N_NAMES = 200
EPOCH_STEPS = 9  # what these names take at this batch size; a test holds it
MODEL = ModelConfig(d_model=16, n_heads=2, n_layers=1, block_size=12, dropout=0.1)
SHORT = TrainConfig(n_steps=60, n_epochs=None, batch_size=16, eval_interval=20, warmup_steps=5)
LONG = replace(SHORT, n_steps=400, eval_interval=50)
TIMES = ("elapsed_s", "chars_per_s")
TRAINER = """
import sys
from pathlib import Path
import core.recording
core.recording.SAVE_EVERY_S = 0.05
for event in core.recording.work(Path(sys.argv[1])):
    pass
"""

Prepare = Callable[..., Path]


@pytest.fixture(scope="module")
def names_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write names of one to four syllables."""
    luck = random.Random(1)
    names: set[str] = set()
    while len(names) < N_NAMES:
        n_syllables = luck.randint(1, 4)
        names.add("".join(luck.choice("bdklmr") + luck.choice("aeiou") for _ in range(n_syllables)))
    path = tmp_path_factory.mktemp("data") / "names.txt"
    path.write_text("".join(f"{name}\n" for name in sorted(names)))
    return path


def prepared(
    root: Path,
    names: Path,
    train: TrainConfig = SHORT,
    model: ModelConfig | MLPConfig = MODEL,
) -> Path:
    """Prepare a run of a tiny model."""
    plan = Plan(model=model, train=train, data=DataConfig(path=str(names)), seed=3)
    corpus = load_corpus(plan.data)
    return prepare_run(root, fit_plan(plan, corpus), corpus, device="cpu")


@pytest.fixture
def prepare(tmp_path: Path, names_file: Path) -> Prepare:
    """Prepare runs with names of their own, which a test may change."""
    names = tmp_path / "names.txt"
    shutil.copy(names_file, names)

    def one(train: TrainConfig = SHORT, model: ModelConfig | MLPConfig = MODEL) -> Path:
        return prepared(tmp_path / "runs", names, train, model)

    return one


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory, names_file: Path) -> Path:
    """Train the short run without an interruption."""
    run = prepared(tmp_path_factory.mktemp("short"), names_file)
    finish(run)
    return run


@pytest.fixture(scope="module")
def uninterrupted_long(tmp_path_factory: pytest.TempPathFactory, names_file: Path) -> Path:
    """Train the long run without an interruption."""
    run = prepared(tmp_path_factory.mktemp("long"), names_file, LONG)
    finish(run)
    return run


def finish(run: Path, **wishes: Any) -> Finished:
    """Let a trainer work on a run until it leaves it."""
    *_, last = work(run, **wishes)
    assert isinstance(last, Finished)
    return last


def stop_after(run: Path, step: int) -> Finished:
    """Ask the trainer to stop in this step, as anybody may."""
    for event in work(run):
        if isinstance(event, Stepped) and event.step == step:
            request_stop(run)
        if isinstance(event, Finished):
            return event
    raise AssertionError("the trainer left without a word")


def leave_after(run: Path, step: int) -> None:
    """Stop listening once all of a step is written down, as a trainer that dies there."""
    for event in work(run):  # left alone, a generator is closed, and lets its lock go
        if isinstance(event, SafePoint) and event.step == step:
            return


def lines(run: Path, name: str = "metrics.jsonl") -> list[dict[str, Any]]:
    """Read all lines of a run, without what the clock decides."""
    found = [json.loads(line) for line in (run / name).read_bytes().splitlines()]
    return [{key: line[key] for key in line if key not in TIMES} for line in found]


def status(run: Path) -> dict[str, Any]:
    """Read a run's status."""
    return json.loads((run / "status.json").read_text())


def content(run: Path) -> dict[str, str]:
    """Return a fingerprint of every file of a run."""
    return {
        str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in run.rglob("*")
        if path.is_file()
    }


def weights(run: Path, step: int) -> dict[str, bytes]:
    """Return the bits of all weights of a step."""
    _, tensors = read_weights(weights_path(run, step))
    return {name: value.numpy().tobytes() for name, value in tensors.items()}


def state(run: Path, step: int) -> dict[str, bytes]:
    """Return the bits of the training state of a step."""
    tensors, _ = load_state(run, step)
    return {name: value.numpy().tobytes() for name, value in tensors.items()}


def assert_nothing_differs(run: Path, other: Path) -> None:
    """Compare two finished runs of one plan in all that is not time."""
    assert lines(run) == lines(other)
    assert (run / "samples.jsonl").read_bytes() == (other / "samples.jsonl").read_bytes()
    evaluated = [line["step"] for line in lines(run, "samples.jsonl")]
    last = evaluated[-1]
    for step in evaluated:
        assert weights(run, step) == weights(other, step), step
    assert state(run, last) == state(other, last)
    for key in ("state", "step", "train_loss", "val_loss", "test_loss", "n_steps"):
        assert status(run)[key] == status(other)[key], key


def wait_until(is_true: Callable[[], bool], child: "subprocess.Popen[bytes]") -> None:
    """Wait for a condition that a living child brings about, not for ever."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert child.poll() is None, "the trainer left too early"
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.002)


def start_trainer(run: Path) -> "subprocess.Popen[bytes]":
    """Let a process of its own work on a run, with a checkpoint every 0.05 s."""
    return subprocess.Popen(
        [sys.executable, "-c", TRAINER, str(run)],
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
    )


def kill_after_lines(run: Path, n_lines: int) -> None:
    """Start a trainer and kill it once it has written more lines than these."""
    child = start_trainer(run)
    try:
        metrics = run / "metrics.jsonl"
        wait_until(lambda: metrics.read_bytes().count(b"\n") > n_lines, child)
        child.send_signal(signal.SIGKILL)
        assert child.wait(timeout=PATIENCE_S) == -signal.SIGKILL, "it was done before it was killed"
    finally:
        child.kill()
        child.wait(timeout=PATIENCE_S)


def test_an_epoch_of_these_names_is_as_long_as_the_other_tests_think(prepare: Prepare):
    run = prepare(replace(SHORT, n_steps=None, n_epochs=1.0))

    started = next(work(run))

    assert isinstance(started, Started)
    assert started.n_steps == EPOCH_STEPS


def test_every_event_is_written_down_before_it_is_told(prepare: Prepare):
    run = prepare()
    kinds: list[str] = []

    for event in work(run):
        kinds.append(type(event).__name__)
        if isinstance(event, Stepped):
            assert lines(run)[-1]["loss"] == event.loss
            assert lines(run)[-1]["step"] == event.step
        elif isinstance(event, Evaluated):
            assert [line["loss"] for line in lines(run)[-2:]] == [event.train_loss, event.val_loss]
        elif isinstance(event, Sampled):
            assert lines(run, "samples.jsonl")[-1]["step"] == event.step
        elif isinstance(event, SafePoint) and event.is_evaluation:
            assert checkpoint_steps(run)[-1] == event.step
            assert status(run)["step"] == event.step

    assert kinds[:4] == ["Started", "Evaluated", "Sampled", "SafePoint"]
    assert kinds[4:6] == ["Stepped", "SafePoint"]
    assert kinds[-5:] == ["Stepped", "Evaluated", "Sampled", "SafePoint", "Finished"]


def test_a_run_is_recorded_step_by_step(uninterrupted: Path):
    metrics = lines(uninterrupted)
    by_split = {
        split: [line["step"] for line in metrics if line["split"] == split]
        for split in ("batch", "train", "val")
    }

    steps = [line["step"] for line in metrics]
    assert steps == sorted(steps)
    assert by_split == {
        "batch": list(range(1, 61)),
        "train": [0, 20, 40, 60],
        "val": [0, 20, 40, 60],
    }
    for line in metrics:
        assert line["loss"] > 0
        if line["split"] == "batch":
            rate = learning_rate_at(line["step"] - 1, 60, SHORT)
            assert line["learning_rate"] == rate
            assert line["grad_norm"] > 0
    assert metrics[-1]["loss"] < metrics[1]["loss"]


def test_the_clock_of_a_run_never_goes_back(uninterrupted: Path):
    text = (uninterrupted / "metrics.jsonl").read_text()

    elapsed = [json.loads(line)["elapsed_s"] for line in text.splitlines()]

    assert elapsed == sorted(elapsed)
    assert elapsed[-1] > 0


def test_names_are_drawn_at_each_evaluation(uninterrupted: Path):
    samples = lines(uninterrupted, "samples.jsonl")
    letters = set(json.loads((uninterrupted / "vocabulary.json").read_text())) - {"."}

    assert [line["step"] for line in samples] == [0, 20, 40, 60]
    for line in samples:
        assert line["temperature"] == 1.0
        assert len(line["names"]) == 10
        assert set("".join(line["names"])) <= letters


def test_a_finished_run_is_done_with_its_test_loss(uninterrupted: Path):
    summary = read_run(uninterrupted)

    assert (summary.state, summary.step) == ("done", 60)
    assert summary.val_loss == lines(uninterrupted)[-1]["loss"]
    assert summary.status["train_loss"] == lines(uninterrupted)[-2]["loss"]
    measured = open_run(uninterrupted, device="cpu")
    assert summary.status["test_loss"] == measured.evaluate("test").loss
    assert summary.status["val_loss"] == measured.evaluate("val").loss
    assert summary.status["n_params"] == sum(
        parameter.numel() for parameter in measured.trained.model.parameters()
    )


def test_the_weights_of_every_evaluation_stay(uninterrupted: Path):
    assert checkpoint_steps(uninterrupted) == [0, 20, 40, 60]
    assert [step for step in (0, 20, 40, 60) if state_path(uninterrupted, step).exists()] == [
        40,
        60,
    ]


def test_the_same_plan_trained_twice_is_the_same_run(uninterrupted: Path, prepare: Prepare):
    run = prepare()

    finish(run)

    assert_nothing_differs(run, uninterrupted)


def test_how_often_one_evaluates_changes_nothing_that_is_learned(
    uninterrupted: Path, prepare: Prepare
):
    run = prepare(replace(SHORT, eval_interval=7))

    finish(run)

    batches = [
        [line for line in lines(one) if line["split"] == "batch"] for one in (run, uninterrupted)
    ]
    assert batches[0] == batches[1]
    assert weights(run, 60) == weights(uninterrupted, 60)


@pytest.mark.parametrize("step", [1, 8, 9, 27, 59])
def test_a_stopped_run_resumes_as_if_it_had_not_stopped(
    step: int, uninterrupted: Path, prepare: Prepare
):
    run = prepare()

    stopped = stop_after(run, step)

    assert (stopped.state, stopped.status["step"]) == ("stopped", step)
    assert (read_run(run).state, read_run(run).step) == ("stopped", step)
    assert "test_loss" not in status(run)
    assert latest_resumable(run) == step
    assert (run / "stop").exists()
    resumed = work(run)
    started = next(resumed)
    assert isinstance(started, Started)
    assert started.step == step
    assert not (run / "stop").exists()
    *_, last = resumed
    assert isinstance(last, Finished)
    assert last.state == "done"
    assert_nothing_differs(run, uninterrupted)


def test_a_run_stopped_before_its_first_step_resumes(uninterrupted: Path, prepare: Prepare):
    run = prepare()

    stopped = finish(run, should_stop=lambda: True)

    assert (stopped.state, stopped.status["step"]) == ("stopped", 0)
    finish(run)
    assert_nothing_differs(run, uninterrupted)


def test_a_run_stopped_again_and_again_resumes(uninterrupted: Path, prepare: Prepare):
    run = prepare()

    for step in (3, 4, 17, 18, 19, 45):
        assert stop_after(run, step).status["step"] == step
    finish(run)

    assert_nothing_differs(run, uninterrupted)


@pytest.mark.parametrize("step", [0, 1, 20, 39, 60])
def test_a_trainer_gone_without_a_word_leaves_a_lost_run_that_resumes(
    step: int, uninterrupted: Path, prepare: Prepare
):
    run = prepare()

    leave_after(run, step)

    assert read_run(run).state == "lost"
    resumed = work(run)
    started = next(resumed)
    assert isinstance(started, Started)
    assert started.step == step // 20 * 20
    for _ in resumed:
        pass
    assert_nothing_differs(run, uninterrupted)


@pytest.mark.parametrize("step", [EPOCH_STEPS, 2 * EPOCH_STEPS, 2 * EPOCH_STEPS + 1])
def test_a_checkpoint_between_two_epochs_goes_on_with_the_second(step: int, prepare: Prepare):
    often = replace(SHORT, n_steps=40, eval_interval=EPOCH_STEPS)
    run, other = prepare(often), prepare(often)
    finish(other)

    leave_after(run, step)
    finish(run)

    assert_nothing_differs(run, other)


OTHER_PLANS: dict[str, tuple[TrainConfig, ModelConfig | MLPConfig]] = {
    "no dropout": (SHORT, replace(MODEL, dropout=0.0)),
    "padded, epochs": (
        replace(SHORT, layout="padded", batch_size=14, n_steps=None, n_epochs=4.5),
        replace(MODEL, dropout=0.5, tied_head=True),
    ),
    "window": (replace(SHORT, layout="window"), replace(MODEL, block_size=5)),
    "clipped, cosine": (replace(SHORT, clip_norm=0.5, schedule="cosine", final_share=0.1), MODEL),
    "mlp": (replace(SHORT, init="torch"), MLPConfig(block_size=3, d_embedding=4, d_hidden=8)),
}


@pytest.mark.parametrize(("train", "model"), OTHER_PLANS.values(), ids=OTHER_PLANS.keys())
def test_runs_of_every_kind_resume_as_if_they_had_not_stopped(
    train: TrainConfig, model: ModelConfig | MLPConfig, prepare: Prepare
):
    run, other = prepare(train, model), prepare(train, model)
    finish(other)

    stop_after(run, 13)
    leave_after(run, 25)
    finish(run)

    assert_nothing_differs(run, other)


@pytest.mark.parametrize("n_lines", [3, 120, 250])
def test_a_killed_run_resumes_as_if_it_had_not_been(
    n_lines: int, uninterrupted_long: Path, prepare: Prepare
):
    run = prepare(LONG)

    kill_after_lines(run, n_lines)

    assert read_run(run).state == "lost"
    finish(run)
    assert_nothing_differs(run, uninterrupted_long)


@pytest.mark.slow
def test_a_run_killed_many_times_resumes_as_if_it_had_not_been(
    uninterrupted_long: Path, prepare: Prepare
):
    run = prepare(LONG)

    for n_lines in (1, 50, 51, 120, 200, 260, 300):
        kill_after_lines(run, n_lines)
    finish(run)

    assert_nothing_differs(run, uninterrupted_long)


def test_what_was_written_after_the_checkpoint_is_forgotten(uninterrupted: Path, prepare: Prepare):
    run = prepare()
    leave_after(run, 30)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 31, "split": "batch", "loss": 1.0}\n{"step": 32, "spl')
    with (run / "samples.jsonl").open("a") as file:
        file.write('{"step": 40, "temperature": 1.0, "names": []}\n{"step": 60, "names": ["zo')

    finish(run)

    assert_nothing_differs(run, uninterrupted)


def test_a_torn_line_right_after_the_checkpoint_is_forgotten(uninterrupted: Path, prepare: Prepare):
    run = prepare()
    stop_after(run, 30)
    for name in ("metrics.jsonl", "samples.jsonl"):
        with (run / name).open("a") as file:
            file.write('{"step": 30')

    finish(run)

    assert_nothing_differs(run, uninterrupted)


def test_lines_without_any_checkpoint_are_forgotten(uninterrupted: Path, prepare: Prepare):
    run = prepare()
    for name in ("metrics.jsonl", "samples.jsonl"):
        (run / name).write_text('{"step": 0}\n{"step": 0}\n{"st')

    finish(run)

    assert_nothing_differs(run, uninterrupted)


@pytest.mark.parametrize("which", [weights_path, state_path])
def test_a_damaged_checkpoint_is_passed_over_and_made_again(
    which: Callable[[Path, int], Path], uninterrupted: Path, prepare: Prepare
):
    run = prepare()
    stop_after(run, 50)
    path = which(run, 50)
    path.write_bytes(path.read_bytes()[:-1])

    resumed = work(run)
    started = next(resumed)
    assert isinstance(started, Started)
    assert started.step == 40
    for _ in resumed:
        pass

    assert_nothing_differs(run, uninterrupted)


@pytest.mark.parametrize(
    "left_over",
    [".step-000023.safetensors", "step-000023.state.safetensors", "step-000050.safetensors"],
)
def test_what_a_killed_trainer_half_wrote_is_cleared_away(left_over: str, prepare: Prepare):
    run = prepare()
    leave_after(run, 25)
    (run / "checkpoints" / left_over).write_bytes(b"half")

    finish(run)

    assert {path.name for path in (run / "checkpoints").iterdir()} == {
        *(f"step-{step:06d}.safetensors" for step in (0, 20, 40, 60)),
        *(f"step-{step:06d}.state.safetensors" for step in (40, 60)),
    }


def test_a_resumed_run_goes_on_counting_its_time(prepare: Prepare):
    run = prepare()
    first = stop_after(run, 30).status

    last = finish(run).status

    assert last["elapsed_s"] > first["elapsed_s"] > 0
    assert last["cpu_s"] > first["cpu_s"] > 0
    text = (run / "metrics.jsonl").read_text()
    elapsed = [json.loads(line)["elapsed_s"] for line in text.splitlines()]
    assert elapsed == sorted(elapsed)


def test_a_second_trainer_is_refused_while_the_first_is_alive(prepare: Prepare):
    run = prepare(replace(LONG, n_steps=1_000_000))
    child = start_trainer(run)
    try:
        wait_until(lambda: (run / "metrics.jsonl").stat().st_size > 0, child)
        assert read_run(run).state == "running"

        with pytest.raises(LockedError) as caught:
            next(work(run))

        assert str(caught.value) == (f"{run.name} is being trained by another process right now.")
        n_lines = len((run / "metrics.jsonl").read_bytes().splitlines())
        wait_until(
            lambda: len((run / "metrics.jsonl").read_bytes().splitlines()) > n_lines + 5, child
        )
        request_stop(run)
        assert child.wait(timeout=PATIENCE_S) == 0
        assert read_run(run).state == "stopped"
    finally:
        child.kill()
        child.wait(timeout=PATIENCE_S)


def test_a_run_that_is_done_refuses_more_work_and_stays_as_it_is(uninterrupted: Path):
    before = content(uninterrupted)

    with pytest.raises(RunError) as caught:
        finish(uninterrupted)

    assert str(caught.value) == (f"{uninterrupted.name} is done; there is nothing left to train.")
    assert content(uninterrupted) == before


def test_a_changed_names_file_is_refused_and_the_run_stays_as_it_is(
    uninterrupted: Path, prepare: Prepare, tmp_path: Path
):
    run, names = prepare(), tmp_path / "names.txt"
    stop_after(run, 30)
    before, text = content(run), names.read_text()

    names.write_text(text + "\n")  # a blank line: the names are the same, the file is not
    with pytest.raises(DataError) as caught:
        finish(run)

    assert str(caught.value) == (
        f"{names} is not the file this run was made with: its content has changed. "
        "Put the old file back, or train anew."
    )
    assert content(run) == before
    names.write_text(text)
    finish(run)
    assert_nothing_differs(run, uninterrupted)


def test_a_deleted_names_file_is_a_sentence_and_the_run_stays_as_it_is(
    prepare: Prepare, tmp_path: Path
):
    run, names = prepare(), tmp_path / "names.txt"
    stop_after(run, 30)
    before = content(run)

    names.unlink()
    with pytest.raises(UsageError) as caught:
        finish(run)

    assert str(caught.value) == (
        f"'{names}' is not there. Give the path of a text file with one name a line."
    )
    assert content(run) == before


def test_another_alphabet_than_the_runs_is_refused(prepare: Prepare):
    run = prepare()
    letters = json.loads((run / "vocabulary.json").read_text())
    (run / "vocabulary.json").write_text(json.dumps([*letters, "z"]))

    with pytest.raises(DataError, match="is not the file this run was made with"):
        finish(run)


@pytest.mark.parametrize(
    ("name", "text"),
    [("config.json", ""), ("config.json", "{}"), ("config.json", "[]"), ("vocabulary.json", "{")],
)
def test_a_damaged_run_cannot_be_worked_on(name: str, text: str, prepare: Prepare):
    run = prepare()
    (run / name).write_text(text)

    with pytest.raises(DataError):
        finish(run)


@pytest.mark.parametrize("damage", ["sha256", "threads", "device", "vocabulary", "status"])
def test_a_run_with_something_missing_cannot_be_worked_on(damage: str, prepare: Prepare):
    run = prepare()
    config = json.loads((run / "config.json").read_text())
    if damage == "vocabulary":
        (run / "vocabulary.json").write_text("null")
    elif damage == "status":
        (run / "status.json").write_text("[]")
    else:
        del (config["data"] if damage == "sha256" else config)[damage]
        (run / "config.json").write_text(json.dumps(config))

    with pytest.raises(DataError):
        finish(run)


@pytest.mark.parametrize("eval_interval", [1, 20])
def test_a_run_that_diverges_fails_at_its_last_good_checkpoint(
    eval_interval: int, prepare: Prepare
):
    wild = replace(SHORT, learning_rate=1e30, warmup_steps=0, eval_interval=eval_interval)
    run = prepare(wild)

    with pytest.raises(DivergedError) as caught:
        finish(run)

    error = str(caught.value)
    summary = read_run(run)
    assert summary.state == "failed"
    assert summary.status["error"] == error
    assert error.endswith(f" The last good checkpoint is that of step {summary.step}.")
    assert "--set train.learning_rate" in error
    trained = load_model(run, torch.device("cpu"))
    assert trained.header.step == summary.step == latest_resumable(run)
    assert all(bool(parameter.isfinite().all()) for parameter in trained.model.parameters())


def test_a_step_that_is_no_number_is_told_with_rate_and_norm_and_not_taken(prepare: Prepare):
    wild = replace(SHORT, learning_rate=1e30, warmup_steps=0)
    run = prepare(wild)

    with pytest.raises(DivergedError) as caught:
        finish(run)

    line = lines(run)[-1]
    assert line["loss"] is None
    assert line["nonfinite"] in ("nan", "inf", "-inf")
    assert f"step {line['step']} gave a loss of {line['nonfinite']}" in str(caught.value)
    assert "with a gradient norm of " in str(caught.value)
    rate = learning_rate_at(line["step"] - 1, 60, wild)
    assert line["learning_rate"] == rate
    assert f"at learning rate {rate:.3g}, so it was not taken" in str(caught.value)


def test_weights_that_are_no_numbers_are_never_saved(prepare: Prepare):
    run = prepare(replace(SHORT, learning_rate=1e39, warmup_steps=0))  # beyond float32

    with pytest.raises(DivergedError, match=r"^after step 1 a weight is no longer a number\."):
        stop_after(run, 1)  # before any loss could tell

    assert (read_run(run).state, read_run(run).step) == ("failed", 0)
    assert checkpoint_steps(run) == [0]
    assert latest_resumable(run) == 0


def test_a_diverged_run_diverges_at_the_same_step_again(prepare: Prepare):
    run = prepare(replace(SHORT, learning_rate=1e30, warmup_steps=0))
    errors: list[str] = []

    for _ in range(2):
        with pytest.raises(DivergedError) as caught:
            finish(run)
        errors.append(str(caught.value))

    assert errors[0] == errors[1]


def test_a_checkpoint_that_cannot_be_written_fails_the_run(uninterrupted: Path, prepare: Prepare):
    run = prepare()
    (run / "checkpoints").rmdir()
    (run / "checkpoints").write_text("a file")

    with pytest.raises(RunError, match="can't be written: Not a directory"):
        finish(run)

    assert read_run(run).state == "failed"
    assert "Not a directory" in status(run)["error"]
    (run / "checkpoints").unlink()
    (run / "checkpoints").mkdir()
    finish(run)
    assert_nothing_differs(run, uninterrupted)


def test_other_threads_than_the_runs_are_told_and_recorded(prepare: Prepare):
    run = prepare()
    try:
        started, *_ = work(run, n_threads=2, should_stop=lambda: True)
    finally:
        torch.set_num_threads(1)

    assert isinstance(started, Started)
    assert started.notes == ("2 threads instead of 1: bits will differ.",)
    assert (status(run)["threads"], status(run)["device"]) == (2, "cpu")


def test_the_runs_own_threads_and_device_need_no_note(prepare: Prepare):
    run = prepare()

    started, *_ = work(run, device="cpu", n_threads=1, should_stop=lambda: True)

    assert isinstance(started, Started)
    assert started.notes == ()
    assert (started.run, started.step, started.n_steps) == (run, 0, 60)
