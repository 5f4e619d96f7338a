"""What the objects of the face look like in a log, a debugger or a failed test."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import flightlog

if TYPE_CHECKING:
    from flightlog.testing import ServedStore
    from flightlog.tests.conftest import AssertClean

SMALL = flightlog.StoreSettings.small()


def test_stores_and_views_tell_their_folder_and_whether_they_are_open(
    tmp_path: Path, assert_clean: AssertClean
) -> None:
    with flightlog.open(tmp_path, SMALL) as store:
        assert repr(store) == f"<Store {str(tmp_path)!r}, open for writing>"
        assert repr(flightlog.Producer({"disk-a": store})) == f"<Producer to 'disk-a': {store!r}>"
        assert repr(flightlog.Stores({"disk-a": store})) == "<Stores 'disk-a'>"
        with flightlog.open_read_only(tmp_path) as view:
            assert repr(view) == f"<ReadOnlyStore {str(tmp_path)!r}, open for reading>"
        assert repr(view) == f"<ReadOnlyStore {str(tmp_path)!r}, closed>"
    assert repr(store) == f"<Store {str(tmp_path)!r}, closed>"
    assert_clean(tmp_path)


def test_members_tell_their_group_and_topics(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SMALL) as store:
        store.create_topic("orders", 4)
        subscription = store.subscribe("orders", group="billing", member="m-1")
        told = "<Subscription 'm-1' of group 'billing' to 'orders', "
        assert repr(subscription) == f"{told}4 queues>"
        subscription.close()
        assert repr(subscription) == f"{told}closed>"
        consumer = flightlog.Consumer(store, "orders", "billing", print, member="m-1")
        assert repr(consumer) == "<Consumer of group 'billing', not started>"
        with consumer:
            assert repr(consumer) == f"<Consumer of group 'billing', {told}4 queues>>"
    assert_clean(tmp_path)


def test_members_of_a_served_store_tell_their_group_and_topic(rocketmq: ServedStore) -> None:
    with flightlog.connect(rocketmq.address) as store:
        with store.subscribe("orders", group="billing") as subscription:
            assert repr(subscription) == "<RemoteSubscription of group 'billing' to 'orders', open>"
        assert repr(subscription) == "<RemoteSubscription of group 'billing' to 'orders', closed>"


def test_every_class_of_the_face_has_a_repr() -> None:
    classes = [one for name in flightlog.__all__ if isinstance(one := getattr(flightlog, name), type)]
    assert [cls for cls in classes if not any("__repr__" in vars(base) for base in cls.__mro__[:-1])] == []


def test_messages_tell_tags_and_keys_and_how_their_bodies_begin(tmp_path: Path, assert_clean: AssertClean) -> None:
    short = flightlog.Message("orders", b"created", tags="create", keys=["o-1", "o-2"])
    assert repr(short) == "Message('orders', b'created', tags='create', keys=['o-1', 'o-2'])"
    long = flightlog.Message("orders", b"x" * 100_000, queue_id=None)
    assert repr(long) == f"Message('orders', {b'x' * 40!r}... (100,000 bytes), queue_id=None)"
    with flightlog.open(tmp_path, SMALL) as store:
        store.put(short)
        store.put(flightlog.Message("orders", b"y" * 41))
        first, second = store.read("orders")
        assert repr(first) == (
            "StoredMessage('orders', queue_id=0, queue_offset=0, physical_offset=0, tags='create', "
            "keys=['o-1', 'o-2'], body=b'created')"
        )
        assert repr(second).endswith(f"tags=None, keys=[], body={b'y' * 40!r}... (41 bytes))")
        [received] = [next(iter(store.subscribe("orders", group="billing")))]
        assert repr(received) == f"ReceivedMessage({first!r})"
    assert_clean(tmp_path)
