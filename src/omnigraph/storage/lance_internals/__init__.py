"""What is read or edited inside Lance's own files. Nothing outside this room knows how Lance writes them.

Lance does not promise these formats, so the room opens only with a release that they were tested with.
"""

import lance

from omnigraph.storage.lance_internals.base_folders import (
    is_inside,
    read_base_folders,
    relocate_folder,
    replace_base_folders,
)
from omnigraph.storage.lance_internals.branch_refs import (
    BRANCH_REFS_FOLDER,
    BranchRef,
    branch_of_ref,
    branch_ref_path,
    has_branch_folder,
    read_local_refs,
    read_ref_identifier,
)
from omnigraph.storage.lance_internals.commit_files import (
    CommitFile,
    is_file_whole,
    is_version_whole,
    list_commit_files,
)
from omnigraph.storage.lance_internals.deletions import DeletionFile, encode_offsets, read_deletions
from omnigraph.storage.lance_internals.document_lengths import DocumentLengths, read_document_lengths
from omnigraph.storage.lance_internals.lance_texts import (
    CommitRefused,
    ExplainedErrors,
    HeadMoved,
    RefsMoved,
    find_missing_file,
    print_highest_fragment_id,
    print_transaction,
    translate_error,
    translate_errors,
    translate_raised,
)
from omnigraph.storage.lance_internals.lance_version import refuse_untested_lance
from omnigraph.storage.lance_internals.layout import (
    END_FILES_FOLDER,
    TABLE_FOLDERS,
    VERSIONS_FOLDER,
    NeededFiles,
    data_paths,
    dataset_of_branch_version,
    has_version_file,
    identify_data_file,
    identify_version_file,
    is_detached_version,
    list_version_numbers,
    read_version_hint,
    version_path,
)
from omnigraph.storage.lance_internals.scans import build_scan
from omnigraph.storage.lance_internals.schema_fields import (
    TOMBSTONE,
    can_reshape,
    has_first_field_ids,
    is_blob,
    list_field_ids,
    number_new_fields,
    read_field_ids,
    reshape_schema,
)

__all__ = [
    "BRANCH_REFS_FOLDER",
    "END_FILES_FOLDER",
    "TABLE_FOLDERS",
    "TOMBSTONE",
    "VERSIONS_FOLDER",
    "BranchRef",
    "CommitFile",
    "CommitRefused",
    "DeletionFile",
    "DocumentLengths",
    "ExplainedErrors",
    "HeadMoved",
    "NeededFiles",
    "RefsMoved",
    "branch_of_ref",
    "branch_ref_path",
    "build_scan",
    "can_reshape",
    "data_paths",
    "dataset_of_branch_version",
    "encode_offsets",
    "find_missing_file",
    "has_branch_folder",
    "has_first_field_ids",
    "has_version_file",
    "identify_data_file",
    "identify_version_file",
    "is_blob",
    "is_detached_version",
    "is_file_whole",
    "is_inside",
    "is_version_whole",
    "list_commit_files",
    "list_field_ids",
    "list_version_numbers",
    "number_new_fields",
    "print_highest_fragment_id",
    "print_transaction",
    "read_base_folders",
    "read_deletions",
    "read_document_lengths",
    "read_field_ids",
    "read_local_refs",
    "read_ref_identifier",
    "read_version_hint",
    "relocate_folder",
    "replace_base_folders",
    "reshape_schema",
    "translate_error",
    "translate_errors",
    "translate_raised",
    "version_path",
]

refuse_untested_lance(lance.__version__)
