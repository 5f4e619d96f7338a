"""A store of many GiB: `verify` beside a plain read of its log, cold and warm; a backup of one more segment."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import flightlog
from flightlog import StoreSettings
from flightlog.benches.loads import load
from flightlog.tools.bench.case import Case, Sample
from flightlog.tools.bench.machine.page_cache import forget
from flightlog.tools.bench.messages import BATCH, make_rows
from flightlog.tools.bench.reads.files import pieces_of, read_plainly

TASK = "A large store: MiB/s of its log"
MIB = 1 << 20
ROOM = 3
"""Free space needed, as a multiple of the log: the store, its backup, and one more segment of both."""


def large_case(size: int, body_size: int, settings: StoreSettings | None = None) -> Case:
    """The log has `size` bytes, and at the end one more segment."""
    return load("verify and backup", TASK, partial(measure, size, body_size, settings))


def measure(size: int, body_size: int, settings: StoreSettings | None, folder: Path) -> Sample:
    """Raises RuntimeError if the store is damaged, or a backup copied more than it had to."""
    store, copy = folder / "store", folder / "backup"
    filling_s = _seconds(lambda: _fill(store, size, body_size, settings))
    with flightlog.open_read_only(store) as view:
        pieces, segment = pieces_of(view), view.segments[0].size
    log_mib = sum(count for _, count in pieces) / MIB
    figures = {"put": log_mib / filling_s}
    for heat in ("cold", "warm"):
        for name, step in (("read", partial(read_plainly, pieces)), ("verify", partial(_verify, store))):
            if heat == "cold":
                forget(store)
            figures[f"{name}, {heat}"] = log_mib / _seconds(step)
    figures["backup"] = log_mib / _seconds(lambda: flightlog.backup(store, copy))
    _fill(store, segment, body_size, settings)
    began_s = time.perf_counter()
    again = flightlog.backup(store, copy)
    figures["backup again, s"] = time.perf_counter() - began_s
    figures["copied again, MiB"] = again.copied_size / MIB
    if again.segment_count > 2:  # the one that was filled, and the one that was begun
        raise RuntimeError(f"the second backup copied {again.segment_count} segments, expected at most 2")
    return Sample(round(log_mib), filling_s, filling_s, figures=figures)


def _fill(store: Path, size: int, body_size: int, settings: StoreSettings | None) -> None:
    """Put messages until the log is `size` bytes longer."""
    messages = [row.message() for row in make_rows(body_size, BATCH)]
    with flightlog.open(store, settings) as opened:
        first = opened.put_many(messages)[0].physical_offset
        while opened.put_many(messages)[-1].physical_offset < first + size:
            pass


def _verify(store: Path) -> None:
    with flightlog.open_read_only(store) as view:
        report = view.verify()
    if not report.is_clean:
        raise RuntimeError(f"{store}: {report}")


def _seconds(step: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    step()
    return time.perf_counter() - began_s
