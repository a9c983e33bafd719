import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input, Static

from core.config import MLPConfig, ModelConfig
from tui.screens.choose_run import RunChooser
from tui.screens.inside import InsideScreen
from tui.widgets.because import Because
from tui.widgets.heatmap import HeadGrid, HeadMaps

GPT = ModelConfig(d_model=16, n_heads=2, n_layers=2, block_size=12, dropout=0.1)
MLP = MLPConfig(block_size=3, d_embedding=4, d_hidden=8)
TrainRuns = Callable[[Path, dict[str, ModelConfig | MLPConfig]], Path]
Play = Callable[[Pilot[None], InsideScreen], Awaitable[None]]


class Host(App[None]):
    """An app with this screen alone."""

    def on_mount(self) -> None:
        self.push_screen(InsideScreen())


@pytest.fixture(scope="module")
def qkv_home(tmp_path_factory: pytest.TempPathFactory, train_runs: TrainRuns) -> Path:
    """Train a tiny MLP and then a tiny GPT."""
    return train_runs(tmp_path_factory.mktemp("home"), {"mlp": MLP, "gpt": GPT})


async def wait_for(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    """Wait until something is true; counting pauses breaks on a busy machine."""
    async with asyncio.timeout(30):
        while not condition():
            await pilot.pause(0.02)


def said(screen: InsideScreen) -> str:
    return str(screen.query_one(Because).render())


def title(screen: InsideScreen) -> str:
    return str(screen.query_one("#head", Static).render())


def grid(screen: InsideScreen) -> HeadGrid:
    return screen.query_one(HeadGrid)


def seen(widget: HeadGrid | HeadMaps) -> list[str]:
    """Return the lines of a widget as text."""
    return [widget.render_line(y).text.rstrip() for y in range(widget.size.height)]


def play(
    home: Path, monkeypatch: pytest.MonkeyPatch, acts: Play, size: tuple[int, int] = (80, 24)
) -> None:
    """Open the screen on the newest run, wait for its heads, and act."""
    monkeypatch.setenv("QKV_HOME", str(home))

    async def run() -> None:
        app = Host()
        async with app.run_test(size=size) as pilot:
            await wait_for(pilot, lambda: isinstance(app.screen, InsideScreen))
            screen = app.screen
            assert isinstance(screen, InsideScreen)
            widgets = (grid(screen), screen.query_one(HeadMaps))
            await wait_for(pilot, lambda: "carries" in said(screen))
            await wait_for(pilot, lambda: all(len(seen(one)) > 2 for one in widgets))
            await acts(pilot, screen)
            await app.workers.wait_for_complete()

    asyncio.run(run())


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_a_head_is_shown_in_numbers_with_masked_cells(
    qkv_home: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
):
    async def acts(pilot: Pilot[None], screen: InsideScreen) -> None:
        lines = seen(grid(screen))
        assert lines[0].split() == [".", "e", "m", "m", "a"]
        assert lines[1].split() == [".", "1.00", "·", "·", "·", "·"]
        assert "‹" in lines[5]
        assert "·" not in lines[5]
        assert "previous" in title(screen)
        assert "(chance 0.32)" in title(screen)

    play(qkv_home, monkeypatch, acts, size)


def test_the_cursor_reads_the_arithmetic_and_stays_on_visible_cells(
    qkv_home: Path, monkeypatch: pytest.MonkeyPatch
):
    async def acts(pilot: Pilot[None], screen: InsideScreen) -> None:
        assert "a → m: q·k = " in said(screen)
        assert "/ √8 = " in said(screen)
        assert "softmax over 5 letters" in said(screen)
        await pilot.press(*["right"] * 5, *["up"] * 9)
        await wait_for(pilot, lambda: grid(screen).cursor == (0, 0))
        assert "softmax over 1 letter = 1.00" in said(screen)
        assert "carries 100% of what this head adds here" in said(screen)
        await pilot.press("down", "down", "right", "right", "right")
        await wait_for(pilot, lambda: grid(screen).cursor == (2, 2))

    play(qkv_home, monkeypatch, acts)


def test_tab_goes_through_all_heads(qkv_home: Path, monkeypatch: pytest.MonkeyPatch):
    async def acts(pilot: Pilot[None], screen: InsideScreen) -> None:
        titles: list[str] = []
        for head in ("0.1", "1.0", "1.1", "0.0"):
            await pilot.press("tab")
            await wait_for(pilot, lambda head=head: f"head {head} " in title(screen))
            titles.append(title(screen))
            assert f"‹{head}›" in "".join(seen(screen.query_one(HeadMaps)))
        assert len(set(titles)) == 4
        await pilot.press("shift+tab")
        await wait_for(pilot, lambda: "head 1.1 " in title(screen))

    play(qkv_home, monkeypatch, acts)


def test_silencing_a_head_says_what_it_costs(qkv_home: Path, monkeypatch: pytest.MonkeyPatch):
    async def acts(pilot: Pilot[None], screen: InsideScreen) -> None:
        await pilot.press("x")
        await wait_for(pilot, lambda: "without head 0.0" in said(screen))
        assert "on 20 validation names" in said(screen)
        assert "head 0.0×" in title(screen)
        assert "0.0×" in seen(screen.query_one(HeadMaps))[0]
        await pilot.press("x")
        await wait_for(pilot, lambda: "×" not in title(screen))

    play(qkv_home, monkeypatch, acts)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("daz", "'daz' has 'z' as letter 3"),
        ("Dad", "'Dad' has 'D' as letter 1"),
        ("dadadadadadada", "the name has 14 letters"),
    ],
)
def test_a_name_that_cannot_be_read_is_refused_as_attend_does(
    qkv_home: Path, monkeypatch: pytest.MonkeyPatch, name: str, sentence: str
):
    async def acts(pilot: Pilot[None], screen: InsideScreen) -> None:
        await pilot.press("n", *name, "enter")
        await wait_for(pilot, lambda: sentence in said(screen))
        await pilot.press("escape")
        assert screen.query_one("#text", Input).value == "emma"
        assert screen.focused is grid(screen)

    play(qkv_home, monkeypatch, acts)


