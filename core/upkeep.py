"""Looking after runs: their names, their size, their end. No torch here."""

import re
import shutil
from contextlib import suppress
from pathlib import Path

from core.locks import holding
from core.runs import check_slug
from data.errors import UsageError


def rename_run(run: Path, slug: str) -> Path:
    """Put another word into a run's name; its date and its last four digits stay.

    Raises:
        UsageError: If the word can't be part of a name, or the name is taken.
        LockedError: If a trainer is at work on the run.
    """
    check_slug(slug)
    parts = re.fullmatch(r"(\d{8}-\d{6}-).+(-[0-9a-f]{4})", run.name)
    renamed = run.with_name(f"{parts[1]}{slug}{parts[2]}" if parts else slug)
    if renamed == run:
        return run
    with holding(run / "run.lock", f"{run.name} is being trained; stop it before renaming it."):
        if renamed.exists():
            raise UsageError(f"there is a run {renamed.name} already; choose another word.")
        return run.rename(renamed)


def delete_run(run: Path) -> None:
    """Remove a run with all its files.

    Raises:
        LockedError: If a trainer is at work on the run.
    """
    with holding(run / "run.lock", f"{run.name} is being trained; stop it before deleting it."):
        shutil.rmtree(run)


def size_of(run: Path) -> int:
    """Return the bytes that a run's files take."""
    sizes = [0]
    for file in run.rglob("*"):
        with suppress(OSError):  # a checkpoint may be gone by now
            sizes.append(file.stat().st_size if file.is_file() else 0)
    return sum(sizes)
