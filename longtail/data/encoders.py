"""Encode texts as dense vectors: by a user's own function, by an ONNX file, or by a sentence-transformers model.

An encoder is frozen: nothing here trains it. Vectors are scaled to length 1, and a text without a letter or digit has a
vector of zeros. ONNX files and sentence-transformers models get one text at a time, so that the vector of a text does
not depend on the texts beside it; a batch would change its last bits.

A model folder keeps the import name of a function, or the path of a file or folder with its checksum. A function that a
model folder names is used under the rules of :mod:`longtail.data.analyzers`.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from longtail.data.analyzers import find_function, import_name
from longtail.errors import DataError, ModelError, SettingsError
from longtail.kernels import pool
from longtail.progress import stage

_PATH_VARIABLE = "LONGTAIL_ENCODER"
_TEXTS_AT_ONCE = 256  # texts given to a function, or between two reports of progress
_TOKENS = 512  # of a text, where the files of a model do not say
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_WEIGHTS = (".json", ".txt", ".model", ".safetensors", ".bin", ".onnx", ".data")  # files that a checksum is made of

Encode = Callable[[list[str]], Any]


def encoder(function: Encode) -> Encode:
    """Mark a function from a list of texts to an array of vectors as one that models may use, and return it.

    The vector of a text must not depend on the other texts of the list.

    Examples
    --------
    >>> @encoder
    ... def lengths(texts):
    ...     return [[len(text), text.count(" ")] for text in texts]
    """
    function.longtail_encoder = True  # type: ignore[attr-defined]
    return function


class Encoder:
    """Base of all encoders.

    Parameters
    ----------
    name : str
        Import name of a function, or path of a file or folder.
    """

    kind: ClassVar[str]

    def __init__(self, name: str) -> None:
        self.name = name
        self.size: int | None = None  # numbers per vector, known after the first text

    def encode(self, texts: list[str], n_jobs: int | None = None) -> np.ndarray:
        """Return one vector of length 1 per text, (n, d) float32; zeros for a text without a letter or digit.

        Parameters
        ----------
        texts : list of str
            The texts.
        n_jobs : int, optional
            Number of threads; all cores by default. The result does not depend on it.
        """
        rows = [at for at, text in enumerate(texts) if any(map(str.isalnum, text))]
        if self.size is None:
            self.size = self._checked(["a text"]).shape[1]
        vectors = np.zeros((len(texts), self.size), np.float32)
        blocks = [rows[start : start + _TEXTS_AT_ONCE] for start in range(0, len(rows), _TEXTS_AT_ONCE)]
        with stage("encoding texts") as done:

            def work(block: list[int]) -> None:
                vectors[block] = self._checked([texts[at] for at in block])
                done(len(block) / len(rows))

            pool.run(work, blocks, n_jobs if self._threads else 1)
        return vectors

    def _checked(self, texts: list[str]) -> np.ndarray:
        """Return unit vectors; raise an error for anything else."""
        try:
            found = np.asarray(self._encode(texts))
        except (SettingsError, ModelError):
            raise
        except Exception as error:
            raise DataError(f"the encoder {self.name} raised {type(error).__name__}: {error}") from error
        remedy = f"Return an array of {len(texts)} rows of numbers for {len(texts)} texts"
        if found.ndim != 2 or found.dtype.kind not in "fiub" or not found.size:
            raise DataError(
                f"the encoder {self.name} returned shape {found.shape} and type {found.dtype}", remedy=remedy
            )
        if len(found) != len(texts):
            raise DataError(f"the encoder {self.name} returned {len(found)} rows for {len(texts)} texts", remedy=remedy)
        if self.size is not None and found.shape[1] != self.size:
            raise DataError(
                f"the encoder {self.name} returned vectors of {found.shape[1]} numbers, not {self.size}",
                remedy="Use the encoder that the model was trained with",
            )
        return checked_vectors(found, f"the encoder {self.name}")

    _threads: ClassVar[bool] = True  # whether several threads may encode at the same time

    def _encode(self, texts: list[str]) -> Any:
        raise AssertionError(f"{type(self).__name__} must define _encode")

    def checksum(self) -> str | None:
        """Return a checksum of the files of the encoder; None for a function."""
        return None

    def facts(self) -> dict[str, Any]:
        """Return what a model folder keeps of the encoder, as JSON values."""
        return {"kind": self.kind, "name": self.name, "checksum": self.checksum(), "size": self.size}


def checked_vectors(vectors: np.ndarray, source: str) -> np.ndarray:
    """Return vectors of length 1 as float32; rows of zeros stay. Refuse NaN and infinity.

    Parameters
    ----------
    vectors : array, (n, d)
        Numbers.
    source : str
        Where they are from, for the error message.
    """
    with np.errstate(over="ignore"):  # what becomes infinite is refused below
        rows = np.asarray(vectors, np.float32)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        bad = int(np.argmin(finite))
        raise DataError(f"{source}: a vector holds NaN or infinity", row=bad, remedy="Check how it was computed")
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))[:, None]
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0, casting="unsafe")


class FunctionEncoder(Encoder):
    """A function from a list of texts to an array, kept by its import name."""

    kind = "function"
    _threads = False

    def __init__(self, name: str, function: Encode) -> None:
        super().__init__(name)
        self._function = function

    def _encode(self, texts: list[str]) -> Any:
        return self._function(texts)

    def __reduce__(self) -> Any:
        return _same_function, (self.name, self.size)


def _same_function(name: str, size: int | None) -> FunctionEncoder:
    """Return a function encoder in another process of the same program."""
    made = FunctionEncoder(name, find_function(name, trusted=True, kind="encoder"))
    made.size = size
    return made


class _FileEncoder(Encoder):
    """An encoder in files, opened when it is first used."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._opened: Any = None
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:
        return _same_file, (type(self), self.name, self.size)

    def _files(self) -> list[Path]:
        raise AssertionError(f"{type(self).__name__} must define _files")

    def checksum(self) -> str:
        """Return a checksum of the names and contents of the files."""
        digest = hashlib.blake2b(digest_size=16)
        for path in sorted(self._files()):
            digest.update(path.name.encode())
            with path.open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
        return digest.hexdigest()

    def _model(self) -> Any:
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
        return self._opened

    def _open(self) -> Any:
        raise AssertionError(f"{type(self).__name__} must define _open")


