"""What objects show in a notebook."""

from __future__ import annotations

from longtail import Tagger, TextVectorizer
from longtail.data import Dataset

EVIL = "<script>alert(1)</script>"
TEXTS = [f"a red apple {EVIL}", "a car"]
LABELS = [["fruit", EVIL], ["vehicle"]]


def test_a_tagger_shows_its_model_and_frequent_labels() -> None:
    assert "not fitted" in Tagger("popular")._repr_html_()
    shown = Tagger("popular").fit(TEXTS, LABELS)._repr_html_()
    assert "Popular" in shown
    assert "vehicle" in shown
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown


def test_a_dataset_shows_its_first_points() -> None:
    tagger = Tagger("popular").fit(TEXTS, LABELS)
    from longtail.names import LabelNumbers

    names = LabelNumbers(list(tagger.label_names_))
    Y = names.matrix(LABELS, 2)
    data = Dataset(TextVectorizer().fit_transform(TEXTS), Y, texts=TEXTS, label_names=names.in_order(), name=EVIL)
    shown = data._repr_html_()
    assert "fruit" in shown
    assert "<script" not in shown
    assert "1.5 per point" in shown
    assert "not computed" in Dataset(None, Y)._repr_html_()
