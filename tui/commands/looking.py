"""The commands that use a trained model: eval, sample and attend."""

from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tui.commands.options import AsJson, Device, Run, Seed, Threads, find, open_model

if TYPE_CHECKING:
    from core.views import Draw


def evaluate(
    run: Run,
    split: Annotated[
        str, typer.Option(metavar="train|val|test", help="Which names to measure on.")
    ] = "val",
    device: Device = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Measure the exact loss over a whole split, in all and by place in the name."""
    from tui.output import emit, say, table

    path = find(run)
    opened = open_model(path, device, threads)
    result = opened.evaluate(split)
    if as_json:
        emit(
            {
                "run": path.name,
                "split": split,
                "loss": result.loss,
                "bits_per_char": result.bits_per_char,
                "perplexity": None if isinf(result.perplexity) else result.perplexity,
                "n_chars": result.n_chars,
                "by_position": [place._asdict() for place in result.by_position],
            }
        )
        return
    say(
        f"{path.name} on {split}, {result.n_chars:,} letters:\n{result.loss:.4f} nats a letter "
        f"= {result.bits_per_char:.4f} bits = perplexity {result.perplexity:.2f}"
    )
    scale = 24 / max(place.loss for place in result.by_position)
    rows = [
        (
            str(place.position),
            f"{place.loss:.4f}",
            f"{place.n_chars:,}",
            "█" * round(place.loss * scale),
        )
        for place in result.by_position
    ]
    table(("letters before", "loss", "letters", ""), rows)


def sample(
    run: Run,
    n: Annotated[
        int, typer.Option("-n", metavar="N", min=1, max=1_000_000, help="How many names.")
    ] = 20,
    temperature: Annotated[
        float, typer.Option(metavar="T", help="0 always takes the likeliest letter.")
    ] = 1.0,
    top_k: Annotated[
        int | None, typer.Option(metavar="K", help="Choose among the K likeliest letters.")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(metavar="P", help="Choose among the likeliest letters that reach P together."),
    ] = None,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="How every name begins.")] = "",
    seed: Seed = None,
    device: Device = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Draw names, each with its log-probability and whether the data has it."""
    from secrets import randbelow

    from tui.output import emit, note

    path = find(run)
    opened = open_model(path, device, threads)
    chosen_seed = randbelow(2**31) if seed is None else seed
    names = opened.sample(
        n, seed=chosen_seed, temperature=temperature, top_k=top_k, top_p=top_p, prefix=prefix
    )
    for text in names.notes:
        note(text)
    if as_json:
        emit({"run": path.name, "seed": chosen_seed, "names": names.to_json()})
        return
    show_names(names)
    note(f"Drawn with --seed {chosen_seed} from {path.name}.")


def show_names(names: "Draw") -> None:
    """Print drawn names with their novelty and log-probability."""
    from tui.output import table

    rows = [
        (
            name.name if name.is_finished else f"{name.name}…",
            name.novelty,
            f"{name.log_prob:.2f}",
        )
        for name in names.names
    ]
    table(("name", "found in", "log prob"), rows)


def attend(
    run: Run,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name to read.")],
    layer: Annotated[int | None, typer.Option(metavar="L", help="One layer, from 0.")] = None,
    head: Annotated[int | None, typer.Option(metavar="H", help="One head of it, from 0.")] = None,
    end: Annotated[bool, typer.Option("--end", help="Read the end mark too.")] = False,
    ascii_only: Annotated[bool, typer.Option("--ascii", help="ASCII characters only.")] = False,
    tsv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write every weight as a table.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a picture.")] = None,
    device: Device = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Show where each head looks when the model reads a name.

    Rows are the letters that look, columns what they look at. With --layer and --head one head is
    shown in numbers.
    """
    from core.render import attention_svg, attention_tsv
    from tui.output import emit, say, speaks_utf8

    path = find(run)
    attention = open_model(path, device, threads).attend(name, with_end=end)
    n_layers, n_heads = attention.weights.shape[:2]
    check_index("layer", layer, n_layers)
    check_index("head", head, n_heads)
    weights: list[Any] = attention.weights.tolist()
    for file, write in ((tsv, attention_tsv), (svg, attention_svg)):
        if file is not None:
            _write(file, write(weights, attention.tokens))
    if as_json:
        content = {"run": path.name, "name": name, "tokens": attention.tokens, "weights": weights}
        emit(content)
    elif tsv is None and svg is None:
        is_ascii = ascii_only or not speaks_utf8()
        say(_picture(weights, attention.tokens, layer, head, ascii_only=is_ascii))


def _write(file: Path, text: str) -> None:
    from data.errors import UsageError
    from tui.output import note

    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} can't be written: {error.strerror}. Name another.") from None
    note(f"Written: {file}")


def _picture(
    weights: list[Any],
    tokens: tuple[str, ...],
    layer: int | None,
    head: int | None,
    *,
    ascii_only: bool,
) -> str:
    """Draw all heads small, or the chosen ones in numbers."""
    from shutil import get_terminal_size

    from core.render import attention_overview, attention_text

    if layer is None and head is None:
        width = get_terminal_size().columns
        return attention_overview(weights, tokens, ascii_only=ascii_only, max_width=width)
    layers = range(len(weights)) if layer is None else [layer]
    heads = range(len(weights[0])) if head is None else [head]
    return "\n\n".join(
        attention_text(weights[i][j], tokens, ascii_only=ascii_only, title=f"layer {i}, head {j}")
        for i in layers
        for j in heads
    )


def check_index(what: str, index: int | None, n: int) -> None:
    """Refuse a layer or head that the model doesn't have.

    Raises:
        ConfigError: If the index is out of range.
    """
    from core.config import ConfigError

    if index is not None and not 0 <= index < n:
        raise ConfigError(f"{what} is {index}; this model has {what}s 0 to {n - 1}.")
