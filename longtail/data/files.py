"""Open plain and compressed files, find them by one of several names, and write them completely or not at all."""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from longtail.errors import DataError, SettingsError

COMPRESSED = (".gz", ".xz", ".zst")
OVERWRITE = "Choose another, or pass overwrite=True (--overwrite on the command line)"
UNPACKED_VARIABLE = "LONGTAIL_MOST_UNPACKED"
"""Environment variable with the number of bytes that one compressed byte may unpack to."""
_DEFAULT_MOST_UNPACKED = 300
_ALWAYS_ALLOWED = 1 << 28  # bytes that any file may unpack to
_COMPRESSED_BYTES = 1 << 13  # passed to the decompressor at once, as its output can only be counted afterwards
_COPY_AGAIN = "Copy or download it again"


def plain_name(path: Path) -> str:
    """Return the name of a file without the ending of the compression."""
    return path.name[: -len(path.suffix)] if path.suffix in COMPRESSED else path.name


def find(folder: Path, *names: str) -> Path | None:
    """Return the first file in `folder` with one of `names`, plain or compressed, or None if there is none."""
    for name in names:
        for ending in ("", *COMPRESSED):
            path = folder / (name + ending)
            if path.is_file():
                return path
    return None


class _Limited(io.RawIOBase):
    """A decompressed stream that raises an error when a small file unpacks to an enormous one.

    A file of 460 kB can unpack to 15 GB. Real data rarely unpacks to more than 30 times its size.
    """

    def __init__(self, stream: Any, path: Path) -> None:
        self._stream, self._path, self._unpacked = stream, path, 0
        self._most = max(_ALWAYS_ALLOWED, most_unpacked() * path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n = self._stream.readinto(buffer)
        self._unpacked += n
        if self._unpacked > self._most:
            raise too_much_unpacked(self._path)
        return n


def most_unpacked() -> int:
    """Return how many bytes one compressed byte may unpack to."""
    text = os.environ.get(UNPACKED_VARIABLE, "")
    if not text:
        return _DEFAULT_MOST_UNPACKED
    if not text.isdecimal() or int(text) < 1:
        raise SettingsError(f"{UNPACKED_VARIABLE} is {text[:40]!r}; give a whole number from 1")
    return int(text)


def too_much_unpacked(path: Path) -> DataError:
    """Return the error for a compressed file that unpacks to more than is plausible."""
    most = most_unpacked()
    return DataError(
        f"unpacks to more than {most} bytes per compressed byte",
        path=path,
        remedy=f"If that is right, unpack it first, or set the variable {UNPACKED_VARIABLE} to more than {most}",
    )


def check_regular(path: Path) -> None:
    """Refuse fifos, sockets and devices, which may never end and cannot be read twice."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return  # opening the file will raise an error that says what is wrong
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise DataError(
            "a fifo, socket or device, not a file", path=path, remedy="Write the data to a file first, and give that"
        )


class _Zstandard(io.RawIOBase):
    """A stream of Zstandard frames that detects truncated files, which the package's own reader does not."""

    def __init__(self, file: IO[bytes]) -> None:
        import zstandard

        self._file, self._new_frame = file, zstandard.ZstdDecompressor().decompressobj
        self._frame: Any = None
        self._buffer, self._at = b"", 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while self._at == len(self._buffer):
            piece = b"" if self._frame is None else self._frame.unused_data
            if self._frame is not None and self._frame.eof:
                self._frame = None
            piece = piece or self._file.read(_COMPRESSED_BYTES)
            if not piece:
                if self._frame is not None:
                    raise EOFError
                return 0
            self._frame = self._frame or self._new_frame()
            self._buffer, self._at = self._frame.decompress(piece), 0
        part = memoryview(self._buffer)[self._at : self._at + len(buffer)]
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)


