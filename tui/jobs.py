"""Trainers as child processes: started, asked to stop, and heard to their last words.

A trainer and its viewers share nothing but the run's directory, so that the death of either costs
the other nothing. No torch here.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from core.runs import read_run, request_stop

N_LAST_LINES = 6
STOPPED = 130  # what `qkv resume` exits with when it was asked to stop


class Trainer:
    """One child at work on one run."""

    def __init__(self, run: Path) -> None:
        self.run = run
        with (run / "stderr.log").open("ab") as log:
            self._log_start = log.tell()
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-m", "tui", "resume", str(run)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,  # our terminal's ctrl-C and hang-up are not for it
                env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE", "PYTHONUTF8": "1"},
            )
        self._asked_s: float | None = None
        self._is_killed = False

    @property
    def is_alive(self) -> bool:
        """Whether the child still runs; asking also lets the system forget a dead one."""
        return self._child.poll() is None

    @property
    def stopping_s(self) -> float | None:
        """Seconds since it was asked to stop, or None."""
        return None if self._asked_s is None else time.monotonic() - self._asked_s

    def stop(self) -> None:
        """Ask it to save and end; it does so after the step it is in."""
        if self.is_alive and self._asked_s is None:
            self._asked_s = time.monotonic()
            # A signal, not the stop file alone: a trainer that only starts removes that one.
            self._child.terminate()
            request_stop(self.run)

    def kill(self) -> None:
        """End it at once; the run can be resumed from its last checkpoint."""
        self._is_killed = True
        self._child.kill()

    def last_words(self) -> str:
        """Say how it died; empty while it lives, or if it ended as it should."""
        code = self._child.poll()
        if code in (None, 0, STOPPED) or self._is_killed:
            return ""
        if code < 0:
            if -code == signal.SIGTERM and self._asked_s is not None:
                return ""  # before it could listen: nothing was trained yet
            return _killed(-code)
        error = read_run(self.run).status.get("error")
        said = self._said()
        return said or str(error or f"its trainer ended with code {code} and said nothing.")

    def _said(self) -> str:
        try:
            log = (self.run / "stderr.log").read_bytes()[self._log_start :]
        except OSError:
            return ""
        lines = [line for line in log.decode("utf-8", "replace").splitlines() if line.strip()]
        return "\n".join(lines[-N_LAST_LINES:])


def _killed(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    often = ", often out of memory; a smaller batch needs less" if name == "SIGKILL" else ""
    return f"its trainer was killed by {name}{often}. r resumes from the last checkpoint."


_trainers: list[Trainer] = []  # children belong to the process, whichever screen started them


def start(run: Path) -> Trainer:
    """Start a trainer on a prepared or interrupted run."""
    trainer = Trainer(run)
    _trainers.append(trainer)
    return trainer


def trainer_of(run: Path) -> Trainer | None:
    """Return our own trainer at work on a run, if there is one."""
    return next((t for t in _trainers if t.run == run and t.is_alive), None)


def alive() -> list[Trainer]:
    """List our trainers that still work."""
    return [trainer for trainer in _trainers if trainer.is_alive]


def take_dead() -> list[Trainer]:
    """Return the trainers that have ended since the last call."""
    dead = [trainer for trainer in _trainers if not trainer.is_alive]
    for trainer in dead:
        _trainers.remove(trainer)
    return dead
