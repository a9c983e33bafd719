"""Draw names: the same draws at several temperatures, and each name letter by letter.

No torch here: a thread imports it.
"""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import DataTable, Footer, Input, Static

from core.config import ConfigError
from core.nearest import Neighbour
from core.render import cell_width, visible
from tui.screens.run_screen import LAST_KEYS, RunScreen
from tui.screens.sample_texts import (
    Columns,
    Wish,
    draw,
    letter_sentence,
    name_sentence,
    names_tsv,
)
from tui.widgets.bars import LetterBars
from tui.widgets.because import Because

if TYPE_CHECKING:
    from core.using import OpenRun
    from core.views import Draw, Letter, NamedSample

FIELDS = ("temperature", "top-k", "top-p", "prompt")


class SampleScreen(RunScreen):
    """Names from a run."""

    CSS_PATH = "sample.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "resample", "resample"),
        Binding("t", "edit('temperature')", "T"),
        Binding("k", "edit('top-k')", "top-k"),
        Binding("p", "edit('top-p')", "top-p"),
        Binding("e", "edit('prompt')", "prompt"),
        Binding("y", "copy_names", "copy"),
        Binding("escape", "leave_field", show=False),
        *LAST_KEYS,
    ]

    def __init__(self) -> None:
        super().__init__()
        self.VERTICAL_BREAKPOINTS = [(0, "-short"), (24, "-normal"), (34, "-tall")]
        self._wish = Wish()
        self._columns: Columns = []

    def compose(self) -> ComposeResult:
        """Lay out the fields, the names, the letters of one, and the because line."""
        with Horizontal(id="title"):
            yield Static("Sample", id="where", markup=False)
            yield Static(id="seed", markup=False)
            for name, label in zip(FIELDS, ("T", *FIELDS[1:]), strict=True):
                yield Static(label, markup=False)
                yield Input(self._wish.field(name), placeholder="–", id=name, compact=True)
        yield DataTable[Text](id="names", cursor_type="cell")
        yield LetterBars()
        yield Because()
        yield Footer(show_command_palette=False)

    @property
    def _table(self) -> "DataTable[Text]":
        return self.query_one("#names", DataTable)

    def show_run(self, title: str) -> None:
        """Write the run's name into the title line; the names of another go."""
        self.query_one("#where", Static).update(f"Sample · {title}")
        self._columns = []
        self._table.clear(columns=True)
        self.query_one(LetterBars).show((), 0, "")

    def begin(self, opened: "OpenRun") -> None:
        """Draw the first names."""
        del opened
        self._table.focus()
        self._draw(self._wish)

    def _draw(self, wish: Wish) -> None:
        if self.opened is not None:
            self.compute("draw", partial(draw, self.opened, wish), partial(self._show, wish))

    def _show(self, wish: Wish, columns: Columns) -> None:
        self._wish, self._columns = wish, columns
        self.query_one("#seed", Static).update(f"seed {wish.seed}")
        table = self._table
        here = table.cursor_coordinate
        table.clear(columns=True)
        for temperature, drawn in columns:
            is_chosen = temperature == wish.temperature
            label = f"‹T {temperature:g}›" if is_chosen else f" T {temperature:g}"
            width = max(cell_width(_shown(name)) for name in drawn.names)
            table.add_column(Text(label, style="bold" if is_chosen else "dim"), width=width + 6)
        for number, row in enumerate(zip(*(d.names for _, d in columns), strict=True), start=1):
            table.add_row(*map(_cell, row, [d for _, d in columns]), label=Text(f"{number:2}"))
        table.move_cursor(row=here.row, column=here.column)
        if isinstance(self.focused, Input):
            table.focus()
        self._look()

    def on_data_table_cell_highlighted(self) -> None:
        """Look at the name under the cursor."""
        self._look()

    def _look(self) -> None:
        under = self._under_cursor()
        if under is None or self.opened is None:
            return
        temperature, name = under
        self.query_one(LetterBars).drawn_at = f"T {temperature:g}"
        self.say(name_sentence(name, None))
        self.compute(
            "letters", partial(self._retrace, self.opened, temperature, name), self._show_letters
        )
        self.compute("nearest", partial(_nearest, self.opened, name), partial(self._tell, name))

    def _under_cursor(self) -> "tuple[float, NamedSample] | None":
        if not self._columns:
            return None
        row, column = self._table.cursor_coordinate
        temperature, drawn = self._columns[column]
        return temperature, drawn.names[row]

    def _retrace(
        self, opened: "OpenRun", temperature: float, name: "NamedSample"
    ) -> "tuple[Letter, ...]":
        from core.sampling import Taste

        taste = Taste(temperature=temperature, top_k=self._wish.top_k, top_p=self._wish.top_p)
        return opened.retrace(name.name, taste, is_finished=name.is_finished)

    def _show_letters(self, letters: "tuple[Letter, ...]") -> None:
        bars = self.query_one(LetterBars)
        bars.show(letters, len(self._wish.prompt), bars.drawn_at)

    def _tell(self, name: "NamedSample", near: Neighbour) -> None:
        if self.said == name_sentence(name, None):  # nothing newer was said in the meantime
            self.say(name_sentence(name, near))

    def on_data_table_cell_selected(self) -> None:
        """Step through the letters of the name."""
        bars = self.query_one(LetterBars)
        if bars.letter is not None:
            bars.focus()
            self.say(letter_sentence(bars.letter))

    def on_letter_bars_moved(self, event: LetterBars.Moved) -> None:
        """Say how likely the letter was."""
        self.say(letter_sentence(event.letter))

    def action_leave_letters(self) -> None:
        """Go back to the names."""
        self._table.focus()
        self._look()

    def action_branch(self) -> None:
        """Draw names that go on from the letters before this place."""
        letter = self.query_one(LetterBars).letter
        if letter is not None:
            self.query_one("#prompt", Input).value = letter.before
            self._table.focus()
            self._draw(replace(self._wish, prompt=letter.before))

    def action_resample(self) -> None:
        """Draw with the next seed."""
        self._draw(replace(self._wish, seed=self._wish.seed + 1))

    def action_edit(self, field: str) -> None:
        """Go to a field."""
        self.query_one(f"#{field}", Input).focus()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Say what a field is for."""
        if isinstance(event.widget, Input) and self._columns:
            self.say(f"{event.widget.id}: enter draws again, esc leaves it as it was")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Draw with what all the fields say."""
        del event
        wish = self._wish
        try:
            for field in FIELDS:
                wish = wish.with_field(field, self.query_one(f"#{field}", Input).value)
        except ConfigError as error:
            self.say(str(error))
            return
        self._draw(wish)

    def action_leave_field(self) -> None:
        """Leave the fields as they were."""
        for field in FIELDS:
            self.query_one(f"#{field}", Input).value = self._wish.field(field)
        self._table.focus()
        self._look()

    def action_copy_names(self) -> None:
        """Copy all names that are shown."""
        if self._columns:
            n_names = sum(len(drawn.names) for _, drawn in self._columns)
            self.copy(names_tsv(self._columns), f"{n_names} names")


def _nearest(opened: "OpenRun", name: "NamedSample") -> Neighbour:
    return opened.training_names.find(name.name)


def _shown(name: "NamedSample") -> str:
    return visible(name.name) if name.is_finished else visible(name.name) + "…"


def _cell(name: "NamedSample", column: "Draw") -> Text:
    width = max(cell_width(_shown(other)) for other in column.names)
    shown = _shown(name)
    text = Text(f"{shown}{' ' * (width - cell_width(shown))} ", no_wrap=True)
    return text.append(name.novelty[:5], style="bold" if name.novelty == "new" else "dim")
