"""Train the nodes of label trees. Every group of siblings is a separate small problem; threads take them in turn.

The classifier of a child separates its points from those of its siblings: positives are the points with a label under
the child, negatives the other points of the parent. Only the features of the parent's points are used.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from longtail import progress
from longtail.engine import memory
from longtail.engine.checkpoints import NO_STEPS, Steps
from longtail.kernels import gather, pool, solve
from longtail.linear.tree import LabelTree
from longtail.sparse import Arrays, with_prefix, without_prefix

ONLY_CHILD = np.float32(1e4)  # the bias of a node without siblings: its probability is 1 under any loss
_SOLVERS = {"squared_hinge": solve.squared_hinge, "logistic": solve.logistic}
_BATCH_WORK = 3e10  # of the nodes that one thread trains between two checkpoints: about a minute
_SHORT = 1 << 16  # nodes whose numbers are stored in two bytes
_N_ARRAYS = 5  # of the pruned weights of some nodes


@dataclass(frozen=True)
class SolverSettings:
    """How the binary problems are solved.

    Parameters
    ----------
    loss : {"squared_hinge", "logistic"}
    costs : tuple of float
        C, the weight of the loss against the regulariser: one, or several in ascending order, solved one by one.
    tolerance : float
        Stop when no dual gradient is larger.
    rounds : int
        Number of full passes over the points of a node, at most.
    effort : float
        Number of visits, as a share of its points, that a problem may spend on refining between two full passes.
    threshold : float
        Weights of smaller magnitude are dropped.
    dtype : {"int8", "float32"}
        Type of the stored weights: int8 with one scale per node, or float32.
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
    """Weights of one tree by feature: nodes in ascending order and their weights."""

    ptr: np.ndarray  # (D + 1,)
    nodes: np.ndarray  # (nnz,)
    values: np.ndarray  # (nnz,) int8 or float32
    scale: np.ndarray  # (n_nodes,) the weight of a value of 1
    bias: np.ndarray  # (n_nodes,)


_Solved = tuple[int, tuple[np.ndarray, ...]]  # the first of some neighbouring nodes, and their pruned weights


@dataclass(frozen=True)
class _Task:
    points: np.ndarray  # rows of X at the parent
    point_ptr: np.ndarray  # children of this level x points
    members: np.ndarray
    first: int  # child, within its level
    last: int
    offset: int  # number of the level's first node
    work: float


def train_nodes(
    trees: list[LabelTree],
    X: csr_array,
    Y: csr_array,
    settings: SolverSettings,
    n_jobs: int | None = None,
    seed: int = 0,
    steps: Steps = NO_STEPS,
) -> list[list[TreeWeights]]:
    """Train all nodes of all trees. Return, for each cost, the weights of each tree.

    `steps` keeps finished trees, and batches of nodes of a large tree.
    """
    scratch = threading.local()
    total = 1.0  # work of all tasks of a tree

    def work(task: _Task) -> list[list[_Solved]]:
        if not hasattr(scratch, "place"):
            scratch.place = np.full(X.shape[1], -1, np.int32)
            scratch.where = np.empty(X.shape[0], np.int32)
        found = _solve(task, X, settings, seed, scratch.place, scratch.where)
        done(task.work / total / len(trees))
        return found

    def train(number: int, tree: LabelTree) -> Arrays:
        """Return the weights of one tree for all costs."""
        nonlocal total
        tasks = _tasks(tree, X, Y, pool.cores(n_jobs))
        tasks.sort(key=lambda task: -task.work)  # the largest first, so that threads finish together
        total = sum(task.work for task in tasks) or 1.0
        if not number:  # the other trees are similar, and an error after an hour would be late
            _require_memory(tasks, X, settings, n_jobs)
        solved: list[list[list[_Solved]]] = []
        batches = _batches(tasks, pool.cores(n_jobs), steps)
        for batch, some in enumerate(batches):
            if len(batches) == 1:
                solved += pool.run(work, some, n_jobs)
                continue
            kept = steps.inside(f"tree-{number + 1}")
            arrays = kept.arrays(f"nodes-{batch + 1}", lambda some=some: _packed(pool.run(work, some, n_jobs)))  # type: ignore[misc]
            solved.append([_unpacked(without_prefix(f"{c}.", arrays)) for c in range(len(settings.costs))])
        del tasks, batches
        found: Arrays = {}
        for c in range(len(settings.costs)):
            parts = [part for task in solved for part in task[c]]
            found |= with_prefix(f"{c}.", vars(_assemble(tree, parts, X.shape[1], settings.dtype)))
        return found

    weights: list[list[TreeWeights]] = [[] for _ in settings.costs]
    with progress.stage("training nodes") as done:
        for number, tree in enumerate(trees):  # one after another: only the points and parts of one tree are in memory
            found = steps.arrays(f"tree-{number + 1}", partial(train, number, tree))
            for c, of_cost in enumerate(weights):
                of_cost.append(TreeWeights(**without_prefix(f"{c}.", found)))
    return weights


