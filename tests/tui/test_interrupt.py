import signal

import pytest

from tui.interrupt import SIGNALS, interruptible

OTHERS = [number for number in SIGNALS if number != signal.SIGINT]


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in SIGNALS]


def receive(*numbers: int) -> None:
    """Work while signals come."""
    with interruptible():
        for number in numbers:
            signal.raise_signal(number)


def test_nobody_has_asked_to_stop_before_a_signal():
    with interruptible() as interrupt:
        assert not interrupt.is_requested()


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_only_sets_the_flag(number: int):
    with interruptible() as interrupt:
        signal.raise_signal(number)

        assert interrupt.is_requested()
        assert interrupt.signal == number


@pytest.mark.parametrize("first", SIGNALS)
def test_ctrl_c_after_any_signal_ends_at_once(first: int):
    with pytest.raises(KeyboardInterrupt):
        receive(first, signal.SIGINT)


@pytest.mark.parametrize("second", OTHERS)
def test_only_ctrl_c_insists(second: int):
    with interruptible() as interrupt:
        for number in (signal.SIGINT, second, second):
            signal.raise_signal(number)

        assert interrupt.is_requested()


def test_signals_mean_afterwards_what_they_meant_before():
    before = handlers()

    with interruptible():
        inside = handlers()

    assert handlers() == before
    assert all(one != other for one, other in zip(inside, before, strict=True))


def test_signals_mean_what_they_meant_before_even_after_an_error():
    before = handlers()

    with pytest.raises(KeyboardInterrupt):
        receive(signal.SIGINT, signal.SIGINT)

    assert handlers() == before


def test_a_signal_belongs_to_the_innermost_work():
    with interruptible() as outer:
        with interruptible() as inner:
            signal.raise_signal(signal.SIGTERM)

        assert inner.is_requested()
        assert not outer.is_requested()
        signal.raise_signal(signal.SIGTERM)
        assert outer.is_requested()
