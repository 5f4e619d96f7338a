"""No name that a store's files hold leads out of its folder: topics in records, light queues, config files, queue
folders, notes of deletions, and symbolic links."""

from __future__ import annotations

import json
import os
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import Message, StoreSettings
from flightlog.store.errors import ConfigFileError, InvalidArgumentError, InvalidMessageError, SymbolicLinkError
from flightlog.store.format.record import is_safe_topic

if TYPE_CHECKING:
    from flightlog.tests.security.conftest import Make, PutRecord, UseEverything, Watch

CLIMBING = (
    *("..", ".", "", "../victim", "../../victim", "a/../../victim", "/", "/VICTIM"),
    *("a/b", "./t", "t/0", "a\0b", "\0"),
)
TOO_LONG = ("x" * 256, "ä" * 128, "x" * 5000)
ODD = (
    *("...", "..x", " ", "a\nb", "\x1b[2J", "\x7f", "~", "*", "-rf", "\\..\\x", "x" * 255, "\u202e"),
    *("lock", "commitlog"),
)
"""Names that look bad and lead nowhere: they are a folder's like any other."""


@pytest.fixture
def root(make_store: Make) -> Path:
    """A store with victims beside it: a file, a full folder, and an empty one, which is the easiest to remove."""
    store = make_store(foreign=True)
    for place in (store.parent, store.parent.parent):
        (place / "victim").mkdir(exist_ok=True)
        (place / "victims").mkdir(exist_ok=True)
        (place / "victims" / "file").write_bytes(b"precious")
    return store


INNER = bytes.fromhex("00000017 00000000 00000000 00000000 00000001 78 0000")
"""An inner batch of one message."""


def named(root: Path, name: str) -> str:
    return name.replace("/VICTIM", str(root.parent / "victim"))


def inside(root: Path) -> set[str]:
    """The folders of topics."""
    return {path.name for kind in ("consumequeue", "batchconsumequeue") for path in (root / kind).glob("*")}


@pytest.mark.parametrize("where", ["record", "batch", "light queue"])
def test_topics_in_records(
    where: str, root: Path, put_record: PutRecord, use_everything: UseEverything, watch: Watch
) -> None:
    """Recovery makes queues out of them; those that are no folder's name are in the log, and in no queue."""
    names = [named(root, name) for name in (*CLIMBING, *TOO_LONG, *ODD)]
    listed = 12
    for topic in (name.encode() for name in names):
        for queue_offset in range(2):
            if where == "record":
                put_record(root, topic, queue_offset=queue_offset)
            elif where == "batch":
                properties = b"INNER_NUM\x011\x02INNER_BASE\x01%d\x02" % queue_offset
                put_record(root, topic, queue_offset=queue_offset, sys_flag=0xC0, body=INNER, properties=properties)
            else:
                light = b"INNER_MULTI_DISPATCH\x01%%LMQ%%%s\x02INNER_MULTI_QUEUE_OFFSET\x01%d\x02"
                put_record(root, b"t", queue_offset=listed, properties=light % (topic, queue_offset))
                listed += 1
    with watch(root):
        with flightlog.open_read_only(root) as view:
            queues = view.queues()
        assert use_everything(root, [name for name in names if name]) == []
    prefix = "%LMQ%" if where == "light queue" else ""
    good = {prefix + name for name in names if is_safe_topic(prefix + name)}
    assert {topic for topic, _ in queues} == good | {"t"}
    assert len(good) >= len(ODD) - 1
    assert inside(root) <= good | {"t"} | set(ODD)


