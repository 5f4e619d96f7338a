"""The process that the demo kills: four threads put orders until it dies.

`python -m flightlog.tools.demo.writer FOLDER`. After each put that returned, its line `KEY STEP` goes to stdout by one
write call, which a pipe takes whole or not at all: what the reader of the pipe has seen was acknowledged.
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
    """Runs until it is killed, or until one put fails: then it returns 3 with the reason on stderr."""
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
