"""``longtail explain``: why labels were suggested for a text."""

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
_NEIGHBOUR_LABELS = 6  # of a neighbour
_CERTAIN = 1000.0  # a bias beyond it is no weight: it stands for the probability 1 of a model's only label
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
    for one in explanation:
        points = "" if one.n_points is None else f"  ({number_of(one.n_points, 'training point')})"
        score = f"{one.score:.3f}" if one.listed else f"< {one.score:.3f}, not among the labels listed"
        print_result(f"\n{one.label}  {score}{points}", style="bold")
        out.print(_facts_table(one))
    if explanation.words_left_out:
        left_out = number_of(explanation.words_left_out, "word")
        print_result(f"\nNot looked at: {left_out} of this long text.", style="dim")


def _facts_table(one: LabelExplanation) -> Table:
    """Return words, matching label text, near training points and members as lines with a heading each."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, words in (("raised by", one.raised), ("lowered by", one.lowered)):
        shown = ", ".join(str(word) for word in words[:_WORDS_SHOWN])
        if shown:
            table.add_row(Text(f"  {name}", "dim"), Text(shown))
    if not one.words:
        table.add_row(Text("  words", "dim"), Text("no single word changes the score"))
    if one.bias is not None and one.bias < _CERTAIN:
        table.add_row(Text("  bias", "dim"), Text(f"{one.bias:+.3f}"))
    if one.label_words:
        table.add_row(Text("  in the label's text", "dim"), Text(", ".join(one.label_words[:_WORDS_SHOWN])))
    for at, point in enumerate(one.neighbours):
        names = ", ".join(_short_name(name) for name in point.labels[:_NEIGHBOUR_LABELS])
        names += ", …" if len(point.labels) > _NEIGHBOUR_LABELS else ""
        row = "" if point.row is None else f"row {point.row}: "
        table.add_row(Text("" if at else "  nearest points", "dim"), Text(f"{point.similarity:.2f}  {row}{names}"))
    for at, member in enumerate(one.members):
        own = f"{member.score:.3f} (rank {member.rank})" if member.score is not None else "not listed"
        share = "" if member.contribution is None else f"{member.contribution:+.2f}  "
        table.add_row(Text("" if at else "  members, log odds", "dim"), Text(f"{share}{member.member} {own}"))
    if one.without_members is not None:
        table.add_row("", Text(f"{one.without_members:+.2f}  without them"))
    return table


def _short_name(name: str, longest: int = 30) -> str:
    return name if len(name) <= longest else f"{name[: longest - 1]}…"
