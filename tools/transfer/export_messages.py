"""Write the messages of a store to a file, in the order of the log; an interrupted export continues.

While it is written the file is `OUT.part`, beside `OUT.part.json`: what is exported, and up to where both are durable.
A call that finds them cuts the file there, and continues behind its last message. A Parquet file cannot be continued:
its row groups are files of their own, `OUT.part.0`, `OUT.part.1`, until all are there.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol

from ...engine.read.selection import Selection
from ...engine.read_only import ReadOnlyStore
from ...store.disk.config_file import ConfigFile
from ...store.disk.disk import RealDisk
from ...store.errors import InvalidArgumentError, TopicNotFoundError, UsageError
from ...store.queue_offsets import QueueKey
from ...store.stored_message import StoredMessage
from ..records.fields import BodyForm
from ..records.parquet import ParquetFile, join_parquet
from ..records.text_forms import CsvRows, Form, JsonLines

PART_SUFFIX: Final = ".part"
NOTE_SUFFIX: Final = ".json"
PIECE_MESSAGES: Final = 20_000
PIECE_SIZE: Final = 64 << 20
"""Bytes of bodies. After so many messages or bytes an interrupted export can continue."""
Place = tuple[int, str, int, int]
"""Physical offset, topic, queue id, queue offset: names a message, also in an inner batch or a light queue."""


class FileForm(StrEnum):
    """What a file of messages can be."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What an export did."""

    messages: int
    """Written by this call."""
    skipped: int
    """Damaged messages that were passed over."""
    is_continued: bool
    """Whether an interrupted export was continued."""


def export_messages(
    view: ReadOnlyStore, out: Path, selection: Selection | None = None, form: FileForm = FileForm.JSON
) -> ExportResult:
    """Write the messages of a selection to the new file `out`, with their bodies decompressed.

    What the view shows when it begins is written; `out` is there when all is durable. After an error or a kill the same
    call continues.

    Raises InvalidArgumentError if `out` is there; TopicNotFoundError; MissingExtraError; UsageError for another
    export's .part; OSError.
    """
    selection = selection or Selection()
    if out.exists():
        raise InvalidArgumentError("out", str(out), "a file that is not there: nothing is written over")
    for topic in selection.topics:
        if view.topic(topic) is None and not any(name == topic for name, _ in view.queues()):
            raise TopicNotFoundError(view.path, topic, "it cannot be exported")
    skipped = view.corrupt_skipped
    about = {"source": str(view.path.resolve()), "selection": repr(selection), "form": form.value}
    note = _Note(out, about)
    note.begin()
    pieces: _Pieces = _ParquetPieces(note.part) if form is FileForm.PARQUET else _TextPieces(note.part, form)
    pieces.begin(note.end)
    is_continued = note.is_found
    count = written = size = 0
    last: StoredMessage | None = None
    try:
        for message in messages_left(view, selection, note.after):
            pieces.write(message)
            last, count, written, size = message, count + 1, written + 1, size + len(message.body)
            if written >= PIECE_MESSAGES or size >= PIECE_SIZE:
                note.write(pieces.end_piece(), _place(message))
                written = size = 0
        if written and last is not None:
            note.write(pieces.end_piece(), _place(last))
        pieces.finish(out)
    finally:
        pieces.close()
    note.remove()
    return ExportResult(count, view.corrupt_skipped - skipped, is_continued)


def _place(message: StoredMessage) -> Place:
    return message.physical_offset, message.topic, message.queue_id, message.queue_offset


def messages_left(view: ReadOnlyStore, selection: Selection, after: Place | None) -> Iterator[StoredMessage]:
    """Those that are not written yet."""
    if after is None:
        yield from selection.messages(view, on_corrupt="skip")
        return
    if selection.key is not None:
        found = selection.messages(view, on_corrupt="skip")
    else:
        bounds = selection.bounds(view)
        left = {key: (_first_at(view, key, *bounds[key], after[0]), bounds[key][1]) for key in bounds}
        found = selection.within(view, left, on_corrupt="skip")
    is_behind = False
    for message in found:
        if message.physical_offset > after[0] or is_behind:
            yield message
        elif _place(message) == after:
            is_behind = True


