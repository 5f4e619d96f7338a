"""The brokers that calls go to, each with what the calls keep for it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

from ...consume.group.group_settings import GroupSettings
from ...consume.pop.pop_errors import ExpiredHandleError
from ...consume.pop.popped import PopHandle, words_of
from ...consume.store import Store
from ...store.errors import InvalidArgumentError
from ...store.stored_message import StoredMessage
from ..brokers.broker import Broker
from ..brokers.off_loop import OffLoop
from .kept_messages import KeptMessages
from .protocol import Code
from .refusals import TEXTS, Refused
from .transactions import ServedTransactions

AskProducer = Callable[[StoredMessage, str], bool]


class ServedBroker:
    """One broker. It has threads of its own, so that a slow disk keeps no other broker waiting."""

    def __init__(self, broker: Broker, ask_producer: AskProducer) -> None:
        self.broker, self.name, self.traffic = broker, broker.name, broker.traffic
        self.off_loop = OffLoop()
        self.kept = KeptMessages(broker, self.off_loop)
        self.transactions = ServedTransactions(broker, self.off_loop, ask_producer)

    @property
    def store(self) -> Store:
        """Raises StoreClosedError."""
        return self.broker.store

    @property
    def is_up(self) -> bool:
        return self.broker.is_up

    def tend(self) -> None:
        """What is done from time to time, by a thread: it may wait for the disk."""
        self.kept.sweep()
        self.transactions.leave_due()

    def open_again(self) -> None:
        """After it was lost. By a thread. Raises what opening raises."""
        self.transactions.check_groups(set())
        self.broker.open()
        self.transactions.leave_of_before()


class ServedBrokers:
    """In the order in which they were given. In one event loop."""

    def __init__(self, brokers: Iterable[Broker], ask_producer: AskProducer) -> None:
        """The names are all different."""
        self._by_name = {broker.name: ServedBroker(broker, ask_producer) for broker in brokers}
        self._turns = itertools.count()

    def __iter__(self) -> Iterator[ServedBroker]:
        return iter(self._by_name.values())

    def __getitem__(self, name: str) -> ServedBroker:
        return self._by_name[name]

    def up(self) -> list[ServedBroker]:
        """Those that take messages. Raises Refused if there is none."""
        found = [each for each in self if each.is_up]
        if not found:
            raise Refused(Code.INTERNAL_SERVER_ERROR, "; ".join(f"{each.name}: {each.broker.reason}" for each in self))
        return found

    def read_by(self, name: str) -> list[ServedBroker]:
        """Those that a receive reads which names this broker: that one; for another name, or none, all that are up, a
        different one first each time. Raises Refused."""
        if name in self._by_name:
            return [self.named(name)]
        found = self.up()
        first = next(self._turns) % len(found)
        return found[first:] + found[:first]

    def of_handle(self, handle: PopHandle) -> ServedBroker:
        """The broker whose message it names. Raises Refused, also for what is no handle."""
        try:
            words, _ = words_of(handle)
        except InvalidArgumentError as e:
            raise Refused(Code.INVALID_RECEIPT_HANDLE, str(e)) from e
        if words.key.broker_name not in self._by_name:
            raise Refused(Code.INVALID_RECEIPT_HANDLE, TEXTS[ExpiredHandleError])  # as the proxy says
        return self.named(words.key.broker_name)

    def named(self, name: str) -> ServedBroker:
        """The broker of this name. Raises Refused, also if it is away."""
        found = self._by_name.get(name)
        if found is None:
            raise Refused(Code.BAD_REQUEST, f"there is no broker {name!r} here")
        if not found.is_up:
            raise Refused(Code.INTERNAL_SERVER_ERROR, f"broker {name!r} is away: {found.broker.reason}")
        return found

    def now_ms(self) -> int:
        """By the clock of the first broker that was opened: all have the same."""
        return next(each.store for each in self if each.broker.was_opened).message_store.clock.now_ms()

    def group_settings(self, group: str) -> GroupSettings:
        """As the first broker that is up has them."""
        return self.up()[0].store.group_settings(group)

    def check_groups(self, groups: set[str]) -> None:
        """See ServedTransactions.check_groups."""
        for each in self:
            if each.is_up:
                each.transactions.check_groups(groups)

    def forget_client(self, client_id: str) -> None:
        for each in self:
            each.kept.forget_client(client_id)

    def close(self) -> None:
        """Return once the last call has ended. By a thread."""
        for each in self:
            each.transactions.close()
            each.off_loop.close()
