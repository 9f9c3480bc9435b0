"""Model folders: ``model.json`` beside plain ``.npy`` arrays. Memory-mapped, checksummed, never pickled.

A folder is written beside its final place and swapped in when it is whole, so a crash leaves the old folder or the new
one. Loading a folder from a stranger runs no code: JSON is data, arrays are read without pickle, and what they must be
is declared by each class (:mod:`longtail.store.invariants`) and checked before a kernel uses them.
"""

from longtail.store.atomic import atomic_file, atomic_folder, beside, recovered
from longtail.store.card import write_card
from longtail.store.folder import FORMAT_VERSION, Stored, is_plain_name, read, read_document, stamp, write
from longtail.store.owner import held, remove_leftovers, remove_leftovers_in
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
    "held",
    "is_plain_name",
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
