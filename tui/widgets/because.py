"""The because line: what the number under the cursor is, and how it came to be."""

from textual.widgets import Static

LABEL = "because  "


class Because(Static):
    """Two lines above the footer, on every screen with numbers."""

    DEFAULT_CSS = """
    Because { dock: bottom; height: 2; padding: 0 1; margin-bottom: 1; }
    """

    def __init__(self) -> None:
        super().__init__(LABEL, markup=False)

    def say(self, text: str) -> None:
        """Show one or two lines; they are read as they are, never as markup."""
        self.update(LABEL + text.replace("\n", "\n" + " " * len(LABEL)))
