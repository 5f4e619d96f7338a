"""Reading `plain_acl.yml`, and what its accounts may do."""

from __future__ import annotations

import hmac
import logging
from pathlib import Path

import pytest

import flightlog
from flightlog.serve.access.accounts import AccessDenied, Accounts, Credentials, Permission
from flightlog.serve.access.acl_file import AclFile
from flightlog.serve.access.addresses import matcher
from flightlog.serve.access.grpc_access import credentials_of
from flightlog.serve.access.plain_acl import read_accounts

SECRET = "12345678"
ACL = f"""
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.{{7,8}}
accounts:
  - accessKey: RocketMQ
    secretKey: {SECRET}
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      - groupA=DENY
      - groupB=PUB|SUB
  - accessKey: rocketmq2
    secretKey: {SECRET}
    whiteRemoteAddress: 192.168.1.*
    admin: true
dataVersion:
  - counter: 1
    timestamp: 1
"""


def read(tmp_path: Path, text: str) -> Accounts:
    path = tmp_path / "plain_acl.yml"
    path.write_text(text)
    return read_accounts(path)


def signed(key: str, secret: str = SECRET) -> Credentials:
    return Credentials(key, b"20260101T000000Z", hmac.digest(secret.encode(), b"20260101T000000Z", "sha1"))


PUB, SUB, ANY = Permission.PUB, Permission.SUB, Permission.ANY


@pytest.mark.parametrize(
    ("credentials", "address", "needed", "told"),
    [
        (signed("RocketMQ"), "127.0.0.1", {}, None),
        (signed("RocketMQ"), "127.0.0.1", {"topicB": PUB, "topicC": ANY, "%RETRY%groupB": SUB}, None),
        (signed("RocketMQ"), "127.0.0.1", {"%RETRY%groupC": SUB}, None),
        (signed("RocketMQ"), "127.0.0.1", {"topicA": PUB}, "No permission for topic:topicA"),
        (signed("RocketMQ"), "127.0.0.1", {"topicA": ANY}, "No permission for topic:topicA"),
        (signed("RocketMQ"), "127.0.0.1", {"topicC": PUB}, "No permission for topic:topicC"),
        (signed("RocketMQ"), "127.0.0.1", {"topicD": SUB}, "No default permission for topic:topicD"),
        (signed("RocketMQ"), "127.0.0.1", {"topicB": SUB, "%RETRY%groupA": SUB}, "No permission for group:groupA"),
        (signed("RocketMQ"), "127.0.0.1", {"%RETRY%groupC": PUB}, "No default permission for group:groupC"),
        (signed("RocketMQ", "else"), "127.0.0.1", {}, "Check signature failed for accessKey=RocketMQ"),
        (Credentials("RocketMQ"), "127.0.0.1", {}, "Check signature failed for accessKey=RocketMQ"),
        (signed("nobody"), "127.0.0.1", {}, "No acl config for nobody"),
        (Credentials(None), "127.0.0.1", {}, "No accessKey is configured"),
        (Credentials(None), "10.10.103.200", {"topicA": PUB}, None),
        (Credentials(None), "192.168.0.8", {"topicA": PUB}, None),
        (Credentials(None), "192.168.0.9", {}, "No accessKey is configured"),
        (signed("rocketmq2"), "127.0.0.1", {"topicA": PUB, "%RETRY%groupA": SUB}, None),
        (signed("rocketmq2", "else"), "127.0.0.1", {}, "Check signature failed for accessKey=rocketmq2"),
        (Credentials("rocketmq2"), "192.168.1.5", {"topicA": PUB}, None),
        (Credentials("RocketMQ"), "192.168.1.5", {}, "Check signature failed for accessKey=RocketMQ"),
    ],
)
def test_what_an_account_may_do(
    tmp_path: Path, credentials: Credentials, address: str, needed: dict[str, Permission], told: str | None
) -> None:
    accounts = read(tmp_path, ACL)
    if told is None:
        accounts.check(credentials, address, needed)
    else:
        with pytest.raises(AccessDenied) as caught:
            accounts.check(credentials, address, needed)
        assert str(caught.value) == told


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("*", ["1.2.3.4", "::1"], []),
        ("*.*.*.*", ["1.2.3.4"], []),
        ("", [], ["1.2.3.4", ""]),
        ("10.0.0.7", ["10.0.0.7"], ["10.0.0.8", "110.0.0.7", "::1", ""]),
        ("10.0.0.7,10.0.0.9", ["10.0.0.7", "10.0.0.9"], ["10.0.0.8"]),
        ("10.0.0.{7, 9}", ["10.0.0.7", "10.0.0.9"], ["10.0.0.8"]),
        ("10.0.*.*", ["10.0.1.2"], ["10.1.1.2"]),
        ("10.0.0-3.*", ["10.0.3.9"], ["10.0.4.9"]),
        ("10.0.0.5-9", ["10.0.0.5", "10.0.0.9"], ["10.0.0.10"]),
        ("::1", ["::1", "0:0:0:0:0:0:0:1"], ["::2", "127.0.0.1"]),
        ("fe80:0:0:0:0:0:0:*", ["fe80::9", "fe80::9%eth0"], ["fe81::9"]),
        ("1:2:3:4:5:6:7:{a,b}", ["1:2:3:4:5:6:7:B"], ["1:2:3:4:5:6:7:c"]),
    ],
)
def test_addresses(pattern: str, inside: list[str], outside: list[str]) -> None:
    matches = matcher(pattern)
    assert [each for each in [*inside, *outside] if matches(each)] == inside