def test_another_name_is_read(qkv_home: Path, monkeypatch: pytest.MonkeyPatch):
    async def acts(pilot: Pilot[None], screen: InsideScreen) -> None:
        await pilot.press("n", *"dalo", "enter")
        await wait_for(pilot, lambda: "d" in seen(grid(screen))[0])
        assert seen(grid(screen))[0].split() == [".", "d", "a", "l", "o"]

    play(qkv_home, monkeypatch, acts)


def test_a_head_is_copied_as_a_table(qkv_home: Path, monkeypatch: pytest.MonkeyPatch):
    async def acts(pilot: Pilot[None], screen: InsideScreen) -> None:
        await pilot.press("y")
        await wait_for(pilot, lambda: "Copied head 0.0" in said(screen))
        lines = screen.app.clipboard.splitlines()
        assert lines[0].split("\t") == ["", ".", "e", "m", "m", "a"]
        assert [len(line.split("\t")) for line in lines[1:]] == [2, 3, 4, 5, 6]
        assert sum(map(float, lines[5].split("\t")[1:])) == pytest.approx(1)

    play(qkv_home, monkeypatch, acts)


def test_another_run_is_chosen_and_an_mlp_has_nothing_to_look_at(
    qkv_home: Path, monkeypatch: pytest.MonkeyPatch
):
    async def acts(pilot: Pilot[None], screen: InsideScreen) -> None:
        await pilot.press("r")
        await wait_for(pilot, lambda: isinstance(screen.app.screen, RunChooser))
        await pilot.press("down", "enter")
        await wait_for(pilot, lambda: "is an MLP: it has no attention to look at." in said(screen))
        assert seen(grid(screen))[0] == ""

    play(qkv_home, monkeypatch, acts)


def test_without_colour_shades_carry_the_maps(qkv_home: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")

    async def acts(pilot: Pilot[None], screen: InsideScreen) -> None:
        lines = seen(screen.query_one(HeadMaps))
        assert lines[1].split()[0].startswith("█")
        assert "·" in lines[1]

    play(qkv_home, monkeypatch, acts)
