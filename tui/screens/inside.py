"""Look inside: where every head of a run looks when it reads a name. No torch here.

A thread imports it.
"""

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Footer, Input, Static

from core.render import number_text, visible
from data.errors import UserError
from tui.screens.run_screen import LAST_KEYS, RunScreen
from tui.widgets.because import Because
from tui.widgets.heatmap import HeadGrid, HeadMaps, Place

if TYPE_CHECKING:
    from core.interpret import Cell, Reading
    from core.using import OpenRun

FIRST_NAME = "emma"
N_NAMES = 400  # validation names on which a silenced head is measured: a tenth of a second


def cell_sentence(cell: "Cell", query: str, key: str) -> str:
    """Say how one weight came to be and what it brings."""
    dot, score = (number_text(value, digits=2) for value in (cell.dot, cell.score))
    letters = "letter" if cell.n_visible == 1 else "letters"
    return (
        f"{query} → {key}: q·k = {dot}, / √{cell.d_head} = {score}, "
        f"softmax over {cell.n_visible} {letters} = {cell.weight:.2f};\n"
        f"carries {cell.share:.0%} of what this head adds here"
    )


def grid_tsv(reading: "Reading", head: Place) -> str:
    """Write one head with its letters on both edges, exactly; masked cells stay empty."""
    rows = reading.weights[head[0]][head[1]]
    lines = ["\t".join(["", *reading.tokens])]
    for query, (token, row) in enumerate(zip(reading.tokens, rows, strict=True)):
        lines.append("\t".join([token, *(repr(w) for w in row[: query + 1])]))
    return "\n".join(lines) + "\n"


def _read(
    opened: "OpenRun", name: str, silent: Place | None, *, is_measured: bool = False
) -> "tuple[Reading, str]":
    """Let the model read a name, and say what a silenced head costs if that is asked for."""
    from core.interpret import read, silence

    reading = read(opened, name, silent=silent)
    if silent is None or not is_measured:
        return reading, ""
    try:
        cost = silence(opened, *silent, n_names=N_NAMES)
    except UserError as error:
        return reading, f"What the head was worth is not known: {error}"
    change = cost.loss_without - cost.loss
    sign = "+" if change >= 0 else ""
    return reading, (
        f"without head {silent[0]}.{silent[1]}: {cost.loss:.3f} → {cost.loss_without:.3f} nats a "
        f"letter ({sign}{number_text(change)})\n"
        f"on {cost.n_names} validation names; x brings it back"
    )


