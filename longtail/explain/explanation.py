"""The explanation of a text's labels, as plain values that can be printed, written as JSON or shown on a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

EXACT, OCCLUSION = "exact", "occlusion"

_WORDS_PRINTED = 6
_TEXT_PRINTED = 60  # characters of the text
_ROUNDED_TO_ZERO = 0.0005  # smaller effects would be printed as 0.000


@dataclass(frozen=True)
class ExplainedWord:
    """The effect of one word on the score of a label.

    Attributes
    ----------
    word : str
        The word in lower case.
    effect : float
        By occlusion: the score with the word minus the score without it. Exact: what the word adds to the log odds.
    spans : list of (int, int)
        Start and end of each occurrence in the text, in characters; empty for a term of several words.
    """

    word: str
    effect: float
    spans: list[tuple[int, int]]

    def __str__(self) -> str:
        """Return the word and its effect; a small effect has one significant digit, since near a score of 1 all are."""
        return f"{self.word} {self.effect:{'+.3f' if abs(self.effect) >= _ROUNDED_TO_ZERO else '+.0e'}}"


@dataclass(frozen=True)
class Neighbour:
    """A training point near the text that has the label.

    Attributes
    ----------
    similarity : float
        Cosine of the two texts.
    labels : list of str
        All of its labels.
    row : int or None
        Its row in the training data, counted from 0; corrections that were learnt later follow. None if the model keeps
        a part of the points only, because their rows are then not known.
    """

    similarity: float
    labels: list[str]
    row: int | None = None


@dataclass(frozen=True)
class MemberScore:
    """Score and rank that one member of a blend gives a label.

    Attributes
    ----------
    member : str
        Kind of the member, such as "bonsai".
    score, rank : float and int, or None
        Score and rank (from 1) of the label in the member's list; None if it does not list the label.
    contribution : float or None
        What the member adds to the log odds of the label; None if the blend does not list the label.
    """

    member: str
    score: float | None
    rank: int | None
    contribution: float | None = None


@dataclass(frozen=True)
class LabelExplanation:
    """One label with the evidence for and against it.

    Attributes
    ----------
    label : str
        Name of the label.
    number : int
        Number of the label: its column in Y.
    score : float
        Score of the label. If it is not listed, an upper bound: the lowest score that is listed.
    listed : bool
        Whether the label is among those that the model lists for the text.
    words : list of ExplainedWord
        Words by descending magnitude of their effect.
    bias : float or None
        Log odds of the label without any word, if the method is exact: effects and bias sum to the log odds of the
        score.
    label_words : list of str
        Words that the text shares with the label's own text, the most important first.
    neighbours : list of Neighbour
        The nearest training points with this label, if the model keeps training points.
    members : list of MemberScore
        Score and rank that each member of a blend gives the label.
    without_members : float or None
        Log odds of the label if no member of the blend listed it. It and the contributions of the members sum to the
        log odds of the blend's score.
    n_points : int or None
        Number of training points of the label, if known.
    """

    label: str
    number: int
    score: float
    listed: bool
    words: list[ExplainedWord]
    bias: float | None = None
    label_words: list[str] = field(default_factory=list)
    neighbours: list[Neighbour] = field(default_factory=list)
    members: list[MemberScore] = field(default_factory=list)
    without_members: float | None = None
    n_points: int | None = None

    def __str__(self) -> str:
        """Return the label, its score and the strongest words in one line."""
        score = f"{self.score:.3f}" if self.listed else f"< {self.score:.3f}"
        words = ", ".join(str(word) for word in self.words[:_WORDS_PRINTED])
        return f"{self.label}  {score}  {words or 'no word has an effect'}"

    @property
    def raised(self) -> list[ExplainedWord]:
        """Words that raise the score, the strongest first."""
        return [word for word in self.words if word.effect > 0]

    @property
    def lowered(self) -> list[ExplainedWord]:
        """Words that lower the score, the strongest first."""
        return [word for word in self.words if word.effect < 0]


@dataclass(frozen=True)
class Explanation:
    """Explained labels of one text, best first. Iterate over it to get the labels.

    Attributes
    ----------
    text : str
        The text.
    method : {"exact", "occlusion"}
        How the effects were computed. Exact effects are log odds; effects by occlusion are differences of the score.
    labels : list of LabelExplanation
        The labels, best first.
    words_tried : int
        Number of different words whose effect was computed.
    words_left_out : int
        Number of further words of a long text, whose effect was not computed.
    words_known : int
        Number of different features of the text that are in the vocabulary. If it is 0, there is nothing to explain.
    """

    text: str
    method: str
    labels: list[LabelExplanation]
    words_tried: int
    words_left_out: int
    words_known: int

    def __iter__(self) -> Iterator[LabelExplanation]:
        return iter(self.labels)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, at: int) -> LabelExplanation:
        return self.labels[at]

    def __str__(self) -> str:
        """Return one line per label, with its score and its strongest words."""
        unit = "log odds" if self.method == "exact" else "change of the score"
        shown = self.text[:_TEXT_PRINTED]
        if not self.labels:
            return f"{shown}  (no label: no word of the text is known to the model)"
        return "\n".join([f"{shown}  (effect of words: {unit})", *(f"  {one}" for one in self)])

    def as_dict(self) -> dict[str, Any]:
        """Return the explanation as a dict of JSON values."""
        return asdict(self)
