import hashlib
import io
import json
import math
import os
import random
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from core.checkpoint_files import checkpoint_steps, weights_path
from core.comparison import baseline_rows
from core.corpus import load_corpus
from core.locks import holding
from core.presets import DataConfig
from core.runs import create_run, find_run, read_run
from tui.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60
N_NAMES = 200
LETTERS = "abdeiklmoru"
TINY = "--set model.d_model=16 --set model.n_layers=1 --set model.n_heads=2"
SHORT = f"{TINY} --set train.n_steps=30 --set train.eval_interval=10"
RESULT = {
    *("event", "run", "n_params", "n_steps", "train_loss", "val_loss", "test_loss"),
    *("elapsed_s", "cpu_s"),
}
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

Damage = Callable[[Path], Any]


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    exit_code: int
    out: str
    err: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        """Read stdout as a strict reader does, who knows no NaN."""
        return [strict(line) for line in self.out.splitlines()]

    @property
    def json(self) -> dict[str, Any]:
        """Return the one object that a command printed."""
        assert self.exit_code == 0, self.err
        (content,) = self.objects
        return content


class Keyboard(io.StringIO):
    """A stdin that says somebody sits at it."""

    def isatty(self) -> bool:
        return True


def strict(text: str) -> dict[str, Any]:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not strict JSON")

    return json.loads(text, parse_constant=refuse)


class Pipe(io.TextIOWrapper):
    """A stream that nobody sits at, and what was written into it."""

    def __init__(self, encoding: str) -> None:
        self.written = io.BytesIO()
        super().__init__(self.written, encoding)

    def text(self) -> str:
        self.flush()
        return self.written.getvalue().decode(self.encoding)


def qkv(line: str, *, encoding: str = "utf-8") -> Outcome:
    """Run a command in this process, where torch is loaded already."""
    out, err = Pipe(encoding), Pipe(encoding)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["qkv", *shlex.split(line)])
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as end:
            main()
    code = end.value.code
    assert code is None or isinstance(code, int), code
    return Outcome(code or 0, out.text(), err.text())


def syllable_names(seed: int) -> list[str]:
    """Make names of one to four syllables."""
    luck = random.Random(seed)
    names: set[str] = set()
    while len(names) < N_NAMES:
        n_syllables = luck.randint(1, 4)
        names.add("".join(luck.choice("bdklmr") + luck.choice("aeiou") for _ in range(n_syllables)))
    return sorted(names)


def content(folder: Path) -> dict[str, str]:
    """Return a fingerprint of everything in a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else "folder"
        for path in sorted(folder.rglob("*"))
    }


@contextmanager
def standing_in(folder: Path) -> Generator[None]:
    """Stand in a folder whose runs are in qkv/runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QKV_HOME", str(folder / "qkv"))
        patch.chdir(folder)
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """Train a tiny GPT, and beside it one on other names, an MLP and one that diverges."""
    folder = tmp_path_factory.mktemp("commands")
    names = syllable_names(1)
    (folder / "names.txt").write_text("".join(f"{name}\n" for name in names))
    (folder / "other.txt").write_text("".join(f"{name}\n" for name in syllable_names(2)))
    (folder / "table.txt").write_text("anna\nben,7\n")
    (folder / "boundary.txt").write_text("anna\nst.john\n")
    (folder / "latin1.txt").write_bytes("anna\nzoé\n".encode("latin-1"))
    (folder / "utf16.txt").write_text("anna\nben\n", encoding="utf-16")
    (folder / "blank.txt").write_text("\n \n")
    (folder / "few.txt").write_text("anna\nben\nanna\n")
    (folder / "key.toml").write_text("[model]\nd_modle = 16\n")
    with standing_in(folder):
        outcome = qkv(f"train --data names.txt {SHORT} --name tiny --json")
        assert outcome.exit_code == 0, outcome.err
        assert qkv(f"train --data other.txt {SHORT} --name other").exit_code == 0
        mlp = "--preset mlp --set train.n_steps=20"
        assert qkv(f"train --data names.txt {mlp} --name small").exit_code == 0
        wild = "--set train.learning_rate=1e9 --name wild"
        assert qkv(f"train --data names.txt {SHORT} {wild}").exit_code == 1
        create_run(folder / "qkv" / "runs", "waiting", {"kind": "gpt"}, (".", "a"))
    return folder, outcome


@pytest.fixture
def folder(trained: tuple[Path, Outcome]) -> Generator[Path]:
    """Stand in the folder of the trained runs."""
    with standing_in(trained[0]):
        yield trained[0]


@pytest.fixture
def tiny(folder: Path) -> Path:
    """Return the directory of the tiny run."""
    return find_run(folder / "qkv" / "runs", "tiny")


@pytest.fixture
def copied(tiny: Path, tmp_path: Path) -> Generator[Path]:
    """Return a copy of the tiny run, alone in a home of its own, that a test may damage."""
    names = tmp_path / "names.txt"
    shutil.copy(tiny.parents[2] / "names.txt", names)
    run = tmp_path / "qkv" / "runs" / tiny.name
    shutil.copytree(tiny, run)
    config = json.loads((run / "config.json").read_text())
    config["data"]["path"] = str(names)
    (run / "config.json").write_text(json.dumps(config))
    with standing_in(tmp_path):
        yield run


def status(run: Path) -> dict[str, Any]:
    return json.loads((run / "status.json").read_text())


