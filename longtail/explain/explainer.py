"""Explain the labels of one text: words, nearest training points, label text and members of a blend."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from longtail.explain.contributions import Contributions, contributions, is_additive
from longtail.explain.evidence import TOLERANCE, matching_words, member_scores, near_points
from longtail.explain.explanation import EXACT, OCCLUSION, ExplainedWord, Explanation, LabelExplanation
from longtail.explain.words import (
    Spans,
    additive_effects,
    occlusion_effects,
    occlusion_table,
    text_without,
    word_spans,
)

if TYPE_CHECKING:
    from longtail.tagger import Tagger

_log = logging.getLogger("longtail.explain")
_VARIANT_LABELS = 50  # labels per variant, so that a label which falls by many positions is still found


def explain_text(
    tagger: Tagger,
    text: str,
    labels: Sequence[int] | None = None,
    k: int = 5,
    *,
    max_words: int = 1000,
    exact: bool = True,
) -> Explanation:
    """Explain the best labels of a text, or given labels.

    Parameters
    ----------
    tagger : Tagger
        A fitted tagger that reads text.
    text : str
        The text.
    labels : sequence of int, optional
        Labels to explain instead of the best ones.
    k : int
        Number of best labels.
    max_words : int
        Number of different words to look at, at most. Further words of a longer text are left out.
    exact : bool
        Use the weights of models in which features add up. Otherwise, and for all other models, by occlusion.
    """
    spans = word_spans(text)
    words = list(spans)[:max_words]
    point = tagger.features([text])
    terms, vector = _terms_and_vector(tagger, point)
    depth = min(tagger.n_labels_, max(_VARIANT_LABELS, 4 * k))
    best = tagger.ranker_.predict(point, depth)
    if labels is None:  # as in a prediction, a text without a known word has no suggestions
        wanted = best.indices[:k].tolist() if point.nnz else []
    else:
        wanted = [int(label) for label in labels]
    own = occlusion_table(best, wanted, depth)[0]
    sums = _sums(tagger, point, wanted, own, best) if exact and is_additive(tagger.ranker_) else None
    if sums is not None:
        effects = [additive_effects(one, tagger.vectorizer_, words, spans) for one in sums]
        own = np.array([one.score for one in sums])
    else:
        effects = _occlude(tagger, text, vector, words, spans, wanted, depth)
    names, counts = tagger.label_names_, tagger.label_counts_
    near = near_points(tagger.ranker_, terms, wanted, names, tagger.n_points_)
    matched = matching_words(tagger.ranker_, tagger.vectorizer_, terms, wanted, names, words)
    members = member_scores(tagger.ranker_, point, wanted, depth)
    listed = set(best.indices.tolist())
    return Explanation(
        text=text,
        method=OCCLUSION if sums is None else EXACT,
        labels=[
            LabelExplanation(
                label=names[label],
                number=label,
                score=float(own[at]),
                listed=label in listed,
                words=effects[at],
                bias=None if sums is None else sums[at].bias,
                label_words=matched[at],
                neighbours=near[at],
                members=members[at][0],
                without_members=members[at][1],
                n_points=None if counts is None else int(counts[label]),
            )
            for at, label in enumerate(wanted)
        ],
        words_tried=len(words),
        words_left_out=len(spans) - len(words),
        words_known=int(terms.nnz),
    )


def _terms_and_vector(tagger: Tagger, point: csr_array) -> tuple[csr_array, np.ndarray | None]:
    """Divide the features of a point into its terms and, if the model uses one, the vector of its text."""
    n_terms = tagger.vectorizer_.n_features_ if tagger.vectorizer_ is not None else point.shape[1]
    if point.shape[1] == n_terms:
        return point, None
    return csr_array(point[:, :n_terms]), point[:, n_terms:].toarray()


def _occlude(
    tagger: Tagger,
    text: str,
    vector: np.ndarray | None,
    words: list[str],
    spans: Spans,
    labels: list[int],
    depth: int,
) -> list[list[ExplainedWord]]:
    """Return the effects of the words on each label, from one batch with every variant of the text.

    All variants have the vector of the whole text: to encode each of them would take seconds. What the vector adds is
    among the contributions of the members.
    """
    variants = [text, *(text_without(text, spans[word]) for word in words)]
    given = variants if vector is None else tagger.features(variants, np.repeat(vector, len(variants), axis=0))
    table = occlusion_table(tagger.predict(given, depth), labels, depth)
    return [occlusion_effects(table[:, at], words, spans) for at in range(len(labels))]


def _sums(
    tagger: Tagger, point: csr_array, labels: list[int], scores: np.ndarray, best: csr_array
) -> list[Contributions] | None:
    """Return the contributions to each label, compared with its score; None if a label has none or they differ."""
    each = [contributions(tagger.ranker_, point, label) for label in labels]
    listed = set(best.indices.tolist())
    sums = []
    for label, score, one in zip(labels, scores, each, strict=True):
        if one is None:
            return None
        if label in listed and abs(one.score - score) > TOLERANCE:
            _log.warning(
                "The contributions to label %d sum to %.4f, but its score is %.4f; the words are occluded instead.",
                label,
                one.score,
                score,
            )
            return None
        sums.append(one)
    return sums
