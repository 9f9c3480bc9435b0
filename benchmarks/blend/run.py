"""Measure Blend: beside peers, with one member left out at a time, and on labels it has never seen.

    python -m benchmarks.blend.run [--parts accuracy,zero-shot] [--data debian-packages,tate]
                                   [--variants "blend,without knn"] [--seeds 0] [--data-root FOLDER]
                                   [--encoder FILE --vectors train.npy,test.npy,labels.npy] [--seconds 600]

- accuracy: each variant in a process of its own (as ``longtail compare`` does), on the given test part. The peers'
  figures beside it are those of ``benchmarks.peers``.
- with ready vectors of one data set, made by the encoder: the whole with and without them in one run, and the time that
  the encoder takes per text.
- zero-shot: labels hidden from training and added by their text (`benchmarks.zero_shot`).

A run replaces the figures of its own rows in ``results/blend.json``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

import longtail
from benchmarks import render, results
from benchmarks.paths import DATA_ROOT
from benchmarks.variants import Variant, measured
from benchmarks.zero_shot import zero_shot
from longtail.models.blend.members import points_compared
from longtail.models.epoch_ranker import usual_batch_size

PARTS = ("accuracy", "zero-shot")
WITH_VECTORS, WITHOUT_VECTORS = "with sentence vectors", "the same run without them"
_TEXTS_TIMED = 300
_MANY_LABELS = 20_000  # from here on Blend chooses one tree instead of one classifier per label
_SOME_POINTS, _FEW_FEATURES = range(1_000, 20_000), 5_000  # with which Blend chooses these too, without label text
_DECAF = "n_networks=1, epochs=5, n_candidates=1024, n_hard=4, dropout=0.1"
_FURTHER = {"fastxml": "fastxml(n_trees=50, cost=4.0)", "mnn": "mnn"}


def variants(shape: tuple[int, int], n_labels: int, text: bool) -> dict[str, Variant]:
    """Return the variants for data with so many points and features, and labels with or without text.

    Members are those that Blend chooses by the data, so that a variant differs from the whole by one member.
    """
    n_compared = points_compared(shape[0])
    decaf = f"{_DECAF}, batch_size={usual_batch_size(shape[0])}"
    members = {
        "linear": "dismec" if n_labels < _MANY_LABELS else "bonsai(n_trees=1)",
        "knn": f"knn(n_compared={n_compared})",
        **(_FURTHER if not text and shape[0] in _SOME_POINTS and shape[1] <= _FEW_FEATURES else {}),
        **({"textmatch": f"textmatch(n_compared={n_compared})"} if text else {}),
        "network": f"decaf({decaf})" if text else "glas",
    }
    named = {"blend": Variant("blend")}
    for left_out in members:
        rest = [member for name, member in members.items() if name != left_out]
        named[f"without {left_out}"] = Variant(f"blend([{', '.join(rest)}])")
    if text:
        named["no-text"] = Variant("blend", text=False)
        small = [*list(members.values())[:-1], f"decaf({decaf}, dtype='int8')"]
        named["int8"] = Variant(f"blend([{', '.join(small)}])")
    return named


def encoding_ms(encoder: str | None, texts: list[str] | None) -> float | None:
    """Return the milliseconds of one text on one thread, the median of some texts."""
    if encoder is None or texts is None:
        return None
    from longtail.data.encoders import make_encoder

    made = make_encoder(encoder)
    made.encode(texts[:1])
    taken = []
    for text in texts[:: max(1, len(texts) // _TEXTS_TIMED)]:
        start = time.perf_counter()
        made.encode([text], 1)
        taken.append(time.perf_counter() - start)
    return float(np.median(taken)) * 1e3


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--data", default="bibtex,delicious,debian-packages,tate,eurlex57k")
    parser.add_argument("--variants", help="comma-separated (default: all that suit the data)")
    parser.add_argument("--vectors", help="ready vectors of one data set, as for longtail train")
    parser.add_argument("--encoder", help="the encoder that made them, to measure its time")
    parser.add_argument("--seconds", type=float, help="time limit of Blend, where a machine has other work")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--data-root", type=Path, default=DATA_ROOT)
    options = parser.parse_args()
    parts = options.parts.split(",")
    seeds = [int(seed) for seed in options.seeds.split(",")]

    def keep(key: str, row: dict[str, Any], model: str) -> None:
        results.add("blend", key, row, model)
        print(key, results.rounded(row), flush=True)

    whole = "blend" if options.seconds is None else f"blend(seconds={options.seconds:g})"
    for name in options.data.split(",") if options.vectors else ():
        data = longtail.read(options.data_root / name, vectors=options.vectors)
        assert data.test is not None
        for key, row in measured(data, name, {WITH_VECTORS: Variant(whole)}, seeds):
            row |= {"vector_size": data.vector_size, "encode_ms": encoding_ms(options.encoder, data.test.texts)}
            keep(key, row, whole)
        plain = longtail.read(options.data_root / name)
        for key, row in measured(plain, name, {WITHOUT_VECTORS: Variant(whole)}, seeds):
            keep(key, row, whole)
    for name in options.data.split(",") if "accuracy" in parts else ():
        data = longtail.read(options.data_root / name)
        suitable = variants(data.X.shape, data.n_labels, data.Z is not None) | {"blend": Variant(whole)}
        wanted = options.variants.split(",") if options.variants else list(suitable)
        chosen = {variant: suitable[variant] for variant in wanted if variant in suitable}
        for key, row in measured(data, name, chosen, seeds):
            keep(key, row, chosen[row["variant"]].model)
    if "zero-shot" in parts:
        data = longtail.read(options.data_root / "debian-packages")
        keep("debian-packages zero-shot", zero_shot(data, "debian-packages", "blend"), "blend")
    render.render()


if __name__ == "__main__":
    main()
