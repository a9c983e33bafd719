import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from core.baselines import MLP
from core.config import INITS, MLPConfig, ModelConfig
from core.initialisation import initialise
from core.model import MiniGPT

BOOK = ModelConfig()
TIED = replace(BOOK, tied_head=True)


def drawn(init: str, config: ModelConfig = BOOK, seed: int = 0) -> MiniGPT:
    model = MiniGPT(config)
    initialise(model, init, torch.Generator().manual_seed(seed))
    return model


def uniform_std(fan_in: int) -> float:
    return 1 / math.sqrt(3 * fan_in)  # of the numbers between ±1/sqrt(fan_in)


@pytest.mark.parametrize(
    ("init", "name", "std"),
    [
        ("book", "token_embedding.weight", 0.02),
        ("book", "position.table.weight", 0.02),
        ("book", "blocks.1.attn.qkv.weight", 0.02),
        ("book", "blocks.1.attn.proj.weight", 0.02),
        ("book", "blocks.1.ff.up.weight", 0.02),
        ("book", "blocks.1.ff.down.weight", 0.02),
        ("book", "head.weight", 0.02),
        ("fan_in", "token_embedding.weight", 0.02),
        ("fan_in", "position.table.weight", 0.02),
        ("fan_in", "blocks.1.attn.qkv.weight", 1 / 8),
        ("fan_in", "blocks.1.attn.proj.weight", 1 / 16),
        ("fan_in", "blocks.1.ff.up.weight", 1 / 8),
        ("fan_in", "blocks.1.ff.down.weight", 1 / 32),
        ("fan_in", "head.weight", 1 / 8),
        ("torch", "token_embedding.weight", 1.0),
        ("torch", "position.table.weight", 1.0),
        ("torch", "blocks.1.attn.qkv.weight", uniform_std(64)),
        ("torch", "blocks.1.attn.proj.weight", uniform_std(64)),
        ("torch", "blocks.1.ff.up.weight", uniform_std(64)),
        ("torch", "blocks.1.ff.down.weight", uniform_std(256)),
        ("torch", "head.weight", uniform_std(64)),
    ],
)
def test_each_kind_of_matrix_has_its_spread(init: str, name: str, std: float):
    matrix = drawn(init).get_parameter(name)

    # Of n draws the standard deviation is known to 1 / sqrt(2n) of itself: 1.7 % at 1,728.
    assert matrix.std().item() == pytest.approx(std, rel=0.06)
    assert matrix.mean().item() == pytest.approx(0.0, abs=4 * std / math.sqrt(matrix.numel()))


@pytest.mark.parametrize("init", ["book", "fan_in"])
def test_biases_start_at_0(init: str):
    biases = {n: p for n, p in drawn(init).named_parameters() if n.endswith("bias")}

    assert len(biases) == 4 * 5 + 2
    assert not any(bias.any() for bias in biases.values())


def test_pytorchs_biases_lie_within_1_over_the_root_of_fan_in():
    model = drawn("torch")

    for name, fan_in in [("blocks.0.ff.up.bias", 64), ("blocks.0.ff.down.bias", 256)]:
        bias = model.get_parameter(name)
        assert bias.abs().max().item() <= 1 / math.sqrt(fan_in)
        assert bias.std().item() == pytest.approx(uniform_std(fan_in), rel=0.3)


@pytest.mark.parametrize("init", INITS)
def test_norms_start_at_1_and_0(init: str):
    norms = [m for m in drawn(init).modules() if isinstance(m, nn.LayerNorm)]

    assert len(norms) == 2 * 4 + 1
    assert all(norm.weight.eq(1.0).all() and norm.bias.eq(0.0).all() for norm in norms)


@pytest.mark.parametrize("init", INITS)
def test_the_seed_alone_decides_the_weights(init: str):
    one, same, other = (drawn(init, seed=seed).state_dict() for seed in (1, 1, 2))

    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["head.weight"], other["head.weight"])


@pytest.mark.parametrize("init", INITS)
def test_a_tied_head_is_drawn_once_as_an_embedding(init: str):
    tied, untied = drawn(init, TIED), drawn(init, BOOK)

    assert torch.equal(tied.head.weight, untied.token_embedding.weight)
    assert torch.equal(
        tied.get_parameter("blocks.3.ff.down.weight"),
        untied.get_parameter("blocks.3.ff.down.weight"),
    )


def test_no_two_matrices_are_alike():
    model = drawn("book")

    first, second = (model.get_parameter(f"blocks.{i}.attn.qkv.weight") for i in (0, 1))
    assert not torch.isclose(first, second).all()


@pytest.mark.parametrize("init", INITS)
def test_every_weight_of_the_mlp_is_drawn(init: str):
    model = MLP(MLPConfig())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(7.0)

    initialise(model, init, torch.Generator().manual_seed(0))

    assert not any(parameter.eq(7.0).any() for parameter in model.parameters())


def test_the_books_first_weights_know_nothing():
    model = drawn("book").eval()
    ids = torch.randint(27, (64, 16), generator=torch.Generator().manual_seed(1))

    logits = model(ids[:, :-1])

    loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    assert loss.item() == pytest.approx(math.log(27), abs=0.05)
