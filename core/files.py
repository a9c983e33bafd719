"""Files that nobody ever reads half of, and JSON in them. No torch here."""

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from data.errors import DataError

Json = dict[str, Any]


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


def read_json(path: Path) -> Any:  # noqa: ANN401 (any JSON value)
    """Read a JSON file of a run.

    Raises:
        DataError: If it is missing or isn't JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged: {error}.") from None


def read_object(path: Path) -> Json:
    """Read a JSON file of a run that holds names and values.

    Raises:
        DataError: If it is missing, isn't JSON, or holds something else.
    """
    found = read_json(path)
    if not isinstance(found, dict):
        raise DataError(f"{path} is damaged: it holds no names and values.")
    return cast("Json", found)


def write_json(path: Path, content: Any) -> None:  # noqa: ANN401 (any JSON value)
    """Replace a JSON file whole."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    replace_file(path, (text + "\n").encode())
