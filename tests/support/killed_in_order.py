"""An ordered consumer that is killed in the middle of its work: two members, a listener that fails now and then, and
says every message before it is acknowledged."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

COUNT = 400
AFTERWARDS = 20
"""What it may say, at most, before the kill gets to it."""
PROGRAM = """
import sys
import threading
import flightlog
from flightlog.consume.deliver.back_off import BackOff
from flightlog.tests.support import inside

speaking = threading.Lock()
left = threading.Semaphore(int(sys.argv[3]))

def listener(message):
    if message.queue_offset % 7 == 3 and message.attempt == 1:
        raise ValueError("again, please")
    left.acquire()
    with speaking:
        print(message.queue_id, message.queue_offset, flush=True)

with flightlog.open(sys.argv[1], flightlog.StoreSettings.small()) as store:
    if not store.queues():
        for number in range(int(sys.argv[2])):
            store.put(flightlog.Message("orders", b"%d" % number, queue_id=None))
    at_once = BackOff(0.0, 0.0)
    members = [
        flightlog.Consumer(store, "orders", "g", listener, ordered=True, threads=3, back_off=at_once) for _ in range(2)
    ]
    for member in members:
        member.start()
    while sys.stdin.readline():
        inside.group_offsets(store).save()
"""


def killed(path: Path, *, after: int) -> list[tuple[int, int]]:
    """Kill it once it has said so many; returns what it has said, (queue id, queue offset), in that order."""
    command = [sys.executable, "-P", "-c", PROGRAM, str(path), str(COUNT), str(after + AFTERWARDS)]
    said: list[tuple[int, int]] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None and child.stdout is not None
        for line in child.stdout:
            if not line.endswith("\n"):
                continue  # the kill has cut it short
            queue_id, queue_offset = map(int, line.split())
            said.append((queue_id, queue_offset))
            if len(said) % 16 == 0 and len(said) < after:  # what it said before the kill is read after it, too
                child.stdin.write("save\n")
                child.stdin.flush()
            if len(said) == after:
                child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL, child.returncode
    return said
