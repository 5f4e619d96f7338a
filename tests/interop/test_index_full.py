"""Index files of RocketMQ's default size, filled to the last entry: 19,999,999 keys, 420,000,040 bytes.

Either side fills one and begins a second; the other one finds the oldest and the newest key of both.
"""

from __future__ import annotations

import shutil
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import flightlog
from flightlog import Message
from flightlog.tests.interop.harness import RocketMq

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]

FILE_SIZE = 420_000_040
FULL = 19_999_999  # entry 0 is never used
TOPIC = "keys"
JAVA_LIMIT_S = 1800.0


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "store"
    shutil.rmtree(tmp_path / "store", ignore_errors=True)  # gigabytes


def check_files(path: Path, keys: int) -> None:
    first, second = sorted((path / "index").iterdir())
    assert first.stat().st_size == second.stat().st_size == FILE_SIZE
    with first.open("rb") as one, second.open("rb") as other:
        assert struct.unpack_from(">i", one.read(40), 36) == (FULL + 1,)
        assert struct.unpack_from(">i", other.read(40), 36) == (keys - FULL + 1,)


def told(what: str, began: float) -> float:
    now = time.perf_counter()
    print(f"{what}: {now - began:.1f} s")
    return now


def check_ours(path: Path, wanted: dict[str, int]) -> None:
    """flightlog finds each key in its message, the one with this queue offset, and nowhere else."""
    began = time.perf_counter()
    for store in (flightlog.open_read_only(path), flightlog.open(path)):
        with store:
            began = told(f"\nflightlog opened it ({type(store).__name__})", began)
            for key, queue_offset in wanted.items():
                assert [m.queue_offset for m in store.query(TOPIC, key).messages] == [queue_offset], key
            began = told(f"{len(wanted)} keys", began)
        began = told("closed", began)
    with flightlog.open_read_only(path) as view:
        report = view.verify()
    told(f"verified {report.index_entries} keys", began)
    assert report.is_clean, "\n".join(map(str, report.findings))


def test_rocketmq_finds_the_keys_of_two_files_of_ours(rocketmq: RocketMq, path: Path) -> None:
    keys_each, messages = 4000, 5002
    keys = keys_each * messages
    began = time.perf_counter()
    with flightlog.open(path) as store:
        for start in range(0, messages, 50):
            store.put_many(
                [
                    Message(TOPIC, b"x", keys=[f"{key:07x}" for key in range(n * keys_each, (n + 1) * keys_each)])
                    for n in range(start, min(start + 50, messages))
                ]
            )
        began = told(f"\nput {keys} keys in {messages} messages", began)
    began = told("closed", began)
    check_files(path, keys)
    wanted = {f"{key:07x}": key // keys_each for key in (0, 1, FULL // 2, FULL - 1, FULL, FULL + 1, keys - 1)}
    check_ours(path, wanted)

    began = time.perf_counter()
    opened = rocketmq.open_store(
        path, queries=[(TOPIC, key) for key in wanted], digest=True, append=10, topics=(TOPIC,), timeout_s=JAVA_LIMIT_S
    )
    told("RocketMQ opened it, read all of it, found the keys and closed it", began)
    with flightlog.open_read_only(path) as view:
        for key, queue_offset in wanted.items():
            message = view.get(TOPIC, 0, queue_offset, 1).messages[0]
            assert message.physical_offset in opened.queries[TOPIC, key] and key in message.keys
    check_ours(path, wanted)


def test_flightlog_finds_the_keys_of_two_files_of_rocketmq(rocketmq: RocketMq, path: Path) -> None:
    keys_each, messages = 2900, 6900
    keys = keys_each * messages
    began = time.perf_counter()
    rocketmq.write_digests(
        path, seed=1, count=messages, keys_each=keys_each, topics=(TOPIC,), queues=1, timeout_s=JAVA_LIMIT_S,
        stall_limit_ms=600_000,
    )  # fmt: skip
    told(f"\nRocketMQ put {keys} keys in {messages} messages and closed the store", began)
    check_files(path, keys)
    numbers = (0, 1, FULL // 2, FULL - 1, FULL, FULL + 1, keys - 1)
    wanted = {f"k{number // keys_each}-{number % keys_each}": number // keys_each for number in numbers}
    check_ours(path, wanted)
