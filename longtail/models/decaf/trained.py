"""A trained DECAF for prediction: encode points, shortlist labels, compute the log odds of any label."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array

from longtail import index as search
from longtail.errors import ModelError
from longtail.index import Index
from longtail.kernels import decaf as kernels
from longtail.kernels.combine import FLOOR
from longtail.kernels.decaf import DocumentBlock
from longtail.kernels.encode import SparseRows
from longtail.kernels.pool import spread
from longtail.labels.clusters import members
from longtail.labels.own_labels import is_own, mask_own_labels, word_keys
from longtail.neural.encoding import sum_tokens
from longtail.neural.search import KnownLabels, score_listed, search_labels
from longtail.params import Integer, optional
from longtail.sparse import Arrays, frozen, with_prefix, without_prefix
from longtail.store.facts import YES_NO, ListOf, Record
from longtail.store.invariants import REMEDY, Rules, codes, floats, indices

FACTS = {"networks": ListOf(Record({"beam": Integer(0), "relu": YES_NO, "index": optional(Record())}), 1, 1000)}
"""Constraints of the facts of a stored :class:`DecafScorer`."""
# Number of networks that list candidates if these come from a search of the classifiers. Compared with three networks,
# P@k and B@k of held-out points fell by 0.1 at most, and a prediction took a third less time. With clusters, as in the
# paper, all networks list candidates.
_LISTING = 2
Encoded = tuple[np.ndarray, np.ndarray]


@dataclass
class DocumentEncoder:
    """The encoder of points: token table and document block."""

    tokens: np.ndarray  # (D, d)
    R: np.ndarray  # (d, d) with the gate σ(a) multiplied in
    gate: np.ndarray  # (d,) σ(b)
    relu: bool = True  # whether a ReLU follows the block

    def __post_init__(self) -> None:
        self.tokens, self.R, self.gate = frozen(self.tokens), frozen(self.R), frozen(self.gate)

    def __call__(self, points: SparseRows, n_jobs: int | None) -> np.ndarray:
        """Return encoded points, (N, d + 1); the last column is 1 and multiplies the biases."""
        out = np.empty((len(points.ptr) - 1, self.tokens.shape[1] + 1), np.float32)
        block = DocumentBlock(self.tokens, self.R, self.gate, np.float32(0 if self.relu else -np.inf))
        spread(lambda rows: kernels.encode_documents(points, block, *rows, out), len(out), n_jobs)
        return out


@dataclass
class TextEncoder:
    """The label block, which makes classifiers of labels that have text only."""

    R: np.ndarray  # (d, d) with the gate σ(a) multiplied in
    gate: np.ndarray  # (d,) σ(b)
    weight: np.ndarray  # (d,) σ(β), the weight of the text in a classifier
    bias: np.ndarray  # (1,) the bias that all such labels share

    def __call__(self, tokens: np.ndarray, Z: csr_array, n_jobs: int | None) -> np.ndarray:
        """Return the classifiers and biases (n, d + 1) of labels with text Z (n, D)."""
        d = tokens.shape[1]
        v = sum_tokens(SparseRows.of(Z), tokens, None, n_jobs)
        out = np.empty((len(v), d + 1), np.float32)
        z = np.maximum(v, 0) @ self.R
        z += v * self.gate
        np.multiply(z, self.weight, out=out[:, :d])
        out[:, d] = self.bias[0]
        return out


@dataclass
class TrainedNetwork:
    """One network of the ensemble.

    Attributes
    ----------
    encoder : DocumentEncoder
        Encodes points.
    text : TextEncoder, optional
        Makes classifiers of labels that have text only.
    labels : array, (n, d + 1)
        Classifiers; the last column has the biases.
    index : Index, optional
        Index that shortlists labels or clusters; None if a label tree does.
    guide : DocumentEncoder, optional
        Encoder with which the clusters were learnt.
    clusters : array, (K, d + 1), optional
        Classifiers of clusters; the last column has the biases.
    cluster_of : array, (n,), optional
        The cluster of each label.
    beam : int
        Number of clusters opened per point.
    """

    encoder: DocumentEncoder
    text: TextEncoder | None
    labels: np.ndarray
    index: Index | None
    guide: DocumentEncoder | None = None
    clusters: np.ndarray | None = None
    cluster_of: np.ndarray | None = None
    beam: int = 0

    def __post_init__(self) -> None:
        self.labels = frozen(self.labels)
        if self.clusters is not None and self.cluster_of is not None:
            self.clusters, self.cluster_of = frozen(self.clusters), frozen(self.cluster_of)
            self._members = tuple(frozen(part) for part in members(self.cluster_of, len(self.clusters)))
            self._largest = int(np.diff(self._members[0]).max(initial=0))

    @property
    def searches_labels(self) -> bool:
        """Whether shortlists come from a search of the classifiers, and not from clusters or centroids."""
        return self.index is not None and self.clusters is None and self.index.metric == "ip"

    def encode(self, points: SparseRows, n_jobs: int | None) -> Encoded:
        """Encode points for the ranker and for the shortlister, (N, d + 1) each."""
        x = self.encoder(points, n_jobs)
        return x, x if self.guide is None else self.guide(points, n_jobs)

    def shortlist(self, encoded: Encoded, width: int, n_jobs: int | None) -> np.ndarray:
        """Return candidate labels as positions, (N, about `width`), -1 for none."""
        x = encoded[1]
        if self.index is None:
            return np.empty((len(x), 0), np.int32)
        positions = search_labels(self.index, x, width if self.clusters is None else self.beam, n_jobs)
        if self.clusters is None:
            return positions
        out = np.empty((len(x), max(1, positions.shape[1] * self._largest)), np.int32)
        spread(lambda block: kernels.expand_clusters(positions, *self._members, *block, out), len(x), n_jobs)
        return out

    def log_odds(self, encoded: Encoded, positions: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return the log odds of the labels at `positions`, (N, S)."""
        out = score_listed(encoded[0], self.labels, positions, n_jobs)
        if self.clusters is not None:
            guided, clusters, cluster_of = encoded[1], self.clusters, self.cluster_of
            spread(
                lambda block: kernels.weigh_by_clusters(guided, clusters, cluster_of, positions, *block, out),
                len(out),
                n_jobs,
            )
        return out

    def extended(self, Z: csr_array, n_jobs: int | None) -> TrainedNetwork:
        """Return a network with further labels, whose text is Z (n, D); this one does not change."""
        assert self.text is not None
        new = self.text(self.encoder.tokens, Z, n_jobs)
        index, cluster_of = self.index, self.cluster_of
        if self.clusters is not None and cluster_of is not None:
            nearest = np.argmax(new[:, :-1] @ self.clusters[:, :-1].T, axis=1).astype(np.int32)
            cluster_of = np.concatenate([cluster_of, nearest])
        elif index is not None:
            vectors = new.copy()
            if index.metric == "cosine":  # an index of centroids, which have no bias
                vectors[:, -1] = 0
            index = index.extended(vectors)
        return replace(self, labels=np.concatenate([self.labels, new]), index=index, cluster_of=cluster_of)

    # Storing -----------------------------------------------------------------------------------------------------

    def rounded(self, dtype: str) -> TrainedNetwork:
        """Return the network with the rounded weights that it would have after it is stored and loaded."""
        return self if dtype == "float32" else TrainedNetwork.restored(*self.state(dtype))

    def state(self, dtype: str) -> tuple[dict[str, Any], Arrays]:
        """Return facts and arrays to store. With `dtype` "int8" token vectors and classifiers are rounded."""
        arrays = _stored_table("labels", self.labels, dtype)
        for name, encoder in (("encoder", self.encoder), ("guide", self.guide)):
            if encoder is not None:
                arrays |= _stored_table(f"{name}.tokens", encoder.tokens, dtype)
                arrays |= {f"{name}.R": encoder.R, f"{name}.gate": encoder.gate}
        if self.text is not None:
            arrays |= with_prefix("text.", vars(self.text))
        if self.clusters is not None and self.cluster_of is not None:
            arrays |= {"clusters": self.clusters, "cluster_of": self.cluster_of}
        facts: dict[str, Any] = {"beam": self.beam, "relu": self.encoder.relu, "index": None}
        if self.index is not None:
            facts["index"], of_index = self.index.to_arrays()
            of_index.pop("vectors", None)  # they are the classifiers, which are stored above
            arrays |= with_prefix("index.", of_index)
        return facts, arrays

    @staticmethod
    def array_rules(facts: dict[str, Any], names: Container[str], prefix: str) -> Rules:
        """Declare the rules that the arrays of :meth:`state` must meet; their names begin with `prefix`."""
        d, k = f"d{prefix}", f"clusters{prefix}"
        present = {part for part in ("guide.R", "text.R", "clusters") if f"{prefix}{part}" in names}
        rules = _table_rules("labels", "n", f"{d}+1", f"{prefix}labels.scale" in names)
        for name in ("encoder", "guide") if "guide.R" in present else ("encoder",):
            rules |= _table_rules(f"{name}.tokens", "D", d, f"{prefix}{name}.tokens.scale" in names)
            rules |= Rules({f"{name}.R": floats(f"{d} {d}"), f"{name}.gate": floats(d)})
        if "text.R" in present:
            text = {"R": floats(f"{d} {d}"), "gate": floats(d), "weight": floats(d), "bias": floats("1")}
            rules |= Rules(text).prefixed("text.")
        if "clusters" in present:
            rules |= Rules({"clusters": floats(f"{k} {d}+1"), "cluster_of": indices("n", below=k)})
        if facts["index"] is not None:
            stored = search.array_rules(facts["index"], k if "clusters" in present else "n", f"{d}+1", graph=True)
            stored = Rules({name: rule for name, rule in stored.arrays.items() if name != "vectors"})
            rules |= stored.prefixed("index.")
        return rules.prefixed(prefix)

    @classmethod
    def restored(cls, facts: dict[str, Any], arrays: Arrays) -> Self:
        """Restore the network from what :meth:`state` returned."""
        labels = _loaded_table("labels", arrays)
        encoder, guide = (
            DocumentEncoder(
                _loaded_table(f"{name}.tokens", arrays), arrays[f"{name}.R"], arrays[f"{name}.gate"], facts["relu"]
            )
            if f"{name}.R" in arrays
            else None
            for name in ("encoder", "guide")
        )
        assert encoder is not None
        text = TextEncoder(**without_prefix("text.", arrays)) if "text.R" in arrays else None
        clusters = arrays.get("clusters")
        index = None
        if facts["index"] is not None:
            vectors = {"vectors": labels if clusters is None else clusters}
            index = search.from_arrays(facts["index"], without_prefix("index.", arrays) | vectors)
            if index.vectors.shape != vectors["vectors"].shape:
                raise ModelError(f"the index does not have the vectors of the network. {REMEDY}")
        return cls(encoder, text, labels, index, guide, clusters, arrays.get("cluster_of"), facts["beam"])


