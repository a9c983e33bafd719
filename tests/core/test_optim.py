import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from core.optim import AdamW, gradient_norm, shorten_gradients

SHAPES = [(5, 3), (3,), (1,), (2, 4)]
BETAS = (0.8, 0.97)

fused_and_by_formula = pytest.mark.parametrize("is_fused", [True, False])


def choose_kernel(is_fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take torch's private kernel away, as a later version of torch may, or leave it."""
    if not is_fused:
        monkeypatch.delattr(torch, "_fused_adamw_", raising=False)


def some_params() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).requires_grad_() for shape in SHAPES]


def give_gradients(params: Sequence[Tensor], step: int, scale: float = 1.0) -> None:
    generator = torch.Generator().manual_seed(100 + step)
    for param in params:
        param.grad = scale * torch.randn(param.shape, generator=generator)


def rate(step: int) -> float:
    return 0.1 / (1 + step)


def ours(params: Sequence[Tensor], weight_decay: float = 0.2) -> AdamW:
    return AdamW(params, betas=BETAS, weight_decay=weight_decay)


@fused_and_by_formula
@pytest.mark.parametrize("weight_decay", [0.0, 0.2])
def test_twenty_steps_are_those_of_pytorch(
    is_fused: bool, weight_decay: float, monkeypatch: pytest.MonkeyPatch
):
    choose_kernel(is_fused, monkeypatch)
    params, theirs = some_params(), some_params()
    optimizer = ours(params, weight_decay)
    pytorchs = torch.optim.AdamW(theirs, lr=1.0, betas=BETAS, weight_decay=weight_decay)

    for step in range(20):
        give_gradients(params, step)
        give_gradients(theirs, step)
        optimizer.step(rate(step))
        for group in pytorchs.param_groups:
            group["lr"] = rate(step)
        pytorchs.step()
        torch.testing.assert_close(params, theirs)


@fused_and_by_formula
def test_the_first_step_goes_the_learning_rate_far_whatever_the_gradients_size(
    is_fused: bool, monkeypatch: pytest.MonkeyPatch
):
    choose_kernel(is_fused, monkeypatch)
    param = torch.tensor([1.0, 1.0], requires_grad=True)
    param.grad = torch.tensor([1000.0, -0.01])

    ours([param], weight_decay=0.0).step(0.25)

    torch.testing.assert_close(param.detach(), torch.tensor([0.75, 1.25]))


@fused_and_by_formula
def test_without_a_gradient_weights_shrink_by_their_decay(
    is_fused: bool, monkeypatch: pytest.MonkeyPatch
):
    choose_kernel(is_fused, monkeypatch)
    param = torch.tensor([4.0, -8.0], requires_grad=True)
    param.grad = torch.zeros(2)

    ours([param], weight_decay=0.5).step(0.5)

    assert param.tolist() == [3.0, -6.0]


@fused_and_by_formula
def test_a_loaded_state_goes_on_to_the_bit(is_fused: bool, monkeypatch: pytest.MonkeyPatch):
    choose_kernel(is_fused, monkeypatch)
    params = some_params()
    optimizer = ours(params)
    for step in range(5):
        give_gradients(params, step)
        optimizer.step(rate(step))
    saved = {name: value.clone() for name, value in optimizer.state().items()}
    resumed = [param.detach().clone().requires_grad_() for param in params]
    other = ours(resumed)

    other.load(saved)
    for step in range(5, 10):
        for both, each in ((params, optimizer), (resumed, other)):
            give_gradients(both, step)
            each.step(rate(step))

    assert all(torch.equal(a, b) for a, b in zip(params, resumed, strict=True))
    assert all(torch.equal(value, other.state()[n]) for n, value in optimizer.state().items())


def test_a_loaded_state_is_a_copy():
    params = some_params()
    optimizer, other = ours(params), ours(some_params())
    give_gradients(params, 0)
    other.load(optimizer.state())

    optimizer.step(0.1)

    assert not any(value.any() for value in other.state().values())


def test_a_parameter_that_took_no_part_is_noticed():
    params = some_params()
    give_gradients(params[1:], 0)

    with pytest.raises(AssertionError, match="every parameter takes part"):
        ours(params).step(0.1)


def test_the_gradient_3_4_has_length_5():
    params = [torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)]
    params[0].grad, params[1].grad = torch.tensor([3.0]), torch.tensor([4.0])

    norm = gradient_norm(params)
    shorten_gradients(params, norm, 1.0)

    assert norm.item() == 5.0
    assert [param.grad.item() for param in params if param.grad is not None] == pytest.approx(
        [0.6, 0.8], abs=1e-5
    )


@pytest.mark.parametrize("longest", [0.5, 1.0, 1e3])
def test_gradients_are_measured_and_shortened_as_by_pytorch(longest: float):
    params, theirs = some_params(), some_params()
    give_gradients(params, 0, scale=3.0)
    give_gradients(theirs, 0, scale=3.0)

    norm = gradient_norm(params)
    shorten_gradients(params, norm, longest)

    torch.testing.assert_close(norm, torch.nn.utils.clip_grad_norm_(theirs, longest))
    for param, their in zip(params, theirs, strict=True):
        torch.testing.assert_close(param.grad, their.grad)
    assert gradient_norm(params).item() == pytest.approx(min(longest, norm.item()), rel=1e-5)


def test_a_short_gradient_is_used_as_it_is():
    params, same = some_params(), some_params()
    give_gradients(params, 0)
    give_gradients(same, 0)

    shorten_gradients(params, gradient_norm(params), 1e6)

    for param, other in zip(params, same, strict=True):
        assert param.grad is not None
        assert other.grad is not None
        assert torch.equal(param.grad, other.grad)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_gradient_that_is_no_number_has_no_finite_length(bad: float):
    params = some_params()
    give_gradients(params, 0)
    params[2].grad = torch.tensor([bad])

    assert not gradient_norm(params).isfinite()
