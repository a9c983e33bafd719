import math
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from core.baselines import uniform
from core.batches import context
from core.config import LAYOUTS, POSITIONS, ConfigError, ModelConfig
from core.evaluation import evaluate
from core.model import MiniGPT
from core.sampling import Sample, Sampler, Taste, choose, next_probs

V, LONGEST = 7, 8
CONFIG = ModelConfig(vocab_size=V, block_size=LONGEST, d_model=8, n_heads=2, n_layers=2)
BELOW_1 = math.nextafter(1.0, 0.0)
TASTES = [
    pytest.param(Taste(), id="plain"),
    pytest.param(Taste(temperature=0.7, top_k=4), id="top-k"),
    pytest.param(Taste(temperature=1.5, top_p=0.8), id="top-p"),
    pytest.param(Taste(temperature=0.0), id="likeliest"),
]


def random_model(positions: str = "learned") -> MiniGPT:
    """Build a model whose names have about four letters, and that drops while it trains."""
    model = MiniGPT(replace(CONFIG, positions=positions))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.3, generator=generator)
        model.head.bias[0] += 1.0
    return model


def sampler(
    layout: str = "packed", *, model: nn.Module | None = None, longest: int = LONGEST
) -> Sampler:
    return Sampler(
        model=model or random_model(), layout=layout, block_size=LONGEST, longest=longest
    )


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(
    source: Sampler, n: int = 40, taste: Taste | None = None, prompt: tuple[int, ...] = ()
) -> list[Sample]:
    return list(source.draw(n, taste or Taste(), seeded(), prompt=prompt))


def names(samples: list[Sample]) -> list[tuple[tuple[int, ...], bool]]:
    return [(sample.ids, sample.is_finished) for sample in samples]


def slowly_drawn(source: Sampler, n: int, taste: Taste) -> list[tuple[tuple[int, ...], bool]]:
    """Draw names one by one, laying each out anew before each of its letters."""
    luck = torch.rand(n, source.longest, dtype=torch.float64, generator=seeded())
    model = source.model.eval()
    found: list[tuple[tuple[int, ...], bool]] = []
    for row in luck:
        name: list[int] = []
        is_finished = False
        for draw in row:
            ids = context([name], source.layout, block_size=source.block_size).ids[-1:]
            letter = int(choose(next_probs(model(ids)[:, -1], taste), draw[None]))
            if letter == 0:
                is_finished = True
                break
            name.append(letter)
        found.append((tuple(name), is_finished))
    return found


def logits_of(*weights: float) -> Tensor:
    return torch.tensor([weights], dtype=torch.float64).log()


def test_probabilities_are_the_softmax_worked_by_hand():
    probs = next_probs(logits_of(1, 2, 4, 8), Taste())

    assert probs[0].tolist() == pytest.approx([1 / 15, 2 / 15, 4 / 15, 8 / 15])


@pytest.mark.parametrize(
    ("temperature", "weights"),
    [(0.5, [1.0, 4.0, 16.0, 64.0]), (2.0, [1.0, 2**0.5, 2.0, 2 * 2**0.5])],
)
def test_dividing_by_the_temperature_takes_a_power_of_each_weight(
    temperature: float, weights: list[float]
):
    probs = next_probs(logits_of(1, 2, 4, 8), Taste(temperature=temperature))

    assert probs[0].tolist() == pytest.approx([weight / sum(weights) for weight in weights])


def test_temperature_0_always_takes_the_likeliest():
    probs = next_probs(torch.tensor([[0.1, 0.3, 0.2], [5.0, -1.0, 4.9]]), Taste(temperature=0.0))

    assert probs.tolist() == [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]


@pytest.mark.parametrize("temperature", [1e-3, 1e-300, 5e-324])
def test_near_0_the_likeliest_takes_everything(temperature: float):
    probs = next_probs(torch.tensor([[5.0, 1.0, -5.0]]), Taste(temperature=temperature))

    assert probs.tolist() == [[1.0, 0.0, 0.0]]


