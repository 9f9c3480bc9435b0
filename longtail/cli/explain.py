"""``longtail explain``: show why labels were suggested for a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from longtail import registry
from longtail.cli.console import out, print_json, print_result
from longtail.cli.options import JsonFlag, ModelFolder
from longtail.cli.predict import text_from_shell
from longtail.errors import SettingsError, number_of

if TYPE_CHECKING:
    from rich.table import Table

    from longtail.explain import Explanation, LabelExplanation

_WORDS_SHOWN = 8  # per direction
_NEIGHBOUR_LABELS = 6  # labels that are shown of a neighbour
_NAME_WIDTH = 30  # characters of each of them
_CERTAIN = 1000.0  # a larger bias is not a real weight: it gives the only label of a model the probability 1
TextArgument = Annotated[
    list[str] | None, typer.Argument(metavar="TEXT", help="The text, as with --text.", show_default=False)
]
TextOption = Annotated[
    list[str] | None, typer.Option("--text", "-t", metavar="TEXT", help="The text, one at a time.", show_default=False)
]
BestLabelsOption = Annotated[int, typer.Option("-k", min=1, metavar="INT", help="Number of best labels to explain.")]
LabelsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        "-l",
        metavar="LABEL",
        help="A label to explain, by name or identifier, instead of the best ones. Can be repeated.",
        show_default=False,
    ),
]


def explain_labels(
    folder: ModelFolder,
    texts: TextArgument = None,
    text: TextOption = None,
    label: LabelsOption = None,
    k: BestLabelsOption = 5,
    json: JsonFlag = False,
) -> None:
    """Show the words that raised and lowered each label of a text, and other evidence for it."""
    given = [*(texts or ()), *(text or ())]
    if not given:
        raise SettingsError('No text is given. Give one, as in: longtail explain DIR "…".')
    if len(given) > 1:
        option = " with --text" if len(text or ()) > 1 else ", perhaps the words of one. Write a text in quotes"
        raise SettingsError(f"{len(given)} texts are given{option}. Give one, and explain the others one by one.")
    explanation = registry.load_tagger(folder).explain(text_from_shell(given[0]), label, k)
    print_json(explanation.as_dict()) if json else _print_explanation(explanation)


def _print_explanation(explanation: Explanation) -> None:
    if not explanation.words_known:
        print_result("No word of the text is known to the model.", style="yellow")
        if not len(explanation):
            print_result("The model suggests no label. --label NAME shows what it gives a label without any word.")
            return
    unit = (
        "log odds, which sum to those of the score"
        if explanation.method == "exact"
        else "change of the score without the word"
    )
    print_result(f"Effect of words: {unit}", style="dim")
    for label in explanation:
        points = "" if label.n_points is None else f"  ({number_of(label.n_points, 'training point')})"
        score = f"{label.score:.3f}" if label.listed else f"< {label.score:.3f}, not among the labels listed"
        print_result(f"\n{label.label}  {score}{points}", style="bold")
        out.print(_evidence_table(label))
    if explanation.words_left_out:
        left_out = number_of(explanation.words_left_out, "word")
        print_result(f"\nNot examined: {left_out} of this long text.", style="dim")


def _evidence_table(label: LabelExplanation) -> Table:
    """Return a table of the evidence for a label: words, matching label text, nearest training points, members."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, words in (("raised by", label.raised), ("lowered by", label.lowered)):
        shown = ", ".join(str(word) for word in words[:_WORDS_SHOWN])
        if shown:
            table.add_row(Text(f"  {name}", "dim"), Text(shown))
    if not label.words:
        table.add_row(Text("  words", "dim"), Text("no single word changes the score"))
    if label.bias is not None and label.bias < _CERTAIN:
        table.add_row(Text("  bias", "dim"), Text(f"{label.bias:+.3f}"))
    if label.label_words:
        table.add_row(Text("  in the label's text", "dim"), Text(", ".join(label.label_words[:_WORDS_SHOWN])))
    for at, point in enumerate(label.neighbours):
        names = ", ".join(_short_name(name) for name in point.labels[:_NEIGHBOUR_LABELS])
        names += ", …" if len(point.labels) > _NEIGHBOUR_LABELS else ""
        row = "" if point.row is None else f"row {point.row}: "
        table.add_row(Text("" if at else "  nearest points", "dim"), Text(f"{point.similarity:.2f}  {row}{names}"))
    for at, member in enumerate(label.members):
        score = f"{member.score:.3f} (rank {member.rank})" if member.score is not None else "not listed"
        share = "" if member.contribution is None else f"{member.contribution:+.2f}  "
        table.add_row(Text("" if at else "  members, log odds", "dim"), Text(f"{share}{member.member} {score}"))
    if label.without_members is not None:
        table.add_row("", Text(f"{label.without_members:+.2f}  without them"))
    return table


def _short_name(name: str) -> str:
    return name if len(name) <= _NAME_WIDTH else f"{name[: _NAME_WIDTH - 1]}…"
