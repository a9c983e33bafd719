"""Which run to look at: those with weights, and a list to choose from. No torch here."""

from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option

from core.checkpoint_files import checkpoint_steps
from core.runs import RunSummary, list_runs
from tui.paths import runs_root


def runs_with_weights() -> list[RunSummary]:
    """List the runs that have a checkpoint, the newest first."""
    return [run for run in reversed(list_runs(runs_root())) if checkpoint_steps(run.path)]


def short_name(run: Path) -> str:
    """Leave the date out of a run's name: fast-3f9a."""
    return run.name.split("-", 2)[-1]


class RunChooser(ModalScreen[Path | None]):
    """A list of runs; the result is the one chosen, or None."""

    DEFAULT_CSS = """
    RunChooser {
        align: center middle;
        & > Label { width: 64; max-width: 90%; background: $surface; padding: 0 1; }
        & > OptionList { width: 64; max-width: 90%; height: auto; max-height: 60%; border: none; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss(None)", "Leave")]

    def __init__(self, now: Path | None) -> None:
        super().__init__()
        self._now = now
        self._runs = runs_with_weights()

    def compose(self) -> ComposeResult:
        """Lay out the list under its heading."""
        yield Label("Which run?  enter takes it, esc leaves", markup=False)
        yield OptionList(*(Option(_line(run), id=run.name) for run in self._runs))

    def on_mount(self) -> None:
        """Begin on the run that is shown now."""
        names = [run.path for run in self._runs]
        if self._now in names:
            self.query_one(OptionList).highlighted = names.index(self._now)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Answer with the run that was chosen."""
        self.dismiss(self._runs[event.option_index].path)


def _line(run: RunSummary) -> Text:
    loss = "" if run.val_loss is None else f"val {run.val_loss:.3f}"
    return Text(f"{run.name:36}  {run.state:8} {loss}", no_wrap=True, overflow="ellipsis")
