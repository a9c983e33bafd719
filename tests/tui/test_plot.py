import math
import re
import subprocess
import sys

import pytest
from rich.text import Text

from core.render import cell_width
from tui.plot import Kind, Plot, Series, curves_text, thin

NAN, INF = math.nan, math.inf
STEPS = [float(i) for i in range(0, 601, 5)]
FALLING = [1.9 + math.exp(-step / 100) for step in STEPS]
RUN = [
    Series("batch", STEPS, [y + 0.05 for y in FALLING], "line"),
    Series("train", STEPS[::20], FALLING[::20], "points"),
    Series("val", STEPS[::20], [y + 0.1 for y in FALLING[::20]], "points"),
    Series("bigram", [0, 600], [2.466, 2.466], "level"),
]


def draw(
    series: list[Series],
    *,
    width: int = 60,
    height: int = 14,
    log_y: bool = False,
    color: bool = False,
    utf8: bool = True,
) -> Plot:
    return curves_text(series, width=width, height=height, log_y=log_y, color=color, utf8=utf8)


def loss(*ys: float) -> list[Series]:
    return [Series("loss", list(range(len(ys))), ys)]


def tick_line(plot: Plot) -> list[str]:
    return plot.text.split("\n")[-1].split()


def value_ticks(plot: Plot) -> set[str]:
    return {line.split("┤")[0].strip() for line in plot.text.split("\n") if "┤" in line}


def test_importing_the_module_does_not_import_plotext():
    code = "import tui.plot, sys; sys.exit('plotext' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


NOTHING = "There is nothing to draw yet."


@pytest.mark.parametrize(
    ("ys", "is_drawn", "notes"),
    [
        ([], False, []),
        ([2.0], True, []),
        ([2.0, 2.0, 2.0], True, []),
        ([0.0, 0.0], True, []),
        ([1e-12, 2e-12], True, []),
        ([-1.7e308, 1.7e308], True, []),
        ([5e-324, 0.0], True, []),
        ([NAN, NAN], False, ["loss is nan since step 0."]),
        ([3.0, 2.0, NAN, NAN], True, ["loss is nan since step 2."]),
        ([3.0, INF, 2.0], True, ["loss was inf at step 1, left out."]),
        ([3.0, -INF, NAN, 2.0], True, ["loss was -inf at step 1 and 1 more, left out."]),
        ([2.0, 1e300, 2.0], True, ["loss reaches 1e+300 at step 1; the rest lies flat."]),
    ],
)
@pytest.mark.parametrize("kind", ["line", "points", "level"])
def test_any_values_give_a_drawing_or_a_sentence(
    ys: list[float], is_drawn: bool, notes: list[str], kind: Kind
):
    plot = draw([Series("loss", list(range(len(ys))), ys, kind)])

    assert list(plot.notes) == notes
    assert (plot.text != NOTHING) == is_drawn
    assert len(plot.text.split("\n")) == (14 if is_drawn else 1)


@pytest.mark.parametrize(
    ("ys", "is_drawn", "notes"),
    [
        ([], False, []),
        ([2.0], True, []),
        ([0.0, 2.0, 1.0], True, ["loss: 1 at 0 or below, not on a log axis."]),
        ([0.0, -1.0], False, ["loss: 2 at 0 or below, not on a log axis."]),
        ([1e-300, 1e300], True, []),
    ],
)
def test_a_log_axis_leaves_out_what_has_no_logarithm_and_says_so(
    ys: list[float], is_drawn: bool, notes: list[str]
):
    plot = draw(loss(*ys), log_y=True)

    assert list(plot.notes) == notes
    assert (plot.text != NOTHING) == is_drawn


def test_a_loss_that_stops_being_a_number_says_since_when():
    ys = [2.0] * 812 + [NAN] * 10

    plot = draw(loss(*ys))

    assert plot.notes == ("loss is nan since step 812.",)
    assert "loss nan" in plot.text.split("\n")[0]


@pytest.mark.parametrize(
    ("xs", "ys"),
    [
        ([5, 5, 5], [1, 2, 3]),
        ([3, 1, 2], [1, 2, 3]),
        ([0, 1, 2, 3], [1, 2]),
        ([1e300, 2e300], [1, 2]),
        ([0.1, 0.2], [1, 2]),
    ],
)
def test_steps_may_repeat_go_back_or_lack_a_value(xs: list[float], ys: list[float]):
    plot = draw([Series("loss", xs, ys)])

    assert plot.notes == ()
    assert "⠤⠤ loss" in plot.text


def test_a_value_without_a_step_is_reported():
    plot = draw([Series("loss", [NAN, 1, INF], [1, 2, 3])])

    assert plot.notes == ("loss: 2 without a step, left out.",)


