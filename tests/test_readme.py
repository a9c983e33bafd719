"""The README's commands run, in the order in which it shows them."""

import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from tui.__main__ import main
from tui.cli import app

README = Path(__file__).resolve().parent.parent / "README.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Example:
    """A line `$ qkv ...` of a block tagged qkv, and the exit code that the README promises."""

    command: str
    exit_code: int = 0


def readme() -> str:
    return README.read_text(encoding="utf-8")


def examples(text: str) -> list[Example]:
    """Read the commands; a line `# exit 3` belongs to the one before, the rest is its output."""
    found: list[Example] = []
    for tag, block in FENCE.findall(text):
        for line in block.splitlines() if tag == "qkv" else ():
            if line.startswith("$ "):
                found.append(Example(line.removeprefix("$ ")))
            elif promise := re.fullmatch(r"# exit (\d+)", line):
                found[-1].exit_code = int(promise[1])
    return found


def run(command: str) -> int:
    """Run the program as its console script does, in this process: torch is loaded only once."""
    sys.argv = shlex.split(command)
    assert sys.argv[0] == "qkv", f"not a command of ours: {command}"
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code is None or isinstance(end.value.code, int), end.value.code
    return end.value.code or 0


def test_the_commands_of_the_readme_do_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("QKV_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["qkv"])

    shown = examples(readme())

    assert shown, "README.md has no block tagged qkv"
    for example in shown:
        exit_code = run(example.command)
        output = "".join(capsys.readouterr())
        assert exit_code == example.exit_code, f"$ {example.command}\n{output}"


def test_the_readme_and_the_help_name_the_same_commands():
    text = readme()
    code = [line for _, block in FENCE.findall(text) for line in block.splitlines()]
    code += re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
    mentioned = {name for line in code for name in re.findall(r"(?<![\w-])qkv ([a-z]+)", line)}

    program = get_command(app)
    assert isinstance(program, TyperGroup)
    listed = {name for name, command in program.commands.items() if not command.hidden}

    assert mentioned == listed
