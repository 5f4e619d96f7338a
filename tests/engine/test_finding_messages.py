"""One message by where it lies: at every byte of a log, and by its offset message id."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import flightlog
from flightlog import FlushMode, Message, ReadOnlyStore, Store, StoredMessage, StoreSettings
from flightlog.store.errors import CorruptRecordError, UsageError
from flightlog.store.format.record import encode_blank, prepare
from flightlog.store.seal.seal import seal_path
from flightlog.tests.support import inside

if TYPE_CHECKING:
    from flightlog.tests.engine.conftest import AssertClean, GoldenSet

    Open = Callable[[Path], Store | ReadOnlyStore]

SEGMENT_SIZE = 4096
SETTINGS = StoreSettings(segment_size=SEGMENT_SIZE, queue_file_entries=10)


@pytest.fixture(params=["writer", "view"])
def opened(request: pytest.FixtureRequest) -> Open:
    """What is asked: the store that is open for writing, or a read-only view. Both answer alike."""
    return flightlog.open if request.param == "writer" else flightlog.open_read_only


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Messages of many kinds over three segments; nobody changes them."""
    root = tmp_path_factory.mktemp("messages") / "store"
    with flightlog.open(root, SETTINGS) as store:
        for i in range(40):
            born_host = ("2001:db8::1", 5) if i % 3 else None
            store.put(Message(f"t{i % 3}", body(i), tags="A", sys_flag=(0, 4, 8, 12)[i % 4], born_host=born_host))
    return root


def body(i: int) -> bytes:
    return b"%d" % i * (i + 60)


def everything(root: Path) -> dict[int, int]:
    """Physical offset -> size of every record, by a walk over the log."""
    with flightlog.open_read_only(root) as view:
        return {
            row["physical_offset"].item(): row["size"].item()
            for segment, first, stop in view.log_reader.segments_between(0, view.end_physical_offset)
            for _, rows in view.log_reader.scan(segment, first, stop, check_crc=True)
            for row in rows
        }


def test_every_byte_of_a_log(opened: Open, stored: Path) -> None:
    """A record starts at 40 of them: prepared and rollback ones among them, which no queue lists."""
    records = everything(stored)
    assert len(records) == 40
    with opened(stored) as store:
        for physical_offset in (-(1 << 62), -1, *range(3 * SEGMENT_SIZE + 10), 1 << 62):
            message = store.message_at(physical_offset)
            if physical_offset not in records:
                assert message is None, physical_offset
            else:
                assert message is not None
                assert (message.physical_offset, message.size) == (physical_offset, records[physical_offset])
        bodies = [message.body for message in map(store.message_at, records) if message]
        assert bodies == list(map(body, range(40)))


def test_every_byte_without_queues_and_without_seals(stored: Path, tmp_path: Path) -> None:
    """Then the chain of records alone says where one starts."""
    root = shutil.copytree(stored, tmp_path / "store")
    shutil.rmtree(root / "flightlog" / "seals")
    records = everything(root)
    with flightlog.open_read_only(root) as view:
        shutil.rmtree(root / "consumequeue")
        found = [at for at in range(3 * SEGMENT_SIZE) if view.message_at(at) is not None]
        assert found == list(records)


def test_a_body_that_holds_a_record_of_its_own_place(opened: Open, tmp_path: Path, assert_clean: AssertClean) -> None:
    """Whoever can guess where his message will lie can put a record into its body that says it lies there."""
    other = tmp_path / "other"
    with flightlog.open(other, SETTINGS) as store:
        store.put(Message("t", bytes(209)))  # so that the next record lies at 301
        forged_at = store.put(Message("forged", b"never put", keys="k")).physical_offset
    with flightlog.open_read_only(other) as view:
        forged = view.message_at(forged_at)
        assert forged is not None
    raw = (other / "commitlog" / f"{0:020d}").read_bytes()[forged_at : forged_at + forged.size]
    root = tmp_path / "store"
    with flightlog.open(root, SETTINGS) as store:
        body_at = forged_at - 88  # a body's place in its record
        first = store.put(Message("t", bytes(body_at - 92)))
        assert first.size == body_at
        store.put(Message("t", raw))
        store.put(Message("t", b"behind"))
    with opened(root) as store:
        assert store.message_at(forged_at) is None
        assert store.message_by_id(forged.message_id) is None
        # It is no message though its bytes are those of one.
        assert isinstance(inside.log_reader(store).message_at(forged_at), StoredMessage)
        real = store.message_at(body_at)
        assert real is not None and real.body == raw
    assert_clean(root)


def overwrite(root: Path, physical_offset: int, raw: bytes) -> None:
    path = root / "commitlog" / f"{physical_offset // SEGMENT_SIZE * SEGMENT_SIZE:020d}"
    with open(path, "r+b") as file:
        file.seek(physical_offset % SEGMENT_SIZE)
        file.write(raw)


