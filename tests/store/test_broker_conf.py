"""A broker's own file as settings: Java's syntax, what is taken over, what is ignored, what is refused and where.

The files of RocketMQ's distribution are written here anew, with the keys and values that they have in 5.3.
"""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog.store.conf.broker_conf import KEPT, MAX_FILE_SIZE, NAMES, BrokerConf, read_broker_conf
from flightlog.store.conf.broker_promises import FEATURES, HARMLESS, SAFETY
from flightlog.store.conf.java_properties import MalformedEscapeError, parse_properties
from flightlog.store.errors import InvalidSettingsError, UnkeptPromiseError
from flightlog.store.settings import RANGES, FlushMode, StoreSettings

if TYPE_CHECKING:
    from flightlog.tests.conftest import Told

CLUSTER = "brokerClusterName={0}DefaultCluster\nbrokerName={0}broker-a\nbrokerId={0}{1}\n"
RETENTION = "deleteWhen={0}04\nfileReservedTime={0}48\n"


def pair(role: str, broker_id: int) -> str:
    """A file of 2m-2s-async, 2m-2s-sync and 2m-noslave."""
    return CLUSTER.format("", broker_id) + RETENTION.format("") + f"brokerRole={role}\nflushDiskType=ASYNC_FLUSH\n"


def contained(role: str, broker_id: int, root: str, port: int) -> str:
    """A broker of container/."""
    return (
        f"# 主从\n{CLUSTER.format('', broker_id)}brokerRole={role}\nflushDiskType=ASYNC_FLUSH\n"
        f"storePathRootDir={root}\nstorePathCommitLog={root}/commitlog\nlistenPort={port}\nhaListenPort={port + 1}\n"
        "totalReplicas=2\ninSyncReplicas=2\nminInSyncReplicas=1\nenableAutoInSyncReplicas=true\nslaveReadEnable=true\n"
        "brokerHeartbeatInterval=1000\nbrokerNotActiveTimeoutMillis=5000\nsendHeartbeatTimeoutMillis=1000\n"
        "enableSlaveActingMaster=true"
    )


def rooted(number: int) -> str:
    root = f"/tmp/rmqstore/node{number:02}"
    return f"listenPort={30911 + 10 * number}\nstorePathRootDir={root}\nstorePathCommitLog={root}/commitlog\n"


DISTRIBUTION = {
    "broker.conf": CLUSTER.format(" ", 0)
    + RETENTION.format(" ")
    + "brokerRole = ASYNC_MASTER\nflushDiskType = ASYNC_FLUSH\n",
    "2m-2s-async/broker-a.properties": pair("ASYNC_MASTER", 0),
    "2m-2s-async/broker-a-s.properties": pair("SLAVE", 1),
    "2m-2s-sync/broker-b.properties": pair("SYNC_MASTER", 0),
    "2m-noslave/broker-a.properties": pair("ASYNC_MASTER", 0),
    "2m-noslave/broker-trace.properties": pair("ASYNC_MASTER", 0) + "autoTraceBrokerEnable=true",
    "dledger/broker-n0.conf": "brokerClusterName = RaftCluster\nbrokerName=RaftNode00\nnamesrvAddr=127.0.0.1:9876\n"
    + rooted(0)
    + "enableDLegerCommitLog=true\ndLegerGroup=RaftNode00\n"
    "dLegerPeers=n0-127.0.0.1:40911;n1-127.0.0.1:40912;n2-127.0.0.1:40913\n## one a node\ndLegerSelfId=n0\n"
    "sendMessageThreadPoolNums=16\n",
    "container/broker-a.conf": contained("SYNC_MASTER", 0, "/disk1/rocketmq/broker-a/store", 10911),
    "container/2container-2m-2s/broker-b-in-container1.conf": contained("SLAVE", 1, "/root/broker-b/store", 20911),
    "container/broker-container.conf": "#端口\nlistenPort=10811\n#指定namesrv\nnamesrvAddr=127.0.0.1:9876\n"
    "fetchNamesrvAddrByAddressServer=true\nbrokerConfigPaths=/home/admin/broker-a.conf:/home/admin/broker-b.conf",
    "controller/quick-start/broker-n0.conf": CLUSTER.format(" ", -1)
    + RETENTION.format(" ")
    + "brokerRole = SLAVE\nenableControllerMode = true\ncontrollerAddr = 127.0.0.1:9878\nallAckInSyncStateSet=true\n"
    + rooted(0),
    "tieredstorage/brokerS3.conf": CLUSTER.format(" ", 0)
    + RETENTION.format(" ")
    + "brokerRole = ASYNC_MASTER\nflushDiskType = ASYNC_FLUSH\ntieredStorageLevel = FORCE\n"
    'messageStorePlugIn = org.apache.rocketmq.tieredstore.TieredMessageStore\nobjectStoreBucket = ""\n'
    'objectStoreSecretKey = ""\n',
}


