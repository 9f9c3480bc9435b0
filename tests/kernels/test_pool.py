"""Tasks that are still being produced while others are worked off."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from longtail.kernels import pool


@pytest.mark.parametrize("n_jobs", [None, 1, -1])
def test_results_come_in_order_and_tasks_do_not_pile_up(n_jobs: int | None) -> None:
    produced, finished = [], []

    def tasks() -> Iterator[int]:
        for i in range(50):
            assert len(produced) - len(finished) <= pool.cores(n_jobs) + 1
            produced.append(i)
            yield i

    for result in pool.run_in_order(lambda i: i * i, tasks(), n_jobs):
        finished += [result]
    assert finished == [i * i for i in range(50)]


def test_errors_reach_the_caller_and_the_rest_is_dropped() -> None:
    def work(i: int) -> int:
        if i == 3:
            raise KeyError(i)
        return i

    results = pool.run_in_order(work, range(100), None)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError):
        next(results)


def test_tasks_may_use_the_pool_themselves() -> None:
    def inner(i: int) -> list[int]:
        return list(pool.run_in_order(lambda j: i + j, range(5), None))

    done: list[list[int]] = []
    thread = threading.Thread(target=lambda: done.extend(pool.run_in_order(inner, range(20), None)), daemon=True)
    thread.start()
    thread.join(60)
    assert done == [[i + j for j in range(5)] for i in range(20)]
