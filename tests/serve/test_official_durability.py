"""A server that is killed under load by RocketMQ's own Python clients: what `send` returned is stored."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog
from flightlog import FlushMode, StoreSettings
from flightlog.tests.support.rocketmq_clients import Address, PythonClients
from flightlog.tests.support.rocketmq_server import PATIENCE_S, deadline
from flightlog.tests.support.served_process import served_process

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

SETTINGS = StoreSettings.small(flush_mode=FlushMode.SYNC, segment_size=1 << 20)
TOPIC, SENDERS, SENDS, LIVES = "orders", 3, 60, 2


class Senders:
    """Each has a client and a message group of its own. Bodies are `sender number`."""

    def __init__(self) -> None:
        self.returned: set[bytes] = set()
        """Bodies whose `send` returned."""
        self._next_numbers = [0] * SENDERS

    def run_until_killed(self, address: str, process_id: int) -> None:
        """Send, and kill the server in the midst of it once so many more were acknowledged."""
        ended = threading.Event()
        target = len(self.returned) + SENDS
        with ExitStack() as undo:
            clients = PythonClients(Address(address), undo)
            producers = [clients.producer(TOPIC) for _ in range(SENDERS)]
            threads = [
                threading.Thread(target=self._send, args=(clients, producer, sender, ended))
                for sender, producer in enumerate(producers)
            ]
            for thread in threads:
                thread.start()
            ends_s = deadline()
            try:
                while len(self.returned) < target:
                    assert time.monotonic() < ends_s, len(self.returned)
                    time.sleep(0.005)
                os.kill(process_id, signal.SIGKILL)
            finally:
                ended.set()
            for thread in threads:
                thread.join(PATIENCE_S)
                assert not thread.is_alive()

    def _send(self, clients: PythonClients, producer: Any, sender: int, ended: threading.Event) -> None:
        while not ended.is_set():
            body = b"%d %d" % (sender, self._next_numbers[sender])
            self._next_numbers[sender] += 1
            try:
                producer.send(clients.message(TOPIC, body, message_group=str(sender)))
            except Exception:
                ended.wait(PATIENCE_S)  # the server is dying
            else:
                self.returned.add(body)


@pytest.mark.ci
def test_a_killed_server_keeps_what_send_returned(tmp_path: Path, assert_clean: AssertClean) -> None:
    path, senders = tmp_path / "store", Senders()
    for _ in range(LIVES):
        with served_process(path) as (process, address):
            senders.run_until_killed(address, process.pid)
            assert process.wait(PATIENCE_S) == -signal.SIGKILL
    with flightlog.open(path, SETTINGS) as store:
        queues = store.topic(TOPIC)
        assert queues is not None
        stored = [[each.body for each in store.read(TOPIC, i)] for i in range(queues.read_queue_count)]
    assert senders.returned <= {body for bodies in stored for body in bodies}
    for sender in range(SENDERS):
        [in_order] = [numbers for bodies in stored if (numbers := _numbers(bodies, sender))]
        assert in_order == sorted(in_order)
    assert_clean(path)


def _numbers(bodies: list[bytes], sender: int) -> list[int]:
    """Of a sender, without those that its client sent again. In order of the log, as they lie in one queue."""
    return list(dict.fromkeys(int(body.split()[1]) for body in bodies if body.startswith(b"%d " % sender)))
