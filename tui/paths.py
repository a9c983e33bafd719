"""Where the program keeps what belongs to the person who uses it."""

import os
from pathlib import Path


def home() -> Path:
    """Return the directory of runs and progress; QKV_HOME overrides the system's place for data."""
    chosen = os.environ.get("QKV_HOME")
    if chosen:
        return Path(chosen).expanduser().absolute()
    from platformdirs import user_data_path

    return user_data_path("qkv", appauthor=False)


def runs_root() -> Path:
    """Return the directory that holds all runs."""
    return home() / "runs"
