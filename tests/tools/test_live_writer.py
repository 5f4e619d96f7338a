"""`info` and `verify` beside a writer that is at work in another process: true, harmless, and the lock stays."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import flightlog
from flightlog.tests.support import process

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

WRITER = """
import select, sys, time
import flightlog

with flightlog.open(sys.argv[1], flightlog.StoreSettings(segment_size=65536, queue_file_entries=100)) as store:
    put = 0
    while put == 0 or not select.select([sys.stdin], [], [], 0)[0]:
        store.put_many([flightlog.Message("orders", b"x" * 100, queue_id=i % 3) for i in range(10)])
        put += 10
        if put == 3000:
            print("at work", flush=True)
        if put >= 3000:
            time.sleep(put / 600_000)  # ever slower: it stays small where the looks at it take minutes, too
print(put, flush=True)
"""

SECOND_WRITER = """
import sys
import flightlog
from flightlog.store.errors import StoreLockedError

try:
    flightlog.open(sys.argv[1])
except StoreLockedError as error:
    print("refused:", error)
"""


@contextmanager
def writing(path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-P", "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "at work\n"
        yield writer


def stored(path: Path) -> int:
    with flightlog.open_read_only(path) as view:
        return sum(end for _, end in view.queues().values())


def test_beside_a_live_writer(cli: Cli, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with writing(store) as writer:
        seen = []
        for _ in range(2):
            told = json.loads(cli("info", "--json", store).out)
            assert told["is_open_for_writing"] and not told["is_closed_cleanly"]
            assert told["progress"]["pid"] == writer.pid
            seen.append(told["messages"])
            verified = cli("verify", "--json", store)
            assert verified.code == 0, verified.out
            assert json.loads(verified.out)["records"] >= told["messages"]
            process.wait_until(lambda: stored(store) > seen[-1])  # its disk may hold it up
        assert f"process {writer.pid}, open for writing now" in cli("info", store).out
        assert "open for writing now" in cli("verify", store).out
        assert 3000 <= seen[0] < seen[1], "the second look sees what was put since the first one"

        command = [sys.executable, "-P", "-c", SECOND_WRITER, str(store)]
        second = subprocess.run(command, capture_output=True, text=True, check=True)
        assert second.stdout.startswith("refused:")

        assert writer.poll() is None
        out, _ = writer.communicate("stop\n")
        assert writer.returncode == 0
    told = json.loads(cli("info", "--json", store).out)
    assert told["messages"] == int(out)
    assert (told["is_open_for_writing"], told["is_closed_cleanly"]) == (False, True)
    assert cli("verify", store).code == 0
