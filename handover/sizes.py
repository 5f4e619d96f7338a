"""The file sizes that a store has, or will have: a broker loads files of exactly the sizes that its conf names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..engine.open.key_recovery import adopt_index
from ..index.queue.queue_extension import DEFAULT_EXTENSION_FILE_SIZE, EXTENSION_FOLDER
from ..index.queue.queue_table import find_extension_file_size, find_file_entries
from ..store.disk.disk import Disk
from ..store.segments.log_files import LogFolders, list_log_files
from ..store.settings import DEFAULT_QUEUE_FILE_ENTRIES, DEFAULT_SEGMENT_SIZE, StoreSettings
from ..store.state.geometry import Geometry


def with_sizes(disk: Disk, root: Path, settings: StoreSettings) -> StoreSettings:
    """`settings` with the sizes of the store's files in them: as its files show them, else as it was made, else as set,
    else the defaults, which are RocketMQ's. Reads little.

    Raises GeometryMismatchError for a size that is set and that the store does not have, ConfigFileError, DiskError.
    """
    files = list_log_files(disk, LogFolders.of(root, settings), tolerant=True)
    geometry = Geometry(disk, root, is_empty=not files.bases)
    index = adopt_index(disk, root, settings, geometry)
    adopt = geometry.adopt
    return replace(
        settings,
        segment_size=adopt("segment_size", settings.segment_size, files.segment_size, DEFAULT_SEGMENT_SIZE),
        queue_file_entries=adopt(
            *("queue_file_entries", settings.queue_file_entries),
            *(find_file_entries(disk, root), DEFAULT_QUEUE_FILE_ENTRIES),
        ),
        index_slots=index.slots,
        index_entries=index.entries,
        queue_extension=settings.queue_extension or disk.exists(root / EXTENSION_FOLDER),
        queue_extension_file_size=adopt(
            *("queue_extension_file_size", settings.queue_extension_file_size),
            *(find_extension_file_size(disk, root), DEFAULT_EXTENSION_FILE_SIZE),
        ),
    )