@pytest.mark.parametrize("name", [*CLIMBING, *TOO_LONG, "\ud800", "\udcff"])
def test_topics_in_config_and_notes(name: str, root: Path, watch: Watch) -> None:
    """`topics.json`, and `deleted-topics.json`, whose topics are to be removed from the disk: the file is refused, as
    one that cannot be read."""
    topic = named(root, name)
    contents: list[tuple[str, dict[str, object]]] = [
        ("config/topics.json", {"topicConfigTable": {topic: {"topicName": topic, "readQueueNums": 4}}}),
        ("flightlog/deleted-topics.json", {"deletedBelow": {topic: 4096}}),
        ("flightlog/deleted-topics.json", {"pending": [topic]}),
        ("flightlog/deleted-topics.json", {"known": [topic], "othersDeletedBelow": 4096}),
    ]
    shutil.rmtree(root / "config", ignore_errors=True)
    for file, content in contents:
        (root / file).parent.mkdir(exist_ok=True)
        (root / file).write_text(json.dumps(content))
        with watch(root):
            with pytest.raises(ConfigFileError, match=file):
                flightlog.open(root)
            with flightlog.open_read_only(root) as view:
                assert len(list(view.read("t"))) == 12
                if file.startswith("config"):
                    with pytest.raises(ConfigFileError, match=file):
                        view.topics()
                else:
                    assert any(file in line for line in view.report.damage)
        (root / file).unlink()


def test_topics_that_a_caller_names(root: Path, watch: Watch) -> None:
    """An application that hands a stranger's topic through: what cannot name a folder is refused, or not there."""
    with watch(root), flightlog.open(root, StoreSettings(multi_dispatch=True)) as store:
        for name in (*CLIMBING, *TOO_LONG, *ODD, "\udcff"):
            topic = named(root, name)
            for ask in (
                partial(store.put, Message(topic, b"x")),
                partial(store.append_columns, topic, {"body": [b"x"]}),
                partial(store.put_batch, [Message(topic, b"x")]),
                partial(store.create_topic, topic),
                partial(store.delete_topic, topic),
            ):
                if topic not in ODD or topic == "x" * 255:
                    with pytest.raises((InvalidArgumentError, InvalidMessageError)):
                        ask()
            if "/" in topic or "\0" in topic or topic in TOO_LONG:
                with pytest.raises(InvalidMessageError):
                    store.put(Message("t", b"x", properties={"INNER_MULTI_DISPATCH": f"%LMQ%{topic}"}))
            if topic:
                assert list(store.read(topic, 7)) == []
                assert store.query(topic, "k1").messages == []
    assert inside(root) == {"t"}


@pytest.mark.parametrize("kind", ["consumequeue", "batchconsumequeue", "consumequeue_ext"])
def test_queue_folders_with_strange_names(kind: str, root: Path, use_everything: UseEverything, watch: Watch) -> None:
    """Folders that are no topic's or no queue's are passed over, as RocketMQ does: nothing is read or removed there."""
    names = [b"\xff\xfe", b"..x", b"a\nb", b" ", b"x" * 255, b"-rf"]
    queue_ids = ["00", "007", "-1", "+1", " 1", "1 ", "2147483648", "9" * 200, "0x1", "\u0661", "1e3", "x"]
    strange = [os.fsencode(root / kind) + b"/" + name + b"/0" for name in names]
    strange += [os.fsencode(root / kind / "t" / queue_id) for queue_id in queue_ids]
    for folder in strange:
        os.makedirs(folder)
    kept = os.fsencode(root / kind / "t" / "007") + b"/kept"
    with open(kept, "wb") as file:
        file.write(b"kept")
    with watch(root):
        assert use_everything(root, ["t"]) == []
    with open(kept, "rb") as file:
        assert file.read() == b"kept"
    with flightlog.open(root) as store:
        assert {queue_id for name, queue_id in store.queues() if name == "t"} <= {0}
        store.create_topic("another")
    with flightlog.open(root) as store:  # a name that is no UTF-8 has not come into topics.json
        assert "another" in store.topics()


