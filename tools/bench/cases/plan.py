"""Which cases a run consists of."""

from __future__ import annotations

from collections.abc import Iterable

from ....store import native
from . import column_workloads, file_workloads, killed, references, workloads
from .case import Case, Prepare
from .file_workloads import PLAIN, PLAIN_COLD, READ_COLD, SEALS, VERIFY
from .references import FALLOCATED, MEMCPY, ZEROED
from .workloads import record_size

BODY_SIZES = (100, 1024)
COUNTS = {100: 40_000, 1024: 20_000}
SYNC_COUNT = 400
QUICK_PART = 20

MEMORY_CASES: dict[str, tuple[Prepare, bool]] = {
    "put": (workloads.put, True),
    f"put_many({workloads.BATCH})": (workloads.put_many, True),
    "append_columns": (column_workloads.append_columns, True),
    "dispatch": (workloads.dispatch, True),
    "read": (workloads.read, False),
    **({"read_batch": (column_workloads.read_batch, False)} if column_workloads.can_read_batches() else {}),
    "read, all fields": (workloads.read_fields, False),
    "query": (workloads.query, False),
    "recover": (killed.recover, True),
}
FILE_CASES: dict[str, tuple[Prepare, str]] = {
    READ_COLD: (file_workloads.read_cold, PLAIN_COLD),
    SEALS: (file_workloads.seals, PLAIN),
    VERIFY: (file_workloads.verify, PLAIN),
}
"""Name -> what does it, and the plain reading that it is measured against."""
FILE_REFERENCES = {PLAIN_COLD: file_workloads.plain_read_cold, PLAIN: file_workloads.plain_read}
COLD = (PLAIN_COLD, READ_COLD)
SUBJECT_CASES = {
    "read": (MEMCPY, "read", "read, all fields", "read_batch", PLAIN_COLD, READ_COLD),
    "query": (MEMCPY, "query"),
    "recover": (MEMCPY, "recover"),
    "verify": (PLAIN, SEALS, VERIFY),
}
"""A subject of the command line -> its cases."""
SYNC_PUT = "put, sync"


def message_count(body_size: int, *, quick: bool = False) -> int:
    """How many messages one round of an ordinary case handles."""
    return COUNTS.get(body_size, COUNTS[1024]) // (QUICK_PART if quick else 1)


def make_cases(
    *,
    body_sizes: Iterable[int] = BODY_SIZES,
    kernels: Iterable[str] | None = None,
    quick: bool = False,
    subject: str | None = None,
    messages: int | None = None,
) -> list[Case]:
    """The cases of a run: at each body size the references, then every workload over each kernel; or those of one
    subject and its reference. `messages`: so many a round in place of what is usual."""
    kernels = tuple(kernels or native.available())
    sync_count = SYNC_COUNT // (QUICK_PART if quick else 1)
    cases = []
    for body_size in body_sizes:
        size = record_size(body_size)
        count = messages or message_count(body_size, quick=quick)
        cases.append(Case(MEMCPY, body_size, size, count, references.memcpy))
        for name, (prepare, writes) in MEMORY_CASES.items():
            cases += [
                Case(name, body_size, size, count, prepare, kernel, against=MEMCPY, writes=writes) for kernel in kernels
            ]
        loops = {FALLOCATED: references.fdatasync_fallocated, ZEROED: references.fdatasync_zeroed}
        cases += [Case(name, body_size, size, sync_count, loop, needs_disk=True) for name, loop in loops.items()]
        cases += [
            Case(SYNC_PUT, body_size, size, sync_count, workloads.put_sync, kernel, against=FALLOCATED, needs_disk=True)
            for kernel in kernels
        ]
        if subject is not None:
            cases += _file_cases(body_size, size, count, kernels)
    return cases if subject is None else [case for case in cases if case.name in SUBJECT_CASES[subject]]


def _file_cases(body_size: int, size: int, count: int, kernels: Iterable[str]) -> list[Case]:
    plain = [
        Case(name, body_size, size, count, prepare, writes=False, needs_disk=name in COLD)
        for name, prepare in FILE_REFERENCES.items()
    ]
    return plain + [
        Case(name, body_size, size, count, prepare, kernel, against, writes=False, needs_disk=name in COLD)
        for name, (prepare, against) in FILE_CASES.items()
        for kernel in kernels
    ]
