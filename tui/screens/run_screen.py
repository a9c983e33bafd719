"""What Sample and Inside share: find a run, open it behind the first paint, compute in threads.

No torch here: it is imported by the thread that opens the run.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from data.errors import UserError
from tui.paths import home
from tui.screens.choose_run import RunChooser, runs_with_weights, short_name
from tui.widgets.because import Because

if TYPE_CHECKING:
    from core.using import OpenRun

T = TypeVar("T")
LAST_KEYS = (Binding("o", "choose_run", "run"), Binding("q", "leave", "leave"))
"""For the end of every such screen's own keys: the footer keeps their order."""
NO_RUN = (
    "No run with weights yet. Enter opens Train: one takes about fifteen seconds.\n"
    "On the command line: qkv train"
)


class RunScreen(Screen[None]):
    """A screen about one run: the newest with weights, until another is chosen."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "train", "train", show=False)]

    def __init__(self) -> None:
        super().__init__()
        self.run_path: Path | None = None
        self.opened: OpenRun | None = None
        self.said = ""
        """What stands on the because line."""

    def on_screen_resume(self) -> None:
        """Look for a run, as long as there is none."""
        if self.run_path is not None:
            return
        runs = runs_with_weights()
        if runs:
            self.open_run(runs[0].path)
        else:
            self.say(NO_RUN)

    def open_run(self, run: Path) -> None:
        """Load a run's weights in a thread, and tell so."""
        self.run_path, self.opened = run, None
        self.show_run(short_name(run))
        self.say(f"loading torch and {short_name(run)} ...")
        self.compute("open", partial(_load, run), self._take)

    def _take(self, opened: "OpenRun") -> None:
        self.opened = opened
        self.say("")
        self.begin(opened)

    def show_run(self, title: str) -> None:
        """Write the run's name into the title line; what was shown of another goes."""
        raise NotImplementedError

    def begin(self, opened: "OpenRun") -> None:
        """Start with a run that was just opened."""
        raise NotImplementedError

    def say(self, text: str) -> None:
        """Write on the because line."""
        self.said = text
        self.query_one(Because).say(text)

    def compute(self, group: str, task: Callable[[], T], show: Callable[[T], None]) -> None:
        """Run a task in a thread, and show its result; a newer task of the group replaces it."""

        def work() -> Callable[[], None]:
            return partial(show, task())

        self.run_worker(work, group=group, thread=True, exclusive=True, exit_on_error=False)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Show what a thread found, or say what stood in its way."""
        if event.state is WorkerState.SUCCESS and event.worker.result is not None:
            event.worker.result()
        elif event.state is WorkerState.ERROR:
            error = event.worker.error
            self.say(str(error) if isinstance(error, UserError) else f"A fault of qkv: {error!r}")
            self.failed(event.worker.group)

    def failed(self, group: str) -> None:
        """Put right what a task that failed leaves behind."""

    def action_choose_run(self) -> None:
        """Let another run be chosen."""

        def chosen(run: Path | None) -> None:
            if run is not None and run != self.run_path:
                self.open_run(run)

        self.app.push_screen(RunChooser(self.run_path), chosen)

    def action_train(self) -> None:
        """Go where a run can be trained."""
        if "train" in self.app.MODES:
            self.app.switch_mode("train")

    def action_leave(self) -> None:
        """Go back to where this screen was opened, or home, or out."""
        if len(self.app.screen_stack) > 1:
            self.app.pop_screen()
        elif "train" in self.app.MODES:
            self.app.switch_mode("train")
        else:
            self.app.exit()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer training only where there is no run."""
        del parameters
        return self.run_path is None if action == "train" else True

    def copy(self, table: str, what: str) -> None:
        """Copy a table, and keep it in a file for terminals that don't pass copies on."""
        file = home() / "copied.tsv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(table, encoding="utf-8")
        self.app.copy_to_clipboard(table)
        self.say(f"Copied {what} as a table;\nalso in {file}")


def _load(run: Path) -> "OpenRun":
    from core.using import open_run

    opened = open_run(run)
    # Two threads may use the model at once: neither may find it in training mode.
    opened.trained.model.eval()
    return opened
