"""Names of consumer groups: a new group has one that RocketMQ's clients take, unless the store was opened otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import flightlog
from flightlog import InvalidGroupError, Message, Store, Stores, StoreSettings

STRICT, FREE = StoreSettings.small(), StoreSettings.small(rocketmq_strict=False)
NAMES = ["bill.ing", "größe", "a b", "g" * 256, "a/b"]

CALLS: dict[str, Callable[[Store, str], Any]] = {
    "subscribe": lambda store, group: store.subscribe("orders", group).close(),
    "receive": lambda store, group: store.receive(group, "orders"),
    "reset_offset": lambda store, group: store.reset_offset(group, "orders", "last"),
    "commit_offset": lambda store, group: store.commit_offset(group, "orders", 0, 1),
    "update_group": lambda store, group: store.update_group(group, is_ordered=True),
}
"""How a group comes into being."""


def put(path: Path, settings: StoreSettings) -> Store:
    store = flightlog.open(path, settings)
    if store.topic("orders") is None:
        store.put(Message("orders", b"x", queue_id=0))
    return store


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("call", CALLS)
def test_a_new_group_with_a_name_that_clients_refuse(
    tmp_path: Path, call: str, name: str, assert_clean: Callable[[Path], object]
) -> None:
    with put(tmp_path, STRICT) as store:
        with pytest.raises(InvalidGroupError, match="rocketmq_strict=False") as raised:
            CALLS[call](store, name)
        assert (raised.value.path, raised.value.group) == (store.path, name) and raised.value.exit_code == 2
        assert not store.groups() and not (tmp_path / "config" / "subscriptionGroup.json").exists()
    with put(tmp_path, FREE) as store:
        CALLS[call](store, name)
    assert_clean(tmp_path)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("made", ["commit_offset", "update_group"])
def test_a_group_that_is_there_goes_on_whatever_its_name(
    tmp_path: Path, call: str, made: str, assert_clean: Callable[[Path], object]
) -> None:
    with put(tmp_path, FREE) as store:
        CALLS[made](store, "bill.ing")
    with put(tmp_path, STRICT) as store:
        CALLS[call](store, "bill.ing")
        with pytest.raises(InvalidGroupError):
            CALLS[call](store, "bill.ing2")
    assert_clean(tmp_path)


def test_one_strict_store_of_several_refuses_for_all(tmp_path: Path) -> None:
    with put(tmp_path / "a", FREE) as free, put(tmp_path / "b", STRICT) as strict:
        stores = Stores({"a": free, "b": strict})
        with pytest.raises(InvalidGroupError, match="b"):
            stores.subscribe("orders", "bill.ing")
        stores.close()
