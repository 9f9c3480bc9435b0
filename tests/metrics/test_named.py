"""Metrics of lists of names, as a person has them."""

from __future__ import annotations

import pytest
from scipy.sparse import csr_array

from longtail.errors import DataError
from longtail.metrics import evaluate

TRUTH = [["moss", "botany"], ["bread"], [], None]


@pytest.mark.parametrize(
    "suggestions",
    [
        [[("moss", 0.9), ("mail", 0.2)], [("bread", 0.8)], [("mail", 0.1)], []],
        [["moss", "mail"], ["bread"], ["mail"], []],
        [{"mail": 0.2, "moss": 0.9}, {"bread": 0.8}, {}, {}],
    ],
)
def test_lists_give_what_matrices_give(suggestions):
    truth = csr_array([[1, 1, 0, 0], [0, 0, 1, 0], [0] * 4, [0] * 4])
    scores = csr_array([[0.9, 0, 0, 0.2], [0, 0, 0.8, 0], [0] * 4, [0] * 4])
    training = csr_array([[1, 1, 0, 0], [1, 0, 0, 0]])
    expected = evaluate(truth, scores, train_Y=training)
    assert evaluate(TRUTH, suggestions, train_Y=[["moss", "botany"], ["moss"]]) == pytest.approx(expected)
    assert "PSP@1" not in evaluate(TRUTH, suggestions)


@pytest.mark.parametrize(
    ("truth", "suggestions", "message"),
    [
        ([["a"]], [["a"], ["b"]], "Y_true has 1 point and scores 2"),
        (["a"], [["a"]], "Y_true has 'a' where a list belongs"),
        ([["a"]], csr_array([[1.0]]), "Y_true must be a scipy sparse matrix"),
    ],
)
def test_refusals(truth, suggestions, message):
    with pytest.raises(DataError, match=message):
        evaluate(truth, suggestions)
