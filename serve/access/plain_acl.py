"""Reading `plain_acl.yml`.

What is wrong in it is refused, and named with its line. RocketMQ takes a permission that it does not know for DENY, and
passes over a name that it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from ...store.errors import InvalidArgumentError
from .accounts import GROUP_PREFIX, Account, Accounts, Permission
from .addresses import Matches, matcher

TRUSTED, ACCOUNTS, VERSION = "globalWhiteRemoteAddresses", "accounts", "dataVersion"
NAMES = {
    "accessKey",
    "secretKey",
    "whiteRemoteAddress",
    "admin",
    "defaultTopicPerm",
    "defaultGroupPerm",
    "topicPerms",
    "groupPerms",
}
KEY_MIN_LENGTH = 7
"""Minimum length of an access key and of a secret key."""
SIZE_MAX = 16 << 20
PERMISSIONS = {
    "DENY": Permission.DENY,
    "PUB": Permission.PUB,
    "SUB": Permission.SUB,
    "PUB|SUB": Permission.PUB | Permission.SUB,
    "SUB|PUB": Permission.PUB | Permission.SUB,
}


def read_accounts(path: Path) -> Accounts:
    """Raises InvalidArgumentError, which names no secret."""
    try:
        data = path.read_bytes()
        if len(data) > SIZE_MAX:
            raise InvalidArgumentError("--acl", str(path), f"a file of {SIZE_MAX} bytes at most")
        text = data.decode()
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "it is no UTF-8"
        raise InvalidArgumentError("--acl", str(path), f"a file that can be read: {reason}") from None
    return _Reader(path).accounts(text)


class _Reader:
    """Reads one file. Errors name what is wrong, and show a value only if it is no secret."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def accounts(self, text: str) -> Accounts:
        try:
            root = yaml.compose(text, yaml.SafeLoader)
        except yaml.MarkedYAMLError as e:  # its text quotes the file
            line = 1 if e.problem_mark is None else e.problem_mark.line + 1
            raise self._wrong(line, f"YAML ({e.problem})") from None
        except (yaml.YAMLError, RecursionError):
            raise self._wrong(1, "YAML") from None
        if root is None:
            return Accounts({}, ())
        fields = self._fields(root, {TRUSTED, ACCOUNTS, VERSION})
        trusted = tuple(self._matcher(each) for each in self._items(fields.get(TRUSTED)))
        found: dict[str, Account] = {}
        for node in self._items(fields.get(ACCOUNTS)):
            account = self._account(node)
            if account.access_key in found:
                raise self._wrong(_line(node), f"each accessKey once (found {account.access_key!r} again)")
            found[account.access_key] = account
        return Accounts(found, trusted)

    def _account(self, node: yaml.Node) -> Account:
        fields = self._fields(node, NAMES)
        keys = {}
        for name in ("accessKey", "secretKey"):
            keys[name] = self._text(fields[name]) if name in fields else ""
            if len(keys[name]) < KEY_MIN_LENGTH:
                line = _line(fields.get(name, node))
                raise self._wrong(line, f"{name} with {KEY_MIN_LENGTH} characters at least")
        permissions: dict[str, Permission] = {}
        for name, prefix in (("groupPerms", GROUP_PREFIX), ("topicPerms", "")):
            for item in self._items(fields.get(name)):
                resource, equals, permission = self._text(item).partition("=")
                if not equals or not resource.strip():
                    raise self._wrong(_line(item), f"NAME=PERMISSION in {name}")
                permissions[prefix + resource.strip()] = self._permission(permission, item)
        trusts = fields.get("whiteRemoteAddress")
        return Account(
            keys["accessKey"],
            keys["secretKey"],
            self._is_true(fields.get("admin")),
            self._default(fields.get("defaultTopicPerm")),
            self._default(fields.get("defaultGroupPerm")),
            permissions,
            matcher("") if trusts is None else self._matcher(trusts),
        )

    def _default(self, node: yaml.Node | None) -> Permission:
        return Permission.DENY if node is None else self._permission(self._text(node), node)

    def _permission(self, text: str, node: yaml.Node) -> Permission:
        found = PERMISSIONS.get(text.strip())
        if found is None:
            raise self._wrong(_line(node), f"a permission, one of {', '.join(PERMISSIONS)}")
        return found

    def _matcher(self, node: yaml.Node) -> Matches:
        try:
            return matcher(self._text(node))
        except ValueError:
            expected = "an address such as 10.0.0.7, 10.0.0.{7,8}, 10.0.*.*, 10.0.0.7-9 or ::1"
            raise self._wrong(_line(node), expected) from None

    def _is_true(self, node: yaml.Node | None) -> bool:
        if node is None:
            return False
        found = yaml.SafeLoader.bool_values.get(self._text(node).lower())
        if found is None:
            raise self._wrong(_line(node), "true or false")
        return found

    def _fields(self, node: yaml.Node, names: set[str]) -> dict[str, yaml.Node]:
        """The values of a mapping, by name."""
        if not isinstance(node, yaml.MappingNode):
            raise self._wrong(_line(node), f"a mapping with {', '.join(sorted(names))}")
        found: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = self._text(key)
            if name not in names or name in found:
                raise self._wrong(_line(key), f"{', '.join(sorted(names))}, each once")
            found[name] = value
        return found

    def _items(self, node: yaml.Node | None) -> Iterator[yaml.Node]:
        if node is None or (isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"):
            return
        if not isinstance(node, yaml.SequenceNode):
            raise self._wrong(_line(node), "a list")
        yield from node.value

    def _text(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self._wrong(_line(node), "a text")
        return "" if node.tag == "tag:yaml.org,2002:null" else str(node.value)

    def _wrong(self, line: int, expected: str) -> InvalidArgumentError:
        return InvalidArgumentError("--acl", str(self._path), f"in line {line} of {self._path.name} {expected}")


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
