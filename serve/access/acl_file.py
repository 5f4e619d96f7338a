"""A file of accounts that is followed: a change counts without a restart, as in RocketMQ."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from ...store.errors import InvalidArgumentError
from .plain_acl import read_accounts

log = logging.getLogger("flightlog.serve")


class AclFile:
    """The accounts of a file. `accounts` is replaced as a whole, so any thread may read it."""

    def __init__(self, path: Path) -> None:
        """Raises InvalidArgumentError for a file that cannot be read, or is wrong."""
        self.path = path
        self._seen = self._state()
        self.accounts = read_accounts(path)

    def _state(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def refresh(self) -> None:
        """Read the file again if it has changed. If it is wrong, the accounts that are known go on to count."""
        state = self._state()
        if state == self._seen:
            return
        self._seen = state
        fields = {"path": str(self.path)}
        try:
            self.accounts = read_accounts(self.path)
        except InvalidArgumentError as e:
            log.error("the accounts stay as they were: %s", e, extra=fields)
        else:
            log.info("accounts were read from %s: %d", self.path, len(self.accounts.accounts), extra=fields)
