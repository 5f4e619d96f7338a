"""Which dead letters were redriven: `flightlog/redriven.json`.

    {"redriven": {"%DLQ%billing": {"0": [[81920, 90112], [98304, 98304]]}},
     "underWay": {"topic": "%DLQ%billing", "letters": {"0": ["7F00…"]}, "places": [["orders", 2, 55]]}}

    redriven    topic and queue of dead letters -> pairs of physical offsets: every letter of this queue from the first
                to the second was redriven. No place of the log is ever used twice, so a topic that is deleted and made
                again has no letter in them.
    underWay    the batch that is being put: the message ids of its letters by queue; topic and queue of each copy, and
                the queue offset below which there is none of them

Before a batch is put, what is under way is written. After a crash, its copies are looked for: each names its letter in
the property REDRIVEN_FROM. So what was put counts, and nothing else.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...store.arguments import is_whole
from ...store.disk.config_file import Config, ConfigFile
from ...store.disk.disk import Disk
from ...store.errors import ConfigFileError
from ...store.state.progress import FLIGHTLOG_FOLDER

REDRIVEN_FILE = "redriven.json"

Ranges = list[tuple[int, int]]
"""First and last physical offset of each."""


class UnderWay(NamedTuple):
    """A batch."""

    topic: str
    """Topic of the dead letters."""
    letters: dict[str, int]
    """Message id -> queue id."""
    places: list[tuple[str, int, int]]
    """Topic, queue id, and the next queue offset before the first copy was put there."""


class RedriveNotes(NamedTuple):
    """What the file says."""

    redriven: dict[str, dict[int, Ranges]]
    under_way: UnderWay | None = None


class RedriveFile:
    """The file of redrives of one store. Used by one thread at a time."""

    def __init__(self, disk: Disk, root: Path) -> None:
        self._file = ConfigFile(disk, root / FLIGHTLOG_FOLDER / REDRIVEN_FILE)

    def read(self) -> RedriveNotes:
        """Raises DiskError, and ConfigFileError for a file that cannot be read, nor its `.bak`."""
        document = self._file.read() or {}
        try:
            return _notes_of(document)
        except (AttributeError, LookupError, TypeError, ValueError) as e:
            raise ConfigFileError(self._file.path, f"{type(e).__name__}: {e}", "what flightlog writes there") from e

    def write(self, notes: RedriveNotes) -> None:
        """Durable when it returns. Raises DiskError: then the file says what it said before, or this."""
        document: Config = {"redriven": {t: {str(q): r for q, r in qs.items()} for t, qs in notes.redriven.items()}}
        if notes.under_way is not None:
            topic, letters, places = notes.under_way
            by_queue: dict[str, list[str]] = {}
            for message_id, queue_id in letters.items():
                by_queue.setdefault(str(queue_id), []).append(message_id)
            document["underWay"] = {"topic": topic, "letters": by_queue, "places": places}
        self._file.write(document)


def _notes_of(document: Config) -> RedriveNotes:
    redriven = {
        topic: {
            int(queue): [(_whole(first), _whole(last)) for first, last in ranges] for queue, ranges in queues.items()
        }
        for topic, queues in document.get("redriven", {}).items()
    }
    found: Any = document.get("underWay")
    if found is None:
        return RedriveNotes(redriven)
    letters = {str(id): int(queue) for queue, ids in found["letters"].items() for id in ids}
    places = [(str(topic), _whole(queue), _whole(offset)) for topic, queue, offset in found["places"]]
    return RedriveNotes(redriven, UnderWay(str(found["topic"]), letters, places))


def _whole(number: Any) -> int:
    if not is_whole(number):
        raise ValueError(f"{number!r} is no whole number")
    return int(number)


def is_in(physical_offset: int, ranges: Ranges) -> bool:
    """Whether one of these, which are sorted, has this offset."""
    before = bisect_right(ranges, physical_offset, key=lambda each: each[0])
    return before > 0 and physical_offset <= ranges[before - 1][1]


class LetterQueue:
    """One queue of dead letters as it is now, and which of them were redriven."""

    def __init__(self, physical_offsets: Iterable[int], ranges: Ranges) -> None:
        self._offsets = np.fromiter(physical_offsets, np.int64)
        self.is_done: NDArray[np.bool_] = np.zeros(len(self._offsets), np.bool_)
        for first, last in ranges:
            start, stop = np.searchsorted(self._offsets, first), np.searchsorted(self._offsets, last, "right")
            self.is_done[start:stop] = True

    def ranges(self) -> Ranges:
        """As few as there can be."""
        edges = np.flatnonzero(np.diff(self.is_done, prepend=False, append=False))
        firsts, lasts = self._offsets[edges[::2]], self._offsets[edges[1::2] - 1]
        return [(int(first), int(last)) for first, last in zip(firsts, lasts, strict=True)]
