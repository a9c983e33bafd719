import math
import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from core.attention import causal
from core.baselines import MLP
from core.blocks import Block
from core.cache import KeyValueCache
from core.config import POSITIONS, AnyModelConfig, MLPConfig, ModelConfig
from core.ledger import ledger, n_params
from core.model import MiniGPT
from core.positions import sinusoids

SMALL = ModelConfig(vocab_size=7, block_size=8, d_model=8, n_heads=2, n_layers=2, dropout=0.0)


def randomise(module: nn.Module) -> None:
    """Give every parameter, biases and norms too, its own value."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0.0, 0.5, generator=generator)


def random_model(config: ModelConfig = SMALL) -> MiniGPT:
    model = MiniGPT(config)
    randomise(model)
    return model


def random_ids(n_rows: int, n_positions: int) -> Tensor:
    return torch.randint(7, (n_rows, n_positions), generator=torch.Generator().manual_seed(1))


def torchs_layer(config: ModelConfig, block: Mapping[str, Tensor]) -> nn.TransformerEncoderLayer:
    """Build PyTorch's own pre-norm layer with the weights of one of our blocks."""
    layer = nn.TransformerEncoderLayer(
        config.d_model,
        config.n_heads,
        config.d_hidden,
        dropout=0.0,
        activation="gelu",
        batch_first=True,
        norm_first=True,
    )
    layer.load_state_dict(
        {
            "norm1.weight": block["ln1.weight"],
            "norm1.bias": block["ln1.bias"],
            "self_attn.in_proj_weight": block["attn.qkv.weight"],
            "self_attn.in_proj_bias": block.get("attn.qkv.bias", torch.zeros(3 * config.d_model)),
            "self_attn.out_proj.weight": block["attn.proj.weight"],
            "self_attn.out_proj.bias": block["attn.proj.bias"],
            "norm2.weight": block["ln2.weight"],
            "norm2.bias": block["ln2.bias"],
            "linear1.weight": block["ff.up.weight"],
            "linear1.bias": block["ff.up.bias"],
            "linear2.weight": block["ff.down.weight"],
            "linear2.bias": block["ff.down.bias"],
        }
    )
    return layer


def test_the_books_model_has_204_827_parameters():
    model = MiniGPT(ModelConfig())

    assert sum(parameter.numel() for parameter in model.parameters()) == 204_827
    assert n_params(ModelConfig()) == 204_827


def test_the_books_parameters_add_up_by_hand():
    block = 2 * 64 + 3 * 64 * 64 + (64 * 64 + 64) + 2 * 64 + (64 * 256 + 256) + (256 * 64 + 64)

    assert n_params(ModelConfig()) == 27 * 64 + 32 * 64 + 4 * block + 2 * 64 + (64 * 27 + 27)
    assert n_params(ModelConfig(positions="none")) == 204_827 - 32 * 64
    assert n_params(ModelConfig(tied_head=True)) == 204_827 - 27 * 64
    assert n_params(ModelConfig(qkv_bias=True)) == 204_827 + 4 * 3 * 64


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(SMALL, id="small"),
        pytest.param(replace(SMALL, tied_head=True), id="tied head"),
        pytest.param(replace(SMALL, qkv_bias=True), id="q, k and v with bias"),
        pytest.param(replace(SMALL, positions="sinusoidal"), id="sinusoidal"),
        pytest.param(replace(SMALL, positions="none"), id="no positions"),
        pytest.param(replace(SMALL, d_ff=5), id="narrow feed-forward"),
        pytest.param(replace(SMALL, n_layers=1, tied_head=True, qkv_bias=True), id="both"),
        pytest.param(MLPConfig(), id="the MLP"),
        pytest.param(MLPConfig(vocab_size=5, block_size=3, d_embedding=2, d_hidden=4), id="mlp"),
    ],
)
def test_the_ledger_lists_every_tensor_of_the_model(config: AnyModelConfig):
    model = MLP(config) if isinstance(config, MLPConfig) else MiniGPT(config)

    listed = [(entry.name, entry.shape) for entry in ledger(config)]

    assert listed == [(name, tuple(value.shape)) for name, value in model.named_parameters()]
    assert n_params(config) == sum(parameter.numel() for parameter in model.parameters())


def test_a_tied_head_is_the_token_embedding():
    model = MiniGPT(replace(SMALL, tied_head=True))

    assert model.head.weight is model.token_embedding.weight


@pytest.mark.parametrize("has_bias", [False, True])
def test_a_block_is_pytorchs_pre_norm_layer(has_bias: bool):
    config = replace(SMALL, qkv_bias=has_bias, d_ff=12)
    block = Block(config)
    randomise(block)
    x = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(2))

    theirs = torchs_layer(config, dict(block.state_dict()))(x, src_mask=~causal(5))

    torch.testing.assert_close(block(x, causal(5)), theirs)


