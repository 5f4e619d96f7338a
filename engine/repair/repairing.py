"""Repair a store in place: plan from what verify finds, keep what is changed, change it, and verify again.

The order makes an interruption harmless: the bytes to be changed are in the backup before they change; the note that
makes the next opening read the whole log is there before the first queue moves. A repair that was interrupted is begun
again by the next one, or by the next open for writing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...index.queue.queue_table import CONSUME_QUEUE_FOLDER
from ...store.arguments import check_settings, checked_folder
from ...store.disk.bad_sectors import BadSectors
from ...store.disk.clock import SystemClock
from ...store.disk.disk import Disk, RealDisk
from ...store.disk.lock import StoreLock
from ...store.errors import RocksDbQueuesError, StoreChangingError, StoreNotFoundError
from ...store.settings import StoreSettings
from ...store.state.format_version import FormatVersion
from ...store.state.rocksdb import has_rocksdb_files
from ..message_store import MessageStore
from ..open.recovery import rebuild_path
from ..open.shutdown_state import ShutdownState
from ..read_only import ReadOnlyStore
from ..verify.findings import Finding, VerifyReport
from .backup import Backup
from .plan import Plan, make_plan

MOST_ROUNDS = 4
"""A record that is mended may have hidden another one; what is still found after so many rounds is left."""


@dataclass
class RepairReport:
    """What a repair found and did, or would do."""

    path: Path
    is_written: bool
    """False for a dry run: nothing was changed."""
    before: VerifyReport
    steps: list[str] = field(default_factory=list)
    """What was done, or would be done, in order."""
    left: list[Finding] = field(default_factory=list)
    """Findings that a repair in place cannot mend."""
    lost: list[str] = field(default_factory=list)
    """Messages whose body is lost; a placeholder takes the place of each."""
    backups: list[Path] = field(default_factory=list)
    """The folders that keep what was changed, one for each time that something was."""
    after: VerifyReport | None = None
    """What verify finds now; None for a dry run."""

    @property
    def is_clean(self) -> bool:
        """Whether there is nothing to mend, or nothing any more."""
        return self.before.is_clean if self.after is None else self.after.is_clean


def repair(path: str | os.PathLike[str], settings: StoreSettings | None = None, *, write: bool = False) -> RepairReport:
    """Mend a store, of flightlog or RocketMQ, in place. Without `write`: report what would be done, and change nothing.

    Queues, key index and checkpoint are rebuilt from the log; a torn tail is cut; damaged seals and state files are
    moved aside (a state file's `.bak` is then read). A record with a damaged body is replaced by a placeholder of the
    same size, which has the property `FLIGHTLOG_LOST`, so that queue offsets stay. Everything that is changed is kept
    in `flightlog/repair-TIME/`. Where bytes in the middle of the log are no records, nothing is changed: use `salvage`.

    Durable when it returns. Raises, with `write`, StoreLockedError while a writer has the store open and
    NewerFormatError for the store of a newer flightlog; StoreNotFoundError, RocksDbQueuesError, what `flightlog.open`
    raises, and DiskError.
    """
    root = checked_folder("path", path)
    check_settings(settings)
    settings, disk = settings or StoreSettings(), RealDisk()
    if not disk.exists(root):
        raise StoreNotFoundError(f"{root}: no such folder; expected the folder of a store")
    if has_rocksdb_files(disk, root / CONSUME_QUEUE_FOLDER):
        raise RocksDbQueuesError(root)
    if not write:
        found, plan, _ = _look(disk, root, settings)
        return _report(root, found, plan)
    StoreLock.acquire(root).release()  # refuse beside a writer before everything is read; a view reads without the lock
    FormatVersion(disk, root).refuse_newer()
    found, plan, state = _look(disk, root, settings)
    report, rounds = _report(root, found, plan), 0
    report.is_written, report.after = True, found
    while not plan.is_empty and rounds < MOST_ROUNDS:
        backup = Backup(disk, root, SystemClock().now_ms())
        lock = StoreLock.acquire(root)
        try:
            if state.is_stale(disk):
                raise StoreChangingError(f"{root}: another program wrote it meanwhile: repair it again")
            if plan.rebuilds:  # before the note that writers of earlier versions pass over
                FormatVersion(disk, root).save()
            _change(disk, root, plan, backup)
        finally:
            lock.release()
        if disk.exists(backup.path):
            report.backups.append(backup.path)
        with MessageStore.open(root, replace(settings, deliver_delayed=False)):
            if disk.exists(rebuild_path(root)):
                disk.remove(rebuild_path(root))
                disk.sync_folder(rebuild_path(root).parent)
        rounds += 1
        report.after, plan, state = _look(disk, root, settings)
        report.left = plan.left
        if rounds < MOST_ROUNDS:
            report.steps += plan.texts()
            report.lost += _lost(plan)
    if not plan.is_empty:
        report.left = report.after.findings
    return report


def _look(disk: Disk, root: Path, settings: StoreSettings) -> tuple[VerifyReport, Plan, ShutdownState]:
    with ReadOnlyStore(root, BadSectors.around(disk), settings) as view:
        found = view.verify()
        return found, make_plan(disk, root, view.log_reader, found), view.shutdown_state


def _report(root: Path, found: VerifyReport, plan: Plan) -> RepairReport:
    return RepairReport(root, False, found, plan.texts(), plan.left, _lost(plan))


def _lost(plan: Plan) -> list[str]:
    return [f"{each.topic} {each.queue_id} {each.queue_offset}" for each in plan.replacements]


def _change(disk: Disk, root: Path, plan: Plan, backup: Backup) -> None:
    if plan.replacements:
        backup.keep_bytes((each.segment, each.position, each.before) for each in plan.replacements)
    if plan.rebuilds:
        _note_rebuild(disk, root)
    for path in plan.aside:
        backup.set_aside(path)
    for each in plan.replacements:
        file = disk.open(each.segment.path, writable=True)
        try:
            file.write(each.position, each.after)
            file.sync()
        finally:
            file.close()


def _note_rebuild(disk: Disk, root: Path) -> None:
    path = rebuild_path(root)
    disk.make_folder(path.parent)
    disk.open(path, writable=True, create=True).close()
    disk.sync_folder(path.parent)