def test_train_prints_one_object_a_line_the_last_of_them_done(trained: tuple[Path, Outcome]):
    events = trained[1].objects

    assert [event["event"] for event in events] == ["started", *["evaluation"] * 4, "done"]
    assert [event["step"] for event in events[1:-1]] == [0, 10, 20, 30]
    assert len({events[0]["run"], events[-1]["run"]}) == 1


def test_the_result_of_a_training_is_what_its_run_says(trained: tuple[Path, Outcome], tiny: Path):
    result = trained[1].objects[-1]

    assert result.keys() >= RESULT
    assert result["run"] == tiny.name
    written = status(tiny)
    for key in RESULT - {"event", "run"}:
        assert result[key] == written[key], key
    assert result["n_steps"] == 30
    assert result["val_loss"] == trained[1].objects[-2]["val_loss"]


def test_a_run_is_named_by_its_slug(tiny: Path):
    assert re.fullmatch(r"\d{8}-\d{6}-tiny-[0-9a-f]{4}", tiny.name)


def test_resuming_a_run_that_is_done_prints_its_result_again(
    trained: tuple[Path, Outcome], folder: Path
):
    before = content(folder)

    assert qkv("resume tiny --json").json == trained[1].objects[-1]

    assert content(folder) == before


def test_a_result_is_a_table_beside_the_bigrams_and_twenty_names(tiny: Path):
    told = qkv("resume tiny").out

    for part in ("train", "val", "test"):
        assert f"{status(tiny)[f'{part}_loss']:.4f}" in told
    for part in ("val", "test"):
        assert f"{status(tiny)['bigram'][part]:.4f}" in told
    names = qkv("resume tiny --json").json["names"]
    assert len(names) == 20
    assert all(name["name"] in told for name in names)
    assert f"{tiny.name}: 30 steps in " in told


def test_the_config_of_a_run_makes_the_same_run_again(tiny: Path, tmp_path: Path):
    with standing_in(tmp_path):
        again = qkv(f"train --config {tiny}/config.json --json")

    assert again.exit_code == 0, again.err
    assert again.objects[-1]["val_loss"] == status(tiny)["val_loss"]
    assert again.objects[-1]["test_loss"] == status(tiny)["test_loss"]


def test_a_messy_file_of_the_same_names_makes_the_same_model_and_says_what_was_mended(
    tiny: Path, tmp_path: Path
):
    names = syllable_names(1)
    lines = [f"{name.title()}  " for name in names[:100]] + ["", " "] + names[50:]
    messy = tmp_path / "messy.txt"
    messy.write_bytes("\r\n".join(["\ufeff" + lines[0], *lines[1:]]).encode())

    with standing_in(tmp_path):
        outcome = qkv(f"train --data {messy} {SHORT} --json")

    assert outcome.exit_code == 0, outcome.err
    assert outcome.objects[-1]["val_loss"] == status(tiny)["val_loss"]
    for repair in ("2 lines dropped: blank", "100 lines stripped", "100 lines made lower case"):
        assert repair in outcome.err
    assert "byte-order mark" in outcome.err


def test_bad_lines_can_be_left_out(tmp_path: Path, tiny: Path):
    names = tmp_path / "names.txt"
    names.write_text("\n".join([*syllable_names(1), "ben,7", "st.john"]))

    with standing_in(tmp_path):
        outcome = qkv(f"train --data {names} --skip-bad-lines {SHORT} --json")

    assert outcome.exit_code == 0, outcome.err
    assert outcome.objects[-1]["val_loss"] == status(tiny)["val_loss"]
    assert "2 lines refused: line 201 'ben,7'" in outcome.err


def test_a_training_that_diverges_fails_at_its_last_good_checkpoint(tmp_path: Path, folder: Path):
    with standing_in(tmp_path):
        wild = "--set train.learning_rate=1e9 --json"
        outcome = qkv(f"train --data {folder / 'names.txt'} {SHORT} {wild}")
        told = qkv("watch last --json")

    assert outcome.exit_code == 1
    (sentence,) = [line for line in outcome.err.splitlines() if line.startswith("qkv: ")]
    for piece in ("step ", "loss of ", "norm of ", "learning rate ", "last good checkpoint"):
        assert piece in sentence
    assert [event["event"] for event in outcome.objects] == ["started", "evaluation"]
    assert told.objects[-1] == {
        "event": "done",
        "run": outcome.objects[0]["run"],
        "state": "failed",
    }
    assert any("nonfinite" in event for event in told.objects)


def test_eval_has_the_keys_that_others_rely_on(tiny: Path):
    result = qkv("eval tiny --json").json

    assert result.keys() >= {
        *("run", "split", "loss", "bits_per_char", "perplexity", "n_chars", "by_position"),
    }
    assert (result["run"], result["split"]) == (tiny.name, "val")
    assert result["by_position"][0].keys() >= {"position", "loss", "n_chars"}


@pytest.mark.parametrize("split", ["val", "test"])
def test_eval_measures_what_the_training_did(split: str, tiny: Path):
    assert qkv(f"eval tiny --split {split} --json").json["loss"] == status(tiny)[f"{split}_loss"]


def test_the_units_of_a_loss_agree(tiny: Path):
    result = qkv("eval tiny --split train --json").json

    assert result["bits_per_char"] == pytest.approx(result["loss"] / math.log(2))
    assert result["perplexity"] == pytest.approx(math.exp(result["loss"]))
    places = result["by_position"]
    assert result["n_chars"] == sum(place["n_chars"] for place in places)
    total = sum(place["loss"] * place["n_chars"] for place in places)
    assert result["loss"] == pytest.approx(total / result["n_chars"])


