"""Views of points and their mix: the same answers one by one, stored or not, and what joins them later."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array, eye_array

from longtail.labels.neighbours import Neighbours
from longtail.models.bonsai import Bonsai
from longtail.models.mixed import Mixed
from longtail.models.views import Views
from longtail.neural import embedded
from longtail.neural.instance import Instance
from longtail.neural.network import Network, NetworkSettings
from tests.contract import D, L, toy

ALL = np.arange(L, dtype=np.int32)


def views() -> Views:
    X, Y, Z = toy()
    found = Views(Bonsai(n_trees=1), n_neighbours=8, n_matches=4, texts=Neighbours.of(Z, csr_array(eye_array(L))))
    found.fit(X, Y)
    return found


def network(n_labels: int = L) -> Instance:
    settings = NetworkSettings(8, False, False, "adam", 0.0, 1.0)
    rng = np.random.default_rng(0)
    return embedded.answering(Network(D, n_labels, settings, rng.standard_normal(n_labels), rng), 1.0, None, 0)


def mixed() -> tuple[Mixed, csr_array, csr_array]:
    X, Y, _ = toy()
    model = Mixed(Views(Bonsai(n_trees=1), n_neighbours=8))
    model.fit(X, Y)
    model.settle(network(), ALL)
    return model, X, Y


def test_one_point_is_told_what_many_are() -> None:
    model, (X, _, _) = views(), toy(seed=1)
    assert len(model) == 3
    many = model.ask(X, 10, None)
    for i in (0, 7, X.shape[0] - 1):
        row = slice(X.indptr[i], X.indptr[i + 1])
        for (ptr, labels, chances, sure), one in zip(many, model.ask_one(X.indices[row], X.data[row], 10), strict=True):
            part = slice(ptr[i], ptr[i + 1])
            np.testing.assert_array_equal(one[1], labels[part])
            np.testing.assert_allclose(one[2], chances[part], rtol=1e-6)
            np.testing.assert_allclose(one[3], sure[i : i + 1], rtol=1e-6)


@pytest.mark.parametrize("missing", ["linear", "neighbours", "texts"])
def test_views_that_are_not_there_say_nothing(missing: str) -> None:
    model, (X, _, _) = views(), toy(seed=1)
    setattr(model, missing, None)
    assert len(model) == len(model.ask(X, 5, 1)) == 2


def test_views_are_stored_and_restored() -> None:
    model, (X, _, _) = views(), toy(seed=1)
    again = Views.restored(*model.state())
    for one, two in zip(model.ask(X, 10, 1), again.ask(X, 10, 1), strict=True):
        for a, b in zip(one, two, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_mix_is_learnt_and_stays_when_views_are_fitted_again() -> None:
    model, X, Y = mixed()
    plain = model.mix.weights.copy()
    held = toy(seed=2, n=100)
    model.learn(held[0], held[1], 1)
    learnt = model.mix.weights.copy()
    assert not np.allclose(plain, learnt)
    model.fit(X[:200], Y[:200])
    np.testing.assert_array_equal(model.mix.weights, learnt)
    again = Mixed.restored(*model.state())
    for one in (model, again):
        one.settle(network(), ALL)
    np.testing.assert_array_equal(model.answer(X, 5, 1).toarray(), again.answer(X, 5, 1).toarray())


def test_points_that_join_vote_and_a_label_unknown_to_trees_is_ranked_by_the_network() -> None:
    model, X, _ = mixed()
    before = model.counts.copy()
    more = np.zeros((2, L + 1), np.float32)
    more[0, [3, L]] = more[1, L] = 1
    model.join(X[:2], csr_array(more))
    model.settle(network(L + 1), np.arange(L + 1, dtype=np.int32))
    assert model.n_points == X.shape[0] + 2
    assert model.counts[L] == 2
    assert model.counts[3] == before[3] + 1
    assert L in model.views.ask(X[:1], L, 1)[1][1]
    np.testing.assert_array_equal(np.flatnonzero(model.ensemble.new), [L])
    found = model.answer(X[:1], L + 1, 1)
    asked = model.ensemble.instances[0].encoder(X.indptr[:2], X.indices, X.data, 1)
    odds = asked[0] @ model.ensemble.instances[0].labels[L]
    assert found.toarray()[0, L] == pytest.approx(1 / (1 + np.exp(-odds)), rel=1e-4)


def test_without_trees_no_label_is_unknown() -> None:
    X, Y, _ = toy()
    model = Mixed(Views(n_neighbours=8))
    model.fit(X, Y)
    model.join(X, csr_array((Y.data, Y.indices, Y.indptr), shape=(X.shape[0], L + 2)))
    assert model.known.all()
    assert len(model.known) == L + 2


def test_many_labels_are_searched_in_partitions_where_other_views_list_them_too() -> None:
    rng = np.random.default_rng(0)
    model = Network(D, 3000, NetworkSettings(8, False, False, "adam", 0.0, 1.0), np.zeros(3000), rng)
    X, _, _ = toy()
    kinds = [type(embedded.answering(model, 1.0, X, 0, mixed).index).__name__ for mixed in (False, True)]
    assert kinds == ["ExactIndex", "IVFIndex"]
    mixed = embedded.answering(model, 1.0, X, 0, True)
    exact = embedded.answering(model, 1.0, None, 0)
    found, wanted = (one.shortlist(one.encode(X.indptr, X.indices, X.data, 1), 10, 1) for one in (mixed, exact))
    shared = [len(np.intersect1d(a, b)) for a, b in zip(found, wanted, strict=True)]
    assert np.mean(shared) > 8.5
