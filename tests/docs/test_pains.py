"""docs/pains.md: each row is tried, cheaply. A row's commands are run, or its property is held.

`TRIES` has a function for each row. The commands that a row names, as in `flightlog verify PATH`, are those that its
function runs, by their names.
"""

from __future__ import annotations

import errno
import json
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import flightlog
from flightlog import Message, Store, StoreSettings
from flightlog.spark.options.read_options import ReadOptions
from flightlog.spark.read.reading import RangeReader
from flightlog.testing import AheadClock, FaultyDisk, ManualClock, kill, open_small
from flightlog.tests.support.limited_disk import LimitedDisk
from flightlog.tests.support.planning import plan
from flightlog.tools.app import app

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| (\d+) \| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)
COMMAND = re.compile(r"`flightlog ((?:delays |group )?[a-z]+)")
NOT_RUN = {"serve", "delays cancel"}
"""`serve` runs until it is ended: tests/serve/test_command.py. `delays cancel`: tests/tools/change/."""
COUNT = 40


class Trial:
    """A folder, a small store in it, and the commands that were run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path, self.commands = folder, folder / "store", set[str]()

    def fill(self, count: int = COUNT, settings: StoreSettings | None = None) -> Path:
        """Message `n` has the body `body n` and the keys `k<n>` and `all`."""
        with open_small(self.path, settings) as store:
            store.put_many([Message("orders", b"body %d" % n, keys=[f"k{n}", "all"], queue_id=0) for n in range(count)])
        return self.path

    def run(self, command: str, *arguments: str | Path, code: int = 0) -> str:
        """What the command prints on stdout."""
        self.commands.add(command)
        done = CliRunner().invoke(app, [*command.split(), *map(str, arguments)])
        assert done.exit_code == code, (done.exception, done.output)
        return done.stdout

    def bodies(self, topic: str = "orders") -> list[bytes]:
        with flightlog.open_read_only(self.path) as view:
            return [m.body for key in view.queues() if key[0] == topic for m in view.read(*key)]


def first_of(store: Store) -> bytes:
    """The body of the first message that a group receives; waits for it."""
    with store.subscribe("orders", group="g") as messages:
        message = next(iter(messages))
        message.ack()
        return message.body


def disk_full(trial: Trial) -> None:
    disk = FaultyDisk()
    with open_small(trial.path, disk=disk) as store:
        disk.fail("allocate", "commitlog/", errno.ENOSPC)
        body = bytes(StoreSettings.small().segment_size or 0)[: 1 << 10]
        with pytest.raises(flightlog.DiskFullError):
            for _ in range(10_000):
                store.put(Message("orders", body, queue_id=0))
        before = len(list(store.read("orders")))
        disk.heal()
        store.put(Message("orders", b"room again", queue_id=0))
        assert len(list(store.read("orders"))) == before + 1


def delayed_messages(trial: Trial) -> None:
    clock = AheadClock()
    with open_small(trial.path, clock=clock) as store:
        store.put(Message("orders", b"later", delay_level=5, queue_id=0))
    assert "orders" in trial.run("delays list", trial.path)
    assert trial.bodies() == []
    clock.advance(60_000)
    with open_small(trial.path, clock=clock) as store:
        assert first_of(store) == b"later"


def no_jvm(trial: Trial) -> None:
    program = (
        "import flightlog, sys\n"
        "with flightlog.open(sys.argv[1]) as store:\n"
        "    store.put(flightlog.Message('t', b'x', queue_id=0))\n"
        "    print(next(iter(store.read('t'))).body)\n"
    )
    command = [sys.executable, "-P", "-c", program, str(trial.path)]
    done = subprocess.run(command, env={"PATH": ""}, capture_output=True, text=True, check=True)
    assert done.stdout == "b'x'\n"


def a_start_reads_no_log(trial: Trial) -> None:
    sizes = StoreSettings(segment_size=64 << 10, queue_file_entries=4_000, index_slots=100, index_entries=9_000)
    trial.fill(12_000, sizes)
    disk = LimitedDisk(100_000, 1 << 30, 1 << 30)
    with flightlog.open(trial.path, StoreSettings(deliver_delayed=False), disk=disk) as store:
        read_size = disk.read_size
        (last,) = store.get("orders", 0, 11_999).messages
    assert read_size < last.physical_offset // 2


def pop(trial: Trial) -> None:
    clock = AheadClock()
    with open_small(trial.path, clock=clock) as store:
        for body in (b"a", b"b"):
            store.put(Message("orders", body, queue_id=0))
        first, _ = store.receive("g", "orders", invisible_ms=600_000)
        store.ack(first.handle)
        assert list(store.receive("g", "orders")) == [], "both are invisible"
        clock.advance(610_000)
        again = store.receive("g", "orders", wait_s=60)
        assert [(m.body, m.attempt) for m in again] == [(b"b", 2)]
        store.ack(again[0].handle)


def a_failed_flush(trial: Trial) -> None:
    disk = FaultyDisk()
    store = open_small(trial.path, StoreSettings(flush_mode=flightlog.FlushMode.SYNC), disk=disk)
    disk.fail_syncs()
    with pytest.raises(flightlog.SyncFailedError):
        store.put(Message("orders", b"not acknowledged"))
    with pytest.raises(flightlog.StorePoisonedError):
        store.put(Message("orders", b"nor this"))
    store.close()


def by_time(trial: Trial) -> None:
    clock = ManualClock()
    with open_small(trial.path, clock=clock) as store:
        for n in range(COUNT):
            store.put(Message("orders", b"%d" % n, queue_id=0))
            clock.advance(1_000 * (n % 3))
        times = [m.store_timestamp_ms for m in store.read("orders")]
        for at in range(times[0] - 1, times[-1] + 2, 500):
            assert store.offset_at("orders", 0, at) == sum(time < at for time in times)
        store.commit_offset("g", "orders", 0, COUNT)
    shown = trial.run("group reset", trial.path, "g", "orders", "--to", "2023-11-14T22:13:30+00:00")
    offset = sum(time < 1_700_000_010_000 for time in times)
    assert f"{offset}" in shown and 0 < offset < COUNT


def queue_and_log(trial: Trial) -> None:
    for queue_file in (trial.fill() / "consumequeue" / "orders" / "0").iterdir():
        raw = queue_file.read_bytes()
        queue_file.write_bytes(raw[:40] + raw[60:80] + raw[60:])  # an entry names the next message
    assert "orders" in trial.run("verify", trial.path, code=1)
    trial.run("repair", trial.path, "--write")
    trial.run("verify", trial.path)
    assert len(set(trial.bodies())) == COUNT


def install(trial: Trial) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {re.split(r"[<>=~ ;]", each)[0] for each in project["dependencies"]} == {"numpy", "crc32c"}


def torn_config(trial: Trial) -> None:
    trial.fill()
    with flightlog.open(trial.path) as store:
        store.create_topic("refunds", 7)
        store.create_topic("more", 7)
    (trial.path / "config" / "topics.json").write_bytes(b"")
    with flightlog.open(trial.path) as store:
        refunds = store.topic("refunds")
        assert refunds is not None and refunds.queue_count == 7


def helpful_errors(trial: Trial) -> None:
    (trial.folder / "photos").mkdir()
    (trial.folder / "photos" / "cat.jpg").touch()
    with pytest.raises(flightlog.FlightlogError, match=r"photos.*cat\.jpg"):
        flightlog.open(trial.folder / "photos")
    raw = bytearray((segment := trial.fill() / "commitlog" / f"{0:020}").read_bytes())
    raw[60:400] = bytes(340)
    segment.write_bytes(raw)
    (trial.path / "flightlog" / "progress").unlink()
    trial.run("info", trial.path)


def by_key(trial: Trial) -> None:
    with open_small(trial.fill(100)) as store:
        store.put(Message("orders", b"the same hash", keys="Aa", queue_id=0))
        store.put(Message("orders", b"another", keys="BB", queue_id=0))
    assert len(trial.run("query", trial.path, "all", "--form", "raw").splitlines()) == 100
    assert trial.run("query", trial.path, "Aa", "--form", "raw") == "the same hash\n"


def lost_wheel(trial: Trial) -> None:
    clock = AheadClock()
    with open_small(trial.path, clock=clock) as store:
        store.put(Message("orders", b"remind me", queue_id=0).deliver_after_ms(600_000))
        store.put(Message("orders", b"soon", queue_id=0).deliver_after_ms(5_000))
        clock.advance(10_000)
        assert first_of(store) == b"soon", "so the wheel has both"
    shutil.rmtree(trial.path / "timerlog")
    (trial.path / "timerwheel").unlink()
    clock.advance(1_200_000)
    with open_small(trial.path, clock=clock) as store:
        while first_of(store) != b"remind me":
            pass  # "soon" may come again


def a_file_that_was_cut(trial: Trial) -> None:
    (segment, *_) = sorted((trial.fill(400) / "commitlog").iterdir())
    with segment.open("r+b") as file:
        file.truncate(1_000)
    assert segment.name in trial.run("verify", trial.path, code=1)


def spark(trial: Trial) -> None:
    """Without a JVM: what its tasks run."""
    import pyarrow as pa

    trial.fill(200)
    reader = RangeReader(pa.schema([("value", pa.binary())]), ReadOptions(), LimitedDisk(100_000, 1 << 30, 1 << 30))
    pieces = [piece for pack in plan(trial.path, 4096) for piece in pack]
    read = [body for piece in pieces for batch in reader.read(piece) for body in batch.column("value").to_pylist()]
    assert len(pieces) > 1 and sorted(read) == sorted(trial.bodies())


def nothing_capped(trial: Trial) -> None:
    assert len(trial.run("cat", trial.fill(1_500)).splitlines()) == 1_500


def half_messages(trial: Trial) -> None:
    with open_small(trial.path, StoreSettings(transaction_timeout_ms=1)) as store:
        flightlog.Producer(store, producer_group="p").transaction(Message("orders", b"half", keys="k1")).unknown()
    assert "half message" in trial.run("trace", trial.path, "k1")
    with open_small(trial.path, StoreSettings(transaction_timeout_ms=1)) as store:
        commit = flightlog.TransactionResolution.COMMIT
        with flightlog.TransactionChecker(store, "p", lambda message: commit) as checker:
            checker.check_now()
    assert trial.bodies() == [b"half"]


def embedded(trial: Trial) -> None:
    plugin = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert "flightlog.testing.pytest_plugin" in plugin.values()
    store = open_small(trial.path)
    store.put(Message("orders", b"in a test", queue_id=0))
    kill(store)
    assert trial.bodies() == [b"in a test"]


def export_and_grep(trial: Trial) -> None:
    lines = trial.folder / "orders.jsonl"
    trial.run("export", trial.fill(), lines)
    assert trial.run("cat", trial.path, "--body", "body 3[01]$", "--form", "raw") == "body 30\nbody 31\n"
    lines.write_text(lines.read_text().replace("body 30", "body XX"))
    trial.run("import", trial.folder / "again", lines, "--write")
    trial.path = trial.folder / "again"
    assert sorted(trial.bodies())[-1] == b"body XX" and len(trial.bodies()) == COUNT


def corrupt_log(trial: Trial) -> None:
    with (trial.fill() / "commitlog" / f"{0:020}").open("r+b") as file:
        file.seek(500)
        file.write(bytes(700))
    trial.run("repair", trial.path, "--salvage", trial.folder / "out", "--write", code=1)
    with flightlog.open_read_only(trial.folder / "out") as view:
        last = list(view.read("orders", 0))[-1]
    assert (last.body, last.queue_offset) == (b"body %d" % (COUNT - 1), COUNT - 1)


def lost_index(trial: Trial) -> None:
    shutil.rmtree(trial.fill() / "index")
    with flightlog.open(trial.path) as store:
        assert [m.body for m in store.query("orders", "k7").messages] == [b"body 7"]


def a_consumer_that_ends(trial: Trial) -> None:
    with open_small(trial.path) as store:
        seen = threading.Event()
        with flightlog.Consumer(store, "orders", "g", lambda message: seen.set()):
            store.put(Message("orders", b"wakes it", queue_id=0))
            assert seen.wait(120)


def command_line(trial: Trial) -> None:
    assert len(trial.run("cat", trial.fill(), "--form", "raw").splitlines()) == COUNT
    assert trial.run("tail", trial.path, "-n", "1", "--form", "raw") == f"body {COUNT - 1}\n"
    assert "magic" in trial.run("get", trial.path, "0", "--form", "hex")


def a_deleted_topic(trial: Trial) -> None:
    with flightlog.open(trial.fill()) as store:
        store.delete_topic("orders")
        kill(store)
    shutil.rmtree(trial.path / "consumequeue", ignore_errors=True)  # rebuilt from the log, which has the records still
    with flightlog.open(trial.path) as store:
        assert "orders" not in store.topics() and ("orders", 0) not in store.queues()


def waiting_timers(trial: Trial) -> None:
    clock = AheadClock()
    with open_small(trial.path, clock=clock) as store:
        store.put(Message("orders", b"remind me", queue_id=0).deliver_after_ms(60_000))
    found = json.loads(trial.run("delays list", trial.path, "--json"))
    assert "orders" in json.dumps(found)


TRIES: dict[int, Callable[[Trial], None]] = dict(
    enumerate(
        (
            *(disk_full, delayed_messages, no_jvm, a_start_reads_no_log, pop, a_failed_flush, by_time, queue_and_log),
            *(install, torn_config, helpful_errors, by_key, lost_wheel, a_file_that_was_cut, spark, nothing_capped),
            *(half_messages, embedded, export_and_grep, corrupt_log, lost_index, a_consumer_that_ends, command_line),
            *(a_deleted_topic, waiting_timers),
        ),
        1,
    )
)


def rows() -> dict[int, tuple[str, str]]:
    """Number -> (threads, answer)."""
    found = ROW.findall((ROOT / "docs" / "pains.md").read_text())
    return {int(number): (threads, answer) for number, _, threads, answer in found}


def test_every_row_has_threads_and_a_try() -> None:
    assert list(rows()) == list(TRIES) == list(range(1, 26))
    assert all(re.search(r"#\d+", threads) for threads, _ in rows().values())


@pytest.mark.parametrize("number", TRIES, ids=[f"{number}-{each.__name__}" for number, each in TRIES.items()])
def test_its_answer_holds(number: int, tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    TRIES[number](trial)
    named = set(COMMAND.findall(rows()[number][1])) - NOT_RUN
    assert named == trial.commands
