"""Train the nodes of label trees. Every group of siblings is a separate small problem: a task of the engine.

The classifier of a child separates its points from those of its siblings: positives are the points with a label under
the child, negatives the other points of the parent. Only the features of the parent's points are used.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from longtail import progress
from longtail.engine import current, memory
from longtail.engine.checkpoints import NO_STEPS, Steps
from longtail.kernels import gather, solve
from longtail.linear.tree import LabelTree
from longtail.sparse import Arrays, frozen, frozen_csr, labelled_rows, with_prefix, without_prefix

ONLY_CHILD = np.float32(1e4)  # the bias of a node without siblings: its probability is 1 under any loss
_SOLVERS = {"squared_hinge": solve.squared_hinge, "logistic": solve.logistic}
_WORK_PER_SECOND = 1e8  # of one core: non-zeros of points, times classifiers, for one cost; each further one takes half
_TASK_SECONDS = 5e-5  # that a task takes however small it is; most groups of siblings have a few points
_BATCH_WORK = 60 * _WORK_PER_SECOND  # of the nodes that one core trains between two checkpoints
_SHORT = 1 << 16  # nodes whose numbers are stored in two bytes
SPILLED = 64e6  # bytes of weights that are in memory between two batches, where they are kept on disk
WEIGHT_BYTES = 6  # of a weight until it is in its place
KEPT = 0.5  # weights that a label keeps, as a share of the features of its points; measured by benchmarks/scale/run.py
_JOINED = 1 << 16  # weights that are put in their places by one call
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


def node_type(n_nodes: int) -> type[np.integer]:
    """Return the type in which numbers of nodes are stored."""
    return np.uint16 if n_nodes <= _SHORT else np.int32


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
class _Level:
    """Points of the nodes and of the groups of one level of a tree, and the number of its first node."""

    point_ptr: np.ndarray  # nodes x points
    members: np.ndarray
    group_ptr: np.ndarray  # groups x points
    group_points: np.ndarray
    offset: int


@dataclass(frozen=True)
class _Task:
    """Some siblings. Only numbers: arrays are in the level, which all tasks share."""

    level: int
    group: int  # within its level
    first: int  # child, within its level
    last: int
    lanes: int  # problems solved at a time; by the size of the group, so that it does not depend on how it is cut
    work: float

    def points(self, levels: Sequence[_Level]) -> np.ndarray:
        """Return the rows of X at the parent."""
        level = levels[self.level]
        return level.group_points[level.group_ptr[self.group] : level.group_ptr[self.group + 1]]


_scratch = threading.local()


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
    engine = current()
    cores = engine.cores(n_jobs)
    points = engine.share(frozen_csr(X))  # frozen: another process has read-only arrays, too

    def train(number: int, tree: LabelTree) -> Arrays:
        """Return the weights of one tree for all costs."""
        levels, tasks = _tasks(tree, X, Y, cores)
        tasks.sort(key=lambda task: -task.work)  # the largest first, so that cores finish together
        total = sum(task.work for task in tasks) or 1.0
        if not number:  # the other trees are similar, and an error after an hour would be late
            _require_memory(tasks, levels, X, settings, cores)
        shared = points, engine.share(levels), settings, seed
        work_per_second = 2 * _WORK_PER_SECOND / (1 + len(settings.costs))

        def solved_of(some: list[_Task]) -> list[list[list[_Solved]]]:
            return engine.map(
                _solve,
                some,
                shared,
                n_jobs=n_jobs,
                weights=[_TASK_SECONDS + task.work / work_per_second for task in some],
                finished=lambda i, _: done(some[i].work / total / len(trees)),
                packing=(_packed_tasks, _unpacked_tasks),
            )

        with _places(memory.spill_folder(), steps.inside(f"tree-{number + 1}")) as (kept, spilled):
            if spilled:
                tasks.sort(key=lambda task: levels[task.level].offset + task.first)
                batches = _batches(tasks, [_weight_bytes(task, X.shape[1]) for task in tasks], SPILLED)
            else:
                batches = _batches(tasks, [task.work for task in tasks], _BATCH_WORK * cores if kept.folder else np.inf)

            def batch(b: int) -> list[list[_Solved]]:
                """Return the weights of a batch by cost: from disk, or solved and kept there."""
                if kept.folder is None or (len(batches) == 1 and not spilled):
                    solved = solved_of(batches[b])
                    return [[part for task in solved for part in task[c]] for c in range(len(settings.costs))]
                name = f"{'spilled' if spilled else 'nodes'}-{b + 1}"
                arrays = kept.arrays(name, lambda: _packed(solved_of(batches[b])))
                return [_unpacked(without_prefix(f"{c}.", arrays)) for c in range(len(settings.costs))]

            def in_memory() -> Callable[[int], Iterator[list[_Solved]]]:
                every = [batch(b) for b in range(len(batches))]
                return lambda c: iter([[part for solved in every for part in solved[c]]])

            def on_disk() -> Callable[[int], Iterator[list[_Solved]]]:
                for b in range(len(batches)):
                    batch(b)
                return lambda c: (batch(b)[c] for b in range(len(batches)))

            parts = on_disk() if spilled else in_memory()
            found: Arrays = {}
            for c in range(len(settings.costs)):
                weights_of = _assemble(tree, partial(parts, c), X.shape[1], settings.dtype)
                found |= with_prefix(f"{c}.", vars(weights_of))
        return found

    weights: list[list[TreeWeights]] = [[] for _ in settings.costs]
    with progress.stage("training nodes") as done:
        for number, tree in enumerate(trees):  # one after another: only the points and parts of one tree are in memory
            found = steps.arrays(f"tree-{number + 1}", partial(train, number, tree))
            for c, of_cost in enumerate(weights):
                of_cost.append(TreeWeights(**without_prefix(f"{c}.", found)))
    return weights


@contextmanager
def _places(spill: Path | None, steps: Steps) -> Iterator[tuple[Steps, bool]]:
    """Provide the steps that keep batches of nodes, and whether these are not to stay in memory."""
    if spill is None or steps.folder is not None:
        yield steps, spill is not None
        return
    with memory.on_disk() as shared, tempfile.TemporaryDirectory(dir=shared) as folder:  # another fit may end meanwhile
        yield Steps(folder), True


def _batches(tasks: list[_Task], sizes: list[float], most: float) -> list[list[_Task]]:
    """Cut tasks into batches of a size of at most `most`, or of one task."""
    batches: list[list[_Task]] = [[]]
    total = 0.0
    for task, size in zip(tasks, sizes, strict=True):
        if total + size > most and batches[-1]:
            batches.append([])
            total = 0.0
        batches[-1].append(task)
        total += size
    return batches


def _weight_bytes(task: _Task, n_features: int) -> float:
    """Estimate the bytes of the weights that a task results in."""
    children = task.last - task.first
    return WEIGHT_BYTES * KEPT * children * min(n_features, task.work / children)


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
    columns = [_cut(arrays[f"part{i}"], arrays[f"size{i}"]) for i in range(_N_ARRAYS)]
    return [(int(first), tuple(kept)) for first, *kept in zip(arrays["first"], *columns, strict=True)]


def _cut(array: np.ndarray, sizes: np.ndarray) -> list[np.ndarray]:
    """Cut an array into parts of some sizes; ten times faster than ``np.split`` for thousands of small parts."""
    ends = np.cumsum(sizes).tolist()
    return [array[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def _packed_tasks(solved: list[list[list[_Solved]]]) -> Arrays:
    """Return what tasks have found as a few long arrays, from which :func:`_unpacked_tasks` gets it back."""
    return _packed(solved) | {"n_parts": np.array([len(found[0]) for found in solved])}


def _unpacked_tasks(arrays: Arrays) -> list[list[list[_Solved]]]:
    """Return what tasks have found, by task and cost."""
    ends = np.cumsum(arrays["n_parts"]).tolist()
    n_costs = sum(name.endswith(".first") for name in arrays)
    parts = [_unpacked(without_prefix(f"{c}.", arrays)) for c in range(n_costs)]
    return [[of_cost[begin:end] for of_cost in parts] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def _tasks(tree: LabelTree, X: csr_array, Y: csr_array, cores: int) -> tuple[list[_Level], list[_Task]]:
    """Return the levels, and one task per group with more than one child, or several for a large group."""
    leaf = np.full(Y.shape[1], -1, np.int32)
    leaf[tree.labels] = np.arange(len(tree.labels), dtype=np.int32)
    row_ptr, nodes = gather.lift(Y.indptr, Y.indices, leaf, len(tree.labels))
    parents = tree.parents()
    lengths = np.diff(X.indptr).astype(np.int64)
    levels: list[_Level] = []
    tasks: list[_Task] = []
    for level in range(tree.depth - 1, -1, -1):
        begin, end = int(tree.level_ptr[level]), int(tree.level_ptr[level + 1])
        group = parents[begin:end]  # of each node of this level
        first_group = int(group[0])
        n_groups = int(group[-1]) - first_group + 1
        point_ptr, members = gather.invert(row_ptr, nodes, end - begin)
        row_ptr, nodes = gather.lift(row_ptr, nodes, group - first_group, n_groups)
        group_ptr, group_points = gather.invert(row_ptr, nodes, n_groups)
        if level == 0:  # points that have labels, but none of this tree's, are negatives for all of these
            group_points = labelled_rows(Y).astype(group_points.dtype)
            group_ptr = np.array([0, len(group_points)], group_ptr.dtype)
        loads = np.diff(np.concatenate([[0], np.cumsum(lengths[group_points] + 1)])[group_ptr]).tolist()
        ends = (tree.child_ptr[first_group : first_group + n_groups + 1] - begin).tolist()
        number = len(levels)
        levels.append(_Level(frozen(point_ptr), frozen(members), frozen(group_ptr), frozen(group_points), begin))
        for g, (first, last, load) in enumerate(zip(ends[:-1], ends[1:], loads, strict=True)):
            step = last - first
            if step < 2:
                continue
            lanes = 2 if step <= 2 else solve.LANES
            if load * step > _WORK_PER_SECOND / 50:  # worth sharing among cores
                step = max(solve.LANES, -(-step // (2 * cores) // solve.LANES) * solve.LANES)
            tasks += [
                _Task(number, g, a, min(a + step, last), lanes, float(load) * (min(a + step, last) - a))
                for a in range(first, last, step)
            ]
    return levels, tasks


def _require_memory(
    tasks: list[_Task], levels: list[_Level], X: csr_array, settings: SolverSettings, cores: int
) -> None:
    if not tasks:
        return
    load = max(task.work / (task.last - task.first) for task in tasks)
    n = max(int(np.diff(level.group_ptr).max()) for level in levels)  # nearly always of the same group
    memory.require(
        min(cores, len(tasks)) * _task_bytes(load, n, X, len(settings.costs)),
        "Training",
        "Lower n_jobs (a thread holds the points of one group of labels), or use fewer points or features.",
    )


def _task_bytes(nnz: float, n: int, X: csr_array, n_costs: int) -> float:
    """Estimate the memory of one core: n points of the group, signs and duals, eight columns of weights per cost."""
    features = min(X.shape[1], nnz)
    weights = 4 * (features + 1) * ((2 + n_costs) * solve.LANES + 2)
    return 8 * nnz + n * (2 * 4 * solve.LANES + 32) + weights + 4 * sum(X.shape)


def _scratch_for(shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return scratch of this thread for points and features, kept between tasks: a small one must not wait for it."""
    if getattr(_scratch, "shape", None) != shape:
        _scratch.place, _scratch.where = np.full(shape[1], -1, np.int32), np.empty(shape[0], np.int32)
        _scratch.shape = shape  # last: if memory runs out above, the next task must not use buffers of another size
    return _scratch.place, _scratch.where