def test_eval_shows_the_same_numbers_to_a_person(tiny: Path):
    result = qkv("eval tiny --json").json

    told = qkv("eval tiny").out

    for key, digits in (("loss", 4), ("bits_per_char", 4), ("perplexity", 2)):
        assert f"{result[key]:.{digits}f}" in told
    places = [line.split()[:2] for line in told.partition("letters before")[2].splitlines()[1:]]
    assert places == [
        [str(place["position"]), f"{place['loss']:.4f}"] for place in result["by_position"]
    ]


def names_of(line: str) -> list[str]:
    return [name["name"] for name in qkv(f"{line} --json").json["names"]]


def test_sample_has_the_keys_that_others_rely_on(tiny: Path):
    result = qkv("sample tiny -n 3 --seed 7 --json").json

    assert result.keys() >= {"run", "seed", "names"}
    assert (result["run"], result["seed"], len(result["names"])) == (tiny.name, 7, 3)
    for name in result["names"]:
        assert name.keys() >= {"name", "novelty", "log_prob"}
        assert name["log_prob"] < 0


def test_the_same_seed_draws_the_same_names(folder: Path):
    first = qkv("sample tiny --seed 7 --json")

    assert qkv("sample tiny --seed 7 --json").out == first.out
    assert len(first.json["names"]) == 20
    assert names_of("sample tiny --seed 8") != names_of("sample tiny --seed 7")


def test_a_seed_that_nobody_gave_is_told_and_draws_the_same_names_again(folder: Path):
    drawn = qkv("sample tiny -n 5")

    seed = re.search(r"--seed (\d+)", drawn.err)

    assert seed, drawn.err
    assert qkv(f"sample tiny -n 5 --seed {seed[1]}").out == drawn.out


def test_a_name_is_new_where_the_file_does_not_have_it(folder: Path):
    splits = load_corpus(DataConfig(path=str(folder / "names.txt"))).splits

    drawn = qkv("sample tiny -n 300 --seed 1 --json").json["names"]

    for name in drawn:
        part = name["novelty"]
        if part == "new":
            assert name["name"] not in syllable_names(1)
        else:
            assert name["name"] in getattr(splits, part)
    assert {"train", "new"} <= {name["novelty"] for name in drawn}


def test_more_letters_than_there_are_are_all_of_them_and_it_says_so(folder: Path):
    clamped = qkv("sample tiny --seed 7 --top-k 50 --json")

    assert clamped.out == qkv("sample tiny --seed 7 --json").out
    assert clamped.err == "top-k 50: there are 12 tokens, so all are kept.\n"
    assert qkv("sample tiny --seed 7 --top-k 12 --json").err == ""


def test_every_name_begins_with_the_prefix(folder: Path):
    names = names_of("sample tiny --prefix bad")

    assert len(names) == 20
    assert all(name.startswith("bad") for name in names)


@pytest.mark.parametrize("taste", ["--temperature 0", "--top-k 1", "--top-p 1e-9"])
def test_always_the_likeliest_letter_gives_one_name(taste: str, folder: Path):
    names = names_of(f"sample tiny -n 6 {taste}")

    assert len(names) == 6
    assert len(set(names)) == 1
    assert names[:1] == names_of("sample tiny -n 1 --temperature 0")


def test_names_are_shown_to_a_person_with_what_json_has(folder: Path):
    names = qkv("sample tiny --seed 7 --json").json["names"]

    lines = qkv("sample tiny --seed 7").out.splitlines()[1:]

    for line, name in zip(lines, names, strict=True):
        shown, novelty, log_prob = line.split()
        assert shown.removesuffix("…") == name["name"]
        assert (novelty, log_prob) == (name["novelty"], f"{name['log_prob']:.2f}")


def test_attend_has_the_keys_that_others_rely_on(tiny: Path):
    result = qkv("attend tiny bada --json").json

    assert result.keys() >= {"run", "name", "tokens", "weights"}
    assert (result["run"], result["name"]) == (tiny.name, "bada")


@pytest.mark.parametrize(("wish", "tokens"), [("", [".", *"bada"]), ("--end", [".", *"bada", "."])])
def test_the_tokens_are_the_boundary_and_the_name_and_with_end_one_more(
    wish: str, tokens: list[str], folder: Path
):
    result = qkv(f"attend tiny bada {wish} --json").json

    T = len(tokens)
    weights = torch.tensor(result["weights"], dtype=torch.float64)
    assert result["tokens"] == tokens
    assert weights.shape == (1, 2, T, T)
    assert torch.allclose(weights.sum(-1), torch.ones(1, 2, T, dtype=torch.float64), atol=1e-6)
    assert weights.triu(1).count_nonzero() == 0


def test_a_later_letter_does_not_change_what_was_looked_at_before(folder: Path):
    short, long = (
        torch.tensor(qkv(f"attend tiny {name} --json").json["weights"]) for name in ("ba", "bada")
    )

    assert torch.allclose(short, long[:, :, :3, :3], atol=1e-6)


