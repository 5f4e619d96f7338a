"""Starts writer.py, kills it by SIGKILL in the middle of its puts, and says what it had acknowledged."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path

from flightlog import FlushMode, PutResult, PutStatus, StoreSettings
from flightlog.tests.interop import mixed
from flightlog.tests.interop.harness import Line

WRITER = Path(__file__).with_name("writer.py")


def kill_writer(
    path: Path,
    *,
    seed: int,
    acknowledged: int,
    mode: FlushMode = FlushMode.ASYNC,
    ipv6: bool = False,
) -> list[Line]:
    """Kill a writer of the store at `path` once it has acknowledged so many messages, or a few more.

    Returns what must be read of the acknowledged ones; more may be there, by puts that were on their way.
    """
    command = [sys.executable, "-P", str(WRITER), str(path), mode.name, str(seed), str(ipv6).lower()]
    said: list[bytes] = []
    count = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            count += len(json.loads(line)[2])
            if count >= acknowledged:
                break
        process.kill()
        said += process.stdout.readlines()  # what it said before it died
    assert process.returncode == -signal.SIGKILL, f"the writer ended by itself: {process.returncode}"
    return _lines(said, seed, mixed.small_settings(store_host=_host(ipv6)))


def _host(ipv6: bool) -> tuple[str, int]:
    return ("2001:db8::1" if ipv6 else "127.0.0.1", 10911)


def _lines(said: list[bytes], seed: int, settings: StoreSettings) -> list[Line]:
    """The writer's messages are made again from its seed and joined with the answers that it passed on."""
    answers: dict[int, list[list[int]]] = {}
    for raw in said:
        thread, number, results = json.loads(raw)
        assert number == len(answers.setdefault(thread, [])), "an acknowledgement was lost on its way"
        answers[thread] += results
    lines: list[Line] = []
    for thread, results in answers.items():
        messages = islice(mixed.mixed_messages(seed * 100 + thread), len(results))
        for message, (queue_offset, physical_offset, size, stored_ms) in zip(messages, results, strict=True):
            result = PutResult(
                PutStatus.PUT_OK,
                message.topic,
                message.queue_id or 0,
                queue_offset,
                physical_offset,
                size,
                stored_ms,
                b"",
            )
            lines.append(mixed.expected_line(message, result, settings))
    return lines
