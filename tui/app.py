"""The app: which modes there are, which keys lead to them, how it looks. No logic here."""

from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from tui.launch import end_on_signals
from tui.palette import QkvCommands


def _train() -> Screen[None]:
    from tui.screens.train import TrainScreen

    return TrainScreen()


def _sample() -> Screen[None]:
    from tui.screens.sample import SampleScreen

    return SampleScreen()


def _inside() -> Screen[None]:
    from tui.screens.inside import InsideScreen

    return InsideScreen()


class QkvApp(App[None]):
    """Everything a person sees, one mode at a time; each keeps its state."""

    TITLE = "qkv"
    ENABLE_COMMAND_PALETTE = True
    COMMANDS: ClassVar = {QkvCommands}
    DEFAULT_MODE = "train"
    MODES: ClassVar = {"train": _train, "sample": _sample, "inside": _inside}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f3,3", "switch_mode('train')", "Train", show=False),
        Binding("f4,4", "switch_mode('sample')", "Sample", show=False),
        Binding("f5,5", "switch_mode('inside')", "Inside", show=False),
        Binding("f1,question_mark", "help", "help", key_display="?"),
        Binding("colon", "command_palette", "Palette", show=False),
        Binding("ctrl+q", "quit", "Quit", show=False, priority=True),
    ]

    def __init__(self, mode: str = "") -> None:
        super().__init__()
        self._first_mode = mode

    def on_mount(self) -> None:
        """Listen to the system, and open the mode that was asked for."""
        end_on_signals(self)
        if self._first_mode in self.MODES:
            self.switch_mode(self._first_mode)

    def action_help(self) -> None:
        """Show the keys that work here."""
        from tui.screens.help import show_help

        show_help(self)

    async def action_quit(self) -> None:
        """Leave, with a question where a training goes on."""
        from tui.screens.confirm import leave_app

        leave_app(self)
