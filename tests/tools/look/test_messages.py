"""`cat`, `head`, `tail`, `query`, `get`, `trace`: messages selected and printed, beside a live writer too."""

from __future__ import annotations

import base64
import csv
import io
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import flightlog
from flightlog import Message, StoredMessage, StoreSettings
from flightlog.engine.read.selection import Selection
from flightlog.tests.support import signals
from flightlog.tests.support.process import LIMIT_S
from flightlog.tools.commands.look.tail import coming
from flightlog.tools.records.fields import NAMES, iso_time

if TYPE_CHECKING:
    from flightlog.tests.tools.conftest import Finished

    Cli = Callable[..., Finished]

COUNT = 30
BYTES = bytes(range(256))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("looked-at") / "store"
    with flightlog.open(path, StoreSettings.small()) as store:
        for number in range(COUNT):
            properties = {"amount": str(number)}
            keys = [f"k{number}", "all"]
            store.put(
                Message("orders", b"created %d" % number, "ab"[number % 2], keys, properties, queue_id=number % 3)
            )
        store.put(Message("files", BYTES, keys="raw"))
    return path


@pytest.fixture(scope="module")
def messages(path: Path) -> list[StoredMessage]:
    with flightlog.open_read_only(path) as view:
        found = [each for key in view.queues() for each in view.read(*key)]
    return sorted(found, key=lambda each: each.physical_offset)


def objects(finished: Finished) -> list[dict[str, Any]]:
    assert finished.code == 0 and finished.err == ""
    return [json.loads(line) for line in finished.out.splitlines()]


def test_json_has_every_field(cli: Cli, path: Path, messages: list[StoredMessage]) -> None:
    found = objects(cli("cat", path, "--form", "json"))
    assert len(found) == len(messages) == COUNT + 1
    for each, message in zip(found, messages, strict=True):
        assert list(each)[:-1] == list(NAMES)
        assert (each["topic"], each["queue_id"]) == (message.topic, message.queue_id)
        assert (each["queue_offset"], each["physical_offset"]) == (message.queue_offset, message.physical_offset)
        assert (each["size"], each["tags"], each["keys"]) == (message.size, message.tags, list(message.keys))
        assert (each["store_time"], each["properties"]) == (iso_time(message.store_timestamp_ms), message.properties)
        body = each["body"].encode() if "body" in each else base64.b64decode(each["body_base64"])
        assert body == message.body


def test_csv_and_parquet_and_raw_hold_the_same(
    cli: Cli, path: Path, messages: list[StoredMessage], tmp_path: Path
) -> None:
    rows = list(csv.DictReader(io.StringIO(cli("cat", path, "--form", "csv", "--body-as", "base64").out)))
    assert [base64.b64decode(row["body_base64"]) for row in rows] == [each.body for each in messages]
    assert [(row["topic"], row["keys"]) for row in rows] == [(each.topic, " ".join(each.keys)) for each in messages]
    file = tmp_path / "messages.parquet"
    assert cli("cat", path, "--form", "parquet", "-o", file).code == 0
    table = pq.read_table(file)
    assert table.column("body").to_pylist() == [each.body for each in messages]
    assert [dict(each) for each in table.column("properties").to_pylist()] == [each.properties for each in messages]
    stored_ms = [int(each.timestamp() * 1000) for each in table.column("store_time").to_pylist()]
    assert stored_ms == [each.store_timestamp_ms for each in messages]
    raw = tmp_path / "bodies"
    assert cli("cat", path, "--form", "raw", "--output", raw).code == 0
    assert raw.read_bytes() == b"".join(each.body + b"\n" for each in messages)
    refused = cli("cat", path, "--output", raw)
    assert refused.code == 2 and "a file that is not there yet" in refused.err
    assert raw.read_bytes().count(b"created") == COUNT


