"""What the Sample screen draws and says: its wish, its sentences, its table. No torch here."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from core.config import ConfigError
from core.nearest import Neighbour
from core.render import number_text, visible

if TYPE_CHECKING:
    from core.using import OpenRun
    from core.views import Draw, Letter, NamedSample

N_DRAWS = 20
BESIDE = (0.5, 1.0, 1.3)  # temperatures shown next to the chosen one


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What to draw."""

    temperature: float = 0.8
    top_k: int | None = None
    top_p: float | None = None
    prompt: str = ""
    seed: int = 1

    @property
    def temperatures(self) -> list[float]:
        """Those shown side by side, the coldest first."""
        return sorted({*BESIDE, self.temperature})

    def field(self, name: str) -> str:
        """Return what stands in a field of the title line."""
        value = {
            "temperature": f"{self.temperature:g}",
            "top-k": self.top_k,
            "top-p": self.top_p,
            "prompt": self.prompt,
        }[name]
        return "" if value is None else str(value)

    def with_field(self, name: str, text: str) -> "Wish":
        """Return the wish with one field as it was typed.

        Raises:
            ConfigError: If a number is expected and something else was typed.
        """
        if name == "prompt":
            return replace(self, prompt=text)
        key, kind = name.replace("-", "_"), int if name == "top-k" else float
        if not text.strip() and name != "temperature":
            return replace(self, **{key: None})
        try:
            return replace(self, **{key: kind(text)})
        except ValueError:
            what = "a whole number" if kind is int else "a number"
            raise ConfigError(f"{name} is {text!r}; it must be {what}.") from None


Columns = list[tuple[float, "Draw"]]


def draw(opened: "OpenRun", wish: Wish) -> Columns:
    """Draw the same names at every temperature.

    Raises:
        UserError: If a setting or the prompt can't be.
    """

    def at(temperature: float) -> "Draw":
        return opened.sample(
            N_DRAWS,
            seed=wish.seed,
            temperature=temperature,
            top_k=wish.top_k,
            top_p=wish.top_p,
            prefix=wish.prompt,
        )

    return [(temperature, at(temperature)) for temperature in wish.temperatures]


def names_tsv(columns: Columns) -> str:
    """Write every name on a line of its own, for another program to read."""
    lines = ["draw\ttemperature\tname\tfinished\tfound_in\tlog_prob"]
    lines += [
        f"{number}\t{temperature:g}\t{name.name}\t{name.is_finished}\t{name.novelty}\t"
        f"{name.log_prob!r}"
        for temperature, drawn in columns
        for number, name in enumerate(drawn.names, start=1)
    ]
    return "\n".join(lines) + "\n"


def name_sentence(name: "NamedSample", near: Neighbour | None) -> str:
    """Say what a drawn name is: known or new, what it resembles, how likely it was."""
    found = {
        "train": "is a training name",
        "val": "is a validation name, which the model never learned from",
        "test": "is a test name, which the model never learned from",
        "unknown": "may be new or not: the names of this run are gone",
    }.get(name.novelty, f"is {name.novelty}")
    if not name.is_finished:
        found += ", cut at the longest trained length"
    resembles = ""
    if near and near.distance:
        letters = "letter" if near.distance == 1 else "letters"
        resembles = (
            f"; nearest training name {visible(near.name)} ({near.distance} {letters} apart)"
        )
    n_drawn = len(name.name) + name.is_finished
    total, each = (
        number_text(value, digits=2) for value in (name.log_prob, -name.log_prob / n_drawn)
    )
    return f'"{visible(name.name)}" {found}{resembles};\n{total} nats, {each} a letter'


def letter_sentence(letter: "Letter") -> str:
    """Say how likely the letter was that stands at a place."""
    drawn, own = letter.chances
    rank = 1 + [option[0] for option in letter.options].index(letter.chosen)
    what = "the end" if letter.chosen == "." else f'"{visible(letter.chosen)}"'
    place = f'after "{visible(letter.before)}"' if letter.before else "as the first letter"
    return (
        f"{what} {place} was drawn at {drawn:.3f}: "
        f"number {rank} of {len(letter.options)};\n"
        f"the model's own chance, at temperature 1, is {own:.3f}"
    )