def _batches(tasks: list[_Task], threads: int, steps: Steps) -> list[list[_Task]]:
    """Cut tasks into batches of about a minute each, the results of which a checkpoint keeps."""
    if steps.folder is None:
        return [tasks]
    most = _BATCH_WORK * threads
    batches: list[list[_Task]] = [[]]
    size = 0.0
    for task in tasks:
        if size + task.work > most and batches[-1]:
            batches.append([])
            size = 0.0
        batches[-1].append(task)
        size += task.work
    return batches


def _packed(solved: list[list[list[_Solved]]]) -> Arrays:
    """Return what tasks have found, by cost, as a few long arrays."""
    arrays: Arrays = {}
    for c in range(len(solved[0]) if solved else 0):
        parts = [part for found in solved for part in found[c]]
        arrays[f"{c}.first"] = np.array([first for first, _ in parts], np.int64)
        for i in range(_N_ARRAYS):
            arrays[f"{c}.size{i}"] = np.array([len(kept[i]) for _, kept in parts], np.int64)
            arrays[f"{c}.part{i}"] = np.concatenate([kept[i] for _, kept in parts])
    return arrays


def _unpacked(arrays: Arrays) -> list[_Solved]:
    """Return the weights of neighbouring nodes that :func:`_packed` joined."""
    if not arrays:
        return []
    columns = [
        np.split(arrays[f"part{i}"], np.cumsum(arrays[f"size{i}"])[:-1].astype(np.int64)) for i in range(_N_ARRAYS)
    ]
    return [(int(first), tuple(kept)) for first, *kept in zip(arrays["first"], *columns, strict=True)]


def _tasks(tree: LabelTree, X: csr_array, Y: csr_array, threads: int) -> list[_Task]:
    """Return one task per group with more than one child, and several for a large group."""
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
            if load * step > 1e7:  # about a fiftieth of a second: worth sharing among threads
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
    """Estimate the memory of one thread: points of the group, signs and duals, eight columns of weights per cost."""
    n = len(task.points)
    nnz = task.work / (task.last - task.first)
    features = min(X.shape[1], nnz)
    weights = 4 * (features + 1) * ((2 + n_costs) * solve.LANES + 2)
    return 8 * nnz + n * (2 * 4 * solve.LANES + 32) + weights + 4 * sum(X.shape)


def _solve(
    task: _Task, X: csr_array, settings: SolverSettings, seed: int, place: np.ndarray, where: np.ndarray
) -> list[list[_Solved]]:
    """Solve the problems of the children of a task for each cost."""
    indptr, indices, data, squares, features = gather.gather_rows(X.indptr, X.indices, X.data, task.points, place)
    points = solve.SolverRows(indptr, indices, data, squares + np.float32(1))  # 1 for the bias
    limits = solve.Limits(float(settings.tolerance), int(settings.rounds), float(settings.effort))
    where[task.points] = np.arange(len(task.points), dtype=np.int32)
    lanes = 2 if task.last - task.first <= 2 else solve.LANES
    signs = np.empty((len(task.points), lanes), np.float32)
    costs = np.array(settings.costs, np.float64)
    found: list[list[_Solved]] = [[] for _ in costs]
    for first in range(task.first, task.last, lanes):
        last = min(first + lanes, task.last)
        gather.fill_signs(task.point_ptr, task.members, first, last, where, signs)
        solved = _SOLVERS[settings.loss](points, signs, costs, limits, seed + first)
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
    nodes = np.empty(ptr[-1], np.uint16 if tree.n_nodes <= _SHORT else np.int32)
    values = np.empty(ptr[-1], dtype)
    scale = np.ones(tree.n_nodes, np.float32)
    bias = np.full(tree.n_nodes, ONLY_CHILD, np.float32)
    cursor = ptr[:-1].copy()
    for first, (feature, lane, value, scales, biases) in parts:
        gather.scatter(feature, lane, value, first, cursor, nodes, values)
        scale[first : first + len(scales)] = scales
        bias[first : first + len(biases)] = biases
    return TreeWeights(ptr, nodes, values, scale, bias)
