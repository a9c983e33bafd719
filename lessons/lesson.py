"""What a lesson is: frozen values that the screens, the commands and the tests all share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from lessons.answers import is_right, is_right_choice, is_right_shape
from lessons.sheet import Cell, Sheet

Fact = float | int | str
AnswerKind = Literal["number", "count", "shape", "choice"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A grid of the step's sheet to show."""

    grid: str
    """Which one."""
    title: str
    note: str = ""
    """What to look at, in a few words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepResult:
    """What a step shows for one sheet."""

    facts: Mapping[str, Fact]
    """Values the step's text quotes as {name}; a text can quote nothing else."""
    figures: tuple[Figure, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Wrong:
    """A value that a known mistake leads to."""

    value: float
    message: str
    """What was done, in a sentence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The right answer to an ask, and mistakes worth naming."""

    value: float | str | tuple[int, ...]
    cell: Cell | None = None
    """Where it stands on the sheet: hidden until the learner has answered."""
    wrong: tuple[Wrong, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """Something to predict before it is shown."""

    id: str
    prompt: str
    kind: AnswerKind
    hint: str
    explanation: str
    """Shown after the answer, with the step's facts filled in."""
    solve: Callable[[Sheet], Answer]
    choices: tuple[str, ...] = ()
    book_value: str = ""
    """What the book prints here, where it differs by rounding alone."""

    def judge(self, text: str, answer: Answer) -> bool:
        """Say whether what was typed is right.

        Raises:
            AnswerError: If it can't be read as an answer of this kind.
        """
        value = answer.value
        if isinstance(value, tuple):
            return is_right_shape(text, value)
        if isinstance(value, str):
            return is_right_choice(text, value, self.choices)
        return is_right(text, value, must_be_exact=self.kind == "count")

    def diagnose(self, text: str, answer: Answer) -> str:
        """Name the mistake that leads to a wrong number, or return nothing."""
        if self.book_value and text.strip() == self.book_value:
            return f"{self.book_value} is what the book prints: it carried a rounded number on."
        if self.kind not in ("number", "count"):
            return ""
        for wrong in answer.wrong:
            if is_right(text, wrong.value):
                return wrong.message
        return ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One idea: a text with gaps, a sheet to work on, and what fills the gaps."""

    id: str
    title: str
    text: str
    compute: Callable[[Sheet], StepResult]
    sheet: Callable[[], Sheet]
    asks: tuple[Ask, ...] = ()
    edits: tuple[str, ...] = field(default=())
    """Inputs the step invites the learner to change."""

    def told(self, result: StepResult) -> str:
        """Return the text with its gaps filled."""
        return self.text.format_map(result.facts)

    def explained(self, ask: Ask, answer: Answer, sheet: Sheet, result: StepResult) -> str:
        """Return what is shown after an answer; {because} is the arithmetic of its cell."""
        because = sheet.explain(answer.cell).arithmetic if answer.cell else ""
        return ask.explanation.format_map({**result.facts, "because": because})


@dataclass(frozen=True, kw_only=True, slots=True)
class Chapter:
    """A title and its steps, in reading order."""

    number: int
    slug: str
    title: str
    steps: tuple[Step, ...]