LINKED = (
    *("commitlog", "consumequeue", "batchconsumequeue", "consumequeue_ext", "index", "config", "flightlog"),
    *("checkpoint", "abort", "lock", "flightlog/progress", "flightlog/seals", "flightlog/deleted-topics.json"),
    *("config/topics.json", "config/topics.json.tmp", "flightlog/deleted-topics.json.tmp"),
    *(f"commitlog/{0:020d}", f"commitlog/{262144:020d}", "consumequeue/t", "consumequeue/t/0", "consumequeue/u"),
    *(f"consumequeue/t/0/{0:020d}", f"consumequeue/t/0/{400:020d}", "consumequeue_ext/t", "consumequeue_ext/t/0"),
    *("batchconsumequeue/t", "batchconsumequeue/t/0", "index/20991231235959999"),
)


@pytest.mark.parametrize("moved", [False, True], ids=["elsewhere", "moved away"])
def test_symbolic_links(moved: bool, make_store: Make, watch: Watch) -> None:
    """Nothing is read or written through a link inside a store, whether it leads to a stranger's things or to the
    store's own that somebody moved: opening says which it is."""
    template = make_store("template")
    for number, place in enumerate(LINKED):
        root = template.parent.parent / str(number) / "store"
        shutil.copytree(template, root)
        path, target = root / place, root.parent / "elsewhere"
        is_file = path.is_file() or (not path.exists() and (path.suffix != "" or path.name[0].isdigit()))
        if path.exists():
            path.rename(target if moved else root.parent.parent / f"away-{number}")
        if is_file and not target.exists():
            target.write_bytes(b"")
        elif not target.exists():
            (target / "0").mkdir(parents=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
        with watch(root):
            for how in (flightlog.open_read_only, flightlog.open, flightlog.open_read_only):
                with pytest.raises(SymbolicLinkError, match=str(path)):
                    how(root)


def test_links_to_a_store_are_the_callers(make_store: Make, tmp_path: Path) -> None:
    """The path that is opened may lead through links; so may the folders of a log that settings name."""
    root = make_store()
    (tmp_path / "link").symlink_to(root)
    with flightlog.open(tmp_path / "link") as store:
        assert len(list(store.read("t"))) == 12
    (tmp_path / "far").mkdir()
    (tmp_path / "near").symlink_to(tmp_path / "far")
    settings = StoreSettings.small(commit_log_folders=(str(tmp_path / "near"),))
    with flightlog.open(tmp_path / "second", settings) as store:
        store.put(Message("t", b"x"))
    with flightlog.open_read_only(tmp_path / "second", settings) as view:
        assert len(list(view.read("t"))) == 1 and view.verify().is_clean


def test_a_pipe_in_place_of_a_file_keeps_nobody_waiting(make_store: Make, use_everything: UseEverything) -> None:
    for place in ("checkpoint", "abort", f"commitlog/{0:020d}", f"consumequeue/t/0/{0:020d}", "config/topics.json"):
        root = make_store(place.replace("/", "-"))
        (root / place).unlink(missing_ok=True)
        os.mkfifo(root / place)
        use_everything(root)  # ends, and with errors of ours alone


def test_spark_reads_no_name_of_a_store(
    make_store: Make, put_record: PutRecord, use_everything: UseEverything, watch: Watch, root: Path
) -> None:
    """A scan opens segments by the names that the driver listed; topics in records are data to it."""
    from flightlog.spark.options.read_options import ReadOptions
    from flightlog.spark.read.reading import RangeReader
    from flightlog.spark.schema import arrow_schema, spark_schema
    from flightlog.tests.support.planning import plan

    topics = [named(root, name) for name in (*CLIMBING, *ODD)]
    for topic in topics:
        put_record(root, topic.encode())
    with watch(root):
        reader = RangeReader(arrow_schema(spark_schema(("topic", "offset"))), ReadOptions())
        rows = [
            row for task in plan(root, 1 << 20) for part in task for b in reader.read(part) for row in b.to_pylist()
        ]
    assert [row["topic"] for row in rows] == ["t"] * 12 + topics
