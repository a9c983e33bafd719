"""A lock that is gone with the process that held it, however it died. No torch here."""

import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from data.errors import UserError

PATIENCE_S = 1.0


class LockedError(UserError):
    """Somebody else holds the lock."""


def _lock(file: int, *, exclusive: bool) -> bool:
    """Try to lock an open file; say whether it worked."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            how = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
            fcntl.flock(file, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextmanager
def holding(path: Path, refusal: str) -> Generator[None]:
    """Hold the lock at `path` for a while.

    Raises:
        LockedError: With the text `refusal`, if another process holds it.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        deadline = time.monotonic() + PATIENCE_S  # a viewer that only looks is gone in no time
        while not _lock(file, exclusive=True):
            if time.monotonic() > deadline:
                raise LockedError(refusal)
            time.sleep(0.02)
        yield
    finally:
        os.close(file)


def is_held(path: Path) -> bool:
    """Say whether a living process holds the lock."""
    try:
        file = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        return not _lock(file, exclusive=False)
    finally:
        os.close(file)
