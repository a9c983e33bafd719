import math
import random
import unicodedata
import xml.etree.ElementTree as ET

import pytest
from rich.cells import cell_len

from core.render import (
    ASCII_RAMP,
    BLOCKS,
    Heads,
    attention_overview,
    attention_svg,
    attention_text,
    attention_tsv,
    cell_width,
    cividis,
    matrix_text,
    number_text,
    shade,
    visible,
)

EMMA = (".", "e", "m", "m", "a")


def make_weights(T: int, n_layers: int = 2, n_heads: int = 3) -> Heads:
    """Make causal attention: zero above the diagonal, each row a distribution."""
    generator = random.Random(1)

    def row(query: int) -> list[float]:
        values = [generator.random() + 0.01 if key <= query else 0.0 for key in range(T)]
        return [value / sum(values) for value in values]

    return [[[row(q) for q in range(T)] for _ in range(n_heads)] for _ in range(n_layers)]


def columns_of(mark: str, lines: list[str]) -> list[set[int]]:
    """Return for each line at which cells the mark stands."""
    return [{cell_width(line[:i]) for i, char in enumerate(line) if char == mark} for line in lines]


def test_a_matrix_carries_names_on_both_edges_and_its_shape():
    text = matrix_text([[0.154, 0.313], [0.313, 0.25]], ["the", "sat"], ["the", "sat"], title="w")

    assert text.split("\n") == ["w (2×2)", "      the   sat", "the 0.154 0.313", "sat 0.313 0.250"]


@pytest.mark.parametrize(
    "values",
    [
        [[0.5, -12.25], [100.0, -0.0001]],
        [[-math.inf, 1.0], [math.nan, 2.5]],
        [[1e9, 0.25], [3.0, math.inf]],
    ],
)
def test_numbers_are_aligned_on_the_decimal_point(values: list[list[float]]):
    _, *lines = matrix_text(values, ["a", "中"], ["x", "y"]).split("\n")

    points = columns_of(".", lines)

    assert all(len(line) <= 2 for line in points)
    assert len(set[int]().union(*points)) <= 2


@pytest.mark.parametrize(
    ("value", "text", "ascii_text"),
    [
        (-math.inf, "−∞", "-inf"),
        (math.inf, "∞", "inf"),
        (math.nan, "nan", "nan"),
        (-0.0001, "0.000", "0.000"),
        (-1.5, "−1.500", "-1.500"),
        (2e9, "2.000e+09", "2.000e+09"),
    ],
)
def test_a_number_is_written_so_that_it_can_be_read(value: float, text: str, ascii_text: str):
    assert number_text(value) == text
    assert number_text(value, ascii_only=True) == ascii_text


def test_hidden_cells_show_a_dot_and_no_number():
    text = matrix_text([[1, 5], [3, 4]], "ab", "cd", digits=0, hidden=lambda i, j: j > i)

    assert text.split("\n") == ["  c d", "a 1 ·", "b 3 4"]


def test_columns_that_do_not_fit_follow_below_under_the_same_rows():
    values = [[float(j) for j in range(20)] for _ in range(2)]
    names = [f"c{j}" for j in range(20)]

    blocks = matrix_text(values, ["r0", "r1"], names, max_width=40).split("\n\n")

    assert " ".join(block.split("\n")[0] for block in blocks).split() == names
    assert all(cell_width(line) <= 40 for block in blocks for line in block.split("\n"))
    assert all(block.split("\n")[1].startswith("r0") for block in blocks)


def test_one_head_shows_its_weights_and_dots_above_the_diagonal():
    text = attention_text([[1.0, 0.0], [0.25, 0.75]], [".", "e"], title="layer 0, head 1")

    assert text.split("\n") == [
        "layer 0, head 1 (2×2)",
        "     .    e",
        ". 1.00    ·",
        "e 0.25 0.75",
    ]


def test_a_weight_of_zero_that_is_not_masked_is_a_number():
    assert attention_text([[1.0, 0.0], [1.0, 0.0]], "ab").endswith("b 1.00 0.00")


def test_a_head_that_sees_the_future_shows_it():
    assert "·" not in attention_text([[0.5, 0.5], [0.25, 0.75]], [".", "e"])


@pytest.mark.parametrize(
    "tokens", [("é", "e\u0301", "中"), ("\t", " ", "\u0301"), ("👍", "ｱ", ".")]
)
def test_wide_and_invisible_tokens_do_not_move_a_column(tokens: tuple[str, ...]):
    weights = make_weights(3, 1, 1)

    heading, *rows = attention_text(weights[0][0], tokens).split("\n")
    overview = attention_overview(weights, tokens).split("\n")[5:]

    assert {cell_width(heading), *map(cell_width, rows)} == {cell_width(heading)}
    assert len({cell_width(line[: line.index(" ", 1)]) for line in overview}) == 1