def test_one_head_is_shown_in_numbers(folder: Path):
    weights = qkv("attend tiny bada --json").json["weights"]

    told = qkv("attend tiny bada --layer 0 --head 1").out

    assert "layer 0, head 1" in told
    assert "layer 0, head 0" not in told
    last = [f"{weight:.2f}" for weight in weights[0][1][-1]]
    assert told.splitlines()[-1].split() == ["a", *last]


def test_without_a_head_all_of_a_layer_are_shown(folder: Path):
    told = qkv("attend tiny bada --layer 0").out

    assert [line for line in told.splitlines() if "layer" in line] == [
        "layer 0, head 0 (5×5)",
        "layer 0, head 1 (5×5)",
    ]


@pytest.mark.parametrize("wish", ["", "--layer 0 --head 1"])
def test_ascii_is_ascii(wish: str, folder: Path):
    told = qkv(f"attend tiny bada --ascii {wish}")

    assert told.exit_code == 0
    assert told.out.isascii()


@pytest.mark.parametrize(
    "command",
    [
        "attend tiny bada --layer 0 --head 1",
        "eval tiny",
        "sample tiny --seed 7",
        "watch tiny",
        "runs",
    ],
)
def test_a_pipe_without_utf_8_gets_the_same_numbers(command: str, folder: Path):
    told, usual = qkv(command, encoding="ascii"), qkv(command)

    assert told.exit_code == 0, told.err
    assert re.findall(r"\d[\d.]*", told.out) == re.findall(r"\d[\d.]*", usual.out)


def test_a_pipe_without_utf_8_gets_maps_in_ascii(folder: Path):
    told = qkv("attend tiny bada", encoding="ascii")

    assert told.out == qkv("attend tiny bada --ascii").out
    assert "?" not in told.out


def test_a_table_holds_every_weight(folder: Path, tmp_path: Path):
    file = tmp_path / "weights.tsv"
    weights = qkv("attend tiny bada --json").json["weights"]

    outcome = qkv(f"attend tiny bada --tsv {file}")

    assert (outcome.exit_code, outcome.out, outcome.err) == (0, "", f"Written: {file}\n")
    heading, *rows = [line.split("\t") for line in file.read_text("utf-8").splitlines()]
    assert heading[-1] == "weight"
    assert len(rows) == 1 * 2 * 5 * 5
    for layer, head, query, query_letter, key, key_letter, weight in rows:
        assert weights[int(layer)][int(head)][int(query)][int(key)] == float(weight)
        assert (query_letter, key_letter) == (".bada"[int(query)], ".bada"[int(key)])


def test_a_picture_is_an_svg_beside_the_json(folder: Path, tmp_path: Path):
    file = tmp_path / "weights.svg"

    outcome = qkv(f"attend tiny bada --svg {file} --json")

    assert outcome.json["tokens"] == [".", *"bada"]
    assert ElementTree.parse(file).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_the_baselines_come_in_the_order_of_what_they_know(folder: Path):
    corpus = load_corpus(DataConfig(path=str(folder / "names.txt")))

    rows = baseline_rows(corpus)

    assert [row.model for row in rows] == ["uniform", "unigram", "bigram"]
    assert rows[0].val_loss == rows[0].test_loss == pytest.approx(math.log(12))
    assert rows[0].val_loss > rows[1].val_loss > rows[2].val_loss
    assert {"val": rows[2].val_loss, "test": rows[2].test_loss} == status(
        find_run(folder / "qkv" / "runs", "tiny")
    )["bigram"]


@pytest.mark.slow
def test_compare_sets_a_run_beside_what_it_has_to_beat_and_trains_the_mlp_once(copied: Path):
    first = qkv(f"compare {copied.name} --json")
    runs = qkv("runs --json").json["runs"]
    second = qkv("compare --json")

    assert first.json == second.json
    assert "Training the book's MLP" in first.err
    assert "Training" not in second.err
    assert qkv("runs --json").json["runs"] == runs
    assert first.json.keys() >= {"split", "rows"}
    rows = first.json["rows"]
    mlp = next(run["run"] for run in runs if run["preset"] == "mlp")
    assert [row["model"] for row in rows] == [
        *("uniform", "unigram", "bigram"),
        f"MLP {mlp}",
        f"GPT {copied.name}",
    ]
    assert all(row.keys() >= {"model", "n_params", "val_loss", "test_loss"} for row in rows)
    for key in ("n_params", "val_loss", "test_loss"):
        assert rows[-1][key] == status(copied)[key]
    told = qkv("compare").out
    assert all(f"{row['val_loss']:.4f}" in told for row in rows)


def test_runs_has_the_keys_that_others_rely_on_the_newest_last(tiny: Path):
    rows = qkv("runs --json").json["runs"]

    assert all(row.keys() >= {"run", "state", "step", "val_loss", "preset"} for row in rows)
    assert [(row["run"].split("-")[2], row["state"], row["preset"]) for row in rows] == [
        ("tiny", "done", "fast"),
        ("other", "done", "fast"),
        ("small", "done", "mlp"),
        ("wild", "failed", "fast"),
        ("waiting", "queued", None),
    ]
    assert (rows[0]["run"], rows[0]["step"]) == (tiny.name, 30)
    assert rows[0]["val_loss"] == status(tiny)["val_loss"]


def test_runs_shows_the_same_to_a_person(tiny: Path):
    lines = qkv("runs").out.splitlines()

    assert len(lines) == 1 + 5
    assert lines[1].split()[:5] == [
        *(tiny.name, "done", "30/30", f"{status(tiny)['val_loss']:.4f}", "fast"),
    ]


