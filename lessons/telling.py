"""A step in plain data and plain text: what a screen shows, complete without one."""

from typing import Any

from core.render import matrix_text
from lessons.errata import true_text
from lessons.errata_list import errata_list
from lessons.lesson import Answer, Ask, Chapter, Figure, Step
from lessons.sheet import Cell, Sheet

Json = dict[str, Any]


def chapter_json(chapter: Chapter, sheets: dict[str, Sheet] | None = None) -> Json:
    """Return a chapter with every text filled, every number and every answer.

    Args:
        chapter: From `load_chapter`.
        sheets: A learner's own sheets by step; the step's own where there is none.
    """
    mine = sheets or {}
    return {
        "number": chapter.number,
        "slug": chapter.slug,
        "title": chapter.title,
        "steps": [step_json(step, mine.get(step.id, step.sheet())) for step in chapter.steps],
    }


def step_json(step: Step, sheet: Sheet) -> Json:
    """Return a step with its text filled, its grids and its questions with their answers."""
    result = step.compute(sheet)
    return {
        "id": step.id,
        "title": step.title,
        "text": step.told(result),
        "facts": dict(result.facts),
        "figures": [_figure_json(figure, sheet) for figure in result.figures],
        "asks": [_ask_json(step, ask, sheet) for ask in step.asks],
    }


def _figure_json(figure: Figure, sheet: Sheet) -> Json:
    grid = sheet.grids[figure.grid]
    n_rows, n_cols = grid.values.shape
    return {
        "grid": figure.grid,
        "title": figure.title,
        "note": figure.note,
        "rows": list(grid.rows),
        "cols": list(grid.cols),
        "values": grid.values.tolist(),
        "because": [
            [sheet.explain(Cell(figure.grid, row, col)).arithmetic for col in range(n_cols)]
            for row in range(n_rows)
        ],
    }


def _ask_json(step: Step, ask: Ask, sheet: Sheet) -> Json:
    answer = ask.solve(sheet)
    return {
        "id": ask.id,
        "prompt": ask.prompt,
        "kind": ask.kind,
        "choices": list(ask.choices),
        "hint": ask.hint,
        "answer": answer.value,
        "cell": _place(answer, sheet),
        "wrong": [{"value": wrong.value, "message": wrong.message} for wrong in answer.wrong],
        "explanation": step.explained(ask, answer, sheet, step.compute(sheet)),
    }


def _place(answer: Answer, sheet: Sheet) -> list[str] | None:
    if answer.cell is None:
        return None
    grid = sheet.grids[answer.cell.grid]
    return [answer.cell.grid, grid.rows[answer.cell.row], grid.cols[answer.cell.col]]


def step_text(chapter: Chapter, step: Step, sheet: Sheet, *, explained: bool = False) -> str:
    """Return a step as plain text: its words, its grids, its questions and their answers.

    Args:
        chapter: The step's chapter.
        step: What to tell.
        sheet: The numbers to tell it with.
        explained: Tell below each grid how every number of it came to be, row by row.
    """
    result = step.compute(sheet)
    number = chapter.steps.index(step) + 1
    parts = [f"{chapter.number}.{number} {step.title}", plain(step.told(result))]
    for figure in result.figures:
        parts.append(_figure_text(figure, sheet, explained=explained))
    for ask in step.asks:
        answer = ask.solve(sheet)
        parts.append(
            f"Question: {plain(ask.prompt)}\n"
            f"Answer: {answer_text(answer)}. "
            f"{plain(step.explained(ask, answer, sheet, result))}"
        )
    parts += [
        f"The book (line {one.line}) prints: {one.printed}\n"
        f"True: {plain(true_text(one))}\nWhy: {one.why}"
        for one in errata_list(chapter.number)
        if one.step == step.id
    ]
    return "\n\n".join(parts)


def _figure_text(figure: Figure, sheet: Sheet, *, explained: bool) -> str:
    grid = sheet.grids[figure.grid]
    title = f"{figure.title}: {figure.note}" if figure.note else figure.title
    text = matrix_text(grid.values.tolist(), grid.rows, grid.cols, title=title)
    if not explained:
        return text
    lines = [
        f"  {name}, {col}: {sheet.explain(Cell(figure.grid, i, j)).arithmetic}"
        for i, name in enumerate(grid.rows)
        for j, col in enumerate(grid.cols)
    ]
    return "\n".join([text, *lines])


def answer_text(answer: Answer) -> str:
    """Return a right answer as the screen shows it."""
    value = answer.value
    if isinstance(value, tuple):
        return f"({', '.join(map(str, value))})"
    if isinstance(value, str):
        return value
    return f"{value:g}" if float(value).is_integer() else f"{value:.3f}"


def plain(text: str) -> str:
    """Take the marks of emphasis out of a text."""
    return text.replace("*", "")


def problems(chapter: Chapter) -> list[str]:
    """List what is wrong in a chapter: gaps that don't fill, answers that are refused."""
    found: list[str] = []
    for step in chapter.steps:
        sheet = step.sheet()
        try:
            step_json(step, sheet)
        except (KeyError, ValueError, IndexError) as error:
            found.append(f"{chapter.slug}, step {step.id}: {error!r}")
            continue
        for ask in step.asks:
            answer = ask.solve(sheet)
            if not ask.judge(answer_text(answer), answer):
                found.append(f"{ask.id}: its own answer {answer_text(answer)} is refused")
            found += [
                f"{ask.id}: the wrong value {wrong.value} is accepted"
                for wrong in answer.wrong
                if ask.judge(f"{wrong.value:.6f}", answer)
            ]
    return found
