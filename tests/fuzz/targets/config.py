"""JSON state files, whole numbers as keys without quotes included: topics, and topics that were deleted."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from flightlog.engine.topics.topics import topics_in
from flightlog.store.disk.config_file import Config, parse_config
from flightlog.store.errors import ConfigFileError
from flightlog.store.format.record import INT64_MAX, is_safe_topic
from flightlog.store.state.deleted_topics import DeletedTopics

PATH = Path("config/some.json")


def one(data: bytes) -> None:
    try:
        found = parse_config(data, PATH)
    except ConfigFileError:
        return
    assert parse_config(json.dumps(found).encode(), PATH) == found, "what was read can be written and read again"
    plain = _plain(data)
    assert plain is None or plain == found
    with suppress(ConfigFileError):
        for name, topic in topics_in(found, PATH).items():
            assert topic.name == name and is_safe_topic(name) and topic.queue_count >= 0
            assert topics_in({"topicConfigTable": {name: topic.to_json()}}, PATH)[name] == topic
    with suppress(ConfigFileError):
        _check_deleted(DeletedTopics.from_json(found, PATH))


def _plain(data: bytes) -> Config | None:
    """What any reader of JSON makes of it, if it is JSON that any reader takes."""
    try:
        found = json.loads(data.decode())
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _check_deleted(deleted: DeletedTopics) -> None:
    assert all(map(is_safe_topic, deleted.marked())), "they name folders to be removed"
    assert 0 <= deleted.highest <= INT64_MAX
    again = DeletedTopics.from_json(parse_config(json.dumps(deleted.to_json()).encode(), PATH), PATH)
    assert again.to_json() == deleted.to_json()
    deleted.settle(10, 1000)
    assert deleted.highest <= 1000


def seeds() -> list[bytes]:
    topic = '{"attributes":{"+queue.type":"BatchCQ"},"order":false,"perm":6,"readQueueNums":4,"writeQueueNums":8}'
    return [
        ('{"dataVersion":{"counter":3,"timestamp":17},"topicConfigTable":{"orders":' + topic + ',"ü":{}}}').encode(),
        b'{"deletedBelow": {"orders": 81920}, "pending": ["a"], "othersDeletedBelow": 4096, "known": ["a", "b"]}',
        b'{"offsetTable":{"t@g":{0:12,1:-7, 22 : 3}},"x":[{},[1.5e3,null,true],"\\ud83d\\u0000\\"{1:"]}',
        b'{"a":{1:{2:{3:{}}}},"b":"{5:6}","c":-0.0}',
    ]