class InsideScreen(RunScreen):
    """All heads of a run small, one of them in numbers."""

    CSS_PATH = "inside.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "silence", "silence head"),
        Binding("n", "edit", "name"),
        Binding("y", "copy_head", "copy"),
        Binding("r", "choose_run", "other run", show=False),
        Binding("escape", "leave_field", show=False),
        *LAST_KEYS,
    ]

    def __init__(self) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-normal"), (110, "-wide")]
        self._text = FIRST_NAME
        self._reading: Reading | None = None
        self._head: Place = (0, 0)
        self._silent: Place | None = None

    def compose(self) -> ComposeResult:
        """Lay out the name, all heads beside one, and the because line."""
        with Horizontal(id="title"):
            yield Static("Inside", id="where", markup=False)
            yield Input(self._text, id="text", compact=True)
            yield Static(id="head", markup=False)
        yield Static("layers ↓ heads →, a row looks at columns", id="legend", markup=False)
        with Horizontal(id="heads"):
            yield HeadMaps()
            yield HeadGrid()
        yield Because()
        yield Footer(show_command_palette=False)

    def show_run(self, title: str) -> None:
        """Write the run's name into the title line; the heads of another go."""
        self.query_one("#where", Static).update(f"Inside · {title} ·")
        self.query_one("#head", Static).update("")
        self._reading, self._silent, self._head = None, None, (0, 0)
        self.query_one(HeadMaps).show(())
        self.query_one(HeadGrid).show((), ())

    def begin(self, opened: "OpenRun") -> None:
        """Read a first name."""
        vocabulary = opened.trained.header.vocabulary
        if not vocabulary.is_known(self._text):
            self._text = "".join(vocabulary.characters[1:5])
            self.query_one("#text", Input).value = self._text
        self.query_one(HeadGrid).focus()
        self._read(self._text, None)

    def _read(self, text: str, silent: Place | None, *, is_measured: bool = False) -> None:
        if self.opened is not None:
            task = partial(_read, self.opened, text, silent, is_measured=is_measured)
            self.compute("read", task, partial(self._show, text, silent))

    def _show(self, text: str, silent: Place | None, found: "tuple[Reading, str]") -> None:
        reading, sentence = found
        is_new = self._reading is None or text != self._text
        self._text, self._silent, self._reading = text, silent, reading
        maps, grid = self.query_one(HeadMaps), self.query_one(HeadGrid)
        maps.silent = silent
        maps.show(reading.weights)
        self._share_width()
        if is_new:
            last = len(reading.tokens) - 1
            grid.cursor = (last, max(0, last - 1))
        if isinstance(self.focused, Input):
            grid.focus()
        self._show_head()
        if sentence:
            self.say(sentence)

    def _share_width(self) -> None:
        maps = self.query_one(HeadMaps)
        maps.styles.width = maps.best_width(self.size.width * 45 // 100)

    def on_resize(self) -> None:
        """Give the maps what is left for them."""
        self.call_after_refresh(self._share_width)

    def _show_head(self) -> None:
        if self._reading is None:
            return
        layer, head = self._head
        self.query_one(HeadMaps).chosen = self._head
        self.query_one(HeadGrid).show(self._reading.weights[layer][head], self._reading.tokens)
        habit = self._reading.habit(layer, head)
        silenced = "×" if self._head == self._silent else ""
        previous = f"previous {habit.score:.2f} (chance {habit.chance:.2f})"
        self.query_one("#head", Static).update(f"head {layer}.{head}{silenced}   {previous}")
        self._tell()

    def _tell(self) -> None:
        if self._reading is not None:
            query, key = self.query_one(HeadGrid).cursor
            cell = self._reading.cell(*self._head, query, key)
            tokens = self._reading.tokens
            self.say(cell_sentence(cell, visible(tokens[query]), visible(tokens[key])))

    def on_head_grid_moved(self) -> None:
        """Say where the number comes from."""
        self._tell()

    def on_head_maps_chosen(self, event: HeadMaps.Chosen) -> None:
        """Enlarge the head that was pointed at."""
        self._head = event.head
        self._show_head()

    def action_next_head(self, heads: int) -> None:
        """Enlarge the next head; behind the last comes the first."""
        if self._reading is not None:
            n_layers, n_heads = len(self._reading.weights), len(self._reading.weights[0])
            number = (self._head[0] * n_heads + self._head[1] + heads) % (n_layers * n_heads)
            self._head = divmod(number, n_heads)
            self._show_head()

    def action_silence(self) -> None:
        """Silence the head and measure what it was worth, or bring it back."""
        if self._reading is not None:
            silent = None if self._silent == self._head else self._head
            self._read(self._text, silent, is_measured=True)

    def action_edit(self) -> None:
        """Type another name."""
        self.query_one("#text", Input).focus()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Say what the field is for."""
        if isinstance(event.widget, Input) and self._reading is not None:
            self.say("a name: enter reads it, esc leaves it as it was")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Read the name that was typed."""
        self._read(event.value, self._silent)

    def action_leave_field(self) -> None:
        """Leave the name as it was."""
        self.query_one("#text", Input).value = self._text
        self.query_one(HeadGrid).focus()
        self._tell()

    def action_copy_head(self) -> None:
        """Copy the head's numbers."""
        if self._reading is not None:
            layer, head = self._head
            self.copy(grid_tsv(self._reading, self._head), f"head {layer}.{head}")
