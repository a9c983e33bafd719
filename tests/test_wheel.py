"""What `pip install` gets: all code, the names, and nothing else."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("data", "core", "lessons", "tui")


def package_files() -> set[str]:
    return {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


@pytest.mark.slow
def test_the_wheel_holds_the_four_packages_whole(tmp_path: Path):
    build = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "--quiet"]
    subprocess.run([*build, "--wheel-dir", str(tmp_path)], check=True)
    (wheel,) = tmp_path.glob("*.whl")

    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}

    assert inside == package_files()
    assert {"data/names.txt", *(f"{package}/py.typed" for package in PACKAGES)} <= inside


def test_gitignore_hides_no_package():
    # hatchling obeys .gitignore: a line `data/` would ship an empty folder, without a word.
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    patterns = [line.strip("/") for line in lines if not line.startswith("#")]

    assert not set(patterns) & set(PACKAGES)
