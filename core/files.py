"""Writing a file so that nobody ever reads half of it. No torch here."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Give a draft beside the place to write, then flush it and move it there in one step.

    Raises:
        OSError: If the disk is full or gone; the file that was there stays whole.
    """
    draft = path.with_name(f".{path.name}")
    try:
        yield draft
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(draft, path)  # noqa: PTH105 (Path.replace hides that it is atomic)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file whole.

    Raises:
        OSError: If the disk is full or gone; the file that was there stays whole.
    """
    with replacing(path) as draft:
        draft.write_bytes(content)
