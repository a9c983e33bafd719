import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from rich.text import Text
from textual.app import App
from textual.coordinate import Coordinate
from textual.pilot import Pilot
from textual.widgets import DataTable, Input

from core.config import MLPConfig, ModelConfig
from core.nearest import Neighbour
from core.views import NamedSample
from tui.screens.sample import SampleScreen
from tui.screens.sample_texts import N_DRAWS, Wish, name_sentence
from tui.widgets.bars import LetterBars, bar
from tui.widgets.because import Because

TrainRuns = Callable[[Path, dict[str, ModelConfig | MLPConfig]], Path]
Play = Callable[[Pilot[None], SampleScreen], Awaitable[None]]


class Host(App[None]):
    """An app with this screen alone."""

    def on_mount(self) -> None:
        self.push_screen(SampleScreen())


@pytest.fixture(scope="module")
def qkv_home(tmp_path_factory: pytest.TempPathFactory, train_runs: TrainRuns) -> Path:
    """Train one tiny run."""
    model = ModelConfig(d_model=16, n_heads=2, n_layers=1, block_size=12, dropout=0.1)
    return train_runs(tmp_path_factory.mktemp("home"), {"fast": model})


async def wait_for(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Wait until something is true; counting pauses breaks on a busy machine."""
    async with asyncio.timeout(30):
        while not condition():
            await pilot.pause(0.02)


def said(screen: SampleScreen) -> str:
    return str(screen.query_one(Because).render())


def table(screen: SampleScreen) -> DataTable[Text]:
    found: DataTable[Text] = screen.query_one("#names", DataTable)
    return found


def names_under(screen: SampleScreen, column: int) -> list[str]:
    rows = table(screen)
    places = (Coordinate(row, column) for row in range(rows.row_count))
    return [str(rows.get_cell_at(place)) for place in places]


def play(home: Path, monkeypatch: pytest.MonkeyPatch, acts: Play) -> None:
    """Open the screen on the run, wait for its first names, and act."""
    monkeypatch.setenv("QKV_HOME", str(home))

    async def run() -> None:
        app = Host()
        async with app.run_test(size=(80, 24)) as pilot:
            await wait_for(pilot, lambda: isinstance(app.screen, SampleScreen))
            screen = app.screen
            assert isinstance(screen, SampleScreen)
            await wait_for(pilot, lambda: "a letter" in said(screen))
            await acts(pilot, screen)
            await app.workers.wait_for_complete()

    asyncio.run(run())


def test_the_same_draws_stand_side_by_side(qkv_home: Path, monkeypatch: pytest.MonkeyPatch):
    async def acts(pilot: Pilot[None], screen: SampleScreen) -> None:
        assert table(screen).row_count == N_DRAWS
        labels = [str(column.label).strip() for column in table(screen).ordered_columns]
        assert labels == ["T 0.5", "‹T 0.8›", "T 1", "T 1.3"]
        await wait_for(pilot, lambda: screen.query_one(LetterBars).letter is not None)

    play(qkv_home, monkeypatch, acts)


def test_resampling_takes_the_next_seed(qkv_home: Path, monkeypatch: pytest.MonkeyPatch):
    async def acts(pilot: Pilot[None], screen: SampleScreen) -> None:
        before = names_under(screen, 1)
        await pilot.press("r")
        await wait_for(pilot, lambda: names_under(screen, 1) != before)

    play(qkv_home, monkeypatch, acts)


def test_a_prompt_begins_every_name(qkv_home: Path, monkeypatch: pytest.MonkeyPatch):
    async def acts(pilot: Pilot[None], screen: SampleScreen) -> None:
        await pilot.press("e", *"da", "enter")
        await wait_for(pilot, lambda: all(n.startswith("da") for n in names_under(screen, 0)))
        assert screen.focused is table(screen)

    play(qkv_home, monkeypatch, acts)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (["e", *"daz", "enter"], "'daz' has 'z' as letter 3"),
        (["e", *"dadadadadadada", "enter"], "the prompt has 14 letters"),
        (["t", "backspace", "backspace", "backspace", "-", "1", "enter"], "temperature is -1.0;"),
        (["t", "x", "enter"], "temperature is 'x'; it must be a number."),
        (["k", "0", "enter"], "top-k is 0; at least 1 letter"),
        (["p", "2", "enter"], "top-p is 2.0; it must be above 0"),
    ],
)
def test_what_cannot_be_is_said_and_the_names_stay(
    qkv_home: Path, monkeypatch: pytest.MonkeyPatch, keys: list[str], sentence: str
):
    async def acts(pilot: Pilot[None], screen: SampleScreen) -> None:
        before = names_under(screen, 0)
        await pilot.press(*keys)
        await wait_for(pilot, lambda: sentence in said(screen).replace("\n", " "))
        assert names_under(screen, 0) == before
        await pilot.press("escape")
        assert screen.query_one("#temperature", Input).value == "0.8"

    play(qkv_home, monkeypatch, acts)


def test_enter_steps_through_letters_and_branches(qkv_home: Path, monkeypatch: pytest.MonkeyPatch):
    async def acts(pilot: Pilot[None], screen: SampleScreen) -> None:
        bars = screen.query_one(LetterBars)
        await wait_for(pilot, lambda: bars.letter is not None)
        await pilot.press("enter", "right")
        await wait_for(pilot, lambda: "was drawn at" in said(screen))
        assert bars.letter is not None
        assert len(bars.letter.before) == 1
        beginning = bars.letter.before
        await pilot.press("b")
        await wait_for(pilot, lambda: screen.query_one("#prompt", Input).value == beginning)
        await wait_for(pilot, lambda: all(n[0] == beginning for n in names_under(screen, 3)))

    play(qkv_home, monkeypatch, acts)


def test_names_are_copied_as_a_table(qkv_home: Path, monkeypatch: pytest.MonkeyPatch):
    async def acts(pilot: Pilot[None], screen: SampleScreen) -> None:
        await pilot.press("y")
        await wait_for(pilot, lambda: "Copied 80 names" in said(screen))
        lines = screen.app.clipboard.splitlines()
        assert lines[0].split("\t")[2] == "name"
        assert len(lines) == 1 + 4 * N_DRAWS
        assert (qkv_home / "copied.tsv").read_text() == screen.app.clipboard

    play(qkv_home, monkeypatch, acts)


def test_without_a_run_the_screen_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("QKV_HOME", str(tmp_path))

    async def run() -> None:
        app = Host()
        async with app.run_test(size=(80, 24)) as pilot:
            await wait_for(pilot, lambda: isinstance(app.screen, SampleScreen))
            screen = app.screen
            assert isinstance(screen, SampleScreen)
            await wait_for(pilot, lambda: "No run with weights yet" in said(screen))

    asyncio.run(run())


def test_the_chosen_temperature_stands_among_the_others():
    assert Wish(temperature=0.8).temperatures == [0.5, 0.8, 1.0, 1.3]
    assert Wish(temperature=1.0).temperatures == [0.5, 1.0, 1.3]


def test_a_bar_has_the_length_of_its_share():
    assert bar(0.5, 4) == "██  "
    assert bar(0.0, 4) == "    "
    assert bar(1 / 32, 4) == "▏   "
    assert bar(1.0, 4, ascii_only=True) == "####"


def test_a_name_is_told_with_its_nearest_and_its_chance():
    name = NamedSample(name="marlyse", novelty="new", log_prob=-9.82, is_finished=True)

    assert name_sentence(name, Neighbour("marlise", 1)) == (
        '"marlyse" is new; nearest training name marlise (1 letter apart);\n'
        "−9.82 nats, 1.23 a letter"
    )
