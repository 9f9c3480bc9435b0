"""Files as bytes: opened whatever their compression, found under any of their names, written all or nothing."""

from __future__ import annotations

import io
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from longtail.errors import DataError

COMPRESSED = (".gz", ".xz", ".zst")
_AGAIN = "Copy or download it again"


def plain_name(path: Path) -> str:
    """The file's name without the ending of its compression."""
    return path.name[: -len(path.suffix)] if path.suffix in COMPRESSED else path.name


def find(folder: Path, *names: str) -> Path | None:
    """The first file in `folder` with one of `names`, plain or compressed."""
    for name in names:
        for ending in ("", *COMPRESSED):
            path = folder / (name + ending)
            if path.is_file():
                return path
    return None


class _Zstandard(io.RawIOBase):
    """Frames of Zstandard as a stream. The package's own reader takes a cut-off file for a whole one; this does not."""

    def __init__(self, file: IO[bytes]) -> None:
        import zstandard

        self._file, self._new = file, zstandard.ZstdDecompressor().decompressobj
        self._frame: Any = None
        self._held, self._at = b"", 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while self._at == len(self._held):
            piece = b"" if self._frame is None else self._frame.unused_data
            if self._frame is not None and self._frame.eof:
                self._frame = None
            piece = piece or self._file.read(1 << 17)
            if not piece:
                if self._frame is not None:
                    raise EOFError
                return 0
            self._frame = self._frame or self._new()
            self._held, self._at = self._frame.decompress(piece), 0
        part = memoryview(self._held)[self._at : self._at + len(buffer)]
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)


def _decompressed(file: IO[bytes]) -> IO[bytes]:
    """The stream inside `file`, told by its first bytes, which names sometimes contradict."""
    head = file.read(6)
    file.seek(0)
    if head.startswith(b"\x1f\x8b"):
        import gzip

        return gzip.GzipFile(fileobj=file)  # type: ignore[return-value]
    if head.startswith(b"\xfd7zXZ\x00"):
        import lzma

        return lzma.LZMAFile(file)  # type: ignore[return-value]
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return io.BufferedReader(_Zstandard(file), 1 << 20)  # type: ignore[return-value]
    return file


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading, decompressed; whatever goes wrong while reading is a `DataError` that names the file."""
    broken: list[type[BaseException]] = []
    try:
        with open(path, "rb") as file:
            stream = _decompressed(file)
            if stream is not file:
                import lzma
                import zlib

                broken += [zlib.error, lzma.LZMAError]
                if isinstance(stream, io.BufferedReader):
                    import zstandard

                    broken.append(zstandard.ZstdError)
            yield stream
    except EOFError:
        raise DataError(
            "the compressed data ends before its end: the file is cut off", path=path, remedy=_AGAIN
        ) from None
    except DataError:
        raise
    except tuple(broken) as error:
        raise DataError(f"the compressed data is damaged ({error})", path=path, remedy=_AGAIN) from None
    except OSError as error:
        damaged = error.filename is None  # gzip's complaints about its contents carry no name
        what = f"the compressed data is damaged ({error})" if damaged else f"cannot be read ({error.strerror})"
        raise DataError(what, path=path, remedy=_AGAIN if damaged else "Check the path and its permissions") from None


def check_whole(path: Path) -> None:
    """Raise if a compressed file is damaged. Nonsense read from one is explained by that, and the end tells it."""
    with open_bytes(path) as stream:
        while plain_name(path) != path.name and stream.read(1 << 20):
            pass


def blocks(stream: IO[bytes], size: int) -> Iterator[bytes]:
    """Cut a stream into blocks of whole lines of about `size` bytes; each ends with a newline."""
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
    """Lines of a file with their numbers from 1, blank ones left out."""
    number = 0
    with open_bytes(path) as stream:
        for block in blocks(stream, 1 << 20):
            for line in block.split(b"\n")[:-1]:
                number += 1
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if line and not line.isspace():
                    yield number, line


def decode(line: bytes, path: Path, number: int) -> str:
    """A line as text, or the error that says where it is not UTF-8."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        remedy = "Convert the file to UTF-8, for example with iconv"
        raise DataError(f"not UTF-8 at byte {error.start} of the line", path=path, line=number, remedy=remedy) from None


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
    """Write a file, compressed as its name ends; it appears under its name only when whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            with _compressing(file, path.suffix) as stream:
                yield stream
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def write_folder(path: Path, known: re.Pattern[str], overwrite: bool) -> Iterator[Path]:
    """Write a folder that appears under its name only when whole.

    An existing folder is replaced only when asked, and only if it holds nothing but files whose names match `known`.
    """
    if path.exists() and not path.is_dir():
        raise DataError("there is a file where a folder should be written", path=path, remedy="Choose another name")
    held = sorted(entry.name for entry in path.iterdir()) if path.exists() else []
    if held and not overwrite:
        raise DataError(
            "the folder exists and is not empty", path=path, remedy="Choose another, or pass overwrite=True"
        )
    foreign = [name for name in held if not known.fullmatch(name)]
    if foreign:
        remedy = "Move them away or choose another folder"
        raise DataError(
            f"the folder holds files that are no dataset's: {', '.join(foreign[:5])}", path=path, remedy=remedy
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        fresh, old = temporary / "new", temporary / "old"
        fresh.mkdir()
        yield fresh
        if path.exists():
            os.rename(path, old)
        try:
            os.rename(fresh, path)
        except BaseException:
            if old.exists():
                os.rename(old, path)
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
