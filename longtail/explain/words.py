"""The effect of each word of a text on the scores of labels.

An additive model has one weight per feature. The effect of a word is what its features add to the log odds, and all
effects and the bias sum to the log odds of the score.

For every other model words are left out one by one (occlusion). The effect of a word is the score with the word minus
the score without it. All variants of a text are predicted in one batch. A label may drop out of the predicted labels
when a word is left out. It then gets the lowest predicted score, so that the effect is a lower bound.
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
# In scripts without spaces between words each character is a word, because a run of them would be a whole sentence.
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
    """Remove spans of characters (start, end) from a text."""
    parts, end = [], 0
    for start, stop in spans:
        parts.append(text[end:start])
        end = stop
    return "".join([*parts, text[end:]])


def occlusion_table(scores: csr_array, labels: list[int], depth: int) -> np.ndarray:
    """Return the score of each label (columns) in each variant of the text (rows).

    A label that is missing from a full row gets the lowest score of that row. If it is missing from a shorter row, it
    gets 0.

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
    """Compute the effects of words from the scores of one label: of the whole text, then without each word."""
    effects = (column[0] - column[1:]).tolist()
    return _by_magnitude([ExplainedWord(word, e, spans[word]) for word, e in zip(words, effects, strict=True)])


def additive_effects(found: Contributions, vectorizer: Any, words: list[str], spans: Spans) -> list[ExplainedWord]:
    """Assign the contributions of features to words; their sum stays the same.

    The contribution of a feature that several words share, as with hashing, is divided among these words by how often
    they occur. A feature that belongs to no single word, such as a pair of words, is listed under its own name.
    """
    own = vectorizer.transform_terms(words) if words else csr_array((0, found.n_features), dtype=np.float32)
    occurrences = np.array([len(spans[word]) for word in words], float)
    per_feature, rows = np.zeros(found.n_features), entry_rows(own)
    np.add.at(per_feature, own.indices, occurrences[rows])
    total = np.zeros(found.n_features)
    total[found.columns] = found.effects
    divided = total[own.indices] * occurrences[rows] / per_feature[own.indices]
    per_word = np.bincount(rows, divided, minlength=len(words))
    effects = [ExplainedWord(word, effect, spans[word]) for word, effect in zip(words, per_word.tolist(), strict=True)]
    others = found.columns[per_feature[found.columns] == 0]
    if len(others):
        names = _feature_names(vectorizer, others)
        effects += [ExplainedWord(name, float(total[at]), []) for name, at in zip(names, others.tolist(), strict=True)]
    return _by_magnitude(effects)


def _feature_names(vectorizer: Any, columns: np.ndarray) -> list[str]:
    """Return the names of features, or their numbers if the vectoriser keeps no names."""
    try:
        return [str(name) for name in vectorizer.get_feature_names_out()[columns]]
    except ModelError:
        return [f"feature {column}" for column in columns.tolist()]


def _by_magnitude(effects: list[ExplainedWord]) -> list[ExplainedWord]:
    """Sort effects by magnitude, the largest first, and drop those that are rounding errors."""
    shown = [effect for effect in effects if abs(effect.effect) >= _LEAST_EFFECT]
    return sorted(shown, key=lambda effect: -abs(effect.effect))
