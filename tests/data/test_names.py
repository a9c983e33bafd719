import codecs
import hashlib
import os
import re
import sys
import unicodedata
from pathlib import Path

import pytest

from data.errors import DataError, UsageError
from data.names import NAMES_FILE, SPACES, BadLinesError, Names, card, read_names

BOOKS_FILE = Path(__file__).resolve().parents[2].parent / "shared/data/makemore_names.txt"
needs_books_file = pytest.mark.skipif(not BOOKS_FILE.exists(), reason="the book's file is absent")


def read(tmp_path: Path, content: str | bytes, *, skip_bad_lines: bool = False) -> Names:
    path = tmp_path / "some.txt"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_names(path, skip_bad_lines=skip_bad_lines)


def refusal(tmp_path: Path, line: str) -> str:
    """Read a file in which the second line can't be used; return why."""
    names = read(tmp_path, f"alexandrine\n{line}\nava\n", skip_bad_lines=True)
    (refused,) = names.report.refused
    assert names.names == ("alexandrine", "ava")
    assert refused.number == 2
    return refused.reason


def test_the_projects_own_names_need_no_repair():
    names = read_names()

    assert names.report.sentences() == []
    assert names.report.n_lines == len(names.names) == 32_257


def test_the_projects_own_file_has_one_plain_line_a_name():
    assert NAMES_FILE.read_bytes() == "".join(f"{name}\n" for name in read_names().names).encode()


def test_a_card_measures_the_projects_own_names():
    measured = card(read_names())

    assert measured.n_records == 32_257
    assert measured.n_distinct == 29_693
    assert measured.alphabet == "abcdefghijklmnopqrstuvwxyz"
    assert len(measured.longest) == 15


@needs_books_file
def test_the_books_names_come_out():
    measured = card(read_names(BOOKS_FILE))

    assert measured.n_records == 32_033
    assert len(measured.alphabet) == 26


def test_a_card_counts_records_by_length_and_keeps_the_first_longest(tmp_path: Path):
    measured = card(read(tmp_path, "emma\nava\nanna\nava\n"))

    assert measured.n_by_length == {3: 2, 4: 2}
    assert list(measured.n_by_length) == [3, 4]
    assert measured.mean_length == 3.5
    assert measured.longest == "emma"
    assert measured.alphabet == "aemnv"
    assert measured.n_distinct == 3


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", ["", "\n"])
def test_every_kind_of_line_end_is_read(tmp_path: Path, line_end: str, last: str):
    names = read(tmp_path, f"emma{line_end}{line_end}ava" + last.replace("\n", line_end))

    assert names.names == ("emma", "ava")
    assert names.report.n_lines == 3
    assert names.report.n_blank == 1


def test_lines_of_nothing_but_spaces_are_dropped_and_counted(tmp_path: Path):
    names = read(tmp_path, "emma\n\n \t\u00a0\nava\n")

    assert names.names == ("emma", "ava")
    assert names.report.n_blank == 2
    assert names.report.n_stripped == 0


def test_a_byte_order_mark_is_no_letter(tmp_path: Path):
    names = read(tmp_path, codecs.BOM_UTF8 + b"emma\n")

    assert names.names == ("emma",)
    assert names.report.had_bom
    assert names.report.sentences() == ["The byte-order mark at the start was left out."]


def test_spaces_around_a_name_are_stripped_and_counted(tmp_path: Path):
    names = read(tmp_path, " emma\nava \t\nmia\u3000\nzoe\n")

    assert names.names == ("emma", "ava", "mia", "zoe")
    assert names.report.n_stripped == 3


def test_every_space_of_unicode_is_known():
    spaces = {chr(i) for i in range(sys.maxunicode + 1) if unicodedata.category(chr(i)) == "Zs"}

    assert set(SPACES) == spaces | {"\t"}


def test_unusual_inner_spaces_are_made_plain_and_counted(tmp_path: Path):
    names = read(tmp_path, "mary\u00a0ann\nmary ann\n")

    assert names.names == ("mary ann", "mary ann")
    assert names.report.n_spaces == 1


def test_capitals_are_lowered_and_counted(tmp_path: Path):
    names = read(tmp_path, "Emma\nAVA\nzoe\nÉva\n")

    assert names.names == ("emma", "ava", "zoe", "éva")
    assert names.report.n_lowered == 3