def _first_at(view: ReadOnlyStore, key: QueueKey, first: int, end: int, physical_offset: int) -> int:
    """The first queue offset of a message that lies at this physical offset or behind it."""

    def place(queue_offset: int) -> int:
        message = next(view.read(*key, queue_offset, on_corrupt="skip"), None)
        return physical_offset if message is None else message.physical_offset

    return bisect.bisect_left(range(end), physical_offset, first, end, key=place)


class _Note:
    """What is exported, and how far it is durable."""

    def __init__(self, out: Path, about: dict[str, Any]) -> None:
        """Raises UsageError if another export into this file was interrupted, or its .part is no export's."""
        self.part = out.with_name(out.name + PART_SUFFIX)
        self._file = ConfigFile(RealDisk(), self.part.with_name(self.part.name + NOTE_SUFFIX))
        self._about = about
        found = self._file.read()
        if found is not None and {name: found.get(name) for name in about} != about:
            raise UsageError(
                f"{self._file.path}: found an interrupted export of something else; remove {self.part}*, or name "
                "another file"
            )
        if found is None and self.part.exists():
            raise UsageError(f"{self.part}: found a file without the note of an interrupted export; remove it")
        self.is_found = found is not None
        self.end: int = 0 if found is None else found["end"]
        self.after: Place | None = None if found is None or found["after"] is None else tuple(found["after"])

    def begin(self) -> None:
        if not self.is_found:
            self.write(0, None)

    def write(self, end: int, after: Place | None) -> None:
        self._file.write({**self._about, "end": end, "after": after})

    def remove(self) -> None:
        for path in (self._file.path, self._file.path.with_name(self._file.path.name + ".bak")):
            path.unlink(missing_ok=True)


class _Pieces(Protocol):
    def begin(self, end: int) -> None:
        """Continue behind the pieces that end there; what else there is goes."""

    def write(self, message: StoredMessage) -> None: ...

    def end_piece(self) -> int:
        """Returns where the pieces end, which are durable then."""

    def finish(self, out: Path) -> None:
        """All pieces are the file `out`, durable."""

    def close(self) -> None: ...


class _TextPieces:
    """One file, which grows. Its end is a position."""

    def __init__(self, part: Path, form: FileForm) -> None:
        self._part, self._form = part, form
        self._file = open(part, "r+b" if part.exists() else "x+b")  # noqa: SIM115
        self._writer: Form

    def begin(self, end: int) -> None:
        self._file.truncate(end)
        self._file.seek(end)
        if self._form is FileForm.CSV:
            self._writer = CsvRows(self._file, BodyForm.AUTO, has_header=end > 0)
        else:
            self._writer = JsonLines(self._file, BodyForm.AUTO)

    def write(self, message: StoredMessage) -> None:
        self._writer.write(message)

    def end_piece(self) -> int:
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def finish(self, out: Path) -> None:
        self._writer.end()
        self.end_piece()
        _rename(self._part, out)

    def close(self) -> None:
        self._file.close()


class _ParquetPieces:
    """A file for each row group. Its end is their number."""

    def __init__(self, part: Path) -> None:
        self._part = part
        self._count = 0
        self._file: ParquetFile | None = None

    def begin(self, end: int) -> None:
        self._count = end

    def write(self, message: StoredMessage) -> None:
        if self._file is None:
            self._output = open(self._piece(self._count), "wb")  # noqa: SIM115
            self._file = ParquetFile(self._output)
        self._file.write(message)

    def end_piece(self) -> int:
        assert self._file is not None
        self._file.end()
        self._output.flush()
        os.fsync(self._output.fileno())
        self.close()
        self._count += 1
        return self._count

    def finish(self, out: Path) -> None:
        pieces = [self._piece(number) for number in range(self._count)]
        with open(self._part, "wb") as file:
            join_parquet(pieces, file)
            file.flush()
            os.fsync(file.fileno())
        _rename(self._part, out)
        for piece in pieces:
            piece.unlink()

    def close(self) -> None:
        if self._file is not None:
            self._output.close()
            self._file = None

    def _piece(self, number: int) -> Path:
        return self._part.with_name(f"{self._part.name}.{number}")


def _rename(part: Path, out: Path) -> None:
    disk = RealDisk()
    disk.rename(part, out)
    disk.sync_folder(out.parent)
