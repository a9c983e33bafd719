import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from core.baselines import uniform, unigram
from core.batches import NO_TARGET, Rows, context
from core.config import LAYOUTS, ModelConfig
from core.evaluation import Evaluation, evaluate, evaluating, token_losses
from core.model import MiniGPT

CONFIG = ModelConfig(vocab_size=7, block_size=8, d_model=8, n_heads=2, n_layers=1, dropout=0.5)
NAMES = [[1, 2, 3, 4, 5, 6], [6], [3, 3], [2, 5, 1, 4], [1, 1, 1], [5, 4], [2]]
N_CHARS = sum(len(name) + 1 for name in NAMES)


def random_model() -> MiniGPT:
    model = MiniGPT(CONFIG)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.5, generator=generator)
    return model


def rows_of(layout: str = "packed") -> Rows:
    return context(NAMES, layout, block_size=8)


def plain_losses(model: nn.Module, name: list[int]) -> list[float]:
    """Return the loss of each letter and the end of one name, the long way."""
    log_probs = model(torch.tensor([[0, *name]])).double().log_softmax(dim=-1)
    return [-log_probs[0, place, target].item() for place, target in enumerate([*name, 0])]


@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_the_loss_is_the_mean_over_all_letters_and_ends(layout: str):
    model = random_model()

    evaluation = evaluate(model, rows_of(layout))

    model.eval()
    losses = [loss for name in NAMES for loss in plain_losses(model, name)]
    assert evaluation.loss == pytest.approx(sum(losses) / len(losses), abs=1e-6)
    assert evaluation.n_chars == len(losses) == N_CHARS


def test_each_place_has_the_mean_of_the_names_that_reach_it():
    model = random_model()

    evaluation = evaluate(model, rows_of())

    model.eval()
    for place, loss, n_chars in evaluation.by_position:
        losses = [plain_losses(model, name)[place] for name in NAMES if len(name) >= place]
        assert n_chars == len(losses)
        assert loss == pytest.approx(sum(losses) / len(losses), abs=1e-6)


def test_places_of_two_names_worked_by_hand():
    model = unigram([[1, 2], [1]], 3)  # a and the end have 3/8 each, b has 2/8

    evaluation = evaluate(model, context([[1, 2], [1]], "padded", block_size=8))

    common, rare = -math.log(3 / 8), -math.log(2 / 8)
    assert [(place, n) for place, _, n in evaluation.by_position] == [(0, 2), (1, 2), (2, 1)]
    losses = [loss for _, loss, _ in evaluation.by_position]
    assert losses == pytest.approx([common, (rare + common) / 2, common])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_places_recombine_to_the_loss(layout: str):
    evaluation = evaluate(random_model(), rows_of(layout))

    total = sum(loss * n_chars for _, loss, n_chars in evaluation.by_position)
    assert total / evaluation.n_chars == pytest.approx(evaluation.loss)
    assert sum(n_chars for _, _, n_chars in evaluation.by_position) == evaluation.n_chars
    assert [place for place, _, _ in evaluation.by_position] == list(range(7))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_order_of_the_rows_does_not_matter(layout: str):
    model, rows = random_model(), rows_of(layout)
    backwards = rows.take(torch.arange(rows.n_rows - 1, -1, -1))

    forwards = evaluate(model, rows)

    assert evaluate(model, Rows(**backwards._asdict())).loss == pytest.approx(
        forwards.loss, abs=1e-7
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_how_many_rows_are_computed_at_once_does_not_matter(
    layout: str, monkeypatch: pytest.MonkeyPatch
):
    model, rows = random_model(), rows_of(layout)
    at_once = evaluate(model, rows)

    monkeypatch.setattr("core.evaluation.ROWS_AT_ONCE", 2)
    in_pieces = evaluate(model, rows)

    assert in_pieces.n_chars == at_once.n_chars
    assert in_pieces.loss == pytest.approx(at_once.loss, abs=1e-7)


@pytest.mark.parametrize("is_training", [True, False])
def test_a_model_is_left_in_the_mode_it_was_in(is_training: bool):
    model = random_model().train(is_training)

    evaluate(model, rows_of())

    assert all(module.training == is_training for module in model.modules())
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()


def test_a_model_is_left_in_the_mode_it_was_in_even_after_an_error():
    model = random_model()
    too_long = context([[1] * 8], "padded", block_size=8)

    with pytest.raises(ValueError, match="block_size is 8"):
        evaluate(model, too_long)

    assert model.training
    assert not torch.is_inference_mode_enabled()


def test_while_evaluating_there_is_no_dropout_and_no_gradient():
    model = random_model()

    with evaluating(model):
        assert not any(module.training for module in model.modules())
        assert not model(torch.zeros(1, 3, dtype=torch.int64)).requires_grad


def test_evaluating_drops_nothing_and_draws_nothing():
    model, rows = random_model(), rows_of()
    before = torch.get_rng_state()

    first, second = evaluate(model, rows), evaluate(model, rows)

    assert first == second
    assert torch.equal(torch.get_rng_state(), before)


def test_eight_letters_that_are_equally_likely_take_three_bits():
    evaluation = evaluate(uniform(8), rows_of())

    assert evaluation.bits_per_char == pytest.approx(3.0)
    assert evaluation.perplexity == pytest.approx(8.0)


def test_a_loss_beyond_a_float_has_an_infinite_perplexity():
    hopeless = replace(evaluate(uniform(8), rows_of()), loss=1e4)

    assert hopeless.perplexity == math.inf
    assert Evaluation(loss=0.0, n_chars=1, by_position=()).perplexity == 1.0


def test_where_there_is_no_target_there_is_no_loss():
    logits = torch.tensor([[[0.0, math.log(3.0)], [5.0, -5.0]]])
    targets = torch.tensor([[1, NO_TARGET]])

    losses = token_losses(logits, targets)

    torch.testing.assert_close(losses, torch.tensor([[math.log(4 / 3), 0.0]]))