def _decompressed(file: IO[bytes]) -> IO[bytes]:
    """Return the decompressed stream. The first bytes show the compression, as the ending of the name may be wrong."""
    head = file.read(6)
    file.seek(0)
    if head.startswith(b"\x1f\x8b"):
        import gzip

        return gzip.GzipFile(fileobj=file)  # type: ignore[return-value]
    if head.startswith(b"\xfd7zXZ\x00"):
        import lzma

        return lzma.LZMAFile(file)  # type: ignore[return-value]
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return _Zstandard(file)  # type: ignore[return-value]
    return file


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading, decompressed. Any error while reading becomes a `DataError` with the file's name."""
    broken: list[type[BaseException]] = []
    try:
        check_regular(path)
        with open(path, "rb") as file:
            stream = _decompressed(file)
            if stream is not file:
                import lzma
                import zlib

                broken += [zlib.error, lzma.LZMAError]
                if isinstance(stream, _Zstandard):
                    import zstandard

                    broken.append(zstandard.ZstdError)
                stream = io.BufferedReader(_Limited(stream, path), 1 << 20)  # type: ignore[assignment]
            yield stream
    except EOFError:
        what = "the compressed data ends too early: the file is cut off"
        raise DataError(what, path=path, remedy=_COPY_AGAIN) from None
    except DataError:
        raise
    except tuple(broken) as error:
        raise DataError(f"the compressed data is damaged ({error})", path=path, remedy=_COPY_AGAIN) from None
    except OSError as error:
        damaged = error.filename is None  # gzip's errors about the content have no file name
        what = f"the compressed data is damaged ({error})" if damaged else f"cannot be read ({error.strerror})"
        remedy = _COPY_AGAIN if damaged else "Check the path and its permissions"
        raise DataError(what, path=path, remedy=remedy) from None


def check_whole(path: Path) -> None:
    """Raise an error if a compressed file is damaged, by reading it to its end: damage explains wrong content."""
    with open_bytes(path) as stream:
        while plain_name(path) != path.name and stream.read(1 << 20):
            pass


def line_blocks(stream: IO[bytes], size: int) -> Iterator[bytes]:
    """Yield blocks of complete lines, of about `size` bytes each. Every block ends with a newline."""
    carried: list[bytes] = []
    while piece := stream.read(size):
        cut = piece.rfind(b"\n") + 1
        if not cut:
            carried.append(piece)
            continue
        yield b"".join([*carried, piece[:cut]])
        carried = [piece[cut:]] if cut < len(piece) else []
    if carried:
        yield b"".join([*carried, b"\n"])


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file that are not blank, with their numbers, counted from 1."""
    number = 0
    with open_bytes(path) as stream:
        for block in line_blocks(stream, 1 << 20):
            for line in block.split(b"\n")[:-1]:
                number += 1
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if line and not line.isspace():
                    yield number, line


# Writing ------------------------------------------------------------------------------------------------------------


@contextmanager
def _compressing(file: IO[bytes], ending: str) -> Iterator[IO[bytes]]:
    stream: Any
    if ending == ".gz":
        import gzip

        stream = gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0)  # same data, same bytes
    elif ending == ".xz":
        import lzma

        stream = lzma.LZMAFile(file, "wb")  # noqa: SIM115  (closed below)
    elif ending == ".zst":
        import zstandard

        stream = zstandard.ZstdCompressor(level=6).stream_writer(file, closefd=False)
    else:
        yield file
        return
    with stream:
        yield stream


@contextmanager
def write_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Write a file, compressed according to its ending. It appears under its name only when it is complete."""
    from longtail.store import atomic_file

    with atomic_file(path) as fresh, fresh.open("xb") as file:
        with _compressing(file, path.suffix) as stream:
            yield stream
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def write_folder(path: Path, known: re.Pattern[str], overwrite: bool) -> Iterator[Path]:
    """Write a folder, which appears under its name only when it is complete.

    An existing folder is replaced only with `overwrite`, and only if it has nothing but files whose names match
    `known`.
    """
    if path.exists() and not path.is_dir():
        raise DataError("there is a file where a folder should be written", path=path, remedy="Choose another name")
    if path.exists() and any(path.iterdir()) and not overwrite:
        raise DataError("the folder exists and is not empty", path=path, remedy=OVERWRITE)
    from longtail.store import atomic_folder

    def foreign(folder: Path) -> str | None:
        if not overwrite:
            return "exists and is not empty"
        entries = [
            entry
            for entry in folder.iterdir()
            if not (known.fullmatch(entry.name) and stat.S_ISREG(entry.lstat().st_mode))
        ]
        names = ", ".join(sorted(entry.name for entry in entries)[:5])
        return f"holds what is not part of a dataset: {names}" if entries else None

    with atomic_folder(path, foreign) as fresh:
        yield fresh
