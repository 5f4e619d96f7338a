"""`read_batch`: the messages that `read` gives, as Arrow columns."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import flightlog
from flightlog import Message, StoredMessage, StoreSettings
from flightlog.engine.columns.schema import COLUMNS
from flightlog.store.errors import (
    CorruptQueueError,
    CorruptRecordError,
    InvalidSettingsError,
    StoreClosedError,
    UsageError,
)

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, ManualClock

SEED = int(os.environ.get("FLIGHTLOG_COLUMNS_SEED", "20260102"))


def expected_row(message: StoredMessage) -> dict[str, Any]:
    """A message as the documentation of the columns says."""
    return {
        "key": message.keys[0].encode() if message.keys else None,
        "value": message.body,
        "topic": message.topic,
        "partition": message.queue_id,
        "offset": message.queue_offset,
        "timestamp": message.store_timestamp_ms,
        "timestampType": 1,
        "tags": message.tags,
        "keys": message.keys,
        "messageId": message.message_id,
        "uniqKey": message.uniq_key,
        "bornTimestamp": message.born_timestamp_ms,
        "bornHost": str(message.born_host),
        "storeHost": str(message.store_host),
        "physicalOffset": message.physical_offset,
        "batchIndex": None,
        "size": message.size,
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "bodyCrc": message.body_crc,
        "reconsumeTimes": message.reconsume_times,
        "preparedOffset": message.prepared_transaction_offset,
        "properties": message.properties,
    }


def rows_of(batch: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = batch.to_pylist()
    for row in found:
        for name in ("timestamp", "bornTimestamp"):
            if row.get(name) is not None:
                row[name] = round(row[name].timestamp() * 1000)
        if "properties" in row:
            row["properties"] = dict(row["properties"])
    return found


def next_of(batch: Any) -> int:
    return int(batch.schema.metadata[b"nextQueueOffset"])


def batches(store: Any, topic: str, queue_id: int, **limits: Any) -> Iterator[Any]:
    offset = None
    while (batch := store.read_batch(topic, queue_id, offset, **limits)).num_rows:
        yield batch
        offset = next_of(batch)


def random_messages(source: random.Random, count: int) -> list[Message]:
    def word(sizes: tuple[int, ...]) -> str:
        return "".join(source.choices("abcdä漢", k=source.choice(sizes)))

    return [
        Message(
            source.choice(["orders", "größe"]),
            source.randbytes(source.choice([0, 1, 100, 4000])),
            tags=word((0, 3)) or None,
            keys=[word((1, 5)) for _ in range(source.choice([0, 1, 3]))],
            properties={word((4,)): word((1, 40)) for _ in range(source.choice([0, 0, 2]))},
            queue_id=source.randrange(3),
            flag=source.randrange(-(1 << 31), 1 << 31),
            uniq_key=word((0, 8)) or None,
            born_timestamp_ms=source.randrange(1 << 41),
            born_host=source.choice([("10.0.0.1", 1), ("2001:db8::1", 65535)]),
            reconsume_times=source.randrange(3),
        )
        for _ in range(count)
    ]


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("limits", [{}, {"max_count": 7}, {"max_size": 6000}, {"max_size": 1}])
def test_batches_hold_what_read_gives(
    tmp_path: Path, clock: ManualClock, assert_clean: AssertClean, limits: dict[str, Any]
) -> None:
    clock.step_ms = 3
    settings = StoreSettings.small(segment_size=64 << 10, queue_file_entries=20, rocketmq_strict=False)
    with flightlog.open(tmp_path / "store", settings, clock=clock) as store:
        for message in random_messages(random.Random(SEED), 240):
            store.put(message)
        with flightlog.open_read_only(tmp_path / "store", settings) as view:
            for queue in (*store.queues(), ("orders", 99), ("none", 0)):
                messages = list(store.read(*queue))
                for opened in (store, view):
                    found = list(batches(opened, *queue, **limits))
                    assert [row for batch in found for row in rows_of(batch)] == [*map(expected_row, messages)]
                    assert all(batch.num_rows <= limits.get("max_count", 1 << 30) for batch in found)
                    sizes = [sum(batch["size"].to_pylist()) for batch in found]
                    assert all(
                        size <= limits.get("max_size", 1 << 30) or batch.num_rows == 1
                        for size, batch in zip(sizes, found, strict=True)
                    )
                    for batch in found:
                        batch.validate(full=True)
    assert_clean(tmp_path / "store")


GOLDEN = ("rollover", "v2-v6", "lmq", "minoffset", "delay-tx", "abort-crcflip", "cqext")


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_stores(golden: Callable[[str], Path], name: str) -> None:
    with flightlog.open_read_only(golden(name) / "store") as view:
        for queue in view.queues():
            messages = list(view.read(*queue, on_corrupt="skip"))
            found = [row for batch in batches(view, *queue, on_corrupt="skip") for row in rows_of(batch)]
            assert found == [*map(expected_row, messages)]


@pytest.fixture
def numbered_store(tmp_path: Path, clock: ManualClock) -> Path:
    with flightlog.open(tmp_path / "store", StoreSettings.small(queue_file_entries=10), clock=clock) as store:
        store.put_many([Message("t", f"body-{i}".encode(), tags="x") for i in range(40)])
    return tmp_path / "store"


def test_columns_are_chosen_in_any_case_and_order(numbered_store: Path) -> None:
    with flightlog.open_read_only(numbered_store) as view:
        batch = view.read_batch("t", columns=["VALUE", "offset", "Tags"], max_count=2, queue_offset=38)
        assert batch.schema.names == ["value", "offset", "tags"]
        assert batch.to_pylist() == [{"value": f"body-{i}".encode(), "offset": i, "tags": "x"} for i in (38, 39)]
        assert view.read_batch("t", columns=[]).num_columns == 0
        assert view.read_batch("t").schema.names == [column.name for column in COLUMNS]
        assert next_of(batch) == 40
        for at in (40, 41, 1 << 62):
            assert view.read_batch("t", 0, at).num_rows == 0
            assert next_of(view.read_batch("t", 0, at)) == at
        assert next_of(view.read_batch("t", 0, 3, max_count=4)) == 7
        assert view.read_batch("t", 0, 0, columns=["offset"])["offset"][0].as_py() == 0
        with pytest.raises(InvalidSettingsError, match="no such column"):
            view.read_batch("t", columns=["body"])
        wrongs: list[dict[str, Any]] = [
            {"max_count": 0},
            {"max_size": 0},
            {"max_size": (1 << 30) + 1},
            {"max_count": 1 << 31},
        ]
        for wrong in wrongs:
            with pytest.raises(UsageError, match="from 1 to"):
                view.read_batch("t", **wrong)
    with pytest.raises(StoreClosedError):
        view.read_batch("t")


def test_a_batch_outlives_its_store(numbered_store: Path, clock: ManualClock) -> None:
    store = flightlog.open(numbered_store, clock=clock)
    batch = store.read_batch("t")
    before = batch.to_pylist()
    store.close()
    (numbered_store / "commitlog" / f"{0:020d}").write_bytes(bytes(1 << 20))
    assert batch.to_pylist() == before and len(before) == 40


@pytest.mark.usefixtures("kernel")
def test_damage_ends_a_batch_or_is_skipped(numbered_store: Path) -> None:
    with flightlog.open_read_only(numbered_store) as view:
        places = [message.physical_offset for message in view.read("t")]
    with open(numbered_store / "commitlog" / f"{0:020d}", "r+b") as log:
        for i in (12, 13):
            log.seek(places[i] + 90)
            log.write(b"?")
    with open(numbered_store / "consumequeue" / "t" / "0" / f"{0:020d}", "r+b") as queue:
        queue.seek(3 * 20)
        queue.write(places[4].to_bytes(8, "big"))  # another message's record
    with flightlog.open_read_only(numbered_store) as view:
        assert view.read_batch("t", columns=["offset"])["offset"].to_pylist() == [0, 1, 2]
        assert next_of(view.read_batch("t")) == 3
        with pytest.raises(CorruptQueueError):
            view.read_batch("t", 0, 3)
        assert view.read_batch("t", 0, 4, columns=["offset"])["offset"].to_pylist() == [*range(4, 12)]
        with pytest.raises(CorruptRecordError):
            view.read_batch("t", 0, 12)
        found = view.read_batch("t", columns=["offset"], on_corrupt="skip")["offset"].to_pylist()
        assert found == [message.queue_offset for message in view.read("t", on_corrupt="skip")]
        assert found == [i for i in range(40) if i not in (3, 12, 13)]
        assert view.corrupt_skipped == 6


def test_a_missing_queue_file(numbered_store: Path) -> None:
    with flightlog.open_read_only(numbered_store) as view:
        (numbered_store / "consumequeue" / "t" / "0" / f"{200:020d}").unlink()
        assert view.read_batch("t", columns=["offset"]).num_rows == 10
        assert next_of(view.read_batch("t")) == 10
        with pytest.raises(CorruptQueueError, match="no queue file"):
            view.read_batch("t", 0, 10)
        found = view.read_batch("t", columns=["offset"], on_corrupt="skip")["offset"].to_pylist()
        assert found == [*range(10), *range(20, 40)]


def test_without_pyarrow_the_error_names_the_extra(numbered_store: Path) -> None:
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import flightlog\n"
        f"with flightlog.open_read_only({str(numbered_store)!r}) as view:\n"
        "    try: view.read_batch('t')\n"
        "    except flightlog.FlightlogError as e: print(type(e).__name__, e)\n"
    )
    finished = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout.startswith("MissingExtraError read_batch needs the extra 'arrow'"), finished.stdout


def test_the_batch_is_one_of_arrow(numbered_store: Path) -> None:
    with flightlog.open_read_only(numbered_store) as view:
        assert isinstance(view.read_batch("t"), pa.RecordBatch)
