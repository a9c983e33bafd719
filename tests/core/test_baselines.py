import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import nn

from core.baselines import MLP, CountingModel, bigram, uniform, unigram
from core.batches import context
from core.config import LAYOUTS, MLPConfig
from core.evaluation import evaluate
from core.taps import Recorder
from data.names import read_names
from data.splits import split
from data.vocabulary import Vocabulary

BOOKS_FILE = Path(__file__).resolve().parents[2].parent / "shared/data/makemore_names.txt"
needs_books_file = pytest.mark.skipif(not BOOKS_FILE.exists(), reason="the book's file is absent")

A, B = 1, 2
TINY = [[A, B], [A]]  # read as one stream: . a b . a .
MLP_CONFIG = MLPConfig(vocab_size=7, block_size=3, d_embedding=4, d_hidden=5)
NAMES = [[1, 2, 3, 4, 5, 6], [6], [3, 3], [2, 5, 1, 4], [1, 1, 1]]


def random_mlp(config: MLPConfig = MLP_CONFIG) -> MLP:
    model = MLP(config)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.7, generator=generator)
    return model


def loss(model: nn.Module, names: Sequence[Sequence[int]], layout: str = "padded") -> float:
    return evaluate(model, context(names, layout, block_size=8)).loss


@pytest.mark.parametrize("vocab_size", [3, 27])
def test_uniform_is_as_bad_as_the_number_of_letters(vocab_size: int):
    assert loss(uniform(vocab_size), TINY) == pytest.approx(math.log(vocab_size))


def test_the_unigram_of_two_names_worked_by_hand():
    probs = unigram(TINY, 3)(torch.tensor([[0, A, B]])).exp()

    # Predicted are a b . a . : twice the end, twice a, once b; and one more of each.
    assert probs[0, 0].tolist() == pytest.approx([3 / 8, 3 / 8, 2 / 8])
    assert torch.equal(probs[0, 1], probs[0, 0])
    assert torch.equal(probs[0, 2], probs[0, 0])


def test_the_bigram_of_two_names_worked_by_hand():
    model = bigram(TINY, 3)

    probs = model(torch.tensor([[0, A, B]])).exp()

    assert probs[0, 0].tolist() == pytest.approx([1 / 5, 3 / 5, 1 / 5])  # after . came a, a
    assert probs[0, 1].tolist() == pytest.approx([2 / 5, 1 / 5, 2 / 5])  # after a came b and .
    assert probs[0, 2].tolist() == pytest.approx([2 / 4, 1 / 4, 1 / 4])  # after b came .
    by_hand = -(math.log(3 / 5) + math.log(2 / 5) + math.log(2 / 4)) / 3
    assert loss(model, [[A, B]]) == pytest.approx(by_hand)


def test_a_bigram_does_not_look_further_back():
    model = bigram([[1, 2, 3, 2, 1]], 4)

    logits = model(torch.tensor([[1, 2], [3, 2]]))

    assert torch.equal(logits[0, 1], logits[1, 1])


def test_the_counting_models_say_how_many_numbers_they_hold():
    models = [uniform(3), unigram(TINY, 3), bigram(TINY, 3)]

    assert [model.n_params for model in models] == [0, 3, 9]


@pytest.mark.parametrize("model", [uniform(7), unigram(NAMES, 7), bigram(NAMES, 7)])
def test_a_counting_models_loss_does_not_depend_on_the_layout(model: CountingModel):
    losses = [loss(model, NAMES, layout) for layout in LAYOUTS]

    assert losses == pytest.approx([losses[0]] * 3)


@needs_books_file
def test_the_books_own_numbers_come_out():
    names = read_names(BOOKS_FILE).names
    vocabulary, parts = Vocabulary.of(names), split(names, "book")
    train, val = ([vocabulary.encode(name) for name in part] for part in (parts.train, parts.val))

    assert loss(bigram(train, 27), val) == pytest.approx(2.4533, abs=5e-5)
    assert loss(unigram(train, 27), val) == pytest.approx(2.8210, abs=5e-5)
    assert loss(unigram(train, 27), train) == pytest.approx(2.823, abs=5e-4)


def test_the_books_mlp_has_56_995_parameters():
    n_params = sum(parameter.numel() for parameter in MLP(MLPConfig()).parameters())

    assert n_params == 27 * 24 + (8 * 24 * 256 + 256) + (256 * 27 + 27) == 56_995


def test_the_mlp_is_a_plain_network_over_explicit_windows():
    model = random_mlp()
    windows = torch.tensor([[0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4]])

    whole = model(torch.tensor([[0, 1, 2, 3, 4]]))

    side_by_side = nn.functional.embedding(windows, model.embedding.weight).flatten(start_dim=1)
    hidden = (side_by_side @ model.hidden.weight.T + model.hidden.bias).tanh()
    expected = hidden @ model.output.weight.T + model.output.bias
    torch.testing.assert_close(whole[0], expected)
    torch.testing.assert_close(model(windows)[:, -1], expected)


@pytest.mark.parametrize("block_size", [1, 3, 8])
def test_the_mlp_has_the_same_loss_in_every_layout(block_size: int):
    model = random_mlp(MLPConfig(vocab_size=7, block_size=block_size, d_embedding=4, d_hidden=5))

    window, padded, packed = (loss(model, NAMES, layout) for layout in LAYOUTS)

    assert padded == pytest.approx(window, abs=1e-6)
    assert packed == pytest.approx(window, abs=1e-6)


def test_the_mlp_does_not_see_the_name_before_it_in_a_row():
    model = random_mlp()
    ids = torch.tensor([[0, 5, 6, 0, 1], [0, 2, 3, 0, 1]])
    positions = torch.tensor([[0, 1, 2, 0, 1]]).expand(2, 5)

    one, other = model(ids, positions)

    assert torch.equal(one[3:], other[3:])
    torch.testing.assert_close(one[3:], model(ids[:1, 3:])[0])


def test_the_mlp_offers_its_hidden_layer_and_its_logits():
    seen = Recorder()
    logits = random_mlp()(torch.zeros(2, 4, dtype=torch.int64), tap=seen)

    shapes = {name: tuple(value.shape) for name, value in seen.items()}
    assert shapes == {"hidden": (2, 4, 5), "logits": (2, 4, 7)}
    assert torch.equal(seen["logits"], logits)
