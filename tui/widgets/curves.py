"""Loss curves as a widget: drawn when they are new or the room has changed, and only then."""

from collections.abc import Sequence

from rich.text import Text
from textual import events
from textual.widget import Widget

from tui.plot import LEAST_HEIGHT, LEAST_WIDTH, Plot, Series, curves_text
from tui.widgets.heatmap import is_ascii


class Curves(Widget):
    """Series in a plot, with sentences below about what could not be drawn."""

    def __init__(self) -> None:
        super().__init__()
        self._series: Sequence[Series] = ()
        self._log_y = False
        self._instead = ""
        self._drawn: Text | None = None

    @property
    def is_log(self) -> bool:
        """Whether the loss axis is logarithmic."""
        return self._log_y

    def show(self, series: Sequence[Series], *, log_y: bool) -> None:
        """Draw other series, or the same with more points."""
        self._series, self._log_y, self._instead = series, log_y, ""
        self._draw_anew()

    def say(self, text: str) -> None:
        """Show a text where the curves will be."""
        if text != self._instead:
            self._instead, self._series = text, ()
            self._draw_anew()

    def on_resize(self, event: events.Resize) -> None:
        """Fit the curves into the new room."""
        del event
        self._draw_anew()

    def _draw_anew(self) -> None:
        self._drawn = None
        self.refresh()

    def render(self) -> Text:
        """Draw, if anything has changed since the last time."""
        if self._drawn is None:
            self._drawn = self._draw()
        return self._drawn

    def _draw(self) -> Text:
        width, height = self.size
        if not self._series or width < LEAST_WIDTH or height < LEAST_HEIGHT:
            return Text(self._instead or "Enlarge to see the curves.")
        plot = self._plot(height)
        notes = plot.notes[: max(0, height - LEAST_HEIGHT)]
        if notes:
            plot = self._plot(height - len(notes))
        text = Text.from_ansi(plot.text, no_wrap=True, overflow="crop")
        for note in notes:
            text.append("\n" + note[:width], style="italic")
        return text

    def _plot(self, height: int) -> Plot:
        return curves_text(
            self._series,
            width=self.size.width,
            height=height,
            log_y=self._log_y,
            color=not self.app.no_color,
            utf8=not is_ascii(),
        )