@pytest.mark.parametrize("has_seals", [True, False])
@pytest.mark.parametrize(
    ("position", "raw", "words"),
    [
        *((88, b"\xff", "a body that differs from its CRC"), (0, b"\x7f", "no segment that holds it whole")),
        *((0, bytes(8), "never written"), (3, b"\0", "reaches past the end|lengths"), (0, b"\xff", "lengths")),
        *((4, b"\0", "bytes that are no record"), (35, b"\xff", "belongs elsewhere"), (87, b"\x01", "lengths")),
    ],
)
def test_a_damaged_record(position: int, raw: bytes, words: str, has_seals: bool, stored: Path, tmp_path: Path) -> None:
    """It raises where it starts, and inside if nobody can say any more that it is one. Before it and behind it the
    answers are what they were."""
    root = shutil.copytree(stored, tmp_path / "store")
    if not has_seals:
        shutil.rmtree(root / "flightlog" / "seals")
    records = everything(root)
    damaged = list(records)[21]
    with flightlog.open_read_only(root) as view:
        overwrite(root, damaged + position, raw)
        with pytest.raises(CorruptRecordError, match=words) as raised:
            view.message_at(damaged)
        assert raised.value.physical_offset == damaged
        start = damaged // SEGMENT_SIZE * SEGMENT_SIZE
        hidden = range(damaged, damaged + 1 if "CRC" in words else list(records)[22])
        for physical_offset in sorted({*range(start, start + SEGMENT_SIZE, 5), *records}):
            if physical_offset in hidden:
                with pytest.raises(CorruptRecordError):
                    view.message_at(physical_offset)
            else:
                assert (view.message_at(physical_offset) is not None) == (physical_offset in records), physical_offset


