import pytest

from lessons.answers import AnswerError, is_right, is_right_choice, is_right_shape

WEIGHT = 0.33620111756  # the, cat


@pytest.mark.parametrize(
    "text", ["0.336", "0.34", ".336", "0,336", "33.6%", "34 %", "0.3362", "0.337", " 0.336 "]
)
def test_what_is_right_by_the_tolerance_rule(text: str):
    assert is_right(text, WEIGHT)


@pytest.mark.parametrize(
    "text", ["0.3", "0.4", "0.33", "0.35", "0.338", "1/3", "0", "-0.336", "33"]
)
def test_what_is_wrong_by_the_tolerance_rule(text: str):
    assert not is_right(text, WEIGHT)


def test_a_bare_zero_is_right_only_for_zero():
    assert is_right("0", 0.0)
    assert not is_right("0", 0.0001)


def test_a_fraction_is_exact():
    assert is_right("1/3", 1 / 3)
    assert not is_right("1/3", 0.334)


def test_a_minus_sign_of_any_kind_is_a_minus():
    assert is_right("−0.416", -0.4161468)
    assert is_right("-0.416", -0.4161468)


def test_counts_must_be_exact():
    assert is_right("204827", 204827, must_be_exact=True)
    assert not is_right("204828", 204827, must_be_exact=True)


@pytest.mark.parametrize("text", ["", "abc", "1/0", "1.2.3", "nan", "inf", "--1", "1e99999"])
def test_what_is_no_number_is_said_and_costs_nothing(text: str):
    with pytest.raises(AnswerError):
        is_right(text, 1.0)


@pytest.mark.parametrize(
    "text", ["(2,4,8,8)", "2 4 8 8", "2x4x8x8", "[2, 4, 8, 8]", " ( 2 ,4, 8,8 )"]
)
def test_a_shape_may_be_written_in_any_spacing(text: str):
    assert is_right_shape(text, (2, 4, 8, 8))
    assert not is_right_shape(text, (2, 8, 4, 8))


def test_a_choice_may_be_shortened_where_it_names_one():
    assert is_right_choice("eq", "equal", ("equal", "different"))
    assert not is_right_choice("different", "equal", ("equal", "different"))
    with pytest.raises(AnswerError, match="not one of equal, different"):
        is_right_choice("maybe", "equal", ("equal", "different"))
