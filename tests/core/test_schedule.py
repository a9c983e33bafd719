from dataclasses import replace

import pytest

from core.config import SCHEDULES, TrainConfig
from core.presets import PRESETS
from core.schedule import learning_rate_at

BOOK = PRESETS["book"].train
N_STEPS = 10_000
SMALL = TrainConfig(learning_rate=8.0, warmup_steps=4, final_share=0.0)


def rates(config: TrainConfig, n_steps: int) -> list[float]:
    return [learning_rate_at(step, n_steps, config) for step in range(n_steps)]


@pytest.mark.parametrize(
    ("step", "rate"),
    [(0, "6.0e-07"), (249, "1.5e-04"), (499, "3.0e-04"), (9999, "3.0e-05")],
)
def test_the_books_rates_come_out(step: int, rate: str):
    assert f"{learning_rate_at(step, N_STEPS, BOOK):.1e}" == rate


def test_the_books_rate_is_in_the_middle_half_way_down():
    assert learning_rate_at(5250, N_STEPS, BOOK) == pytest.approx(1.65e-4)


def test_the_books_last_rate_is_a_tenth_of_the_highest():
    first, last = (learning_rate_at(step, N_STEPS, BOOK) for step in (9998, 9999))

    assert 3.0e-5 < last < first < 3.00001e-5


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_warm_up_climbs_in_equal_steps_to_the_peak(schedule: str):
    config = replace(SMALL, schedule=schedule)

    assert rates(config, 20)[:5] == [2.0, 4.0, 6.0, 8.0, 8.0]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("warmup_steps", [0, 1, 7])
def test_after_the_warm_up_the_rate_begins_at_the_peak_and_never_climbs(
    schedule: str, warmup_steps: int
):
    config = replace(SMALL, schedule=schedule, warmup_steps=warmup_steps)

    falling = rates(config, 30)[max(0, warmup_steps - 1) :]

    assert falling[0] == 8.0
    assert falling == sorted(falling, reverse=True)


def test_a_line_falls_by_the_same_amount_each_step_to_near_0():
    config = replace(SMALL, schedule="linear")

    assert rates(config, 12)[4:] == [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]
    assert rates(TrainConfig(), 10_000)[-1] < 1e-6


def test_half_a_cosine_worked_by_hand():
    config = replace(SMALL, schedule="cosine", final_share=0.25)

    # From 8 down to 2: a quarter, half and three quarters of the way to step 4 + 12.
    quarter, half, three_quarters = (learning_rate_at(step, 16, config) for step in (7, 10, 13))
    assert quarter == pytest.approx(5 + 3 * 0.5**0.5)
    assert half == pytest.approx(5.0)
    assert three_quarters == pytest.approx(5 - 3 * 0.5**0.5)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
@pytest.mark.parametrize("final_share", [0.1, 0.5])
def test_the_rate_stays_above_its_final_share(schedule: str, final_share: float):
    config = replace(SMALL, schedule=schedule, final_share=final_share)

    falling = rates(config, 1000)[4:]

    assert min(falling) == falling[-1] == pytest.approx(8.0 * final_share, rel=0.02)
    assert falling[-1] > 8.0 * final_share


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_with_a_final_share_of_1_nothing_falls(schedule: str):
    config = replace(SMALL, schedule=schedule, final_share=1.0)

    assert rates(config, 20)[4:] == [8.0] * 16


def test_a_constant_rate_stays_at_the_peak():
    config = replace(SMALL, schedule="constant")

    assert rates(config, 20)[4:] == [8.0] * 16


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_run_shorter_than_its_warm_up_only_climbs(schedule: str):
    config = replace(SMALL, schedule=schedule)

    assert rates(config, 3) == [2.0, 4.0, 6.0]
    assert rates(config, 4) == [2.0, 4.0, 6.0, 8.0]