@pytest.mark.parametrize("wrong", ["10.0.0", "10.0.0.256", "10.0.0.9-5", "here", "10.0.*", "10.0.0.-1", "10.0.0.{}"])
def test_what_is_no_address(wrong: str) -> None:
    with pytest.raises(ValueError):
        matcher(wrong)


WRONG = [
    ("accounts: [", 1, "YAML"),
    ("accounts:\n  - accessKey: RocketMQ\n    secretKey: 12345678 : 9\n", 3, "YAML"),
    ("- a", 1, "a mapping"),
    ("accounts: 7", 1, "a list"),
    ("users: []", 1, "accounts"),
    ("accounts:\n  - accessKey: RocketMQ\n", 2, "secretKey with 7 characters"),
    ("accounts:\n  - accessKey: RocketMQ\n    secretKey: secret\n", 3, "secretKey with 7 characters"),
    ("accounts:\n  - accessKey: mq\n    secretKey: 12345678\n", 2, "accessKey with 7 characters"),
    (ACL.replace("admin: true", "admin: maybe"), 22, "true or false"),
    (ACL.replace("topicB=PUB|SUB", "topicB=PUB,SUB"), 14, "a permission"),
    (ACL.replace("topicB=PUB|SUB", "topicB"), 14, "NAME=PERMISSION in topicPerms"),
    (ACL.replace("topicPerms", "topicPerm"), 12, "topicPerms"),
    (ACL.replace("192.168.1.*", "192.168"), 21, "an address such as"),
    (ACL.replace("rocketmq2", "RocketMQ"), 19, "each accessKey once"),
    ("accounts:\n  - {}\n", 2, "accessKey"),
    ("accounts: " + "[" * 5000, 1, "YAML"),
]


@pytest.mark.parametrize(("text", "line", "told"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_file_is_refused_by_name_and_line(tmp_path: Path, text: str, line: int, told: str) -> None:
    with pytest.raises(flightlog.InvalidArgumentError, match=told) as caught:
        read(tmp_path, text)
    assert f"expected in line {line} of plain_acl.yml " in str(caught.value), caught.value
    assert SECRET not in str(caught.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(flightlog.InvalidArgumentError, match="No such file"):
        AclFile(tmp_path / "none.yml")
    (tmp_path / "latin.yml").write_bytes(b"\xff")
    with pytest.raises(flightlog.InvalidArgumentError, match="no UTF-8"):
        AclFile(tmp_path / "latin.yml")


def test_an_empty_file_lets_nobody_in(tmp_path: Path) -> None:
    with pytest.raises(AccessDenied, match="No acl config"):
        read(tmp_path, "# none yet\n").check(signed("RocketMQ"), "127.0.0.1", {})


def test_a_change_counts_and_a_wrong_one_does_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text(ACL)
    followed = AclFile(path)
    path.write_text(ACL.replace("topicC=SUB", "topicC=PUB|SUB"))
    with caplog.at_level(logging.INFO, "flightlog.serve"):
        followed.refresh()
        followed.accounts.check(signed("RocketMQ"), "127.0.0.1", {"topicC": PUB})
        path.write_text(ACL.replace("topicC=SUB", "topicC"))
        followed.refresh()
        followed.accounts.check(signed("RocketMQ"), "127.0.0.1", {"topicC": PUB})
        path.unlink()
        followed.refresh()
        followed.refresh()
        followed.accounts.check(signed("RocketMQ"), "127.0.0.1", {"topicC": PUB})
    told = [record.levelname for record in caplog.records if "accounts" in record.message]
    assert told == ["INFO", "ERROR", "ERROR"]
    assert "in line 15 of plain_acl.yml NAME=PERMISSION" in caplog.text
    assert SECRET not in caplog.text


def test_no_secret_is_shown(tmp_path: Path) -> None:
    accounts = read(tmp_path, ACL)
    assert SECRET not in repr(accounts)


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("MQv2-HMAC-SHA1", "authorization header is incorrect"),
        ("MQv2-HMAC-SHA1 Credential", "authorization keyValues length is incorrect, actual length=1"),
        ("MQv2-HMAC-SHA1 Credential=RocketMQ, Signature=xyz", "not hexadecimal"),
        ("MQv2-HMAC-SHA1 Credential=RocketMQ, Signature=é", "not hexadecimal"),
    ],
)
def test_a_header_that_is_none_is_refused(header: str, told: str) -> None:
    with pytest.raises(AccessDenied, match=told):
        credentials_of({"authorization": header})
