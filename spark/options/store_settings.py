"""The option `settings` of reads and writes: a broker.conf, as the `--settings` of commands. The driver reads it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ...store.conf.broker_conf import read_broker_conf
from ...store.errors import InvalidSettingsError
from ...store.settings import StoreSettings

SETTINGS = StoreSettings()
"""Settings of a store if no option says otherwise. The geometry of an existing store is adopted."""
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def settings_of(given: Mapping[str, str], root: Path) -> StoreSettings:
    """What these options, with their names in lower case, say of how the store at `root` is opened. Raises
    InvalidSettingsError, with file and line, and for a conf with folders of another store's log."""
    if "settings" not in given:
        return SETTINGS
    rule = "a broker.conf is read from a local or mounted file alone"
    return read_broker_conf(local_path("settings", given["settings"], rule)).settings_for(root)


def local_path(name: str, text: str, rule: str) -> Path:
    """What this option names. Raises InvalidSettingsError with the rule for a place that no machine mounts."""
    if not text:
        raise InvalidSettingsError(f"{name}='': expected a file or a folder")
    if not URI.match(text):
        return Path(os.path.abspath(text))
    parts = urlsplit(text)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise InvalidSettingsError(f"{name}={text!r}: {rule}, as a plain path or file:/...")
    return Path(os.path.abspath(unquote(parts.path)))
