"""Training the nodes of label trees. Every group of siblings is a small problem of its own; threads take them in turn.

A child learns to tell its points from those of its siblings: positives are the points with a label under the child,
negatives the other points of the parent. Only the features of the parent's points take part.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from longtail import progress
from longtail.engine import memory
from longtail.kernels import gather, pool, solve
from longtail.linear.tree import LabelTree

ONLY_CHILD = np.float32(1e4)  # the bias of a node without siblings: its chance is 1 under any loss
_SOLVERS = {"squared_hinge": solve.squared_hinge, "logistic": solve.logistic}


@dataclass(frozen=True)
class SolverSettings:
    """How the binary problems are solved.

    Parameters
    ----------
    loss : {"squared_hinge", "logistic"}
    costs : tuple of float
        C, the weight of the loss against the regulariser: one, or several, ascending, to have a solution for each.
    tolerance : float
        Stop when no dual gradient is larger.
    rounds : int
        Full passes over a node's points, at most.
    effort : float
        How many visits, as a share of its points, a problem may spend on refining between two full passes.
    threshold : float
        Weights of smaller magnitude are dropped.
    dtype : {"int8", "float32"}
        How the others are kept: as whole steps of a scale of their node's own, or as they are.
    """

    loss: str = "squared_hinge"
    costs: tuple[float, ...] = (1.0,)
    tolerance: float = 0.1
    rounds: int = 6
    effort: float = 1.0
    threshold: float = 0.1
    dtype: str = "int8"


@dataclass
class TreeWeights:
    """Weights of one tree, feature by feature: nodes in ascending order beside their weights."""

    ptr: np.ndarray  # (D + 1,)
    nodes: np.ndarray  # (nnz,)
    values: np.ndarray  # (nnz,) int8 or float32
    scale: np.ndarray  # (n_nodes,) what a value of 1 weighs
    bias: np.ndarray  # (n_nodes,)


_Solved = tuple[int, tuple[np.ndarray, ...]]  # the first of some neighbouring nodes, and what prune gives of them


@dataclass(frozen=True)
class _Task:
    points: np.ndarray  # rows of X at the parent
    point_ptr: np.ndarray  # children of this level x points
    members: np.ndarray
    first: int  # child, within its level
    last: int
    offset: int  # number of the level's first node
    work: float


def train(
    trees: list[LabelTree],
    X: csr_array,
    Y: csr_array,
    settings: SolverSettings,
    n_jobs: int | None = None,
    seed: int = 0,
) -> list[list[TreeWeights]]:
    """Train all nodes of all trees: for each cost, the weights of each tree."""
    scratch = threading.local()

    def work(task: _Task) -> list[list[_Solved]]:
        if not hasattr(scratch, "place"):
            scratch.place = np.full(X.shape[1], -1, np.int32)
            scratch.where = np.empty(X.shape[0], np.int32)
        found = _solve(task, X, settings, seed, scratch.place, scratch.where)
        done(task.work / total / len(trees))
        return found

    weights: list[list[TreeWeights]] = [[] for _ in settings.costs]
    with progress.stage("training nodes") as done:
        for tree in trees:  # one after another: only one tree's points and loose parts are held
            tasks = _tasks(tree, X, Y, pool.cores(n_jobs))
            tasks.sort(key=lambda task: -task.work)  # the largest first, so that threads end together
            total = sum(task.work for task in tasks) or 1.0
            if not weights[0]:  # the other trees are much alike, and nobody wants to hear it after an hour
                _require_memory(tasks, X, settings, n_jobs)
            solved = pool.run(work, tasks, n_jobs)
            for c, of_cost in enumerate(weights):
                parts = [part for found in solved for part in found[c]]
                of_cost.append(_assemble(tree, parts, X.shape[1], settings.dtype))
            del tasks, solved, parts  # before the next tree makes its own
    return weights


def _tasks(tree: LabelTree, X: csr_array, Y: csr_array, threads: int) -> list[_Task]:
    """Groups with more than one child, the large ones cut into several tasks."""
    leaf = np.full(Y.shape[1], -1, np.int32)
    leaf[tree.labels] = np.arange(len(tree.labels), dtype=np.int32)
    row_ptr, nodes = gather.lift(Y.indptr, Y.indices, leaf, len(tree.labels))
    parents = tree.parents()
    lengths = np.diff(X.indptr)
    tasks = []
    for level in range(tree.depth - 1, -1, -1):
        begin, end = int(tree.level_ptr[level]), int(tree.level_ptr[level + 1])
        group = parents[begin:end]  # of each node of this level
        first_group = int(group[0])
        n_groups = int(group[-1]) - first_group + 1
        point_ptr, members = gather.invert(row_ptr, nodes, end - begin)
        row_ptr, nodes = gather.lift(row_ptr, nodes, group - first_group, n_groups)
        group_ptr, group_points = gather.invert(row_ptr, nodes, n_groups)
        for g in range(n_groups):
            first, last = (int(tree.child_ptr[first_group + g + side]) - begin for side in (0, 1))
            if last - first < 2:
                continue
            points = group_points[group_ptr[g] : group_ptr[g + 1]]
            load = float(lengths[points].sum() + len(points))
            step = last - first
            if load * step > 1e7:  # about a fiftieth of a second: worth sharing out among threads
                step = max(solve.LANES, -(-step // (2 * threads) // solve.LANES) * solve.LANES)
            tasks += [
                _Task(points, point_ptr, members, a, min(a + step, last), begin, load * (min(a + step, last) - a))
                for a in range(first, last, step)
            ]
    return tasks


def _require_memory(tasks: list[_Task], X: csr_array, settings: SolverSettings, n_jobs: int | None) -> None:
    threads = min(pool.cores(n_jobs), len(tasks))
    memory.require(
        threads * max((_task_bytes(task, X, len(settings.costs)) for task in tasks), default=0),
        "Training",
        "Lower n_jobs (a thread holds the points of one group of labels), or use fewer points or features.",
    )


def _task_bytes(task: _Task, X: csr_array, n_costs: int) -> float:
    """What a thread holds at once: the group's points, their signs and duals, and eight columns of weights a cost."""
    n = len(task.points)
    nnz = task.work / (task.last - task.first)
    features = min(X.shape[1], nnz)
    weights = 4 * (features + 1) * ((2 + n_costs) * solve.LANES + 2)
    return 8 * nnz + n * (2 * 4 * solve.LANES + 32) + weights + 4 * sum(X.shape)


