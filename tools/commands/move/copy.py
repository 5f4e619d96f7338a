"""`flightlog copy PATH OUT`: copy a store into a new folder, beside its writer."""

from __future__ import annotations

from ....engine.backup.backup import copy_store
from ..arguments import AsJson, Settings, StorePath, settings_of
from .copying import NewFolder, copying, show_copy


def copy(path: StorePath, out: NewFolder, settings: Settings = None, as_json: AsJson = False) -> None:
    """Copy a store into an empty or new folder, also beside its writer or broker. The copy is a store of its own.

    It has every message that was durable when the copy began; holes stay holes. An interrupted copy cannot be opened
    for writing: remove OUT.
    """
    with copying(path):
        result = copy_store(path, out, settings_of(settings, path))
    show_copy("copied", result, as_json=as_json)
