import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from core.checkpoint_files import cut_after
from core.files import write_json
from core.locks import LockedError, holding, is_held
from core.runs import (
    MetricsTail,
    RunWriter,
    create_run,
    find_run,
    is_alive,
    list_runs,
    read_run,
    request_stop,
    stop_requested,
)
from data.errors import DataError, UsageError

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 30
HOLD = """
import sys, time
from pathlib import Path
from core.locks import holding
with holding(Path(sys.argv[1]), "taken"):
    print("held", flush=True)
    time.sleep(600)
"""


def new_run(root: Path, slug: str = "fast") -> Path:
    """Prepare a run of nothing in particular."""
    return create_run(root, slug, {"kind": "gpt"}, (".", "a", "é"))


def created(run: Path, moment: str) -> Path:
    """Let a run have been created at another moment."""
    config = json.loads((run / "config.json").read_text())
    write_json(run / "config.json", config | {"created_at": moment})
    return run


def lines(run: Path, name: str = "metrics.jsonl") -> list[dict[str, Any]]:
    """Read lines as a strict reader does, who knows no NaN."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not strict JSON")

    text = (run / name).read_text(encoding="utf-8")
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def wait_until(is_true: Callable[[], bool]) -> None:
    """Wait for a condition, not for ever."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


@contextmanager
def another_process_holding(lock: Path) -> Generator["subprocess.Popen[str]"]:
    """Hold a lock in a process of its own."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        yield child
    finally:
        child.kill()
        child.communicate(timeout=PATIENCE_S)


def test_each_line_is_read_once(tmp_path: Path):
    run = new_run(tmp_path)
    tail = MetricsTail(run)
    writer = RunWriter(run)

    assert list(tail.read_new()) == []
    writer.metric({"step": 0, "split": "val", "loss": 3.0})
    writer.metric({"step": 1, "split": "batch", "loss": 2.0})
    assert [line.get("step") for line in tail.read_new()] == [0, 1]
    assert list(tail.read_new()) == []
    writer.metric({"step": 2, "split": "batch", "loss": 1.0})
    assert list(tail.read_new()) == [{"step": 2, "split": "batch", "loss": 1.0}]
    assert list(tail.read_new()) == []
    writer.close()


def test_a_half_written_line_waits(tmp_path: Path):
    run = new_run(tmp_path)
    tail = MetricsTail(run)
    (run / "metrics.jsonl").write_text('{"step": 0}\n{"st')

    assert list(tail.read_new()) == [{"step": 0}]
    assert list(tail.read_new()) == []

    with (run / "metrics.jsonl").open("a") as file:
        file.write('ep": 1}\n{"step": 2')
    assert list(tail.read_new()) == [{"step": 1}]
    with (run / "metrics.jsonl").open("a") as file:
        file.write("}\n")
    assert list(tail.read_new()) == [{"step": 2}]


def test_a_reader_that_leaves_early_finds_the_rest_later(tmp_path: Path):
    run = new_run(tmp_path)
    (run / "metrics.jsonl").write_text('{"step": 0}\n{"step": 1}\n')
    tail = MetricsTail(run)

    first = next(iter(tail.read_new()))

    assert first == {"step": 0}
    assert list(tail.read_new()) == [{"step": 1}]


@pytest.mark.parametrize("n_after", [0, 1, 4])
def test_reading_begins_again_where_the_file_was_cut(n_after: int, tmp_path: Path):
    run = new_run(tmp_path)
    (run / "metrics.jsonl").write_text("".join(f'{{"step": {n}}}\n' for n in range(4)))
    tail = MetricsTail(run)
    assert len(list(tail.read_new())) == 4

    cut_after(run, 1)
    with (run / "metrics.jsonl").open("a") as file:  # the file may grow beyond its old end
        file.writelines(f'{{"step": {2 + n}, "anew": true}}\n' for n in range(n_after))
    again = list(tail.read_new())

    assert again[:2] == [{"step": 0}, {"step": 1}]
    assert [line.get("step") for line in again] == list(range(2 + n_after))
    assert list(tail.read_new()) == []


@pytest.mark.parametrize(
    ("loss", "word"), [(float("nan"), "nan"), (float("inf"), "inf"), (float("-inf"), "-inf")]
)
def test_a_loss_that_is_no_number_is_null_with_a_reason(loss: float, word: str, tmp_path: Path):
    run = new_run(tmp_path)
    writer = RunWriter(run)

    writer.metric({"step": 7, "split": "batch", "loss": loss, "grad_norm": loss})
    writer.close()

    assert lines(run) == [
        {"step": 7, "split": "batch", "loss": None, "grad_norm": None, "nonfinite": word}
    ]


def test_numbers_keep_every_bit(tmp_path: Path):
    run = new_run(tmp_path)
    writer = RunWriter(run)

    writer.metric({"step": 7, "split": "batch", "loss": 0.1 + 0.2, "grad_norm": 1e-300})
    writer.close()

    assert lines(run) == [{"step": 7, "split": "batch", "loss": 0.1 + 0.2, "grad_norm": 1e-300}]


def test_a_finite_loss_needs_no_reason(tmp_path: Path):
    run = new_run(tmp_path)
    writer = RunWriter(run)

    writer.metric({"step": 0, "split": "val", "loss": 2.0, "elapsed_s": float("inf")})
    writer.close()

    assert lines(run) == [{"step": 0, "split": "val", "loss": 2.0, "elapsed_s": None}]


def test_samples_keep_odd_letters_one_line_each(tmp_path: Path):
    run = new_run(tmp_path)
    writer = RunWriter(run)
    names = ["zoé", "o'neil", "a\u2028b", "c\x85d", ""]

    writer.samples(5, 1.0, names)
    writer.samples(10, 1.0, [])
    writer.close()

    written = (run / "samples.jsonl").read_bytes()
    assert written.count(b"\n") == 2
    assert [json.loads(line)["names"] for line in written.split(b"\n")[:2]] == [names, []]
    cut_after(run, 10)
    assert (run / "samples.jsonl").read_bytes() == written


def test_a_writer_appends_to_what_is_there(tmp_path: Path):
    run = new_run(tmp_path)
    for step in range(2):
        writer = RunWriter(run)
        writer.metric({"step": step, "split": "batch", "loss": 1.0})
        writer.close()

    assert [line["step"] for line in lines(run)] == [0, 1]


def test_a_status_says_who_wrote_it(tmp_path: Path):
    run = new_run(tmp_path)
    writer = RunWriter(run)

    writer.status("done", step=3, val_loss=2.5)
    writer.close()

    summary = read_run(run)
    assert (summary.state, summary.step, summary.val_loss) == ("done", 3, 2.5)
    assert summary.status["pid"] == os.getpid()
    assert summary.status["host"]


def test_a_stop_is_asked_for_once_and_forgotten_by_the_next_trainer(tmp_path: Path):
    run = new_run(tmp_path)
    assert not stop_requested(run)

    request_stop(run)
    request_stop(run)
    assert stop_requested(run)

    RunWriter(run).close()
    assert not stop_requested(run)


@pytest.mark.parametrize(
    ("step", "kept"), [(-1, []), (0, [0, 0]), (1, [0, 0, 1]), (2, [0, 0, 1, 2]), (9, [0, 0, 1, 2])]
)
def test_lines_beyond_a_step_are_cut(step: int, kept: list[int], tmp_path: Path):
    run = new_run(tmp_path)
    for name in ("metrics.jsonl", "samples.jsonl"):
        (run / name).write_text("".join(f'{{"step": {n}}}\n' for n in (0, 0, 1, 2)))

    cut_after(run, step)

    for name in ("metrics.jsonl", "samples.jsonl"):
        assert [line["step"] for line in lines(run, name)] == kept


@pytest.mark.parametrize("torn", ['{"st', '{"step": 1}', "{", "\x00\x00"])
def test_a_torn_last_line_is_cut_whatever_its_step(torn: str, tmp_path: Path):
    run = new_run(tmp_path)
    for name in ("metrics.jsonl", "samples.jsonl"):
        (run / name).write_text('{"step": 0}\n' + torn)

    cut_after(run, 5)

    for name in ("metrics.jsonl", "samples.jsonl"):
        assert (run / name).read_text() == '{"step": 0}\n'


def test_a_letter_torn_in_two_is_cut(tmp_path: Path):
    run = new_run(tmp_path)
    whole = '{"step": 0, "names": ["é"]}\n'.encode()
    (run / "samples.jsonl").write_bytes(whole + whole[: whole.index(b"\xc3") + 1])

    cut_after(run, 5)

    assert (run / "samples.jsonl").read_bytes() == whole


@pytest.mark.parametrize("damaged", ["\x00\x00\n", '{"st\n'])
def test_a_damaged_line_ends_what_is_kept(damaged: str, tmp_path: Path):
    run = new_run(tmp_path)
    (run / "metrics.jsonl").write_text('{"step": 0}\n' + damaged + '{"step": 1}\n')

    cut_after(run, 5)

    assert (run / "metrics.jsonl").read_text() == '{"step": 0}\n'


def test_runs_are_listed_as_they_were_created(tmp_path: Path):
    third = created(new_run(tmp_path, "a"), "2026-11-30T14:00:03+00:00")
    first = created(new_run(tmp_path, "c"), "2026-11-30T14:00:01+00:00")
    second = created(new_run(tmp_path, "b"), "2026-11-30T14:00:02+00:00")

    assert [run.path for run in list_runs(tmp_path)] == [first, second, third]
    assert find_run(tmp_path, "last") == third


def test_the_order_stays_when_a_run_is_renamed(tmp_path: Path):
    first, second = new_run(tmp_path, "a"), new_run(tmp_path, "b")

    renamed = first.rename(tmp_path / "zzz")

    assert [run.path for run in list_runs(tmp_path)] == [renamed, second]
    assert find_run(tmp_path, "last") == second


def test_what_is_no_run_is_not_listed(tmp_path: Path):
    run = new_run(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes.txt").touch()

    assert [found.path for found in list_runs(tmp_path)] == [run]
    assert list_runs(tmp_path / "nowhere") == []


def test_a_run_is_found_by_its_name_a_part_and_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run, _ = new_run(tmp_path, "wide"), new_run(tmp_path, "deep")
    monkeypatch.chdir(tmp_path)

    for text in (run.name, "wide", "-wi", run.name[-9:], str(run), f"./{run.name}", f"{run}/"):
        assert find_run(tmp_path, text) == run.resolve(), text


def test_a_path_leads_to_a_run_that_is_elsewhere(tmp_path: Path):
    run = new_run(tmp_path / "elsewhere")

    assert find_run(tmp_path / "runs", str(run)) == run.resolve()


def test_a_whole_name_wins_over_names_that_hold_it(tmp_path: Path):
    run = new_run(tmp_path)
    shutil.copytree(run, tmp_path / f"{run.name}-copy")

    assert find_run(tmp_path, run.name) == run


def test_a_part_that_fits_several_runs_is_refused_with_their_names(tmp_path: Path):
    runs = [new_run(tmp_path, "wide-1"), new_run(tmp_path, "wide-2")]
    new_run(tmp_path, "deep")

    with pytest.raises(UsageError) as caught:
        find_run(tmp_path, "wide")

    assert str(caught.value) == (
        f"'wide' fits 2 runs: {runs[0].name}, {runs[1].name}. Give a longer part."
    )


@pytest.mark.parametrize("text", ["tall", "", "/", "./tall"])
def test_a_run_that_is_not_there_is_refused_with_the_newest(text: str, tmp_path: Path):
    runs = [new_run(tmp_path, f"wide-{n}") for n in range(6)]

    with pytest.raises(UsageError) as caught:
        find_run(tmp_path, text)

    assert caught.value.exit_code == 2
    assert str(caught.value) == (
        f"no run fits {text!r}. The newest are {', '.join(run.name for run in runs[1:])}; "
        "`qkv runs` lists all, `last` is the newest."
    )


@pytest.mark.parametrize("text", ["last", "fast", "./fast"])
def test_where_there_is_no_run_it_says_how_to_make_one(text: str, tmp_path: Path):
    with pytest.raises(UsageError) as caught:
        find_run(tmp_path / "runs", text)

    assert str(caught.value) == (f"no run fits {text!r}: there is none yet. `qkv train` makes one.")


@pytest.mark.parametrize("state", ["queued", "done", "stopped", "failed"])
def test_a_state_is_read_as_it_was_written(state: str, tmp_path: Path):
    run = new_run(tmp_path)
    write_json(run / "status.json", {"state": state})

    assert read_run(run).state == state


def test_a_running_run_without_its_process_is_lost(tmp_path: Path):
    run = new_run(tmp_path)
    write_json(run / "status.json", {"state": "running", "step": 5})
    (run / "run.lock").touch()
    before = (run / "status.json").read_bytes()

    summary = read_run(run)

    assert (summary.state, summary.step) == ("lost", 5)
    assert (run / "status.json").read_bytes() == before


@pytest.mark.parametrize("state", ["queued", "running", "stopped", "failed"])
def test_a_run_whose_lock_is_held_is_running(state: str, tmp_path: Path):
    run = new_run(tmp_path)
    write_json(run / "status.json", {"state": state})

    with holding(run / "run.lock", "taken"):
        assert is_alive(run)
        assert read_run(run).state == "running"
    assert not is_alive(run)


DAMAGES = {
    "empty": ("config.json", b""),
    "truncated": ("config.json", b'{"format": 1, "created'),
    "not UTF-8": ("config.json", b"\xff\xfe\x00"),
    "status empty": ("status.json", b""),
    "status truncated": ("status.json", b'{"state": "run'),
    "status without a state": ("status.json", b"{}"),
    "a list": ("config.json", b"[]"),
    "null": ("config.json", b"null"),
    "a text": ("config.json", b'"fast"'),
    "status a list": ("status.json", b"[]"),
    "status null": ("status.json", b"null"),
    "nested too deep": ("config.json", b"[" * 100_000),
}
damages = pytest.mark.parametrize(("name", "content"), DAMAGES.values(), ids=DAMAGES.keys())


@damages
def test_a_damaged_run_is_listed_as_damaged_beside_the_others(
    name: str, content: bytes, tmp_path: Path
):
    whole, damaged = new_run(tmp_path, "whole"), new_run(tmp_path, "damaged")
    (damaged / name).write_bytes(content)

    states = {run.path: (run.state, run.step, run.val_loss) for run in list_runs(tmp_path)}

    assert states == {whole: ("queued", 0, None), damaged: ("damaged", 0, None)}
    assert find_run(tmp_path, "whole") == whole


def test_a_run_without_a_status_is_damaged(tmp_path: Path):
    run = new_run(tmp_path)
    (run / "status.json").unlink()

    assert [found.state for found in list_runs(tmp_path)] == ["damaged"]


def test_directories_in_place_of_files_are_damage(tmp_path: Path):
    for name in ("config.json", "status.json"):
        run = new_run(tmp_path)
        (run / name).unlink()
        (run / name).mkdir()

        assert read_run(run).state == "damaged"
        list_runs(tmp_path)


def test_a_moment_of_creation_that_is_no_text_is_no_crash(tmp_path: Path):
    runs = {new_run(tmp_path), new_run(tmp_path)}
    write_json(next(iter(runs)) / "config.json", {"created_at": 5})

    assert {run.path for run in list_runs(tmp_path)} == runs


def test_json_that_strict_readers_refuse_is_never_written(tmp_path: Path):
    (tmp_path / "status.json").write_text("whole")

    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "status.json", {"loss": float("nan")})

    assert (tmp_path / "status.json").read_text() == "whole"


def test_a_second_holder_is_refused_while_another_process_holds_the_lock(tmp_path: Path):
    lock = tmp_path / "run.lock"

    with another_process_holding(lock):
        assert is_held(lock)
        with pytest.raises(LockedError) as caught, holding(lock, "somebody else has it."):
            pytest.fail("the lock was given twice")

    assert str(caught.value) == "somebody else has it."


def test_a_lock_is_free_after_its_holder_was_killed(tmp_path: Path):
    lock = tmp_path / "run.lock"

    with another_process_holding(lock) as child:
        assert is_held(lock)
        child.send_signal(signal.SIGKILL)
        child.wait(timeout=PATIENCE_S)

    wait_until(lambda: not is_held(lock))
    with holding(lock, "taken"):
        assert is_held(lock)


def test_a_lock_is_free_after_its_holder_left_or_failed(tmp_path: Path):
    lock = tmp_path / "run.lock"

    with holding(lock, "taken"):
        pass
    assert not is_held(lock)

    with pytest.raises(DataError, match="in between"), holding(lock, "taken"):
        raise DataError("in between")
    assert not is_held(lock)


def test_looking_at_a_lock_neither_makes_nor_takes_it(tmp_path: Path):
    lock = tmp_path / "run.lock"

    assert not is_held(lock)
    assert not lock.exists()

    lock.touch()
    assert not is_held(lock)
    with holding(lock, "taken"):
        pass
