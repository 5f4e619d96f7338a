"""The accounts of ACL 1, and what they may do.

Decides and says what RocketMQ's `PlainPermissionManager` and `PlainPermissionChecker` do. Their last release is 5.2.0:
later ones read `plain_acl.yml` only to take it over into their own users.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntFlag

from .addresses import Matches

GROUP_PREFIX = "%RETRY%"
"""A group is the resource that its retry topic is."""


class Permission(IntFlag):
    """What an account may do with a topic or a group, and what a request needs."""

    DENY = 1
    ANY = 2
    """Needed: to publish or to subscribe, whichever."""
    PUB = 4
    SUB = 8

    def allows(self, needed: Permission) -> bool:
        if self & Permission.DENY:
            return False
        return bool(self & (Permission.PUB | Permission.SUB if needed is Permission.ANY else needed))


class AccessDenied(Exception):
    """The text is RocketMQ's, and names no secret."""


@dataclass(frozen=True)
class Account:
    """One account. Its secret is in no `repr`, so that no log and no error shows it."""

    access_key: str
    secret_key: str = field(repr=False)
    is_admin: bool
    topic_permission: Permission
    """Permission for topics that have none of their own."""
    group_permission: Permission
    permissions: Mapping[str, Permission]
    """Permissions of topics by name, and of groups with `GROUP_PREFIX` before it."""
    trusts: Matches
    """Addresses from where this account needs no signature, and may do everything."""


@dataclass(frozen=True)
class Credentials:
    """What a client showed: its key, the bytes that it signed, and how."""

    access_key: str | None
    content: bytes = b""
    signature: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Accounts:
    """All accounts of a file."""

    accounts: Mapping[str, Account]
    """By access key."""
    trusted: tuple[Matches, ...]
    """Addresses of clients that need no account."""

    def trusts(self, address: str) -> bool:
        return any(matches(address) for matches in self.trusted)

    def check(
        self,
        credentials: Credentials,
        address: str,
        needed: Mapping[str, Permission],
        *,
        admin_code: int | None = None,
    ) -> None:
        """Raises AccessDenied unless a client at this address may do what needs these permissions, by resource.
        `admin_code`: that of a request that is an administrator's alone."""
        if self.trusts(address):
            return
        key = credentials.access_key
        if key is None:
            raise AccessDenied("No accessKey is configured")
        account = self.accounts.get(key)
        if account is None:
            raise AccessDenied(f"No acl config for {key}")
        if account.trusts(address):
            return
        signature = hmac.digest(account.secret_key.encode(), credentials.content, "sha1")
        if not hmac.compare_digest(signature, credentials.signature):
            raise AccessDenied(f"Check signature failed for accessKey={key}")
        if account.is_admin:
            return
        if admin_code is not None:
            raise AccessDenied(f"Need admin permission for request code={admin_code}, but accessKey={key} is not")
        for resource, permission in needed.items():
            _check(account, resource, permission)


def _check(account: Account, resource: str, needed: Permission) -> None:
    is_group = resource.startswith(GROUP_PREFIX)
    owned = account.permissions.get(resource)
    default = account.group_permission if is_group else account.topic_permission
    if not (default if owned is None else owned).allows(needed):
        kind = "No default permission" if owned is None else "No permission"
        name = f"group:{resource.removeprefix(GROUP_PREFIX)}" if is_group else f"topic:{resource}"
        raise AccessDenied(f"{kind} for {name}")