def test_a_renamed_run_is_the_same_run(copied: Path):
    before = qkv("eval last --json").json

    renamed = qkv("rename last wide-2 --json").json

    assert renamed == {"run": copied.name.replace("-tiny-", "-wide-2-"), "was": copied.name}
    assert qkv("eval wide --json").json == before | {"run": renamed["run"]}
    assert [run["run"] for run in qkv("runs --json").json["runs"]] == [renamed["run"]]


def test_a_deleted_run_is_gone_and_the_others_stay(copied: Path):
    other = copied.with_name("20260101-000000-other-0000")
    shutil.copytree(copied, other)

    outcome = qkv(f"delete {copied.name} --yes --json")

    assert outcome.json == {"run": copied.name, "deleted": True}
    assert not copied.exists()
    assert content(other).keys() > {"config.json", "status.json", "checkpoints"}


@pytest.mark.parametrize(("answer", "exit_code", "is_there"), [("y", 0, False), ("n", 1, True)])
def test_deleting_asks_first_in_a_terminal(
    answer: str,
    exit_code: int,
    is_there: bool,
    copied: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(sys, "stdin", Keyboard(f"{answer}\n"))

    outcome = qkv("delete last")

    assert outcome.exit_code == exit_code
    assert f"Delete {copied.name}" in outcome.err
    assert copied.exists() == is_there


def test_a_run_that_is_being_trained_is_not_deleted(copied: Path):
    with holding(copied / "run.lock", "taken"):
        before = content(copied)
        outcome = qkv("delete last --yes")

    assert (outcome.exit_code, outcome.out) == (1, "")
    assert "stop it before deleting it" in outcome.err
    assert content(copied) == before


def test_an_empty_home_says_what_to_do(tmp_path: Path):
    with standing_in(tmp_path):
        outcome, as_json = qkv("runs"), qkv("runs --json")

    assert (outcome.exit_code, outcome.out) == (0, "")
    assert "`qkv train` makes one" in outcome.err
    assert as_json.json == {"runs": []}


def test_watching_two_runs_ends_with_done(folder: Path):
    events = qkv("watch tiny other tiny --json").objects

    assert [event["event"] for event in events if event["event"] != "metric"] == ["ended", "done"]
    n_lines = sum(
        (find_run(folder / "qkv" / "runs", name) / "metrics.jsonl").read_bytes().count(b"\n")
        for name in ("tiny", "other")
    )
    assert len(events) == n_lines + 2


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def without_weights(run: Path) -> None:
    for path in (run / "checkpoints").iterdir():
        path.unlink()


def with_cut_weights(run: Path) -> None:
    for path in (run / "checkpoints").iterdir():
        cut_short(path)


def stopped_with_another_alphabet(run: Path) -> None:
    (run / "vocabulary.json").write_text('[".", "a"]')
    (run / "status.json").write_text('{"state": "stopped"}')


DAMAGES: list[tuple[Damage, str, int, str]] = [
    (without_weights, "eval last", 3, "has no weights"),
    (without_weights, "sample last", 3, "has no weights"),
    (without_weights, "attend last bada", 3, "has no weights"),
    (with_cut_weights, "eval last", 3, "is damaged or missing"),
    (with_cut_weights, "sample last", 3, "is damaged or missing"),
    (lambda run: cut_short(run / "config.json"), "eval last", 3, "config.json is damaged"),
    (lambda run: cut_short(run / "config.json"), "compare last", 3, "config.json is damaged"),
    (lambda run: cut_short(run / "config.json"), "stop last", 1, "it is damaged"),
    (lambda run: cut_short(run / "status.json"), "resume last", 3, "status.json is damaged"),
    (stopped_with_another_alphabet, "resume last", 3, "its content has changed"),
    (lambda run: (run / "metrics.jsonl").unlink(), "watch last", 1, "metrics.jsonl"),
    (
        lambda run: (run.parents[2] / "names.txt").write_text("\n".join(syllable_names(2))),
        "eval last",
        3,
        "its content has changed",
    ),
    (lambda run: (run.parents[2] / "names.txt").unlink(), "eval last", 2, "is not there"),
]


@pytest.mark.parametrize(("damage", "command", "exit_code", "sentence"), DAMAGES)
def test_a_damaged_run_is_a_sentence_and_stays_as_it_is(
    damage: Damage, command: str, exit_code: int, sentence: str, copied: Path
):
    damage(copied)
    before = content(copied)

    outcome = qkv(command)

    assert (outcome.exit_code, outcome.out) == (exit_code, "")
    assert outcome.err.startswith("qkv: ")
    assert sentence in outcome.err
    assert content(copied) == before


def test_a_damaged_run_is_listed_beside_the_others(copied: Path):
    shutil.copytree(copied, copied.with_name("20260101-000000-broken-0000"))
    cut_short(copied / "config.json")

    rows = qkv("runs --json").json["runs"]

    assert {row["run"]: row["state"] for row in rows} == {
        copied.name: "damaged",
        "20260101-000000-broken-0000": "done",
    }
    assert "damaged" in qkv("runs").out


def test_where_the_newest_weights_are_cut_short_those_before_are_used(copied: Path):
    cut_short(weights_path(copied, checkpoint_steps(copied)[-1]))
    lines = map(json.loads, (copied / "metrics.jsonl").read_text().splitlines())
    before = next(line["loss"] for line in lines if (line["step"], line["split"]) == (20, "val"))

    assert qkv("eval last --json").json["loss"] == before


def test_without_its_names_a_run_draws_all_the_same_and_says_what_it_cannot_know(copied: Path):
    known = qkv("sample last --seed 7 --json").json["names"]
    (copied.parents[2] / "names.txt").unlink()

    outcome = qkv("sample last --seed 7 --json")

    assert [(name["name"], name["log_prob"]) for name in outcome.json["names"]] == [
        (name["name"], name["log_prob"]) for name in known
    ]
    assert {name["novelty"] for name in outcome.json["names"]} == {"unknown"}
    assert "is not known" in outcome.err
    assert "is not there" in outcome.err


HAS_CUDA, HAS_MPS = torch.cuda.is_available(), torch.backends.mps.is_available()

REFUSED = [
    ("train --data nosuch.txt", 2, "'{folder}/nosuch.txt' is not there."),
    ("train --data .", 2, "is a directory. Give a text file"),
    ("train --data table.txt", 3, "line 2 'ben,7' (looks like a table"),
    ("train --data boundary.txt", 3, "line 2 'st.john' (holds '.', which marks"),
    ("train --data latin1.txt", 3, "byte 0xE9 is not UTF-8"),
    ("train --data latin1.txt", 3, "iconv -f latin1 -t utf-8"),
    ("train --data utf16.txt", 3, "iconv -f utf-16 -t utf-8"),
    ("train --data blank.txt", 3, "holds no names. Give a text file with one name a line."),
    ("train --data few.txt", 3, "too few distinct names"),
    (
        "train --data names.txt --set model.n_heads=6",
        2,
        "Head counts that fit: 1, 2, 4, 8, 16, 32, 64.",
    ),
    ("train --data names.txt --set model.block_size=5", 2, "block_size is 5"),
    ("train --data names.txt --set model.block_size=5", 2, "Use --set model.block_size=9"),
    ("train --data names.txt --set train.row_length=5", 2, "row_length=9"),
    ("train --set model.d_modle=16", 2, "Did you mean 'model.d_model'?"),
    ("train --set train.n_steps", 2, "has no '='"),
    ("train --set train.n_steps=many", 2, "it must be a whole number"),
    ("train --data names.txt --set train.n_steps=0", 2, "n_steps must be at least 1, got 0"),
    ("train --set train.learning_rate=-1", 2, "learning_rate must be a positive number"),
    (
        "train --data names.txt --set model.d_model=65536 --set model.n_layers=1000",
        2,
        "this machine has",
    ),
    ("train --set data.split=bok", 2, "Did you mean 'book'?"),
    ("train --preset fats", 2, "Did you mean 'fast'?"),
    ("train --config nosuch.toml", 2, "--config nosuch.toml can't be read"),
    ("train --config key.toml", 3, "key.toml: [model] has no 'd_modle'. Did you mean 'd_model'?"),
    ("train --config names.txt", 3, "is neither TOML nor a run's config.json"),
    ("train --data names.txt --seed -1", 2, "seed is -1"),
    ("train --data names.txt --threads 0", 2, "threads must be at least 1, got 0"),
    ("train --data names.txt --device gpu", 2, "it can be auto, cpu, cuda, mps"),
    ("train --data names.txt --name 'My run'", 2, "'My run' can't be a run's name"),
    ("resume nosuch", 2, "no run fits 'nosuch'. The newest are "),
    ("resume wild --device gpu", 2, "it can be auto, cpu, cuda, mps"),
    ("resume wild --threads 0", 2, "threads must be at least 1, got 0"),
    ("eval nosuch", 2, "`qkv runs` lists all"),
    ("eval ''", 2, "no run fits ''"),
    ("eval 20", 2, "'20' fits 5 runs: "),
    ("eval waiting", 3, "has no weights"),
    ("eval tiny --split vall", 2, "Did you mean 'val'?"),
    ("eval tiny --threads 0", 2, "threads must be at least 1, got 0"),
    ("sample tiny --temperature -1", 2, "temperature is -1.0; it must be 0"),
    ("sample tiny --temperature nan", 2, "temperature is nan"),
    ("sample tiny --top-k 0", 2, "top-k is 0; at least 1 letter"),
    ("sample tiny --top-p 0", 2, "top-p is 0.0; it must be above 0"),
    ("sample tiny --top-p 1.5", 2, "top-p is 1.5; it must be above 0 and at most 1"),
    ("sample tiny --prefix bxd", 2, "'bxd' has 'x' as letter 2; the letters known are '{letters}'"),
    ("sample tiny --prefix Ba", 2, "Write it in lower case: 'ba'."),
    ("sample tiny --prefix ba.", 2, "has '.' as letter 3"),
    ("sample tiny --prefix badabadab", 2, "has 9 letters, but this model can go on from 8"),
    ("sample tiny --seed 4294967296", 2, "from 0 to 4294967295"),
    ("sample tiny --device gpu", 2, "it can be auto, cpu, cuda, mps"),
    ("attend tiny bxd", 2, "has 'x' as letter 2"),
    ("attend tiny badabadab", 2, "9 letters, but this model can go on from 8"),
    ("attend tiny bada --layer 1", 2, "layer is 1; this model has layers 0 to 0."),
    ("attend tiny bada --layer -1", 2, "layer is -1; this model has layers 0 to 0."),
    ("attend tiny bada --head 2", 2, "head is 2; this model has heads 0 to 1."),
    ("attend tiny bada --head 2 --tsv new.tsv", 2, "head is 2"),
    ("attend tiny bada --tsv nosuch/a.tsv", 2, "nosuch/a.tsv can't be written: No such file"),
    ("attend tiny bada --svg .", 2, "Is a directory."),
    ("attend small bada", 2, "is an MLP: it has no attention to look at."),
    ("compare tiny nosuch", 2, "no run fits 'nosuch'"),
    ("compare tiny other", 2, "were trained on different names or splits"),
    ("stop tiny", 1, "is not running: it is done."),
    ("stop wild", 1, "is not running: it is failed."),
    ("stop waiting", 1, "is not running: it is queued."),
    ("rename nosuch wide", 2, "no run fits 'nosuch'"),
    ("rename tiny 'My run'", 2, "'My run' can't be a run's name"),
    ("delete nosuch --yes", 2, "no run fits 'nosuch'"),
    ("delete tiny", 2, "give --yes to delete it unasked"),
    ("watch nosuch", 2, "no run fits 'nosuch'"),
    ("watch tiny nosuch", 2, "no run fits 'nosuch'"),
]


@pytest.mark.parametrize(
    ("command", "exit_code", "sentence"),
    [
        *REFUSED,
        pytest.param(
            "train --data names.txt --device cuda",
            *(2, "device is 'cuda', but torch finds none here; it can use "),
            marks=pytest.mark.skipif(HAS_CUDA, reason="there is a CUDA device"),
        ),
        pytest.param(
            "sample tiny --device mps",
            *(2, "device is 'mps', but torch finds none here; it can use "),
            marks=pytest.mark.skipif(HAS_MPS, reason="there is an MPS device"),
        ),
    ],
)
def test_what_cannot_be_is_a_sentence_and_changes_nothing(
    command: str, exit_code: int, sentence: str, folder: Path
):
    before = content(folder)

    outcome = qkv(f"{command} --json")

    assert (outcome.exit_code, outcome.out) == (exit_code, ""), outcome.err
    assert outcome.err.startswith("qkv: ")
    assert outcome.err.count("\n") == 1
    assert sentence.format(folder=folder, letters=LETTERS) in outcome.err
    assert content(folder) == before


def test_where_there_is_no_run_each_command_says_how_to_make_one(tmp_path: Path):
    with standing_in(tmp_path):
        for command in ("resume", "eval", "sample", "attend", "watch", "stop", "compare"):
            outcome = qkv(f"{command} last" + (" bada" if command == "attend" else ""))

            assert (outcome.exit_code, outcome.out) == (2, ""), command
            assert "`qkv train` makes one" in outcome.err


def start(line: str, stderr: int | None = None) -> "subprocess.Popen[bytes]":
    """Run a command as a program of its own."""
    unwanted = ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
    environment = {key: value for key, value in os.environ.items() if key not in unwanted}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "tui", *shlex.split(line)],
        env=environment
        | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        | {"TERM": "xterm-256color", "COLUMNS": "120"},
        bufsize=0,  # what is read line by line and what communicate() reads is all of it
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
    )


