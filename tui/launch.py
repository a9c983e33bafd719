"""Open the app where it can be opened, and give the terminal back however it ends."""

import asyncio
import os
import signal
import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING

from data.errors import UsageError

if TYPE_CHECKING:
    from textual.app import App

ENDING_SIGNALS = {"SIGTERM": 143, "SIGHUP": 129}


def open_app(mode: str = "") -> None:
    """Open the app, in one of its modes, and return when it is left.

    Raises:
        UsageError: If this is no terminal that can show it.
        SystemExit: With the app's code, if that is not 0.
    """
    check_terminal()
    stream = sys.__stderr__  # where Textual draws
    if isinstance(stream, TextIOWrapper) and "utf" not in stream.encoding.lower():
        stream.reconfigure(errors="replace")  # one cell stays one cell

    from tui.app import QkvApp

    app = QkvApp(mode)
    app.run()
    if app.return_code:
        raise SystemExit(app.return_code)


def check_terminal() -> None:
    """Refuse to draw where nobody could see it: Textual would hang.

    Raises:
        UsageError: If input or output is no terminal, or the terminal can't move its cursor.
    """
    streams = (sys.__stdin__, sys.__stdout__, sys.__stderr__)
    if not all(stream is not None and stream.isatty() for stream in streams):
        raise UsageError("the app needs a terminal to draw on; `qkv --help` lists the commands.")
    if os.environ.get("TERM", "") in ("dumb", ""):
        raise UsageError(
            "this terminal can't move its cursor (TERM is dumb or not set), so the app can't open; "
            "`qkv --help` lists the commands."
        )


def end_on_signals(app: "App[None]") -> None:
    """Leave the app, and so restore the terminal, when the system asks the program to end."""
    loop = asyncio.get_running_loop()
    for name, code in ENDING_SIGNALS.items():
        number = getattr(signal, name, None)
        if number is not None and sys.platform != "win32":
            loop.add_signal_handler(number, lambda code=code: app.exit(return_code=code))
