"""A trained DECAF: points to vectors, vectors to a shortlist, exact log odds of any label."""

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
"""What the facts of a stored :class:`DecafScorer` must be."""
# Networks that list candidates where classifiers are searched. Without a third, P@k and B@k of held-out points fell by
# at most 0.1, and an answer took a third less time. By clusters, as in the paper, all networks list candidates.
_LISTING = 2
Encoded = tuple[np.ndarray, np.ndarray]


@dataclass
class DocumentEncoder:
    """Turns points into vectors: the token table, and the document block with its gates folded in."""

    tokens: np.ndarray  # (D, d)
    R: np.ndarray  # (d, d)
    gate: np.ndarray  # (d,)
    relu: bool = True  # whether a ReLU follows the block

    def __post_init__(self) -> None:
        self.tokens, self.R, self.gate = frozen(self.tokens), frozen(self.R), frozen(self.gate)

    def __call__(self, points: SparseRows, n_jobs: int | None) -> np.ndarray:
        """Return points as (N, d + 1); the last number is 1, for the biases."""
        out = np.empty((len(points.ptr) - 1, self.tokens.shape[1] + 1), np.float32)
        block = DocumentBlock(self.tokens, self.R, self.gate, np.float32(0 if self.relu else -np.inf))
        spread(lambda rows: kernels.encode_documents(points, block, *rows, out), len(out), n_jobs)
        return out


@dataclass
class TextEncoder:
    """Classifiers of labels that have text and nothing else: the label block with its gates folded in."""

    R: np.ndarray  # (d, d)
    gate: np.ndarray  # (d,)
    weight: np.ndarray  # (d,) σ(β), the text's part of a classifier
    bias: np.ndarray  # (1,) the bias that all labels share

    def __call__(self, tokens: np.ndarray, Z: csr_array, n_jobs: int | None) -> np.ndarray:
        """Return classifiers and biases, (n, d + 1), of labels by their features."""
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
    text : TextEncoder, optional
    labels : array, (n, d + 1)
        Classifiers, and biases as their last number.
    index : Index, optional
        What shortlists: of labels, or of clusters; None where a label tree does.
    guide : DocumentEncoder, optional
        The encoder that the clusters were learnt with.
    clusters : array, (K, d + 1), optional
        Classifiers of clusters and their biases.
    cluster_of : array, (n,), optional
    beam : int
        Clusters opened per point.
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
        """Whether its shortlists come from a search of the classifiers, and not of clusters or centroids."""
        return self.index is not None and self.clusters is None and self.index.metric == "ip"

    def encode(self, points: SparseRows, n_jobs: int | None) -> Encoded:
        """Return points as the ranker sees them and as the shortlister does, (N, d + 1) each."""
        x = self.encoder(points, n_jobs)
        return x, x if self.guide is None else self.guide(points, n_jobs)

    def shortlist(self, encoded: Encoded, width: int, n_jobs: int | None) -> np.ndarray:
        """Return positions of candidate labels, (N, about `width`), -1 for none."""
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
        """Return the log odds of labels at these positions, (N, S)."""
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
        """Return a network that knows further labels by their text; this one stays as it is."""
        assert self.text is not None
        fresh = self.text(self.encoder.tokens, Z, n_jobs)
        index, cluster_of = self.index, self.cluster_of
        if self.clusters is not None and cluster_of is not None:
            nearest = np.argmax(fresh[:, :-1] @ self.clusters[:, :-1].T, axis=1).astype(np.int32)
            cluster_of = np.concatenate([cluster_of, nearest])
        elif index is not None:
            found_by = fresh.copy()
            if index.metric == "cosine":  # centroids, which have no bias
                found_by[:, -1] = 0
            index = index.extended(found_by)
        return replace(self, labels=np.concatenate([self.labels, fresh]), index=index, cluster_of=cluster_of)

    # Storing -----------------------------------------------------------------------------------------------------

    def rounded(self, dtype: str) -> TrainedNetwork:
        """Return the network as it is once stored and loaded."""
        return self if dtype == "float32" else TrainedNetwork.restored(*self.state(dtype))

    def state(self, dtype: str) -> tuple[dict[str, Any], Arrays]:
        """Return facts and arrays to store; `dtype` "int8" rounds token vectors and classifiers."""
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
            facts["index"], held = self.index.to_arrays()
            held.pop("vectors", None)  # they are the classifiers, kept above
            arrays |= with_prefix("index.", held)
        return facts, arrays

    @staticmethod
    def array_rules(facts: dict[str, Any], names: Container[str], prefix: str) -> Rules:
        """Declare what the arrays of :meth:`state` must be, for the network whose arrays begin with `prefix`."""
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
        """Build what :meth:`state` took apart."""
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
    """Points as the networks see them."""

    vectors: list[Encoded]  # of each network
    keys: np.ndarray | None  # (N,) word keys, where own labels are left out


