"""Store compiled kernels on disk.

Numba's own cache has four problems. It raises an error at import if no folder is writable. Several processes that save
versions of one function at the same time may use the same file name. It does not notice a change in a function of
another file. And it raises an error if an entry is damaged, or refers to a class that has been renamed. This cache
works as follows:

- Entries are written to the first writable folder, and read from every folder that exists.
- A wheel or an image may contain entries that were compiled for a level of processors (see
  :mod:`longtail.kernels.cpu_level`). An entry for exactly this processor is preferred.
- The name of an entry is a digest of its signature, and its content begins with a checksum.
- An entry is fresh as long as its own source file and the kernel files that it imports are unchanged.
- An entry that cannot be read is compiled again. If no entry can be written, kernels are compiled in each process.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import os
import pickle
import re
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator
from numba.core.runtime import rtsys

from longtail.kernels.cache_folders import cache_folders, readable_folders, writable_folder
from longtail.kernels.cpu_level import level_target

_log = logging.getLogger("longtail.kernels")
_PACKAGE = Path(__file__).parent
_KERNEL_IMPORT = re.compile(r"^from longtail\.kernels(?:\.(\w+))? import (.+)$", re.MULTILINE)
_LONG = 1.0  # seconds of compilation after which a message explains the delay


# Freshness ----------------------------------------------------------------------------------------------------------


@cache
def _source_stamp(file: str) -> str:
    """Return a digest of a source file and of the kernel files that it imports, directly or indirectly."""
    digest, seen, waiting = hashlib.sha256(), set(), [Path(file)]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        text = path.read_bytes()
        digest.update(hashlib.sha256(text).digest())
        for module, names in _KERNEL_IMPORT.findall(text.decode("utf-8")):
            imported = [module] if module else re.findall(r"\w+", names.replace(" as ", ","))
            waiting += [_PACKAGE / f"{name}.py" for name in imported if name in _modules()]
    return digest.hexdigest()


@cache
def _modules() -> frozenset[str]:
    """Return the names of the kernel files. A change in one of them makes compiled kernels stale."""
    return frozenset(path.stem for path in _PACKAGE.glob("*.py")) - {
        "__init__",
        "cache_folders",
        "compiled_cache",
        "cpu_level",
        "pool",
    }


# Entries ------------------------------------------------------------------------------------------------------------


class _Locator(_CacheLocator):
    """Provides Numba with facts about the source of a function."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self._py_file, self._line = file, function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return os.fspath(writable_folder() or "")

    def get_source_stamp(self) -> str:
        return _source_stamp(self._py_file)

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> _Locator:
        return cls(function, file)


class _Entries(CompileResultCacheImpl):
    """Converts a compiled function to bytes."""

    _locator_classes = [_Locator]  # noqa: RUF012 (as in the base class)


class _Files(IndexDataCacheFile):
    """The index and the entries of one function in one folder."""

    def _load_index(self) -> dict[Any, str]:
        try:
            return super()._load_index()
        except Exception as error:  # a pickle can fail in any way, for example if a class was renamed
            _log.debug("%s cannot be read and is replaced: %s", self._index_path, error)
            return {}

    def save(self, key: Any, data: Any) -> None:
        """Write an entry, then the index. Two processes that save the same signature write the same file."""
        name = self._data_name_pattern.replace("{number:d}", hashlib.sha256(repr(key).encode()).hexdigest()[:16])
        self._save_data(name, data)
        self._save_index(self._load_index() | {key: name})

    def _save_data(self, name: str, data: Any) -> None:
        content = self._dump(data)
        with self._open_for_write(self._data_path(name)) as stream:
            stream.write(hashlib.sha256(content).digest())
            stream.write(content)

    def _load_data(self, name: str) -> Any:
        content = Path(self._data_path(name)).read_bytes()
        if hashlib.sha256(content[32:]).digest() != content[:32]:
            raise ValueError("the checksum is wrong")
        return pickle.loads(content[32:])


class CompiledCache(FunctionCache):
    """The compiled versions of one kernel on disk."""

    _impl_class = _Entries

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name, self._py_func = repr(function), function
        self._enabled = os.path.exists(inspect.getfile(function))  # not in a notebook or an archive
        self._files: list[_Files] | None = None

    @property
    def cache_path(self) -> str:
        """The folder that entries are written to."""
        return os.fspath(writable_folder() or "")

    def flush(self) -> None:
        """Remove all versions."""
        if writable_folder() is not None:
            self._opened()[0].flush()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled version for a signature, or None if there is no usable one."""
        if not self._enabled:
            return None
        rtsys.initialize(target_context)  # `refresh` would also load what only compilation needs: 0.17 s, 18 MB
        for files in self._opened():
            for key in self._keys(sig, target_context.codegen()):
                try:
                    data = files.load(key)
                    if data is not None:
                        return self._impl.rebuild(target_context, data)
                except Exception as error:
                    _log.debug("A compiled version of %s cannot be used: %s", self._py_func.__name__, error)
        _compilation.begins()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store a compiled version, if a folder is writable."""
        _compilation.ends()
        if not self._enabled or not self._impl.check_cachable(data):
            return
        if writable_folder() is None:
            _compilation.cannot_be_kept(f"none of {', '.join(map(str, cache_folders()))} can be written")
            return
        try:
            self._opened()[0].save(self._index_key(sig, data.codegen), self._impl.reduce(data))
        except OSError as error:
            _compilation.cannot_be_kept(f"{writable_folder()}: {error.strerror or error}")

    def _keys(self, sig: Any, codegen: Any) -> list[Any]:
        """Return the keys of usable versions: for this processor, and for its level."""
        signature, target, code = self._index_key(sig, codegen)
        targets = {target, level_target(target)} - {None}
        return [(signature, one, code) for one in sorted(targets, key=lambda one: one != target)]

    def _opened(self) -> list[_Files]:
        if self._files is None:
            self._impl = _Entries(self._py_func)
            name, stamp = self._impl.filename_base, self._impl.locator.get_source_stamp()
            self._files = [_Files(os.fspath(folder), name, stamp) for folder in readable_folders()]
        return self._files


# Remarks ------------------------------------------------------------------------------------------------------------


class _Compilation:
    """Measures the time of compilation in this process, and logs a message once if it takes long."""

    def __init__(self) -> None:
        self.depth, self.since, self.seconds = 0, 0.0, 0.0
        self.announced = self.warned = False

    def begins(self) -> None:
        """Record that the compilation of a kernel begins, perhaps of one that another kernel calls."""
        now = time.perf_counter()
        if self.depth > 0:
            self.seconds += now - self.since
        self.depth, self.since = self.depth + 1, now
        if self.seconds > _LONG and not self.announced:
            self.announced = True
            once = ", once per machine" if writable_folder() is not None else ""
            _log.info("Compiling kernels%s; this can take half a minute. `longtail warm` does it beforehand.", once)

    def ends(self) -> None:
        """Record that the compilation of a kernel has ended."""
        now = time.perf_counter()
        if self.depth > 0:
            self.seconds += now - self.since
            self.depth, self.since = self.depth - 1, now

    def cannot_be_kept(self, why: str) -> None:
        """Log a warning, once, that the next process has to compile again."""
        if not self.warned:
            self.warned = True
            _log.warning(
                "Compiled kernels cannot be kept, and every start takes some seconds longer: %s. "
                "Set LONGTAIL_CACHE to a folder that can be written.",
                why,
            )


_compilation = _Compilation()
