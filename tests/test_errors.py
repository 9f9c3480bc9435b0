"""The words that errors share."""

from __future__ import annotations

import pytest

from longtail.errors import number_of


@pytest.mark.parametrize(
    ("n", "expected"), [(0, "0 labels"), (1, "1 label"), (2, "2 labels"), (12_345, "12,345 labels")]
)
def test_a_count_and_its_noun_agree(n: int, expected: str) -> None:
    assert number_of(n, "label") == expected


def test_a_noun_may_have_a_plural_of_its_own() -> None:
    assert [number_of(n, "entry", "entries") for n in (1, 2)] == ["1 entry", "2 entries"]
