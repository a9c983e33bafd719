import asyncio
from pathlib import Path

import pytest
from textual.widgets import Input, Select

from core.runs import list_runs, read_config
from data.errors import UserError
from tui.app import QkvApp
from tui.screens.new_run import NewRunScreen, Order, plan_of, prepare
from tui.screens.train import TrainScreen
from tui.widgets.because import Because


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("QKV_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("order", "sentence"),
    [
        (Order(threads="0"), "threads must be at least 1"),
        (Order(threads="two"), "threads is 'two'; it must be a whole number."),
        (Order(seed="-1"), "seed is -1"),
        (Order(slug="Wide 2"), "can't be a run's name"),
        (Order(settings=("model.n_heads=5",)), "cannot be shared equally by n_heads"),
    ],
)
def test_an_order_is_refused_with_the_sentence_of_the_command_line(order: Order, sentence: str):
    with pytest.raises(UserError, match=sentence):
        plan_of(order)


def test_an_order_becomes_a_queued_run_with_its_settings(home: Path):
    run = prepare(Order(slug="wide", threads="2", seed="7", settings=("model.d_model=32",)))

    config = read_config(run)
    assert [found.state for found in list_runs(home / "runs")] == ["queued"]
    assert (config["threads"], config["seed"], config["model"]["d_model"]) == (2, 7, 32)
    assert "-wide-" in run.name


async def fill_in() -> tuple[str, str, Order | None, list[str]]:
    app = QkvApp("train")
    async with app.run_test(size=(80, 24)) as pilot, asyncio.timeout(30):
        while not isinstance(app.screen, TrainScreen):
            await pilot.pause(0.02)
        answers: list[Order | None] = []
        screen = NewRunScreen()
        app.push_screen(screen, answers.append)
        while not screen.query("#model-n_heads"):
            await pilot.pause(0.02)
        because = screen.query_one(Because)
        heads = screen.query_one("#model-n_heads", Input)
        heads.value = "5"
        while "n_heads (5)" not in str(because.content):
            await pilot.pause(0.02)
        refusal = str(because.content)
        heads.focus()
        await pilot.press("enter")
        assert app.screen is screen, "what can't be trained is not started"
        heads.value = "2"
        while "enter starts it" not in str(because.content):
            await pilot.pause(0.02)
        accepted = str(because.content)
        screen.query_one("#preset", Select).value = "mlp"
        while not screen.query("#model-d_embedding"):
            await pilot.pause(0.02)
        mlp_fields = [str(box.name) for box in screen.query("#settings Input").results(Input)]
        screen.query_one("#train-n_steps", Input).value = "50"
        screen.query_one("#name", Input).focus()
        await pilot.press("enter")
        while not answers:
            await pilot.pause(0.02)
        return refusal, accepted, answers[0], mlp_fields


def test_the_form_checks_while_typing_and_returns_what_was_changed():
    refusal, accepted, order, mlp_fields = asyncio.run(fill_in())

    assert "cannot be shared equally" in refusal
    assert "204,827 parameters" in accepted
    assert order == Order(preset="mlp", settings=("train.n_steps=50",))
    assert "model.n_heads" not in mlp_fields
