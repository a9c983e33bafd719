"""Read a file of names, one a line; say what was repaired, dropped and refused.

Source of `names.txt`: U.S. Social Security Administration, "Baby Names from Social Security Card
Applications", national names of 2018, one line a name and sex, most frequent first.
Licence: a work of the U.S. government, in the public domain.
"""

import codecs
import hashlib
import re
import stat
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from data.errors import DataError, UsageError
from data.vocabulary import BOUNDARY

NAMES_FILE = Path(__file__).with_name("names.txt")
N_SHOWN = 5  # refused lines quoted in a message
N_QUOTED = 40  # characters of a refused line quoted in a message
NOT_UTF8 = "is not UTF-8"
HOW_TO_CONVERT = (
    "The file must be UTF-8; if it is Latin-1, convert it: iconv -f latin1 -t utf-8 FILE > NEW"
)

# str.strip would also take control characters such as U+001C, which are to be refused.
UNUSUAL_SPACES = (
    "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u202f\u205f\u3000"
)
SPACES = " \t" + UNUSUAL_SPACES
TO_PLAIN_SPACE = str.maketrans(dict.fromkeys(UNUSUAL_SPACES, " "))
JOINERS = "\u200c\u200d"  # invisible, but part of the spelling in some scripts and of some emoji


class BadLinesError(DataError):
    """Lines of a names file can't be used, and nobody asked to leave them out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusedLine:
    """A line that can't be used as a name."""

    number: int
    """Counted from 1."""
    text: str
    """The whole line as it stands in the file; an undecodable byte is shown as �."""
    reason: str
    """Why, in words that fit behind the text."""

    def __str__(self) -> str:
        """Return number, text and reason, short and without characters that upset a terminal."""
        is_long = len(self.text) > N_QUOTED
        text = self.text[: N_QUOTED - 1] + "…" if is_long else self.text
        return f"line {self.number} {text!r} ({self.reason})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What reading a names file did to its lines; repairs count lines that were accepted."""

    n_lines: int
    """All lines: names, blank lines and refused ones."""
    n_blank: int
    """Lines dropped because nothing but spaces stands on them."""
    n_lowered: int
    """Names with capitals, made lower case."""
    n_stripped: int
    """Names with spaces before or behind, taken off."""
    n_normalised: int
    """Names brought to Unicode's composed form (NFC), in which é is one character."""
    n_spaces: int
    """Names with unusual inner spaces, such as the no-break space, made plain."""
    had_bom: bool
    """Whether the file began with a byte-order mark, which was left out."""
    refused: tuple[RefusedLine, ...]
    """The lines that can't be used, in file order."""

    def sentences(self) -> list[str]:
        """Say in plain words what was repaired, dropped and refused; nothing if nothing was."""
        told = [
            (self.n_blank, "{} dropped: blank."),
            (self.n_stripped, "{} stripped of spaces before or behind the name."),
            (self.n_spaces, "{} had unusual inner spaces made plain."),
            (self.n_lowered, "{} made lower case."),
            (self.n_normalised, "{} brought to composed characters (Unicode NFC)."),
        ]
        sentences = [text.format(_n_lines(count)) for count, text in told if count]
        if self.had_bom:
            sentences.insert(0, "The byte-order mark at the start was left out.")
        if self.refused:
            sentences.append(f"{_n_lines(len(self.refused))} refused: {_describe(self.refused)}.")
        return sentences


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """The names of a file, in file order, repeated ones included."""

    names: tuple[str, ...]
    """One record each; at least one."""
    report: Report
    """What was repaired, dropped and refused on the way."""
    path: Path
    """Where they were read."""
    sha256: str
    """Of the file's bytes, in hexadecimal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetCard:
    """The measures of a dataset; counts are of records unless they say otherwise."""

    n_records: int
    """Names, repeated ones included."""
    n_distinct: int
    """Names, each counted once."""
    longest: str
    """The longest name, the first of them if there are several."""
    mean_length: float
    """In characters."""
    alphabet: str
    """All characters that occur, by code point; the boundary is not one of them."""
    n_by_length: dict[int, int]
    """Records of each length that occurs, shortest first."""


def read_names(path: Path = NAMES_FILE, *, skip_bad_lines: bool = False) -> Names:
    """Read the names of a UTF-8 text file, one a line, repairing what has one clear repair.

    Args:
        path: A regular file; line ends may be LF, CRLF or CR.
        skip_bad_lines: Leave out lines that can't be used instead of refusing the file.

    Raises:
        UsageError: If there is no readable file at path.
        BadLinesError: If a line can't be used and skip_bad_lines is false.
        DataError: If the file as a whole is not UTF-8 text, or no name is left.
    """
    content = _read_bytes(path)
    _check_is_text(content, path)
    names, report = _read_lines(content)
    if report.refused and not skip_bad_lines:
        raise BadLinesError(
            f"{str(path)!r}: {len(report.refused):,} of {_n_lines(report.n_lines)} can't be used: "
            f"{_describe(report.refused)}. Mend them, or leave them out with --skip-bad-lines."
        )
    if not names:
        raise DataError(f"{str(path)!r} holds no names. Give a text file with one name a line.")
    sha256 = hashlib.sha256(content).hexdigest()
    return Names(names=names, report=report, path=path, sha256=sha256)


def card(names: Names) -> DatasetCard:
    """Measure a dataset: its size, its alphabet and the lengths of its names."""
    n_by_length = Counter(len(name) for name in names.names)
    return DatasetCard(
        n_records=len(names.names),
        n_distinct=len(set(names.names)),
        longest=max(names.names, key=len),
        mean_length=sum(len(name) for name in names.names) / len(names.names),
        alphabet="".join(sorted(set("".join(names.names)))),
        n_by_length=dict(sorted(n_by_length.items())),
    )


def _read_bytes(path: Path) -> bytes:
    given = repr(str(path))
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise UsageError(f"{given} is a directory. Give a text file with one name a line.")
        if not stat.S_ISREG(mode):  # reading a pipe or a device could wait for ever
            raise UsageError(
                f"{given} is a pipe or a device. Only regular files are read: save its content "
                "in one, one name a line, and give that."
            )
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(
            f"{given} is not there. Give the path of a text file with one name a line."
        ) from None
    except PermissionError:
        raise UsageError(
            f"{given} may not be read by you. Change its permissions, or give another file."
        ) from None
    except OSError as error:
        raise UsageError(
            f"{given} can't be read: {error.strerror}. Give a text file with one name a line."
        ) from None


def _check_is_text(content: bytes, path: Path) -> None:
    given = repr(str(path))
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise DataError(
            f"{given} is UTF-16; names are read as UTF-8. Convert it: "
            "iconv -f utf-16 -t utf-8 FILE > NEW"
        )
    if content.count(0) * 10 > len(content):
        raise DataError(
            f"{given} is full of NUL bytes, so it is not UTF-8 text. If it is UTF-16, convert it: "
            "iconv -f utf-16le -t utf-8 FILE > NEW"
        )


def _read_lines(content: bytes) -> tuple[tuple[str, ...], Report]:
    lines = re.split(rb"\r\n|\n|\r", content.removeprefix(codecs.BOM_UTF8))
    if not lines[-1]:  # what follows the last line end is no line
        lines.pop()
    names: list[str] = []
    refused: list[RefusedLine] = []
    counts = Counter[str]()
    for number, line in enumerate(lines, start=1):
        text = line.decode(errors="replace")
        name, repairs = _repair(text)
        reason = _undecodable(line) or _unusable(name)
        if reason:
            refused.append(RefusedLine(number=number, text=text, reason=reason))
        elif not name:
            counts["blank"] += 1
        else:
            names.append(name)
            counts.update(repairs)
    return tuple(names), Report(
        n_lines=len(lines),
        n_blank=counts["blank"],
        n_lowered=counts["lowered"],
        n_stripped=counts["stripped"],
        n_normalised=counts["normalised"],
        n_spaces=counts["spaces"],
        had_bom=content.startswith(codecs.BOM_UTF8),
        refused=tuple(refused),
    )


def _compose(text: str) -> str:
    return unicodedata.normalize("NFC", text)


REPAIRS: dict[str, Callable[[str], str]] = {
    "stripped": lambda text: text.strip(SPACES),
    "spaces": lambda text: text.translate(TO_PLAIN_SPACE),
    "lowered": str.lower,
    "normalised": _compose,  # behind lowering, which can leave a letter in two pieces
}


def _repair(text: str) -> tuple[str, list[str]]:
    """Return the text after all repairs, and the names of those that changed it."""
    made: list[str] = []
    for repair, apply in REPAIRS.items():
        before, text = text, apply(text)
        if text != before:
            made.append(repair)
    return text, made


def _undecodable(line: bytes) -> str | None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return f"byte 0x{line[error.start]:02X} {NOT_UTF8}"
    return None


def _unusable(name: str) -> str | None:
    """Return why a repaired line can't be a name, or None if it can."""
    if name.isalpha():
        return None
    if any(character in ",;\t" or character.isdigit() for character in name):
        return "looks like a table; give one name a line"
    for place, character in enumerate(name):
        is_inside = 0 < place < len(name) - 1
        category = unicodedata.category(character)
        if category in ("Cc", "Zl", "Zp"):
            return f"holds the control character U+{ord(character):04X}"
        if category == "Cf" and not (character in JOINERS and is_inside):
            return f"holds the invisible character U+{ord(character):04X}"
    if BOUNDARY in name:
        return f"holds {BOUNDARY!r}, which marks where names begin and end"
    return None


def _describe(refused: Sequence[RefusedLine]) -> str:
    """Quote the first refused lines; say how to convert the file once, not for each line."""
    shown = "; ".join(str(line) for line in refused[:N_SHOWN])
    n_more = len(refused) - N_SHOWN
    more = f"; and {n_more:,} more" if n_more > 0 else ""
    hint = f". {HOW_TO_CONVERT}" if any(NOT_UTF8 in line.reason for line in refused) else ""
    return shown + more + hint


def _n_lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count:,} lines"
