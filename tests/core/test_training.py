import math
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from core.baselines import MLP, bigram
from core.batches import NO_TARGET, context
from core.config import LAYOUTS, ConfigError, MLPConfig, ModelConfig, TrainConfig
from core.corpus import load_corpus
from core.evaluation import evaluate
from core.model import MiniGPT
from core.presets import PRESETS, DataConfig
from core.randomness import PURPOSES, generator
from core.sampling import Taste
from core.schedule import learning_rate_at
from core.training import (
    DivergedError,
    Evaluated,
    Event,
    SafePoint,
    Sampled,
    Stepped,
    Training,
    train,
)

V, BLOCK_SIZE = 6, 8
MODEL = ModelConfig(
    vocab_size=V, block_size=BLOCK_SIZE, d_model=8, n_heads=2, n_layers=1, dropout=0.2
)
SHORT = TrainConfig(
    batch_size=8,
    n_steps=12,
    n_epochs=None,
    eval_interval=5,
    learning_rate=0.01,
    warmup_steps=3,
    clip_norm=0.5,
)
Saved = tuple[dict[str, Tensor], dict[str, Tensor], dict[str, float]]


def random_names(n: int) -> list[list[int]]:
    draw = random.Random(0)
    return [[draw.randint(1, V - 1) for _ in range(draw.randint(1, 6))] for _ in range(n)]


NAMES = random_names(50)
TRAIN, VAL = NAMES[:40], NAMES[40:]


def training(
    config: TrainConfig = SHORT, *, model: MiniGPT | MLP | None = None, seed: int = 1
) -> Training:
    return Training(model or MiniGPT(MODEL), config, train=TRAIN, val=VAL, seed=seed)


def steps(events: Iterator[Event] | list[Event]) -> list[Stepped]:
    """Return the steps, without the time they took."""
    return [replace(event, chars_per_s=0.0) for event in events if isinstance(event, Stepped)]


def last_step(events: list[Event]) -> Stepped:
    return [event for event in events if isinstance(event, Stepped)][-1]


def untimed(events: Iterator[Event]) -> list[Event]:
    return [replace(e, chars_per_s=0.0) if isinstance(e, Stepped) else e for e in events]


def weights_of(source: Training) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in source.model.state_dict().items()}


