import io
import json
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
from rich.cells import cell_len

from tui.output import emit, note, say, table

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
WIDE = ["愛子", "emma", "e\u0301a", "李", "안나"]
"""Names of two cells a letter, of one, and with an accent of no width."""
COLUMNS, ROWS = ("name", "loss"), [(name, f"{place}.5") for place, name in enumerate(WIDE)]

Draw = Callable[..., list[str]]


class Terminal(io.StringIO):
    """A stdout that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def plain(capsys: pytest.CaptureFixture[str]) -> Draw:
    """Return the lines of a table in a pipe."""

    def draw(*arguments: Any, **named: Any) -> list[str]:
        table(*arguments, **named)
        return capsys.readouterr().out.splitlines()

    return draw


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Draw:
    """Return the lines of a table in a terminal, without its colours."""

    def draw(*arguments: Any, **named: Any) -> list[str]:
        terminal = Terminal()
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setattr(sys, "stdout", terminal)
        table(*arguments, **named)
        return ESCAPES.sub("", terminal.getvalue()).splitlines()

    return draw


def starts(lines: list[str], texts: list[str]) -> set[int]:
    """Return the cells at which each text begins on the line that holds it."""
    found = [(line, text) for line in lines for text in texts if text in line]
    assert len(found) == len(texts)
    return {cell_len(line[: line.index(text)]) for line, text in found}


@pytest.mark.parametrize("surface", ["plain", "drawn"])
def test_a_column_begins_at_one_cell_however_wide_the_letters_are(
    surface: str, request: pytest.FixtureRequest
):
    draw: Draw = request.getfixturevalue(surface)
    places = [f"x{place}" for place in range(len(WIDE))]

    lines = draw(("name", "place"), list(zip(WIDE, places, strict=True)))

    assert len(starts(lines, ["place", *places])) == 1


@pytest.mark.parametrize(
    "numbers", [("7", "1,234", "12.5"), ("-1.5", "−12.5", "+3"), ("", "1.5", "100")]
)
@pytest.mark.parametrize("surface", ["plain", "drawn"])
def test_numbers_stand_right(
    surface: str, numbers: tuple[str, ...], request: pytest.FixtureRequest
):
    draw: Draw = request.getfixturevalue(surface)

    lines = draw(("loss", "x"), [(number, "end") for number in numbers])

    rows = [line.removesuffix("end") for line in (line.rstrip() for line in lines) if "end" in line]
    assert [row.strip() for row in rows] == list(numbers)
    assert len({cell_len(row) for row in rows}) == 1
    assert len({cell_len(row.rstrip()) for row in rows if row.strip()}) == 1


@pytest.mark.parametrize("surface", ["plain", "drawn"])
def test_a_column_with_a_word_in_it_stands_left(surface: str, request: pytest.FixtureRequest):
    draw: Draw = request.getfixturevalue(surface)

    lines = draw(("step", "x"), [("7", "a"), ("30/30", "b"), ("none", "c")])

    assert len(starts(lines, ["step", "7", "30/30", "none"])) == 1


def test_a_table_in_a_pipe_is_text_and_nothing_else(plain: Draw):
    assert plain(("run", "loss"), [("a-1", "2.5"), ("b", "10")], title="losses") == [
        "run  loss",
        "a-1   2.5",
        "b      10",
    ]


def test_a_table_without_rows_is_its_headings(plain: Draw):
    assert plain(("run", "loss"), []) == ["run  loss"]


@pytest.mark.parametrize("text", ["[/b]", "[red]anna[/red]", "[bold", ":smile:", "a\\[b]"])
@pytest.mark.parametrize("surface", ["plain", "drawn"])
def test_text_that_looks_like_markup_is_shown_as_it_is(
    surface: str, text: str, request: pytest.FixtureRequest
):
    draw: Draw = request.getfixturevalue(surface)

    lines = draw(("name", "x"), [(text, "1")])

    assert any(text in line for line in lines)


def test_a_table_in_a_terminal_has_its_title_and_a_line_under_its_headings(drawn: Draw):
    lines = drawn(COLUMNS, ROWS, title="losses")

    assert lines[0].strip() == "losses"
    heading = next(place for place, line in enumerate(lines) if "name" in line)
    assert set(lines[heading + 1].replace(" ", "")) == {"─"}
    assert "emma" in "".join(lines[heading + 2 :])


def test_results_go_to_stdout_and_all_else_to_stderr(capsys: pytest.CaptureFixture[str]):
    say("a result")
    note("a hint")

    assert capsys.readouterr() == ("a result\n", "a hint\n")


@pytest.mark.parametrize("content", [{"name": "Zoé 愛子"}, {"text": "two\nlines"}, {"loss": None}])
def test_an_object_is_one_line_that_reads_back_the_same(
    content: dict[str, Any], capsys: pytest.CaptureFixture[str]
):
    emit(content)

    out, err = capsys.readouterr()
    assert out.count("\n") == 1
    assert json.loads(out) == content
    assert err == ""


def test_odd_letters_are_written_as_they_are(capsys: pytest.CaptureFixture[str]):
    emit({"name": "Zoé"})

    assert capsys.readouterr().out == '{"name": "Zoé"}\n'


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_json_that_strict_readers_refuse_is_never_written(
    number: float, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(ValueError, match="not JSON compliant"):
        emit({"loss": number})

    assert capsys.readouterr().out == ""
