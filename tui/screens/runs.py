"""The list of runs: open one, mark others to lay over it, rename, delete. No torch here."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Static

from core.runs import RunSummary, check_slug, list_runs
from core.upkeep import delete_run, rename_run, size_of
from data.errors import UserError
from tui.paths import runs_root
from tui.screens.choose_run import short_name
from tui.screens.confirm import Answer, AskWord, Question
from tui.widgets.because import Because

COLUMNS = ("", "run", "state", "step", "val loss", "preset", "size")
REFRESH_S = 1.0
HINT = "enter shows the run under the cursor,\nand the marked ones (+) laid over it"


@dataclass(frozen=True, slots=True)
class Choice:
    """What to show."""

    run: Path | None
    """None where the last run was deleted."""
    others: tuple[Path, ...] = ()


class RunsScreen(Screen[Choice | None]):
    """All runs, the newest first."""

    DEFAULT_CSS = """
    RunsScreen {
        #where { height: 1; padding: 0 1; text-style: bold; margin-bottom: 1; }
        DataTable { height: 1fr; padding: 0 1; background: $background; }
        DataTable > .datatable--header { background: $background; }
        DataTable > .datatable--even-row { background: $background; }
        DataTable > .datatable--odd-row { background: $background; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "show"),
        Binding("space", "mark", "mark for overlay"),
        Binding("r", "rename", "rename"),
        Binding("d", "delete", "delete"),
        Binding("j", "down", show=False),
        Binding("k", "up", show=False),
        Binding("q,escape", "leave", "leave"),
    ]

    def __init__(self, now: Path | None, marked: list[Path]) -> None:
        super().__init__()
        self._now, self._marked = now, set(marked)
        self._runs: list[RunSummary] = []
        self._shown: list[tuple[str, ...]] = []

    def compose(self) -> ComposeResult:
        """Lay out the table."""
        yield Static("Runs", id="where", markup=False)
        yield DataTable[Text](cursor_type="row", show_row_labels=False)
        yield Because()
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Fill the table, put the cursor on the run that is shown, and stay up to date."""
        self._table.add_columns(*COLUMNS)
        self._fill()
        paths = [run.path for run in self._runs]
        if self._now in paths:
            self._table.move_cursor(row=paths.index(self._now))
        self.query_one(Because).say(HINT)
        self.set_interval(REFRESH_S, self._fill)

    @property
    def _table(self) -> DataTable[Text]:
        return self.query_one(DataTable)

    @property
    def _under_cursor(self) -> Path | None:
        row = self._table.cursor_row
        return self._runs[row].path if 0 <= row < len(self._runs) else None

    def _fill(self) -> None:
        """Write the rows anew, if anything has changed."""
        if not self.is_current and self._shown:
            return
        runs = list_runs(runs_root())[::-1]
        rows = [self._row(run) for run in runs]
        if rows == self._shown and [run.path for run in runs] == [run.path for run in self._runs]:
            return
        at = self._under_cursor
        self._runs, self._shown = runs, rows
        self._table.clear()
        for row in rows:
            self._table.add_row(*(Text(cell) for cell in row))
        paths = [run.path for run in runs]
        self._table.move_cursor(row=paths.index(at) if at in paths else 0)
        self.query_one("#where", Static).update(f"Runs   {len(runs)} in {runs_root()}")

    def _row(self, run: RunSummary) -> tuple[str, ...]:
        return (
            "+" if run.path in self._marked else " ",
            run.name if self.size.width > 90 else short_name(run.path),
            run.state,
            f"{run.step:,}/{run.status.get('n_steps', '?')}",
            "" if run.val_loss is None else f"{run.val_loss:.4f}",
            str(run.config.get("preset", "")),
            f"{size_of(run.path) / 1e6:.1f} MB",
        )

    def on_data_table_row_selected(self) -> None:
        """Show the run under the cursor."""
        self.action_open()

    def action_open(self) -> None:
        """Show the run under the cursor with the marked ones over it."""
        run = self._under_cursor
        if run is not None:
            others = [one.path for one in self._runs if one.path in self._marked - {run}]
            self.dismiss(Choice(run, tuple(others)))

    def action_mark(self) -> None:
        """Mark a run to be laid over, or take the mark away."""
        run = self._under_cursor
        if run is not None:
            self._marked ^= {run}
            self._fill()

    def action_down(self) -> None:
        """Move to the next run."""
        self._table.action_cursor_down()

    def action_up(self) -> None:
        """Move to the run before."""
        self._table.action_cursor_up()

    def action_rename(self) -> None:
        """Ask for another word in the run's name."""
        run = self._under_cursor
        if run is None:
            return
        word = short_name(run).rpartition("-")[0] or "run"

        def answered(slug: str | None) -> None:
            if slug is not None:
                self._try_rename(run, slug)

        self.app.push_screen(AskWord(f"Another word for {run.name}:", word, check_slug), answered)

    def _try_rename(self, run: Path, slug: str) -> None:
        try:
            renamed = rename_run(run, slug)
        except (UserError, OSError) as error:
            self.query_one(Because).say(str(error))
            return
        if run in self._marked:
            self._marked = self._marked - {run} | {renamed}
        self._now = renamed if run == self._now else self._now
        self._fill()
        self.query_one(Because).say(f"{run.name} is now {renamed.name}")

    def action_delete(self) -> None:
        """Ask whether the run may go."""
        run = self._under_cursor
        if run is None:
            return

        def answered(key: str | None) -> None:
            if key == "d":
                self._try_delete(run)

        size = f"{size_of(run) / 1e6:.1f} MB"
        text = f"Delete {run.name} ({size}) for good?"
        answers = (Answer("k", "keep it"), Answer("d", "delete it"), Answer("c", "cancel"))
        self.app.push_screen(Question(text, answers), answered)

    def _try_delete(self, run: Path) -> None:
        try:
            delete_run(run)
        except (UserError, OSError) as error:
            self.query_one(Because).say(str(error))
            return
        self._marked -= {run}
        self._fill()
        self.query_one(Because).say(f"deleted {run.name}")

    def action_leave(self) -> None:
        """Go back to the run that was shown, or to another if it is gone."""
        if self._now is None or (self._now / "config.json").is_file():
            renamed = Choice(self._now, tuple(self._marked)) if self._now else None
            self.dismiss(renamed)
        else:
            newest = self._runs[0].path if self._runs else None
            self.dismiss(Choice(newest))
