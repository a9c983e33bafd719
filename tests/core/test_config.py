from typing import Any

import pytest

from core.config import ConfigError, MLPConfig, ModelConfig, TrainConfig
from data.errors import UsageError


def refusal(config: type, **fields: Any) -> str:
    """Return the sentence with which a configuration refuses these fields."""
    with pytest.raises(ConfigError) as caught:
        config(**fields)
    return str(caught.value)


def test_the_defaults_are_possible():
    assert ModelConfig().d_head == 16
    assert ModelConfig().d_hidden == 256
    assert MLPConfig().block_size == 8
    assert TrainConfig().n_epochs == 4.0


def test_a_refused_setting_is_wrong_usage():
    assert issubclass(ConfigError, UsageError)
    assert ConfigError.exit_code == 2


def test_heads_that_do_not_divide_the_width_list_what_fits():
    assert refusal(ModelConfig, d_model=12, n_heads=5) == (
        "d_model (12) cannot be shared equally by n_heads (5). "
        "Head counts that fit: 1, 2, 3, 4, 6, 12."
    )


def test_more_heads_than_features_list_what_fits():
    assert refusal(ModelConfig, d_model=4, n_heads=8) == (
        "d_model (4) cannot be shared equally by n_heads (8). Head counts that fit: 1, 2, 4."
    )


@pytest.mark.parametrize("n_heads", [1, 2, 3, 4, 6, 12])
def test_every_head_count_that_is_said_to_fit_fits(n_heads: int):
    assert ModelConfig(d_model=12, n_heads=n_heads).d_head * n_heads == 12


@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_a_planned_position_scheme_is_refused_by_name(positions: str):
    assert refusal(ModelConfig, positions=positions) == (
        f"positions is {positions!r}, which this version does not build yet; "
        "it can be learned, sinusoidal, none."
    )


@pytest.mark.parametrize(
    ("config", "field", "value", "choices", "nearest"),
    [
        (ModelConfig, "positions", "learnt", "learned, sinusoidal, none", "learned"),
        (TrainConfig, "layout", "paced", "window, padded, packed", "packed"),
        (TrainConfig, "optimizer", "adam", "adamw", "adamw"),
        (TrainConfig, "init", "fanin", "book, fan_in, torch", "fan_in"),
        (TrainConfig, "schedule", "cosin", "constant, cosine, linear", "cosine"),
    ],
)
def test_an_unknown_choice_lists_the_choices_and_the_nearest(
    config: type, field: str, value: str, choices: str, nearest: str
):
    assert refusal(config, **{field: value}) == (
        f"{field} is {value!r}; it can be {choices}. Did you mean {nearest!r}?"
    )


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (ModelConfig, "positions"),
        (TrainConfig, "layout"),
        (TrainConfig, "optimizer"),
        (TrainConfig, "init"),
        (TrainConfig, "schedule"),
    ],
)
def test_a_choice_that_nothing_resembles_gets_no_guess(config: type, field: str):
    sentence = refusal(config, **{field: "???"})

    assert sentence.startswith(f"{field} is '???'; it can be ")
    assert "Did you mean" not in sentence


@pytest.mark.parametrize(
    ("config", "field", "least"),
    [
        (ModelConfig, "vocab_size", 1),
        (ModelConfig, "block_size", 1),
        (ModelConfig, "d_model", 1),
        (ModelConfig, "n_heads", 1),
        (ModelConfig, "n_layers", 1),
        (ModelConfig, "d_ff", 1),
        (MLPConfig, "vocab_size", 1),
        (MLPConfig, "block_size", 1),
        (MLPConfig, "d_embedding", 1),
        (MLPConfig, "d_hidden", 1),
        (TrainConfig, "batch_size", 1),
        (TrainConfig, "eval_interval", 1),
        (TrainConfig, "row_length", 2),
        (TrainConfig, "warmup_steps", 0),
    ],
)
def test_a_count_below_its_least_is_refused_with_both_numbers(config: type, field: str, least: int):
    config(**{field: least} | ({"n_heads": 1} if field == "d_model" else {}))

    for value in (least - 1, -7):
        assert refusal(config, **{field: value}) == (
            f"{field} must be at least {least}, got {value}."
        )


def test_no_steps_at_all_are_refused():
    assert refusal(TrainConfig, n_steps=0, n_epochs=None) == "n_steps must be at least 1, got 0."


@pytest.mark.parametrize(
    ("config", "field", "most"),
    [
        (ModelConfig, "d_model", 65_536),
        (ModelConfig, "d_ff", 65_536),
        (ModelConfig, "n_layers", 1_024),
        (ModelConfig, "block_size", 8_192),
        (MLPConfig, "d_embedding", 65_536),
        (MLPConfig, "d_hidden", 65_536),
        (MLPConfig, "block_size", 8_192),
        (TrainConfig, "row_length", 8_192),
    ],
)
def test_a_size_above_its_most_is_refused_with_both_numbers(config: type, field: str, most: int):
    config(**{field: most})

    assert refusal(config, **{field: most + 1}) == (
        f"{field} can be at most {most:,}, got {most + 1:,}."
    )


@pytest.mark.parametrize("value", [-0.1, 1.0, 1.5, float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("place", ["dropout", "beta1", "beta2"])
def test_a_share_outside_0_to_1_is_refused(place: str, value: float):
    fields = {
        "dropout": (ModelConfig, {"dropout": value}),
        "beta1": (TrainConfig, {"betas": (value, 0.99)}),
        "beta2": (TrainConfig, {"betas": (0.9, value)}),
    }
    config, given = fields[place]

    assert refusal(config, **given) == f"{place} must be at least 0 and below 1, got {value}."


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf")])
def test_the_final_share_may_be_1_but_not_outside(value: float):
    assert TrainConfig(final_share=1.0).final_share == 1.0
    assert refusal(TrainConfig, final_share=value) == (
        f"final_share must be at least 0 and at most 1, got {value}."
    )


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("field", ["learning_rate", "clip_norm", "n_epochs"])
def test_what_must_be_positive_and_finite_is(field: str, value: float):
    assert refusal(TrainConfig, **{field: value}) == (
        f"{field} must be a positive number, got {value}."
    )


@pytest.mark.parametrize("value", [-0.01, float("nan"), float("-inf")])
def test_a_weight_decay_below_0_is_refused(value: float):
    assert refusal(TrainConfig, weight_decay=value) == (
        f"weight_decay must be at least 0, got {value}."
    )


def test_an_infinite_weight_decay_is_refused():
    assert "weight_decay" in refusal(TrainConfig, weight_decay=float("inf"))


def test_steps_and_epochs_together_are_refused():
    assert refusal(TrainConfig, n_steps=10, n_epochs=2.0) == (
        "n_steps is 10 and n_epochs is 2.0; give one of the two, and the other is worked out."
    )


def test_neither_steps_nor_epochs_are_refused():
    assert refusal(TrainConfig, n_steps=None, n_epochs=None) == (
        "n_steps is None and n_epochs is None; give one of the two, and the other is worked out."
    )


def test_either_steps_or_epochs_are_enough():
    assert TrainConfig(n_steps=10, n_epochs=None).n_steps == 10
    assert TrainConfig(n_steps=None, n_epochs=0.5).n_epochs == 0.5
