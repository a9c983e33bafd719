import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tui.app import QkvApp
from tui.screens.help import HelpScreen
from tui.screens.train import TrainScreen

ROOT = Path(__file__).resolve().parents[2]

OPEN_TRAIN = """
import asyncio, sys
from tui.app import QkvApp
from tui.widgets.curves import Curves

async def main():
    app = QkvApp("train")
    async with app.run_test(size=(80, 24)) as pilot:
        async with asyncio.timeout(30):
            while not app.screen.query(Curves):
                await pilot.pause(0.02)
    print(sorted({"torch", "numpy"} & set(sys.modules)))

asyncio.run(main())
"""


def test_opening_train_does_not_import_torch(tmp_path: Path):
    run = subprocess.run(
        [sys.executable, "-P", "-c", OPEN_TRAIN],
        env={**os.environ, "PYTHONPATH": str(ROOT), "QKV_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.stdout.strip() == "[]", run.stderr


def test_help_lists_the_keys_that_work_and_escape_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("QKV_HOME", str(tmp_path))

    async def look() -> None:
        app = QkvApp("train")
        async with app.run_test(size=(80, 24)) as pilot, asyncio.timeout(15):
            while not isinstance(app.screen, TrainScreen):
                await pilot.pause(0.02)
            await pilot.press("question_mark")
            while len(app.screen_stack) < 2:
                await pilot.pause(0.02)
            assert type(app.screen) is HelpScreen
            await pilot.press("escape")
            while len(app.screen_stack) > 1:
                await pilot.pause(0.02)

    asyncio.run(look())
