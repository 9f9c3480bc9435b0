"""Encode texts as dense vectors: with a user's own function, an ONNX file, or a sentence-transformers model.

Encoders are not trained. Vectors are scaled to length 1, and a text without a letter or digit gets a vector of zeros.
ONNX files and sentence-transformers models get one text at a time, because the last bits of a vector would otherwise
depend on the other texts of the batch.

A model folder stores the import name of a function, or the path of a file or folder together with its checksum. For
functions that a model folder names, the rules of :mod:`longtail.data.analyzers` apply.
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
_BATCH_TEXTS = 256  # texts per call of a function, and between two reports of progress
_DEFAULT_MAX_TOKENS = 512  # longer texts are cut off, if the files of a model do not give another limit
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_MODEL_ENDINGS = (".json", ".txt", ".model", ".safetensors", ".bin", ".onnx", ".data")  # files that the checksum covers

Encode = Callable[[list[str]], Any]


def encoder(function: Encode) -> Encode:
    """Decorate a function from a list of texts to an array of vectors, so that models may use it.

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
        blocks = [rows[start : start + _BATCH_TEXTS] for start in range(0, len(rows), _BATCH_TEXTS)]
        with stage("encoding texts") as done:

            def work(block: list[int]) -> None:
                vectors[block] = self._checked([texts[at] for at in block])
                done(len(block) / len(rows))

            pool.run(work, blocks, n_jobs if self._threads else 1)
        return vectors

    def _checked(self, texts: list[str]) -> np.ndarray:
        """Return the unit vectors of texts, or raise an error if the encoder returns anything but vectors."""
        try:
            vectors = np.asarray(self._encode(texts))
        except (SettingsError, ModelError):
            raise
        except Exception as error:
            raise DataError(f"the encoder {self.name} raised {type(error).__name__}: {error}") from error
        remedy = f"Return an array of {len(texts)} rows of numbers for {len(texts)} texts"
        if vectors.ndim != 2 or vectors.dtype.kind not in "fiub" or not vectors.size:
            raise DataError(
                f"the encoder {self.name} returned shape {vectors.shape} and type {vectors.dtype}", remedy=remedy
            )
        if len(vectors) != len(texts):
            raise DataError(
                f"the encoder {self.name} returned {len(vectors)} rows for {len(texts)} texts", remedy=remedy
            )
        if self.size is not None and vectors.shape[1] != self.size:
            raise DataError(
                f"the encoder {self.name} returned vectors of {vectors.shape[1]} numbers, not {self.size}",
                remedy="Use the encoder that the model was trained with",
            )
        return checked_vectors(vectors, f"the encoder {self.name}")

    _threads: ClassVar[bool] = True  # whether several threads may encode at the same time

    def _encode(self, texts: list[str]) -> Any:
        raise AssertionError(f"{type(self).__name__} must define _encode")

    def checksum(self) -> str | None:
        """Return a checksum of the files of the encoder, or None for a function."""
        return None

    def facts(self) -> dict[str, Any]:
        """Return what a model folder stores about the encoder, as JSON values."""
        return {"kind": self.kind, "name": self.name, "checksum": self.checksum(), "size": self.size}


def checked_vectors(vectors: np.ndarray, source: str) -> np.ndarray:
    """Scale vectors to length 1 as float32, and raise an error for NaN and infinity. Rows of zeros stay zero.

    Parameters
    ----------
    vectors : array, (n, d)
        Vectors of any length.
    source : str
        Where they come from, for the error message.
    """
    with np.errstate(over="ignore"):  # values that become infinite are refused below
        rows = np.asarray(vectors, np.float32)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        bad = int(np.argmin(finite))
        raise DataError(f"{source}: a vector holds NaN or infinity", row=bad, remedy="Check how it was computed")
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))[:, None]
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0, casting="unsafe")


class FunctionEncoder(Encoder):
    """Encoder that calls a function from a list of texts to an array, stored by its import name."""

    kind = "function"
    _threads = False

    def __init__(self, name: str, function: Encode) -> None:
        super().__init__(name)
        self._function = function

    def _encode(self, texts: list[str]) -> Any:
        return self._function(texts)

    def __reduce__(self) -> Any:
        return _unpickled_function, (self.name, self.size)


def _unpickled_function(name: str, size: int | None) -> FunctionEncoder:
    """Rebuild a function encoder in another process of the same program."""
    made = FunctionEncoder(name, find_function(name, trusted=True, kind="encoder"))
    made.size = size
    return made