def test_letters_in_two_pieces_are_composed_and_counted(tmp_path: Path):
    names = read(tmp_path, "zoe\u0301\nzo\u00e9\n")

    assert names.names == ("zo\u00e9", "zo\u00e9")
    assert names.report.n_normalised == 1


def test_letters_that_compose_only_in_lower_case_are_composed(tmp_path: Path):
    assert read(tmp_path, "J\u030c\n").names == ("\u01f0",)


def test_reading_what_was_read_changes_nothing(tmp_path: Path):
    text = codecs.BOM_UTF8.decode() + "İpek\r\n Zoe\u0301\u00a0Ann \r\nΟΔΥΣΣΕΥΣ\r\nÅsa\r\n"
    once = read(tmp_path, text)

    again = read(tmp_path, "\n".join(once.names))

    assert again.names == once.names
    assert again.report.sentences() == []


@pytest.mark.parametrize(
    "name", ["o'brien", "anne-marie", "mary ann", "αθηνά", "สมชาย", "👩🏽‍🚀", "می‌نا"]
)
def test_any_alphabet_is_read_as_it_stands(tmp_path: Path, name: str):
    assert read(tmp_path, name).names == (unicodedata.normalize("NFC", name),)


@pytest.mark.parametrize("line", ["emma,F", "emma\tF", "emma;F", "18055", "anna2", "anna٢", "a,.5"])
def test_a_line_of_a_table_is_refused(tmp_path: Path, line: str):
    assert refusal(tmp_path, line) == "looks like a table; give one name a line"


def test_a_character_that_becomes_a_semicolon_is_refused(tmp_path: Path):
    assert "table" in refusal(tmp_path, "anna\u037e")


def test_the_boundary_inside_a_name_is_refused(tmp_path: Path):
    assert refusal(tmp_path, "st.john") == "holds '.', which marks where names begin and end"


@pytest.mark.parametrize(
    "code", [0x00, 0x07, 0x1B, 0x1C, 0x7F, 0x85, 0x2028, 0x2029], ids="U+{:04X}".format
)
@pytest.mark.parametrize("where", ["an{}na", "anna{}", "{}"])
def test_control_characters_are_refused(tmp_path: Path, code: int, where: str):
    line = where.format(chr(code))

    assert refusal(tmp_path, line) == f"holds the control character U+{code:04X}"


@pytest.mark.parametrize(
    "line", ["an\u200bna", "\ufeffanna", "an\u00adna", "anna\u200d", "\u200canna", "\u200d"]
)
def test_invisible_characters_are_refused(tmp_path: Path, line: str):
    assert refusal(tmp_path, line).startswith("holds the invisible character U+")


def test_an_undecodable_byte_is_named_and_the_other_lines_are_read(tmp_path: Path):
    names = read(tmp_path, b"emma\nzo\xe9\nava\n", skip_bad_lines=True)

    (line,) = names.report.refused
    assert names.names == ("emma", "ava")
    assert line.reason == "byte 0xE9 is not UTF-8"
    assert line.text == "zo\ufffd"


def test_a_file_that_is_not_utf_8_is_told_once_how_to_convert_it(tmp_path: Path):
    with pytest.raises(BadLinesError) as refused:
        read(tmp_path, b"emma\nzo\xe9\nchlo\xeb\n")

    assert str(refused.value).count("iconv -f latin1 -t utf-8 FILE > NEW") == 1
    assert "must be UTF-8" in str(refused.value)


def test_conversion_is_not_suggested_for_other_faults(tmp_path: Path):
    with pytest.raises(BadLinesError) as refused:
        read(tmp_path, "emma\nst.john\n")

    assert "iconv" not in str(refused.value)


def test_one_bad_line_refuses_the_file_with_all_that_is_needed_to_mend_it(tmp_path: Path):
    with pytest.raises(BadLinesError) as refused:
        read(tmp_path, "emma\n\nst.john\n")

    assert str(refused.value) == (
        f"'{tmp_path}/some.txt': 1 of 3 lines can't be used: line 3 'st.john' (holds '.', which "
        "marks where names begin and end). Mend them, or leave them out with --skip-bad-lines."
    )


def test_only_the_first_five_bad_lines_are_quoted(tmp_path: Path):
    with pytest.raises(BadLinesError, match=r"; and 2 more\.") as refused:
        read(tmp_path, "a,b\n" * 7)

    assert re.findall(r"line (\d)", str(refused.value)) == ["1", "2", "3", "4", "5"]