def _solve(
    task: _Task, X: csr_array, levels: Sequence[_Level], settings: SolverSettings, seed: int
) -> list[list[_Solved]]:
    """Solve the problems of the children of a task for each cost."""
    level, rows = levels[task.level], task.points(levels)
    if solve.block_size(len(rows)) > 1:  # full passes visit neighbours one after the other
        rows = np.random.default_rng([seed, task.level, task.group]).permutation(rows)
    place, where = _scratch_for(X.shape)
    indptr, indices, data, squares, features = gather.gather_rows(X.indptr, X.indices, X.data, rows, place)
    points = solve.SolverRows(indptr, indices, data, squares + np.float32(1))  # 1 for the bias
    limits = solve.Limits(float(settings.tolerance), int(settings.rounds), float(settings.effort))
    where[rows] = np.arange(len(rows), dtype=np.int32)
    signs = np.empty((len(rows), task.lanes), np.float32)
    costs = np.array(settings.costs, np.float64)
    found: list[list[_Solved]] = [[] for _ in costs]
    for first in range(task.first, task.last, task.lanes):
        last = min(first + task.lanes, task.last)
        gather.fill_signs(level.point_ptr, level.members, first, last, where, signs)
        solved = _SOLVERS[settings.loss](points, signs, costs, limits, seed + first)
        for of_cost, weights in zip(found, solved, strict=True):
            kept = gather.prune(weights, features, last - first, settings.threshold, np.empty(0, settings.dtype))
            of_cost.append((level.offset + first, kept))
    return found


