"""A name letter by letter: what could have stood at each place, as bars, with the choice marked."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from core.render import cell_width, visible
from tui.widgets.heatmap import is_ascii

if TYPE_CHECKING:
    from core.views import Letter

EIGHTHS = " ▏▎▍▌▋▊▉█"
HEADING, BESIDE_NUMBERS = 1, 14


def bar(share: float, width: int, *, ascii_only: bool = False) -> str:
    """Draw a share of 1 as a bar of at most `width` cells, padded to it."""
    if ascii_only:
        return ("#" * round(share * width)).ljust(width)
    eighths = round(min(1.0, share) * width * 8)
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip().ljust(width)


class LetterBars(Widget, can_focus=True):
    """The likeliest letters at one place of a name; left and right move the place."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1)", "letter", key_display="← →"),
        Binding("right", "move(1)", show=False),
        Binding("b", "screen.branch", "branch here"),
        Binding("enter,escape,up", "screen.leave_letters", "back"),
    ]
    place: reactive[int] = reactive(0)

    @dataclass
    class Moved(Message):
        """Another letter is looked at."""

        letter: "Letter"

    def __init__(self) -> None:
        super().__init__()
        self.letters: tuple[Letter, ...] = ()
        self.drawn_at = ""

    @property
    def letter(self) -> "Letter | None":
        """The letter that is looked at."""
        return self.letters[self.place] if self.letters else None

    def show(self, letters: "tuple[Letter, ...]", place: int, drawn_at: str) -> None:
        """Show another name, or none.

        Args:
            letters: Of the name.
            place: The letter to begin with.
            drawn_at: How they were drawn, for the heading: "T 0.8".
        """
        self.letters, self.drawn_at = letters, drawn_at
        self.place = max(0, min(place, len(letters) - 1))
        self.refresh()

    def action_move(self, places: int) -> None:
        """Look at another letter; both ends stop."""
        if self.letters:
            self.place = max(0, min(self.place + places, len(self.letters) - 1))
            self.post_message(self.Moved(self.letters[self.place]))

    def render(self) -> Text:
        """Draw the name with its place marked, and a bar for each letter."""
        text = Text(no_wrap=True, overflow="crop")
        if self.letter is None:
            return text
        self._spell(text)
        is_wide = self.size.width >= 100
        width = (self.size.width - (34 if is_wide else BESIDE_NUMBERS)) // (2 if is_wide else 1)
        width = min(max(width, 4), 40)
        for letter, drawn, own in self._shown(self.letter):
            is_chosen = letter == self.letter.chosen
            shown = visible(letter, ascii_only=is_ascii())
            mark = (">" if is_ascii() else "›") if is_chosen else " "
            line = f"\n {mark} {shown}{' ' * max(0, 2 - cell_width(shown))}"
            line += f"{drawn:.3f} {bar(drawn, width, ascii_only=is_ascii())}"
            if is_wide:
                line += f"    own {own:.3f} {bar(own, width, ascii_only=is_ascii())}"
            text.append(line, style="bold" if is_chosen else "")
        return text

    def _spell(self, text: Text) -> None:
        marks = "<>" if is_ascii() else "‹›"
        text.append(" letter by letter  ")
        for place, letter in enumerate(self.letters):
            shown = visible(letter.chosen, ascii_only=is_ascii())
            if place == self.place:
                text.append(f"{marks[0]}{shown}{marks[1]}", style="bold reverse")
            else:
                text.append(f" {shown} ")
        text.append(f"   {self._where()}", style="bold")
        text.append(f", drawn at {self.drawn_at}", style="dim")

    def _where(self) -> str:
        before = self.letters[self.place].before
        return f'after "{visible(before)}"' if before else "at the start"

    def _shown(self, letter: "Letter") -> list[tuple[str, float, float]]:
        """Pick the likeliest letters that fit, the chosen one always among them."""
        n = max(1, self.size.height - HEADING)
        shown = list(letter.options[:n])
        if letter.chosen not in [option[0] for option in shown]:
            shown[-1] = next(option for option in letter.options if option[0] == letter.chosen)
        return shown