REFUSED = {
    "2m-2s-async/broker-a-s.properties": {"brokerRole"},
    "2m-2s-sync/broker-b.properties": {"brokerRole"},
    "dledger/broker-n0.conf": {"enableDLegerCommitLog"},
    "container/broker-a.conf": {"brokerRole", "inSyncReplicas"},
    "container/2container-2m-2s/broker-b-in-container1.conf": {"brokerRole", "inSyncReplicas"},
    "controller/quick-start/broker-n0.conf": {"brokerRole", "enableControllerMode", "allAckInSyncStateSet"},
    "tieredstorage/brokerS3.conf": {"messageStorePlugIn"},
}
"""Settings that opening for writing refuses, of each file that has any."""
UNKNOWN = {"2m-noslave/broker-trace.properties": ("autoTraceBrokerEnable",)}
"""Settings of earlier releases."""


def conf(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "broker.conf"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(tmp_path: Path, text: str | bytes) -> BrokerConf:
    return read_broker_conf(conf(tmp_path, text))


def pairs(raw: bytes) -> list[tuple[str, str]]:
    return [(key, value) for _, key, value in parse_properties(raw)]


@pytest.mark.parametrize("name", DISTRIBUTION)
def test_files_of_the_distribution(tmp_path: Path, name: str) -> None:
    found = read(tmp_path, DISTRIBUTION[name])
    keys = {line.split("=")[0].strip() for line in DISTRIBUTION[name].splitlines() if not line.startswith("#")}
    paths = {"storePathRootDir", "storePathCommitLog"}
    unkept = tuple(promise.name for promise in found.unkept)
    assert sorted((*found.mapped, *found.ignored, *unkept, *found.unknown)) == sorted(keys - paths)
    assert {promise.name for promise in found.unkept if promise.is_safety} == REFUSED.get(name, set())
    assert found.unknown == UNKNOWN.get(name, ())
    assert found.settings.flush_mode is FlushMode.ASYNC
    assert (found.root is not None) == ("storePathRootDir" in keys)
    if found.root is not None:
        assert found.commit_log == f"{found.root}/commitlog"
    port = {"container/broker-a.conf": 10911, "container/broker-container.conf": 10811}.get(name)
    assert port is None or found.settings.store_host == ("127.0.0.1", port)


def test_an_empty_file_gives_the_defaults(tmp_path: Path) -> None:
    for text in ("", "\n\n", "# nothing\n", "\\"):
        assert read(tmp_path, text).settings == StoreSettings(retention_hours=72)


def test_everything_that_is_mapped_arrives(tmp_path: Path) -> None:
    values: dict[str, Any] = {name: low + 1 for name, (low, _) in RANGES.items() if name in NAMES}
    values |= {"segment_size": 8192, "flush_mode": FlushMode.SYNC, "delay_levels": "3s 4d", "delete_when": "05"}
    values |= {f.name: not f.default for f in dataclasses.fields(StoreSettings) if f.type == "bool" and f.name in NAMES}
    assert set(values) == set(NAMES), "a setting of another type: give it a value here"
    lines = []
    for name, value in values.items():
        text = {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
        if name == "queue_file_entries":
            text = str(20 * value)
        lines.append(f"{NAMES[name]} = {value.value if isinstance(value, FlushMode) else text}")
    found = read(tmp_path, "\r\n".join([*lines, "brokerIP1=fe80::1", "listenPort: 20911"]))
    assert found.settings == StoreSettings(**values, store_host=("fe80::1", 20911))
    assert found.settings == StoreSettings.from_broker_conf(str(found.path))
    assert not found.ignored and not found.unkept and not found.unknown
    assert set(found.mapped) == {
        *NAMES.values(),
        "brokerIP1",
        "listenPort",
    }


def test_a_store_opens_with_it(tmp_path: Path) -> None:
    path = conf(
        tmp_path, DISTRIBUTION["broker.conf"] + "mappedFileSizeCommitLog=65536\nmaxHashSlotNum=10\nmaxIndexNum=40\n"
    )
    with flightlog.open(tmp_path / "store", StoreSettings.from_broker_conf(path)) as store:
        store.put(flightlog.Message("orders", b"one"))
        assert store.settings.segment_size == 65536
        assert store.verify().is_clean


def test_a_queue_file_is_rounded_up_to_whole_entries_as_rocketmq_does(tmp_path: Path) -> None:
    for size, entries in ((20, 1), (21, 2), (6_000_000, 300_000), (5_999_999, 300_000)):
        assert read(tmp_path, f"mappedFileSizeConsumeQueue={size}").settings.queue_file_entries == entries


def test_the_last_of_equal_keys_counts(tmp_path: Path) -> None:
    assert read(tmp_path, "maxMessageSize=lots\nmaxMessageSize=7\n").settings.max_message_size == 7


def test_ignored_settings_are_listed_without_their_values(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, told: Told
) -> None:
    with caplog.at_level(logging.INFO, "flightlog.settings"):
        found = read(
            tmp_path, "objectStoreSecretKey=12345678\nflushDiskType=SYNC_FLUSH\ninitAuthenticationUser=12345678\n"
        )
    assert found.ignored == ("objectStoreSecretKey", "initAuthenticationUser") and found.mapped == ("flushDiskType",)
    assert "12345678" not in caplog.text + repr(found)
    assert [record.levelname for record in told()] == ["INFO"]
    assert told()[0].__dict__["ignored"] == found.ignored


def test_a_name_that_is_no_setting_is_named_without_its_value(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, told: Told
) -> None:
    found = read(tmp_path, "flushDiskTyp=SYNC_FLUSH\nsecretKey=12345678\nlistenPort=1\n")
    assert found.unknown == ("flushDiskTyp", "secretKey") and found.ignored == ()
    [record] = told()
    assert "no settings of RocketMQ 5.3.3" in record.getMessage() and "flushDiskTyp, secretKey" in record.getMessage()
    assert "12345678" not in caplog.text + repr(found)


PROMISING = {
    **dict.fromkeys(("inSyncReplicas", "minInSyncReplicas", "totalReplicas"), "2"),
    **dict.fromkeys(("flushCommitLogTimed", "timerWheelEnable", "autoCreateSubscriptionGroup"), "false"),
    "brokerRole": "SYNC_MASTER",
    "storeType": "defaultRocksDB",
    "configManagerVersion": "v2",
    "messageStorePlugIn": "org.example.Store",
    "brokerPermission": "4",
    "defaultMessageRequestMode": "POP",
    **dict.fromkeys(("startAcceptSendRequestTimeStamp", "putMessageTimeout", "osPageCacheBusyTimeOutMills"), "7"),
    **dict.fromkeys(("maxTopicLength", "timerPrecisionMs", "timerRollWindowSlot", "mappedFileSizeTimerLog"), "100"),
    "mapperFileSizeBatchConsumeQueue": "100",
    **dict.fromkeys(("compactionScheduleInternal", "compactionThreadNum"), "1"),
    "haMasterAddress": "10.0.0.1:10912",
    "brokerConfigPaths": "/a.conf",
    "metricsExporterType": "PROM",
}
"""A value that promises something, of each setting that is no switch."""
SILENT = {
    "brokerRole": "ASYNC_MASTER",
    "storeType": "default",
    "configManagerVersion": "v1",
    "messageStorePlugIn": "",
    "inSyncReplicas": "1",
    "minInSyncReplicas": "1",
    "totalReplicas": "1",
    "brokerPermission": "6",
    "startAcceptSendRequestTimeStamp": "0",
    "maxTopicLength": "127",
    "timerPrecisionMs": "1000",
    "timerRollWindowSlot": "172800",
    "mappedFileSizeTimerLog": "104857600",
    "metricsExporterType": "DISABLE",
    "mapperFileSizeBatchConsumeQueue": "13800000",
    "defaultMessageRequestMode": "PULL",
    "haMasterAddress": "",
    "brokerConfigPaths": "",
    **dict.fromkeys(("flushCommitLogTimed", "timerWheelEnable", "autoCreateSubscriptionGroup"), "true"),
}
"""And one that promises nothing."""


def test_every_setting_is_in_one_place() -> None:
    places = (KEPT, frozenset(SAFETY), frozenset(FEATURES), HARMLESS)
    assert len(frozenset().union(*places)) == sum(map(len, places))


@pytest.mark.parametrize("name", [*SAFETY, *FEATURES])
def test_a_promise_that_is_not_kept_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, told: Told, name: str
) -> None:
    """They were once dropped without a word, `brokerRole=SYNC_MASTER` among them."""
    value = PROMISING.get(name, "true")
    found = read(tmp_path, f"brokerName=a\n{name} = {value}\n")
    [promise] = found.unkept
    assert promise[:3] == (name, value, 2) and promise.is_safety == (name in SAFETY)
    [record] = told()
    assert f"broker.conf, line 2: {name} = {value}: {promise.why}" in record.getMessage()
    assert (record.__dict__["setting"], record.__dict__["line"]) == (name, 2)
    assert [name in text for text in found.settings.unkept_promises] == [True] * (name in SAFETY)
    caplog.clear()
    if name in SILENT or name not in PROMISING:
        assert read(tmp_path, f"{name} = {SILENT.get(name, 'false')}\n").unkept == () and not told()


def test_opening_for_writing_refuses_safety_promises_by_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, told: Told
) -> None:
    settings = StoreSettings.from_broker_conf(
        conf(tmp_path, "brokerRole=SYNC_MASTER\naclEnable=true\nenableRemoteEscape=true\n")
    )
    with pytest.raises(UnkeptPromiseError) as raised:
        flightlog.open(tmp_path / "store", settings)
    assert not (tmp_path / "store").exists(), "nothing was written"
    text = str(raised.value)
    assert "line 1: brokerRole = SYNC_MASTER" in text and "line 2: aclEnable = true" in text
    assert "enableRemoteEscape" not in text and "unkept_promises=()" in text and str(tmp_path / "store") in text
    with flightlog.open(tmp_path / "store", dataclasses.replace(settings, unkept_promises=())) as store:
        store.put(flightlog.Message("orders", b"one"))
        assert store.verify().is_clean
    caplog.clear()
    with flightlog.open_read_only(tmp_path / "store", settings) as view:
        assert [message.body for message in view.read("orders")] == [b"one"]
    [record] = told()
    assert record.levelname == "WARNING" and "brokerRole = SYNC_MASTER" in record.getMessage()
    assert record.__dict__["unkept_promises"] == settings.unkept_promises


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("flushDiskType = SYNC", "expected ASYNC_FLUSH or SYNC_FLUSH"),
        ("flushDiskType = sync_flush", "expected ASYNC_FLUSH or SYNC_FLUSH"),
        ("flushDiskType", "expected ASYNC_FLUSH or SYNC_FLUSH"),
        ("messageIndexEnable = yes", "expected true or false"),
        ("messageIndexEnable =", "expected true or false"),
        ("maxMessageSize = 4M", "expected a whole number"),
        ("maxMessageSize = 4194304L", "expected a whole number"),
        ("maxMessageSize = 0x400000", "expected a whole number"),
        ("maxMessageSize = 1_000", "expected a whole number"),
        ("maxMessageSize = ", "expected a whole number"),
        ("maxMessageSize = \\u0664", "expected a whole number"),
        ("maxMessageSize = " + "9" * 5000, "expected a whole number"),
        ("maxMessageSize = 9999999999999999999", "max_message_size=9999999999999999999: expected"),
        ("maxMessageSize = -1", "max_message_size=-1: expected a whole number from 1"),
        ("mappedFileSizeCommitLog = 1000", "expected a whole number from 4096"),
        ("mappedFileSizeCommitLog = 4097", "expected a multiple of 4096"),
        ("mappedFileSizeConsumeQueue = 0", "queue_file_entries=0"),
        ("brokerIP1 = broker-a.example", "expected an IPv4 or IPv6 address"),
        ("brokerIP1 =", "expected an IPv4 or IPv6 address"),
        ("listenPort = 65536", "0 to 65535"),
        ("listenPort = http", "expected a whole number"),
        ("messageDelayLevel = 1s 5x", "'5x'"),
        ("messageDelayLevel = ", "at least one delay"),
        ("storePathRootDir = ", "expected a path"),
        ("storePathRootDir = /store\\nlistenPort", "expected a path"),
        ("storePathCommitLog = \\u0000", "expected a path"),
    ],
)
def test_nonsense_is_refused_with_file_and_line(tmp_path: Path, line: str, reason: str) -> None:
    path = conf(tmp_path, f"# a comment\nbrokerName = a\\\n  b\n\n{line}\nbrokerId = 0\n")
    with pytest.raises(InvalidSettingsError) as raised:
        StoreSettings.from_broker_conf(path)
    text = str(raised.value)
    assert f"{path}, line 5: {line.split()[0]} = " in text and reason in text
    assert len(text) < 600 + len(str(path))


