"""Many receives that wait for one group: a put wakes as many as it has messages for, and they wake each other."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import Message, Store, StoreSettings
from flightlog.consume.pop import pop_service
from flightlog.consume.pop.next_messages import queues_to_pop
from flightlog.engine.services.waiting_line import WaitingLine
from flightlog.store.errors import StoreClosedError
from flightlog.store.queue_offsets import QueueKey

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

WAIT_S = 120.0
RECEIVERS = 8


class Receivers:
    """Threads that receive one message each, and how often they looked for it."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store, self.got, self.closed, self.looks = store, list[int](), 0, 0
        self._changed = threading.Condition()
        self._looking = set[int]()
        """Threads that have looked."""

        def counted(*arguments: Any) -> Iterator[QueueKey]:
            try:
                yield from queues_to_pop(*arguments)
            finally:
                with self._changed:
                    self.looks += 1
                    self._looking.add(threading.get_ident())
                    self._changed.notify_all()

        monkeypatch.setattr("flightlog.consume.pop.pop_service.queues_to_pop", counted)
        monkeypatch.setattr(pop_service, "WAIT_TICK_S", WAIT_S)  # a wake-up alone ends a wait
        self.threads = [threading.Thread(target=self._receive) for _ in range(RECEIVERS)]
        for thread in self.threads:
            thread.start()
        self.wait_until(lambda: len(self._looking) == RECEIVERS)  # one may look again: it is woken without need

    def _receive(self) -> None:
        try:
            [message] = self.store.receive("g", "orders", 1, wait_s=WAIT_S)
        except StoreClosedError:
            with self._changed:
                self.closed += 1
            return
        with self._changed:
            self.got.append(int(message.body))
            self._changed.notify_all()

    def wait_until(self, condition: Callable[[], object]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, WAIT_S)

    def wait_for(self, count: int) -> None:
        """Until so many have their message."""
        self.wait_until(lambda: len(self.got) == count)


@pytest.fixture
def receivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean) -> Iterator[Receivers]:
    with flightlog.open(tmp_path / "store", StoreSettings.small()) as store:
        store.create_topic("orders", 4)
        store.put_many([Message("orders", b"-1", queue_id=number) for number in range(4)])
        store.ack(*(message.handle for message in store.receive("g", "orders")))
        receivers = Receivers(store, monkeypatch)
        yield receivers
        store.close()
        for thread in receivers.threads:
            thread.join(WAIT_S)
        assert len(receivers.got) + receivers.closed == RECEIVERS
    assert_clean(tmp_path / "store")


def test_one_message_wakes_one_and_it_the_next(receivers: Receivers) -> None:
    receivers.store.put(Message("orders", b"1"))
    receivers.wait_until(lambda: receivers.got and receivers.looks >= RECEIVERS + 2)
    assert receivers.got == [1]
    assert receivers.looks < 2 * RECEIVERS, "not all were woken"


def test_each_of_several_messages_wakes_one(receivers: Receivers) -> None:
    receivers.store.put_many([Message("orders", b"%d" % number, queue_id=number % 4) for number in range(RECEIVERS)])
    receivers.wait_for(RECEIVERS)
    assert sorted(receivers.got) == [*range(RECEIVERS)]


def test_messages_that_come_one_after_the_other_wake_one_each(receivers: Receivers) -> None:
    for number in range(RECEIVERS):
        receivers.store.put(Message("orders", b"%d" % number, queue_id=number % 4))
        receivers.wait_for(number + 1)
    assert receivers.got == [*range(RECEIVERS)]


def test_nothing_is_kept_of_groups_that_waited_in_vain(tmp_path: Path) -> None:
    def lines() -> int:
        return sum(type(each) is WaitingLine for each in gc.get_objects())

    with flightlog.open(tmp_path, StoreSettings.small()) as store:
        store.create_topic("orders", 2)
        gc.collect()
        before = lines()
        for group in range(20):
            assert store.receive(f"g{group}", "orders", wait_s=0.001) == []
        assert lines() <= before
