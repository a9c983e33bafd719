import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from data.errors import UsageError
from data.names import read_names
from data.splits import FEWEST_NAMES, SPLIT_WAYS, TooFewNamesError, part_sizes, split
from data.vocabulary import Vocabulary

BOOKS_FILE = Path(__file__).resolve().parents[2].parent / "shared/data/makemore_names.txt"
needs_books_file = pytest.mark.skipif(not BOOKS_FILE.exists(), reason="the book's file is absent")

REPEATED = [f"{i:02}" for i in range(40)] * 3


def n_predictions(names: Iterable[str]) -> int:
    """Return how often a letter or the end is predicted in the names."""
    return sum(len(name) + 1 for name in names)


@needs_books_file
def test_the_books_split_comes_out():
    names = read_names(BOOKS_FILE).names
    parts = split(names, "book")

    counts = [n_predictions(part) for part in (parts.train, parts.val, parts.test)]
    assert len(Vocabulary.of(names)) == 27
    assert counts == [182_625, 22_655, 22_866]
    assert round(100 * parts.n_leaked / len(parts.val), 1) == 13.2


def test_the_projects_own_names_in_the_books_way_come_out():
    parts = split(read_names().names, "book")

    counts = [n_predictions(part) for part in (parts.train, parts.val, parts.test)]
    assert counts == [183_802, 22_949, 23_053]
    assert sum(counts) == 229_804
    assert round(100 * parts.n_leaked / len(parts.val), 1) == 12.6


def test_the_projects_own_names_without_repeats_come_out():
    parts = split(read_names().names)

    assert parts.n_duplicates == 32_257 - 29_693
    assert n_predictions(parts.train + parts.val + parts.test) == 212_822


def test_a_clean_split_holds_every_name_once():
    parts = split(REPEATED, "clean")

    assert sorted(parts.train + parts.val + parts.test) == sorted(set(REPEATED))
    assert parts.n_duplicates == 80
    assert parts.n_leaked == 0


def test_the_split_is_clean_unless_asked_otherwise():
    assert split(REPEATED) == split(REPEATED, "clean")
    assert split(REPEATED).way == "clean"


def test_the_books_way_holds_every_record():
    parts = split(REPEATED, "book")

    assert Counter(parts.train + parts.val + parts.test) == Counter(REPEATED)
    assert parts.n_duplicates == 0
    assert parts.way == "book"


def test_leaked_names_are_counted_by_record():
    parts = split(["emma"] * 50, "book")

    assert parts.n_leaked == len(parts.val) == 5


def test_the_books_way_shuffles_as_the_book_does():
    words = list(REPEATED)
    random.seed(42)
    random.shuffle(words)

    parts = split(REPEATED, "book")

    assert parts.train == tuple(words[:96])
    assert parts.val == tuple(words[96:108])
    assert parts.test == tuple(words[108:])


def test_a_clean_split_does_not_depend_on_the_order_of_the_file():
    words = sorted(set(REPEATED))
    random.Random(42).shuffle(words)

    for names in (REPEATED, REPEATED[::-1], sorted(REPEATED)):
        parts = split(names)
        assert parts.train + parts.val + parts.test == tuple(words)


@pytest.mark.parametrize("way", SPLIT_WAYS)
def test_other_randomness_neither_changes_a_split_nor_is_changed(way: str):
    random.seed(1)
    before = random.getstate()

    first = split(REPEATED, way)

    assert random.getstate() == before
    random.seed(2)
    assert split(REPEATED, way) == first


def test_splitting_leaves_the_given_names_alone():
    names = list(REPEATED)

    split(names, "book")

    assert names == REPEATED


def test_the_fewest_names_and_every_larger_number_fill_all_parts():
    assert all(min(part_sizes(n)) > 0 for n in range(FEWEST_NAMES, 40_000))
    assert min(part_sizes(FEWEST_NAMES - 1)) == 0


def test_parts_add_up_to_the_whole():
    assert all(sum(part_sizes(n)) == n for n in range(1000))


def test_the_fewest_names_can_be_split():
    parts = split(REPEATED[:FEWEST_NAMES])

    assert [len(part) for part in (parts.train, parts.val, parts.test)] == [4, 1, 1]


def test_too_few_names_are_counted_against_those_needed():
    with pytest.raises(TooFewNamesError, match=r"too few distinct names .*: 5\. At least 6 are"):
        split(REPEATED[:5] * 10)
    with pytest.raises(TooFewNamesError, match=r"too few names .*: 5\. At least 6 are"):
        split(REPEATED[:5], "book")


def test_an_unknown_way_is_told_the_known_ones_and_the_nearest():
    with pytest.raises(UsageError, match=r"'Boko'\. Possible: clean, book\. Did you mean 'book'\?"):
        split(REPEATED, "Boko")


def test_a_way_near_to_none_gets_no_guess():
    with pytest.raises(UsageError, match=r"'xyz'\. Possible: clean, book\.$"):
        split(REPEATED, "xyz")


def test_novelty_names_the_part_that_holds_a_name():
    parts = split(REPEATED)

    assert {parts.novelty(name) for name in parts.train} == {"train"}
    assert {parts.novelty(name) for name in parts.val} == {"val"}
    assert {parts.novelty(name) for name in parts.test} == {"test"}
    assert parts.novelty("emma") == "new"


def test_a_leaked_name_counts_as_learned():
    parts = split(["emma"] * 20, "book")

    assert parts.novelty("emma") == "train"