def next_event(child: "subprocess.Popen[bytes]") -> dict[str, Any]:
    assert child.stdout is not None
    return strict(child.stdout.readline().decode())


def rest_of(child: "subprocess.Popen[bytes]") -> list[dict[str, Any]]:
    """Wait for the end and return what was printed until then."""
    out, _ = child.communicate(timeout=PATIENCE_S)
    return [strict(line) for line in out.decode().splitlines()]


def go_on_once_asked_to_stop(run: Path, trainer: "subprocess.Popen[bytes]") -> threading.Thread:
    """Let a halted trainer go on as soon as its stop file is there."""

    def wait_and_go_on() -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not (run / "stop").exists() and time.monotonic() < deadline:
            time.sleep(0.005)
        trainer.send_signal(signal.SIGCONT)

    waiting = threading.Thread(target=wait_and_go_on)
    waiting.start()
    return waiting


def test_a_living_run_is_watched_stopped_and_resumed_as_if_it_had_not_been(
    folder: Path, tmp_path: Path
):
    length = "--set train.n_steps=200 --set train.eval_interval=20"
    line = f"train --data {folder / 'names.txt'} {TINY} {length} --json"
    with standing_in(tmp_path):
        trainer = start(line)
        try:
            events = [next_event(trainer) for _ in range(3)]
            trainer.send_signal(signal.SIGSTOP)  # so that it can't be done too early
            assert [event["event"] for event in events] == ["started", "evaluation", "evaluation"]
            run = find_run(tmp_path / "qkv" / "runs", events[0]["run"])
            assert read_run(run).state == "running"
            watcher = start("watch last --json")
            try:
                seen = next_event(watcher)
                going_on = go_on_once_asked_to_stop(run, trainer)
                stopped = qkv("stop last --json")
                going_on.join()
                watched = rest_of(watcher)
            finally:
                watcher.kill()
                watcher.wait()
            told = rest_of(trainer)
        finally:
            trainer.kill()
            trainer.wait()

        assert (seen["event"], seen["run"], seen["step"]) == ("metric", run.name, 0)
        assert stopped.json == {"run": run.name, "state": "stopped", "step": read_run(run).step}
        assert f"{run.name}: asked to stop." in stopped.err
        assert (told[-1]["event"], told[-1]["step"]) == ("stopped", read_run(run).step)
        assert trainer.returncode == 130
        assert watcher.returncode == 0
        assert watched[-1] == {"event": "done", "run": run.name, "state": "stopped"}
        lines = (run / "metrics.jsonl").read_bytes().splitlines()
        assert len(watched) == len(lines)  # one less, for what was seen, and one more, for the end

        resumed = qkv("resume last --json")
        uninterrupted = qkv(line)

    assert 20 <= resumed.objects[0]["step"] == stopped.json["step"] < 200
    for key in ("n_steps", "train_loss", "val_loss", "test_loss", "names"):
        assert resumed.objects[-1][key] == uninterrupted.objects[-1][key]


