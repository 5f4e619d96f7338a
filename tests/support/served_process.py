"""A server in a process of its own, under sync flush, that a test may kill."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flightlog.tests.support.rocketmq_server import PATIENCE_S

PROGRAM = """
import logging, sys
from pathlib import Path
from flightlog import FlushMode, StoreSettings
from flightlog.serve.program import ServeOptions, run
logging.basicConfig(stream=sys.stderr, format="%(message)s", level=logging.INFO)
settings = StoreSettings.small(flush_mode=FlushMode.SYNC, segment_size=1 << 20)
run(ServeOptions((Path(sys.argv[1]),), port=0, topics=("orders:2",), groups=("ledger:fifo",), settings=settings))
"""


@contextmanager
def served_process(path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and its address. It has the topic `orders` and the ordered group `ledger`."""
    command = [sys.executable, "-P", "-c", PROGRAM, str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            port = next(found[1] for line in process.stderr if (found := re.search(r"127\.0\.0\.1:(\d+)", line)))
            yield process, f"127.0.0.1:{port}"
        finally:
            process.kill()
            process.communicate(timeout=PATIENCE_S)
