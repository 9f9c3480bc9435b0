"""The metrics once more, from their definitions alone: sets, lists and loops, no array code shared with the library."""

from __future__ import annotations

import math

Rows = list[dict[int, float]]  # one dict a point: label -> value


def labels_of(row: dict[int, float]) -> set[int]:
    return {label for label, value in row.items() if value != 0}


def ranking(row: dict[int, float]) -> list[int]:
    return sorted(row, key=lambda label: (-row[label], label))


def drop(rows: Rows, ignore: list[tuple[int, int]]) -> Rows:
    return [{label: v for label, v in row.items() if (i, label) not in set(ignore)} for i, row in enumerate(rows)]


def propensity_weights(train: Rows, n_labels: int, A: float = 0.55, B: float = 1.5) -> list[float]:
    C = (math.log(len(train)) - 1) * (B + 1) ** A
    counts = [sum(label in labels_of(row) for row in train) for label in range(n_labels)]
    return [1 + C * (count + B) ** -A for count in counts]


def evaluate(truth: Rows, scores: Rows, w: list[float], k: int) -> dict[str, float]:
    points = [(labels_of(t), ranking(s)[:k]) for t, s in zip(truth, scores, strict=True) if labels_of(t)]
    n = len(points)
    precision = ndcg = recall = gained = best = gained_dcg = best_dcg = 0.0
    found: set[int] = set()
    known: set[int] = set()
    for true, ranked in points:
        right = [label in true for label in ranked]
        precision += sum(right) / k
        recall += sum(right) / len(true)
        dcg = sum(1 / math.log2(rank + 1) for rank, hit in enumerate(right, 1) if hit)
        ndcg += dcg / sum(1 / math.log2(rank + 1) for rank in range(1, min(k, len(true)) + 1))
        gained += sum(w[label] for label in ranked if label in true)
        gained_dcg += sum(w[label] / math.log2(rank + 1) for rank, label in enumerate(ranked, 1) if label in true)
        ideal = sorted((w[label] for label in true), reverse=True)[:k]
        best += sum(ideal)
        best_dcg += sum(weight / math.log2(rank + 1) for rank, weight in enumerate(ideal, 1))
        found |= true & set(ranked)
        known |= true
    values = {
        "P": precision / n,
        "nDCG": ndcg / n,
        "PSP": gained / best,
        "PSnDCG": gained_dcg / best_dcg,
        "R": recall / n,
        "C": len(found) / len(known),
    }
    return {f"{name}@{k}": 100 * value for name, value in values.items()}


def frontier_point(truth: Rows, scores: Rows, w: list[float], k: int, beta: float, depth: int) -> dict[str, float]:
    reranked = [{label: row[label] * w[label] ** beta for label in ranking(row)[:depth]} for row in scores]
    measured = evaluate(truth, reranked, w, k)
    return {key: measured[key] for key in (f"P@{k}", f"PSP@{k}")}
