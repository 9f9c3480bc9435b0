"""Explanations of suggestions: the words, training points, label text and members of a blend behind a label.

- ``explainer.py`` explains the labels of one text with all of the below; ``Tagger.explain`` calls it.
- ``words.py`` computes the effect of each word: exactly for additive models, by occlusion for all others.
- ``contributions.py`` computes the effect of each feature in additive models.
- ``evidence.py`` finds the nearest training points, matching words of label texts, and scores of a blend's members.
- ``explanation.py`` defines the result.
"""

from longtail.explain.explainer import explain_text
from longtail.explain.explanation import Explanation, LabelExplanation

__all__ = ["Explanation", "LabelExplanation", "explain_text"]
