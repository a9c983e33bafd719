"""The names of one run: read, split and turned into ids, always the same way. No torch here."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from core.presets import DataConfig
from data.errors import DataError
from data.names import NAMES_FILE, Names, read_names
from data.splits import Splits, split
from data.vocabulary import Vocabulary

SPLITS = ("train", "val", "test")


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """Names, their splits and their alphabet."""

    names: Names
    splits: Splits
    vocabulary: Vocabulary
    """Made from all names that were accepted, before the split."""

    def ids(self, part: str) -> list[list[int]]:
        """Return the ids of each name of train, val or test, without boundaries."""
        return [self.vocabulary.encode(name) for name in getattr(self.splits, part)]

    @property
    def longest(self) -> str:
        """The name with the most letters."""
        return max(self.names.names, key=len)


def load_corpus(data: DataConfig) -> Corpus:
    """Read and split the names that a plan asks for.

    Raises:
        DataError: If a line can't be used, or there are too few names.
        UsageError: If the file isn't there.
    """
    path = Path(data.path) if data.path else NAMES_FILE
    names = read_names(path, skip_bad_lines=data.skip_bad_lines)
    return Corpus(
        names=names,
        splits=split(names.names, data.split),
        vocabulary=Vocabulary.of(names.names),
    )


def reload_corpus(data: DataConfig, sha256: str, characters: Sequence[str]) -> Corpus:
    """Read the names that a run was made with, again.

    Args:
        data: As the run recorded it.
        sha256: Of the file's bytes then.
        characters: The run's vocabulary.

    Raises:
        DataError: If the file has changed since.
    """
    corpus = load_corpus(data)
    if corpus.names.sha256 != sha256 or list(corpus.vocabulary.characters) != list(characters):
        raise DataError(
            f"{corpus.names.path} is not the file this run was made with: its content has "
            "changed. Put the old file back, or train anew."
        )
    return corpus