@pytest.mark.parametrize("size", [(20, 6), (20, 100), (33, 9), (80, 24), (300, 6), (300, 100)])
@pytest.mark.parametrize("utf8", [False, True])
@pytest.mark.parametrize("log_y", [False, True])
def test_a_drawing_has_the_size_that_was_asked_for(size: tuple[int, int], utf8: bool, log_y: bool):
    width, height = size

    plot = draw(RUN, width=width, height=height, utf8=utf8, log_y=log_y)

    lines = plot.text.split("\n")
    assert len(lines) == height
    assert max(map(cell_width, lines)) <= width
    assert utf8 or plot.text.isascii()
    assert "\x1b" not in plot.text


@pytest.mark.parametrize("size", [(19, 24), (80, 5), (1, 1), (0, 0)])
def test_too_little_room_asks_for_more(size: tuple[int, int]):
    width, height = size

    assert draw(RUN, width=width, height=height).text.startswith("Enlarge to 20 by 6")


def test_colour_adds_nothing_but_colour():
    plain, colored = draw(RUN), draw(RUN, color=True)

    assert Text.from_ansi(colored.text).plain == plain.text
    assert "\x1b[38;5;" in colored.text


@pytest.mark.parametrize("utf8", [False, True])
def test_series_differ_without_colour(utf8: bool):
    two_runs = [Series(f"run {i}", STEPS, [y + i / 2 for y in FALLING]) for i in range(2)]

    text = draw([*two_runs, *RUN[1:]], utf8=utf8).text

    heading = text.split("    |" if not utf8 else "    │")[0]
    samples = re.findall(r"(\S+) (?:run 0|run 1|train|val|bigram)", heading)
    assert len(set(samples)) == 5
    drawing = text[len(heading) :]
    assert all(sample[len(sample) // 2] in drawing for sample in samples)


def test_the_names_stand_above_with_the_last_values():
    names = draw(RUN, width=80).text.split("\n")[0]

    last = [f"{one.label} {one.ys[-1]:.3f}" for one in RUN]
    assert names.startswith("loss")
    assert all(name in names for name in last)


def test_names_that_find_no_room_are_reported():
    plot = draw(RUN, width=20, height=6)

    assert plot.notes == ("Not every curve is named: there is no room; enlarge.",)


def test_an_empty_series_keeps_its_colour_for_later():
    before = draw([Series("train", [], [], "points"), RUN[2]], color=True).text
    after = draw(RUN[1:3], color=True).text

    color_of_val = re.compile(r"\x1b\[38;5;(\d+)m○\x1b\[0m val")
    assert color_of_val.findall(before) == color_of_val.findall(after) != []


@pytest.mark.parametrize(
    ("last", "ticks"),
    [
        (3, ["0", "1", "2", "step"]),
        (600, ["0", "200", "400", "step"]),
        (5_000, ["0", "2k", "4k", "step"]),
        (1_500_000, ["0", "500k", "1M", "step"]),
    ],
)
def test_steps_are_round_whole_numbers(last: int, ticks: list[str]):
    plot = draw([Series("loss", [0, last], [3, 2])])

    assert tick_line(plot) == ticks


@pytest.mark.parametrize(
    ("ys", "ticks"),
    [
        ([1.9, 3.3], {"2.00", "2.50", "3.00"}),
        ([0.001, 0.004], {"0.002", "0.004"}),
        ([2.0, 2.0], {"1.90", "2.00", "2.10"}),
    ],
)
def test_values_are_marked_with_two_decimals_or_what_they_need(ys: list[float], ticks: set[str]):
    assert value_ticks(draw(loss(*ys))) == ticks


def test_a_log_axis_that_spans_decades_marks_powers_of_ten():
    ticks = value_ticks(draw(loss(1e-4, 1.0, 1e3), log_y=True, height=30))

    powers = [math.log10(float(tick)) for tick in ticks]
    assert len(powers) == 8
    assert all(power == round(power) for power in powers)


def test_ten_thousand_points_keep_their_ends_and_their_extremes():
    points = [(float(i), math.sin(i / 50) + (99.0 if i == 7_777 else 0.0)) for i in range(10_000)]

    kept = thin(points, 80)

    assert len(kept) <= 160
    assert kept == sorted(kept)
    assert {points[0], points[-1], points[7_777]} <= set(kept)
    assert set(kept) <= set(points)


@pytest.mark.parametrize("n_points", [0, 1, 2, 160])
def test_few_points_are_all_kept(n_points: int):
    points = [(float(i), 1.0) for i in range(n_points)]

    assert thin(points, 80) == points
