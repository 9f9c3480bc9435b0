"""Structured mutations of model folders, as an attacker would make them: checksums are computed again."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from longtail.errors import BROKEN_ARRAY

ODD: list[Any] = [None, True, False, 0, 1, -1, 2, 3, 1e9, 2**31 - 1, 2**31, 2**63, -(2**40), 0.5, 1.5, -0.5, 1e308]
ODD += [float("nan"), float("inf"), "", "x", "../x", "a\0b", [], [0], [[]], {}, {"a": 1}, "é" * 300, 10**30]
_TYPES = ["<i4", "<i8", "<f4", "<f8", "|u1", "|i1", "|b1", "<u2", "<u8", ">i4", "<c8", "<U3", "<M8[s]"]


def mutate(folder: Path, rng: np.random.Generator) -> str:
    """Change one thing (sometimes two or three) in a model folder; return what was done."""
    done: list[str] = []
    for _ in range(1 + int(rng.random() < 0.2) + int(rng.random() < 0.1)):
        documents = sorted(folder.rglob("model.json"))
        arrays = sorted(folder.rglob("*.npy"))
        try:
            if arrays and rng.random() < 0.6:
                done.append(_mutate_array(arrays[rng.integers(len(arrays))], rng))
            elif documents:
                done.append(_mutate_document(documents[rng.integers(len(documents))], rng))
        except (ValueError, KeyError, TypeError, AttributeError, OSError, RuntimeError) as error:
            done.append(f"nothing ({type(error).__name__})")  # damaged by a mutation before, or no such cast
    return "; ".join(done)


def copied(source: Path, to: Path) -> Path:
    """Copy a model folder, over what is there."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(source, to)
    return to


def set_array(path: Path, array: np.ndarray) -> None:
    """Replace one array of a model folder, and its record."""
    np.save(path, array, allow_pickle=False)
    record(path, array)


def record(path: Path, array: np.ndarray | None = None) -> None:
    """Write type, shape, size and checksum of an array into ``model.json``."""
    document = path.parent / "model.json"
    known = json.loads(document.read_text())
    content = path.read_bytes()
    own = known["arrays"].setdefault(path.stem, {})
    if array is not None:
        own |= {"dtype": array.dtype.str, "shape": list(array.shape)}
    own |= {"bytes": len(content), "crc32": zlib.crc32(content)}
    document.write_text(json.dumps(known))


def _mutate_array(path: Path, rng: np.random.Generator) -> str:
    how = rng.choice(["value", "value", "value", "fill", "order", "shape", "type", "file"])
    name = f"{path.parent.name}/{path.stem}"
    try:
        array = np.load(path, allow_pickle=False).copy()
    except BROKEN_ARRAY:  # mutated already
        return f"{name}: left"
    if how == "file":
        return f"{name}: {_mutate_file(path, rng)}"
    if how in ("value", "fill") and array.size:
        value = _odd_number(array, rng)
        flat = array.reshape(-1)
        if how == "fill":
            flat[:] = value
        else:
            places = rng.integers(array.size, size=int(rng.choice([1, 1, 3, 30])))
            flat[rng.choice([0, array.size - 1]) if rng.random() < 0.3 else places] = value
        how = f"{how} {value}"
    elif how == "order" and array.size:
        array = array[::-1] if rng.random() < 0.5 else rng.permutation(array.reshape(-1)).reshape(array.shape)
    elif how == "shape":
        array, how = _reshaped(array, rng)
    elif how == "type":
        kind = _TYPES[rng.integers(len(_TYPES))]
        with np.errstate(all="ignore"):
            array = array.astype(kind)
        how = f"type {kind}"
    set_array(path, np.ascontiguousarray(array).reshape(array.shape))
    return f"{name}: {how}"


def _odd_number(array: np.ndarray, rng: np.random.Generator) -> Any:
    if array.dtype.kind == "f":
        return rng.choice([0, -1, 1, np.nan, np.inf, -np.inf, 1e-30, 1e10, 3e38, -3e38])
    if array.dtype.kind == "b":
        return bool(rng.integers(2))
    limits = np.iinfo(array.dtype)
    near = [0, 1, -1, int(array.max()) + 1, int(array.max()), int(array.min()) - 1, int(array.max()) // 2, array.size]
    value = int(rng.choice([*near, limits.max, limits.min, 2**20]))
    return min(max(value, limits.min), limits.max)


def _reshaped(array: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, str]:
    how = rng.choice(["cut", "longer", "flat", "turned", "deeper", "empty", "repeated", "scalar"])
    if how == "cut":
        return array[: max(0, len(array) - 1 - int(rng.integers(3)))], how
    if how == "longer":
        return np.concatenate([array, array[-1:]]), how
    if how == "flat":
        return array.reshape(-1), how
    if how == "turned":
        return np.ascontiguousarray(array.T), how
    if how == "deeper":
        return array[None], how
    if how == "repeated":
        return np.concatenate([array, array]), how
    if how == "scalar":
        return np.array(array.reshape(-1)[0] if array.size else 0, array.dtype), how
    return np.zeros((0, *array.shape[1:]), array.dtype), how


def _mutate_file(path: Path, rng: np.random.Generator) -> str:
    how = rng.choice(["header", "bytes", "cut", "gone", "link", "folder", "pickle", "wide"])
    content = bytearray(path.read_bytes())
    if how == "gone":
        path.unlink()
        return how
    if how == "link":
        path.rename(path.with_suffix(".moved"))
        os.symlink(path.with_suffix(".moved"), path)
        return how
    if how == "folder":
        path.unlink()
        path.mkdir()
        return how
    if how == "pickle":
        np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    elif how == "wide":
        array = np.zeros((0, 2**40), np.float32)
        np.save(path, array)
        record(path, array)
        return how
    else:
        if how == "cut":
            content = content[: rng.integers(len(content))]
        else:
            end = min(len(content), 120) if how == "header" else len(content)
            for _ in range(int(rng.integers(1, 6))):
                content[rng.integers(end)] = rng.integers(256)
        path.write_bytes(bytes(content))
    record(path)
    return how


def _mutate_document(path: Path, rng: np.random.Generator) -> str:
    text = path.read_text()
    if rng.random() < 0.1:
        content = bytearray(text.encode())
        for _ in range(int(rng.integers(1, 4))):
            content[rng.integers(len(content))] = rng.integers(256)
        path.write_bytes(bytes(content))
        return f"{path.parent.name}: bytes of model.json"
    document = json.loads(text)
    places = list(_places(document))
    above, key, trail = places[rng.integers(len(places))]
    how = rng.choice(["set", "set", "set", "drop", "nudge", "name"])
    value = above[key]
    if how == "drop":
        del above[key]
    elif how == "nudge" and isinstance(value, int | float) and not isinstance(value, bool):
        above[key] = value + int(rng.choice([-1, 1, 100])) if rng.random() < 0.6 else -value
    elif how == "name" and isinstance(above, dict):
        name = rng.choice(["../x", "/etc/x", "x/y", "x" * 300, ".", "", "base/..", "é", "CON"])
        above[str(name)] = above.pop(key)
    else:
        above[key] = ODD[rng.integers(len(ODD))]
        how = f"set {above[key]!r}"[:60]
    path.write_text(json.dumps(document))
    return f"{path.parent.name}: {trail} {how}"


def _places(value: Any, trail: str = "") -> Any:
    """Yield every place of a JSON document: what it is in, its key, and the way to it."""
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key, f"{trail}.{key}"
        if isinstance(value[key], dict | list) and len(trail) < 200:
            yield from _places(value[key], f"{trail}.{key}")