def _solve(
    task: _Task, X: csr_array, settings: SolverSettings, seed: int, place: np.ndarray, where: np.ndarray
) -> list[list[_Solved]]:
    """What each cost gives for the children of a task."""
    indptr, indices, data, norms, features = gather.gather_rows(X.indptr, X.indices, X.data, task.points, place)
    where[task.points] = np.arange(len(task.points), dtype=np.int32)
    lanes = 2 if task.last - task.first <= 2 else solve.LANES
    signs = np.empty((len(task.points), lanes), np.float32)
    costs = np.array(settings.costs, np.float64)
    found: list[list[_Solved]] = [[] for _ in costs]
    for first in range(task.first, task.last, lanes):
        last = min(first + lanes, task.last)
        gather.fill_signs(task.point_ptr, task.members, first, last, where, signs)
        solved = _SOLVERS[settings.loss](
            indptr, indices, data, norms, signs, costs, settings.tolerance, settings.rounds, settings.effort,
            seed + first,
        )  # fmt: skip
        for of_cost, weights in zip(found, solved, strict=True):
            kept = gather.prune(weights, features, last - first, settings.threshold, np.empty(0, settings.dtype))
            of_cost.append((task.offset + first, kept))
    return found


def _assemble(tree: LabelTree, parts: list[_Solved], n_features: int, dtype: str) -> TreeWeights:
    parts.sort(key=lambda part: part[0])
    counts = np.zeros(n_features, np.int64)
    for _, (feature, *_) in parts:
        gather.count_features(feature, counts)
    ptr = np.concatenate([[0], np.cumsum(counts)])
    nodes = np.empty(ptr[-1], np.uint16 if tree.n_nodes <= 1 << 16 else np.int32)
    values = np.empty(ptr[-1], dtype)
    scale = np.ones(tree.n_nodes, np.float32)
    bias = np.full(tree.n_nodes, ONLY_CHILD, np.float32)
    cursor = ptr[:-1].copy()
    for first, (feature, lane, value, scales, biases) in parts:
        gather.scatter(feature, lane, value, first, cursor, nodes, values)
        scale[first : first + len(scales)] = scales
        bias[first : first + len(biases)] = biases
    return TreeWeights(ptr, nodes, values, scale, bias)
