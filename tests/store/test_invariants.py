"""What arrays must be: declared, and compared before a kernel sees them."""

from __future__ import annotations

import itertools
import json
import os
import zlib
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longtail
from longtail.errors import LongtailError, ModelError
from longtail.store import invariants
from longtail.store.invariants import (
    Checksum,
    Relation,
    Rules,
    check_arrays,
    codes,
    cosines,
    counts,
    csr,
    flags,
    floats,
    indices,
    packed_names,
    pointers,
)
from tests.fuzz.models import KINDS, build, use
from tests.fuzz.mutate import copied, set_array

ARRAYS = {
    "ptr": np.array([0, 2, 3], np.int64),
    "labels": np.array([0, 1, 4], np.int32),
    "values": np.ones((3, 2), np.float32),
    "seen": np.array([True, False]),
}
RULES = Rules(
    {
        "ptr": pointers("rows+1", into="entries"),
        "labels": indices("entries", below="L", distinct=True),
        "values": floats("entries 2", least=0, most=5),
        "seen": flags("rows"),
    }
)


def test_sizes_are_learnt_from_shapes() -> None:
    assert check_arrays(RULES, ARRAYS, {"L": 5}, "m") == {"L": 5, "rows": 2, "entries": 3}
    prefixed = {f"a_{name}": array for name, array in ARRAYS.items()}
    check_arrays(RULES.prefixed("a_"), prefixed, {"L": 5}, "m")


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("ptr", np.array([0, 2, 4], np.int64), "does not go from 0 to 3"),
        ("ptr", np.array([1, 2, 3], np.int64), "does not go from 0 to 3"),
        ("ptr", np.array([0, 4, 3], np.int64), "descends"),
        ("ptr", np.array([0.0, 2, 3]), "holds float64"),
        ("ptr", np.array([0, 3], np.int64), "seen.npy is 2, not 1"),
        ("labels", np.array([0, 1, 5], np.int32), "must be below 5"),
        ("labels", np.array([0, -1, 4], np.int32), "must be at least 0"),
        ("labels", np.array([1, 1, 4], np.int32), "twice"),
        ("values", np.full((3, 2), np.nan, np.float32), "NaN"),
        ("values", np.full((3, 2), 6, np.float32), "at most 5"),
        ("values", np.ones((2, 2), np.float32), "is 2 x 2, not 3 x 2"),
        ("values", np.ones(3, np.float32), "has 1 dimensions, not 2"),
        ("seen", np.array([2, 0], np.uint8).view(bool), "neither 0 nor 1"),
        ("more", np.ones(1), "does not belong to such a model"),
        ("labels", None, "is missing"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, value: Any, problem: str) -> None:
    arrays = {key: array for key, array in (ARRAYS | {name: value}).items() if array is not None}
    with pytest.raises(ModelError, match=problem):
        check_arrays(RULES, arrays, {"L": 5}, "m")


def test_sizes_with_a_factor() -> None:
    rules = Rules({"a": counts("2*n+1"), "b": counts("n")})
    assert check_arrays(rules, {"a": np.arange(7), "b": np.arange(3)}, {}, "m") == {"n": 3}
    with pytest.raises(ModelError, match=r"a\.npy"):
        check_arrays(rules, {"a": np.arange(6), "b": np.arange(3)}, {}, "m")


def test_a_matrix_is_declared_by_its_parts() -> None:
    assert set(csr("text", "L", "D").arrays) == {"text_indptr", "text_indices", "text_data"}
    assert set(csr("text", "L", "D", data=False).arrays) == {"text_indptr", "text_indices"}


# Finding: model folders were trusted --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fastxml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "fastxml"
    build("fastxml", folder)
    return folder


def test_labels_beyond_the_last_are_refused_before_a_kernel_writes_there(fastxml: Path, tmp_path: Path) -> None:
    path = copied(fastxml, tmp_path / "m") / "labels.npy"
    set_array(path, np.full_like(np.load(path), 2**31 - 1))
    with pytest.raises(ModelError, match=r"labels\.npy holds 2147483647"):
        longtail.load(tmp_path / "m")


def test_trees_that_lead_back_are_refused(fastxml: Path, tmp_path: Path) -> None:
    path = copied(fastxml, tmp_path / "m") / "child.npy"
    set_array(path, np.zeros_like(np.load(path)))
    with pytest.raises(ModelError, match="trees do not fit together"):
        longtail.load(tmp_path / "m")


