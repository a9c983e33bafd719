import copy
import pickle
import string

import pytest

from data.errors import DataError
from data.names import read_names
from data.vocabulary import BOUNDARY, UnknownCharacterError, Vocabulary

LATIN = Vocabulary.of([string.ascii_lowercase])


def test_the_boundary_is_0_and_letters_follow_by_code_point():
    assert Vocabulary.of(["zoé", "'b'"]).characters == (".", "'", "b", "o", "z", "é")


def test_the_projects_own_names_have_27_symbols():
    assert Vocabulary.of(read_names().names) == LATIN
    assert len(LATIN) == 27


def test_no_names_leave_only_the_boundary():
    assert Vocabulary.of([]).characters == (BOUNDARY,)


def test_the_order_of_the_names_does_not_matter():
    assert Vocabulary.of(["emma", "ava"]) == Vocabulary.of(["ava", "emma"])


def test_encoding_numbers_letters_and_adds_no_boundary():
    assert LATIN.encode("abz") == [1, 2, 26]
    assert LATIN.encode("") == []


@pytest.mark.parametrize("name", ["emma", "o'brien", "αθηνά", "สมชาย", "👩🏽‍🚀"])
def test_decoding_gives_back_what_was_encoded(name: str):
    vocabulary = Vocabulary.of([name])

    assert vocabulary.decode(vocabulary.encode(name)) == name


def test_the_boundary_is_decoded_as_itself():
    assert LATIN.decode([0, 1, 0]) == ".a."


@pytest.mark.parametrize("i", [-1, 27])
def test_an_id_outside_the_vocabulary_is_no_character(i: int):
    with pytest.raises(AssertionError):
        LATIN.decode([i])


def test_an_unknown_letter_is_named_with_its_place_and_the_letters_known():
    with pytest.raises(UnknownCharacterError) as unknown:
        LATIN.encode("zoé")

    assert str(unknown.value) == (
        "'zoé' has 'é' as letter 3; the letters known are 'abcdefghijklmnopqrstuvwxyz'."
    )


def test_the_first_letter_is_letter_1():
    with pytest.raises(UnknownCharacterError, match="has 'E' as letter 1;"):
        LATIN.encode("Emma")


def test_the_boundary_is_no_letter():
    with pytest.raises(UnknownCharacterError, match=r"has '\.' as letter 3;"):
        LATIN.encode("st.john")
    assert not LATIN.is_known(".")


def test_lower_case_is_suggested_where_it_helps():
    with pytest.raises(UnknownCharacterError, match=r"Write it in lower case: 'emma'\."):
        LATIN.encode("Emma")


@pytest.mark.parametrize("text", ["zoé", "Zoé"])
def test_lower_case_is_not_suggested_where_it_does_not_help(text: str):
    with pytest.raises(UnknownCharacterError) as unknown:
        LATIN.encode(text)

    assert "lower case" not in str(unknown.value)


def test_sixty_letters_are_shown_whole_and_more_are_counted():
    letters = [chr(0x4E00 + i) for i in range(63)]
    sixty, more = Vocabulary.of(letters[:60]), Vocabulary.of(letters)

    with pytest.raises(UnknownCharacterError) as unknown_to_sixty:
        sixty.encode("a")
    with pytest.raises(UnknownCharacterError) as unknown_to_more:
        more.encode("a")

    assert str(unknown_to_sixty.value).endswith(f"{''.join(letters[:60])!r}.")
    assert str(unknown_to_more.value).endswith(f"{''.join(letters[:60])!r} and 3 more.")


@pytest.mark.parametrize(
    ("text", "is_known"), [("emma", True), ("", True), ("Emma", False), ("zoé", False)]
)
def test_known_text_is_text_that_can_be_encoded(text: str, is_known: bool):
    assert LATIN.is_known(text) is is_known


@pytest.mark.parametrize(
    ("characters", "message"),
    [
        pytest.param((), "begins with ''", id="empty"),
        pytest.param(("a", "."), "begins with 'a'", id="boundary-not-first"),
        pytest.param((".", "a", "b", "a"), "holds 'a' more than once", id="repeated"),
        pytest.param((".", "a", "."), r"holds '\.' more than once", id="boundary-repeated"),
        pytest.param((".", "ab"), "holds 'ab'", id="two-characters"),
        pytest.param((".", ""), "holds ''", id="no-character"),
        pytest.param((".", 7), "holds 7", id="no-text"),
    ],
)
def test_a_damaged_vocabulary_is_refused(characters: tuple[str, ...], message: str):
    with pytest.raises(DataError, match=message):
        Vocabulary(characters)


def test_copies_and_pickles_still_encode():
    for twin in (copy.deepcopy(LATIN), pickle.loads(pickle.dumps(LATIN))):
        assert twin == LATIN
        assert twin.encode("emma") == LATIN.encode("emma")


def test_equal_vocabularies_have_the_same_hash():
    assert hash(Vocabulary.of(["ab"])) == hash(Vocabulary.of(["ba"]))
