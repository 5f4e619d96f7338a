"""Addresses of what no machine mounts: `s3://bucket/folder`, `https://host/folder`."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from ...store.errors import InvalidSettingsError

ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/(?:/([^/]*))?(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Address:
    """The part of an address that says how to get there."""

    scheme: str
    authority: str
    """Bucket, container@account or host:port, whatever the scheme has there."""

    @property
    def root(self) -> str:
        """Without a slash at its end."""
        return f"{self.scheme}://{self.authority}"


def split_address(text: str) -> tuple[Address, str] | None:
    """The address and the path in it, which begins with a slash; None for a path without a scheme.

    Nothing is decoded: the names of objects may hold any character. Raises InvalidSettingsError for a password in it.
    """
    found = ADDRESS.fullmatch(text)
    if found is None:
        return None
    scheme, authority, path = found[1].lower(), found[2] or "", found[3]
    if ":" in authority.rpartition("@")[0]:
        raise InvalidSettingsError(
            f"{scheme}://...@{authority.rpartition('@')[2]}: a password in an address shows in logs; expected it in "
            "the option storageOptions"
        )
    return Address(scheme, authority), posixpath.normpath(f"/{path.strip('/')}")
