import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from core.runs import create_run, read_run
from tui import jobs
from tui.screens.new_run import Order, prepare

PATIENCE_S = 60
TINY = (
    "model.d_model=16",
    "model.n_heads=2",
    "model.n_layers=1",
    "train.eval_interval=100000",
)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("QKV_HOME", str(tmp_path))
    names = tmp_path / "names.txt"
    names.write_text("".join(f"{a}{b}{c}\n" for a in "bdklm" for b in "aeiou" for c in "nrst"))
    settings = (*TINY, f"data.path={names}", "train.n_steps=100000")
    return prepare(Order(slug="tiny", device="cpu", settings=settings))


def test_a_trainer_works_in_a_session_of_its_own_and_stops_saved(run: Path):
    trainer = jobs.start(run)
    wait_for(lambda: read_run(run).status["state"] == "running")
    assert os.getsid(read_run(run).status["pid"]) != os.getsid(0)
    assert jobs.trainer_of(run) is trainer

    trainer.stop()
    wait_for(lambda: not trainer.is_alive)

    assert read_run(run).state == "stopped"
    assert trainer.last_words() == ""
    assert jobs.take_dead() == [trainer]
    assert jobs.alive() == []


def test_a_stop_right_after_the_start_is_not_forgotten(run: Path):
    trainer = jobs.start(run)
    trainer.stop()
    wait_for(lambda: not trainer.is_alive)

    assert read_run(run).state in ("queued", "stopped")
    assert trainer.last_words() == ""
    jobs.take_dead()


def test_a_killed_trainer_names_its_signal_and_the_run_can_go_on(run: Path):
    trainer = jobs.start(run)
    wait_for(lambda: read_run(run).status["state"] == "running")
    os.kill(read_run(run).status["pid"], signal.SIGKILL)
    wait_for(lambda: not trainer.is_alive)

    assert "SIGKILL, often out of memory" in trainer.last_words()
    assert read_run(run).state == "lost"
    jobs.take_dead()


def test_a_trainer_that_fails_is_heard_to_its_last_line(tmp_path: Path):
    run = create_run(tmp_path / "runs", "broken", {"kind": "gpt"}, (".", "a"))
    trainer = jobs.start(run)
    wait_for(lambda: not trainer.is_alive)

    assert "config.json is damaged" in trainer.last_words()
    assert "config.json is damaged" in (run / "stderr.log").read_text()
    jobs.take_dead()
