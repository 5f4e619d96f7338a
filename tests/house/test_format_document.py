"""docs/format.md: its numbers are those of the code, its example is a store as the program in it writes one, and it
names every file that the code knows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flightlog.consume.deduplication import seen_file
from flightlog.consume.group.local_progress import OFFSETS_FILE as LOCAL_OFFSETS_FILE
from flightlog.consume.retry import starts
from flightlog.consume.retry.redrive_notes import REDRIVEN_FILE
from flightlog.engine.backup.store_copy import BACKUP_FILE, INCOMPLETE_FILE
from flightlog.engine.open.boot import KNOWN_NAMES
from flightlog.engine.open.shutdown_state import ABORT_SIZE
from flightlog.engine.open.truncation import CUT_PREFIX
from flightlog.engine.topics.offset_table import OFFSETS_FILE
from flightlog.engine.topics.topics import TOPICS_FILE
from flightlog.index.key import index_file
from flightlog.index.queue.batch_unit import BATCH_UNIT_SIZE
from flightlog.index.queue.queue_extension import DEFAULT_EXTENSION_FILE_SIZE, HEAD
from flightlog.index.queue.queue_table import DEFAULT_BATCH_FILE_ENTRIES
from flightlog.index.queue.queue_unit import HIGHEST_EXTENSION_ADDRESS, UNIT_SIZE
from flightlog.schedule import timer_checkpoint, timer_log, timer_wheel
from flightlog.schedule.delay_offsets import DELAY_OFFSETS_FILE
from flightlog.spark.options.write_options import STAGING_FOLDER
from flightlog.spark.write.writing import LEDGER_FILE
from flightlog.store.format import frame, inner_batch, record
from flightlog.store.format.crc_property import CRC_PROPERTY_SIZE
from flightlog.store.format.host import HOST_V4_SIZE, HOST_V6_SIZE
from flightlog.store.log import atomic_append
from flightlog.store.seal import open_seal, seal
from flightlog.store.settings import DEFAULT_QUEUE_FILE_ENTRIES
from flightlog.store.state import log_start, progress
from flightlog.store.state.auto_topics import AUTO_TOPICS_FILE
from flightlog.store.state.checkpoint import CHECKPOINT
from flightlog.store.state.deleted_topics import DELETED_FILE
from flightlog.store.state.format_version import FORMAT_FILE
from flightlog.store.state.geometry import GEOMETRY_FILE
from flightlog.store.state.rocksdb import FOLDERS

if TYPE_CHECKING:
    from flightlog.tests.conftest import AssertClean

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "format.md").read_text()


def section(title: str) -> str:
    [text] = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", DOCUMENT, re.MULTILINE | re.DOTALL)
    return str(text)


def magic(number: int) -> str:
    return f"`{number & 0xFFFFFFFF:08X}`"


NUMBERS: dict[str, int | str] = {
    "filler in a segment, bytes": record.BLANK_SIZE,
    "record without body, topic and properties: version 1, two IPv4 hosts": record.FIXED_V1_V4_SIZE,
    "host, IPv4": HOST_V4_SIZE,
    "host, IPv6": HOST_V6_SIZE,
    "magic of version 1": magic(frame.MAGIC_V1),
    "magic of version 2": magic(frame.MAGIC_V2),
    "magic of the filler": magic(frame.MAGIC_BLANK),
    "CRC property": CRC_PROPERTY_SIZE,
    "message of an inner batch without body and properties": inner_batch.LEAST_SIZE,
    "messages of an inner batch, at most": inner_batch.MAX_COUNT,
    "queue entry": UNIT_SIZE,
    "entries of a queue file": DEFAULT_QUEUE_FILE_ENTRIES,
    "highest address of an extension unit": HIGHEST_EXTENSION_ADDRESS,
    "extension unit without a bit map": HEAD.size,
    "extension file": DEFAULT_EXTENSION_FILE_SIZE,
    "batch queue entry": BATCH_UNIT_SIZE,
    "entries of a batch queue file": DEFAULT_BATCH_FILE_ENTRIES,
    "index header": index_file.HEADER_SIZE,
    "index slot": index_file.SLOT_SIZE,
    "index entry": index_file.ENTRY_SIZE,
    "slots of an index file": index_file.DEFAULT_INDEX_SLOTS,
    "entries of an index file": index_file.DEFAULT_INDEX_ENTRIES,
    "index file": index_file.IndexGeometry().file_size,
    "checkpoint, bytes used": CHECKPOINT.size,
    "abort, bytes": ABORT_SIZE,
    "timer log unit": timer_log.UNIT_SIZE,
    "timer log blank": timer_log.BLANK.size,
    "timer log file": timer_log.DEFAULT_FILE_SIZE,
    "timer wheel slot": timer_wheel.SLOT_SIZE,
    "timer wheel slots": timer_wheel.SLOT_COUNT,
    "timercheck: RocketMQ's words, bytes": timer_checkpoint.WORDS.size,
    "timercheck: moment": timer_checkpoint.MOMENT.size,
    "timercheck: moments, at most": timer_checkpoint.MAX_MOMENTS,
    "progress words": progress.PAGE.size // 8,
    "progress magic": f"`{progress.MAGIC.to_bytes(8, 'little').decode()}`",
    "log-start": log_start.SIZE,
    "log-start magic": f"`{log_start.MAGIC.decode()}`",
    "seal header": seal.HEADER.size,
    "seal magic": f"`{seal.MAGIC.decode()}`",
    "block of a seal": seal.BLOCK_SIZE,
    "open-seal slot": open_seal.SLOT.size,
    "held, bytes": atomic_append.NOTE_SIZE,
    "starts slot": starts.SLOT_SIZE,
    "header of seen, bytes": len(seen_file.HEADER),
    "record of seen": seen_file.RECORD.size,
}


def test_the_numbers_are_those_of_the_code() -> None:
    rows = [line.strip("| ").split(" | ") for line in section("Sizes and magic numbers").splitlines() if "|" in line]
    known = {name: f"{value:,}" if isinstance(value, int) else value for name, value in NUMBERS.items()}
    assert dict(rows[2:]) == known


def test_the_words_of_the_progress_page_are_told_in_order() -> None:
    words = re.findall(r"^\| (\d+)(?: to \d+)? \| (\d+) \|", section("The folder flightlog"), re.MULTILINE)
    numbers = [int(word) for word, at in words if int(word) * 8 == int(at)]
    assert numbers == [*range(progress.CHECKPOINT + 1), *range(progress.INDEX_FLUSHED, progress.INDEX_COUNT + 1)]


@pytest.mark.parametrize(
    "name",
    [
        *sorted(KNOWN_NAMES - {"lost+found"}),
        *(TOPICS_FILE, OFFSETS_FILE, LOCAL_OFFSETS_FILE, DELAY_OFFSETS_FILE, timer_checkpoint.TIMER_CHECKPOINT_FILE),
        *(f"config/{folder}" for folder in FOLDERS),
        *(progress.PROGRESS_FILE, log_start.LOG_START_FILE, GEOMETRY_FILE, seal.SEALS_FOLDER, open_seal.OPEN_SEAL_FILE),
        *(
            FORMAT_FILE,
            atomic_append.NOTE_FILE,
            CUT_PREFIX,
            DELETED_FILE,
            AUTO_TOPICS_FILE,
            LEDGER_FILE,
            STAGING_FOLDER,
        ),
        *(starts.STARTS_FILE, REDRIVEN_FILE, BACKUP_FILE, INCOMPLETE_FILE, seen_file.FILE, seen_file.NEXT_FILE),
    ],
)
def test_every_file_is_told(name: str) -> None:
    assert re.search(rf"`([\w-]+/)?{re.escape(name)}", DOCUMENT)


def test_the_example_is_what_its_program_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assert_clean: AssertClean
) -> None:
    monkeypatch.chdir(tmp_path)
    text = section("A worked example")
    [program] = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    exec(program, {"__name__": "example"})
    parts = re.findall(r"^### `([^`]+)`[^\n]*\n(.*?)(?=^### |\Z)", text, re.MULTILINE | re.DOTALL)
    assert len(parts) == 6
    for name, table in parts:
        path = tmp_path / "example-store" / name
        content = (next(path.iterdir()) if path.is_dir() else path).read_bytes()
        rows = re.findall(r"^\| (\d+) \| `([0-9a-f ]+)` \|", table, re.MULTILINE)
        shown = bytearray(len(content))
        for at, raw in rows:
            shown[int(at) : int(at) + len(bytes.fromhex(raw))] = bytes.fromhex(raw)
        assert rows and shown == content, name  # what no row shows is zero
    assert_clean(tmp_path / "example-store")
