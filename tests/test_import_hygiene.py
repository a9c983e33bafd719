"""Starting the program must not wait for torch: it takes seconds to import.

The contracts in pyproject.toml see imports in our files; these tests see what really happens.
"""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TypedDict

import pytest

ROOT = Path(__file__).resolve().parent.parent

PLAIN = ["data.errors", "data.names", "data.splits", "data.vocabulary", "core.config", "core.runs"]
"""Modules that must do without numpy as well."""

TORCH_FREE = [
    *PLAIN,
    "core.ledger",
    "core.settings",
    "core.checkpoint_files",
    "core.corpus",
    "core.presets",
    "core.upkeep",
    "core.schedule",
    "core.render",
    "tui.cli",
    "tui.paths",
    "tui.plot",
    "tui.output",
]

COMMANDS = {
    "--help": 0,
    "train --help": 0,
    "runs": 0,
    "runs --json": 0,
    "stop nosuchrun": 2,
    "watch nosuchrun": 2,
}
"""Commands that compute nothing, and their exit codes."""

# Refusing the import, instead of looking at sys.modules afterwards, names every culprit in one
# process: the first one would otherwise leave torch loaded for the rest.
PROBE = """
import contextlib, importlib, io, json, sys

class Refuse:
    tried = set()

    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "numpy"):
            self.tried.add(name)
            raise ImportError(f"{name} is heavy")

def import_module(name):
    importlib.import_module(name)

def run_command(line):
    from tui.__main__ import main
    sys.argv = ["qkv", *line.split()]
    main()

sys.meta_path.insert(0, Refuse())
action = {"import": import_module, "run": run_command}[sys.argv[1]]
for subject in sys.argv[2:]:
    Refuse.tried = set()
    exit_code, error = 0, ""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            action(subject)
        except SystemExit as end:
            exit_code = end.code or 0
        except BaseException as end:
            exit_code, error = 1, repr(end)
    print(json.dumps({"subject": subject, "tried": sorted(Refuse.tried),
                      "exit_code": exit_code, "error": error}))
"""


class Finding(TypedDict):
    """What one import or command did."""

    subject: str
    tried: list[str]
    """Which of torch and numpy it wanted."""
    exit_code: int
    error: str


def probe(action: str, *subjects: str, home: Path | None = None) -> dict[str, Finding]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if home:
        environment["QKV_HOME"] = str(home)
    run = subprocess.run(
        [sys.executable, "-P", "-c", PROBE, action, *subjects],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    findings: list[Finding] = [json.loads(line) for line in run.stdout.splitlines()]
    return {finding["subject"]: finding for finding in findings}


@cache
def imports() -> dict[str, Finding]:
    return probe("import", *TORCH_FREE)


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finding]:
    return probe("run", *COMMANDS, home=tmp_path_factory.mktemp("home"))


@pytest.mark.parametrize("module", TORCH_FREE)
def test_module_does_not_import_torch(module: str):
    finding = imports()[module]

    assert "torch" not in finding["tried"]
    assert module not in PLAIN or finding["tried"] == []
    assert finding["error"] == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_command_that_computes_nothing_does_not_import_torch(
    commands: dict[str, Finding], command: str
):
    finding = commands[command]

    assert "torch" not in finding["tried"]
    assert (finding["exit_code"], finding["error"]) == (COMMANDS[command], "")
