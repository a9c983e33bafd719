import pytest
import torch

from core.config import ConfigError
from core.devices import DEVICES, check_device, pick_device, use_threads

HAS_CUDA = torch.cuda.is_available()
HAS_MPS = torch.backends.mps.is_available()


@pytest.mark.parametrize("wish", DEVICES)
def test_the_four_wishes_are_known(wish: str):
    check_device(wish)


@pytest.mark.parametrize("use", [check_device, pick_device])
def test_an_unknown_device_is_refused_with_the_known_ones(use: object):
    assert callable(use)
    with pytest.raises(ConfigError) as caught:
        use("cudda")

    assert str(caught.value) == (
        "device is 'cudda'; it can be auto, cpu, cuda, mps. Did you mean 'cuda'?"
    )


def test_the_cpu_is_always_there():
    assert pick_device("cpu") == torch.device("cpu")


@pytest.mark.skipif(HAS_CUDA, reason="CUDA is there")
def test_a_wish_for_cuda_that_cannot_be_met_is_a_sentence():
    with pytest.raises(ConfigError) as caught:
        pick_device("cuda")

    there = "mps, cpu" if HAS_MPS else "cpu"
    assert str(caught.value) == (
        f"device is 'cuda', but torch finds none here; it can use {there}. "
        "Leave --device out to let the program choose."
    )


@pytest.mark.skipif(HAS_MPS, reason="MPS is there")
def test_a_wish_for_mps_that_cannot_be_met_is_a_sentence():
    with pytest.raises(ConfigError, match=r"^device is 'mps', but torch finds none here; it can"):
        pick_device("mps")


@pytest.mark.skipif(HAS_CUDA or HAS_MPS, reason="an accelerator is there")
def test_auto_is_the_cpu_where_there_is_nothing_else():
    assert pick_device("auto") == torch.device("cpu")


@pytest.mark.skipif(not (HAS_CUDA or HAS_MPS), reason="no accelerator is there")
def test_auto_is_the_accelerator_where_there_is_one():
    assert pick_device("auto") == torch.device("cuda" if HAS_CUDA else "mps")


@pytest.mark.parametrize("n_threads", [0, -1])
def test_fewer_threads_than_one_are_refused(n_threads: int):
    with pytest.raises(ConfigError) as caught:
        use_threads(n_threads)

    assert str(caught.value) == f"threads must be at least 1, got {n_threads}."


def test_the_number_of_threads_is_taken_over():
    before = torch.get_num_threads()
    try:
        use_threads(2)
        assert torch.get_num_threads() == 2
        use_threads(1)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
