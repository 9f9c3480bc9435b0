"""Model folders: ``model.json`` beside plain ``.npy`` arrays. Memory-mapped, checksummed, never pickled.

A folder is written beside its final place and renamed when it is whole, so a crash leaves the old folder or the new
one. Loading a folder from a stranger runs no code: JSON is data, and arrays are read with ``allow_pickle=False``.
"""

from longtail.store.atomic import atomic_file, atomic_folder
from longtail.store.folder import FORMAT_VERSION, Stored, read, write

__all__ = ["FORMAT_VERSION", "Stored", "atomic_file", "atomic_folder", "read", "write"]
