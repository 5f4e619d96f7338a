"""A broker's own file, read by RocketMQ and by flightlog: the same properties, the same settings, the same defaults."""

from __future__ import annotations

import dataclasses
import os
import random
from pathlib import Path
from typing import Any

import pytest

from flightlog import FlushMode, StoreSettings
from flightlog.store.conf.broker_conf import NAMES, convert_value, read_broker_conf
from flightlog.store.conf.java_properties import MalformedEscapeError, parse_properties
from flightlog.store.errors import InvalidSettingsError
from flightlog.store.settings import DEFAULT_QUEUE_FILE_ENTRIES, DEFAULT_SEGMENT_SIZE, RANGES
from flightlog.tests.interop.harness import Line, RocketMq

SEED = int(os.environ.get("FLIGHTLOG_CONF_SEED", "20260"))
FILES = 400
PIECES = (
    *("a", "b", "key", "=", ":", " ", "\t", "\f", "#", "!", "\\", "\\\\", "\n", "\r", "\r\n", "\\\n", "\\\r\n  "),
    *("\\u0041", "\\u4e2d", "\\ud83d\\ude00", "\\ud83d", "\\n", "\\=", "\\ ", "é", "中", "\\u12", "\x01", "1", "x=1\n"),
)


PRESENT = {
    *("putMessageTimeout", "osPageCacheBusyTimeOutMills"),
    *("compactionScheduleInternal", "compactionThreadNum"),
}
"""Settings that promise something with any value, so also with their default."""


def random_text(dice: random.Random) -> bytes:
    pieces = dice.choices(PIECES, weights=[4] * (len(PIECES) - 4) + [1] * 4, k=dice.randrange(25))
    return "".join(pieces).encode()


def random_settings(dice: random.Random) -> bytes:
    """Values that both sides take, with blanks around them."""
    lines = []
    for ours, theirs in NAMES.items():
        if dice.random() < 0.5:
            continue
        kind = str(StoreSettings.__dataclass_fields__[ours].type).removesuffix(" | None")
        if kind == "int":
            low, high = RANGES[ours]
            value: object = dice.choice((low, high, dice.randint(low, high)))
            if ours == "segment_size":
                value = dice.randint(1, 500) * 4096
            elif ours == "queue_file_entries":
                value = dice.randint(1, 1_000_000)
            elif ours in ("index_slots", "index_entries"):
                value = dice.randint(2, 10_000_000)
        elif kind == "bool":
            value = dice.choice(("true", "false", "TRUE", "False"))
        else:
            value = {
                "flush_mode": dice.choice([mode.value for mode in FlushMode]),
                "delay_levels": "1s 3m 2h 1d",
                "delete_when": dice.choice(("4", "04;16")),
            }[ours]
        lines.append(f"{dice.choice(('', ' ', '  '))}{theirs}{dice.choice(('=', ' = ', ':', ' '))}{value}")
    dice.shuffle(lines)
    return dice.choice(("\n", "\r\n", "\r", "\n\n# a comment\n")).join(lines).encode()


@dataclasses.dataclass
class Read:
    """What RocketMQ made of the files, in their order, and the file that it wrote itself."""

    paths: list[Path]
    lines: list[Line]
    dump: Path


