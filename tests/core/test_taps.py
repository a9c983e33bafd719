from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from core.config import ModelConfig
from core.model import MiniGPT
from core.taps import AblateHead, Patch, Recorder, offer, scoped

CONFIG = ModelConfig(
    vocab_size=7, block_size=6, d_model=8, n_heads=2, n_layers=2, d_ff=12, dropout=0.0
)
B, T, D, H, Dh, F, V = 3, 5, 8, 2, 4, 12, 7

BLOCK = {
    "ln1": (B, T, D),
    "attn.q": (B, H, T, Dh),
    "attn.k": (B, H, T, Dh),
    "attn.v": (B, H, T, Dh),
    "attn.scores": (B, H, T, T),
    "attn.weights": (B, H, T, T),
    "attn.mixed": (B, H, T, Dh),
    "attn": (B, T, D),
    "after_attn": (B, T, D),
    "ln2": (B, T, D),
    "ff.hidden": (B, T, F),
    "ff.activated": (B, T, F),
    "ff": (B, T, D),
    "out": (B, T, D),
}
ALL = {
    "tokens": (B, T, D),
    "positions": (T, D),
    "x": (B, T, D),
    **{f"blocks.0.{name}": shape for name, shape in BLOCK.items()},
    **{f"blocks.1.{name}": shape for name, shape in BLOCK.items()},
    "ln_f": (B, T, D),
    "logits": (B, T, V),
}


@pytest.fixture
def model() -> MiniGPT:
    built = MiniGPT(CONFIG)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.normal_(0.0, 0.5, generator=generator)
    return built


@pytest.fixture
def ids() -> Tensor:
    return torch.randint(V, (B, T), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


def noise_like(value: Tensor) -> Tensor:
    return torch.randn(value.shape, generator=torch.Generator().manual_seed(2))


def test_a_recorder_hears_every_value_in_order(model: MiniGPT, ids: Tensor):
    seen = Recorder()
    model(ids, tap=seen)

    assert [(name, tuple(value.shape)) for name, value in seen.items()] == list(ALL.items())


def test_recording_changes_nothing(model: MiniGPT, ids: Tensor):
    seen = Recorder()

    recorded = model(ids, tap=seen)

    torch.testing.assert_close(recorded, model(ids))
    assert torch.equal(recorded, seen["logits"])


def test_what_was_recorded_stays_as_it_was(model: MiniGPT, ids: Tensor, no_grad: None):
    seen = Recorder()

    def record_then_spoil(name: str, value: Tensor) -> Tensor:
        return seen(name, value).fill_(7.0)

    model(ids, tap=record_then_spoil)

    assert not (seen["tokens"] == 7.0).any()
    assert (seen["x"] == 14.0).all()


@pytest.mark.parametrize("name", ALL)
def test_every_value_that_is_offered_is_the_one_that_goes_on(
    model: MiniGPT, ids: Tensor, name: str
):
    def disturb(offered: str, value: Tensor) -> Tensor:
        return value + noise_like(value) if offered == name else value

    assert not torch.allclose(model(ids, tap=disturb), model(ids), atol=1e-3)


@pytest.mark.parametrize("name", ALL)
def test_patching_a_value_with_itself_changes_nothing(model: MiniGPT, ids: Tensor, name: str):
    seen = Recorder()
    logits = model(ids, tap=seen)

    assert torch.equal(model(ids, tap=Patch({name: seen[name]})), logits)


@pytest.mark.parametrize("name", ["x", "blocks.0.out", "blocks.1.after_attn", "ln_f", "logits"])
def test_patching_the_whole_stream_gives_what_follows_from_it(
    model: MiniGPT, ids: Tensor, name: str
):
    seen = Recorder()
    others = model(ids.flip(0), tap=seen)

    assert torch.equal(model(ids, tap=Patch({name: seen[name]})), others)


def test_a_patch_lets_other_values_pass():
    value = torch.ones(2)

    assert Patch({"q": torch.zeros(2)})("k", value) is value


def test_a_patch_of_another_shape_is_refused(model: MiniGPT, ids: Tensor):
    wrong = Patch({"blocks.1.ff": torch.zeros(B, T, 1)})

    with pytest.raises(
        ValueError,
        match=r"blocks\.1\.ff has shape \(3, 5, 8\), but its replacement has \(3, 5, 1\)",
    ):
        model(ids, tap=wrong)


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("head", [0, 1])
def test_ablating_a_head_is_zeroing_its_columns_of_proj(
    model: MiniGPT, ids: Tensor, layer: int, head: int
):
    silent = MiniGPT(CONFIG)
    silent.load_state_dict(model.state_dict())
    columns = slice(head * Dh, (head + 1) * Dh)
    with torch.no_grad():
        silent.get_parameter(f"blocks.{layer}.attn.proj.weight")[:, columns] = 0.0

    ablated = model(ids, tap=AblateHead(layer, head))

    torch.testing.assert_close(ablated, silent(ids))
    assert not torch.allclose(ablated, model(ids), atol=1e-3)


def test_an_ablated_head_leaves_the_value_it_was_given_alone():
    value = torch.ones(1, 2, 3, 4)

    ablated = AblateHead(0, 1)("blocks.0.attn.mixed", value)

    assert torch.equal(value, torch.ones(1, 2, 3, 4))
    assert ablated[:, 0].eq(1.0).all()
    assert ablated[:, 1].eq(0.0).all()


def test_a_scope_puts_the_address_before_the_name():
    seen = Recorder()
    inner = scoped(scoped(seen, "blocks.2"), "attn")

    offer(inner, "weights", torch.ones(1))

    assert list(seen) == ["blocks.2.attn.weights"]


def test_without_a_tap_nothing_is_offered():
    value = torch.ones(2)

    assert scoped(None, "blocks.2") is None
    assert offer(None, "x", value) is value
