"""The book's faults as they stand in errata.toml. Nothing is computed here: no torch."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

ERRATA_FILE = Path(__file__).with_name("errata.toml")


@dataclass(frozen=True, kw_only=True, slots=True)
class Erratum:
    """One place where the book is wrong."""

    id: str
    chapter: int
    line: int
    """Line of the book's text."""
    printed: str
    """What the book prints."""
    kind: str
    """rounding, number, code or claim."""
    grade: str
    """W wrong, C contradicts itself, I imprecise, D dated, U unsupported."""
    why: str
    step: str
    """The step that shows it."""
    true: str
    """For a claim the statement that holds; otherwise the name of what computes the value."""

    @property
    def is_number(self) -> bool:
        """Whether the true value is computed."""
        return self.kind in ("rounding", "number")


def errata_list(chapter: int | None = None) -> list[Erratum]:
    """List the errata of a chapter, or all, in the book's order."""
    found = tomllib.loads(ERRATA_FILE.read_text(encoding="utf-8"))["erratum"]
    errata = [Erratum(**entry) for entry in found]
    kept = [one for one in errata if chapter is None or one.chapter == chapter]
    return sorted(kept, key=lambda one: (one.chapter, one.line))