@pytest.fixture(scope="module")
def read(rocketmq: RocketMq, tmp_path_factory: pytest.TempPathFactory) -> Read:
    dice = random.Random(SEED)
    folder = tmp_path_factory.mktemp("conf")
    texts = [b""]
    texts += [random_text(dice) for _ in range(FILES)]
    texts += [random_settings(dice) for _ in range(FILES // 4)]
    paths = [folder / f"{number}.conf" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text)
    names = folder / "names"
    names.write_text("".join(f"{path}\n" for path in paths))
    lines = rocketmq.settings(names, folder / "dump.conf")
    assert [line["path"] for line in lines] == [str(path) for path in paths]
    return Read(paths, lines, folder / "dump.conf")


def test_any_file_has_the_same_properties(read: Read) -> None:
    refused = 0
    for path, line in zip(read.paths, read.lines, strict=True):
        try:
            found = {key: value for _, key, value in parse_properties(path.read_bytes())}
        except MalformedEscapeError:
            refused += 1
            assert "refused" in line, (SEED, path.read_bytes())
        else:
            assert line.get("properties") == found, (SEED, path.read_bytes())
    assert 0 < refused < FILES // 2


def test_every_setting_of_a_broker_at_its_default(read: Read) -> None:
    """What RocketMQ's own classes write parses, and means our defaults wherever both have the setting."""
    found = read_broker_conf(read.dump)
    assert len(found.mapped) + len(found.ignored) > 350 and found.unknown == ()
    assert {promise.name for promise in found.unkept} == PRESENT and found.settings.unkept_promises == ()
    assert set(found.mapped) == {*NAMES.values(), "brokerIP1", "listenPort"}
    assert found.root is not None and found.root.name == "store"
    expected = StoreSettings(
        segment_size=DEFAULT_SEGMENT_SIZE,
        queue_file_entries=DEFAULT_QUEUE_FILE_ENTRIES,
        index_slots=5_000_000,
        index_entries=20_000_000,
        queue_extension_file_size=48 << 20,
        store_host=found.settings.store_host,
        retention_hours=72,
        default_queue_count=8,
    )
    assert found.settings == expected
    empty = read.lines[0]["settings"]
    assert {name: empty[name] for name in found.mapped} == {
        key: value for _, key, value in parse_properties(read.dump.read_bytes()) if key in found.mapped
    }


def test_settings_mean_the_same(read: Read) -> None:
    compared = 0
    for path, line in zip(read.paths, read.lines, strict=True):
        if not NAMES.keys() & {ours for ours, theirs in NAMES.items() if theirs in line.get("properties", ())}:
            continue
        found = read_broker_conf(path).settings
        for ours, theirs in NAMES.items():
            if theirs in line["properties"]:
                expected: Any = convert_value(ours, line["settings"][theirs])
                assert getattr(found, ours) == expected, (SEED, path.read_bytes(), theirs)
                compared += 1
    assert compared > FILES


def test_where_rocketmq_keeps_its_default_in_silence(rocketmq: RocketMq, tmp_path: Path) -> None:
    """The one difference: what RocketMQ cannot read is refused here."""
    texts = ("flushDiskType=SYNC", "fileReservedTime=48h", "maxMessageSize=4M", "maxMessageSize=")
    paths = [tmp_path / f"{number}.conf" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    (tmp_path / "names").write_text("".join(f"{path}\n" for path in paths))
    for path, text, line in zip(paths, texts, rocketmq.settings(tmp_path / "names", tmp_path / "dump"), strict=True):
        defaults = {"flushDiskType": "ASYNC_FLUSH", "fileReservedTime": "72", "maxMessageSize": "4194304"}
        name = text.split("=")[0]
        assert line["settings"][name] == defaults[name]
        with pytest.raises(InvalidSettingsError, match="line 1"):
            StoreSettings.from_broker_conf(path)


def test_a_blank_behind_a_number_does_not_count_here(rocketmq: RocketMq, tmp_path: Path) -> None:
    """RocketMQ keeps its default there too."""
    (tmp_path / "blank.conf").write_text("maxMessageSize = 7 \nflushDiskType=SYNC_FLUSH \n")
    (tmp_path / "names").write_text(f"{tmp_path / 'blank.conf'}\n")
    [line] = rocketmq.settings(tmp_path / "names", tmp_path / "dump")
    assert line["properties"]["maxMessageSize"] == "7 " and line["settings"]["maxMessageSize"] == "4194304"
    assert StoreSettings.from_broker_conf(tmp_path / "blank.conf").max_message_size == 7