def _same_file(cls: type[_FileEncoder], name: str, size: int | None) -> _FileEncoder:
    """Return a file encoder in another process."""
    made = cls(name)
    made.size = size
    return made


class OnnxEncoder(_FileEncoder):
    """A transformer in an ONNX file, with ``tokenizer.json`` beside it or in the folder above.

    The mean of the token vectors is the vector of a text, unless ``1_Pooling/config.json`` says that it is the vector
    of the first token, or the file itself returns one vector per text.
    """

    kind = "onnx"

    def _folder(self) -> Path:
        path = Path(self.name)
        return next((one for one in (path.parent, path.parent.parent) if (one / "tokenizer.json").is_file()), path)

    def _files(self) -> list[Path]:
        path, folder = Path(self.name), self._folder()
        beside = [folder / name for name in ("tokenizer.json", "1_Pooling/config.json", "sentence_bert_config.json")]
        return [one for one in (path, path.with_name(f"{path.name}.data"), *beside) if one.is_file()]

    def _open(self) -> Any:
        try:
            import onnxruntime
            import tokenizers
        except ImportError as error:
            raise SettingsError(
                f'An ONNX encoder needs the package {error.name}. Install it with: pip install "longtail[encoder]"'
            ) from None
        folder = self._folder()
        if not (folder / "tokenizer.json").is_file():
            raise SettingsError(
                f"{self.name}: there is no tokenizer.json beside it. Copy the one of the model into the same folder."
            )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # texts share the cores instead
        try:
            session = onnxruntime.InferenceSession(self.name, options, providers=["CPUExecutionProvider"])
            tokenizer = tokenizers.Tokenizer.from_file(os.fspath(folder / "tokenizer.json"))
        except Exception as error:  # the packages raise classes of their own
            raise SettingsError(f"{self.name}: cannot be opened as an ONNX encoder ({error}).") from None
        names = [one.name for one in session.get_inputs()]
        unknown = [name for name in names if name not in _INPUTS]
        if unknown:
            raise SettingsError(f"{self.name}: has the input {unknown[0]}. An encoder takes {', '.join(_INPUTS)}.")
        cut = tokenizer.truncation
        longest = _json(folder / "sentence_bert_config.json").get("max_seq_length")
        tokenizer.enable_truncation(longest or (cut["max_length"] if cut else _TOKENS))
        tokenizer.no_padding()
        pooling = _json(folder / "1_Pooling" / "config.json")
        return session, tokenizer, names, bool(pooling.get("pooling_mode_cls_token", False))

    def _encode(self, texts: list[str]) -> Any:
        session, tokenizer, names, first_token = self._model()
        vectors = []
        for text in texts:
            encoded = tokenizer.encode(text)
            parts = encoded.ids, encoded.attention_mask, encoded.type_ids
            inputs = {name: np.array([part], np.int64) for name, part in zip(_INPUTS, parts, strict=True)}
            found = session.run(None, {name: inputs[name] for name in names})[0][0]
            if found.ndim == 2:  # one vector per token
                found = found[0] if first_token else found.mean(axis=0)
            vectors.append(found)
        return np.stack(vectors)


