"""Which mode the files and folders of a store get: 0644 and 0777 less what the umask takes, whatever is made and when;
and a file that is there keeps its own."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import flightlog
from flightlog import Message, StoreSettings

SETTINGS = StoreSettings(
    segment_size=4096, queue_file_entries=10, index_slots=5, index_entries=20, queue_extension=True
)


@pytest.fixture(params=[0o022, 0o002, 0o077, 0o027, 0o000])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(root: Path) -> dict[str, int]:
    return {str(path.relative_to(root)): stat.S_IMODE(path.lstat().st_mode) for path in [root, *root.rglob("*")]}


def use(root: Path) -> None:
    """Everything that makes files: segments, queues of both kinds, extensions, index, seals, state files, a cut."""
    with flightlog.open(root, SETTINGS) as store:
        store.put_many([Message("t", b"%d" % i + bytes(300), keys=f"k{i}") for i in range(40)])
        store.put_batch([Message("b", b"x")] * 3)
        store.create_topic("made")
        store.delete_topic("made")
        store.flush()


def test_of_everything_that_is_made(umask: int, tmp_path: Path) -> None:
    root = tmp_path / "store"
    use(root)
    (root / "abort").write_bytes(b"4711")  # another program's, which died over a torn tail
    end = max(root.glob("commitlog/*"))
    raw = end.read_bytes()
    tail = len(raw.rstrip(b"\0")) + 8
    with open(end, "r+b") as file:
        file.seek(tail)
        file.write(b"\xff" * 20)
    use(root)
    (root / "abort.bak").unlink(missing_ok=True)
    found = modes(root)
    kinds = {name.split("/")[0] for name in found}
    assert {
        "commitlog",
        "consumequeue",
        "batchconsumequeue",
        "consumequeue_ext",
        "index",
        "config",
        "flightlog",
    } <= kinds
    assert any("/cut-" in name for name in found) and any("/seals/" in name for name in found)
    for name, mode in found.items():
        wanted = 0o777 if (root / name).is_dir() else 0o644
        assert mode == wanted & ~umask, f"{name}: {mode:o}"
    with flightlog.open_read_only(root) as view:
        assert view.verify().findings == []
    assert modes(root) == found


def test_what_is_there_keeps_its_mode(tmp_path: Path) -> None:
    root = tmp_path / "store"
    use(root)
    for path in [root, *root.rglob("*")]:
        path.chmod(0o750 if path.is_dir() else 0o640)
    rewritten = {"abort", "config/topics.json", "config/topics.json.bak", "flightlog/deleted-topics.json"}
    before = modes(root)
    with flightlog.open(root, SETTINGS) as store:
        store.put(Message("t", b"more"))
    found = modes(root)
    changed = {name for name in before if name in found and found[name] != before[name]}
    assert {name for name in changed if name not in rewritten and "/seals/" not in name} == set()
    with flightlog.open_read_only(root) as view:
        assert view.verify().is_clean
