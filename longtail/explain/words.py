"""The effect of each word of a text on the scores of labels.

Additive models have a weight per feature: the effect of a word is its share of the log odds, and the effects sum to the
score. For every other model a word is left out (occlusion): its effect is the score with the word minus the score
without it. All variants of a text are predicted in one batch. A label that leaves the best labels without a word
counts as if it had the lowest score among them, so that its effect is a lower bound.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from longtail.data.analyzers import UNSPACED
from longtail.errors import ModelError
from longtail.explain.contributions import Contributions
from longtail.explain.explanation import ExplainedWord
from longtail.sparse import entry_rows

Spans = dict[str, list[tuple[int, int]]]
# A character of a script without spaces between words is a word: a run of them would be a whole sentence.
_WORD = re.compile(rf"{UNSPACED.pattern}|(?:(?!{UNSPACED.pattern})\w)+(?:['’]\w+)*")
_LEAST_EFFECT = 5e-7  # smaller effects are rounding errors of single precision


def word_spans(text: str) -> Spans:
    """Return the positions of each different word, in characters.

    Examples
    --------
    >>> word_spans("Ein Hund in 北京")
    {'ein': [(0, 3)], 'hund': [(4, 8)], 'in': [(9, 11)], '北': [(12, 13)], '京': [(13, 14)]}
    """
    spans: Spans = {}
    for match in _WORD.finditer(text):
        spans.setdefault(match.group().casefold(), []).append(match.span())
    return spans


def text_without(text: str, spans: list[tuple[int, int]]) -> str:
    """Return the text without some parts of it."""
    parts, end = [], 0
    for start, stop in spans:
        parts.append(text[end:start])
        end = stop
    return "".join([*parts, text[end:]])


def occlusion_table(scores: csr_array, labels: list[int], depth: int) -> np.ndarray:
    """Return the score of each label (columns) in each variant (rows).

    A label that is missing from a full row gets the lowest score of the row; from a shorter row, 0.

    Parameters
    ----------
    scores : csr_array, (variants, L)
        Best labels per variant, from the highest to the lowest score.
    labels : list of int
        Labels to look up.
    depth : int
        Number of labels of a full row.
    """
    table = np.zeros((scores.shape[0], len(labels)))
    full = np.flatnonzero((np.diff(scores.indptr) == depth) & (depth < scores.shape[1]))
    table[full] = scores.data[scores.indptr[1:][full] - 1][:, None]
    rows = entry_rows(scores)
    for at, label in enumerate(labels):
        hits = np.flatnonzero(scores.indices == label)
        table[rows[hits], at] = scores.data[hits]
    return table


def occlusion_effects(column: np.ndarray, words: list[str], spans: Spans) -> list[ExplainedWord]:
    """Turn the scores of one label into effects; the first score is that of the whole text."""
    effects = (column[0] - column[1:]).tolist()
    return _by_magnitude([ExplainedWord(word, e, spans[word]) for word, e in zip(words, effects, strict=True)])


def additive_effects(found: Contributions, vectorizer: Any, words: list[str], spans: Spans) -> list[ExplainedWord]:
    """Assign the contributions of features to words; the sum stays the same.

    A feature that several words share, as in hashing, is divided among them by how often they occur. A feature of no
    single word, as a pair of words, is named by its term.
    """
    own = vectorizer.transform_terms(words) if words else csr_array((0, found.n_features), dtype=np.float32)
    times = np.array([len(spans[word]) for word in words], float)
    weight, rows = np.zeros(found.n_features), entry_rows(own)
    np.add.at(weight, own.indices, times[rows])
    total = np.zeros(found.n_features)
    total[found.columns] = found.effects
    per_word = np.bincount(rows, total[own.indices] * times[rows] / weight[own.indices], minlength=len(words))
    effects = [ExplainedWord(word, float(e), spans[word]) for word, e in zip(words, per_word.tolist(), strict=True)]
    others = found.columns[weight[found.columns] == 0]
    if len(others):
        names = _terms(vectorizer, others)
        effects += [ExplainedWord(name, float(total[at]), []) for name, at in zip(names, others.tolist(), strict=True)]
    return _by_magnitude(effects)


def _terms(vectorizer: Any, columns: np.ndarray) -> list[str]:
    """Return the names of features; their numbers where a vectoriser keeps no names."""
    try:
        return [str(name) for name in vectorizer.get_feature_names_out()[columns]]
    except ModelError:
        return [f"feature {column}" for column in columns.tolist()]


def _by_magnitude(effects: list[ExplainedWord]) -> list[ExplainedWord]:
    shown = [effect for effect in effects if abs(effect.effect) >= _LEAST_EFFECT]
    return sorted(shown, key=lambda effect: -abs(effect.effect))
