"""The command line: which commands exist. Each is in `tui.commands` and imports what it needs."""

from typing import Annotated

import typer

from tui.commands import comparing, learning, looking, runs, training

app = typer.Typer(
    help="Train, sample and look inside a mini GPT, in your terminal.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

LEARNING, TRAINING, RUNS, LOOKING = "Learn", "Train", "Runs", "Look"

app.command("learn", rich_help_panel=LEARNING)(learning.learn)
app.command("errata", rich_help_panel=LEARNING)(learning.errata)
app.command("train", rich_help_panel=TRAINING)(training.train)
app.command("resume", rich_help_panel=TRAINING)(training.resume)
app.command("runs", rich_help_panel=RUNS)(runs.runs)
app.command("watch", rich_help_panel=RUNS)(runs.watch)
app.command("stop", rich_help_panel=RUNS)(runs.stop)
app.command("rename", rich_help_panel=RUNS)(runs.rename)
app.command("delete", rich_help_panel=RUNS)(runs.delete)
app.command("eval", rich_help_panel=LOOKING)(looking.evaluate)
app.command("sample", rich_help_panel=LOOKING)(looking.sample)
app.command("attend", rich_help_panel=LOOKING)(looking.attend)
app.command("compare", rich_help_panel=LOOKING)(comparing.compare)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version

        typer.echo(f"qkv {version('qkv')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 (its callback does the work)
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """Train, sample and look inside a mini GPT, in your terminal; alone: open the app."""
    if context.invoked_subcommand is None:
        from tui.launch import open_app

        open_app()