def test_at_a_very_high_temperature_all_letters_are_alike():
    probs = next_probs(torch.tensor([[5.0, 1.0, -5.0]]), Taste(temperature=1e300))

    assert probs[0].tolist() == pytest.approx([1 / 3] * 3)


def test_top_k_keeps_the_k_likeliest():
    probs = next_probs(logits_of(8, 1, 4, 2), Taste(top_k=2))

    assert probs[0].tolist() == pytest.approx([8 / 12, 0.0, 4 / 12, 0.0])


def test_top_1_is_the_likeliest():
    logits = torch.randn(20, V, generator=seeded())

    assert torch.equal(next_probs(logits, Taste(top_k=1)), next_probs(logits, Taste(temperature=0)))


@pytest.mark.parametrize("top_k", [V, V + 1, 10_000])
def test_more_letters_than_there_are_means_all(top_k: int):
    logits = torch.randn(5, V, generator=seeded())

    assert torch.equal(next_probs(logits, Taste(top_k=top_k)), next_probs(logits, Taste()))


@pytest.mark.parametrize(
    ("top_p", "kept"),
    [
        (0.4, [8, 0, 0, 0]),
        (0.53, [8, 0, 0, 0]),
        (0.54, [8, 0, 4, 0]),
        (0.79, [8, 0, 4, 0]),
        (0.81, [8, 0, 4, 2]),
        (0.94, [8, 1, 4, 2]),
        (1.0, [8, 1, 4, 2]),
    ],
)
def test_top_p_worked_by_hand(top_p: float, kept: list[int]):
    probs = next_probs(logits_of(8, 1, 4, 2), Taste(top_p=top_p))  # 0.533, 0.067, 0.267, 0.133

    assert probs[0].tolist() == pytest.approx([weight / sum(kept) for weight in kept])


@pytest.mark.parametrize("top_p", [0.05, 0.3, 0.62, 0.95])
def test_top_p_keeps_the_smallest_set_that_reaches_it(top_p: float):
    logits = torch.randn(50, V, generator=seeded())
    whole = next_probs(logits, Taste())

    is_kept = next_probs(logits, Taste(top_p=top_p)) > 0

    reached = whole.where(is_kept, 0.0).sum(dim=-1)
    least_kept = whole.where(is_kept, 1.0).amin(dim=-1)
    most_left_out = whole.where(~is_kept, 0.0).amax(dim=-1)
    assert (reached >= top_p).all()
    assert (reached - least_kept < top_p).all()
    assert (most_left_out <= least_kept).all()


def test_top_p_counts_what_top_k_left():
    probs = next_probs(logits_of(8, 1, 4, 2), Taste(top_k=2, top_p=0.6))  # 8 of 12 is enough

    assert probs.tolist() == [[1.0, 0.0, 0.0, 0.0]]


@pytest.mark.parametrize("taste", TASTES)
def test_probabilities_are_shares_in_float64(taste: Taste):
    probs = next_probs(torch.randn(30, V, generator=seeded()), taste)

    assert probs.dtype == torch.float64
    torch.testing.assert_close(probs.sum(dim=-1), torch.ones(30).double())


def test_logits_are_made_exact_before_anything_else():
    logits = torch.randn(30, V, generator=seeded())

    exact = logits.double().softmax(dim=-1)
    torch.testing.assert_close(next_probs(logits, Taste()), exact, rtol=1e-14, atol=0.0)


