import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from core.checkpoint import (
    Header,
    build,
    latest_resumable,
    load_model,
    load_state,
    load_weights,
    open_weights,
    read_weights,
    save_checkpoint,
)
from core.checkpoint_files import checkpoint_steps, state_path, tidy, weights_path
from core.config import AnyModelConfig, MLPConfig, ModelConfig
from core.files import replace_file
from data.errors import DataError
from data.vocabulary import Vocabulary

CPU = torch.device("cpu")
TINY = ModelConfig(vocab_size=4, block_size=6, d_model=8, n_heads=2, n_layers=1)
HEADER = Header(
    model=TINY, layout="packed", row_length=6, vocabulary=Vocabulary((".", "a", "b", "c"))
)
ODD_NUMBERS = torch.tensor([float("nan"), float("inf"), -0.0, 1e-45, 0.1])


def weights_of(step: int, config: AnyModelConfig = TINY) -> torch.nn.Module:
    """Return a model whose weights the step decides."""
    model = build(config)
    generator = torch.Generator().manual_seed(step)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(generator=generator)
    return model


def saved(run: Path, *steps: int, header: Header = HEADER) -> Path:
    """Save checkpoints of these steps into a run."""
    (run / "checkpoints").mkdir(exist_ok=True)
    for step in steps:
        tensors = {"optimizer.counts.0": torch.tensor(float(step)), "odd": ODD_NUMBERS}
        model = weights_of(step, header.model)
        save_checkpoint(run, model, replace(header, step=step), tensors, {"step": step})
    return run


def cut_short(path: Path, n_bytes: int) -> None:
    """Keep only the beginning of a file."""
    path.write_bytes(path.read_bytes()[:n_bytes])


