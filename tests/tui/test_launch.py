import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from data.errors import UsageError
from tui.launch import check_terminal

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 30


def test_without_a_terminal_qkv_says_so_and_exits_with_2(tmp_path: Path):
    run = subprocess.run(
        [sys.executable, "-P", "-m", "tui"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "QKV_HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert run.returncode == 2
    assert "qkv --help" in run.stderr
    assert run.stdout == ""


class Terminal:
    def isatty(self) -> bool:
        return True


def test_a_dumb_terminal_is_refused(monkeypatch: pytest.MonkeyPatch):
    for name in ("__stdin__", "__stdout__", "__stderr__"):
        monkeypatch.setattr(sys, name, Terminal())
    monkeypatch.setenv("TERM", "dumb")

    with pytest.raises(UsageError, match="TERM is dumb"):
        check_terminal()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_app_and_restores_the_terminal(
    tmp_path: Path, number: signal.Signals, code: int
):
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "tui"],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "QKV_HOME": str(tmp_path),
            "TERM": "xterm-256color",
        },
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    said = b""
    deadline = time.monotonic() + PATIENCE_S
    while b"No run yet" not in said and time.monotonic() < deadline:
        said += os.read(ours, 65536)
    child.send_signal(number)
    try:
        while chunk := os.read(ours, 65536):
            said += chunk
    except OSError:
        pass  # the other end is closed
    os.close(ours)

    assert child.wait(PATIENCE_S) == code
    assert b"\x1b[?1049l" in said  # the alternate screen is left
