import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from core.locks import holding
from core.runs import RunWriter, create_run, list_runs, read_run
from tui import jobs
from tui.app import QkvApp
from tui.screens.confirm import AskWord, Question
from tui.screens.new_run import Order, prepare
from tui.screens.runs import RunsScreen
from tui.screens.train import NO_RUN, TrainScreen
from tui.widgets.because import Because
from tui.widgets.curves import Curves

Session = Callable[[QkvApp, Pilot[None]], Coroutine[Any, Any, None]]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("QKV_HOME", str(tmp_path))
    return tmp_path


def new_run(home: Path, slug: str = "tiny") -> Path:
    config = {"kind": "gpt", "preset": "fast", "train": {"layout": "packed"}, "threads": 1}
    return create_run(home / "runs", slug, config, (".", "a"))


def write(writer: RunWriter, steps: range, loss: float = 2.0) -> None:
    for step in steps:
        writer.metric(
            {
                "step": step,
                "split": "batch",
                "loss": loss,
                "learning_rate": 0.002,
                "grad_norm": 1.25,
                "chars_per_s": 54321,
                "elapsed_s": step / 4,
            }
        )
        if step % 10 == 0:
            writer.metric({"step": step, "split": "train", "loss": loss})
            writer.metric({"step": step, "split": "val", "loss": loss + 0.25})
            writer.samples(step, 1.0, [f"ann{step}", "[b]", ""])


def done_run(home: Path, slug: str = "tiny", loss: float = 2.0) -> Path:
    run = new_run(home, slug)
    writer = RunWriter(run)
    write(writer, range(1, 21), loss)
    writer.status("done", step=20, n_steps=20, n_params=123, bigram={"val": 2.5})
    writer.close()
    return run


def text(app: QkvApp, selector: str) -> str:
    return str(app.screen.query_one(selector, Static).content)


def because(app: QkvApp) -> str:
    return str(app.screen.query_one(Because).content)


def curves(app: QkvApp) -> str:
    return app.screen.query_one(Curves).render().plain


async def until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await pilot.pause(0.02)


def play(session: Session, size: tuple[int, int] = (80, 24)) -> None:
    async def run() -> None:
        app = QkvApp("train")
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: isinstance(app.screen, TrainScreen))
            await session(app, pilot)

    asyncio.run(run())


def test_without_a_run_it_says_what_enter_does():
    async def session(app: QkvApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: curves(app) == NO_RUN)

    play(session)


def test_a_done_run_shows_curves_facts_samples_and_what_its_loss_means(home: Path):
    done_run(home)

    async def session(app: QkvApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "bigram" in curves(app))
        assert "2.250 nats a letter = 3.246 bits = perplexity 9.5; bigram 2.500" in because(app)
        assert "20/20  100%" in text(app, "#title")
        assert "ann20" in text(app, "#samples")
        assert "[b]" in text(app, "#samples")
        assert "(empty)" in text(app, "#samples")

    play(session)


def test_a_run_started_elsewhere_is_followed_as_it_grows(home: Path):
    run = new_run(home)

    async def session(app: QkvApp, pilot: Pilot[None]) -> None:
        with holding(run / "run.lock", "held"):
            writer = RunWriter(run)
            writer.status("running", step=0, n_steps=40, n_params=123, bigram={"val": 2.5})
            write(writer, range(1, 11))
            await until(pilot, lambda: "10/40  25%" in text(app, "#title"))
            assert "7.5 s to go" in text(app, "#title")
            write(writer, range(11, 21))
            await until(pilot, lambda: "20/40  50%" in text(app, "#title"))
            await pilot.press("s")
            await until(pilot, lambda: (run / "stop").exists())
            writer.close()
        await until(pilot, lambda: "lost" in text(app, "#title"))

    play(session)


def test_l_draws_on_a_logarithmic_axis(home: Path):
    done_run(home)

    async def session(app: QkvApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "bigram" in curves(app))
        screen = app.screen
        assert isinstance(screen, TrainScreen)
        await pilot.press("l")
        await until(pilot, lambda: screen.query_one(Curves).is_log)

    play(session)


def test_marked_runs_are_laid_over(home: Path):
    done_run(home, "one")
    done_run(home, "two", 1.5)

    async def session(app: QkvApp, pilot: Pilot[None]) -> None:
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))
        await pilot.press("down", "space", "up", "enter")
        await until(pilot, lambda: isinstance(app.screen, TrainScreen))
        await until(pilot, lambda: "-one-" in curves(app) and "-two-" in curves(app))
        assert "best: two" in because(app)

    play(session)


def test_a_run_is_renamed_and_deleted_after_a_question(home: Path):
    done_run(home)

    async def session(app: QkvApp, pilot: Pilot[None]) -> None:
        await pilot.press("a")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, AskWord))
        await pilot.press("end", "2", "enter")
        await until(pilot, lambda: "is now" in because(app))
        assert "-tiny2-" in list_runs(home / "runs")[0].name
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, Question))
        await pilot.press("enter")  # the first answer keeps it
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))
        assert len(list_runs(home / "runs")) == 1
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, Question))
        await pilot.press("d")
        await until(pilot, lambda: list_runs(home / "runs") == [])
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, TrainScreen))
        await until(pilot, lambda: curves(app) == NO_RUN)

    play(session)


def test_a_living_run_is_neither_renamed_nor_deleted(home: Path):
    run = done_run(home)

    async def session(app: QkvApp, pilot: Pilot[None]) -> None:
        with holding(run / "run.lock", "held"):
            await pilot.press("a")
            await until(pilot, lambda: isinstance(app.screen, RunsScreen))
            await pilot.press("d")
            await until(pilot, lambda: isinstance(app.screen, Question))
            await pilot.press("d")
            await until(pilot, lambda: "stop it before deleting it" in because(app))
        assert run.is_dir()

    play(session)


def test_too_little_room_is_one_line(home: Path):
    done_run(home)

    async def session(app: QkvApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: bool(app.screen.query_one("#room").display))
        assert not app.screen.query_one("#middle").display

    play(session, (30, 8))


def test_leaving_while_a_run_of_ours_trains_asks(home: Path):
    names = home / "names.txt"
    names.write_text("".join(f"{a}{b}{c}\n" for a in "bdklm" for b in "aeiou" for c in "nrst"))
    settings = (
        *("model.d_model=16", "model.n_heads=2", "model.n_layers=1", "train.n_steps=100000"),
        f"data.path={names}",
    )
    run = prepare(Order(slug="tiny", device="cpu", settings=settings))

    async def session(app: QkvApp, pilot: Pilot[None]) -> None:
        await pilot.press("r")  # a queued run is taken up like one that was left
        await until(pilot, lambda: read_run(run).status["state"] == "running")
        await app.run_action("quit")
        await until(pilot, lambda: isinstance(app.screen, Question))
        await pilot.press("c")
        await until(pilot, lambda: isinstance(app.screen, TrainScreen))
        await app.run_action("quit")
        await until(pilot, lambda: isinstance(app.screen, Question))
        await pilot.press("s")
        await until(pilot, lambda: not jobs.alive())

    play(session)
    jobs.take_dead()
    assert list_runs(home / "runs")[0].state == "stopped"
    assert run.is_dir()
