"""The command ``longtail`` and its verbs."""

from __future__ import annotations

from typing import Annotated

import typer

from longtail._version import __version__
from longtail.cli import compare, convert, demo, evaluate, inspect, predict, train
from longtail.cli.common import guarded

app = typer.Typer(
    help="The few right labels out of thousands to millions, rare ones included.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (
    train.train,
    predict.predict,
    evaluate.evaluate,
    compare.compare,
    inspect.inspect,
    convert.convert,
    demo.demo,
):
    app.command()(guarded(verb))


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"longtail {__version__}")
        raise typer.Exit


@app.callback()
def longtail(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """The few right labels out of thousands to millions, rare ones included."""