def test_more_damaged_records_and_what_lies_between(stored: Path, tmp_path: Path) -> None:
    root = shutil.copytree(stored, tmp_path / "store")
    shutil.rmtree(root / "flightlog" / "seals")
    offsets = list(everything(root))
    in_one = [at for at in offsets if at // SEGMENT_SIZE == 1]
    damaged = (in_one[3], in_one[6], in_one[8], in_one[9], in_one[-1])
    with flightlog.open_read_only(root) as view:
        shutil.rmtree(root / "consumequeue")
        overwrite(root, damaged[0], bytes(8))
        for at in damaged[1:]:
            overwrite(root, at + 4, bytes(4))
        for at in offsets:
            if at in damaged:
                with pytest.raises(CorruptRecordError):
                    view.message_at(at)
            else:
                message = view.message_at(at)
                assert message is not None and message.physical_offset == at
        # Behind the last one nothing tells where the filler begins.
        with pytest.raises(CorruptRecordError):
            view.message_at(2 * SEGMENT_SIZE - 1)
        assert view.message_at(SEGMENT_SIZE - 1) is None


def test_only_what_is_visible(tmp_path: Path, assert_clean: AssertClean) -> None:
    """Under sync flush nothing but what is durable; in a view nothing behind its last refresh."""
    settings = StoreSettings(segment_size=SEGMENT_SIZE, flush_mode=FlushMode.SYNC, flush_interval_ms=3_600_000)
    with flightlog.open(tmp_path, settings) as store:
        first = store.put(Message("t", b"1"))
        with flightlog.open_read_only(tmp_path) as view:
            second = store.put(Message("t", b"2"))
            assert view.message_at(first.physical_offset) is not None
            assert view.message_at(second.physical_offset) is None and store.message_at(second.physical_offset)
            assert view.message_by_id(second.message_id) is None and store.message_by_id(second.message_id)
            view.refresh()
            found = view.message_at(second.physical_offset)
            assert found is not None and found.body == b"2"
            assert view.message_at(second.physical_offset + second.size) is None
        # Appended and not yet synced, as a put is that another thread is about to sync.
        inside.log(store).append([prepare(Message("t", b"3"), settings, SEGMENT_SIZE)], [])
        third = second.physical_offset + second.size
        assert store.message_at(third) is None
        store.flush()
        assert store.message_at(third) is not None
    assert_clean(tmp_path)


def test_a_put_is_found_at_once(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        for i in range(60):
            result = store.put(Message("t", b"%d" % i + bytes(100)))
            by_offset, by_id = store.message_at(result.physical_offset), store.message_by_id(result.message_id)
            assert by_offset is not None and by_id is not None
            assert by_offset.body == by_id.body == b"%d" % i + bytes(100)
    assert_clean(tmp_path)


def test_after_segments_expired(tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        results = store.put_many([Message("t", bytes(290))] * 40)
    (tmp_path / "flightlog" / "log-start").unlink()  # expired by a program that keeps no note of it
    with flightlog.open_read_only(tmp_path) as view:
        for base in (0, SEGMENT_SIZE):
            (tmp_path / "commitlog" / f"{base:020d}").unlink()
        assert [view.message_at(r.physical_offset) is not None for r in results] == [i >= 20 for i in range(40)]
    with flightlog.open_read_only(tmp_path) as view:
        assert [view.message_by_id(r.message_id) is not None for r in results] == [i >= 20 for i in range(40)]
        assert [at for at in range(2 * SEGMENT_SIZE + 1) if view.message_at(at)] == [2 * SEGMENT_SIZE]
    assert_clean(tmp_path)


def test_filler_is_no_message(tmp_path: Path) -> None:
    with flightlog.open(tmp_path, SETTINGS) as store:
        results = store.put_many([Message("t", bytes(290))] * 12)
        filler_at = results[9].physical_offset + results[9].size
        path = tmp_path / "commitlog" / f"{0:020d}"
        assert path.read_bytes()[filler_at : filler_at + 8] == encode_blank(SEGMENT_SIZE - filler_at)
        assert [store.message_at(at) for at in range(filler_at, SEGMENT_SIZE)] == [None] * (SEGMENT_SIZE - filler_at)
        assert store.message_at(SEGMENT_SIZE) is not None


def test_a_stale_seal_misleads_nobody(tmp_path: Path) -> None:
    """RocketMQ may have cut a segment and filled it anew; its seal is only believed if it ends as that says."""
    mib = 1 << 20
    roots = tmp_path / "small", tmp_path / "large"
    for root, size in zip(roots, (2000, 3000), strict=True):
        with flightlog.open(root, StoreSettings(segment_size=2 * mib)) as store:
            store.put_many([Message("t", bytes(size))] * (2 * mib // size + 10))
    seals = [seal_path(root, 0) for root in roots]
    places = [[at for at in everything(root) if at < 2 * mib] for root in roots]
    first_behind = [next(at for at in found if at >= mib) for found in places]
    assert first_behind[0] not in places[1] and first_behind[1] not in places[0]
    fitting = seals[1].read_bytes()
    with flightlog.open_read_only(roots[1]) as view:
        shutil.rmtree(roots[1] / "consumequeue")
        for raw in (fitting, seals[0].read_bytes(), b"", fitting[:-1]):
            seals[1].write_bytes(raw)
            for at in places[1][::50]:
                message = view.message_at(at)
                assert message is not None and message.physical_offset == at
                assert view.message_at(at + 1) is None
            assert view.message_at(first_behind[0]) is None and view.message_at(first_behind[0] + 1) is None
            assert view.message_at(2 * mib - 1) is None


@pytest.mark.parametrize("host", ["127.0.0.1", "2001:db8::7"])
def test_by_id(host: str, opened: Open, tmp_path: Path, assert_clean: AssertClean) -> None:
    with flightlog.open(tmp_path, StoreSettings(segment_size=SEGMENT_SIZE, store_host=(host, 10911))) as store:
        results = store.put_many([Message("t", b"%d" % i) for i in range(50)])
    with opened(tmp_path) as store:
        for i, result in enumerate(results):
            for text in (result.message_id, result.message_id.lower(), result.message_id.title()):
                message = store.message_by_id(text)
                assert message is not None and message.body == b"%d" % i and message.message_id == result.message_id
        known = results[7].message_id
        others = (
            *(("0A" + known[2:]), known[:8] + "00000001" + known[16:]),  # another host or port
            *(known[:-16] + "F" * 16, known[:-16] + "7" + "F" * 15, known[:-2] + "01"),
        )
        for text in others:
            assert len(text) == len(known) and store.message_by_id(text) is None
    assert_clean(tmp_path)


@pytest.mark.parametrize("text", ["", "7F0000010000", "7F" * 15, "7F" * 17, "7F" * 32, "G" * 32, " " * 32, "7F " * 16])
def test_what_is_no_id(text: str, stored: Path) -> None:
    with flightlog.open_read_only(stored) as view, pytest.raises(UsageError, match="message.id"):
        view.message_by_id(text)


@pytest.mark.parametrize("name", ["v2-v6", "delay-tx", "abort-crcflip", "propcrc"])
def test_what_rocketmq_wrote(name: str, golden_set: Callable[[str], GoldenSet]) -> None:
    golden = golden_set(name)
    with flightlog.open_read_only(golden.store) as view:
        flipped = golden.note("crcflip.json")["flippedMessageOffset"] if name == "abort-crcflip" else None
        for line in golden.put:
            if line["commitLogOffset"] == flipped:
                with pytest.raises(CorruptRecordError):
                    view.message_by_id(line["msgId"])
                continue
            message = view.message_by_id(line["msgId"])
            assert message is not None and message == view.message_at(line["commitLogOffset"])
            assert (message.topic, message.queue_id, message.message_id) == (
                *(line["topic"], line["queueId"]),
                line["msgId"],
            )
