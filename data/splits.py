"""Divide the names into train, val and test, always the same way, so that runs can be compared."""

import difflib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from data.errors import DataError, UsageError

SPLIT_SEED = 42  # not the run's seed: another split would change the loss of the same model
SPLIT_WAYS = ("clean", "book")


class TooFewNamesError(DataError):
    """There are not enough names to put some in each part."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Splits:
    """The names, shuffled and divided into three parts."""

    train: tuple[str, ...]
    """Learned from."""
    val: tuple[str, ...]
    """Measured while training, to choose settings."""
    test: tuple[str, ...]
    """Measured once, at the end."""
    way: str
    """One of `SPLIT_WAYS`."""
    n_duplicates: int
    """Records dropped because the name came before."""
    n_leaked: int
    """Records of val whose name is also in train."""
    _train: frozenset[str] = field(init=False, compare=False, repr=False)
    _val: frozenset[str] = field(init=False, compare=False, repr=False)
    _test: frozenset[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Build the sets in which `novelty` looks a name up."""
        object.__setattr__(self, "_train", frozenset(self.train))
        object.__setattr__(self, "_val", frozenset(self.val))
        object.__setattr__(self, "_test", frozenset(self.test))

    def novelty(self, name: str) -> Literal["train", "val", "test", "new"]:
        """Return the first part that holds the name, or "new" if none does."""
        if name in self._train:
            return "train"
        if name in self._val:
            return "val"
        return "test" if name in self._test else "new"


def part_sizes(n_names: int) -> tuple[int, int, int]:
    """Return how many of n_names go to train, val and test."""
    val_from, test_from = int(0.8 * n_names), int(0.9 * n_names)
    return val_from, test_from - val_from, n_names - test_from


# From ten names on, a tenth is at least one name; so only fewer can leave a part empty.
FEWEST_NAMES = 1 + max(n for n in range(10) if 0 in part_sizes(n))


def split(names: Sequence[str], way: str = "clean") -> Splits:
    """Shuffle the names and give 80 % to train, 10 % each to val and test.

    Args:
        names: Records in file order.
        way: "clean" drops repeated names first and does not depend on the order of the file;
            "book" keeps them, so val and test hold names that the model learned.

    Raises:
        UsageError: If there is no such way.
        TooFewNamesError: If a part would be empty.
    """
    _check_way(way)
    kept = sorted(set(names)) if way == "clean" else list(names)
    if len(kept) < FEWEST_NAMES:
        kind = "distinct names" if way == "clean" else "names"
        raise TooFewNamesError(
            f"There are too few {kind} to divide into train, val and test: {len(kept)}. "
            f"At least {FEWEST_NAMES} are needed; add more, one a line."
        )
    random.Random(SPLIT_SEED).shuffle(kept)
    n_train, n_val, _ = part_sizes(len(kept))
    train, val = kept[:n_train], kept[n_train : n_train + n_val]
    learned = set(train)
    return Splits(
        train=tuple(train),
        val=tuple(val),
        test=tuple(kept[n_train + n_val :]),
        way=way,
        n_duplicates=len(names) - len(kept),
        n_leaked=sum(name in learned for name in val),
    )


def _check_way(way: str) -> None:
    if way not in SPLIT_WAYS:
        near = difflib.get_close_matches(way.lower(), SPLIT_WAYS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"There is no split {way!r}. Possible: {', '.join(SPLIT_WAYS)}.{hint}")
