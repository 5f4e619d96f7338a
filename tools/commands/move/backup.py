"""`flightlog backup PATH OUT`: back a store up, beside its writer; later backups into OUT copy what changed."""

from __future__ import annotations

from ....engine.backup.backup import backup as back_up
from ..arguments import AsJson, Settings, StorePath, settings_of
from .copying import NewFolder, copying, show_copy


def backup(path: StorePath, out: NewFolder, settings: Settings = None, as_json: AsJson = False) -> None:
    """Back up a store into a folder, also beside its writer or broker. Later backups into it copy what changed.

    OUT is empty or new, or has an earlier backup of the store. It has every message that was durable when the backup
    began. To restore, copy OUT and open the copy. Of an interrupted backup, start the command again.
    """
    with copying(path):
        result = back_up(path, out, settings_of(settings, path))
    show_copy("backed up", result, as_json=as_json)