def read_until(terminal: int, pattern: str) -> str:
    """Read from a terminal until what it shows matches, not for ever."""
    text, deadline = "", time.monotonic() + PATIENCE_S
    while not re.search(pattern, ESCAPES.sub("", text)):
        assert select.select([terminal], [], [], max(0, deadline - time.monotonic()))[0], text
        text += os.read(terminal, 65536).decode(errors="replace")
    return ESCAPES.sub("", text)


def test_ctrl_c_in_a_terminal_saves_and_says_how_to_go_on(folder: Path, tmp_path: Path):
    terminal, end = os.openpty()
    with standing_in(tmp_path):
        line = f"train --data {folder / 'names.txt'} {TINY} --set train.n_steps=50_000"
        trainer = start(line, stderr=end)
        os.close(end)
        try:
            read_until(terminal, r"\d% .* letters/s \d+:\d\d(:\d\d)? left")
            trainer.send_signal(signal.SIGINT)
            told = read_until(terminal, r"qkv resume \S+\s")
            out, _ = trainer.communicate(timeout=PATIENCE_S)
        finally:
            trainer.kill()
            trainer.wait()
            os.close(terminal)
        run = read_run(find_run(tmp_path / "qkv" / "runs", "last"))

    assert (trainer.returncode, out) == (130, b"")
    assert run.state == "stopped"
    assert run.step > 0
    assert (
        f"Stopped and saved at step {run.step} of 50000. Go on with: qkv resume {run.name}" in told
    )


