import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stderr, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.recording import Finished, Started
from core.training import DivergedError, Evaluated, Event, SafePoint, Sampled, Stepped
from tui.progress import follow

RUN = "20261130-141503-tiny-3f9a"
STARTED = Started(run=Path("runs") / RUN, step=0, n_steps=100, n_params=4172, notes=())
FINISHED = Finished(state="done", status={"step": 100})
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

Shown = Callable[..., str]


class Terminal(io.StringIO):
    """A stderr that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def stepped(step: int) -> Stepped:
    return Stepped(
        step=step, loss=2.25, learning_rate=0.01, grad_norm=1.0, n_chars=50, chars_per_s=12_345.6
    )


def evaluated(step: int) -> Evaluated:
    return Evaluated(step=step, train_loss=2.125, val_loss=2.5)


def training(started: Started = STARTED) -> Iterator[Started | Event | Finished]:
    """Tell what a trainer tells, shortened."""
    yield started
    yield evaluated(0)
    yield Sampled(step=0, temperature=1.0, names=((1, 2),))
    yield SafePoint(step=0, is_evaluation=True)
    yield stepped(1)
    yield SafePoint(step=1, is_evaluation=False)
    yield stepped(50)
    yield evaluated(50)
    yield FINISHED


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """Return what a terminal of 100 columns gets, with its escapes."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")

    def show(events: Iterable[Started | Event | Finished], *, as_json: bool = False) -> str:
        terminal = Terminal()
        with redirect_stderr(terminal), suppress(DivergedError):
            follow(events, as_json=as_json)
        return terminal.getvalue()

    return show


@pytest.mark.parametrize("as_json", [False, True])
def test_following_returns_how_the_training_ended(as_json: bool):
    assert follow(training(), as_json=as_json) is FINISHED


def test_a_log_has_a_line_for_the_start_and_one_for_each_evaluation(
    capsys: pytest.CaptureFixture[str],
):
    follow(training(), as_json=False)

    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"{RUN}: 4,172 parameters, training for 100 steps. Ctrl-C saves and stops.",
        "step 0/100: train 2.1250, val 2.5000",
        "step 50/100: train 2.1250, val 2.5000",
    ]


def test_a_resumed_training_says_where_it_goes_on(capsys: pytest.CaptureFixture[str]):
    follow(training(replace(STARTED, step=40)), as_json=False)

    first = capsys.readouterr().err.splitlines()[0]
    assert "going on at step 40 of 100 steps" in first
    assert "training for" not in first


@pytest.mark.parametrize("as_json", [False, True])
def test_what_a_person_should_know_goes_to_stderr(
    as_json: bool, capsys: pytest.CaptureFixture[str]
):
    follow(training(replace(STARTED, notes=("bits will differ.",))), as_json=as_json)

    out, err = capsys.readouterr()
    assert "bits will differ." in err.splitlines()
    assert "bits" not in out


def test_json_has_an_object_for_the_start_and_one_for_each_evaluation(
    capsys: pytest.CaptureFixture[str],
):
    follow(training(replace(STARTED, step=40)), as_json=True)

    out, err = capsys.readouterr()
    assert objects(out) == [
        {"event": "started", "run": RUN, "step": 40, "n_steps": 100, "n_params": 4172},
        {"event": "evaluation", "step": 0, "train_loss": 2.125, "val_loss": 2.5},
        {"event": "evaluation", "step": 50, "train_loss": 2.125, "val_loss": 2.5},
    ]
    assert err == ""


def test_json_stays_json_where_stderr_is_a_terminal(
    shown: Shown, capsys: pytest.CaptureFixture[str]
):
    told = shown(training(), as_json=True)

    assert told == ""
    assert [event["event"] for event in objects(capsys.readouterr().out)] == [
        "started",
        "evaluation",
        "evaluation",
    ]


def test_a_terminal_shows_percent_losses_speed_and_the_time_that_is_left(
    shown: Shown, capsys: pytest.CaptureFixture[str]
):
    told = ESCAPES.sub("", shown(training()))

    assert f"{RUN}: 4,172 parameters" in told
    assert re.search(r"50% \S+ train 2\.125  val 2\.500 12,346 letters/s \d\d:\d\d left", told), (
        told
    )
    assert capsys.readouterr().out == ""


def test_a_resumed_bar_begins_where_it_goes_on(shown: Shown):
    assert "40% " in ESCAPES.sub("", shown([replace(STARTED, step=40), FINISHED]))


def test_before_the_first_evaluation_a_bar_shows_the_batchs_loss(shown: Shown):
    told = ESCAPES.sub("", shown([STARTED, stepped(1), FINISHED]))

    assert re.search(r" 1% .*batch 2\.250", told), told


def test_a_bar_reads_no_markup_in_what_is_told(shown: Shown):
    assert "[/b] is no markup" in shown(training(replace(STARTED, notes=("[/b] is no markup",))))


def test_a_training_that_fails_gives_the_terminal_back(shown: Shown):
    def failing() -> Iterator[Started | Event | Finished]:
        yield STARTED
        yield stepped(1)
        raise DivergedError("step 2 gave a loss of nan")

    told = shown(failing())

    hidden, visible = "\x1b[?25l", "\x1b[?25h"  # the cursor
    assert 0 <= told.rfind(hidden) < told.rfind(visible)
