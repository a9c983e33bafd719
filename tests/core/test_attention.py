from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from core.attention import (
    CausalSelfAttention,
    attention_scores,
    causal,
    scaled_dot_product_attention,
)
from core.config import POSITIONS, ModelConfig
from core.model import MiniGPT
from core.taps import Recorder

SMALL = ModelConfig(vocab_size=7, block_size=6, d_model=8, n_heads=2, n_layers=2, dropout=0.0)
TWO_TEXTS = torch.block_diag(torch.ones(2, 2), torch.ones(4, 4)).tril().bool()[None]
RESTARTED = torch.tensor([[0, 1, 0, 1, 2, 3]])


def random_model(config: ModelConfig = SMALL) -> MiniGPT:
    """Build a model in which every parameter, biases and norms too, has its own value."""
    model = MiniGPT(config)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.5, generator=generator)
    return model


def random_ids(n_rows: int, n_positions: int) -> Tensor:
    return torch.randint(7, (n_rows, n_positions), generator=torch.Generator().manual_seed(1))


def normal(*shape: int, seed: int = 2) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def unchanged(name: str, value: Tensor) -> Tensor:
    return value


with_and_without_tap = pytest.mark.parametrize(
    "tap", [pytest.param(None, id="fused"), pytest.param(unchanged, id="written-out")]
)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("is_packed", [False, True])
def test_the_fused_and_the_written_out_attention_agree(positions: str, is_packed: bool):
    model = random_model(replace(SMALL, positions=positions))
    ids = random_ids(3, 6)
    places = RESTARTED.expand(3, 6) if is_packed else None
    visible = TWO_TEXTS.expand(3, 6, 6) if is_packed else None

    fused, written_out = model(ids, places, visible), model(ids, places, visible, tap=unchanged)

    torch.testing.assert_close(fused, written_out)


def test_the_formula_is_the_one_of_pytorch():
    q, k, v = normal(2, 3, 4, 5, seed=1), normal(2, 3, 6, 5, seed=2), normal(2, 3, 6, 5, seed=3)
    visible = causal(4, 6)

    ours = scaled_dot_product_attention(q, k, v, visible)

    theirs = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=visible)
    torch.testing.assert_close(ours, theirs)


def test_two_positions_worked_by_hand():
    same = torch.eye(2)
    v = torch.tensor([[1.0, 0.0], [0.0, 10.0]])

    scores = attention_scores(same, same, causal(2))
    mixed = scaled_dot_product_attention(same, same, v, causal(2))

    inf = float("inf")
    torch.testing.assert_close(scores, torch.tensor([[0.5**0.5, -inf], [0.0, 0.5**0.5]]))
    torch.testing.assert_close(  # 1 / (1 + e^0.7071) = 0.3302
        mixed, torch.tensor([[1.0, 0.0], [0.3302, 6.698]]), atol=5e-4, rtol=0.0
    )


def test_a_key_that_matches_by_ln_3_more_weighs_three_times_as_much():
    ln_3 = torch.tensor(3.0).log()
    q = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0]])
    k = torch.stack((torch.zeros(4), torch.tensor([0.0, 1.0, 0.0, 0.0]) * ln_3))
    v = torch.tensor([[4.0], [8.0]])

    mixed = scaled_dot_product_attention(q, k, v, causal(2))  # sqrt(4) takes the 2 away

    torch.testing.assert_close(mixed, torch.tensor([[4.0], [7.0]]))


def test_the_newest_queries_see_all_keys_up_to_their_own():
    assert causal(2, 4).tolist() == [[True, True, True, False], [True, True, True, True]]
    assert torch.equal(causal(3), torch.ones(3, 3).tril().bool())


