"""Writing a file so that nobody ever reads half of it. No torch here."""

import os
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Write beside the place, flush to the disk, then move there in one step.

    Raises:
        OSError: If the disk is full or gone; the file that was there stays whole.
    """
    draft = path.with_name(f".{path.name}")
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)  # noqa: PTH105 (Path.replace hides that it is atomic)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
