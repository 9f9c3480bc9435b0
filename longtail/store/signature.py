"""Sign model folders, so that a deployment can refuse a folder that it did not make.

A signature is an HMAC-SHA256, with the content of a key file, over the name and the SHA-256 of every file of the
folder, those of its parts included. The checksums in ``model.json`` show damage; only a signature shows forgery.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import stat
from pathlib import Path

from longtail.errors import ModelError, SettingsError
from longtail.store.folder import read_document
from longtail.store.replace import SIGNATURE

_SHORTEST_KEY, _LONGEST_KEY = 16, 1 << 16  # bytes
_MAKE_ONE = "Make one with: openssl rand -hex 32 > KEYFILE"
_READ_BYTES = 1 << 22


def sign(folder: str | os.PathLike[str], key: str | os.PathLike[str]) -> Path:
    """Write the signature of a model folder into it, and return the path of the signature.

    Parameters
    ----------
    folder : path-like
        A folder made by ``save``.
    key : path-like
        File with the secret key, of at least 16 bytes. Space around it is ignored.
    """
    folder = Path(folder)
    read_document(folder)
    if folder.resolve() in Path(key).resolve().parents:
        raise SettingsError(f"{key}: is in the folder that it signs, and no secret to anyone who has it. {_MAKE_ONE}")
    path = folder / SIGNATURE
    content = {"algorithm": "HMAC-SHA256", "signature": _signature(folder, read_key(key))}
    if path.is_symlink():
        raise ModelError(f"{path}: a link, which is not written to. Remove it first.")
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return path


def verify(folder: str | os.PathLike[str], key: str | os.PathLike[str]) -> None:
    """Compare a model folder with its signature; one that is missing or does not match is an error.

    Parameters
    ----------
    folder, key : path-like
        As for :func:`sign`.
    """
    folder, secret = Path(folder), read_key(key)
    read_document(folder)
    path = folder / SIGNATURE
    if not path.is_file() or path.is_symlink():
        raise ModelError(f"{folder}: not signed. Sign it with: longtail sign {folder} --key KEYFILE")
    try:
        document = json.loads(path.read_bytes()[:_LONGEST_KEY])
        given = document["signature"] if document["algorithm"] == "HMAC-SHA256" else ""
    except (ValueError, KeyError, TypeError, RecursionError):
        given = ""
    if not isinstance(given, str) or not hmac.compare_digest(given.encode(), _signature(folder, secret).encode()):
        raise ModelError(
            f"{folder}: the signature does not match: the folder was changed, or signed with another key. "
            "Do not use it unless you know why; copy it again from where it was signed."
        )


def read_key(path: str | os.PathLike[str]) -> bytes:
    """Return the secret of a key file."""
    path = Path(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise SettingsError(f"{path}: not a file. {_MAKE_ONE}")
        with path.open("rb") as file:
            secret = file.read(_LONGEST_KEY + 1).strip()
    except OSError as error:
        raise SettingsError(f"{path}: the key cannot be read ({error.strerror}). {_MAKE_ONE}") from None
    if not _SHORTEST_KEY <= len(secret) <= _LONGEST_KEY:
        raise SettingsError(f"{path}: a key has from {_SHORTEST_KEY} to {_LONGEST_KEY} bytes. {_MAKE_ONE}")
    return secret


def _signature(folder: Path, key: bytes) -> str:
    digest = hmac.new(key, b"longtail model folder\n", "sha256")
    for path in sorted(folder.rglob("*"), key=lambda p: p.relative_to(folder).as_posix()):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise ModelError(f"{path}: a link or device, which no model folder holds. Copy the model again.")
        if path.is_file() and path != folder / SIGNATURE:
            line = json.dumps([path.relative_to(folder).as_posix(), _file_digest(path)])
            digest.update(line.encode() + b"\n")
    return digest.hexdigest()


def _file_digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
    return digest.hexdigest()