@pytest.mark.parametrize("tied_head", [False, True])
def test_the_model_is_what_pytorchs_own_layers_compute(tied_head: bool):
    model = random_model(replace(SMALL, tied_head=tied_head))
    state = dict(model.state_dict())
    ids = random_ids(3, 6)

    x = state["token_embedding.weight"][ids] + state["position.table.weight"][:6]
    for number in range(2):
        prefix = f"blocks.{number}."
        block = {n.removeprefix(prefix): v for n, v in state.items() if n.startswith(prefix)}
        x = torchs_layer(SMALL, block)(x, src_mask=~causal(6))
    x = nn.functional.layer_norm(x, (8,), state["ln_f.weight"], state["ln_f.bias"])
    expected = x @ state["head.weight"].T + state["head.bias"]

    logits = model(ids)
    assert logits.shape == (3, 6, 7)
    torch.testing.assert_close(logits, expected)


def test_positions_left_out_are_counted_from_0():
    model, ids = random_model(), random_ids(2, 5)

    assert torch.equal(model(ids), model(ids, torch.arange(5).expand(2, 5)))
    assert not torch.allclose(model(ids), model(ids, torch.arange(1, 6).expand(2, 5)))


def test_too_long_a_context_says_what_to_do():
    sentence = (
        "got 9 positions, but block_size is 8. Keep the last 8 tokens before calling the model."
    )

    random_model()(random_ids(1, 8))
    with pytest.raises(ValueError, match=re.escape(sentence)):
        random_model()(random_ids(1, 9))


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize(
    "sizes", [pytest.param([1] * 8, id="one by one"), pytest.param([3, 1, 4], id="in pieces")]
)
def test_a_text_read_through_the_cache_gives_the_logits_of_the_whole(
    positions: str, sizes: list[int]
):
    model, ids = random_model(replace(SMALL, positions=positions)), random_ids(3, 8)
    cache = KeyValueCache()

    pieces = [model(piece, cache=cache) for piece in ids.split(sizes, dim=1)]

    torch.testing.assert_close(torch.cat(pieces, dim=1), model(ids))
    assert cache.n_positions == 8


def test_a_cache_that_keeps_some_rows_goes_on_with_those():
    model, ids = random_model(), random_ids(4, 6)
    kept = torch.tensor([3, 1])
    cache = KeyValueCache()

    model(ids[:, :4], cache=cache)
    cache.keep(kept)
    rest = model(ids[kept, 4:], cache=cache)

    torch.testing.assert_close(rest, model(ids[kept])[:, 4:])


@pytest.mark.parametrize("what", ["positions", "visible"])
def test_a_cache_refuses_positions_and_visible(what: str):
    positions = torch.zeros(1, 3, dtype=torch.int64) if what == "positions" else None
    visible = torch.ones(1, 3, 3, dtype=torch.bool) if what == "visible" else None

    with pytest.raises(ValueError, match="Leave positions and visible out, or the cache"):
        random_model()(random_ids(1, 3), positions, visible, cache=KeyValueCache())


def test_a_cache_past_block_size_says_what_to_do():
    model, ids = random_model(), random_ids(1, 8)
    cache = KeyValueCache()
    model(ids, cache=cache)

    sentence = "got 9 positions, but block_size is 8. A window that slides moves every letter"
    with pytest.raises(ValueError, match=f"{sentence}.* compute it without a cache"):
        model(ids[:, :1], cache=cache)


def test_the_sinusoids_of_position_1_worked_by_hand():
    table = sinusoids(3, 4)

    assert table[0].tolist() == [0.0, 1.0, 0.0, 1.0]
    hand = torch.tensor([math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)])
    torch.testing.assert_close(table[1], hand)
    assert [round(value, 3) for value in table[1].tolist()] == [0.841, 0.540, 0.010, 1.000]


@pytest.mark.parametrize("d_model", [1, 5])
def test_an_odd_width_ends_on_a_sine(d_model: int):
    table = sinusoids(6, d_model)

    slowest = torch.arange(6) * 10000.0 ** -((d_model - 1) / d_model)
    assert table.shape == (6, d_model)
    torch.testing.assert_close(table[:, -1], slowest.sin())


def test_a_model_of_odd_width_can_have_sinusoidal_positions():
    config = replace(SMALL, d_model=5, n_heads=1, positions="sinusoidal")

    assert random_model(config)(random_ids(2, 8)).shape == (2, 8, 7)


def test_moving_on_by_some_positions_turns_the_sinusoids_by_a_fixed_angle():
    table, k = sinusoids(30, 6), 7
    pairs = table.view(30, 3, 2)  # (sine, cosine) of each speed
    angle = k * 10000.0 ** (-torch.arange(3) * 2 / 6)

    sine = pairs[:-k, :, 0] * angle.cos() + pairs[:-k, :, 1] * angle.sin()
    cosine = pairs[:-k, :, 1] * angle.cos() - pairs[:-k, :, 0] * angle.sin()

    torch.testing.assert_close(torch.stack((sine, cosine), dim=-1), pairs[k:])


def test_sinusoidal_positions_are_the_table_added_to_the_embeddings():
    model, ids = random_model(replace(SMALL, positions="sinusoidal")), random_ids(2, 5)
    without = random_model(replace(SMALL, positions="none"))

    def add_the_table(name: str, value: Tensor) -> Tensor:
        return value + sinusoids(5, 8) if name == "positions" else value

    torch.testing.assert_close(model(ids), without(ids, tap=add_the_table))
    assert "position.table" not in model.state_dict()
