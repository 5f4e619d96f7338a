"""`flightlog info`: what it tells of stores of every kind, in a pipe, on a terminal and as JSON."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import flightlog

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

LONG_TOPIC_START = "long-topic-xxx"


def info(cli: Cli, path: Path) -> dict[str, Any]:
    finished = cli("info", "--json", path)
    assert (finished.code, finished.err) == (0, "")
    found: dict[str, Any] = json.loads(finished.out)
    return found


def bounds(found: dict[str, Any]) -> dict[tuple[str, int], tuple[int, int]]:
    return {(q["topic"], q["queue_id"]): (q["first_queue_offset"], q["end_queue_offset"]) for q in found["queues"]}


def test_a_clean_store_is_told_without_reading_its_log(cli: Cli, clean_store: Path) -> None:
    found = info(cli, clean_store)
    assert (found["last_writer"], found["is_closed_cleanly"], found["is_open_for_writing"]) == (
        "FLIGHTLOG_CLOSED",
        True,
        False,
    )
    assert bounds(found) == {("orders", queue_id): (0, 300) for queue_id in range(3)}
    assert found["topics"] == [
        {"topic": "orders", "queues": 3, "messages": 900, "min_depth": 300, "max_depth": 300, "mean_depth": 300.0}
    ]
    assert (found["lag"]["dispatch_size"], found["lag"]["flush_size"], found["lag"]["recovery_size"]) == (0, 0, 0)
    assert found["sizes"]["sealed_segments"] == found["sizes"]["segments"] - 1
    assert (found["sizes"]["messages"], found["sizes"]["cut_tails"]) == (900, 0)
    out = cli("info", clean_store).out
    assert [line.split(None, 2)[2] for line in out.splitlines() if line.startswith("cut tails")] == ["none"]
    assert (found["scanned_size"], found["undispatched_messages"], found["undispatched_size"]) == (0, 0, 0)
    assert found["progress"]["clean_close"] == found["end_physical_offset"]
    sealed = [segment["records"] for segment in found["segments"][:-1]]
    assert len(sealed) > 2 and sum(sealed) < 900, "full segments are sealed, and a seal knows its records"
    assert found["segments"][-1]["records"] is None


def test_sizes_are_those_of_the_files(cli: Cli, clean_store: Path) -> None:
    found = info(cli, clean_store)
    lengths = {f["name"]: f["size"] for f in found["folders"]}
    on_disk = {f["name"]: f["allocated_size"] for f in found["folders"]}
    for folder in ("commitlog", "consumequeue", "flightlog"):
        statuses = [path.stat() for path in (clean_store / folder).rglob("*") if path.is_file()]
        assert lengths[folder] == sum(status.st_size for status in statuses)
        assert on_disk[folder] == sum(status.st_blocks * 512 for status in statuses)
    used = sum(segment["used_size"] for segment in found["segments"])
    assert used == found["end_physical_offset"] - found["min_physical_offset"]


def test_a_killed_store(cli: Cli, killed_store: Path) -> None:
    found = info(cli, killed_store)
    assert (found["last_writer"], found["is_closed_cleanly"]) == ("FLIGHTLOG_KILLED", False)
    assert found["messages"] == 900, "what the queues on disk lack is counted from the log"
    assert found["lag"]["recovery_size"] > 0
    out = cli("info", killed_store).out
    assert "did not close it" in out and "of the log to go through" in out


def test_rocketmq_stores(cli: Cli, rocketmq: Callable[[str], Path]) -> None:
    for name, closed, lag in (("clean", True, 0), ("halted", False, 14)):
        folder = rocketmq(name)
        lines = [json.loads(line) for line in (folder / "manifest.jsonl").read_text().splitlines()]
        put = [line for line in lines if line["type"] == "msg"]
        found = info(cli, folder / "store")
        assert found["last_writer"] == ("ROCKETMQ_CLOSED" if closed else "ROCKETMQ_KILLED")
        assert found["progress"] is None
        assert found["undispatched_messages"] == lag
        assert found["lag"]["flush_size"] is None and "only flightlog notes it" in cli("info", folder / "store").out
        assert found["messages"] == len(put)
        ends: dict[tuple[str, int], int] = {}
        for line in put:
            ends[line["topic"], line["queueId"]] = line["queueOffset"] + 1
        assert bounds(found) == {key: (0, end) for key, end in ends.items()}
    assert found["scanned_size"] > 0


def test_what_waits_for_delay_levels_is_told(cli: Cli, tmp_path: Path) -> None:
    with flightlog.open(tmp_path, flightlog.StoreSettings.small()) as store:
        store.put_many(flightlog.Message("orders", b"x", delay_level=18) for _ in range(2000))
    waiting = [state for state in info(cli, tmp_path)["delays"] if state["pending"]]
    assert [(state["level"], state["delay_ms"], state["pending"]) for state in waiting] == [(18, 7_200_000, 2000)]
    rows = [line.split() for line in cli("info", tmp_path).out.splitlines()]
    assert [row for row in rows if row[:2] == ["18", "7200"]] == [["18", "7200", "2,000", "0.0"]]


def test_bounds_of_a_store_whose_first_messages_expired(cli: Cli, golden: Callable[[str], Path]) -> None:
    folder = golden("minoffset")
    lines = [json.loads(line) for line in (folder / "java-read.jsonl").read_text().splitlines()]
    expected = {(q["topic"], q["queueId"]): (q["min"], q["max"]) for q in lines if q["type"] == "queue" and q["max"]}
    found = bounds(info(cli, folder / "store"))
    assert any(first > 0 for first, _ in found.values())
    assert found == expected


def test_nothing_is_touched(cli: Cli, clean_store: Path, fingerprint: Callable[[Path], object]) -> None:
    before = fingerprint(clean_store)
    for command in ("info", "verify"):
        assert cli(command, clean_store).code == 0
    assert fingerprint(clean_store) == before


OPENS = """
import os, sys
def note(event, arguments):
    if event == "open" and arguments[0]:
        path, _, flags = arguments
        by = os.path.basename(sys._getframe(1).f_code.co_filename)
        path = path if isinstance(path, int) else os.fsdecode(path)
        os.write(2, f"opened {path} {flags} {by}\\n".encode())  # in one piece: threads open files, too
