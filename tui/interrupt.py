"""Ending long work gently: the first signal asks, a second ctrl-C insists."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


class Interrupt:
    """Whether somebody asked to stop."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def is_requested(self) -> bool:
        """Return whether a signal has come."""
        return self.signal is not None

    def request(self) -> None:
        """Ask to stop, as a signal would."""
        self.signal = self.signal or signal.SIGTERM

    def receive(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Remember the first signal; a second ctrl-C ends at once."""
        if self.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = self.signal or number


@contextmanager
def interruptible() -> Generator[Interrupt]:
    """While inside, signals only set a flag, so that work can end where nothing is lost."""
    interrupt = Interrupt()
    before = {number: signal.signal(number, interrupt.receive) for number in SIGNALS}
    try:
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
