"""The right values of Chapter 2, as worked by hand."""

import pytest

from lessons.catalog import load_chapter
from lessons.lesson import Ask, Step

CHAPTER = load_chapter("ch02_attention")
ASKS = {ask.id: (step, ask) for step in CHAPTER.steps for ask in step.asks}
RIGHT = {
    "tokens.shape_of_x": "(4, 2)",
    "queries.query_of_the": "1",
    "keys.key_of_cat": "1",
    "values.value_of_sat": "2",
    "shapes.shape_of_keys_turned": "(2, 4)",
    "scores.score_of_the_cat": "1.0",
    "scores.is_symmetric": "equal",
    "best_match.largest_of_sat": "2.0",
    "best_match.always_itself": "no",
    "softmax.sum_of_the": "8.085",
    "softmax.weight_of_the_on_itself": "0.124",
    "row_and_column_sums.sum_of_a_row": "1",
    "row_and_column_sums.sum_of_the_column_sat": "1.502",
    "row_of_sat.weight_of_sat_on_itself": "0.475",
    "row_of_down.weight_of_down_on_sat": "0.355",
    "output_of_the.output_of_the_first": "0.562",
    "output_of_the.output_of_the_second": "1.336",
    "output_of_down.output_of_down_first": "0.677",
    "changing_values.do_weights_change": "no",
    "adding_to_a_row.weight_after_adding": "0.336",
    "other_order.output_moved_of_sat": "0.738",
}
NAMED = [
    ("softmax.weight_of_the_on_itself", "0", "the score itself"),
    ("row_of_sat.weight_of_sat_on_itself", "0.4", "leaves out the e^"),
    ("row_of_sat.weight_of_sat_on_itself", "0.188", "whole matrix"),
    ("output_of_the.output_of_the_first", "0.774", "mixes the keys"),
    ("output_of_the.output_of_the_first", "0.625", "plain mean"),
    ("keys.key_of_cat", "0", "the number in X"),
    ("values.value_of_sat", "1", "number by number"),
]


def test_the_chapter_has_its_sixteen_steps():
    assert len(CHAPTER.steps) == 16
    assert set(ASKS) == set(RIGHT)


@pytest.mark.parametrize("ask_id", RIGHT)
def test_the_value_worked_by_hand_is_right(ask_id: str):
    step, ask = ASKS[ask_id]

    assert ask.judge(RIGHT[ask_id], ask.solve(step.sheet()))


@pytest.mark.parametrize(("ask_id", "typed", "message"), NAMED)
def test_a_known_mistake_is_named(ask_id: str, typed: str, message: str):
    step, ask = ASKS[ask_id]
    answer = ask.solve(step.sheet())

    assert not ask.judge(typed, answer)
    assert message in ask.diagnose(typed, answer)


def test_the_books_value_is_recognised_and_not_taken_for_exact():
    step, ask = ASKS["output_of_down.output_of_down_first"]
    answer = ask.solve(step.sheet())

    assert "book prints" in ask.diagnose("0.678", answer)


def test_breaking_the_tie_makes_scores_unsymmetric():
    step, ask = ASKS["scores.is_symmetric"]
    cell = step.sheet().cell("W_Q", "1", "1")

    edited = step.sheet().edit(cell, 2.0)

    assert edited.value(edited.cell("scores", "the", "cat")) == 1.0
    assert edited.value(edited.cell("scores", "cat", "the")) == 2.0
    assert ask.solve(edited).value == "different"


def _id(pair: tuple[Step, Ask]) -> str:
    return pair[1].id


@pytest.mark.parametrize("pair", ASKS.values(), ids=_id)
def test_no_mistake_has_the_right_value(pair: tuple[Step, Ask]):
    step, ask = pair
    answer = ask.solve(step.sheet())

    for wrong in answer.wrong:
        assert not ask.judge(f"{wrong.value:.6f}", answer), wrong.message
