"""Start the program, from the `qkv` command or from `python -m tui`."""

import os
import sys
from importlib.util import find_spec
from io import TextIOWrapper
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
SIBLINGS = ("data", "core", "lessons")


def check_siblings() -> None:
    """Stop when a folder called data, core or lessons hides ours.

    Our packages have everyday names, so `python -m tui` or PYTHONPATH=. in a directory that
    has its own data/ would import the wrong one and fail far from the cause.
    """
    for package in SIBLINGS:
        spec = find_spec(package)
        origin = Path(spec.origin).resolve() if spec and spec.origin else None
        if origin is None or origin.parent != HOME / package:
            raise SystemExit(
                f"qkv: {package!r} was found at {origin or 'a folder without code'}, "
                f"not at {HOME / package}. Start with the command `qkv`, or leave this "
                "directory, or unset PYTHONPATH."
            )


def main() -> None:
    """Check the surroundings, run the command line, and turn errors into one line and a code."""
    check_siblings()
    mend_streams()
    from data.errors import UserError
    from tui.cli import app

    try:
        app()
    except UserError as error:
        leave(str(error), error.exit_code)
    except BrokenPipeError:
        # Whoever read our output has seen enough; closing stdout again at exit would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        leave("interrupted.", 130)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        leave(f"{where}{error.strerror or error}. Nothing that was saved before is lost.", 1)
    except MemoryError:
        leave("there is not enough memory for this. Use a smaller model or batch.", 1)
    except RuntimeError as error:
        if "alloc" not in str(error) and "out of memory" not in str(error):
            raise
        leave("there is not enough memory for this. Use a smaller model or batch.", 1)


def mend_streams() -> None:
    """See that text can be printed: closed streams swallow it, others show ? for what they lack."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # started with the stream closed
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def leave(message: str, exit_code: int) -> None:
    """Say on stderr why the program ends, and end it."""
    print(f"qkv: {message}", file=sys.stderr)
    raise SystemExit(exit_code) from None


if __name__ == "__main__":
    main()
