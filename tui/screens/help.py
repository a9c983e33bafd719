"""Which keys work where one is."""

from typing import ClassVar

from rich.table import Table
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

SKIPPED = {"ctrl+c", "ctrl+shift+c", "super+c", "tab", "shift+tab", "f1", "up", "down"}


class HelpScreen(ModalScreen[None]):
    """The keys of the screen below, each with what it does."""

    DEFAULT_CSS = """
    HelpScreen {
        align: center middle;
        & > VerticalScroll {
            width: 60; max-width: 95%; height: auto; max-height: 90%;
            background: $surface; padding: 1 2;
        }
        Static { height: auto; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark,f1", "dismiss(None)", "leave")
    ]

    def __init__(self, keys: list[tuple[str, str]]) -> None:
        super().__init__()
        self._keys = keys

    def compose(self) -> ComposeResult:
        """Set the keys beside their meanings."""
        table = Table.grid(padding=(0, 3))
        for key, meaning in self._keys:
            table.add_row(Text(key, style="bold"), Text(meaning))
        with VerticalScroll():
            yield Static(Text("Keys here; esc leaves\n", style="bold"))
            yield Static(table)


def show_help(app: App[None]) -> None:
    """Show the keys that work on the screen one sees."""
    keys: list[tuple[str, str]] = []
    for key, active in app.screen.active_bindings.items():
        binding = active.binding
        if binding.description and active.enabled and key not in SKIPPED:
            meaning = (binding.tooltip or binding.description, app.get_key_display(binding))
            keys.append((meaning[1], meaning[0]))
    app.push_screen(HelpScreen(list(dict.fromkeys(keys))))
