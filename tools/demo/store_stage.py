"""The demo's first stage, which needs only the core: put, kill, recover, verify, read; then read RocketMQ's files.

`python -m flightlog.tools.demo.store_stage FOLDER`; FOLDER must be new or empty.
"""

from __future__ import annotations

import logging
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from ...engine.message_store import MessageStore, open_store
from ...engine.read_only import ReadOnlyStore, open_read_only
from ...engine.verify.findings import VerifyReport
from ...store import native
from ...store.errors import DiskError, UsageError
from ..program import run_program
from ..progress_bar import ProgressBar
from ..words import count_text, seconds_text, size_text
from .orders import QUEUES, SHIPPED_TOPIC, STEPS, TOPIC, OrderCheck, Step
from .rocketmq_store import ROCKETMQ_VERSION, STORE, put_by_rocketmq, unpack_rocketmq_store
from .telling import Teller, must
from .writer import THREADS

OUR_STORE = "orders-store"
ROCKETMQ_STORE = "rocketmq"
KILL_AFTER_PUTS = 20_000
KILL_AFTER_S = 15.0
"""On a slow machine the writer is killed before KILL_AFTER_PUTS."""
PATIENCE_S = 0.2


def run(folder: Path, tell: Teller) -> int:
    """Run the stage, and report by `tell`. Raises DemoFailedError if a check fails."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise UsageError(f"{folder}: not empty. Name a new or an empty folder for the demo")
    # Recovery is reported below. Without a handler, Python would print its warning about a torn tail to stderr.
    logging.getLogger("flightlog").addHandler(logging.NullHandler())
    kernel = "C kernel" if native.NAME == "c" else "pure Python, no C kernel here"
    tell.begin(f"The store: put, kill, recover, read ({kernel}). Everything stays below {folder}")
    acknowledged = _put_and_kill(tell, folder / OUR_STORE)
    with _recover(tell, folder / OUR_STORE) as store:
        tell.step("Verify reads every byte: log, seals, queues against the log, checkpoint, progress page.")
        _tell_verified(tell, store.verify())
        _read_back(tell, store, acknowledged)
    _read_rocketmq(tell, folder / ROCKETMQ_STORE)
    tell.end("Look around yourself:")
    python = min(os.path.relpath(sys.executable), sys.executable, key=len)
    command = f"{python} -m flightlog"
    if find_spec("typer") is None:  # `make demo` in a fresh clone
        tell.path(f"{python} -m pip install '.[tools]'", "")
    elif shutil.which("flightlog") is not None:
        command = "flightlog"
    tell.path(f"{command} info ", folder / OUR_STORE)
    tell.path(f"{command} verify ", folder / ROCKETMQ_STORE / STORE)
    return 0


def _put_and_kill(tell: Teller, folder: Path) -> set[Step]:
    """Run the writer and kill it. Returns the steps whose puts had returned."""
    tell.step(
        f"{THREADS} threads of another process put orders: {', '.join(STEPS)}, one key an order, all of an order into "
        "one queue, dozens of orders at a time. Then that process gets a SIGKILL in the middle of it."
    )
    command = [sys.executable, "-P", "-m", f"{__package__}.writer", str(folder)]
    acknowledged: set[Step] = set()
    rest = b""
    started_s = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer, ProgressBar("putting", KILL_AFTER_PUTS) as bar:
        assert writer.stdout is not None
        pipe = writer.stdout.fileno()
        try:
            while True:
                if select.select([pipe], [], [], PATIENCE_S)[0]:
                    chunk = os.read(pipe, 1 << 16)
                    if not chunk:
                        break
                    *lines, rest = (rest + chunk).split(b"\n")
                    acknowledged.update(_step(line) for line in lines)
                    bar.done = len(acknowledged)
                # Acknowledged steps may still be in the pipe, so it is read to its end.
                if len(acknowledged) >= KILL_AFTER_PUTS or time.monotonic() - started_s > KILL_AFTER_S:
                    writer.kill()
        finally:
            writer.kill()
        exit_code = writer.wait()
    if exit_code != -signal.SIGKILL:
        raise DiskError(
            f"{folder}: the writer ended by itself with exit code {exit_code}, see above; the demo cannot go on"
        )
    tell.result(f"Killed after {seconds_text(time.monotonic() - started_s)}: {len(acknowledged):,} puts had returned.")
    return acknowledged


def _step(line: bytes) -> Step:
    key, step = line.decode("ascii").split(" ")
    return key, step


def _recover(tell: Teller, folder: Path) -> MessageStore:
    tell.step("The store is opened again, and recovers.")
    started_s = time.monotonic()
    store = open_store(folder)
    report = store.recovery_report
    read = f"the last {size_text(report.end - report.scanned_from)} of the log; {report.reason}"
    tell.result(
        f"In {seconds_text(time.monotonic() - started_s)} it read {read if report.scanned_from else 'all of the log'}. "
        f"{count_text(report.records_scanned, 'record')}; {report.entries_dispatched:,} of them were not in their "
        "queues yet, and are now."
    )
    for line in report.cut or ["No torn record at the end: nothing had to be cut."]:
        tell.result(line)
    return store


def _tell_verified(tell: Teller, report: VerifyReport) -> None:
    must(report.is_clean, "; ".join(str(finding) for finding in report.findings))
    tell.result(
        f"Clean: {count_text(report.records, 'record')} in {count_text(report.segments, 'segment')}, "
        f"{count_text(report.queue_entries, 'queue entry', 'queue entries')}."
    )


def _read_back(tell: Teller, store: MessageStore, acknowledged: set[Step]) -> None:
    tell.step("Every queue is read from its first message to its last, and every order is checked.")
    check, stored = OrderCheck(), Counter[Step]()
    with ProgressBar("reading", sum(end - first for first, end in store.queues().values())) as bar:
        for topic, queue_id in store.queues():
            messages = list(store.read(topic, queue_id))
            check.feed(messages)
            stored.update((message.keys[0], str(message.tags)) for message in messages)
            bar.done += len(messages)
    missing = acknowledged - stored.keys()
    must(not missing, f"{len(missing)} acknowledged messages are gone, {sorted(missing)[:3]} among them")
    doubled = [step for step, count in stored.items() if count > 1]
    must(not doubled, f"{len(doubled)} messages are there twice, {sorted(doubled)[:3]} among them")
    tell.result(
        f"All {len(acknowledged):,} acknowledged messages are there, each once. {len(stored) - len(acknowledged)} more "
        "had been stored when the kill came between the store and its answer."
    )
    _tell_orders(tell, check, "were under way when the kill came")
    tell.result(
        f"{check.messages[TOPIC]:,} messages of {TOPIC} and {check.messages[SHIPPED_TOPIC]:,} of {SHIPPED_TOPIC}, in "
        f"{QUEUES} queues each."
    )


def _tell_orders(tell: Teller, check: OrderCheck, unfinished: str) -> None:
    wrong = check.out_of_order
    must(not wrong, f"{len(wrong)} orders are out of order, {wrong[:3]} among them")
    begun = len(check.steps) - check.whole
    rest = f"; {begun} {unfinished}" if begun else ""
    tell.result(f"{len(check.steps):,} orders, each one in order: {', '.join(STEPS)}{rest}.")


def _read_rocketmq(tell: Teller, folder: Path) -> None:
    tell.step(
        f"The same reading of a small store that Apache RocketMQ {ROCKETMQ_VERSION} wrote, its files as they are."
    )
    with open_read_only(unpack_rocketmq_store(folder)) as view:
        check = read_all(view)
        put = put_by_rocketmq(folder)
        must(check.messages == put, f"RocketMQ put {dict(put)}, the store has {dict(check.messages)}")
        queues = count_text(len(view.queues()), "queue")
        tell.result(
            f"{put.total():,} messages of {count_text(len(put), 'topic')} in {queues}: "
            "as many in every topic as RocketMQ's own list says."
        )
        _tell_orders(tell, check, "not finished")
        _tell_verified(tell, view.verify())


def read_all(view: ReadOnlyStore) -> OrderCheck:
    """Read every queue of a store."""
    check = OrderCheck()
    for topic, queue_id in view.queues():
        check.feed(view.read(topic, queue_id))
    return check


def main() -> int:
    if len(sys.argv) != 2:
        raise UsageError(f"usage: python -m {__package__}.store_stage FOLDER")
    return run(Path(sys.argv[1]), Teller())


if __name__ == "__main__":
    sys.exit(run_program(main))
