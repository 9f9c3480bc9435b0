"""``longtail optimize``: find the number of labels and the threshold with the best F1."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longtail import registry
from longtail.cli.console import as_word, out, print_json, print_remark, print_result, written
from longtail.cli.evaluate import labelled_part
from longtail.cli.options import DataPath, JsonFlag, ModelFolder, VectorDataOptions
from longtail.cli.progress_bar import doing
from longtail.errors import ModelError, number_of

if TYPE_CHECKING:
    from longtail.metrics.thresholds import Thresholds
    from longtail.tagger import Tagger

_LIMITS = (1, 2, 3, 5, 10, 20, 50)
_THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


class F1Average(StrEnum):
    """The kinds of F1 that can be maximised."""

    micro = "micro"
    macro = "macro"
    example = "example"


GoalOption = Annotated[F1Average, typer.Option(help="Which F1 to maximise.")]
ByFrequencyFlag = Annotated[
    bool, typer.Option("--by-frequency", help="Choose one threshold per bin of label frequency.")
]
SaveFlag = Annotated[bool, typer.Option("--save", help="Store the best threshold in the model, for --threshold auto.")]


def optimize_threshold(
    folder: ModelFolder,
    data: DataPath,
    goal: GoalOption = F1Average.micro,
    by_frequency: ByFrequencyFlag = False,
    save: SaveFlag = False,
    json: JsonFlag = False,
    *,
    options: VectorDataOptions,
) -> None:
    """Compare limits and thresholds on the test part of DATA or, if it has none, on all of it.

    The points must not be those that the model was trained on.
    """
    tagger = registry.load_tagger(folder)
    saved_alone = tagger.label_counts_ is None
    if saved_alone and (save or by_frequency):
        raise ModelError(
            f"{folder}: holds a ranker alone, which keeps neither label frequencies nor thresholds. "
            "Leave out --save and --by-frequency, or train the model with longtail train."
        )
    _, part, which = labelled_part(tagger, options, data, folder)
    print_remark(f"optimizing on {which}: {number_of(part.n_points, 'point')}")

    from longtail.cli.tables import thresholds_table
    from longtail.metrics.thresholds import choose_thresholds, threshold_table
    from longtail.sparse import resized

    with doing("predicting"):
        scores = resized(tagger.ranker_.predict(part.X, max(_LIMITS)), n_columns=part.n_labels)
    with doing("comparing thresholds"):
        table = threshold_table(part.Y, scores, _LIMITS, _THRESHOLDS, goal=goal.value, ignore=part.ignore)
        tried = [
            choose_thresholds(part.Y, scores, goal=goal.value, limit=limit, ignore=part.ignore) for limit in _LIMITS
        ]
        best = max(tried, key=lambda thresholds: round(thresholds.f1, 2))  # the smallest limit if several are equal
        if by_frequency:
            import numpy as np

            n_unknown = part.n_labels - len(tagger.label_counts_)
            counts = np.append(tagger.label_counts_, np.zeros(n_unknown, np.int64))
            best = choose_thresholds(
                part.Y, scores, goal=goal.value, limit=best.limit, counts=counts, ignore=part.ignore
            )
    rows = [{"limit": limit, "f1": f1.tolist()} for limit, f1 in zip(_LIMITS, table, strict=True)]
    facts: dict[str, Any] = {"goal": goal.value, "thresholds": _THRESHOLDS, "table": rows, "best": best.to_json()}
    if save:
        _save_thresholds(folder, tagger, best)
    if json:
        print_json(facts | {"saved": save})
        return
    out.print(thresholds_table(facts))
    print_result(f"Best: at most {number_of(best.limit, 'label')}, threshold {best}: {goal.value}-F1 {best.f1:.2f}")
    if not save and len(set(best.values)) == 1:
        decisions = f"--threshold {best} -k {best.limit}"
        print_result(f'Try: longtail predict {as_word(folder)} {decisions} --text "…", or keep it with --save')
    if save:
        print_result(f'{written(folder)}. Try: longtail predict {as_word(folder)} --threshold auto --text "…"')


def _save_thresholds(folder: Path, measured: Tagger, best: Thresholds) -> None:
    """Load the model again and store thresholds in it: its labels may have been changed in the meantime."""
    from longtail import store

    with store.locked(folder.absolute()):  # no other process may change it between loading and saving
        tagger: Any = registry.load(folder, mmap=False)
        if any(tagger.notes_.get(key) != measured.notes_.get(key) for key in ("training", "training_data")):
            raise ModelError(f"{folder}: was trained again in the meantime, so these thresholds do not fit. Try again.")
        tagger.notes_["thresholds"] = best.to_json()
        tagger.save(folder)
