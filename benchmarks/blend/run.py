"""Measure Blend: beside peers, with one member left out at a time, and on labels it has never seen.

    python -m benchmarks.blend.run [--parts accuracy,zero-shot] [--data debian-packages,tate]
                                   [--variants "blend,without knn"] [--seeds 0] [--data-root FOLDER]

- accuracy: each variant in a process of its own (as ``longtail compare`` does), on the given test part. The peers'
  figures beside it are those of ``benchmarks.peers``.
- zero-shot: labels hidden from training and added by their text (`benchmarks.zero_shot`).

A run replaces the figures of its own rows in ``results/blend.json``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import longtail
from benchmarks import render, results
from benchmarks.paths import DATA_ROOT
from benchmarks.variants import Variant, measured
from benchmarks.zero_shot import zero_shot

PARTS = ("accuracy", "zero-shot")
_MANY_LABELS = 20_000  # from here on Blend chooses one tree instead of one classifier per label


def variants(n_labels: int, text: bool) -> dict[str, Variant]:
    """Return the variants for data with this many labels, with or without label text.

    Members are those that Blend chooses by the data, so that a variant differs from the whole by one member.
    """
    members = {
        "linear": "dismec(tolerance=0.3)" if n_labels < _MANY_LABELS else "bonsai(n_trees=1)",
        "knn": "knn",
        **({"textmatch": "textmatch"} if text else {}),
        "network": "decaf(n_candidates=1024)" if text else "glas",
    }
    named = {"blend": Variant("blend")}
    for left_out in members:
        rest = [member for name, member in members.items() if name != left_out]
        named[f"without {left_out}"] = Variant(f"blend([{', '.join(rest)}])")
    if text:
        named["no-text"] = Variant("blend", text=False)
        small = [*list(members.values())[:-1], "decaf(n_candidates=1024, dtype='int8')"]
        named["int8"] = Variant(f"blend([{', '.join(small)}])")
    return named


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--data", default="bibtex,delicious,debian-packages,tate,eurlex57k")
    parser.add_argument("--variants", help="comma-separated (default: all that suit the data)")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--data-root", type=Path, default=DATA_ROOT)
    options = parser.parse_args()
    parts = options.parts.split(",")
    seeds = [int(seed) for seed in options.seeds.split(",")]

    def keep(key: str, row: dict[str, Any], model: str) -> None:
        results.add("blend", key, row, model)
        print(key, results.rounded(row), flush=True)

    for name in options.data.split(",") if "accuracy" in parts else ():
        data = longtail.read(options.data_root / name)
        suitable = variants(data.n_labels, data.Z is not None)
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
