"""Write the golden store of the format version that this checkout writes: tests/data/own/version-N.tar.xz.

    python tests/data/own/make.py

Run it before `VERSION` in store/state/format_version.py is counted up, so that every version that ever was has its
archive. It holds two stores with the same messages: `closed`, and `killed`, a copy of the first while it was open.
Messages: `orders`, 400 in four queues with tags, keys and properties, of which group `billing` has consumed 100;
`rows`, 50 from columns; `parked`, 5 whose delay level is 2 hours; and `gone`, deleted.
"""

from __future__ import annotations

import json
import shutil
import tarfile
import tempfile
from pathlib import Path

import flightlog
from flightlog.store.state.format_version import VERSION

SETTINGS = flightlog.StoreSettings(
    segment_size=65536, queue_file_entries=50, index_slots=100, index_entries=400, queue_extension=True
)


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
    for number in range(5):
        store.put(flightlog.Message("parked", f"later {number}".encode(), delay_level=18))
    store.put(flightlog.Message("gone", b"deleted"))
    store.delete_topic("gone")
    with store.subscribe("orders", group="billing") as subscription:
        for _, received in zip(range(100), subscription, strict=False):
            received.ack()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        closed, killed = Path(folder) / "closed", Path(folder) / "killed"
        with flightlog.open(closed, SETTINGS) as store:
            write(store)
            store.verify()  # queues and keys have everything
            shutil.copytree(closed, killed)
        told = {"version": VERSION, "orders": 400, "consumed": 100, "rows": 50, "parked": 5}
        (Path(folder) / "told.json").write_text(json.dumps(told) + "\n")
        archive = Path(__file__).with_name(f"version-{VERSION}.tar.xz")
        with tarfile.open(archive, "w:xz") as tar:
            for name in ("told.json", "closed", "killed"):
                tar.add(Path(folder) / name, name)
    print(archive, archive.stat().st_size)


if __name__ == "__main__":
    main()