@pytest.mark.parametrize("name", ["base/..", "../m", "/etc", "a b", "é", "x" * 300, 3, None])
def test_names_that_lead_elsewhere_are_refused(fastxml: Path, tmp_path: Path, name: Any) -> None:
    for place in ("parts", "arrays"):
        document = json.loads((copied(fastxml, tmp_path / "m") / "model.json").read_text())
        if place == "parts":
            document["meta"]["parts"] = [name]
        else:
            document["arrays"][str(name)] = document["arrays"]["labels"]
        (tmp_path / "m" / "model.json").write_text(json.dumps(document))
        with pytest.raises(ModelError):
            longtail.load(tmp_path / "m")


def test_links_are_refused(fastxml: Path, tmp_path: Path) -> None:
    folder = copied(fastxml, tmp_path / "m")
    (folder / "labels.npy").rename(tmp_path / "labels.npy")
    os.symlink(tmp_path / "labels.npy", folder / "labels.npy")
    with pytest.raises(ModelError, match="link"):
        longtail.load(folder)


# Finding: settings changed after fit, or in the folder ---------------------------------------------------------------


@pytest.mark.parametrize(("kind", "name"), [("bonsai", "beam"), ("knn", "n_neighbors"), ("ranknet", "n_candidates")])
@pytest.mark.parametrize("value", [0, -1, 2**31, "x", None, [1], float("nan"), 1.5])
def test_settings_that_became_impossible_are_refused(tmp_path: Path, kind: str, name: str, value: Any) -> None:
    build(kind, tmp_path / "m")
    model: Any = longtail.load(tmp_path / "m")
    allowed = value is None and kind == "ranknet"  # left to the preset
    model.set_params(**{name: value})
    document = json.loads((tmp_path / "m" / "model.json").read_text())
    document["meta"]["params"][name] = value
    (tmp_path / "m" / "model.json").write_text(json.dumps(document))
    if allowed:
        use(tmp_path / "m")
        return
    with pytest.raises(LongtailError, match=name):
        model.predict(np.ones((1, model.n_features_in_), np.float32))
    with pytest.raises(ModelError, match=name):
        longtail.load(tmp_path / "m")


def test_every_kind_of_model_is_fuzzed() -> None:
    from longtail import registry

    outermost = {expression.partition("(")[0] for expression, _ in KINDS.values()}
    assert outermost == set(registry.names())


EDGES = {  # what an array of one rule may hold, and what it may not
    "cosines": (cosines("n"), [-1.0, 0.0, 1.005], [1.02, -1.02, np.nan, -np.nan, np.inf, -np.inf]),
    "floats": (floats("n"), [-9e17, 0.0, 1e-45, 9e17], [2e18, -2e18, np.nan, np.inf, -np.inf]),
    "from 0": (floats("n", least=0), [0.0, -0.0, 5.0], [-1e-45, -1.0, np.nan, np.inf]),
    "above 0": (floats("n", above=0), [1e-45, 5.0], [0.0, -0.0, -1.0, np.nan, np.inf]),
    "shares": (floats("n", least=0, most=1), [0.0, 1.0], [1.001, -0.001, np.nan]),
    "between": (floats("n", least=-1, most=3), [-1.0, 3.0], [-1.1, 3.1, np.nan]),
    "indices": (indices("n", below="L"), [0, 4], [5, -1, 2**31 - 1, -(2**31)]),
    "counts": (counts("n"), [0, 2**31 - 1], [-1, -(2**31)]),
    "wide": (indices("n", below="L", dtypes="i8"), [0, 4], [5, -1, 2**32]),
}


@pytest.mark.parametrize("name", EDGES)
@pytest.mark.parametrize("n", [1, 70_000])
def test_values_at_the_edge_of_their_rule(name: str, n: int) -> None:
    rule, right, wrong = EDGES[name]
    kind = np.dtype(rule.dtypes.split()[0])
    for value in right + wrong:
        array = np.full(n, right[-1], kind)
        array[n // 2] = value
        rules = Rules({"a": rule})
        if value in right:
            check_arrays(rules, {"a": array}, {"L": 5}, "m")
        else:
            with pytest.raises(ModelError, match=r"a\.npy holds"):
                check_arrays(rules, {"a": array}, {"L": 5}, "m")


def test_text_is_refused_exactly_where_python_cannot_decode_it() -> None:
    rng = np.random.default_rng(0)
    rules = packed_names("names", "offsets", "n")
    words = [*"abc", "é", "中", "😀", "\ud800"]
    seen = {True: 0, False: 0}
    for _ in range(300):
        text = "".join(rng.choice(words, size=4000, p=[0.997, *[0.0005] * 6]))
        content = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8).copy()
        content = content[: rng.integers(1, len(content))] if rng.random() < 0.3 else content
        content[rng.integers(len(content))] = rng.integers(256) if rng.random() < 0.3 else 97
        try:
            content.tobytes().decode("utf-8", "surrogatepass")
            right = True
        except UnicodeDecodeError:
            right = False
        arrays = {"names": content, "offsets": np.array([0, len(content), len(content)])}
        with nullcontext() if right else pytest.raises(ModelError, match="do not hold text"):
            check_arrays(rules, arrays, {}, "m")
        seen[right] += 1
    assert min(seen.values()) > 30