class _FileEncoder(Encoder):
    """Encoder that is stored in files, which are opened when it is first used."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._opened: Any = None
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:
        return _unpickled_file, (type(self), self.name, self.size)

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


def _unpickled_file(cls: type[_FileEncoder], name: str, size: int | None) -> _FileEncoder:
    """Rebuild a file encoder in another process."""
    made = cls(name)
    made.size = size
    return made


class OnnxEncoder(_FileEncoder):
    """Encoder that runs a transformer from an ONNX file, with ``tokenizer.json`` in the same folder or the one above.

    The vector of a text is the mean of its token vectors. It is the vector of the first token if
    ``1_Pooling/config.json`` says so. If the file itself returns one vector per text, that vector is used.
    """

    kind = "onnx"

    def _folder(self) -> Path:
        path = Path(self.name)
        return next((near for near in (path.parent, path.parent.parent) if (near / "tokenizer.json").is_file()), path)

    def _files(self) -> list[Path]:
        path, folder = Path(self.name), self._folder()
        settings = [folder / name for name in ("tokenizer.json", "1_Pooling/config.json", "sentence_bert_config.json")]
        return [file for file in (path, path.with_name(f"{path.name}.data"), *settings) if file.is_file()]

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
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # several texts are encoded in parallel
        try:
            session = onnxruntime.InferenceSession(self.name, options, providers=["CPUExecutionProvider"])
            tokenizer = tokenizers.Tokenizer.from_file(os.fspath(folder / "tokenizer.json"))
        except Exception as error:  # the packages raise classes of their own
            raise SettingsError(f"{self.name}: cannot be opened as an ONNX encoder ({error}).") from None
        names = [node.name for node in session.get_inputs()]
        unknown = [name for name in names if name not in _INPUTS]
        if unknown:
            raise SettingsError(f"{self.name}: has the input {unknown[0]}. An encoder takes {', '.join(_INPUTS)}.")
        cut = tokenizer.truncation
        longest = _json(folder / "sentence_bert_config.json").get("max_seq_length")
        tokenizer.enable_truncation(longest or (cut["max_length"] if cut else _DEFAULT_MAX_TOKENS))
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
            output = session.run(None, {name: inputs[name] for name in names})[0][0]
            if output.ndim == 2:  # one vector per token
                output = output[0] if first_token else output.mean(axis=0)
            vectors.append(output)
        return np.stack(vectors)


class SentenceTransformersEncoder(_FileEncoder):
    """Encoder that runs a sentence-transformers model from a folder."""

    kind = "sentence-transformers"
    _threads = False  # torch uses all cores for one text

    def _files(self) -> list[Path]:
        return [path for path in Path(self.name).rglob("*") if path.suffix in _MODEL_ENDINGS and path.is_file()]

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
    """Return the settings in a JSON file of a model, which are empty if there is no such file."""
    if not path.is_file():
        return {}
    try:
        settings = json.loads(path.read_bytes())
    except ValueError as error:
        raise SettingsError(f"{path}: is not JSON ({error}).") from None
    return settings if isinstance(settings, dict) else {}


def make_encoder(value: Any) -> Encoder:
    """Make the encoder that a user has specified.

    Parameters
    ----------
    value : callable, str or path
        A function that is marked by :func:`encoder`, its import name, an ONNX file, or the folder of a model.
    """
    if callable(value):
        return FunctionEncoder(import_name(value, "encoder"), value)
    name = os.fspath(value)
    path = Path(name)
    if not path.exists() and ":" in name and os.sep not in name:
        return FunctionEncoder(name, find_function(name, trusted=True, kind="encoder"))
    encoder_in_files = _file_encoder(path)
    if encoder_in_files is None:
        raise SettingsError(
            f"encoder is {name!r}, which is neither an ONNX file, nor a folder with model.onnx or with a "
            "sentence-transformers model (modules.json), nor the import name of a function such as "
            "package.module:function."
        )
    return encoder_in_files


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
    """Return the encoder that a model folder names, after checking that the model was trained with it.

    Parameters
    ----------
    facts : dict
        The facts that :meth:`Encoder.facts` returned. If the files have been moved, the environment variable
        ``LONGTAIL_ENCODER`` must name their new path.
    """
    kinds: dict[str, type[_FileEncoder]] = {cls.kind: cls for cls in (OnnxEncoder, SentenceTransformersEncoder)}
    known = (*kinds, FunctionEncoder.kind)
    if not isinstance(facts, dict) or facts.get("kind") not in known or not isinstance(facts.get("name"), str):
        raise ModelError("model.json does not name the encoder of the model. Train or copy the model again.")
    name, size = facts["name"], facts.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ModelError("model.json does not have the size of the vectors. Train or copy the model again.")
    made: Encoder
    if facts["kind"] == FunctionEncoder.kind:
        made = FunctionEncoder(name, find_function(name, trusted=False, kind="encoder"))
    else:
        moved = os.environ.get(_PATH_VARIABLE)
        candidate = _file_encoder(Path(moved)) if moved else kinds[facts["kind"]](name)
        where = moved or name
        if candidate is None or not Path(candidate.name).exists():
            raise ModelError(
                f"The model encodes texts with {where}, and there is no such encoder. Put it there, or set the "
                f"environment variable {_PATH_VARIABLE} to where it is."
            )
        if candidate.checksum() != facts.get("checksum"):
            raise ModelError(
                f"{where}: is not the encoder that the model was trained with: its checksum differs. Put that one "
                f"there, or set the environment variable {_PATH_VARIABLE} to where it is."
            )
        made = candidate
    made.size = size
    return made