def test_a_long_bad_line_is_shortened(tmp_path: Path):
    with pytest.raises(BadLinesError) as refused:
        read(tmp_path, "x" * 1000 + ",\n")

    assert "'" + "x" * 39 + "…'" in str(refused.value)


def test_a_message_holds_no_characters_that_upset_a_terminal(tmp_path: Path):
    with pytest.raises(BadLinesError) as refused:
        read(tmp_path, "an\x1b[2Jna\n\u202eanna\n")

    assert str(refused.value).isprintable()


def test_every_line_is_a_name_or_blank_or_refused(tmp_path: Path):
    names = read(tmp_path, b"emma\n\nst.john\n \nzo\xe9\nava,F\nmia", skip_bad_lines=True)

    report = names.report
    assert (len(names.names), report.n_blank, len(report.refused)) == (2, 2, 3)
    assert report.n_lines == 7


def test_repairs_of_refused_lines_are_not_counted(tmp_path: Path):
    names = read(tmp_path, "emma\n ST.JOHN\n", skip_bad_lines=True)

    assert names.report.n_lowered == names.report.n_stripped == 0


def test_a_report_says_all_that_was_done(tmp_path: Path):
    text = "\ufeffEmma\n ava\n mia\n\nzoe\u0301\nmary\u00a0ann\na,b\n"

    assert read(tmp_path, text, skip_bad_lines=True).report.sentences() == [
        "The byte-order mark at the start was left out.",
        "1 line dropped: blank.",
        "2 lines stripped of spaces before or behind the name.",
        "1 line had unusual inner spaces made plain.",
        "1 line made lower case.",
        "1 line brought to composed characters (Unicode NFC).",
        "1 line refused: line 7 'a,b' (looks like a table; give one name a line).",
    ]


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff", "a,b\n"])
def test_a_file_without_a_name_is_refused(tmp_path: Path, content: str):
    with pytest.raises(DataError, match="holds no names"):
        read(tmp_path, content, skip_bad_lines=True)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be-bom", "utf-32"])
def test_utf_16_and_its_like_get_one_sentence(tmp_path: Path, encoding: str):
    content = (
        codecs.BOM_UTF16_BE + "emma\nava\n".encode("utf-16-be")
        if encoding == "utf-16-be-bom"
        else "emma\nava\n".encode(encoding)
    )

    with pytest.raises(DataError, match=r"is UTF-16; .* iconv -f utf-16 -t utf-8 FILE > NEW"):
        read(tmp_path, content, skip_bad_lines=True)


@pytest.mark.parametrize("content", ["emma\nava\n".encode("utf-16-le"), bytes(100)])
def test_a_file_full_of_nul_bytes_gets_one_sentence(tmp_path: Path, content: bytes):
    with pytest.raises(DataError, match="full of NUL bytes"):
        read(tmp_path, content, skip_bad_lines=True)


def test_the_checksum_is_that_of_the_file_as_it_lies_on_disk(tmp_path: Path):
    content = codecs.BOM_UTF8 + b"Emma\r\n"

    names = read(tmp_path, content)

    assert names.sha256 == hashlib.sha256(content).hexdigest()
    assert names.path == tmp_path / "some.txt"


@pytest.mark.parametrize("below", ["none.txt", "file/none.txt"])
def test_a_missing_file_is_not_there(tmp_path: Path, below: str):
    (tmp_path / "file").touch()

    with pytest.raises(UsageError, match=f"{below}' is not there"):
        read_names(tmp_path / below)


def test_a_directory_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="is a directory"):
        read_names(tmp_path)


def test_a_pipe_is_refused_without_waiting_for_it(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(UsageError, match="is a pipe or a device"):
        read_names(tmp_path / "pipe")


def test_a_device_is_refused():
    with pytest.raises(UsageError, match="is a pipe or a device"):
        read_names(Path(os.devnull))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_refused(tmp_path: Path):
    (tmp_path / "mine.txt").touch(mode=0o000)

    with pytest.raises(UsageError, match="may not be read"):
        read_names(tmp_path / "mine.txt")


def test_a_path_that_the_system_refuses_gets_its_reason(tmp_path: Path):
    with pytest.raises(UsageError, match="can't be read: File name too long"):
        read_names(tmp_path / ("x" * 5000))
