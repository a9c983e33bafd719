import io
import json
import math
import os
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path

import pytest
from rich.cells import cell_len

from core.checkpoint_files import cut_after
from core.locks import holding
from core.runs import RunWriter, create_run
from tui.watching import Watched, watch_runs

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 30
WIDTH, HEIGHT = 80, 24
NAN = math.nan
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
UP = "\x1b[1A\x1b[2K"
"""What begins each new picture, once for every line above the last."""

Shown = Callable[..., str]


class Terminal(io.StringIO):
    """A stdout that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def new_run(root: Path, slug: str = "tiny") -> Path:
    """Prepare a run of nothing in particular."""
    return create_run(root, slug, {"kind": "gpt"}, (".", "a"))


def write(writer: RunWriter, steps: range, loss: float = 2.0) -> None:
    """Write down steps, each with its batch's loss, and every tenth with an evaluation."""
    for step in steps:
        if step:
            writer.metric(
                {
                    "step": step,
                    "split": "batch",
                    "loss": loss,
                    "learning_rate": 0.002,
                    "grad_norm": 1.25,
                    "chars_per_s": 54321,
                    "elapsed_s": step / 4,
                }
            )
        if step % 10 == 0:
            writer.metric({"step": step, "split": "train", "loss": loss + 0.25})
            writer.metric({"step": step, "split": "val", "loss": loss + 0.5})


def done_run(root: Path, slug: str = "tiny", loss: float = 2.0) -> Path:
    """Write down a run of 20 steps whose trainer has left."""
    run = new_run(root, slug)
    writer = RunWriter(run)
    write(writer, range(21), loss)
    writer.status("done", step=20, n_steps=20, bigram={"val": 2.25})
    writer.close()
    return run


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """Return what a terminal shows of runs, without colours."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("LINES", str(HEIGHT))

    def show(*runs: Path, log_y: bool = False, is_plain: bool = True) -> str:
        terminal = Terminal()
        with redirect_stdout(terminal):
            watch_runs(runs, log_y=log_y)
        return ESCAPES.sub("", terminal.getvalue()) if is_plain else terminal.getvalue()

    return show


def watcher(run: Path, *arguments: str, stdout: int) -> "subprocess.Popen[bytes]":
    """Start `qkv watch` as a program of its own."""
    unwanted = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
    environment = {key: value for key, value in os.environ.items() if key not in unwanted}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "tui", "watch", str(run), *arguments],
        env=environment | {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
    )


class Screen:
    """A terminal in which `qkv watch` runs."""

    def __init__(self, master: int, child: "subprocess.Popen[bytes]") -> None:
        self.master, self.child = master, child
        self.text = ""

    def read_until(self, pattern: str) -> str:
        """Read until what is shown matches, not for ever."""
        deadline = time.monotonic() + PATIENCE_S
        while not re.search(pattern, ESCAPES.sub("", self.text)):
            assert select.select([self.master], [], [], max(0, deadline - time.monotonic()))[0], (
                self.text
            )
            assert self._read(), f"it ended too early:\n{self.text}"
        return ESCAPES.sub("", self.text)

    def read_to_the_end(self) -> str:
        """Read until the program has left."""
        while self._read():
            pass
        assert self.child.wait(timeout=PATIENCE_S) == 0
        return ESCAPES.sub("", self.text)

    def _read(self) -> bool:
        try:
            found = os.read(self.master, 65536)
        except OSError:  # how Linux says that nobody is at the other end
            return False
        self.text += found.decode(errors="replace")
        return bool(found)


@contextmanager
def watching(run: Path) -> Generator[Screen]:
    """Watch a run in a terminal of 80x24."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (HEIGHT, WIDTH))
    child = watcher(run, stdout=slave)
    os.close(slave)
    try:
        yield Screen(master, child)
    finally:
        child.kill()
        child.communicate(timeout=PATIENCE_S)
        os.close(master)


