"""A message's properties, and everything that is told from them: keys, tags, light queues, delays, batches."""

from __future__ import annotations

from flightlog.engine.dispatch.dispatching import dispatch_rules
from flightlog.schedule.delay_level_table import SCHEDULE_TOPIC
from flightlog.store.format.inner_batch import MAX_COUNT, inner_count
from flightlog.store.format.light_queues import is_light, light_places
from flightlog.store.format.properties import decode_properties, encode_properties, looks_lost
from flightlog.store.format.property_names import split_keys
from flightlog.store.settings import StoreSettings

RULES = dispatch_rules(StoreSettings())


def _text(found: dict[str, str]) -> str:
    return "".join(f"{name}\x01{value}\x02" for name, value in found.items())


def one(data: bytes) -> None:
    found = decode_properties(data)
    is_ours = not any("\x01" in value for value in found.values()) and not looks_lost(_text(found))
    # Others write more than ours does.
    assert decode_properties(encode_properties(found, is_foreign=not is_ours)) == found
    assert all(found) and all(found.values())
    assert all(key and " " not in key for key in split_keys(found.get("KEYS", "")))
    assert 0 <= inner_count(found) <= MAX_COUNT
    for (name, queue_id), offset in light_places("orders", data):
        assert is_light(name) and queue_id == 0 and offset >= 0
    for stored_ms in (1_700_000_000_000, (1 << 63) - 1, -(1 << 63)):
        assert -(1 << 63) <= RULES.tags_code(SCHEDULE_TOPIC, data, stored_ms) < 1 << 63
    assert -(1 << 31) <= RULES.tags_code("orders", data, 0) < 1 << 31


def seeds() -> list[bytes]:
    return [
        encode_properties({"KEYS": "k1 k2  k3", "TAGS": "Aa", "UNIQ_KEY": "ü", "a": "b"}),
        encode_properties({"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b,x", "INNER_MULTI_QUEUE_OFFSET": "7,0,12"}),
        encode_properties({"DELAY": "18", "TAGS": "テ", "INNER_NUM": "3", "INNER_BASE": "0000000000000000007"}),
        b"a\x01b\x02\x02\x01\x02c\x01\x02\x01d\x02a\x01c",
    ]