def _assemble(
    tree: LabelTree, parts: Callable[[], Iterator[list[_Solved]]], n_features: int, dtype: str
) -> TreeWeights:
    """Put the weights of nodes together; `parts` returns them in lists, of which each begins where the last ended."""
    counts = np.zeros(n_features, np.int64)
    for some in parts():
        for several in _joined(some):
            gather.count_features(_concatenated(several, 0), counts)
    ptr = np.concatenate([[0], np.cumsum(counts)])
    nodes = np.empty(ptr[-1], node_type(tree.n_nodes))
    values = np.empty(ptr[-1], dtype)
    scale = np.ones(tree.n_nodes, np.float32)
    bias = np.full(tree.n_nodes, ONLY_CHILD, np.float32)
    cursor = ptr[:-1].copy()
    for some in parts():
        for several in _joined(sorted(some, key=lambda part: part[0])):
            firsts = np.array([first for first, _ in several])
            sizes, n_nodes = (np.array([len(kept[i]) for _, kept in several]) for i in (0, 3))
            feature, lane, value, scales, biases = (_concatenated(several, i) for i in range(_N_ARRAYS))
            gather.scatter(feature, lane, value, sizes, firsts, cursor, nodes, values)
            at = np.repeat(firsts - (np.cumsum(n_nodes) - n_nodes), n_nodes) + np.arange(n_nodes.sum())
            scale[at], bias[at] = scales, biases
    return TreeWeights(ptr, nodes, values, scale, bias)


def _joined(parts: list[_Solved]) -> Iterator[list[_Solved]]:
    """Yield neighbouring parts, as many as have `_JOINED` weights: a kernel call for each small part takes longer."""
    several: list[_Solved] = []
    total = 0
    for part in parts:
        several.append(part)
        total += len(part[1][0])
        if total >= _JOINED:
            yield several
            several, total = [], 0
    if several:
        yield several


def _concatenated(parts: list[_Solved], i: int) -> np.ndarray:
    """Return one of the arrays of some parts, put together."""
    return parts[0][1][i] if len(parts) == 1 else np.concatenate([kept[i] for _, kept in parts])
