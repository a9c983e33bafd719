"""Using a trained run: measure it, draw names from it, look at its attention.

One place for the commands, the screens and the lessons, so that they can't differ.
"""

from functools import cached_property
from operator import itemgetter
from pathlib import Path

import torch
from torch import Tensor

from core.baselines import MLP
from core.batches import Rows, context
from core.checkpoint import TrainedModel, load_model
from core.config import ConfigError, check_choice, check_seed
from core.corpus import SPLITS, Corpus, reload_corpus
from core.devices import pick_device, use_threads
from core.evaluation import Evaluation, evaluate, evaluating
from core.nearest import Nearest
from core.runs import read_config
from core.sampling import Taste
from core.settings import plan_from_json
from core.taps import Recorder, Tap, offer
from core.views import UNKNOWN, Attention, Draw, Letter, NamedSample, Trace
from data.errors import DataError, UserError
from data.vocabulary import BOUNDARY


class OpenRun:
    """A run whose weights are loaded."""

    def __init__(self, run: Path, trained: TrainedModel, device: torch.device) -> None:
        self.run = run
        self.trained = trained
        self.device = device

    @property
    def damage(self) -> str:
        """Say that older weights had to be taken, or nothing."""
        if not self.trained.damaged:
            return ""
        return (
            f"{self.run.name}: the weights of step {self.trained.damaged[0]} are damaged; "
            f"those of {self.trained.header.step} are used."
        )

    @cached_property
    def corpus(self) -> Corpus:
        """The names the run was made with.

        Raises:
            DataError: If their file has changed.
            UsageError: If it is gone.
        """
        config = read_config(self.run)
        characters = self.trained.header.vocabulary.characters
        return reload_corpus(plan_from_json(config).data, config["data"]["sha256"], characters)

    def evaluate(self, split: str = "val") -> Evaluation:
        """Measure the exact loss over train, val or test, in the layout of the training.

        Raises:
            ConfigError: If there is no such split.
        """
        return evaluate(self.trained.model, self.rows(split))

    def rows(self, split: str, n_names: int | None = None) -> Rows:
        """Lay names of train, val or test out as the model was trained: the first n, or all.

        Raises:
            ConfigError: If there is no such split.
        """
        check_choice("split", split, SPLITS)
        header = self.trained.header
        rows = context(
            self.corpus.ids(split)[:n_names],
            header.layout,
            block_size=header.model.block_size,
            row_length=header.row_length,
        )
        rows.to(self.device)
        return rows

    def sample(
        self,
        n: int,
        *,
        seed: int,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        prefix: str = "",
    ) -> Draw:
        """Draw names.

        Args:
            n: How many.
            seed: Decides the draws.
            temperature: 0 always takes the likeliest letter.
            top_k: Choose among the k likeliest letters only.
            top_p: Choose among the likeliest letters that together reach this probability.
            prefix: How every name begins.

        Raises:
            ConfigError: If one of these can't be.
            UnknownCharacterError: If the prefix has a letter the model doesn't know.
        """
        check_seed(seed)
        taste = Taste(temperature=temperature, top_k=top_k, top_p=top_p)
        vocabulary = self.trained.header.vocabulary
        notes: list[str] = []
        if top_k is not None and top_k > len(vocabulary):
            notes.append(f"top-k {top_k}: there are {len(vocabulary)} tokens, so all are kept.")
        generator = torch.Generator().manual_seed(seed)
        drawn = self.trained.sampler().draw(n, taste, generator, prompt=vocabulary.encode(prefix))
        splits = None
        try:
            splits = self.corpus.splits
        except UserError as error:
            notes.append(f"Whether a name is new is not known: {error}")
        names: list[NamedSample] = []
        for sample in drawn:
            name = vocabulary.decode(sample.ids)
            names.append(
                NamedSample(
                    name=name,
                    novelty=splits.novelty(name) if splits else UNKNOWN,
                    log_prob=sample.log_prob,
                    is_finished=sample.is_finished,
                )
            )
        return Draw(names=tuple(names), notes=tuple(notes))

    def attend(self, name: str, *, with_end: bool = False) -> Attention:
        """Let the model read a name and record every head's weights.

        Args:
            name: Letters the model knows.
            with_end: Whether to read the boundary that ends the name too; no trained model has
                ever read it.

        Raises:
            ConfigError: If the model has no attention, or the name is too long for it.
            UnknownCharacterError: If it has a letter the model doesn't know.
        """
        trace = self.trace(name, with_end=with_end)
        return Attention(tokens=trace.tokens, weights=trace.heads("weights"))

    def trace(self, name: str, *, with_end: bool = False, change: Tap | None = None) -> Trace:
        """Let the model read a name and record every value on the way.

        Args:
            name: Letters the model knows.
            with_end: Whether to read the boundary that ends the name too.
            change: A tap that may change values before they are recorded, such as an ablation.

        Raises:
            ConfigError: If the model has no attention, or the name is too long for it.
            UnknownCharacterError: If it has a letter the model doesn't know.
        """
        model, header = self.trained.model, self.trained.header
        if isinstance(model, MLP):
            raise ConfigError(f"{self.run.name} is an MLP: it has no attention to look at.")
        letters = header.vocabulary.encode(name)
        sampler = self.trained.sampler()
        ids = sampler.prompt(letters, called="name", n_more=int(with_end)).to(self.device)
        if with_end:
            end = torch.zeros_like(ids[:, :1])
            ids = torch.cat((ids[:, 1:] if header.layout == "window" else ids, end), dim=1)
        seen = Recorder()

        def tap(at: str, value: Tensor) -> Tensor:
            return seen(at, offer(change, at, value))

        with evaluating(model):
            model(ids, tap=tap)
        return Trace(
            tokens=tuple(header.vocabulary.characters[token] for token in ids[0].tolist()),
            n_letters=len(name) + with_end,
            n_layers=len(model.blocks),
            values=seen,
        )

    def retrace(self, name: str, taste: Taste, *, is_finished: bool = True) -> tuple[Letter, ...]:
        """Go through a name letter by letter, with all that could have stood at each place.

        Args:
            name: Letters the model knows.
            taste: How each letter was chosen.
            is_finished: Whether the model ended the name.

        Raises:
            UnknownCharacterError: If it has a letter the model doesn't know.
        """
        vocabulary = self.trained.header.vocabulary
        drawn, own = self.trained.sampler().retrace(
            vocabulary.encode(name), taste, is_finished=is_finished
        )
        letters: list[Letter] = []
        text = name + BOUNDARY if is_finished else name
        for place, row in enumerate(zip(drawn.tolist(), own.tolist(), strict=True)):
            options: list[tuple[str, float, float]] = list(
                zip(vocabulary.characters, *row, strict=True)
            )
            options.sort(key=itemgetter(1, 2), reverse=True)
            letters.append(Letter(before=name[:place], chosen=text[place], options=tuple(options)))
        return tuple(letters)

    @cached_property
    def training_names(self) -> Nearest:
        """The distinct names the model learned from, ready to be searched.

        Raises:
            UserError: If their file has changed or is gone.
        """
        return Nearest(self.corpus.splits.train)


def open_run(run: Path, *, device: str | None = None, n_threads: int | None = None) -> OpenRun:
    """Load the newest weights of a run.

    Raises:
        DataError: If there are none yet, or they are damaged.
        ConfigError: If the device or the number of threads can't be.
    """
    use_threads(1 if n_threads is None else n_threads)
    there = pick_device(device or "auto")
    return OpenRun(run, load_model(run, there), there)


def same_names(one: Path, other: Path) -> bool:
    """Say whether two runs were made with the same names, divided the same way."""
    try:
        first, second = (read_config(run)["data"] for run in (one, other))
        return all(first[key] == second[key] for key in ("sha256", "split"))
    except (DataError, KeyError):
        return False