def test_two_that_contradict_each_other(tmp_path: Path) -> None:
    path = conf(tmp_path, "maxHashSlotNum=100000000\nmaxIndexNum=100000000\n")
    with pytest.raises(InvalidSettingsError, match="index_slots=100000000 and index_entries=100000000") as raised:
        StoreSettings.from_broker_conf(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("maxMessageSize=1\n".encode("utf-16"), "line 1: found a zero byte"),
        (b"brokerId=0\nbrokerName=\0\n", "line 2: found a zero byte"),
        (b"\xef\xbb\xbfmaxMessageSize=1\n", "line 1: found a zero byte or a byte order mark"),
        (b"brokerName=a\n\nbrokerId=\\u12g4\n", r"line 3: found '\\u12g4'"),
        (b"brokerName=\\u", r"line 1: found '\\u'"),
        (b"#" * (MAX_FILE_SIZE + 1), "bytes long"),
    ],
)
def test_files_that_are_no_properties(tmp_path: Path, raw: bytes, reason: str) -> None:
    with pytest.raises(InvalidSettingsError) as raised:
        read(tmp_path, raw)
    assert reason in str(raised.value) and str(tmp_path) in str(raised.value)


def test_no_file(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent.conf"):
        with pytest.raises(InvalidSettingsError, match=r"expected a RocketMQ broker\.conf"):
            StoreSettings.from_broker_conf(path)


def test_any_bytes_in_what_is_ignored(tmp_path: Path) -> None:
    """Latin-1, UTF-8, or neither: Java reads bytes, and so do we."""
    every = bytes(b for b in range(1, 256) if b not in b"\\\r\n")
    found = read(tmp_path, b"maxMessageSize=9\nbrokerName=" + every + "主\n".encode() + b"flushDiskType=SYNC_FLUSH")
    assert (found.settings.max_message_size, found.settings.flush_mode) == (9, FlushMode.SYNC)


def test_a_file_as_large_as_may_be(tmp_path: Path) -> None:
    line = b"brokerName=" + b"x" * 88 + b"\n"
    found = read(tmp_path, line * (MAX_FILE_SIZE // len(line)) + b"maxMessageSize=9")
    assert found.settings.max_message_size == 9


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"a=1\nb = 2\rc:3\r\nd 4\te\n", [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4\te")]),
        (b"  a\t \f=\f 1 \n", [("a", "1 ")]),
        (b"a==b\na = : b\na : = b\n", [("a", "=b"), ("a", ": b"), ("a", "= b")]),
        (b"a\nb=\n=c\n:\n", [("a", ""), ("b", ""), ("", "c"), ("", "")]),
        (b"#a=1\n !b=2\nc=#3!\n#d\\\ne=5\n", [("c", "#3!"), ("e", "5")]),
        (b"a=1\\\n  2\\\n\t#3\nb=4", [("a", "12#3"), ("b", "4")]),
        (b"a=1\\\r\n  2\\\r3\n", [("a", "123")]),
        (b"a=1\\\n\nb=2\n", [("a", "1"), ("b", "2")]),
        (b"a=1\\\\\nb=2\\\\\\\n3\n", [("a", "1\\"), ("b", "2\\3")]),
        (b"a\\ b\\=c\\:d = e\\=f\n", [("a b=c:d", "e=f")]),
        (b'a=\\t\\n\\r\\f\\q\\"\\0\n', [("a", '\t\n\r\fq"0')]),
        (b"\\u0061=\\u4e3B\\ud83D\\ude00\n", [("a", "主😀")]),
        (b"a=\\ud83d!\n", [("a", "\ud83d!")]),
        (b"a=\xe4\n", [("a", "ä")]),
        (b"a=1\\", [("a", "1")]),
        (b"\\\n\n\\\n#a\nb\\\n", [("b", "")]),
        (b"a\n\\", [("a", ""), ("", "")]),
        (b"a\n\\\n", [("a", ""), ("", "")]),
        (b"a\n\\\r\n", [("a", "")]),
        (b"", []),
    ],
)
def test_javas_syntax(raw: bytes, expected: list[tuple[str, str]]) -> None:
    assert pairs(raw) == expected


def test_lines_are_counted_as_an_editor_does() -> None:
    raw = b"\n# one\r\na=1\\\n 2\n\r\nb=2\rc=3\n"
    assert [(line, key) for line, key, _ in parse_properties(raw)] == [(3, "a"), (6, "b"), (7, "c")]


def test_a_broken_escape_names_its_line() -> None:
    with pytest.raises(MalformedEscapeError, match="line 2") as raised:
        parse_properties(b"a=1\nb\\u00e=1\n")
    assert raised.value.line == 2


def test_folders_of_the_commit_log(tmp_path: Path) -> None:
    text = (
        "storePathRootDir=/store\nstorePathCommitLog=/disk1/log, /disk2/log\nreadOnlyCommitLogStorePaths=/disk3/log\n"
    )
    found = read(tmp_path, text)
    assert found.settings.commit_log_folders == ("/disk1/log", "/disk2/log")
    assert found.settings.commit_log_read_only_folders == ("/disk3/log",)
    assert found.ignored == ()
    elsewhere = read(tmp_path, "storePathRootDir=/store\nstorePathCommitLog=/disk1/log\n")
    assert elsewhere.settings.commit_log_folders == ("/disk1/log",)
    usual = read(tmp_path, "storePathRootDir=/store\nstorePathCommitLog=/store/commitlog\n")
    assert usual.settings == StoreSettings(retention_hours=72)