class DecafScorer:
    """Trained networks as one scorer of pairs: shortlists united, probabilities averaged.

    Parameters
    ----------
    networks : list of TrainedNetwork
    label_ids : array, (n,)
        Numbers of the labels that the networks know.
    n_labels : int
        Number of all labels.
    text : csr_array, (n, D), optional
        Text of the labels, needed only while a combiner is trained.
    label_keys : array, (n,), optional
        Word keys of the labels' texts, where own labels are never correct (:mod:`longtail.labels.own_labels`).
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
        """Return points as each network sees them."""
        keys = None if self.label_keys is None else word_keys(points, n_jobs)
        return EncodedPoints([network.encode(points, n_jobs) for network in self.networks], keys)

    def shortlist(self, encoded: EncodedPoints, width: int, n_jobs: int | None) -> np.ndarray:
        """Return candidate labels, (N, S), -1 for none."""
        n_listing = _LISTING if all(network.searches_labels for network in self.networks) else len(self.networks)
        listing = zip(self.networks[:n_listing], encoded.vectors[:n_listing], strict=True)
        lists = [network.shortlist(vectors, width, n_jobs) for network, vectors in listing]
        positions = lists[0] if len(lists) == 1 else _mark_repeats(np.concatenate(lists, axis=1))
        self._leave_out_own(encoded, positions, n_jobs)
        return self.labels.numbers(positions, n_jobs)

    def _leave_out_own(self, encoded: EncodedPoints, positions: np.ndarray, n_jobs: int | None) -> None:
        """Replace own labels in lists of positions by -1, where they are never correct."""
        if encoded.keys is not None and self.label_keys is not None:
            mask_own_labels(encoded.keys, self.label_keys, positions, n_jobs)

    def log_odds(self, encoded: EncodedPoints, labels: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return log odds of listed labels, (N, S); of several networks, those of the mean of their probabilities."""
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
        """Return log odds of pairs by the label's text alone, or by the whole classifier where there is no text."""
        network, positions = self.networks[0], self.labels.position[labels]
        distinct, at = np.unique(positions, return_inverse=True)
        vectors = network.labels[distinct]
        if self.text is not None and network.text is not None:
            trained = np.flatnonzero(distinct < self.text.shape[0])  # the others are known by their text alone
            vectors[trained] = network.text(network.encoder.tokens, self.text[distinct[trained]], n_jobs)
        odds = np.einsum("ij,ij->i", encoded.vectors[0][0][rows], vectors[at])
        if encoded.keys is not None and self.label_keys is not None:
            odds[is_own(encoded.keys[rows], self.label_keys[positions])] = FLOOR
        return odds

    def extended(
        self, Z: csr_array, label_ids: np.ndarray, n_labels: int, dtype: str, n_jobs: int | None
    ) -> DecafScorer:
        """Return a scorer that knows further labels by their text, rounded to `dtype`; this one stays as it is."""
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
        """Whether labels can be scored by their text."""
        return self.networks[0].text is not None

    # Storing -----------------------------------------------------------------------------------------------------

    def state(self, dtype: str) -> tuple[dict[str, Any], Arrays]:
        """Return facts and arrays to store."""
        arrays: Arrays = {"label_ids": self.labels.ids}
        facts: dict[str, Any] = {"networks": []}
        for number, network in enumerate(self.networks):
            own, held = network.state(dtype)
            facts["networks"].append(own)
            arrays |= with_prefix(f"{number}.", held)
        return facts, arrays if self.label_keys is None else arrays | {"label_keys": self.label_keys}

    @staticmethod
    def array_rules(facts: dict[str, Any], names: Container[str]) -> Rules:
        """Declare what the arrays of :meth:`state` must be."""
        rules = Rules({"label_ids": indices("n", below="L", distinct=True, dtypes="i4 i8")})
        if "label_keys" in names:
            rules |= Rules({"label_keys": codes("n", "u8")})
        for number, own in enumerate(facts["networks"]):
            rules |= TrainedNetwork.array_rules(own, names, f"{number}.")
        return rules

    @classmethod
    def restored(cls, facts: dict[str, Any], arrays: Arrays, n_labels: int) -> Self:
        """Build what :meth:`state` took apart."""
        networks = [
            TrainedNetwork.restored(own, without_prefix(f"{number}.", arrays))
            for number, own in enumerate(facts["networks"])
        ]
        return cls(networks, np.array(arrays["label_ids"]), n_labels, label_keys=arrays.get("label_keys"))


def _mark_repeats(lists: np.ndarray) -> np.ndarray:
    """Replace all but the first of equal numbers in a row by -1."""
    order = np.argsort(lists, axis=1, kind="stable")
    ordered = np.take_along_axis(lists, order, axis=1)
    repeated = np.zeros(lists.shape, bool)
    repeated[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    again = np.empty_like(repeated)
    np.put_along_axis(again, order, repeated, axis=1)
    return np.where(again, -1, lists)


def _stored_table(name: str, table: np.ndarray, dtype: str) -> Arrays:
    """Return a table to store: as it is, or as int8 with a scale per row, a quarter of the size."""
    if dtype != "int8":
        return {name: table}
    # A scale is a power of two, so that a table once rounded is rounded to itself ever after.
    most = np.abs(table).max(axis=1, initial=0, keepdims=True) / np.float32(127)
    scale = np.exp2(np.ceil(np.log2(np.where(most > 0, most, 1)))).astype(np.float32)
    return {name: np.rint(table / scale).astype(np.int8), f"{name}.scale": scale}


def _table_rules(name: str, rows: str, width: str, eight_bits: bool) -> Rules:
    """Declare what the arrays of :func:`_stored_table` must be."""
    if not eight_bits:
        return Rules({name: floats(f"{rows} {width}")})
    return Rules({name: codes(f"{rows} {width}"), f"{name}.scale": floats(f"{rows} 1")})


def _loaded_table(name: str, arrays: Arrays) -> np.ndarray:
    """Return a table that :func:`_stored_table` made."""
    scale = arrays.get(f"{name}.scale")
    return arrays[name] if scale is None else arrays[name] * scale
