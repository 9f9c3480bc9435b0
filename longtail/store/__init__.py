"""Model folders: ``model.json`` and plain ``.npy`` arrays. Memory-mapped, checksummed, never pickled.

A folder is written under a temporary name and swapped with the old one when it is complete, so that a crash leaves
either the old folder or the new one. A folder from a stranger cannot run code when it is loaded: JSON is data, and
arrays are read without pickle. Each class declares rules for its arrays (:mod:`longtail.store.invariants`), which are
checked before a kernel uses them.
"""

from longtail.store.atomic import atomic_file, atomic_folder, beside, recovered
from longtail.store.card import write_card
from longtail.store.folder import FORMAT_VERSION, Stored, is_plain_name, read, read_document, stamp, write
from longtail.store.owner import locked, remove_leftovers, remove_leftovers_in
from longtail.store.replace import (
    CHECKPOINT,
    as_path,
    check_checkpoint,
    check_output,
    check_replaceable,
    remove_checkpoint,
)

__all__ = [
    "CHECKPOINT",
    "FORMAT_VERSION",
    "Stored",
    "as_path",
    "atomic_file",
    "atomic_folder",
    "beside",
    "check_checkpoint",
    "check_output",
    "check_replaceable",
    "is_plain_name",
    "locked",
    "read",
    "read_document",
    "recovered",
    "remove_checkpoint",
    "remove_leftovers",
    "remove_leftovers_in",
    "stamp",
    "write",
    "write_card",
]
