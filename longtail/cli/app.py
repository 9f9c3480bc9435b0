"""The command ``longtail`` and its verbs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from longtail._version import __version__
from longtail.cli import plot
from longtail.cli.compare import compare_models
from longtail.cli.console import guarded, print_remark
from longtail.cli.convert import convert_data
from longtail.cli.demo import run_demo
from longtail.cli.evaluate import evaluate_model
from longtail.cli.explain import explain_labels
from longtail.cli.inspect import inspect_model
from longtail.cli.labels import change_labels
from longtail.cli.learn import learn_corrections
from longtail.cli.optimize import optimize_threshold
from longtail.cli.options import expanded
from longtail.cli.predict import predict_labels
from longtail.cli.report import report_models
from longtail.cli.serve import serve_models
from longtail.cli.signing import sign_model, verify_model
from longtail.cli.train import train_model
from longtail.cli.warm import warm_kernels

_HELP = "Extreme multi-label classification: find the few correct labels of a text among thousands or millions."


class _Verbs(TyperGroup):
    """The group of all verbs. A usage error ends the command with one message, like an error in the input."""

    def main(self, *args: Any, **given: Any) -> Any:
        """Run a command and end the process. With ``standalone_mode=False``, return instead."""
        if not given.get("standalone_mode", True):
            return super().main(*args, **given)
        try:
            code = super().main(*args, **given | {"standalone_mode": False})
        except typer.Abort:
            sys.exit(1)
        except Exception as error:  # a usage error has no stable class: typer has moved it between versions
            if not hasattr(error, "format_message"):
                raise
            if type(error).__name__ == "NoArgsIsHelpError":  # print the help
                return super().main(*args, **given)
            context = getattr(error, "ctx", None)
            where = f" See {context.command_path} --help." if context is not None else ""
            # typer puts each choice on a separate line
            message = re.sub(r"\s*\n\s*", " ", error.format_message()).replace(": Value error, ", ": ")
            print_remark(f"error: {message}{'' if message.endswith(('.', '?')) else '.'}{where}", style="bold red")
            sys.exit(2)
        sys.exit(code or 0)


class _Verb(TyperCommand):
    """A verb. It is an error to give an option twice that takes one value, as the first value would be lost."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of a command."""
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for option in given:
            repeatable = option.multiple or getattr(option, "is_flag", True)  # arguments have no `is_flag`
            if not repeatable and given.count(option) > 1 and not ctx.resilient_parsing:  # as a shell completes
                ctx.fail(f"{max(option.opts, key=len)} is given {given.count(option)} times, but takes one value.")
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_Verbs,
    help=_HELP,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
plot_app = typer.Typer(help="Draw a picture of a saved model.", no_args_is_help=True)
_VERBS: dict[str, Callable[..., None]] = {
    "train": train_model,
    "predict": predict_labels,
    "evaluate": evaluate_model,
    "explain": explain_labels,
    "compare": compare_models,
    "optimize": optimize_threshold,
    "report": report_models,
    "inspect": inspect_model,
    "sign": sign_model,
    "verify": verify_model,
    "convert": convert_data,
    "labels": change_labels,
    "learn": learn_corrections,
    "serve": serve_models,
    "warm": warm_kernels,
    "demo": run_demo,
}
_PLOTS: dict[str, Callable[..., None]] = {
    "curves": plot.plot_curves,
    "norms": plot.plot_norms,
    "labels": plot.plot_labels,
}
for _name, _verb in _VERBS.items():
    app.command(_name, cls=_Verb)(guarded(expanded(_verb)))
for _name, _verb in _PLOTS.items():
    plot_app.command(_name, cls=_Verb)(guarded(expanded(_verb)))
app.add_typer(plot_app, name="plot")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"longtail {__version__}")
        raise typer.Exit


@app.callback(help=_HELP)
def longtail(
    version: Annotated[
        bool,
        typer.Option(
            "--version", metavar="", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Parse the options that precede a verb."""
