"""What the device takes for the bytes of sync puts: a store and a raw file, filled in alternating steps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from flightlog.tools.bench.case import OWN, RAW_LOOP, Case, Sample, Work
from flightlog.tools.bench.drive import drive, no_collection
from flightlog.tools.bench.machine.device import Written
from flightlog.tools.bench.messages import make_rows, record_size
from flightlog.tools.bench.writers import begin, first_calls, opened, put_case


def device_case(body_size: int, step_size: int, steps: int) -> Case:
    """Its series has, for each step, bytes that the device took per byte of record: of this store, of the raw file."""
    writers = [put_case(who, sync=True, body_size=body_size) for who in (OWN, RAW_LOOP)]
    record = record_size(body_size)
    calls = max(step_size // record, 1)

    def fill(folder: Path) -> Sample:
        with ExitStack() as open_ones:
            sessions = []
            for case in writers:
                place = Path(open_ones.enter_context(TemporaryDirectory(dir=folder)))
                room = (steps * calls + first_calls(case)) * record
                sessions.append(open_ones.enter_context(opened(place, case, room)))
                begin(sessions[-1], case)
            units = [session.units(make_rows(body_size, calls)) for session in sessions]
            series = []
            for _ in range(steps):
                step = []
                for session, own_units in zip(sessions, units, strict=True):
                    os.sync()
                    written = Written(folder)
                    with no_collection():
                        drive(session.puts(), own_units, calls, rate=None, stamps=False)
                    session.drain()
                    os.sync()
                    step.append((written.since() or 0) / (calls * record))
                series.append(step)
        return Sample(2 * steps * calls, 1.0, 1.0, series=series)

    @contextmanager
    def prepare(case: Case, folder: Path) -> Iterator[Work]:
        yield lambda stamps: fill(folder)

    return Case(OWN, "device", body_size, sync=True, needs_disk=True, has_figures=True, prepare=prepare)
