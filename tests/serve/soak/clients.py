"""A process of the soak's clients: `clients.py connect|official ADDRESS LEDGER COUNT SEED`.

At any time COUNT clients live. Each has a connection of its own, sends or receives for some seconds and goes, some in
the midst of their work. The first line on the standard input ends the senders, the second one the receivers.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import flightlog
from flightlog.tests.serve.soak.ledger import Ledger
from flightlog.tests.support.rocketmq_clients import Address, PythonClients, persistently

TOPIC, CONSUMERS = "steps", ("billing", "ledger")
LIFE_S = {"connect": (5.0, 60.0), "official": (20.0, 90.0)}
"""From the shortest life of a client to the longest."""
PAUSE_S, INVISIBLE_S, WAIT_S = 1.0, 20, 5
SENDER, DESERTER = 0.4, 0.1
"""How likely a client sends; how likely a receiver goes without acknowledging what it has."""

Goes = Callable[[], bool]


def send_by_connect(address: str, ledger: Ledger, group: str, goes: Goes) -> None:
    with flightlog.connect(address) as store:
        for number in count():
            if not goes():
                return
            body = f"{group} {number}".encode()
            store.put(flightlog.Message(TOPIC, body), group=group)
            ledger.sent(body)
            time.sleep(PAUSE_S)


def receive_by_connect(address: str, ledger: Ledger, consumers: str, goes: Goes, is_deserter: bool) -> None:
    with flightlog.connect(address) as store:
        while goes():
            found = store.receive(consumers, TOPIC, invisible_ms=INVISIBLE_S * 1000, wait_s=WAIT_S)
            ledger.received(consumers, [popped.body for popped in found])
            if not found or (is_deserter and not goes()):
                continue
            try:
                store.ack(*(popped.handle for popped in found))
            except flightlog.ExpiredHandleError:
                continue  # this machine was too slow: they come again


def send_official(address: str, ledger: Ledger, group: str, goes: Goes) -> None:
    with ExitStack() as undo:
        clients = PythonClients(Address(address), undo)
        producer = clients.producer(TOPIC)
        for number in count():
            if not goes():
                return
            body = f"{group} {number}".encode()
            persistently(producer.send, clients.message(TOPIC, body, message_group=group))
            ledger.sent(body)
            time.sleep(PAUSE_S)


def receive_official(address: str, ledger: Ledger, consumers: str, goes: Goes, is_deserter: bool) -> None:
    with ExitStack() as undo:
        clients = PythonClients(Address(address), undo)
        consumer = clients.simple_consumer(consumers, {TOPIC: None}, wait_s=WAIT_S)
        while goes():
            found = persistently(lambda _: consumer.receive(32, INVISIBLE_S), None)
            ledger.received(consumers, [message.body for message in found])
            if is_deserter and found and not goes():
                return
            for message in found:
                try:
                    consumer.ack(message)
                except Exception as e:
                    if "INVALID_RECEIPT_HANDLE" not in str(e):
                        raise


KINDS = {"connect": (send_by_connect, receive_by_connect), "official": (send_official, receive_official)}


def live(kind: str, address: str, ledger: Ledger, seed: str, no_more: dict[bool, threading.Event]) -> None:
    """One client after another."""
    send, receive = KINDS[kind]
    dice = random.Random(seed)
    is_sender = dice.random() < SENDER
    for life in count():
        until_s = time.monotonic() + dice.uniform(*LIFE_S[kind])

        def goes(until_s: float = until_s) -> bool:
            return not no_more[is_sender].is_set() and time.monotonic() < until_s

        if no_more[is_sender].is_set():
            return
        if is_sender:
            send(address, ledger, f"{seed}.{life}", goes)
        else:
            receive(address, ledger, dice.choice(CONSUMERS), goes, dice.random() < DESERTER)


def main() -> None:
    kind, address, path, clients, seed = sys.argv[1:]
    ledger = Ledger(Path(path))
    no_more = {True: threading.Event(), False: threading.Event()}
    failed: list[BaseException] = []

    def run(number: int) -> None:
        try:
            live(kind, address, ledger, f"{seed}.{number}", no_more)
        except BaseException as e:
            failed.append(e)
            raise

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(int(clients))]
    for thread in threads:
        thread.start()
    for is_sender in (True, False):
        sys.stdin.readline()
        no_more[is_sender].set()
        print("ended", flush=True)
    for thread in threads:
        thread.join()
    if failed:
        sys.exit(f"{len(failed)} clients failed, the first with {failed[0]!r}")


if __name__ == "__main__":
    main()
