"""The form for a new run: a preset, every setting, device and threads, checked while typing."""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Input, Select, Static

from core.config import ConfigError, check_least
from core.corpus import Corpus, load_corpus
from core.devices import DEVICES
from core.ledger import n_params
from core.preparing import fit_plan, prepare_run
from core.presets import DEFAULT_PRESET, PRESETS, DataConfig
from core.runs import check_slug
from core.settings import Plan, make_plan, plan_to_json, setting_keys
from data.errors import UserError
from tui.paths import runs_root
from tui.widgets.because import Because

FIRST = (
    "train.n_steps",
    "train.n_epochs",
    "train.learning_rate",
    "train.batch_size",
    "model.d_model",
    "model.n_heads",
    "model.n_layers",
)


@dataclass(frozen=True, slots=True)
class Order:
    """What a person wants trained, as it was written."""

    preset: str = DEFAULT_PRESET
    slug: str = ""
    device: str = "auto"
    threads: str = "1"
    seed: str = "1"
    settings: tuple[str, ...] = field(default=())


def plan_of(order: Order) -> Plan:
    """Check an order with the sentences of the command line.

    Raises:
        UserError: If it can't be trained as it is.
    """
    if order.slug:
        check_slug(order.slug)
    check_least(1, threads=_whole("threads", order.threads))
    seed = _whole("seed", order.seed)
    return make_plan(preset=order.preset, settings=order.settings, seed=seed)


def _whole(name: str, text: str) -> int:
    try:
        return int(text.replace("_", ""))
    except ValueError:
        raise ConfigError(f"{name} is {text!r}; it must be a whole number.") from None


@cache
def _names(data: DataConfig) -> Corpus:
    return load_corpus(data)


def prepare(order: Order) -> Path:
    """Make the directory of the run that was ordered.

    Raises:
        UserError: If it can't be trained as it is.
    """
    plan = plan_of(order)
    corpus = load_corpus(plan.data)  # the file may have changed since the form was checked
    return prepare_run(
        runs_root(),
        fit_plan(plan, corpus),
        corpus,
        slug=order.slug or None,
        device=order.device,
        n_threads=_whole("threads", order.threads),
    )


class NewRunScreen(Screen[Order | None]):
    """Fields with the preset's values; what is wrong is said at once."""

    DEFAULT_CSS = """
    NewRunScreen {
        #where { height: 1; padding: 0 1; text-style: bold; margin-bottom: 1; }
        VerticalScroll { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
        .row { height: 1; }
        #settings { height: auto; }
        .row > Static { width: 21; color: $text-muted; }
        .row > Input { width: 20; }
        .row > Select { width: 20; }
        .row > .hint { width: 1fr; padding-left: 2; }
        Because.-wrong { color: $text-error; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "start", "start"),
        Binding("tab", "app.focus_next", "next field"),
        Binding("down", "app.focus_next", show=False),
        Binding("up", "app.focus_previous", show=False),
        Binding("f9", "start", "start"),
        Binding("escape", "dismiss(None)", "leave"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._preset = DEFAULT_PRESET
        self._refusal = ""

    def compose(self) -> ComposeResult:
        """Lay out the fields, the ones one changes first at the top."""
        yield Static("New run", id="where", markup=False)
        with VerticalScroll(can_focus=False):
            yield self._choice("preset", tuple(PRESETS), DEFAULT_PRESET)
            yield self._field("name", "", "a word for its name; the preset's if empty")
            yield self._choice("device", DEVICES, "auto")
            yield self._field("threads", "1", "another number gives other bits")
            yield self._field("seed", "1", "decides all that is drawn")
            with Vertical(id="settings"):
                yield from self._settings()
        yield Because()
        yield Footer(show_command_palette=False)

    def _choice(self, name: str, choices: tuple[str, ...], value: str) -> Horizontal:
        select = Select[str](
            [(choice, choice) for choice in choices],
            value=value,
            allow_blank=False,
            compact=True,
            id=name,
        )
        return Horizontal(
            Static(name, markup=False), select, Static(classes="hint", markup=False), classes="row"
        )

    def _field(self, name: str, value: str, hint: str) -> Horizontal:
        field_id = name.replace(".", "-")
        box = Input(value, id=field_id, name=name, compact=True, select_on_focus=True)
        return Horizontal(
            Static(name, markup=False),
            box,
            Static(hint, classes="hint", markup=False),
            classes="row",
        )

    def _settings(self) -> list[Horizontal]:
        plan = make_plan(preset=self._preset)
        values = plan_to_json(plan)
        keys = setting_keys(plan)
        first = [key for key in FIRST if key in keys]
        rows: list[Horizontal] = []
        for key in [*first, *(key for key in keys if key not in first)]:
            part, _, name = key.partition(".")
            rows.append(self._field(key, _written(values[part][name]), ""))
        return rows

    def on_mount(self) -> None:
        """Begin at the preset."""
        self.query_one("#preset").focus()
        self._check()

    async def on_select_changed(self, event: Select.Changed) -> None:
        """Fill the fields with another preset's values, or check another device."""
        if event.select.id == "preset" and str(event.value) != self._preset:
            self._preset = str(event.value)
            box = self.query_one("#settings")
            await box.remove_children()
            await box.mount_all(self._settings())
        self._check()

    def on_input_changed(self) -> None:
        """Say at once what is wrong."""
        self._check()

    def on_input_submitted(self) -> None:
        """Start, from any field."""
        self.action_start()

    def _value(self, name: str) -> str:
        return self.query_one(f"#{name}", Input).value.strip()

    def order(self) -> Order:
        """Read the form; only what differs from the preset is a setting."""
        plan = make_plan(preset=self._preset)
        values = plan_to_json(plan)
        changed: list[str] = []
        for box in self.query("#settings Input").results(Input):
            key = str(box.name)
            part, _, name = key.partition(".")
            if box.value.strip() != _written(values[part][name]):
                changed.append(f"{key}={box.value.strip()}")
        return Order(
            preset=self._preset,
            slug=self._value("name"),
            device=str(self.query_one("#device", Select).value),
            threads=self._value("threads"),
            seed=self._value("seed"),
            settings=tuple(changed),
        )

    def _check(self) -> None:
        because = self.query_one(Because)
        try:
            order = self.order()
            plan = plan_of(order)
            if plan.data == DataConfig():
                plan = fit_plan(plan, _names(plan.data))
        except (UserError, OSError) as error:
            self._refusal = str(error)
            because.say(self._refusal)
        else:
            self._refusal = ""
            changed = ", ".join(order.settings) or PRESETS[order.preset].purpose
            because.say(f"{n_params(plan.model):,} parameters; enter starts it\n{changed}")
        because.set_class(bool(self._refusal), "-wrong")

    def action_start(self) -> None:
        """Answer with the order, if it can be trained."""
        self._check()
        if not self._refusal:
            self.dismiss(self.order())


def _written(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return ",".join(str(part) for part in value)
    return "" if value is None else str(value)
