"""A group of JVMs that share eight queues and consume them in order, and one of gRPC members that receives the same
topic in order, while members join, leave and are killed."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

from flightlog import Message
from flightlog.serve.calls import clients as grpc_clients
from flightlog.tests.support.process import wait_until
from flightlog.tests.support.remoting_java import java_command
from flightlog.tests.support.remoting_server import RemotingStore
from flightlog.tests.support.rocketmq_java import JavaClientMissingError
from flightlog.tests.support.rocketmq_server import PATIENCE_S

QUEUES = frozenset(range(8))
LOCK_MS = 60_000
"""How long the locks of a killed member last, as a broker's, and the first slice of a gRPC member's message."""
GRPC_MEMBER = Path(__file__).parents[1] / "python" / "member.py"
TOPIC, SHARING, RECEIVING = "shared", "sharing", "receiving"
"""`shared` is `Member.java`'s, as `sharing`."""
OPTIONS = ("-Drocketmq.client.unlockDelayTimeMills=500",)
"""A member gives a queue up after so long if it may still be working on it; 20 s unless set."""


class Members:
    """The processes of a group, and what they said."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._heard = threading.Condition()
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self.lines: dict[str, list[str]] = defaultdict(list)

    def join(self, name: str, command: Sequence[str]) -> None:
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=self._home)
        self._processes[name] = process
        threading.Thread(target=self._listen, args=(name, process), daemon=True).start()

    def _listen(self, name: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with self._heard:
                self.lines[name].append(line.rstrip())
                self._heard.notify_all()

    def leave(self, name: str) -> None:
        process = self._processes.pop(name)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0

    def kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.wait(PATIENCE_S)

    def close(self) -> None:
        for name in tuple(self._processes):
            self.kill(name)

    def holds(self, name: str) -> frozenset[int]:
        """The queues that it holds by its last word."""
        said = [line for line in self.lines[name] if line.startswith("holds")]
        return frozenset(map(int, said[-1].split()[1:])) if said else frozenset()

    def wait_until_shared(self, *names: str) -> None:
        """Each queue has one owner, and each of these members its part."""
        part = len(QUEUES) // len(names)

        def is_shared() -> bool:
            held = [self.holds(name) for name in names]
            return all(len(each) == part for each in held) and frozenset().union(*held) == QUEUES

        with self._heard:
            assert self._heard.wait_for(is_shared, PATIENCE_S), self.lines

    def got(self) -> dict[int, set[int]]:
        """Numbers by queue, of all members."""
        found: dict[int, set[int]] = defaultdict(set)
        for lines in self.lines.values():
            for line in lines:
                if line.startswith("got"):
                    _, queue_id, number = line.split()
                    found[int(queue_id)].add(int(number))
        return found

    def wait_for(self, end: int) -> None:
        """Each queue's messages below this number have been consumed."""
        with self._heard:
            everything = {queue_id: set(range(end)) for queue_id in QUEUES}
            assert self._heard.wait_for(lambda: self.got() == everything, PATIENCE_S), self.got()

    def check_order(self) -> None:
        """Within a queue, a member gets one message after the other as long as it holds it."""
        for name, lines in self.lines.items():
            last: dict[int, int] = {}
            for line in lines:
                kind, *words = line.split()
                numbers = list(map(int, words))
                if kind == "holds":
                    last = {queue_id: number for queue_id, number in last.items() if queue_id in numbers}
                elif kind == "got":
                    queue_id, number = numbers
                    assert number == last.get(queue_id, number - 1) + 1, (name, queue_id, last, number)
                    last[queue_id] = number


def jvm(served: RemotingStore, name: str, version: str) -> list[str]:
    home = served.path.parent
    return java_command("Member", served.address, name, version=version, home=home, options=OPTIONS)


@pytest.mark.ci
@pytest.mark.timeout(900)
def test_members_join_leave_and_are_killed(served: RemotingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_clients, "GONE_S", 0.0)  # a killed one is forgotten at once, not after a minute
    served.store.create_topic(TOPIC, len(QUEUES))
    served.store.update_group(RECEIVING, is_ordered=True)
    sent = 0

    def send(count: int) -> int:
        nonlocal sent
        numbers = range(sent, sent + count)
        served.store.put_many(
            [Message(TOPIC, b"%d" % n, queue_id=q, tags=str(q)) for n in numbers for q in sorted(QUEUES)]
        )
        sent += count
        return sent

    grpc_member = [sys.executable, "-P", str(GRPC_MEMBER), served.grpc_address, RECEIVING, TOPIC]
    members, receivers = Members(served.path.parent), Members(served.path.parent)
    try:
        try:
            members.join("first", jvm(served, "first", "5.3.3"))
            members.join("second", jvm(served, "second", "4.9.8"))
        except JavaClientMissingError as e:
            pytest.skip(str(e))
        receivers.join("one", grpc_member)
        send(20)
        members.wait_until_shared("first", "second")
        members.wait_for(send(20))
        before = {name: len(members.lines[name]) for name in ("first", "second")}
        members.wait_for(send(20))
        for name, count in before.items():
            new = {int(line.split()[1]) for line in members.lines[name][count:] if line.startswith("got")}
            assert new == members.holds(name)
        receivers.wait_for(sent)
        send(20)
        members.kill("second")
        receivers.kill("one")
        send(20)
        served.clock.advance(LOCK_MS + 1)
        members.wait_until_shared("first")
        members.wait_for(sent)
        members.join("third", jvm(served, "third", "5.3.3"))
        receivers.join("two", grpc_member)
        send(20)
        members.wait_until_shared("first", "third")
        send(20)
        members.leave("first")
        receivers.wait_for(sent)
        receivers.leave("two")
        receivers.join("three", grpc_member)
        send(20)
        members.wait_until_shared("third")
        members.wait_for(sent)
        receivers.wait_for(sent)
        members.leave("third")
        wait_until(lambda: not any(served.store.lag(RECEIVING).values()))  # acknowledged, too
        receivers.leave("three")
        members.check_order()
        receivers.check_order()
    finally:
        members.close()
        receivers.close()
    assert served.store.group_offsets(SHARING, TOPIC) == dict.fromkeys(QUEUES, sent)
    assert not any(served.store.lag(RECEIVING).values())
