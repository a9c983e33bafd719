"""New names from a model: temperature, top-k, top-p, a prompt; batched and cached.

All uniform draws are made first, one row a name, and each letter is taken by the inverse of the
cumulative distribution in float64. So batch size, cache and names that are finished change nothing
in what is drawn, and the same seed at two temperatures means the same luck.

Sources: Fan et al. 2018, "Hierarchical Neural Story Generation", section 5.4 (top-k); Holtzman et
al. 2020, "The Curious Case of Neural Text Degeneration", section 3.1 (top-p).
Shape letters: N names, B names at once, T positions, V vocab_size.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from core.baselines import MLP
from core.batches import NO_TARGET, Ids, context, extend
from core.cache import KeyValueCache
from core.config import BOUNDARY_ID, ConfigError
from core.evaluation import evaluating, token_losses
from core.model import MiniGPT

NAMES_AT_ONCE = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class Taste:
    """How to choose from a distribution."""

    temperature: float = 1.0
    """Above 1 flattens, below 1 sharpens; 0 always takes the likeliest letter."""
    top_k: int | None = None
    """Choose among the k likeliest letters only."""
    top_p: float | None = None
    """Choose among the likeliest letters that together reach this probability."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise ConfigError(
                f"temperature is {self.temperature}; it must be 0 (always the likeliest letter) "
                "or above, and finite."
            )
        if self.top_k is not None and self.top_k < 1:
            raise ConfigError(f"top-k is {self.top_k}; at least 1 letter must be left to choose.")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ConfigError(f"top-p is {self.top_p}; it must be above 0 and at most 1.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One name that was drawn."""

    ids: tuple[int, ...]
    """Its letters, the prompt's included, without boundaries."""
    log_prob: float
    """Natural log of the chance the model itself, at temperature 1, gives this name."""
    is_finished: bool
    """Whether the model ended it; False where the longest trained length cut it."""


def next_probs(logits: Tensor, taste: Taste) -> Tensor:
    """Turn the logits of one position into the distribution to draw from.

    Args:
        logits: (B, V), any real numbers.
        taste: Temperature, top-k (more letters than there are means all of them) and top-p.

    Returns:
        Probabilities, (B, V) in float64; each row sums to 1.
    """
    logits = logits.double()
    if taste.temperature == 0:
        return nn.functional.one_hot(logits.argmax(dim=-1), logits.shape[-1]).double()
    behind = logits - logits.amax(dim=-1, keepdim=True)  # so that no temperature overflows
    probs = (behind / taste.temperature).softmax(dim=-1)
    if taste.top_k is not None:
        best = probs.topk(min(taste.top_k, probs.shape[-1]), dim=-1).indices
        probs = torch.zeros_like(probs).scatter(-1, best, probs.gather(-1, best))
    if taste.top_p is not None:
        ranked, order = (probs / probs.sum(dim=-1, keepdim=True)).sort(dim=-1, descending=True)
        reached_before = ranked.cumsum(dim=-1) - ranked
        unneeded = torch.zeros_like(probs, dtype=torch.bool)
        unneeded.scatter_(-1, order, reached_before >= taste.top_p)
        probs = probs.masked_fill(unneeded, 0.0)
    return probs / probs.sum(dim=-1, keepdim=True)


def choose(probs: Tensor, luck: Tensor) -> Tensor:
    """Take the letter at which the cumulative distribution passes a uniform draw.

    Args:
        probs: (B, V), rows that sum to 1.
        luck: (B,), uniform draws in [0, 1).

    Returns:
        Token ids, (B,); never one of probability 0.
    """
    reached = probs.cumsum(dim=-1)
    # The sum may end a rounding error below a draw just under 1: scale to what was reached.
    letters = torch.searchsorted(reached, luck[:, None] * reached[:, -1:], right=True)[:, 0]
    likely = probs.shape[-1] - 1 - (probs.flip(-1) > 0).int().argmax(dim=-1)  # last possible
    return torch.minimum(letters, likely)


def make_sampler(model: MiniGPT | MLP, layout: str, row_length: int) -> "Sampler":
    """Prepare to draw names from a model as it was trained.

    Args:
        model: What to draw from.
        layout: The layout it was trained in.
        row_length: Positions of a row of whole names: later ones were never trained.
    """
    is_gpt = isinstance(model, MiniGPT)
    return Sampler(
        model=model,
        layout=layout,
        block_size=model.config.block_size,
        longest=model.config.block_size if is_gpt and layout == "window" else row_length,
        has_cache=is_gpt,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampler:
    """A model with all that is needed to draw names from it."""

    model: nn.Module
    """Anything called like MiniGPT."""
    layout: str
    """The layout it was trained in."""
    block_size: int
    """Width of its window."""
    longest: int
    """Most letters of a name, and one more than a prompt may have: later positions were never
    trained."""
    has_cache: bool = True
    """Whether to keep keys and values; a window slides and an MLP has none."""

    def prompt(self, prompt: Ids, *, called: str = "prompt", n_more: int = 0) -> Tensor:
        """Return what the model reads before the first letter is drawn, (1, T).

        Args:
            prompt: Letters to begin with.
            called: What a person calls them.
            n_more: Tokens that the caller will add.

        Raises:
            ConfigError: If the prompt is longer than the names the model was trained on.
        """
        if len(prompt) + n_more >= self.longest:
            raise ConfigError(
                f"the {called} has {len(prompt)} letters, but this model can go on from "
                f"{self.longest - 1 - n_more} at most: later positions were never trained. "
                "Give a shorter one."
            )
        return context([prompt], self.layout, block_size=self.block_size).ids[-1:]

    def draw(
        self, n: int, taste: Taste, generator: torch.Generator, *, prompt: Ids = ()
    ) -> Iterator[Sample]:
        """Draw names, some hundred at a time.

        Args:
            n: How many.
            taste: How to choose each letter.
            generator: On the CPU; gives the uniform draws, `longest` for each name.
            prompt: Letters that every name begins with.

        Yields:
            n names, in the order of their draws.
        """
        start = self.prompt(prompt)
        device = next(self.model.parameters(), start).device
        prompt_log_prob = self._log_prob(prompt, device)
        for first in range(0, n, NAMES_AT_ONCE):
            size = min(NAMES_AT_ONCE, n - first)
            luck = torch.rand(size, self.longest, dtype=torch.float64, generator=generator)
            luck = luck[:, : self.longest - len(prompt)]
            letters, log_probs = self._letters(start.to(device).expand(size, -1), luck, taste)
            for row, log_prob in zip(letters, (log_probs + prompt_log_prob).tolist(), strict=True):
                ids = row[: row.index(BOUNDARY_ID)] if BOUNDARY_ID in row else row
                yield Sample(ids=(*prompt, *ids), log_prob=log_prob, is_finished=BOUNDARY_ID in row)

    def retrace(self, ids: Ids, taste: Taste, *, is_finished: bool = True) -> tuple[Tensor, Tensor]:
        """Go through a name again and see what each of its letters was drawn from.

        Args:
            ids: Its letters, without boundaries.
            taste: How each letter was chosen.
            is_finished: Whether its end was drawn too.

        Returns:
            The distributions drawn from and the model's own, at temperature 1: (T, V) each in
            float64, a row for each letter and, where it was drawn, one for the end.
        """
        read = ids if is_finished else ids[:-1]
        rows = context([read], self.layout, block_size=self.block_size)
        rows.to(next(self.model.parameters(), rows.ids).device)
        batch = rows.take(slice(None))
        with evaluating(self.model):
            logits = self.model(batch.ids)[batch.targets != NO_TARGET].cpu().double()  # (T, V)
        logits = logits[: len(ids) + is_finished]
        return next_probs(logits, taste), logits.softmax(dim=-1)

    def _letters(self, ids: Tensor, luck: Tensor, taste: Taste) -> tuple[list[list[int]], Tensor]:
        """Draw until every name is finished: letters of each, and their log-probability."""
        drawn = torch.full(luck.shape, BOUNDARY_ID)
        log_probs = torch.zeros(len(ids), dtype=torch.float64)
        going = torch.arange(len(ids))  # names that are not finished
        cache = KeyValueCache() if self.has_cache and self.layout != "window" else None
        with evaluating(self.model):
            new = ids
            for place in range(drawn.shape[1]):
                logits = self.model(new, cache=cache)[:, -1].cpu().double()  # (B, V)
                letters = choose(next_probs(logits, taste), luck[going, place])
                drawn[going, place] = letters
                log_probs[going] += logits.log_softmax(dim=-1).gather(1, letters[:, None])[:, 0]
                stay = letters != BOUNDARY_ID
                if not stay.any():
                    break
                going, letters, stay = (
                    going[stay],
                    letters[stay].to(ids.device),
                    stay.to(ids.device),
                )
                ids = extend(ids[stay], letters, self.layout)
                if cache is not None:
                    cache.keep(stay.nonzero()[:, 0])
                new = ids if cache is None else letters[:, None]
        return drawn.tolist(), log_probs

    def _log_prob(self, prompt: Ids, device: torch.device) -> float:
        """Return the log-probability of the prompt's own letters, its end left out."""
        rows = context([prompt], self.layout, block_size=self.block_size)
        rows.to(device)
        batch = rows.take(slice(None))
        with evaluating(self.model):
            losses = token_losses(self.model(batch.ids), batch.targets).cpu().double()
        last = (batch.places == len(prompt)).cpu() & (batch.targets != NO_TARGET).cpu()
        return -losses.masked_fill(last, 0.0).sum().item()
