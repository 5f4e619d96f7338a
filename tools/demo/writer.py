"""The process that the demo kills: four threads put orders until then.

`python -m flightlog.tools.demo.writer FOLDER`. After a put has returned, the line `KEY STEP` is written to stdout with
one write call, which is atomic for a pipe: every complete line in the pipe was acknowledged.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

from ...engine.message_store import MessageStore, open_store
from ...store.settings import StoreSettings
from ..program import run_program
from .orders import order_messages

THREADS = 4


def main(folder: Path) -> int:
    """Run until the process is killed. If a put fails, raises its error."""
    failures: list[BaseException] = []
    failed = threading.Event()

    def put_without_end(store: MessageStore, thread: int) -> None:
        try:
            for (key, step), message in order_messages(thread, THREADS):
                store.put(message)
                os.write(sys.stdout.fileno(), f"{key} {step}\n".encode())
        except BaseException as e:
            failures.append(e)
            failed.set()

    store = open_store(folder, StoreSettings.small())
    for thread in range(THREADS):
        threading.Thread(target=put_without_end, args=(store, thread), daemon=True).start()
    failed.wait()
    raise failures[0]


if __name__ == "__main__":
    sys.exit(run_program(lambda: main(Path(sys.argv[1]))))