@pytest.mark.parametrize(
    ("taste", "sentence"),
    [
        (
            lambda: Taste(temperature=-0.5),
            "temperature is -0.5; it must be 0 (always the likeliest letter) or above, and finite.",
        ),
        (lambda: Taste(temperature=math.nan), "temperature is nan; it must be 0"),
        (lambda: Taste(temperature=math.inf), "temperature is inf; it must be 0"),
        (lambda: Taste(top_k=0), "top-k is 0; at least 1 letter must be left to choose."),
        (lambda: Taste(top_p=0.0), "top-p is 0.0; it must be above 0 and at most 1."),
        (lambda: Taste(top_p=1.01), "top-p is 1.01; it must be above 0 and at most 1."),
        (lambda: Taste(top_p=math.nan), "top-p is nan; it must be above 0 and at most 1."),
    ],
)
def test_an_impossible_taste_is_refused(taste: Callable[[], Taste], sentence: str):
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        taste()


@pytest.mark.parametrize(
    ("luck", "letter"), [(0.0, 1), (0.4999, 1), (0.5, 3), (0.7499, 3), (0.75, 4), (BELOW_1, 4)]
)
def test_luck_picks_the_letter_whose_stretch_it_falls_into(luck: float, letter: int):
    probs = torch.tensor([[0.0, 0.5, 0.0, 0.25, 0.25, 0.0, 0.0]], dtype=torch.float64)

    assert choose(probs, torch.tensor([luck], dtype=torch.float64)).tolist() == [letter]


def test_a_letter_of_probability_0_is_never_chosen():
    generator = seeded()
    probs = torch.rand(2000, V, dtype=torch.float64, generator=generator)
    probs = probs * (torch.rand(2000, V, generator=generator) > 0.5)
    probs[:, 3] += 1e-3
    probs /= probs.sum(dim=-1, keepdim=True)

    for value in (0.0, math.nextafter(0.0, 1.0), 0.5, 1 - 1e-9, BELOW_1):
        letters = choose(probs, torch.full((2000,), value, dtype=torch.float64))
        assert (probs.gather(1, letters[:, None]) > 0).all()


def test_the_highest_luck_takes_the_last_letter_even_where_the_sum_falls_short():
    probs = torch.full((1, 10), 0.1, dtype=torch.float64)  # their sum is below 1 in floats
    assert probs.cumsum(dim=-1)[0, -1] < 1.0

    assert choose(probs, torch.tensor([BELOW_1], dtype=torch.float64)).tolist() == [9]


def test_each_letter_is_chosen_as_often_as_it_is_probable():
    probs = torch.tensor([[0.125, 0.5, 0.0, 0.375]], dtype=torch.float64)
    luck = (torch.arange(800) + 0.5) / 800

    letters = choose(probs.expand(800, -1), luck.double())

    assert letters.bincount(minlength=4).tolist() == [100, 400, 0, 300]


def test_a_letter_of_one_in_a_billion_can_be_chosen():
    probs = torch.tensor([[1 - 2**-30, 2**-30]], dtype=torch.float64)

    assert choose(probs, torch.tensor([1 - 2**-31], dtype=torch.float64)).tolist() == [1]


