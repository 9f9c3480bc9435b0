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
_VARIANT_LABELS = 50  # labels to predict per variant of the text, so that a label that drops far is still found


def explain_text(
    tagger: Tagger,
    text: str,
    labels: Sequence[int] | None = None,
    k: int = 5,
    *,
    max_words: int = 1000,
    exact: bool = True,
) -> Explanation:
    """Explain the best labels of a text, or the labels that are given.

    Parameters
    ----------
    tagger : Tagger
        A fitted tagger that reads text.
    text : str
        The text whose labels are explained.
    labels : sequence of int, optional
        Labels to explain instead of the best ones.
    k : int
        Number of best labels to explain.
    max_words : int
        Number of different words to compute effects for, at most. Further words of a longer text are left out.
    exact : bool
        Compute effects from the weights if the model is additive. If False, and for all other models, compute them by
        occlusion.
    """
    spans = word_spans(text)
    words = list(spans)[:max_words]
    point = tagger.features([text])
    terms, vector = _terms_and_vector(tagger, point)
    depth = min(tagger.n_labels_, max(_VARIANT_LABELS, 4 * k))
    best = tagger.ranker_.predict(point, depth)
    if labels is None:  # as in prediction, a text without a known word gets no labels
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
    """Split the features of a point into its terms and the vector of its text; None if the model uses no vector."""
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
    """Compute the effects of the words on each label by occlusion.

    One batch predicts the text and all its variants, each without one word. All variants have the vector of the whole
    text, because encoding each of them would take seconds. The effect of the vector shows in the contributions of the
    members.
    """
    variants = [text, *(text_without(text, spans[word]) for word in words)]
    inputs = variants if vector is None else tagger.features(variants, np.repeat(vector, len(variants), axis=0))
    table = occlusion_table(tagger.predict(inputs, depth), labels, depth)
    return [occlusion_effects(table[:, at], words, spans) for at in range(len(labels))]


def _sums(
    tagger: Tagger, point: csr_array, labels: list[int], scores: np.ndarray, best: csr_array
) -> list[Contributions] | None:
    """Return the contributions to each label; None if a label has none, or if they do not sum to its score."""
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
