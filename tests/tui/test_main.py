import errno
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import IO

import pytest

from core.runs import create_run
from tui.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
FULL = Path("/dev/full")


def start(
    folder: Path, *arguments: str, stdout: int | IO[str] = subprocess.PIPE, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run this checkout as a program of its own, as somebody who stands in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "tui", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "QKV_HOME": str(folder / "home")} | environment,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in an empty folder that is the program's home as well."""
    monkeypatch.setenv("QKV_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def end(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Run the program in this process and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["qkv", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    code = ended.value.code
    assert code is None or isinstance(code, int)
    return code or 0


@pytest.mark.parametrize("package", ["data", "core", "lessons"])
def test_a_folder_that_hides_ours_is_named(tmp_path: Path, package: str):
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()

    run = start(tmp_path, "--help")

    assert run.returncode == 1
    assert f"qkv: {package!r} was found at {tmp_path.resolve()}" in run.stderr
    assert len(run.stderr.splitlines()) == 1
    assert run.stdout == ""


def test_a_data_folder_without_code_is_no_obstacle(tmp_path: Path):
    (tmp_path / "data").mkdir()

    run = start(tmp_path, "--help")

    assert (run.returncode, run.stderr) == (0, "")
    assert "train" in run.stdout


def test_it_says_its_version(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert end(monkeypatch, "--version") == 0

    assert capsys.readouterr().out == f"qkv {version('qkv')}\n"


@pytest.mark.parametrize(
    ("arguments", "exit_code", "sentence"),
    [
        (("stop", "last"), 1, "is not running: it is queued."),
        (("stop", "nosuch"), 2, "no run fits 'nosuch'."),
        (("train", "--data", "table.txt"), 3, "line 2 'Ben,7'"),
    ],
)
def test_an_error_for_a_person_is_one_line_and_its_exit_code(
    arguments: tuple[str, ...],
    exit_code: int,
    sentence: str,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    create_run(home / "runs", "waiting", {"kind": "gpt"}, (".", "a"))
    (home / "table.txt").write_text("anna\nBen,7\n")

    assert end(monkeypatch, *arguments) == exit_code

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("qkv: ")
    assert err.count("\n") == 1
    assert sentence in err


@pytest.mark.parametrize(
    "arguments", [("nosuch",), ("runs", "--nosuch"), ("sample",), ("watch",), ("runs", "one")]
)
def test_what_no_command_understands_is_wrong_usage(
    arguments: tuple[str, ...],
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    assert end(monkeypatch, *arguments) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert "Usage: qkv" in err


def test_a_home_that_is_a_file_is_a_sentence(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (home / "file").touch()
    monkeypatch.setenv("QKV_HOME", str(home / "file"))

    assert end(monkeypatch, "train") == 1

    reason = os.strerror(errno.ENOTDIR)
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"qkv: {home / 'file' / 'runs'}: {reason}. Nothing that was saved before is lost."
    )


def test_letters_that_a_terminal_lacks_are_no_traceback(tmp_path: Path):
    run = start(tmp_path, "--help", PYTHONIOENCODING="ascii")

    assert (run.returncode, run.stderr) == (0, "")
    assert "train" in run.stdout


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
def test_a_full_disk_is_a_sentence(tmp_path: Path):
    with FULL.open("w") as full:
        run = start(tmp_path, "runs", "--json", stdout=full)

    assert run.returncode == 1
    assert run.stderr.splitlines() == [
        f"qkv: {os.strerror(errno.ENOSPC)}. Nothing that was saved before is lost."
    ]


@pytest.mark.parametrize("arguments", [("runs", "--json"), ("--help",)])
def test_a_reader_that_has_seen_enough_gets_no_traceback(
    tmp_path: Path, arguments: tuple[str, ...]
):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        run = start(tmp_path, *arguments, stdout=writer)
    finally:
        os.close(writer)

    assert (run.returncode, run.stderr) == (1, "")