@pytest.mark.parametrize("ascii_only", [False, True])
def test_shade_never_falls_when_the_share_rises(ascii_only: bool):
    ramp = ASCII_RAMP if ascii_only else BLOCKS

    marks = [shade(i / 1000, ascii_only=ascii_only) for i in range(1001)]

    assert [ramp.index(mark) for mark in marks] == sorted(ramp.index(mark) for mark in marks)
    assert (marks[0], marks[-1], set(marks)) == (ramp[0], ramp[-1], set(ramp))


def test_shade_answers_for_values_that_are_no_share():
    assert [shade(value) for value in (-1.0, 2.0, math.nan)] == [" ", "█", "?"]


@pytest.mark.parametrize("T", [1, 2, 5, 16, 32, 70])
@pytest.mark.parametrize("max_width", [20, 40, 80, 200])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_the_overview_keeps_every_head_inside_the_width(T: int, max_width: int, ascii_only: bool):
    text = attention_overview(
        make_weights(T), [".é"[i % 2] for i in range(T)], ascii_only=ascii_only, max_width=max_width
    )

    assert all(cell_width(line) <= max_width for line in text.split("\n"))
    assert all(f"{i}.{j}" in text for i in range(2) for j in range(3))
    assert text.isascii() or not ascii_only


def test_the_overview_says_what_it_leaves_out():
    weights, tokens = make_weights(70), "." * 65 + "emmaz"

    cropped = attention_overview(weights, tokens, max_width=40)
    whole = attention_overview(weights, tokens, max_width=72)

    assert "The last 38 of 70 positions fit; a width of 72 shows all." in cropped.replace("\n", " ")
    assert "emmaz" in cropped
    assert "positions fit" not in whole


def test_the_overview_shows_what_a_head_looks_at():
    previous = [[1.0, 0, 0], [1.0, 0, 0], [0, 1.0, 0]]

    lines = attention_overview([[previous]], "abc", max_width=8).split("\n")

    assert lines[-4:] == ["  abc", "a █", "b █", "c  █"]


def test_the_table_gives_back_every_weight_exactly():
    weights = make_weights(5)

    heading, *lines = attention_tsv(weights, EMMA).splitlines()

    assert heading.split("\t")[0] == "layer"
    assert len(lines) == 2 * 3 * 5 * 5
    for line in lines:
        layer, head, q, query, k, key, weight = line.split("\t")
        assert (EMMA[int(q)], EMMA[int(k)]) == (query, key)
        assert float(weight) == weights[int(layer)][int(head)][int(q)][int(k)]


def test_the_picture_is_valid_xml_whatever_the_tokens_are():
    tokens = ["<", "&", '"', "\x00", "中"]

    root = ET.fromstring(attention_svg(make_weights(5), tokens, title="<emma> & \x07"))

    titles = [title.text or "" for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles[0] == "<emma> & ·"
    assert len(titles) == 1 + 2 * 3 * 15  # one for each cell that isn't masked
    assert titles[2].startswith("& (1) → < (0): 0.")


def test_cividis_gets_lighter_all_the_way():
    shares = [i / 255 for i in range(256)]

    colors = [bytes.fromhex(cividis(share)[1:]) for share in shares]
    luminance = [0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in colors]

    assert luminance == sorted(luminance)
    assert (cividis(0), cividis(1)) == ("#00224e", "#fee838")


@pytest.mark.parametrize("text", ["emma", "José", "Jose\u0301", "中文", "ที่", "नमस्ते", "→ × −∞", "ｱ"])
def test_widths_are_those_that_rich_counts(text: str):
    assert cell_width(text) == cell_len(text)


@pytest.mark.parametrize(
    ("text", "seen", "ascii_seen"),
    [
        ("emma", "emma", "emma"),
        ("Jose\u0301", "José", "Jos\\xe9"),
        ("a\tb\x1b[31m", "a·b·[31m", "a\\tb\\x1b[31m"),
        (" ", "␣", "_"),
        ("\u0301", "◌\u0301", "\\u0301"),
        ("\u200b", "·", "\\u200b"),
        ("", "", ""),
    ],
)
def test_text_from_others_is_made_visible(text: str, seen: str, ascii_seen: str):
    assert visible(text) == seen
    assert visible(text, ascii_only=True) == ascii_seen
    assert not any(unicodedata.category(char) == "Cc" for char in visible(text))
