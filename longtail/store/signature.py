"""Sign model folders, so that a deployment can refuse a folder from anyone else.

A signature is an HMAC-SHA256 over the names and SHA-256 checksums of all files of the folder, those of its parts
included. Its key is the content of a key file. The checksums in ``model.json`` reveal damage; only a signature reveals
forgery.
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

_MIN_KEY_BYTES, _MAX_KEY_BYTES = 16, 1 << 16
_MAKE_ONE = "Make one with: openssl rand -hex 32 > KEYFILE"
_READ_BYTES = 1 << 22


def sign(folder: str | os.PathLike[str], key: str | os.PathLike[str]) -> Path:
    """Write the signature of a model folder into it, and return the path of the signature.

    Parameters
    ----------
    folder : path-like
        A folder made by ``save``.
    key : path-like
        File with the secret key of at least 16 bytes. White space around the key is ignored.
    """
    folder = Path(folder)
    read_document(folder)
    if folder.resolve() in Path(key).resolve().parents:
        raise SettingsError(
            f"{key}: the key is inside the folder to sign, so anyone who gets the folder gets the key. "
            f"Move it elsewhere, or make another one with: openssl rand -hex 32 > KEYFILE"
        )
    path = folder / SIGNATURE
    content = {"algorithm": "HMAC-SHA256", "signature": _signature(folder, read_key(key))}
    if path.is_symlink():
        raise ModelError(f"{path}: a link, which is not written to. Remove it first.")
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return path


def verify(folder: str | os.PathLike[str], key: str | os.PathLike[str]) -> None:
    """Raise an error unless a model folder has a signature that matches its content.

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
        document = json.loads(path.read_bytes()[:_MAX_KEY_BYTES])
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
            secret = file.read(_MAX_KEY_BYTES + 1).strip()
    except OSError as error:
        raise SettingsError(f"{path}: the key cannot be read ({error.strerror}). {_MAKE_ONE}") from None
    if not _MIN_KEY_BYTES <= len(secret) <= _MAX_KEY_BYTES:
        raise SettingsError(f"{path}: a key has from {_MIN_KEY_BYTES} to {_MAX_KEY_BYTES} bytes. {_MAKE_ONE}")
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
