"""What is read or edited inside Lance's own files. Nothing outside this room knows how Lance writes them."""

from omnigraph.storage.lance_internals.deletions import DeletionFile, read_deletions
from omnigraph.storage.lance_internals.moving import lies_in, moved_to, noted_in, with_notes
from omnigraph.storage.lance_internals.reshaping import can_reshape, is_blob, reshaped

__all__ = [
    "DeletionFile",
    "can_reshape",
    "is_blob",
    "lies_in",
    "moved_to",
    "noted_in",
    "read_deletions",
    "reshaped",
    "with_notes",
]
