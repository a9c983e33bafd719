"""The commands of the course: learn and errata."""

from typing import TYPE_CHECKING, Annotated

import typer

from tui.commands.options import AsJson

if TYPE_CHECKING:
    from lessons.lesson import Chapter
    from lessons.sheet import Sheet


def complete_chapter(incomplete: str) -> list[str]:
    """Complete the number or slug of a chapter."""
    from lessons.catalog import chapter_infos

    names = [name for info in chapter_infos() for name in (str(info.number), info.slug)]
    return [name for name in [*names, "check"] if name.startswith(incomplete)]


def learn(
    chapter: Annotated[
        str | None,
        typer.Argument(
            metavar="[CHAPTER]",
            help="A chapter's number or name; check proves that all of them compute.",
            autocompletion=complete_chapter,
        ),
    ] = None,
    step: Annotated[int | None, typer.Option(metavar="N", help="One step only.")] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Print it all at once, without a pager.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="The arithmetic of every number.")
    ] = False,
    book_rounding: Annotated[
        bool, typer.Option("--book-rounding", help="Round after each operation, as the book did.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read the course: each chapter's numbers worked out, with its questions and their answers."""
    from lessons.catalog import find_chapter, load_chapter
    from tui.output import emit

    if chapter is None:
        _contents(as_json=as_json)
        return
    if chapter == "check":
        _check(as_json=as_json)
        return
    info = find_chapter(chapter)
    check_step(step, len(info.step_ids))
    loaded = load_chapter(info.slug)
    sheets = _sheets(loaded, book_rounding=book_rounding)
    if as_json:
        from lessons.telling import chapter_json

        content = chapter_json(loaded, sheets)
        if step is not None:
            content["steps"] = content["steps"][step - 1 : step]
        emit({"chapters": [content]})
    else:
        _show(_chapter_text(loaded, sheets, step, explain=explain), plain=plain)


def check_step(step: int | None, n_steps: int) -> None:
    """Refuse a step that the chapter doesn't have.

    Raises:
        UsageError: If the number is out of range.
    """
    from data.errors import UsageError

    if step is not None and not 1 <= step <= n_steps:
        raise UsageError(f"step is {step}; this chapter has steps 1 to {n_steps}.")


def _contents(*, as_json: bool) -> None:
    from lessons.catalog import chapter_infos
    from tui.output import emit, note, table

    infos = chapter_infos()
    if as_json:
        emit(
            {
                "chapters": [
                    {"number": info.number, "slug": info.slug, "title": info.title}
                    | {"steps": list(info.step_titles)}
                    for info in infos
                ]
            }
        )
        return
    rows = [(str(info.number), info.title, str(len(info.step_ids)), info.slug) for info in infos]
    table(("chapter", "title", "steps", "name"), rows)
    note("Read one with: qkv learn NUMBER --plain")


def _chapter_text(
    chapter: "Chapter", sheets: dict[str, "Sheet"], step: int | None, *, explain: bool
) -> str:
    from lessons.telling import step_text

    chosen = chapter.steps if step is None else chapter.steps[step - 1 : step]
    heading = [f"Chapter {chapter.number}: {chapter.title}"] if step is None else []
    texts = [step_text(chapter, one, sheets[one.id], explained=explain) for one in chosen]
    return "\n\n\n".join([*heading, *texts])


def _show(text: str, *, plain: bool) -> None:
    """Print a long text; on a terminal, page by page."""
    import sys

    from tui.output import say

    if plain or not sys.stdout.isatty():
        say(text)
    else:
        import pydoc

        pydoc.pager(text)


def _sheets(chapter: "Chapter", *, book_rounding: bool) -> dict[str, "Sheet"]:
    from dataclasses import replace

    from lessons import sheet

    rounded = sheet.book_rounding if book_rounding else sheet.exact
    return {step.id: replace(step.sheet(), rounded=rounded) for step in chapter.steps}


def _check(*, as_json: bool) -> None:
    """Prove that every chapter loads, every gap fills and every answer is judged rightly."""
    from data.errors import DataError
    from lessons.catalog import chapter_infos, load_chapter
    from lessons.telling import problems
    from tui.output import emit, say

    chapters = [load_chapter(info.slug) for info in chapter_infos()]
    steps = [step for chapter in chapters for step in chapter.steps]
    found = [problem for chapter in chapters for problem in problems(chapter)]
    counts = {
        "chapters": len(chapters),
        "steps": len(steps),
        "figures": sum(len(step.compute(step.sheet()).figures) for step in steps),
        "asks": sum(len(step.asks) for step in steps),
    }
    if as_json:
        emit({**counts, "problems": found})
    else:
        say(", ".join(f"{count} {name}" for name, count in counts.items()))
        for problem in found:
            say(problem)
    if found:
        raise DataError(f"{len(found)} problems in the course.")


def errata(
    chapter: Annotated[int | None, typer.Option(metavar="N", help="One chapter only.")] = None,
    as_json: AsJson = False,
) -> None:
    """List where the book is wrong: printed, true, and why."""
    from dataclasses import asdict

    from lessons.errata import true_text
    from lessons.errata_list import errata_list
    from lessons.telling import plain
    from tui.output import emit, note, table

    found = errata_list(chapter)
    if as_json:
        rows = [
            {**asdict(one), "true": plain(true_text(one)), "measured_on": None} for one in found
        ]
        emit({"errata": rows})
        return
    if not found:
        note("No errata there." if chapter is None else f"No errata for chapter {chapter} yet.")
        return
    table(
        ("chapter", "line", "printed", "true", "grade", "why"),
        [
            (
                str(one.chapter),
                str(one.line),
                one.printed,
                plain(true_text(one)),
                one.grade,
                one.why,
            )
            for one in found
        ],
    )
