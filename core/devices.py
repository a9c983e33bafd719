"""Where to compute, and with how many threads. Torch is imported only when asked."""

import ctypes
import os
import sys
from typing import TYPE_CHECKING

from core.config import ConfigError, check_choice, check_least

if TYPE_CHECKING:
    import torch

# Options of mallopt(3) with the values used here, in bytes.
M_MMAP_THRESHOLD = (-3, 1 << 30)
M_TRIM_THRESHOLD = (-1, (1 << 31) - 1)
M_TOP_PAD = (-2, 64 << 20)
DEVICES = ("auto", "cpu", "cuda", "mps")


def check_device(wish: str) -> None:
    """Refuse a device that no machine has.

    Raises:
        ConfigError: If the name is unknown.
    """
    check_choice("device", wish, DEVICES)


def pick_device(wish: str) -> "torch.device":
    """Return the device a person asked for; auto takes CUDA, then MPS, then the CPU.

    Raises:
        ConfigError: If this machine doesn't have it.
    """
    check_device(wish)
    import torch

    has = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if wish == "auto":
        return torch.device(next(name for name, there in has.items() if there))
    if not has[wish]:
        there = [name for name, is_there in has.items() if is_there]
        raise ConfigError(
            f"device is {wish!r}, but torch finds none here; it can use {', '.join(there)}. "
            "Leave --device out to let the program choose."
        )
    return torch.device(wish)


def use_threads(n_threads: int) -> None:
    """Compute with this many CPU threads.

    Raises:
        ConfigError: If the number is below 1.
    """
    check_least(1, threads=n_threads)
    if n_threads > 1 and "torch" not in sys.modules:
        # Threads that wait by spinning slow each other down a hundredfold on shared cores.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    keep_freed_memory()
    import torch

    torch.set_num_threads(n_threads)


def keep_freed_memory() -> None:
    """Ask glibc not to hand memory back to the system after each step, only to ask for it again.

    A training step frees and takes the same tens of megabytes; the page faults cost a quarter of
    its time. Where there is no glibc nothing changes.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    for option, value in (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, M_TOP_PAD):
        mallopt(option, value)
