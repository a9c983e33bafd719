import pytest
import torch

from core.attention import CausalSelfAttention, causal
from core.config import ModelConfig
from core.dropout import Dropout, use_generator
from core.model import MiniGPT
from core.taps import Recorder

CONFIG = ModelConfig(vocab_size=7, block_size=6, d_model=8, n_heads=2, n_layers=2, dropout=0.4)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def dropout(share: float, seed: int = 0) -> Dropout:
    layer = Dropout(share)
    use_generator(layer, seeded(seed))
    return layer


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_the_mean_is_kept(share: float):
    n = 100_000
    dropped = dropout(share)(torch.ones(n))

    five_sigmas = 5 * (share / (1 - share) / n) ** 0.5
    assert dropped.mean().item() == pytest.approx(1.0, abs=five_sigmas)
    assert (dropped == 0).double().mean().item() == pytest.approx(share, abs=0.01)


def test_what_is_kept_is_enlarged_by_what_is_missing():
    x = torch.arange(1.0, 101.0)

    dropped = dropout(0.2)(x)

    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], x[kept] / 0.8)


def test_the_same_generator_gives_the_same_mask():
    x = torch.ones(50)

    assert torch.equal(dropout(0.5, seed=3)(x), dropout(0.5, seed=3)(x))
    assert not torch.equal(dropout(0.5, seed=3)(x), dropout(0.5, seed=4)(x))


def test_every_call_draws_a_new_mask():
    layer = dropout(0.5)

    assert not torch.equal(layer(torch.ones(50)), layer(torch.ones(50)))


def test_nothing_is_dropped_or_drawn_outside_training():
    generator, x = seeded(0), torch.ones(50)
    layer = Dropout(0.5)
    use_generator(layer, generator)
    layer.eval()

    assert layer(x) is x
    assert not layer.is_active
    assert torch.equal(generator.get_state(), seeded(0).get_state())


def test_a_share_of_0_drops_and_draws_nothing_while_training():
    generator, x = seeded(0), torch.ones(50)
    layer = Dropout(0.0)
    use_generator(layer, generator)

    assert layer(x) is x
    assert torch.equal(generator.get_state(), seeded(0).get_state())


def test_use_generator_reaches_every_dropout_of_a_model():
    model, generator = MiniGPT(CONFIG), seeded(0)

    use_generator(model, generator)

    dropouts = [module for module in model.modules() if isinstance(module, Dropout)]
    assert len(dropouts) == CONFIG.n_layers * 3
    assert all(module.generator is generator for module in dropouts)


def test_a_model_with_a_generator_leaves_the_global_one_alone():
    model, ids = MiniGPT(CONFIG), torch.zeros(2, 6, dtype=torch.int64)
    use_generator(model, seeded(0))
    before = torch.get_rng_state()

    first, second = model(ids), model(ids)

    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.allclose(first, second)


def test_a_model_that_does_not_train_drops_nothing():
    model, ids = MiniGPT(CONFIG).eval(), torch.zeros(2, 6, dtype=torch.int64)

    assert torch.equal(model(ids), model(ids))


def test_attention_drops_weights_and_then_its_result():
    layer = CausalSelfAttention(CONFIG)
    use_generator(layer, seeded(5))
    x, seen = torch.randn(2, 6, 8, generator=seeded(1)), Recorder()

    trained = layer(x, causal(6))
    layer(x, causal(6), tap=seen)

    again = dropout(0.4, seed=5)
    mixed = again(seen["weights"]) @ seen["v"]  # (B, H, T, Dh)
    joined = mixed.transpose(1, 2).reshape(2, 6, 8)
    torch.testing.assert_close(trained, again(layer.proj(joined)))
