"""Find chapters and load them. Listing is cheap; loading one imports its steps, and torch."""

import importlib
import tomllib
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from data.errors import DataError, UsageError

if TYPE_CHECKING:
    from lessons.lesson import Ask, Chapter, Step

CHAPTERS_DIR = Path(__file__).parent / "chapters"


class LessonError(DataError):
    """A chapter's files disagree; the message says which file to mend."""


class UnknownChapterError(UsageError):
    """There is no such chapter; the message lists those there are."""


class ChapterInfo(NamedTuple):
    """A chapter as the contents page shows it."""

    number: int
    slug: str
    title: str
    step_ids: tuple[str, ...]
    step_titles: tuple[str, ...]


def chapter_infos() -> list[ChapterInfo]:
    """List all chapters in order, without importing their steps."""
    infos: list[ChapterInfo] = []
    for path in sorted(CHAPTERS_DIR.glob("*/chapter.toml")):
        content = _read(path)
        steps = content["step"]
        infos.append(
            ChapterInfo(
                content["number"],
                path.parent.name,
                content["title"],
                tuple(step["id"] for step in steps),
                tuple(step["title"] for step in steps),
            )
        )
    return sorted(infos)


def find_chapter(text: str) -> ChapterInfo:
    """Find a chapter by its number, its slug, or a unique part of that.

    Raises:
        UnknownChapterError: If none fits, or several do.
    """
    infos = chapter_infos()
    fits = [info for info in infos if text in (str(info.number), info.slug)]
    fits = fits or [info for info in infos if text and text in info.slug]
    if len(fits) == 1:
        return fits[0]
    known = ", ".join(f"{info.number} ({info.slug})" for info in infos)
    near = get_close_matches(text, [info.slug for info in infos], n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise UnknownChapterError(f"there is no chapter {text!r}.{hint} There are: {known}.")


def load_chapter(slug: str) -> "Chapter":
    """Read a chapter's texts and pair each step and ask with its function.

    Raises:
        LessonError: If a file is damaged, or a function is missing.
    """
    from lessons.lesson import Chapter

    path = CHAPTERS_DIR / slug / "chapter.toml"
    content = _read(path)
    module = importlib.import_module(f"lessons.chapters.{slug}.steps")
    steps = tuple(_step(path, module, entry) for entry in content["step"])
    return Chapter(number=content["number"], slug=slug, title=content["title"], steps=steps)


def _step(path: Path, module: ModuleType, entry: dict[str, Any]) -> "Step":
    from lessons.lesson import Step

    asks = tuple(_ask(path, module, entry["id"], ask) for ask in entry.get("ask", []))
    return Step(
        id=entry["id"],
        title=entry["title"],
        text=entry["text"].strip(),
        compute=_function(path, module, entry["id"]),
        sheet=_function(path, module, entry.get("sheet", "attention_sheet")),
        asks=asks,
        edits=tuple(entry.get("edits", ())),
    )


def _ask(path: Path, module: ModuleType, step_id: str, entry: dict[str, Any]) -> "Ask":
    from lessons.lesson import Ask

    return Ask(
        id=f"{step_id}.{entry['answer']}",
        prompt=entry["prompt"].strip(),
        kind=entry.get("kind", "number"),
        hint=entry["hint"].strip(),
        explanation=entry["explanation"].strip(),
        solve=_function(path, module, entry["answer"]),
        choices=tuple(entry.get("choices", ())),
        book_value=entry.get("book_value", ""),
    )


def _function(path: Path, module: ModuleType, name: str) -> Any:  # noqa: ANN401
    found = getattr(module, name, None)
    if found is None:
        raise LessonError(f"{path}: {name!r} has no function in steps.py beside it. Write one.")
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise LessonError(f"{path} can't be read: {error}.") from None