@pytest.mark.parametrize(
    ("arguments", "numbers"),
    [
        (["head"], range(10)),
        (["head", "-n", "2", "--topic", "orders"], range(2)),
        (["tail", "-n", "4", "-t", "orders"], range(26, 30)),
        (["cat", "--where", "amount > 27"], [28, 29]),
        (["cat", "--tags", "a", "--queue", "0", "--from", "8"], [24]),
        (["cat", "--queue", "1", "--to", "2", "-t", "orders"], [1, 4]),
        (["cat", "--body", "created [12]$"], [1, 2]),
        (["cat", "--key", "k7"], [7]),
        (["cat", "--since", "2020-01-01T00:00:00Z", "--until", "1h"], []),
        (["tail", "--since", "1h", "-n", "2", "-t", "orders"], [28, 29]),
        (["query", "k9"], [9]),
        (["query", "all", "-n", "3", "--tags", "b"], [1, 3, 5]),
    ],
)
def test_what_is_selected(cli: Cli, path: Path, arguments: list[str], numbers: Any) -> None:
    command, *rest = arguments
    if command == "query":
        found = objects(cli("query", path, *rest, "--form", "json"))
    else:
        found = objects(cli(command, path, *rest, "--form", "json"))
    assert [each["body"] for each in found] == [f"created {number}" for number in numbers]


def test_lines_are_for_people(cli: Cli, path: Path) -> None:
    first = cli("head", path, "-n", "1").out
    assert first.endswith("Z  orders/0@0  tags=a  keys=k0,all  9 bytes  created 0\n")
    assert "  256 bytes  base64:AAECAwQF" in cli("tail", path, "-n", "1").out


def test_a_record_field_by_field(cli: Cli, path: Path, messages: list[StoredMessage]) -> None:
    told = cli("get", path, messages[3].message_id, "--form", "hex").out
    assert told.startswith("orders/0@1\n")
    for name, meaning in (
        ("magic", "V1, one byte of topic length"),
        ("store time", iso_time(messages[3].store_timestamp_ms)),
        ("body", "created 3"),
        ("topic", "orders"),
        ("properties", "amount=3; KEYS=k3 all; TAGS=b"),
    ):
        lines = told.splitlines()
        [at] = [i for i, line in enumerate(lines) if f"  {name}  " in line]
        assert lines[at + 1].strip() == f"= {meaning}"


def test_one_message_by_where_it_is(cli: Cli, path: Path, messages: list[StoredMessage]) -> None:
    wanted = messages[7]
    for place in ("orders/1@2", str(wanted.physical_offset), wanted.message_id):
        [found] = objects(cli("get", path, place))
        assert found["body"] == "created 7"
    for place in ("orders/1@99", str(wanted.physical_offset + 1), "0" * 32):
        missing = cli("get", path, place)
        assert missing.code == 1 and missing.out == "" and f"no message at {place}" in missing.err
    for place, says in (("nowhere", "TOPIC/QUEUE@OFFSET"), ("nobody/0@0", "nobody"), ("orders/9@0", "queues 0 to 3")):
        wrong = cli("get", path, place)
        assert wrong.code == 2 and says in wrong.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["cat", "--since", "2026-01-01T00:00:00"], "no time zone"),
        (["cat", "--until", "yesterday"], "or how long ago"),
        (["cat", "--body", "("], "a regular expression"),
        (["cat", "--where", "amount >"], "amount >"),
        (["cat", "--where", "amount > 1", "--tags", "a"], "one of tags and filter"),
    ],
)
def test_wrong_calls(cli: Cli, path: Path, arguments: list[str], says: str) -> None:
    command, *rest = arguments
    finished = cli(command, path, *rest)
    assert finished.code == 2 and says in finished.err and finished.out == ""


def test_nobody_has_the_key(cli: Cli, path: Path) -> None:
    for command in ("query", "trace"):
        assert cli(command, path, "nobody").code == 1


def test_damage_is_told_and_the_rest_is_printed(cli: Cli, path: Path, golden_copy: Callable[[str], Path]) -> None:
    damaged = golden_copy("clean-crcflip") / "store"
    found = cli("cat", damaged, "--form", "json", "--system")
    assert found.code == 1 and "1 damaged message left out; `flightlog verify` says where" in found.err
    assert len(found.out.splitlines()) > 10