def test_a_perplexity_beyond_a_float_is_null(tmp_path: Path, folder: Path):
    with standing_in(tmp_path):
        rate = "--set train.learning_rate=30 --set train.schedule=constant"
        qkv(f"train --data {folder / 'names.txt'} {SHORT} {rate}")
        result = qkv("eval last --json").json

    assert result["loss"] > 710
    assert result["perplexity"] is None


def test_the_end_mark_of_a_name_that_fills_the_model_is_a_sentence(tmp_path: Path, folder: Path):
    with standing_in(tmp_path):
        qkv(f"train --data {folder / 'names.txt'} {SHORT} --set model.block_size=9")
        outcome = qkv("attend last badabada --end")

    assert (outcome.exit_code, outcome.out) == (2, "")


def test_a_done_run_without_its_results_is_a_sentence(copied: Path):
    (copied / "status.json").write_text('{"state": "done"}')

    assert qkv("resume last").exit_code == 3


def test_a_done_run_without_weights_is_not_told_to_resume(copied: Path):
    without_weights(copied)

    assert "qkv resume" not in qkv("resume last").err


def test_repeated_names_are_told(tmp_path: Path):
    names = tmp_path / "names.txt"
    names.write_text("\n".join(syllable_names(1) * 2))
    with standing_in(tmp_path):
        err = qkv(f"train --data {names} {SHORT}").err
    assert "200" in err
    assert "repeat" in err


def test_a_name_too_long_to_read_is_not_called_a_prompt(folder: Path):
    assert "prompt" not in qkv("attend tiny badabadab").err


def test_a_damaged_line_of_metrics_is_passed_over(copied: Path):
    with (copied / "metrics.jsonl").open("a") as file:
        file.write("nonsense\n")

    outcome = qkv("watch last --json")

    assert outcome.exit_code == 0
    assert "nonsense" not in outcome.out


def test_older_weights_are_not_taken_without_a_word(copied: Path):
    newest = max((copied / "checkpoints").glob("step-*[0-9].safetensors"))
    newest.write_bytes(newest.read_bytes()[:1000])

    for command in ("eval last", "sample last", "attend last bada"):
        outcome = qkv(command)
        assert outcome.exit_code == 0
        assert "are damaged; those of" in outcome.err


def test_weights_that_are_no_numbers_are_damage(copied: Path):
    for path in (copied / "checkpoints").glob("step-*[0-9].safetensors"):
        with safe_open(path, framework="pt") as file:
            metadata, names = file.metadata(), list(file.keys())
            tensors = {name: file.get_tensor(name) * float("nan") for name in names}
        save_file(tensors, path, metadata)

    outcome = qkv("eval last --json")

    assert (outcome.exit_code, outcome.out) == (3, "")
    assert "holds what is no number" in outcome.err


def test_a_config_that_was_edited_is_not_taken_for_the_model(copied: Path):
    config = json.loads((copied / "config.json").read_text())
    config["model"]["n_heads"] = 1
    (copied / "config.json").write_text(json.dumps(config))
    (copied / "status.json").write_text('{"state": "stopped"}')

    outcome = qkv("resume last")

    assert outcome.exit_code == 3
    assert "describes another model" in outcome.err
