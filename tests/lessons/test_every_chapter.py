import re

import pytest

from lessons.catalog import UnknownChapterError, chapter_infos, find_chapter, load_chapter
from lessons.errata import carried_text, true_text
from lessons.errata_list import errata_list
from lessons.lesson import Chapter
from lessons.telling import chapter_json, problems, step_text

SLUGS = [info.slug for info in chapter_infos()]


@pytest.fixture(params=SLUGS)
def chapter(request: pytest.FixtureRequest) -> Chapter:
    return load_chapter(request.param)


def test_a_chapter_has_no_problems(chapter: Chapter):
    assert problems(chapter) == []


def test_every_gap_is_filled(chapter: Chapter):
    for step in chapter_json(chapter)["steps"]:
        told = [step["text"], *(ask["explanation"] for ask in step["asks"])]
        assert not any(re.search(r"\{\w*[^}]*\}", text) for text in told), step["id"]


def test_a_step_fits_a_small_screen(chapter: Chapter):
    for step in chapter.steps:
        n_words = len(step.told(step.compute(step.sheet())).split())
        assert n_words <= 75, step.id


def test_an_edited_sheet_gives_other_answers_that_still_judge_themselves(chapter: Chapter):
    for step in chapter.steps:
        for name in step.edits:
            sheet = step.sheet()
            cell = sheet.cell(name, sheet.inputs[name].rows[0], sheet.inputs[name].cols[0])
            edited = sheet.edit(cell, sheet.value(cell) + 0.75)
            assert edited.grids[name].values[0, 0] != sheet.grids[name].values[0, 0]
            step_text(chapter, step, edited, explained=True)


def test_every_erratum_belongs_to_a_step():
    steps = {(info.number, step) for info in chapter_infos() for step in info.step_ids}

    assert all((one.chapter, one.step) in steps for one in errata_list())


def test_every_printed_number_differs_from_the_true_one():
    for one in errata_list():
        assert true_text(one) != one.printed, one.id


def test_every_rounding_fault_comes_of_rounding_on_the_way():
    for one in errata_list():
        if one.kind == "rounding":
            assert carried_text(one) == one.printed, one.id


def test_the_ids_of_errata_are_their_own():
    ids = [one.id for one in errata_list()]

    assert len(ids) == len(set(ids))


def test_a_chapter_is_found_by_number_slug_or_part():
    assert find_chapter("2").slug == "ch02_attention"
    assert find_chapter("ch02_attention").number == 2
    assert find_chapter("attention").number == 2
    with pytest.raises(UnknownChapterError, match="there is no chapter 'x99'"):
        find_chapter("x99")
