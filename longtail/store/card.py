"""Write the README.md of a model folder. A save replaces it, unless a user has edited it."""

from __future__ import annotations

import shutil
import zlib
from pathlib import Path

CARD = "README.md"
_MARK = "\n<!-- Written by longtail. A save replaces this file unless it was edited. Checksum: "


def write_card(folder: Path, text: str) -> None:
    """Write the card of a model, with a checksum that shows later whether a user has edited it."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    (folder / CARD).write_text(f"{text}{_MARK}{_checksum(text)} -->\n", encoding="utf-8")


def keep_edited_card(old: Path, new: Path) -> None:
    """Copy the card of the folder `old` to its replacement `new`, if a user has edited it."""
    card = old / CARD
    if (card.is_file() or card.is_symlink()) and not _is_unedited(card):
        (new / CARD).unlink(missing_ok=True)
        shutil.copy2(card, new / CARD, follow_symlinks=False)


def _is_unedited(card: Path) -> bool:
    """Return whether a card is exactly as a save has written it."""
    try:
        text, _, mark = card.read_text(encoding="utf-8").rpartition(_MARK)
    except (OSError, ValueError):
        return False
    return not card.is_symlink() and mark == f"{_checksum(text)} -->\n"


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
