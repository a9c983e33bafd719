"""What can be typed into the palette: modes, runs, and the way out."""

from collections.abc import Callable, Iterator
from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from core.runs import list_runs
from tui.paths import runs_root

MOST_RUNS = 20


class QkvCommands(Provider):
    """Go somewhere, open a run, leave."""

    def _commands(self) -> Iterator[tuple[str, str, Callable[[], object]]]:
        for mode in self.app.MODES:
            yield mode.capitalize(), f"Go to {mode}", partial(self.app.switch_mode, mode)
        yield "Keys", "Show the keys that work here", partial(self._act, "help")
        yield "Theme", "Choose other colours", self.app.search_themes
        yield "Quit", "Leave the program", partial(self._act, "quit")
        for run in reversed(list_runs(runs_root())[-MOST_RUNS:]):
            yield f"Open run {run.name}", run.state, partial(self._open, run.name)

    async def _act(self, action: str) -> None:
        await self.app.run_action(action)

    async def _open(self, name: str) -> None:
        from tui.screens.train import TrainScreen

        await self.app.switch_mode("train")
        for screen in self.app.screen_stack:
            if isinstance(screen, TrainScreen):
                screen.attach(runs_root() / name)

    async def discover(self) -> Hits:
        """Offer all before anything is typed."""
        for name, help_text, run in self._commands():
            yield DiscoveryHit(name, run, help=help_text)

    async def search(self, query: str) -> Hits:
        """Offer what fits the letters typed."""
        matcher = self.matcher(query)
        for name, help_text, run in self._commands():
            score = matcher.match(name)
            if score > 0:
                yield Hit(score, matcher.highlight(name), run, help=help_text)