def test_the_life_of_a_message(cli: Cli, tmp_path: Path, assert_clean: Callable[[Path], object]) -> None:
    path = tmp_path / "store"
    with flightlog.open(path, StoreSettings.small(deliver_delayed=False)) as store:
        store.put(Message("orders", b"at once", keys="order-7"))
        store.put(Message("orders", b"later", keys="order-7", delay_level=3))
        producer = flightlog.Producer(store)
        with producer.transaction(Message("orders", b"sure", keys="order-7", uniq_key="U1")) as transaction:
            transaction.commit()
        store.put(Message("%RETRY%billing", b"again", keys="order-7", reconsume_times=2))
        store.put(Message("%DLQ%billing", b"dead", keys="order-7", properties={"RETRY_TOPIC": "orders"}))
        store.commit_offset("billing", "orders", 0, 1)
    steps = json.loads(cli("trace", path, "order-7", "--json").out)
    assert [step["what"] for step in steps] == [
        "put",
        "waits for delay level 3, for orders",
        "half message for orders, over with",
        "committed",
        "comes again to billing, attempt 3",
        "dead letter of billing, from orders",
    ]
    assert steps[0]["read_by"] == {"billing": True} and steps[3]["read_by"] in ({}, {"billing": False})
    told = cli("trace", path, "order-7").out
    assert "put; group billing is past it" in told and told.endswith("6 records\n")
    assert_clean(path)


@pytest.fixture
def following(path: Path, tmp_path: Path) -> Iterator[tuple[flightlog.Store, subprocess.Popen[str]]]:
    """A writer, and `tail -f` beside it."""
    store = flightlog.open(tmp_path / "live", StoreSettings.small())
    store.put(Message("orders", b"before"))
    command = [sys.executable, "-P", "-m", "flightlog", "tail", str(store.path), "-f", "--form", "raw", "-t", "orders"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=signals.default_signals,
    ) as process:
        yield store, process
        process.kill()
    store.close()


def test_what_comes_is_followed(following: tuple[flightlog.Store, subprocess.Popen[str]]) -> None:
    store, process = following
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline() == "before\n"
    putting = threading.Thread(
        target=lambda: store.put_many([Message("orders", b"%d" % n, queue_id=n % 4) for n in range(50)])
    )
    putting.start()
    assert [process.stdout.readline() for _ in range(50)] == [f"{number}\n" for number in range(50)]
    putting.join()
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT_S) == 130
    assert process.stderr.read() == ""


def test_following_searches_for_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --since it searched every queue by time at each look."""
    with flightlog.open(tmp_path / "store", StoreSettings.small()) as store:
        store.put(Message("orders", b"before"))
        with flightlog.open_read_only(store.path) as view:
            followed = coming(view, Selection(begin_ms=0, end_ms=1 << 50), {("orders", 0): 1})
            monkeypatch.setattr(flightlog.ReadOnlyStore, "offset_at", lambda *_: pytest.fail("a search by time"))
            store.put(Message("orders", b"new"))
            assert next(followed).body == b"new"


def test_a_closed_pipe_and_an_interrupt_leave_nothing(cli: Cli, path: Path, tmp_path: Path) -> None:
    shell = f"{sys.executable} -P -m flightlog cat {path} | head -1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {shell}"], capture_output=True, text=True)
    assert done.stdout.count("\n") == 1 and done.stderr == ""
    assert cli("cat", path, "--form", "parquet", "-o", tmp_path / "no-folder" / "x").code == 3
    assert list(tmp_path.iterdir()) == []


def test_all_messages_of_a_light_queue_are_selected(golden: Callable[[str], Path]) -> None:
    """Those whose offset in their own queue was beyond the light queue's end were taken for later ones."""
    with flightlog.open_read_only(golden("lmq") / "store") as view:
        for (topic, queue_id), (first, end) in view.queues().items():
            if topic.startswith("%LMQ%"):
                expected = [each.physical_offset for each in view.read(topic, queue_id)]
                selection = Selection(topics=(topic,))
                assert [each.physical_offset for each in selection.messages(view)] == expected
                assert [each.physical_offset for each in selection.newest(view, end)] == expected
                assert len(list(Selection(topics=(topic,), end_offset=first + 3).messages(view))) == 3