def alike(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def saved_after(step: int, config: TrainConfig) -> Saved:
    """Train up to a step and return copies of all that a resumed training gets."""
    source = training(config)
    for event in train(source):
        if isinstance(event, SafePoint) and event.step == step:
            tensors, numbers = source.state()
            return weights_of(source), {n: v.clone() for n, v in tensors.items()}, dict(numbers)
    raise AssertionError(f"no step {step}")


def resumed(saved: Saved, config: TrainConfig) -> Training:
    weights, tensors, numbers = saved
    target = training(config)
    target.model.load_state_dict(weights)
    target.restore(tensors, numbers)
    return target


def test_the_events_of_a_short_training():
    events = list(train(training()))

    kinds = [(type(event), event.step) for event in events]
    look = [Evaluated, Sampled]
    expected: list[tuple[type, int]] = [(kind, 0) for kind in [*look, SafePoint]]
    for step in range(1, 13):
        is_due = step in (5, 10, 12)
        expected += [(kind, step) for kind in [Stepped, *(look if is_due else []), SafePoint]]
    assert kinds == expected
    safe = [event for event in events if isinstance(event, SafePoint)]
    assert [event.step for event in safe if event.is_evaluation] == [0, 5, 10, 12]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_few_steps_are_plain_pytorch(layout: str):
    config = replace(SHORT, layout=layout, clip_norm=0.3)
    ours, plain = (training(config, model=MiniGPT(replace(MODEL, dropout=0.0))) for _ in range(2))
    params = list(plain.model.parameters())
    optimizer = torch.optim.AdamW(params, betas=config.betas, weight_decay=config.weight_decay)
    batches = plain.batches()

    for stepped in steps(train(ours)):
        batch = next(batches)
        logits = plain.model(batch.ids, batch.positions, batch.visible)
        loss = nn.functional.cross_entropy(
            logits.flatten(0, 1), batch.targets.flatten(), ignore_index=NO_TARGET
        )
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(params, 0.3)
        rate = learning_rate_at(stepped.step - 1, 12, config)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()

        assert stepped.loss == pytest.approx(loss.item(), rel=1e-4)
        assert stepped.grad_norm == pytest.approx(norm.item(), rel=1e-3)
        assert stepped.grad_norm > 0.3
        assert stepped.learning_rate == rate
        assert stepped.n_chars == int((batch.targets != NO_TARGET).sum())
    torch.testing.assert_close(ours.model.state_dict(), plain.model.state_dict(), rtol=0, atol=1e-4)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_first_loss_is_the_mean_over_the_batchs_targets(layout: str):
    config = replace(SHORT, layout=layout)
    ours, plain = (training(config, model=MiniGPT(replace(MODEL, dropout=0.0))) for _ in range(2))

    first = steps(train(ours))[0]

    batch = next(plain.batches())
    log_probs = plain.model(batch.ids, batch.positions, batch.visible).log_softmax(dim=-1)
    asked = (batch.targets != NO_TARGET).nonzero().tolist()
    losses = [-log_probs[row, t, batch.targets[row, t]].item() for row, t in asked]
    assert first.loss == pytest.approx(sum(losses) / len(losses))


def test_dropout_is_at_work_in_the_steps_and_not_in_the_evaluations():
    dropping, whole = (training(model=MiniGPT(replace(MODEL, dropout=d))) for d in (0.2, 0.0))

    first, second = list(train(dropping)), list(train(whole))

    looks = [[e for e in events if isinstance(e, Evaluated)] for events in (first, second)]
    assert looks[0][0] == looks[1][0]
    assert steps(first)[0].loss != pytest.approx(steps(second)[0].loss, abs=1e-4)
    assert looks[0][-1].val_loss != pytest.approx(looks[1][-1].val_loss, abs=1e-4)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_epoch_predicts_every_letter_once(layout: str):
    config = replace(SHORT, layout=layout, n_steps=None, n_epochs=2.0)

    counts = [step.n_chars for step in steps(train(training(config)))]

    n_chars = sum(len(name) + 1 for name in TRAIN)
    assert sum(counts[: len(counts) // 2]) == n_chars
    assert sum(counts) == 2 * n_chars


@pytest.mark.parametrize("layout", LAYOUTS)
def test_evaluating_more_often_changes_nothing_in_what_is_learned(layout: str):
    rarely = training(replace(SHORT, layout=layout, eval_interval=6))
    often = training(replace(SHORT, layout=layout, eval_interval=1))

    assert steps(train(rarely)) == steps(train(often))
    assert alike(weights_of(rarely), weights_of(often))


def test_what_torch_draws_elsewhere_changes_nothing():
    quiet, disturbed = training(), training()
    alone = untimed(train(quiet))

    torch.manual_seed(123)
    beside: list[Event] = []
    for event in train(disturbed):
        torch.rand(7)
        beside.append(event)

    assert untimed(iter(beside)) == alone


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_same_seed_gives_the_same_run_to_the_bit(layout: str):
    one, same = (training(replace(SHORT, layout=layout)) for _ in range(2))

    assert untimed(train(one)) == untimed(train(same))
    assert alike(weights_of(one), weights_of(same))


def test_another_seed_gives_another_run():
    one, other = training(seed=1), training(seed=2)

    assert not torch.equal(next(one.batches()).ids, next(other.batches()).ids)
    assert steps(train(one)) != steps(train(other))


def test_every_purpose_and_seed_has_draws_of_its_own():
    draws = {torch.rand((), generator=generator(s, p)).item() for s in range(20) for p in PURPOSES}

    assert len(draws) == 20 * len(PURPOSES)
    with pytest.raises(ConfigError, match="seed is -1; it can be any whole number from 0 to"):
        generator(-1, "weights")


@pytest.mark.parametrize("step", [0, 1, 4, 5, 7, 10, 11, 12])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_resumed_training_goes_on_to_the_bit(layout: str, step: int):
    config = replace(SHORT, layout=layout)
    whole = training(config)
    expected = untimed(train(whole))

    continued = resumed(saved_after(step, config), config)
    rest = untimed(train(continued))

    assert rest == [event for event in expected if event.step > step]
    assert alike(weights_of(continued), weights_of(whole))


@pytest.mark.parametrize("step", [0, 3, 5, 12])
def test_what_was_restored_is_what_would_be_saved(step: int):
    saved = saved_after(step, SHORT)

    tensors, numbers = resumed(saved, SHORT).state()

    assert alike(tensors, saved[1])
    assert numbers == saved[2]


def test_a_training_can_be_resumed_at_the_end_of_each_epoch():
    config = replace(SHORT, layout="padded", n_steps=16)  # 40 rows, 8 at once: 5 steps an epoch
    whole = steps(train(training(config)))

    for step in (5, 10, 15):
        rest = steps(train(resumed(saved_after(step, config), config)))

        assert rest == whole[step:]


def test_a_training_that_was_asked_to_stop_at_the_end_of_an_epoch_can_be_resumed():
    config = replace(SHORT, layout="padded")
    whole = steps(train(training(config)))
    source = training(config)
    list(train(source, should_stop=lambda: source.step == 5))

    tensors, numbers = source.state()
    rest = steps(train(resumed((weights_of(source), tensors, numbers), config)))

    assert rest == whole[5:]


def test_a_resumed_training_keeps_the_time_of_the_earlier_sitting():
    weights, tensors, numbers = saved_after(7, SHORT)
    numbers |= {"elapsed_s": 1000.0, "cpu_s": 500.0}

    continued = resumed((weights, tensors, numbers), SHORT)
    list(train(continued))

    assert 1000.0 < continued.elapsed_s < 1100.0
    assert 500.0 < continued.cpu_s < 600.0


def test_being_asked_to_stop_ends_after_the_step_it_is_in():
    source = training()
    seen: list[Event] = []

    def third_step_was_made() -> bool:
        return any(isinstance(event, Stepped) and event.step == 3 for event in seen)

    for event in train(source, should_stop=third_step_was_made):
        seen.append(event)

    assert seen[-2:] == [last_step(seen), SafePoint(step=3, is_evaluation=False)]
    assert source.step == 3


def test_being_asked_to_stop_at_once_leaves_the_untrained_model():
    source = training()

    events = list(train(source, should_stop=lambda: True))

    assert [type(event) for event in events] == [Evaluated, Sampled, SafePoint]
    assert source.step == 0


def test_a_step_whose_gradient_is_not_finite_is_not_taken():
    source = training(replace(SHORT, learning_rate=1e30, warmup_steps=0, eval_interval=100))
    before: dict[str, Tensor] = {}
    events: list[Event] = []

    def run() -> None:
        for event in train(source):
            events.append(event)
            if isinstance(event, SafePoint):
                before.update(weights_of(source))

    with pytest.raises(DivergedError, match=r"step \d+ gave a loss of .* not taken") as caught:
        run()

    last = last_step(events)
    assert not math.isfinite(last.loss + last.grad_norm)
    assert source.step == last.step - 1
    assert alike(weights_of(source), before)
    assert "--set train.learning_rate=" in str(caught.value)


def test_a_model_that_diverges_before_an_evaluation_says_so():
    source = training(replace(SHORT, learning_rate=1e30, warmup_steps=0, eval_interval=1))

    with pytest.raises(DivergedError, match=r"after step \d+ the validation loss is (nan|inf)"):
        list(train(source))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_training_lowers_the_loss(layout: str):
    config = replace(SHORT, layout=layout, n_steps=60, eval_interval=60)

    first, last = [e for e in train(training(config)) if isinstance(e, Evaluated)]

    assert last.train_loss < first.train_loss - 0.03


def test_an_evaluation_is_exact_and_over_a_part_as_large_as_the_validation_names():
    source = training()

    for event in train(source):
        if isinstance(event, Evaluated):
            part = context(TRAIN[: len(VAL)], "packed", block_size=BLOCK_SIZE, row_length=7)
            whole = context(VAL, "packed", block_size=BLOCK_SIZE, row_length=7)
            assert event.train_loss == pytest.approx(evaluate(source.model, part).loss, abs=1e-6)
            assert event.val_loss == pytest.approx(evaluate(source.model, whole).loss, abs=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_evaluation_samples_with_the_same_draws(layout: str):
    config = replace(SHORT, layout=layout, learning_rate=1e-12, weight_decay=0.0)
    source = training(config)

    sampled = [event for event in train(source) if isinstance(event, Sampled)]

    again = source.sampler.draw(10, Taste(), generator(1, "samples"))
    names = tuple(sample.ids for sample in again)
    assert len(names) == 10
    assert [event.names for event in sampled] == [names] * 4


def test_as_the_model_learns_the_same_draws_give_other_names():
    config = replace(SHORT, n_steps=60, eval_interval=30)

    sampled = [event for event in train(training(config)) if isinstance(event, Sampled)]

    assert all(one.names != other.names for one, other in pairwise(sampled))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_mlp_samples_from_all_the_letters_it_sees(layout: str):
    config = replace(SHORT, layout=layout, n_steps=30, eval_interval=30, init="torch")
    model = MLP(MLPConfig(vocab_size=V, block_size=BLOCK_SIZE, d_embedding=4, d_hidden=8))
    source = training(config, model=model)

    sampled = [event for event in train(source) if isinstance(event, Sampled)]

    uncached = replace(source.sampler, has_cache=False)
    again = uncached.draw(10, Taste(), generator(1, "samples"))
    assert sampled[-1].names == tuple(sample.ids for sample in again)


@pytest.mark.slow
def test_an_epoch_of_the_default_preset_beats_the_bigram():
    corpus, preset = load_corpus(DataConfig()), PRESETS["fast"]
    assert isinstance(preset.model, ModelConfig)
    model = MiniGPT(replace(preset.model, vocab_size=len(corpus.vocabulary)))
    names, val = corpus.ids("train"), corpus.ids("val")
    counted = evaluate(
        bigram(names, len(corpus.vocabulary)), context(val, "padded", block_size=1)
    ).loss
    source = Training(
        model,
        replace(preset.train, n_epochs=1.0, n_steps=None),
        train=names,
        val=val,
        seed=1,
    )

    losses = [event.val_loss for event in train(source) if isinstance(event, Evaluated)]

    assert losses[0] == pytest.approx(math.log(27), abs=0.7)
    assert losses[-1] < counted - 0.2