from flightlog.__main__ import main
sys.addaudithook(note)
sys.exit(main())
"""


def test_only_the_lock_module_opens_the_lock_and_nothing_is_opened_for_writing(clean_store: Path) -> None:
    for command in ("info", "verify"):
        program = [sys.executable, "-P", "-c", OPENS, command, str(clean_store)]
        finished = subprocess.run(program, capture_output=True, text=True, check=True)
        opened = [line.split() for line in finished.stderr.splitlines() if line.startswith(f"opened {clean_store}")]
        assert {Path(path).name for _, path, _, _ in opened} > {"checkpoint", "progress"}
        assert {by for _, path, _, by in opened if Path(path).name == "lock"} <= {"lock.py"}
        assert not [path for _, path, flags, _ in opened if int(flags) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)]


def test_a_pipe_gets_plain_text_and_whole_names(cli: Cli, rocketmq: Callable[[str], Path]) -> None:
    out = cli("info", rocketmq("clean") / "store").out
    assert "\x1b" not in out and "─" not in out
    names = {line.split()[-1] for line in out.splitlines() if LONG_TOPIC_START in line}
    assert {len(name) for name in names} == {127, 128, 150, 255}


def on_terminal(*arguments: str, columns: int) -> tuple[int, str]:
    """What a terminal of this width shows, escape sequences included."""
    try:
        master, slave = pty.openpty()
    except OSError:
        pytest.skip("no pseudo-terminals here: /dev/pts is not mounted")
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    command = [sys.executable, "-P", "-m", "flightlog", *arguments]
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment, close_fds=True)
    os.close(slave)
    shown = b""
    while True:
        try:
            piece = os.read(master, 1 << 16)
        except OSError:  # EIO: the last process that had the terminal is gone
            break
        shown += piece
    os.close(master)
    return process.wait(), shown.decode()


def test_a_terminal_gets_tables_that_keep_their_numbers(rocketmq: Callable[[str], Path]) -> None:
    code, shown = on_terminal("info", str(rocketmq("clean") / "store"), columns=80)
    assert code == 0 and "─" in shown
    assert "Traceback" not in shown
    [row] = [line for line in shown.splitlines() if line.rstrip().endswith("parcels") and line.split()[1] == "4"]
    assert row.split()[0] == "130", "a topic of 255 bytes beside it leaves the numbers their room"
    assert max(len(line.rstrip("\r")) for line in shown.splitlines() if LONG_TOPIC_START in line) <= 80


@pytest.mark.parametrize("command", ["info", "verify", "--help", "--version"])
def test_a_full_stdout_is_one_line_and_ends_with_5(clean_store: Path, command: str) -> None:
    """It was a traceback of 40 lines; what a short output says fails only when it is flushed."""
    arguments = [command] if command.startswith("-") else [command, str(clean_store)]
    with open("/dev/full", "w") as full:
        finished = subprocess.run(
            [sys.executable, "-P", "-m", "flightlog", *arguments], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert finished.returncode == 5
    [line] = finished.stderr.splitlines()
    assert line.startswith("flightlog: stdout: ") and "incomplete" in line


def test_no_stdout_at_all_ends_with_5(clean_store: Path) -> None:
    finished = subprocess.run(
        ["sh", "-c", 'exec "$0" -P -m flightlog info "$1" >&-', sys.executable, str(clean_store)],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert finished.returncode == 5
    [line] = finished.stderr.splitlines()
    assert "closed" in line


@pytest.mark.parametrize("command", ["info", "verify", "--help", "--version"])
def test_a_reader_that_goes_away_ends_it_quietly(clean_store: Path, command: str) -> None:
    arguments = [command] if command.startswith("-") else [command, str(clean_store)]
    command_line = [sys.executable, "-P", "-m", "flightlog", *arguments]
    reader, writer = os.pipe()
    os.close(reader)  # before it starts: a pipe holds all that it prints
    with os.fdopen(writer, "wb") as stdout:
        finished = subprocess.run(command_line, stdout=stdout, stderr=subprocess.PIPE)
    assert (finished.returncode, finished.stderr) == (128 + signal.SIGPIPE, b"")