def test_a_string_that_begins_inside_of_a_character_is_refused() -> None:
    content = np.frombuffer("aéb".encode(), np.uint8)
    with pytest.raises(ModelError, match="do not hold text"):
        check_arrays(packed_names("names", "offsets", "n"), {"names": content, "offsets": np.array([0, 2, 4])}, {}, "m")


def test_a_checksum_is_compared_with_the_values() -> None:
    array = np.arange(5, dtype=np.int32)
    header = np.frombuffer(b"header", np.uint8)
    right = Checksum(header, zlib.crc32(b"header" + array.tobytes()))
    rules = Rules({"a": indices("n", below="L")})
    check_arrays(rules, {"a": array}, {"L": 5}, "m", {"a": right})
    with pytest.raises(ModelError, match=r"a\.npy has changed"):
        check_arrays(rules, {"a": array}, {"L": 5}, "m", {"a": Checksum(header, right.crc32 + 1)})


def test_a_relation_is_compared_while_its_largest_array_is_read() -> None:
    array, header = np.arange(9, dtype=np.int32), np.frombuffer(b"header", np.uint8)
    right = Checksum(header, zlib.crc32(b"header" + array.tobytes()))
    wrong = Checksum(header, right.crc32 + 1)

    def rules(answer: bool) -> Rules:
        def holds(arrays: Any, sizes: Any, read: Any) -> bool:
            for stop in (2, 7) if answer else (2,):  # it may stop reading where it sees that something is wrong
                read(stop)
            return answer

        return Rules({"a": codes("n", "i4")}, (Relation(holds, "are odd", "a"),)).prefixed("x_")

    assert check_arrays(rules(True), {"x_a": array}, {}, "m", {"x_a": right}) == {"n": 9}
    assert check_arrays(rules(True), {"x_a": array}, {}, "m") == {"n": 9}
    with pytest.raises(ModelError, match="the arrays are odd"):
        check_arrays(rules(False), {"x_a": array}, {}, "m", {"x_a": right})
    for answer in (True, False):
        with pytest.raises(ModelError, match=r"x_a\.npy has changed"):
            check_arrays(rules(answer), {"x_a": array}, {}, "m", {"x_a": wrong})


_BYTES = [0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0]
_BYTES += [0xF1, 0xF3, 0xF4, 0xF5, 0xFF]


@pytest.mark.parametrize("n_before", [0, 61, 62, 63, 64])
def test_text_is_what_python_decodes(monkeypatch: pytest.MonkeyPatch, n_before: int) -> None:
    """Every sequence of three bytes that stand for their kinds, also where it begins near the end of a block."""
    monkeypatch.setattr(invariants, "_BLOCK", 64)
    for three in itertools.product(_BYTES, repeat=3):
        for end in (b"", b"\x80", b"a"):
            content = b"x" * n_before + bytes(three) + end
            try:
                content.decode("utf-8", "surrogatepass")
                right = True
            except UnicodeDecodeError:
                right = False
            assert invariants.is_text(np.frombuffer(content, np.uint8), np.zeros(1, np.int64)) == right, three


@pytest.mark.parametrize("n_before", [0, 61, 63, 64])
def test_strings_begin_with_a_character(monkeypatch: pytest.MonkeyPatch, n_before: int) -> None:
    monkeypatch.setattr(invariants, "_BLOCK", 64)
    content = ("x" * n_before + "é中😀" + "y" * 100).encode()
    whole = np.frombuffer(content, np.uint8)
    for begin in range(len(content) + 1):
        for repeated in (1, 2):
            offsets = np.array([0, *[begin] * repeated, len(content)])
            right = (content + b".")[begin] & 0xC0 != 0x80
            assert invariants.is_text(whole, offsets) == right, (begin, repeated)