@pytest.mark.parametrize("has_bias", [False, True])
def test_the_layer_is_the_one_of_pytorch(has_bias: bool):
    layer = CausalSelfAttention(replace(SMALL, qkv_bias=has_bias))
    theirs = nn.MultiheadAttention(8, 2, bias=True, batch_first=True)
    state = dict(layer.state_dict())
    theirs.load_state_dict(
        {
            "in_proj_weight": state["qkv.weight"],
            "in_proj_bias": state.get("qkv.bias", torch.zeros(24)),
            "out_proj.weight": state["proj.weight"],
            "out_proj.bias": state["proj.bias"],
        }
    )
    x, seen = normal(3, 5, 8), Recorder()

    ours = layer(x, causal(5))
    layer(x, causal(5), tap=seen)

    mixed, weights = theirs(x, x, x, attn_mask=~causal(5), average_attn_weights=False)
    torch.testing.assert_close(ours, mixed)
    torch.testing.assert_close(seen["weights"], weights)


@with_and_without_tap
@pytest.mark.parametrize("positions", POSITIONS)
def test_changing_the_future_does_not_change_the_past(
    positions: str, tap: Callable[[str, Tensor], Tensor] | None
):
    model = random_model(replace(SMALL, positions=positions))
    ids = random_ids(2, 6)
    changed = ids.clone()
    changed[:, 4] = (ids[:, 4] + 1) % 7

    before, after = model(ids, tap=tap), model(changed, tap=tap)

    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.isclose(before[:, 4:], after[:, 4:]).all(dim=-1).any()


@pytest.mark.parametrize("layer", [0, 1])
def test_weights_are_shares_of_the_visible_past(layer: int):
    seen = Recorder()
    random_model()(random_ids(2, 5), tap=seen)
    weights = seen[f"blocks.{layer}.attn.weights"]

    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 2, 5))
    assert torch.equal(weights, weights.tril())
    assert (weights + torch.ones(5, 5).triu(1) > 0).all()


@with_and_without_tap
@pytest.mark.parametrize("positions", POSITIONS)
def test_two_texts_in_one_row_do_not_see_each_other(
    positions: str, tap: Callable[[str, Tensor], Tensor] | None
):
    model = random_model(replace(SMALL, positions=positions))
    ids = random_ids(2, 6)

    together = model(ids, RESTARTED.expand(2, 6), TWO_TEXTS.expand(2, 6, 6), tap=tap)

    torch.testing.assert_close(together[:, :2], model(ids[:, :2]))
    torch.testing.assert_close(together[:, 2:], model(ids[:, 2:]))


@with_and_without_tap
def test_every_position_sees_itself_even_where_nothing_is_visible(
    tap: Callable[[str, Tensor], Tensor] | None,
):
    model = random_model()
    ids = random_ids(2, 4)
    nothing = torch.zeros(2, 4, 4, dtype=torch.bool)
    first = torch.zeros(2, 4, dtype=torch.int64)

    logits = model(ids, first, nothing, tap=tap)

    alone = model(ids.view(8, 1)).view(2, 4, 7)
    torch.testing.assert_close(logits, alone)


def test_each_row_of_a_batch_has_its_own_visibility():
    model = random_model()
    ids = random_ids(1, 6).expand(2, 6)
    visible = torch.cat((TWO_TEXTS, causal(6)[None]))

    both = model(ids, RESTARTED.expand(2, 6), visible)

    torch.testing.assert_close(both[:1], model(ids[:1], RESTARTED, visible[:1]))
    torch.testing.assert_close(both[1:], model(ids[1:], RESTARTED))


def test_without_positions_one_layer_cannot_tell_the_order_of_the_past():
    ids = torch.tensor([[0, 1, 2, 3, 4], [0, 3, 1, 2, 4]])
    unordered = random_model(replace(SMALL, n_layers=1, positions="none"))
    ordered = random_model(replace(SMALL, n_layers=1))

    one, other = unordered(ids)[:, -1]
    torch.testing.assert_close(one, other)
    one, other = ordered(ids)[:, -1]
    assert not torch.isclose(one, other).any()


def test_a_single_position_attends_to_itself():
    seen = Recorder()
    random_model()(random_ids(1, 1), tap=seen)

    assert torch.equal(seen["blocks.0.attn.weights"], torch.ones(1, 2, 1, 1))
