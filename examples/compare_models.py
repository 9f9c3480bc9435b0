"""Train several models on the same sparse matrices and compare their accuracy on frequent and on rare labels.

    python examples/compare_models.py [DATA] [MODEL ...]

DATA is a folder or file of features and labels, such as a data set of the Extreme Classification Repository. Without
arguments, the script generates one. P@k is the precision of the top k labels; PSP@k is the same with rare labels
weighted up; C@5 is the share of labels found at least once.
"""

from __future__ import annotations

import sys
import time

import longtail
from longtail.data import synthetic

METRICS = ("P@1", "P@5", "PSP@1", "PSP@5", "C@5")
data = longtail.read(sys.argv[1]) if len(sys.argv) > 1 else synthetic.make(2_000, 1_000, 300, labels_per_point=3)
models = sys.argv[2:] or ["popular", "parabel(n_trees=1)", "bonsai", "ranknet(bonsai)"]
if data.test is None:
    raise SystemExit(f"{sys.argv[1]} has no test part. Give a folder with a train and a test file.")

print(f"{data.n_points:,} training points, {data.n_features:,} features, {data.n_labels:,} labels\n")
print(f"{'model':<20}" + "".join(f"{metric:>8}" for metric in METRICS) + "  train s")
for name in models:
    ranker = longtail.make(name)
    start = time.perf_counter()
    ranker.fit(data.X, data.Y, label_features=data.Z)
    seconds = time.perf_counter() - start
    measured = longtail.evaluate(data.test.Y, ranker.predict(data.test.X, k=5), train_Y=data.Y)
    print(f"{name:<20}" + "".join(f"{measured[metric]:8.1f}" for metric in METRICS) + f"{seconds:9.1f}")
