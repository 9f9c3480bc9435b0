"""What rankers around rankers share."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from longtail.errors import SettingsError
from longtail.models.bonsai import Bonsai
from longtail.models.label_tree import LabelTreeRanker
from longtail.models.ranknet import RankNet
from longtail.models.taug import TAug
from longtail.models.wrapper import check_base, out_of_fold
from tests.contract import toy
from tests.fake import Centroid, Halving


class Memory(Centroid):
    """Knows by heart which points it was fitted to, and gives away on prediction whether a point was one of them."""

    def _fit(self, X, Y, Z, validation):
        super()._fit(X, Y, Z, validation)
        self.seen_ = {row.toarray().tobytes() for row in X}
        Memory.fitted_with_text = Z is not None

    def _predict(self, X, k):
        assert not any(row.toarray().tobytes() in self.seen_ for row in X), "scored a point it was fitted to"
        return super()._predict(X, k)


def test_out_of_fold_scores_are_of_copies_that_never_saw_the_point():
    X, Y, Z = toy()
    X.data += np.random.default_rng(0).random(X.nnz).astype(np.float32)  # so that no two rows are the same
    base = Memory()
    scores = out_of_fold(base, X, Y, Z, k=4, n_folds=3)
    assert scores.shape == Y.shape
    assert (np.diff(scores.indptr) == 4).all()
    assert (np.diff(scores.data.reshape(-1, 4), axis=1) <= 0).all()  # the best first, in each row
    assert Memory.fitted_with_text
    assert not hasattr(base, "n_labels_")
    assert (scores.multiply(Y).sum(axis=1) > 0).mean() > 0.9  # each row is that of its own point


@pytest.mark.parametrize("n_folds", [1, 301])
def test_impossible_folds_are_refused(n_folds):
    X, Y, _ = toy()
    with pytest.raises(SettingsError, match="n_folds"):
        out_of_fold(Centroid(), X, Y, n_folds=n_folds)


def test_unfitted_copies_parameters_and_nothing_learnt():
    X, Y, _ = toy()
    model = Halving(Centroid(sharpness=2.0), rounds=3)
    model.fit(X, Y)
    fresh = model.unfitted()
    assert fresh.rounds == 3
    assert fresh.base.sharpness == 2.0
    assert fresh.base is not model.base
    assert not hasattr(fresh, "n_labels_")
    assert not hasattr(fresh.base, "centroids_")


def test_unfitted_copies_rankers_in_lists():
    members = [Centroid(), Centroid(sharpness=3.0)]
    copy = Halving(members).unfitted().base
    assert [member.sharpness for member in copy] == [1.0, 3.0]
    assert all(one is not other for one, other in zip(copy, members, strict=True))


@pytest.mark.parametrize(
    ("base", "remedy"), [(Centroid, r"Centroid\(\)"), ("bonsai", "longtail.make"), (None, "Give a ranker")]
)
def test_what_is_no_ranker_is_refused_with_a_remedy(base, remedy):
    with pytest.raises(SettingsError, match=remedy):
        check_base(base, "RankNet")


def test_the_cost_is_searched_a_handful_of_times_whatever_is_wrapped(monkeypatch):
    searches = []
    grow = LabelTreeRanker._grow

    def counted(self, trees, X, Y, costs, *args, **kwargs):
        if len(costs) > 1:
            searches.append(costs)
        return grow(self, trees, X, Y, costs, *args, **kwargs)

    monkeypatch.setattr(LabelTreeRanker, "_grow", counted)
    X, Y, _ = toy(n=150)
    model = RankNet(TAug(Bonsai(n_trees=1)), n_folds=2).fit(X, Y)
    assert 1 <= len(searches) <= 3
    assert model.base_.base.cost is None  # the parameters are those of the base that was given
    assert model.base_.get_params().keys() == model.base.get_params().keys()


def test_fits_are_counted_before_they_start(caplog):
    model = RankNet(Bonsai(n_trees=1, cost=1.0), n_folds=3)
    assert model.n_fits() == {"ranknet": 1, "bonsai": 4}
    assert RankNet(model, n_folds=2).n_fits() == {"ranknet": 4, "bonsai": 12}
    assert RankNet(Bonsai(), method="inverse_propensity").n_fits() == {"ranknet": 1, "bonsai": 1}
    with caplog.at_level(logging.INFO, logger="longtail.models"):
        model.fit(*toy(n=60)[:2])
    assert caplog.messages[0] == "ranknet(bonsai): 4 fits of bonsai"


def test_a_tuned_wrapper_is_a_copy_around_a_tuned_base():
    X, Y, _ = toy(n=150)
    model = RankNet(Bonsai(n_trees=1))
    tuned = model.tuned(X, Y)
    assert tuned.base._settled > 0
    assert tuned.base.cost is None  # parameters stay as they were given
    assert not hasattr(model.base, "_settled")
    assert not hasattr(tuned, "n_labels_")
