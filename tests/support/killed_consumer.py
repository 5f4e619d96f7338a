"""A consumer that is killed in the middle of its work: it says each acknowledgement before it makes it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

COUNT = 400
PROGRAM = """
import sys
import flightlog
from flightlog.tests.support import inside

with flightlog.open(sys.argv[1], flightlog.StoreSettings.small()) as store:
    for number in range(int(sys.argv[2])):
        store.put(flightlog.Message("orders", b"%d" % number, queue_id=None))
    for number, message in enumerate(store.subscribe("orders", "g")):
        print(message.queue_id, message.queue_offset, flush=True)
        message.ack()
        if number % 16 == 0:
            inside.group_offsets(store).save()
"""


def killed(path: Path, *, after: int) -> set[tuple[int, int]]:
    """Kill it once it has said so many; returns what it has said, (queue id, queue offset)."""
    command = [sys.executable, "-P", "-c", PROGRAM, str(path), str(COUNT)]
    said: set[tuple[int, int]] = set()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if not line.endswith("\n"):
                break  # the kill came in the middle of it, so before its acknowledgement
            queue_id, queue_offset = map(int, line.split())
            said.add((queue_id, queue_offset))
            if len(said) == after:
                child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL, child.returncode
    return said
