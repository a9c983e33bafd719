"""Questions: a few answers by key, or a word that is checked as it is typed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from data.errors import UserError
from tui import jobs

BOX = """
    align: center middle;
    & > Vertical { width: 64; max-width: 95%; height: auto; background: $surface; padding: 1 2; }
    OptionList, OptionList:focus { border: none; height: auto; margin-top: 1; padding: 0; }
    OptionList, OptionList:focus { background: $surface; }
    Input, Input:focus { margin-top: 1; border: none; height: 1; background: $boost; padding: 0 1; }
    #why { color: $text-error; height: auto; min-height: 1; }
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """One way to answer."""

    key: str
    """The letter that gives it; also what the question returns."""
    text: str


class Question(ModalScreen[str]):
    """Asks; the first answer is Enter's, the last Escape's."""

    DEFAULT_CSS = f"Question {{ {BOX} }}"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "leave", show=False)]

    def __init__(self, text: str, answers: Sequence[Answer]) -> None:
        super().__init__()
        self._text, self._answers = text, answers

    def compose(self) -> ComposeResult:
        """Put the answers below the question."""
        with Vertical():
            yield Static(self._text, markup=False)
            yield OptionList(
                *(Option(f"{a.key}  {a.text}", id=a.key) for a in self._answers), markup=False
            )

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Answer with the line that was chosen."""
        self.dismiss(self._answers[event.option_index].key)

    def on_key(self, event: Any) -> None:  # noqa: ANN401 (textual's Key)
        """Answer with the letter that was pressed."""
        if event.key in [answer.key for answer in self._answers]:
            event.stop()
            self.dismiss(event.key)

    def action_leave(self) -> None:
        """Give the last answer, the one that changes nothing."""
        self.dismiss(self._answers[-1].key)


class AskWord(ModalScreen[str | None]):
    """Asks for a word, and says while it is typed why one can't be."""

    DEFAULT_CSS = f"AskWord {{ {BOX} }}"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", show=False)]

    def __init__(self, text: str, word: str, check: Callable[[str], None]) -> None:
        super().__init__()
        self._text, self._word, self._check = text, word, check

    def compose(self) -> ComposeResult:
        """Put the field below the question, and below it what is wrong."""
        with Vertical():
            yield Static(self._text, markup=False)
            yield Input(self._word)
            yield Static(id="why", markup=False)

    def _refusal(self, word: str) -> str:
        try:
            self._check(word)
        except UserError as error:
            return str(error)
        return ""

    def on_input_changed(self, event: Input.Changed) -> None:
        """Say at once what is wrong."""
        self.query_one("#why", Static).update(self._refusal(event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Answer with the word, if it can be."""
        if not self._refusal(event.value):
            self.dismiss(event.value)


def leave_app(app: App[None]) -> None:
    """End the app; ask first what becomes of the trainings that it started."""
    trainers = jobs.alive()
    if not trainers:
        app.exit()
        return

    def answered(key: str | None) -> None:
        if key == "s":
            for trainer in trainers:
                trainer.stop()
        if key in ("k", "s"):
            app.exit()

    names = ", ".join(trainer.run.name for trainer in trainers)
    is_one = len(trainers) == 1
    app.push_screen(
        Question(
            f"{names} {'is' if is_one else 'are'} still training.",
            (
                Answer("k", f"keep {'it' if is_one else 'them'} running; attach again any time"),
                Answer("s", "stop and save; resume goes on from there"),
                Answer("c", "cancel: stay here"),
            ),
        ),
        answered,
    )
