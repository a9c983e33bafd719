"""Train: a run's curves while they grow, its facts and its names; start, stop, resume, overlay."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Footer, Static

from core.runs import is_alive, list_runs, request_stop
from data.errors import UserError
from tui import jobs
from tui.paths import runs_root
from tui.screens.confirm import Answer, Question
from tui.screens.new_run import NewRunScreen, Order, prepare
from tui.screens.runs import Choice, RunsScreen
from tui.screens.train_texts import (
    GOING_ON,
    because_lines,
    facts,
    read_samples,
    samples_table,
    title_line,
)
from tui.watching import Watched, series_of
from tui.widgets.because import Because
from tui.widgets.curves import Curves
from tui.widgets.heatmap import is_ascii

LOOK_EVERY_S = 0.25
MOST_LINES = 2000  # of metrics for each look, so that keys never wait
NO_RUN = "No run yet. Enter trains one in about fifteen seconds."
TO_ASCII = str.maketrans("·–…", "--~")


class TrainScreen(Screen[None]):
    """One run, others laid over it, and what can be done with them."""

    CSS_PATH = "train.tcss"
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "begin", "train one"),
        Binding("n", "new", "new", tooltip="train another model: preset, settings, device"),
        Binding("s", "stop", "stop", tooltip="stop and save"),
        Binding("r", "resume", "resume", tooltip="go on where the run was left"),
        Binding("l", "log", "log scale"),
        Binding("o", "overlay", "overlay", tooltip="lay other runs' curves over this one"),
        Binding("a", "attach", "runs", tooltip="list of runs: attach, rename, delete"),
        Binding("q", "leave", "leave"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (40, "-narrow"), (70, "-normal")]
        self.VERTICAL_BREAKPOINTS = [(0, "-low"), (12, "-flat"), (20, "-short"), (36, "-tall")]
        self.watched: Watched | None = None
        self.others: list[Watched] = []
        self._log_y = False
        self._words: dict[Path, str] = {}
        self._drawn: object = None
        self._is_preparing = False

    def compose(self) -> ComposeResult:
        """Lay out curves beside facts, above the names."""
        yield Static("Train", id="title", markup=False)
        with Horizontal(id="middle"):
            yield Curves()
            yield Static(id="facts", markup=False)
        yield Static(id="samples", markup=False)
        yield Static("Enlarge to 40 x 12.", id="room", markup=False)
        yield Because()
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Show the newest run, and look at it four times a second."""
        runs = list_runs(runs_root())
        if runs:
            self.attach(runs[-1].path)
        self._tick()
        self.set_interval(LOOK_EVERY_S, self._tick)

    def on_screen_resume(self) -> None:
        """Catch up with what happened while another screen was shown."""
        self._drawn = None
        self._tick()

    def attach(self, run: Path, others: Sequence[Path] = ()) -> None:
        """Show a run, started by whomever, with others laid over it."""
        self.watched = Watched(run)
        self.others = [Watched(other) for other in others if other != run]
        self._drawn = None
        self.refresh_bindings()

    def _tick(self) -> None:
        """Hear the dead, read what is new, and draw it if anybody sees it."""
        for trainer in jobs.take_dead():
            self._tell_death(trainer)
        if not self.is_current:
            return
        if self.watched is None:
            self._show_empty()
            return
        new = 0
        for run in (self.watched, *self.others):
            try:
                new += len(run.look(MOST_LINES))
            except (OSError, ValueError):  # deleted while we looked, or damaged
                continue
        self._draw(self.watched, has_news=bool(new))

    def _tell_death(self, trainer: jobs.Trainer) -> None:
        words = trainer.last_words()
        if words:
            self._words[trainer.run] = words
            self.app.notify(
                words, title=trainer.run.name, severity="error", timeout=15, markup=False
            )
        self._drawn = None

    def _show_empty(self) -> None:
        text = "Preparing: reading the names ..." if self._is_preparing else NO_RUN
        self.query_one(Curves).say(text)
        self.query_one("#samples", Static).update("")
        self.query_one("#facts", Static).update("")
        self.query_one("#title", Static).update("Train")
        self._because("a model learns names letter by letter; n chooses which model and how")

    def _draw(self, run: Watched, *, has_news: bool) -> None:
        trainer = jobs.trainer_of(run.summary.path)
        stopping_s = trainer.stopping_s if trainer else None
        status = run.summary.status
        box = self.query_one("#samples", Static)
        state = (run.summary.state, status.get("step"), trainer is not None)
        looks = (*state, self._log_y, self.size, box.size)
        if stopping_s is not None or (trainer is not None and not run.is_live):
            has_news = True
        if not has_news and looks == self._drawn:
            return
        if self._drawn is None or looks != self._drawn:
            self.refresh_bindings()
        self._drawn = looks
        title = title_line(run, stopping_s, is_ours=trainer is not None)
        self.query_one("#title", Static).update(self._plain(title))
        self._draw_curves(run)
        self.query_one("#facts", Static).update(self._facts(run))
        box.update(
            samples_table(
                read_samples(run.summary.path),
                max(20, self.size.width - 2),
                box.size.height or 4,
                ascii_only=is_ascii(),
            )
        )
        self._because(because_lines(run, self.others, self._words.get(run.summary.path, "")))

    def _draw_curves(self, run: Watched) -> None:
        curves = self.query_one(Curves)
        shown = [run, *self.others]
        if any(xs for one in shown for xs, _ in one.curves.values()):
            curves.show(series_of(shown), log_y=self._log_y)
        else:
            curves.say("The curves begin with the first step.")

    def _facts(self, run: Watched) -> Table:
        table = Table.grid(padding=(0, 1))
        for name, value in facts(run):
            table.add_row(Text(name), Text(self._plain(value), style="bold"))
        return table

    def _because(self, text: str) -> None:
        self.query_one(Because).say(self._plain(text))

    def _plain(self, text: str) -> str:
        return text.translate(TO_ASCII) if is_ascii() else text

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer only what can be done with the run as it stands."""
        del parameters
        state = self.watched.summary.state if self.watched else ""
        is_ours = self.watched is not None and jobs.trainer_of(self.watched.summary.path)
        if action == "begin":
            return self.watched is None
        if action == "stop":
            return state == "running" or bool(is_ours)
        if action == "resume":
            return state in GOING_ON and not is_ours
        return self.watched is not None if action in ("log", "overlay", "attach") else True

    def action_begin(self) -> None:
        """Train the default model."""
        if not self._is_preparing:
            self._start(Order())

    def action_new(self) -> None:
        """Ask what to train, and train it."""
        self.app.push_screen(NewRunScreen(), self._start)

    @work(thread=True, exit_on_error=False)
    def _prepare(self, order: Order) -> None:
        try:
            run = prepare(order)
        except (UserError, OSError) as error:
            self.app.call_from_thread(self._refused, str(error))
        else:
            self.app.call_from_thread(self._started, run)

    def _start(self, order: Order | None) -> None:
        if order is not None:
            self._is_preparing = True
            self._prepare(order)

    def _started(self, run: Path) -> None:
        self._is_preparing = False
        self._launch(run)
        self.attach(run)

    def _refused(self, message: str) -> None:
        self._is_preparing = False
        self.app.notify(message, severity="error", timeout=15, markup=False)

    def _launch(self, run: Path) -> None:
        self._words.pop(run, None)
        try:
            jobs.start(run)
        except OSError as error:
            self._refused(f"the trainer can't be started: {error}")

    def action_resume(self) -> None:
        """Go on where the run was left."""
        if self.watched is not None:
            self._launch(self.watched.summary.path)
            self._drawn = None

    def action_stop(self) -> None:
        """Ask the trainer to save and end; a second time, offer to kill it."""
        if self.watched is None:
            return
        run = self.watched.summary.path
        trainer = jobs.trainer_of(run)
        if trainer is None:
            if is_alive(run):
                request_stop(run)
                self.app.notify(f"{run.name}: asked to stop after its step.", markup=False)
        elif trainer.stopping_s is None:
            trainer.stop()
        else:
            self._offer_kill(trainer)

    def _offer_kill(self, trainer: jobs.Trainer) -> None:
        answers = (
            Answer("w", "wait for it: it ends after its step"),
            Answer("x", "kill it; resume goes on from the last checkpoint"),
            Answer("c", "cancel"),
        )
        text = f"{trainer.run.name} has been stopping for {trainer.stopping_s or 0:.0f} s."

        def answered(key: str | None) -> None:
            if key == "x":
                trainer.kill()

        self.app.push_screen(Question(text, answers), answered)

    def action_log(self) -> None:
        """Change the loss axis between even and logarithmic."""
        self._log_y = not self._log_y
        self._tick()

    def action_overlay(self) -> None:
        """Choose what to lay over this run."""
        self.action_attach()

    def action_attach(self) -> None:
        """Choose a run from the list."""
        now = self.watched.summary.path if self.watched else None
        marked = [other.summary.path for other in self.others]
        self.app.push_screen(RunsScreen(now, marked), self._chosen)

    def _chosen(self, choice: Choice | None) -> None:
        if choice is not None and choice.run is None:
            self.watched, self.others = None, []
            self.refresh_bindings()
        elif choice is not None and choice.run is not None:
            self.attach(choice.run, choice.others)

    async def action_leave(self) -> None:
        """Leave the app: this is its first place."""
        await self.app.run_action("quit")
