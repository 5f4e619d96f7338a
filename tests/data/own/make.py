"""Write the golden store of the format version that this checkout writes: version-N.tar.xz beside this file.

    python tests/data/own/make.py [FOLDER]

Run it before `VERSION` in store/state/format_version.py is counted up, so that every version that ever was has its
archive. What the new version adds to `FILES` there is added here, for the next one; it runs in checkouts of version 1,
too. An archive holds two stores: `closed`, and `killed`, a copy of it that was made in the middle of an atomic append.

| since | what is in both |
|---|---|
| 0 | `orders`, 400 in four queues with tags, keys and properties, of which group `billing` has consumed 100; `rows`, 50 from columns; `parked`, 5 whose delay level is 2 hours; and `gone`, deleted |
| 1 | `pairs`, 20 rows of one atomic append, batch 3 of a streaming query; in `closed` 20 more, which `killed` has not; `timed`, 3 timers; a torn tail that was cut; the rows of a Spark job that was killed |
| 2 | `steps`, 4 of one queue, of which the first failed twice in the ordered group `steps`; `letters`, 3 that are dead letters of `letters`, all of them redriven to `again`; `held`, 4 of which group `held` has 2 in process (in `closed` it gave them back); a queue of `parked` that was rebuilt by `repair`. `backup` is a backup of `closed` |

An archive has the versions' rows up to its own, but version 0, which was made first, `rows` and no other atomic append.
"""  # noqa: E501

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import flightlog
from flightlog.engine.write.append_atomically import TopicColumns
from flightlog.spark.options.write_options import default_staging
from flightlog.spark.write.staging_folder import JOB_PREFIX, make_job_folder
from flightlog.spark.write.writing import WriteLedger
from flightlog.store.state.format_version import VERSION

OWN = Path(__file__).resolve().parent
SETTINGS = flightlog.StoreSettings(
    segment_size=65536,
    queue_file_entries=50,
    index_slots=100,
    index_entries=400,
    queue_extension=True,
    queue_extension_file_size=4096,
)
TOLD = {"version": VERSION, "orders": 400, "consumed": 100, "rows": 50, "parked": 5, "pairs": 20, "timed": 3}
DAY_MS = 86_400_000


def copy_killed(live: Path, target: Path) -> None:
    """What a kill would leave now. Another process copies: this one, if it closed `lock` would drop its lock."""
    subprocess.run(["cp", "-r", "--sparse=always", live, target], check=True)


def begin(live: Path, root: Path) -> None:
    """A store whose writer was killed in the middle of a put."""
    with flightlog.open(live, SETTINGS) as store:
        for number in range(5):
            put = store.put(flightlog.Message("parked", f"later {number}".encode(), delay_level=18))
        store.flush()
        copy_killed(live, root)
    [segment] = (root / "commitlog").iterdir()
    content = segment.read_bytes()
    size = int.from_bytes(content[put.physical_offset :][:4], "big")
    end = put.physical_offset + size
    segment.write_bytes(content[:end] + content[put.physical_offset :][: size // 2] + content[end + size // 2 :])


def repair(root: Path) -> None:
    flightlog.open(root).close()
    for queue_file in (root / "consumequeue" / "SCHEDULE_TOPIC_XXXX" / "17").iterdir():
        queue_file.write_bytes(b"\1" * queue_file.stat().st_size)
    assert flightlog.repair(root, write=True).backups


def write(store: flightlog.Store) -> None:
    store.create_topic("orders", 4)
    for number in range(400):
        message = flightlog.Message(
            *("orders", f"order {number}".encode() * 20),
            tags=("create", "pay")[number % 2],
            keys=[f"order-{number}", "all"],
            properties={"number": str(number)},
            queue_id=number % 4,
        )
        store.put(message)
    store.append_columns("rows", {"body": [f"row {number}".encode() for number in range(50)]})
    store.put(flightlog.Message("gone", b"deleted"))
    store.delete_topic("gone")
    with store.subscribe("orders", group="billing") as subscription:
        for _, received in zip(range(100), subscription, strict=False):
            received.ack()
    for number in range(3):
        store.put(flightlog.Message("timed", b"timer").deliver_at_ms(int(time.time() * 1000) + DAY_MS + number))
    while not (store.path / "config" / "timercheck").exists():  # written a second after they are on the wheel
        time.sleep(0.01)
    ledger = WriteLedger(store.path, "query")
    store.append_atomically([pairs("pair")], lambda appended: ledger.note(3, appended, done=True))
    job = default_staging(store.path) / f"{JOB_PREFIX}killed"
    make_job_folder(job)
    (job / "part-0-0.arrow").write_bytes(b"rows")


def pairs(body: str) -> TopicColumns:
    return TopicColumns("pairs", {"body": [f"{body} {number}".encode() for number in range(20)]})


def write_files_of_2(store: flightlog.Store) -> None:
    store.create_topic("steps", 1)
    store.create_topic("letters", 1)
    store.create_topic("again", 1)
    for number in range(4):
        store.put(flightlog.Message("steps", f"step {number}".encode()))
    for number in range(3):
        store.put(flightlog.Message("letters", f"letter {number}".encode()))
    for attempt in (1, 2):
        with store.subscribe("steps", "steps", ordered=True, max_attempts=3) as subscription:
            received = next(iter(subscription))
            assert received.attempt == attempt and received.send_back()
    with store.subscribe("letters", "letters", max_attempts=1) as subscription:
        for _, received in zip(range(3), subscription, strict=False):
            received.send_back()
    assert len(store.redrive("letters", to="again")) == 3


@contextmanager
def in_process(store: flightlog.Store) -> Iterator[None]:
    """While messages are."""
    store.create_topic("held", 1)
    for number in range(4):
        store.put(flightlog.Message("held", f"held {number}".encode()))
    with store.subscribe("held", "held") as subscription:
        assert len(subscription.poll(2)) == 2
        yield


def end(store: flightlog.Store, killed: Path) -> None:
    store.verify()  # queues and keys have everything
    store.flush()
    store.append_atomically([pairs("late")], lambda appended: copy_killed(store.path, killed))


def make(folder: Path) -> list[str]:
    """Write the stores into this folder. Returns what the archive holds of it."""
    root, killed = folder / "closed", folder / "killed"
    begin(folder / "begun", root)
    if VERSION >= 2:
        repair(root)
    with flightlog.open(root) as store:
        write(store)
        if VERSION < 2:
            end(store, killed)
        else:
            write_files_of_2(store)
            with in_process(store):
                end(store, killed)
    if VERSION >= 2:
        flightlog.backup(root, folder / "backup")
    told = TOLD | ({"steps": 4, "letters": 3, "held": 4} if VERSION >= 2 else {})
    (folder / "told.json").write_text(json.dumps(told) + "\n")
    return ["told.json", "closed", "killed"] + (["backup"] if VERSION >= 2 else [])


def main(into: Path = OWN) -> None:
    with tempfile.TemporaryDirectory() as folder:
        names = make(Path(folder))
        archive = into / f"version-{VERSION}.tar.xz"
        # GNU tar, for Python's writes the holes of timer log and wheel as 140 MB of zeros
        subprocess.run(["tar", "-C", folder, "--owner=0", "--group=0", "-cJSf", archive, *names], check=True)
    print(archive, archive.stat().st_size)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
