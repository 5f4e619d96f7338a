"""How the commands that change a store open it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ....consume.store import Store, open_store
from ..arguments import settings_of


def open_to_change(path: Path, conf: Path | None) -> Store:
    """Open it with the settings of a `broker.conf`; delayed messages that are due meanwhile are left to wait. Raises
    StoreLockedError beside another writer."""
    return open_store(path, replace(settings_of(conf, path), deliver_delayed=False))
