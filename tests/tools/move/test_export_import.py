"""`flightlog export` and `flightlog import`: every message comes back, and an interrupted one continues."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import Message, StoredMessage, StoreSettings
from flightlog.engine.read.selection import Selection
from flightlog.engine.repair.new_store import KeptMessage, KeptOffsetsError, make_store
from flightlog.store.errors import UsageError
from flightlog.store.format.light_queues import is_light
from flightlog.store.topic import is_system_topic
from flightlog.tools.transfer import export_messages as exporting
from flightlog.tools.transfer.export_messages import FileForm, export_messages
from flightlog.tools.transfer.import_messages import import_messages
from flightlog.tools.transfer.sources import LEFT_OUT, read_source

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

GOLDEN = (
    *("v1-clean", "abort", "abort-torn", "abort-late", "abort-reopen", "batch-bcq", "clean-cqlag", "cqext"),
    *("default-sizes", "delay-tx", "lmq", "minoffset", "preblank", "propcrc", "rollover", "v2-v6"),
)
SMALL = StoreSettings.small(deliver_delayed=False, segment_size=8 << 20, rocketmq_strict=False)


def messages(path: Path) -> list[tuple[Any, ...]]:
    """All but what an import makes new."""

    def seen(message: StoredMessage) -> tuple[Any, ...]:
        properties = {name: value for name, value in message.properties.items() if name not in LEFT_OUT}
        fields = (message.topic, message.queue_id, message.flag, message.born_timestamp_ms, message.born_host)
        return (*fields, message.reconsume_times, message.sys_flag & 0x2, message.body, sorted(properties.items()))

    def each() -> Iterator[tuple[Any, ...]]:
        with flightlog.open_read_only(path) as view:
            for topic, queue_id in sorted(view.queues()):
                if not is_system_topic(topic) and not is_light(topic):
                    yield from map(seen, view.read(topic, queue_id, decompress=True, on_corrupt="skip"))

    return list(each())


def is_refused(each: KeptMessage) -> bool:
    """Whether flightlog takes no such message, which RocketMQ took: a long topic, or a separator in a property."""
    texts = [text for pair in (each.message.properties or {}).items() for text in pair]
    return len(each.message.topic.encode()) > 127 or any(c in text for text in texts for c in "\x01\x02")


@pytest.mark.parametrize("form", FileForm)
@pytest.mark.parametrize("name", GOLDEN)
def test_every_message_comes_back(
    golden_copy: Callable[[str], Path], tmp_path: Path, name: str, form: FileForm, assert_clean: AssertClean
) -> None:
    path, file, new = golden_copy(name) / "store", tmp_path / "messages", tmp_path / "new"
    with flightlog.open_read_only(path) as view:
        exported = export_messages(view, file, form=form)
    found = list(read_source(file))
    assert exported.messages == len(found) > 0 and exported.skipped == 0
    assert [replace(each, where="") for each in found] == [replace(each, where="") for each in read_source(path)]
    taken = [each for each in found if not is_refused(each)]
    with flightlog.open(new, SMALL) as store:
        if len(taken) < len(found):
            with pytest.raises(UsageError, match="the store does not take this message"):
                import_messages(store, found, "file")
        imported = import_messages(store, taken, "file")
    assert sum(imported.by_topic.values()) + imported.found_count == len(taken)
    refused = {(each.message.topic, each.message.body) for each in found if is_refused(each)}
    assert messages(new) == [each for each in messages(path) if (each[0], each[-2]) not in refused]
    assert_clean(new)


@pytest.mark.parametrize("name", GOLDEN)
def test_queue_offsets_and_times_are_kept(
    golden_copy: Callable[[str], Path], tmp_path: Path, name: str, assert_clean: AssertClean
) -> None:
    path, new = golden_copy(name) / "store", tmp_path / "new"
    every = list(read_source(path))
    gone = {(each.message.topic, each.message.queue_id) for each in every if is_refused(each)}
    taken = [each for each in every if (each.message.topic, each.message.queue_id) not in gone]
    make_store(new, taken, SMALL)
    assert [replace(each, where="") for each in read_source(new)] == [replace(each, where="") for each in taken]
    assert_clean(new)
    before = read_source(new)
    with flightlog.open(new, SMALL) as store:
        message = next(before).message
        end = store.queue_bounds(message.topic, message.queue_id or 0)[1]
        message.properties = {}
        assert store.put(message).queue_offset == end
    assert_clean(new)


def test_offsets_are_kept_in_a_new_store_alone(clean_store: Path, tmp_path: Path, cli: Cli) -> None:
    new, every = tmp_path / "new", list(read_source(clean_store))
    with pytest.raises(KeptOffsetsError, match="a queue has no gaps"):
        make_store(new, [*every[:7], *every[8:]], SMALL)
    assert not new.exists() and not new.with_name("new.part").exists()
    with pytest.raises(KeyboardInterrupt):
        make_store(new, interrupted(every), SMALL)
    assert not new.exists() and not new.with_name("new.part").exists()
    later = [each for each in every if each.queue_offset >= 100]
    assert make_store(new, later, SMALL) == {"orders": 600}
    with flightlog.open_read_only(new) as view:
        assert view.queues() == {("orders", queue_id): (100, 300) for queue_id in range(3)}
        assert view.verify().is_clean
    refused = cli("import", new, clean_store, "--keep-offsets")
    assert refused.code == 4 and "queue offsets are kept in a new store alone" in refused.err
    other = tmp_path / "other"
    done = cli("import", other, clean_store, "--keep-offsets", "--queue", "1", "--write", "--json")
    assert json.loads(done.out)["by_topic"] == {"orders": 300}
    with flightlog.open_read_only(other) as view:
        assert view.queues() == {("orders", 1): (0, 300)} and view.verify().is_clean


@pytest.mark.parametrize("form", FileForm)
def test_an_interrupted_export_continues(
    clean_store: Path, tmp_path: Path, form: FileForm, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, file = tmp_path / "whole", tmp_path / "file"
    with flightlog.open_read_only(clean_store) as view:
        monkeypatch.setattr(exporting, "PIECE_MESSAGES", 50)
        export_messages(view, whole, form=form)
        for stop in (0, 1, 49, 50, 333):
            with monkeypatch.context() as patch:
                patch.setattr(
                    exporting, "messages_left", lambda *_, count=stop: interrupted(view.read("orders"), count)
                )
                with pytest.raises(KeyboardInterrupt):
                    export_messages(view, file, form=form)
            assert not file.exists() and file.with_name("file.part.json").exists()
            with pytest.raises(UsageError, match="an interrupted export of something else"):
                export_messages(view, file, Selection(topics=("orders",)), form)
            for each in tmp_path.glob("file*"):
                each.unlink()
        for stop in (1, 120, 899):
            every = list(Selection().messages(view))
            with monkeypatch.context() as patch:
                patch.setattr(exporting, "messages_left", lambda *_, count=stop, all=every: interrupted(all, count))
                with pytest.raises(KeyboardInterrupt):
                    export_messages(view, file, form=form)
            result = export_messages(view, file, form=form)
            assert result.is_continued and result.messages == 900 - stop // 50 * 50
            assert list(read_source(file)) == [
                replace(each, where=each.where.replace("whole", "file")) for each in read_source(whole)
            ]
            file.unlink()
        assert not list(tmp_path.glob("file*"))


def interrupted(every: Iterable[Any], count: int = 5) -> Iterator[Any]:
    yield from islice(every, count)
    raise KeyboardInterrupt


def test_an_interrupted_import_continues(clean_store: Path, tmp_path: Path, assert_clean: AssertClean) -> None:
    new, every = tmp_path / "new", list(read_source(clean_store))
    with flightlog.open(new, SMALL) as store:
        store.put(Message("orders", b"before", queue_id=1))
        with pytest.raises(KeyboardInterrupt):
            import_messages(store, interrupted(every, 210), "this")
        with pytest.raises(UsageError, match="was interrupted"):
            import_messages(store, every, "other")
    with flightlog.open(new, SMALL) as store:
        result = import_messages(store, every, "this")
        assert result.found_count == 210 and result.by_topic == {"orders": 690}
        assert next(message.body for message in store.read("orders", 1)) == b"before"
    expected = messages(clean_store)
    assert [each for each in messages(new) if each[-2] != b"before"] == expected
    assert_clean(new)


def test_what_was_put_meanwhile_is_told(clean_store: Path, tmp_path: Path) -> None:
    every = list(read_source(clean_store))
    with flightlog.open(tmp_path / "new", SMALL) as store:
        with pytest.raises(KeyboardInterrupt):
            import_messages(store, interrupted(every, 0), "this")
        store.put(Message("orders", b"meanwhile"))
        with pytest.raises(UsageError, match="Something else was put meanwhile"):
            import_messages(store, every, "this")


def test_the_commands(cli: Cli, clean_store: Path, tmp_path: Path, assert_clean: AssertClean) -> None:
    file, new = tmp_path / "orders.jsonl", tmp_path / "new"
    finished = cli("export", clean_store, file, "--topic", "orders")
    assert (finished.code, finished.out) == (0, f"exported: 900 messages to {file}\n")
    cat = cli("cat", clean_store, "--form", "json")
    assert file.read_text() == cat.out, "what cat prints"
    again = cli("export", clean_store, file)
    assert again.code == 2 and "nothing is written over" in again.err
    shown = cli("import", new, file)
    assert shown.code == 0 and "to be imported: 900 messages. Import them with --write" in shown.out
    assert not new.exists()
    assert "\nimported: 900 messages\n" in cli("import", new, file, "--write").out
    assert messages(new) == messages(clean_store)
    assert_clean(new)
    with flightlog.open(new):
        assert cli("import", new, file, "--write").code == 4
    selected = cli("import", new, file, "--topic", "orders")
    assert selected.code == 2 and "a file is imported as a whole" in selected.err
    file.write_bytes(file.read_bytes()[:-1])
    cut = cli("import", new, file)
    assert cut.code == 2 and "the file was cut" in cut.err


def test_csv_and_parquet_by_suffix_and_a_store(cli: Cli, clean_store: Path, tmp_path: Path) -> None:
    for suffix, magic in ((".csv", b"topic,"), (".parquet", b"PAR1")):
        out = tmp_path / f"orders{suffix}"
        found = json.loads(cli("export", clean_store, out, "--queue", "1", "--json").out)
        assert found["messages"] == 300 and out.read_bytes().startswith(magic)
        assert "to be imported: 300 messages" in cli("import", tmp_path / "new", out).out
    copied = cli("import", tmp_path / "new", clean_store, "--from", "290", "--write")
    assert copied.code == 0 and "imported: 30 messages" in copied.out
    nothing = tmp_path / "nothing"
    nothing.write_bytes(b"topic,queue_id,else\n")
    assert "expected the header" in cli("import", tmp_path / "new", nothing).err
    nothing.write_bytes(b"PAR1 and no more")
    assert "expected a Parquet file" in cli("import", tmp_path / "new", nothing).err
    other = cli("export", clean_store, nothing.with_name("out"), "--topic", "none")
    assert other.code == 2 and "'none'" in other.err
