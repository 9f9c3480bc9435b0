"""A trained DECAF instance: points to vectors, vectors to a shortlist, exact log odds of any label asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array

from longtail import index as search
from longtail.index.base import Index, frozen
from longtail.kernels import shortlist as kernels
from longtail.kernels.pool import spread
from longtail.labels.clusters import members
from longtail.neural.network import encode_all
from longtail.neural.text_learner import Encoder
from longtail.neural.text_network import TextNetwork

Arrays = dict[str, np.ndarray]
Encoded = tuple[np.ndarray, np.ndarray]
ONE_BY_ONE = 2048  # labels that are searched one by one; more, in partitions


class PointEncoder(Protocol):
    """What turns points into vectors: DECAF's network, or another one."""

    tokens: np.ndarray  # (D, d)

    def __call__(self, ptr: np.ndarray, idx: np.ndarray, val: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Points given by the three arrays of their CSR as (N, d + 1); the last number meets the labels' biases."""


@dataclass
class TextEncoder:
    """Classifiers of labels that have text and nothing else: the label block with its gates folded in."""

    R: np.ndarray  # (d, d)
    gate: np.ndarray  # (d,)
    weight: np.ndarray  # (d,) σ(β), the text's part of a classifier
    bias: np.ndarray  # (1,) the bias that all labels share

    @classmethod
    def of(cls, network: TextNetwork) -> TextEncoder | None:
        """That of a network; None where it has learnt nothing about text."""
        if not network.has_text:
            return None
        gate_a, gate_b = (1 / (1 + np.exp(-network.tables[f"label.{part}"])) for part in "ab")
        weight = network.both.gates()[1][0] if network.has_refinement else np.ones_like(gate_b[0])
        return cls(network.tables["label.R"] * gate_a, gate_b[0], weight, network.tables["c0"][0])

    def __call__(self, tokens: np.ndarray, Z: csr_array, n_jobs: int | None) -> np.ndarray:
        """Classifiers and biases, (n, d + 1), of labels by their features."""
        d = tokens.shape[1]
        zero = np.zeros(d, np.float32)
        v = encode_all(Z.indptr, Z.indices, Z.data, tokens, zero, False, False, True, n_jobs)
        out = np.empty((len(v), d + 1), np.float32)
        z = np.maximum(v, 0) @ self.R
        z += v * self.gate
        np.multiply(z, self.weight, out=out[:, :d])
        out[:, d] = self.bias[0]
        return out


@dataclass
class Instance:
    """One member of the ensemble.

    Attributes
    ----------
    encoder : PointEncoder
    text : TextEncoder, optional
    labels : array, (L, d + 1)
        Classifiers, and biases as their last number.
    index : Index, optional
        What shortlists: of labels, or of clusters; None where another model does.
    guide : Encoder, optional
        The encoder that clusters were learnt with.
    clusters : array, (K, d + 1), optional
        Classifiers of clusters and their biases.
    cluster_of : array, (L,), optional
    beam : int
        Clusters opened for a point.
    """

    encoder: PointEncoder
    text: TextEncoder | None
    labels: np.ndarray
    index: Index | None
    guide: Encoder | None = None
    clusters: np.ndarray | None = None
    cluster_of: np.ndarray | None = None
    beam: int = 0

    def __post_init__(self) -> None:
        # Mapped or just trained, arrays have one type for the compiler.
        for part in (self.encoder, self.guide, self.text):
            for name, value in vars(part).items() if part is not None else ():
                if isinstance(value, np.ndarray):
                    setattr(part, name, frozen(value))
        self.labels = frozen(self.labels)
        if self.clusters is not None and self.cluster_of is not None:
            self.clusters, self.cluster_of = frozen(self.clusters), frozen(self.cluster_of)
            self._members = tuple(frozen(part) for part in members(self.cluster_of, len(self.clusters)))
            self._largest = int(np.diff(self._members[0]).max(initial=0))

    def encode(self, ptr: np.ndarray, idx: np.ndarray, val: np.ndarray, n_jobs: int | None) -> Encoded:
        """Points as the ranker sees them and as the shortlister does, (N, d + 1) each."""
        x = self.encoder(ptr, idx, val, n_jobs)
        return x, x if self.guide is None else self.guide(ptr, idx, val, n_jobs)

    def shortlist(self, encoded: Encoded, width: int, n_jobs: int | None) -> np.ndarray:
        """Labels worth scoring: (N, about `width`), -1 for none."""
        x = encoded[1]
        if self.index is None:
            return np.empty((len(x), 0), np.int32)
        n = min(width if self.clusters is None else self.beam, len(self.index))
        if len(x) == 1:
            found = self.index.search_one(x[0], n)[0][None]
        else:
            found, _ = self.index.search(x, n, n_jobs=n_jobs)
        if self.clusters is None:
            return found
        out = np.empty((len(x), max(1, found.shape[1] * self._largest)), np.int32)
        spread(lambda block: kernels.expand(found, *self._members, *block, out), len(x), n_jobs)
        return out

    def log_odds(self, encoded: Encoded, lists: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Log odds of the listed labels, (N, S); minus infinity for none."""
        x, seen_by_guide = encoded
        out = np.empty(lists.shape, np.float32)

        def work(block: tuple[int, int]) -> None:
            kernels.score(x, self.labels, lists, *block, out)
            if self.clusters is not None:
                kernels.weigh_by_clusters(seen_by_guide, self.clusters, self.cluster_of, lists, *block, out)

        spread(work, len(x), n_jobs)
        return out

    def rounded(self, dtype: str) -> Instance:
        """Itself as it will be once stored and loaded."""
        return self if dtype == "float32" else Instance.restored(*self.state(dtype))

    def add(self, Z: csr_array, n_jobs: int | None) -> None:
        """Append labels by their text."""
        assert self.text is not None
        fresh = self.text(self.encoder.tokens, Z, n_jobs)
        self.labels = frozen(np.concatenate([self.labels, fresh]))
        if self.clusters is not None and self.cluster_of is not None:
            nearest = np.argmax(fresh[:, :-1] @ self.clusters[:, :-1].T, axis=1).astype(np.int32)
            self.cluster_of = np.concatenate([self.cluster_of, nearest])
        elif self.index is not None:
            found_by = fresh.copy()
            if self.index.metric == "cosine":  # centroids, which have no bias
                found_by[:, -1] = 0
            self.index.add(found_by)
        self.__post_init__()

    # Storing -----------------------------------------------------------------------------------------------------

    def state(self, dtype: str) -> tuple[dict[str, Any], Arrays]:
        """Facts and arrays; `dtype` "int8" keeps tokens and classifiers in whole steps of a scale a row."""
        arrays = packed("labels", self.labels, dtype)
        for part, encoder in (("encoder", self.encoder), ("guide", self.guide)):
            if isinstance(encoder, Encoder):  # a ranker with an encoder of its own stores that itself
                arrays |= packed(f"{part}.tokens", encoder.tokens, dtype)
                arrays |= {f"{part}.R": encoder.R, f"{part}.gate": encoder.gate}
        if self.text is not None:
            arrays |= {f"text.{name}": array for name, array in vars(self.text).items()}
        if self.clusters is not None and self.cluster_of is not None:
            arrays |= {"clusters": self.clusters, "cluster_of": self.cluster_of}
        facts: dict[str, Any] = {"beam": self.beam, "index": None}
        if self.index is not None:
            facts["index"], held = self.index.to_arrays()
            # The vectors under search are the classifiers, kept above.
            arrays |= {f"index.{name}": array for name, array in held.items() if name != "vectors"}
        return facts, arrays

    @classmethod
    def restored(cls, facts: dict[str, Any], arrays: Arrays) -> Instance:
        """What :meth:`state` took apart."""
        labels = unpacked("labels", arrays)
        encoder, guide = (
            Encoder(unpacked(f"{part}.tokens", arrays), arrays[f"{part}.R"], arrays[f"{part}.gate"])
            if f"{part}.R" in arrays
            else None
            for part in ("encoder", "guide")
        )
        assert encoder is not None
        text = None
        if "text.R" in arrays:
            text = TextEncoder(**{name: arrays[f"text.{name}"] for name in ("R", "gate", "weight", "bias")})
        clusters = arrays.get("clusters")
        index = None
        if facts["index"] is not None:
            held = {name[6:]: array for name, array in arrays.items() if name.startswith("index.")}
            held["vectors"] = labels if clusters is None else clusters
            index = search.from_arrays(facts["index"], held)
        return cls(encoder, text, labels, index, guide, clusters, arrays.get("cluster_of"), facts["beam"])


def packed(name: str, table: np.ndarray, dtype: str) -> Arrays:
    """A table to store: as it is, or as int8 with a scale for each row."""
    if dtype != "int8":
        return {name: table}
    # A scale is a power of two, so that a table once rounded is rounded to itself ever after.
    most = np.abs(table).max(axis=1, initial=0, keepdims=True) / np.float32(127)
    scale = np.exp2(np.ceil(np.log2(np.where(most > 0, most, 1)))).astype(np.float32)
    return {name: np.rint(table / scale).astype(np.int8), f"{name}.scale": scale}


def unpacked(name: str, arrays: Arrays) -> np.ndarray:
    """A table that :func:`packed` made."""
    scale = arrays.get(f"{name}.scale")
    return arrays[name] if scale is None else arrays[name] * scale
