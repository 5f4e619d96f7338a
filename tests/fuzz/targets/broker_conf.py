"""A RocketMQ broker's own settings: they make sense, or the error names file and line."""

from __future__ import annotations

from flightlog.store.conf.broker_conf import NAMES, read_broker_conf
from flightlog.store.errors import InvalidSettingsError
from flightlog.tests.support import scratch


def one(data: bytes) -> None:
    path = scratch.fill({"broker.conf": data}) / "broker.conf"
    try:
        conf = read_broker_conf(path)
    except InvalidSettingsError as e:
        assert str(path) in str(e) and len(str(e)) < 2000
        return
    known = {*NAMES.values(), "brokerIP1", "listenPort", "readOnlyCommitLogStorePaths"}
    assert set(conf.mapped) <= known and not set(conf.ignored) & set(conf.mapped)
    others = [*conf.ignored, *conf.unknown, *(promise.name for promise in conf.unkept)]
    assert len(set(others)) == len(others) and not set(others) & set(conf.mapped)
    assert all(str(path) in text for text in conf.settings.unkept_promises)
    assert conf == read_broker_conf(path)


def seeds() -> list[bytes]:
    every = [f"{name} = {value}\n" for name in NAMES.values() for value in ("1", "true", "0x1", "99999999999")]
    return [
        b"flushDiskType=SYNC_FLUSH\nfileReservedTime=48\ndeleteWhen=04;16\nbrokerIP1=10.0.0.7\nlistenPort=10911\n",
        b"mappedFileSizeCommitLog=65536\nmappedFileSizeConsumeQueue=401\nmaxHashSlotNum=100\nmaxIndexNum=400\n",
        b"storePathRootDir=/data/a\nstorePathCommitLog=/data/a/commitlog,/b/c\nreadOnlyCommitLogStorePaths=/d\n",
        b"messageDelayLevel=1s 5s 2h\nstoreType=defaultRocksDB\nenableDLegerCommitLog=true\ndiskMaxUsedSpaceRatio=75\n",
        b'brokerRole=SYNC_MASTER\naclEnable = TRUE\ninSyncReplicas=-2\ntransactionTimeOut=\nmessageStorePlugIn=""\nx',
        *("".join(every[i : i + 4]).encode() for i in range(0, len(every), 4)),
    ]
