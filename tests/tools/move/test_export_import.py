"""`flightlog export` and `flightlog import`: every message comes back, and an interrupted one continues."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import Message, StoredMessage, StoreSettings
from flightlog.store.errors import UsageError
from flightlog.store.format.light_queues import is_light
from flightlog.store.topic import is_system_topic
from flightlog.tools.transfer import import_messages as importing
from flightlog.tools.transfer.export_messages import export_messages
from flightlog.tools.transfer.import_messages import import_messages, read_messages
from flightlog.tools.transfer.message_lines import LEFT_OUT

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

GOLDEN = (
    *("v1-clean", "abort", "abort-torn", "abort-late", "abort-reopen", "batch-bcq", "clean-cqlag", "cqext"),
    *("default-sizes", "delay-tx", "lmq", "minoffset", "preblank", "propcrc", "rollover", "v2-v6"),
)
SMALL = StoreSettings.small(deliver_delayed=False, segment_size=8 << 20)


def messages(path: Path) -> list[tuple[Any, ...]]:
    """All but what an import makes new."""

    def seen(message: StoredMessage) -> tuple[Any, ...]:
        properties = {name: value for name, value in message.properties.items() if name not in LEFT_OUT}
        fields = (message.topic, message.queue_id, message.flag, message.born_timestamp_ms, message.born_host)
        return (*fields, message.reconsume_times, message.sys_flag & 0x703, message.body, sorted(properties.items()))

    def each() -> Iterator[tuple[Any, ...]]:
        with flightlog.open_read_only(path) as view:
            for topic, queue_id in sorted(view.queues()):
                if not is_system_topic(topic) and not is_light(topic):
                    yield from map(seen, view.read(topic, queue_id, on_corrupt="skip"))

    return list(each())


def is_refused(line: dict[str, Any]) -> bool:
    """Whether flightlog takes no such message, which RocketMQ took: a long topic, or a separator in a property."""
    texts = [text for pair in line.get("properties", {}).items() for text in pair]
    return len(line.get("topic", "").encode()) > 127 or any(c in text for text in texts for c in "\x01\x02")


@pytest.mark.parametrize("name", GOLDEN)
def test_every_message_comes_back(
    golden_copy: Callable[[str], Path], tmp_path: Path, name: str, assert_clean: AssertClean
) -> None:
    path, file, new = golden_copy(name) / "store", tmp_path / "messages.jsonl", tmp_path / "new"
    with flightlog.open_read_only(path) as view:
        exported = export_messages(view, file)
    lines = file.read_bytes().splitlines(keepends=True)
    taken = [line for line in lines if not is_refused(json.loads(line))]
    with flightlog.open(new, SMALL) as store:
        if len(taken) < len(lines):
            with pytest.raises(UsageError, match="the store does not take this message"):
                import_messages(store, file)
            file.write_bytes(b"".join(taken))
        imported = import_messages(store, file)
    assert exported.messages == len(lines) - 1 > 0 and exported.skipped == 0
    assert sum(imported.by_topic.values()) + imported.found_count == len(taken) - 1
    assert messages(new) == [
        each for each in messages(path) if not is_refused({"topic": each[0], "properties": dict(each[-1])})
    ]
    assert_clean(new)


def test_an_interrupted_export_continues(clean_store: Path, tmp_path: Path) -> None:
    whole, file = tmp_path / "whole", tmp_path / "file"
    with flightlog.open_read_only(clean_store) as view:
        export_messages(view, whole)
        content = whole.read_bytes()
        for size in (0, 10, 200, len(content) // 2, len(content)):
            part = tmp_path / "file.part"
            part.write_bytes(content[:size])
            result = export_messages(view, file)
            assert file.read_bytes() == content and result.is_continued is (size >= 200)
            file.unlink()
        (tmp_path / "file.part").write_bytes(content)
        with pytest.raises(UsageError, match="an interrupted export of something else"):
            export_messages(view, file, ["orders"])


def test_an_interrupted_import_continues(
    clean_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    file, new = tmp_path / "file", tmp_path / "new"
    with flightlog.open_read_only(clean_store) as view:
        export_messages(view, file)

    def only(count: int) -> Iterator[tuple[str, Message]]:
        for number, (_, message) in enumerate(read_messages(file)):
            if number == count:
                raise KeyboardInterrupt
            yield "", message

    with flightlog.open(new, SMALL) as store:
        store.put(Message("orders", b"before", queue_id=1))
        with monkeypatch.context() as patch:
            patch.setattr(importing, "read_messages", lambda _: only(210))
            with pytest.raises(KeyboardInterrupt):
                import_messages(store, file)
        other = tmp_path / "other"
        other.write_bytes(file.read_bytes())
        with pytest.raises(UsageError, match="was interrupted"):
            import_messages(store, other)
    with flightlog.open(new, SMALL) as store:
        result = import_messages(store, file)
        assert result.found_count == 210 and result.by_topic == {"orders": 690}
        assert next(message.body for message in store.read("orders", 1)) == b"before"
    expected = messages(clean_store)
    assert [each for each in messages(new) if each[-2] != b"before"] == expected
    assert_clean(new)


def test_what_was_put_meanwhile_is_told(clean_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, new = tmp_path / "file", tmp_path / "new"
    with flightlog.open_read_only(clean_store) as view:
        export_messages(view, file)
    with flightlog.open(new, SMALL) as store:
        with monkeypatch.context() as patch:
            patch.setattr(importing, "read_messages", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                import_messages(store, file)
        store.put(Message("orders", b"meanwhile"))
        with pytest.raises(UsageError, match="Something else was put meanwhile"):
            import_messages(store, file)


def test_the_commands(cli: Cli, clean_store: Path, tmp_path: Path, assert_clean: AssertClean) -> None:
    file, new = tmp_path / "orders.jsonl", tmp_path / "new"
    finished = cli("export", clean_store, file, "--topic", "orders")
    assert (finished.code, finished.out) == (0, f"exported: 900 messages to {file}\n")
    head, first, *_ = map(json.loads, file.read_text().splitlines())
    assert head["format"] == "flightlog messages" and head["topics"] == ["orders"]
    assert (first["topic"], first["queueId"], first["queueOffset"]) == ("orders", 0, 0) and "body" in first
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
    file.write_bytes(file.read_bytes()[:-1])
    cut = cli("import", new, file)
    assert cut.code == 2 and "the file was cut" in cut.err
