"""What the bench says of rounds that differ."""

from __future__ import annotations

import mmap

from flightlog.tools.bench.case import OWN, Outcome, Sample
from flightlog.tools.bench.machine.system_use import FAULTS, SYSTEM, SystemUse, why_rounds_differ
from flightlog.tools.bench.writers import put_case


def sample(drained_s: float, faults: float, device_size: int | None = None) -> Sample:
    return Sample(1_000_000, drained_s, drained_s, device_size=device_size, figures={FAULTS: faults, SYSTEM: 0.25})


def test_page_faults_are_counted() -> None:
    use, pages = SystemUse(), 64
    with mmap.mmap(-1, pages * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(pages):
            memory[page * mmap.PAGESIZE] = 1
    found = use.since(1000)
    assert found[FAULTS] >= pages and found[SYSTEM] >= 0


def test_the_slowest_round_and_the_fastest_are_explained() -> None:
    outcome = Outcome(put_case(OWN), [sample(0.5, 9, 0), sample(1.0, 5515, 223_000_000), sample(0.5, 80, 0)])
    assert why_rounds_differ(outcome) == (
        "rounds differ by 100%; "
        "the slowest: 1.00 µs a message, of it 0.25 CPU of the system, 5,515 page faults, 223 MB to the device; "
        "the fastest: 0.50 µs a message, of it 0.25 CPU of the system, 9 page faults, 0 MB to the device"
    )


def test_rounds_alike_and_writers_that_do_not_tell_need_no_explanation() -> None:
    assert not why_rounds_differ(Outcome(put_case(OWN), [sample(1.0, 1), sample(1.3, 2)]))
    assert not why_rounds_differ(Outcome(put_case(OWN), [Sample(1, 1.0, 1.0), Sample(1, 9.0, 9.0)]))
    assert "to the device" not in why_rounds_differ(Outcome(put_case(OWN), [sample(1.0, 1), sample(2.0, 2)]))
