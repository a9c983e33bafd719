"""Characters to ids and back: id 0 is the boundary, the letters follow by code point."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from data.errors import DataError, UsageError

BOUNDARY = "."
N_LETTERS_SHOWN = 60  # in a message that lists the letters known


class UnknownCharacterError(UsageError):
    """The text holds a character that the vocabulary does not."""


def _is_character(value: object) -> bool:
    return isinstance(value, str) and len(value) == 1


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The characters a model knows; a character's place is its id."""

    characters: tuple[str, ...]
    """In id order: first the boundary, then the letters."""
    _ids: dict[str, int] = field(init=False, compare=False, repr=False)
    """Letter to id. The boundary is left out: no text may hold it."""

    def __post_init__(self) -> None:
        """Refuse characters that a damaged run could hold, and number the letters.

        Raises:
            DataError: If they are not distinct single characters with the boundary first.
        """
        for value in self.characters:
            if not _is_character(value):
                raise DataError(
                    f"The vocabulary holds {value!r}; each entry must be a single character. "
                    "Its file is damaged: use another run, or train again."
                )
        if self.characters[:1] != (BOUNDARY,):
            raise DataError(
                f"The vocabulary begins with {''.join(self.characters[:1])!r}; the first "
                f"character must be {BOUNDARY!r}. Its file is damaged: use another run, or train "
                "again."
            )
        ids = {character: i for i, character in enumerate(self.characters)}
        if len(ids) < len(self.characters):
            twice = next(c for c in self.characters if self.characters.count(c) > 1)
            raise DataError(
                f"The vocabulary holds {twice!r} more than once; its characters must be distinct. "
                "Its file is damaged: use another run, or train again."
            )
        del ids[BOUNDARY]
        object.__setattr__(self, "_ids", ids)

    @classmethod
    def of(cls, names: Iterable[str]) -> Self:
        """Return the vocabulary of all characters that occur in the names."""
        return cls((BOUNDARY, *sorted(set("".join(names)))))

    def __len__(self) -> int:
        return len(self.characters)

    def is_known(self, text: str) -> bool:
        """Tell whether every character of the text is a letter of this vocabulary."""
        return all(character in self._ids for character in text)

    def encode(self, text: str) -> list[int]:
        """Return the ids of the text's letters; no boundary is added.

        Raises:
            UnknownCharacterError: If a character is not one of the letters.
        """
        try:
            return [self._ids[character] for character in text]
        except KeyError:
            raise UnknownCharacterError(self._describe_unknown(text)) from None

    def decode(self, ids: Iterable[int]) -> str:
        """Return the characters of the ids; the boundary appears as itself."""
        ids = list(ids)
        assert all(0 <= i < len(self) for i in ids), f"ids outside 0..{len(self) - 1}: {ids}"
        return "".join(self.characters[i] for i in ids)

    def _describe_unknown(self, text: str) -> str:
        place, letter = next(
            (place, letter) for place, letter in enumerate(text, start=1) if letter not in self._ids
        )
        lowered = text.lower()
        hint = f" Write it in lower case: {lowered!r}." if self.is_known(lowered) else ""
        return f"{text!r} has {letter!r} as letter {place}; {self._describe_letters()}.{hint}"

    def _describe_letters(self) -> str:
        letters = self.characters[1:]
        n_more = len(letters) - N_LETTERS_SHOWN
        shown = "".join(letters[:N_LETTERS_SHOWN])
        return f"the letters known are {shown!r}" + (f" and {n_more} more" if n_more > 0 else "")