@pytest.fixture
def ctrl_c() -> Generator[None]:
    """Let a child be open to SIGINT even where whoever started the tests ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_what_was_written_becomes_curves(tmp_path: Path):
    run = new_run(tmp_path)
    writer = RunWriter(run)
    watched = Watched(run)
    write(writer, range(21))
    writer.close()

    new = watched.look()

    assert len(new) == 20 + 2 * 3
    assert watched.curves["batch"] == (list(range(1, 21)), pytest.approx([2.0] * 20))
    assert watched.curves["train"] == ([0, 10, 20], [2.25] * 3)
    assert watched.curves["val"] == ([0, 10, 20], [2.5] * 3)
    assert watched.last.get("step") == 20


def test_a_second_look_reads_only_what_is_new(tmp_path: Path):
    run = new_run(tmp_path)
    writer = RunWriter(run)
    watched = Watched(run)

    write(writer, range(11))
    watched.look()
    assert watched.look() == []
    write(writer, range(11, 13))
    assert [metric.get("step") for metric in watched.look()] == [11, 12]

    assert watched.curves["batch"][0] == list(range(1, 13))
    writer.close()


def test_the_batches_losses_are_smoothed(tmp_path: Path):
    run = new_run(tmp_path)
    writer = RunWriter(run)
    for step, loss in enumerate([4.0, 2.0, 3.0], start=1):
        writer.metric({"step": step, "split": "batch", "loss": loss})
    writer.close()
    watched = Watched(run)

    watched.look()

    second = 0.95 * 4.0 + 0.05 * 2.0
    assert watched.curves["batch"][1] == pytest.approx([4.0, second, 0.95 * second + 0.05 * 3.0])


def test_a_split_that_is_not_drawn_is_passed_over(tmp_path: Path):
    run = new_run(tmp_path)
    writer = RunWriter(run)
    writer.metric({"step": 1, "split": "test", "loss": 1.0})
    writer.close()
    watched = Watched(run)

    assert len(watched.look()) == 1

    assert all(curve == ([], []) for curve in watched.curves.values())


def test_a_run_that_went_back_is_read_anew(tmp_path: Path):
    run = new_run(tmp_path)
    writer = RunWriter(run)
    watched = Watched(run)
    write(writer, range(16), loss=2.0)
    writer.close()
    watched.look()

    cut_after(run, 10)
    writer = RunWriter(run)
    write(writer, range(11, 13), loss=1.0)
    writer.close()
    watched.look()

    smooth = 0.95 * 2.0 + 0.05 * 1.0
    assert watched.curves["batch"] == (
        list(range(1, 13)),
        pytest.approx([2.0] * 10 + [smooth, 0.95 * smooth + 0.05 * 1.0]),
    )
    assert watched.curves["val"] == ([0, 10], [2.5, 2.5])


def test_a_run_is_live_as_long_as_its_trainer_is(tmp_path: Path):
    run = new_run(tmp_path)
    writer = RunWriter(run)
    with holding(run / "run.lock", "taken"):
        writer.status("running", step=0)
        watched = Watched(run)
        assert watched.is_live

        writer.status("done", step=20)
    writer.close()
    watched.look()

    assert not watched.is_live
    assert watched.summary.state == "done"


def test_a_picture_names_every_curve_and_says_how_the_run_stands(tmp_path: Path, shown: Shown):
    run = done_run(tmp_path)

    picture = shown(run)

    for curve in ("batch, smoothed", "train", "val", "bigram"):
        assert curve in picture
    for piece in ("done  step 20/20", "rate 0.002", "norm 1.25", "54,321 letters/s"):
        assert piece in picture, picture
    assert "left" not in picture


def test_several_runs_are_drawn_by_their_names(tmp_path: Path, shown: Shown):
    one, other = done_run(tmp_path, "one", 2.0), done_run(tmp_path, "other", 1.0)

    picture = shown(one, other)

    for run, val_loss in ((one, "2.500"), (other, "1.500")):
        assert f"{run.name} {val_loss}" in picture
        assert f"{run.name}  done  step 20/20" in picture
    assert "batch" not in picture


def test_a_run_without_a_line_is_no_crash(tmp_path: Path, shown: Shown):
    run = new_run(tmp_path)

    picture = shown(run)

    assert "There is nothing to draw yet." in picture
    assert f"{run.name}  queued  step 0/0" in picture


def test_a_loss_that_is_no_number_is_noted(tmp_path: Path, shown: Shown):
    run = new_run(tmp_path)
    writer = RunWriter(run)
    write(writer, range(13))
    writer.metric({"step": 13, "split": "batch", "loss": NAN, "grad_norm": NAN})
    writer.status("failed", step=10, n_steps=20)
    writer.close()

    picture = shown(run)

    assert re.search(r"batch, smoothed .*nan.* 13\b", picture), picture
    assert f"{run.name}  failed  step 13/20" in picture
    assert "norm nan" in picture


def test_a_loss_of_0_is_noted_on_a_logarithmic_axis(tmp_path: Path, shown: Shown):
    run = new_run(tmp_path)
    writer = RunWriter(run)
    for step, loss in enumerate([4.0, 2.0, 0.0]):
        writer.metric({"step": step, "split": "val", "loss": loss})
    writer.close()

    assert "not on a log axis" in shown(run, log_y=True)
    assert "not on a log axis" not in shown(run)


def test_no_color_is_obeyed(tmp_path: Path, shown: Shown, monkeypatch: pytest.MonkeyPatch):
    run = done_run(tmp_path)
    coloured = "\x1b[38;5;"

    assert coloured in shown(run, is_plain=False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured not in shown(run, is_plain=False)


def test_a_pipe_gets_a_line_for_each_evaluation(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = new_run(tmp_path)
    writer = RunWriter(run)
    write(writer, range(1, 11))
    writer.metric({"step": 20, "split": "val", "loss": math.inf})
    writer.status("failed")
    writer.close()

    watch_runs([run])

    out, err = capsys.readouterr()
    assert out.splitlines() == [
        f"{run.name}  step 10  train 2.2500",
        f"{run.name}  step 10  val 2.5000",
        f"{run.name}  step 20  val inf",
    ]
    assert err == f"{run.name}: failed.\n"


def test_json_has_every_metric_and_ends_with_done_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    one, other = done_run(tmp_path, "one"), done_run(tmp_path, "other")

    watch_runs([one, other], as_json=True)

    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    metrics = [event for event in events if event["event"] == "metric"]
    for run in (one, other):
        written = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        told = [event for event in metrics if event["run"] == run.name]
        assert told == [{"event": "metric", "run": run.name, **line} for line in written]
    assert events[len(metrics) :] == [
        {"event": "ended", "run": one.name, "state": "done"},
        {"event": "done", "run": other.name, "state": "done"},
    ]


def test_a_terminal_draws_the_curves_while_they_grow_and_is_left_when_the_run_is_done(
    tmp_path: Path,
):
    run = new_run(tmp_path)
    writer = RunWriter(run)
    with ExitStack() as trainer:
        trainer.enter_context(holding(run / "run.lock", "taken"))
        writer.status("running", step=0, n_steps=40, bigram={"val": 2.25})
        write(writer, range(11))
        with watching(run) as screen:
            picture = screen.read_until("step 10/40 .* 8 s left")  # 30 steps at four a second
            assert re.search("[\u2801-\u28ff]", picture), picture  # braille: a line
            assert f"{run.name}  running" in picture

            write(writer, range(11, 41))
            screen.read_until("step 40/40")

            writer.status("done", step=40, n_steps=40, bigram={"val": 2.25})
            trainer.close()
            last = screen.read_to_the_end()
    writer.close()

    assert f"{run.name}  done  step 40/40" in last
    assert max(cell_len(line) for line in re.split(r"[\r\n]+", last)) <= WIDTH
    assert len(max(re.findall(f"(?:{re.escape(UP)})+", screen.text))) < HEIGHT * len(UP)


def test_ctrl_c_leaves_the_picture_and_the_run_goes_on(tmp_path: Path, ctrl_c: None):
    run = new_run(tmp_path)
    writer = RunWriter(run)
    with holding(run / "run.lock", "taken"):
        writer.status("running", step=0, n_steps=40)
        write(writer, range(11))
        with watching(run) as screen:
            screen.read_until("step 10/40")

            screen.child.send_signal(signal.SIGINT)
            screen.read_to_the_end()

            assert screen.child.stderr is not None
            assert screen.child.stderr.read() == b"Left; what was running goes on.\n"
        assert not (run / "stop").exists()
    writer.close()


def test_ctrl_c_in_a_pipe_ends_without_a_traceback(tmp_path: Path, ctrl_c: None):
    run = new_run(tmp_path)
    writer = RunWriter(run)
    with holding(run / "run.lock", "taken"):
        write(writer, range(1))
        writer.close()
        child = watcher(run, "--json", stdout=subprocess.PIPE)
        try:
            assert child.stdout is not None
            assert json.loads(child.stdout.readline())["event"] == "metric"
            child.send_signal(signal.SIGINT)
            _, err = child.communicate(timeout=PATIENCE_S)
        finally:
            child.kill()
            child.wait()

    assert child.returncode == 130
    assert b"Traceback" not in err
