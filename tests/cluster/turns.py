"""One turn of a store with everything in it: to a broker, whose clients read it, and back."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

import flightlog
from flightlog import handover
from flightlog.tests.cluster import everything
from flightlog.tests.cluster.everything import CLOSE, CUT, acknowledged_file, read_all
from flightlog.tests.cluster.grpc_client import GrpcSeen, run_grpc_client
from flightlog.tests.cluster.java_client import Said, Seen, run_client
from flightlog.tests.cluster.places import Place
from flightlog.tests.cluster.processes import Cluster, RocketmqProcess, with_lines
from flightlog.tests.cluster.states import PATIENCE_S
from flightlog.tests.support.rocketmq_clients import PythonClients
from flightlog.tests.support.rocketmq_java import fetch_client

SENT = 10
QUICK_CHECKS = {"transactionTimeOut": 3000, "transactionCheckInterval": 3000, "transactionCheckMax": 10_000}
"""A half message whose producer is not there is asked about all the same, and given up after so many times."""
PULLED = ("orders", "steps", "popped", "packed", "doomed", "%DLQ%failing")
POPPED_BY_PYTHON = {"grpc-readers": "orders", "popper": "popped"}
POPPED_BY_JAVA = {"java-popper": "popped", "step-popper": "steps"}
"""Groups that flightlog popped for, with their topics."""
READ_BY_JAVA = {"java-orders": "orders", "java-packed": "packed", "java-steps": "steps", "java-pushed": "orders"}
FILL_LIMIT_S = 240.0
INVISIBLE_S = 30


def messages_of(path: Path, topics: tuple[str, ...]) -> list[Seen]:
    with flightlog.open_read_only(path) as view:
        return [
            Seen.of_store(message)
            for topic, queue_id in sorted(view.queues())
            if topic in topics
            for message in view.read(topic, queue_id)
        ]


def of_turn(turn: int, kind: str, count: int) -> list[str]:
    return sorted(f"{turn} {kind} {number}" for number in range(count))


class Turn:
    """One turn of one folder, in which our writer and then the broker end in the same way. `is_49`: a broker that knows
    neither pops nor timers."""

    def __init__(
        self,
        cluster: Cluster,
        jars: Path,
        place: Place,
        beside: Path,
        size: str,
        endings: Sequence[str],
        *,
        is_49: bool,
    ) -> None:
        """`endings`: those of all turns on this folder so far, and of this one."""
        self.cluster, self.jars, self.place, self.beside = cluster, jars, place, beside
        self.number, self.ending = len(endings) - 1, endings[-1]
        self.path, self.is_49 = place.path, is_49
        self.settings, self.size = everything.settings_of(size, self.ending), size
        self.local_offsets = everything.local_folder(beside)
        self.has_java_grpc = False
        """Whether it read, too."""
        self.was_killed = self.ending != CLOSE
        self.was_set_back = bool({*endings[:-1]} - {CLOSE})
        """Whether groups may get again what they had in earlier turns: a broker that is killed has not written yet how
        far they came in the last seconds."""

    def fill(self) -> None:
        command = [sys.executable, "-P", everything.__file__, self.path, self.beside, self.number, self.size]
        command += [self.ending, *(["--49"] if self.is_49 else [])]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=FILL_LIMIT_S)
        assert done.returncode == (-9 if self.was_killed else 0), done.stderr
        if self.ending == CUT:
            self.place.boot()

    def conf(self, port: int) -> str:
        text = handover.broker_conf(
            self.path, self.settings, address="127.0.0.1", port=port, name_server=self.cluster.name_server
        )
        conf = self.beside / "checked.conf"
        conf.write_text(text)
        report = handover.check(self.path, conf, settings=self.settings)
        assert report.is_fit, report.findings
        assert self.was_killed == ("not-closed" in {note.name for note in report.notes}), report.notes
        return with_lines(text, QUICK_CHECKS)

    def end(self, broker: RocketmqProcess) -> None:
        if self.ending == CUT:
            self.place.cut_power()
        if self.was_killed:
            broker.kill()
        else:
            broker.stop()
        if self.ending == CUT:
            self.place.boot()

    def read_by_java(self) -> Said:
        """Every message equal, and each group what it is owed, once."""
        expected = messages_of(self.path, PULLED)
        turn, half = self.number, everything.HALF
        late = everything.LEVELS + (0 if self.is_49 else everything.TIMERS + 1)
        words: list[object] = [word for topic in PULLED for word in ("pull", topic)]
        words += ["consume", "concurrent", "orders", "concurrently", everything.ORDERS - everything.READ]
        words += ["consume", "ordered", "orders", "orderly", everything.ORDERS - everything.READ_IN_ORDER]
        words += ["consume", "caches", "orders", "broadcasting", everything.ORDERS - everything.READ_BY_ALL]
        words += ["consume", "stepper", "steps", "orderly", everything.STEPS]
        words += ["consume", "retrier", "retried", "concurrently", everything.FAILED]
        words += ["consume", "late", "delayed", "concurrently", late]
        if not self.is_49:
            words += ["answer", "payers", "paid", half, f"{turn} paid there"]
            words += ["consume", "paid-reader", "paid", "concurrently", 2 + half]
        words += ["send", "orders", SENT, f"{turn} sent"]
        said = run_client(
            self.jars,
            self.beside / f"client-{turn}",
            self.cluster.name_server,
            *words,
            counted=f"{turn} ",
            local_offsets=self.local_offsets,
        )

        pulled = sorted(said.messages["pulled"], key=lambda seen: (seen.topic, seen.queue_id, seen.queue_offset))
        assert pulled == expected
        every = {f"{turn} order {number}" for number in range(everything.ORDERS)}
        read_here = {
            "concurrent": everything.READ,
            "ordered": everything.READ_IN_ORDER,
            "caches": everything.READ_BY_ALL,
        }
        for group, read in read_here.items():
            bodies = [body.rstrip() for body in said.bodies(group)]
            assert len(set(bodies)) == len(bodies) == everything.ORDERS - read and set(bodies) <= every
        assert said.bodies("stepper") == of_turn(turn, "steps", everything.STEPS)
        assert said.bodies("retrier") == of_turn(turn, "retried", everything.FAILED)
        assert {seen.reconsume_times for seen in said.messages["retrier"]} == {1}
        timers = [] if self.is_49 else [*of_turn(turn, "timer", everything.TIMERS), f"{turn} overdue 0"]
        found = said.bodies("late")
        if self.was_killed:  # what a killed process put on its wheel since its last save, a broker puts there again
            found = sorted({*found})
        if self.was_set_back:  # as do those of the turn before, whose broker was killed
            found = [body for body in found if body.startswith(f"{turn} ")]
        assert found == sorted([*of_turn(turn, "level", everything.LEVELS), *timers]), said.bodies("late")
        if not self.is_49:
            # A broker that asks again before it was answered commits the message twice, also that of an earlier turn.
            halves = {*of_turn(turn, "paid half", half)}
            assert {body for body in said.bodies("asked") if body.startswith(f"{turn} ")} == halves
            paid = {body for body in said.bodies("paid-reader") if body.startswith(f"{turn} ")}
            assert paid == halves | {f"{turn} paid committed", f"{turn} paid there"}
        return said

    def read_by_python(self, clients: PythonClients) -> None:
        """Popped by a new group, and by one that flightlog popped for, whose unacknowledged ones come again."""
        stored = {m.body.decode(): m for m in messages_of(self.path, ("orders",))}
        wanted = {body for body in stored if body.startswith(f"{self.number} ")}
        found = self._popped(clients, "grpc-readers", "orders", wanted)
        assert self._is_all(found.keys(), wanted), sorted(found)
        for body, message in found.items():
            expected = stored[body]
            assert message.tag == expected.properties.get("TAGS")
            assert set(message.keys) == set(expected.properties.get("KEYS", "").split())  # the proxy has them as a set
            assert message.properties.get("region") == expected.properties.get("region")
            assert message.message_id == expected.properties.get("UNIQ_KEY", message.message_id)
        owed = self._owed("popper", "popped")
        found = self._popped(clients, "popper", "popped", owed)
        assert self._is_owed(found.keys(), owed), sorted(found)

    def read_by_java_over_grpc(self, proxy: str) -> None:
        """As Python; by a group that is pushed to, and by one that pops in order besides. It sends, too."""
        turn, topics = self.number, ("orders", "packed", "steps")
        with flightlog.open_read_only(self.path) as view:
            stored = [
                GrpcSeen.of_store(message)
                for topic, queue_id in sorted(view.queues())
                if topic in topics
                for message in view.read(topic, queue_id)
                if message.decompressed_body().startswith(b"%d " % turn)
            ]
        bodies = {topic: {each.body for each in stored if each.topic == topic} for topic in topics}
        owed = {group: self._owed(group, topic) for group, topic in POPPED_BY_JAVA.items()}
        words: list[object] = []
        for topic in topics:
            words += ["receive", f"java-{topic}", topic, len(bodies[topic])]
        for group, topic in POPPED_BY_JAVA.items():
            words += ["receive", group, topic, len(owed[group])]
        words += ["push", "java-pushed", "orders", len(bodies["orders"]), "send", "replies", SENT, f"{turn} replied"]
        said = run_grpc_client(fetch_client(), self.beside / f"grpc-{turn}", proxy, *words, counted=f"{turn} ")
        for topic in topics:
            assert self._is_all(said.messages[f"java-{topic}"], (each for each in stored if each.topic == topic)), topic
        assert self._is_all(said.messages["java-pushed"], (each for each in stored if each.topic == "orders"))
        ids = {each.message_id for each in said.messages["java-orders"]}
        assert ids >= {each.message_id for each in stored if each.topic == "orders"} - {""}
        for group, wanted in owed.items():
            found = said.bodies(group)
            assert self._is_owed(found, wanted), (group, found)
        if not (self.was_killed or self.was_set_back):
            numbers = [int(body.split()[-1]) for body in said.bodies("step-popper")]
            for queue_id in range(2):
                of_queue = [number for number in numbers if number % 2 == queue_id]
                assert of_queue == sorted(of_queue)
        with flightlog.open_read_only(self.path) as view:
            for message_id, body in said.sent.items():
                reply = view.message_by_uniq_key("replies", message_id)
                assert reply is not None and reply.body.decode() == body
        assert len(said.sent) == SENT
        self.has_java_grpc = True

    def _is_all(self, found: Iterable[Hashable], wanted: Iterable[Hashable]) -> bool:
        """Every one, equal; and no other unless groups were set back."""
        return {*found} >= {*wanted} if self.was_set_back else {*found} == {*wanted}

    def _is_owed(self, found: Iterable[str], wanted: set[str]) -> bool:
        """As `_is_all`, of a group that was here in this turn, and may have been set back here."""
        return {*found} >= wanted if self.was_set_back or self.was_killed else {*found} == wanted

    def _owed(self, group: str, topic: str) -> set[str]:
        """All but those that it acknowledged here: which these are, its pop decided."""
        count = everything.STEPS if topic == "steps" else everything.POPPED
        acknowledged = acknowledged_file(self.beside, group, self.number).read_text().splitlines()
        assert acknowledged
        return set(of_turn(self.number, topic, count)) - set(acknowledged)

    def _popped(self, clients: PythonClients, group: str, topic: str, wanted: set[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                consumer = clients.simple_consumer(group, {topic: None})
                break
            except Exception as e:
                # A proxy that asked while the broker was away keeps the answer for 20 s.
                if "failed to fetch topic" not in str(e) or time.monotonic() > deadline_s:
                    raise
                time.sleep(1)
        while not found.keys() >= wanted:
            assert time.monotonic() < deadline_s, f"missing: {sorted(wanted - found.keys())}"
            try:
                received = consumer.receive(32, INVISIBLE_S) or []
            except Exception as e:
                if '"settings" is null' not in str(e):
                    raise
                # The client loses its settings in a race when it starts, and does not send them again.
                consumer = clients.simple_consumer(group, {topic: None})
                continue
            for message in received:
                consumer.ack(message)
                found[message.body.decode()] = message
        return found

    def go_on_here(self, said: Said) -> None:
        """What the broker was sent is where it said, and groups are owed that and nothing else."""
        with flightlog.open(self.path, self.settings) as store:
            assert not store.recovery_report.damage
            for queue_id, queue_offset, body in said.sent:
                message = next(iter(store.read("orders", queue_id, queue_offset)))
                assert message.body.decode() == body
            sent = [body for _, _, body in said.sent]
            for group in ("concurrent", "ordered"):
                found = read_all(store, group, "orders", is_ordered=group == "ordered")
                assert set(found) >= set(sent) if self.was_killed else found == sent, (group, found)
            member = self.local_offsets / everything.MEMBER
            assert read_all(store, "caches", "orders", broadcast_folder=member) == sent
            for group, topic in (("stepper", "steps"), ("retrier", "retried"), ("late", "delayed")):
                again = read_all(store, group, topic)
                assert self.was_killed or not again, (group, again)
            if not (self.was_killed or self.is_49):
                groups = POPPED_BY_PYTHON | (POPPED_BY_JAVA | READ_BY_JAVA if self.has_java_grpc else {})
                for group, topic in groups.items():
                    assert not store.receive(group, topic), group

    def mend(self) -> None:
        """What `verify` says to do: brokers of 4.9 sync none of these files, so a cut leaves some empty, beside their
        `.bak`, which has just been read in their place. The filters may have none yet; no group has one here."""
        if self.is_49 and self.ending == CUT:
            for file in (self.path / "config").glob("*.json"):
                old = file.with_name(f"{file.name}.bak")
                has_old = old.exists() and old.stat().st_size > 0
                if not file.stat().st_size and (has_old or file.name == "consumerFilter.json"):
                    file.unlink()
