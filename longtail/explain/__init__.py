"""Explanations of suggestions: the words, training points, label text and members of a blend behind a label.

- ``explainer.py``: one text and its labels, from all of the below; ``Tagger.explain`` calls it.
- ``words.py``: the effect of each word, exact for additive models and by occlusion for all others.
- ``evidence.py``: nearest training points, matching words of label texts, scores of the members of a blend.
- ``explanation.py``: what is returned.
"""

from longtail.explain.explainer import explain_text
from longtail.explain.explanation import Explanation, LabelExplanation

__all__ = ["Explanation", "LabelExplanation", "explain_text"]
