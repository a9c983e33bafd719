import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from core.attention import causal
from core.config import ModelConfig, TrainConfig
from core.corpus import load_corpus
from core.evaluation import evaluate
from core.interpret import previous_letter, read, silence, value_shares
from core.nearest import Nearest, Neighbour
from core.preparing import fit_plan, prepare_run
from core.presets import DataConfig
from core.recording import work
from core.sampling import Taste
from core.settings import Plan
from core.using import OpenRun, open_run

MODEL = ModelConfig(d_model=16, n_heads=2, n_layers=2, block_size=12, dropout=0.1)
TRAIN = TrainConfig(n_steps=60, n_epochs=None, batch_size=16, eval_interval=20, warmup_steps=5)


@pytest.fixture(scope="module", params=["packed", "window"])
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> OpenRun:
    """Train a tiny model on names of one to four syllables."""
    luck, names = random.Random(1), set[str]()
    while len(names) < 200:
        n_syllables = luck.randint(1, 4)
        names.add("".join(luck.choice("bdklmr") + luck.choice("aeiou") for _ in range(n_syllables)))
    root = tmp_path_factory.mktemp("interpret")
    file = root / "names.txt"
    file.write_text("".join(f"{name}\n" for name in sorted(names)))
    train = replace(TRAIN, layout=request.param)
    plan = Plan(model=MODEL, train=train, data=DataConfig(path=str(file)), seed=3)
    corpus = load_corpus(plan.data)
    run: Path = prepare_run(root / "runs", fit_plan(plan, corpus), corpus, device="cpu")
    for _ in work(run):
        pass
    return open_run(run)


def distance(one: str, other: str) -> int:
    """Compute the distance by its definition."""
    if not one or not other:
        return len(one) + len(other)
    return min(
        distance(one[1:], other[1:]) + (one[0] != other[0]),
        distance(one[1:], other) + 1,
        distance(one, other[1:]) + 1,
    )


def test_the_nearest_name_is_found_as_by_the_definition():
    luck = random.Random(4)
    names = ["".join(luck.choices("abc", k=luck.randint(1, 5))) for _ in range(40)]
    nearest = Nearest(names)

    for _ in range(60):
        name = "".join(luck.choices("abcd", k=luck.randint(0, 5)))
        least = min(distance(name, other) for other in names)
        first = min(other for other in names if distance(name, other) == least)
        assert nearest.find(name) == Neighbour(first, least)


def test_a_name_of_the_list_is_nearest_to_itself():
    assert Nearest(["mar", "marla", "marl"]).find("marl") == Neighbour("marl", 0)


def test_nothing_is_nearest_in_an_empty_list():
    with pytest.raises(ValueError, match="empty"):
        Nearest([]).find("ann")


def test_shares_of_what_a_head_adds_weigh_by_the_size_of_the_value():
    weights = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    v = torch.tensor([[3.0, 4.0], [0.0, 15.0]])  # lengths 5 and 15

    shares = value_shares(weights, v)

    torch.testing.assert_close(shares, torch.tensor([[1.0, 0.0], [0.25, 0.75]]))


def test_a_head_that_looks_everywhere_alike_is_at_chance():
    weights = causal(6).float()
    weights = weights / weights.sum(dim=-1, keepdim=True)

    habit = previous_letter(weights, 4)

    assert habit.score == pytest.approx(habit.chance)
    assert habit.chance == pytest.approx((1 / 3 + 1 / 4 + 1 / 5 + 1 / 6) / 4)


def test_a_head_that_looks_at_the_letter_before_scores_one():
    weights = torch.zeros(4, 4)
    weights[0, 0] = weights[1, 0] = weights[2, 1] = weights[3, 2] = 1.0

    assert previous_letter(weights, 3).score == 1.0
    assert math.isnan(previous_letter(weights[:1, :1], 0).score)


def test_the_arithmetic_of_a_cell_leads_to_its_weight(opened: OpenRun):
    reading = read(opened, "dalo")
    last = len(reading.tokens) - 1

    cells = [reading.cell(1, 1, last, key) for key in range(last + 1)]

    for cell in cells:
        assert cell.score == pytest.approx(cell.dot / math.sqrt(cell.d_head), abs=1e-5)
        total = sum(math.exp(other.score) for other in cells)
        assert cell.weight == pytest.approx(math.exp(cell.score) / total, abs=1e-5)
        assert cell.n_visible == last + 1
    assert sum(cell.share for cell in cells) == pytest.approx(1, abs=1e-5)


def test_silencing_a_head_leaves_its_weights_and_changes_later_layers(opened: OpenRun):
    whole, silent = read(opened, "dalo"), read(opened, "dalo", silent=(0, 1))

    assert silent.weights[0] == whole.weights[0]
    assert silent.weights[1] != whole.weights[1]


def test_the_cost_of_a_head_is_measured_against_the_whole_model(opened: OpenRun):
    cost = silence(opened, 0, 1, n_names=10)

    rows = opened.rows("val", 10)
    assert cost.loss == evaluate(opened.trained.model, rows).loss
    assert cost.loss_without != cost.loss
    assert cost.n_names == 10
    assert silence(opened, 0, 1, n_names=1000).n_names == len(opened.corpus.splits.val)


@pytest.mark.parametrize("taste", [Taste(), Taste(temperature=0.7, top_k=5), Taste(top_p=0.8)])
def test_going_through_a_name_again_gives_its_log_probability(opened: OpenRun, taste: Taste):
    drawn = opened.sample(
        30, seed=2, temperature=taste.temperature, top_k=taste.top_k, top_p=taste.top_p
    )

    for name in drawn.names:
        letters = opened.retrace(name.name, taste, is_finished=name.is_finished)
        assert len(letters) == len(name.name) + name.is_finished
        own = [letter.chances[1] for letter in letters]
        assert sum(map(math.log, own)) == pytest.approx(name.log_prob, abs=1e-4)
        assert all(letter.chances[0] > 0 for letter in letters)
        for letter in letters:
            assert sum(drawn for _, drawn, _ in letter.options) == pytest.approx(1)
