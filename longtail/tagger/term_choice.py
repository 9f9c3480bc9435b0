"""Choose the n-grams of a vectoriser on held-out points: what ``ngrams="auto"`` means.

Pairs of words help with some data and harm with other, such as short titles. They always cost time and memory. A sample
of the points is split in two, and one label tree per choice is fitted to the larger part. The choice that ranks the
other part best is taken. A choice with more terms must be better by half a percentage point.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from longtail.combine.selection import LABELS_MEASURED, held_out_metrics
from longtail.data.split import hold_out_points
from longtail.progress import stage
from longtail.sparse import labelled_rows

if TYPE_CHECKING:
    from longtail.data import TextVectorizer

_WORD_RANGES: tuple[int | tuple[int, int], ...] = (1, (1, 2))
_CHARACTER_RANGES: tuple[int | tuple[int, int], ...] = ((1, 3), (3, 5))
_TEXTS_SAMPLED, _HELD_OUT_SHARE = 12_000, 0.1
_MIN_GAIN = 0.5  # percentage points by which more terms must be better
_PROPENSITY = 0.55, 1.5
_RANGE_NAMES = {
    1: "words",
    (1, 2): "words and pairs of words",
    (1, 3): "1 to 3 characters",
    (3, 5): "3 to 5 characters",
}


def with_chosen_ngrams(vectorizer: TextVectorizer, texts: Sequence[str], Y: csr_array) -> TextVectorizer:
    """Return the vectoriser itself or, if its `ngrams` is "auto", an unfitted one with the best n-grams.

    Parameters
    ----------
    vectorizer : TextVectorizer
    texts : sequence of str
        Training texts.
    Y : csr_array, (N, L)
        Their labels.
    """
    if not isinstance(vectorizer.ngrams, str):
        return vectorizer
    from longtail.data.text import TextVectorizer
    from longtail.models.bonsai import Bonsai

    rng = np.random.default_rng(0)
    rows = labelled_rows(Y)
    rows = np.sort(rng.permutation(rows)[:_TEXTS_SAMPLED])
    train, held = (rows[part] for part in hold_out_points(Y[rows], _HELD_OUT_SHARE))
    choices: dict[int | tuple[int, int], float] = {}
    params = vectorizer.get_params()
    terms_only = params | {"encoder": None}  # vectors do not depend on the choice
    with stage("choosing n-grams") as done:
        first = TextVectorizer(**terms_only | {"ngrams": None}).fit([texts[at] for at in rows[:1000].tolist()])
        offered = _CHARACTER_RANGES if first.analyzer_ == "char_wb" else _WORD_RANGES
        for ngrams in offered:
            trial = TextVectorizer(**terms_only | {"ngrams": ngrams})
            X = trial.fit_transform([texts[at] for at in train.tolist()])
            if len(held):
                ranker = Bonsai(n_trees=1, cost=1.0, n_jobs=vectorizer.n_jobs).fit(X, Y[train])
                scores = ranker.predict(trial.transform([texts[at] for at in held.tolist()]), LABELS_MEASURED)
                choices[ngrams] = held_out_metrics(Y[held], scores, Y[train], _PROPENSITY)["goal"]
            done(1 / len(offered))
    best = offered[0]
    for ngrams, goal in choices.items():
        if goal >= choices[best] + _MIN_GAIN:
            best = ngrams
    compared = ", ".join(f"{_RANGE_NAMES[ngrams]} {goal:.2f}" for ngrams, goal in choices.items())
    logging.getLogger("longtail.tagger").info(
        "Terms are %s. The mean of P and B at 1 and 5 on held-out points: %s.", _RANGE_NAMES[best], compared or "none"
    )
    return TextVectorizer(**params | {"ngrams": best})