@pytest.mark.parametrize("taste", TASTES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_names_are_those_drawn_one_letter_at_a_time(layout: str, taste: Taste):
    source = sampler(layout)

    samples = names(drawn(source, 20, taste))

    assert samples == slowly_drawn(source, 20, taste)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("prompt", [(), (3, 1)])
def test_a_cache_changes_nothing_in_what_is_drawn(positions: str, prompt: tuple[int, ...]):
    cached = sampler(model=random_model(positions))

    samples = drawn(cached, prompt=prompt)

    assert names(samples) == names(drawn(replace(cached, has_cache=False), prompt=prompt))


@pytest.mark.parametrize("at_once", [1, 3, 39])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_how_many_are_drawn_at_once_changes_nothing(
    layout: str, at_once: int, monkeypatch: pytest.MonkeyPatch
):
    together = drawn(sampler(layout))

    monkeypatch.setattr("core.sampling.NAMES_AT_ONCE", at_once)
    in_pieces = drawn(sampler(layout))

    assert names(in_pieces) == names(together)
    assert [s.log_prob for s in in_pieces] == pytest.approx([s.log_prob for s in together])


def test_drawing_more_names_does_not_change_the_first():
    assert names(drawn(sampler(), 300))[:10] == names(drawn(sampler(), 10))
    assert drawn(sampler(), 0) == []


def test_what_is_drawn_from_the_generator_depends_on_the_number_of_names_alone():
    one, other = seeded(), seeded()

    list(sampler().draw(5, Taste(temperature=0.1), one))
    list(sampler("window").draw(5, Taste(top_k=2), other, prompt=[1, 2]))

    assert torch.equal(one.get_state(), other.get_state())


def test_the_model_is_left_training_and_its_dropout_asleep():
    model = random_model()
    before = torch.get_rng_state()

    assert names(drawn(sampler(model=model))) == names(drawn(sampler(model=model)))
    assert model.training
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("prompt", [(), (3, 1)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_log_probability_of_a_name_is_minus_its_whole_loss(
    layout: str, prompt: tuple[int, ...]
):
    source = sampler(layout)

    finished = [s for s in drawn(source, taste=Taste(top_k=5), prompt=prompt) if s.is_finished]

    assert len(finished) > 10
    for sample in finished:
        evaluation = evaluate(source.model, context([sample.ids], layout, block_size=LONGEST))
        assert sample.log_prob == pytest.approx(-evaluation.loss * evaluation.n_chars, abs=1e-5)


def test_a_name_that_was_cut_has_the_log_probability_of_its_letters():
    samples = drawn(sampler(model=uniform(V), longest=3), 200)

    assert {sample.is_finished for sample in samples} == {True, False}
    for sample in samples:
        n_drawn = len(sample.ids) + sample.is_finished
        assert sample.log_prob == pytest.approx(-n_drawn * math.log(V))
        assert sample.is_finished == (len(sample.ids) < 3)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("prompt", [(5,), (3, 1, 2), (1,) * (LONGEST - 1)])
def test_all_names_begin_with_the_prompt(layout: str, prompt: tuple[int, ...]):
    samples = drawn(sampler(layout), prompt=prompt)

    assert len(samples) == 40
    assert all(sample.ids[: len(prompt)] == prompt for sample in samples)
    assert max(len(sample.ids) for sample in samples) <= LONGEST
    assert len({sample.ids for sample in samples}) > 1


def test_after_a_prompt_the_model_goes_on_as_after_its_own_letters():
    source = sampler()
    greedy = Taste(temperature=0.0)
    name = max((sample.ids for sample in drawn(source)), key=len)[:3]

    [sample] = drawn(source, 1, greedy, prompt=name)

    ids = torch.tensor([[0, *name]])
    assert ([*sample.ids, 0])[3] == int(source.model.eval()(ids)[0, -1].argmax())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_prompt_that_is_too_long_is_refused_with_both_numbers(layout: str):
    with pytest.raises(ConfigError, match=r"the prompt has 8 letters, .* go on from 7 at most"):
        next(sampler(layout).draw(1, Taste(), seeded(), prompt=[1] * 8))


def test_a_window_slides_over_names_longer_than_itself():
    model = random_model()
    with torch.no_grad():
        model.head.bias[0] = -20.0  # never ends
    long = Sampler(model=model, layout="window", block_size=5, longest=12)

    samples = names(drawn(long, 10))

    assert samples == slowly_drawn(long, 10, Taste())
    assert {len(ids) for ids, _ in samples} == {12}
    assert not any(is_finished for _, is_finished in samples)


def test_first_letters_come_as_often_as_they_are_probable():
    n, model = 4000, random_model()
    probs = next_probs(model.eval()(torch.tensor([[0]]))[:, -1], Taste())[0]

    samples = drawn(sampler(model=model, longest=1), n)

    counts = torch.tensor([([*sample.ids, 0])[0] for sample in samples]).bincount(minlength=V)
    chi_square = ((counts - n * probs) ** 2 / (n * probs)).sum().item()
    assert (n * probs).min() > 5
    assert chi_square < 22.5  # 999 of 1,000 samples with 6 degrees of freedom stay below