class EncodedPoints(NamedTuple):
    """Points encoded by all networks."""

    vectors: list[Encoded]  # of each network
    keys: np.ndarray | None  # (N,) word keys, if own labels are left out


class DecafScorer:
    """An ensemble of networks that scores pairs: it unites their shortlists and averages their probabilities.

    Parameters
    ----------
    networks : list of TrainedNetwork
        The networks.
    label_ids : array, (n,)
        Numbers of the labels that the networks score.
    n_labels : int
        Number of all labels.
    text : csr_array, (n, D), optional
        Text of the labels, needed only while a combiner is trained.
    label_keys : array, (n,), optional
        Word keys of the label texts. Give them if own labels are never correct (:mod:`longtail.labels.own_labels`).
    """

    def __init__(
        self,
        networks: list[TrainedNetwork],
        label_ids: np.ndarray,
        n_labels: int,
        text: csr_array | None = None,
        label_keys: np.ndarray | None = None,
    ) -> None:
        self.networks, self.n_labels, self.text = networks, n_labels, text
        self.labels = KnownLabels(label_ids, n_labels)
        self.label_keys = None if label_keys is None else frozen(label_keys)

    def encode(self, points: SparseRows, n_jobs: int | None) -> EncodedPoints:
        """Encode points with each network."""
        keys = None if self.label_keys is None else word_keys(points, n_jobs)
        return EncodedPoints([network.encode(points, n_jobs) for network in self.networks], keys)

    def shortlist(self, encoded: EncodedPoints, width: int, n_jobs: int | None) -> np.ndarray:
        """Return candidate labels, (N, S), -1 for none."""
        n_listing = _LISTING if all(network.searches_labels for network in self.networks) else len(self.networks)
        listing = zip(self.networks[:n_listing], encoded.vectors[:n_listing], strict=True)
        lists = [network.shortlist(vectors, width, n_jobs) for network, vectors in listing]
        positions = lists[0] if len(lists) == 1 else _without_repeats(np.concatenate(lists, axis=1))
        self._leave_out_own(encoded, positions, n_jobs)
        return self.labels.numbers(positions, n_jobs)

    def _leave_out_own(self, encoded: EncodedPoints, positions: np.ndarray, n_jobs: int | None) -> None:
        """Replace own labels by -1 in place, if they are never correct."""
        if encoded.keys is not None and self.label_keys is not None:
            mask_own_labels(encoded.keys, self.label_keys, positions, n_jobs)

    def log_odds(self, encoded: EncodedPoints, labels: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return the log odds of listed labels, (N, S): those of the mean probability of all networks."""
        positions = self.labels.positions(labels, n_jobs)
        self._leave_out_own(encoded, positions, n_jobs)
        odds = [n.log_odds(e, positions, n_jobs) for n, e in zip(self.networks, encoded.vectors, strict=True)]
        if len(odds) > 1:
            total = np.zeros(labels.shape, np.float64)
            for each in odds:
                spread(lambda block, each=each: kernels.add_probabilities(each, *block, total), len(total), n_jobs)
            spread(lambda block: kernels.mean_log_odds(total, len(odds), *block, odds[0]), len(total), n_jobs)
        return odds[0]

    def text_log_odds(
        self, encoded: EncodedPoints, rows: np.ndarray, labels: np.ndarray, n_jobs: int | None
    ) -> np.ndarray:
        """Return the log odds of pairs by the label's text alone; without text, by the whole classifier."""
        network, positions = self.networks[0], self.labels.position[labels]
        distinct, at = np.unique(positions, return_inverse=True)
        vectors = network.labels[distinct]
        if self.text is not None and network.text is not None:
            trained = np.flatnonzero(
                distinct < self.text.shape[0]
            )  # classifiers of the others are made of text already
            vectors[trained] = network.text(network.encoder.tokens, self.text[distinct[trained]], n_jobs)
        odds = np.einsum("ij,ij->i", encoded.vectors[0][0][rows], vectors[at])
        if encoded.keys is not None and self.label_keys is not None:
            odds[is_own(encoded.keys[rows], self.label_keys[positions])] = FLOOR
        return odds

    def extended(
        self, Z: csr_array, label_ids: np.ndarray, n_labels: int, dtype: str, n_jobs: int | None
    ) -> DecafScorer:
        """Return a scorer with further labels, whose text is Z, rounded to `dtype`; this one does not change."""
        networks = self.networks
        if len(label_ids):
            networks = [network.extended(Z, n_jobs).rounded(dtype) for network in networks]
        ids = np.concatenate([self.labels.ids, label_ids]).astype(np.int32)
        keys = self.label_keys
        if keys is not None:
            keys = np.concatenate([keys, word_keys(SparseRows.of(Z), n_jobs)])
        return DecafScorer(networks, ids, n_labels, self.text, keys)

    @property
    def knows_text(self) -> bool:
        """Whether labels can be scored by their text alone."""
        return self.networks[0].text is not None

    # Storing -----------------------------------------------------------------------------------------------------

    def state(self, dtype: str) -> tuple[dict[str, Any], Arrays]:
        """Return facts and arrays to store."""
        arrays: Arrays = {"label_ids": self.labels.ids}
        facts: dict[str, Any] = {"networks": []}
        for number, network in enumerate(self.networks):
            network_facts, network_arrays = network.state(dtype)
            facts["networks"].append(network_facts)
            arrays |= with_prefix(f"{number}.", network_arrays)
        return facts, arrays if self.label_keys is None else arrays | {"label_keys": self.label_keys}

    @staticmethod
    def array_rules(facts: dict[str, Any], names: Container[str]) -> Rules:
        """Declare the rules that the arrays of :meth:`state` must meet."""
        rules = Rules({"label_ids": indices("n", below="L", distinct=True, dtypes="i4 i8")})
        if "label_keys" in names:
            rules |= Rules({"label_keys": codes("n", "u8")})
        for number, own in enumerate(facts["networks"]):
            rules |= TrainedNetwork.array_rules(own, names, f"{number}.")
        return rules

    @classmethod
    def restored(cls, facts: dict[str, Any], arrays: Arrays, n_labels: int) -> Self:
        """Restore the scorer from what :meth:`state` returned."""
        networks = [
            TrainedNetwork.restored(own, without_prefix(f"{number}.", arrays))
            for number, own in enumerate(facts["networks"])
        ]
        return cls(networks, np.array(arrays["label_ids"]), n_labels, label_keys=arrays.get("label_keys"))


def _without_repeats(lists: np.ndarray) -> np.ndarray:
    """Replace repeated numbers in a row by -1, all but the first of each."""
    order = np.argsort(lists, axis=1, kind="stable")
    ordered = np.take_along_axis(lists, order, axis=1)
    repeats_ordered = np.zeros(lists.shape, bool)
    repeats_ordered[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    repeats = np.empty_like(repeats_ordered)
    np.put_along_axis(repeats, order, repeats_ordered, axis=1)
    return np.where(repeats, -1, lists)


def _stored_table(name: str, table: np.ndarray, dtype: str) -> Arrays:
    """Return the arrays to store for a table: itself, or int8 codes with a scale per row, a quarter of the size."""
    if dtype != "int8":
        return {name: table}
    # Scales are powers of two, so that a table that was rounded before does not change when it is rounded again.
    most = np.abs(table).max(axis=1, initial=0, keepdims=True) / np.float32(127)
    scale = np.exp2(np.ceil(np.log2(np.where(most > 0, most, 1)))).astype(np.float32)
    return {name: np.rint(table / scale).astype(np.int8), f"{name}.scale": scale}


def _table_rules(name: str, rows: str, width: str, eight_bits: bool) -> Rules:
    """Declare the rules that the arrays of :func:`_stored_table` must meet."""
    if not eight_bits:
        return Rules({name: floats(f"{rows} {width}")})
    return Rules({name: codes(f"{rows} {width}"), f"{name}.scale": floats(f"{rows} 1")})


def _loaded_table(name: str, arrays: Arrays) -> np.ndarray:
    """Restore a table from the arrays of :func:`_stored_table`."""
    scale = arrays.get(f"{name}.scale")
    return arrays[name] if scale is None else arrays[name] * scale