class SentenceTransformersEncoder(_FileEncoder):
    """A folder with a sentence-transformers model, run by that package."""

    kind = "sentence-transformers"
    _threads = False  # torch uses all cores for one text

    def _files(self) -> list[Path]:
        return [path for path in Path(self.name).rglob("*") if path.suffix in _WEIGHTS and path.is_file()]

    def _open(self) -> Any:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise SettingsError(
                f"{self.name} needs the package {error.name}. Install it with: pip install sentence-transformers; "
                "or give the ONNX file of the model."
            ) from None
        try:
            return SentenceTransformer(self.name, device="cpu", local_files_only=True)
        except Exception as error:  # the package raises classes of its own
            raise SettingsError(f"{self.name}: cannot be opened as a sentence-transformers model ({error}).") from None

    def _encode(self, texts: list[str]) -> Any:
        return self._model().encode(texts, batch_size=1, show_progress_bar=False, convert_to_numpy=True)


def _json(path: Path) -> dict[str, Any]:
    """Return the settings in a file of a model; none if there is no such file."""
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        raise SettingsError(f"{path}: is not JSON ({error}).") from None
    return found if isinstance(found, dict) else {}


def make_encoder(value: Any) -> Encoder:
    """Return the encoder that a user names.

    Parameters
    ----------
    value : callable, str or path
        A function marked by :func:`encoder`, its import name, an ONNX file, or a folder of a model.
    """
    if callable(value):
        return FunctionEncoder(import_name(value, "encoder"), value)
    name = os.fspath(value)
    path = Path(name)
    if not path.exists() and ":" in name and os.sep not in name:
        return FunctionEncoder(name, find_function(name, trusted=True, kind="encoder"))
    found = _file_encoder(path)
    if found is None:
        raise SettingsError(
            f"encoder is {name!r}, which is neither an ONNX file, nor a folder with model.onnx or with a "
            "sentence-transformers model (modules.json), nor the import name of a function such as "
            "package.module:function."
        )
    return found


def _file_encoder(path: Path) -> Encoder | None:
    if path.is_file() and path.suffix == ".onnx":
        return OnnxEncoder(os.path.abspath(path))
    for inside in (path / "model.onnx", path / "onnx" / "model.onnx"):
        if inside.is_file():
            return OnnxEncoder(os.path.abspath(inside))
    if (path / "modules.json").is_file():
        return SentenceTransformersEncoder(os.path.abspath(path))
    return None


def restored_encoder(facts: Any) -> Encoder:
    """Return the encoder that a model folder names, if it is the one that the model was trained with.

    Parameters
    ----------
    facts : dict
        What :meth:`Encoder.facts` returned. The environment variable ``LONGTAIL_ENCODER`` says where the files are now.
    """
    kinds: dict[str, type[_FileEncoder]] = {one.kind: one for one in (OnnxEncoder, SentenceTransformersEncoder)}
    known = (*kinds, FunctionEncoder.kind)
    if not isinstance(facts, dict) or facts.get("kind") not in known or not isinstance(facts.get("name"), str):
        raise ModelError("model.json does not name the encoder of the model. Train or copy the model again.")
    name, size = facts["name"], facts.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ModelError("model.json does not say how long vectors are. Train or copy the model again.")
    made: Encoder
    if facts["kind"] == FunctionEncoder.kind:
        made = FunctionEncoder(name, find_function(name, trusted=False, kind="encoder"))
    else:
        moved = os.environ.get(_PATH_VARIABLE)
        found = _file_encoder(Path(moved)) if moved else kinds[facts["kind"]](name)
        where = moved or name
        if found is None or not Path(found.name).exists():
            raise ModelError(
                f"The model encodes texts with {where}, and there is no such encoder. Put it there, or set the "
                f"environment variable {_PATH_VARIABLE} to where it is."
            )
        if found.checksum() != facts.get("checksum"):
            raise ModelError(
                f"{where}: is not the encoder that the model was trained with: its checksum differs. Put that one "
                f"there, or set the environment variable {_PATH_VARIABLE} to where it is."
            )
        made = found
    made.size = size
    return made