def rewritten(path: Path, **metadata: Any) -> None:
    """Change fields of a weights file's header; None takes one away."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        found: dict[str, str] = file.metadata()
    for name, value in metadata.items():
        found[name] = json.dumps(value)
    save_file(tensors, path, {name: text for name, text in found.items() if text != "null"})


def refusal(path: Path) -> str:
    """Return the sentence with which a weights file is refused; it names the file."""
    with pytest.raises(DataError) as caught:
        open_weights(path, CPU)
    assert str(path) in str(caught.value)
    assert caught.value.exit_code == 3
    return str(caught.value)


def bits(tensors: dict[str, Tensor]) -> dict[str, tuple[torch.dtype, tuple[int, ...], bytes]]:
    """Return what tensors hold, so that equal means equal to the bit."""
    return {
        name: (value.dtype, tuple(value.shape), value.detach().contiguous().numpy().tobytes())
        for name, value in tensors.items()
    }


def content(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(
    "config",
    [
        TINY,
        replace(TINY, tied_head=True, qkv_bias=True),
        replace(TINY, positions="sinusoidal"),
        MLPConfig(vocab_size=4, block_size=3, d_embedding=2, d_hidden=5),
    ],
    ids=["gpt", "tied", "sinusoidal", "mlp"],
)
def test_weights_and_header_come_back_to_the_bit(config: AnyModelConfig, tmp_path: Path):
    header = replace(HEADER, model=config)

    trained = load_model(saved(tmp_path, 3, header=header), CPU, step=3)

    assert trained.header == replace(header, step=3)
    before, after = weights_of(3, config).state_dict(), trained.model.state_dict()
    assert bits(before) == bits(after)
    assert not trained.model.training


def test_a_training_state_comes_back_to_the_bit(tmp_path: Path):
    (tmp_path / "checkpoints").mkdir()
    tensors = {
        "odd": ODD_NUMBERS,
        "scalar": torch.tensor(7.0),
        "generator.order": torch.Generator().manual_seed(5).get_state(),
        "long": torch.tensor([[2**62, -1]]),
        "slice": torch.arange(12.0).view(3, 4).T,
    }
    numbers = {"step": 3, "elapsed_s": 0.1 + 0.2, "cpu_s": 1e-300}

    save_checkpoint(tmp_path, weights_of(3), replace(HEADER, step=3), tensors, numbers)
    found, found_numbers = load_state(tmp_path, 3)

    assert bits(found) == bits(tensors)
    assert found_numbers == numbers


@pytest.mark.parametrize(
    "letters", ["éß", "'- ", 'a"\\\n', "αβ", "สม", "🏽\u200d🚀", "\U0010ffff\u2028"]
)
def test_a_header_survives_odd_alphabets(letters: str, tmp_path: Path):
    vocabulary = Vocabulary((".", *letters))
    model = replace(TINY, vocab_size=len(vocabulary))
    header = replace(HEADER, model=model, vocabulary=vocabulary)

    found, _ = read_weights(weights_path(saved(tmp_path, 1, header=header), 1))

    assert found.vocabulary.characters == (".", *letters)
    assert found == replace(header, step=1)


def test_a_header_is_text_by_name():
    metadata = HEADER.to_metadata()

    assert json.loads(metadata["format"]) == 1
    assert json.loads(metadata["kind"]) == "gpt"
    assert json.loads(metadata["vocabulary"]) == [".", "a", "b", "c"]
    assert all(isinstance(text, str) for text in metadata.values())


def test_a_tied_head_is_stored_once(tmp_path: Path):
    tied = replace(TINY, tied_head=True)
    (tmp_path / "tied").mkdir()
    (tmp_path / "untied").mkdir()

    one = weights_path(saved(tmp_path / "tied", 1, header=replace(HEADER, model=tied)), 1)
    two = weights_path(saved(tmp_path / "untied", 1), 1)

    names, others = read_weights(one)[1].keys(), read_weights(two)[1].keys()
    assert others - names == {"head.weight"}
    assert names < others
    model = open_weights(one, CPU).model
    assert model.get_parameter("head.weight") is model.get_parameter("token_embedding.weight")


def test_the_steps_on_disk_are_listed_in_order(tmp_path: Path):
    saved(tmp_path, 20, 0, 100, 1_000_000, 3)
    for stray in (".step-000007.safetensors", "step-x.safetensors", "step-000009.safetensors.tmp"):
        (tmp_path / "checkpoints" / stray).touch()

    assert checkpoint_steps(tmp_path) == [0, 3, 20, 100, 1_000_000]
    assert latest_resumable(tmp_path) == 1_000_000


def test_a_run_without_checkpoints_cannot_be_resumed(tmp_path: Path):
    assert latest_resumable(tmp_path) is None
    assert checkpoint_steps(tmp_path) == []
    with pytest.raises(DataError) as caught:
        load_model(tmp_path, CPU)
    assert str(caught.value) == (
        f"{tmp_path.name} has no weights. If it is being trained, wait for its first checkpoint; "
        "otherwise train anew."
    )


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.99])
@pytest.mark.parametrize("which", [weights_path, state_path])
def test_a_checkpoint_cut_short_is_passed_over_for_the_one_before(
    which: Any, share: float, tmp_path: Path
):
    saved(tmp_path, 5, 10)
    path: Path = which(tmp_path, 10)
    assert latest_resumable(tmp_path) == 10

    cut_short(path, int(share * path.stat().st_size))

    assert latest_resumable(tmp_path) == 5
    newest = load_model(tmp_path, CPU).header.step
    assert newest == (5 if which is weights_path else 10)


def test_one_byte_too_few_is_too_few(tmp_path: Path):
    saved(tmp_path, 5, 10)
    for which in (weights_path, state_path):
        path = which(tmp_path, 10)
        whole = path.read_bytes()

        path.write_bytes(whole[:-1])
        assert latest_resumable(tmp_path) == 5

        path.write_bytes(whole)
        assert latest_resumable(tmp_path) == 10


@pytest.mark.parametrize("which", [weights_path, state_path])
def test_a_checkpoint_of_which_half_is_missing_is_passed_over(which: Any, tmp_path: Path):
    saved(tmp_path, 5, 10)

    which(tmp_path, 10).unlink()

    assert latest_resumable(tmp_path) == 5


@pytest.mark.parametrize("which", [weights_path, state_path])
def test_a_checkpoint_whose_halves_name_different_steps_is_passed_over(which: Any, tmp_path: Path):
    saved(tmp_path, 5, 10)

    which(tmp_path, 10).write_bytes(which(tmp_path, 5).read_bytes())

    assert latest_resumable(tmp_path) == 5


def test_where_every_checkpoint_is_damaged_none_is_resumable(tmp_path: Path):
    saved(tmp_path, 5, 10)
    for step in (5, 10):
        cut_short(weights_path(tmp_path, step), 100)

    assert latest_resumable(tmp_path) is None
    with pytest.raises(DataError, match=r"step-000005\.safetensors is damaged or missing"):
        load_model(tmp_path, CPU)


@pytest.mark.parametrize("content", [b"", b"x", b"\xff" * 100, b"\x00" * 100, b"{}" * 50])
def test_a_file_that_is_no_weights_file_is_a_sentence(content: bytes, tmp_path: Path):
    path = tmp_path / "some.safetensors"
    path.write_bytes(content)

    assert f"{path} is damaged or missing: " in refusal(path)


def test_weights_that_are_missing_or_a_directory_are_a_sentence(tmp_path: Path):
    assert "is damaged or missing: " in refusal(tmp_path / "gone.safetensors")
    assert "is damaged or missing: " in refusal(tmp_path)


def test_a_training_state_without_numbers_is_a_sentence(tmp_path: Path):
    saved(tmp_path, 5)
    save_file({"odd": ODD_NUMBERS}, state_path(tmp_path, 5))

    with pytest.raises(DataError, match=r"step-000005\.state\.safetensors is no training state"):
        load_state(tmp_path, 5)
    assert latest_resumable(tmp_path) is None


def test_a_newer_format_asks_for_an_update(tmp_path: Path):
    path = weights_path(saved(tmp_path, 5), 5)
    rewritten(path, format=2)

    assert refusal(path) == (
        f"{path} was written by a newer qkv (format 2; this one reads up to 1). Update qkv."
    )


FIELDS = ["format", "kind", "model", "layout", "row_length", "vocabulary", "step"]


@pytest.mark.parametrize("field", FIELDS)
def test_a_header_with_a_field_missing_is_a_sentence(field: str, tmp_path: Path):
    path = weights_path(saved(tmp_path, 5), 5)
    rewritten(path, **{field: None})

    assert f"{path} is no weights file of ours: KeyError('{field}')." in refusal(path)


@pytest.mark.parametrize(
    "metadata",
    [
        {"format": "one"},
        {"kind": "rnn"},
        {"kind": ["gpt"]},
        {"model": ["d_model"]},
        {"model": {"n_experts": 8}},
        {"model": {"d_model": 64, "n_heads": 5}},
        {"model": {"d_model": "wide"}},
        {"vocabulary": 5},
    ],
    ids=str,
)
def test_a_header_that_cannot_be_is_a_sentence(metadata: dict[str, Any], tmp_path: Path):
    path = weights_path(saved(tmp_path, 5), 5)
    rewritten(path, **metadata)

    assert f"{path} is no weights file of ours: " in refusal(path)


def test_a_weights_file_of_somebody_else_is_a_sentence(tmp_path: Path):
    path = tmp_path / "theirs.safetensors"
    save_file({"weight": ODD_NUMBERS}, path)
    assert "is no weights file of ours" in refusal(path)

    save_file({"weight": ODD_NUMBERS}, path, {"format": "pt"})
    assert "is no weights file of ours" in refusal(path)


def test_tensors_of_other_names_are_a_sentence(tmp_path: Path):
    path = weights_path(saved(tmp_path, 5), 5)
    _, tensors = read_weights(path)
    metadata = replace(HEADER, step=5).to_metadata()

    extra = tensors | {"aaa": ODD_NUMBERS}
    missing = {name: value for name, value in tensors.items() if name != "ln_f.bias"}
    for odd, changed in (("aaa", extra), ("ln_f.bias", missing)):
        save_file(changed, path, metadata)
        assert refusal(path) == (
            f"{path} does not fit the model it describes: {odd} is on one side only."
        )


def test_tensors_of_other_shapes_are_a_sentence(tmp_path: Path):
    path = weights_path(saved(tmp_path, 5), 5)
    _, tensors = read_weights(path)

    save_file(tensors | {"head.bias": torch.zeros(1)}, path, replace(HEADER, step=5).to_metadata())

    assert refusal(path) == f"{path} has head.bias of shape (1,), but its model needs (4,)."


def test_weights_are_copied_into_the_model_they_are_given(tmp_path: Path):
    path = weights_path(saved(tmp_path, 5), 5)
    model = weights_of(6)
    first = next(model.parameters())

    load_weights(model, read_weights(path)[1], path)

    assert next(model.parameters()) is first
    assert bits(model.state_dict()) == bits(weights_of(5).state_dict())


def test_tidying_keeps_the_weights_of_evaluations_and_the_last_two_states(tmp_path: Path):
    saved(tmp_path, 0, 3, 10, 13, 17, 20, 24)

    tidy(tmp_path, {0, 10, 20, 30}.__contains__)

    found = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert found == {
        "step-000000.safetensors",
        "step-000010.safetensors",
        "step-000020.safetensors",
        "step-000020.state.safetensors",
        "step-000024.safetensors",
        "step-000024.state.safetensors",
    }
    assert latest_resumable(tmp_path) == 24


def test_tidying_keeps_the_last_two_even_where_none_was_evaluated(tmp_path: Path):
    saved(tmp_path, 3, 5, 7)

    tidy(tmp_path, set[int]().__contains__)

    assert checkpoint_steps(tmp_path) == [5, 7]
    cut_short(weights_path(tmp_path, 7), 10)
    assert latest_resumable(tmp_path) == 5


def fail_at(monkeypatch: pytest.MonkeyPatch, n_moves: int) -> None:
    """Let the disk be full when the file after this many is moved to its place."""
    left = [n_moves]
    move = os.replace

    def moved(source: Path, target: Path) -> None:
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        left[0] -= 1
        move(source, target)

    monkeypatch.setattr(os, "replace", moved)


@pytest.mark.parametrize("n_moves", [0, 1])
def test_a_full_disk_leaves_the_checkpoints_before_whole(
    n_moves: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    before = content(saved(tmp_path, 5))
    fail_at(monkeypatch, n_moves)

    with pytest.raises(OSError, match="No space left on device"):
        saved(tmp_path, 10)

    after = content(tmp_path)
    assert {name: after.get(name) for name in before} == before
    assert not [name for name in after if "/." in name]
    assert latest_resumable(tmp_path) == 5


@pytest.mark.parametrize("n_moves", [0, 1])
def test_a_full_disk_leaves_the_same_step_whole(
    n_moves: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    weights = content(saved(tmp_path, 5))["checkpoints/step-000005.safetensors"]
    fail_at(monkeypatch, n_moves)

    with pytest.raises(OSError, match="No space left on device"):
        saved(tmp_path, 5)

    assert content(tmp_path)["checkpoints/step-000005.safetensors"] == weights
    assert latest_resumable(tmp_path) == 5


def test_weights_come_last_so_that_none_stand_without_their_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    saved(tmp_path, 5)
    fail_at(monkeypatch, 1)

    with pytest.raises(OSError, match="No space left on device"):
        saved(tmp_path, 10)

    assert checkpoint_steps(tmp_path) == [5]
    assert load_state(tmp_path, 10)[1] == {"step": 10}


def test_a_checkpoint_without_a_directory_to_be_in_fails_and_writes_nothing(tmp_path: Path):
    (tmp_path / "checkpoints").write_text("a file")

    with pytest.raises(OSError, match="Not a directory"):
        save_checkpoint(tmp_path, weights_of(1), HEADER, {}, {"step": 0})

    assert content(tmp_path) == {"checkpoints": b"a file"}


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "status.json"
    replace_file(path, b"first")
    replace_file(path, b"second, and longer")
    assert content(tmp_path) == {"status.json": b"second, and longer"}

    fail_at(monkeypatch, 0)
    with pytest.raises(OSError, match="No space left on device"):
        replace_file(path, b"third")

    assert content(tmp_path) == {"status.json": b"second, and longer"}
